"""What no mechanism can do: limits as functions.

Two kinds. *Reconstruction*: whoever gets too many counts with too little error knows nearly everybody,
however the errors were made (Dinur and Nissim, 2003; few counts are enough, as in Dwork and Yekhanin, 2008).
*Packing*: a release that tells many data sets apart, which lie near one another, needs a large epsilon (Hardt
and Talwar, 2010; Dwork and Roth, 2014, section 8.2). Beside them: how many releases fit into a budget.

For planning: nothing here decides a guarantee. A limit is rounded to the side on which it stays true.
Proofs: docs/explanation/limits.md
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.budget.accounting.composition import advanced
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, price, rational, whole
from sfumato.mechanisms.mechanism import bisected

HALF = Fraction(1, 2)


def wrong_from_all(*, people: int, error: Fraction) -> int:
    """How many of the people's bits stay unknown at most once every subset was counted within this error.

    min(n, 2 floor(2E)), attained for every n and E; Dinur and Nissim (2003) have 4E. It takes 2^n counts.

    Proof: docs/explanation/limits.md#all-counts

    >>> wrong_from_all(people=401_000, error=Fraction(401_000, 401))  # one in 401: 99% are known
    4000
    """
    return min(whole("people", people, least=1), 2 * _width(error))


def wrong_from_few(*, people: int, error: Fraction) -> int:
    """How many bits stay unknown at most once `few(people)` fixed subsets were counted within this error.

    min(n, 4 floor(2E)^2): it protects nobody unless the error is about sqrt(n)/4.

    Proof: docs/explanation/limits.md#few-counts

    >>> wrong_from_few(people=1_000_000, error=Fraction(50))
    40000
    """
    return min(whole("people", people, least=1), 4 * _width(error) ** 2)


def few(people: int) -> int:
    """How many counts that takes: the smallest power of two above the number of people.

    >>> few(1_000_000)
    1048576
    """
    return 1 << whole("people", people, least=1).bit_length()


def error_against_all(*, wrong: int) -> Fraction:
    """The error that all counts must reach: below it everybody but at most `wrong` people is known.

    >>> error_against_all(wrong=4000)
    Fraction(2001, 2)
    """
    return Fraction(whole("wrong", wrong, least=0) // 2 + 1, 2)


def error_against_few(*, wrong: int) -> Fraction:
    """The same for the few counts of `wrong_from_few`.

    >>> error_against_few(wrong=10_000)  # of a million people 99% are known below it
    Fraction(51, 2)
    """
    return Fraction(math.isqrt(whole("wrong", wrong, least=0) // 4) + 1, 2)


def _width(error: Fraction) -> int:
    """How far apart two counts lie at most, if one answer is within the error of both: counts are whole."""
    return math.floor(2 * rational("error", error, zero=True))


def pigeonhole(*, bits: int, distance: int) -> Fraction:
    """ln 2 (s - 1) / distance: the epsilon to tell 2^s data sets apart half of the time, rounded down.

    Dwork and Roth (2014), section 8.2. `packing` says slightly more of the same.

    >>> round(float(pigeonhole(bits=11, distance=10)), 6)
    0.693147
    """
    bits, distance = whole("bits", bits, least=1), whole("distance", distance, least=1)
    return numbers.round_down(numbers.log(2).low * (bits - 1) / distance, 64)


def packing(*, datasets: int, distance: int, chance: Fraction = HALF) -> Fraction:
    """The epsilon below which nothing tells these data sets apart with this chance, rounded down.

    All lie within the distance of one of them, and each has its own set of right outcomes, no two of which
    overlap. Then e^(distance epsilon) >= (datasets - 1) chance / (1 - chance). At distance 1 randomized
    response attains it.

    Proof: docs/explanation/limits.md#packing

    >>> round(float(packing(datasets=2**11, distance=10)), 6)
    0.762413
    """
    datasets, distance, chance = _packed(datasets, distance, chance)
    odds = (datasets - 1) * chance / (1 - chance)
    return numbers.round_down(numbers.log(odds).low / distance, 64) if odds > 1 else Fraction(0)


def packing_forbids(
    *, epsilon: Fraction, delta: Fraction, datasets: int, distance: int, chance: Fraction = HALF
) -> bool:
    """The same for a guarantee with a delta: true only if no mechanism with that guarantee can do it.

    Proof: docs/explanation/limits.md#packing

    >>> [packing_forbids(epsilon=Fraction(1, 2), delta=delta, datasets=2**11, distance=10)
    ...  for delta in (Fraction(1, 10**6), Fraction(1, 100))]
    [True, False]
    """
    datasets, distance, chance = _packed(datasets, distance, chance)
    epsilon, delta = price("epsilon", epsilon), rational("delta", delta, zero=True)
    far = numbers.exp(-epsilon * distance)
    steps = (  # e^-epsilon + ... + e^-(distance epsilon)
        numbers.exp(-epsilon) * numbers.one_minus_exp(epsilon * distance) / numbers.one_minus_exp(epsilon)
    )
    least = chance + (datasets - 1) * (chance * far.low - delta * steps.high)  # down: refuse only for certain
    return least > 1


def _packed(datasets: int, distance: int, chance: Fraction) -> tuple[int, int, Fraction]:
    return (
        whole("datasets", datasets, least=2),
        whole("distance", distance, least=1),
        _chance("chance", chance),
    )


def _chance(name: str, value: Fraction) -> Fraction:
    if not 0 < (number := exact(name, value)) < 1:
        raise InvalidParameter(name, value, "take a probability strictly between 0 and 1")
    return number


def corollary_count(epsilon: Fraction, *, total: Fraction, slack: Fraction) -> int:
    """How many releases of this epsilon fit into (total, slack) by corollary 3.21, rounded down.

    total^2 / (8 ln(1/slack) epsilon^2), for totals up to 1 and slacks up to 1/2 (Dwork and Roth, 2014).

    >>> corollary_count(Fraction(1, 1000), total=Fraction(1), slack=Fraction(1, 10**6))
    9047
    """
    epsilon, total, slack = price("epsilon", epsilon), price("total", total), _chance("slack", slack)
    if total > 1 or slack > HALF:
        name, value, most = ("total", total, "1") if total > 1 else ("slack", slack, "1/2")
        raise InvalidParameter(name, value, f"the corollary holds up to {most}; use advanced_count")
    return math.floor(total**2 / (8 * -numbers.log(slack).low * epsilon**2))  # fewer, if ln is not exact


def advanced_count(epsilon: Fraction, *, total: Fraction, slack: Fraction) -> int:
    """How many fit by theorem 3.20 itself: the largest count for which `advanced` is at most the total.

    The sum alone allows floor(total / epsilon), which is more if that is a small number.

    >>> advanced_count(Fraction(1, 1000), total=Fraction(1), slack=Fraction(1, 10**6))
    33785
    """
    epsilon, total, slack = price("epsilon", epsilon), price("total", total), _chance("slack", slack)
    most = math.floor(total / epsilon**2) + 1  # too many, since e^epsilon - 1 >= epsilon
    return bisected(lambda count: advanced(epsilon, count=count, slack=slack) > total, 0, most) - 1


def laplace_radius(epsilon: Fraction, *, miss: Fraction = Fraction(1, 20)) -> Fraction:
    """The error of one count released with this epsilon, which it keeps but with chance `miss`, rounded up.

    ln(1/miss) / epsilon (Dwork and Roth, 2014, fact 3.7); whole noise keeps the next whole number.

    >>> round(float(laplace_radius(Fraction(1, 1000))), 2)
    2995.73
    """
    return numbers.round_up(-numbers.log(_chance("miss", miss)).low / price("epsilon", epsilon), 64)
