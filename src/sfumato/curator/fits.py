"""The cap with the least error, and what is lost above it: from a noisy histogram over people.

A cap that is too small loses rows, one that is too large adds noise. Both can be told from how many people
have 0, 1, 2, 4, ... of something, if that is known with noise (`measures.Octaves`): the cap is the one for
which noise, what is seen to be lost, and what may be lost unseen are least together. What is seen above it
is added back in proportion to the groups; how wrong that may be stands in a `Shortfall`, and intervals cover
it.

Everything here is arithmetic on released numbers, so it is free, and floats are allowed. The constants were
found on twenty-two tables and scored on others (docs/explanation/tuning.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.caps import nodes
from sfumato.queries.cells import PARTS, Shortfall
from sfumato.queries.declared import Measured

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.queries.cells import Clamp

CLEAR, JUMP, CERTAIN = 3.0, 2.5, 13.0  # in units of noise: believed next to what is believed; more an octave
PAIR = 2.0  # how much more two neighbouring nodes must have together
FALLING, OFF, MOST_LEFT = 0.3, 0.25, 0.7  # of the people of an octave in the next one: mean, deviation, most
STEEPER = 2.0  # how much fewer there are in the next octave than from the one before to the last
SURE = 0.2  # of that deviation, where people become few fast
APART = 0.2  # of what is added back, that groups may differ by
SIGNED = 0.3  # of what people have of both signs, so much is likely left when it is added up
UNLIKE = 0.5  # how far off it may be that rows of a question are like those of its table: one deviation
MANY = 200  # pieces, of which chance takes nearly the same part from everybody
LONG = 4  # octaves beyond the last one that is believed
WIDER = 3.5  # for an interval: how much less sure one is of what is not seen
IN_RATIO = (
    (0.5, 2),
    (4.0, 8),
)  # below which epsilon a person has so many rows in a ratio, if nothing is known
RANGE = 6.0  # from the least to the largest value of a row, in deviations
NANO = 10**9
MOST = (1 << 53) - 1  # of a stored number


@dataclass(frozen=True, slots=True)
class Holdings:
    """How many people have how much. Up to the last node that stands out of the noise, that is what was
    released; beyond it, what is likely: fewer people from octave to octave, as far as the histogram allows.
    """

    people: NDArray[np.float64]
    doubt: NDArray[np.float64]  # the deviation of those beyond the last node, which may all be off together
    at: NDArray[np.float64]
    unit: float  # of noise, in people
    top: int  # the last node that is believed

    def up_to(self, end: float) -> Holdings:
        """The same where nobody has so much."""
        is_below = self.at < end
        return replace(self, people=self.people * is_below, doubt=self.doubt * is_below)

    def kept(self, cap: float) -> float:
        """What people have up to a cap."""
        return float((self.people * np.minimum(self.at, cap)).sum())

    def lost(self, cap: float, power: int = 1) -> float:
        """What they have above it, or the sum of squares of that."""
        return max(float((self.people * np.maximum(self.at - cap, 0) ** power).sum()), 0.0)

    def deviation(self, cap: float) -> float:
        """How far off that may be, for the noise: one standard deviation."""
        above = np.maximum(self.at[: self.top + 1] - cap, 0)
        return math.sqrt(2) * self.unit * float(np.sqrt((above**2).sum()))

    @property
    def off(self) -> float:
        """How far off all of what they have may be, in one standard deviation."""
        return math.hypot(self.deviation(0.0), self.unseen(0.0))

    def unseen(self, cap: float, power: int = 1) -> float:
        """How far off it may be for people who are too few to be seen."""
        return float((self.doubt * np.maximum(self.at - cap, 0) ** power).sum())


@lru_cache(maxsize=1024)
def seen(measured: Measured, whole: Measured | None = None) -> Holdings | None:
    """What a histogram shows of people; None if nobody is seen.

    Where it is about some rows of a table of which the `whole` is known, people with much of the whole likely
    have their part of these, too: that is what is expected of those who are too few to be seen.
    """
    unit = 1 / float(measured.epsilon)
    people = np.array(measured.people, dtype=np.float64) / PARTS
    top, is_found = 0, bool(people[0] >= CLEAR * unit)
    while True:
        step = next((d for d in range(1, len(people) - top) if _stands_out(people, top, d, unit)), None)
        if step is None:
            break
        top, is_found = top + step, True
    if not is_found or not top:  # nobody, or nobody who has anything
        return None
    all_ = None if whole is None else seen(whole)
    part = None if all_ is None else _as_part(people.copy(), unit, top, all_)
    doubt = np.zeros(len(people))
    noise, mass, off = 2 * unit**2, max(people[top], 0.0), math.sqrt(2) * unit
    left = min(FALLING, mass / max(people[top - 1], unit) / STEEPER)
    for k in range(top + 1, min(top + 1 + LONG, len(people))):
        unsure, before = OFF * max(left / FALLING, SURE), max(mass, unit)
        prior, spread = left * mass, (unsure * (mass + off)) ** 2
        found = (prior * noise + people[k] * spread) / (noise + spread)
        mass = min(max(found, 0.0), MOST_LEFT * (mass + off))
        off = math.sqrt(noise * spread / (noise + spread))
        left = min(left, (mass + off) / before)
        people[k], doubt[k] = mass, off
    people[top + 1 + LONG :] = 0
    if part is not None:  # it may be so or so
        people, doubt = (np.maximum(*both) for both in ((people, part[0]), (doubt, part[1])))
    return Holdings(people, doubt, nodes(len(people)), unit, top)


def _as_part(
    people: NDArray[np.float64], unit: float, top: int, whole: Holdings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The people beyond the last node that is believed, and the deviation, where rows are likely some of
    those of a table, as if each was taken with the same chance."""
    there, doubt, noise = float(people[1 : top + 1].sum()), np.zeros(len(people)), 2 * unit**2
    low, high = 1e-9, 1.0
    for _ in range(60):  # with the chance at which so many people have any
        middle = math.sqrt(low * high)
        is_less = float((whole.people[1:] * -np.expm1(-whole.at[1:] * middle)).sum()) < there
        low, high = (middle, high) if is_less else (low, middle)
    likely, last = _thinned(whole, high, len(people)), top
    for k in range(top + 1, len(people)):
        if likely[k] * held_at(k) < 1e-3:
            break
        spread = (UNLIKE * likely[k]) ** 2
        people[k] = max((likely[k] * noise + people[k] * spread) / (noise + spread), 0.0)
        doubt[k] = math.sqrt(noise * spread / (noise + spread))
        last = k
    people[last + 1 :] = 0
    return people, doubt


def held_at(k: int) -> float:
    """How much a person has at a node."""
    return 2.0 ** (k - 1) if k else 0.0


def _thinned(whole: Holdings, chance: float, count: int) -> NDArray[np.float64]:
    """How many people there are at each of so many nodes, if of what each has every piece stays by chance."""
    found = np.zeros(count)
    for people, at in zip(whole.people[1:], whole.at[1:], strict=True):
        if people <= 0:
            continue
        mean = at * chance
        reach = max(1, math.ceil(mean + 8 * math.sqrt(mean) + 8)) if mean < MANY else 0
        amounts = np.arange(reach) if reach else np.array([mean])
        logs = amounts * math.log(mean) - mean - np.array([math.lgamma(n + 1) for n in amounts])
        weights = np.exp(logs) if reach else np.ones(1)
        for amount, weight in zip(amounts, weights, strict=True):
            k = 0 if amount < 1 else math.floor(math.log2(amount)) + 1
            low, high = held_at(k), held_at(k + 1)
            part = (float(amount) - low) / (high - low)
            if k + 1 < count:
                found[k] += people * weight * (1 - part)
                found[k + 1] += people * weight * part
    return found


def _stands_out(people: NDArray[np.float64], top: int, distance: int, unit: float) -> bool:
    """Whether so far above the last node that is believed there are people, and not only noise."""
    enough, k = min(CLEAR + JUMP * (distance - 1), CERTAIN), top + distance
    pair = people[k] + people[k + 1] if k + 1 < len(people) else 0.0
    return bool(people[k] >= enough * unit or pair >= (enough + PAIR) * unit)


def best(
    measured: Measured,
    noise: float,
    groups: int,
    most: int,
    declared: int | None = None,
    whole: Measured | None = None,
    *,
    signed: bool = False,
) -> tuple[int, Shortfall | None] | None:
    """The cap for a count or a sum in one of so many groups, and what it cuts; None if nobody is seen.

    `noise` is the deviation of a group's noise at a cap of 1; no cap is above `most`. Where nobody is seen
    who has more than is `declared`, nobody is taken to have more: the owner knows more than noise does. What
    is `signed` was measured without its sign, and most of it goes away when it is added up.
    """
    found = seen(measured, whole)
    if found is None:
        return None
    is_trusted = declared is not None and found.at[found.top] < 2 * declared
    if declared is not None and is_trusted:
        found, most = found.up_to(2 * declared), min(most, declared)
    errors = {cap: _error(found, cap, noise, groups, SIGNED if signed else 1.0) for cap in _caps(found, most)}
    if is_trusted and most == declared:
        errors[most] = (noise * most) ** 2  # nobody is cut
    cap = min(errors, key=errors.__getitem__, default=0)
    if not cap or math.isinf(errors[cap]):
        return None
    return cap, None if is_trusted and cap == declared else cut(found, cap)


def _caps(found: Holdings, most: int) -> list[int]:
    """Powers of two, and one and a half of them: three octaves farther than anybody is seen; and the most."""
    caps = {math.ceil(x * y) for x in (1.0, 1.5) for y in 2.0 ** np.arange(found.top + 3)}
    return sorted(cap for cap in (*caps, min(most, max(caps))) if cap <= most)


def _error(found: Holdings, cap: float, noise: float, groups: int, much: float) -> float:
    """The expected square of the error of a group, where what is cut counts for so `much`."""
    kept, lost = found.kept(cap), found.lost(cap)
    if kept <= found.unit:
        return math.inf
    back = 1 + lost / kept
    apart = found.lost(cap, 2) + found.unseen(cap, 2)
    bias = APART * lost + found.unseen(cap)
    return (
        (noise * cap * back) ** 2
        + (much * found.deviation(cap) / groups) ** 2
        + much**2 * apart * (1 / groups) * (1 - 1 / groups)
        + (much * bias / groups) ** 2
    )


def likely_off(found: Holdings, cap: float, groups: int) -> float:
    """How far off one of so many groups is likely to be for what is cut, in parts of itself: hardly by more
    than is cut, since what is added back is less the less sure it is."""
    lost, off = found.lost(cap), found.deviation(cap)
    sure = off * lost / math.hypot(off, lost) if lost else 0.0
    bias = APART * lost + min(found.unseen(cap), lost)
    apart = found.lost(cap, 2) * max(groups - 1, 0) / 4  # if half of what each has is in one group
    return math.sqrt(sure**2 + bias**2 + apart) / max(found.kept(cap), found.unit)


def as_if_at(measured: Measured, epsilon: Fraction) -> Measured:
    """What a histogram would likely show that is bought at another price: what is seen, without its noise."""
    found = seen(measured)
    if found is None:
        return measured
    return Measured(epsilon, tuple(round(each * PARTS) for each in found.people))


def best_in_ratio(found: Holdings, noise: float, groups: int, most: int) -> int:
    """The cap for a proportion in one of so many groups: more of it is noise, less cuts more unevenly."""
    rows = max(found.kept(math.inf), found.unit)
    errors = {
        cap: (RANGE * noise * cap * groups / rows) ** 2 + groups * _mixed(found, cap) ** 2
        for cap in _caps(found, most)
        if cap >= IN_RATIO[0][1]
    }
    return min(errors, key=errors.__getitem__, default=most)


def cut(found: Holdings, cap: float) -> Shortfall:
    """What a cap cuts, and how much of it is added back."""
    kept, lost, off = max(found.kept(cap), found.unit), found.lost(cap), found.deviation(cap)
    back = lost**3 / (lost**2 + off**2) if lost else 0.0
    bias = APART * lost + WIDER * found.unseen(cap)
    wrong = math.sqrt(off**2 + (lost - back) ** 2 + bias**2)
    apart = math.sqrt(found.lost(cap, 2) + WIDER * found.unseen(cap, 2))
    parts = (lost / kept, back / kept, wrong / kept, apart / kept, _mixed(found, cap))
    return Shortfall(*map(_nano, parts))


def with_mean(alike: Shortfall, rows: Holdings, totals: Holdings, cap: int, clamp: Clamp) -> Shortfall:
    """The same with the mean of all rows, from how many of them people have and how much in sum."""
    all_, whole = rows.kept(math.inf), totals.kept(math.inf)
    if all_ <= rows.unit or whole <= totals.unit:
        return alike
    over = whole - clamp.least * all_  # what they have beyond the least value, in steps
    off = math.hypot(rows.off / all_, totals.off / whole) * whole / max(over, 1.0)
    part = over / all_ / clamp.width
    return replace(alike, mean=_nano(part), rows=round(rows.kept(cap)), wrong=_nano(off))


def _mixed(found: Holdings, cap: float) -> float:
    """By how many deviations of a row a ratio under a cap differs from that of all rows, as far as
    the rows of one person are like those of any other."""
    people, at = np.maximum(found.people[1:], 0), found.at[1:]
    all_, kept = float((people * at).sum()), float((people * np.minimum(at, cap)).sum())
    if all_ <= 0 or kept <= 0:
        return 0.0
    apart = at / all_ - np.minimum(at, cap) / kept
    return math.sqrt(float((people * apart**2 / at).sum()))


def _nano(part: float) -> int:
    return min(max(round(part * NANO), 0), MOST)
