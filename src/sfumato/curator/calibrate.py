"""From distances and a price to mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.budget.accounting import filters
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.exact import numbers
from sfumato.exact.numbers import round_down, round_up
from sfumato.mechanisms import (
    Additive,
    Distance,
    Gaussian,
    Geometric,
    Guarantee,
    Modes,
    Partition,
    Private,
    QuantileIntervals,
    Spend,
    Step,
)
from sfumato.mechanisms.mechanism import Symmetric, bisected
from sfumato.mechanisms.noise import best_proof
from sfumato.mechanisms.quantiles import most_pairs
from sfumato.queries.measures import Kinds, Selected, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.mechanisms import Distances
    from sfumato.queries.measures import Measure

PLAIN = 1 << 40  # a scale with a smaller numerator is used as it is
SIGNIFICANT = 16  # bits that a rounded scale keeps
PARTS = 1 << 12  # a price is split into whole numbers of so many parts
TRIES = 40  # of making Gaussian noise a thousandth wider until it is enough; later ever more
NARROW = Fraction(3, 1000)  # of its rho: so close to the widest that is too narrow, it is taken
SELECTION = Fraction(3, 10)  # of an epsilon, where the groups themselves are private
MISSED = Fraction(1, 100)  # the chance that the interval of a quantile misses it
OUTSIDE = Fraction(1, 1000)  # the chance that a least or largest value is not inside of the data
ENDS = (Fraction(3, 4), Fraction(1, 4))  # of a quantile's price: its value, and the interval around it
STEEP = 3  # times as steeply chances fall outside of a least or largest value as they do inside

LEAST_SHARE = Fraction(1, 10)  # of an even share of the price: no measure gets less
NEAR = (
    0.25  # the square of a divisor's error, in parts of itself, up to which more is paid to keep it from zero
)
TURNS = 300  # of the search for the split
LARGEST_ERROR = 1e140  # of an error whose square is taken, in floats
AT_95 = (1.96, math.log(20))  # how far noise reaches at 95%: of sigma 1, and of scale 1

Weights = tuple[tuple[int, Fraction], ...]  # measures, and how much something feels an error in each


@dataclass(frozen=True, slots=True)
class Uses:
    """What each number asked for feels of the measures, and each of their divisors, in parts of itself."""

    numbers: tuple[Weights, ...]
    divisors: tuple[Weights, ...] = ()

    def of(self, places: Mapping[int, int]) -> Uses:
        """The same where measures have other places; what has none is left out."""

        def kept(all_: tuple[Weights, ...]) -> tuple[Weights, ...]:
            found = (tuple((places[i], weight) for i, weight in each if i in places) for each in all_)
            return tuple(each for each in found if each)

        return Uses(kept(self.numbers), kept(self.divisors))


@dataclass(frozen=True, slots=True)
class Calibration:
    """One step for every measure of a plan, and the price they were made for."""

    steps: tuple[Step[Private], ...]
    asked: Guarantee

    @property
    def spend(self) -> Spend:
        """The steps as what is charged."""
        return self.steps

    @property
    def slack(self) -> Fraction:
        """What they need of delta beside an epsilon: nothing if each has a pure one."""
        bounds = [step.bound() for step in self.steps]
        pure = all(bound.epsilon is not None and not bound.delta for bound in bounds)
        return Fraction(0) if pure or self.asked.rho is not None else self.asked.delta

    def guarantee(self, towards: str = "presence") -> Guarantee:
        """What the whole query proves under a relation between neighbours, in the currency of its price."""
        return filters.price(self.spend, self.asked.of(Fraction(0), self._slack(towards)), towards)

    def _slack(self, towards: str) -> Fraction:
        """A replaced person can lose a delta twice."""
        lost = sum((step.bound(towards).delta for step in self.steps), Fraction(0))
        return max(self.slack, lost) if self.slack else Fraction(0)


def calibrate(
    measures: tuple[Measure, ...],
    distances: tuple[Distances, ...],
    spend: Guarantee,
    uses: Uses | None = None,
) -> Calibration:
    """The steps with the least error that together cost at most `spend` when one unit comes or goes.

    In epsilon, geometric noise by the L1 distance. In rho, Gaussian noise by the L2 distance, whose variance
    is half that of geometric noise at the same rho and distance. In epsilon with delta, whichever of the two
    has the smaller variance. Quantiles and modes are chosen by the exponential mechanism. `uses` says which
    measures each number asked for is made of: the price is split so that the product of their errors is
    smallest, which favours none for the unit it happens to be in, and so that divisors stay away from zero.
    No measure gets less than a tenth of an even share. Where the groups are private, three tenths
    of epsilon and all of delta decide which are shown.

    Guarantee: `spend`. Proof: each step costs at most its part, by the guarantee of its mechanism; with a
    delta, the privacy loss of the steps was computed and is enough.

    >>> from sfumato.mechanisms import Distance, Distances, Guarantee
    >>> from sfumato.queries.measures import Moments
    >>> count = Moments((), (), 0, False, None)
    >>> one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(1)))
    >>> calibrate((count, count), (one, one), Guarantee.parse("0.1")).steps[0].mechanism
    Geometric(scale=Fraction(20, 1))
    >>> calibrate((count,), (one,), Guarantee.read(rho="0.01")).steps[0].mechanism
    Gaussian(sigma_squared=Fraction(50, 1))
    """
    if uses is None:
        uses = Uses(tuple(((i, Fraction(1)),) for i in range(len(distances))))
    return _calibrated(measures, distances, spend, uses)


@lru_cache(maxsize=256)
def _calibrated(
    measures: tuple[Measure, ...], distances: tuple[Distances, ...], spend: Guarantee, uses: Uses
) -> Calibration:
    chosen = [i for i, measure in enumerate(measures) if isinstance(measure, Selected)]
    rest = [i for i in range(len(measures)) if i not in chosen]
    whole = spend
    steps: dict[int, Step[Private]] = {}
    for i in chosen:
        part = SELECTION if rest else Fraction(1)  # of the keys alone, all of it
        steps[i], spend = _partition(measures[i], distances[i], spend, part)
    left = {i: place for place, i in enumerate(rest)}
    kinds, far = tuple(measures[i] for i in rest), tuple(distances[i] for i in rest)
    found = _steps(kinds, far, spend, uses.of(left)) if rest else ()
    for i, step in zip(rest, found, strict=True):
        steps[i] = step
    return Calibration(tuple(steps[i] for i in range(len(measures))), whole)


def _partition(
    measure: Measure, distances: Distances, spend: Guarantee, share: Fraction
) -> tuple[Step[Private], Guarantee]:
    """The rule that decides which groups are shown, and what is left for the numbers in them."""
    assert isinstance(measure, Selected)
    delta = spend.delta / measure.groups
    if spend.rho is not None:
        rho = spend.rho * share
        epsilon = round_down(numbers.sqrt(2 * rho).low, 24) / measure.groups
        rule = Partition(epsilon=epsilon, delta=delta)
        return Step(rule, distances), spend.of(spend.rho - rho)
    assert spend.epsilon is not None
    part = spend.epsilon * share
    return Step(Partition(epsilon=part / measure.groups, delta=delta), distances), spend.of(
        spend.epsilon - part
    )


def _steps(
    measures: tuple[Measure, ...], distances: tuple[Distances, ...], spend: Guarantee, uses: Uses
) -> tuple[Step[Private], ...]:
    presences = [each.presence for each in distances]
    if spend.rho is not None:
        reach = AT_95[0] / math.sqrt(2 * spend.rho)
        parts = _split([math.sqrt(_l2_squared(each)) for each in presences], uses, power=1, reach=reach)
        rhos = [spend.rho * part for part in parts]
        noisy = _gaussian(distances, rhos)
        return tuple(
            _choice(measure, each, None, rho) or step
            for measure, each, rho, step in zip(measures, distances, rhos, noisy, strict=True)
        )
    assert spend.epsilon is not None
    reach = AT_95[1] / float(spend.epsilon)
    parts = _split([float(_l1(each)) for each in presences], uses, power=2, reach=reach)
    shares = [spend.epsilon * part for part in parts]
    pure = tuple(
        _choice(measure, each, share, None)
        or Step(Geometric(scale=_rounded(_l1(each.presence) / share)), each)
        for measure, each, share in zip(measures, distances, shares, strict=True)
    )
    if not spend.delta or not all(isinstance(step.mechanism, Additive) for step in pure):
        return pure
    gaussian = _gaussian_for(distances, spend, uses, _spread(pure))
    return pure if gaussian is None else gaussian


def _choice(
    measure: Measure, distances: Distances, epsilon: Fraction | None, rho: Fraction | None
) -> Step[Private] | None:
    """The step of a measure by which something is chosen; None if noise is added to it."""
    l1 = _l1(distances.presence)
    if isinstance(measure, Kinds):
        share = epsilon if rho is None else round_down(numbers.sqrt(8 * rho).low, 24)
        assert share is not None
        return Step(Modes(cells=measure.cells, scale=_rounded(l1 / share)), distances)
    if not isinstance(measure, Spread):
        return None
    shares = [part / len(measure.ranks) for rank in measure.ranks for part in _parts(rank)]
    if rho is None:
        assert epsilon is not None
        prices = [epsilon * share for share in shares]
    else:  # the price of a choice in zCDP is an eighth of the square of its epsilon
        whole = round_down(numbers.sqrt(8 * rho / sum((s**2 for s in shares), Fraction(0))).low, 24)
        prices = [whole * share for share in shares]
    left = iter(prices)
    targets = tuple(
        _aim(rank, measure.cells, l1, [next(left) for _ in _parts(rank)]) for rank in measure.ranks
    )
    return Step(QuantileIntervals(cells=measure.cells, targets=targets), distances)


def _parts(rank: Fraction) -> tuple[Fraction, ...]:
    """Of what is paid for a quantile, the part of each draw. A least value is its own upper end."""
    return (Fraction(1),) if rank in (0, 1) else ENDS


def _aim(rank: Fraction, cells: int, l1: Fraction, prices: list[Fraction]) -> tuple[Fraction, ...]:
    """What a quantile is drawn by at these prices of its draws."""
    if rank in (0, 1):
        steep = _rounded((1 + Fraction(1, STEEP)) * l1 / prices[0])
        inward = _reach(steep, cells / OUTSIDE)
        sides = (steep, STEEP * steep)
        return (rank, inward, *sides) if rank == 0 else (rank, -inward, *reversed(sides))
    value, ends = (_rounded(2 * max(rank, 1 - rank) * l1 / price) for price in prices)
    return rank, Fraction(0), value, value, _reach(ends, most_pairs(cells) / MISSED), ends


def _reach(scale: Fraction, odds: Fraction) -> Fraction:
    """How far off, at least, everything is that is chosen with a chance of 1 / odds of what is not off."""
    return Fraction(math.ceil(scale * numbers.log(odds).high))


def _spread(steps: tuple[Step[Private], ...]) -> float:
    """The logarithm of the product of the variances."""
    noises = [step.mechanism.noise for step in steps if isinstance(step.mechanism, Additive)]
    return sum(math.log(max(noise.variance, 1e-300)) for noise in noises if isinstance(noise, Symmetric))


def _gaussian(distances: tuple[Distances, ...], rhos: list[Fraction]) -> tuple[Step[Private], ...]:
    return tuple(
        Step(Gaussian(sigma_squared=_rounded(_l2_squared(each.presence) / (2 * rho))), each)
        for each, rho in zip(distances, rhos, strict=True)
    )


def _by_best_proof(steps: tuple[Step[Private], ...]) -> tuple[Step[Private], ...]:
    """Gaussian steps whose price rests on what is proved of them by now, under any relation."""
    found: list[Step[Private]] = []
    for step in steps:
        assert isinstance(step.mechanism, Gaussian)
        away, variance = step.distances, step.mechanism.sigma_squared
        proof = best_proof(variance, away.presence, away.value, *(each for _, each in away.promises))
        found.append(Step(Gaussian(sigma_squared=variance, proof=proof), away))
    return tuple(found)


def _gaussian_for(
    distances: tuple[Distances, ...], spend: Guarantee, uses: Uses, most: float
) -> tuple[Step[Private], ...] | None:
    """Gaussian noise that is (epsilon, delta)-private: as for one shift, wider until it holds, then narrower
    as long as it does.

    None as soon as the product of its variances, which decides as it did for the split, is not below `most`.
    """
    assert spend.epsilon is not None
    rho = _rho_of_one(spend.epsilon, spend.delta)
    sizes = [math.sqrt(_l2_squared(each.presence)) for each in distances]
    parts = _split(sizes, uses, power=1, reach=AT_95[0] / math.sqrt(2 * rho))
    epsilon, delta, too_much = spend.epsilon, spend.delta, rho

    def made(rho: Fraction) -> tuple[Step[Private], ...]:
        return _by_best_proof(_gaussian(distances, [rho * part for part in parts]))

    def holds(steps: tuple[Step[Private], ...]) -> bool:
        return PrivacyLoss.of(steps).delta(epsilon) <= delta

    for tried in range(TRIES):
        steps = made(rho)
        if _spread(steps) >= most:
            return None
        if holds(steps):
            break
        too_much, rho = rho, round_up(rho * (1 - Fraction(1 << tried // 4, 1000)), 24)
    else:
        return None
    while too_much - rho > rho * NARROW:
        middle = round_up((rho + too_much) / 2, 24)
        if holds(narrower := made(middle)):
            rho, steps = middle, narrower
        else:
            too_much = middle
    return steps


@lru_cache(maxsize=256)  # questions are asked at few prices, and this takes long
def _rho_of_one(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The rho of the noise that makes one shift (epsilon, delta)-private."""
    far = 1 << 20  # one shift by 2^20 steps on a line is as good as any
    one = Distance(l0=1, linf=Fraction(far))
    return far**2 / (2 * Gaussian.at(epsilon=epsilon, delta=delta, distance=one).sigma_squared)


def count_within(
    measure: Measure, distances: Distances, currency: Guarantee, step: Fraction
) -> tuple[Guarantee, int]:
    """The price of a count with an error of ten times what one person weighs, at 95%, and that error."""
    error = math.ceil(10 * _l1(distances.presence) * step)

    def radius(amount: Fraction) -> Fraction:
        (step_,) = calibrate((measure,), (distances,), currency.of(amount)).steps
        assert isinstance(step_.mechanism, Additive)
        return step_.mechanism.noise.window(Fraction(1, 20))[-1] * step

    thousandths = bisected(lambda parts: radius(Fraction(parts, 1000)) <= error, 0, 1000)
    return calibrate((measure,), (distances,), currency.of(Fraction(thousandths, 1000))).guarantee(), error


def _split(sizes: list[float], uses: Uses, power: int, reach: float = 0.0) -> list[Fraction]:
    """The part of the price for each measure. Its error is weight * size / part^(power/2).

    The sum of ln(variance) over the numbers asked for is convex in the logarithms of the parts. It is
    smallest where each part is the sum of its shares in their variances. For a divisor, -ln(1 - g) is added,
    where g is the square of its error at 95% in parts of itself: by so much Fieller's interval is wider than
    slopes say; beyond a g of `NEAR` no more is paid for it. `reach` is the error at 95% of a measure of size
    1 at the whole price. The search goes a part of the way each time: the whole way would overshoot.
    """
    count = len(sizes)
    if count == 1:
        return [Fraction(1)]
    numbers = [_variances(each, sizes) for each in uses.numbers]
    divisors = [_variances(each, [size * reach for size in sizes]) for each in uses.divisors]
    floor = float(LEAST_SHARE / count)
    parts = [1 / count] * count
    for _ in range(TURNS):
        fresh = [1e-9] * count
        for number in numbers:
            _shared(fresh, {i: each / parts[i] ** power for i, each in number.items()}, 1.0)
        for divisor in divisors:
            off = {i: each / parts[i] ** power for i, each in divisor.items()}
            near = min(sum(off.values()), NEAR)
            _shared(fresh, off, 2 * near / (1 - near))
        whole = sum(fresh)
        moved = [p * (f / whole / p) ** (1 / (2 + 2 * power)) for p, f in zip(parts, fresh, strict=True)]
        before, parts = parts, _above(floor, moved)
        if max(abs(a - b) for a, b in zip(before, parts, strict=True)) < 1e-10:
            break
    return _in_pieces(parts)


def _variances(weights: Weights, sizes: list[float]) -> dict[int, float]:
    """What each measure adds to a variance at the whole price."""
    return {i: min(float(weight) * sizes[i], LARGEST_ERROR) ** 2 for i, weight in weights if weight}


def _shared(fresh: list[float], variances: dict[int, float], weight: float) -> None:
    """Add to each measure its share in the variance of a number."""
    whole = sum(variances.values())
    for i, each in variances.items():
        fresh[i] += weight * each / whole if whole else 0.0


def _above(floor: float, parts: list[float]) -> list[float]:
    """The parts in proportion, adding up to 1, none below the floor."""
    low: set[int] = set()
    while True:
        left = (1 - floor * len(low)) / sum(part for i, part in enumerate(parts) if i not in low)
        below = {i for i, part in enumerate(parts) if i not in low and part * left < floor}
        if not below:
            return [floor if i in low else part * left for i, part in enumerate(parts)]
        low |= below


def _in_pieces(parts: list[float]) -> list[Fraction]:
    """The same as fractions that add up to exactly 1, still none below the floor."""
    count = len(parts)
    if max(parts) - min(parts) < 1e-9:
        return [Fraction(1, count)] * count
    pieces = PARTS * count
    whole = [max(math.floor(part * pieces), math.ceil(PARTS * LEAST_SHARE)) for part in parts]
    whole[whole.index(max(whole))] += pieces - sum(whole)
    return [Fraction(part, pieces) for part in whole]


def _l1(distance: Distance) -> Fraction:
    assert distance.l1 is not None  # every measure has a cap
    return max(distance.l1, Fraction(1))  # what nobody moves gets noise as well: a scale is above zero


def _l2_squared(distance: Distance) -> Fraction:
    assert distance.l2_squared is not None
    return max(distance.l2_squared, Fraction(1))


def _rounded(scale: Fraction) -> Fraction:
    if scale.numerator < PLAIN and scale.denominator < PLAIN:
        return scale
    return round_up(scale, SIGNIFICANT)  # up: never more than the share
