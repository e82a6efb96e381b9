"""Noise that depends on the data: the median, by smooth sensitivity.

One person can move a median from one end of the range to the other, but on most data hardly at all. Noise
made to the local sensitivity would leak, since it changes with the data; noise made to a smooth upper bound
of it does not.

It rests on Nissim, Raskhodnikova and Smith (2007); the proof for integer noise is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import price, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import Law, Mechanism, Shifted, Vector
from sfumato.mechanisms.noise import DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

MOST_TOGETHER = 60  # people, or epsilons together, for which a group's delta is computed; beyond, it is 1
LEAST = Fraction(1, 1 << 100)  # a sensitivity below this draws zero noise all the same
ROUNDING = Fraction(1, 1 << 60)  # taken off beta: a smooth bound is rounded up to 64 bits


def local_sensitivity(values: Sequence[int], *, low: int, high: int, away: int = 0) -> int:
    """How far one more replacement can move the median of data that lie `away` replacements from these.

    The median is the value of rank (n + 1) // 2, and values are clamped to low .. high.

    >>> local_sensitivity([0, 2, 3, 7, 9], low=0, high=10)  # the larger of 3 - 2 and 7 - 3
    4
    """
    return _local(_padded(values, low, high), len(values), away)


def _padded(values: Sequence[int], low: int, high: int) -> Ints:
    """The values clamped and sorted; beyond them lie the ends of the range, often enough for any rank."""
    ranked = sorted(min(max(value, low), high) for value in values)
    around = [low] * (len(ranked) + 1) + ranked + [high] * (len(ranked) + 1)
    wide = max(abs(low), abs(high)) >= 1 << 61
    return np.array(around, dtype=np.object_) if wide else np.array(around, dtype=np.int64)


def _local(padded: Ints, size: int, away: int) -> int:
    middle = size + 1 + (size + 1) // 2 - 1
    return int((padded[middle : middle + away + 2] - padded[middle - away - 1 : middle + 1]).max())


def smooth_sensitivity(values: Sequence[int], *, low: int, high: int, beta: Fraction) -> Fraction:
    """The largest of exp(-beta k) times the local sensitivity k replacements away, rounded up to 64 bits.

    At least 2^-100: a constant is as smooth as can be, and no data make the noise too small to be drawn.

    >>> float(smooth_sensitivity([0] * 6 + [10] * 4, low=0, high=10, beta=Fraction(1)))  # 10 / e
    3.6787944117144233
    """
    padded, rate = _padded(values, low, high), numbers.exp(-rational("beta", beta))
    best, shrink = LEAST, Fraction(1)
    for away in range(len(values) + 1):
        if shrink * (high - low) <= best:
            break  # nothing further away can be larger
        best = max(best, shrink * _local(padded, len(values), away))
        shrink = numbers.round_up(shrink * rate.high, 96)
    return numbers.round_up(best, 64)


@dataclass(frozen=True, slots=True)
class Veiled(Law[Vector]):
    """A law whose noise depends on the data as much as its centre does: nothing of it is shown."""

    shifted: Shifted = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        return self.shifted.draw(coins)

    def log_mass(self, y: Vector) -> Interval:
        return self.shifted.log_mass(y)


@dataclass(frozen=True, kw_only=True)
class SmoothMedian(Mechanism[Vector, Vector]):
    """The median of `size` whole numbers, with noise of scale 2 S / epsilon, S its smooth sensitivity.

    Guarantee: (epsilon, delta)-differential privacy when one value is replaced; `distance.l0` counts the
    values that are. The number of values is public.
    Proof: docs/explanation/smooth-sensitivity.md#guarantee.

    >>> ages = SmoothMedian(epsilon=Fraction(1), delta=Fraction(1, 10**6), low=0, high=120, size=5)
    >>> ages.bound(Distance(l0=1))
    Bound(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000), rho=None)
    """

    name: ClassVar[str] = "smooth median"
    epsilon: Fraction
    delta: Fraction
    low: int
    high: int
    size: int

    def __post_init__(self) -> None:
        if whole("high", self.high) <= whole("low", self.low):
            raise InvalidParameter("high", self.high, f"give a number above low = {self.low}")
        if rational("delta", self.delta) > Fraction(1, 2):
            raise InvalidParameter(
                "delta", self.delta, "take a small probability, such as Fraction(1, 10**6)"
            )
        set_fields(
            self,
            epsilon=price("epsilon", self.epsilon),
            delta=Fraction(self.delta),
            size=whole("size", self.size, least=1),
        )

    @cached_property
    def beta(self) -> Fraction:
        """How slowly the bound changes: ln(1 + epsilon / (2 ln(2/delta))), rounded down."""
        step = self.epsilon / (2 * numbers.log(2 / self.delta).high)
        beta = numbers.round_down(numbers.log(1 + step).low, 64) - ROUNDING
        if beta <= 0:
            raise InvalidParameter(
                "epsilon", self.epsilon, "it is too small for this delta: no bound is smooth enough"
            )
        return beta

    def law(self, answer: Vector) -> Veiled:
        values = whole_vector(answer)
        if len(values) != self.size:  # public: the number of values is
            raise InvalidParameter(
                "answer", f"{len(values)} values", f"this one was made for size {self.size}"
            )
        ranked = sorted(min(max(value, self.low), self.high) for value in values)
        smooth = smooth_sensitivity(ranked, low=self.low, high=self.high, beta=self.beta)
        median = ranked[(len(ranked) + 1) // 2 - 1]
        return Veiled(Shifted(DiscreteLaplace(scale=2 * smooth / self.epsilon), (median,)))

    def _bound(self, distance: Distance) -> Bound:
        people = distance.l0
        if people is None:
            return Bound()
        total = people * self.epsilon
        if people == 1 or total > MOST_TOGETHER or people > MOST_TOGETHER:
            return Bound(epsilon=total, delta=self.delta if people == 1 else Fraction(1))
        # a chain of replacements: k epsilon, and delta (1 + e^epsilon + ... + e^((k-1) epsilon))
        grown = sum((numbers.exp(self.epsilon * k).high for k in range(people)), Fraction(0))
        return Bound(epsilon=total, delta=min(Fraction(1), numbers.round_up(self.delta * grown, 64)))
