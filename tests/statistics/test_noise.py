"""Where a walk cannot reach: the bulk paths, and the error of releases measured end to end.

Every test states the chance that a correct sampler fails it (ALARM), and shows that it notices a wrong one.
Bins and sizes are fixed before anything is drawn; nothing is retried. P-values come from the statistic's own
tail: the chi-square tail is used only with bins that expect at least 500 draws, where its error at 1e-9 is
far below a factor of ten (ALARM leaves that room).
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats
from tests.support import Row, answer, opened, wild_table

from sfumato.exact import bulk
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms import (
    Additive,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    NoisyMax,
    PermuteAndFlip,
    Stairs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.mechanisms import Line, Selection

ALARM = 1e-10  # 1e-9 and a factor of ten for the approximation of the tail
SIZE = 200_000
BINS = 40


def p_value(draws: list[int], law: Line) -> float:
    """Chi-square of |draws| in bins of about equal mass under a symmetric law."""
    edges: list[int] = []
    for i in range(1, BINS):
        edge = law.window(1 - Fraction(i, BINS))[-1]
        if not edges or edge > edges[-1]:
            edges.append(edge)
    cuts = np.array([-float("inf"), *edges, float("inf")])
    found = np.histogram(np.abs(np.array(draws, dtype=np.float64)), bins=cuts + 0.5)[0].astype(np.int64)
    inside = [2 * float(law.cdf(edge).low) - 1 for edge in edges]
    expected = len(draws) * np.diff([0.0, *inside, 1.0])
    counts, expected = merge(found, expected, expected >= 500)
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(expected) - 1))


def merge(
    counts: NDArray[np.int64], expected: NDArray[np.float64], keep: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Thin bins are put together with the first thick one; decided by the law alone, not by the draws."""
    thick_counts = counts[keep].astype(np.float64)
    thick_expected = expected[keep].copy()
    thick_counts[0] += counts[~keep].sum()
    thick_expected[0] += expected[~keep].sum()
    return thick_counts, thick_expected


def check(draws: list[int], law: Callable[[Fraction], Line], scale: Fraction) -> None:
    """The draws fit the law, fit neither a wider nor a narrower one, and their signs are fair."""
    assert p_value(draws, law(scale)) > ALARM
    assert p_value(draws, law(scale * Fraction(6, 5))) < ALARM  # too wide a law is caught
    assert p_value(draws, law(scale * Fraction(4, 5))) < ALARM  # too narrow a law is caught
    negative = sum(y < 0 for y in draws)
    nonzero = sum(y != 0 for y in draws)
    assert stats.binomtest(negative, nonzero, 0.5).pvalue > ALARM


def laplace(scale: Fraction) -> Line:
    return DiscreteLaplace(scale=scale)


def gauss(scale: Fraction) -> Line:
    return DiscreteGaussian(sigma_squared=scale**2)


# narrow laws looked up whole, laws that are split, laws wider than int64
SCALES = [
    Fraction(1, 2),
    Fraction(10),
    Fraction(100, 3),
    Fraction(2**16),
    Fraction(2**40),
    Fraction(2**66, 3),
]


@pytest.mark.parametrize("law", [laplace, gauss])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("compiled", [False, True])
def test_bulk_draws_fit_and_the_test_can_fail(
    law: Callable[[Fraction], Line], scale: Fraction, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "COMPILED_PAYS", 1 if compiled else 10**9)
    size = SIZE if scale < 2**60 else 20_000
    check(law(scale).draws(SystemCoins(), size).tolist(), law, scale)


def test_the_narrowest_noise_is_zero_as_often_as_it_should_be() -> None:
    """At scale 1/8 nearly all draws are 0: P(Y != 0) = 2a/(1+a), a = e^-8, and a million tell."""
    drawn = laplace(Fraction(1, 8)).draws(SystemCoins(), 1_000_000)
    a = math.exp(-8)
    moved = int((drawn != 0).sum())
    assert stats.binomtest(moved, len(drawn), 2 * a / (1 + a)).pvalue > 1e-9
    assert stats.binomtest(moved, len(drawn), 2 * math.exp(-7)).pvalue < 1e-9
    assert stats.binomtest(moved, len(drawn), 2 * math.exp(-9)).pvalue < 1e-9


@pytest.mark.parametrize("law", [laplace, gauss])
def test_single_draws_fit_and_the_test_can_fail(law: Callable[[Fraction], Line]) -> None:
    coins, scale = SystemCoins(), Fraction(50)
    check([law(scale).draw(coins) for _ in range(20_000)], law, scale)


def test_staircase_draws_fit_and_the_test_can_fail() -> None:
    def stairs(scale: Fraction) -> Line:
        return Stairs(epsilon=1 / scale, width=20, flat=7)

    check(stairs(Fraction(3)).draws(SystemCoins(), SIZE).tolist(), stairs, Fraction(3))
    coins = SystemCoins()
    check([stairs(Fraction(3)).draw(coins) for _ in range(20_000)], stairs, Fraction(3))


def softmax(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = chances / chances.sum()
    return total


def flipped(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Permute and flip: a coin that falls, times the mean of 1 / (1 + how many of the others fell)."""
    masses = []
    for i, chance in enumerate(chances):
        others = np.ones(1)
        for other in np.delete(chances, i):
            others = np.convolve(others, [1 - other, other])
        masses.append(chance * (others / np.arange(1, len(others) + 1)).sum())
    return np.array(masses)


@pytest.mark.parametrize(("kind", "masses"), [(Exponential, softmax), (PermuteAndFlip, flipped)])
def test_choices_among_many_fit_and_the_test_can_fail(
    kind: type[Selection], masses: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> None:
    """150 candidates: the bulk path of both, whose law a walk cannot reach."""
    scores = np.array([20 - i // 5 if i < 100 else 0 for i in range(150)])
    law = kind(scale=Fraction(3)).law(scores)
    coins, counts = SystemCoins(), np.zeros(len(scores), dtype=np.int64)
    for _ in range(20_000):
        counts[law.draw(coins)] += 1

    def p_value(scale: float) -> float:
        expected = counts.sum() * masses(np.exp((scores - 20) / scale))
        found, expected = merge(counts, expected, expected >= 100)
        return float(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1))

    assert p_value(3) > ALARM
    assert p_value(3.6) < ALARM
    assert p_value(2.4) < ALARM


def test_noisy_maxima_among_many_fit_and_the_test_can_fail() -> None:
    """Of 120 candidates two matter; what the others weigh is below 10^-12."""
    scores = [3, 0] + [-200] * 118
    coins, law = SystemCoins(), NoisyMax(scale=Fraction(4)).law(scores)
    won = sum(law.draw(coins) == 0 for _ in range(20_000))
    share = math.exp(float(NoisyMax(scale=Fraction(4)).law([3, 0]).log_mass(0).low))
    assert stats.binomtest(won, 20_000, share).pvalue > ALARM
    assert stats.binomtest(won, 20_000, share + 0.03).pvalue < ALARM
    assert stats.binomtest(won, 20_000, share - 0.03).pvalue < ALARM


def test_bulk_integers_below_n_are_uniform() -> None:
    """A modulus without rejection would favour small numbers: 2^64 is two and two thirds times n."""
    n = 3 << 61
    draws = bulk.below(n, SIZE, SystemCoins())
    counts = np.histogram(draws.astype(np.float64), bins=20, range=(0, n))[0]
    assert float(stats.chisquare(counts).pvalue) > ALARM
    biased = SystemCoins().words(SIZE) % np.uint64(n)  # without the rejection
    counts = np.histogram(biased.astype(np.float64), bins=20, range=(0, n))[0]
    assert float(stats.chisquare(counts).pvalue) < ALARM


@pytest.mark.parametrize("policy", ["row", "person"])
def test_the_error_of_counts_and_sums_is_the_law_s(policy: str, tmp_path: Path) -> None:
    """From SQL to release, 300 times: the errors follow the noise that the ledger was charged for."""
    rows: list[Row] = [row for person in wild_table(random.Random(3), people=20).values() for row in person]
    db = opened(tmp_path, rows, policy)
    sql = "SELECT floor_no, COUNT(*), SUM(cost), SUM(age) FROM visits GROUP BY floor_no"
    question = db.sql(sql, epsilon="0.5")
    exact = answer(question)
    db.ledger.kept = lambda *_, **__: None  # type: ignore[method-assign]  # draw anew each time
    assert len(exact) == 2  # of cost and of age, each with its counts
    errors: list[list[int]] = [[], []]
    receipts = set()
    for _ in range(300):
        db.ledger.data_changed()  # a new version, hence a new draw
        release = db.sql(sql, epsilon="0.5").release()
        for measure, (true, drawn) in enumerate(zip(exact, release.drawn, strict=True)):
            errors[measure] += [int(b) - a for a, b in zip(true, drawn, strict=True)]
        receipts.add(release.receipt.number)
    assert len(receipts) == 300
    assert db.budget.spent.amount == 300 * question.price.amount
    for step, found in zip(question.query.steps, errors, strict=True):
        assert isinstance(step.mechanism, Additive)
        noise = step.mechanism.noise
        assert isinstance(noise, DiscreteLaplace)
        total = sum(abs(e) for e in found) / float(noise.scale)
        # the sum of n exponentials is a gamma; the discrete law is within 1/scale of it, and scales are >= 3
        tails = stats.gamma.cdf(total, len(found)), stats.gamma.sf(total, len(found))
        assert min(tails) > 1e-10, (noise, total / len(found))
        for wrong in (0.6, 1.6):  # ten standard errors and more: missed as rarely
            assert (
                min(stats.gamma.cdf(total * wrong, len(found)), stats.gamma.sf(total * wrong, len(found)))
                < 1e-10
            )
