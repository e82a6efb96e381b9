"""From epsilon to what an attacker may gain, and back: the textbook, programs, and real mechanisms."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sfumato.errors import InvalidParameter
from sfumato.utility.gain import uniform, weighted
from sfumato.utility.guessing import (
    Column,
    about,
    epsilon_for,
    simplified,
    simplified_low,
    simplified_reach,
    tight,
    worst_chance,
    worst_reach,
    worst_value,
)

# The textbook ------------------------------------------------------------------------------------------


def test_f1_whoever_knows_the_others_reads_alice_from_an_exact_average() -> None:
    assert 3 * 15 - 15 - 10 == 20


def test_f2_f3_f4_from_a_quarter_to_three_tenths() -> None:
    reach = simplified_reach(0.25, 0.05)
    assert reach == pytest.approx(math.log(9 / 7), abs=1e-6)
    assert reach <= math.log(9 / 7)
    assert simplified(0.25, reach) <= 0.3 + 1e-9
    assert simplified_reach(0.95, 0.05) == math.inf


@pytest.mark.parametrize(
    ("chance", "wanted"),
    [
        (0.01, (2.504, 3.270, 3.795, 4.231, 4.635, 5.042)),
        (0.05, (1.210, 1.846, 2.325, 2.744, 3.145, 3.563)),
        (0.1, (0.811, 1.350, 1.792, 2.197, 2.603, 3.045)),
        (0.2, (0.539, 0.981, 1.386, 1.792, 2.234, 2.773)),
    ],
)
def test_f5_the_plotted_lines(chance: float, wanted: tuple[float, ...]) -> None:
    found = [simplified_reach(chance, eta / 10) for eta in range(1, 7)]
    assert found == pytest.approx(wanted, abs=6e-4)


def test_f5_f6_f7_the_worst_prior() -> None:
    assert [worst_reach(eta / 10)[0] for eta in range(1, 7)] == pytest.approx(
        (0.401, 0.811, 1.238, 1.695, 2.197, 2.773), abs=6e-4
    )
    assert worst_reach(0.05)[0] == pytest.approx(0.200167, abs=1e-6)
    assert worst_chance(1) == pytest.approx((0.377541, 0.244919), abs=1e-6)
    assert worst_chance(2) == pytest.approx((0.268941, 0.462117), abs=1e-6)
    for reach in (0.1, 1.0, 3.0):
        worst, most = worst_chance(reach)
        gains = [simplified(p / 1000, reach) - p / 1000 for p in range(1001)]
        assert max(gains) <= most + 1e-9
        assert simplified(worst, reach) - worst == pytest.approx(most, abs=1e-8)


def test_f8_the_lower_direction() -> None:
    for p, reach in itertools.product((0.1, 0.5, 0.9), (0.1, 1.0, 4.0)):
        assert simplified_low(p, reach) == pytest.approx(1 / (1 + math.exp(reach) * (1 - p) / p), abs=1e-8)
        assert simplified_low(p, reach) <= p <= simplified(p, reach)


def test_f9_f10_f11_the_precise_bound_is_not_the_best_and_the_printed_shell_is_none() -> None:
    ages = Column.uniform(0, 100, unit=5)
    row = about(ages, 50, 5, 1.0)
    assert row.before == pytest.approx(11 / 101)
    assert (row.simplified, row.shell, row.precise, row.tight) == pytest.approx(
        (1.0, 0.9, 0.8005, 0.6688), abs=6e-5
    )
    small = about(ages, 50, 5, 0.3)
    assert (small.precise, small.tight) == pytest.approx((0.3338, 0.2957), abs=6e-5)
    # the printed form takes exp(-epsilon a) for the shell from a to a + 1, a >= 1
    printed = sum(10 / 101 * math.exp(-a) for a in range(1, 10))
    assert 11 / 101 / (11 / 101 + printed) == pytest.approx(0.6540, abs=6e-5)
    assert row.tight > 0.6540  # which a mechanism attains: so the printed form bounds nothing


# Against the program, and against mechanisms ------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=some.data())
def test_on_a_line_the_tent_is_what_the_program_finds_and_the_bounds_are_in_order(
    data: some.DataObject,
) -> None:
    size = data.draw(some.integers(2, 12))
    weights = data.draw(some.lists(some.integers(0, 9), min_size=size, max_size=size).filter(any))
    reach = data.draw(some.integers(0, max(size - 2, 0)))
    value = data.draw(some.integers(0, size - 1))
    epsilon = data.draw(some.sampled_from([0.01, 0.3, 1.0, 4.0]))
    belief = weighted(dict(enumerate(weights)))
    column = Column(np.array([float(mass) for mass in belief.masses]))
    found = about(column, value, reach, epsilon)
    goal = [x for x in range(size) if abs(x - value) <= reach]
    solved = tight(belief, goal, lambda x, y: abs(x - y), epsilon)
    assert found.tight == pytest.approx(solved, abs=2e-6)
    assert found.before <= found.tight + 1e-9
    assert found.tight <= found.precise + 1e-6
    assert found.precise <= found.shell + 1e-6
    assert found.shell <= found.simplified + 1e-6
    assert worst_value(column, reach, epsilon)[1] >= found.advantage - 1e-8


def test_no_output_of_a_mechanism_tells_more_than_the_bound() -> None:
    """Geometric noise on an age: the posterior of every goal after every output, computed plainly."""
    rng = random.Random(2)
    for epsilon in (0.05, 0.5, 2.0):
        weights = [rng.randint(0, 9) for _ in range(20)]
        chances = np.array(weights) / sum(weights)
        column = Column(chances)
        most: dict[int, float] = dict.fromkeys(range(20), 0.0)
        for output in range(-30, 50):
            likelihood = np.exp(-epsilon * np.abs(np.arange(20) - output))
            posterior = chances * likelihood / (chances * likelihood).sum()
            for value in range(20):
                near = posterior[max(value - 2, 0) : value + 3].sum()
                most[value] = max(most[value], float(near))
        for value, seen in most.items():
            bound = about(column, value, 2, epsilon).tight
            assert seen <= bound + 1e-9
            assert seen == pytest.approx(bound, abs=1e-7)  # and attained, by an output within the goal


def test_a_union_of_intervals_needs_the_program() -> None:
    belief = uniform(range(30))
    goal = [5, 6, 20, 21]
    solved = tight(belief, goal, lambda x, y: abs(x - y), 0.4)
    tents = [
        sum(math.exp(-0.4 * abs(c - z)) for z in goal) / sum(math.exp(-0.4 * abs(c - z)) for z in range(30))
        for c in range(30)
    ]
    assert solved > max(tents) + 0.002


def test_under_the_ordinary_distance_the_simplified_bound_is_tight() -> None:
    belief = weighted({0: 5, 1: 3, 2: 1, 3: 1})
    for goal in ([1], [0, 3], [2, 3]):
        p = sum(float(belief.mass(x)) for x in goal)
        assert tight(belief, goal, lambda x, y: int(x != y), 0.7) == pytest.approx(
            simplified(p, 0.7), abs=2e-6
        )


# Back to epsilon ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 0, 50])
@pytest.mark.parametrize("advantage", [0.01, 0.1, 0.5])
def test_the_epsilon_returned_keeps_the_advantage_and_little_more_would_not(
    value: float | None, advantage: float
) -> None:
    ages = Column.uniform(0, 100)
    epsilon = epsilon_for(ages, 2, advantage, value=value)

    def gained(size: float) -> float:
        return worst_value(ages, 2, size)[1] if value is None else about(ages, value, 2, size).advantage

    assert gained(epsilon) <= advantage
    assert gained(epsilon * 1.001) > advantage


def test_edges_are_worse_than_the_centre() -> None:
    ages = Column.uniform(0, 100)
    assert epsilon_for(ages, 2, 0.1) < epsilon_for(ages, 2, 0.1, value=50)
    assert worst_value(ages, 2, 1.0)[0] in (2.0, 98.0)


def test_a_million_values_take_a_scan() -> None:
    column = Column(np.full(10**6, 1e-6))
    assert 0 < worst_value(column, 5, 0.1)[1] < 1


def test_bad_input_is_named_with_the_fix() -> None:
    ages = Column.uniform(0, 100)
    for call, told in (
        (lambda: simplified(1.5, 1.0), "between 0 and 1"),
        (lambda: simplified_reach(0.5, 0.0), "strictly between 0 and 1"),
        (lambda: worst_reach(1.0), "strictly between 0 and 1"),
        (lambda: Column(np.array([0.5, 0.4])), "add up to 1"),
        (lambda: Column(np.array([1.5, -0.5])), "at least 0"),
        (lambda: about(ages, 50, 200, 1.0), "always be right"),
        (lambda: about(ages, 500, 2, 1.0), "from 0 to 100"),
        (lambda: about(ages, 50, 2, -1.0), "at least 0"),
        (lambda: epsilon_for(ages, 2, 2.0), "strictly between"),
        (lambda: tight(uniform(range(3)), [7], lambda x, y: abs(x - y), 1.0), "secrets of the prior"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            call()
