"""Guarantees that could once be weakened without a test that minded, outside of the budget room."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.budget.accounting import filters
from sfumato.exact import bulk, compiled, gaussian, numbers
from sfumato.mechanisms import Distance, Exponential, Gaussian, Renormalised
from sfumato.mechanisms.guarantee import decimal
from sfumato.mechanisms.ranges import weight
from sfumato.queries.declared import problem_with_keys


def test_costs_never_wrap() -> None:
    costs = Exponential(scale=Fraction(1, 5)).law([2**61, 0, 1]).costs
    assert [costs.cost(i) for i in range(3)] == [0, 5 * 2**61, 5 * (2**61 - 1)]


def test_failures_of_all_rungs_add_up_to_delta() -> None:
    """What the odometer adds at each rung is a deviation; together they fail with at most delta."""
    delta, failures = Fraction(1, 20), 0.0
    for j in range(200):
        rung = filters.LOWEST * filters.RUNG**j
        over = (float(filters.odometer(rung, delta=delta)) - float(rung)) / 2
        failures += math.exp(-(over**2) / float(rung))
    assert failures <= float(delta)


@pytest.mark.parametrize(("kind", "key"), [("text", "a"), ("integer", 1), ("boolean", True)])
def test_no_key_is_listed_twice(kind: str, key: str | int) -> None:
    assert "listed twice" in problem_with_keys([key, key], kind)


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(2), Fraction(50)])
def test_a_delta_is_never_below_the_exact_one(variance: Fraction) -> None:
    one = Distance(l0=1, linf=Fraction(1))
    found = Gaussian(sigma_squared=variance).delta(epsilon=Fraction(1), distance=one)
    assert found >= gaussian.shift_delta(variance, Fraction(1), 1).low


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3, 2), Fraction(7)])
@pytest.mark.parametrize("high", [2, 5, 9])
def test_a_renormalised_bound_is_rounded_up(scale: Fraction, high: int) -> None:
    found = Renormalised(scale=scale, low=0, high=high).bound(Distance(linf=Fraction(1))).epsilon
    ratio = weight(scale, 1, 0, high) / weight(scale, 0, 0, high)
    assert found is not None
    assert found >= 1 / scale + numbers.log_of(ratio).low


def test_a_price_is_written_no_smaller_than_it_is() -> None:
    assert decimal(Fraction(1, 3)) == "0.333333333334"


def test_no_toss_says_no_below_x() -> None:
    """Compiled or not: a word just below x is a tie at most."""
    law = bulk.Bell(Fraction(1, 2**40), Fraction(0))
    rest = np.array([(1 << law.shift) - 5])
    word = np.array([int(law._cost(3, int(rest[0])) * (1 << 60)) - 1], dtype=np.uint64)
    for kernel in (bulk.NUMPY, compiled.KERNELS):
        assert kernel.toss(word, np.array([3]), rest, law.slope)[0] != bulk.NO
