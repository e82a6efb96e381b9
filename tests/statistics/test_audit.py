"""The auditor finds what is broken, passes what is right, and its false alarms are as rare as it says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support import example

from sfumato.attacks.audit import audit, bound, exactly
from sfumato.attacks.views import Bits
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import (
    Exponential,
    Gaussian,
    Geometric,
    RandomizedResponse,
    Renormalised,
    Table,
    Truncated,
)

GALLERY = example("broken_mechanisms")


@pytest.mark.parametrize("case", GALLERY.GALLERY, ids=lambda case: str(case.name))
def test_what_is_broken_is_caught_and_what_is_right_passes(case: Any) -> None:
    """The dice are seeded: what is seen once is seen always. At 1 - 10^-9 the margins are wide, too."""
    assert GALLERY.audited(case, confidence=1 - 1e-9).is_violated == case.broken


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    """Exact tails of the binomial: the ends are where they are half of what may be missed."""

    def beyond(count: int, people: int, share: float) -> float:
        terms = (
            math.comb(people, k) * share**k * (1 - share) ** (people - k) for k in range(count, people + 1)
        )
        return sum(terms)

    often, seldom, people, miss = 60, 15, 100, 0.01
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(often, people, middle) < miss / 2 else (low, middle)
    p = low
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - beyond(seldom + 1, people, middle) > miss / 2 else (low, middle)
    found = bound(often, seldom, people, miss=miss)
    assert found < math.log(p / low)  # a little below: floats are not trusted with the last digits
    assert found == pytest.approx(math.log(p / low), rel=1e-6)
    assert bound(5, 50, 100) == 0
    assert bound(50, 0, 100) > 1.9
    assert bound(50, 0, 100, delta=0.6) == 0


def test_false_alarms_are_as_rare_as_stated() -> None:
    """400 audits at 99% of what has exactly the epsilon, 4 alarms are expected; 22 have chance 2e-10."""
    dice = np.random.default_rng()

    def two_coins(x: int, size: int) -> Any:
        return np.where(dice.random(size) < 0.75, x, 1 - x)

    found = [audit(two_coins, samples=4000, confidence=0.99).epsilon for _ in range(400)]
    assert sum(epsilon > math.log(3) for epsilon in found) < 22
    assert sum(epsilon > math.log(3) - 0.4 for epsilon in found) > 200  # and it is no bound for nothing


def test_a_law_is_certified_to_its_digits() -> None:
    found = audit(Geometric(scale=Fraction(1)), 0, 1, claim=1, samples=2_000_000)
    assert 0.985 <= found.epsilon <= 1.01
    assert not found.is_violated or found.epsilon < 1.01
    assert "epsilon is at least" in repr(found)
    slightly = audit(Geometric(scale=Fraction(10, 11)), 0, 1, claim=1, samples=2_000_000)
    assert slightly.is_violated
    assert "REFUTED" in repr(slightly)


def test_vectors_texts_and_mechanisms_of_all_kinds_can_be_audited() -> None:
    assert audit(Geometric(scale=Fraction(1)), (0, 0), (1, 1), claim=1, samples=200_000).is_violated  # l1 = 2
    assert audit(lambda x: "yes" if x else "no", samples=1000).epsilon > 3
    assert audit(Gaussian(sigma_squared=Fraction(1)), 0, 1, delta=1e-3, samples=200_000).epsilon > 1
    assert audit(lambda x: [x, {"a": x}], samples=1000).epsilon > 3
    assert audit(Exponential(scale=Fraction(1)), (1, 0), (0, 1), samples=20_000).epsilon > 0.8


@pytest.mark.parametrize(
    ("mechanism", "zero", "one", "epsilon"),
    [
        (RandomizedResponse.two_coins(), 0, 1, math.log(3)),
        (Table(rows=((Fraction(1), Fraction(0)), (Fraction(1, 2), Fraction(1, 2)))), 0, 1, math.inf),
        (Table(rows=((Fraction(1, 2), Fraction(1, 2)),) * 2), 0, 1, 0.0),
    ],
)
def test_finite_laws_are_audited_exactly(mechanism: Any, zero: int, one: int, epsilon: float) -> None:
    found = exactly(mechanism, zero, one, claim=1.0)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert found.is_violated == (epsilon > 1)


def test_what_is_infinite_is_sampled() -> None:
    with pytest.raises(InvalidParameter, match="use audit"):
        exactly(Geometric(scale=Fraction(1)), (0, 0), (1, 0))
    for strange in ({"samples": 10}, {"confidence": 1.0}, {"confidence": 0.1}, {"delta": 1.0}):
        with pytest.raises(InvalidParameter):
            audit(lambda x: x, **strange)


def test_bits_are_told_apart() -> None:
    view = Bits()
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 1.5, 2.0, 1 + 2**-52, math.inf, -math.inf, math.nan, 5e-324])
    cells = view.cells(numbers)
    assert (cells >= 0).all()
    assert (cells < view.size).all()
    assert len(set(cells[:7].tolist())) == 7
    assert cells[7:10].tolist() == [view.size - 2, view.size - 3, view.size - 1]
    assert "lowest bit" in view.words(cells[2:3])


def test_the_ranges_of_ours_are_what_they_claim_and_the_renormalised_one_says_so() -> None:
    cut = Truncated(core=Geometric(scale=Fraction(1)), low=0, high=3)
    assert not audit(cut, (0,), (1,), claim=1, samples=100_000, confidence=0.999999).is_violated
    scaled = Renormalised(scale=Fraction(1), low=0, high=3)
    assert audit(
        scaled, 0, 1, claim=1, samples=100_000, confidence=0.999999
    ).is_violated  # its bound is larger
