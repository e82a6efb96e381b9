"""A checked question and its price: from SQL text to a plan, its distances, noise, and the engine's text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.asked import Asked, meaning_of, shown
from sfumato.curator.calibrate import Query, calibrate
from sfumato.curator.caps import resolve
from sfumato.curator.explanation import Explanation
from sfumato.curator.intervals import uses
from sfumato.curator.refusals import private_keys, too_small
from sfumato.curator.repairs import wrong_readings
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Guarantee
from sfumato.queries import former, notation
from sfumato.queries.measures import measured
from sfumato.queries.sensitivity import derive
from sfumato.queries.sql import parse, too_deep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.curator.asked import Stored
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.release import Release
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Derivation
    from sfumato.sources.answers import Compiled


@dataclass(frozen=True, slots=True, repr=False)
class Question(Asked):
    """A checked question and its price. Looking at it never spends."""

    database: Keeper
    sql: str
    plan: Plan
    query: Query
    derivations: tuple[Derivation, ...]
    compiled: Compiled  # what the engine will run: printed here, so that nothing can fail after the charge
    declared: Plan = field(kw_only=True)  # the plan before caps that we choose: what the question is known by
    policy: Policy | None = None  # that it was asked under; None if it is no text of SQL
    fitting: Policy | None = None  # the same with caps that we chose
    tuned_for: Guarantee | None = None  # what was spent on caps that fit it
    is_part: bool = False  # of what is spent on caps: no question by itself

    @property
    def questions(self) -> tuple[Question, ...]:
        """Itself: what a batch has several of."""
        return (self,)

    @property
    def text(self) -> str:
        """The question on one line, for the history."""
        printable = "".join(letter if letter.isprintable() else " " for letter in self.sql)
        return " ".join(printable.split())  # nothing in it can steer a terminal

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
        return 1

    # What it is known by ------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[str, ...]:
        """Its names: the first is written, all are looked up."""
        return self.database.names.keys(self.declared, self.tuned_for)

    @property
    def alike(self) -> tuple[str, ...]:
        """Names that it shared with another question."""
        return self.database.names.alike(self.declared, self.tuned_for)

    def formerly(self, plans: Sequence[Plan]) -> str:
        """What it was known by before questions had a stored form."""
        return self.database.names.former(plans[0])

    @property
    def former(self) -> Plan:
        """Its plan as it was then."""
        if self.policy is None:
            return self.plan
        fitting = resolve(self.policy, self.declared, self.query.asked, is_former=True)
        return parse(self.sql, fitting, former.measures)

    @property
    def meaning(self) -> list[Any]:
        """What the integers that are drawn for it mean."""
        return meaning_of(self.plan)

    def meant(self, meaning: list[Any]) -> Plan | None:
        """The plan by which stored integers are read, if they are an answer to it."""
        if notation.unmarked(meaning) == notation.unmarked(self.meaning):
            return self.plan
        values = [value for aggregate in self.plan.wanted for value in aggregate.values]
        measures = measured(meaning, values)
        if measures is None or self.fitting is None:
            return None
        return parse(self.sql, self.fitting, lambda *_: measures)

    # What becomes of it -------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Price, error and derivation. Free, and no row is read."""
        keeper, paid = self.database, self.kept() is not None
        return Explanation(
            self.text,
            self.plan,
            self.query,
            self.derivations,
            self.engine_sql,
            paid,
            keeper.left,
            self.tuning,
            keeper.said.gains(self.query, self.units, paid=paid),
            "" if paid else self.breaks,
            () if paid else self._read_wrongly(),
            "" if paid else too_small(keeper.policy, [self.whole]),
        )

    def _read_wrongly(self) -> tuple[int, ...]:
        readings = wrong_readings(self.plan)
        return self.database.ledger.asked_before(self.text, readings) if readings else ()

    @property
    def engine_sql(self) -> str:
        """What the engine will run."""
        return ";\n".join(self.compiled.texts)

    def kept(self, *, version: int | None = None) -> Release | None:
        """The stored release that answers it, about the data as they are or as they were; free."""
        stored = self.stored(version)
        return None if stored is None else self._shown(stored)

    def release(self) -> Release:
        """Spend the price and get the numbers; asking again is free."""
        return self._shown(self.answered())

    def _shown(self, stored: Stored) -> Release:
        (release,) = shown(self.database, stored)
        return release

    def __repr__(self) -> str:
        return (
            f"  {self.text}\n"
            f"  costs {self.price} when released, nothing until then.\n"
            f"  .explain() shows price, error and why; .release() spends and answers."
        )


def asked(
    keeper: Keeper, sql: str, policy: Policy, spend: Guarantee, tuned_for: Guarantee | None = None
) -> Question:
    """A question under a policy. What cannot be answered is refused here: free, and no row is read."""
    first = plan = parse(sql, policy, keeper.measuring)
    fitting = resolve(policy, plan, spend)
    if fitting is not policy:  # a table was tuned: its caps fit the price and the groups
        plan = parse(sql, fitting, keeper.measuring)
    if plan.private_keys and not spend.delta:
        raise private_keys(plan, keeper.policy, keeper.ledger.total, sql)
    facts: dict[str, Any] = {"declared": first, "policy": policy, "fitting": fitting}
    try:
        return replace(planned(keeper, sql, plan, spend), **facts, tuned_for=tuned_for)
    except RecursionError:
        raise too_deep(sql) from None


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
        told = f'say what the question may cost: {wanted}="{much}", in a terminal --{wanted} {much}'
        raise InvalidParameter(wanted, "nothing", told)
    if other is not None:
        advice = f'this database counts {wanted}: write {wanted}="{much}", in a terminal --{wanted} {much}'
        raise InvalidParameter("rho" if wanted == "epsilon" else "epsilon", other, advice)
    check_delta(total, delta)
    return Guarantee.read(epsilon=epsilon, rho=rho, delta=delta)


def check_delta(total: Guarantee, delta: Number | None) -> None:
    """Refuse a delta where the budget has none for questions."""
    if delta is not None and (total.rho is not None or not total.delta):
        raise InvalidParameter("delta", delta, "leave it out: this budget has none for questions")
