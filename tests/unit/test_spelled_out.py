"""Items of SELECT that are named by others, and ends of intervals as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """
[source]
duckdb = "clinic.duckdb"
[budget]
epsilon = "100"
[tables.visits]
unit = "patient"
rows_per_person = 3
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["A", "B"] }
cost = { type = "integer", low = 0, high = 100 }
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder: Path = tmp_path_factory.mktemp("clinic")
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 400 AS patient, ['A', 'B'][1 + i % 2] AS ward, "
            "i % 101 AS cost FROM range(1000) AS t(i)"
        )
    (folder / "clinic.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "clinic.toml")


CASE = "CASE WHEN cost > 5 THEN 'dear' ELSE 'cheap' END"


@pytest.mark.parametrize(
    ("named", "written_out"),
    [
        (
            f"SELECT {CASE} AS b, COUNT(*) AS n, SUM(cost) / n FROM visits WHERE b <> 'x' GROUP BY b",
            f"SELECT {CASE}, COUNT(*), SUM(cost) FROM visits WHERE {CASE} <> 'x' GROUP BY 1",
        ),
        (
            "SELECT ward, COUNT(*) AS n, n * 2 AS m, m / 2 AS k FROM visits GROUP BY ward",
            "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
        ),
        (
            "SELECT AVG(b) FROM (SELECT patient, cost + 1 AS a, a * 2 AS b FROM visits WHERE a > 5)",
            "SELECT AVG(b) FROM (SELECT patient, (cost + 1) * 2 AS b FROM visits WHERE cost + 1 > 5)",
        ),
        (
            "SELECT AVG(d) FROM (SELECT patient, SUM(cost) AS s, s - 1 AS d FROM visits GROUP BY patient)",
            "SELECT AVG(d) FROM (SELECT patient, SUM(cost) - 1 AS d FROM visits GROUP BY patient)",
        ),
    ],
)
def test_an_item_that_is_named_is_written_out(db: Database, named: str, written_out: str) -> None:
    assert db.sql(named, epsilon=1).keys == db.sql(written_out, epsilon=1).keys


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT ward, COUNT(*) AS n FROM visits WHERE n > 2 GROUP BY ward", "WHERE"),
        ("SELECT ward, COUNT(*) AS cost, cost * 2 AS d FROM visits GROUP BY ward", "neither grouped by"),
        ("SELECT later + 1 AS a, COUNT(*) AS later FROM visits", "no column named 'later'"),
    ],
)
def test_what_no_item_before_it_names(db: Database, sql: str, told: str) -> None:
    with pytest.raises(sf.QueryRefused, match=told):
        db.sql(sql, epsilon=1)


def test_postgresql_has_no_such_names(db: Database) -> None:
    sql = "SELECT ward, COUNT(*) AS n, n * 2 AS m FROM visits GROUP BY ward"
    with pytest.raises(sf.QueryRefused, match="no column named 'n'"):
        db.sql(sql, epsilon=1, dialect="postgres")


def test_items_that_double_each_other_end(db: Database) -> None:
    doubled = ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(1, 40))
    with pytest.raises(sf.QueryRefused, match="name each other too often"):
        db.sql(f"SELECT cost AS a1, {doubled}, COUNT(*) FROM visits GROUP BY ALL", epsilon=1)


# Ends of intervals -----------------------------------------------------------------------------------------

ENDS = "DP_INTERVAL_LOW(n) AS low, dp_interval_high(n) AS high"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT ward, COUNT(*) AS n, {ENDS} FROM visits GROUP BY ward ORDER BY ward",
        f"SELECT ward, n, {ENDS} FROM (SELECT ward, 3 * COUNT(*) AS n FROM visits GROUP BY ward)",
        f"SELECT AVG(cost) AS n, {ENDS} FROM visits",
        f"WITH q AS (SELECT ward, COUNT(*) AS c FROM visits GROUP BY ward) SELECT SUM(c) AS n, {ENDS} FROM q",
    ],
)
def test_ends_of_intervals_are_columns(db: Database, sql: str) -> None:
    release = db.sql(sql, epsilon=1).release()
    for level in ("0.95", "0.5"):
        for row in release.rows(level):
            assert (row["low"], row["high"]) == (row["n_low"], row["n_high"])
            assert row["low"] < row["n"] < row["high"]
    assert "low_low" not in release.rows()[0]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (f"SELECT ward, COUNT(*) AS n, {ENDS} FROM visits GROUP BY ward HAVING low > 3", "ends of intervals"),
        (f"SELECT ward, COUNT(*) AS n, {ENDS} FROM visits GROUP BY ward ORDER BY high", "ends of intervals"),
        (f"SELECT DISTINCT n, {ENDS} FROM (SELECT COUNT(*) AS n FROM visits)", "no interval|ends of"),
        (
            "SELECT DP_INTERVAL_LOW(MAX(n)) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
            "no int",
        ),
        ("SELECT 2 * DP_INTERVAL_LOW(COUNT(*)) FROM visits", "outermost SELECT"),
        ("SELECT l FROM (SELECT DP_INTERVAL_LOW(COUNT(*)) AS l FROM visits)", "outermost SELECT"),
        ("SELECT AVG(l) FROM (SELECT patient, DP_INTERVAL_LOW(cost) AS l FROM visits)", "outermost SELECT"),
    ],
)
def test_where_they_are_not_known(db: Database, sql: str, told: str) -> None:
    with pytest.raises(sf.QueryRefused, match=told):
        db.sql(sql, epsilon=1)
