"""Intervals: exact where one noise is at work, safe everywhere."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from sfumato.curator.calibrate import Uses
from sfumato.curator.ends import WHOLE, function_ends
from sfumato.curator.intervals import (
    Errors,
    _laplace_pair,
    _range_around,
    _several,
    uses,
)
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Line
from sfumato.queries.cells import Clamp
from sfumato.queries.declared import Tuned
from sfumato.queries.expressions import Domain, Field
from sfumato.queries.measures import Moments, Spread, Sum
from sfumato.queries.plan import Aggregate, Output, Plan, Sorting
from sfumato.queries.relations import Scan, Where
from sfumato.queries.rewrite import _Vector
from sfumato.queries.shown import (
    Arithmetic,
    Chosen,
    Expression,
    Function,
    KeyOf,
    Mean,
    Number,
    Released,
    Weighted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TAIL = Fraction(1, 20)
COUNT = Moments((), (), 0, False, None)
AGE = Field("t0.age", Domain("integer", Fraction(0), Fraction(9)))
SPREAD = Spread(AGE, Clamp(Fraction(-2), Fraction(7), 1), (Fraction(1, 2),), None)


def of_laws(*laws: Line) -> Errors:
    return Errors(laws, (COUNT,) * len(laws))


def errors(*scales: int | Fraction) -> Errors:
    return of_laws(*(DiscreteLaplace(scale=Fraction(scale)) for scale in scales))


def n(value: int | Fraction) -> Number:
    return Number(Fraction(value))


def r(measure: int, weight: int | Fraction = 1) -> Weighted:
    """The first released integer of a measure."""
    return Weighted(((Fraction(weight), Released(measure, 0)),))


def drawn(*values: int) -> tuple[tuple[int, ...], ...]:
    """One released integer a measure."""
    return tuple((value,) for value in values)


def weights_of(*weights: int | Fraction) -> dict[Released, Fraction]:
    return {Released(i, 0): Fraction(weight) for i, weight in enumerate(weights)}


def test_one_measure_has_the_exact_interval_of_its_noise() -> None:
    found = errors(10)
    assert found.interval(r(0), drawn(100), TAIL) == (70, 130)
    assert DiscreteLaplace(scale=Fraction(10)).window(TAIL) == range(-30, 31)
    assert found.value(r(0), drawn(100)) == 100
    assert found.value(Released(0, 0), drawn(100)) == 100


def test_arithmetic_with_numbers_keeps_the_exact_interval() -> None:
    found = errors(10)
    twice = Arithmetic("-", n(1), Arithmetic("*", n(2), r(0)))
    assert found.interval(twice, drawn(100), TAIL) == (1 - 260, 1 - 140)
    assert found.interval(Arithmetic("/", r(0), n(4)), drawn(100), TAIL) == (17.5, 32.5)
    assert found.interval(Arithmetic("*", r(0), n(3)), drawn(100), TAIL) == (210, 390)
    assert found.interval(r(0, 3), drawn(100), TAIL) == (210, 390)
    assert found.interval(r(0, Fraction(-1, 4)), drawn(100), TAIL) == (-32.5, -17.5)
    assert found.interval(n(7), drawn(100), TAIL) == (7, 7)


def test_a_measure_less_itself_is_certain() -> None:
    assert errors(10).interval(Arithmetic("-", r(0), r(0)), drawn(100), TAIL) == (0, 0)


def test_each_number_of_a_measure_has_noise_of_its_own() -> None:
    """Two cells of one vector are two draws: their difference is not certain, and adds up in squares."""
    found = errors(10)
    both = Weighted(((Fraction(1), Released(0, 0)), (Fraction(-1), Released(0, 1))))
    low, high = found.interval(both, ((7, 5),), TAIL)
    assert (low + high) / 2 == 2
    assert high - low == pytest.approx(2 * float(errors(10, 10).radius(weights_of(1, 1), TAIL)))
    assert found.value(both, ((7, 5),)) == 2


def masses(law: Line, reach: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The probabilities of -reach .. reach."""
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    return np.asarray(law.tails(points - 1) - law.tails(points), dtype=np.float64)


def exact_radius(laws: list[DiscreteLaplace], tail: float) -> int:
    """The least radius of a plain sum, by adding up the whole convolution, for small scales."""
    whole = np.ones(1)
    for law in laws:
        whole = np.convolve(whole, masses(law, 400))
    centre = len(whole) // 2
    for radius in range(centre):
        if 1 - whole[centre - radius : centre + radius + 1].sum() <= tail:
            return radius
    raise AssertionError


@pytest.mark.parametrize(("first", "second"), [(10, 10), (3, 20), (1, 1), (Fraction(1, 2), 7)])
def test_two_measures_have_the_interval_of_their_convolution(first: int, second: int) -> None:
    found = errors(first, second)
    radius = float(found.radius(weights_of(1, 1), TAIL))
    laws = [DiscreteLaplace(scale=Fraction(scale)) for scale in (first, second)]
    exact = exact_radius(laws, float(TAIL))
    assert exact - 1e-9 <= radius * 1.001
    assert radius <= exact * 1.02 + 1


def exact_miss(found: Errors, weights: Mapping[Released, Fraction], radius: Fraction, reach: int) -> float:
    """P(|a X + b Y + ...| > radius), by adding up all outcomes within reach."""
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    sums, chances = np.zeros(1), np.ones(1)
    for released, weight in weights.items():
        law = found.noises[released.measure]
        assert law is not None
        sums = (sums[:, None] + float(weight) * points[None, :]).ravel()
        chances = (chances[:, None] * masses(law, reach)[None, :]).ravel()
    return float(chances[np.abs(sums) > float(radius) * (1 + 1e-12)].sum())


def test_no_pair_of_small_noises_misses_more_often_than_stated() -> None:
    """On a lattice the radius jumps; it must be right for every ratio, also in a range of ratios."""
    rng = random.Random(4)
    for _ in range(150):
        found = errors(Fraction(rng.randint(2, 40), 8), Fraction(rng.randint(2, 40), 8))
        weights = weights_of(*(Fraction(rng.randint(1, 12), 4) for _ in range(2)))
        for tail in (Fraction(1, 20), Fraction(1, 100)):
            assert exact_miss(found, weights, found.radius(weights, tail), 150) <= float(tail) * (1 + 1e-9)
            ranged = found._radius(weights, tail, _range_around)
            assert exact_miss(found, weights, ranged, 150) <= float(tail) * (1 + 1e-9)
            assert ranged <= found.radius(weights, tail) * Fraction(12, 10) + 3


@pytest.mark.parametrize("c", [1e-9, 0.03, 0.4, 0.99, 1.0, 1.01, 1.7, 40.0])
@pytest.mark.parametrize("tail", [Fraction(1, 20), Fraction(1, 10**6)])
def test_the_closed_radius_of_a_wide_pair_is_a_bound_and_a_tight_one(c: float, tail: Fraction) -> None:
    """Summed over every outcome of the second noise; a radius smaller by a 200th would not do."""
    first, second = DiscreteLaplace(scale=Fraction(9001, 2)), DiscreteLaplace(scale=Fraction(3000))
    radius = _laplace_pair(first, second, float(tail), c)
    assert radius is not None
    y = np.arange(-90_000, 90_001, dtype=np.float64)
    chances = second.tails(y - 1) - second.tails(y)
    rest = 2 * float(second.tails(np.array([90_000.0]))[0])

    def missed(t: float) -> float:
        return float((chances * 2 * first.tails(t - c * y)).sum())

    assert missed(radius) + rest <= float(tail)
    assert missed(radius * 0.995) > float(tail)


def test_narrow_or_other_noise_has_no_closed_radius() -> None:
    wide, narrow = DiscreteLaplace(scale=Fraction(10**6)), DiscreteLaplace(scale=Fraction(20))
    assert _laplace_pair(narrow, narrow, 0.05, 1.0) is None
    assert _laplace_pair(wide, DiscreteGaussian(sigma_squared=Fraction(10**12)), 0.05, 1.0) is None
    assert _laplace_pair(wide, narrow, 0.05, 1.0) is not None


def test_no_three_small_noises_miss_more_often_than_stated() -> None:
    """The same for three: all outcomes of all three are added up."""
    rng = random.Random(5)
    for _ in range(60):
        found = errors(*(Fraction(rng.randint(1, 12), 8) for _ in range(3)))
        weights = weights_of(*(Fraction(rng.choice([-1, 1]) * rng.randint(1, 12), 4) for _ in range(3)))
        for tail in (Fraction(1, 20), Fraction(1, 100)):
            radius = found.radius(weights, tail)
            assert exact_miss(found, weights, radius, 40) <= float(tail) * (1 + 1e-9)
            ranged = found._radius(weights, tail, _range_around)
            assert exact_miss(found, weights, ranged, 40) <= float(tail) * (1 + 1e-9)
            assert ranged <= radius * Fraction(12, 10) + 3


@pytest.mark.parametrize("scales", [(10, 10, 10), (3, 20, 7), (1, 1, 1), (Fraction(1, 2), 7, 7), (5,) * 8])
def test_three_or_more_measures_have_the_interval_of_their_convolution(scales: tuple[int, ...]) -> None:
    found = errors(*scales)
    radius = float(found.radius(weights_of(*(1 for _ in scales)), TAIL))
    exact = exact_radius([DiscreteLaplace(scale=Fraction(scale)) for scale in scales], float(TAIL))
    assert exact - 1e-9 <= radius
    assert radius <= exact * 1.1 + 1


@pytest.mark.parametrize("count", [3, 4, 9])
@pytest.mark.parametrize("tail", [Fraction(1, 2), TAIL, Fraction(1, 10**6)])
def test_several_measures_never_take_more_than_the_union_bound(count: int, tail: Fraction) -> None:
    """And for many of them far less: errors add up in squares."""
    scales = [Fraction(10 + i) for i in range(count)]
    total: Expression = r(0)
    for i in range(1, count):
        total = Arithmetic("+", total, r(i))
    low, high = errors(*scales).interval(total, drawn(*([0] * count)), tail)
    union = sum(DiscreteLaplace(scale=scale).window(tail / count)[-1] for scale in scales)
    assert -union <= low <= 0 <= high <= union
    if count == 9 and tail <= TAIL:
        assert high <= 0.6 * union


def test_several_gaussians_have_nearly_the_interval_of_their_sum() -> None:
    """The sum of nine has three times the width of one."""
    law = DiscreteGaussian(sigma_squared=Fraction(10**6))
    radius = float(of_laws(*[law] * 9).radius(weights_of(*[1] * 9), TAIL))
    assert 3 * 1959.9 <= radius <= 3 * 1959.9 * 1.05


@pytest.mark.parametrize("tail", [TAIL, Fraction(1, 10**3)])
@pytest.mark.parametrize(("scale", "times"), [(1, 2), (20, 3), (3, 50), (20, 200), (2, 3000)])
def test_the_noise_of_a_total_over_many_groups_has_nearly_its_exact_interval(
    scale: int, times: int, tail: Fraction
) -> None:
    """The exact one from the same law on whole numbers, whose windows leave out less than 10^-17 a draw."""
    law = DiscreteLaplace(scale=Fraction(scale))
    reach = np.arange(-40 * scale, 40 * scale + 1)
    beyond = law.tails(np.append(reach - 1, reach[-1]).astype(np.float64))
    size = 1 << (math.isqrt(times) * 100 * scale).bit_length()
    around = np.bincount(reach % size, weights=beyond[:-1] - beyond[1:], minlength=size)
    total = np.roll(np.fft.irfft(np.fft.rfft(around) ** times, size), size // 2)
    upper = np.cumsum(total[::-1])[::-1]  # P(S >= x), of x from -size/2 on
    exact = int(np.flatnonzero(2 * upper <= float(tail))[0]) - size // 2 - 1
    found = _several(((law, 1.0, 1.0),), times, tail)
    assert exact - 1e-9 <= found <= exact * 1.03 + 1


def test_a_ratio_whose_denominator_may_be_zero_can_be_anything() -> None:
    found = errors(10, 10)
    ratio = Arithmetic("/", r(0), r(1))
    assert found.interval(ratio, drawn(100, 20), TAIL) == WHOLE
    assert found.value(ratio, drawn(100, 0)) is None
    low, high = found.interval(ratio, drawn(1000, 500), TAIL)
    assert 1.8 < low < 2 < high < 2.25


def test_a_ratio_times_and_plus_numbers_moves_with_them() -> None:
    found = errors(10, 10)
    ratio = Arithmetic("/", r(0), r(1))
    low, high = found.interval(ratio, drawn(1000, 500), TAIL)
    cases: list[tuple[Expression, float, float]] = [
        (Arithmetic("*", n(100), ratio), 100, 0),
        (Arithmetic("*", ratio, n(100)), 100, 0),
        (Arithmetic("/", ratio, n(4)), 0.25, 0),
        (Arithmetic("+", ratio, n(5)), 1, 5),
        (Arithmetic("-", ratio, n(5)), 1, -5),
    ]
    for expression, factor, shift in cases:
        ends = found.interval(expression, drawn(1000, 500), TAIL)
        assert ends == pytest.approx((low * factor + shift, high * factor + shift), rel=1e-3)


def test_a_mean_stays_within_its_public_bounds() -> None:
    found = errors(100, 10)
    mean = Mean(r(0), r(1), Fraction(0), Fraction(120))
    assert found.value(mean, drawn(65, -3)) == 65  # a count below one counts as one row
    assert found.value(mean, drawn(-500, -3)) == 0
    assert found.value(mean, drawn(500, -3)) == 120
    assert found.interval(mean, drawn(5, 3), TAIL) == (0, 120)
    assert found.interval(mean, drawn(5, -300), TAIL) == (0, 120)
    low, high = found.interval(mean, drawn(61000, 1000), TAIL)
    assert 58 < low < 61 < high < 64
    assert found.interval(mean, drawn(10**9, 1000), TAIL) == (120, 120)
    assert found.interval(mean, drawn(-(10**9), 1000), TAIL) == (0, 0)


def test_the_noise_of_a_mean_is_felt_less_near_the_middle_of_its_cells() -> None:
    """The two cells of a value on [0, 1]: total = second, count = first + second, of one law."""
    found = errors(10)
    first, second = Released(0, 0), Released(0, 1)
    count = Weighted(((Fraction(1), first), (Fraction(1), second)))
    mean = Mean(Weighted(((Fraction(1), second),)), count, Fraction(0), Fraction(1))
    assert found.value(mean, ((300, 700),)) == Fraction(7, 10)
    middle, edge = (found.interval(mean, (cells,), TAIL) for cells in ((500, 500), (1000, 0)))
    assert middle[0] < 0.5 < middle[1]
    assert middle[1] - middle[0] < 0.07
    assert edge[0] == 0 < edge[1] < 0.05


def test_products_and_sums_of_ratios_fall_back_to_parts() -> None:
    found = errors(10, 10, 10)
    product = Arithmetic("*", r(0), r(1))
    low, high = found.interval(product, drawn(1000, 1000), TAIL)
    assert low < 1000**2 < high
    mean = Mean(r(0), r(1), Fraction(-5), Fraction(5))
    mixed = Arithmetic("+", mean, Arithmetic("/", r(2), r(1)))
    low, high = found.interval(mixed, drawn(0, 1000, 1000), TAIL)
    assert low < 1 < high < 1.2
    nested = Arithmetic("/", r(0), Arithmetic("-", mean, n(0)))
    assert found.interval(nested, drawn(0, 1000, 1000), TAIL) == WHOLE
    inverse = Arithmetic("/", n(1), product)
    low, high = found.interval(inverse, drawn(1000, 1000, 0), TAIL)
    assert 0 < low < 1e-6 < high


Name = Literal["square", "root", "abs", "round", "floor", "ceil", "least", "greatest"]


def test_functions_of_a_number_are_what_they_say() -> None:
    found = errors(1)
    cases: list[tuple[Name, tuple[Expression, ...], Fraction | None]] = [
        ("square", (n(-3),), Fraction(9)),
        ("root", (n(Fraction(9, 4)),), Fraction(3, 2)),
        ("root", (n(-1),), None),
        ("abs", (n(-3),), Fraction(3)),
        ("floor", (n(Fraction(-5, 2)),), Fraction(-3)),
        ("ceil", (n(Fraction(-5, 2)),), Fraction(-2)),
        ("round", (n(Fraction(-5, 2)), n(0)), Fraction(-3)),
        ("round", (n(Fraction(12345, 1000)), n(2)), Fraction(1235, 100)),
        ("round", (n(1251), n(-2)), Fraction(1300)),
        ("least", (n(3), n(-2), n(5)), Fraction(-2)),
        ("greatest", (n(3), n(-2), n(5)), Fraction(5)),
        ("greatest", (n(3), Function("root", (n(-1),))), None),
    ]
    for name, arguments, expected in cases:
        assert found.value(Function(name, arguments), drawn(0)) == expected, name


def test_a_function_of_an_interval_holds_the_function_of_every_point_in_it() -> None:
    rng, found = random.Random(6), errors(1)
    names: list[Name] = ["square", "root", "abs", "floor", "ceil", "round", "least", "greatest"]
    for name, _ in itertools.product(names, range(200)):
        count = 2 if name in ("least", "greatest") else 1
        points = [Fraction(rng.randint(-400, 400), 100) for _ in range(count)]
        ends = [(float(x) - rng.random(), float(x) + rng.random()) for x in points]
        digits = rng.randint(-1, 3)
        extra = [n(digits)] if name == "round" else []
        value = found.value(Function(name, (*(n(x) for x in points), *extra)), drawn(0))
        low, high = function_ends(name, [*ends, *((float(digits),) * 2 for _ in extra)])
        if value is not None:
            assert low <= value <= high, (name, points, ends)


def test_a_quantile_has_the_ends_that_were_drawn_with_it() -> None:
    found = Errors((None,), (SPREAD,))
    chosen = Chosen(0, 0, 1, 2)
    assert found.value(chosen, ((4, 1, 9),)) == 0  # -2 and four steps of a half
    assert found.interval(chosen, ((4, 1, 9),), TAIL) == (-1.5, 2.5)
    assert found.interval(chosen, ((4, 9, 1),), TAIL) == (-1.5, 2.5)  # ends that crossed
    assert found.interval(chosen, ((0, 1, 9),), TAIL) == (-2, 2.5)  # the value lies in its interval
    assert found.interval(chosen, ((4, 1, 9),), Fraction(1, 101)) == (-2, 7)  # no more was bought


def test_a_key_is_not_a_number() -> None:
    with pytest.raises(TypeError):
        errors(1).value(KeyOf(0), drawn(1))


def test_ends_are_rounded_outward_and_survive_any_size() -> None:
    found = errors(Fraction(1, 100))  # hardly ever any noise
    third = Arithmetic("/", r(0), n(3))
    low, high = found.interval(third, drawn(1), TAIL)
    assert Fraction(low) < Fraction(1, 3) < Fraction(high)
    huge = Arithmetic("*", r(0), n(10**400))
    assert found.interval(huge, drawn(1), TAIL) == (math.nextafter(math.inf, 0), math.inf)
    assert found.interval(Arithmetic("-", n(0), huge), drawn(1), TAIL) == (
        -math.inf,
        -math.nextafter(math.inf, 0),
    )
    wide = errors(10**40, Fraction(10**39, 7))
    assert wide.radius(weights_of(1, 1), TAIL) > 10**40
    widest = errors(10**40, Fraction(10**39, 7), 3)
    assert widest.radius(weights_of(1, 1, 1), TAIL) > 10**40


def plan(*outputs: Expression, measures: int = 2, order: tuple[Expression, ...] = ()) -> Plan:
    return Plan(
        Scan(0, "t", None, None, False),
        (),
        (COUNT,) * measures,
        tuple(Output(f"c{i}", each) for i, each in enumerate(outputs)),
        order=tuple(map(Sorting, order)),
    )


def test_uses_say_which_measures_a_number_is_made_of_and_how_much_it_feels_each() -> None:
    assert uses(plan(r(0), r(1, 3))) == Uses((((0, Fraction(1)),), ((1, Fraction(3)),)))
    (both,) = uses(plan(Arithmetic("-", r(0), r(1, 2)))).numbers
    assert dict(both) == {0: 1, 1: 2}
    assert uses(plan(KeyOf(0), r(1))) == Uses((((1, Fraction(1)),),))
    assert uses(plan(r(0), order=(r(1),))) == Uses((((0, Fraction(1)),), ((1, Fraction(1)),)))
    assert uses(plan(n(7))) == Uses(())
    found = uses(plan(Arithmetic("/", r(0), r(1))))  # a thousand by a thousand: both alike
    (ratio,), (divisor,) = found.numbers, found.divisors
    assert dict(ratio) == {0: Fraction(0.001), 1: Fraction(0.001)}
    assert divisor == ((1, Fraction(0.001)),)  # one row is a thousandth of it


def test_slopes_are_those_of_the_value() -> None:
    """At every point, of every kind of arithmetic: against differences of `value`."""
    cell = Fraction(1000)
    found = errors(1, 1)
    for expression in (
        Arithmetic("*", r(0), r(1, 3)),
        Arithmetic("/", r(0, 5), Arithmetic("+", r(1), n(7))),
        Arithmetic("-", Function("square", (r(0),)), r(1, 700)),
        Function("root", (Arithmetic("*", r(0), r(1)),)),
        Function("abs", (Arithmetic("-", r(0), r(1, 9)),)),
        Function("greatest", (r(0, 2), r(1))),
        Function("least", (r(0, 2), r(1))),
        Function("greatest", (r(0), n(10**9))),  # a bound that is never the typical value
        Function("round", (r(0), n(-1))),
        Mean(r(0, 3), r(1), Fraction(0), Fraction(2)),  # as if it were not cut
        r(0),
    ):
        (weights,) = uses(plan(expression)).numbers
        for i in range(2):
            moved = [Fraction(1), Fraction(0)] if i == 0 else [Fraction(0), Fraction(1)]
            smooth: Expression = expression
            if isinstance(expression, Mean):
                smooth = Arithmetic("/", expression.total, expression.count)
            if isinstance(expression, Function) and expression.name in ("round", "greatest"):
                smooth = expression.arguments[0]
            ends = [
                found.value(smooth, [[cell + sign * moved[0]], [cell + sign * moved[1]]])  # type: ignore[list-item]
                for sign in (1, -1)
            ]
            slope = abs((ends[0] - ends[1]) / 2)  # type: ignore[operator]
            assert float(dict(weights).get(i, 0)) == pytest.approx(float(slope), rel=1e-5)


def test_what_has_no_value_at_a_point_is_left_out_there() -> None:
    nothing = Arithmetic("-", r(0), r(0))
    assert uses(plan(Arithmetic("/", r(0), nothing))) == Uses(())
    assert uses(plan(Function("root", (nothing,)))) == Uses(())
    assert uses(plan(Function("root", (Arithmetic("-", r(0), n(10**6)),)))) == Uses(())
    assert uses(plan(Function("root", (Arithmetic("*", r(0), n(10**700)),)))) == Uses(())  # no float holds it
    (huge,) = uses(plan(Arithmetic("*", r(0), n(10**700)))).numbers
    assert math.isfinite(float(huge[0][1]) ** 2)


def averages(centre: int, limit: int | None, tuned: Tuned | None, where: bool = False) -> Plan:
    """An average by a sum around a centre and a count, of a value from 0 to 100 on a grid of 1."""
    value = Field("t0.x", Domain("integer", Fraction(0), Fraction(100), tuned=tuned))
    total = Sum(value, Clamp(Fraction(0), Fraction(100), 0), 2, centre, limit)
    scan = Scan(0, "t", None, 2, False)
    relation = Where(scan, Field("t0.b", Domain("boolean"))) if where else scan
    back = ((Fraction(1), Released(0, 0)), (Fraction(centre, 1024), Released(1, 0)))
    mean = Mean(Weighted(back), r(1, Fraction(1, 1024)), Fraction(0), Fraction(100))
    return Plan(relation, (), (total, Moments((value,), (), 0, False, 2)), (Output("a", mean),))


@pytest.mark.parametrize("centre", [0, 1, 50, 99, 100])
@pytest.mark.parametrize("limit", [1, 20, 200, 10**6])
def test_an_average_near_its_tuned_centre_feels_its_sum_most(centre: int, limit: int) -> None:
    tuned = Tuned(Fraction(centre), Fraction(200), Fraction(limit))
    plain, chosen = (uses(averages(centre, limit, tuned, where=where)) for where in (False, True))
    for found in (plain, chosen):
        at, beside = map(dict, found.numbers)  # above the centre and below it are the same
        assert at == {0: Fraction(0.001)}
        assert beside[0] == Fraction(0.001)
        assert found.divisors == (((1, Fraction(1 / 1024 / 1000)),),) * 2
    far = [float(dict(each.numbers[1])[1]) for each in (plain, chosen)]
    assert far[0] <= far[1] <= 100 / 32 / 1024 / 1000  # never more than a 32nd of the bounds
    assert far[1] <= limit / 2 / 8 / 1024 / 1000


def test_a_covariance_over_a_variance_feels_both() -> None:
    x, y = (Field(f"t0.{name}", Domain("number", Fraction(-1), Fraction(1), 10)) for name in "xy")
    clamp = Clamp(Fraction(-1), Fraction(1), 10)
    both, one = Moments((x, y), (clamp, clamp), 1, False, 3), Moments((x,), (clamp,), 2, False, 3)
    top = _Vector(0, both).shown(Aggregate("covar_pop", (x, y)))
    bottom = _Vector(1, one).shown(Aggregate("var_pop", (x,)))
    question = Plan(
        Scan(0, "t", None, 3, False), (), (both, one), (Output("slope", Arithmetic("/", top, bottom)),)
    )
    for weights in uses(question).numbers:
        assert min(float(weight) for _, weight in weights) > max(float(weight) for _, weight in weights) / 10


def test_a_total_of_what_has_almost_no_noise_has_an_interval() -> None:
    law = DiscreteLaplace(scale=Fraction(1, 10**6))
    assert 0 <= _several(((law, 1.0, 1.0),), 200, TAIL) <= 1


@pytest.mark.parametrize("times", [100, 5_000, 10**5, 10**6])
@pytest.mark.parametrize("scale", [Fraction(1, 30), Fraction(1, 12), Fraction(1, 3)])
def test_totals_of_noise_that_is_nearly_always_zero_need_little_memory(scale: Fraction, times: int) -> None:
    """Draws of one or more are as rare as they are far apart in blocks: a circle would have 2^30 of them."""
    law = DiscreteLaplace(scale=scale)
    tracemalloc.start()
    found = _several(((law, 1.0, 1.0),), times, TAIL)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400 << 20
    a = math.exp(-1 / float(scale))
    deviation = math.sqrt(times * 2 * a / (1 - a) ** 2)
    assert 1.9 * deviation - 1 <= found <= 4 * deviation + 12
