"""What an attacker may gain in guessing: from epsilon to a sentence, and back.

A secret x has a prior pi on a space with a distance d. Whoever sees the releases knows everything else, and
is right about x if the guess falls into the goal B = g(x), such as "the age to within 2 years". Under
epsilon d-privacy the likelihood L of whatever was released satisfies L(z) <= exp(epsilon d(z, z')) L(z')
for all z and z'. So the posterior of the goal, the sum of pi L over B divided by that over all values, is
bounded, whatever the mechanism and whatever the output. With A for the sum over B and N for that outside:

* **simplified**: L differs by a factor of at most exp(epsilon R), R being the largest distance of two
  values. With p = pi(B) the posterior is at most 1 / (1 + exp(-epsilon R) (1 - p)/p). It needs p and R
  alone.
* **shell**: L(z) >= L(b) exp(-epsilon (d(x, z) + r)) for every b in B, whose radius is r. So N is at least
  A/p times the sum outside of pi(z) exp(-epsilon (d(x, z) + r)). It needs the prior by its distance from x
  alone.
* **precise**: L(b) <= exp(epsilon d(b, z)) L(z), summed over b: A <= L(z) G(z), where G(z) is the sum over
  B of pi(b) exp(epsilon d(b, z)). So N is at least A times the sum outside of pi(z)/G(z).
* **tight**: the largest posterior over all such L, which some mechanism attains: a linear program. For an
  interval of numbers the tents are the best: L(z) = exp(-epsilon |c - z|) with c in B.

Proof of the last. Let l and r be the ends of B. Left of it L(z) >= L(l) exp(-epsilon (l - z)), right of it
alike; within, L(z) <= min(L(l) exp(epsilon (z - l)), L(r) exp(epsilon (r - z))). Put that minimum in the
place of L everywhere: it keeps the condition, it is no smaller inside and no larger outside. It is a tent
whose top c lies between l and r. If c lies between two values k and k + 1, the sums are mixtures of those
up to k and those from k + 1 on, so the posterior is monotone in the mixing weight: c = k or c = k + 1 is at
least as good. QED

In the ordinary distance, in which any two values are one apart, simplified and tight are the same. The
claim that nothing is better than the precise bound is false: `about` shows it.

**Two prices.** Some questions protect a value by its distance d, some only as a whole: all of them together
are private in the distance a [x != x'] + b d. The tight bound for that is the simplified one, at reach a,
of the tight one for b d alone: simplified(tight, a), for every goal and space. Proof. Let M be the least
function above L with M(z) <= exp(b d(z, z')) M(z'): the largest of L(z') exp(-b d(z, z')) over all z'. Then
L <= M <= e^a L, so A is at most that of M and N is at least e^-a that of M. Equality: take the best M and
divide it by e^a outside of the goal. QED

Everything is rounded outward: a posterior up, an epsilon down.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.utility.programs import ULP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sfumato.mechanisms import Bound

Floats = NDArray[np.float64]
Real = TypeVar("Real", float, NDArray[np.float64])
Places = NDArray[np.int64]
ROOM = 1e-9  # by which floats are moved outward; far above what a million additions round
TOP = 1024.0  # e^-TOP is nothing
BEYOND = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)  # above an epsilon, where delta is small
STEEP = 50.0  # per step: from there on few steps matter
LOST = 1e-12  # more than what sums of a million floats round, in all
CLOSE = 5e-8  # advantages that differ by less are the same
FEW = 12  # steps of a goal to either side, up to which every pair is looked at
FIRST, MOST_BLOCKS = 2 * 10**5, 10**6  # blocks of a search: at the beginning, and at most
MOST_VALUES = 1 << 24  # of a column


# By two numbers ------------------------------------------------------------


def simplified(chance: float, reach: float) -> float:
    """The posterior of a goal of this prior probability is at most this, at epsilon R = `reach`; rounded up.

    >>> round(simplified(0.25, math.log(9 / 7)), 6)
    0.3
    """
    p = _chance("chance", chance)
    if p in (0.0, 1.0) or reach == 0:
        return p
    return min(rounded_up(p / (p + math.exp(-positive("epsilon", reach)) * (1 - p))), 1.0)


def simplified_low(chance: float, reach: float) -> float:
    """The posterior is at least this: what a goal loses, its opposite gains; rounded down.

    >>> round(simplified_low(0.5, 1.0), 6)
    0.268941
    """
    return max(1 - simplified(1 - _chance("chance", chance), reach), 0.0)


def simplified_reach(chance: float, advantage: float) -> float:
    """The largest epsilon R that keeps the posterior within `chance` + `advantage`; rounded down.

    >>> round(simplified_reach(0.25, 0.05), 6)
    0.251314
    """
    p, eta = _chance("chance", chance), _advantage(advantage)
    if p in (0.0, 1.0) or p + eta >= 1:
        return math.inf
    return max(_down(math.log1p(eta / p) - math.log1p(-eta / (1 - p))), 0.0)


def worst_chance(reach: float) -> tuple[float, float]:
    """The prior for which the advantage at this epsilon R is largest, and that advantage.

    >>> [round(each, 6) for each in worst_chance(1.0)]
    [0.377541, 0.244919]
    """
    size = positive("epsilon", reach)
    less = math.exp(-size / 2)
    return less / (1 + less), min(rounded_up(math.tanh(size / 4)), 1.0)


def worst_reach(advantage: float) -> tuple[float, float]:
    """The epsilon R that keeps every prior within this advantage, rounded down; and the worst prior for it.

    >>> [round(each, 6) for each in worst_reach(0.1)]
    [0.401341, 0.45]
    """
    eta = _advantage(advantage)
    return _down(4 * math.atanh(eta)), (1 - eta) / 2


# By a prior over numbers ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed about a number: possible values in equal steps, and their probabilities.

    Distances are counted in units of `unit`, which is what one epsilon speaks of: with `unit` 5, two values
    that are 5 apart keep to a factor of e^epsilon. `beyond` is the probability of values that are not listed,
    as for a number without bounds: they may be any distance away.
    """

    chances: Floats
    low: float = 0.0
    step: float = 1.0
    unit: float = 1.0
    beyond: float = 0.0

    def __post_init__(self) -> None:
        try:
            found = np.array(self.chances, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.ndim != 1 or not len(found) or not np.isfinite(found).all() or (found < 0).any():
            raise InvalidParameter(
                "prior", "not probabilities", "give one number of at least 0 for each value"
            )
        if abs(float(found.sum()) + _chance("beyond", self.beyond) - 1) > 1e-9:
            raise InvalidParameter("prior", f"sum {float(found.sum()):.12g}", "probabilities add up to 1")
        for name, value in (("step", self.step), ("unit", self.unit)):
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise InvalidParameter(name, value, "give a number above 0")
        if not math.isfinite(self.low):
            raise InvalidParameter("low", self.low, "give a number")
        object.__setattr__(self, "chances", found)

    @classmethod
    def uniform(cls, low: float, high: float, *, step: float = 1.0, unit: float = 1.0) -> Belief:
        """Every value from low to high is as likely as any other.

        >>> len(Belief.uniform(0, 100).chances)
        101
        """
        count = _places(low, high, step)
        return cls(np.full(count, 1 / count), low, step, unit)

    @classmethod
    def normal(
        cls,
        mean: float,
        deviation: float,
        *,
        low: float | None = None,
        high: float | None = None,
        step: float = 1.0,
        unit: float = 1.0,
    ) -> Belief:
        """A bell around `mean`, within bounds if there are any: where one is missing, 8 deviations are told.

        >>> ages = Belief.normal(40, 15, low=0, high=100)
        >>> round(float(ages.chances[40]), 4), Belief.normal(40, 15).beyond < 1e-14
        (0.0267, True)
        """
        if not (all(map(math.isfinite, (mean, deviation, step))) and 0 < deviation < 1e300 and step > 0):
            raise InvalidParameter("prior", f"normal {mean}, {deviation}", "give a mean, and a deviation > 0")
        if abs(mean) + 8 * deviation > 2.0**50 * step:
            raise InvalidParameter(
                "prior", f"normal {mean}, {deviation}", "steps are lost in numbers this large"
            )
        if low is None:  # on the grid of all multiples of a step
            start = (mean if high is None else min(mean, high)) - 8 * deviation
            first = math.floor(start / step) * step
        else:
            first = low
        last = max(mean, first) + 8 * deviation if high is None else high
        count = _places(first, last, step)
        values = first + step * np.arange(count)
        weights = np.exp(-(((values - mean) / deviation) ** 2) / 2)
        total = float(weights.sum())

        def beyond(value: float) -> float:
            return math.erfc((value - mean) / deviation / math.sqrt(2)) / 2

        whole = (1.0 if low is None else beyond(low)) - (0.0 if high is None else beyond(high))
        if not (total > 0 and whole > 0):
            raise InvalidParameter("prior", f"mean {mean}", "the distribution has no mass within the bounds")
        missed = 0.0 if high is not None else beyond(last)
        missed += 0.0 if low is not None else 1 - beyond(first)
        outside = min(missed / whole, 1.0)
        return cls(weights / total * (1 - outside), first, step, unit, outside)

    @classmethod
    def weighted(
        cls,
        parts: Sequence[tuple[float, float, float]],
        *,
        low: float,
        high: float,
        step: float = 1.0,
        unit: float = 1.0,
    ) -> Belief:
        """A histogram: for (from, to, weight) the weight is shared by the values between, both included.

        >>> Belief.weighted([(0, 1, 3), (2, 3, 1)], low=0, high=3).chances.tolist()
        [0.375, 0.375, 0.125, 0.125]
        """
        weights = np.zeros(_places(low, high, step))
        for start, end, weight in parts:
            if not (math.isfinite(start) and math.isfinite(end)):
                raise InvalidParameter("prior", f"{start} to {end}", "give finite parts")
            first, last = math.ceil((start - low) / step - 1e-9), math.floor((end - low) / step + 1e-9)
            if not (0 <= first <= last < len(weights) and weight >= 0 and math.isfinite(weight)):
                told = f"{start:g} to {end:g}: {weight:g}"
                advice = f"give parts within {low:g} to {high:g}, with a weight of at least 0"
                raise InvalidParameter("prior", told, advice)
            weights[first : last + 1] += weight / (last - first + 1)
        if not weights.sum() > 0:
            raise InvalidParameter("prior", "no weight", "give at least one part with a weight above 0")
        return cls(weights / weights.sum(), low, step, unit)

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.chances)

    def place(self, value: float) -> int:
        """Which of them a value is: the nearest."""
        found = round((value - self.low) / self.step) if math.isfinite(value) else -1
        if not 0 <= found < self.size:
            high = self.low + (self.size - 1) * self.step
            raise InvalidParameter("value", value, f"take one from {self.low:g} to {high:g}")
        return found

    def within(self, precision: float) -> int:
        """How many steps a goal reaches to either side."""
        steps = math.floor(min(positive("within", precision) / self.step, 2.0 * MOST_VALUES) + 1e-9)
        if steps >= self.size - 1 and self.size > 1:
            advice = "a guess would always be right: ask for more precision than the whole range"
            raise InvalidParameter("within", precision, advice)
        return steps

    def rate(self, epsilon: float) -> float:
        """What one step costs."""
        found = positive("epsilon", epsilon) * self.step / self.unit
        if not math.isfinite(found) or (found == 0 and epsilon > 0):
            raise InvalidParameter(
                "epsilon", epsilon, "for one step of the column it is too small for a float"
            )
        return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """The prior probability of a goal, and what its posterior is at most by each of the bounds."""

    before: float
    simplified: float
    shell: float
    precise: float
    tight: float

    @property
    def advantage(self) -> float:
        """The most that can be gained."""
        return max(self.tight - self.before, 0.0)


def about(column: Belief, value: float, precision: float, epsilon: float, *, record: float = 0.0) -> Bounds:
    """All bounds for the goal "within `precision` of `value`", the victim's true value.

    `epsilon` is per unit of the column, and `record` what any two different values cost beside it.

    >>> found = about(Belief.uniform(0, 100, unit=5), 50, 5, 1.0)
    >>> [round(each, 4) for each in (found.simplified, found.shell, found.precise, found.tight)]
    [1.0, 0.9, 0.8005, 0.6688]
    """
    reach, at = column.within(precision), column.place(value)
    first, last = max(at - reach, 0), min(at + reach, column.size - 1)
    return _interval(column, first, last, column.rate(epsilon), positive("record", record))


def above(column: Belief, limit: float, epsilon: float, *, record: float = 0.0) -> tuple[Bounds, Bounds]:
    """All bounds for the goal "at least `limit`", and for its opposite.

    >>> rich, poor = above(Belief.uniform(0, 99), 90, 0.1)
    >>> round(rich.before, 2), round(rich.tight, 3), round(poor.before, 2), round(poor.tight, 3)
    (0.1, 0.632, 0.9, 1.0)
    """
    at = math.ceil((limit - column.low) / column.step - 1e-9) if math.isfinite(limit) else -1
    if not 0 < at < column.size:
        high = column.low + (column.size - 1) * column.step
        raise InvalidParameter("limit", limit, f"give one above {column.low:g} and at most {high:g}")
    rate, all_ = column.rate(epsilon), positive("record", record)
    upper, lower = (_interval(column, *ends, rate, all_) for ends in ((at, column.size - 1), (0, at - 1)))
    return upper, lower


def _interval(column: Belief, first: int, last: int, rate: float, record: float) -> Bounds:
    chances, inside = column.chances, np.arange(first, last + 1)
    there = chances[first : last + 1]
    p = min(float(there.sum()), 1.0)
    elsewhere = bool(chances[:first].any() or chances[last + 1 :].any() or column.beyond > 0)
    if not there.any() or not elsewhere:
        p = float(bool(there.any()))
        return Bounds(p, p, p, p, p)  # it is impossible, or certain: nothing changes that
    if rate == 0:
        plain = simplified(p, record)
        return Bounds(p, plain, plain, plain, plain)
    widest = math.inf if column.beyond else rate * (column.size - 1)
    radius = (last - first) / 2
    outside = np.concatenate([chances[:first], chances[last + 1 :]])
    away = np.abs(np.concatenate([np.arange(first), np.arange(last + 1, column.size)]) - (first + last) / 2)
    weight = float((outside * np.exp(-rate * (away + radius))).sum())
    shell = min(rounded_up(p / (p + weight)), 1.0) if weight > 0 else 1.0
    left, right = _sides(chances, rate)
    edges = (
        float(left[first - 1]) if first else 0.0,
        float(right[last + 1]) if last + 1 < column.size else 0.0,
    )
    odds = 0.0  # N / A at least
    believed = there > 0
    for edge, far in zip(edges, (inside - first, last - inside), strict=True):
        with np.errstate(over="ignore"):
            grown = float((there[believed] * np.exp(rate * far[believed])).sum())
        odds += edge * math.exp(-rate) / grown
    precise = min(rounded_up(1 / (1 + odds)), 1.0) if math.isfinite(odds) else 1.0
    tops = inside[believed]  # between two values that are believed in, one is at least as good
    beyond = edges[0] * np.exp(-rate * (tops - first + 1)) + edges[1] * np.exp(-rate * (last + 1 - tops))
    own = (sum(_sides(there, rate)) - there)[believed]  # added up by itself, so that nothing cancels
    tight = min(rounded_up(float((own / (own + beyond)).max())), 1.0)
    bounds = [simplified(p, widest) if math.isfinite(widest) else 1.0, shell, precise, max(tight, p)]
    # each holds where those before it do; and what is paid for any two values comes on top
    return Bounds(p, *(simplified(each, record) for each in itertools.accumulate(bounds, min)))


def worst_value(
    column: Belief, precision: float, epsilon: float, *, record: float = 0.0
) -> tuple[float, float]:
    """The true value at which most can be gained, and that advantage by the tight bound; rounded up.

    Blocks of values and of tops of tents are looked at together, as long as their bound is above what was
    found elsewhere.

    >>> value, gained = worst_value(Belief.uniform(0, 100, unit=5), 5, 1.0)
    >>> value, round(gained, 4)
    (5.0, 0.7803)
    """
    reach = column.within(precision)
    search = _Search(column, reach, reach, column.rate(epsilon), positive("record", record))
    place, gained = search.worst()
    return column.low + place * column.step, min(max(gained + ROOM, 0.0), 1.0)


def worst_guess(column: Belief, precision: float, epsilon: float, *, record: float = 0.0) -> float:
    """The most that can be gained about any guess, which need not be a value of the column; rounded up.

    A guess is right for the values within `precision` of it: as many next to each other as fit, or one less,
    or fewer at the ends of the column.

    >>> ages = Belief.uniform(0, 10)
    >>> round(worst_value(ages, 0.5, 0.3)[1], 4), round(worst_guess(ages, 0.5, 0.3), 4)
    (0.1782, 0.2866)
    """
    rate, beside = column.rate(epsilon), positive("record", record)
    searches = [_Search(*each, rate, beside) for each in windows(column, precision)]
    return min(max(search.worst()[1] for search in searches) + ROOM, 1.0)


def windows(column: Belief, precision: float) -> list[tuple[Belief, int, int]]:
    """The column with room on both sides, and how many steps to the left and to the right of a place there
    are values for which one guess is right."""
    column.within(precision)  # refused if it is everything
    steps = math.floor(2 * precision / column.step + 1e-9)
    pad = np.zeros(steps + 1)
    low = column.low - len(pad) * column.step
    wide = Belief(np.concatenate([pad, column.chances, pad]), low, column.step, column.unit, column.beyond)
    return [(wide, many // 2, many - many // 2) for many in {steps, max(steps - 1, 0)}]


class _Search:
    """Of all victims' values x and all tops c of tents in the goal of x, the pair that gains most."""

    def __init__(self, column: Belief, before: int, after: int, rate: float, record: float) -> None:
        self.before, self.after, self.rate, self.count = before, after, rate, column.size
        self.factor = math.exp(-record)
        chances = column.chances
        left, right = _sides(chances, rate)
        self.sums = np.concatenate([[0.0], np.cumsum(chances)])
        self.left = np.concatenate([[0.0], left])  # at a place: of the values before it
        self.right = np.concatenate([right, [0.0]])
        self.far = column.beyond if rate == 0 else 0.0  # where distance costs nothing, it counts
        # tops are values that are believed in: between two of them, one is at least as good
        self.total = np.where(chances > 0, left + right - chances + self.far, 0.0)

    def bound(self, x: Places, c: Places, width: int) -> tuple[Floats, Floats]:
        """For victims x .. x + width - 1 and tops c .. c + width - 1: what is gained at most; and of the
        middle of both, exactly (nothing if that top is not in that goal).

        Goals are taken as wide as the widest, and their prior as small as what all have in common. What is
        outside of a goal, as the top moves, is convex: it lies above its tangent in the middle.
        """
        ends = self.count - 1
        x_last, c_last = np.minimum(x + width - 1, ends), np.minimum(c + width - 1, ends)
        first, last = np.maximum(x - self.before, 0), np.minimum(x_last + self.after, ends)
        low, high = np.maximum(c, first), np.minimum(c_last, last)  # only tops in a goal count
        middle = (low + high) / 2
        before = self.left[first] * np.exp(-self.rate * (middle - first + 1))
        after = self.right[last + 1] * np.exp(-self.rate * (last + 1 - middle))
        outside = before + after - np.abs(after - before) * self.rate * (high - low) / 2
        total = self._peaks(width)[c // width]
        inner = np.maximum(x_last - self.before, 0), np.minimum(x + self.after, ends)
        mass = np.where(inner[1] >= inner[0], self.sums[inner[1] + 1] - self.sums[np.minimum(*inner)], 0.0)
        most = self._after(np.maximum(outside, 0.0) + self.far, total) - mass
        return most, self._exactly((x + x_last) // 2, (c + c_last) // 2)

    def _exactly(self, x: Places, c: Places) -> Floats:
        """What is gained about x by the tent with its top at c; nothing if that is not in the goal."""
        first, last = np.maximum(x - self.before, 0), np.minimum(x + self.after, self.count - 1)
        top = np.clip(c, first, last)
        outside = self.left[first] * np.exp(-self.rate * (top - first + 1)) + self.far
        outside = outside + self.right[last + 1] * np.exp(-self.rate * (last + 1 - top))
        found = self._after(outside, self.total[top]) - (self.sums[last + 1] - self.sums[first])
        return np.where((top == c) & (self.total[top] > 0), found, 0.0)

    def _after(self, outside: Floats, total: Floats) -> Floats:
        """The posterior where so much of the total is outside of the goal."""
        believed = total > 0
        share = np.minimum(np.where(believed, outside / np.where(believed, total, 1.0), 1.0), 1.0)
        inside = 1 - share + LOST  # what is rounded here must not be lost
        found: Floats = np.where(believed, inside / (inside + self.factor * share), 0.0)
        return found

    def _peaks(self, width: int) -> Floats:
        """The largest total in every block of tops."""
        found: Floats = np.maximum.reduceat(self.total, np.arange(0, self.count, width))
        return found

    def worst(self, floor: float = -1.0) -> tuple[int, float]:
        """The victim's place, and what is gained at most.

        With a floor, it is only told whether more is gained: the search ends when it is decided.
        """
        if self.before + self.after <= 2 * FEW:
            return self._plainly()
        width = 1
        while (self.count / width) * ((self.before + self.after) / width + 3) > FIRST:
            width *= 2
        x = np.arange(0, self.count, width)
        shifts = np.arange(-self.before // width - 1, self.after // width + 2) * width
        xs, cs = self._possible(np.repeat(x, len(shifts)), np.add.outer(x, shifts).reshape(-1), width)
        best, place = 0.0, 0
        while len(xs):
            most, exactly = self.bound(xs, cs, width)
            at = int(np.argmax(exactly))
            if exactly[at] > best:
                best, place = float(exactly[at]), int(xs[at] + min(xs[at] + width - 1, self.count - 1)) // 2
            kept = ~(most <= max(best + CLOSE, floor))
            if width == 1 or not kept.any() or best > floor >= 0:
                break
            if 4 * int(kept.sum()) > MOST_BLOCKS:
                return place, float(most.max())  # too many are as bad: the bound holds all the same
            width //= 2
            halves = np.array([0, width])
            xs, cs = self._possible(
                np.add.outer(xs[kept], np.repeat(halves, 2)).reshape(-1),
                np.add.outer(cs[kept], np.tile(halves, 2)).reshape(-1),
                width,
            )
        return place, best + CLOSE

    def _plainly(self) -> tuple[int, float]:
        """The same for a goal of few steps: all pairs, away from the ends by slices."""
        a, b, n = self.before, self.after, self.count
        ends = sorted({*range(min(a, n)), *range(max(n - b, 0), n)})
        xs = np.repeat(np.array(ends, dtype=np.int64), a + b + 1)
        cs = xs + np.tile(np.arange(-a, b + 1), len(ends))
        best, place = 0.0, 0
        kept = (cs >= 0) & (cs < n)
        if kept.any():
            exactly = self._exactly(xs[kept], cs[kept])
            at = int(np.argmax(exactly))
            best, place = max(float(exactly[at]), 0.0), int(xs[kept][at])
        if n > a + b:
            mass = self.sums[a + b + 1 :] - self.sums[: n - a - b]
            most = np.zeros(n - a - b)
            for shift in range(-a, b + 1):
                total = self.total[a + shift : n - b + shift]
                outside = self.left[: n - a - b] * math.exp(-self.rate * (a + shift + 1)) + self.far
                outside += self.right[a + b + 1 :] * math.exp(-self.rate * (b + 1 - shift))
                np.maximum(most, self._after(outside, total), out=most)
            most -= mass
            if float(most.max()) > best:
                best, place = float(most.max()), a + int(np.argmax(most))
        return place, best + CLOSE

    def _possible(self, x: Places, c: Places, width: int) -> tuple[Places, Places]:
        """Those blocks in which some top lies in the goal of some victim."""
        last = np.minimum(c + width - 1, self.count - 1)
        good = (x < self.count) & (c >= 0) & (c < self.count)
        good &= (last >= x - self.before) & (c <= x + width - 1 + self.after)
        return x[good], c[good]


def epsilon_for(
    column: Belief,
    precision: float,
    advantage: float,
    *,
    value: float | None = None,
    record: float = 0.0,
) -> float:
    """The largest epsilon that keeps the advantage, for one true value or for every; rounded down.

    It is found by halving: the bound grows with epsilon, since a larger one allows every likelihood that a
    smaller one does. What is returned was seen to keep the advantage; 0 if `record` alone does not.

    >>> ages = Belief.uniform(0, 100, unit=5)
    >>> epsilon = epsilon_for(ages, 5, 0.1, value=50)
    >>> round(epsilon, 4), about(ages, 50, 5, epsilon).advantage <= 0.1
    (0.1713, True)
    """

    eta = _advantage(advantage)

    def keeps(epsilon: float) -> bool:
        if value is not None:
            return about(column, value, precision, epsilon, record=record).advantage <= eta
        reach = column.within(precision)
        search = _Search(column, reach, reach, column.rate(epsilon), positive("record", record))
        return search.worst(max(eta - CLOSE - ROOM, 0.0))[1] + ROOM <= eta

    # of a large column a search takes a third of a second
    return largest(keeps, column.unit / column.step, 1e-6 if column.size < 10**5 else 1e-4)


def record_for(column: Belief, precision: float, advantage: float) -> float:
    """The largest price of any two different values that keeps the advantage for every value; rounded down.

    >>> round(record_for(Belief.uniform(0, 100), 2, 0.1), 4)
    1.2164
    """
    reach, places = column.within(precision), np.arange(column.size)
    sums = np.concatenate([[0.0], np.cumsum(column.chances)])
    first, last = np.maximum(places - reach, 0), np.minimum(places + reach, column.size - 1)
    counts = np.concatenate([[0], np.cumsum(column.chances > 0)])
    masses = (sums[last + 1] - sums[first])[counts[last + 1] > counts[first]]
    ends = np.concatenate([masses - LOST, masses + LOST])  # what differences of sums lose
    return reach_for(np.clip(ends[ends > 0], 0.0, 1.0).tolist(), advantage)


def reach_for(chances: Iterable[float], advantage: float) -> float:
    """The largest reach that keeps the advantage for goals of all these prior probabilities; rounded down.

    >>> round(reach_for([0.25, 0.5], 0.05), 4)
    0.2007
    """
    eta, found = _advantage(advantage), sorted(set(chances))
    at = bisect.bisect(found, (1 - eta) / 2)  # the worst of all; away from it the reach only grows
    near = found[max(at - 1, 0) : at + 1]
    return min((simplified_reach(p, eta) for p in near), default=math.inf)


def largest(keeps: Callable[[float], bool], scale: float = 1.0, within: float = 1e-6) -> float:
    """The largest epsilon that keeps something, by halving; rounded down.

    What keeps it must not come back above one that does not. It is looked for up to 1,024 times `scale`, at
    which factors of e^-epsilon are nothing to a float: infinity if even that keeps it, 0 if nothing does.
    It is found to a part of `within`.
    """
    low, high = 0.0, 1.0
    while keeps(high * scale):
        if high >= TOP:
            return math.inf
        low, high = high, 2 * high
    while high > 1e-12 and high - low > within * high:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle * scale) else (low, middle)
    return low * scale


def _places(low: float, high: float, step: float) -> int:
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(step) and step > 0 and low <= high):
        raise InvalidParameter("high", high, f"give a bound of at least {low:g}, and a step above 0")
    if (high - low) / step > MOST_VALUES:
        raise InvalidParameter("step", step, f"give one that makes at most {MOST_VALUES:,} values")
    return math.floor((high - low) / step + 1e-9) + 1


def _sides(chances: Floats, rate: float) -> tuple[Floats, Floats]:
    """For every place the sums over it and those before (after) it of chance * exp(-rate * distance)."""
    return _decayed(chances, rate), _decayed(chances[::-1], rate)[::-1]


def _decayed(chances: Floats, rate: float) -> Floats:
    """The sum at a place is what is there, and exp(-rate) times the sum before. By blocks, in which what
    grows by exp(rate) from place to place stays within floats; or place by place, if few matter."""
    if rate > STEEP:
        found: Floats = chances.copy()
        for back in range(1, min(math.ceil(TOP / rate), len(chances) - 1) + 1):
            found[back:] += chances[:-back] * math.exp(-rate * back)
        return found
    width = int(min(max(300 / rate, 1), 2000)) if rate > 0 else 2000
    padded = np.zeros(-(-len(chances) // width) * width)
    padded[: len(chances)] = chances
    places = np.arange(width)
    grown, shrunk = np.exp(rate * places), np.exp(-rate * places)
    blocks = np.cumsum(padded.reshape(-1, width) * grown, axis=1) * shrunk
    before, held, over = np.empty(len(blocks)), 0.0, math.exp(-rate * width)
    for i, end in enumerate(blocks[:, -1].tolist()):
        before[i] = held
        held = end + held * over
    blocks += np.outer(before, shrunk * math.exp(-rate))
    held_up: Floats = blocks.reshape(-1)[: len(chances)]
    return held_up


# On average ------------------------------------------------------------


def on_average(chance: float, bound: Bound) -> float:
    """The posterior of a goal of this prior probability, on average over releases, is at most this.

    With a delta, and with Gaussian noise, some outputs tell everything, however seldom: no bound holds for
    every output. But whoever it is about, the mean over outputs of the posterior of her own goal is bounded.
    Let P(S) <= e^epsilon Q(S) + delta for any two truths and any event S, let f(y) be the posterior of the
    goal B after output y, and p its prior.

    * For T(q) = min(delta + e^epsilon q, 1 - e^-epsilon (1 - delta - q)), the mean of f under any truth x is
      at most T(p). Proof. f lies between 0 and 1, so E_x f <= T(E_z f) for every truth z. T is concave and
      grows: E_x f <= T(mean over z of E_z f), and the mean posterior is the prior. QED
    * Under any truth in B, f(y) <= simplified(p, epsilon + t) but for a chance of delta / (1 - e^-t). Proof.
      Let E be the outputs with P_B > e^(epsilon + t) P_N, P_B and P_N being the mixtures over B and outside.
      P_B(E) <= e^epsilon P_N(E) + delta <= e^-t P_B(E) + delta, so P_B(E) <= delta / (1 - e^-t). For a truth
      x in B likewise P_x(E) <= e^epsilon P_N(E) + delta <= e^-t P_B(E) + delta <= delta / (1 - e^-t). QED

    Both hold for every epsilon with its delta; the least of many is returned. It is concave in the chance.

    >>> from sfumato.mechanisms import Bound
    >>> round(on_average(0.05, Bound(epsilon=Fraction(1))), 4), round(simplified(0.05, 1.0), 4)
    (0.1252, 0.1252)
    >>> round(on_average(0.05, Bound(rho=Fraction(1, 8))), 4)
    0.15
    """
    return float(on_averages(np.array([_chance("chance", chance)]), bound)[0])


def on_averages(chances: Floats, bound: Bound) -> Floats:
    """The same of many prior probabilities."""
    starts, slopes, shrunk, more = _bounds(bound)
    lines = starts + np.outer(chances, slopes)
    posteriors = np.outer(chances, np.ones(len(shrunk)))
    posteriors /= posteriors + np.outer(1 - chances, shrunk)
    best = np.minimum(lines.min(axis=1), 1.0)
    if len(shrunk):
        best = np.minimum(best, (np.minimum(rounded_up(posteriors), 1.0) + more).min(axis=1))
    found: Floats = np.minimum(np.maximum(rounded_up(best), chances), 1.0)
    return found


@lru_cache(maxsize=256)
def _bounds(bound: Bound) -> tuple[Floats, Floats, Floats, Floats]:
    """What bounds a mean posterior: lines, by where they start and how they rise; and largest posteriors, by
    e^-epsilon, with the chance that there are larger ones."""
    lines, posteriors = [(1.0, 0.0)], []
    for epsilon, delta in _curve(bound):
        less = math.exp(-epsilon)
        lines += [(delta, math.exp(epsilon)), (1 - less * (1 - delta), less)]
        if delta == 0:
            posteriors.append((less, 0.0))
        for t in BEYOND if 0 < delta < 0.1 else ():
            posteriors.append((math.exp(-epsilon - t), delta / -math.expm1(-t)))
    starts, slopes = np.array(lines).T
    shrunk, more = np.array(posteriors).reshape(-1, 2).T
    return starts, slopes, shrunk, more


@lru_cache(maxsize=256)
def _curve(bound: Bound) -> tuple[tuple[float, float], ...]:
    """Some epsilons with their deltas: a pure epsilon, and some around where the loss under zCDP is."""
    found = [] if bound.epsilon is None else [float(bound.epsilon) * (1 + 4 * ULP)]
    if bound.rho is not None:
        middle, spread = float(bound.rho), math.sqrt(2 * float(bound.rho))
        found += [max(middle + spread * k / 4, 0.0) for k in range(-8, 25)]
    # beyond 700, nothing is said
    return tuple((epsilon, float(bound.delta_at(Fraction(epsilon)))) for epsilon in found if epsilon <= 700)


# Checks ------------------------------------------------------------


def _chance(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidParameter(name, value, "give a probability between 0 and 1")
    return float(value)


def _advantage(value: float) -> float:
    if not 0 < value < 1:
        raise InvalidParameter("advantage", value, "give a number strictly between 0 and 1, such as 0.1")
    return float(value)


def positive(name: str, value: float) -> float:
    """A number of at least 0, or the refusal."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidParameter(name, value, "give a number of at least 0")
    return float(value)


def rounded_up(value: Real) -> Real:
    """Moved outward, by more than floats can have lost."""
    return value + ROOM * abs(value)


def _down(value: float) -> float:
    return value - ROOM * abs(value)
