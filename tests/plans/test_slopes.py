"""In the distance of a column: what one changed value really moves, against what the plan claims."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.support import answer

import sfumato as sf
from sfumato.queries.sensitivity import Watched, derive
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database
    from sfumato.mechanisms import Distance

POLICY = """
[source]
duckdb = "cafe.duckdb"
[budget]
epsilon = "1000000"
least = "0.001"
[tables.visits]
unit = {unit}
[tables.visits.columns]
person = "integer"
minutes = {{ type = "integer", low = -5, high = 60 }}
spent = {{ type = "number", low = 0, high = 50, grid = 0.25 }}
place = {{ type = "text", keys = ["A", "B"] }}
[[promise]]
secret = "visits.minutes"
within = 2
advantage = "0.9"
metric = "manhattan"
"""
UNITS = {"row": '"row"', "person": '"person"\nrows_per_person = 1'}

# (question, whether it has a slope, or moves not at all, or is charged like a replaced person)
QUESTIONS = {
    "SELECT COUNT(*) FROM visits": "still",
    "SELECT COUNT(minutes) FROM visits": "still",
    "SELECT SUM(spent) FROM visits": "still",
    "SELECT place, COUNT(*) FROM visits GROUP BY place": "still",
    "SELECT SUM(minutes) FROM visits": "sloped",
    "SELECT SUM(minutes) FROM visits WHERE spent > 10": "sloped",
    "SELECT place, SUM(minutes) FROM visits GROUP BY place": "sloped",
    "SELECT SUM(minutes), COUNT(*) FROM visits": "sloped",
    "SELECT place, VARIANCE(minutes), AVG(minutes) FROM visits GROUP BY place": "sloped",
    "SELECT AVG(minutes) FROM visits": "sloped",
    "SELECT AVG(minutes), COUNT(*) FROM visits WHERE place = 'A'": "sloped",
    "SELECT place, AVG(minutes) FROM visits GROUP BY place": "sloped",
    "SELECT VARIANCE(minutes) FROM visits": "sloped",
    "SELECT COUNT(*) FROM visits WHERE minutes > 30": "replaced",
    "SELECT minutes > 30 AS late, COUNT(*) FROM visits GROUP BY minutes > 30": "replaced",
    "SELECT SUM(2 * minutes) FROM visits": "replaced",
    "SELECT SUM(spent) FROM visits WHERE minutes < 10": "replaced",
    "SELECT MEDIAN(minutes) FROM visits": "replaced",
    "SELECT COUNT(DISTINCT minutes) FROM visits": "replaced",
    "SELECT SUM(n) FROM (SELECT minutes AS n FROM visits)": "sloped",
    "SELECT AVG(minutes) FILTER (WHERE minutes > 3) FROM visits": "replaced",
}
Row = tuple[object, ...]


def opened(folder: Path, unit: str, rows: list[Row]) -> Database:
    folder.mkdir()
    with duckdb.connect(str(folder / "cafe.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits (person INTEGER, minutes INTEGER, spent DOUBLE, place VARCHAR)"
        )
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    policy = folder / "cafe.toml"
    policy.write_text(POLICY.format(unit=UNITS[unit]), encoding="utf-8")
    return sf.open(policy)


def rows_of(dice: random.Random) -> list[Row]:
    """Some people, of whom some have more rows than was declared, and values beyond their bounds."""
    found: list[Row] = []
    for person in range(12):
        for _ in range(dice.choice((1, 1, 1, 2, 7))):
            minutes = dice.choice((None, -5, 60, 61, -40, dice.randint(-5, 60)))
            found.append((person, minutes, dice.choice((None, dice.uniform(-5, 60))), dice.choice("ABC")))
    return found


def moved(before: tuple[tuple[int, ...], ...], after: tuple[tuple[int, ...], ...], i: int) -> list[int]:
    return [b - a for a, b in zip(before[i], after[i], strict=True)]


def within(move: list[int], claim: Distance, part: Fraction) -> bool:
    sizes = [abs(each) for each in move]
    assert claim.l1 is not None
    assert claim.l2_squared is not None
    assert claim.linf is not None
    assert claim.l0 is not None
    return (
        sum(sizes) <= claim.l1 * part
        and max(sizes) <= claim.linf * part
        and sum(each**2 for each in sizes) <= claim.l2_squared * part**2
        and sum(each > 0 for each in sizes) <= claim.l0
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.slow
def test_one_changed_value_moves_answers_in_proportion(tmp_path: Path, unit: str) -> None:
    dice = random.Random(17)
    attained: set[str] = set()
    for turn in range(6):
        rows = rows_of(dice)
        at = dice.choice([n for n, row in enumerate(rows) if row[1] is not None])
        old = rows[at][1]
        assert isinstance(old, int)
        new = dice.choice((-5, 60, min(max(old, -5), 60) + 1, dice.randint(-5, 60)))
        changed = [*rows[:at], (rows[at][0], new, *rows[at][2:]), *rows[at + 1 :]]
        one, other = (opened(tmp_path / f"{turn}{k}", unit, r) for k, r in enumerate((rows, changed)))
        column = one.policy.tables[0].column("minutes")
        assert column is not None
        watched = Watched("cafe", "visits", column)
        assert watched.steps == 65
        part = Fraction(abs(old - new), 65)
        for sql, kind in QUESTIONS.items():
            question, twin = one.sql(sql, epsilon=1), other.sql(sql, epsilon=1)
            before, after = answer(question), answer(twin)
            for i, derived in enumerate(derive(question.plan, (watched,))):
                claims = dict(derived.distances.promises)
                assert (kind == "replaced") >= (watched.name not in claims), sql
                if watched.name not in claims:
                    continue
                move, claim = moved(before, after, i), claims[watched.name]
                assert within(move, claim, part), (sql, move, claim, part)
                if any(move) and sum(map(abs, move)) == (claim.l1 or 0) * part:
                    attained.add(sql)
    assert {"SELECT SUM(minutes) FROM visits", "SELECT AVG(minutes) FROM visits"} <= attained


def of_one(dice: random.Random, count: int) -> tuple[list[Row], list[Row], Fraction]:
    """People with so many rows, all alike or not; the values of one of them move, each by no more than the
    largest move."""
    rows: list[Row] = []
    for person in range(6):
        alike = dice.choice((None, dice.randint(-5, 60)))
        for _ in range(count if person == 3 else dice.choice((1, count))):
            minutes = dice.choice((dice.randint(-8, 63), 0)) if alike is None else alike
            rows.append((person, minutes, dice.uniform(0, 50), dice.choice("ABC" if count < 5 else "AB")))
    step = dice.choice((1, 1, 2, 7, 65)) * dice.choice((-1, 1))
    together = dice.choice((True, False))
    changed = [
        (
            row[0],
            int(str(row[1])) + (step if together else dice.randint(min(step, 0), max(step, 0))),
            *row[2:],
        )
        if row[0] == 3
        else row
        for row in rows
    ]
    moves = [abs(int(str(a[1])) - int(str(b[1]))) for a, b in zip(rows, changed, strict=True)]
    return rows, changed, Fraction(max(moves), 65)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.slow
def test_a_person_with_more_rows_than_one_moves_no_more(tmp_path: Path, count: int) -> None:
    """`rows_per_person = 1` is enforced: a value that stands in n rows moves no more than one that stands in
    one. Among them, equal rows, rows in several groups, and rows that move by different amounts."""
    dice = random.Random(count)
    attained: set[str] = set()
    for turn in range(6):
        rows, changed, part = of_one(dice, count)
        one, other = (opened(tmp_path / f"{turn}{k}", "person", r) for k, r in enumerate((rows, changed)))
        watched = one.judges[0].watched
        assert watched is not None
        for sql in QUESTIONS:
            question, twin = one.sql(sql, epsilon=1), other.sql(sql, epsilon=1)
            before, after = answer(question), answer(twin)
            for i, derived in enumerate(question.derivations):
                claims = dict(derived.distances.promises)
                if watched.name in claims:
                    move = moved(before, after, i)
                    assert within(move, claims[watched.name], part), (sql, move, claims, part)
                    if any(move) and sum(map(abs, move)) == (claims[watched.name].l1 or 0) * part:
                        attained.add(sql)
    assert {"SELECT SUM(minutes) FROM visits", "SELECT AVG(minutes) FROM visits"} <= attained


@pytest.mark.parametrize("unit", UNITS)
def test_which_questions_have_a_slope(tmp_path: Path, unit: str) -> None:
    database = opened(tmp_path / "one", unit, [(1, 2, 3.0, "A")])
    column = database.policy.tables[0].column("minutes")
    assert column is not None
    for sql, kind in QUESTIONS.items():
        plan = database.sql(sql, epsilon=1).plan
        claims = [dict(d.distances.promises) for d in derive(plan, (Watched("cafe", "visits", column),))]
        known = [claim.get(Watched("cafe", "visits", column).name) for claim in claims]
        if kind == "replaced":
            assert None in known, sql
        else:
            assert None not in known, sql
            assert any(each is not None and not each.is_zero for each in known) == (kind == "sloped"), sql
    # a person's sum is cut at its cap, and n rows move it n times: no slope, unless rows are scaled
    plain = parse("SELECT SUM(minutes) FROM visits", database.policy)
    claims = [dict(each.distances.promises) for each in derive(plain, (Watched("cafe", "visits", column),))]
    assert all(bool(claim) == (unit == "row") for claim in claims)


def test_a_table_that_is_not_read_is_not_moved(tmp_path: Path) -> None:
    database = opened(tmp_path / "one", "row", [(1, 2, 3.0, "A")])
    column = database.policy.tables[0].column("minutes")
    assert column is not None
    (derived,) = derive(
        database.sql("SELECT COUNT(*) FROM visits", epsilon=1).plan, (Watched("cafe", "staff", column),)
    )
    assert dict(derived.distances.promises)[Watched("cafe", "staff", column).name].is_zero
