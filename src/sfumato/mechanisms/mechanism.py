"""What a mechanism is: a law for every answer, and a bound for every distance.

Everything else (drawing, intervals, privacy loss, utility, audits) is derived from these two in other rooms,
so it can never disagree with the sampler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

X = TypeVar("X")
Y = TypeVar("Y")
Vector = tuple[int, ...]

BULK_PAYS = 30  # from about this many draws on, a bulk call is faster than single ones


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


class Law(ABC, Generic[Y]):
    """A discrete distribution, drawn exactly and bounded safely."""

    @abstractmethod
    def draw(self, coins: Coins) -> Y:
        """One outcome."""

    @abstractmethod
    def log_mass(self, y: Y) -> Interval:
        """An interval that contains the logarithm of the probability of y."""


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
