"""Exact samplers for the laws that noise is made of.

They follow Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms
1 to 3: every law is reached with uniform integers and comparisons alone, so what is drawn *is* the law, with
no rounding. Parameters are rational. Each sampler is an attempt that may fail, and a loop around it: a
failed attempt is forgotten, so the law of the loop is the law of one attempt given that it succeeds, and a
test can walk the coins of a single attempt.

These draw one number at a time. `bulk` draws the same laws by the thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins

Attempt = Callable[["Coins"], "int | None"]


def bernoulli_exp(numerator: int, denominator: int, coins: Coins) -> bool:
    """True with probability exp(-numerator/denominator), for numerator >= 0.

    The whole part is a product of Bernoulli(1/e); for a rest x < 1, count how often Bernoulli(x/k) succeeds
    for k = 1, 2, ...: the first failure comes at an odd k with probability 1 - x + x^2/2! - ... = e^-x.
    """
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not _bernoulli_exp_below_one(1, 1, coins):
            return False
    return _bernoulli_exp_below_one(rest, denominator, coins)


def _bernoulli_exp_below_one(numerator: int, denominator: int, coins: Coins) -> bool:
    if numerator == 0:
        return True
    k = 1
    while coins.chance(numerator, denominator * k):
        k += 1
    return k % 2 == 1


def geometric(scale: Fraction, coins: Coins) -> int:
    """k = 0, 1, 2, ... with probability (1 - a) a^k, where a = exp(-1/scale)."""
    return loop(lambda c: attempt_geometric(scale, c), coins)


def attempt_geometric(scale: Fraction, coins: Coins) -> int | None:
    """One attempt at `geometric`: a remainder u below n, kept with probability exp(-u/n), then whole n's.

    With scale = n/d the number x = u + n v has law proportional to exp(-x/n), and x // d is geometric.
    """
    n, d = scale.numerator, scale.denominator
    u = coins.below(n)
    if not bernoulli_exp(u, n, coins):
        return None
    v = 0
    while _bernoulli_exp_below_one(1, 1, coins):
        v += 1
    return (u + n * v) // d


def discrete_laplace(scale: Fraction, coins: Coins) -> int:
    """y in the integers with probability proportional to exp(-|y|/scale)."""
    return loop(lambda c: attempt_discrete_laplace(scale, c), coins)


def attempt_discrete_laplace(scale: Fraction, coins: Coins) -> int | None:
    """One attempt: a geometric number with a random sign; minus zero fails, or zero would count twice."""
    magnitude = attempt_geometric(scale, coins)
    if magnitude is None:
        return None
    negative = coins.chance(1, 2)
    if negative and magnitude == 0:
        return None
    return -magnitude if negative else magnitude


def discrete_gaussian(sigma_squared: Fraction, coins: Coins) -> int:
    """y in the integers with probability proportional to exp(-y^2 / (2 sigma_squared))."""
    return loop(lambda c: attempt_discrete_gaussian(sigma_squared, c), coins)


def attempt_discrete_gaussian(sigma_squared: Fraction, coins: Coins) -> int | None:
    """One attempt: a discrete Laplace draw y of scale t that survives Bernoulli(exp(-x)).

    Here x = (|y| - sigma_squared/t)^2 / (2 sigma_squared); the product of both laws is the Gaussian one.
    """
    t = math.isqrt(sigma_squared.numerator // sigma_squared.denominator) + 1
    y = attempt_discrete_laplace(Fraction(t), coins)
    if y is None:
        return None
    numerator, denominator = _gaussian_keep(abs(y), t, sigma_squared)
    return y if bernoulli_exp(numerator, denominator, coins) else None


def _gaussian_keep(magnitude: int, t: int, sigma_squared: Fraction) -> tuple[int, int]:
    """(|y| - p/(q t))^2 q / (2 p) as a fraction, for sigma_squared p/q."""
    p, q = sigma_squared.numerator, sigma_squared.denominator
    return (magnitude * q * t - p) ** 2, 2 * p * q * t * t


def loop(attempt: Attempt, coins: Coins) -> int:
    """The first attempt that succeeds."""
    while (drawn := attempt(coins)) is None:
        pass
    return drawn
