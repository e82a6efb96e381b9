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

import duckdb
import pytest
from tests.outline import outline
from tests.support import CLINIC_COLUMNS, POLICIES, answer, engine, opened, texts, wild_table

import sfumato as sf
from sfumato.errors import QueryRefused
from sfumato.queries import policy as policies
from sfumato.queries.plan import Compared
from sfumato.queries.sensitivity import derive
from sfumato.queries.shown import (
    Arithmetic,
    Chosen,
    Function,
    KeyOf,
    Mean,
    Number,
    Released,
    Weighted,
    Within,
)
from sfumato.queries.statement import parse
from sfumato.queries.words import spoken
from sfumato.sources.apart import printed
from sfumato.sources.lower import lower

if TYPE_CHECKING:
    from sfumato.mechanisms import Distance
    from sfumato.queries.plan import Having, Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.shown import Expression

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
    parts = "\n".join(question(each) for each in plan.all)
    return parts if plan.outer is None else f"{parts}above: {printed(plan.outer.query)}\n"


def question(plan: Plan) -> str:
    """The same of one question."""
    lines = [f"groups {'private' if plan.private_keys else plan.size}"]
    lines += [f"of which {plan.lines} can occur" for _ in plan.occurring[:1] if not plan.sets]
    for key in plan.keys:
        told = "private" if key.values is None else f"{len(key.values)} from {key.values[0]!r}"
        lines.append(f"key {spoken(key.expression)}: {told}")
    for measure, derivation in zip(plan.measures, derive(plan), strict=True):
        unit = measure.one
        lines.append(
            f"measure {measure.told}: {measure.cells} cells, unit {unit}, "
            f"least {measure.least}, most {measure.most}"
        )
        for name in ("presence", "value"):
            lines.append(f"  {name} {distance_text(derivation.distances.towards(name))}")
    for output in plan.outputs:
        lines.append(f"output {output.name} = {short(output.expression)}")
    if plan.having is not None:
        lines.append(f"having {held(plan.having)}")
    for expression, descending, nulls_first in plan.order:
        told = f"order {short(expression)} {'descending' if descending else 'ascending'}"
        lines.append(f"{told}, NULLs first" if nulls_first else told)
    if plan.limit is not None:
        lines.append(f"limit {plan.limit}")
    return "\n".join([*lines, *outline(lower(plan)), *texts(plan)]) + "\n"


def short(expression: Expression) -> str:
    """An expression of released numbers on one line: m0.1 is the second number of the first measure."""
    match expression:
        case KeyOf(index):
            return f"key {index}"
        case Number(value):
            return str(value)
        case Released(measure, place):
            return f"m{measure}.{place}"
        case Weighted(terms):
            return " + ".join(f"{weight} {short(released)}" for weight, released in terms) or "0"
        case Within(total, low, high):
            return f"[{short(total)} in {low}..{high}]"
        case Mean(total, count, low, high):
            return f"[({short(total)}) / ({short(count)}) in {low}..{high}]"
        case Chosen(measure, place):
            return f"chosen m{measure}.{place}"
        case Function(name, arguments):
            return f"{name}({', '.join(map(short, arguments))})"
        case Arithmetic(operator, left, right):
            return f"({short(left)} {operator} {short(right)})"


def held(having: Having) -> str:
    if isinstance(having, Compared):
        return f"{short(having.left)} {having.operator} {short(having.right)}"
    return f" {having.word} ".join(f"({held(part)})" for part in having.parts)


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
        shown = golden["expected"].startswith("groups") and not golden["expected"].startswith(
            "groups private"
        )
        if golden["policy"] == policy and shown:  # private groups need a delta, which these budgets have not
            found.append(golden["sql"])
    return found


@pytest.mark.parametrize("policy", ["person", "row"])
def test_an_empty_table_answers_zeros(policy: str, tmp_path: Path) -> None:
    db = opened(tmp_path, [], policy)
    for sql in accepted(policy):
        question = db.sql(sql, epsilon=1)
        assert all(set(vector) == {0} for vector in answer(question))
        shown = question.release().rows()
        if question.plan.having is None and not question.plan.sets and question.plan.outer is None:
            assert len(shown) == min(question.plan.lines, question.plan.limit or question.plan.lines)


def test_an_engine_without_optimizers_computes_the_same_integers(tmp_path: Path) -> None:
    """It is where a query is run again on which the optimizer failed."""
    rows = [row for person in wild_table(random.Random(SEED)).values() for row in person]
    for policy in ("person", "row"):
        source = opened(tmp_path / policy, rows, policy).source
        fast, plain = engine(source), engine(source, plain=True)
        for sql in accepted(policy):
            for text in texts(parse(sql, policy_named(policy))):
                results = [sorted(cursor.execute(text).fetchall()) for cursor in (fast, plain)]
                assert results[0] == results[1], sql


def test_a_query_that_the_optimizer_fails_on_is_answered_all_the_same(tmp_path: Path) -> None:
    """Seen with DuckDB 2.0: which tables it failed on depended on the statistics of their columns."""
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        for table, columns in CLINIC_COLUMNS.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute("INSERT INTO wards VALUES ('A', 'north', 1)")
        connection.execute("INSERT INTO visits (patient, visit_id) VALUES (1, 1), (2, 2)")
        connection.execute("INSERT INTO labs VALUES (1, 'blood', 1, NULL), (2, 'urine', 2, NULL)")
    text = (POLICIES / "clinic.toml").read_text(encoding="utf-8")
    (tmp_path / "clinic.toml").write_text(text, encoding="utf-8")
    db = sf.open(tmp_path / "clinic.toml")
    never = "WHERE CASE WHEN result > 1 THEN 1 ELSE 0 END <> CASE WHEN result > 1 THEN 1 ELSE 0 END"
    question = db.sql(f"SELECT (result > 0) AS k, COUNT(*) FROM labs {never} GROUP BY k", epsilon=1)
    assert set(answer(question)[0]) == {0}
    with pytest.raises(duckdb.Error):  # what an engine says stays inside
        engine(db.source, plain=True).execute("SELECT nothing FROM nowhere")


def test_every_accepted_plan_releases_on_wild_data(tmp_path: Path) -> None:
    rows = [row for person in wild_table(random.Random(SEED)).values() for row in person]
    for policy in ("person", "row"):
        db = opened(tmp_path / policy, rows, policy)
        for sql in accepted(policy):
            release = db.sql(sql, epsilon=1).release()
            numbers = [column.name for column in release.plan.columns if column.has_interval]
            for row in release.rows():
                for name in numbers:
                    if row[name] is not None:
                        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], (sql, row)
