"""The rows that are made of released ones, with intervals where the noise is known (law 12).

What goes in are the shown rows of stored releases, so all of this is post-processing: free, and no charge
depends on it. The query over them gives its columns and, in hidden ones, which released rows a value was
made of; from these and its trace comes an interval. Numbers of one row keep the interval that they have in
their release, sums of rows have that of the sum of their noise, and arithmetic on several shares the error
probability among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.curator.ends import WHOLE, combined, function_ends
from sfumato.curator.intervals import Errors
from sfumato.curator.totals import together
from sfumato.errors import AfterRelease, Unsupported
from sfumato.queries.made import (
    Applied,
    Atom,
    Computed,
    Exactly,
    HowMany,
    OneOf,
    atoms_of,
    may_be_missing,
    public_rows,
)
from sfumato.queries.measures import among_of
from sfumato.queries.shown import unbounded
from sfumato.sources.apart import ShownTable, made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.linear import Ends, Reader
    from sfumato.queries.made import MadeQuery, Trace
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Plan
    from sfumato.queries.shown import Expression, Weighted
    from sfumato.sources.source import Source

MOST_INTERVALS = 200_000  # parts of intervals that are computed for a query
MOST_ADDED = 2_000_000  # numbers that are added up for the intervals of sums
MOST_PUBLIC_ROWS = 100_000  # of a public table beside released rows
Vector = tuple[tuple[int, ...], ...]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Below:
    """A release that something is made of: its shown rows, and the integers that were drawn for them."""

    plan: Plan
    query: Calibration
    table: ShownTable
    vectors: Sequence[Vector]  # of its shown rows
    times: Sequence[int]  # of how many groups each is the total
    sharing: Sequence[int | None]  # and with how many its declared total is shared


def check_above(plan: Plan, sql: str, source: Source) -> None:
    """Refuse what no engine can make of the rows of a plan: found out with a row of nothing, in which
    everything that is written out is computed."""
    assert plan.outer is not None
    for table in public_rows(plan.outer.query):
        if source.alike(table.table, "") > MOST_PUBLIC_ROWS:
            told = f"the public table {table.table!r} has more than {MOST_PUBLIC_ROWS:,} rows"
            raise Unsupported(told, "Join it after the release.", sql=sql)
    tables = []
    for each in plan.all:
        kinds = tuple(column.kind for column in each.columns)
        tables.append(ShownTable(kinds, tuple([None] for _ in kinds)))
    public = [
        ShownTable(tuple(c.kind for c in each.columns), tuple([None] for _ in each.columns))
        for each in public_rows(plan.outer.query)
    ]
    try:
        made(plan.outer.query, tables, public, is_check=True)
    except AfterRelease as error:
        told = f"what the query makes of released rows cannot be computed: {error.why}"
        raise Unsupported(told, "Cast values to the types that you mean.", sql=sql) from None


def public_tables(query: MadeQuery, source: Source) -> tuple[ShownTable, ...]:
    """The rows of the public tables that a query over released rows reads."""
    found = []
    for each in public_rows(query):
        rows = source.listed(each.table, tuple((c.name, c.kind) for c in each.columns))
        columns = tuple([row[i] for row in rows] for i in range(len(each.columns)))
        found.append(ShownTable(tuple(c.kind for c in each.columns), columns))
    return tuple(found)


def rows_above(
    query: MadeQuery, below: Sequence[Below], public: Sequence[ShownTable], tail: Fraction
) -> list[list[tuple[Any, Ends | None]]]:
    """Every row: the values of its columns, and their intervals where they have one."""
    found = made(query, [each.table for each in below], public)
    all_rows = max(sum(len(each.vectors) for each in below), 1)
    known, count = NoiseBelow(below), len(query.columns)
    tails = []
    for column in query.columns:  # where released values pick rows, the intervals of all must hold at once
        tails.append(tail / (all_rows * max(atoms_of(column.trace), 1)) if query.selected else tail)
    # where it is told too long of which rows each value was made, none has an interval
    parts = len(found) * sum(atoms_of(column.trace) for column in query.columns)
    is_told = parts <= MOST_INTERVALS and all(len(row) > count or not query.hidden for row in found[:1])
    rows = []
    for row in found:
        hidden, cells = row[count:], []
        for column, value, own in zip(query.columns, row[:count], tails, strict=True):
            if column.trace is not None and not is_told:
                ends: Ends | None = WHOLE
            else:
                ends = None if column.trace is None else known.ends(column.trace, hidden, own)
            cells.append((value, ends))
        rows.append(cells)
    return rows


class NoiseBelow:
    """What is known of the noise of released rows."""

    def __init__(self, below: Sequence[Below]) -> None:
        self.below = below
        self._readers: dict[tuple[int, int, int, Fraction, int | None], tuple[Expression, Reader]] = {}
        self._bare: dict[int, tuple[Expression, Expression]] = {}
        self.added = 0  # numbers of rows that were added up

    def ends(self, trace: Trace, hidden: Row, tail: Fraction) -> Ends:
        """Ends that miss the noiseless value with probability at most `tail`."""
        parts = _parts(trace, hidden)
        return self._ends(trace, hidden, tail / max(parts, 1))

    def _ends(self, trace: Trace, hidden: Row, tail: Fraction) -> Ends:
        match trace:
            case Exactly(value):
                return _around(value)
            case HowMany(place):
                return _around(Fraction(len(_listed(hidden, place))))
            case Computed(operator, left, right):
                return combined(operator, self._ends(left, hidden, tail), self._ends(right, hidden, tail))
            case Applied("coalesce", parts):
                return self._first(parts, hidden, tail)
            case Applied(name, parts):
                return _applied(name, [self._ends(each, hidden, tail) for each in parts])
            case OneOf():
                chosen = _chosen(trace, hidden)
                return WHOLE if chosen is None else self._ends(chosen, hidden, tail)
        return self._of_atom(trace, hidden, tail)

    def _first(self, parts: Sequence[Trace], hidden: Row, tail: Fraction) -> Ends:
        """COALESCE: the first that has a value, or any of those that noise may take for it."""
        found: list[Ends] = []
        for each in parts:
            if isinstance(each, Atom) and not _rows_of(each, hidden):
                continue  # there is no row of it, whatever the noise is
            found.append(self._ends(each, hidden, tail))
            if not may_be_missing(each):
                break
        if not found:
            return WHOLE
        return min(low for low, _ in found), max(high for _, high in found)

    def _of_atom(self, atom: Atom, hidden: Row, tail: Fraction) -> Ends:
        below = self.below[atom.question]
        if not atom.many:
            assert isinstance(atom.place, int)
            row = hidden[atom.place]
            if row is None:  # no row of it: what it would be is not known
                return WHOLE
            reader = self._reader(atom, below.times[row], tail, below.sharing[row])
            return reader(below.vectors[row])
        rows = _listed(hidden, atom.place)
        self.added += len(rows)
        # a sum over no rows has no value; the same noise may be in it several times; or it takes too long
        if not rows or len(set(rows)) < len(rows) or below.plan.sets or self.added > MOST_ADDED:
            return WHOLE
        total, sharing = together(below.plan, [below.vectors[row] for row in rows])
        added = replace(atom, expression=self._added(atom))
        return self._reader(added, len(rows), tail, sharing)(total)

    def _added(self, atom: Atom) -> Expression:
        """What is added up of each row: as it was released, kept within no bounds. One for all rows."""
        key = id(atom.expression)
        if key not in self._bare:
            self._bare[key] = atom.expression, unbounded(atom.expression)
        return self._bare[key][1]

    def _reader(self, atom: Atom, times: int, tail: Fraction, sharing: int | None) -> Reader:
        key = (atom.question, id(atom.expression), times, tail, sharing)
        if key not in self._readers:
            below = self.below[atom.question]
            expression = unbounded(atom.expression, partial(_is_kept, below.plan.measures))
            errors = Errors.of(below.plan, below.query, times, sharing=sharing)
            reader = errors.reader(expression, tail)
            self._readers[key] = atom.expression, reader  # kept, so that no other one gets its identity
        return self._readers[key][1]


def _is_kept(measures: Sequence[Measure], total: Weighted) -> bool:
    """Whether a count is kept within bounds by what its integers mean: those of before are not."""
    return all(among_of(measures[released.measure]) is not None for _, released in total.terms)


def _parts(trace: Trace, hidden: Row) -> int:
    """Into how many parts the error probability is split."""
    match trace:
        case Atom():
            return 1
        case Computed(_, left, right):
            return _parts(left, hidden) + _parts(right, hidden)
        case Applied(_, parts):
            return sum(_parts(each, hidden) for each in parts)
        case OneOf():
            chosen = _chosen(trace, hidden)
            return 0 if chosen is None else _parts(chosen, hidden)
    return 0


def _chosen(trace: OneOf, hidden: Row) -> Trace | None:
    """The part of a UNION ALL that a row is from; none where there is no row."""
    assert isinstance(trace.place, int)
    part = hidden[trace.place]
    return None if part is None else trace.options[part]


def _rows_of(atom: Atom, hidden: Row) -> Sequence[Any]:
    """The released rows that a number is of."""
    assert isinstance(atom.place, int)
    found = hidden[atom.place]
    return _listed(hidden, atom.place) if atom.many else [] if found is None else [found]


def _listed(hidden: Row, place: Any) -> list[int]:
    assert isinstance(place, int)
    return [row for row in hidden[place] or () if row is not None]


def _around(value: Fraction) -> Ends:
    near = float(value)
    if Fraction(near) == value:
        return near, near
    return math.nextafter(near, -math.inf), math.nextafter(near, math.inf)


def _applied(name: str, ends: list[Ends]) -> Ends:
    """A monotone function of ends; the others have theirs in `intervals`."""
    if name in ("exp", "ln"):
        low, high = ends[0]
        found = _exp(low, high) if name == "exp" else _ln(low, high)
        return math.nextafter(found[0], -math.inf), math.nextafter(found[1], math.inf)
    if name == "nullif":
        return ends[0]
    word, _, digits = name.partition(" ")
    return function_ends(word, [*ends, (float(digits), float(digits))] if digits else ends)


def _exp(low: float, high: float) -> Ends:
    def at(x: float) -> float:
        try:
            return math.exp(x)
        except OverflowError:
            return math.inf

    return at(low), at(high)


def _ln(low: float, high: float) -> Ends:
    return tuple(math.log(x) if x > 0 else -math.inf for x in (low, high))  # type: ignore[return-value]  # two
