"""COUNT(DISTINCT x) of a column whose values are public is never shown outside of what there can be."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import sfumato as sf
from sfumato.curator.ends import sure
from sfumato.curator.intervals import Errors
from sfumato.mechanisms import DiscreteLaplace
from sfumato.queries import rewrite
from sfumato.queries.measures import Distinct
from sfumato.queries.plan import Aggregate
from sfumato.queries.shown import Arithmetic, Function, Number, Released, Weighted, Within, unbounded

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database
    from sfumato.curator.release import Release
    from sfumato.queries.shown import Expression

POLICY = """
[source]
duckdb = "shop.duckdb"
[budget]
epsilon = "1000"
least = "0.0001"
[tables.buys]
unit = "person"
rows_per_person = 4
[tables.buys.columns]
person = { type = "integer" }
kind = { type = "text", keys = ["x", "y", "z"] }
tone = { type = "text", keys = ["p", "q"] }
cents = { type = "integer", low = 0, high = 9 }
day = { type = "date", low = 2024-01-01, high = 2024-12-31 }
gift = { type = "boolean" }
note = { type = "text" }
"""


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return opened(tmp_path)


def opened(folder: Path) -> Database:
    if not (folder / "shop.duckdb").exists():
        with duckdb.connect(str(folder / "shop.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE buys AS SELECT i // 4 AS person, ['x', 'y', 'z', 'other'][1 + i % 4] AS kind, "
                "['p', 'q'][1 + i % 2] AS tone, i % 12 AS cents, DATE '2024-01-01' + CAST(i AS INT) AS day, "
                "i % 3 = 0 AS gift, 'n' || i AS note FROM range(40) AS r(i)"
            )
    (folder / "shop.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "shop.toml")


def read(release: Release, *drawn: list[int]) -> list[dict[str, Any]]:
    """The rows, as if this had been drawn."""
    return replace(release, drawn=tuple(map(tuple, drawn))).rows()


KNOWN = [
    ("kind", "", 3),
    ("cents", "", 10),
    ("day", "", 366),
    ("gift", "", 2),
    ("cents // 5", "", 2),
    ("CASE WHEN gift THEN kind END", "", 3),
    ("EXTRACT(month FROM day)", "", 12),
    ("kind", " WHERE kind IN ('x', 'z', 'v')", 2),
    ("note", " WHERE note IN ('n1', 'n2')", 2),
    ("note", "", None),
    ("(kind, tone)", "", None),
    ("person", "", None),
]


@pytest.mark.parametrize(("value", "where", "most"), KNOWN)
def test_there_are_as_many_values_as_there_would_be_groups(
    value: str, where: str, most: int | None, db: Database
) -> None:
    plan = db.sql(f"SELECT COUNT(DISTINCT {value}) AS n FROM buys{where}", epsilon=1).plan
    shown = plan.outputs[0].expression
    if most is None:
        assert isinstance(shown, Weighted)
        return
    assert shown == Within(Weighted(((Fraction(1), Released(0, 0)),)), Fraction(0), Fraction(most))
    if value != "CASE WHEN gift THEN kind END" and not where.startswith(" WHERE note"):
        grouped = db.sql(f"SELECT {value} AS k, COUNT(*) FROM buys{where} GROUP BY k", epsilon=1).plan
        assert len(grouped.groups) == most


def test_number_and_interval_stay_within(db: Database) -> None:
    release = db.sql("SELECT COUNT(DISTINCT kind) AS n FROM buys", epsilon=1).release()
    found = [read(release, [drawn])[0] for drawn in (-40, 2, 40)]
    assert [row["n"] for row in found] == [0, 2, 3]
    assert found[0] == {"n": 0, "n_low": 0, "n_high": 0}
    assert found[1] == {"n": 2, "n_low": 0, "n_high": 3}
    assert found[2] == {"n": 3, "n_low": 3, "n_high": 3}


def test_it_is_the_same_number_in_having_order_and_arithmetic(db: Database) -> None:
    sql = (
        "SELECT gift, COUNT(DISTINCT kind) AS n, COUNT(DISTINCT kind) * 2 - 1 AS m, "
        "100 / COUNT(DISTINCT kind) AS r, COUNT(DISTINCT kind) - COUNT(DISTINCT tone) AS d FROM buys "
        "GROUP BY gift {} ORDER BY n DESC, gift"
    )
    release = db.sql(sql.format(""), epsilon=1).release()
    rows = read(release, [50, 60], [-7, 9])
    assert [row["n"] for row in rows] == [3, 3]  # a tie, in which the keys decide
    assert [row["gift"] for row in rows] == [False, True]
    assert [row["m"] for row in rows] == [5, 5]
    assert [row["r"] for row in rows] == [pytest.approx(100 / 3, abs=0.5)] * 2
    assert [row["d"] for row in rows] == [3, 1]
    for row in rows:
        for name in ("n", "m", "r", "d"):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
        assert row["n_high"] <= 3
        assert row["m_high"] <= 5
        assert row["d_low"] >= -2
        assert row["d_high"] <= 3
    kept = db.sql(sql.format("HAVING COUNT(DISTINCT kind) <= 3"), epsilon=1).release()
    assert kept.cost.amount == 0
    assert len(read(kept, [50, 60], [-7, 9])) == 2


def test_what_the_data_say_otherwise_is_said_and_not_shown(db: Database) -> None:
    question = db.sql("SELECT COUNT(DISTINCT kind) AS n FROM buys", epsilon=1)
    told = "more values of kind than the 3 that are public count as 3"
    assert told in " ".join(question.explain().as_dict()["notes"])
    assert question.explain().errors() == {"n": "± 3"}
    assert told in " ".join(question.release().notes())
    other = db.sql("SELECT COUNT(DISTINCT note) AS n FROM buys", epsilon=1)
    assert "that are public" not in " ".join(other.explain().as_dict()["notes"])


def test_what_is_added_up_above_is_what_was_released(db: Database) -> None:
    release = db.sql(
        "SELECT SUM(n) AS s, MAX(n) AS top FROM (SELECT gift, COUNT(DISTINCT kind) AS n FROM buys "
        "GROUP BY gift)",
        epsilon=1,
    ).release()
    (row,) = read(release, [30, 2])
    assert row["s"] == 5
    assert row["s_low"] <= 5 <= row["s_high"]
    assert row["top"] == 3


def test_stored_numbers_of_before_are_shown_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [
        "SELECT COUNT(DISTINCT kind) AS n FROM buys",
        "SELECT gift, COUNT(DISTINCT kind) AS n, COUNT(*) AS m FROM buys GROUP BY gift ORDER BY n",
        "SELECT s - k AS n FROM (SELECT COUNT(DISTINCT kind) AS s FROM buys) AS a, "
        "(SELECT COUNT(DISTINCT tone) AS k FROM buys WHERE gift) AS b",
    ]
    with monkeypatch.context() as before:
        before.setattr(rewrite, "_how_many", lambda *_: None)
        db = opened(tmp_path)
        then = [db.sql(sql, epsilon="0.01").release() for sql in questions]
    db = opened(tmp_path)
    spent = db.ledger.spent
    for sql, release in zip(questions, then, strict=True):
        again = db.sql(sql, epsilon="0.01").release()
        assert again.receipt.number == release.receipt.number
        assert again.rows() == release.rows()
        assert "that are public" not in " ".join(again.notes())
    assert db.ledger.spent == spent
    assert max(abs(row["n"]) for release in then for row in release.rows()) > 3  # but once in 10^6


def test_the_form_of_before_means_what_it_meant(db: Database) -> None:
    plan = db.sql("SELECT COUNT(DISTINCT kind) AS n FROM buys", epsilon=1).plan
    (measure,) = plan.measures
    assert isinstance(measure, Distinct)
    assert measure.form == {"distinct": ["column", "t0.kind"], "pairs": 4, "within": 3}
    assert replace(measure, among=None).form == {"distinct": ["column", "t0.kind"], "pairs": 4}
    for each in (measure, replace(measure, among=None)):
        assert Distinct.read(each.form, lambda _: measure.value) == each
    old = rewrite.Rewriting((replace(measure, among=None),))
    assert isinstance(old.shown(Aggregate("distinct", (measure.value,))), Weighted)


# Coverage: every draw of the law, with its exact weight ---------------------------------------------------

ONE = Within(Weighted(((Fraction(1), Released(0, 0)),)), Fraction(0), Fraction(3))
TWO = Within(Weighted(((Fraction(1), Released(1, 0)),)), Fraction(0), Fraction(2))
SHOWN: list[Expression] = [
    ONE,
    Arithmetic("+", ONE, Number(Fraction(1))),
    Arithmetic("-", ONE, TWO),
    Arithmetic("/", ONE, Arithmetic("+", TWO, Number(Fraction(1)))),
    Function("round", (Arithmetic("/", ONE, Number(Fraction(2))), Number(Fraction(0)))),
    Function("largest", (ONE, TWO)),
]


def errors(plan: Database, scale: Fraction) -> Errors:
    measure = plan.sql("SELECT COUNT(DISTINCT kind) FROM buys", epsilon=1).plan.measures[0]
    return Errors((DiscreteLaplace(scale=scale),) * 2, (measure, measure))


@pytest.mark.parametrize("expression", SHOWN)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1)])
def test_intervals_cover_at_least_as_often_as_before(
    expression: Expression, scale: Fraction, db: Database
) -> None:
    """Walked over all draws that weigh anything: no chance is left to a test."""
    found, tail = errors(db, scale), Fraction(1, 10)
    law = DiscreteLaplace(scale=scale)
    reader, before = found.reader(expression, tail), found.reader(unbounded(expression), tail)
    window = law.window(Fraction(1, 10**5) / 2)
    mass = {e: float(law.cdf(e).low) - float(law.cdf(e - 1).low) for e in window}
    least, most = sure(expression)
    for one in range(4):
        for two in range(3):
            exact = found.value(expression, ((one,), (two,)))
            assert exact is not None
            held = formerly = 0.0
            for a, p in mass.items():
                for b, q in mass.items():
                    drawn = ((one + a,), (two + b,))
                    low, high = reader(drawn)
                    value = found.value(expression, drawn)
                    assert value is None or low <= value <= high
                    assert least <= low
                    assert high <= most
                    was = before(drawn)
                    held += p * q * (low <= exact <= high)
                    formerly += p * q * (was[0] <= exact <= was[1])
            assert held >= formerly - 1e-12
            assert held >= 0.9 - 1e-3
            assert math.isclose(sum(mass.values()), 1, abs_tol=1e-4)
