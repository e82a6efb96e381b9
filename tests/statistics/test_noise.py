"""Where a walk cannot reach: the bulk paths, and the error of releases measured end to end.

Every test states the chance that a correct sampler fails it (ALARM), and shows that it notices a wrong one.
Bins and sizes are fixed before anything is drawn; nothing is retried. P-values come from the statistic's own
tail: the chi-square tail is used only with bins that expect at least 500 draws, where its error at 1e-9 is
far below a factor of ten (ALARM leaves that room).
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats
from tests.support import Row, answer, opened, wild_table

from sfumato.exact import bulk, numbers, samplers
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms import DiscreteLaplace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ALARM = 1e-10  # 1e-9 and a factor of ten for the approximation of the tail
SIZE = 200_000
BINS = 40


def laplace_p_value(draws: list[int], scale: Fraction) -> float:
    """Chi-square of |draws| and signs in bins of about equal mass under the discrete Laplace law."""
    law = DiscreteLaplace(scale=scale)
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


@pytest.mark.parametrize(
    "scale", [Fraction(1, 2), Fraction(7, 3), Fraction(10), Fraction(2**40), Fraction(2**66, 3)]
)
def test_bulk_laplace_fits_and_the_test_can_fail(scale: Fraction) -> None:
    size = SIZE if scale < 2**60 else 20_000
    draws = bulk.discrete_laplace(scale, size, SystemCoins()).tolist()
    assert laplace_p_value(draws, scale) > ALARM
    assert laplace_p_value(draws, scale * Fraction(6, 5)) < ALARM  # too wide a law is caught
    assert laplace_p_value(draws, scale * Fraction(4, 5)) < ALARM  # too narrow a law is caught
    negative = sum(y < 0 for y in draws)
    nonzero = sum(y != 0 for y in draws)
    assert stats.binomtest(negative, nonzero, 0.5).pvalue > ALARM  # signs are fair


def test_single_laplace_draws_fit_and_the_test_can_fail() -> None:
    draws = [samplers.discrete_laplace(Fraction(50), SystemCoins()) for _ in range(20_000)]
    assert laplace_p_value(draws, Fraction(50)) > ALARM
    assert laplace_p_value(draws, Fraction(60)) < ALARM
    assert laplace_p_value(draws, Fraction(40)) < ALARM


def gaussian_p_value(draws: list[int], variance: Fraction) -> float:
    reach = 12 * int(variance**0.5 + 1)
    weights = np.array([float(numbers.exp(-Fraction(y * y) / (2 * variance)).low) for y in range(reach)])
    masses = np.concatenate([weights[:1], 2 * weights[1:]]) / (weights[0] + 2 * weights[1:].sum())
    found = np.bincount(np.abs(np.array(draws)), minlength=reach)[:reach].astype(np.int64)
    counts, expected = merge(found, len(draws) * masses, len(draws) * masses >= 500)
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(4), Fraction(100)])
def test_bulk_gaussian_fits_and_the_test_can_fail(variance: Fraction) -> None:
    draws = bulk.discrete_gaussian(variance, SIZE, SystemCoins()).tolist()
    assert gaussian_p_value(draws, variance) > ALARM
    assert gaussian_p_value(draws, variance * Fraction(6, 5)) < ALARM
    assert gaussian_p_value(draws, variance * Fraction(4, 5)) < ALARM


def test_bulk_integers_below_n_are_uniform() -> None:
    """A modulus without rejection would favour small numbers by half: n is two thirds of the range."""
    n = (1 << 64) // 3 * 2 >> 2
    draws = bulk.below(n, SIZE, SystemCoins())
    counts = np.histogram(draws.astype(np.float64), bins=20, range=(0, n))[0]
    assert float(stats.chisquare(counts).pvalue) > ALARM
    biased = (SystemCoins().words(SIZE) >> np.uint64(2)) % np.uint64(n)
    counts = np.histogram(biased.astype(np.float64), bins=20, range=(0, n))[0]
    assert float(stats.chisquare(counts).pvalue) < ALARM


@pytest.mark.parametrize("policy", ["row", "person"])
def test_the_error_of_counts_and_sums_is_the_law_s(policy: str, tmp_path: Path) -> None:
    """From SQL to release, 300 times: the errors follow the noise that the ledger was charged for."""
    rows: list[Row] = [row for person in wild_table(random.Random(3), people=20).values() for row in person]
    db = opened(tmp_path, rows, policy)
    sql = "SELECT floor_no, COUNT(*), SUM(cost) FROM visits GROUP BY floor_no"
    question = db.sql(sql, epsilon="0.5")
    exact = answer(question)
    db.ledger.kept = lambda *_: None  # type: ignore[method-assign]  # draw anew each time
    errors: list[list[int]] = [[], []]
    for turn in range(300):
        db.ledger.data_changed()  # a new version, hence a new draw
        release = db.sql(sql, epsilon="0.5").release()
        for measure, (true, drawn) in enumerate(zip(exact, release.drawn, strict=True)):
            errors[measure] += [b - a for a, b in zip(true, drawn, strict=True)]
        assert release.receipt.number == turn + 1
    for step, found in zip(question.query.columns, errors, strict=True):
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
