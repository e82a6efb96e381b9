"""All rules of composition side by side, and the best of them by name."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.budget.accounting import composition
from sfumato.budget.accounting.loss import BINOMIAL, EXACT, PrivacyLoss
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.arguments import whole

if TYPE_CHECKING:
    from sfumato.mechanisms import Bound, Spend

ADAPTIVE = ("basic", "zCDP")  # hold when each step is chosen after seeing the ones before


@dataclass(frozen=True, slots=True, repr=False)
class Rules:
    """An epsilon by each rule that applies, all at the same delta."""

    delta: Fraction
    epsilons: dict[str, Fraction]

    @property
    def best(self) -> str:
        """The rule with the smallest epsilon."""
        return min(self.epsilons, key=lambda name: self.epsilons[name])

    @property
    def epsilon(self) -> Fraction:
        """The smallest epsilon."""
        return self.epsilons[self.best]

    def __repr__(self) -> str:
        lines = [
            f"  {name:<14} {float(epsilon):>12.6f}{'' if name in ADAPTIVE else '   planned in advance'}"
            for name, epsilon in self.epsilons.items()
        ]
        return "\n".join([f"  epsilon at delta {float(self.delta):g}", *lines, f"  best: {self.best}"])


def best(spend: Spend, *, count: int = 1, delta: Fraction, towards: str = "presence") -> Rules:
    """What the steps of a spend cost, each `count` times, by every rule that applies.

    Guarantee: (epsilon, delta)-differential privacy of all steps together, for each epsilon listed; for those
    marked so only if the list of steps was fixed in advance.
    Proof: that of the rule (`composition`, `loss`).

    >>> from sfumato.mechanisms import Distance, Distances, Geometric, Step
    >>> one = Distance(l0=1, linf=Fraction(1))
    >>> step = Step(Geometric(scale=Fraction(801)), Distances(one, one))
    >>> best((step,), count=10_000, delta=Fraction(1, 10**6))
      epsilon at delta 1e-06
      basic             12.484395
      advanced           0.671841   planned in advance
      optimal            0.503123   planned in advance
      zCDP               0.544396
      Renyi              0.544295   planned in advance
      privacy loss       0.503123   planned in advance
      best: optimal
    """
    count, delta = whole("count", count, least=1), composition.chance(delta)
    bounds = [step.bound(towards) for step in spend]
    loss = PrivacyLoss.of(spend, towards).times(count)
    found: dict[str, Fraction] = {}
    deltas = sum((bound.delta for bound in bounds), Fraction(0)) * count
    if all(bound.epsilon is not None for bound in bounds) and deltas <= delta:
        found["basic"] = composition.basic(bound.epsilon or Fraction(0) for bound in bounds) * count
        found |= _alike(bounds, count, delta) if deltas == 0 else {}
    if all(bound.rho is not None for bound in bounds):
        rhos = [(bound.rho or Fraction(0)) * count for bound in bounds]
        found["zCDP"] = composition.zcdp(rhos, delta=delta)
    try:
        found["Renyi"] = loss.renyi(delta)
        found["privacy loss"] = loss.epsilon(delta)
    except InvalidParameter:
        if not found:
            raise
    return Rules(delta, found)


def _alike(bounds: list[Bound], count: int, delta: Fraction) -> dict[str, Fraction]:
    """The rules for one epsilon that is used many times."""
    epsilons = {bound.epsilon for bound in bounds if bound.epsilon}
    total = count * len(bounds)
    if len(epsilons) != 1 or len(epsilons) < len({bound.epsilon for bound in bounds}):
        return {}
    (epsilon,) = epsilons
    found = {"advanced": composition.advanced(epsilon, count=total, slack=delta)}
    if total * epsilon <= EXACT and total <= BINOMIAL:
        found["optimal"] = composition.optimal(epsilon, count=total).total(delta)
    return found
