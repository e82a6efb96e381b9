"""The prepared copy as a file: when it is used, when it is refused, and that it says the same."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from click.testing import CliRunner
from tests.support import answer, engine

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import NotRead, SourceError
from sfumato.queries import forms
from sfumato.queries import policy as policies
from sfumato.server.desk.deadlines import deadline
from sfumato.sources import prepare as writing
from sfumato.sources.duckdb import prepare, read

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

pytestmark = pytest.mark.slow  # `make check` leaves it out

POLICY = """
[source]
duckdb = "shop.duckdb"
prepared = "copy.duckdb"
[budget]
epsilon = "1000"
delta = "0.01"
[units]
people = ["orders.buyer"]
shelves = ["shelves"]
[tables.orders]
unit = "buyer"
rows_per_person = 5
[tables.orders.columns]
buyer = "text"
amount = { type = "integer", low = -10, high = 90, required = true }
price = { type = "number", low = 0, high = 100 }
kind = { type = "text", keys = "kinds.kind" }
day = "date"
[tables.lines]
unit = "item -> orders.buyer"
rows_per_person = 3
[tables.lines.columns]
item = "text"
weight = { type = "number", low = 0, high = 8, required = true }
[tables.shelves]
unit = "row"
columns = { height = { type = "number", low = 0, high = 3 } }
[tables.kinds]
public = true
columns = { kind = { type = "text" } }
"""
QUESTIONS = [
    "SELECT COUNT(*) FROM orders",
    "SELECT kind, COUNT(*), AVG(amount) FROM orders GROUP BY kind",
    "SELECT kind, SUM(price) FROM orders WHERE amount > 20 GROUP BY kind",
    "SELECT MEDIAN(amount) FROM orders",
    "SELECT COUNT(DISTINCT buyer) FROM orders",
    "SELECT AVG(weight) FROM lines",
    "SELECT kind, SUM(weight) FROM orders JOIN lines ON buyer = item GROUP BY kind",
    "SELECT SUM(height) FROM shelves",
    "SELECT day, COUNT(*) FROM orders GROUP BY day",
]


def shop(folder: Path, people: int = 60, most: int = 5) -> Path:
    """Nobody has more than `most` rows, so that nothing is rounded where people are not heavy."""
    rng = random.Random(4)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TYPE sort AS ENUM ('a', 'b', 'c')")
        connection.execute(
            "CREATE TABLE orders (buyer UUID, amount SMALLINT, price FLOAT, kind sort, day DATE, extra INT)"
        )
        connection.execute("CREATE TABLE lines (item UUID, weight DOUBLE)")
        connection.execute(
            "CREATE TABLE shelves AS SELECT CAST(i AS DOUBLE) / 50 AS height FROM range(100) t(i)"
        )
        connection.execute("CREATE TABLE kinds AS SELECT UNNEST(['a', 'b', 'c']) AS kind")
        for person in range(people):
            name = f"00000000-0000-0000-0000-{person:012d}"
            for _ in range(rng.randint(1, most)):
                price = "NULL" if rng.random() < 0.2 else f"{rng.uniform(-5, 120):.3f}"
                amount = "NULL" if rng.random() < 0.2 else str(rng.randint(-50, 150))
                connection.execute(
                    f"INSERT INTO orders VALUES ('{name}', {amount}, {price}, '{rng.choice('abc')}', "
                    f"DATE '2024-01-0{rng.randint(1, 9)}', 1)"
                )
            connection.execute(f"INSERT INTO lines VALUES ('{name}', {rng.uniform(-1, 9):.3f})")
        connection.execute("INSERT INTO orders VALUES (NULL, 5, 5, 'a', NULL, 1)")
    (folder / "shop.toml").write_text(POLICY, encoding="utf-8")
    return folder / "shop.toml"


def plain(policy: Path) -> Database:
    text = policy.read_text(encoding="utf-8").replace('prepared = "copy.duckdb"', "")
    beside = policy.with_name("plain.toml")
    beside.write_text(text, encoding="utf-8")
    return sf.open(beside)


@pytest.mark.parametrize("most_rows", [1 << 24, 7])
def test_a_copy_says_what_the_tables_say(
    tmp_path: Path, most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_SORTED", most_rows)  # small slices, and parts of slices
    policy = shop(tmp_path)
    steps: list[tuple[str, float]] = []
    prepare(policies.load(policy), lambda name, done: steps.append((name, done)))
    assert [name for name, done in steps if done == 0] == ["orders", "lines", "shelves", "kinds"]
    assert all(0 <= done <= 1 for _, done in steps)
    copied, tables = sf.open(policy), plain(policy)
    for sql in QUESTIONS:
        delta = "1e-6" if "GROUP BY day" in sql else None
        a, b = (answer(db.sql(sql, epsilon=1, delta=delta)) for db in (copied, tables))
        assert a == b, sql
    assert copied.sql(QUESTIONS[0], epsilon=1).engine_sql != tables.sql(QUESTIONS[0], epsilon=1).engine_sql


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "sql"),
    [  # of a hundred rows each: most without a declared key, small values under a wide bound, both signs
        ("CASE WHEN i % 100 < 5 THEN 'a' ELSE 'b' END, 1", "SELECT kind, COUNT(*) FROM orders GROUP BY kind"),
        ("'a', 1", "SELECT AVG(price) FROM orders"),
        ("'a', CASE WHEN i % 2 = 0 THEN 90 ELSE -10 END", "SELECT SUM(amount) FROM orders"),
        ("'a', 1", "SELECT COUNT(*) FROM orders WHERE day IS NULL"),
    ],
)
def test_heavy_people_are_scaled_as_they_are_in_the_tables(tmp_path: Path, rows: str, sql: str) -> None:
    policy = shop(tmp_path, people=3)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        kind, amount = rows.split(", ", 1)
        who = "CAST('00000000-0000-0000-0000-0000000000' || lpad(CAST(i // 100 AS VARCHAR), 2, '0') AS UUID)"
        connection.execute(
            f"INSERT INTO orders SELECT {who}, {amount}, 0.001, {kind}, NULL, 1 FROM range(9900) t(i)"
        )
        connection.execute("DELETE FROM kinds WHERE kind <> 'a'")
    prepare(policies.load(policy))
    assert answer(sf.open(policy).sql(sql, epsilon=1)) == answer(plain(policy).sql(sql, epsilon=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shop.duckdb", "shop.ledger", "notes.txt", "folder", "nowhere/copy.duckdb"])
def test_a_copy_replaces_nothing_but_a_copy(tmp_path: Path, name: str) -> None:
    policy = shop(tmp_path)
    plain(policy).sql(QUESTIONS[0], epsilon=1).release()
    (tmp_path / "plain.ledger").rename(tmp_path / "shop.ledger")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    before = {each.name: each.stat().st_size for each in tmp_path.iterdir() if each.name != "shop.toml"}
    policy.write_text(POLICY.replace("copy.duckdb", name), encoding="utf-8")
    with pytest.raises(SourceError, match="was not written"):
        prepare(policies.load(policy))
    assert before == {
        each.name: each.stat().st_size for each in tmp_path.iterdir() if each.name != "shop.toml"
    }


def test_rows_that_only_the_log_of_the_source_holds_make_a_copy_stale(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    killed = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('DELETE FROM lines'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "shop.duckdb")], check=False)
    assert (tmp_path / "shop.duckdb.wal").exists()
    with pytest.raises(SourceError, match="changed since it was made"):
        sf.open(policy)


def test_a_copy_that_somebody_wrote_into_is_refused_and_made_anew(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    killed = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('DELETE FROM lines'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "copy.duckdb")], check=False)
    with pytest.raises(SourceError, match="It was modified after it was made"):
        sf.open(policy)
    prepare(policies.load(policy))
    assert sf.open(policy).sql(QUESTIONS[0], epsilon=1).release()


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for number in (gone.pid, os.getpid()):
        (tmp_path / f".copy.duckdb.{number}.x").mkdir()
    prepare(policies.load(policy))
    assert [each.name for each in tmp_path.glob(".copy*")] == [f".copy.duckdb.{os.getpid()}.x"]


def test_tables_that_are_gone_are_named_before_anything_is_charged(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    db = sf.open(policy)
    (tmp_path / "shop.duckdb").unlink()
    with pytest.raises(SourceError, match=r"no longer exists. Nothing was charged"):
        db.sql(QUESTIONS[0], epsilon=1).release()
    assert db.ledger.spent.amount == 0


def test_a_copy_holds_declared_columns_of_people_only_sorted_and_is_private(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    target = prepare(policies.load(policy))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    with duckdb.connect(str(target), read_only=True) as connection:
        columns = [row[0] for row in connection.execute("DESCRIBE orders").fetchall()]
        assert "extra" not in columns
        people = connection.execute("SELECT sfumato_rows, buyer FROM orders").fetchall()
        assert people == sorted(people)
        assert all(buyer is not None for _, buyer in people)


def test_whoever_is_slow_to_prepare_again_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    db = sf.open(policy)
    question = db.sql(QUESTIONS[0], epsilon=1)
    os.utime(tmp_path / "shop.duckdb", ns=(1, 1))
    with pytest.raises(SourceError, match=r"The data changed since it was made\. Nothing was charged\."):
        question.release()
    with pytest.raises(SourceError, match="The data changed"):
        db.batch([question]).release()
    assert db.ledger.spent.amount == 0
    with pytest.raises(SourceError, match=r"Make it again: sfumato prepare .*shop\.toml"):
        sf.open(policy)
    prepare(policies.load(policy))
    assert sf.open(policy).sql(QUESTIONS[0], epsilon=1).release()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        ("high = 90", "high = 80", True),
        ("low = 0, high = 100", "low = 0, high = 100, grid = 1", True),
        (", required = true }\nprice", " }\nprice", True),
        ('unit = "item -> orders.buyer"', 'unit = "item"', True),
        ("rows_per_person = 5", "rows_per_person = 2", False),
        ('epsilon = "1000"', 'epsilon = "10"', False),
    ],
)
def test_a_policy_that_says_something_else_about_the_copy_refuses_it(
    tmp_path: Path, before: str, after: str, is_refused: bool
) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    assert before in POLICY
    text = POLICY.replace(before, after)
    if after == 'unit = "item"':
        text = text.replace('["orders.buyer"]', '["orders.buyer", "lines.item"]')
    policy.write_text(text, encoding="utf-8")
    if is_refused:
        with pytest.raises(SourceError, match="The data or the policy changed"):
            sf.open(policy)
    else:
        assert sf.open(policy).sql(QUESTIONS[0], epsilon=1).release()


def test_a_copy_that_is_missing_or_nobodys_is_named(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    with pytest.raises(SourceError, match=r"There is no such file\. .* sfumato prepare"):
        sf.open(policy)
    duckdb.connect(str(tmp_path / "copy.duckdb")).close()
    with pytest.raises(SourceError, match="or Sfumato did not make it"):
        sf.open(policy)


def test_an_answer_stays_free_when_the_tables_are_prepared_later(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    without = POLICY.replace('prepared = "copy.duckdb"\n', "")
    policy.write_text(without, encoding="utf-8")
    first = sf.open(policy).sql(QUESTIONS[1], epsilon=1).release()
    policy.write_text(POLICY, encoding="utf-8")
    prepare(policies.load(policy))
    again = sf.open(policy).sql(QUESTIONS[1], epsilon=1).release()
    assert (again.drawn, again.receipt.number) == (first.drawn, first.receipt.number)


def test_names_of_ours_are_refused_and_an_older_copy_stays(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    size = (tmp_path / "copy.duckdb").stat().st_size
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("ALTER TABLE orders RENAME COLUMN price TO sfumato_rows")
    policy.write_text(POLICY.replace("price =", "sfumato_rows ="), encoding="utf-8")
    with pytest.raises(SourceError, match=r"orders\.sfumato_rows has a name"):
        prepare(policies.load(policy))
    assert (tmp_path / "copy.duckdb").stat().st_size == size


def test_empty_tables_can_be_prepared(tmp_path: Path) -> None:
    policy = shop(tmp_path, people=0)
    prepare(policies.load(policy))
    db = sf.open(policy)
    assert answer(db.sql(QUESTIONS[1], epsilon=1)) == answer(plain(policy).sql(QUESTIONS[1], epsilon=1))


def test_whoever_has_the_older_copy_open_goes_on(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    db = sf.open(policy)
    before = answer(db.sql(QUESTIONS[1], epsilon=1))
    workers = [threading.Thread(target=prepare, args=(policies.load(policy),)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (
        answer(db.sql(QUESTIONS[1], epsilon=1))
        == before
        == answer(sf.open(policy).sql(QUESTIONS[1], epsilon=1))
    )


def test_a_child_asks_the_copy_too(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    db = sf.open(policy)
    wanted = answer(db.sql(QUESTIONS[0], epsilon=1))
    child = os.fork()
    if not child:
        os._exit(0 if answer(db.sql(QUESTIONS[0], epsilon=1)) == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_fails_in_the_copy_is_run_again_without_optimizers(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    prepare(policies.load(policy))
    db = sf.open(policy)
    question = db.sql(QUESTIONS[0], epsilon=1)
    plainly = [
        row
        for (sql,) in [db.source.compile(question.plan).texts]
        for row in engine(db.source, plain=True).execute(sql).fetchall()
    ]
    assert plainly == engine(db.source).execute(db.source.compile(question.plan).texts[0]).fetchall()


def test_data_that_change_meanwhile_make_no_copy(tmp_path: Path) -> None:
    policy = shop(tmp_path)

    def touch(_name: str, _done: float) -> None:
        os.utime(tmp_path / "shop.duckdb", ns=(1, 1))

    with pytest.raises(SourceError, match="the data changed meanwhile"):
        prepare(policies.load(policy), touch)
    assert not (tmp_path / "copy.duckdb").exists()


def test_parquet_can_be_prepared(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    (tmp_path / "files").mkdir()
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        for table in ("orders", "lines", "shelves", "kinds"):
            connection.execute(f"COPY {table} TO '{tmp_path / 'files' / table}.parquet'")
    policy.write_text(POLICY.replace('duckdb = "shop.duckdb"', 'parquet = "files"'), encoding="utf-8")
    declared = policies.load(policy)
    prepare(declared)
    copied, tables = sf.open(policy), plain(policy)
    read(tables.policy)
    for sql in QUESTIONS[:-1]:
        assert answer(copied.sql(sql, epsilon=1)) == answer(tables.sql(sql, epsilon=1)), sql
    assert forms.policy(replace(declared, prepared=None)) == forms.policy(declared)


def automatic(policy: Path) -> Path:
    policy.write_text(policy.read_text(encoding="utf-8").replace('"copy.duckdb"', '"auto"'), encoding="utf-8")
    return policy.with_name("shop.prepared.duckdb")


def test_an_automatic_copy_is_put_in_place_when_the_data_change_and_says_the_same(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    target = automatic(policy)
    db = sf.open(policy)
    before = [answer(db.sql(sql, epsilon=1)) for sql in QUESTIONS[:-1]]
    assert db.source.copy is None
    asked = db.sql(QUESTIONS[0], epsilon=1)
    db.data_changed()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(SourceError, match="Open it again"):
        asked.release()
    spent, again = db.ledger.spent, sf.open(policy)
    assert again.source.copy is not None
    assert [answer(again.sql(sql, epsilon=1)) for sql in QUESTIONS[:-1]] == before
    assert again.ledger.spent == spent
    again.sql(QUESTIONS[0], epsilon=1).release()


def test_whether_there_is_an_automatic_copy_changes_no_message_and_no_deadline(tmp_path: Path) -> None:
    told = []
    for name in ("with", "without"):
        folder = tmp_path / name
        folder.mkdir()
        policy = shop(folder)
        automatic(policy)
        sf.open(policy).data_changed(copy=name == "with")
        db = sf.open(policy)
        assert (db.source.copy is not None) == (name == "with")
        question = db.sql(QUESTIONS[1], epsilon=1)
        due = deadline(question.plan, db.policy, alike=db.alike)
        os.utime(folder / "shop.duckdb", ns=(1, 1))
        with pytest.raises(SourceError) as changed:
            question.release()
        assert sf.open(policy).source.copy is None  # it is of other data now
        (folder / "shop.duckdb").unlink()
        with pytest.raises(SourceError) as gone:
            sf.open(policy)
        told.append((due, *(str(each.value).replace(str(folder), "") for each in (changed, gone))))
    assert told[0] == told[1]


def test_an_automatic_copy_that_is_broken_or_of_another_policy_is_passed_over(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    target = automatic(policy)
    sf.open(policy).data_changed()
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("high = 90", "high = 80"), encoding="utf-8")
    assert sf.open(policy).source.copy is None
    policy.write_text(text, encoding="utf-8")
    assert sf.open(policy).source.copy is not None
    target.write_bytes(b"nothing of DuckDB's")
    db = sf.open(policy)
    assert db.source.copy is None
    before = db.ledger.data_version
    with pytest.raises(SourceError, match="another file is in its place"):
        db.data_changed()
    assert db.ledger.data_version == before  # nothing is recorded either
    target.unlink()
    db.data_changed()
    assert db.ledger.data_version == before + 1


def test_files_are_read_through_whether_or_not_there_is_an_automatic_copy(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    (tmp_path / "files").mkdir()
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        for table in ("orders", "lines", "shelves", "kinds"):
            connection.execute(f"COPY {table} TO '{tmp_path / 'files' / table}.parquet'")
    policy.write_text(POLICY.replace('duckdb = "shop.duckdb"', 'parquet = "files"'), encoding="utf-8")
    automatic(policy)
    sf.open(policy).data_changed()
    db = sf.open(policy)
    assert db.source.copy is not None
    with pytest.raises(NotRead):
        db.sql(QUESTIONS[0], epsilon=1).release()
    read(db.policy)
    sf.open(policy).sql(QUESTIONS[0], epsilon=1).release()


def test_the_commands_say_when_an_automatic_copy_is_written(tmp_path: Path) -> None:
    policy = shop(tmp_path)
    target = automatic(policy)
    runner = CliRunner()
    refused = runner.invoke(main, ["prepare", str(policy)])
    assert refused.exit_code
    assert "sfumato data-changed" in refused.output
    assert runner.invoke(main, ["data-changed", "--without-copy", str(policy)]).exit_code == 0
    assert not target.exists()
    assert "copying orders: 100%" in runner.invoke(main, ["data-changed", str(policy)]).output
    assert target.exists()
