"""Errors before anything is asked, the price of a wished error, and what is known of tables."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import sfumato as sf
from sfumato.curator.forecast import FROM_BEFORE, FROM_SIZES, FROM_TABLES, UNKNOWN, forecasts
from sfumato.curator.within import wishes
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """{measure}
[source]
duckdb = "shop.duckdb"
[budget]
{budget}
[tables.people]
unit = "person"
rows_per_person = 1
{rows}
[tables.people.columns]
person = {{ type = "integer" }}
town = {{ type = "text", keys = ["a", "b"] }}
age = {{ type = "integer", low = 0, high = 100 }}
[tables.buys]
unit = "person"
rows_per_person = 5
[tables.buys.columns]
person = {{ type = "integer" }}
kind = {{ type = "text", keys = ["x", "y", "z"] }}
cents = {{ type = "integer", low = 0, high = 5000 }}
"""
TOWNS = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
KINDS = "SELECT kind, COUNT(*) AS n FROM buys GROUP BY kind"


def opened(
    folder: Path, *, budget: str = 'epsilon = "100"', share: int = 10, rows: str = "", analyst: str = ""
) -> Database:
    if not (folder / "shop.duckdb").exists():
        with duckdb.connect(str(folder / "shop.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE people AS SELECT i AS person, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END "
                "AS town, i % 90 AS age FROM range(9000) AS r(i)"
            )
            connection.execute(
                "CREATE TABLE buys AS SELECT p AS person, ['x', 'y', 'z'][1 + (p + n) % 3] AS kind, "
                "(p * 7 + n * 13) % 900 AS cents FROM (SELECT p, UNNEST(range(CASE WHEN p % 50 = 0 THEN 60 "
                "ELSE 1 + p % 4 END)) AS n FROM range(9000) AS r(p)) AS q"
            )
    measure = f'[measure]\nshare = "{share}%"' if share else ""
    text = POLICY.format(measure=measure, budget=budget, rows=rows)
    (folder / "shop.toml").write_text(text, encoding="utf-8")
    return sf.open(folder / "shop.toml", analyst=analyst)


def halves(release: Any, name: str = "n") -> list[float]:
    return [(row[f"{name}_high"] - row[f"{name}_low"]) / 2 for row in release.rows()]


# Forecasts -----------------------------------------------------------------------------------------------


def test_noise_alone_is_told_exactly(tmp_path: Path) -> None:
    question = opened(tmp_path).sql(TOWNS, epsilon="0.1")
    (expected,) = forecasts(question)
    assert (expected.basis, expected.value) == ("", None)
    release = question.release()
    assert all(half == pytest.approx(expected.error, rel=0.01) for half in halves(release))


def test_what_caps_cut_is_told_from_tables_once_they_are_measured(tmp_path: Path) -> None:
    db = opened(tmp_path)
    question = db.sql(KINDS, epsilon="2")
    assert [each.basis for each in forecasts(question)] == [UNKNOWN]
    assert "declared caps" in repr(question.explain())
    db.measure()
    (expected,) = forecasts(db.sql(KINDS, epsilon="2"))
    assert expected.basis == FROM_TABLES
    assert expected.value == pytest.approx(33_120 / 3, rel=0.2)
    assert expected.error is not None
    assert sorted(halves(db.sql(KINDS, epsilon="2").release()))[1] == pytest.approx(expected.error, rel=0.5)
    filtered = "SELECT kind, COUNT(*) AS n FROM buys WHERE cents > 500 GROUP BY kind"
    assert [each.basis for each in forecasts(db.sql(filtered, epsilon="2"))] == [FROM_TABLES]


def test_declared_rows_and_earlier_releases_tell_sizes(tmp_path: Path) -> None:
    average = "SELECT town, AVG(age) AS m FROM people GROUP BY town"
    unknown = opened(tmp_path).sql(average, epsilon="0.5").explain()
    assert "for a group of 1,000 rows" in unknown.errors()["m"]
    db = opened(tmp_path, rows="rows = 9000")
    (expected,) = forecasts(db.sql(average, epsilon="0.5"))
    assert expected.basis == FROM_SIZES
    db.sql(average, epsilon="0.5").release()
    (again,) = forecasts(db.sql(average, epsilon="1"))
    assert again.basis == FROM_BEFORE
    assert again.value == pytest.approx(44.5, abs=5)
    assert again.error is not None
    release = db.sql(average, epsilon="1").release()
    assert sorted(halves(release, "m"))[0] <= 1.3 * again.error


def test_a_forecast_never_looks_at_releases_of_others(tmp_path: Path) -> None:
    average = "SELECT town, AVG(age) AS m FROM people GROUP BY town"
    ana, ben = opened(tmp_path, analyst="ana"), opened(tmp_path, analyst="ben")
    before = ben.sql(average, epsilon="2").explain().as_dict()["error_95"]
    ana.sql(average, epsilon="1").release()
    assert ben.sql(average, epsilon="2").explain().as_dict()["error_95"] == before
    assert ana.sql(average, epsilon="2").explain().as_dict()["error_95"] != before
    with pytest.raises(InvalidParameter, match="which is not known"):
        ben.sql(average, within=1)
    assert ana.sql(average, within=3).wished


def test_forecasts_take_any_question_and_never_charge(tmp_path: Path) -> None:
    db = opened(tmp_path, share=20)
    db.measure()
    spent = db.ledger.spent.amount
    for sql in (
        "SELECT kind, MEDIAN(cents) AS m, STDDEV(cents) AS s FROM buys GROUP BY kind",
        "SELECT HISTOGRAM(kind) AS h FROM buys",
        "SELECT ENTROPY(kind) AS h, MODE(kind) AS m FROM buys",
        "SELECT kind, COUNT(*) AS n FROM buys GROUP BY ROLLUP (kind) ORDER BY n DESC LIMIT 2",
        "SELECT AVG(n) AS m FROM (SELECT person, COUNT(*) AS n FROM buys GROUP BY person) AS t",
        "SELECT town, SUM(cents) AS s FROM buys JOIN people USING (person) WHERE kind = 'x' GROUP BY town",
        "SELECT n + 1 AS x FROM (SELECT COUNT(*) AS n FROM people) AS t",
        "SELECT SUM(cents) / COUNT(DISTINCT person) AS r, COUNT(*) FILTER (WHERE kind = 'x') / COUNT(*) AS s "
        "FROM buys",
        "SELECT kind, COUNT(DISTINCT person) AS n FROM buys GROUP BY kind HAVING COUNT(*) > 10",
    ):
        question = db.sql(sql, epsilon="0.01")
        for each in (*forecasts(question), *forecasts(question, assumes=True)):
            assert each.error is None or each.error >= 0, sql
        assert repr(question.explain())
    assert db.ledger.spent.amount == spent


# From an error to its price ------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ['epsilon = "100"', 'epsilon = "100"\ndelta = "1e-6"', 'rho = "10"'])
def test_within_finds_the_least_price(tmp_path: Path, budget: str) -> None:
    db = opened(tmp_path, budget=budget)
    question = db.sql(TOWNS, within=50)
    (expected,) = forecasts(question)
    assert expected.error is not None
    assert expected.error <= 50
    amount = question.whole.amount
    digits = re.sub(r"[^1-9]", "", f"{float(amount):.12g}")
    assert len(digits) <= 3  # a price that one can say
    spend = {question.price.currency: f"{float(amount) * 0.985:.12f}"}
    (below,) = forecasts(db.sql(TOWNS, **spend))
    assert below.error is not None
    assert below.error > 50
    assert "± 50: " in repr(question)
    release = question.release()
    assert all(half <= 51 for half in halves(release))
    assert any("Asked within ± 50" in note for note in release.notes())
    assert db.sql(TOWNS, within=50).release().cost.amount == 0
    assert db.sql(TOWNS, within=55).release().cost.amount == 0


def test_parts_of_a_number_and_errors_by_name(tmp_path: Path) -> None:
    db = opened(tmp_path, rows="rows = 9000")
    both = "SELECT town, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY town"
    question = db.sql(both, within={"n": "1%", "m": 0.5}, most="5")
    found = {each.column: each for each in forecasts(question)}
    assert found["n"].relative is not None
    assert found["n"].relative <= 0.01
    assert (found["m"].error or math.inf) <= 0.5
    assert db.sql(both, within="n=1%, m=0.5", most="5").whole == question.whole
    assert db.sql(both, within="n=1%", most="5").whole.amount <= question.whole.amount


def test_a_price_above_the_most_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    db = opened(tmp_path, budget='epsilon = "3"\nmost = "0.02"')
    with pytest.raises(InvalidParameter, match=r"--most 0\.0\d+") as refused:
        db.sql(TOWNS, within=50)
    advised = re.search(r'most="([\d.]+)"', str(refused.value))
    assert advised is not None
    assert db.ledger.spent.amount == 0
    assert db.sql(TOWNS, within=50, most=advised[1]).release().cost.amount > 0
    assert db.sql(TOWNS, within=50).release().cost.amount == 0  # paid: nothing to confirm
    text = (tmp_path / "shop.toml").read_text(encoding="utf-8")
    (tmp_path / "shop.toml").write_text(text.replace('most = "0.02"', 'most = "4"'), encoding="utf-8")
    with pytest.raises(sf.PolicyError, match=r"line \d+: budget.most: it is more than the whole"):
        sf.open(tmp_path / "shop.toml")


@pytest.mark.parametrize(
    ("sql", "given", "told"),
    [
        (TOWNS, {"within": 1e-9}, "no price reaches it"),
        (TOWNS, {"within": "0.001"}, "no price reaches it"),
        (TOWNS, {"within": "2%"}, "Give the error in its own unit"),
        (TOWNS, {"within": "m=5"}, "name one of its numbers: n"),
        (TOWNS, {"within": 50, "epsilon": "1"}, "not both"),
        (TOWNS, {"within": 50, "tune": "0.1"}, "not both"),
        (TOWNS, {"most": "1"}, "asked for by their error"),
        (KINDS, {"within": 50}, "sfumato measure"),
        ("SELECT MEDIAN(age) AS m FROM people", {"within": 5}, "depends on the values around it"),
        ("SELECT town, AVG(age) AS m FROM people GROUP BY town", {"within": 1}, "rows = 10000"),
        ("SELECT n + 1 AS x FROM (SELECT COUNT(*) AS n FROM people) AS t", {"within": 1}, "give a price"),
    ],
)
def test_what_cannot_be_told_is_refused_free(
    tmp_path: Path, sql: str, given: dict[str, Any], told: str
) -> None:
    db = opened(tmp_path)
    with pytest.raises(InvalidParameter) as refused:
        db.sql(sql, **given)
    assert told in str(refused.value)
    assert db.ledger.spent.amount == 0


@pytest.mark.parametrize(
    "text", ["", "x", "0", "-3", "nan", "inf", "1e400", "5%%", "n=", "=5", "n=5,n=6", "1_0", "9" * 60, "٣"]
)
def test_what_is_no_error_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r'such as 50 or "2%"'):
        wishes(text)


# What is known of tables ---------------------------------------------------------------------------------


def test_the_owner_measures_before_questions_do_and_anew_after_the_data_changed(tmp_path: Path) -> None:
    db = opened(tmp_path)
    bought = db.measure()
    assert [(each.what, each.changes) for each in bought] == [("buys: rows", 0), ("buys: cents", 0)]
    assert sum(each.charged.amount for each in bought) == 10
    assert all(each.charged.amount == 0 for each in db.measure())
    assert all(each.charged.amount == 0 for each in db.measure(anew=True))  # it is about these data
    assert db.sql(KINDS, epsilon="1").release().cost.amount == 1
    db.data_changed()
    later = opened(tmp_path)
    assert [each.changes for each in later.measure()] == [1, 1]
    explained = later.sql(KINDS, epsilon="1").explain().as_dict()["notes"]
    assert any("before the data last changed (buys: rows; the data have changed once" in n for n in explained)
    assert any("sfumato measure --anew" in note for note in later.sql(KINDS, epsilon="1").release().notes())
    assert [float(each.charged.amount) for each in later.measure(["buys"], anew=True)] == [5, 5]
    fresh = later.sql("SELECT COUNT(*) AS n FROM buys", epsilon="1").release()
    assert not any("last changed" in note for note in fresh.notes())
    assert later.budget.measuring.endswith("10 is spent.")
    with pytest.raises(InvalidParameter, match="name a table with several rows a person: buys"):
        later.measure(["people"])
    with pytest.raises(InvalidParameter, match=r"\[measure\]"):
        opened(tmp_path, share=0).measure()


def test_what_was_not_measured_is_called_noise_only(tmp_path: Path) -> None:
    db = opened(tmp_path, share=0)
    told = "Noise only: it was not measured how much the caps on one person cut"
    question = db.sql(KINDS, epsilon="1")
    assert any(told in note for note in question.explain().as_dict()["notes"])
    assert any(told in note for note in question.release().notes())
    assert not any(told in note for note in db.sql(TOWNS, epsilon="1").release().notes())
    measured = opened(tmp_path)
    assert not any(told in n for n in measured.sql(KINDS, epsilon="2").release().notes())
