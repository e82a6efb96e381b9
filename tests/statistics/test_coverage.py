"""Intervals, drawn very often: they cover what they say, and a test that says so can fail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import pytest
from tests.unit.test_intervals import TAIL, errors, r

from sfumato.exact.coins import Tape
from sfumato.queries.cells import Clamp
from sfumato.queries.expressions import Domain, Field
from sfumato.queries.measures import Moments
from sfumato.queries.plan import Aggregate
from sfumato.queries.rewrite import _Vector
from sfumato.queries.shown import Arithmetic, Expression, Function, Mean, Number, Released, Weighted

if TYPE_CHECKING:
    from sfumato.curator.intervals import Errors

Truth = tuple[tuple[int, ...], ...]


def simulated(truth: Truth, found: Errors, runs: int) -> list[list[list[int]]]:
    """What is released, `runs` times: noise for every number of every measure."""
    coins = Tape.seeded(11)
    noises: list[list[list[int]]] = []
    for law, cells in zip(found.noises, truth, strict=True):
        assert law is not None
        noises.append([law.draws(coins, runs).tolist() for _ in cells])
    return [
        [
            [t + e[i] for t, e in zip(cells, noise, strict=True)]
            for cells, noise in zip(truth, noises, strict=True)
        ]
        for i in range(runs)
    ]


def simulated_coverage(expression: Expression, truth: Truth, found: Errors, runs: int) -> float:
    exact = found.value(expression, truth)
    assert exact is not None
    hits = 0
    for drawn in simulated(truth, found, runs):
        low, high = found.interval(expression, drawn, TAIL)
        hits += low <= exact <= high
    return hits / runs


def cells(*weights: int) -> Weighted:
    """The numbers of the first measure, weighted."""
    return Weighted(tuple((Fraction(weight), Released(0, i)) for i, weight in enumerate(weights)))


MEAN = Mean(cells(0, 60, 120), cells(1, 1, 1), Fraction(0), Fraction(120))
SQUARE = Mean(cells(0, 0, 14400), cells(1, 1, 1), Fraction(0), Fraction(14400))
VARIANCE = Function("greatest", (Arithmetic("-", SQUARE, Arithmetic("*", MEAN, MEAN)), Number(Fraction(0))))


COUNT = cells(1, 1, 1)
SAMPLED = Arithmetic(
    "*",
    Arithmetic("-", SQUARE, Function("square", (MEAN,))),
    Arithmetic("/", COUNT, Arithmetic("-", COUNT, Number(Fraction(1)))),
)
X, Y = (Field(f"t0.{name}", Domain("integer", Fraction(0), Fraction(100))) for name in "xy")
CLAMP = Clamp(Fraction(0), Fraction(100), 0)


def of_two(name: Literal["covar_pop", "corr"], degree: int) -> Expression:
    """A covariance or correlation of two values from 0 to 100, in cells whose rows come to 1 in all."""
    vector = _Vector(0, Moments((X, Y), (CLAMP, CLAMP), degree, False, None))
    return vector.shown(Aggregate(name, (X, Y)))


COVARIANCE = of_two("covar_pop", 1)
WHOLE = 100 ** (2 * 2)  # what one row comes to in the cells of degree 2


@pytest.mark.parametrize(
    ("expression", "truth", "scales"),
    [
        (Arithmetic("+", r(0), r(1)), ((50,), (70,)), (4, 9)),
        (Arithmetic("/", r(0), r(1)), ((300,), (200,)), (10, 10)),
        (Arithmetic("/", r(0), r(1)), ((3,), (40,)), (10, 10)),
        (Arithmetic("*", r(0), r(1)), ((300,), (200,)), (10, 10)),
        (Mean(r(0), r(1), Fraction(0), Fraction(120)), ((10000,), (200,)), (600, 10)),
        (Mean(r(0), r(1), Fraction(0), Fraction(120)), ((750,), (12,)), (60, 1)),
        (cells(1, -2, 3), ((50, 60, 70),), (4,)),
        (cells(1, 1, 1), ((50, 60, 70),), (Fraction(1, 2),)),
        (MEAN, ((300, 200, 100),), (10,)),
        (MEAN, ((30, 20, 10),), (10,)),
        (MEAN, ((2, 1, 0),), (1,)),
        (VARIANCE, ((300, 200, 100),), (3,)),
        (Function("root", (VARIANCE,)), ((300, 200, 100),), (3,)),
        (VARIANCE, ((30, 20, 10),), (3,)),
        (SAMPLED, ((300, 200, 100),), (3,)),
        (SAMPLED, ((30, 20, 10),), (1,)),
        (COVARIANCE, ((3 * 10**6, 10**6, 15 * 10**5, 4 * 10**6),), (3 * 10**4,)),  # 950 rows of 10^4
    ],
)  # fmt: skip
def test_intervals_cover_at_least_as_often_as_they_say(
    expression: Expression, truth: Truth, scales: tuple[int, ...]
) -> None:
    """A seeded run of 2,000: 94% is passed by a 95% interval in all but 1 of 40 seeds; this seed is fixed.

    What takes milliseconds each is run 300 times.
    """
    runs = 300 if expression in (VARIANCE, SAMPLED, COVARIANCE) else 2000
    assert simulated_coverage(expression, truth, errors(*scales), runs) >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "most"), [(Fraction(WHOLE, 4), 0.99), (Fraction(4 * WHOLE), 1)])
def test_a_correlation_is_covered(scale: Fraction, most: float) -> None:
    """A seeded run of 100; a thousand rows, of which x and y lie at 20 and 80, mostly alike."""
    rows = [(20, 20)] * 380 + [(80, 80)] * 420 + [(20, 80)] * 90 + [(80, 20)] * 110
    found = [0] * 9
    for x, y in rows:
        for cell in range(9):
            i, j = cell % 3, cell // 3
            found[cell] += (math.comb(2, i) * x**i * (100 - x) ** (2 - i)) * (
                math.comb(2, j) * y**j * (100 - y) ** (2 - j)
            )
    held = simulated_coverage(of_two("corr", 2), (tuple(found),), errors(scale), 100)
    assert 0.9 <= held <= most


def test_a_variance_is_not_covered_much_more_often_than_it_says() -> None:
    """A seeded run of 400 in large groups: by parts it was 100%."""
    for expression in (VARIANCE, SAMPLED):
        assert simulated_coverage(expression, ((3000, 2000, 1000),), errors(3), 400) <= 0.98


@pytest.mark.parametrize("level", ["0.5", "0.8", "0.99"])
def test_variances_hold_at_every_level(level: str) -> None:
    tail = 1 - Fraction(level)
    found, truth = errors(3), ((300, 200, 100),)
    exact = found.value(VARIANCE, truth)
    assert exact is not None
    read = found.reader(VARIANCE, tail)
    held = sum(low <= exact <= high for low, high in map(read, simulated(truth, found, 400)))
    assert held / 400 >= float(level) - 4 * math.sqrt(float(level) * float(tail) / 400)


def test_the_coverage_test_can_fail() -> None:
    """Intervals computed for noise that is a third too narrow cover too rarely."""
    wide, narrow = errors(15, 15), errors(10, 10)
    for expression in (Arithmetic("/", r(0), r(1)), Arithmetic("+", r(0), r(1))):
        truth: Truth = ((300,), (200,))
        exact = wide.value(expression, truth)
        assert exact is not None
        hits = 0
        for drawn in simulated(truth, wide, 2000):
            low, high = narrow.interval(expression, drawn, TAIL)
            hits += low <= exact <= high
        assert hits / 2000 < 0.94
        assert math.isfinite(hits)


def test_the_coverage_test_can_fail_for_several_cells() -> None:
    truth: Truth = ((300, 200, 100),)
    wide, narrow = errors(15), errors(10)
    for expression in (MEAN, cells(1, -2, 3)):
        exact = wide.value(expression, truth)
        assert exact is not None
        hits = 0
        for drawn in simulated(truth, wide, 2000):
            low, high = narrow.interval(expression, drawn, TAIL)
            hits += low <= exact <= high
        assert hits / 2000 < 0.94
