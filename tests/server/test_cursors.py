"""Cursors of SQL, as psycopg, SQLAlchemy, pandas and psql use them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]
import pandas
import psycopg
import pytest
import sqlalchemy
from tests.serving import Server, serving
from tests.speaking import SYNC, Client, bind, execute, frame, parse, text

from sfumato.server.desk.people import People
from sfumato.server.postgres.cursors import CursorMove, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

PRICE = "-c sfumato.epsilon=0.5"
BY_REGION = "SELECT region, count(*) AS n FROM patients GROUP BY region ORDER BY region"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("cursors"), "--no-deadlines") as made:
        made.let_in("ana")
        yield made


@pytest.fixture
def ana(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """A session in which transactions begin by themselves."""
    with psycopg.connect(server.dsn("ana", options=PRICE)) as connection:
        yield connection


@pytest.fixture
def truth(ana: psycopg.Connection[Any]) -> list[Any]:
    """The release, which is stored from here on."""
    return ana.execute(BY_REGION).fetchall()


def raw(server: Server, name: str = "ana", options: str = PRICE) -> Client:
    """A session whose every message is ours."""
    return Client(server.postgres).enter(name, server.tokens[name], options=options)


def spent(connection: psycopg.Connection[Any]) -> Decimal:
    row = connection.execute("SHOW sfumato.budget").fetchone()
    assert row is not None
    return Decimal(row[3])


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_psycopg_fetches_piece_by_piece(ana: psycopg.Connection[Any], truth: list[Any], binary: bool) -> None:
    with ana.cursor("pieces") as cursor:
        cursor.execute(BY_REGION, binary=binary)
        assert [column.name for column in cursor.description or ()] == ["region", "n"]
        assert [cursor.fetchone(), *cursor.fetchmany(2)] == truth[:3]
        assert cursor.fetchall() == truth[3:]
        assert cursor.fetchone() is None


def test_psycopg_goes_through_rows(ana: psycopg.Connection[Any], truth: list[Any]) -> None:
    with ana.cursor("all rows", scrollable=True) as cursor:
        cursor.itersize = 3
        assert list(cursor.execute(BY_REGION)) == truth
        cursor.scroll(0, "absolute")
        assert cursor.fetchone() == truth[0]
        cursor.scroll(1)
        assert cursor.fetchone() == truth[2]


def test_values_come_with_the_cursor(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age >= %s AND region = %s"
    direct = ana.execute(sql, (0, "north")).fetchone()
    with ana.cursor("given") as cursor:
        assert cursor.execute(sql, (0, "north")).fetchone() == direct


def test_a_cursor_of_the_catalog(ana: psycopg.Connection[Any]) -> None:
    with ana.cursor("tables") as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables ORDER BY table_name")
        assert cursor.fetchall() == [("patients",), ("visits",)]


def test_a_cursor_is_charged_once_at_its_first_rows(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT region, count(*) AS n FROM patients WHERE age > 17 GROUP BY region"
    before = spent(ana)
    with ana.cursor("paid") as cursor:
        cursor.execute(sql)
        assert spent(ana) == before
        first = cursor.fetchmany(1)
        assert spent(ana) == before + Decimal("0.5")
        assert [*first, *cursor.fetchall()] == ana.execute(sql).fetchall()
    assert spent(ana) == before + Decimal("0.5")


def test_a_refusal_comes_before_any_row_and_is_free(ana: psycopg.Connection[Any]) -> None:
    before = spent(ana)
    with ana.cursor("refused") as cursor, pytest.raises(psycopg.errors.FeatureNotSupported) as error:
        cursor.execute("SELECT age FROM patients")
    assert error.value.diag.statement_position is not None
    ana.rollback()
    assert spent(ana) == before


def test_a_cursor_ends_with_its_transaction_unless_it_is_held(
    ana: psycopg.Connection[Any], truth: list[Any]
) -> None:
    ana.execute(f"DECLARE short CURSOR FOR {BY_REGION}")
    ana.execute(f"DECLARE long NO SCROLL CURSOR WITH HOLD FOR {BY_REGION}")
    assert ana.execute("FETCH long").fetchall() == truth[:1]
    ana.commit()
    assert ana.execute("FETCH 2 FROM long").fetchall() == truth[1:3]
    ana.rollback()  # it is older than what is undone
    assert ana.execute("FETCH ALL IN long").fetchall() == truth[3:]
    ana.execute("CLOSE long")
    for name in ("short", "long"):
        with pytest.raises(psycopg.errors.InvalidCursorName):
            ana.execute(f"FETCH {name}")
        ana.rollback()
    ana.execute(f"DECLARE undone CURSOR WITH HOLD FOR {BY_REGION}")
    ana.rollback()
    with pytest.raises(psycopg.errors.InvalidCursorName):
        ana.execute("FETCH undone")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DECLARE c BINARY CURSOR FOR SELECT count(*) FROM patients", "0A000"),
        ("DECLARE c CURSOR FOR DROP TABLE patients", "42601"),
        ("DECLARE c CURSOR FOR DECLARE d CURSOR FOR SELECT 1", "42601"),
        ("DECLARE c CURSOR FOR FETCH c", "42601"),
        ("DECLARE c", "42601"),
        ("DECLARE twice CURSOR FOR SELECT 2", "42P03"),
        ("FETCH", "42601"),
        ("FETCH ABSOLUTE twice", "42601"),
        ("FETCH 99999999999999999999 FROM twice", "42601"),
        ("FETCH nobody", "34000"),
        ("MOVE nobody", "34000"),
        ("CLOSE nobody", "34000"),
        ("CLOSE", "42601"),
        ("FETCH ABSOLUTE ALL FROM twice", "42601"),
        ("DECLARE c CURSOR FOR SELECT count(*) FROM nowhere", "42P01"),
        ("DECLARE c CURSOR FOR SELECT count(*) FROM patients WHERE age > $1", "42P02"),
        ("DECLARE c CURSOR FOR SELECT relname FROM pg_class WHERE relname = $1", "42P02"),
    ],
)
def test_what_is_no_cursor_is_refused(ana: psycopg.Connection[Any], sql: str, code: str) -> None:
    ana.execute("DECLARE twice CURSOR FOR SELECT 1")
    with pytest.raises(psycopg.Error) as error:
        ana.execute(sql)
    assert error.value.sqlstate == code


def test_a_cursor_needs_a_transaction(ana: psycopg.Connection[Any]) -> None:
    ana.autocommit = True
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        ana.execute(f"DECLARE c CURSOR FOR {BY_REGION}")
    ana.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 7")
    assert ana.execute("FETCH c").fetchone() == (7,)


@pytest.mark.parametrize("way", ["FETCH 1 FROM p", "MOVE p"])
def test_a_portal_cannot_fetch_from_itself(server: Server, way: str) -> None:
    with raw(server) as client:
        client.send(parse("", "BEGIN") + bind("", "") + execute() + SYNC)
        assert client.codes() == []
        client.send(parse("", way) + bind("p", "") + frame(b"D", b"P", text("p")) + SYNC)
        described = client.codes()
        assert described == ([] if way.startswith("MOVE") else ["34000"])
        client.send(parse("", "ROLLBACK") + bind("", "") + execute() + SYNC)
        client.codes()
        client.send(parse("", way) + bind("p", "") + execute("p") + SYNC)
        assert client.codes() == ["34000"]


def test_asyncpg_skips_rows_of_its_portals(server: Server, truth: list[Any]) -> None:
    async def ask() -> None:
        settings = {"sfumato.epsilon": "0.5"}
        where = {"host": "127.0.0.1", "port": server.postgres, "user": "ana", "database": "hospital"}
        connection = await asyncpg.connect(**where, password=server.tokens["ana"], server_settings=settings)
        async with connection.transaction():
            cursor = await connection.cursor(BY_REGION)
            assert tuple(await cursor.fetchrow()) == truth[0]
            assert await cursor.forward(2) == 2
            assert [tuple(row) for row in await cursor.fetch(9)] == truth[3:]
        await connection.close()

    asyncio.run(ask())


def test_a_cursor_costs_and_shows_what_was_set_when_it_was_declared(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > 23"
    before = spent(ana)
    ana.execute("SET LOCAL sfumato.epsilon = '0.02'")
    ana.execute(f"DECLARE cheap CURSOR WITH HOLD FOR {sql}")
    ana.commit()
    ana.execute("SET sfumato.intervals = 'on'")
    with ana.cursor(binary=True) as cursor:
        assert len(cursor.execute("FETCH cheap").fetchall()[0]) == 1
        assert len(cursor.execute("FETCH ABSOLUTE 1 FROM cheap").fetchall()[0]) == 1
    assert spent(ana) == before + Decimal("0.02")


def test_rows_of_one_level_are_never_shown_as_those_of_another(server: Server) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > 24"
    settings = f"{PRICE} -c sfumato.intervals=on"
    with raw(server, options=settings) as client:
        client.ask(f"{sql}; SET sfumato.level = '0.5'; BEGIN; DECLARE c CURSOR FOR {sql}; MOVE 0 c")
        client.ask("SET sfumato.level = '0.99'")
        client.send(execute("c") + SYNC)
        assert client.codes() == []
    widths = []
    for level in ("0.99", "0.990"):
        with psycopg.connect(server.dsn("ana", options=f"{settings} -c sfumato.level={level}")) as connection:
            row = connection.execute(sql).fetchone()
            assert row is not None
            widths.append(row[2] - row[1])
    assert widths[0] == widths[1]


def test_a_named_portal_does_not_take_the_place_of_a_cursor(server: Server) -> None:
    with raw(server) as client:
        client.ask("BEGIN; DECLARE c CURSOR FOR SELECT 7")
        client.send(parse("", "SELECT 8") + bind("c", "") + SYNC)
        assert client.codes() == ["42P03"]


def test_what_was_fetched_in_part_stops_with_its_transaction_and_its_token(server: Server) -> None:
    server.let_in("eve")
    with raw(server, "eve") as client:
        client.ask("BEGIN")
        client.send(parse("", BY_REGION) + bind("p", "") + execute("p", 1) + SYNC)
        assert client.codes() == []
        client.ask("SELECT nonsense")
        client.send(execute("p", 1) + SYNC)
        assert client.codes() == ["25P02"]
        client.ask("ROLLBACK; BEGIN")
        client.send(parse("", BY_REGION) + bind("p", "") + execute("p", 1) + SYNC)
        assert client.codes() == []
        People.beside(server.policy).revoke("eve")
        client.send(execute("p", 1) + SYNC)
        assert client.codes()[0] == "42501"


def test_large_values_of_cursors_are_counted(ana: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):  # noqa: PT012  which of them does not matter
        for number in range(40):
            sql = f"DECLARE c{number} CURSOR FOR SELECT relname FROM pg_class WHERE relname = ANY(%s)"
            ana.execute(sql, (["x" * 500_000],))


@pytest.mark.parametrize(
    "sql",
    [
        "FETCH 1 FROM c /* one */",
        "FETCH 1 FROM c -- one",
        "FETCH /* one */ 1 /* of */ FROM c",
        "/* route='a' */ FETCH c",
    ],
)
def test_comments_are_no_part_of_a_statement(ana: psycopg.Connection[Any], sql: str) -> None:
    ana.execute("DECLARE c CURSOR FOR SELECT 7")
    assert ana.execute(sql).fetchall() == [(7,)]
    ana.execute("SET sfumato.epsilon = '0.3' -- cheap")
    assert ana.execute("SHOW sfumato.epsilon /* ? */").fetchone() == ("0.3",)
    ana.execute("CLOSE c /* done */")
    ana.execute("ROLLBACK -- go back to the start")
    assert ana.info.transaction_status.name == "IDLE"


def test_a_chained_transaction(ana: psycopg.Connection[Any]) -> None:
    ana.execute("SELECT 1")
    ana.execute("COMMIT AND CHAIN")
    assert ana.info.transaction_status.name == "INTRANS"


@pytest.mark.parametrize(
    "sql", ["EXPLAIN FETCH c", "EXPLAIN nonsense", "EXPLAIN DROP TABLE patients", "EXPLAIN SET a = 1"]
)
def test_only_questions_are_explained(ana: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises(psycopg.errors.SyntaxError):
        ana.execute(sql)


def test_the_question_of_a_cursor_is_explained(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients"
    assert (
        ana.execute(f"EXPLAIN DECLARE c CURSOR FOR {sql}").fetchall()
        == ana.execute(f"EXPLAIN {sql}").fetchall()
    )


def test_sqlalchemy_and_pandas_stream(server: Server, truth: list[Any]) -> None:
    url = sqlalchemy.URL.create(
        "postgresql+psycopg", "ana", server.tokens["ana"], "127.0.0.1", server.postgres, "hospital"
    )
    engine = sqlalchemy.create_engine(url, connect_args={"options": PRICE})
    with engine.connect().execution_options(stream_results=True, yield_per=2) as connection:
        assert [tuple(row) for row in connection.execute(sqlalchemy.text(BY_REGION))] == truth
        pieces = list(pandas.read_sql(sqlalchemy.text(BY_REGION), connection, chunksize=3))
    assert [len(piece) for piece in pieces] == [3, len(truth) - 3]
    assert list(pandas.concat(pieces).itertuples(index=False, name=None)) == truth
    engine.dispose()


def test_psql_fetches_so_many_at_a_time(server: Server, truth: list[Any]) -> None:
    environment = {**os.environ, "PGPASSWORD": server.tokens["ana"], "PGOPTIONS": PRICE}
    where = ["-h", "127.0.0.1", "-p", str(server.postgres), "-U", "ana", "hospital"]
    told = (BY_REGION, "BEGIN", f"DECLARE c CURSOR FOR {BY_REGION}", "FETCH LAST c", "FETCH PRIOR FROM c")
    asked = subprocess.run(
        ["psql", "-X", "-A", "-t", "-v", "FETCH_COUNT=2", *where],
        input="".join(f"{each};\n" for each in told),
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert "ERROR" not in asked.stderr
    rows = [line.split("|")[0] for line in asked.stdout.splitlines() if "|" in line]
    names = [name for name, _ in truth]
    assert rows == [*names, names[-1], names[-2]]


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("far", [-5, -2, -1, 0, 1, 2, 5, None])
def test_steps_are_those_of_a_list(at: int, far: int | None) -> None:
    """Against a walk of one row at a time, over three rows with a place before and one behind them."""
    for way in ("FORWARD", "BACKWARD"):
        wanted, place, step = [], at, 1 if way == "FORWARD" else -1
        many = 99 if far is None else far
        if many < 0:
            many, step = -many, -step
        for _ in range(many):
            place = max(0, min(place + step, 4))
            if place in (0, 4):
                break
            wanted.append(place - 1)
        if many == 0 and 0 < at < 4:
            wanted = [at - 1]
        assert _stepped(way, far, at) == (wanted, place)
    if far is not None:
        for way, to in (("ABSOLUTE", far if far >= 0 else 4 + far), ("RELATIVE", at + far)):
            place = max(0, min(to, 4))
            assert _stepped(way, far, at) == ([place - 1] if 0 < place < 4 else [], place)


def _stepped(way: Any, far: int | None, at: int) -> tuple[list[int], int]:
    direction: Way = way
    rows, place = CursorMove("c", direction, far).rows(at, 3)
    return list(rows), place


HALVED = "SELECT count(*) AS n FROM patients WHERE age / 2 = 20"


def test_a_cursor_keeps_the_dialect_in_which_it_was_declared(ana: psycopg.Connection[Any]) -> None:
    """age / 2 = 20 is 40 and 41 in PostgreSQL, and 40 alone in DuckDB."""
    truth = ana.execute(HALVED).fetchall()
    ana.execute(f"DECLARE halved CURSOR FOR {HALVED}")
    ana.execute("SET LOCAL sfumato.dialect = 'duckdb'")
    assert ana.execute("FETCH ALL halved").fetchall() == truth
    assert ana.execute(HALVED).fetchall() != truth


def test_one_text_in_two_dialects_is_two_questions(server: Server) -> None:
    """The first of May 2024 was a Wednesday: day 4 in MySQL, day 3 in DuckDB."""
    asked = "SELECT count(*) AS n FROM patients WHERE DAYOFWEEK(DATE '2024-05-01') = 4"
    found: dict[str, int] = {}
    with psycopg.connect(server.dsn("ana", options=PRICE), autocommit=True) as connection:
        for dialect in ("mysql", "duckdb", "mysql", "duckdb"):
            connection.execute(f"SET sfumato.dialect = '{dialect}'")
            (row,) = connection.execute(asked).fetchall()
            assert found.setdefault(dialect, row[0]) == row[0]
    assert found["mysql"] > 50 + found["duckdb"]


def test_statements_are_freed_by_their_names(server: Server) -> None:
    with raw(server) as client:
        for name in ("s", "s1", "_pg3_0", "Mixed"):
            client.send(parse(name, "SELECT 1") + SYNC)
            assert not client.codes()
        unknown = ["26000"]
        for sql, codes in (
            ("DEALLOCATE s1", []),
            ("DEALLOCATE s1", unknown),
            ("DEALLOCATE _pg3_0;", []),
            ("DEALLOCATE mixed", unknown),
            ('DEALLOCATE PREPARE "Mixed"', []),
            ("DEALLOCATE", ["42601"]),
            ("DEALLOCATE s", []),
            ("DEALLOCATE ALL", []),
        ):
            client.send(frame(b"Q", text(sql)))
            assert client.codes() == codes, sql


def test_moments_with_a_zone_need_a_session_in_utc(ana: psycopg.Connection[Any]) -> None:
    asked = "SELECT count(*) FROM patients WHERE timestamptz '2024-03-05 00:00+00' IS NULL"
    ana.execute("SET TimeZone = 'America/New_York'")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="moments are in UTC here"):
        ana.execute(asked)
    ana.rollback()
    ana.execute("SET TimeZone = 'Etc/UTC'")
    assert ana.execute(asked).fetchall()
