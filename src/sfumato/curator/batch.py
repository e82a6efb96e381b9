"""Questions that are fixed before the first answer, as one charge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator import names, repairs, texts
from sfumato.curator.asked import Asked, Stored, shown
from sfumato.curator.question import check_delta
from sfumato.curator.release import Releases
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import FINER, decimal
from sfumato.queries import former

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.plan import Plan


@dataclass(frozen=True, slots=True, repr=False)
class Batch(Asked):
    """Questions that are charged and released together. Looking at it never spends.

    In epsilon or in rho the price is the sum of theirs. With a delta it is the epsilon of their common
    privacy loss, which for many questions is far below the sum.

    Guarantee: the price, for all of them together. Proof: no question depends on an answer of the batch, so
    the steps are fixed in advance (`budget.accounting.loss`); in the ledger it is one step of a filter.
    """

    database: Keeper
    together: tuple[Question, ...]
    delta: Fraction  # that all of them take
    is_sorted: bool = False  # whether they are charged in the order of their names, as those of one text are

    @classmethod
    def of(cls, keeper: Keeper, questions: Iterable[Question], delta: Number | None) -> Batch:
        """The batch of these questions, at a delta for all, or at the sum of theirs."""
        check_delta(keeper.ledger.total, delta)
        asked = tuple(questions)
        lost = sum((step.bound().delta for each in asked for step in each.query.steps), Fraction(0))
        theirs = sum((each.query.slack for each in asked), Fraction(0))
        slack = theirs if delta is None else Guarantee.read(epsilon=1, delta=delta).delta
        if slack < lost:
            advice = f"private groups in the questions need {decimal(lost, FINER)} of it: give at least that"
            raise InvalidParameter("delta", delta, advice)
        return cls(keeper, asked, slack)

    def __post_init__(self) -> None:
        if not self.questions:
            raise InvalidParameter("questions", "none", "give at least one: db.batch([db.sql(...), ...])")
        if any(question.database is not self.database for question in self.questions):
            raise InvalidParameter("questions", "of two databases", "ask those of one database together")
        if any(question.tuning is not None for question in self.questions):
            raise InvalidParameter("questions", "with tune", "tune first (db.tune), or ask each separately")
        if any(not question.stands_alone for question in self.questions):
            advice = "ask that text separately: its questions are one charge"
            raise InvalidParameter("questions", "with a text that is made of several", advice)
        if len({question.dialect for question in self.questions}) > 1:
            raise InvalidParameter("questions", "in two dialects", "write all of a batch in one")

    @property
    def questions(self) -> tuple[Question, ...]:
        """Its questions, in their order."""
        if not self.is_sorted:
            return self.together
        return tuple(self.together[i] for i in names.order(self.together))

    @property
    def slack(self) -> Fraction:
        """What it takes of delta, where it has no pure epsilon."""
        return self.delta

    @property
    def text(self) -> str:
        """The questions on one line, for the history."""
        return texts.together([each.text for each in self.questions])

    @property
    def text_then(self) -> str:
        """The same as it was written before the third reading."""
        return texts.together([each.text_then for each in self.questions])

    @property
    def price(self) -> Guarantee:
        """What `release()` charges at most."""
        return self.database.ledger.price_of(self.spend, self.slack)

    @property
    def still_needed(self) -> Guarantee:
        """What of its price is still to be spent."""
        return self.price

    @property
    def apart(self) -> Guarantee:
        """What the questions would cost if they were asked one by one."""
        prices = [question.price for question in self.questions]
        delta = sum((price.delta for price in prices), Fraction(0))
        return self.price.of(sum((price.amount for price in prices), Fraction(0)), delta)

    @property
    def keys(self) -> tuple[str, ...]:
        """What the batch is known by: the first is written, all are looked up."""
        return names.batch([question.keys for question in self.questions])

    def keys_of(self, reading: int) -> tuple[str, ...]:
        """What the batch was known by while SQL was understood so."""
        return names.batch([question.keys_of(reading) for question in self.questions])

    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by before questions had a stored form."""
        return former.batch([self.database.names.former(plan) for plan in plans])

    @property
    def _as_one_text(self) -> tuple[Batch | None, tuple[int, ...]]:
        """The same as it is charged where one text asks all of it; and where each question stands there."""
        order = names.order(self.together)
        back = tuple(order.index(i) for i in range(len(order)))
        is_same = self.is_sorted or order == tuple(range(len(order)))
        return (None if is_same else replace(self, is_sorted=True)), back

    def stored(self, version: int | None = None) -> Stored | None:
        """What is stored for it, about the data as they are or as they were."""
        return self.stored_or_as(*self._as_one_text, version)

    def answered(self) -> Stored:
        """What is stored for it; else it is paid for, run and drawn now."""
        return self.answered_or_as(*self._as_one_text)

    def kept(self, *, version: int | None = None) -> Releases | None:
        """The stored releases that answer the batch, about the data as they are or as they were; free."""
        stored = self.stored(version)
        return None if stored is None else Releases(shown(self.database, stored))

    def release(self) -> Releases:
        """Spend the price and get all the numbers; asking the same batch again is free."""
        found, price, left = self, self.price, self.database.left
        has_room = price.amount <= left.amount and price.delta <= left.delta
        if has_room and any(each.again is not None for each in self.together) and self.is_new:
            together = tuple(each.measured(price, own=False) for each in self.together)
            found = replace(self, together=together)
        return Releases(shown(self.database, found.answered()))

    def __repr__(self) -> str:
        lines = [f"  {question.text}" for question in self.questions]
        lines.append(
            f"  cost {self.price} together when released ({self.apart} one by one), nothing until then."
        )
        if self.kept() is None and (misread := self.misread):
            lines.append(f"  {repairs.told(misread)}")
        return "\n".join(lines)
