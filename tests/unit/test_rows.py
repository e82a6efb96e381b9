"""Which rows a question may be about: each must belong to one unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.relations import Among, Fold, Join, Scan, Union, Where
from sfumato.queries.sql import parse

POLICY = policies.parse(
    """
[source]
duckdb = "x.duckdb"
[budget]
epsilon = "1"
[tables.a]
unit = "pid"
rows_per_person = 2
[tables.a.columns]
pid = "integer"
id = "integer"
x = { type = "integer", low = 0, high = 9 }
[tables.b]
unit = "who"
rows_per_person = 3
[tables.b.columns]
who = "text"
x = { type = "integer", low = 0, high = 9 }
[tables.c]
unit = "a_id -> a.id"
rows_per_person = 5
[tables.c.columns]
a_id = "integer"
y = { type = "integer", low = 0, high = 9 }
[tables.p]
public = true
[tables.p.columns]
x = "integer"
z = { type = "text", keys = ["u", "v"] }
""",
    Path("x.toml"),
)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT COUNT(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b) AS u", "become one person"),
        ("SELECT COUNT(*) FROM a WHERE pid IN (SELECT who FROM b)", "names persons by integer"),
        ("SELECT COUNT(*) FROM a JOIN b ON pid = who", "integer and text"),
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "two people"),
        ("SELECT COUNT(*) FROM a AS s JOIN a AS t ON s.pid = s.pid", "two people"),
        ("SELECT COUNT(*) FROM a AS s JOIN a AS t ON s.id = t.id", "two people"),
        (
            "SELECT COUNT(*) FROM a AS s LEFT JOIN a AS t ON s.pid = t.pid JOIN a AS r ON t.pid = r.pid",
            "two people",
        ),
        ("SELECT COUNT(*) FROM p LEFT JOIN a ON p.x = a.x", "depends on everybody"),
        ("SELECT COUNT(*) FROM a WHERE x IN (SELECT x FROM a)", "rows of other people"),
        ("SELECT COUNT(*) FROM (SELECT x FROM a GROUP BY x) AS u", "different people"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT x FROM a) AS u", "different people"),
        ("SELECT COUNT(*) FROM (SELECT SUM(x) AS s FROM a) AS u", "before there is any noise"),
        ("SELECT COUNT(*) FROM (SELECT pid, x FROM a LIMIT 3) AS u", "LIMIT"),
        ("SELECT pid, COUNT(*) FROM a GROUP BY pid", "one person"),
        ("SELECT COUNT(*) FROM p", "public tables"),
        ("SELECT WIDTH_BUCKET(x, 0, , 5), COUNT(*) FROM a GROUP BY 1", "Nothing was spent"),
        ("SELECT SUM(CEIL()) FROM a", "lacks an argument"),
        ("SELECT BOOL_OR(x > 1) FROM a", "single persons"),
    ],
)
def test_rows_that_would_depend_on_two_units_are_refused_with_the_reason(sql: str, says: str) -> None:
    with pytest.raises(QueryRefused, match=says):
        parse(sql, POLICY)


@pytest.mark.parametrize(
    ("sql", "kind", "rows"),
    [
        ("SELECT COUNT(*) FROM a", Scan, 2),
        ("SELECT COUNT(*) FROM a WHERE x > 1", Where, 2),
        ("SELECT COUNT(*) FROM a AS s JOIN a AS t ON s.pid = t.pid", Join, 4),
        ("SELECT COUNT(*) FROM a JOIN c ON a.id = c.a_id", Join, 10),
        ("SELECT COUNT(*) FROM a JOIN p ON a.x = p.x", Join, 2),
        ("SELECT COUNT(*) FROM p JOIN a ON a.x = p.x", Join, 2),
        ("SELECT COUNT(*) FROM (SELECT pid FROM a UNION ALL SELECT pid FROM a) AS u", Union, 4),
        ("SELECT COUNT(*) FROM (SELECT pid, SUM(x) AS s FROM a GROUP BY pid) AS u", Fold, 1),
        ("SELECT COUNT(*) FROM (SELECT pid, x FROM a GROUP BY pid, x) AS u", Fold, 2),
        ("SELECT COUNT(*) FROM a WHERE pid NOT IN (SELECT pid FROM a WHERE x = 1)", Among, 2),
        ("SELECT COUNT(*) FROM c", Scan, 5),
    ],
)
def test_how_many_rows_of_one_person_weigh_in_full(sql: str, kind: type, rows: int) -> None:
    relation = parse(sql, POLICY).relation
    assert type(relation) is kind
    assert relation.rows == rows
    assert relation.by_person
    assert not relation.public


def test_a_subquery_means_what_it_says_and_makes_no_other_plan() -> None:
    plain = parse("SELECT COUNT(*) FROM a WHERE x > 1 AND id = 3", POLICY)
    nested = parse(
        "WITH s AS (SELECT pid, x AS y, id FROM a WHERE id = 3) SELECT COUNT(*) FROM s WHERE y > 1", POLICY
    )
    assert plain.key == nested.key  # so a stored release answers both


def test_subqueries_that_double_at_every_level_are_refused_and_not_written_out() -> None:
    steps = ["s0 AS (SELECT pid, x AS v FROM a)"]
    steps += [f"s{i} AS (SELECT pid, v + v AS v FROM s{i - 1})" for i in range(1, 40)]
    with pytest.raises(QueryRefused, match=r"too long|as large as"):
        parse(f"WITH {', '.join(steps)} SELECT SUM(v) FROM s39", POLICY)
    joins = ["j0 AS (SELECT pid FROM a)"]
    joins += [
        f"j{i} AS (SELECT l.pid FROM j{i - 1} AS l JOIN j{i - 1} AS r ON l.pid = r.pid)" for i in range(1, 12)
    ]
    with pytest.raises(QueryRefused, match="too many tables"):
        parse(f"WITH {', '.join(joins)} SELECT COUNT(*) FROM j11", POLICY)
