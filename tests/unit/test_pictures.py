"""Pictures: marks lie where released numbers are, veils are their noise; drawing reads and spends nothing."""

from __future__ import annotations

import datetime
import io
import json
import math
import re
import sys
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import altair
import duckdb
import matplotlib
import matplotlib.figure
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import AxesImage
from matplotlib.text import Annotation, Text

import sfumato as sf
from sfumato.cli.main import main
from sfumato.curator import curves
from sfumato.curator.picture import (
    MOST_ROWS,
    RINGS,
    SPEND,
    Panel,
    PictureColumn,
    Ring,
    alphas,
    picture,
    rings,
    ticks,
)
from sfumato.curator.plot import plotted
from sfumato.curator.question import errors_at
from sfumato.curator.vega import specified
from sfumato.curator.veils import law_of
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from sfumato.curator.database import Database
    from sfumato.mechanisms import Line

ODD = '<b>&"$x^2$'
POLICY = """
[source]
duckdb = "shop.duckdb"
[budget]
epsilon = "{total}"
least = "0.0001"
{measure}
[tables.buys]
unit = "person"
rows_per_person = 4
[tables.buys.columns]
person = "integer"
kind = {{ type = "text", keys = ["x", "y", {odd}] }}
day = {{ type = "date", low = 2024-01-01, high = 2024-03-31 }}
cents = {{ type = "integer", low = -500, high = 5000 }}
[tables.people]
unit = "person"
rows_per_person = 1
[tables.people.columns]
person = "integer"
age = {{ type = "integer", low = 0, high = 120 }}
smokes = "boolean"
"""
ROWS = (
    "SELECT p AS person, ['x', 'y', ?][1 + (p + n) % 3] AS kind, (p * 7 + n * 13) % 900 AS cents, "
    "DATE '2024-01-01' + CAST((p + n * 31) % 91 AS INT) AS day "
    "FROM (SELECT p, UNNEST(range(CASE WHEN p % 20 = 0 THEN 100 ELSE 1 + p % 3 END)) AS n "
    "FROM range(900) AS r(p)) AS q"
)
COUNTS = "SELECT kind, COUNT(*) AS n FROM buys GROUP BY kind"


def opened(folder: Path, total: str = "1000", measure: str = "") -> Database:
    if not (folder / "shop.duckdb").exists():
        with duckdb.connect(str(folder / "shop.duckdb")) as connection:
            connection.execute(f"CREATE TABLE buys AS {ROWS}", [ODD])
            connection.execute(
                "CREATE TABLE people AS SELECT i AS person, 20 + i % 60 AS age, i % 3 = 0 AS smokes "
                "FROM range(900) AS r(i)"
            )
    text = POLICY.format(total=total, measure=measure, odd=json.dumps(ODD))
    (folder / "shop.toml").write_text(text, encoding="utf-8")
    return sf.open(folder / "shop.toml")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return opened(tmp_path_factory.mktemp("pictures"))


def panels_of(rows: list[dict[str, Any]], *columns: PictureColumn, **more: Any) -> tuple[Panel, ...]:
    """Panels of rows that are the same at all levels."""
    return picture(columns, lambda _: rows, "0.95", **more).panels


def row(value: Any, low: Any, high: Any, name: str = "n") -> dict[str, Any]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def marks_in(axes: Axes) -> list[tuple[int, float, Any]]:
    """Ticks and brackets: of which row, where, and which."""
    found = [
        (np.ravel(line.get_xdata()), np.ravel(line.get_ydata()), line.get_marker()) for line in axes.lines
    ]
    return [(int(y[0]), float(x[0]), marker) for x, y, marker in found if len(x) == 1]


NUMBER = PictureColumn("n", is_number=True, has_interval=True)


def ink_at(veil: tuple[Ring, ...], place: float) -> float:
    """How strong the ink is where all ranges lie over each other, as a screen adds them up."""
    through = 1.0
    for ring, alpha in zip(veil, alphas(veil), strict=True):
        if ring.low <= place <= ring.high:
            through *= 1 - alpha
    return 1 - through


# Where marks lie -----------------------------------------------------------------------------------------


def test_ticks_lie_at_values_and_brackets_at_the_ends_of_intervals(db: Database) -> None:
    release = db.sql(COUNTS, epsilon="0.5").release()
    rows = release.rows("0.9")
    axes = release.plot("0.9").axes[0]
    marks = marks_in(axes)
    found = {(i, x) for i, x, _ in marks}
    assert found == {
        (i, float(each[name])) for i, each in enumerate(rows) for name in ("n", "n_low", "n_high")
    }
    assert {(i, x) for i, x, marker in marks if marker == "|"} == {
        (i, float(r["n"])) for i, r in enumerate(rows)
    }
    spec = release.vega("0.9")
    _, brackets, marks_of, texts, ends = (layer["data"]["values"] for layer in spec["layer"])
    assert [each["at"] for each in marks_of] == [float(each["n"]) for each in rows]
    assert [each["at"] for each in brackets] == [float(r[n]) for r in rows for n in ("n_low", "n_high")]
    assert [each["row"] for each in texts] == [each["kind"] for each in rows] == ["x", "y", ODD]
    assert ends[0]["ends"] == f"{rows[0]['n_low']:,} to {rows[0]['n_high']:,}"


def test_nothing_is_a_bar(db: Database) -> None:
    release = db.sql(COUNTS, epsilon="0.5").release()
    assert all(layer["mark"]["type"] != "bar" for layer in release.vega()["layer"])
    axes = release.plot().axes[0]
    assert not axes.containers
    assert not axes.patches
    assert len([each for each in axes.get_children() if isinstance(each, AxesImage)]) == 3


def test_the_level_moves_brackets_and_leaves_the_veil(db: Database) -> None:
    release = db.sql(COUNTS, epsilon="0.5").release()
    wide, narrow = (release.drawing(level).panels[0] for level in ("0.99", "0.8"))
    for a, b in zip(wide.rows, narrow.rows, strict=True):
        assert a.veil == b.veil
        assert a.low < b.low < b.value < b.high < a.high  # type: ignore[operator]
    assert wide.note == "99% interval; fades along the noise"
    with pytest.raises(InvalidParameter, match="level"):
        release.drawing("95")


# Veils ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(scale=Fraction(20)), DiscreteGaussian(sigma_squared=Fraction(10**9))]
)
def test_a_wide_veil_is_the_density_of_its_noise_over_its_peak(noise: Line) -> None:
    veil = law_of(Fraction(-1, 2), noise)
    assert len(veil) == RINGS
    reach = noise.window(Fraction(1, 100))[-1]
    assert math.isclose(veil[0].high, reach / 2)
    for part in (0.05, 0.2, 0.5, 0.9):
        y = round(reach * part)
        density = math.exp(float(noise.log_mass(y).low - noise.log_mass(0).low))
        assert math.isclose(ink_at(veil, y / 2), density, abs_tol=0.05)
        assert ink_at(veil, y / 2) == ink_at(veil, -y / 2)
    assert ink_at(veil, veil[0].high * 1.001) == 0


def test_a_narrow_veil_has_a_step_for_every_integer() -> None:
    noise = DiscreteLaplace(scale=Fraction(1, 2))
    veil = law_of(Fraction(3), noise)
    assert [each.high for each in reversed(veil)] == [1.5, 4.5, 7.5]
    for y, place in ((0, 1.4), (1, 1.6), (2, 7.4)):
        assert math.isclose(ink_at(veil, place), math.exp(-2 * y), rel_tol=1e-9)


def test_a_veil_from_levels_is_that_of_geometric_noise_where_the_noise_is_geometric() -> None:
    scale = 100.0
    knots = [
        (1 - p, -scale * -math.log(1 - p), scale * -math.log(1 - p)) for p in (0.5, 0.8, 0.9, 0.95, 0.99)
    ]
    veil = rings(0.0, knots, -1000, 1000)
    exact = law_of(Fraction(1), DiscreteLaplace(scale=Fraction(100)))
    for a, b in zip(veil, exact, strict=True):
        assert math.isclose(a.high, b.high, rel_tol=0.01)
        assert math.isclose(a.ink, b.ink, abs_tol=0.01)


def test_each_side_of_a_ratio_is_scaled_to_its_own_end(db: Database) -> None:
    release = db.sql("SELECT SUM(cents) / COUNT(*) AS r FROM buys", epsilon="0.1").release()
    (drawn,) = release.drawing().panels[0].rows
    for level, ink in (("0.5", 0.5), ("0.8", 0.2), ("0.95", 0.05)):
        (each,) = release.rows(level)
        for end in (each["r_low"], each["r_high"]):
            inner, outer = (ink_at(drawn.veil, end + (each["r"] - end) * part) for part in (0.1, -0.1))
            assert outer <= ink * 1.1
            assert inner >= ink * 0.9


def test_a_veil_is_as_wide_as_intervals_that_cover_what_caps_cut(tmp_path: Path) -> None:
    measured = opened(tmp_path, measure='[measure]\nshare = "10%"')
    sql = "SELECT COUNT(*) AS n FROM buys"
    measured.sql(sql, epsilon="1").release()
    release = measured.sql(sql, epsilon="1").release()
    assert any("what caps cut" in note for note in release.notes())
    (drawn,) = release.drawing().panels[0].rows
    (far,) = release.rows("0.99")
    assert drawn.veil[0].low <= far["n_low"]
    assert drawn.veil[0].high >= far["n_high"]


def test_a_quantile_has_brackets_and_a_tick_and_no_veil(db: Database) -> None:
    panel = db.sql("SELECT MEDIAN(age) AS m FROM people", epsilon="1").release().drawing().panels[0]
    assert panel.rows[0].veil == ()
    assert panel.note == "95% interval"
    assert math.isfinite(panel.rows[0].low)
    (difference,) = (
        db.sql("SELECT MEDIAN(age) - COUNT(*) AS m FROM people", epsilon="1").release().drawing().panels
    )
    assert difference.rows[0].veil == ()


@given(
    st.lists(st.floats(0, 1e6), min_size=5, max_size=5),
    st.lists(st.one_of(st.floats(0, 1e6), st.just(math.inf)), min_size=5, max_size=5),
    st.floats(-1e6, 1e6),
)
def test_a_veil_is_a_stack_of_ranges_of_growing_ink(
    lows: list[float], highs: list[float], value: float
) -> None:
    inks = (0.5, 0.2, 0.1, 0.05, 0.01)
    knots = [
        (ink, value - low, value + high)
        for ink, low, high in zip(inks, sorted(lows), sorted(highs), strict=True)
    ]
    veil = rings(value, knots, value - 2e6, value + 2e6)
    assert all(a.low <= b.low <= value <= b.high <= a.high and a.ink < b.ink for a, b in pairwise(veil))
    assert all(math.isfinite(each.low) and math.isfinite(each.high) for each in veil)
    assert all(0 <= each <= 1 for each in alphas(veil))
    if veil and math.isinf(max(highs)):
        assert veil[0].high > value + 2e6


# Rows and frames -----------------------------------------------------------------------------------------


def test_an_infinite_end_has_no_bracket_and_its_veil_leaves_the_frame() -> None:
    near = [row(5, 4.5, 5.5), row(5, 4, 6), row(5, 3.5, 7), row(5, 3, 8), row(5, 2, math.inf)]
    tables = dict(zip(("0.5", "0.8", "0.9", "0.95", "0.99"), near, strict=True))
    shown = picture([NUMBER], lambda level: [tables[level]], "0.99")
    (drawn,) = shown.panels[0].rows
    assert drawn.ends == "2 to ∞"
    assert drawn.veil[0].high > shown.panels[0].high
    axes = plotted(shown).axes[0]
    assert [x for _, x, _ in marks_in(axes)] == [5.0, 2.0]
    assert [each["side"] for each in specified(shown)["layer"][1]["data"]["values"]] == ["low"]
    everything = [row(5, -math.inf, math.inf)]
    (drawn,) = panels_of(everything, NUMBER)[0].rows
    assert ink_at(drawn.veil, drawn.value or 0.0) > 0.9


def test_a_missing_value_is_a_dash_without_marks() -> None:
    shown = picture([NUMBER], lambda _: [row(None, -math.inf, math.inf), row(3, 1, 4)], "0.95")
    first, second = shown.panels[0].rows
    assert (first.text, first.veil, first.value) == ("-", (), None)
    assert (second.text, second.ends) == ("3", "1 to 4")
    spec = specified(shown)
    assert {each["row"] for layer in spec["layer"][:3] for each in layer["data"]["values"]} == {"2"}
    assert {i for i, _, _ in marks_in(plotted(shown).axes[0])} == {1}
    alone = picture([NUMBER], lambda _: [row(None, -math.inf, math.inf)], "0.95")
    plotted(alone).savefig(io.BytesIO())
    assert specified(alone)["layer"][0]["data"]["values"] == []


def test_counts_start_at_zero_and_negative_ones_are_not_cut(db: Database) -> None:
    counted = PictureColumn("n", is_number=True, has_interval=True, from_zero=True)
    (panel,) = panels_of([row(500, 490, 510), row(400, 390, 410)], counted)
    assert -20 < panel.low < 0 < panel.ticks[0][0] + 1
    (panel,) = panels_of([row(-5, -20, 10)], counted)
    assert panel.low < -20
    (panel,) = panels_of([row(500, 490, 510)], NUMBER)
    assert panel.low > 400
    columns = {
        "COUNT(*)": True, "SUM(cents)": False, "COUNT(*) / 2": True, "-COUNT(*)": False, "AVG(cents)": False,
    }  # fmt: skip
    for sql, is_from_zero in columns.items():
        shown = db.sql(f"SELECT {sql} AS n FROM buys", epsilon="100").release().drawing().panels[0]
        assert (shown.low <= 0 <= shown.rows[0].value) == is_from_zero, sql  # type: ignore[operator]


def test_rows_are_named_by_their_keys_and_dates_are_in_order(db: Database) -> None:
    sql = "SELECT DATE_TRUNC('month', day) AS m, kind, COUNT(*) AS n FROM buys GROUP BY m, kind"
    shown = db.sql(sql, epsilon="10").release().drawing()
    assert shown.labels[:4] == ("2024-01-01 · x", "2024-01-01 · y", f"2024-01-01 · {ODD}", "2024-02-01 · x")
    assert shown.label == "m · kind"
    named = PictureColumn("d", is_number=False, is_key=True)
    days = [datetime.date(2024, 3, 1), None, datetime.date(2024, 1, 1)]
    rows = [{"d": day, **row(i, i, i + 1)} for i, day in enumerate(days)]
    assert picture([named, NUMBER], lambda _: rows, "0.95").labels == ("2024-01-01", "2024-03-01", "(all)")
    asked = picture([named, NUMBER], lambda _: rows, "0.95", is_ordered=True)
    assert asked.labels == ("2024-03-01", "(all)", "2024-01-01")
    again = [{"d": "a", **row(1, 0, 2)}, {"d": "a", **row(2, 0, 3)}]
    assert picture([named, NUMBER], lambda _: again, "0.95").labels == ("a", "a (2)")


def test_totals_and_rows_that_were_picked_are_drawn_from_their_intervals(db: Database) -> None:
    rolled = db.sql("SELECT kind, COUNT(*) AS n FROM buys GROUP BY ROLLUP (kind)", epsilon="1").release()
    shown = rolled.drawing()
    assert shown.labels[-1] == "(all)"
    widths = [each.veil[0].high - each.veil[0].low for each in shown.panels[0].rows]
    assert widths[-1] > widths[0]
    picked = db.sql(f"{COUNTS} ORDER BY n DESC LIMIT 2", epsilon="1").release().drawing().panels[0]
    assert picked.note == "95% interval, for all rows together; fades along the noise"


def test_every_number_column_has_a_panel_and_an_exact_number_is_a_tick_alone(db: Database) -> None:
    sql = "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean, MEDIAN(cents) AS m FROM buys GROUP BY kind"
    release = db.sql(sql, epsilon="10").release()
    assert [panel.name for panel in release.drawing().panels] == ["n", "mean", "m"]
    assert len(release.vega()["concat"]) == len(release.plot().axes) == 3
    key = PictureColumn("k", is_number=False, is_key=True)
    beds = PictureColumn("beds", is_number=True)
    rows = [{"k": "a", **row(1, 0, 2), "beds": 7}, {"k": "b", **row(1, 0, 2), "beds": 9}]
    numbers, exact = panels_of(rows, key, NUMBER, beds)
    assert (exact.note, exact.rows[0].ends, exact.rows[0].veil) == ("exact", "", ())
    year = [{**row(1, 0, 2), "beds": 2023}, {**row(1, 0, 2), "beds": 2024}]
    assert picture([NUMBER, beds], lambda _: year, "0.95").labels == ("2023", "2024")
    assert numbers.rows[0].ends == "0 to 2"


def test_what_has_no_number_is_refused_and_what_has_no_row_is_empty(db: Database) -> None:
    release = db.sql("SELECT MODE(kind) AS k FROM buys", epsilon="1").release()
    with pytest.raises(InvalidParameter, match="no column of this release is a number"):
        release.plot()
    empty = db.sql(f"{COUNTS} LIMIT 0", epsilon="1").release()
    empty.plot().savefig(io.BytesIO())
    valid(empty.vega())


def test_outer_queries_are_drawn_too(db: Database) -> None:
    sql = f"SELECT kind, n, n * n AS squared, RANK() OVER (ORDER BY n) AS place FROM ({COUNTS}) AS q"
    release = db.sql(sql, epsilon="100").release()
    counted, squared, _ = release.drawing().panels
    assert counted.low <= 0 < squared.low  # a count is shown as it is
    notes = {panel.name: panel.note for panel in release.drawing().panels}
    assert notes["n"] == "95% interval; fades along the noise"
    assert notes["place"] == "no interval is known"
    valid(release.vega())


def test_huge_and_tiny_numbers_are_drawn_in_powers_of_ten() -> None:
    for size in (10**30, 10**400):
        (panel,) = panels_of([row(5 * size, 4 * size, 6 * size), row(1, 0, size)], NUMBER)
        assert panel.rows[0].value == pytest.approx(5.0)
        assert panel.title == f"n (in 10^{panel.power})"
        assert panel.rows[0].text == f"5e+{panel.power}"
    (panel,) = panels_of([row(2.5e-30, 1e-30, 3e-30)], NUMBER)
    assert panel.power == -30
    (panel,) = panels_of([row(1.7e308, -1.7e308, math.inf)], NUMBER)
    shown = picture([NUMBER], lambda _: [row(1.7e308, -1.7e308, math.inf)], "0.95")
    plotted(shown).savefig(io.BytesIO())
    valid(specified(shown))
    assert panel.rows[0].value == pytest.approx(1.7)


@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_ticks_lie_in_the_frame_and_are_told_apart(low: float, wide: float) -> None:
    wide = max(wide, abs(low) * 1e-8)
    found = ticks(low, low + wide)
    assert len({text for _, text in found}) == len(found) <= 7
    assert all(low - wide * 0.01 <= at <= low + wide * 1.01 for at, _ in found)


# On paper ------------------------------------------------------------------------------------------------


def many(count: int, label: str = "group {}") -> Any:
    key = PictureColumn("k", is_number=False, is_key=True)
    other = PictureColumn("other", is_number=True, has_interval=True)
    rows = [
        {
            "k": label.format(i),
            **row(1000 * i, 1000 * i - 500, 1000 * i + 500),
            **row(i, i - 1, i + 1, "other"),
        }
        for i in range(count)
    ]
    return picture([key, NUMBER, other], lambda _: rows, "0.95")


@pytest.mark.parametrize("count", [1, 4, 30, 50])
def test_a_figure_grows_and_no_text_lies_on_another(count: int) -> None:
    figure = plotted(many(count))
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        texts: list[Text] = [each for each in axes.get_children() if isinstance(each, Annotation)]
        texts += [label for label in axes.get_xticklabels() if label.get_text()]
        boxes += [each.get_window_extent() for each in (*texts, axes.xaxis.label)]
    for i, a in enumerate(boxes):
        assert a.x0 >= 0
        assert a.x1 <= figure.bbox.width
        assert a.y0 >= 0
        assert a.y1 <= figure.bbox.height
        for b in boxes[:i]:
            assert a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0
    assert figure.get_size_inches()[1] >= count * 0.4


def test_more_rows_than_a_page_holds_are_counted_and_not_drawn() -> None:
    shown = many(MOST_ROWS + 50)
    assert shown.footnote == "the first 200 of 250 rows"
    assert len(shown.panels[0].rows) == MOST_ROWS
    assert shown.footnote in json.dumps(specified(shown))
    assert any(text.get_text() == shown.footnote for text in plotted(shown).texts)


def test_names_of_the_data_are_neither_markup_nor_formulas(db: Database) -> None:
    sql = f'SELECT kind, COUNT(*) AS "{ODD.replace(chr(34), chr(34) * 2)}" FROM buys GROUP BY kind'
    question = db.sql(sql, epsilon="0.5")
    tree = ElementTree.fromstring(question.explain().svg())
    assert any(each.text == ODD for each in tree.iter("{http://www.w3.org/2000/svg}text"))
    release = question.release()
    file = io.BytesIO()
    release.plot().savefig(file, format="svg")
    ElementTree.fromstring(file.getvalue())
    texts = [
        each.get_text() for each in release.plot().axes[0].get_children() if isinstance(each, Annotation)
    ]
    assert texts.count(ODD) == 2  # the key and the title
    valid(release.vega())
    assert release.vega()["title"]["text"] == ODD
    long = many(3, "a long name that goes on and on and on {} and on and on")
    assert max(len(each.get_text()) for each in plotted(long).axes[0].texts) <= 40


def test_axes_that_are_given_are_drawn_in(db: Database) -> None:
    release = db.sql(
        "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean FROM buys GROUP BY kind", epsilon="1"
    ).release()
    figure = matplotlib.figure.Figure(figsize=(12, 4))
    both = figure.subplots(1, 2)
    assert release.plot(ax=both) is figure
    assert all(axes.images for axes in both)
    with pytest.raises(InvalidParameter, match=r"as many axes as there are number columns: 2 \(n, mean\)"):
        release.plot(ax=both[0])
    single = db.sql(COUNTS, epsilon="0.5").release()
    assert single.plot(ax=matplotlib.figure.Figure().subplots()).axes


def test_a_figure_is_its_own_and_shows_itself(db: Database) -> None:
    release = db.sql(COUNTS, epsilon="0.5").release()
    with matplotlib.rc_context({"axes.grid": True, "text.usetex": True, "xtick.minor.visible": True}):
        figure = release.plot()
        shown: bytes = figure._repr_png_()  # type: ignore[attr-defined]  # what a notebook calls
    assert shown.startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_without_matplotlib_it_is_said_what_to_install(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    release = db.sql(COUNTS, epsilon="0.5").release()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "sfumato\[plot\]"'):
        release.plot()
    assert release.vega()["layer"]


def valid(spec: dict[str, Any]) -> None:
    """By the schema of Vega-Lite, and by JSON, which has no infinity."""
    altair.Chart.from_dict(spec)
    json.dumps(spec, allow_nan=False)


@pytest.mark.parametrize(
    "sql",
    [
        COUNTS,
        "SELECT COUNT(*) AS n FROM buys",
        "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean, SUM(cents) AS s FROM buys GROUP BY kind",
        "SELECT SUM(cents) / COUNT(*) AS r FROM buys WHERE cents < -100",
        "SELECT MEDIAN(age) AS m FROM people",
    ],
)
def test_the_specification_is_one_of_vega_lite(db: Database, sql: str) -> None:
    spec = db.sql(sql, epsilon="0.2").release().vega()
    valid(spec)
    for panel in spec.get("concat", [spec]):
        assert [layer["mark"]["type"] for layer in panel["layer"]] == [
            "rect",
            "point",
            "tick",
            "text",
            "text",
        ]
        assert all("values" in layer["data"] for layer in panel["layer"])  # nothing is loaded


# Nothing is read, nothing is spent -----------------------------------------------------------------------


def unread(monkeypatch: pytest.MonkeyPatch, database: Database) -> None:
    """From here on a question that runs, or a charge, fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it was run or charged")

    monkeypatch.setattr(type(database.source), "run", fail)
    monkeypatch.setattr(type(database.ledger), "charge", fail)


def test_a_release_is_drawn_from_its_rows_alone(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean FROM buys GROUP BY kind"
    release = db.sql(sql, epsilon="1").release()
    unread(monkeypatch, db)
    release.plot()
    told = {f"{value:,}" if isinstance(value, int) else value for r in release.rows() for value in r.values()}
    for panel in release.drawing().panels:
        for each in panel.rows:
            assert {each.text, *each.ends.split(" to ")} <= {
                f"{x:,}"
                if isinstance(x, int)
                else x
                if isinstance(x, str)
                else f"{x:,.{places_of(each.text)}f}"
                for x in told
            }


def places_of(text: str) -> int:
    return len(text.partition(".")[2])


@pytest.mark.parametrize("measure", ["", '[measure]\nshare = "10%"'])
@pytest.mark.parametrize(
    "sql", [COUNTS, "SELECT kind, SUM(cents) AS s FROM buys WHERE day < DATE '2024-02-01' GROUP BY kind"]
)
def test_explanations_are_drawn_without_reading_or_spending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: str, sql: str
) -> None:
    database = opened(tmp_path, "10", measure)
    unread(monkeypatch, database)
    explanation = database.sql(sql, epsilon="0.1").explain()
    assert "asked 0.1" in explanation.picture()
    ElementTree.fromstring(explanation.svg())
    assert database.ledger.history() == ()


# Error against price -------------------------------------------------------------------------------------


def test_errors_at_other_prices_are_those_that_explain_says_there(tmp_path: Path) -> None:
    db = opened(tmp_path)
    sql = "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean, MEDIAN(cents) AS m FROM buys GROUP BY kind"
    prices = [Fraction(1, 10), Fraction(1), Fraction(5)]
    found = errors_at(db.sql(sql, epsilon="0.3"), prices)
    assert [price for price, _ in found] == prices
    for price, errors in found:
        explained = db.sql(sql, epsilon=price).explain()
        assert errors == explained.radii()
        assert {name: each.kind for name, each in errors.items()} == {
            "n": "noise",
            "mean": "mean",
            "m": "rank",
        }
        assert f"{float(errors['mean'].radius):,.4g}" in explained.errors()["mean"]
    ratio = found[0][1]["n"].radius / found[1][1]["n"].radius
    assert 9 < ratio < 11


@pytest.mark.parametrize(
    ("sql", "tune"),
    [
        (f"SELECT n FROM ({COUNTS}) AS q", None),
        (
            "SELECT n FROM (SELECT COUNT(*) AS n FROM buys) AS a, (SELECT COUNT(*) AS m FROM people) AS b",
            None,
        ),
        ("SELECT COUNT(*) AS n FROM buys", "0.02"),
    ],
)
def test_questions_in_parts_and_those_that_tune_have_errors_at_other_prices(
    tmp_path: Path, sql: str, tune: str | None
) -> None:
    db = opened(tmp_path)
    question = db.sql(sql, epsilon="0.2", tune=tune)
    found = errors_at(question, [Fraction(1, 5), Fraction(2, 5)])
    assert [price for price, _ in found] == [Fraction(1, 5), Fraction(2, 5)]
    assert found[0][1] == question.explain().radii()
    assert 1.9 < found[0][1]["n"].radius / found[1][1]["n"].radius < 2.1
    assert "asked 0.2" in question.explain().picture()


def test_a_price_of_nothing_has_no_error(db: Database) -> None:
    with pytest.raises(InvalidParameter, match="above 0"):
        errors_at(db.sql(COUNTS, epsilon="0.5"), [Fraction(0)])


def test_the_terminal_shows_what_is_asked_and_left(tmp_path: Path) -> None:
    database = opened(tmp_path, "1")
    explanation = database.sql(COUNTS, epsilon="0.3").explain()
    lines = explanation.picture(60).splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) == 16
    assert re.fullmatch(r"  n: within ± [\d,.]+ in 95 of 100 releases", lines[0])
    assert "asked 0.3" in lines[1]
    assert "left 1" in lines[1]
    assert sum("┊" in line for line in lines) == sum("│" in line[14:] or "●" in line for line in lines)
    columns = list(zip(*(line.ljust(60) for line in lines[2:13]), strict=True))[13:]
    strength = " ░▒▓"
    for column in columns:  # downward, ink never gets weaker
        ink = [strength.index(sign) for sign in column if sign in strength]
        assert ink == sorted(ink)
    database.sql("SELECT COUNT(*) FROM people", epsilon="0.99").release()
    assert "← left 0.01" in database.sql(COUNTS, epsilon="0.5").explain().picture()


def test_rows_of_text_and_functions_have_nothing_to_draw(db: Database) -> None:
    explanation = db.sql("SELECT MODE(kind) AS m FROM buys", epsilon="0.5").explain()
    assert "nothing to draw" in explanation.picture()
    assert "nothing to draw" in explanation.svg()


def test_an_svg_holds_the_curve_the_price_and_what_is_left(tmp_path: Path) -> None:
    database = opened(tmp_path, "1")
    question = database.sql(
        "SELECT kind, COUNT(*) AS n, AVG(cents) AS mean FROM buys GROUP BY kind", epsilon="0.1"
    )
    text = question.explain().svg()
    tree = ElementTree.fromstring(text)
    said = [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert said.count("asked 0.1") == 2
    assert said.count("1 left") == 2
    assert SPEND in text
    paths = [
        each for each in tree.iter("{http://www.w3.org/2000/svg}path") if each.get("stroke-width") == "1.5"
    ]
    exact, about = paths
    assert exact.get("stroke-dasharray") is None  # proved
    assert about.get("stroke-dasharray")  # a forecast
    heights = [float(point.split()[1]) for point in (exact.get("d") or "")[1:].split("L")]
    assert heights == sorted(heights)  # the more is paid, the less is the error
    question.release()
    assert "already paid" in question.explain().svg()


def test_the_asked_error_is_never_rounded_down() -> None:
    for error in (59.915, 0.1001, 7.51, 1e-7, 123456.0, 1e20):
        assert float(curves._up(error).replace(",", "")) >= error


# Commands ------------------------------------------------------------------------------------------------


def test_commands_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path, "1")
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    asked = ["shop.toml", COUNTS, "-e", "0.1"]
    found = run.invoke(main, ["explain", *asked, "--picture", "--svg", "n.svg"])
    assert found.exit_code == 0
    assert "asked 0.1" in found.stdout
    ElementTree.parse(tmp_path / "n.svg")
    for wrong in ("n.gif", "nowhere/n.png", "n"):
        assert run.invoke(main, ["sql", *asked, "--plot", wrong]).exit_code == 1
    modes = ["shop.toml", "SELECT MODE(kind) FROM buys", "-e", "0.1"]
    assert (
        "no column of this question is a number"
        in run.invoke(main, ["sql", *modes, "--plot", "n.png"]).stderr
    )
    assert sf.open("shop.toml").ledger.history() == ()  # refused before anything was charged
    for name, start in (("n.png", b"\x89PNG"), ("m.svg", b"<?xml"), ("n.pdf", b"%PDF"), ("n.json", b"{")):
        found = run.invoke(main, ["sql", *asked, "--plot", name])
        assert found.exit_code == 0, found.output
        assert f"Drew {name}." in found.stderr
        assert (tmp_path / name).read_bytes().startswith(start)
    valid(json.loads((tmp_path / "n.json").read_text(encoding="utf-8")))
    assert len(sf.open("shop.toml").ledger.history()) == 1
