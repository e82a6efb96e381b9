"""Groups that conditions or public tables exclude are not shown; all others are."""

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
duckdb = "shop.duckdb"
[budget]
epsilon = "100000"
[tables.customers]
unit = "id"
rows_per_person = 1
[tables.customers.columns]
id = { type = "integer" }
country = { type = "text", keys = ["US", "DE", "FR", "IN"] }
plan = { type = "text", keys = ["free", "pro"] }
birth = { type = "date", low = 1930-01-01, high = 2009-12-31 }
[tables.orders]
unit = "buyer -> customers.id"
rows_per_person = 40
[tables.orders.columns]
buyer = { type = "integer" }
seen = { type = "timestamp", low = 2023-01-01, high = 2024-12-31 }
amount = { type = "integer", low = 0, high = 99 }
ward = { type = "text", keys = ["er", "icu", "ward", "lab"] }
[tables.wards]
public = true
[tables.wards.columns]
ward = { type = "text" }
beds = { type = "integer", low = 0, high = 100 }
area = { type = "text" }
"""
TABLES = (
    "CREATE TABLE customers AS SELECT i AS id, ['US', 'DE', 'FR', 'IN'][1 + i % 4] AS country, "
    "DATE '1930-01-01' + (i * 29219 // 2999)::INTEGER AS birth, "
    "['free', 'pro', 'secret'][1 + i // 4 % 3] AS plan FROM range(3000) AS t(i)",
    "CREATE TABLE orders AS SELECT i % 3000 AS buyer, TIMESTAMP '2023-01-01' + INTERVAL (i * 37 % 731) DAY "
    "+ INTERVAL (i % 24) HOUR AS seen, i % 100 AS amount, ['er', 'icu', 'ward', 'lab'][1 + i % 4] AS ward "
    "FROM range(40000) AS t(i)",
    "CREATE TABLE wards AS SELECT * FROM (VALUES ('er', 15, 'acute'), ('icu', 8, 'acute'), "
    "('ward', 60, 'care'), ('lab', 0, 'care')) AS v(ward, beds, area)",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Database, duckdb.DuckDBPyConnection]:
    folder: Path = tmp_path_factory.mktemp("shop")
    beside = duckdb.connect()
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        for text in TABLES:
            connection.execute(text)
            beside.execute(text)
    (folder / "shop.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "shop.toml"), beside


@pytest.mark.parametrize(
    "sql",
    [
        "CAST(seen AS DATE) FROM orders WHERE seen >= '2024-06-01' AND seen < '2024-07-01'",
        "CAST(seen AS DATE) FROM orders WHERE seen > '2024-06-01 12:00:00' AND seen <= '2024-06-03'",
        "CAST(seen AS DATE) FROM orders WHERE CAST(seen AS DATE) BETWEEN '2024-06-01' AND '2024-06-05'",
        "DATE_TRUNC('month', seen) FROM orders WHERE YEAR(seen) = 2024",
        "DATE_TRUNC('week', seen) FROM orders WHERE DATE '2024-02-01' <= seen AND seen < DATE '2024-03-01'",
        "MONTH(seen), MONTHNAME(seen) FROM orders",
        "QUARTER(seen), MONTH(seen) FROM orders WHERE MONTH(seen) <> 5",
        "YEAR(seen), MONTH(seen), MONTHNAME(seen), ward FROM orders WHERE ward NOT IN ('er', 'lab')",
        "country FROM customers WHERE country <> 'US'",
        "country, plan FROM customers WHERE plan <> 'free' AND plan <> 'secret'",
        "country FROM customers WHERE country LIKE '%R' OR country = 'IN'",
        "CASE WHEN plan = 'free' THEN 'no' ELSE 'yes' END FROM customers WHERE plan <> 'free'",
        "CASE WHEN plan IN ('free', 'pro') THEN 'known' ELSE 'other' END FROM customers WHERE plan <> 'pro'",
        "YEAR(birth) // 10 * 10 FROM customers",
        "(2024 - YEAR(birth)) // 5 * 5 FROM customers",
        "FLOOR(DATE_DIFF('year', birth, DATE '2024-01-01') / 10) * 10 FROM customers",
        "YEAR(birth) FROM customers WHERE birth >= '1990-01-01'",
        "amount // 10 * 10 FROM orders WHERE amount > 42",
        "amount // 10 * 10, amount > 49 FROM orders",
        "amount % 7 FROM orders WHERE amount = 10 OR amount = 11",
        "w.ward, w.beds FROM orders AS o JOIN wards AS w ON o.ward = w.ward",
        "w.area, w.ward FROM orders AS o JOIN wards AS w ON o.ward = w.ward WHERE w.beds > 5",
        "w.area, w.beds FROM orders AS o LEFT JOIN wards AS w ON o.ward = w.ward WHERE w.area <> 'care'",
        "y, m FROM (SELECT DISTINCT buyer, YEAR(seen) AS y, MONTH(seen) AS m FROM orders "
        "WHERE seen >= '2024-03-01')",
        "nth FROM (SELECT buyer, ROW_NUMBER() OVER (PARTITION BY buyer ORDER BY seen) AS nth FROM orders) "
        "WHERE nth <= 5",
    ],
)
def test_groups_are_those_that_can_occur(sql: str, both: tuple[Database, duckdb.DuckDBPyConnection]) -> None:
    """The tables have rows in each of them."""
    db, beside = both
    keys, _, rest = sql.partition(" FROM ")
    named = ", ".join(f"{key} AS k{i}" for i, key in enumerate(_apart(keys)))
    question = f"SELECT {named}, COUNT(*) AS n FROM {rest} GROUP BY ALL"
    release = db.sql(question, epsilon=20).release()
    ours = {tuple(row.values())[:-3] for row in release.rows()}
    theirs = {row[:-1] for row in beside.execute(question).fetchall()}
    assert ours == {tuple(map(_as_ours, row)) for row in theirs}
    assert db.sql(question, epsilon=20).explain().as_dict()["groups"] == len(ours)


@pytest.mark.parametrize(
    ("key", "condition", "count"),
    [
        ("DATE_TRUNC('hour', seen)", "seen >= '2024-03-01' AND seen < '2024-03-03'", 48),
        ("seen", "seen IN ('2024-03-01 10:00:00', '2024-03-01 11:00:00')", 2),
        ("birth", "birth >= '1930-01-01' AND birth < '1930-01-05'", 4),
        ("birth + 1", "birth BETWEEN '1930-01-01' AND '1930-01-05'", 5),
    ],
)
def test_conditions_make_groups_public(
    key: str, condition: str, count: int, both: tuple[Database, duckdb.DuckDBPyConnection]
) -> None:
    db, beside = both
    table = "orders" if "seen" in key else "customers"
    rest = f"SELECT {key} AS k, COUNT(*) AS n FROM {table}"
    with pytest.raises(sf.QueryRefused, match="are private") as refusal:
        db.sql(f"{rest} GROUP BY k", epsilon=1)
    assert f"WHERE {key} IN (...)" in str(refusal.value)
    sql = f"{rest} WHERE {condition} GROUP BY k"
    rows = {row["k"]: row["n"] for row in db.sql(sql, epsilon=100).release().rows()}
    assert len(rows) == count
    assert all(abs(rows[k] - n) < 3 for k, n in beside.execute(sql).fetchall())


def _apart(keys: str) -> list[str]:
    found, depth = [""], 0
    for letter in keys:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


def _as_ours(value: object) -> object:
    return value


def test_averages_over_groups_leave_out_those_that_cannot_occur(
    both: tuple[Database, duckdb.DuckDBPyConnection],
) -> None:
    db, beside = both
    inner = "SELECT CAST(seen AS DATE) AS d, COUNT(*) AS n FROM orders WHERE seen >= '2024-06-01' GROUP BY d"
    sql = f"SELECT AVG(n), COUNT(*) FROM ({inner} HAVING d < DATE '2024-07-01')"
    ((mean, days),) = beside.execute(sql).fetchall()
    (row,) = db.sql(sql, epsilon=100).release().rows()
    assert row["count"] == days == 30
    assert abs(row["avg_n"] - mean) < 2


def test_totals_are_of_the_groups_that_are_shown(
    both: tuple[Database, duckdb.DuckDBPyConnection],
) -> None:
    db, _ = both
    sql = "SELECT QUARTER(seen) AS q, MONTH(seen) AS m, COUNT(*) AS n FROM orders WHERE YEAR(seen) = 2024 "
    rows = db.sql(f"{sql} GROUP BY ROLLUP (q, m)", epsilon=100).release().rows()
    assert len(rows) == 12 + 4 + 1
    months = [row["n"] for row in rows if row["m"] is not None]
    assert sum(months) == pytest.approx(next(row["n"] for row in rows if row["q"] is None), abs=0.1)


def test_what_was_stored_is_shown_without_them(both: tuple[Database, duckdb.DuckDBPyConnection]) -> None:
    """They are no part of a question's name: a release of all groups answers it still."""
    db, _ = both
    question = db.sql(
        "SELECT country, COUNT(*) FROM customers WHERE country <> 'US' GROUP BY country", epsilon=7
    )
    assert len(question.plan.groups) == 4
    assert len(question.release().rows()) == 3


def test_undeclared_texts_are_not_forgotten(both: tuple[Database, duckdb.DuckDBPyConnection]) -> None:
    """`plan` has a value that is not declared, and which is in a group all the same."""
    db, beside = both
    case = "CASE WHEN plan IN ('free', 'pro') THEN 'known' ELSE 'other' END"
    sql = f"SELECT {case} AS k, COUNT(*) AS n FROM customers WHERE plan NOT IN ('free', 'pro') GROUP BY k"
    ((name, count),) = beside.execute(sql).fetchall()
    (row,) = db.sql(sql, epsilon=100).release().rows()
    assert (row["k"], round(row["n"])) == (name, count)


@pytest.mark.parametrize("shape", ["ROLLUP (country)", "GROUPING SETS ((country), ())", "CUBE (country)"])
def test_a_total_is_there_even_if_no_group_can_be(
    both: tuple[Database, duckdb.DuckDBPyConnection], shape: str
) -> None:
    db, beside = both
    never = "country IS NULL AND country = 'US'"
    sql = f"SELECT country, COUNT(*) AS n FROM customers WHERE {never} GROUP BY {shape}"
    assert beside.execute(sql).fetchall() == [(None, 0)]
    rows = db.sql(sql, epsilon=100).release().rows()
    assert [round(row["n"]) for row in rows if row["country"] is None] == [0]
    alone = sql.replace(shape, "country")
    assert db.sql(alone, epsilon=99).release().rows() == []
