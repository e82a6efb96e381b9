"""Texts in other dialects mean what they mean there, or are refused: each beside what that system answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf
from sfumato.queries.statement import read

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

POLICY = """
[source]
duckdb = "t.duckdb"
[budget]
epsilon = "1000000"
[tables.t]
unit = "row"
[tables.t.columns]
k = { type = "text", keys = ["w", "n", "s"] }
n = { type = "integer", low = 0, high = 10 }
x = { type = "number", low = 0, high = 10 }
d = { type = "date", low = 2024-01-01, high = 2024-12-31 }
a = { type = "timestamp", low = 2024-01-01, high = 2024-12-31 }
b = { type = "timestamp", low = 2024-01-01, high = 2024-12-31 }
f = { type = "boolean" }
s = { type = "text" }
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Eight rows: n is 0 to 7, x is n and a half, d the first eight days of February 2024."""
    folder: Path = tmp_path_factory.mktemp("t")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT ['w', 'n', 's', 's'][1 + i % 4] AS k, i::INTEGER AS n, "
            "(i + 0.5)::DOUBLE AS x, DATE '2024-02-01' + i::INTEGER AS d, i % 2 = 0 AS f, "
            "TIMESTAMP '2024-02-29 23:59:59.900' AS a, TIMESTAMP '2024-03-01 00:00:00.100' AS b, "
            "chr(9) || '12-ab ' AS s FROM range(8) AS t(i)"
        )
    (folder / "t.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "t.toml")


# a value, and what it is in that system: worked out by its documentation
VALUES = (
    # casts to integers: cut in T-SQL, halves away from zero in BigQuery and Snowflake
    ("tsql", "SUM(CAST(x AS INT))", 28),
    ("tsql", "SUM(CAST(CASE WHEN n >= 0 THEN x END AS INT))", 28),
    ("tsql", "SUM(CASE WHEN n > CAST(2.9 AS INT) THEN 1 ELSE 0 END)", 5),
    ("tsql", "SUM(CAST(n / 2.0 AS INT))", 12),
    ("bigquery", "SUM(CAST(x AS INT64))", 36),
    ("bigquery", "SUM(CAST(CASE WHEN n >= 0 THEN x END AS INT64))", 36),
    ("snowflake", "SUM(CASE WHEN n >= 0 THEN x END::INT)", 36),
    ("snowflake", "SUM(IFF(n >= 0, x, 0)::INT)", 36),
    ("mysql", "SUM(CAST(n / 2 AS SIGNED))", 16),
    ("bigquery", "SUM(CAST(f AS INT64))", 4),
    ("tsql", "SUM(CAST(f AS INT))", 4),
    ("snowflake", "SUM(f::INT)", 4),
    ("mysql", "SUM(CAST(f AS SIGNED))", 4),
    # decimals
    ("bigquery", "SUM(CAST(x AS NUMERIC))", 32),
    ("bigquery", "SUM(CASE WHEN CAST(x AS NUMERIC) = 2.5 THEN 1 ELSE 0 END)", 1),
    ("mysql", "SUM(CAST(x AS DECIMAL))", 36),
    ("snowflake", "SUM(CAST(x AS NUMBER))", 36),
    # days and weeks: the first of February 2024 was a Thursday
    ("mysql", "SUM(CASE WHEN DAYOFWEEK(d) = 5 THEN 1 ELSE 0 END)", 2),
    ("mysql", "SUM(CAST(DAYOFWEEK(d) AS DECIMAL))", 5 + 6 + 7 + 1 + 2 + 3 + 4 + 5),
    ("bigquery", "SUM(CAST(EXTRACT(DAYOFWEEK FROM d) AS INT64))", 5 + 6 + 7 + 1 + 2 + 3 + 4 + 5),
    ("snowflake", "SUM(DAYOFWEEK(d))", 4 + 5 + 6 + 0 + 1 + 2 + 3 + 4),
    ("mysql", "SUM(CASE WHEN WEEK(d, 3) = 6 THEN 1 ELSE 0 END)", 4),
    ("mysql", "SUM(CASE WHEN YEARWEEK(d, 3) = 202405 THEN 1 ELSE 0 END)", 4),
    ("bigquery", "SUM(CASE WHEN EXTRACT(ISOWEEK FROM d) = 6 THEN 1 ELSE 0 END)", 4),
    ("tsql", "SUM(CASE WHEN DATEPART(ISO_WEEK, d) = 6 THEN 1 ELSE 0 END)", 4),
    ("snowflake", "SUM(CASE WHEN WEEKISO(d) = 6 THEN 1 ELSE 0 END)", 4),
    # full units, and borders
    ("bigquery", "SUM(CASE WHEN TIMESTAMP_DIFF(b, a, SECOND) = 0 THEN 1 ELSE 0 END)", 8),
    ("mysql", "SUM(CASE WHEN TIMESTAMPDIFF(SECOND, a, b) = 0 THEN 1 ELSE 0 END)", 8),
    ("mysql", "SUM(CASE WHEN TIMESTAMPDIFF(DAY, '2024-01-31 12:00:00', a) = 29 THEN 1 ELSE 0 END)", 8),
    ("mysql", "SUM(CASE WHEN TIMESTAMPDIFF(HOUR, d, '2024-02-09') = 24 THEN 1 ELSE 0 END)", 1),
    ("tsql", "SUM(CASE WHEN DATEDIFF(second, a, b) = 1 THEN 1 ELSE 0 END)", 8),
    # texts
    ("tsql", "SUM(CASE WHEN CAST(d AS VARCHAR(7)) = '2024-02' THEN 1 ELSE 0 END)", 8),
    ("mysql", "SUM(CASE WHEN CAST(k AS CHAR(1)) = 's' THEN 1 ELSE 0 END)", 4),
    ("mysql", "SUM(CASE WHEN LENGTH(TRIM(s)) = 6 THEN 1 ELSE 0 END)", 8),
    ("snowflake", "SUM(CASE WHEN LENGTH(TRIM(s)) = 6 THEN 1 ELSE 0 END)", 8),
    ("bigquery", "SUM(CASE WHEN LENGTH(TRIM(s)) = 5 THEN 1 ELSE 0 END)", 8),
    ("bigquery", "SUM(CASE WHEN REGEXP_EXTRACT(s, r'[x]*') = '' THEN 1 ELSE 0 END)", 8),
    ("bigquery", "SUM(CASE WHEN REGEXP_EXTRACT(s, r'[a-z]+') = 'ab' THEN 1 ELSE 0 END)", 8),
    ("bigquery", "SUM(CASE WHEN REGEXP_EXTRACT(s, r'([0-9])-') IS NULL THEN 1 ELSE 0 END)", 0),
    ("bigquery", "SUM(CASE WHEN REGEXP_EXTRACT(s, r'zzz') IS NULL THEN 1 ELSE 0 END)", 8),
    ("mysql", "SUM(CASE WHEN LEFT(LEFT(s, n - 1), n - 2) = '' THEN 1 ELSE 0 END)", 3),
)


@pytest.mark.parametrize(("dialect", "value", "truth"), VALUES)
def test_a_value_is_what_it_is_there(dialect: str, value: str, truth: int, db: Database) -> None:
    (row,) = db.sql(f"SELECT {value} AS v FROM t", epsilon=5000, dialect=dialect).release().rows()
    assert round(row["v"], 1) == truth


@pytest.mark.parametrize(
    ("dialect", "condition"),
    [
        ("bigquery", "FORMAT_TIMESTAMP('%F', b, 'America/New_York') = '2024-02-29'"),
        ("bigquery", "REGEXP_EXTRACT(s, r'[a-z]', 1, 2) = 'b'"),
        ("bigquery", "FORMAT_DATE('%e', d) = ' 1'"),
        ("bigquery", "CAST(x AS BIGNUMERIC) = 1"),
        ("tsql", "FORMAT(d, 'MMMM', 'de-DE') = 'Dezember'"),
        ("tsql", "FORMAT(d, 'y-MM') = '24-01'"),
        ("tsql", "FORMAT(d, 'YYYY') = '2024'"),
        ("tsql", "DATETRUNC(week, d) = '2024-02-05'"),
        ("tsql", "DATEDIFF(week, a, b) = 1"),
        ("tsql", "DATEDIFF(y, '2024-02-01', d) = 1"),
        ("tsql", "DATEADD(w, 1, d) > '2024-02-08'"),
        ("tsql", "DATENAME(day, d) = '1'"),
        ("mysql", "WEEK(d) = 5"),
    ],
)
def test_what_is_something_else_there_is_refused(dialect: str, condition: str, db: Database) -> None:
    with pytest.raises(sf.QueryRefused):
        db.sql(f"SELECT COUNT(*) FROM t WHERE {condition}", epsilon=1, dialect=dialect)


@pytest.mark.parametrize("dialect", ["tsql", "mysql"])
def test_names_that_double_each_other_are_read_at_once(dialect: str) -> None:
    """It took twice as long for every further name: with sixty the age of the universe."""
    doubled = ", ".join(f"x{i} + x{i} AS x{i + 1}" for i in range(60))
    start = time.perf_counter()
    read(f"SELECT {doubled}, x60 / 2 - 1 AS y FROM (SELECT COUNT(*) AS x0 FROM t) AS q", dialect)
    assert time.perf_counter() - start < 60
