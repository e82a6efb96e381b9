"""The contract of engines: DuckDB and the reference make the same integers of the same `Work`, bit by bit.

And the proof of distances is about `Work`: so neighbours are also asked through the reference, with rows in
any order, and every mutant of `lower` that bounds a person less is found by them.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.meaning import Meanings, clean
from tests.outline import outline
from tests.plans.test_distances import SEED, STRANGE_COLUMNS, STRANGE_PLANS, golden, policy_named
from tests.reference import Referred, changed, engines, vectors
from tests.support import CLINIC_COLUMNS, COLUMNS

from sfumato.errors import QueryRefused
from sfumato.queries import notation
from sfumato.queries.cells import PARTS, Combination, Counted
from sfumato.queries.histograms import ByRows
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse
from sfumato.sources import lower as lowering
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.lower import lower
from sfumato.sources.reference import answer
from sfumato.sources.work import (
    OPERATIONS,
    Apply,
    ColumnValue,
    ConstantValue,
    Filter,
    Group,
    JoinedRows,
    Rank,
    Select,
    Totals,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.expressions import Scalar
    from sfumato.sources.work import Work

    Mutant = Callable[[Any], Any]

COLUMNS_OF = {"person": COLUMNS, "row": COLUMNS, "clinic": CLINIC_COLUMNS, "strange": STRANGE_COLUMNS}
SMALL = {"crowd": 30, "million": 300, "heavy": 60}
TINY = {"crowd": 10, "million": 12, "heavy": 6}  # where one person's rows are joined several times


@cache
def neighbourhood(name: str, *, prepared: bool = False, tiny: bool = False) -> Referred:
    folder, sizes = Path(tempfile.mkdtemp(prefix="sfumato-reference-")), TINY if tiny else SMALL
    return Referred(folder, policy_named(name), COLUMNS_OF[name], SEED, prepared=prepared, **sizes)


CASES = [(name, sql) for name in ("person", "row", "clinic") for sql in golden(name).values()]
CASES += [("strange", sql) for sql in STRANGE_PLANS]


SOME = [pytest.param(*case, marks=pytest.mark.slow if i % 60 else ()) for i, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "sql"), SOME)
def test_distances_hold_on_the_reference_which_is_the_engine_bit_by_bit(name: str, sql: str) -> None:
    is_long = sql.count("JOIN") > 2
    neighbourhood(name, tiny=is_long).check(sql, most=3 if is_long else 5, stars=1 if is_long else 4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sql"), [case for case in CASES if case[0] != "row"][::3])
def test_a_prepared_copy_is_read_the_same_by_both(name: str, sql: str) -> None:
    neighbourhood(name, prepared=True).check(sql, most=5, stars=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "prepared", "tuned"])
def test_random_questions_are_the_same_on_both(kind: str, tmp_path: Path) -> None:
    asked = 0
    for i in range(6):
        (tmp_path / str(i)).mkdir()
        place = clean(f"reference {i}", tmp_path / str(i), kind)
        grammar = Meanings(place.place.policy, random.Random(f"reference {kind} {i}"), wild=0.3)
        for _ in range(12):
            sql = grammar.query()
            try:
                plan = place.plan(sql)
            except QueryRefused:
                continue
            theirs, ours = engines(place.source, place.place.policy, plan, copy=place.source.copy, seed=i)
            assert (theirs.groups, vectors(theirs)) == (ours.groups, vectors(ours)), sql
            asked += 1
    assert asked >= 30


def test_operations_are_those_that_are_listed_and_each_has_a_text() -> None:
    structural = {"and", "or", "case", "concat"}  # the printer writes them itself
    assert set(OPERATIONS) == set(DUCKDB.operations) | structural


def one_by_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lowering._Forms, "is_split", False)


def in_buckets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lowering, "SEVERAL", 1)


def in_one_bucket(patch: pytest.MonkeyPatch) -> None:
    in_buckets(patch)
    patch.setattr(lowering, "BUCKETS", 1)


@pytest.mark.slow
@pytest.mark.parametrize("form", [one_by_one, in_buckets, in_one_bucket])
def test_all_forms_of_a_query_give_the_same_integers(
    form: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = 0
    for name, sql in CASES:
        homes = neighbourhood(name, tiny=sql.count("JOIN") > 2)
        plan = parse(sql, homes.policy)
        before = lower(plan, hashed="md5")
        with monkeypatch.context() as patch:
            form(patch)
            after = lower(plan, hashed="md5")
        if after == before:
            continue
        changes += 1
        for star in homes.stars[:2]:
            for member in star.members[-3:]:
                tables = homes.read(member.schema)
                assert vectors(answer(plan, before, tables)) == vectors(answer(plan, after, tables)), sql
    assert changes >= 10


# Mutants ------------------------------------------------------------------------------------------------


def unclamped(node: Any) -> Any:
    return node.arguments[0] if isinstance(node, Apply) and node.operation == "within" else node


def is_scaling(node: Any) -> bool:
    return (
        isinstance(node, Apply)
        and node.operation == "case"
        and len(node.arguments) == 3
        and isinstance(node.arguments[1], Apply)
        and node.arguments[1].operation == "divide"
        and node.arguments[1].type == "i128"
    )


def unscaled(node: Any) -> Any:
    return node.arguments[2] if is_scaling(node) else node


def scaled_to_a_little_more(node: Any) -> Any:
    if not is_scaling(node):
        return node
    condition, scaled, value = node.arguments
    product, norm = scaled.arguments
    factor = product.arguments[1]
    more = replace(product, arguments=(product.arguments[0], replace(factor, value=factor.value + 1)))
    return replace(node, arguments=(condition, replace(scaled, arguments=(more, norm)), value))


def rounded_away_from_zero(node: Any) -> Any:
    """One more than the quotient, where there is a rest."""
    if not is_scaling(node):
        return node
    condition, scaled, value = node.arguments
    more = Apply("+", (scaled, ConstantValue(1, "i128")), "i128")
    return replace(node, arguments=(condition, more, value))


def heavy_a_little_later(node: Any) -> Any:
    """People are scaled from one more on, to what they were scaled to before."""
    if (
        not isinstance(node, Apply)
        or node.operation != ">"
        or not isinstance(node.arguments[1], ConstantValue)
    ):
        return node
    limit: Any = node.arguments[1]
    return replace(node, arguments=(node.arguments[0], replace(limit, value=limit.value + 1)))


def norm_of_one_group(node: Any) -> Any:
    """A person's weight is that of the heaviest group, not of all."""
    if not isinstance(node, Group) or not all(name.startswith("mn") for name, _ in node.totals):
        return node
    return replace(node, totals=tuple((name, Totals("max", each.value)) for name, each in node.totals))


def nobodys_rows(node: Any) -> Any:
    """Rows without a unit stay."""
    kept = isinstance(node, Filter) and isinstance(node.condition, Apply)
    if (
        kept
        and node.condition.operation == "is not null"
        and isinstance(node.condition.arguments[0], ColumnValue)
    ):
        return node.rows
    return node


def other_peoples_rows(node: Any) -> Any:
    """A join forgets whose rows it joins."""
    if not isinstance(node, JoinedRows):
        return node
    on = [each for each in node.on if not (isinstance(each, Apply) and _is_of_units(each))]
    return replace(node, on=tuple(on))


def _is_of_units(condition: Apply) -> bool:
    names = {each.name for each in condition.arguments if isinstance(each, ColumnValue)}
    return condition.operation == "=" and names <= {"u", "pid", "patient", "who"} and len(names) > 0


def all_that_were_ranked(node: Any) -> Any:
    """No row is left out, whatever its place."""
    is_cut = isinstance(node, Filter) and isinstance(node.rows, Rank)
    return node.rows if is_cut else node


def ranked_among_all(node: Any) -> Any:
    """Other people's rows take places, too."""
    return replace(node, within=()) if isinstance(node, Rank) and node.name in ("n", "place") else node


def never_heavy(node: Any) -> Any:
    """Nobody is looked at again."""
    if isinstance(node, Filter) and isinstance(node.rows, Group) and node.rows.alias == "w":
        return replace(node, condition=ConstantValue(False, "bool"))
    return node


MUTANTS: dict[str, Mutant] = {
    "values are not clamped": unclamped,
    "nobody is scaled": unscaled,
    "people are scaled to one more": scaled_to_a_little_more,
    "a scaled number is rounded up": rounded_away_from_zero,
    "people are heavy one later": heavy_a_little_later,
    "a person weighs what one group does": norm_of_one_group,
    "rows of nobody count": nobodys_rows,
    "rows of two people are joined": other_peoples_rows,
    "more pairs than are kept": all_that_were_ranked,
    "places are shared by all": ranked_among_all,
    "nobody is found to be heavy": never_heavy,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_that_bound_a_person_less_are_found(name: str) -> None:
    """Each changes some plan, and for some plan neighbours then lie farther apart than is claimed."""
    mutant, tried = MUTANTS[name], 0
    for policy, sql in CASES:
        work = lower(parse(sql, policy_named(policy)), hashed="md5")
        if list(outline(changed(work, mutant))) == list(outline(work)):
            continue
        tried += 1
        homes = neighbourhood(policy, tiny=sql.count("JOIN") > 2)
        homes.mutant = mutant
        try:
            homes.check(sql, most=8, stars=6)
        except (AssertionError, OverflowError):
            return
        finally:
            homes.mutant = None
    raise AssertionError(f"no neighbours found it in {tried} plans")


def test_a_tree_that_no_mutant_touches_is_the_same() -> None:
    work: Work = lower(parse(CASES[0][1], policy_named(CASES[0][0])))
    assert changed(work, lambda node: node) == work
    assert isinstance(work.measuring[0].rows, Select)


# A measure that nobody has seen ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Together(ByRows):
    """How many rows have both of two values, and how many one of them alone: a class is all it takes."""

    name: ClassVar[str] = "together"
    one_value: Scalar
    other: Scalar
    rows: int | None

    @property
    def cells(self) -> int:
        return 2

    @property
    def cap(self) -> int:
        return PARTS * (self.rows or 1)

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return self.one_value, self.other

    @property
    def sums(self) -> tuple[Combination, ...]:
        both, first, second = Counted(self.reads), Counted(self.reads[:1]), Counted(self.reads[1:])
        return ((PARTS, both),), ((PARTS, first), (PARTS, second), (-2 * PARTS, both))

    @property
    def told(self) -> str:
        return "rows by what they have"

    @property
    def per_row(self) -> list[str]:
        return ["each row adds 1 to one of two cells, or to none"]

    @property
    def form(self) -> dict[str, Any]:
        return {"together": [notation.scalar(each) for each in self.reads], "rows": self.rows}

    @classmethod
    def read(cls, form: dict[str, Any], known: Callable[[Any], Scalar]) -> Any:
        one, other = map(known, form["together"])
        return cls(one, other, form["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["", " GROUP BY ward"])
def test_another_measure_is_one_class(keys: str) -> None:
    """It is lowered, run by both engines, read back and bounded, and nothing else in the house knows it."""
    homes = neighbourhood("person")
    sql = f"SELECT COUNT(age), COUNT(cost) FROM visits{keys}"
    plan = parse(sql, homes.policy)
    (age,), (cost,) = (each.values for each in plan.wanted)
    measure = Together(age, cost, plan.relation.rows)
    new = replace(plan, measures=(measure,))  # type: ignore[arg-type]  # no kind of ours
    report = homes.check_plan(new, derive(new), sql, most=6, stars=4)
    assert report.attained("l1", "presence")
    known = {notation.text(notation.scalar(each)): each for each in (age, cost)}
    assert Together.read(measure.form, lambda form: known[notation.text(form)]) == measure
