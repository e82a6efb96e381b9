"""The Postgres server means what PostgreSQL means: a corpus beside a real PostgreSQL, before any noise.

The corpus is every function, condition and aggregate of docs/reference/sql.md on values at the edges of their
types, each by itself and in the places where it can stand, and what only PostgreSQL reads so. Of every
statement one of three things must be true: both give the same numbers; PostgreSQL does not know it; or it is
refused, for free, with what to write instead. `tests.postgres_meaning` asks random questions.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import world
from tests.meaning import Tally
from tests.postgres import serving
from tests.postgres_meaning import BesidePostgres, database, explored
from tests.unit.test_meaning import (
    AGGREGATES,
    COLUMNS,
    CONDITIONS,
    EDGES,
    FUNCTIONS,
    LENGTHS,
    QUESTIONS,
    ROWS,
    TEXTS,
)

from sfumato.errors import QueryRefused
from sfumato.queries import forms, parameters, sql
from sfumato.queries.pgrules import RULES
from sfumato.queries.pgwords import SAME
from sfumato.queries.postgres import _Translation
from sfumato.queries.sql import tree
from sfumato.queries.statement import parse, read
from sfumato.queries.syntax import ARGUMENTS, Text
from sfumato.server.catalog.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.parameters import Given
    from sfumato.queries.pgtypes import PgType
    from sfumato.queries.syntax import Node

# What PostgreSQL reads in a way of its own.
ITS_OWN = (
    "SELECT COUNT(*) FROM t WHERE n / 2 = 3",
    "SELECT COUNT(*) FROM t WHERE n / k = 3",
    "SELECT SUM(n / 7), SUM(-n / 7), SUM(n / -7), SUM(n % 7), SUM(-n % 7) FROM t",
    "SELECT SUM(n / 2.0), SUM(n / CAST(2 AS DOUBLE PRECISION)), SUM(n * 1.0 / 7) FROM t",
    "SELECT n / 10 AS g, COUNT(*) FROM t GROUP BY n / 10",
    "SELECT n / 10 AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT N / 10 AS G, Count(*) FROM T GROUP BY 1",
    "SELECT COUNT(*) FROM t WHERE (n + k) / 2 = 1",
    "SELECT COUNT(*) FROM t WHERE (n + 0.0) / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE n::numeric / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE CAST(n AS NUMERIC) / 4 = 1.75",
    "SELECT COUNT(*) FROM t WHERE n::float8 / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE CAST(n AS FLOAT) / 3 > 2.3",
    "SELECT COUNT(*) FROM t WHERE CAST(SIGN(n) * 2.5 AS INT) = 2 OR ROUND(SIGN(n) * 2.5) = 2",
    "SELECT COUNT(*) FROM t WHERE CAST(ROUND(x) + 0.5 AS INT) = 0",
    "SELECT COUNT(*) FROM t WHERE ROUND(n) * 0.1 = 0.3 OR SIGN(n) * m * 100 = 29 OR ROUND(n) * m = 0.87",
    "SELECT COUNT(*) FROM t WHERE CAST(NULLIF(m, 0::float8) AS INT) = 2",
    "SELECT COUNT(*) FROM t WHERE CAST(COALESCE(m, SIGN(n)) AS INT) = 2",
    "SELECT COUNT(*) FROM t WHERE CASE WHEN ok THEN m ELSE ROUND(n) END * 100 = 29",
    "SELECT SUM(ROUND(DATE_PART('month', d) / 2)), SUM(CAST(DATE_PART('month', d) / 2 AS INT)) FROM t",
    "SELECT COUNT(*) FROM t WHERE DATE_PART('month', d) * 0.1 = 0.3",
    "SELECT COUNT(*) FROM t WHERE DATE_PART('year', d) / 10 * 10 = 2024",
    "SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(m, 0, 1, 100) = 30",
    "SELECT WIDTH_BUCKET(m, 0, 0.5, 50) AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT SUM(WIDTH_BUCKET(m, 0.01, 0.31, 30)), SUM(WIDTH_BUCKET(m, -0.5, 1.5, 7)) FROM t",
    "SELECT COUNT(*) FROM t WHERE n / 1000000000000000000 = 0 OR n / 0000000000000000002 = 3",
    "SELECT ROUND(VARIANCE(n)), ROUND(STDDEV(m)) FROM t WHERE n IN (7, 8)",
    "SELECT COUNT(*) FROM t WHERE EXTRACT(YEAR FROM d) / 10 = 202.4",
    "SELECT COUNT(*) FROM t WHERE DATE_PART('year', d) / 10 = 202.4",
    "SELECT COUNT(*) FROM t WHERE FLOOR(n) / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE ROUND(n) / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE SIGN(n) / 2 = 0.5",
    "SELECT COUNT(*) FROM t WHERE ABS(n) / 2 = 3",
    "SELECT COUNT(*) FROM t WHERE LENGTH(w) / 2 = 1",
    "SELECT COUNT(*) FROM t WHERE COALESCE(n, 0) / 2 = 3",
    "SELECT COUNT(*) FROM t WHERE COALESCE(n, 0.0) / 2 = 3.5",
    "SELECT COUNT(*) FROM t WHERE CASE WHEN ok THEN n ELSE 0 END / 2 = 0",
    "SELECT COUNT(*) FROM t WHERE LEAST(n, 7) / 2 = 3",
    "SELECT COUNT(*) FROM t WHERE NULLIF(n, 3) / 2 = 3",
    "SELECT COUNT(*) FROM t WHERE CAST(x AS INTEGER) / 2 = 1",
    "SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(n, -100, 100, 10) / 2 = 2",
    "SELECT COUNT(*) FROM t WHERE m / 3 = 0.5",
    "SELECT COUNT(*) FROM t WHERE m / 0.5 = 3",
    "SELECT COUNT(*) FROM t WHERE m / 0.07 = 1",
    "SELECT COUNT(*) FROM t WHERE m / n = 0.5",
    "SELECT COUNT(*) FROM t WHERE FLOOR(m / 0.07) = 1",
    "SELECT SUM(CAST(n / 2.0 AS INTEGER)), SUM(CAST(x / 2 AS INTEGER)), SUM(CAST(m AS INTEGER)) FROM t",
    "SELECT SUM(ROUND(x)), SUM(ROUND(m)), SUM(ROUND(m, 1)), SUM(ROUND(n, -1)), SUM(ROUND(n / 2.0)) FROM t",
    "SELECT COUNT(*) FROM t WHERE ROUND(x) = 2",
    "SELECT COUNT(*) FROM t WHERE m * 1e2 = 29",
    "SELECT COUNT(*) FROM t WHERE m + 1e-1 = 0.39",
    "SELECT COUNT(*) FROM t WHERE m = 29e-2",
    "SELECT ROUND(AVG(x)), ROUND(AVG(m)), ROUND(SUM(x)), ROUND(SUM(n)) FROM t",
    "SELECT ROUND(AVG(x)::numeric, 2), AVG(m)::numeric(10, 1), CAST(AVG(n) AS DECIMAL(8)) FROM t",
    "SELECT SUM(n) / COUNT(*), AVG(n) / 2, SUM(m) / COUNT(m), SUM(x) / COUNT(*) FROM t",
    "SELECT 100.0 * COUNT(n) / COUNT(*), 1.0 * COUNT(*) / 2 FROM t",
    "SELECT COUNT(*) FROM t WHERE TRIM(s) = 'Ab'",
    "SELECT COUNT(*) FROM t WHERE BTRIM(s) = 'Ab'",
    "SELECT COUNT(*) FROM t WHERE CAST(s AS VARCHAR(2)) = 'ab'",
    "SELECT COUNT(*) FROM t WHERE s::varchar(1) = 'a'",
    "SELECT COUNT(*) FROM t WHERE s LIKE 'a%' AND s NOT LIKE '%c'",
    "SELECT COUNT(*) FROM t WHERE s IS NOT NULL AND n NOTNULL",
    "SELECT COUNT(*) FROM t WHERE n ISNULL OR NOT s IS NULL",
    "SELECT COUNT(*) FROM t WHERE DATE_TRUNC('month', d) = '2024-02-01'",
    "SELECT COUNT(*) FROM t WHERE DATE_TRUNC('month', z) = '2024-02-01 00:00:00'",
    "SELECT COUNT(*) FROM t WHERE CAST(DATE_TRUNC('year', d) AS DATE) = '2024-01-01'",
    "SELECT COUNT(*) FROM t WHERE z::date = '2024-02-29'",
    "SELECT COUNT(*) FROM t WHERE EXTRACT(DOW FROM d) = 0 OR EXTRACT(ISODOW FROM d) = 1",
    "SELECT COUNT(*) FROM a JOIN b USING (ID) WHERE A.V / 2 = 1",
    "SELECT COUNT(*) FROM (SELECT id, COUNT(*) / 2 AS c FROM b GROUP BY id) AS f WHERE c = 1",
    "SELECT COUNT(*) FROM (SELECT id, SUM(x) / 2 AS c FROM b GROUP BY id) AS f WHERE c = 2.5",
    "SELECT COUNT(*) FROM (SELECT id, MAX(x) / 2 AS c FROM b GROUP BY id) AS f WHERE c = 2",
    "SELECT COUNT(*) FROM (SELECT id, AVG(r) AS c FROM b GROUP BY id) AS f WHERE c > 2.5",
    "SELECT COUNT(*) FROM (SELECT id, AVG(r) AS c FROM b GROUP BY id) AS f WHERE FLOOR(c) = 4",
    "SELECT SUM(c / 2) FROM (SELECT id, COUNT(*) AS c FROM b GROUP BY id) AS f",
    "SELECT SUM(c / 2) FROM (SELECT id, SUM(x) AS c FROM b GROUP BY id) AS f",
    "WITH f AS (SELECT id, SUM(CASE WHEN x > 1 THEN 1 ELSE 0 END) AS c FROM b GROUP BY id)"
    " SELECT COUNT(*) FROM f WHERE c / 2 = 0",
    "SELECT SUM(u / 2) FROM (SELECT id, v AS u FROM a UNION ALL SELECT id, x AS u FROM b) AS f",
    "SELECT COUNT(*) FROM a LEFT JOIN (SELECT id, x / 2 AS h FROM b) AS f USING (id) WHERE h IS NULL",
    "SELECT COUNT(*) FROM a WHERE id IN (SELECT id FROM b WHERE x / 2 = 2)",
    "SELECT w, COUNT(*) AS n FROM t WHERE w IS NOT NULL GROUP BY w ORDER BY n DESC, w",
    "SELECT w, AVG(n) AS mean FROM t GROUP BY w ORDER BY mean DESC NULLS LAST",
    "SELECT COUNT(*) FILTER (WHERE n / 2 = 3), SUM(n / 2) FILTER (WHERE ok) FROM t",
    "SELECT COUNT(*) FROM t HAVING SUM(n) / COUNT(*) > 2.5",
)
# What both read, and not in the same way: refused, and what is advised instead.
REFUSED = (
    ("SELECT COUNT(*) / 2 FROM t", "SELECT 1.0 * COUNT(*) / 2 FROM t"),
    ("SELECT COUNT(n) / COUNT(*) FROM t", "SELECT 1.0 * COUNT(n) / COUNT(*) FROM t"),
    ("SELECT SUM(CASE WHEN ok THEN 1 ELSE 0 END) / COUNT(*) FROM t",
     "SELECT 1.0 * SUM(CASE WHEN ok THEN 1 ELSE 0 END) / COUNT(*) FROM t"),
    ("SELECT w, COUNT(*) FROM t GROUP BY w HAVING COUNT(*) / 2 > 1",
     "SELECT w, COUNT(*) FROM t GROUP BY w HAVING 1.0 * COUNT(*) / 2 > 1"),
    ("SELECT COUNT(*) FROM t WHERE m / 3 * 3 = 0.5", "SELECT COUNT(*) FROM t WHERE m * 3 / 3 = 0.5"),
    ("SELECT COUNT(*) FROM t WHERE m / 3 = x",
     "SELECT COUNT(*) FROM t WHERE CAST(m AS DOUBLE PRECISION) / 3 = x"),
    ("SELECT COUNT(DISTINCT n / 3.0) FROM t",
     "SELECT COUNT(DISTINCT CAST(n AS DOUBLE PRECISION) / 3) FROM t"),
    ("SELECT SUM(CAST(x AS NUMERIC(8, 2))) FROM t", "SELECT SUM(ROUND(x, 2)) FROM t"),
    ("SELECT SUM(SQRT(ABS(m))) FROM t", "SELECT SUM(SQRT(CAST(ABS(m) AS DOUBLE PRECISION))) FROM t"),
    ("SELECT COUNT(*) FROM t WHERE EXTRACT(SECOND FROM z) = 59",
     "SELECT COUNT(*) FROM t WHERE SECOND(z) = 59"),
    (r"SELECT COUNT(*) FROM t WHERE s LIKE 'a\_c'", "SELECT COUNT(*) FROM t WHERE CONTAINS(s, 'a_c')"),
    ("SELECT COUNT(*) FROM t WHERE CAST(s AS CHAR(3)) = 'abc'",
     "SELECT COUNT(*) FROM t WHERE LEFT(s, 3) = 'abc'"),
    ("SELECT COUNT(*) FROM t WHERE CAST(FLOOR(x) AS TEXT) = '2'",
     "SELECT COUNT(*) FROM t WHERE CAST(CAST(FLOOR(x) AS BIGINT) AS TEXT) = '2'"),
    ("SELECT COUNT(*) FROM t WHERE CAST(DATE_TRUNC('month', d) AS TEXT) = '2024-02-01'",
     "SELECT COUNT(*) FROM t WHERE CAST(CAST(DATE_TRUNC('month', d) AS DATE) AS TEXT) = '2024-02-01'"),
    ("SELECT COUNT(*) FROM t WHERE CAST(x AS REAL) * 100 = 29",
     "SELECT COUNT(*) FROM t WHERE CAST(x AS DOUBLE PRECISION) * 100 = 29"),
    ("SELECT COUNT(*) FROM t WHERE CAST(x AS FLOAT(24)) = 0.07",
     "SELECT COUNT(*) FROM t WHERE CAST(x AS FLOAT(25)) = 0.07"),
    ("SELECT COUNT(*) FROM t WHERE z::timestamp(0) = '2023-03-01 00:00:00'",
     "SELECT COUNT(*) FROM t WHERE z = '2023-03-01 00:00:00'"),
    ("SELECT COUNT(*) FROM t WHERE z < '2023-02-28 23:59:59.9999996'",
     "SELECT COUNT(*) FROM t WHERE z < '2023-02-28 23:59:59.999999'"),
    ("SELECT COUNT(*) FROM t WHERE n / 3.0 = 0.3333333333333",
     "SELECT COUNT(*) FROM t WHERE n / 3.0 = 0.333333333"),
    ("SELECT COUNT(*) FROM t WHERE CAST(COALESCE(d, DATE_TRUNC('month', d)) AS TEXT) = '2024-02-29'",
     "SELECT COUNT(*) FROM t WHERE CAST(d AS TEXT) = '2024-02-29'"),
    ('WITH "F" AS (SELECT id, x AS u FROM b), f AS (SELECT id, r AS u FROM b) SELECT SUM(u) FROM "F"',
     "WITH F AS (SELECT id, x AS u FROM b), g AS (SELECT id, r AS u FROM b) SELECT SUM(u) FROM f"),
    ('WITH "B" AS (SELECT id, r * 2 AS r FROM b) SELECT SUM(r) FROM b',
     "WITH c AS (SELECT id, r * 2 AS r FROM b) SELECT SUM(r) FROM b"),
    ("SELECT COUNT(*) FROM t WHERE CAST(n / 3.0 AS DOUBLE PRECISION) = CAST(n AS DOUBLE PRECISION) / 3",
     "SELECT COUNT(*) FROM t WHERE CAST(n / 3.0 AS DOUBLE PRECISION) > 0.5"),
    ("SELECT COUNT(*) FROM t WHERE COALESCE(n / 3.0, x) = 2", "SELECT COUNT(*) FROM t WHERE n / 3.0 = 2"),
    ("SELECT COUNT(*) FROM t WHERE m - 0.28999999999999999999 > 0",
     "SELECT COUNT(*) FROM t WHERE m - 0.289999999999999 > 0"),
    ("SELECT COUNT(*) FROM t WHERE LEAST(m, 0.28999999999999999999) = 0.29",
     "SELECT COUNT(*) FROM t WHERE LEAST(x, CAST(0.28999999999999999999 AS DOUBLE PRECISION)) = 0.29"),
    ("SELECT COUNT(*) FROM t WHERE n = 1 LIMIT$1", "SELECT COUNT(*) FROM t WHERE n = 1 LIMIT 1"),
    ('SELECT w, COUNT(*) AS "N", SUM(n) AS n FROM t GROUP BY w ORDER BY n',
     'SELECT w, COUNT(*) AS "N", SUM(n) AS total FROM t GROUP BY w ORDER BY total'),
    ("SELECT SUM(v / 2) FROM (SELECT id, r AS v FROM b) AS f JOIN (SELECT id, r * 1.0 AS v FROM b) AS g"
     " USING (id, v)",
     "SELECT SUM(f.v / 2) FROM (SELECT id, r AS v FROM b) AS f JOIN (SELECT id, r * 1.0 AS v FROM b) AS g"
     " ON f.id = g.id AND f.v = g.v"),
    ("SELECT FLOOR(SUM(n) / 3 * 3) FROM t", "SELECT FLOOR(SUM(n) * 3 / 3) FROM t"),
    ("SELECT COUNT(*) FROM t HAVING SUM(n) / 3 * 3 = 10",
     "SELECT COUNT(*) FROM t HAVING SUM(n) * 3 / 3 = 10"),
    ("SELECT SUM(CEIL()) FROM t", "SELECT SUM(CEIL(x)) FROM t"),
    ("SELECT CEIL(AVG(n), 1) FROM t", "SELECT CEIL(AVG(n)) FROM t"),
    ("SELECT COUNT(*) + 1_000 FROM t", "SELECT COUNT(*) + 1000 FROM t"),
    ("SELECT COUNT(*) FROM t WHERE n == 1", "SELECT COUNT(*) FROM t WHERE n = 1 AND s <> '=='"),
    ("SELECT COUNT(*), FROM t", "SELECT COUNT(*) FROM t"),
)  # fmt: skip


def corpus() -> Iterator[str]:
    """Every statement, once."""
    for each in FUNCTIONS:
        yield f"SELECT SUM({each}) FROM t"
        yield f"SELECT COUNT({each}), AVG({each}) FROM t"
        yield f"SELECT COUNT(*) FROM t WHERE {each} > 1"
    for each in LENGTHS:
        yield f"SELECT SUM({each}) FROM t"
    for each in TEXTS:
        yield f"SELECT COUNT({each}), COUNT(DISTINCT {each}) FROM t WHERE {each} > 'a'"
        yield f"SELECT {each} AS g, COUNT(*) FROM t GROUP BY g"
    for each in CONDITIONS:
        yield f"SELECT COUNT(*) FROM t WHERE {each}"
        yield f"SELECT COUNT_IF({each}), COUNT_IF(NOT ({each})), COUNT_IF(({each}) IS NULL) FROM t"
    for each in AGGREGATES:
        for n, m in (("n", "x"), ("x", "m"), ("m", "n")):
            yield f"SELECT {each.format(n=n, m=m)} FROM t"
        yield f"SELECT w, {each.format(n='n', m='m')} FROM t GROUP BY w"
    yield from QUESTIONS
    yield from ITS_OWN


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BesidePostgres]:
    with serving() as server:
        place = world(EDGES, COLUMNS, {})
        made = BesidePostgres(place, ROWS, tmp_path_factory.mktemp("edges"), uri=database(server))
        yield made
        made.close()


def test_postgresql_says_the_same_or_it_is_refused(beside: BesidePostgres) -> None:
    """At least 400 agree; at most one in ten of what the other dialect accepts is refused here."""
    agreed, refused, unknown, wrong = [], [], [], []
    for text in dict.fromkeys(corpus()):
        tally = Tally()
        found = beside.differences(text, tally)
        if tally.refused:
            refused.append((text, tally.reasons))
        elif tally.failed:
            unknown.append((text, tally.reasons))
        elif found:
            wrong.append((text, [str(each) for each in found]))
        else:
            agreed.append(text)
    assert wrong == []
    assert len(agreed) >= 400
    accepted = [text for text, _ in refused if _is_read(text, beside)]
    assert len(accepted) <= (len(agreed) + len(unknown) + len(refused)) / 10, Counter(
        reason for text, reasons in refused if text in accepted for reason in reasons
    )
    assert [text for text in ITS_OWN if text not in agreed] == []


def _is_read(text: str, beside: BesidePostgres) -> bool:
    try:
        parse(text, beside.place.policy)
    except QueryRefused:
        return False
    return True


@pytest.mark.parametrize(("text", "advised"), REFUSED)
def test_what_is_refused_has_another_meaning_and_the_advice_is_accepted(
    text: str, advised: str, beside: BesidePostgres
) -> None:
    with pytest.raises(QueryRefused) as refusal:
        parse(text, beside.place.policy, dialect="postgres")
    assert refusal.value.advice
    assert parse(advised, beside.place.policy, dialect="postgres")


@pytest.mark.slow
def test_random_questions_mean_what_postgresql_says() -> None:
    tally = Tally()
    found = [str(each) for each in explored("ci", 250, tally)]
    assert found == []
    assert tally.compared > 500


def test_every_node_has_a_rule_or_means_the_same() -> None:
    """What is accepted in one dialect is not passed through in the other without a thought."""
    queries = {
        *("Select", "With", "CTE", "Union", "Subquery", "From", "Join", "Table", "TableAlias", "Alias"),
        *("Column", "Identifier", "Literal", "Case"),
    }
    theirs = {
        "DateAdd",
        "ToDays",
        "ApproxDistinct",
        "LengthOfTime",
        *("Entropy", "Histogram"),  # calls by a name that PostgreSQL does not know, and so of no type there
    }  # which PostgreSQL has not, and which are refused there, or where their type matters
    assert set(ARGUMENTS) - set(RULES) - set(SAME) - queries == theirs


# One reading a statement ----------------------------------------------------------------------------------


VALUES = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(-1e9, 1e9).map(lambda x: round(x, 6)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.booleans(),
    st.none(),
    st.dates(),
    st.datetimes(),
    st.decimals(-(10**6), 10**6, places=3),
    st.decimals(-(10**6), 10**6, places=0),
)


@given(first=VALUES, second=st.lists(VALUES, max_size=3), dialect=st.sampled_from(["duckdb", "postgres"]))
def test_a_value_in_its_place_is_read_as_if_it_were_typed(
    first: Given, second: list[Given], dialect: sql.Dialect
) -> None:
    text = "SELECT COUNT(*) FROM t WHERE a = $1 AND b = ANY ($2) OR c > $1"
    bound = read(text, dialect).bound((first, second))
    assert _plain(bound.tree) == _plain(tree(bound.sql, dialect))
    assert bound.sql == parameters.bind(text, (first, second), dialect)


def _plain(node: Node) -> object:
    """A tree without places, and without what is empty in it."""
    found: dict[str, object] = {}
    for name, value in node.arguments.items():
        if isinstance(value, list):
            found[name] = [_plain(each) for each in value]
        elif value or isinstance(value, bool):
            found[name] = value if isinstance(value, (str, bool)) else _plain(value)
    return node.kind, {name: value for name, value in found.items() if value not in (False, [])}


def test_a_refusal_points_into_the_text_that_was_sent() -> None:
    text = "SELECT COUNT(*) FROM t\nWHERE n = $1 AND s = $2 AND nn = 3"
    statement = read(text, "postgres").bound((12345678, "long " * 20))
    with pytest.raises(QueryRefused) as refusal:
        statement.plan(world(EDGES, COLUMNS, {}).policy)
    assert refusal.value.span is not None
    start, end = refusal.value.span
    assert refusal.value.sql[start:end] == "nn"
    with pytest.raises(QueryRefused, match="line 2, column 10") as refusal:
        read("SELECT COUNT(*) FROM t\nWHERE $1 ) ( $2", "postgres")
    assert refusal.value.span is not None
    assert refusal.value.sql[refusal.value.span[0]] == ")"


def test_a_value_has_the_type_that_the_client_gave_it(beside: BesidePostgres) -> None:
    policy, text = beside.place.policy, "SELECT COUNT(*) FROM t WHERE n / $1 = 3.5"
    plans = [read(text, "postgres").bound((value,)).plan(policy) for value in (2, Decimal(2), 2.0)]
    shown = [forms.meaning(plan, policy) for plan in plans]
    assert forms.meaning(parse("SELECT COUNT(*) FROM t WHERE n // 2 = 3.5", policy), policy) == shown[0]
    assert forms.meaning(parse("SELECT COUNT(*) FROM t WHERE n / 2 = 3.5", policy), policy) == shown[1]
    assert shown[2] != shown[0]
    assert [type(plain(value)) for value in (2, Decimal(2), Decimal("0.1"), 2.0)] == [
        int,
        Decimal,
        Decimal,
        float,
    ]
    bound = read(text, "postgres").bound((Decimal(2),))
    assert forms.meaning(read(bound.sql, "postgres").plan(policy), policy) == shown[1]


@pytest.mark.parametrize(
    ("condition", "types"),
    [
        ("n / 2.0 = $1", "numeric"),
        ("n = $1 / 2", "int4"),
        ("LENGTH(w) > $1", "int4"),
        ("EXTRACT(YEAR FROM d) = $1", "numeric"),
        ("DATE_PART('year', d) = $1", "float8"),
        ("z::date = $1", "date"),
        ("n::text = $1", "text"),
        ("CASE WHEN ok THEN n ELSE $1 END = 7", "int8"),
        ("WIDTH_BUCKET(n, 0, 100, $1) = 1", "int4"),
        ("n = ANY ($1)", "int8"),
        ("m BETWEEN $1 AND $2", "numeric numeric"),
        ("x > $1 AND s LIKE $2 AND ok = $3", "float8 text boolean"),
        ("z >= $1", "timestamp"),
        ("CAST($1 AS INT) = n", "int4"),
        ("n = 1 LIMIT $1", "int8"),
        ("m > ROUND($1, 1)", "numeric"),
        ("LEFT(s, $1) = LEFT($2, 2)", "int4 text"),
        ("WIDTH_BUCKET(m, $1, $2, 10) = 1", "numeric numeric"),
        ("n / $1 > $2", "int8 int8"),
        ("ok AND $1", "boolean"),
        ("x = ABS($1)", "float8"),
    ],
)
def test_a_value_has_the_type_of_what_it_stands_beside(
    condition: str, types: str, beside: BesidePostgres
) -> None:
    found = read(f"SELECT COUNT(*) FROM t WHERE {condition}", "postgres").types(beside.place.policy)
    assert [found[n].name for n in sorted(found)] == types.split()


def test_names_without_quotes_are_in_lower_case(beside: BesidePostgres) -> None:
    plan = parse(
        'SELECT W AS Ward, COUNT(*) AS "N" FROM T GROUP BY W', beside.place.policy, dialect="postgres"
    )
    assert [output.name for output in plan.outputs] == ["ward", "N"]


def test_rows_without_a_value_come_first_where_postgresql_puts_them(beside: BesidePostgres) -> None:
    for text, first in (
        ("ORDER BY w DESC", True),
        ("ORDER BY w", False),
        ("ORDER BY w DESC NULLS LAST", False),
        ("ORDER BY w NULLS FIRST", True),
    ):
        plan = parse(
            f"SELECT w, COUNT(*) FROM t GROUP BY ROLLUP (w) {text}", beside.place.policy, dialect="postgres"
        )
        assert plan.order[0].nulls_first == first
    duck = parse("SELECT w, COUNT(*) FROM t GROUP BY w ORDER BY w DESC", beside.place.policy)
    assert not duck.order[0].nulls_first


def test_numbers_beside_letters_are_not_taken_for_names() -> None:
    for text in ("SELECT 1_000", "SELECT 12abc FROM t", "SELECT 1.5x FROM t", "SELECT 0x10 FROM t"):
        with pytest.raises(QueryRefused, match="a number is followed"):
            tree(text, "postgres")
    for text in ("SELECT 1e5, t1.x2, '1_0', \"1a\", a1b FROM t1 -- 1_0", "SELECT $1, 1.e2, .5e-1"):
        assert tree(text, "postgres")


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    """Nothing in a text is looked at twice as often for every level that it is nested in."""
    inner = "n"
    for _ in range(30):
        inner = f"CASE {inner} WHEN 1 THEN n / 2 ELSE n END"
    calls = 0
    policy = world(EDGES, COLUMNS, {}).policy

    class Counted(_Translation):
        def typed(self, *given: Any, **more: Any) -> tuple[Node, PgType]:
            nonlocal calls
            calls += 1
            return _Translation.typed(self, *given, **more)

    found = tree(f"SELECT SUM({inner}) FROM t", "postgres")
    Counted(Text("", policy)).query(found, {}, is_released=True)
    assert calls < 40 * 30


def test_random_texts_are_read_or_refused_in_both_dialects() -> None:
    rng = random.Random("texts")
    words = [word for text in itertools.chain(ITS_OWN, QUESTIONS) for word in re.findall(r"\w+|\S", text)]
    policy = world(EDGES, COLUMNS, {}).policy
    for _ in range(400):
        text = "SELECT " + " ".join(rng.choice(words) for _ in range(rng.randint(1, 25)))
        try:
            parse(text, policy, dialect="postgres")
        except QueryRefused:
            continue
