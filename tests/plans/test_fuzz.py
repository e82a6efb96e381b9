"""Random questions: accepted or refused, never a crash, and no neighbour moves one further than it claims.

The same fuzzer runs for hours at full size: `python -m tests.fuzz --seconds 36000 --full`. Here it is small,
and its seeds are fixed.
"""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.fuzz import (
    FEATURES,
    Fuzzer,
    Query,
    Tally,
    World,
    grammar,
    mangled,
    queries,
    random_world,
    seeds,
    spelled,
    world,
)
from tests.neighbours import Neighbourhood
from tests.support import CLINIC_COLUMNS, POLICIES

from sfumato.curator.intervals import Errors
from sfumato.errors import QueryRefused
from sfumato.exact.secret import unseal
from sfumato.queries.shown import KeyOf
from sfumato.queries.spelling import plainly
from sfumato.queries.sql import tree
from sfumato.queries.statement import parse
from sfumato.queries.syntax import ARGUMENTS
from sfumato.sources.duckdb import DuckDB

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.queries.plan import Plan

SEED = "20240615"
BUCKETS = (  # which the engine has not
    "CREATE MACRO width_bucket(x, a, b, n) AS CASE WHEN x < a THEN 0 WHEN x >= b THEN n + 1"
    " WHEN x IS NOT NULL THEN CAST(1 + FLOOR((x - a) * n / (b - a)) AS INTEGER) END"
)
ACCEPTED = 150  # questions of the clinic
WORLDS, EACH = 3, 20  # and of policies nobody wrote


def clinic() -> World:
    text = (POLICIES / "clinic.toml").read_text(encoding="utf-8")
    return world(text, CLINIC_COLUMNS, {("wards", "ward"): ("A", "B", "C")})


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """Everything that was asked, and what became of it."""
    found, rng = Tally(), random.Random(SEED)
    fuzzer = Fuzzer(SEED, clinic(), tmp_path_factory.mktemp("clinic"), found, most=3, stars=1)
    for query in islice(queries(fuzzer.world.policy, rng), 20 * ACCEPTED):
        enough = found.accepted >= ACCEPTED
        if enough and all(found.features[feature] for feature in FEATURES):
            break
        if not enough or any(not found.features[feature] for feature in query.features):
            fuzzer.ask(query)
    for i in range(WORLDS):
        name = f"{SEED}-{i}"
        fuzzer = Fuzzer(name, random_world(name), tmp_path_factory.mktemp(name), found, most=3, stars=1)
        for query in islice(queries(fuzzer.world.policy, rng), EACH):
            fuzzer.ask(query)
    print(found.report())
    return found


@pytest.mark.slow
def test_no_neighbour_moves_a_random_question_further_than_it_claims(tally: Tally) -> None:
    assert not tally.found, tally.report()
    assert tally.accepted >= ACCEPTED


@pytest.mark.slow
def test_everything_we_say_is_accepted_is_accepted_somewhere(tally: Tally) -> None:
    assert [feature for feature in FEATURES if not tally.features[feature]] == [], tally.report()


@pytest.mark.slow
def test_hostile_text_is_refused_or_keeps_its_claims(tmp_path: Path) -> None:
    found, rng = Tally(), random.Random(SEED)
    fuzzer = Fuzzer(SEED, clinic(), tmp_path, found, most=2, stars=1)
    for seed in seeds(fuzzer.world.policy, rng):
        fuzzer.ask(seed)
    for query in islice(queries(fuzzer.world.policy, rng), 200):
        fuzzer.ask(mangled(query, rng), 0)
    assert not found.found, found.report()


# What an accepted question means -----------------------------------------------------------------------

DAYS = ("2024-01-01", "2024-06-15", "2024-11-30")
TAME: dict[
    str, tuple[str | tuple[str | None, ...], ...]
] = {  # within every bound, on every grid, and one row a person in each table, so that nobody is cut
    "patients": (
        "{i}",
        ("1950-05-17", "1999-12-31", None),
        ("60.25", "80", None),
        ("f", "m"),
        ("x", "Y", None),
    ),
    "visits": (
        *(
            "{i}",
            "{i}",
            ("3", "40", "77", None),
            ("10.5", "700", "0"),
            ("-3", "12", None),
            ("A", "B", "C", None),
        ),
        *(("1", "2", "3"), DAYS[:2], (f"{DAYS[0]} 10:30", f"{DAYS[2]} 23:59"), ("true", "false", None)),
        ("", "abc", "O'Brien", None),
    ),
    "labs": ("{i}", ("blood", "urine", None), ("-2.5", "3.25", "7", None), (f"{DAYS[1]} 00:00", None)),
    "beds": (("A", "B", None), ("2.5", "2.75", None), ("2001-02-03", DAYS[0], None)),
}
APART = frozenset({"HAVING", "LIMIT", "ROLLUP", "CUBE"})  # what is shown may differ


def tamed(connection: duckdb.DuckDBPyConnection, rng: random.Random) -> None:
    """A clinic that keeps every promise of its policy."""
    for table, columns in CLINIC_COLUMNS.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute("INSERT INTO wards VALUES ('A', 'north', 3), ('B', 'south', 0), ('C', NULL, 9)")
    for i in range(90):
        for table, choices in TAME.items():
            if (table == "patients" and i % 5 == 1) or (table in ("visits", "labs") and i % 7 == 1):
                continue  # not everybody is everywhere
            row = [str(i) if isinstance(each, str) else rng.choice(each) for each in choices]
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", row)


def as_key(value: object) -> object:
    """The same whether the engine shows a day as a date or as a timestamp."""
    midnight = isinstance(value, datetime.datetime) and value.time() == datetime.time()
    return value.date() if isinstance(value, datetime.datetime) and midnight else value


def is_coarse(plan: Plan) -> bool:
    """Whether a value is added up on a coarser grid than its own, as it has so many steps."""
    return any(
        clamp is not None and clamp.exponent < value.domain.exponent
        for measure in plan.measures
        for value, clamp in measure.clamped
    )


@pytest.mark.slow
def test_where_nobody_is_cut_an_accepted_question_means_what_the_engine_says(tmp_path: Path) -> None:
    """Sums, counts, averages and moments of every group, without noise, beside the engine's own answer."""
    place, compared = clinic(), 0
    with duckdb.connect(str(tmp_path / "tame.duckdb")) as connection:
        tamed(connection, random.Random(SEED))
    raw, source = duckdb.connect(), DuckDB(tmp_path / "tame.duckdb")
    raw.execute(BUCKETS)
    tamed(raw, random.Random(SEED))
    for query in islice(queries(place.policy, random.Random(SEED)), 300):
        try:
            plan = parse(query, place.policy)
        except QueryRefused:
            continue
        keys = {o.expression.index: i for i, o in enumerate(plan.outputs) if isinstance(o.expression, KeyOf)}
        if len(keys) < len(plan.keys) or query.features & APART or is_coarse(plan):
            continue
        if "HISTOGRAM(" in query:  # the engine has one map where there is a column each
            continue
        try:
            rows = raw.execute(query).fetchall()
        except duckdb.Error:  # the engine's own arithmetic is not total
            continue
        truth = {tuple(as_key(row[keys[i]]) for i in range(len(keys))): row for row in rows}
        answer = unseal(source.run(source.compile(plan)))
        errors = Errors((None,) * len(plan.measures), plan.measures)
        for at, group in enumerate(answer.groups):
            row = truth.get(tuple(map(as_key, group)))
            cells = [len(vector) // len(answer.groups) for vector in answer.vectors]
            drawn = [v[at * n : (at + 1) * n] for v, n in zip(answer.vectors, cells, strict=True)]
            if row is None:  # a group that is public, and empty
                continue
            for i, output in enumerate(plan.outputs):
                if "Chosen" in repr(output.expression) or isinstance(output.expression, KeyOf):
                    continue  # a quantile or a mode needs its mechanism
                ours, theirs = errors.value(output.expression, drawn), row[i]
                if ours is not None and theirs is not None and math.isfinite(theirs):
                    compared += 1
                    near = pytest.approx(float(theirs), rel=0.01, abs=0.02)
                    assert float(ours) == near, (query, group, output.name)
    assert compared > 150


# The fuzzer itself -----------------------------------------------------------------------------------


def test_the_grammar_writes_what_the_engine_understands() -> None:
    understood, asked = 0, 0
    for place in (clinic(), *(random_world(f"{SEED}-{i}") for i in range(WORLDS))):
        connection = duckdb.connect()
        connection.execute(BUCKETS)
        for name, columns in place.columns.items():
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
        for query in islice(queries(place.policy, random.Random(SEED)), 60):
            asked += 1
            try:
                connection.execute(query).fetchall()
                understood += 1
            except duckdb.Error:  # a hostile literal that fits no type
                continue
    assert understood >= 0.9 * asked


def test_the_same_seed_writes_the_same_questions_about_the_same_policy() -> None:
    one, other = random_world(SEED), random_world(SEED)
    assert one.text == other.text
    first, second = (list(islice(queries(w.policy, random.Random(1)), 50)) for w in (one, other))
    assert first == second


def test_a_query_knows_its_features_and_they_are_all_listed() -> None:
    place = clinic()
    asked = islice(queries(place.policy, random.Random(1)), 1_000)
    used = {name for query in asked for name in query.features}
    assert used == set(FEATURES)
    assert Query("SELECT 1").features == frozenset()


@pytest.mark.slow
def test_members_of_a_star_differ_in_one_unit_only(tmp_path: Path) -> None:
    """Whose rows they are is asked of the engine, with a query of this test: the rows of all others stay."""
    place = clinic()
    homes = Neighbourhood(tmp_path, place.policy, place.columns, 1, crowd=600, million=600, heavy=60)
    people = [star for star in homes.stars if "visits" in star.tables]
    assert len(people) == 4
    owned = {
        "patients": "SELECT pid AS u, t.* FROM {s}.patients AS t WHERE pid IS NOT NULL",
        "visits": "SELECT patient AS u, t.* FROM {s}.visits AS t WHERE patient IS NOT NULL",
        "labs": (
            "SELECT o.u, t.* FROM {s}.labs AS t JOIN (SELECT DISTINCT patient AS u, visit_id FROM {s}.visits"
            " WHERE patient IS NOT NULL) AS o USING (visit_id)"
        ),
    }
    for star in (each.sample(12, SEED) for each in people):
        differs: set[tuple[str, str]] = set()
        counts: dict[str, set[int]] = {table: set() for table in owned}
        for member in star.members:
            for table, sql in owned.items():
                here, there = (f"({sql.format(s=m.schema)})" for m in (star.members[0], member))
                for a, b in ((here, there), (there, here)):
                    rows = homes.look(f"SELECT DISTINCT u FROM (FROM {a} EXCEPT ALL FROM {b})")
                    differs |= {(str(u), member.schema) for (u,) in rows}
                counts[table].add(homes.look(f"SELECT COUNT(*) FROM {there}")[0][0])
        who = {unit for unit, _ in differs}
        assert len(who) == 1, (star.words, who)
        assert star.words.endswith(f"person '{who.pop()}'")
        nobody = {member.schema for member in star.members if member.nobody}
        assert not nobody & {schema for _, schema in differs}
        assert all(len(each) > 1 for each in counts.values()), counts  # and they do differ


def test_the_seeds_spell_everything_that_may_be_asked_and_much_that_may_not() -> None:
    texts, kinds, wrong = grammar(), Counter[str](), 0
    assert len(texts) == len(set(texts))
    for text in texts:
        try:
            kinds.update({each.kind for each in plainly(tree(text)).walk()})
        except QueryRefused:
            wrong += 1
    assert [kind for kind in ARGUMENTS if kind not in kinds] == []
    assert len(set(kinds) - set(ARGUMENTS)) > 200  # kinds that are refused
    assert wrong > 50  # what cannot be read is refused, too


@pytest.mark.slow
def test_texts_of_all_of_sql_are_refused_or_answered_within_their_distances(tmp_path: Path) -> None:
    """More than four thousand texts of every kind of statement; some of them are questions we answer."""
    found, rng = Tally(), random.Random(SEED)
    fuzzer = Fuzzer(SEED, clinic(), tmp_path, found, most=2, stars=1)
    for query in spelled(fuzzer.world.policy, rng):
        fuzzer.ask(query)
    assert not found.found, found.report()
    assert found.accepted > 100
    assert sum(found.refused.values()) > 4000
