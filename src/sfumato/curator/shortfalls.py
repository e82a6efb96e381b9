"""How wrong a released number may be for what caps cut, beside its noise.

A count or a sum gets back what is estimated to be lost above the cap, in proportion to the groups. That is
off for all groups alike, since the estimate is, and for each group by itself, since people with much are not
spread evenly. A ratio loses on both sides; there it matters only that the rows of some people weigh less.
What is known of it stands in the measure (`cells.Shortfall`).

Post-processing of released numbers: floats are allowed. A normal law is close enough for what is an estimate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from sfumato.curator.linear import Linear
from sfumato.mechanisms import Additive
from sfumato.mechanisms.mechanism import Symmetric
from sfumato.queries.cells import CUT_MEANS, CUT_VALUES
from sfumato.queries.measures import Moments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.budget import Draw
    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.linear import Ends, Reader
    from sfumato.mechanisms import Line
    from sfumato.queries.cells import Shortfall
    from sfumato.queries.plan import Plan

    Drawn = Sequence[Sequence[int]]
    Cuts = Callable[[int], Shortfall | None]

REACH = 1.046  # how much wider than a normal law's the interval of what was cut is
RAREST = 1e-12
NANO = 1e-9
# of averages whose rows and totals are known: how often people with many rows are taken to be different, by
# how much of the mean (one standard deviation), and how well it must be known to say so
DIFFERENT, BY, KNOWN = 0.3, 0.5, 0.15
SURELY = 0.6  # so likely it must be that they are different, before averages are made right
OTHERS = 0.05  # of the rows may be missing in the groups, or have no value


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


def settled(plan: Plan, query: Calibration, whole: Drawn, groups: int) -> Plan:
    """The plan with averages made right, as far as the histograms that were released before tell that people
    with many rows are different: by what all groups together came to under the cap."""
    measures = []
    for i, (measure, step) in enumerate(zip(plan.measures, query.steps, strict=True)):
        cut = measure.cut if isinstance(measure, Moments) else None
        if cut is not None and cut.rows and isinstance(step.mechanism, Additive):
            assert isinstance(measure, Moments)
            there = settled_cut(cut, whole[i][:2], measure.whole, step.mechanism.noise, groups)
            measure = replace(measure, cut=there)
        measures.append(measure)
    return replace(plan, measures=tuple(measures))


def all_together(plan: Plan, drawn: Draw) -> list[list[int]]:
    """What was drawn for all groups, added up cell by cell; of what is chosen, nothing."""
    return [
        [sum(map(int, vector[i :: measure.places])) for i in range(measure.places)]
        if isinstance(measure, Moments)
        else []
        for measure, vector in zip(plan.measures, drawn, strict=True)
    ]


def settled_cut(cut: Shortfall, cells: Sequence[int], one: int, noise: Line, groups: int) -> Shortfall:
    """What is added to the values of rows, by the mean they have under the cap and the one that is known.

    That people with many rows are different is likely if both lie apart by more than either may be off:
    the median of what is then believed, of a law that is a point or normal, and its deviation around that.
    """
    (low, high), off = cells, math.sqrt(groups) * noise_deviation(noise)
    rows = (low + high) / one
    if low + high <= 10 * off or high <= 10 * off:
        return cut
    others = abs(rows / cut.rows - 1)
    here, known = high / (low + high), cut.mean * NANO
    unsure = math.hypot(cut.wrong * NANO, off / high, others / 2)
    if others > OTHERS + 3 * (off / (low + high) + cut.wrong * NANO) or unsure > KNOWN:
        return cut
    apart = known / here - 1
    wide = math.hypot(unsure, BY)
    surely = DIFFERENT * math.exp(-((apart / wide) ** 2) / 2) / wide
    other = (1 - DIFFERENT) * math.exp(-((apart / unsure) ** 2) / 2) / unsure
    chance = surely / (surely + other) if surely + other else 1.0
    share = (BY / wide) ** 2
    # as long as it is rather not so, nothing is added, but it may be so
    back = share * apart if chance > SURELY else 0.0
    squares = chance * (share * unsure**2 + (share * apart - back) ** 2) + (1 - chance) * back**2
    wrong = math.sqrt(max(squares, 0.0)) / max(1 + back, KNOWN)
    return replace(cut, back=round(back / NANO), wrong=round(wrong / NANO), kind=CUT_MEANS)


def noise_deviation(noise: Line) -> float:
    """The standard deviation of a law."""
    assert isinstance(noise, Symmetric)
    return math.sqrt(noise.variance)


def mixed_reader(
    cut: Cuts, whole: Drawn, top: Linear, bottom: Linear, ratio: Reader, tail: Fraction
) -> Reader:
    """The interval of a ratio, also as far as people are cut in it who are not like the others: as if the
    rows of each person were like those of any other."""
    measures = {r.measure for r in (*top.weights, *bottom.weights)}
    found = cut(next(iter(measures))) if len(measures) == 1 else None
    if found is None or not (found.mixed or found.kind in (CUT_VALUES, CUT_MEANS)):
        return ratio
    reach, (least, most) = REACH * _deviations(tail), _of_rows(top, bottom)

    def within(drawn: Drawn) -> Ends:
        low, high = ratio(drawn)
        rows = float(bottom.at(drawn))
        if math.isinf(low) or math.isinf(high) or rows <= 0:
            return low, high
        middle = float(top.at(drawn)) / rows
        off = 0.0
        if found.kind in (CUT_VALUES, CUT_MEANS):
            off = reach * found.wrong * NANO * abs(middle)
        if found.kind != CUT_VALUES:
            all_ = max(float(bottom.at(whole)) if whole else 0.0, rows)
            variance = max((most - middle) * (middle - least), 0.0)
            off = math.hypot(off, reach * found.mixed * NANO * math.sqrt(variance * all_ / rows))
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
