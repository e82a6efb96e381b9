"""What both doors rest on: turns, latest deadlines, batches that are repeated, names on a shared ledger."""

from __future__ import annotations

import asyncio
import datetime
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from tests.serving import Server, hospital, serving

import sfumato as sf
from sfumato.server import owner
from sfumato.server.desk import FORMS, PATIENT, Caller, Desk, Settings, Shown, Wanted
from sfumato.server.people import People
from sfumato.server.values import _array, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = "SELECT COUNT(*) AS n FROM patients"


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
    running: list[int] = []
    most: list[int] = []

    def slow() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.3)
        running.pop()

    async def both() -> None:
        asked = [asyncio.create_task(made.in_turn(ana, slow)) for _ in range(5)]
        await asyncio.sleep(0.02)
        for each in asked[:3]:
            each.cancel()
        await made.in_turn(bob, time.sleep, 0)
        assert len(most) < 5  # bob does not wait for ana's five
        await asyncio.gather(*asked, return_exceptions=True)
        assert await made.finish(10) == 0

    asyncio.run(both())
    assert max(most) == 1
    assert len(most) == 5


def test_too_many_that_wait_are_refused_but_not_what_is_paid_for(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path))
    ana = caller(made)

    async def many() -> None:
        waiting = [asyncio.create_task(made.in_turn(ana, time.sleep, 0.001)) for _ in range(PATIENT)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(sf.TooMany):
            await made.in_turn(ana, time.sleep, 0)
        await made.in_turn(ana, time.sleep, 0, paid=True)
        await asyncio.gather(*waiting)

    asyncio.run(many())


def test_a_question_whose_deadline_is_too_late_is_refused_for_nothing(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), pace=1000.0, longest=5.0)
    ana = caller(made)
    with pytest.raises(sf.Unsupported, match="none may after 5 s"):
        asyncio.run(made.ask(ana, Wanted(COUNT, epsilon="1")))
    with pytest.raises(sf.Unsupported, match="--longest"):
        asyncio.run(made.batch(ana, [Wanted(COUNT, epsilon="1")]))
    assert made.database.ledger.spent.amount == 0


def test_a_stored_batch_is_repeated_although_a_larger_one_was_released(tmp_path: Path) -> None:
    made = desk(hospital(tmp_path), deadlines=False)
    ana = caller(made)

    def asked(epsilon: str) -> list[Any]:
        found = asyncio.run(made.batch(ana, [Wanted(COUNT, epsilon=epsilon)]))
        return [found[0].receipt.number, found.cost.amount]

    first = asked("0.5")
    assert asked("1")[1] == 1
    assert asked("0.5") == [first[0], 0]
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
    shown = Shown(database.sql(COUNT, epsilon="1").release())
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
