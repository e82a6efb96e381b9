"""Choosing one of many candidates by a private score, when adding noise to the answer makes no sense.

All of them draw with coins that fall with probability exp(-x) for rational x: no weight is ever a float, so
the probabilities are the textbook's exactly. Scores are integers or fractions; a million candidates are fine.

It rests on McSherry and Talwar (2007) for the exponential mechanism, McKenna and Sheldon (2020) for permute
and flip, Dwork and Roth (2014, claim 3.9) for noisy maxima, Durfee and Rogers (2019) for the top k from one
draw, Cesar and Rogers (2021) for the zCDP of the exponential mechanism.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.exact import bulk, numbers, samplers
from sfumato.exact.numbers import Interval
from sfumato.mechanisms.arguments import listed, price, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import BULK_PAYS, ForIntegers, Law, Mechanism, Vector, log_above_zero
from sfumato.mechanisms.noise import DiscreteLaplace, needed

if TYPE_CHECKING:
    from typing import Self

    from sfumato.exact.bulk import Ints
    from sfumato.exact.coins import Coins

Scores = Sequence[int | Fraction] | NDArray[np.int64]
FEW = 16  # attempts one by one, before they are made in blocks
BLOCK = 1 << 16  # the largest block
TABLE = 1 << 22  # candidates of several laws that are held at once
WINDOW = Fraction(1, 1 << 60)  # tail left out, and accounted for, when a noisy maximum's mass is bounded


@dataclass(frozen=True)
class Costs:
    """How far each candidate lies below the best, in units of the scale: `numerators` / `denominator`."""

    numerators: Ints = field(repr=False)
    denominator: int

    @classmethod
    def of(cls, scores: Scores, scale: Fraction) -> Costs:
        """The costs of scores. Nothing here depends on how fine the scores are: exp(-x) is exact for any."""
        listed(scores, "scores")  # type: ignore[arg-type]  # fractions too
        if len(scores) == 0:
            raise no_candidates()
        if isinstance(scores, np.ndarray):
            if scores.dtype.kind not in "iu" or scores.ndim != 1:
                shape = f"{scores.ndim}-dimensional array of {scores.dtype}"
                raise InvalidParameter("scores", shape, "give a list of integers or Fractions")
            numbers_: Ints = scores.astype(np.object_) if _spread(scores) else scores.astype(np.int64)
            unit = 1
        else:
            fractions = [_exact_score(score) for score in scores]
            unit = math.lcm(*{score.denominator for score in fractions})
            scaled = [score.numerator * (unit // score.denominator) for score in fractions]
            wide = max(map(abs, scaled)) >= 1 << 62
            numbers_ = np.array(scaled, dtype=np.object_) if wide else np.array(scaled, dtype=np.int64)
        gaps: Ints = numbers_.max() - numbers_
        # gap / (unit scale) = gap q / (unit p) for scale p/q
        factor, denominator = scale.denominator, unit * scale.numerator
        if factor >= 1 << 62 or int(gaps.max()) * factor >= 1 << 62:
            gaps = gaps.astype(np.object_)
        return cls(gaps * factor, denominator)

    def __len__(self) -> int:
        return len(self.numerators)

    def flips(self, chosen: NDArray[np.int64], coins: Coins) -> NDArray[np.bool_]:
        """A coin for each of these candidates that falls with probability exp(-cost)."""
        if len(chosen) < BULK_PAYS:
            picked = self.numerators[chosen].tolist()
            flipped = [samplers.bernoulli_exp(n, self.denominator, coins) for n in picked]
            return np.array(flipped, dtype=np.bool_)
        return bulk.bernoulli_exp(self.numerators[chosen], self.denominator, coins)

    def chance(self, i: int) -> Interval:
        """exp(-cost) of candidate i."""
        return numbers.exp(-self.cost(i))

    def cost(self, i: int) -> Fraction:
        """The cost of candidate i."""
        _check_candidate(i, len(self))
        return Fraction(int(self.numerators[i]), self.denominator)

    @cached_property
    def total(self) -> Interval:
        """The sum of exp(-cost) over all candidates."""
        values, counts = np.unique(self.numerators, return_counts=True)
        parts = (
            numbers.exp(-Fraction(int(v), self.denominator)) * int(c)
            for v, c in zip(values, counts, strict=True)
        )
        return sum(parts, start=numbers.ZERO).narrowed()

    def without(self, i: int) -> Costs:
        """The costs when candidate i is gone: the best of the others costs nothing."""
        rest = np.delete(self.numerators, i)
        return Costs(rest - rest.min(), self.denominator)


def no_candidates() -> InvalidParameter:
    """The refusal of an empty list."""
    return InvalidParameter("scores", "no candidates", "give a score for each of at least one candidate")


def _exact_score(score: object) -> Fraction | int:
    if isinstance(score, Fraction):
        return Fraction(int(score.numerator), int(score.denominator))  # it may be made of numpy's integers
    try:
        return operator.index(score)  # type: ignore[arg-type]  # a whole number of any kind, or a refusal
    except TypeError:
        raise InvalidParameter("scores", "other than exact numbers", "give integers or Fractions") from None


def _check_candidate(i: int, size: int) -> None:
    if not 0 <= i < size:
        raise InvalidParameter("y", i, f"candidates are numbered 0 to {size - 1}")


def _spread(scores: NDArray[np.int64]) -> bool:
    return bool(int(scores.max()) - int(scores.min()) >= 1 << 62 or int(scores.max()) >= 1 << 62)


# The laws ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Softmax(Law[int]):
    """Candidate i with probability proportional to exp(-cost of i)."""

    costs: Costs

    def draw(self, coins: Coins) -> int:
        for _ in range(FEW):
            if (found := self.attempt(coins)) is not None:
                return found
        block = BULK_PAYS
        while True:  # the same attempts, many at a time: the first that succeeds
            tried = bulk.below(len(self.costs), block, coins)
            kept = np.flatnonzero(self.costs.flips(tried, coins))
            if len(kept):
                return int(tried[kept[0]])
            block = min(8 * block, BLOCK)

    def attempt(self, coins: Coins) -> int | None:
        """Any candidate, kept with probability exp(-cost)."""
        tried = coins.below(len(self.costs))
        kept = samplers.bernoulli_exp(int(self.costs.numerators[tried]), self.costs.denominator, coins)
        return tried if kept else None

    def log_mass(self, y: int) -> Interval:
        return -numbers.log_of(self.costs.total) - self.costs.cost(y)


def softmax_draws(laws: Sequence[Softmax], coins: Coins) -> list[int]:
    """One candidate from each law, independently: the same attempts, of all laws at once."""
    found = [0] * len(laws)
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for i, law in enumerate(laws):
        costs = law.costs
        is_small = costs.numerators.dtype == np.int64 and costs.denominator < 1 << 62
        alike.setdefault((len(costs), costs.denominator, is_small), []).append(i)
    for (size, denominator, is_small), those in alike.items():
        if not is_small or len(those) < FEW:
            for i in those:
                found[i] = laws[i].draw(coins)
            continue
        step = max(1, TABLE // size)
        for start in range(0, len(those), step):
            some = those[start : start + step]
            together = _drawn_together([laws[i] for i in some], size, denominator, coins)
            for i, drawn in zip(some, together, strict=True):
                found[i] = drawn
    return found


def _drawn_together(laws: Sequence[Softmax], size: int, denominator: int, coins: Coins) -> list[int]:
    """Rounds of attempts for all that have none yet; of each, the first that succeeds."""
    numerators: NDArray[np.int64] = np.array([law.costs.numerators for law in laws], dtype=np.int64)
    found = np.zeros(len(laws), dtype=np.int64)
    left, block = np.arange(len(laws)), BULK_PAYS
    while len(left):
        tried = bulk.below(size, len(left) * block, coins).reshape(len(left), block)
        asked = numerators[left[:, None], tried]
        kept = bulk.bernoulli_exp(asked.reshape(-1), denominator, coins).reshape(asked.shape)
        done = kept.any(axis=1)
        found[left[done]] = tried[done, kept.argmax(axis=1)[done]]
        left = left[~done]
        block = min(4 * block, max(BULK_PAYS, BLOCK // max(len(left), 1)))
    return [int(each) for each in found]


@dataclass(frozen=True, slots=True)
class Flipped(Law[int]):
    """One of the candidates whose coin exp(-cost) fell, evenly.

    In a random order, take the first whose coin falls: since the order has nothing to do with the coins, that
    is any of those whose coins fall, with equal chance. The best one's coin always falls.
    """

    costs: Costs

    def draw(self, coins: Coins) -> int:
        fell = np.flatnonzero(self.costs.flips(np.arange(len(self.costs)), coins))
        return int(fell[coins.below(len(fell))])

    def log_mass(self, y: int) -> Interval:
        """P(its coin falls) times the mean of 1 / (1 + how many others fell); quadratic in the candidates."""
        others = [Interval(Fraction(1), Fraction(1))]  # others[n]: the probability that n of the others fell
        for j in range(len(self.costs)):
            if j != y:
                falls = self.costs.chance(j)
                stays = 1 - falls
                raised = [numbers.ZERO, *(p * falls for p in others)]
                others = [
                    (a + b * stays).narrowed() for a, b in zip(raised, [*others, numbers.ZERO], strict=True)
                ]
        mean = sum((p / (n + 1) for n, p in enumerate(others)), start=numbers.ZERO)
        return numbers.log_of(mean.narrowed()) - self.costs.cost(y)


@dataclass(frozen=True, slots=True)
class Noisiest(Law[int]):
    """The candidate whose score plus noise is the largest; of equal ones the first."""

    noise: DiscreteLaplace
    scores: Vector = field(repr=False)

    def draw(self, coins: Coins) -> int:
        if len(self.scores) < BULK_PAYS:
            noisy = [score + self.noise.draw(coins) for score in self.scores]
            return noisy.index(max(noisy))
        noise = self.noise.draws(coins, len(self.scores))
        wide = (
            noise.dtype == np.object_
            or max(map(abs, self.scores)) >= 1 << 61
            or int(abs(noise).max()) >= 1 << 61
        )
        kind = np.object_ if wide else np.int64
        return int(np.argmax(np.array(self.scores, dtype=kind) + noise.astype(kind)))

    def log_mass(self, y: int) -> Interval:
        """The sum over its noise k of P(k) times the chance that every other one stays below.

        It takes a time that grows with the scale and with the number of candidates.
        """
        _check_candidate(y, len(self.scores))
        low = high = Fraction(0)
        for k in self.noise.window(WINDOW):
            mass = self.noise.cdf(k) - self.noise.cdf(k - 1)
            for j, score in enumerate(self.scores):
                if j != y:
                    mass = (mass * self.noise.cdf(k + self.scores[y] - score - (j < y))).narrowed()
            low, high = low + max(mass.low, Fraction(0)), high + mass.high
        return log_above_zero(Interval(low, high + WINDOW))


@dataclass(frozen=True, slots=True)
class Peeled(Law[Vector]):
    """`count` different candidates in order: each time the softmax law among those that are left."""

    costs: Costs
    count: int

    def draw(self, coins: Coins) -> Vector:
        left, costs = np.arange(len(self.costs)), self.costs
        chosen: list[int] = []
        while len(chosen) < self.count:
            i = Softmax(costs).draw(coins)
            chosen.append(int(left[i]))
            if len(chosen) < self.count:
                left, costs = np.delete(left, i), costs.without(i)
        return tuple(chosen)

    def log_mass(self, y: Vector) -> Interval:
        left, costs, total = list(range(len(self.costs))), self.costs, numbers.log(1)
        if len(y) != self.count or len(set(y)) != len(y) or not set(y) <= set(left):
            raise InvalidParameter("y", y, f"an outcome is {self.count} different candidates")
        for n, chosen in enumerate(y):
            i = left.index(chosen)
            total = total + Softmax(costs).log_mass(i)
            if n + 1 < len(y):
                del left[i]
                costs = costs.without(i)
        return total


# The mechanisms ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Mechanism[Scores, int]):
    """A candidate's number, chosen by scores that neighbours change by at most linf each.

    The price is halved where a distance is monotone: all scores move the same way, as counts do when a
    person comes or goes.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Self:
        """The one that costs `epsilon` at this distance.

        >>> Exponential.at(epsilon=Fraction(1, 2), distance=Distance(linf=Fraction(1))).scale
        Fraction(4, 1)
        """
        return cls(scale=_scale(epsilon, distance))

    @abstractmethod
    def law(self, answer: Scores) -> Law[int]:
        """The law of the chosen candidate."""

    def _bound(self, distance: Distance) -> Bound:
        return Bound(epsilon=_epsilon(self.scale, distance))


def _epsilon(scale: Fraction, distance: Distance) -> Fraction | None:
    return None if distance.linf is None else (1 if distance.monotone else 2) * distance.linf / scale


def _scale(epsilon: Fraction, distance: Distance) -> Fraction:
    return (1 if distance.monotone else 2) * needed("linf", distance.linf) / price("epsilon", epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(Selection):
    """Candidate i with probability proportional to exp(score_i / scale).

    Guarantee: pure DP, epsilon = 2 linf / scale (half of it if monotone), and epsilon^2/8-zCDP.
    Proof: docs/explanation/selection.md#the-exponential-mechanism.

    >>> ballot = Exponential.at(epsilon=Fraction(5), distance=Distance(linf=Fraction(1))).law([4, 3, 3])
    >>> [round(float(numbers.exp(ballot.log_mass(i).low).low), 6) for i in range(3)]
    [0.858981, 0.070509, 0.070509]
    """

    name: ClassVar[str] = "exponential"

    def law(self, answer: Scores) -> Softmax:
        return Softmax(Costs.of(answer, self.scale))

    def _bound(self, distance: Distance) -> Bound:
        epsilon = _epsilon(self.scale, distance)
        return Bound(epsilon=epsilon, rho=_range_rho(epsilon))


def _range_rho(epsilon: Fraction | None) -> Fraction | None:
    """The losses of all outputs lie within a range of epsilon: epsilon^2/8-zCDP (Cesar and Rogers, 2021)."""
    return None if epsilon is None else epsilon**2 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(Selection):
    """In random order, take the first candidate whose coin exp(-(best - score) / scale) falls.

    Its expected score is never below that of the exponential mechanism at the same epsilon. It is the same
    as the largest score plus exponential noise (Ding et al., 2021).

    Guarantee: pure DP, epsilon = 2 linf / scale (half of it if monotone).
    Proof: docs/explanation/selection.md#permute-and-flip.
    """

    name: ClassVar[str] = "permute and flip"

    def law(self, answer: Scores) -> Flipped:
        return Flipped(Costs.of(answer, self.scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax(ForIntegers, Selection):
    """The candidate whose integer score plus geometric noise is the largest; of equal ones the first.

    Only the winner's number is released, so its price is that of one count, whatever the number of
    candidates and however many of them a person supports.

    Guarantee: pure DP, epsilon = 2 linf / scale (half of it if monotone).
    Proof: docs/explanation/selection.md#report-noisy-max.
    """

    name: ClassVar[str] = "noisy max"

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance) -> Self:
        """The one that costs `epsilon` at this distance, which is that of whole numbers."""
        return cls(scale=_scale(epsilon, distance.for_integers()))

    def law(self, answer: Scores) -> Noisiest:
        # whole numbers only: on a grid that depends on the scores, ties and so the law would depend on it too
        scores = whole_vector(answer, "scores")  # type: ignore[arg-type]  # checked there
        if not scores:
            raise no_candidates()
        return Noisiest(DiscreteLaplace(scale=self.scale), scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Mechanism[Scores, Vector]):
    """The `count` best candidates in order, as if Gumbel noise had been added once and the largest taken.

    Guarantee: pure DP, epsilon = count times that of one choice, 2 linf / scale; zCDP, count times its eighth
    of a square. Proof: docs/explanation/selection.md#top-k-in-one-shot (Durfee and Rogers, 2019).

    >>> top = TopK.at(count=3, epsilon=Fraction(1), distance=Distance(linf=Fraction(1)))
    >>> top.scale, top.bound(Distance(linf=Fraction(1))).rho
    (Fraction(6, 1), Fraction(1, 24))
    """

    name: ClassVar[str] = "top k"
    scale: Fraction
    count: int

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale))
        whole("count", self.count, least=1)

    @classmethod
    def at(cls, *, count: int, epsilon: Fraction, distance: Distance) -> TopK:
        """The one that costs `epsilon` in all at this distance."""
        return cls(scale=_scale(epsilon, distance) * whole("count", count, least=1), count=count)

    def law(self, answer: Scores) -> Peeled:
        if len(answer) < self.count:
            raise InvalidParameter("count", self.count, f"there are only {len(answer)} candidates")
        return Peeled(Costs.of(answer, self.scale), self.count)

    def _bound(self, distance: Distance) -> Bound:
        each = _epsilon(self.scale, distance)
        rho = _range_rho(each)
        return Bound(
            epsilon=None if each is None else each * self.count, rho=None if rho is None else rho * self.count
        )
