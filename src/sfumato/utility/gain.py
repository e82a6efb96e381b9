"""What a reader gains from an output: priors, gains, the best guess, and the utility of a mechanism.

Somebody believes that the secret is x with probability pi(x), sees an output y, and names a guess w, which is
worth g(w, x). The best guess for y maximises the sum over x of pi(x) p(y | x) g(w, x); the utility of the
mechanism is the sum of these maxima over all outputs. It is an expectation over secrets and outputs, and a
maximum over what the reader makes of the outputs: post-processing can lower it and never raise it.

Everything about tables is exact. For additive noise on many answers there is `of_noise`, in floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import DiscreteLaplace, Finite, Table
from sfumato.mechanisms.arguments import exact, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.mechanisms import Line

X = TypeVar("X", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
W = TypeVar("W", bound=Hashable)
D = TypeVar("D", bound=Hashable)
Score = Callable[[W, X], Fraction | int]
TAIL = Fraction(1, 10**15)  # of a noise, that is left out when it is summed in floats


# Priors --------------------------------------------------------------------------------------------------


def uniform(secrets: Iterable[X]) -> Finite[X]:
    """Every secret is as likely as any other.

    >>> uniform("abcd").mass("b")
    Fraction(1, 4)
    """
    outcomes = tuple(dict.fromkeys(secrets))
    if not outcomes:
        raise InvalidParameter("secrets", "none", "give at least one")
    return Finite(outcomes, (Fraction(1, len(outcomes)),) * len(outcomes))


def prior(chances: Mapping[X, Fraction | int]) -> Finite[X]:
    """Secrets and their probabilities, which add up to exactly 1.

    >>> prior({"ill": Fraction(1, 100), "well": Fraction(98, 100)})
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: prior = sum 99/100 cannot be used: probabilities add up to exactly 1; to scale weights, write weighted({...})
    """  # noqa: E501  # a doctest cannot be broken
    masses = tuple(_chance(x, mass) for x, mass in chances.items())
    if sum(masses) != 1:
        advice = "probabilities add up to exactly 1; to scale weights, write weighted({...})"
        raise InvalidParameter("prior", f"sum {sum(masses)}", advice)
    return Finite(tuple(chances), masses)


def weighted(weights: Mapping[X, Fraction | int]) -> Finite[X]:
    """Secrets in proportion to weights.

    >>> weighted({"ill": 1, "well": 98}).mass("ill")
    Fraction(1, 99)
    """
    masses = [_chance(x, weight) for x, weight in weights.items()]
    if not sum(masses):
        raise InvalidParameter("prior", "no weight", "give at least one secret a weight above 0")
    return Finite(tuple(weights), tuple(mass / sum(masses) for mass in masses))


def of_answers(databases: Finite[X], query: Mapping[X, W]) -> Finite[W]:
    """What is believed about the answer of a query, from what is believed about databases.

    >>> coins = uniform([(a, b) for a in (0, 1) for b in (0, 1)])
    >>> of_answers(coins, {each: sum(each) for each in coins.outcomes}).masses
    (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))
    """
    found: dict[W, Fraction] = {}
    for database, mass in zip(databases.outcomes, databases.masses, strict=True):
        if database not in query:
            raise InvalidParameter("query", database, "give the answer of every database of the prior")
        found[query[database]] = found.get(query[database], Fraction(0)) + mass
    return Finite(tuple(found), tuple(found.values()))


def _chance(secret: object, mass: Fraction | int) -> Fraction:
    number = exact(f"prior of {secret}", mass)
    if number < 0:
        raise InvalidParameter(f"prior of {secret}", number, "probabilities are at least 0")
    return number


# Gains ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gain(Generic[W, X]):
    """What each guess is worth about each secret."""

    guesses: tuple[W, ...]
    score: Score[W, X]
    name: str = "a gain of your own"

    def __post_init__(self) -> None:
        if not self.guesses:
            raise InvalidParameter("guesses", "none", "give at least one guess")

    def of(self, guess: W, secret: X) -> Fraction:
        """The worth of one guess about one secret."""
        value = self.score(guess, secret)
        return exact(f"gain of {guess} about {secret}", value)

    @classmethod
    def matrix(
        cls, rows: Sequence[Sequence[Fraction | int]], guesses: Sequence[W], secrets: Sequence[X]
    ) -> Gain[W, X]:
        """A row for every guess, a column for every secret.

        >>> Gain.matrix([[1, 0]], guesses=["yes", "no"], secrets=["ill", "well"])
        Traceback (most recent call last):
        sfumato.errors.InvalidParameter: gain = 1 rows of [2] cannot be used: give 2 rows, one for every guess, of 2 numbers, one for every secret
        """  # noqa: E501  # a doctest cannot be broken
        if len(rows) != len(guesses) or any(len(row) != len(secrets) for row in rows):
            sizes = sorted({len(row) for row in rows})
            advice = f"give {len(guesses)} rows, one for every guess, "
            advice += f"of {len(secrets)} numbers, one for every secret"
            raise InvalidParameter("gain", f"{len(rows)} rows of {sizes}", advice)
        table = {
            (w, x): exact(f"gain of {w} about {x}", value)
            for w, row in zip(guesses, rows, strict=True)
            for x, value in zip(secrets, row, strict=True)
        }
        return cls(tuple(guesses), lambda w, x: table[w, x], "a matrix")

    def about(self, query: Mapping[D, X]) -> Gain[W, D]:
        """The same gain where the secrets are databases and the guess is about the answer of a query."""
        return Gain(self.guesses, lambda w, database: self.score(w, query[database]), self.name)


def identity(secrets: Iterable[X]) -> Gain[X, X]:
    """1 for naming the secret, 0 for anything else.

    >>> identity(range(3)).of(1, 1), identity(range(3)).of(1, 2)
    (Fraction(1, 1), Fraction(0, 1))
    """
    return Gain(tuple(dict.fromkeys(secrets)), lambda w, x: int(w == x), "identity")


def nearness(
    secrets: Iterable[int], *, most: Fraction | int = 0, distance: Score[int, int] | None = None
) -> Gain[int, int]:
    """`most` less the distance of the guess: with 0, what is lost; with the widest distance, never negative.

    >>> nearness(range(11), most=10).of(3, 7)
    Fraction(6, 1)
    """
    far = distance or (lambda w, x: abs(w - x))
    return Gain(tuple(dict.fromkeys(secrets)), lambda w, x: Fraction(most) - far(w, x), "nearness")


# Of tables -----------------------------------------------------------------------------------------------


def best_remap(table: Table[X, Y], belief: Finite[X], gain: Gain[W, X]) -> dict[Y, W]:
    """The guess that gains most for every output; of several, the first.

    >>> stairs = Table.geometric(ratio=Fraction(1, 2), size=3)
    >>> best_remap(stairs, weighted({0: 8, 1: 1, 2: 1}), identity(range(3)))
    {0: 0, 1: 0, 2: 0}
    """
    return {y: guess for y, (guess, _) in _best(table, belief, gain).items()}


def utility(table: Table[X, Y], belief: Finite[X], gain: Gain[W, X]) -> Fraction:
    """What a reader with this belief gains who makes the best of every output.

    >>> utility(Table.geometric(ratio=Fraction(1, 2), size=11), uniform(range(11)), identity(range(11)))
    Fraction(13, 33)
    """
    return sum((worth for _, worth in _best(table, belief, gain).values()), Fraction(0))


def expected(
    table: Table[X, Y], belief: Finite[X], gain: Gain[W, X], remap: Mapping[Y, W] | None = None
) -> Fraction:
    """What a reader gains who makes this of every output; without a remap, who takes it at its word.

    >>> stairs = Table.geometric(ratio=Fraction(1, 2), size=11)
    >>> round(float(expected(stairs, uniform(range(11)), nearness(range(11), most=10))), 6)
    8.908973
    """
    total = Fraction(0)
    for x, mass, row in _believed(table, belief):
        for y, chance in zip(table.outputs, row, strict=True):
            if remap is not None and y not in remap:
                raise InvalidParameter("remap", f"nothing for {y}", "say what to guess for every output")
            guess = y if remap is None else remap[y]
            if chance and mass:
                total += mass * chance * gain.of(guess, x)  # type: ignore[arg-type]  # an output taken as a guess
    return total


def bayes_risk(table: Table[X, Y], belief: Finite[X]) -> Fraction:
    """How often the best guess of the secret is wrong.

    >>> bayes_risk(Table.geometric(ratio=Fraction(1, 2), size=11), uniform(range(11)))
    Fraction(20, 33)
    """
    return 1 - utility(table, belief, identity(belief.outcomes))


def _best(table: Table[X, Y], belief: Finite[X], gain: Gain[W, X]) -> dict[Y, tuple[W, Fraction]]:
    """For every output the best guess, and what it gains in all: its share of the utility."""
    rows = [(x, mass, row) for x, mass, row in _believed(table, belief) if mass]
    worths = {w: [mass * gain.of(w, x) for x, mass, _ in rows] for w in gain.guesses}
    found: dict[Y, tuple[W, Fraction]] = {}
    for j, y in enumerate(table.outputs):
        column = [row[j] for _, _, row in rows]
        best: tuple[W, Fraction] | None = None
        for w, parts in worths.items():
            worth = sum((part * p for part, p in zip(parts, column, strict=True) if part and p), Fraction(0))
            if best is None or worth > best[1]:
                best = w, worth
        assert best is not None
        found[y] = best
    return found


def _believed(table: Table[X, Y], belief: Finite[X]) -> list[tuple[X, Fraction, tuple[Fraction, ...]]]:
    """The secrets of a belief with their rows."""
    rows = dict(zip(table.secrets, table.rows, strict=True))
    if missing := [x for x in belief.outcomes if x not in rows]:
        raise InvalidParameter(
            "prior", f"{missing[0]} has no row", "the prior may only contain secrets of the table"
        )
    return [(x, mass, rows[x]) for x, mass in zip(belief.outcomes, belief.masses, strict=True)]


# Of one output ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guess(Generic[W]):
    """The best guess for one output, what it is expected to gain, and what is believed after it."""

    value: W
    gain: float
    after: dict[int, float]


def guess(noise: Line, seen: int, belief: Finite[int], gain: Gain[W, int], *, step: int = 1) -> Guess[W]:
    """What to make of a number with additive noise: post-processing, so it costs nothing.

    `seen` was released for an answer x as x * step + noise. In floats: no guarantee depends on it.

    >>> from sfumato.mechanisms import DiscreteLaplace
    >>> few = weighted({n: 1 for n in range(5)})
    >>> told = guess(DiscreteLaplace(scale=Fraction(2)), -3, few, nearness(range(5)))
    >>> told.value, round(told.gain, 3)
    (1, -0.952)
    """
    pairs = [(x, mass) for x, mass in zip(belief.outcomes, belief.masses, strict=True) if mass]
    masses = [noise.log_mass(seen - x * step).high for x, _ in pairs]
    nearest = max(masses)
    logs = [
        math.log(mass.numerator) - math.log(mass.denominator) + float(each - nearest)
        for (_, mass), each in zip(pairs, masses, strict=True)
    ]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    after = {x: weight / sum(weights) for (x, _), weight in zip(pairs, weights, strict=True)}
    best: tuple[W, float] | None = None
    for w in gain.guesses:
        worth = sum(chance * float(gain.of(w, x)) for x, chance in after.items())
        if best is None or worth > best[1]:
            best = w, worth
    assert best is not None
    return Guess(*best, after)


# Of additive noise, without its matrix ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """The utility of a noise on 0 .. n over all its outputs, and the best guess for those from 0 to n."""

    utility: float
    remap: tuple[int, ...]


def of_noise(
    noise: Line, belief: Sequence[float], gain: Literal["identity", "nearness"] = "identity", most: float = 0
) -> Reading:
    """The utility of adding a noise to an answer in 0 .. n, for a belief about it, with the best remap.

    With "nearness" a guess is worth `most` less its distance. It takes the time of the answers for geometric
    noise, and of the answers times the width of the noise for others, of which 10^-15 is left out. Floats.

    >>> from sfumato.mechanisms import DiscreteLaplace
    >>> half = DiscreteLaplace(scale=Fraction(14426950408889634, 10**16))  # ln 2 a step, nearly
    >>> round(of_noise(half, [1 / 11] * 11).utility, 6)
    0.393939
    """
    chances = np.array(belief, dtype=np.float64)
    whole("prior", len(chances), least=1)
    if not (np.isfinite(chances).all() and (chances >= 0).all() and abs(chances.sum() - 1) < 1e-9):
        raise InvalidParameter("prior", f"sum {chances.sum():.12g}", "probabilities add up to 1")
    if isinstance(noise, DiscreteLaplace):
        return _of_geometric(1 / float(noise.scale), chances, gain, most)
    window = noise.window(TAIL)
    first, size = window.start, len(window)
    edges = np.arange(first - 1, window.stop, dtype=np.float64)
    beyond = noise.tails(edges)
    masses = beyond[:-1] - beyond[1:]  # of first, first + 1, ...
    outputs = len(chances) + size - 1  # from `first` on
    if gain == "identity":
        best, guess = np.zeros(outputs), np.zeros(outputs, dtype=np.int64)
        for k in range(size):  # output first + k + x of secret x
            worth = masses[k] * chances
            part = best[k : k + len(chances)]
            better = worth > part
            guess[k : k + len(chances)][better] = np.flatnonzero(better)
            part[better] = worth[better]
        total = float(best.sum())
    else:
        guess, lost = _medians(chances, masses, outputs)
        total = most - lost
    return Reading(total, tuple(guess[-first : -first + len(chances)].tolist()))


def _of_geometric(
    rate: float, chances: NDArray[np.float64], gain: Literal["identity", "nearness"], most: float
) -> Reading:
    """The same for probabilities in proportion to a^|y - x|, where a = exp(-rate).

    Outputs beyond an end tell what the end tells, and weigh a/(1 - a) times as much. Sums and maxima over
    secrets on one side of an output follow from those at the next output.
    """
    a = math.exp(-rate)
    ends = np.full(len(chances), -math.expm1(-rate) / (1 + a))
    ends[0] = ends[-1] = 1 / (1 + a) if len(chances) > 1 else 1.0
    if gain == "identity":
        up, down = _nearest(a, chances), _nearest(a, chances[::-1])
        best = np.maximum(up[0], down[0][::-1])
        guess = np.where(up[0] >= down[0][::-1], up[1], len(chances) - 1 - down[1][::-1])
        return Reading(float((best * ends).sum()), tuple(guess.tolist()))
    under, under_far = _moments(a, chances)
    over, over_far = (each[::-1] for each in _moments(a, chances[::-1]))
    weight = under + over - chances
    guess = np.zeros(len(chances), dtype=np.int64)
    w = 0
    for y in range(len(chances)):  # what is believed grows with the output, and so does its median
        while True:
            if w < y:
                below = a ** (y - w) * under[w]
            else:
                below = under[y] + (over[y] - chances[y]) - a ** (w - y) * (over[w] - chances[w])
            if 2 * below >= weight[y] * (1 - 1e-12) or w == len(chances) - 1:
                break
            w += 1
        guess[y] = w
    y_ = np.arange(len(chances))
    gap = np.abs(guess - y_).astype(np.float64)
    left = 2 * a**gap * under_far[guess] + gap * (under + over - chances) - under_far + over_far
    right = 2 * a**gap * over_far[guess] + gap * (under + over - chances) - over_far + under_far
    lost = float((np.where(guess <= y_, left, right) * ends).sum())
    return Reading(most - lost, tuple(guess.tolist()))


def _nearest(a: float, chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For every y the largest chances[x] a^(y - x) over x <= y, and its x."""
    best, where = chances.copy(), np.arange(len(chances))
    for y in range(1, len(chances)):
        if best[y - 1] * a > best[y]:
            best[y], where[y] = best[y - 1] * a, where[y - 1]
    return best, where


def _moments(a: float, chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every y the sums over x <= y of chances[x] a^(y - x), plain and times y - x."""
    plain, far = chances.copy(), np.zeros(len(chances))
    for y in range(1, len(chances)):
        far[y] = a * (far[y - 1] + plain[y - 1])
        plain[y] += a * plain[y - 1]
    return plain, far


def _medians(
    chances: NDArray[np.float64], masses: NDArray[np.float64], outputs: int
) -> tuple[NDArray[np.int64], float]:
    """For every output the median of what is then believed, and how far off it is in all, on average."""
    size = len(masses)
    weight = np.convolve(chances, masses)
    below = np.zeros(outputs)
    guess = np.full(outputs, -1, dtype=np.int64)
    for k in reversed(range(size)):  # secrets from the smallest on: output - first - k
        part = slice(k, k + len(chances))
        below[part] += masses[k] * chances
        found = (guess[part] < 0) & (2 * below[part] >= weight[part]) & (weight[part] > 0)
        guess[part][found] = np.flatnonzero(found)
    guess[guess < 0] = 0
    lost = 0.0
    secrets = np.arange(len(chances), dtype=np.float64)
    for k in range(size):
        lost += float((masses[k] * chances * np.abs(guess[k : k + len(chances)] - secrets)).sum())
    return guess, lost
