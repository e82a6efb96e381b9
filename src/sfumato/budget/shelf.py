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

from sfumato.budget import filters, record
from sfumato.budget.entries import ALL, Line, units

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sfumato.budget.book import Book
    from sfumato.mechanisms import Guarantee, Spend

ROUNDED, WIDENED = Fraction(1, 10**4), Fraction(1, 100)  # what was asked is above what was charged, at most
STORED = "EXISTS (SELECT 1 FROM entries r WHERE r.topic = 'release/' || CAST(c.number AS TEXT) || '/0')"


class Charged:
    """A charge as it was written."""

    def __init__(self, line: Line) -> None:
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

    def says(self, text: str) -> bool:
        """Whether it was asked in these words, by the first reading; anything does if there are none."""
        return not text or (reading_of(self.body) == 1 and self.body["question"] == text)

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
    """The releases that are stored in a book."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self._looked = 0  # up to which entry former ones were looked for
        self._has_former = False

    def stored(self, keys: Sequence[str], version: int | None) -> Iterator[tuple[Charged, str]]:
        """Charges for any of these keys, the dearest first, and what was drawn for them."""
        for row in self._rows(
            keys,
            version,
            f"SELECT {ALL}, r.body FROM entries c JOIN entries r"
            " ON r.topic = 'release/' || CAST(c.number AS TEXT) || '/0'",
            "",
        ):
            yield Charged(Line(*row[:-1])), json.loads(row[-1])["drawn"]

    def waiting(self, keys: Sequence[str]) -> Iterator[Charged]:
        """Charges for any of these keys whose release was never stored."""
        for row in self._rows(keys, None, f"SELECT {ALL} FROM entries c", f" AND NOT {STORED}"):
            yield Charged(Line(*row))

    def _rows(
        self, keys: Sequence[str], version: int | None, select: str, more: str
    ) -> list[tuple[Any, ...]]:
        at = version or self.book.data_version()
        marks = ", ".join("?" for _ in keys)
        return self.book.store.read(
            f"{select} WHERE c.kind = 'charge' AND c.found IN ({marks}){more}"
            " ORDER BY c.amount DESC, c.number",
            [self.book.found(key, at) for key in keys],
        )

    def has_former(self) -> bool:
        """Whether there are charges of before; only new entries are looked at, which another version may
        have written."""
        if not self._has_former:
            last = self.book.last().number
            sql = "SELECT 1 FROM entries WHERE number > ? AND kind = 'charge' AND body NOT LIKE ? LIMIT 1"
            self._has_former = bool(self.book.store.read(sql, (self._looked, '%"asked":[[%')))
            self._looked = last
        return self._has_former

    def read_as(self, question: str, name: str, readings: Collection[int]) -> tuple[int, ...]:
        """The numbers of charges of a database for a text, understood by one of these readings."""
        sql = "SELECT number, body FROM entries WHERE kind = 'charge' AND body LIKE ? ORDER BY number"
        told = json.dumps(question).replace("\\", "_")  # in a pattern it would need another one
        rows = [(number, json.loads(body)) for number, body in self.book.store.read(sql, (f"%{told}%",))]
        return tuple(
            number
            for number, body in rows
            if body["question"] == question and body["database"] == name and reading_of(body) in readings
        )


def reading_of(body: dict[str, Any]) -> int:
    """By which reading of SQL a charge was understood: noted from the second on, prices from the first."""
    return int(body.get("reading", 1 if "asked" in body else 0))
