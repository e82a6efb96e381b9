"""What is drawn of a release, before any library draws it: panels, rows, veils, frames.

One released number is a veil (ink is the density of its noise over its peak, to 99% of it), brackets (the
interval) and a tick (the value). A bar would say that all below its top is certain. All of it is made of what
`rows` shows, so a picture holds nothing that the table does not, and what a server sends is enough.

A veil is a stack of ranges, each inside the one before, so that every program that can fill a rectangle can
draw it without seams.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from sfumato.curator import show
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Rows = list[dict[str, Any]]

# The light theme; one colour for released numbers, and nothing else is blue.
PAPER, INK, INK_2, INK_3 = "#ffffff", "#182026", "#44505a", "#5a6770"
LINE, LINE_STRONG, DATA, SPEND = "#d6dcdf", "#7c8991", "#2a5a8c", "#8a5700"

KNOTS = ("0.5", "0.8", "0.9", "0.95", "0.99")  # levels at which a veil is looked up where no law gives it
OPEN = 0.2  # of the peak: what is left at the frame where an end is infinite, since so much is spread thinly
FAINTEST = 0.01  # of the peak: where geometric noise has 99% of its mass inside
RINGS = 48  # ranges of which a veil is made
CROWD = 1.5  # they are closer together near the value, where ink falls most
BEYOND = 1.6  # the frame holds a veil up to so many half-widths of the interval
MOST_ROWS = 200  # that are drawn; a page has no more room
MOST_PLACES, DIGITS = 10, 4  # decimals that are written if there are more than so many, and then how many
PLAIN = 15  # digits up to which numbers are written out, and drawn without a power of ten


@dataclass(frozen=True, slots=True)
class Ring:
    """A range of a veil, and how strong its ink is where no narrower range lies above it."""

    low: float
    high: float
    ink: float


@dataclass(frozen=True, slots=True)
class PictureColumn:
    """A column of a release, as far as a picture depends on it."""

    name: str
    is_number: bool
    has_interval: bool = False
    is_key: bool = False
    from_zero: bool = False  # whether it counts or adds up what is never negative
    law: tuple[Ring, ...] = ()  # the veil of its noise around 0, where one law is all of it
    is_joint: bool = False  # whether intervals hold for all rows together
    is_veiled: bool = True  # whether its noise lies around its value: not so for quantiles
    note: str = ""


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """One number: where its marks lie, in the unit of its panel, and what is written beside them."""

    label: str
    value: float | None  # None: a dash, and no mark
    low: float  # ends of the interval; infinite where there is no bracket
    high: float
    veil: tuple[Ring, ...]
    text: str
    ends: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One column: its rows, and the frame that all of them share."""

    name: str
    rows: tuple[DrawnRow, ...]
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    power: int  # numbers are drawn in units of ten to this power
    note: str

    def arm(self, wide: float, most: float) -> float:
        """How long the arms of brackets are in a frame so wide: shorter where an interval has no room."""
        widths = [row.high - row.low for row in self.rows if row.value is not None and row.ends]
        parts = [each / (self.high - self.low) for each in widths if math.isfinite(each)]
        return min([most, *(part * wide / 4 for part in parts)])

    @property
    def title(self) -> str:
        """The name of the column, with its unit if it has one."""
        return f"{self.name} (in 10^{self.power})" if self.power else self.name


@dataclass(frozen=True, slots=True)
class Picture:
    """Small multiples: a panel for every number column, the same rows in each."""

    labels: tuple[str, ...]
    label: str  # what the rows are named by
    panels: tuple[Panel, ...]
    level: str
    left_out: int  # rows that are not drawn

    @property
    def footnote(self) -> str:
        """What is not drawn."""
        if not self.left_out:
            return ""
        return f"the first {len(self.labels):,} of {len(self.labels) + self.left_out:,} rows"


def picture(
    columns: Sequence[PictureColumn],
    rows_at: Callable[[str], Rows],
    level: str | float | Fraction,
    *,
    is_ordered: bool = False,
    one_level: bool = False,
) -> Picture:
    """A picture of rows at a level; `rows_at` gives them at others, too, unless there is but one."""
    rows = rows_at(str(level))
    numbers = [each for each in columns if each.is_number and not each.is_key]
    named = [each for each in columns if each not in numbers]
    for each in [column for column in numbers if not column.has_interval]:
        if _differ(rows, named) or _same(rows, each):  # an exact number beside: no name is needed
            continue
        named, numbers = [*named, each], [other for other in numbers if other is not each]
    if not numbers:
        told = "nothing to draw: no column of this release is a number. Print it, or take rows()"
        raise InvalidParameter("release", [each.name for each in columns], told)
    order = list(range(len(rows))) if is_ordered else _in_time(rows, named)
    order, left_out = order[:MOST_ROWS], max(len(rows) - MOST_ROWS, 0)
    labels = _labels([rows[i] for i in order], named)
    percent = f"{float(Fraction(str(level))) * 100:.10g}%"
    tables: dict[str, Rows] = {str(level): rows}

    def at(wanted: str) -> Rows:
        if wanted not in tables:
            tables[wanted] = rows_at(wanted)
        return tables[wanted]

    panels = []
    for column in numbers:
        is_looked_up = column.has_interval and column.is_veiled and not column.law and not one_level
        knots = KNOTS if is_looked_up else ()
        ends = [(1 - float(each), at(each)) for each in knots]
        panels.append(
            _panel(column, [(rows[i], [(o, table[i]) for o, table in ends]) for i in order], labels, percent)
        )
    name = " · ".join(each.name for each in named)
    return Picture(tuple(labels), name, tuple(panels), percent, left_out)


# Rows ----------------------------------------------------------------------------------------------------


def _differ(rows: Rows, named: Sequence[PictureColumn]) -> bool:
    return len({tuple(row[each.name] for each in named) for row in rows}) == len(rows)


def _same(rows: Rows, column: PictureColumn) -> bool:
    return len({row[column.name] for row in rows}) <= 1


def _in_time(rows: Rows, named: Sequence[PictureColumn]) -> list[int]:
    """Dates in order; what is no date stays in the order of the release."""
    if not any(isinstance(row[each.name], datetime.date) for row in rows for each in named):
        return list(range(len(rows)))
    places: list[list[tuple[int, Any]]] = []
    for each in named:
        seen = {value: i for i, value in reversed(list(enumerate(row[each.name] for row in rows)))}
        is_date = all(value is None or isinstance(value, datetime.date) for value in seen)
        dated = sorted(value for value in seen if value is not None) if is_date else []
        rank = {value: i for i, value in enumerate(dated)} if is_date else seen
        places.append(
            [(value is None and is_date, rank.get(value, 0)) for value in (r[each.name] for r in rows)]
        )
    return sorted(range(len(rows)), key=lambda i: [column[i] for column in places])


def _labels(rows: Rows, named: Sequence[PictureColumn]) -> list[str]:
    """What each row is called: its keys, or its number where these do not tell rows apart."""
    if not named:
        return [""] if len(rows) == 1 else [f"{i:,}" for i in range(1, len(rows) + 1)]
    found: dict[str, None] = {}
    for row in rows:
        label = said = " · ".join(_said(row[each.name], each) for each in named)
        again = count(2)
        while said in found:
            said = f"{label} ({next(again)})"
        found[said] = None
    return list(found)


def _said(value: Any, column: PictureColumn) -> str:
    if value is None:
        return "(all)" if column.is_key else "-"
    if isinstance(value, datetime.datetime) and not (value.hour or value.minute or value.second):
        return value.date().isoformat()
    return " ".join(str(value).split()) if isinstance(value, str) else str(value)


# Numbers -------------------------------------------------------------------------------------------------


def places(values: Iterable[Any]) -> int:
    """How many decimals a column shows."""
    texts = [repr(each) for each in values if isinstance(each, float) and math.isfinite(each)]
    return max((len(text.partition(".")[2]) for text in texts if "e" not in text), default=0)


def _text(value: Any, decimals: int) -> str:
    """A number in full, or with a power of ten where nobody would read its digits."""
    if value is None:
        return "-"
    if isinstance(value, float) and (math.isinf(value) or 0 < abs(value) < 10.0**-PLAIN):
        return show.number(value, decimals) if math.isinf(value) else f"{value:.4g}"
    if abs(value) >= 10**PLAIN:
        return f"{Decimal(f'{Decimal(value):.3e}').normalize():g}"
    return show.number(value, decimals)


def _power(values: Sequence[Any]) -> int:
    """The power of ten in which numbers are drawn, where floats or readers would lose count."""
    sizes = [_digits(each) for each in values if each]
    largest = max(sizes, default=0)
    return largest if largest >= PLAIN or (sizes and largest < -PLAIN) else 0


def _digits(value: Any) -> int:
    return Decimal(value).adjusted()


def _scaled(value: Any, power: int) -> float:
    if isinstance(value, float) and (math.isinf(value) or not power):
        return value
    try:
        return float(Fraction(value) / Fraction(10) ** power)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _panel(
    column: PictureColumn,
    rows: list[tuple[dict[str, Any], list[tuple[float, dict[str, Any]]]]],
    labels: list[str],
    percent: str,
) -> Panel:
    """The rows of one column; with each row, itself at the levels that make its veil, and the ink there."""
    name = column.name
    names = (name, f"{name}_low", f"{name}_high") if column.has_interval else (name,)
    own = [[row[each] for each in names] for row, _ in rows]
    decimals = max((places(column) for column in zip(*own, strict=True)), default=0)
    if decimals > MOST_PLACES:  # no interval says how many of them matter
        decimals = DIGITS
    finite = [
        v for line in own for v in line if v is not None and not (isinstance(v, float) and math.isinf(v))
    ]
    power = _power(finite)
    drawn: list[tuple[DrawnRow, list[tuple[float, float, float]]]] = []
    for (_, others), values, label in zip(rows, own, labels, strict=True):
        value = None if values[0] is None else _scaled(values[0], power)
        low, high = (_scaled(v, power) for v in (values[1:] or [values[0] or 0.0] * 2))
        texts = [_text(each, decimals) for each in values]
        knots = [
            (ink, _scaled(at[f"{name}_low"], power), _scaled(at[f"{name}_high"], power)) for ink, at in others
        ]
        ends = "" if len(texts) == 1 else f"{texts[1]} to {texts[2]}"
        drawn.append((DrawnRow(label, value, low, high, (), texts[0], ends), knots))
    law = [replace(r, low=_scaled(r.low, power), high=_scaled(r.high, power)) for r in column.law]
    low, high = _frame([(each, knots) for each, knots in drawn], law, from_zero=column.from_zero)
    found = []
    for each, knots in drawn:
        if each.value is None or not math.isfinite(each.value):
            found.append(each)
        elif law:
            veil = tuple(Ring(each.value + r.low, each.value + r.high, r.ink) for r in law)
            found.append(replace(each, veil=veil))
        else:
            found.append(replace(each, veil=rings(each.value, knots, low, high)))
    has_veil = any(each.veil for each in found)
    fades = "; fades along the noise" if has_veil else ""
    together = ", for all rows together" if column.is_joint else ""
    note = column.note or (f"{percent} interval{together}{fades}" if column.has_interval else "exact")
    return Panel(name, tuple(found), low, high, ticks(low, high), power, note)


def rings(
    value: float, knots: Sequence[tuple[float, float, float]], left: float, right: float
) -> tuple[Ring, ...]:
    """A veil from intervals at several levels: its ink where the interval of level p ends is 1 - p, as for
    geometric noise, and each side has ends of its own.

    Nothing where all levels have the same finite interval: that is no law around the value. Where an end is
    infinite, the veil has ink left when it leaves the frame.
    """
    if not knots or all(each[1:] == knots[0][1:] and math.isfinite(each[2] - each[1]) for each in knots):
        return ()
    sides = []
    for index, edge, sign in ((1, left, -1), (2, right, +1)):
        inks, ways, far = [1.0], [0.0], abs(edge - value) * 1.1 + (right - left) * 0.05
        for knot in knots:
            off = sign * (knot[index] - value)
            inks.append(min(knot[0], OPEN) if math.isinf(off) else knot[0])
            ways.append(max(ways[-1], far) if math.isinf(off) else max(ways[-1], off))
            if math.isinf(off):
                break
        sides.append((inks, ways))
    found: list[Ring] = []
    for inner, end in reversed(SHARES):
        outer, ink = FAINTEST**end, FAINTEST ** ((inner + end) / 2)
        low, high = (way(outer, *side) for side in sides)
        if low or high:
            found.append(Ring(value - low, value + high, ink))
    return tuple(found)


SHARES = [((k / RINGS) ** CROWD, ((k + 1) / RINGS) ** CROWD) for k in range(RINGS)]  # of its reach


def way(ink: float, inks: list[float], ways: list[float]) -> float:
    """How far from the value ink is so strong: between levels its logarithm falls evenly."""
    for (more, less), (near, far) in zip(pairwise(inks), pairwise(ways), strict=True):
        if ink >= less * (1 - 1e-9):
            return near + (far - near) * math.log(more / ink) / math.log(more / less)
    return ways[-1]


def alphas(veil: Sequence[Ring]) -> list[float]:
    """How opaque each range of a veil is by itself, so that all that lie over each other come to its ink."""
    found, below = [], 0.0
    for ring in veil:
        found.append(max(0.0, 1 - (1 - ring.ink) / (1 - below)))
        below = max(below, ring.ink)
    return found


# Frames --------------------------------------------------------------------------------------------------


def _frame(
    rows: Sequence[tuple[DrawnRow, list[tuple[float, float, float]]]], law: Sequence[Ring], *, from_zero: bool
) -> tuple[float, float]:
    """What of the line is drawn: all values and brackets, and nearly all of each veil."""
    points: list[float] = []
    for row, knots in rows:
        if row.value is None or not math.isfinite(row.value):
            continue
        points += [row.value, row.low, row.high]
        far = [(row.value + law[0].low, row.value + law[0].high)] if law else [each[1:] for each in knots]
        for low, high in far:
            points.append(max(low, row.value - BEYOND * (row.value - row.low)))
            points.append(min(high, row.value + BEYOND * (row.high - row.value)))
    points = [each for each in points if math.isfinite(each)]
    is_counted = from_zero and min((row.value for row, _ in rows if row.value is not None), default=0.0) >= 0
    low, high = min(points, default=0.0), max(points, default=1.0)
    if from_zero:
        brackets = [row.low for row, _ in rows if row.value is not None and math.isfinite(row.low)]
        low, high = min(0.0, min(brackets, default=0.0) if is_counted else low), max(0.0, high)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one exact number
        reach = abs(high) * 0.1 or 1.0
        return low - reach, high + reach
    room = (high - low) * (0.15 if any(_is_open(row) for row, _ in rows) else 0.02)
    return low - room, high + room


def _is_open(row: DrawnRow) -> bool:
    return row.value is not None and (math.isinf(row.low) or math.isinf(row.high))


def ticks(low: float, high: float, most: int = 5) -> tuple[tuple[float, str], ...]:
    """Round numbers within a frame, and how they are written.

    >>> ticks(-3.0, 724.0)
    ((0.0, '0'), (200.0, '200'), (400.0, '400'), (600.0, '600'))
    >>> [text for _, text in ticks(52.1, 52.74)]
    ['52.2', '52.4', '52.6']
    """
    wide = (high - low) / most
    step = 10.0 ** math.floor(math.log10(wide))
    step *= next(times for times in (1, 2, 5, 10) if times * step >= wide * (1 - 1e-9))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [round(i * step, decimals + 3) + 0.0 for i in range(first, last + 1)]
    return tuple((at, _tick(at, step, decimals)) for at in found)


def _tick(at: float, step: float, decimals: int) -> str:
    if at and (decimals > 8 or abs(at) >= 10**PLAIN):
        return f"{at:.{max(1, math.ceil(math.log10(abs(at) / step)))}e}"
    return f"{at:,.{decimals}f}"
