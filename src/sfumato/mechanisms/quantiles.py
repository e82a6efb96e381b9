"""Quantiles and most common values of many groups at once, chosen by the exponential mechanism.

The answer is a histogram: for every group the weight of each cell of a public grid. One person moves all of
it by l1 in all, however many groups and cells that is spread over; so one epsilon pays for all groups.

It rests on McSherry and Talwar (2007) for the exponential mechanism, on Smith (2011) for its use on ranks,
and on Durfee and Rogers (2019) for its price: the length of the range in which scores move.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import ForIntegers, Law, Mechanism, Vector
from sfumato.mechanisms.selection import Costs, Softmax, softmax_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

Target = tuple[Fraction, Fraction, Fraction]  # rank, offset in units of weight, scale
# rank, offset, the scales below and above it; then the margin of the ends and their scale, if they are drawn
Aim = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Choices(Law[Vector]):
    """One candidate from each of several independent laws."""

    laws: tuple[Softmax, ...] = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        return tuple(softmax_draws(self.laws, coins))

    def log_mass(self, y: Vector) -> Interval:
        parts = (law.log_mass(each) for law, each in zip(self.laws, y, strict=True))
        return sum(parts, start=numbers.log(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(ForIntegers, Mechanism[Vector, Vector]):
    """For every group and target a cell whose ranks lie near rank * (weight of the group) + offset.

    A cell j with weight B before it and w in it lies at the distance max(0, B - r, r - B - w) from the rank
    r, and is chosen with probability proportional to exp(-distance / scale). The first cell holds all ranks
    below it as well, and the last one all above, so that some cell always has distance 0.

    Guarantee: pure DP, epsilon = the sum over targets of 2 max(rank, 1 - rank) l1 / scale; and zCDP, the sum
    of the eighths of their squares. Proof: docs/explanation/quantiles.md#guarantee.

    >>> median = Quantiles(cells=5, targets=((Fraction(1, 2), Fraction(0), Fraction(1, 10)),))
    >>> law = median.law((3, 0, 1, 0, 3))
    >>> round(law.laws[0].probability(2), 4)
    0.9738
    """

    name: ClassVar[str] = "quantiles"
    cells: int
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        checked = []
        for rank, offset, scale in self.targets:
            if not 0 <= exact("rank", rank) <= 1:
                raise InvalidParameter("rank", rank, "a rank lies between 0 and 1")
            checked.append((exact("rank", rank), exact("offset", offset), rational("scale", scale)))
        if not checked:
            raise InvalidParameter("targets", "none", "give at least one (rank, offset, scale)")
        set_fields(self, cells=whole("cells", self.cells, least=1), targets=tuple(checked))

    def law(self, answer: Vector) -> Choices:
        laws = [
            Softmax(_costs(before, rank, offset, scale, scale))
            for before in map(_summed, split(answer, self.cells))
            for rank, offset, scale in self.targets
        ]
        return Choices(tuple(laws))

    def _bound(self, distance: Distance) -> Bound:
        if distance.l1 is None:
            return Bound()
        parts = [2 * max(rank, 1 - rank) * distance.l1 / scale for rank, _, scale in self.targets]
        return Bound(epsilon=sum(parts, Fraction(0)), rho=sum((each**2 for each in parts), Fraction(0)) / 8)

    def radius(self, target: int, tail: Fraction) -> Fraction:
        """How far from its rank the chosen cell lies at most, but for a chance of `tail`.

        The nearest cell has distance 0 and weight 1, so all cells farther than t have at most the
        number of cells times e^(-t/scale).
        """
        return self.targets[target][2] * numbers.log(self.cells / rational("tail", tail)).high

    def off(self, place: int, tail: Fraction) -> Fraction:
        """The same from the rank without its offset, for the number at a place of the outcome."""
        return self.radius(place, tail) + abs(self.targets[place][1])


@dataclass(frozen=True, slots=True)
class Bracket:
    """What one quantile of one group is drawn from: its cell, then, seen from there, the ends around it."""

    before: Ints = field(repr=False)  # the weight before each cell, and all of it
    aim: Aim
    value: Softmax

    def ends(self, value: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The low ends and the high ends that there are, from the value outward."""
        last = len(self.before) - 2
        if len(self.aim) == 4:
            low, high = (0, value) if self.aim[0] == 0 else (value, last)
            return np.array([low]), np.array([high])
        steps = np.array(_outward(last + 1), dtype=np.int64)
        lows, highs = (steps[: np.searchsorted(steps, room)] for room in (value, last - value))
        return np.append(value - lows, 0), np.append(value + highs, last)

    def pairs(self, value: int) -> Softmax:
        """The law of the pair of ends around a value: how far its worse end lies from its margin."""
        lows, highs = self.ends(value)
        if len(self.aim) == 4:
            return Softmax(Costs(np.zeros(1, dtype=np.int64), 1))
        rank, _, _, _, margin, scale = self.aim
        unit = math.lcm(rank.denominator, margin.denominator)
        whole, wanted = int(self.before[-1]), int(margin * unit)
        before = self.before
        if (2 * whole * unit + abs(wanted)) * scale.denominator >= 1 << 62:
            before = before.astype(np.object_)
        middle = int(rank * whole * unit)
        sides = (middle - before[lows] * unit, before[highs + 1] * unit - middle)
        low, high = (_misses(side, wanted) for side in sides)
        costs = np.maximum(low[:, None], high[None, :]).reshape(-1) * scale.denominator
        is_small = costs.dtype == np.int64 or int(costs.max()) < 1 << 62
        return Softmax(Costs(costs.astype(np.int64) if is_small else costs, unit * scale.numerator))


def _misses(beyond: Ints, wanted: int) -> Ints:
    """How far each end lies from the first that is so far beyond the rank: too near, or farther than needed.

    Ends are listed outward. The last one is the end of the range, which is never too near.
    """
    near, far = wanted - beyond, np.zeros_like(beyond)
    near[-1], far[1:] = 0, beyond[:-1] - wanted
    found: Ints = np.maximum(np.maximum(near, far), 0)
    return found


@dataclass(frozen=True, slots=True)
class Bracketed(Law[Vector]):
    """Of each quantile its cell and its two ends, one after the other."""

    brackets: tuple[Bracket, ...] = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        values = softmax_draws([each.value for each in self.brackets], coins)
        both = list(zip(self.brackets, values, strict=True))
        pairs = softmax_draws([each.pairs(value) for each, value in both], coins)
        found: list[int] = []
        for (each, value), pair in zip(both, pairs, strict=True):
            lows, highs = each.ends(value)
            low, high = divmod(pair, len(highs))
            found += [value, int(lows[low]), int(highs[high])]
        return tuple(found)

    def log_mass(self, y: Vector) -> Interval:
        if len(y) != 3 * len(self.brackets):
            raise InvalidParameter("y", y, "an outcome is a cell and two ends for each quantile")
        total = numbers.log(1)
        for n, each in enumerate(self.brackets):
            value, low, high = y[3 * n : 3 * n + 3]
            total = total + each.value.log_mass(value)
            lows, highs = (ends.tolist() for ends in each.ends(value))
            if low not in lows or high not in highs:
                raise InvalidParameter("y", y, f"no interval around {value} has the ends {low} and {high}")
            pair = lows.index(low) * len(highs) + highs.index(high)
            total = total + each.pairs(value).log_mass(pair)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileIntervals(ForIntegers, Mechanism[Vector, Vector]):
    """For every group and target a cell whose ranks lie near a rank, and an interval around that cell.

    The cell is drawn as in `Quantiles`, with a scale for the cells `below` the target and one for those
    `above` it. The interval is drawn when the cell is known, from a list that depends on it alone: ends lie
    0, 1, 2, 3, 4, 6, 8, 12, ... cells away, or at the end of the range. A pair of ends is chosen with
    probability proportional to exp(-miss / scale), where its miss is how far the worse of its ends is from
    the first one that lies `margin` beyond the rank. A target of rank 0 or 1 without margin and scale has
    no draw for its interval: it is the range up to the cell, or from there.

    Guarantee: pure DP, epsilon = the sum over targets of max(1/below, 1/above, max(rank, 1 - rank) (1/below +
    1/above)) l1 and 2 max(rank, 1 - rank) l1 / scale; and zCDP, the sum of the eighths of their squares.
    Proof: docs/explanation/quantiles.md#value-and-interval.

    >>> aim = (Fraction(1, 2), Fraction(0), Fraction(1, 9), Fraction(1, 9), Fraction(1), Fraction(1, 9))
    >>> law = QuantileIntervals(cells=5, targets=(aim,)).law((3, 0, 1, 0, 3))
    >>> round(law.probability((2, 0, 4)), 4)
    0.8793
    """

    name: ClassVar[str] = "quantile intervals"
    cells: int
    targets: tuple[Aim, ...]

    def __post_init__(self) -> None:
        if not self.targets:
            raise InvalidParameter("targets", "none", "give at least one")
        targets = tuple(_checked(aim) for aim in self.targets)
        set_fields(self, cells=whole("cells", self.cells, least=1), targets=targets)

    def law(self, answer: Vector) -> Bracketed:
        return Bracketed(
            tuple(
                Bracket(before, aim, Softmax(_costs(before, *aim[:4])))
                for before in map(_summed, split(answer, self.cells))
                for aim in self.targets
            )
        )

    def _bound(self, distance: Distance) -> Bound:
        if distance.l1 is None:
            return Bound()
        parts = [part * distance.l1 for aim in self.targets for part in _prices(aim)]
        return Bound(epsilon=sum(parts, Fraction(0)), rho=sum((each**2 for each in parts), Fraction(0)) / 8)

    def radius(self, target: int, tail: Fraction) -> Fraction:
        """How far from what it aims at the chosen cell lies at most, but for a chance of `tail`."""
        _, _, below, above, *_ = self.targets[target]
        return max(below, above) * numbers.log(self.cells / rational("tail", tail)).high

    def off(self, place: int, tail: Fraction) -> Fraction:
        """The same from the rank without its offset, for the number at a place of the outcome."""
        return self.radius(place // 3, tail) + abs(self.targets[place // 3][1])


def _checked(aim: Aim) -> Aim:
    if len(aim) not in (4, 6) or not 0 <= exact("rank", aim[0]) <= 1:
        raise InvalidParameter(
            "targets", aim, "give rank, offset, below, above, margin, scale; 0 <= rank <= 1"
        )
    if len(aim) == 4 and aim[0] not in (0, 1):
        raise InvalidParameter(
            "targets", aim, "only the ranks 0 and 1 need no margin and scale for their ends"
        )
    rank, offset, below, above = aim[:4]
    value = exact("rank", rank), exact("offset", offset), rational("below", below), rational("above", above)
    return value if len(aim) == 4 else (*value, exact("margin", aim[4]), rational("scale", aim[5]))


def _prices(aim: Aim) -> list[Fraction]:
    """The epsilon of each draw, for every unit of weight that a person moves."""
    rank, _, below, above, *ends = aim
    most = max(rank, 1 - rank)
    value = max(1 / below, 1 / above, most * (1 / below + 1 / above))
    return [value, 2 * most / ends[1]] if ends else [value]


@lru_cache(maxsize=1024)
def _outward(cells: int) -> tuple[int, ...]:
    """0, 1, 2, 3, 4, 6, 8, 12, ...: how many cells away from a value ends may lie."""
    found = {0, *(1 << n for n in range(cells.bit_length())), *(3 << n for n in range(cells.bit_length()))}
    return tuple(sorted(each for each in found if each < cells))


@lru_cache(maxsize=1024)
def most_pairs(cells: int) -> int:
    """Of how many pairs of ends an interval is chosen at most, wherever the value lies.

    >>> most_pairs(1), most_pairs(100), most_pairs(65536)
    (1, 169, 992)
    """
    steps = _outward(cells)
    starts = (min(step + 1, cells - 1) for step in steps)  # there the number of low ends grows
    return max(
        (bisect.bisect_left(steps, value) + 1) * (bisect.bisect_left(steps, cells - 1 - value) + 1)
        for value in {0, *starts}
    )


def _summed(group: list[int]) -> Ints:
    """The weight before each cell, and all of it."""
    summed = [0, *itertools.accumulate(group)]
    is_small = summed[-1] < 1 << 40
    return np.array(summed, dtype=np.int64) if is_small else np.array(summed, dtype=np.object_)


def _costs(before: Ints, rank: Fraction, offset: Fraction, below: Fraction, above: Fraction) -> Costs:
    """The distance of every cell in units of its side's scale; as whole numbers over one denominator."""
    unit = math.lcm(rank.denominator, offset.denominator)
    wanted = int((rank * int(before[-1]) + offset) * unit)
    scaled = math.lcm(below.numerator, above.numerator)
    lower, upper = (each.denominator * (scaled // each.numerator) for each in (below, above))
    if (int(before[-1]) * unit + abs(wanted)) * max(lower, upper) >= 1 << 62:
        before = before.astype(np.object_)  # weights of any size
    starts, ends = before[:-1] * unit, before[1:] * unit
    past, short = starts - wanted, wanted - ends
    past[0] = short[-1] = 0  # the first cell holds every lower rank, the last one every higher
    costs = np.maximum(np.maximum(past * upper, short * lower), 0)
    is_small = costs.dtype == np.int64 or int(costs.max()) < 1 << 62
    return Costs(costs.astype(np.int64) if is_small else costs, unit * scaled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes(ForIntegers, Mechanism[Vector, Vector]):
    """For every group a cell, with probability proportional to exp(weight / scale).

    Guarantee: pure DP, epsilon = l1 / scale; and zCDP, an eighth of its square.
    Proof: docs/explanation/quantiles.md#modes.
    """

    name: ClassVar[str] = "modes"
    cells: int
    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, cells=whole("cells", self.cells, least=1), scale=rational("scale", self.scale))

    def law(self, answer: Vector) -> Choices:
        return Choices(tuple(Softmax(Costs.of(group, self.scale)) for group in split(answer, self.cells)))

    def _bound(self, distance: Distance) -> Bound:
        if distance.l1 is None:
            return Bound()
        epsilon = distance.l1 / self.scale
        return Bound(epsilon=epsilon, rho=epsilon**2 / 8)


def split(answer: Vector, cells: int) -> list[list[int]]:
    """The cells of each group."""
    vector = whole_vector(answer)
    if len(vector) % cells:
        raise InvalidParameter("answer", f"{len(vector)} numbers", f"give {cells} for every group")
    return [list(vector[start : start + cells]) for start in range(0, len(vector), cells)]
