"""What is made of released rows is what the engine makes of its own: without noise, text for text."""

from __future__ import annotations

import datetime
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.meaning import _drawn, as_key

import sfumato as sf
from sfumato.budget import Receipt
from sfumato.curator.calibrate import Calibration
from sfumato.curator.release import Cell, Release
from sfumato.errors import AfterRelease, QueryRefused
from sfumato.exact.secret import unseal
from sfumato.mechanisms import Distance, Distances, Geometric, Guarantee, Step
from sfumato.queries.made import ListedRows, Made, MadeColumn, MadeSelect, MadeSource, ShownRows
from sfumato.sources import apart, confined

if TYPE_CHECKING:
    from sfumato.curator.database import Database

POLICY = """
[source]
duckdb = "shop.duckdb"
[budget]
epsilon = "1000"
least = "0.001"
delta = "0.001"
[tables.sales]
unit = "buyer"
rows_per_person = 50
[tables.sales.columns]
buyer = { type = "integer" }
region = { type = "text", keys = ["north", "south", "west"] }
kind = { type = "text", keys = ["a", "b"] }
day = { type = "date", low = 2024-01-01, high = 2024-03-31 }
amount = { type = "integer", low = 0, high = 100 }
price = { type = "number", low = 0, high = 10 }
shop = { type = "text" }
[tables.regions]
public = true
[tables.regions.columns]
region = { type = "text" }
boss = { type = "text" }
size = { type = "integer", low = 0, high = 10 }
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("shop")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE sales AS SELECT i % 97 AS buyer, ['north', 'south', 'west'][1 + i % 3] AS region, "
            "['a', 'b'][1 + i % 2] AS kind, DATE '2024-01-01' + (i * 7 % 91)::INTEGER AS day, "
            "(i * 13 % 101)::INTEGER AS amount, (i * 17 % 40) / 4.0 AS price, 'shop' || i % 2 AS shop "
            "FROM range(1200) AS t(i)"
        )
        connection.execute(
            "CREATE TABLE regions AS SELECT * FROM (VALUES ('north', 'ann', 3), ('south', 'bob', 5), "
            "('east', 'eve', NULL)) AS v(region, boss, size)"
        )
    (folder / "shop.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "shop.toml")


QUESTIONS = (
    "SELECT 'Q' || QUARTER(day) AS q, CONCAT(region, ' ', MONTH(day)) AS m, COUNT(*) AS n FROM sales "
    "GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT EXTRACT(week FROM day) AS w, ISOYEAR(day) AS y, WEEKOFYEAR(day) AS v, COUNT(*) AS n FROM sales "
    "GROUP BY 1, 2, 3 ORDER BY 1, 2",
    "SELECT YEARWEEK(day) AS w, COUNT(*) AS n FROM sales WHERE DATE_DIFF('week', day, DATE '2024-03-31') < 5 "
    "GROUP BY w ORDER BY w",
    "SELECT DATE_PART('week', d) AS w, DATE_DIFF('week', d, e) AS b FROM (SELECT MIN(day) AS d, "
    "MAX(day) AS e FROM sales)",
    "SELECT CAST(COUNT(*) / 16 + 2.5 AS INTEGER) AS a, CAST(COUNT(*) / 480 + 0.0 AS INTEGER) AS b FROM sales",
    "SELECT ROUND(p * 0 + 1.005, 2) AS a, ROUND(n * 0 + 1.005, 2) AS b FROM (SELECT SUM(price) AS p, "
    "COUNT(*) AS n FROM sales)",
    "SELECT COUNT(*) / 400 * 0.1 * 30 = 9 AS a, COUNT(*) * 0.1 * 3 = 360 AS b FROM sales",
    "SELECT CAST(AVG(n) * 1.0 AS INTEGER) AS a, FLOOR(SUM(n) * 0.29 * 100) AS b, "
    "CAST(MAX(n) * 0.5 AS INTEGER) AS c FROM (SELECT kind, COUNT(*) AS n FROM sales GROUP BY kind)",
    "SELECT CONCAT(ROUND(COUNT(*) / 2, 1), '%') AS a, (COUNT(*) / 1)::VARCHAR AS b, COUNT(*) || 'x' AS c, "
    "SUM(amount)::VARCHAR AS d FROM sales",
    "SELECT region, COUNT(*) AS n, n * 2 AS twice, twice + N AS thrice FROM sales GROUP BY region ORDER BY "
    "thrice",
    "SELECT CASE WHEN amount < 50 THEN 'low' ELSE 'high' END AS band, COUNT(*) AS c, SUM(amount) AS s, "
    "s / c AS mean FROM sales WHERE band <> 'none' GROUP BY band ORDER BY band",
    "SELECT SUM(c) FROM (SELECT amount * 2 AS b, b + 1 AS c FROM sales WHERE b > 10)",
    "SELECT AVG(d) FROM (SELECT buyer, SUM(amount) AS s, COUNT(*) AS n, s - n AS d FROM sales GROUP BY "
    "buyer)",
    "SELECT SUM(e) FROM (SELECT buyer, ROW_NUMBER() OVER (PARTITION BY buyer ORDER BY day, amount) AS r, "
    "r * 2 AS e FROM sales QUALIFY r < 3)",
    "WITH q AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) SELECT region, n * 2 AS m, "
    "m + 1 AS k, SUM(m) OVER () AS t, m / t AS share FROM q WHERE m > 0 ORDER BY k",
    "SELECT region AS kind, kind, COUNT(*) AS n FROM sales GROUP BY region, sales.kind ORDER BY 1, 2",
    "SELECT amount % 3 AS amount, amount % 2 AS rest, COUNT(*) AS n FROM sales GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT MIN(day), MAX(day) FROM sales",
    "SELECT region, MAX(day) - MIN(day) AS days, MIN(day) AS a FROM sales GROUP BY region ORDER BY region",
    "SELECT ROUND(GEOMEAN(amount + 1), 2) AS g, SUM(DISTINCT amount) AS s FROM sales",
    "SELECT FLOOR(COUNT(*) * 0.29 * 100) AS f, CAST(COUNT(*) * 0.00125 AS INTEGER) AS c FROM sales",
    "SELECT ROUND(n * 1.005, 2) AS r, CEIL(n * 0.07) AS c FROM (SELECT COUNT(*) AS n FROM sales)",
    "SELECT DISTINCT ON (region) region, kind, SUM(amount) AS s FROM sales GROUP BY region, kind "
    "ORDER BY region, s",
    "SELECT region, kind, COUNT(*) AS n FROM sales WHERE (region, kind) IN (('north', 'a'), ('south', 'b'), "
    "('south', 'c')) GROUP BY region, kind HAVING COUNT(*) > 0 ORDER BY 1, 2",
    "SELECT MAX(day) + 3 AS later, MIN(day) - INTERVAL 1 MONTH AS before FROM sales",
    "SELECT region, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM sales GROUP BY region",
    "SELECT region, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM sales) AS pct FROM sales GROUP BY region",
    "WITH m AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) SELECT AVG(n), MAX(n), SUM(n) "
    "FROM m",
    "WITH m AS (SELECT region, kind, SUM(amount) AS s FROM sales GROUP BY region, kind) "
    "SELECT region, SUM(s), MIN(s), COUNT(*) FROM m GROUP BY region ORDER BY region",
    "SELECT DATE_TRUNC('month', day) AS m, SUM(amount) AS s, LAG(SUM(amount)) OVER (ORDER BY "
    "DATE_TRUNC('month', day)) AS before FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT DATE_TRUNC('month', day) AS m, SUM(SUM(amount)) OVER (ORDER BY DATE_TRUNC('month', day)) AS "
    "so_far "
    "FROM sales GROUP BY m ORDER BY m",
    "WITH m AS (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM sales GROUP BY 1) "
    "SELECT m, n, n - LAG(n) OVER (ORDER BY m) AS change, n / FIRST_VALUE(n) OVER (ORDER BY m) AS growth "
    "FROM m",
    "SELECT region, kind, SUM(amount) AS s, RANK() OVER (PARTITION BY region ORDER BY SUM(amount) DESC) AS r "
    "FROM sales GROUP BY region, kind ORDER BY region, r",
    "SELECT region, SUM(amount) AS s FROM sales GROUP BY region QUALIFY ROW_NUMBER() OVER (ORDER BY s "
    "DESC) = 1",
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region HAVING region <> 'south' AND n > 10",
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region HAVING region LIKE '%th' OR COUNT(*) < 0",
    "SELECT region, kind, COUNT(*) AS kind2 FROM sales GROUP BY region, kind ORDER BY region, kind DESC "
    "LIMIT 3 OFFSET 1",
    "SELECT UPPER(region) AS r, LENGTH(region) AS l, COUNT(*) FROM sales GROUP BY region ORDER BY r",
    "SELECT region || '-' || kind AS rk, COUNT(*) FROM sales GROUP BY region, kind ORDER BY 1",
    "SELECT region, CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END AS size FROM sales GROUP BY region",
    "SELECT region, SUM(amount) / NULLIF(COUNT(*), 0) AS mean, COALESCE(SUM(price), 0) AS p FROM sales "
    "GROUP BY region",
    "SELECT CAST(AVG(price) AS INTEGER) AS i, ROUND(AVG(price), 1) AS r, POWER(COUNT(*), 2) AS p FROM sales",
    "SELECT LN(COUNT(*)), EXP(AVG(price)), SQRT(SUM(amount)), ABS(-COUNT(*)) FROM sales",
    "SELECT DISTINCT region FROM sales ORDER BY region",
    "SELECT region FROM sales GROUP BY region ORDER BY region DESC",
    "SELECT DISTINCT kind, COUNT(*) > 100 AS many FROM sales GROUP BY region, kind ORDER BY 1",
    "SELECT * FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) AS t WHERE n > 0 ORDER BY n",
    "SELECT 'all' AS what, COUNT(*) AS n FROM sales UNION ALL SELECT 'a', COUNT(*) FROM sales WHERE kind "
    "= 'a'",
    "SELECT region FROM sales GROUP BY region EXCEPT SELECT region FROM sales WHERE kind = 'a' GROUP BY "
    "region",
    "WITH a AS (SELECT region, COUNT(*) AS n FROM sales WHERE kind = 'a' GROUP BY region), "
    "b AS (SELECT region, SUM(amount) AS s FROM sales GROUP BY region) "
    "SELECT region, n, s, s / n AS q FROM a JOIN b USING (region) ORDER BY region",
    "WITH a AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) "
    "SELECT x.region, y.region AS other, x.n - y.n AS apart FROM a AS x CROSS JOIN a AS y ORDER BY 1, 2",
    "WITH a AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) "
    "SELECT a.region, n, boss FROM a LEFT JOIN regions r ON r.region = a.region ORDER BY 1",
    "WITH a AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) "
    "SELECT boss, SUM(n) AS n FROM a, regions WHERE a.region = regions.region AND size > 2 GROUP BY boss "
    "ORDER BY 1",
    "WITH a (r, n) AS (SELECT region, COUNT(*) FROM sales GROUP BY region) SELECT r FROM a WHERE n = "
    "(SELECT MAX(n) FROM a)",
    "SELECT region, kind, SUM(amount) AS s FROM sales GROUP BY GROUPING SETS ((region, kind), (region), "
    "()) ORDER BY 1, 2",
    "SELECT COALESCE(region, 'all') AS r, COUNT(*) FROM sales GROUP BY ROLLUP (region) ORDER BY r",
    "SELECT region, COUNT(*) FROM sales GROUP BY ALL ORDER BY ALL",
    "SELECT m.month, COALESCE(s.n, 0) AS n FROM generate_series(DATE '2024-01-01', DATE '2024-04-01', "
    "INTERVAL 1 MONTH) AS m(month) LEFT JOIN (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n "
    "FROM sales "
    "GROUP BY 1) AS s ON s.month = m.month ORDER BY 1",
    "SELECT v.k, n FROM (VALUES ('a'), ('b')) AS v(k) JOIN (SELECT kind, COUNT(*) AS n FROM sales GROUP "
    "BY kind) q "
    "ON q.kind = v.k ORDER BY 1",
    "SELECT STRFTIME(m, '%Y-%m') AS month, n FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n "
    "FROM sales "
    "GROUP BY 1) ORDER BY 1",
    "SELECT m + INTERVAL 1 MONTH AS next, n FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n "
    "FROM sales GROUP BY 1)",
    "SELECT region, kind AS k2, COUNT(*) AS kind FROM sales GROUP BY region, kind HAVING kind > 'a' ORDER "
    "BY 1",
    "SELECT region, NTILE(2) OVER (ORDER BY COUNT(*), region) AS half, CUME_DIST() OVER (ORDER BY region) "
    "AS c "
    "FROM sales GROUP BY region ORDER BY region",
    "SELECT region, AVG(SUM(amount)) OVER (ORDER BY region ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS "
    "moving "
    "FROM sales GROUP BY region ORDER BY region",
    "SELECT region, SUM(COUNT(*)) OVER w AS s FROM sales GROUP BY region WINDOW w AS (ORDER BY region) "
    "ORDER BY region",
    "SELECT COUNT(*) FILTER (WHERE n > 150) AS big, SUM(n) FILTER (WHERE kind = 'a') AS of_a FROM "
    "(SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY region, kind)",
)


def exactly(db: Database, sql: str, dialect: str = "duckdb") -> list[tuple[object, ...]] | None:
    """The rows of a text when nothing is noisy; None if it is refused."""
    try:
        question = db.sql(sql, epsilon="1", delta="1e-6", dialect=dialect)
    except QueryRefused:
        return None
    one = Distance(l1=Fraction(1))
    releases = []
    for plan in question.plan.all:
        step = Step(Geometric(scale=Fraction(1)), Distances(one, one))
        query = Calibration((step,) * len(plan.measures), Guarantee.parse("1"))
        drawn = _drawn(plan, unseal(db.source.run(db.source.compile(plan))))
        releases.append(Release("x", plan, query, drawn, Receipt.__new__(Receipt), Guarantee.parse("1")))
    first, *others = releases
    whole = Release(
        "x", question.plan, first.query, first.drawn, first.receipt, first.left, beside=tuple(others)
    )
    shown = question._beside_public(whole)
    return [
        tuple(as_key(cell.value if isinstance(cell, Cell) else cell) for cell in row.values())
        for row in shown.exact()
    ]


def alike(ours: object, theirs: object) -> bool:
    if isinstance(ours, (int, float, Fraction)) and isinstance(theirs, (int, float, Fraction)):
        return abs(float(ours) - float(theirs)) <= 1e-6 * max(1.0, abs(float(theirs)))
    return ours == theirs


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_engine_makes_the_same_of_its_own_rows(db: Database, sql: str) -> None:
    found = exactly(db, sql)
    assert found is not None
    theirs = [tuple(map(as_key, row)) for row in engine(db, sql)]
    if "ORDER BY" not in sql.rsplit(")", 1)[-1]:
        found, theirs = (sorted(rows, key=repr_of) for rows in (found, theirs))
    assert len(found) == len(theirs), (found, theirs)
    for mine, other in zip(found, theirs, strict=True):
        assert all(alike(a, b) for a, b in zip(mine, other, strict=True)), (mine, other)


def repr_of(row: tuple[Any, ...]) -> str:
    return repr([str(each) if isinstance(each, (str, datetime.date)) else "" for each in row])


def engine(db: Database, sql: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = db.source._cursor().execute(sql).fetchall()  # type: ignore[attr-defined]
    return rows


# Apart from the data --------------------------------------------------------------------------------------


def made_of(made: Made, *columns: list[Any]) -> list[tuple[Any, ...]]:
    """One value made of shown rows."""
    body = ShownRows(0, tuple(MadeColumn(f"x{i}", "number") for i in range(len(columns))))
    query = MadeSelect((MadeColumn("y", made.kind),), (made,), (), (MadeSource("s", body),))
    return apart.made(query, [apart.ShownTable(tuple("number" for _ in columns), columns)])


@pytest.mark.parametrize("text", ["'; DROP TABLE q0; --", "\\", "''", "é\n\t", "%s {0} $1 ?", "a" * 5000])
def test_texts_come_out_as_they_went_in(text: str) -> None:
    assert made_of(Made("text", "text", text=text), [1.0]) == [(text,)]


def test_no_file_is_read_and_no_setting_changed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    with duckdb.connect(":memory:", config=confined.SETTINGS) as engine:
        for sql in (
            f"SELECT * FROM read_csv('{secret}')",
            f"ATTACH '{tmp_path / 'x.duckdb'}' AS x",
            f"COPY (SELECT 1) TO '{tmp_path / 'x.csv'}'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
            "SELECT * FROM frame",
        ):
            frame = {"a": [1]}
            assert frame
            with pytest.raises(duckdb.Error):
                engine.execute(sql)


def test_what_takes_too_long_or_too_much_is_stopped() -> None:
    numbers = tuple((Made("number", "integer", text=str(i)),) for i in range(5000))
    listed = ListedRows(numbers, (MadeColumn("x", "integer"),))
    sources = tuple(MadeSource(f"s{i}", listed, "CROSS JOIN" if i else "") for i in range(4))
    total = Made("aggregate", "integer", (Made("column", "integer", text="s3\0x"),), "sum")
    query = MadeSelect((MadeColumn("y", "integer"),), (total,), (), sources)
    with pytest.raises(AfterRelease, match="takes longer"):
        apart.made(query, [], seconds=0.3)


def asked_apart(sql: str, seconds: float = 10) -> tuple[str, Any]:
    return apart.CONFINED.run({"tables": [], "sql": sql, "most": 10}, seconds)


def test_what_needs_too_much_memory_ends_and_the_next_query_runs() -> None:
    halves = "(SELECT string_agg(repeat('x', 1000000), '') AS t FROM range(3000)) AS a"
    for sql in (f"SELECT length(a.t || b.t) FROM {halves}, {halves.replace('AS a', 'AS b')}",):
        assert asked_apart(sql)[0] == "memory"
        assert asked_apart("SELECT 42") == ("made", [(42,)])


def test_an_engine_that_died_or_is_late_is_replaced() -> None:
    assert asked_apart("SELECT 42") == ("made", [(42,)])
    for process in apart.CONFINED.idle:
        process.kill()
        process.wait()
    assert asked_apart("SELECT 43") == ("made", [(43,)])
    slow = "SELECT sum(a.range * b.range * c.range) FROM range(3000) a, range(3000) b, range(3000) c"
    assert asked_apart(slow, 0.2) == ("time", None)
    assert asked_apart("SELECT 44") == ("made", [(44,)])


def test_a_forked_worker_has_engines_of_its_own() -> None:
    assert asked_apart("SELECT 42") == ("made", [(42,)])
    mine = [process.pid for process in apart.CONFINED.idle]
    if (child := os.fork()) == 0:
        is_right = not apart.CONFINED.idle and asked_apart("SELECT 43") == ("made", [(43,)])
        apart.CONFINED.end()
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [process.pid for process in apart.CONFINED.idle] == mine
    assert asked_apart("SELECT 44") == ("made", [(44,)])


def test_the_process_apart_has_nothing_of_ours() -> None:
    assert asked_apart("SELECT getenv('HOME')")[0] == "types"
    assert asked_apart("SELECT * FROM read_text('/etc/hostname')")[0] == "types"
    script = Path(apart.__file__).with_name("confined.py").read_text(encoding="utf-8")
    assert "sfumato" not in script.split('"""', 2)[2]


def test_division_by_nothing_and_roots_below_it_have_no_value() -> None:
    x = Made("column", "number", text="s\0x0")
    nothing = Made("number", "integer", text="0")
    assert made_of(Made("operator", "number", (x, nothing), "/"), [4.0]) == [(None,)]
    for word in ("sqrt", "ln", "log"):
        assert made_of(Made(word, "number", (x,)), [-1.0]) == [(None,)]
    assert made_of(Made("exp", "number", (x,)), [1e6]) == [(None,)]


ALL = "(SELECT COUNT(*) AS c FROM sales) AS q"
BY_REGION = "(SELECT region, COUNT(*) AS n FROM sales GROUP BY region)"
IN_POSTGRESQL: dict[str, list[tuple[object, ...]]] = {  # with what PostgreSQL 18 says of the same rows
    "WITH q(a) AS (SELECT COUNT(*) FROM sales) SELECT a / 7 AS x FROM q": [(171,)],
    "SELECT a / 7 AS x FROM (SELECT COUNT(*) AS c FROM sales) AS q(a)": [(171,)],
    f"SELECT v.x / 2 AS y FROM (VALUES (1), (5)) AS v(x), {ALL} ORDER BY y": [(0,), (2,)],
    f"SELECT (c * 0.00125)::int AS x FROM {ALL}": [(2,)],
    f"SELECT ROUND(c / 1200 * 1.005, 2) AS r FROM {ALL}": [(1.01,)],
    f"SELECT FLOOR(c * 0.29 * 100) AS f FROM {ALL}": [(34800,)],
    "SELECT RANK() OVER (ORDER BY s DESC) AS r FROM (VALUES (2), (1), (NULL)) AS v(s), "
    f"{ALL} ORDER BY s DESC": [(1,), (2,), (3,)],
    f"SELECT g / 2 AS h FROM generate_series(1, 3) AS g CROSS JOIN {ALL} ORDER BY g": [(0,), (1,), (1,)],
    "SELECT region FROM sales WHERE shop = E'shop1' OR shop = $$shop0$$ GROUP BY region "
    "ORDER BY COUNT(*), 1 FETCH FIRST ROW ONLY": [("north",)],
    "SELECT SUM(COUNT(*)) OVER w AS s FROM sales GROUP BY region "
    "WINDOW w AS (ORDER BY region DESC) ORDER BY s": [(400,), (800,), (1200,)],
}


@pytest.mark.parametrize(("sql", "rows"), IN_POSTGRESQL.items())
def test_in_postgresql_s_dialect_it_means_what_postgresql_says(
    db: Database, sql: str, rows: list[tuple[object, ...]]
) -> None:
    found = exactly(db, sql, "postgres")
    assert found is not None
    assert len(found) == len(rows)
    for mine, other in zip(found, rows, strict=True):
        assert all(alike(a, b) for a, b in zip(mine, other, strict=True)), (mine, other)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region, COUNT(*) AS c FROM sales GROUP BY region HAVING c > 5",
        "SELECT (100.0 * COUNT(*) / 7)::text AS x FROM sales",
        f"SELECT CONCAT(region, n > 5) AS x FROM {BY_REGION} AS q",
        "SELECT TO_CHAR(day, 'YYYY%MM') AS x, COUNT(*) FROM sales GROUP BY 1",
        "SELECT COUNT(*) FROM sales WHERE shop ~ '^\\w+$'",
        f"SELECT LAG(n, 1, 'x') OVER (ORDER BY n) AS x FROM {BY_REGION} AS q",
        "SELECT day, COUNT(*) FROM sales GROUP BY day UNION ALL SELECT 'total', COUNT(*) FROM sales",
    ],
)
def test_what_means_something_else_there_or_fails_is_refused_for_free(db: Database, sql: str) -> None:
    spent = db.budget.spent.amount
    with pytest.raises(QueryRefused):
        db.sql(sql, epsilon="1", delta="1e-6", dialect="postgres").release()
    assert db.budget.spent.amount == spent


@pytest.mark.parametrize(
    "sql",
    [  # where noise, or a selection by it, decides whether there is a row
        "SELECT v.k, COALESCE(n, 0) AS m FROM (VALUES ('shop0'), ('x')) AS v(k) LEFT JOIN "
        "(SELECT shop AS k, COUNT(*) AS n FROM sales GROUP BY shop) AS t USING (k)",
        "SELECT COALESCE((SELECT n FROM (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) AS t "
        "WHERE shop = 'x'), 0) AS m",
        f"SELECT a.region, COALESCE(b.n, 0) AS m FROM {BY_REGION} AS a LEFT JOIN (SELECT region, "
        "COUNT(*) AS n FROM sales GROUP BY region HAVING COUNT(*) > 400) AS b USING (region)",
        f"SELECT a.region, COALESCE(b.n, 0) AS m FROM {BY_REGION} AS a LEFT JOIN (SELECT kind, "
        "COUNT(*) AS n FROM sales GROUP BY kind) AS b ON a.n > 400 AND b.kind = 'a'",
    ],
)
def test_what_noise_may_leave_out_has_no_interval(db: Database, sql: str) -> None:
    plan = db.sql(sql, epsilon="1", delta="1e-6").plan
    assert not next(column for column in plan.columns if column.name == "m").has_interval


# What is charged ------------------------------------------------------------------------------------------


def test_what_is_made_of_a_stored_release_is_free(db: Database) -> None:
    plain = db.sql(
        "SELECT kind, COUNT(*) AS n FROM sales WHERE amount > 3 GROUP BY kind", epsilon="1"
    ).release()
    assert plain.cost.amount == 1
    above = "SELECT AVG(n) FROM (SELECT kind, COUNT(*) AS n FROM sales WHERE amount > 3 GROUP BY kind)"
    made = db.sql(above, epsilon="1").release()
    assert made.cost.amount == 0
    (row,) = made.rows()
    assert abs(row["avg_n"] - sum(each["n"] for each in plain.rows()) / 2) <= 1  # rounded to be read
    assert row["avg_n_low"] < row["avg_n"] < row["avg_n_high"]


def test_several_questions_are_one_charge_and_share_the_price(db: Database) -> None:
    sql = (
        "SELECT kind, COUNT(*) / (SELECT COUNT(*) FROM sales WHERE amount > 7) AS q FROM sales GROUP BY kind"
    )
    question = db.sql(sql, epsilon="1")
    spent = db.budget.spent.amount
    first = question.release()
    assert first.cost.amount == db.budget.spent.amount - spent == 1
    assert db.sql(sql, epsilon="1").release().rows() == first.rows()
    assert db.budget.spent.amount - spent == 1
    assert question.explain().as_dict()["epsilon"] == "1"
    again = db.batch(
        [
            db.sql("SELECT kind, COUNT(*) FROM sales GROUP BY kind", epsilon="0.5"),
            db.sql("SELECT COUNT(*) FROM sales WHERE amount > 7", epsilon="0.5"),
        ]
    )
    assert again.release().cost.amount == 0  # asked as a batch, it is the same


def test_public_keys_and_empty_answers_are_free(db: Database) -> None:
    spent = db.budget.spent.amount
    keys = db.sql("SELECT DISTINCT region FROM sales", epsilon="1").release()
    assert [row["region"] for row in keys.rows()] == ["north", "south", "west"]
    for sql in (
        "SELECT * FROM (SELECT kind, SUM(price) AS p FROM sales GROUP BY kind) AS t WHERE 0 = 1",
        "SELECT kind, SUM(price) AS p FROM sales GROUP BY kind LIMIT 0",
        "SELECT kind, SUM(price) AS p FROM sales GROUP BY kind HAVING kind > 'a' LIMIT 0",
    ):
        empty = db.sql(sql, epsilon="1").release()
        assert empty.rows() == []
        assert empty.columns == ["kind", "p", "p_low", "p_high"]
    assert db.budget.spent.amount == spent
    private = db.sql("SELECT DISTINCT shop FROM sales", epsilon="1", delta="1e-6").release()
    assert private.cost.amount == 1
    assert {row["shop"] for row in private.rows()} <= {"shop0", "shop1"}


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT region, FOO(COUNT(*)) FROM sales GROUP BY region", "FOO"),
        (
            "SELECT AVG(n) FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) AS t, sales",
            "single rows of people",
        ),
        ("WITH m AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) SELECT nn FROM m", "nn"),
        ("SELECT region + 1, COUNT(*) FROM sales GROUP BY region", "text"),
        ("SELECT SUM(amount) OVER (PARTITION BY region) FROM sales", "no aggregate|not supported|grouped"),
        ("SELECT region, read_csv('x') FROM sales GROUP BY region", "read_csv"),
    ],
)
def test_what_cannot_be_made_is_refused_for_free(db: Database, sql: str, says: str) -> None:
    spent = db.budget.spent.amount
    with pytest.raises(QueryRefused, match=says):
        db.sql(sql, epsilon="1").release()
    assert db.budget.spent.amount == spent


# Intervals ------------------------------------------------------------------------------------------------


DRAWS = 200
MOST_MISSED = 120  # of 600 rows: see below


@pytest.mark.slow
def test_intervals_of_what_is_made_hold_what_it_would_be_without_noise(db: Database) -> None:
    """A correct interval misses with chance 1/20 at most. Of the three rows of a draw some may miss together:
    their number has a variance below 0.45, so that by Bernstein's inequality more than 120 of 600 miss with
    chance exp(-22), for each of five columns. Intervals of half the width would miss 130 on average."""
    sql = (
        "SELECT region, SUM(n) OVER (ORDER BY region) AS so_far, n / SUM(n) OVER () AS share, n - LAG(n) "
        "OVER "
        "(ORDER BY region) AS change, ROUND(2 * n) AS twice, LN(n) AS l FROM "
        "(SELECT region, COUNT(*) AS n FROM sales WHERE amount <> {} GROUP BY region)"
    )
    names = ("so_far", "share", "change", "twice", "l")
    missed = dict.fromkeys(names, 0)
    true = {row[0]: row[1:] for row in exactly(db, sql.format(-1)) or []}
    for number in range(DRAWS):
        for row in db.sql(sql.format(-1 - number), epsilon="0.7").release().rows():
            for name, value in zip(names, true[row["region"]], strict=True):
                if isinstance(value, (int, float, Fraction)):
                    missed[name] += not row[f"{name}_low"] <= float(value) <= row[f"{name}_high"]
    assert max(missed.values()) <= MOST_MISSED, missed
    assert max(missed.values()) > 0, missed  # it can fail


DAYS = "SELECT day, COUNT(*) AS n FROM sales GROUP BY day"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT day, n FROM ({DAYS} ORDER BY n DESC) LIMIT 1",
        f"SELECT day, n FROM (SELECT * FROM ({DAYS} ORDER BY n DESC) AS a) AS b LIMIT 3 OFFSET 1",
        "SELECT n, day FROM (SELECT day, kind, COUNT(*) AS n FROM sales GROUP BY day, kind) GROUP BY n, day "
        "LIMIT 1",
        "SELECT SUM(n) AS s, day FROM (SELECT day, kind, COUNT(*) AS n FROM sales GROUP BY day, kind) "
        "GROUP BY day LIMIT 1",
        f"WITH m AS ({DAYS}) SELECT day, n FROM m, (VALUES ((SELECT day FROM ({DAYS}) ORDER BY n DESC "
        "LIMIT 1))) AS v(x) WHERE day = x",
        f"WITH m AS ({DAYS}) SELECT n FROM m, "
        f"generate_series(1, (SELECT CAST(MAX(n) AS INTEGER) FROM ({DAYS}))) AS t(g)",
    ],
)
def test_what_noise_puts_first_is_selected(db: Database, sql: str) -> None:
    """Then intervals hold for all rows at once: for one of them they would be missed two times in three."""
    outer = db.sql(sql, epsilon="1").plan.outer
    assert outer is not None
    assert outer.query.selected


def test_the_order_of_inner_questions_is_no_matter(db: Database) -> None:
    one = "(SELECT region, COUNT(*) AS n FROM sales GROUP BY region)"
    two = "(SELECT region, SUM(price) AS n FROM sales GROUP BY region)"
    first = db.sql(
        f"SELECT a.region, a.n - b.n AS d FROM {one} AS a JOIN {two} AS b USING (region)", epsilon="1"
    ).release()
    spent = db.budget.spent.amount
    second = db.sql(
        f"SELECT a.region, a.n - b.n AS d FROM {two} AS b JOIN {one} AS a USING (region)", epsilon="1"
    ).release()
    assert db.budget.spent.amount == spent
    shown = [{row["region"]: row["d"] for row in each.rows()} for each in (first, second)]
    assert shown[0] == shown[1]


def test_what_would_take_too_long_to_plan_is_refused(db: Database) -> None:
    with pytest.raises(QueryRefused, match="too often"):
        db.sql(
            f"WITH c0 AS ({DAYS}), "
            + ", ".join(f"c{i + 1} AS (SELECT x.day FROM c{i} x, c{i} y)" for i in range(23))
            + " SELECT day FROM c23",
            epsilon="1",
        )
    with pytest.raises(QueryRefused, match="more than 32 questions"):
        db.sql(
            "SELECT "
            + ", ".join(f"(SELECT COUNT(*) FROM sales WHERE amount < {i})" for i in range(40))
            + f" FROM ({DAYS})",
            epsilon="1",
        )
    deep = "n IN (1)"
    for _ in range(24):
        deep = f"({deep} IN (TRUE))"
    assert db.sql(
        f"SELECT region, {deep} AS b FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region)",
        epsilon="1",
    )


def test_a_series_that_is_too_long_is_never_cut(db: Database) -> None:
    sql = (
        "SELECT COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) AS m, "
        "generate_series(1, 300000) AS t(g)"
    )
    (row,) = db.sql(sql, epsilon="1").release().rows()
    assert row["count"] == 900_000


def test_a_public_table_is_found_where_it_is_listed(db: Database) -> None:
    sql = (
        "SELECT region, n, x FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) AS m, "
        "(VALUES ((SELECT MAX(size) FROM regions, (SELECT 1) AS z))) AS v(x)"
    )
    assert {row["x"] for row in db.sql(sql, epsilon="1").release().rows()} == {5}


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT region, ROW_NUMBER() OVER () AS r FROM ({}) ORDER BY region", "no order of rows is kept"),
        ("SELECT region, LAG(n) OVER () AS r FROM ({}) AS t", "no order of rows is kept"),
        ("SELECT region, SUM(n) OVER (ROWS 1 PRECEDING) AS r FROM ({}) AS t", "no order of rows is kept"),
        ("SELECT FIRST(region) FROM ({}) AS t", "no order of rows is kept"),
        ("({}) UNION ALL SELECT 'z', 1 LIMIT 1", "no order of rows is kept"),
        ("SELECT region, COUNT(*) FROM sales GROUP BY GROUPING SETS ((region), (region), ())", "a set twice"),
        ("SELECT region, COUNT(*), RANK() OVER () FROM sales GROUP BY ROLLUP (region, region)", "this twice"),
        ("SELECT region, COUNT(*) FROM sales GROUP BY 000012", "not in the SELECT list"),
        ("SELECT region, COUNT(*) FROM sales GROUP BY region ORDER BY 000012", "not in the SELECT list"),
        ("SELECT region, RANK() OVER (ORDER BY n) FROM ({}) AS t ORDER BY 000012", "not in the SELECT list"),
    ],
)
def test_what_has_no_order_or_place_is_refused(sql: str, told: str, db: Database) -> None:
    sorted_ = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region ORDER BY n DESC"
    with pytest.raises(QueryRefused, match=told):
        db.sql(sql.format(sorted_), epsilon=1)
