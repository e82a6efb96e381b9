"""The types that PostgreSQL gives expressions, as far as they decide what is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.queries.columns import domain_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable

TypeName = Literal[
    "int4", "int8", "numeric", "float8", "text", "boolean", "date", "timestamp", "timestamptz", ""
]


@dataclass(frozen=True, slots=True)
class PgType:
    """The type that PostgreSQL gives an expression; no name where it is not known, as of NULL or 'a'."""

    name: TypeName = ""
    scale: int | None = None  # how many decimals a numeric has, as far as that is known
    rounded: Literal["", "divided", "computed"] = ""  # a quotient of numerics, or something made of one

    @property
    def is_whole(self) -> bool:
        """Whether `/` divides it as an integer."""
        return self.name in ("int4", "int8")

    @property
    def decimals(self) -> int | None:
        """How many decimals it has, where PostgreSQL computes exactly."""
        return 0 if self.is_whole else self.scale if self.name == "numeric" else None


UNKNOWN = PgType()
INT4, INT8, FLOAT8 = PgType("int4"), PgType("int8"), PgType("float8")
WHOLE, TEXT, BOOLEAN = PgType("numeric", 0), PgType("text"), PgType("boolean")
_OF_KIND = {
    "integer": INT8,
    "number": FLOAT8,
    "text": TEXT,
    "boolean": BOOLEAN,
    "date": PgType("date"),
    "timestamp": PgType("timestamp"),
}
OF_TARGET = {
    **dict.fromkeys(("INT", "SMALLINT", "TINYINT"), INT4),
    "BIGINT": INT8,
    "DOUBLE": FLOAT8,
    "DECIMAL": PgType("numeric"),
    **dict.fromkeys(("VARCHAR", "TEXT"), TEXT),
    "BOOLEAN": BOOLEAN,
    "DATE": PgType("date"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), PgType("timestamp")),
}  # by the type that is cast to, as the parser calls it
_WIDENING: tuple[TypeName, ...] = ("int4", "int8", "numeric", "float8")


def type_of(column: DeclaredColumn) -> PgType:
    """What PostgreSQL would hold a column in."""
    if column.kind == "number" and column.scale is not None:
        return PgType("numeric", domain_of(column).scale)  # not known where we compute in doubles
    return _OF_KIND[column.kind]


def common(kinds: Iterable[PgType]) -> PgType:
    """The type of values that stand side by side."""
    known = [kind for kind in kinds if kind.name]
    if not known:
        return UNKNOWN
    if any(kind.name not in _WIDENING for kind in known):
        moments: tuple[TypeName, ...] = ("timestamptz", "timestamp", "date")
        found = [kind for name in moments for kind in known if kind.name == name]
        return (found or known)[0]
    widest = max(known, key=lambda kind: _WIDENING.index(kind.name))
    if widest.name == "float8" and any(kind.rounded for kind in known):
        return PgType("float8", rounded="computed")
    if widest.name != "numeric":
        return widest
    decimals = [kind.decimals for kind in known]
    rounded = {kind.rounded for kind in known}
    scale = None if None in decimals else max(each or 0 for each in decimals)
    worst: Literal["", "divided", "computed"] = (
        "computed" if "computed" in rounded else "divided" if "divided" in rounded else ""
    )
    return PgType("numeric", None if worst else scale, worst)


def first(kinds: Sequence[PgType]) -> PgType:
    """The type of the first argument; a function may lack all of them, which the reader says."""
    return kinds[0] if kinds else UNKNOWN


def columns_of(table: DeclaredTable | None) -> dict[str, PgType]:
    """The types of the columns of a table."""
    return {} if table is None else {column.name: type_of(column) for column in table.columns}
