"""What a mechanism is: a law for every answer, and a bound for every distance.

Everything else (drawing, intervals, privacy loss, utility, audits) is derived from these two in other rooms,
so it can never disagree with the sampler.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

S = TypeVar("S")
X = TypeVar("X")
Y = TypeVar("Y")
Vector = tuple[int, ...]

BULK_PAYS = 100  # from about this many draws on, building a table is faster than single draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far the answers on two neighbouring databases can lie apart: every bound that is proved.

    `l0` coordinates differ, by `l1` in sum, `l2_squared` in sum of squares, `linf` at most; None is "not
    proved". The constructor draws the consequences: linf <= l1, l1 <= l0 linf, l2^2 <= l1 linf.

    >>> Distance(l0=2, linf=3)
    Distance(l0=2, l1=Fraction(6, 1), l2_squared=Fraction(18, 1), linf=Fraction(3, 1))
    """

    l0: int | None = None
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    linf: Fraction | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 0:
                raise InvalidParameter(field.name, value, "a distance is at least 0")
        l1 = None if self.l1 is None else Fraction(self.l1)
        linf = None if self.linf is None else Fraction(self.linf)
        l2_squared = None if self.l2_squared is None else Fraction(self.l2_squared)
        linf = _least(linf, l1)
        if self.l0 is not None and linf is not None:
            l1 = _least(l1, self.l0 * linf)
        if l1 is not None and linf is not None:
            l2_squared = _least(l2_squared, l1 * linf)
        object.__setattr__(self, "l1", l1)
        object.__setattr__(self, "l2_squared", l2_squared)
        object.__setattr__(self, "linf", linf)

    @property
    def is_zero(self) -> bool:
        """Nothing changes between neighbours: any mechanism is free."""
        return self.l0 == 0 or self.linf == 0 or self.l2_squared == 0

    def times(self, people: int) -> Distance:
        """How far apart answers can lie when this many people change at once: the triangle inequality.

        >>> Distance(l0=1, linf=Fraction(2)).times(3)
        Distance(l0=3, l1=Fraction(6, 1), l2_squared=Fraction(36, 1), linf=Fraction(6, 1))
        """
        if people < 0:
            raise InvalidParameter("people", people, "a group has at least 0 people")

        def grown(bound: Fraction | None, factor: int) -> Fraction | None:
            return None if bound is None else bound * factor

        return Distance(
            l0=None if self.l0 is None else self.l0 * people,
            l1=grown(self.l1, people),
            l2_squared=grown(self.l2_squared, people**2),
            linf=grown(self.linf, people),
        )


def _least(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    known = [x for x in (a, b) if x is not None]
    return min(known) if known else None


@dataclass(frozen=True, slots=True)
class Distances:
    """Law 0: the distance when one person's rows come or go, and when they are replaced by others.

    `promises` names further relations; one that is not listed falls back to `value`.
    """

    presence: Distance
    value: Distance
    promises: tuple[tuple[str, Distance], ...] = ()

    def towards(self, promise: str) -> Distance:
        """The distance under the relation called `promise`."""
        if promise == "presence":
            return self.presence
        return dict(self.promises).get(promise, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How much one use of a mechanism can tell apart neighbours: everything that is proved of it.

    Guarantee: (epsilon, delta)-differential privacy where `epsilon` is given; `rho`-zCDP where `rho` is.
    A pure epsilon implies rho = epsilon^2 / 2.
    Proof: Bun and Steinke (2016), proposition 1.4.
    """

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        if self.rho is None and self.epsilon is not None and self.delta == 0:
            object.__setattr__(self, "rho", self.epsilon**2 / 2)

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """A delta for which (epsilon, delta)-differential privacy follows, rounded up; 1 if nothing does.

        From rho, for any order a > 1: delta = exp((a-1)(a rho - epsilon)) / (a-1) (1 - 1/a)^a.
        Proof: Canonne, Kamath and Steinke (2020), corollary 13. Every order is valid; a float only picks a
        good one, and the value at it is computed with fractions rounded up.

        >>> float(Bound(rho=Fraction(1, 100)).delta_at(Fraction(1)))
        1.6641139773880003e-13
        """
        proved = Fraction(1)
        if self.epsilon is not None and epsilon >= self.epsilon:
            proved = self.delta
        if self.rho is not None and 0 < self.rho < epsilon and proved > 0:
            proved = min(proved, _delta_of_rho(self.rho, epsilon))
        return Fraction(0) if self.rho == 0 else proved


def _delta_of_rho(rho: Fraction, epsilon: Fraction) -> Fraction:
    def exponent(order: float) -> float:
        rest = (order - 1) * (order * float(rho) - float(epsilon)) - math.log(order - 1)
        return rest + order * math.log1p(-1 / order)

    low, high = 1 + 1e-9, 2 + float(epsilon / rho)  # past (epsilon/rho + 1) / 2 the exponent only grows
    for _ in range(100):  # the exponent is convex in the order
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if exponent(left) < exponent(right) else (left, high)
    order = numbers.round_up(Fraction(high), 40)
    shrink = numbers.log(1 - 1 / order) * order
    power = (order - 1) * (order * rho - epsilon) + shrink.high
    return min(Fraction(1), numbers.round_up(numbers.exp(power).high / (order - 1), 64))


class Law(ABC, Generic[Y]):
    """A discrete distribution, drawn exactly and bounded safely."""

    @abstractmethod
    def draw(self, coins: Coins) -> Y:
        """One outcome."""

    @abstractmethod
    def log_mass(self, y: Y) -> Interval:
        """An interval that contains the logarithm of the probability of y."""


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
        if min(self.masses) < 0 or sum(self.masses) != 1:
            raise InvalidParameter("masses", "a list", "probabilities are at least 0 and add up to exactly 1")

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
        return self.masses[self.outcomes.index(y)] if y in self.outcomes else Fraction(0)

    def log_mass(self, y: Y) -> Interval:
        return numbers.log(self.mass(y))


class Line(Law[int]):
    """A law on the integers: what intervals, losses and utilities need, at a cost independent of scale."""

    @abstractmethod
    def cdf(self, y: int) -> Interval:
        """An interval that contains the probability of being at most y."""

    @abstractmethod
    def draws(self, coins: Coins, size: int) -> Ints:
        """`size` independent outcomes, exactly distributed; an object array if any is too wide for int64."""

    @abstractmethod
    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of being above each point, as floats: for error bars, never for a guarantee."""

    def window(self, tail: Fraction) -> range:
        """The shortest range that provably leaves at most tail/2 on either side."""
        if not 0 < tail < 1:
            raise InvalidParameter("tail", tail, "take a probability strictly between 0 and 1")
        low = _first(lambda y: self.cdf(y).high > tail / 2)
        high = _first(lambda y: 1 - self.cdf(y).low <= tail / 2)
        return range(low, high + 1)


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
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class Private(ABC):
    """What can be charged."""

    name: ClassVar[str]  # its name in the ledger, for ever

    @abstractmethod
    def bound(self, distance: Distance) -> Bound:
        """What one use proves about neighbours at this distance."""


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
    answer: Vector

    def draw(self, coins: Coins) -> Vector:
        if len(self.answer) < BULK_PAYS:
            return tuple(exact + self.noise.draw(coins) for exact in self.answer)
        noise = self.noise.draws(coins, len(self.answer)).tolist()
        return tuple(exact + drawn for exact, drawn in zip(self.answer, noise, strict=True))

    def log_mass(self, y: Vector) -> Interval:
        parts = [self.noise.log_mass(b - a) for a, b in zip(self.answer, y, strict=True)]
        return sum(parts[1:], start=parts[0])


class Additive(Mechanism[Vector, Vector]):
    """Noise added to an integer vector: law, error and intervals follow from the noise."""

    @property
    @abstractmethod
    def noise(self) -> Line:
        """The law of the noise on one coordinate."""

    def law(self, answer: Vector) -> Shifted:
        return Shifted(self.noise, answer)


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


def rational(name: str, value: Fraction | int, *, above: int = 0) -> Fraction:
    """The number as a fraction, if it is exact already and larger than `above`; floats are refused.

    >>> rational("scale", 10)
    Fraction(10, 1)
    >>> rational("scale", 0.1)
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: scale = 0.1 cannot be used: write it exactly, such as Fraction("0.1")
    """
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        shown = value if isinstance(value, float) and math.isfinite(value) and value > above else above + 1
        raise InvalidParameter(name, value, f'write it exactly, such as Fraction("{shown}")')
    if value <= above:
        raise InvalidParameter(name, value, f"give a number above {above}, such as Fraction({above + 1})")
    return Fraction(value)


def set_fields(owner: object, **values: object) -> None:
    """Put checked values into the fields of a frozen owner, from its `__post_init__` alone."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)
