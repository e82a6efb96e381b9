"""Reals on a public grid.

A real answer is put on a grid of step 2^-bits *before* the noise, so that the noise is a whole number of
steps and no float is ever added to anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, listed, rational, set_fields, whole
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import Law, Mechanism, Vector
from sfumato.mechanisms.noise import Gaussian, Geometric

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

Reals = tuple[Fraction, ...]
FINEST = 128  # bits of a grid; more is a mistake


@dataclass(frozen=True, slots=True)
class Scaled(Law[Reals]):
    """Multiples of 2^-bits: an integer law, seen through a public scale."""

    steps: Law[Vector]
    bits: int

    def draw(self, coins: Coins) -> Reals:
        return tuple(Fraction(y, 1 << self.bits) for y in self.steps.draw(coins))

    def log_mass(self, y: Reals) -> Interval:
        return self.steps.log_mass(tuple(_whole(part * (1 << self.bits)) for part in y))


def _whole(x: Fraction) -> int:
    if x.denominator != 1:
        raise InvalidParameter("y", x, "a release is a multiple of the grid's step; others have no mass")
    return x.numerator


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGrid(Mechanism[Reals, Reals]):
    """Round `size` reals down to multiples of 2^-bits, then use a mechanism for integers on the steps.

    Guarantee: that of the core at the distance in steps. Rounding moves two numbers apart by less than one
    step, so a coordinate that moves by d moves by at most ceil(d 2^bits) steps.
    Proof: docs/explanation/grid.md#guarantee.

    >>> OnGrid(core=Geometric(scale=Fraction(2**20)), bits=20).bound(Distance(l1=Fraction(1))).epsilon
    Fraction(1, 1)
    """

    name: ClassVar[str] = "on grid"
    core: Mechanism[Vector, Vector]
    bits: int
    size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.core, Mechanism):
            raise InvalidParameter("core", self.core, "give a mechanism for integers, such as Geometric(...)")
        set_fields(self, bits=_check_bits(self.bits), size=whole("size", self.size, least=1))

    def law(self, answer: Reals) -> Scaled:
        reals = tuple(listed(answer))  # type: ignore[arg-type]  # of fractions here
        if len(reals) != self.size:
            raise InvalidParameter(
                "answer", f"{len(reals)} numbers", f"this one was made for size {self.size}"
            )
        return Scaled(self.core.law(tuple(self._steps(x) for x in reals)), self.bits)

    def _steps(self, x: Fraction | int) -> int:
        if isinstance(x, float):  # its value stays out of the message
            raise InvalidParameter(
                "answer", "floats", "clamp to public bounds, then give Fractions: Fraction(x) is exact"
            )
        return math.floor(exact("answer", x) * (1 << self.bits))

    def _bound(self, distance: Distance) -> Bound:
        return self.core.bound(self.in_steps(distance))

    def in_steps(self, distance: Distance) -> Distance:
        """The distance of the numbers of steps: every coordinate that moves may move one step further.

        >>> laplace(scale=Fraction(10), bits=1, size=5).in_steps(Distance(l0=2, l1=Fraction(3, 4)))
        Distance(l0=2, l1=Fraction(3, 1), l2_squared=Fraction(6, 1), linf=Fraction(2, 1), monotone=False)
        """
        step = 1 << self.bits
        l0 = self.size if distance.l0 is None else min(distance.l0, self.size)
        l2_squared = None
        if distance.l2_squared is not None:  # |x + u| <= |x| + |u|, and at most l0 coordinates of u are 1
            root = numbers.sqrt(distance.l2_squared).high * step + numbers.sqrt(l0).high
            l2_squared = numbers.round_up(root**2, 96)
        return Distance(
            l0=l0,
            l1=None if distance.l1 is None else Fraction(math.floor(distance.l1 * step + l0)),
            l2_squared=l2_squared,
            linf=None if distance.linf is None else Fraction(math.ceil(distance.linf * step)),
            monotone=distance.monotone,
        )


def _check_bits(bits: int) -> int:
    if (number := whole("bits", bits, least=0)) > FINEST:
        raise InvalidParameter("bits", bits, f"give the bits after the point, such as 20, at most {FINEST}")
    return number


def laplace(*, scale: Fraction, bits: int, size: int = 1) -> OnGrid:
    """The Laplace mechanism on reals, with noise of this scale on a grid of step 2^-bits.

    >>> laplace(scale=Fraction(10), bits=20).core
    Geometric(scale=Fraction(10485760, 1))
    """
    steps = rational("scale", scale) * (1 << _check_bits(bits))
    return OnGrid(core=Geometric(scale=steps), bits=bits, size=size)


def normal(*, sigma_squared: Fraction, bits: int, size: int = 1) -> OnGrid:
    """The Gaussian mechanism on reals, with noise of this sigma^2 on a grid of step 2^-bits."""
    steps = rational("sigma_squared", sigma_squared) * (1 << 2 * _check_bits(bits))
    return OnGrid(core=Gaussian(sigma_squared=steps), bits=bits, size=size)
