"""Private groups: shown as often as (epsilon, delta) allows, and never more often. On fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.exact.coins import Coins
from sfumato.mechanisms import Distance, Distances, Partition, Step
from sfumato.mechanisms.partition import BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE = 1 << BITS
TINY = Fraction(1, 1 << 150)
EPSILONS = some.one_of(
    some.sampled_from([Fraction(1, 1000), Fraction(1, 10), Fraction(3, 10), Fraction(1), Fraction(5)]),
    some.fractions(Fraction(1, 100), 12, max_denominator=10**6),
)
DELTAS = some.one_of(
    some.integers(1, 18).map(lambda n: Fraction(1, 10**n)),
    some.fractions(Fraction(1, 10**12), Fraction(99, 100), max_denominator=10**12),
)


def chances(rule: Partition) -> list[Fraction]:
    """For 0, 1, 2, ... persons, and one beyond the first that is certain."""
    found = [rule.chance(0)]
    while found[-1] < 1:
        found.append(rule.chance(len(found)))
    return [*found, rule.chance(len(found))]


def rule_of(epsilon: Fraction, delta: Fraction) -> Partition:
    # the number of persons for certainty is about 2 ln(1/delta)/epsilon; keep examples quick
    assume(-math.log(delta) / float(epsilon) < 3000)
    return Partition(epsilon=epsilon, delta=delta)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_one_person_more_or_less_keeps_epsilon_and_delta_for_both_outcomes(
    epsilon: Fraction, delta: Fraction
) -> None:
    """All four inequalities, against an e^epsilon that is rounded down: a smaller one is harder to keep."""
    ratio = numbers.exp(epsilon).low
    found = chances(rule_of(epsilon, delta))
    assert found[0] == 0
    for before, after in itertools.pairwise(found):
        assert 0 <= before <= after <= 1
        assert after <= ratio * before + delta
        assert 1 - before <= ratio * (1 - after) + delta
        assert before <= ratio * after + delta
        assert 1 - after <= ratio * (1 - before) + delta


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_no_probability_could_be_any_larger(epsilon: Fraction, delta: Fraction) -> None:
    """By 2^-150 more, one of the inequalities would break for e^epsilon as it is rounded down.

    For e^epsilon itself, known to 300 bits, by 2^-80 more.
    """
    rounded, exact = numbers.exp(epsilon).low, numbers.exp(epsilon, 300).high
    for before, after in itertools.pairwise(chances(rule_of(epsilon, delta))):
        for ratio, room in ((rounded, TINY), (exact, Fraction(1, 1 << 80))):
            larger = after + room
            breaks = larger > ratio * before + delta or 1 - before > ratio * (1 - larger) + delta
            assert after == 1 or breaks


@settings(max_examples=60, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_a_group_of_enough_people_is_always_shown(epsilon: Fraction, delta: Fraction) -> None:
    rule = rule_of(epsilon, delta)
    found = chances(rule)
    certain = len(found) - 2
    assert found[-1] == found[-2] == rule.chance(certain) == rule.chance(10**30) == 1
    assert found[certain - 1] < 1
    assert rule.chance(rule.half) >= Fraction(1, 2) > rule.chance(rule.half - 1)
    # up to the middle and down from there take the same number of steps, about ln(1/delta)/epsilon each
    assert certain <= 2 * (math.log(max(math.expm1(epsilon), 1e-300) / delta + 1) / float(epsilon)) + 4


def test_nobody_is_shown_never_and_one_person_with_delta() -> None:
    for delta in (Fraction(1, 2), Fraction(1, 1024), Fraction(1, 10**9)):
        rule = Partition(epsilon=Fraction(1), delta=delta)
        assert rule.chance(0) == rule.chance(-3) == 0
        assert delta - Fraction(1, WHOLE) < rule.chance(1) <= delta


class Fixed(Coins):
    """Coins that fell so that `below` gives this number; they note what was asked for."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, list[int]()

    def bits(self, count: int) -> int:
        raise AssertionError(f"{count} coins beside the one number")

    def below(self, n: int) -> int:
        self.asked.append(n)
        return self.number


def test_a_group_is_drawn_with_exactly_its_chance() -> None:
    """One number below 2^192 decides, and as many of them show the group as its chance has parts."""
    rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000))
    for count in range(1, 14):
        law, parts = rule.law((count,)), int(rule.chance(count) * WHOLE)
        assert rule.chance(count) == Fraction(parts, WHOLE)
        for number, shown in ((0, 1), (parts - 1, 1), (parts, 0), (WHOLE - 1, 0)):
            coins = Fixed(number)
            assert law.draw(coins) == (shown,)
            assert coins.asked == [WHOLE]


class Staged(Coins):
    """The words and the bits that a test wants."""

    def __init__(self, words: list[int], bits: int) -> None:
        self._words, self._bits = words, bits

    def bits(self, count: int) -> int:
        assert count == 128
        return self._bits

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count == len(self._words)
        return np.array(self._words, dtype=np.uint64)


def test_many_groups_are_drawn_with_exactly_their_chances() -> None:
    """All first words around that of the chance, and the rest where the first words are the same."""
    rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000))
    chance = int(rule.chance(5) * (1 << 192))
    first, rest = divmod(chance, 1 << 128)
    counts = (5,) * 200 + (0, 10**9)
    law = rule.law(counts)
    for bits, tied in ((rest - 1, 1), (rest, 0)):
        coins = Staged([first - 1, first, first + 1, 0, (1 << 64) - 1] * 40, bits)
        assert law.draw(coins) == (1, tied, 0, 1, 0) * 40 + (0, 1)


def test_what_is_certain_takes_no_coin_and_groups_are_drawn_one_by_one() -> None:
    rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000))
    assert rule.law((0, 10**9, -1, 15)).draw(Fixed(-1)) == (0, 1, 0, 1)
    coins = Fixed(0)
    assert rule.law((0, 1, 2, 10**9)).draw(coins) == (0, 1, 1, 1)
    assert len(coins.asked) == 2
    assert rule.law(()).draw(Fixed(0)) == ()


def test_the_mass_of_an_outcome_is_the_product_of_its_groups() -> None:
    rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000))
    counts = (1, 7, 15, 0)
    total = Fraction(0)
    for outcome in itertools.product((0, 1), repeat=4):
        exact = math.prod(
            (
                rule.chance(n) if shown else 1 - rule.chance(n)
                for n, shown in zip(counts, outcome, strict=True)
            ),
            start=Fraction(1),
        )
        total += exact
        if exact:
            log = rule.law(counts).log_mass(outcome)
            assert numbers.exp(log.low).low <= exact <= numbers.exp(log.high).high
            assert log.high - log.low < Fraction(1, 1 << 30)
    assert total == 1


@settings(max_examples=60, deadline=None)
@given(
    epsilon=EPSILONS,
    delta=DELTAS,
    counts=some.lists(some.integers(0, 12), min_size=1, max_size=4),
    moves=some.lists(some.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
)
def test_several_groups_at_once_keep_the_bound_that_is_claimed(
    epsilon: Fraction, delta: Fraction, counts: list[int], moves: list[int]
) -> None:
    """Every set of outcomes: what one law exceeds e^epsilon times the other by adds up to delta at most."""
    rule = rule_of(epsilon, delta)
    others = [max(0, n + move) for n, move in zip(counts, moves, strict=False)]
    changed = sum(a != b for a, b in zip(counts, others, strict=True))
    bound = rule.bound(Distance(l0=changed, linf=Fraction(1)))
    assert bound.epsilon is not None
    ratio = numbers.exp(bound.epsilon).low

    def mass(numbers_of: list[int], outcome: tuple[int, ...]) -> Fraction:
        return math.prod(
            (rule.chance(n) if y else 1 - rule.chance(n) for n, y in zip(numbers_of, outcome, strict=True)),
            start=Fraction(1),
        )

    excess = sum(
        max(mass(counts, outcome) - ratio * mass(others, outcome), Fraction(0))
        for outcome in itertools.product((0, 1), repeat=len(counts))
    )
    assert excess <= bound.delta


def test_the_bound_is_k_times_epsilon_and_delta() -> None:
    rule = Partition(epsilon=Fraction(1, 3), delta=Fraction(1, 1000))
    for groups in (1, 2, 7):
        found = rule.bound(Distance(l0=groups, linf=Fraction(1)))
        assert (found.epsilon, found.delta) == (Fraction(groups, 3), Fraction(groups, 1000))
        assert found.rho is None  # a delta is no zCDP
    nothing = rule.bound(Distance(l0=0))
    assert (nothing.epsilon, nothing.delta) == (Fraction(0), Fraction(0))
    assert rule.bound(Distance(l0=5000, linf=Fraction(1))).delta == 1


@pytest.mark.parametrize(
    "far", [Distance(l0=1, linf=Fraction(2)), Distance(linf=Fraction(1)), Distance(l0=1), Distance()]
)
def test_nothing_is_proved_where_a_count_may_move_by_more_than_one(far: Distance) -> None:
    found = Partition(epsilon=Fraction(1), delta=Fraction(1, 1000)).bound(far)
    assert found.epsilon is None
    assert found.rho is None


def test_a_step_of_people_that_come_or_go_is_charged_epsilon_and_delta() -> None:
    near = Distance(l0=2, linf=Fraction(1))
    step = Step(Partition(epsilon=Fraction(1), delta=Fraction(1, 10**6)), Distances(near, near.times(2)))
    assert (step.bound().epsilon, step.bound().delta) == (Fraction(2), Fraction(2, 10**6))
    assert step.bound("value").epsilon is None  # by two: a distance that is derived more sharply is needed


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [("0", "0.1"), ("-1", "0.1"), ("1", "0"), ("1", "-1"), ("1", "1"), ("1", "3/2"), ("10001", "0.1")],
)
def test_absurd_parameters_are_refused(epsilon: str, delta: str) -> None:
    with pytest.raises(InvalidParameter):
        Partition(epsilon=Fraction(epsilon), delta=Fraction(delta))


def test_a_delta_too_small_to_show_anything_is_refused_before_the_data_are_read() -> None:
    """Whoever makes the rule is told, not whoever draws: after the charge it would be too late."""
    for epsilon, delta in ((Fraction(1, 10**9), Fraction(1, 10**9)), (Fraction(1), Fraction(1, 1 << 200))):
        with pytest.raises(InvalidParameter, match="too small"):
            Partition(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("epsilon", [Fraction(100), Fraction(10_000)])
def test_a_huge_epsilon_draws(epsilon: Fraction) -> None:
    """With a huge one, one person is still shown with delta only, and two are shown nearly always."""
    rule = Partition(epsilon=epsilon, delta=Fraction(1, 1000))
    assert rule.law((0, 5)).draw(Fixed(0)) == (0, 1)
    assert rule.chance(1) <= Fraction(1, 1000)
    assert rule.chance(2) > Fraction(99, 100)
