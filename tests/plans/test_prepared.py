"""Prepared copies: every neighbour is prepared, and no answer moves further than its plan claims.

Distances are not believed for the copy, they are measured on it; and its integers are those of the tables.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tests.neighbours import COPIES, Neighbourhood
from tests.plans.test_distances import SEED, STRANGE_COLUMNS, STRANGE_PLANS, golden, policy_named
from tests.support import CLINIC_COLUMNS, COLUMNS, texts

from sfumato.exact.secret import unseal
from sfumato.queries.declared import Measured, Tuned, TunedColumn, Tuning
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse
from sfumato.sources.answers import EngineStatements
from sfumato.sources.copy import Copy
from sfumato.sources.printing import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.sources.dialect import Dialect
    from sfumato.sources.work import Work

TYPES = {"clinic": CLINIC_COLUMNS, "strange": STRANGE_COLUMNS, "person": COLUMNS, "tuned": COLUMNS}


def tuned(policy: Policy) -> Policy:
    """A policy with a tuned column, as a question sees it: caps far below those of the rows."""
    (visits,) = (table for table in policy.tables if table.name == "visits")
    cost = visits.column("cost")
    assert cost is not None
    (noisy, centre) = Measured(Fraction(1), (0, 1024)), Fraction(37)
    tuning = Tuning(noisy, (TunedColumn("cost", centre, cost.exponent, noisy, noisy),))
    fitting = replace(cost, required=True, tuned=Tuned(centre, Fraction(150), Fraction(90)))
    columns = tuple(fitting if column == cost else column for column in visits.columns)
    changed = replace(visits, columns=columns, tuning=tuning)
    return replace(policy, tables=tuple(changed if t == visits else t for t in policy.tables))


@pytest.fixture(scope="module")
def find(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Neighbourhood]:
    """Neighbours and their copies for a policy, built when they are first asked for."""

    @cache
    def build(name: str) -> Neighbourhood:
        policy = tuned(policy_named("person")) if name == "tuned" else policy_named(name)
        size = {"crowd": 2000, "million": 20_000, "heavy": 2000}
        folder = tmp_path_factory.mktemp(name)
        return Neighbourhood(folder, policy, TYPES[name], SEED, prepared=True, **size)

    return build


CASES = [(policy, sql) for policy in ("clinic", "person") for sql in golden(policy).values()]
CASES += [("strange", sql) for sql in STRANGE_PLANS]
STORED = [  # what the copy says about a person decides who is looked at
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY ward",
    "SELECT ward, SUM(cost) FROM visits WHERE age > 30 GROUP BY ward",
    "SELECT AVG(cost) FROM visits",
    "SELECT ward, VARIANCE(cost) FROM visits GROUP BY ward",
    "SELECT ward, MEDIAN(cost) FROM visits GROUP BY ward",
]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "sql"), CASES)
def test_a_copy_moves_no_further_and_answers_as_the_tables_do(
    policy: str, sql: str, find: Callable[[str], Neighbourhood]
) -> None:
    homes = find(policy)
    homes.check(sql, most=8)
    same_as_tables(homes, sql)


def same_as_tables(homes: Neighbourhood, sql: str) -> None:
    plan = parse(sql, homes.policy)
    for star in homes.stars[:3]:
        for member in star.members[:4]:
            copied, read = (answered(homes, plan, member.schema, prefix) for prefix in (COPIES, ""))
            assert copied == read


def answered(homes: Neighbourhood, plan: Plan, schema: str, prefix: str) -> object:
    source = homes._source
    copy = source.copy
    source.at(prefix + schema)
    try:
        source.copy = copy if prefix else None
        return unseal(source.run(source.compile(plan)))
    finally:
        source.copy = copy


@pytest.mark.parametrize("sql", STORED)
@pytest.mark.slow
def test_what_a_copy_says_about_people_fills_the_cap_and_no_more(
    sql: str, find: Callable[[str], Neighbourhood]
) -> None:
    homes = find("tuned")
    plan = parse(sql, homes.policy)
    assert "sfumato_heavy" not in texts(plan, Copy.of(homes.policy))[0]
    report = homes.check(sql)
    same_as_tables(homes, sql)
    for i, derivation in enumerate(derive(plan)):
        claimed, found = derivation.distances.presence.l1, report.furthest(i, "presence", "l1").found
        assert claimed is not None
        assert claimed * Fraction(99, 100) <= found <= claimed


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["sfumato_rows", "sfumato_centred_2", "sfumato_total_2"])
def test_a_copy_that_says_too_little_of_a_person_is_caught(
    stored: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power of the harness: a norm that is too small lets a heavy person weigh too much."""
    policy = tuned(policy_named("person"))
    assert stored.endswith("rows") or stored in {
        each for grid in Copy.of(policy).tables["visits"].values() for each in (grid.total, grid.centred)
    }
    homes = Neighbourhood(
        tmp_path_factory.mktemp("short"),
        policy,
        COLUMNS,
        SEED,
        crowd=200,
        million=2000,
        heavy=200,
        prepared=True,
    )

    def halved(work: Work, dialect: Dialect) -> EngineStatements:
        pattern = re.compile(rf't0\."{stored}"')
        made = statements(work, dialect)
        return EngineStatements(
            tuple(pattern.sub(f'(t0."{stored}" // 10000000)', text) for text in made.measuring)
        )

    monkeypatch.setattr("sfumato.sources.duckdb.statements", halved)
    sql = {"sfumato_rows": STORED[0], "sfumato_centred_2": STORED[3], "sfumato_total_2": STORED[2]}[stored]
    with pytest.raises(AssertionError, match="moved measure"):
        homes.check(sql)
