"""What a question and a batch of them have in common: how they are found, paid for, run and read."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.budget import Receipt
from sfumato.curator import texts
from sfumato.curator.calibrate import Calibration
from sfumato.curator.drawing import job
from sfumato.curator.path import Bill, pay
from sfumato.curator.refusals import check_least, told_unmeasured
from sfumato.curator.release import Release
from sfumato.curator.repairs import is_repaired
from sfumato.curator.shortfalls import all_together, settled
from sfumato.errors import Halted
from sfumato.queries.sensitivity import derive
from sfumato.queries.units import about, declared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.budget import Draw, Kept
    from sfumato.curator.keeper import Keeper
    from sfumato.mechanisms import Guarantee, Spend
    from sfumato.queries.plan import Plan
    from sfumato.queries.sql import Dialect
    from sfumato.queries.units import Unit
    from sfumato.sources.answers import Compiled


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored release: the plans by which its integers are read, and the steps by which they were drawn."""

    receipt: Receipt
    parts: tuple[tuple[Plan, Calibration], ...]
    drawn: Draw

    def sorted_by(self, order: Sequence[int]) -> Stored:
        """The same with its parts in another order."""
        ends = list(itertools.accumulate((len(query.steps) for _, query in self.parts), initial=0))
        drawn = [each for i in order for each in self.drawn[ends[i] : ends[i + 1]]]
        return Stored(self.receipt, tuple(self.parts[i] for i in order), tuple(drawn))


class AskedPart(Protocol):
    """One question, as it is charged alone or with others."""

    @property
    def plan(self) -> Plan:
        """What is run for it."""

    @property
    def compiled(self) -> Compiled:
        """The same as the engine will get it: printed before the charge."""

    @property
    def query(self) -> Calibration:
        """The steps of noise that are drawn for it."""

    @property
    def is_part(self) -> bool:
        """Whether it is no question by itself, but some of what is spent on caps for one."""

    @property
    def whole(self) -> Guarantee:
        """The price that was asked for."""

    @property
    def sql(self) -> str:
        """Its text."""

    @property
    def dialect(self) -> Dialect:
        """In which SQL it was written."""

    @property
    def meaning(self) -> list[Any]:
        """What the integers that are drawn for it mean."""

    @property
    def former(self) -> Plan:
        """Its plan as it was before questions had a stored form."""

    @property
    def wrong_readings(self) -> tuple[int, ...]:
        """The earlier readings of SQL that understood it wrongly."""

    def is_meant_by(self, text: str, reading: int, dialect: str) -> bool:
        """Whether a text of the history, as it was once understood, is this question."""

    def was_meant(self, reading: int) -> bool:
        """Whether its own text meant the same by an earlier reading."""

    def meant(self, meaning: list[Any], reading: int) -> Plan | None:
        """The plan by which stored integers are read, if they are an answer to it."""


class Asked(ABC):
    """What is charged at once, and known by one name."""

    __slots__ = ()
    database: Keeper  # what it is asked of

    @property
    @abstractmethod
    def questions(self) -> Sequence[AskedPart]:
        """The questions, at least one."""

    @property
    @abstractmethod
    def text(self) -> str:
        """All of it on one line, for the history."""

    @property
    @abstractmethod
    def text_then(self) -> str:
        """The same as it was written before the third reading."""

    @property
    @abstractmethod
    def slack(self) -> Fraction:
        """What it may take of delta, where it has no pure epsilon."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """What it is known by: the first is written, all are looked up."""

    @abstractmethod
    def keys_of(self, reading: int) -> tuple[str, ...]:
        """What it was known by while SQL was understood so; another question may have had the same names."""

    @abstractmethod
    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by before questions had a stored form."""

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.keys[0]

    @property
    def spend(self) -> Spend:
        """The steps of all questions."""
        return tuple(step for each in self.questions for step in each.query.spend)

    @property
    def prices(self) -> tuple[Guarantee, ...]:
        """What was asked to be spent on each."""
        return tuple(each.query.asked for each in self.questions)

    @property
    def worth(self) -> tuple[Guarantee, ...]:
        """What a stored release of each must have cost: as much, and delta where noise takes some."""
        return tuple(
            price if each.query.slack or each.plan.private_keys else price.of(price.amount, Fraction(0))
            for each, price in zip(self.questions, self.prices, strict=True)
        )

    @property
    def sought(self) -> tuple[tuple[Guarantee, ...], ...]:
        """At which prices a stored release must have been asked, to answer it."""
        return tuple(dict.fromkeys((self.prices, self.worth)))

    @property
    def breaks(self) -> str:
        """The promise that it would break, in words."""
        return self.database.said.breaks(self.spend, self.slack, self.units)

    @property
    def units(self) -> tuple[Unit, ...]:
        """Whose neighbours it is about; none: of every unit there is."""
        found = [about(each.plan, self.database.policy) for each in self.questions]
        return tuple(sorted({unit for each in found for unit in each})) if all(found) else ()

    @property
    def may_be_former(self) -> bool:
        """Whether an answer may be stored under a name of before: not where it was read wrongly then."""
        return 0 in self.database.ledger.readings and not any(
            is_repaired(each.plan) for each in self.questions
        )

    def answers(self, text: str, reading: int, dialect: str) -> bool:
        """Whether this is what was asked by a text in a dialect, as it was once understood."""
        asked = texts.apart(text)
        if text == self.text_then:  # then nothing can be split wrongly
            asked = [texts.one_line(each.sql) for each in self.questions]
        elif text == self.text:
            asked = [texts.told(each.sql) for each in self.questions]
        return len(asked) == len(self.questions) and all(
            each.is_meant_by(one, reading, dialect) for each, one in zip(self.questions, asked, strict=True)
        )

    @property
    def _earlier(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Other names that it had by earlier readings, where anything was charged by them."""
        for reading in sorted(self.database.ledger.readings - {0}, reverse=True):
            if (keys := self.keys_of(reading)) != self.keys:
                yield reading, keys

    @property
    def misread(self) -> tuple[int, ...]:
        """The charges whose answers were to these words, or known by its name, and to another question: their
        SQL was read wrongly."""
        ledger = self.database.ledger
        if not ledger.readings:
            return ()
        dialect = self.questions[0].dialect
        readings = {reading for each in self.questions for reading in each.wrong_readings}
        found = set(ledger.asked_before(self.text_then, readings, dialect) if readings else ())
        for reading, keys in self._earlier:
            if reading in readings:
                found |= set(ledger.answered_under(keys, lambda *asked: not self.answers(*asked)))
        return tuple(sorted(found))

    def is_or_was(self, key: str) -> bool:
        """Whether it is, or was, known by this."""
        if key in self.keys:
            return True
        for reading, keys in self._earlier:
            if key in keys and all(each.was_meant(reading) for each in self.questions):
                return True
        return self.may_be_former and key == self.formerly([each.former for each in self.questions])

    def stored(self, version: int | None = None) -> Stored | None:
        """What is stored for it, about the data as they are or as they were."""
        ledger = self.database.ledger
        for kept in self._kept(version):
            if plans := _meant(self.questions, kept):
                return self._stored(kept, plans)
        if self.may_be_former:
            plans = [each.former for each in self.questions]
            sizes = [len(plan.measures) for plan in plans]
            if found := ledger.all_kept([self.formerly(plans)], self.prices, sizes=sizes, version=version):
                return self._stored(found[0], plans)
        return None

    def earlier(self, first: int = 1) -> Stored | None:
        """The dearest release of it that whoever asks now has asked for before, at any price, about the data
        of a version from `first` on: the last that there is."""
        ledger, nothing = self.database.ledger, [each.of(Fraction(0), Fraction(0)) for each in self.prices]
        for version in range(ledger.data_version, first - 1, -1):
            for kept in ledger.all_kept(self.keys, nothing, version=version):
                if self.database.has_paid(kept.analyst) and (plans := _meant(self.questions, kept)):
                    return self._stored(kept, plans)
        return None

    def own_stored(self) -> Stored | None:
        """What is stored for it about the data as they are, if whoever asks now has paid for it."""
        for kept in self._kept(None):
            if self.database.has_paid(kept.analyst) and (plans := _meant(self.questions, kept)):
                return self._stored(kept, plans)
        return None

    def _kept(self, version: int | None) -> Iterator[Kept]:
        """What may be an answer, by its names of today and then by those of before."""
        ledger = self.database.ledger
        for cost in self.sought:
            yield from ledger.all_kept(self.keys, cost, version=version)
            for _, keys in self._earlier:
                yield from ledger.all_kept(keys, cost, version=version, answers=self.answers)

    def _stored(self, kept: Kept, plans: list[Plan]) -> Stored:
        paid = [kept.receipt.price] if len(plans) == 1 else self.prices
        return Stored(kept.receipt, _parted(plans, kept.spend, paid), kept.drawn)

    def stored_or_as(
        self, other: Asked | None, order: Sequence[int], version: int | None = None
    ) -> Stored | None:
        """What is stored for it, or for the same questions in another order."""
        if (found := Asked.stored(self, version)) is not None or other is None:
            return found
        found = Asked.stored(other, version)
        return None if found is None else found.sorted_by(order)

    def answered_or_as(self, other: Asked | None, order: Sequence[int]) -> Stored:
        """The same, and paid for if nothing is: unless it was in the other order, and nothing stored."""
        if (found := self.stored_or_as(other, order)) is not None:
            return found
        if other is not None and other._waiting()[1] is not None:
            return Asked.answered(other).sorted_by(order)
        return Asked.answered(self)

    def answered(self) -> Stored:
        """What is stored for it; else it is paid for, run and drawn now (`path`)."""
        if (stored := self.stored()) is not None:
            return stored  # asked before: free
        keeper = self.database
        if self.is_free:
            return Stored(self._nothing(), tuple((each.plan, each.query) for each in self.questions), ())
        keeper.check_version()
        parts, receipt = self._waiting()
        if receipt is None:  # only what is charged has a least price
            check_least(keeper.policy, [each.whole for each in self.questions if not each.is_part])
        compiled = [(self._compiled(plan), query) for plan, query in parts]
        receipt, drawn = pay(
            keeper.ledger,
            self.bill(),
            job(keeper.source, compiled, keeper.coins),
            pace=keeper.pace(tuple(plan for plan, _ in parts)),
            receipt=receipt,
        )
        return Stored(receipt, parts, drawn)

    @property
    def is_new(self) -> bool:
        """Whether nothing is stored for it, nor paid."""
        return self.stored() is None and self._waiting()[1] is None

    @property
    def is_free(self) -> bool:
        """Whether nothing is measured for it."""
        return all(each.plan.is_free for each in self.questions)

    def _nothing(self) -> Receipt:
        """That nothing is charged, since nothing of the data is shown."""
        ledger = self.database.ledger
        nothing = ledger.limit.of(Fraction(0), Fraction(0))
        return Receipt(0, nothing, ledger.spent, nothing, ledger.head)

    def bill(self) -> Bill:
        """What is charged for it."""
        policy, plans = self.database.policy, [each.plan for each in self.questions]
        tables = {name: form for plan in plans for name, form in declared(plan, policy).items()}
        return Bill(
            self.spend,
            self.key,
            self.text,
            analyst=self.database.analyst,
            slack=self.slack,
            asked=self.prices,
            meaning=tuple(each.meaning for each in self.questions),
            units=self.units,
            tables=tuple(sorted(tables.items())),
            dialect=self.questions[0].dialect,
        )

    def _compiled(self, plan: Plan) -> Compiled:
        """What the engine gets for a plan: as it was shown, unless the plan is one of before."""
        shown = (each.compiled for each in self.questions if each.plan is plan)
        return next(shown, None) or self.database.source.compile(plan)

    def _waiting(self) -> tuple[tuple[tuple[Plan, Calibration], ...], Receipt | None]:
        """What is run and drawn; with a receipt, if it was charged before and its release never stored.

        Then what was charged is what is drawn: its steps must be those of the measures that would be run now,
        at the distances that hold now.
        """
        now = tuple((each.plan, each.query) for each in self.questions)
        watched = self.database.watched
        for charged, plans in self._charged():
            receipt, spend = charged.receipt, charged.spend
            if self.database.ledger.is_held(receipt.number):
                raise Halted(self.database.policy.name, receipt.number)
            derived = [each.distances for plan in plans for each in derive(plan, watched)]
            if [step.distances for step in spend] == derived:
                return _parted(plans, spend, self.prices), receipt
        return now, None

    def _charged(self) -> Iterator[tuple[Kept, list[Plan]]]:
        """What was charged for it and never released, and the plans that its steps were charged for: as they
        would be now, or as they were when other measures were taken for the same."""
        ledger, prices = self.database.ledger, self.prices
        found: tuple[Kept, ...] = ()
        for cost in self.sought:
            found += ledger.unredeemed(self.keys, cost)
            for _, keys in self._earlier:
                found += ledger.unredeemed(keys, cost, answers=self.answers)
        now = [each.meaning for each in self.questions]
        for charged in sorted(found, key=lambda each: each.meaning != now):
            if plans := _meant(self.questions, charged):
                yield charged, plans
        if self.may_be_former:
            plans = [each.former for each in self.questions]
            sizes = [len(plan.measures) for plan in plans]
            for charged in ledger.unredeemed([self.formerly(plans)], prices, sizes=sizes):
                yield charged, plans


def shown(keeper: Keeper, stored: Stored) -> tuple[Release, ...]:
    """The releases of all questions that were charged together."""
    releases, start = [], 0
    for plan, query in stored.parts:
        end = start + len(query.steps)
        gains = keeper.said.gains(query, about(plan, keeper.policy), paid=True)
        facts = (stored.receipt, keeper.left, keeper.analyst, gains)
        drawn = stored.drawn[start:end]
        groups = len(drawn[0]) if drawn and plan.private_keys else plan.size
        there = settled(plan, query, all_together(plan, drawn), groups) if drawn else plan
        told = told_unmeasured(keeper.policy, plan)
        releases.append(Release(keeper.policy.name, there, query, drawn, *facts, unmeasured=told))
        start = end
    return tuple(releases)


def meaning_of(plan: Plan) -> list[Any]:
    """What the integers that are drawn for a plan mean, in a form that stays."""
    return [each.form for each in plan.measures]


def _parted(
    plans: Sequence[Plan], spend: Spend, prices: Sequence[Guarantee]
) -> tuple[tuple[Plan, Calibration], ...]:
    """Steps that were charged together, each with the plan that they are for."""
    parts, start = [], 0
    for plan, price in zip(plans, prices, strict=True):
        end = start + len(plan.measures)
        parts.append((plan, Calibration(spend[start:end], price)))
        start = end
    return tuple(parts)


def _meant(parts: Sequence[AskedPart], kept: Kept) -> list[Plan]:
    """The plans by which stored integers are read; none if they cannot be."""
    if len(kept.meaning) != len(parts):
        return []
    found = [part.meant(each, kept.reading) for part, each in zip(parts, kept.meaning, strict=True)]
    plans = [plan for plan in found if plan is not None]
    return plans if len(plans) == len(found) else []
