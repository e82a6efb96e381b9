"""What a policy says, beside what was spent, what a question would add, and what is enforced.

A total may be lowered, and a promise made, after more was spent: then it is not true, and whoever is told of
it must be told so. A promise that is taken out of a policy was told to people: it is kept until the owner
withdraws it. And another policy on the same ledger may give less.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.budget.accounting.filters import FINE, UNIT, losses
from sfumato.budget.ledger.subjects import counts
from sfumato.curator.promises import plainly, points
from sfumato.curator.refusals import mixed
from sfumato.queries import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Ledger
    from sfumato.budget.ledger.chain import Limit
    from sfumato.budget.ledger.subjects import Units
    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.promises import Judge, Lost
    from sfumato.mechanisms import Guarantee, Spend
    from sfumato.queries.policy import Policy
    from sfumato.queries.units import Unit


@dataclass(frozen=True, slots=True)
class Said:
    """What one policy says, as things stand now."""

    policy: Policy
    ledger: Ledger
    judges: Sequence[Judge]

    def gains(self, query: Calibration, about: Sequence[Unit], *, paid: bool) -> tuple[str, ...]:
        """How much surer of somebody's secret a question about some units can make anybody, alone and with
        all so far.

        A sentence for every promise, the one that is nearest to being broken first.
        """
        try:
            return self._gains(query, about, paid=paid)
        except (ArithmeticError, ValueError):  # a release that is paid for must be shown
            return ("how much this release can raise an attacker's confidence could not be computed",)

    def _gains(self, query: Calibration, about: Sequence[Unit], *, paid: bool) -> tuple[str, ...]:
        price = losses(query.spend, query.asked.of(Fraction(0), query.slack))
        if not self.judges:
            return (plainly(*self._states(price, "value", paid=paid), self.policy.budget),)
        found = []
        for judge in self.judges:
            alone, after = self._states(price, judge.relation, judge.apart, about, paid=paid)
            found.append((judge.gained(after) / float(judge.promise.advantage), judge.standing(alone, after)))
        return tuple(told for _, told in sorted(found, key=lambda each: -each[0]))

    def _states(
        self,
        price: dict[str, list[int]],
        relation: str,
        apart: Units = (),
        about: Sequence[Unit] = (),
        *,
        paid: bool,
    ) -> tuple[Lost, Lost]:
        """What a question about some units comes to under a relation, for a promise that is not about others:
        alone, and with all that was charged."""
        charge = {"database": self.ledger.name, "unit": about}
        is_counted = counts(charge, self.ledger.name, apart)
        fixed, sloped, slack = price.get(relation, price["value"]) if is_counted else (0, 0, 0)
        alone = Fraction(fixed, UNIT), Fraction(sloped, UNIT), Fraction(slack, FINE)
        so_far = self.ledger.losses(relation, apart)
        if paid:
            return alone, so_far
        return alone, (alone[0] + so_far[0], alone[1] + so_far[1], alone[2] + so_far[2])

    def breaks(self, spend: Spend, slack: Fraction, about: Sequence[Unit] = ()) -> str:
        """The promise that a spend about some units would break, in words; nothing if it breaks none."""
        price = losses(spend, self.ledger.total.of(Fraction(0), slack))
        charge = {"database": self.ledger.name, "unit": about}
        for name, limit in self.ledger.everybodys_promises():
            if not counts(charge, name, limit.apart):
                continue
            fixed, sloped, delta = price.get(limit.relation, price["value"])
            so_far = self.ledger.losses_for(name, limit)
            if not limit.allows([so_far[0] + fixed, so_far[1] + sloped, so_far[2] + delta]):
                return limit.told
        return ""

    @property
    def broken(self) -> tuple[str, ...]:
        """What is not true any more, since more was spent before: a total, a promise."""
        spent, limit = self.ledger.spent, self.ledger.limit
        passed = spent.amount > limit.amount or spent.delta > limit.delta
        pairs = zip(self.judges, self.ledger.own, strict=True)
        return (
            *([self._passed(spent, limit)] if passed else []),
            *filter(None, (self._told(*p) for p in pairs)),
        )

    def _passed(self, spent: Guarantee, limit: Guarantee) -> str:
        wanted = " and ".join(f'{name} = "{value}"' for name, value in spent.as_dict().items())
        mended = self.bound or f"Write at least {wanted} under [budget]."
        return (
            f"The total of {limit} is exceeded: {spent} was spent before. Nothing more is answered, and what "
            f"people are told counts what was spent. {mended}"
        )

    def _told(self, judge: Judge, own: Limit) -> str:
        lost = self.ledger.losses(judge.relation, judge.apart)
        if not judge.is_broken(own, lost):
            return ""
        so_far = points(judge.gained(lost))
        return (
            f"A promise is broken: {judge.told()}. What was released before allows {so_far}. Nothing more is "
            "answered, and what people are told counts what was released. Promise at least that much, or "
            f"remove the promise, and then run: sfumato promise {self.policy.file} --withdraw"
        )

    @property
    def bound(self) -> str:
        """Which other policy on the same ledger gives less: its total is the one that counts."""
        if (binding := self.ledger.binding) is None:
            return ""
        name, total = binding
        return (
            f"{self.policy.name} gives {self.policy.budget}, but {name}, on the same ledger, gives {total}: "
            "the smaller total applies."
        )

    @property
    def dropped(self) -> tuple[Limit, ...]:
        """Promises that the policy does not make any more, and that are in force until they are withdrawn."""
        own = self.ledger.own
        return tuple(each for each in self.ledger.promises() if not any(one.replaces(each) for one in own))

    @property
    def still_kept(self) -> tuple[Limit, ...]:
        """Those of them that say more than what the policy promises of the same."""
        own = self.ledger.own
        return tuple(each for each in self.dropped if not any(one.implies(each) for one in own))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is enforced beside what the policy says."""
        file = self.policy.file
        kept = [
            f"{file} no longer contains a promise that is in force: {limit.told}. Restore it, or withdraw "
            f"it: sfumato promise {file} --withdraw"
            for limit in self.still_kept
        ]
        mixes = [f"{file} mixes units. {mixed(self.policy)}"] if units.is_mixed(self.policy) else []
        return (*([self.bound] if self.bound else []), *kept, *mixes)

    def withdraw(self) -> tuple[Limit, ...]:
        """Take back the promises that the policy does not make any more: for all who open it from now on."""
        dropped = self.dropped
        self.ledger.withdraw(dropped)
        return dropped
