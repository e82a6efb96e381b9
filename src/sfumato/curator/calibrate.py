"""From distances and a price to mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.budget import filters
from sfumato.budget.loss import PrivacyLoss
from sfumato.exact.numbers import round_up
from sfumato.mechanisms import Distance, Gaussian, Geometric, Guarantee, Spend, Step
from sfumato.mechanisms.mechanism import Symmetric, bisected
from sfumato.queries.plan import Arithmetic, Mean, Released

if TYPE_CHECKING:
    from sfumato.mechanisms import Additive, Distances
    from sfumato.queries.plan import Expression, Plan

PLAIN = 1 << 40  # a scale with a smaller numerator is used as it is
SIGNIFICANT = 16  # bits that a rounded scale keeps
PARTS = 1 << 12  # a price is split into whole numbers of so many parts
TRIES = 40  # of making Gaussian noise a thousandth wider until it is enough

Uses = tuple[tuple[tuple[int, Fraction], ...], ...]  # for every number asked for: measures and their weights


@dataclass(frozen=True, slots=True)
class Query:
    """One additive step for every measure of a plan, and the price they were made for."""

    columns: tuple[Step[Additive], ...]
    asked: Guarantee

    @property
    def spend(self) -> Spend:
        """The steps as what is charged."""
        return self.columns

    @property
    def slack(self) -> Fraction:
        """What they need of delta beside an epsilon: nothing if each has a pure one."""
        pure = all(step.bound().epsilon is not None for step in self.columns)
        return Fraction(0) if pure or self.asked.rho is not None else self.asked.delta

    def guarantee(self, towards: str = "presence") -> Guarantee:
        """What the whole query proves under a relation between neighbours, in the currency of its price."""
        return filters.price(self.spend, self.asked.of(Fraction(0), self.slack), towards)


def calibrate(distances: tuple[Distances, ...], spend: Guarantee, uses: Uses | None = None) -> Query:
    """The steps with the least error that together cost at most `spend` when one unit comes or goes.

    In epsilon, geometric noise by the L1 distance. In rho, Gaussian noise by the L2 distance, whose variance
    is half that of geometric noise at the same rho and distance. In epsilon with delta, whichever of the two
    has the smaller variance. `uses` says which measures each number asked for is made of: the price is split
    so that the product of their errors is smallest, which favours none for the unit it happens to be in.

    Guarantee: `spend`. Proof: each step costs at most its part, by the guarantee of its mechanism; with a
    delta, the privacy loss of the steps was computed and is enough.

    >>> from sfumato.mechanisms import Distance, Distances, Guarantee
    >>> one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(1)))
    >>> calibrate((one, one), Guarantee.parse("0.1")).columns[0].mechanism
    Geometric(scale=Fraction(20, 1))
    >>> calibrate((one,), Guarantee.read(rho="0.01")).columns[0].mechanism
    Gaussian(sigma_squared=Fraction(50, 1))
    """
    if uses is None:
        uses = tuple(((i, Fraction(1)),) for i in range(len(distances)))
    return _calibrated(distances, spend, uses)


@lru_cache(maxsize=256)
def _calibrated(distances: tuple[Distances, ...], spend: Guarantee, uses: Uses) -> Query:
    presences = [each.presence for each in distances]
    if spend.rho is not None:
        parts = _split([math.sqrt(_l2_squared(each)) for each in presences], uses, power=1)
        return Query(_gaussian(distances, [spend.rho * part for part in parts]), spend)
    assert spend.epsilon is not None
    parts = _split([float(_l1(each)) for each in presences], uses, power=2)
    shares = [spend.epsilon * part for part in parts]
    geometric: tuple[Step[Additive], ...] = tuple(
        Step(Geometric(scale=_rounded(_l1(each.presence) / share)), each)
        for each, share in zip(distances, shares, strict=True)
    )
    pure = Query(geometric, spend)
    if not spend.delta:
        return pure
    gaussian = _gaussian_for(distances, spend, uses, _spread(geometric))
    return pure if gaussian is None else Query(gaussian, spend)


def _spread(steps: tuple[Step[Additive], ...]) -> float:
    """The logarithm of the product of the variances."""
    noises = [step.mechanism.noise for step in steps]
    return sum(math.log(noise.variance) for noise in noises if isinstance(noise, Symmetric))


def _gaussian(distances: tuple[Distances, ...], rhos: list[Fraction]) -> tuple[Step[Additive], ...]:
    return tuple(
        Step(Gaussian(sigma_squared=_rounded(Fraction(_l2_squared(each.presence)) / (2 * rho))), each)
        for each, rho in zip(distances, rhos, strict=True)
    )


def _gaussian_for(
    distances: tuple[Distances, ...], spend: Guarantee, uses: Uses, most: float
) -> tuple[Step[Additive], ...] | None:
    """Gaussian noise that is (epsilon, delta)-private: as for one shift, then wider until it holds.

    None as soon as the product of its variances, which decides as it did for the split, is not below `most`.
    """
    assert spend.epsilon is not None
    parts = _split([math.sqrt(_l2_squared(each.presence)) for each in distances], uses, power=1)
    far = 1 << 20  # one shift by 2^20 steps on a line is as good as any
    one = Distance(l0=1, linf=Fraction(far))
    rho = far**2 / (2 * Gaussian.at(epsilon=spend.epsilon, delta=spend.delta, distance=one).sigma_squared)
    for tried in range(TRIES):
        steps = _gaussian(distances, [rho * part for part in parts])
        if _spread(steps) >= most:
            return None
        if PrivacyLoss.of(steps).delta(spend.epsilon) <= spend.delta:
            return steps
        rho = round_up(rho * (1 - Fraction(1 << tried // 4, 1000)), 24)
    return None


def uses_of(plan: Plan) -> Uses:
    """Which measures each number of a plan is made of. An average feels its count by half of its reach."""

    def parts(expression: Expression) -> list[tuple[tuple[int, Fraction], ...]]:
        match expression:
            case Released(i):
                return [((i, Fraction(1)),)]
            case Mean(total, count, centre, low, high):
                reach = max(high - centre, centre - low)
                sum_step, row_step = plan.measures[total].step, plan.measures[count].step
                return [((total, sum_step), (count, row_step * reach / 2))]
            case Arithmetic(_, left, right):
                return parts(left) + parts(right)
        return []

    return tuple(part for output in plan.outputs for part in parts(output.expression))


def count_within(
    distances: tuple[Distances, ...], currency: Guarantee, step: Fraction
) -> tuple[Guarantee, int]:
    """The price of a count with an error of ten times what one person weighs, at 95%, and that error."""
    error = math.ceil(10 * _l1(distances[0].presence) * step)

    def radius(amount: Fraction) -> Fraction:
        query = calibrate(distances, currency.of(amount))
        return query.columns[0].mechanism.noise.window(Fraction(1, 20))[-1] * step

    thousandths = bisected(lambda parts: radius(Fraction(parts, 1000)) <= error, 0, 1000)
    return calibrate(distances, currency.of(Fraction(thousandths, 1000))).guarantee(), error


def _split(sizes: list[float], uses: Uses, power: int) -> list[Fraction]:
    """The part of the price for each measure. Its error is weight * size / part^(power/2).

    The sum of ln(variance) over the numbers asked for is convex in the logarithms of the parts. It is
    smallest where each part is the sum of its shares in their variances. That is iterated, each time
    1/(1 + power) of the way: the whole way would overshoot.
    """
    count = len(sizes)
    parts = [1 / count] * count
    for _ in range(100):
        fresh = [0.0] * count
        for number in uses:
            heavy = {i: (float(weight) * sizes[i]) ** 2 / parts[i] ** power for i, weight in number}
            total = sum(heavy.values())
            for i, each in heavy.items():
                fresh[i] += each / total if total else 1 / len(heavy)
        fresh = [max(each, 1e-3) for each in fresh]  # what no number needs is measured all the same
        parts = [part * (each / part) ** (1 / (1 + power)) for part, each in zip(parts, fresh, strict=True)]
        parts = [part / sum(parts) for part in parts]
    if max(parts) - min(parts) < 1e-9:
        return [Fraction(1, count)] * count
    pieces = PARTS * count
    whole = [1 + math.floor(part * (pieces - count)) for part in parts]
    whole[whole.index(max(whole))] += pieces - sum(whole)
    return [Fraction(part, pieces) for part in whole]


def _l1(distance: Distance) -> Fraction:
    assert distance.l1 is not None  # every measure has a cap
    return distance.l1


def _l2_squared(distance: Distance) -> Fraction:
    assert distance.l2_squared is not None
    return distance.l2_squared


def _rounded(scale: Fraction) -> Fraction:
    if scale.numerator < PLAIN and scale.denominator < PLAIN:
        return scale
    return round_up(scale, SIGNIFICANT)  # up: never more than the share
