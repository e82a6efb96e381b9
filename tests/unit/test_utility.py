"""Gains, leakage and optimal mechanisms, against the textbook's numbers and against each other."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from benchmarks.utility import GAINS, beliefs
from hypothesis import given, settings
from hypothesis import strategies as some

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Table
from sfumato.utility.gain import (
    Gain,
    bayes_risk,
    best_remap,
    expected,
    guess,
    identity,
    nearness,
    of_answers,
    of_noise,
    prior,
    uniform,
    utility,
    weighted,
)
from sfumato.utility.leakage import (
    capacity,
    leakage,
    min_capacity,
    most_leaked,
    mutual_information,
    refined,
    vulnerability,
)
from sfumato.utility.optimal import Optimal, induced, optimal, path, universal
from sfumato.utility.programs import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

LN2 = Fraction(math.log(2))


def stairs(epsilon: Fraction, size: int) -> Table[int, int]:
    return Table.geometric(ratio=numbers.round_up(numbers.exp(-epsilon).high, 64), size=size)


def responses(epsilon: Fraction, size: int) -> Table[int, int]:
    """Randomized response among `size` answers."""
    grown = numbers.exp(epsilon).low
    keep, other = grown / (size - 1 + grown), 1 / (size - 1 + grown)
    return Table(rows=tuple(tuple(keep if x == y else other for y in range(size)) for x in range(size)))


# The textbook ------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "epsilon", "wanted"),
    [
        *((10, "ln2", 0.393939), (10, "1", 0.511016), (10, "0.1", 0.136326)),
        *((100, "ln2", 0.339934), (100, "1", 0.467443), (100, "0.1", 0.059365)),
    ],
)
def test_d9_identity_gain_on_uniform_answers(n: int, epsilon: str, wanted: float) -> None:
    price = LN2 if epsilon == "ln2" else Fraction(epsilon)
    a = math.exp(-price)
    assert ((n - 1) * (1 - a) + 2) / ((n + 1) * (1 + a)) == pytest.approx(wanted, abs=5e-7)
    noise = DiscreteLaplace(scale=1 / price)
    assert of_noise(noise, [1 / (n + 1)] * (n + 1)).utility == pytest.approx(wanted, abs=5e-7)
    if n == 10:
        table, belief = stairs(price, n + 1), uniform(range(n + 1))
        assert float(utility(table, belief, identity(range(n + 1)))) == pytest.approx(wanted, abs=5e-7)
        assert bayes_risk(table, belief) == 1 - utility(table, belief, identity(range(n + 1)))


@pytest.mark.parametrize(("epsilon", "wanted"), [("ln2", 8.908973), ("1", 9.271456), ("0.1", 6.379140)])
def test_d11_distance_gain_without_a_remap(epsilon: str, wanted: float) -> None:
    price = LN2 if epsilon == "ln2" else Fraction(epsilon)
    gain = nearness(range(11), most=10)
    assert float(expected(stairs(price, 11), uniform(range(11)), gain)) == pytest.approx(wanted, abs=5e-7)
    assert utility(stairs(price, 11), uniform(range(11)), gain) >= Fraction(wanted) - Fraction(1, 10**6)


@pytest.mark.parametrize(("epsilon", "wanted"), [("ln2", 1 / 6), ("1", 0.213730)])
def test_d13_a_worse_mechanism_at_the_same_epsilon(epsilon: str, wanted: float) -> None:
    price = LN2 if epsilon == "ln2" else Fraction(epsilon)
    belief, gain = uniform(range(11)), identity(range(11))
    worse = utility(responses(price, 11), belief, gain)
    assert float(worse) == pytest.approx(wanted, abs=5e-7)
    assert worse < utility(stairs(price, 11), belief, gain)


def test_d14_post_processing_can_lower_the_utility_and_never_raises_it() -> None:
    table, belief, gain = stairs(LN2, 5), uniform(range(5)), identity(range(5))
    constant: Table[int, int] = Table.of(range(5), lambda _: {2: 1})
    assert utility(table.then(constant), belief, gain) == Fraction(1, 5) == vulnerability(belief, gain)
    rng = random.Random(3)
    for _ in range(30):
        rows = [[rng.randint(0, 5) + (i == j) for j in range(4)] for i in range(5)]
        post: Table[int, int] = Table(rows=tuple(tuple(Fraction(p, sum(row)) for p in row) for row in rows))
        assert utility(table.then(post), belief, gain) <= utility(table, belief, gain)


def test_d15_d16_a_distance_gain_is_a_constant_less_the_expected_distance_over_databases() -> None:
    databases = uniform(list(itertools.product((0, 1), repeat=4)))
    query = {each: sum(each) for each in databases.outcomes}
    table = stairs(Fraction(1), 5)
    answers = of_answers(databases, query)
    assert answers.masses == tuple(Fraction(math.comb(4, k), 16) for k in range(5))
    lost = expected(table, answers, nearness(range(5)))
    assert expected(table, answers, nearness(range(5), most=4)) == 4 + lost
    whole = table.after(query)
    assert utility(whole, databases, nearness(range(5)).about(query)) == utility(
        table, answers, nearness(range(5))
    )
    assert whole.looks_only_at(query)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAINS)
@pytest.mark.parametrize("n", [5, 10])
def test_d17_on_a_path_the_closed_form_is_what_the_program_finds(n: int, name: str) -> None:
    gain = GAINS[name](n)
    for epsilon in (LN2, Fraction(1, 2)):
        for belief in beliefs(n):
            closed = optimal(belief, gain, epsilon=epsilon, neighbours=path(range(n)))
            solved = optimal(belief, gain, epsilon=epsilon, neighbours=path(range(n)), program=True)
            assert (closed.how, solved.how) == ("closed form", "linear program")
            assert closed.utility == pytest.approx(solved.bound, abs=1e-8 * max(1, abs(closed.utility)))
            assert solved.utility <= solved.bound
            assert solved.utility == pytest.approx(solved.bound, abs=1e-3 * n * n)


def test_on_a_path_the_closed_form_is_taken_at_every_epsilon() -> None:
    five, gain = uniform(range(5)), identity(range(5))
    for hundredths in range(1, 301):
        epsilon = Fraction(hundredths, 100)
        best = optimal(five, gain, epsilon=epsilon, neighbours=path(range(5)))
        a = math.exp(-hundredths / 100)
        assert best.how == "closed form"
        assert epsilon * (1 - Fraction(1, 10**15)) <= best.epsilon <= epsilon
        assert best.utility == pytest.approx((3 * (1 - a) + 2) / (5 * (1 + a)), abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "epsilon"), [(201, "1"), (201, "3"), (128, "0.1"), (2, "2000")])
def test_long_paths_have_a_closed_form_too(size: int, epsilon: str) -> None:
    asked = Fraction(epsilon)
    best = optimal(uniform(range(size)), identity(range(size)), epsilon=asked, neighbours=path(range(size)))
    a = math.exp(-float(asked))
    assert best.how == "closed form"
    assert best.epsilon <= asked
    assert best.utility == pytest.approx(((size - 2) * (1 - a) + 2) / (size * (1 + a)), abs=1e-13)
    assert best.table.worst(path(range(size))).epsilon == best.epsilon


@pytest.mark.slow
def test_more_answers_than_a_program_takes_have_a_closed_form() -> None:
    counts = range(402)
    best = optimal(uniform(counts), identity(counts), epsilon=Fraction("0.3"), neighbours=path(counts))
    assert best.how == "closed form"
    assert best.epsilon <= Fraction("0.3")


def test_d17_a_gain_that_does_not_fall_with_distance_has_something_better() -> None:
    parity: Gain[int, int] = Gain(tuple(range(6)), lambda w, x: int((w - x) % 2 == 0))
    best = optimal(uniform(range(6)), parity, epsilon=LN2, neighbours=path(range(6)))
    assert best.how == "linear program"
    assert best.bound == pytest.approx(2 / 3, abs=1e-9)
    assert best.utility == pytest.approx(2 / 3, abs=1e-4)
    assert float(utility(stairs(LN2, 6), uniform(range(6)), parity)) == pytest.approx(0.604167, abs=5e-7)


def test_d18_where_answers_form_no_path_nothing_is_the_best_for_everybody() -> None:
    ring = [(0, 1), (1, 2), (0, 2)]
    found = universal(range(3), ring, epsilon=Fraction(1))
    assert not found
    assert found.gains[0] == pytest.approx((0.576117, 0.682088), abs=1e-5)
    assert found.gains[1][1] == pytest.approx(0.731059, abs=1e-5)
    assert found.gains[1][0] < found.gains[0][0] - 0.05
    halves = stairs(Fraction(1, 2), 3)
    assert float(utility(halves, uniform(range(3)), identity(range(3)))) == pytest.approx(0.49661, abs=5e-6)
    assert halves.worst(ring).epsilon is not None


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
@pytest.mark.parametrize(
    ("size", "edges"),
    [
        (3, [(0, 1), (1, 2), (0, 2)]),
        (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
        (5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
        (4, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
    ],
)
def test_a_counterexample_is_one_or_none_is_claimed(
    size: int, edges: list[tuple[int, int]], epsilon: Fraction
) -> None:
    found = universal(range(size), edges, epsilon=epsilon)
    assert not found
    assert "in the chance to be right, together they would miss" in found.why


STAR = [(0, 1), (0, 2), (0, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "2", "4"])
@pytest.mark.parametrize("edges", [STAR, [*STAR, (0, 4)], [*STAR, (3, 4)], [*STAR, (1, 4), (2, 5), (3, 6)]])
def test_trees_that_are_no_paths_have_a_counterexample(edges: list[tuple[int, int]], epsilon: str) -> None:
    found = universal(range(len(edges) + 1), edges, epsilon=Fraction(epsilon))
    assert "in the mean distance, together they would miss" in found.why
    (first, lost), (missed, second) = found.gains
    assert first >= missed  # what is the best for one of the beliefs
    assert second >= lost


def test_what_is_too_large_to_be_tried_is_not_claimed() -> None:
    wide = [(0, i) for i in range(1, 10)]
    assert "no two needed different ones" in universal(range(10), wide).why


def test_secrets_that_are_hardly_apart_are_not_forgotten() -> None:
    def far(a: str, b: str) -> Fraction:
        return Fraction(0) if a == b or {a, b} == {"x", "y"} else Fraction(1)

    best = optimal(uniform("xyz"), identity("xyz"), epsilon=Fraction(1), metric=far)
    assert best.bound == pytest.approx(best.utility, abs=1e-4)
    assert best.table.law("x") == best.table.law("y")
    nothing = optimal(uniform(range(3)), identity(range(3)), epsilon=Fraction(1), metric=lambda _a, _b: 0)
    assert nothing.bound == pytest.approx(1 / 3, abs=1e-9)

    def nearly(a: int, b: int) -> Fraction:
        return {0: Fraction(0), 1: Fraction(1), 2: 2 - Fraction(1, 10**13)}[abs(a - b)]

    assert optimal(uniform(range(3)), identity(range(3)), epsilon=Fraction(1), metric=nearly).epsilon <= 1


@pytest.mark.parametrize("size", [Fraction(1, 10**12), Fraction(10**300)])
def test_the_size_of_a_gain_does_not_matter(size: Fraction) -> None:
    gain: Gain[int, int] = Gain((0, 1, 2), lambda w, x: size * (w == x))
    best = optimal(uniform(range(3)), gain, epsilon=Fraction(1))
    assert best.bound == pytest.approx(0.576117 * float(size), rel=1e-4)
    assert best.utility == pytest.approx(best.bound, rel=1e-4)


def test_extremes_are_refused_by_name_and_at_once() -> None:
    three, gain = uniform(range(3)), identity(range(3))
    many = uniform(range(1002))
    huge: Gain[int, int] = Gain((0, 1, 2), lambda w, x: 10**400 * (w == x))
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: optimal(three, gain, epsilon=Fraction(700)), "times the widest distance"),
        (lambda: optimal(three, gain, epsilon=Fraction(9999), neighbours=path(range(3))), "times the widest"),
        (
            lambda: optimal(three, gain, epsilon=Fraction(1), metric=lambda a, b: 10**6 * abs(a - b)),
            "give less",
        ),
        (
            lambda: optimal(three, gain, epsilon=Fraction(1), metric=lambda a, b: 10**400 * abs(a - b)),
            "10\\^300",
        ),
        (lambda: optimal(three, huge, epsilon=Fraction(1)), "measure it in larger units"),
        (
            lambda: optimal(
                many, identity(range(1002)), epsilon=Fraction(1, 10), neighbours=path(range(1002))
            ),
            "1,002 secrets cannot be used: a table is made for up to 1,001; group them",
        ),
    ]
    for call, told in calls:
        with pytest.raises(InvalidParameter, match=told):
            call()
    assert most_leaked(epsilon=Fraction(1), size=1, diameter=0) == 1


def test_a_table_refines_itself_however_small_its_entries() -> None:
    many, small = 50, Fraction(9, 10**10)
    rows = ((1 - many * small, *[small] * many), (1 - many * small / 2, *[small / 2] * many))
    table: Table[int, int] = Table(rows=rows)
    assert refined(table, table).holds


def test_small_things_that_were_wrong_once() -> None:
    certain: Table[int, int] = Table(rows=((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))
    assert mutual_information(certain, prior({0: 1, 1: 0})) == 0
    constant: Table[int, int] = Table(rows=((Fraction(1),), (Fraction(1),)))
    assert leakage(constant, uniform(range(2)), nearness(range(2))).bits == 0
    assert of_noise(DiscreteLaplace(scale=Fraction(10**17)), [1.0]).utility == 1
    far = guess(DiscreteLaplace(scale=Fraction(2)), 10**17, weighted({0: 1, 1: 1}), identity(range(2)))
    assert far.after[1] == pytest.approx(0.6225, abs=1e-4)
    unlikely = weighted({0: 1, 1: 10**400})
    assert guess(DiscreteLaplace(scale=Fraction(2)), 3, unlikely, nearness(range(2))).value == 1


def test_the_bound_of_a_program_is_proved_whatever_the_multipliers() -> None:
    dice = np.random.default_rng(8)
    for _ in range(50):
        program = Program(dice.random(6))
        program.row(list(range(6)), [1.0] * 6, low=1, high=1)
        for _ in range(5):
            i, j = dice.choice(6, 2, replace=False).tolist()
            program.row([i, j], [float(dice.random()), -1.0], low=-math.inf, high=0)
            program.row([i, j], [1.0, -float(dice.random())], low=0, high=math.inf)
        solved = program.solve("epsilon")
        assert solved.value - 1e-12 <= solved.bound <= solved.value + 1e-9
        wrong = program._bound(dice.normal(size=len(program.lows)))
        assert wrong >= solved.value - 1e-12
    with pytest.raises(InvalidParameter, match="the solver did not finish:"):
        Program(np.ones(1)).solve("epsilon")


def test_a_gain_that_leans_to_one_side_is_left_to_the_program() -> None:
    leaning: Gain[int, int] = Gain(tuple(range(5)), lambda w, x: -(w - x) if w >= x else -3 * (x - w))
    best = optimal(uniform(range(5)), leaning, epsilon=Fraction(1), neighbours=path(range(5)))
    assert best.how == "linear program"


def test_sums_form_a_path_only_under_a_metric_of_their_own() -> None:
    people = list(itertools.product((0, 1, 2), repeat=2))
    pairs = [(a, b) for a, b in itertools.combinations(people, 2) if (a[0] != b[0]) + (a[1] != b[1]) == 1]
    total = {each: sum(each) for each in people}
    assert not universal(range(5), induced(total, pairs))
    belief, gain = uniform(range(5)), identity(range(5))
    by_metric = optimal(belief, gain, epsilon=Fraction(1), metric=lambda x, y: abs(x - y))
    assert (
        by_metric.how == "closed form"
    )  # normalised Manhattan: a step of the sum is a step of somebody's value
    counted = {each: sum(x > 0 for x in each) for each in people}
    assert universal(range(3), induced(counted, pairs))


# What is returned is private ------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(data=some.data())
def test_nothing_is_returned_above_the_epsilon_that_was_asked_for(data: some.DataObject) -> None:
    size = data.draw(some.integers(2, 6))
    weights = data.draw(some.lists(some.integers(0, 9), min_size=size, max_size=size).filter(any))
    rows = data.draw(
        some.lists(some.lists(some.integers(-9, 9), min_size=size, max_size=size), min_size=1, max_size=5)
    )
    epsilon = data.draw(some.sampled_from([Fraction(1, 100), Fraction(1, 3), Fraction(2), Fraction(20)]))
    ends = some.integers(0, size - 1)
    edges = [*path(range(size)), *data.draw(some.lists(some.tuples(ends, ends), max_size=4))]
    gain = Gain.matrix(rows, guesses=range(len(rows)), secrets=range(size))
    belief = weighted(dict(enumerate(weights)))
    best: Optimal[int, Hashable] = optimal(belief, gain, epsilon=epsilon, neighbours=edges)
    worst = best.table.worst([edge for edge in edges if edge[0] != edge[1]])
    assert worst.epsilon is not None
    assert worst.epsilon <= epsilon
    assert best.epsilon <= epsilon
    scale = 1 + max(abs(each) for row in rows for each in row)
    assert best.utility <= best.bound + 1e-7 * scale
    assert best.utility >= float(vulnerability(belief, gain)) - 1e-9 * scale


def test_a_solvers_own_table_would_not_be_private() -> None:
    """The reason for all the care: tiny entries of a solution are off by any factor."""
    far = optimal(weighted({0: 1, 1: 10**9, 2: 1}), identity(range(3)), epsilon=Fraction(2))
    assert far.epsilon <= 2
    assert all(entry > 0 for row in far.table.rows for entry in row)


def test_under_a_metric_every_pair_keeps_to_its_distance() -> None:
    places = [(0, 0), (0, 3), (4, 0), (4, 3)]
    far = {(a, b): Fraction(math.hypot(a[0] - b[0], a[1] - b[1])) for a in places for b in places}
    best = optimal(uniform(places), identity(places), epsilon=Fraction(1, 4), metric=lambda a, b: far[a, b])
    found = best.table.worst_under(lambda a, b: far[a, b]).epsilon
    assert found is not None
    assert found <= Fraction(1, 4)


# Noise on many answers ------------------------------------------------------------


@pytest.mark.parametrize("gain", ["identity", "nearness"])
@pytest.mark.parametrize("ratio", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
def test_noise_without_its_matrix_has_the_utility_of_the_table(
    gain: Literal["identity", "nearness"], ratio: Fraction
) -> None:
    rng = random.Random(7)
    for size in (1, 2, 7, 16):
        belief = weighted({i: rng.randint(0, 9) + (i == 0) for i in range(size)})
        exact = identity(range(size)) if gain == "identity" else nearness(range(size), most=size)
        wanted = float(utility(Table.geometric(ratio=ratio, size=size), belief, exact))
        noise = DiscreteLaplace(scale=Fraction(-1 / math.log(ratio)))
        chances = [float(mass) for mass in belief.masses]
        assert of_noise(noise, chances, gain, size).utility == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("gain", ["identity", "nearness"])
def test_other_noise_is_summed_over_its_outputs(gain: Literal["identity", "nearness"]) -> None:
    law = DiscreteGaussian(sigma_squared=Fraction(3))
    chances = [0.1, 0.5, 0.0, 0.3, 0.1]
    outputs = range(-40, 45)
    masses = {y: law.probability(y) for y in range(-50, 51)}
    wanted = 0.0
    for y in outputs:
        posterior = [chances[x] * masses[y - x] for x in range(5)]
        if gain == "identity":
            wanted += max(posterior)
        else:
            wanted += max(-sum(p * abs(w - x) for x, p in enumerate(posterior)) for w in range(5))
    assert of_noise(law, chances, gain).utility == pytest.approx(wanted, abs=1e-9)


def test_a_hundred_thousand_answers_take_no_matrix() -> None:
    belief = [1 / 100_001] * 100_001
    read = of_noise(DiscreteLaplace(scale=Fraction(1000)), belief, "nearness")
    assert read.utility == pytest.approx(-993, abs=10)  # the mean size of the noise, but for the ends
    assert read.remap[50_000] == 50_000


# Leakage ------------------------------------------------------------


def test_capacities_bound_every_leakage() -> None:
    rng = random.Random(5)
    table = stairs(Fraction(1), 4)
    for _ in range(40):
        belief = weighted({x: rng.randint(0, 9) + (x == 0) for x in range(4)})
        rows = [[rng.randint(0, 9) for _ in range(4)] for _ in range(3)]
        gain = Gain.matrix(rows, guesses=range(3), secrets=range(4))
        told = leakage(table, belief, gain)
        assert told.additive >= 0
        assert told.multiplicative is None or told.multiplicative <= min_capacity(table)
        assert mutual_information(table, belief) <= capacity(table).high + 1e-12
    assert leakage(table, uniform(range(4)), identity(range(4))).multiplicative == min_capacity(table)


def test_epsilon_bounds_the_capacity_and_randomized_response_attains_it() -> None:
    for size in (2, 5, 9):
        for epsilon in (Fraction(1, 10), Fraction(2)):
            most = most_leaked(epsilon=epsilon, size=size)
            assert float(min_capacity(responses(epsilon, size))) == pytest.approx(float(most), rel=1e-12)
            assert min_capacity(stairs(epsilon / (size - 1), size)) <= most
            assert min_capacity(stairs(epsilon, size)) <= most_leaked(
                epsilon=epsilon, size=size, diameter=size - 1
            )


def test_the_capacity_of_a_binary_channel_is_the_known_one() -> None:
    for keep in (Fraction(3, 4), Fraction(9, 10), Fraction(1)):
        channel: Table[int, int] = Table(rows=((keep, 1 - keep), (1 - keep, keep)))
        p = float(keep)
        entropy = 0.0 if p == 1 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)
        found = capacity(channel, within=1e-9)
        assert found.low - 1e-12 <= 1 - entropy <= found.high + 1e-12


def test_what_is_refined_leaks_no_more() -> None:
    fine, coarse = stairs(Fraction(2), 5), stairs(Fraction(1), 5)
    found = refined(fine, coarse)
    assert found.holds
    assert found.off < Fraction(1, 10**9)
    back = refined(coarse, fine)
    assert not back.holds
    assert back.off > Fraction(1, 100)
    assert refined(fine, fine.then(responses(Fraction(1), 5))).holds
    two: Table[int, int] = Table(rows=((Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 3), Fraction(2, 3))))
    with pytest.raises(InvalidParameter, match="the same secrets"):
        refined(two, fine)


# Bad input ------------------------------------------------------------


def test_bad_input_is_named_with_the_fix() -> None:
    three, three_ways = uniform(range(3)), identity(range(3))
    for call, told in (
        (lambda: prior({0: Fraction(1, 2), 1: Fraction(1, 3)}), r"sum 5/6 .* add up to exactly 1"),
        (lambda: prior({0: Fraction(3, 2), 1: Fraction(-1, 2)}), "at least 0"),
        (lambda: prior({0: 0.5, 1: 0.5}), 'write it exactly, such as Fraction\\("0.5"\\)'),  # type: ignore[dict-item]
        (lambda: weighted({0: 0}), "weight above 0"),
        (lambda: uniform([]), "at least one"),
        (lambda: Gain.matrix([[1, 2]], guesses=[0], secrets=[0, 1, 2]), "of 3 numbers"),
        (lambda: Gain((), lambda _w, _x: 0), "at least one guess"),
        (lambda: utility(stairs(LN2, 2), three, identity(range(3))), "2 has no row"),
        (lambda: expected(stairs(LN2, 3), three, identity(range(3)), {0: 0}), "every output"),
        (
            lambda: optimal(three, three_ways, epsilon=LN2, neighbours=[(0, 1)]),
            "nothing connects 0 and 2",
        ),
        (
            lambda: optimal(three, three_ways, epsilon=LN2, neighbours=[(0, 7)]),
            "secrets of the prior",
        ),
        (lambda: optimal(three, three_ways, epsilon=Fraction(0)), "above 0"),
        (
            lambda: optimal(three, three_ways, epsilon=LN2, metric=lambda x, y: x - y),
            "same both ways",
        ),
        (lambda: optimal(uniform(range(500)), identity(range(500)), epsilon=LN2), "group them"),
        (lambda: of_noise(DiscreteLaplace(scale=Fraction(1)), [0.5, 0.4]), "add up to 1"),
        (lambda: capacity(stairs(LN2, 2), within=0), "such as 1e-6"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            call()


def test_the_best_remap_follows_the_belief() -> None:
    table, gain = stairs(LN2, 5), identity(range(5))
    assert best_remap(table, uniform(range(5)), gain) == {y: y for y in range(5)}
    sure = weighted({0: 100, 1: 1, 2: 1, 3: 1, 4: 1})
    assert set(best_remap(table, sure, gain).values()) == {0}
