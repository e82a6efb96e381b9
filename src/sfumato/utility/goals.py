"""What an attacker may gain about any secret: several columns, any goal, whatever she knows beforehand.

For a number and an interval, `guessing` has the answer in a scan. Here secrets are any finite set with a
distance: the tight bound is a linear program, and the precise one a double sum. A goal says which guesses
count as right, given the truth; AND, OR and facts are goals, too. For them the tent can lie below the truth.

Whoever knows less may gain more: she has more to learn. What the bounds speak of is the record of one person,
given what is known; if then it says something about the records of others, the claim is another one, and
refused (`claim`). Proof of the claim: the likelihood of one record, averaged over the others by a law that
does not depend on it, keeps to the same factor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Finite
from sfumato.utility.guessing import positive, rounded_up, simplified
from sfumato.utility.programs import ULP, Program

if TYPE_CHECKING:
    from sfumato.mechanisms import Table

X = TypeVar("X", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
Distance = Callable[[X, X], Fraction | int | float]
Goal = Callable[[X, X], bool]  # whether a guess is right, given the truth
MOST_SECRETS = 400  # secrets, beyond which no program is started
FAINT = 27.0  # the logarithm of what is nothing to a solver


# Bounds ------------------------------------------------------------


def tight(belief: Finite[X], goal: Iterable[X], distance: Distance[X], epsilon: float) -> float:
    """The largest posterior of a goal over all likelihoods with this epsilon, by a program; rounded up.

    For a goal that is no interval: a union, several columns at once. What is solved for are posteriors, so
    that all are of order one; secrets that nobody believes in change nothing, since a likelihood on the
    others can be continued to them. The bound of the program is proved (`programs`).

    >>> from sfumato.utility.gain import uniform
    >>> round(tight(uniform(range(101)), range(45, 56), lambda x, y: abs(x - y) / 5, 1.0), 4)
    0.6688
    """
    goal = list(goal)
    size, (secrets, logs, inside) = positive("epsilon", epsilon), _split(belief, goal)
    if not any(inside) or all(inside):
        return float(any(inside))
    if len(secrets) > MOST_SECRETS:
        advice = f"a program is solved for up to {MOST_SECRETS}: take `precise`, or group them"
        raise InvalidParameter("prior", f"{len(secrets)} secrets", advice)
    program = Program(np.array(inside, dtype=np.float64))
    program.row(list(range(len(secrets))), [1.0] * len(secrets), low=1, high=1)
    for i, x in enumerate(secrets):
        for j, other in enumerate(secrets):
            if i != j:
                apart = size * _apart(distance, x, other)
                log = logs[j] - logs[i] - apart
                log = min(log - 16 * ULP * (2 + abs(logs[j]) + abs(logs[i]) + apart), FAINT)
                if log < -FAINT:
                    continue  # what is left out or rounded allows more, and of so little is nothing to gain
                # posterior(x) e^log <= posterior(other), divided so that no number is above 1
                pair = [math.exp(log), -1.0] if log < 0 else [1.0, -math.exp(-log)]
                program.row([i, j], pair, low=-math.inf, high=0)
    return min(program.solve("epsilon").bound, precise(belief, goal, distance, epsilon))


def precise(belief: Finite[X], goal: Iterable[X], distance: Distance[X], epsilon: float) -> float:
    """What the posterior of a goal is at most by the precise bound, in any space; rounded up.

    >>> from sfumato.utility.gain import uniform
    >>> round(precise(uniform(range(101)), range(45, 56), lambda x, y: abs(x - y) / 5, 1.0), 4)
    0.8005
    """
    size, (secrets, logs, inside) = positive("epsilon", epsilon), _split(belief, goal)
    if not any(inside) or all(inside):
        return float(any(inside))
    odds = 0.0
    for z, log, is_in in zip(secrets, logs, inside, strict=True):
        if not is_in:
            terms = [
                own + size * _apart(distance, b, z)
                for b, own, within in zip(secrets, logs, inside, strict=True)
                if within
            ]
            most = max(terms)
            grown = most + math.log(math.fsum(math.exp(each - most) for each in terms))
            odds += math.exp(min(log - grown, 700.0))
    return min(rounded_up(1 / (1 + odds)), 1.0)


def _apart(distance: Distance[X], x: X, z: X) -> float:
    found = float(distance(x, z))
    if not (math.isfinite(found) and found >= 0):
        raise InvalidParameter("distance", f"{found} from {x} to {z}", "a distance is a number of at least 0")
    return found


def _split(belief: Finite[X], goal: Iterable[X]) -> tuple[list[X], list[float], list[bool]]:
    """The secrets that somebody believes in, the logarithms of their chances, and which are in the goal."""
    wanted = set(goal)
    if missing := [x for x in wanted if x not in belief.outcomes]:
        raise InvalidParameter("goal", missing[0], "name secrets of the prior")
    pairs = zip(belief.outcomes, belief.masses, strict=True)
    kept = [(x, math.log(mass.numerator) - math.log(mass.denominator)) for x, mass in pairs if mass > 0]
    return [x for x, _ in kept], [p for _, p in kept], [x in wanted for x, _ in kept]


# Goals, and several columns ------------------------------------------------------------


def near(precision: float) -> Goal[float]:
    """A guess is right within so much of the truth."""
    return lambda x, z: abs(x - z) <= precision


def same(x: object, z: object) -> bool:
    """A guess is right if it is the truth: for categories."""
    return x == z


def fact(holds: Callable[[X], bool]) -> Goal[X]:
    """What is to be found out is whether this holds, such as an income above 100,000."""
    return lambda x, z: holds(x) == holds(z)


def every(*goals: Goal[Any]) -> Goal[tuple[Any, ...]]:
    """Right about all columns (AND).

    >>> both = every(near(2), same)
    >>> both((40, "A"), (41, "A")), both((40, "A"), (41, "B"))
    (True, False)
    """
    return lambda x, z: all(goal(*pair) for goal, *pair in zip(goals, x, z, strict=True))


def either(*goals: Goal[Any]) -> Goal[tuple[Any, ...]]:
    """Right about at least one column (OR)."""
    return lambda x, z: any(goal(*pair) for goal, *pair in zip(goals, x, z, strict=True))


def independent(*beliefs: Finite[Any]) -> Finite[tuple[Any, ...]]:
    """The joint belief about columns that say nothing about each other.

    >>> from sfumato.utility.gain import uniform
    >>> independent(uniform(range(2)), uniform("ab")).outcomes
    ((0, 'a'), (0, 'b'), (1, 'a'), (1, 'b'))
    """
    pairs = [list(zip(each.outcomes, each.masses, strict=True)) for each in beliefs]
    combined = list(itertools.product(*pairs))
    outcomes = tuple(tuple(x for x, _ in each) for each in combined)
    return Finite(
        outcomes, tuple(math.prod((mass for _, mass in each), start=Fraction(1)) for each in combined)
    )


def manhattan(*units: float) -> Distance[Any]:
    """The sum over columns of how far they differ, in these units; with their ranges as units: normalised.

    >>> manhattan(5, 1000)((40, 20_000), (45, 23_000))
    4.0
    """
    return lambda x, z: math.fsum(abs(a - b) / unit for a, b, unit in zip(x, z, units, strict=True))


def furthest(*units: float) -> Distance[Any]:
    """The largest over columns of how far they differ, in these units."""
    return lambda x, z: max(abs(a - b) / unit for a, b, unit in zip(x, z, units, strict=True))


def most_gained(
    belief: Finite[X], goal: Goal[X], distance: Distance[X] | None, epsilon: float, *, record: float = 0.0
) -> tuple[X, float]:
    """The true value at which most can be gained, and that: by a program for every goal; rounded up.

    Without a distance any two values are one apart.

    >>> from sfumato.utility.gain import uniform
    >>> both = independent(uniform(range(5)), uniform("ab"))
    >>> value, gained = most_gained(both, every(near(1), same), None, 1.0)
    >>> value, round(gained, 4)
    ((1, 'a'), 0.2381)
    """
    found: dict[frozenset[X], float] = {}
    worst, most = belief.outcomes[0], 0.0
    for x in belief.outcomes:
        right = frozenset(z for z in belief.outcomes if goal(x, z))
        if right not in found:
            before = float(sum((belief.mass(z) for z in right), Fraction(0)))
            found[right] = _after(belief, right, distance, epsilon, record, before) - before
        if found[right] > most:
            worst, most = x, found[right]
    return worst, min(rounded_up(most), 1.0)


def _after(
    belief: Finite[X],
    right: frozenset[X],
    distance: Distance[X] | None,
    epsilon: float,
    record: float,
    before: float,
) -> float:
    size, beside = positive("epsilon", epsilon), positive("record", record)
    if distance is None:
        return simplified(before, size + beside)
    # in one program: what may break the triangle inequality is then no problem
    return tight(belief, right, lambda x, z: size * _apart(distance, x, z) + beside * (x != z), 1.0)


# What the attacker knows ------------------------------------------------------------


def gained(
    table: Table[X, Y],
    belief: Finite[X],
    goal: Goal[X],
    *,
    knows: Callable[[X], Hashable] = lambda _: None,
) -> Fraction:
    """The most that an attacker gains by an output of this very mechanism: exact.

    Secrets are databases; `knows` tells what the attacker sees of one beforehand: databases with the same
    value are one class to her. It is the largest posterior less prior of a goal, over all classes, truths
    and outputs.

    >>> from sfumato.mechanisms import Table
    >>> from sfumato.utility.gain import uniform
    >>> gained(Table.geometric(ratio=Fraction(1, 2), size=2), uniform(range(2)), same)
    Fraction(1, 6)
    """
    rows = dict(zip(table.secrets, table.rows, strict=True))
    most = Fraction(0)
    for members in _classes(belief, knows):
        whole = sum((mass for _, mass in members), Fraction(0))
        for x, _ in members:
            right = [(z, mass) for z, mass in members if goal(x, z)]
            before = sum((mass for _, mass in right), Fraction(0)) / whole
            for y in range(len(table.outputs)):
                seen = sum((mass * rows[z][y] for z, mass in members), Fraction(0))
                if seen > 0:
                    told = sum((mass * rows[z][y] for z, mass in right), Fraction(0))
                    most = max(most, told / seen - before)
    return most


def claim(
    belief: Finite[tuple[Any, ...]],
    who: int,
    goal: Goal[Any],
    epsilon: float,
    *,
    knows: Callable[[tuple[Any, ...]], Hashable] = lambda _: None,
    group: int = 1,
) -> float:
    """What an attacker may gain about record `who` of a database by any mechanism with this epsilon.

    It holds if, given what is known, that record says nothing about the others: then the others can be
    averaged out, and what is left is a likelihood of that record with the same epsilon. If not, the claim is
    refused, unless `group` says how many records depend on each other: they cost that many times epsilon.

    >>> from sfumato.utility.gain import uniform
    >>> people = independent(uniform((0, 1)), uniform((0, 1)))
    >>> round(claim(people, 0, same, 1.0), 4)
    0.2311
    >>> claim(people, 0, same, 1.0, knows=sum)
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: ...
    """
    if isinstance(group, bool) or not isinstance(group, int) or group < 1:
        raise InvalidParameter("group", group, "say how many records depend on each other: 1 or more")
    if not 0 <= who < len(belief.outcomes[0]):
        raise InvalidParameter("who", who, f"name a record from 0 to {len(belief.outcomes[0]) - 1}")
    most = 0.0
    for members in _classes(belief, knows):
        whole = sum((mass for _, mass in members), Fraction(0))
        own: dict[Any, Fraction] = {}
        others: dict[Any, Fraction] = {}
        for database, mass in members:
            rest = database[:who] + database[who + 1 :]
            own[database[who]] = own.get(database[who], Fraction(0)) + mass / whole
            others[rest] = others.get(rest, Fraction(0)) + mass / whole
        joint = {(x[who], x[:who] + x[who + 1 :]): mass / whole for x, mass in members}
        apart = all(joint.get((x, r), 0) == p * q for x, p in own.items() for r, q in others.items())
        if group == 1 and not apart:
            raise InvalidParameter(
                "prior",
                f"record {who} depends on others",
                "a claim about one record needs records that are independent given what is known; if no more "
                "than k depend on each other, give group=k: they cost k epsilon",
            )
        for x in own:
            p = float(sum((mass for z, mass in own.items() if goal(x, z)), Fraction(0)))
            most = max(most, simplified(p, group * positive("epsilon", epsilon)) - p)
    return min(rounded_up(most), 1.0)


def _classes(belief: Finite[X], knows: Callable[[X], Hashable]) -> list[list[tuple[X, Fraction]]]:
    found: dict[Hashable, list[tuple[X, Fraction]]] = {}
    for x, mass in zip(belief.outcomes, belief.masses, strict=True):
        if mass > 0:
            found.setdefault(knows(x), []).append((x, mass))
    return list(found.values())
