"""Columns as an engine describes them, and whether a policy fits them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import SourceError, nearest
from sfumato.queries.declared import heading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.queries.declared import DeclaredTable, Kind
    from sfumato.queries.policy import Policy

_INTEGERS = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT"
)  # UHUGEINT has no wider type to compare in


@dataclass(frozen=True, slots=True)
class Found:
    """A column as the engine describes it; kind is None for types we cannot use."""

    name: str
    engine_type: str
    kind: Kind | None


def scale_of(column: Found) -> int | None:
    """How many decimals a column has; None if it is a double, or no number."""
    decimal = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", column.engine_type)
    return int(decimal[1]) if decimal else 0 if column.kind == "integer" else None


def kind_of(engine_type: str) -> Kind | None:
    """What a type of the engine is to us; None if we cannot use it."""
    if _INTEGERS.fullmatch(engine_type):
        return "integer"
    if engine_type in ("FLOAT", "DOUBLE") or re.fullmatch(r"DECIMAL\(\d+, *\d+\)", engine_type):
        return "number"
    is_enum = engine_type.startswith("ENUM(") and engine_type.endswith(")")  # a list of them ends in ]
    if engine_type in ("VARCHAR", "UUID") or is_enum:
        return "text"
    plain: dict[str, Kind] = {"BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp"}
    return plain.get(engine_type)


def check(policy: Policy, schema: Mapping[str, tuple[Found, ...]], path: Path) -> None:
    """Every declared table and column exists with the declared type, or a SourceError says which not."""
    for table in policy.tables:
        if table.name not in schema:
            close = nearest(table.name, schema)
            hint = f"Did you mean {close[0]}?" if close else f"It has: {', '.join(schema) or 'no tables'}."
            raise SourceError(
                f"{path} has no table {table.name!r} (views do not count: their rows may depend on several "
                f"people). {hint} Correct {heading(table.name)} in {policy.file}."
            )
        _check_columns(table, schema[table.name], policy.file)


def _check_columns(table: DeclaredTable, found: tuple[Found, ...], file: str) -> None:
    actual = {column.name: column for column in found}
    for column in table.columns:
        where = f"{heading(table.name, 'columns')} {column.name} in {file}"
        if column.name not in actual:
            close = nearest(column.name, actual)
            hint = f"Did you mean {close[0]}?" if close else f"It has: {', '.join(actual)}."
            raise SourceError(f"table {table.name!r} has no column {column.name!r}. {hint} Correct {where}.")
        real = actual[column.name]
        fits = real.kind == column.kind or (real.kind == "integer" and column.kind == "number")
        if not fits:
            advice = f'declare type = "{real.kind}"' if real.kind else "leave the column out"
            raise SourceError(
                f"{table.name}.{column.name} is {real.engine_type} in the database, which is not "
                f"{column.kind}. To continue, {advice}: {where}."
            )
