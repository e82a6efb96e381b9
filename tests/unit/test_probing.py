"""Tools ask for names and types with questions that have no rows: those are of the policy, and free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf
from sfumato.errors import QueryRefused

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """name = "ward"
[source]
duckdb = "ward.duckdb"
[budget]
epsilon = "1"
[tables.visits]
unit = "pid"
rows_per_person = 2
[tables.visits.columns]
pid = { type = "integer" }
name = { type = "text" }
cost = { type = "number", low = 0, high = 10 }
day = { type = "date", low = 2024-01-01, high = 2024-12-31 }
[tables.wards]
public = true
[tables.wards.columns]
ward = { type = "text" }
"""
VISITS = [("pid", "integer"), ("name", "text"), ("cost", "number"), ("day", "date")]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder: Path = tmp_path_factory.mktemp("ward")
    with duckdb.connect(str(folder / "ward.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (pid INT, hidden INT, name TEXT, cost DOUBLE, day DATE)")
        connection.execute("INSERT INTO visits VALUES (1, 2, 'ann', 3, '2024-05-06')")
        connection.execute("CREATE TABLE wards AS SELECT 'north' AS ward")
    (folder / "ward.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "ward.toml")


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM visits LIMIT 0", VISITS),
        ("SELECT * FROM visits WHERE 1 = 0", VISITS),
        ("SELECT * FROM visits WHERE (0 = 1)", VISITS),
        ("SELECT * FROM visits WHERE FALSE LIMIT 5", VISITS),
        ("SELECT * FROM (SELECT * FROM visits) t WHERE 1=0", VISITS),
        ("WITH v AS (SELECT pid, day FROM visits) SELECT * FROM v LIMIT 0", [VISITS[0], VISITS[3]]),
        ("SELECT v.cost, cost + 1 AS c FROM visits v WHERE cost > 3 LIMIT 0", [VISITS[2], ("c", "number")]),
        ("SELECT a.pid AS p, b.* FROM visits a JOIN visits b ON a.pid = b.pid LIMIT 0",
         [("p", "integer"), *VISITS]),
        ("SELECT * FROM wards LIMIT 0", [("ward", "text")]),
        ("SELECT * FROM visits a JOIN visits b USING (pid) LIMIT 0",
         [*VISITS, *((f"{name}_2", kind) for name, kind in VISITS[1:])]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_names_and_types_are_told_for_free(
    db: Database, sql: str, columns: list[tuple[str, str]], dialect: str
) -> None:
    question = db.sql(sql, epsilon="0.1", dialect=dialect)
    assert "price epsilon 0," in " ".join(repr(question.explain()).split())
    release = question.release()
    assert release.rows() == []
    assert [(each.name, each.kind) for each in release.plan.columns] == columns
    assert db.budget.spent.amount == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM visits",
        "SELECT * FROM visits LIMIT 1",
        "SELECT * FROM visits WHERE 1 = 1",
        "SELECT * FROM visits WHERE 1 = 1 OR 1 = 0",
        "SELECT * FROM visits WHERE cost = 0",
        "SELECT pid FROM visits WHERE pid = 1",
        "SELECT hidden FROM visits LIMIT 0",
        "SELECT * FROM nosuch LIMIT 0",
        "SELECT nosuch FROM visits WHERE FALSE",
        "SELECT nosuch.* FROM visits LIMIT 0",
        "SELECT * EXCLUDE (nosuch) FROM visits LIMIT 0",
        "SELECT * FROM wards",
    ],
)
def test_whatever_could_show_a_row_is_refused(db: Database, sql: str) -> None:
    with pytest.raises(QueryRefused):
        db.sql(sql, epsilon="0.1")


def test_what_stands_behind_the_star_is_heeded(db: Database) -> None:
    sql = "SELECT v.* EXCLUDE (name) REPLACE (1 AS cost) RENAME (day AS at) FROM visits AS v LIMIT 0"
    release = db.sql(sql, epsilon="0.1").release()
    assert [(each.name, each.kind) for each in release.plan.columns] == [
        ("pid", "integer"),
        ("cost", "integer"),
        ("at", "date"),
    ]
    for wrong in ("REPLACE (1 AS cost) EXCLUDE (cost)", "EXCLUDE (cost, cost)", "RENAME (nosuch AS x)"):
        with pytest.raises(QueryRefused):
            db.sql(f"SELECT COUNT(*) FROM (SELECT * {wrong} FROM visits) AS f", epsilon="0.1")
