"""Many questions within one price: what they cost, what is bought, and that nothing is paid twice."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.test_forecasts import opened

import sfumato as sf
from sfumato.curator import asked, path
from sfumato.errors import BudgetExceeded, InvalidParameter, PromiseBroken, QueryFailed, QueryRefused
from sfumato.queries.measures import cut_of

if TYPE_CHECKING:
    from pathlib import Path

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


def test_every_histogram_that_was_bought_is_used(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "100"')
    db.measure()
    town = "SELECT town, SUM(cents) AS n FROM buys JOIN people USING (person) GROUP BY town"
    people = "SELECT kind, COUNT(DISTINCT person) AS n FROM buys WHERE cents > 100 GROUP BY kind"
    agenda = db.plan([*QUESTIONS, town, people], epsilon="30")
    releases = agenda.release()
    noted = agenda._noted()
    assert noted is not None
    assert len(noted) == len(agenda._histograms(noted)) >= 3
    cuts = [any(cut_of(each) is not None for each in release.plan.measures) for release in releases]
    limits = [getattr(each, "limit", None) for release in releases for each in release.plan.measures]
    assert any(cuts) or any(limits)  # none of these has its declared cap


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


# What attackers tried ------------------------------------------------------------------------------------


def crashing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The process ends after so many charges, before what they paid for is run; or before the first."""
    pay, calls = path.pay, 0

    def stopped(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if at == 0:
            raise KeyboardInterrupt
        if calls == at:
            given[1].charged(given[0])
            raise KeyboardInterrupt
        return pay(*given, **named)

    monkeypatch.setattr(asked, "pay", stopped)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_plan_that_took_all_of_the_budget_is_redeemed_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    db = opened(tmp_path, budget='epsilon = "1.2"\nleast = "0.1"')
    db.measure()
    with monkeypatch.context() as patched:
        crashing(patched, at)
        with pytest.raises(KeyboardInterrupt):
            db.plan(QUESTIONS, epsilon="1.08").release()
    again = opened(tmp_path, budget='epsilon = "1.2"\nleast = "0.1"')
    assert len(again.plan(QUESTIONS, epsilon="1.08").release()) == 5
    assert again.ledger.spent.amount <= Fraction("1.2")


@pytest.mark.parametrize("share", [5, 30, 0])
def test_a_plan_is_not_paid_twice_if_the_policy_changes_between_its_charges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    db = opened(tmp_path, budget='epsilon = "20"')
    db.measure()
    with monkeypatch.context() as patched:
        crashing(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            db.plan(QUESTIONS[2:], epsilon="4").release()
    later = opened(tmp_path, budget='epsilon = "20"', share=share)
    before = later.ledger.spent_on("measure")
    assert len(later.plan(QUESTIONS[2:], epsilon="4").release()) == 3
    assert later.ledger.spent.amount - later.ledger.spent_on("measure") <= 4
    assert later.ledger.spent_on("measure") == before


def test_a_plan_may_be_written_in_another_dialect(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "10"')
    db.measure()
    agenda = db.plan([QUESTIONS[0], QUESTIONS[4]], epsilon="2", dialect="postgres")
    assert len(agenda.release()) == 2
    assert agenda.is_paid


def test_many_histograms_of_one_question_stay_within_the_price(tmp_path: Path) -> None:
    many = ", ".join(f"COUNT(CASE WHEN cents > {n}00 THEN 1 END) AS c{n}" for n in range(6))
    for price in ("0.3", "2", "7"):
        (folder := tmp_path / price).mkdir()
        db = opened(folder, budget='epsilon = "10"', share=2)
        db.measure()
        before = db.ledger.spent.amount
        db.plan([f"SELECT {many} FROM buys"], epsilon=price).release()
        assert db.ledger.spent.amount - before <= Fraction(price)


def test_nothing_is_told_of_histograms_that_others_paid_for(tmp_path: Path) -> None:
    by_kind = "SELECT kind, COUNT(*) AS n FROM buys WHERE cents > 700 GROUP BY kind"
    total = "SELECT COUNT(*) AS n FROM buys WHERE cents > 700"
    ana, ben = opened(tmp_path, analyst="ana"), opened(tmp_path, analyst="ben")
    ben.owner.measure()
    before = ben.sql(total, epsilon="40").explain().as_dict()
    ana.sql(by_kind, epsilon="40").release()
    after = opened(tmp_path, analyst="ben").sql(total, epsilon="40").explain().as_dict()
    assert {**after, "left": ""} == {**before, "left": ""}
    assert ana.sql(total, epsilon="40").explain().as_dict()["error_95"] != before["error_95"]
    assert "caps that fit" in [entry.question[:13] for entry in ana.ledger.history()]
    ben.sql(total, epsilon="20").release()  # what is there already is not bought again
    assert sum(entry.question.startswith("caps that fit") for entry in ben.ledger.history()) == 1


def test_promises_hold_for_both_charges_together(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "4"')
    text = (tmp_path / "shop.toml").read_text(encoding="utf-8")
    promise = '[[promise]]\nsecret = "people.town"\nadvantage = "0.10"\n'
    (tmp_path / "shop.toml").write_text(text + promise, encoding="utf-8")
    db = sf.open(tmp_path / "shop.toml")
    with pytest.raises(PromiseBroken):
        db.plan(QUESTIONS, epsilon="0.25").release()
    assert db.ledger.spent.amount == 0


def test_only_the_owner_measures(tmp_path: Path) -> None:
    db = opened(tmp_path, analyst="ana")
    with pytest.raises(InvalidParameter, match="an analyst cannot measure"):
        db.measure()
    assert db.ledger.spent.amount == 0


def test_declared_totals_and_measured_caps_are_told_together(tmp_path: Path) -> None:
    opened(tmp_path, budget='epsilon = "40"')
    text = (tmp_path / "shop.toml").read_text(encoding="utf-8")
    text = text.replace("rows_per_person = 5\n", "rows_per_person = 5\nsize = 33120\n")
    text = text.replace('keys = ["x", "y", "z"]', 'keys = ["x", "y", "z"], complete = true')
    (tmp_path / "shop.toml").write_text(text, encoding="utf-8")
    db = sf.open(tmp_path / "shop.toml")
    db.measure()
    kinds = "SELECT kind, COUNT(*) AS n FROM buys GROUP BY kind"
    assert "n: " in repr(db.sql(kinds, epsilon="0.05").explain())
    assert db.sql(kinds, within="30%").wished
    assert len(db.plan([kinds, QUESTIONS[3]], epsilon="1").release()) == 2
