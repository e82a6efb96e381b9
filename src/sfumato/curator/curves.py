"""Error against price, before anything is asked: in a terminal, and as SVG written by hand.

What is drawn holds whatever the data are: how far off a number may be at other prices. Its noise fades as it
does in a release; the line is where 95% of it ends. Prices are exact, so they have hard edges, and what costs
is ochre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Literal

from sfumato.curator.picture import (
    DATA,
    FAINTEST,
    INK,
    INK_2,
    INK_3,
    LINE,
    LINE_STRONG,
    PAPER,
    SPEND,
    ticks,
    way,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Place = Callable[[float], float]

TAIL = Fraction(1, 20)
TAILS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), TAIL, Fraction(1, 100))
AROUND, FARTHEST = 4, 32  # times the asked price: what is always drawn, and at most if more is left
PRICES, DRAWN = 13, 72  # at which the error is computed, and between them drawn
BANDS, CROWD = 28, 1.4  # of which a veil is made, closer together near 0, where ink falls most
WIDTH, HIGH, HEAD, LEFT, RIGHT = 680, 190, 64, 88, 28  # of a panel, its title and its margins
FOOT, TITLE = 58, 34
LONGEST = 96  # letters of the question in a title
ROWS, MARGIN = 11, 11  # of a picture in a terminal: lines, and letters to the left
SHADES = ((0.55, "▓"), (0.22, "▒"), (0.05, "░"))  # the last ends where 95% of the noise does
NOTHING = "No column has an error that is known before the release, so there is nothing to draw."
NOUN = {"noise": "", "mean": " for a group of 1,000 rows", "rank": " rows of its rank", "likely": ""}


@dataclass(frozen=True, slots=True)
class PriceCurve:
    """How far off a column may be, at prices around the one that is asked."""

    name: str
    kind: Literal["noise", "mean", "rank", "likely"]
    currency: str
    asked: float
    left: float
    paid: bool
    points: tuple[tuple[float, tuple[float, ...]], ...]  # price, and the error for each of TAILS

    @property
    def here(self) -> float:
        """The error at the asked price, at 95%."""
        return next(errors[TAILS.index(TAIL)] for price, errors in self.points if price == self.asked)

    @property
    def low(self) -> float:
        """The lowest price that is drawn."""
        return self.points[0][0] if len(self.points) > 1 else self.asked / AROUND

    @property
    def high(self) -> float:
        """The highest price that is drawn."""
        return self.points[-1][0] if len(self.points) > 1 else self.asked * AROUND

    @property
    def top(self) -> float:
        """The largest error that is drawn: four times the one that is asked about, if it becomes so large."""
        line = [errors[TAILS.index(TAIL)] for _, errors in self.points]
        most = max((each for each in line if math.isfinite(each)), default=1.0)
        wanted = min(most, self.here * AROUND * 1.05) if math.isfinite(self.here) else most
        return wanted or 1.0

    @property
    def said(self) -> str:
        """What it comes to at the asked price."""
        many = f"{_up(self.here)}{NOUN[self.kind]}"
        within = f"within about {many}" if self.kind == "rank" else f"within ± {many}"
        if self.kind == "mean":
            within = f"at most about ± {many}"
        if self.kind == "likely":
            within = f"within about ± {many}"
        return f"{within} in 95 of 100 releases"

    def part(self, price: float) -> float:
        """Where a price lies from left to right, between 0 and 1."""
        return math.log(price / self.low) / math.log(self.high / self.low)

    def at(self, price: float, ink: float) -> float:
        """The error at which the noise of a price still has so much ink."""
        after = next((i for i, (each, _) in enumerate(self.points) if each >= price), len(self.points) - 1)
        (first, below), (second, above) = self.points[max(after - 1, 0)], self.points[after]
        inks = [1.0, *(float(tail) for tail in TAILS)]
        near, far = (way(ink, inks, [0.0, *errors]) for errors in (below, above))
        if not (0 < near < math.inf and 0 < far < math.inf) or first == second:
            return far
        share = math.log(price / first) / math.log(second / first)
        return math.exp(math.log(near) * (1 - share) + math.log(far) * share)

    @property
    def prices(self) -> Iterator[tuple[float, str]]:
        """Round prices within the frame."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for times in (1, 2, 5):
                price = float(f"{times}e{power}")
                if self.low <= price <= self.high:
                    yield price, _number(price)


def prices_around(asked: Fraction, left: Fraction) -> tuple[Fraction, ...]:
    """Prices at which a question is looked at: around the one that is asked, up to what is left if that is
    not too far away. They are round, and the asked one is among them.

    >>> [float(each) for each in prices_around(Fraction(1, 10), Fraction(1))][::4]
    [0.025, 0.08958, 0.2333, 0.8359]
    """
    low, high = asked / AROUND, asked * AROUND
    if asked / FARTHEST <= left * Fraction(4, 5) < low:
        low = left * Fraction(4, 5)
    if high < left * Fraction(23, 20):
        high = min(left * Fraction(23, 20), asked * FARTHEST)
    ratio = math.log(high / low)
    found = [Fraction(f"{float(low) * math.exp(ratio * k / (PRICES - 1)):.4g}") for k in range(PRICES)]
    return tuple(sorted({*found, asked}))


def _number(value: float) -> str:
    """A price in four digits at most."""
    return _plain(float(f"{value:.4g}"))


def _up(error: float) -> str:
    """An error in three digits, rounded up: less than it is must not be promised.

    >>> _up(59.915), _up(0.10001), _up(1800.0), _up(float("inf"))
    ('60', '0.101', '1,800', '∞')
    """
    if math.isinf(error) or not error:
        return "∞" if error else "0"
    step = 10.0 ** (math.floor(math.log10(error)) - 2)
    return _plain(float(f"{math.ceil(error / step - 1e-9) * step:.3g}"))


def _tick(at: float, text: str) -> str:
    """A number of an axis, which has room for nine signs."""
    return text if len(text) <= 9 else f"{at:.3g}"


def _plain(value: float) -> str:
    """In full where that is short."""
    if value and not 1e-5 <= abs(value) < 1e15:
        return f"{value:g}"
    text = f"{value:,.10f}"
    return text.rstrip("0").rstrip(".")


# In a terminal -------------------------------------------------------------------------------------------


def in_terminal(curve: PriceCurve, width: int = 64) -> str:
    """A chart of shades: the noise of each price, and what is asked and left as lines."""
    cells = max(width - MARGIN - 2, 16)
    grid = [[" "] * cells for _ in range(ROWS)]
    places = {round(curve.part(price) * (cells - 1)): text for price, text in curve.prices}
    for column in range(cells):
        price = curve.low * (curve.high / curve.low) ** (column / (cells - 1))
        bounds = [(curve.at(price, ink), shade) for ink, shade in SHADES]
        for row in range(ROWS):
            error = curve.top * (ROWS - 1 - row + 0.5) / ROWS
            grid[row][column] = next((shade for bound, shade in bounds if error <= bound), " ")
    marks = [(curve.asked, "│", f"asked {_number(curve.asked)}")]
    if curve.left:
        marks.append((curve.left, "┊", f"left {_number(curve.left)}"))
    labels = _above([(curve.part(price), text) for price, _, text in marks], cells)
    for price, line, _ in marks:
        part = curve.part(price)
        for cell_row in grid if 0 <= part <= 1 else ():
            cell_row[round(part * (cells - 1))] = line
    at_here = ROWS - 1 - math.floor(min(curve.here / curve.top, 0.999) * ROWS)
    if math.isfinite(curve.here):
        grid[at_here][round(curve.part(curve.asked) * (cells - 1))] = "●"
    heights = {
        ROWS - 1 - math.floor(min(at / curve.top, 0.999) * ROWS): _tick(at, text)
        for at, text in ticks(0.0, curve.top, 4)
        if at
    }
    lines = [f"  {curve.name}: {curve.said}", f"{' ' * MARGIN}  {labels}".rstrip()]
    for row, content in enumerate(grid):
        label = f"± {heights[row]}" if row in heights else ""
        lines.append(f"{label:>{MARGIN}} {'┤' if label else '│'}{''.join(content)}".rstrip())
    rule = ["─"] * cells
    for place in places:
        rule[place] = "┬"
    lines.append(f"{'0':>{MARGIN}} └{''.join(rule)}")
    lines.append(f"{' ' * MARGIN}  {_below(places, cells)}".rstrip())
    lines.append(f"  {curve.currency}; ░ ends where 95% of the error lies below")
    return "\n".join(lines)


def _above(marks: Sequence[tuple[float, str]], cells: int) -> str:
    """What stands over the lines, pushed apart where they are close; arrows for what lies outside."""
    placed: list[tuple[int, str]] = []
    for part, text in sorted(marks):
        said = f"← {text}" if part < 0 else f"{text} →" if part > 1 else text
        start = round(min(max(part, 0.0), 1.0) * (cells - 1)) - len(said) // 2
        before = placed[-1][0] + len(placed[-1][1]) + 2 if placed else 0
        placed.append((max(min(start, cells - len(said)), before), said))
    line, room = "", cells
    for start, said in reversed(placed):  # what was pushed out at the right pushes back
        start = max(min(start, room - len(said)), 0)
        line, room = said + " " * (room - start - len(said)) + line, start - 2
        line = "  " + line if room > 0 else line
    return (" " * max(room, 0) + line).rstrip()


def _below(places: dict[int, str], cells: int) -> str:
    line = ""
    for place, text in sorted(places.items()):
        start = min(max(place - len(text) // 2, 0), cells - len(text))
        if not line or start > len(line):
            line = f"{line:<{start}}{text}"
    return line


# As SVG --------------------------------------------------------------------------------------------------


def drawn(question: str, curves: Sequence[PriceCurve]) -> str:
    """A panel for each column, under the question."""
    told = question if len(question) <= LONGEST else question[: LONGEST - 1] + "…"
    height = TITLE + max(len(curves), 1) * (HEAD + HIGH + FOOT)
    parts = [f'<rect width="100%" height="100%" fill="{PAPER}"/>', _text(24, 28, told, INK_3, size=12)]
    if not curves:
        height = TITLE + HEAD
        parts.append(_text(24, 62, NOTHING, INK))
    for n, each in enumerate(curves):
        parts.append(f'<g transform="translate(0,{TITLE + n * (HEAD + HIGH + FOOT)})">{_panel(each, n)}</g>')
    words = "; ".join(f"{each.name}: {each.said}" for each in curves)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" style="font-variant-numeric: tabular-nums">\n'
        f"<title>{escape(f'Error against price: {words}')}</title>\n"
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def _panel(curve: PriceCurve, number: int) -> str:
    wide = WIDTH - LEFT - RIGHT

    def x(price: float) -> float:
        return _place(LEFT + curve.part(price) * wide)

    def y(error: float) -> float:
        return _place(HEAD + HIGH * (1 - min(error / curve.top, 2.0)))

    base, dash = HEAD + HIGH, "" if curve.kind == "noise" else ' stroke-dasharray="5 4"'
    said = f"{curve.currency} {_number(curve.asked)}: {curve.said}"
    parts = [
        _text(24, 22, curve.name, INK, size=16, bold=True),
        _text(24, 41, said + ("; already paid, so free" if curve.paid else ""), INK_2),
        f'<clipPath id="frame{number}"><rect x="{LEFT}" y="{HEAD}" width="{wide}" height="{HIGH}"/>'
        "</clipPath>",
    ]
    for at, text in ticks(0.0, curve.top, 4):
        colour = LINE if at else LINE_STRONG
        parts.append(f'<path d="M{LEFT} {y(at)}H{LEFT + wide}" stroke="{colour}"/>')
        parts.append(_text(LEFT - 10, y(at) + 4, f"± {_tick(at, text)}" if at else "0", INK_3, "end", 12))
    last = -math.inf
    for price, text in curve.prices:
        if x(price) - last >= 36:
            parts.append(f'<path d="M{x(price)} {base}v5" stroke="{LINE_STRONG}"/>')
            parts.append(_text(x(price), base + 20, text, INK_3, "middle", 12))
            last = x(price)
    told = f"{curve.currency}, on a logarithmic scale; 95% of the error lies below the line"
    parts.append(_text(LEFT, base + 42, told, INK_3, size=12))
    ratio = curve.high / curve.low
    prices = [curve.low * ratio ** (k / DRAWN) for k in range(DRAWN + 1)]
    within = [f'<g clip-path="url(#frame{number})">']
    below = 0.0
    for k in reversed(range(BANDS)):
        inner, outer = (k / BANDS) ** CROWD, ((k + 1) / BANDS) ** CROWD
        ink = FAINTEST ** ((inner + outer) / 2)
        line = [(x(price), y(curve.at(price, FAINTEST**outer))) for price in prices]
        within.append(
            f'<path d="M{line[0][0]} {base}L{_joined(line)}L{line[-1][0]} {base}Z" fill="{DATA}" '
            f'fill-opacity="{1 - (1 - ink) / (1 - below):.4f}"/>'
        )
        below = ink
    line = [(x(price), y(curve.at(price, float(TAIL)))) for price in prices]
    within.append(
        f'<path d="M{_joined(line)}" fill="none" stroke="{DATA}" stroke-width="1.5" '
        f'stroke-linejoin="round"{dash}/></g>'
    )
    parts += within
    return "".join([*parts, *_prices(curve, x, y)])


def _prices(curve: PriceCurve, x: Place, y: Place) -> Iterator[str]:
    """The exact marks: what is asked, and what is left."""
    asked, left, base = x(curve.asked), None, HEAD + HIGH
    if curve.left and 0 <= curve.part(curve.left) <= 1:
        left = x(curve.left)
        yield f'<path d="M{left} {HEAD - 4}V{base}" stroke="{INK_2}" stroke-dasharray="2 3"/>'
    yield f'<path d="M{asked} {HEAD - 4}V{base}" stroke="{SPEND}" stroke-width="2"/>'
    is_right = left is not None and 0 <= left - asked < 150
    side, step = ("end", -6) if is_right else ("start", 6)
    words = "paid" if curve.paid else "asked"
    yield _text(asked + step, HEAD + 8, f"{words} {_number(curve.asked)}", SPEND, side, bold=True)
    told = f"{_number(curve.left)} left" if curve.left else "nothing left"
    if left is not None:
        is_wide = left < WIDTH - RIGHT - 90
        yield _text(left + (6 if is_wide else -6), HEAD + 8, told, INK_2, "start" if is_wide else "end")
    else:
        arrow = f"{told} →" if curve.left > curve.asked else told
        yield _text(WIDTH - RIGHT, HEAD - 8, arrow, INK_2, "end")
    if math.isfinite(curve.here):
        spot = f'cx="{asked}" cy="{y(curve.here)}" r="5"'
        yield f'<circle {spot} fill="{DATA}" stroke="{PAPER}" stroke-width="2"/>'


def _place(x: float) -> float:
    # rounded twice: what only a machine's last bit keeps apart falls on the same decimal
    return round(round(x, 6), 1)


def _joined(line: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x} {y}" for x, y in line)


def _text(
    x: float, y: float, text: str, colour: str, anchor: str = "start", size: int = 13, *, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
        f"{escape(text)}</text>"
    )
