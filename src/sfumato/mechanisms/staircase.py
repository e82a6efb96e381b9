"""Staircase noise: for one number, the least expected error that noise can have at its epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import bulk, numbers, samplers
from sfumato.mechanisms.arguments import price, rational, set_fields, whole
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import Additive, Symmetric
from sfumato.mechanisms.noise import float_ratio, needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints, InverseTable
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

STEEP = 4  # from this epsilon on levels are looked up: a rejection would keep only one in e^(epsilon/2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stairs(Symmetric):
    """Integers y whose probability falls by exp(-epsilon) every `width` steps, the first fall after `flat`.

    The level of y is 0 for |y| < flat, 1 for the next `width` magnitudes, and so on; the mass is
    proportional to exp(-epsilon level).
    """

    epsilon: Fraction
    width: int
    flat: int

    def __post_init__(self) -> None:
        width = whole("width", self.width, least=1)
        rational("width", width)
        if not 1 <= (flat := whole("flat", self.flat)) <= width:
            raise InvalidParameter("flat", flat, f"give a number from 1 to the width, {width}")
        if (epsilon := price("epsilon", self.epsilon)) < Fraction(1, 1 << 64):
            raise InvalidParameter("epsilon", epsilon, "give at least 2^-64")
        set_fields(self, epsilon=epsilon, width=width, flat=flat)

    def level(self, y: int) -> int:
        """How many times the probability has fallen at y."""
        return (abs(y) - self.flat) // self.width + 1 if abs(y) >= self.flat else 0

    def draw(self, coins: Coins) -> int:
        if self.epsilon < STEEP:
            return samplers.loop(self.attempt, coins)
        return self._placed(_levels(self).draw(coins), coins)

    def attempt(self, coins: Coins) -> int | None:
        """A geometric level, all of them `width` wide; what of level 0 lies beyond `flat` fails."""
        level = samplers.geometric(1 / self.epsilon, coins)
        if level == 0 and coins.below(2 * self.width) >= 2 * self.flat - 1:
            return None  # level 0 has 2 flat - 1 places, the others 2 width
        return self._placed(level, coins)

    def _placed(self, level: int, coins: Coins) -> int:
        """Any place on this level."""
        if level == 0:
            return coins.below(2 * self.flat - 1) - (self.flat - 1)
        place = coins.below(2 * self.width)
        magnitude = self.flat + (level - 1) * self.width + place // 2
        return -magnitude if place % 2 else magnitude

    def draws(self, coins: Coins, size: int) -> Ints:
        if self.epsilon >= STEEP:
            return self._all_placed(_levels(self).draws(size, coins), coins)
        levels = bulk.gathered(lambda missing: self._some_levels(2 * missing + 16, coins), size)
        return self._all_placed(levels, coins)

    def _some_levels(self, count: int, coins: Coins) -> Ints:
        turn = bulk.discrete_laplace(1 / self.epsilon, count, coins)
        level: Ints = np.maximum(turn, -1 - turn)  # given the sign of a two-sided draw, this is geometric
        first = np.flatnonzero(level == 0)
        kept = np.ones(len(level), dtype=np.bool_)
        if self.width < 1 << 61:
            kept[first] = bulk.below(2 * self.width, len(first), coins) < 2 * self.flat - 1
        else:
            kept[first] = [coins.below(2 * self.width) < 2 * self.flat - 1 for _ in first]
        return level[kept]

    def _all_placed(self, level: Ints, coins: Coins) -> Ints:
        if len(level) == 0:
            return np.zeros(0, dtype=np.int64)
        if (int(level.max()) + 2) * self.width >= 1 << 61:  # the same levels, in wide integers
            return np.array([self._placed(each, coins) for each in level.tolist()], dtype=np.object_)
        inner = bulk.below(2 * self.flat - 1, len(level), coins) - (self.flat - 1)
        place = bulk.below(2 * self.width, len(level), coins)
        magnitude = self.flat + (level - 1) * self.width + place // 2
        outer = np.where(place % 2 == 1, -magnitude, magnitude)
        placed: Ints = np.where(level == 0, inner, outer)
        return placed

    def log_mass(self, y: int) -> Interval:
        return -self.epsilon * self.level(y) - numbers.log_of(self._total())

    def _total(self) -> Interval:
        return (2 * self.width * self._rest() + (2 * self.flat - 1)).narrowed()

    def _rest(self) -> Interval:
        """a + a^2 + ... = a / (1-a), a = exp(-epsilon)."""
        return (numbers.exp(-self.epsilon) / numbers.one_minus_exp(self.epsilon)).narrowed()

    def beyond(self, k: int) -> Interval:
        level = self.level(k)
        end = self.flat + level * self.width  # magnitudes of this level end before here
        sums = numbers.exp(-self.epsilon * level) * (end - k + self.width * self._rest())
        return (sums / self._total()).narrowed()

    def beyond_floats(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        level = np.maximum(np.floor((steps - self.flat) / self.width) + 1, 0)
        ratio, gap = float_ratio(self.epsilon)
        ends = self.flat + level * self.width - steps + self.width * ratio / gap
        far: NDArray[np.float64] = ratio**level * ends / float(self._total().high)
        return far

    @property
    def mean_error(self) -> float:
        (ratio, gap), w, r = float_ratio(self.epsilon), float(self.width), float(self.flat)
        # level l >= 1 holds magnitudes r + (l-1) w .. r + l w - 1, each twice; sums of (l-1)^i a^l
        none, once = ratio / gap, (ratio / gap) ** 2
        sums = r * (r - 1) + 2 * (none * (w * r + w * (w - 1) / 2) + once * w * w)
        return sums / float(self._total().high)

    @property
    def variance(self) -> float:
        (ratio, gap), w, r = float_ratio(self.epsilon), float(self.width), float(self.flat)
        none, once, twice = ratio / gap, (ratio / gap) ** 2, (ratio / gap) ** 2 * (1 + ratio) / gap
        level = w * r * r + r * w * (w - 1) + (w - 1) * w * (2 * w - 1) / 6  # squares of the first level
        sums = (r - 1) * r * (2 * r - 1) / 3
        sums += 2 * (none * level + once * (2 * w * w * r + w * w * (w - 1)) + twice * w**3)
        return sums / float(self._total().high)


@lru_cache(maxsize=64)
def _levels(law: Stairs, bits: int = bulk.WORD) -> InverseTable:
    """The law of the level: P(level > l) = 2 width a^(l+1) / ((2 flat - 1)(1 - a) + 2 width a)."""

    def tail(level: int, precision: int) -> Interval:
        ratio = numbers.exp(-law.epsilon, precision)
        total = (1 - ratio) * (2 * law.flat - 1) + 2 * law.width * ratio
        return 2 * law.width * numbers.exp(-law.epsilon * (level + 1), precision) / total

    return bulk.InverseTable(bulk.cuts_of_tails(tail), bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(Additive):
    """Add noise whose probability falls in stairs as wide as the distance between neighbours.

    For one number it has the least expected error of all additive noise that is epsilon-private and does not
    look at the answer. At distance 1 it is geometric noise. At a small epsilon the errors of both are alike;
    the larger epsilon is, the more it gains.

    Guarantee: pure DP, epsilon times the largest number of stairs a coordinate can cross, ceil(d / width),
    added over the coordinates that change.
    Proof: docs/explanation/staircase.md#guarantee (Geng and Viswanath, 2014).

    >>> stairs = Staircase.at(epsilon=Fraction(2), distance=Distance(l0=1, linf=Fraction(10)))
    >>> stairs.width, stairs.flat, stairs.bound(Distance(l0=1, linf=Fraction(10))).epsilon
    (10, 3, Fraction(2, 1))
    """

    name: ClassVar[str] = "staircase"
    epsilon: Fraction
    width: int
    flat: int

    def __post_init__(self) -> None:
        law = Stairs(epsilon=self.epsilon, width=self.width, flat=self.flat)  # checks all three
        set_fields(self, epsilon=law.epsilon, width=law.width, flat=law.flat)

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Staircase:
        """The staircase with the least expected absolute error for one number at this distance."""
        steps = distance.for_integers()
        width = int(needed("linf", steps.linf))
        if steps.l0 != 1:
            raise InvalidParameter(
                "distance", f"l0 = {steps.l0}", "a staircase is for one number: Distance(l0=1, linf=...)"
            )
        epsilon = price("epsilon", epsilon)
        guess = width / (1 + math.exp(min(float(epsilon) / 2, 600.0)))  # best on the reals; then look around
        near = range(max(1, math.floor(guess) - 1), min(width, math.ceil(guess) + 2) + 1)
        best = min(near, key=lambda flat: Stairs(epsilon=epsilon, width=width, flat=flat).mean_error)
        return cls(epsilon=epsilon, width=width, flat=best)

    @property
    def noise(self) -> Stairs:
        return Stairs(epsilon=self.epsilon, width=self.width, flat=self.flat)

    def _bound(self, distance: Distance) -> Bound:
        crossed: list[int] = []  # sums of ceil(d / width) over whole numbers d
        if distance.l0 is not None and distance.linf is not None:
            crossed.append(distance.l0 * math.ceil(distance.linf / self.width))
        if distance.l0 is not None and distance.l1 is not None:  # ceil(d / w) <= (d + w - 1) / w
            crossed.append(math.floor((distance.l1 + distance.l0 * (self.width - 1)) / self.width))
        return Bound(epsilon=min(crossed) * self.epsilon if crossed else None)
