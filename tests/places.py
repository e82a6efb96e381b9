"""The same clean rows in every place where tables may lie, beside DuckDB's own tables of them.

    place = settled("prepared parquet", world, rows, folder)

A kind is a few words: `parquet` is a folder of two files a table, written by pyarrow and read through by the
owner; `prepared` is the copy that `sfumato prepare` writes; `tuned` is a policy with the sections that
`sfumato tune` writes, whose caps nobody here reaches. Without these words it is a DuckDB file. Every place is
opened as `sfumato.open` opens it, so that keys, decimals and checks are the real ones.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz import World, quoted

from sfumato.curator.caps import ROWS, TOTALS
from sfumato.curator.database import fitting
from sfumato.curator.tuning import inserted, section
from sfumato.queries import policy as policies
from sfumato.queries.cells import PARTS
from sfumato.queries.declared import Measured, TunedColumn, Tuning
from sfumato.sources.duckdb import DuckDB, prepare, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable
    from sfumato.queries.policy import Policy

KINDS = ("duckdb", "parquet", "prepared", "tuned", "prepared parquet", "prepared tuned", "tuned parquet")
DATABASE = 'duckdb = "clean.duckdb"'  # how policies name their source before it is settled
ROOM = 2  # caps are to lie at so many times of what people have, or more
ALIKE = 10**9  # people for everyone who is there: then no price is so small that anybody is cut

Rows = dict[str, list[tuple[str | None, ...]]]


def columns_for(kind: str, columns: dict[str, str]) -> dict[str, str]:
    """Tables in types that the place has: Parquet has no integers of 128 bits."""
    if "parquet" not in kind:
        return columns
    return {table: declared.replace("HUGEINT", "BIGINT") for table, declared in columns.items()}


def fill(connection: duckdb.DuckDBPyConnection, columns: dict[str, str], rows: Rows) -> None:
    """Make the tables and their rows."""
    fill_with(connection.execute, columns, rows)


def fill_with(execute: Callable[..., object], columns: dict[str, str], rows: Rows) -> None:
    """The same in any engine."""
    for table, declared in columns.items():
        execute(f"CREATE TABLE {quoted(table)} ({declared})")
        if rows[table]:
            printed = ", ".join(f"({', '.join(map(_text, row))})" for row in rows[table])
            execute(f"INSERT INTO {quoted(table)} VALUES {printed}")


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def settled(kind: str, place: World, rows: Rows, folder: Path) -> tuple[World, DuckDB]:
    """The policy and the source of this kind; the folder is new."""
    columns = columns_for(kind, place.columns)
    with duckdb.connect(str(folder / "clean.duckdb")) as connection:
        fill(connection, columns, rows)
        if "parquet" in kind:
            _write_files(connection, columns, folder / "tables", mixed="prepared" in kind)
        text = _sourced(kind, place.text)
        if "tuned" in kind:
            text = _tuned(text, policies.parse(text, folder / "clean.toml"), connection)
    (folder / "clean.toml").write_text(text, encoding="utf-8")
    policy = policies.load(folder / "clean.toml")
    if "prepared" in kind:
        prepare(policy)
    elif "parquet" in kind:
        read(policy)
    policy, source = fitting(policy)
    assert isinstance(source, DuckDB)
    return World(text, policy, columns), source


def _sourced(kind: str, text: str) -> str:
    """What the policy says about where the tables are."""
    named = 'parquet = "tables"' if "parquet" in kind else DATABASE
    copy = '\nprepared = "copy.duckdb"' if "prepared" in kind else ""
    plain = text.replace(copy, "") if copy else text  # it may say so already
    return plain.replace(f"[source]\n{DATABASE}\n", f"[source]\n{named}{copy}\n")


# Parquet --------------------------------------------------------------------------------------------------


def _write_files(
    connection: duckdb.DuckDBPyConnection, columns: dict[str, str], folder: Path, *, mixed: bool
) -> None:
    """Two files a table, of small groups of rows; `mixed`, as only a copy takes them, in several types."""
    for table in columns:
        (folder / table).mkdir(parents=True)
        whole = connection.sql(f"SELECT * FROM {quoted(table)}").to_arrow_table()
        half = len(whole) // 2
        second = _widened(whole.slice(half)) if mixed else whole.slice(half)
        for name, part in (("first", whole.slice(0, half)), ("second", second)):
            pq.write_table(part, folder / table / f"{name}.parquet", row_group_size=7)


def _widened(table: pa.Table) -> pa.Table:
    """The same with integers in 64 bits."""
    fields = [each.with_type(pa.int64()) if pa.types.is_integer(each.type) else each for each in table.schema]
    return table.cast(pa.schema(fields))


# Tuned caps -------------------------------------------------------------------------------------------------


def _tuned(text: str, policy: Policy, connection: duckdb.DuckDBPyConnection) -> str:
    """The policy after `sfumato tune` of every table, without the noise and for free."""
    for table in policy.tables:
        if table.rows_per_person is not None:
            told = section(table.name, _tuning(connection, policy, table), [1])
            text = inserted(text, table.name, told)
    return text


def _tuning(connection: duckdb.DuckDBPyConnection, policy: Policy, table: DeclaredTable) -> Tuning:
    source, unit = f"{quoted(table.name)} AS t", f"t.{quoted(table.unit or '')}"
    if table.through is not None:
        target, key = table.through
        owner = policy.table(target)
        assert owner is not None
        assert owner.unit is not None
        source += f" JOIN {quoted(target)} AS o ON {unit} = o.{quoted(key)}"
        unit = f"o.{quoted(owner.unit)}"

    def people(amount: str, nodes: int) -> Measured:
        found = connection.execute(f"SELECT {amount} FROM {source} GROUP BY {unit}").fetchall()
        return histogram([ROOM * int(held) for (held,) in found], nodes)

    def column(each: DeclaredColumn) -> TunedColumn:
        steps = f"FLOOR(CAST(t.{quoted(each.name)} AS DOUBLE) * {2.0**each.exponent})"
        ((middle,),) = connection.execute(f"SELECT COALESCE(AVG({steps}), 0) FROM {source}").fetchall()
        centre = Fraction(math.floor(middle), 2**each.exponent)
        sums = (f"COALESCE(SUM(ABS({steps} - {c})), 0)" for c in (0, math.floor(middle)))
        totals, centred = (people(amount, TOTALS) for amount in sums)
        return TunedColumn(each.name, centre, each.exponent, totals, centred)

    columns = tuple(column(each) for each in table.columns if each.low is not None)
    return Tuning(people("COUNT(*)", ROWS), columns)


def histogram(amounts: list[int], nodes: int) -> Measured:
    """People by their amounts, each shared between two nodes, as docs/explanation/tuning.md says.

    >>> histogram([0, 1, 3], 5).people[:4] == (1024 * ALIKE, 1024 * ALIKE, 512 * ALIKE, 512 * ALIKE)
    True
    """
    found = [0] * nodes
    for amount in amounts:
        octave = amount.bit_length() - 1
        upper = PARTS * (amount - (1 << octave)) >> octave if amount else 0
        found[octave + 1] += (PARTS - upper) * ALIKE
        found[octave + 2] += upper * ALIKE
    return Measured(Fraction(1), tuple(found))
