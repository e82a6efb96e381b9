"""Each sampler draws its own law: decided by walking its coins, not by statistics."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.exact import numbers, samplers
from sfumato.exact.coins import Coins, EndOfTape, SystemCoins, Tape, walk
from sfumato.exact.numbers import Interval
from sfumato.mechanisms import DiscreteLaplace

FLOOR = Fraction(1, 10**5)
SCALES = [Fraction(1, 8), Fraction(1), Fraction(2), Fraction(10, 3), Fraction(5)]


def given_success(masses: dict[int | None, Fraction], undecided: Fraction) -> dict[int, Interval]:
    """What a loop around an attempt draws, from the walk of one attempt."""
    failed = masses.get(None, Fraction(0))
    found = {}
    for y, seen in masses.items():
        if y is not None:
            # the undecided mass may belong to y, to another outcome, or to a failure
            found[y] = Interval(seen / (1 - failed), (seen + undecided) / (1 - failed - undecided))
    return found


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_below_is_uniform_on_fair_bits(n: int, extra: int) -> None:
    masses, undecided = walk(lambda coins: Coins.below(coins, n), Fraction(1, 2**12))
    assert set(masses) == set(range(n))
    for seen in masses.values():
        assert seen <= Fraction(1, n) <= seen + undecided
    numerator = min(extra, n)
    tossed, undecided = walk(lambda coins: Coins.chance(coins, numerator, n), Fraction(1, 2**12))
    assert tossed.get(True, 0) <= Fraction(numerator, n) <= tossed.get(True, 0) + undecided


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_bernoulli_exp_succeeds_with_its_probability(x: Fraction) -> None:
    masses, undecided = walk(lambda c: samplers.bernoulli_exp(x.numerator, x.denominator, c), FLOOR)
    truth = numbers.exp(-x)
    assert masses[True] <= truth.high
    assert truth.low <= masses[True] + undecided
    assert undecided < Fraction(1, 1000)


@pytest.mark.parametrize("scale", SCALES)
def test_geometric_draws_its_law(scale: Fraction) -> None:
    masses, undecided = walk(lambda c: samplers.attempt_geometric(scale, c), FLOOR)
    ratio = numbers.exp(-1 / scale)
    for k, seen in given_success(masses, undecided).items():
        power = numbers.exp(-k / scale)
        assert seen.low <= ((1 - ratio) * power).high
        assert ((1 - ratio) * power).low <= seen.high


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_draws_its_law(scale: Fraction) -> None:
    masses, undecided = walk(lambda c: samplers.attempt_discrete_laplace(scale, c), FLOOR)
    law = DiscreteLaplace(scale=scale)
    found = given_success(masses, undecided)
    assert {0, 1, -1} <= set(found)
    for y, seen in found.items():
        truth = mass(law, y)
        assert seen.low <= truth.high
        assert truth.low <= seen.high


def mass(law: DiscreteLaplace, y: int) -> Interval:
    log = law.log_mass(y)
    return Interval(numbers.exp(log.low).low, numbers.exp(log.high).high)


def test_the_walk_notices_a_scale_that_is_a_hundredth_of_a_percent_off() -> None:
    masses, undecided = walk(lambda c: samplers.attempt_discrete_laplace(Fraction(1), c), Fraction(1, 10**7))
    found = given_success(masses, undecided)
    wrong = DiscreteLaplace(scale=Fraction(10001, 10000))
    assert any(not (s.low <= mass(wrong, y).high and mass(wrong, y).low <= s.high) for y, s in found.items())


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(1), Fraction(9, 2)])
def test_discrete_gaussian_draws_its_law(variance: Fraction) -> None:
    masses, undecided = walk(lambda c: samplers.attempt_discrete_gaussian(variance, c), FLOOR)
    weights = {y: numbers.exp(-Fraction(y * y) / (2 * variance)) for y in range(-60, 61)}
    low = sum((w.low for w in weights.values()), Fraction(0))
    high = sum((w.high for w in weights.values()), Fraction(1, 10**9))  # and what lies beyond 60
    total = Interval(low, high)
    for y, seen in given_success(masses, undecided).items():
        truth = weights[y] / total
        assert seen.low <= truth.high
        assert truth.low <= seen.high


def test_one_draw_is_the_first_attempt_that_succeeds() -> None:
    three = Fraction(3)
    for draw in (samplers.geometric, samplers.discrete_laplace, samplers.discrete_gaussian):
        assert draw(three, Tape.seeded(3)) == draw(three, Tape.seeded(3))
        assert isinstance(draw(three, SystemCoins()), int)


def test_a_finite_tape_ends() -> None:
    with pytest.raises(EndOfTape):
        Tape([1, 0]).bits(3)
    assert Tape([0] * 64).words(1).tolist() == [0]
