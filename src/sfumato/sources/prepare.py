"""Writing the copy of the tables that `copy` describes.

Rows are sorted by how many their person has, then by person. A table that is too large to be sorted in memory
is written in slices: nothing of it ever stands in a plain file but the copy itself (law 1).
"""

from __future__ import annotations

import glob
import math
import os
import shutil
from typing import TYPE_CHECKING, Any

from sfumato.errors import SourceError
from sfumato.queries.policy import RESERVED
from sfumato.queries.statement import parse
from sfumato.sources.copy import MARK, ROWS, UNIT, Copy
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.printing import after_from, expression, literal, quoted
from sfumato.sources.relations import Lowering
from sfumato.sources.values import bare, integer, on_grid
from sfumato.sources.work import TYPES, ColumnValue, JoinedRows, Use, apply, cast, filtered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.queries.declared import DeclaredColumn as Column_
    from sfumato.queries.declared import DeclaredTable, Kind
    from sfumato.queries.policy import Policy
    from sfumato.sources.copy import Grid
    from sfumato.sources.work import Expression

    Run = Callable[[str], list[tuple[Any, ...]]]

MOST_SORTED = 1 << 24  # rows sorted at once: a few gigabytes


def write(policy: Policy, run: Run, into: str, mark: str) -> Iterator[tuple[str, float]]:
    """Copy all tables into a schema; before and after each step, the table and how much of it is done."""
    copy = Copy.of(policy)
    for table in policy.tables:
        for column in table.columns:
            if column.name.lower().startswith(RESERVED):
                raise SourceError(
                    f"{table.name}.{column.name} has a name that begins with {RESERVED}, which is kept for "
                    "columns of the copy. Nothing was prepared. Rename the column in the database."
                )
    for table in policy.tables:
        yield table.name, 0.0
        if table.name in copy.tables:
            for done in _write_people(policy, table, copy.tables[table.name], run, into):
                yield table.name, done
        else:
            columns = [_plain(f"t.{quoted(column.name)}", column) for column in table.columns]
            shown = "t.*" if table.public else ", ".join(columns) or "1 AS sfumato_nothing"
            run(f"CREATE TABLE {into}.{quoted(table.name)} AS SELECT {shown} FROM {quoted(table.name)} AS t")
        yield table.name, 1.0
    run(f"CREATE TABLE {into}.{MARK} AS SELECT {literal(mark)} AS mark")


def _write_people(
    policy: Policy, table: DeclaredTable, grids: dict[str, Grid], run: Run, into: str
) -> Iterator[float]:
    """First what everybody has, in memory; then the rows beside it, slice by slice."""
    counted = parse(f"SELECT COUNT(*) FROM {quoted(table.name)}", policy)
    below = Lowering(None, "hash").of(counted.relation, set())
    assert below.unit is not None
    kinds = {column.name: column.kind for column in table.columns}
    steps = {grid: _steps(name, kinds[name], grid) for name, grid in grids.items()}
    sums = {"n": "COUNT(*)"}
    for grid, step in steps.items():
        wide = cast(step, "i128")
        sums[grid.total] = _total(wide)
        if grid.centre is not None:
            sums[grid.centred] = _total(apply("-", wide, integer(grid.centre, "i128"), type="i128"))
    person = ", ".join([f"{_text(below.unit)} AS u", *(f"{text} AS {name}" for name, text in sums.items())])
    run(f"CREATE TEMP TABLE sfumato_people AS SELECT {person}{after_from(below.rows, DUCKDB)} GROUP BY 1")
    most = run(f"SELECT {', '.join(f'MAX({name})' for name in sums)} FROM sfumato_people")[0]
    types = {name: _narrowest(int(found or 0)) for name, found in zip(sums, most, strict=True)}
    columns = [_plain(f"t0.{quoted(column.name)}", column) for column in table.columns]
    if table.through is not None:
        columns.append(f"{_text(below.unit)} AS {UNIT}")
    columns += [f"{_text(step)} AS {grid.value}" for grid, step in steps.items()]
    columns += [f"CAST(p.{name} AS {types[name]}) AS {ROWS if name == 'n' else name}" for name in sums]
    person_of = ColumnValue("p", "u", below.unit.type)
    rows = JoinedRows(below.rows, Use("p", "people"), (apply("=", below.unit, person_of, type="bool"),))
    target, shown = f"{into}.{quoted(table.name)}", ", ".join(columns)
    run(f"CREATE TABLE {target} AS SELECT {shown}{after_from(rows, DUCKDB)} LIMIT 0")
    spread = run("SELECT n, SUM(n) FROM sfumato_people GROUP BY n ORDER BY n")
    whole, done = sum(int(held) for _, held in spread), 0
    for low, high, held in slices([(int(n), int(held)) for n, held in spread]):
        parts = math.ceil(held / MOST_SORTED)
        for part in range(parts):
            some = filtered(rows, *_slice(person_of, low, high, part, parts))
            run(f"INSERT INTO {target} SELECT {shown}{after_from(some, DUCKDB)} ORDER BY p.n, p.u")
            done += held // parts
            yield done / whole
    run("DROP TABLE sfumato_people")


def _slice(person: ColumnValue, low: int, high: int, part: int, parts: int) -> Iterator[Expression]:
    """Which people's rows are written together."""
    n = ColumnValue("p", "n", "i64")
    yield apply(">=", n, bare(low), type="bool")
    yield apply("<=", n, bare(high), type="bool")
    if parts > 1:
        rest = apply("modulo", apply("hash", person, type="u64"), bare(parts), type="u64")
        yield apply("=", rest, bare(part), type="bool")


def slices(spread: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Ranges of how many rows a person has, each of few enough rows in all: (from, to, rows).

    >>> list(slices([(1, 10), (2, 20), (7, 1 << 24)]))
    [(1, 2, 30), (7, 7, 16777216)]
    """
    low, high, held = 0, 0, 0
    for n, rows in spread:
        if held and held + rows > MOST_SORTED:
            yield low, high, held
            held = 0
        low, high, held = low if held else n, n, held + rows
    if held:
        yield low, high, held


def _plain(name: str, column: Column_) -> str:
    """A column in the type it is used as, under its own name."""
    as_it_is = {"text": "CAST({} AS VARCHAR)", "number": "CAST({} AS DOUBLE)"}.get(column.kind, "{}")
    return f"{as_it_is.format(name)} AS {quoted(column.name)}"


def _text(value: Expression) -> str:
    return expression(value, DUCKDB, stored=["t0"])


def _total(steps: Expression) -> str:
    return f"COALESCE(SUM({_text(apply('abs', steps, type='i128'))}), 0)"


def _steps(name: str, kind: Kind, grid: Grid) -> Expression:
    step = on_grid(ColumnValue("t0", name, TYPES[kind]), kind, grid.clamp)
    return apply("coalesce", step, bare(grid.clamp.least), type=step.type) if grid.required else step


def _narrowest(most: int) -> str:
    """A type that holds it; a narrower one is divided by faster."""
    return "INTEGER" if most < 1 << 31 else "BIGINT" if most < 1 << 63 else "HUGEINT"


def sweep(target: Path) -> None:
    """Remove what processes left that were killed while they prepared the same copy."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*"):
        number = left.name.removeprefix(f".{target.name}.").partition(".")[0]
        if number.isdecimal() and not _is_running(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
