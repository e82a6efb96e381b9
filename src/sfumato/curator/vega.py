"""A picture of a release as a specification of Vega-Lite: plain data, no library, nothing loaded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato.curator.picture import (
    DATA,
    INK,
    INK_2,
    INK_3,
    LINE,
    LINE_STRONG,
    PAPER,
    alphas,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.picture import Panel, Picture, Ring

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
WIDE, NARROW, ROW = 420, 260, 34  # pixels: frames, alone and beside each other, and rows
TEXT, SMALL, SIGN = 13, 11, 7.4  # sizes of letters; about how wide one is
GAP, BAR, ACROSS, MOST_LABEL = (
    14,
    18,
    2,
    280,
)  # between texts; the height of a veil; panels beside each other; the longest label
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


def specified(picture: Picture) -> dict[str, Any]:
    """The specification, for version 5 or 6 of Vega-Lite."""
    wide = WIDE if len(picture.panels) == 1 else NARROW
    panels = [
        _panel(picture, panel, picture.panels[i % ACROSS :: ACROSS], is_named=not i % ACROSS, wide=wide)
        for i, panel in enumerate(picture.panels)
    ]
    shown = panels[0] if len(panels) == 1 else {
        "concat": panels, "columns": ACROSS, "align": "all", "resolve": {"scale": {"shape": "independent"}},
    }  # fmt: skip
    if picture.footnote:
        shown = {
            "title": {"text": picture.footnote, "orient": "bottom", "anchor": "start"},
            "vconcat": [shown],
        }
    return {
        "$schema": SCHEMA,
        "description": _described(picture),
        "background": PAPER,
        "padding": 16,
        **shown,
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "title": {"color": INK_3, "fontSize": SMALL, "fontWeight": "normal"},
            "axis": {"domain": False, "ticks": False, "labelFontSize": SMALL, "titleFontSize": SMALL},
        },
    }


def _described(picture: Picture) -> str:
    """The picture in words, for whoever cannot see it; the table holds the same."""
    said = [f"{panel.title}, {panel.note}" for panel in picture.panels]
    return f"{'; '.join(said)}. {len(picture.labels):,} rows."


def _panel(
    picture: Picture, panel: Panel, below: Sequence[Panel], *, is_named: bool, wide: int
) -> dict[str, Any]:
    """One panel; those above and below it have their frames at the same place."""
    values = max((len(each.text) for one in below for each in one.rows), default=0) * SIGN * 1.15
    ends = max((len(each.ends) for one in below for each in one.rows), default=0) * SIGN * 0.85
    at_values = -GAP - (ends + GAP if ends else 0)
    names = max(map(len, (*picture.labels, picture.label))) * SIGN * 1.05
    labelled = round(-at_values + values + (GAP + min(names, MOST_LABEL) if is_named else 0))
    rows = [
        {"row": label, "text": each.text, "ends": each.ends}
        for label, each in zip(picture.labels, panel.rows, strict=True)
    ]
    drawn = [
        (label, each)
        for label, each in zip(picture.labels, panel.rows, strict=True)
        if each.value is not None and math.isfinite(each.value)
    ]
    veils = [part for label, each in drawn for part in _parts(label, each.veil, panel)]
    brackets = [
        {"row": label, "at": _short(end), "side": side}
        for label, each in drawn
        if each.ends
        for side, end in (("low", each.low), ("high", each.high))
        if math.isfinite(end)
    ]
    ticks = [{"row": label, "at": _short(each.value or 0.0)} for label, each in drawn]
    scale = {"domain": [panel.low, panel.high], "nice": False, "zero": False}
    written = {str(_short(at)): text for at, text in panel.ticks}
    axis = {
        "values": [_short(at) for at, _ in panel.ticks],
        "labelExpr": _written(written),
        "labelColor": INK_3,
        "labelPadding": 6,
        "gridColor": {"condition": {"test": "datum.value === 0", "value": LINE_STRONG}, "value": LINE},
        "title": panel.note,
        "titleColor": INK_3,
        "titleAnchor": "start",
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    y: dict[str, Any] = {
        "field": "row",
        "type": "nominal",
        "sort": list(picture.labels),
        "scale": {"domain": list(picture.labels), "paddingInner": 0, "paddingOuter": 0},
        "axis": {
            "labels": is_named,
            "labelColor": INK,
            "labelFontSize": TEXT,
            "labelAlign": "left",
            "labelLimit": MOST_LABEL,
            "labelPadding": labelled,
            "grid": True,
            "gridColor": LINE,
            "tickBand": "extent",
            # a space holds the place of the name, so that titles beside each other stand on one line
            "title": (picture.label if is_named else "") or "\u00a0",
            "titleAngle": 0,
            "titleAlign": "left",
            "titleX": -labelled,
            "titleY": -10,
            "titleColor": INK_3,
            "titleFontWeight": "normal",
        },
    }
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    ink = {"field": "ink", "type": "quantitative", "scale": None, "legend": None}
    arm = round(panel.arm(wide, 4) / (BAR / 2), 2)
    paths = [f"M{sign}{arm},-1L0,-1L0,1L{sign}{arm},1" for sign in ("", "-")]
    shape = {"field": "side", "scale": {"domain": ["low", "high"], "range": paths}, "legend": None}
    size = (2 * BAR) ** 2 / 4
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": veils},
            "mark": {"type": "rect", "color": DATA, "height": BAR, "clip": True, "aria": False},
            "encoding": {"x": {"field": "from", **x}, "x2": {"field": "to"}, "y": y, "opacity": ink},
        },
        {
            "data": {"values": brackets},
            "mark": {"type": "point", "filled": False, "color": DATA, "strokeWidth": 1.6, "size": size},
            "encoding": {"x": {"field": "at", **x}, "y": y, "shape": shape, "opacity": {"value": 1}},
        },
        {
            "data": {"values": ticks},
            "mark": {"type": "tick", "color": DATA, "thickness": 3, "size": BAR + 8, "opacity": 1},
            "encoding": {"x": {"field": "at", **x}, "y": y},
        },
        {
            "data": {"values": rows},
            "mark": {**_beside(at_values), "fontSize": TEXT, "fontWeight": "bold", "color": INK},
            "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "text", "type": "nominal"}},
        },
        {
            "data": {"values": rows},
            "mark": {**_beside(-GAP), "fontSize": SMALL, "color": INK_2},
            "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "ends", "type": "nominal"}},
        },
    ]
    title = {"text": panel.title, "anchor": "start", "frame": "bounds", "fontSize": TEXT + 2}
    return {
        "title": {**title, "fontWeight": "bold", "color": INK, "offset": 12},
        "width": wide,
        "height": max(len(panel.rows), 1) * ROW,
        "layer": layers,
    }


def _beside(way: float) -> dict[str, Any]:
    return {"type": "text", "align": "right", "baseline": "middle", "dx": way}


def _parts(label: str, veil: tuple[Ring, ...], panel: Panel) -> list[dict[str, Any]]:
    """The ranges of a veil; what lies outside the frame is left to it to cut."""
    return [
        {"row": label, "from": _short(max(ring.low, panel.low)), "to": _short(min(ring.high, panel.high)),
         "ink": round(alpha, 4)}
        for ring, alpha in zip(veil, alphas(veil), strict=True)
        if ring.low < panel.high and ring.high > panel.low
    ]  # fmt: skip


def _short(value: float) -> float:
    """Seven digits: no screen has more pixels, and a page of a thousand numbers stays small."""
    return float(f"{value:.7g}")


def _written(names: dict[str, str]) -> str:
    """How numbers of the axis are written: as the other picture does."""
    found = "datum.label"
    for at, text in reversed(names.items()):
        found = f"datum.value === {at} ? '{text}' : {found}"
    return found
