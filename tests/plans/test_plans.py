"""Golden plans: what each query means, how far a person can move it, or why it is refused.

Every file holds a policy, a query and the text expected. `SFUMATO_WRITE_PLANS=1 pytest tests/plans` rewrites
the expectations; read the difference before you commit it.
"""

from __future__ import annotations

import os
import random
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import POLICIES, Row, answer, opened, wild_rows, wild_table

from sfumato.curator.explanation import describe
from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.plan import KeyOf
from sfumato.queries.sensitivity import derive
from sfumato.queries.sql import parse
from sfumato.sources.duckdb import text

if TYPE_CHECKING:
    from sfumato.curator.database import Database
    from sfumato.mechanisms import Distance
    from sfumato.queries.policy import Policy

FILES = sorted(Path(__file__).parent.glob("*.toml"))
SEED = 20_240_615


@cache
def policy_named(name: str) -> Policy:
    path = POLICIES / f"{name}.toml"
    loaded = policies.parse(path.read_text(encoding="utf-8"), Path("hospital.toml"))
    return loaded.with_keys(lambda *_: ("A", "B", "C"))


def rendered(sql: str, policy: Policy) -> str:
    """Everything a plan means, as text."""
    try:
        plan = parse(sql, policy)
    except QueryRefused as refusal:
        return f"{type(refusal).__name__}\n{refusal}\n"
    lines = [f"groups {plan.size}"]
    for measure, derivation in zip(plan.measures, derive(plan), strict=True):
        lines.append(
            f"measure {describe(measure)} step {measure.step} least {measure.least} most {measure.most}"
        )
        for name in ("presence", "value"):
            lines.append(f"  {name} {distance_text(derivation.distances.towards(name))}")
    for output in plan.outputs:
        lines.append(f"output {output.name} = {output.expression}")
    for expression, descending in plan.order:
        lines.append(f"order {expression} {'descending' if descending else 'ascending'}")
    if plan.limit is not None:
        lines.append(f"limit {plan.limit}")
    return "\n".join([*lines, text(plan)]) + "\n"


def distance_text(distance: Distance) -> str:
    return f"l0 {distance.l0} l1 {distance.l1} l2^2 {distance.l2_squared} linf {distance.linf}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_plan_is_the_golden_one(file: Path) -> None:
    golden = tomllib.loads(file.read_text(encoding="utf-8"))
    found = rendered(golden["sql"], policy_named(golden["policy"]))
    if os.environ.get("SFUMATO_WRITE_PLANS"):
        sql = golden["sql"]
        file.write_text(
            f'policy = "{golden["policy"]}"\nsql = """\n{sql}"""\nexpected = \'\'\'\n{found}\'\'\'\n',
            encoding="utf-8",
        )
    else:
        assert found == golden["expected"]


def test_there_are_plans_of_both_kinds() -> None:
    texts = [tomllib.loads(file.read_text(encoding="utf-8"))["expected"] for file in FILES]
    assert sum(each.startswith("groups") for each in texts) >= 20
    assert sum(not each.startswith("groups") for each in texts) >= 30


# Neighbours ------------------------------------------------------------------------------------------


def accepted(policy: str) -> list[str]:
    found = []
    for file in FILES:
        golden = tomllib.loads(file.read_text(encoding="utf-8"))
        if golden["policy"] == policy and golden["expected"].startswith("groups"):
            found.append(golden["sql"])
    return found


def moved(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, int, int, int]:
    steps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return sum(s > 0 for s in steps), sum(steps), sum(s * s for s in steps), max(steps)


def check_distance(db: Database, neighbour: Database, sql: str, towards: str) -> int:
    """Compare exact answers of neighbours with the claimed distance; returns how far they moved."""
    question = db.sql(sql, epsilon=1)
    here, there = answer(question), answer(neighbour.sql(sql, epsilon=1))
    furthest = 0
    for derivation, a, b in zip(question.derivations, here, there, strict=True):
        claimed = derivation.distances.towards(towards)
        bounds = (claimed.l0, claimed.l1, claimed.l2_squared, claimed.linf)
        for found, bound in zip(moved(a, b), bounds, strict=True):
            assert bound is not None
            assert found <= bound, (sql, towards, found, bound)
        furthest = max(furthest, moved(a, b)[1])
    return furthest


@pytest.mark.parametrize("policy", ["person", "row"])
def test_no_person_moves_an_answer_further_than_claimed(policy: str, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    table = wild_table(rng)
    rows: list[Row] = [row for person in table.values() for row in person]
    base = opened(tmp_path / "base", rows, policy)
    pairs: list[tuple[Database, str]] = []
    if policy == "row":
        for i in range(6):
            gone = rng.randrange(len(rows))
            fewer = rows[:gone] + rows[gone + 1 :]
            pairs.append((opened(tmp_path / f"without{i}", fewer, policy), "presence"))
            other = [*fewer, *wild_rows(99, 1, rng)]
            pairs.append((opened(tmp_path / f"replaced{i}", other, policy), "value"))
    else:
        for person in (1, 2, 3, 4, 5, 6):
            fewer = [row for row in rows if row[0] != person]
            pairs.append((opened(tmp_path / f"without{person}", fewer, policy), "presence"))
            other = fewer + wild_rows(person, rng.choice([0, 1, 3, 40]), rng)
            pairs.append((opened(tmp_path / f"replaced{person}", other, policy), "value"))
    furthest = 0
    for sql in accepted(policy):
        for neighbour, towards in pairs:
            furthest = max(furthest, check_distance(base, neighbour, sql, towards))
    assert furthest > 0  # the check can fail: somebody did move something


@pytest.mark.parametrize("policy", ["person", "row"])
def test_one_person_with_very_many_rows_moves_no_answer_further(policy: str, tmp_path: Path) -> None:
    rng = random.Random(SEED + 1)
    rows = [row for person in wild_table(rng, people=30).values() for row in person]
    heavy = wild_rows(777, 200, rng) * 150
    if policy == "row":
        heavy = heavy[:1]
    base, more = opened(tmp_path / "base", rows, policy), opened(tmp_path / "more", rows + heavy, policy)
    for sql in accepted(policy):
        check_distance(base, more, sql, "presence")


@pytest.mark.parametrize("policy", ["person", "row"])
def test_an_empty_table_answers_zeros(policy: str, tmp_path: Path) -> None:
    db = opened(tmp_path, [], policy)
    for sql in accepted(policy):
        question = db.sql(sql, epsilon=1)
        assert all(set(vector) == {0} for vector in answer(question))
        shown = question.release().rows()
        assert len(shown) == min(question.plan.size, question.plan.limit or question.plan.size)


def test_every_accepted_plan_releases_on_wild_data(tmp_path: Path) -> None:
    rows = [row for person in wild_table(random.Random(SEED)).values() for row in person]
    for policy in ("person", "row"):
        db = opened(tmp_path / policy, rows, policy)
        for sql in accepted(policy):
            release = db.sql(sql, epsilon=1).release()
            numbers = [o.name for o in release.plan.outputs if not isinstance(o.expression, KeyOf)]
            for row in release.rows():
                for name in numbers:
                    if row[name] is not None:
                        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], (sql, row)
