"""The textbook rules for what several releases cost together, each under its own name.

Every rule returns an upper bound, rounded up. `basic` and `zcdp` hold when each release is chosen after
seeing the ones before (Rogers, Roth, Ullman and Vadhan, 2016; Feldman and Zrnic, 2021, for filters on their
sums); the others are for a number of releases and prices fixed in advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import Bound
from sfumato.mechanisms.arguments import LARGEST_EPSILON, price, rational, whole
from sfumato.mechanisms.mechanism import bisected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from sfumato.exact.numbers import Interval

STEPS = 1 << 40  # epsilons are found to this part of 1
SPARE = 256  # bits of a binomial weight: deltas of 10^-60 keep their digits


def basic(epsilons: Iterable[Fraction]) -> Fraction:
    """The sum (Dwork, McSherry, Nissim and Smith, 2006; Dwork and Roth, 2014, theorem 3.14).

    >>> basic([Fraction(1, 10)] * 3)
    Fraction(3, 10)
    """
    return sum((price("epsilons", epsilon, zero=True) for epsilon in epsilons), Fraction(0))


def parallel(epsilons: Iterable[Fraction]) -> Fraction:
    """The largest, for releases about disjoint sets of people (McSherry, 2009, theorem 4).

    >>> parallel([Fraction(1, 10), Fraction(3, 10)])
    Fraction(3, 10)
    """
    return max((price("epsilons", epsilon, zero=True) for epsilon in epsilons), default=Fraction(0))


def group(epsilon: Fraction, *, people: int) -> Fraction:
    """What an epsilon for one person is worth to a group: `people` times as much (Dwork and Roth, 2.2)."""
    return price("epsilon", epsilon, zero=True) * whole("people", people, least=0)


def advanced(epsilon: Fraction, *, count: int, slack: Fraction) -> Fraction:
    """sqrt(2 k ln(1/slack)) e + k e (exp(e) - 1): Dwork and Roth (2014), theorem 3.20; holds but for `slack`.

    >>> round(float(advanced(Fraction(1, 801), count=10_000, slack=Fraction(1, 10**14))), 4)
    1.018
    """
    epsilon, count, slack = price("epsilon", epsilon), whole("count", count, least=1), chance(slack)
    root = numbers.sqrt(2 * count * -numbers.log(slack).low).high
    return numbers.round_up(root * epsilon + count * epsilon * (numbers.exp(epsilon).high - 1), 64)


def advanced_share(total: Fraction, *, count: int, slack: Fraction) -> Fraction:
    """total / (2 sqrt(2 k ln(1/slack))): what each of k releases may cost (corollary 3.21), rounded down.

    For totals up to 1 and slacks up to 1/2: beyond, the theorem may give more than the total.
    """
    total, count, slack = price("total", total), whole("count", count, least=1), chance(slack)
    if total > 1 or slack > Fraction(1, 2):
        raise InvalidParameter("total", total, "the corollary holds up to 1, with a slack up to 1/2")
    root = numbers.sqrt(2 * count * -numbers.log(slack).low).high
    return numbers.round_down(total / (2 * root), 64)


def optimal(epsilon: Fraction, *, count: int) -> Binomial:
    """What `count` releases of this epsilon cost at most, exactly: randomized response is the worst of all.

    Proof: Kairouz, Oh and Viswanath (2015), theorem 3.3.
    """
    epsilon, count = price("epsilon", epsilon), whole("count", count, least=1)
    if count * epsilon > LARGEST_EPSILON:
        raise InvalidParameter(
            "count", count, f"together they exceed epsilon {LARGEST_EPSILON:,}, which would protect nobody"
        )
    return Binomial(epsilon, count)


@dataclass(frozen=True)
class Binomial:
    """The losses of `count` randomized responses: (count - 2 i) epsilon with chance P_i, i = 0 .. count.

    P_i = C(k, i) e^((k-i) e) / (1 + e^e)^k, and e^-loss P_i = P_(k-i): under the neighbour the same losses
    come in the opposite order.
    """

    epsilon: Fraction
    count: int

    def delta(self, epsilon: Fraction) -> Fraction:
        """The smallest delta at this total epsilon, rounded up.

        The sum over losses above it of P(loss) - e^epsilon P'(loss), P' that of the neighbour.

        >>> float(Binomial(Fraction(1, 801), 10_000).delta(Fraction(1)))
        1.380272521270232e-17
        """
        epsilon = rational("epsilon", epsilon, zero=True)
        m = self._above(epsilon)
        if m == 0:
            return Fraction(0)
        (_, here), (there, _), (least, most) = self._sums[m], self._mirrored[m], self._sums[-1]
        lost = Fraction(here, least) - numbers.exp(epsilon).low * Fraction(there, most)
        return min(Fraction(1), numbers.round_up(max(lost, Fraction(0)), 64))

    def beyond(self, epsilon: Fraction) -> Interval:
        """The probability that the loss is above this epsilon."""
        (low, high), (least, most) = self._sums[self._above(epsilon)], self._sums[-1]
        return numbers.Interval(Fraction(low, most), Fraction(high, least)).narrowed()

    def logs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The losses, smallest first, and upper bounds on the logarithms of their masses.

        From the largest mass, which is exact, step by step: P_(i+1) / P_i = (k - i) / (i + 1) e^-e. Adding
        up k logarithms, each below 11 + e in size, errs by less than k (11 + e) units of 2^-52 of the sum so
        far.
        """
        k, peak = self.count, max(range(self.count + 1), key=lambda i: self._weights[i][1])
        i = np.arange(k, dtype=np.float64)
        steps = np.log((k - i) / (i + 1)) - float(self.epsilon)
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        wrong = (np.abs(logs) + np.abs(steps).sum() / max(k, 1) + 1) * (k + 4) * 2.0**-52
        top = numbers.log(Fraction(self._weights[peak][1], self._sums[-1][0])).high
        upper = logs - logs[peak] + float(top) + wrong + wrong[peak]
        losses = (k - 2 * np.arange(k + 1, dtype=np.float64)) * float(self.epsilon)
        return losses[::-1].copy(), upper[::-1].copy()

    def total(self, delta: Fraction) -> Fraction:
        """The smallest epsilon in steps of 2^-40 that goes with this delta."""
        delta = chance(delta)
        return smallest(lambda epsilon: self.delta(epsilon) <= delta, self.count * self.epsilon)

    def _above(self, epsilon: Fraction) -> int:
        """How many of the losses k e, (k-2) e, ... are above epsilon."""
        return max(0, min(self.count + 1, math.ceil((self.count - epsilon / self.epsilon) / 2)))

    @cached_property
    def _weights(self) -> list[tuple[int, int]]:
        """Bounds on multiples of P_0, P_1, ...: outward from the largest, each from the one before.

        P_(i+1) = P_i (k - i) / (i + 1) e^-e. They are whole numbers of units of which the largest has so many
        that what is rounded away stays small even when e^epsilon <= e^(k e) < 2^(3/2 k e) multiplies it.
        """
        k, one = self.count, 1 << SPARE + math.ceil(Fraction(3, 2) * self.count * self.epsilon)
        rate = numbers.exp(-self.epsilon, one.bit_length() + 32)
        low, high = math.floor(rate.low * one), math.ceil(rate.high * one)
        peak = max(0, math.floor((k + 1) * rate.low / (1 + rate.low)))
        right, left = [(one, one)], [(one, one)]
        for i in range(peak, k):
            a, b = right[-1]
            right.append((a * (k - i) * low // ((i + 1) * one), -(-b * (k - i) * high // ((i + 1) * one))))
        for i in range(peak, 0, -1):
            a, b = left[-1]
            left.append((a * i * one // ((k - i + 1) * high), -(-b * i * one // ((k - i + 1) * low))))
        return [*reversed(left[1:]), *right]

    @cached_property
    def _sums(self) -> list[tuple[int, int]]:
        return _running(self._weights)

    @cached_property
    def _mirrored(self) -> list[tuple[int, int]]:
        return _running(self._weights[::-1])


def _running(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sums of the first 0, 1, 2, ... of them."""
    low, high = accumulate((a for a, _ in parts), initial=0), accumulate((b for _, b in parts), initial=0)
    return list(zip(low, high, strict=True))


def zcdp(rhos: Iterable[Fraction], *, delta: Fraction) -> Fraction:
    """The epsilon that goes with delta for the sum of rhos (Bun and Steinke, 2016, lemma 1.7; converted by
    Canonne, Kamath and Steinke, 2020, corollary 13).

    >>> round(float(zcdp([Fraction(1, 2 * 20**2)] * 1000, delta=Fraction(1, 10**6))), 3)
    8.846
    """
    total = sum((rational("rhos", rho, zero=True) for rho in rhos), Fraction(0))
    bound, delta = Bound(rho=total), chance(delta)
    return smallest(lambda epsilon: bound.delta_at(epsilon) <= delta, Fraction(1))


def smallest(enough: Callable[[Fraction], bool], guess: Fraction) -> Fraction:
    """The smallest epsilon in steps of 2^-40 for which a claim holds that goes on holding."""
    high = max(1, math.ceil(guess * STEPS))
    while not enough(Fraction(high, STEPS)):
        high *= 2
        if high > LARGEST_EPSILON * STEPS:
            raise InvalidParameter("delta", "this one", f"no epsilon below {LARGEST_EPSILON} reaches it")
    return Fraction(bisected(lambda steps: enough(Fraction(steps, STEPS)), -1, high), STEPS)


def chance(delta: Fraction) -> Fraction:
    """A delta between 0 and 1."""
    if (number := rational("delta", delta)) >= 1:
        raise InvalidParameter("delta", delta, "take a probability below 1, such as Fraction(1, 10**6)")
    return number
