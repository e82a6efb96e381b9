"""Which groups may be shown, when nobody declared them: a group that one person alone makes must stay hidden.

The answer is a count of persons for every group that has any. Each group is shown or not, by a coin whose
probability depends on its count: none for nobody, delta for one person, then as fast up as the guarantee
allows. That rule shows more groups than any other with the same guarantee (Desfontaines, Voss, Gipson and
Mandayam, 2022, theorem 1).
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import price, rational, set_fields, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import BULK_PAYS, ForIntegers, Law, Mechanism, Vector, log_above_zero

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

BITS = 192  # probabilities are whole multiples of 2^-192, rounded down
REST = BITS - 64
MOST_COUNTS = 1 << 17  # counts by which every group must be shown


@dataclass(frozen=True, slots=True)
class ShownGroups(Law[Vector]):
    """For every group 1 if it is shown, else 0; independently."""

    chances: tuple[int, ...] = field(repr=False)  # in parts of 2^BITS

    def draw(self, coins: Coins) -> Vector:
        whole = 1 << BITS
        shown = [int(chance == whole) for chance in self.chances]  # most groups leave no doubt
        unsure = [(i, chance) for i, chance in enumerate(self.chances) if 0 < chance < whole]
        if len(unsure) < BULK_PAYS:
            for i, chance in unsure:
                shown[i] = int(coins.chance(chance, whole))
            return tuple(shown)
        words = coins.words(len(unsure)).tolist()  # the first bits nearly always decide
        for (i, chance), word in zip(unsure, words, strict=True):
            first, rest = chance >> REST, chance & ((1 << REST) - 1)
            shown[i] = int(word < first or (word == first and coins.bits(REST) < rest))
        return tuple(shown)

    def log_mass(self, y: Vector) -> Interval:
        total = numbers.log(1)
        for chance, shown in zip(self.chances, y, strict=True):
            mass = Fraction(chance if shown else (1 << BITS) - chance, 1 << BITS)
            total = total + log_above_zero(numbers.Interval(mass, mass))
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(ForIntegers, Mechanism[Vector, Vector]):
    """Show each group with the largest probability that (epsilon, delta) for one group allows.

    Guarantee: (k epsilon, k delta)-DP where neighbours change at most k counts, each by at most one.
    Proof: docs/explanation/private-keys.md#the-rule.

    >>> rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000))
    >>> [round(float(rule.chance(n)), 4) for n in (0, 1, 2, 7, 8, 15)]
    [0.0, 0.001, 0.0037, 0.6376, 0.8671, 1.0]
    """

    name: ClassVar[str] = "partition"
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        delta = rational("delta", self.delta)
        if delta >= 1:
            raise InvalidParameter("delta", delta, "a probability is below 1")
        set_fields(self, epsilon=price("epsilon", self.epsilon), delta=delta)
        _chances(self.epsilon, self.delta)  # whoever makes the rule is told if it shows nothing

    def chance(self, count: int) -> Fraction:
        """The probability that a group of so many persons is shown."""
        chances = _chances(self.epsilon, self.delta)
        return Fraction(chances[max(0, min(count, len(chances) - 1))], 1 << BITS)

    @property
    def half(self) -> int:
        """How many persons a group needs to be shown more often than not."""
        return bisect.bisect_left(_chances(self.epsilon, self.delta), 1 << (BITS - 1))

    def law(self, answer: Vector) -> ShownGroups:
        chances = _chances(self.epsilon, self.delta)
        last = len(chances) - 1
        return ShownGroups(tuple(chances[max(0, min(count, last))] for count in whole_vector(answer)))

    def _bound(self, distance: Distance) -> Bound:
        if distance.l0 is None or distance.linf is None or distance.linf > 1:
            return Bound()
        return Bound(epsilon=distance.l0 * self.epsilon, delta=min(Fraction(1), distance.l0 * self.delta))


@lru_cache(maxsize=256)
def _chances(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """The probabilities for 0, 1, 2, ... persons, up to the first that is one; in parts of 2^BITS.

    p(n) is the least of e^eps p(n-1) + delta, 1 - e^-eps (1 - p(n-1) - delta) and 1: the largest that keeps
    (epsilon, delta) for both outcomes and both orders of n-1 and n. Everything is rounded down, e^eps to
    begin with: a smaller p(n) keeps the two conditions, which bound it by p(n-1) as it was rounded.
    """
    whole = 1 << BITS
    ratio = numbers.exp(epsilon).low
    top, bottom = numbers.round_down(ratio, 128).as_integer_ratio()
    lost = int(delta * whole)
    found = [0]
    while found[-1] < whole:
        before = found[-1]
        up = before * top // bottom + lost
        # 1 - (1 - p - delta) / ratio, rounded down: what is taken off is rounded up
        rest = whole - before - lost
        down = whole + (-rest * bottom) // top if rest > 0 else whole
        found.append(min(up, down, whole))
        if len(found) > MOST_COUNTS or found[-1] <= before:
            raise InvalidParameter(
                "delta", delta, "it is too small for this epsilon: no group would be shown"
            )
    return tuple(found)
