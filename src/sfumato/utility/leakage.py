"""What an output tells about a secret, in the measures of quantitative information flow.

Before an output is seen, the best guess about the secret gains the prior vulnerability; after it, the utility
of `gain`, which is called posterior vulnerability when the reader is an attacker. Their quotient and their
difference are the multiplicative and the additive leakage. Capacities are leakages for the worst prior.

Under epsilon each column of a table has entries within a factor e^(epsilon d), which bounds all of it:
`most_leaked`. A table refines another if post-processing turns the first into the second: then, for every
prior and every gain, the first leaks at least as much.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import Finite, Table
from sfumato.mechanisms.arguments import price, rational, whole
from sfumato.utility.gain import Gain, utility
from sfumato.utility.programs import Program

X = TypeVar("X", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
Z = TypeVar("Z", bound=Hashable)
W = TypeVar("W", bound=Hashable)
ROUNDS = 100_000  # of the search for a capacity, at most
CLOSE = 1e-9  # tables that differ by less are the same to a solver


def vulnerability(belief: Finite[X], gain: Gain[W, X]) -> Fraction:
    """What the best guess gains before any output is seen.

    >>> from sfumato.utility.gain import identity, uniform
    >>> vulnerability(uniform(range(4)), identity(range(4)))
    Fraction(1, 4)
    """
    pairs = list(zip(belief.outcomes, belief.masses, strict=True))
    return max(sum((mass * gain.of(w, x) for x, mass in pairs), Fraction(0)) for w in gain.guesses)


@dataclass(frozen=True, slots=True)
class Leakage:
    """What a guess gains before and after an output."""

    before: Fraction
    after: Fraction

    @property
    def additive(self) -> Fraction:
        """How much more is gained."""
        return self.after - self.before

    @property
    def multiplicative(self) -> Fraction | None:
        """How many times as much is gained; None where there was nothing to be gained."""
        return self.after / self.before if self.before > 0 else None

    @property
    def bits(self) -> float:
        """The logarithm of that; nothing where nothing changed."""
        if self.after == self.before:
            return 0.0
        times = self.multiplicative
        return math.inf if times is None else math.log2(times) if times > 0 else -math.inf


def leakage(table: Table[X, Y], belief: Finite[X], gain: Gain[W, X]) -> Leakage:
    """What an attacker with this belief gains by the output, who wants this.

    >>> from sfumato.utility.gain import identity, uniform
    >>> told = leakage(Table.geometric(ratio=Fraction(1, 2), size=2), uniform(range(2)), identity(range(2)))
    >>> told.additive, told.multiplicative
    (Fraction(1, 6), Fraction(4, 3))
    """
    return Leakage(vulnerability(belief, gain), utility(table, belief, gain))


def min_capacity(table: Table[X, Y]) -> Fraction:
    """The largest factor by which guessing the secret can become easier, over all priors: exact.

    It is the sum of the largest entries of the columns, attained by the uniform prior; no gain that is not
    negative leaks by a larger factor under any prior (the miracle theorem).

    >>> min_capacity(Table.geometric(ratio=Fraction(1, 2), size=3))
    Fraction(5, 3)
    """
    return sum((max(column) for column in zip(*table.rows, strict=True)), Fraction(0))


def most_leaked(*, epsilon: Fraction, size: int, diameter: Fraction | int = 1) -> Fraction:
    """What `min_capacity` is at most under epsilon between neighbours, for `size` secrets; rounded up.

    `diameter` is how many neighbours apart two secrets can be; times epsilon it is what any two keep to.
    Proof, with e for that: let m be the largest entry of a column. The others are at least m exp(-e), so the
    column adds up to at least m (1 + (size - 1) exp(-e)). All columns add up to `size`. Hence the sum of all
    m is at most size exp(e) / (size - 1 + exp(e)), which randomized response attains.

    >>> float(most_leaked(epsilon=Fraction(1), size=2))  # doctest: +ELLIPSIS
    1.46211715726...
    """
    count = whole("size", size, least=1)
    apart = price("epsilon", epsilon, zero=True) * rational("diameter", diameter, zero=True)
    grown = numbers.exp(-apart).low  # a smaller one makes the bound larger
    return numbers.round_up(count / (1 + (count - 1) * grown), 64)


def mutual_information(table: Table[X, Y], belief: Finite[X]) -> float:
    """Shannon's mutual information of secret and output, in bits; in floats.

    >>> from sfumato.utility.gain import uniform
    >>> round(mutual_information(Table.geometric(ratio=Fraction(1, 2), size=2), uniform(range(2))), 6)
    0.081704
    """
    rows, chances = _floats(table, belief)
    rows, chances = rows[chances > 0], chances[chances > 0]
    return float(_divergences(rows, chances @ rows) @ chances)


@dataclass(frozen=True, slots=True)
class Capacity(Generic[X]):
    """The largest mutual information over all priors, between two bounds in bits; a prior for the lower."""

    low: float
    high: float
    belief: tuple[tuple[X, float], ...]


def capacity(table: Table[X, Y], *, within: float = 1e-6) -> Capacity[X]:
    """Shannon's capacity by the iteration of Blahut and Arimoto, whose two bounds close in on it.

    >>> found = capacity(Table.geometric(ratio=Fraction(1, 2), size=2))
    >>> round(found.low, 5), found.high - found.low <= 1e-6
    (0.0817, True)
    """
    if not within > 0:
        raise InvalidParameter("within", within, "give how close the bounds shall be, such as 1e-6 bits")
    rows = np.array([[float(p) for p in row] for row in table.rows])
    chances = np.full(len(rows), 1 / len(rows))
    for _ in range(ROUNDS):
        gaps = _divergences(rows, chances @ rows)
        low = max(float(np.log2(chances @ np.exp2(gaps))), 0.0)
        high = max(float(gaps.max()), low)
        if high - low <= within:
            pairs = zip(table.secrets, chances.tolist(), strict=True)
            return Capacity(low, high, tuple(pairs))
        chances = chances * np.exp2(gaps - gaps.max())
        chances /= chances.sum()
    raise InvalidParameter(
        "within", within, f"after {ROUNDS:,} rounds {high - low:.1g} bits are left: ask for less"
    )


def _floats(table: Table[X, Y], belief: Finite[X]) -> tuple[np.ndarray, np.ndarray]:
    rows = dict(zip(table.secrets, table.rows, strict=True))
    if missing := [x for x in belief.outcomes if x not in rows]:
        raise InvalidParameter(
            "prior", f"{missing[0]} has no row", "the prior may only contain secrets of the table"
        )
    found = np.array([[float(p) for p in rows[x]] for x in belief.outcomes])
    return found, np.array([float(mass) for mass in belief.masses])


def _divergences(rows: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """How far each row is from the mixture, in bits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(rows > 0, rows * np.log2(rows / mixed), 0.0)
    found: np.ndarray = terms.sum(axis=1)
    return found


# Refinement ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refinement(Generic[Y, Z]):
    """Whether post-processing turns one table into another: which one, and how far off it ends at most."""

    holds: bool
    post: Table[Y, Z]
    off: Fraction


def refined(table: Table[X, Y], other: Table[X, Z]) -> Refinement[Y, Z]:
    """The post-processing of `table` that comes nearest to `other`, in the sum of all entries.

    If it gets there, `other` tells nothing that `table` does not: it leaks no more for any prior and any gain
    (and only then), up to 10^-9 in an entry. Found by a linear program, made a table of fractions, and
    measured exactly; entries below 10^-12 are nothing to a solver.

    >>> fine, coarse = (Table.geometric(ratio=Fraction(a, 4), size=3) for a in (2, 3))
    >>> refined(fine, coarse).holds, refined(coarse, fine).holds
    (True, False)
    """
    if set(table.secrets) != set(other.secrets):
        raise InvalidParameter("other", "other secrets", "both tables must be about the same secrets")
    inside, outside, secrets = len(table.outputs), len(other.outputs), len(table.secrets)
    wanted = [other.rows[other.secrets.index(x)] for x in table.secrets]
    # what is solved for is the post-processing times the largest entry of its column: of entries of order one
    most = [max(column) or Fraction(1) for column in zip(*table.rows, strict=True)]
    steps = inside * outside
    slack = steps + 2 * secrets * outside
    program = Program(np.concatenate([np.zeros(steps), -np.ones(slack - steps)]))
    for y in range(inside):
        row = [y * outside + z for z in range(outside)]
        program.row(row, [1.0] * outside, low=float(most[y]), high=float(most[y]))
    for i, (row_, goal) in enumerate(zip(table.rows, wanted, strict=True)):
        for z in range(outside):
            at = steps + 2 * (i * outside + z)
            indices = [y * outside + z for y in range(inside)]
            scaled = [float(p / m) for p, m in zip(row_, most, strict=True)]
            program.row(
                [*indices, at, at + 1],
                [*scaled, 1.0, -1.0],
                low=float(goal[z]),
                high=float(goal[z]),
            )
    found = program.solve("refinement", "give tables whose entries are less extreme").point
    parts = [
        [Fraction(max(float(p), 0.0)) for p in found[y * outside : (y + 1) * outside]] for y in range(inside)
    ]
    rows = tuple(tuple(p / sum(part) for p in part) for part in parts)
    post: Table[Y, Z] = Table(rows=rows, secrets=table.outputs, outputs=other.outputs)
    made = table.then(post)
    off = max(
        abs(a - b)
        for mine, theirs in zip(made.rows, wanted, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )
    return Refinement(float(off) <= CLOSE, post, off)
