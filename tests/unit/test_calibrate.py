"""The price is split where it helps most, and never passed: in every currency."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sfumato.budget.accounting import filters
from sfumato.curator.calibrate import Uses, _split, calibrate
from sfumato.mechanisms import (
    Distance,
    Distances,
    Gaussian,
    Geometric,
    Guarantee,
    Modes,
    Partition,
    QuantileIntervals,
)
from sfumato.mechanisms.mechanism import bisected
from sfumato.queries.cells import Clamp
from sfumato.queries.expressions import Domain, Field
from sfumato.queries.measures import Kinds, Measure, Moments, Selected, Spread

AGE = Field("t0.age", Domain("integer", Fraction(0), Fraction(99)))
COUNT = Moments((), (), 0, False, None)
SPREAD = Spread(AGE, Clamp(Fraction(0), Fraction(99), 0), (Fraction(1, 4), Fraction(1, 2)), 3)
KINDS = Kinds(AGE, (1, 2, 3), 3)


def distances(l0: int, linf: int, l1: int | None = None) -> Distances:
    near = Distance(l0=l0, linf=Fraction(linf), l1=None if l1 is None else Fraction(l1))
    return Distances(near, near.times(2))


def error(parts: list[float], sizes: list[float], uses: Uses, power: int) -> float:
    """The sum of the logarithms of the variances of all numbers."""
    return sum(
        math.log(sum((float(weight) * sizes[i]) ** 2 / parts[i] ** power for i, weight in number))
        for number in uses.numbers
    )


ONE = Fraction(1)
Weighed = list[tuple[int, Fraction]]
AVERAGE = Uses((((0, ONE), (1, Fraction(25, 1024))),))
COUNT_AND_AVERAGE = Uses((((2, ONE),), *AVERAGE.numbers))
CROSSED = Uses((((0, ONE),), ((0, ONE), (1, Fraction(2))), ((2, ONE), (1, ONE))))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "uses"),
    [([500.0, 10240.0], AVERAGE), ([500.0, 10240.0, 10240.0], COUNT_AND_AVERAGE), ([3.0, 5.0, 7.0], CROSSED)],
)
def test_no_other_split_has_a_smaller_error(sizes: list[float], uses: Uses, power: int) -> None:
    found = _split(sizes, uses, power)
    assert sum(found) == 1
    ours = error([float(part) for part in found], sizes, uses, power)
    for hundredths in itertools.product(range(1, 99, 2), repeat=len(sizes) - 1):
        rest = 100 - sum(hundredths)
        if rest > 0:
            others = [each / 100 for each in (*hundredths, rest)]
            assert ours <= error(others, sizes, uses, power) + 1e-6


def test_numbers_that_need_alike_share_alike() -> None:
    apart = Uses(tuple(((i, ONE),) for i in range(3)))
    assert _split([1.0, 1000.0, 3.0], apart, 2) == [Fraction(1, 3)] * 3


def test_the_average_takes_more_for_its_sum_than_for_its_count() -> None:
    parts = [float(part) for part in _split([500.0, 10240.0], AVERAGE, 2)]
    assert parts == pytest.approx([0.6135, 0.3865], abs=2e-3)  # 1 : (1/2)^(2/3)


some_weights = some.lists(
    some.tuples(some.integers(0, 3), some.fractions(0, 10**9) | some.just(Fraction(10) ** 140)), max_size=4
)


@settings(max_examples=200, deadline=None)
@given(
    sizes=some.lists(some.floats(1, 1e18), min_size=1, max_size=4),
    numbers=some.lists(some_weights, max_size=4),
    divisors=some.lists(some_weights, max_size=3),
    power=some.sampled_from([1, 2]),
    reach=some.sampled_from([0.0, 1e-300, 1e-9, 1e-3, 1.0, 1e9, 1e300]),
)
def test_no_measure_gets_less_than_a_tenth_of_an_even_share(
    sizes: list[float], numbers: list[Weighed], divisors: list[Weighed], power: int, reach: float
) -> None:
    places = {i: i for i in range(len(sizes))}
    uses = Uses(tuple(map(tuple, numbers)), tuple(map(tuple, divisors))).of(places)
    parts = _split(sizes, uses, power, reach)
    assert sum(parts) == 1
    assert min(parts) >= Fraction(1, 10 * len(sizes))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("near", [0.01, 0.03, 0.1])
def test_a_divisor_is_kept_from_zero_where_slopes_do_not_feel_it(near: float, power: int) -> None:
    """The number feels the first alone, and is divided by the second, whose error is `near` at best."""
    uses = Uses((((0, ONE),),), (((1, ONE),),))
    found = [float(part) for part in _split([1.0, 1.0], uses, power, reach=near)]

    def wide(part: float) -> float:
        gap = 1 - near**2 / part**power
        return math.inf if gap <= 0 else math.log(1 - part) * -power / 2 - math.log(gap)

    best = min(wide(k / 1000) for k in range(50, 999))
    assert wide(found[1]) <= best + 1e-3
    lost = _split([1.0, 1.0], uses, power, reach=1e6)  # nothing helps: it takes no more than two fifths
    assert float(lost[1]) == pytest.approx(0.4, abs=1e-3)


def test_rho_buys_gaussian_noise_of_half_the_variance() -> None:
    one = distances(1, 1)
    rho = Fraction(1, 100)
    gaussian = calibrate((COUNT,), (one,), Guarantee(rho=rho)).steps[0].mechanism
    assert gaussian == Gaussian(sigma_squared=Fraction(50))
    geometric = Geometric(scale=Fraction(10) / Fraction(14, 10))  # epsilon^2 / 2 is about rho
    assert gaussian.noise.variance < 0.55 * geometric.noise.variance


def test_a_delta_is_taken_only_where_it_helps() -> None:
    price = Guarantee.read(epsilon="0.5", delta="1e-6")
    alone = calibrate((COUNT,), (distances(1, 1),), price)
    assert isinstance(alone.steps[0].mechanism, Geometric)
    assert alone.slack == 0
    assert alone.guarantee() == Guarantee(Fraction(1, 2))
    wide = calibrate((COUNT,), (distances(400, 1),), price)  # a person in 400 groups: l1 = 400, l2 = 20
    assert isinstance(wide.steps[0].mechanism, Gaussian)
    paid = wide.guarantee()
    assert paid.delta == price.delta
    assert Fraction(48, 100) < paid.amount <= Fraction(1, 2)
    geometric = Geometric(scale=Fraction(800))
    assert wide.steps[0].mechanism.noise.variance < geometric.noise.variance / 4


@settings(max_examples=60, deadline=None)
@given(
    shapes=some.lists(some.tuples(some.integers(1, 300), some.integers(1, 10**6)), min_size=1, max_size=3),
    amount=some.fractions(Fraction(1, 10**6), 20, max_denominator=10**6),
    currency=some.sampled_from(["epsilon", "rho"]),
)
def test_no_more_is_spent_than_was_asked(
    shapes: list[tuple[int, int]], amount: Fraction, currency: str
) -> None:
    asked = Guarantee(amount) if currency == "epsilon" else Guarantee(rho=amount)
    query = calibrate((COUNT,) * len(shapes), tuple(distances(*shape) for shape in shapes), asked)
    unit = Fraction(1, filters.UNIT)  # a price is rounded up to whole units
    assert query.guarantee().amount <= amount + unit
    assert query.guarantee().amount >= amount * Fraction(99, 100)
    assert query.guarantee("value").amount >= query.guarantee().amount


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (100, 1), (20, 1000)])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9"])
def test_no_more_is_spent_than_was_asked_with_a_delta(shape: tuple[int, int], delta: str) -> None:
    for epsilon in ("0.05", "1", "4"):
        asked = Guarantee.read(epsilon=epsilon, delta=delta)
        paid = calibrate((COUNT, COUNT), (distances(*shape), distances(1, 1)), asked).guarantee()
        assert paid.amount <= asked.amount
        assert paid.delta <= asked.delta


CHOICES: list[tuple[Measure, type, Distances]] = [
    (
        SPREAD,
        QuantileIntervals,
        Distances(Distance(l1=Fraction(SPREAD.cap)), Distance(l1=Fraction(2 * SPREAD.cap))),
    ),
    (KINDS, Modes, Distances(Distance(l1=Fraction(KINDS.cap)), Distance(l1=Fraction(2 * KINDS.cap)))),
]


@pytest.mark.parametrize(("measure", "mechanism", "far"), CHOICES)
@pytest.mark.parametrize("asked", [Guarantee.parse("0.7"), Guarantee.read(rho="0.013")])
def test_what_is_chosen_beside_noise_costs_its_part_and_no_more(
    measure: Measure, mechanism: type, far: Distances, asked: Guarantee
) -> None:
    query = calibrate((COUNT, measure), (distances(1, 1), far), asked)
    noisy, chosen = query.steps
    assert isinstance(chosen.mechanism, mechanism)
    assert isinstance(noisy.mechanism, Geometric if asked.rho is None else Gaussian)
    half = asked.amount / 2
    bound = chosen.bound()
    cost = (bound.epsilon if asked.rho is None else bound.rho) or Fraction(0)
    assert half * Fraction(99, 100) <= cost <= half
    assert query.guarantee().amount <= asked.amount
    assert query.slack == 0


@settings(max_examples=60, deadline=None)
@given(
    amount=some.fractions(Fraction(1, 10**6), 20, max_denominator=10**6),
    currency=some.sampled_from(["epsilon", "rho"]),
    ranks=some.sets(some.fractions(0, 1, max_denominator=20), min_size=1, max_size=4),
    rows=some.sampled_from([None, 1, 7]),
)
def test_quantiles_cost_no_more_than_was_asked_however_many_there_are(
    amount: Fraction, currency: str, ranks: set[Fraction], rows: int | None
) -> None:
    asked = Guarantee(amount) if currency == "epsilon" else Guarantee(rho=amount)
    spread = Spread(AGE, Clamp(Fraction(0), Fraction(99), 0), tuple(sorted(ranks)), rows)
    far = Distances(Distance(l1=Fraction(spread.cap)), Distance(l1=Fraction(2 * spread.cap)))
    query = calibrate((spread,), (far,), asked)
    (step,) = query.steps
    assert isinstance(step.mechanism, QuantileIntervals)
    assert 3 * len(step.mechanism.targets) == spread.places
    assert amount * Fraction(99, 100) <= query.guarantee().amount
    assert query.guarantee().amount <= amount + Fraction(1, filters.UNIT)


@pytest.mark.parametrize("rank", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("asked", [Guarantee.parse("0.5"), Guarantee.read(rho="0.1")])
def test_the_ends_of_a_quantile_miss_it_at_most_once_in_a_hundred(rank: Fraction, asked: Guarantee) -> None:
    """Exactly, from the law, wherever the rows are and however few: the noiseless one is PERCENTILE_DISC."""
    cells = 20
    spread = Spread(AGE, Clamp(Fraction(0), Fraction(cells - 1), 0), (rank,), None)
    far = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(2)))
    (step,) = calibrate((spread,), (far,), asked).steps
    assert isinstance(step.mechanism, QuantileIntervals)
    shapes = ([0] * 7 + [1] + [0] * 12, [1] + [0] * 18 + [1], [0] + [1] * 18 + [0], [9] + [0] * 18 + [1])
    for weight, shape in itertools.product((1, 10, 30, 100, 1000), shapes):
        group = [weight * each for each in shape]
        above, below, outside = missed(step.mechanism, rank, group)
        assert above + below <= 0.01, (group, above, below)
        if rank in (0, 1):
            assert (above if rank == 0 else below) == 0  # that end is the end of the range
            assert outside <= 0.001, group


def missed(mechanism: QuantileIntervals, rank: Fraction, group: list[int]) -> tuple[float, float, float]:
    """The chances that the interval lies above the noiseless quantile, or below it; and that the value lies
    outside of the data, on the side that a least or largest value looks from."""
    ends, cells = list(itertools.accumulate(group)), len(group)
    true = next(j for j in range(cells) if group[j] and ends[j] >= rank * ends[-1])
    (bracket,) = mechanism.law(tuple(group)).brackets
    above = below = outside = 0.0
    for value in range(cells):
        chance = bracket.value.probability(value)
        outside += chance if (value < true if rank == 0 else value > true) else 0.0
        if chance < 1e-9:
            continue
        lows, highs = (each.tolist() for each in bracket.ends(value))
        pairs = bracket.pairs(value)
        for i, (low, high) in enumerate(itertools.product(lows, highs)):
            assert low <= value <= high
            above += chance * pairs.probability(i) if low > true else 0.0
            below += chance * pairs.probability(i) if high < true else 0.0
    return above, below, outside


def test_the_worst_data_for_an_interval_come_near_to_what_is_allowed() -> None:
    """What a proof allows is not far more than what happens: the margin is not too wide by much.

    Where the cells between hold no rows, all ends that are no farther out than the value miss alike.
    """
    cells, rank, rows = 40, Fraction(1, 2), 400
    spread = Spread(AGE, Clamp(Fraction(0), Fraction(cells - 1), 0), (rank,), None)
    one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(2)))
    (step,) = calibrate((spread,), (one,), Guarantee.parse("8")).steps
    assert isinstance(step.mechanism, QuantileIntervals)
    group = [int(rank * rows), *[0] * (cells - 2), rows - int(rank * rows)]
    above, below, _ = missed(step.mechanism, rank, group)
    assert 0.002 < above + below <= 0.01


def test_where_the_groups_are_private_they_take_all_of_delta_and_three_tenths() -> None:
    far = Distances(Distance(l0=1, linf=Fraction(1)), Distance(l0=2, linf=Fraction(1)))
    asked = Guarantee.read(epsilon="1", delta="1e-6")
    query = calibrate((Selected(1), COUNT), (far, distances(1, 1)), asked)
    rule, noise = (step.mechanism for step in query.steps)
    assert rule == Partition(epsilon=Fraction(3, 10), delta=Fraction(1, 10**6))
    assert noise == Geometric(scale=Fraction(10, 7))
    assert query.guarantee() == asked
    assert query.slack == asked.delta
    replaced = query.guarantee("value")
    assert replaced.delta == 2 * asked.delta
    assert replaced.amount >= asked.amount


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("epsilon", ["0.05", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9"])
def test_private_groups_and_their_numbers_cost_no_more_than_was_asked(
    groups: int, epsilon: str, delta: str
) -> None:
    near = Distance(l0=groups, linf=Fraction(1))
    far = Distances(near, near.times(2))
    asked = Guarantee.read(epsilon=epsilon, delta=delta)
    for beside, reach in ((COUNT, distances(20, 7)), (KINDS, CHOICES[1][2])):
        paid = calibrate((Selected(groups), beside), (far, reach), asked).guarantee()
        assert paid.amount <= asked.amount
        assert paid.delta <= asked.delta


@pytest.mark.parametrize("steps", [1, 30, 1024, 1 << 20])
@pytest.mark.parametrize("epsilon", ["0.05", "0.7", "2", "40"])
def test_a_guess_at_the_noise_changes_nothing(
    epsilon: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[Fraction]:
        return [
            Gaussian.at(epsilon=Fraction(epsilon), delta=Fraction(1, 10**n), distance=away).sigma_squared
            for n in (2, 6, 12)
            for away in (Distance(l0=1, linf=Fraction(steps)), Distance(l0=4, linf=Fraction(steps)))
        ]

    near = found()
    monkeypatch.setattr("sfumato.mechanisms.noise._near", lambda *_: None)
    assert near == found()


@pytest.mark.parametrize("near", [None, -9, 0, 1, 40, 41, 42, 99, 100, 500])
def test_wherever_it_is_looked_for_first_the_same_is_found(near: int | None) -> None:
    assert bisected(lambda each: each >= 41, 0, 100, near) == 41
    assert bisected(lambda each: each >= 1, 0, 100, near) == 1
    assert bisected(lambda each: each >= 100, 0, 100, near) == 100
