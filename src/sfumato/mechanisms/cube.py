"""Noise for the largest coordinate: one draw for a whole vector of which every number may move."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction  # noqa: TC003  # the example in the docstring uses it
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers, samplers
from sfumato.mechanisms.arguments import price, rational, set_fields, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import ForIntegers, Law, Mechanism, Vector
from sfumato.mechanisms.noise import needed

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval


@dataclass(frozen=True, slots=True)
class CubeLaw(Law[Vector]):
    """Integer vectors z with probability proportional to exp(-max |z_i - answer_i| / scale)."""

    scale: Fraction
    answer: Vector = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        radius = samplers.loop(self.attempt_radius, coins)
        return tuple(exact + coins.below(2 * radius + 1) - radius for exact in self.answer)

    def attempt_radius(self, coins: Coins) -> int | None:
        """m with probability proportional to (2m+1)^k a^m: a sum of k+1 geometric numbers, thinned.

        The sum has mass proportional to (m+1)(m+2)...(m+k) a^m; keeping it with probability
        (m + 1/2)^k / ((m+1)...(m+k)), one factor at a time, leaves (2m+1)^k a^m.
        """
        m = sum(samplers.geometric(self.scale, coins) for _ in range(len(self.answer) + 1))
        kept = all(coins.chance(2 * m + 1, 2 * (m + i)) for i in range(1, len(self.answer) + 1))
        return m if kept else None

    def log_mass(self, y: Vector) -> Interval:
        reach = max((abs(b - a) for a, b in zip(self.answer, y, strict=True)), default=0)
        return -numbers.log_of(_cube_total(self.scale, len(self.answer))) - reach / self.scale


@lru_cache(maxsize=64)
def _cube_total(scale: Fraction, k: int) -> Interval:
    """The sum of a^max|z| over integer vectors: (1-a) times the sum of (2m+1)^k a^m over m >= 0.

    That sum is P(a) / (1-a)^(k+1) with P a polynomial whose coefficients are those of (1-a)^(k+1) times the
    series, cut at a^k: the coefficients beyond vanish (they are (k+1)-th differences of a k-th power).
    """
    total = numbers.ZERO
    for n in range(k + 1):
        factor = sum((-1) ** j * math.comb(k + 1, j) * (2 * (n - j) + 1) ** k for j in range(n + 1))
        total = (total + numbers.exp(-n / scale) * factor).narrowed()
    for _ in range(k):
        total = (total / numbers.one_minus_exp(1 / scale)).narrowed()
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube(ForIntegers, Mechanism[Vector, Vector]):
    """Add one draw of noise that is even on every cube around the answer, to all coordinates together.

    For vectors of which every coordinate may move (by up to linf each), its largest error is smaller by a
    factor of about ln k than that of k independent geometric draws, and its mean error by 2.

    Guarantee: pure DP, epsilon = linf / scale, at every distance with a proved linf.
    Proof: docs/explanation/cube.md#guarantee (Hardt and Talwar, 2010; Steinke and Ullman, 2016).

    >>> Cube(scale=Fraction(10)).bound(Distance(linf=Fraction(1))).epsilon
    Fraction(1, 10)
    """

    name: ClassVar[str] = "cube"
    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Cube:
        """The one that costs `epsilon` at this distance."""
        return cls(scale=needed("linf", distance.for_integers().linf) / price("epsilon", epsilon))

    def law(self, answer: Vector) -> CubeLaw:
        exact = whole_vector(answer)
        if len(exact) > 8 * self.scale:  # decided by public numbers; the draws would take too many attempts
            raise InvalidParameter(
                "scale", self.scale, f"{len(exact)} numbers need at least an eighth of that: use a finer grid"
            )
        return CubeLaw(self.scale, exact)

    def _bound(self, distance: Distance) -> Bound:
        return Bound(epsilon=None if distance.linf is None else distance.linf / self.scale)
