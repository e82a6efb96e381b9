"""Intervals of variances, covariances and correlations: by their own noise, not by that of their parts.

By parts, a variance has the interval of a mean of squares less that of the square of a mean. Both must hold
at once, and both are taken at their worst: a third wider than need be. Instead, Fieller's trick: for the true
mean m and variance v, the sum over rows of (x - m)^2 - v is 0. So what is released of it is pure noise, a
weighted sum of cells with a known law. m is not known, but hardly matters: the sum moves only with the square
of an error in m. So a small part of the error probability buys a set for m, the rest the radius of the noise,
taken at the worst m of that set. A correlation r is the same with the sum over rows of
(x - m)(y - k) - r/2 (q (x - m)^2 + (y - k)^2 / q), where q is the ratio of the standard deviations.

The proof stands in docs/explanation/intervals.md#variances-and-correlations.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.queries.shown import Arithmetic, Function, Mean, Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.linear import Ends, Linear, Noise, Reader
    from sfumato.queries.shown import Expression, Released

    Floats = NDArray[np.float64]
    Range = tuple[Floats, Floats]

NUISANCE = Fraction(1, 8)  # of the error probability: for means, and spreads of a correlation
TRIFLE = 1e-12  # by this part floats are moved outward, far more than their rounding comes to
SLACK = 501 / 500  # how far the search for an end steps beyond it
TRIES = 100  # of that search
WIDE = 32  # means that are known to a 32nd of their bounds are not cut in two


@dataclass(frozen=True, slots=True)
class Known:
    """What an interval is made from: sums, intervals of means, radii of noise, and its laws."""

    sums: Callable[[Mean], tuple[Linear, Linear]]
    mean: Callable[[Mean, Fraction], Reader]
    radius: Callable[[Mapping[Released, Fraction], Fraction], Fraction]
    box_radius: Callable[[Sequence[Noise], Range, Fraction], float]
    noises: tuple[Noise | None, ...]


@dataclass(frozen=True, slots=True)
class Central:
    """The mean product of two values around their means, product/count - first/count * second/count.

    With `less` 1 it is that of a sample: times count / (count - 1).
    """

    product: Mean
    first: Mean
    second: Mean
    less: int = 0


def central_of(expression: Expression) -> Central | None:
    """The variance or covariance that an expression is, if it is one."""
    match expression:
        case Arithmetic("-", Mean() as product, Function("square", (Mean() as first,))):
            return _alike(product, first, first)
        case Arithmetic("-", Mean() as product, Arithmetic("*", Mean() as first, Mean() as second)):
            return _alike(product, first, second)
        case Arithmetic("*", inner, Arithmetic("/", count, Arithmetic("-", other, Number(one)))):
            found = central_of(inner)
            if found is not None and not found.less and one == 1 and found.product.count == count == other:
                return Central(found.product, found.first, found.second, 1)
    return None


def _alike(product: Mean, first: Mean, second: Mean) -> Central | None:
    same = product.count == first.count == second.count
    return Central(product, first, second) if same else None


def correlation_of(expression: Expression) -> tuple[Central, Central, Central] | None:
    """The covariance and the two variances of a correlation, if it is one."""
    match expression:
        case Arithmetic("/", top, Function("root", (Arithmetic("*", left, right),))):
            both, one, other = central_of(top), central_of(left), central_of(right)
            if both is None or one is None or other is None or both.less or one.less or other.less:
                return None
            means = one.first == one.second == both.first and other.first == other.second == both.second
            return (both, one, other) if means and one.product.count == both.product.count else None
    return None


# Weights over a box ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """The weights of the released integers in some sums, as floats, and the laws of their noise."""

    sums: tuple[Floats, ...]
    laws: tuple[Noise, ...]

    @classmethod
    def of(cls, known: Known, sums: Sequence[Linear]) -> _Cells:
        places: list[Released] = list(dict.fromkeys(place for each in sums for place in each.weights))
        laws = [known.noises[place.measure] for place in places]
        assert all(law is not None for law in laws)
        rows = [np.array([float(each.weights.get(p, Fraction(0))) for p in places]) for each in sums]
        return cls(tuple(rows), tuple(law for law in laws if law is not None))


def _hull(arrays: Iterable[Floats]) -> Range:
    stacked = np.array(list(arrays))
    return stacked.min(axis=0), stacked.max(axis=0)


def _squares(a: Floats, b: Floats, c: Floats, m: Ends) -> Range:
    """a - 2 m b + m^2 c over all m: at the ends, or at the vertex in between."""
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.clip(np.nan_to_num(b / c, nan=m[0]), *m)
    return _hull(a - 2 * at * b + at**2 * c for at in (*m, vertex))


def _products(a: Floats, b: Floats, d: Floats, c: Floats, m: Ends, k: Ends) -> Range:
    """a - k b - m d + m k c over all m and k: linear in each, so at the corners."""
    return _hull(a - y * b - x * d + x * y * c for x, y in itertools.product(m, k))


def _plus(one: Range, other: Range) -> Range:
    return one[0] + other[0], one[1] + other[1]


def _times(one: Range, factor: Ends) -> Range:
    return _hull(end * by for end in one for by in factor)


def _sizes(weights: Range, slack: Floats) -> Range:
    """The least and largest size, moved outward."""
    low, high = weights
    least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    most = np.maximum(np.abs(low), np.abs(high))
    return np.maximum(least - slack, 0.0), most + slack


# Readers ---------------------------------------------------------------------------------------------------


def central_reader(known: Known, central: Central, tail: Fraction) -> Reader:
    """The interval of a variance or covariance: by its own noise, cut to what its parts allow."""
    product, count = known.sums(central.product)
    first, second = known.sums(central.first)[0], known.sums(central.second)[0]
    same = central.first == central.second
    rest = tail * (1 - NUISANCE)
    enough, means_reader, bounded = _parts(known, central, tail * NUISANCE)
    try:
        cells = _Cells.of(known, (product, first, second, count))
    except OverflowError:
        return lambda _: _bounds(central)
    a, b, d, c = cells.sums
    size = np.abs(a) + np.abs(b) + np.abs(d) + np.abs(c)

    def within(drawn: Sequence[Sequence[int]]) -> Ends:
        bottom = count.at(drawn)
        if bottom - central.less <= enough:  # there may be no rows at all
            return _bounds(central)
        m, k = means_reader(drawn)
        far = 1 + max(map(abs, (*m, *k)))
        means = float(first.at(drawn) / bottom), float(second.at(drawn) / bottom)
        middle = float(product.at(drawn) - first.at(drawn) * second.at(drawn) / bottom)
        whole, below = float(bottom), float(bottom - central.less)

        def ends(m: Ends, k: Ends) -> Ends:
            weights = _squares(a, b, c, m) if same else _products(a, b, d, c, m, k)

            def half(v: float) -> float:
                moved = _plus(weights, (-v * c, -v * c))
                slack = TRIFLE * (size * far**2 + abs(v) * np.abs(c))
                return known.box_radius(cells.laws, _sizes(moved, slack), rest)

            off = _offsets(*means, m, k, same=same)
            low, high = ((middle + whole * each) / below for each in off)
            return _end(low, below, half, -1), _end(high, below, half, +1)

        found = [ends(*box) for box in _boxes(m, k, means, central)]
        least, most = bounded(drawn)
        slack = TRIFLE * far**2
        low = max(min(each[0] for each in found) - slack, least)
        high = min(max(each[1] for each in found) + slack, most)
        return (low, high) if low <= high else (least, most)

    return within


def _boxes(m: Ends, k: Ends, at: tuple[float, float], central: Central) -> list[tuple[Ends, Ends]]:
    """The means that are possible, cut where they are estimated: weights vary less in each part."""
    one, other = _halves(m, at[0], central.first), _halves(k, at[1], central.second)
    same = central.first == central.second
    return [(each, each) for each in one] if same else list(itertools.product(one, other))


def _halves(ends: Ends, at: float, mean: Mean) -> list[Ends]:
    """Both sides of the estimate, if they are wide enough to matter."""
    wide = (ends[1] - ends[0]) * WIDE > mean.high - mean.low
    return [(ends[0], at), (at, ends[1])] if wide and ends[0] < at < ends[1] else [ends]


def _parts(
    known: Known, central: Central, tail: Fraction
) -> tuple[Fraction, Callable[[Sequence[Sequence[int]]], tuple[Ends, Ends]], Reader]:
    """How large a count must be, the means, and the number itself by interval arithmetic.

    They hold all at once: each gets its share of the tail. Of a sample the count is one of them.
    """
    same, count = central.first == central.second, known.sums(central.first)[1]
    share = tail / ((2 if same else 3) + central.less)
    enough = known.radius(count.weights, share)
    product, first, second = (
        known.mean(each, share) for each in (central.product, central.first, central.second)
    )

    def means(drawn: Sequence[Sequence[int]]) -> tuple[Ends, Ends]:
        m = first(drawn)
        return m, m if same else second(drawn)

    def within(drawn: Sequence[Sequence[int]]) -> Ends:
        fewest = count.at(drawn) - enough
        if fewest <= central.less:
            return _bounds(central)
        (m, k), square = means(drawn), product(drawn)
        corners = [x * y for x in m for y in k]
        if same:
            corners = [max(corners), 0.0 if m[0] <= 0 <= m[1] else min(corners)]
        slack = TRIFLE * (1 + sum(map(abs, (*square, *corners))))
        low, high = square[0] - max(corners) - slack, square[1] - min(corners) + slack
        factor = float(fewest / (fewest - central.less)) * (1 + TRIFLE)  # the more rows, the nearer to 1
        return min(low, low * factor), max(high, high * factor)

    return enough, means, within


def _offsets(first: float, second: float, m: Ends, k: Ends, *, same: bool) -> Ends:
    """The least and largest product of how far both means may be off; a square is not below 0."""
    if same:
        near = 0.0 if m[0] <= first <= m[1] else min(abs(end - first) for end in m)
        return near**2, max((end - first) ** 2 for end in m)
    found = [(x - first) * (y - second) for x in m for y in k]
    return min(found), max(found)


def _end(start: float, size: float, half: Callable[[float], float], sign: int) -> float:
    """The first number seen to lie outside of the set, going up or down from its middle."""
    reach = half(start) / size
    for _ in range(TRIES):
        reach *= SLACK
        needed = half(start + sign * reach) / size
        if needed * (1 + TRIFLE) <= reach:
            return start + sign * reach
        reach = needed
    return sign * math.inf


def _bounds(central: Central) -> Ends:
    """What no variance or covariance of clamped values passes."""
    if central.less:
        return -math.inf, math.inf
    ends = [(float(each.low), float(each.high)) for each in (central.first, central.second)]
    corners = [x * y for x in ends[0] for y in ends[1]]
    if central.first == central.second:
        corners = [max(corners), 0.0 if ends[0][0] <= 0 <= ends[0][1] else min(corners)]
    low, high = float(central.product.low) - max(corners), float(central.product.high) - min(corners)
    return low - TRIFLE * abs(low), high + TRIFLE * abs(high)


def correlation_reader(known: Known, parts: tuple[Central, Central, Central], tail: Fraction) -> Reader:
    """The interval of a correlation."""
    both, one, other = parts
    spared, rest = tail * NUISANCE, tail * (1 - NUISANCE)
    means = [known.mean(each, spared / 6) for each in (both.first, both.second)]
    spreads = [_parts(known, each, spared / 3)[2] for each in (one, other)]
    sums = [known.sums(each.product)[0] for each in parts]
    first, count = known.sums(both.first)
    second = known.sums(both.second)[0]
    try:
        cells = _Cells.of(known, (*sums, first, second, count))
    except OverflowError:
        return lambda _: (-1.0, 1.0)
    xy, xx, yy, x, y, c = cells.sums
    size = sum((np.abs(each) for each in cells.sums), np.zeros(len(c)))

    def within(drawn: Sequence[Sequence[int]]) -> Ends:
        m, k = means[0](drawn), means[1](drawn)
        (least, most), (lowest, highest) = spreads[0](drawn), spreads[1](drawn)
        bottom = float(count.at(drawn))
        if bottom <= 0 or least <= 0 or lowest <= 0:  # a value may be the same in all rows
            return -1.0, 1.0
        q = math.sqrt(lowest / most) * (1 - TRIFLE), math.sqrt(highest / least) * (1 + TRIFLE)
        back = 1 / q[1], 1 / q[0]
        crossed = _products(xy, x, y, c, m, k)
        squared = _plus(_times(_squares(xx, x, c, m), q), _times(_squares(yy, y, c, k), back))
        far = (1 + max(map(abs, (*m, *k)))) ** 2 * (1 + q[1] + back[1])

        def half(r: float) -> float:
            weights = _plus(crossed, _times(squared, (-r / 2, -r / 2)))
            return known.box_radius(cells.laws, _sizes(weights, TRIFLE * size * far), rest)

        at = [float(each.at(drawn)) for each in (*sums, first, second)]
        ratio = at[3] / bottom, at[4] / bottom
        top = [at[0] - at[3] * ratio[1] + bottom * off for off in _offsets(*ratio, m, k, same=False)]
        below = _below(at, ratio, bottom, q, (m, k))
        if below[0] <= 0:
            return -1.0, 1.0
        low = _signed_end(top[0], below, half, -1)
        high = _signed_end(top[1], below, half, +1)
        return max(low - TRIFLE, -1.0), min(high + TRIFLE, 1.0)

    return within


def _below(
    at: list[float], ratio: tuple[float, float], bottom: float, q: Ends, means: tuple[Ends, Ends]
) -> Ends:
    """The least and largest of half the sum of q (x - m)^2 + (y - k)^2 / q, over all that is not known."""
    spreads = at[1] - at[3] * ratio[0], at[2] - at[4] * ratio[1]
    offs = [_offsets(r, r, m, m, same=True) for r, m in zip(ratio, means, strict=True)]
    ends = []
    for side, pick in ((0, min), (1, max)):
        one, other = (spread + bottom * off[side] for spread, off in zip(spreads, offs, strict=True))
        tried = [*q]
        if one > 0 and other > 0:
            tried.append(min(max(math.sqrt(other / one), q[0]), q[1]))
        ends.append(pick((p * one + other / p) / 2 for p in tried))
    return ends[0] * (1 - TRIFLE), ends[1] * (1 + TRIFLE)


def _signed_end(top: float, below: Ends, half: Callable[[float], float], sign: int) -> float:
    """As `_end`, where the divisor is known by its ends alone: the one that brings the end further out."""

    def size(r: float) -> float:
        return below[0] if sign * r >= 0 else below[1]

    at = top / size(top)
    for _ in range(TRIES):
        beyond = at + sign * half(at) / below[0] * (SLACK - 1)
        if sign * beyond >= 1:
            return float(sign)
        if sign * (beyond * size(beyond) - top) >= half(beyond) * (1 + TRIFLE):
            return beyond
        needed = top + sign * half(beyond)
        at = needed / size(needed)
    return float(sign)
