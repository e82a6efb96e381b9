"""Charge, run, draw, store: in that order, for every room (law 2).

Whoever wants something out of data hands in a bill, which says what is charged and what the drawn integers
will mean, and work, which gives them sealed. Both are complete before the charge: what is run was compiled
and printed by us, so nothing about it can fail afterwards but the engine. Nothing else in the house charges
or stores; a test says so.

The charge is on disk before the work begins, and stays whatever happens then: a refund would tell something
about the data. The draw is on disk before anybody sees it, and the first one that is stored for a charge is
the only one. A charge whose draw was never stored may be handed in as well: then it is not made again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget import Draw
from sfumato.errors import QueryFailed
from sfumato.exact.secret import Secret
from sfumato.queries.notation import READING
from sfumato.sources.halt import Halt

if TYPE_CHECKING:
    from sfumato.budget import Ledger, Receipt
    from sfumato.mechanisms import Guarantee, Spend
    from sfumato.queries.sql import Dialect
    from sfumato.queries.units import Unit

Job = Callable[[Halt | None], Secret[Draw]]  # what is run and drawn; it may be stopped
Pace = Callable[[int], AbstractContextManager[Halt | None]]  # what goes on around it, for a charge


def at_once(_: int) -> AbstractContextManager[None]:
    """The pace of the library, which promises nothing about time."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Bill:
    """What is charged, and what for."""

    spend: Spend
    key: str  # what a repetition is found by
    question: str  # in words
    analyst: str = ""
    slack: Fraction = Fraction(0)  # what a spend without a pure epsilon may take of delta
    asked: tuple[Guarantee, ...] = ()  # the price of every part, if that is not what it costs
    meaning: tuple[Any, ...] = ()  # of the drawn integers, in a form that stays
    units: tuple[Unit, ...] = ()  # whose neighbours it is about; none: of every unit there is
    tables: tuple[tuple[str, dict[str, Any]], ...] = ()  # that are read, and how each says whose its rows are
    reading: int = READING  # by which the question was understood
    dialect: Dialect = "duckdb"  # in which it was written

    def charged(self, ledger: Ledger) -> Receipt:
        """Its charge, on disk; a charge for the same that is there already is not made again."""
        return ledger.charge(
            self.spend,
            self.key,
            slack=self.slack,
            question=self.question,
            analyst=self.analyst,
            asked=self.asked,
            meaning=self.meaning,
            units=self.units,
            tables=dict(self.tables),
            reading=self.reading,
            dialect=self.dialect,
        )


def pay(
    ledger: Ledger, bill: Bill, job: Job, *, pace: Pace = at_once, receipt: Receipt | None = None
) -> tuple[Receipt, Draw]:
    """Charge a bill, do the work, store what was drawn, and show it.

    `pace` is entered after the charge, with its number, and left before anything is stored: how long an
    engine takes depends on the data, so whoever makes a promise about time waits there, and may stop the
    engine by the `Halt` that it hands out. `receipt` is a charge for this bill whose draw was never stored.
    """
    is_new = receipt is None
    receipt = receipt or bill.charged(ledger)
    try:
        with pace(receipt.number) as halt:
            drawn = job(halt)
    except QueryFailed as failure:
        failure.spent = is_new  # the charge stays; this call may not have made it
        raise
    return receipt, ledger.keep(receipt, drawn)  # the first that is stored wins
