"""Chains of joins: what one person can make of them, in rows and in time."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.support import engine, rows_made

import sfumato as sf
from sfumato.queries.relations import FEWEST_JOINED, MOST_JOINED, PAIRS, chains_of, cuts, number_of, sides_of
from sfumato.queries.statement import parse
from sfumato.server.desk.deadlines import deadline

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

pytestmark = pytest.mark.slow  # `make check` leaves it out

POLICY = """
[source]
duckdb = "d.duckdb"

[budget]
epsilon = "1000"

[tables.visits]
unit = "person"
rows_per_person = {rows}
rows = 2_000

[tables.visits.columns]
person = {{ type = "integer" }}
ward = {{ type = "text", keys = ["a", "b"] }}
cost = {{ type = "integer", low = 0, high = 1000 }}

[tables.wards]
public = true

[tables.wards.columns]
ward = {{ type = "text" }}
bed = {{ type = "integer", low = 0, high = 1000 }}
"""
HEAVY = 200_000  # rows of one person; with the square of them no engine would come to an end here
SLOW = 20.0  # seconds; what is measured takes hundredths


def opened(folder: Path, heavy: int = 0, rows: int = 4, partners: int = 1) -> Database:
    """A thousand people with two visits, and perhaps somebody with very many."""
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "d.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 1000 AS person, ['a', 'b'][1 + i % 2] AS ward, i % 7 AS cost"
            f" FROM range(2000) t(i) UNION ALL SELECT 9999, 'a', i FROM range({heavy}) t(i)"
        )
        connection.execute(
            "CREATE TABLE wards AS SELECT ['a', 'b'][1 + i % 2] AS ward, i AS bed"
            f" FROM range({2 * partners}) t(i)"
        )
    (folder / "d.toml").write_text(POLICY.format(rows=rows), encoding="utf-8")
    return sf.open(folder / "d.toml")


def chain(sides: int, condition: str = "", what: str = "COUNT(*)") -> str:
    """A table, joined with itself so often."""
    names = "abcdefghijkl"[:sides]
    joins = " ".join(f"JOIN visits {x} ON a.person = {x}.person{condition.format(x)}" for x in names[1:])
    where = " AND ".join(f"{x}.person = 9999" for x in names)
    return f"SELECT {what} FROM visits a {joins} WHERE {where}"


def pairs(db: Database, sql: str) -> int:
    """How many rows the engine makes, before any of them is counted."""
    ((found,),) = engine(db.source).execute(rows_made(parse(sql, db.policy))).fetchall()
    return int(found)


@pytest.mark.parametrize("rows", [1, 4, 64, 300, 1000, 5000])
@pytest.mark.parametrize("sides", range(2, 13))
def test_what_all_sides_keep_of_a_person_has_a_product_within_the_bound(
    sides: int, rows: int, tmp_path: Path
) -> None:
    db = opened(tmp_path, rows=rows)
    (found,) = chains_of(parse(chain(sides), db.policy).relation)
    kept = cuts(found)
    assert [number_of(side) in kept for side in sides_of(found)] == [True] * sides
    product = math.prod(cut.rows for cut in kept.values())
    assert product <= PAIRS
    wish = min(max(rows, FEWEST_JOINED), MOST_JOINED)
    if sides == 2:
        assert {(cut.rows, cut.alike) for cut in kept.values()} == {(wish, True), (PAIRS // wish, False)}
    else:
        (each,) = {cut.rows for cut in kept.values()}
        assert each == wish or (each + 1) ** sides > PAIRS  # no larger one would do


@pytest.mark.parametrize("sides", range(2, 7))
@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("", "COUNT(*)"),
        (" AND {}.cost >= 0", "COUNT(*)"),
        ("", "SUM(b.cost)"),
        (" AND a.cost <> {}.cost", "COUNT(*)"),
        (" AND a.cost = {}.cost", "COUNT(*)"),
    ],
)
def test_one_person_does_not_decide_how_long_a_chain_takes(
    sides: int, condition: str, what: str, tmp_path: Path
) -> None:
    """Neighbours: with somebody who has very many rows, and without."""
    took = []
    for name, heavy in (("without", 0), ("with", HEAVY)):
        db = opened(tmp_path / name, heavy)
        sql = chain(sides, condition, what)
        assert pairs(db, sql) <= (PAIRS if heavy else 0)
        question = db.sql(sql, epsilon="1")
        began = time.perf_counter()
        db.source.run(db.source.compile(question.plan))
        took.append(time.perf_counter() - began)
    assert took[1] - took[0] < SLOW


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE person IN"
        " (SELECT a.person FROM visits a JOIN visits b USING (person))",
        "SELECT COUNT(*) FROM (SELECT a.person FROM visits a JOIN visits b USING (person) JOIN visits c"
        " USING (person) UNION ALL SELECT a.person FROM visits a JOIN visits b USING (person)) AS t",
        "SELECT COUNT(*) FROM (SELECT a.person, COUNT(*) AS n FROM visits a JOIN visits b USING (person)"
        " GROUP BY a.person) AS t JOIN visits USING (person)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT a.person, a.cost FROM visits a JOIN visits b USING (person)) t"
        " JOIN visits v USING (person) JOIN wards w ON v.ward = w.ward JOIN visits x USING (person)",
    ],
)
def test_chains_in_subqueries_are_bounded_by_themselves(sql: str, tmp_path: Path) -> None:
    db = opened(tmp_path, HEAVY)
    began = time.perf_counter()
    db.source.run(db.source.compile(db.sql(sql, epsilon="1").plan))
    assert time.perf_counter() - began < SLOW


def test_rows_that_are_partners_are_kept_on_both_sides(tmp_path: Path) -> None:
    db = opened(tmp_path, HEAVY)
    sql = chain(3, " AND a.cost = {}.cost")
    assert pairs(db, sql) == 64  # of each side the same ones


def test_people_with_few_rows_are_joined_as_the_engine_would(tmp_path: Path) -> None:
    db = opened(tmp_path)
    joins = " ".join(f"JOIN visits {x} ON a.person = {x}.person" for x in "bc")
    sql = f"SELECT COUNT(*) FROM visits a {joins}"
    assert pairs(db, sql) == 1000 * 2**3
    assert pairs(db, f"{sql} AND a.cost = c.cost") == 1000 * 2**2


def due(db: Database, sql: str) -> float:
    return deadline(db.sql(sql, epsilon="1").plan, db.policy, alike=db.alike)


def test_a_deadline_counts_a_table_as_often_as_it_is_read(tmp_path: Path) -> None:
    db = opened(tmp_path)
    db.policy = replace(db.policy, sizes=(("visits", 1_000_000),))
    found = [due(db, chain(sides)) for sides in (2, 4, 8)]
    assert found == sorted(found)
    assert found[2] >= 8 * found[0]
    union = " UNION ALL ".join(["SELECT person FROM visits"] * 8)
    assert due(db, f"SELECT COUNT(*) FROM ({union}) AS t") >= 4 * due(db, "SELECT COUNT(*) FROM visits")


def test_a_deadline_counts_the_partners_that_a_public_table_gives(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits v JOIN wards w ON v.ward = w.ward"
    twice = f"{sql} JOIN wards x ON w.ward = x.ward"
    inner = "SELECT p.ward FROM wards p JOIN wards q ON p.ward = q.ward WHERE p.bed > 3"
    within = f"SELECT COUNT(*) FROM visits v JOIN ({inner}) AS w ON v.ward = w.ward"
    pair = f"{chain(2)[: -len(' WHERE a.person = 9999 AND b.person = 9999')]} JOIN wards w ON a.ward = w.ward"
    few, many = opened(tmp_path / "few"), opened(tmp_path / "many", partners=500)
    assert {due(few, each) for each in (sql, twice, within, pair)} == {0.5}
    assert due(many, sql) == 4.0  # 10,000 rows, 500 partners each
    assert due(many, pair) >= 64  # 10^6 rows of one person, 500 partners each
    assert min(due(many, twice), due(many, within)) >= 500
    assert due(many, sql.replace("v.ward = w.ward", "v.cost = w.bed AND v.ward = w.ward")) == 0.5  # different
    assert many.alike("wards", "bed") == 1
