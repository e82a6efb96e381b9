"""How far neighbours lie apart, and how much that tells: records of what is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter
from sfumato.exact import gaussian, numbers
from sfumato.mechanisms.arguments import LARGEST_EPSILON, exact, rational, set_fields, whole

if TYPE_CHECKING:
    from collections.abc import Hashable

LONG = 1 << 4096  # what is derived from two distances is rounded up, or dropped, where it could not be stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far the answers on two neighbouring databases can lie apart: every bound that is proved.

    `l0` coordinates differ, by `l1` in sum, `l2_squared` in sum of squares, `linf` at most; None is "not
    proved". `monotone` says that one person moves all coordinates the same way, as counts do when a person
    comes or goes (and do not when a person is replaced). The constructor draws the consequences:
    linf <= l1, linf <= l2, l1 <= l0 linf, l1 <= sqrt(l0) l2, l2^2 <= l1 linf.

    >>> Distance(l0=2, linf=3)
    Distance(l0=2, l1=Fraction(6, 1), l2_squared=Fraction(18, 1), linf=Fraction(3, 1), monotone=False)
    """

    l0: int | None = None
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    linf: Fraction | None = None
    monotone: bool = False

    def __post_init__(self) -> None:
        l0 = None if self.l0 is None else whole("l0", self.l0, least=0)
        l1, l2_squared, linf = (
            None if value is None else _size(name, value)
            for name, value in (("l1", self.l1), ("l2_squared", self.l2_squared), ("linf", self.linf))
        )
        if self.monotone is not True and self.monotone is not False:
            raise InvalidParameter("monotone", self.monotone, "give True or False")
        if l0 == 0 or 0 in (l1, l2_squared, linf):
            l0, l1, l2_squared, linf = 0, Fraction(0), Fraction(0), Fraction(0)
        l2 = None if l2_squared is None else _root_up(l2_squared)
        linf = _least(linf, l1, l2)
        if l0 is not None:
            l1 = _least(l1, _product(l0, linf), None if l2_squared is None else _root_up(l0 * l2_squared))
        l2_squared = _least(l2_squared, _product(l1, linf))
        set_fields(self, l0=l0, l1=l1, l2_squared=l2_squared, linf=linf)

    @property
    def is_zero(self) -> bool:
        """Nothing changes between neighbours: any mechanism is free."""
        return self.l0 == 0

    def times(self, people: int) -> Distance:
        """How far apart answers can lie when this many people change at once: the triangle inequality.

        >>> Distance(l0=1, linf=Fraction(2)).times(3)
        Distance(l0=3, l1=Fraction(6, 1), l2_squared=Fraction(36, 1), linf=Fraction(6, 1), monotone=False)
        """
        people = whole("people", people, least=0)  # Python's: one of numpy would wrap
        return Distance(
            l0=None if self.l0 is None else self.l0 * people,
            l1=_product(self.l1, people),
            l2_squared=_product(self.l2_squared, people**2),
            linf=_product(self.linf, people),
            monotone=self.monotone and people <= 1,  # of two people one may come and the other go
        )

    def for_integers(self) -> Distance:
        """What follows if all answers are whole numbers: so are their differences.

        >>> Distance(l1=Fraction(5, 2)).for_integers()
        Distance(l0=2, l1=Fraction(2, 1), l2_squared=Fraction(4, 1), linf=Fraction(2, 1), monotone=False)
        """
        l1, l2_squared, linf = (
            None if value is None else Fraction(math.floor(value))
            for value in (self.l1, self.l2_squared, self.linf)
        )
        moved = _least(None if self.l0 is None else Fraction(self.l0), l1, l2_squared)  # each moves by 1
        return Distance(
            l0=None if moved is None else int(moved),
            l1=l1,
            l2_squared=l2_squared,
            linf=linf,
            monotone=self.monotone,
        )


def _size(name: str, value: Fraction) -> Fraction:
    if (number := exact(name, value)) < 0:
        raise InvalidParameter(name, number, "give a number of at least 0")
    return number


def _least(*bounds: Fraction | None) -> Fraction | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _product(a: Fraction | int | None, b: Fraction | int | None) -> Fraction | None:
    if a is None or b is None:
        return None
    product = Fraction(a * b)
    if product > LONG:
        return None
    if 0 < product < Fraction(1, LONG):
        return Fraction(1, LONG)
    return numbers.round_up(product, 1024) if product.denominator >= LONG else product


def _root_up(x: Fraction) -> Fraction:
    root = numbers.sqrt(x)
    return root.high if root.low == root.high else numbers.round_up(root.high, 64)


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


@dataclass(frozen=True, slots=True)
class Shift:
    """Noise moved by a number of steps against noise that is not, on so many coordinates at once."""

    noise: Hashable  # a Line; laws are made of distances, not the other way round
    steps: int
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How much one use of a mechanism can tell apart neighbours: everything that is proved of it.

    Guarantee: (epsilon, delta)-differential privacy where `epsilon` is given; `rho`-zCDP where `rho` is.
    A pure epsilon implies rho = epsilon^2 / 2. `shifts`, where given, are pairs of laws whose product is at
    least as easy to tell apart as any two neighbours, in either order. So is, where `normal` is given, normal
    noise of variance 1 moved by the root of it, but for factors within 1 +- 10^-14 (`gaussian.ALMOST`).
    Proof: Bun and Steinke (2016), proposition 1.4; docs/explanation/privacy-loss.md#shifts;
    docs/explanation/gaussian.md#turned-vectors.
    """

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    shifts: tuple[Shift, ...] | None = field(default=None, repr=False)
    normal: Fraction | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        epsilon, rho = (
            None if value is None else _size(name, value)
            for name, value in (("epsilon", self.epsilon), ("rho", self.rho))
        )
        if (delta := _size("delta", self.delta)) > 1:
            raise InvalidParameter("delta", self.delta, "a probability is at most 1")
        if rho is None and epsilon is not None and delta == 0:
            rho = epsilon**2 / 2
        set_fields(self, epsilon=epsilon, delta=delta, rho=rho)

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """A delta for which (epsilon, delta)-differential privacy follows, rounded up; 1 if nothing does.

        From a larger pure epsilon e: delta = (e^e - e^epsilon) / (e^e + 1), that of randomized response.
        From rho, for any order a > 1: delta = exp((a-1)(a rho - epsilon)) / (a-1) (1 - 1/a)^a.
        Proof: Kairouz, Oh and Viswanath (2015), theorem 3.3 with k = 1; Canonne, Kamath and Steinke (2020),
        corollary 13. Every order is valid; a float only picks a good one, and the value at it is computed
        with fractions rounded up.

        >>> f"{float(Bound(rho=Fraction(1, 100)).delta_at(Fraction(1))):.6e}"
        '1.664114e-13'
        >>> round(float(Bound(epsilon=Fraction(1)).delta_at(Fraction(9, 10))), 6)
        0.069569
        """
        epsilon = rational("epsilon", epsilon, zero=True)
        proved = Fraction(1)
        if self.epsilon is not None and epsilon >= self.epsilon:
            proved = self.delta
        elif self.epsilon is not None and self.delta == 0:
            lost = numbers.one_minus_exp(self.epsilon - epsilon) / (numbers.exp(-self.epsilon) + 1)
            proved = numbers.round_up(lost.high, 64)
        if self.rho is not None and proved > 0:
            proved = min(proved, _delta_of_rho(self.rho, epsilon))
        if self.normal is not None and proved > 0:
            proved = min(proved, gaussian.turned_delta(self.normal, epsilon))
        return proved


def _delta_of_rho(rho: Fraction, epsilon: Fraction) -> Fraction:
    if rho == 0:
        return Fraction(0)
    # a larger rho and a smaller epsilon are safe, and within the reach of floats
    rho, epsilon = max(rho, Fraction(1, 1 << 200)), min(epsilon, Fraction(LARGEST_EPSILON))
    if rho > LARGEST_EPSILON:
        return Fraction(1)

    of_rho, of_epsilon = float(rho), float(epsilon)

    def exponent(order: float) -> float:
        rest = (order - 1) * (order * of_rho - of_epsilon) - math.log(order - 1)
        return rest + order * math.log1p(-1 / order)

    low, high = 1 + 1e-9, 4 + float(epsilon / rho) + 2 / math.sqrt(rho)
    for _ in range(200):  # the exponent is convex in the order
        left, right = low + (high - low) / 3, high - (high - low) / 3
        before = low, high
        low, high = (low, right) if exponent(left) < exponent(right) else (left, high)
        if before == (low, high):
            break
    order = numbers.round_up(Fraction(high), 40)
    power = (order - 1) * (order * rho - epsilon) + (numbers.log(1 - 1 / order) * order).high
    if power >= 0:
        return Fraction(1)
    return min(Fraction(1), numbers.round_up(numbers.exp(power).high / (order - 1), 64))
