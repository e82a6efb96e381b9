"""The policy file: what the owner says about a database, and nothing read from the data.

A policy names the source, the tables that may be asked about, the unit each row belongs to, bounds and keys
of columns, and the budget. Bounds and keys are public by declaration; none of them is believed, all are
enforced in every plan (law 7).
"""

from __future__ import annotations

import datetime
import math
import re
import tomllib
import zoneinfo
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter, PolicyError, nearest
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.declared import (
    KINDS,
    PYTHON,
    DeclaredColumn,
    DeclaredTable,
    Measured,
    PublicTable,
    TunedColumn,
    Tuning,
    heading,
    is_plain,
    named,
    problem_with_keys,
    problem_with_totals,
    split,
)
from sfumato.queries.expressions import MOST_LISTED
from sfumato.queries.promises import promise_of
from sfumato.queries.units import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.promises import Promise

    Listing = Callable[[str, str], tuple[Value, ...] | None]
    ReadKeys = Callable[[str, str, Kind, int | None], tuple[Value, ...]]
    ReadRows = Callable[[str, tuple[tuple[str, Kind], ...]], Sequence[tuple[Value | None, ...]] | None]

EXACT = 1 << 53  # |bound| * 2^k stays below this, where every integer is a double
LEVELS = 20  # a number column is split into about 2^20 steps unless the owner says otherwise
MOST_MEASURED = Fraction(1, 2)  # of a budget, for measuring how much people have
UNCONFIRMED = 10  # this part of a budget may a question cost that is asked for by its error
QUESTIONS = 100_000  # that a whole budget pays for at most, unless the owner says otherwise
MOST_ROWS_PER_PERSON = 10**6  # per person; a larger cap would only add noise
MOST_TABLE_ROWS = 10**12  # rows of a table
AUTOMATIC = "auto"  # instead of the name of a prepared copy
RESERVED = "sfumato_"  # with which the names of a query's own steps begin
FINEST = 60  # a grid is at least 2^-60 and at most 2^60


def _listed(values: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """Values as they are listed without a declaration; None if they are too many, or cannot be keys."""
    return values if len(values) <= MOST_LISTED and not problem_with_keys(values, "text") else None


def copy_of(file: Path) -> Path:
    """Where the prepared copy of a policy lies, unless it says otherwise."""
    return file.with_suffix(".prepared.duckdb")


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the owner declared."""

    name: str
    file: str
    source: tuple[str, str]  # engine, and file as written: relative to the folder of the policy
    budget: Guarantee
    ledger: Path | str  # a file, or postgresql://...
    tables: tuple[DeclaredTable, ...]
    prepared: Path | None = None  # a copy that `sfumato prepare` writes
    automatic: bool = False  # or that is written whenever the data change, and used where it fits
    promises: tuple[Promise, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()  # about how many rows tables have: deadlines rest on it
    called: str = ""  # what the data are called, wherever they lie
    time_zone: str = ""  # where it is decided which day it is; UTC
    units: tuple[tuple[str, tuple[str, ...]], ...] = ()  # which columns, or tables of rows, are one unit
    measure: Fraction = Fraction(0)  # of the budget, for measuring how much people have
    most: Fraction = Fraction(0)  # that a question asked for by its error may cost unconfirmed
    least: Fraction = Fraction(0)  # that a new question or batch may cost, in the currency of the budget
    listing: Listing | None = field(default=None, compare=False)  # how values of public columns are found
    public_rows: Callable[[str], PublicTable | None] | None = field(default=None, compare=False)

    @property
    def database(self) -> Path:
        """The file the tables live in."""
        return Path(self.file).parent / self.source[1]

    def table(self, name: str) -> DeclaredTable | None:
        """The table called `name`, in whatever case it was typed."""
        return named(self.tables, name)

    @property
    def mentions(self) -> list[tuple[DeclaredTable, DeclaredColumn]]:
        """The columns that name somebody else than the person whose row it is."""
        return [(table, each) for table in self.tables for each in table.columns if each.refers is not None]

    def values_of(self, table: str, column: str) -> tuple[Value, ...] | None:
        """The values of a text column of a public table; None if there are too many to list."""
        return None if self.listing is None else self.listing(table, column)

    def public_table(self, name: str) -> PublicTable | None:
        """The rows of a public table; None if there are too many to look at."""
        return None if self.public_rows is None else self.public_rows(name)

    def names_person(self, table: DeclaredTable, column: str) -> bool:
        """Whether a column holds the person whose row it is, or refers to a column that does."""
        if table.public or column != table.unit:
            return False
        if table.through is None:
            return True
        other = self.table(table.through[0])
        if other is None or not self.names_person(other, table.through[1]):
            return False
        here, there = table.column(column), other.column(table.through[1])
        return here is not None and there is not None and here.kind == there.kind

    def with_keys(self, read: ReadKeys, rows: ReadRows = lambda *_: None) -> Policy:
        """The policy with every `keys = "table.column"` replaced by the values of that public table; values
        of other texts of public tables, and their rows, are read when they are grouped by."""

        def filled(table: DeclaredTable, column: DeclaredColumn) -> DeclaredColumn:
            if column.keys_from is None:
                return column
            keys = read(*column.keys_from, column.kind, None)
            if problem := problem_with_keys(keys, column.kind):
                where = f"tables.{table.name}.columns.{column.name}.keys"
                raise PolicyError(
                    self.file, None, where, f"the public keys cannot be used: {problem}", "Correct them."
                )
            return replace(column, keys=keys)

        tables = tuple(replace(t, columns=tuple(filled(t, c) for c in t.columns)) for t in self.tables)
        listing = cache(lambda table, column: _listed(read(table, column, "text", MOST_LISTED + 1)))

        def public(name: str) -> PublicTable | None:
            table = self.table(name)
            assert table is not None
            columns = tuple((each.name, each.kind) for each in table.columns)
            found = rows(table.name, columns)
            return None if found is None else PublicTable(tuple(c for c, _ in columns), tuple(found))

        return replace(self, tables=tables, listing=listing, public_rows=cache(public))

    def with_scales(self, scales: Mapping[tuple[str, str], int]) -> Policy:
        """The policy with the decimals that its number columns have in the engine."""

        def filled(table: DeclaredTable, column: DeclaredColumn) -> DeclaredColumn:
            scale = scales.get((table.name, column.name)) if column.kind == "number" else None
            return column if scale is None else replace(column, scale=scale)

        tables = tuple(replace(t, columns=tuple(filled(t, c) for c in t.columns)) for t in self.tables)
        return replace(self, tables=tables)


def load(path: Path | str) -> Policy:
    """Read a policy file; every complaint names the file, the line and the key."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        advice = "Write one with: sfumato init YOUR.duckdb"
        raise PolicyError(str(path), None, "", "there is no such policy file", advice) from None
    except UnicodeDecodeError:
        raise PolicyError(
            str(path), None, "", "it cannot be read as text in UTF-8", "Name a policy, such as hospital.toml."
        ) from None
    except OSError as error:
        raise PolicyError(
            str(path), None, "", f"it cannot be read as text ({error.strerror})", "Check the file."
        ) from None
    return parse(text, file)


def problem(policy: Policy, where: tuple[str, ...], told: str) -> PolicyError:
    """A complaint about a declaration that only shows once the public tables are read."""
    try:
        line = line_of(Path(policy.file).read_text(encoding="utf-8-sig"), where)
    except (OSError, UnicodeDecodeError):
        line = None
    return PolicyError(policy.file, line, ".".join(where), "it cannot be promised", f"{told}.")


def parse(text: str, file: Path) -> Policy:
    """The policy that `text` declares; relative paths in it start at the folder of `file`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _line_of_syntax_error(str(error), text)
        raise PolicyError(str(file), line, "", f"this is not TOML: {error}", "Fix that line.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of brackets
        raise PolicyError(
            str(file),
            None,
            "",
            "it is nested too deeply or contains a number that is too long",
            "Shorten it.",
        ) from None
    tables = data.get("tables")
    return _PolicyReader(text, file, tuple(tables) if isinstance(tables, dict) else ()).policy(data)


@dataclass(frozen=True, slots=True)
class _PolicyReader:
    """Turns the TOML tree into a Policy, and knows where each key stands."""

    text: str
    file: Path
    names: tuple[str, ...]  # of the tables

    def policy(self, data: dict[str, Any]) -> Policy:
        self.known(data, (), {"name", "source", "budget", "tables", "promise", "units", "measure"})
        name = self.string(data, ("name",), self.file.stem)
        source = self.section(data, ("source",), 'duckdb = "your.duckdb"')
        beside = {"prepared", "name", "time_zone"}
        self.known(source, ("source",), {"duckdb", "parquet"} | beside)
        engines = [each for each in source if each not in beside]
        if len(engines) > 1:
            advice = 'Keep one of: duckdb = "your.duckdb", parquet = "a_folder"'
            raise self.error(("source",), "it names two sources", advice)
        engine = next(iter(engines), "duckdb")
        copy = self.string(source, ("source", "prepared"), None) if "prepared" in source else None
        is_automatic = copy == AUTOMATIC
        path = self.string(source, ("source", engine), None)
        budget = self.section(data, ("budget",), 'epsilon = "1"')
        self.known(budget, ("budget",), {"epsilon", "rho", "delta", "ledger", "least", "most"})
        ledger = self.string(budget, ("budget", "ledger"), f"{self.file.stem}.ledger")
        remote = ledger.startswith(("postgres://", "postgresql://"))
        tables = self.section(data, ("tables",), 'visits = { unit = "patient_id", rows_per_person = 10 }')
        policy = Policy(
            name=name,
            file=str(self.file),
            source=(engine, path),
            budget=(total := self.total(budget)),
            measure=self.share(data),
            least=self.price(budget, "least", total.amount / QUESTIONS),
            most=self.price(budget, "most", total.amount / UNCONFIRMED),
            ledger=ledger if remote else self.file.parent / ledger,
            tables=tuple(self.table(("tables", table), body) for table, body in tables.items()),
            prepared=None
            if copy is None
            else copy_of(self.file)
            if is_automatic
            else self.file.parent / copy,
            automatic=is_automatic,
            called=self.string(source, ("source", "name"), None) if "name" in source else "",
            time_zone=self.time_zone(source),
            sizes=tuple(
                (table, self.size(("tables", table, "rows"), body["rows"]))
                for table, body in tables.items()
                if "rows" in body
            ),
        )
        for table in policy.tables:
            self.check_through(policy, table)
            self.check_mentions(policy, table)
            for column in table.columns:
                self.check_keys_from(policy, table, column)
        policy = replace(policy, units=self.units(data, policy))
        return replace(policy, promises=self.promises(data.get("promise", []), policy))

    def units(self, data: dict[str, Any], policy: Policy) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Every unit of the tables, under one name each."""
        if "units" not in data:
            return ()
        given = self.section(data, ("units",), 'people = ["patients.id"]')
        known, taken = {unit.name: unit for unit in units_of(policy)}, set[str]()
        for name, listed in given.items():
            where = ("units", name)
            if not isinstance(listed, list) or not listed or not all(isinstance(x, str) for x in listed):
                raise self.error(
                    where, "this is not a list of columns", f'Write: {name} = ["{next(iter(known))}"]'
                )
            for each in listed:
                if each not in known:
                    advice = f"Name one of: {', '.join(known)}. Tables that refer to another have its unit."
                    raise self.error(where, f"{each!r} is not a unit of these tables", advice)
                if each in taken:
                    raise self.error(where, f"{each!r} is listed twice", "Name it once.")
                taken.add(each)
            if len({known[each].kind for each in listed}) > 1:
                advice = "List rows under a name of their own: a person may have many of them."
                raise self.error(where, "it mixes people and rows", advice)
        if missing := [each for each in known if each not in taken]:
            advice = f'Add a line, such as: others = ["{missing[0]}"]'
            raise self.error(("units",), f"{missing[0]!r} is missing", advice)
        return tuple((name, tuple(listed)) for name, listed in given.items())

    def share(self, data: dict[str, Any]) -> Fraction:
        """The part of the budget that is for measuring how much people have."""
        if "measure" not in data:
            return Fraction(0)
        section, where = self.section(data, ("measure",), 'share = "10%"'), ("measure", "share")
        self.known(section, ("measure",), {"share"})
        given = section.get("share")
        found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", given) if isinstance(given, str) else None
        share = Fraction(0) if found is None else Fraction(found[1]) / 100
        if not 0 < share <= MOST_MEASURED:
            told = "this is not a percentage above 0% and at most 50%"
            raise self.error(where, told, 'Write for example: share = "10%". Or leave [measure] out.')
        return share

    def time_zone(self, source: dict[str, Any]) -> str:
        """The zone in whose days CURRENT_DATE is read."""
        if "time_zone" not in source:
            return ""
        where = ("source", "time_zone")
        name = self.string(source, where, None)
        try:
            return str(zoneinfo.ZoneInfo(name))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            close = nearest(name, sorted(zoneinfo.available_timezones()))
            advice = (
                f"Did you mean {close[0]}?" if close else 'Write for example: time_zone = "Europe/Berlin"'
            )
            told = f"{name!r} is not a time zone that this machine knows"
            raise self.error(where, told, advice) from None

    def promises(self, given: Any, policy: Policy) -> tuple[Promise, ...]:
        example = '[[promise]] with secret = "table.column", within = 2 and advantage = "0.10"'
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise self.error(("promise",), "each promise is a section of its own", f"Write: {example}")
        found = []
        for n, body in enumerate(given):
            try:
                found.append(promise_of(body, policy.tables, policy.budget))
            except InvalidParameter as error:
                spot = ("promise", str(n), *([error.name] if error.name in body else []))
                advice = f"{error.advice[:1].upper()}{error.advice[1:]}."
                raise self.error(spot, f"{error.name} cannot be promised", advice) from None
        return tuple(found)

    def total(self, budget: dict[str, Any]) -> Guarantee:
        given = {name: budget[name] for name in ("epsilon", "rho", "delta") if name in budget}
        if "epsilon" not in given and "rho" not in given:
            raise self.error(("budget",), "it has no epsilon", 'Add: epsilon = "1"')
        if "epsilon" in given and "rho" in given:
            raise self.error(
                ("budget", "rho"), "a budget counts either epsilon or rho", "Remove one of the two."
            )
        try:
            return Guarantee.read(**given)
        except InvalidParameter as error:
            where = ("budget", error.name)
            advice = f"{error.advice[:1].upper()}{error.advice[1:]}"
            raise self.error(where, f"{budget[error.name]!r} is not a budget", advice) from None

    def price(self, budget: dict[str, Any], name: str, default: Fraction) -> Fraction:
        """A price in the currency of the budget, at most all of it."""
        total, where = self.total(budget), ("budget", name)
        if name not in budget:
            return default
        try:
            found = Guarantee.read(**{total.currency: budget[name]}).amount
        except InvalidParameter as error:
            advice = f"{error.advice[:1].upper()}{error.advice[1:]}"
            raise self.error(where, f"{budget[name]!r} is not a price", advice) from None
        if found > total.amount:
            told = f"Write at most {decimal(total.amount)}."
            raise self.error(where, "it is more than the whole budget", told)
        return found

    def table(self, where: tuple[str, ...], body: Any) -> DeclaredTable:
        if not isinstance(body, dict):
            raise self.error(where, "a table is a section", f"Write: [{'.'.join(where)}]")
        if where[-1].lower().startswith(RESERVED):
            told = f"names that begin with {RESERVED} are reserved"
            raise self.error(where, told, "Rename the table in the database.")
        known = {"unit", "rows_per_person", "columns", "public", "tuned", "rows", "size", "totals"}
        for inner in (name for name, each in body.items() if isinstance(each, dict) and name not in known):
            told = f'Write a table of a schema in quotes: [tables."{where[-1]}.{inner}"]'
            raise self.error((*where, inner), "this is not a key of a table", told)
        self.known(body, where, known)
        public = body.get("public", False)
        if not isinstance(public, bool):
            raise self.error((*where, "public"), "public is true or false", "Write: public = true")
        columns = self.columns((*where, "columns"), body.get("columns", {}))
        if public:
            for key in ("unit", "rows_per_person", "size", "totals"):
                if key in body:
                    raise self.error((*where, key), "a public table is not about people", f"Remove {key}.")
            return DeclaredTable(where[-1], None, None, columns, public=True)
        size = self.size((*where, "size"), body["size"]) if "size" in body else None
        totals = self.totals((*where, "totals"), body.get("totals", {}), columns, size)
        if "unit" not in body:
            advice = (
                'Add: unit = "the column that names the person", or unit = "row" if each row is one person, '
                "or public = true if the table is not about people"
            )
            raise self.error(where, "it does not say whom a row belongs to", advice)
        unit = self.string(body, (*where, "unit"), None)
        if unit == "row":
            if "rows_per_person" in body:
                advice = 'Remove it: with unit = "row" each person has one row.'
                raise self.error((*where, "rows_per_person"), "it has no effect here", advice)
            return DeclaredTable(where[-1], None, None, columns, size=size, totals=totals)
        unit, through = self.reference((*where, "unit"), unit)
        person = named(columns, unit)
        if person is None:
            close = nearest(unit, [column.name for column in columns])
            advice = f'Declare it under columns, for example: {unit} = {{ type = "integer" }}'
            raise self.error(
                (*where, "unit"),
                f"{unit!r} is not one of the declared columns",
                f"Did you mean {close[0]}?" if close else advice,
            )
        if person.kind not in ("integer", "text"):
            # a number could be rounded on its way, and two persons would become one
            advice = "Name a column of integers or text, which tells people apart exactly."
            raise self.error((*where, "unit"), f"{unit!r} is a {person.kind} column", advice)
        rows = body.get("rows_per_person")
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS_PER_PERSON:
            raise self.error(
                (*where, "rows_per_person") if rows is not None else where,
                f"rows_per_person must be a whole number from 1 to {MOST_ROWS_PER_PERSON}",
                "Add: rows_per_person = 10 (a person with more rows is scaled down, so that "
                "nobody counts for more than 10 rows)",
            )
        tuning = self.tuning((*where, "tuned"), body.get("tuned"), columns)
        found = DeclaredTable(where[-1], person.name, rows, columns, through=through, tuning=tuning)
        return replace(found, size=size, totals=totals)

    def size(self, where: tuple[str, ...], rows: Any) -> int:
        """How many rows a table has, or about how many."""
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_TABLE_ROWS:
            about = "Write about how many there are, such as rows = 1_000_000. It is public."
            exact = "Write how many there are if that is public, such as size = 98_609, or leave it out."
            advice = exact if where[-1] == "size" else about
            raise self.error(where, f"{where[-1]} must be a whole number from 1 to {MOST_TABLE_ROWS}", advice)
        return rows

    def totals(
        self, where: tuple[str, ...], body: Any, columns: tuple[DeclaredColumn, ...], size: int | None
    ) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
        """How many rows there are for each key of some columns."""
        advice = f"Write for example: [{'.'.join(where)}] with ward = {{ A = 1200, B = 800 }}"
        found = []
        for name, given in body.items() if isinstance(body, dict) else [(where[-1], body)]:
            column = named(columns, name)
            if problem := problem_with_totals(given, column, size):
                raise self.error((*where, name), problem, advice)
            assert column is not None
            found.append((column.name, tuple(given.items())))
        return tuple(found)

    def tuning(self, where: tuple[str, ...], body: Any, columns: tuple[DeclaredColumn, ...]) -> Tuning | None:
        """What `sfumato tune` wrote."""
        if body is None:
            return None
        advice = "Let `sfumato tune` write this section; to undo the tuning, delete it."
        if not isinstance(body, dict) or "rows" not in body:
            raise self.error(where, "this is not what `sfumato tune` writes", advice)
        rows = self.measured((*where, "rows"), body["rows"])
        found: list[TunedColumn] = []
        for name, each in body.items():
            if name == "rows":
                continue
            spot, column = (*where, name), named(columns, name)
            if column is None or column.low is None or not isinstance(each, dict):
                raise self.error(spot, "there is no such column with bounds", advice)
            self.known(each, spot, {"centre", "exponent", "totals", "centred"})
            given, exponent = str(each.get("centre")), each.get("exponent")
            centre = _fraction(given.removeprefix("-"))
            if not isinstance(exponent, int) or abs(exponent) > FINEST or "centre" not in each:
                raise self.error(spot, "this is not what `sfumato tune` writes", advice)
            signed = -centre if given.startswith("-") else centre
            if column.high is None or not column.low <= signed <= column.high:
                raise self.error(spot, "its centre is not within the bounds of the column", advice)
            parts = [self.measured((*spot, part), each.get(part)) for part in ("totals", "centred")]
            found.append(TunedColumn(column.name, signed, exponent, *parts))
        return Tuning(rows, tuple(found))

    def measured(self, where: tuple[str, ...], body: Any) -> Measured:
        advice = "Let `sfumato tune` write this section; to undo the tuning, delete it."
        people = body.get("people") if isinstance(body, dict) else None
        epsilon = _fraction(body.get("epsilon")) if isinstance(body, dict) else Fraction(0)
        is_list = isinstance(people, list) and 2 <= len(people) <= 80
        if not is_list or epsilon <= 0 or not all(type(each) is int for each in people or ()):
            raise self.error(where, "this is not what `sfumato tune` writes", advice)
        return Measured(epsilon, tuple(people or ()))

    def reference(self, where: tuple[str, ...], unit: str) -> tuple[str, tuple[str, str] | None]:
        """The column of a unit, and what it refers to: "visit_id -> visits.id"."""
        if "->" not in unit:
            return unit, None
        column, _, target = (part.strip() for part in unit.partition("->"))
        table, key = split(target, self.names)
        if not column or not table or not key:
            raise self.error(where, f"{unit!r} is not a reference", 'Write: unit = "visit_id -> visits.id"')
        return column, (table, key)

    def check_through(self, policy: Policy, table: DeclaredTable) -> None:
        """A reference leads, over tables of people, to a table that says whom a row belongs to."""
        where, seen = ("tables", table.name, "unit"), {table.name}
        while table.through is not None:
            name, key = table.through
            target = policy.table(name)
            if target is None or target.public or target.unit is None or target.name != name:
                advice = f"Name a table of people that is declared in this file, not {name!r}."
                raise self.error(where, f"{name!r} does not say whom a row belongs to", advice)
            column = target.column(key)
            own = table.column(table.unit or "")
            if column is None or column.name != key or own is None or column.kind != own.kind:
                advice = f"Declare {key} under {heading(name, 'columns')} with the same type."
                raise self.error(where, f"{name}.{key} is not a column that it can refer to", advice)
            if column.kind not in ("integer", "text"):
                raise self.error(where, f"{name}.{key} is a {column.kind} column", "Use integers or text.")
            if target.name in seen:
                raise self.error(
                    where,
                    "the references form a cycle",
                    "The last table must have a person column as its unit.",
                )
            seen.add(target.name)
            table = target

    def columns(self, where: tuple[str, ...], body: Any) -> tuple[DeclaredColumn, ...]:
        if not isinstance(body, dict):
            raise self.error(where, "columns is a section", f"Write: [{'.'.join(where)}]")
        found = {(*where, name): each for name, each in body.items()}
        return tuple(replace(self.column(*each), complete=self.complete(*each)) for each in found.items())

    def column(self, where: tuple[str, ...], body: Any) -> DeclaredColumn:
        name = where[-1]
        example = f'Write: {name} = {{ type = "integer", low = 0, high = 100 }}'
        if isinstance(body, str):
            body = {"type": body}
        if not isinstance(body, dict):
            raise self.error(where, "a column is an inline table", example)
        self.known(
            body, where, {"type", "low", "high", "grid", "keys", "required", "owned", "refers", "complete"}
        )
        kind = body.get("type")
        if kind not in KINDS:
            raise self.error(where, f"type is one of {', '.join(KINDS)}", example)
        keys, keys_from = self.keys((*where, "keys"), body.get("keys"), kind)
        refers = self.mentioned((*where, "refers"), body.get("refers"))
        owned = body.get("owned", False)
        if not isinstance(owned, bool) or (owned and (keys is not None or keys_from is not None)):
            told = "owned is true or false, and only a column without keys can be owned"
            raise self.error((*where, "owned"), told, "Write: owned = true, without keys")
        if kind in ("date", "timestamp"):
            since, until = self.days(where, body)
            return DeclaredColumn(
                name,
                kind,
                keys=keys,
                keys_from=keys_from,
                since=since,
                until=until,
                owned=owned,
                refers=refers,
            )
        low, high = self.bounds(where, body, kind)
        exponent = self.exponent(where, body, kind, low, high)
        required = body.get("required", False)
        if not isinstance(required, bool) or (required and low is None):
            told = "required is true or false, and only a column with bounds can be required"
            raise self.error((*where, "required"), told, "Write: required = true, beside low and high")
        return DeclaredColumn(
            name, kind, low, high, exponent, keys, keys_from, required=required, owned=owned, refers=refers
        )

    def complete(self, where: tuple[str, ...], body: Any) -> bool:
        """Whether each row has one of the keys of a column."""
        if isinstance(body, dict) and not isinstance(body.get("complete", False), bool):
            raise self.error((*where, "complete"), "complete is true or false", "Write: complete = true")
        return isinstance(body, dict) and body.get("complete", False)

    def mentioned(self, where: tuple[str, ...], given: Any) -> tuple[str, str] | None:
        """A column that names somebody else than the person whose row it is."""
        if given is None:
            return None
        table, column = split(str(given), self.names)
        if not isinstance(given, str) or not table or not column:
            raise self.error(where, f"{given!r} is not a reference", 'Write: refers = "staff.staff_id"')
        return table, column

    def check_mentions(self, policy: Policy, table: DeclaredTable) -> None:
        """What a column refers to is a column of a table about people; the unit says so itself."""
        for column in table.columns:
            if column.refers is None:
                continue
            where = ("tables", table.name, "columns", column.name, "refers")
            target = policy.table(column.refers[0])
            if table.public or column.name == table.unit:
                told = "the unit says whom a row belongs to"
                raise self.error(where, told, 'Write: unit = "column -> table.column"')
            if target is None or target.public or target.column(column.refers[1]) is None:
                told = f"{column.told!r} is not a column of a table about people"
                raise self.error(where, told, "Declare it, or remove this.")

    def days(
        self, where: tuple[str, ...], body: dict[str, Any]
    ) -> tuple[datetime.date | None, datetime.date | None]:
        """The bounds of a date or timestamp: days."""
        given = [key for key in ("low", "high") if key in body]
        if "grid" in body:
            raise self.error((*where, "grid"), "only a number column with bounds has a grid", "Remove grid.")
        if not given:
            return None, None
        if len(given) == 1:
            missing = "high" if given == ["low"] else "low"
            raise self.error(where, f"it has {given[0]} but no {missing}", f"Add {missing}.")
        for key in given:
            if type(body[key]) is not datetime.date:
                raise self.error((*where, key), f"{body[key]!r} is not a day", f"Write: {key} = 2024-01-31")
        if body["low"] > body["high"]:
            raise self.error((*where, "high"), "high must not be before low", "Swap them.")
        return body["low"], body["high"]

    def bounds(
        self, where: tuple[str, ...], body: dict[str, Any], kind: str
    ) -> tuple[Fraction | None, Fraction | None]:
        given = [key for key in ("low", "high") if key in body]
        if not given:
            return None, None
        if kind not in ("integer", "number"):
            raise self.error((*where, given[0]), f"a {kind} column has no bounds", f"Remove {given[0]}.")
        if len(given) == 1:
            missing = "high" if given == ["low"] else "low"
            raise self.error(where, f"it has {given[0]} but no {missing}", f"Add {missing}.")
        ends = []
        for key in given:
            value = body[key]
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise self.error((*where, key), f"{value!r} is not a number", f"Write: {key} = 0")
            if isinstance(value, float) and not math.isfinite(value):
                raise self.error((*where, key), f"{value!r} is not a number to clamp to", f"Write: {key} = 0")
            if kind == "integer" and not isinstance(value, int):
                raise self.error(
                    (*where, key), f"{value!r} is not a whole number", f"Write: {key} = {int(value)}"
                )
            if abs(value) >= EXACT:
                raise self.error((*where, key), f"{value!r} is too large", "Stay below 2^53.")
            ends.append(Fraction(value))
        if ends[0] >= ends[1]:
            raise self.error((*where, "high"), "high must be above low", "Swap them, or widen the range.")
        return ends[0], ends[1]

    def exponent(
        self,
        where: tuple[str, ...],
        body: dict[str, Any],
        kind: str,
        low: Fraction | None,
        high: Fraction | None,
    ) -> int:
        if "grid" not in body:
            if kind != "number" or low is None or high is None:
                return 0
            exponent = default_exponent(low, high)
            if exponent > FINEST or Fraction(2) ** -exponent > high - low:
                raise self.error((*where, "high"), "the bounds are too close together", "Use another unit.")
            return exponent
        spot = (*where, "grid")
        if kind != "number" or low is None or high is None:
            raise self.error(spot, "only a number column with bounds has a grid", "Remove grid.")
        grid = _fraction(body["grid"])
        power = grid.denominator.bit_length() - grid.numerator.bit_length()
        if grid <= 0 or grid != Fraction(2) ** -power:
            advice = 'Write for example: grid = "1/1024" or grid = 0.5'
            raise self.error(spot, f"{body['grid']!r} is not a power of two", advice)
        if max(abs(low), abs(high)) / grid >= EXACT or abs(power) > FINEST:
            raise self.error(spot, "the bounds have too many steps on this grid", "Use a coarser grid.")
        if grid > high - low:
            raise self.error(spot, "the grid is wider than the bounds", "Use a finer grid.")
        return power

    def keys(
        self, where: tuple[str, ...], body: Any, kind: str
    ) -> tuple[tuple[Value, ...] | None, tuple[str, str] | None]:
        if body is None:
            return ((False, True), None) if kind == "boolean" else (None, None)
        if kind not in PYTHON:
            advice = "Remove keys, or use a text, integer, boolean or date column."
            raise self.error(where, f"a {kind} column cannot be grouped by", advice)
        if isinstance(body, str):
            table, column = split(body, self.names)
            if not column:
                advice = 'Write: keys = ["a", "b"] or keys = "public_table.column"'
                raise self.error(where, f"{body!r} does not name a table and a column", advice)
            return None, (table, column)
        if not isinstance(body, list):
            raise self.error(where, "keys is a list of values", 'Write: keys = ["a", "b"]')
        if problem := problem_with_keys(body, kind):
            raise self.error(where, problem, 'Write for example: keys = ["a", "b"]')
        return tuple(body), None

    def check_keys_from(self, policy: Policy, table: DeclaredTable, column: DeclaredColumn) -> None:
        if column.keys_from is None:
            return
        where = ("tables", table.name, "columns", column.name, "keys")
        source = policy.table(column.keys_from[0])
        if source is None or not source.public:
            advice = f"Declare it: {heading(column.keys_from[0])} with public = true, or list the keys."
            raise self.error(where, f"{column.keys_from[0]!r} is not a public table", advice)

    # small readers

    def section(self, data: dict[str, Any], where: tuple[str, ...], example: str) -> dict[str, Any]:
        body = data.get(where[-1])
        if not isinstance(body, dict):
            raise self.error(
                where if body is not None else (),
                f"there is no [{where[-1]}] section",
                f"Add: [{where[-1]}] with {example}",
            )
        return body

    def string(self, data: dict[str, Any], where: tuple[str, ...], default: str | None) -> str:
        value = data.get(where[-1], default)
        if not isinstance(value, str) or not value or not is_plain(value):
            spot = where if where[-1] in data else where[:-1]
            raise self.error(spot, f"{where[-1]} must be a string", f'Write: {where[-1]} = "..."')
        return value

    def known(self, body: dict[str, Any], where: tuple[str, ...], names: set[str]) -> None:
        for key in body:
            if key not in names:
                close = nearest(key, names)
                advice = f"Did you mean {close[0]}?" if close else f"Known here: {', '.join(sorted(names))}."
                raise self.error((*where, key), "there is no such key", advice)

    def error(self, where: tuple[str, ...], problem: str, advice: str) -> PolicyError:
        return PolicyError(str(self.file), line_of(self.text, where), ".".join(where), problem, advice)


def default_exponent(low: Fraction, high: Fraction) -> int:
    """The finest k that splits the range into at most 2^20 steps and keeps the bounds exact.

    >>> default_exponent(Fraction(0), Fraction(5000))
    7
    """
    exponent = LEVELS
    while (high - low) * Fraction(2) ** exponent > 1 << LEVELS:
        exponent -= 1
    while (high - low) * Fraction(2) ** (exponent + 1) <= 1 << LEVELS:
        exponent += 1
    while max(abs(low), abs(high)) * Fraction(2) ** exponent >= EXACT:
        exponent -= 1
    return exponent


def _fraction(given: Any) -> Fraction:
    """A number, or a text like "1/1024"; zero for anything else."""
    if isinstance(given, str) and not re.fullmatch(r"[0-9]{1,30}(/[0-9]{1,30}|\.[0-9]{1,30})?", given):
        return Fraction(0)
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        return Fraction(0)
    try:
        return Fraction(given)
    except (ValueError, OverflowError, ZeroDivisionError):
        return Fraction(0)


def line_of(text: str, where: tuple[str, ...]) -> int | None:
    """The line on which a key appears: the first that makes a growing prefix of the file contain it.

    >>> line_of("a = 1\\n[b]\\nc = 2\\n", ("b", "c"))
    3
    """
    if not where:
        return None
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        try:
            tree: Any = tomllib.loads("\n".join(lines[:count]))
        except ValueError:  # not yet complete
            continue
        for name in where:
            if isinstance(tree, list):  # of an array of tables: by number
                tree = dict(enumerate(tree)).get(int(name)) if name.isdigit() else None
            else:
                tree = tree.get(name) if isinstance(tree, dict) else None
        if tree is not None:
            return count
    return None


def _line_of_syntax_error(message: str, text: str) -> int:
    """The line that tomllib's message names; the last one for "at end of document"."""
    found = re.search(r"at line (\d+)", message)
    return int(found[1]) if found else max(1, text.count("\n") + (not text.endswith("\n")))
