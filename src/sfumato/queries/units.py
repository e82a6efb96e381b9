"""Whose promise it is: the unit of a table, of a plan, and of everything that is called the same.

Neighbouring databases differ by all rows of one unit: of a person, named by a column of the table in which a
chain of references ends, or of a row, which is its own. What was released about one unit bounds nothing about
another: a person may have any number of rows in a table whose rows are units of their own. So every charge
says which units it is about, and whoever adds up charges says for which.

Columns of several tables that have one name are taken for one unit: then all that is charged counts for all
of them, which is never too little. A policy with other units besides must say which are the same, under
`[units]`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from sfumato.queries.relations import scans_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.queries.declared import DeclaredTable
    from sfumato.queries.plan import Plan

Kind = Literal["person", "row"]


class Declares(Protocol):
    """What is used of a policy."""

    @property
    def tables(self) -> tuple[DeclaredTable, ...]:
        """Its tables."""

    @property
    def units(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Which units are called the same."""

    def table(self, name: str) -> DeclaredTable | None:
        """One of the tables."""


class Unit(NamedTuple):
    """A person, by the column that names it at the end of all references; or a row of a table."""

    kind: Kind
    table: str
    column: str = ""

    @property
    def name(self) -> str:
        """As it is written under [units]."""
        return f"{self.table}.{self.column}" if self.column else self.table

    def __str__(self) -> str:
        return f"persons, by {self.name}" if self.kind == "person" else f"rows of {self.table}"


def unit_of(table: DeclaredTable, tables: Sequence[DeclaredTable]) -> Unit | None:
    """The unit of a table; None if it is public."""
    if table.public:
        return None
    *_, last = chain(table, tables)
    return Unit("row", table.name) if last.unit is None else Unit("person", last.name, last.unit)


def chain(table: DeclaredTable, tables: Sequence[DeclaredTable]) -> Iterator[DeclaredTable]:
    """The table, and those to which its rows refer, up to the one that says whose they are."""
    yield table
    if table.through is not None:
        yield from chain(next(each for each in tables if each.name == table.through[0]), tables)


def units_of(policy: Declares) -> tuple[Unit, ...]:
    """The units of all tables of a policy, each once."""
    found = (unit_of(table, policy.tables) for table in policy.tables)
    return tuple(dict.fromkeys(unit for unit in found if unit is not None))


def is_mixed(policy: Declares) -> bool:
    """Whether tables have different units, and the policy does not say which of them are the same."""
    return differ(units_of(policy)) and not policy.units


def differ(units: Sequence[Unit]) -> bool:
    """Whether units may be different ones: columns that have one name are taken for the same."""
    return len({unit.column or (unit.table,) for unit in units}) > 1


def about(plan: Plan, policy: Declares) -> tuple[Unit, ...]:
    """The units that a charge for a plan is about, with all that the policy calls the same now; none, and so
    every one, where it has several and does not say."""
    if len(units_of(policy)) > 1 and not policy.units:
        return ()
    tables = [policy.table(scan.table) for scan in scans_of(plan.relation)]
    found = (unit_of(table, policy.tables) for table in tables if table is not None)
    return tuple(sorted({each for unit in found if unit is not None for each in same(unit, policy)}))


def same(unit: Unit, policy: Declares) -> tuple[Unit, ...]:
    """All that is called the same as a unit: it alone, where the policy does not say."""
    group = next((names for _, names in policy.units if unit.name in names), (unit.name,))
    return tuple(sorted(each for each in units_of(policy) if each.name in group))


def apart(units: Sequence[Unit], policy: Declares) -> tuple[Unit, ...]:
    """What the policy calls something else than any of these: nothing, where it does not say."""
    alike = {each for unit in units for each in same(unit, policy)}
    return tuple(sorted(each for each in units_of(policy) if each not in alike)) if policy.units else ()


def called(unit: Unit, policy: Declares) -> str:
    """What a unit is called."""
    return next((word for word, names in policy.units if unit.name in names), str(unit))


def declared(plan: Plan, policy: Declares) -> dict[str, Any]:
    """How the tables that a plan reads say whose their rows are, in a form that stays; also those that gave
    it keys."""
    names = {table.name for scan in scans_of(plan.relation) for table in _read(scan.table, policy)}
    for field in plan.fields:
        table = policy.table(field.origin[0])
        column = None if table is None else table.column(field.origin[1])
        if column is not None and column.keys_from is not None:
            names.add(column.keys_from[0])
    return {table.name: form(table, policy) for table in policy.tables if table.name in names}


def _read(name: str, policy: Declares) -> Iterator[DeclaredTable]:
    table = policy.table(name)
    if table is not None:
        yield from chain(table, policy.tables)


def form(table: DeclaredTable, policy: Declares) -> dict[str, Any]:
    """How a table says whose its rows are: what must not change once something was charged about it."""
    if table.public:
        return {"kind": "public"}
    unit = unit_of(table, policy.tables)
    assert unit is not None
    if unit.kind == "row":
        return {"kind": "row"}
    steps = [[each.unit, *(each.through or ())] for each in chain(table, policy.tables)]
    return {"kind": "person", "by": steps}


def suggested(units: Sequence[Unit]) -> str:
    """The section that says that all columns name the same people, which never counts too little."""
    people = [unit for unit in units if unit.kind == "person"]
    rows = [(f"rows_of_{unit.table}", [unit]) for unit in units if unit.kind == "row"]
    lines = ["[units]"]
    for word, alike in ([("people", people)] if people else []) + rows:
        key = word if re.fullmatch(r"[A-Za-z0-9_-]+", word) else json.dumps(word, ensure_ascii=False)
        names = ", ".join(json.dumps(unit.name, ensure_ascii=False) for unit in alike)
        lines.append(f"{key} = [{names}]")
    return "\n".join(lines)
