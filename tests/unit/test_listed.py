"""Texts of public tables are keys without saying so: what a public table lists is public."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf
from sfumato.queries import forms
from sfumato.queries.expressions import MOST_LISTED

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """
[source]
duckdb = "visits.duckdb"
[budget]
epsilon = "1000"
delta = "0.01"
[tables.visits]
unit = "person"
rows_per_person = 2
columns = { person = "integer", ward = { type = "text", keys = "wards.ward" }, note = "text" }
[tables.wards]
public = true
columns = { ward = "text", region = "text", remark = "text", floor = "integer" }
"""
ROWS = f"""
CREATE TABLE visits AS
SELECT i % 500 AS person, 'w' || (i % 5) AS ward, 'n' || (i % 3) AS note FROM range(1000) AS t(i);
CREATE TABLE wards AS
SELECT 'w' || i AS ward, CASE WHEN i = 4 THEN NULL WHEN i < 2 THEN 'north' ELSE 'south' END AS region,
  'r' || i AS remark, i AS floor FROM range({MOST_LISTED} + 1) AS t(i);
"""
JOINED = "FROM visits JOIN wards ON visits.ward = wards.ward"
PRIVATE = "the values of .* are private"


@pytest.fixture
def db(tmp_path: Path) -> sf.Database:
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.execute(ROWS)
    (tmp_path / "visits.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(tmp_path / "visits.toml")


def test_they_are_public_keys(db: sf.Database) -> None:
    """Noise moves one of them by a half with probability below 1e-9."""
    rows = db.sql(f"SELECT region, COUNT(*) {JOINED} GROUP BY region", epsilon=100).release().rows()
    assert [(row["region"], round(row["count"])) for row in rows] == [("north", 400), ("south", 400)]
    upper = f"SELECT UPPER(region) AS r, COUNT(*) {JOINED} GROUP BY r ORDER BY r DESC"
    rows = db.sql(upper, epsilon=100).release().rows()
    assert [(row["r"], round(row["count"])) for row in rows] == [("SOUTH", 400), ("NORTH", 400)]
    once = f"SELECT r, COUNT(*) FROM (SELECT DISTINCT person, region AS r {JOINED}) GROUP BY r"
    rows = db.sql(once, epsilon=100).release().rows()
    assert [(row["r"], round(row["count"])) for row in rows] == [("north", 200), ("south", 200)]


def test_by_themselves_they_are_free(db: sf.Database) -> None:
    release = db.sql(f"SELECT DISTINCT region {JOINED}", epsilon=1).release()
    assert [row["region"] for row in release.rows()] == ["north", "south"]
    assert db.ledger.spent.amount == 0


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT remark, COUNT(*) {JOINED} GROUP BY remark",  # too many
        f"SELECT floor, COUNT(*) {JOINED} GROUP BY floor",  # no text
        f"SELECT note, COUNT(*) {JOINED} GROUP BY note",  # not of a public table
        f"SELECT r, COUNT(*) FROM (SELECT person, region AS r {JOINED} UNION ALL SELECT person, note AS r"
        " FROM visits) GROUP BY r",
        f"SELECT r, COUNT(*) FROM (SELECT person, COALESCE(region, note) AS r {JOINED}) GROUP BY r",
        f"SELECT region || note AS r, COUNT(*) {JOINED} GROUP BY r",
    ],
)
def test_what_is_not_listed_stays_private(sql: str, db: sf.Database) -> None:
    with pytest.raises(sf.QueryRefused, match=PRIVATE):
        db.sql(sql, epsilon=1)
    assert db.sql(sql, epsilon=1, delta="1e-6").plan.private_keys


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) {JOINED} WHERE region = 'north'",
        f"SELECT region, COUNT(*) {JOINED} WHERE region IN ('north', 'west') GROUP BY region",
        f"SELECT region = 'north' AS n, COUNT(*) {JOINED} GROUP BY n",
        f"SELECT ward, COUNT(*) {JOINED} GROUP BY ward",
    ],
)
def test_other_questions_keep_their_names(sql: str, db: sf.Database) -> None:
    question = db.sql(
        sql.replace("SELECT ward", "SELECT visits.ward").replace("BY ward", "BY visits.ward"), epsilon=1
    )
    assert question.keys_of(4) == question.keys


def test_what_was_private_means_the_same(db: sf.Database) -> None:
    question = db.sql(f"SELECT region, COUNT(*) {JOINED} GROUP BY region", epsilon=1, delta="1e-6")
    assert question.keys_of(4) != question.keys
    assert question.was_meant(4)
    assert question.statement is not None
    then = question.statement.plan(db.policy, reading=4)
    assert then.private_keys
    assert forms.meaning(then, db.policy) == forms.meaning(question.declared, db.policy)
