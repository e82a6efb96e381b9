"""The rules of composition, against the textbook's numbers and against brute force."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget.accounting import composition
from sfumato.budget.accounting.composition import (
    Binomial,
    advanced,
    advanced_share,
    basic,
    group,
    optimal,
    parallel,
    zcdp,
)
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import Geometric, RandomizedResponse
from sfumato.mechanisms.distance import Distance

F = Fraction
SLACK = numbers.exp(-32).low
BOB = F(1, 801)


def test_b13_a_group_of_k_people_costs_k_epsilon() -> None:
    assert group(F(1, 10), people=7) == F(7, 10)
    assert Geometric(scale=F(10)).bound(Distance(l1=F(1)).times(7)).epsilon == F(7, 10)


def test_b14_advanced_composition() -> None:
    """sqrt(2 k ln(1/d')) e + k e (e^e - 1), rounded up."""
    expected = 0.1 * math.sqrt(2 * 100 * math.log(10**6)) + 100 * 0.1 * math.expm1(0.1)
    found = advanced(F(1, 10), count=100, slack=F(1, 10**6))
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_b15_corollary_3_21_for_ten_thousand_releases() -> None:
    share = advanced_share(F(1), count=10_000, slack=SLACK)
    assert float(share) == pytest.approx(0.000625, rel=1e-12)
    assert share <= F(1, 1600)


def test_b16_bob_s_one_over_801_is_not_what_the_quoted_theorem_gives() -> None:
    quoted = advanced(BOB, count=10_000, slack=SLACK)
    assert float(quoted) == pytest.approx(1.014347, abs=5e-7)
    assert quoted > 1
    # the theorem gives 1/812.318
    assert advanced(F(10000, 8123190), count=10_000, slack=SLACK) <= 1
    assert advanced(F(10000, 8123170), count=10_000, slack=SLACK) > 1


def test_b16_exact_accounting_confirms_the_claim_and_allows_more() -> None:
    exact = optimal(BOB, count=10_000)
    assert float(exact.beyond(F(1)).high) == pytest.approx(9.188e-16, rel=1e-3)
    assert float(exact.delta(F(1))) == pytest.approx(1.380e-17, rel=1e-3)
    assert exact.delta(F(1)) < SLACK
    assert exact.beyond(F(1)).high < SLACK


@given(
    st.fractions(F(1, 20), 2, max_denominator=20), st.integers(1, 7), st.fractions(0, 3, max_denominator=9)
)
@settings(max_examples=40, deadline=None)
def test_optimal_composition_is_that_of_randomized_response(
    epsilon: Fraction, count: int, total: Fraction
) -> None:
    """Every sequence of answers, by hand."""
    coin = RandomizedResponse.at(epsilon=epsilon)
    here, there = coin.keep, coin.other
    factor = numbers.exp(total).low
    brute = F(0)
    for answers in product((0, 1), repeat=count):
        p = q = F(1)
        for answer in answers:
            p, q = p * (here if answer else there), q * (there if answer else here)
        brute += max(p - factor * q, F(0))
    found = Binomial(epsilon, count).delta(total)
    assert float(found) == pytest.approx(float(brute), rel=1e-9, abs=1e-12)


def test_rules_agree_where_they_should_and_none_is_below_the_exact_one() -> None:
    delta = F(1, 10**6)
    exact = optimal(F(1, 10), count=100).total(delta)
    assert basic([F(1, 10)] * 100) == 10
    assert exact <= advanced(F(1, 10), count=100, slack=delta)
    assert exact <= zcdp([F(1, 200)] * 100, delta=delta)
    assert optimal(F(1, 10), count=1).total(F(1, 10**12)) <= F(1, 10)
    assert parallel([F(1, 10), F(1, 2)]) == F(1, 2)
    assert parallel([]) == basic([]) == 0


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("epsilons", lambda: basic([F(-1)])),
        ("epsilon", lambda: advanced(F(0), count=1, slack=F(1, 9))),
        ("count", lambda: advanced(F(1), count=0, slack=F(1, 9))),
        ("delta", lambda: advanced(F(1), count=1, slack=F(1))),
        ("delta", lambda: zcdp([F(1)], delta=F(2))),
        ("count", lambda: optimal(F(1), count=0)),
        ("people", lambda: group(F(1), people=-1)),
    ],
)
def test_bad_input_is_named(named: str, call: object) -> None:
    assert callable(call)
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.name == named


def test_the_smallest_epsilon_is_found_from_any_guess() -> None:
    for guess in (F(1, 1000), F(1), F(50)):
        found = composition.smallest(lambda epsilon: epsilon >= F(3, 2), guess)
        assert found == F(3, 2)


def test_the_corollary_is_refused_where_it_does_not_follow() -> None:
    """With slack 0.99 it would share out 3.53, of which theorem 3.20 makes 117."""
    for total, slack in ((Fraction(2), Fraction(1, 10**6)), (Fraction(1), Fraction(99, 100))):
        with pytest.raises(InvalidParameter, match="up to 1"):
            advanced_share(total, count=1, slack=slack)
