"""Quantiles and most common values of many groups at once, chosen by the exponential mechanism.

The answer is a histogram: for every group the weight of each cell of a public grid. One person moves all of
it by l1 in all, however many groups and cells that is spread over; so one epsilon pays for all groups.

It rests on McSherry and Talwar (2007) for the exponential mechanism and on Smith (2011) for its use on ranks.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import ForIntegers, Law, Mechanism, Vector
from sfumato.mechanisms.selection import Costs, Softmax, softmax_draws

if TYPE_CHECKING:
    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

Target = tuple[Fraction, Fraction, Fraction]  # rank, offset in units of weight, scale


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
        laws: list[Softmax] = []
        for group in split(answer, self.cells):
            summed = [0, *itertools.accumulate(group)]
            is_small = summed[-1] < 1 << 40
            before: Ints = (
                np.array(summed, dtype=np.int64) if is_small else np.array(summed, dtype=np.object_)
            )
            laws += [Softmax(self._costs(before, target)) for target in self.targets]
        return Choices(tuple(laws))

    def _costs(self, before: Ints, target: Target) -> Costs:
        """The distance of every cell, in units of the scale; as whole numbers over one denominator."""
        rank, offset, scale = target
        unit = math.lcm(rank.denominator, offset.denominator)
        wanted = int((rank * int(before[-1]) + offset) * unit)
        if (int(before[-1]) * unit + abs(wanted)) * scale.denominator >= 1 << 62:
            before = before.astype(np.object_)  # weights of any size
        starts, ends = before[:-1] * unit, before[1:] * unit
        below, above = starts - wanted, wanted - ends
        below[0] = above[-1] = 0  # the first cell holds every lower rank, the last one every higher
        costs = np.maximum(np.maximum(below, above), 0) * scale.denominator
        is_small = costs.dtype == np.int64 or int(costs.max()) < 1 << 62
        return Costs(costs.astype(np.int64) if is_small else costs, unit * scale.numerator)

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
