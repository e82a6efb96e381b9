"""The wire door: the PostgreSQL protocol, so that psql, psycopg, pandas and JDBC ask without a word of ours.

Three kinds of statements come in. Those about the session (SET, BEGIN, ...) are answered here; those about
the catalog by `lookup`, from the policy; everything else is a question, and goes to the desk. Nothing is ever
undone by ROLLBACK: what was released stays released, and paid.

The columns of a question are described from its plan, never by running it.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import (
    AccessDenied,
    QueryRefused,
    ServerError,
    SfumatoError,
    TooMany,
)
from sfumato.exact.coins import SystemCoins
from sfumato.queries import parameters
from sfumato.queries.sql import LONGEST_QUESTION
from sfumato.server.catalog.values import TEXT, UNKNOWN, fitted, read
from sfumato.server.desk import scram
from sfumato.server.desk.access import say
from sfumato.server.desk.desk import Bucket, Caller, Recent
from sfumato.server.postgres import frames
from sfumato.server.postgres.frames import Broken, MessageBody, TooLarge, complaint, message
from sfumato.server.postgres.settings import REPORTED, bare, split
from sfumato.server.postgres.statements import (
    MOST_PREPARED,
    ParsedQuery,
    Portal,
    PreparedStatement,
    Result,
    StatementRefused,
    Statements,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.server.desk.desk import Desk
    from sfumato.server.desk.people import Person

STARTING = 15.0  # seconds until somebody must be in
IDLE = 3600.0  # seconds that a session may be idle
SLOW = 60.0  # seconds that a client may take to read
FULL = 1 << 16  # bytes that may wait to be read
SESSIONS, SESSIONS_EACH = 500, 100  # at a time, in one worker: of everybody, and of one person
ENTERING = 500  # connections beside those, of whoever is not in yet
LONGER = 100_000  # letters of several statements that come together
MESSAGES = 20  # for every thing that may be asked in a second
SLOWLY = 10_000  # bytes of values that are not read at once
KNOWN = 300  # statements whose kind is remembered


class PostgresServer:
    """The wire door of one worker."""

    def __init__(self, desks: dict[str, Desk], context: ssl.SSLContext | None, folder: Path) -> None:
        self.desks, self.context, self._folder = desks, context, folder
        self.sessions: dict[int, Session] = {}  # by their secret
        self.parsed: Recent[ParsedQuery] = Recent(KNOWN)
        self._servers: list[asyncio.Server] = []
        self._running: set[asyncio.Task[None]] = set()

    async def open(self, heard: socket.socket) -> None:
        """Answer on a socket that listens; and to other workers, who pass on what was to be cancelled."""
        self._servers.append(await asyncio.start_server(self._serve, sock=heard, limit=frames.AFTER * 2))
        path = self._folder / f"{os.getpid()}.sock"
        self._servers.append(await asyncio.start_unix_server(self._passed_on, path=str(path)))
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Close what nobody uses."""
        while True:
            await asyncio.sleep(IDLE / 60)
            for session in list(self.sessions.values()):
                if time.monotonic() - session.active > IDLE:
                    session.stop("57P05", "the session was idle for an hour")

    async def close(self) -> None:
        """Take no more, and let go of whoever is idle; what is running is finished."""
        for server in self._servers:
            server.close()
        self._watching.cancel()
        hint = "Connect again later: what was paid for is stored."
        for session in list(self.sessions.values()):
            session.stop("57P01", "the server is stopping", hint)
        if self._running:
            await asyncio.wait(set(self._running), timeout=5)

    def count(self, person: Person) -> int:
        """How many sessions somebody has here."""
        return sum(
            each.caller is not None and each.caller.person.name == person.name
            for each in self.sessions.values()
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._running) >= SESSIONS + ENTERING:  # strangers must not take all handles of the process
            writer.close()
            return
        self._running.add(task)
        session = Session(self, reader, writer)
        try:
            await session.run()
        except (Broken, asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            pass  # whoever it was is gone, or does not speak the protocol
        finally:
            self._running.discard(task)
            self.sessions.pop(session.secret, None)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), 5)

    async def cancel(self, process: int, secret: int) -> None:
        """Stop waiting for somebody's question: here, or in the worker that has it."""
        if process == os.getpid():
            if (session := self.sessions.get(secret)) is not None:
                session.cancel()
            return
        with suppress(OSError):
            _, writer = await asyncio.open_unix_connection(str(self._folder / f"{process}.sock"))
            writer.write(struct.pack("!i", secret))
            await writer.drain()
            writer.close()

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            (secret,) = struct.unpack("!i", await asyncio.wait_for(reader.readexactly(4), 5))
            if (session := self.sessions.get(secret)) is not None:
                session.cancel()
        writer.close()


class Session(Statements):
    """One connection."""

    def __init__(
        self, door: PostgresServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(door.parsed, next(iter(door.desks.values())))
        self._door, self._reader, self._writer = door, reader, writer
        self.secret = SystemCoins().bits(31)
        self.active = time.monotonic()
        self._messages = Bucket(MESSAGES * self.desk.settings.rate)
        self._skipping = False  # after an error, until Sync
        self._task = asyncio.current_task()
        self._busy = False  # with something that can be cancelled
        self._canceled = False

    def cancel(self) -> None:
        """Stop waiting for what is running; it goes on by itself."""
        if self._busy and not self._canceled and self._task is not None:
            self._canceled = True
            self._task.cancel()

    def stop(self, code: str, told: str, hint: str = "") -> None:
        """Say why, and close: at once if nothing is running, else after it."""
        self.stopping, self._farewell = True, (code, told, hint)
        if not self._busy:
            self._say("FATAL", *self._farewell)
            self._writer.write(bytes(self.out))
            self._writer.close()

    # Coming in ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """The whole conversation."""
        try:
            async with asyncio.timeout(STARTING):
                if not await self._enter():
                    return
        except (scram.LoginRefused, AccessDenied):
            self._say("FATAL", "28P01", "the user name, the database or the token is wrong", _WAY_IN)
            await self._flush()
            return
        except (TooMany, ServerError) as error:
            self._say("FATAL", error.sqlstate, str(error))
            await self._flush()
            return
        while not self.stopping:
            kind, body = await frames.following(self._reader)
            self.active = time.monotonic()
            if kind == b"X":
                return
            await self._handle(kind, body)
            # what waits in the buffer must keep neither the loop nor the processor from others
            await asyncio.sleep(self._messages.take())
        if self._farewell[0] and not self._writer.is_closing():
            self._say("FATAL", *self._farewell)
            await self._flush()

    async def _enter(self) -> bool:
        """Startup and SCRAM; False if the connection only wanted to cancel something."""
        secure = False
        while True:
            code, body = await frames.opening(self._reader)
            if code == frames.CANCEL:
                await self._door.cancel(body.int32(), body.int32())
                return False
            if code == frames.SSL and self._door.context is not None and not secure:
                if self._reader._buffer:  # type: ignore[attr-defined]
                    raise Broken("data was sent before the TLS handshake")
                self._writer.write(b"S")
                await self._writer.drain()
                await self._writer.start_tls(self._door.context)
                secure = True
                continue
            if code in (frames.SSL, frames.GSS):
                self._writer.write(b"N")
                await self._writer.drain()
                continue
            break
        if code >> 16 != frames.MAJOR:
            self._say("FATAL", "08P01", "only version 3 of the protocol is supported")
            await self._flush()
            return False
        wanted = _pairs(body)
        if self._door.context is not None and not secure:
            self._say("FATAL", "28000", "only TLS connections are accepted", "Connect with sslmode=require.")
            await self._flush()
            return False
        if code & 0xFFFF:  # a newer minor version: we speak 3.0, and know none of its options
            unknown = [name for name in wanted if name.startswith("_pq_.")]
            told = struct.pack("!ii", 0, len(unknown)) + b"".join(map(frames.text, unknown))
            self.out += message(b"v", told)
        await self._authenticate(wanted.get("user", ""), wanted.get("database", wanted.get("user", "")))
        self._begin(wanted)
        await self._flush()
        return True

    async def _authenticate(self, name: str, database: str) -> None:
        if len(self._door.sessions) >= SESSIONS:
            raise TooMany("there are too many sessions", 10)
        desk = self._door.desks.get(database)
        people = (desk or self.desk).people
        self.out += message(b"R", struct.pack("!i", 10) + frames.text(scram.NAME) + b"\0")
        await self._flush()
        body = await self._password()
        if body.text() != scram.NAME:
            raise scram.LoginRefused("another mechanism")
        size = body.int32()
        told = _ascii(body.take(size))
        exchange = people.handshake(name, told, database=database, stranger=desk is None)
        self.out += message(b"R", struct.pack("!i", 11) + exchange.first.encode())
        await self._flush()
        address = (self._writer.get_extra_info("peername") or ("",))[0]
        try:
            final, token = exchange.final(_ascii((await self._password()).rest))
        except scram.LoginRefused:
            guard = next(iter(self._door.desks.values()))  # counts wrong tokens for all of them
            guard.guessed(address)
            (desk or guard).log_stranger(address, "postgres", name)
            with suppress(TooMany):
                guard.check_guesses(address)
                raise
            await asyncio.sleep(1)  # too many: each takes a while now
            raise
        person = people.still(name, token)
        if desk is None or person is None:
            raise AccessDenied("unknown")
        if self._door.count(person) >= SESSIONS_EACH:
            raise TooMany(f"{name!r} has {SESSIONS_EACH} sessions already", 10)
        self.caller, self.desk, self.token = Caller(person, "postgres", address, token), desk, token
        self.out += message(b"R", struct.pack("!i", 12) + final.encode()) + frames.AUTHENTICATED
        desk.note(self.caller, "connect")

    async def _password(self) -> MessageBody:
        kind, body = await frames.following(self._reader, frames.BEFORE)
        if kind != b"p":
            raise Broken("a password was expected")
        return body

    def _begin(self, wanted: dict[str, str]) -> None:
        """Settings that came with the startup, and what clients want to know."""
        assert self.caller is not None
        knobs = self.knobs
        knobs.values["session_authorization"] = self.caller.person.name
        given = {k: v for k, v in wanted.items() if k not in ("user", "database", "options", "replication")}
        for name, value in (*given.items(), *_options(wanted.get("options", ""))):
            if not name.startswith("_pq_."):
                try:
                    knobs.set(name, value)
                except SfumatoError as error:
                    self._complain(error, notice=True)
        knobs.begin()
        for key, shown in REPORTED.items():
            self.out += frames.status(shown, knobs.values[key])
        for key in (
            "server_version",
            "server_encoding",
            "integer_datetimes",
            "is_superuser",
            "session_authorization",
        ):
            self.out += frames.status(key, knobs.values[key])
        self._door.sessions[self.secret] = self
        self.out += message(b"K", struct.pack("!ii", os.getpid(), self.secret)) + frames.ready(self.state)

    # Messages -----------------------------------------------------------------------------------------

    async def _handle(self, kind: bytes, body: MessageBody) -> None:
        if kind == b"S":
            self._skipping = False
            if self.state == b"I":
                self.end_portals()
            self.out += frames.ready(self.state)
            await self._flush()
            return
        if kind == b"H":
            await self._flush()
            return
        if kind == b"Q":
            await self._simple(body.text())
            return
        if self._skipping:
            return
        acts: dict[bytes, Callable[[MessageBody], Any]] = {
            b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close,
        }  # fmt: skip
        if kind in (b"d", b"c", b"f"):  # of a COPY that was refused
            return
        if kind not in acts:
            raise Broken("an unknown message")
        self._skipping = not await self._guarded(acts[kind], body)
        if len(self.out) > FULL:  # whoever never says Sync must still read
            await self._flush()

    async def _guarded(self, act: Callable[..., Any], argument: Any) -> bool:
        """Do it in a way that can be cancelled, and say what went wrong. Whether it went well."""
        self._canceled, self._busy = False, True
        try:
            await act(argument)
        except asyncio.CancelledError:
            if not self._canceled or self._task is None:
                raise
            self._task.uncancel()
            told = "If it was charged, the charge stays, its release is stored, and asking again is free."
            self._say("ERROR", "57014", "waiting for this question was canceled", told)
        except TooLarge as error:
            self._say("ERROR", "22003", str(error), "Cast it to another type.")
        except StatementRefused as error:
            self._say("ERROR", error.sqlstate, error.words, error.hint, error.detail)
        except SfumatoError as error:
            self._complain(error)
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            OSError,
            AssertionError,
            AttributeError,
            MemoryError,
            RecursionError,
            struct.error,
        ) as error:
            say("internal error", kind=type(error).__name__, interface="postgres")  # never its text
            self._say("ERROR", "XX000", "internal error", "A charge that was made stays.")
        else:
            return True
        finally:
            self._busy = False
        if self.state == b"T":
            self.state = b"E"
        return False

    async def _simple(self, text: str) -> None:
        """The simple protocol: statements one after the other, until one fails."""
        self.portals.pop("", None)
        statements: list[tuple[int, str]] = []
        if len(text) <= LONGER:
            statements = split(text)
        if len(text) > LONGER or len(statements) > MOST_PREPARED:
            told = f"the text has more than {LONGER} characters or {MOST_PREPARED} statements"
            self._say("ERROR", "54000", told, "Send them one by one.")
        elif not statements:
            self.out += message(b"I")
        for start, sql in statements[: MOST_PREPARED if len(statements) <= MOST_PREPARED else 0]:
            self.now = (sql, start)
            if not await self._guarded(self._simply, sql):
                break
            if len(self.out) > FULL:
                await self._flush()
            await asyncio.sleep(0)  # many that wait for nothing must not stop others
        self._skipping = False
        self.out += frames.ready(self.state)
        await self._flush()

    async def _simply(self, sql: str) -> None:
        _check_length(sql)
        prepared = PreparedStatement(sql, [])
        result = await self.perform(prepared, [])
        if result.fields is not None:
            self.out += frames.described(result.fields, [])
        self._send(result, [], 0, 0)
        self.out += frames.done(result.tag)

    async def _parse(self, body: MessageBody) -> None:
        name, sql = body.text(), body.text()
        types = [struct.unpack("!I", body.take(4))[0] for _ in body.many()]
        _check_length(sql)
        if len(types) > parameters.MOST_PARAMETERS:
            raise StatementRefused(
                "54000",
                f"there are types for more than {parameters.MOST_PARAMETERS} parameters",
                "Send fewer.",
            )
        if len(split(sql)) > 1:
            raise StatementRefused("42601", "a prepared statement is one statement", "Send them one by one.")
        if name and name not in self.prepared and len(self.prepared) >= MOST_PREPARED:
            raise StatementRefused(
                "53400", f"there are {MOST_PREPARED} prepared statements", "DEALLOCATE some."
            )
        wanted = parameters.count(sql)
        types = [0 if oid == UNKNOWN else oid for oid in types]
        types += [0] * (wanted - len(types))
        self.prepared[name] = PreparedStatement(sql, types, tuple(types))
        self.out += message(b"1")

    async def _bind(self, body: MessageBody) -> None:
        portal, name = body.text(), body.text()
        prepared = self._statement(name)
        self.now = (prepared.sql, 0)
        forms = [body.int16() for _ in body.many()]
        contents: list[bytes | None] = []
        for _ in body.many():
            size = body.int32()
            contents.append(None if size == -1 else body.take(size))
        formats = [body.int16() for _ in body.many()]
        if any(form not in (0, 1) for form in (*forms, *formats)):
            raise StatementRefused("22023", "a format of a value is 0, text, or 1, binary")
        if len(contents) != len(prepared.types):
            told = f"the statement takes {len(prepared.types)} parameters, but {len(contents)} were sent"
            raise StatementRefused("08P01", told)
        if not portal:
            self.portals.pop("", None)
        elif portal in self.portals:
            raise StatementRefused("42P03", f"cursor or portal {portal!r} already exists", "Close it.")
        size = sum(len(content or b"") for content in contents)
        self.check_room(size)
        await self.infer(prepared)
        each = frames.spread(forms, len(contents))

        def values() -> list[Any]:
            return [
                None if content is None else read(content, oid or TEXT, binary=bool(form))
                for content, oid, form in zip(contents, prepared.types, each, strict=True)
            ]

        assert self.caller is not None
        found = values() if size < SLOWLY else await self.desk.in_turn(self.caller, values)
        self.portals[portal] = Portal(prepared, found, formats, size=size)
        self.out += message(b"2")

    async def _describe(self, body: MessageBody) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"S":
            prepared = self._statement(name)
            self.now = (prepared.sql, 0)
            await self.infer(prepared)
            types = b"".join(struct.pack("!I", oid or TEXT) for oid in prepared.types)
            self.out += message(b"t", struct.pack("!H", len(prepared.types)) + types)
            found, formats = await self.fields_of(prepared, None), []
            prepared.fields, prepared.is_described = found, True
        else:
            portal = self.portal(name)
            self.now = (portal.prepared.sql, 0)
            found, formats = await self.shape_of(portal), portal.formats
        self.out += message(b"n") if found is None else frames.described(found, formats)

    async def _execute(self, body: MessageBody) -> None:
        portal, most = self.portal(body.text()), body.int32()
        self.now = (portal.prepared.sql, 0)
        result = await self.result_of(portal)
        if not bare(portal.prepared.sql):
            self.out += message(b"I")
            return
        start = min(portal.sent, result.count)  # it may stand behind the last row
        sent = self._send(result, portal.formats, start, max(0, most))
        if start + sent < result.count:
            portal.sent = start + sent
            self.out += message(b"s")
            return
        portal.sent = result.count + 1
        word, _, counted = result.tag.partition(" ")
        is_counted = counted.isdecimal() and result.fields is not None
        self.out += frames.done(f"{word} {sent}" if is_counted else result.tag)

    async def _close(self, body: MessageBody) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"S":
            self.prepared.pop(name, None)
        else:
            self.portals.pop(name, None)
        self.out += message(b"3")

    def _statement(self, name: str) -> PreparedStatement:
        if name not in self.prepared:
            raise StatementRefused("26000", f"there is no prepared statement {name!r}")
        return self.prepared[name]

    # Sending ------------------------------------------------------------------------------------------

    def _send(self, result: Result, formats: Sequence[int], start: int, most: int) -> int:
        """Rows from one on, at most so many; how many there were."""
        if result.fields is None:
            return 0
        each = tuple(frames.spread(formats, len(result.fields)))
        end = result.count if most == 0 else min(result.count, start + most)
        if result.shown is not None and start == 0 and end == result.count:
            key = ("wire", tuple(result.fields), each, result.level)
            content = result.shown.forms.get(key)
            if content is None:
                content = b"".join(
                    frames.row(fitted(row, result.fields), result.fields, each) for row in result.rows
                )
                result.shown.keep(key, content)
            self.out += content
            return end
        for row in result.rows[start:end]:
            values = fitted(row, result.fields) if isinstance(row, dict) else row
            self.out += frames.row(values, result.fields, each)
        return end - start

    def _say(self, severity: str, code: str, told: str, hint: str = "", detail: str = "") -> None:
        self.out += complaint(b"E", severity, code, told, detail, hint)

    def _complain(self, error: SfumatoError, *, notice: bool = False) -> None:
        """An error of ours in the form of the protocol."""
        told, hint, place = self.desk.words(str(error)), "", 0
        detail = ""
        if isinstance(error, QueryRefused):
            told, hint = self.desk.words(error.problem), self.desk.words(error.advice)
            detail = "Nothing was spent and no row was read."
            if error.span is not None and error.sql:
                place = self._place(error.sql, error.span[0])
        kind, severity = (b"N", "WARNING") if notice else (b"E", "ERROR")
        self.out += complaint(kind, severity, error.sqlstate, told, detail, hint, place)

    def _place(self, told: str, at: int) -> int:
        """Where in the text that came, counted from 1, something stands in a question that was read."""
        sql, start = self.now
        found = sql.find(told)
        return start + found + at + 1 if found >= 0 else 0

    async def _flush(self) -> None:
        if self.out:
            self._writer.write(bytes(self.out))
            self.out.clear()
            if self._writer.transport.get_write_buffer_size() > FULL:
                await asyncio.wait_for(self._writer.drain(), SLOW)


_WAY_IN = (
    "Use the name of the database in its policy (psql by default takes your user name). The token is the "
    "password; exchange a one-time token or your password for one over HTTP: POST /v1/DATABASE/tokens. "
    "The owner adds users: sfumato user add POLICY NAME"
)


def _check_length(sql: str) -> None:
    if len(sql) > LONGEST_QUESTION:
        raise StatementRefused(
            "54000", f"the query is longer than {LONGEST_QUESTION} characters", "Write a shorter one."
        )


def _ascii(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise scram.LoginRefused("not text") from None


def _pairs(body: MessageBody) -> dict[str, str]:
    found: dict[str, str] = {}
    while name := body.text():
        found[name] = body.text()
    return found


def _options(text: str) -> list[tuple[str, str]]:
    """What stands in options: -c name=value, -cname=value, --name=value."""
    found = re.findall(r"(?:-c\s*|--)([\w.]+)=((?:\\.|\S)*)", text)
    return [(name, re.sub(r"\\(.)", r"\1", value)) for name, value in found]
