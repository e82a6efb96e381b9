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
from tests.support import POLICIES, answer, opened, wild_table

from sfumato.curator.explanation import describe
from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.plan import KeyOf
from sfumato.queries.sensitivity import derive
from sfumato.queries.sql import parse
from sfumato.sources.duckdb import text

if TYPE_CHECKING:
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


# Data ------------------------------------------------------------------------------------------------


def accepted(policy: str) -> list[str]:
    found = []
    for file in FILES:
        golden = tomllib.loads(file.read_text(encoding="utf-8"))
        if golden["policy"] == policy and golden["expected"].startswith("groups"):
            found.append(golden["sql"])
    return found


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
