"""A picture of a release with matplotlib, which is imported in this file alone, when a plot is asked for."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import cache
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import east_asian_width

from sfumato.curator.picture import (
    DATA,
    INK,
    INK_2,
    INK_3,
    LINE,
    LINE_STRONG,
    PAPER,
    RINGS,
)
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

    from sfumato.curator.picture import DrawnRow, Panel, Picture, Ring

# In points; 72 of them are an inch.
ROW, HEAD, FOOT, EDGE, GAP = 30.0, 50.0, 44.0, 18.0, 16.0
WIDE, NARROW = 380.0, 250.0  # of the frame of one panel, and of several beside each other
ACROSS = 2  # panels beside each other
TEXT, SMALL = 10.0, 8.5
HALF = 0.27  # of a row: half the height of a veil
DOTS = 100  # an inch
WIDEST_LABEL = 40  # letters
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # names of the data are no formulas
DRAWN = 512  # places at which the ink of a veil is drawn


def check_installed() -> None:
    """Say what to install where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401  # whether it is there is all that is asked
    except ImportError:
        raise ImportError('plot() needs matplotlib. Run: pip install "sfumato[plot]"') from None


def plotted(picture: Picture, ax: Axes | Sequence[Axes] | None = None) -> Figure:
    """The picture as a figure of its own, or in axes that are given: one for each panel."""
    check_installed()
    import matplotlib.axes

    if ax is not None:
        given: list[Axes] = [ax] if isinstance(ax, matplotlib.axes.Axes) else list(ax)
        if len(given) != len(picture.panels):
            names = ", ".join(panel.name for panel in picture.panels)
            told = f"give as many axes as there are number columns: {len(picture.panels)} ({names})"
            raise InvalidParameter("ax", f"{len(given)} axes", told)
        for axes, panel in zip(given, picture.panels, strict=True):
            _draw(axes, picture, panel, _Columns.of(picture, panel), is_named=True)
        found = given[0].get_figure(root=True)
        assert found is not None
        return found
    return _own(picture)


class _Columns(NamedTuple):
    """How wide the texts to the left of a frame are, in points."""

    labels: float
    values: float
    ends: float

    @classmethod
    def of(cls, picture: Picture, panel: Panel, *, is_named: bool = True) -> _Columns:
        """As wide as their longest text."""
        labels = [*map(_short, picture.labels), picture.label] if is_named else []
        return cls(
            max((_width(each, TEXT) for each in labels), default=0.0),
            max((_width(each.text, TEXT, bold=True) for each in panel.rows), default=0.0),
            max((_width(each.ends, SMALL) for each in panel.rows), default=0.0),
        )

    @property
    def at(self) -> tuple[float, float, float]:
        """How far left of the frame labels begin, values end, and intervals end."""
        ends = GAP
        values = ends + (self.ends + GAP if self.ends else 0.0)
        labels = values + self.values + (self.labels + GAP * 1.5 if self.labels else 0.0)
        return labels, values, ends

    @property
    def whole(self) -> float:
        """All of them with the gaps between them."""
        return self.at[0]


def _width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is in the usual fonts: drawn larger than that it would only come nearer."""
    ems = sum(1.0 if east_asian_width(sign) in "WF" else 0.33 if sign in " ,.:|il" else 0.64 for sign in text)
    return ems * size * (1.16 if bold else 1.0)


def _short(label: str) -> str:
    return label if len(label) <= WIDEST_LABEL else label[: WIDEST_LABEL - 1] + "…"


@cache
def _figures() -> type[Figure]:
    """Figures that belong to nobody: pyplot would keep each of them until it is closed, and show it twice."""
    import matplotlib.figure

    class Drawn(matplotlib.figure.Figure):
        """A figure that shows itself in a notebook, also where pyplot was never imported."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Drawn


def _own(picture: Picture) -> Figure:
    """A figure that is as large as its rows need."""
    panels, count = picture.panels, max(len(picture.labels), 1)
    lines = [panels[i : i + ACROSS] for i in range(0, len(panels), ACROSS)]
    frame = WIDE if len(panels) == 1 else NARROW
    texts = [[_Columns.of(picture, panel, is_named=not i) for i, panel in enumerate(line)] for line in lines]
    # panels below each other have their frames at the same place
    texts = [
        [
            _Columns(*map(max, zip(*(line[i] for line in texts if len(line) > i), strict=True)))
            for i in range(len(each))
        ]
        for each in texts
    ]
    wide = EDGE * 2 + max(
        sum(each.whole + frame for each in line) + (len(line) - 1) * GAP * 2 for line in texts
    )
    title_reach = max(_width(panel.title, TEXT + 2, bold=True) for line in lines for panel in line)
    wide = max(wide, title_reach + 2 * EDGE)
    high_each = HEAD + count * ROW + FOOT
    high = high_each * len(lines) + (EDGE if picture.footnote else 0.0)
    figure = _figures()(figsize=(wide / 72, high / 72), dpi=DOTS, facecolor=PAPER)
    for j, (line, columns) in enumerate(zip(lines, texts, strict=True)):
        left, bottom = EDGE, high - high_each * j - HEAD - count * ROW
        for i, (panel, each) in enumerate(zip(line, columns, strict=True)):
            left += each.whole
            axes = figure.add_axes((left / wide, bottom / high, frame / wide, count * ROW / high))
            _draw(axes, picture, panel, each, is_named=not i)
            left += frame + GAP * 2
    if picture.footnote:
        figure.text(EDGE / wide, 8 / high, picture.footnote, color=INK_3, fontsize=SMALL, **PLAIN)
    return figure


def _draw(axes: Axes, picture: Picture, panel: Panel, columns: _Columns, *, is_named: bool) -> None:
    """One panel: rules, veils, brackets, ticks, and what is written to the left of them."""
    import matplotlib.path

    figure = axes.get_figure(root=True)
    assert figure is not None
    box, inch = axes.get_window_extent(), figure.dpi
    wide, row = box.width / inch * 72, box.height / inch * 72 / max(len(panel.rows), 1)
    labels, values, ends = columns.at
    axes.set_facecolor(PAPER)
    for side in axes.spines.values():
        side.set_visible(False)
    for i in range(len(panel.rows) + 1):
        axes.axhline(i - 0.5, -labels / wide, 1, color=LINE, linewidth=0.8, clip_on=False, zorder=0.5)
    for at, _ in panel.ticks:
        axes.axvline(at, color=LINE_STRONG if at == 0 else LINE, linewidth=0.8, zorder=0.6)
    half = HALF * row
    arm = min(panel.arm(wide, 4) / half, 0.8)
    brackets = [matplotlib.path.Path([(s * arm, -1), (0, -1), (0, 1), (s * arm, 1)]) for s in (1, -1)]
    for i, each in enumerate(panel.rows):
        _veil(axes, panel, each, i)
        marks: list[tuple[float, str | matplotlib.path.Path, float, float]] = []
        if each.value is not None and math.isfinite(each.value):
            marks.append((each.value, "|", 2 * half + 6, 2.4))
        if marks and each.ends:
            marks += [
                (end, bracket, 2 * half, 1.2)
                for end, bracket in zip((each.low, each.high), brackets, strict=True)
                if math.isfinite(end)
            ]
        for at, marker, size, thick in marks:
            axes.plot(
                [at], [i], linestyle="none", marker=marker, markersize=size, markerfacecolor="none",
                markeredgecolor=DATA, markeredgewidth=thick, clip_on=False, zorder=3,
            )  # fmt: skip
        told = [(_short(each.label), labels, "left", INK, TEXT, "normal")] * is_named
        told += [(each.text, values, "right", INK, TEXT, "bold")]
        told += [(each.ends, ends, "right", INK_2, SMALL, "normal")]
        for text, way, side_of, colour, size, weight in told:
            _write(axes, text, (0, i), (-way, 0), side_of, colour, size, weight, "data")
    _write(axes, panel.title, (0, 1), (-labels, 22), "left", INK, TEXT + 2, "bold")
    if is_named:
        _write(axes, picture.label, (0, 1), (-labels, 8), "left", INK_3, SMALL, "normal")
    axes.grid(visible=False)
    axes.set_xticks([at for at, _ in panel.ticks], [text for _, text in panel.ticks], **PLAIN)
    axes.tick_params(axis="x", which="both", length=0, labelsize=SMALL, labelcolor=INK_3, pad=5)
    axes.set_yticks([])
    axes.set_xlabel(panel.note, fontsize=SMALL, color=INK_3, loc="left", labelpad=6, **PLAIN)
    axes.set_xlim(panel.low, panel.high)
    axes.set_ylim(max(len(panel.rows), 1) - 0.5, -0.5)


def _write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    way: tuple[float, float],
    side: str,
    colour: str,
    size: float,
    weight: str,
    along: str = "axes fraction",
) -> None:
    """A text beside the frame: names of the data are no formulas."""
    if text:
        axes.annotate(
            text, at, way, ("axes fraction", along), "offset points", annotation_clip=False,
            ha=side, va="center_baseline" if along == "data" else "baseline",
            color=colour, fontsize=size, fontweight=weight, **PLAIN,
        )  # fmt: skip


def _veil(axes: Axes, panel: Panel, row: DrawnRow, place: int) -> None:
    """One strip whose opacity is that of the veil, as far as it lies in the frame."""
    if not row.veil:
        return
    low, high = max(row.veil[0].low, panel.low), min(row.veil[0].high, panel.high)
    if high <= low:
        return
    red, green, blue = (int(DATA[i : i + 2], 16) / 255 for i in (1, 3, 5))
    places = [low + (high - low) * (i + 0.5) / DRAWN for i in range(DRAWN)]
    ink = _inks(row.veil, places)
    axes.imshow(
        [[(red, green, blue, each) for each in ink]],
        extent=(low, high, place + HALF, place - HALF),
        aspect="auto", interpolation="nearest", zorder=2,
    )  # fmt: skip


def _inks(veil: Sequence[Ring], places: Sequence[float]) -> list[float]:
    """How strong a veil is in places from left to right: in steps where it has few ranges, since then its law
    lives on few integers, and evenly between them otherwise."""
    ink = [0.0] * len(places)
    for ring in veil:  # each lies inside the one before, and is stronger
        first, last = bisect_left(places, ring.low), bisect_right(places, ring.high)
        ink[first:last] = [ring.ink] * (last - first)
    if len(veil) < RINGS:
        return ink
    middle, inks = (veil[-1].low + veil[-1].high) / 2, [each.ink for each in veil[:-1]]
    knots = [(a.low + b.low) / 2 for a, b in pairwise(veil)]
    knots += [middle, *reversed([(a.high + b.high) / 2 for a, b in pairwise(veil)])]
    inks += [veil[-1].ink, *reversed(inks)]
    for i, at in enumerate(places):
        k = bisect_left(knots, at)
        if 0 < k < len(knots) and knots[k] > knots[k - 1]:
            part = (at - knots[k - 1]) / (knots[k] - knots[k - 1])
            ink[i] = inks[k - 1] + (inks[k] - inks[k - 1]) * part
    return ink
