"""What does not speak the protocol, or speaks it with bad intent, against a real wire door.

After every batch a good client is answered, the same worker lives, nothing went wrong inside that it had not
foreseen, and its memory has not grown beyond GROWTH. No answer ever says XX000, an error of our own.
"""

from __future__ import annotations

import random
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serving import Server, serving
from tests.speaking import (
    CANCEL,
    FLUSH,
    GSS,
    MAJOR,
    PATIENCE,
    SSL,
    SYNC,
    Client,
    bind,
    execute,
    frame,
    parse,
    sasl,
    startup,
    text,
    versioned,
)

from sfumato.server.catalog.values import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 9
GROWTH = 200  # MB that the worker may need beside what it needs to begin with
HELD = 30  # MB for one client that does not read; without a limit it is about 20 in a second
KEPT = "SELECT COUNT(*) AS n FROM patients WHERE age > 50"
STARTING = 15.0  # seconds after which whoever is not in is out
IN = struct.pack("!ciI", b"R", 8, 0)  # what the server says to whoever is in


# The server -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watched:
    """The server, what it was like at first, and clients who have been too slow since."""

    server: Server
    said: Path
    workers: list[int]
    memory: float
    slow: list[Client]
    began: float

    def client(self) -> Client:
        return Client(self.server.postgres)

    def enter(self, name: str = "ana") -> Client:
        return self.client().enter(name, self.server.tokens[name])

    def check(self) -> None:
        """A good client is answered, and nothing happened that should not."""
        start = time.monotonic()
        with self.enter() as good:
            assert b"SELECT 1\0" in [content for _, content in good.ask("SELECT 1")]
            assert [kind for kind, _ in good.ask(KEPT)] == [b"N", b"T", b"D", b"C", b"Z"]
        assert time.monotonic() - start < PATIENCE
        assert self.server.workers() == self.workers
        told = self.said.read_text(encoding="utf-8")
        for bad in ("internal error", "Traceback", "exception", "worker died"):
            assert bad not in told, told[-3000:]
        grown = _memory(self.workers[0]) - self.memory
        assert grown < GROWTH, f"the worker needs {grown:.0f} MB more"


def _memory(process: int) -> float:
    told = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(told.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("fuzz")
    with serving(folder, "--no-deadlines") as server:
        for name in ("ana", "ben", "eve"):
            server.let_in(name)
        found = Watched(server, folder / "said.txt", server.workers(), 0, [], time.monotonic())
        for n in range(60):  # the slowest of clients: they are looked at by the last test
            client = found.client()
            client.send(startup(user="ana", database="hospital")[: n % 9])
            found.slow.append(client)
        with found.enter() as first:
            first.ask(KEPT)
            first.ask("SELECT * FROM pg_attribute")
        found.memory = _memory(found.workers[0])
        yield found
        for client in found.slow:
            client.__exit__()


@pytest.fixture(autouse=True)
def checked(watched: Watched) -> Iterator[None]:
    """After every batch."""
    yield
    watched.check()


# Before somebody is in --------------------------------------------------------------------------------

GOOD = startup(user="ana", database="hospital")
STARTUPS = {
    "nothing": b"",
    "no length": b"\0\0",
    "a length of 0": struct.pack("!ii", 0, MAJOR),
    "a length that is negative": struct.pack("!ii", -1, MAJOR) + GOOD[8:],
    "the least length": struct.pack("!ii", -(1 << 31), MAJOR),
    "a length of 7": struct.pack("!ii", 7, MAJOR),
    "no pairs at all": struct.pack("!ii", 8, MAJOR),
    "a length that is huge": struct.pack("!ii", (1 << 31) - 1, MAJOR) + GOOD[8:],
    "a length above the limit": struct.pack("!ii", 10_001, MAJOR) + b"a\0" * 5_000,
    "less than it says": struct.pack("!ii", len(GOOD) + 5, MAJOR) + GOOD[8:],
    "more than it says": GOOD + b"and more",
    "version 2": versioned(2 << 16, {"user": "ana"}),
    "version 4": versioned(4 << 16, {"user": "ana"}),
    "a version that is negative": versioned(-1, {"user": "ana"}),
    "a newer minor version": versioned(MAJOR + 2, {"user": "ana", "_pq_.x": "2"}),
    "nobody": startup(database="hospital"),
    "no database": startup(user="ana"),
    "another database": startup(user="ana", database="../../etc/passwd"),
    "no end": struct.pack("!ii", 13, MAJOR) + b"user\0",
    "a name without a value": struct.pack("!ii", 14, MAJOR) + b"user\0\0",
    "not UTF-8": struct.pack("!ii", 17, MAJOR) + b"user\0\xff\xfe\0\0",
    "a long name": startup(user="a" * 9_000),
    "many pairs": startup(**{f"name{n}": "x" for n in range(700)}),
    "settings that are none": startup(user="ana", database="hospital", client_encoding="LATIN1", nothing="x"),
    "options that are none": startup(
        user="ana", options="-c " + "\\" * 4000 + " -c=x --= -c sfumato.level=2"
    ),
    "SSL and then something": struct.pack("!ii", 8, SSL) + GOOD,
    "SSL and then half of it": struct.pack("!ii", 8, SSL) + GOOD[:6],
    "SSL again and again": struct.pack("!ii", 8, SSL) * 500 + GOOD,
    "SSL of another length": struct.pack("!iii", 12, SSL, 0) + GOOD,
    "GSS and SSL": struct.pack("!iiii", 8, GSS, 8, SSL) + GOOD,
    "TLS without asking": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "cancel nobody": struct.pack("!iiii", 16, CANCEL, 1, 1),
    "cancel by a number that is negative": struct.pack("!iiii", 16, CANCEL, -1, -1),
    "half a cancel": struct.pack("!iii", 12, CANCEL, 1),
    "an empty cancel": struct.pack("!ii", 8, CANCEL),
    "a query at once": GOOD + frame(b"Q", text("SELECT 1")),
    "a password at once": GOOD + frame(b"p", b""),
    "a password of negative size": GOOD + b"p" + struct.pack("!i", -5),
    "a password that is huge": GOOD + b"p" + struct.pack("!i", 1 << 30) + bytes(20_000),
    "zeros": bytes(20_000),
    "ones": b"\xff" * 20_000,
}


def test_a_startup_that_is_none_ends_at_once(watched: Watched) -> None:
    for name, content in STARTUPS.items():
        with watched.client() as client:
            client.send(content)
            assert IN not in client.heard(), name


def test_a_spoiled_startup_ends_at_once(watched: Watched) -> None:
    chance = random.Random(SEED)
    whole = GOOD + sasl(b"n,,n=,r=abc") + frame(b"p", b"c=biws,r=abc,p=abcd")
    for _ in range(300):
        with watched.client() as client:
            client.send(spoiled(whole, chance))
            assert IN not in client.heard()


FIRSTS = (
    b"", b"n", b"n,", b"n,,", b"n,,n=", b"n,,n=,r=", b"n,,r=abc", b"n,,n=ana,r=\0\0", b"n,,n=,r=\xff\xfe",
    b"p=tls-unique,,n=,r=abc", b"p=tls-server-end-point,,n=,r=abc", b"n,a=eve,n=,r=abc", b"q,,n=,r=abc",
    b"n,,m=ext,n=,r=abc", b",,,,,,,,", b"n,,n=,r=" + b"a" * 9000, b"n,,n=,=,==,r=abc", b"y", b"n,,n=,r=\x7f",
)  # fmt: skip
LASTS = (
    {"p": ""}, {"p": "!!!!"}, {"p": "AAAA"}, {"p": "A" * 43 + "="}, {"p": "=" * 44}, {"p": "A" * 9000},
    {"p": "\u00e9"}, {"r": ""}, {"r": "fuzzfuzzfuzzfuzz"}, {"r": "another"}, {"r": "\u00e9"}, {"c": ""},
    {"c": "eSws"}, {"c": "cD10bHM="}, {"last": ""}, {"last": ",p="}, {"last": "c=biws"}, {"last": "\0\0\0"},
    {"last": "p=AAAA"}, {"last": "," * 5000},
)  # fmt: skip


def test_nobody_comes_in_without_a_proof(watched: Watched) -> None:
    token = watched.server.tokens["ana"]
    for first in FIRSTS:
        with watched.client() as client:
            client.send(GOOD + sasl(first))
            client.over()
            assert b"Z" not in {kind for kind, _ in client.found}, first
    for other in LASTS:
        with watched.client() as client:
            client.send(GOOD)
            client.until(b"R")
            client.prove(token, **other)
            assert client.until(b"Z") == b"", other
            assert client.code() == "28P01", other
    for size in (-1, 0, 5, 10_000, (1 << 31) - 1):
        with watched.client() as client:
            client.send(GOOD + frame(b"p", text("SCRAM-SHA-256"), struct.pack("!i", size), b"n,,n=,r=abc"))
            client.over()
    for name, database, mechanism in (
        ("ana", "nothing", "SCRAM-SHA-256"),
        ("nobody", "hospital", "SCRAM-SHA-256"),
        ("ana", "hospital", "SCRAM-SHA-256-PLUS"),
        ("ana", "hospital", ""),
    ):
        with watched.client() as client:
            client.send(startup(user=name, database=database) + sasl(b"n,,n=,r=abc", mechanism))
            client.over()
            assert client.code() in ("28P01", ""), (name, database, mechanism)


def test_a_proof_serves_once_and_y_is_as_good_as_n(watched: Watched) -> None:
    token = watched.server.tokens["ana"]
    with watched.client() as client:
        client.send(GOOD)
        client.until(b"R")
        last = client.prove(token)
        assert client.until(b"ZE") == b"Z"
    with watched.client() as client:
        client.send(GOOD)
        client.until(b"R")
        client.prove(token, last=last)
        assert client.until(b"ZE") == b"E"
    with watched.client() as client:
        client.send(GOOD)
        client.until(b"R")
        client.prove(token, header="y,,")
        assert client.until(b"ZE") == b"Z"


# Messages ---------------------------------------------------------------------------------------------


SESSION = (
    frame(b"Q", text("SELECT relname, oid FROM pg_class WHERE relkind = 'r'")),
    parse("s", "SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > $2", 26, 0),
    frame(b"D", b"S", text("s")),
    bind("p", "s", b"16384", struct.pack("!h", 0), forms=(0, 1), out=(1,)),
    frame(b"D", b"P", text("p")),
    execute("p", 2),
    execute("p"),
    frame(b"C", b"P", text("p")),
    SYNC,
    parse("", "SELECT COUNT(*) FROM patients WHERE age > $1"),
    frame(b"D", b"S", text("")),
    bind("", "", b"50"),
    execute(),
    FLUSH,
    SYNC,
    frame(b"Q", text("BEGIN; SHOW sfumato.budget; EXPLAIN SELECT COUNT(*) FROM visits; COMMIT")),
    frame(b"C", b"S", text("s")),
    SYNC,
)


def spoiled(content: bytes, chance: random.Random) -> bytes:
    """The same with a few bytes changed, left out, doubled or put in."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(6):
            case 0:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del found[at : at + chance.choice((1, 1, 4, 20))]
            case 2:
                found[at:at] = chance.randbytes(chance.choice((1, 4, 20)))
            case 3:
                found[at:at] = found[at : at + 30]
            case 4:
                found[at : at + 4] = struct.pack(
                    "!i", chance.choice((-1, 0, 1, 3, 4, 1 << 16, (1 << 31) - 1))
                )
            case 5:
                found[at : at + 2] = struct.pack("!h", chance.choice((-1, 0, 1, 2, 3, 500, 32767, -32768)))
    return bytes(found)


def test_a_good_session_is_good(watched: Watched) -> None:
    with watched.enter() as client:
        for message in SESSION:
            client.send(message)
        client.over()
        assert [kind for kind, _ in client.found if kind == b"E"] == []
        assert [kind for kind, _ in client.found].count(b"Z") == 6  # one of them from coming in


def test_a_spoiled_session_is_answered_or_closed(watched: Watched) -> None:
    chance = random.Random(SEED)
    for _ in range(400):
        with watched.enter() as client:
            at = chance.randrange(len(SESSION))
            messages = list(SESSION[max(0, at - 4) : at + 5])
            place = chance.randrange(len(messages))
            messages[place] = spoiled(messages[place], chance)
            if chance.random() < 0.3:
                chance.shuffle(messages)
            client.send(b"".join(messages))
            client.over()


def test_messages_of_every_kind_with_any_content_are_answered_or_closed(watched: Watched) -> None:
    chance = random.Random(SEED)
    for kind in range(256):
        with watched.enter() as client:
            size = chance.choice((0, 1, 4, 30, 300))
            client.send(frame(bytes([kind]), chance.randbytes(size)) + SYNC)
            client.over()
    for size in (-(1 << 31), -1, 0, 3, (1 << 20) + 1, (1 << 31) - 1):
        with watched.enter() as client:
            client.send(b"Q" + struct.pack("!i", size) + text("SELECT 1") + SYNC)
            assert client.until(b"") == b""


def test_messages_that_are_cut_off_or_miscounted_are_answered_or_closed(watched: Watched) -> None:
    for message in SESSION:
        content = message[5:]
        for end in {*range(min(len(content), 12)), *range(len(content) - 12, len(content))}:
            if end >= 0:
                with watched.enter() as client:
                    client.send(parse("s", "SELECT $1", 25) + frame(message[:1], content[:end]) + SYNC)
                    client.over()
    for forms in ((2,), (-1,), (0, 0, 0), (1, 0)):
        for out in ((), (3,), (0, 1, 0), (1,)):
            with watched.enter() as client:
                client.send(
                    parse("", "SELECT $1", 25) + bind("", "", b"a", forms=forms, out=out) + execute() + SYNC
                )
                client.over()
    with watched.enter() as client:
        for count in (0, 2, 3, 1000):
            client.send(parse("", "SELECT $1", 25) + bind("", "", *[b"a"] * count) + SYNC)
            assert client.until(b"Z") == b"Z"
            assert client.code() == "08P01"
        for most in (-1, 1, (1 << 31) - 1, -(1 << 31)):
            client.send(
                parse("", "SELECT relname FROM pg_class") + bind("", "") + execute("", most) * 3 + SYNC
            )
            assert client.until(b"Z") == b"Z"


def test_values_of_wrong_sizes_are_answered_or_refused(watched: Watched) -> None:
    """In every type, in both formats; the results in the binary format, too."""
    chance = random.Random(SEED)
    contents = [bytes(size) for size in (0, 1, 2, 4, 8, 12, 16, 20, 40)]
    contents += [b"\xff" * size for size in (1, 2, 4, 8, 12, 20, 100)]
    contents += [chance.randbytes(size) for size in (1, 2, 3, 4, 8, 9, 12, 16, 20, 24, 40)]
    contents += [struct.pack("!hhHH", 1, 100, 0, 0) + b"\x27\x0f", struct.pack("!hhHH", 0, 0, 0xC000, 0)]
    contents += [struct.pack("!iiIii", 1, 0, oid, 1 << 30, 1) + bytes(8) for oid in (0, 23, 25, 1009, 1700)]
    contents += [struct.pack("!iiIiii", 1, 0, 25, 1, 1, size) + b"a" for size in (-2, 0, 1, 5, 1 << 30)]
    contents += [
        b"1e999",
        b"-1e400",
        b"nan",
        b"infinity",
        b"99999999999999999999",
        b"{a,b",
        b"{{1},{2}}",
        b"0001-01-01",
    ]
    contents += [b"9999-12-31", b"10000-01-01", b"2024-02-30", b"-infinity", b"t", b"\xc3\xa9", b"9" * 5000]
    oids = [oid for each in TYPES.values() for oid in (each.oid, each.array) if oid] + [1, 4_000_000_000]
    with watched.enter() as client:
        for oid in oids:
            client.found.clear()
            client.send(parse("s", "SELECT $1", oid) + SYNC)
            for content in chance.sample(contents, 12):
                form = chance.randrange(2)
                client.send(bind("", "s", content, forms=(form,), out=(1,)) + execute() + SYNC)
            for _ in range(13):
                assert client.until(b"Z") == b"Z", (oid, client.found[-3:])
        for column in ("age", "region", "diabetic"):  # a question is described, not asked
            for oid in (0, 16, 20, 25, 701, 1700, 1082, 1114, 1009, 17):
                client.send(parse("q", f"SELECT COUNT(*) FROM patients WHERE {column} = $1", oid) + SYNC)
                for content in chance.sample(contents, 4):
                    client.send(bind("", "q", content, forms=(oid % 2,)) + frame(b"D", b"P", text("")) + SYNC)
                for _ in range(5):
                    assert client.until(b"Z") == b"Z", (column, oid, client.found[-3:])


# Much -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "age <> ALL() AND age > $1",
        "ALL() AND age < $1",
        "age > :x AND age > $1",
        "age > ? AND age > $1",
        "age > $x AND age > $1",
        "age > sfumato_value_abc AND age > $1",
        "sfumato_value_1 > $1",
        "age = ANY(ARRAY[]::int[]) OR age = $1",
        "age = ANY(ARRAY($1))",
        "age = ANY(($1)::int[][])",
        "age = SOME($1)",
        "ANY($1) = age",
        "age = ALL($1)",
    ],
)
def test_strange_values_are_refused_and_the_session_lives(watched: Watched, condition: str) -> None:
    sql = f"SELECT count(*) AS n FROM patients WHERE {condition}"
    with watched.enter() as client:
        client.send(parse("s", sql) + frame(b"D", b"S", text("s")) + SYNC)
        assert client.codes() in ([], ["0A000"], ["22023"], ["42601"], ["42703"])
        for given in (b"3", b"{3}"):
            client.send(parse("", sql) + bind("", "", given) + execute() + SYNC)
            assert client.codes() in ([], ["0A000"], ["22023"], ["42601"], ["42703"])
        assert not client.is_closed


def nested(depth: int) -> bytes:
    """An array of arrays of arrays, in binary."""
    content = struct.pack("!iiIii", 1, 0, 23, 0, 1)
    for _ in range(depth):
        content = struct.pack("!iiIiii", 1, 0, 1007, 1, 1, len(content)) + content
    return content


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"{{1,2},{3,4}}", 0), (b"{1,,2}", 0), (b"{1,2", 0), (b"1,2}", 0), (b'{"1,2}', 0), (b"{1}2", 0),
        (b"{,}", 0), (b"{1 2}", 0), (b'{"1""2"}', 0), (b"{a\\", 0), (b"{" * 100_000, 0), (b"{,", 0), (b"", 0),
        (nested(1), 1), (nested(2000), 1), (nested(0)[:16], 1), (struct.pack("!iiIii", 1, 0, 23, 5, 1), 1),
        (struct.pack("!iiIiii", 1, 0, 23, 1, 1, 9), 1), (struct.pack("!iiIii", 1, 0, 23, -1, 1), 1),
        (struct.pack("!iiIiiii", 1, 0, 23, 1, 1, 4, 7) + b"more", 1),
    ],
)  # fmt: skip
def test_a_broken_list_is_refused_and_never_read_as_another(
    watched: Watched, content: bytes, form: int
) -> None:
    with watched.enter() as client:
        for sql, oid in (("patients WHERE age = ANY($1)", 1007), ("pg_class WHERE oid = ANY($1)", 1028)):
            client.send(
                parse("", f"SELECT count(*) AS n FROM {sql}", oid) + bind("", "", content, forms=(form,))
            )
            client.send(execute() + SYNC)
            assert client.codes() == ["22023"]


def test_many_types_are_too_many(watched: Watched) -> None:
    with watched.enter() as client:
        client.send(parse("s", "SELECT 1", *[23] * 2000) + SYNC)
        assert client.codes() == ["54000"]


def test_a_thousand_statements_and_portals_are_too_many(watched: Watched) -> None:
    with watched.enter() as client:
        for n in range(1000):
            client.send(parse(f"s{n}", f"SELECT {n}") + SYNC)
        for _ in range(1000):
            client.until(b"Z")
        assert client.code() == "53400"
        client.found.clear()
        client.send(b"".join(bind(f"p{n}", "s1") for n in range(1000)) + SYNC)
        client.until(b"Z")
        assert client.code() == "53400"
        assert client.ask("SELECT 1")[-1] == (b"Z", b"I")


def test_long_statements_are_refused(watched: Watched) -> None:
    with watched.enter() as client:
        for sql in (
            "SELECT '" + "a" * 1_000_000 + "'",
            "SELECT " + "1," * 500_000 + "1",
            "(" * 1_000_000,
            "SELECT " + "-" * 1_000_000,
            " " * 1_000_000 + "SELECT 1",
            "SELECT COUNT(*) FROM patients WHERE region IN ('" + "','".join(["x"] * 200_000) + "')",
            "SET sfumato.epsilon = '" + "1" * 1_000_000 + "'",
            "SET x = '" + "1" * 1_000_000 + "'",
            "RESET x",
        ):
            assert client.ask(sql)[-1][0] == b"Z", sql[:50]
        client.found.clear()
        client.send(parse("long", "SELECT '" + "a" * 900_000 + "'") + SYNC)  # it could never be asked
        client.until(b"Z")
        assert client.code(), "a prepared statement of any length is kept"
        assert client.ask("SELECT 1")[-1] == (b"Z", b"I")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 " + "/* " * 300_000,
        "SELECT 1 " + " ".join(f"$a{n}$" for n in range(100_000)),
        "$" * 900_001,
        "'" * 900_001,
        "E'" + "\\'" * 400_000,
        '"' * 900_001,
        "SELECT " + "$1" * 400_000,
        ";" * 900_000,
        "SELECT 1;" * 2_000,
        "SET a.b = 1;" * 3_000,
    ],
    ids=lambda sql: sql[:12],
)
def test_a_text_that_is_slow_to_split_stops_nobody_else(watched: Watched, sql: str) -> None:
    with watched.enter("ben") as other, watched.enter("eve") as extended:
        other.send(frame(b"Q", text(sql)))
        extended.send(parse("", sql) + SYNC)
        with watched.enter() as good:
            start = time.monotonic()
            good.ask("SELECT 1")
            assert time.monotonic() - start < PATIENCE


def test_zeros_and_broken_letters_end_a_session_or_are_refused(watched: Watched) -> None:
    for content in (
        b"SELECT 1\0\0",
        b"SELECT '\0'\0",
        b"SELECT '\xff\xfe'\0",
        b"\xed\xa0\x80\0",
        b"SELECT 1",
        b"",
    ):
        with watched.enter() as client:
            client.send(frame(b"Q", content) + SYNC)
            client.over()
        with watched.enter() as client:
            client.send(frame(b"P", b"\0", content, b"\0\0") + SYNC)
            client.over()


BIG = f"SELECT n, '{'a' * 90}' FROM generate_series(1, 10000) AS n"  # about a megabyte


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"Q", text(BIG)) * 200,
        parse("", BIG) + bind("", "") + SYNC + (bind("", "") + execute()) * 300,
        (parse("", BIG) + bind("", "") + execute()) * 300 + FLUSH,
        frame(b"Q", text(f"{BIG};" * 300)),
        b"".join(parse(f"s{n}", BIG) + bind(f"p{n}", f"s{n}") + execute(f"p{n}", 1) for n in range(400)),
    ],
    ids=["queries", "executions", "executions to flush", "one query of many", "portals"],
)
def test_a_client_that_never_reads_does_not_fill_the_memory(watched: Watched, sent: bytes) -> None:
    before = _memory(watched.workers[0])
    with watched.enter("ben") as lazy:
        lazy._socket.settimeout(1.5)
        with suppress(TimeoutError):
            lazy.send(sent)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with watched.enter() as good:
                start = time.monotonic()
                good.ask("SELECT 1")
                assert time.monotonic() - start < PATIENCE
            grown = _memory(watched.workers[0]) - before
            assert grown < HELD, f"the worker needs {grown:.0f} MB more"
            time.sleep(0.1)


def test_two_hundred_connections_at_once_are_served(watched: Watched) -> None:
    names = ("ana", "ben", "eve")
    people = [(watched.client(), names[n % 3]) for n in range(201)]
    try:
        for client, name in people:
            client.send(startup(user=name, database="hospital"))
        for client, _ in people:
            assert client.until(b"RE") == b"R"
        for client, name in people:
            client.prove(watched.server.tokens[name])
        for client, _ in people:
            assert client.until(b"ZE") == b"Z"
        for client, _ in people:
            client.found.clear()
            client.send(frame(b"Q", text("SELECT 1")))
        for client, _ in people:
            assert client.until(b"Z") == b"Z"
            assert (b"C", b"SELECT 1\0") in client.found
    finally:
        for client, _ in people:
            client.__exit__()


def test_whoever_does_not_come_in_is_out(watched: Watched) -> None:
    """The last one: it waits for what the first fixture began."""
    time.sleep(max(0.0, watched.began + STARTING + 1 - time.monotonic()))
    for client in watched.slow:
        assert client.message() == (b"", b"")
