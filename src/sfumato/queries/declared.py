"""What a policy declares: tables, columns, and what was found out privately about them."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

Kind = Literal["integer", "number", "text", "boolean", "date", "timestamp"]
KINDS: tuple[str, ...] = get_args(Kind)
T = TypeVar("T", "DeclaredColumn", "DeclaredTable")
Value = str | int | float | datetime.date | datetime.datetime
MOST_KEYS = 10**6
PYTHON: dict[str, type] = {"integer": int, "text": str, "boolean": bool, "date": datetime.date}


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found out, privately, about a column: see `curator.caps`."""

    centre: Fraction
    total: Fraction  # of |value| of one person, beyond which people are few
    centred: Fraction  # of |value - centre| of one person


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """One column analysts may use. `exponent` k puts its values on multiples of 2^-k."""

    name: str
    kind: Kind
    low: Fraction | None = None
    high: Fraction | None = None
    exponent: int = 0
    keys: tuple[Value, ...] | None = None
    keys_from: tuple[str, str] | None = None  # (public table, column)
    since: datetime.date | None = None  # the bounds of dates and timestamps
    until: datetime.date | None = None
    required: bool = False  # a row without it counts as one at the lower bound
    tuned: Tuned | None = None  # resolved for one question, from what the table was tuned to
    scale: int | None = None  # how many decimals a number has in the engine; None: it is a double there
    owned: bool = False  # each value belongs to one person, as the number of an order does
    refers: tuple[str, str] | None = (
        None  # (table, column) of somebody whom the row mentions, and is not about
    )
    complete: bool = False  # each row has one of its keys; stated, and never enforced

    @property
    def told(self) -> str:
        """What it refers to."""
        return "" if self.refers is None else ".".join(self.refers)


@dataclass(frozen=True, slots=True)
class Measured:
    """A noisy histogram over people that `sfumato tune` released, in 1024ths of a person at 0, 1, 2, ..."""

    epsilon: Fraction
    people: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TunedColumn:
    """What `sfumato tune` released about a column: its centre, and people by their totals in steps of a grid.

    `totals` are of |value|, `centred` of |value - centre|; a step is 2^-exponent.
    """

    name: str
    centre: Fraction
    exponent: int
    totals: Measured
    centred: Measured


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `sfumato tune` released about a table."""

    rows: Measured
    columns: tuple[TunedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """One table. `unit` is the column that names the person; None means that each row is its own unit.

    With `through`, the column refers to a column of another table, whose rows say whom they belong to.
    """

    name: str
    unit: str | None
    rows_per_person: int | None
    columns: tuple[DeclaredColumn, ...]
    public: bool = False
    through: tuple[str, str] | None = None  # table and column that the unit refers to
    tuning: Tuning | None = None
    size: int | None = None  # how many rows it has, where that is public; stated, and never enforced
    totals: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()  # and how many for each key of a column

    def owns(self, name: str) -> bool:
        """Whether a value of a column, by the declarations of this table, belongs to one person."""
        column = self.column(name)
        return (self.through is not None and name == self.unit) or (column is not None and column.owned)

    def rows_of(self, column: str) -> dict[str, int]:
        """How many rows each key of a column has, as far as it is declared."""
        return dict(dict(self.totals).get(column, ()))

    def column(self, name: str) -> DeclaredColumn | None:
        """The column called `name`, in whatever case it was typed."""
        return named(self.columns, name)


@dataclass(frozen=True, slots=True, eq=False)
class PublicTable:
    """The rows of a public table, which many plans look at."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value | None, ...], ...]


def in_toml(name: str) -> str:
    """A name as a key of TOML: in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def heading(table: str, *parts: str) -> str:
    """The header under which a table, or a part of it, stands in a policy.

    >>> heading("visits", "columns"), heading("census.people")
    ('[tables.visits.columns]', '[tables."census.people"]')
    """
    return f"[{'.'.join(('tables', in_toml(table), *parts))}]"


def split(name: str, tables: Iterable[str]) -> tuple[str, str]:
    """The table and the column of a name that holds both; a table in a schema has a dot of its own.

    >>> split("census.people.age", ["people", "census.people"]), split("visits.ward", ["visits"])
    (('census.people', 'age'), ('visits', 'ward'))
    """
    known = [table for table in tables if name.startswith(f"{table}.")]
    table = max(known, key=len) if known else name.partition(".")[0]
    return table, name[len(table) + 1 :]


def named(things: tuple[T, ...], name: str) -> T | None:
    """The one that is called so, or, if there is none, the only one called so in other letters."""
    exact = [thing for thing in things if thing.name == name]
    close = [thing for thing in things if thing.name.lower() == name.lower()]
    return exact[0] if exact else close[0] if len(close) == 1 else None


def problem_with_keys(keys: Sequence[Any], kind: str) -> str:
    """Why these values cannot be the public keys of a column; empty if they can.

    They must be different *to the engine*, or one row would fall into two groups: so all are of the very
    type of the column, and compared as they are.
    """
    if not keys:
        return "the list is empty"
    if len(keys) > MOST_KEYS:
        return f"there are more than {MOST_KEYS}"
    seen: set[Any] = set()
    for key in keys:
        if type(key) is not PYTHON[kind]:
            return f"{key!r} is not of type {kind}"
        if isinstance(key, int) and abs(key) >= 1 << 62:
            return f"{key!r} is too large: stay below 2^62"
        if isinstance(key, str) and not is_plain(key):
            return f"{key!r} contains a zero byte or an invalid character"
        if key in seen:
            return f"{key!r} is listed twice"
        seen.add(key)
    return ""


def is_plain(text: str) -> bool:
    """Whether a text holds nothing that no engine can hold."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def in_totals(value: Value) -> str:
    """How a key is written in a section of totals.

    >>> in_totals("A"), in_totals(3), in_totals(True), in_totals(datetime.date(2024, 1, 31))
    ('A', '3', 'true', '2024-01-31')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def problem_with_totals(given: object, column: DeclaredColumn | None, size: int | None) -> str:
    """Why these cannot be the rows of each key of a column; empty if they can."""
    if column is None or (column.keys is None and column.keys_from is None):
        return "there is no such column with keys"
    if not isinstance(given, dict) or not given:
        return "this is not a number of rows for each key"
    if not all(type(each) is int and each >= 0 for each in given.values()):
        return "a number of rows is a whole number from 0"
    if column.keys is not None:
        names = {in_totals(value) for value in column.keys}
        if missing := sorted(names - set(given)):
            return f"the rows of {missing[0]!r} are missing"
        if unknown := sorted(set(given) - names):
            return f"{unknown[0]!r} is not one of the keys"
    total = sum(given.values())
    if size is not None and (total > size or (column.complete and total != size)):
        return f"the rows of all keys are {total:,}, and the table has {size:,}"
    return ""
