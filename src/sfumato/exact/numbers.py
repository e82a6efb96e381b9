"""Rational bounds on exp and log, rounded outward.

A guarantee never rests on a float (law 5). Where a transcendental number is needed we carry an `Interval` of
fractions that contains it. Every rounding below goes outward: down for a lower end, up for an upper one.
Fixed point: an integer m at precision p stands for m / 2^p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

PRECISION = 96  # bits kept after the point (relative, for exp); far below any bound that matters
TINY = 1 << 16  # exp(-TINY) is bounded by (0, 2^-TINY] instead of being computed


@dataclass(frozen=True, slots=True)
class Interval:
    """A number known to lie between `low` and `high`, both included."""

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        assert self.low <= self.high

    def __contains__(self, x: object) -> bool:
        return isinstance(x, (int, Fraction)) and self.low <= x <= self.high

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval | Fraction | int) -> Interval:
        low, high = ends(other)
        return Interval(self.low + low, self.high + high)

    __radd__ = __add__

    def __sub__(self, other: Interval | Fraction | int) -> Interval:
        low, high = ends(other)
        return Interval(self.low - high, self.high - low)

    def __rsub__(self, other: Fraction | int) -> Interval:
        return Interval(other - self.high, other - self.low)

    def __mul__(self, other: Interval | Fraction | int) -> Interval:
        corners = [a * b for a in (self.low, self.high) for b in ends(other)]
        return Interval(min(corners), max(corners))

    __rmul__ = __mul__

    def __truediv__(self, other: Interval | Fraction | int) -> Interval:
        low, high = ends(other)
        if low <= 0 <= high:
            raise ZeroDivisionError("the divisor may be zero")
        return self * Interval(1 / Fraction(high), 1 / Fraction(low))

    def narrowed(self, bits: int = PRECISION) -> Interval:
        """The same number in at most `bits` significant bits an end, rounded outward."""
        return Interval(round_down(self.low, bits), round_up(self.high, bits))


ZERO = Interval(Fraction(0), Fraction(0))


def ends(x: Interval | Fraction | int) -> tuple[Fraction, Fraction]:
    """Both ends of a number that may be exact."""
    return (x.low, x.high) if isinstance(x, Interval) else (Fraction(x), Fraction(x))


def exponent(x: Fraction) -> int:
    """An e with 2^(e-1) < |x| < 2^(e+1)."""
    return x.numerator.bit_length() - x.denominator.bit_length()


def round_down(x: Fraction, bits: int) -> Fraction:
    """The largest multiple of a power of two with about `bits` significant bits that is at most x."""
    if x == 0:
        return x
    shift = bits - exponent(x)
    if shift >= 0:
        return Fraction((x.numerator << shift) // x.denominator, 1 << shift)
    return Fraction((x.numerator // (x.denominator << -shift)) << -shift)


def round_up(x: Fraction, bits: int) -> Fraction:
    """The smallest such number that is at least x."""
    return -round_down(-x, bits)


def exp(x: Fraction | int, precision: int = PRECISION) -> Interval:
    """An interval around e^x, about 2^(6-precision) wide relative to its value.

    >>> float(exp(1).low), float(exp(1).high)
    (2.718281828459045, 2.718281828459045)
    """
    x = Fraction(x)
    if x < -TINY:
        return Interval(Fraction(0), Fraction(1, 1 << TINY))  # e^-t < 2^-t
    if x > TINY:
        raise OverflowError(f"exp({x}) is too large to be useful")
    if x < 0:
        positive = exp(-x, precision)
        return Interval(1 / positive.high, 1 / positive.low).narrowed(precision)
    halvings = max(0, exponent(x) + 2) if x else 0  # x / 2^halvings < 1
    working = precision + 2 * halvings + 8  # squaring doubles the relative error each time
    low, high = _exp_small(x / (1 << halvings), working)
    result = Interval(Fraction(low, 1 << working), Fraction(high, 1 << working))
    for _ in range(halvings):
        result = Interval(
            round_down(result.low * result.low, working), round_up(result.high * result.high, working)
        )
    return result.narrowed(precision)


def one_minus_exp(x: Fraction | int) -> Interval:
    """An interval around 1 - e^-x for x > 0, narrow relative to its value however small x is.

    >>> float(one_minus_exp(Fraction(1, 10**40)).low)
    1e-40
    """
    x = Fraction(x)
    if x <= 0:
        raise ValueError("one_minus_exp needs a positive number")
    return (1 - exp(-x, PRECISION + max(0, -exponent(x)) + 8)).narrowed()


def _exp_small(x: Fraction, precision: int) -> tuple[int, int]:
    """e^x for 0 <= x <= 1 in fixed point: the Taylor sum, all terms rounded down, and all rounded up.

    The remainder after the term t_n is below t_n (x <= 1 and n >= 1), so one more copy of it closes the sum.
    """
    one = 1 << precision
    low, high, below, above, n = one, one, one, one, 0
    while above > 1:
        n += 1
        below = below * x.numerator // (x.denominator * n)
        above = -(-above * x.numerator // (x.denominator * n))
        low, high = low + below, high + above
    return low, high + above + 1


def _artanh(z: Fraction, precision: int) -> tuple[int, int]:
    """2 artanh(z) for 0 <= z <= 1/3: sum of 2 z^(2k+1)/(2k+1), all rounded down, and all rounded up."""
    square = z * z
    low_power = (z.numerator << precision) // z.denominator
    high_power = low_power + 1
    low = high = 0
    k = 0
    while True:
        low += 2 * low_power // (2 * k + 1)
        high += -(-2 * high_power // (2 * k + 1))
        if high_power <= 1:
            # what remains is below 2 z^(2k+1) (z^2 + z^4 + ...) <= 2 * 2^-precision / 8
            return low, high + 1
        low_power = low_power * square.numerator // square.denominator
        high_power = -(-high_power * square.numerator // square.denominator)
        k += 1


def log(x: Fraction | int) -> Interval:
    """An interval around ln x for x > 0, about 2^-90 wide.

    >>> float(log(2).low), float(log(2).high)
    (0.6931471805599453, 0.6931471805599453)
    """
    x = Fraction(x)
    if x <= 0:
        raise ValueError("log needs a positive number")
    if x == 1:
        return ZERO
    power = exponent(x)
    mantissa = x / Fraction(2) ** power  # in (1/2, 2)
    if mantissa < 1:
        mantissa, power = mantissa * 2, power - 1
    precision = PRECISION + 16 + power.bit_length()
    low, high = _artanh((mantissa - 1) / (mantissa + 1), precision)  # (m-1)/(m+1) in [0, 1/3)
    two_low, two_high = _artanh(Fraction(1, 3), precision)  # ln 2
    if power >= 0:
        low, high = low + power * two_low, high + power * two_high
    else:
        low, high = low + power * two_high, high + power * two_low
    return Interval(Fraction(low, 1 << precision), Fraction(high, 1 << precision))


def log_of(x: Interval) -> Interval:
    """An interval around ln of a positive number known by an interval."""
    return Interval(log(x.low).low, log(x.high).high)


def sqrt(x: Fraction | int, precision: int = PRECISION) -> Interval:
    """An interval around the square root of x >= 0.

    >>> sqrt(Fraction(9, 4))
    Interval(low=Fraction(3, 2), high=Fraction(3, 2))
    """
    x = Fraction(x)
    if x < 0:
        raise ValueError("sqrt needs a number that is not negative")
    shift = max(precision - exponent(x) // 2, 0) if x else 0
    scaled, rest = divmod(x.numerator << 2 * shift, x.denominator)
    root = math.isqrt(scaled)
    exact = rest == 0 and root * root == scaled
    return Interval(Fraction(root, 1 << shift), Fraction(root if exact else root + 1, 1 << shift))


@lru_cache(maxsize=16)
def pi(precision: int = PRECISION) -> Interval:
    """An interval around pi, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239).

    >>> float(pi().low), float(pi().high)
    (3.141592653589793, 3.141592653589793)
    """
    return _arctan_of_inverse(5, precision + 8) * 16 - _arctan_of_inverse(239, precision + 8) * 4


def _arctan_of_inverse(n: int, precision: int) -> Interval:
    """arctan(1/n): the series alternates and its terms shrink, so the truth lies between two partial sums."""
    total, power, k = 0, (1 << precision) // n, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    # each of the k terms was cut by less than two units, and the rest of the series is below one
    return Interval(Fraction(total - 2 * k - 1, 1 << precision), Fraction(total + 2 * k + 1, 1 << precision))
