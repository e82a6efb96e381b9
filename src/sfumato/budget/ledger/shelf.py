"""Which stored release answers a question, and which charge still waits for its release.

A question is known by a key and by the price that was *asked* for each of its parts (one, but for a batch):
never by the steps that were run for it, since a later version may split a price better. A release at a larger
price also answers the smaller. What its integers mean was stored with its charge.

Entries that were written before prices and meanings were stored tell what was charged and what was run. What
was charged is below what was asked by the rounding of scales, and where Gaussian noise is made a little wider
until it holds, by some thousandths; so their prices count as that much more.
"""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget.accounting import filters
from sfumato.budget.ledger import record
from sfumato.budget.ledger.entries import ALL, FIRST_DIALECT, SECOND, OpenCharge, Record, units

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sfumato.budget.ledger.chain import Chain
    from sfumato.mechanisms import Guarantee, Spend

ROUNDED, WIDENED = Fraction(1, 10**4), Fraction(1, 100)  # what was asked is above what was charged, at most
# how the body of a charge looks that was understood by an earlier reading; quotes in a question are escaped
EARLIER = {
    0: ("body NOT LIKE ?", '%"asked":[[%'),
    1: ("body LIKE ? AND body NOT LIKE ?", '%"asked":[[%', '%"reading":%'),
    **{
        reading: ("body LIKE ? OR body LIKE ?", f'%"reading":{reading},%', f'%"reading":{reading}}}%')
        for reading in (2, 3, 4)
    },
}
NOTED = 3  # the first reading by which charges note their dialect
STORED = "EXISTS (SELECT 1 FROM entries r WHERE r.topic = 'release/' || CAST(c.number AS TEXT) || '/0')"


class Charged:
    """A charge as it was written."""

    def __init__(self, line: Record) -> None:
        self.line = line
        self.body: dict[str, Any] = json.loads(line.body)

    @property
    def spend(self) -> Spend:
        """What was run."""
        return record.read(self.body["spend"])

    @property
    def meaning(self) -> list[Any]:
        """What the integers drawn for it mean: for every part of it, a list of measures."""
        found: list[Any] = self.body.get("meaning", [])
        return found

    @property
    def question(self) -> str:
        """What was asked, in words."""
        return str(self.body["question"])

    @property
    def analyst(self) -> str:
        """Who asked."""
        return str(self.body.get("analyst", ""))

    @property
    def reading(self) -> int:
        """By which reading of SQL it was understood."""
        return reading_of(self.body)

    @property
    def as_asked(self) -> tuple[str, int, str]:
        """Its text, by which reading it was understood, and its dialect: the first, until it was noted."""
        return self.question, self.reading, str(self.body.get("dialect", FIRST_DIALECT))

    def is_worth(self, asked: Sequence[Guarantee], sizes: Sequence[int], total: Guarantee) -> bool:
        """Whether so much was asked for every part, or more.

        Where that was not stored, it follows from what was run for parts of so many steps each.
        """
        if "asked" in self.body:
            paid = [tuple(each) for each in self.body["asked"]]
            wanted = [units(each) for each in asked]
            return len(paid) == len(wanted) and all(
                one[0] >= other[0] and one[1] >= other[1] for one, other in zip(paid, wanted, strict=True)
            )
        spend = self.spend
        sizes = sizes or [len(spend)]
        if len(spend) != sum(sizes) or len(asked) != len(sizes):
            return False
        ends = list(itertools.accumulate(sizes))
        parts = [spend[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        return all(self._cost(part, price, total) for part, price in zip(parts, asked, strict=True))

    def _cost(self, part: Spend, asked: Guarantee, total: Guarantee) -> bool:
        """Whether this was run for such a price."""
        bounds = [step.bound() for step in part]
        lost = sum((bound.delta for bound in bounds), Fraction(0))
        if total.rho is not None:
            return filters.price(part, total.of(Fraction(0))).amount * (1 + ROUNDED) >= asked.amount
        if not lost and all(bound.epsilon is not None for bound in bounds):
            return (
                filters.price(part, total.of(Fraction(0), Fraction(0))).amount * (1 + ROUNDED) >= asked.amount
            )
        if lost and lost < asked.delta:
            return False
        slack = lost or asked.delta or Fraction(self.line.slack, filters.FINE)
        return filters.price(part, total.of(Fraction(0), slack)).amount * (1 + WIDENED) >= asked.amount


class Shelf:
    """The releases that are stored in a chain of entries."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._looked = 0  # up to which entry readings were looked for
        self._readings: set[int] = set()
        self._spent_on: dict[str, tuple[int, int]] = {}  # up to which entry, and how much

    def stored(self, keys: Sequence[str], version: int | None) -> Iterator[tuple[Charged, str]]:
        """Charges for any of these keys, the dearest first, and what was drawn for them."""
        for row in self._rows(
            keys,
            version,
            f"SELECT {ALL}, r.body FROM entries c JOIN entries r"
            " ON r.topic = 'release/' || CAST(c.number AS TEXT) || '/0'",
            "",
        ):
            yield Charged(Record(*row[:-1])), json.loads(row[-1])["drawn"]

    def waiting(self, keys: Sequence[str]) -> Iterator[Charged]:
        """Charges for any of these keys whose release was never stored."""
        for row in self._rows(keys, None, f"SELECT {ALL} FROM entries c", f" AND NOT {STORED}"):
            yield Charged(Record(*row))

    def _rows(
        self, keys: Sequence[str], version: int | None, select: str, more: str
    ) -> list[tuple[Any, ...]]:
        at = version or self.chain.data_version()
        marks = ", ".join("?" for _ in keys)
        return self.chain.store.read(
            f"{select} WHERE c.kind = 'charge' AND c.found IN ({marks}){more}"
            " ORDER BY c.amount DESC, c.number",
            [self.chain.found(key, at) for key in keys],
        )

    def readings(self) -> frozenset[int]:
        """The earlier readings of SQL by which anything was charged; only new entries are looked at, which
        another version may have written."""
        last = self.chain.last().number
        if last > self._looked and len(self._readings) < len(EARLIER):
            found = ", ".join(f"MAX(CASE WHEN {test} THEN 1 ELSE 0 END)" for test, *_ in EARLIER.values())
            sql = f"SELECT {found} FROM entries WHERE number > ? AND number <= ? AND kind = 'charge'"
            patterns = [pattern for _, *patterns in EARLIER.values() for pattern in patterns]
            (row,) = self.chain.store.read(sql, (*patterns, self._looked, last))
            self._readings |= {reading for reading, is_there in zip(EARLIER, row, strict=True) if is_there}
            self._looked = last
        return frozenset(self._readings)

    def read_as(self, question: str, name: str, readings: Collection[int], dialect: str) -> tuple[int, ...]:
        """The numbers of released charges of a database for a text, understood by one of these readings and
        in this dialect: until it was noted, all were read in the first, however they were written."""
        sql = (
            f"SELECT c.number, c.body FROM entries c WHERE c.kind = 'charge' AND c.body LIKE ? AND {STORED}"
            " ORDER BY c.number"
        )
        told = json.dumps(question).replace("\\", "_")  # in a pattern it would need another one
        rows = [(number, json.loads(body)) for number, body in self.chain.store.read(sql, (f"%{told}%",))]
        return tuple(
            number
            for number, body in rows
            if body["question"] == question and body["database"] == name and reading_of(body) in readings
            if reading_of(body) < NOTED or body.get("dialect", FIRST_DIALECT) == dialect
        )

    def spent_on(self, beginning: str, name: str) -> int:
        """What the charges of a database came to whose words begin so; each is looked at once."""
        last, (looked, amount) = self.chain.last().number, self._spent_on.get(beginning, (0, 0))
        if last > looked:
            sql = "SELECT amount, body FROM entries WHERE kind = 'charge' AND number > ? AND number <= ?"
            pattern = f'%"question":"{beginning}%'
            for cost, body in self.chain.store.read(f"{sql} AND body LIKE ?", (looked, last, pattern)):
                told = json.loads(body)
                if told["question"].startswith(beginning) and told["database"] == name:
                    amount += cost
            self._spent_on[beginning] = last, amount
        return amount

    def open_charges(self, after: int, name: str) -> tuple[OpenCharge, ...]:
        """The charges of a database after a number whose release is not stored."""
        rows = self.chain.store.read(
            f"SELECT c.number, c.at, c.body FROM entries c WHERE c.number > ? AND c.kind = 'charge'"
            f" AND NOT {STORED} ORDER BY c.number",
            (after,),
        )
        found = [(number, at / SECOND, json.loads(body)) for number, at, body in rows]
        return tuple(
            OpenCharge(
                number,
                at,
                body.get("analyst", ""),
                body.get("question", ""),
                body.get("dialect", FIRST_DIALECT),
            )
            for number, at, body in found
            if body.get("database") == name
        )


def reading_of(body: dict[str, Any]) -> int:
    """By which reading of SQL a charge was understood: noted from the second on, prices from the first."""
    return int(body.get("reading", 1 if "asked" in body else 0))
