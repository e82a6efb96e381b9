"""A chain of joins, asked about one person with a million rows or none: time must not tell which it was."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

import duckdb
from scipy.stats import mannwhitneyu
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

    When releases are stored and sent must not tell which it was, none may leave before its deadline or miss
    it, and the engines' own times must lie closer together than a tenth of the deadline. Two ledgers differ
    by a fraction of a millisecond even where the data are the same, so there are several of each sort, named
    by chance, and the middle times of one sort are compared with those of the other by their ranks. By chance
    alone it is short about once in a thousand runs.
    """
    order = random.Random(1)
    sides = 2 if smoke else 8
    names = [f"clinic{i:02}" for i in range(2 * sides)]
    heavy = set(order.sample(names, sides))
    policies = {name: clinic(folder / name, name, HEAVY if name in heavy else 0) for name in names}
    waited: dict[str, list[float]] = {name: [] for name in names}
    first, *others = policies.values()
    with serving(first.parent, *map(str, others), policy=first) as server:
        tokens = {name: People.beside(policy).add("ana", "analyst") for name, policy in policies.items()}
        for number in range(5 if smoke else 25):
            for name in order.sample(names, len(names)):
                waited[name].append(sent(server, tokens[name], name, number))
    pair = {name: policies[name] for name in (min(set(names) - heavy), min(heavy))}
    took, db = engines(pair, 5 if smoke else 21), sf.open(first)
    due = deadline(db.sql(asked(0), epsilon="1").plan, db.policy, alike=db.alike)
    for name, own in took.items():
        here = [statistics.median(waited[each]) for each in names if (each in heavy) == (name in heavy)]
        who = f"with{'' if name in heavy else 'out'} the person"
        middle = 1000 * statistics.median(here)
        print(f"chain, {who}: sent after {middle:.1f} ms, engine {1000 * own:.1f} ms, due {due} s")
    kept = {name: stored(policy) for name, policy in policies.items()}
    alike = [_alike(each, heavy) for each in (waited, kept)]
    early = sum(time < due for each in (waited, kept) for times in each.values() for time in times)
    late = sum(owner.late(sf.open(policy).ledger, "ana") for policy in policies.values())
    apart = abs(took[min(heavy)] - took[min(set(names) - heavy)]) / due
    print(
        f"p-values: sent {alike[0]:.3g}, stored {alike[1]:.3g}; late: {late}; engines apart: {apart:.3f} due"
    )
    bars: list[Bar] = [  # small runs are part of the tests: no other load may make them short
        ("chain of joins: answers before the deadline", early, "<=", 0),
        ("chain of joins: missed deadlines", late, "<=", 5 if smoke else 0),
        ("chain of joins: engines apart, of the deadline", apart, "<=", 0.5 if smoke else 0.1),
    ]
    return (
        bars if smoke else [("chain of joins: the least p-value of moments", min(alike), ">=", 5e-4), *bars]
    )


def _alike(times: dict[str, list[float]], heavy: set[str]) -> float:
    """How likely the middle times of the databases are so far apart by chance: exact, by their ranks."""
    middle = {name: statistics.median(each) for name, each in times.items()}
    sides = [[middle[name] for name in middle if (name in heavy) == is_heavy] for is_heavy in (False, True)]
    return float(mannwhitneyu(*sides, method="exact").pvalue)
