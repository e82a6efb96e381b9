"""Sums of the discrete Gaussian, bounded from both sides at a cost that does not grow with its width.

What the law weighs beyond n is S(n) = f(n) + f(n+1) + ... with f(y) = exp(-y^2 / (2 v)). A narrow law is
summed term by term. A wide one is an integral and a few corrections, by Euler and Maclaurin:

    S(n) = integral of f from n on + f(n)/2 - sum over k = 1 .. p of B_2k/(2k)! f^(2k-1)(n) + R,
    |R| <= 2 zeta(2p) / (2 pi)^2p times the integral of |f^(2p)| from n on.

The derivatives are Hermite polynomials times f, and the integral is sqrt(pi v / 2) - n f(n) G(n^2/v) with
G(q) = 1 + q/3 + q^2/(3 5) + ..., so everything but one root and one exponential is rational.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import zip_longest

from sfumato.exact import numbers
from sfumato.exact.bulk import weighed
from sfumato.exact.numbers import Interval

WIDE = 1 << 8  # from this sigma_squared on, integrals instead of terms
DEPTH = 320  # bits of a weight that is summed term by term: tails down to e^-150 keep their digits
FAR = 4096  # squared standard deviations: beyond 64 of them a tail is bounded by 0 and e^-2048
BERNOULLI = tuple(  # B_2k / (2k)! for k = 1 .. p
    Fraction(*pair)
    for pair in ((1, 12), (-1, 720), (1, 30240), (-1, 1209600), (1, 47900160), (-691, 1307674368000))
)
ORDER = 2 * len(BERNOULLI)
ALMOST = Fraction(1, 10**14)  # what a turned vector may add to a loss, and to the logarithm of a mass
GENTLE = 20  # a vector is turned where that takes at most one part in so many of its sigma^2


def _hermite(order: int) -> list[int]:
    """The coefficients of He_order in powers of z: He_(j+1) = z He_j - j He_(j-1)."""
    before, here = [0], [1]
    for j in range(order):
        raised = [0, *here]
        before, here = here, [a - j * b for a, b in zip_longest(raised, before, fillvalue=0)]
    return here


ODD = tuple(_hermite(2 * k - 1)[1::2] for k in range(1, len(BERNOULLI) + 1))  # He_(2k-1)(z)/z by z^2
LAST = [abs(c) for c in _hermite(ORDER)[::2]]  # |He_2p(u)| is at most this polynomial in u^2


@dataclass(frozen=True)
class Sums:
    """The sums of exp(-y^2 / (2 sigma_squared)) over integers y.

    >>> float(Sums(Fraction(1)).total.low)
    2.5066282880429056
    >>> law = Sums(Fraction(10**12))
    >>> float((law.beyond(2_000_000) / law.total).high)  # the normal tail is 0.0227501...
    0.022750158943671463
    """

    sigma_squared: Fraction

    @cached_property
    def total(self) -> Interval:
        """The sum over all integers."""
        return (self.beyond(0) * 2 - 1).narrowed()

    def beyond(self, n: int) -> Interval:
        """The sum over y >= n."""
        if n < 0:
            return (self.total - self.beyond(1 - n)).narrowed()
        if Fraction(n * n) > FAR * self.sigma_squared:
            # S(n) <= f(n) / (1 - exp(-n/v)), and 1 - exp(-x) >= x/2 for x <= 1
            step = min(Fraction(n) / self.sigma_squared, Fraction(1))
            return Interval(Fraction(0), numbers.exp(-Fraction(FAR, 2)).high * 2 / step)
        return self._integral(n) if self.sigma_squared >= WIDE else self._terms(n)

    @cached_property
    def _tails(self) -> tuple[list[Interval], Interval]:
        """The sums from n = 0, 1, ... on, and what lies beyond the last of them."""
        weights = weighed(Fraction(0), 1 / (2 * self.sigma_squared), DEPTH)
        low, high, tails = 0, weights.beyond, []
        for below, above in zip(reversed(weights.low), reversed(weights.high), strict=True):
            low, high = low + below, high + above
            tails.append(Interval(Fraction(low, 1 << DEPTH), Fraction(high, 1 << DEPTH)).narrowed())
        return tails[::-1], Interval(Fraction(0), Fraction(weights.beyond, 1 << DEPTH))

    def _terms(self, n: int) -> Interval:
        tails, rest = self._tails
        return tails[n] if n < len(tails) else rest

    def _integral(self, n: int) -> Interval:
        v, q = self.sigma_squared, Fraction(n * n) / self.sigma_squared
        # the integral is a difference: q/2 / ln 2 bits cancel, and a few for its slow decay
        working = numbers.PRECISION + int(q * Fraction(3, 4)) + 16
        at_n = numbers.exp(-q / 2, working)
        half = numbers.sqrt(numbers.pi(working).low * v / 2, working).low
        whole = numbers.sqrt(numbers.pi(working).high * v / 2, working).high
        integral = Interval(half, whole) - at_n * _series(q, working) * n
        # -B/(2k)! f^(2k-1)(n) = +B/(2k)! He_(2k-1)(z)/s^(2k-1) f(n), and He_j(z)/s^j = n/v^((j+1)/2) (...)
        corrections = sum(
            (
                factor * n / v ** (k + 1) * sum((c * q**i for i, c in enumerate(row)), Fraction(0))
                for k, (factor, row) in enumerate(zip(BERNOULLI, ODD, strict=True))
            ),
            Fraction(1, 2),
        )
        remainder = at_n.high * self._remainder(q)
        sums = integral + at_n * corrections + Interval(-remainder, remainder)
        return Interval(max(sums.low, Fraction(0)), sums.high).narrowed()

    def _remainder(self, q: Fraction) -> Fraction:
        """A bound on |R| / f(n), from the integral of |He_2p(u)| exp(-u^2/2) over u >= z.

        With e = exp(-z^2/2) the integral of u^(2j) exp(-u^2/2) is I_j = z^(2j-1) e + (2j - 1) I_(j-1), and
        I_0 <= sqrt(pi/2) e < 1.2534 e. Also 2 zeta(2p) < 2.001 for p >= 5, and 2 pi > 6.283.
        """
        z = numbers.sqrt(numbers.round_up(q, 32), 32).high
        power, integral = Fraction(12534, 10000), Fraction(0)
        for j, factor in enumerate(LAST):
            if j:
                power = z ** (2 * j - 1) + (2 * j - 1) * power
            integral += factor * power
        root = numbers.sqrt(numbers.round_down(self.sigma_squared, 32), 32).low
        return Fraction(2001, 1000) / Fraction(6283, 1000) ** ORDER / root ** (ORDER - 1) * integral


def _series(q: Fraction, precision: int) -> Interval:
    """G(q) = 1 + q/3 + q^2/(3 5) + ...: terms rounded down, and up; once q/(2k+1) <= 1/2 one more copy of
    the last term closes the sum."""
    one = 1 << precision
    low = high = below = above = one
    k = 0
    while above > 1 or 2 * q > 2 * k + 1:
        k += 1
        below = below * q.numerator // (q.denominator * (2 * k + 1))
        above = -(-above * q.numerator // (q.denominator * (2 * k + 1)))
        low, high = low + below, high + above
        if q == 0:
            break
    return Interval(Fraction(low, one), Fraction(high + above + 1, one))


@lru_cache(maxsize=256)
def sums(sigma_squared: Fraction) -> Sums:
    """The sums of a law, with what was computed of them before."""
    return Sums(sigma_squared)


def shift_delta(sigma_squared: Fraction, epsilon: Fraction, shift: int) -> Interval:
    """The smallest delta for which Y and Y + d, |d| <= shift, are (epsilon, delta)-indistinguishable.

    The mass of y exceeds e^epsilon times that of y + shift on one side of t = epsilon v/shift - shift/2, so
    delta is the difference of two tails, P(Y > t) - e^epsilon P(Y > t + shift).
    Proof: Canonne, Kamath and Steinke (2020), theorem 7; docs/explanation/gaussian.md for smaller shifts.
    """
    if shift == 0:
        return numbers.ZERO
    law = sums(sigma_squared)
    first = math.floor(epsilon * sigma_squared / shift - Fraction(shift, 2)) + 1
    delta = (law.beyond(first) - numbers.exp(epsilon) * law.beyond(first + shift)) / law.total
    return Interval(max(delta.low, Fraction(0)), max(delta.high, Fraction(0)))


def alike_delta(sigma_squared: Fraction, epsilon: Fraction, shift: int, count: int) -> Fraction:
    """At least the smallest delta for `count` coordinates of which each is moved by at most `shift`.

    All moved by `shift` is the worst, and there only the sum of the coordinates tells anything: it is a
    discrete Gaussian of count sigma^2, moved by count shift, but for a factor that is e^(2.1 n) an addition.
    Proof: docs/explanation/gaussian.md#many-coordinates.
    """
    delta = shift_delta(sigma_squared * count, epsilon, shift * count).high
    if count <= 1 or delta == 0:
        return min(Fraction(1), delta)
    if sigma_squared < 1:
        return Fraction(1)
    wrong = numbers.exp(-Fraction(98696, 10000) * sigma_squared).high * Fraction(21, 10)  # pi^2 is above that
    more = numbers.round_up(wrong * Fraction(21, 10) * (count - 1), 64)
    return Fraction(1) if more > 1 else min(Fraction(1), delta * numbers.exp(more).high)


def turned(sigma_squared: Fraction, l2_squared: Fraction, count: int) -> Fraction | None:
    """The square of the shift of normal noise of variance 1 that tells as much as a shift of a vector.

    The vector has noise of sigma^2 and moves in at most `count` coordinates, by whole numbers, by at most
    `l2_squared` in sum of squares. Normal noise, a little narrower and rounded at random, is the discrete one
    but for factors that add less than `ALMOST` to a loss; and normal noise may be turned. None where sigma is
    too small for that. Proof: docs/explanation/gaussian.md#turned-vectors.
    """
    # 6.51 count exp(-2 pi^2 rest) <= 6.51 2^-51, since 28 ln 2 < 19.5 < 2 pi^2
    rest = Fraction(count.bit_length() + 51, 28)
    if sigma_squared < GENTLE * rest:
        return None
    return numbers.round_up(l2_squared / (sigma_squared - rest), 64)


def turned_delta(squared: Fraction, epsilon: Fraction, times: int = 1) -> Fraction:
    """At least the smallest delta of `times` turned vectors whose squares add up to `squared`.

    Normal noise is discrete noise on a fine grid plus normal noise: so a shift on that grid tells more.
    """
    if squared > 1 << 20:
        return Fraction(1)
    steps = max(1, math.isqrt(int(squared * (1 << 48))))  # on a grid of at least 2^24 steps a deviation
    fine = numbers.round_down(steps**2 / squared - 8, numbers.PRECISION)
    more = times * ALMOST
    if more > 1:
        return Fraction(1)
    delta = shift_delta(fine, epsilon - more, steps).high * numbers.exp(more).high
    return min(Fraction(1), numbers.round_up(delta, 64))
