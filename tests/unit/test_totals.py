"""Declared totals: counts are adjusted to them, with intervals of the noise that is left, or not at all."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.intervals import Errors
from sfumato.curator.totals import NOTHING, summed, with_rests
from sfumato.errors import InvalidParameter, PolicyError
from sfumato.exact.coins import Tape
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace
from sfumato.queries.cells import Shortfall, Total
from sfumato.queries.measures import Moments, cut_of, total_of
from sfumato.queries.totals import _with_total

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.curator.database import Database
    from sfumato.curator.release import Release
    from sfumato.mechanisms import Line
    from sfumato.queries.plan import Plan

POLICY = """
[source]
duckdb = "town.duckdb"
[budget]
epsilon = "1000"
delta = "1e-6"
least = "0.0001"
[tables.people]
unit = "id"
rows_per_person = 1
{size}
[tables.people.columns]
id = {{ type = "integer" }}
region = {{ type = "text", keys = ["a", "b", "c"], {complete} }}
member = {{ type = "boolean" }}
age = {{ type = "integer", low = 0, high = 100, required = true }}
worth = {{ type = "integer", low = 0, high = 1000 }}
street = {{ type = "text" }}
{totals}
[tables.visits]
unit = "id"
rows_per_person = 3
size = 1800
[tables.visits.columns]
id = {{ type = "integer" }}
ward = {{ type = "text", keys = ["x", "y"], complete = true }}
"""
SIZE, COMPLETE, INCOMPLETE = "size = 900", "complete = true", "complete = false"
MEMBERS = "[tables.people.totals]\nmember = { true = 300, false = 600 }"


def opened(folder: Path, size: str = SIZE, complete: str = COMPLETE, totals: str = "") -> Database:
    if not (folder / "town.duckdb").exists():
        with duckdb.connect(str(folder / "town.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE people AS SELECT i AS id, ['a', 'b', 'c'][1 + i % 3] AS region, i % 3 = 0 AS "
                "member, i % 101 AS age, CASE WHEN i % 5 > 0 THEN i END AS worth, 's' || (i % 4) AS street "
                "FROM range(900) AS r(i)"
            )
            connection.execute(
                "CREATE TABLE visits AS SELECT i // 2 AS id, ['x', 'y'][1 + i % 2] AS ward "
                "FROM range(1800) AS r(i)"
            )
    text = POLICY.format(size=size, complete=complete, totals=totals)
    (folder / "town.toml").write_text(text, encoding="utf-8")
    return sf.open(folder / "town.toml")


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return opened(tmp_path)


def totals(plan: Plan) -> list[Total | None]:
    return [total_of(each) for each in plan.measures]


def read(release: Release, *drawn: Sequence[int]) -> list[dict[str, Any]]:
    """The rows without rounding, as if so many rows had been drawn."""
    many = tuple(tuple(1024 * each for each in one) for one in drawn)
    rows = replace(release, drawn=many).exact()
    return [{name: getattr(each, "value", each) for name, each in row.items()} for row in rows]


# What is shown -------------------------------------------------------------------------------------------


def test_groups_are_adjusted_by_equal_parts_and_add_up(db: Database) -> None:
    release = db.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY region", epsilon=1).release()
    rows = read(release, [310, 290, 308])  # 8 too many
    assert [row["n"] for row in rows] == [310 - Fraction(8, 3), 290 - Fraction(8, 3), 308 - Fraction(8, 3)]
    assert sum(row["n"] for row in release.rows()) == pytest.approx(900, abs=0.2)


def test_a_margin_is_adjusted_to_by_itself(tmp_path: Path) -> None:
    db = opened(tmp_path, totals=MEMBERS)
    sql = "SELECT member, region, COUNT(*) AS n FROM people GROUP BY member, region"
    question = db.sql(sql, epsilon=1)
    assert totals(question.plan) == [Total(0, (600, 300))]  # false first, as its groups are
    rows = read(question.release(), [9, 300, 300, 90, 90, 90])
    assert [row["n"] for row in rows] == [6, 297, 297, 100, 100, 100]
    cube = db.sql(sql.replace("GROUP BY member, region", "GROUP BY CUBE(member, region)"), epsilon=1)
    release = cube.release()
    assert release.cost.amount == 0  # it was asked before, and is read as it was stored
    found = {(row["member"], row["region"]): row["n"] for row in read(release, [9, 300, 300, 90, 90, 90])}
    assert found[False, None] == 600
    assert found[True, None] == 300
    assert found[None, None] == 900
    assert found[None, "a"] == 106
    exact: Any = {(row["member"], row["region"]): row["n"] for row in release.exact()}
    for label, count in {(False, None): 600, (True, None): 300, (None, None): 900}.items():
        cell = exact[label]
        assert (cell.low, cell.value, cell.high) == (count, count, count)


def test_the_whole_table_is_what_was_declared(db: Database) -> None:
    question = db.sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert question.explain().errors() == {"n": "± 0"}
    assert question.release().rows() == [{"n": 900, "n_low": 900, "n_high": 900}]
    rolled = db.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY ROLLUP(region)", epsilon="0.5")
    assert rolled.release().rows()[-1] == {"region": None, "n": 900, "n_low": 900, "n_high": 900}


def test_it_is_the_same_number_wherever_it_stands(db: Database) -> None:
    sql = (
        "SELECT region, COUNT(*) AS n, COUNT(*) / 900 AS s, 2 * COUNT(*) - 1 AS m FROM people "
        "GROUP BY region HAVING COUNT(*) > 300 ORDER BY COUNT(*)"
    )
    rows = read(db.sql(sql, epsilon=1).release(), [304, 302, 324])  # 30 too many
    assert rows == [{"region": "c", "n": 314, "s": Fraction(314, 900), "m": 627}]
    below = "(SELECT region, COUNT(*) AS n FROM people GROUP BY region)"
    release = db.sql(f"SELECT MAX(n) AS top, SUM(n) AS all_ FROM {below}", epsilon=1).release()
    (row,) = release.rows()
    assert row["all_"] == pytest.approx(900, abs=0.2)
    assert row["all__low"] <= 900 <= row["all__high"]
    assert row["all__high"] - row["all__low"] < 0.5  # what rows were rounded by, and no noise
    (row,) = db.sql(f"SELECT SUM(n) AS n FROM {below} WHERE region <> 'b'", epsilon=1).release().rows()
    assert row["n_low"] <= row["n"] <= row["n_high"]
    assert row["n_high"] - row["n_low"] > 2


def test_notes_say_so(tmp_path: Path) -> None:
    db = opened(tmp_path, totals=MEMBERS)
    question = db.sql("SELECT region, COUNT(*) FROM people GROUP BY region", epsilon=1)
    told = "Adjusted to the declared size of people, 900 rows. No question checks it"
    assert told in " ".join(question.explain().as_dict()["notes"])
    assert told in " ".join(question.release().notes())
    question = db.sql("SELECT member, region, COUNT(*) FROM people GROUP BY member, region", epsilon=1)
    told = "Adjusted to the declared number of rows of people for each member."
    assert told in " ".join(question.release().notes())
    question = db.sql("SELECT region, COUNT(*) FROM people WHERE age > 5 GROUP BY region", epsilon=1)
    assert "Adjusted" not in " ".join(question.release().notes())


def test_an_average_of_a_column_without_nulls_has_a_divisor_without_noise(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    db, plain = opened(tmp_path), opened(tmp_path / "other", size="")
    sql = "SELECT AVG(age) AS a, COUNT(*) AS n, SUM(age) AS s FROM people"
    question, without = db.sql(sql, epsilon=1), plain.sql(sql, epsilon=1)
    assert totals(question.plan) == [Total(None, (900,))]
    drawn = tuple(int(x) for x in np.array([850, 45]) * question.plan.measures[0].one.denominator)
    rows: Any = [replace(each.release(), drawn=(drawn,)).exact()[0] for each in (question, without)]
    row, other = rows
    a, n, s = (row[name] for name in "ans")
    assert n.value == n.low == n.high == 900
    assert a.value == s.value / 900 == Fraction(100) * (45 + Fraction(5, 2)) / 900
    assert a.high - a.low < 0.8 * (other["a"].high - other["a"].low)


# Where it is used, and where it is not -------------------------------------------------------------------

USED = [
    "SELECT COUNT(*) FROM people",
    "SELECT region, COUNT(*) FROM people GROUP BY region",
    "SELECT region, COUNT(*) FROM people GROUP BY ROLLUP(region)",
    "SELECT region, COUNT(*), COUNT(worth) FROM people GROUP BY region",
    "SELECT region, AVG(age) FROM people GROUP BY region",
    "SELECT region, COUNT(*), SUM(worth) FROM people GROUP BY region",
]
NOT_USED = [
    "SELECT COUNT(*) FROM people WHERE age > 3",
    "SELECT COUNT(*) FROM people JOIN visits USING (id)",
    "SELECT COUNT(*) FROM visits",  # caps may cut
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT member, COUNT(*) FROM people GROUP BY member",  # NULL is no key
    "SELECT region, member, COUNT(*) FROM people GROUP BY region, member",
    "SELECT age, COUNT(*) FROM people GROUP BY age",
    "SELECT UPPER(region) AS r, COUNT(*) FROM people GROUP BY r",
    "SELECT region, COUNT(worth) FROM people GROUP BY region",  # of some rows
    "SELECT AVG(worth) FROM people",
    "SELECT VARIANCE(age), COUNT(*) FROM people",
    "SELECT COUNT(DISTINCT id) FROM people",
    "SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS c FROM people GROUP BY id)",
]


@pytest.mark.parametrize("sql", USED)
def test_a_total_is_used_where_all_rows_are_in_the_groups(sql: str, db: Database) -> None:
    assert totals(db.sql(sql, epsilon=1).plan) == [Total(None, (900,))]


@pytest.mark.parametrize("sql", NOT_USED)
def test_a_total_is_not_used_where_it_may_not_hold(sql: str, db: Database) -> None:
    assert not any(totals(db.sql(sql, epsilon=1).plan))


def test_private_groups_are_not_adjusted(db: Database) -> None:
    sql = "SELECT street, COUNT(*) FROM people GROUP BY street"
    assert not any(totals(db.sql(sql, epsilon=1, delta="1e-9").plan))


def test_what_must_be_declared(tmp_path: Path) -> None:
    by_both = "SELECT region, member, COUNT(*) FROM people GROUP BY region, member"

    def found(sql: str, **declared: str) -> list[Total | None]:
        return totals(opened(tmp_path, **declared).sql(sql, epsilon=1).plan)

    by_region = by_both.replace("region, member", "region")
    assert found(by_region, complete=INCOMPLETE) == [None]  # some region may be NULL
    assert found(by_region, size="") == [None]
    assert found(by_both, totals=MEMBERS) == [Total(1, (600, 300))]
    assert found(by_both, size="", totals=MEMBERS) == [Total(1, (600, 300))]
    assert found(by_both, complete=INCOMPLETE, totals=MEMBERS) == [None]
    few = MEMBERS.replace("600", "500")  # 100 of them are neither
    assert found(by_both, totals=few) == [Total(1, (500, 300))]
    assert found("SELECT member, COUNT(*) FROM people GROUP BY CUBE(member)", totals=few) == [
        Total(None, (800,))
    ]
    regions = "[tables.people.totals]\nregion = { a = 300, b = 300, c = 300 }"
    assert found(by_region, complete=INCOMPLETE, totals=regions) == [Total(0, (300, 300, 300))]
    assert found(by_region.replace("region, COUNT", "member, COUNT").replace("BY region", "BY member"),
                 totals=regions) == [None]  # fmt: skip


WRONG = [
    ({"size": "size = 0"}, "size must be a whole number from 1"),
    ({"size": "size = 9.5"}, "size must be a whole number from 1"),
    ({"complete": "complete = 1"}, "complete is true or false"),
    ({"totals": MEMBERS.replace("600", "700")}, "the rows of all keys are 1,000, and the table has 900"),
    ({"totals": MEMBERS.replace("false = 600", "no = 6")}, "the rows of 'false' are missing"),
    ({"totals": MEMBERS.replace(" }", ", maybe = 1 }")}, "'maybe' is not one of the keys"),
    ({"totals": MEMBERS.replace("600", "-1")}, "a number of rows is a whole number from 0"),
    ({"totals": "[tables.people.totals]\nmember = 900"}, "this is not a number of rows for each key"),
    ({"totals": "[tables.people.totals]\nworth = { a = 1 }"}, "there is no such column with keys"),
    ({"totals": "[tables.people.totals]\nregion = { a = 1, b = 2, c = 3 }"}, "the rows of all keys are 6"),
]


@pytest.mark.parametrize(("declared", "told"), WRONG)
def test_wrong_declarations_are_refused(declared: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=told):
        opened(tmp_path, **declared)


def test_guesses_are_about_noise_of_its_own(db: Database) -> None:
    release = db.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY region", epsilon=1).release()
    with pytest.raises(InvalidParameter, match="noise of its own"):
        release.guesses("n", {300: 1, 301: 1})


# What is stored ------------------------------------------------------------------------------------------


def test_a_stored_release_says_the_same_whatever_the_policy_says_later(tmp_path: Path) -> None:
    sql = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    joint = (
        "SELECT a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM people) AS a, "
        "(SELECT COUNT(*) AS n FROM visits) AS b"
    )
    for first in ("", SIZE):
        folder = tmp_path / (first or "none")
        folder.mkdir()
        then = [opened(folder, size=first).sql(each, epsilon=1).release() for each in (sql, joint)]
        for size in ("", SIZE, "size = 1000"):
            db = opened(folder, size=size)
            for each, before in zip((sql, joint), then, strict=True):
                again = db.sql(each, epsilon=1).release()
                assert again.receipt.number == before.receipt.number
                assert again.cost.amount == 0
                assert again.rows() == before.rows()
                assert again.notes()[2:] == before.notes()[2:]


def test_the_form_of_a_measure_tells_its_total(db: Database) -> None:
    (measure,) = db.sql("SELECT COUNT(*) FROM people", epsilon=1).plan.measures
    assert isinstance(measure, Moments)
    assert measure.form["total"] == [None, [900]]
    assert "total" not in replace(measure, total=None).form
    for each in (measure, replace(measure, total=None), replace(measure, total=Total(1, (2, 3)))):
        assert Moments.read(each.form, lambda _: measure.values[0]) == each


# The law of what is left ---------------------------------------------------------------------------------


def left(law: Line, groups: int) -> dict[int, float]:
    """The law of G times the error of a group, by adding up every draw that weighs anything."""
    window = law.window(Fraction(1, 10**12))
    one = {y: float(law.cdf(y).low) - float(law.cdf(y - 1).low) for y in window}
    others = {0: 1.0}
    for _ in range(groups - 1):
        sums: dict[int, float] = {}
        for (a, p), (b, q) in itertools.product(others.items(), one.items()):
            sums[a + b] = sums.get(a + b, 0.0) + p * q
        others = sums
    found: dict[int, float] = {}
    for (a, p), (b, q) in itertools.product(one.items(), others.items()):
        off = (groups - 1) * a - b
        found[off] = found.get(off, 0.0) + p * q
    return found


LAWS: list[Line] = [DiscreteLaplace(scale=Fraction(1)), DiscreteLaplace(scale=Fraction(7, 2)),
                    DiscreteGaussian(sigma_squared=Fraction(4))]  # fmt: skip


@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("tail", [Fraction(1, 20), Fraction(1, 1000)])
def test_the_radius_is_that_of_the_exact_law(law: Line, groups: int, tail: Fraction, db: Database) -> None:
    errors, weights = shared(law, groups, db)
    radius = errors.radius(weights, tail) * 1024 * groups
    exact = left(law, groups)
    beyond = sum(mass for off, mass in exact.items() if abs(off) > radius)
    assert beyond <= float(tail) + 1e-9
    shorter = radius * Fraction(97, 100) - groups  # but for a step, and what blocks lose
    assert sum(mass for off, mass in exact.items() if abs(off) > shorter) > float(tail)


def shared(law: Line, groups: int, db: Database) -> tuple[Errors, Any]:
    """What is known of the error of one of so many groups that share a total."""
    plan = db.sql("SELECT COUNT(*) AS n FROM people", epsilon=1).plan
    errors = Errors((law,), plan.measures, sharing=groups)
    linear = errors.linear(plan.outputs[0].expression)
    assert linear is not None
    assert sum(abs(weight) > 0 for weight in linear.weights.values()) == 2
    return errors, linear.weights


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("times", [2, 5, 64, 65, 700])
def test_a_sum_of_draws_is_bounded_from_above_and_not_by_much(law: Line, times: int) -> None:
    exact = np.array([1.0])
    window = law.window(Fraction(1, 10**18))
    masses = np.array([float(law.cdf(y).high) - float(law.cdf(y - 1).high) for y in window])
    for _ in range(times):
        exact = np.convolve(exact, masses)
        off = int(np.flatnonzero(exact > 1e-19)[0])
        exact = exact[off : len(exact) - off]
    half = len(exact) // 2
    points = np.arange(-half, half + 1, dtype=np.float64)
    beyond = np.append(np.cumsum(exact[::-1])[::-1][1:], 0.0)
    found = summed(law, times)
    bound = found.tails(points)
    assert (bound >= beyond - 1e-11).all()
    assert (np.diff(bound) <= 1e-15).all()
    deviation = np.sqrt((exact * points**2).sum())
    shift = max(1.0, 0.15 * deviation)  # a bound that is moved by so much is no bound
    moved = np.interp(points + shift, points, bound)
    assert (moved[:-1] <= beyond[:-1] * 1.01 + 1e-9).all()
    for tail in (Fraction(1, 20), Fraction(1, 10**6)):
        last = found.window(tail)[-1]
        assert bound[half + last] <= tail / 2


def test_nothing_is_the_sum_of_no_draws() -> None:
    assert summed(LAWS[0], 0) is NOTHING
    assert summed(LAWS[0], 1) is LAWS[0]
    assert list(NOTHING.window(Fraction(1, 2))) == [0]
    assert NOTHING.tails(np.array([-1.0, 0.0, 1.0])).tolist() == [1, 0, 0]


SQL = "SELECT member, region, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY CUBE(member, region)"
RUNS = 1500
ALARM = 1e-9  # for all labels and columns together


def at_most(hits: int, chance: float) -> float:
    """How likely so few hits are."""
    return math.fsum(
        math.exp(
            math.lgamma(RUNS + 1) - math.lgamma(k + 1) - math.lgamma(RUNS - k + 1)
            + k * math.log(chance) + (RUNS - k) * math.log1p(-chance)
        )
        for k in range(hits + 1)
    )  # fmt: skip


@pytest.mark.slow
def test_intervals_of_all_totals_cover_as_often_as_they_say(tmp_path: Path) -> None:
    db = opened(tmp_path, totals=MEMBERS)
    asked = db.sql(SQL.replace("CUBE(member, region)", "member, region"), epsilon=1)
    asked.release()  # with a margin, as it is stored
    release = db.sql(SQL, epsilon=1).release()
    plan = release.plan
    (total,) = totals(plan)
    assert total == Total(0, (600, 300))
    (measure,) = plan.measures
    step, whole = release.query.steps[0], int(1 / measure.one)
    noise = step.mechanism.noise  # type: ignore[attr-defined]  # additive, as it is for counts
    truth = [(150, 50)] * 3 + [(10, 90)] * 3  # rows at the lower and at the upper bound
    coins, hits, widths = Tape.seeded(5), dict[Any, int](), list[float]()
    draws = noise.draws(coins, RUNS * 12).reshape(RUNS, 12)
    cells = [each * whole for pair in truth for each in pair]
    bare: Any = replace(release, drawn=(tuple(cells),)).exact()
    exact: Any = {(row["member"], row["region"]): row for row in bare}
    for run in range(RUNS):
        drawn = tuple(int(c + e) for c, e in zip(cells, draws[run], strict=True))
        rows: Any = replace(release, drawn=(drawn,)).exact()
        for row in rows:
            label = row["member"], row["region"]
            for name in ("n", "a"):
                cell, true = row[name], exact[label][name]
                assert name == "a" or cell.low <= cell.value <= cell.high
                hits[*label, name] = hits.get((*label, name), 0) + (cell.low <= true.value <= cell.high)
                widths += [cell.high - cell.low] if label == (True, "a") and name == "n" else []
    assert at_most(min(hits.values()), 0.95) > ALARM / len(hits)
    for member in (True, False, None):
        assert hits[member, None, "n"] == RUNS
    # and the test can fail: intervals that hold 85 times in a hundred would be found out
    enough = next(k for k in range(RUNS) if at_most(k, 0.95) > ALARM / len(hits))
    assert 1 - at_most(enough - 1, 0.85) < ALARM
    plain = Errors((noise,), plan.measures).radius(
        {r: w for w, r in plan.outputs[2].expression.terms}, Fraction(1, 20)  # type: ignore[union-attr]
    )  # fmt: skip
    assert widths[0] < 2 * float(plain)


def test_rests_are_what_the_other_cells_have_too_much(tmp_path: Path) -> None:
    plan = opened(tmp_path).sql("SELECT region, COUNT(*) FROM people GROUP BY region", epsilon=1).plan
    groups = plan.groups
    vectors: list[tuple[tuple[int, ...], ...]] = [((1024 * n,),) for n in (1, 2, 3)]
    found = with_rests(plan, groups, vectors, groups, vectors)
    assert [vector[0][1] for vector in found] == [1024 * (n - 900) for n in (5, 4, 3)]


# Where a cap cuts ----------------------------------------------------------------------------------------

CAPPED = """
[source]
duckdb = "shop.duckdb"
[budget]
epsilon = "8"
least = "0.0001"
[measure]
share = "25%"
[tables.buys]
unit = "person"
rows_per_person = 5
{size}
[tables.buys.columns]
person = {{ type = "integer" }}
kind = {{ type = "text", keys = ["x", "y", "z"], complete = true }}
cents = {{ type = "integer", low = 0, high = 100 }}
"""


def capped(folder: Path, size: str) -> Database:
    """3,000 people, of whom a twentieth have 200 rows; a third of the rows is of each kind."""
    folder.mkdir(exist_ok=True)
    if not (folder / "shop.duckdb").exists():
        with duckdb.connect(str(folder / "shop.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE buys AS SELECT p AS person, ['x', 'y', 'z'][1 + (p + n) % 3] AS kind, "
                "1 AS cents FROM (SELECT p, UNNEST(range(CASE WHEN p % 20 = 0 THEN 200 ELSE 1 + p % 3 END)) "
                "AS n FROM range(3000) AS r(p)) AS q"
            )
    (folder / "shop.toml").write_text(CAPPED.format(size=size), encoding="utf-8")
    return sf.open(folder / "shop.toml")


BY_KIND = "SELECT kind, COUNT(*) AS n FROM buys GROUP BY kind"


def test_where_a_cap_cuts_a_count_is_its_part_of_the_declared_size(tmp_path: Path) -> None:
    db = capped(tmp_path, "size = 35_700")
    release = db.sql(BY_KIND, epsilon=1).release()
    (measure,) = release.plan.measures
    cut = cut_of(measure)
    assert total_of(measure) == Total(None, (35700,))
    assert cut is not None
    assert (cut.back, cut.wrong, cut.apart) == (0, 0, 0)
    assert cut.mixed > 0
    rows = read(release, [5000, 3000, 2000])
    assert [row["n"] for row in rows] == [Fraction(35700, 10) * part for part in (5, 3, 2)]
    rolled = db.sql(BY_KIND.replace("BY kind", "BY ROLLUP(kind)"), epsilon=1).release()
    assert rolled.cost.amount == 0
    found = replace(rolled, drawn=(tuple(1024 * each for each in (5000, 3000, 2000)),))
    cells: Any = [row["n"] for row in found.exact()]
    assert [cell.value for cell in cells] == [17850, 10710, 7140, 35700]
    assert cells[-1].low == pytest.approx(35700)
    assert cells[-1].high == pytest.approx(35700)
    assert all(cell.low < cell.value < cell.high for cell in cells[:-1])
    told = " ".join(release.notes())
    assert "35,700 rows, of which each group has its part of what was counted." in told
    assert "added back" not in told
    half = db.sql("SELECT kind, COUNT(*) / 2 AS n FROM buys GROUP BY kind HAVING COUNT(*) > 9000", epsilon=1)
    rows = read(half.release(), [5000, 3000, 2000])
    assert [row["n"] for row in rows] == [8925, 5355]


def test_where_a_cap_cuts_nothing_else_is_adjusted(tmp_path: Path) -> None:
    db = capped(tmp_path, "size = 35_700")
    db.sql(BY_KIND, epsilon="0.5").release()
    for sql in (
        "SELECT kind, COUNT(*), SUM(cents) FROM buys GROUP BY kind",
        "SELECT kind, COUNT(*) FROM buys WHERE cents > 0 GROUP BY kind",
        "SELECT AVG(cents) FROM buys",
        "SELECT COUNT(DISTINCT person) FROM buys",
    ):
        release = db.sql(sql, epsilon="0.3").release()
        assert not any(map(total_of, release.plan.measures))


def test_a_declared_size_tells_more_than_what_is_estimated_to_be_cut(tmp_path: Path) -> None:
    question = capped(tmp_path, "size = 35_700").sql(BY_KIND, epsilon=1)
    plan, noise = question.plan, DiscreteLaplace(scale=Fraction(40 * 1024))
    (measure,) = plan.measures
    assert isinstance(measure, Moments)
    cut = Shortfall(seen=300_000_000, back=290_000_000, wrong=80_000_000, apart=30_000_000, mixed=2_000_000)
    estimated = replace(measure, rows=100, cut=cut, total=None)
    declared = _with_total(estimated, Total(None, (35_700,)), is_one=False)
    counted = [1024 * n for n in (9000, 9300, 9150)]
    errors = Errors((noise,), (estimated,), whole=((sum(counted),),))
    adjusted = Errors((noise,), (declared,), whole=((sum(counted), 0),), sharing=3)
    shown = plan.outputs[1].expression
    before = errors.interval(shown, [[counted[0]]], Fraction(1, 20))
    after = adjusted.interval(shown, [[counted[0], sum(counted[1:])]], Fraction(1, 20))
    value = adjusted.value(shown, [[counted[0], sum(counted[1:])]])
    assert value == Fraction(35_700 * 9000, 27_450)
    assert after[0] < value < after[1]
    assert after[1] - after[0] < 0.9 * (before[1] - before[0])
    # heavy people may all be of one kind: at least that is covered, by 1.96 deviations
    part = float(value) / 35_700
    assert (after[1] - after[0]) / 2 > 1.96 * 0.03 * 35_700 * math.sqrt(part * (1 - part))
