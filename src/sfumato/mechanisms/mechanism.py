"""What a mechanism is: a law for every answer, and a bound for every distance.

Everything else (drawing, intervals, privacy loss, utility, audits) is derived from these two in other rooms,
so it can never disagree with the sampler.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    proved". `monotone` says that all coordinates move the same way, as counts do when a person comes or goes
    (and do not when a person is replaced). The constructor draws the consequences: linf <= l1,
    l1 <= l0 linf, l2^2 <= l1 linf.

    >>> Distance(l0=2, linf=3)
    Distance(l0=2, l1=Fraction(6, 1), l2_squared=Fraction(18, 1), linf=Fraction(3, 1), monotone=False)
    """

    l0: int | None = None
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    linf: Fraction | None = None
    monotone: bool = False

    def __post_init__(self) -> None:
        if self.l0 is not None:
            whole("l0", self.l0, least=0)
        known = {
            name: None if value is None else rational(name, value, zero=True, most=WIDEST**2)
            for name, value in (("l1", self.l1), ("l2_squared", self.l2_squared), ("linf", self.linf))
        }
        l1, l2_squared, linf = known.values()
        linf = _least(linf, l1)
        if self.l0 is not None and linf is not None:
            l1 = _least(l1, self.l0 * linf)
        if l1 is not None and linf is not None:
            l2_squared = _least(l2_squared, l1 * linf)
        set_fields(self, l1=l1, l2_squared=l2_squared, linf=linf)

    @property
    def is_zero(self) -> bool:
        """Nothing changes between neighbours: any mechanism is free."""
        return self.l0 == 0 or self.linf == 0 or self.l2_squared == 0

    def times(self, people: int) -> Distance:
        """How far apart answers can lie when this many people change at once: the triangle inequality.

        What a mechanism proves at this distance is what a chain of that many neighbours costs.

        >>> Distance(l0=1, linf=Fraction(2)).times(3)
        Distance(l0=3, l1=Fraction(6, 1), l2_squared=Fraction(36, 1), linf=Fraction(6, 1), monotone=False)
        """
        whole("people", people, least=0)

        def grown(bound: Fraction | None, factor: int) -> Fraction | None:
            return None if bound is None else bound * factor

        return Distance(
            l0=None if self.l0 is None else self.l0 * people,
            l1=grown(self.l1, people),
            l2_squared=grown(self.l2_squared, people**2),
            linf=grown(self.linf, people),
            monotone=self.monotone,
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

        >>> f"{float(Bound(rho=Fraction(1, 100)).delta_at(Fraction(1))):.6e}"
        '1.664114e-13'
        """
        proved = Fraction(1)
        if self.epsilon is not None and epsilon >= self.epsilon:
            proved = self.delta
        if self.rho is not None and proved > 0:
            proved = min(proved, _delta_of_rho(self.rho, rational("epsilon", epsilon, zero=True)))
        return proved


def _delta_of_rho(rho: Fraction, epsilon: Fraction) -> Fraction:
    if rho == 0:
        return Fraction(0)
    # a larger rho and a smaller epsilon are safe, and within the reach of floats
    rho, epsilon = max(rho, Fraction(1, 1 << 200)), min(epsilon, Fraction(MOST))

    def exponent(order: float) -> float:
        rest = (order - 1) * (order * float(rho) - float(epsilon)) - math.log(order - 1)
        return rest + order * math.log1p(-1 / order)

    low, high = 1 + 1e-9, 4 + float(epsilon / rho) + 2 / math.sqrt(rho)
    for _ in range(200):  # the exponent is convex in the order
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if exponent(left) < exponent(right) else (left, high)
    order = numbers.round_up(Fraction(high), 40)
    power = (order - 1) * (order * rho - epsilon) + (numbers.log(1 - 1 / order) * order).high
    if power >= 0:
        return Fraction(1)
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
        """`size` independent outcomes, exactly distributed; an object array if any reaches 2^62."""

    @abstractmethod
    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of being above each point, as floats: for error bars, never for a guarantee."""

    def window(self, tail: Fraction) -> range:
        """The shortest range that provably leaves at most tail/2 on either side."""
        check_tail(tail)
        low = _first(lambda y: self.cdf(y).high > tail / 2)
        high = _first(lambda y: 1 - self.cdf(y).low <= tail / 2)
        return range(low, high + 1)


def log_above_zero(mass: Interval) -> Interval:
    """The logarithm of a probability that may be too small to be told from 0; that is refused."""
    if mass.low <= 0:
        raise InvalidParameter("y", "an outcome", "its probability is too small to be told from 0")
    return numbers.log_of(mass)


def check_tail(tail: Fraction) -> None:
    """Refuse what is no tail, or too small to be told from 0."""
    if not Fraction(1, 1 << 1000) < tail < 1:
        raise InvalidParameter("tail", tail, "take a probability strictly between 10^-300 and 1")


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
    answer: Vector = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        if len(self.answer) < BULK_PAYS:
            return tuple(exact + self.noise.draw(coins) for exact in self.answer)
        noise = self.noise.draws(coins, len(self.answer)).tolist()
        return tuple(exact + drawn for exact, drawn in zip(self.answer, noise, strict=True))

    def log_mass(self, y: Vector) -> Interval:
        parts = (self.noise.log_mass(b - a) for a, b in zip(self.answer, y, strict=True))
        return sum(parts, start=numbers.log(1))


class Additive(Mechanism[Vector, Vector]):
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


MOST = 10_000  # an epsilon above this is no privacy at all
WIDEST = 1 << 256  # a scale beyond this is a mistake, and floats about its square would overflow


def rational(name: str, value: Fraction | int, *, zero: bool = False, most: int = WIDEST) -> Fraction:
    """The number as a fraction, if it is exact already and within reach; floats are refused.

    >>> rational("scale", 10)
    Fraction(10, 1)
    >>> rational("scale", 0.1)
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: scale = 0.1 cannot be used: write it exactly, such as Fraction("0.1")
    """
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        shown = value if isinstance(value, float) and 0 < value < math.inf else 1
        raise InvalidParameter(name, value, f'write it exactly, such as Fraction("{shown}")')
    if value < 0 or (value == 0 and not zero):
        raise InvalidParameter(name, value, f"give a number {'of at least' if zero else 'above'} 0")
    if value > most or 0 < value < Fraction(1, WIDEST**2):
        limit = most if most == MOST else f"2^{most.bit_length() - 1}"
        raise InvalidParameter(name, value, f"give a number between 2^-512 and {limit}")
    return Fraction(value)


def price(name: str, epsilon: Fraction | int, *, zero: bool = False) -> Fraction:
    """An epsilon: exact, positive, and small enough to mean something."""
    return rational(name, epsilon, zero=zero, most=MOST)


def whole(name: str, value: int, *, least: int | None = None) -> int:
    """The number, if it is a whole one and not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        low = "" if least is None else f" of at least {least}"
        raise InvalidParameter(name, value, f"give a whole number{low}")
    return value


def whole_vector(answer: Iterable[int]) -> Vector:
    """The answer as Python's integers: those of numpy would wrap. What it holds stays out of the message."""
    try:
        return tuple(map(operator.index, answer))
    except TypeError:
        raise InvalidParameter("answer", "not whole numbers", "count in steps of a public grid") from None


def set_fields(owner: object, **values: object) -> None:
    """Put checked values into the fields of a frozen owner, from its `__post_init__` alone."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)
