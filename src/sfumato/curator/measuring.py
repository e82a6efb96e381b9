"""Caps that fit without being asked for: `[measure]` in a policy.

The owner gives a share of the budget for finding out how much people have. The first question that needs a
table spends that table's part, on the owner's account; what was found serves all questions, and all versions
of the data, since a cap is enforced and can only fit worse. Half of a table's part is for rows, the other
half is divided among its columns, and spent on each when it is first added up.

A question that a table's histogram does not describe, or worse than its own would, spends three tenths of its
price on one of its own: of what people have in just what it adds up. In ratios people weigh nearly alike, so
that what a cap cuts is cut from both sides, and nothing is bought.

What is bought follows from the text, the policy and the ledger, never from data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from sfumato.curator.caps import PRIVATE_GROUPS, ROWS, TOTALS, price_of_one
from sfumato.curator.fits import IN_RATIO, best, best_in_ratio, cut, seen
from sfumato.curator.proportions import are_all
from sfumato.curator.question import FINEST, asked, planned
from sfumato.curator.tuning import as_measured, rows_question, totals_question
from sfumato.queries.cells import CAP, CUT_ALIKE, CUT_VALUES, Shortfall
from sfumato.queries.domains import call
from sfumato.queries.expressions import Call, Field, fields
from sfumato.queries.measures import Moments, Octaves, PersonCount, Spread, Sum
from sfumato.queries.plan import Plan
from sfumato.queries.policy import MOST_ROWS_PER_PERSON
from sfumato.queries.relations import Fold, Folded, Join, Scan, Union, Where, folds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.curator.fits import Holdings
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question, Way
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.asking import Measuring
    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Measured
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Aggregate
    from sfumato.queries.policy import Policy
    from sfumato.queries.relations import Relation
    from sfumato.queries.statement import Statement

OWN = Fraction(3, 10)  # of its price, for a histogram of its own
PAIRS = 10**6  # the number of a fold of ours, which no text has
MEASURE = "measure"  # how the history tells what was measured of tables; no SQL begins so
KEYS = 100  # values of an integer that is taken for a key, and not for something to add up


def ask(keeper: Keeper, statement: Statement, spend: Guarantee, own: bool = True) -> Question:
    """A question with caps that fit, or one that measures first."""
    fits = Fits(keeper)
    question = asked(keeper, statement, keeper.policy, spend, fits=partial(fits.way, own=own))
    question = replace(question, priced=lambda who, other: ask(who, statement, other, own))
    if not fits.missing:
        return question
    before = tuple(fits.missing.values())
    for_own = question.for_own or fits.for_own
    return replace(
        question, before=before, for_own=for_own, again=lambda who, own: ask(who, statement, spend, own)
    )


def capped(policy: Policy) -> list[DeclaredTable]:
    """The tables whose people are measured: those with several rows a person, that were not tuned."""
    return [t for t in policy.tables if (t.rows_per_person or 1) > 1 and t.tuning is None]


def added_up(table: DeclaredTable) -> list[DeclaredColumn]:
    """The columns of a table that may be added up: with bounds, and not few values, as keys have."""
    return [
        each
        for each in table.columns
        if each.low is not None
        and each.high is not None
        and each.keys is None
        and each.kind in ("integer", "number")
        and (each.kind == "number" or each.high - each.low >= KEYS)
    ]


def part(policy: Policy, table: DeclaredTable, column: DeclaredColumn | None = None) -> Guarantee:
    """What is spent on the rows of a table, or on a column."""
    whole = policy.budget.amount * policy.measure / len(capped(policy))
    columns = len(added_up(table))
    half = whole / 2 if columns else whole
    return _whole_units(policy.budget, half if column is None else half / columns)


def _whole_units(currency: Guarantee, amount: Fraction) -> Guarantee:
    """A price as it is counted, so that parts do not come to more than the whole."""
    return currency.of(Fraction(math.floor(amount * FINEST), FINEST), Fraction(0))


@dataclass(frozen=True, slots=True)
class Finding:
    """Where it is told how much people have of something: in a table's histogram, or in a question's own."""

    histogram: Question
    is_tables: bool


@dataclass(slots=True)
class Fits:
    """What is known of how much people have, and what has still to be measured."""

    keeper: Keeper
    missing: dict[str, Question] = field(default_factory=dict)
    for_own: Guarantee | None = None  # what is, or was, spent on histograms of the question

    def way(self, plan: Plan, spend: Guarantee, *, own: bool = True) -> Way | None:
        """How a question is asked with caps that fit; None as long as nothing is known that helps. Without
        its `own` histograms, with those of tables alone."""
        policy, relation = self.keeper.policy, plan.relation
        known = {table.name for table in capped(policy)}
        if not known & plan.tables or self.keeper.watched or plan.is_free:
            return None
        folded = _folded(relation)
        if folded is None and are_all(plan):
            return self._as_ratio(plan, spend, known)
        if folded is None:
            asked_for = {m: self._source(m, plan, spend) for m in plan.measures}
        elif any(_reads(key.expression, folded) for key in plan.keys) or not _counts(folded):
            return None  # which groups there are would depend on the cap; of sums a cap on rows says little
        elif not {table.name for table in capped(policy)} & folded.tables:
            return None
        elif not any(_reads(value, folded) for measure in plan.measures for value in measure.reads):
            return self._capped_below(folded, MOST_ROWS_PER_PERSON), self.keeper.measuring, spend
        elif not all(_adds_counts(measure, folded) for measure in plan.measures):
            return None  # of powers and products a cap cuts more than of their parts
        else:
            asked_for = {plan.measures[0]: self._rows_of(folded.relation, spend)}
        wanted = {m: each for m, each in asked_for.items() if each is not None and (own or each.is_tables)}
        if not wanted:
            return None
        rest = spend
        if count := sum(not each.is_tables for each in wanted.values()):  # these share what is for caps
            share = _whole_units(spend, spend.amount * OWN / count)
            wanted = {m: e if e.is_tables else self._repriced(e, share) for m, e in wanted.items()}
            self.for_own = spend.of(share.amount * count, Fraction(0))
            rest = spend.of(spend.amount - share.amount * count, spend.delta)
        found = {m: self._known(each) for m, each in wanted.items()}
        if any(found[m] is None and not each.is_tables for m, each in wanted.items()):
            return None
        groups = PRIVATE_GROUPS if plan.private_keys else max(plan.size, 1)
        noise = math.sqrt(2) / price_of_one(plan, rest)
        if folded is not None:
            (rows,) = found.values()
            return self._below(folded, rows, noise, groups, rest)

        trusted = self._is_trusted(plan)

        def fitted(measure: Measure) -> Measure:
            if (histogram := found.get(measure)) is None:
                return measure
            rows = _lifted(relation).rows or MOST_ROWS_PER_PERSON
            return _fitted(measure, histogram, noise, groups, plan.size, rows, trusted=trusted)

        return policy, _measuring(self.keeper, fitted), rest

    def _is_trusted(self, plan: Plan) -> bool:
        """Whether nobody is known to have more rows than is declared, in any table that is read."""
        for table in capped(self.keeper.policy):
            rows = self._known(self._rows(table.name), buys=False) if table.name in plan.tables else None
            holdings = None if rows is None else seen(rows)
            if holdings is not None and holdings.at[holdings.top] >= 2 * (table.rows_per_person or 1):
                return False
        return True

    def _as_ratio(self, plan: Plan, spend: Guarantee, known: set[str]) -> Way:
        """Only proportions are asked for. A table's rows, if they are all that is looked at, tell how far
        these may be off that people weigh alike."""
        price, relation, rows = price_of_one(plan, spend), plan.relation, None
        is_told = any(isinstance(each, Moments) for each in plan.measures)
        if isinstance(relation, Scan) and relation.table in known and is_told:
            rows = self._known(self._rows(relation.table))
        groups = PRIVATE_GROUPS if plan.private_keys else max(plan.size, 1)
        holdings = None if rows is None else seen(rows)

        def fitted(measure: Measure) -> Measure:
            return _in_ratio(measure, price, groups, holdings)

        return self.keeper.policy, _measuring(self.keeper, fitted), spend

    def _below(self, fold: Fold, rows: Measured | None, noise: float, groups: int, rest: Guarantee) -> Way:
        """What is made of the rows of each person by herself: then it is these rows that are capped."""
        policy, declared = self.keeper.policy, fold.relation.rows
        found = None if rows is None else best(rows, noise, groups, MOST_ROWS_PER_PERSON, declared)
        if found is None:
            return policy, self.keeper.measuring, rest
        cap, lost = found

        def fitted(measure: Measure) -> Measure:
            if lost is None:
                return measure
            if isinstance(measure, Moments) and measure.degree == 1 and _is_count(measure.values[0], fold):
                return replace(measure, cut=replace(lost, kind=CUT_VALUES))
            if isinstance(measure, Sum) and _is_count(measure.value, fold):
                return replace(measure, cut=lost)
            return measure

        return self._capped_below(fold, cap), _measuring(self.keeper, fitted), rest

    def _capped_below(self, fold: Fold, cap: int) -> Policy:
        """The policy with another cap on the rows that something is made of by person. Where they only stand
        in conditions any cap is free: it adds no noise."""
        policy, scan = self.keeper.policy, fold.relation
        while isinstance(scan, Where):
            scan = scan.relation
        assert isinstance(scan, Scan)
        tables = (replace(t, rows_per_person=cap) if t.name == scan.table else t for t in policy.tables)
        return replace(policy, tables=tuple(tables))

    # Histograms ---------------------------------------------------------------------------------------

    def _source(self, measure: Measure, plan: Plan, spend: Guarantee) -> Finding | None:
        """Where it is told how much people have of what a measure adds up; None if it is left as it is."""
        policy, relation = self.keeper.policy, plan.relation
        table = policy.table(relation.table) if isinstance(relation, Scan) else None
        if table not in capped(policy):
            table = None
        own = spend.amount * OWN
        if any(field.name in dict(folds_of(relation)) for value in measure.reads for field in fields(value)):
            return None  # what is made of each person's rows is bounded as it is declared
        most = _lifted(relation).rows or 1
        match measure:
            case Moments() if most > (measure.rows or 0):
                if table is not None and all(_column(each, table) for each in measure.values):
                    found = self._rows(table.name)
                    if found.histogram.query.asked.amount >= own:
                        return found
                there = relation
                if len(measure.values) == 1 and not measure.nulls and not measure.values[0].domain.required:
                    there = Where(relation, call("not", call("is null", measure.values[0])))
                return self._own(there, Octaves(None, None, 0, ROWS), spend)
            case Sum(value, clamp) if most > 1 and measure.limit is None and not measure.centre:
                column = None if table is None else _column(value, table)
                if table is not None and column is not None and column in added_up(table):
                    found = self._totals(table, column)
                    if found.histogram.query.asked.amount >= own:
                        return found
                return self._own(relation, Octaves(value, clamp, 0, TOTALS), spend)
            case PersonCount(value, groups) if not plan.private_keys and groups < plan.size:
                if value is not None:
                    relation = Where(relation, call("not", call("is null", value)))
                pairs = Fold(PAIRS, relation, tuple(key.expression for key in plan.keys), ())
                return self._own(pairs, Octaves(None, None, 0, plan.size.bit_length() + 2), spend)
        return None

    def _own(self, relation: Relation, measure: Octaves, spend: Guarantee) -> Finding:
        """How much people have of just what a question adds up."""
        price = spend.of(spend.amount * OWN, Fraction(0))
        told = f"caps that fit {' and '.join(sorted(relation.tables))}: {measure.told}"
        return Finding(planned(self.keeper, told, Plan(relation, (), (measure,), ()), price), False)

    def _repriced(self, own: Finding, share: Guarantee) -> Finding:
        price = share.of(share.amount, Fraction(0))
        return Finding(planned(self.keeper, own.histogram.sql, own.histogram.plan, price), False)

    def _rows_of(self, inner: Relation, spend: Guarantee) -> Finding:
        """Of how many rows what is made of them by person is made."""
        if isinstance(inner, Scan):
            found = self._rows(inner.table)
            if found.histogram.query.asked.amount >= spend.amount * OWN:
                return found
        return self._own(inner, Octaves(None, None, 0, ROWS), spend)

    def _rows(self, name: str) -> Finding:
        owner = self.keeper.owner
        table = owner.policy.table(name)
        assert table is not None
        return Finding(rows_question(owner, table, part(owner.policy, table), MEASURE), True)

    def _totals(self, table: DeclaredTable, column: DeclaredColumn) -> Finding:
        owner = self.keeper.owner
        spend = part(owner.policy, table, column)
        return Finding(totals_question(owner, table, column, Fraction(0), spend, MEASURE), True)

    def _known(self, source: Finding, *, buys: bool = True) -> Measured | None:
        """What was released of it: of a table about the data as they are or once were, at any price."""
        histogram, ledger = source.histogram, self.keeper.ledger
        if source.is_tables and (known := self.keeper.measured.get(histogram.key)) is not None:
            return known
        versions = [ledger.data_version]
        wanted = histogram
        if source.is_tables:
            versions = list(range(versions[0], 0, -1))
            wanted = replace(histogram, query=replace(histogram.query, asked=ledger.least.of(Fraction(0))))
        for version in versions:
            if (stored := wanted.stored(version)) is not None:
                found = as_measured(stored.receipt.price, stored.drawn[0])
                if source.is_tables:  # it is the same for good
                    self.keeper.measured[histogram.key] = found
                return found
        if buys and (not source.is_tables or self._may_measure(histogram)):
            self.missing[histogram.key] = replace(histogram, is_part=True, is_owners=source.is_tables)
        return None

    def _may_measure(self, histogram: Question) -> bool:
        """Whether the owner's share has room for it, whatever the policy said when the others were bought; or
        it was bought, and waits."""
        policy = self.keeper.policy
        if not histogram.is_new:
            return True
        spent = self.keeper.ledger.spent_on(f"{MEASURE} ") + histogram.query.guarantee().amount
        return spent <= policy.budget.amount * policy.measure


def _lifted(relation: Relation) -> Relation:
    """The same relation where people may have any number of rows in tables: what bounds them then is how it
    is made."""
    if isinstance(relation, Scan):
        return relation if (relation.rows or 1) == 1 else replace(relation, rows=MOST_ROWS_PER_PERSON)
    if isinstance(relation, Union):
        return replace(relation, parts=tuple((_lifted(each), columns) for each, columns in relation.parts))
    if isinstance(relation, Join):
        return replace(relation, left=_lifted(relation.left), right=_lifted(relation.right))
    return replace(relation, relation=_lifted(relation.relation))


def _folded(relation: Relation) -> Fold | None:
    """What is made of the rows of a table by person, if that is asked about."""
    while isinstance(relation, Where):
        relation = relation.relation
    inner = relation.relation if isinstance(relation, Fold) and not relation.by else None
    while isinstance(inner, Where):
        inner = inner.relation
    return relation if isinstance(relation, Fold) and isinstance(inner, Scan) else None


def _counts(fold: Fold) -> bool:
    """Whether all that is made of a person's rows is their number."""
    return bool(fold.folds) and all(each == Folded("count", None) for each in fold.folds)


def _adds_counts(measure: Measure, fold: Fold) -> bool:
    """Whether it adds up how many rows people have, or does not look at that."""
    if not any(_reads(value, fold) for value in measure.reads):
        return True
    if isinstance(measure, Moments):
        return len(measure.values) == 1 and measure.degree <= 1 and _is_count(measure.values[0], fold)
    return isinstance(measure, Sum) and _is_count(measure.value, fold)


def _reads(value: Scalar, fold: Fold) -> bool:
    """Whether a value depends on what is made of the rows of a person."""
    return any(each.name.startswith(f"t{fold.number}.") for each in fields(value))


def _is_count(value: Scalar, fold: Fold) -> bool:
    """Whether a value is the number of rows of a person."""
    while isinstance(value, Call) and value.function == "clamp":
        value = value.arguments[0]
    names = [f"t{fold.number}.{i}" for i, each in enumerate(fold.folds) if each == Folded("count", None)]
    return isinstance(value, Field) and value.name in names


def _fitted(
    measure: Measure,
    histogram: Measured,
    noise: float,
    groups: int,
    size: int,
    rows: int,
    *,
    trusted: bool,
) -> Measure:
    """A measure at the cap with the least error; where the declared one is `trusted`, nobody is taken to have
    more rows."""
    if isinstance(measure, PersonCount):
        found = best(histogram, noise, groups, size)
        if found is None:
            return measure
        return replace(measure, groups=found[0], cut=None if found[0] >= size else found[1])
    if isinstance(measure, Sum):
        step = _step(measure)
        times = step / measure.clamp.step
        most = int(MOST_ROWS_PER_PERSON * max(map(abs, measure.row)) / times)
        declared = math.ceil(measure.cap / times) if trusted else None
        found = best(histogram, noise, groups, min(most, CAP), declared)
        if found is None or found[1] is None:
            return measure
        return replace(measure, rows=MOST_ROWS_PER_PERSON, limit=math.ceil(found[0] * times), cut=found[1])
    if not isinstance(measure, Moments):
        return measure
    declared = measure.rows if trusted else None
    found = best(histogram, noise, groups, min(rows, MOST_ROWS_PER_PERSON), declared)
    return measure if found is None else replace(measure, rows=found[0], cut=found[1])


def _step(measure: Sum) -> Fraction:
    """What totals are counted in: steps of the column, or of the sum."""
    return Fraction(2) ** -measure.value.domain.exponent


def _measuring(keeper: Keeper, fitted: Callable[[Measure], Measure]) -> Measuring:
    """As the keeper measures, each at a cap that fits."""

    def measuring(aggregates: Iterable[Aggregate], relation: Relation, groups: int) -> tuple[Measure, ...]:
        return tuple(fitted(each) for each in keeper.measuring(aggregates, relation, groups))

    return measuring


def _in_ratio(measure: Measure, price: float, groups: int, holdings: Holdings | None) -> Measure:
    """A measure of which only proportions are asked: people weigh alike in it, or nearly."""
    if not isinstance(measure, (Moments, Spread)) or measure.rows is None:
        return measure
    if holdings is None or not isinstance(measure, Moments):
        cap = next((rows for below, rows in IN_RATIO if price < below), measure.rows)
        cap = min(cap, measure.rows)
        alike = Shortfall(0, 0, 0, 0, 0, CUT_ALIKE)
    else:
        cap = best_in_ratio(holdings, math.sqrt(2) / price, groups, MOST_ROWS_PER_PERSON)
        alike = replace(cut(holdings, cap), back=0, wrong=0, apart=0, kind=CUT_ALIKE)
    if isinstance(measure, Spread):
        return replace(measure, rows=cap)
    return replace(measure, rows=cap, cut=alike)


def _column(value: Scalar, table: DeclaredTable) -> DeclaredColumn | None:
    """The column that a value is, clamped or not."""
    while isinstance(value, Call) and value.function == "clamp":
        value = value.arguments[0]
    if not isinstance(value, Field) or value.origin[0] != table.name:
        return None
    return next((each for each in table.columns if each.name == value.origin[1]), None)
