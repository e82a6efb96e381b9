"""The HTTP door, as programs meet it: who may do what, what comes back, and what if things go wrong.

Three real servers do for everything: one that answers at once, in two workers and with two databases that
differ in one person; one whose answers take four seconds; one that is strict.
"""

from __future__ import annotations

import base64
import csv
import http.client
import io
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.serving import PEOPLE, POLICY, hospital, serving
from tests.support import can_mount, small_disk

import sfumato as sf
from sfumato.budget.ledger.ledger import ROOM
from sfumato.cli.serve import command
from sfumato.cli.user import command as user
from sfumato.server.desk.people import People
from sfumato.server.http import openapi
from sfumato.server.http.api import LARGEST_REQUEST, NO_LEDGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.serving import Server

COUNT = "SELECT COUNT(*) AS n FROM patients"
GROUPS = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM patients GROUP BY region"
DUE = 4.0  # seconds after which an answer of the slow server leaves
PACE = 8  # at which that is so
REGIONS = 40_000  # declared there besides those that exist
RELEASE, EXPLAIN, BATCH = "/v1/hospital/release", "/v1/hospital/explain", "/v1/hospital/batch"
WAYS = ["limit", "disk"] if can_mount() else ["limit"]  # to let nothing be written
_fresh = itertools.count(1)


class Answer(NamedTuple):
    """What came back."""

    status: int
    content: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]["type"]


def address() -> str:
    """An address of this machine that no test has used: wrong tokens count against the address."""
    number = next(_fresh)
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def call(
    server: Server,
    method: str,
    path: str,
    token: str = "",
    body: Any = None,
    headers: dict[str, str] | None = None,
    source: str = "127.0.0.1",
) -> Answer:
    """One request on a connection of its own."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Authorization": f"Bearer {token}"} if token else {}
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60, source_address=(source, 0))
    with closing(connection):
        connection.request(method, path, content, {**told, **(headers or {})})
        found = connection.getresponse()
        return Answer(found.status, found.read(), {k.lower(): v for k, v in found.getheaders()})


def ask(
    server: Server, token: str, sql: str, epsilon: str = "1", key: str = "", path: str = RELEASE
) -> Answer:
    """A release."""
    headers = {"Idempotency-Key": key} if key else {}
    return call(server, "POST", path, token, {"sql": sql, "epsilon": epsilon}, headers)


def sent(server: Server, token: str, sql: str, key: str = "") -> socket.socket:
    """A question on a connection that nobody reads from."""
    body = json.dumps({"sql": sql, "epsilon": "1"})
    told = f"Idempotency-Key: {key}\r\n" if key else ""
    connection = socket.create_connection(("127.0.0.1", server.http))
    connection.sendall(
        f"POST {RELEASE} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n{told}"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    return connection


def history(server: Server, token: str, sql: str = "") -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = call(server, "GET", "/v1/hospital/history", token).json["history"]
    return [line for line in lines if not sql or line["question"] == sql]


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that comes; give up after a time that no machine needs."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def spent(server: Server, token: str) -> str:
    return str(call(server, "GET", "/v1/hospital/budget", token).json["spent"])


def said(server: Server) -> str:
    return (server.policy.parent / "said.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Answers at once; `neighbour` is the same hospital without one person."""
    folder = tmp_path_factory.mktemp("quick")
    policy, other = hospital(folder), folder / "neighbour.toml"
    other.write_text(POLICY.format(epsilon="1000").replace("hospital.duckdb", "neighbour.duckdb"))
    (folder / "neighbour.duckdb").write_bytes((folder / "hospital.duckdb").read_bytes())
    with duckdb.connect(str(folder / "neighbour.duckdb")) as connection:
        connection.execute("DELETE FROM patients WHERE patient_id = 7")
        connection.execute("DELETE FROM visits WHERE patient_id = 7")
    with serving(folder, str(other), "--no-deadlines", "--workers", "2", policy=policy) as server:
        for name, role in (("olga", "owner"), ("ana", "analyst"), ("ada", "auditor"), ("eve", "analyst")):
            server.let_in(name, role)
        server.tokens["other"] = People.beside(other).add("ana", "analyst")
        server.tokens["olga of other"] = People.beside(other).add("olga", "owner")
        yield server


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Answers after four seconds, and finishes what runs when it is stopped."""
    folder = tmp_path_factory.mktemp("slow")
    policy = hospital(folder)
    regions = ", ".join(f'"region {n}"' for n in range(REGIONS))  # so that an answer takes long to write
    policy.write_text(policy.read_text().replace('keys = ["north"', f'keys = [{regions}, "north"'))
    with serving(folder, "--pace", str(PACE), policy=policy) as server:
        server.let_in("olga", "owner")
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Lets nobody ask often, nor anybody go on whose answers are late; all of them are."""
    options = ("--rate", "3", "--late", "1", "--pace", "1e-9", "--stop-after", "1e12")
    with serving(tmp_path_factory.mktemp("strict"), *options, epsilon="10") as server:
        server.let_in("olga", "owner")
        yield server


# Who may do what --------------------------------------------------------------------------------------

ANYBODY, READERS, ASKERS, WATCHERS, OWNER = "oaun", "oau", "oa", "ou", "o"  # owner, analyst, auditor, nobody
QUESTION = {"sql": COUNT, "epsilon": "1"}
ACTS: list[tuple[str, str, Any, str, int]] = [
    ("get", "/", None, ANYBODY, 200),
    ("get", "/health", None, ANYBODY, 200),
    ("get", "/openapi.json", None, ANYBODY, 200),
    ("get", "/metrics", None, WATCHERS, 200),
    ("get", "/v1/databases", None, READERS, 200),
    ("get", "/v1/{database}/schema", None, READERS, 200),
    ("post", "/v1/{database}/explain", QUESTION, READERS, 200),
    ("post", "/v1/{database}/release", QUESTION, ASKERS, 200),
    ("post", "/v1/{database}/batch", {"questions": [QUESTION]}, ASKERS, 200),
    ("get", "/v1/{database}/budget", None, READERS, 200),
    ("get", "/v1/{database}/history", None, READERS, 200),
    ("post", "/v1/{database}/suggest", {"secret": "patients.region", "advantage": "0.1"}, WATCHERS, 200),
    ("get", "/v1/{database}/policy", None, OWNER, 200),
    ("put", "/v1/{database}/policy", POLICY.format(epsilon="1000").encode(), OWNER, 200),
    ("get", "/v1/{database}/access", None, WATCHERS, 200),
    ("post", "/v1/{database}/tokens", {}, "", 201),  # for one-time tokens and passwords alone
    ("get", "/v1/{database}/running", None, OWNER, 200),
    ("get", "/v1/{database}/people", None, WATCHERS, 200),
    ("post", "/v1/{database}/people", {"name": "new", "role": "analyst"}, OWNER, 201),
    ("post", "/v1/{database}/people/{name}/review", None, OWNER, 200),
    ("delete", "/v1/{database}/people/{name}", None, OWNER, 200),
]


def test_every_act_is_described_and_every_described_act_is_tested_here() -> None:
    described = {(method, path) for path, acts in openapi.described()["paths"].items() for method in acts}
    assert described == {(method, path) for method, path, *_ in ACTS}


@pytest.mark.parametrize(("who", "role"), [("olga", "o"), ("ana", "a"), ("ada", "u"), ("", "n")])
def test_every_act_is_open_to_its_roles_and_to_nobody_else(quick: Server, who: str, role: str) -> None:
    token = quick.tokens.get(who, "")
    for method, path, body, roles, status in ACTS:
        place = path.format(database="hospital", name="new")
        found = call(quick, method.upper(), place, token, body, source=address())
        expected = status if role in roles else 401 if not token or path.endswith("/tokens") else 403
        assert found.status == expected, (method, path, found.content)
        if expected in (401, 403):
            assert found.error == (expected, "NotAllowed" if expected == 403 else "AccessDenied")
            assert ("www-authenticate" in found.headers) == (expected == 401)
        if path.startswith("/v1/"):
            assert found.headers["cache-control"] == "no-store"


def test_a_token_of_one_database_opens_no_other(quick: Server) -> None:
    ours, theirs = quick.tokens["ana"], quick.tokens["other"]
    assert call(quick, "GET", "/v1/databases", ours).json == {"databases": ["hospital"]}
    assert call(quick, "GET", "/v1/databases", theirs).json == {"databases": ["neighbour"]}
    for method, path, body, _, _ in ACTS:
        if path.startswith("/v1/{"):
            for database, token in (("hospital", theirs), ("neighbour", ours)):
                place = path.format(database=database, name="ana")
                assert call(quick, method.upper(), place, token, body, source=address()).status == 401


def test_a_wrong_token_and_a_database_that_is_not_there_look_the_same(quick: Server) -> None:
    token, where = quick.tokens["ana"], address()
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    told = {
        (found.status, found.content, found.headers.get("www-authenticate"))
        for found in (
            call(quick, "GET", f"/v1/{database}/schema", given, source=where)
            for database, given in (
                ("hospital", wrong),
                ("hospital", ""),
                ("nowhere", token),
                ("%2e%2e", token),
            )
        )
    }
    assert len(told) == 1


def test_an_analyst_sees_her_own_charges_and_the_others_see_all(quick: Server) -> None:
    assert ask(quick, quick.tokens["ana"], COUNT + " WHERE age = 1").status == 200
    assert ask(quick, quick.tokens["eve"], COUNT + " WHERE age = 2").status == 200
    assert {line["analyst"] for line in history(quick, quick.tokens["ana"])} == {"ana"}
    assert {line["analyst"] for line in history(quick, quick.tokens["ada"])} >= {"ana", "eve"}
    hers = call(quick, "GET", "/v1/hospital/budget", quick.tokens["eve"]).json
    assert set(hers["by_analyst"]) == {"eve"}
    assert "eve" in call(quick, "GET", "/v1/hospital/budget", quick.tokens["olga"]).json["by_analyst"]


# Tokens and passwords ---------------------------------------------------------------------------------


def test_the_first_start_prints_a_token_that_is_exchanged_once(tmp_path: Path) -> None:
    policy = hospital(tmp_path)
    start = [sys.executable, "-m", "sfumato.cli.main", "serve", str(policy), "--no-postgres"]
    with socket.create_server(("127.0.0.1", 0)) as busy:  # a start that fails must not use the token up
        failed = subprocess.run(
            [*start, "--http-port", str(busy.getsockname()[1])], capture_output=True, text=True
        )
    assert failed.returncode != 0
    assert "Traceback" not in failed.stderr
    with subprocess.Popen(
        [*start, "--http-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            told = "".join(iter(process.stdout.readline, "\n"))  # ports, up to the first empty line
            while "Stop with" not in told:
                told += (line := process.stdout.readline())
                assert line, told
            token = re.search(r"sfu_\w+", told)
            assert token is not None, told
            port = re.search(r"127\.0\.0\.1:(\d+)", told)
            assert port is not None

            def exchanged(path: str, method: str = "POST") -> Answer:
                connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=60)
                with closing(connection):
                    connection.request(method, path, headers={"Authorization": f"Bearer {token[0]}"})
                    found = connection.getresponse()
                    return Answer(found.status, found.read(), {})

            assert exchanged("/v1/hospital/budget", "GET").status == 401  # opens nothing but the exchange
            assert exchanged("/v1/databases", "GET").status == 401
            first, second = exchanged("/v1/hospital/tokens"), exchanged("/v1/hospital/tokens")
            assert (first.status, second.status) == (201, 401)
            assert first.json["role"] == "owner"
            found = People.beside(policy).by_token(first.json["token"])
            assert found is not None
            assert found.role == "owner"
        finally:
            process.terminate()


def test_one_time_tokens_are_exchanged_by_one_of_many_who_try(quick: Server) -> None:
    once = People.beside(quick.policy).add("otto", "owner", once=True)
    found: list[int] = []
    where = [address() for _ in range(8)]
    tries = [
        threading.Thread(
            target=lambda place=each: found.append(
                call(quick, "POST", "/v1/hospital/tokens", once, source=place).status
            )
        )
        for each in where
    ]
    for each in tries:
        each.start()
    for each in tries:
        each.join()
    assert sorted(found) == [201] + 7 * [401]


def test_a_failed_exchange_leaves_the_file_of_people_as_it_was(quick: Server) -> None:
    before = People.beside(quick.policy).path.stat()
    for token in ("", "sfu_00_00", quick.tokens["ana"]):
        assert call(quick, "POST", "/v1/hospital/tokens", token, source=address()).status == 401
    after = People.beside(quick.policy).path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_wrong_name_and_a_wrong_password_cannot_be_told_apart(quick: Server) -> None:
    people = People.beside(quick.policy)
    people.add("pat", "analyst")
    people.set_password("pat", "correct horse")
    people.add("una", "analyst")  # without a password
    assert "correct horse" not in people.path.read_text()

    def log_in(name: str, password: str, where: str) -> Answer:
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}"}
        return call(quick, "POST", "/v1/hospital/tokens", "", {"days": 1}, headers, where)

    told = {
        (found.status, found.content, tuple(sorted(found.headers)))
        for found in (
            log_in(name, password, address())
            for name, password in (
                ("pat", "wrong horse"),
                ("nobody", "correct horse"),
                ("una", ""),
                ("una", "0" * 64),
                ("", "x"),
            )
        )
    }
    assert len(told) == 1
    right = log_in("pat", "correct horse", address())
    assert right.status == 201
    assert call(quick, "GET", "/v1/hospital/budget", right.json["token"]).status == 200
    basic = {"Authorization": "Basic " + base64.b64encode(b"pat:correct horse").decode()}
    assert call(quick, "GET", "/v1/hospital/budget", "", None, basic, address()).status == 401


def test_logging_in_while_being_shut_out_does_not_open_the_door_again(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    people.add("eve", "analyst")
    people.set_password("eve", "correct horse")
    found: list[str | None] = []
    for wait in (0.0, 0.01, 0.02, 0.04):  # the hash takes longer: she is shut out while it is computed
        again = threading.Thread(
            target=lambda: found.append(People(people.path).log_in("eve", "correct horse"))
        )
        again.start()
        time.sleep(wait)
        people.revoke("eve")
        again.join()
        person = people.get("eve")
        assert person is not None
        assert person.revoked
        assert found[-1] is None or people.by_token(found[-1]) is None
        people.add("eve", "analyst")
        people.set_password("eve", "correct horse")


def test_expired_tokens_open_nothing(quick: Server) -> None:
    token = People.beside(quick.policy).add("tom", "analyst", days=1e-9)
    assert call(quick, "GET", "/v1/hospital/budget", token, source=address()).status == 401


def test_whoever_is_shut_out_is_out_at_once_in_every_worker(quick: Server) -> None:
    token, where = quick.let_in("gone"), address()
    assert {call(quick, "GET", "/v1/hospital/budget", token).status for _ in range(12)} == {200}
    assert call(quick, "DELETE", "/v1/hospital/people/gone", quick.tokens["olga"]).status == 200
    assert {call(quick, "GET", "/v1/hospital/budget", token, source=where).status for _ in range(12)} == {401}


def test_names_with_any_printable_letters_can_be_let_in_looked_at_and_shut_out(quick: Server) -> None:
    owner = quick.tokens["olga"]
    for name in ("a/b", 'x" } 1\\', "..", "Zoë", "a b"):
        place = "/v1/hospital/people/" + "".join(f"%{byte:02x}" for byte in name.encode())
        assert call(quick, "POST", "/v1/hospital/people", owner, {"name": name}).status == 201
        assert call(quick, "POST", f"{place}/look", owner).status == 200
        assert call(quick, "DELETE", place, owner).status == 200
    assert call(quick, "DELETE", "/v1/hospital/people/%2e%2e%2f..", owner).status in (404, 422)


# Answers ----------------------------------------------------------------------------------------------


def test_a_release_comes_as_json_csv_and_arrow_with_the_same_numbers(quick: Server) -> None:
    token, body = quick.tokens["ana"], {"sql": GROUPS, "epsilon": "2"}
    first = call(quick, "POST", RELEASE, token, body)
    assert first.headers["content-type"] == "application/json"
    rows = first.json["rows"]
    assert [row["region"] for row in rows] == ["north", "east", "south", "west"]
    assert first.json["charged"] == "2"
    for told in ({"Accept": "text/csv"}, {"Accept": "text/*"}):
        found = call(quick, "POST", RELEASE, token, body, told)
        assert found.headers["content-type"].startswith("text/csv")
        read = list(csv.DictReader(io.StringIO(found.content.decode())))
        assert [float(row["n"]) for row in read] == [row["n"] for row in rows]
        assert list(read[0]) == list(rows[0])
    for path in (f"{RELEASE}?format=arrow", RELEASE):
        found = call(quick, "POST", path, token, body, {"Accept": "application/vnd.apache.arrow.stream"})
        assert found.headers["content-type"] == "application/vnd.apache.arrow.stream"
        table = pa.ipc.open_stream(found.content).read_all()
        assert table.column("n").to_pylist() == [row["n"] for row in rows]
    assert call(quick, "POST", f"{RELEASE}?format=json", token, body).json["charged"] == "0"
    assert len(history(quick, token, GROUPS)) == 1


def test_what_is_wrong_with_the_form_of_an_answer_is_said_before_it_is_charged(quick: Server) -> None:
    token, sql = quick.tokens["ana"], COUNT + " WHERE age = 3"
    body = {"sql": sql, "epsilon": "1"}
    assert call(quick, "POST", RELEASE, token, body, {"Accept": "image/png"}).error == (406, "Malformed")
    assert call(quick, "POST", f"{RELEASE}?format=xml", token, body).error == (406, "Malformed")
    for level in ("2", "x", 0.1, "nan"):
        assert call(quick, "POST", RELEASE, token, {**body, "level": level}).error == (
            422,
            "InvalidParameter",
        )
    assert history(quick, token, sql) == []


def test_no_level_keeps_a_worker_busy() -> None:
    for level in ("1e999999999", "1e-999999999"):  # in a process that can be ended: it once took all night
        told = f"import sfumato as sf; sf.Release.check_level({level!r})"
        found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=10)
        assert "InvalidParameter" in found.stderr


@pytest.mark.parametrize("days", [b"NaN", b"1e999", b"-1e999", b"0", b"4000"])
def test_numbers_that_json_cannot_hold_are_refused_in_json(quick: Server, days: bytes) -> None:
    content = b'{"name": "never", "days": ' + days + b"}"
    found = call(quick, "POST", "/v1/hospital/people", quick.tokens["olga"], content)
    assert found.error == (422, "InvalidParameter")


def test_explaining_and_refusing_are_free(quick: Server) -> None:
    token = quick.tokens["ana"]
    before = spent(quick, token)
    told = call(quick, "POST", EXPLAIN, token, {"sql": COUNT + " WHERE age = 4", "epsilon": "1"}).json
    assert (told["epsilon"], told["free"]) == ("1", False)
    assert ask(quick, token, "SELECT age FROM patients").status == 422
    assert ask(quick, token, COUNT + " WHERE age = 4", "5000").error == (402, "BudgetExceeded")
    assert spent(quick, token) == before


def test_a_batch_is_one_charge_and_free_the_second_time(quick: Server) -> None:
    token = quick.tokens["ana"]
    questions = [{"sql": COUNT + f" WHERE age > {age}", "epsilon": "1"} for age in (20, 40, 60)]
    first = call(quick, "POST", BATCH, token, {"questions": questions})
    again = call(quick, "POST", BATCH, token, {"questions": questions})
    assert (first.json["charged"], again.json["charged"]) == ("3", "0")
    assert [r["rows"] for r in first.json["releases"]] == [r["rows"] for r in again.json["releases"]]
    for wrong in ([], [1], questions * 40):
        assert call(quick, "POST", BATCH, token, {"questions": wrong}).error == (400, "Malformed")


def test_an_error_is_asked_for_instead_of_a_price(quick: Server) -> None:
    token, sql = quick.tokens["ana"], COUNT + " WHERE age > 21"
    before = float(spent(quick, token))
    told = call(quick, "POST", EXPLAIN, token, {"sql": sql, "within": 5}).json
    assert told["within"].startswith("± 5: epsilon 0.")
    assert float(spent(quick, token)) == before
    headers = {"Idempotency-Key": "within five"}
    first = call(quick, "POST", RELEASE, token, {"sql": sql, "within": 5}, headers)
    (row,) = first.json["rows"]
    assert (row["n_high"] - row["n_low"]) / 2 <= 5.1
    assert first.json["charged"] == told["epsilon"]
    for body, more in (({"within": 5}, headers), ({"within": "6"}, {}), ({"within": 5, "most": "1"}, {})):
        again = call(quick, "POST", RELEASE, token, {"sql": sql, **body}, more)
        assert (again.json["charged"], again.json["rows"]) == ("0", [row])
    # of what ana has paid for, nobody else is told
    eve, relative = quick.tokens["eve"], {"sql": sql, "within": "50%"}
    assert call(quick, "POST", EXPLAIN, token, relative).status == 200
    assert call(quick, "POST", EXPLAIN, eve, relative).error == (422, "InvalidParameter")
    refused = [
        {"sql": sql, "within": 5, "epsilon": "1"},
        {"sql": sql, "within": 1e-9},
        {"sql": sql, "within": "x"},
        {"sql": sql, "within": 5, "most": "0"},
        {"sql": COUNT + " WHERE age > 22", "within": 1, "most": "0.001"},
        {"sql": sql, "epsilon": "1", "most": "1"},
    ]
    for each in refused:
        assert call(quick, "POST", RELEASE, token, each).error == (422, "InvalidParameter"), each
    batch = {"questions": [{"sql": sql, "within": 5}]}
    assert call(quick, "POST", BATCH, token, batch).error == (422, "InvalidParameter")
    assert call(quick, "POST", RELEASE, token, {"sql": sql, "within": 7}, headers).error == (409, "KeyReused")
    assert float(spent(quick, token)) == pytest.approx(before + float(told["epsilon"]))


@pytest.mark.parametrize(
    ("sql", "kind", "marked"),
    [
        ("SELECT COUNT(*) FROM patient", "UnknownName", "patient"),
        ("SELECT SUM(agee) FROM patients", "UnknownName", "agee"),
        ("SELECT COUNT(* FROM patients", "SyntaxRefused", None),
        ("SELECT read_csv('/etc/passwd')", "Unsupported", None),
        ("SELECT COUNT(*) FROM patients; DROP TABLE patients", None, None),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "SyntaxRefused", None),
        ("SELECT '\0'", None, None),
        ("", None, None),
    ],
)
def test_a_refusal_says_what_where_and_what_to_write(
    quick: Server, sql: str, kind: str | None, marked: str | None
) -> None:
    found = ask(quick, quick.tokens["ana"], sql)
    assert found.status == 422
    error = found.json["error"]
    assert kind in (None, error["type"])
    assert error["problem"]
    assert error["advice"]
    if marked is not None:
        start, end = error["span"]
        assert sql[start:end] == marked
    assert str(quick.policy.parent) not in found.content.decode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", (400, "Malformed")),
        (b"{", (400, "Malformed")),
        (b"\xff\xfe", (400, "Malformed")),
        (b"[]", (400, "Malformed")),
        (b"[" * 100_000, (400, "Malformed")),
        (b'{"sql": 1}', (400, "Malformed")),
        (b'{"sql": "SELECT 1", "epsilonn": 1}', (400, "Malformed")),
        (b'{"sql": "SELECT 1", "epsilon": true}', (400, "Malformed")),
        (b'{"sql": "SELECT 1", "epsilon": 1' + b"0" * 30 + b"}", (400, "Malformed")),
        (b'{"sql": "SELECT 1", "parameters": [[[1]]]}', (400, "Malformed")),
        (b'{"sql": "SELECT 1", "parameters": [[{"day": 1}]]}', (400, "Malformed")),
        (b'{"sql": "\\ud800", "epsilon": 1}', (400, "Malformed")),
        (b'{"sql": "' + b"x" * LARGEST_REQUEST + b'"}', (413, "Malformed")),
        (b'{"sql": "SELECT COUNT(*) FROM patients", "epsilon": "-1"}', (422, "InvalidParameter")),
        (b'{"sql": "SELECT COUNT(*) FROM patients", "epsilon": NaN}', (422, "InvalidParameter")),
        (b'{"sql": "SELECT COUNT(*) FROM patients", "epsilon": "1e999999999"}', (422, "InvalidParameter")),
        (b'{"sql": "SELECT COUNT(*) FROM patients"}', (422, "InvalidParameter")),
        (b'{"sql": "SELECT COUNT(*) FROM patients", "epsilon": 1, "rho": 1}', (422, "InvalidParameter")),
        (b'{"sql": "SELECT COUNT(*) FROM patients WHERE age = $1", "epsilon": 1, "parameters": [NaN]}', None),
        (b'{"sql": "SELECT COUNT(*) FROM patients WHERE region = $1", "epsilon": 1, "parameters": ["\\udfff"]'
         b"}", None),
        (b'{"sql": "SELECT COUNT(*) FROM patients WHERE age = $1", "epsilon": 1, "parameters": ['
         + b"9" * 4000 + b"]}", None),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    quick: Server, content: bytes, expected: tuple[int, str] | None
) -> None:
    found = call(quick, "POST", EXPLAIN, quick.tokens["ana"], content)
    assert found.status == 422 if expected is None else found.error == expected
    assert call(quick, "GET", "/health").json == {"ok": True}


def test_parameters_keep_their_types(quick: Server) -> None:
    token = quick.tokens["ana"]
    for value, status in ((True, 200), (1, 200), (2, 422), ("north", 422)):
        body = {"sql": COUNT + " WHERE diabetic = $1", "epsilon": "1", "parameters": [value]}
        assert call(quick, "POST", EXPLAIN, token, body).status == status
    lists: list[tuple[list[Any], int]] = [(["north", "west"], 200), ([], 200), ([1, "a"], 422), ([None], 422)]
    for listed, status in lists:
        asked = {"sql": COUNT + " WHERE region = ANY ($1)", "epsilon": "1", "parameters": [listed]}
        assert call(quick, "POST", EXPLAIN, token, asked).status == status


def test_paths_and_methods_that_are_nothing_are_said_to_be_so(quick: Server) -> None:
    token = quick.tokens["ana"]
    for method, path in (
        ("GET", "/v1"), ("GET", "/v1/hospital"), ("GET", RELEASE), ("DELETE", RELEASE), ("PATCH", "/health"),
        ("GET", "/v1/hospital/../../etc/passwd"), ("GET", "/v1/%2e%2e%2fhospital/policy"), ("GET", "//etc"),
    ):  # fmt: skip
        found = call(quick, method, path, token, source=address())
        assert found.error[0] in (401, 404, 405), path
    for host in ("[", "a b", "\x01"):
        assert call(quick, "GET", "/nothing", token, headers={"Host": host}).status in (400, 404)


def test_a_slash_too_many_leads_nowhere(quick: Server) -> None:
    for method, path, body, *_ in ACTS:
        place = path.format(database="hospital", name="nobody") + "/"
        for token in ("", quick.tokens["ada"]):
            found = call(quick, method.upper(), place, token, body, {"Host": "elsewhere"}, address())
            is_name = (
                "/people/" in place
            )  # a name may hold slashes: DELETE is for the owner, the rest for nobody
            assert found.status in ((401, 403, 405) if is_name else (404,)), place
            assert "location" not in found.headers
            assert b"elsewhere" not in found.content


# Idempotency ------------------------------------------------------------------------------------------


def test_a_retry_returns_what_was_stored_even_if_the_data_changed(quick: Server) -> None:
    token, sql = quick.tokens["ana"], COUNT + " WHERE age > 11"
    first = ask(quick, token, sql, key="one")
    before = spent(quick, token)
    sf.open(quick.policy).data_changed()
    again = [ask(quick, token, sql, key="one") for _ in range(6)]
    assert first.json["charged"] == "1"
    assert {each.json["charged"] for each in again} == {"0"}
    assert all(each.json["rows"] == first.json["rows"] for each in again)
    assert (spent(quick, token), len(history(quick, token, sql))) == (before, 1)
    fresh = ask(quick, token, sql)  # without the key it is a question about the new data
    assert fresh.json["charged"] == "1"
    assert ask(quick, token, sql, key="one").json["rows"] == first.json["rows"]


def test_a_key_stands_for_one_question_of_one_person(quick: Server) -> None:
    token, sql = quick.tokens["ana"], COUNT + " WHERE age > 12"
    assert ask(quick, token, sql, key="two").status == 200
    before = spent(quick, token)
    assert ask(quick, token, COUNT + " WHERE age > 13", key="two").error == (409, "KeyReused")
    assert ask(quick, token, sql, "2", key="two").error == (409, "KeyReused")
    body = {"questions": [{"sql": sql, "epsilon": "1"}]}
    batch = call(quick, "POST", BATCH, token, body, {"Idempotency-Key": "two"})
    assert batch.error == (409, "KeyReused")
    assert spent(quick, token) == before
    assert ask(quick, quick.tokens["eve"], COUNT + " WHERE age > 13", key="two").status == 200
    for key in ("x" * 201, "a\tb"):
        assert ask(quick, token, sql, key=key).error == (422, "InvalidParameter")


def test_one_key_at_the_same_time_in_two_workers_is_one_charge_and_one_answer(quick: Server) -> None:
    token, sql = quick.tokens["ana"], COUNT + " WHERE age > 14"
    found: list[Answer] = []

    def insist() -> None:
        found.append(ask(quick, token, sql, key="race"))

    threads = [threading.Thread(target=insist) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.status for each in found} == {200}
    assert len({json.dumps(each.json["rows"]) for each in found}) == 1
    assert len(history(quick, token, sql)) == 1


def test_keys_of_questions_that_are_refused_do_not_fill_the_ledger(quick: Server) -> None:
    token = quick.tokens["eve"]
    before = call(quick, "GET", "/v1/hospital/budget", token).json["head"].split("-")[0]
    for n in range(5):
        assert ask(quick, token, COUNT + " WHERE age > 15", "5000", key=f"poor {n}").status == 402
    assert call(quick, "GET", "/v1/hospital/budget", token).json["head"].split("-")[0] == before


def test_what_was_charged_when_a_worker_was_killed_is_redeemed_and_not_charged_again(slow: Server) -> None:
    token, owner = slow.let_in("kim"), slow.tokens["olga"]
    first, second = COUNT + " WHERE age > 21", COUNT + " WHERE age > 22"
    with closing(sent(slow, token, first, "first")), closing(sent(slow, token, second, "second")):
        until(lambda: len(history(slow, token)) == 2)
        killed = slow.workers()
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
    until(lambda: not set(slow.workers()) & set(killed))
    assert [line["released"] for line in history(slow, token)] == [False, False]
    again = ask(slow, token, first, key="first")
    assert (again.status, again.json["charged"]) == (200, "0")
    sf.open(slow.policy).data_changed()
    assert ask(slow, token, first, key="first").json["rows"] == again.json["rows"]
    assert ask(slow, token, second, key="second").error == (409, "KeyReused")  # it can never be redeemed
    assert len(history(slow, owner)) == 2
    assert said(slow).count("worker died") == len(killed)  # whoever took over lives


# Running, waiting, stopping ---------------------------------------------------------------------------


def test_whoever_goes_away_leaves_the_charge_the_release_and_no_lock(slow: Server) -> None:
    token = slow.let_in("dan")
    questions = [COUNT + f" WHERE age > {age}" for age in (31, 32)]
    began = time.monotonic()
    with closing(sent(slow, token, questions[0])), closing(sent(slow, token, questions[1])):
        until(lambda: len(history(slow, token)) == 2)
        third = ask(slow, token, COUNT + " WHERE age > 33")
        if time.monotonic() - began < DUE:  # the two are running: on a machine that stood still they may not
            assert third.error == (429, "TooMany")
            assert int(third.headers["retry-after"]) >= 1
    again = ask(slow, token, questions[0])  # waits for what runs, and does not show when it is ready
    assert (again.status, again.json["charged"]) == (200, "0")
    assert time.monotonic() - began >= DUE
    until(lambda: all(line["released"] for line in history(slow, token)))
    for sql in questions:
        assert ask(slow, token, sql).json["charged"] == "0"
        assert len(history(slow, token, sql)) == 1


def test_a_server_that_is_stopped_finishes_what_is_running(slow: Server) -> None:
    token, sql = slow.let_in("sam"), "SELECT region, COUNT(*) AS n FROM patients GROUP BY region"
    found: list[Answer] = []
    asking = threading.Thread(target=lambda: found.append(ask(slow, token, sql)))
    began = time.monotonic()
    asking.start()
    until(lambda: len(history(slow, token)) == 1)
    assert slow.stop() == 0
    asking.join()
    assert time.monotonic() - began >= DUE
    assert found[0].status == 200
    assert (found[0].json["charged"], len(found[0].json["rows"])) == ("1", REGIONS + 4)
    assert sf.open(slow.policy).ledger.history()[-1].redeemed


def test_asking_too_often_is_refused_and_costs_others_nothing(strict: Server) -> None:
    ana, bob = strict.let_in("ana"), strict.let_in("bob")
    found = [call(strict, "GET", "/v1/hospital/budget", ana) for _ in range(40)]
    refused = [each for each in found if each.status == 429]
    assert found[0].status == 200
    assert refused
    assert all(each.error == (429, "TooMany") and int(each.headers["retry-after"]) >= 1 for each in refused)
    assert call(strict, "GET", "/v1/hospital/budget", bob).status == 200


def test_wrong_tokens_from_an_address_are_refused_after_a_while(strict: Server) -> None:
    where, elsewhere = address(), address()
    found = [call(strict, "GET", "/v1/hospital/budget", "wrong", source=where) for _ in range(25)]
    assert [each.status for each in found] == 20 * [401] + 5 * [429]
    assert 1 <= int(found[-1].headers["retry-after"]) <= 60
    assert call(strict, "GET", "/v1/hospital/budget", "wrong", source=elsewhere).status == 401
    assert call(strict, "GET", "/v1/databases", strict.tokens["olga"], source=where).status == 200


def test_late_answers_stop_an_analyst_until_the_owner_looks(strict: Server) -> None:
    token, owner = strict.let_in("lea"), strict.tokens["olga"]
    assert ask(strict, token, COUNT).status == 200
    assert ask(strict, token, COUNT + " WHERE age > 1").error == (403, "Stopped")
    assert ask(strict, token, COUNT).json["charged"] == "0"  # what is stored is still hers
    people = call(strict, "GET", "/v1/hospital/people", owner).json["people"]
    assert next(each["late"] for each in people if each["name"] == "lea") >= 1
    look = [sys.executable, "-m", "sfumato.cli.main", "user", "review", str(strict.policy), "lea"]
    environment = {**os.environ, "XDG_STATE_HOME": str(strict.policy.parent / "state")}
    looked = subprocess.run(look, capture_output=True, text=True, env=environment)
    assert "suspension of" in looked.stdout
    time.sleep(0.5)  # so that the rate of this server does not refuse it
    assert ask(strict, token, COUNT + " WHERE age > 1").status == 200


def test_health_says_whether_the_ledger_can_be_read(strict: Server) -> None:
    ledger = strict.policy.with_suffix(".ledger")
    assert call(strict, "GET", "/health").json == {"ok": True}
    away = ledger.with_name("away")
    ledger.rename(away)
    try:
        found = call(strict, "GET", "/health")
        assert (found.status, found.json) == (503, {"ok": False, "reason": NO_LEDGER})
        token = strict.let_in("una")
        for path, given in (("/v1/hospital/budget", token), ("/metrics", strict.tokens["olga"])):
            refused = call(strict, "GET", path, given)
            assert refused.error == (503, "LedgerError")
            assert str(strict.policy.parent) not in refused.content.decode()
    finally:
        away.rename(ledger)
    assert call(strict, "GET", "/health").json == {"ok": True}


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Nothing can be written where the server's files are: a disk of its own, if there is one, is filled."""
    filler = server.policy.parent / "filler"
    if not os.path.ismount(filler.parent):
        with short_files(server):
            yield
        return
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        yield
    finally:
        filler.unlink()


@contextmanager
def short_files(server: Server) -> Iterator[None]:
    """The system refuses to make a file of the server longer than those of its ledger are."""
    log = server.policy.with_suffix(".ledger-wal")
    longest = min(log.stat().st_size, ROOM // 2)
    before = {each: resource.prlimit(each, resource.RLIMIT_FSIZE) for each in server.workers()}
    try:
        for worker, (_, most) in before.items():
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (longest, most))
        yield
    finally:
        for worker, limits in before.items():
            resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("how", WAYS)
def test_health_says_whether_the_ledger_can_be_written(how: str, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path) if how == "disk" else nullcontext(),
        serving(tmp_path, "--no-deadlines") as server,
    ):
        token = server.let_in("ana")
        first = ask(server, token, COUNT)
        assert call(server, "GET", "/health").json == {"ok": True}
        with full_disk(server):
            until(lambda: call(server, "GET", "/health").status == 503)
            assert call(server, "GET", "/health").json == {"ok": False, "reason": NO_LEDGER}
            refused = ask(server, token, GROUPS)
            assert refused.error == (503, "LedgerError")
            assert ask(server, token, COUNT).json["rows"] == first.json["rows"]
            assert len(history(server, token)) == 1
        until(lambda: call(server, "GET", "/health").status == 200)
        assert call(server, "GET", "/health").json == {"ok": True}
        assert ask(server, token, GROUPS).status == 200
        assert len(history(server, token)) == 2
        assert said(server).count("ledger can be written again") == 1


def test_health_writes_nothing(quick: Server) -> None:
    def written() -> list[Any]:
        files = [quick.policy.with_suffix(f".{end}") for end in ("ledger", "ledger-wal", "ledger.head")]
        names = sorted(each.name for each in quick.policy.parent.iterdir())
        return [names, *(each.stat().st_mtime_ns for each in files), *(each.stat().st_size for each in files)]

    before = written()
    for _ in range(20):
        assert call(quick, "GET", "/health").status == 200
    assert written() == before


# The policy -------------------------------------------------------------------------------------------


def test_a_policy_that_changes_on_disk_holds_from_the_next_question_on(quick: Server) -> None:
    token, text = quick.tokens["ana"], quick.policy.read_text()
    batch = {"questions": [{"sql": "SELECT SUM(age) AS s FROM patients", "epsilon": "1"}]}
    try:
        for _ in range(3):  # in both workers
            call(quick, "POST", EXPLAIN, token, batch["questions"][0])
        quick.policy.write_text(text.replace("age = { type", "# age = { type").replace("age =", "age =", 1))
        assert {call(quick, "POST", BATCH, token, batch).error for _ in range(4)} == {(422, "UnknownName")}
        quick.policy.write_text(text + "\n[nonsense")
        for path in ("/v1/hospital/schema", "/v1/hospital/budget"):
            found = call(quick, "GET", path, token)
            assert found.error == (503, "ServerError")
            assert "nonsense" not in found.content.decode()
        assert ask(quick, token, COUNT).error == (503, "ServerError")
    finally:
        quick.policy.write_text(text)
    assert call(quick, "GET", "/v1/hospital/schema", token).status == 200


def test_a_batch_right_after_the_data_moved_is_about_the_new_data(tmp_path: Path) -> None:
    policy = hospital(tmp_path)
    with serving(tmp_path, "--no-deadlines", "--no-postgres", policy=policy) as server:
        token = server.let_in("ana")
        body = {"questions": [{"sql": COUNT, "epsilon": "5"}]}
        assert call(server, "POST", BATCH, token, body).status == 200
        (tmp_path / "moved.duckdb").write_bytes((tmp_path / "hospital.duckdb").read_bytes())
        with duckdb.connect(str(tmp_path / "moved.duckdb")) as connection:
            connection.execute(
                "INSERT INTO patients SELECT i, 1, 'north', true FROM range(10000, 30000) t(i)"
            )
        policy.write_text(policy.read_text().replace("hospital.duckdb", "moved.duckdb"))
        (found,) = call(server, "POST", BATCH, token, body).json["releases"]
        assert found["rows"][0]["n"] > PEOPLE + 10_000


def test_the_owner_can_replace_the_policy_but_not_where_things_are(quick: Server) -> None:
    owner, text = quick.tokens["olga"], quick.policy.read_text()

    def put(new: str | bytes) -> Answer:
        content = new if isinstance(new, bytes) else new.encode()
        return call(quick, "PUT", "/v1/hospital/policy", owner, content)

    try:
        wrong = {
            "source": text.replace("hospital.duckdb", "neighbour.duckdb"),
            "name": 'name = "other"\n' + text,
            "ledger": text.replace("[budget]", '[budget]\nledger = "elsewhere.ledger"'),
            "prepared": text.replace("[source]", '[source]\nprepared = "copy.duckdb"'),
        }
        for name, told in wrong.items():
            found = put(told)
            assert found.error == (422, "InvalidParameter")
            assert name in found.json["error"]["message"]
        other = text.replace('epsilon = "1000"', 'rho = "1"')  # which the ledger refuses, not the policy
        nowhere = text.replace("tables.visits", "tables.nowhere")
        for bad in (b"[[", b"\xff\x00", nowhere.encode(), b"", other.encode()):
            assert put(bad).status == 422, bad
        assert quick.policy.read_text() == text
        assert call(quick, "GET", "/v1/hospital/policy", owner).content.decode() == text
        better = text.replace("high = 110", "high = 120")
        assert put(better).json == {"ok": True, "name": "hospital"}
        assert quick.policy.read_text() == better
        found = call(quick, "GET", "/v1/hospital/schema", quick.tokens["ana"])
        assert '"high": "120"' in found.content.decode()
    finally:
        quick.policy.write_text(text)


def test_check_says_whether_it_could_serve(tmp_path: Path) -> None:
    policy = hospital(tmp_path)
    found = CliRunner().invoke(command, [str(policy), "--check"])
    assert found.exit_code == 0
    assert "can be served" in found.output
    assert "patients: a count is sent after" in found.output
    told = json.loads(CliRunner().invoke(command, [str(policy), "--check", "--json"]).stdout)["policies"]
    assert [(each["name"], each["rows"]) for each in told[0]["tables"]] == [
        ("patients", 2000),
        ("visits", 6000),
    ]
    assert not policy.with_suffix(".people").exists()
    assert sf.open(policy).ledger.history() == ()
    public = CliRunner().invoke(command, [str(policy), "--check", "--host", "0.0.0.0"])
    assert public.exit_code != 0
    assert "without TLS" in public.output
    policy.write_text(policy.read_text().replace("tables.visits", "tables.nowhere"))
    wrong = CliRunner().invoke(command, [str(policy), "--check"])
    assert wrong.exit_code != 0
    assert "has no table 'nowhere'" in wrong.output


def test_users_and_doors_speak_json(tmp_path: Path) -> None:
    policy, runner = str(hospital(tmp_path)), CliRunner()

    def said(*words: str, given: str = "") -> Any:
        found = runner.invoke(user, [words[0], policy, *words[1:], "--json"], input=given)
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    assert said("add", "ana")["token"].startswith("sfu_")
    assert said("password", "ana", given=2 * "a long enough secret\n") == {"name": "ana", "password": True}
    assert said("review", "ana") == {"name": "ana", "late_or_failed": []}
    assert said("revoke", "ana") == {"name": "ana", "revoked": "all"}
    assert [each["revoked"] for each in said("list")["people"]] == [True]
    words = [sys.executable, "-m", "sfumato.cli.main", "serve", policy, "--json", "--http-port", "0"]
    with subprocess.Popen([*words, "--no-postgres"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = "".join(iter(process.stdout.readline, "}\n"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    doors = json.loads(told + "}")
    assert doors["http"].startswith("http://127.0.0.1:")
    assert "postgres" not in doors
    assert list(doors["first_tokens"]) == [policy]


# What must not be seen --------------------------------------------------------------------------------

NUMBER = re.compile(r"\d+-[0-9a-f]{6,}|-?\d+(\.\d+)?(e[+-]?\d+)?")  # also the head of a ledger


def form(found: Any, database: str) -> Any:
    """Everything but numbers, the name of the database, and what depends on other questions."""
    varying = ("head", "gains", "text", "at", "from", "question")
    if isinstance(found, dict):
        return {key: form(value, database) for key, value in found.items() if key not in varying}
    if isinstance(found, list):
        return [form(each, database) for each in found if not str(each).startswith("On its own")]
    if isinstance(found, str):
        return NUMBER.sub("#", found.replace(database, "DATABASE"))
    return type(found).__name__ if not isinstance(found, bool) else found


def test_neighbours_cannot_be_told_apart_by_anything_but_noise(quick: Server) -> None:
    fresh = COUNT + " WHERE age > 51"
    requests: list[tuple[str, str, Any, str]] = [
        ("POST", "release", {"sql": fresh, "epsilon": "1"}, "ana"),
        ("POST", "release", {"sql": fresh, "epsilon": "1"}, "ana"),
        ("POST", "release", {"sql": COUNT + " WHERE patient_id = 7", "epsilon": "1"}, "ana"),
        ("POST", "release", {"sql": GROUPS + ", diabetic", "epsilon": "1"}, "ana"),
        (
            "POST",
            "release",
            {"sql": "SELECT 1 / COUNT(*) FROM patients WHERE age = 99", "epsilon": "1"},
            "ana",
        ),
        ("POST", "release", {"sql": "SELECT SUM(cost), MEDIAN(cost) FROM visits", "epsilon": "1"}, "ana"),
        ("POST", "batch", {"questions": [{"sql": fresh, "epsilon": "2"}]}, "ana"),
        ("POST", "explain", {"sql": fresh, "epsilon": "1"}, "ana"),
        ("GET", "schema", None, "ana"),
        ("GET", "access?last=4", None, "olga"),
    ]
    tokens = {
        "hospital": {"ana": quick.tokens["ana"], "olga": quick.tokens["olga"]},
        "neighbour": {"ana": quick.tokens["other"], "olga": quick.tokens["olga of other"]},
    }
    for method, act, body, who in requests:
        told = []
        for database in ("hospital", "neighbour"):
            found = call(quick, method, f"/v1/{database}/{act}", tokens[database][who], body)
            facts = form(found.json, database)
            told.append((found.status, sorted(found.headers), facts))
        assert told[0] == told[1], (act, body)


def test_answers_are_in_no_log_and_in_no_metric(quick: Server) -> None:
    token, owner = quick.tokens["ana"], quick.tokens["olga"]
    sql = "SELECT SUM(cost) AS total FROM visits WHERE ward = 'surgery'"
    released = ask(quick, token, sql, "0.01").json["rows"][0]["total"]
    with duckdb.connect(str(quick.policy.with_suffix(".duckdb")), read_only=True) as connection:
        row = connection.execute(sql).fetchone()
    assert row is not None
    metrics = call(quick, "GET", "/metrics", owner).content.decode()
    places = {
        "access log": quick.policy.with_suffix(".access.jsonl").read_text(),
        "access": call(quick, "GET", "/v1/hospital/access?last=10000", quick.tokens["ada"]).content.decode(),
        "metrics": metrics,
        "standard error": said(quick),
    }
    assert sql in places["access log"]
    for name, text in places.items():
        for number in (released, row[0], int(row[0])):
            assert str(number) not in text, name
    for secret in quick.tokens.values():
        assert all(secret not in text for text in places.values())
    lines = [line for line in metrics.splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r'\w+\{(\w+="([^"\\]|\\.)*",?)+\} [\d.]+', line), line


def test_the_access_log_says_who_asked_what_and_what_came_of_it(quick: Server) -> None:
    token, sql = quick.tokens["eve"], COUNT + " WHERE\n age > 61 -- \x1b[31m"
    ask(quick, token, sql)
    ask(quick, token, "SELECT SUM(nothing) FROM patients")
    lines = call(quick, "GET", "/v1/hospital/access?last=50", quick.tokens["ada"]).json["access"]
    mine = [line for line in lines if line.get("who") == "eve"][-2:]
    assert [line["outcome"] for line in mine] == ["ok", "UnknownName"]
    assert mine[0]["act"] == "release"
    assert mine[0]["charged"] == "epsilon 1"
    assert "\n" not in mine[0]["question"]
    assert "\x1b" not in quick.policy.with_suffix(".access.jsonl").read_text()
    assert all("seconds" not in line and "took" not in line for line in lines)
    assert call(quick, "GET", "/v1/hospital/access?last=x", quick.tokens["ada"]).status == 400


# Many, slow and broken --------------------------------------------------------------------------------


def test_two_hundred_connections_at_once_are_answered(quick: Server) -> None:
    ask(quick, quick.tokens["ana"], COUNT + " WHERE age > 71")
    body = json.dumps({"sql": COUNT + " WHERE age > 71", "epsilon": "1"})
    request = (
        f"POST {RELEASE} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {quick.tokens['ana']}\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    with ExitStack() as open_ones:
        where = ("127.0.0.1", quick.http)
        connections = [open_ones.enter_context(socket.create_connection(where, 600)) for _ in range(200)]
        for each in connections:
            each.sendall(request)
        answers = [open_ones.enter_context(each.makefile("rb")).read() for each in connections]
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 200"] * 200


def test_what_is_no_http_or_never_ends_harms_nobody(quick: Server) -> None:
    token = quick.tokens["ana"]
    head = f"POST {EXPLAIN} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n"
    with ExitStack() as open_ones:
        for number in range(40):
            each = open_ones.enter_context(socket.create_connection(("127.0.0.1", quick.http)))
            if number % 4 == 0:
                each.sendall(b"\x16\x03\x01\x00\x00\r\n\r\n\x00" * 10)
            elif number % 4 == 1:
                each.sendall(head.encode())  # a head that does not end
            elif number % 4 == 2:
                each.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())  # a body that does not end
            else:
                each.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n".encode())
        assert ask(quick, token, COUNT + " WHERE age > 81").status == 200
    assert call(quick, "GET", "/health").json == {"ok": True}
    assert "Traceback" not in said(quick)


def test_a_head_without_end_is_cut_off(quick: Server) -> None:
    with socket.create_connection(("127.0.0.1", quick.http), 60) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n")
            found = connection.recv(1000)
        except ConnectionError:
            found = b""
        assert not found or found.startswith(b"HTTP/1.1 4")
