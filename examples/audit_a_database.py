"""The whole path audited by a stranger, from SQL text to release: `python examples/audit_a_database.py`.

For each question it makes two databases that differ by one person, chosen to move the answer as far as the
policy allows and to break every rule of it: too many rows, infinite values, wards nobody declared. It asks
both the same question many times and looks for an event that tells them apart better than the price allows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sfumato as sf
from sfumato.attacks.audit import Audit, audit
from sfumato.attacks.report import table
from sfumato.attacks.subjects import Fresh
from sfumato.exact.coins import SystemCoins, Tape
from sfumato.sources.duckdb import build

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = """
[source]
duckdb = "clinic.duckdb"

[budget]
epsilon = "1000000"                 # an audit asks the same thing very often
least = "0.001"

[tables.visits]
unit = "patient"
rows_per_person = 2

[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["A", "B", "C"] }
age = { type = "integer", low = 0, high = 100 }
cost = { type = "number", low = -50, high = 50 }
"""
COLUMNS = "patient BIGINT, ward VARCHAR, age INTEGER, cost DOUBLE"
BATCH = 200  # questions charged and released together

Row = tuple[int | None, str | None, int | None, str | None]
REST: tuple[Row, ...] = ((1, "A", 30, "1"), (2, "B", 40, "2"), (3, "C", 50, "nan"), (4, None, None, None))
HEAVY: tuple[Row, ...] = tuple((9, "ABCD"[i % 4], 99, "49") for i in range(40))
RICH: tuple[Row, ...] = ((9, "A", 101, "inf"), (9, "A", 2_000_000_000, "1e300"))
POOR: tuple[Row, ...] = ((9, "B", -5, "-inf"), (9, "B", -2_000_000_000, "-1e300"))
NOBODY: tuple[Row, ...] = tuple((None, "A", 100, "50") for _ in range(40))


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the price it is asked at, and the rows in which two neighbouring databases differ."""

    name: str
    sql: str
    epsilon: str
    zero: tuple[Row, ...]
    one: tuple[Row, ...]
    towards: str = "presence"  # whether a person comes, or is replaced by another
    claim: float | None = None  # where it is not the price


BY_WARD = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
CASES = [
    Case("a person comes", "SELECT COUNT(*) FROM visits", "1", (), HEAVY),
    Case("sum of infinities", "SELECT SUM(cost) FROM visits", "1", (), RICH),
    Case("one replaced by its opposite", "SELECT SUM(cost) FROM visits", "0.5", RICH, POOR, "value"),
    Case("counts by ward", BY_WARD, "1", (), HEAVY),
    Case("moved to another ward", BY_WARD, "0.5", RICH, POOR, "value"),
    Case("average", "SELECT AVG(age) FROM visits", "1", (), RICH),
    Case("rows of nobody", "SELECT COUNT(*), SUM(cost) FROM visits", "1", (), NOBODY, claim=0.0),
]  # fmt: skip


def made(folder: Path, rows: tuple[Row, ...]) -> Path:
    """A database with these rows and the policy beside it."""
    folder.mkdir(parents=True)
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in (*REST, *rows))
    build(
        folder / "clinic.duckdb",
        [f"CREATE TABLE visits ({COLUMNS})", f"INSERT INTO visits VALUES {values}"],
        [],
    )
    policy = folder / "clinic.toml"
    policy.write_text(POLICY, encoding="utf-8")
    return policy


def _literal(value: int | str | None) -> str:
    return "NULL" if value is None else f"'{value}'"


def released(case: Case, folder: Path, seed: int | None) -> Callable[[tuple[Row, ...], int], list[Any]]:
    """What the auditor runs: all numbers that so many releases on these rows show."""

    @cache
    def opened(rows: tuple[Row, ...]) -> sf.Database:
        policy = made(folder / f"{os.getpid()} {case.zero == rows}", rows)  # each process has its own
        coins = SystemCoins() if seed is None else Tape.seeded(seed + (case.zero == rows))
        return sf.open(policy, coins=coins)

    def many(rows: tuple[Row, ...], size: int) -> list[Any]:
        db = opened(rows)
        found: list[Any] = []
        while len(found) < size:
            db.data_changed()  # or the first release would be repeated for ever
            questions = [db.sql(case.sql, epsilon=case.epsilon)] * min(BATCH, size - len(found))
            found += [
                tuple(value for row in release.rows() for value in row.values() if not isinstance(value, str))
                for release in db.batch(questions).release()
            ]
        return found

    return many


def claimed(case: Case, folder: Path) -> float:
    """The epsilon that the price means for these neighbours."""
    if case.claim is not None:
        return case.claim
    question = sf.open(made(folder / "claim", ())).sql(case.sql, epsilon=case.epsilon)
    bounds = [step.bound(case.towards).epsilon for step in question.query.spend]
    return float(sum(bound for bound in bounds if bound is not None))


def audited(case: Case, *, samples: int, confidence: float, seed: int | None = None, cores: int = 1) -> Audit:
    """What an audit says of one question."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        claim = claimed(case, folder)
        return audit(
            Fresh(lambda: released(case, folder, seed), case.name),
            case.zero,
            case.one,
            claim=claim,
            samples=samples,
            confidence=confidence,
            cores=cores,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000, help="releases of each question")
    given = parser.parse_args()
    print(table([audited(case, samples=given.samples, confidence=0.9999, cores=2) for case in CASES]))
    print("\n  epsilon at least, with 99.99% confidence each. What is not refuted is not proved.")


if __name__ == "__main__":
    main()
