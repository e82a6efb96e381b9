"""A database behind a policy, as its users see it."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.budget import Ledger
from sfumato.budget.ledger.shares import check_name, check_printable
from sfumato.curator import measuring, tuning
from sfumato.curator.agenda import Agenda, weight_of
from sfumato.curator.batch import Batch
from sfumato.curator.budget import Budget, budget_of
from sfumato.curator.home import home_of, stands
from sfumato.curator.keeper import Keeper
from sfumato.curator.question import Question, asked, check_delta, price
from sfumato.curator.refusals import check_units
from sfumato.curator.suggest import Standing, Suggestion, suggested
from sfumato.curator.tables import measure
from sfumato.curator.within import check_within, found_within
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.exact.coins import Coins, SystemCoins
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries import former, forms, units
from sfumato.queries import policy as policies
from sfumato.queries.expressions import MOST_LISTED
from sfumato.queries.statement import read
from sfumato.sources.duckdb import prepare
from sfumato.sources.opened import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sfumato.budget.ledger.bodies import DataBody
    from sfumato.curator.release import Release
    from sfumato.curator.tables import Bought
    from sfumato.curator.within import Within
    from sfumato.mechanisms import Guarantee
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.declared import Kind, Tuning, Value
    from sfumato.queries.parameters import Given
    from sfumato.queries.policy import Policy
    from sfumato.queries.statement import Statement
    from sfumato.sources.reading import Progress
    from sfumato.sources.source import Source

APART = "other people"  # notes that data are about others than those of another ledger


class Database(Keeper):
    """A database behind a policy. Ask it with `sql`; nothing else reads a row."""

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        tune: Number | None = None,
        within: Within | None = None,
        most: Number | None = None,
        parameters: Sequence[Given] = (),
        dialect: str = "duckdb",
    ) -> Question:
        """A question at a price. It is checked here, and asked only when you call `release()`.

        The price is in the currency of the policy's budget: an epsilon, or a rho. Where the budget has a
        delta, a question may take some of it, which pays for many groups or many columns at once. With
        `tune`, so much of the price is first spent on caps that fit this question: see `Database.tune`.
        Instead of a price, say `within` which error the numbers shall be at 95% (50, "2%", or one for each
        column): the price is the least that is likely to do; it is refused above `most`.
        `parameters` are the values of $1, $2, ... in the text; a list is one for = ANY ($1). The text
        may be in another `dialect`: duckdb, postgres, bigquery, tsql, mysql or snowflake.
        """
        price = {"epsilon": epsilon, "rho": rho, "delta": delta, "tune": tune, "most": most}
        return self.question(read(sql, dialect).bound(parameters), within=within, **price)

    def question(
        self,
        statement: Statement,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        tune: Number | None = None,
        within: Within | None = None,
        most: Number | None = None,
    ) -> Question:
        """The same for a text that was read before, in whatever dialect."""
        statement = replace(statement, today=self.today)
        if within is not None or most is not None:
            check_within(within, most, {"epsilon": epsilon, "rho": rho, "tune": tune})
            check_delta(self.ledger.total, delta)
            return found_within(self, partial(self._asked, statement), within or "", most, delta)
        spend = price(self.ledger.total, epsilon, rho, delta)
        if tune is not None:
            return tuning.first_tuned(self, statement, spend, tune)
        return self._asked(statement, spend)

    def _asked(self, statement: Statement, spend: Guarantee) -> Question:
        if self.policy.measure:
            return measuring.ask(self, statement, spend)
        return asked(self, statement, self.policy, spend)

    def batch(self, questions: Iterable[Question], *, delta: Number | None = None) -> Batch:
        """Questions that are fixed before the first answer, as one charge; with a delta for less epsilon."""
        return Batch.of(self, questions, delta)

    def plan(
        self,
        questions: Sequence[str],
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        weights: Sequence[Number] = (),
        dialect: str = "duckdb",
    ) -> Agenda:
        """Many questions within one price, divided so that the worst of their relative errors is as small as
        can be. `weights` say how much the error of each counts; without them all count alike.

        Looking at it says the price and the error of each; `release()` asks them all.
        """
        whole = price(self.ledger.total, epsilon, rho, None)
        for each in questions:
            if not isinstance(each, str):
                raise InvalidParameter("questions", each, 'give texts of SQL, such as ["SELECT ...", "..."]')
        statements = tuple(replace(read(each, dialect), today=self.today) for each in questions)
        given = [weight_of(each) for each in weights] or [Fraction(1)] * len(statements)
        return Agenda(self, statements, whole, tuple(given))

    def release(self, question: Question) -> Release:
        """What `question.release()` does."""
        return question.release()

    def is_paid(self, question: Question) -> bool:
        """Whether a stored release already answers the question."""
        return question.kept() is not None

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

        Nothing changes until it stands in the policy (`curator.tuning.section`).
        """
        spend = price(self.ledger.total, epsilon, rho, None)
        return tuning.tune(self, table, spend, columns, progress)

    def measure(
        self,
        tables: Iterable[str] = (),
        *,
        anew: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> list[Bought]:
        """Measure how much people have, on the owner's account, before a question does; or `anew`, after the
        data changed. See `[measure]` in the reference of policies."""
        return measure(self, tables, anew=anew, progress=progress)

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
        wanted = {"secret": secret, "advantage": advantage, **body}
        return suggested(wanted, self.policy, self.source.counted, self.ledger.losses)

    @property
    def standing(self) -> Standing:
        """What each promise of the policy allows, and what was gained at most so far."""
        return Standing(self.judges, self.ledger.own, self.ledger.losses, self.ledger.most)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What the promises of the policy come to."""
        return tuple(
            Suggestion(judge, self.ledger.losses(judge.relation, judge.apart)) for judge in self.judges
        )

    @property
    def budget(self) -> Budget:
        """Total, spent, left, what that is good for, history and shares."""
        return budget_of(self)

    def data_changed(self, progress: Progress = lambda _name, _done: None, *, copy: bool = True) -> None:
        """Say that the tables changed: stored releases are no longer repeated. Returns no budget.

        With `prepared = "auto"` a copy of them is made first, unless that is left out, and used from now on
        by everybody who opens them.
        """
        written = policies.load(self.policy.file)
        if written.automatic and copy:
            prepare(written, progress)
        self.ledger.data_changed()

    def __repr__(self) -> str:
        total = self.ledger.limit
        left = decimal(self.ledger.left.amount)
        lines = [f"  {self.policy.name}: {total.currency} {left} of {decimal(total.amount)} left"]
        for table in self.policy.tables:
            owner = "public" if table.public else f"unit: {table.unit or 'row'}"
            columns = ", ".join(column.name for column in table.columns)
            lines.append(f"  {table.name} ({owner})" + (f": {columns}" if columns else ""))
        return "\n".join(lines)


def fitting(policy: Policy) -> tuple[Policy, Source]:
    """The policy with the keys of its public tables, and its source; refused if they do not fit."""
    source = source_of(policy)
    source.check(policy)

    def rows(table: str, columns: tuple[tuple[str, Kind], ...]) -> list[tuple[Value | None, ...]] | None:
        return source.listed(table, columns) if source.alike(table, "") <= MOST_LISTED else None

    return policy.with_keys(source.keys, rows).with_scales(source.scales()), source


def open(  # noqa: A001  # sf.open("hospital.toml") reads well
    path: Path | str,
    *,
    analyst: str = "",
    coins: Coins | None = None,
    clock: Callable[[], float] = time.time,
    accept: bool = False,
    other_people: str = "",
) -> Database:
    """Open a database through its policy file, to ask as `analyst`.

    Bad declarations, missing tables and an unusable ledger are all reported here, before any question.
    `accept` goes on after a ledger was lost, with all that was spent (see `sfumato.budget.Ledger`).
    `other_people` says why data that were charged to another ledger are about other people now.
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
        tables={table.name: units.form(table, policy) for table in policy.tables},
    )
    check_units(policy, ledger)
    ledger.least = policy.budget.of(policy.least)
    ledger.body = ledger.of_data(policy.database, str(Path(policy.file).absolute()))
    if other_people:
        _part(ledger, ledger.body, other_people)
    ledger.body.go_on() if ledger.was_charged else ledger.body.check()
    if analyst:
        check_name(analyst, ledger.known(analyst))
    return Database(policy, source, ledger, coins or SystemCoins(), analyst)


def _part(ledger: Ledger, body: DataBody, why: str) -> None:
    """Say, in both ledgers, that these are other people than those another one was charged for."""
    check_printable(why)
    other = body.other
    if other is None:
        told = "leave it out: no other ledger was charged for these data"
        raise InvalidParameter("other-people", why, told)
    facts = {"data": str(body.data), "why": why}
    try:
        open(other["policy"]).ledger.note(APART, {**facts, "ledger": body.place})
        is_told = True
    except SfumatoError:  # it may be gone
        is_told = False
    ledger.note(APART, {**facts, "ledger": other["place"], "told_there": is_told})
    body.part(why)
