"""A real server for tests: `sfumato serve` as a process of its own, on ports of its own, with people to ask.

with serving(folder) as server:
    token = server.let_in("ana")
    server.request("POST", "/v1/hospital/release", token, {"sql": ..., "epsilon": "0.1"})
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
from tests.support import children

from sfumato.server.desk.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEOPLE = 2000
POLICY = """
[source]
duckdb = "hospital.duckdb"

[budget]
epsilon = "{epsilon}"

[tables.patients]
unit = "patient_id"
rows_per_person = 1
rows = 2_000

[tables.patients.columns]
patient_id = {{ type = "integer" }}
age = {{ type = "integer", low = 0, high = 110 }}
region = {{ type = "text", keys = ["north", "east", "south", "west"] }}
diabetic = {{ type = "boolean" }}

[tables.visits]
unit = "patient_id"
rows_per_person = 4
rows = 6_000

[tables.visits.columns]
patient_id = {{ type = "integer" }}
ward = {{ type = "text", keys = ["cardiology", "surgery"] }}
day = {{ type = "date" }}
cost = {{ type = "number", low = 0, high = 1000 }}
seen = {{ type = "timestamp" }}
"""
ROWS = f"""
CREATE TABLE patients AS SELECT
  CAST(i AS BIGINT) AS patient_id, CAST(hash(i) % 100 AS INTEGER) AS age,
  ['north', 'east', 'south', 'west'][CAST(1 + hash(i, 2) % 4 AS BIGINT)] AS region,
  hash(i, 3) % 10 = 0 AS diabetic
FROM range({PEOPLE}) AS t(i);
CREATE TABLE visits AS SELECT
  CAST(i % {PEOPLE} AS BIGINT) AS patient_id,
  ['cardiology', 'surgery'][CAST(1 + hash(i) % 2 AS BIGINT)] AS ward,
  DATE '2025-01-01' + CAST(hash(i, 4) % 300 AS INTEGER) AS day, CAST(hash(i, 5) % 1000 AS DOUBLE) AS cost,
  TIMESTAMP '2025-01-01 08:00:00' AS seen
FROM range({3 * PEOPLE}) AS t(i);
"""


def hospital(folder: Path, epsilon: str = "1000") -> Path:
    """A small hospital in a folder; its policy."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute(ROWS)
    policy = folder / "hospital.toml"
    policy.write_text(POLICY.format(epsilon=epsilon), encoding="utf-8")
    return policy


@dataclass(slots=True)
class Server:
    """A server that runs."""

    policy: Path
    process: subprocess.Popen[str]
    http: int
    postgres: int
    secure: bool = False
    tokens: dict[str, str] = field(default_factory=dict)

    def let_in(self, name: str, role: str = "analyst", days: float = 1) -> str:
        """A token for somebody, as `sfumato user add` gives it."""
        self.tokens[name] = People.beside(self.policy).add(name, role, days=days)
        return self.tokens[name]

    def dsn(self, name: str, **more: str) -> str:
        """For psycopg and psql."""
        facts = {"host": "127.0.0.1", "port": str(self.postgres), "user": name, "dbname": "hospital"}
        facts |= {"password": self.tokens[name], **more}
        return " ".join(f"{key}='{value}'" for key, value in facts.items())

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.http}"

    def request(
        self,
        method: str,
        path: str,
        token: str = "",
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, what came back (parsed if it is JSON), and its headers."""
        content = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        sent = urllib.request.Request(self.url + path, data=content, method=method)
        if token:
            sent.add_header("Authorization", f"Bearer {token}")
        for name, value in (headers or {}).items():
            sent.add_header(name, value)
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                status, found, told = answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            status, found, told = error.code, error.read(), dict(error.headers)
        is_json = told.get("content-type", "").startswith("application/json")
        return status, json.loads(found) if is_json else found, told

    def release(self, token: str, sql: str, epsilon: str = "1", **headers: str) -> tuple[int, Any]:
        """Ask over HTTP."""
        body = {"sql": sql, "epsilon": epsilon}
        status, found, _ = self.request("POST", "/v1/hospital/release", token, body, headers)
        return status, found

    def workers(self) -> list[int]:
        """The processes that answer."""
        return children(self.process.pid)

    def stop(self) -> int:
        """Stop it as a system does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(
    folder: Path, *options: str, policy: Path | None = None, epsilon: str = "1000"
) -> Iterator[Server]:
    """A server on a small hospital, or on a policy that is there; stopped at the end."""
    policy = policy or hospital(folder, epsilon)
    said = folder / "said.txt"
    command = [sys.executable, "-m", "sfumato.cli.main", "serve", str(policy), "--http-port", "0"]
    command += ["--postgres-port", "0", "--rate", "10000", *options]
    with said.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=_environment(folder)
        )
    assert process.stdout is not None
    ports, told = {}, ""
    end = time.monotonic() + 60
    while "Stop with" not in told:
        line = process.stdout.readline()
        told += line
        if (not line and process.poll() is not None) or time.monotonic() > end:
            process.kill()
            raise RuntimeError(f"the server did not start:\n{told}\n{said.read_text()}")
    for name, pattern in (("http", r"HTTP\s+https?://[^:]+:(\d+)"), ("postgres", r"@[^:]+:(\d+)/")):
        found = re.search(pattern, told)
        ports[name] = int(found[1]) if found else 0
    server = Server(policy, process, ports["http"], ports["postgres"], "--certificate" in options)
    try:
        yield server
    finally:
        server.stop()
        process.stdout.close()


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
