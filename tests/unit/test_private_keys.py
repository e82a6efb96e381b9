"""Private groups in the engine: chosen first, and only what is chosen is measured, in one snapshot."""

from __future__ import annotations

import traceback
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.end_to_end.test_attacks import held

import sfumato as sf
from sfumato.curator import drawing
from sfumato.exact.coins import SystemCoins
from sfumato.exact.secret import unseal
from sfumato.queries import policy as policies
from sfumato.queries.measures import Selected
from sfumato.queries.plan import Key, Plan
from sfumato.sources import duckdb as source
from sfumato.sources import running
from sfumato.sources.answers import Answer, EngineStatements, Sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.curator.database import Database

RARE = "CANARY-4417"
POLICY = """
name = "shop"
[source]
{source}
[budget]
epsilon = "10000"
delta = "0.1"
[units]
people = ["orders.person", "people.person"]
sales = ["sales"]
[tables.orders]
unit = "person"
rows_per_person = 5
[tables.orders.columns]
person = "integer"
item = "text"
place = "integer"
day = "date"
kind = {{ type = "text", keys = ["x", "y"] }}
price = {{ type = "number", low = 0, high = 50, grid = "1/2" }}
[tables.people]
unit = "person"
rows_per_person = 1
[tables.people.columns]
person = "integer"
age = {{ type = "integer", low = 0, high = 120 }}
[tables.sales]
unit = "row"
[tables.sales.columns]
item = "text"
kind = {{ type = "text", keys = ["x", "y"] }}
price = {{ type = "number", low = 0, high = 50, grid = "1/2" }}
"""
ORDERS = f"""
SELECT (hash(i) % 400)::INTEGER AS person, 'item' || (hash(i, 1) % 30) AS item, (i % 4)::INTEGER AS place,
  CASE i % 90 WHEN 0 THEN DATE 'infinity' WHEN 1 THEN DATE '9999-12-31' ELSE DATE '2024-01-01' END AS day,
  CASE WHEN i % 3 = 0 THEN 'x' ELSE 'y' END AS kind,
  CASE WHEN i % 11 > 0 THEN (hash(i, 2) % 1300) / 20.0 - 5 END AS price FROM range(3000) AS r(i)
UNION ALL SELECT 1, 'item' || (i % 7), 1, DATE '2024-01-01', 'x', 40 FROM range(500) AS r(i)
UNION ALL SELECT 7, '{RARE}', 1, DATE '2024-01-01', 'x', 4417
"""
TABLES = {
    "orders": ORDERS,
    "people": "SELECT i::INTEGER AS person, (hash(i) % 90)::INTEGER AS age FROM range(400) AS r(i)",
    "sales": "SELECT item, kind, price FROM orders",
}
EVERYTHING = (
    "COUNT(*), SUM(price), AVG(price), VARIANCE(price), MEDIAN(price), MAX(price), MIN(price), MODE(kind), "
    "COUNT(DISTINCT kind)"
)
ONE_KEY = {
    "persons": f"SELECT item, {EVERYTHING}, COUNT(DISTINCT person) FROM orders GROUP BY item",
    "sums": "SELECT item, COUNT(*), SUM(price), AVG(price) FROM orders GROUP BY item",
    "integers": "SELECT place, COUNT(*), MAX(price) FROM orders GROUP BY place",
    "rows": f"SELECT item, {EVERYTHING} FROM sales GROUP BY item",
    "joined": (
        "SELECT item, COUNT(*), SUM(age), MAX(price), MODE(kind), COUNT(DISTINCT kind) "
        "FROM orders JOIN people ON orders.person = people.person GROUP BY item"
    ),
    "folded": (
        "SELECT item, COUNT(*), MAX(spent) FROM (SELECT person, item, SUM(price) AS spent FROM orders "
        "GROUP BY person, item) AS f GROUP BY item"
    ),
}


def shop(folder: Path, kind: str = "duckdb") -> Database:
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        for name, rows in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {rows}")
            if kind == "parquet":
                connection.execute(f"COPY {name} TO '{folder / name}.parquet'")
    told = 'duckdb = "shop.duckdb"' if kind == "duckdb" else 'parquet = "."'
    (folder / "shop.toml").write_text(POLICY.format(source=told), encoding="utf-8")
    if kind == "parquet":
        source.read(policies.load(folder / "shop.toml"))
    return sf.open(folder / "shop.toml")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return shop(tmp_path_factory.mktemp("shop"))


def plan_of(db: Database, sql: str) -> Plan:
    return db.sql(sql, epsilon=1, delta="1e-6").plan


def by_group(answer: Answer) -> dict[object, list[tuple[int, ...]]]:
    """For every group its cells, measure by measure."""
    sizes = [len(vector) // len(answer.groups) for vector in answer.vectors]
    return {
        group: [tuple(v[g * n : (g + 1) * n]) for v, n in zip(answer.vectors, sizes, strict=True)]
        for g, group in enumerate(answer.groups)
    }


@pytest.mark.parametrize("sql", ONE_KEY.values(), ids=ONE_KEY)
def test_a_private_group_is_measured_like_one_that_is_declared(sql: str, db: Database) -> None:
    plan = plan_of(db, sql)
    private = unseal(db.source.run(db.source.compile(plan)))
    values = tuple(group[0] for group in private.groups)
    assert len(values) > 3
    public = replace(
        plan,
        keys=(Key(plan.keys[0].expression, values),),
        measures=tuple(measure for measure in plan.measures if not isinstance(measure, Selected)),
    )
    declared = by_group(unseal(db.source.run(db.source.compile(public))))
    assert {group: cells[1:] for group, cells in by_group(private).items()} == declared


@pytest.mark.parametrize(
    "sql", [*ONE_KEY.values(), "SELECT item, place, MAX(price) FROM orders GROUP BY 1, 2"]
)
def test_what_is_measured_in_a_group_does_not_depend_on_which_others_are_shown(
    sql: str, db: Database
) -> None:
    plan = plan_of(db, sql.replace("GROUP BY 1, 2", "GROUP BY item, place"))
    every = by_group(unseal(db.source.run(db.source.compile(plan))))
    some = unseal(db.source.run(db.source.compile(plan), lambda counts: [n % 2 for n in range(len(counts))]))
    assert 0 < len(some.groups) < len(every)
    assert by_group(some) == {group: every[group] for group in some.groups}
    assert some.groups == tuple(sorted(some.groups, key=repr))


def test_each_person_counts_for_one_group(db: Database) -> None:
    for sql in (ONE_KEY["persons"], ONE_KEY["sums"], ONE_KEY["joined"]):
        answer = unseal(db.source.run(db.source.compile(plan_of(db, sql))))
        assert sum(answer.vectors[0]) == 400
        assert min(answer.vectors[0]) >= 0


def test_an_endless_day_is_no_group(db: Database) -> None:
    """Its name would be that of the last day there is."""
    answer = unseal(
        db.source.run(db.source.compile(plan_of(db, "SELECT day, COUNT(*) FROM orders GROUP BY day")))
    )
    assert [str(day) for (day,) in answer.groups] == ["2024-01-01", "9999-12-31"]


def test_where_nothing_is_chosen_nothing_is_measured(db: Database) -> None:
    plan = plan_of(db, ONE_KEY["persons"])
    compiled = db.source.compile(plan)
    printed = compiled.statements
    wrong = replace(printed, measuring=("SELECT error('read')",) * len(printed.measuring))
    answer = unseal(db.source.run(replace(compiled, statements=wrong), lambda counts: [0] * len(counts)))
    assert answer.groups == ()
    assert not any(len(vector) for vector in answer.vectors)


def test_groups_are_chosen_once_even_if_the_optimizer_fails_after_that(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second choice would depend on what failed."""
    plan = plan_of(db, ONE_KEY["persons"])
    chosen: list[Sequence[int]] = []
    failed: list[bool] = []
    measured = running.answered

    def failing(cursor: duckdb.DuckDBPyConnection, *rest: object) -> Answer:
        if not failed:
            failed.append(True)
            raise duckdb.InternalException("seen with statistics of some data")
        return measured(cursor, *rest)  # type: ignore[arg-type]

    def choose(counts: tuple[int, ...]) -> Sequence[int]:
        chosen.append([n % 3 == 0 for n in range(len(counts))])
        return chosen[-1]

    expected = by_group(unseal(db.source.run(db.source.compile(plan), choose)))
    monkeypatch.setattr(source, "answered", failing)
    assert by_group(unseal(db.source.run(db.source.compile(plan), choose))) == expected
    assert len(chosen) == 2  # once for each run
    monkeypatch.setattr(source, "answered", measured)
    counted, failed = running.counted, []

    def not_counting(cursor: duckdb.DuckDBPyConnection, printed: EngineStatements) -> object:
        if not failed:
            failed.append(True)
            raise duckdb.InternalException("seen with statistics of some data")
        return counted(cursor, printed)

    monkeypatch.setattr(source, "counted", not_counting)
    assert by_group(unseal(db.source.run(db.source.compile(plan), choose))) == expected


def test_chosen_groups_stand_in_no_text_and_a_failure_after_the_choice_shows_none(tmp_path: Path) -> None:
    db = shop(tmp_path)
    question = db.sql(ONE_KEY["persons"], epsilon=50, delta="1e-6")
    assert "$1" in question.explain().engine_sql
    assert "item1" not in repr(question.explain()) + question.engine_sql
    failing = ("SELECT error('chosen ' || h0) FROM sfumato_chosen",)
    wrong = replace(question.compiled.statements, measuring=failing)
    with pytest.raises(sf.QueryFailed) as failed:
        replace(question, compiled=replace(question.compiled, statements=wrong)).release()
    told = "".join(traceback.format_exception(failed.value))
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("*.ledger*"))
    assert failed.value.__cause__ is failed.value.__context__ is None
    assert "item1" not in repr(held(failed.value))
    for text in ("item1", RARE):
        assert text not in told
        assert text.encode() not in stored
    assert len(question.release().rows()) == 30  # the receipt is redeemed
    assert len(db.ledger.history()) == 1


def test_a_group_of_one_leaves_no_trace(tmp_path: Path) -> None:
    """It is shown with a chance of 10^-12."""
    db = shop(tmp_path)
    question = db.sql(ONE_KEY["persons"], epsilon=50, delta="1e-12")
    seen = repr(question.explain()) + repr(question.release()) + str(question.release().as_dict())
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("*.ledger*"))
    assert "item1" in seen
    assert RARE not in seen
    assert RARE.encode() not in stored


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_data_that_are_replaced_after_the_choice_are_not_measured(kind: str, tmp_path: Path) -> None:
    db = shop(tmp_path / "old", kind)
    shop(tmp_path / "new", kind)
    name = "shop.duckdb" if kind == "duckdb" else "orders.parquet"

    def choose(counts: tuple[int, ...]) -> Sequence[int]:
        (tmp_path / "new" / name).replace(tmp_path / "old" / name)
        return running.all_of_them(counts)

    with pytest.raises(sf.QueryFailed):
        db.source.run(db.source.compile(plan_of(db, ONE_KEY["persons"])), choose)


def test_a_batch_chooses_for_each_of_its_questions(db: Database) -> None:
    one, other = db.batch(
        [db.sql(ONE_KEY["sums"], epsilon=e, delta="1e-3") for e in ("100", "101")]
    ).release()
    assert len(one.rows()) == len(other.rows()) == 30


def test_groups_that_are_drawn_one_after_the_other_are_those_that_are_drawn_together(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a price at which the noise is zero but for a chance of e^-1000."""
    sql = "SELECT item, MODE(kind), COUNT(*) FROM sales GROUP BY item"
    question = db.sql(sql, epsilon=9000, delta="1e-6")
    answer = unseal(db.source.run(db.source.compile(question.plan)))
    assert all(cells[1][0] != cells[1][1] for cells in by_group(answer).values())
    whole = drawing.draw(question.query, answer, SystemCoins())
    assert [len(each) for each in whole] == [31, 31, 31]
    for part in (1, 2, 7):
        monkeypatch.setattr(drawing, "PART", part)
        assert drawing.draw(question.query, answer, SystemCoins()) == whole


def test_a_sparse_vector_is_the_vector() -> None:
    sparse = Sparse.of(7, iter([(5, 2), (1, 9), (6, -3)]))
    dense = (0, 9, 0, 0, 0, 2, -3)
    assert tuple(sparse) == dense
    assert len(sparse) == 7
    for start in range(8):
        for stop in range(8):
            assert sparse[start:stop] == dense[start:stop]
    assert [sparse[i] for i in range(7)] == list(dense)
    assert sparse == Sparse.of(7, [(1, 9), (6, -3), (5, 2)])
    assert tuple(Sparse.of(3, ())) == (0, 0, 0)


def test_nothing_of_a_choice_is_drawn_for_public_groups(db: Database) -> None:
    question = db.sql("SELECT kind, COUNT(*) FROM orders GROUP BY kind", epsilon=1)
    chosen: Callable[..., object] = drawing.chooser(question.query, SystemCoins())
    assert chosen is running.all_of_them
    assert question.query.steps[0].bound().epsilon == Fraction(1)
