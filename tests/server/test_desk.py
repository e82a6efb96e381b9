"""What both doors rest on: turns, latest deadlines, batches that are repeated, names on a shared ledger."""

from __future__ import annotations

import asyncio
import datetime
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]
import duckdb
import psycopg
import pytest
from tests.serving import ROWS, Server, hospital, serving

import sfumato as sf
from sfumato.queries import policy as policies
from sfumato.server.catalog.values import _array, read
from sfumato.server.desk import owner
from sfumato.server.desk.access import AccessLog
from sfumato.server.desk.desk import (
    ASKING,
    FORMS,
    MEASURES,
    MOMENT,
    PATIENT,
    Answered,
    Caller,
    Desk,
    Settings,
)
from sfumato.server.desk.people import People
from sfumato.server.desk.retries import Wanted
from sfumato.sources import duckdb as duckdb_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNT = "SELECT COUNT(*) AS n FROM patients"
WANTED = Wanted(COUNT, epsilon="1")


def desk(policy: Path, **settings: Any) -> Desk:
    return Desk(policy, Settings(rate=1e6, **settings))


def caller(made: Desk, name: str = "ana", role: str = "analyst") -> Caller:
    made.people.add(name, role)
    person = made.people.get(name)
    assert person is not None
    return Caller(person, "test")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("desk"), "--no-deadlines") as running:
        running.let_in("ana")
        yield running


def test_what_takes_long_is_done_in_turn_and_keeps_its_turn_when_nobody_waits(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path))
    ana, bob = caller(made), caller(made, "bob")
    go, running, most = threading.Event(), list[int](), list[int]()

    def slow() -> None:
        running.append(1)
        most.append(len(running))
        go.wait()
        running.pop()

    async def both() -> None:
        asked = [asyncio.create_task(made.in_turn(ana, slow)) for _ in range(5)]
        await settled()
        for each in asked[:3]:
            each.cancel()
        await made.in_turn(bob, time.sleep, 0)  # does not wait for ana's
        go.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert await made.finish(60) == 0

    asyncio.run(both())
    assert max(most) == 1
    assert len(most) == 3  # the one that ran went on to its end; two that waited left the line


class Held:
    """Ana's turn, taken until it is let go: whatever she asks for waits."""

    def __init__(self, made: Desk, who: Caller) -> None:
        self._begun, self._go = threading.Event(), threading.Event()
        self._task = asyncio.create_task(made.in_turn(who, self._hold))

    def _hold(self) -> None:
        self._begun.set()
        self._go.wait()

    async def __aenter__(self) -> None:
        while not self._begun.is_set():
            await asyncio.sleep(0.001)

    async def __aexit__(self, *_: object) -> None:
        self._go.set()
        await self._task


async def settled() -> None:
    """Everything that could begin has begun, and waits for a thread."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_too_many_free_things_that_wait_are_refused_but_nothing_else(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana = caller(made)

    async def many() -> None:
        free = [Wanted(f"{COUNT} WHERE age > {n}", epsilon="1") for n in range(PATIENT)]
        async with Held(made, ana):
            waiting: list[Any] = [asyncio.create_task(made.explain(ana, each)) for each in free]
            await settled()
            with pytest.raises(sf.TooMany, match="64 things of 'ana' are already waiting"):
                await made.budget(ana)
            waiting += [asyncio.create_task(made.ask(ana, WANTED))]
            waiting += [asyncio.create_task(made.look(ana, lambda: 1))]
            left = asyncio.create_task(made.in_turn(ana, time.sleep, 60))
            await settled()
            left.cancel()  # in the line: it is never done
        await asyncio.gather(*waiting)
        await made.budget(ana)

    asyncio.run(many())


def test_what_was_released_is_never_refused_because_much_is_waiting(tmp_path: Path) -> None:
    """A new worker, which knows nothing yet, is asked for more at once than may wait of free things."""
    policy, many = hospital(tmp_path), PATIENT + 20
    asked = [Wanted(f"{COUNT} WHERE age > {n}", epsilon="0.1") for n in range(many)]
    database = sf.open(policy)
    for each in asked:
        database.sql(each.sql, epsilon="0.1").release()
    spent = database.ledger.spent
    made = desk(policy, deadlines=False)
    ana = caller(made)

    async def all_at_once() -> list[Answered]:
        async with Held(made, ana):
            free = [Wanted(f"{COUNT} WHERE age < {n}", epsilon="0.1") for n in range(PATIENT)]
            waiting = [asyncio.create_task(made.explain(ana, each)) for each in free]
            releases = [asyncio.create_task(made.ask(ana, each)) for each in asked]
            await settled()
        await asyncio.gather(*waiting)
        return await asyncio.gather(*releases)

    found = asyncio.run(all_at_once())
    assert len(found) == many
    assert all(shown.release.cost.amount == 0 for shown in found)
    assert made.database.ledger.spent == spent


@pytest.mark.parametrize("keys", [False, True], ids=["plain", "with keys"])
def test_who_asks_the_same_new_question_meanwhile_waits_for_the_one_that_runs(
    tmp_path: Path, keys: bool
) -> None:
    made = desk(hospital(tmp_path), pace=2.0, running=1)
    ana = caller(made)

    async def all_at_once() -> list[Answered]:
        return await asyncio.gather(*(made.ask(ana, WANTED, f"key {n}" * keys) for n in range(PATIENT + 20)))

    found = asyncio.run(all_at_once())
    assert sum(shown.release.cost.amount for shown in found) == 1
    assert {shown.release.rows()[0]["n"] for shown in found} == {found[0].release.rows()[0]["n"]}
    assert made.database.ledger.spent.amount == 1
    assert not made._begun
    assert not made._turns._common


def test_who_waits_for_the_same_is_refused_with_it(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path, epsilon="0.5"), running=1)
    ana = caller(made)

    async def all_at_once() -> list[Any]:
        one = await asyncio.gather(*(made.ask(ana, WANTED) for _ in range(20)), return_exceptions=True)
        batches = (made.batch(ana, [WANTED]) for _ in range(20))
        return [*one, *await asyncio.gather(*batches, return_exceptions=True)]

    assert {type(each) for each in asyncio.run(all_at_once())} == {sf.BudgetExceeded}
    assert made.database.ledger.spent.amount == 0


def test_what_is_stored_is_answered_while_as_much_runs_as_may(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False, running=1, threads=1)
    ana, go = caller(made), threading.Event()

    async def while_one_runs() -> tuple[Any, ...]:
        first = await made.ask(ana, WANTED), await made.batch(ana, [WANTED])
        made._engine.submit(go.wait)  # the only thread
        running = asyncio.create_task(made.ask(ana, Wanted(f"{COUNT} WHERE age > 50", epsilon="1")))
        while not made._running:
            await asyncio.sleep(0.001)
        again = (
            await made.ask(ana, WANTED),
            await made.ask(ana, WANTED, "a new key"),
            await made.batch(ana, [WANTED]),
            await made.batch(ana, [WANTED], key="another"),
        )
        assert not running.done()
        with pytest.raises(sf.TooMany, match="1 new questions of 'ana' are running"):
            await made.ask(ana, Wanted(f"{COUNT} WHERE age > 51", epsilon="1"))
        go.set()
        await running
        return *first, *again

    one, both, again, keyed, batch, batch_keyed = asyncio.run(while_one_runs())
    assert again.release.rows() == keyed.release.rows() == one.release.rows()
    assert batch[0].rows() == batch_keyed[0].rows() == both[0].rows()


def test_one_person_waits_for_so_many_releases_at_most(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana, bob = caller(made), caller(made, "bob")

    async def many() -> None:
        async with Held(made, ana):
            waiting = [asyncio.create_task(made.ask(ana, WANTED)) for _ in range(ASKING)]
            await settled()
            with pytest.raises(sf.TooMany, match=f"{ASKING} releases of 'ana' are already waiting"):
                await made.ask(ana, WANTED)
            await made.ask(bob, WANTED)
            for each in waiting[1:]:
                each.cancel()
            await settled()
            waiting[1] = asyncio.create_task(made.ask(ana, WANTED))  # whoever left made room
            await settled()
        await asyncio.gather(*waiting[:2])

    asyncio.run(many())


def test_what_is_longer_than_any_question_is_counted(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path))
    ana = caller(made)
    huge = [Wanted(f"{COUNT} WHERE age > {n}{' ' * 50_000}", epsilon="1") for n in range(PATIENT + 1)]

    async def many() -> None:
        async with Held(made, ana):
            waiting = [asyncio.create_task(made.ask(ana, each)) for each in huge[:-1]]
            await settled()
            with pytest.raises(sf.TooMany):
                await made.ask(ana, huge[-1])
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in found} == {sf.SyntaxRefused}

    asyncio.run(many())


def test_the_disk_is_looked_at_once_in_a_while_however_many_want_to_know(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path))

    async def many() -> set[float]:
        seen = set()
        for _ in range(20):
            await asyncio.gather(*(made.check_ledger() for _ in range(20)))
            seen.add(made._looked_at)
        return seen

    began = time.monotonic()
    looks = asyncio.run(many())
    assert len(looks) <= 1 + (time.monotonic() - began) / MOMENT


def test_a_question_whose_deadline_is_too_late_is_refused_for_nothing(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), pace=1000.0, longest=5.0)
    ana = caller(made)
    with pytest.raises(sf.Unsupported, match="the limit is 5 s"):
        asyncio.run(made.ask(ana, Wanted(COUNT, epsilon="1")))
    with pytest.raises(sf.Unsupported, match="--longest"):
        asyncio.run(made.batch(ana, [Wanted(COUNT, epsilon="1")]))
    assert made.database.ledger.spent.amount == 0


def test_a_stored_batch_also_answers_the_same_one_at_a_smaller_price(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana = caller(made)

    def asked(epsilon: str) -> list[Any]:
        found = asyncio.run(made.batch(ana, [Wanted(COUNT, epsilon=epsilon)]))
        return [found[0].receipt.number, found.cost.amount]

    assert asked("0.5")[1] == 0.5
    larger = asked("1")
    assert larger[1] == 1
    assert asked("0.5") == [larger[0], 0]
    questions = [made.database.sql(COUNT, epsilon="0.5")]
    assert made.database.batch(questions).kept() is not None  # without an engine


def test_somebody_of_the_same_name_at_another_database_on_the_ledger_is_somebody_else(tmp_path: Path) -> None:
    made = []
    for name in ("alpha", "beta"):
        policy = hospital(tmp_path / name)
        text = policy.read_text().replace('epsilon = "1000"', 'epsilon = "1000"\nledger = "../both.ledger"')
        policy.write_text(f'name = "{name}"\n{text}')
        made.append(desk(policy, deadlines=False))
    people = [caller(each) for each in made]
    for n, (each, who) in enumerate(zip(made, people, strict=True)):
        asyncio.run(each.ask(who, Wanted(f"{COUNT} WHERE age > {n}", epsilon="1")))
    for n, (each, who) in enumerate(zip(made, people, strict=True)):
        (line,) = owner.history(each.database, who.person)
        assert f"age > {n}" in line["question"]
    auditor = caller(made[0], "olga", "auditor")
    assert len(owner.history(made[0].database, auditor.person)) == 2


def test_forms_of_a_release_are_few_and_small(tmp_path: Path) -> None:
    database = sf.open(hospital(tmp_path))
    shown = Answered(database.sql(COUNT, epsilon="1").release())
    for n in range(10 * FORMS):
        shown.keep(n, b"x")
    shown.keep("large", bytes(1 << 20))
    assert len(shown.forms) <= FORMS
    assert "large" not in shown.forms


def test_strangers_cannot_tell_names_and_databases_apart_by_their_salts(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    people.add("ana", "analyst")

    def salt(name: str, database: str, *, stranger: bool) -> str:
        first = people.handshake(name, "n,,n=,r=abc", database=database, stranger=stranger).first
        return first.split(",")[1]

    for name in ("ana", "zed"):
        known, unknown = salt(name, "hospital", stranger=False), salt(name, "nosuch", stranger=True)
        assert known != unknown
        assert known == salt(name, "hospital", stranger=False)
        assert unknown == salt(name, "nosuch", stranger=True)


def test_a_zone_counts_only_where_the_type_has_one() -> None:
    text = b"2025-01-01 08:00:00+02"
    assert read(text, 1114, binary=False) == datetime.datetime(2025, 1, 1, 8)
    assert read(text, 1184, binary=False) == datetime.datetime(2025, 1, 1, 6)


def test_values_take_time_in_proportion_to_their_length() -> None:
    began = time.monotonic()
    assert len(_array("{" + "\\a" * 400_000 + "}", 25)[0]) == 400_000
    assert time.monotonic() - began < 5  # of a quadratic one it was minutes
    for wrong in (b"sNaN", b"NaN", b"Infinity", b"1" * 2000):
        with pytest.raises(sf.InvalidParameter):
            read(wrong, 1700, binary=False)


def test_a_described_statement_keeps_the_types_that_the_client_gave(server: Server) -> None:
    sql = "SELECT SUM(age * $1) AS s FROM patients"
    with psycopg.connect(server.dsn("ana"), autocommit=True, options="-c sfumato.epsilon=5") as connection:
        connection.pgconn.prepare(b"s", sql.encode(), [701])
        described = connection.pgconn.describe_prepared(b"s")
        assert described.ftype(0) == 701
        result = connection.pgconn.exec_prepared(b"s", [b"0.00001"])
        value = result.get_value(0, 0)
        assert value is not None
        assert 0.5 < float(value) < 1.5
        assert float(value) != round(float(value))


def test_a_prepared_statement_whose_columns_changed_is_refused_before_it_is_charged(server: Server) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=server.postgres,
            user="ana",
            password=server.tokens["ana"],
            database="hospital",
        )
        await connection.execute("SET sfumato.epsilon = '0.25'")
        prepared = await connection.prepare(f"{COUNT} WHERE age > $1")
        await connection.execute("SET sfumato.intervals = 'on'")
        before = await connection.fetch("SHOW sfumato.budget")
        with pytest.raises(asyncpg.InvalidCachedStatementError):
            await prepared.fetch(61)
        assert await connection.fetch("SHOW sfumato.budget") == before
        again = await connection.fetch(f"{COUNT} WHERE age > $1", 61)  # it prepares it anew by itself
        assert len(again[0]) == 3
        await connection.close()

    asyncio.run(ask())


def test_many_small_messages_of_one_stop_nobody_else(server: Server) -> None:
    sync = b"S\0\0\0\4" * 200_000
    with psycopg.connect(server.dsn("ana"), autocommit=True) as flooding:
        flooding.execute("SELECT 1")
        with socket.fromfd(flooding.fileno(), socket.AF_INET, socket.SOCK_STREAM) as wire:
            wire.setblocking(False)
            began, worst = time.monotonic(), 0.0
            while time.monotonic() - began < 2:
                with suppress(BlockingIOError):
                    wire.send(sync)
                with suppress(BlockingIOError):
                    wire.recv(1 << 20)
                start = time.monotonic()
                assert server.request("GET", "/health")[0] == 200
                worst = max(worst, time.monotonic() - start)
        flooding.pgconn.finish()
    assert worst < 10


# While a question waits -------------------------------------------------------------------------------


def waiting(made: Desk, ana: Caller, meanwhile: Callable[[], Any]) -> Any:
    """What comes of a question that waits for a thread while something happens."""

    async def both() -> Any:
        busy = threading.Event()
        made._engine.submit(busy.wait)
        asked = asyncio.create_task(made.ask(ana, Wanted(COUNT, epsilon="1")))
        while not made._running:
            await asyncio.sleep(0.01)
        meanwhile()
        await made.refresh()
        busy.set()
        return await asked

    return asyncio.run(both())


@pytest.mark.parametrize("what", ["person", "token"])
def test_whoever_is_shut_out_while_her_question_waits_is_not_charged(tmp_path: Path, what: str) -> None:
    made = desk(hospital(tmp_path), deadlines=False, threads=1)
    ana = caller(made)
    token = ana.person.tokens[0].id if what == "token" else ""
    with pytest.raises(sf.AccessDenied, match="Nothing was spent"):
        waiting(made, replace(ana, token=token), lambda: made.people.revoke("ana", token))
    assert made.database.ledger.spent.amount == 0


def test_a_question_that_waits_is_not_asked_of_a_policy_that_is_no_more(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False, threads=1)
    changed = made.path.read_text().replace("high = 110", "high = 120")
    with pytest.raises(sf.ServerError, match="Ask again"):
        waiting(made, caller(made), lambda: made.path.write_text(changed))
    assert made.database.ledger.spent.amount == 0


def write(place: Path, people: int) -> None:
    """A small hospital of so many people."""
    with duckdb.connect(str(place)) as connection:
        connection.execute(ROWS.replace("range(2000)", f"range({people})"))


def counted(made: Desk, ana: Caller, sql: str = COUNT) -> float:
    found: float = asyncio.run(made.ask(ana, Wanted(sql, epsilon="10"))).release.rows()[0]["n"]
    return found


@pytest.mark.parametrize("way", ["moved", "copied", "log"])
def test_other_data_in_the_place_of_the_data_are_read_from_then_on(tmp_path: Path, way: str) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana, library = caller(made), sf.open(made.path)
    data, fresh = tmp_path / "hospital.duckdb", tmp_path / "new.duckdb"
    assert abs(counted(made, ana) - 2000) < 50
    if way == "log":  # the last changes stand beside the file
        fresh.write_bytes(data.read_bytes())
        connection = duckdb.connect(str(fresh))
        connection.execute("SET checkpoint_threshold = '1TB'; DELETE FROM patients WHERE patient_id >= 500")
        (tmp_path / "hospital.duckdb.wal").write_bytes((tmp_path / "new.duckdb.wal").read_bytes())
        connection.close()
    else:
        write(fresh, 500)
        fresh.replace(data) if way == "moved" else data.write_bytes(fresh.read_bytes())
    with pytest.raises(sf.SourceError, match="data-changed"):
        library.sql(f"{COUNT} WHERE age > 1", epsilon="1").release()
    made.database.data_changed()
    assert abs(counted(made, ana) - 500) < 50
    assert (
        abs(sf.open(made.path).sql(f"{COUNT} WHERE age > -2", epsilon="10").release().rows()[0]["n"] - 500)
        < 50
    )
    data.unlink()
    spent = made.database.ledger.spent
    with pytest.raises(sf.ServerError, match="sfumato check"):
        asyncio.run(made.ask(ana, Wanted(f"{COUNT} WHERE age > 2", epsilon="1")))
    assert made.database.ledger.spent == spent


@pytest.mark.parametrize("prepared", [False, True])
def test_files_that_come_and_go_are_seen(tmp_path: Path, prepared: bool) -> None:
    policy, folder = hospital(tmp_path), tmp_path / "files" / "patients"
    folder.mkdir(parents=True)
    text = policy.read_text().partition("[tables.visits]")[0]
    more = '\nprepared = "copy.duckdb"' if prepared else ""
    policy.write_text(text.replace('duckdb = "hospital.duckdb"', f'parquet = "files"{more}'))

    def put(name: str, since: int) -> None:
        rows = f"(SELECT * REPLACE (patient_id + {since} AS patient_id) FROM patients) TO '{folder / name}'"
        with duckdb.connect(str(tmp_path / "hospital.duckdb"), read_only=True) as connection:
            connection.execute(f"COPY {rows} (FORMAT parquet)")
        make = duckdb_source.prepare if prepared else duckdb_source.read
        make(policies.load(policy))

    put("a.parquet", 0)
    made = desk(policy, deadlines=False)
    ana = caller(made)
    assert abs(counted(made, ana) - 2000) < 50
    put("b.parquet", 10_000)
    made.database.data_changed()
    assert abs(counted(made, ana) - 4000) < 50
    for name in ("a.parquet", "b.parquet"):
        (folder / name).unlink()
        if not prepared:  # until the owner has read them, there is one refusal, and it is free
            with pytest.raises(sf.NotRead, match="sfumato check --read"):
                asyncio.run(made.ask(ana, Wanted(f"{COUNT} WHERE age > 77", epsilon="1")))
        put(f"new {name}", ord(name[0]))
        made.database.data_changed()
        counted(made, ana)
    assert owner.late(made.database.ledger, "ana") == 0


def test_data_that_keep_changing_are_given_up_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana = caller(made)

    def changed(_: object) -> None:
        raise sf.SourceError("changed")

    monkeypatch.setattr(duckdb_source.DuckDB, "check_version", changed)
    for asking in (lambda: made.ask(ana, WANTED), lambda: made.batch(ana, [WANTED])):
        with pytest.raises(sf.ServerError, match="keep changing"):
            asyncio.run(asking())
    assert made.database.ledger.spent.amount == 0
    monkeypatch.undo()
    assert asyncio.run(made.ask(ana, WANTED)).release.cost.amount == 1


def test_whoever_changes_the_folder_is_still_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = hospital(tmp_path)
    monkeypatch.chdir(tmp_path)
    database = sf.open(policy.name)
    monkeypatch.chdir(tmp_path.parent)
    assert database.sql(COUNT, epsilon="1").release().cost.amount == 1


def test_a_policy_that_changes_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = hospital(tmp_path)

    def changing(path: Path) -> sf.Database:
        found = sf.open(path)
        monkeypatch.undo()
        policy.write_text(policy.read_text().replace("high = 110", "high = 120"))
        return found

    monkeypatch.setattr("sfumato.server.desk.desk.open_database", changing)
    made = desk(policy)
    asyncio.run(made.refresh())
    age = made.database.policy.tables[0].column("age")
    assert age is not None
    assert age.high == 120


def test_a_namesake_of_another_database_on_the_ledger_does_not_count(tmp_path: Path) -> None:
    first = desk(hospital(tmp_path), deadlines=False)
    text = first.path.read_text().replace("[budget]", '[budget]\nledger = "hospital.ledger"')
    other = tmp_path / "other.toml"
    other.write_text(f'name = "other"\n{text}')
    second = desk(other, deadlines=False)
    question = first.database.sql(COUNT, epsilon="1")
    first.database.ledger.charge(question.query.spend, question.key, analyst="ana")
    for made, late in ((first, 1), (second, 0)):
        owner.count_open(made.database.ledger, -1, time.time() + 300, 240)
        assert owner.late(made.database.ledger, "ana") == late


def test_a_charge_that_was_never_released_is_counted_once(tmp_path: Path) -> None:
    """As after the kill of a worker."""
    made = desk(hospital(tmp_path), deadlines=False)
    ledger, question = made.database.ledger, made.database.sql(COUNT, epsilon="1")
    replace(question.bill(), analyst="ana").charged(ledger)
    now = time.time()
    assert owner.count_open(ledger, -1, now, 240) < int(ledger.head.partition("-")[0])  # it may be running
    assert owner.late(ledger, "ana") == 0
    for _ in range(3):
        owner.count_open(ledger, -1, now + 300, 240)
        assert owner.late(ledger, "ana") == 1
    assert asyncio.run(made.ask(caller(made), Wanted(COUNT, epsilon="1"))).release.cost.amount == 0
    owner.looked(ledger, "ana")
    owner.count_open(ledger, -1, now + 300, 240)
    assert owner.late(ledger, "ana") == 0


def test_at_most_so_much_is_planned_at_once(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana = caller(made)
    sums = [f"SUM(GREATEST(age, {n})) AS s{n}" for n in range(MEASURES + 1)]
    many = Wanted(f"SELECT {', '.join(sums)} FROM patients", epsilon="1")
    with pytest.raises(sf.Unsupported, match="the limit is 100"):
        asyncio.run(made.explain(ana, many))
    half = Wanted(f"SELECT {', '.join(sums[:60])} FROM patients", epsilon="1")
    with pytest.raises(sf.Unsupported, match="the limit is 100"):
        asyncio.run(made.batch(ana, [half, half]))


def test_all_parts_of_a_tuned_question_are_in_its_deadline(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), longest=1.0)
    ana, sql = caller(made), "SELECT SUM(cost) AS s FROM visits"
    with pytest.raises(sf.Unsupported, match="the limit is 1 s"):
        asyncio.run(made.ask(ana, Wanted(sql, epsilon="1", tune="0.5")))
    assert made.database.ledger.spent.amount == 0


def test_a_key_of_a_question_that_breaks_a_promise_stands_for_nothing(tmp_path: Path) -> None:
    policy = hospital(tmp_path)
    promise = 'secret = "patients.age"\nwithin = 2\nprior = "uniform"\nadvantage = "0.1"\n'
    policy.write_text(f"{policy.read_text()}\n[[promise]]\n{promise}")
    made = desk(policy, deadlines=False)
    before = len(made.database.ledger.entries())
    with pytest.raises(sf.PromiseBroken):
        asyncio.run(made.ask(caller(made), Wanted(COUNT, epsilon="500"), key="mine"))
    assert len(made.database.ledger.entries()) == before


def test_refusals_of_a_role_are_limited_too(tmp_path: Path) -> None:
    made = Desk(hospital(tmp_path), Settings(rate=1))
    ana = caller(made)
    for _ in range(2):
        with pytest.raises(sf.AccessDenied):
            made.check_role(ana, "owner")
    with pytest.raises(sf.TooMany):
        made.check_role(ana, "owner")
    assert len(made.log.last(100)) == 2


def test_a_log_that_is_moved_away_begins_anew(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "a.jsonl")
    log.write(act="one")
    log.path.rename(tmp_path / "b.jsonl")
    log.write(act="two")
    log.write(act="three")
    assert [line["act"] for line in log.last(9)] == ["two", "three"]
    assert [line["act"] for line in AccessLog(tmp_path / "b.jsonl").last(9)] == ["one"]
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_what_nobody_reads_ends_the_connection(server: Server) -> None:
    for path in ("/v1/nosuch/release", "/v1/hospital/release", "/nowhere"):
        with socket.create_connection(("127.0.0.1", server.http), 30) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n{{"
            connection.sendall(head.encode())
            told = b""
            while part := connection.recv(1 << 16):
                told += part
        assert b"connection: close" in told.lower()
