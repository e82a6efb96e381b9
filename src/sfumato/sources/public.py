"""What is asked of public tables before any question: which values there are, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.sources.dialect import DUCKDB
from sfumato.sources.printing import expression, quoted
from sfumato.sources.work import TYPES, ColumnValue

if TYPE_CHECKING:
    from sfumato.queries.declared import Kind
    from sfumato.queries.made import MadeKind

# Python has no date outside these years, and none that is infinite
SANE = "{0} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"


def keys(table: str, column: str, kind: Kind, most: int | None = None) -> str:
    """The different values of a column, in order; so many of them at most."""
    field = _read_as(column, kind)
    sane = f" AND {SANE.format(field)}" if kind == "date" else ""
    found = f"SELECT DISTINCT {field} FROM {quoted(table)} AS t WHERE {field} IS NOT NULL{sane}"
    return f"{found} ORDER BY 1" if most is None else f"SELECT * FROM ({found} LIMIT {most}) ORDER BY 1"


def counted(table: str, columns: tuple[tuple[str, Kind], ...]) -> str:
    """The combinations of some columns, none of them NULL, and how many rows have each."""
    named = [(_read_as(column, kind), kind) for column, kind in columns]
    known = [f"{field} IS NOT NULL" for field, _ in named]
    known += [f"ISFINITE({field})" for field, kind in named if kind == "number"]
    known += [SANE.format(field) for field, kind in named if kind == "date"]
    shown = ", ".join(field for field, _ in named)
    where = " AND ".join(known)
    return f"SELECT {shown}, COUNT(*) FROM {quoted(table)} AS t WHERE {where} GROUP BY ALL ORDER BY ALL"


def listed(table: str, columns: tuple[tuple[str, MadeKind], ...]) -> str:
    """All rows, in an order of their own."""
    shown = ", ".join(_read_as(column, kind) for column, kind in columns if kind in TYPES)
    return f"SELECT {shown} FROM {quoted(table)} AS t ORDER BY ALL"


def alike(table: str, column: str) -> str:
    """How many rows have the same value of a column, at most; of no column (""), how many there are."""
    rows = f"SELECT COUNT(*) AS n FROM {quoted(table)} AS t"
    if column:
        rows += f" WHERE t.{quoted(column)} IS NOT NULL GROUP BY t.{quoted(column)}"
    return f"SELECT COALESCE(MAX(n), 0) FROM ({rows}) AS r"


def _read_as(column: str, kind: Kind) -> str:
    """A column in the type it is used as."""
    return expression(ColumnValue("t", column, TYPES[kind]), DUCKDB, stored=["t"])
