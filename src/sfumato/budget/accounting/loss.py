"""The privacy loss of steps that are fixed in advance, composed tightly and never below the truth.

A `PrivacyLoss` is a list of parts, each with a pair of laws that dominates it, and how often it is used. To
ask for a delta, every part is put on one grid of losses, where an atom between two points is split so that
neither law loses mass (that only helps whoever tells them apart), and the parts are convolved by Fourier
transform under an exponential tilt, so that a delta of 10^-30 keeps its digits. All rounding is upward:

* a transform wraps around, and so adds mass where it should not be, never takes any;
* what lies above the grid counts as lost, bounded by Chernoff;
* the error of the transform is bounded (Higham, 2002, theorem 24.2) and added to every point.

Guarantee: (epsilon, delta(epsilon))-differential privacy for all steps together, if the list of steps was
fixed before the first release. For steps that an analyst chooses as answers come in, see `filters`.
Proof: docs/explanation/privacy-loss.md (Sommer, Meiser and Mohammadi, 2019; Zhu, Dong and Wang, 2022).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.budget.accounting import atoms
from sfumato.budget.accounting.atoms import LEAST, ROUNDING, Atoms
from sfumato.budget.accounting.composition import STEPS, chance, optimal, zcdp
from sfumato.errors import InvalidParameter
from sfumato.exact import gaussian, numbers
from sfumato.mechanisms import Bound, accuracy
from sfumato.mechanisms.arguments import LARGEST_EPSILON, exact, rational, whole
from sfumato.mechanisms.mechanism import bisected
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from sfumato.budget.accounting.atoms import Floats, Pair
    from sfumato.mechanisms import Spend

UNIT = 2.0**-53
TOLERANCE = 3e-6  # how much the grid may add to an epsilon, about
SMALLEST, LARGEST = 12, 20  # a transform has 2^12 to 2^20 points
BINOMIAL = 20_000  # so many equal responses are composed exactly before they meet the grid,
EXACT = 500  # if their epsilons add up to no more than that
ROUGH = 2048  # atoms are merged into so many for all but the transform
ROUNDS = 8  # of tilting anew towards the epsilon that is looked for


@dataclass(frozen=True, slots=True)
class Response:
    """Randomized response: the worst of all that is proved by a pure epsilon."""

    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class MovedNoise:
    """Noise moved by a number of steps against noise that is not."""

    noise: Hashable  # a Line
    steps: int


@dataclass(frozen=True, slots=True)
class Concentrated:
    """Everything that is rho-zCDP, and of which no more is known."""

    rho: Fraction


@dataclass(frozen=True, slots=True)
class Turned:
    """Normal noise of variance 1, moved by the root of `squared`, but for the factors of so many steps."""

    squared: Fraction
    times: int

    def delta(self, epsilon: Fraction) -> Fraction:
        """A delta for which this is (epsilon, delta)-private, from the closed form."""
        return gaussian.turned_delta(self.squared, epsilon, self.times)

    def epsilon(self, delta: Fraction) -> Fraction:
        """The smallest epsilon in steps of 2^-40 for which `delta` is enough."""

        def enough(units: int) -> bool:
            return self.delta(Fraction(units, STEPS)) <= delta

        if not enough(LARGEST_EPSILON * STEPS):
            raise InvalidParameter("delta", delta, f"no epsilon below {LARGEST_EPSILON} reaches it")
        near = accuracy.continuous_epsilon(delta=float(delta), ratio=math.sqrt(self.squared))
        return Fraction(bisected(enough, -1, LARGEST_EPSILON * STEPS, round(near * STEPS)), STEPS)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A part that sees only some of the people: each with probability `rate`, or `rate` of all of them."""

    part: Whole
    rate: Fraction
    fixed: bool


Whole = Response | MovedNoise | Concentrated | Turned
Part = Whole | Sampled


@dataclass(frozen=True)
class PrivacyLoss:
    """What steps that are fixed in advance tell together.

    >>> from sfumato.mechanisms import Distance, Distances, Geometric, Step
    >>> one = Distance(l0=1, linf=Fraction(1))
    >>> count = Step(Geometric(scale=Fraction(10)), Distances(one, one))
    >>> thousand = PrivacyLoss.of((count,)).times(1000)
    >>> round(float(thousand.epsilon(Fraction(1, 10**6))), 4)
    19.3447
    """

    parts: tuple[tuple[Part, int], ...] = ()
    lost: Fraction = field(default=Fraction(0))  # the sum of deltas that no epsilon gets rid of
    towards: str = "presence"  # the relation between neighbours

    @classmethod
    def of(cls, spend: Spend, towards: str = "presence") -> PrivacyLoss:
        """The loss of steps under a relation between neighbours: "presence", "value" or a promise."""
        found: Counter[Part] = Counter()
        lost = Fraction(0)
        for step in spend:
            bound = step.bound(towards)
            if bound.shifts is not None:
                for shift in bound.shifts:
                    found[_normal(shift.noise, shift.steps)] += shift.times
            elif bound.epsilon is not None:
                found[Response(bound.epsilon)] += 1
                lost += bound.delta
            elif bound.normal is not None:
                found[Turned(bound.normal, 1)] += 1
            elif bound.rho is not None:
                found[Concentrated(bound.rho)] += 1
            else:
                raise InvalidParameter("spend", step.mechanism.name, "nothing is proved at this distance")
        return cls._made(found, lost, towards)

    @classmethod
    def _made(cls, found: Counter[Part], lost: Fraction, towards: str) -> PrivacyLoss:
        """In normal form: losses of zero left out, and rhos and the squares of normal shifts added up."""
        rho, squared, times = Fraction(0), Fraction(0), 0
        rest: dict[Part, int] = {}
        for part, count in found.items():
            if isinstance(part, Concentrated):
                rho += part.rho * count
            elif isinstance(part, Turned):
                squared, times = squared + part.squared * count, times + part.times * count
            else:
                rest[part] = count
        rest.pop(Response(Fraction(0)), None)
        if rho:
            rest[Concentrated(rho)] = 1
        if squared:
            rest[Turned(squared, times)] = 1
        return cls(tuple((part, count) for part, count in rest.items() if count), lost, towards)

    def then(self, other: PrivacyLoss) -> PrivacyLoss:
        """This, and the other as well."""
        if self.parts and other.parts and self.towards != other.towards:
            raise InvalidParameter(
                "other",
                other.towards,
                f"this is towards {self.towards}: compose losses of the same direction",
            )
        towards = self.towards if self.parts else other.towards
        parts = Counter(dict(self.parts)) + Counter(dict(other.parts))
        return self._made(parts, self.lost + other.lost, towards)

    def times(self, count: int) -> PrivacyLoss:
        """This, so many times over."""
        count = whole("count", count, least=0)
        parts = Counter({part: count * many for part, many in self.parts})
        return self._made(parts, self.lost * count, self.towards)

    def sampled(self, rate: Fraction, *, fixed: bool = False) -> PrivacyLoss:
        """The loss if only a secret random part of the people is looked at each time.

        Every person is in with probability `rate`, independently (Poisson; neighbours by presence), or with
        `fixed` a sample of that share of all people is drawn without replacement (neighbours by value).
        Who was in stays secret. Sample one step, then compose: `.sampled(...).times(1000)`.

        Guarantee: as for the class. Proof: Zhu, Dong and Wang (2022), theorem 11.
        """
        share = exact("rate", rate)
        atoms.as_rate(share)
        if fixed == (self.towards == "presence"):
            wanted = 'towards="value"' if fixed else 'towards="presence"'
            raise InvalidParameter("fixed", fixed, f"that is proved for PrivacyLoss.of(spend, {wanted})")
        match self.parts:
            case ():
                return self
            case ((Response() | MovedNoise() | Concentrated() | Turned() as part, 1),):
                return PrivacyLoss(((Sampled(part, share, fixed), 1),), self.lost * share, self.towards)
        raise InvalidParameter("steps", len(self.parts), "sample one step, then compose: .sampled().times()")

    def delta(self, epsilon: Fraction) -> Fraction:
        """A delta for which all steps together are (epsilon, delta)-differentially private."""
        epsilon = rational("epsilon", epsilon, zero=True)
        rest = Fraction(0)
        if self._pure is None or epsilon < self._pure:
            if self._alike is not None:
                rest = optimal(self._alike[0], count=self._alike[1]).delta(epsilon)
            elif self._rho is not None:
                rest = Bound(rho=self._rho).delta_at(epsilon)
            elif self._turned is not None:
                rest = self._turned.delta(epsilon)
            else:
                rest = max(Fraction(sum_.curve(float(epsilon)).delta(_down(epsilon))) for sum_ in self._sums)
        return min(Fraction(1), self.lost + rest)

    def epsilon(self, delta: Fraction) -> Fraction:
        """An epsilon that goes with this delta; in steps of 2^-40, rounded up."""
        room = chance(delta) - self.lost
        if room < 0 or (room == 0 and self._pure is None):
            raise InvalidParameter("delta", delta, "what the steps lose for certain is more than that")
        if self._pure is not None and (room == 0 or self._pure == 0):
            return self._pure
        if self._alike is not None:
            return optimal(self._alike[0], count=self._alike[1]).total(room)
        if self._rho is not None:
            return zcdp([self._rho], delta=room)
        if self._turned is not None:
            return self._turned.epsilon(room)
        steps = max(_up(sum_.epsilon(float(numbers.round_down(room, 50)))) for sum_ in self._sums)
        return steps if self._pure is None else min(steps, self._pure)

    def renyi(self, delta: Fraction) -> Fraction:
        """The epsilon that follows from the Renyi divergences of all orders: looser than `epsilon`, quicker.

        Guarantee: as for the class. Proof: divergences add up under composition (Mironov, 2017, proposition
        1); converted as by Canonne, Kamath and Steinke (2020),
        corollary 13. Every order is valid; the best of those tried is taken.

        >>> from sfumato.mechanisms import Distance, Distances, Gaussian, Step
        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> step = Step(Gaussian(sigma_squared=Fraction(400)), Distances(one, one))
        >>> round(float(PrivacyLoss.of((step,)).times(1000).renyi(Fraction(1, 10**6))), 3)
        8.846
        """
        room = chance(delta) - self.lost
        if room <= 0:
            raise InvalidParameter("delta", delta, "what the steps lose for certain is more than that")
        if not self.parts:
            return Fraction(0)
        return max(_up(sum_.renyi(float(numbers.round_down(room, 50)))) for sum_ in self._sums)

    @cached_property
    def _pure(self) -> Fraction | None:
        """The sum of the epsilons, if every part has one: there delta ends."""
        total = Fraction(0)
        for part, count in self.parts:
            if isinstance(part, Sampled):
                part = part.part  # sampling never adds to it
            if isinstance(part, Response):
                total += part.epsilon * count
            elif isinstance(part, MovedNoise) and isinstance(part.noise, DiscreteLaplace):
                total += part.steps / part.noise.scale * count
            else:
                return None
        return total

    @cached_property
    def _alike(self) -> tuple[Fraction, int] | None:
        """The epsilon and count of equal responses, if there is nothing else: those are summed exactly."""
        if len(self.parts) != 1:
            return None
        ((part, count),) = self.parts
        if isinstance(part, Response) and part.epsilon * count <= EXACT and count <= BINOMIAL:
            return part.epsilon, count
        return None

    @cached_property
    def _rho(self) -> Fraction | None:
        """The rho, if nothing else is known."""
        match self.parts:
            case ((Concentrated(rho), 1),):
                return rho
        return None

    @cached_property
    def _turned(self) -> Turned | None:
        """The one normal shift that all steps come to, if nothing else is known."""
        match self.parts:
            case ((Turned() as part, 1),):
                return part
        return None

    @cached_property
    def _sums(self) -> tuple[AtomSum, ...]:
        """The parts in each order of the neighbours; once if they are all their own mirror image."""
        orders = 2 if any(isinstance(part, Sampled) and not part.fixed for part, _ in self.parts) else 1
        return tuple(
            AtomSum(tuple(_atoms(part, count, order) for part, count in self.parts))
            for order in range(orders)
        )


def _normal(noise: Hashable, steps: int) -> Part:
    """One step of geometric noise is randomized response; of Gaussian noise too wide only rho is known."""
    if isinstance(noise, DiscreteLaplace) and steps == 1:
        return Response(1 / noise.scale)
    if isinstance(noise, DiscreteGaussian) and atoms.written(noise.sigma_squared, steps) is None:
        return Concentrated(steps**2 / (2 * noise.sigma_squared))
    return MovedNoise(noise, steps)


def _pair(part: Whole) -> Pair:
    if isinstance(part, Response):
        return atoms.response(part.epsilon)
    if isinstance(part, Concentrated):
        return atoms.curve(part.rho)
    if isinstance(part, Turned):
        return atoms.turned(part.squared, part.times)
    return atoms.shifted(part.noise, part.steps)


@lru_cache(maxsize=64)
def _atoms(part: Part, count: int, order: int) -> tuple[Atoms, int]:
    if isinstance(part, Sampled):
        pair, rate = _pair(part.part), atoms.as_rate(part.rate)
        return (pair.sampled_fixed(rate) if part.fixed else pair.sampled(rate)[order]), count
    if isinstance(part, Response) and 1 < count <= BINOMIAL and part.epsilon * count <= EXACT:
        return Atoms.rounded_up(*optimal(part.epsilon, count=count).logs()), 1
    return _pair(part).atoms(), count


class AtomSum:
    """Atoms, each so many times over, added up in one order of the neighbours."""

    def __init__(self, parts: tuple[tuple[Atoms, int], ...]) -> None:
        self.parts = parts
        self.rough = [(_merged(each), count) for each, count in parts]
        self.lost = sum(each.lost * count for each, count in parts) * (1 + 1e-12)
        self.count = sum(count for _, count in parts)
        self.widest = max(float(np.abs(each.losses).max()) for each, _ in parts)
        self.top = sum(float(each.losses.max()) * count for each, count in parts)
        self.top += abs(self.top) * 1e-12  # the sum was rounded

    def cumulants(self, tilt: float, *, rough: bool = True) -> tuple[float, float, float]:
        """ln E e^(tilt L), the mean and the variance of L under the tilt; if rough, of merged atoms."""
        log = mean = variance = 0.0
        for each, count in self.rough if rough else self.parts:
            exponents = tilt * each.losses + each.logs
            top = exponents.max()
            weights = np.exp(exponents - top)
            total = weights.sum()
            here = float((weights * each.losses).sum() / total)
            log += count * (float(top) + math.log(total))
            mean += count * here
            variance += count * float((weights * (each.losses - here) ** 2).sum() / total)
        return log, mean, variance

    def beyond(self, loss: float, step: float = 0.0) -> float:
        """At most this much mass has a loss above on a grid: Chernoff's bound at the best tilt that is tried.

        A split adds at most tilt (1 + tilt) step^2 / 8 to the logarithm of E e^(tilt L), and no loss moves by
        more than a step.
        """
        if loss >= self.top + self.count * step:
            return 0.0
        tilt = self.tilt(loss, step)
        log, _, _ = self.cumulants(tilt)
        log += self.count * tilt * (1 + tilt) * step**2 / 8
        return math.exp(min(0.0, log - tilt * loss + 1e-9 * (1 + abs(log) + tilt * abs(loss))))

    def tilt(self, loss: float, step: float = 0.0) -> float:
        """The tilt, not negative, under which the mean comes to this loss, about: any is valid."""

        def mean(tilt: float) -> float:
            return self.cumulants(tilt)[1] + self.count * (1 + 2 * tilt) * step**2 / 8

        low, high = 0.0, 1.0
        while mean(high) < loss and high < 1e4:
            low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if mean(middle) < loss else (low, middle)
        return high

    def renyi(self, delta: float) -> float:
        """The epsilon by the best of a range of orders; what has no bounded loss comes off delta first."""
        if (room := delta - self.lost) <= 0:
            raise InvalidParameter("delta", delta, "what the steps lose for certain is more than that")

        def at(power: float) -> float:
            tilt = math.exp(power)  # the order less one
            log, _, _ = self.cumulants(tilt, rough=False)
            back = (1 + tilt) * math.log(tilt / (1 + tilt)) - math.log(tilt)
            epsilon = (log + back - math.log(room)) / tilt
            return epsilon + 1e-9 * (1 + abs(epsilon) + abs(log) / tilt)

        low, high = -8.0, 16.0
        for _ in range(80):  # about convex; any order is valid
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if at(left) < at(right) else (left, high)
        return max(0.0, at(high))

    def curve(self, epsilon: float) -> Curve:
        """The deltas of the sum, exact where epsilon is near this one."""
        return Curve.of(self, min(epsilon, self.top))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon found for which delta is enough."""
        if self.lost >= delta:
            advice = f"losses are written out but for {self.lost:.1g}: take a larger one"
            raise InvalidParameter("delta", delta, advice)
        low, high = 0.0, 1.0
        for _ in range(60):  # a first guess: where Chernoff's bound is delta
            log, mean, _ = self.cumulants(high)
            if log - high * mean < math.log(delta):
                break
            low, high = high, 2 * high
        for _ in range(20):
            middle = (low + high) / 2
            log, mean, _ = self.cumulants(middle)
            low, high = (low, middle) if log - middle * mean < math.log(delta) else (middle, high)
        guess = max(0.0, self.cumulants(high)[1])
        for _ in range(ROUNDS):
            curve = self.curve(guess)
            found = curve.epsilon(delta)
            edge = found is not None and 0 < found == float(curve.losses[0])  # less may do, below the window
            if found is not None and not edge and abs(found - guess) <= curve.near:
                return found
            guess = guess + 4 * curve.near if found is None else found
        if found is None:
            raise InvalidParameter(
                "delta", delta, f"no epsilon below {LARGEST_EPSILON} was found that reaches it"
            )
        low, high = 0.0, found
        while edge and high - low > max(1e-6 * high, 1e-9):
            middle = (low + high) / 2
            low, high = (low, middle) if self.curve(middle).delta(middle) <= delta else (middle, high)
        return high


@dataclass(frozen=True, eq=False)
class Curve:
    """Upper bounds on the mass at each loss of a window, and with them on delta."""

    losses: Floats
    masses: Floats
    lost: float
    near: float  # how far from the epsilon it was made for it is as tight as there

    @classmethod
    def of(cls, total: AtomSum, epsilon: float) -> Curve:
        """Put every part on a grid, tilt, transform, multiply, transform back, tilt back.

        With mass m at loss l, m e^(tilt l - log) is what is convolved: it adds up to about 1 and lies around
        `epsilon`, so the rounding of the transform is small against what delta is made of.
        """
        tilt = total.tilt(epsilon)
        log, mean, variance = total.cumulants(tilt)
        count = total.count
        # indices stay whole numbers of 64 bits, and steps above zero
        spread = max(math.sqrt(variance), total.widest * 2.0**-36, 1e-200)
        # splitting an atom adds at most h^2/4 to a variance, h^2/6 on average, and half (1 + tilt) times
        # that to epsilon
        step = math.sqrt(12 * TOLERANCE / ((1 + tilt) * count))
        # and a small part of what variance there is
        step, reach = min(step, spread / 500, spread * math.sqrt(6e-4 / count)), 8 * spread
        while total.beyond(epsilon + reach) > 1e-9 * math.exp(log - tilt * epsilon):
            reach *= 1.25
        size = max(SMALLEST, min(LARGEST, math.ceil(math.log2(2 * reach / step))))
        step = 2.0 ** math.ceil(math.log2(max(step, 2 * reach / 2**size)))
        size, middle = 1 << size, max(mean, epsilon)
        while total.beyond(middle + (size // 2 - 2) * step, step) > 1e-9 * math.exp(log - tilt * epsilon):
            size, step = (2 * size, step) if size < 1 << LARGEST else (size, 2 * step)
        first = math.floor(middle / step) - size // 2
        spectrum, blurred = np.ones(size // 2 + 1, dtype=np.complex128), np.zeros(size // 2 + 1)
        depth = 2 * (math.log2(size) + 2) * 2.0**-50  # relative error of a transform, in the 2-norm
        logs = 0.0
        for each, many in total.parts:
            folded, part_log = _folded(each, step, tilt, size)
            found = np.fft.rfft(folded)
            error = depth * math.sqrt(size) * float(np.sqrt((folded**2).sum()))
            power = _power(found, many)
            bound = np.abs(found)
            # |a^k - b^k| <= (|a| + e)^k - |a|^k for |a - b| <= e, and 3 roundings a multiplication
            grown = np.exp(many * np.log(bound + error + 1e-300))
            here = grown - np.exp(many * np.log(bound + 1e-300)) + grown * (8 * UNIT * (many + 1))
            blurred = blurred * (np.abs(power) + here) + np.abs(spectrum) * here
            spectrum = spectrum * power
            blurred += np.abs(spectrum) * (4 * UNIT)
            logs += many * part_log
        back = np.fft.irfft(spectrum, size)
        wrong = 2 * float(2 * blurred.sum()) / size + 2 * depth * float(np.sqrt((back**2).sum()))
        index = np.arange(first, first + size)
        losses: Floats = index.astype(np.float64) * step
        tilted = np.maximum(back[index % size], 0.0) + wrong
        # masses of the untilted sum; exponents are sums of a few numbers, each right to 2^-50 of its size
        exponents = logs - tilt * losses
        size_of = abs(logs) + np.abs(tilt * losses) + 1
        masses: Floats = np.exp(np.minimum(exponents + size_of * 2.0**-48, 700.0)) * tilted
        lost = total.lost + total.beyond(float(losses[-1]), step)
        return cls(losses, masses, lost, near=max(0.05 * spread, 1e-6))

    def delta(self, epsilon: float) -> float:
        """The sum of m (1 - e^(epsilon - l)) over losses above epsilon, and what is lost; rounded up."""
        if epsilon < self.losses[0]:
            return 1.0  # the window says nothing of what lies before it
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        told = self.masses[start:] * -np.expm1(epsilon - self.losses[start:])
        return min(1.0, (float(told.sum()) + self.lost) * (1 + 1e-10))

    def epsilon(self, delta: float) -> float | None:
        """The smallest epsilon in the window that goes with delta; None if there is none."""
        low, high = max(0.0, float(self.losses[0])), float(self.losses[-1])
        if self.delta(high) > delta:
            return None
        if self.delta(low) <= delta:
            return low
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def _merged(each: Atoms) -> Atoms:
    """At most 2 ROUGH atoms: neighbours are split onto the smallest and largest loss of their group."""
    if len(each.losses) <= 2 * ROUGH:
        return each
    order = np.argsort(each.losses)
    losses, logs = each.losses[order], each.logs[order]
    first = np.arange(0, len(losses), -(-len(losses) // ROUGH))
    sizes = np.diff(np.append(first, len(losses)))
    low, high = losses[first], losses[first + sizes - 1]
    stay, go = _split(losses - np.repeat(low, sizes), np.repeat(high - low, sizes))
    top = np.maximum.reduceat(logs, first)
    weights = np.exp(logs - np.repeat(top, sizes))
    parts = [np.log(np.add.reduceat(weights * part, first) + LEAST) + top for part in (stay, go)]
    return Atoms(np.concatenate([low, high]), np.concatenate(parts) + ROUNDING, each.lost)


def _split(over: Floats, step: Floats) -> tuple[Floats, Floats]:
    """How much of an atom stays at the point below it, and how much goes to the next one.

    An atom t above a point, t < h, leaves (e^(h-t) - 1)/(e^h - 1) of its mass there, and the rest goes to the
    next point: under either law the two have what the one had.
    """
    wide = np.maximum(step, 1e-300)
    go: Floats = np.where(step > 0, np.expm1(-over) / np.expm1(-wide), 0.0)
    stay: Floats = np.where(step > 0, np.exp(-over) * np.expm1(over - wide) / np.expm1(-wide), 1.0)
    return stay, go


def _folded(each: Atoms, step: float, tilt: float, size: int) -> tuple[Floats, float]:
    """The tilted masses on a circle of `size` points, about 1 in all; the logarithm they were divided by."""
    exponents = tilt * each.losses + each.logs
    top = float(exponents.max())
    log = top + math.log(float(np.exp(exponents - top).sum()))
    index = np.floor(each.losses / step)
    over = np.clip(each.losses - index * step, 0.0, step)
    stay, go = _split(over, np.full_like(over, step))
    where = index.astype(np.int64)
    folded = np.zeros(size)
    largest = float(np.abs(tilt * each.losses).max()) + abs(top) + abs(log) + 1000
    slack = 1 + (largest + len(each.losses)) * 4 * UNIT  # exponents of that size, and sums of so many terms
    for part, at in ((stay, where), (go, where + 1)):
        weights = part * np.exp(exponents - log + (at * step - each.losses) * tilt)
        folded += np.bincount(at % size, weights=weights * slack, minlength=size)
    return folded * (1 + 2 * UNIT), log


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """base ** count by squaring: each multiplication is right to 3 units of 2^-53."""
    result = np.ones_like(base)
    while count:
        if count & 1:
            result = result * base
        base, count = base * base, count >> 1
    return result


def _up(x: float) -> Fraction:
    """The next multiple of 2^-40."""
    return Fraction(math.ceil(Fraction(x) * STEPS), STEPS)


def _down(x: Fraction) -> float:
    """A float that is not above x: a smaller epsilon has a larger delta."""
    near = float(x)
    return near if Fraction(near) <= x else math.nextafter(near, -math.inf)
