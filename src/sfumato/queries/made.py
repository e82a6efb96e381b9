"""What is made of released rows: queries over shown rows of stored releases, as trees of our own.

Everything above a release is post-processing: it costs nothing and can tell nothing more (the release is all
it sees). So nearly all of SQL is allowed here. A `MadeQuery` is read by whitelist (`outer`) and printed by
whoever runs it; its tables are the rows of inner questions, by number, and public tables.

What is known of the noise goes with it. A value that is computed from numbers of one shown row, or from sums
of them over several, has a `Trace`: which numbers of which rows, and what is done with them. The rows
themselves come out of the query, in hidden columns beside those that are asked for, so that an interval can
be given for each value (law 12). What has no trace has no interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.queries.shown import Arithmetic, Function, Mean, Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from sfumato.queries.shown import Expression

MadeKind = Literal["integer", "number", "text", "boolean", "date", "timestamp", "interval", "null"]
End = Literal["", "low", "high"]  # of an interval
Held = Literal["whole", "decimal", "double"]  # what SQL holds a number in

MOST_DIGITS = 1_000  # bits of a number without noise; with more there is no interval
MOST_WRITTEN_OUT = 1_000  # queries that one becomes, where those of WITH are written out
MOST_TRACED = 50  # parts of what is known of the noise of a value; hidden columns of a query

# What is known of the noise ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom:
    """A number of one released row, or, if there are many rows, of their sums.

    `place` says where the row stands, or the list of them: as an expression inside a query, as the number of
    a hidden column outside.
    """

    question: int
    expression: Expression
    place: Made | int
    many: bool = False


@dataclass(frozen=True, slots=True)
class Exactly:
    """A number without noise."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class HowMany:
    """How many rows a list has: without noise, too."""

    place: Made | int


@dataclass(frozen=True, slots=True)
class Computed:
    """Arithmetic on traced numbers."""

    operator: Literal["+", "-", "*", "/"]
    left: Trace
    right: Trace


@dataclass(frozen=True, slots=True)
class Applied:
    """A monotone function of a traced number, by its name in `plan.Function`; or the least or greatest."""

    name: str
    parts: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The trace of the part of a UNION ALL that a row is from."""

    place: Made | int
    options: tuple[Trace | None, ...]


Trace = Atom | Exactly | HowMany | Computed | Applied | OneOf


def moved(trace: Trace, change: Callable[[Made | int], Made | int]) -> Trace:
    """The same trace, with its rows said otherwise."""
    match trace:
        case Atom(question, expression, place, many):
            return Atom(question, expression, change(place), many)
        case HowMany(place):
            return HowMany(change(place))
        case Computed(operator, left, right):
            return Computed(operator, moved(left, change), moved(right, change))
        case Applied(name, parts):
            return Applied(name, tuple(moved(each, change) for each in parts))
        case OneOf(place, options):
            found = tuple(None if each is None else moved(each, change) for each in options)
            return OneOf(change(place), found)
    return trace


def small(trace: Trace | None) -> Trace | None:
    """The trace, if it has few parts; what has many has no interval.

    A part is counted as often as it is written out: query after query may double them.
    """
    left = MOST_TRACED
    waiting: list[Trace | Expression | None] = [trace]
    while waiting:
        each = waiting.pop()
        left -= 1
        match each:
            case Computed() | Arithmetic():
                waiting += [each.left, each.right]
            case Applied():
                waiting += each.parts
            case OneOf():
                waiting += each.options
            case Function():
                waiting += each.arguments
            case Atom():
                is_made = isinstance(each.expression, (Arithmetic, Function))
                left += is_made  # it counts by its parts
                waiting += [each.expression] if is_made else []
            case Exactly() | Number():
                bits = each.value.numerator.bit_length() + each.value.denominator.bit_length()
                left -= bits // MOST_DIGITS * MOST_TRACED
        if left < 0:
            return None
    return trace


def may_be_missing(trace: Trace | None) -> bool:
    """Whether noise may decide that there is no value: a root of something negative, a division by zero."""
    match trace:
        case Atom(_, expression):
            return _divides(expression)
        case Computed(operator, left, right):
            return operator == "/" or may_be_missing(left) or may_be_missing(right)
        case Applied(name, parts):
            return name in ("root", "ln", "nullif") or any(map(may_be_missing, parts))
        case OneOf(_, options):
            return any(map(may_be_missing, options))
    return False


def has_choice(trace: Trace | None) -> bool:
    """Whether it is the first of several that there is: COALESCE of what may have no row."""
    match trace:
        case Applied(name, parts):
            return (name == "coalesce" and len(parts) > 1) or any(map(has_choice, parts))
        case Computed(_, left, right):
            return has_choice(left) or has_choice(right)
        case OneOf(_, options):
            return any(map(has_choice, options))
    return False


def _divides(expression: Expression) -> bool:
    match expression:
        case Arithmetic(operator, left, right):
            return operator == "/" or _divides(left) or _divides(right)
        case Function(name, parts):
            return name == "root" or any(map(_divides, parts))
        case Mean():
            return True
    return False


def atoms_of(trace: Trace | None) -> int:
    """How many released numbers stand in it: of each row, those intervals must hold."""
    match trace:
        case Atom():
            return 1
        case Computed(_, left, right):
            return atoms_of(left) + atoms_of(right)
        case Applied(_, parts) | OneOf(_, parts):
            return sum(map(atoms_of, parts))
    return 0


def places_of(trace: Trace) -> Iterator[Made | int]:
    """Where it says that rows stand."""
    match trace:
        case Atom(_, _, place) | HowMany(place):
            yield place
        case Computed(_, left, right):
            yield from places_of(left)
            yield from places_of(right)
        case Applied(_, parts):
            for each in parts:
                yield from places_of(each)
        case OneOf(place, options):
            yield place
            for option in options:
                if option is not None:
                    yield from places_of(option)


# Values --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """A value in a query over released rows: a word, its parts, and a text where the word needs one."""

    word: str
    kind: MadeKind
    parts: tuple[Made, ...] = ()
    text: str = ""
    noisy: bool = False  # whether released numbers decide it
    trace: Trace | None = None
    query: MadeQuery | None = None  # of a subquery
    over: MadeWindow | None = None
    held: Held = "double"  # a number


@dataclass(frozen=True, slots=True)
class MadeOrder:
    """What rows are sorted by."""

    by: Made
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class MadeWindow:
    """The rows that a window function looks at."""

    partition: tuple[Made, ...] = ()
    order: tuple[MadeOrder, ...] = ()
    frame: str = ""  # made of listed words and whole numbers alone

    @property
    def noisy(self) -> bool:
        """Whether released numbers decide which rows these are."""
        return any(each.noisy for each in (*self.partition, *(one.by for one in self.order)))


# Queries -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MadeColumn:
    """A column that a query has; rows of its trace stand in hidden columns, by number."""

    name: str
    kind: MadeKind
    noisy: bool = False
    trace: Trace | None = None
    held: Held = "double"  # a number
    end: End = ""  # of the interval of its trace, which is shown instead of the value


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The shown rows of an inner question, or of a public table; hidden column 0 is the number of the row."""

    number: int
    columns: tuple[MadeColumn, ...]
    hidden: int = 1
    selected: bool = False
    partial: bool = False  # whether released numbers decided which groups there are


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The rows of a public table."""

    table: str
    columns: tuple[MadeColumn, ...]
    hidden: int = 0
    selected: bool = False


@dataclass(frozen=True, slots=True)
class ListedRows:
    """VALUES: rows that are written out; or a series from one value to another by steps."""

    rows: tuple[tuple[Made, ...], ...]
    columns: tuple[MadeColumn, ...]
    is_series: bool = False
    hidden: int = 0
    selected: bool = False


@dataclass(frozen=True, slots=True)
class MadeSource:
    """Something in FROM, and how it is joined with what stands before it."""

    alias: str
    body: MadeQuery
    join: Literal["", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"] = ""
    on: Made | None = None


@dataclass(frozen=True, slots=True)
class MadeSelect:
    """A SELECT over released rows."""

    columns: tuple[MadeColumn, ...]
    items: tuple[Made, ...]
    rows: tuple[Made, ...]  # hidden columns, behind the others
    sources: tuple[MadeSource, ...] = ()
    where: Made | None = None
    group: tuple[Made, ...] = ()
    having: Made | None = None
    qualify: Made | None = None
    order: tuple[MadeOrder, ...] = ()
    limit: int | None = None
    offset: int | None = None
    distinct: bool = False
    selected: bool = False  # whether released numbers decide which rows there are

    is_total: bool = False  # whether it adds up all rows, and has one row even if there are none

    @property
    def hidden(self) -> int:
        """How many hidden columns it has."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class MadeUnion:
    """UNION, INTERSECT or EXCEPT of queries with the same columns."""

    word: Literal["UNION ALL", "UNION", "INTERSECT", "EXCEPT"]
    parts: tuple[MadeQuery, ...]
    columns: tuple[MadeColumn, ...]
    hidden: int = 0  # which part a row is from, then the hidden columns of all parts
    order: tuple[MadeOrder, ...] = ()
    limit: int | None = None
    offset: int | None = None
    selected: bool = False


MadeQuery = ShownRows | PublicRows | ListedRows | MadeSelect | MadeUnion


def is_partial(query: MadeQuery) -> bool:
    """Whether released numbers decided which groups it is made of: sums over them leave the others out."""
    return any(isinstance(each, ShownRows) and each.partial for each in queries_in(query))


def queries_in(query: MadeQuery) -> Iterator[MadeQuery]:
    """The queries that it takes its rows from, and itself, each once."""
    seen: set[int] = set()
    waiting = [query]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            match each:
                case MadeSelect(sources=sources):
                    waiting += [source.body for source in sources]
                case MadeUnion(parts=parts):
                    waiting += parts


def written_out(query: MadeQuery) -> int:
    """How many queries it becomes where an engine writes those of WITH out, wherever they are named."""
    sizes: dict[int, int] = {}
    for each in reversed(list(queries_in(query))):
        _size(each, sizes)
    return _size(query, sizes)


def _size(query: MadeQuery, sizes: dict[int, int]) -> int:
    if id(query) not in sizes:
        match query:
            case MadeSelect(sources=sources):
                sizes[id(query)] = 1 + sum(_size(each.body, sizes) for each in sources)
            case MadeUnion(parts=parts):
                sizes[id(query)] = 1 + sum(_size(each, sizes) for each in parts)
            case _:
                sizes[id(query)] = 1
    return sizes[id(query)]


def is_sorted_by_noise(query: MadeQuery) -> bool:
    """Whether released numbers decide the order in which its rows come."""
    while isinstance(query, MadeSelect):
        if any(each.by.noisy for each in query.order):
            return True
        if len(query.sources) != 1:
            return False
        query = query.sources[0].body
    return False


def public_rows(query: MadeQuery) -> list[PublicRows]:
    """The public tables that are read in a query, each once."""
    found: dict[str, PublicRows] = {}
    seen: set[int] = set()
    waiting: list[object] = [query]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case PublicRows():
                found[each.table] = each
            case MadeSelect():
                waiting += [source.body for source in each.sources]
                waiting += [source.on for source in each.sources]
                waiting += [*each.items, *each.rows, *each.group, each.where, each.having, each.qualify]
                waiting += [order.by for order in each.order]
            case MadeUnion():
                waiting += each.parts
            case ListedRows():
                waiting += [value for row in each.rows for value in row]
            case Made():
                waiting += [*each.parts, each.query]
    return [found[name] for name in sorted(found)]


def either(a: Trace | None, b: Trace | None, first: int) -> Trace | None:
    """The trace of a column of UNION ALL: hidden column 0 says which part, then come those of both parts."""
    if a is None and b is None:
        return None

    def by(shift: int, trace: Trace | None) -> Trace | None:
        if trace is None:
            return None
        return moved(trace, lambda at: at + shift if isinstance(at, int) else at)

    return OneOf(0, (by(1, a), by(1 + first, b)))


def is_of_others(place: Made | int) -> bool:
    """Whether it says other rows than the one it stands in."""
    return isinstance(place, Made) and (place.word in ("list", "scalar row") or place.over is not None)


def is_added(place: Made | int) -> bool:
    """Whether it says rows of a group, and not of one row in it."""
    return isinstance(place, Made) and (
        (place.word == "list" and place.over is None) or place.word == "scalar row"
    )


def has_end(made: Made | None) -> bool:
    """Whether an end of an interval is in it."""
    return made is not None and (made.word == "end" or any(map(has_end, made.parts)))


def looks_around(item: tuple[str, Made]) -> bool:
    """Whether other rows count in a value."""
    made = item[1]
    return made.over is not None or any(looks_around(("", each)) for each in made.parts)


_IN_ORDER = ("row_number", "lag", "lead", "first_value", "last_value", "nth_value", "ntile", "first", "last")


def takes_order(made: Made) -> bool:
    """Whether it depends on the order in which rows come: OVER () and FIRST say none."""
    inner = made.parts[0] if made.word == "over" and made.parts else made
    is_framed = made.over is not None and made.over.frame.startswith("ROWS")
    is_open = made.over is None or not made.over.order
    if made.word == "over" and is_open and (inner.text in _IN_ORDER or is_framed):
        return True
    if made.word == "aggregate" and made.text in ("first", "last"):
        return True
    return any(map(takes_order, made.parts))


def is_sorted(query: MadeQuery) -> bool:
    """Whether its rows come in an order that was asked for."""
    while isinstance(query, MadeSelect):
        if query.order:
            return True
        if len(query.sources) != 1:
            return False
        query = query.sources[0].body
    return False
