"""How wrong a released number may be for what caps cut, beside its noise.

A count or a sum gets back what is estimated to be lost above the cap, in proportion to the groups. That is
off for all groups alike, since the estimate is, and for each group by itself, since people with much are not
spread evenly. A ratio loses on both sides; there it matters only that the rows of some people weigh less.
What is known of it stands in the measure (`cells.Shortfall`).

Post-processing of released numbers: floats are allowed. A normal law is close enough for what is an estimate.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from sfumato.curator.linear import Linear
from sfumato.queries.cells import CUT_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.linear import Ends, Reader
    from sfumato.queries.cells import Shortfall

    Drawn = Sequence[Sequence[int]]
    Cuts = Callable[[int], Shortfall | None]

REACH = 1.046  # how much wider than a normal law's the interval of what was cut is
RAREST = 1e-12
NANO = 1e-9


def cut_reader(cut: Cuts, whole: Drawn, linear: Linear, tail: Fraction) -> Callable[[Drawn], float] | None:
    """How far off a count or sum may be for what is not known of people above a cap; None where nothing is
    cut. `whole` is what was released for all groups together."""
    found = {r.measure: each for r in linear.weights if (each := cut(r.measure)) is not None}
    if not any(each.wrong or each.apart for each in found.values()):
        return None
    reach = REACH * _deviations(tail)
    parts = [
        (each, Linear(Fraction(0), {r: w for r, w in linear.weights.items() if r.measure == measure}))
        for measure, each in found.items()
    ]

    def off(drawn: Drawn) -> float:
        squares = 0.0
        for each, part in parts:
            here = abs(float(part.at(drawn)))
            there = max(abs(float(part.at(whole))) if whole else 0.0, here)
            squares += (here * each.wrong * NANO) ** 2 + here * (there - here) * (each.apart * NANO) ** 2
        return reach * math.sqrt(squares)

    return off


def mixed_reader(
    cut: Cuts, whole: Drawn, top: Linear, bottom: Linear, ratio: Reader, tail: Fraction
) -> Reader:
    """The interval of a ratio, also as far as people are cut in it who are not like the others: as if the
    rows of each person were like those of any other."""
    measures = {r.measure for r in (*top.weights, *bottom.weights)}
    found = cut(next(iter(measures))) if len(measures) == 1 else None
    if found is None or not (found.mixed or found.kind == CUT_VALUES):
        return ratio
    reach, (least, most) = REACH * _deviations(tail), _of_rows(top, bottom)

    def within(drawn: Drawn) -> Ends:
        low, high = ratio(drawn)
        rows = float(bottom.at(drawn))
        if math.isinf(low) or math.isinf(high) or rows <= 0:
            return low, high
        middle = float(top.at(drawn)) / rows
        if found.kind == CUT_VALUES:
            off = reach * found.wrong * NANO * abs(middle)
        else:
            all_ = max(float(bottom.at(whole)) if whole else 0.0, rows)
            variance = max((most - middle) * (middle - least), 0.0)
            off = reach * found.mixed * NANO * math.sqrt(variance * all_ / rows)
        return middle - math.hypot(middle - low, off), middle + math.hypot(high - middle, off)

    return within


def _of_rows(top: Linear, bottom: Linear) -> Ends:
    """Between which bounds the ratio of a single row lies: of a share, 0 and 1."""
    parts = [float(top.weights.get(each, 0) / weight) for each, weight in bottom.weights.items() if weight]
    return min(parts, default=0.0), max(parts, default=0.0)


def beside(radius: Fraction, off: float) -> Fraction:
    """Two errors that have nothing to do with each other."""
    if not off:
        return radius
    return Fraction(math.hypot(float(radius), off)) if radius < 1 << 500 else radius + Fraction(off)


@lru_cache(maxsize=64)
def _deviations(tail: Fraction) -> float:
    """How many deviations a normal law passes so seldom."""
    return NormalDist().inv_cdf(1 - float(tail) / 2) if tail > RAREST else 8.0
