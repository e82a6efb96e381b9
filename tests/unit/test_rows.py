"""Which rows a question may be about: each must belong to one unit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.support import answer, engine, rows_made, texts

import sfumato as sf
from sfumato.errors import PolicyError, QueryRefused
from sfumato.exact.secret import unseal
from sfumato.queries import forms
from sfumato.queries import policy as policies
from sfumato.queries.relations import Among, Fold, Join, Scan, Union, Where
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from sfumato.curator.database import Database

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
        ("SELECT COUNT(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b) AS u", "would be one person"),
        ("SELECT COUNT(*) FROM a WHERE pid IN (SELECT who FROM b)", "identifies people by integer"),
        ("SELECT COUNT(*) FROM a JOIN b ON pid = who", "integer and text"),
        ("SELECT COUNT(*) FROM a JOIN b ON a.x = b.x", "two people"),
        ("SELECT COUNT(*) FROM a AS s JOIN a AS t ON s.pid = s.pid", "two people"),
        (
            "SELECT COUNT(*) FROM a AS s LEFT JOIN a AS t ON s.pid = t.pid JOIN a AS r ON t.pid = r.pid",
            "two people",
        ),
        *(
            (
                f"SELECT COUNT(*) FROM {one} WHERE {word} (SELECT 1 FROM {two} WHERE who = pid{more})",
                "different types",
            )
            for one, two in (("a", "b"), ("b", "a"))
            for word in ("EXISTS", "NOT EXISTS")
            for more in ("", " AND a.x > b.x", " AND a.x <> b.x AND b.x = 3")
        ),
        ("SELECT COUNT(*) FROM p LEFT JOIN a ON p.x = a.x", "depends on everybody"),
        ("SELECT COUNT(*) FROM a WHERE x IN (SELECT x FROM a)", "rows of other people"),
        ("SELECT COUNT(*) FROM (SELECT pid, x FROM a LIMIT 3) AS u", "LIMIT"),
        ("SELECT pid, COUNT(*) FROM a GROUP BY pid", "one person"),
        ("SELECT COUNT(*) FROM p", "public tables"),
        ("SELECT WIDTH_BUCKET(x, 0, , 5), COUNT(*) FROM a GROUP BY 1", "Nothing was spent"),
        ("SELECT SUM(CEIL()) FROM a", "is missing an argument"),
        ("SELECT BOOL_OR(x > 1) FROM a", "single people"),
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
    assert forms.question(plain, POLICY, "") == forms.question(
        nested, POLICY, ""
    )  # so a stored release answers both


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


# Found by attacking it -------------------------------------------------------------------------------

SMALL = """
[source]
duckdb = "small.duckdb"
[budget]
epsilon = "1000"
delta = "0.1"
[tables.person]
unit = "pid"
rows_per_person = 1
[tables.person.columns]
pid = "integer"
n = { type = "integer", low = 0, high = 3 }
m = { type = "integer", low = 0, high = 3 }
u = { type = "integer", low = 0, high = 9 }
w = "text"
"""


def small(folder: Path, rows: str) -> Database:
    folder.mkdir()
    with duckdb.connect(str(folder / "small.duckdb")) as connection:
        connection.execute("CREATE TABLE person (pid INTEGER, n INTEGER, m INTEGER, u INTEGER, w VARCHAR)")
        connection.execute(f"INSERT INTO person VALUES {rows}")
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    return sf.open(folder / "small.toml")


THIRD = "0.33333333333333331"  # times 3 it is below 1, and its double is 1


@pytest.mark.parametrize(
    "aggregate",
    [
        f"MAX(n * {THIRD})",
        f"MEDIAN(n * {THIRD})",
        f"SUM(n * {THIRD} * 1.8189894035458565e-12)",
        f"AVG(n * {THIRD} * 1.8189894035458565e-12)",
        f"VARIANCE(n * {THIRD} * 1.8189894035458565e-12)",
        f"CORR(n * {THIRD} * 1.8189894035458565e-12, m * {THIRD} * 1.8189894035458565e-12)",
        "VARIANCE(3 / GREATEST(n, 1))",
        "MEDIAN(m * 0.7)",
    ],
)
def test_bounds_between_two_doubles_are_those_that_the_engine_clamps_to(
    aggregate: str, tmp_path: Path
) -> None:
    """One step more in the engine than in the plan was an oracle for the presence of a person."""
    one, two = "(1, 0, 0, 0, 'x')", "(2, 3, 3, 0, 'y')"
    without, with_ = small(tmp_path / "a", one), small(tmp_path / "b", f"{one}, {two}")
    sql = f"SELECT {aggregate} AS y FROM person"
    question = without.sql(sql, epsilon=1)
    (before,), (after,) = (
        unseal(db.source.run(db.source.compile(question.plan))).vectors for db in (without, with_)
    )
    moved = [b - a for a, b in zip(before, after, strict=True)]
    claimed = derive(question.plan)[0].distances.presence
    assert claimed.l1 is not None
    assert sum(map(abs, moved)) <= claimed.l1
    assert min(after) >= 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, COUNT(*), AVG(m) FROM person GROUP BY n",
        "SELECT MEDIAN(n) FROM person",
        "SELECT w, COUNT(*) FROM person GROUP BY w",
        "SELECT w, COUNT(DISTINCT pid), COUNT(DISTINCT n) FROM person GROUP BY w",
        "SELECT COUNT(DISTINCT w) FROM person",
        "SELECT SUM(n * 0), SUM(FLOOR(0.1)) FROM person",
        "SELECT COUNT(*)" + " * 1e99" * 30 + " AS x FROM person",
    ],
)
def test_no_name_and_no_constant_makes_a_question_fail_after_the_charge(sql: str, tmp_path: Path) -> None:
    db = small(tmp_path / "x", "(1, 0, 0, 5, 'x'), (2, 3, 3, 6, 'y'), (2, 1, 1, 7, NULL)")
    question = db.sql(sql, epsilon=1, delta="1e-6" if "w," in sql else None)
    assert repr(question.explain())
    assert question.release().text()


def test_a_column_called_like_the_unit_is_not_taken_for_it(tmp_path: Path) -> None:
    db = small(tmp_path / "x", "(7, 1, 1, 3, 'x')")
    inner = "SELECT s.pid, s.u FROM person AS s JOIN person AS t ON s.pid = t.pid"
    sql = f"SELECT SUM(y.u) FROM person AS a LEFT JOIN ({inner}) AS y ON a.pid = y.pid"
    assert unseal(db.source.run(db.source.compile(db.sql(sql, epsilon=1).plan))).vectors == ((3,),)


def test_rows_without_a_value_are_counted_in_128_bits() -> None:
    """In 64 bits the cell for them overflowed at 2^23 rows: one row decided whether a question failed."""
    plan = parse("SELECT COUNT(*), VARIANCE(x) FROM a", POLICY)
    assert "CAST(1296 AS HUGEINT) * CAST(g.a" in texts(plan)[0]


def test_digits_of_a_released_number_are_few() -> None:
    with pytest.raises(QueryRefused, match="whole number"):
        parse("SELECT ROUND(COUNT(*), 99999999) FROM a", POLICY)


def test_tables_called_like_our_own_steps_are_refused() -> None:
    with pytest.raises(PolicyError, match="sfumato_"):
        policies.parse(SMALL.replace("tables.person", "tables.Sfumato_person"), Path("x.toml"))


JOINED = """
[source]
duckdb = "joined.duckdb"
[budget]
epsilon = "100"
[tables.visits]
unit = "pid"
rows_per_person = 1000
columns = { pid = "integer", visit = "integer", ward = "text" }
[tables.labs]
unit = "pid"
rows_per_person = 900
columns = { pid = "integer", visit = "integer", x = { type = "number", low = 0, high = 1 } }
"""


def joined(folder: Path, rows: int) -> Database:
    """One person with so many visits, and as many labs."""
    with duckdb.connect(str(folder / "joined.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE visits AS SELECT 1 AS pid, i AS visit, 'a' AS ward FROM range({rows}) t(i)"
        )
        connection.execute(
            f"CREATE TABLE labs AS SELECT 1 AS pid, i AS visit, 0.5 AS x FROM range({rows}) t(i)"
        )
    (folder / "joined.toml").write_text(JOINED, encoding="utf-8")
    return sf.open(folder / "joined.toml")


@pytest.mark.parametrize(
    ("sql", "pairs"),
    [
        ("SELECT COUNT(*) FROM visits JOIN labs USING (pid, visit)", 1111),
        ("SELECT COUNT(*) FROM visits v LEFT JOIN labs l ON v.pid = l.pid AND v.visit = l.visit", 1111),
        ("SELECT COUNT(*) FROM visits JOIN labs USING (pid)", 900 * 1111),
        ("SELECT COUNT(*) FROM labs JOIN visits USING (pid) WHERE x > 0", 900 * 1111),
        ("SELECT COUNT(*) FROM visits LEFT JOIN labs USING (pid)", 900 * 1111),
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (pid, visit) JOIN labs USING (pid)", 100 * 100),
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (pid) JOIN labs USING (pid)", 100**3),
        (
            "SELECT COUNT(*) FROM visits JOIN (SELECT a.pid FROM visits a JOIN labs USING (pid)) USING (pid)",
            100**3,
        ),
    ],
)
def test_the_pairs_of_a_person_do_not_grow_with_a_square(sql: str, pairs: int, tmp_path: Path) -> None:
    """Two tables in which somebody has a million rows would keep the engine busy for ever: told by time."""
    db = joined(tmp_path, 5000)
    plan = parse(sql, db.policy)
    (found,) = engine(db.source).execute(rows_made(plan)).fetchall()
    assert found == (pairs,)


def test_conditions_choose_among_the_rows_that_are_joined(tmp_path: Path) -> None:
    """Of a rare value all rows are joined, wherever the condition stands; and rows are taken evenly."""
    with duckdb.connect(str(tmp_path / "joined.duckdb")) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS pid, 1 AS visit, 'a' AS ward")
        rare = "CASE WHEN i < 10 THEN 1 WHEN i % 2 = 0 THEN 2 ELSE 3 END"
        connection.execute(
            f"CREATE TABLE labs AS SELECT 1 AS pid, {rare} AS visit, 0.5 AS x FROM range(4000) t(i)"
        )
    (tmp_path / "joined.toml").write_text(JOINED.replace("1000", "900"), encoding="utf-8")
    db = sf.open(tmp_path / "joined.toml")

    def found(sql: str) -> int:
        return answer(db.sql(sql, epsilon=1))[0][0] // 1024

    join = "FROM visits AS v JOIN labs AS l ON v.pid = l.pid"
    for rare in (
        f"SELECT COUNT(*) {join} WHERE l.visit = 1",
        f"SELECT COUNT(*) {join} AND l.visit = 1",
        "SELECT COUNT(*) FROM visits JOIN (SELECT pid, x FROM labs WHERE visit = 1) AS l USING (pid)",
        f"SELECT COUNT(*) FROM (SELECT l.visit AS n {join} WHERE l.visit IN (1, 7)) AS q WHERE n = 1",
    ):
        assert found(rare) == 10
    both = [found(f"SELECT COUNT_IF(l.visit = {n}) {join}") for n in (2, 3)]
    assert sum(both) <= 900
    assert min(both) > 350
    told = repr(db.sql(f"SELECT COUNT(*) {join}", epsilon=1).explain())
    assert "at most 900 rows of labs per person are joined with the same row" in " ".join(told.split())


def test_few_rows_are_joined_in_full_and_which_are_not_depends_on_the_person_alone(tmp_path: Path) -> None:
    db = joined(tmp_path, 800)
    sql = "SELECT COUNT(*) FROM visits JOIN labs USING (pid) WHERE x > 0"
    plan = parse(sql, db.policy)
    assert unseal(db.source.run(db.source.compile(plan))).vectors == (
        (800 * 800 * 1024,),
    )  # of 900,000 that may weigh in full


def test_a_column_that_using_joins_has_one_name(tmp_path: Path) -> None:
    db = joined(tmp_path, 3)
    sql = "SELECT COUNT(DISTINCT pid) FROM visits JOIN labs USING (pid) LEFT JOIN visits AS b USING (pid)"
    assert unseal(db.source.run(db.source.compile(parse(sql, db.policy)))).vectors == ((1,),)
    parse("SELECT COUNT(DISTINCT b.pid) FROM visits JOIN visits AS b USING (PID)", db.policy)
    nobody = "(SELECT pid FROM visits WHERE FALSE) AS v"
    sql = f"SELECT COUNT(pid) FROM (SELECT * FROM labs LEFT JOIN {nobody} USING (pid))"
    assert unseal(db.source.run(db.source.compile(parse(sql, db.policy)))).vectors == ((3 * 1024,),)
    with pytest.raises(QueryRefused, match="visit is a column of several tables"):
        parse("SELECT COUNT(visit) FROM visits JOIN labs USING (pid)", db.policy)


def test_decimals_of_one_person_never_overflow_and_their_old_sums_answer_nothing(tmp_path: Path) -> None:
    """A person with many rows of the widest decimals: 128 bits would not hold their sum."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS pid, 1000::DECIMAL(12, 6) AS m FROM range(400)")
    policy = tmp_path / "d.toml"
    policy.write_text(
        '[source]\nduckdb = "d.duckdb"\n[budget]\nepsilon = "1"\n'
        '[tables.t]\nunit = "pid"\nrows_per_person = 9\n'
        '[tables.t.columns]\npid = "integer"\nm = { type = "number", low = 0, high = 1000 }\n',
        encoding="utf-8",
    )
    db = sf.open(policy)
    for fold in ("SUM", "AVG"):
        totals = f"FROM (SELECT pid, {fold}(m * m * m * m) AS s FROM t GROUP BY pid)"
        wide = db.sql(f"SELECT AVG(s) {totals}", epsilon="0.1").plan
        assert any(map(any, unseal(db.source.run(db.source.compile(wide))).vectors))
        with pytest.raises(QueryRefused, match="more digits than are computed with"):
            db.sql(f"SELECT COUNT(*) {totals} WHERE s > 1", epsilon="0.1")
        plain = db.sql(f"SELECT AVG(s) FROM (SELECT pid, {fold}(m) AS s FROM t GROUP BY pid)", epsilon="0.1")
        assert plain.plan.repairs == ("sums of one person",)


WIDE = """[source]
duckdb = "wide.duckdb"
[budget]
epsilon = "100"
[tables.v]
unit = "pid"
rows_per_person = 3
[tables.v.columns]
pid = { type = "integer" }
x = { type = "number" }
note = { type = "text" }
y = { type = "number", low = 0, high = 9 }
"""


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM v WHERE CAST(x AS FLOAT) > 10",
        "SELECT COUNT(DISTINCT CAST(x AS REAL)) FROM v",
        "SELECT COUNT(*) FROM (SELECT pid, MAX(CAST(x AS FLOAT)) AS m FROM v GROUP BY pid) AS f WHERE m > 3",
        "SELECT COUNT(*) FROM v WHERE CAST(LEAST(x, 3) AS FLOAT) < 1",
        "SELECT COUNT(*) FROM v WHERE NULLIF(note, NULL) IS NULL",
        "SELECT COUNT(*) FROM v WHERE NULLIF(x, NULL) > 3",
    ],
)
def test_no_row_decides_whether_a_cast_fails(sql: str, tmp_path: Path) -> None:
    """A double that no FLOAT holds, and a text that is no truth value: in both engines, with and without."""
    with duckdb.connect(str(tmp_path / "wide.duckdb")) as connection:
        connection.execute("CREATE TABLE v (pid BIGINT, x DOUBLE, note VARCHAR, y DOUBLE)")
        connection.execute("INSERT INTO v VALUES (1, 2, 'a', 1), (2, 1e39, 'abc', 2), (3, -1e308, '', 3)")
        connection.execute(
            "INSERT INTO v VALUES (4, 'nan', NULL, 1), (5, 'inf', 'true', 2), (6, NULL, 'x', 3)"
        )
    (tmp_path / "wide.toml").write_text(WIDE, encoding="utf-8")
    db = sf.open(tmp_path / "wide.toml")
    plan = db.sql(sql, epsilon=1).plan
    assert unseal(db.source.run(db.source.compile(plan))).vectors
    for text in texts(plan):
        assert engine(db.source, plain=True).execute(text).fetchall()


def test_a_literal_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    policy = policies.parse(WIDE, tmp_path / "wide.toml")
    with pytest.raises(QueryRefused, match="too large"):
        parse("SELECT COUNT(*) FROM v WHERE x > CAST(1e39 AS FLOAT)", policy)


def test_many_levels_are_written_out_or_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "wide.duckdb")) as connection:
        connection.execute("CREATE TABLE v (pid BIGINT, x DOUBLE, note VARCHAR, y DOUBLE)")
    (tmp_path / "wide.toml").write_text(WIDE, encoding="utf-8")
    db = sf.open(tmp_path / "wide.toml")
    for levels in (10, 18, 24, 40):
        ctes = ["c0 AS (SELECT pid, y AS z FROM v)"]
        ctes += [f"c{i + 1} AS (SELECT pid, {'-(' * 10}z{')' * 10} AS z FROM c{i})" for i in range(levels)]
        sql = f"WITH {', '.join(ctes)} SELECT SUM(z) FROM c{levels}"
        try:
            question = db.sql(sql, epsilon=1)
        except QueryRefused:
            assert levels > 20
            continue
        assert question.release().rows()
