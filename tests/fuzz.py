"""Random questions about random policies, against neighbours that try to break their promise.

    python -m tests.fuzz --seconds 600 --seed 7

A policy is drawn, with tables, units, caps, bounds, grids, keys and the engine's types; a `Neighbourhood` of
hostile databases is built for it; then questions are drawn from a grammar that knows the policy. Each must be
refused (`QueryRefused`, from the text and the policy alone) or accepted; every accepted plan is run on
neighbouring databases, where it must never fail and never move further than it claims. What is found is
printed with everything needed to see it again: `--world` and `--sql`.

The grammar knows kinds and ranges, so that most of what it writes should be accepted; beside it there are
seeds written by hand and texts with words lost, doubled and swapped, which must not crash anything.
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import duckdb
from tests.neighbours import Link, Neighbourhood, links
from tests.reference import Referred

from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.statement import parse
from sfumato.sources.schema import Found, kind_of, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Value
    from sfumato.queries.policy import Policy

Kind = str
INF = float("inf")
GRAMMAR = Path(__file__).parent / "seeds" / "grammar.sql"
TOO_SLOW = 10.0  # seconds for one question of one small database
TOO_LARGE = 2.0**44  # beyond this the grammar does not multiply on: sums would not fit their bits

FEATURES = (
    *("COUNT(*)", "COUNT(x)", "COUNT(DISTINCT x)", "COUNT(DISTINCT unit)", "SUM", "AVG", "SUM(DISTINCT x)"),
    *("VARIANCE", "VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "MIN", "MAX", "MEDIAN"),
    *("QUANTILE_CONT", "PERCENTILE_CONT", "MODE", "COUNT_IF", "FILTER", "COVAR_POP", "COVAR_SAMP", "CORR"),
    *("ENTROPY", "HISTOGRAM"),
    *("arithmetic on aggregates", "HAVING", "ORDER BY", "LIMIT", "GROUP BY", "GROUP BY expression"),
    *("ROLLUP", "CUBE", "WHERE", "CASE", "+", "-", "*", "/", "%", "ABS", "ROUND", "FLOOR", "CEIL", "SIGN"),
    *("LEAST", "GREATEST", "COALESCE", "NULLIF", "comparison", "BETWEEN", "IN list", "IS NULL", "AND", "OR"),
    *("NOT", "LIKE", "ILIKE", "LOWER", "UPPER", "LENGTH", "SUBSTRING", "LEFT", "RIGHT", "TRIM", "CONCAT"),
    *("||", "STARTS_WITH", "EXTRACT", "YEAR", "MONTH", "DATE_TRUNC", "DATE_DIFF", "CAST", "WIDTH_BUCKET"),
    *("subquery", "WITH", "UNION ALL", "JOIN private", "LEFT JOIN private", "FULL JOIN private"),
    *(
        "JOIN public",
        "LEFT JOIN public",
        "JOIN USING",
        "unit IN",
        "unit NOT IN",
        "IN public",
        "nested",
        "nested by key",
        "nested by more",
    ),
    *("inner COUNT", "inner COUNT(DISTINCT)", "inner SUM", "inner AVG", "inner MIN", "inner MAX"),
    *("inner BOOL_OR", "inner BOOL_AND", "DISTINCT", "link", "row unit", "private keys"),
    *("window", "window by more", "QUALIFY", "inner ARG_MIN", "inner ARG_MAX", "inner FIRST", "inner LAST"),
)


class Query(str):
    """A question, and what of the surface it uses."""

    features: frozenset[str] = frozenset()


# Random policies -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """A policy, and the tables it speaks of as the engine declares them."""

    text: str
    policy: Policy
    columns: dict[str, str]


def world(text: str, columns: dict[str, str], keys: dict[tuple[str, str], tuple[Value, ...]]) -> World:
    """The policy that a text declares; `keys` are what its public tables hold."""
    policy = policies.parse(text, Path("fuzz.toml")).with_keys(
        lambda table, column, _kind, _most: keys.get((table, column), ())
    )
    return World(text, policy.with_scales(_scales(columns)), columns)


def _scales(columns: dict[str, str]) -> dict[tuple[str, str], int]:
    """How many decimals the columns have that are no doubles."""
    with duckdb.connect() as connection:
        for table, declared in columns.items():
            connection.execute(f"CREATE TABLE {quoted(table)} ({declared})")
        listed = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'"
        rows = connection.execute(listed).fetchall()
    found = {(table, name): scale_of(Found(name, kind, kind_of(kind))) for table, name, kind in rows}
    return {name: scale for name, scale in found.items() if scale is not None}


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UTINYINT")
_RANGES = (
    (0, 120),
    (-10, 10),
    (5, 10),
    (-10, -3),
    (0, 1),
    (0, 10**6),
    (-1, 10**9),
    (-(2**53) + 1, 2**53 - 1),
)
_SPANS = ((0, 5000), (-40.5, 45), (0.1, 0.7), (-1e9, 1e9), (2, 3), (-1000, -999.5), (0, 1), (0, 1e-3))
_TEXTS = (["A", "B", "C", "O'Brien"], ["x"], ["a", "A", "é", "É", ""], ["10", "9", "NULL", "%"])
_NAMES = (
    "age",
    "cost",
    "ward",
    "Note",
    "day",
    "seen",
    "urgent",
    "score",
    "odd name",
    "select",
    "größe",
    "x",
    "y",
)


@dataclass(slots=True)
class _Author:
    """Writes one policy."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[Value, ...]] = field(default_factory=dict)

    def write(self) -> World:
        rng = self.rng
        budget = rng.choice(['rho = "1"\ndelta = "1e-6"', 'epsilon = "1"\ndelta = "1e-6"', 'epsilon = "1"'])
        self.lines += ["[source]", 'duckdb = "fuzz.duckdb"', "[budget]", budget]
        public = [f"public{i}" for i in range(rng.choice([0, 1, 1, 2]))]
        persons = [f"{name}" for name in ("visits", "stays", "Drugs")[: rng.choice([1, 2, 2, 3])]]
        for name in public:
            self._public(name)
        kind, other = rng.sample(["integer", "text"], 2)
        one_name, one_kind = rng.random() < 0.5, rng.random() < 0.95
        units = {
            name: (
                "pid" if one_name else ("pid", "who", "Patient No")[i],
                kind if one_kind or not i else other,
            )
            for i, name in enumerate(persons)
        }
        children: list[Link] = []
        for name in ("labs", "results"):
            if rng.random() < 0.35:
                target = rng.choice([*persons, *(link.table for link in children)])
                column = f"{target.lower()}_id"
                by_name = target in units and rng.random() < 0.3  # the key is the person's name itself
                children.append(Link(name, column, target, units[target][0] if by_name else column))
        keys = {link.target: rng.choice(["integer", "text"]) for link in children}
        for name in [*persons, *(link.table for link in children)]:
            named = dict([units[name]]) if name in units else {}
            unit = units[name][0] if name in units else ""
            for link in children:
                own = units.get(link.target, ("", ""))
                its = own[1] if link.key == own[0] else keys[link.target]
                if name == link.target:
                    named.setdefault(link.key, its)
                if name == link.table:
                    named[link.column] = its
                    unit = f"{link.column} -> {link.target}.{link.key}"
            extra = [(column, its, self._name_type(its)) for column, its in named.items()]
            rows = rng.choice([1, 2, 3, 4, 10, 1000])
            self._table(name, f'unit = "{unit}"\nrows_per_person = {rows}', extra, public)
        if rng.random() < 0.3:
            self._table("beds", 'unit = "row"', [], public)
        return world("\n".join(self.lines) + "\n", self.columns, self.keys)

    def _name_type(self, kind: str) -> str:
        wide = ("BIGINT", "INTEGER", "BIGINT", "HUGEINT", "SMALLINT")
        return self.rng.choice(
            wide if kind == "integer" else ("VARCHAR", "VARCHAR", "VARCHAR COLLATE NOCASE")
        )

    def _public(self, name: str) -> None:
        rng = self.rng
        kind, engine_type = rng.choice([("text", "VARCHAR"), ("integer", "INTEGER"), ("date", "DATE")])
        codes: dict[str, tuple[Value, ...]] = {
            "text": ("A", "B", "C"),
            "integer": (1, 2, 3),
            "date": (datetime.date(2024, 1, 1), datetime.date(2024, 6, 15)),
        }
        self.keys[name, "code"] = codes[kind]
        body = [f'code = {{ type = "{kind}" }}', 'region = { type = "text", keys = ["north", "south"] }']
        body.append('factor = { type = "integer", low = -5, high = 20 }')
        self.columns[name] = f"code {engine_type}, region VARCHAR, factor INTEGER"
        self.lines += [f"[tables.{name}]", "public = true", f"[tables.{name}.columns]", *body]

    def _table(self, name: str, head: str, extra: list[tuple[str, str, str]], public: list[str]) -> None:
        rng = self.rng
        self.lines += [f"[tables.{name}]", head, f"[tables.{name}.columns]"]
        types: list[str] = []
        for column, kind, engine_type in extra:
            more = ""
            if rng.random() < 0.1:  # what names a person may be declared like any column
                more = ", low = 0, high = 50" if kind == "integer" else ', keys = ["a", "A"]'
            self.lines.append(f'"{column}" = {{ type = "{kind}"{more} }}')
            types.append(f'"{column}" {engine_type}')
        for column in rng.sample(_NAMES, rng.randint(2, 6)):
            declared, engine_type = self._column(public)
            self.lines.append(f'"{column}" = {{ {declared} }}')
            types.append(f'"{column}" {engine_type}')
        self.columns[name] = ", ".join(types)

    def _column(self, public: list[str]) -> tuple[str, str]:
        rng = self.rng
        kind = rng.choice(
            ["integer", "integer", "number", "number", "text", "text", "boolean", "date", "timestamp"]
        )
        declared, roll = [f'type = "{kind}"'], rng.random()
        if kind == "integer":
            if roll < 0.7:
                low, high = rng.choice(_RANGES)
                declared.append(f"low = {low}, high = {high}")
            if roll > 0.6:
                declared.append(f"keys = {rng.choice([[1, 2, 3], [-128, 127], [0], list(range(40))])}")
            return ", ".join(declared), rng.choice(_INTEGERS)
        if kind == "number":
            if roll < 0.9:
                span = rng.choice(_SPANS)
                declared.append(f"low = {span[0]}, high = {span[1]}")
                if roll < 0.3:
                    declared.append(f'grid = "{rng.choice(["1/4", "1/1024", "1/2"])}"')
                    declared[1] = "low = -3, high = 8"
            return ", ".join(declared), rng.choice(
                ["DOUBLE", "DOUBLE", "FLOAT", "DECIMAL(12, 2)", "DECIMAL(38, 10)"]
            )
        if kind == "text":
            from_table = [table for table in public if type(self.keys[table, "code"][0]) is str]
            if roll < 0.3 and from_table:
                declared.append(f'keys = "{rng.choice(from_table)}.code"')
            elif roll < 0.75:
                keys = rng.choice(_TEXTS)
                declared.append("keys = [" + ", ".join(f'"{key}"' for key in keys) + "]")
            return ", ".join(declared), rng.choice(["VARCHAR", "VARCHAR", "VARCHAR COLLATE NOCASE"])
        if kind == "date" and roll < 0.3:
            declared.append("keys = [2024-01-01, 2024-06-15]")
        elif kind in ("date", "timestamp") and roll < 0.8:
            declared.append(f"low = {rng.choice(['2024-01-01', '1900-01-01'])}, high = 2024-12-31")
        return ", ".join(declared), kind.upper()


def random_world(seed: object) -> World:
    """Some policy; the same seed makes the same."""
    return _Author(random.Random(f"world {seed}")).write()


# The grammar -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """A piece of SQL on one row, its kind, and the range it can have as far as the grammar follows it."""

    sql: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    keys: tuple[Value, ...] | None = None
    name: str = ""
    role: str = ""  # unit, link, or nothing

    @property
    def is_bounded(self) -> bool:
        return self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True)
class Relation:
    """Something to select from: its text in FROM, and its columns."""

    sql: str
    columns: tuple[Expr, ...]
    owner: str  # person, row or public
    rows: int = 1  # of one person, as far as declared
    direct: bool = False  # a table, not a query

    @property
    def unit(self) -> Expr | None:
        return next((column for column in self.columns if column.role == "unit"), None)


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = {"select", "day", "order", "group", "where"}


def quoted(name: str) -> str:
    """A name as SQL wants it."""
    plain = _PLAIN.fullmatch(name) and name not in _WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A value as SQL writes it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


HOSTILE = {
    "integer": (
        *("0", "-1", "9223372036854775807", "-9223372036854775808", "1e308", "-0.0", "1e-320", "0.1"),
        *("9007199254740993", "170141183460469231731687303715884105727", "1e400", "00012", "NULL"),
    ),
    "number": ("0.0", "-0.0", "1e308", "-1e308", "5e-324", "0.1", "1e999", "9007199254740993", "NULL"),
    "text": (
        *("''", "'O''Brien'", "'%'", "'_'", r"'\'", "'é'", "'ß'", "'SS'", "'a'", "'10'", "'NULL'", "NULL"),
        *(f"'{'z' * 300}'", "'\U0001f600'", "'--'", "';'", "'/*'"),
    ),
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'", "'2024-02-29'", "DATE '1970-01-01'", "NULL"),
    "timestamp": ("TIMESTAMP '2024-06-15 12:34:56.789'", "'2024-02-29'", "DATE '2024-03-31'", "NULL"),
    "boolean": ("TRUE", "FALSE", "NULL"),
}
PATTERNS = ("%", "_", "A%", "%b%", "", "O'B%", r"\%", "%%", "a_c%", "é%", "[a]%", "%" * 20 + "x")


@dataclass(slots=True)
class Grammar:
    """Writes questions about one policy."""

    policy: Policy
    rng: random.Random
    wild: float = 0.03  # how often a literal is hostile
    tied: ClassVar[bool] = True  # whether windows may leave open which row comes first
    used: set[str] = field(default_factory=set)
    links: tuple[Link, ...] = field(init=False)
    _tables: list[str] = field(default_factory=list)  # of WITH
    _count: int = 0

    def __post_init__(self) -> None:
        self.links = links(self.policy)

    def query(self) -> Query:
        """One statement."""
        self.used, self._tables, self._count = set(), [], 0
        body = self._select(self._relation(self.rng.choice([0, 0, 0, 1, 1, 2])))
        if self._tables:
            body = f"WITH {', '.join(self._tables)} {body}"
        query = Query(body)
        query.features = frozenset(self.used)
        return query

    # small helpers

    def _use(self, feature: str) -> None:
        self.used.add(feature)

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def _often(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _pick(self, ways: dict[Callable[[], Expr], float]) -> Expr:
        return self.rng.choices(list(ways), list(ways.values()))[0]()

    # the statement

    def _select(self, relation: Relation) -> str:
        columns = relation.columns
        where = self._where(relation, 0.5)
        if relation.owner == "row":
            self._use("row unit")
        keys = self._keys(columns) if self._often(0.55) else []
        aggregates = [self._aggregate(relation) for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3]))]
        outputs, names = [], []
        for key in keys:
            if self._often(0.85):
                names.append(self._name("k"))
                outputs.append(f"{key} AS {names[-1]}")
        for aggregate in aggregates:
            names.append(self._name("m"))
            outputs.append(f"{aggregate} AS {names[-1]}")
        sql = f"SELECT {', '.join(outputs)} FROM {relation.sql}{where}{self._group(keys)}"
        if keys and self._often(0.15):
            self._use("HAVING")
            sql += (
                f" HAVING {self.rng.choice(aggregates)} {self.rng.choice(['>', '<=', '<>'])} {self._small()}"
            )
        if self._often(0.2):
            self._use("ORDER BY")
            by = self.rng.choice([*names, self.rng.choice(aggregates)])
            sql += f" ORDER BY {by}{self.rng.choice(['', ' DESC', ' ASC'])}"
            if self._often(0.5):
                self._use("LIMIT")
                sql += f" LIMIT {self.rng.choice([1, 2, 5, 100])}"
        return sql

    def _where(self, relation: Relation, chance: float) -> str:
        if not self._often(chance):
            return ""
        self._use("WHERE")
        parts = [self._condition(relation.columns, 2) for _ in range(self.rng.choice([1, 1, 2]))]
        if self._often(0.2):
            parts.append(self._membership(relation))
        return " WHERE " + " AND ".join(part for part in parts if part)

    def _membership(self, relation: Relation) -> str:
        """unit IN (SELECT unit FROM ...), or x IN (SELECT y FROM public)."""
        unit = relation.unit
        others = [table for table in self.policy.tables if table.unit and table.through is None]
        if unit is not None and others and self._often(0.6):
            word = self.rng.choice(["IN", "IN", "NOT IN"])
            self._use(f"unit {word}")
            inner = self._relation(0, self.rng.choice(others))
            assert inner.unit is not None
            more = self._where(inner, 0.6)
            return f"{unit.sql} {word} (SELECT {inner.unit.sql} FROM {inner.sql}{more})"
        for table in self.policy.tables:
            if table.public and table.columns:
                column = table.columns[0]
                same = [each for each in relation.columns if each.kind == column.kind and each.sql]
                if same:
                    self._use("IN public")
                    word = self.rng.choice(["IN", "IN", "NOT IN"])
                    where = f" WHERE {quoted(table.columns[-1].name)} > 3" if self._often(0.3) else ""
                    name = f"{quoted(column.name)} FROM {quoted(table.name)}"
                    return f"{self.rng.choice(same).sql} {word} (SELECT {name}{where})"
        return "TRUE"

    def _keys(self, columns: Sequence[Expr]) -> list[str]:
        keyed = [each for each in columns if each.keys]
        found: list[str] = []
        for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3])):
            if keyed and self._often(0.6):
                found.append(self.rng.choice(keyed).sql)
            else:
                found.append(self._group_expression(columns))
        return list(dict.fromkeys(found))

    def _group_expression(self, columns: Sequence[Expr]) -> str:
        self._use("private keys")
        plain = [each for each in columns if each.kind in ("text", "date", "boolean") and not each.role]
        if plain and self._often(0.3):
            return self.rng.choice(plain).sql
        self._use("GROUP BY expression")
        kind = self.rng.choice(["text", "integer", "integer", "boolean", "date"])
        if kind == "boolean" or not any(each.kind in ("date", "timestamp") for each in columns):
            return f"({self._condition(columns, 1)})"
        return self._value(columns, kind, 2).sql

    def _group(self, keys: list[str]) -> str:
        if not keys:
            return ""
        self._use("GROUP BY")
        roll = self.rng.random()
        if roll < 0.12:
            self._use("ROLLUP")
            return f" GROUP BY ROLLUP ({', '.join(keys)})"
        if roll < 0.2 and len(keys) < 3:
            self._use("CUBE")
            return f" GROUP BY CUBE ({', '.join(keys)})"
        return f" GROUP BY {', '.join(keys)}"

    def _small(self) -> str:
        return self.rng.choice(["0", "1", "10", "-3", "2.5", "100", "1e3"])

    # aggregates

    def _aggregate(self, relation: Relation) -> str:
        one = self._plain_aggregate(relation)
        if self._often(0.15) and not one.startswith(("MODE", "HISTOGRAM")):
            self._use("arithmetic on aggregates")
            other = self._plain_aggregate(relation) if self._often(0.6) else self._small()
            other = self._small() if other.startswith(("MODE", "HISTOGRAM")) else other
            one = f"{one} {self.rng.choice('+-*/')} {other}"
            if self._often(0.2):
                one = f"100 * ({one})"
        return one

    def _plain_aggregate(self, relation: Relation) -> str:
        columns, rng = relation.columns, self.rng
        forms = [
            ("COUNT(*)", 4),
            ("COUNT(x)", 2),
            ("COUNT(DISTINCT x)", 1),
            ("SUM(DISTINCT x)", 0.6),
            ("COUNT(DISTINCT unit)", 2 if relation.unit else 0),
            ("SUM", 4),
            ("AVG", 3),
            *(
                (name, 0.5)
                for name in ("VARIANCE", "VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP")
            ),
            *((name, 0.8) for name in ("MIN", "MAX", "MEDIAN", "QUANTILE_CONT", "PERCENTILE_CONT", "MODE")),
            ("COUNT_IF", 1),
            ("ENTROPY", 0.5),
            ("HISTOGRAM", 0.3),
            *((name, 0.6) for name in ("COVAR_POP", "COVAR_SAMP", "CORR")),
        ]
        form = rng.choices([name for name, _ in forms], [weight for _, weight in forms])[0]
        self._use(form)
        at = rng.choice(["0.5", "0.9", "0.25", "0.01", "0.99"])
        if form == "COUNT(*)":
            sql = rng.choice(["COUNT(*)", "COUNT(*)", "COUNT(1)"])
        elif form == "COUNT(x)":
            sql = f"COUNT({self._any_value(columns).sql})"
        elif form == "COUNT(DISTINCT x)":
            sql = f"COUNT(DISTINCT {self._any_value(columns).sql})"
        elif form == "SUM(DISTINCT x)":
            sql = f"SUM(DISTINCT {self._step(columns, 1).sql})"
        elif form == "COUNT(DISTINCT unit)":
            assert relation.unit is not None
            sql = f"COUNT(DISTINCT {relation.unit.sql})"
        elif form == "COUNT_IF":
            sql = f"COUNT_IF({self._condition(columns, 1)})"
        elif form == "QUANTILE_CONT":
            sql = f"QUANTILE_CONT({self._number(columns, 1).sql}, {at})"
        elif form == "PERCENTILE_CONT":
            sql = f"PERCENTILE_CONT({at}) WITHIN GROUP (ORDER BY {self._number(columns, 1).sql})"
        elif form in ("COVAR_POP", "COVAR_SAMP", "CORR"):
            sql = f"{form}({self._number(columns, 1).sql}, {self._number(columns, 1).sql})"
        elif form in ("MODE", "ENTROPY", "HISTOGRAM"):
            keyed = [each for each in columns if each.keys]
            value = rng.choice(keyed) if keyed and self._often(0.7) else self._any_value(columns)
            sql = f"{form}({value.sql})"
        else:
            sql = f"{form}({self._number(columns, rng.choice([0, 1, 2])).sql})"
        if self._often(0.12):
            self._use("FILTER")
            sql += f" FILTER (WHERE {self._condition(columns, 1)})"
        return sql

    # values

    def _any_value(self, columns: Sequence[Expr]) -> Expr:
        plain = [each for each in columns if not each.role]
        if plain and self._often(0.7):
            return self.rng.choice(plain)
        return self._value(columns, self.rng.choice(["integer", "text", "date"]), 1)

    def _value(self, columns: Sequence[Expr], kind: Kind, depth: int) -> Expr:
        if kind == "text":
            return self._text(columns, depth)
        if kind in ("date", "timestamp"):
            return self._day(columns, depth)
        if kind == "boolean":
            return Expr(f"({self._condition(columns, depth)})", "boolean")
        return self._step(columns, depth)

    def _constant(self, kind: Kind, near: Expr | None = None) -> str:
        rng = self.rng
        if self._often(self.wild):
            return rng.choice(HOSTILE[kind])
        if near is not None and near.keys and self._often(0.7):
            return literal(rng.choice(near.keys))
        if kind in ("integer", "number"):
            ends = [end for end in (near.low, near.high) if end is not None] if near is not None else []
            if ends and self._often(0.5):
                end = rng.choice([*ends, sum(ends) / len(ends)])
                if end != end or abs(end) > 1e300:  # the ends were infinite
                    return "0"
                return str(int(end)) if kind == "integer" or end == int(end) else repr(end)
            return str(
                rng.choice(
                    [0, 1, 2, 3, 7, 10, 42, -1, -5, 100] if kind == "integer" else [0.5, 1.25, -2.5, 10]
                )
            )
        if kind == "text":
            return rng.choice(["'A'", "'B'", "'x'", "'a'", "'north'", "'O''Brien'", "''", "'10'"])
        if kind == "boolean":
            return rng.choice(["TRUE", "FALSE"])
        day = rng.choice(["2024-01-01", "2024-06-15", "2024-12-31", "2000-02-29", "1999-12-31"])
        return (
            f"DATE '{day}'"
            if kind == "date"
            else f"TIMESTAMP '{day} {rng.choice(['00:00:00', '23:59:59.5'])}'"
        )

    def _number(self, columns: Sequence[Expr], depth: int) -> Expr:
        """A number with a range; of a grid that need not be whole."""
        found = self._numeric(columns, depth)
        if found.low is None or found.high is None or max(-found.low, found.high) > TOO_LARGE:
            self._use("LEAST")
            self._use("GREATEST")
            return Expr(f"GREATEST(LEAST({found.sql}, 100), 0)", found.kind, 0, 100)
        return found

    def _numeric(self, columns: Sequence[Expr], depth: int) -> Expr:
        bounded = [e for e in columns if e.kind in ("integer", "number") and e.is_bounded]
        if bounded and (depth <= 0 or self._often(0.35)):
            return self.rng.choice(bounded)
        if depth <= 0:
            self._use("CASE")
            return Expr(f"CASE WHEN {self._condition(columns, 0)} THEN 1 ELSE 0 END", "integer", 0, 1)
        ways: dict[Callable[[], Expr], float] = {
            lambda: self._arithmetic(columns, depth): 5,
            lambda: self._function(columns, depth): 4,
            lambda: self._step(columns, depth): 2,
            lambda: self._case(columns, depth): 2,
        }
        return self._pick(ways)

    def _arithmetic(self, columns: Sequence[Expr], depth: int) -> Expr:
        operator = self.rng.choice("++--**//%%")
        self._use(operator)
        a = self._number(columns, depth - 1)
        if operator == "%" and a.kind == "number" and self._often(0.9):
            self._use("FLOOR")
            a = Expr(f"FLOOR({a.sql})", "integer", a.low, a.high)
        assert a.low is not None
        assert a.high is not None
        kind = "number" if operator == "/" else a.kind
        if operator in "/%":
            divisor = self.rng.choice(["2", "10", "3", "7", "-4", "0.5" if operator == "/" else "5"])
            if self._often(0.1):
                divisor = self.rng.choice(["0", "0.0", self._number(columns, depth - 1).sql])
                return Expr(f"({a.sql} {operator} {divisor})", kind)
            by = abs(float(divisor))
            if operator == "%":
                return Expr(f"({a.sql} % {divisor})", kind, -by, by)
            reach = max(abs(a.low), abs(a.high)) / by
            return Expr(f"({a.sql} / {divisor})", kind, -reach, reach)
        if self._often(0.4):
            b = Expr(text := self._constant("integer", a), "integer", low=(value := _float(text)), high=value)
        else:
            b = self._number(columns, depth - 1)
        assert b.low is not None
        assert b.high is not None
        ends = {
            "+": [a.low + b.low, a.high + b.high],
            "-": [a.low - b.high, a.high - b.low],
            "*": [x * y for x in (a.low, a.high) for y in (b.low, b.high)],
        }[operator]
        kind = "number" if "number" in (a.kind, b.kind) else "integer"
        return Expr(f"({a.sql} {operator} {b.sql})", kind, min(ends), max(ends))

    def _function(self, columns: Sequence[Expr], depth: int) -> Expr:
        a = self._number(columns, depth - 1)
        assert a.low is not None
        assert a.high is not None
        reach = max(-a.low, a.high)
        name = self.rng.choice(
            ["ABS", "ROUND", "FLOOR", "CEIL", "SIGN", "LEAST", "GREATEST", "COALESCE", "NULLIF", "CAST", "-"]
        )
        self._use(name)
        if name == "ROUND":
            digits = self.rng.choice(["", ", 0", ", 1", ", 2", ", -1"])
            return Expr(f"ROUND({a.sql}{digits})", a.kind, -reach - 10, reach + 10)
        if name in ("LEAST", "GREATEST"):
            b = self._number(columns, depth - 1)
            assert b.low is not None
            assert b.high is not None
            kind = "number" if "number" in (a.kind, b.kind) else "integer"
            return Expr(f"{name}({a.sql}, {b.sql})", kind, min(a.low, b.low), max(a.high, b.high))
        if name in ("COALESCE", "NULLIF"):
            text = self._constant("integer", a)
            value = _float(text)
            return Expr(f"{name}({a.sql}, {text})", a.kind, min(a.low, value), max(a.high, value))
        if name == "CAST":
            engine_type, kind = self.rng.choice(
                [("DOUBLE", "number"), ("INTEGER", "integer"), ("BIGINT", "integer")]
            )
            return Expr(f"CAST({a.sql} AS {engine_type})", kind, a.low - 1, a.high + 1)
        if name == "-":
            return Expr(f"(-{a.sql})", a.kind, -a.high, -a.low)
        kind = "integer" if name == "SIGN" else a.kind
        return Expr(f"{name}({a.sql})", kind, -reach - 1, reach + 1)

    def _step(self, columns: Sequence[Expr], depth: int) -> Expr:
        """A whole number of few values: what one groups by."""
        name = self.rng.choice(
            ["FLOOR", "EXTRACT", "EXTRACT", "YEAR", "MONTH", "DATE_DIFF", "WIDTH_BUCKET", "LENGTH", "CASE"]
        )
        days = [each for each in columns if each.kind in ("date", "timestamp")]
        if name in ("EXTRACT", "YEAR", "MONTH", "DATE_DIFF") and not days:
            name = "WIDTH_BUCKET"
        self._use(name)
        if name == "FLOOR":
            self._use("/")
            width = self.rng.choice(["10", "5", "100", "1000"])
            return Expr(f"FLOOR({self._number(columns, depth - 1).sql} / {width})", "number", -1e9, 1e9)
        if name == "EXTRACT":
            part, low, high = self.rng.choice(
                [
                    ("YEAR", 1, 9999),
                    ("QUARTER", 1, 4),
                    ("MONTH", 1, 12),
                    ("DAY", 1, 31),
                    ("WEEK", 1, 53),
                    ("DOW", 0, 6),
                    ("HOUR", 0, 23),
                ]
            )
            only = [each for each in days if each.kind == "timestamp"] if part == "HOUR" else days
            return Expr(f"EXTRACT({part} FROM {self.rng.choice(only or days).sql})", "integer", low, high)
        if name in ("YEAR", "MONTH"):
            return Expr(f"{name}({self._day(columns, depth - 1).sql})", "integer", 1, 9999)
        if name == "DATE_DIFF":
            unit = self.rng.choice(["day", "day", "month", "year", "quarter", "hour"])
            one, other = self.rng.choice(days), self.rng.choice(days)
            second = (
                other.sql if other.sql != one.sql and other.kind == one.kind else self._constant(one.kind)
            )
            reach = 4e6 if one.is_bounded and other.is_bounded else None
            sql = f"DATE_DIFF('{unit}', {one.sql}, {second})"
            return Expr(sql, "integer", None if reach is None else -reach, reach)
        if name == "WIDTH_BUCKET":
            a = self._number(columns, depth - 1)
            assert a.low is not None
            assert a.high is not None
            start, end = (a.low, a.high) if self._often(0.6) else (0.0, 10.0)
            count = self.rng.choice([1, 4, 10, 30])
            ends = f"{_shown(start)}, {_shown(end if end > start else start + 1)}"
            return Expr(f"WIDTH_BUCKET({a.sql}, {ends}, {count})", "integer", 0, count + 1)
        if name == "LENGTH":
            return Expr(f"LENGTH({self._text(columns, depth - 1).sql})", "integer", 0, None)
        return self._case(columns, depth)

    def _case(self, columns: Sequence[Expr], depth: int) -> Expr:
        self._use("CASE")
        if self._often(0.6):
            a, b = (self.rng.choice(["0", "1", "2", "5", "-1"]) for _ in range(2))
            other = self.rng.choice([f" ELSE {b}", f" ELSE {b}", "", " ELSE NULL"])
            if self._often(0.3):
                other = f" WHEN {self._condition(columns, 0)} THEN 3{other}"
            return Expr(
                f"CASE WHEN {self._condition(columns, depth - 1)} THEN {a}{other} END", "integer", -1, 5
            )
        one, two = self._number(columns, depth - 1), self._number(columns, depth - 1)
        assert one.low is not None
        assert one.high is not None
        assert two.low is not None
        assert two.high is not None
        kind = "number" if "number" in (one.kind, two.kind) else "integer"
        sql = f"CASE WHEN {self._condition(columns, depth - 1)} THEN {one.sql} ELSE {two.sql} END"
        return Expr(sql, kind, min(one.low, two.low), max(one.high, two.high))

    def _text(self, columns: Sequence[Expr], depth: int) -> Expr:
        texts = [each for each in columns if each.kind == "text" and not each.role]
        if not texts or (depth <= 0 and self._often(0.1)):
            printed = [each for each in columns if each.kind in ("integer", "boolean", "date")]
            if printed and self._often(0.5):
                self._use("CAST")
                return Expr(f"CAST({self.rng.choice(printed).sql} AS VARCHAR)", "text")
            self._use("CASE")
            return Expr(f"CASE WHEN {self._condition(columns, 0)} THEN 'yes' ELSE 'no' END", "text")
        if depth <= 0 or self._often(0.3):
            return self.rng.choice(texts)
        inner = self._text(columns, depth - 1).sql
        name = self.rng.choice(
            ["LOWER", "UPPER", "SUBSTRING", "LEFT", "RIGHT", "TRIM", "CONCAT", "||", "COALESCE", "CASE"]
        )
        self._use(name)
        count = self.rng.choice([1, 1, 2, 3, 100] if not self._often(self.wild) else [0, -1, 10**6])
        if name == "SUBSTRING":
            sql = self.rng.choice([f"SUBSTRING({inner}, 1, {count})", f"SUBSTRING({inner}, 2, {count})"])
        elif name in ("LEFT", "RIGHT"):
            less = [-1, -3, "STRPOS('a,b', 'a') - 3", f"STRPOS({inner}, 'a') - 1"]
            sql = f"{name}({inner}, {self.rng.choice(less) if self._often(0.3) else count})"
        elif name in ("CONCAT", "||"):
            other = self._text(columns, depth - 1).sql if self._often(0.4) else self._constant("text")
            sql = f"CONCAT({inner}, {other})" if name == "CONCAT" else f"({inner} || {other})"
        elif name == "COALESCE":
            sql = f"COALESCE({inner}, {self._constant('text')})"
        elif name == "CASE":
            sql = f"CASE WHEN {self._condition(columns, depth - 1)} THEN {inner} ELSE 'other' END"
        else:
            sql = f"{name}({inner})"
        return Expr(sql, "text")

    def _day(self, columns: Sequence[Expr], depth: int) -> Expr:
        days = [each for each in columns if each.kind in ("date", "timestamp")]
        if not days:
            return Expr(self._constant("date"), "date")
        one = self.rng.choice(days)
        if depth <= 0 or self._often(0.4):
            return one
        if self._often(0.75):
            self._use("DATE_TRUNC")
            unit = self.rng.choice(["month", "month", "year", "quarter", "week", "day"])
            return Expr(f"DATE_TRUNC('{unit}', {one.sql})", one.kind)
        self._use("CAST")
        return Expr(f"CAST({one.sql} AS DATE)", "date")

    # conditions

    def _condition(self, columns: Sequence[Expr], depth: int) -> str:
        if depth > 0 and self._often(0.35):
            word = self.rng.choice(["AND", "OR", "OR", "NOT"])
            self._use(word)
            if word == "NOT":
                return f"NOT ({self._condition(columns, depth - 1)})"
            return f"({self._condition(columns, depth - 1)} {word} {self._condition(columns, depth - 1)})"
        subject = self.rng.choice([each for each in columns if not each.role] or columns)
        if depth > 0 and self._often(0.5):
            subject = self._value(columns, subject.kind, depth - 1)
            if subject.kind in ("integer", "number"):
                subject = self._numeric(columns, depth - 1)
        return self._test(subject, columns)

    def _test(self, x: Expr, columns: Sequence[Expr]) -> str:
        if x.kind == "boolean" and self._often(0.6):
            return self.rng.choice([x.sql, f"{x.sql} IS TRUE", f"NOT {x.sql}"])
        forms = ["comparison", "comparison", "comparison", "BETWEEN", "IN list", "IS NULL"]
        if x.kind == "text":
            forms += ["LIKE", "ILIKE", "STARTS_WITH"]
        form = self.rng.choice(forms)
        self._use(form)
        one, two = self._constant(x.kind, x), self._constant(x.kind, x)
        if form == "comparison":
            operator = self.rng.choice(["=", "<>", "<", "<=", ">", ">=", "!="])
            same = [each for each in columns if each.kind == x.kind and not each.role]
            if same and self._often(0.2):
                one = self.rng.choice(same).sql
            return f"{x.sql} {operator} {one}"
        if form == "BETWEEN":
            return f"{x.sql} {self.rng.choice(['', 'NOT '])}BETWEEN {one} AND {two}"
        if form == "IN list":
            return f"{x.sql} {self.rng.choice(['', 'NOT '])}IN ({one}, {two}, {self._constant(x.kind, x)})"
        if form == "IS NULL":
            return f"{x.sql} IS {self.rng.choice(['', 'NOT '])}NULL"
        if form == "STARTS_WITH":
            return f"STARTS_WITH({x.sql}, {one})"
        pattern = literal(self.rng.choice(PATTERNS))
        return f"{x.sql} {self.rng.choice(['', 'NOT '])}{form} {pattern}"

    # relations

    def _relation(self, depth: int, table: DeclaredTable | None = None) -> Relation:
        private = [each for each in self.policy.tables if not each.public]
        if depth <= 0 or table is not None:
            return self._table(table or self.rng.choice(private), self._often(0.3))
        ways = {
            self._projection: 2.0,
            self._common: 1.5,
            self._union: 1.0,
            self._private_join: 2.0,
            self._public_join: 2.0,
            self._nested: 3.0,
            self._distinct: 1.0,
            self._windowed: 1.0,
        }
        return self.rng.choices(list(ways), list(ways.values()))[0](depth)

    def _table(self, table: DeclaredTable, aliased: bool) -> Relation:
        if table.through is not None:
            self._use("link")
        alias = self._name("t") if aliased else ""
        made = []
        for column in table.columns:
            role = "unit" if table.through is None and column.name == table.unit else ""
            spot = (table.name, column.name)
            if not role and any(spot in ((e.table, e.column), (e.target, e.key)) for e in self.links):
                role = "link"
            made.append(self._column(column, alias, role))
        owner = "public" if table.public else "row" if table.unit is None else "person"
        sql = quoted(table.name) + (f" AS {alias}" if alias else "")
        return Relation(sql, tuple(made), owner, table.rows_per_person or 1, direct=True)

    def _column(self, column: DeclaredColumn, alias: str, role: str) -> Expr:
        low = high = None
        if column.low is not None and column.high is not None:
            low, high = float(column.low), float(column.high)
        elif column.since is not None:
            low, high = 0.0, 1.0  # only that there are bounds
        name = quoted(column.name)
        sql = f"{alias}.{name}" if alias else name
        return Expr(sql, column.kind, low, high, column.keys, column.name, role)

    def _aliased(self, relation: Relation) -> Relation:
        """The relation with a name, and its columns called after it."""
        if " AS " in relation.sql and not relation.sql.endswith(")"):
            alias = relation.sql.rsplit(" AS ", 1)[1]
            if _PLAIN.fullmatch(alias):
                columns = tuple(replace(e, sql=f"{alias}.{quoted(e.name)}") for e in relation.columns)
                return replace(relation, columns=columns)
        alias = self._name("j")
        columns = tuple(replace(e, sql=f"{alias}.{quoted(e.name)}") for e in relation.columns)
        return replace(relation, sql=f"{relation.sql} AS {alias}", columns=columns)

    def _derived(
        self, select: str, columns: Sequence[Expr], like: Relation, rows: int | None = None
    ) -> Relation:
        """A subquery in FROM."""
        alias = self._name("s")
        named = tuple(replace(e, sql=quoted(e.name)) for e in columns)
        return Relation(f"({select}) AS {alias}", named, like.owner, rows or like.rows)

    def _selected(self, relation: Relation, want: int) -> tuple[list[str], list[Expr]]:
        """Some columns of a relation: the unit nearly always, the others renamed or computed."""
        parts, out = [], []
        unit = relation.unit
        if unit is not None and self._often(0.9):
            name = unit.name if self._often(0.6) else self._name("u")
            parts.append(unit.sql if name == unit.name else f"{unit.sql} AS {quoted(name)}")
            out.append(replace(unit, name=name))
        plain = [each for each in relation.columns if not each.role]
        for _ in range(want):
            if plain and self._often(0.6):
                one = self.rng.choice(plain)
                name = self._name("c")
                parts.append(f"{one.sql} AS {name}")
            else:
                one = (
                    self._number(relation.columns, 2)
                    if self._often(0.6)
                    else self._any_value(relation.columns)
                )
                name = self._name("e")
                parts.append(f"{one.sql} AS {name}")
            out.append(replace(one, name=name, role=""))
        return parts, out

    def _projection(self, depth: int) -> Relation:
        self._use("subquery")
        inner = self._relation(depth - 1)
        parts, out = self._selected(inner, self.rng.randint(1, 4))
        return self._derived(
            f"SELECT {', '.join(parts)} FROM {inner.sql}{self._where(inner, 0.4)}", out, inner
        )

    def _common(self, depth: int) -> Relation:
        self._use("WITH")
        inner = self._relation(depth - 1)
        parts, out = self._selected(inner, self.rng.randint(1, 4))
        name = self._name("w")
        self._tables.append(
            f"{name} AS (SELECT {', '.join(parts)} FROM {inner.sql}{self._where(inner, 0.4)})"
        )
        columns = tuple(replace(e, sql=quoted(e.name)) for e in out)
        return Relation(name, columns, inner.owner, inner.rows)

    def _union(self, depth: int) -> Relation:
        self._use("UNION ALL")
        one, two = self._relation(depth - 1), self._relation(depth - 1)
        if one.unit is None or two.unit is None:
            two = one
        kinds = [self.rng.choice(["integer", "number", "text"]) for _ in range(self.rng.randint(1, 2))]
        names = [self._name("c") for _ in kinds]
        sides, out = [], []
        for side in (one, two):
            parts = [] if side.unit is None else [f"{side.unit.sql} AS u"]
            values = []
            for kind, name in zip(kinds, names, strict=True):
                value = self._text(side.columns, 1) if kind == "text" else self._number(side.columns, 1)
                parts.append(f"{value.sql} AS {name}")
                values.append(replace(value, name=name, keys=None))
            sides.append(f"SELECT {', '.join(parts)} FROM {side.sql}{self._where(side, 0.3)}")
            out.append(values)
        units = [replace(one.unit, name="u")] if one.unit is not None else []
        merged = [
            replace(a, low=min(a.low, b.low), high=max(a.high, b.high))
            if a.low is not None and b.low is not None and a.high is not None and b.high is not None
            else replace(a, low=None, high=None)
            for a, b in zip(*out, strict=True)
        ]
        return self._derived(" UNION ALL ".join(sides), [*units, *merged], one, one.rows + two.rows)

    def _private_join(self, depth: int) -> Relation:
        """On the unit, or along a link."""
        linked = [link for link in self.links if self._often(0.5)]
        if linked:
            link = linked[0]
            pairs = {table.name: table for table in self.policy.tables}
            left, right = (self._table(pairs[name], aliased=True) for name in (link.table, link.target))
            here = next(e for e in left.columns if e.name == link.column)
            there = next(e for e in right.columns if e.name == link.key)
            self._use("JOIN private")
            sql = f"{left.sql} JOIN {right.sql} ON {here.sql} = {there.sql}"
            return Relation(sql, (*left.columns, *right.columns), "person", left.rows)
        if self._often(0.2):
            return self._full_join(depth)
        left, right = self._relation(depth - 1), self._relation(self.rng.choice([0, depth - 1]))
        if left.unit is None or right.unit is None or " JOIN " in left.sql or " JOIN " in right.sql:
            return self._public_join(depth)
        left, right = self._aliased(left), self._aliased(right)
        word = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "INNER JOIN", "LEFT OUTER JOIN"])
        self._use("LEFT JOIN private" if "LEFT" in word else "JOIN private")
        a, b = left.unit, right.unit
        assert a is not None
        assert b is not None
        if a.name == b.name and self._often(0.7):
            self._use("JOIN USING")
            on = f"USING ({quoted(a.name)})"
        else:
            on = f"ON {a.sql} = {b.sql}"
            for _ in range(self.rng.choice([0, 0, 1])):
                on += f" AND {self._condition([*left.columns, *right.columns], 1)}"
        columns = (
            *left.columns,
            *(replace(e, role="" if e.role == "unit" else e.role) for e in right.columns),
        )
        kept = tuple(e for e in columns if e.name != b.name or e.role == "unit")  # the unit once
        return Relation(f"{left.sql} {word} {right.sql} {on}", kept, "person", left.rows * right.rows)

    def _full_join(self, depth: int) -> Relation:
        """Of two sides with one row for every person: whoever is on either."""
        sides = []
        for _ in range(2):
            inner = self._relation(depth - 1)
            if inner.unit is None or " JOIN " in inner.sql:
                return inner
            sql, value = self._inner(inner)
            where = self._where(inner, 0.5)
            select = f"SELECT {inner.unit.sql}, {sql} AS {value.name} FROM {inner.sql}{where}"
            found = self._derived(f"{select} GROUP BY {inner.unit.sql}", [inner.unit, value], inner)
            sides.append(self._aliased(found))
        left, right = sides
        assert left.unit is not None
        assert right.unit is not None
        self._use("FULL JOIN private")
        on = f"ON {left.unit.sql} = {right.unit.sql}"
        columns = tuple(e for e in (*left.columns, *right.columns) if e.role != "unit")
        return Relation(f"{left.sql} FULL JOIN {right.sql} {on}", columns, "person", 1)

    def _public_join(self, depth: int) -> Relation:
        public = [table for table in self.policy.tables if table.public and table.columns]
        left = self._relation(depth - 1)
        if not public or " JOIN " in left.sql:
            return left
        left = self._aliased(left)
        right = self._table(self.rng.choice(public), aliased=True)
        theirs = right.columns[0]
        same = [each for each in left.columns if each.kind == theirs.kind and each.role != "unit"]
        if not same and theirs.kind == "date":
            same = [
                replace(each, sql=f"CAST({each.sql} AS DATE)")
                for each in left.columns
                if each.kind == "timestamp"
            ]
        elif not same or self._often(0.2):
            same = [self._value(left.columns, theirs.kind, 1)]
        if not same:
            return left
        ours = self.rng.choice(same).sql
        word = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN"])
        self._use("LEFT JOIN public" if "LEFT" in word else "JOIN public")
        on = f"{ours} = {theirs.sql}"
        if self._often(0.2):
            on += f" AND {self._condition([*left.columns, *right.columns], 1)}"
        sql = f"{left.sql} {word} {right.sql} ON {on}"
        return Relation(sql, (*left.columns, *right.columns), left.owner, left.rows)

    def _distinct(self, depth: int) -> Relation:
        inner = self._relation(depth - 1)
        if inner.unit is None:
            return inner
        self._use("DISTINCT")
        out = [inner.unit]
        parts = [inner.unit.sql]
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            value, name = self._any_value(inner.columns), self._name("d")
            parts.append(f"{value.sql} AS {name}")
            out.append(replace(value, name=name, role=""))
        where = self._where(inner, 0.3)
        return self._derived(f"SELECT DISTINCT {', '.join(parts)} FROM {inner.sql}{where}", out, inner)

    def _nested(self, depth: int) -> Relation:
        """One row a person, or a person and something else."""
        inner = self._relation(depth - 1)
        keys = [each for each in inner.columns if each.role == "link"]
        if keys and (inner.unit is None or self._often(0.25)):  # what one person owns, says the policy
            self._use("nested by key")
            first = self.rng.choice(keys)
        elif inner.unit is not None:
            self._use("nested")
            first = inner.unit
        else:
            return inner
        groups, parts, out = [first.sql], [first.sql], [first]
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            self._use("nested by more")
            value = self._any_value(inner.columns)
            if value.sql not in groups:
                name = self._name("g")
                groups.append(value.sql)
                parts.append(f"{value.sql} AS {name}")
                out.append(replace(value, name=name, role=""))
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            sql, value = self._inner(inner)
            parts.append(f"{sql} AS {value.name}")
            out.append(value)
        where = self._where(inner, 0.3)
        having = " HAVING COUNT(*) > 1" if self._often(0.08) else ""
        select = f"SELECT {', '.join(parts)} FROM {inner.sql}{where} GROUP BY {', '.join(groups)}{having}"
        return self._derived(select, out, inner)

    def _windowed(self, depth: int) -> Relation:
        """What stands around a row among the rows of its person."""
        inner, rng = self._relation(depth - 1), self.rng
        if inner.unit is None:
            return inner
        self._use("window")
        parts, out = [inner.unit.sql], [inner.unit]
        for one in rng.sample(inner.columns, min(rng.randint(0, 2), len(inner.columns))):
            if not one.role:
                parts.append(f"{one.sql} AS {self._name('c')}")
                out.append(replace(one, name=parts[-1].rsplit(" ", 1)[1]))
        over = [self._over(inner) for _ in range(rng.choice([1, 1, 2]))]
        for _ in range(rng.choice([1, 2, 3])):
            sql, value = self._around(inner, rng.choice(over))
            parts.append(f"{sql} AS {value.name}")
            out.append(value)
        select = f"SELECT {', '.join(parts)} FROM {inner.sql}{self._where(inner, 0.3)}"
        if self._often(0.25):
            self._use("QUALIFY")
            ranked = f"{rng.choice(['ROW_NUMBER', 'RANK', 'DENSE_RANK'])}() OVER ({rng.choice(over)})"
            select += f" QUALIFY {ranked} {rng.choice(['=', '<=', '>'])} {rng.choice([1, 1, 2])}"
        return self._derived(select, out, inner)

    def _over(self, inner: Relation) -> str:
        """Whose rows, and in which order."""
        assert inner.unit is not None
        keys = [each for each in inner.columns if each.role == "link"]
        within = [self.rng.choice(keys).sql if keys and self._often(0.2) else inner.unit.sql]
        if self._often(0.3):
            self._use("window by more")
            within.append(self._any_value(inner.columns).sql)
        return f"PARTITION BY {', '.join(within)} ORDER BY {self._sorting(inner)}"

    def _sorting(self, inner: Relation) -> str:
        """An order, if there must be no ties by all that there is."""
        by = [self._any_value(inner.columns).sql for _ in range(self.rng.choice([1, 1, 2]))]
        by = [f"({each})" if each.lstrip("-").isdigit() else each for each in by]
        ways = ["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]
        sorts = [each + self.rng.choice(ways) for each in by]
        return ", ".join(sorts if self.tied else [*sorts, *(each.sql for each in inner.columns)])

    def _around(self, inner: Relation, over: str) -> tuple[str, Expr]:
        """One window."""
        rng, name, rows = self.rng, self._name("w"), inner.rows
        form = rng.choice(["ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "FIRST_VALUE", "COUNT", "SUM"])
        if form in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
            return f"{form}() OVER ({over})", Expr("", "integer", 1, rows, name=name)
        if form in ("LAG", "LEAD", "FIRST_VALUE"):
            value = self._number(inner.columns, 1) if self._often(0.6) else self._any_value(inner.columns)
            more = rng.choice(["", "", ", 2"]) if form != "FIRST_VALUE" else ""
            return f"{form}({value.sql}{more}) OVER ({over})", replace(value, name=name, role="")
        whole = over.partition(" ORDER BY ")[0] if self._often(0.4) else over
        if form == "COUNT":
            value = Expr("*", "") if self._often(0.5) else self._any_value(inner.columns)
            return f"COUNT({value.sql}) OVER ({whole})", Expr("", "integer", 0, rows, name=name)
        form, value = rng.choice(["SUM", "AVG", "MIN", "MAX"]), self._number(inner.columns, 1)
        assert value.low is not None
        assert value.high is not None
        times = rows if form == "SUM" else 1
        low, high = min(value.low * times, value.low), max(value.high * times, value.high)
        return f"{form}({value.sql}) OVER ({whole})", Expr("", value.kind, low, high, name=name)

    def _first(self, inner: Relation, name: str) -> tuple[str, Expr]:
        """The value of the row that comes first in some order."""
        form = self.rng.choice(["ARG_MIN", "ARG_MAX", "FIRST", "LAST"] if self.tied else ["FIRST", "LAST"])
        self._use(f"inner {form}")
        value = self._number(inner.columns, 1) if self._often(0.6) else self._any_value(inner.columns)
        if form.startswith("ARG"):
            sql = f"{form}({value.sql}, {self._any_value(inner.columns).sql})"
        else:
            sql = f"{form}({value.sql} ORDER BY {self._sorting(inner)})"
        return sql, replace(value, name=name, role="")

    def _inner(self, inner: Relation) -> tuple[str, Expr]:
        name, rows = self._name("a"), inner.rows
        form = self.rng.choice(
            [
                "COUNT",
                "COUNT(DISTINCT)",
                "SUM",
                "SUM",
                "AVG",
                "MIN",
                "MAX",
                "BOOL_OR",
                "BOOL_AND",
                *["first"] * 3,
            ]
        )
        if form == "first":
            return self._first(inner, name)
        self._use(f"inner {form}")
        if form == "COUNT":
            sql = self.rng.choice(["COUNT(*)", f"COUNT({self._any_value(inner.columns).sql})"])
            return sql, Expr("", "integer", 0, rows, name=name)
        if form == "COUNT(DISTINCT)":
            return f"COUNT(DISTINCT {self._any_value(inner.columns).sql})", Expr(
                "", "integer", 0, rows, name=name
            )
        if form.startswith("BOOL"):
            sql = f"{form}({self._condition(inner.columns, 1)})"
            return sql, Expr("", "boolean", keys=(False, True), name=name)
        value = self._number(inner.columns, 1)
        assert value.low is not None
        assert value.high is not None
        times = rows if form == "SUM" else 1
        low, high = min(value.low * times, value.low), max(value.high * times, value.high)
        return f"{form}({value.sql})", Expr("", value.kind, low, high, name=name)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _shown(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def queries(policy: Policy, rng: random.Random) -> Iterator[Query]:
    """Questions about a policy, without end."""
    grammar = Grammar(policy, rng)
    while True:
        yield grammar.query()


# Seeds: written by hand, to be refused or accepted but never to crash ------------------------------------

# {t} a table of persons, {u} its unit, {n} {m} numbers, {k} a key, {s} a text, {d} a day, {p} a public table
SEEDS = (
    # after TPC-H and TPC-DS
    "SELECT {k}, SUM({n}) AS q, SUM({n} * (1 - {m})) AS r, AVG({n}) AS a, COUNT(*) AS c FROM {t} "
    "WHERE {d} <= DATE '2024-12-01' GROUP BY {k} ORDER BY {k}",
    "SELECT SUM({n} * {m}) AS revenue FROM {t} WHERE {d} >= DATE '2024-01-01' AND {n} BETWEEN 0.05 AND 50",
    "SELECT 100.00 * SUM(CASE WHEN {s} LIKE 'PROMO%' THEN {n} * (1 - {m}) ELSE 0 END) / SUM({n}) FROM {t}",
    "SELECT c, COUNT(*) AS dist FROM (SELECT {u}, COUNT({n}) AS c FROM {t} GROUP BY {u}) AS o GROUP BY c "
    "ORDER BY dist DESC, c DESC",
    "SELECT EXTRACT(YEAR FROM {d}) AS y, SUM({n}) FROM {t} GROUP BY y ORDER BY y",
    "SELECT LEFT({s}, 2) AS cc, COUNT(*), SUM({n}) FROM {t} WHERE LEFT({s}, 2) IN ('13', '31') GROUP BY cc",
    "WITH v AS (SELECT {u}, SUM({n}) AS total FROM {t} GROUP BY {u}) SELECT COUNT(*) FROM v WHERE total > "
    "(SELECT MAX(total) FROM v)",
    "SELECT COUNT(*) FROM {t} AS a WHERE EXISTS (SELECT * FROM {t} AS b WHERE b.{u} = a.{u} AND b.{n} > 1)",
    "SELECT COUNT(*) FROM {t} a, {t} b WHERE a.{u} = b.{u} AND a.{n} < b.{n}",
    "SELECT {k}, RANK() OVER (PARTITION BY {k} ORDER BY SUM({n})) FROM {t} GROUP BY {k}",
    "SELECT COUNT(*) FROM {t} a JOIN {t} b ON a.{n} = b.{n}",
    "SELECT COUNT(*) FROM {t} a JOIN {t} b ON a.{u} = b.{u} JOIN {t} c ON c.{u} = b.{u}",
    "SELECT COUNT(*) FROM {t} a LEFT JOIN {t} b ON a.{u} = b.{u} AND b.{n} > a.{n} WHERE b.{u} IS NULL",
    "SELECT COUNT(*) FROM {t} a FULL JOIN {t} b USING ({u})",
    "SELECT COUNT(*) FROM {t} a RIGHT JOIN {p} p ON a.{k} = p.code",
    "SELECT COUNT(*) FROM {p}",
    "SELECT COUNT(*) FROM {p} LEFT JOIN {t} ON {k} = code",
    "SELECT COUNT(*) FROM {t} CROSS JOIN {p}",
    "SELECT COUNT(*) FROM {t} JOIN {p} ON TRUE",
    "SELECT COUNT(*) FROM {t} JOIN {p} ON {t}.{k} < {p}.code",
    "SELECT region, COUNT(DISTINCT {u}) FROM {t} JOIN {p} ON {t}.{k} = {p}.code GROUP BY ROLLUP (region)",
    "SELECT COUNT(*) FROM {t} a JOIN LATERAL (SELECT * FROM {t} b WHERE b.{u} = a.{u}) x ON TRUE",
    # people who are not who they seem
    "SELECT COUNT(*) FROM (SELECT {u} + 1 AS {u}, {n} FROM {t}) a JOIN {t} USING ({u})",
    "SELECT COUNT(*) FROM (SELECT {n} AS {u} FROM {t}) x",
    "SELECT COUNT(DISTINCT {u}) FROM (SELECT {n} AS {u} FROM {t}) x",
    "SELECT COUNT(*) FROM (SELECT {u} AS a, {n} AS {u} FROM {t}) x JOIN {t} y ON x.{u} = y.{u}",
    "SELECT COUNT(*) FROM (SELECT {u} FROM {t} UNION ALL SELECT {n} FROM {t}) x",
    "SELECT COUNT(*) FROM (SELECT {u} FROM {t} UNION SELECT {u} FROM {t}) x",
    "SELECT COUNT(*) FROM (SELECT {u} FROM {t} EXCEPT SELECT {u} FROM {t}) x",
    "SELECT AVG(t) FROM (SELECT {k}, SUM({n}) AS t FROM {t} GROUP BY {k}) x",
    "SELECT SUM(c) FROM (SELECT COUNT(*) AS c FROM {t}) x",
    "SELECT SUM(r) FROM (SELECT {u}, ROW_NUMBER() OVER (ORDER BY {n}) AS r FROM {t}) x",
    "SELECT COUNT(*) FROM (SELECT * FROM {t} ORDER BY {n} LIMIT 10) x",
    "SELECT COUNT(*) FROM (SELECT {u}, {n} FROM {t} LIMIT 10) x",
    "SELECT COUNT(*) FROM (SELECT DISTINCT {n} FROM {t}) x",
    "SELECT COUNT(*) FROM {t} WHERE {u} IN (SELECT {u} FROM {t} GROUP BY {u} HAVING COUNT(*) > 2)",
    "SELECT COUNT(*) FROM {t} WHERE {n} IN (SELECT {n} FROM {t})",
    "SELECT COUNT(*) FROM {t} WHERE {n} NOT IN (SELECT {n} FROM {t})",
    "SELECT COUNT(*) FROM {t} WHERE {u} IN (SELECT {n} FROM {t})",
    "SELECT COUNT(*) FROM {t} WHERE {u} = (SELECT MIN({u}) FROM {t})",
    "SELECT COUNT(*) FROM {t} WHERE ({u}, {n}) IN (SELECT {u}, {n} FROM {t})",
    "SELECT COUNT(*) FROM {t} WHERE {u} NOT IN (SELECT {u} FROM {t} WHERE {u} IN (SELECT {u} FROM {t}))",
    "SELECT {u}, COUNT(*) FROM {t} GROUP BY {u}",
    "SELECT MAX({u}) FROM {t}",
    "SELECT MODE({u}) FROM {t}",
    "SELECT SUM({u}) FROM {t}",
    "SELECT COUNT(*) FROM {t} GROUP BY {u} % 2",
    "SELECT LENGTH({u}) AS l, COUNT(*) FROM {t} GROUP BY l",
    # arithmetic that ends somewhere
    "SELECT SUM({n} * {n} * {n} * {n} * {n} * {n} * {n} * {n}) FROM {t}",
    "SELECT SUM(1 / {n}) FROM {t}",
    "SELECT SUM({n} / 0), SUM({n} % 0), AVG(0 / 0.0) FROM {t}",
    "SELECT SUM(CASE WHEN {n} > 0 THEN 1 / {n} END) FROM {t} WHERE {n} <> 0 AND 1 / {n} > 0",
    "SELECT SUM(CAST({s} AS INTEGER)) FROM {t}",
    "SELECT COUNT(*) FROM {t} WHERE CAST({s} AS DATE) > '2024-01-01'",
    "SELECT SUM(CAST({n} * 1e300 AS INTEGER)), SUM(CAST({n} AS TINYINT)) FROM {t}",
    "SELECT SUM(LN({n})), SUM(SQRT({n})), SUM(EXP({n})), SUM({n} ^ 99), SUM(POWER({n}, 0.5)) FROM {t}",
    "SELECT SUM(-(-(-(-{n})))) FROM {t}",
    "SELECT SUM({n} - {n}), SUM({n} - 9007199254740992), SUM(9007199254740993 * {n}) FROM {t}",
    "SELECT SUM(ROUND({n}, 400)), SUM(ROUND({n}, -400)), SUM(ROUND({n}, 2147483648)) FROM {t}",
    "SELECT SUM(LENGTH({s} || {s} || {s})) FROM {t}",
    "SELECT SUM(LENGTH(REPEAT({s}, 1000000000))) FROM {t}",
    "SELECT SUBSTRING({s}, -1, 2), COUNT(*) FROM {t} GROUP BY 1",
    "SELECT SUBSTRING({s}, 9223372036854775807, 9223372036854775807) AS x, COUNT(*) FROM {t} GROUP BY x",
    "SELECT LEFT({s}, -9223372036854775808) AS x, COUNT(*) FROM {t} GROUP BY x",
    "SELECT COUNT(*) FROM {t} WHERE {s} LIKE '%' || {s} || '%'",
    "SELECT COUNT(*) FROM {t} WHERE {s} LIKE 'a!%' ESCAPE '!' OR {s} SIMILAR TO '(a+)+$' OR {s} ~ '(a+)+$'",
    "SELECT DATE_TRUNC('millennium', {d}) AS x, COUNT(*) FROM {t} GROUP BY x",
    "SELECT DATE_TRUNC({s}, {d}) AS x, COUNT(*) FROM {t} GROUP BY x",
    "SELECT SUM(DATE_DIFF('microsecond', {d}, DATE '0001-01-01')) FROM {t}",
    "SELECT COUNT(*) FROM {t} WHERE {d} + INTERVAL 1000000000 YEAR > DATE '2024-01-01'",
    "SELECT COUNT(*) FROM {t} WHERE {d} = 'not a day' OR {d} = DATE '2024-02-30' OR {d} > CURRENT_DATE",
    "SELECT COUNT(*) FROM {t} WHERE {n} = 'x' OR {s} = 3 OR {s} > 1 = 2",
    "SELECT WIDTH_BUCKET({n}, 10, 0, 5) AS x, COUNT(*) FROM {t} GROUP BY x",
    "SELECT WIDTH_BUCKET({n}, 0, 0, 5), WIDTH_BUCKET({n}, 0, 1, 0), WIDTH_BUCKET({n}, 0, 1, 1e9) FROM {t}",
    "SELECT QUANTILE_CONT({n}, 1.5), QUANTILE_CONT({n}, [0.1, 0.5]), QUANTILE_CONT({n}, {m}) FROM {t}",
    "SELECT QUANTILE_CONT({n}, 0), QUANTILE_CONT({n}, 1), QUANTILE_CONT({n}, NULL), MEDIAN({s}) FROM {t}",
    "SELECT CORR({n}, {n}), COVAR_POP({n}, 1), CORR(1, 2), VARIANCE(3), AVG(NULL), SUM(NULL) FROM {t}",
    "SELECT COUNT(DISTINCT {n}) FILTER (WHERE {n} > 0) * 2 - SUM(DISTINCT {n}) / AVG(DISTINCT {n}) FROM {t}",
    "SELECT COUNT(*) FILTER (WHERE COUNT(*) > 1) FROM {t}",
    "SELECT SUM(COUNT(*)) FROM {t}",
    "SELECT COUNT({u}, {n}), COUNT(DISTINCT {u}, {n}), COUNT(DISTINCT ({u}, {n})) FROM {t}",
    "SELECT RANDOM(), COUNT(*) FROM {t} WHERE RANDOM() < 0.5 GROUP BY 1",
    "SELECT {k}, COUNT(*) FROM {t} GROUP BY GROUPING SETS (({k}), ()) HAVING GROUPING({k}) = 0",
    "SELECT COUNT(*) FROM {t} GROUP BY ROLLUP ({k}, {k}), CUBE ({k})",
    "SELECT COUNT(*) FROM {t} GROUP BY {n}, ()",
    "SELECT COUNT(*) FROM {t} HAVING {n} > 1",
    "SELECT COUNT(*) FROM {t} HAVING COUNT(*) > (SELECT COUNT(*) FROM {t})",
    "SELECT COUNT(*) AS c FROM {t} ORDER BY c + 1, 99, {n} NULLS FIRST LIMIT -1 OFFSET 5",
    "SELECT COUNT(*) FROM {t} LIMIT 99999999999999999999",
    "SELECT 1", "SELECT", "", ";", "SELECT COUNT(*) FROM {t}; DROP TABLE {t}", "VALUES (1)", "TABLE {t}",
    "FROM {t}", "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT COUNT(*) FROM r",
    "WITH {t} AS (SELECT * FROM {t}) SELECT COUNT(*) FROM {t}",
    "WITH a AS (SELECT {u} FROM b), b AS (SELECT {u} FROM a) SELECT COUNT(*) FROM a",
    "WITH a AS (SELECT {u} FROM {t}), a AS (SELECT {u} FROM {t}) SELECT COUNT(*) FROM a",
    "SELECT COUNT(*) FROM {t} TABLESAMPLE 10%", "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) FROM duckdb_secrets()", "SELECT getenv('HOME'), COUNT(*) FROM {t}",
    "SELECT COUNT(*) FROM {t} WHERE " + " AND ".join(["{n} > 0"] * 400),
    "SELECT COUNT(*) FROM {t} WHERE " + "NOT " * 300 + "TRUE",
    "SELECT COUNT(*) FROM {t} WHERE " + "(" * 300 + "TRUE" + ")" * 300,
    "SELECT SUM(" + "ABS(" * 200 + "{n}" + ")" * 200 + ") FROM {t}",
    "SELECT SUM({n}" + " + {n}" * 500 + ") FROM {t}",
    "SELECT SUM(" + "WIDTH_BUCKET(" * 3 + "{n}" + ", 0, 10, 5)" * 3 + ") FROM {t}",
    "SELECT SUM(" + "NULLIF(" * 5 + "{n}" + ", 7)" * 5 + ") FROM {t}",
    "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 60 + "{t}" + ") AS q" * 60,
    "SELECT SUM(x) FROM " + "(SELECT {u}, x + x AS x FROM " * 30
    + "(SELECT {u}, {n} AS x FROM {t}) AS z" + ") AS q" * 30,
    "SELECT COUNT(*) FROM {t} WHERE {n} IN (" + ", ".join(map(str, range(500))) + ")",
    "SELECT " + ", ".join(["SUM({n})"] * 300) + " FROM {t}",
    "SELECT COUNT(*) FROM {t} WHERE {n} > " + "9" * 5000,
    "SELECT COUNT(*) FROM {t} WHERE {n} > 1e" + "9" * 400,
    "SELECT COUNT(*) FROM {t} WHERE {s} = '\ud800'", "SELECT COUNT(*) FROM {t} WHERE {s} = 'a\0b'",
)  # fmt: skip


def seeds(policy: Policy, rng: random.Random) -> Iterator[Query]:
    """The texts above, about one table of the policy; where it has no column that fits, about another."""
    public = next((table.name for table in policy.tables if table.public), "nowhere")
    table = rng.choice([table for table in policy.tables if not table.public])
    names = {"t": quoted(table.name), "u": quoted(table.unit or "rowid"), "p": public}
    rest = [column for column in table.columns if column.name != table.unit] or list(table.columns)
    first = quoted(rest[0].name)
    wanted = {"n": "integer number", "m": "number integer", "s": "text", "d": "date timestamp"}
    for letter, kinds in wanted.items():
        fits = [each for kind in kinds.split() for each in rest if each.kind == kind]
        bounded = [each for each in fits if each.low is not None]
        names[letter] = quoted((bounded or fits)[0].name) if fits else first
    names["k"] = next((quoted(each.name) for each in rest if each.keys), first)
    for seed in SEEDS:
        yield Query(re.sub(r"\{(\w)\}", lambda found: names[found[1]], seed))


def grammar() -> list[str]:
    """A text for every part of SQL that we could think of, in several dialects, and some that are no SQL."""
    lines = GRAMMAR.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [line.replace("⏎", "\n") for line in lines]


def spelled(policy: Policy, rng: random.Random) -> Iterator[Query]:
    """The texts of `tests/seeds`, as they are and about tables of the policy.

    What stands after FROM or JOIN becomes a table, other short names become its columns, and an expression is
    selected from it.
    """
    tables = [table for table in policy.tables if not table.public]
    for line in grammar():
        yield Query(line)
        table = rng.choice(tables)
        columns = [quoted(column.name) for column in table.columns]
        words, before = [], ""
        for token in _TOKEN.findall(line):
            word = token
            if re.fullmatch(r"[A-Za-z]\w?", token) and token.upper() not in (
                "AS",
                "ON",
                "IN",
                "IS",
                "OR",
                "BY",
            ):
                is_table = before.upper() in ("FROM", "JOIN")
                word = quoted(table.name) if is_table else columns[ord(token[0]) % len(columns)]
            words.append(word)
            before = token if token.strip() else before
        text = "".join(words)
        yield Query(text)
        yield Query(f"SELECT COUNT(*), {text} FROM {quoted(table.name)}")
        yield Query(f"SELECT COUNT(*), SUM({text}) FROM {quoted(table.name)}")
        yield Query(f"SELECT COUNT(*) FROM {quoted(table.name)} WHERE {text}")


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)


def mangled(sql: str, rng: random.Random) -> Query:
    """The text with a few words lost, doubled, swapped or replaced."""
    words = _TOKEN.findall(sql)
    strange = (
        "(",
        ")",
        ",",
        "NULL",
        "SELECT",
        "FROM",
        "*",
        "'",
        '"',
        "--",
        "GROUP BY",
        "1e999",
        "\0",
        "::",
        "?",
    )
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[i] = ""
            case 1:
                words[i] *= 2
            case 2:
                words[i], words[j] = words[j], words[i]
            case _:
                words[i] = rng.choice(strange)
    return Query("".join(words))


# Running ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What was found."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    features: Counter[str] = field(default_factory=Counter)  # of accepted queries
    wanted: Counter[str] = field(default_factory=Counter)  # of all
    found: list[str] = field(default_factory=list)  # counterexamples, with what shows them again
    slowest: list[tuple[float, str]] = field(default_factory=list)
    worlds: int = 0

    def report(self) -> str:
        """Everything, as text."""
        refused = sum(self.refused.values())
        lines = [
            f"worlds {self.worlds}, accepted {self.accepted}, refused {refused}, found {len(self.found)}"
        ]
        lines += [f"  refused as {name}: {count}" for name, count in self.refused.most_common()]
        for reason, count in self.reasons.most_common(30):
            lines.append(f"    {count:5} {reason}\n          {self.examples[reason][:240]}")
        lines.append("accepted, of all that were asked:")
        shares = (f"{name} {self.features[name]}/{self.wanted[name]}" for name in FEATURES)
        lines.append("  " + ", ".join(shares))
        for seconds, sql in sorted(self.slowest, reverse=True)[:5]:
            lines.append(f"  slow: {seconds:.2f} s {sql[:300]}")
        lines += [f"\n--- {i + 1} ---\n{each}" for i, each in enumerate(self.found)]
        return "\n".join(lines)


class Fuzzer:
    """One world, its neighbours, and everything asked of it."""

    def __init__(
        self,
        name: str,
        place: World,
        folder: Path,
        tally: Tally,
        *,
        most: int = 8,  # databases of a star that a question is asked of
        stars: int = 4,
        full: bool = False,  # crowds large enough for several threads
        prepared: bool = False,  # ask copies as `sfumato prepare` makes them
        reference: bool = False,  # compare the engine with the reference, and take that one's answers
    ) -> None:
        self.name, self.world, self.tally, self.most, self.stars = name, place, tally, most, stars
        size = (130_000, 100_000, 2_000) if full else (40, 60, 20) if reference else (600, 600, 120)
        self.homes = (Referred if reference else Neighbourhood)(
            folder,
            place.policy,
            place.columns,
            int.from_bytes(name.encode()[-6:], "big"),
            crowd=size[0],
            million=size[1],
            heavy=size[2],
            prepared=prepared,
        )
        tally.worlds += 1

    def ask(self, sql: Query, most: int | None = None) -> bool:
        """Parse, and if it is accepted, run it on `most` of each star (0: none); whether it was accepted."""
        tally, seconds = self.tally, 0.0
        tally.wanted.update(sql.features)
        try:
            parse(sql, self.world.policy)
        except QueryRefused as refusal:
            tally.refused[type(refusal).__name__] += 1
            reason = re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d.e+]*", "_", refusal.problem)[:110]
            tally.reasons[reason] += 1
            tally.examples.setdefault(reason, sql)
            return False
        except Exception:
            self._found("parse raised something that is no refusal", sql, traceback.format_exc(limit=-4))
            return False
        tally.accepted += 1
        tally.features.update(sql.features)
        if most != 0:
            try:
                seconds = self.homes.check(sql, most or self.most, self.stars).longest
            except Exception as error:
                told = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=-6)
                cause = "" if error.__cause__ is None else f"\nbecause {error.__cause__!r}"
                self._found("neighbours", sql, told[:3000] + cause[:1000])
        if seconds > TOO_SLOW:
            self._found(f"it took {seconds:.0f} seconds on a few hundred rows", sql, "")
        tally.slowest = sorted([*tally.slowest, (seconds, str(sql))], reverse=True)[:5]
        return True

    def _found(self, what: str, sql: str, told: str) -> None:
        again = f"--world {self.name!r} --sql {sql!r}"
        tables = "\n".join(f"CREATE TABLE {name} ({each})" for name, each in self.world.columns.items())
        self.tally.found.append(f"{what}\n{sql!r}\n{told}\nagain: {again}\n{self.world.text}{tables}")
        print(f"found: {what}\n{told[:400]}\nagain: {again}", file=sys.stderr, flush=True)

    def explore(self, rng: random.Random, count: int, end: float) -> None:
        """Seeds, then so many questions of the grammar, some also mangled, until time is over."""
        asked = queries(self.world.policy, rng)
        some = rng.sample(list(spelled(self.world.policy, rng)), 200)
        for query in (*seeds(self.world.policy, rng), *some, *islice(asked, count)):
            if time.monotonic() > end:
                return
            self.ask(query, None if query.features else 2)  # seeds are to be parsed, above all
            if query.features and rng.random() < 0.2:
                self.ask(mangled(query, rng), 2)


def main() -> int:
    """The command line; exits 1 if anything was found."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--seconds", type=float, default=60)
    read.add_argument("--seed", default="1")
    read.add_argument("--policies", type=int, default=0, help="at most so many worlds; 0: until time is over")
    read.add_argument("--each", type=int, default=400, help="questions of one world")
    read.add_argument("--most", type=int, default=8, help="databases of one star that a question is asked of")
    read.add_argument("--full", action="store_true", help="crowds large enough for several threads")
    read.add_argument("--prepared", action="store_true", help="ask prepared copies of all databases")
    read.add_argument(
        "--reference", action="store_true", help="compare with the reference engine, on few rows"
    )
    read.add_argument("--world", help="only this world, as a counterexample names it")
    read.add_argument("--sql", help="only this question, of all databases")
    given = read.parse_args()
    tally, end = Tally(), time.monotonic() + given.seconds
    for i in range(given.policies or sys.maxsize):
        if time.monotonic() > end:
            break
        name = given.world or f"{given.seed}-{i}"
        with tempfile.TemporaryDirectory() as folder:
            place = random_world(name)
            fuzzer = Fuzzer(
                name,
                place,
                Path(folder),
                tally,
                most=given.most,
                full=given.full,
                prepared=given.prepared,
                reference=given.reference,
            )
            if given.sql:
                fuzzer.most = fuzzer.stars = sys.maxsize
                fuzzer.ask(Query(given.sql))
                break
            fuzzer.explore(random.Random(f"ask {name}"), given.each, end)
        if given.world:
            break
    print(tally.report())
    return 1 if tally.found else 0


if __name__ == "__main__":
    sys.exit(main())
