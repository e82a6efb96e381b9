"""The path of a query, from SQL text to release."""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget import Ledger
from sfumato.curator import show
from sfumato.curator.calibrate import Query, calibrate
from sfumato.curator.explanation import Explanation
from sfumato.curator.release import Release
from sfumato.exact.coins import Coins, SystemCoins
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries import policy as policies
from sfumato.queries.sensitivity import derive
from sfumato.queries.sql import parse
from sfumato.sources.duckdb import Answer, DuckDB, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from pathlib import Path

    from sfumato.budget import Draw, Entry, Kept
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Derivation


@dataclass(frozen=True, slots=True, repr=False)
class Budget:
    """What a database may spend, has spent, and has left."""

    database: str
    total: Fraction
    spent: Fraction
    history: tuple[Entry, ...]

    @property
    def left(self) -> Fraction:
        """What can still be asked for."""
        return max(self.total - self.spent, Fraction(0))

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "database": self.database,
            "total": decimal(self.total),
            "spent": decimal(self.spent),
            "left": decimal(self.left),
            "history": [
                {
                    "receipt": entry.number,
                    "at": _when(entry).isoformat(timespec="seconds"),
                    "epsilon": decimal(entry.price),
                    "spent": decimal(entry.spent),
                    "question": entry.question,
                    "released": entry.redeemed,
                }
                for entry in self.history
            ],
        }

    def __repr__(self) -> str:
        lines = [
            f"  {self.database}: epsilon {decimal(self.spent)} of {decimal(self.total)} spent, "
            f"{decimal(self.left)} left",
            f"  {show.bar(float(self.spent / self.total))}",
        ]
        if self.history:
            rows = [
                [
                    str(entry.number),
                    _when(entry).strftime("%Y-%m-%d %H:%M"),
                    decimal(entry.price),
                    decimal(entry.spent),
                    entry.question + ("" if entry.redeemed else "   (paid, not yet released)"),
                ]
                for entry in self.history
            ]
            headers = ["receipt", "when (UTC)", "epsilon", "in all", "question"]
            lines += ["", show.table(headers, rows, [False, True, False, False, True])]
        return "\n".join(lines)


def _when(entry: Entry) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(entry.at, datetime.UTC)


class Database:
    """A database behind a policy. Ask it with `sql`; nothing else reads a row."""

    def __init__(self, policy: Policy, source: DuckDB, ledger: Ledger, coins: Coins) -> None:
        self.policy, self.ledger = policy, ledger
        self._source, self._coins = source, coins
        folder = ledger.path.parent.resolve()
        place = os.path.relpath(policy.database.resolve(), folder)  # survives moving both together
        self._identity = f"{policy.hash}\n{place}"

    def sql(self, sql: str, *, epsilon: str | int | float | Decimal | Fraction) -> Question:
        """A question at a price. It is checked here, and asked only when you call `release()`."""
        spend = Guarantee.parse(epsilon)
        plan = parse(sql, self.policy)  # refused here: free, and the data are untouched
        derivations = derive(plan)
        query = calibrate(tuple(each.distances for each in derivations), spend)
        return Question(self, sql, plan, query, derivations, engine_sql=text(plan))

    @property
    def budget(self) -> Budget:
        """Total, spent, left and history."""
        ledger = self.ledger
        return Budget(self.policy.name, ledger.total.epsilon, ledger.spent, ledger.history())

    def data_changed(self) -> None:
        """Say that the tables changed: stored releases are no longer repeated. Returns no budget."""
        self.ledger.data_changed()

    def release(self, question: Question) -> Release:
        """Charge, run, draw, store, show: in that order (law 2).

        If anything fails after the charge, the charge stays: a refund would tell something about the data.
        """
        plan, query = question.plan, question.query
        key = self._key(plan)
        if kept := self.ledger.kept(key, query.spend):
            return self._repeated(plan, kept)  # asked before: free
        receipt = self.ledger.charge(query.spend, key, question=question.text)  # on disk before a row is read
        shown = self.ledger.keep(  # on disk before it is seen; the first draw wins
            receipt, self._source.run(plan).map(lambda answer: draw(query, answer, self._coins))
        )
        return Release(self.policy.name, plan, query, shown, receipt, self.ledger.left)

    def _repeated(self, plan: Plan, kept: Kept) -> Release:
        query = Query(kept.spend)  # type: ignore[arg-type]  # a plan is only ever charged with additive steps
        return Release(self.policy.name, plan, query, kept.drawn, kept.receipt, self.ledger.left)

    def _key(self, plan: Plan) -> str:
        """Names a question to this database: two databases that share a ledger must not share releases."""
        return hashlib.sha256(f"{plan.key}\n{self._identity}".encode()).hexdigest()

    def is_paid(self, question: Question) -> bool:
        """Whether a stored release already answers the question."""
        return self.ledger.kept(self._key(question.plan), question.query.spend) is not None

    def __repr__(self) -> str:
        left, total = decimal(self.ledger.left), decimal(self.policy.budget.epsilon)
        lines = [f"  {self.policy.name}: epsilon {left} of {total} left"]
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

    @property
    def text(self) -> str:
        """The question on one line, for the history."""
        printable = "".join(letter if letter.isprintable() else " " for letter in self.sql)
        return " ".join(printable.split())  # nothing in it can steer a terminal

    @property
    def price(self) -> Fraction:
        """What `release()` charges at most."""
        return self.query.epsilon("presence")

    def explain(self) -> Explanation:
        """Price, error and derivation. Free, and no row is read."""
        return Explanation(
            self.text,
            self.plan,
            self.query,
            self.derivations,
            self.engine_sql,
            self.database.is_paid(self),
            self.database.ledger.left,
        )

    def release(self) -> Release:
        """Spend the price and get the numbers; asking again is free."""
        return self.database.release(self)

    def __repr__(self) -> str:
        price = decimal(self.price)
        return (
            f"  {self.text}\n"
            f"  costs epsilon {price} when released, nothing until then.\n"
            f"  .explain() shows price, error and why; .release() spends and answers."
        )


def draw(query: Query, answer: Answer, coins: Coins) -> Draw:
    """A noisy vector for every measure."""
    return tuple(
        step.mechanism.law(vector).draw(coins) for step, vector in zip(query.columns, answer, strict=True)
    )


def open(  # noqa: A001  # sf.open("hospital.toml") reads well
    path: Path | str, *, coins: Coins | None = None, clock: Callable[[], float] = time.time
) -> Database:
    """Open a database through its policy file.

    Bad declarations, missing tables and an unusable ledger are all reported here, before any question.
    """
    policy = policies.load(path)
    source = DuckDB(policy.database)
    source.check(policy)
    policy = policy.with_keys(source.keys)
    ledger = Ledger(policy.ledger, name=policy.name, total=policy.budget, clock=clock)
    return Database(policy, source, ledger, coins or SystemCoins())
