"""Many questions within one budget: what each shall cost, so that the worst of them is as good as can be.

An even split gives a count of millions as much as a sum over a dozen groups. Here every question gets what it
needs: errors are forecast at many prices (`forecast`), and the price goes, step by step, to where the largest
errors fall fastest. That is decided from public facts and past releases; the errors are told before anything
is spent.

What people have in the questions is measured first, once for all questions that add up the same: one charge.
Then the rest is divided anew by what was found, and all answers are one batch, fixed before it is charged.
The second charge depends on the first release, and the ledger adds both up.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget.ledger.shares import of
from sfumato.curator import show, texts
from sfumato.curator.asked import shown
from sfumato.curator.batch import Batch
from sfumato.curator.forecast import FROM_NOTHING, UNKNOWN, forecasts
from sfumato.curator.measuring import OWN, Fits, repriced
from sfumato.curator.question import asked
from sfumato.curator.refusals import check_least
from sfumato.curator.release import Releases
from sfumato.curator.tables import whole_units
from sfumato.curator.tuning import as_measured
from sfumato.errors import BudgetExceeded, InvalidParameter, PromiseBroken
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries import notation
from sfumato.queries.declared import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.curator.forecast import Forecast
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
    from sfumato.mechanisms import Guarantee
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.statement import Statement

    Tried = Callable[[int, int], tuple[float, tuple[str, ...]]]
    Knowledge = Mapping[str, Measured] | None  # own histograms, by what they are known by

POWER = 3  # of an error: the larger, the more the worst question counts
STEP = Fraction(5, 4)  # from one price that is tried to the next
AHEAD = 3  # steps that are looked ahead
LEAST, MOST = Fraction(1, 10), 0.8  # of an even share, and of all: the least and most a question may cost
LARGEST = 1e6  # of an error, in parts of a number
MOST_PLANNED = 200  # questions
MEASURES, ANSWERS = "measures", "answers"  # the two charges, in their names
NOTED = "agenda"  # notes in the ledger of what is measured for one, made before the charge
TIMES, ENOUGH = 12, Fraction(101, 100)  # tries to divide all of the price, and how much may be left over


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Stage(Batch):
    """One charge of an agenda: known by the agenda, whatever each question of it costs."""

    about: tuple[Any, ...]  # the agenda
    known_by: tuple[tuple[str, ...], ...]  # the names of its questions

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(
            notation.digest(["agenda", *self.about, *together])
            for together in zip(*self.known_by, strict=True)
        )

    def keys_of(self, reading: int) -> tuple[str, ...]:
        del reading  # there were none by earlier readings
        return self.keys

    @property
    def sought(self) -> tuple[tuple[Guarantee, ...], ...]:
        """At any prices: another version may divide them in another way."""
        return (tuple(each.of(Fraction(0), Fraction(0)) for each in self.prices),)

    @property
    def may_be_former(self) -> bool:
        return False

    @property
    def _as_one_text(self) -> tuple[None, tuple[int, ...]]:
        return None, ()


@dataclass(frozen=True, slots=True)
class Item:
    """A question of an agenda: what it will cost, and what to expect."""

    question: Question
    price: Guarantee
    expected: tuple[Forecast, ...]
    weight: Fraction

    @property
    def worst(self) -> float:
        """The largest error of its numbers, in parts of themselves."""
        found = [each.relative for each in self.expected if each.relative is not None]
        return max(found, default=math.inf)

    @property
    def likely(self) -> float:
        """The largest error that is likely: less than the worst, since intervals cover what is not."""
        found = [each.likely for each in self.expected if each.likely is not None]
        return max(found, default=math.inf)

    @property
    def is_assumed(self) -> bool:
        """Whether that rests on sizes that are made up."""
        return any(each.basis in (FROM_NOTHING, UNKNOWN) for each in self.expected)

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "question": self.question.text,
            self.price.currency: decimal(self.price.amount),
            "weight": decimal(self.weight),
            "expected": [
                {
                    "column": each.column,
                    "error": _finite(each.error),
                    "relative": _finite(each.relative),
                    "basis": each.basis,
                }
                for each in self.expected
            ],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Agenda:
    """Questions to be asked together, within one price. Looking at it never spends.

    Guarantee: the price, for all of them together. Proof: the histograms are a batch, and so are the answers;
    the second depends on the first, and the ledger's filter adds them up.
    """

    database: Keeper
    statements: tuple[Statement, ...]
    price: Guarantee
    weights: tuple[Fraction, ...]
    _found: dict[str, tuple[Item, ...]] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        count = len(self.statements)
        if not 0 < count <= MOST_PLANNED:
            told = f"give from 1 to {MOST_PLANNED}"
            raise InvalidParameter("questions", count, told, problem=f"{count} questions cannot be planned")
        if len(self.weights) != count or any(each <= 0 for each in self.weights):
            told = f"give one number above 0 for each of the {count} questions"
            raise InvalidParameter("weights", ", ".join(map(str, self.weights)), told)
        check_least(self.database.policy, [self.price])
        questions = self._questions
        for each in questions:
            if each.plan.beside or not each.stands_alone:
                told = "ask it separately: of its questions one may depend on the answer to another"
                raise InvalidParameter("questions", texts.told(each.sql), told, problem="no single question")
            if each.is_free:
                told = "leave it out: it shows nothing of the data, and is free"
                raise InvalidParameter("questions", texts.told(each.sql), told)
        if len({each.sense for each in questions}) < count:
            told = "give each once, also where only what is made of the release differs: a repetition is free"
            raise InvalidParameter("questions", "one of them twice", told)
        if len({each.dialect for each in questions}) > 1:
            raise InvalidParameter("questions", "in two dialects", "write all of them in one")

    @property
    def _questions(self) -> list[Question]:
        """The questions, as they are known: at whatever price."""
        return [self._asked(i, self.even, None)[0] for i in range(len(self.statements))]

    # What it will come to -----------------------------------------------------------------------------

    @property
    def even(self) -> Guarantee:
        """What each would get of an even split."""
        return whole_units(self.price, self.price.amount / len(self.statements))

    @property
    def items(self) -> tuple[Item, ...]:
        """Every question with its price and what to expect, from what is known now; free."""
        head = self.database.ledger.head
        if head not in self._found:
            self._found.clear()
            self._found[head] = self._divided(self.price, None)
        return self._found[head]

    @property
    def measured(self) -> tuple[Question, ...]:
        """The histograms that are bought first: each once, at a part of the price of those that need it."""
        return self._first(self.items)

    @property
    def is_paid(self) -> bool:
        """Whether it was released before: then it is free."""
        return self._answers(self._questions).stored() is not None

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        first = self.measured
        return {
            **self.price.as_dict(),
            "free": self.is_paid,
            "left": decimal(self.database.left.amount),
            "questions": [each.as_dict() for each in self.items],
            "measured_first": [
                {"what": each.sql, each.price.currency: decimal(each.price.amount)} for each in first
            ],
        }

    def __repr__(self) -> str:
        items, first = self.items, self.measured
        rows = []
        for n, each in enumerate(items, start=1):
            worst = "not known" if math.isinf(each.worst) else f"± {show.sized(100 * each.worst)}%"
            star = " *" if each.is_assumed else ""
            rows.append([str(n), decimal(each.price.amount), worst + star, each.question.text])
        headers = ["", self.price.currency, "error at 95%", "question"]
        lines = [show.table(headers, rows, [False, False, False, True]), ""]
        notes = []
        if first:
            spent = sum((each.price.amount for each in first), Fraction(0))
            notes.append(
                f"{self.price.of(spent, Fraction(0))} of it is first spent on how much people have in these "
                "questions, as one charge. Then the rest is divided anew by what was found, and all answers "
                "are one batch."
            )
        if any(each.is_assumed for each in items):
            told = "* as if each group had 1,000 rows: it is not known how large these numbers are."
            notes.append(told)
        paid = "Free: released before." if self.is_paid else f"Costs {self.price} when released."
        return "\n".join([*lines, *show.paragraphs([*notes, f"{paid} No row was read."])])

    # What becomes of it -------------------------------------------------------------------------------

    def release(self) -> Releases:
        """Spend the price and get all the numbers; the same list at the same price again is free."""
        paid = self._answers(self._questions)
        if paid.stored() is None and paid._waiting()[1] is None:
            paid = self._answers([each.question for each in self._measured_and_divided()])
        return Releases(shown(self.database, paid.answered()))

    def _measured_and_divided(self) -> tuple[Item, ...]:
        """The questions at their prices, after what people have in them was measured."""
        ledger, known = self.database.ledger, dict[str, Measured]()
        noted, begun = self._noted(), False
        if noted is None:
            self._check_affordable(self.items, self.measured)
            self._buy_tables()
            items = self._divided(self.price, None)
            first = self._first(items)
            self._check_affordable(items, first)
            if not first:
                return items if not self.database.policy.measure else self._divided(self.price, known)
            noted = {each.key: each.price.amount for each in first}
            facts = {"version": ledger.data_version, "histograms": [[k, str(p)] for k, p in noted.items()]}
            ledger.note(NOTED, facts, about=self._measures(()).key)
            begun = True
        first = self._histograms(noted)
        if not begun and not ledger.charged(self._measures(()).key, version=ledger.data_version):
            self._check_affordable((), first)  # it was noted, and no more
        spent = sum(noted.values(), Fraction(0))
        if len(first) == len(noted):  # else the policy has changed, and they say nothing any more
            stored, ends = self._measures(first).answered(), 0
            for question, (_, query) in zip(first, stored.parts, strict=True):
                known[question.key] = as_measured(query.guarantee(), stored.drawn[ends])
                ends += len(query.steps)
        return self._divided(self.price.of(self.price.amount - spent, self.price.delta), known)

    def _noted(self) -> dict[str, Fraction] | None:
        """The histograms that were chosen for it before, and their prices; None if none were."""
        ledger = self.database.ledger
        for each in reversed(ledger.notes(NOTED, self._measures(()).key)):
            if each["version"] == ledger.data_version:
                return {key: Fraction(price) for key, price in each["histograms"]}
        return None

    def _histograms(self, noted: Mapping[str, Fraction]) -> tuple[Question, ...]:
        """The same as questions, as far as they can be asked."""
        possible: dict[str, Question] = {}
        for i in range(len(self.statements)):
            possible |= self._asked(i, self.even, None)[1].possible
        return tuple(
            replace(repriced(possible[key], self.price.of(price, Fraction(0))), is_part=True)
            for key, price in noted.items()
            if key in possible
        )

    def _check_affordable(self, items: Sequence[Item], first: Sequence[Question]) -> None:
        """Refuse all of it before anything is spent, if it would be refused later."""
        keeper, left = self.database, self.database.left
        needed = sum((each.price.amount for each in items), Fraction(0))
        needed += sum((each.price.amount for each in first), Fraction(0))
        if needed > self.price.amount:
            told = "its histograms would take more than that. Ask fewer questions, or for more"
            raise InvalidParameter(self.price.currency, decimal(self.price.amount), told)
        if self.price.amount > left.amount:
            share = of(keeper.analyst, {each.name: each for each, _ in keeper.ledger.shares()})
            whose = repr(keeper.policy.name) if share is None else f"the share of {share.name!r}"
            raise keeper.ledger.exceeded(whose, self.price, left, keeper.ledger.more)
        stages = [self._answers([each.question for each in items])] if items else []
        stages += [self._measures(first)] if first else []
        spend = tuple(step for each in stages for step in each.spend)
        if told := keeper.said.breaks(spend, Fraction(0), stages[0].units):
            raise PromiseBroken(keeper.policy.name, str(self.price), str(left), told)

    def _buy_tables(self) -> None:
        """Tables are measured on the owner's account, as far as there is room beside the agenda."""
        missing: dict[str, Question] = {}
        for i in range(len(self.statements)):
            missing |= self._asked(i, self.even, None)[1].missing
        for each in missing.values():
            left = each.database.left.amount
            if each.is_owners and self.price.amount + each.price.amount <= left:
                try:
                    each.answered()
                except (BudgetExceeded, PromiseBroken):
                    return

    def _measures(self, histograms: Sequence[Question]) -> Stage:
        """The first charge: known by the questions, whatever is measured for them."""
        return self._stage(MEASURES, histograms, self._questions)

    def _answers(self, questions: Sequence[Question]) -> Stage:
        """The second: what is least for a question was checked for all of it."""
        return self._stage(
            ANSWERS, [replace(each, again=None, before=(), is_part=True) for each in questions], questions
        )

    def _stage(self, name: str, parts: Sequence[Question], questions: Sequence[Question]) -> Stage:
        """One charge, known by all questions of the agenda."""
        total = [self.price.currency, str(self.price.amount), *map(str, self.weights)]
        return Stage(
            self.database,
            tuple(parts) or tuple(questions),
            Fraction(0),
            about=(name, *total),
            known_by=tuple(each.keys for each in questions),
        )

    # How the price is divided -------------------------------------------------------------------------

    def _asked(self, i: int, spend: Guarantee, known: Knowledge) -> tuple[Question, Fits]:
        """A question at a price, with caps that fit what is known: before anything of its own is, with those
        of its table."""
        keeper, statement = self.database, self.statements[i]
        fits = Fits(keeper, guesses=known is None, given={} if known is None else known)
        way = fits.way if keeper.policy.measure else None
        return asked(keeper, statement, keeper.policy, spend, fits=way), fits

    def _at(self, i: int, spend: Guarantee, known: Knowledge) -> tuple[Item, Fits]:
        question, fits = self._asked(i, spend, known)
        looked = question
        if question.plan.outer is not None:  # what is made of a release is as wrong as the release
            looked = replace(question, plan=question.plan.all[0])
        expected = forecasts(looked, assumes=True, past=False)  # else everybody would divide it otherwise
        return Item(question, spend, expected, self.weights[i]), fits

    def _divided(self, whole: Guarantee, known: Knowledge) -> tuple[Item, ...]:
        """The prices at which the worst weighted errors are least: from the least price on, whichever
        question gains most for what it costs gets the next step."""
        count = len(self.statements)
        first = whole.amount / count * LEAST
        steps = math.ceil(math.log(MOST * count / LEAST, STEP)) if count > 1 else 0
        prices = [first * STEP**n for n in range(steps + 1)]
        tried: dict[tuple[int, int], tuple[float, tuple[str, ...]]] = {}

        def at(i: int, n: int) -> tuple[float, tuple[str, ...]]:
            """The weighted error of a question at a price, and which histograms it needs."""
            if (i, n) not in tried:
                item, fits = self._at(i, whole_units(whole, prices[n]), known)
                own = tuple(fits.own) if known is None else ()
                tried[i, n] = min(item.likely, LARGEST) * float(item.weight), own
            return tried[i, n]

        chosen = _climbed(count, prices, at, whole.amount) if count > 1 else [0]
        found = [prices[n] for n in chosen]
        best = [prices[0]] * count  # of those that do not come to more than all of it
        for _ in range(TIMES):  # what is left goes to all alike; at another price other histograms are needed
            needs = [self._needs(i, _short(whole, each), known) for i, each in enumerate(found)]
            scale = whole.amount / _cost(found, needs)
            best = found if scale >= 1 and sum(found) >= sum(best) else best
            if 1 <= scale < ENOUGH:
                break
            found = [each * scale for each in found]
        return tuple(self._at(i, _short(whole, each), known)[0] for i, each in enumerate(best))

    def _needs(self, i: int, price: Guarantee, known: Knowledge) -> tuple[str, ...]:
        """The histograms that a question needs at a price."""
        return tuple(self._asked(i, price, known)[1].own) if known is None else ()

    def _first(self, items: Sequence[Item]) -> tuple[Question, ...]:
        """The histograms of their own that these questions need, each at a part of the dearest of them."""
        found: dict[str, tuple[Question, Fraction]] = {}
        for i, item in enumerate(items):
            _, fits = self._asked(i, item.price, None)
            for key, histogram in fits.own.items():
                part = item.price.amount * OWN / (1 - OWN) / len(fits.own)
                found[key] = histogram, max(part, found.get(key, (histogram, Fraction(0)))[1])
        return tuple(
            replace(repriced(each, _short(self.price, price)), is_part=True) for each, price in found.values()
        )


def weight_of(given: Number) -> Fraction:
    """How much the error of a question counts."""
    is_plain = re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12}|/[0-9]{1,12})?", str(given)[:40])
    try:
        found = Fraction(str(given)) if is_plain else Fraction(0)
    except ZeroDivisionError:
        found = Fraction(0)
    if not Fraction(1, 10**6) <= found <= 10**6:
        raise InvalidParameter("weights", given, "give a number above 0 for each question, such as 2")
    return found


def _climbed(count: int, prices: Sequence[Fraction], at: Tried, whole: Fraction) -> list[int]:
    """Which price each question gets, if the next step goes to whichever gains most by it, until nothing is
    left."""
    chosen, last = [0] * count, len(prices) - 1
    while True:
        needs = [at(i, n)[1] for i, n in enumerate(chosen)]
        now = [prices[n] for n in chosen]
        before, best, gain = _cost(now, needs), -1, 0.0
        for i, n in enumerate(chosen):
            cost = _cost([*now[:i], prices[min(n + 1, last)], *now[i + 1 :]], needs)
            if n == last or cost > whole:
                continue
            further = min(n + AHEAD, last)  # an error may fall only some steps later
            steps = (prices[further] - prices[n]) / (prices[n + 1] - prices[n])
            fall = at(i, n)[0] ** POWER - at(i, further)[0] ** POWER
            if (found := fall / float((cost - before) * steps)) > gain:
                best, gain = i, found
        if best < 0:
            return chosen
        chosen[best] += 1


def _cost(prices: Sequence[Fraction], needs: Sequence[tuple[str, ...]]) -> Fraction:
    """What questions cost with the histograms that they share, each at a part of the dearest of them."""
    shared: dict[str, Fraction] = {}
    for price, keys in zip(prices, needs, strict=True):
        for key in keys:
            shared[key] = max(shared.get(key, Fraction(0)), price * OWN / (1 - OWN) / len(keys))
    return sum(prices, Fraction(0)) + sum(shared.values(), Fraction(0))


def _short(currency: Guarantee, amount: Fraction) -> Guarantee:
    """A price of four digits, not above the amount."""
    ten = Fraction(10) ** (math.floor(math.log10(amount)) - 3)
    return whole_units(currency, amount // ten * ten)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
