"""Sums of x, x + 1 and 2 - x are measured once, and mean what SQL says; what is stored stays what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.unit.test_above import alike, exactly

import sfumato as sf
from sfumato.queries import rewrite

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """
[source]
duckdb = "t.duckdb"
[budget]
epsilon = "1000"
delta = "0.001"
[tables.t]
unit = "id"
rows_per_person = 50
[tables.t.columns]
id = "integer"
n = { type = "integer", low = -20, high = 100 }
x = { type = "number", low = 0, high = 10 }
m = { type = "number", low = 0, high = 10 }
w = { type = "text", keys = ["a", "b"] }
"""


@pytest.fixture
def db(tmp_path: Path) -> Database:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i % 40 AS id, CASE WHEN i % 7 > 0 THEN (i * 13 % 121)::INTEGER - 20 "
            "END AS n, (i * 17 % 40) / 4.0::DOUBLE AS x, CAST((i % 36) / 4.0 AS DECIMAL(4, 2)) AS m, "
            "['a', 'b'][1 + i % 2] AS w FROM range(400) AS r(i)"
        )
    (tmp_path / "t.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(tmp_path / "t.toml")


@pytest.mark.parametrize(
    ("sql", "measures"),
    [
        ("SELECT SUM(n), SUM(n + 1), SUM(2 - n), COUNT(n + 3), COUNT(*) FROM t", 1),
        ("SELECT w, AVG(n - 5), SUM(3 * n + 2), SUM(-n) FROM t GROUP BY w ORDER BY w", 1),
        ("SELECT SUM(x + 0.5), SUM(0.25 - x), AVG(x) FROM t", 1),
        ("SELECT SUM(m + 0.25), SUM(1 - m), COUNT(*) FROM t", 1),
        ("SELECT VARIANCE(n), VARIANCE(7 - n), STDDEV_POP(2 * n), SUM(n + 1) FROM t", 1),
        ("SELECT " + ", ".join(f"SUM(n + {i})" for i in range(90)) + " FROM t", 1),
        ("SELECT SUM(n + 1) FILTER (WHERE w = 'a'), SUM(n + 2) FROM t", 2),
        ("SELECT SUM(2 * x), SUM(x) FROM t", 2),  # whose steps are others
        ("SELECT SUM(n), SUM(x + n) FROM t", 2),
    ],
)
def test_values_that_differ_by_a_number_are_measured_once(db: Database, sql: str, measures: int) -> None:
    assert len(db.sql(sql, epsilon="1").plan.measures) == measures
    found = exactly(db, sql)
    assert found is not None
    theirs = db.source._cursor().execute(sql).fetchall()  # type: ignore[attr-defined]
    for mine, other in zip(found, theirs, strict=True):
        plain = [each if isinstance(each, str) else float(each) for each in other]
        assert all(alike(a, b) for a, b in zip(mine, plain, strict=True)), (mine, other)


def test_what_was_stored_with_a_measure_each_stays_free_and_the_same(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT SUM(n + 1), SUM(n + 2), AVG(n) FROM t"
    with monkeypatch.context() as before:
        before.setattr(rewrite, "_of_bases", list)
        first = db.sql(sql, epsilon="1").release()
        assert len(first.plan.measures) == 3
    again = db.sql(sql, epsilon="1").release()
    assert again.cost.amount == 0
    assert again.rows() == first.rows()


def test_and_what_is_measured_once_is_found_again(db: Database) -> None:
    sql = "SELECT SUM(n + 1), SUM(n + 2) FROM t"
    first = db.sql(sql, epsilon="1").release()
    again = sf.open(db.policy.file).sql(sql, epsilon="1").release()
    assert again.cost.amount == 0
    assert again.rows() == first.rows()
