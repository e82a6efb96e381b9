"""From epsilon to what an attacker may gain, and back: the textbook, programs, and real mechanisms."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Bound, Table
from sfumato.utility import guessing
from sfumato.utility.gain import uniform, weighted
from sfumato.utility.goals import (
    claim,
    either,
    every,
    fact,
    furthest,
    gained,
    independent,
    manhattan,
    most_gained,
    near,
    precise,
    same,
    tight,
)
from sfumato.utility.guessing import (
    Belief,
    about,
    above,
    epsilon_for,
    largest,
    on_average,
    record_for,
    simplified,
    simplified_low,
    simplified_reach,
    worst_chance,
    worst_guess,
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
    ages = Belief.uniform(0, 100, unit=5)
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
    column = Belief(np.array([float(mass) for mass in belief.masses]))
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
        column = Belief(chances)
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
    ages = Belief.uniform(0, 100)
    epsilon = epsilon_for(ages, 2, advantage, value=value)

    def gained(size: float) -> float:
        return worst_value(ages, 2, size)[1] if value is None else about(ages, value, 2, size).advantage

    assert gained(epsilon) <= advantage
    assert gained(epsilon * 1.001) > advantage


def test_edges_are_worse_than_the_centre() -> None:
    ages = Belief.uniform(0, 100)
    assert epsilon_for(ages, 2, 0.1) < epsilon_for(ages, 2, 0.1, value=50)
    assert worst_value(ages, 2, 1.0)[0] in (2.0, 98.0)


def test_a_million_values_take_a_scan() -> None:
    column = Belief(np.full(10**6, 1e-6))
    assert 0 < worst_value(column, 5, 0.1)[1] < 1


# What a review found ------------------------------------------------------------------------------------


def spiked(size: int, masses: dict[int, float], **more: float) -> Belief:
    chances = np.zeros(size)
    for place, mass in masses.items():
        chances[place] = mass
    return Belief(chances, **more)


def test_blocks_that_stick_out_of_a_goal_are_not_forgotten() -> None:
    steep = spiked(100_000, {49_152: 0.1, 49_153: 0.9}, step=1000.0)
    assert worst_value(steep, 97_000, 1.0)[1] >= about(steep, 49_055_000.0, 97_000, 1.0).advantage > 0.89
    assert 0 < epsilon_for(steep, 97_000, 0.5) < 1


def test_no_epsilon_is_called_infinite_that_is_not() -> None:
    assert largest(lambda epsilon: epsilon <= 900) == pytest.approx(900, rel=1e-5)
    assert largest(lambda epsilon: epsilon <= 9e8, scale=1e6) == pytest.approx(9e8, rel=1e-5)
    assert largest(lambda _: True) == math.inf
    assert largest(lambda _: False) == 0
    wide = Belief.uniform(0, 100, unit=1e6)
    for value in (None, 50):
        epsilon = epsilon_for(wide, 5, 0.1, value=value)
        assert 0 < epsilon < 1e6
        assert about(wide, 50, 5, epsilon).advantage <= 0.1
    assert 0 < record_for(Belief(np.array([1.0, 1e-17])), 0, 0.1) < 40


def test_small_chances_are_not_lost() -> None:
    assert simplified(1e-310, 1.0) >= 1e-310
    assert simplified(1e-310, 720.0) > 0.9
    tiny = Belief(np.array([1e-310, 1.0]))
    assert about(tiny, 0, 0, 0.5, record=720.0).tight > 0.998
    far = spiked(45, {0: 2.250938517178706e-36, 8: 1.0})
    assert about(far, 0, 0, 6.298161379918114, record=39.11521584674849).tight == pytest.approx(
        0.9994, abs=1e-4
    )
    gone = spiked(31, {0: 1e-80, 30: 1.0})
    assert worst_value(gone, 0, 5.1, record=32.0)[1] >= 0.6885
    bell = Belief.normal(0, 1, step=0.1)
    assert about(bell, bell.low + 4 * bell.step, 0, 0.5, record=30.0).tight >= 0.828278


@pytest.mark.parametrize("eta", [1e-15, 1e-12, 1e-9, 1e-6])
def test_small_advantages_are_rounded_down(eta: float) -> None:
    assert worst_reach(eta)[0] <= 4 * eta
    assert worst_reach(eta)[0] == pytest.approx(4 * eta, rel=1e-6)
    exact = Fraction(eta) / Fraction(1, 4) + Fraction(eta) / Fraction(3, 4)  # and less, by terms of eta^2
    assert simplified_reach(0.25, eta) <= float(exact)
    assert simplified_reach(0.25, eta) == pytest.approx(float(exact), rel=1e-5)


def test_values_that_nobody_believes_in_are_no_tops() -> None:
    gap = spiked(4000, {2000: 0.1, 2001: 0.9})
    assert about(gap, 1000, 1000, 0.5).tight == pytest.approx(0.1548, abs=1e-4)
    assert worst_value(gap, 5, 0.5)[1] < 0.1
    assert worst_value(spiked(4000, {0: 1.0}), 5, 0.5)[1] < 1e-6
    assert worst_value(spiked(40, {0: 1.0}), 5, 0.5, record=40.0)[1] < 1e-6
    late = spiked(100_003, {99_901: 0.45, 99_900: 0.55})
    value, gained_ = worst_value(late, 100, 0.0, record=0.5)
    assert about(late, value, 100, 0.0, record=0.5).advantage == pytest.approx(gained_, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(data=some.data())
def test_the_search_finds_what_looking_at_everything_finds(data: some.DataObject) -> None:
    size = data.draw(some.integers(2, 30))
    weights = data.draw(some.lists(some.integers(0, 9), min_size=size, max_size=size).filter(any))
    column = Belief(np.array(weights) / sum(weights))
    reach = data.draw(some.integers(0, size - 2))
    epsilon, record = (
        data.draw(some.sampled_from([0, 0.01, 1, 20])),
        data.draw(some.sampled_from([0, 0.5, 3])),
    )
    few, first, most = data.draw(some.sampled_from([(12, 10**5, 10**6), (-1, 4, 10**6), (-1, 4, 40)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guessing, "FEW", few)
        patch.setattr(guessing, "FIRST", first)
        patch.setattr(guessing, "MOST_BLOCKS", most)
        value, gained_ = worst_value(column, reach, epsilon, record=record)
    plainly = max(about(column, x, reach, epsilon, record=record).advantage for x in range(size))
    assert gained_ >= plainly - 1e-9
    if most > 40:
        assert gained_ == pytest.approx(plainly, abs=1e-6)
        assert about(column, value, reach, epsilon, record=record).advantage == pytest.approx(
            plainly, abs=1e-6
        )


@settings(max_examples=60, deadline=None)
@given(data=some.data())
def test_the_worst_guess_is_the_worst_of_all_that_can_be_right_together(data: some.DataObject) -> None:
    size = data.draw(some.integers(2, 14))
    weights = data.draw(some.lists(some.integers(0, 9), min_size=size, max_size=size).filter(any))
    column = Belief(np.array(weights) / sum(weights))
    precision = data.draw(some.sampled_from([0.0, 0.4, 0.5, 1.0, 1.7, 2.5]).filter(lambda r: r < size - 1))
    epsilon = data.draw(some.sampled_from([0, 0.05, 1]))
    record = data.draw(some.sampled_from([0, 0.5]))
    first = data.draw(some.sampled_from([10**5, 4]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guessing, "FIRST", first)
        patch.setattr(guessing, "FEW", 12 if first > 4 else -1)
        found = worst_guess(column, precision, epsilon, record=record)
    worst = 0.0
    for guess in np.arange(-3, size + 3, 0.125).tolist():
        right = [x for x in range(size) if abs(x - guess) <= precision]
        before = sum(float(column.chances[x]) for x in right)
        for top in right:
            likely = column.chances * np.exp(-epsilon * np.abs(np.arange(size) - top))
            inside = sum(float(likely[x]) for x in right)
            outside = float(likely.sum()) - inside
            if inside > 0:
                worst = max(worst, inside / (inside + math.exp(-record) * max(outside, 0.0)) - before)
    assert worst <= found + 1e-9
    assert found == pytest.approx(worst, abs=1e-6)


# Two prices, and other spaces -----------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(data=some.data())
def test_two_prices_are_the_simplified_bound_of_the_tight_one(data: some.DataObject) -> None:
    size = data.draw(some.integers(2, 7))
    weights = data.draw(some.lists(some.integers(1, 9), min_size=size, max_size=size))
    belief = weighted(dict(enumerate(weights)))
    goal = data.draw(some.sets(some.integers(0, size - 1), min_size=1, max_size=size - 1))
    a, b = data.draw(some.sampled_from([0.0, 0.3, 2.0])), data.draw(some.sampled_from([0.1, 1.0]))
    both = tight(belief, goal, lambda x, z: a * (x != z) + b * abs(x - z), 1.0)
    assert both == pytest.approx(simplified(tight(belief, goal, lambda x, z: abs(x - z), b), a), abs=1e-8)


def test_several_columns_need_the_program_and_the_precise_bound_holds() -> None:
    people = independent(uniform(range(4)), uniform(range(4)))
    far = manhattan(1, 1)
    for goal in (every(near(1), near(0)), either(near(0), near(0))):
        truth, most = most_gained(people, goal, far, 0.5)
        right = [z for z in people.outcomes if goal(truth, z)]
        before = len(right) / 16
        bound, loose = tight(people, right, far, 0.5), precise(people, right, far, 0.5)
        assert most == pytest.approx(bound - before, abs=1e-8)
        assert bound <= loose + 1e-12
        tents = [
            sum(math.exp(-0.5 * float(far(c, z))) for z in right)
            / sum(math.exp(-0.5 * float(far(c, z))) for z in people.outcomes)
            for c in people.outcomes
        ]
        assert bound >= max(tents) - 1e-9
    assert furthest(1, 1)((0, 0), (2, 3)) == 3
    # a fact: whether the value is at least 2
    value, most = most_gained(uniform(range(4)), fact(lambda x: x >= 2), lambda x, z: abs(x - z), 1.0)
    assert most == pytest.approx(
        max(side.advantage for side in above(Belief.uniform(0, 3), 2, 1.0)), abs=1e-8
    )
    assert value in range(4)


def test_a_distance_that_is_none_is_no_trap() -> None:
    three = uniform(range(3))
    hops = {(0, 1): 0, (1, 2): 0, (0, 2): 10}

    def far(x: int, z: int) -> int:
        return hops.get((min(x, z), max(x, z)), 0)

    assert most_gained(three, same, far, 1.0, record=1.0)[1] >= 0.3319
    rare = weighted({0: 1, 1: 10**12})
    assert tight(rare, [0], lambda x, z: abs(x - z), 0.01) == pytest.approx(1e-12, rel=0.05)


@settings(max_examples=30, deadline=None)
@given(data=some.data())
def test_no_mechanism_of_ours_gains_more_than_the_claim(data: some.DataObject) -> None:
    """Two people with a value each; a count of those at least 1, with geometric noise."""
    ratio = data.draw(some.sampled_from([Fraction(1, 2), Fraction(1, 5), Fraction(9, 10)]))
    beliefs = [
        weighted(dict(enumerate(data.draw(some.lists(some.integers(1, 5), min_size=3, max_size=3)))))
        for _ in range(2)
    ]
    people = independent(*beliefs)
    stairs = Table.geometric(ratio=ratio, size=3)
    rows = tuple(stairs.rows[sum(x >= 1 for x in database)] for database in people.outcomes)
    table = Table(rows=rows, secrets=people.outcomes, outputs=stairs.outputs)
    epsilon = -math.log(ratio)
    about_first = lambda x, z: x[0] == z[0]  # noqa: E731
    for knows in (lambda _: None, lambda database: database[1]):
        seen = gained(table, people, about_first, knows=knows)
        assert float(seen) <= claim(people, 0, same, epsilon, knows=knows)


def test_whoever_knows_less_may_gain_more() -> None:
    """She who knows Bob and the sum's noise learns about Alice; he who knows Alice already learns nothing."""
    people = independent(uniform((0, 1)), uniform((0, 1)))
    stairs = Table.geometric(ratio=Fraction(1, 4), size=3)
    table = Table(
        rows=tuple(stairs.rows[sum(x)] for x in people.outcomes),
        secrets=people.outcomes,
        outputs=stairs.outputs,
    )
    both = lambda x, z: x == z  # noqa: E731  # the goal: the whole database
    knows_bob = gained(table, people, both, knows=lambda x: x[1])
    knows_all = gained(table, people, both, knows=lambda x: x)
    knows_none = gained(table, people, both)
    assert knows_all == 0 < knows_bob < knows_none
    with pytest.raises(InvalidParameter, match="group=k"):
        claim(people, 0, same, 1.0, knows=sum)
    assert claim(people, 0, same, 1.0, knows=sum, group=2) > claim(people, 0, same, 1.0)
    for bad in (0, -1, True):
        with pytest.raises(InvalidParameter, match="1 or more"):
            claim(people, 0, same, 1.0, group=bad)
    with pytest.raises(InvalidParameter, match="from 0 to 1"):
        claim(people, 5, same, 1.0)


# On average -----------------------------------------------------------------------------------------------


def mean_posteriors(rows: np.ndarray, prior: np.ndarray, goals: list[np.ndarray]) -> list[float]:
    """For every truth: the mean over outputs of the posterior of its own goal."""
    seen = prior @ rows
    found = []
    for truth, goal in enumerate(goals):
        after = np.where(seen > 0, (prior * goal) @ rows / np.where(seen > 0, seen, 1.0), 0.0)
        found.append(float(rows[truth] @ after))
    return found


@settings(max_examples=60, deadline=None)
@given(data=some.data())
def test_on_average_nobodys_own_goal_gains_more_with_a_delta(data: some.DataObject) -> None:
    size, outputs = data.draw(some.integers(2, 5)), data.draw(some.integers(2, 6))
    seed = data.draw(some.integers(0, 2**32 - 1))
    dice = np.random.default_rng(seed)
    rows = dice.dirichlet(np.full(outputs, 0.7), size=size) * 0.5 + 0.5 / outputs
    prior = dice.dirichlet(np.full(size, 0.6))
    goals = [np.abs(np.arange(size) - x) <= data.draw(some.integers(0, 1)) for x in range(size)]
    epsilon = data.draw(some.sampled_from([0.0, 0.1, 0.5, 1.0]))
    delta = max(
        float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in itertools.permutations(rows, 2)
    )
    bound = Bound(epsilon=Fraction(epsilon), delta=min(Fraction(delta) + Fraction(1, 10**12), Fraction(1)))
    for goal, mean in zip(goals, mean_posteriors(rows, prior, goals), strict=True):
        assert mean <= on_average(min(float(prior @ goal), 1.0), bound) + 1e-12


def test_on_average_gaussian_noise_keeps_to_the_bound() -> None:
    """A value of 0 .. 20 with discrete Gaussian noise, whoever has it."""
    for rho, reach in itertools.product((0.01, 0.1, 0.5), (0, 2)):
        sigma = 20 / math.sqrt(2 * rho)
        outputs = np.arange(-400, 421)
        rows = np.exp(-((outputs[None, :] - np.arange(21)[:, None]) ** 2) / (2 * sigma**2))
        rows /= rows.sum(axis=1, keepdims=True)
        prior = np.full(21, 1 / 21)
        goals = [np.abs(np.arange(21) - x) <= reach for x in range(21)]
        for goal, mean in zip(goals, mean_posteriors(rows, prior, goals), strict=True):
            p = float(prior @ goal)
            assert p < mean <= on_average(p, Bound(rho=Fraction(rho)))
    assert on_average(0.05, Bound(epsilon=Fraction(800))) == 1.0
    assert on_average(0.05, Bound(epsilon=Fraction(5), rho=Fraction(1, 8))) == pytest.approx(0.15, abs=1e-3)
    assert (
        on_average(0.01, Bound(epsilon=Fraction(15), delta=Fraction(1, 10**6))) > 0.99
    )  # whom it is rare for


def test_on_average_a_delta_shows_and_no_output_is_safe() -> None:
    """With delta the whole value is shown, else nothing: no bound for every output, but one on average."""
    delta = Fraction(1, 100)
    rows = tuple((*(delta if y == x else Fraction(0) for y in range(10)), 1 - delta) for x in range(10))
    table: Table[int, object] = Table(rows=rows, secrets=tuple(range(10)), outputs=(*range(10), "nothing"))
    assert gained(table, uniform(range(10)), same) == Fraction(9, 10)
    means = mean_posteriors(
        np.array([[float(p) for p in row] for row in rows]), np.full(10, 0.1), list(np.eye(10) > 0)
    )
    bound = on_average(0.1, Bound(epsilon=Fraction(0), delta=delta))
    assert all(0.1 < mean <= bound + 1e-12 for mean in means)
    assert bound == pytest.approx(0.11, abs=1e-6)


# What is believed -----------------------------------------------------------------------------------------


def test_columns_are_made_of_bells_and_histograms() -> None:
    bell = Belief.normal(40, 15, low=0, high=100)
    assert bell.size == 101
    assert float(bell.chances.sum()) == pytest.approx(1)
    assert Belief.normal(0, 1, low=7.9, step=0.01).beyond < 1e-9
    assert Belief.normal(0, 1, high=0).size == 9
    assert Belief.uniform(0, 11, step=4).size == 3
    parts = Belief.weighted([(0, 9, 1), (10, 10, 1)], low=0, high=10)
    assert parts.chances[10] == pytest.approx(0.5)
    loose = Belief.normal(40, 15)
    assert loose.beyond > 0
    assert about(loose, 40, 2, 0.0, record=1.0).tight == pytest.approx(
        simplified(float(about(loose, 40, 2, 0.0).before), 1.0)
    )


def test_bad_input_is_named_with_the_fix() -> None:
    ages = Belief.uniform(0, 100)
    for call, told in (
        (lambda: simplified(1.5, 1.0), "between 0 and 1"),
        (lambda: simplified_reach(0.5, 0.0), "strictly between 0 and 1"),
        (lambda: worst_reach(1.0), "strictly between 0 and 1"),
        (lambda: Belief(np.array([0.5, 0.4])), "add up to 1"),
        (lambda: Belief(np.array([1.5, -0.5])), "at least 0"),
        (lambda: about(ages, 50, 200, 1.0), "always be right"),
        (lambda: about(ages, 500, 2, 1.0), "from 0 to 100"),
        (lambda: about(ages, 50, 2, -1.0), "at least 0"),
        (lambda: epsilon_for(ages, 2, 2.0), "strictly between"),
        (lambda: tight(uniform(range(3)), [7], lambda x, y: abs(x - y), 1.0), "secrets of the prior"),
        (lambda: tight(uniform(range(500)), [7], lambda x, y: abs(x - y), 1.0), "up to 400"),
        (lambda: precise(uniform(range(3)), [0], lambda *_: math.inf, 1.0), "at least 0"),
        (lambda: precise(uniform(range(3)), [0], lambda *_: -1, 1.0), "at least 0"),
        (lambda: worst_value(Belief.uniform(0, 10, unit=1e-300), 1, 1e200), "too small for a float"),
        (lambda: Belief(["a"]), "not probabilities"),  # type: ignore[arg-type]
        (lambda: Belief(np.ones(1), low=math.nan), "give a number"),
        (lambda: Belief.uniform(0, math.inf), "give a bound"),
        (lambda: Belief.uniform(1, 0.6), "give a bound"),
        (lambda: Belief.uniform(0, 1, step=1e-300), "at most"),
        (lambda: Belief.normal(0, 1, step=0), "deviation > 0"),
        (lambda: Belief.normal(math.nan, 1), "deviation > 0"),
        (lambda: Belief.normal(0, 1, low=1000, high=1001), "no mass within"),
        (lambda: Belief.weighted([(0, math.inf, 1)], low=0, high=1), "finite parts"),
        (lambda: Belief.weighted([(0, 1, 0)], low=0, high=1), "above 0"),
        (lambda: above(ages, math.nan, 1.0), "above 0 and at most 100"),
        (lambda: about(ages, math.nan, 1, 1.0), "from 0 to 100"),
        (lambda: about(ages, 50, 1e300, 1.0), "always be right"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            call()
