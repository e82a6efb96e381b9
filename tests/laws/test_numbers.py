"""Intervals contain the truth: checked against Python's decimals at high precision."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.exact import numbers
from sfumato.exact.numbers import Interval

rationals = st.fractions(min_value=-700, max_value=700, max_denominator=10**6)


def precise(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


@given(rationals)
def test_exp_contains_the_truth_and_is_narrow(x: Fraction) -> None:
    found = numbers.exp(x)
    with localcontext() as context:
        context.prec = 120
        truth = Fraction(precise(x).exp())
    slack = truth / 10**100
    assert found.low <= truth + slack
    assert truth - slack <= found.high
    assert (found.high - found.low) / found.high < Fraction(1, 2**80)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_log_contains_the_truth_and_is_narrow(x: Fraction) -> None:
    if x <= 0:
        return
    found = numbers.log(x)
    with localcontext() as context:
        context.prec = 120
        truth = Fraction(precise(x).ln())
    assert found.low <= truth + Fraction(1, 10**100)
    assert truth - Fraction(1, 10**100) <= found.high
    assert found.high - found.low < Fraction(1, 2**80)


@given(st.fractions(min_value=-1000, max_value=1000), st.integers(2, 60))
def test_rounding_goes_the_way_its_name_says(x: Fraction, bits: int) -> None:
    low, high = numbers.round_down(x, bits), numbers.round_up(x, bits)
    assert low <= x <= high
    assert high - low <= abs(x) * Fraction(4, 2**bits)


@given(rationals, rationals, rationals, rationals)
def test_interval_arithmetic_contains_every_result(
    a: Fraction, b: Fraction, c: Fraction, d: Fraction
) -> None:
    x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    assert a + c in x + y
    assert a - c in x - y
    assert a * d in x * y
    assert -b in -x
    assert 1 - a in 1 - x
    if not y.low <= 0 <= y.high:
        assert b / d in x / y
    else:
        with pytest.raises(ZeroDivisionError):
            x / y


def test_far_below_zero_exp_is_bounded_without_being_computed() -> None:
    far = numbers.exp(Fraction(-(10**30)))
    assert far.low == 0
    assert 0 < far.high < Fraction(1, 10**1000)
    with pytest.raises(OverflowError):
        numbers.exp(10**30)
    with pytest.raises(ValueError, match="positive"):
        numbers.log(0)
