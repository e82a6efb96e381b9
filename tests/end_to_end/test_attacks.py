"""Attacks that once worked. Each test is the attack; it fails if the hole opens again."""

from __future__ import annotations

import logging
import os
import traceback
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.support import answer, make, opened

import sfumato as sf
from sfumato.exact.coins import Tape
from sfumato.exact.secret import Secret
from sfumato.queries.measures import Moments

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """
[source]
duckdb = "a.duckdb"
[budget]
epsilon = "{budget}"
least = "0.000001"
ledger = "{ledger}"
[tables.t]
unit = {unit}
[tables.t.columns]
{columns}
[tables.public]
public = true
"""


def attacked(
    folder: Path,
    statements: list[str],
    columns: str,
    unit: str = '"row"',
    ledger: str = "a.ledger",
    budget: str = "10",
) -> Path:
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE public (k VARCHAR, d DATE)")
        for statement in statements:
            connection.execute(statement)
    policy = folder / "a.toml"
    policy.write_text(
        POLICY.format(unit=unit, columns=columns, ledger=ledger, budget=budget), encoding="utf-8"
    )
    return policy


def test_persons_whose_names_round_to_one_double_cannot_be_declared(tmp_path: Path) -> None:
    create = ["CREATE TABLE t (p BIGINT)"]
    path = attacked(tmp_path, create, 'p = "number"', unit='"p"\nrows_per_person = 10')
    with pytest.raises(sf.PolicyError, match="is a number column"):
        sf.open(path)


@pytest.mark.parametrize(
    ("column", "declared"), [("x INTEGER", "integer"), ("x DATE", "date"), ("x BOOLEAN", "boolean")]
)
def test_public_keys_of_another_type_are_refused(tmp_path: Path, column: str, declared: str) -> None:
    """The texts '1', '01' and ' 1' are one integer: a row would fall into three groups."""
    create = [f"CREATE TABLE t ({column})", "INSERT INTO public (k) VALUES ('1'), ('01'), (' 1')"]
    path = attacked(tmp_path, create, f'x = {{ type = "{declared}", keys = "public.k" }}')
    with pytest.raises(sf.SourceError, match="must name a"):
        sf.open(path)


def test_dates_that_python_would_fold_together_are_no_keys(tmp_path: Path) -> None:
    create = [
        "CREATE TABLE t (d DATE)",
        "INSERT INTO t VALUES ('9999-12-31'), ('infinity')",
        "INSERT INTO public (d) VALUES ('9999-12-31'), ('infinity'), ('-infinity'), ('0044-03-15 (BC)')",
    ]
    db = sf.open(attacked(tmp_path, create, 'd = { type = "date", keys = "public.d" }'))
    assert answer(db.sql("SELECT d, COUNT(*) FROM t GROUP BY d", epsilon=1)) == ((1,),)


def test_an_empty_public_table_gives_no_keys_and_says_so(tmp_path: Path) -> None:
    path = attacked(tmp_path, ["CREATE TABLE t (w VARCHAR)"], 'w = { type = "text", keys = "public.k" }')
    with pytest.raises(sf.PolicyError, match="the list is empty"):
        sf.open(path)


@pytest.mark.parametrize(
    "column", ["x UHUGEINT", "s VARCHAR, x INTEGER GENERATED ALWAYS AS (CAST(s AS INTEGER))"]
)
def test_a_column_that_can_fail_on_some_rows_is_refused(tmp_path: Path, column: str) -> None:
    path = attacked(tmp_path, [f"CREATE TABLE t ({column})"], 'x = { type = "integer", low = 0, high = 10 }')
    with pytest.raises(sf.SourceError, match="which is not integer"):
        sf.open(path)


@pytest.mark.parametrize("column", ["x DECIMAL(12, 2)[]", "x DECIMAL(12, 2)[3]", "x ENUM('a', 'b')[]"])
def test_a_column_of_lists_is_neither_number_nor_text(tmp_path: Path, column: str) -> None:
    kind = "text" if "ENUM" in column else "number"
    path = attacked(tmp_path, [f"CREATE TABLE t ({column})"], f'x = "{kind}"')
    with pytest.raises(sf.SourceError, match="leave the column out"):
        sf.open(path)


@pytest.mark.parametrize(
    "define",
    ["CREATE MACRO floor(x) AS 1000000", "CREATE MACRO abs(x) AS 0", "CREATE MACRO range(n) AS [0, 0, 0]"],
)
def test_a_file_cannot_replace_the_functions_that_enforce_the_policy(tmp_path: Path, define: str) -> None:
    path = attacked(tmp_path, ["CREATE TABLE t (x INTEGER)", define], 'x = "integer"')
    with pytest.raises(sf.SourceError, match="names of built-in ones"):
        sf.open(path)


def test_a_file_may_have_functions_under_names_of_its_own(tmp_path: Path) -> None:
    create = [
        "CREATE TABLE t (x INTEGER)",
        "CREATE MACRO twice(x) AS 2 * x",
        "CREATE TYPE mood AS ENUM ('a')",
    ]
    path = attacked(tmp_path, create, 'x = "integer"')
    sf.open(path).sql("SELECT COUNT(*) FROM t", epsilon=1).release()


def test_a_file_name_that_no_disk_takes_is_named(tmp_path: Path) -> None:
    path = attacked(tmp_path, ["CREATE TABLE t (x INTEGER)"], 'x = "integer"')
    path.write_text(path.read_text(encoding="utf-8").replace("a.duckdb", "x" * 300), encoding="utf-8")
    with pytest.raises(sf.SourceError, match="no database file"):
        sf.open(path)


def test_a_ledger_called_memory_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attacked(tmp_path, ["CREATE TABLE t (x INTEGER)"], 'x = "integer"', ledger=":memory:", budget="1")
    monkeypatch.chdir(tmp_path)
    sf.open("a.toml").sql("SELECT COUNT(*) FROM t", epsilon=1).release()
    with pytest.raises(sf.BudgetExceeded):
        sf.open("a.toml").sql("SELECT COUNT(x) FROM t", epsilon=1).release()


def held(error: BaseException) -> list[object]:
    """Every local of every frame of a traceback, and what secrets among them hold."""
    found: list[object] = []
    for frame, _ in list(traceback.walk_tb(error.__traceback__))[1:]:
        for value in frame.f_locals.values():
            found.append(value)
            if isinstance(value, Secret):
                found.append(value._Secret__value)  # type: ignore[attr-defined]
    return found


def test_no_frame_of_a_failure_leads_to_the_answer(tmp_path: Path) -> None:
    create = ["CREATE TABLE t AS SELECT i AS x FROM range(12345) AS r(i)"]
    db = sf.open(attacked(tmp_path, create, 'x = "integer"'), coins=Tape([]))  # the draw will fail
    with pytest.raises(sf.QueryFailed) as caught:
        db.sql("SELECT COUNT(*) FROM t", epsilon=1).release()
    assert "12345" not in repr(held(caught.value))


def test_two_databases_that_share_a_ledger_share_no_release(tmp_path: Path) -> None:
    for name, rows in (("one", 12345), ("two", 99)):
        create = [f"CREATE TABLE t AS SELECT i AS x FROM range({rows}) AS r(i)"]
        attacked(tmp_path / name, create, 'x = "integer"', ledger="../shared.ledger")
    sf.open(tmp_path / "one" / "a.toml")
    with pytest.raises(sf.LedgerError, match="belongs to another policy"):
        sf.open(tmp_path / "two" / "a.toml")
    shown = []
    for name in ("one", "two"):
        policy = tmp_path / name / "a.toml"
        policy.write_text(f'name = "{name}"\n' + policy.read_text(encoding="utf-8"), encoding="utf-8")
        release = sf.open(tmp_path / name / "a.toml").sql("SELECT COUNT(*) AS n FROM t", epsilon=1).release()
        assert release.cost == sf.Guarantee.parse(1)
        shown.append(release.rows()[0]["n"])
    assert shown[0] > 10_000 > shown[1]


def test_a_ledger_replaced_under_a_running_database_answers_nothing(tmp_path: Path) -> None:
    db = opened(tmp_path, [], budget="1")
    db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").release()
    os.replace(tmp_path / "hospital.ledger", tmp_path / "away")
    (tmp_path / "hospital.ledger").touch()
    with pytest.raises(sf.LedgerError, match="replaced while it was open"):
        db.sql("SELECT COUNT(age) FROM visits", epsilon="0.5").release()
    (tmp_path / "hospital.ledger").unlink()
    with pytest.raises(sf.LedgerError, match="nothing is"):
        db.sql("SELECT COUNT(age) FROM visits", epsilon="0.5").release()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT() FROM visits",
        "SELECT COUNT(*) * 1e999999999 FROM visits",
        "SELECT COUNT(*) FROM visits WHERE cost > 1e-99999999",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT " + "1" * 5000,
        "SELECT ward, COUNT(*) FROM visits GROUP BY " + "1" * 5000,
        "SELECT nothing AS nothing, COUNT(*) FROM visits GROUP BY nothing",
        "SELECT -ward, COUNT(*) FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY -ward",
        "SELECT COUNT(*) / COUNT(cost)" + " + 1" * 600 + " FROM visits",
        "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 300 + "urgent",
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 400 + "urgent" + ")" * 400,
        "SELECT COUNT(*) FROM visits -- \udcff",
        "ATTACH 'x.db'",
        "CREATE TABLE x AS SELECT 1",
        "SELECT COUNT(*) FROM visits AS v(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)",
        "FROM visits",
        "SELECT COUNT(*) FROM visits WHERE age IS NORMALIZED",
        "SELECT COUNT(*) FROM visits WHERE ward COLLATE NOCASE = 'a'",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT 50 PERCENT",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward FETCH FIRST 2 ROWS WITH TIES",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward FETCH FIRST 50 PERCENT ROWS ONLY",
        "SELECT COUNT(*) FROM visits WHERE age > ANY ([1, 2])",
        "SELECT COUNT(*) FROM visits WHERE age = $1",
        "\x00",
        ";",
    ],
)
def test_strange_sql_is_refused_at_once_and_for_free(sql: str, tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    with pytest.raises(sf.QueryRefused):
        db.sql(sql, epsilon=1)
    assert db.budget.spent.amount == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) * 1e90 * 1e90 * 1e90 * 1e90 AS x FROM visits",
        "SELECT COUNT(*) * 1e-90 * 1e-90 * 1e-90 * 1e-90 AS x FROM visits",
        "SELECT AVG(age) * 1e90 * 1e90 * 1e90 * 1e90 AS x FROM visits",
        "SELECT SUM(age) * 1e90 * 1e90 / COUNT(ward) * 1e90 * 1e90 AS x FROM visits",
        "SELECT 0.001 AS x, COUNT(*) AS n FROM visits",
    ],
)
def test_numbers_of_any_size_can_be_shown_after_the_charge(sql: str, tmp_path: Path) -> None:
    release = opened(tmp_path, []).sql(sql, epsilon=1).release()
    for shape in (release.rows, release.text, release.as_dict, release.df, release.pl, release.arrow):
        shape()
    if "0.001" in sql:
        assert release.rows()[0]["x"] == 0.001


def test_wide_bounds_and_caps_can_be_shown(tmp_path: Path) -> None:
    columns = 'p = "integer"\nx = { type = "number", low = -1e15, high = 1e15 }'
    path = attacked(
        tmp_path, ["CREATE TABLE t (p INTEGER, x DOUBLE)"], columns, '"p"\nrows_per_person = 1000000'
    )
    release = sf.open(path).sql("SELECT AVG(x) AS m, SUM(x) AS s FROM t", epsilon="0.000001").release()
    (measure,) = release.plan.measures
    assert isinstance(measure, Moments)
    step = measure.clamps[0].step  # values are rounded down to the grid, and so are the bounds
    assert step < 10**10
    (row,) = release.rows(level="0.999999999")  # so that noise alone is not taken for people
    assert 10**15 - step < row["m_high"] <= 10**15
    assert -(10**15) - step < row["m_low"] <= -(10**15)
    release.arrow()


def test_no_output_takes_the_name_of_another_s_interval(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    release = db.sql(
        "SELECT COUNT(*) AS a, SUM(age) AS a_low, COUNT(age) AS a FROM visits", epsilon=1
    ).release()
    assert len(set(release.columns)) == len(release.columns) == 9


def test_a_mean_lies_within_its_interval_whatever_the_noise(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    for turn in range(60):
        row = (
            db.sql(f"SELECT AVG(cost) AS m FROM visits WHERE age <> {turn}", epsilon="0.5")
            .release()
            .rows()[0]
        )
        assert row["m_low"] <= row["m"] <= row["m_high"]


def test_a_question_cannot_steer_the_owner_s_terminal(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    db.sql("SELECT COUNT(*) /* \x1b[2J\x07 */ FROM visits", epsilon=1).release()
    assert "\x1b" not in repr(db.budget)
    assert "\x07" not in repr(db.budget)


def test_a_name_cannot_steer_the_owner_s_terminal(tmp_path: Path) -> None:
    path = make(tmp_path, [])
    for age, name in enumerate(("ana", "\x1b[2J\x07")):
        sql = f"SELECT COUNT(*) FROM visits WHERE age <> {age}"
        try:
            sf.open(path, analyst=name).sql(sql, epsilon=1).release()
        except sf.InvalidParameter:
            continue  # refusing such a name is as good
    shown = repr(sf.open(path).budget)
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_what_an_analyst_types_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(sf.QueryRefused):
        opened(tmp_path, []).sql("ALTER TABLE visits SECRET-THING", epsilon=1)
    assert caplog.text == ""


def test_a_price_in_a_race_is_what_this_call_paid(tmp_path: Path) -> None:
    path = make(tmp_path, [], budget="1")
    first, second = sf.open(path), sf.open(path)
    questions = [db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5") for db in (first, second)]
    assert [question.release().cost.amount for question in questions] == [Fraction(1, 2), 0]
    assert second.budget.spent == sf.Guarantee.parse("0.5")
