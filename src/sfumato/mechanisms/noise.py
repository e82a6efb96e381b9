"""Additive noise on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import bulk, numbers, samplers
from sfumato.mechanisms.mechanism import Additive, Bound, Distance, Line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(Line):
    """Integers y with probability (1-a)/(1+a) a^|y|, where a = exp(-1/scale): the two-sided geometric law.

    >>> float(DiscreteLaplace(scale=Fraction(10)).cdf(0).low)
    0.52497918747894
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    def draw(self, coins: Coins) -> int:
        return samplers.discrete_laplace(self.scale, coins)

    def draws(self, coins: Coins, size: int) -> Ints:
        return bulk.discrete_laplace(self.scale, size, coins)

    def log_mass(self, y: int) -> Interval:
        ratio = _ratio(self.scale)
        at_zero = numbers.log_of(((1 - ratio) / (ratio + 1)).narrowed())
        return at_zero - abs(y) / self.scale

    def cdf(self, y: int) -> Interval:
        # P(Y >= k) = a^k / (1 + a) for k >= 1, and the law is symmetric
        beyond = (numbers.exp(-(y + 1 if y >= 0 else -y) / self.scale) / (_ratio(self.scale) + 1)).narrowed()
        return 1 - beyond if y >= 0 else beyond

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        next_up = np.floor(points) + 1  # Y > x means Y >= floor(x) + 1
        rate, ratio = 1 / float(self.scale), float(_ratio(self.scale).high)
        far = np.exp(-np.maximum(next_up, 1 - next_up) * rate) / (1 + ratio)
        tails: NDArray[np.float64] = np.where(next_up >= 1, far, 1 - far)
        return tails

    def window(self, tail: Fraction) -> range:
        radius = _radius(self.scale, Fraction(tail))
        return range(-radius, radius + 1)


@lru_cache(maxsize=1024)
def _ratio(scale: Fraction) -> Interval:
    return numbers.exp(-1 / scale)


@lru_cache(maxsize=1024)
def _radius(scale: Fraction, tail: Fraction) -> int:
    """The smallest r with P(|Y| > r) <= tail: guessed in floats, settled in fractions."""
    if not 0 < tail < 1:
        raise InvalidParameter("tail", tail, "take a probability strictly between 0 and 1")
    law = DiscreteLaplace(scale=scale)
    if scale > 1 << 48:  # a float guess would be off by many steps
        return Line.window(law, tail)[-1]
    guess = (
        float(scale) * (math.log(2 / (1 + math.exp(-1 / float(scale)))) - float(numbers.log(tail).low)) - 1
    )
    radius = max(0, math.ceil(guess))
    while 1 - law.cdf(radius).low > tail / 2:
        radius += 1
    while radius > 0 and 1 - law.cdf(radius - 1).low <= tail / 2:
        radius -= 1
    return radius


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric(Additive):
    """Add two-sided geometric noise of the same scale to every coordinate of an integer vector.

    Guarantee: pure DP, epsilon = l1 / scale, at every distance with a proved l1.
    Proof: docs/explanation/geometric-mechanism.md#guarantee (Ghosh, Roughgarden and Sundararajan, 2009;
    for vectors as in Dwork, McSherry, Nissim and Smith, 2006, proposition 1).

    >>> Geometric(scale=Fraction(10)).bound(Distance(l1=Fraction(1))).epsilon
    Fraction(1, 10)
    """

    name: ClassVar[str] = "geometric"
    scale: Fraction

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(scale=self.scale)

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return Bound(epsilon=Fraction(0))
        return Bound(epsilon=None if distance.l1 is None else distance.l1 / self.scale)


def _check_scale(scale: Fraction) -> None:
    if not isinstance(scale, Fraction) or scale <= 0:
        raise InvalidParameter("scale", scale, "give a positive Fraction, such as Fraction(10)")
