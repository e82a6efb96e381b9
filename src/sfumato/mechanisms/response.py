"""Randomized response: every person adds the noise themselves, and only the crowd can be read.

It rests on Warner (1965) for two answers and on Kairouz, Oh and Viswanath (2014) for any number of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.accuracy import proportion
from sfumato.mechanisms.arguments import price, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import Finite, Mechanism
from sfumato.mechanisms.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID = 64  # bits of a keep probability that stands for an irrational one


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Mechanism[int, int]):
    """Report the true category with probability `keep`, otherwise any other one evenly.

    Guarantee: pure DP, e^epsilon = keep (size - 1) / (1 - keep), at every distance.
    Proof: docs/explanation/randomized-response.md#guarantee

    >>> RandomizedResponse(keep=Fraction(3, 4)).law(0).masses
    (Fraction(3, 4), Fraction(1, 4))
    >>> RandomizedResponse(keep=Fraction(3, 4)).ratio  # two coins: ln 3
    Fraction(3, 1)
    """

    name: ClassVar[str] = "randomized response"
    keep: Fraction
    size: int = 2

    def __post_init__(self) -> None:
        size, keep = whole("size", self.size, least=2), rational("keep", self.keep)
        if not Fraction(1, size) <= keep < 1:
            raise InvalidParameter("keep", keep, f"take 1/{size} <= keep < 1, such as Fraction(3, 4)")
        set_fields(self, keep=keep, size=size)

    @classmethod
    def two_coins(cls) -> RandomizedResponse:
        """Heads: the truth. Tails: a second coin decides. The truth is told with probability 3/4."""
        return cls(keep=Fraction(3, 4))

    @classmethod
    def at(cls, *, epsilon: Fraction, size: int = 2) -> RandomizedResponse:
        """The most truthful one at this epsilon: keep = e^epsilon / (e^epsilon + size - 1), rounded down.

        >>> RandomizedResponse.at(epsilon=Fraction(1)).bound(Distance(l0=1)).epsilon <= 1
        True
        """
        epsilon, size = price("epsilon", epsilon), whole("size", size, least=2)
        if epsilon > 1000 or size > 1 << 64:
            raise InvalidParameter("epsilon", epsilon, "give at most 1000, and at most 2^64 categories")
        bits = GRID + size.bit_length() + max(0, -numbers.exponent(epsilon))  # enough to tell it from 1/size
        ratio = numbers.exp(-epsilon, bits + 8).high
        other = numbers.round_up(ratio / (1 + (size - 1) * ratio), bits)
        unit = other / (1 << bits)
        while (
            found := cls(keep=1 - (size - 1) * min(other, Fraction(1, size)), size=size)
        )._epsilon > epsilon:
            other, unit = other + unit, 2 * unit  # rounded up, the logarithm may lie a hair above
        return found

    @property
    def other(self) -> Fraction:
        """The probability of each false category."""
        return (1 - self.keep) / (self.size - 1)

    @property
    def ratio(self) -> Fraction:
        """e^epsilon, exactly."""
        return self.keep / self.other

    def law(self, answer: int) -> Finite[int]:
        if not 0 <= (answer := whole_vector((answer,))[0]) < self.size:
            raise InvalidParameter(
                "answer", "a category outside the range", f"number them 0 to {self.size - 1}"
            )
        categories = tuple(range(self.size))
        return Finite(categories, tuple(self.keep if y == answer else self.other for y in categories))

    def table(self) -> Table[int, int]:
        """The same as a matrix."""
        return Table(rows=tuple(self.law(x).masses for x in range(self.size)))

    def _bound(self, distance: Distance) -> Bound:  # noqa: ARG002  # the same at every distance
        return Bound(epsilon=self._epsilon)

    @property
    def _epsilon(self) -> Fraction:
        return numbers.round_up(numbers.log(self.ratio).high, 64)

    def estimate(self, counts: Sequence[int], *, tail: Fraction = Fraction(1, 20)) -> tuple[Estimate, ...]:
        """The share of each category among the people, from how often each was reported.

        >>> no, yes = RandomizedResponse.two_coins().estimate([600, 400])
        >>> yes.share, yes.fixed_error, yes.sampled_error  # 2 * 0.4 - 1/2
        (Fraction(3, 10), 0.027386127875258306, 0.030983866769659335)
        """
        if len(counts) != self.size or min(counts, default=0) < 0 or sum(counts) == 0:
            raise InvalidParameter("counts", list(counts), f"give {self.size} counts of reports, not all 0")
        if self.ratio == 1:
            raise InvalidParameter("keep", self.keep, "reports that ignore the truth estimate nothing")
        if rational("tail", tail) > Fraction(1, 2):
            raise InvalidParameter("tail", tail, "give the chance of a miss, at most a half")
        return tuple(self._estimated(count, sum(counts), tail) for count in counts)

    def _estimated(self, count: int, people: int, tail: Fraction) -> Estimate:
        slope = self.keep - self.other

        def share(observed: Fraction) -> Fraction:
            return (observed - self.other) / slope

        low, high = proportion(count=count, people=people, miss=float(tail))
        estimate = share(Fraction(count, people))
        inside = min(max(estimate, Fraction(0)), Fraction(1))
        return Estimate(
            share=estimate,
            low=min(max(float(share(Fraction(low))), 0.0), 1.0),
            high=min(max(float(share(Fraction(high))), 0.0), 1.0),
            fixed_error=math.sqrt(self.variance(share=inside, people=people)),
            sampled_error=math.sqrt(
                self.variance(share=inside, people=people) + inside * (1 - inside) / people
            ),
        )

    def variance(self, *, share: Fraction, people: int) -> Fraction:
        """The variance of the estimated share over the coins, for a fixed set of people.

        If the people are themselves a random sample of a population, add share (1 - share) / people.

        >>> RandomizedResponse.two_coins().variance(share=Fraction(3, 10), people=1000)  # 3 / (4 n)
        Fraction(3, 4000)
        """
        whole("people", people, least=1)
        told, heard = self.keep * (1 - self.keep), self.other * (1 - self.other)
        return (share * told + (1 - share) * heard) / (self.keep - self.other) ** 2 / people


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated share of people, unbiased and therefore not clipped; the interval is clipped to 0 .. 1.

    `fixed_error` is the standard error for the people who were asked, `sampled_error` for a population of
    which they are a random sample (both readings occur in textbooks, and they differ). The interval is that
    of Clopper and Pearson for a binomial count, and it covers under both readings: independent reports add
    up to a count that strays no further than a binomial one (Hoeffding, 1956, theorem 4).
    Proof: docs/explanation/randomized-response.md.
    """

    share: Fraction
    low: float
    high: float
    fixed_error: float
    sampled_error: float
