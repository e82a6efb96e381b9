"""What is refused is refused in the analyst's words, with advice that is not refused itself."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fuzz import spelled, world
from tests.support import CLINIC_COLUMNS, POLICIES

from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from sfumato.queries.policy import Policy

OURS = {
    "COUNT_IF",  # words of SQL that a message may use though the text does not
    *("SELECT", "SQL", "YOUR_TABLE", "COUNT", "FROM", "CAST", "LEADING", "TRAILING", "BOTH", "ARRAY", "NULL"),
    *("TRUE", "FALSE", "STRUCT", "POWER", "NOT", "RANDOM", "TRY_CAST", "ORDER", "QUALIFY", "OFFSET", "ANY"),
    *(
        "TIMESTAMPTZ",
        "DATE",
        "TABLESAMPLE",
        "UPDATE",
        "FOR",
        "GROUP",
        "CASE",
        "WHERE",
        "HAVING",
        "JOIN",
        "WITH",
    ),
}
POLICY = """
[source]
duckdb = "x.duckdb"
[budget]
epsilon = "1"
delta = "1e-6"
[tables.t]
unit = "person"
rows_per_person = 3
[tables.t.columns]
person = "integer"
x = { type = "integer", low = 1, high = 100 }
y = { type = "integer", low = 1, high = 100 }
a = { type = "date", low = 1930-01-01, high = 2020-01-01 }
b = { type = "date", low = 1930-01-01, high = 2020-01-01 }
s = { type = "text", keys = ["abc", "b"] }
"""
ADVICE = (  # what messages tell people to write, and where it goes
    ("SELECT {} FROM t", "COUNT(*)"),
    ("SELECT {} FROM t", "EXP(SUM(LN(x)))"),
    ("SELECT {} FROM t", "AVG(POWER(x, 3)), AVG(x), VARIANCE(x)"),
    ("SELECT {} FROM t", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)"),
    ("SELECT {} FROM t", "QUANTILE_CONT(x, 0.9)"),
    ("SELECT {} FROM t", "COUNT_IF(x > 3)"),
    ("SELECT {} FROM t", "1.0 * COUNT(x) / COUNT(*)"),
    ("SELECT AVG({}) FROM t", "LN(x) / 2.302585092994046e0"),
    ("SELECT AVG({}) FROM t", "GREATEST(x, 1)"),
    ("SELECT AVG({}) FROM t", "LEAST(LENGTH(s), 200)"),
    ("SELECT AVG({}) FROM t", "CAST(FLOOR(x) AS INTEGER) // 2"),
    ("SELECT s, COUNT(*) FROM t GROUP BY s, {}", "FLOOR(x / 10)"),
    ("SELECT COUNT(*) FROM t GROUP BY {}", "WIDTH_BUCKET(x, 0, 100, 10)"),
    ("SELECT COUNT(*) FROM t GROUP BY {}", "ROLLUP(x, s)"),
    ("SELECT COUNT(*) FROM t GROUP BY {}", "GROUPING SETS ((x, s), (x), ())"),
    ("SELECT COUNT(*) FROM t WHERE {}", "EXTRACT(YEAR FROM AGE(a, b)) >= 18"),
    ("SELECT COUNT(*) FROM t WHERE {}", "DATE_DIFF('day', b, a) > 3"),
    ("SELECT COUNT(*) FROM t WHERE {}", "a + INTERVAL '1' DAY > DATE '2024-01-31'"),
    ("SELECT COUNT(*) FROM t WHERE {}", "a - b <= 30"),
    ("SELECT COUNT(*) FROM t WHERE {}", "s LIKE 'a%' OR REGEXP_MATCHES(s, '^a')"),
    ("SELECT COUNT(*) FROM t WHERE {}", "CONTAINS(s, 'a_b') OR STARTS_WITH(s, 'a_b')"),
    ("SELECT COUNT(*) FROM t WHERE {}", "x IN (1, 2, 3) OR x = ANY (ARRAY[1, 2, 3])"),
    ("SELECT COUNT(*) FROM t WHERE {}", "LEFT(s, STRPOS(s, '@') - 1) = SUBSTRING(s, STRPOS(s, '@') + 1)"),
    ("SELECT COUNT(*) FROM t WHERE {}", "x IS NULL OR TRIM(s, ' .') = 'abc'"),
    ("SELECT COUNT(*) FROM t WHERE {}", "person IN (SELECT person FROM t WHERE x > 3)"),
    ("SELECT COUNT(*) FROM {}", "(SELECT person, x FROM t UNION ALL SELECT person, y FROM t) AS u"),
    (
        "SELECT COUNT(*) FROM {}",
        "(SELECT person FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY person ORDER BY x) <= 3)",
    ),
    (
        "SELECT COUNT(*) FROM {}",
        "t JOIN (SELECT person, COUNT(*) AS n FROM t GROUP BY person) AS u USING (person)",
    ),
    ("SELECT {}", "x, COUNT(*) FROM t GROUP BY x ORDER BY COUNT(*) DESC"),
)


@pytest.mark.parametrize(("where", "advice"), ADVICE)
def test_what_is_advised_is_answered(where: str, advice: str) -> None:
    parse(where.format(advice), policies.parse(POLICY, Path("x.toml")))


def clinic() -> Policy:
    text = (POLICIES / "clinic.toml").read_text(encoding="utf-8")
    return world(text, CLINIC_COLUMNS, {("wards", "ward"): ("A", "B", "C")}).policy


@pytest.mark.slow
def test_no_message_has_a_name_that_only_the_parser_knows() -> None:
    policy, strange, refused = clinic(), list[tuple[str, str]](), 0
    for sql in spelled(policy, random.Random(20240615)):
        try:
            parse(sql, policy)
        except QueryRefused as error:
            refused += 1
            problem = str(error).split("\n", 1)[0]
            for word in re.findall(r"\b[A-Z][A-Z_]{2,}\b", re.sub(r"'[^']*'", "", problem)):
                if word not in OURS and word.lower() not in sql.lower():
                    strange.append((problem, sql))
    assert refused > 3000
    assert not strange, strange[:5]
