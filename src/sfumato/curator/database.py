"""The path of a query, from SQL text to release."""

from __future__ import annotations

import copy
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.budget import Ledger
from sfumato.budget.shares import check_name, check_printable
from sfumato.curator.budget import Budget, worth
from sfumato.curator.calibrate import Query, calibrate, count_within
from sfumato.curator.drawing import Paid, Stored, chooser, draw, parted
from sfumato.curator.explanation import Explanation
from sfumato.curator.home import home_of, stands
from sfumato.curator.intervals import uses
from sfumato.curator.names import Names, batch
from sfumato.curator.promises import Judge
from sfumato.curator.refusals import check_least, private_keys, too_small
from sfumato.curator.release import Cell, Release, Releases
from sfumato.curator.repairs import was_wrong
from sfumato.curator.said import Said
from sfumato.curator.suggest import Standing, Suggestion
from sfumato.curator.tuning import ROWS, TOTALS, resolve, tuned_by
from sfumato.errors import Halted, InvalidParameter, PromiseBroken
from sfumato.exact.coins import Coins, SystemCoins
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import FINER, decimal
from sfumato.queries import former, forms
from sfumato.queries import policy as policies
from sfumato.queries.declared import Measured, TunedColumn, Tuning
from sfumato.queries.expressions import Field, clamped
from sfumato.queries.parameters import bind
from sfumato.queries.plan import Clamp, Octaves, Plan
from sfumato.queries.promises import promise_of
from sfumato.queries.rewrite import rewrite
from sfumato.queries.rows import domain_of
from sfumato.queries.sensitivity import derive, one_of
from sfumato.queries.sql import parse
from sfumato.sources.duckdb import DuckDB, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from sfumato.budget import Draw
    from sfumato.exact.secret import Secret
    from sfumato.mechanisms import Spend
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.asking import Measuring
    from sfumato.queries.declared import Column, Table
    from sfumato.queries.parameters import Given
    from sfumato.queries.policy import Policy
    from sfumato.queries.relations import Relation
    from sfumato.queries.sensitivity import Derivation, Watched
    from sfumato.sources.answers import Answer
    from sfumato.sources.halt import Halt

    Runs = dict[tuple[object, ...], Secret[Answer]]
    Pace = Callable[..., AbstractContextManager[Halt | None]]


class Database:
    """A database behind a policy. Ask it with `sql`; nothing else reads a row.

    `pace` is entered after a charge, with its number, and left before its release is stored: how long the
    engine takes depends on the data, so whoever makes a promise about time waits there, and may stop the
    engine by the `Halt` that it hands out. The library makes none.
    """

    pace: Pace = staticmethod(lambda *_: nullcontext())

    def __init__(
        self, policy: Policy, source: DuckDB, ledger: Ledger, coins: Coins, analyst: str = ""
    ) -> None:
        self.policy, self.ledger, self.analyst = policy, ledger, analyst
        self._source, self._coins = source, coins
        self.alike = source.alike  # about public tables
        self.names = Names.of(policy, ledger.path)
        self.judges = tuple(Judge(promise, policy, source.counted) for promise in policy.promises)
        for n, judge in enumerate(self.judges):
            try:
                judge.check()
            except InvalidParameter as error:
                raise policies.problem(policy, ("promise", str(n)), str(error)) from None
        known = ledger.promises()
        ledger.promise(tuple(judge.as_known(known) for judge in self.judges))

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        tune: Number | None = None,
        parameters: Sequence[Given] = (),
    ) -> Question:
        """A question at a price. It is checked here, and asked only when you call `release()`.

        The price is in the currency of the policy's budget: an epsilon, or a rho. Where the budget has a
        delta, a question may take some of it, which pays for many groups or many columns at once. With
        `tune`, so much of the price is first spent on caps that fit this question: see `Database.tune`.
        `parameters` are the values of $1, $2, ... in the text; a list is one for = ANY ($1).
        """
        if parameters or "$" in sql:
            sql = bind(sql, parameters)
        spend = self._price(epsilon, rho, delta)
        if tune is None:
            return self._asked(sql, self.policy, spend)
        part = Guarantee.read(**{spend.currency: tune})
        if part.amount >= spend.amount:
            advice = f"give less than the price, which is {spend}: a tenth of it is often right"
            raise InvalidParameter("tune", tune, advice)
        question = self._asked(sql, self.policy, spend.of(spend.amount - part.amount, spend.delta))
        if not self.tuned_by(question.plan):
            told = "leave it out: no table of this question has persons whose rows are capped"
            raise InvalidParameter("tune", tune, told)
        return replace(question, tuning=part)

    def _asked(
        self, sql: str, declared: Policy, spend: Guarantee, tuned_for: Guarantee | None = None
    ) -> Question:
        first = plan = parse(sql, declared, self._measuring)  # refused here: free, and the data are untouched
        fitting = resolve(declared, plan, spend)
        if fitting is not declared:  # a table was tuned: its caps fit the price and the groups
            plan = parse(sql, fitting, self._measuring)
        if plan.private_keys and not spend.delta:
            raise private_keys(plan, self.policy, self.ledger.total, sql)
        facts: dict[str, Any] = {"declared": first, "policy": declared, "fitting": fitting}
        return replace(self._question(sql, plan, spend), **facts, tuned_for=tuned_for)

    def _question(self, told: str, plan: Plan, spend: Guarantee) -> Question:
        derivations = derive(plan, self._watched)
        distances = tuple(each.distances for each in derivations)
        query = calibrate(plan.measures, distances, spend, uses(plan))
        engine_sql = ";\n".join(self._source.texts(plan))
        return Question(self, told, plan, query, derivations, engine_sql, declared=plan)

    @property
    def _measuring(self) -> Measuring:
        """How aggregates are measured, so that promises about a column's own distance are kept."""
        return partial(rewrite, watched=[(each.table, each.column.name) for each in self._watched])

    @property
    def _watched(self) -> tuple[Watched, ...]:
        """The columns that some promise measures by their own distance."""
        found = [judge.watched for judge in self.judges]
        return tuple(dict.fromkeys(each for each in found if each is not None))

    def suggest_epsilon(
        self,
        secret: str,
        *,
        advantage: str | float | Fraction,
        within: Number | None = None,
        above: Number | None = None,
        prior: Any = "uniform",
        metric: str = "record",
        group: int = 1,
    ) -> Suggestion:
        """The epsilon that keeps everybody within this advantage; costs nothing, and reads no private row.

        `secret` is a column ("patients.age"); a guess is right within so much of the value, or on the right
        side of `above`, or, for a category, if it is the value. `prior` is what an attacker believes: see the
        reference of policies.
        """
        given = {"within": within, "above": above, "prior": prior, "metric": metric, "group": group}
        body = {key: value for key, value in given.items() if value is not None}
        body = {"secret": secret, "advantage": advantage, **body}
        promise = promise_of(body, self.policy.tables, self.policy.budget)
        judge = Judge(promise, self.policy, self._source.counted)
        judge.check()
        return Suggestion(judge, self.ledger.lost(judge.relation))

    @property
    def standing(self) -> Standing:
        """What each promise of the policy allows, and what was gained at most so far."""
        return Standing(self.judges, self.ledger.own, self.ledger.lost, self.ledger.most)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What the promises of the policy come to."""
        return tuple(Suggestion(judge, self.ledger.lost(judge.relation)) for judge in self.judges)

    @property
    def said(self) -> Said:
        """What the policy says beside what is spent and enforced: what is broken, and what is still kept."""
        return Said(self.policy, self.ledger, self.judges)

    def _price(self, epsilon: Number | None, rho: Number | None, delta: Number | None) -> Guarantee:
        total = self.ledger.total
        wanted, other = ("epsilon", rho) if total.rho is None else ("rho", epsilon)
        much = "0.1" if wanted == "epsilon" else "0.01"
        if epsilon is None and rho is None:
            told = f'say what the question may cost: {wanted}="{much}", in a terminal --{wanted} {much}'
            raise InvalidParameter(wanted, "nothing", told)
        if other is not None:
            advice = (
                f'this database counts {wanted}: write {wanted}="{much}", in a terminal --{wanted} {much}'
            )
            raise InvalidParameter("rho" if wanted == "epsilon" else "epsilon", other, advice)
        if delta is not None and (total.rho is not None or not total.delta):
            raise InvalidParameter("delta", delta, "leave it out: this budget has none for questions")
        return Guarantee.read(epsilon=epsilon, rho=rho, delta=delta)

    def batch(self, questions: Iterable[Question], *, delta: Number | None = None) -> Batch:
        """Questions that are fixed before the first answer, as one charge; with a delta for less epsilon."""
        total = self.ledger.total
        if delta is not None and (total.rho is not None or not total.delta):
            raise InvalidParameter("delta", delta, "leave it out: this budget has none for questions")
        asked = tuple(questions)
        lost = sum((step.bound().delta for each in asked for step in each.query.steps), Fraction(0))
        theirs = sum((each.query.slack for each in asked), Fraction(0))
        slack = theirs if delta is None else Guarantee.read(epsilon=1, delta=delta).delta
        if slack < lost:
            advice = (
                f"private groups among the questions take {decimal(lost, FINER)} of it: give at least that"
            )
            raise InvalidParameter("delta", delta, advice)
        return Batch(self, asked, slack)

    @property
    def budget(self) -> Budget:
        """Total, spent, left, what that is good for, history and shares."""
        ledger = self.ledger
        spent = ledger.spent
        limit = ledger.limit
        good_for = self._worth(limit.minus(spent))
        facts = (spent, ledger.history(), ledger.shares(), ledger.head, good_for)
        return Budget(
            self.policy.name, limit, *facts, lambda entry: was_wrong(entry, self.policy), self.said.bound
        )

    def _worth(self, left: Guarantee) -> str:
        """How many more plain counts of the first table are left, at an error of ten people's rows."""
        for table in self.policy.tables:
            if not table.public:
                name = table.name.replace('"', '""')
                plan = parse(f'SELECT COUNT(*) FROM "{name}"', self.policy)
                (derivation,) = derive(plan)
                measure = plan.measures[0]
                cost, error = count_within(
                    measure, derivation.distances, left.of(Fraction(0)), one_of(measure)
                )
                cost = cost.of(max(cost.amount, self.policy.least), cost.delta)
                return worth(left, cost, f"COUNT(*) of {table.name}", error)
        return ""

    def tune(
        self,
        table: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        columns: Iterable[str] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> tuple[Tuning, tuple[int, ...]]:
        """Spend once on how much people have, so that caps can fit; what was released, and its receipts.

        Nothing changes until it stands in the policy (`curator.tuning.section`). Two fifths of the price go
        to rows, the rest to columns: a quarter of each column's part to its centre, the rest to totals.
        """
        spend = self._price(epsilon, rho, None)
        found = self.policy.table(table)
        known = [each.name for each in self.policy.tables if each.rows_per_person is not None]
        if found is None or found.rows_per_person is None:
            raise InvalidParameter("table", table, f"name a table of persons: {', '.join(known) or 'none'}")
        bounded = [c.name for c in found.columns if c.low is not None and not c.tuned]
        wanted = bounded if columns is None else list(columns)
        for name in wanted:
            if name not in bounded:
                raise InvalidParameter("columns", name, f"name columns with bounds: {', '.join(bounded)}")
        share = self._share(spend, bool(wanted)).amount
        each = Fraction(0) if not wanted else spend.amount * 3 / 5 / len(wanted)
        progress(f"{found.name}: rows")
        rows, receipt = self._octaves(found, None, Fraction(0), spend.of(share))
        receipts, tuned = [receipt], []
        for name in wanted:
            progress(f"{found.name}: {name}")
            column = found.column(name)
            assert column is not None
            centre, receipt = self._centre(found, column, Tuning(rows), spend.of(each / 4))
            totals, second = self._octaves(found, column, Fraction(0), spend.of(each * 3 / 8))
            centred, third = self._octaves(found, column, centre, spend.of(each * 3 / 8))
            tuned.append(TunedColumn(name, centre, column.exponent, totals, centred))
            receipts += [receipt, second, third]
        return Tuning(rows, tuple(tuned)), tuple(receipts)

    def _share(self, spend: Guarantee, has_columns: bool) -> Guarantee:
        """What of a price for tuning goes to rows."""
        return spend.of(spend.amount * 2 / 5 if has_columns else spend.amount)

    def _octaves(
        self, table: Table, column: Column | None, centre: Fraction, spend: Guarantee
    ) -> tuple[Measured, int]:
        """A histogram over people of their rows, or of what they have of a column."""
        if column is None:
            question = self._rows_question(table, spend)
        else:
            assert column.low is not None
            assert column.high is not None
            field = Field(f"t0.{column.name}", domain_of(column), "", (table.name, column.name))
            clamp = Clamp(column.low, column.high, column.exponent)
            middle = round(centre * Fraction(2) ** column.exponent)
            measure = Octaves(clamped(field), clamp, middle, TOTALS)
            told = f"tune {table.name}: {column.name}" + (" around its centre" if middle else "")
            question = self._question(told, Plan(self._all_rows(table), (), (measure,), ()), spend)
        release = self.release(replace(question, is_part=True))
        price = (
            spend.amount
            if spend.rho is None
            else Fraction(2 * math.sqrt(spend.amount)).limit_denominator(10**6)
        )
        return Measured(price, tuple(int(y) for y in release.drawn[0])), release.receipt.number

    def _rows_question(self, table: Table, spend: Guarantee) -> Question:
        """How many persons have how many rows."""
        plan = Plan(self._all_rows(table), (), (Octaves(None, None, 0, ROWS),), ())
        return self._question(f"tune {table.name}: rows", plan, spend)

    def _all_rows(self, table: Table) -> Relation:
        return parse('SELECT COUNT(*) FROM "' + table.name.replace('"', '""') + '"', self.policy).relation

    def _centre(self, table: Table, column: Column, tuning: Tuning, spend: Guarantee) -> tuple[Fraction, int]:
        """About the mean of a column, on its grid."""
        names = [each.replace('"', '""') for each in (column.name, table.name)]
        sql = f'SELECT AVG("{names[0]}") FROM "{names[1]}"'
        others = [replace(t, tuning=tuning if t.name == table.name else None) for t in self.policy.tables]
        policy = replace(self.policy, tables=tuple(others))
        release = self.release(replace(self._asked(sql, policy, spend), is_part=True))
        (cell,) = release.exact()[0].values()
        assert isinstance(cell, Cell)
        assert cell.value is not None
        step = Fraction(2) ** -column.exponent
        return round(cell.value / step) * step, release.receipt.number

    def tuned_by(self, plan: Plan) -> dict[str, list[str]]:
        """The tables whose caps matter to a plan, and of each the columns that are added up."""
        return tuned_by(self.policy, plan)

    def _tuned(self, question: Question) -> Question:
        """Spend the question's part for caps, and ask it with them. Asked again, all of it is free."""
        part, wanted = question.tuning, self.tuned_by(question.plan)
        assert part is not None
        each = part.of(part.amount / len(wanted))
        first = self.policy.table(next(iter(wanted)))
        assert first is not None
        known = self.is_paid(self._rows_question(first, self._share(each, bool(wanted[first.name]))))
        left = self.left
        if not known and (question.price.amount > left.amount or question.price.delta > left.delta):
            advice = self.ledger.more
            whose = repr(self.policy.name) if not self.analyst else f"the share of {self.analyst!r}"
            raise self.ledger.exceeded(whose, question.price, left, advice)
        if not known:
            check_least(self.policy, [question.whole])
        if not known and (told := question.breaks):
            raise PromiseBroken(self.policy.name, str(question.price), str(left), told)
        tables = {}
        for name, columns in wanted.items():
            tables[name], _ = self.tune(name, epsilon=each.epsilon, rho=each.rho, columns=columns)
        tuned = [replace(t, tuning=tables.get(t.name, t.tuning)) for t in self.policy.tables]
        declared = replace(self.policy, tables=tuple(tuned))
        return self._asked(question.sql, declared, question.query.asked, tuned_for=part)

    def data_changed(self) -> None:
        """Say that the tables changed: stored releases are no longer repeated. Returns no budget."""
        self.ledger.data_changed()

    def release(self, question: Question) -> Release:
        """Charge, run, draw, store, show: in that order (law 2).

        If anything fails after the charge, the charge stays: a refund would tell something about the data.
        """
        if question.tuning is not None:
            question = self._tuned(question)
        if (repeated := self.kept(question)) is not None:
            return repeated  # asked before: free
        self.check_version()
        paid = self.redeemed(question) or self.charged(question, question.query.slack)
        ((plan, query),) = paid.parts
        with self.pace(paid.receipt.number, plan) as halt:
            drawn = self.drawn(plan, query, halt=halt)
        shown = self.ledger.keep(paid.receipt, drawn)  # on disk before it is seen; the first wins
        gains = self.said.gains(query, paid=True)
        return Release(self.policy.name, plan, query, shown, paid.receipt, self.left, self.analyst, gains)

    def charged(self, asked: Question | Batch, slack: Fraction) -> Paid:
        """Charge for it: on disk before a row is read. Only what is charged has a least price."""
        parts = asked.questions
        check_least(self.policy, [each.whole for each in parts if not each.is_part])
        receipt = self.ledger.charge(
            tuple(step for each in parts for step in each.query.spend),
            asked.key,
            slack=slack,
            question=asked.text,
            analyst=self.analyst,
            asked=[each.query.asked for each in parts],
            meaning=[each.meaning for each in parts],
        )
        return Paid(receipt, tuple((each.plan, each.query) for each in parts))

    def redeemed(self, asked: Question | Batch) -> Paid | None:
        """A charge whose release was never stored: then what was charged is what is drawn.

        Its steps must be those of the measures that would be run now, at the distances that hold now.
        """
        parts = asked.questions
        prices, plans = [each.query.asked for each in parts], [each.plan for each in parts]
        found = self.ledger.unredeemed(asked.keys, prices, meaning=[_meaning(plan) for plan in plans])
        if found is None and self._watched:  # it was paid for before its column was promised
            plans = [each.unwatched for each in parts]
            found = self.ledger.unredeemed(asked.keys, prices, meaning=[_meaning(plan) for plan in plans])
        if found is None and self.may_be_former(asked):
            plans = [each.former for each in parts]
            sizes = [len(plan.measures) for plan in plans]
            found = self.ledger.unredeemed([asked.formerly(plans)], prices, sizes=sizes)
        if found is None:
            return None
        receipt, spend = found
        if self.ledger.is_held(receipt.number):
            raise Halted(self.policy.name, receipt.number)
        derived = [each.distances for plan in plans for each in derive(plan, self._watched)]
        if [step.distances for step in spend] != derived:
            return None
        return Paid(receipt, parted(plans, spend, prices))

    def drawn(
        self, plan: Plan, query: Query, runs: Runs | None = None, halt: Halt | None = None
    ) -> Secret[Draw]:
        """Run it and add the noise, all of it sealed. `runs` holds what was run before for the same batch.

        Private groups are chosen for each question by itself, so what is measured is run for each.
        """
        if runs is None or plan.private_keys:
            choose = chooser(query, self._coins)
            return self._source.run(plan, choose, halt).map(lambda answer: draw(query, answer, self._coins))
        measured = (plan.relation, plan.keys, plan.measures)
        if measured not in runs:
            runs[measured] = self._source.run(plan, halt=halt)
        return runs[measured].map(lambda answer: draw(query, answer, self._coins))

    def kept(self, question: Question, *, version: int | None = None) -> Release | None:
        """The stored release that answers a question, about the data as they are or as they were; free."""
        found = self.stored(question, version)
        if found is None:
            return None
        ((plan, query),) = found.parts
        gains, facts = self.said.gains(query, paid=True), (found.receipt, self.left, self.analyst)
        return Release(self.policy.name, plan, query, found.drawn, *facts, gains)

    def stored(self, asked: Question | Batch, version: int | None = None) -> Stored | None:
        """What is stored for it, about the data as they are or as they were."""
        parts = asked.questions
        prices = [each.query.asked for each in parts]
        kept = self.ledger.kept(asked.keys, asked=prices, version=version)
        plans = [] if kept is None else _meant(parts, kept.meaning)
        if not plans and self.may_be_former(asked):
            plans = [each.former for each in parts]
            sizes = [len(plan.measures) for plan in plans]
            kept = self.ledger.kept(asked.formerly(plans), asked=prices, sizes=sizes, version=version)
        if kept is None or not plans:
            return None
        paid = [kept.receipt.price] if len(plans) == 1 else prices
        return Stored(kept.receipt, parted(plans, kept.spend, paid), kept.drawn)

    def may_be_former(self, asked: Question | Batch) -> bool:
        """Whether an answer may be stored under a name of before: not where it was read wrongly then."""
        return self.ledger.has_former and not any(each.plan.repairs for each in asked.questions)

    def on_behalf_of(self, analyst: str, pace: Pace | None = None) -> Database:
        """The same database, engine and ledger, asked by somebody else, and perhaps at another pace."""
        check_printable(analyst)
        other = copy.copy(self)
        other.analyst = analyst
        other.pace = pace or self.pace
        return other

    def check_version(self) -> None:
        """Refuse, before anything is charged, to answer from a copy of data that changed."""
        self._source.check_version()

    @property
    def left(self) -> Guarantee:
        """What whoever asks can still spend: of the total, and of a share if there is one."""
        return self.ledger.left_for(self.analyst)

    def is_paid(self, question: Question) -> bool:
        """Whether a stored release already answers the question."""
        return self.stored(question) is not None

    def __repr__(self) -> str:
        total = self.ledger.limit
        left = decimal(self.ledger.left.amount)
        lines = [f"  {self.policy.name}: {total.currency} {left} of {decimal(total.amount)} left"]
        for table in self.policy.tables:
            owner = "public" if table.public else f"unit: {table.unit or 'row'}"
            columns = ", ".join(column.name for column in table.columns)
            lines.append(f"  {table.name} ({owner})" + (f": {columns}" if columns else ""))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class Question:
    """A checked question and its price. Looking at it never spends."""

    database: Database
    sql: str
    plan: Plan
    query: Query
    derivations: tuple[Derivation, ...]
    engine_sql: str  # what the engine will run; printed here, so that printing cannot fail after the charge
    tuning: Guarantee | None = None  # what is first spent on caps that fit it
    declared: Plan = field(kw_only=True)  # the plan before caps that we choose: what the question is known by
    policy: Policy | None = None  # that it was asked under; None if it is no text of SQL
    fitting: Policy | None = None  # the same with caps that we chose
    tuned_for: Guarantee | None = None  # what was spent on caps that fit it
    is_part: bool = False  # of what is spent on caps: no question by itself

    @property
    def text(self) -> str:
        """The question on one line, for the history."""
        printable = "".join(letter if letter.isprintable() else " " for letter in self.sql)
        return " ".join(printable.split())  # nothing in it can steer a terminal

    @property
    def price(self) -> Guarantee:
        """What `release()` charges at most."""
        price = self.query.guarantee()
        return price if self.tuning is None else price.of(price.amount + self.tuning.amount, price.delta)

    def explain(self) -> Explanation:
        """Price, error and derivation. Free, and no row is read."""
        paid = self.database.is_paid(self) and self.tuning is None
        return Explanation(
            self.text,
            self.plan,
            self.query,
            self.derivations,
            self.engine_sql,
            paid,
            self.database.left,
            self.tuning,
            self.database.said.gains(self.query, paid=paid),
            "" if paid else self.breaks,
            self.database.ledger.asked_before(self.text) if self.plan.repairs and not paid else (),
            "" if paid else too_small(self.database.policy, [self.whole]),
        )

    @property
    def whole(self) -> Guarantee:
        """The price that was asked for, with what is or was spent on its caps."""
        price, caps = self.query.asked, self.tuning or self.tuned_for
        return price if caps is None else price.of(price.amount + caps.amount, price.delta)

    @property
    def breaks(self) -> str:
        """The promise that it would break, in words."""
        return self.database.said.breaks(self.query.spend, self.query.slack)

    @property
    def parts(self) -> int:
        """How many releases it takes: with `tune`, one for rows, and three for a column, come first."""
        wanted = {} if self.tuning is None else self.database.tuned_by(self.plan)
        return 1 + sum(1 + 3 * len(columns) for columns in wanted.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """What it is known by: the first is written, all are looked up."""
        return self.database.names.keys(self.declared, self.tuned_for)

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.keys[0]

    @property
    def questions(self) -> tuple[Question, ...]:
        """Itself: what a batch has several of."""
        return (self,)

    @property
    def former(self) -> Plan:
        """Its plan as it was before questions had a stored form."""
        if self.policy is None:
            return self.plan
        fitting = resolve(self.policy, self.declared, self.query.asked, is_former=True)
        return parse(self.sql, fitting, former.measures)

    @property
    def unwatched(self) -> Plan:
        """Its plan as it is where no column has a distance of its own."""
        return self.plan if self.fitting is None else parse(self.sql, self.fitting)

    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by then."""
        return self.database.names.former(plans[0])

    @property
    def meaning(self) -> list[Any]:
        """What the integers that are drawn for it mean."""
        return _meaning(self.plan)

    def meant(self, meaning: list[Any]) -> Plan | None:
        """The plan by which stored integers are read, if they are an answer to it."""
        if meaning == self.meaning:
            return self.plan
        values = [value for aggregate in self.plan.wanted for value in aggregate.values]
        measures = forms.measured(meaning, values)
        if measures is None or self.fitting is None:
            return None
        return parse(self.sql, self.fitting, lambda *_: measures)

    def kept(self, *, version: int | None = None) -> Release | None:
        """The stored release that answers it, about the data as they are or as they were; free."""
        return None if self.tuning is not None else self.database.kept(self, version=version)

    def release(self) -> Release:
        """Spend the price and get the numbers; asking again is free."""
        return self.database.release(self)

    def __repr__(self) -> str:
        return (
            f"  {self.text}\n"
            f"  costs {self.price} when released, nothing until then.\n"
            f"  .explain() shows price, error and why; .release() spends and answers."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Questions that are charged and released together. Looking at it never spends.

    In epsilon or in rho the price is the sum of theirs. With a delta it is the epsilon of their common
    privacy loss, which for many questions is far below the sum.

    Guarantee: the price, for all of them together. Proof: no question depends on an answer of the batch, so
    the steps are fixed in advance (`sfumato.budget.loss`); in the ledger it is one step of a filter.
    """

    database: Database
    questions: tuple[Question, ...]
    slack: Fraction

    def __post_init__(self) -> None:
        if not self.questions:
            raise InvalidParameter("questions", "none", "give at least one: db.batch([db.sql(...), ...])")
        if any(question.database is not self.database for question in self.questions):
            raise InvalidParameter("questions", "of two databases", "ask those of one database together")
        if any(question.tuning is not None for question in self.questions):
            raise InvalidParameter("questions", "with tune", "tune first (db.tune), or ask each by itself")

    @property
    def spend(self) -> Spend:
        """The steps of all questions."""
        return tuple(step for question in self.questions for step in question.query.spend)

    @property
    def price(self) -> Guarantee:
        """What `release()` charges at most."""
        return self.database.ledger.price_of(self.spend, self.slack)

    @property
    def breaks(self) -> str:
        """The promise that it would break, in words."""
        return self.database.said.breaks(self.spend, self.slack)

    @property
    def apart(self) -> Guarantee:
        """What the questions would cost if they were asked one by one."""
        prices = [question.price for question in self.questions]
        delta = sum((price.delta for price in prices), Fraction(0))
        return self.price.of(sum((price.amount for price in prices), Fraction(0)), delta)

    def kept(self, *, version: int | None = None) -> Releases | None:
        """The stored releases that answer the batch, about the data as they are or as they were; free."""
        found = self.database.stored(self, version)
        return None if found is None else self._shown(found)

    def release(self) -> Releases:
        """Spend the price and get all the numbers; asking the same batch again is free."""
        database = self.database
        if (repeated := self.kept()) is not None:
            return repeated
        database.check_version()
        paid = database.redeemed(self) or database.charged(self, self.slack)
        with database.pace(paid.receipt.number, *(plan for plan, _ in paid.parts)) as halt:
            drawn = self._drawn(paid, halt)
        return self._shown(Stored(paid.receipt, paid.parts, database.ledger.keep(paid.receipt, drawn)))

    @property
    def text(self) -> str:
        """The questions on one line, for the history."""
        return f"batch of {len(self.questions)}: " + "; ".join(each.text for each in self.questions)

    def _drawn(self, paid: Paid, halt: Halt | None) -> Secret[Draw]:
        """All vectors of all questions, one after the other; what is asked twice is run once, drawn twice."""
        runs: Runs = {}
        first, *rest = [self.database.drawn(plan, query, runs, halt) for plan, query in paid.parts]
        for each in rest:
            first = first.beside(each).map(lambda pair: pair[0] + pair[1])
        return first

    def _shown(self, stored: Stored) -> Releases:
        releases, start, database = [], 0, self.database
        for plan, query in stored.parts:
            end = start + len(query.steps)
            gains = database.said.gains(query, paid=True)
            facts = (stored.receipt, database.left, database.analyst, gains)
            releases.append(Release(database.policy.name, plan, query, stored.drawn[start:end], *facts))
            start = end
        return Releases(tuple(releases))

    @property
    def keys(self) -> tuple[str, ...]:
        """What the batch is known by: the first is written, all are looked up."""
        return batch([question.keys for question in self.questions])

    @property
    def key(self) -> str:
        """What the batch is known by."""
        return self.keys[0]

    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by before questions had a stored form."""
        return former.batch([self.database.names.former(plan) for plan in plans])

    def __repr__(self) -> str:
        lines = [f"  {question.text}" for question in self.questions]
        lines.append(
            f"  cost {self.price} together when released ({self.apart} one by one), nothing until then."
        )
        return "\n".join(lines)


def _meaning(plan: Plan) -> list[Any]:
    return [forms.measure(each) for each in plan.measures]


def _meant(questions: Sequence[Question], meaning: Sequence[list[Any]]) -> list[Plan]:
    """The plans by which stored integers are read; none if they cannot be."""
    found = [question.meant(each) for question, each in zip(questions, meaning, strict=True)]
    plans = [plan for plan in found if plan is not None]
    return plans if len(plans) == len(found) else []


def fitting(policy: Policy) -> tuple[Policy, DuckDB]:
    """The policy with the keys of its public tables, and its source; refused if they do not fit."""
    source = source_of(policy)
    source.check(policy)
    return policy.with_keys(source.keys).with_scales(source.scales()), source


def open(  # noqa: A001  # sf.open("hospital.toml") reads well
    path: Path | str,
    *,
    analyst: str = "",
    coins: Coins | None = None,
    clock: Callable[[], float] = time.time,
    accept: bool = False,
) -> Database:
    """Open a database through its policy file, to ask as `analyst`.

    Bad declarations, missing tables and an unusable ledger are all reported here, before any question.
    `accept` goes on after a ledger was lost, with all that was spent (see `sfumato.budget.Ledger`).
    """
    written = policies.load(path)
    policy, source = fitting(written)
    if analyst:
        check_printable(analyst)
    ledger = Ledger(
        policy.ledger,
        name=policy.name,
        total=policy.budget,
        policy=(forms.policy(policy), former.policy_hash(policy)),
        witness=Path(policy.file).absolute().with_suffix(".ledger"),
        clock=clock,
        accept=accept,
        home=home_of(written),
        stands=partial(stands, written),
    )
    ledger.least = policy.budget.of(policy.least)
    if analyst:
        check_name(analyst, ledger.known(analyst))
    return Database(policy, source, ledger, coins or SystemCoins(), analyst)
