"""Intervals, drawn very often: they cover what they say, and a test that says so can fail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_intervals import TAIL, errors, r

from sfumato.exact.coins import Tape
from sfumato.queries.plan import Arithmetic, Expression, Function, Mean, Number, Released, Weighted

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
    ],
)  # fmt: skip
def test_intervals_cover_at_least_as_often_as_they_say(
    expression: Expression, truth: Truth, scales: tuple[int, ...]
) -> None:
    """A seeded run of 2,000: 94% is passed by a 95% interval in all but 1 of 40 seeds; this seed is fixed."""
    assert simulated_coverage(expression, truth, errors(*scales), 2000) >= 0.94


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
