"""Entries of a ledger, and how each is chained to the one before."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.budget.accounting.filters import FINE, UNIT
from sfumato.budget.ledger.store import COLUMNS

if TYPE_CHECKING:
    from sfumato.budget.ledger.store import Row
    from sfumato.budget.ledger.subjects import Units
    from sfumato.mechanisms import Guarantee, Spend

Draw = tuple[tuple[int | str, ...], ...]  # one vector a step: integers, or the names of what was chosen
SECOND = 10**6  # times are whole numbers of microseconds
SEEN = 16  # letters of a head that are shown
FIRST_DIALECT = "duckdb"  # of SQL: all that was charged before dialects were noted


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge. It is redeemed once."""

    number: int
    price: Guarantee
    spent: Guarantee  # by the database in all, this charge included
    charged: Guarantee  # by the call that returned this receipt: zero if it was paid before
    head: str  # of the ledger when it was charged

    def __str__(self) -> str:
        return f"receipt {self.number}-{self.head[:SEEN]}: {self.price}"


class OpenCharge(NamedTuple):
    """A charge whose release is not stored."""

    number: int
    at: float
    analyst: str
    question: str
    dialect: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored release: what was drawn, and what was paid for it.

    `meaning` says what the integers mean, for every part of a batch; it is empty where that was not stored.
    `reading` says how its SQL was understood.
    """

    receipt: Receipt
    spend: Spend
    drawn: Draw
    meaning: list[Any] = field(default_factory=list)
    reading: int = 0
    analyst: str = ""  # who asked


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

    number: int
    at: float  # seconds since 1970, by the owner's clock; never earlier than the entry before
    kind: str
    analyst: str
    database: str
    question: str
    price: Guarantee
    spent: Guarantee
    redeemed: bool
    reading: int = 0  # of SQL, by which it was understood; 0: before prices and meanings were stored
    dialect: str = FIRST_DIALECT  # in which it was written
    key: str = ""  # what the question was known by
    units: Units = ()  # whose neighbours it is about; none: every unit's


class Record(NamedTuple):
    """A row of the table."""

    number: int
    at: int
    kind: str
    who: str
    topic: str | None
    found: str | None
    body: str
    amount: int
    slack: int
    spent: int
    delta_spent: int
    own_spent: int
    own_delta_spent: int
    head: str

    @property
    def facts(self) -> list[Any]:
        """What a receipt is made of."""
        return [self.number, self.amount, self.slack, self.spent, self.delta_spent, self.head]


FIRST = Record(0, 0, "", "", None, None, "", 0, 0, 0, 0, 0, 0, "0" * 64)  # before the first entry
ALL = ", ".join(f"c.{name}" for name in COLUMNS)


def hashed(before: str, facts: Row) -> str:
    """The head of an entry with these facts: a hash over them and the head before."""
    text = "\x1f".join("\x00" if each is None else str(each) for each in facts)
    return hashlib.sha256(f"{before}\x1f{text}".encode()).hexdigest()


def units(price: Guarantee) -> tuple[int, int]:
    """In whole units, rounded down: prices are whole already, and budgets are not passed by a part of one."""
    return math.floor(price.amount * UNIT), math.floor(price.delta * FINE)


def draw_of(text: str) -> Draw:
    """A draw as it was stored."""
    return tuple(tuple(y if isinstance(y, str) else int(y) for y in vector) for vector in json.loads(text))
