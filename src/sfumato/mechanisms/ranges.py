"""Noise for bounded ranges.

A range is kept by moving what falls outside to the ends, which is post-processing and free. Giving that mass
back to the inside instead is not free, and `Renormalised` is here to show its price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers, samplers
from sfumato.mechanisms.arguments import rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import (
    Additive,
    ForIntegers,
    Law,
    Line,
    Mechanism,
    Shifted,
    Vector,
    log_above_zero,
)
from sfumato.mechanisms.noise import DiscreteLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval


@dataclass(frozen=True, slots=True)
class Ends(Line):
    """Noise around a centre; what falls below `low` or above `high` is moved to that end.

    >>> law = Ends(DiscreteLaplace(scale=Fraction(1)), centre=0, low=0, high=2)
    >>> [round(float(numbers.exp(law.log_mass(y).low).low), 6) for y in (0, 1, 2)]
    [0.731059, 0.170003, 0.098938]
    """

    noise: Line
    centre: int = field(repr=False)
    low: int
    high: int

    def _moved(self, y: int) -> int:
        return min(max(y, self.low), self.high)

    def draw(self, coins: Coins) -> int:
        return self._moved(self.centre + self.noise.draw(coins))

    def draws(self, coins: Coins, size: int) -> Ints:
        drawn = self.noise.draws(coins, size)
        if drawn.dtype == np.int64 and max(abs(self.centre), abs(self.low), abs(self.high)) < 1 << 62:
            inside: Ints = np.clip(drawn + self.centre, self.low, self.high)  # both are below 2^62
            return inside
        moved = [self._moved(self.centre + y) for y in drawn.tolist()]
        return np.array(moved, dtype=np.object_)

    def cdf(self, y: int) -> Interval:
        if y < self.low or y >= self.high:
            known = Fraction(0 if y < self.low else 1)
            return numbers.Interval(known, known)
        return self.noise.cdf(y - self.centre)

    def log_mass(self, y: int) -> Interval:
        if not self.low <= y <= self.high:
            raise InvalidParameter("y", y, f"only {self.low} to {self.high} have any mass")
        if self.low == self.high:
            return numbers.log(1)
        if self.low < y < self.high:
            return self.noise.log_mass(y - self.centre)
        moved = self.noise.cdf(y - self.centre) if y == self.low else 1 - self.noise.cdf(y - 1 - self.centre)
        return log_above_zero(moved)

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = self.noise.tails(points - self.centre)
        tails: NDArray[np.float64] = np.where(
            points < self.low, 1.0, np.where(points >= self.high, 0.0, inside)
        )
        return tails


@dataclass(frozen=True, slots=True)
class Moved(Law[Vector]):
    """Noise on each coordinate of a vector; what leaves the range is moved to the nearer end."""

    noisy: Shifted
    low: int
    high: int

    def draw(self, coins: Coins) -> Vector:
        return tuple(min(max(y, self.low), self.high) for y in self.noisy.draw(coins))

    def log_mass(self, y: Vector) -> Interval:
        parts = (
            Ends(self.noisy.noise, centre, self.low, self.high).log_mass(part)
            for centre, part in zip(self.noisy.answer, y, strict=True)
        )
        return sum(parts, start=numbers.log(1))


def _check_range(low: int, high: int) -> dict[str, int]:
    checked = {"low": whole("low", low), "high": whole("high", high)}
    if checked["low"] > checked["high"]:
        raise InvalidParameter("high", high, f"give a number of at least low = {low}")
    return checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated(Mechanism[Vector, Vector]):
    """Add noise to every coordinate and move what leaves low .. high to the nearer end.

    Guarantee: that of the noise. Answers outside the range are moved into it first, which brings neighbours
    no further apart, and moving the release is post-processing.
    Proof: docs/explanation/truncation.md#guarantee.

    >>> from sfumato.mechanisms import Geometric
    >>> Truncated(core=Geometric(scale=Fraction(2)), low=0, high=10).bound(Distance(l1=Fraction(1))).epsilon
    Fraction(1, 2)
    """

    name: ClassVar[str] = "truncated"
    core: Additive
    low: int
    high: int

    def __post_init__(self) -> None:
        if not isinstance(self.core, Additive):
            raise InvalidParameter(
                "core", self.core, "give additive noise on integers, such as Geometric(...)"
            )
        set_fields(self, **_check_range(self.low, self.high))

    def law(self, answer: Vector) -> Moved:
        inside = tuple(min(max(exact, self.low), self.high) for exact in whole_vector(answer))
        return Moved(self.core.law(inside), self.low, self.high)

    def _bound(self, distance: Distance) -> Bound:
        return self.core.bound(distance)


@dataclass(frozen=True, slots=True)
class Inside(Line):
    """The discrete Laplace law around a centre, given that it falls into low .. high."""

    scale: Fraction
    centre: int = field(repr=False)
    low: int
    high: int

    def draw(self, coins: Coins) -> int:
        if self.high - self.low < 8 * self.scale:
            return samplers.loop(self.attempt, coins)
        noise = DiscreteLaplace(scale=self.scale)  # the centre is inside, so more than a third of it is too
        while not self.low <= (y := self.centre + noise.draw(coins)) <= self.high:
            pass
        return y

    def attempt(self, coins: Coins) -> int | None:
        """A uniform number of the range, kept with probability exp(-distance / scale)."""
        y = self.low + coins.below(self.high - self.low + 1)
        cost = abs(y - self.centre) / self.scale
        return y if samplers.bernoulli_exp(cost.numerator, cost.denominator, coins) else None

    def draws(self, coins: Coins, size: int) -> Ints:
        return np.array([self.draw(coins) for _ in range(size)], dtype=np.object_)

    def _between(self, first: int, last: int) -> Interval:
        """What the unbounded law puts on first .. last, as a multiple of its mass at the centre."""
        return weight(self.scale, self.centre, first, last)

    def log_mass(self, y: int) -> Interval:
        if not self.low <= y <= self.high:
            raise InvalidParameter("y", y, f"only {self.low} to {self.high} have any mass")
        return -abs(y - self.centre) / self.scale - numbers.log_of(self._between(self.low, self.high))

    def cdf(self, y: int) -> Interval:
        if y < self.low or y >= self.high:
            known = Fraction(0 if y < self.low else 1)
            return numbers.Interval(known, known)
        return (self._between(self.low, y) / self._between(self.low, self.high)).narrowed()

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        def above(x: float) -> float:
            return float((1 - self.cdf(math.floor(x))).high)

        return np.array([above(x) for x in points.ravel().tolist()]).reshape(points.shape)


def weight(scale: Fraction, centre: int, first: int, last: int) -> Interval:
    """The sum of a^|z - centre| over z = first .. last, for a centre among them or outside."""
    if last < first:
        return numbers.ZERO
    if first > centre:
        return _run(scale, first - centre, last - centre)
    if last < centre:
        return _run(scale, centre - last, centre - first)
    return _run(scale, 0, last - centre) + _run(scale, 1, centre - first)


def _run(scale: Fraction, first: int, last: int) -> Interval:
    """a^first + ... + a^last."""
    if last < first:
        return numbers.ZERO
    count = numbers.one_minus_exp((last + 1 - first) / scale) / numbers.one_minus_exp(1 / scale)
    return (numbers.exp(-first / scale) * count).narrowed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renormalised(ForIntegers, Mechanism[int, int]):
    """A warning: geometric noise drawn again until it falls into low .. high. It costs more than it says.

    The chance of falling inside depends on the answer, so throwing draws away leaks: at scale s and distance
    d the price is d/s *plus* the logarithm of a ratio of two such chances. `Truncated` costs d/s.

    Guarantee: pure DP, epsilon = d/s + ln(C(low + d) / C(low)), C(y) the sum of exp(-|z-y|/s) over the range.
    Proof: docs/explanation/truncation.md#renormalising.

    >>> warned = Renormalised(scale=Fraction(1), low=0, high=2).bound(Distance(linf=Fraction(1)))
    >>> round(float(warned.epsilon), 6)  # not 1
    1.143839
    """

    name: ClassVar[str] = "renormalised"
    scale: Fraction
    low: int
    high: int

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale), **_check_range(self.low, self.high))

    def law(self, answer: int) -> Inside:
        exact = whole_vector((answer,))[0]
        return Inside(self.scale, min(max(exact, self.low), self.high), self.low, self.high)

    def _bound(self, distance: Distance) -> Bound:
        if distance.linf is None:
            return Bound()
        d = min(int(distance.linf), self.high - self.low)
        inner = weight(self.scale, self.low + d, self.low, self.high)
        outer = weight(self.scale, self.low, self.low, self.high)
        return Bound(epsilon=numbers.round_up(d / self.scale + numbers.log_of(inner / outer).high, 64))
