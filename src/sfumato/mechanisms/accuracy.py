"""How wrong a release may be, as the theorems say it. For planning: nothing here decides a guarantee.

The exact error of a mechanism is in its law (`Line.cdf`, `Line.window`). These are the formulas one writes on
a board, next to the exact values they stand for.
"""

from __future__ import annotations

import math

from sfumato.errors import InvalidParameter


def laplace_tail(*, times: float) -> float:
    """P(|noise| > times * scale) for Laplace noise: e^-times (Dwork and Roth, 2014, fact 3.7).

    On the reals. Noise on a grid has no more than that beyond a whole number of steps; its `cdf` is exact.

    >>> round(laplace_tail(times=3), 6)
    0.049787
    """
    return math.exp(-_check("times", times, 0, math.inf))


def union_radius(*, scale: float, count: int, miss: float) -> float:
    """A radius that all of `count` Laplace errors keep but with probability `miss`: scale ln(count / miss).

    Dwork and Roth (2014), theorem 3.8; the union bound does not need independence. For noise on a grid,
    round the radius up to a whole number of steps.

    >>> round(union_radius(scale=1, count=10_000, miss=0.05), 6)  # the most common of 10,000 names
    12.206073
    """
    return _check("scale", scale, 0, math.inf) * math.log(_count(count) / _check("miss", miss, 0, 1))


def exact_radius(*, scale: float, count: int, miss: float) -> float:
    """The smallest such radius for independent errors: -scale ln(1 - (1 - miss)^(1/count)).

    >>> round(exact_radius(scale=1, count=10_000, miss=0.05), 6)
    12.180538
    """
    inside = math.log1p(-_check("miss", miss, 0, 1)) / _count(count)
    return -_check("scale", scale, 0, math.inf) * math.log(-math.expm1(inside))


def exponential_loss(
    *, epsilon: float, distance: float, candidates: int, best: int = 1, miss: float
) -> float:
    """How far below the best score the exponential mechanism falls, but with probability `miss`.

    2 distance / epsilon (ln(candidates / best) + ln(1 / miss)), where `best` candidates have the best score
    (McSherry and Talwar, 2007; Dwork and Roth, 2014, theorem 3.11).

    >>> round(exponential_loss(epsilon=1, distance=1, candidates=1000, miss=0.05), 4)
    19.807
    """
    rate = 2 * _check("distance", distance, 0, math.inf) / _check("epsilon", epsilon, 0, math.inf)
    if not 1 <= best <= candidates:
        raise InvalidParameter("best", best, f"between 1 and all {candidates} candidates have the best score")
    return rate * (math.log(_count(candidates) / best) - math.log(_check("miss", miss, 0, 1)))


def best_of_two(*, epsilon: float, gap: float) -> float:
    """P(the exponential mechanism picks the worse of two) for scores `gap` apart and distance 1: exactly.

    >>> round(best_of_two(epsilon=1, gap=10), 8)
    0.00669285
    """
    half = _check("epsilon", epsilon, 0, math.inf) * _check("gap", gap, -math.inf, math.inf) / 2
    return math.exp(-half) / (1 + math.exp(-half)) if half > 0 else 1 / (1 + math.exp(half))


def best_of_two_bound(*, epsilon: float, gap: float) -> float:
    """What the general theorem says of the same: 2 e^(-gap epsilon / 2).

    >>> round(best_of_two_bound(epsilon=1, gap=10), 8)
    0.01347589
    """
    half = _check("epsilon", epsilon, 0, math.inf) * _check("gap", gap, -math.inf, math.inf) / 2
    return min(1.0, 2 * math.exp(-max(half, 0.0)))


def classic_sigma(*, epsilon: float, delta: float, l2: float) -> float:
    """For comparison: the textbook sigma = l2 sqrt(2 ln(1.25/delta)) / epsilon, valid for epsilon < 1.

    Dwork and Roth (2014), theorem A.1. `Gaussian.at` needs less, and is valid for the noise drawn.

    >>> round(classic_sigma(epsilon=0.5, delta=1e-6, l2=1), 4)
    10.5976
    """
    root = math.sqrt(2 * math.log(1.25 / _check("delta", delta, 0, 1)))
    return _check("l2", l2, 0, math.inf) * root / _check("epsilon", epsilon, 0, 1)


def continuous_epsilon(*, delta: float, ratio: float) -> float:
    """About the epsilon at which normal noise of variance 1, moved by `ratio`, has this delta.

    >>> round(continuous_epsilon(delta=1e-6, ratio=0.1), 4)
    0.3969
    """

    def lost(epsilon: float) -> float:
        first, second = (epsilon / ratio + side * ratio / 2 for side in (-1, 1))
        far = math.erfc(second / math.sqrt(2)) / 2
        return math.erfc(first / math.sqrt(2)) / 2 - (math.exp(epsilon + math.log(far)) if far else 0.0)

    low, high = 0.0, ratio**2 / 2 + 40 * ratio
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if lost(middle) <= delta else (middle, high)
    return high


def continuous_delta(*, epsilon: float, sigma: float, l2: float) -> float:
    """For comparison: the exact delta of the *continuous* Gaussian (Balle and Wang, 2018, theorem 8).

    Our noise is discrete, and at small sigma this may understate its delta: do not calibrate with it.

    >>> round(continuous_delta(epsilon=1, sigma=1, l2=1), 6)  # the discrete law has 0.141351
    0.126937
    """
    width = _check("sigma", sigma, 0, math.inf) / _check("l2", l2, 0, math.inf)
    epsilon = _check("epsilon", epsilon, -1, 700)

    def below(z: float) -> float:
        return math.erfc(-z / math.sqrt(2)) / 2

    shift = epsilon * width
    return below(0.5 / width - shift) - math.exp(epsilon) * below(-0.5 / width - shift)


def proportion(*, count: int, people: int, miss: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934) for a binomial proportion, wrong with at most this chance.

    >>> [round(end, 6) for end in proportion(count=400, people=1000, miss=0.05)]
    [0.369469, 0.431122]
    """
    if not 0 <= count <= people or people < 1:
        raise InvalidParameter("count", count, f"give a number from 0 to the {people} people, at least one")
    _check("miss", miss, 0, 1)
    low = 0.0 if count == 0 else _beta_quantile(miss / 2, count, people - count + 1)
    high = 1.0 if count == people else 1 - _beta_quantile(miss / 2, people - count, count + 1)
    return low, high


def _beta_quantile(tail: float, a: float, b: float) -> float:
    """Where the lower tail of the beta law has this much: false position on logarithms of odds and tail."""

    def excess(odds: float) -> float:
        return math.log(max(_beta_cdf(_share(odds), a, b), 1e-300) / tail)

    spread = math.sqrt((1 / a + 1 / b) * math.log(2 / tail))  # of the odds' logarithm, more or less
    low, high = math.log(a / b) - spread, math.log(a / b)
    while (at_low := excess(low)) > 0:
        low, spread = low - spread, 2 * spread
    while (at_high := excess(high)) < 0:
        high, spread = high + spread, 2 * spread
    for _ in range(200):
        middle = (low * at_high - high * at_low) / (at_high - at_low) if at_high > at_low else low
        found = excess(middle)
        if abs(found) < 1e-13 or high - low < 1e-15 * (1 + abs(low)):
            break
        if found < 0:  # an end that stays twice gives way by half (Dowell and Jarratt, 1971)
            low, at_low, at_high = middle, found, at_high / 2
        else:
            high, at_high, at_low = middle, found, at_low / 2
    return _share(middle)


def _share(odds: float) -> float:
    """The probability whose odds have this logarithm."""
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    result = d
    for m in range(1, 10_000_000):  # about the square root of a + b are needed
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * result / a


def _check(name: str, value: float, low: float, high: float) -> float:
    if not low < value < high:  # also refuses NaN
        raise InvalidParameter(name, value, f"give a number between {low} and {high}")
    return float(value)


def _count(count: int) -> int:
    if count < 1:
        raise InvalidParameter("count", count, "at least 1")
    return count
