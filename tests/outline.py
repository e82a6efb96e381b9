"""A `Work` as lines that a person can read: what golden plans pin, beside the text of each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.sources.work import (
    ColumnValue,
    ConstantValue,
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
    TableRows,
    Totals,
    UnitedRows,
    Use,
    Windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.sources.work import EngineQuery, Work

INFIX = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "and", "or", "divide", "modulo", "quotient")


def outline(work: Work) -> Iterator[str]:
    """All queries, one after the other."""
    for name, query in work.queries:
        yield f"{name or 'result'}:"
        yield from _query(query)


def _query(query: EngineQuery) -> Iterator[str]:
    for each in query.shared:
        once = {True: " (once)", False: " (each time)", None: ""}[each.once]
        yield f"  {each.name}{once}:"
        yield from _rows(each.rows, 2)
    yield from _rows(query.rows, 1)


def _rows(rows: Rows, depth: int) -> Iterator[str]:
    told, below = _told(rows)
    yield f"{'  ' * depth}{told}"
    for each in below:
        yield from _rows(each, depth + 1)


def _told(rows: Rows) -> tuple[str, tuple[Rows, ...]]:
    match rows:
        case TableRows(alias, table):
            return f"{alias}: table {table}", ()
        case Keys(alias, values, of):
            return f"{alias}: {len(values)} public keys of type {of} from {values[0]!r}", ()
        case Given(alias):
            return f"{alias}: chosen numbers", ()
        case Use(alias, name):
            return f"{alias}: {name}", ()
        case Filter(inner, condition):
            return f"where {said(condition)}", (inner,)
        case JoinedRows(left, right, on, outer):
            return f"{'left ' if outer else ''}join on {_all(on)}", (left, right)
        case SemiJoin(inner, subjects, other, values, negated):
            word = "not among" if negated else "among"
            return f"where {_all(subjects)} {word} {_all(values)}", (inner, other)
        case Select(alias, inner, columns):
            return f"{alias}: select {_named(columns)}", (inner,)
        case Group(alias, inner, keys, totals):
            sums = ", ".join(f"{name} = {_total(each)}" for name, each in totals)
            return f"{alias}: group by {_named(keys) or 'nothing'}: {sums or 'nothing'}", (inner,)
        case Rank(alias, inner, columns, within, order, name):
            return f"{alias}: rank {name} within ({_all(within)}) by ({_all(order)}): {_named(columns)}", (
                inner,
            )
        case Windows(alias, inner, columns, within, order, ties, places, totals):
            by = [
                f"{said(each.value)}{' descending' if each.descending else ''}"
                f"{', NULLs first' if each.nulls_first else ''}"
                for each in order
            ]
            told = [
                f"{name} = {each.said}{'' if each.value is None else f' {said(each.value)}'}"
                f"{f' {each.later:+}' if each.later else ''}"
                for name, each in places
            ]
            told += [f"{name} = {_total(each)}" for name, each in totals]
            which = f"within ({_all(within)}) by ({'; '.join(by)}) then ({_all(ties)})"
            return f"{alias}: windows {', '.join(told)} {which}: {_named(columns)}", (inner,)
        case Repeat(alias, inner, columns, times, name):
            return f"{alias}: repeat {name} times {said(times)}: {_named(columns)}", (inner,)
        case UnitedRows(alias, parts):
            return f"{alias}: union", parts


def _total(total: Totals) -> str:
    return f"{total.function}({'' if total.value is None else said(total.value)})"


def _named(columns: Iterable[tuple[str, Expression]]) -> str:
    return ", ".join(f"{name} = {said(value)}" for name, value in columns)


def _all(values: Iterable[Expression]) -> str:
    return ", ".join(map(said, values))


def said(value: Expression) -> str:
    """An expression; the type of a constant or of a cast stands behind it."""
    match value:
        case ColumnValue(alias, name):
            return f"{alias}.{name}"
        case ConstantValue(known, of, bare):
            return f"{known!r}" if bare or of == "text" else f"{known!r}:{of}"
    arguments = [said(each) for each in value.arguments]
    if value.operation in ("cast", "try cast"):
        return f"{value.operation}({arguments[0]}, {value.type})"
    if value.operation in INFIX:
        return f"({f' {value.operation} '.join(arguments)})"
    return f"{value.operation}({', '.join(arguments)})"
