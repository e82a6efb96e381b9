"""A checked question and its price: from SQL text to a plan, its distances, noise, and the engine's text."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from sfumato.budget.ledger.shares import of
from sfumato.curator import names, texts
from sfumato.curator.above import check_above, public_tables
from sfumato.curator.asked import Asked, Stored, meaning_of, shown
from sfumato.curator.calibrate import Calibration, calibrate
from sfumato.curator.caps import resolve
from sfumato.curator.explanation import Explanation
from sfumato.curator.forecast import forecasts
from sfumato.curator.intervals import uses
from sfumato.curator.proportions import are_all
from sfumato.curator.refusals import check_least, private_keys, told_age, told_unmeasured, too_small
from sfumato.curator.repairs import wrong_readings
from sfumato.errors import BudgetExceeded, InvalidParameter, PromiseBroken, QueryRefused, SfumatoError
from sfumato.mechanisms import Guarantee
from sfumato.queries import former, forms, notation
from sfumato.queries.affine import with_bases
from sfumato.queries.cells import CUT_ALIKE
from sfumato.queries.made import public_rows
from sfumato.queries.measures import measured
from sfumato.queries.notation import tell_apart
from sfumato.queries.sensitivity import derive
from sfumato.queries.sql import too_deep
from sfumato.queries.statement import read
from sfumato.queries.totals import with_totals

FINEST, FINEST_DELTA = 10**12, 10**18  # in which prices are counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sfumato.curator.explanation import Expected
    from sfumato.curator.forecast import Sizing
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.names import Names
    from sfumato.curator.release import Release
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.asking import Measuring
    from sfumato.queries.declared import Value
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Derivation
    from sfumato.queries.sql import Dialect
    from sfumato.queries.statement import Statement
    from sfumato.sources.answers import Compiled

    Fitting = Callable[..., "Way | None"]  # caps that fit a question


@dataclass(frozen=True, slots=True)
class Way:
    """Under which policy a question is asked, how it is measured, at which price; and what is known of it."""

    policy: Policy
    measuring: Measuring
    spend: Guarantee
    size: Sizing | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Question(Asked):
    """A checked question and its price. Looking at it never spends."""

    database: Keeper
    sql: str
    plan: Plan
    query: Calibration
    derivations: tuple[Derivation, ...]
    compiled: Compiled  # what the engine will run: printed here, so that nothing can fail after the charge
    declared: Plan = field(kw_only=True)  # the plan before caps that we choose: what the question is known by
    statement: Statement | None = None  # None if it is no text of SQL
    policy: Policy | None = None  # that it was asked under
    fitting: Policy | None = None  # the same with caps that we chose
    tuned_for: Guarantee | None = None  # what was spent on caps that fit it
    for_own: Guarantee | None = None  # what of its price is for histograms of its own
    bought: Guarantee | None = None  # what of that was spent just now
    is_part: bool = False  # of what is spent on caps: no question by itself
    is_owners: bool = False  # whether that is not for one question, and so not the asker's
    before: tuple[Question, ...] = ()  # histograms that are bought first
    again: Callable[[Keeper, bool], Question] | None = None  # the same, once that is known
    guessed: Callable[[], Question] | None = None  # the same, as it is likely to be then
    aged: tuple[tuple[str, int], ...] = ()  # what it knows of tables from before the data last changed
    wished: str = ""  # the error that it was asked for, and what its price is expected to give
    size: Sizing | None = None  # what is known of what it counts
    priced: Callable[[Keeper, Guarantee], Question] | None = None  # the same at another price
    _named: list[tuple[Names, tuple[str, ...]]] = field(default_factory=list, init=False, compare=False)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Itself: what a batch has several of."""
        return (self,)

    @property
    def text(self) -> str:
        """The question on one line, for the history."""
        return texts.told(self.sql)

    @property
    def text_then(self) -> str:
        """The same as it was written before the third reading."""
        return texts.one_line(self.sql)

    @property
    def dialect(self) -> Dialect:
        """In which SQL it was written."""
        return "duckdb" if self.statement is None else self.statement.dialect

    # Its price ----------------------------------------------------------------------------------------

    @property
    def tuning(self) -> Guarantee | None:
        """What is first spent on caps that fit it: see `tuning.FirstTuned`."""
        return None

    @property
    def price(self) -> Guarantee:
        """What `release()` charges at most."""
        price = self.query.guarantee()
        return price if self.tuning is None else price.of(price.amount + self.tuning.amount, price.delta)

    @property
    def whole(self) -> Guarantee:
        """The price that was asked for, with what is or was spent on its caps."""
        price, caps = self.query.asked, self.tuning or self.tuned_for
        return price if caps is None else price.of(price.amount + caps.amount, price.delta)

    @property
    def slack(self) -> Fraction:
        """What it takes of delta, where it has no pure epsilon."""
        return self.query.slack

    @property
    def releases(self) -> int:
        """How many releases it takes."""
        return 1 + len(self.before)

    # What it is known by ------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[str, ...]:
        """Its names: the first is written, all are looked up."""
        names = self.database.names
        if not self._named or self._named[0][0] is not names:  # with many declared values that takes long
            self._named[:] = [(names, names.keys(self.declared, self.tuned_for))]
        return self._named[0][1]

    @property
    def sense(self) -> str:
        """What it means: equal for questions that ask for the same, wherever the data lie."""
        return forms.meaning(self.declared, self.policy or self.database.policy)

    def keys_of(self, reading: int) -> tuple[str, ...]:
        """What it was known by while SQL was understood so."""
        try:
            then = self._declared(self.statement, reading)
        except QueryRefused:  # what was refused then has no other names
            return self.keys
        return self.database.names.keys(then, self.tuned_for, reading)

    def is_meant_by(self, text: str, reading: int, dialect: str) -> bool:
        """Whether a text of the history in a dialect, as it was once understood, is this question.

        Where the end of a comment is lost, all that it can have been must be: of what had the name by which
        it was stored.
        """
        policy, keys = self.policy or self.database.policy, self.keys_of(reading)
        own = [self.sql] if self.policy is None or text in (self.text, self.text_then) else []
        told = () if own and text == self.text else islice(texts.restored(text), texts.MOST_RESTORED)
        meanings = set()
        for sql in (*own, *told):
            with suppress(QueryRefused):
                plan = self._declared(read(sql, dialect), reading)
                if self.database.names.keys(plan, self.tuned_for, reading) == keys:
                    meanings.add(forms.meaning(plan, policy))
        return meanings == {forms.meaning(self.declared, policy)}

    def was_meant(self, reading: int) -> bool:
        """Whether its own text meant the same by an earlier reading."""
        policy = self.policy or self.database.policy
        then = self._declared(self.statement, reading)
        return forms.meaning(then, policy) == forms.meaning(self.declared, policy)

    def _declared(self, statement: Statement | None, reading: int) -> Plan:
        """The plan of a text before caps that we choose, as it was once understood."""
        if self.policy is None or statement is None:
            return self.declared
        statement = replace(statement, part=None if self.statement is None else self.statement.part)
        return statement.plan(self.policy, self.database.measuring, reading=reading)

    def _groups(self, reading: int) -> list[tuple[Value, ...] | None]:
        """Which groups there are, as it was once understood."""
        return [key.values for key in self._declared(self.statement, reading).keys]

    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by before questions had a stored form."""
        return self.database.names.former(plans[0])

    @property
    def former(self) -> Plan:
        """Its plan as it was then."""
        if self.policy is None or self.statement is None:
            return self.plan
        fitting = resolve(self.policy, self.declared, self.query.asked, is_former=True)
        return self.statement.plan(fitting, former.measures, reading=former.READING)

    @property
    def meaning(self) -> list[Any]:
        """What the integers that are drawn for it mean."""
        return meaning_of(self.plan)

    def meant(self, meaning: list[Any], reading: int) -> Plan | None:
        """The plan by which stored integers are read, if they are an answer to it: all groups are shown of
        what was released before some were left out."""
        found = self._meant(meaning, reading)
        return found if found is None or reading > 4 else replace(found, occurring=())

    def _meant(self, meaning: list[Any], reading: int) -> Plan | None:
        meaning = former.unmarked(meaning)
        if any(each.get("cut", [])[5:6] == [CUT_ALIKE] for each in meaning) and not are_all(self.declared):
            return None  # of a proportion, in which people weigh alike: it tells no count
        is_read = reading == notation.READING or self._groups(reading) == self._groups(notation.READING)
        ways = (notation.READING, reading) if is_read else (reading,)
        if is_read and meaning == self.meaning and (reading == ways[0] or tell_apart(self.plan.values)):
            return self.plan
        if self.fitting is None or self.statement is None:
            return None
        for way in dict.fromkeys(ways):  # casts were left out of some values
            values = self.statement.plan(self.fitting, self.database.measuring, reading=way).values
            if tell_apart(values) and (measures := measured(meaning, with_bases(values))) is not None:
                return self.statement.plan(self.fitting, lambda *_, found=measures: found, reading=way)
        return None

    # What becomes of it -------------------------------------------------------------------------------

    def likely(self) -> Question | None:
        """What it is likely to be once it is measured how much people have; itself, if nothing is measured
        for it; None if nothing is known of that."""
        if not self.before or self.guessed is None:
            return self
        found = replace(self.guessed(), database=self.database)
        return None if found.size is None else found

    def explain(self) -> Explanation:
        """Price, error and derivation. Free, and no row is read."""
        return self._explained(self.stored() if self.tuning is None else None)

    def _explained(self, stored: Stored | None) -> Explanation:
        keeper = self.database
        paid = stored is not None
        plan, query, derivations = self.plan, self.query, self.derivations
        if stored is not None:  # what is shown for free, perhaps at a larger price and with other caps
            ((plan, query),) = stored.parts
            derivations = derive(plan, keeper.watched)
        return Explanation(
            self.text,
            plan,
            query,
            derivations,
            self.engine_sql,
            paid,
            keeper.left,
            self.tuning,
            keeper.said.gains(query, self.units, paid=paid),
            "" if paid else self.breaks,
            () if paid else self.misread,
            "" if paid else too_small(keeper.policy, [self.whole]),
            before=() if paid else tuple(self._measured_first()),
            expected=() if paid else forecasts(self),
            wished=self.wished,
            aged="" if paid else told_age(self.aged),
            unmeasured=told_unmeasured(keeper.policy, plan),
            at=self._at,
        )

    def _outlined(self) -> Explanation:
        """What errors follow from, and nothing of what was spent or stored."""
        left = self.database.left
        facts = (self.text, self.plan, self.query, self.derivations)
        return Explanation(*facts, "", False, left, self.tuning, expected=forecasts(self))

    @property
    def _at(self) -> Callable[[Fraction], Explanation] | None:
        """The same planned at other prices, for its errors. That reads no row and charges nothing."""
        if self.priced is None:
            return None
        priced, spend = self.priced, self.whole
        return lambda amount: priced(self.database, spend.of(amount, spend.delta))._outlined()

    def _measured_first(self) -> Iterator[str]:
        """What is spent on finding out how much people have, in sentences."""
        for each in self.before:
            if each.is_owners:
                yield f"first, once, on the owner's account: {each.sql}, {each.price}"
            else:
                yield f"{each.price} of its price is first spent on how much people have of what it adds up"

    @property
    def wrong_readings(self) -> tuple[int, ...]:
        """The earlier readings of SQL that understood it wrongly."""
        if self.policy is None or self.statement is None:
            return ()
        return wrong_readings(self.statement, self.policy)

    @property
    def engine_sql(self) -> str:
        """What the engine will run."""
        return ";\n".join(self.compiled.texts)

    def kept(self, *, version: int | None = None) -> Release | None:
        """The stored release that answers it, about the data as they are or as they were; free."""
        stored = self.stored(version)
        return None if stored is None else self.released(stored)

    def release(self) -> Release:
        """Spend the price and get the numbers; asking again is free."""
        if self.again is not None and self.is_new:
            return self.measured().release()
        return self.released(self.answered())

    def measured(self, room: Guarantee | None = None, *, own: bool = True) -> Question:
        """The same with caps that fit, after what has to be known for them was measured: what is the owner's
        as far as the budget has room for it beside the question, or beside all that `room` says."""
        if self.again is None:
            return self
        found, tried, bought = self.again(self.database, own), set[str](), Fraction(0)
        if room is None:
            room = found.still_needed
            found.check_affordable(room)
        while todo := [each for each in found.before if each.key not in tried]:
            owners = [each for each in todo if each.is_owners]
            for each in owners or todo:  # the owner's first: without them nothing of its own is bought
                tried.add(each.key)
                if not each.is_owners:
                    bought += each.answered().receipt.charged.amount
                elif room.amount + each.price.amount <= each.database.left.amount:
                    with suppress(BudgetExceeded, PromiseBroken):
                        each.answered()
            found = self.again(self.database, own)
        spent = self.price.of(bought, Fraction(0)) if bought else None
        return replace(found, again=None, before=(), bought=spent)

    @property
    def still_needed(self) -> Guarantee:
        """What of its price is still to be spent: less what its own histograms have cost already."""
        price, own = self.price, [each for each in self.before if not each.is_owners]
        if self.for_own is None or not own:
            return price
        waiting = sum((each.price.amount for each in own if each._waiting()[1] is None), Fraction(0))
        return price.of(price.amount - self.for_own.amount + waiting, price.delta)

    def check_affordable(self, needed: Guarantee | None = None) -> None:
        """Refuse what would be refused later, when something is spent already."""
        keeper, price = self.database, needed or self.price
        left = keeper.left
        if price.amount > left.amount or price.delta > left.delta:
            share = of(keeper.analyst, {each.name: each for each, _ in keeper.ledger.shares()})
            whose = repr(keeper.policy.name) if share is None else f"the share of {share.name!r}"
            raise keeper.ledger.exceeded(whose, price, left, keeper.ledger.more)
        check_least(keeper.policy, [self.whole])
        if told := self.breaks:
            raise PromiseBroken(keeper.policy.name, str(price), str(left), told)

    def released(self, stored: Stored) -> Release:
        """What is stored for it, as it is shown."""
        (release,) = shown(self.database, stored)
        aged = told_age(self.aged) if release.receipt.charged.amount else ""
        release = replace(release, caps=self.tuned_for, own=self.bought, wished=self.wished, aged=aged)
        return self._beside_public(release)

    @property
    def stands_alone(self) -> bool:
        """Whether it is one question, of whose release alone its rows are made."""
        outer = self.plan.outer
        return len(self.questions) == 1 and (outer is None or not public_rows(outer.query))

    def _beside_public(self, release: Release) -> Release:
        """The release with the rows of public tables that its text reads as well."""
        if release.plan.outer is None:
            return release
        return replace(release, public=public_tables(release.plan.outer.query, self.database.source))

    def __repr__(self) -> str:
        wished = f"  {self.wished}\n" if self.wished else ""
        return (
            f"  {self.text}\n{wished}"
            f"  costs {self.price} when released, nothing until then.\n"
            f"  .explain() shows price, error and why; .release() spends and answers."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Joint(Question):
    """Several questions of one text, charged together before any of them runs, and what is made of them.

    It is known by the name of their batch: who asks the same questions as a batch has paid for it.
    """

    parts: tuple[Question, ...] = ()
    is_sorted: bool = True  # whether they are charged in the order of their names, wherever they are named

    def __post_init__(self) -> None:
        if any(each.database is not self.database for each in self.parts):
            parts = tuple(replace(each, database=self.database) for each in self.parts)
            object.__setattr__(self, "parts", parts)

    @property
    def questions(self) -> tuple[Question, ...]:
        return tuple(self.parts[i] for i in self._order)

    @property
    def _order(self) -> tuple[int, ...]:
        return names.order(self.parts) if self.is_sorted else tuple(range(len(self.parts)))

    @property
    def _as_named(self) -> Joint | None:
        """The same, as it was charged before there was an order."""
        return replace(self, is_sorted=False) if self.is_sorted else None

    def stored(self, version: int | None = None) -> Stored | None:
        return self.stored_or_as(self._as_named, self._order, version)

    def answered(self) -> Stored:
        return self.answered_or_as(self._as_named, self._order)

    @property
    def is_free(self) -> bool:
        return self.plan.is_free

    @property
    def price(self) -> Guarantee:
        return self.database.ledger.price_of(self.spend, self.slack)

    @property
    def whole(self) -> Guarantee:
        price = self.price
        return price.of(sum((each.whole.amount for each in self.parts), Fraction(0)), price.delta)

    @property
    def slack(self) -> Fraction:
        return sum((each.slack for each in self.parts), Fraction(0))

    @property
    def keys(self) -> tuple[str, ...]:
        return names.batch([each.keys for each in self.questions])

    def keys_of(self, reading: int) -> tuple[str, ...]:
        return names.batch([each.keys_of(reading) for each in self.questions])

    def formerly(self, plans: Sequence[Plan]) -> str:
        return former.batch([self.database.names.former(plan) for plan in plans])

    def answers(self, text: str, reading: int, dialect: str) -> bool:
        """Whether this is what was asked by a text in a dialect, as it was once understood."""
        return all(each.is_meant_by(text, reading, dialect) for each in self.parts)

    @property
    def wrong_readings(self) -> tuple[int, ...]:
        return ()

    def explain(self) -> Explanation:
        stored = self.stored()
        parts = [each._explained(None) for each in self.parts]
        if stored is not None:
            kept = zip(self.questions, stored.parts, strict=True)
            by_name = [each._explained(Stored(stored.receipt, (part,), ())) for each, part in kept]
            parts = [by_name[self._order.index(i)] for i in range(len(self.parts))]
        query = self.query
        return replace(
            parts[0],
            question=self.text,
            plan=self.plan,
            engine_sql=";\n".join(each.engine_sql for each in self.parts),
            gains=self.database.said.gains(query, self.units, paid=stored is not None),
            beside=tuple(parts[1:]),
            together=self.price,
            at=self._at,
            breaks="" if stored is not None else self.breaks,
            too_small="" if stored is not None else too_small(self.database.policy, [self.whole]),
        )

    def _outlined(self) -> Explanation:
        first, *others = [each._outlined() for each in self.parts]
        return replace(first, plan=self.plan, beside=tuple(others), together=self.price)

    def released(self, stored: Stored) -> Release:
        by_name = shown(self.database, stored)
        first, *others = [by_name[self._order.index(i)] for i in range(len(self.parts))]
        # what its integers mean is stored with them
        plan = replace(first.plan, outer=self.plan.outer, beside=tuple(each.plan for each in others))
        whole = replace(first, plan=plan, beside=tuple(others), together=stored.receipt.price)
        return self._beside_public(whole)


def joint(
    keeper: Keeper,
    statement: Statement,
    policy: Policy,
    spend: Guarantee,
    plan: Plan,
    fits: Fitting | None = None,
) -> Joint:
    """The questions of one text: each gets the same part of the price."""
    count = max(sum(not each.is_free for each in plan.all), 1)
    share = Fraction(math.floor(spend.amount / count * FINEST), FINEST)
    delta = Fraction(math.floor(spend.delta / count * FINEST_DELTA), FINEST_DELTA)
    each = spend.of(share, delta)
    parts = tuple(
        asked(
            keeper,
            replace(statement, part=i),
            policy,
            each,
            plan=replace(one, outer=None, beside=()),
            fits=None if fits is None else partial(fits, own=False),
        )
        for i, one in enumerate(plan.all)
    )
    first = parts[0]
    return Joint(
        keeper, statement.sql, plan, first.query, first.derivations, first.compiled,
        declared=plan, statement=statement, policy=policy, parts=parts,
    )  # fmt: skip


def asked(
    keeper: Keeper,
    statement: Statement,
    policy: Policy,
    spend: Guarantee,
    tuned_for: Guarantee | None = None,
    plan: Plan | None = None,
    fits: Fitting | None = None,
) -> Question:
    """A question under a policy. What cannot be answered is refused here: free, and no row is read."""
    first = plan = plan or statement.plan(policy, keeper.measuring)
    if plan.outer is not None:
        check_above(plan, statement.written, keeper.source)
    if plan.beside:
        if tuned_for is not None:
            raise InvalidParameter(
                "tune", "with several questions", "tune first (db.tune), or ask each by itself"
            )
        together = joint(keeper, statement, policy, spend, plan, fits)
        return replace(together, priced=lambda who, other: asked(who, statement, policy, other))
    fitting, rest, size = resolve(policy, plan, spend), spend, None
    if fitting is not policy:  # a table was tuned: its caps fit the price and the groups
        plan = statement.plan(fitting, keeper.measuring)
    elif fits is not None and (way := fits(plan, spend)) is not None:
        rest, size = way.spend, way.size
        with suppress(QueryRefused):  # under another cap a number may become too large
            plan, fitting = statement.plan(way.policy, way.measuring), way.policy
    plan = with_totals(plan, policy)
    if plan.private_keys and not spend.delta:
        raise private_keys(plan, keeper.policy, keeper.ledger.total, statement.written)
    facts: dict[str, Any] = {"statement": statement, "policy": policy, "fitting": fitting}
    facts["priced"] = lambda who, other: asked(who, statement, policy, other, tuned_for, first)
    try:
        found = planned(keeper, statement.sql, plan, rest)
        if rest is not spend:  # the rest of it went into a histogram
            own = spend.of(spend.amount - rest.amount, Fraction(0))
            found = replace(found, query=replace(found.query, asked=spend), for_own=own)
        return replace(found, **facts, declared=first, tuned_for=tuned_for, size=size)
    except RecursionError:
        raise too_deep(statement.written) from None


def errors_at(question: Question, prices: Iterable[Fraction]) -> list[tuple[Fraction, dict[str, Expected]]]:
    """How far off each column would be at other prices, at 95%. Free: no row is read, nothing is charged.

    Prices at which it could not be asked are left out.
    """
    found, at = [], question.explain().at
    for amount in prices if at is not None else ():
        assert at is not None
        if amount <= 0:
            raise InvalidParameter("prices", amount, "give prices above 0")
        with suppress(SfumatoError):
            other = at(amount)
            found.append((other.price.amount, other.radii()))
    return found


def planned(keeper: Keeper, told: str, plan: Plan, spend: Guarantee) -> Question:
    """A question that is no text of SQL."""
    derivations = derive(plan, keeper.watched)
    query = calibrate(plan.measures, tuple(each.distances for each in derivations), spend, uses(plan))
    return Question(keeper, told, plan, query, derivations, keeper.source.compile(plan), declared=plan)


def price(total: Guarantee, epsilon: Number | None, rho: Number | None, delta: Number | None) -> Guarantee:
    """A price in the currency of this total."""
    wanted, other = ("epsilon", rho) if total.rho is None else ("rho", epsilon)
    much = "0.1" if wanted == "epsilon" else "0.01"
    if epsilon is None and rho is None:
        advice = (
            f'say what the question may cost: --{wanted} {much} (in Python: {wanted}="{much}", '
            f'over HTTP: "{wanted}": "{much}")'
        )
        raise InvalidParameter(wanted, None, advice, problem="no price given")
    if other is not None:
        wrong = "rho" if wanted == "epsilon" else "epsilon"
        advice = (
            f'the budget is in {wanted}: write --{wanted} {much} in a terminal, {wanted}="{much}" in Python, '
            f"or in psql: RESET sfumato.{wrong}; SET sfumato.{wanted} = '{much}'"
        )
        raise InvalidParameter("rho" if wanted == "epsilon" else "epsilon", other, advice)
    check_delta(total, delta)
    return Guarantee.read(epsilon=epsilon, rho=rho, delta=delta)


def check_delta(total: Guarantee, delta: Number | None) -> None:
    """Refuse a delta where the budget has none for questions."""
    if delta is not None and (total.rho is not None or not total.delta):
        raise InvalidParameter("delta", delta, "this budget has no delta for questions. Leave it out")
