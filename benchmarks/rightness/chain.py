"""A chain of joins, asked about one person with a million rows or none: time must not tell which it was."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

import duckdb
from scipy.stats import ks_2samp
from tests.serving import Server, serving

import sfumato as sf
from sfumato.server.desk import owner
from sfumato.server.desk.deadlines import deadline
from sfumato.server.desk.people import People

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rightness import Bar


HEAVY = 1_000_000  # rows of one person
SIDES = 6
POLICY = """
name = "{name}"

[source]
duckdb = "d.duckdb"

[budget]
epsilon = "1000"

[tables.visits]
unit = "person"
rows_per_person = 4
rows = 10_000

[tables.visits.columns]
person = {{ type = "integer" }}
cost = {{ type = "integer", low = 0, high = 1000000 }}
"""


def clinic(folder: Path, name: str, heavy: int) -> Path:
    """Five thousand people with two visits each, and one person with so many."""
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "d.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT CAST(i % 5000 AS BIGINT) AS person, i % 1000 AS cost "
            f"FROM range(10000) AS t(i) UNION ALL SELECT 999999, i % 1000 FROM range({heavy}) AS t(i)"
        )
    policy = folder / f"{name}.toml"
    policy.write_text(POLICY.format(name=name), encoding="utf-8")
    return policy


def asked(number: int) -> str:
    """A question that was not asked before, about one person."""
    names = "abcdefghijkl"[:SIDES]
    joins = " ".join(f"JOIN visits {x} ON a.person = {x}.person" for x in names[1:])
    where = " AND ".join(f"{x}.person = 999999" for x in names)
    return f"SELECT COUNT(*) AS n FROM visits a {joins} WHERE {where} AND a.cost <> {-number}"


def sent(server: Server, token: str, name: str, number: int) -> float:
    """Seconds from a new question to its answer."""
    body = {"sql": asked(number), "epsilon": "0.01"}
    began = time.perf_counter()
    status, found, _ = server.request("POST", f"/v1/{name}/release", token, body)
    took = time.perf_counter() - began
    if status != 200:
        raise RuntimeError(f"{name}: {found}")
    return took


def stored(policy: Path) -> list[float]:
    """Seconds from each charge to its release, as the ledger says."""
    entries = sf.open(policy).ledger.entries()
    charges = [entry.at for entry in entries if entry.kind == "charge"]
    releases = [entry.at for entry in entries if entry.kind == "release"]
    return [after - before for before, after in zip(charges, releases, strict=True)]


def engines(policies: dict[str, Path], count: int) -> dict[str, float]:
    """Seconds of a processor that the question takes, in the middle of so many times, in turns.

    Of a processor, so that what else the machine does makes no difference; by the clock it is less, if more
    than one of them is free.
    """
    databases = {name: sf.open(policy) for name, policy in policies.items()}
    took: dict[str, list[float]] = {name: [] for name in policies}
    for number in range(count):
        for name, db in databases.items():
            question = db.sql(asked(10**6 + number), epsilon="0.01")
            began = time.process_time()
            db.source.run(db.source.compile(question.plan))  # sealed, and thrown away
            took[name].append(time.process_time() - began)
    return {name: statistics.median(each) for name, each in took.items()}


def measured(folder: Path, smoke: bool) -> list[Bar]:
    """Six joins of a table with itself, asked about one person who has a million rows, or none, in turns.

    When releases are stored and sent must not tell which it was, no deadline may be missed, and the engines'
    own times must lie closer together than a tenth of the deadline. By chance alone it is short twice in a
    thousand runs.
    """
    policies = {name: clinic(folder / name, name, rows) for name, rows in (("without", 0), ("with", HEAVY))}
    waited: dict[str, list[float]] = {name: [] for name in policies}
    first, other = policies.values()
    order = random.Random(1)
    with serving(first.parent, str(other), policy=first) as server:
        tokens = {name: People.beside(policy).add("ana", "analyst") for name, policy in policies.items()}
        for number in range(10 if smoke else 200):
            for name in order.sample(sorted(policies), 2):
                waited[name].append(sent(server, tokens[name], name, number))
    took, db = engines(policies, 5 if smoke else 21), sf.open(first)
    due = deadline(db.sql(asked(0), epsilon="1").plan, db.policy, alike=db.alike)
    for name in policies:
        middle, own = 1000 * statistics.median(waited[name]), 1000 * took[name]
        print(f"chain, {name} the person: sent after {middle:.1f} ms, engine {own:.1f} ms, due {due} s")
    kept = {name: stored(policy) for name, policy in policies.items()}
    alike = [float(ks_2samp(*each.values()).pvalue) for each in (waited, kept)]
    late = sum(owner.late(sf.open(policy).ledger, "ana") for policy in policies.values())
    apart = abs(took["with"] - took["without"]) / due
    print(
        f"p-values: sent {alike[0]:.3g}, stored {alike[1]:.3g}; late: {late}; engines apart: {apart:.3f} due"
    )
    return [  # small runs are part of the tests: there no chance, and no other load, may make them short
        ("chain of joins: the least p-value of moments", min(alike), ">=", 1e-9 if smoke else 1e-3),
        ("chain of joins: missed deadlines", late, "<=", 5 if smoke else 0),
        ("chain of joins: engines apart, of the deadline", apart, "<=", 0.5 if smoke else 0.1),
    ]
