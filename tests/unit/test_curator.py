"""The path of a query: refused for free, charged before it runs, kept before it is shown."""

from __future__ import annotations

import csv
import datetime
import io
import json
import random
import re
import shutil
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree

import duckdb
import numpy as np
import pytest
from tests.support import Row, answer, engine, make, opened, wild_table

import sfumato as sf
from sfumato.budget import Share
from sfumato.budget.accounting.composition import zcdp
from sfumato.curator.calibrate import Uses, calibrate
from sfumato.errors import InvalidParameter
from sfumato.exact.coins import Coins
from sfumato.mechanisms import Additive, Distance, Distances, Geometric, Guarantee, Private, Step
from sfumato.queries.measures import Moments
from sfumato.queries.parameters import bind
from sfumato.sources.duckdb import DuckDB
from sfumato.utility.gain import identity

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.release import Cell
    from sfumato.sources.answers import Compiled


ROWS: list[Row] = [row for rows in wild_table(random.Random(3), people=40).values() for row in rows]
BY_WARD = "SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward"


class NoCoins(Coins):
    """Whoever asks for a bit fails: proof that nothing was drawn."""

    def bits(self, count: int) -> int:
        raise AssertionError(f"{count} coins were tossed")


def test_asking_explaining_and_looking_never_spend(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    question = db.sql(BY_WARD, epsilon="0.3")
    assert "costs epsilon 0.3" in repr(question)
    assert "epsilon 0.3, of 1 left" in repr(question.explain())
    assert "hospital: epsilon 1 of 1 left" in repr(db)
    assert db.budget.spent == Guarantee(Fraction(0))
    assert question.price == Guarantee.parse("0.3")


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("ward = ANY (ARRAY['A', 'B'])", ()),
        ("ward = ANY ((ARRAY['B', 'A', 'B'])::text[])", ()),
        ("ward = ANY ($1)", (["A", "B"],)),
        ("ward = ANY ($1::varchar[])", (("B", "A"),)),
        ("ward IN ($2, $1)", ("B", "A")),
        ("NOT (ward <> ALL ($1))", (["A", "B"],)),
        ("NOT ward <> ALL (ARRAY[$1, 'B'])", ("A",)),
    ],
)
def test_a_list_is_the_same_question_in_every_spelling(
    tmp_path: Path, sql: str, values: tuple[str | list[str], ...]
) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    asked = db.sql(f"SELECT COUNT(*) FROM visits WHERE {sql}", epsilon="1", parameters=values)
    plain = db.sql("SELECT COUNT(*) FROM visits WHERE ward IN ('A', 'B')", epsilon="1")
    assert answer(asked) == answer(plain)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (np.int64(3), "3"), (np.float64(-2.5), "(-2.5)"), (np.float32(0.5), "0.5"), (Decimal("1.50"), "1.50"),
        (Fraction(1, 2), "0.5"), ([1, np.int8(2)], "ARRAY[1, 2]"), (True, "TRUE"), ((), "ARRAY[]"),
    ],
)  # fmt: skip
def test_values_of_many_kinds_are_written(value: Any, written: str) -> None:
    assert bind("$1", [value]) == written


@pytest.mark.parametrize(
    "value",
    [
        b"ab", np.array([1]), {1, 2}, Ellipsis, 1j, Decimal("sNaN"), Decimal("inf"), float("nan"), 10**40,
        [[1]], [(1,)], {"a": 1}, np.float64("inf"),
    ],

)  # fmt: skip
def test_a_value_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="parameters"):
        bind("$1", [value])
    with pytest.raises(InvalidParameter, match="parameters"):
        bind("$1", [[value]])


def test_a_text_is_no_list_of_values() -> None:
    with pytest.raises(InvalidParameter, match="give a list"):
        bind("$1", "n")


def test_an_empty_list_holds_nothing_and_not_even_null(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    sql = "SELECT COUNT(*) FROM visits WHERE note = ANY ($1)"
    none, every, everything = (
        answer(db.sql(text, epsilon="1", parameters=values))
        for text, values in (
            (sql, ([],)),
            (sql.replace("note", "NOT note"), ([],)),
            ("SELECT COUNT(*) FROM visits", ()),
        )
    )
    assert none != everything
    assert every == everything


def test_a_release_is_charged_once_and_repeated_for_free(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    first = db.sql(BY_WARD, epsilon="0.3").release()
    again = db.sql(BY_WARD.lower().replace("as n", "as m"), epsilon="0.3").release()
    assert (first.cost, again.cost) == (Guarantee.parse("0.3"), Guarantee(Fraction(0)))
    assert first.drawn == again.drawn
    assert db.budget.left == Guarantee.parse("0.7")
    number, head = first.receipt.number, first.receipt.head[:16]
    assert number == 3  # the opening and the budget are entries, too
    assert f"Charged epsilon 0.3 (receipt 3-{head})" in repr(first)
    assert "Free: answered from receipt 3" in repr(again)
    assert str(first.receipt) == f"receipt 3-{head}: epsilon 0.3"


def test_post_processing_of_a_stored_release_is_free(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    first = db.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon="0.3").release()
    shown = db.sql(
        "SELECT ward, 1 + COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n LIMIT 2", epsilon="0.3"
    )
    release = shown.release()
    assert release.cost.amount == 0
    assert len(release.rows()) == 2
    assert release.drawn == first.drawn


def test_a_larger_spend_answers_the_smaller_with_its_own_error(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    large = db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").release()
    small = db.sql("SELECT COUNT(*) FROM visits", epsilon="0.1").release()
    assert small.cost.amount == 0
    assert small.rows() == large.rows()
    assert small.guarantee == large.guarantee == Guarantee.parse("0.5")


def test_another_condition_policy_or_data_version_is_another_question(tmp_path: Path) -> None:
    path = make(tmp_path, ROWS, budget="1")
    db = sf.open(path)
    sql = "SELECT SUM(age) FROM visits"
    db.sql(sql, epsilon="0.1").release()
    assert db.sql(sql + " WHERE age > 3", epsilon="0.1").release().cost == Guarantee.parse("0.1")
    path.write_text(path.read_text(encoding="utf-8").replace("high = 120", "high = 100"), encoding="utf-8")
    assert sf.open(path).sql(sql, epsilon="0.1").release().cost == Guarantee.parse("0.1")
    db.data_changed()
    assert db.sql(sql, epsilon="0.1").release().cost == Guarantee.parse("0.1")
    assert db.budget.spent == Guarantee.parse("0.4")


def test_the_budget_belongs_to_the_database_not_to_who_opens_it(tmp_path: Path) -> None:
    path = make(tmp_path, ROWS, budget="0.5")
    sf.open(path).sql("SELECT COUNT(*) FROM visits", epsilon="0.4").release()
    with pytest.raises(sf.BudgetExceeded, match=r"only epsilon 0\.1 left"):
        sf.open(path).sql("SELECT COUNT(age) FROM visits", epsilon="0.4").release()


def test_over_budget_touches_neither_data_nor_coins(tmp_path: Path) -> None:
    path = make(tmp_path, ROWS, budget="0.5")
    db = sf.open(path, coins=NoCoins())
    question = db.sql("SELECT COUNT(*) FROM visits", epsilon="0.6")
    with pytest.raises(sf.BudgetExceeded):
        question.release()
    assert db.budget.spent.amount == 0


def test_a_failure_after_the_charge_keeps_the_charge_and_says_nothing(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, budget="1")
    question = db.sql("SELECT COUNT(*) FROM visits", epsilon="0.3")
    db.coins = NoCoins()
    with pytest.raises(sf.QueryFailed) as caught:
        question.release()
    assert caught.value.__context__ is None
    assert "coin" not in str(caught.value)
    assert db.budget.spent == Guarantee.parse("0.3")
    assert "paid, not yet released" in repr(db.budget)
    assert caught.value.spent is True
    with pytest.raises(sf.QueryFailed) as caught:
        question.release()
    assert caught.value.spent is False  # the charge was there before
    healed = sf.open(tmp_path / "hospital.toml")
    release = healed.sql("SELECT COUNT(*) FROM visits", epsilon="0.3").release()
    assert release.cost.amount == 0  # the open receipt was redeemed
    assert healed.budget.spent == Guarantee.parse("0.3")


@pytest.mark.parametrize(
    "epsilon", ["0", "-1", "nan", "inf", "1e-13", "", "ten", float("nan"), 0, True, "1000001"]
)
def test_an_absurd_epsilon_is_refused_by_name(tmp_path: Path, epsilon: object) -> None:
    db = opened(tmp_path, [])
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        db.sql("SELECT COUNT(*) FROM visits", epsilon=epsilon)  # type: ignore[arg-type]


# Calibration -----------------------------------------------------------------------------------------


COUNT = Moments((), (), 0, False, None)


def distances(l1: int | Fraction) -> Distances:
    return Distances(Distance(l1=Fraction(l1)), Distance(l1=Fraction(2 * l1)))


def test_calibrate_splits_the_price_evenly_and_exactly() -> None:
    query = calibrate((COUNT,) * 3, (distances(1), distances(10), distances(7)), Guarantee.parse("0.1"))
    assert [step.mechanism for step in query.steps] == [
        Geometric(scale=Fraction(scale)) for scale in (30, 300, 210)
    ]
    assert query.guarantee() == Guarantee.parse("0.1")
    assert query.guarantee("value") == Guarantee.parse("0.2")


@pytest.mark.parametrize("price", [Guarantee.parse("0.1"), Guarantee.read(rho="0.01")])
@pytest.mark.parametrize("weight", [Fraction(1, 2), Fraction(1), Fraction(15)])
def test_the_price_of_an_average_is_split_so_that_its_error_is_smallest(
    price: Guarantee, weight: Fraction
) -> None:
    """In epsilon the best parts go by the cube root of (weight * distance)^2, in rho by weight * distance."""
    both = tuple(
        Distances(Distance(l0=1, linf=Fraction(1)), Distance(l0=1, linf=Fraction(1))) for _ in range(2)
    )
    query = calibrate((COUNT, COUNT), both, price, Uses((((0, Fraction(1)), (1, weight)),)))
    bounds = [step.bound() for step in query.steps]
    first, second = ((each.epsilon if price.rho is None else each.rho) or Fraction(0) for each in bounds)
    power = 2 / 3 if price.rho is None else 1
    assert float(second / first) == pytest.approx(float(weight) ** power, rel=0.01)
    assert query.guarantee().amount <= price.amount


def test_an_average_alone_is_as_good_as_beside_what_it_is_made_of(tmp_path: Path) -> None:
    """Up to a tenth: the split is best half-way from the centre, and the farthest is stated."""
    db = opened(tmp_path, [])
    for kind, other in (("age", "COUNT(age)"), ("cost", "COUNT(cost)"), ("temp", "COUNT(temp)")):
        alone, beside = (
            db.sql(f"SELECT AVG({kind}) AS m{more} FROM visits", epsilon="0.5").explain().errors()["m"]
            for more in ("", f", {other}")
        )
        error, with_count = (float(said.split()[4].replace(",", "")) for said in (alone, beside))
        assert error <= 1.1 * with_count, (alone, beside)


def test_an_awkward_scale_is_rounded_up_never_down() -> None:
    share = Guarantee.parse("0.123456789012")
    query = calibrate((COUNT,), (distances(987_654_321_987_654_321),), share)
    (step,) = query.steps
    assert isinstance(step.mechanism, Geometric)
    exact = Fraction(987_654_321_987_654_321) / share.amount
    assert exact <= step.mechanism.scale <= exact * Fraction(10001, 10000)
    assert query.guarantee().amount <= share.amount


# What a release looks like ---------------------------------------------------------------------------


def test_a_release_gives_the_same_rows_in_every_shape(tmp_path: Path) -> None:
    release = opened(tmp_path, ROWS).sql(BY_WARD, epsilon=1).release()
    rows = release.rows()
    columns = ["ward", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    assert list(rows[0]) == release.columns == columns
    assert [row["ward"] for row in rows] == ["A", "B", "C", "O'Brien"]
    assert release.df().to_dict("records") == rows
    assert release.pl().to_dicts() == rows
    assert release.arrow().to_pylist() == rows
    html = release._repr_html_()
    assert "<table>" in html
    assert "O&#x27;Brien" in html


def test_numbers_are_never_shortened(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS, policy="row")
    release = db.sql("SELECT 123456789012345 + COUNT(*) AS n FROM visits", epsilon=100).release()
    value = release.rows()[0]["n"]
    assert f"{value:,}" in repr(release)
    assert "…" not in repr(release)
    assert "e+" not in repr(release)


def test_a_higher_level_is_wider_and_a_silly_one_is_refused(tmp_path: Path) -> None:
    release = opened(tmp_path, ROWS).sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).release()
    wide, narrow = release.rows("0.999")[0], release.rows(0.5)[0]
    assert wide["n_low"] < narrow["n_low"] <= narrow["n"] <= narrow["n_high"] < wide["n_high"]
    assert "99.9% interval" in release.text("0.999")
    for level in ("1", "0", "0.2", "x", "nan", float("nan"), "0.9_9", "\u0660.\u0669"):
        with pytest.raises(sf.InvalidParameter, match="level"):
            release.rows(level)


def test_explain_is_about_the_release_that_is_shown_for_free(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS)
    sql = "SELECT COUNT(*) AS n FROM visits"
    dear = db.sql(sql, epsilon="2")
    expected = dear.explain()
    dear.release()
    cheap = db.sql(sql, epsilon="0.5").explain()
    assert cheap.errors() == expected.errors()
    assert "one person added or removed: epsilon 2" in str(cheap)


def test_rows_come_in_the_order_asked_for_and_limits_widen_the_intervals(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS)
    plain = db.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1).release()
    top = db.sql(
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2", epsilon=1
    ).release()
    assert top.cost.amount == 0
    cells = [cast("Cell", row["n"]) for row in plain.exact()]  # two may be shown alike
    numbers = [cell.value or 0 for cell in cells]
    order = sorted(range(len(numbers)), key=lambda i: -numbers[i])[:2]
    expected = [plain.rows()[i] for i in order]
    assert [row["ward"] for row in top.rows()] == [row["ward"] for row in expected]
    for picked, alone in zip(top.rows(), expected, strict=True):
        assert picked["n_high"] - picked["n_low"] > alone["n_high"] - alone["n_low"]
    by_key = db.sql(
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward DESC LIMIT 1", epsilon=1
    )
    assert by_key.release().rows() == [plain.rows()[-1]]
    assert "(jointly for all rows" in repr(top)
    nothing = db.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward LIMIT 0", epsilon=1).release()
    assert nothing.rows() == []
    assert "ward" in repr(nothing)


def test_a_ratio_without_a_value_is_shown_as_such(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    release = db.sql("SELECT COUNT(*) / (COUNT(age) - COUNT(age)) AS r FROM visits", epsilon=1).release()
    assert release.rows() == [{"r": None, "r_low": float("-inf"), "r_high": float("inf")}]
    assert "[-∞, ∞]" in repr(release)
    assert release.as_dict()["rows"] == [{"r": None, "r_low": None, "r_high": None}]


def test_explain_derives_distances_line_by_line(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    text = " ".join(repr(db.sql(BY_WARD, epsilon="0.3").explain()).split())
    for said in (
        "one person added or removed: epsilon 0.3; one person's rows replaced: epsilon 0.6",
        "age is clamped to [0, 120] and floored to steps of 1",
        "each row adds 1 in all to 3 cells, which together tell the count, the sum",
        "so adding or removing one person changes all cells together by at most 4, and replacing",
        "anyone with more than 4 rows is scaled down in proportion, to weigh 4 rows in all",
        "geometric noise in each of 3 cells, 95% of it within",
        "for a group of 1,000 rows",
        "No row was read and nothing was spent.",
    ):
        assert said in text
    db.sql(BY_WARD, epsilon="0.3").release()
    assert "free: a stored release answers it" in repr(db.sql(BY_WARD, epsilon="0.3").explain())


# The source ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_answer_does_not_depend_on_threads_or_row_order(tmp_path: Path) -> None:
    """A million rows in two orders, through every thread: the same integers."""
    answers = []
    for name, order in (("up", "i"), ("hashed", "hash(i)")):
        path = make(tmp_path / name, [])
        with duckdb.connect(str(path.with_suffix(".duckdb"))) as connection:
            connection.execute(
                "INSERT INTO visits SELECT hash(i) % 50000, hash(i, 1) % 130, (hash(i, 2) % 600000) / 100.0,"
                " 36.6, 1.5, i, ['A', 'B', 'C', 'X'][1 + (hash(i, 3) % 4)::INTEGER], i % 5,"
                " NULL, NULL, NULL, NULL"
                f" FROM range(1000000) AS r(i) ORDER BY {order}"
            )
        db = sf.open(path)
        sql = "SELECT ward, COUNT(*), SUM(cost), AVG(cost), SUM(paid) FROM visits GROUP BY ward"
        answers.append(answer(db.sql(sql, epsilon=1)))
    assert answers[0] == answers[1]


def test_the_engine_is_locked_down(tmp_path: Path) -> None:
    connection = engine(opened(tmp_path, []).source)
    for attempt in (
        "INSERT INTO visits (age) VALUES (1)",
        "COPY visits TO 'x.csv'",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SET temp_directory = 'x'",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.cursor().execute(attempt)
    assert connection.execute("SELECT current_setting('temp_directory')").fetchone() == ("",)


def test_a_missing_locked_or_foreign_database_is_named_as_given(tmp_path: Path) -> None:
    path = make(tmp_path, [])
    with (
        duckdb.connect(str(tmp_path / "hospital.duckdb")),
        pytest.raises(sf.SourceError, match="other settings"),
    ):
        sf.open(path)
    (tmp_path / "hospital.duckdb").rename(tmp_path / "other.duckdb")
    with pytest.raises(sf.SourceError, match="no database file"):
        sf.open(path)
    (tmp_path / "hospital.duckdb").write_text("hello", encoding="utf-8")
    with pytest.raises(sf.SourceError, match="not a DuckDB file"):
        sf.open(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[tables.visits", "[tables.visit", "Did you mean visits"),
        ("age = {", "agee = {", "Did you mean age"),
        ('note = { type = "text"', 'note = { type = "date"', "is VARCHAR in the database"),
        ("[tables.wards]", "[tables.zzz]", "has no table 'zzz'"),
    ],
)
def test_a_policy_that_does_not_fit_the_database_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = make(tmp_path, [])
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises((sf.SourceError, sf.PolicyError), match=says):
        sf.open(path)


def test_a_view_is_not_a_table(tmp_path: Path) -> None:
    path = make(tmp_path, [])
    with duckdb.connect(str(tmp_path / "hospital.duckdb")) as connection:
        connection.execute("ALTER TABLE visits RENAME TO raw")
        connection.execute("CREATE VIEW visits AS SELECT * FROM raw")
    with pytest.raises(sf.SourceError, match="views do not count: their rows may depend on several"):
        sf.open(path)


def test_a_collation_neither_counts_a_row_twice_nor_merges_persons(tmp_path: Path) -> None:
    """Under NOCASE one row would match the keys A and a, and Bob and bob would share one cap."""
    with duckdb.connect(str(tmp_path / "c.duckdb")) as connection:
        connection.execute("CREATE TABLE t (who VARCHAR COLLATE NOCASE, ward VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('Bob', 'A'), ('Bob', 'a'), ('bob', 'a'), ('bob', 'A')")
    for unit, expected, alone in (('"who"\nrows_per_person = 1', 1024, 2048), ('"row"', 2, 2)):
        (tmp_path / "c.toml").write_text(
            f'[source]\nduckdb = "c.duckdb"\n[budget]\nepsilon = "1"\n[tables.t]\nunit = {unit}\n'
            '[tables.t.columns]\nwho = "text"\nward = { type = "text", keys = ["A", "a"] }\n',
            encoding="utf-8",
        )
        db = sf.open(tmp_path / "c.toml")
        by_ward = answer(db.sql("SELECT ward, COUNT(*) FROM t GROUP BY ward", epsilon=1))
        assert by_ward == ((expected, expected),)
        assert answer(db.sql("SELECT COUNT(*) FROM t WHERE ward = 'a'", epsilon=1)) == ((alone,),)


def test_keys_of_a_public_table_are_read_sorted(tmp_path: Path) -> None:
    db = opened(tmp_path, [], policy="row")
    assert db.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1).plan.groups == (
        ("A",),
        ("B",),
        ("C",),
    )
    with pytest.raises(sf.SourceError, match="must name a column of type text"):
        db.source.keys("wards", "nothing", "text")
    with pytest.raises(sf.SourceError, match="must name a column of type integer"):
        db.source.keys("wards", "ward", "integer")


# Currencies ------------------------------------------------------------------------------------------

DELTA = Fraction(1, 10**6)


def counting(folder: Path, budget: str, rows: list[Row] | None = None) -> Path:
    """A policy whose [budget] reads so."""
    path = make(folder, ROWS if rows is None else rows)
    text = path.read_text(encoding="utf-8")
    assert 'epsilon = "1000000"' in text
    path.write_text(text.replace('epsilon = "1000000"', budget), encoding="utf-8")
    return path


def counts(db: sf.Database, count: int, epsilon: str = "0.01") -> list[sf.Question]:
    return [
        db.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age <> {age}", epsilon=epsilon)
        for age in range(count)
    ]


def half(step: Step[Private], tail: Fraction) -> int:
    """What the noise of a step passes with probability at most `tail`."""
    assert isinstance(step.mechanism, Additive)
    return step.mechanism.noise.window(tail)[-1]


def kinds(question: sf.Question) -> set[str]:
    return {step.mechanism.name for step in question.query.steps}


def test_a_budget_of_rho_takes_gaussian_noise_and_adds_rhos_up(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'rho = "0.5"'))
    question = db.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", rho="0.1")
    assert kinds(question) == {"gaussian"}
    assert question.price == Guarantee.read(rho="0.1")
    release = question.release()
    assert release.cost == release.guarantee == question.price
    assert "Charged rho 0.1 (receipt 3-" in repr(release)
    assert "Rho 0.4 left in 'hospital'" in repr(release)
    assert release.as_dict()["rho"] == "0.1"
    assert question.release().cost == Guarantee.read(rho=1).of(Fraction(0))
    assert "rho 0.1 of 0.5 spent, 0.4 left" in repr(db.budget)
    assert db.budget.left == Guarantee.read(rho="0.4")
    with pytest.raises(sf.BudgetExceeded, match=r"only rho 0\.4 left.*raise rho under \[budget\]"):
        db.sql("SELECT COUNT(*) FROM visits", rho="0.41").release()


def test_replacing_a_person_in_groups_costs_at_most_four_times_the_rho(tmp_path: Path) -> None:
    """Whoever is replaced moves a single count no farther than whoever comes, and two groups by twice."""
    db = sf.open(counting(tmp_path, 'rho = "1"'))
    alone = db.sql("SELECT COUNT(*) FROM visits", rho="0.1").explain()
    assert (alone.price, alone.replaced) == (Guarantee.read(rho="0.1"), Guarantee.read(rho="0.1"))
    groups = db.sql("SELECT urgent, COUNT(*) FROM visits GROUP BY urgent", rho="0.1").explain()
    assert groups.price.amount < groups.replaced.amount <= 4 * groups.price.amount
    assert f"rows replaced: {groups.replaced}" in repr(groups)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "price", "says"),
    [
        ('rho = "0.5"', {"epsilon": "0.1"}, "the budget is in rho: write --rho 0.01"),
        ('rho = "0.5"', {}, "no price given: say what the question may cost: --rho 0.01"),
        ('rho = "0.5"', {"rho": "0.1", "delta": "1e-7"}, "this budget has no delta for questions"),
        ('epsilon = "1"', {"rho": "0.1"}, "the budget is in epsilon: write --epsilon 0.1"),
        ('epsilon = "1"', {"rho": "0.1", "epsilon": "0.1"}, "the budget is in epsilon"),
        ('epsilon = "1"', {}, "no price given: say what the question may cost: --epsilon 0.1"),
        ('epsilon = "1"', {"epsilon": "0.1", "delta": "1e-7"}, "this budget has no delta for questions"),
        ('epsilon = "1"\ndelta = "1e-6"', {"epsilon": "0.1", "delta": "0"}, "delta = 0 cannot be used"),
        ('epsilon = "1"\ndelta = "1e-6"', {"epsilon": "0.1", "delta": "1"}, "far below 1"),
        ('epsilon = "1"\ndelta = "1e-6"', {"epsilon": "0.1", "delta": "1e-19"}, "at most 18 decimal places"),
    ],
)
def test_a_price_in_another_currency_is_refused_and_says_what_to_write(
    tmp_path: Path, budget: str, price: dict[str, str], says: str
) -> None:
    db = sf.open(counting(tmp_path, budget))
    with pytest.raises(sf.InvalidParameter, match=re.escape(says)):
        db.sql("SELECT COUNT(*) FROM visits", **price)
    assert db.budget.spent.amount == 0


def test_the_currency_of_a_ledger_stays_what_it_was(tmp_path: Path) -> None:
    path = counting(tmp_path, 'rho = "0.5"')
    sf.open(path)
    path.write_text(path.read_text(encoding="utf-8").replace("rho =", "epsilon ="), encoding="utf-8")
    with pytest.raises(sf.LedgerError, match="counts rho, and the policy gives epsilon"):
        sf.open(path)


def test_with_a_delta_a_count_keeps_geometric_noise_and_its_delta(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "1"\ndelta = "1e-6"'))
    question = db.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1", delta="1e-7")
    assert kinds(question) == {"geometric"}
    assert question.release().cost == Guarantee.parse("0.1")  # no delta was needed, so none was taken
    assert db.budget.spent == Guarantee.parse("0.1")


def test_with_a_delta_many_columns_take_gaussian_noise_that_is_narrower(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "1"\ndelta = "1e-6"'))
    columns = ", ".join(f"COUNT(*) FILTER (WHERE age > {age})" for age in range(0, 100, 5))
    sql = f"SELECT floor_no, {columns}, SUM(age), SUM(cost), SUM(temp) FROM visits GROUP BY floor_no"
    pure = db.sql(sql, epsilon="0.1")
    approximate = db.sql(sql, epsilon="0.1", delta="1e-7")
    assert (kinds(pure), kinds(approximate)) == ({"geometric"}, {"gaussian"})
    spread = [
        [half(step, Fraction(1, 20)) for step in question.query.steps] for question in (pure, approximate)
    ]
    assert all(narrow < wide for wide, narrow in zip(*spread, strict=True))
    assert approximate.price.delta == Fraction(1, 10**7)
    assert Fraction(99, 1000) < approximate.price.amount <= Fraction(1, 10)
    assert approximate.release().cost == db.budget.spent == approximate.price
    assert approximate.explain().as_dict()["delta"] == "0.0000001"
    with pytest.raises(sf.BudgetExceeded, match="delta"):
        db.sql(sql + " ORDER BY floor_no", epsilon="0.2", delta="0.00000095").release()


def test_aggregates_of_one_value_are_one_measure_and_cost_what_one_costs(tmp_path: Path) -> None:
    """COUNT, SUM, AVG and VARIANCE of a column come from one vector: nothing is split among them."""
    db = opened(tmp_path, [])
    few = db.sql("SELECT AVG(age) FROM visits", epsilon="0.1")
    many = db.sql("SELECT COUNT(*), COUNT(age), SUM(age), AVG(age) FROM visits", epsilon="0.1")
    most = db.sql("SELECT VARIANCE(age), STDDEV(age), AVG(age), COUNT(age) FROM visits", epsilon="0.1")
    for question in (few, many, most):
        assert len(question.plan.measures) == 1
        (step,) = question.query.steps
        assert step.bound().epsilon == Fraction(1, 10)
        assert step.distances.presence.l1 == question.plan.measures[0].cap


def test_what_only_having_looks_at_is_measured_as_well_as_what_is_shown(tmp_path: Path) -> None:
    db = opened(tmp_path, [])
    shown, hidden = (
        db.sql(f"SELECT ward, SUM(cost) AS s{more}", epsilon=1)
        for more in (
            ", COUNT(DISTINCT pid) AS n FROM visits GROUP BY ward",
            " FROM visits GROUP BY ward HAVING COUNT(DISTINCT pid) > 5",
        )
    )
    assert shown.plan.measures == hidden.plan.measures
    for alike, less in zip(shown.query.steps, hidden.query.steps, strict=True):
        open_, closed = alike.bound().epsilon, less.bound().epsilon
        assert open_ is not None
        assert closed is not None
        assert closed >= open_ / 2


# Private groups --------------------------------------------------------------------------------------

BY_NOTE = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"


def noted(*counts: tuple[str, int], rows: int = 1) -> list[Row]:
    """Rows in which so many people have each note."""
    people = [note for note, count in counts for _ in range(count)]
    return [
        (person, 40, 1.0, 36.6, "1.00", 7, "A", 1, "2024-01-01", None, True, note)
        for person, note in enumerate(people)
        for _ in range(rows)
    ]


@pytest.mark.parametrize(
    ("budget", "price"), [('epsilon = "1"', {"epsilon": "0.5"}), ('rho = "1"', {"rho": "0.5"})]
)
def test_private_groups_without_a_delta_are_refused_for_free(
    tmp_path: Path, budget: str, price: dict[str, str]
) -> None:
    db = sf.open(counting(tmp_path, budget), coins=NoCoins())
    with pytest.raises(
        sf.QueryRefused, match=r"the values of note are private.*(let the owner give|counts epsilon)"
    ):
        db.sql(BY_NOTE, **price)
    db = sf.open(counting(tmp_path / "with", 'epsilon = "1"\ndelta = "1e-6"'), coins=NoCoins())
    with pytest.raises(sf.QueryRefused, match=r'the values of note are private.*delta="1e-6"'):
        db.sql(BY_NOTE, epsilon="0.5")
    assert db.budget.spent.amount == 0


def test_a_group_that_few_people_have_is_hidden_and_one_that_many_have_is_shown(tmp_path: Path) -> None:
    """By chance otherwise once in 10^9 times: delta is the chance that one person alone is shown."""
    rows = [*noted(("common", 3000), ("also\nO'Brien", 2000)), *noted(("ALONE", 1), rows=50)]
    rows = [(i, *row[1:]) for i, row in enumerate(rows[:5000])] + [(-1, *row[1:]) for row in rows[5000:]]
    db = sf.open(counting(tmp_path, 'epsilon = "10"\ndelta = "1e-6"', rows))
    question = db.sql(BY_NOTE, epsilon="1", delta="1e-9")
    release = question.release()
    assert {row["note"] for row in release.rows()} == {"common", "also\nO'Brien"}
    for row in release.rows():
        assert row["n"] == pytest.approx({"common": 3000}.get(row["note"], 2000), abs=300)
    assert "ALONE" not in repr(release) + json.dumps(release.as_dict())
    assert (tmp_path / "hospital.ledger").read_bytes().find(b"ALONE") == -1
    assert release.cost == Guarantee.read(epsilon="1", delta="1e-9") == db.budget.spent
    again = sf.open(tmp_path / "hospital.toml").sql(BY_NOTE, epsilon="1", delta="1e-9").release()
    assert again.cost.amount == 0
    assert again.rows() == release.rows()
    assert "groups of few people are not shown" in repr(release)


def test_no_group_and_no_row_is_an_empty_table(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "10"\ndelta = "1e-6"', []))
    for sql in (BY_NOTE, BY_NOTE + " HAVING COUNT(*) > 3 ORDER BY n DESC LIMIT 2"):
        release = db.sql(sql, epsilon="1", delta="1e-9").release()
        assert release.rows() == []
        assert release.df().empty
        assert "note" in repr(release)


# Batches ---------------------------------------------------------------------------------------------


def test_a_batch_in_epsilon_costs_the_sum_and_is_one_charge(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "1"'))
    batch = db.batch(counts(db, 20))
    assert batch.price == batch.apart == Guarantee.parse("0.2")
    assert "cost epsilon 0.2 together when released" in repr(batch)
    assert db.budget.spent.amount == 0  # looking is free
    releases = batch.release()
    assert len(releases) == 20
    assert releases.cost == db.budget.spent == Guarantee.parse("0.2")
    (entry,) = db.budget.history
    assert entry.question.startswith("batch of 20: SELECT COUNT(*) AS n FROM visits WHERE age <> 0; ")
    assert {release.receipt.number for release in releases} == {entry.number}
    assert repr(releases).count("95% interval") == 20


def test_a_batch_released_twice_is_free_and_the_same(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    db, later = sf.open(path), sf.open(path)
    first = db.batch(counts(db, 5)).release()
    again = later.batch(counts(later, 5)).release()
    assert again.cost.amount == 0
    assert [release.drawn for release in again] == [release.drawn for release in first]
    assert len(later.budget.history) == 1
    other = later.batch(counts(later, 6)).release()  # another list is another batch
    assert other.cost == Guarantee.parse("0.06")


def test_each_release_of_a_batch_is_about_its_own_question(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "1000"'))
    questions = [
        db.sql("SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward", epsilon=200),
        db.sql("SELECT SUM(age) AS years FROM visits", epsilon=200),
        db.sql("SELECT COUNT(*) AS n FROM visits WHERE age IN (3)", epsilon=200),
    ]
    exact = [answer(question) for question in questions]
    releases = db.batch(questions).release()
    for question, release, true in zip(questions, releases, exact, strict=True):
        assert release.columns == [
            name
            for output in question.plan.outputs
            for name in (
                [output.name]
                if output.name == "ward"
                else [output.name, f"{output.name}_low", f"{output.name}_high"]
            )
        ]
        for column, drawn in zip(true, release.drawn, strict=True):
            most = max(half(step, Fraction(1, 10**12)) for step in question.query.steps)
            assert all(abs(int(y) - x) <= most for x, y in zip(column, drawn, strict=True))
    assert releases[2].rows()[0]["n"] == pytest.approx(0, abs=1)


def test_what_a_batch_asks_twice_is_run_once_and_drawn_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = opened(tmp_path, ROWS)
    runs: list[Compiled] = []
    run = DuckDB.run

    def counted(self: DuckDB, compiled: Compiled, **more: Any) -> object:
        runs.append(compiled)
        return run(self, compiled, **more)

    monkeypatch.setattr(DuckDB, "run", counted)
    count, total = (
        db.sql(f"SELECT {what} FROM visits", epsilon="0.001") for what in ("COUNT(*)", "SUM(age)")
    )
    releases = db.batch([count, total, count, count]).release()
    assert len(runs) == 2
    assert len({releases[i].rows()[0]["count"] for i in (0, 2, 3)}) > 1  # all equal once in 10^9 times


@pytest.mark.slow
def test_with_a_delta_a_batch_costs_less_than_its_sum(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "1"\ndelta = "1e-6"'))
    questions = counts(db, 60)
    batch, plain = db.batch(questions, delta="1e-7"), db.batch(questions)
    assert plain.price == plain.apart == Guarantee.parse("0.6")
    assert batch.price.delta == Fraction(1, 10**7)
    assert batch.price.amount < Fraction(6, 10) * Fraction(2, 3)
    assert batch.release().cost == batch.price == db.budget.spent
    assert batch.release().cost.amount == 0
    assert len(db.budget.history) == 1
    db.ledger.verify()


def test_a_batch_of_nothing_or_of_two_databases_is_refused(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    db, other = sf.open(path), sf.open(path)
    with pytest.raises(sf.InvalidParameter, match="at least one"):
        db.batch([])
    with pytest.raises(sf.InvalidParameter, match="of one database together"):
        db.batch([*counts(db, 1), *counts(other, 1)])
    with pytest.raises(sf.InvalidParameter, match="this budget has no delta for questions"):
        db.batch(counts(db, 2), delta="1e-7")


def test_a_batch_over_budget_draws_nothing(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "0.1"'), coins=NoCoins())
    with pytest.raises(sf.BudgetExceeded, match=r"asks for epsilon 0\.2.*only epsilon 0\.1 left"):
        db.batch(counts(db, 20)).release()
    assert db.budget.spent.amount == 0


# The budget, and shares of it ------------------------------------------------------------------------


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.moment = datetime.datetime(2026, 1, 15, tzinfo=datetime.UTC)

    def __call__(self) -> float:
        return self.moment.timestamp()


def test_the_budget_is_told_in_words_csv_json_and_a_picture(tmp_path: Path) -> None:
    path, clock = counting(tmp_path, 'epsilon = "1"'), Clock()
    tricky = "SELECT COUNT(*) AS \"a<b & c\" FROM visits WHERE ward = 'O''Brien, \"x\"'"
    sf.open(path, analyst="ana", clock=clock).sql(tricky, epsilon="0.25").release()
    clock.moment += datetime.timedelta(days=1)
    sf.open(path, analyst="bob", clock=clock).sql("SELECT SUM(age) FROM visits", epsilon="0.5").release()
    sf.open(path, clock=clock).sql("SELECT COUNT(*) FROM visits", epsilon="0.05").release()
    budget = sf.open(path, clock=clock).budget
    assert budget.by_analyst() == {
        "ana": Guarantee.parse("0.25"),
        "bob": Guarantee.parse("0.5"),
        "(no name)": Guarantee.parse("0.05"),
    }
    assert budget.by_day() == {"2026-01-15": Guarantee.parse("0.25"), "2026-01-16": Guarantee.parse("0.55")}
    assert sum(each.amount for each in budget.by_day().values()) == budget.spent.amount
    for said in (
        "hospital: epsilon 0.8 of 1 spent, 0.2 left",
        "COUNT(*) of visits within",
        "2026-01-15 00:00",
        tricky,
        f"head {budget.head[:18]}",
    ):
        assert said in repr(budget)
    rows = list(csv.DictReader(io.StringIO(budget.csv())))
    assert [row["epsilon"] for row in rows] == ["0.25", "0.5", "0.05"]
    assert [row["analyst"] for row in rows] == ["ana", "bob", ""]
    assert [row["spent"] for row in rows] == ["0.25", "0.75", "0.8"]
    assert rows[0]["question"] == tricky
    assert {row["released"] for row in rows} == {"True"}
    facts = json.loads(json.dumps(budget.as_dict()))
    assert (facts["total"], facts["spent"], facts["left"]) == ("1", "0.8", "0.2")
    assert facts["by_analyst"] == {"ana": "0.25", "bob": "0.5", "(no name)": "0.05"}
    assert [each["receipt"] for each in facts["history"]] == [int(row["receipt"]) for row in rows]
    assert sf.open(path).ledger.verify(facts["head"]) >= 8


def heights(picture: str) -> list[float]:
    """How high the line of a picture stands at each of its points."""
    line = ElementTree.fromstring(picture).find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    return [float(point.partition(",")[2]) for point in line.attrib["points"].split()]


def test_the_picture_of_a_budget_is_svg_that_falls_from_the_total_to_what_is_left(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    text = path.read_text(encoding="utf-8").replace('name = "hospital"', 'name = "<R&D>"')
    path.write_text(text, encoding="utf-8")
    db = sf.open(path)
    empty = heights(db.budget.picture())
    assert len(set(empty)) == 1  # nothing spent: a level line
    db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").release()
    db.sql("SELECT SUM(age) FROM visits", epsilon="0.5").release()
    points = heights(db.budget.picture())
    assert points[0] == empty[0]
    assert points == sorted(points)  # down the page
    low, high = points[-1], points[0]
    assert set(points) == {high, (low + high) / 2, low}
    assert "&lt;R&amp;D&gt;: epsilon 0 of 1 left" in db.budget.picture()


def test_how_much_epsilon_a_rho_came_to_is_never_below_the_conversion(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'rho = "0.5"'))
    assert db.budget.epsilon_so_far(DELTA) == 0
    db.sql("SELECT COUNT(*) FROM visits", rho="0.25").release()
    so_far = db.budget.epsilon_so_far(DELTA)
    assert so_far >= zcdp([Fraction(1, 4)], delta=DELTA)
    assert so_far < 10


def shared(path: Path, **shares: str) -> sf.Database:
    db = sf.open(path)
    for name, epsilon in shares.items():
        db.ledger.share(Share(name, Guarantee.parse(epsilon)))
    return db


def test_an_analyst_spends_her_share_and_no_more(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    shared(path, ana="0.3", bob="0.5")
    ana = sf.open(path, analyst="ana")
    ana.sql("SELECT COUNT(*) FROM visits", epsilon="0.2").release()
    question = ana.sql("SELECT SUM(age) FROM visits", epsilon="0.2")
    with pytest.raises(sf.BudgetExceeded, match=r"the share of 'ana' has only epsilon 0\.1 left"):
        question.release()
    assert ana.budget.spent == Guarantee.parse("0.2")
    bob = sf.open(path, analyst="bob")
    assert bob.sql("SELECT COUNT(*) FROM visits", epsilon="0.2").release().cost.amount == 0  # hers is his
    assert bob.ledger.left_for("bob") == Guarantee.parse("0.5")
    with pytest.raises(sf.BudgetExceeded, match=r"no share.*sfumato grant"):
        sf.open(path, analyst="eve").sql("SELECT SUM(age) FROM visits", epsilon="0.2").release()
    assert re.search(r"ana +0\.2 +0\.3 +0\.1 +never", repr(ana.budget))
    assert re.search(r"bob +0 +0\.5 +0\.5 +never", repr(ana.budget))


def test_a_group_shares_one_allowance(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    sf.open(path).ledger.share(Share("lab", Guarantee.parse("0.3"), members=("ana", "bob")))
    sf.open(path, analyst="ana").sql("SELECT COUNT(*) FROM visits", epsilon="0.2").release()
    bob = sf.open(path, analyst="bob")
    with pytest.raises(sf.BudgetExceeded, match=r"share of 'lab' has only epsilon 0\.1"):
        bob.sql("SELECT SUM(age) FROM visits", epsilon="0.2").release()
    bob.sql("SELECT SUM(age) FROM visits", epsilon="0.1").release()
    assert bob.budget.by_analyst() == {"ana": Guarantee.parse("0.2"), "bob": Guarantee.parse("0.1")}
    assert re.search(r"lab +0\.3 +0\.3 +0 +never", repr(bob.budget))
    assert re.search(r"- ana +0\.2 *\n +- bob +0\.1 *\n", repr(bob.budget))


def test_a_share_is_filled_up_out_of_a_total_that_is_not(tmp_path: Path) -> None:
    path, clock = counting(tmp_path, 'epsilon = "0.5"'), Clock()
    sf.open(path, clock=clock).ledger.share(Share("ana", Guarantee.parse("0.2"), every="month"))
    ana = sf.open(path, analyst="ana", clock=clock)
    first, second, third = counts(ana, 3, epsilon="0.2")
    first.release()
    with pytest.raises(sf.BudgetExceeded, match="wait until 2026-02-01"):
        second.release()
    clock.moment = datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)
    second.release()
    clock.moment = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    with pytest.raises(sf.BudgetExceeded, match=r"'hospital' has only epsilon 0\.1 left"):
        third.release()  # a new month, the same privacy
    assert ana.budget.spent == Guarantee.parse("0.4")
    assert ana.ledger.left_for("ana") == Guarantee.parse("0.1")


@pytest.mark.slow
def test_colluding_analysts_never_pass_the_total(tmp_path: Path) -> None:
    """Ten shares of 0.3 out of 1: together they get 1, however they take turns."""
    path = counting(tmp_path, 'epsilon = "1"')
    names = [f"analyst{i}" for i in range(10)]
    shared(path, **dict.fromkeys(names, "0.3"))
    rng, granted, refused = random.Random(1), 0, 0
    databases = [sf.open(path, analyst=name) for name in names]
    for turn in range(60):
        db = rng.choice(databases)
        question = db.sql(f"SELECT COUNT(*) FROM visits WHERE age <> {turn}", epsilon="0.07")
        try:
            granted += question.release().cost == Guarantee.parse("0.07")
        except sf.BudgetExceeded:
            refused += 1
        assert db.budget.spent.amount <= 1
    assert (granted, refused) == (14, 46)
    budget = databases[0].budget
    assert budget.spent == Guarantee.parse("0.98")
    assert all(spent.amount <= Fraction(3, 10) for spent in budget.by_analyst().values())
    assert sum(spent.amount for spent in budget.by_analyst().values()) == budget.spent.amount


# A ledger that is not what it was --------------------------------------------------------------------


def test_a_deleted_ledger_is_refused_and_accepted_only_with_what_was_spent(tmp_path: Path) -> None:
    path = counting(tmp_path, 'epsilon = "1"')
    db = sf.open(path)
    db.sql("SELECT COUNT(*) FROM visits", epsilon="0.4").release()
    del db
    (tmp_path / "hospital.ledger").unlink()
    for _ in range(2):  # refusing makes no new one
        with pytest.raises(sf.LedgerError, match=r"records one that had spent epsilon 0\.4.*--accept"):
            sf.open(path)
    db = sf.open(path, accept=True)
    assert db.budget.left == Guarantee.parse("0.6")
    assert sf.open(path).sql("SELECT COUNT(*) FROM visits", epsilon="0.4").release().cost.amount > 0


def test_an_older_copy_of_the_whole_folder_is_refused(tmp_path: Path) -> None:
    path = counting(tmp_path / "a", 'epsilon = "1"')
    sf.open(path).sql("SELECT COUNT(*) FROM visits", epsilon="0.1").release()
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    sf.open(path).sql("SELECT SUM(age) FROM visits", epsilon="0.4").release()
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "backup", tmp_path / "a")
    with pytest.raises(sf.LedgerError, match="is older than the state that"):
        sf.open(path)
    db = sf.open(path, accept=True)
    assert db.budget.spent == Guarantee.parse("0.5")
    assert db.sql("SELECT COUNT(*) FROM visits", epsilon="0.1").release().cost.amount == 0  # still stored


def test_a_batch_takes_the_delta_that_its_private_groups_need(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "10"\ndelta = "1e-3"'))
    asked = [db.sql(BY_NOTE, epsilon="1", delta="1e-6"), db.sql("SELECT COUNT(*) FROM visits", epsilon="1")]
    batch = db.batch(asked)
    assert batch.price == Guarantee.read(epsilon="2", delta="1e-6")
    assert len(batch.release()) == 2
    assert db.batch(asked).release().cost.amount == 0  # asked before
    with pytest.raises(sf.InvalidParameter, match="private groups in the questions need"):
        db.batch(asked, delta="1e-9")


def test_a_batch_of_gaussian_questions_takes_the_delta_of_each(tmp_path: Path) -> None:
    db = sf.open(counting(tmp_path, 'epsilon = "10"\ndelta = "1e-3"'))
    many = ", ".join(f"COUNT(*) FILTER (WHERE age > {n})" for n in range(30))
    asked = [db.sql(f"SELECT {many} FROM visits WHERE cost > {n}", epsilon="1", delta="1e-6") for n in (1, 2)]
    assert all(question.query.slack for question in asked)
    batch = db.batch(asked)
    assert batch.price.delta == Fraction(2, 10**6)
    assert batch.price.amount <= batch.apart.amount
    assert batch.release().cost == batch.price
    assert db.batch(asked).release().cost.amount == 0


# What to make of a release ------------------------------------------------------------------------------


def test_explain_says_where_no_mechanism_is_better(tmp_path: Path) -> None:
    rows: list[Row] = [(1, 30, 1.0, 1.0, 1, 1, "A", 1, None, None, True, "x")]
    by_row = opened(tmp_path / "row", rows, "row")
    told = repr(by_row.sql("SELECT COUNT(*) FROM visits", epsilon=1).explain())
    assert "no mechanism at this price that uses this number alone is" in " ".join(told.split())
    for sql in (  # of several numbers, one that looks at all of them may serve somebody better
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)",
        "SELECT COUNT(*), COUNT(DISTINCT ward) FROM visits",
    ):
        assert "better for anybody" not in " ".join(repr(by_row.sql(sql, epsilon=1).explain()).split())
    by_person = opened(tmp_path / "person", rows)
    people = repr(by_person.sql("SELECT COUNT(DISTINCT pid) FROM visits", epsilon=1).explain())
    assert "no mechanism at this price that uses this number alone is" in " ".join(people.split())
    for sql in ("SELECT COUNT(*) FROM visits", "SELECT SUM(age) FROM visits"):  # a person moves it further
        assert "better for anybody" not in " ".join(repr(by_person.sql(sql, epsilon=1).explain()).split())


def test_whoever_states_a_belief_and_a_gain_gets_the_best_guess_for_free(tmp_path: Path) -> None:
    rows: list[Row] = [(i, 30, 1.0, 1.0, 1, 1, "AB"[i % 2], 1, None, None, True, "x") for i in range(20)]
    db = opened(tmp_path, rows, "row")
    release = db.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1).release()
    spent = db.ledger.spent
    sure = release.guesses("n", {n: 10**9 if n == 10 else 1 for n in range(21)})
    assert [row["guess"] for row in sure] == [10] * len(sure)
    assert {row["ward"] for row in sure} == {row["ward"] for row in release.rows()}
    flat = release.guesses("n", dict.fromkeys(range(21), 1), identity(range(21)))
    for row in flat:
        assert row["guess"] == min(max(row["n"], 0), 20)  # with no belief the output itself, within the range
        assert 0 < row["gain"] < 1
    assert db.ledger.spent == spent
    with pytest.raises(InvalidParameter, match="name one of: ward, n"):
        release.guesses("m", {1: 1})
    with pytest.raises(InvalidParameter, match="a number with noise of its own"):
        release.guesses("ward", {1: 1})


def test_a_count_in_parts_of_a_row_can_be_guessed_too(tmp_path: Path) -> None:
    rows: list[Row] = [
        (i, 30, 1.0, 1.0, 1, 1, "A", 1, None, None, True, "x") for i in range(5) for _ in range(9)
    ]
    release = opened(tmp_path, rows).sql("SELECT COUNT(*) AS n FROM visits", epsilon=100).release()
    assert release.guesses("n", dict.fromkeys(range(60), 1))[0]["guess"] == 20  # five people, four rows each


def test_guesses_show_the_rows_that_the_release_shows(tmp_path: Path) -> None:
    rows: list[Row] = [(i, 30, 1.0, 1.0, 1, 1, "AAB"[i % 3], 1, None, None, True, "x") for i in range(30)]
    db = opened(tmp_path, rows, "row")
    sql = "SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 1"
    release = db.sql(sql, epsilon=5).release()
    (guessed,) = release.guesses("n", {0: 1, 20: 10**400, 21: 1})
    assert guessed["w"] == release.rows()[0]["w"]
    assert guessed["guess"] == 20
    named = db.sql("SELECT COUNT(*) AS guess FROM visits", epsilon=5).release()
    with pytest.raises(InvalidParameter, match="this name is reserved"):
        named.guesses("guess", {1: 1})
    with pytest.raises(InvalidParameter, match="whole number"):
        release.guesses("n", {"x": 1})  # type: ignore[dict-item]
