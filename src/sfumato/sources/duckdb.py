"""Tables in a DuckDB file: opened read-only, asked with SQL printed from a plan, answered with a Secret.

The connection is read-only, cannot reach other files, cannot change its settings and never spills to disk
(DuckDB can encrypt its spill files only with a module that is not part of it; law 1 forbids plain ones).
These are second walls: the first is that the analyst's text never comes here (law 8).

All arithmetic is on integers (law 5), so the answer does not depend on threads, row order or version:

* a value is clamped by CASE (NULL stays NULL, NaN sorts above everything and becomes the upper bound), put on
  its grid by FLOOR(x * 2^k) and summed in 128 bits;
* for person units the rows are first added up by (unit, group); whoever weighs more than the cap is scaled by
  a truncating 128-bit division;
* public keys are joined in by position, so only declared groups come back, as integers.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb

from sfumato.errors import SourceError, nearest
from sfumato.exact.forks import STILL, is_child
from sfumato.exact.secret import Secret
from sfumato.queries.plan import (
    CAP,
    PARTS,
    Compare,
    Condition,
    Constant,
    Every,
    Field,
    IsNull,
    Key,
    Measure,
    Not,
    Plan,
    Some,
    Truth,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.queries.policy import Kind, Policy, Table, Value

Answer = tuple[tuple[int, ...], ...]  # a vector for every measure, in the order of plan.groups

_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
_ATTACHED = "attached_by_sfumato"
_LAST = ("enable_external_access", "lock_configuration")
_INTEGERS = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT"
)  # UHUGEINT has no wider type to compare in
_SQL_TYPE: dict[Kind, str] = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A column as the engine describes it; kind is None for types we cannot use."""

    name: str
    engine_type: str
    kind: Kind | None


class DuckDB:
    """A DuckDB file, and the only place that runs anything in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process: int | None = None
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._inherited: list[object] = []
        self._cursor()

    # Public facts -------------------------------------------------------------------------------------

    def schema(self) -> dict[str, tuple[Found, ...]]:
        """Tables and their columns. Never a row, never a count."""
        rows = (
            self._cursor()
            .execute(
                "SELECT table_name, column_name, data_type, is_generated"
                " FROM duckdb_columns() JOIN duckdb_tables() USING (database_name, schema_name, table_name)"
                " WHERE database_name = current_database() AND schema_name = 'main'"
                " ORDER BY table_name, column_index"
            )
            .fetchall()
        )
        found: dict[str, tuple[Found, ...]] = {}
        for table, column, engine_type, generated in rows:
            # a generated column is an expression of somebody's: it may fail, or change from row to row
            kind = None if generated else _kind(engine_type)
            told = f"{engine_type} GENERATED" if generated else engine_type
            found[table] = (*found.get(table, ()), Found(column, told, kind))
        return found

    def check(self, policy: Policy) -> None:
        """Every declared table and column exists with the declared type, or a SourceError says which not."""
        schema = self.schema()
        for table in policy.tables:
            if table.name not in schema:
                close = nearest(table.name, schema)
                hint = (
                    f"Did you mean {close[0]}?" if close else f"It has: {', '.join(schema) or 'no tables'}."
                )
                raise SourceError(
                    f"{self.path} has no table {table.name!r} (a view does not count: its rows may depend on "
                    f"several persons). {hint} Correct [tables.{table.name}] in {policy.file}."
                )
            self._check_columns(table, schema[table.name], policy.file)

    def _check_columns(self, table: Table, found: tuple[Found, ...], file: str) -> None:
        actual = {column.name: column for column in found}
        for column in table.columns:
            where = f"[tables.{table.name}.columns] {column.name} in {file}"
            if column.name not in actual:
                close = nearest(column.name, actual)
                hint = f"Did you mean {close[0]}?" if close else f"It has: {', '.join(actual)}."
                raise SourceError(
                    f"table {table.name!r} has no column {column.name!r}. {hint} Correct {where}."
                )
            real = actual[column.name]
            fits = real.kind == column.kind or (real.kind == "integer" and column.kind == "number")
            if not fits:
                advice = f'declare type = "{real.kind}"' if real.kind else "leave the column out"
                raise SourceError(
                    f"{table.name}.{column.name} is {real.engine_type} in the database, which is not "
                    f"{column.kind}. To go on, {advice}: {where}."
                )

    def keys(self, table: str, column: str, kind: Kind) -> tuple[Value, ...]:
        """The distinct values of a column of a *public* table, sorted."""
        real = {found.name: found.kind for found in self.schema().get(table, ())}
        if real.get(column) != kind:
            raise SourceError(
                f'keys = "{table}.{column}" must name a {kind} column of a table in {self.path}, like the '
                "column it gives keys to. Correct it, or list the keys."
            )
        field = _field(Field(column, kind))
        # Python has no date outside these years, and none that is infinite
        sane = f" AND {field} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'" if kind == "date" else ""
        sql = f"SELECT DISTINCT {field} FROM {_name(table)} AS t WHERE {field} IS NOT NULL{sane} ORDER BY 1"
        return tuple(row[0] for row in self._cursor().execute(sql).fetchall())

    # The secret ---------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Secret[Answer]:
        """The exact answer, sealed. Whatever goes wrong in the engine looks the same from outside."""
        sql = text(plan)
        rows = Secret.of(lambda: self._cursor().execute(sql).fetchall())
        return rows.map(lambda found: _arrange(found, plan))

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """One cursor per query, in an engine of this process's own.

        DuckDB's threads do not survive a fork, so a child opens the file anew.
        """
        with STILL:
            if self._process != os.getpid():
                self._inherited.append(self._engine)  # closing the parent's engine in a child could hang
                self._engine, self._process = _open(self.path), os.getpid()
            assert self._engine is not None
            cursor = self._engine.cursor()
            if is_child():
                cursor.execute(f"USE {_ATTACHED}")
            return cursor


def _open(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        found = path.exists()
    except OSError:  # a name no file system takes
        found = False
    if not found:
        raise SourceError(
            f"there is no database file {path}. Nothing was changed. Check [source] duckdb in the policy; a "
            "relative path starts at the folder of the policy file."
        )
    try:
        return _guarded(_attach(path) if is_child() else _connect(path), path)
    except duckdb.ConnectionException:
        problem = (
            "is already open in this process with other settings. Close that connection first: sfumato opens "
            "the file read-only and locked down."
        )
    except duckdb.IOException as error:
        if "Could not set lock" in str(error):  # DuckDB's message names a process and a program; ours not
            problem = (
                "is open for writing in another program. Close it there, or give sfumato a copy; any number "
                "of readers can share the file."
            )
        else:
            problem = "is not a DuckDB file this version can read. Check [source] duckdb in the policy."
    except duckdb.Error:
        problem = "cannot be opened by DuckDB. Check that the file is complete and readable."
    raise SourceError(f"{path} {problem}")


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(path), read_only=True, config=dict(_SETTINGS))


def _attach(path: Path) -> duckdb.DuckDBPyConnection:
    """The file in an engine of this process's own, for a process that was forked.

    `duckdb.connect(path)` would hand back the parent's engine, copied by the fork without its threads; a new
    engine in memory that attaches the file has threads, locks and file handles of its own.
    """
    connection = duckdb.connect(":memory:", config={k: v for k, v in _SETTINGS.items() if k not in _LAST})
    connection.execute(f"ATTACH {_literal(str(path))} AS {_ATTACHED} (READ_ONLY)")
    for setting in _LAST:  # the doors are shut once the file is in
        connection.execute(f"SET {setting} = {_SETTINGS[setting]}")
    return connection


def _guarded(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyConnection:
    """Refuse a file whose own functions or types take the names of the engine's.

    DuckDB looks into the file first, so a macro called abs or floor would replace the one that keeps a person
    to the cap (law 7).
    """
    taken = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal AND function_name IN"
        " (SELECT function_name FROM duckdb_functions() WHERE internal)"
        " UNION SELECT DISTINCT type_name FROM duckdb_types() WHERE NOT internal AND type_name IN"
        " (SELECT type_name FROM duckdb_types() WHERE internal) ORDER BY 1"
    ).fetchall()
    if taken:
        names = ", ".join(name for (name,) in taken)
        raise SourceError(
            f"{path} defines functions or types of its own under names of DuckDB's: {names}. They would "
            "replace what keeps every person to the cap. Drop or rename them, for example: DROP MACRO floor"
        )
    return connection


def build(path: Path, statements: list[str], questions: list[str]) -> list[list[tuple[Any, ...]]]:
    """Make a new database file from SQL of our own, and answer questions about it while it is being made.

    For demonstrations and tests, which know the truth because they made it. It refuses a file that exists.
    """
    if path.exists():
        raise SourceError(f"{path} exists already and was left as it is. Name a file that does not exist.")
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        return [connection.execute(question).fetchall() for question in questions]


def _kind(engine_type: str) -> Kind | None:
    if _INTEGERS.fullmatch(engine_type):
        return "integer"
    if engine_type in ("FLOAT", "DOUBLE") or re.fullmatch(r"DECIMAL\(\d+, *\d+\)", engine_type):
        return "number"
    is_enum = engine_type.startswith("ENUM(") and engine_type.endswith(")")  # a list of them ends in ]
    if engine_type in ("VARCHAR", "UUID") or is_enum:
        return "text"
    plain: dict[str, Kind] = {"BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp"}
    return plain.get(engine_type)


def _arrange(rows: list[tuple[Any, ...]], plan: Plan) -> Answer:
    """Rows of (position of the group, measures...) as one vector a measure; groups without rows are zero."""
    vectors = [[0] * plan.size for _ in plan.measures]
    for position, *values in rows:
        for vector, value in zip(vectors, values, strict=True):
            vector[position] += int(value)
    return tuple(tuple(vector) for vector in vectors)


# Printing --------------------------------------------------------------------------------------------


def text(plan: Plan) -> str:
    """The one query that computes a plan."""
    return _by_row(plan) if plan.unit is None else _by_person(plan, plan.unit)


def _by_row(plan: Plan) -> str:
    """Group the rows by key, then join the public keys: cheaper than joining twenty million rows."""
    pieces = _Pieces()
    measures = [_total(measure, pieces) for measure in plan.measures]
    keys = [f"{_field(key.field)} AS k{i}" for i, key in enumerate(plan.keys)]
    inner = f"SELECT {', '.join([*keys, *pieces.printed()])} FROM {_name(plan.table)} AS t"
    if plan.where is not None:
        inner += f" WHERE {_condition(plan.where)}"
    if plan.keys:
        inner += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}"
    joins = "".join(f" JOIN {_values(key, i)} ON g.k{i} = v{i}.key" for i, key in enumerate(plan.keys))
    return f"SELECT {', '.join([_position(plan), *measures])} FROM ({inner}) AS g{joins}"


def _by_person(plan: Plan, unit: Field) -> str:
    """Add up each person's rows by group, find the heavy people, scale them, then add up everybody."""
    pieces = _Pieces()
    totals = [_total(measure, pieces) for measure in plan.measures]
    weights = [_Weight(i, measure, pieces) for i, measure in enumerate(plan.measures)]
    keys = [f"p{i}" for i in range(len(plan.keys))]
    positions = [f"v{i}.position AS p{i}" for i in range(len(plan.keys))]
    joins = "".join(
        f" JOIN {_values(key, i)} ON ({_field(key.field)}) = v{i}.key" for i, key in enumerate(plan.keys)
    )
    condition = f"{_field(unit)} IS NOT NULL"
    if plan.where is not None:
        condition += f" AND {_condition(plan.where)}"
    rows = (
        f"SELECT {', '.join([f'{_field(unit)} AS u', *positions, *pieces.printed()])}"
        f" FROM {_name(plan.table)} AS t{joins} WHERE {condition}"
        f" GROUP BY {', '.join(str(i + 1) for i in range(1 + len(keys)))}"
    )
    columns = [
        f"{w.value(total)} AS w{w.i}, {w.norm(total)} AS n{w.i}"
        for w, total in zip(weights, totals, strict=True)
    ]
    person = f"SELECT {', '.join(['g.u', *keys, *columns])} FROM ({rows}) AS g"
    if not keys:  # a person has one row here, which weighs what the person weighs
        scaled = [f"COALESCE(SUM({w.scaled(f'n{w.i}')}), 0)" for w in weights]
        return f"SELECT 0, {', '.join(scaled)} FROM ({person}) AS person"
    sums = [f"SUM(n{w.i}) AS m{w.i}" for w in weights]
    heavy = " OR ".join(f"SUM(n{w.i}) > {w.limit}" for w in weights)
    scaled = [f"COALESCE(SUM({w.scaled(f'm{w.i}')}), 0)" for w in weights]
    return (
        f"WITH person AS MATERIALIZED ({person}),"
        f" heavy AS (SELECT u, {', '.join(sums)} FROM person GROUP BY u HAVING {heavy})"
        f" SELECT {', '.join([_position(plan, 'person.p{}'), *scaled])}"
        f" FROM person LEFT JOIN heavy ON person.u = heavy.u GROUP BY {', '.join(keys)}"
    )


@dataclass(frozen=True, slots=True)
class _Weight:
    """How one measure weighs a person: w is the value in a group, n what it adds to the person's norm."""

    i: int
    measure: Measure
    pieces: _Pieces

    @property
    def limit(self) -> int:
        """The norm up to which a person counts in full."""
        assert self.measure.rows is not None
        return self.measure.rows if self._by_rows else self.measure.cap

    @property
    def _by_rows(self) -> bool:
        return self.measure.clamp is None or self.measure.by_rows

    def value(self, total: str) -> str:
        """The person's value in a group; a sum stays within the 62 bits that the scaling can multiply."""
        if self.measure.clamp is None:
            return total
        low, high = _integer(-CAP, "HUGEINT"), _integer(CAP, "HUGEINT")
        return f"CASE WHEN {total} < {low} THEN {low} WHEN {total} > {high} THEN {high} ELSE {total} END"

    def norm(self, total: str) -> str:
        """What the group adds to the person's norm."""
        return _rows(self.measure, self.pieces) if self._by_rows else f"ABS({self.value(total)})"

    def scaled(self, norm: str) -> str:
        """The value, scaled so that all groups together keep to the cap; a norm of NULL is a light person's.

        `//` truncates towards zero, so |scaled| <= |value| * limit / norm, and the sum over groups is at most
        the cap. The divisor is above the limit, hence at least 2; the product is taken in 128 bits.
        """
        parts = PARTS if self.measure.clamp is None else 1
        light = f"w{self.i} * {parts}" if parts > 1 else f"w{self.i}"
        factor = _integer(parts * self.limit, "HUGEINT")
        return f"CASE WHEN {norm} > {self.limit} THEN w{self.i} * {factor} // {norm} ELSE {light} END"


class _Pieces:
    """The distinct engine aggregates of a query: each computed once, whoever needs it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, aggregate: str) -> str:
        return "g." + self._names.setdefault(aggregate, f"a{len(self._names)}")

    def printed(self) -> list[str]:
        return [f"{aggregate} AS {name}" for aggregate, name in self._names.items()]


def _total(measure: Measure, pieces: _Pieces) -> str:
    """A measure over one group of rows, before any bounding, in terms of pieces."""
    if measure.clamp is None:
        return _rows(measure, pieces)
    total = f"COALESCE({pieces.name(f'SUM({_on_grid(measure)})')}, {_integer(0, 'HUGEINT')})"
    if not measure.clamp.centre:
        return total
    centre = _integer(measure.clamp.centre, "HUGEINT")
    return f"({total} - {centre} * {_rows(measure, pieces)})"  # the sum of (value - centre)


def _rows(measure: Measure, pieces: _Pieces) -> str:
    """How many rows take part in a measure."""
    return pieces.name("COUNT(*)" if measure.field is None else f"COUNT({_field(measure.field)})")


def _on_grid(measure: Measure) -> str:
    """A value as an integer: clamp before any arithmetic, then floor."""
    clamp, field = measure.clamp, measure.field
    assert clamp is not None
    assert field is not None
    small = max(abs(clamp.least + clamp.centre), abs(clamp.most + clamp.centre)) < 1 << 31
    narrow = "INTEGER" if small else "BIGINT"  # the sum is taken in 128 bits either way; this one is faster
    if field.kind == "integer":
        low, high = _integer(int(clamp.low), "BIGINT"), _integer(int(clamp.high), "BIGINT")
        return f"CAST({_within(_field(field), low, high)} AS {narrow})"
    low, high = _double(float(clamp.low)), _double(float(clamp.high))
    factor = _double(float(Fraction(2) ** clamp.exponent))
    return f"CAST(FLOOR({_within(_field(field), low, high)} * {factor}) AS {narrow})"


def _within(x: str, low: str, high: str) -> str:
    """x clamped to its bounds, total for every value.

    The common case stands first because the engine then skips the others. NaN sorts above everything, so it
    fails the first two tests and becomes `high`; NULL fails all and stays NULL.
    """
    inside = f"WHEN {x} BETWEEN {low} AND {high} THEN {x}"
    return f"(CASE {inside} WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END)"


def _position(plan: Plan, pattern: str = "v{}.position") -> str:
    """Where a group stands in plan.groups, the last key running fastest."""
    position = "0"
    for i, key in enumerate(plan.keys):
        position = f"({position}) * {len(key.values)} + {pattern.format(i)}" if i else pattern.format(i)
    return position


def _values(key: Key, i: int) -> str:
    """The public keys as a table of (position, key): one typed list is planned faster than typed rows."""
    listed = ", ".join(_literal(value) for value in key.values)
    keys = f"CAST([{listed}] AS {_SQL_TYPE[key.field.kind]}[])"
    return f"(SELECT UNNEST(range({len(key.values)})) AS position, UNNEST({keys}) AS key) AS v{i}"


def _condition(condition: Condition) -> str:
    match condition:
        case Compare(operator, left, right):
            as_double = "number" in (left.kind, right.kind)
            return f"({_operand(left, as_double)} {operator} {_operand(right, as_double)})"
        case IsNull(field):
            return f"({_field(field)} IS NULL)"
        case Truth(of):
            return _operand(of, as_double=False)
        case Not(part):
            return f"(NOT {_condition(part)})"
        case Every(parts):
            return "(" + " AND ".join(_condition(part) for part in parts) + ")"
        case Some(parts):
            return "(" + " OR ".join(_condition(part) for part in parts) + ")"


def _operand(operand: Field | Constant, as_double: bool) -> str:
    printed = _field(operand) if isinstance(operand, Field) else _constant(operand)
    return f"CAST({printed} AS DOUBLE)" if as_double and operand.kind == "integer" else printed


def _field(field: Field) -> str:
    """A column in the type it is used as. The casts are total: whatever the engine stores, they succeed.

    Text is compared byte by byte whatever collation the column was declared with: under NOCASE one row would
    match two keys, and two persons would share one cap.
    """
    name = f"t.{_name(field.name)}"
    if field.kind == "text":
        return f"CAST({name} AS VARCHAR) COLLATE C"
    return f"CAST({name} AS DOUBLE)" if field.kind == "number" else name


def _constant(constant: Constant) -> str:
    if isinstance(constant.value, float):
        return _double(constant.value)
    return f"CAST({_literal(constant.value)} AS {_SQL_TYPE[constant.kind]})"


def _literal(value: Value) -> str:
    """A value as text the engine casts exactly; the cast beside it carries the type."""
    return "'" + str(value).replace("'", "''") + "'"


def _integer(value: int, engine_type: str) -> str:
    return f"CAST({value} AS {engine_type})"


def _double(value: float) -> str:
    """A literal with an exponent is a DOUBLE in DuckDB, read to the nearest one: exactly this value."""
    return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
