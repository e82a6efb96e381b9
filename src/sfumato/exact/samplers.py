"""Exact samplers for the laws that noise is made of.

They follow Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms
1 to 3: every law is reached with uniform integers and comparisons alone, so what is drawn *is* the law, with
no rounding. Parameters are rational. Each sampler is an attempt that may fail, and a loop around it: a
failed attempt is forgotten, so the law of the loop is the law of one attempt given that it succeeds, and a
test can walk the coins of a single attempt.

The bulk forms do the same with numpy on int64. They never drop a tail: what could pass 2^62 is carried on
with Python's integers from the very same coins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins

Attempt = Callable[["Coins"], "int | None"]
Ints = NDArray[np.int64] | NDArray[np.object_]  # object only where int64 could overflow
WIDE = 1 << 62  # int64 arithmetic stays below this; beyond, Python integers take over


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


def discrete_gaussian(variance: Fraction, coins: Coins) -> int:
    """y in the integers with probability proportional to exp(-y^2 / (2 variance))."""
    return loop(lambda c: attempt_discrete_gaussian(variance, c), coins)


def attempt_discrete_gaussian(variance: Fraction, coins: Coins) -> int | None:
    """One attempt: a discrete Laplace draw y of scale t that survives Bernoulli(exp(-x)).

    Here x = (|y| - variance/t)^2 / (2 variance); the product of both laws is the Gaussian one.
    """
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    y = attempt_discrete_laplace(Fraction(t), coins)
    if y is None:
        return None
    numerator, denominator = _gaussian_keep(abs(y), t, variance)
    return y if bernoulli_exp(numerator, denominator, coins) else None


def _gaussian_keep(magnitude: int, t: int, variance: Fraction) -> tuple[int, int]:
    """(|y| - p/(q t))^2 q / (2 p) as a fraction, for variance p/q."""
    p, q = variance.numerator, variance.denominator
    return (magnitude * q * t - p) ** 2, 2 * p * q * t * t


def loop(attempt: Attempt, coins: Coins) -> int:
    """The first attempt that succeeds."""
    while (drawn := attempt(coins)) is None:
        pass
    return drawn


# Bulk ------------------------------------------------------------------------------------------------


def discrete_laplace_bulk(scale: Fraction, size: int, coins: Coins) -> Ints:
    """`size` independent draws of `discrete_laplace`; an object array if any is too wide for int64."""
    return _collect(lambda wanted: _discrete_laplace_attempts(scale, wanted, coins), size)


def discrete_gaussian_bulk(variance: Fraction, size: int, coins: Coins) -> Ints:
    """`size` independent draws of `discrete_gaussian`."""
    return _collect(lambda wanted: _discrete_gaussian_attempts(variance, wanted, coins), size)


def _collect(attempts: Callable[[int], Ints], size: int) -> Ints:
    """Attempts in rounds until `size` have succeeded.

    Successes are independent and identically distributed in the order they come, so the first `size` of
    them are too: what is left over of the last round is thrown away without being looked at.
    """
    parts: list[Ints] = []
    missing = size
    while missing > 0:
        part = attempts(min(missing + missing // 2 + 16, 1 << 18))[:missing]
        parts.append(part)
        missing -= len(part)
    joined: Ints = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)  # type: ignore[assignment]  # a mix becomes object
    return joined


def _discrete_laplace_attempts(scale: Fraction, count: int, coins: Coins) -> Ints:
    n, d = scale.numerator, scale.denominator
    if n >= WIDE:  # the remainder itself is too wide: one at a time
        drawn = (attempt_discrete_laplace(scale, coins) for _ in range(count))
        return np.array([y for y in drawn if y is not None], dtype=np.object_)
    remainder = _below(n, count, coins)
    remainder = remainder[_bernoulli_exp_below_one_bulk(remainder, n, coins)]
    turns = _geometric_of_one_bulk(len(remainder), coins)
    if len(turns) and (int(turns.max()) + 1) * n >= WIDE:
        wide = [(u + n * v) // d for u, v in zip(remainder.tolist(), turns.tolist(), strict=True)]
        magnitude: Ints = np.array(wide, dtype=np.object_)
    else:
        magnitude = remainder + n * turns
        if d > 1:
            magnitude = (
                magnitude // d if d < WIDE else np.array([m // d for m in magnitude.tolist()], dtype=np.int64)
            )
    negative = _fair(len(magnitude), coins)
    kept = ~(negative & (magnitude == 0))
    signed: Ints = np.where(negative, -magnitude, magnitude)[kept]
    return signed


def _discrete_gaussian_attempts(variance: Fraction, count: int, coins: Coins) -> Ints:
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    drawn = _discrete_laplace_attempts(Fraction(t), count, coins)
    p, q = variance.numerator, variance.denominator
    largest = int(max(abs(drawn).max(), 1)) if len(drawn) else 1
    if max(largest * q * t, p) ** 2 >= WIDE or 2 * p * q * t * t >= WIDE:
        ratios = [_gaussian_keep(abs(int(y)), t, variance) for y in drawn]
        return drawn[np.array([bernoulli_exp(a, b, coins) for a, b in ratios], dtype=np.bool_)]
    numerator = (np.abs(drawn) * (q * t) - p) ** 2
    denominator = 2 * p * q * t * t
    return drawn[_bernoulli_exp_bulk(numerator, denominator, coins)]


def _bernoulli_exp_bulk(numerators: NDArray[np.int64], denominator: int, coins: Coins) -> NDArray[np.bool_]:
    whole, rest = numerators // denominator, numerators % denominator
    # exp(-whole): that many successes of Bernoulli(1/e) in a row, i.e. a geometric number >= whole
    alive = _geometric_of_one_bulk(len(whole), coins) >= whole
    alive[alive] = _bernoulli_exp_below_one_bulk(rest[alive], denominator, coins)
    return alive


def _bernoulli_exp_below_one_bulk(
    numerators: NDArray[np.int64], denominator: int, coins: Coins
) -> NDArray[np.bool_]:
    """Bernoulli(exp(-x)) for x = numerator/denominator <= 1, elementwise.

    Bernoulli(x/k) is tossed as (below(denominator) < numerator) and (below(k) = 0): no product to overflow.
    """
    result = np.zeros(len(numerators), dtype=np.bool_)
    active = np.arange(len(numerators))
    k = 2 if denominator == 1 and numerators.all() else 1  # at x = 1 the first toss cannot fail
    while len(active):
        success = _below(denominator, len(active), coins) < numerators[active]
        if k > 1:
            success[success] = _below(k, int(success.sum()), coins) == 0
        result[active[~success]] = k % 2 == 1
        active = active[success]
        k += 1
    return result


def _geometric_of_one_bulk(count: int, coins: Coins) -> NDArray[np.int64]:
    """How often Bernoulli(1/e) succeeds before it fails, elementwise.

    For few elements several tosses are made ahead: numpy's price is by the call, and unused tosses are
    independent of everything, so they may be dropped.
    """
    ahead = 4 if count < 4096 else 1
    result = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while len(active):
        ones = np.ones(len(active) * ahead, dtype=np.int64)
        failed = ~_bernoulli_exp_below_one_bulk(ones, 1, coins).reshape(-1, ahead)
        ended = failed.any(axis=1)
        result[active] += np.where(ended, failed.argmax(axis=1), ahead)
        active = active[~ended]
    return result


def _fair(count: int, coins: Coins) -> NDArray[np.bool_]:
    words = coins.words((count + 63) // 64)
    return np.unpackbits(words.view(np.uint8))[:count].astype(np.bool_)


def _below(n: int, count: int, coins: Coins) -> NDArray[np.int64]:
    """Uniform integers below n < 2^63, by rejection on the top of the 64-bit range."""
    if n == 1:
        return np.zeros(count, dtype=np.int64)
    if n & (n - 1) == 0:
        return (coins.words(count) & np.uint64(n - 1)).astype(np.int64)
    limit = np.uint64((1 << 64) // n * n - 1)
    words = coins.words(count)
    while len(rejected := np.flatnonzero(words > limit)):
        words[rejected] = coins.words(len(rejected))
    return (words % np.uint64(n)).astype(np.int64)
