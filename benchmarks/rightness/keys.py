"""Groups that are not shown cost what counting them costs, not what measuring them would: memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.sources.duckdb import build

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rightness import Bar

TURNS = 5
POLICY = """
[source]
duckdb = "keys.duckdb"
[budget]
epsilon = "100000"
least = "0.1"
delta = "0.1"
[tables.items]
unit = "person"
rows_per_person = 20
[tables.items.columns]
person = "integer"
order_id = "integer"
product = "integer"
price = { type = "number", low = 0, high = 100 }
"""
MAX = "SELECT order_id, MAX(price) FROM items GROUP BY order_id"
SUMS = "SELECT order_id, product, COUNT(*), SUM(price), AVG(price) FROM items GROUP BY order_id, product"
ASK = """
import json, resource, statistics, sys, time
import sfumato as sf
db = sf.open(sys.argv[1])
question = db.sql(sys.argv[2], epsilon=1, delta="1e-6")
released = len(question.release().rows())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
cursor, ours, own = db.source._cursor(), [], []
for _ in range(int(sys.argv[3])):
    db.data_changed()
    start = time.perf_counter()
    question.release()
    ours.append(time.perf_counter() - start)
    start = time.perf_counter()
    cursor.execute(sys.argv[2]).fetchall()
    own.append(time.perf_counter() - start)
print(json.dumps([peak, statistics.median(ours), statistics.median(own), released]))
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in a process of its own."""

    gigabytes: float
    ours: float
    own: float
    released: int

    @property
    def ratio(self) -> float:
        return self.ours / self.own

    def told(self, name: str) -> str:
        return (
            f"{name:12} {self.ours:8.3f} s, DuckDB {self.own:8.3f} s, {self.ratio:6.1f} times, "
            f"{self.gigabytes:.2f} GB, {self.released} groups released"
        )


def asked(folder: Path, sql: str, *, rows: int, keys: int, turns: int) -> Asked:
    """A question about rows of so many orders, three rows an order; nobody's order is another's."""
    folder.mkdir()
    order = f"(hash(i, 1) % {keys})"
    columns = (
        f"({order} % {max(keys // 3, 1)})::BIGINT AS person, {order}::BIGINT AS order_id, "
        "(hash(i, 2) % 1000)::INTEGER AS product, (hash(i, 3) % 10000) / 100.0 AS price"
    )
    build(folder / "keys.duckdb", [f"CREATE TABLE items AS SELECT {columns} FROM range({rows}) AS r(i)"], [])
    policy = folder / "keys.toml"
    policy.write_text(POLICY, encoding="utf-8")
    command = [sys.executable, "-c", ASK, str(policy), sql, str(turns)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return Asked(*json.loads(found.stdout.splitlines()[-1]))


def measured(folder: Path, smoke: bool) -> list[Bar]:
    """Processes are fresh, and runs take turns with DuckDB's own query, which is not private."""
    folder.mkdir(exist_ok=True)
    size, turns = (30_000, 1) if smoke else (1_000_000, TURNS)
    found = asked(folder / "max", MAX, rows=size, keys=size // 3, turns=turns)
    print(found.told("MAX"))
    print(asked(folder / "sums", SUMS, rows=size, keys=size, turns=turns).told("sums"))
    return [
        ("gigabytes of MAX by 333,000 private keys", found.gigabytes, "<=", 1.0),
        ("MAX by 333,000 private keys over DuckDB", found.ratio, "<=", 1000.0 if smoke else 15.0),
    ]
