"""The path of a query: refused for free, charged before it runs, kept before it is shown."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.support import Row, answer, make, opened, wild_table

import sfumato as sf
from sfumato.curator.calibrate import calibrate
from sfumato.exact.coins import Coins
from sfumato.mechanisms import Distance, Distances, Geometric, Guarantee

if TYPE_CHECKING:
    from pathlib import Path

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
    db._coins = NoCoins()
    with pytest.raises(sf.QueryFailed) as caught:
        question.release()
    assert caught.value.__context__ is None
    assert "coin" not in str(caught.value)
    assert db.budget.spent == Guarantee.parse("0.3")
    assert "paid, not yet released" in repr(db.budget)
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


def distances(l1: int | Fraction) -> Distances:
    return Distances(Distance(l1=Fraction(l1)), Distance(l1=Fraction(2 * l1)))


def test_calibrate_splits_the_price_evenly_and_exactly() -> None:
    query = calibrate((distances(1), distances(10), distances(7)), Guarantee.parse("0.1"))
    assert [step.mechanism.noise for step in query.columns] == [
        Geometric(scale=Fraction(scale)).noise for scale in (30, 300, 210)
    ]
    assert query.guarantee() == Guarantee.parse("0.1")
    assert query.guarantee("value") == Guarantee.parse("0.2")


def test_an_awkward_scale_is_rounded_up_never_down() -> None:
    share = Guarantee.parse("0.123456789012")
    query = calibrate((distances(987_654_321_987_654_321),), share)
    (step,) = query.columns
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
    for level in ("1", "0", "0.2", "x", "nan", float("nan")):
        with pytest.raises(sf.InvalidParameter, match="level"):
            release.rows(level)


def test_rows_come_in_the_order_asked_for_and_limits_widen_the_intervals(tmp_path: Path) -> None:
    db = opened(tmp_path, ROWS)
    plain = db.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1).release()
    top = db.sql(
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2", epsilon=1
    ).release()
    assert top.cost.amount == 0
    expected = sorted(plain.rows(), key=lambda row: -row["n"])[:2]
    assert [row["ward"] for row in top.rows()] == [row["ward"] for row in expected]
    for picked, alone in zip(top.rows(), expected, strict=True):
        assert picked["n_high"] - picked["n_low"] > alone["n_high"] - alone["n_low"]
    by_key = db.sql(
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward DESC LIMIT 1", epsilon=1
    )
    assert by_key.release().rows() == [plain.rows()[-1]]
    assert "all rows together" in repr(top)
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
        "a unit's presence: epsilon 0.3; its values: epsilon 0.6",
        "each age is clamped to [0, 120]",
        "60, the middle of the bounds, is taken off each",
        "whoever has more than 4 rows is scaled down in proportion, to weigh 4 rows in all",
        "geometric noise, 95% of it within",
        "for a group of 1,000 rows",
        "No row was read and nothing was spent.",
    ):
        assert said in text
    db.sql(BY_WARD, epsilon="0.3").release()
    assert "free: a stored release answers it" in repr(db.sql(BY_WARD, epsilon="0.3").explain())


# The source ------------------------------------------------------------------------------------------


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
    connection = opened(tmp_path, [])._source._cursor()
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
    with pytest.raises(sf.SourceError, match="a view does not count"):
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
    with pytest.raises(sf.SourceError, match="must name a text column"):
        db._source.keys("wards", "nothing", "text")
    with pytest.raises(sf.SourceError, match="must name a integer column"):
        db._source.keys("wards", "ward", "integer")
