"""Counts of groups whose rows add up to a number that is public: adjusted to it by least squares.

If G groups with C cells each are released with noise of one law, and all cells together are known to come to
N, what lies nearest to the released vector and keeps to N is each cell less a GCth of what is too much. So it
is a weighted sum of released integers as before: of the cells of its group, and of the sum of all other cells
less N. That sum is put beside the cells, as one more released integer, with the law of so many draws.

Where a cap cuts, what is released comes to less than N, and to how much less is not known. Then a count is N
times its part of all counts, and the cap matters as far as it cuts some groups more than others.

The proof stands in docs/explanation/intervals.md#declared-totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.convolution import FOURIER, repeated
from sfumato.queries.measures import cut_of, total_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.linear import Noise
    from sfumato.queries.declared import Value
    from sfumato.queries.plan import Plan

    Floats = NDArray[np.float64]
    Group = tuple[Value | None, ...]
    Vectors = list[tuple[tuple[int, ...], ...]]

SPARED = Fraction(1, 1 << 100)  # of all draws together: what lies outside of the blocks
FEW, FEW_BLOCKS, BLOCKS = 64, 1 << 14, 1 << 16  # into which one draw is cut, of a few of them or of many
TRIFLE = 1e-9  # of a logarithm: more than it is rounded by
SLOPES = 90  # of Chernoff's bound


def with_rests(
    plan: Plan, groups: Sequence[Group], vectors: Vectors, shown: Sequence[Group], found: Vectors
) -> Vectors:
    """What was `found` for the `shown` groups or totals, and beside the cells of a measure with a declared
    total what all other cells that share it come to, less that total; where a cap cuts, what they come to."""
    for i, measure in enumerate(plan.measures):
        total = total_of(measure)
        if total is None:
            continue
        key = total.key
        whole = int(1 / measure.one) if cut_of(measure) is None else 0
        rows: Mapping[Value | None, int] = {None: total.rows[0]}
        if key is not None:
            rows = dict(zip(plan.keys[key].values or (), total.rows, strict=True))
        all_ = {value: -count * whole for value, count in rows.items()}
        for group, vector in zip(groups, vectors, strict=True):
            all_[None if key is None else group[key]] += sum(vector[i])
        if key is not None:  # of a total over its values
            all_[None] = sum(all_.values())
        found = [
            (*v[:i], (*v[i], all_[None if key is None else g[key]] - sum(v[i])), *v[i + 1 :])
            for g, v in zip(shown, found, strict=True)
        ]
    return found


def sharing(plan: Plan, group: Group) -> int | None:
    """How many groups share the declared total of those that a group, or a total over groups, is made of;
    None if nothing is said, or as many as share that of one group."""
    total = next(filter(None, map(total_of, plan.measures)), None)
    return plan.size if total is not None and total.key is not None and group[total.key] is None else None


def together(plan: Plan, vectors: Vectors) -> tuple[tuple[tuple[int, ...], ...], int | None]:
    """What was released for several groups in sum, and how many groups share its total: 0 if it is not
    adjusted to one, since each of them may have its own."""
    found = [tuple(map(sum, zip(*parts, strict=True))) for parts in zip(*vectors, strict=True)]
    totals = [total_of(each) for each in plan.measures]
    if any(each is not None and each.key is not None for each in totals):
        return tuple(found), 0
    for i, total in enumerate(totals):
        if total is not None:
            *cells, _ = found[i]
            found[i] = (*cells, sum(vectors[0][i]) - sum(cells))
    return tuple(found), None


def summed(noise: Noise, times: int) -> Noise:
    """The law of so many independent draws, added up."""
    return NOTHING if not times else noise if times == 1 else _of(noise, times)


@dataclass(frozen=True, slots=True)
class Nothing:
    """The law of a number without noise."""

    def window(self, tail: Fraction) -> range:
        del tail
        return range(1)

    def tails(self, points: Floats) -> Floats:
        return np.where(points < 0, 1.0, 0.0)


NOTHING = Nothing()


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """The sum of many draws of a symmetric law, as bounds from above on how likely it is to pass a point.

    One draw is cut into blocks, each moved to its upper end, which only makes large sums more likely. Their
    power is taken by Fourier's transform; where that is not exact enough, far out, Chernoff's bound is.
    """

    width: float
    start: int  # of the blocks
    upper: Floats  # the chance of each block or a higher one
    error: float  # of the transform
    slopes: Floats
    logs: Floats  # of the moments at these slopes

    def tails(self, points: Floats) -> Floats:
        """At most so likely is it to be above each point, on either side of 0."""
        near = np.clip(points, -1e300, 1e300)
        far = np.min(self.logs[:, None] - self.slopes[:, None] * near[None, :], axis=0)
        bound = np.exp(np.minimum(far, 0.0))
        if len(self.upper):
            first = np.clip(np.floor(near / self.width) - self.start, 0, len(self.upper) - 1)
            bound = np.minimum(bound, self.upper[first.astype(np.int64)] + self.error)
        found: Floats = np.minimum(bound + float(SPARED), 1.0)
        return found

    def window(self, tail: Fraction) -> range:
        """A range that leaves at most tail/2 on either side."""
        enough, low, high = float(tail) / 2 * (1 - TRIFLE), 0, 1
        while self._beyond(high) > enough:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._beyond(middle) <= enough else (middle, high)
        return range(-high, high + 1)

    def _beyond(self, radius: int) -> float:
        return float(self.tails(np.array([float(radius)]))[0])


@lru_cache(maxsize=256)
def _of(noise: Noise, times: int) -> Summed:
    reach = noise.window(SPARED / times)[-1] + 1
    half = (FEW_BLOCKS if times <= FEW else BLOCKS) // 2
    width, first = reach / half, -half - 1
    edges = np.arange(first, half + 1, dtype=np.float64) * width
    edges[0] = -np.inf
    beyond = noise.tails(np.maximum(edges, -1e18))
    beyond[0] = 1.0
    masses, start = np.maximum(beyond[:-1] - beyond[1:], 0.0), first + 1
    # by Chernoff's bound, P(S > t) is at most E[exp(s X)]^times exp(-s t), for any s
    at = np.arange(start, start + len(masses), dtype=np.float64) * width
    slopes = np.geomspace(1e-6, 1.0, SLOPES) * (600 / reach)
    moments = [float(np.exp(s * at) @ masses) for s in slopes]
    logs = np.array([times * (math.log(max(each, 1.0)) * (1 + TRIFLE) + FOURIER) for each in moments])
    found = repeated(masses, start, times, float(SPARED))
    if found is None:
        return Summed(width, 0, np.zeros(0), 0.0, slopes, logs)
    power, lowest = found
    upper = np.append(np.cumsum(power[::-1])[::-1], 0.0)
    # a sum in the block that ends at k * width, or a higher one, is above every point below that end
    return Summed(width, lowest - 1, upper, times * FOURIER + float(SPARED), slopes, logs)
