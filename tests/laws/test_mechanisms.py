"""Distances, bounds, and the law of the geometric mechanism."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.exact.coins import Tape
from sfumato.mechanisms import Bound, DiscreteLaplace, Distance, Distances, Geometric, Line

scales = st.fractions(min_value=Fraction(1, 10), max_value=1000, max_denominator=50).filter(lambda x: x > 0)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6))
def test_a_distance_draws_only_true_consequences(moves: list[int]) -> None:
    """Whatever vector satisfies what was declared satisfies what was derived from it."""
    l0 = sum(m != 0 for m in moves)
    linf = max(abs(m) for m in moves)
    l1, l2_squared = sum(map(abs, moves)), sum(m * m for m in moves)
    for declared in (
        Distance(l0=l0, linf=Fraction(linf)),
        Distance(l1=Fraction(l1)),
        Distance(l0=l0, l1=Fraction(l1), linf=Fraction(linf)),
    ):
        assert declared.l1 is None or l1 <= declared.l1
        assert declared.linf is None or linf <= declared.linf
        assert declared.l2_squared is None or l2_squared <= declared.l2_squared


def test_a_negative_distance_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="l1"):
        Distance(l1=Fraction(-1))


def test_an_unlisted_promise_falls_back_to_value() -> None:
    presence, value, near = (Distance(l1=Fraction(n)) for n in (1, 2, 3))
    distances = Distances(presence, value, (("age within 2", near),))
    assert distances.towards("presence") is presence
    assert distances.towards("age within 2") is near
    assert distances.towards("anything") is value


@given(scales, st.integers(-30, 30), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_shifting_the_noise_by_d_changes_no_mass_by_more_than_its_bound(
    scale: Fraction, y: int, d: int
) -> None:
    law = DiscreteLaplace(scale=scale)
    epsilon = Geometric(scale=scale).bound(Distance(l1=Fraction(d))).epsilon
    assert epsilon == Fraction(d) / scale
    ratio = law.log_mass(y) - law.log_mass(y - d)
    assert ratio.low <= epsilon + Fraction(1, 10**20)
    # and the bound is attained: far enough out the ratio is exactly epsilon
    far = law.log_mass(100 + d) - law.log_mass(100)
    assert abs(far.low + epsilon) < Fraction(1, 10**20)


@given(scales, st.integers(-40, 40))
@settings(max_examples=60, deadline=None)
def test_the_cdf_is_the_sum_of_the_masses(scale: Fraction, y: int) -> None:
    law = DiscreteLaplace(scale=scale)
    step = law.cdf(y) - law.cdf(y - 1)
    mass = law.log_mass(y)
    assert step.low <= numbers.exp(mass.high).high
    assert numbers.exp(mass.low).low <= step.high


@given(scales, st.sampled_from([Fraction(1, 20), Fraction(1, 100), Fraction(1, 2), Fraction(1, 10**9)]))
@settings(max_examples=60, deadline=None)
def test_the_window_is_the_shortest_that_carries_its_mass(scale: Fraction, tail: Fraction) -> None:
    law = DiscreteLaplace(scale=scale)
    assert law.window(tail) == Line.window(law, tail)
    assert 2 * (1 - law.cdf(law.window(tail)[-1]).low) <= tail


def test_the_window_of_a_very_wide_law_is_found_too() -> None:
    law = DiscreteLaplace(scale=Fraction(10**30))
    assert law.window(Fraction(1, 20))[-1] == pytest.approx(2.995732273553991e30)


@pytest.mark.parametrize("tail", [Fraction(0), Fraction(1), Fraction(3, 2)])
def test_a_window_needs_a_probability(tail: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="tail"):
        DiscreteLaplace(scale=Fraction(1)).window(tail)


def test_float_tails_agree_with_the_exact_cdf() -> None:
    import numpy as np

    for scale in (Fraction(1, 4), Fraction(3), Fraction(10**6)):
        law = DiscreteLaplace(scale=scale)
        points = np.array([-7.5, -3.0, -0.5, 0.0, 0.2, 1.0, 6.9])
        for x, tail in zip(points, law.tails(points), strict=True):
            assert float(1 - law.cdf(int(np.floor(x))).high) == pytest.approx(tail, rel=1e-12)


def test_golden_d5_the_geometric_law_at_one_half() -> None:
    """a = 1/2 means scale 1/ln 2: mass at zero 1/3, mean absolute noise 4/3."""
    scale = 1 / numbers.log(2).low
    law = DiscreteLaplace(scale=scale)
    masses = {y: float(numbers.exp(law.log_mass(y).low).low) for y in range(-80, 81)}
    assert masses[0] == pytest.approx(1 / 3, abs=1e-15)
    assert sum(abs(y) * mass for y, mass in masses.items()) == pytest.approx(4 / 3, abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 0, 0.5, "1", True, float("nan")])
def test_a_scale_is_a_positive_exact_number(scale: object) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        Geometric(scale=scale)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="scale"):
        DiscreteLaplace(scale=scale)  # type: ignore[arg-type]


def test_the_noisy_vector_is_the_answer_plus_independent_noise() -> None:
    mechanism = Geometric(scale=Fraction(5))
    for size in (3, 100):  # below and above the bulk threshold
        answer = tuple(range(10**30, 10**30 + size))
        drawn = mechanism.law(answer).draw(Tape.seeded(5))
        noise = [y - x for x, y in zip(answer, drawn, strict=True)]
        assert len(set(noise)) > 1
        assert max(map(abs, noise)) < 500
    together = mechanism.law((0, 0)).log_mass((1, 2))
    alone = [mechanism.noise.log_mass(y) for y in (1, 2)]
    assert together.low == alone[0].low + alone[1].low


def test_nothing_moves_costs_nothing_and_nothing_proved_proves_nothing() -> None:
    mechanism = Geometric(scale=Fraction(5))
    assert mechanism.bound(Distance(l0=0)).epsilon == 0
    assert mechanism.bound(Distance()).epsilon is None
    assert Bound(epsilon=Fraction(1, 2)).rho == Fraction(1, 8)
    assert Bound(epsilon=Fraction(1, 2), delta=Fraction(1, 10)).rho is None
