"""What the doors cost: `python benchmarks/server.py [--smoke]`.

`sfumato serve` runs with one worker on one core; the load comes from a second process, on another core if
there is one, through clients of our own that do nothing but send, wait and compare. Bars:
  http, wire_simple, wire_prepared   a kept release: how many a second with 32 clients, each of which asks
                                     again as soon as it was answered
  ..._p99_ms                         how long 99 of 100 of them take. With 32 clients in a circle this is 32
                                     over the rate, so below 1,600 a second it says nothing of its own: it is
                                     then taken at 1,000 a second, from the moment each was due
  ..._wrong                          answers that are not, byte for byte, what was answered first
  http_fresh_ms, wire_fresh_ms       a new small question, deadlines off: what it takes beside the same
                                     through the library on a copy of the data, both with their charge on disk
  parses                             how often the parser is entered for a statement that is prepared,
                                     described and executed with five different values
  executed_over_planned              a prepared statement with new values, beside planning the same question
                                     from a tree that has them
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import sqlglot as library
import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serving import Server, hospital, serving

import sfumato as sf
from sfumato.queries.statement import read
from sfumato.server.desk.desk import Caller, Desk, Recent, Settings
from sfumato.server.postgres.statements import PreparedStatement, Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Bar = tuple[str, float, str, float]
QUESTION = "SELECT region, COUNT(*) AS n, AVG(age) AS mean FROM patients WHERE age > {} GROUP BY region"
SMALL = "SELECT COUNT(*) AS n FROM patients WHERE age > {}"
EPSILON = "0.1"
PER_SECOND, P99_MS, FRESH_MS = 1_000.0, 20.0, 3.0
CLIENTS = 32
DOORS = ("http", "wire_simple", "wire_prepared")
SHOWN = {"library": "'n'", "http": '"charged": "0.1"', "wire": "SELECT 1"}  # in an answer that was paid


# The wire ---------------------------------------------------------------------------------------------


def frame(kind: bytes, *parts: bytes) -> bytes:
    """A message of the PostgreSQL protocol."""
    content = b"".join(parts)
    return kind + struct.pack("!i", len(content) + 4) + content


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def received(wire: socket.socket) -> tuple[bytes, bytes]:
    """One message."""
    kind, size = struct.unpack("!ci", exactly(wire, 5))
    content = exactly(wire, size - 4)
    if kind == b"E":
        raise RuntimeError(f"the server refused: {content!r}")
    return kind, content


def exactly(wire: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = wire.recv(size - len(found))
        if not part:
            raise RuntimeError("the server closed the connection")
        found += part
    return found


def until_ready(wire: socket.socket) -> bytes:
    """Everything up to the moment when the server waits for more."""
    found = b""
    while True:
        kind, content = received(wire)
        found += frame(kind, content)
        if kind == b"Z":
            return found


def connected(port: int, name: str, token: str) -> socket.socket:
    """A session that came in by SCRAM-SHA-256, with a price for its questions."""
    wire = socket.create_connection(("127.0.0.1", port))
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pairs = {"user": name, "database": "hospital", "options": f"-c sfumato.epsilon={EPSILON}"}
    startup = b"".join(text(key) + text(value) for key, value in pairs.items()) + b"\0"
    wire.sendall(struct.pack("!ii", len(startup) + 8, 3 << 16) + startup)
    received(wire)
    bare = "n=,r=" + base64.b64encode(os.urandom(18)).decode()
    first = f"n,,{bare}".encode()
    wire.sendall(frame(b"p", text("SCRAM-SHA-256"), struct.pack("!i", len(first)), first))
    told = received(wire)[1][4:].decode()
    facts = dict(part.split("=", 1) for part in told.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), base64.b64decode(facts["s"]), int(facts["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={facts['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{told},{final}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    wire.sendall(frame(b"p", f"{final},p={proof}".encode()))
    until_ready(wire)
    return wire


def prepared(wire: socket.socket, sql: str) -> None:
    """Prepare a statement under the name q."""
    wire.sendall(frame(b"P", text("q"), text(sql), struct.pack("!H", 0)) + frame(b"S"))
    until_ready(wire)


def executed(value: str) -> bytes:
    """Bind the statement q to a value, execute it, and wait."""
    content = value.encode()
    bound = frame(b"B", text(""), text("q"), struct.pack("!HHi", 0, 1, len(content)), content, b"\0\0")
    return bound + frame(b"E", text(""), struct.pack("!i", 0)) + frame(b"S")


def asked(token: str, sql: str) -> bytes:
    """A request for a release over HTTP."""
    body = json.dumps({"sql": sql, "epsilon": EPSILON}).encode()
    head = (
        "POST /v1/hospital/release HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# Whether an answer is whole, and its part that must always be the same


def http_answer(found: bytes) -> bytes | None:
    """The body, once it is there; the status is part of what must not change."""
    end = found.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = found[:end].lower()
    place = head.find(b"content-length:")
    size = int(head[place + 15 :].split(b"\r\n", 1)[0])
    return found[9:12] + found[end + 4 :] if len(found) == end + 4 + size else None


def wire_answer(found: bytes) -> bytes | None:
    """All messages, once the last of them says that the server waits."""
    place = 0
    while place + 5 <= len(found):
        place += 1 + int.from_bytes(found[place + 1 : place + 5], "big")
    return found if place == len(found) and found[-6:] == b"Z\0\0\0\5I" else None


# The load, in a process of its own --------------------------------------------------------------------


class Client(asyncio.Protocol):
    """Sends the same thing again and again, and compares what comes back with what came first."""

    def __init__(self, sent: bytes, answer: Callable[[bytes], bytes | None], first: bytes) -> None:
        self._sent, self._answer, self._first = sent, answer, first
        self._found = b""
        self._since: list[float] = []  # when those were due that are not answered; the first is under way
        self._again = True
        self.took: list[float] = []
        self.wrong = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def ask(self, due: float, *, again: bool) -> None:
        """Ask now, or as soon as what was asked before is answered; then again and again, or not."""
        self._again = again
        self._since.append(due)
        if len(self._since) == 1:
            self._transport.write(self._sent)

    def stop(self) -> None:
        """Ask no more."""
        self._again = False

    def data_received(self, data: bytes) -> None:
        self._found += data
        answer = self._answer(self._found)
        if answer is None:
            return
        now = time.perf_counter()
        self.took.append(now - self._since.pop(0))
        self.wrong += answer != self._first
        self._found = b""
        if self._again:
            self._since.append(now)
        if self._since:
            self._transport.write(self._sent)

    def connection_lost(self, _: Exception | None) -> None:
        self.wrong += bool(self._since)

    def close(self) -> None:
        self._transport.close()


def opened(door: str, server: dict[str, Any]) -> tuple[socket.socket, bytes]:
    """A connection, and what to send on it for the kept release."""
    if door == "http":
        wire = socket.create_connection(("127.0.0.1", server["http"]))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return wire, asked(server["token"], QUESTION.format(30))
    wire = connected(server["postgres"], "ana", server["token"])
    if door == "wire_simple":
        return wire, frame(b"Q", text(QUESTION.format(30)))
    prepared(wire, QUESTION.format("$1"))
    return wire, executed("30")


def once(door: str, wire: socket.socket, sent: bytes) -> bytes:
    """Ask and wait."""
    wire.sendall(sent)
    found, answer = b"", http_answer if door == "http" else wire_answer
    while True:
        part = wire.recv(1 << 16)
        found += part
        if (whole := answer(found)) is not None:
            return whole
        if not part:
            raise RuntimeError("the server closed the connection")


async def load(
    door: str, server: dict[str, Any], clients: int, seconds: float, rate: float
) -> dict[str, Any]:
    """So many clients for so long: in a circle, or, if there is a rate, so many a second together."""
    loop = asyncio.get_running_loop()
    answer = http_answer if door == "http" else wire_answer
    people: list[Client] = []
    first = b""
    for _ in range(clients):
        wire, sent = opened(door, server)
        if not first:
            once(door, wire, sent)  # if it is new here it is charged, and says so
            first = once(door, wire, sent)
        wire.setblocking(False)
        _, client = await loop.create_connection(
            lambda sent=sent, first=first: Client(sent, answer, first),  # type: ignore[misc]
            sock=wire,
        )
        people.append(client)
    if (door == "http" and not first.startswith(b"200")) or (door != "http" and b"SELECT 4" not in first):
        raise RuntimeError(f"this is no release: {first[:300]!r}")
    began = time.perf_counter()
    if rate:
        due, n = began, 0
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            people[n % clients].ask(due, again=False)
            n += 1
            due = began + n / rate
    else:
        for client in people:
            client.ask(began, again=True)
        await asyncio.sleep(seconds)
    count = sum(len(client.took) for client in people)
    lasted = time.perf_counter() - began
    for client in people:
        client.stop()
    await asyncio.sleep(0.2)
    for client in people:
        client.close()
    took = sorted(each for client in people for each in client.took)
    at = {"p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)]}
    return {"rate": count / lasted, "wrong": sum(client.wrong for client in people), **at}


def loaded(door: str, server: Server, clients: int, seconds: float, rate: float = 0) -> dict[str, float]:
    """The same, from a process of its own on the core of the load."""
    facts = {"http": server.http, "postgres": server.postgres, "token": server.tokens["ana"]}
    told = json.dumps([door, facts, clients, seconds, rate])
    command = [sys.executable, __file__, "--load", told]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


# What is measured -------------------------------------------------------------------------------------


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """This process, and whatever it starts meanwhile, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def kept(server: Server, smoke: bool) -> list[Bar]:
    """The doors take turns; the middle one of the runs counts."""
    clients, seconds, turns = (8, 0.5, 1) if smoke else (CLIENTS, 4.0, 5)
    found: dict[str, list[dict[str, float]]] = {door: [] for door in DOORS}
    paced: dict[str, list[dict[str, float]]] = {door: [] for door in DOORS}
    for _ in range(turns):
        for door in DOORS:
            found[door].append(loaded(door, server, clients, seconds))
            paced[door].append(loaded(door, server, clients, seconds, PER_SECOND))
    bars: list[Bar] = []
    print(f"{'kept':16}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}   {'at 1,000/s: p50':>15}{'p99':>9}")
    for door in DOORS:
        rate, half, most = (middle(found[door], key) for key in ("rate", "p50", "p99"))
        calm, late = (middle(paced[door], key) for key in ("p50", "p99"))
        times = [1000 * each for each in (half, most, calm, late)]
        print(f"{door:16}{rate:10.0f}{times[0]:9.2f}{times[1]:9.2f}   {times[2]:15.2f}{times[3]:9.2f}")
        circle = rate >= CLIENTS / (P99_MS / 1000)
        bars += [
            (f"{door}_per_second", rate, ">=", PER_SECOND),
            (
                f"{door}_p99_ms" + ("" if circle else "_at_1000"),
                1000 * (most if circle else late),
                "<",
                P99_MS,
            ),
            (f"{door}_wrong", sum(each["wrong"] for each in (*found[door], *paced[door])), "<=", 0),
        ]
    return bars


def middle(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(each[key] for each in runs)


def fresh(server: Server, copy: Path, times: int) -> list[Bar]:
    """New questions, one at a time: through the library and through both doors by turns."""
    database = sf.open(copy, analyst="ana")
    token = server.tokens["ana"]
    web = socket.create_connection(("127.0.0.1", server.http))
    wire = connected(server.postgres, "ana", token)
    before = Fraction(server.request("GET", "/v1/hospital/budget", token)[1]["spent"])
    took: dict[str, list[float]] = {"library": [], "http": [], "wire": []}
    for n in range(-3, times):  # the first few warm up
        for place, name in enumerate(took):
            sql = SMALL.format(f"{40 + n / 1000 + place / 10_000:.4f}")
            start = time.perf_counter()
            if name == "library":
                shown = str(database.sql(sql, epsilon=EPSILON).release().rows())
            elif name == "http":
                shown = once("http", web, asked(token, sql)).decode()
            else:
                shown = once("wire", wire, frame(b"Q", text(sql))).decode("latin-1")
            seconds = time.perf_counter() - start
            if SHOWN[name] not in shown:
                raise RuntimeError(f"{name}: {shown[:300]}")
            if n >= 0:
                took[name].append(seconds)
    web.close()
    wire.close()
    medians = {name: 1000 * statistics.median(each) for name, each in took.items()}
    spent = server.request("GET", "/v1/hospital/budget", token)[1]["spent"]
    charges = (Fraction(spent) - before + database.ledger.spent.amount) / Fraction(EPSILON)
    print(f"a new question, ms: {', '.join(f'{name} {each:.2f}' for name, each in medians.items())}")
    bars: list[Bar] = [
        (f"{name}_fresh_ms", medians[name] - medians["library"], "<=", FRESH_MS) for name in ("http", "wire")
    ]
    return [*bars, ("fresh_uncharged", abs(float(3 * (times + 3) - charges)), "<=", 0)]


def statements(policy: Path, times: int) -> list[Bar]:
    """How often a prepared statement is parsed, and what executing it again costs beside its planning."""
    desk = Desk(policy, Settings(rate=1e6, deadlines=False))
    desk.people.add("bea", "analyst")
    person = desk.people.get("bea")
    assert person is not None
    found = Statements(Recent(16), desk)
    found.caller, found.token = Caller(person, "benchmark"), ""
    found._check_person = lambda: None  # type: ignore[method-assign]  # who asks is not what is measured
    found.knobs.set("sfumato.epsilon", EPSILON)
    sql, entered = QUESTION.format("$1"), 0
    parse = library.parse

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal entered
        entered += 1
        return parse(*given, **more)

    async def run() -> None:
        prepared = PreparedStatement(sql, [0], (0,))
        await found.infer(prepared)
        prepared.fields = await found.fields_of(prepared, None)
        prepared.is_described = True
        for age in range(40, 45):
            assert await found.fields_of(prepared, [age]) == prepared.fields
            assert (await found.perform(prepared, [age])).count == 4
        assert await desk.finish(60) == 0

    library.parse = counted
    try:
        asyncio.run(run())
    finally:
        library.parse = parse
    statement, database = read(sql, "postgres"), desk.database
    ways: dict[str, Callable[[int], object]] = {
        "executed": lambda age: database.question(statement.bound((age,)), epsilon=EPSILON),
        "planned": lambda age: database.question(placed[age], epsilon=EPSILON),
    }
    placed = {age: statement.bound((age,)) for age in range(times)}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for age in range(times):
        for way, act in ways.items():
            start = time.perf_counter()
            act(age)
            taken[way].append(time.perf_counter() - start)
    ratio = statistics.median(taken["executed"]) / statistics.median(taken["planned"])
    return [("parses", float(entered), "<=", 1.0), ("executed_over_planned", ratio, "<=", 1.2)]


def told(bars: list[Bar], *, smoke: bool) -> int:
    """Print the bars; 1 if any is short. Times are bars only at full size."""
    short = 0
    for name, measured, op, target in bars:
        if smoke and any(each in name for each in ("_ms", "_per_second", "_over_")):
            print(f"{name} {measured:.4g} (a bar only at full size)")
            continue
        ok = {"<=": measured <= target, ">=": measured >= target, "<": measured < target}[op]
        short += not ok
        print(f"BAR {name} {measured:.4g} {op} {target:g} {'ok' if ok else 'short'}")
    return 1 if short else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few seconds; answers are compared, no times")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        print(json.dumps(_with_loop(*json.loads(given.load))))
        return 0
    cores = sorted(os.sched_getaffinity(0))
    here, there = {cores[0]}, {cores[-1]}
    if here == there:
        print("there is one core only: server and load share it")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-bench-"))
    os.environ["XDG_STATE_HOME"] = str(folder / "library" / "state")
    try:
        policy = hospital(folder / "server")
        hospital(folder / "library")
        counted = statements(hospital(folder / "statements"), 60 if given.smoke else 500)
        options = ("--no-deadlines", "--rate", "1000000")
        with pinned(here):
            entered = serving(folder / "server", *options, policy=policy)
            server = entered.__enter__()
        try:
            server.let_in("ana")
            with pinned(there):
                bars = kept(server, given.smoke)
                bars += fresh(server, folder / "library" / "hospital.toml", 5 if given.smoke else 300)
        finally:
            entered.__exit__(None, None, None)
    finally:
        shutil.rmtree(folder)
    return told(bars + counted, smoke=given.smoke)


def _with_loop(*arguments: Any) -> dict[str, Any]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load(*arguments))


if __name__ == "__main__":
    sys.exit(main())
