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

from sfumato.curator.caps import PRIVATE_GROUPS, ROWS, TOTALS, passing, price_of_one
from sfumato.curator.fits import (
    IN_RATIO,
    as_if_at,
    best,
    best_in_ratio,
    cut,
    likely_off,
    seen,
    with_mean,
)
from sfumato.curator.forecast import Size
from sfumato.curator.proportions import are_all
from sfumato.curator.question import Way, asked, planned
from sfumato.curator.tables import MEASURE, Tables, added_up, capped, whole_units
from sfumato.curator.tuning import as_measured
from sfumato.queries.cells import CAP, CUT_ALIKE, CUT_VALUES, NANO, Shortfall
from sfumato.queries.domains import call
from sfumato.queries.expressions import Call, Field, fields
from sfumato.queries.measures import Moments, Octaves, PersonCount, Spread, Sum, cut_of
from sfumato.queries.plan import Plan
from sfumato.queries.policy import MOST_ROWS_PER_PERSON
from sfumato.queries.relations import Fold, Folded, Join, Scan, Union, Where, folds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sfumato.curator.fits import Holdings
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
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


def ask(
    keeper: Keeper, statement: Statement, spend: Guarantee, own: bool = True, *, others: bool = False
) -> Question:
    """A question with caps that fit, or one that measures first: by what the asker has paid for, until it is
    released, and then also by what `others` have."""
    fits = Fits(keeper, others=others)
    question = asked(keeper, statement, keeper.policy, spend, fits=partial(fits.way, own=own))
    question = replace(
        question,
        aged=tuple(fits.aged.items()),
        priced=lambda who, other: ask(who, statement, other, own),
    )
    if not fits.missing:
        return question
    return replace(
        question,
        before=tuple(fits.missing.values()),
        for_own=question.for_own or fits.for_own,
        again=lambda who, own: ask(who, statement, spend, own, others=True),
        guessed=lambda: guessed(keeper, statement, spend, own),
    )


def guessed(keeper: Keeper, statement: Statement, spend: Guarantee, own: bool = True) -> Question:
    """A question as it is likely to be once its histogram is bought: as if people had as much of it as they
    have rows, or values in sum, in its table. It is never asked, only looked at."""
    fits = Fits(keeper, guesses=True)
    return asked(keeper, statement, keeper.policy, spend, fits=partial(fits.way, own=own))


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
    aged: dict[str, int] = field(default_factory=dict)  # what is older than the data: how often they changed
    others: bool = False  # whether histograms count that others have paid for
    guesses: bool = False  # whether a table's histogram stands in for one of its own that is not bought
    given: Mapping[str, Measured] | None = None  # own histograms, where they are paid apart from the question
    own: dict[str, Question] = field(default_factory=dict)  # those that it would have
    possible: dict[str, Question] = field(default_factory=dict)  # and those that it could have at any price
    stands: dict[object, Measured] = field(default_factory=dict)  # what is guessed for them

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
            lifted = self._capped_below(folded, MOST_ROWS_PER_PERSON)
            return Way(lifted, self.keeper.measuring, spend)
        elif not all(_adds_counts(measure, folded) for measure in plan.measures):
            return None  # of powers and products a cap cuts more than of their parts
        else:
            asked_for = {plan.measures[0]: self._rows_of(folded.relation, spend)}
        wanted = {m: each for m, each in asked_for.items() if each is not None and (own or each.is_tables)}
        if not wanted:
            return None
        rest = spend
        if self.given is not None:
            self.own |= {e.histogram.key: e.histogram for e in wanted.values() if not e.is_tables}
        elif count := sum(not each.is_tables for each in wanted.values()):  # these share what is for caps
            share = whole_units(spend, spend.amount * OWN / count)
            wanted = {
                m: e if e.is_tables else Finding(repriced(e.histogram, share), False)
                for m, e in wanted.items()
            }
            self.for_own = spend.of(share.amount * count, Fraction(0))
            rest = spend.of(spend.amount - share.amount * count, spend.delta)
        found = {m: self._known(each) or self._stand_in(m, relation, each) for m, each in wanted.items()}
        if any(found[m] is None and (self.guesses or not each.is_tables) for m, each in wanted.items()):
            return None
        groups = PRIVATE_GROUPS if plan.private_keys else max(plan.size, 1)
        noise = math.sqrt(2) / price_of_one(plan, rest)
        if folded is not None:
            (rows,) = found.values()
            return self._below(folded, rows, noise, groups, rest)

        trusted, sizes = self._is_trusted(plan), dict[object, Size | None]()

        def fitted(measure: Measure) -> Measure:
            if (histogram := found.get(measure)) is None:
                return measure
            rows = _lifted(relation).rows or MOST_ROWS_PER_PERSON
            whole = self._whole_of(measure, wanted[measure], relation)
            fits = _fitted(measure, histogram, noise, groups, plan.size, rows, trusted=trusted, whole=whole)
            size = _size(fits, histogram, groups, whole, self.stands.get(measure))
            if size is not None and measure in self.stands:  # of a whole table; some of it is asked for
                size = replace(size, amount=size.amount / passing(relation))
            sizes[_bare(fits)] = size
            return fits

        return Way(policy, _measuring(self.keeper, fitted), rest, lambda each: sizes.get(_bare(each)))

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
        totals = {m: self._totals_in(m, relation, known) for m in plan.measures}

        def fitted(measure: Measure) -> Measure:
            return _in_ratio(measure, price, groups, holdings, totals.get(measure))

        def size(measure: Measure) -> Size | None:
            if holdings is None or not isinstance(measure, (Moments, Spread)):
                return None
            if isinstance(measure, Spread):
                return Size(holdings.kept(measure.rows or 1))
            mean = float(measure.cut.mean * NANO) if measure.cut is not None and measure.cut.rows else None
            return Size(holdings.kept(measure.rows or 1), mean)

        return Way(self.keeper.policy, _measuring(self.keeper, fitted), spend, size)

    def _totals_in(self, measure: Measure, relation: Relation, known: set[str]) -> Holdings | None:
        """How much people have of what is averaged, if that is a whole column of what is not negative."""
        table = self.keeper.policy.table(relation.table) if isinstance(relation, Scan) else None
        if table is None or table.name not in known or not isinstance(measure, Moments):
            return None
        if (measure.degree, len(measure.values), measure.nulls) != (1, 1, False):
            return None
        column, (clamp,) = _column(measure.values[0], table), measure.clamps
        if column not in added_up(table) or column is None or clamp.least < 0:
            return None
        if (clamp.low, clamp.high, clamp.exponent) != (column.low, column.high, column.exponent):
            return None
        totals = self._known(self._totals(table, column))
        return None if totals is None else seen(totals)

    def _below(self, fold: Fold, rows: Measured | None, noise: float, groups: int, rest: Guarantee) -> Way:
        """What is made of the rows of each person by herself: then it is these rows that are capped."""
        policy, declared = self.keeper.policy, fold.relation.rows
        found = None if rows is None else best(rows, noise, groups, MOST_ROWS_PER_PERSON, declared)
        if found is None or rows is None:
            return Way(policy, self.keeper.measuring, rest)
        cap, lost = found

        def fitted(measure: Measure) -> Measure:
            if lost is None:
                return measure
            if isinstance(measure, Moments) and measure.degree == 1 and _is_count(measure.values[0], fold):
                return replace(measure, cut=replace(lost, kind=CUT_VALUES))
            if isinstance(measure, Sum) and _is_count(measure.value, fold):
                return replace(measure, cut=lost)
            return measure

        def size(measure: Measure) -> Size | None:
            holdings = seen(rows)
            if holdings is None or not isinstance(measure, Moments):
                return None
            people = float(holdings.people[1:].sum())
            if measure.degree != 1 or not _is_count(measure.values[0], fold):
                return Size(people)
            (clamp,) = measure.clamps
            mean = holdings.kept(cap) / max(people, 1.0) / float(clamp.step) - clamp.least
            off = 0.0 if lost is None else likely_off(holdings, cap, groups)
            return Size(people, min(max(mean / clamp.width, 0.0), 1.0), off)

        return Way(self._capped_below(fold, cap), _measuring(self.keeper, fitted), rest, size)

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
        if any(field.name in dict(folds_of(relation)) for value in measure.reads for field in fields(value)):
            return None  # what is made of each person's rows is bounded as it is declared
        most = _lifted(relation).rows or 1
        match measure:
            case Moments() if most > (measure.rows or 0):
                found = None
                if table is not None and all(_column(each, table) for each in measure.values):
                    found = self._rows(table.name)
                there = relation
                if len(measure.values) == 1 and not measure.nulls and not measure.values[0].domain.required:
                    there = Where(relation, call("not", call("is null", measure.values[0])))
                return self._better(found, there, Octaves(None, None, 0, ROWS), spend)
            case Sum(value, clamp) if most > 1 and measure.limit is None and not measure.centre:
                column, found = None if table is None else _column(value, table), None
                if table is not None and column is not None and column in added_up(table):
                    found = self._totals(table, column)
                return self._better(found, relation, Octaves(value, clamp, 0, TOTALS), spend)
            case PersonCount(value, groups) if not plan.private_keys and groups < plan.size:
                if value is not None:
                    relation = Where(relation, call("not", call("is null", value)))
                pairs = Fold(PAIRS, relation, tuple(key.expression for key in plan.keys), ())
                return self._own(pairs, Octaves(None, None, 0, plan.size.bit_length() + 2), spend)
        return None

    def _better(self, tables: Finding | None, there: Relation, measure: Octaves, spend: Guarantee) -> Finding:
        """A table's histogram, if there is one and it was dearer than one of its own would be; else that.
        Of several questions together it is one that they share, once it is bought."""
        own = self._own(there, measure, spend)
        if self.given is not None and not self.guesses:
            return tables if tables is not None and own.histogram.key not in self.given else own
        price = own.histogram.query.asked.amount
        if tables is None or tables.histogram.query.asked.amount < price:
            return own
        return tables

    def _own(self, relation: Relation, measure: Octaves, spend: Guarantee) -> Finding:
        """How much people have of just what a question adds up."""
        part = OWN if self.given is None else OWN / (1 - OWN)  # it is paid beside the question
        price = spend.of(spend.amount * part, Fraction(0))
        told = f"caps that fit {' and '.join(sorted(relation.tables))}: {measure.told}"
        histogram = planned(self.keeper, told, Plan(relation, (), (measure,), ()), price)
        self.possible[histogram.key] = histogram
        return Finding(histogram, False)

    def _rows_of(self, inner: Relation, spend: Guarantee) -> Finding:
        """Of how many rows what is made of them by person is made."""
        found = self._rows(inner.table) if isinstance(inner, Scan) else None
        return self._better(found, inner, Octaves(None, None, 0, ROWS), spend)

    def _rows(self, name: str) -> Finding:
        table = self.keeper.policy.table(name)
        assert table is not None
        return Finding(Tables(self.keeper).rows(table), True)

    def _totals(self, table: DeclaredTable, column: DeclaredColumn) -> Finding:
        return Finding(Tables(self.keeper).totals(table, column), True)

    def _whole_of(self, measure: Measure, wanted: Finding, relation: Relation) -> Measured | None:
        """What is known of all rows of the table, where a question adds up some of them."""
        inner = relation
        while isinstance(inner, Where):
            inner = inner.relation
        table = self.keeper.policy.table(inner.table) if isinstance(inner, Scan) else None
        if wanted.is_tables or inner is relation or table not in capped(self.keeper.policy) or table is None:
            return None
        if isinstance(measure, Moments):
            return self._known(self._rows(table.name), buys=False)
        column = _column(measure.value, table) if isinstance(measure, Sum) else None
        if column is None or column not in added_up(table):
            return None
        return self._known(self._totals(table, column), buys=False)

    def _stand_in(self, measure: Measure, relation: Relation, wanted: Finding) -> Measured | None:
        """What is known of the table that a question is about, where only a guess is wanted."""
        tables = [each for each in capped(self.keeper.policy) if each.name in relation.tables]
        if not self.guesses or len(tables) != 1:
            return None
        if not isinstance(measure, Sum):
            found = self._known(self._rows(tables[0].name), buys=False)
        else:
            column = _column(measure.value, tables[0])
            if column is None or column not in added_up(tables[0]):
                return None
            found = self._known(self._totals(tables[0], column), buys=False)
        if found is None:
            return None
        self.stands[measure] = found
        return as_if_at(found, wanted.histogram.query.asked.amount)

    def _known(self, source: Finding, *, buys: bool = True) -> Measured | None:
        """What was released of it: of a table about the data as they are or once were, at any price."""
        histogram = source.histogram
        if source.is_tables:
            tables = Tables(self.keeper)
            if (found := tables.found(histogram)) is not None:
                if found.changes:
                    self.aged[histogram.sql.removeprefix(f"{MEASURE} ")] = found.changes
                return found.measured
            is_missing = buys and tables.may_buy(histogram)
        elif self.given is not None:
            return self.given.get(histogram.key)
        else:
            stored = histogram.stored() if self.others else histogram.own_stored()
            if stored is not None:
                return as_measured(stored.receipt.price, stored.drawn[0])
            is_missing = buys
        if is_missing:
            self.missing[histogram.key] = replace(histogram, is_part=True, is_owners=source.is_tables)
        return None


def repriced(histogram: Question, price: Guarantee) -> Question:
    """The same histogram at another price."""
    price = price.of(price.amount, Fraction(0))
    return planned(histogram.database, histogram.sql, histogram.plan, price)


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
    whole: Measured | None,
) -> Measure:
    """A measure at the cap with the least error; where the declared one is `trusted`, nobody is taken to have
    more rows. Of the `whole` of a table it may be known how much people have."""
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
        signed = measure.row[0] < 0 < measure.row[1]
        found = best(histogram, noise, groups, min(most, CAP), declared, whole, signed=signed)
        if found is None or found[1] is None:
            return measure
        return replace(measure, rows=MOST_ROWS_PER_PERSON, limit=math.ceil(found[0] * times), cut=found[1])
    if not isinstance(measure, Moments):
        return measure
    declared = measure.rows if trusted else None
    found = best(histogram, noise, groups, min(rows, MOST_ROWS_PER_PERSON), declared, whole)
    return measure if found is None else replace(measure, rows=found[0], cut=found[1])


def _bare(measure: Measure) -> Measure:
    """A measure without what is known of it beside its cells."""
    if isinstance(measure, Moments):
        return replace(measure, cut=None, total=None)
    return replace(measure, cut=None) if isinstance(measure, (Sum, PersonCount)) else measure


def _size(
    measure: Measure, histogram: Measured, groups: int, whole: Measured | None, guess: Measured | None
) -> Size | None:
    """About how much there is of what a measure adds up, under its cap, by a histogram of it; or by a better
    one that was the `guess`."""
    found = seen(histogram, whole)
    if found is None:
        return None
    times, cap = 1.0, math.inf
    if isinstance(measure, PersonCount):
        cap = measure.groups
    elif isinstance(measure, Moments):
        cap = measure.rows or 1
    elif isinstance(measure, Sum) and measure.row[0] >= 0:
        times = float(_step(measure) / measure.clamp.step)
        cap = math.inf if measure.limit is None else measure.limit / times
    else:
        return None  # of what has both signs it is not known how much is left
    off = 0.0 if cut_of(measure) is None else likely_off(found, cap, groups)
    if guess is not None and (better := seen(guess)) is not None:  # people that the histogram will not see
        off = math.hypot(off, max(better.lost(cap) - found.lost(cap), 0.0) / max(better.kept(cap), 1.0))
        found = better
    return Size(found.kept(cap) * times, off=off)


def _step(measure: Sum) -> Fraction:
    """What totals are counted in: steps of the column, or of the sum."""
    return Fraction(2) ** -measure.value.domain.exponent


def _measuring(keeper: Keeper, fitted: Callable[[Measure], Measure]) -> Measuring:
    """As the keeper measures, each at a cap that fits."""

    def measuring(aggregates: Iterable[Aggregate], relation: Relation, groups: int) -> tuple[Measure, ...]:
        return tuple(fitted(each) for each in keeper.measuring(aggregates, relation, groups))

    return measuring


def _in_ratio(
    measure: Measure, price: float, groups: int, holdings: Holdings | None, totals: Holdings | None
) -> Measure:
    """A measure of which only proportions are asked: people weigh alike in it, or nearly. If rows and
    `totals` are known, so is the mean over all rows."""
    if not isinstance(measure, (Moments, Spread)) or measure.rows is None:
        return measure
    if holdings is None or not isinstance(measure, Moments):
        cap = next((rows for below, rows in IN_RATIO if price < below), measure.rows)
        cap = min(cap, measure.rows)
        alike = Shortfall(0, 0, 0, 0, 0, CUT_ALIKE)
    else:
        cap = best_in_ratio(holdings, math.sqrt(2) / price, groups, MOST_ROWS_PER_PERSON)
        alike = replace(cut(holdings, cap), back=0, wrong=0, apart=0, kind=CUT_ALIKE)
        if totals is not None:
            alike = with_mean(alike, holdings, totals, cap, measure.clamps[0])
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
