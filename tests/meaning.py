"""Whether an answer means what its SQL says (law 14): random questions beside the engine's own answer.

    python -m tests.meaning --seed 7 --count 2000 --kind "prepared parquet"

A policy is drawn together with data that keep every promise of it: values within their bounds, on their
grids and among their keys, few rows a person, nobody without a name. There nobody is clamped, scaled or
dropped, so that without noise a release must be what DuckDB itself says to the same text. A question is
refused (for free, from its text) or its plan is run by the source, drawn without noise and shown by
`Release.exact`; each number is then compared with the engine's, group by group. Of a few the interval is
looked at, too: around a number without noise it holds what the engine says. The tables lie in any of the
places that `tests.places` knows.

What differs by design stands in docs/reference/sql.md and, one by one, in the rules of this file: each is a
function that says in which words the page says so. Everything else is a difference, and is printed with
what shows it again: the policy, the rows, the question, our answer and the engine's.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import itertools
import math
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import expressions as trees
from tests.fuzz import Expr, Grammar, Relation, World, literal, quoted, world
from tests.neighbours import links
from tests.places import DATABASE, KINDS, columns_for, fill, settled

from sfumato.budget import Receipt
from sfumato.curator.calibrate import Calibration as Calibrated
from sfumato.curator.calibrate import calibrate
from sfumato.curator.caps import resolve
from sfumato.curator.intervals import Errors, uses
from sfumato.curator.release import LEVEL, Release, is_label, write_key
from sfumato.errors import QueryRefused
from sfumato.exact.secret import unseal
from sfumato.mechanisms import Distance, Distances, Geometric, Guarantee, Step
from sfumato.queries.measures import DistinctSum, Kinds, Moments, Selected, Spread, Sum
from sfumato.queries.plan import Combined, Output
from sfumato.queries.relations import joins_of
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
from sfumato.queries.statement import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.curator.linear import Ends
    from sfumato.queries.declared import DeclaredTable, Value
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Having, Plan
    from sfumato.queries.shown import Expression
    from sfumato.queries.sql import Dialect
    from sfumato.sources.answers import Answer
    from sfumato.sources.duckdb import DuckDB

BUCKETS = (  # WIDTH_BUCKET, which the engine has not
    "CREATE MACRO width_bucket(x, a, b, n) AS CASE WHEN x < a THEN 0 WHEN x >= b THEN n + 1"
    " WHEN x IS NOT NULL THEN CAST(1 + FLOOR((x - a) * n / (b - a)) AS INTEGER) END"
)
LOOSE = re.compile(r"QUANTILE_DISC|PERCENTILE_DISC|APPROX_QUANTILE", re.IGNORECASE)
NEAR = 1e-9  # relative: what doubles may lose in the engine's own arithmetic
MOST_GROUPS = 5_000  # of a question that is compared: nearly all are empty
ROWS = 60  # of one person that weigh in full: nobody here has so many
INTERVALS = 3  # groups of a question whose intervals are looked at: that takes time
MOST_ADDED = 20  # groups in a total whose interval is: its noise is added up as often
PRICES = (  # the last leaves next to no noise: its intervals hardly forgive anything
    Guarantee.read(epsilon="0.1"),
    Guarantee.read(epsilon="1", delta="1e-6"),
    Guarantee.read(rho="0.5"),
    Guarantee.read(epsilon="1000"),
)
PRIVATE = Guarantee.read(epsilon="1", delta="1e-6")  # where the groups are private there must be a delta

Group = tuple[object, ...]
Vectors = Sequence[Sequence[int]]


# A release without noise ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a plan when nothing is noisy: rows, and what is needed to judge them."""

    plan: Plan
    rows: list[tuple[Group, dict[str, object]]]  # by group, in the order shown
    vectors: dict[Group, tuple[tuple[int, ...], ...]]  # of every group, shown or not
    counted: dict[Group, tuple[Fraction, ...]]  # rows of it; then those in which each measure has a value
    cells: dict[Group, tuple[tuple[int, ...], ...]]  # what was chosen from
    ends: dict[tuple[Group, str], Ends]  # of a few groups, by the names of outputs: their intervals

    def is_empty(self, group: Group) -> bool:
        """Whether no row is in it."""
        return self.counted[group][0] == 0

    def counts(self, group: Group, measure: int) -> Fraction:
        """In how many of its rows a measure has a value."""
        return self.counted[group][1 + measure]

    def lacks(self, group: Group) -> bool:
        """Whether some measure found no value in it."""
        return min(self.counted[group]) == 0


def shown(source: DuckDB, plan: Plan, spend: Guarantee) -> Shown:
    """Run a plan and show it through the code that shows a release, with integers that carry no noise.

    The price is that of its intervals.
    """
    counters = [Moments((), (), 0, False, plan.relation.rows)]
    for measure in plan.measures:  # how many rows of a group have a value at all
        values: tuple[Scalar, ...] = ()
        if isinstance(measure, (DistinctSum, Moments, Sum, Spread, Kinds)):
            values = measure.values if isinstance(measure, Moments) else (measure.value,)
        counters.append(Moments(values, (), 0, False, plan.relation.rows))
    whole = replace(
        plan,
        measures=(*plan.measures, *counters),
    )
    answer = unseal(source.run(source.compile(whole)))
    release = _release(whole, _drawn(whole, answer))
    groups, vectors, times = release._rolled(release._groups(), release._vectors())
    first = len(plan.measures)
    found = {tuple(map(as_key, group)): vector for group, vector in zip(groups, vectors, strict=True)}
    errors = Errors((None,) * len(whole.measures), whole.measures)
    indices = release._shown([errors] * len(groups), groups, vectors)
    rows = [
        (
            tuple(map(as_key, groups[g])),
            {o.name: _exactly(release, o.expression, errors, groups[g], vectors[g]) for o in plan.outputs},
        )
        for g in indices
    ]
    counted = {
        group: tuple(Fraction(vector[first + i][0], counter.whole) for i, counter in enumerate(counters))
        for group, vector in found.items()
    }
    cells = {
        tuple(map(as_key, group)): tuple(
            tuple(vector[g * measure.cells : (g + 1) * measure.cells])
            for measure, vector in zip(whole.measures, answer.vectors, strict=True)
        )
        for g, group in enumerate(answer.groups)
    }
    some = [g for g in indices if vectors[g][first][0] and times[g] <= MOST_ADDED][:INTERVALS]
    tail = (1 - Fraction(LEVEL)) / (max(len(groups), 1) if plan.selects else 1)
    priced, ends = _priced(plan, spend), {}
    for g, output in itertools.product(some, plan.outputs):
        if not is_label(output.expression):
            reader = Errors.of(plan, priced, times[g]).reader(output.expression, tail)
            ends[tuple(map(as_key, groups[g])), output.name] = reader(vectors[g])
    return Shown(plan, rows, found, counted, cells, ends)


def _priced(plan: Plan, spend: Guarantee) -> Calibrated:
    """The noise that the question has at its price."""
    distances = tuple(each.distances for each in derive(plan))
    return calibrate(plan.measures, distances, PRIVATE if plan.private_keys else spend, uses(plan))


def _exactly(
    release: Release,
    expression: Expression,
    errors: Errors,
    group: Group,
    vector: tuple[tuple[int, ...], ...],
) -> object:
    """A cell as `Release.exact` shows it, but for its interval, which takes time: only a few have one."""
    if isinstance(expression, KeyOf):
        return group[expression.index]
    return release._label(expression, vector) if is_label(expression) else errors.value(expression, vector)


def _release(plan: Plan, drawn: tuple[tuple[int | str, ...], ...]) -> Release:
    """A release of these integers. The price is nobody's: its intervals are not looked at."""
    one = Distance(l1=Fraction(1))
    step = Step(Geometric(scale=Fraction(1)), Distances(one, one))
    price = Guarantee.parse("1")
    query = Calibrated((step,) * len(plan.measures), price)
    return Release("meaning", plan, query, drawn, Receipt.__new__(Receipt), price)


def _drawn(plan: Plan, answer: Answer) -> tuple[tuple[int | str, ...], ...]:
    """What `curator.database.draw` would draw if every law gave its most likely value."""
    drawn: list[tuple[int | str, ...]] = []
    for measure, vector in zip(plan.measures, answer.vectors, strict=True):
        cells = [vector[i : i + measure.cells] for i in range(0, len(vector), measure.cells)]
        if isinstance(measure, Selected):  # whoever is alone in a group is shown as well
            drawn.append(tuple(write_key(group) for group in answer.groups))
        elif isinstance(measure, Spread):
            drawn.append(
                tuple(
                    y
                    for group in cells
                    for rank in measure.ranks
                    for y in _ranked(group, rank, measure.whole)
                )
            )
        elif isinstance(measure, Kinds):
            drawn.append(tuple(group.index(max(group)) for group in cells))
        else:
            drawn.append(tuple(vector))
    return tuple(drawn)


def _ranked(cells: Sequence[int], rank: Fraction, unit: int) -> tuple[int, int, int]:
    """The cell of a quantile, interpolated as QUANTILE_CONT does, and the cells on both sides of it.

    `unit` is what one row weighs.
    """
    total = sum(cells)
    if not total:
        return 0, 0, len(cells) - 1
    place = (Fraction(total, unit) - 1) * rank
    ends = [_cell_at(cells, unit, math.floor(place)), _cell_at(cells, unit, math.ceil(place))]
    middle = ends[0] + (ends[1] - ends[0]) * (place - math.floor(place))
    return math.floor(middle), ends[0], ends[1]


def _cell_at(cells: Sequence[int], unit: int, place: int) -> int:
    summed = itertools.accumulate(cells)
    return next(i for i, upto in enumerate(summed) if upto > place * unit)


def as_key(value: object) -> object:
    """The same whether the engine shows a day as a date or a timestamp, a number as one type or another."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date()
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


# How far a number may lie from the engine's ------------------------------------------------------------


def slack(expression: Expression, errors: Errors, vector: Vectors, rows: Fraction) -> float:
    """How far flooring on grids can have moved a number: one step of its grid for each row.

    "DOUBLE: rounded down to steps" of reading notes; sql.md has bounds and grids in its table of functions.
    """
    match expression:
        case Number() | KeyOf() | Released():
            return 0.0
        case Weighted(terms):
            return _weighted(terms, errors.measures, rows)
        case Within(total):
            return slack(total, errors, vector, rows)
        case Mean(total, count):
            return slack(total, errors, vector, rows) / float(max(errors.value(count, vector) or 0, 1))
        case Chosen(measure):
            spread = errors.measures[measure]
            assert isinstance(spread, Spread)
            scale = spread.value.domain.scale  # what lies between two decimals is one for the engine, too
            between = 0.0 if scale is None else 10.0**-scale
            return 2 * float(spread.clamp.step) + between  # both neighbours were floored
        case Arithmetic(operator, left, right):
            return _combined(operator, left, right, errors, vector, rows)
        case Function(name, arguments):
            off = max(slack(each, errors, vector, rows) for each in arguments)
            return _through(name, off, errors.value(arguments[0], vector))


def _weighted(
    terms: Sequence[tuple[Fraction, Released]], measures: Sequence[Measure], rows: Fraction
) -> float:
    """A sum of cells: rows times how much one step of a value moves the polynomial they make."""
    measure = measures[terms[0][1].measure] if terms else None
    if isinstance(measure, (DistinctSum, Sum)) and not _is_exact(measure.value, measure.clamp.exponent):
        return float(rows * measure.clamp.step)
    if not isinstance(measure, Moments) or not measure.degree:
        return 0.0
    weights = [
        weight * measure.whole for weight, released in terms if released.measure == terms[0][1].measure
    ]
    most = max(weights + [Fraction(0)] * (len(weights) < (measure.degree + 1) ** len(measure.clamps)))
    least = min(weights + [Fraction(0)] * (len(weights) < (measure.degree + 1) ** len(measure.clamps)))
    steps = sum(
        Fraction(1, clamp.width)
        for value, clamp in zip(measure.values, measure.clamps, strict=True)
        if not _is_exact(value, clamp.exponent)
    )
    return float(rows * measure.degree * (most - least) * steps)


def _is_exact(value: Scalar, exponent: int) -> bool:
    """Whether values stay as they are: whole numbers do. LENGTH has no bounds that an owner chose."""
    whole = value.domain.kind == "integer"
    return whole and (exponent >= 0 or "'length'" in repr(value))


def _combined(
    operator: str, left: Expression, right: Expression, errors: Errors, vector: Vectors, rows: Fraction
) -> float:
    offs = [slack(each, errors, vector, rows) for each in (left, right)]
    values = [abs(float(errors.value(each, vector) or 0)) for each in (left, right)]
    if operator in "+-" or math.inf in offs:
        return sum(offs)
    if operator == "*":
        return values[0] * offs[1] + values[1] * offs[0] + offs[0] * offs[1]
    if values[1] <= 2 * offs[1]:
        return math.inf if offs[1] else 0.0
    doubles = 1e-15 * values[0] / values[1]  # in which the engine divides, and we do not
    return 2 * (offs[0] + values[0] / values[1] * offs[1]) / values[1] + doubles


def _through(name: str, off: float, inner: Fraction | None) -> float:
    size = abs(float(inner or 0))
    if name == "square":
        return 2 * size * off + off * off
    if name == "root":
        return math.sqrt(off) if size <= 2 * off else off / math.sqrt(size)
    if name in ("floor", "ceil") and off and inner is not None:
        return off + 1 if abs(inner - round(inner)) <= 2 * off else 0.0
    if name in ("round", "even", "floor", "ceil"):
        return off + 1 if off > 1e-9 else 0.0
    return off


def is_near(ours: Fraction, theirs: object, off: float) -> bool:
    """Whether two numbers are the same but for flooring and the engine's doubles."""
    if not isinstance(theirs, (int, float, decimal.Decimal)):
        return False
    number = float(theirs)
    if math.isnan(number) or math.isinf(number):
        return False
    return abs(float(ours - Fraction(theirs))) <= off * (1 + 1e-6) + NEAR * max(abs(number), 1.0)


def is_within(ends: Ends, theirs: object, off: float) -> bool:
    """Whether the engine's number lies in an interval, but for the same."""
    if not isinstance(theirs, (int, float, decimal.Decimal)) or is_endless(theirs):
        return False
    nearest = min(max(float(theirs), ends[0]), ends[1])
    return is_near(Fraction(nearest), theirs, off)


# Rules: what differs by design, in the words of docs/reference/sql.md --------------------------------------


def is_dropped(group: Group) -> bool:
    """ "NULL or an undeclared value in a key: the row is dropped from grouped questions." """
    return None in group


def is_nothing(found: Shown, group: Group, expression: Expression) -> bool:
    """ "no rows at all: noisy zeros; an average anywhere in its bounds": a sum or mean of no value at all."""
    return any(found.counts(group, i) == 0 for i in measures_of(expression, found.plan))


def measures_of(expression: Expression, plan: Plan) -> set[int]:
    """The measures of values, not of rows alone, that a number is made of."""
    match expression:
        case Weighted(terms):
            found = {released.measure for _, released in terms}
            first = plan.measures[min(found, default=0)]
            even = isinstance(first, Moments) and {weight for weight, _ in terms} == {
                Fraction(1, first.whole)
            }
            if isinstance(first, Moments) and even and len(terms) >= first.cells - first.nulls:
                return set()  # a count, of whatever there is; a sum of zeros and ones lacks a cell
            return {i for i in found if isinstance(plan.measures[i], (DistinctSum, Moments, Sum))}
        case Mean(total, count):
            return measures_of(total, plan) | {released.measure for _, released in count.terms}
        case Chosen(measure):
            return {measure}
        case Arithmetic(_, left, right):
            return measures_of(left, plan) | measures_of(right, plan)
        case Function(_, arguments):
            return set().union(*(measures_of(each, plan) for each in arguments))
    return set()


def has_no_value(ours: Fraction | None, theirs: object) -> bool:
    """ "a division by zero has no value": the engine divides doubles, to infinity or NaN, or says NULL."""
    return ours is None and (theirs is None or is_endless(theirs))


def is_endless(theirs: object) -> bool:
    """Whether the engine divided by zero."""
    return isinstance(theirs, float) and not math.isfinite(theirs)


def passes_over(expression: Expression, errors: Errors, vector: Vectors) -> bool:
    """The same inside LEAST and GREATEST, "which pass over NULL", but not over the engine's NaN."""
    match expression:
        case Arithmetic(_, left, right):
            return passes_over(left, errors, vector) or passes_over(right, errors, vector)
        case Function(_, arguments):
            lost = any(errors.value(each, vector) is None for each in arguments)
            return lost or any(passes_over(each, errors, vector) for each in arguments)
    return False


def counting(sql: str) -> str:
    """ "COUNT_IF: the number of rows where it holds": of no rows the engine says NULL, where that is 0."""
    while found := re.search(r"COUNT_IF\(", sql, re.IGNORECASE):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = f"{sql[: found.start()]}COUNT(CASE WHEN {sql[found.end() : end - 1]} THEN 1 END){sql[end:]}"
    return sql


def between(sql: str, found: Shown, group: Group, chosen: Chosen, theirs: object) -> bool:
    """ "QUANTILE_DISC, APPROX_QUANTILE, PERCENTILE_DISC: all spellings mean the same"."""
    if "APPROX_QUANTILE" in sql.upper():
        return True  # the engine's own is approximate, and on few rows by far
    if not re.search(r"QUANTILE_DISC|PERCENTILE_DISC", sql, re.IGNORECASE):
        return False
    spread = found.plan.measures[chosen.measure]
    assert isinstance(spread, Spread)
    places = found.vectors[group][chosen.measure][chosen.place : chosen.place + 3]
    low, high = ((spread.clamp.least + place) * spread.clamp.step for place in (places[1], places[2]))
    step = 2 * spread.clamp.step  # an approximate one may be a neighbour's
    return isinstance(theirs, (int, float, decimal.Decimal)) and low - step <= Fraction(theirs) <= high + step


def totals_without_null_keys(sql: str, dialect: str = "duckdb") -> str:
    """ "Totals are sums of the released groups": rows in which a key is NULL are in no group."""
    if not re.search(r"\b(ROLLUP|CUBE)\b", sql):
        return sql
    tree = sqlglot.parse_one(sql, read=dialect)
    assert isinstance(tree, trees.Select)
    group = tree.args["group"]
    named = {each.alias: each.this for each in tree.expressions if isinstance(each, trees.Alias)}
    for rolled in list(group.find_all(trees.Rollup, trees.Cube)):
        for key in rolled.expressions:
            inner = named.get(key.name, key) if isinstance(key, trees.Column) else key
            if isinstance(key, trees.Literal):
                inner = tree.expressions[int(key.name) - 1].unalias()
            tree = tree.where(
                trees.Not(this=trees.Is(this=trees.paren(inner.copy()), expression=trees.null()))
            )
    return tree.sql(dialect=dialect)


def divided(sql: str, dialect: str = "duckdb") -> str:
    """ "a division by zero, // and % by zero: NULL" where the engine has infinity, NaN, or an error."""
    tree = sqlglot.parse_one(sql, read=dialect)
    found = [each.expression for each in tree.find_all(trees.Div, trees.IntDiv, trees.Mod)]
    divisors = [each for each in found if not each.find(trees.AggFunc) and not _is_number(each)]
    for each in reversed(divisors):  # inner ones first
        each.replace(trees.Nullif(this=trees.paren(each.copy()), expression=trees.Literal.number(0)))
    return tree.sql(dialect=dialect) if divisors else sql


def _is_number(divisor: trees.Expr) -> bool:
    """Whether it is written down, and not zero."""
    number = divisor.this if isinstance(divisor, trees.Neg) else divisor
    return isinstance(number, trees.Literal) and float(number.name) != 0


def without_limit(sql: str) -> str:
    """ "Then every combination is shown, whether or not it has rows": empty groups take places, too."""
    return re.sub(r" LIMIT \d+$", "", sql)


# Comparing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """One number, group or order that is not the engine's."""

    what: str
    ours: object
    engine: object

    def __str__(self) -> str:
        return f"{self.what}: ours {self.ours}, the engine's {self.engine}"


@dataclass(slots=True)
class Tally:
    """What was asked and found."""

    accepted: int = 0
    refused: int = 0
    failed: int = 0  # by the engine, whose own arithmetic is not total
    compared: int = 0  # numbers
    intervals: int = 0  # that were looked at
    seen: Counter[str] = field(default_factory=Counter)  # features of compared questions
    reasons: Counter[str] = field(default_factory=Counter)


class EngineFailed(Exception):
    """A question that the engine itself does not answer."""


@dataclass(slots=True)
class Clean:
    """A policy, rows that keep it, the source that answers and the engine beside it."""

    place: World
    rows: dict[str, list[tuple[str | None, ...]]]
    folder: Path
    kind: str = "duckdb"  # of source: one of `tests.places.KINDS`
    spend: Guarantee = PRICES[-1]
    dialect: Dialect = "duckdb"
    source: DuckDB = field(init=False)
    raw: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        self.raw = duckdb.connect()
        self.raw.execute("SET threads = 2")
        self.raw.execute(BUCKETS)
        fill(self.raw, columns_for(self.kind, self.place.columns), self.rows)
        self.place, self.source = settled(self.kind, self.place, self.rows, self.folder)

    def plan(self, sql: str) -> Plan:
        """What is run, with caps for this question where tables were tuned: as `Database.sql` makes it."""
        policy, statement = self.place.policy, read(sql, self.dialect)
        plan = statement.plan(policy)
        fitting = resolve(policy, plan, PRIVATE if plan.private_keys else self.spend)
        return plan if fitting is policy else statement.plan(fitting)

    def close(self) -> None:
        """Let go of the engine."""
        self.raw.close()

    def engine(self, sql: str) -> list[tuple[Any, ...]]:
        """What the engine says to a text."""
        try:
            return self.raw.execute(
                counting(divided(totals_without_null_keys(without_limit(sql))))
            ).fetchall()
        except duckdb.Error as error:
            raise EngineFailed(str(error)) from None

    def differences(self, sql: str, tally: Tally | None = None) -> list[Difference] | None:
        """What is not as the engine says; None if the question is refused, or fails in the engine itself."""
        tally = tally or Tally()
        try:
            plan = self.plan(sql)
        except QueryRefused as refusal:
            tally.refused += 1
            tally.reasons[re.sub(r"'[^']*'|\d[\d.e+]*", "_", refusal.problem)[:90]] += 1
            return None
        if plan.outer is not None:  # tests/unit/test_above.py holds these against the engine
            tally.refused += 1
            tally.reasons["something stands above its rows"] += 1
            return None
        tally.accepted += 1
        if any(each.right.public and each.left.rows == 1 for each in joins_of(plan.relation)):
            tally.reasons["a person of one row may have several partners"] += 1
            return None
        if not plan.private_keys and plan.size > MOST_GROUPS:
            tally.reasons["so many groups take too long here"] += 1
            return None
        try:
            rows = self.engine(sql)
        except EngineFailed as error:
            tally.failed += 1
            tally.reasons["engine: " + str(error).split("\n", 1)[0][:90]] += 1
            return None
        try:
            found = shown(self.source, replace(plan, limit=None), self.spend)
        except Exception as error:  # whatever it is, an accepted question has an answer
            return [
                Difference("it was accepted, and then", f"{type(error).__name__}: {error}"[:300], rows[:2])
            ]
        return list(compared(sql, found, rows, tally))


def compared(sql: str, found: Shown, rows: list[tuple[Any, ...]], tally: Tally) -> Iterator[Difference]:
    """Our rows beside the engine's, by their keys."""
    plan = found.plan
    places = {e.expression.index: i for i, e in enumerate(plan.outputs) if isinstance(e.expression, KeyOf)}
    if len(places) < len(plan.keys):  # a key that is not selected: rows cannot be told apart
        return
    theirs = {tuple(as_key(row[places[i]]) for i in range(len(plan.keys))): row for row in rows}
    if len(theirs) != len(rows):
        yield Difference("one group is there twice in the engine's answer", len(theirs), len(rows))
    ours = dict(found.rows)
    for group, row in ours.items():
        if group not in theirs:
            if not found.is_empty(group) and not _may_hide(sql, found, group):
                yield Difference(f"group {group}", "shown", "not there")
            continue
        for i, output in enumerate(plan.outputs):
            tally.compared += 1
            tally.intervals += (group, output.name) in found.ends
            yield from _cell(sql, found, group, output, row[output.name], theirs[group][i])
    for group in theirs:
        if (
            group not in ours
            and not (is_dropped(group) and not plan.sets)
            and not _may_hide(sql, found, group)
        ):
            yield Difference(f"group {group}", "not there", "shown")
    yield from _ordered(sql, found, ours, theirs)


def _cell(
    sql: str, found: Shown, group: Group, output: Output, ours: object, theirs: object
) -> Iterator[Difference]:
    expression, where = output.expression, f"{output.name} of group {group}"
    if isinstance(expression, KeyOf):
        return
    errors = Errors((None,) * len(found.plan.measures), found.plan.measures)
    if is_label(expression):
        assert isinstance(expression, Chosen)
        yield from _mode(found, group, expression, where, theirs)
        return
    assert ours is None or isinstance(ours, Fraction)
    if is_nothing(found, group, expression) or has_no_value(ours, theirs):
        return
    if is_endless(theirs) and passes_over(expression, errors, found.vectors[group]):
        return
    if isinstance(expression, Chosen) and between(sql, found, group, expression, theirs):
        return
    off = slack(expression, errors, found.vectors[group], found.counted[group][0])
    if "Chosen" in repr(expression) and isinstance(theirs, decimal.Decimal):
        off += 10.0 ** int(theirs.as_tuple().exponent)  # the engine interpolates decimals in their own digits
    if LOOSE.search(sql) and "Chosen" in repr(expression) and not isinstance(expression, Chosen):
        return  # arithmetic on a quantile that the engine does not interpolate
    if (ours is None and off < math.inf) or (ours is not None and not is_near(ours, theirs, off)):
        told = None if ours is None else float(ours)
        yield Difference(where, told, theirs)
    ends = found.ends.get((group, output.name))
    if ends is not None and ours is not None and not is_within(ends, theirs, off):
        yield Difference(f"interval of {where}", list(ends), theirs)


def _mode(found: Shown, group: Group, chosen: Chosen, where: str, theirs: object) -> Iterator[Difference]:
    """A value that is most common; of several, the engine may take any."""
    kinds = found.plan.measures[chosen.measure]
    assert isinstance(kinds, Kinds)
    if theirs is None and found.lacks(group):
        return
    cells = found.cells[group][chosen.measure]
    weights = {as_key(value): weight for value, weight in zip(kinds.values, cells, strict=True)}
    if weights.get(as_key(theirs), -1) != max(cells):
        ours = kinds.values[found.vectors[group][chosen.measure][chosen.place]]
        yield Difference(where, ours, theirs)


def _may_hide(sql: str, found: Shown, group: Group) -> bool:
    """Whether HAVING is about a number that is missing, or so near to its bound that flooring decides."""
    having = found.plan.having
    if having is None or group not in found.vectors:
        return False
    loose = bool(LOOSE.search(sql)) and "Chosen" in repr(having)
    return loose or found.lacks(group) or _is_close(having, found, group)


def _is_close(having: Having, found: Shown, group: Group) -> bool:
    if isinstance(having, Combined):
        return any(_is_close(each, found, group) for each in having.parts)
    errors = Errors((None,) * len(found.plan.measures), found.plan.measures)
    vector, rows = found.vectors[group], found.counted[group][0]
    sides = [errors.value(each, vector) for each in (having.left, having.right)]
    off = sum(slack(each, errors, vector, rows) for each in (having.left, having.right))
    if sides[0] is None or sides[1] is None:
        return True
    return abs(float(sides[0] - sides[1])) <= off * 2 + NEAR * max(abs(float(sides[1])), 1.0) and off > 0


def _ordered(
    sql: str, found: Shown, ours: Mapping[Group, object], theirs: Mapping[Group, tuple[Any, ...]]
) -> Iterator[Difference]:
    """Groups in an order that was asked for: what is sorted by runs the same way in both."""
    if not found.plan.order:
        return
    by, descending, _ = found.plan.order[0]
    if is_label(by) and not isinstance(by, KeyOf):
        return
    if LOOSE.search(sql) and "Chosen" in repr(by):
        return
    errors = Errors((None,) * len(found.plan.measures), found.plan.measures)
    both = [group for group in theirs if group in ours and not found.lacks(group)]
    if isinstance(by, KeyOf):
        sequence: list[Any] = [_sortable(group[by.index]) for group in both]
        slacks = [0.0] * len(both)
    else:
        sequence = [errors.value(by, found.vectors[group]) for group in both]
        slacks = [slack(by, errors, found.vectors[group], found.counted[group][0]) for group in both]
    for i, (a, b) in enumerate(itertools.pairwise(sequence)):
        if a is None or b is None:
            continue
        is_wrong = a < b if descending else a > b
        off = max(slacks[i : i + 2])
        if is_wrong and (isinstance(by, KeyOf) or abs(float(a - b)) > 2 * off + NEAR * abs(float(a))):
            yield Difference(f"order: {both[i]} before {both[i + 1]} in the engine's answer", a, b)


def _sortable(value: object) -> object:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time())
    return value


# Clean policies and data ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column, what the policy says of it, and the values it has here."""

    name: str
    engine_type: str
    declared: str
    values: tuple[str, ...]
    nullable: bool


_KINDS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "DOUBLE", "DOUBLE", "DECIMAL(4, 2)"),
    *("DECIMAL(12, 3)", "DECIMAL(18, 2)", "VARCHAR", "VARCHAR", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"),
)
_WHOLE = ("0", "1", "2", "3", "7", "10", "42", "99", "100", "-1", "-5", "-7", "-10")
_BROKEN = (
    "0",
    "0.25",
    "0.5",
    "0.75",
    "1",
    "1.5",
    "2.5",
    "-0.5",
    "-1.5",
    "-2.5",
    "3.25",
    "10",
    "12.75",
    "-7.25",
)
_CENTS = (
    "0",
    "0.01",
    "0.05",
    "0.06",
    "0.07",
    "0.29",
    "0.5",
    "0.57",
    "1.15",
    "1.5",
    "2.5",
    "-0.5",
    "-1.5",
    "9.99",
)
_TEXTS = ("", "A", "a", "B", "b c", " x ", "O'Brien", "10", "9", "%", "a_c", "éa", "NULL", "long " * 20)
_DAYS = ("2024-01-01", "2024-02-29", "2023-12-31", "2024-06-15", "2024-12-31", "2023-03-01", "2024-03-31")
_TIMES = ("00:00:00", "12:34:56", "23:59:59.5", "06:00:00")


class Author:
    """Writes one clean policy and its rows."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines = ["[source]", DATABASE, "[budget]", 'epsilon = "1"', 'delta = "1e-6"']
        self.columns: dict[str, str] = {}
        self.rows: dict[str, list[tuple[str | None, ...]]] = {}
        self.keys: dict[tuple[str, str], tuple[Value, ...]] = {}

    def write(self, folder: Path, kind: str) -> Clean:
        """All of it, with the tables made, and some price."""
        self.tables()
        return Clean(self.place, self.rows, folder, kind, self.rng.choice(PRICES))

    @property
    def place(self) -> World:
        """The policy."""
        return world("\n".join(self.lines) + "\n", self.columns, self.keys)

    def tables(self) -> None:
        """Draw all tables and their rows."""
        rng = self.rng
        people = [str(i) for i in rng.sample(range(1, 90), rng.choice([6, 15, 30]))]
        self._public("wards", unique=True)
        if rng.random() < 0.6:
            self._public("codes", unique=False)
        visits = self._people("visits", "pid", people, key="visit_id")
        if rng.random() < 0.85:
            self._people("stays", rng.choice(["pid", "who"]), people, key="")
        if rng.random() < 0.5:
            self._referring("labs", visits)
        if rng.random() < 0.5:
            self._table("beds", 'unit = "row"', [], rng.choice([5, 40]))

    def _people(self, name: str, unit: str, people: list[str], key: str) -> list[str]:
        rng = self.rng
        owners = [person for person in people for _ in range(rng.choice([0, 1, 1, 2, 3, 5]))] or people[:1]
        numbers = [str(1000 + i) for i in range(len(owners))]
        fixed = [(unit, "BIGINT", owners)] + ([(key, "INTEGER", numbers)] if key else [])
        self._table(name, f'unit = "{unit}"\nrows_per_person = {ROWS}', fixed, len(owners))
        return numbers

    def _referring(self, name: str, numbers: list[str]) -> None:
        """A table whose rows refer to those of another, all of which are there."""
        owners = [self.rng.choice(numbers) for _ in range(2 * len(numbers))]
        owners = [each for each in owners if owners.count(each) < 8]
        head = f'unit = "visit_id -> visits.visit_id"\nrows_per_person = {ROWS}'
        self._table(name, head, [("visit_id", "INTEGER", owners)], len(owners))

    def _public(self, name: str, *, unique: bool) -> None:
        """Codes with NULLs among them and among what stands beside them; of some tables twice."""
        rng = self.rng
        kind, engine_type, values = rng.choice(
            [
                ("text", "VARCHAR", ("A", "B", "a", "10", "")),
                ("integer", "INTEGER", ("1", "2", "3", "7", "10")),
            ]
        )
        rows: list[tuple[str | None, ...]] = [
            (value, rng.choice(["north", "south", None]), rng.choice(["-5", "0", "3", "20", None]))
            for value in values[: rng.choice([3, 5])]
        ]
        rows += [(None, "north", "3")] if rng.random() < 0.5 else []
        rows += [rng.choice(rows) for _ in range(0 if unique else 3)]
        if not unique:
            rows += [(rows[0][0], "south", "7")]
        self.rows[name] = rows
        self.columns[name] = f"code {engine_type}, region VARCHAR, factor INTEGER"
        self.lines += [f"[tables.{name}]", "public = true", f"[tables.{name}.columns]"]
        self.lines += [
            f'code = {{ type = "{kind}" }}',
            'region = { type = "text", keys = ["north", "south"] }',
        ]
        self.lines += ['factor = { type = "integer", low = -5, high = 20 }']

    def _table(self, name: str, head: str, fixed: list[tuple[str, str, list[str]]], count: int) -> None:
        rng = self.rng
        some = rng.sample(_KINDS, rng.randint(4, 7))
        columns = [self._column(f"{_stem(each)}{i}", each) for i, each in enumerate(some)]
        self.lines += [f"[tables.{name}]", head, f"[tables.{name}.columns]"]
        self.lines += [f'{column} = {{ type = "integer" }}' for column, _, _ in fixed]
        self.lines += [f"{each.name} = {{ {each.declared} }}" for each in columns]
        types = [f"{column} {engine_type}" for column, engine_type, _ in fixed]
        self.columns[name] = ", ".join([*types, *(f"{each.name} {each.engine_type}" for each in columns)])
        self.rows[name] = [
            (*(values[i] for _, _, values in fixed), *(self._value(each) for each in columns))
            for i in range(count)
        ]

    def _value(self, column: Column) -> str | None:
        return None if column.nullable and self.rng.random() < 0.2 else self.rng.choice(column.values)

    def _column(self, name: str, engine_type: str) -> Column:
        rng, nullable = self.rng, self.rng.random() < 0.6
        values, declared = self._declared(engine_type)
        if not nullable and rng.random() < 0.3 and "low" in declared and "DATE" not in engine_type:
            declared += ", required = true" if "TIMESTAMP" not in engine_type else ""
        return Column(name, engine_type, declared, values, nullable)

    def _declared(self, engine_type: str) -> tuple[tuple[str, ...], str]:
        rng = self.rng
        some = rng.choice([3, 6, 20])
        if engine_type in ("DATE", "TIMESTAMP"):
            days = rng.sample(_DAYS, min(some, len(_DAYS)))
            values = [day if engine_type == "DATE" else f"{day} {rng.choice(_TIMES)}" for day in days]
            ends = ", low = 2023-01-01, high = 2024-12-31" if rng.random() < 0.8 else ""
            return tuple(values), f'type = "{engine_type.lower()}"{ends}'
        if engine_type == "BOOLEAN":
            return ("true", "false"), 'type = "boolean"'
        if engine_type == "VARCHAR":
            values = rng.sample(_TEXTS, min(some, len(_TEXTS)))
            keys = ", ".join(f'"{value}"' for value in values)
            return tuple(values), 'type = "text"' + (f", keys = [{keys}]" if rng.random() < 0.6 else "")
        return self._number(engine_type, some)

    def _number(self, engine_type: str, some: int) -> tuple[tuple[str, ...], str]:
        rng = self.rng
        whole = not engine_type.startswith(("DOUBLE", "DECIMAL"))
        pool = _WHOLE if whole else _CENTS if engine_type.startswith("DECIMAL") else _BROKEN
        if not whole and engine_type == "DOUBLE" and rng.random() < 0.3:
            pool = _CENTS  # not on the grid: doubles of decimals
        values = rng.sample(pool, min(some, len(pool)))
        if engine_type.startswith("U"):
            values = [value.lstrip("-") for value in values]
        low, high = rng.choice([(-10, 100), (-128, 127), (-20, 1000)])
        keys = f", keys = [{', '.join(sorted(set(values), key=int))}]" if whole and rng.random() < 0.3 else ""
        grid = ', grid = "1/4"' if pool is _BROKEN and rng.random() < 0.4 else ""
        kind = "integer" if whole else "number"
        return tuple(values), f'type = "{kind}", low = {low}, high = {high}{keys}{grid}'


def _stem(engine_type: str) -> str:
    stems = {"DOUBLE": "x", "VARCHAR": "s", "BOOLEAN": "ok", "DATE": "d", "TIMESTAMP": "at"}
    return stems.get(engine_type, "m" if engine_type.startswith("DECIMAL") else "n")


def clean(seed: object, folder: Path, kind: str = "duckdb") -> Clean:
    """Some policy with rows that keep it; the same seed makes the same."""
    return Author(random.Random(f"clean {seed}")).write(folder, kind)


# The grammar: that of the fuzzer, and more of what has a meaning of its own ---------------------------------


DECIMALS = (
    "0.06 + 0.01",
    "0.06 - 0.01",
    "0.1 * 3",
    "0.5",
    "2.5",
    "1.5 + 0.25",
    "0.29",
    "-0.5",
    "0.1 + 0.2",
    "1.15",
)
_PARTS = (
    *(("YEAR", 2023, 2024), ("QUARTER", 1, 4), ("MONTH", 1, 12), ("DAY", 1, 31), ("HOUR", 0, 23)),
    *(("MINUTE", 0, 59), ("SECOND", 0, 59), ("DAYOFWEEK", 0, 6), ("ISODOW", 1, 7), ("DAYOFYEAR", 1, 366)),
)


class Meanings(Grammar):
    """Writes questions whose parts are where meanings get lost: what is computed beside NULLs and joins."""

    tied = False  # of equal rows the engine takes any

    # the statement

    def _select(self, relation: Relation) -> str:
        rng, columns = self.rng, relation.columns
        where = self._where(relation, 0.5)
        keys = self._keys(columns) if self._often(0.5) else []
        aggregates = [self._aggregate(relation) for _ in range(rng.choice([1, 2, 3]))]
        outputs = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        outputs += [f"{aggregate} AS m{i}" for i, aggregate in enumerate(aggregates)]
        sql = f"SELECT {', '.join(outputs)} FROM {relation.sql}{where}{self._group(keys)}"
        if keys and self._often(0.25):
            self._use("HAVING")
            sql += f" HAVING {self._having(aggregates)}"
        if keys and self._often(0.25):
            self._use("ORDER BY")
            by = rng.choice([f"m{rng.randrange(len(aggregates))}", "k0", rng.choice(aggregates)])
            sql += f" ORDER BY {by}{rng.choice(['', ' DESC', ' ASC'])}"
            sql += f" LIMIT {rng.choice([1, 2, 5])}" if self._often(0.3) else ""
        return sql

    def _having(self, aggregates: Sequence[str]) -> str:
        numbers = [each for each in aggregates if "MODE" not in each] or ["COUNT(*)"]
        one = f"{self.rng.choice(numbers)} {self.rng.choice(['>', '<=', '<>', '=', '>='])} {self._small()}"
        if self._often(0.3):
            word = self.rng.choice(["AND", "OR", "AND NOT", "OR NOT"])
            return f"{one} {word} (COUNT(*) {self.rng.choice(['>', '<'])} {self._small()})"
        return one if self._often(0.8) else f"COUNT(*) BETWEEN 1 AND {self._small()}"

    def _aggregate(self, relation: Relation) -> str:
        one = super()._aggregate(relation)
        if one.startswith("HISTOGRAM"):  # the engine has one map where there is a column each
            return self._aggregate(relation)
        if "MODE" in one:
            return one
        if self._often(0.1):
            name = self.rng.choice(["ROUND({}, 1)", "FLOOR({})", "CEIL({})", "ABS({})", "SQRT(ABS({}))"])
            return name.format(one)
        if self._often(0.05):
            return self.rng.choice(["LEAST({}, 5)", "GREATEST({}, 5)", "CAST({} AS DOUBLE)", "-({})"]).format(
                one
            )
        return one

    def _plain_aggregate(self, relation: Relation) -> str:
        columns, unit = relation.columns, relation.unit
        if self._often(0.05):
            at = self.rng.choice(["0.5", "0.25", "0.9"])
            name = self.rng.choice(["QUANTILE_DISC", "APPROX_QUANTILE", "QUANTILE_CONT"])
            return f"{name}({self._number(columns, 1).sql}, {at})"
        if unit is not None and self._often(0.05):
            return f"COUNT(DISTINCT CASE WHEN {self._condition(columns, 1)} THEN {unit.sql} END)"
        if self._often(0.1):  # every column, as it is
            return f"COUNT({self.rng.choice([e for e in columns if e.role != 'unit'] or list(columns)).sql})"
        return super()._plain_aggregate(relation)

    # values

    def _constant(self, kind: str, near: Expr | None = None) -> str:
        rng = self.rng
        if kind == "number" and self._often(0.5):
            return rng.choice(DECIMALS)
        if kind == "integer" and self._often(0.08):
            return rng.choice(["0.5", "2.5", "1 + 2", "7 // 2", "3 * 0.5"])
        if kind in ("date", "timestamp") and self._often(0.3):
            day = rng.choice(_DAYS)
            return f"'{day}'" if kind == "date" else f"'{day} {rng.choice(_TIMES)}'"
        if kind == "text" and self._often(0.3):
            return literal(rng.choice(_TEXTS))
        return super()._constant(kind, near)

    def _number(self, columns: Sequence[Expr], depth: int) -> Expr:
        if depth > 0 and self._often(0.04):  # in no bounds of its own
            return Expr(f"LENGTH({self._text(columns, 0).sql})", "integer", 0, 200)
        if depth > 0 and self._often(0.04):
            whole = f"{self.rng.choice(['', 'FLOOR', 'CEIL'])}({super()._number(columns, depth - 1).sql})"
            return Expr(f"LENGTH(CAST({whole} AS VARCHAR))", "integer", 0, 200)
        return super()._number(columns, depth)

    def _function(self, columns: Sequence[Expr], depth: int) -> Expr:
        if not self._often(0.55):
            return super()._function(columns, depth)
        a = self._number(columns, depth - 1)
        assert a.low is not None
        assert a.high is not None
        reach = max(-a.low, a.high)
        name = self.rng.choice(
            ["//", "//", "MOD", "IF", "IFNULL", "CASE x", "SQRT", "decimal", "decimal", "CAST"]
        )
        if name in ("//", "MOD"):
            whole = (
                a.sql if a.kind == "integer" else f"{self.rng.choice(['FLOOR', 'CEIL', 'ROUND'])}({a.sql})"
            )
            by = self.rng.choice(["2", "3", "7", "-4", "10"])
            return Expr(
                f"({whole} // {by})" if name == "//" else f"MOD({whole}, {by})", a.kind, -reach - 1, reach + 1
            )
        if name == "IF":
            other = self.rng.choice(["0", "1", "NULL", "0.5"])
            sql = f"IF({self._condition(columns, depth - 1)}, {a.sql}, {other})"
            return Expr(sql, a.kind, min(a.low, 0), max(a.high, 1))
        if name == "IFNULL":
            return Expr(
                f"IFNULL({a.sql}, {self.rng.choice(['0', '5', '0.5'])})",
                a.kind,
                min(a.low, 0),
                max(a.high, 5),
            )
        if name == "CASE x":
            b, c = (self.rng.choice(["0", "1", "2.5", "7"]) for _ in range(2))
            return Expr(f"CASE {a.sql} WHEN {b} THEN 1 WHEN {c} THEN 2 ELSE 3 END", "integer", 1, 3)
        if name == "SQRT":
            return Expr(f"SQRT(ABS({a.sql}))", "number", 0, reach + 1)
        if name == "CAST":
            kind = self.rng.choice(["INTEGER", "BIGINT", "DOUBLE", "DOUBLE", "DECIMAL(12, 1)", "FLOAT"])
            return Expr(f"CAST({a.sql} AS {kind})", a.kind, a.low - 1, a.high + 1)
        operator = self.rng.choice(["+", "-", "*"])
        constant = self.rng.choice(["0.1", "0.25", "100", "100", "(0.06 + 0.01)", "1.5", "0.01"])
        reach = (reach + 100) * 100
        return Expr(f"({a.sql} {operator} {constant})", "number", -reach, reach)

    def _step(self, columns: Sequence[Expr], depth: int) -> Expr:
        days = [each for each in columns if each.kind in ("date", "timestamp")]
        if not days or not self._often(0.4):
            return super()._step(columns, depth)
        one = self._day(columns, depth - 1) if self._often(0.4) else self.rng.choice(days)
        part, low, high = self.rng.choice(_PARTS)
        if one.kind == "date" and part in ("HOUR", "MINUTE", "SECOND"):
            part, low, high = "DAYOFYEAR", 1, 366
        return Expr(
            self.rng.choice([f"{part}({one.sql})", f"DATE_PART('{part.lower()}', {one.sql})"]),
            "integer",
            low,
            high,
        )

    # conditions

    def _test(self, x: Expr, columns: Sequence[Expr]) -> str:
        rng, roll = self.rng, self.rng.random()
        if x.kind == "boolean" and roll < 0.5:
            word = rng.choice(
                ["IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE", "= TRUE", "<> FALSE", "IS NULL"]
            )
            return f"{x.sql} {word}"
        if roll < 0.08:
            some = ", ".join(self._constant(x.kind, x) for _ in range(rng.choice([1, 2, 3])))
            if "NULL" not in some and "+" not in some:
                return (
                    f"{x.sql} = ANY (ARRAY[{some}])"
                    if self._often(0.5)
                    else f"{x.sql} <> ALL (ARRAY[{some}])"
                )
        if x.kind == "text" and roll < 0.2:
            return f"CONTAINS({x.sql}, {literal(rng.choice(['a', 'A', '', 'ng', '%']))})"
        if roll < 0.3:
            return f"{x.sql} IS {rng.choice(['', 'NOT '])}NULL"
        if x.kind == "number" and roll < 0.45:
            low, high = sorted(rng.sample(DECIMALS, 2), key=lambda text: eval(text))
            return f"{x.sql} {rng.choice(['', 'NOT '])}BETWEEN {low} AND {high}"
        return super()._test(x, columns)

    def _membership(self, relation: Relation) -> str:
        """unit IN (SELECT unit FROM ...), or x IN (SELECT y FROM public) with NULLs among the y."""
        public = [table for table in self.policy.tables if table.public]
        pairs = [
            (mine, table, column)
            for table in public
            for column in table.columns
            for mine in relation.columns
            if mine.kind == column.kind and mine.role != "unit"
        ]
        if pairs and self._often(0.5):
            self._use("IN public")
            mine, table, column = self.rng.choice(pairs)
            inner = self._table(table, aliased=False)
            word = self.rng.choice(["IN", "NOT IN"])
            where = f" WHERE {self._condition(inner.columns, 1)}" if self._often(0.4) else ""
            return f"{mine.sql} {word} (SELECT {quoted(column.name)} FROM {quoted(table.name)}{where})"
        return super()._membership(relation)

    # relations

    def _relation(self, depth: int, table: DeclaredTable | None = None) -> Relation:
        if depth > 0 and table is None and self._often(0.45):
            return self._kept(depth)
        return super()._relation(depth, table)

    def _kept(self, depth: int) -> Relation:
        """A LEFT JOIN of a subquery that computes: what it computes is NULL where there is no partner."""
        rng = self.rng
        left = self._relation(depth - 1)
        if " JOIN " in left.sql:
            return left
        if left.unit is not None and self._often(0.7):
            others = [t for t in self.policy.tables if t.unit is not None and t.through is None]
            right = self._computed(
                self._relation(rng.choice([0, 0, 1]), None if depth > 1 else rng.choice(others))
            )
            if right.unit is None:
                return left
            ours, theirs = left.unit, right.unit
        else:
            public = [table for table in self.policy.tables if table.public]
            if left.owner == "row":
                public = [table for table in public if table.name == "wards"]
            right = self._computed(self._table(rng.choice(public), aliased=False), keep="code")
            theirs = next(each for each in right.columns if each.name == "code")
            same = [each for each in left.columns if each.kind == theirs.kind and each.role != "unit"]
            if not same:
                return left
            ours = rng.choice(same)
        left, right = self._aliased(left), self._aliased(right)
        mine = next((e for e in left.columns if e.name == ours.name), None)
        other = next(e for e in right.columns if e.name == theirs.name)
        if mine is None:
            return left
        word = rng.choice(["LEFT JOIN", "LEFT JOIN", "JOIN", "LEFT OUTER JOIN"])
        self._use("LEFT JOIN computed" if "LEFT" in word else "JOIN computed")
        on = f"ON {mine.sql} = {other.sql}"
        if left.owner != "row" and self._often(0.2):
            on += f" AND {self._condition([*left.columns, *right.columns], 1)}"
        taken = {e.name for e in left.columns}
        kept = tuple(replace(e, role="" if e.role == "unit" else e.role, keys=None) for e in right.columns)
        fresh = tuple(e for e in kept if e.name not in taken)
        rows = left.rows if right.owner == "public" else left.rows * right.rows
        return Relation(f"{left.sql} {word} {right.sql} {on}", (*left.columns, *fresh), left.owner, rows)

    def _computed(self, inner: Relation, keep: str = "") -> Relation:
        """A subquery with constants, COALESCE, casts, CASE and arithmetic."""
        rng, columns = self.rng, inner.columns
        unit = inner.unit
        kept = [e for e in columns if e.name == keep] if keep else [unit] if unit is not None else []
        if not kept:
            return inner
        if unit is not None and self._often(0.3):
            return self._computed_fold(inner)
        parts, out = [], []
        for one in kept:
            parts.append(f"{one.sql} AS {quoted(one.name)}" if "." in one.sql else one.sql)
            out.append(replace(one, sql=quoted(one.name)))
        for _ in range(rng.randint(1, 3)):
            value = self._made(columns)
            name = self._name("v")
            parts.append(f"{value.sql} AS {name}")
            out.append(replace(value, name=name, role="", keys=None))
        where = self._where(inner, 0.3) if not keep else ""
        return self._derived(f"SELECT {', '.join(parts)} FROM {inner.sql}{where}", out, inner)

    def _computed_fold(self, inner: Relation) -> Relation:
        assert inner.unit is not None
        parts, out = [f"{inner.unit.sql} AS {quoted(inner.unit.name)}"], [inner.unit]
        for _ in range(self.rng.randint(1, 2)):
            sql, value = self._inner(inner)
            if value.kind in ("integer", "number"):
                shape = self.rng.choice(
                    ["COALESCE({}, 0)", "{} + 1", "{}", "CASE WHEN {} > 1 THEN 1 ELSE 0 END"]
                )
                sql = shape.format(sql)
                value = replace(value, low=min(value.low or 0, 0), high=(value.high or 0) + 1)
            parts.append(f"{sql} AS {value.name}")
            out.append(value)
        select = (
            f"SELECT {', '.join(parts)} FROM {inner.sql}{self._where(inner, 0.3)} GROUP BY {inner.unit.sql}"
        )
        having = f" HAVING COUNT(*) > {self.rng.choice(['1', '2'])}" if self._often(0.2) else ""
        return self._derived(select + having, out, inner)

    def _made(self, columns: Sequence[Expr]) -> Expr:
        """A value that is not NULL although its columns are."""
        rng, roll = self.rng, self.rng.random()
        if roll < 0.3:
            text, kind = rng.choice(
                [("1", "integer"), ("TRUE", "boolean"), ("'yes'", "text"), ("0.5", "number")]
            )
            ends = (0.0, 1.0) if kind in ("integer", "number") else (None, None)
            return Expr(text, kind, *ends)
        plain = [
            e for e in columns if e.role != "unit" and (e.kind not in ("integer", "number") or e.is_bounded)
        ]
        one = rng.choice(plain or list(columns))
        if one.kind in ("integer", "number") and one.low is not None and one.high is not None:
            shape = rng.choice(["COALESCE({}, 0)", "CAST({} AS DOUBLE)", "GREATEST({}, 1)", "{} + 1", "{}"])
            return Expr(
                shape.format(one.sql),
                "number" if "DOUBLE" in shape else one.kind,
                min(one.low, 0),
                max(one.high, 1) + 1,
            )
        if roll < 0.7:
            return Expr(f"({one.sql} IS NULL)", "boolean")
        if one.kind == "text":
            return Expr(
                rng.choice(["COALESCE({}, 'none')", "CONCAT({}, 'x')", "UPPER({})", "LENGTH({})"][:3]).format(
                    one.sql
                ),
                "text",
            )
        return Expr(f"CASE WHEN {self._test(one, columns)} THEN 1 ELSE 0 END", "integer", 0, 1)

    def _inner(self, inner: Relation) -> tuple[str, Expr]:
        sql, value = super()._inner(inner)
        if self._often(0.15):
            sql += f" FILTER (WHERE {self._condition(inner.columns, 0)})"
        return sql, value

    def _public_join(self, depth: int) -> Relation:
        found = super()._public_join(depth)
        return self._relation(0) if found.owner == "row" and "codes" in found.sql else found


# Shrinking --------------------------------------------------------------------------------------------------


def shrunk(place: Clean, sql: str, tries: int = 250) -> str:
    """A simpler question that still differs: parts of its tree are left out or replaced by their parts."""
    best = sqlglot.parse_one(sql, read=place.dialect)
    text, left = sql, tries
    improved = True
    while improved and left > 0:
        improved = False
        for candidate in _simpler(best):
            left -= 1
            if left <= 0:
                break
            try:
                printed = candidate.sql(dialect=place.dialect)
                if len(printed) < len(text) and place.differences(printed):
                    best, text, improved = candidate, printed, True
                    break
            except Exception:  # a tree that is no SQL any more
                continue
    return text


def _simpler(tree: trees.Expr) -> Iterator[trees.Expr]:
    """The same tree with one thing less, large things first."""
    nodes = list(tree.walk())
    for i, node in enumerate(nodes):
        for name, value in node.args.items():
            if isinstance(value, list) and len(value) > 1:
                for j in range(len(value)):
                    yield _changed(
                        tree,
                        i,
                        lambda each, n=name, k=j: each.set(
                            n, [v for m, v in enumerate(each.args[n]) if m != k]
                        ),
                    )
            elif value is not None and name in (
                "where",
                "having",
                "order",
                "limit",
                "group",
                "joins",
                "with_",
                "default",
            ):
                yield _changed(tree, i, lambda each, n=name: each.set(n, None))
    for i, node in enumerate(nodes):
        if i and node.parent is not None and not isinstance(node, (trees.Identifier, trees.Literal)):
            for child in node.find_all(trees.Expression):
                if child is not node and child.parent is node and not isinstance(child, trees.Identifier):
                    yield _replaced(tree, i, child)


def _changed(tree: trees.Expr, at: int, change: Any) -> trees.Expr:
    copy = tree.copy()
    change(list(copy.walk())[at])
    return copy


def _replaced(tree: trees.Expr, at: int, child: trees.Expr) -> trees.Expr:
    copy = tree.copy()
    list(copy.walk())[at].replace(child.copy())
    return copy


def fewer_rows(place: Clean, sql: str) -> Clean:
    """The same with as few rows as still show it; a table's rows are tried in halves, then one by one."""
    best = place
    referred = {link.target for link in links(place.place.policy)}  # a row that refers to nobody is dropped
    for table in (each for each in place.rows if each not in referred):
        size = max(len(best.rows[table]) // 2, 1)
        while size:
            start = 0
            while start < len(best.rows[table]):
                kept = best.rows[table][:start] + best.rows[table][start + size :]
                rows = {**best.rows, table: kept}
                tried = replace(place, rows=rows, folder=_fresh(place.folder))
                if tried.differences(sql):
                    best = tried
                else:
                    start += size
            size //= 2
    return best


def _fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


# Running ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """A question that differs, as it was asked and as it was shrunk to."""

    world: str
    sql: str
    simple: str
    differences: list[Difference]
    rows: dict[str, list[tuple[str | None, ...]]]
    text: str
    columns: dict[str, str]

    def __str__(self) -> str:
        used = {t: c for t, c in self.columns.items() if re.search(rf"\b{t}\b", self.simple)}
        tables = [f"CREATE TABLE {t} ({c}); -- {self.rows[t]}" for t, c in used.items()]
        said = "\n".join(f"  {each}" for each in self.differences[:3])
        return (
            f"{self.simple}\n{said}\n"
            + "\n".join(tables)
            + f"\nworld {self.world}, asked: {self.sql}\n{self.text}"
        )


def explore(
    seed: str,
    count: int,
    tally: Tally,
    *,
    kind: str = "duckdb",
    each: int = 60,
    shrink: bool = True,
    seconds: float = math.inf,
    without: str = "$^",
    made: Callable[[str, Path, str], Clean] = clean,
) -> Iterator[Found]:
    """Questions about clean policies; what differs."""
    asked, end = 0, time.monotonic() + seconds
    for i in itertools.count():
        with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
            name = f"{seed}-{i}"
            place = made(name, Path(folder), kind)
            closing.callback(place.close)
            grammar = Meanings(place.place.policy, random.Random(f"ask {name}"), wild=0.0)
            for _ in range(each):
                if asked >= count or time.monotonic() > end:
                    return
                query = grammar.query()
                if re.search(without, query):
                    continue
                asked += 1
                differences = place.differences(query, tally)
                if differences is not None:
                    tally.seen.update(query.features)
                if differences:
                    simple, fewer = str(query), place
                    if shrink:
                        simple = shrunk(place, query)
                        fewer = fewer_rows(place, simple)
                        differences = fewer.differences(simple) or differences
                    yield Found(
                        f"{name} ({kind})",
                        query,
                        simple,
                        differences,
                        fewer.rows,
                        fewer.place.text,
                        place.place.columns,
                    )


def asked(seed: str, worlds: int, each: int) -> Iterator[str]:
    """Only the texts of so many questions about so many policies."""
    for i in range(worlds):
        author = Author(random.Random(f"clean {seed}-{i}"))
        author.tables()
        grammar = Meanings(author.place.policy, random.Random(f"ask {seed}-{i}"), wild=0.0)
        for _ in range(each):
            yield str(grammar.query())


def main() -> int:
    """The command line; exits 1 if anything differs."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--seed", default="1")
    read.add_argument("--count", type=int, default=500, help="questions")
    read.add_argument("--kind", choices=KINDS, default=KINDS[0], help="where the tables lie")
    read.add_argument("--seconds", type=float, default=math.inf)
    read.add_argument("--each", type=int, default=60, help="questions of one policy")
    read.add_argument("--plain", action="store_true", help="print questions as they were asked, not shrunk")
    read.add_argument("--without", default="$^", help="do not ask what this regular expression finds")
    read.add_argument("--reasons", action="store_true", help="print why questions were refused")
    given = read.parse_args()
    tally, number = Tally(), 0
    for found in explore(
        given.seed,
        given.count,
        tally,
        kind=given.kind,
        each=given.each,
        shrink=not given.plain,
        seconds=given.seconds,
        without=given.without,
    ):
        number += 1
        print(f"--- {number} ---\n{found}\n", flush=True)
    print(
        f"accepted {tally.accepted}, refused {tally.refused}, failed in the engine {tally.failed},"
        f" numbers compared {tally.compared} and intervals {tally.intervals}, questions that differ {number}"
    )
    if given.reasons:
        print("\n".join(f"{count:6} {reason}" for reason, count in tally.reasons.most_common(40)))
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
