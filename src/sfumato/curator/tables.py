"""What was measured of tables: how many rows people have in each, and how much of a column in sum.

It is bought once, on the owner's account, by the first question that needs it or by `sfumato measure`, and
serves all questions and all versions of the data: a cap is enforced, so what is old can only fit worse. Only
the owner measures anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.question import FINEST
from sfumato.curator.tuning import as_measured, rows_question, totals_question
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Measured
    from sfumato.queries.policy import Policy

MEASURE = "measure"  # how the history tells what was measured of tables; no SQL begins so
ANEW = "measured anew"  # and what was measured again: that the owner pays beside the share
KEYS = 100  # values of an integer that is taken for a key, and not for something to add up


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
    return whole_units(policy.budget, half if column is None else half / columns)


def whole_units(currency: Guarantee, amount: Fraction) -> Guarantee:
    """A price as it is counted, so that parts do not come to more than the whole."""
    return currency.of(Fraction(math.floor(amount * FINEST), FINEST), Fraction(0))


@dataclass(frozen=True, slots=True)
class Looked:
    """What was released of a table, and how often the data have changed since."""

    measured: Measured
    changes: int


@dataclass(frozen=True, slots=True)
class Tables:
    """What is known of the tables of a database, and what it costs to know more."""

    keeper: Keeper

    def rows(self, table: DeclaredTable, verb: str = MEASURE) -> Question:
        """How many rows people have in a table."""
        owner = self.keeper.owner
        return rows_question(owner, table, part(owner.policy, table), verb)

    def totals(self, table: DeclaredTable, column: DeclaredColumn, verb: str = MEASURE) -> Question:
        """How much of a column they have in sum."""
        owner = self.keeper.owner
        return totals_question(owner, table, column, Fraction(0), part(owner.policy, table, column), verb)

    def found(self, histogram: Question) -> Looked | None:
        """What was released of it, about the data as they are or once were, at any price."""
        ledger = self.keeper.ledger
        version = ledger.data_version
        # it stays as it is, but that the owner may measure anew
        key = f"{histogram.key} {version} {ledger.spent_on(f'{ANEW} ')}"
        if (known := self.keeper.measured.get(key)) is not None:
            return Looked(*known)
        wanted = replace(histogram, query=replace(histogram.query, asked=ledger.least.of(Fraction(0))))
        for past in range(version, 0, -1):
            if (stored := wanted.stored(past)) is not None:
                measured = as_measured(stored.receipt.price, stored.drawn[0])
                self.keeper.measured[key] = measured, version - past
                return Looked(measured, version - past)
        return None

    def may_buy(self, histogram: Question) -> bool:
        """Whether the owner's share has room for it, whatever the policy said when the others were bought; or
        it was bought, and waits."""
        policy = self.keeper.policy
        if not histogram.is_new:
            return True
        spent = self.keeper.ledger.spent_on(f"{MEASURE} ") + histogram.query.guarantee().amount
        return spent <= policy.budget.amount * policy.measure


@dataclass(frozen=True, slots=True)
class Bought:
    """Something that was measured of a table, or was known."""

    what: str
    charged: Guarantee
    receipt: int
    changes: int  # how often the data have changed since


def measure(
    keeper: Keeper,
    names: Iterable[str] = (),
    *,
    anew: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Bought]:
    """Measure tables now, on the owner's account: what is not known of them, or what data have changed since.

    What is measured for the first time is a part of the share in the policy; what is measured `anew` is paid
    beside it, at the same price.
    """
    policy, tables = keeper.policy, Tables(keeper)
    if keeper.analyst:
        told = "open the policy without a name: what is measured serves everybody, and the owner pays for it"
        raise InvalidParameter("analyst", keeper.analyst, told, problem="an analyst cannot measure")
    if not policy.measure:
        told = 'it has no [measure]. Add to the policy: [measure] and, below it, share = "10%"'
        raise InvalidParameter("policy", policy.file, told, problem="nothing can be measured")
    there = {table.name: table for table in capped(policy)}
    wanted = list(names) or list(there)
    for name in wanted:
        if name not in there:
            told = f"name a table with several rows a person: {', '.join(there) or 'there is none'}"
            raise InvalidParameter("table", name, told)
    found = []
    for name in wanted:
        table = there[name]
        asked = [(f"{name}: rows", tables.rows(table), tables.rows(table, ANEW))]
        for column in added_up(table):
            again = tables.totals(table, column, ANEW)
            asked.append((f"{name}: {column.name}", tables.totals(table, column), again))
        for what, first, again in asked:
            progress(what)
            found.append(_bought(tables, what, first, again if anew else first))
    return found


def _bought(tables: Tables, what: str, first: Question, wanted: Question) -> Bought:
    """One histogram: as it is known, or bought now."""
    known, nothing = tables.found(first), first.price.of(Fraction(0), Fraction(0))
    is_anew = wanted is not first
    if known is not None and not (is_anew and known.changes):
        return Bought(what, nothing, 0, known.changes)
    if known is None and not tables.may_buy(first):
        share = first.price.of(first.database.policy.budget.amount * first.database.policy.measure)
        told = f"the share for measuring, {share}, is spent. Raise [measure] share in the policy"
        raise InvalidParameter("table", what, told, problem=f"{what} cannot be measured")
    question = replace(first if known is None else wanted, is_part=True, is_owners=True)
    stored = question.answered()
    return Bought(what, stored.receipt.charged, stored.receipt.number, 0)
