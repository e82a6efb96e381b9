"""A `Work` as the SQL of an engine: its tree in the order of SQL, its pieces from a `Dialect`.

Only names of the policy and constants of the right type are printed, never a word of the analyst's (law 8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.queries.functions import DAYS, UNITS
from sfumato.sources.answers import EngineStatements
from sfumato.sources.work import (
    Apply,
    ColumnValue,
    ConstantValue,
    EngineQuery,
    Expression,
    Filter,
    Given,
    Group,
    JoinedRows,
    Keys,
    Rank,
    Repeat,
    Rows,
    Select,
    SemiJoin,
    Shared,
    TableRows,
    Totals,
    UnitedRows,
    Use,
    Windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.queries.declared import Value
    from sfumato.sources.dialect import Dialect
    from sfumato.sources.work import Work

OWN = "sfumato_"  # how names of shared and kept rows begin
WORDS = frozenset((*DAYS, *UNITS, "microsecond"))  # units of time: ours, since the reader takes no others


def printed(query: EngineQuery, dialect: Dialect, kept: str = "") -> str:
    """The text of a query; of one whose rows are kept under a name, what keeps them."""
    printer = _Printer(dialect)
    shared = ", ".join(printer.shared(each) for each in query.shared)
    text = f"WITH {shared} {printer.select(query.rows)}" if shared else printer.select(query.rows)
    return dialect.kept.format(f"{OWN}{kept}", text) if kept else text


def statements(work: Work, dialect: Dialect) -> EngineStatements:
    """All that is run, in the words of an engine."""
    made = [printed(query, dialect, name) for name, query in work.making]
    counting, naming = (
        "" if each is None else printed(each, dialect) for each in (work.counting, work.naming)
    )
    chosen = "" if work.choosing is None else printed(work.choosing[1], dialect, work.choosing[0])
    measuring = tuple(printed(query, dialect) for query in work.measuring)
    return EngineStatements(measuring, tuple(made), counting, naming, chosen)


def expression(value: Expression, dialect: Dialect, *, stored: Sequence[str] = ()) -> str:
    """The text of an expression; columns of these aliases are those of stored tables."""
    return _Printer(dialect, set(stored)).text(value)


def select(rows: Select | Group, dialect: Dialect) -> str:
    """The text of rows that share nothing."""
    return _Printer(dialect).select(rows)


def after_from(rows: Rows, dialect: Dialect) -> str:
    """FROM and WHERE of rows that share nothing."""
    return str(_Printer(dialect).block(rows))


def quoted(name: str) -> str:
    """A name of the policy."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A value as a text in quotes, which a cast beside it reads."""
    return "'" + str(value).replace("'", "''") + "'"


@dataclass(slots=True)
class _Block:
    """What stands after FROM, and after WHERE."""

    source: str
    conditions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = f" WHERE {' AND '.join(dict.fromkeys(self.conditions))}" if self.conditions else ""
        return f" FROM {self.source}{where}"


@dataclass(slots=True)
class _Printer:
    dialect: Dialect
    stored: set[str] = field(default_factory=set)  # aliases of tables
    inside: dict[tuple[str, str], str] = field(default_factory=dict)  # columns of a group that is not closed

    # Rows ---------------------------------------------------------------------------------------------

    def shared(self, each: Shared) -> str:
        word = self.dialect.once[each.once]
        return f"{OWN}{each.name} AS {word}({self.select(each.rows)})"

    def select(self, rows: Rows) -> str:
        """Rows as a query."""
        match rows:
            case Select(_, inner, columns) if (group := _grouped(inner, columns)) is not None:
                return self.grouped(group, columns, inner)
            case Select(_, inner, columns):
                block = self.block(inner)
                return f"SELECT {self.columns(columns)}{block}"
            case Group(_, inner, keys, totals):
                block = self.block(inner)
                shown = [f"{self.text(value)} AS {name}" for name, value in keys]
                shown += [f"{self.total(total)} AS {name}" for name, total in totals]
                by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
                return f"SELECT {', '.join(shown)}{block}{by}"
            case Rank(_, inner, columns, within, order, name):
                block = self.block(inner)
                by = f"PARTITION BY {self.listed(within)} " if within else ""
                number = f"ROW_NUMBER() OVER ({by}ORDER BY {self.listed(order) or '1'}) AS {name}"
                return f"SELECT {self.columns(columns)}, {number}{block}"
            case Windows(_, inner, columns):
                block = self.block(inner)
                return f"SELECT {', '.join([self.columns(columns), *self.windows(rows)])}{block}"
            case Repeat(_, inner, columns, times, name):
                block = self.block(inner)
                number = self.dialect.repeated.format(self.text(times))
                return f"SELECT {self.columns(columns)}, {number} AS {name}{block}"
            case UnitedRows(_, parts):
                return " UNION ALL ".join(self.select(each) for each in parts)
            case Keys(_, values, of):
                listed = ", ".join(literal(value) for value in values)
                return self.dialect.keys.format(values=listed, type=self.dialect.types[of], count=len(values))
            case Given():
                return self.dialect.given
        raise AssertionError("these are no columns")

    def block(self, rows: Rows) -> _Block:
        """Rows as they stand after FROM."""
        match rows:
            case TableRows(alias, table):
                self.stored.add(alias)
                return _Block(f"{quoted(table)} AS {alias}")
            case Use(alias, name):
                return _Block(f"{OWN}{name} AS {alias}")
            case Filter(inner, condition):
                block = self.block(inner)
                block.conditions.append(self.text(condition))
                return block
            case JoinedRows(left, right, on, outer):
                block, other = self.block(left), self.block(right)
                source = f"({other.source})" if _is_join(right) else other.source
                # which partners there are; with LEFT JOIN this is not the same as WHERE
                conditions = dict.fromkeys([*(self.text(each) for each in on), *other.conditions])
                word = "LEFT JOIN" if outer else "JOIN"
                block.source += f" {word} {source} ON {' AND '.join(conditions) or 'TRUE'}"
                return block
            case SemiJoin(inner, subjects, other_rows, values, negated, keeps):
                block, other = self.block(inner), self.block(other_rows)
                word = "NOT IN" if negated else "IN"
                subject, value = (", ".join(map(self.text, each)) for each in (subjects, values))
                subject = subject if len(subjects) == 1 else f"({subject})"
                missing = f"{self.text(subjects[-1])} IS NULL OR " if keeps else ""
                block.conditions.append(f"({missing}{subject} {word} (SELECT {value}{other}))")
                return block
        return _Block(f"({self.select(rows)}) AS {rows.alias}")

    def grouped(self, group: Group, columns: Sequence[tuple[str, Expression]], above: Rows) -> str:
        """Groups with what is shown of them, and which: as one query."""
        block = self.block(group.rows)
        inside = {name: self.text(value) for name, value in group.keys}
        at = {value.name: str(i) for i, (_, value) in enumerate(columns, 1) if isinstance(value, ColumnValue)}
        by = f" GROUP BY {', '.join(at.get(name, text) for name, text in inside.items())}" if inside else ""
        inside |= {name: self.total(total) for name, total in group.totals}
        self.inside.update({(group.alias, name): text for name, text in inside.items()})
        conditions = []
        while isinstance(above, Filter):
            conditions.append(self.text(above.condition))
            above = above.rows
        having = f" HAVING {' AND '.join(reversed(conditions))}" if conditions else ""
        shown = self.columns(columns)
        for name in inside:
            del self.inside[group.alias, name]
        return f"SELECT {shown}{block}{by}{having}"

    def windows(self, rows: Windows) -> Iterator[str]:
        """What is said of rows by their places, and the totals around them."""
        by = f"PARTITION BY {self.listed(rows.within)}"
        order = [
            f"{self.text(each.value)} {'DESC' if each.descending else 'ASC'}"
            f" NULLS {'FIRST' if each.nulls_first else 'LAST'}"
            for each in rows.order
        ]
        sorted_, total = (
            f" ORDER BY {', '.join(order)}" if order else "",
            [*order, *map(self.text, rows.ties)],
        )
        for name, place in rows.places:
            is_total = place.said not in ("rank", "dense rank")
            how = f" ORDER BY {', '.join(total) or '1'}" if is_total else sorted_
            value = "" if place.value is None else self.text(place.value)
            word = self.dialect.places[place.said if place.later >= 0 else "before"]
            yield f"{word.format(value, abs(place.later))} OVER ({by}{how}) AS {name}"
        for name, each in rows.totals:
            yield f"{self.total(each)} OVER ({by}{sorted_}) AS {name}"

    def columns(self, columns: Sequence[tuple[str, Expression]]) -> str:
        return ", ".join(f"{self.text(value)} AS {name}" for name, value in columns)

    def total(self, total: Totals) -> str:
        return self.dialect.totals[total.function].format(
            "*" if total.value is None else self.text(total.value)
        )

    # Expressions --------------------------------------------------------------------------------------

    def listed(self, values: Sequence[Expression]) -> str:
        return ", ".join(map(self.text, values))

    def text(self, value: Expression) -> str:
        match value:
            case ColumnValue(alias, name) if (alias, name) in self.inside:
                return self.inside[alias, name]
            case ColumnValue(alias, name, of):
                if alias in self.stored:
                    return self.dialect.stored.get(of, "{0}").format(f"{alias}.{quoted(name)}")
                return self.dialect.made.get(of, "{0}").format(f"{alias}.{name}")
            case ConstantValue():
                return self.constant(value)
            case Apply("and" | "or" as word, arguments):
                return f"({f' {word.upper()} '.join(map(self.text, arguments))})"
            case Apply("case", arguments):
                *pairs, otherwise = map(self.text, arguments)
                whens = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(pairs[0::2], pairs[1::2], strict=True))
                return f"(CASE {whens} ELSE {otherwise} END)"
            case Apply("concat", arguments):
                return self.dialect.made["text"].format(f"({' || '.join(map(self.text, arguments))})")
            case Apply("md5", arguments):
                canonical = " || ".join(map(self.canonical, arguments))
                return self.dialect.operations["md5"].format(canonical=canonical)
        first = value.arguments[0]
        unit = first.value if isinstance(first, ConstantValue) and first.value in WORDS else ""
        texts = list(map(self.text, value.arguments))
        printed = self.dialect.operations[value.operation].format(
            *texts,
            all=", ".join(texts),
            rest=", ".join(texts[1:]),
            type=self.dialect.types[value.type],
            word=unit,
        )
        is_text = value.operation == "cast" and value.type == "text"
        return self.dialect.made["text"].format(printed) if is_text else printed

    def constant(self, constant: ConstantValue) -> str:
        value, of = constant.value, constant.type
        if value is None:
            return f"CAST(NULL AS {self.dialect.types[of]})"
        if constant.bare:
            return str(value)
        if isinstance(value, bool):
            text = str(value).upper()
        elif isinstance(value, float):
            text = repr(value) if "e" in repr(value) else f"{value!r}e0"
        else:
            text = str(value) if isinstance(value, int) else literal(value)
        return self.dialect.constants[of].format(text)

    def canonical(self, value: Expression) -> str:
        """A value as the text that MD5 is taken of: after its length, so that no two lists have one text."""
        pattern = self.dialect.canonical.get(value.type, "CAST({0} AS VARCHAR)")
        text = pattern.format(self.text(value))
        return f"COALESCE(CAST(LENGTH({text}) AS VARCHAR) || ':' || {text}, '-')"


def _grouped(rows: Rows, columns: Sequence[tuple[str, Expression]]) -> Group | None:
    """The group of which little more than its columns is shown, if it is one: no total is printed twice."""
    while isinstance(rows, Filter):
        rows = rows.rows
    plain = all(
        isinstance(value, (ColumnValue, ConstantValue))
        or (isinstance(value, Apply) and value.operation == "coalesce")
        for _, value in columns
    )
    return rows if isinstance(rows, Group) and plain and not _has_constant_key(rows) else None


def _has_constant_key(group: Group) -> bool:
    """A number after GROUP BY would be the place of a column."""
    return any(isinstance(value, ConstantValue) for _, value in group.keys)


def _is_join(rows: Rows) -> bool:
    while isinstance(rows, (Filter, SemiJoin)):
        rows = rows.rows
    return isinstance(rows, JoinedRows)
