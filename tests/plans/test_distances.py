"""Distances, both ways: no neighbour moves an answer further than claimed, and some moves it as far.

The first makes a release private, the second keeps its noise as small as it can be. Every accepted golden
plan is asked, and plans over a policy made of what the golden ones leave out.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.neighbours import NORMS, Neighbourhood, Norm, Towards, moved
from tests.support import CLINIC_COLUMNS, COLUMNS, POLICIES

from sfumato.mechanisms import Distance, Distances
from sfumato.queries import policy as policies
from sfumato.queries.domains import call
from sfumato.queries.expressions import Domain, Field
from sfumato.queries.measures import Moments
from sfumato.queries.relations import Scan, Where
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark import ParameterSet

    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Derivation

SEED = 20_240_615
FILES = sorted(Path(__file__).parent.glob("*.toml"))
Claim = tuple[int, Towards, Norm]  # of a measure


def claims(measure: int, towards: tuple[Towards, ...], norms: tuple[Norm, ...]) -> set[Claim]:
    return {(measure, direction, norm) for direction in towards for norm in norms}


BOTH: tuple[Towards, ...] = ("presence", "value")
SIZES: tuple[Norm, ...] = ("l1", "l2_squared", "linf")
UNREAD = "no row passes WHERE FALSE, and the derivation does not read conditions"
NARROW = "the type ends before the bounds, and the derivation does not read engine types"
MANY = "no person has rows of every age"
ONCE = "nobody has more than one row left, and the derivation counts groups"
BEFORE = "of four rows of a person three have a row before them"

# Claims that no data attain, with the reason. A claim that is not listed must be attained, and one that is
# listed must not be: so a distance that grows loose, or is tightened, shows here.
LOOSE: dict[str, tuple[str, set[Claim]]] = {
    "where_never": (UNREAD, claims(0, BOTH, SIZES)),
    "group_expression": (MANY, claims(0, BOTH, ("l0",))),
    "fold_first": (ONCE, claims(0, BOTH, ("l0",))),
    "window_row_number": (ONCE, claims(0, BOTH, ("l0",))),
    "window_lag": (BEFORE, claims(0, BOTH, ("l2_squared", "linf")) | {(0, "value", "l1")}),
}

# What the golden policies leave out: two tables of the same people, text that names them under a collation in
# which a is A, a table of rows beside them, types narrower than their bounds, bounds on one side of zero,
# bounds off their grid, caps beyond 2^62.
STRANGE = """
[source]
duckdb = "strange.duckdb"
[budget]
epsilon = "1"
[tables.stays]
unit = "who"
rows_per_person = 1000
[tables.stays.columns]
who = { type = "text" }
Debt = { type = "integer", low = -9007199254740991, high = 9007199254740990 }
fever = { type = "number", low = 0.1, high = 0.7, grid = "1/4" }
"odd "" name" = { type = "number", low = -1000, high = 1000, grid = "32" }
code = { type = "text", keys = ["a", "A", "é", "É", ""] }
[tables.drugs]
unit = "who"
rows_per_person = 1
[tables.drugs.columns]
who = { type = "text" }
dose = { type = "integer", low = 5, high = 10 }
loss = { type = "integer", low = -10, high = -3 }
small = { type = "integer", low = -1000, high = 1000 }
kind = { type = "text", keys = ["x", "y"] }
lot = { type = "integer", keys = [-128, 127] }
[tables.beds]
unit = "row"
[tables.beds.columns]
code = { type = "text", keys = "codes.code" }
height = { type = "number", low = -3, high = 8 }
width = { type = "number", low = 2, high = 3 }
mass = { type = "integer", low = -9007199254740991, high = 9007199254740991 }
[tables.codes]
public = true
columns = { code = { type = "text" } }
""".replace('"odd "" name"', "'odd \" name'")
STRANGE_COLUMNS = {
    "stays": (
        'who VARCHAR COLLATE NOCASE, Debt BIGINT, fever DOUBLE, "odd "" name" DECIMAL(38, 10), '
        "code VARCHAR COLLATE NOCASE, not_declared INTEGER"
    ),
    "drugs": (
        "who VARCHAR COLLATE NOCASE, dose UBIGINT, loss HUGEINT, small TINYINT, kind ENUM ('x', 'y', 'z'), "
        "lot TINYINT"
    ),
    "beds": "code VARCHAR COLLATE NOCASE, height FLOAT, width DOUBLE, mass BIGINT",
    "codes": "code VARCHAR",
}
TIGHT: tuple[str, set[Claim]] = ("", set())
STRANGE_PLANS: dict[str, tuple[str, set[Claim]]] = {
    "SELECT COUNT(*) FROM stays": TIGHT,
    "SELECT code, COUNT(*), COUNT(fever) FROM stays GROUP BY code": TIGHT,
    "SELECT SUM(Debt) FROM stays": TIGHT,
    "SELECT code, SUM(Debt) FROM stays GROUP BY code": TIGHT,
    "SELECT AVG(Debt) FROM stays": TIGHT,
    "SELECT code, AVG(Debt) FROM stays GROUP BY code": TIGHT,
    "SELECT SUM(fever), AVG(fever) FROM stays": TIGHT,
    "SELECT code, SUM(fever) FROM stays WHERE code <> 'A' OR fever > 0.3 GROUP BY code": TIGHT,
    'SELECT SUM("odd "" name") FROM stays WHERE who < \'b\'': TIGHT,
    'SELECT code, AVG("odd "" name") FROM stays GROUP BY code': TIGHT,
    "SELECT SUM(dose), SUM(loss) FROM drugs": TIGHT,
    "SELECT kind, SUM(dose), SUM(loss), AVG(loss) FROM drugs GROUP BY kind": TIGHT,
    "SELECT AVG(loss) FROM drugs": TIGHT,
    "SELECT lot, kind, COUNT(*) FROM drugs GROUP BY lot, kind": TIGHT,
    "SELECT SUM(small) FROM drugs": TIGHT,  # many small rows add up to the cap
    "SELECT AVG(small) FROM drugs": (NARROW, claims(0, BOTH, ("l2_squared", "linf")) | {(0, "value", "l1")}),
    "SELECT code, COUNT(*) FROM beds GROUP BY code": TIGHT,
    "SELECT SUM(height), AVG(width) FROM beds": TIGHT,
    "SELECT SUM(mass) FROM beds": TIGHT,  # a sum of doubles would lose ones
    "SELECT code, SUM(width) FROM beds GROUP BY code": TIGHT,
    "SELECT code, SUM(height) FROM beds GROUP BY code": TIGHT,
}


@cache
def golden(policy: str) -> dict[str, str]:
    """The accepted plans of a policy, by name."""
    found = {}
    for file in FILES:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        if read["policy"] == policy and read["expected"].startswith("groups"):
            found[file.stem] = read["sql"]
    return found


def policy_named(name: str) -> Policy:
    text = STRANGE if name == "strange" else (POLICIES / f"{name}.toml").read_text(encoding="utf-8")
    keys = ("a", "A", "B", "é") if name == "strange" else ("A", "B", "C")
    return policies.parse(text, Path(f"{name}.toml")).with_keys(lambda *_: keys)


@pytest.fixture(scope="module")
def find(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Neighbourhood]:
    """The neighbourhood of a policy, built when it is first asked for."""

    @cache
    def build(name: str) -> Neighbourhood:
        folder, policy = tmp_path_factory.mktemp(name), policy_named(name)
        if name == "clinic":
            return Neighbourhood(folder, policy, CLINIC_COLUMNS, SEED, crowd=3000, million=30_000)
        if name == "strange":  # a million rows in five tables would only cost time
            return Neighbourhood(folder, policy, STRANGE_COLUMNS, SEED, crowd=3000, million=30_000)
        return Neighbourhood(folder, policy, COLUMNS, SEED)

    return build


def check_both_ways(neighbourhood: Neighbourhood, sql: str, loose: set[Claim]) -> None:
    report = neighbourhood.check(sql)  # raises where a claim is too small
    several = {i for i, m in enumerate(parse(sql, neighbourhood.policy).measures) if m.cells > 1}
    missed = {
        (move.measure, move.towards, move.norm): move
        for move in report.loose
        if not (move.norm == "l0" and move.measure in several)  # which cells of a row are zero is no matter
    }
    assert set(missed) == loose, [move for claim, move in missed.items() if claim not in loose]


def most_of_them_slow(*policies_: str) -> list[ParameterSet]:
    """Every plan of these policies; `make check` runs every sixth."""
    found = [(policy, name) for policy in policies_ for name in golden(policy)]
    return [pytest.param(*each, marks=[pytest.mark.slow] if i % 6 else []) for i, each in enumerate(found)]


@pytest.mark.parametrize(("policy", "name"), most_of_them_slow("person", "row"))
def test_neighbours_move_a_golden_plan_as_far_as_claimed_and_no_further(
    policy: str, name: str, find: Callable[[str], Neighbourhood]
) -> None:
    check_both_ways(find(policy), golden(policy)[name], LOOSE.get(name, TIGHT)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", golden("clinic"))
def test_nor_do_neighbours_move_joins_folds_and_private_groups_further(
    name: str, find: Callable[[str], Neighbourhood]
) -> None:
    report = find("clinic").check(golden("clinic")[name], most=12)
    assert any(move.found for move in report.moves), "no neighbour moves it at all"


@pytest.mark.slow
@pytest.mark.parametrize("sql", STRANGE_PLANS)
def test_the_same_holds_for_strange_types_bounds_and_names(
    sql: str, find: Callable[[str], Neighbourhood]
) -> None:
    check_both_ways(find("strange"), sql, STRANGE_PLANS[sql][1])


@pytest.mark.slow
def test_who_keeps_to_the_cap_counts_in_full(find: Callable[[str], Neighbourhood]) -> None:
    """Claims and caps that shrink together stay private, but cut people whom the policy lets through."""
    for policy, sql, most in (
        ("strange", "SELECT SUM(loss) FROM drugs", 10),  # one row of -10
        ("strange", "SELECT SUM(dose) FROM drugs", 10),
        ("person", "SELECT SUM(temp) FROM visits", 4 * 45 * 16),
        ("person", "SELECT COUNT(*) FROM visits", 4 * 1024),
        ("row", "SELECT SUM(big) FROM visits", 1_000_000),
    ):
        assert find(policy).check(sql).furthest(0, "presence", "l1").found == most


def test_every_loose_claim_belongs_to_a_plan() -> None:
    assert set(LOOSE) <= {*golden("person"), *golden("row")}


# The harness itself ----------------------------------------------------------------------------------

BY_WARD = "SELECT ward, COUNT(DISTINCT pid), SUM(temp) FROM visits GROUP BY ward"


def understated(derivation: Derivation, towards: Towards, norm: Norm) -> Derivation:
    """The same distances, but for one claim that is a single step too small; nothing else is claimed."""
    claim = getattr(derivation.distances.towards(towards), norm) - 1
    shrunk = Distance(**{norm: claim})
    true = derivation.distances
    presence = shrunk if towards == "presence" else true.presence
    return replace(derivation, distances=Distances(presence, shrunk if towards == "value" else true.value))


@pytest.mark.parametrize("towards", BOTH)
@pytest.mark.parametrize("norm", NORMS)
def test_a_claim_one_step_too_small_is_caught(
    towards: Towards, norm: Norm, find: Callable[[str], Neighbourhood]
) -> None:
    neighbourhood = find("person")
    plan = parse(BY_WARD, neighbourhood.policy)
    first, second = derive(plan)
    with pytest.raises(AssertionError, match=f"{towards} moved measure 1 by") as caught:
        neighbourhood.check_plan(plan, (first, understated(second, towards, norm)), BY_WARD)
    told = str(caught.value)
    for fact in (BY_WARD, "claimed", "person", f"seed {SEED}", str(neighbourhood.path), "[near"):
        assert fact in told  # enough to see it again


def test_a_derivation_that_says_half_is_caught(
    find: Callable[[str], Neighbourhood], monkeypatch: pytest.MonkeyPatch
) -> None:
    def halved(plan: Plan) -> tuple[Derivation, ...]:
        half = [Distance(l1=(each.distances.presence.l1 or 0) / Fraction(2)) for each in derive(plan)]
        pairs = zip(derive(plan), half, strict=True)
        return tuple(replace(each, distances=Distances(less, less)) for each, less in pairs)

    monkeypatch.setattr("tests.neighbours.derive", halved)
    for policy in ("person", "row"):
        with pytest.raises(AssertionError, match="moved measure 0 by"):
            find(policy).check("SELECT COUNT(*) FROM visits")


def each_row_for_itself(plan: Plan) -> Plan:
    """A plan that forgets who a row belongs to."""
    (count,) = plan.measures
    assert isinstance(plan.relation, Scan)
    assert isinstance(count, Moments)
    scan = replace(plan.relation, owner=None, rows=None)
    return replace(plan, relation=scan, measures=(replace(count, rows=None),))


@pytest.mark.slow
def test_a_plan_that_forgets_who_a_row_belongs_to_is_caught(find: Callable[[str], Neighbourhood]) -> None:
    neighbourhood = find("person")
    plan = parse("SELECT COUNT(*) FROM visits", neighbourhood.policy)
    by_row = each_row_for_itself(plan)
    with pytest.raises(AssertionError, match="moved measure 0 by"):
        neighbourhood.check_plan(by_row, derive(by_row), "COUNT(*), each row for itself")


def test_rows_of_nobody_are_compared_with_a_claim_of_nothing(find: Callable[[str], Neighbourhood]) -> None:
    neighbourhood = find("person")
    plan = parse("SELECT COUNT(*) FROM visits", neighbourhood.policy)
    by_row = each_row_for_itself(plan)
    endless = Distance(l1=Fraction(10**12))
    claimed = (replace(derive(plan)[0], distances=Distances(endless, endless)),)
    with pytest.raises(AssertionError, match="nobody moved measure 0 by"):
        neighbourhood.check_plan(by_row, claimed, "COUNT(*), each row for itself")


def test_an_answer_that_does_not_move_one_way_is_caught(find: Callable[[str], Neighbourhood]) -> None:
    neighbourhood = find("person")
    plan = parse(BY_WARD, neighbourhood.policy)
    count, total = derive(plan)
    assert count.distances.presence.monotone
    neighbourhood.check_plan(plan, (count, total), BY_WARD)  # counts only grow
    both = replace(total.distances, presence=replace(total.distances.presence, monotone=True))
    with pytest.raises(AssertionError, match="both ways"):
        neighbourhood.check_plan(plan, (count, replace(total, distances=both)), BY_WARD)


def test_an_engine_that_fails_is_told_with_the_data_it_failed_on(
    find: Callable[[str], Neighbourhood],
) -> None:
    neighbourhood = find("row")
    plan = parse("SELECT COUNT(*) FROM visits", neighbourhood.policy)
    missing = call("is null", Field("t0.nowhere", Domain("integer")))
    broken = replace(plan, relation=Where(plan.relation, missing))
    with pytest.raises(AssertionError, match="the engine failed\nnowhere\nnobody else"):
        neighbourhood.check_plan(broken, derive(plan), "nowhere")


def test_a_plan_that_no_neighbours_touch_is_not_taken_for_checked(
    find: Callable[[str], Neighbourhood],
) -> None:
    neighbourhood = find("row")
    plan = parse("SELECT COUNT(*) FROM visits", neighbourhood.policy)
    elsewhere = replace(plan, relation=Scan(0, "wards", None, None, public=False))
    with pytest.raises(AssertionError, match="no neighbours differ"):
        neighbourhood.check_plan(elsewhere, derive(plan), "wards")


def test_the_data_are_as_hostile_as_promised(find: Callable[[str], Neighbourhood]) -> None:
    neighbourhood = find("person")
    wild = {domain.name: set(domain.wild) for domain in neighbourhood.makers["visits"].domains}
    assert {None, "nan", "inf", "-inf", "5e-324", "-0.0", "1e+308", "5000.0", "5000.000000000001"} <= wild[
        "cost"
    ]
    assert {None, "-1", "0", "120", "121", "2147483647", "-2147483648"} <= wild["age"]
    assert {str(2**127 - 1), str(-(2**127)), "1000000", "1000001", "-1001"} <= wild["big"]
    assert {None, "", "A", "a", "A ", "O'Brien", "é", "e\u0301"} <= wild["ward"]
    assert {None, "infinity", "-infinity", "2024-01-01", "2023-12-31", "5881580-07-10"} <= wild["day"]
    assert {"9999999999.99", "-9999999999.99"} <= wild["paid"]
    words = [member.words for star in neighbourhood.stars for member in star.members]
    assert any(each.startswith("1000000 or more rows") for each in words)
    assert any(each.startswith("rows of nobody") for each in words)
    assert any("-9223372036854775808" in star.words for star in neighbourhood.stars)


def test_the_engine_runs_several_threads_where_there_are_several(
    find: Callable[[str], Neighbourhood],
) -> None:
    assert find("person").threads > 1 or os.cpu_count() == 1  # law 7: one thread shows nothing


@pytest.mark.slow
def test_the_same_seed_makes_the_same_neighbours(tmp_path: Path) -> None:
    policy, sql = policy_named("row"), "SELECT ward, SUM(cost) FROM visits GROUP BY ward"
    one, other = (
        Neighbourhood(tmp_path / name, policy, COLUMNS, SEED, crowd=500, million=10).check(sql).moves
        for name in ("one", "other")
    )
    assert one == other


def test_norms_of_a_move() -> None:
    assert moved((1, 5, -2), (1, 2, 2)) == {"l0": 2, "l1": 7, "l2_squared": 25, "linf": 4}
    assert moved((), ()) == {"l0": 0, "l1": 0, "l2_squared": 0, "linf": 0}
