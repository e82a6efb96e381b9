"""Quantiles and modes of many groups: what neighbours can tell is what is claimed, on every outcome."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.exact.coins import Tape, walk
from sfumato.mechanisms import Distance, Modes, QuantileIntervals, Quantiles
from sfumato.mechanisms.quantiles import Aim, Bracketed, Choices, Target, most_pairs, split

RANKS = some.fractions(0, 1, max_denominator=7)
SCALES = some.fractions(Fraction(1, 4), 8, max_denominator=9)
OFFSETS = some.one_of(some.just(Fraction(0)), some.fractions(-9, 9, max_denominator=5))
TARGETS = some.lists(some.tuples(RANKS, OFFSETS, SCALES), min_size=1, max_size=2)
LEAST = some.tuples(some.sampled_from([Fraction(0), Fraction(1)]), OFFSETS, SCALES, SCALES)
INNER = some.tuples(RANKS, OFFSETS, SCALES, SCALES, OFFSETS, SCALES)
AIMS = some.one_of(LEAST, INNER)
SIZES = some.tuples(some.integers(1, 4), some.integers(1, 2))  # cells, groups


@some.composite
def neighbours(draw: some.DrawFn) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The number of cells, and two histograms: also with large weights, which one person cannot reach."""
    cells, groups = draw(SIZES)
    large = draw(some.sampled_from([3, 40, 10**6]))
    one = draw(some.lists(some.integers(0, large), min_size=cells * groups, max_size=cells * groups))
    moves = draw(some.lists(some.integers(-3, 3), min_size=len(one), max_size=len(one)))
    return cells, tuple(one), tuple(max(0, n + move) for n, move in zip(one, moves, strict=True))


def distance(one: tuple[int, ...], other: tuple[int, ...]) -> Fraction:
    return Fraction(sum(abs(a - b) for a, b in zip(one, other, strict=True)))


WALKED: Aim = (Fraction(1, 2), Fraction(0), Fraction(2), Fraction(2), Fraction(1), Fraction(4))
WALKED_LEAST: Aim = (Fraction(0), Fraction(1), Fraction(1), Fraction(3))


def outcomes(law: Choices | Bracketed) -> list[tuple[int, ...]]:
    if isinstance(law, Choices):
        return list(itertools.product(*(range(len(each.costs)) for each in law.laws)))
    each_: list[list[tuple[int, ...]]] = []
    for bracket in law.brackets:
        found: list[tuple[int, ...]] = []
        for value in range(len(bracket.value.costs)):
            lows, highs = (each.tolist() for each in bracket.ends(value))
            found += [(value, low, high) for low in lows for high in highs]
        each_.append(found)
    return [tuple(itertools.chain(*parts)) for parts in itertools.product(*each_)]


def check_ratios(here: Choices | Bracketed, there: Choices | Bracketed, epsilon: Fraction) -> Fraction:
    """No outcome's log ratio passes epsilon; returns the largest, from below."""
    largest = Fraction(0)
    for y in outcomes(here):
        gap = here.log_mass(y) - there.log_mass(y)
        assert gap.low <= epsilon
        assert -gap.high <= epsilon
        assert gap.high - gap.low < Fraction(1, 1 << 40)
        largest = max(largest, gap.low, -gap.high)
    return largest


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(pair=neighbours(), targets=TARGETS)
def test_no_outcome_of_quantiles_tells_neighbours_apart_by_more_than_epsilon(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]], targets: list[Target]
) -> None:
    cells, one, other = pair
    mechanism = Quantiles(cells=cells, targets=tuple(targets))
    bound = mechanism.bound(Distance(l1=distance(one, other)))
    assert bound.epsilon is not None
    check_ratios(mechanism.law(one), mechanism.law(other), bound.epsilon)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(pair=neighbours(), aim=AIMS)
def test_no_outcome_of_an_interval_tells_neighbours_apart_by_more_than_epsilon(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]], aim: Aim
) -> None:
    cells, one, other = pair
    mechanism = QuantileIntervals(cells=cells, targets=(aim,))
    bound = mechanism.bound(Distance(l1=distance(one, other)))
    assert bound.epsilon is not None
    check_ratios(mechanism.law(one), mechanism.law(other), bound.epsilon)


@settings(max_examples=300, deadline=None)
@given(pair=neighbours(), aim=AIMS)
def test_costs_of_an_interval_move_within_a_range_of_epsilon(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]], aim: Aim
) -> None:
    """What the proof says of each draw by itself, in fractions: also where an outcome is too rare to see."""
    cells, one, other = pair
    mechanism = QuantileIntervals(cells=cells, targets=(aim,))
    here, there = (mechanism.law(each).brackets for each in (one, other))
    moved = [0] * len(here)
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        moved[i // cells] += abs(a - b)
    rank, _, below, above, *ends = aim
    most = max(rank, 1 - rank)
    value = max(1 / below, 1 / above, most * (1 / below + 1 / above))
    for x, y, far in zip(here, there, moved, strict=True):
        pairs = [(x.pairs(v), y.pairs(v), 2 * most / ends[1] if ends else Fraction(0)) for v in range(cells)]
        for law, its, price in [(x.value, y.value, value), *pairs]:
            changes = [its.costs.cost(j) - law.costs.cost(j) for j in range(len(law.costs))]
            assert max(changes) - min(changes) <= price * far


@settings(max_examples=150, deadline=None)
@given(pair=neighbours(), scale=SCALES)
def test_no_outcome_of_modes_tells_neighbours_apart_by_more_than_epsilon(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]], scale: Fraction
) -> None:
    cells, one, other = pair
    mechanism = Modes(cells=cells, scale=scale)
    bound = mechanism.bound(Distance(l1=distance(one, other)))
    assert bound.epsilon is not None
    check_ratios(mechanism.law(one), mechanism.law(other), bound.epsilon)


@settings(max_examples=60, deadline=None)
@given(
    pair=neighbours(),
    targets=TARGETS,
    aim=AIMS,
    scale=SCALES,
    order=some.sampled_from([1.01, 2.0, 7.5, 60.0]),
)
@pytest.mark.slow
def test_no_renyi_divergence_passes_order_times_rho(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]],
    targets: list[Target],
    aim: Aim,
    scale: Fraction,
    order: float,
) -> None:
    """In floats, with a millionth of room."""
    cells, one, other = pair
    for mechanism in (
        Quantiles(cells=cells, targets=tuple(targets)),
        QuantileIntervals(cells=cells, targets=(aim,)),
        Modes(cells=cells, scale=scale),
    ):
        rho = mechanism.bound(Distance(l1=distance(one, other))).rho
        assert rho is not None
        here, there = mechanism.law(one), mechanism.law(other)
        logs = [(float(here.log_mass(y).low), float(there.log_mass(y).low)) for y in outcomes(here)]
        powers = [order * p + (1 - order) * q for p, q in logs]
        most = max(powers)
        divergence = (most + math.log(sum(math.exp(x - most) for x in powers))) / (order - 1)
        assert divergence <= order * float(rho) + 1e-6


@pytest.mark.parametrize("rank", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(1)])
def test_some_neighbours_attain_the_claim_of_a_quantile(rank: Fraction) -> None:
    """Many empty cells, which one more row brings nearer, against a far one that it takes away.

    The aim lies before the empty cells by as much as one more row behind them moves it; for ranks below a
    half everything is mirrored.
    """
    high = max(rank, 1 - rank)
    empty = [0] * 3000
    one, other = [60, 60, *empty, 60], [60, 60, *empty, 61]
    offset = Fraction(120) - high - high * 180
    if rank < Fraction(1, 2):
        one, other, offset = one[::-1], other[::-1], -offset
    mechanism = Quantiles(cells=len(one), targets=((rank, offset, Fraction(40)),))
    bound = mechanism.bound(Distance(l1=Fraction(1))).epsilon
    assert bound == high / 20
    here, there = mechanism.law(tuple(one)), mechanism.law(tuple(other))
    gaps = [here.log_mass((j,)) - there.log_mass((j,)) for j in (0, len(one) - 1)]
    assert max(abs(gap.low) for gap in gaps) >= bound * Fraction(98, 100)
    assert all(max(gap.low, -gap.high) <= bound for gap in gaps)


def test_some_neighbours_attain_the_claim_of_a_least_value() -> None:
    """Its two scales add up: one more row far below brings what is below nearer, and takes the rest away."""
    empty = [0] * 2000
    one, other = (8, 3, *empty), (9, 3, *empty)
    aim = (Fraction(0), Fraction(11), Fraction(10), Fraction(30))
    mechanism = QuantileIntervals(cells=len(one), targets=(aim,))
    bound = mechanism.bound(Distance(l1=Fraction(1))).epsilon
    assert bound == Fraction(4, 30)
    gap = mechanism.law(other).log_mass((0, 0, 0)) - mechanism.law(one).log_mass((0, 0, 0))
    assert bound * Fraction(99, 100) <= gap.low <= bound


def test_some_neighbours_attain_the_claim_of_an_interval() -> None:
    """Most pairs are too near above; one more row below brings them nearer, and what is too near below, off.

    The value itself costs next to nothing.
    """
    half, scale, wide = Fraction(1, 2), Fraction(2), Fraction(10**9)
    one = (40, *[0] * 511, 30, *[0] * 511, 20)
    other = (41, *one[1:])
    aim = (half, Fraction(0), wide, wide, Fraction(25) + half, scale)  # above lie 70 - 45 rows
    mechanism = QuantileIntervals(cells=len(one), targets=(aim,))
    bound = mechanism.bound(Distance(l1=Fraction(1))).epsilon
    assert bound is not None
    outcome = (512, 512, len(one) - 1)
    gap = mechanism.law(one).log_mass(outcome) - mechanism.law(other).log_mass(outcome)
    assert bound * Fraction(90, 100) <= abs(gap.low) <= bound


def test_some_neighbours_attain_the_claim_of_a_mode() -> None:
    modes = Modes(cells=2, scale=Fraction(2))
    bound = modes.bound(Distance(l1=Fraction(1))).epsilon
    assert bound == Fraction(1, 2)
    assert check_ratios(modes.law((0, 40)), modes.law((1, 40)), bound) >= bound * Fraction(99, 100)


@settings(max_examples=100, deadline=None)
@given(
    group=some.lists(some.integers(0, 30), min_size=1, max_size=8),
    rank=RANKS,
    scale=SCALES,
    tail=some.sampled_from([Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)]),
)
def test_a_chosen_cell_lies_within_the_radius_of_its_rank(
    group: list[int], rank: Fraction, scale: Fraction, tail: Fraction
) -> None:
    """The mass of all cells farther than the radius, rounded up, is at most the tail."""
    mechanism = Quantiles(cells=len(group), targets=((rank, Fraction(0), scale),))
    ends = [0, *itertools.accumulate(group)]
    wanted, radius = rank * ends[-1], mechanism.radius(0, tail)
    (law,) = mechanism.law(tuple(group)).laws
    missed = Fraction(0)
    for j in range(len(group)):
        far = max(Fraction(0), ends[j] - wanted, wanted - ends[j + 1])
        if far > radius:
            missed += numbers.exp(law.log_mass(j).high).high
    assert missed <= tail


@settings(max_examples=100, deadline=None)
@given(
    group=some.lists(some.integers(0, 9), min_size=1, max_size=6), rank=RANKS, offset=OFFSETS, scale=SCALES
)
def test_the_law_of_a_quantile_is_what_its_words_say(
    group: list[int], rank: Fraction, offset: Fraction, scale: Fraction
) -> None:
    """exp(-distance / scale), normalised: computed here anew, with fractions."""
    ends = [0, *itertools.accumulate(group)]
    wanted = rank * ends[-1] + offset
    below, above = [a - wanted for a in ends[:-1]], [wanted - b for b in ends[1:]]
    below[0] = above[-1] = Fraction(0)  # the outer cells hold every rank beyond them
    distances = [max(Fraction(0), *pair) for pair in zip(below, above, strict=True)]
    weights = [numbers.exp(-each / scale) for each in distances]
    total = sum(weights, start=numbers.ZERO)
    (law,) = Quantiles(cells=len(group), targets=((rank, offset, scale),)).law(tuple(group)).laws
    for j, weight in enumerate(weights):
        expected, found = weight / total, numbers.exp(law.log_mass(j).low)
        assert abs(found.low - expected.low) < Fraction(1, 1 << 60)


@settings(max_examples=60, deadline=None)
@given(group=some.lists(some.integers(0, 9), min_size=1, max_size=9), aim=INNER, data=some.data())
def test_the_law_of_an_interval_is_what_its_words_say(
    group: list[int], aim: Aim, data: some.DataObject
) -> None:
    """The cell, with a scale for each side; then the first ends that lie far enough beyond the rank."""
    rank, offset, lower, upper, margin, scale = aim
    last, ends = len(group) - 1, [0, *itertools.accumulate(group)]
    wanted = rank * ends[-1] + offset
    costs = []
    for j in range(len(group)):
        past = ends[j] - wanted if j else Fraction(0)
        short = wanted - ends[j + 1] if j < last else Fraction(0)
        costs.append(max(Fraction(0), past / upper, short / lower))
    (bracket,) = QuantileIntervals(cells=len(group), targets=(aim,)).law(tuple(group)).brackets
    least = min(costs)
    assert least == 0
    assert [bracket.value.costs.cost(j) for j in range(len(group))] == costs
    value = data.draw(some.integers(0, last))
    steps = (0, 1, 2, 3, 4, 6, 8)
    lows = [value - step for step in steps if value - step > 0] + [0]
    highs = [value + step for step in steps if value + step < last] + [last]
    assert [each.tolist() for each in bracket.ends(value)] == [lows, highs]
    beyond = (
        [rank * ends[-1] - ends[low] for low in lows],
        [ends[high + 1] - rank * ends[-1] for high in highs],
    )

    def miss(side: list[Fraction], k: int) -> Fraction:
        too_near = margin - side[k] if k < len(side) - 1 else Fraction(0)
        too_far = side[k - 1] - margin if k else Fraction(0)
        return max(Fraction(0), too_near, too_far)

    pairs = bracket.pairs(value)
    expected = [
        max(miss(beyond[0], k), miss(beyond[1], m)) / scale
        for k, m in itertools.product(range(len(lows)), range(len(highs)))
    ]
    assert min(expected) == 0
    assert [pairs.costs.cost(i) for i in range(len(pairs.costs))] == expected


@settings(max_examples=60, deadline=None)
@given(group=some.lists(some.integers(0, 9), min_size=1, max_size=6), scale=SCALES)
def test_the_law_of_a_mode_is_what_its_words_say(group: list[int], scale: Fraction) -> None:
    weights = [numbers.exp(Fraction(n) / scale) for n in group]
    total = sum(weights, start=numbers.ZERO)
    (law,) = Modes(cells=len(group), scale=scale).law(tuple(group)).laws
    for j, weight in enumerate(weights):
        expected, found = weight / total, numbers.exp(law.log_mass(j).low)
        assert abs(found.low - expected.low) < Fraction(1, 1 << 60)


@pytest.mark.parametrize(
    ("law", "floor"),
    [
        (Quantiles(cells=3, targets=((Fraction(1, 2), Fraction(0), Fraction(1)),)).law((1, 0, 2)), 10**5),
        (QuantileIntervals(cells=3, targets=(WALKED,)).law((1, 0, 2)), 10**6),
        (QuantileIntervals(cells=3, targets=(WALKED_LEAST,)).law((1, 0, 2)), 10**6),
        (Modes(cells=3, scale=Fraction(1)).law((1, 0, 2)), 10**5),
        (Modes(cells=2, scale=Fraction(2)).law((1, 0, 0, 1)), 10**5),
    ],
)
def test_quantiles_and_modes_draw_their_own_law(law: Choices | Bracketed, floor: int) -> None:
    """Every sequence of coins that weighs enough, with exact weights."""
    seen, undecided = walk(law.draw, Fraction(1, floor))
    assert undecided < Fraction(1, 4)
    for y in outcomes(law):
        mass = law.log_mass(y)
        low, high = numbers.exp(mass.low).low, numbers.exp(mass.high).high
        assert seen.get(y, Fraction(0)) <= high
        assert low <= seen.get(y, Fraction(0)) + undecided


def test_many_laws_that_are_drawn_at_once_are_drawn_from_their_own() -> None:
    """False alarms: once in 10^12 runs for each law. A law that is taken for its neighbour is found out."""
    groups = ((0, 5, 1, 0, 9, 2), (7, 0, 0, 1, 0, 3), (1, 9, 1, 1, 4, 6))
    targets = ((Fraction(1, 2), Fraction(0), Fraction(3)), (Fraction(1, 4), Fraction(1), Fraction(3, 2)))
    times = 4000
    law = Quantiles(cells=6, targets=targets).law(tuple(itertools.chain(*groups * times)))
    drawn = np.array(law.draw(Tape.seeded(3))).reshape(times, 6)
    chances = [[math.exp(float(each.log_mass(j).low)) for j in range(6)] for each in law.laws[:6]]

    def p_value(law_: int, column: int) -> float:
        seen = np.bincount(drawn[:, column], minlength=6)
        return float(stats.chisquare(seen, np.array(chances[law_]) / sum(chances[law_]) * times).pvalue)

    for i in range(6):
        assert p_value(i, i) > 1e-12
        assert p_value(i, (i + 1) % 6) < 1e-12


def test_many_intervals_that_are_drawn_at_once_are_drawn_from_their_own_law() -> None:
    """False alarms: once in 10^12 runs for each law. A law that is taken for its neighbour is found out."""
    groups = ((0, 5, 1, 0, 9), (7, 0, 0, 1, 3), (1, 9, 1, 4, 6))
    aims: tuple[Aim, ...] = (
        (Fraction(1, 2), Fraction(0), Fraction(3), Fraction(3), Fraction(4), Fraction(5, 2)),
        (Fraction(1), Fraction(-2), Fraction(3), Fraction(1)),
    )
    times = 4000
    law = QuantileIntervals(cells=5, targets=aims).law(tuple(itertools.chain(*groups * times)))
    drawn = np.array(law.draw(Tape.seeded(4))).reshape(times, 18)
    chances = [
        {y: Bracketed((each,)).probability(y) for y in outcomes(Bracketed((each,)))}
        for each in law.brackets[:6]
    ]

    def p_value(law_: int, column: int) -> float:
        names = list(chances[law_])
        seen = np.zeros(len(names))
        for y in map(tuple, drawn[:, 3 * column : 3 * column + 3].tolist()):
            if y not in chances[law_]:
                return 0.0
            seen[names.index(y)] += 1
        masses = np.array([chances[law_][y] for y in names])
        kept = masses * times >= 5
        seen = np.append(seen[kept], seen[~kept].sum() + 1e-9)
        masses = np.append(masses[kept], masses[~kept].sum() + 1e-12)
        return float(stats.chisquare(seen, masses / masses.sum() * seen.sum()).pvalue)

    for i in range(6):
        assert p_value(i, i) > 1e-12
        assert p_value(i, (i + 2) % 6) < 1e-12


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 17, 100, 1025])
def test_no_value_has_more_pairs_of_ends_than_are_allowed_for(cells: int) -> None:
    aim = (Fraction(1, 2), Fraction(0), *[Fraction(1)] * 4)
    (bracket,) = QuantileIntervals(cells=cells, targets=(aim,)).law((1,) * cells).brackets
    sizes = []
    for value in range(cells):
        lows, highs = (each.tolist() for each in bracket.ends(value))
        assert lows == sorted(set(lows), reverse=True)
        assert highs == sorted(set(highs))
        assert (lows[0], lows[-1], highs[0], highs[-1]) == (value, 0, value, cells - 1)
        sizes.append(len(lows) * len(highs))
    assert max(sizes) == most_pairs(cells)


def test_groups_are_chosen_one_by_one_and_targets_one_after_the_other() -> None:
    targets = tuple((rank, Fraction(0), Fraction(1, 1000)) for rank in (Fraction(1, 10), Fraction(9, 10)))
    law = Quantiles(cells=3, targets=targets).law((5, 5, 5, 0, 9, 0))
    assert law.draw(Tape.seeded(1)) == (0, 2, 1, 1)
    assert Modes(cells=3, scale=Fraction(1, 1000)).law((5, 6, 5, 9, 0, 0)).draw(Tape.seeded(1)) == (1, 0)
    assert Modes(cells=3, scale=Fraction(1)).law(()).draw(Tape([])) == ()


@pytest.mark.parametrize("huge", [2**61, 2**62, 2**63 - 1, 2**63, 2**70])
def test_weights_of_any_size_never_wrap(huge: int) -> None:
    law = Quantiles(cells=3, targets=((Fraction(1, 3), Fraction(1, 7), Fraction(2, 3)),)).law(
        (huge, huge, huge)
    )
    ends = [Fraction(huge * i) for i in range(4)]
    wanted = Fraction(huge) + Fraction(1, 7)
    below, above = [a - wanted for a in ends[:-1]], [wanted - b for b in ends[1:]]
    below[0] = above[-1] = Fraction(0)  # the outer cells hold every rank beyond them
    distances = [max(Fraction(0), *pair) for pair in zip(below, above, strict=True)]
    assert [law.laws[0].costs.cost(j) for j in range(3)] == [each / Fraction(2, 3) for each in distances]
    aim = (Fraction(1, 3), Fraction(1, 7), Fraction(2, 3), Fraction(1, 5), Fraction(3, 2), Fraction(1, 9))
    (bracket,) = QuantileIntervals(cells=3, targets=(aim,)).law((huge, huge, huge)).brackets
    aside = [Fraction(3, 14), Fraction(0), 5 * (huge - Fraction(1, 7))]
    assert [bracket.value.costs.cost(j) for j in range(3)] == aside
    near, far = Fraction(3, 2), huge - Fraction(3, 2)  # the rank itself is where the middle cell begins
    low, high = [near, Fraction(0)], [Fraction(0), far]
    expected = [9 * max(a, b) for a, b in itertools.product(low, high)]
    assert [bracket.pairs(1).costs.cost(i) for i in range(4)] == expected
    modes = Modes(cells=3, scale=Fraction(1, 5)).law((huge, 0, 1))
    assert [modes.laws[0].costs.cost(j) for j in range(3)] == [0, 5 * huge, 5 * (huge - 1)]


def test_one_epsilon_pays_for_all_groups_and_targets_add_up() -> None:
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    one = Quantiles(cells=3, targets=((half, Fraction(0), Fraction(8)),))
    found = one.bound(Distance(l0=6, l1=Fraction(4)))
    assert (found.epsilon, found.delta, found.rho) == (half, Fraction(0), half**2 / 8)
    two = Quantiles(cells=3, targets=((half, Fraction(0), Fraction(8)), (quarter, Fraction(5), Fraction(12))))
    found = two.bound(Distance(l1=Fraction(4)))
    assert (found.epsilon, found.rho) == (Fraction(1), (half**2 + half**2) / 8)
    middle: Aim = (quarter, Fraction(0), Fraction(12), Fraction(12), Fraction(5), Fraction(24))
    least: Aim = (Fraction(0), Fraction(3), Fraction(16), Fraction(48))
    drawn = QuantileIntervals(cells=3, targets=(middle, least)).bound(Distance(l1=Fraction(4)))
    prices = (half, quarter, Fraction(1, 3))
    assert (drawn.epsilon, drawn.rho) == (sum(prices), sum(price**2 for price in prices) / 8)
    modes = Modes(cells=3, scale=Fraction(8)).bound(Distance(l1=Fraction(4)))
    assert (modes.epsilon, modes.rho) == (half, half**2 / 8)
    for far in (Distance(), Distance(l0=3), Distance(linf=Fraction(1))):
        assert one.bound(far).epsilon is None
        assert Modes(cells=3, scale=Fraction(8)).bound(far).rho is None


def test_absurd_parameters_and_answers_are_refused() -> None:
    half = Fraction(1, 2)
    for cells, targets in (
        (0, ((half, Fraction(0), half),)),
        (3, ()),
        (3, ((Fraction(3, 2), Fraction(0), half),)),
        (3, ((Fraction(-1, 9), Fraction(0), half),)),
        (3, ((half, Fraction(0), Fraction(0)),)),
        (3, ((half, Fraction(0), Fraction(-1)),)),
    ):
        with pytest.raises(InvalidParameter):
            Quantiles(cells=cells, targets=targets)
    nought = Fraction(0)
    for cells, aims in (
        (0, ((half, nought, half, half, half, half),)),
        (3, ()),
        (3, ((half, nought, half, half),)),
        (3, ((nought, nought, half, half, half),)),
        (3, ((Fraction(3, 2), nought, half, half, half, half),)),
        (3, ((half, nought, nought, half, half, half),)),
        (3, ((half, nought, half, nought, half, half),)),
        (3, ((half, nought, half, half, half, nought),)),
    ):
        with pytest.raises(InvalidParameter):
            QuantileIntervals(cells=cells, targets=aims)
    law = QuantileIntervals(cells=3, targets=((half, nought, half, half, half, half),)).law((1, 2, 3))
    for y in ((1, 1), (1, 2, 1), (0, 1, 2), (3, 0, 2)):
        with pytest.raises(InvalidParameter):
            law.log_mass(y)
    for cells, scale in ((0, half), (3, Fraction(0)), (3, Fraction(-1))):
        with pytest.raises(InvalidParameter):
            Modes(cells=cells, scale=scale)
    with pytest.raises(InvalidParameter, match="give 3 for every group"):
        split((1, 2, 3, 4), 3)
