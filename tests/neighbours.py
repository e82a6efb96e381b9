"""Neighbouring databases that try to move an answer further than its plan claims.

A plan claims distances: how far its exact answer moves when one unit (a person, or a row) comes or goes, and
when its rows are replaced. This harness builds databases from nothing but a policy and the engine's column
types, in *stars*: one rest of the tables, and one unit that is absent, or there in many shapes. Absent
against any shape is a pair of presence; any two members of a star are a pair of value. So each database is
asked once and every pair of them is compared, and among them are the pairs that attain the claims: many rows
at one bound against many rows at the other, in the same group or in another.

Nothing declared is kept (law 7): values beyond their bounds, undeclared keys, a person with a million rows.
One star is large enough for several threads: one thread hides what depends on the order of rows.

A unit has rows in all tables of persons at once, or in some of them. A table that reaches its persons through
a key (`Link`) holds rows that refer to the unit's own rows and come and go with it; rows that others refer to
as well, which stay; and rows that refer to nobody, which must not count until somebody claims them. Public
tables hold duplicates and NULLs, and are the same everywhere.

    homes = Neighbourhood(folder, policy, {"visits": "pid BIGINT, age INTEGER"}, seed=1)
    report = homes.check("SELECT SUM(age) FROM visits")  # raises AssertionError: it moved too far
    report.attained("l1", "presence")  # the claim is as small as it can be
    report.loose  # the claims nobody reached

The answers are secret: this is for tests, on data that tests made.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import duckdb
import numpy as np
import numpy.typing as npt

from sfumato.exact.secret import unseal
from sfumato.mechanisms import Distance
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse
from sfumato.sources.copy import Copy
from sfumato.sources.duckdb import DuckDB
from sfumato.sources.prepare import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Derivation
    from sfumato.sources.answers import Answer

Norm = Literal["l0", "l1", "l2_squared", "linf"]
NORMS: tuple[Norm, ...] = get_args(Norm)
Towards = Literal["presence", "value", "nobody"]  # nobody: rows without a unit, which must move nothing
NOTHING = Distance(l0=0)
COPIES = "prepared_"
CROWD_KEYS = 100_000  # where the keys of a crowd begin

Text = str | None  # a value as the engine reads it
Row = dict[str, Text]  # by column; a column that is missing is NULL


Vector = npt.NDArray[Any]  # of 64 bits where they suffice, else of Python's integers


def moved(a: Sequence[int], b: Sequence[int]) -> dict[Norm, int]:
    """How far two vectors lie apart, in every norm."""
    return _sizes([x - y for x, y in zip(a, b, strict=True)])


def _sizes(differences: Iterable[int]) -> dict[Norm, int]:
    steps = [abs(step) for step in differences if step]
    return {
        "l0": len(steps),
        "l1": sum(steps),
        "l2_squared": sum(step * step for step in steps),
        "linf": max(steps, default=0),
    }


def _array(vector: Sequence[int]) -> Vector:
    small = max(map(abs, vector), default=0) < 1 << 62  # so is every difference below 2^63
    return np.array(vector, dtype=np.int64 if small else object)


def _named(group: Sequence[object]) -> tuple[object, ...]:
    """A group by its name: NaN is itself, and a number is not a boolean."""
    return tuple((type(x).__name__, "nan" if x != x else x) for x in group)


# Hostile values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Domain:
    """What a column can hold to do harm, as texts that the engine casts to its type."""

    name: str
    engine_type: str
    wild: tuple[Text, ...]  # anything, NULL among it
    tops: tuple[str, ...]  # at or above the upper bound; without bounds, anything but NULL
    bottoms: tuple[str, ...]
    keys: tuple[str, ...]  # the declared ones
    bounded: bool


def domain(connection: duckdb.DuckDBPyConnection, column: DeclaredColumn, engine_type: str) -> Domain:
    """Every value worth trying that the column's type can hold."""
    kept = _fitting(connection, _candidates(column), engine_type)
    if column.kind == "integer":  # the ends of the type are found by trying
        powers = (sign * 2**bits + by for bits in range(7, 129) for sign in (1, -1) for by in (-1, 0))
        large = sorted(map(int, _fitting(connection, map(str, powers), engine_type)))
        kept |= {str(end): str(end) for end in (*large[:1], *large[-1:])}
    tops = bottoms = tuple(kept)
    if column.kind in ("date", "timestamp"):
        if ends := _ends_in_time(column):
            tops = _beyond(connection, kept, engine_type, f">= '{ends[1]}'") or tops
            bottoms = _beyond(connection, kept, engine_type, f"<= '{ends[0]}'") or bottoms
    elif column.low is not None and column.high is not None:
        worth = {text: _size(stored) for text, stored in kept.items()}
        # a type narrower than its bounds ends before them
        tops = tuple(x for x in kept if worth[x] >= min(float(column.high), max(worth.values())))
        bottoms = tuple(x for x in kept if worth[x] <= max(float(column.low), min(worth.values())))
    keys = tuple(str(key) for key in column.keys or () if str(key) in kept)
    bounded = column.low is not None or column.since is not None
    return Domain(column.name, engine_type, (None, *kept), tops, bottoms, keys, bounded)


def _fitting(connection: duckdb.DuckDBPyConnection, tried: Iterable[str], engine_type: str) -> dict[str, str]:
    """The texts that the type can hold, and what it makes of them."""
    found = connection.execute(
        f"SELECT x, TRY_CAST(x AS {engine_type})::VARCHAR FROM (SELECT UNNEST(?::VARCHAR[]) AS x)",
        [list(dict.fromkeys(tried))],
    ).fetchall()
    return {text: stored for text, stored in found if stored is not None}


def _beyond(
    connection: duckdb.DuckDBPyConnection, kept: Iterable[str], engine_type: str, test: str
) -> tuple[str, ...]:
    """The texts that the engine sorts beyond a bound."""
    found = connection.execute(
        f"SELECT x FROM (SELECT UNNEST(?::VARCHAR[]) AS x) WHERE CAST(x AS {engine_type}) {test}",
        [list(kept)],
    ).fetchall()
    return tuple(text for (text,) in found)


def _ends_in_time(column: DeclaredColumn) -> tuple[datetime.datetime, datetime.datetime] | None:
    """The first and the last moment of a date or timestamp with bounds."""
    if column.since is None or column.until is None:
        return None
    last = datetime.time() if column.kind == "date" else datetime.time.max
    midnight = datetime.time()
    return datetime.datetime.combine(column.since, midnight), datetime.datetime.combine(column.until, last)


def _candidates(column: DeclaredColumn) -> Iterator[str]:
    yield from (str(key) for key in column.keys or ())
    match column.kind:
        case "integer":
            yield from map(str, _integers(column))
        case "number":
            yield from map(repr, _numbers(column))
            yield from ("9" * digits + ".99" for digits in (3, 10, 16))  # the ends of decimals
            yield from ("-" + "9" * digits + ".99" for digits in (3, 10, 16))
        case "text":
            yield from _texts(column)
        case "boolean":
            yield from ("false", "true")
        case "date" | "timestamp":
            yield from _days(column)


def _integers(column: DeclaredColumn) -> Iterator[int]:
    yield from (0, 1, -1, 7, 42)
    for key in column.keys or ():
        assert isinstance(key, int)
        yield from (key + 1, key - 1)  # undeclared
    if column.low is not None and column.high is not None:
        for end in (int(column.low), int(column.high)):
            yield from (end - 1, end, end + 1)
        yield int(column.low + column.high) // 2
    yield from (11, 12, 13, -14, 100, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1)  # where doubles have holes


def _numbers(column: DeclaredColumn) -> Iterator[float]:
    inf = math.inf
    yield from (0.0, -0.0, 5e-324, -5e-324, 1e-300, 12.5, 1e38, -1e38, 1e308, -1e308, inf, -inf, math.nan)
    if column.low is not None and column.high is not None:
        step = 2.0**-column.exponent
        for end in (float(column.low), float(column.high)):
            yield from (end, math.nextafter(end, -inf), math.nextafter(end, inf), end - step, end + step)
            yield from (end - 1, end + 1)
        middle = float((column.low + column.high) / 2)
        yield from (middle, middle + step / 3, middle - step / 3)  # off the grid


def _texts(column: DeclaredColumn) -> Iterator[str]:
    for key in column.keys or ():
        text = str(key)
        yield from (text.lower(), text.upper(), f"{text} ", f" {text}", text * 2, text[:-1])
    yield from ("", "x", "a", "A", "B", "é", "e\u0301", "É", "ß", "SS", "O'Brien", '"', "\x01", "%", "NULL")
    yield from ("10", "9", "\U0001f600", "z" * 300)
    yield from (f"00000000-0000-0000-0000-00000000000{i}" for i in range(6))
    yield "ffffffff-ffff-ffff-ffff-ffffffffffff"


def _days(column: DeclaredColumn) -> Iterator[str]:
    for key in column.keys or ():
        assert isinstance(key, datetime.date)
        for days in (-1, 1):
            yield str(key + datetime.timedelta(days))
    if ends := _ends_in_time(column):
        for end in (*ends, ends[0] + (ends[1] - ends[0]) / 2):
            for step in ({}, {"days": 1}, {"days": -1}, {"microseconds": 1}, {"microseconds": -1}):
                yield str(end + datetime.timedelta(**step))
    yield from (
        "1970-01-01",
        "1969-12-31",
        "0001-01-01",
        "9999-12-31",
        "2024-02-29",
        "2024-06-15 12:34:56.789",
    )
    yield from ("infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)")
    yield from ("294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00")


def _size(stored: str) -> float:
    """Where the engine sorts a number: NaN above everything."""
    number = float(stored)
    return math.inf if math.isnan(number) else number


# Shapes of one unit ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What one unit can look like: rows, each so many times. The unit's own column is filled in later."""

    rows: tuple[Row, ...] = ()
    times: int = 1
    more: tuple[Row, ...] = ()  # and these, once


@dataclass(frozen=True, slots=True)
class Maker:
    """Draws rows of one table."""

    table: DeclaredTable
    domains: tuple[Domain, ...]
    rng: random.Random
    heavy: int = 20_000  # rows of one person, where a shape asks for many

    @property
    def rows_per_person(self) -> int:
        return self.table.rows_per_person or 1

    def wild(self, count: int) -> tuple[Row, ...]:
        """Rows that keep no promise of the policy."""
        return tuple({d.name: self.rng.choice(d.wild) for d in self.domains} for _ in range(count))

    def at(self, group: Mapping[str, str], ends: Sequence[str], count: int) -> tuple[Row, ...]:
        """Rows in one group whose values lie at or beyond their upper or lower bounds, in turn."""
        return tuple(self._row(group, ends[i % len(ends)]) for i in range(count))

    def _row(self, group: Mapping[str, str], end: str) -> Row:
        row: Row = {d.name: self.rng.choice(d.tops if end == "top" else d.bottoms) for d in self.domains}
        row.update(group)
        return row

    def groups(self, most: int = 240) -> tuple[dict[str, str], ...]:
        """Combinations of all declared keys: every one, or if they are too many, each key at least once.

        The first two differ in every key that has two values.
        """
        keyed = [d for d in self.domains if d.keys]
        along = max((len(d.keys) for d in keyed), default=1)
        found = [{d.name: d.keys[i % len(d.keys)] for d in keyed} for i in range(min(along, most))]
        if math.prod(len(d.keys) for d in keyed) <= most:
            for values in itertools.product(*(d.keys for d in keyed)):
                one = {d.name: value for d, value in zip(keyed, values, strict=True)}
                if one not in found:
                    found.append(one)
        return tuple(found)

    def shapes(self) -> dict[str, Shape]:
        """A person's rows, by what is special about them; those that attain claims stand first."""
        groups, rows = self.groups(), self.rows_per_person
        here, there = groups[0], groups[1 % len(groups)]
        few, times = (rows, 1) if rows <= 20 else (1, rows)
        extra = self.at(there, ["bottom"], 1)
        shapes = {
            f"{rows} rows at or above the upper bounds": Shape(self.at(here, ["top"], few), times),
            f"{rows} rows at or below the lower bounds": Shape(self.at(here, ["bottom"], few), times),
            "many rows above the upper bounds": self._many(self.at(here, ["top"], 8)),
            "many rows below the lower bounds": self._many(self.at(here, ["bottom"], 8)),
            "many rows above the upper bounds, in other groups": self._many(self.at(there, ["top"], 8)),
            "many rows below the lower bounds, in other groups": self._many(self.at(there, ["bottom"], 8)),
            "a row in each group, above": Shape(self._spread(groups, ["top"])),
            "a row in each group, below": Shape(self._spread(groups, ["bottom"])),
            "many rows in each group, mixed": self._many(self._spread(groups, ["top", "bottom"])),
            "unevenly many rows in each group, below": Shape(self._uneven(groups, ["bottom"]), few),
            "unevenly many rows in each group, above": Shape(self._uneven(groups, ["top"]), few),
            "unevenly many rows in each group, mixed": self._many(self._uneven(groups, ["top", "bottom"])),
            "seven uneven rows": Shape(self._uneven(groups[:3], ["bottom"], weights=(1, 2, 4)), few),
            "one row too many": Shape(self.at(here, ["top"], few), times, extra),
            "highs and lows that cancel": self._many(self.at(here, ["top", "bottom"], 8)),
            "wild rows in one group": self._many(tuple({**row, **here} for row in self.wild(300))),
            "wild rows in another group": self._many(tuple({**row, **there} for row in self.wild(300))),
            "wild rows": Shape(self.wild(300)),
            "one wild row": Shape(self.wild(1)),
            "a few wild rows": Shape(self.wild(few + 2)),
        }
        for each in self.domains:
            if each.bounded:
                for end, values in (("above its bound", each.tops), ("below its bound", each.bottoms)):
                    crafted = [{**row, **here, each.name: self.rng.choice(values)} for row in self.wild(60)]
                    name = f"wild rows with {self.table.name}.{each.name} {end}"
                    shapes[name] = self._many(tuple(crafted))
        empty: Row = {**dict.fromkeys(d.name for d in self.domains), **here}  # only the group is known
        shapes[f"{rows} rows of NULLs"] = Shape((empty,), rows)
        shapes["many rows of NULLs"] = self._many((empty,))
        for i in range(2):  # in one group, whatever is grouped by
            same = self.at(groups[i % len(groups)], ["top"], 1)
            shapes[f"{rows} times the same row, {i}"] = Shape(same, rows)
            shapes[f"many times the same row, {i}"] = self._many(same)
        shapes["many times the same wild row"] = self._many(self.wild(1))
        return shapes

    def single_rows(self) -> dict[str, Shape]:
        """The same for a table whose unit is the row."""
        groups = self.groups()
        here, there = groups[0], groups[1 % len(groups)]
        shapes = {}
        for where, group in (("the first group", here), ("another group", there)):
            for end, words in (("top", "above"), ("bottom", "below")):
                for i in range(2):  # the values beyond a bound are drawn: infinity once, a neighbour once
                    shapes[f"row {i} {words} the bounds in {where}"] = Shape(self.at(group, [end], 1))
        for i in range(6):
            shapes[f"wild row {i} in the first group"] = Shape(({**self.wild(1)[0], **here},))
        for i in range(6):
            shapes[f"wild row {i}"] = Shape(self.wild(1))
        shapes["a row of NULLs"] = Shape(({},))
        return shapes

    def near_bounds(self, count: int) -> tuple[Row, ...]:
        """Rows that sit at their bounds, in declared groups."""
        groups = self.groups()
        return tuple(
            self._row(self.rng.choice(groups), self.rng.choice(["top", "bottom"])) for _ in range(count)
        )

    def _many(self, rows: tuple[Row, ...]) -> Shape:
        """So many that the sum of every column reaches its cap, from the bound nearer to zero, too."""
        enough = 2
        for column in self.table.columns:
            ends = sorted(abs(end) for end in (column.low, column.high) if end)
            if ends and column.kind in ("integer", "number"):
                enough = max(enough, math.ceil(2 * ends[-1] / ends[0]))
        wanted = min(enough * self.rows_per_person, self.heavy)
        return Shape(rows, max(1, -(-wanted // len(rows))))

    def _spread(self, groups: Sequence[Mapping[str, str]], ends: Sequence[str]) -> tuple[Row, ...]:
        return tuple(self._row(group, ends[i % len(ends)]) for i, group in enumerate(groups))

    def _uneven(
        self, groups: Sequence[Mapping[str, str]], ends: Sequence[str], weights: Sequence[int] = ()
    ) -> tuple[Row, ...]:
        """Shares of a cap that are no whole numbers: whoever rounds them up exceeds it."""
        drawn = weights or [self.rng.randint(1, 7) for _ in groups]
        pairs = zip(groups, drawn, strict=False)
        return tuple(row for group, times in pairs for row in self.at(group, ends, times))


# Rows that belong to others' rows --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """A table whose rows belong to whoever has the rows of `target` that its `column` refers to."""

    table: str
    column: str
    target: str
    key: str


def links(policy: Policy) -> tuple[Link, ...]:
    """Every table that reaches its persons through another."""
    return tuple(
        Link(table.name, table.unit, *table.through)
        for table in policy.tables
        if table.through is not None and table.unit is not None
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """Values of a link: the unit's own, those of others (which the unit may claim, too), and nobody's."""

    own: tuple[str, ...]
    shared: tuple[str, ...]
    orphan: tuple[str, ...]

    def keys(self, who: str) -> tuple[Text, ...]:
        """What stands in the rows referred to."""
        return {
            "others": (*self.shared, None),
            "own": self.own,
            "one": self.own[:1],
            "claims": (*self.own, *self.shared),
            "strays": (*self.shared, None),  # whoever refers to the unit's own refers to nobody
        }[who]

    def references(self, who: str) -> tuple[Text, ...]:
        """What stands in the rows that refer."""
        if who == "others":  # the unit's own are nobody's until it comes
            return (*self.shared, *self.own, *self.orphan, None)
        return self.own[:1] if who == "one" else (*self.own, *self.own, *self.orphan, None)


MANNERS = ("own", "one", "claims", "strays")  # how a unit is linked, in turn


# Databases -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """One database of a star: the rest, and the unit in one shape."""

    schema: str
    words: str
    nobody: bool = False


@dataclass(frozen=True, slots=True)
class Star:
    """Databases that differ in one unit only; in the first it is absent."""

    words: str
    tables: frozenset[str]  # where the unit has rows; what reads none of them cannot tell the members apart
    members: tuple[Member, ...]

    def pairs(self) -> Iterator[tuple[Member, Member, Towards]]:
        """All neighbours. Whoever has no rows that count is like one who is absent: that is a value, too."""
        absent, *others = self.members
        somebody = [member for member in others if not member.nobody]
        for member in others:
            yield absent, member, "nobody" if member.nobody else "presence"
        for one, other in itertools.combinations([absent, *somebody], 2):
            yield one, other, "value"

    def sample(self, most: int | None, seed: str) -> Star:
        """At most so many of the databases; the one without the unit is always among them."""
        absent, *others = self.members
        if most is None or most >= len(self.members):
            return self
        return replace(self, members=(absent, *random.Random(seed).sample(others, most - 1)))


class _Schemas(DuckDB):
    """Many databases in one file, a schema each: a hundred engines would take a minute to open."""

    _schema = "main"

    def at(self, schema: str) -> None:
        """Ask this one from now on; cursors of another are not used again."""
        self._schema = schema
        self._idle.close()

    def _cursor(self, *, plain: bool = False) -> duckdb.DuckDBPyConnection:
        cursor = super()._cursor(plain=plain)
        cursor.execute(f"USE {self._schema}")
        return cursor


@dataclass(frozen=True, slots=True)
class Furthest:
    """The furthest that any pair moved one measure in one norm, and the claim."""

    measure: int
    towards: Towards
    norm: Norm
    found: int
    claimed: int | Fraction | None
    by: str

    @property
    def is_attained(self) -> bool:
        """The claim could not be smaller."""
        return self.claimed is not None and self.found == self.claimed


@dataclass(frozen=True, slots=True)
class Report:
    """How far a plan was moved."""

    sql: str
    plan: Plan
    moves: tuple[Furthest, ...]
    longest: float  # seconds of one database

    def furthest(self, measure: int, towards: Towards, norm: Norm) -> Furthest:
        """The one entry asked for."""
        key = (measure, towards, norm)
        return next(move for move in self.moves if (move.measure, move.towards, move.norm) == key)

    def attained(self, norm: Norm, towards: Towards) -> bool:
        """Whether some pair of neighbours moved every measure as far as claimed."""
        return not any((move.norm, move.towards) == (norm, towards) for move in self.loose)

    @property
    def loose(self) -> tuple[Furthest, ...]:
        """The claims that nobody attained."""
        return tuple(move for move in self.moves if move.claimed is not None and not move.is_attained)


class Neighbourhood:
    """Stars of neighbouring databases for one policy, on disk and open.

    `policy` has its keys filled in (`with_keys`); public tables are made of them. `columns` holds for each
    table the column definitions of CREATE TABLE. The same seed makes the same databases.
    """

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        columns: Mapping[str, str],
        seed: int,
        *,
        crowd: int = 130_000,  # rows of other people: more than one thread takes
        million: int = 1_000_000,  # rows of one person
        heavy: int = 20_000,  # rows of one person in other stars
        prepared: bool = False,  # ask copies of all databases, as `sfumato prepare` makes them
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.policy, self.seed = folder / "neighbours.duckdb", policy, seed
        self._columns, self._crowd, self._million, self._heavy = dict(columns), crowd, million, heavy
        self._rng = random.Random(seed)
        self.links = links(policy)
        with duckdb.connect(str(self.path)) as connection:
            self._connection: duckdb.DuckDBPyConnection | None = connection
            connection.begin()  # a commit for each statement would wait for the disk
            self._types = {table: self._described(table) for table in columns}
            private = [table for table in policy.tables if not table.public]
            self.makers = {table.name: self._maker(table) for table in private}
            self._pools: dict[Link, Pool] = {}
            self.public = {table.name: self._public_rows(table) for table in policy.tables if table.public}
            self.stars = tuple(self._stars())
            for schema in [member.schema for star in self.stars if prepared for member in star.members]:
                self._run(f"CREATE SCHEMA {COPIES}{schema}")
                self._run(f"USE {schema}")
                list(write(policy, self._run, COPIES + schema, "a test"))
            connection.commit()
            self._connection = None
        self._source = _Schemas(self.path)
        self.prefix = COPIES if prepared else ""
        self._source.copy = Copy.of(policy) if prepared else None

    # Asking

    @property
    def threads(self) -> int:
        """How many threads the engine runs."""
        return int(self.look("SELECT current_setting('threads')")[0][0])

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        """What SQL of ours finds in the file; schemas are written out."""
        return self._source._cursor().execute(sql).fetchall()

    def check(self, sql: str, most: int | None = None, stars: int | None = None) -> Report:
        """Ask everywhere and compare all neighbours with what the plan claims.

        With `most`, ask only so many databases of a star, and with `stars`, only so many of them; which ones
        depends on the text of the query.
        """
        plan = parse(sql, self.policy)
        return self.check_plan(plan, derive(plan), sql, most, stars)

    def check_plan(
        self,
        plan: Plan,
        derivations: Sequence[Derivation],
        sql: str,
        most: int | None = None,
        stars: int | None = None,
    ) -> Report:
        """The same for a plan and claims that come from elsewhere."""
        moves: dict[tuple[int, Towards, Norm], Furthest] = {}
        longest = 0.0
        touched = [star for star in self.stars if not plan.tables.isdisjoint(star.tables)]
        if stars is not None and stars < len(touched):
            touched = random.Random(f"{self.seed} {sql}").sample(touched, stars)
        for star in (each.sample(most, f"{self.seed} {each.words} {sql}") for each in touched):
            found = {}
            for member in star.members:
                start = time.monotonic()
                found[member.schema] = self._ask(plan, member, star, sql)
                longest = max(longest, time.monotonic() - start)
            answers = self._aligned(found, plan, star, sql)
            for one, other, towards in star.pairs():
                here, there = answers[one.schema], answers[other.schema]
                by = f"{star.words}: {one.words} [{one.schema}] -> {other.words} [{other.schema}]"
                for i, (derivation, a, b) in enumerate(zip(derivations, here, there, strict=True)):
                    claimed = NOTHING if towards == "nobody" else derivation.distances.towards(towards)
                    self._compare(moves, sql, i, towards, claimed, a, b, by)
        assert moves or plan.is_free, f"no neighbours differ in {', '.join(sorted(plan.tables))}\n{sql}"
        return Report(sql, plan, tuple(moves.values()), longest)

    def _ask(self, plan: Plan, member: Member, star: Star, sql: str) -> Answer:
        self._source.at(self.prefix + member.schema)
        try:
            return unseal(self._source.run(self._source.compile(plan)))
        except Exception as error:  # any kind: whatever depends on the data is a leak
            raise AssertionError(
                f"the engine failed\n{sql}\n{star.words}: {member.words}\n{self._where(member.schema)}"
            ) from error

    def _aligned(
        self, found: Mapping[str, Answer], plan: Plan, star: Star, sql: str
    ) -> dict[str, tuple[Vector, ...]]:
        """The answers of a star with the same groups in the same order; a group not found is zero."""
        told = f"{sql}\n{star.words}\n{self._where('some schema')}"
        groups: dict[tuple[object, ...], tuple[object, ...]] = {}
        cells = [1] * len(plan.measures)
        for answer in found.values():
            for group in answer.groups:
                name = groups.setdefault(_named(group), group)
                # two rows of one group may write its name differently: which is shown would tell of one
                assert repr(name) == repr(group), f"a group is called {name!r} and {group!r}\n{told}"
            many = Counter(map(_named, answer.groups))
            assert len(many) == len(answer.groups), f"{many.most_common(1)} in one answer\n{told}"
            assert len(answer.vectors) == len(plan.measures), f"{len(answer.vectors)} vectors\n{told}"
            for i, vector in enumerate(answer.vectors):
                if answer.groups:
                    cells[i], rest = divmod(len(vector), len(answer.groups))
                    assert not rest, f"{len(vector)} entries for {len(answer.groups)} groups\n{told}"
        place = {name: i for i, name in enumerate(groups)}
        aligned = {}
        for schema, answer in found.items():
            places = [place[_named(group)] for group in answer.groups]
            in_order = places == list(range(len(groups)))
            vectors = []
            for each, vector in zip(cells, answer.vectors, strict=True):
                assert len(vector) == each * len(places), f"{len(vector)} entries, {each} a group\n{told}"
                values = _array(vector)
                if not in_order:
                    whole = np.zeros((len(groups), each), values.dtype)
                    whole[places] = values.reshape(len(places), each)
                    values = whole.reshape(-1)
                vectors.append(values)
            aligned[schema] = tuple(vectors)
        return aligned

    def _compare(
        self,
        moves: dict[tuple[int, Towards, Norm], Furthest],
        sql: str,
        i: int,
        towards: Towards,
        claimed: Distance,
        a: Vector,
        b: Vector,
        by: str,
    ) -> None:
        differences = a - b
        steps: list[int] = differences[differences != 0].tolist()
        for norm, found in _sizes(steps).items():
            claim: int | Fraction | None = getattr(claimed, norm)
            if claim is not None and found > claim:
                raise AssertionError(
                    f"{towards} moved measure {i} by {found} in {norm}, claimed {claim}\n{sql}\n{by}\n"
                    f"answers {a.tolist()}\n    and {b.tolist()}\n{self._where('the schemas in brackets')}"
                )
            key = (i, towards, norm)
            if key not in moves or found > moves[key].found:
                moves[key] = Furthest(i, towards, norm, found, claim, by)
        if claimed.monotone:
            signs = {step < 0 for step in steps}
            assert len(signs) < 2, f"{towards} moved measure {i} both ways\n{sql}\n{by}"

    def _where(self, schema: str) -> str:
        return f"seed {self.seed}, {schema} of {self.path}"

    # Building

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        return self._connection.execute(sql, parameters).fetchall()

    def _described(self, table: str) -> dict[str, str]:
        """The columns and their types, as the engine understood them."""
        self._run(f"CREATE OR REPLACE TEMP TABLE described ({self._columns[table]})")
        return {row[0]: row[1] for row in self._run("DESCRIBE described")}

    def _maker(self, table: DeclaredTable) -> Maker:
        assert self._connection is not None
        types = self._types[table.name]
        domains = [domain(self._connection, column, types[column.name]) for column in table.columns]
        return Maker(table, tuple(domains), self._rng, self._heavy)

    def _pool(self, link: Link, who: str, others: Sequence[str]) -> Pool:
        """Values that both ends can hold; none of them stands in a crowd."""
        ends = ((link.table, link.column), (link.target, link.key))
        here, there = (
            next(each.wild for each in self.makers[table].domains if each.name == column)
            for table, column in ends
        )
        if link.key == self.owner(link.target):  # a row refers to the person's name itself
            crowd = {str(i) for i in range(self._crowd // 3 + 1)}
            strange = [x for x in here if x is not None and x not in (who, *others) and x not in crowd]
            return Pool((who,), tuple(x for x in others if x in here)[:3], tuple(strange[:2]))
        taken = range(CROWD_KEYS, CROWD_KEYS + self._crowd + 1)
        common = [x for x in here if x is not None and x in there and not (x.isdecimal() and int(x) in taken)]
        assert len(common) >= 6, f"{link} has too few values in common"
        return Pool(tuple(common[:2]), tuple(common[2:5]), tuple(common[5:7]))

    def owner(self, table: str) -> str | None:
        """The column that names the person; None where rows refer to others' or are units themselves."""
        declared = self.makers[table].table
        return None if declared.through is not None else declared.unit

    def has_persons(self, table: str) -> bool:
        """Whether rows of the table belong to persons."""
        return self.makers[table].table.unit is not None

    def linked(self, table: str, rows: Sequence[Row], manner: str) -> list[Row]:
        """The same rows, referring and referred to as somebody's are."""
        ways: list[tuple[str, tuple[Text, ...]]] = []
        for link, pool in self._pools.items():
            if link.target == table and link.key != self.owner(table):
                ways.append((link.key, pool.keys(manner)))
            if link.table == table:
                ways.append((link.column, pool.references(manner)))
        return [
            {**row, **{name: texts[i % len(texts)] for name, texts in ways}} for i, row in enumerate(rows)
        ]

    def _stars(self) -> Iterator[Star]:
        people = tuple(maker for name, maker in self.makers.items() if self.has_persons(name))
        if people:
            yield from self._stars_of_people(people)
        for name, maker in self.makers.items():
            if not self.has_persons(name):
                yield from self._stars_of_rows(maker)

    def _stars_of_people(self, makers: tuple[Maker, ...]) -> Iterator[Star]:
        """A person has rows in every table that has persons; all of them come, go or change together."""
        ids = self._ids(makers)
        shaped = {maker.table.name: maker.shapes() for maker in makers}
        names = list(dict.fromkeys(name for shapes in shaped.values() for name in shapes))
        usual = "a few wild rows"
        for i, (rest, some) in enumerate(
            [
                ("nobody else", names),
                ("wild rows of others", [*names[:12], "wild rows"]),
                ("others near their bounds", names[:9]),
                ("a crowd", names[2:4]),
            ]
        ):
            who = ids[i % len(ids)]
            others = [person for person in ids if person != who]
            words = f"{rest}, and person {who!r}"
            self._pools = {link: self._pool(link, who, others) for link in self.links}
            star = _Star(self, words, self._rest(rest, others, who))
            for name in some:
                shapes = {table: each.get(name, each[usual]) for table, each in shaped.items()}
                star.add(name, shapes, who)
            if rest == "a crowd":
                rows = {table: each[names[8]].rows for table, each in shaped.items()}
                huge = {t: Shape(each, -(-self._million // len(each))) for t, each in rows.items()}
                star.add(f"{self._million} or more rows: {names[8]}", huge, who)
            else:
                if len(makers) > 1:
                    some_tables = [{maker.table.name} for maker in makers]
                    some_tables += [{m.table.name for m in makers} - one for one in some_tables]
                    for j, tables in enumerate(some_tables):
                        name = usual if (i + j) % 2 else names[2]
                        shapes = {table: each[name] for table, each in shaped.items() if table in tables}
                        star.add(f"only in {', '.join(sorted(tables))}: {name}", shapes, who)
                for name in (names[2], names[8]):
                    unowned = {table: each[name] for table, each in shaped.items()}
                    star.add(f"rows of nobody: {name}", unowned, None)
            yield star.done()

    def _stars_of_rows(self, maker: Maker) -> Iterator[Star]:
        table = maker.table.name
        shapes = maker.single_rows()
        for rest, some in [
            ("nobody else", list(shapes)),
            ("wild rows of others", list(shapes)[:12]),
            ("others near their bounds", list(shapes)[:8]),
            ("a crowd", list(shapes)[:3]),
        ]:
            star = _Star(self, f"{rest}, and one row of {table}", self._rest(rest, (), None))
            for name in some:
                star.add(name, {table: shapes[name]}, None)
            yield star.done()

    def _ids(self, makers: Iterable[Maker]) -> list[str]:
        """Names of persons that every table can hold: the ends of their types among them."""
        names = {m.table.name: self.owner(m.table.name) for m in makers}
        for link in self.links:  # some refer to the name of a person itself
            names[link.table] = link.column if link.key == names[link.target] else None
        columns = [d for m in makers for d in m.domains if d.name == names[m.table.name]]
        common: list[str] = [x for x in columns[0].wild if x is not None]
        for each in columns[1:]:
            common = [x for x in common if x in each.wild]
        if len(common) < 6:  # numbers in one table, text in another
            common = ["7", "42", "100", "11", "12", "13"]
            assert self._connection is not None
            for each in columns:
                common = [x for x in common if x in _fitting(self._connection, common, each.engine_type)]
        assert len(common) >= 2, "the units of these tables have no values in common"
        odd = ("a", "", "é")  # beside A and É, which some collations take for the same
        large = [x for x in common if x.lstrip("-").isdecimal() and abs(int(x)) > 100]
        return list(dict.fromkeys([*(x for x in odd if x in common), *sorted(large, key=len)[::-1], *common]))

    def _rest(self, rest: str, others: Sequence[str], who: str | None) -> str:
        """A schema with the rows of all others; returns its name."""
        schema = self.new_schema()
        for maker in self.makers.values():
            table = maker.table
            unit = self.owner(table.name)
            if rest == "nobody else":  # but rows that refer to nobody
                if any(link.table == table.name for link in self.links):
                    self.insert(schema, table.name, self.linked(table.name, maker.wild(40), "others"))
                continue
            if rest == "a crowd":
                self._fill_crowd(schema, maker, who)
                continue
            near = rest == "others near their bounds"
            if unit is None:
                drawn = maker.near_bounds(60) if near else maker.wild(150)
                self.insert(schema, table.name, self.linked(table.name, drawn, "others"))
                continue
            full = min(maker.rows_per_person, 30)
            sizes = [30, full, full + 1, 0, 1, 2]
            rows: list[Row] = []
            for i, person in enumerate(others):
                count = full if near else sizes[i % len(sizes)]
                drawn = maker.near_bounds(count) if near else maker.wild(count)
                rows += [{**row, unit: person} for row in drawn]
            rows += [{**row, unit: None} for row in maker.wild(5)]
            self.insert(schema, table.name, self.linked(table.name, rows, "others"))
        return schema

    def _fill_crowd(self, schema: str, maker: Maker, who: str | None) -> None:
        """Very many rows of very many people, three each, made inside the engine from a pool of wild ones."""
        table, unit = maker.table, self.owner(maker.table.name)
        pool = self.new_schema()
        self.insert(pool, table.name, maker.wild(991))
        types = self._types[table.name]
        nobody = "NULL" if who is None else f"'{who.replace(chr(39), chr(39) * 2)}'"
        person = f"NULLIF(CAST(i // 3 AS VARCHAR), {nobody})"  # the one the star is about is not in the crowd
        made = {} if unit is None else {unit: person}
        for link in self.links:  # many keys: a few would be referred to by millions
            by_name = link.key == self.owner(link.target)
            if link.target == table.name and not by_name:
                made[link.key] = f"i + {CROWD_KEYS}"
            if link.table == table.name:
                made[link.column] = person if by_name else f"i // 2 + {CROWD_KEYS}"
        picked = [
            f"TRY_CAST({made[name]} AS {types[name]})" if name in made else f"pool.{_quoted(name)}"
            for name in types
        ]
        self._run(
            f"INSERT INTO {schema}.{_quoted(table.name)} SELECT {', '.join(picked)}"
            f" FROM range({self._crowd}) AS r(i) JOIN"
            f" (SELECT *, row_number() OVER () - 1 AS n FROM {pool}.{_quoted(table.name)}) AS pool"
            f" ON pool.n = i % 991"
        )

    def copy(self, schema: str, to: str) -> None:
        """Add the rows of one schema to another."""
        for table in map(_quoted, self.makers):
            self._run(f"INSERT INTO {to}.{table} SELECT * FROM {schema}.{table}")

    def new_schema(self) -> str:
        """Another database, with public tables only."""
        taken = self._run("SELECT COUNT(*) FROM duckdb_schemas() WHERE schema_name LIKE 'near%'")[0][0]
        schema = f"near{taken}"
        self._run(f"CREATE SCHEMA {schema}")
        for table, columns in self._columns.items():
            self._run(f"CREATE TABLE {schema}.{_quoted(table)} ({columns})")
        for table, rows in self.public.items():
            self.insert(schema, table, rows)
        return schema

    def _public_rows(self, table: DeclaredTable) -> list[Row]:
        """What everybody may know: all keys taken from here, many of them more than once, and NULLs."""
        assert self._connection is not None
        types = self._types.get(table.name, {})
        texts: dict[str, tuple[Text, ...]] = {}
        for column in table.columns:
            texts[column.name] = domain(self._connection, column, types[column.name]).wild
        length = 22 if texts else 0
        for declared in self.policy.tables:
            for column in declared.columns:
                if column.keys_from is not None and column.keys_from[0] == table.name:
                    texts[column.keys_from[1]] = (*map(str, column.keys or ()), None)
                    length = max(length, len(column.keys or ()) + 2)
        rng = random.Random(f"{self.seed} {table.name}")
        rows = [
            {name: each[i] if i < len(each) else rng.choice(each) for name, each in texts.items()}
            for i in range(length)
        ]
        return [*rows, *rows[:3], *rows[:3], {}] if texts else []

    def insert(self, schema: str, table: str, rows: Sequence[Row], times: int = 1) -> None:
        """Add rows, each so many times; the repetition happens inside the engine."""
        if not rows:
            return
        types = self._types[table]
        lists = [[row.get(name) for row in rows] for name in types]
        read = ", ".join(f"UNNEST(?::VARCHAR[]) AS c{i}" for i in range(len(types)))
        cast = ", ".join(f"TRY_CAST(c{i} AS {engine_type})" for i, engine_type in enumerate(types.values()))
        self._run(
            f"INSERT INTO {schema}.{_quoted(table)} SELECT {cast} FROM (SELECT {read}), range({times})", lists
        )


class _Star:
    """A star while it is built."""

    def __init__(self, home: Neighbourhood, words: str, rest: str) -> None:
        self._home, self._words, self._rest = home, words, rest
        self._members = [Member(rest, "absent")]
        self._tables: set[str] = set()

    def add(self, words: str, shapes: Mapping[str, Shape], who: str | None) -> None:
        """One more shape of the unit; a person called None is nobody."""
        schema = self._home.new_schema()
        first = len(self._members) % 2 == 1  # what depends on the order of rows shows when others are behind
        if not first:
            self._home.copy(self._rest, schema)
        is_person = False
        self._tables |= set(shapes)
        manner = MANNERS[len(self._members) % len(MANNERS)]
        for table, shape in shapes.items():
            unit = self._home.owner(table)
            is_person |= self._home.has_persons(table)
            for rows, times in ((shape.rows, shape.times), (shape.more, 1)):
                owned = rows if unit is None else tuple({**row, unit: who} for row in rows)
                self._home.insert(schema, table, self._home.linked(table, owned, manner), times)
        if first:
            self._home.copy(self._rest, schema)
        if self._home.links:
            words = f"{words} ({manner})"
        self._members.append(Member(schema, words, nobody=is_person and who is None))

    def done(self) -> Star:
        return Star(self._words, frozenset(self._tables), tuple(self._members))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
