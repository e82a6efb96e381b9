"""Standing audits: every mechanism, and the whole path from SQL to release. Red when a guarantee weakens.

Laws are compared with bounds exactly. What is drawn is drawn from seeded tapes or at a false-alarm rate of
10^-9; `benchmarks/audit.py` runs the same at full size.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import example

import sfumato
from sfumato.attacks import standing
from sfumato.curator import calibrate
from sfumato.mechanisms import Bound, Distance, Geometric, Private

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRIES = standing.entries()
DATABASE = example("audit_a_database")
SURE = 1 - 1e-9


def mechanisms() -> set[str]:
    """The names of everything that can be charged, wherever it is defined."""
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        importlib.import_module(module.name)

    def below(kind: type[Private]) -> Iterator[type[Private]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    kinds = {each for each in below(Private) if each.__module__.startswith("sfumato.")}  # type: ignore[type-abstract]
    return {each.name for each in kinds if not inspect.isabstract(each) and hasattr(each, "name")}


def test_every_mechanism_has_an_entry() -> None:
    found = mechanisms()
    assert len(found) >= 17
    assert found == {entry.name for entry in ENTRIES}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.name))
def test_no_law_tells_more_than_its_bound(entry: standing.Pairing) -> None:
    for found in standing.from_law(entry):
        assert found.epsilon > 0
        assert not found.is_violated, found


# The least that some entry of each must reach of its claim: a bound this much too small is seen.
TIGHT = dict.fromkeys(mechanisms(), 0.96) | {"smooth median": 0.4}


@pytest.mark.parametrize("name", sorted(TIGHT.keys() - {"sparse vector"}))
def test_some_entry_attains_its_claim(name: str) -> None:
    found = [(each.claim, law) for each in ENTRIES if each.name == name for law in standing.from_law(each)]
    shares = [law.epsilon / float(claim) for claim, law in found]
    assert max(shares) >= TIGHT[name]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.name))
def test_no_draws_tell_more_than_the_bound(entry: standing.Pairing) -> None:
    found = standing.drawn(entry, samples=100_000, confidence=SURE)
    assert not found.is_violated, found


def test_a_bound_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Geometric._bound

    def weaker(self: Geometric, distance: Distance) -> Bound:
        return Bound(epsilon=(true(self, distance).epsilon or 0) * Fraction(99, 100))

    monkeypatch.setattr(Geometric, "_bound", weaker)
    entry = standing.Pairing(Geometric(scale=Fraction(1)), (0,), (1,), standing.SINGLE)
    assert standing.from_law(entry)[0].is_violated


# The whole path ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", DATABASE.CASES, ids=lambda case: str(case.name))
def test_no_release_tells_more_than_its_price(case: Any) -> None:
    found = DATABASE.audited(case, samples=4000, confidence=0.9999, seed=7)
    assert not found.is_violated, found
    assert found.claim == pytest.approx(0.0 if case.claim == 0 else 1.0, abs=0.01)


def weaken_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the noise that the price needs."""
    true = calibrate.calibrate

    def half(*given: Any, **named: Any) -> Any:
        query: Any = true(*given, **named)
        thin = [replace(step, mechanism=Geometric(scale=step.mechanism.scale / 2)) for step in query.steps]
        return replace(query, steps=tuple(thin))

    monkeypatch.setattr("sfumato.curator.question.calibrate", half)


def test_a_path_with_too_little_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case = DATABASE.CASES[0]
    honest = DATABASE.audited(case, samples=2400, confidence=0.9999, seed=7)
    weaken_noise(monkeypatch)
    found = DATABASE.audited(replace(case, claim=honest.claim), samples=2400, confidence=0.9999, seed=7)
    assert found.is_violated
