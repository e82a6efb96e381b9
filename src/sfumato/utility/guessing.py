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
claim that nothing is better than the precise bound is false: `about` shows it. Everything is rounded
outward: a posterior up, an epsilon down.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.utility.programs import Program

if TYPE_CHECKING:
    from sfumato.mechanisms import Finite

X = TypeVar("X", bound=Hashable)
Distance = Callable[[X, X], Fraction | int | float]
Floats = NDArray[np.float64]
ROOM = 1e-9  # by which floats are moved outward; far above what a million additions round
ROUNDS = 200  # of a search for an epsilon


# By two numbers ------------------------------------------------------------


def simplified(chance: float, reach: float) -> float:
    """The posterior of a goal of this prior probability is at most this, at epsilon R = `reach`; rounded up.

    >>> round(simplified(0.25, math.log(9 / 7)), 6)
    0.3
    """
    p = _chance("chance", chance)
    if p in (0.0, 1.0):
        return p
    return min(_up(1 / (1 + math.exp(-_size("epsilon", reach)) * (1 - p) / p)), 1.0)


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
    return max(_down(math.log((1 - p) / p * (p + eta) / (1 - p - eta))), 0.0)


def worst_chance(reach: float) -> tuple[float, float]:
    """The prior for which the advantage at this epsilon R is largest, and that advantage.

    >>> [round(each, 6) for each in worst_chance(1.0)]
    [0.377541, 0.244919]
    """
    size = _size("epsilon", reach)
    return 1 / (1 + math.exp(size / 2)), min(_up(math.tanh(size / 4)), 1.0)


def worst_reach(advantage: float) -> tuple[float, float]:
    """The epsilon R that keeps every prior within this advantage, rounded down; and the worst prior for it.

    >>> [round(each, 6) for each in worst_reach(0.1)]
    [0.401341, 0.45]
    """
    eta = _advantage(advantage)
    return _down(2 * math.log((1 + eta) / (1 - eta))), (1 - eta) / 2


# By a prior over numbers ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """What is believed about a number: possible values in equal steps, and their probabilities.

    Distances are counted in units of `unit`, which is what one epsilon speaks of: with `unit` 5, two values
    that are 5 apart keep to a factor of e^epsilon.
    """

    chances: Floats
    low: float = 0.0
    step: float = 1.0
    unit: float = 1.0

    def __post_init__(self) -> None:
        found = np.asarray(self.chances, dtype=np.float64)
        if found.ndim != 1 or not len(found) or not np.isfinite(found).all() or (found < 0).any():
            raise InvalidParameter(
                "prior", "not probabilities", "give one number of at least 0 for each value"
            )
        if abs(float(found.sum()) - 1) > 1e-9:
            raise InvalidParameter("prior", f"sum {float(found.sum()):.12g}", "probabilities add up to 1")
        for name, value in (("step", self.step), ("unit", self.unit)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(name, value, "give a number above 0")
        object.__setattr__(self, "chances", found)

    @classmethod
    def uniform(cls, low: float, high: float, *, step: float = 1.0, unit: float = 1.0) -> Column:
        """Every value from low to high is as likely as any other.

        >>> len(Column.uniform(0, 100).chances)
        101
        """
        count = round((high - low) / _size("step", step)) + 1
        if not count >= 1:
            raise InvalidParameter("high", high, f"give a bound of at least {low:g}")
        return cls(np.full(count, 1 / count), low, step, unit)

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.chances)

    def place(self, value: float) -> int:
        """Which of them a value is."""
        found = round((value - self.low) / self.step)
        if not 0 <= found < self.size:
            high = self.low + (self.size - 1) * self.step
            raise InvalidParameter("value", value, f"take one from {self.low:g} to {high:g}")
        return found

    def within(self, precision: float) -> int:
        """How many steps a goal reaches to either side."""
        steps = math.floor(_size("within", precision) / self.step + 1e-9)
        if steps >= self.size - 1 and self.size > 1:
            advice = "a guess would always be right: ask for more precision than the whole range"
            raise InvalidParameter("within", precision, advice)
        return steps


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


def about(column: Column, value: float, precision: float, epsilon: float) -> Bounds:
    """All bounds for the goal "within `precision` of `value`", the victim's true value.

    >>> found = about(Column.uniform(0, 100, unit=5), 50, 5, 1.0)
    >>> [round(each, 4) for each in (found.simplified, found.shell, found.precise, found.tight)]
    [1.0, 0.9, 0.8005, 0.6688]
    """
    size, reach, at = _size("epsilon", epsilon), column.within(precision), column.place(value)
    first, last = max(at - reach, 0), min(at + reach, column.size - 1)
    rate = size * column.step / column.unit  # per step
    chances = column.chances
    p = min(float(chances[first : last + 1].sum()), 1.0)
    if not chances[first : last + 1].any() or not (chances[:first].any() or chances[last + 1 :].any()):
        p = float(bool(chances[first : last + 1].any()))
        return Bounds(p, p, p, p, p)  # it is impossible, or certain: nothing changes that
    widest = rate * (column.size - 1)
    outside = np.concatenate([chances[:first], chances[last + 1 :]])
    away = np.abs(np.concatenate([np.arange(first), np.arange(last + 1, column.size)]) - at)
    weight = float((outside * np.exp(-rate * (away + reach))).sum())
    shell = min(_up(p / (p + weight)), 1.0) if weight > 0 else 1.0
    left, right = _sides(chances, rate)
    inside = np.arange(first, last + 1)
    before = left[first - 1] * np.exp(-rate * (inside - first + 1)) if first else np.zeros(len(inside))
    after = right[last + 1] * np.exp(-rate * (last + 1 - inside)) if last + 1 < column.size else 0.0
    beyond = before + after  # the sum of pi exp(-epsilon d) outside, seen from each value inside
    odds = 0.0  # N / A at least
    for edge, away in (
        (left[first - 1] if first else 0.0, inside - first),
        (right[last + 1] if last + 1 < column.size else 0.0, last - inside),
    ):
        with np.errstate(over="ignore"):
            grown = float((chances[inside] * np.exp(rate * away)).sum())
        odds += float(edge) * math.exp(-rate) / grown
    precise = min(_up(1 / (1 + odds)), 1.0)
    total = left[inside] + right[inside] - chances[inside]
    posterior = 1 - beyond / np.where(total > 0, total, 1.0)
    tight = min(_up(float(posterior.max())), 1.0)
    bounds = [simplified(p, widest), shell, precise, max(tight, p)]
    return Bounds(p, *itertools.accumulate(bounds, min))  # each holds where those before it do


def worst_value(column: Column, precision: float, epsilon: float) -> tuple[float, float]:
    """The true value at which most can be gained, and that advantage by the tight bound; rounded up.

    >>> value, gained = worst_value(Column.uniform(0, 100, unit=5), 5, 1.0)
    >>> value, round(gained, 4)
    (5.0, 0.7803)
    """
    size, reach = _size("epsilon", epsilon), column.within(precision)
    rate = size * column.step / column.unit
    chances, count = column.chances, column.size
    left, right = _sides(chances, rate)
    total = left + right - chances
    places = np.arange(count)
    first, last = np.maximum(places - reach, 0), np.minimum(places + reach, count - 1)
    sums = np.concatenate([[0.0], np.cumsum(chances)])
    before = sums[last + 1] - sums[first]
    ends_left = np.concatenate([[0.0], left])  # of the value before the goal
    ends_right = np.concatenate([right, [0.0]])
    best = np.zeros(count)
    for shift in range(-reach, reach + 1):
        top = places + shift
        good = (top >= first) & (top <= last)
        c, f, t = top[good], first[good], last[good]
        beyond = ends_left[f] * np.exp(-rate * (c - f + 1)) + ends_right[t + 1] * np.exp(-rate * (t + 1 - c))
        weight = total[c]
        gained = np.where(weight > 0, 1 - beyond / np.where(weight > 0, weight, 1.0), 0.0)
        best[good] = np.maximum(best[good], gained)
    gained = best - before
    worst = int(np.argmax(gained))
    return column.low + worst * column.step, min(max(_up(float(gained[worst])), 0.0), 1.0)


def epsilon_for(column: Column, precision: float, advantage: float, *, value: float | None = None) -> float:
    """The largest epsilon that keeps the advantage, for one true value or for every; rounded down.

    It is found by halving: the bound grows with epsilon, since a larger one allows every likelihood that a
    smaller one does. What is returned was seen to keep the advantage.

    >>> ages = Column.uniform(0, 100, unit=5)
    >>> epsilon = epsilon_for(ages, 5, 0.1, value=50)
    >>> round(epsilon, 4), about(ages, 50, 5, epsilon).advantage <= 0.1
    (0.1713, True)
    """
    eta = _advantage(advantage)

    def gained(epsilon: float) -> float:
        if value is None:
            return worst_value(column, precision, epsilon)[1]
        return about(column, value, precision, epsilon).advantage

    low, high = 0.0, 1.0
    while gained(high) <= eta:
        low, high = high, 2 * high
        if high > 10_000:
            return math.inf  # the goal is likely enough already
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if high - low <= 1e-9 * high or not low < middle < high:
            break
        low, high = (middle, high) if gained(middle) <= eta else (low, middle)
    return low


def _sides(chances: Floats, rate: float) -> tuple[Floats, Floats]:
    """For every place the sums over it and those before (after) it of chance * exp(-rate * distance)."""
    return _decayed(chances, math.exp(-rate)), _decayed(chances[::-1], math.exp(-rate))[::-1]


def _decayed(chances: Floats, a: float) -> Floats:
    found = np.empty(len(chances))
    held = 0.0
    for i, chance in enumerate(chances.tolist()):
        held = held * a + chance
        found[i] = held
    return found


# By any space ------------------------------------------------------------


def tight(belief: Finite[X], goal: Sequence[X], distance: Distance[X], epsilon: float) -> float:
    """The largest posterior of a goal over all likelihoods with this epsilon: by a linear program, in floats.

    For a goal that is no interval: a union, several columns at once. The program's value is moved up by what
    a solver may miss.

    >>> from sfumato.utility.gain import uniform
    >>> round(tight(uniform(range(101)), range(45, 56), lambda x, y: abs(x - y) / 5, 1.0), 4)
    0.6688
    """
    size, inside = _size("epsilon", epsilon), set(goal)
    if missing := [x for x in inside if x not in belief.outcomes]:
        raise InvalidParameter("goal", missing[0], "name secrets of the prior")
    count = len(belief.outcomes)
    chances = [float(mass) for mass in belief.masses]
    worth = np.array([p if x in inside else 0.0 for x, p in zip(belief.outcomes, chances, strict=True)])
    program = Program(worth)
    program.row(list(range(count)), chances, low=1, high=1)
    for i, x in enumerate(belief.outcomes):
        for j, other in enumerate(belief.outcomes):
            if i != j:
                shrunk = math.exp(-min(size * float(distance(x, other)), 700.0))
                program.row([i, j], [shrunk, -1.0], low=-math.inf, high=0)
    return min(program.solve("epsilon").bound, 1.0)


# Checks ------------------------------------------------------------


def _chance(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidParameter(name, value, "give a probability between 0 and 1")
    return float(value)


def _advantage(value: float) -> float:
    if not 0 < value < 1:
        raise InvalidParameter("advantage", value, "give a number strictly between 0 and 1, such as 0.1")
    return float(value)


def _size(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise InvalidParameter(name, value, "give a number of at least 0")
    return float(value)


def _up(value: float) -> float:
    return value + ROOM * abs(value)


def _down(value: float) -> float:
    return value - ROOM * abs(value)
