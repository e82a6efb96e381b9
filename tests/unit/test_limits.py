"""What no mechanism can do: the textbook's numbers, the attacks run for real, and mechanisms at the limit."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.budget.accounting.composition import advanced, advanced_share
from sfumato.budget.accounting.limits import (
    advanced_count,
    corollary_count,
    error_against_all,
    error_against_few,
    few,
    laplace_radius,
    packing,
    packing_forbids,
    pigeonhole,
    wrong_from_all,
    wrong_from_few,
)
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import Distance, RandomizedResponse
from sfumato.mechanisms.noise import DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

F = Fraction
HALF = F(1, 2)
BITS = (0, 1)


def sign(i: int, j: int) -> int:
    """The entry of Sylvester's Hadamard matrix: person i is counted in subset j where it is 1."""
    return 1 - 2 * ((i & j).bit_count() % 2)


def counts(bits: Sequence[int]) -> list[int]:
    """Person i = 1 .. n has bits[i - 1]."""
    return [sum(b for i, b in enumerate(bits, 1) if sign(i, j) == 1) for j in range(few(len(bits)))]


def reconstructed(answers: Sequence[Fraction], people: int, error: Fraction) -> list[int]:
    """The attack: the middle of the whole numbers that each count may be, transformed back, and rounded."""
    middles = [F(math.ceil(a - error) + math.floor(a + error), 2) for a in answers]
    sums = [sum(sign(i, j) * m for j, m in enumerate(middles)) for i in range(1, people + 1)]
    return [int(4 * s > len(answers)) for s in sums]


def wrong(bits: Sequence[int], errors: Sequence[Fraction], error: Fraction) -> int:
    assert max(map(abs, errors)) <= error
    answers = [c + e for c, e in zip(counts(bits), errors, strict=True)]
    return sum(a != b for a, b in zip(bits, reconstructed(answers, len(bits), error), strict=True))


# reconstruction from all counts


def test_b22_an_error_of_one_in_401_lets_anybody_know_99_percent() -> None:
    for people in (401, 4010, 401_000):
        unknown = F(wrong_from_all(people=people, error=F(people, 401)), people)
        assert unknown == F(4, 401)
        assert math.floor(100 * (1 - unknown)) == 99
    for people in range(1, 2000):
        assert 100 * wrong_from_all(people=people, error=F(people, 401)) < people


def test_b23_reconstruction_needs_an_error_that_is_a_vanishing_part_of_all_people() -> None:
    """The slide has alpha = o(n), but its alpha is a part of n already: it must be o(1)."""
    for people in (10**2, 10**4, 10**6):
        assert wrong_from_all(people=people, error=F(people, 4)) == people  # alpha = 1/4 = o(n)
        assert wrong_from_all(people=people, error=F(math.isqrt(people))) == 4 * math.isqrt(people)


@pytest.mark.parametrize("people", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("error", [F(0), F(49, 100), HALF, F(3, 4), F(1), F(7, 5), F(3, 2), F(2), F(3)])
def test_all_counts_leave_exactly_so_many_unknown(people: int, error: Fraction) -> None:
    """Two databases stay possible if one answer within the error serves both, for every subset."""
    worst = 0
    for difference in product((-1, 0, 1), repeat=people):
        gap = max(
            abs(sum(s * d for s, d in zip(q, difference, strict=True))) for q in product(BITS, repeat=people)
        )
        if gap <= 2 * error:
            worst = max(worst, sum(map(abs, difference)))
    assert worst == wrong_from_all(people=people, error=error)


# reconstruction from few counts


@pytest.mark.parametrize("people", [16, 31, 40, 63, 64])
@pytest.mark.parametrize("error", [F(0), F(49, 100), HALF, F(7, 10), F(1)])
def test_few_counts_leave_no_more_unknown_than_the_law_says(people: int, error: Fraction) -> None:
    coins = random.Random(people)
    most = wrong_from_few(people=people, error=error)
    for _ in range(3):
        bits = coins.choices(BITS, k=people)
        target = [0, *(1 - 2 * b for b in bits)]  # errors that push everybody towards the other side
        pulls = [sum(sign(i, j) * t for i, t in enumerate(target)) for j in range(few(people))]
        pushing = [error if pull >= 0 else -error for pull in pulls]
        anything = [error * F(coins.randint(-8, 8), 8) for _ in range(few(people))]
        assert wrong(bits, pushing, error) <= most
        assert wrong(bits, anything, error) <= most


def test_every_error_of_a_half_on_seven_people_leaves_at_most_three_of_the_four_unknown() -> None:
    """All 3^8 patterns of errors -1/2, 0, 1/2; somebody's estimate moves by sum/8, and ties are read as 0."""
    signs = np.array([[sign(i, j) for i in range(1, 8)] for j in range(8)])
    sums = np.array(list(product((-1, 0, 1), repeat=8))) @ signs
    at_most = ((2 * sums > 8) | (2 * sums <= -8)).sum(axis=1).max()
    assert at_most == 3
    assert wrong_from_few(people=7, error=HALF) == few(7) // 2 == 4


@pytest.mark.parametrize(
    ("people", "inner", "error", "fooled"), [(7, 2, HALF, 3), (31, 4, F(1), 10), (63, 4, F(1), 10)]
)
def test_a_bent_function_comes_near_the_law(people: int, inner: int, error: Fraction, fooled: int) -> None:
    """A database that is bent on an affine subspace has errors of one size that put all of it at 1/2.

    Those of its people who have a 1 are then wrong: more than half of as many as the law allows.
    """
    size = 1 << inner
    bits = [0] * people
    for v in range(size):
        halves = v >> inner // 2, v & (1 << inner // 2) - 1
        bits[size + v - 1] = 1 - (halves[0] & halves[1]).bit_count() % 2
    moved = [F(1, 2) - b if size <= i < 2 * size else F(0) for i, b in enumerate(bits, 1)]
    errors = [sum((sign(i, j) * u for i, u in enumerate(moved, 1)), F(0)) / 2 for j in range(few(people))]
    assert {abs(e) for e in errors} == {error}
    assert wrong_from_few(people=people, error=error) == size
    assert wrong(bits, errors, error) == fooled == sum(bits)


def test_few_counts_are_at_most_twice_as_many_as_people() -> None:
    assert [few(n) for n in (1, 2, 3, 4, 63, 64)] == [2, 4, 4, 8, 64, 128]
    assert all(n < few(n) <= 2 * n for n in range(1, 300))


def test_the_error_needed_is_where_the_law_ends() -> None:
    tiny = F(1, 10**9)
    for unknown in range(60):
        for needed, law in (
            (error_against_all(wrong=unknown), wrong_from_all),
            (error_against_few(wrong=unknown), wrong_from_few),
        ):
            assert law(people=10**6, error=needed - tiny) <= unknown < law(people=10**6, error=needed)


# packing


def test_b24_pigeonhole() -> None:
    for bits, distance in product((1, 2, 7, 64), (1, 3, 100)):
        found = pigeonhole(bits=bits, distance=distance)
        assert float(found) == pytest.approx(math.log(2) * (bits - 1) / distance, rel=1e-12)
        assert found <= numbers.log(2).high * (bits - 1) / distance
        assert found <= packing(datasets=2**bits, distance=distance)


def test_packing_is_pigeonhole_made_sharp() -> None:
    assert packing(datasets=2, distance=1) == 0  # a fair coin is right half of the time
    assert packing(datasets=3, distance=2, chance=F(1, 4)) == 0
    assert float(packing(datasets=1025, distance=5)) == pytest.approx(2 * math.log(2), rel=1e-12)
    assert float(packing(datasets=2, distance=1, chance=F(3, 4))) == pytest.approx(math.log(3), rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10, 1000])
@pytest.mark.parametrize("keep", [F(1, 2), F(3, 4), F(99, 100)])
def test_randomized_response_attains_packing_also_if_it_tells_the_truth_at_times(
    size: int, keep: Fraction
) -> None:
    epsilon = RandomizedResponse(keep=keep, size=size).bound(Distance(l0=1, linf=F(1))).epsilon
    assert epsilon is not None
    limit = packing(datasets=size, distance=1, chance=keep)
    assert limit <= epsilon <= limit + F(1, 10**15)
    for delta in (F(0), F(1, 1000), F(1, 10)):
        chance = delta + (1 - delta) * keep  # with chance delta the truth: (epsilon, delta)
        if epsilon > 0:
            above, below = epsilon * F(1001, 1000), epsilon * F(999, 1000)
            assert not packing_forbids(epsilon=above, delta=delta, datasets=size, distance=1, chance=chance)
            assert packing_forbids(epsilon=below, delta=delta, datasets=size, distance=1, chance=chance)


@pytest.mark.parametrize("ratio", [F(1, 100), F(1, 10), F(1, 2), F(9, 10)])
@pytest.mark.parametrize("reach", [1, 2, 5])
def test_geometric_noise_on_a_chain_keeps_to_packing(ratio: Fraction, reach: int) -> None:
    """Counts 0 .. 2 reach lie within reach of the middle one; each is released as itself most often."""
    epsilon = -numbers.log(ratio).low
    right = (1 - ratio) / (1 + ratio)
    case = {"datasets": 2 * reach + 1, "distance": reach}
    assert packing(**case, chance=right) <= epsilon
    assert not packing_forbids(epsilon=epsilon, delta=F(0), **case, chance=right)


def test_a_delta_of_0_forbids_exactly_what_packing_says() -> None:
    for datasets, distance, chance in product((3, 100, 2**40), (1, 7, 1000), (HALF, F(9, 10))):
        limit = packing(datasets=datasets, distance=distance, chance=chance)
        case = {"datasets": datasets, "distance": distance}
        assert not packing_forbids(
            epsilon=limit * F(1001, 1000) + F(1, 10**20), delta=F(0), **case, chance=chance
        )
        if limit:
            assert packing_forbids(epsilon=limit * F(999, 1000), delta=F(0), **case, chance=chance)
            assert not packing_forbids(epsilon=limit * F(999, 1000), delta=chance, **case, chance=chance)


# how many releases fit


def test_b15_ten_thousand_releases_fit_by_the_corollary() -> None:
    slack = numbers.round_up(numbers.exp(-32).high, 40)  # a little more than e^-32
    assert corollary_count(F(1, 1600), total=F(1), slack=slack) == 10_000
    assert corollary_count(F(1, 1599), total=F(1), slack=slack) == 9_987
    assert corollary_count(F(1, 2), total=F(1), slack=slack) == 0


def test_b16_bob_s_ten_thousand_fit_by_the_theorem_at_one_over_812_3_and_not_at_one_over_801() -> None:
    slack = numbers.exp(-32).low
    assert advanced_count(F(1000, 812_319), total=F(1), slack=slack) == 10_000
    assert advanced_count(F(1, 801), total=F(1), slack=slack) < 10_000


@pytest.mark.parametrize("epsilon", [F(1, 7), F(1, 100), F(1, 12_345)])
@pytest.mark.parametrize("total", [F(1, 10), F(1)])
@pytest.mark.parametrize("slack", [HALF, F(1, 10**6), F(1, 10**60)])
def test_one_more_would_not_fit(epsilon: Fraction, total: Fraction, slack: Fraction) -> None:
    by_corollary = corollary_count(epsilon, total=total, slack=slack)
    by_theorem = advanced_count(epsilon, total=total, slack=slack)
    assert by_corollary <= by_theorem  # so the corollary follows from the theorem here
    assert advanced_share(total, count=by_corollary + 1, slack=slack) < epsilon
    if by_corollary:
        assert advanced_share(total, count=by_corollary, slack=slack) >= epsilon * (1 - F(1, 10**15))
    assert advanced(epsilon, count=by_theorem + 1, slack=slack) > total
    assert by_theorem == 0 or advanced(epsilon, count=by_theorem, slack=slack) <= total


def test_whole_noise_keeps_the_radius_rounded_up() -> None:
    for epsilon, miss in product((F(1, 100), F(1), F(5)), (F(1, 20), HALF, F(1, 10**6))):
        radius = laplace_radius(epsilon, miss=miss)
        assert float(radius) == pytest.approx(-math.log(miss) / epsilon, rel=1e-12)
        assert 2 * DiscreteLaplace(scale=1 / epsilon).beyond(math.ceil(radius) + 1).high <= miss


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("people", lambda: wrong_from_all(people=0, error=F(1))),
        ("error", lambda: wrong_from_all(people=1, error=F(-1))),
        ("error", lambda: wrong_from_few(people=1, error=0.5)),  # type: ignore[arg-type]  # floats are refused
        ("people", lambda: few(0)),
        ("wrong", lambda: error_against_all(wrong=-1)),
        ("wrong", lambda: error_against_few(wrong=-1)),
        ("bits", lambda: pigeonhole(bits=0, distance=1)),
        ("distance", lambda: pigeonhole(bits=1, distance=0)),
        ("datasets", lambda: packing(datasets=1, distance=1)),
        ("distance", lambda: packing(datasets=2, distance=0)),
        ("chance", lambda: packing(datasets=2, distance=1, chance=F(1))),
        ("chance", lambda: packing(datasets=2, distance=1, chance=F(0))),
        ("epsilon", lambda: packing_forbids(epsilon=F(0), delta=F(0), datasets=2, distance=1)),
        ("delta", lambda: packing_forbids(epsilon=F(1), delta=F(-1), datasets=2, distance=1)),
        ("total", lambda: corollary_count(F(1), total=F(2), slack=F(1, 9))),
        ("slack", lambda: corollary_count(F(1), total=F(1), slack=F(2, 3))),
        ("slack", lambda: corollary_count(F(1), total=F(1), slack=F(0))),
        ("slack", lambda: advanced_count(F(9), total=F(1), slack=F(1))),
        ("epsilon", lambda: advanced_count(F(0), total=F(1), slack=F(1, 9))),
        ("miss", lambda: laplace_radius(F(1), miss=F(1))),
    ],
)
def test_bad_input_is_named(named: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.name == named
