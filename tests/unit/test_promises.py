"""Promises: as they are declared, what they mean, and that no ledger lets anybody break them."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import sfumato as sf
from sfumato.budget.accounting.filters import losses, replaced
from sfumato.budget.ledger import record
from sfumato.curator.participant import Page
from sfumato.curator.promises import Judge, most, points
from sfumato.errors import InvalidParameter, LedgerError, PolicyError, PromiseBroken
from sfumato.mechanisms import Bound, Distance, Distances, Geometric, Guarantee, Step
from sfumato.queries import policy as policies
from sfumato.queries.sensitivity import Watched, derive
from sfumato.queries.statement import parse
from sfumato.utility import guessing

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

HEAD = """
name = "cafe"
[source]
duckdb = "cafe.duckdb"
[budget]
{budget}
[tables.visits]
unit = "person"
rows_per_person = 1
[tables.visits.columns]
person = "integer"
minutes = {{ type = "integer", low = 0, high = 60 }}
spent = {{ type = "number", low = 0, high = 50, grid = 0.25 }}
place = {{ type = "text", keys = ["A", "B", "C"] }}
born = {{ type = "date", low = 1920-01-01, high = 2019-12-31 }}
salary = "number"
vip = "boolean"
[tables.orders]
unit = "person"
rows_per_person = 9
[tables.orders.columns]
person = "integer"
price = {{ type = "integer", low = 0, high = 100 }}
[tables.census]
public = true
[tables.census.columns]
place = "text"
minutes = "integer"
"""
AGE = 'secret = "visits.minutes"\nwithin = 2\nadvantage = "0.10"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "cafe.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i::INTEGER AS person, (i * 7 % 61)::INTEGER AS minutes, "
            "(i % 40) / 2.0 AS spent, ['A', 'B', 'C'][1 + i % 3] AS place, DATE '1980-01-01' AS born, "
            "1000.0 AS salary, true AS vip FROM range(200) t(i)"
        )
        connection.execute("CREATE TABLE orders AS SELECT 1::INTEGER AS person, 5::INTEGER AS price")
        connection.execute(
            "CREATE TABLE census AS SELECT CASE WHEN i < 6 THEN 'A' WHEN i < 9 THEN 'B' ELSE 'C' END "
            "AS place, (10 * i)::INTEGER AS minutes FROM range(10) t(i)"
        )
    return tmp_path


def opened(
    folder: Path, *promises: str, budget: str = 'epsilon = "3"', name: str = "cafe", **more: Any
) -> Database:
    text = HEAD.format(budget=budget).replace('name = "cafe"', f'name = "{name}"')
    file = folder / f"{name}.toml"
    file.write_text(text + "".join(f"[[promise]]\n{each}\n" for each in promises), encoding="utf-8")
    return sf.open(file, **more)


# What is declared ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('secret = "visits.minutez"\nwithin = 2\nadvantage = "0.1"', "did you mean visits.minutes"),
        ('secret = 7\nadvantage = "0.1"', "no such column"),
        ('secret = "census.place"\nadvantage = "0.1"', "is public"),
        ('secret = "visits.person"\nwithin = 1\nadvantage = "0.1"', "identifies the person"),
        ('secret = "visits.minutes"\nwithin = 2', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = "1"', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = "nan"', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = inf', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 60\nadvantage = "0.1"', "every guess would be right"),
        ('secret = "visits.minutes"\nwithin = -1\nadvantage = "0.1"', "at least 0"),
        ('secret = "visits.minutes"\nwithin = "x"\nadvantage = "0.1"', "give a number"),
        ('secret = "visits.minutes"\nadvantage = "0.1"', "how close a correct guess"),
        ('secret = "visits.minutes"\nabove = 0\nadvantage = "0.1"', "on one side"),
        ('secret = "visits.minutes"\nabove = 5\nwithin = 2\nadvantage = "0.1"', "not both"),
        ('secret = "visits.place"\nwithin = 2\nadvantage = "0.1"', "right or wrong"),
        ('secret = "visits.born"\nabove = 5\nadvantage = "0.1"', "give a day"),
        ('secret = "visits.salary"\nwithin = 2\nadvantage = "0.1"', "has no bounds"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = "1e-400"', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = "1e-99999999999"', "strictly between 0 and 1"),
        ('secret = "visits.minutes"\nwithin = 2\nadvantage = "0.0000001"', "at least 0.000001"),
        ('secret = "visits.minutes"\nwithin = "1e-5000"\nadvantage = "0.1"', "give a number"),
        (AGE + "prior = { parts = [[5, 3, 1]] }", "from, to, weight"),
        (AGE + "prior = { parts = [[0.2, 0.7, 1]] }", "at least one value"),
        (AGE + "prior = { parts = [[0, 60, 5e-324]] }", "some are above 0"),
        (AGE + "prior = { parts = [[0, 60, 1e308]] }", "weights lie between 0"),
        (AGE + "prior = { normal = [30, 1e308] }", "moderate size"),
        (AGE + "prior = { normal = [30, 1e-300] }", "moderate size"),
        (
            'secret = "visits.place"\nadvantage = "0.1"\nprior = { weights = { A = 1e308, B = 1e308 } }',
            "weights lie between 0",
        ),
        (AGE + "joint = 0", "with several parts"),
        (
            'parts = [{ secret = "visits.vip" }, { secret = "visits.vip" }]\nadvantage = "0.1"',
            "a different column",
        ),
        (AGE + 'prior = "guess"', "write"),
        (AGE + "prior = { normal = [40, -1] }", "moderate size"),
        (AGE + "prior = { normal = [40] }", "does not fit"),
        (AGE + "prior = { parts = [[0, 99, 1]] }", "outside the bounds"),
        (AGE + "prior = { cdf = [[10, 0.5], [60, 0.9]] }", "last share of a cdf is 1"),
        (AGE + "prior = { cdf = [[10, 0.5], [5, 1]] }", "must not fall"),
        (AGE + 'prior = "visits.minutes"', "public table"),
        (AGE + 'prior = "census.place"', "column of type integer in a public table"),
        (
            'secret = "visits.place"\nadvantage = "0.1"\nprior = { weights = { A = 1, Z = 2 } }',
            "among the keys",
        ),
        ('secret = "visits.place"\nadvantage = "0.1"\nprior = { weights = { A = 0 } }', "above 0"),
        (AGE + 'metric = "euclid"', "write one of"),
        (AGE + 'metric = "manhattan"\nprior = "unknown"', "needs a prior"),
        (AGE + 'metric = "manhattan"\ngroup = 2', 'need metric = "record"'),
        (AGE + "group = 0", "1 or more"),
        (AGE + 'goal = "any"', "with several parts"),
        (AGE + "precision = 2", "no such key"),
        (AGE.replace("0.10", "0_1"), "strictly between 0 and 1"),
        (AGE.replace("0.10", "0.\u0661"), "strictly between 0 and 1"),
        (AGE.replace("within = 2", 'within = "1_0"'), "give a number"),
        (AGE + 'prior = { normal = [40, "1_0"] }', "does not fit"),
        (AGE + 'joint = "census"', "with several parts"),
        ('parts = [{ secret = "visits.place" }]\nadvantage = "0.1"', "two or more"),
        ('parts = [1, 2]\nadvantage = "0.1"', "secret"),
        ('secret = "orders.price"\nwithin = 2\nadvantage = "0.1"\nmetric = "max"', "several rows"),
        (
            'secret = "visits.place"\nadvantage = "0.1"\nmetric = "max"',
            "only a number column has its own metric",
        ),
    ],
)
def test_bad_promises_are_named_with_line_and_fix(folder: Path, body: str, told: str) -> None:
    with pytest.raises(PolicyError, match=f"(?i){re.escape(told)}") as error:
        opened(folder, AGE, body)
    assert "promise.1" in str(error.value)


def test_the_line_of_a_promise_is_found(folder: Path) -> None:
    with pytest.raises(PolicyError) as error:
        opened(folder, AGE, AGE + "group = 0")
    text = (folder / "cafe.toml").read_text(encoding="utf-8").splitlines()
    assert error.value.line is not None
    assert text[error.value.line - 1] == "group = 0"
    with pytest.raises(PolicyError, match="a section of its own"):
        policies.parse("promise = 3\n" + HEAD.format(budget='epsilon = "1"'), folder / "x.toml")
    with pytest.raises(PolicyError, match="only metric"):
        opened(folder, AGE + 'metric = "max"', budget='rho = "1"')


def test_what_cannot_be_believed_is_refused_when_opening_and_not_after_a_charge(folder: Path) -> None:
    with pytest.raises(PolicyError, match="no mass within the bounds"):
        opened(folder, AGE + "prior = { normal = [5000, 1] }")
    with duckdb.connect(str(folder / "cafe.duckdb")) as connection:
        connection.execute("DELETE FROM census")
    with pytest.raises(PolicyError, match="has no rows"):
        opened(folder, 'secret = "visits.place"\nadvantage = "0.1"\nprior = "census.place"')


# What it means -------------------------------------------------------------------------------------------


def judge(folder: Path, body: str, **more: Any) -> Judge:
    (found,) = opened(folder, body, **more).judges
    return found


def lost(fixed: float, sloped: float = 0.0, delta: float = 0.0) -> tuple[Fraction, Fraction, Fraction]:
    return Fraction(fixed), Fraction(sloped), Fraction(delta)


@pytest.mark.parametrize(
    ("body", "chances"),
    [
        (AGE, [n / 61 for n in range(1, 6)]),
        ('secret = "visits.place"\nadvantage = "0.1"', [1 / 3]),
        ('secret = "visits.vip"\nadvantage = "0.1"', [1 / 2]),
        ('secret = "visits.place"\nadvantage = "0.1"\nprior = { weights = { A = 3, B = 1 } }',
         [1 / 4, 3 / 4]),
        ('secret = "visits.place"\nadvantage = "0.1"\nprior = "census.place"', [0.1, 0.3, 0.6]),
        (AGE + 'prior = "census.minutes"', [0.1, 0.4]),
        ('secret = "visits.minutes"\nabove = 50\nadvantage = "0.1"', [11 / 61, 50 / 61]),
        ('secret = "visits.minutes"\nbelow = 50\nadvantage = "0.1"', [11 / 61, 50 / 61]),
        ('secret = "visits.minutes"\nwithin = 0\nadvantage = "0.1"\nprior = { cdf = [[0, 0.5], [60, 1]] }',
         [0.5 / 60, 0.5]),
        ('secret = "visits.minutes"\nwithin = 0\nadvantage = "0.1"\n'
         "prior = { parts = [[0, 1, 1], [2, 3, 3]] }", [1 / 8, 3 / 8]),
        ('secret = "visits.born"\nabove = 1970-01-01\nadvantage = "0.1"', [18262 / 36525, 18263 / 36525]),
        ('parts = [{ secret = "visits.place" }, { secret = "visits.vip" }]\nadvantage = "0.1"', [1 / 6]),
        ('parts = [{ secret = "visits.place" }, { secret = "visits.vip" }]\ngoal = "any"\nadvantage = "0.1"',
         [1 / 3, 1 / 2, 2 / 3]),
        ('secret = "visits.minutes"\nwithin = 0\nadvantage = "0.1"\nprior = { cdf = [[5.5, 0.5], [7, 1]] }',
         [1 / 12, 1 / 4]),
        ('secret = "visits.place"\nadvantage = "0.1"\nprior = { weights = { A = 1e12, B = 1e-6 } }',
         [1e-12, 1.0]),
        ('parts = [{ secret = "visits.place" }, { secret = "visits.minutes", within = 10 }]\n'
         'joint = "census"\nadvantage = "0.1"', [0.5]),
    ],
)  # fmt: skip
def test_the_chances_of_goals_before_any_release(folder: Path, body: str, chances: list[float]) -> None:
    found = judge(folder, body).chances
    if isinstance(found, float):
        assert found == pytest.approx(max(chances))  # no guess is likelier
        return
    assert found is not None
    assert sorted({round(each, 9) for each in chances}) == [round(each, 9) for each in found if each > 0]


def test_in_the_distance_of_records_it_is_the_simplified_bound(folder: Path) -> None:
    found = judge(folder, AGE)
    assert found.gained(lost(0)) == 0
    for size in (0.1, 1.0, 5.0):
        expected = max(guessing.simplified(p / 61, size) - p / 61 for p in (1, 2, 3, 4, 5))
        assert found.gained(lost(size)) == pytest.approx(expected, abs=1e-9)
    assert judge(folder, AGE + "group = 3").gained(lost(0.5)) == pytest.approx(
        found.gained(lost(1.5)), abs=1e-9
    )
    unknown = judge(folder, AGE + 'prior = "unknown"')
    assert unknown.gained(lost(1)) == pytest.approx(math.tanh(1 / 4), abs=1e-8)
    assert most(None, math.inf) == 1.0
    assert found.gained(lost(1e9)) <= 1.0


@pytest.mark.parametrize("fixed", [0.0, 0.4])
@pytest.mark.parametrize("goal", ["within = 2", "above = 40"])
def test_in_a_columns_own_distance_no_output_tells_more(folder: Path, goal: str, fixed: float) -> None:
    """Somebody's minutes by geometric noise, and beside it a bit by randomized response: all posteriors."""
    found = judge(folder, f'secret = "visits.minutes"\n{goal}\nadvantage = "0.1"\nmetric = "manhattan"')
    per_step = 0.05
    bound = found.gained(lost(fixed, per_step * 60))
    worst = 0.0
    for output in range(-5, 66):
        for flag in range(2):
            likely = [math.exp(-per_step * abs(x - output) - fixed * ((x >= 30) != flag)) for x in range(61)]
            total = sum(likely)
            for x in range(61):
                right = [
                    z for z in range(61) if (abs(z - x) <= 2 if "within" in goal else (z >= 40) == (x >= 40))
                ]
                worst = max(worst, sum(likely[z] for z in right) / total - len(right) / 61)
    assert worst <= bound + 1e-12
    assert fixed or worst == pytest.approx(bound, abs=1e-6)


def test_a_guess_need_not_be_a_value_and_a_grid_need_not_hold_the_bounds(folder: Path) -> None:
    """A sum of one value with geometric noise: the posterior of all that one guess can be right for."""
    text = HEAD.format(budget='epsilon = "9"').replace("low = 0, high = 60", "low = 0, high = 10")
    text = text.replace("low = 0, high = 50, grid = 0.25", "low = 0, high = 2.9, grid = 1")
    for column, size, epsilon in (("minutes", 11, 3.0), ("spent", 3, 2.0)):
        for metric in ("record", "manhattan"):
            file = folder / f"{column}{metric}.toml"
            promise = f'[[promise]]\nsecret = "visits.{column}"\nwithin = 0.5\nadvantage = "0.1"\n'
            file.write_text(f'{text}{promise}metric = "{metric}"\n', encoding="utf-8")
            (found,) = sf.open(file).judges
            bound = found.gained(lost(0, epsilon) if metric == "manhattan" else lost(epsilon))
            worst = 0.0
            for output in range(-3, size + 3):
                likely = [math.exp(-epsilon * abs(x - output) / (size - 1)) for x in range(size)]
                for first in range(-1, size):
                    right = [x for x in (first, first + 1) if 0 <= x < size]
                    gained = sum(likely[x] for x in right) / sum(likely) - len(right) / size
                    worst = max(worst, gained)
            assert worst <= bound + 1e-12
            assert metric == "record" or worst == pytest.approx(bound, abs=1e-6)


@pytest.mark.slow
def test_on_average_it_is_every_victims_own_goal_that_counts(folder: Path) -> None:
    found = judge(folder, AGE, budget='rho = "1"')
    assert found.on_average
    bound = Bound(rho=Fraction(0.1))
    plainly = max(guessing.on_average(p / 61, bound) - p / 61 for p in (1, 2, 3, 4, 5))
    assert found.gained(lost(0.1)) == pytest.approx(plainly, abs=1e-6)
    # a rare fact is limited, too: its owner may be the one who loses
    rare = 'secret = "visits.vip"\nadvantage = "0.1"\nprior = { weights = { true = 1, false = 99 } }'
    for budget in ('epsilon = "20"\ndelta = "1e-6"', 'rho = "20"'):
        (limit,) = opened(folder, rare, budget=budget, name=budget[:3]).ledger.promises()
        assert limit.corners[0][0] < 3 * 10**12
    assert "on average" in found.told()
    mixed = judge(folder, AGE, budget='epsilon = "1"\ndelta = "1e-6"', name="c")
    slight = mixed.gained(lost(1, 0, 1e-6))
    assert guessing.simplified(5 / 61, 1.0) - 5 / 61 < slight < guessing.simplified(5 / 61, 1.05) - 5 / 61


def test_the_corners_of_a_limit_are_kept_and_little_more_is_not(folder: Path) -> None:
    for body in (AGE, AGE + 'metric = "manhattan"'):
        found = judge(folder, body)
        limit = found.limit
        assert limit.corners
        for fixed, sloped, _ in limit.corners:
            if sloped < 10**15:
                assert found.gained((Fraction(fixed, 10**12), Fraction(sloped, 10**12), Fraction(0))) <= 0.1
        whole = Fraction(max(corner[0] for corner in limit.corners), 10**12)
        assert found.gained((whole, Fraction(0), Fraction(0))) <= 0.1
        assert found.gained((whole * Fraction(1001, 1000), Fraction(0), Fraction(0))) > 0.1
    assert limit.allows([0, 0, 0])
    assert not limit.allows([10**15, 0, 0])


def test_percentage_points_are_rounded_up() -> None:
    for share in (0.1, 0.0123, 0.5, 1e-7, 0.999):
        assert float(points(share).split()[0]) >= share * 100 * (1 - 1e-6)
        assert float(points(share).split()[0]) <= share * 100 * 1.11


# The ledger keeps it -------------------------------------------------------------------------------------


def test_a_question_that_would_break_a_promise_is_refused_and_nothing_is_spent(folder: Path) -> None:
    database = opened(folder, AGE)
    limit = Fraction(database.ledger.promises()[0].corners[0][0], 10**12)
    price = Fraction(
        math.floor(limit / 2 * 10**6), 10**6
    )  # an average costs twice as much if one is replaced
    question = database.sql("SELECT AVG(minutes) FROM visits", epsilon=price + Fraction(1, 10**6))
    assert "break a promise" in repr(question.explain())
    assert question.explain().breaks == question.database.judges[0].told()
    with pytest.raises(PromiseBroken, match="more than 10 percentage points surer of somebody's visits"):
        question.release()
    assert database.ledger.spent.amount == 0
    assert isinstance(PromiseBroken("a", "b", "c", "d"), sf.BudgetExceeded)
    release = database.sql("SELECT AVG(minutes) FROM visits", epsilon=price).release()
    assert "promised: 10 percentage points" in " ".join(repr(release).split())
    assert float(database.ledger.losses()[0]) == pytest.approx(float(limit), abs=1e-5)
    with pytest.raises(PromiseBroken):
        database.sql("SELECT COUNT(*) FROM visits", epsilon="0.001").release()
    assert (
        database.sql("SELECT AVG(minutes) FROM visits", epsilon=price).release().cost.amount == 0
    )  # a repeat
    assert database.ledger.verify() > 0


def test_in_its_own_distance_a_column_is_paid_for_by_how_it_is_used(folder: Path) -> None:
    database = opened(folder, AGE + 'metric = "manhattan"')
    for sql, paid in (
        ("SELECT COUNT(*) FROM visits", (0, 0)),  # it does not look at minutes
        ("SELECT SUM(minutes) FROM visits", (0, 0.2)),
        ("SELECT AVG(minutes) FROM visits", (0, 0.2)),
        ("SELECT COUNT(*) FROM visits WHERE minutes > 30", (0.1, 0)),
    ):
        before = database.ledger.losses(database.judges[0].relation)
        database.sql(sql, epsilon="0.1").release()
        after = database.ledger.losses(database.judges[0].relation)
        assert [float(b - a) for a, b in zip(before[:2], after[:2], strict=True)] == pytest.approx(paid), sql
    assert database.ledger.losses("value")[0] > database.ledger.losses(database.judges[0].relation)[0]


def test_every_database_and_every_process_on_a_ledger_is_bound(folder: Path) -> None:
    plain = opened(folder, name="other", budget='epsilon = "3"\nledger = "cafe.ledger"')
    early = opened(folder)  # before the promise was made
    promising = opened(folder, AGE)
    for database in (early, plain, promising):
        with pytest.raises(PromiseBroken):
            database.sql("SELECT AVG(minutes) FROM visits", epsilon="2").release()
    plain.sql("SELECT AVG(minutes) FROM visits", epsilon="0.4").release()
    assert promising.ledger.losses()[0] == pytest.approx(0.8)
    with pytest.raises(PromiseBroken):
        promising.sql("SELECT SUM(minutes) FROM visits", epsilon="0.2").release()
    asked = [promising.sql("SELECT COUNT(*) FROM visits", epsilon="0.1") for _ in range(3)]
    with pytest.raises(PromiseBroken):
        promising.batch(asked).release()
    kinds = [entry.kind for entry in promising.ledger.entries()]
    assert kinds.count("promise") == 1
    late = opened(folder)  # a promise that is taken out of the policy is kept until it is withdrawn
    assert late.ledger.promises() == late.said.dropped == promising.ledger.own
    late.said.withdraw()
    assert promising.ledger.promises() == late.said.dropped == ()
    kinds = [entry.kind for entry in promising.ledger.entries()]
    assert (kinds.count("promise"), kinds.count("withdrawn")) == (1, 1)


def test_what_was_charged_before_a_promise_counts_as_replaced(folder: Path) -> None:
    early = opened(folder)
    early.sql("SELECT SUM(minutes) FROM visits", epsilon="0.3").release()
    late = opened(folder, AGE + 'metric = "manhattan"')
    assert [float(each) for each in late.ledger.losses(late.judges[0].relation)[:2]] == pytest.approx(
        [0.3, 0.0]
    )


def test_a_public_table_that_moves_is_judged_anew(folder: Path) -> None:
    database = opened(folder, AGE + 'metric = "manhattan"\nprior = "census.minutes"')
    promise, policy = database.judges[0].promise, database.policy
    near, far = (
        Judge(promise, policy, lambda *_, values=values: [((each,), 1) for each in values])
        for values in ((28, 34), (0, 60))
    )
    assert near.chances == far.chances
    assert near.made != far.made
    assert near.limit.corners[0][1] > 5 * far.limit.corners[0][1]


def test_what_nothing_can_break_stops_nothing(folder: Path) -> None:
    easy = 'secret = "visits.minutes"\nabove = 30\nadvantage = "0.6"\nmetric = "manhattan"'
    database = opened(folder, easy)
    database.sql("SELECT COUNT(*) FROM visits WHERE minutes > 30", epsilon="2").release()
    assert database.standing.as_dicts()[0]["epsilon_replaced"] is None


def test_a_bell_without_bounds_lies_on_the_grid() -> None:
    bell = guessing.Belief.normal(40.5, 0.3)
    assert bell.low == math.floor(bell.low)
    assert float(bell.chances.max()) == pytest.approx(0.5, abs=1e-4)


def test_who_pays_for_caps_first_is_told_before_that_a_promise_would_break(folder: Path) -> None:
    database = opened(folder, AGE)
    question = database.sql("SELECT AVG(minutes) FROM visits", epsilon="2", tune="0.1")
    with pytest.raises(PromiseBroken):
        question.release()
    assert database.ledger.spent.amount == 0


def test_rows_that_reach_people_through_a_key_have_no_distance_of_their_own(folder: Path) -> None:
    text = HEAD.format(budget='epsilon = "3"').replace(
        '[tables.orders]\nunit = "person"\nrows_per_person = 9',
        '[tables.orders]\nunit = "person -> visits.person"\nrows_per_person = 1',
    )
    promise = '[[promise]]\nsecret = "orders.price"\nwithin = 2\nadvantage = "0.1"\nmetric = "max"\n'
    with pytest.raises(PolicyError, match="several people at once"):
        policies.parse(text + promise, folder / "x.toml")
    policy = policies.parse(text, folder / "x.toml")
    table = policy.table("orders")
    assert table is not None
    assert table.columns[1].name == "price"
    watched = Watched("cafe", "orders", table.columns[1])
    (derived,) = derive(parse("SELECT SUM(price) FROM orders", policy), (watched,))
    assert not derived.distances.promises


@pytest.mark.slow
def test_a_number_with_a_fine_grid_has_fewer_corners(folder: Path) -> None:
    text = HEAD.format(budget='epsilon = "9"').replace("grid = 0.25", 'grid = "1/1024"')
    promise = '[[promise]]\nsecret = "visits.spent"\nwithin = 1\nadvantage = "0.1"\nmetric = "max"\n'
    (folder / "fine.toml").write_text(text + promise, encoding="utf-8")
    (limit,) = sf.open(folder / "fine.toml").ledger.promises()
    assert len(limit.corners) == 3


def test_old_entries_and_losses_are_worked_out(folder: Path) -> None:
    database = opened(folder, AGE)
    database.sql("SELECT SUM(minutes) FROM visits", epsilon="0.1").release()
    (line,) = database.ledger.chain.lines("charge")
    body = json.loads(line.body)
    del body["lost"]
    old = line._replace(body=json.dumps(body))
    assert database.ledger.chain._losses_of(old) == json.loads(line.body)["lost"]
    assert (
        database.ledger.chain._losses_of(line._replace(kind="restored", body="{}"))["value"][0]
        == 2 * line.amount
    )
    assert replaced(5, 0, Guarantee.read(rho=1)) == [20, 0, 0]
    assert replaced(10**12, 1000, Guarantee.read(epsilon=1, delta="1e-6"))[2] >= 3718


def test_a_ledger_whose_losses_were_lowered_is_seen(folder: Path) -> None:
    database = opened(folder, AGE)
    database.sql("SELECT SUM(minutes) FROM visits", epsilon="0.1").release()
    book = database.ledger.chain
    (line,) = book.lines("charge")
    body = json.loads(line.body)
    body["lost"]["value"][0] -= 1
    with pytest.raises(LedgerError, match="its cost of replacing a person is lower than that of what"):
        book._check_losses(line._replace(body=json.dumps(body)), body["spend"])
    body["lost"]["value"][0] += 1
    book._check_losses(line._replace(body=json.dumps(body)), body["spend"])
    body["lost"]["another distance"] = [0, 0, 0]
    with pytest.raises(LedgerError, match="its cost of replacing a person is lower than that of what"):
        book._check_losses(line._replace(body=json.dumps(body)), body["spend"])
    with sqlite3.connect(folder / "cafe.ledger") as raw, pytest.raises(sqlite3.Error):
        raw.execute("UPDATE entries SET body = '{}'")


def test_losses_of_a_spend_by_relation() -> None:
    far, near, none = (Distance(l1=Fraction(n)) for n in (2, 1, 0))
    steps = (
        Step(Geometric(scale=Fraction(10)), Distances(near, far, (("t.x", near),))),
        Step(Geometric(scale=Fraction(10)), Distances(near, far, (("t.x", none),))),
        Step(Geometric(scale=Fraction(10)), Distances(near, far)),
    )
    found = losses(steps, Guarantee.read(epsilon=1).of(Fraction(0)))
    tenth = 10**11
    assert found == {"value": [6 * tenth, 0, 0], "t.x": [2 * tenth, tenth, 0]}
    assert record.read(record.write(steps)) == steps


# Suggestions and pages ------------------------------------------------------------------------------------


def test_a_suggestion_says_epsilon_sentence_and_picture(folder: Path) -> None:
    database = opened(folder)
    found = database.suggest_epsilon("visits.minutes", within=2, advantage="0.10")
    assert found.epsilon == pytest.approx(guessing.reach_for([n / 61 for n in range(1, 6)], 0.1), rel=1e-5)
    assert found.budget == found.epsilon / 2
    assert set(found.bounds.values()) == {found.epsilon}
    assert 'epsilon = "0.456"' in repr(found)
    assert "[[promise]]" in found.section()
    column = database.suggest_epsilon("visits.minutes", within=2, advantage="0.1", metric="manhattan")
    bounds = column.bounds
    assert bounds["simplified"] <= bounds["shell"] <= bounds["precise"] <= bounds["tight"]
    assert column.per_unit == pytest.approx(column.epsilon / 60)
    assert column.as_dict()["bounds"]["tight"] == bounds["tight"]
    for each in (found, column, database.suggest_epsilon("visits.place", advantage=0.1, prior="unknown")):
        assert each.picture().startswith("<svg")
        assert each.picture().count("<g ") == 3
        assert "NaN" not in each.picture()
        assert "nan" not in each.picture()
        assert each._repr_html_()
    free = database.suggest_epsilon(
        "visits.minutes", above=1, advantage="0.99", prior={"parts": [[0, 60, 1]]}
    )
    assert free.epsilon == math.inf
    assert free.as_dict()["epsilon"] is None
    assert "Whatever is released" in free.sentence
    again = opened(folder, found.section().removeprefix("[[promise]]\n"))
    assert again.suggestions[0].epsilon == found.epsilon


def test_what_a_budget_cannot_promise_cannot_be_suggested_either(folder: Path) -> None:
    database = opened(folder, budget='epsilon = "1"\ndelta = "1e-6"')
    for wanted, told in (({"metric": "max"}, "only metric"), ({"group": 2}, "without a delta")):
        with pytest.raises(InvalidParameter, match=told):
            database.suggest_epsilon("visits.minutes", within=2, advantage="0.1", **wanted)


def test_standing_says_which_promise_sets_the_budget(folder: Path) -> None:
    place = 'secret = "visits.place"\nadvantage = "0.3"'
    told = "\n".join(opened(folder, AGE, place).standing.text())
    assert "The promise about somebody's visits.minutes to within 2 is the tighter limit" in told
    easy = "\n".join(opened(folder, AGE, budget='epsilon = "0.4"', name="b").standing.text())
    assert "The budget is the tighter limit" in easy
    assert opened(folder, name="c").standing.text() == []
    (facts,) = opened(folder, AGE, name="d").standing.as_dicts()
    assert facts["promised"] == 0.1
    assert facts["so_far"] == 0


@pytest.mark.parametrize("budget", ['epsilon = "1"', 'epsilon = "1"\ndelta = "1e-6"', 'rho = "0.1"'])
def test_releases_and_pages_without_a_promise_say_what_is_gained(folder: Path, budget: str) -> None:
    database = opened(folder, budget=budget)
    price = {"rho": "0.01"} if "rho" in budget else {"epsilon": "0.1"}
    release = database.sql("SELECT COUNT(*) FROM visits", **price).release()
    (told,) = release.gains
    assert "any fact about one person" in told
    if budget == 'epsilon = "1"':
        assert points(math.tanh(0.1 / 4)) in told
    page = Page.of(database)
    assert "smoking" in page.text()
    assert page.html().startswith("<!doctype html>")
    assert "times as likely" in page.text()
    assert page.as_dict()["sections"]


def test_a_page_speaks_to_whoever_it_is_about(folder: Path) -> None:
    page = Page.of(opened(folder, AGE)).text()
    assert "surer of your visits.minutes to within 2" in " ".join(page.split())


def test_huge_prices_do_not_break_the_sentence_after_the_charge(folder: Path) -> None:
    database = opened(folder, budget='epsilon = "1000000"')
    release = database.sql("SELECT COUNT(*) FROM visits", epsilon="900000").release()
    assert "100 percentage points" in release.gains[0]


def test_a_sum_that_was_paid_before_its_column_was_promised_is_redeemed(folder: Path) -> None:
    sql = "SELECT SUM(minutes) FROM visits"
    early = opened(folder)
    question = early.sql(sql, epsilon="0.1")
    paid = question.bill().charged(early.ledger)
    late = opened(folder, AGE + 'metric = "manhattan"')
    assert late.sql(sql, epsilon="0.1").meaning != question.meaning
    release = late.sql(sql, epsilon="0.1").release()
    assert release.receipt.number == paid.number
    assert release.receipt.charged.amount == 0
    assert late.sql(sql, epsilon="0.1").release().drawn == release.drawn
