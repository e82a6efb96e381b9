"""One database, three interfaces: the same question over HTTP, the PostgreSQL protocol and with the library.

    .venv/bin/python examples/ask_through_the_doors.py

It makes a small hospital in a temporary folder, starts `sfumato serve` on free ports, lets somebody in, asks,
and stops the server. Needs the extras server and postgres.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

import sfumato as sf
from sfumato.server.desk.people import People
from sfumato.sources.duckdb import build

POLICY = """
[source]
duckdb = "hospital.duckdb"

[budget]
epsilon = "1"

[tables.visits]
unit = "patient_id"
rows_per_person = 3
rows = 3_000

[tables.visits.columns]
patient_id = { type = "integer" }
ward = { type = "text", keys = ["cardiology", "surgery"] }
"""
ROWS = """
CREATE TABLE visits AS
SELECT i % 1000 AS patient_id, CASE WHEN i % 3 = 0 THEN 'surgery' ELSE 'cardiology' END AS ward
FROM range(3000) AS t(i)
"""
SQL = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        build(folder / "hospital.duckdb", [ROWS], [])
        policy = folder / "hospital.toml"
        policy.write_text(POLICY)
        token = People.beside(policy).add("ana", "analyst", days=1)
        command = [sys.executable, "-m", "sfumato.cli.main", "serve", str(policy), "--http-port", "0"]
        command += ["--postgres-port", "0"]
        with (folder / "server.log").open("w") as log:  # what it says to whoever runs it
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                ask(server, policy, token)
            finally:
                server.terminate()
                server.wait()


def ask(server: subprocess.Popen[str], policy: Path, token: str) -> None:
    """The same question over every interface."""
    assert server.stdout is not None
    told = "".join(iter(server.stdout.readline, "\n"))  # up to the first empty line
    http, postgres = re.findall(r":(\d+)", told)
    print("Over HTTP, with sf.connect:\n")
    there = sf.connect(f"http://ana@127.0.0.1:{http}/hospital", token=token)
    first = there.sql(SQL, epsilon="0.5").release()
    print(first)
    print("\nOver the PostgreSQL protocol, with psycopg:\n")
    where = f"host=127.0.0.1 port={postgres} user=ana password={token} dbname=hospital"
    with psycopg.connect(where, options="-c sfumato.epsilon=0.5") as connection:
        connection.add_notice_handler(lambda notice: print(f"  {notice.message_primary}"))
        rows = connection.execute(SQL).fetchall()
        print(f"  {rows}")
    print("\nOn the machine, with sf.open:\n")
    here = sf.open(policy).sql(SQL, epsilon="0.5").release()
    print(here.table())
    same = [(row["ward"], row["visits"]) for row in first.rows()]
    assert same == rows == [(row["ward"], row["visits"]) for row in here.rows()]
    print("\nOne answer, and one charge:\n")
    print(there.budget)


if __name__ == "__main__":
    main()
