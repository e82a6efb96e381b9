"""HISTOGRAM and ENTROPY: how many rows have each public value, from one vector, and how far that is known."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf
from sfumato.curator.ends import entropy, function_ends
from sfumato.curator.release import Cell
from sfumato.errors import QueryRefused

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """
[source]
duckdb = "clinic.duckdb"
[budget]
epsilon = "1000000"
least = "0.001"
[tables.visits]
unit = "patient"
rows_per_person = 4
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["a", "b", "c"] }
level = { type = "integer", low = 1, high = 3 }
ok = { type = "boolean" }
age = { type = "integer", low = 0, high = 110 }
"""
ROWS = (
    "SELECT i AS patient, CASE WHEN i % 11 = 0 THEN NULL WHEN i % 13 = 0 THEN 'other' "
    "WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS ward, "
    "1 + i % 2 AS level, i % 7 = 0 AS ok, i % 90 AS age FROM range(400) AS r(i)"
)
SHARP = "9000"


@pytest.fixture
def db(tmp_path: Path) -> Database:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS {ROWS}")
    (tmp_path / "clinic.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(tmp_path / "clinic.toml")


def test_a_histogram_is_a_column_for_each_value_and_counts_what_the_engine_counts(db: Database) -> None:
    release = db.sql(
        "SELECT level, HISTOGRAM(ward) AS h, HISTOGRAM(ok) FROM visits GROUP BY level", epsilon=SHARP
    ).release()
    counts = ", ".join(f"COUNT_IF(ward = '{each}')" for each in "abc")
    engine = duckdb.execute(
        f"SELECT level, {counts}, COUNT_IF(NOT ok), COUNT_IF(ok) FROM ({ROWS}) GROUP BY level ORDER BY level"
    ).fetchall()
    names = ["level", "h_a", "h_b", "h_c", "histogram_ok_false", "histogram_ok_true"]
    found = [[row[name] for name in names] for row in release.rows()]
    assert [[round(each) for each in row] for row in found[:2]] == [list(row) for row in engine]
    assert [round(each) for each in found[2]] == [3, 0, 0, 0, 0, 0]  # a public group without rows


def test_the_entropy_is_the_engines_and_shares_the_histograms_price(db: Database) -> None:
    first = db.sql("SELECT HISTOGRAM(ward), ENTROPY(ward) FROM visits", epsilon=SHARP).release()
    (engine,) = duckdb.execute(f"SELECT entropy(ward) FROM ({ROWS}) WHERE ward <> 'other'").fetchone() or ()
    assert first.rows()[0]["entropy_ward"] == pytest.approx(engine, abs=1e-3)
    assert (
        db.sql("SELECT ENTROPY(ward) FROM visits", epsilon=SHARP).release().receipt.number
        == first.receipt.number
    )
    nobody = (
        db.sql("SELECT ENTROPY(ok), HISTOGRAM(ok) FROM visits WHERE age > 100", epsilon="0.1")
        .release()
        .rows()[0]
    )
    assert 0 <= nobody["entropy_ok"] <= 1
    assert (nobody["entropy_ok_low"], nobody["entropy_ok_high"]) == (0, pytest.approx(1))


def test_totals_of_histograms_are_sums_of_what_is_released(db: Database) -> None:
    sql = "SELECT level, HISTOGRAM(ok) AS h, ENTROPY(ok) AS e FROM visits GROUP BY ROLLUP (level)"
    rows = [
        [cell.value for cell in row.values() if isinstance(cell, Cell)]
        for row in db.sql(sql, epsilon="1").release().exact()
    ]
    *parts, whole = [[each for each in row if each is not None] for row in rows]
    for i in range(2):
        assert whole[i] == sum(each[i] for each in parts)
    assert whole[2] == entropy(whole[:2])


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT HISTOGRAM(age) FROM visits", "would be 111 columns"),
        ("SELECT HISTOGRAM(ok) + 1 FROM visits", "cannot be part of something"),
        ("SELECT level FROM visits GROUP BY level ORDER BY HISTOGRAM(ok)", "cannot be part of something"),
        ("SELECT level FROM visits GROUP BY level HAVING HISTOGRAM(ok) > 1", "cannot be part of something"),
        ("SELECT HISTOGRAM(ok), RANK() OVER (ORDER BY COUNT(*)) FROM visits", "nothing is computed from it"),
        ("SELECT ENTROPY(patient) FROM visits", "not public"),
        ("SELECT ENTROPY(DISTINCT ok) FROM visits", "DISTINCT is not supported"),
    ],
)
def test_what_has_no_column_for_each_value_is_refused(db: Database, sql: str, told: str) -> None:
    with pytest.raises(QueryRefused, match=told):
        db.sql(sql, epsilon="0.1")


def test_an_entropy_lies_in_its_interval_for_all_counts_in_theirs() -> None:
    """Every corner of a box of counts, and many points in it; zeros, and boxes below zero, among them."""
    rng = random.Random("entropy")
    for _ in range(600):
        kinds = rng.randrange(1, 5)
        ends = []
        for _ in range(kinds):
            low = rng.choice([-5.0, 0.0, 1.0, 10.0, 1000.0]) * rng.random()
            ends.append((low, low + rng.choice([0.0, 1.0, 30.0, 2000.0]) * rng.random()))
        low, high = function_ends("entropy", ends)
        assert 0 <= low <= high <= math.log2(kinds) + 1e-9
        points = [*itertools.product(*ends), *([rng.uniform(*each) for each in ends] for _ in range(20))]
        for point in points:
            value = float(entropy([max(Fraction(each), Fraction(0)) for each in point]))
            assert low <= value <= high
    assert function_ends("entropy", [(-math.inf, math.inf), (1.0, 2.0)]) == (0.0, 1.0)
    assert function_ends("entropy", [(7.0, 7.0)])[1] < 1e-9  # of one kind there is nothing to say
    wide = function_ends("entropy", [(99.0, 101.0), (99.0, 101.0)])
    assert wide[1] - wide[0] < 0.03  # and the interval is not the whole range
