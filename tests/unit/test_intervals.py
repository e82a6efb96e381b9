"""Intervals: exact where one noise is at work, safe everywhere."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from sfumato.curator.intervals import WHOLE, Errors, _range_around
from sfumato.mechanisms import DiscreteLaplace
from sfumato.queries.plan import Arithmetic, Expression, KeyOf, Mean, Number, Released

TAIL = Fraction(1, 20)


def errors(*scales: int | Fraction) -> Errors:
    laws = tuple(DiscreteLaplace(scale=Fraction(scale)) for scale in scales)
    return Errors(laws, tuple(Fraction(1) for _ in scales))


def n(value: int) -> Number:
    return Number(Fraction(value))


def test_one_measure_has_the_exact_interval_of_its_noise() -> None:
    found = errors(10)
    assert found.interval(Released(0), (100,), TAIL) == (70, 130)
    assert DiscreteLaplace(scale=Fraction(10)).window(TAIL) == range(-30, 31)
    assert found.value(Released(0), (100,)) == 100


def test_arithmetic_with_numbers_keeps_the_exact_interval() -> None:
    found = errors(10)
    twice = Arithmetic("-", n(1), Arithmetic("*", n(2), Released(0)))
    assert found.interval(twice, (100,), TAIL) == (1 - 260, 1 - 140)
    assert found.interval(Arithmetic("/", Released(0), n(4)), (100,), TAIL) == (17.5, 32.5)
    assert found.interval(Arithmetic("*", Released(0), n(3)), (100,), TAIL) == (210, 390)
    assert found.interval(n(7), (100,), TAIL) == (7, 7)


def test_a_measure_less_itself_is_certain() -> None:
    assert errors(10).interval(Arithmetic("-", Released(0), Released(0)), (100,), TAIL) == (0, 0)


def exact_pair_radius(a: DiscreteLaplace, b: DiscreteLaplace, tail: float) -> int:
    """The same radius by adding up the whole convolution, for small scales."""
    points = np.arange(-400, 401, dtype=np.float64)
    masses = [law.tails(points - 1) - law.tails(points) for law in (a, b)]
    both = np.convolve(masses[0], masses[1])
    centre = len(both) // 2
    for radius in range(centre):
        if 1 - both[centre - radius : centre + radius + 1].sum() <= tail:
            return radius
    raise AssertionError


@pytest.mark.parametrize(("first", "second"), [(10, 10), (3, 20), (1, 1), (Fraction(1, 2), 7)])
def test_two_measures_have_the_interval_of_their_convolution(first: int, second: int) -> None:
    found = errors(first, second)
    radius = float(found.radius({0: Fraction(1), 1: Fraction(1)}, TAIL))
    exact = exact_pair_radius(
        DiscreteLaplace(scale=Fraction(first)), DiscreteLaplace(scale=Fraction(second)), float(TAIL)
    )
    assert exact - 1e-9 <= radius * 1.001
    assert radius <= exact * 1.02 + 1


def exact_miss(found: Errors, weights: dict[int, Fraction], radius: Fraction) -> float:
    """P(|a X + b Y| > radius), by adding up all pairs of outcomes."""
    points = np.arange(-150, 151, dtype=np.float64)
    masses = [law.tails(points - 1) - law.tails(points) for law in found.noises]
    sums = float(weights[0]) * points[:, None] + float(weights[1]) * points[None, :]
    return float((masses[0][:, None] * masses[1][None, :])[np.abs(sums) > float(radius) * (1 + 1e-12)].sum())


def test_no_pair_of_small_noises_misses_more_often_than_stated() -> None:
    """On a lattice the radius jumps; it must be right for every ratio, also in a range of ratios."""
    rng = random.Random(4)
    for _ in range(150):
        found = errors(Fraction(rng.randint(2, 40), 8), Fraction(rng.randint(2, 40), 8))
        weights = {0: Fraction(rng.randint(1, 12), 4), 1: Fraction(rng.randint(1, 12), 4)}
        for tail in (Fraction(1, 20), Fraction(1, 100)):
            assert exact_miss(found, weights, found.radius(weights, tail)) <= float(tail) * (1 + 1e-9)
            ranged = found._radius(weights, tail, _range_around)
            assert exact_miss(found, weights, ranged) <= float(tail) * (1 + 1e-9)
            assert ranged <= found.radius(weights, tail) * Fraction(12, 10) + 3


def test_three_measures_take_the_union_bound() -> None:
    found = errors(10, 10, 10)
    total: Expression = Arithmetic("+", Arithmetic("+", Released(0), Released(1)), Released(2))
    each = DiscreteLaplace(scale=Fraction(10)).window(TAIL / 3)[-1]
    assert found.interval(total, (0, 0, 0), TAIL) == (-3 * each, 3 * each)


def test_a_ratio_whose_denominator_may_be_zero_can_be_anything() -> None:
    found = errors(10, 10)
    ratio = Arithmetic("/", Released(0), Released(1))
    assert found.interval(ratio, (100, 20), TAIL) == WHOLE
    assert found.value(ratio, (100, 0)) is None
    low, high = found.interval(ratio, (1000, 500), TAIL)
    assert 1.8 < low < 2 < high < 2.25


def test_a_ratio_times_and_plus_numbers_moves_with_them() -> None:
    found = errors(10, 10)
    ratio = Arithmetic("/", Released(0), Released(1))
    low, high = found.interval(ratio, (1000, 500), TAIL)
    cases: list[tuple[Expression, float, float]] = [
        (Arithmetic("*", n(100), ratio), 100, 0),
        (Arithmetic("*", ratio, n(100)), 100, 0),
        (Arithmetic("/", ratio, n(4)), 0.25, 0),
        (Arithmetic("+", ratio, n(5)), 1, 5),
        (Arithmetic("-", ratio, n(5)), 1, -5),
    ]
    for expression, factor, shift in cases:
        ends = found.interval(expression, (1000, 500), TAIL)
        assert ends == pytest.approx((low * factor + shift, high * factor + shift), rel=1e-3)


def test_a_mean_stays_within_its_public_bounds() -> None:
    found = errors(100, 10)
    mean = Mean(total=0, count=1, centre=Fraction(60), low=Fraction(0), high=Fraction(120))
    assert found.value(mean, (5, -3)) == 65  # a count below one counts as one row
    assert found.value(mean, (-500, -3)) == 0
    assert found.interval(mean, (5, 3), TAIL) == (0, 120)
    assert found.interval(mean, (5, -300), TAIL) == (0, 120)
    low, high = found.interval(mean, (1000, 1000), TAIL)
    assert 60 < low < 61 < high < 62


def test_products_and_sums_of_ratios_fall_back_to_parts() -> None:
    found = errors(10, 10, 10)
    product = Arithmetic("*", Released(0), Released(1))
    low, high = found.interval(product, (1000, 1000), TAIL)
    assert low < 1000**2 < high
    mean = Mean(total=0, count=1, centre=Fraction(0), low=Fraction(-5), high=Fraction(5))
    mixed = Arithmetic("+", mean, Arithmetic("/", Released(2), Released(1)))
    low, high = found.interval(mixed, (0, 1000, 1000), TAIL)
    assert low < 1 < high < 1.2
    nested = Arithmetic("/", Released(0), Arithmetic("-", mean, n(0)))
    assert found.interval(nested, (0, 1000, 1000), TAIL) == WHOLE
    inverse = Arithmetic("/", n(1), product)
    low, high = found.interval(inverse, (1000, 1000, 0), TAIL)
    assert 0 < low < 1e-6 < high


def test_a_key_is_not_a_number() -> None:
    with pytest.raises(TypeError):
        errors(1).value(KeyOf(0), (1,))


def test_ends_are_rounded_outward_and_survive_any_size() -> None:
    found = errors(Fraction(1, 100))  # hardly ever any noise
    third = Arithmetic("/", Released(0), n(3))
    low, high = found.interval(third, (1,), TAIL)
    assert Fraction(low) < Fraction(1, 3) < Fraction(high)
    huge = Arithmetic("*", Released(0), n(10**400))
    assert found.interval(huge, (1,), TAIL) == (math.nextafter(math.inf, 0), math.inf)
    assert found.interval(Arithmetic("-", n(0), huge), (1,), TAIL) == (
        -math.inf,
        -math.nextafter(math.inf, 0),
    )
    wide = errors(10**40, Fraction(10**39, 7))
    assert wide.radius({0: Fraction(1), 1: Fraction(1)}, TAIL) > 10**40
