"""Parquet files that DuckDB did not write: what is refused, what the owner reads, what nobody can tell."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.parquets import (
    POLICY,
    Pair,
    answers,
    arrow,
    one_sided,
    pairs,
    polars,
    raw,
    raw_text,
    seen,
    table,
)

import sfumato as sf
from sfumato.cli.main import main
from sfumato.exact.secret import unseal
from sfumato.queries import policy as policies
from sfumato.sources.duckdb import DuckDB, read

if TYPE_CHECKING:
    from pathlib import Path

    from tests.parquets import Column, Write

pytestmark = pytest.mark.slow  # `make check` leaves it out

DAYS = pa.array([1], pa.int32()).view(pa.date32())
COUNT = "SELECT COUNT(*) FROM visits"


def source(folder: Path, write: Write, kind: str = "integer") -> Path:
    """A folder of files, and its policy."""
    (folder / "files" / "visits").mkdir(parents=True)
    write(folder / "files" / "visits")
    policy = folder / "visits.toml"
    policy.write_text(POLICY.format(kind=kind), encoding="utf-8")
    return policy


def exact(policy: Path, sql: str) -> Any:
    return answers(policy, (sql,))[0]


def counted(policy: Path, sql: str) -> int:
    (vector,) = exact(policy, sql)
    return int(vector[0]) // 1024  # counts of people with a cap lie on a grid


# Neighbours -------------------------------------------------------------------------------------------


SOME = [pytest.param(p, marks=[] if n % 6 == 0 else pytest.mark.slow) for n, p in enumerate(pairs())]


@pytest.mark.parametrize("pair", SOME, ids=lambda pair: pair.name)
def test_no_question_fails_on_one_side_only(pair: Pair, tmp_path: Path) -> None:
    assert one_sided(pair, tmp_path / "pair") == []


def test_before_the_owner_reads_all_refusals_are_one(tmp_path: Path) -> None:
    texts = (b"caf\xc3\xa9", b"caf\xe9")
    sides = Pair("", "text", *(arrow(table(raw_text([b"a", each]))) for each in texts))
    never = [seen(policy, sides.questions(), reads=False) for policy in sides.make(tmp_path / "never")]
    good, broken = sides.make(tmp_path / "read")
    after = seen(broken, sides.questions(), reads=True)
    assert seen(good, sides.questions(), reads=True) == ("answered",) * len(sides.questions())
    file = good.parent / "files" / "visits" / "0.parquet"
    os.utime(file, ns=(1, 1))
    with pytest.raises(sf.NotRead) as refusal:
        sf.open(good).sql(f"{COUNT} WHERE x = 'new'", epsilon="1").release()
    told = {" ".join(word for word in str(refusal.value).split() if "/" not in word)}
    assert {each.removeprefix("free: NotRead: ") for side in (*never, after) for each in side} == told


@pytest.mark.parametrize("condition", ["x > 100", "x >= 100", "x <> 50", "NOT x < 100"])
@pytest.mark.parametrize("writer", ["pyarrow", "polars"])
def test_a_value_of_one_person_brings_no_others_back(tmp_path: Path, writer: str, condition: str) -> None:
    """A footer leaves NaN out, so that one large value decided whether 500 rows of NaN were looked at."""
    counts = []
    for name, mine in (("without", 50.0), ("with", 200.0)):
        x = [float("nan")] * 500 + [50.0, mine]
        frame = table(pa.array(np.array(x), pa.float64()))
        held = pl.DataFrame({"pid": range(1, len(x) + 1), "x": x})
        write = arrow(frame) if writer == "pyarrow" else polars(held)
        counts.append(counted(source(tmp_path / name, write, "number"), f"{COUNT} WHERE {condition}"))
    assert counts[0] == 500
    assert counts[1] - counts[0] == 1


def test_minus_zero_is_zero_whatever_a_bloom_filter_says(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "files"
    folder.mkdir(parents=True)
    file = folder / "visits.parquet"
    with duckdb.connect() as connection:
        rows = "SELECT i + 1 AS pid, '-0.0'::DOUBLE AS x FROM range(1000) AS t(i)"
        connection.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet)")
    policy = tmp_path / "a" / "visits.toml"
    policy.write_text(POLICY.format(kind="number"), encoding="utf-8")
    assert counted(policy, f"{COUNT} WHERE x = 0") == 1000


@pytest.mark.slow
def test_answers_are_those_of_the_same_rows_in_a_table(tmp_path: Path) -> None:
    compared = 0
    for number, pair in enumerate(pairs()):
        _, policy = pair.make(tmp_path / str(number))
        try:
            found = answers(policy, pair.questions())
        except sf.SourceError:
            continue
        place = tmp_path / f"{number}.duckdb"
        with duckdb.connect(str(place)) as connection:
            files = policy.parent / "files" / "visits" / "*.parquet"
            connection.execute(
                f"CREATE TABLE visits AS SELECT pid, x FROM read_parquet('{files}', can_have_nan = true)"
            )
        tables, database = DuckDB(place), sf.open(policy)
        for sql, vectors in zip(pair.questions(), found, strict=True):
            plan = database.sql(sql, epsilon="1").plan
            assert unseal(tables.run(tables.compile(plan))).vectors == vectors, (pair.name, sql)
            compared += 1
    assert compared > 200


# Footers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (table(pa.array([1], pa.int64())), "column 'x' is INTEGER in 0.parquet and BIGINT in 1.parquet"),
        (pa.table({"pid": [3]}), "1.parquet has no column 'x', which 0.parquet has"),
        (
            pa.table([pa.array([1]), pa.array([2], pa.int32()), pa.array(["a"])], names=["pid", "x", "X"]),
            "1.parquet has two columns named 'x'",
        ),
    ],
)
def test_files_that_differ_are_refused_for_nothing_and_by_name(
    tmp_path: Path, second: pa.Table, says: str
) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1], pa.int32())), second))
    with pytest.raises(sf.SourceError, match=says) as refusal:
        sf.open(policy)
    assert f"sfumato prepare {policy}" in str(refusal.value)
    assert not policy.with_suffix(".ledger").exists()


def test_a_folder_becomes_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "export"
    (folder / "visits").mkdir(parents=True)
    pq.write_table(table(pa.array([1, 2])), folder / "visits" / "0.parquet")
    pq.write_table(pa.table({"ward": ["A"]}), folder / "wards.parquet")
    given = ["init", str(folder), "--unit", "visits=pid", "--rows", "visits=2", "--public", "wards"]
    found = CliRunner().invoke(main, given)
    assert found.exit_code == 0, found.output
    policy = tmp_path / "export.toml"
    assert f"next: sfumato check --read {policy}" in found.output
    assert 'parquet = "export"' in policy.read_text(encoding="utf-8")
    found = CliRunner().invoke(main, ["check", "--read", str(policy)])
    assert found.exit_code == 0, found.output
    assert "All declared columns of all files were read: no value makes" in found.output
    assert sf.open(policy).sql(COUNT, epsilon="1").release().cost.amount == 1
    monkeypatch.chdir(folder)
    found = CliRunner().invoke(main, ["init", ".", *given[2:]])
    assert found.exit_code == 0, found.output
    assert 'parquet = "."' in (folder / "export.toml").read_text(encoding="utf-8")
    (tmp_path / "empty").mkdir()
    found = CliRunner().invoke(main, ["init", str(tmp_path / "empty")])
    assert found.exit_code == 1
    assert "has no .parquet files" in found.output


def test_columns_that_are_not_declared_may_differ(tmp_path: Path) -> None:
    one, other = table(pa.array([1]), more=pa.array([1])), table(pa.array([2]), more=pa.array([["a"]]))
    policy = source(tmp_path, arrow(one, other))
    assert counted(policy, COUNT) == 2


def test_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    policy = source(tmp_path / "pid=7", arrow(table(pa.array([1, 2, 3]))))
    assert counted(policy, f"{COUNT} WHERE pid < 3") == 2


def test_a_file_that_is_cut_is_named(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1])), table(pa.array([2]))))
    file = tmp_path / "files" / "visits" / "1.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(sf.SourceError, match=r"1\.parquet cannot be read as a Parquet file"):
        sf.open(policy)


# Reading ----------------------------------------------------------------------------------------------


def test_the_owner_reads_on_and_learns_which_file_and_column(tmp_path: Path) -> None:
    secret = b"caf\xe9 of SECRET"
    policy = source(tmp_path, arrow(table(raw_text([b"a"])), table(raw_text([secret]))), "text")
    found = CliRunner().invoke(main, ["check", str(policy)])
    assert found.exit_code == 0
    assert f"Next: sfumato check --read {policy}" in " ".join(found.output.split())
    found = CliRunner().invoke(main, ["check", "--read", str(policy)])
    assert found.exit_code == 1
    assert "visits/1.parquet, column 'x' (VARCHAR): text that is not UTF-8" in found.output
    assert "SECRET" not in found.output
    assert "visits/0.parquet, column" not in found.output
    arrow(table(raw_text([b"a"])), table(raw_text([b"b"])))(tmp_path / "files" / "visits")
    found = CliRunner().invoke(main, ["check", "--read", "--json", str(policy)])
    assert json.loads(found.stdout)["read"] is True
    note = policy.with_suffix(".read")
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    facts = json.loads(note.read_text(encoding="utf-8"))
    assert facts["columns"] == {"visits": ["pid", "x"]}
    assert [state[0] for state, _ in facts["files"]["visits"]] == ["visits/0.parquet", "visits/1.parquet"]
    assert sf.open(policy).sql(COUNT, epsilon="1").release().cost.amount == 1


def test_what_was_found_broken_is_not_asked_any_more(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(raw([10**12], pa.timestamp("ms")))), "timestamp")
    read(policies.load(policy))
    arrow(table(raw([2**62], pa.timestamp("ms"))))(tmp_path / "files" / "visits")
    with pytest.raises(sf.SourceError, match=r"column 'x' \(TIMESTAMP\): values beyond the range"):
        read(policies.load(policy))
    assert not policy.with_suffix(".read").exists()


@pytest.mark.parametrize("wrong", ["", "{", "[]", '{"form": 0}', '{"form": 1, "engine": "0"}'])
def test_a_note_that_says_nothing_counts_for_nothing(tmp_path: Path, wrong: str) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1]))))
    policy.with_suffix(".read").write_text(wrong, encoding="utf-8")
    with pytest.raises(sf.NotRead):
        sf.open(policy).sql(COUNT, epsilon="1").release()


def test_another_column_and_another_engine_must_be_read(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1]), y=pa.array([2]))))
    read(policies.load(policy))
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text + 'y = "integer"\n', encoding="utf-8")
    with pytest.raises(sf.NotRead):
        sf.open(policy).sql(COUNT, epsilon="1").release()
    policy.write_text(text, encoding="utf-8")
    sf.open(policy).sql(COUNT, epsilon="1").release()
    note = policy.with_suffix(".read")
    note.write_text(note.read_text(encoding="utf-8").replace(duckdb.__version__, "0.0"), encoding="utf-8")
    with pytest.raises(sf.NotRead):
        sf.open(policy).sql(f"{COUNT} WHERE x = 1", epsilon="1").release()


def test_a_file_of_the_same_size_and_time_is_another_one(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1, 2]))))
    read(policies.load(policy))
    database = sf.open(policy)
    file = tmp_path / "files" / "visits" / "0.parquet"
    before = file.stat()
    pq.write_table(table(pa.array([1, 3])), file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    spent = database.ledger.spent
    with pytest.raises(sf.NotRead):
        database.sql(COUNT, epsilon="1").release()
    assert database.ledger.spent == spent


def test_stored_releases_are_repeated_without_a_reading(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1]))))
    read(policies.load(policy))
    first = sf.open(policy).sql(COUNT, epsilon="1").release()
    policy.with_suffix(".read").unlink()
    database = sf.open(policy)
    again = database.sql(COUNT, epsilon="1").release()
    assert again.rows() == first.rows()
    assert database.ledger.spent.amount == 1
    with pytest.raises(sf.NotRead, match="Nothing was charged"):
        database.sql(f"{COUNT} WHERE x = 1", epsilon="1").release()
    with pytest.raises(sf.NotRead):
        database.batch([database.sql(f"{COUNT} WHERE x = 2", epsilon="1")]).release()
    assert database.ledger.spent.amount == 1


def test_files_that_change_while_they_are_asked_fail_in_the_one_way(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1, 2]))))
    read(policies.load(policy))
    database = sf.open(policy)
    plan = database.sql(COUNT, epsilon="1").plan
    database.source.run(database.source.compile(plan))
    policy.with_suffix(".read").unlink()
    with pytest.raises(sf.QueryFailed):
        database.source.run(database.source.compile(plan))


def test_files_that_were_replaced_and_read_are_opened_anew(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(pa.array([1, 2]))))
    read(policies.load(policy))
    database = sf.open(policy)
    arrow(table(pa.array([1, 2])), table(pa.array([3])))(tmp_path / "files" / "visits")
    read(policies.load(policy))
    with pytest.raises(sf.SourceError, match="Open it again, and record that stored releases are") as refusal:
        database.sql(COUNT, epsilon="1").release()
    assert not isinstance(refusal.value, sf.NotRead)
    assert counted(policy, COUNT) == 3


def test_reading_is_refused_where_nothing_needs_it(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1::BIGINT AS pid, 2::BIGINT AS x")
    policy = tmp_path / "visits.toml"
    text = POLICY.format(kind="integer").replace('parquet = "files"', 'duckdb = "visits.duckdb"')
    policy.write_text(text, encoding="utf-8")
    found = CliRunner().invoke(main, ["check", "--read", str(policy)])
    assert found.exit_code == 1
    assert "omit it" in found.output
    assert json.loads(CliRunner().invoke(main, ["check", "--json", str(policy)]).stdout)["read"] is None


# The way out ------------------------------------------------------------------------------------------


def moved(tmp_path: Path, kind: str, *tables: pa.Table) -> Path:
    policy = source(tmp_path, arrow(*tables), kind)
    with pytest.raises(sf.SourceError, match="differ"):
        sf.open(policy)
    return policy


def prepared(policy: Path) -> sf.Database:
    found = CliRunner().invoke(main, ["prepare", str(policy)])
    assert found.exit_code == 0, found.output
    return sf.open(policy)


@pytest.mark.parametrize(
    ("kind", "first", "second", "condition", "holds"),
    [
        ("integer", pa.array([1], pa.int32()), pa.array([None, 3_000_000_000]), "x > 100", 1),
        ("integer", pa.array([1], pa.int32()), pa.array([None, 200.0]), "x = 200", 1),
        ("integer", pa.array([1], pa.int32()), pa.array(["7", None]), "x = 7", 1),
        ("integer", pa.array([1], pa.uint64()), pa.array([-7, None]), "x < 0", 1),
        ("integer", pa.array([1]), pa.nulls(2), "x = 1", 1),
        ("number", pa.array([1.5]), pa.array([2, 3]), "x > 1.7", 2),
        ("text", pa.array(["a"]), pa.array([b"caf\xc3\xa9", None]), "x = 'caf\xe9'", 1),
        ("text", pa.array(["a"]), pa.array([12, 13]), "x = '12'", 1),
        ("date", DAYS, raw([0, 86_400_000], pa.timestamp("ms")), "x = DATE '1970-01-02'", 2),
    ],
)
def test_a_copy_brings_files_to_one_type(
    tmp_path: Path, kind: str, first: Column, second: Column, condition: str, holds: int
) -> None:
    policy = source(tmp_path, arrow(table(first), table(second)), kind)
    database = prepared(policy)
    release = database.sql(f"{COUNT} WHERE {condition}", epsilon="1000").release()
    assert round(release.rows()[0]["count"]) == holds


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (pa.array([1.5, float("nan"), None]), "2 of DOUBLE do not fit BIGINT"),
        (pa.array([2.0**60]), "1 of DOUBLE do not fit BIGINT"),
        (pa.array(["n/a", "5", "1.5", " 5"]), "3 of VARCHAR do not fit BIGINT"),
        (pa.array([[1]]), "cannot become integer"),
    ],
)
def test_a_copy_fails_loudly_where_a_value_does_not_fit(tmp_path: Path, second: Column, says: str) -> None:
    policy = moved(tmp_path, "integer", table(pa.array([1], pa.int32())), table(second))
    found = CliRunner().invoke(main, ["prepare", str(policy)])
    assert found.exit_code == 1
    assert says in found.output
    assert "1.parquet" in found.output
    assert not list(tmp_path.glob("*.prepared.duckdb"))
    assert "prepared" not in policy.read_text(encoding="utf-8")


def test_a_copy_says_which_file_cannot_be_read(tmp_path: Path) -> None:
    policy = source(tmp_path, arrow(table(raw_text([b"a"])), table(raw_text([b"caf\xe9"]))), "text")
    found = CliRunner().invoke(main, ["prepare", str(policy)])
    assert found.exit_code == 1
    assert "visits/1.parquet, column 'x' (VARCHAR): text that is not UTF-8" in found.output


def test_rows_of_a_file_without_the_column_have_none_in_a_copy_unless_it_is_the_unit(tmp_path: Path) -> None:
    database = prepared(moved(tmp_path / "a", "integer", table(pa.array([1])), pa.table({"pid": [5, 6]})))
    release = database.sql(f"{COUNT} WHERE x IS NULL", epsilon="1000").release()
    assert round(release.rows()[0]["count"]) == 2
    policy = moved(tmp_path / "b", "integer", table(pa.array([1])), pa.table({"x": [5, 6]}))
    found = CliRunner().invoke(main, ["prepare", str(policy)])
    assert found.exit_code == 1
    assert "which says whom a row belongs to" in found.output


# Tables of DuckDB's -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW visits AS SELECT pid, CAST(t AS BIGINT) AS x FROM held",
        "CREATE MACRO visits() AS TABLE SELECT pid, CAST(t AS BIGINT) AS x FROM held",
        "CREATE TABLE visits (pid BIGINT, t VARCHAR, x BIGINT AS (CAST(t AS BIGINT)))",
    ],
)
def test_nothing_that_computes_is_taken_for_a_table(tmp_path: Path, made: str) -> None:
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE held AS SELECT 1::BIGINT AS pid, '5' AS t")
        connection.execute(made)
    policy = tmp_path / "visits.toml"
    text = POLICY.format(kind="integer").replace('parquet = "files"', 'duckdb = "visits.duckdb"')
    policy.write_text(text, encoding="utf-8")
    with pytest.raises(sf.SourceError, match=r"views do not count|leave the column out"):
        sf.open(policy)


def test_a_table_holds_no_text_that_cannot_be_read(tmp_path: Path) -> None:
    broken = table(raw_text([b"a", b"caf\xe9"]))
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.register("broken", broken)
        with pytest.raises(duckdb.InvalidInputException, match="Invalid unicode"):
            connection.execute("CREATE TABLE visits AS SELECT * FROM broken")
