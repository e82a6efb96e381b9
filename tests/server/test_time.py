"""When answers leave, and that nothing shows earlier that they are ready."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.serving import hospital
from tests.support import engine

import sfumato as sf
from sfumato.budget import OpenCharge
from sfumato.server.desk import owner
from sfumato.server.desk.deadlines import deadline, doublings, rounded, size_class
from sfumato.server.desk.desk import Caller, Desk, Settings
from sfumato.server.desk.retries import Wanted
from sfumato.server.desk.watch import SOONEST
from sfumato.sources.answers import Compiled, EngineStatements
from sfumato.sources.duckdb import DuckDB

if TYPE_CHECKING:
    from pathlib import Path

COUNT = Wanted("SELECT COUNT(*) AS n FROM visits", epsilon="1")


def desk(folder: Path, **settings: Any) -> tuple[Desk, Caller]:
    made = Desk(hospital(folder), Settings(rate=1e6, **settings))
    made.people.add("ana", "analyst")
    person = made.people.get("ana")
    assert person is not None
    return made, Caller(person, "test")


def moments(made: Desk) -> tuple[float, float]:
    """When the last charge was made, and when its release was stored."""
    entries = made.database.ledger.entries()
    charge = [each.at for each in entries if each.kind == "charge"][-1]
    return charge, next(each.at for each in entries if each.kind == "release" and each.at >= charge)


def test_a_deadline_depends_on_the_plan_and_on_declared_sizes_alone(tmp_path: Path) -> None:
    small, large = hospital(tmp_path / "small"), hospital(tmp_path / "large")
    with duckdb.connect(str(large.parent / "hospital.duckdb")) as connection:
        connection.execute(
            "INSERT INTO visits SELECT 1, 'surgery', DATE '2025-01-01', 1, NULL FROM range(1000000)"
        )
    found = []
    for policy in (small, large):
        database = sf.open(policy)
        question = database.sql(COUNT.sql, epsilon="1")
        found.append(deadline(question.plan, database.policy))
    assert found[0] == found[1]
    text = small.read_text().replace("rows = 6_000", "rows = 100_000_000")
    small.write_text(text)
    database = sf.open(small)
    assert deadline(database.sql(COUNT.sql, epsilon="1").plan, database.policy) > 10 * found[0]


def test_texts_of_any_length_are_cut_and_counted(tmp_path: Path) -> None:
    """What is made of a text takes as long as it is long: nobody's may make an answer late."""
    with duckdb.connect(str(tmp_path / "notes.duckdb")) as connection:
        connection.execute("CREATE TABLE notes (pid INTEGER, t VARCHAR)")
        connection.execute("INSERT INTO notes SELECT i, 'É note' FROM range(100) AS t(i)")
        connection.execute(
            "INSERT INTO notes VALUES (1371, repeat('É', 2_000_000) || 'x'), (1, repeat('É', 15_000))"
        )
    (tmp_path / "notes.toml").write_text(
        '[source]\nduckdb = "notes.duckdb"\n[budget]\nepsilon = "1000"\n[tables.notes]\nunit = "pid"\n'
        'rows_per_person = 3\nrows = 200_000\n[tables.notes.columns]\npid = { type = "integer" }\n'
        't = { type = "text" }\n',
        encoding="utf-8",
    )
    db = sf.open(tmp_path / "notes.toml")

    def counted(condition: str) -> float:
        (row,) = db.sql(f"SELECT COUNT(*) AS n FROM notes WHERE {condition}", epsilon="50").release().rows()
        return float(round(row["n"]))

    assert counted("LOWER(t) LIKE '%x'") == 0  # of the long one 10,000 letters are taken
    assert counted("LENGTH(UPPER(t || 'a')) = 10001") == 1
    assert counted("LENGTH(TRIM(t)) = 15000") == 1  # it has 30,000 bytes
    assert counted("t LIKE '%x' AND LENGTH(t) = 2000001") == 1  # nothing is made of it
    plans = [
        db.sql(f"SELECT COUNT(*) FROM notes WHERE {condition}", epsilon="1").plan
        for condition in ("t = 'a'", " OR ".join(f"LOWER(UPPER(t) || '{i}') = 'a'" for i in range(20)))
    ]
    short, long = (deadline(plan, db.policy) for plan in plans)
    assert short == 0.5
    assert long >= 8


def test_sizes_and_deadlines_are_coarse() -> None:
    assert [size_class(rows) for rows in (1, 2, 10, 11, 10**12)] == [1, 10, 10, 100, 10**12]
    assert [rounded(seconds) for seconds in (0.04, 0.0625, 1.0, 1.1)] == [0.0625, 0.0625, 1.0, 2.0]
    assert [doublings(took, 1.0) for took in (0.0, 1.0, 1.01, 2.0, 2.01, 9.0)] == [0, 0, 1, 1, 2, 4]


def test_a_release_is_stored_at_its_deadline_and_not_before(tmp_path: Path) -> None:
    made, caller = desk(tmp_path, pace=0.5)
    due = deadline(made.database.sql(COUNT.sql, epsilon="1").plan, made.database.policy, 0.5)
    began = time.monotonic()
    asyncio.run(made.ask(caller, COUNT))
    assert time.monotonic() - began >= due
    charged, stored = moments(made)
    assert stored - charged >= due - 0.001  # by another clock
    assert asyncio.run(made.ask(caller, COUNT)).release.cost.amount == 0


def test_nothing_shows_that_a_release_is_ready(tmp_path: Path) -> None:
    made, caller = desk(tmp_path, pace=4.0)
    due = deadline(made.database.sql(COUNT.sql, epsilon="1").plan, made.database.policy, 4.0)

    async def looked() -> None:
        asking = asyncio.create_task(made.ask(caller, COUNT))
        began = time.monotonic()
        while not made.database.ledger.history():
            await asyncio.sleep(0.01)
        asking.cancel()  # whoever stops waiting learns nothing earlier
        heads = set()
        while time.monotonic() - began < due * 0.8:
            heads.add(made.database.ledger.head)
            assert [each.redeemed for each in made.database.ledger.history()] == [False]
            assert made.database.sql(COUNT.sql, epsilon="1").kept() is None
            await asyncio.sleep(0.05)
        assert len(heads) == 1
        assert await made.finish(60) == 0
        assert [each.redeemed for each in made.database.ledger.history()] == [True]

    asyncio.run(looked())
    assert asyncio.run(made.ask(caller, COUNT)).release.cost.amount == 0  # stored although nobody waited


def test_a_missed_deadline_is_doubled_written_down_and_in_the_end_stops_whoever_asks(tmp_path: Path) -> None:
    made, caller = desk(tmp_path, pace=2.0**-20, late=30, stop_after=2.0**40)
    counts = [0]
    for n in range(1, 40):
        wanted = Wanted(f"SELECT COUNT(*) AS n FROM visits WHERE cost > {n}", epsilon="0.1")
        if counts[-1] >= 30:
            with pytest.raises(sf.Stopped, match="sfumato user review POLICY ana"):
                asyncio.run(made.ask(caller, wanted))
            break
        asyncio.run(made.ask(caller, wanted))
        counts.append(owner.late(made.database.ledger, "ana"))
        charged, stored = moments(made)
        due = deadline(made.database.sql(wanted.sql, epsilon="0.1").plan, made.database.policy, 2.0**-20)
        assert stored - charged >= due
    assert counts == sorted(counts)
    assert counts[-1] >= 30
    assert len(counts) - 1 == len(made.database.ledger.history())  # the last one was refused for nothing
    repeated = Wanted("SELECT COUNT(*) AS n FROM visits WHERE cost > 1", epsilon="0.1")
    assert asyncio.run(made.ask(caller, repeated)).release.cost.amount == 0
    owner.looked(made.database.ledger, "ana")
    assert owner.late(made.database.ledger, "ana") == 0
    asyncio.run(made.ask(caller, Wanted("SELECT COUNT(*) AS n FROM visits WHERE cost > 99", epsilon="0.1")))


def running(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked, this is what the engine runs."""
    run = DuckDB.run

    def other(self: DuckDB, compiled: Compiled, *given: Any, **more: Any) -> Any:
        return run(self, Compiled(compiled.plan, EngineStatements((sql,))), *given, **more)

    monkeypatch.setattr(DuckDB, "run", other)


def test_a_failing_engine_is_counted_and_says_the_same_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, caller = desk(tmp_path, pace=4.0)
    due = deadline(made.database.sql(COUNT.sql, epsilon="1").plan, made.database.policy, 4.0)
    wrong = "SELECT error('secret') AS a"
    running(wrong, monkeypatch)
    began = time.monotonic()
    with pytest.raises(sf.QueryFailed) as failed:
        asyncio.run(made.ask(caller, COUNT))
    assert time.monotonic() - began >= due
    assert "secret" not in str(failed.value)
    assert owner.late(made.database.ledger, "ana") == 1
    monkeypatch.undo()
    release = asyncio.run(made.ask(caller, COUNT)).release
    assert made.database.ledger.spent.amount == 1  # the open receipt was redeemed, not charged again
    assert release.receipt.number == made.database.ledger.history()[0].number


def test_tuned_questions_wait_for_every_part(tmp_path: Path) -> None:
    made, caller = desk(tmp_path, pace=0.25)
    wanted = Wanted("SELECT SUM(cost) AS s FROM visits", epsilon="1", tune="0.5")
    began = time.monotonic()
    asyncio.run(made.ask(caller, wanted))
    charges = len(made.database.ledger.history())
    assert charges > 1
    assert time.monotonic() - began >= charges * 0.125


# Engines that are stopped -----------------------------------------------------------------------------

ENDLESS = "SELECT 0, COUNT(*) FROM range(1000000000000) AS t(i), range(1000000) AS s(j) WHERE HASH(i, j) = 1"
DUE = 0.25  # seconds
SOON = 10.0  # seconds in which what takes a moment has surely happened


def asked_in_background(
    made: Desk, caller: Caller, wanted: Wanted
) -> tuple[threading.Thread, list[Exception]]:
    """Ask, and go on once it is charged."""
    failures: list[Exception] = []

    def asking() -> None:
        try:
            asyncio.run(made.ask(caller, wanted))
        except sf.SfumatoError as failure:
            failures.append(failure)

    thread = threading.Thread(target=asking)
    thread.start()
    while not made.database.ledger.history():
        time.sleep(0.01)
    return thread, failures


@pytest.mark.parametrize(
    ("pace", "moment", "marks"),
    [
        (0.5, SOONEST + DUE, 5),  # half a second is the least deadline: here it is doubled four times
        (2.0, 5 * 1.0, 3),  # two doublings, and a failure
    ],
)
def test_an_engine_is_stopped_at_a_public_moment_and_its_failure_leaves_at_another(
    pace: float, moment: float, marks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, caller = desk(tmp_path, pace=pace)
    running(ENDLESS, monkeypatch)
    began = time.monotonic()
    with pytest.raises(sf.QueryFailed) as failed:
        asyncio.run(made.ask(caller, COUNT))
    assert moment <= time.monotonic() - began < moment + SOON
    assert str(failed.value) == str(sf.QueryFailed())
    assert failed.value.__cause__ is failed.value.__context__ is None
    assert owner.late(made.database.ledger, "ana") == marks
    cursor = engine(made.database.source)
    ((used,),) = cursor.execute("SELECT SUM(memory_usage_bytes) FROM duckdb_memory()").fetchall()
    assert used < 100 << 20


def test_what_was_stopped_is_not_run_again_until_the_owner_has_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, caller = desk(tmp_path, pace=0.5)
    running(ENDLESS, monkeypatch)
    with pytest.raises(sf.QueryFailed):
        asyncio.run(made.ask(caller, COUNT))
    monkeypatch.undo()
    made.people.add("ben", "analyst")
    ben = made.people.get("ben")
    assert ben is not None
    for each in (caller, Caller(ben, "test")):
        for key in ("", "k"):
            with pytest.raises(sf.Halted, match="until the owner has reviewed it"):
                asyncio.run(made.ask(each, COUNT, key))
    assert made.database.ledger.spent.amount == 1
    owner.looked(made.database.ledger, "ana")
    release = asyncio.run(made.ask(caller, COUNT)).release
    assert release.receipt.number == made.database.ledger.history()[0].number
    assert made.database.ledger.spent.amount == 1
    assert asyncio.run(made.ask(Caller(ben, "test"), COUNT)).release.cost.amount == 0


def test_what_fails_is_tried_without_optimizers_within_the_same_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run takes for ever: what was stopped is not tried a second time, and the first failed."""
    made, caller = desk(tmp_path, pace=0.5)
    fails = "CASE WHEN current_setting('disabled_optimizers') = '' THEN error('x') END"
    failing = f"SELECT {fails}, * FROM ({ENDLESS})"
    running(failing, monkeypatch)
    began = time.monotonic()
    with pytest.raises(sf.QueryFailed):
        asyncio.run(made.ask(caller, COUNT))
    assert SOONEST + DUE <= time.monotonic() - began < SOONEST + DUE + SOON


def test_whoever_is_shut_out_ends_what_runs_for_her_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, caller = desk(tmp_path, pace=64.0)
    running(ENDLESS, monkeypatch)
    thread, failures = asked_in_background(made, caller, COUNT)
    made.people.revoke("ana")
    thread.join(SOON)
    assert not thread.is_alive()
    assert "was revoked while the question ran. Its charge stays" in str(failures[0])
    assert not made.database.ledger.history()[0].redeemed
    assert not made.database.ledger.is_held(made.database.ledger.history()[0].number)


def test_a_question_that_is_ready_ends_too_when_somebody_is_shut_out(tmp_path: Path) -> None:
    """Whether its engine was ready must not show."""
    made, caller = desk(tmp_path, pace=64.0)
    thread, failures = asked_in_background(made, caller, COUNT)
    time.sleep(1.0)  # in which the engine has long counted
    made.people.revoke("ana")
    thread.join(SOON)
    assert not thread.is_alive()
    assert isinstance(failures[0], sf.AccessDenied)
    assert not made.database.ledger.history()[0].redeemed


@pytest.mark.parametrize("pace", [0.5, 64.0])
def test_a_server_that_stops_does_not_wait_for_engines(
    pace: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past its deadline a question ends at once, before it after the time that is left to it."""
    made, caller = desk(tmp_path, pace=pace, stop_after=1000.0)
    running(ENDLESS, monkeypatch)

    async def stopping() -> None:
        asking = asyncio.create_task(made.ask(caller, COUNT))
        while not made.database.ledger.history():
            await asyncio.sleep(0.01)
        await asyncio.sleep(2 * DUE)
        began = time.monotonic()
        assert await made.finish(1.0) == 0
        assert time.monotonic() - began < SOON
        with pytest.raises(sf.ServerError, match="the server was stopped while the question ran"):
            await asking

    asyncio.run(stopping())
    assert not made.database.ledger.history()[0].redeemed


def test_a_server_that_stops_lets_questions_leave_at_their_deadlines(tmp_path: Path) -> None:
    made, caller = desk(tmp_path, pace=8.0)

    async def stopping() -> int:
        asking = asyncio.create_task(made.ask(caller, COUNT))
        while not made.database.ledger.history():
            await asyncio.sleep(0.01)
        assert await made.finish(30.0) == 0
        return (await asking).release.receipt.number

    number = asyncio.run(stopping())
    assert [(each.number, each.redeemed) for each in made.database.ledger.history()] == [(number, True)]


def test_ctrl_c_stops_the_engine_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = sf.open(hospital(tmp_path))
    running(ENDLESS, monkeypatch)
    question = db.sql(COUNT.sql, epsilon="1")
    pressed = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed.start()
    try:
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt) as stopped:
            question.release()
        assert time.monotonic() - began < SOON
    finally:
        pressed.cancel()  # if it failed before, nothing else must be interrupted
        pressed.join()
        signal.signal(signal.SIGINT, before)
    assert stopped.value.__cause__ is stopped.value.__context__ is None
    while any(each.name.startswith("heeding") for each in threading.enumerate()):
        assert time.monotonic() - began < SOON
    monkeypatch.undo()
    db.sql(COUNT.sql, epsilon="1").release()
    assert db.ledger.spent.amount == 1  # the receipt was open, and was redeemed


def test_the_owner_sees_what_runs_and_when_it_is_due_from_public_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, caller = desk(tmp_path, pace=64.0)
    running(ENDLESS, monkeypatch)
    thread, _ = asked_in_background(made, caller, COUNT)
    another = sf.open(made.path)  # as another process would
    (found,) = owner.running(another, time.time(), pace=64.0)
    assert (found["analyst"], found["question"]) == ("ana", COUNT.sql)
    assert found["receipt"] == another.ledger.history()[0].number
    charged, due, stopped = (
        datetime.datetime.fromisoformat(found[name]) for name in ("charged", "due", "stopped")
    )
    assert (due - charged).total_seconds() == 32.0
    assert (stopped - charged).total_seconds() == 4 * 32.0
    assert owner.running(another, time.time() + 5 * 32.0, pace=64.0) == []
    made.people.revoke("ana")
    thread.join(SOON)


def test_the_deadline_of_a_batch_is_read_from_its_text(tmp_path: Path) -> None:
    db = sf.open(hospital(tmp_path))
    first = "SELECT COUNT(*) FROM visits WHERE ward = 'a; SELECT COUNT(*) FROM visits'"
    batch = db.batch([db.sql(first, epsilon="1"), db.sql(COUNT.sql, epsilon="1")])

    def due(text: str, pace: float, dialect: str = "duckdb") -> float | None:
        return owner._due(db, OpenCharge(1, 0.0, "ana", text, dialect), pace)

    assert due(batch.text, 1.0) == 1.0
    assert due(COUNT.sql, 4.0) == 2.0
    assert due("tune visits: rows", 1.0) is None
    half = "SELECT COUNT(*) / 2 FROM visits"  # refused in PostgreSQL's dialect
    assert due(half, 4.0) == 2.0
    assert due(half, 4.0, "postgres") is None
