"""Many questions within one price: what they cost, what is bought, and that nothing is paid twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_forecasts import opened

from sfumato.errors import BudgetExceeded, InvalidParameter, QueryFailed, QueryRefused

if TYPE_CHECKING:
    from pathlib import Path

    import sfumato as sf

QUESTIONS = (
    "SELECT kind, COUNT(*) AS n FROM buys GROUP BY kind",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
    "SELECT kind, SUM(cents) AS s FROM buys WHERE cents > 500 GROUP BY kind",
    "SELECT town, AVG(age) AS m FROM people GROUP BY town",
    "SELECT kind, COUNT(*) AS n FROM buys WHERE cents > 500 GROUP BY kind",
)


def charges(db: sf.Database) -> list[tuple[str, float]]:
    return [(entry.question[:14], float(entry.price.amount)) for entry in db.ledger.history()]


def test_histograms_are_one_charge_and_answers_another_within_the_price(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "10"')
    db.measure()
    before = db.ledger.spent.amount
    agenda = db.plan(QUESTIONS, epsilon="2")
    told = agenda.as_dict()
    assert sum(float(each["epsilon"]) for each in told["questions"]) <= 2
    assert len(told["questions"]) == 5
    assert "one charge" in repr(agenda)
    assert db.ledger.spent.amount == before  # looking is free
    releases = agenda.release()
    assert len(releases) == 5
    found = charges(db)[-2:]
    assert [told.partition(" of ")[0] for told, _ in found] == ["batch", "batch"]
    assert 1.98 <= sum(price for _, price in found) <= 2
    assert [set(each.columns) & {"n", "s", "m"} for each in releases] == [{"n"}, {"n"}, {"s"}, {"m"}, {"n"}]


def test_hard_questions_get_more_than_easy_ones_and_weights_count(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "10"', rows="rows = 9000")
    db.measure()
    hard, easy = "SELECT kind, SUM(cents) AS s FROM buys GROUP BY kind", "SELECT COUNT(*) AS n FROM people"
    first, second = db.plan([hard, easy], epsilon="1").items
    assert first.price.amount > 3 * second.price.amount
    weighted = db.plan([hard, easy], epsilon="1", weights=[1, 1000]).items
    assert weighted[1].price.amount > second.price.amount
    (even,) = db.plan([hard], epsilon="0.5").items
    assert max(first.likely, second.likely) < 0.9 * even.likely


def test_a_plan_again_is_free_for_everybody_and_after_a_change_it_is_not(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "10"')
    first = db.plan(QUESTIONS, epsilon="2").release()
    spent = db.ledger.spent.amount
    for other in (opened(tmp_path, budget='epsilon = "10"'), opened(tmp_path, analyst="ana")):
        agenda = other.plan(QUESTIONS, epsilon="2")
        assert agenda.is_paid
        again = agenda.release()
        assert [each.rows() for each in again] == [each.rows() for each in first]
        assert again.cost.amount == 0
    assert db.ledger.spent.amount == spent
    db.data_changed()
    later = opened(tmp_path, budget='epsilon = "10"')
    assert not later.plan(QUESTIONS, epsilon="2").is_paid
    assert later.plan(QUESTIONS, epsilon="2").release().cost.amount > 0


def test_what_fails_between_the_charges_goes_on_from_there(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "10"')
    db.measure()
    run, calls = db.source.run, 0

    def failing(*given: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 2:  # after the histograms
            raise QueryFailed
        return run(*given, **named)  # type: ignore[arg-type]

    db.source.run = failing  # type: ignore[method-assign, assignment]
    with pytest.raises(QueryFailed):
        db.plan(QUESTIONS, epsilon="2").release()
    spent = db.ledger.spent.amount
    again = opened(tmp_path, budget='epsilon = "10"')
    assert len(again.plan(QUESTIONS, epsilon="2").release()) == 5
    assert again.ledger.spent.amount == spent  # both were paid
    assert again.ledger.spent.amount <= 3


def test_all_of_it_or_nothing_is_refused(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "1"')
    with pytest.raises(BudgetExceeded):
        db.plan(QUESTIONS, epsilon="1.5").release()
    assert db.ledger.spent.amount == 0
    with pytest.raises(InvalidParameter, match="at least epsilon"):
        db.plan(QUESTIONS[:1], epsilon="0.000001").release()
    assert db.ledger.spent.amount == 0


def test_one_question_without_measures_gets_all_of_it(tmp_path: Path) -> None:
    db = opened(tmp_path, share=0)
    (release,) = db.plan([QUESTIONS[1]], epsilon="0.5").release()
    assert float(db.ledger.spent.amount) == pytest.approx(0.5, rel=1e-3)
    assert len(release.rows()) == 2
    (tmp_path / "rho").mkdir()
    rho = opened(tmp_path / "rho", budget='rho = "1"')
    assert len(rho.plan(QUESTIONS, rho="0.1").release()) == 5


@pytest.mark.parametrize(
    ("questions", "weights", "told"),
    [
        ([], (), "give from 1 to"),
        ([QUESTIONS[0]] * 2, (), "give each once"),
        ([QUESTIONS[0], "select kind, count(*) as n from buys group by kind"], (), "give each once"),
        (QUESTIONS, (1, 2), "one number above 0 for each of the 5"),
        (QUESTIONS[:1], (0,), "above 0"),
        (QUESTIONS[:1], ("nan",), "above 0"),
        (["SELECT DISTINCT kind FROM buys WHERE 1 = 0"], (), "it shows nothing of the data"),
        (
            ["SELECT (SELECT COUNT(*) FROM buys) / (SELECT COUNT(*) FROM people) AS r"],
            (),
            "may depend on the answer to another",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(
    tmp_path: Path, questions: list[str], weights: tuple[object, ...], told: str
) -> None:
    db = opened(tmp_path)
    with pytest.raises((InvalidParameter, QueryRefused)) as refused:
        db.plan(questions, epsilon="1", weights=weights)  # type: ignore[arg-type]
    assert told in str(refused.value)
    assert db.ledger.spent.amount == 0


def test_what_is_expected_is_about_what_comes(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "1000"', rows="rows = 9000")
    db.measure()
    agenda = db.plan(QUESTIONS, epsilon="40")
    expected = [each.worst for each in agenda.items]
    for worst, release in zip(expected, agenda.release(), strict=True):
        name = next(each for each in ("n", "s", "m") if each in release.columns)
        halves = sorted(
            (row[f"{name}_high"] - row[f"{name}_low"]) / 2 / abs(row[name]) for row in release.rows()
        )
        assert not math.isinf(worst)
        assert halves[len(halves) // 2] <= 20 * worst
