"""Geometric and Gaussian noise on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import bulk, gaussian, numbers, samplers
from sfumato.mechanisms.arguments import LARGEST_EPSILON, WIDEST, price, rational, set_fields, whole
from sfumato.mechanisms.distance import Bound, Distance, Shift
from sfumato.mechanisms.mechanism import Additive, Symmetric, bisected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

SIGNIFICANT = 16  # bits of a calibrated sigma^2
BY_RHO, BY_TURNING = 1, 2  # the proofs that a stored step may rest on: numbers for ever
SMOOTH = 1 << 16  # from this sigma^2 on a discrete law is a normal one in all but name: 2^-14 wider


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(Symmetric):
    """Integers y with probability (1-a)/(1+a) a^|y|, where a = exp(-1/scale): the two-sided geometric law.

    >>> float(DiscreteLaplace(scale=Fraction(10)).cdf(0).low)
    0.52497918747894
    """

    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))

    def draw(self, coins: Coins) -> int:
        return samplers.discrete_laplace(self.scale, coins)

    def draws(self, coins: Coins, size: int) -> Ints:
        return bulk.discrete_laplace(self.scale, size, coins)

    def log_mass(self, y: int) -> Interval:
        at_zero = numbers.one_minus_exp(1 / self.scale) / (ratio_of(self.scale) + 1)
        return numbers.log_of(at_zero.narrowed()) - abs(y) / self.scale

    def beyond(self, k: int) -> Interval:
        return (numbers.exp(-k / self.scale) / (ratio_of(self.scale) + 1)).narrowed()  # a^k / (1 + a)

    def beyond_floats(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        far: NDArray[np.float64] = np.exp(-steps / float(self.scale)) / (1 + float(ratio_of(self.scale).high))
        return far

    @property
    def variance(self) -> float:
        ratio, gap = float_ratio(1 / self.scale)
        return 2 * ratio / gap**2

    @property
    def mean_error(self) -> float:
        ratio, gap = float_ratio(1 / self.scale)
        return 2 * ratio / (gap * (1 + ratio))


def float_ratio(rate: Fraction) -> tuple[float, float]:
    """exp(-rate) and 1 - exp(-rate), the second to full precision."""
    return math.exp(-float(rate)), -math.expm1(-float(rate))


@lru_cache(maxsize=1024)
def ratio_of(scale: Fraction) -> Interval:
    """a = exp(-1/scale)."""
    return numbers.exp(-1 / scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric(Additive):
    """Add two-sided geometric noise of the same scale to every coordinate of an integer vector.

    Guarantee: pure DP, epsilon = l1 / scale, at every distance with a proved l1.
    Proof: docs/explanation/geometric-mechanism.md#guarantee (Ghosh, Roughgarden and Sundararajan, 2009;
    for vectors as in Dwork, McSherry, Nissim and Smith, 2006, proposition 1).

    >>> Geometric(scale=Fraction(10)).bound(Distance(l1=Fraction(1))).epsilon
    Fraction(1, 10)
    """

    name: ClassVar[str] = "geometric"
    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Geometric:
        """The one that costs `epsilon` at this distance.

        >>> Geometric.at(epsilon=Fraction(1, 2), distance=Distance(l0=3, linf=Fraction(1)))
        Geometric(scale=Fraction(6, 1))
        """
        return cls(scale=needed("l1", distance.for_integers().l1) / price("epsilon", epsilon))

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(scale=self.scale)

    def _bound(self, distance: Distance) -> Bound:
        l0, l1, linf = distance.l0, distance.l1, distance.linf
        shifts = None
        if l0 is not None and linf is not None and l1 is not None and l0 * linf <= l1:
            shifts = (Shift(self.noise, int(linf), l0),)
        return Bound(epsilon=None if l1 is None else l1 / self.scale, shifts=shifts)


def needed(norm: str, bound: Fraction | None) -> Fraction:
    """The norm that a mechanism is calibrated to, if it is proved and not zero."""
    if bound is None:
        raise InvalidParameter("distance", f"{norm} unknown", f"give how far one person can move it: {norm}")
    if bound == 0:
        raise InvalidParameter("distance", 0, "nothing can change: release the answer without noise")
    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(Symmetric):
    """Integers y with probability proportional to exp(-y^2 / (2 sigma^2)).

    sigma^2 is a little more than the variance: they agree to 15 digits from 3 on.

    >>> float(DiscreteGaussian(sigma_squared=Fraction(100)).cdf(10).low)
    0.8532415727619272
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        set_fields(self, sigma_squared=rational("sigma_squared", self.sigma_squared, most=WIDEST**2))

    def draw(self, coins: Coins) -> int:
        return samplers.discrete_gaussian(self.sigma_squared, coins)

    def draws(self, coins: Coins, size: int) -> Ints:
        return bulk.discrete_gaussian(self.sigma_squared, size, coins)

    def log_mass(self, y: int) -> Interval:
        total = gaussian.sums(self.sigma_squared).total
        return -numbers.log_of(total) - Fraction(y * y) / (2 * self.sigma_squared)

    def beyond(self, k: int) -> Interval:
        law = gaussian.sums(self.sigma_squared)
        return (law.beyond(k) / law.total).narrowed()

    def beyond_floats(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        far: NDArray[np.float64]
        if self.sigma_squared < 10_000:  # few steps: add them up
            weights = self._weights()
            sums = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
            far = sums[np.minimum(steps, len(weights)).astype(np.int64)] / (2 * sums[0] - 1)
        else:  # the sum from n on is the integral from n - 1/2 on and a 24th of the slope there
            z = (steps - 0.5) / math.sqrt(self.sigma_squared)
            slope = -z * np.exp(-(z**2) / 2) / (math.sqrt(2 * math.pi) * 24 * float(self.sigma_squared))
            far = np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.ravel()]).reshape(z.shape) + slope
        return far

    def _weights(self) -> NDArray[np.float64]:
        reach = np.arange(int(40 * math.sqrt(self.sigma_squared)) + 2, dtype=np.float64)
        return np.exp(-(reach**2) / (2 * float(self.sigma_squared)))

    @property
    def variance(self) -> float:
        if self.sigma_squared > 10:
            return float(self.sigma_squared)
        weights = self._weights()
        steps = np.arange(len(weights))
        return float(2 * (steps**2 * weights).sum() / (2 * weights.sum() - 1))

    @property
    def mean_error(self) -> float:
        if self.sigma_squared > 10_000:
            return math.sqrt(2 * self.sigma_squared / math.pi)
        weights = self._weights()
        return float(2 * (np.arange(len(weights)) * weights).sum() / (2 * weights.sum() - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(Additive):
    """Add discrete Gaussian noise with parameter sigma^2 to every coordinate of an integer vector.

    Guarantee: rho-zCDP, rho = l2^2 / (2 sigma^2), at every distance with a proved l2. Where l0 coordinates
    can change by linf each, `delta` is that of the discrete law, exactly or nearly. Where only a smaller l2
    is known it follows from rho, or with `proof` = 2 from normal noise: then 5 to 9% less noise will do. A
    stored step keeps its proof, and so its price.
    Proof: docs/explanation/gaussian.md#guarantee (Canonne, Kamath and Steinke, 2020, theorems 4, 7 and 14),
    #many-coordinates and #turned-vectors.

    >>> Gaussian(sigma_squared=Fraction(50)).bound(Distance(l2_squared=Fraction(1))).rho
    Fraction(1, 100)
    """

    name: ClassVar[str] = "gaussian"
    sigma_squared: Fraction
    proof: int = field(default=BY_RHO, repr=False)

    def __post_init__(self) -> None:
        if whole("proof", self.proof) not in {BY_RHO, BY_TURNING}:
            raise InvalidParameter("proof", self.proof, "give 1 or 2: how a vector with a known l2 is priced")
        variance = rational("sigma_squared", self.sigma_squared, most=WIDEST**2)
        set_fields(self, sigma_squared=variance, proof=int(self.proof))

    @classmethod
    def at(cls, *, epsilon: Fraction, delta: Fraction, distance: Distance) -> Gaussian:
        """Noise that gives (epsilon, delta)-differential privacy at this distance: the least, to 16 bits.

        Below sigma = 1 or so a little more noise can mean a larger delta, and still less noise might do.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> found = Gaussian.at(epsilon=Fraction(1), delta=Fraction(1, 10**6), distance=one)
        >>> round(float(found.sigma_squared) ** 0.5, 4)
        4.2308
        """
        epsilon, delta = price("epsilon", epsilon), rational("delta", delta)
        if delta >= 1:
            raise InvalidParameter("delta", delta, "take a probability below 1, such as Fraction(1, 10**6)")
        needed("l2_squared", distance.for_integers().l2_squared)
        # vectors of which l0 and linf say all have their delta from the law: there the first proof will do
        least = cls(sigma_squared=Fraction(1)).bound(distance)
        proof = BY_TURNING if least.shifts is None else BY_RHO

        def enough(units: int, power: int) -> bool:
            tried = cls(sigma_squared=units * Fraction(2) ** power, proof=proof)
            return tried.delta(epsilon=epsilon, distance=distance) <= delta

        # a power of two that is enough while half of it is not, then 16 bits between them; what is returned
        # was itself checked, so it is valid even where delta is not quite monotone in the noise
        if not enough(1, 500):
            raise InvalidParameter("delta", delta, "no noise below 2^500 reaches it: take a larger delta")
        near = _near(float(epsilon), float(delta), distance)
        about = None if near is None else math.ceil(math.log2(near))
        power = bisected(lambda tried: enough(1, tried), -500, 500, about) - SIGNIFICANT
        about = None if near is None else math.ceil(math.ldexp(near, -power))
        units = bisected(lambda tried: enough(tried, power), 1 << SIGNIFICANT - 1, 1 << SIGNIFICANT, about)
        return cls(sigma_squared=units * Fraction(2) ** power, proof=proof)

    @classmethod
    def at_rho(cls, *, rho: Fraction, distance: Distance) -> Gaussian:
        """The one that is rho-zCDP at this distance.

        >>> Gaussian.at_rho(rho=Fraction(1, 100), distance=Distance(l0=3, linf=Fraction(1)))
        Gaussian(sigma_squared=Fraction(150, 1))
        """
        l2_squared = needed("l2_squared", distance.for_integers().l2_squared)
        return cls(sigma_squared=l2_squared / (2 * rational("rho", rho)))

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(sigma_squared=self.sigma_squared)

    def _bound(self, distance: Distance) -> Bound:
        l0, l2_squared, linf = distance.l0, distance.l2_squared, distance.linf
        if l2_squared is None:
            return Bound()
        assert l0 is not None  # whole numbers that move add at least 1 each to the sum of squares
        shifts = normal = None
        by_shifts = linf is not None and l0 * linf**2 <= l2_squared
        if self.proof == BY_TURNING and (not by_shifts or self.sigma_squared > SMOOTH):
            normal = gaussian.turned(self.sigma_squared, l2_squared, l0)
        if by_shifts and normal is None:
            shifts = (Shift(self.noise, int(linf or 0), l0),)
        return Bound(rho=l2_squared / (2 * self.sigma_squared), shifts=shifts, normal=normal)

    def delta(self, *, epsilon: Fraction, distance: Distance) -> Fraction:
        """The delta that goes with this epsilon: an upper bound; 1 if none is proved.

        Exact in one dimension, and nearly so where l0 coordinates move by linf each.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> float(Gaussian(sigma_squared=Fraction(1)).delta(epsilon=Fraction(1), distance=one))
        0.14135133940562192
        """
        epsilon, steps = price("epsilon", epsilon, zero=True), distance.for_integers()
        if steps.is_zero or steps.l0 is None or steps.linf is None:
            return self.bound(distance).delta_at(epsilon)
        found = gaussian.alike_delta(self.sigma_squared, epsilon, int(steps.linf), steps.l0)
        found = min(Fraction(1), numbers.round_up(found, 64))
        return found if steps.l0 == 1 else min(found, self.bound(distance).delta_at(epsilon))

    def epsilon(self, *, delta: Fraction, distance: Distance) -> Fraction:
        """The smallest epsilon in steps of 2^-20 for which `delta` is enough.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> float(Gaussian(sigma_squared=Fraction(100)).epsilon(delta=Fraction(1, 10**6), distance=one))
        0.3967905044555664
        """
        delta, steps = rational("delta", delta), 1 << 20
        if not distance.for_integers().is_zero:
            needed("l2_squared", distance.l2_squared)

        def enough(units: int) -> bool:
            return self.delta(epsilon=Fraction(units, steps), distance=distance) <= delta

        if not enough(LARGEST_EPSILON * steps):
            raise InvalidParameter(
                "delta", delta, f"no epsilon below {LARGEST_EPSILON} reaches it: take more noise"
            )
        return Fraction(bisected(enough, -1, LARGEST_EPSILON * steps), steps)


def best_proof(sigma_squared: Fraction, *distances: Distance) -> int:
    """The proof that prices this noise lowest at these distances; the first where they are the same."""
    noise = Gaussian(sigma_squared=sigma_squared, proof=BY_TURNING)
    return BY_RHO if all(noise.bound(each).normal is None for each in distances) else BY_TURNING


def _near(epsilon: float, delta: float, distance: Distance) -> float | None:
    """The variance of the normal law that is private at a distance, if it is wide: that of the discrete law
    is near it."""
    steps = distance.for_integers()
    worst = [size for size in (_square(steps), steps.l2_squared) if size is not None]
    if not worst or not 1e-3 < epsilon < 100 or not 1e-15 < delta < 0.1 or max(worst) > 10**200:
        return None

    def lost(ratio: float) -> float:  # of the deviation to the shift
        middle, half = epsilon * ratio, 0.5 / ratio
        first, second = (math.erfc((middle + side) / math.sqrt(2)) / 2 for side in (-half, half))
        return first - math.exp(epsilon) * second

    low, high = 1e-3, 1e5
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if lost(middle) <= delta else (middle, high)
    variance = high**2 * float(min(worst))
    return variance if variance > 100 else None


def _square(distance: Distance) -> Fraction | None:
    """The square of the l2 norm if l0 coordinates move by linf each."""
    l0, linf = distance.l0, distance.linf
    return None if l0 is None or linf is None else l0 * linf**2
