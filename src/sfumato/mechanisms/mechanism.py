"""What a mechanism is: a law for every answer, and a bound for every distance.

Everything else (drawing, intervals, privacy loss, utility, audits) is derived from these two in other rooms,
so it can never disagree with the sampler.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import check_tail, exact, set_fields, whole_vector
from sfumato.mechanisms.distance import Bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval
    from sfumato.mechanisms.distance import Distance, Distances

S = TypeVar("S")
X = TypeVar("X")
Y = TypeVar("Y")
Vector = tuple[int, ...]

BULK_PAYS = 100  # from about this many draws on, building a table is faster than single draws


class Law(ABC, Generic[Y]):
    """A discrete distribution, drawn exactly and bounded safely."""

    @abstractmethod
    def draw(self, coins: Coins) -> Y:
        """One outcome."""

    @abstractmethod
    def log_mass(self, y: Y) -> Interval:
        """An interval that contains the logarithm of the probability of y."""

    def probability(self, y: Y) -> float:
        """The probability of y, as a float: for reading, never for a guarantee."""
        return math.exp(self.log_mass(y).high)


@dataclass(frozen=True, slots=True)
class Finite(Law[Y]):
    """Finitely many outcomes with rational probabilities.

    >>> Finite(("no", "yes"), (Fraction(1, 4), Fraction(3, 4))).mass("yes")
    Fraction(3, 4)
    """

    outcomes: tuple[Y, ...]
    masses: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if len(self.masses) != len(self.outcomes) or not self.masses:
            raise InvalidParameter("masses", f"{len(self.masses)} numbers", "give one for every outcome")
        masses = tuple(exact("masses", mass) for mass in self.masses)
        if min(masses) < 0 or sum(masses) != 1:
            raise InvalidParameter(
                "masses", f"sum {sum(masses)}", "probabilities are at least 0 and add up to exactly 1"
            )
        set_fields(self, masses=masses)

    def draw(self, coins: Coins) -> Y:
        whole = math.lcm(*(mass.denominator for mass in self.masses))
        point = coins.below(whole)
        for outcome, mass in zip(self.outcomes, self.masses, strict=True):
            point -= int(mass * whole)
            if point < 0:
                return outcome
        raise AssertionError("the masses add up to 1")

    def mass(self, y: Y) -> Fraction:
        """The probability of y, exactly."""
        pairs = zip(self.outcomes, self.masses, strict=True)
        return sum((mass for outcome, mass in pairs if outcome == y), Fraction(0))

    def probability(self, y: Y) -> float:
        return float(self.mass(y))

    def log_mass(self, y: Y) -> Interval:
        mass = self.mass(y)
        return log_above_zero(numbers.Interval(mass, mass))


class Line(Law[int]):
    """A law on the integers: what intervals, losses and utilities need, at a cost independent of scale."""

    @abstractmethod
    def cdf(self, y: int) -> Interval:
        """An interval that contains the probability of being at most y."""

    @abstractmethod
    def draws(self, coins: Coins, size: int) -> Ints:
        """`size` independent outcomes, exactly distributed; an object array if any reaches 2^62."""

    @abstractmethod
    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of being above each point, as floats: for error bars, never for a guarantee."""

    def window(self, tail: Fraction) -> range:
        """The shortest range that provably leaves at most tail/2 on either side."""
        tail = check_tail(tail)
        low = _first(lambda y: self.cdf(y).high > tail / 2)
        high = _first(lambda y: 1 - self.cdf(y).low <= tail / 2)
        return range(low, high + 1)


class Symmetric(Line):
    """A law that is the same on both sides of 0: its upper tail says everything."""

    @abstractmethod
    def beyond(self, k: int) -> Interval:
        """An interval that contains the probability of being at least k, for k >= 1."""

    @abstractmethod
    def beyond_floats(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same as floats, elementwise."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The expected square."""

    @property
    @abstractmethod
    def mean_error(self) -> float:
        """The expected absolute value."""

    def cdf(self, y: int) -> Interval:
        return 1 - self.beyond(y + 1) if y >= 0 else self.beyond(-y)

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        next_up = np.floor(points) + 1  # Y > x means Y >= floor(x) + 1
        far = self.beyond_floats(np.maximum(next_up, 1 - next_up))
        tails: NDArray[np.float64] = np.where(next_up >= 1, far, 1 - far)
        return tails

    def window(self, tail: Fraction) -> range:
        return _window(self, check_tail(tail))


@lru_cache(maxsize=1024)
def _window(law: Symmetric, tail: Fraction) -> range:
    """The smallest range around 0 that leaves at most tail/2 on either side: guessed, then settled."""
    low, high = 0.0, math.sqrt(law.variance) * 40 + 2
    for _ in range(60):
        middle = (low + high) / 2
        beyond = float(law.tails(np.array([math.floor(middle)], dtype=np.float64))[0])
        low, high = (low, middle) if beyond <= float(tail) / 2 else (middle, high)
    guess = math.floor(high)

    def enough(radius: int) -> bool:
        return radius >= 0 and law.beyond(radius + 1).high <= tail / 2

    # the guess is off by a few units of a float's last place: gallop to a bracket, then bisect
    step = 1 + guess // 10**13
    inside, outside = (guess - step, guess) if enough(guess) else (guess, guess + step)
    while enough(inside):
        inside, outside, step = inside - 2 * step, inside, 2 * step
    while not enough(outside):
        inside, outside, step = outside, outside + 2 * step, 2 * step
    radius = bisected(enough, inside, outside)
    return range(-radius, radius + 1)


def log_above_zero(mass: Interval) -> Interval:
    """The logarithm of a probability that may be too small to be told from 0; that is refused."""
    if mass.low <= 0:
        raise InvalidParameter("y", "an outcome", "its probability is too small to be told from 0")
    return numbers.log_of(mass)


def _first(holds: Callable[[int], bool]) -> int:
    """The smallest integer from which a monotone claim holds: gallop away from zero, then bisect."""
    step = 1
    if holds(0):
        while holds(-step):
            step *= 2
        low, high = -step, 0
    else:
        while not holds(step):
            step *= 2
        low, high = 0, step
    return bisected(holds, low, high)


def bisected(holds: Callable[[int], bool], low: int, high: int, near: int | None = None) -> int:
    """The smallest integer above `low` from which a claim holds that fails at `low` and holds at `high`.

    If it is probably `near` there, few are tried.
    """
    if near is not None:
        near, step = min(max(near, low + 1), high), 1
        if holds(near):
            while near - step > low and holds(near - step):
                near, step = near - step, 2 * step
            low, high = max(near - step, low), near
        else:
            while near + step < high and not holds(near + step):
                near, step = near + step, 2 * step
            low, high = near, min(near + step, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class Private(ABC):
    """What can be charged."""

    name: ClassVar[str]  # its name in the ledger, for ever

    def bound(self, distance: Distance) -> Bound:
        """What one use proves about neighbours at this distance; where nothing can change, it is free."""
        return Bound(epsilon=Fraction(0)) if distance.is_zero else self._bound(distance)

    @abstractmethod
    def _bound(self, distance: Distance) -> Bound:
        """The same at a distance that is not zero."""


class ForIntegers(Private):
    """What takes whole numbers only, so that their differences are whole as well."""

    def bound(self, distance: Distance) -> Bound:
        return super().bound(distance.for_integers())


class Mechanism(Private, Generic[X, Y]):
    """A law for every answer, and a bound for every distance."""

    @abstractmethod
    def law(self, answer: X) -> Law[Y]:
        """The law of the release when the exact answer is `answer`."""


class Conversation(Private, Generic[S, X, Y]):
    """A mechanism that answers again and again: charged once, never cached; a lost state ends it."""

    @abstractmethod
    def start(self, coins: Coins) -> S:
        """The state before the first answer. It holds secret noise: keep it where the answers are kept."""

    @abstractmethod
    def reply(self, state: S, answer: X, coins: Coins) -> tuple[S, Y]:
        """The next state, and what is released."""


@dataclass(frozen=True, slots=True)
class Shifted(Law[Vector]):
    """An integer vector plus independent noise on each coordinate."""

    noise: Line
    answer: Vector = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        if len(self.answer) < BULK_PAYS:
            return tuple(exact + self.noise.draw(coins) for exact in self.answer)
        noise = self.noise.draws(coins, len(self.answer)).tolist()
        return tuple(exact + drawn for exact, drawn in zip(self.answer, noise, strict=True))

    def log_mass(self, y: Vector) -> Interval:
        parts = (self.noise.log_mass(b - a) for a, b in zip(self.answer, y, strict=True))
        return sum(parts, start=numbers.log(1))


class Additive(ForIntegers, Mechanism[Vector, Vector]):
    """Noise added to an integer vector: law, error and intervals follow from the noise."""

    @property
    @abstractmethod
    def noise(self) -> Line:
        """The law of the noise on one coordinate."""

    def law(self, answer: Vector) -> Shifted:
        return Shifted(self.noise, whole_vector(answer))


P_co = TypeVar("P_co", bound=Private, covariant=True)


@dataclass(frozen=True, slots=True)
class Step(Generic[P_co]):
    """One use of a mechanism on something whose distances are known."""

    mechanism: P_co
    distances: Distances

    def bound(self, towards: str = "presence") -> Bound:
        """What this step proves under the given relation between neighbours."""
        return self.mechanism.bound(self.distances.towards(towards))


Spend = tuple[Step[Private], ...]
