"""Additive noise on the integers: geometric, Gaussian, staircase, and noise for the largest coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import bulk, gaussian, numbers, samplers
from sfumato.mechanisms.mechanism import (
    MOST,
    WIDEST,
    Additive,
    Bound,
    Distance,
    Law,
    Line,
    Mechanism,
    Vector,
    check_tail,
    price,
    rational,
    set_fields,
    whole,
    whole_vector,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

FREE = Bound(epsilon=Fraction(0))
SIGNIFICANT = 16  # bits of a calibrated variance


# Geometric -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(Line):
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
        at_zero = numbers.one_minus_exp(1 / self.scale) / (_ratio(self.scale) + 1)
        return numbers.log_of(at_zero.narrowed()) - abs(y) / self.scale

    def cdf(self, y: int) -> Interval:
        # P(Y >= k) = a^k / (1 + a) for k >= 1, and the law is symmetric
        beyond = (numbers.exp(-(y + 1 if y >= 0 else -y) / self.scale) / (_ratio(self.scale) + 1)).narrowed()
        return 1 - beyond if y >= 0 else beyond

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        next_up = np.floor(points) + 1  # Y > x means Y >= floor(x) + 1
        rate, ratio = 1 / float(self.scale), float(_ratio(self.scale).high)
        far = np.exp(-np.maximum(next_up, 1 - next_up) * rate) / (1 + ratio)
        tails: NDArray[np.float64] = np.where(next_up >= 1, far, 1 - far)
        return tails

    @property
    def variance(self) -> float:
        """2a / (1-a)^2."""
        ratio, gap = _float_ratio(1 / self.scale)
        return 2 * ratio / gap**2

    @property
    def mean_error(self) -> float:
        """The expected absolute value, 2a / (1-a^2)."""
        ratio, gap = _float_ratio(1 / self.scale)
        return 2 * ratio / (gap * (1 + ratio))

    def window(self, tail: Fraction) -> range:
        return _window(self, Fraction(tail))


def _float_ratio(rate: Fraction) -> tuple[float, float]:
    """exp(-rate) and 1 - exp(-rate), the second to full precision."""
    return math.exp(-float(rate)), -math.expm1(-float(rate))


@lru_cache(maxsize=1024)
def _ratio(scale: Fraction) -> Interval:
    return numbers.exp(-1 / scale)


@lru_cache(maxsize=1024)
def _window(law: DiscreteLaplace | DiscreteGaussian, tail: Fraction) -> range:
    """The smallest range around 0 that leaves at most tail/2 on either side: guessed, then settled."""
    check_tail(tail)
    low, high = 0.0, math.sqrt(law.variance) * 40 + 2
    for _ in range(60):
        middle = (low + high) / 2
        beyond = float(law.tails(np.array([math.floor(middle)], dtype=np.float64))[0])
        low, high = (low, middle) if beyond <= float(tail) / 2 else (middle, high)
    guess = math.floor(high)

    def enough(radius: int) -> bool:
        return radius >= 0 and 1 - law.cdf(radius).low <= tail / 2

    # the guess is off by a few units of a float's last place: gallop to a bracket, then bisect
    step = 1 + guess // 10**13
    inside, outside = (guess - step, guess) if enough(guess) else (guess, guess + step)
    while enough(inside):
        inside, outside, step = inside - 2 * step, inside, 2 * step
    while not enough(outside):
        inside, outside, step = outside, outside + 2 * step, 2 * step
    while outside - inside > 1:
        between = (inside + outside) // 2
        inside, outside = (inside, between) if enough(between) else (between, outside)
    return range(-outside, outside + 1)


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

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(scale=self.scale)

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        return Bound(epsilon=None if distance.l1 is None else distance.l1 / self.scale)


# Gaussian ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(Line):
    """Integers y with probability proportional to exp(-y^2 / (2 sigma^2)), sigma^2 = `parameter`.

    The parameter is a little more than the variance: they agree to 15 digits from 3 on.

    >>> float(DiscreteGaussian(parameter=Fraction(100)).cdf(10).low)
    0.8532415727619272
    """

    parameter: Fraction

    def __post_init__(self) -> None:
        set_fields(self, parameter=rational("parameter", self.parameter, most=WIDEST**2))

    def draw(self, coins: Coins) -> int:
        return samplers.discrete_gaussian(self.parameter, coins)

    def draws(self, coins: Coins, size: int) -> Ints:
        return bulk.discrete_gaussian(self.parameter, size, coins)

    def log_mass(self, y: int) -> Interval:
        return -numbers.log_of(gaussian.sums(self.parameter).total) - Fraction(y * y) / (2 * self.parameter)

    def cdf(self, y: int) -> Interval:
        law = gaussian.sums(self.parameter)
        beyond = (law.beyond(y + 1 if y >= 0 else -y) / law.total).narrowed()
        return 1 - beyond if y >= 0 else beyond

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        next_up = np.floor(points) + 1
        steps = np.maximum(next_up, 1 - next_up)  # P(Y >= steps), then reflected
        if self.parameter < 10_000:  # few steps: add them up
            reach = np.arange(int(40 * math.sqrt(self.parameter)) + 2)
            weights = np.exp(-(reach.astype(np.float64) ** 2) / (2 * float(self.parameter)))
            sums = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
            far = sums[np.minimum(steps, len(weights)).astype(np.int64)] / (2 * sums[0] - 1)
        else:  # the sum from n on is the integral from n - 1/2 on and a 24th of the slope there
            spread = math.sqrt(self.parameter)
            z = (steps - 0.5) / spread
            slope = -z * np.exp(-(z**2) / 2) / (math.sqrt(2 * math.pi) * 24 * float(self.parameter))
            far = np.array([math.erfc(x / math.sqrt(2)) / 2 for x in z.ravel()]).reshape(z.shape) + slope
        tails: NDArray[np.float64] = np.where(next_up >= 1, far, 1 - far)
        return tails

    @property
    def variance(self) -> float:
        """The variance of the law, which is at most the parameter."""
        if self.parameter > 4:
            return float(self.parameter)
        y = np.arange(1, 100, dtype=np.float64)
        weights = np.exp(-(y**2) / (2 * float(self.parameter)))
        return float(2 * (y**2 * weights).sum() / (1 + 2 * weights.sum()))

    def window(self, tail: Fraction) -> range:
        return _window(self, Fraction(tail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(Additive):
    """Add discrete Gaussian noise with parameter sigma^2 to every coordinate of an integer vector.

    Guarantee: rho-zCDP, rho = l2^2 / (2 sigma^2), at every distance with a proved l2. Where one coordinate
    alone can change, `delta` is the exact one of the discrete law; otherwise it follows from rho.
    Proof: docs/explanation/gaussian.md#guarantee (Canonne, Kamath and Steinke, 2020, theorems 4 and 7).

    >>> Gaussian(parameter=Fraction(50)).bound(Distance(l2_squared=Fraction(1))).rho
    Fraction(1, 100)
    """

    name: ClassVar[str] = "gaussian"
    parameter: Fraction

    def __post_init__(self) -> None:
        set_fields(self, parameter=rational("parameter", self.parameter, most=WIDEST**2))

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(parameter=self.parameter)

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        return Bound(rho=None if distance.l2_squared is None else distance.l2_squared / (2 * self.parameter))

    def delta(self, *, epsilon: Fraction, distance: Distance) -> Fraction:
        """The delta that goes with this epsilon: an upper bound, tight to 12 digits in one dimension.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> float(Gaussian(parameter=Fraction(1)).delta(epsilon=Fraction(1), distance=one))
        0.14135133940562192
        """
        epsilon = price("epsilon", epsilon, zero=True)
        if distance.l0 == 1 and distance.linf is not None:
            exact = gaussian.shift_delta(self.parameter, epsilon, math.floor(distance.linf)).high
            return min(Fraction(1), numbers.round_up(exact, 64))
        return self.bound(distance).delta_at(epsilon)

    def epsilon(self, *, delta: Fraction, distance: Distance) -> Fraction:
        """The smallest epsilon in steps of 2^-20 for which `delta` is enough.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> float(Gaussian(parameter=Fraction(100)).epsilon(delta=Fraction(1, 10**6), distance=one))
        0.3967905044555664
        """
        delta = rational("delta", delta)
        steps = 1 << 20
        high = steps
        while self.delta(epsilon=Fraction(high, steps), distance=distance) > delta:
            high *= 2
            if high > MOST * steps:
                raise InvalidParameter("delta", delta, f"no epsilon below {MOST} reaches it: take more noise")
        low = -1
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.delta(epsilon=Fraction(middle, steps), distance=distance) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return Fraction(high, steps)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, delta: Fraction, distance: Distance) -> Gaussian:
        """The least noise, to 16 bits, that gives (epsilon, delta)-differential privacy at this distance.

        >>> one = Distance(l0=1, linf=Fraction(1))
        >>> found = Gaussian.calibrated(epsilon=Fraction(1), delta=Fraction(1, 10**6), distance=one)
        >>> round(float(found.parameter) ** 0.5, 4)
        4.2308
        """
        epsilon, delta = price("epsilon", epsilon), rational("delta", delta)
        if delta >= 1:
            raise InvalidParameter("delta", delta, "take a probability below 1, such as Fraction(1, 10**6)")
        if distance.is_zero or (distance.linf is not None and distance.linf < 1):
            raise InvalidParameter(
                "distance", distance.linf, "no whole number can change: release without noise"
            )
        if distance.l2_squared is None:
            raise InvalidParameter("distance", "l2_squared unknown", "give l2_squared, or l0 and linf")

        def enough(units: int, power: int) -> bool:
            tried = cls(parameter=units * Fraction(2) ** power)
            return tried.delta(epsilon=epsilon, distance=distance) <= delta

        # a power of two that is enough while half of it is not, then 16 bits between them; what is returned
        # was itself checked, so it is valid even where delta is not quite monotone in the noise
        low, high = -500, 500
        if not enough(1, high):
            raise InvalidParameter("delta", delta, "no noise below 2^500 reaches it: take a larger delta")
        while high - low > 1:
            between = (low + high) // 2
            low, high = (low, between) if enough(1, between) else (between, high)
        power = high
        low, high = 1 << SIGNIFICANT - 1, 1 << SIGNIFICANT
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle, power - SIGNIFICANT) else (middle, high)
        return cls(parameter=high * Fraction(2) ** (power - SIGNIFICANT))


# Staircase -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stairs(Line):
    """Integers y whose probability falls by exp(-epsilon) every `width` steps, the first fall after `flat`.

    The level of y is 0 for |y| < flat, 1 for the next `width` magnitudes, and so on; the mass is
    proportional to exp(-epsilon level).
    """

    epsilon: Fraction
    width: int
    flat: int

    def __post_init__(self) -> None:
        set_fields(self, epsilon=price("epsilon", self.epsilon))
        rational("width", whole("width", self.width, least=1))
        if not 1 <= whole("flat", self.flat) <= self.width:
            raise InvalidParameter("flat", self.flat, f"give a number from 1 to the width, {self.width}")

    def level(self, y: int) -> int:
        """How many times the probability has fallen at y."""
        return (abs(y) - self.flat) // self.width + 1 if abs(y) >= self.flat else 0

    def draw(self, coins: Coins) -> int:
        return samplers.loop(self.attempt, coins)

    def attempt(self, coins: Coins) -> int | None:
        """A geometric level and a place on it."""
        return self._placed(samplers.geometric(1 / self.epsilon, coins), coins)

    def _placed(self, level: int, coins: Coins) -> int | None:
        """A place on this level and a sign; level 0 is only `flat` wide, and minus zero fails."""
        place = coins.below(self.width)
        negative = coins.chance(1, 2)
        if level == 0:
            return (
                None if place >= self.flat or (negative and place == 0) else (-place if negative else place)
            )
        magnitude = self.flat + (level - 1) * self.width + place
        return -magnitude if negative else magnitude

    def draws(self, coins: Coins, size: int) -> Ints:
        parts: list[Ints] = []
        missing = size
        while missing > 0:
            parts.append(self._attempts(2 * missing + 16, coins)[:missing])
            missing -= len(parts[-1])
        joined: Ints = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)  # type: ignore[assignment]  # a mix becomes object
        return joined

    def _attempts(self, count: int, coins: Coins) -> Ints:
        turn = bulk.discrete_laplace(1 / self.epsilon, count, coins)
        level = np.maximum(turn, -1 - turn)  # given the sign of a two-sided draw, this is geometric
        if (int(level.max()) + 2) * self.width >= 1 << 62:  # the same levels, in Python's integers
            placed = (self._placed(each, coins) for each in level.tolist())
            return np.array([y for y in placed if y is not None], dtype=np.object_)
        place = bulk.below(self.width, count, coins)
        negative = bulk.below(2, count, coins) == 1
        first = level == 0
        kept = ~first | ((place < self.flat) & ~(negative & (place == 0)))
        magnitude = np.where(first, place, self.flat + (level - 1) * self.width + place)
        signed: Ints = np.where(negative, -magnitude, magnitude)[kept]
        return signed

    def log_mass(self, y: int) -> Interval:
        return -self.epsilon * self.level(y) - numbers.log_of(self._total())

    def _total(self) -> Interval:
        return (2 * self.width * self._rest() + (2 * self.flat - 1)).narrowed()

    def _rest(self) -> Interval:
        """a + a^2 + ... = a / (1-a), a = exp(-epsilon)."""
        return (numbers.exp(-self.epsilon) / numbers.one_minus_exp(self.epsilon)).narrowed()

    def cdf(self, y: int) -> Interval:
        first = y + 1 if y >= 0 else -y  # P(Y >= first), then reflected
        level = self.level(first)
        end = self.flat + level * self.width  # magnitudes of this level end before here
        sums = numbers.exp(-self.epsilon * level) * (end - first + self.width * self._rest())
        beyond = (sums / self._total()).narrowed()
        return 1 - beyond if y >= 0 else beyond

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        next_up = np.floor(points) + 1
        first = np.maximum(next_up, 1 - next_up)
        level = np.maximum(np.floor((first - self.flat) / self.width) + 1, 0)
        ratio, gap = _float_ratio(self.epsilon)
        ends = self.flat + level * self.width - first + self.width * ratio / gap
        far = ratio**level * ends / float(self._total().high)
        tails: NDArray[np.float64] = np.where(next_up >= 1, far, 1 - far)
        return tails

    @property
    def mean_error(self) -> float:
        """The expected absolute value."""
        (ratio, gap), w, r = _float_ratio(self.epsilon), float(self.width), float(self.flat)
        # level l >= 1 holds magnitudes r + (l-1) w .. r + l w - 1, each twice
        rising = w * r + w * (w - 1) / 2
        sums = r * (r - 1) + 2 * ratio / gap * (rising + w * w * ratio / gap)
        return sums / float(self._total().high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(Additive):
    """Add noise whose probability falls in stairs as wide as the distance between neighbours.

    For one number it has the least expected error of all epsilon-private noise. At distance 1, or at a small
    epsilon, it is the geometric mechanism; the larger both are, the more it gains.

    Guarantee: pure DP, epsilon times the largest number of stairs a coordinate can cross, ceil(d / width),
    added over the coordinates that change.
    Proof: docs/explanation/staircase.md#guarantee (Geng and Viswanath, 2014).

    >>> stairs = Staircase.at(epsilon=Fraction(2), distance=Distance(l0=1, linf=Fraction(10)))
    >>> stairs.width, stairs.flat, stairs.bound(Distance(l0=1, linf=Fraction(10))).epsilon
    (10, 3, Fraction(2, 1))
    """

    name: ClassVar[str] = "staircase"
    epsilon: Fraction
    width: int
    flat: int

    def __post_init__(self) -> None:
        Stairs(epsilon=self.epsilon, width=self.width, flat=self.flat)  # checks all three
        set_fields(self, epsilon=Fraction(self.epsilon))

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Staircase:
        """The staircase with the least expected absolute error for one number at this distance."""
        if distance.l0 != 1 or distance.linf is None or distance.linf < 1:
            raise InvalidParameter(
                "distance", distance, "a staircase is for one number: Distance(l0=1, linf=Fraction(10))"
            )
        epsilon, width = price("epsilon", epsilon), math.floor(distance.linf)
        guess = width / (1 + math.exp(min(float(epsilon) / 2, 600.0)))  # best on the reals; then look around
        near = range(max(1, math.floor(guess) - 1), min(width, math.ceil(guess) + 2) + 1)
        best = min(near, key=lambda flat: Stairs(epsilon=epsilon, width=width, flat=flat).mean_error)
        return cls(epsilon=epsilon, width=width, flat=best)

    @property
    def noise(self) -> Stairs:
        return Stairs(epsilon=self.epsilon, width=self.width, flat=self.flat)

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        stairs: list[Fraction] = []
        if distance.l0 is not None and distance.linf is not None:
            stairs.append(distance.l0 * Fraction(math.ceil(distance.linf / self.width)))
        if distance.l0 is not None and distance.l1 is not None:
            stairs.append(distance.l0 + distance.l1 / self.width)  # ceil(x) < x + 1
        if distance.l1 is not None:
            stairs.append(distance.l1)  # ceil(d / width) <= d for whole d
        return Bound(epsilon=min(stairs) * self.epsilon if stairs else None)


# Noise for the largest coordinate ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CubeLaw(Law[Vector]):
    """Integer vectors z with probability proportional to exp(-max |z_i - answer_i| / scale)."""

    scale: Fraction
    answer: Vector = field(repr=False)

    def draw(self, coins: Coins) -> Vector:
        radius = samplers.loop(self.attempt_radius, coins)
        return tuple(exact + coins.below(2 * radius + 1) - radius for exact in self.answer)

    def attempt_radius(self, coins: Coins) -> int | None:
        """m with probability proportional to (2m+1)^k a^m: a sum of k+1 geometric numbers, thinned.

        The sum has mass proportional to (m+1)(m+2)...(m+k) a^m; keeping it with probability
        (m + 1/2)^k / ((m+1)...(m+k)), one factor at a time, leaves (2m+1)^k a^m.
        """
        m = sum(samplers.geometric(self.scale, coins) for _ in range(len(self.answer) + 1))
        kept = all(coins.chance(2 * m + 1, 2 * (m + i)) for i in range(1, len(self.answer) + 1))
        return m if kept else None

    def log_mass(self, y: Vector) -> Interval:
        reach = max((abs(b - a) for a, b in zip(self.answer, y, strict=True)), default=0)
        return -numbers.log_of(_cube_total(self.scale, len(self.answer))) - reach / self.scale


@lru_cache(maxsize=64)
def _cube_total(scale: Fraction, k: int) -> Interval:
    """The sum of a^max|z| over integer vectors: (1-a) times the sum of (2m+1)^k a^m over m >= 0.

    That sum is P(a) / (1-a)^(k+1) with P a polynomial whose coefficients are those of (1-a)^(k+1) times the
    series, cut at a^k: the coefficients beyond vanish (they are (k+1)-th differences of a k-th power).
    """
    total = numbers.Interval(Fraction(0), Fraction(0))
    for n in range(k + 1):
        factor = sum((-1) ** j * math.comb(k + 1, j) * (2 * (n - j) + 1) ** k for j in range(n + 1))
        total = (total + numbers.exp(-n / scale) * factor).narrowed()
    for _ in range(k):
        total = (total / numbers.one_minus_exp(1 / scale)).narrowed()
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube(Mechanism[Vector, Vector]):
    """Add one draw of noise that is even on every cube around the answer, to all coordinates together.

    For vectors of which every coordinate may move (by up to linf each), its largest error is smaller by a
    factor of about ln k than that of k independent geometric draws, and its mean error by 2.

    Guarantee: pure DP, epsilon = linf / scale, at every distance with a proved linf.
    Proof: docs/explanation/cube.md#guarantee (Hardt and Talwar, 2010; Steinke and Ullman, 2016).

    >>> Cube(scale=Fraction(10)).bound(Distance(linf=Fraction(1))).epsilon
    Fraction(1, 10)
    """

    name: ClassVar[str] = "cube"
    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))

    def law(self, answer: Vector) -> CubeLaw:
        # public: the number of coordinates and the scale alone decide
        if len(answer) > 8 * self.scale:
            raise InvalidParameter(
                "scale",
                self.scale,
                f"{len(answer)} coordinates need a scale of at least an eighth of that: use a finer grid",
            )
        return CubeLaw(self.scale, whole_vector(answer))

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        return Bound(epsilon=None if distance.linf is None else distance.linf / self.scale)
