"""What the analyst gets: numbers, how wrong they may be, what they cost. Never the answer."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import operator
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator import show
from sfumato.curator.above import Below, rows_above
from sfumato.curator.intervals import Errors
from sfumato.curator.picture import Picture, picture
from sfumato.curator.plot import plotted
from sfumato.curator.totals import sharing, with_rests
from sfumato.curator.vega import specified
from sfumato.curator.veils import columns_of, is_ordered
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Finite
from sfumato.mechanisms.arguments import whole
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.cells import CUT_ALIKE, CUT_MEANS, NANO
from sfumato.queries.measures import Kinds, Selected, among_of, cut_of, total_of
from sfumato.queries.plan import Combined, Having, Plan
from sfumato.queries.relations import chains_of, cuts, number_of, sides_of
from sfumato.queries.shown import Chosen, Expression, KeyOf, Weighted, unbounded
from sfumato.queries.words import spoken
from sfumato.sources.apart import ShownTable
from sfumato.utility.gain import guess, nearness, weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas
    import polars
    import pyarrow

    from sfumato.budget import Draw, Receipt
    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.linear import Ends
    from sfumato.curator.plot import Axes, Figure
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.cells import Shortfall, Total
    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.made import End
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Outer
    from sfumato.queries.relations import Join
    from sfumato.utility.gain import Gain

TINY = 1e-200  # a narrower interval counts as a point
SHARP = 1e-12  # or one that is no wider than this part of its number: floats know no better
DIGITS = 100  # a shown number is rounded to less than this part of its interval
LEVEL = "0.95"
SEEN = 16  # letters of a head that are shown


@dataclass(frozen=True, slots=True)
class Cell:
    """A released number and the ends of its interval; value is None where a ratio has no value."""

    value: Fraction | None
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Release:
    """A released table. Everything in it is public.

    `rows()`, `df()`, `pl()`, `arrow()` give for every column its value and the ends of its interval. Values
    are rounded to a hundredth of their interval and intervals outward; `exact()` gives the unrounded
    fractions.
    """

    database: str
    plan: Plan
    query: Calibration
    drawn: Draw
    receipt: Receipt
    left: Guarantee
    analyst: str = ""
    gains: tuple[str, ...] = ()  # how much surer of a secret it can make anybody, in sentences
    beside: tuple[Release, ...] = ()  # of the other questions that its plan makes something of
    public: tuple[ShownTable, ...] = ()  # of public tables that stand beside them there
    caps: Guarantee | None = None  # what was spent before it on caps that fit its question
    together: Guarantee | None = None  # what all of them cost, if there are several
    own: Guarantee | None = None  # what of its price went into histograms of its own
    wished: str = ""  # the error that it was asked for, and what its price was expected to give
    aged: str = ""  # that what was known of its tables is older than the data
    unmeasured: str = ""  # that it was not measured how much people have

    @staticmethod
    def check_level(level: str | float | Fraction) -> None:
        """Refuse a level that no interval can have, before anything is charged for it."""
        _level(level)

    # Numbers ------------------------------------------------------------------------------------------

    def exact(self, level: str | float | Fraction = LEVEL) -> list[dict[str, Value | Cell | None]]:
        """Every row with unrounded cells, ordered and limited as asked."""
        tail = 1 - _level(level)
        if self.plan.shows_nothing:
            return []
        if self.plan.outer is not None:
            return self._above(self.plan.outer, tail)
        groups, vectors, times = self._rolled(self._groups(), self._vectors())
        if self.plan.selects:
            tail /= max(len(groups), 1)  # rows picked by noisy values: all intervals must hold at once
        whole = self._whole(vectors)
        kinds = [(count, sharing(self.plan, group)) for count, group in zip(times, groups, strict=True)]
        known = {each: Errors.of(self.plan, self.query, each[0], whole, each[1]) for each in set(kinds)}
        errors = [known[each] for each in kinds]

        def column(expression: Expression) -> Callable[[int], Value | Cell | None]:
            if isinstance(expression, KeyOf):
                return lambda g: groups[g][expression.index]
            if is_label(expression):
                return lambda g: self._label(expression, vectors[g])
            readers = {kind: each.reader(expression, tail) for kind, each in known.items()}
            return lambda g: Cell(errors[g].value(expression, vectors[g]), *readers[kinds[g]](vectors[g]))

        columns = {output.name: column(output.expression) for output in self.plan.outputs}
        shown = self._shown(errors, groups, vectors)
        return [{name: cell(g) for name, cell in columns.items()} for g in shown]

    def _above(self, outer: Outer, tail: Fraction) -> list[dict[str, Value | Cell | None]]:
        """What is made of the shown rows of this release, and of those beside it."""
        first = replace(self, plan=self.plan.all[0], beside=(), public=())
        below = [each._below() for each in (first, *self.beside)]
        rows = []
        for row in rows_above(outer.query, below, self.public, tail):
            cells: dict[str, Value | Cell | None] = {}
            for column, (value, ends) in zip(outer.query.columns, row, strict=True):
                shown = value if ends is None else Cell(_fraction(value), *_holding(ends, value))
                cells[column.name] = shown
            rows.append(cells)
        return rows

    def _below(self) -> Below:
        """Its shown rows, as something is made of them."""
        groups, vectors, times = self._rolled(self._groups(), self._vectors())
        rows, names = self.rows(), [column.name for column in self.plan.columns]
        columns = tuple([row[name] for row in rows] for name in names)
        table = ShownTable(tuple(column.kind for column in self.plan.columns), columns)
        return Below(self.plan, self.query, table, vectors, times, [sharing(self.plan, g) for g in groups])

    def guesses(
        self,
        column: str,
        belief: Finite[int] | Mapping[int, Fraction | int],
        gain: Gain[int, int] | None = None,
    ) -> list[dict[str, Any]]:
        """The best guess about a count for whoever believes this and wants that. Free: post-processing.

        `belief` are the possible counts of a group and their probabilities, or weights in their proportion;
        without a gain, the guess is the one that is nearest on average. Each row has the keys, the released
        value, the guess, and what it is expected to gain.
        """
        output = next((each for each in self.plan.outputs if each.name == column), None)
        known = ", ".join(each.name for each in self.plan.outputs)
        if output is None:
            raise InvalidParameter("column", column, f"name one of: {known}")
        expression = unbounded(output.expression)
        terms = expression.terms if isinstance(expression, Weighted) else ()
        noise = Errors.of(self.plan, self.query).noises[terms[0][1].measure] if len(terms) == 1 else None
        is_shared = len(terms) == 1 and total_of(self.plan.measures[terms[0][1].measure]) is not None
        if (
            len(terms) != 1
            or noise is None
            or is_shared
            or (1 / terms[0][0]).denominator != 1
            or self.plan.sets
        ):
            told = "take a column that is a number with noise of its own, such as COUNT(*) asked by itself"
            raise InvalidParameter("column", column, told)
        ((weight, released),) = terms
        before = belief if isinstance(belief, Finite) else weighted(belief)
        for value in before.outcomes:
            whole("belief", value)
        keys = {e.name: e.expression.index for e in self.plan.outputs if isinstance(e.expression, KeyOf)}
        if taken := {"guess", "gain"} & {column, *keys}:
            raise InvalidParameter("column", taken.pop(), "this name is reserved; rename the column with AS")
        wanted = gain or nearness(before.outcomes)
        step = int(1 / weight)
        groups, vectors, _ = self._rolled(self._groups(), self._vectors())
        errors = Errors.of(self.plan, self.query)
        rows: list[dict[str, Any]] = []
        for g in self._shown([errors] * len(groups), groups, vectors):
            seen = vectors[g][released.measure][released.place]
            found = guess(noise, seen, before, wanted, step=step)
            kept = (
                errors.value(output.expression, vectors[g]) if expression is not output.expression else None
            )
            shown = seen / step if kept is None else float(kept)
            labels = {name: groups[g][i] for name, i in keys.items()}
            rows.append({**labels, column: shown, "guess": found.value, "gain": found.gain})
        return rows

    def _groups(self) -> tuple[tuple[Value, ...], ...]:
        """The groups of the release: the declared ones, or those that were chosen to be shown."""
        if not self.plan.private_keys:
            groups, shown = self.plan.groups, self.plan.shown_groups
            return groups if shown is None else tuple(groups[g] for g in shown)
        kinds = [key.expression.domain.kind for key in self.plan.keys]
        return tuple(read_key(str(text), kinds) for text in self.drawn[0])

    def _vectors(self) -> list[tuple[tuple[int, ...], ...]]:
        """The released integers of every group, measure by measure."""
        count = len(self.drawn[0]) if self.plan.private_keys else self.plan.size
        places = [0 if isinstance(m, Selected) else m.places for m in self.plan.measures]
        shown = self.plan.shown_groups
        return [
            tuple(
                tuple(int(y) for y in drawn[g * width : (g + 1) * width])
                for drawn, width in zip(self.drawn, places, strict=True)
            )
            for g in (range(count) if shown is None else shown)
        ]

    def _rolled(
        self, groups: tuple[tuple[Value, ...], ...], vectors: list[tuple[tuple[int, ...], ...]]
    ) -> tuple[tuple[tuple[Value | None, ...], ...], list[tuple[tuple[int, ...], ...]], list[int]]:
        """The groups with their totals, and how many groups each is made of: what is released adds up."""
        if not self.plan.sets:
            return groups, with_rests(self.plan, groups, vectors, groups, vectors), [1] * len(groups)
        found: dict[tuple[Value | None, ...], list[tuple[tuple[int, ...], ...]]] = {}
        for kept in self.plan.sets:
            for group, vector in zip(groups, vectors, strict=True):
                label = tuple(value if i in kept else None for i, value in enumerate(group))
                found.setdefault(label, []).append(vector)
        totals = [
            tuple(tuple(map(sum, zip(*parts, strict=True))) for parts in zip(*each, strict=True))
            for each in found.values()
        ]
        totals = with_rests(self.plan, groups, vectors, tuple(found), totals)
        return tuple(found), totals, [len(each) for each in found.values()]

    def _whole(self, vectors: list[tuple[tuple[int, ...], ...]]) -> tuple[tuple[int, ...], ...]:
        """What was released for all groups together, where what caps cut is divided among them."""
        measures = self.plan.measures
        if not vectors or all(cut_of(each) is None for each in measures):
            return ()
        count = len(self.plan.sets) or 1  # so often each group is in a total
        return tuple(
            tuple(sum(each) // count if i < m.cells else 0 for i, each in enumerate(zip(*parts, strict=True)))
            for m, parts in zip(measures, zip(*vectors, strict=True), strict=True)
        )

    def _label(self, expression: Expression, vector: tuple[tuple[int, ...], ...]) -> Value:
        assert isinstance(expression, Chosen)
        measure = self.plan.measures[expression.measure]
        assert isinstance(measure, Kinds)
        return measure.values[vector[expression.measure][expression.place]]

    def rows(self, level: str | float | Fraction = LEVEL) -> list[dict[str, Any]]:
        """Every row as a dictionary: key columns, and for each number `name`, `name_low`, `name_high`."""
        return self._rounded(level)[0]

    def df(self, level: str | float | Fraction = LEVEL) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise ImportError('df() needs pandas. Run: pip install "sfumato[pandas]"') from None
        return pandas.DataFrame(self.rows(level), columns=self.columns)

    def pl(self, level: str | float | Fraction = LEVEL) -> polars.DataFrame:
        """The rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise ImportError('pl() needs polars. Run: pip install "sfumato[polars]"') from None
        return polars.DataFrame(self._columnar(level), strict=False)

    def arrow(self, level: str | float | Fraction = LEVEL) -> pyarrow.Table:
        """The rows as an Arrow table."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError('arrow() needs pyarrow. Run: pip install "sfumato[arrow]"') from None
        return pyarrow.table(self._columnar(level))

    def arrow_stream(self, level: str | float | Fraction = LEVEL) -> bytes:
        """The rows as an Arrow stream, as it is sent."""
        table = self.arrow(level)
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows()`."""
        names: list[str] = []
        for each in self.plan.columns:
            names += (
                [each.name, f"{each.name}_low", f"{each.name}_high"] if each.has_interval else [each.name]
            )
        return names

    @property
    def cost(self) -> Guarantee:
        """Charged by asking now: zero if the question was paid before."""
        charged = self.receipt.charged
        if self.own is None or not charged.amount:
            return charged
        return charged.of(charged.amount + self.own.amount, charged.delta)

    @property
    def guarantee(self) -> Guarantee:
        """What the release proves when one unit comes or goes."""
        return self.together or self.query.guarantee()

    # Words --------------------------------------------------------------------------------------------

    def notes(self, level: str | float | Fraction = LEVEL) -> list[str]:
        """What the numbers do not say by themselves."""
        told = [f"Asked within {self.wished}."] if self.wished else []
        told += [f"{each}." for each in (self.aged, self.unmeasured) if each]
        return [self.cost_note(), *told, *show.gains(self.gains), *reading_notes(self.plan, level)]

    def cost_note(self) -> str:
        """What it cost and what is left."""
        currency, number = self.left.currency, self.receipt.number
        whose = f"for {self.analyst!r}" if self.analyst else f"in {self.database!r}"
        left = f"{currency.capitalize()} {decimal(self.left.amount)} left {whose}."
        if number == 0:
            return f"Free: this shows nothing from the data. {left}"
        if self.cost.amount == 0:
            return f"Free: answered from receipt {number}, already paid. {left}"
        caps = "" if self.caps is None else f" for the question, after {self.caps} for its caps"
        caps = caps if self.own is None else f", {self.own} of it to find a cap that fits"
        return f"Charged {self.cost} (receipt {number}-{self.receipt.head[:SEEN]}){caps}. {left}"

    def text(self, level: str | float | Fraction = LEVEL) -> str:
        """The table for a terminal, with intervals at the given level."""
        return "\n".join([self.table(level), "", *show.paragraphs(self.notes(level))])

    def table(self, level: str | float | Fraction = LEVEL) -> str:
        """The numbers alone."""
        return show.table(*self._grid(level))

    def csv(self, level: str | float | Fraction = LEVEL) -> str:
        """The rows as CSV, with a header."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows(level))
        return text.getvalue()

    def as_dict(self, level: str | float | Fraction = LEVEL) -> dict[str, Any]:
        """The same facts for programs: everything in it is JSON, an end at infinity is null."""

        def plain(value: Any) -> Any:
            if isinstance(value, float) and math.isinf(value):
                return None
            return value.isoformat() if isinstance(value, datetime.date) else value

        return {
            "rows": [{name: plain(value) for name, value in row.items()} for row in self.rows(level)],
            "level": str(level),
            "charged": decimal(self.cost.amount),
            **self.guarantee.as_dict(),
            "left": decimal(self.left.amount),
            "receipt": self.receipt.number,
            "head": f"{self.receipt.number}-{self.receipt.head}",
            "gains": list(self.gains),
            "notes": self.notes(level),
        }

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return show.html_table(*self._grid(LEVEL), self.notes())

    def _grid(self, level: str | float | Fraction) -> tuple[list[str], list[list[str]], list[bool]]:
        rows, decimals = self._rounded(level)
        ends, headers = self._ends(), list[str]()
        left: list[bool] = []
        for column in self.plan.columns:
            number = column.kind in ("integer", "number") and not isinstance(column.expression, KeyOf)
            headers += [column.name, f"{_percent(level)} interval"] if column.has_interval else [column.name]
            left += [False, False] if column.has_interval else [not number]
        body: list[list[str]] = []
        for row in rows:
            line: list[str] = []
            for column in self.plan.columns:
                name = column.name
                if name in ends:
                    line.append(show.number(row[name], decimals[name]))
                    continue
                if not column.has_interval:
                    is_total = row[name] is None and isinstance(column.expression, KeyOf)
                    line.append("(all)" if is_total else "" if row[name] is None else str(row[name]))
                    continue
                value, low, high = (
                    show.number(row[name + end], decimals[name]) for end in ("", "_low", "_high")
                )
                line += [value, f"[{low}, {high}]"]
            body.append(line)
        return headers, body, left

    # Pictures -----------------------------------------------------------------------------------------

    def drawing(self, level: str | float | Fraction = LEVEL) -> Picture:
        """What is drawn of it: a panel for every number column, in plain numbers."""
        _level(level)
        columns = columns_of(self.plan, [self.query, *(each.query for each in self.beside)])
        return picture(columns, self.rows, level, is_ordered=is_ordered(self.plan))

    def plot(self, level: str | float | Fraction = LEVEL, ax: Axes | Sequence[Axes] | None = None) -> Figure:
        """A figure of matplotlib: for each number a veil along its noise, its interval, its value.

        In axes that are given, one for each number column, it draws there.
        """
        return plotted(self.drawing(level), ax)

    def vega(self, level: str | float | Fraction = LEVEL) -> dict[str, Any]:
        """The same as a specification of Vega-Lite, with its data inside."""
        return specified(self.drawing(level))

    # Inside -------------------------------------------------------------------------------------------

    def _ends(self) -> dict[str, End]:
        """The columns that show an end of their interval, and which."""
        outer = self.plan.outer
        return {} if outer is None else {each.name: each.end for each in outer.query.columns if each.end}

    def _rounded(self, level: str | float | Fraction) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """The rows as they are shown, and how many decimals each number has."""
        table = self.exact(level)
        decimals = self._decimals(table)
        ends = self._ends()
        rows: list[dict[str, Any]] = []
        for row in table:
            flat: dict[str, Any] = {}
            for name, cell in row.items():
                if isinstance(cell, Cell) and name in ends:
                    end, sign = (cell.low, -1) if ends[name] == "low" else (cell.high, +1)
                    flat[name] = _outward(end, decimals[name], sign)
                elif isinstance(cell, Cell):
                    flat[name] = _nearest(cell.value, decimals[name])
                    flat[f"{name}_low"] = _outward(cell.low, decimals[name], -1)
                    flat[f"{name}_high"] = _outward(cell.high, decimals[name], +1)
                else:
                    flat[name] = float(f"{cell:.12g}") if isinstance(cell, float) else cell
            rows.append(flat)
        return rows, decimals

    def _shown(
        self,
        errors: list[Errors],
        groups: tuple[tuple[Value | None, ...], ...],
        vectors: list[tuple[tuple[int, ...], ...]],
    ) -> list[int]:
        """The groups in the order asked for; ties keep the owner's order. Rows without a value come
        last, unless the question says otherwise."""
        having, indices = self.plan.having, list(range(len(groups)))
        if having is not None:
            indices = [g for g in indices if _holds(having, errors[g], vectors[g]) is True]
        for expression, descending, nulls_first in reversed(self.plan.order):
            if is_label(expression):
                index = expression.index if isinstance(expression, KeyOf) else -1
                labels: dict[int, Any] = {
                    g: groups[g][index] if index >= 0 else self._label(expression, vectors[g])
                    for g in indices
                }
                known = [g for g in indices if labels[g] is not None]
                known.sort(key=labels.__getitem__, reverse=descending)
                missing = [g for g in indices if labels[g] is None]
                indices = missing + known if nulls_first else known + missing
                continue
            values = {g: errors[g].value(expression, vectors[g]) for g in indices}
            known = [g for g in indices if values[g] is not None]
            known.sort(key=lambda g: values[g] or Fraction(0), reverse=descending)
            missing = [g for g in indices if values[g] is None]
            indices = missing + known if nulls_first else known + missing
        return indices if self.plan.limit is None else indices[: self.plan.limit]

    def _decimals(self, table: list[dict[str, Value | Cell | None]]) -> dict[str, int]:
        """How many decimals each column shows: enough for a hundredth of its narrowest interval."""
        found: dict[str, int] = {}
        for output in self.plan.columns:
            cells = [cell for row in table if isinstance(cell := row[output.name], Cell)]
            values = [cell.value for cell in cells if cell.value is not None]
            if all(value.denominator == 1 for value in values):
                found[output.name] = 0
                continue
            widths = [
                cell.high - cell.low
                for cell in cells
                if max(TINY, SHARP * abs(cell.high)) < cell.high - cell.low < math.inf
            ]
            # a column without noise has no width to go by: show up to twelve decimals of it
            wanted = math.ceil(-math.log10(min(widths) / DIGITS)) if widths else 12
            enough = next((d for d in range(13) if all((v * 10**d).denominator == 1 for v in values)), 99)
            found[output.name] = max(0, min(wanted, enough))
        return found

    def _columnar(self, level: str | float | Fraction) -> dict[str, list[Any]]:
        """Columns of one type each: integers only where all of them fit into 64 bits."""
        rows = self.rows(level)
        columns = {name: [row[name] for row in rows] for name in self.columns}
        for name, values in columns.items():
            numbers = [value for value in values if type(value) in (int, float)]
            mixed = len({type(value) for value in numbers}) > 1
            if mixed or any(abs(value) >= 1 << 63 for value in numbers):
                columns[name] = [_as_float(value) for value in values]
        return columns


@dataclass(frozen=True, slots=True, repr=False)
class Releases:
    """The releases of a batch, in the order of its questions."""

    each: tuple[Release, ...]

    def __iter__(self) -> Iterator[Release]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, index: int) -> Release:
        return self.each[index]

    @property
    def cost(self) -> Guarantee:
        """Charged for all of them by asking now."""
        return self.each[0].cost

    def __repr__(self) -> str:
        lines: list[str] = []
        for release in self.each:
            lines += [release.table(), "", *show.paragraphs(reading_notes(release.plan)), ""]
        together = f"All {len(self.each)} together: {self.each[0].cost_note()}"
        return "\n".join([*lines, *show.paragraphs([together])])


def is_label(expression: Expression) -> bool:
    """Whether a column holds names and not numbers: a key, or a most common value."""
    return isinstance(expression, KeyOf) or (isinstance(expression, Chosen) and expression.low is None)


def _fraction(value: Any) -> Fraction | None:
    return None if value is None else Fraction(value)


def _holding(ends: Ends, value: Any) -> Ends:
    """The ends, and the value itself between them: it is made of rounded numbers."""
    if value is None:
        return ends
    near = float(value)
    return min(ends[0], near), max(ends[1], near)


def write_key(group: tuple[Value, ...]) -> str:
    """A group as text, to be stored."""
    return json.dumps([each.isoformat() if isinstance(each, datetime.date) else each for each in group])


def read_key(text: str, kinds: list[Kind]) -> tuple[Value, ...]:
    """The group that `write_key` wrote.

    >>> read_key(write_key(("A", datetime.date(2024, 1, 31))), ["text", "date"])
    ('A', datetime.date(2024, 1, 31))
    """
    read: dict[str, Callable[[Any], Any]] = {
        "date": datetime.date.fromisoformat,
        "timestamp": datetime.datetime.fromisoformat,
    }
    pairs = zip(json.loads(text), kinds, strict=True)
    return tuple(read[kind](each) if kind in read else each for each, kind in pairs)


def _holds(having: Having, errors: Errors, vector: tuple[tuple[int, ...], ...]) -> bool | None:
    """Whether a released row is shown; unknown where a number is missing."""
    if isinstance(having, Combined):
        found = [_holds(each, errors, vector) for each in having.parts]
        if having.word == "not":
            return None if found[0] is None else not found[0]
        decided = having.word == "or"
        return decided if decided in found else None if None in found else not decided
    a, b = errors.value(having.left, vector), errors.value(having.right, vector)
    if a is None or b is None:
        return None
    return bool(_COMPARE[having.operator](a, b))


_COMPARE: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def reading_notes(plan: Plan, level: str | float | Fraction = LEVEL) -> list[str]:
    """How to read a result of this plan: from the plan alone, so the same before and after release."""
    together = " (jointly for all rows, because rows were selected by their values)" if plan.selects else ""
    notes = [f"Each interval contains the noise-free answer with probability {_percent(level)}{together}."]
    cuts = [(cut_of(each), total_of(each) is not None) for each in plan.measures]
    if lost := [(each, is_scaled) for each, is_scaled in cuts if each is not None]:
        told = f"about {_percent(level)} of them contain the true number, but for what is not covered"
        notes[0] = f"Intervals cover noise and, as far as it was measured, what caps cut: {told}{together}."
        notes += dict.fromkeys(_lost(cut, is_scaled=is_scaled) for cut, is_scaled in lost)
    if (total := next(filter(None, map(total_of, plan.measures)), None)) is not None:
        notes.append(_adjusted(total, plan))
    if plan.today is not None:
        told = f"The current date is {plan.today} here; on another day this is a new question"
        notes.append(f"{told} with its own price.")
    cut: list[str] = []
    for measure in plan.measures:
        cut += [said for said in _cuts(measure, plan) if said not in cut]
    if plan.relation.by_person:
        cut.append("rows without a person are dropped")
    for chain in chains_of(plan.relation):
        cut += _joined(chain)
    if plan.keys and not plan.private_keys:
        names = ", ".join(spoken(key.expression) for key in plan.keys)
        cut.append(f"rows whose {names} is not a declared key are dropped")
    if plan.private_keys:
        cut.append("groups of few people are not shown")
    if cut:
        notes.append(f"Not covered by the intervals: {'; '.join(cut)}.")
    return notes


def _adjusted(total: Total, plan: Plan) -> str:
    """To what counts were adjusted, in words."""
    (table,) = plan.tables
    told = f"the declared size of {table}, {sum(total.rows):,} rows"
    if any(total_of(each) is not None and cut_of(each) is not None for each in plan.measures):
        told += ", of which each group has its part of what was counted"
    if total.key is not None:
        told = f"the declared number of rows of {table} for each {spoken(plan.keys[total.key].expression)}"
    return f"Adjusted to {told}. No question checks it: if it is wrong, so are these numbers and intervals."


def _lost(cut: Shortfall, *, is_scaled: bool) -> str:
    """What a cap cuts, in words."""
    if cut.kind == CUT_ALIKE:
        told = "that as if everybody's rows were alike" if cut.mixed else "nothing of that"
        return (
            "People with many rows weigh like those with few: averages and shares are nearly those of the "
            f"average person. The intervals cover {told}."
        )
    if cut.kind == CUT_MEANS:
        part = float(cut.back * NANO)
        told = "by less than 1%" if abs(part) < 0.01 else f"by {abs(part):.0%} {'up' if part > 0 else 'down'}"
        return (
            "People with many rows weigh like those with few. What is known of their rows and totals adjusts "
            f"averages {told}, in all groups alike, and the intervals cover how sure that is."
        )
    part = float(cut.seen * NANO / (1 + cut.seen * NANO))
    much = "less than 1%" if part < 0.01 else f"about {part:.0%}"
    told = f"It is estimated that {much} lies above the cap on one person."
    return told if is_scaled else f"{told} That is added back in proportion."


def _joined(chain: Join) -> list[str]:
    """What joins take of one person, in words."""
    kept, said = cuts(chain), []
    for side in sides_of(chain):
        if (each := kept.get(number_of(side))) is not None:
            names, alike = " and ".join(sorted(side.tables)), " with the same row" if each.alike else ""
            said.append(f"at most {each.rows:,} rows of {names} per person are joined{alike}")
    return list(dict.fromkeys(said))


def _cuts(measure: Measure, plan: Plan) -> list[str]:
    """What bounding takes from a measure, in words."""
    said: list[str] = []
    for each, bounds in measure.clamped:
        name = spoken(each)
        if each.domain.required:
            said.append(f"rows where {name} is NULL count as {show.fraction(each.domain.low or Fraction(0))}")
        else:
            said.append(f"rows where {name} is NULL are skipped")
        if bounds is not None:
            low, high = show.fraction(bounds.low), show.fraction(bounds.high)
            exact = each.domain.kind == "integer" and bounds.exponent == 0
            steps = f", and values are rounded down to steps of {show.fraction(bounds.step)}"
            rounded = "" if exact else steps
            said.append(f"{name} outside [{low}, {high}] counts as the nearer bound{rounded}")
    if (among := among_of(measure)) is not None:
        name = spoken(measure.reads[0])
        said.append(f"more values of {name} than the {among:,} that are public count as {among:,}")
    if plan.relation.by_person and cut_of(measure) is None:
        said += measure.scaling
    return said


def _level(level: str | float | Fraction) -> Fraction:
    text = str(level)
    if len(text) > 40 or "_" in text or not text.isascii() or re.search(r"e[+-]?\d{4,}", text, re.IGNORECASE):
        text = "0"  # 1e999999999 would take all night, and 0_9 is no 0.9
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not Fraction(1, 2) <= value <= 1 - Fraction(1, 10**9):
        raise InvalidParameter("level", level, 'write a probability from 0.5 to below 1, such as "0.95"')
    return value


def _percent(level: str | float | Fraction) -> str:
    return f"{float(_level(level)) * 100:.10g}%"


def _nearest(value: Fraction | None, decimals: int) -> float | int | None:
    if value is None:
        return None
    nearest = round(value, decimals)
    return int(nearest) if decimals == 0 or abs(nearest) >= 1 << 1000 else float(nearest)


def _as_float(value: float | int | None) -> float | None:
    if isinstance(value, int) and abs(value) >= 1 << 1023:
        return math.inf if value > 0 else -math.inf
    return None if value is None else float(value)


def _outward(value: float, decimals: int, direction: int) -> float | int:
    """Rounded away from the value, so that a rounded interval covers no less."""
    if math.isinf(value):
        return value
    scaled = Fraction(value) * 10**decimals
    whole = math.floor(scaled) if direction < 0 else math.ceil(scaled)
    return whole if decimals == 0 else float(Fraction(whole, 10**decimals))
