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
from sfumato.mechanisms import Distance, Modes, Quantiles
from sfumato.mechanisms.quantiles import Choices, Target, split

RANKS = some.fractions(0, 1, max_denominator=7)
SCALES = some.fractions(Fraction(1, 4), 8, max_denominator=9)
OFFSETS = some.one_of(some.just(Fraction(0)), some.fractions(-9, 9, max_denominator=5))
TARGETS = some.lists(some.tuples(RANKS, OFFSETS, SCALES), min_size=1, max_size=2)
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


def outcomes(law: Choices) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(each.costs)) for each in law.laws)))


def check_ratios(here: Choices, there: Choices, epsilon: Fraction) -> Fraction:
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
@given(pair=neighbours(), targets=TARGETS, scale=SCALES, order=some.sampled_from([1.01, 2.0, 7.5, 60.0]))
@pytest.mark.slow
def test_no_renyi_divergence_passes_order_times_rho(
    pair: tuple[int, tuple[int, ...], tuple[int, ...]], targets: list[Target], scale: Fraction, order: float
) -> None:
    """In floats, with a millionth of room."""
    cells, one, other = pair
    for mechanism in (Quantiles(cells=cells, targets=tuple(targets)), Modes(cells=cells, scale=scale)):
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
        (Modes(cells=3, scale=Fraction(1)).law((1, 0, 2)), 10**5),
        (Modes(cells=2, scale=Fraction(2)).law((1, 0, 0, 1)), 10**5),
    ],
)
def test_quantiles_and_modes_draw_their_own_law(law: Choices, floor: int) -> None:
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
    for cells, scale in ((0, half), (3, Fraction(0)), (3, Fraction(-1))):
        with pytest.raises(InvalidParameter):
            Modes(cells=cells, scale=scale)
    with pytest.raises(InvalidParameter, match="give 3 for every group"):
        split((1, 2, 3, 4), 3)
