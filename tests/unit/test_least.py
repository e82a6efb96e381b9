"""The least that a new question or batch costs: for everybody who asks, and for nothing that is stored."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.support import make, wild_rows

import sfumato as sf
from sfumato.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

COUNT = "SELECT COUNT(*) FROM visits"


def hospital(folder: Path, budget: str = 'epsilon = "2"') -> Path:
    path = make(folder, wild_rows(1, 30, random.Random(1)), budget="2")
    text = path.read_text(encoding="utf-8").replace('epsilon = "2"', budget)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_least_is_a_hundred_thousandth_of_the_total_unless_the_owner_says_otherwise(
    tmp_path: Path,
) -> None:
    assert sf.open(hospital(tmp_path / "a")).policy.least == Fraction(2, 100_000)
    assert sf.open(hospital(tmp_path / "b", 'rho = "0.5"')).policy.least == Fraction(1, 200_000)
    told = 'epsilon = "2"\nleast = "0.01"'
    assert sf.open(hospital(tmp_path / "c", told)).policy.least == Fraction(1, 100)


@pytest.mark.parametrize(
    ("budget", "below", "least"),
    [('epsilon = "2"', {"epsilon": "0.000019"}, "0.00002"), ('rho = "1"', {"rho": "0.000009"}, "0.00001")],
)
def test_less_is_refused_free_of_charge_and_what_is_advised_is_accepted(
    budget: str, below: dict[str, str], least: str, tmp_path: Path
) -> None:
    db = sf.open(hospital(tmp_path, budget))
    (name,) = below
    question = db.sql(COUNT, **below)
    told = f"a new question or batch costs at least {name} {least} here"
    assert told in repr(question.explain())
    assert told in question.explain().as_dict()["too_small"]
    for asked in (question, db.batch([question])):
        with pytest.raises(sf.InvalidParameter, match=told) as refused:
            asked.release()
        assert "Nothing was spent and no row was read" in str(refused.value)
        assert f"Ask for at least {name} {least}" in str(refused.value)
    assert db.ledger.spent.amount == 0
    advised = db.sql(COUNT, **{name: least})
    assert not advised.explain().too_small
    advised.release()
    db.batch([db.sql(f"{COUNT} WHERE age > 3", **{name: least})]).release()


def test_a_batch_is_one_charge_so_its_questions_may_be_smaller(tmp_path: Path) -> None:
    db = sf.open(hospital(tmp_path))
    texts = [f"{COUNT} WHERE age > {n}" for n in range(4)]
    db.batch([db.sql(each, epsilon="0.000005") for each in texts]).release()
    with pytest.raises(sf.InvalidParameter, match="costs at least"):
        db.batch([db.sql(each, epsilon="0.000005") for each in texts[:3]]).release()


def test_what_is_stored_is_free_at_any_price_and_an_open_receipt_is_redeemed(tmp_path: Path) -> None:
    path = hospital(tmp_path, 'epsilon = "2"\nleast = "0.000001"')
    db = sf.open(path)
    small = db.sql(COUNT, epsilon="0.00001").release()
    open_one = db.sql(f"{COUNT} WHERE age > 3", epsilon="0.00001")
    open_one.bill().charged(db.ledger)  # as if the power had failed
    path.write_text(path.read_text(encoding="utf-8").replace("0.000001", "0.5"), encoding="utf-8")
    db = sf.open(path)
    repeated = db.sql(COUNT, epsilon="0.00001")
    assert not repeated.explain().too_small
    assert repeated.release().rows() == small.rows()
    db.sql(COUNT, epsilon="0.000001").release()  # a stored release answers smaller prices
    spent = db.ledger.spent
    db.sql(f"{COUNT} WHERE age > 3", epsilon="0.00001").release()
    assert db.ledger.spent == spent
    with pytest.raises(sf.InvalidParameter, match=r"costs at least epsilon 0\.5"):
        db.sql(f"{COUNT} WHERE age > 4", epsilon="0.4").release()


def test_the_parts_of_a_price_for_caps_may_be_smaller_than_the_least(tmp_path: Path) -> None:
    db = sf.open(hospital(tmp_path, 'epsilon = "2"\nleast = "0.5"'))
    db.tune("visits", epsilon="0.1", columns=["cost"])  # the owner's own
    spent = db.ledger.spent
    question = db.sql(f"{COUNT} WHERE age > 9", epsilon="0.4", tune="0.1")
    assert question.explain().too_small
    with pytest.raises(sf.InvalidParameter, match=r"costs at least epsilon 0\.5"):
        question.release()
    assert db.ledger.spent == spent  # also its caps were not paid for
    db.sql(f"{COUNT} WHERE age > 9", epsilon="0.5", tune="0.1").release()


def test_the_budget_is_good_for_no_more_questions_than_it_pays_for(tmp_path: Path) -> None:
    db = sf.open(hospital(tmp_path, 'epsilon = "2"\nleast = "1"'))
    assert "Enough for about 2 more" in repr(db.budget)


def test_a_terminal_is_told_what_to_type(tmp_path: Path) -> None:
    path = str(hospital(tmp_path))
    refused = CliRunner().invoke(main, ["sql", path, COUNT, "--epsilon", "0.00001"])
    assert refused.exit_code != 0
    assert "Ask for at least epsilon 0.00002" in " ".join(refused.output.split())
    assert CliRunner().invoke(main, ["sql", path, COUNT, "--epsilon", "0.00002"]).exit_code == 0


def test_nobody_is_told_to_ask_for_less_than_the_least(tmp_path: Path) -> None:
    db = sf.open(hospital(tmp_path, 'epsilon = "1"\nleast = "0.1"'))
    db.sql(COUNT, epsilon="0.95").release()
    left = db.ledger.left
    for asked in (db.sql(f"{COUNT} WHERE age > 3", epsilon="0.2"), db.sql(COUNT, epsilon="2", tune="0.1")):
        with pytest.raises(sf.BudgetExceeded) as refused:
            asked.release()
        told = f"has only {left} left, and a question costs at least epsilon 0.1. Nothing was spent"
        assert told in str(refused.value)
        assert "Ask for at most" not in str(refused.value)
        assert "Repeat an earlier question" in str(refused.value)
