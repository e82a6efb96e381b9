"""Pairs of laws as atoms: losses and how much mass has them, in floats that err to the safe side.

A pair (P, Q) that dominates a mechanism is written as finitely many losses l with the mass that P puts there.
The delta of a pair at epsilon is the sum of p (1 - e^(epsilon - l)) over losses l above epsilon. It only
grows when a mass or a loss grows, before and after composition; so whoever rounds both up stays above the
truth, and that is the whole proof of this room's arithmetic.

Wide noise is first made coarse. Geometric noise of scale s is m times geometric noise of scale s/m plus an
independent rest, so a shift by m d steps tells no more than a shift by d steps tells at scale s/m. Gaussian
noise almost is such a sum, and the almost is bounded below. Proofs: docs/explanation/privacy-loss.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import gaussian, numbers
from sfumato.mechanisms import Bound
from sfumato.mechanisms.arguments import LARGEST_EPSILON
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FINE = 1 << 12  # atoms of a coarse geometric pair; standard deviations of a coarse Gaussian in steps, at most
WIDEST = 1 << 15  # standard deviations in steps up to which a Gaussian that cannot be coarse is written out
REACH = Fraction(29, 2)  # standard deviations that a Gaussian pair is written out to: e^-105 lies beyond
ROUNDING = 2.0**-40  # logarithms of masses: at most 2^11 in size, known to a few units of 2^-53 of it
NUDGE = 2.0**-46  # losses: at most a hundred roundings of 2^-53
LEAST = 1e-290  # what is lost is never less: a number that underflows must not vanish


@dataclass(frozen=True, eq=False)
class Atoms:
    """Losses, and upper bounds on the masses that P puts there; `lost` has no bounded loss at all.

    Masses are kept as logarithms: they may be far below what a float can hold, and still matter under a tilt.
    """

    losses: Floats
    logs: Floats
    lost: float = 0.0

    @classmethod
    def rounded_up(cls, losses: Floats, logs: Floats, lost: float = 0.0) -> Atoms:
        """From floats that are right to within the stated roundings."""
        return cls(losses + np.abs(losses) * NUDGE, logs + ROUNDING, lost * (1 + ROUNDING))


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair that is its own mirror image: exchanging P and Q turns every loss round.

    `losses` and the logarithms of both masses, without rounding up; `lost` is what P has beyond the last of
    them, and Q before the first. Losses are raised by `more`, in either order.
    """

    losses: Floats
    above: Floats  # P
    below: Floats  # Q
    lost: float = 0.0
    more: float = 0.0

    def atoms(self) -> Atoms:
        """The pair as it is."""
        return Atoms.rounded_up(self.losses + self.more, self._with_lost(self.above), self.lost)

    def _with_lost(self, logs: Floats) -> Floats:
        """Either law has less than `lost` before the first loss; it is put there."""
        raised = logs.copy()
        if self.lost:
            raised[0] = np.logaddexp(raised[0], math.log(self.lost))
        return raised

    def _mixed(self, rate: float) -> Floats:
        mixed: Floats = np.logaddexp(self.below + math.log1p(-rate), self.above + math.log(rate))
        return mixed

    def sampled(self, rate: float) -> tuple[Atoms, Atoms]:
        """The mixture (1 - rate) Q + rate P against Q, and Q against the mixture.

        Everybody takes part with probability `rate`, independently, and comes or goes: Zhu, Dong and Wang
        (2022), theorem 11.
        """
        losses, wrong = _log_mixture(self.losses + self.more, rate), np.abs(self.losses) * 2.0**-50
        forward = Atoms.rounded_up(losses + wrong, self._with_lost(self._mixed(rate)), self.lost)
        back = wrong - _log_mixture(self.losses - self.more, rate)
        if not self.lost:
            return forward, Atoms.rounded_up(back, self.below)
        # what Q has before the first loss meets at least 1 - rate of itself in the mixture
        more, most = np.append(self.below, math.log(self.lost)), np.append(back, -math.log1p(-rate))
        return forward, Atoms.rounded_up(most, more)

    def sampled_fixed(self, rate: float) -> Atoms:
        """A sample of a fixed size, `rate` of all, without replacement, and one person is replaced.

        For epsilon >= 0 the mixture against Q, below by symmetry: Zhu, Dong and Wang (2022), theorem 11.
        What is left of the mass has no loss.
        """
        losses = _log_mixture(self.losses + self.more, rate) + np.abs(self.losses) * 2.0**-50
        there = losses > 0
        mixed, up = self._mixed(rate)[there], losses[there]
        down = mixed - up
        none = max(0.0, 1 - float(np.exp(mixed).sum() + np.exp(down).sum()) - self.lost)
        none += 2 * ROUNDING + 4 * self.more  # what was raised above is not taken from it
        return Atoms.rounded_up(
            np.concatenate([-up, [0.0], up]), np.concatenate([down, [math.log(none)], mixed]), self.lost
        )


def _log_mixture(losses: Floats, rate: float) -> Floats:
    """ln(1 + rate (e^l - 1)), where e^l may be beyond a float."""
    rest = 1 - rate
    near = np.log1p(rate * np.expm1(np.minimum(losses, 30.0)))
    if rate > 0.5:  # towards -rate the one and the e^l - 1 cancel
        near = np.where(losses < -0.5, np.log(rest + rate * np.exp(np.minimum(losses, 0.0))), near)
    far = losses + math.log(rate) + np.log1p(rest / rate * np.exp(-np.maximum(losses, 0.0)))
    mixed: Floats = np.where(losses > 30, far, near)
    return mixed


def response(epsilon: Fraction) -> Pair:
    """Randomized response: of all that is proved by a pure epsilon, the worst (Kairouz, Oh, Viswanath, 2015).

    >>> np.exp(response(Fraction(1)).above)
    array([0.26894142, 0.73105858])
    """
    size = float(epsilon)
    large = -math.log1p(math.exp(-size))
    logs = np.array([large - size, large])
    return Pair(np.array([-size, size]), logs, logs[::-1].copy())


@lru_cache(maxsize=16)
def shifted(noise: Hashable, steps: int) -> Pair:
    """Noise moved by this many steps against noise that is not."""
    if isinstance(noise, DiscreteLaplace):
        return _laplace(noise.scale, steps)
    assert isinstance(noise, DiscreteGaussian)  # no other gives shifts in its bound
    how = written(noise.sigma_squared, steps)
    assert how is not None  # what cannot be written out has become its rho
    return _gaussian(*how)


def _laplace(scale: Fraction, steps: int) -> Pair:
    """Y + d against Y: the loss is (2 y - d) / scale between 0 and d, and stays as it is outside.

    P puts a^d/(1+a) at or below 0, 1/(1+a) at or above d, and (1-a)/(1+a) a^(d-y) on each y between.
    """
    times, steps = _coarse(steps, FINE)
    rate = float(times / scale)
    y = np.arange(steps + 1, dtype=np.float64)
    above = -rate * (steps - y) - math.log1p(math.exp(-rate))
    above[1:-1] += math.log(-math.expm1(-rate))
    return Pair((2 * y - steps) * rate, above, above[::-1].copy())


def written(sigma_squared: Fraction, steps: int) -> tuple[Fraction, int, float] | None:
    """How a Gaussian pair is written out: sigma^2 and steps, coarse or as they are, and what is added to
    losses.

    None if that would take too many atoms: of such a pair its rho is all that is used.
    """
    if steps**2 > 2000 * sigma_squared:
        return None
    if sigma_squared <= FINE**2:
        return sigma_squared, steps, 0.0
    wanted = math.isqrt(int(sigma_squared)) // (FINE // 2)  # steps that become one
    times, fewer = _coarse(steps, max(1, -(-steps // wanted)))
    is_fine = sigma_squared > times**2 * FINE**2  # one step of the shift is finer than what is written out
    if sigma_squared <= WIDEST**2 and (is_fine or times * fewer > steps * (1 + Fraction(1, 10**5))):
        return sigma_squared, steps, 0.0
    if is_fine:
        return None
    coarse, more = _coarse_variance(sigma_squared, times)
    return coarse, fewer, more


def _gaussian(sigma_squared: Fraction, steps: int, more: float) -> Pair:
    """Y + d against Y: the loss is (2 y - d) d / (2 sigma^2)."""
    reach = math.isqrt(int(REACH**2 * sigma_squared)) + 1
    law, twice = gaussian.sums(sigma_squared), float(2 * sigma_squared)
    y = np.arange(-reach, reach + steps + 1, dtype=np.float64)
    total = math.log(law.total.low)
    lost = float((law.beyond(reach + 1) / law.total).high)
    above, below = -((y - steps) ** 2) / twice - total, -(y**2) / twice - total
    return Pair((2 * y - steps) * steps / twice, above, below, lost + LEAST, more)


@lru_cache(maxsize=16)
def turned(squared: Fraction, times: int) -> Pair:
    """The pair of so many turned vectors: of a normal shift, which a shift on a fine grid dominates.

    As for coarse noise: m times noise of (a/m)^2 plus normal noise of 2 m^2 is normal but for 1 +- 1.1e-16.
    Where that takes too many atoms it is its rho, which is at least the sum of the rhos of the vectors.
    """
    steps = max(1, math.isqrt(int(squared * FINE**2)))
    if squared > 2000 or squared * WIDEST**2 < 1:
        return curve(squared / 2)
    more = float(numbers.round_up((times + 1) * gaussian.ALMOST, 50))
    pair = _gaussian(numbers.round_down(steps**2 / squared - 2, 53), steps, more)
    return replace(pair, above=pair.above + more, below=pair.below + more, lost=pair.lost * (1 + 2 * more))


def _coarse(steps: int, most: int) -> tuple[int, int]:
    """m and d, d at most `most`, with m d the smallest found that reaches `steps`; tried: d above most/2."""
    if steps <= most:
        return 1, steps
    tried = ((-(-steps // d), d) for d in range(most, most // 2, -1))
    return min(tried, key=lambda pair: pair[0] * pair[1])


def _coarse_variance(sigma_squared: Fraction, times: int) -> tuple[Fraction, float]:
    """The sigma^2 of the noise on every m-th integer, and what its losses must be raised by.

    sigma^2 = a^2 + t^2 with t^2 = 2 m^2: m times noise of (a/m)^2 plus noise of t^2 is the wide one up to
    factors within 1 +- 2.1 exp(-2 pi^2 s^2 / m^2), where s^2 = a^2 t^2 / sigma^2 > 1.9 m^2 (Poisson's sum).
    That is below 1.1e-16, so masses change by less than their rounding, and losses by less than 1e-15.
    """
    rest = 2 * Fraction(times) ** 2
    assert sigma_squared > 100 * rest  # so a^2/sigma^2 > 0.99
    return numbers.round_down((sigma_squared - rest) / times**2, 53), 1e-14


def curve(rho: Fraction) -> Pair:
    """A pair that dominates everything that is rho-zCDP, by the deltas that follow from rho."""
    if rho > LARGEST_EPSILON:
        return Pair(np.zeros(1), np.full(1, math.log(LEAST)), np.full(1, math.log(LEAST)), 1.0)
    rho = max(rho, Fraction(1, 1 << 200))
    bound = Bound(rho=rho)
    width = Fraction(22 * math.sqrt(rho)) + rho  # there delta is below e^-110
    losses = [width * i / 320 for i in range(1, 321)]
    return dotted([(epsilon, bound.delta_at(epsilon)) for epsilon in losses])


def dotted(deltas: Iterable[tuple[Fraction, Fraction]]) -> Pair:
    """The pair whose delta is at least the given one at each positive epsilon given, and in both orders.

    Delta is convex in x = e^epsilon, so between two points it lies below the chord; and the largest convex
    curve below the points lies above it too (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022). In the
    other order delta(1/x) = 1 - (1 - delta(x)) / x.
    """
    points = {Fraction(0): Fraction(1)}
    for epsilon, delta in deltas:
        x = numbers.round_up(numbers.exp(epsilon).high, 64)  # at x the delta is no more than at e^epsilon
        points[x] = min(delta, Fraction(1))
        points[1 / x] = 1 - (1 - points[x]) / x
    hull: list[tuple[Fraction, Fraction]] = []
    for x, delta in sorted(points.items()):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (x, delta)):
            hull.pop()
        hull.append((x, delta))
    lost = hull[-1][1]
    slopes = [*itertools.starmap(_slope, itertools.pairwise(hull)), Fraction(0)]
    corners = [
        (x, after - before)
        for (x, _), (before, after) in zip(hull[1:], itertools.pairwise(slopes), strict=True)
    ]
    losses = np.array([float(numbers.log(x).high) for x, _ in corners])
    below = np.array([float(numbers.log(mass).high) for _, mass in corners])
    return Pair(losses, losses + below, below, float(lost) + LEAST)


def _slope(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> Fraction:
    return (b[1] - a[1]) / (b[0] - a[0])


def as_rate(rate: Fraction) -> float:
    """A sampling rate as a float, rounded up."""
    if not 0 < rate < 1:
        raise InvalidParameter("rate", rate, "give the share of people who take part, such as 1/100")
    return min(max(math.nextafter(float(rate), 1.0), 1e-100), 1 - 2.0**-50)
