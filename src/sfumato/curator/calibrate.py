"""From distances and a price to mechanisms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.exact.numbers import round_up
from sfumato.mechanisms import Geometric, Spend, Step

if TYPE_CHECKING:
    from sfumato.mechanisms import Additive, Distances, Guarantee

PLAIN = 1 << 40  # a scale with a smaller numerator is used as it is
SIGNIFICANT = 16  # bits that a rounded scale keeps


@dataclass(frozen=True, slots=True)
class Query:
    """One additive step for every measure of a plan."""

    columns: tuple[Step[Additive], ...]

    @property
    def spend(self) -> Spend:
        """The steps as what is charged."""
        return self.columns

    def epsilon(self, towards: str = "presence") -> Fraction:
        """What the whole query proves: the sum over its steps (basic composition)."""
        bounds = [step.bound(towards).epsilon for step in self.columns]
        return sum((epsilon for epsilon in bounds if epsilon is not None), Fraction(0))


def calibrate(distances: tuple[Distances, ...], spend: Guarantee) -> Query:
    """The steps that together cost at most `spend`: geometric noise, the price split evenly over measures.

    Guarantee: the steps' epsilons add up to at most `spend.epsilon` when one unit comes or goes.
    Proof: each scale is at least l1 / share, so each epsilon is at most its share.

    >>> from sfumato.mechanisms import Distance, Distances, Guarantee
    >>> one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(1)))
    >>> calibrate((one, one), Guarantee.parse("0.1")).columns[0].mechanism
    Geometric(scale=Fraction(20, 1))
    """
    share = spend.epsilon / len(distances)
    return Query(tuple(Step(Geometric(scale=_scale(each, share)), each) for each in distances))


def _scale(distances: Distances, share: Fraction) -> Fraction:
    l1 = distances.presence.l1
    assert l1 is not None  # every measure has a cap
    scale = l1 / share
    if scale.numerator < PLAIN and scale.denominator < PLAIN:
        return scale
    return round_up(scale, SIGNIFICANT)  # up: never more than the share
