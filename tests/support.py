"""What several kinds of tests share: a small hospital, hostile rows, and doors into the secret."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

import sfumato as sf
from sfumato.exact.coins import SystemCoins
from sfumato.exact.secret import unseal
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.duckdb import DuckDB
from sfumato.sources.lower import lower
from sfumato.sources.printing import printed, statements
from sfumato.sources.relations import Lowering
from sfumato.sources.work import EngineQuery, Group, Totals

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from types import ModuleType

    from sfumato.curator.database import Database
    from sfumato.curator.question import Question
    from sfumato.queries.plan import Plan
    from sfumato.sources.copy import Copy
    from sfumato.sources.source import Source


def texts(plan: Plan, copy: Copy | None = None) -> tuple[str, ...]:
    """What DuckDB gets for a plan."""
    return statements(lower(plan, copy), DUCKDB).texts


def engine(source: Source, *, plain: bool = False) -> duckdb.DuckDBPyConnection:
    """The engine behind a source, for tests that know it."""
    assert isinstance(source, DuckDB)
    return source._cursor(plain=plain)


def rows_made(plan: Plan) -> str:
    """A query that counts the rows of a plan, before anything is done with them."""
    lowering = Lowering(None, "hash")
    rows = lowering.of(plan.relation, plan.shown).rows
    counted = Group("n", rows, (), (("n", Totals("count")),))
    return printed(EngineQuery(counted, tuple(lowering.shared)), DUCKDB)


ROOT = Path(__file__).parents[1]
POLICIES = ROOT / "tests" / "plans" / "policies"

# Types that DuckDB stores for the columns the policies in tests/plans/policies declare.
COLUMNS = {
    "visits": (
        "pid BIGINT, age INTEGER, cost DOUBLE, temp FLOAT, paid DECIMAL(12, 2), big HUGEINT, ward VARCHAR, "
        "floor_no SMALLINT, day DATE, seen TIMESTAMP, urgent BOOLEAN, note VARCHAR"
    ),
    "wards": "ward VARCHAR",
}
CLINIC_COLUMNS = {
    "patients": "pid BIGINT, born DATE, weight DECIMAL(12, 2), sex VARCHAR COLLATE NOCASE, city VARCHAR",
    "visits": (
        "patient INTEGER, visit_id BIGINT, age INTEGER, cost DOUBLE, debt HUGEINT, ward VARCHAR, "
        "level SMALLINT, day DATE, seen TIMESTAMP, urgent BOOLEAN, note VARCHAR"
    ),
    "labs": "visit_id INTEGER, test VARCHAR, result FLOAT, taken TIMESTAMP",
    "beds": "ward VARCHAR, width DOUBLE, bought DATE",
    "wards": "ward VARCHAR, region VARCHAR, floors INTEGER",
}
Row = tuple[object, ...]
ENDLESS = "1000000"  # where questions may cost as little as they like


def make(folder: Path, rows: list[Row], policy: str = "person", budget: str = ENDLESS) -> Path:
    """A folder with hospital.duckdb holding `rows`, and the named policy beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        for table, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute("INSERT INTO wards VALUES ('A'), ('B'), ('C')")
        for start in range(0, len(rows), 5000):  # executemany is a thousand times slower
            lines = ", ".join(f"({', '.join(map(literal, row))})" for row in rows[start : start + 5000])
            connection.execute(f"INSERT INTO visits VALUES {lines}")
    target = folder / "hospital.toml"
    text = (POLICIES / f"{policy}.toml").read_text(encoding="utf-8")
    told = f'epsilon = "{budget}"' + ('\nleast = "1e-12"' if budget == ENDLESS else "")
    target.write_text(text.replace('epsilon = "3"', told), encoding="utf-8")
    return target


def literal(value: object) -> str:
    """A value as a quoted text that the engine casts to the type of its column."""
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def opened(folder: Path, rows: list[Row], policy: str = "person", budget: str = ENDLESS) -> Database:
    """The same, opened."""
    return sf.open(make(folder, rows, policy, budget), coins=SystemCoins())


def answer(question: Question) -> tuple[tuple[int, ...], ...]:
    """The exact answer, which no user can reach."""
    return tuple(map(tuple, unseal(question.database.source.run(question.compiled)).vectors))


def example(name: str) -> ModuleType:
    """One of the examples, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def children(process: int) -> list[int]:
    """The processes that a process started, those too that ended and were not waited for yet.

    From /proc: a bare machine has neither `ps` nor `pgrep`.
    """
    everybody = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())
    return sorted(each for each in everybody if (state := _state(each)) and state[1] == process)


def is_running(process: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    state = _state(process)
    return state is not None and state[0] not in "ZX"


def _state(process: int) -> tuple[str, int] | None:
    """The letter of a process's state and its parent; None if it is gone, maybe since just now."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    letter, parent = text.rsplit(")", 1)[1].split()[:2]  # a name may hold spaces and brackets
    return letter, int(parent)


_LIBC = ctypes.CDLL(None, use_errno=True)


def can_mount() -> bool:
    """Whether this process may give a folder a disk of its own; tried, since being root is not enough."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)):
                return True
        except PermissionError:
            return False


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of a few megabytes, in memory, in the place of a folder."""
    place = os.fsencode(folder)
    if _LIBC.mount(b"tmpfs", place, b"tmpfs", 0, b"size=16m"):
        raise OSError(ctypes.get_errno(), "a disk cannot be mounted", str(folder))
    try:
        yield
    finally:
        detached = 2  # also if something is still open
        _LIBC.umount2(place, detached)


INF, NAN = float("inf"), float("nan")
WILD: dict[str, list[object]] = {
    "age": [None, 0, 17, 42, 120, 121, -5, 2**31 - 1, -(2**31)],
    "cost": [None, 0.0, 12.5, 4999.99, 5000.0, 5000.01, -1.0, 1e308, -1e308, INF, -INF, NAN, 5e-324],
    "temp": [None, 36.6, -INF, INF, NAN, 1e38],
    "paid": [None, "0.00", "12.34", "-9999999999.99", "9999999999.99"],
    "big": [None, 0, 7, 2**100, -(2**100), 2**126],
    "ward": [None, "A", "B", "C", "D", "", "a", "O'Brien", "é"],
    "floor_no": [None, 1, 2, 3, 99, -1],
    "day": [None, "2024-01-01", "2024-06-15", "1970-01-01", "9999-12-31", "infinity", "-infinity"],
    "seen": [None, "2024-01-01 00:00:00", "2024-06-15 12:34:56.789", "infinity"],
    "urgent": [None, True, False],
    "note": [None, "x", "CANARY-7731"],
}


def wild_rows(person: object, count: int, rng: random.Random) -> list[Row]:
    """Rows of one person that keep no promise of the policy."""
    return [(person, *(rng.choice(values) for values in WILD.values())) for _ in range(count)]


def wild_table(rng: random.Random, people: int = 12) -> dict[object, list[Row]]:
    """Rows by person; some have none, one has hundreds, some rows belong to nobody."""
    sizes = [0, 1, 2, 3, 5, 8, 12, 40, 400]
    table: dict[object, list[Row]] = {
        person: wild_rows(person, rng.choice(sizes), rng) for person in range(1, people + 1)
    }
    table[None] = wild_rows(None, 5, rng)
    return table
