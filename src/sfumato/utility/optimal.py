"""The best mechanism for an analyst: by a closed form where there is one, else by a linear program.

For a belief, a gain and an epsilon between neighbours, the best mechanism whose outputs are the guesses is
the solution of a linear program. But **what a solver returns is not private**: its entries are off by 10^-10
or so, which is nothing to an entry of a half and everything to one of 10^-12. So the program is solved for a
little less than epsilon, every column is replaced by its envelope (the least function above it that falls by
no more than the factor allowed), rows are normalised as fractions, and the epsilon of the result is computed
from these fractions with logarithms rounded up. A table that does not keep what was asked for is never
returned.

Where the answers form a path and the gain falls with distance, the truncated geometric mechanism with the
best remap is optimal, for every belief at once (Ghosh, Roughgarden and Sundararajan, 2009); beyond paths
there is in essence no such mechanism (Brenner and Nissim, 2010).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms import Finite, Table
from sfumato.mechanisms.arguments import price
from sfumato.mechanisms.guarantee import decimal
from sfumato.utility.gain import Gain, identity, uniform, weighted
from sfumato.utility.programs import ULP, Program, Solved

if TYPE_CHECKING:
    from numpy.typing import NDArray

X = TypeVar("X", bound=Hashable)
W = TypeVar("W", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
Neighbours = Iterable[tuple[X, X]]
SLACKS = (Fraction(1, 10**5), Fraction(1, 10**4), Fraction(1, 10**3))  # parts of epsilon kept for rounding
TRIED, SEEN, FEW = 12, 1e-6, 8  # beliefs tried for a counterexample, what must show, of so many secrets
FARTHEST = 300  # epsilon times a distance: fractions beyond it would have hundreds of digits
FARTHEST_ON_A_PATH = 5000  # there they may have thousands, since no solver has to read them
MOST_SECRETS = 400  # secrets or guesses, beyond which no program is started
MOST_LEANING = 12.0  # the logarithm of how much likelier one secret may be than another, in what is tried
LONGEST_PATH = 1001  # answers on a path, beyond which no table is made: a count of a thousand people
KEPT_BITS = 128  # of each probability on a path
SPARED = Fraction(1, 1 << 56)  # the part of epsilon kept for rounding on a path, far below what a float shows


@dataclass(frozen=True, slots=True)
class Optimal(Generic[X, Y]):
    """A mechanism, what an analyst gains from it, and what no mechanism at this epsilon can exceed.

    `epsilon` is that of the table itself, computed from its fractions and rounded up: never above the asked.
    `bound` is proved, by a theorem for a closed form and by the multipliers of a program otherwise.
    """

    table: Table[X, Y]
    utility: float
    bound: float
    epsilon: Fraction
    how: Literal["closed form", "linear program"]

    def __str__(self) -> str:
        gained = f"gains {self.utility:.9g}, of at most {self.bound:.9g} at this epsilon"
        return f"{self.how}: {gained}; epsilon {decimal(self.epsilon)}"


def optimal(
    belief: Finite[X],
    gain: Gain[W, X],
    *,
    epsilon: Fraction,
    neighbours: Neighbours[X] | None = None,
    metric: Callable[[X, X], Fraction | int] | None = None,
    program: bool = False,
) -> Optimal[X, Hashable]:
    """The mechanism in which this analyst gains most, among all with this epsilon between neighbours.

    Without `neighbours` all pairs are neighbours. With a `metric` the factor between two secrets is
    exp(epsilon metric): d-privacy. With `program` the linear program is solved even where a closed form is
    known.

    >>> from sfumato.utility.gain import nearness
    >>> ages = range(6)
    >>> best = optimal(uniform(ages), nearness(ages), epsilon=Fraction(1), neighbours=path(ages))
    >>> print(best)
    closed form: gains -0.627118807, of at most -0.627118807 at this epsilon; epsilon 1
    """
    asked = price("epsilon", epsilon)
    if len(belief.outcomes) > LONGEST_PATH:
        told = f"a table is made for up to {LONGEST_PATH:,}; group them"
        raise InvalidParameter("prior", f"{len(belief.outcomes):,} secrets", told)
    space = _space(belief.outcomes, neighbours, metric)
    order = None if program else space.line()
    if order is not None and _falls(gain, order):
        _not_too_far(asked, space, FARTHEST_ON_A_PATH)
        closed = _closed(belief, gain, asked, order, space)
        if closed is not None:
            return closed
    _not_too_far(asked, space, FARTHEST)
    return _by_program(belief, gain, asked, space)


def _not_too_far(epsilon: Fraction, space: _Space[X], most: int) -> None:
    if float(epsilon) * float(space.distances.max()) > most:
        advice = f"times the widest distance it is above {most:,}: nothing is hidden there; give less"
        raise InvalidParameter("epsilon", epsilon, advice)


def path(secrets: Iterable[X]) -> tuple[tuple[X, X], ...]:
    """Each secret is a neighbour of the next.

    >>> path("abc")
    (('a', 'b'), ('b', 'c'))
    """
    return tuple(itertools.pairwise(secrets))


def induced(query: Mapping[X, Y], neighbours: Neighbours[X]) -> tuple[tuple[Y, Y], ...]:
    """Which answers of a query are neighbours: those of some two neighbouring databases.

    >>> bits = {(a, b): a + b for a in (0, 1) for b in (0, 1)}
    >>> induced(bits, [((0, 0), (0, 1)), ((0, 1), (1, 1)), ((0, 0), (1, 0)), ((1, 0), (1, 1))])
    ((0, 1), (1, 2))
    """
    found: dict[frozenset[Y], tuple[Y, Y]] = {}
    for one, other in neighbours:
        if one not in query or other not in query:
            raise InvalidParameter("neighbours", (one, other), "the query must answer both")
        pair = query[one], query[other]
        if pair[0] != pair[1]:
            found.setdefault(frozenset(pair), pair)
    return tuple(found.values())


# Universal optimality ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Universal(Generic[X]):
    """Whether one mechanism is the best for all analysts whose gain falls with distance, and why.

    On a path it is the truncated geometric mechanism, in this order of the secrets. Elsewhere `beliefs` are
    two for which no mechanism is the best for both, if such were found: what a best one for each gains
    under both, after the best remap, is in `gains`, a row for each mechanism.
    """

    order: tuple[X, ...] | None
    why: str
    beliefs: tuple[Finite[X], ...] = ()
    gains: tuple[tuple[float, float], ...] = ()

    def __bool__(self) -> bool:
        return self.order is not None


def universal(
    secrets: Iterable[X], neighbours: Neighbours[X], *, epsilon: Fraction = Fraction(1)
) -> Universal[X]:
    """Is there a mechanism that is the best for everybody? If the neighbours form a path; else look for two
    beliefs that no one mechanism serves best.

    For the chance to be right, beliefs that are uniform over some of the secrets are tried; for the mean
    distance, which is what tells trees from paths, beliefs that lean to one secret.

    >>> print(universal(range(4), path(range(4))).why)
    the answers form a path, so the truncated geometric mechanism is the best for every belief and every gain that falls with distance
    >>> ring = universal(range(3), [(0, 1), (1, 2), (2, 0)])
    >>> [[round(each, 4) for each in row] for row in ring.gains]
    [[0.5761, 0.6821], [0.4874, 0.7311]]
    """  # noqa: E501  # a doctest cannot be broken
    outcomes = tuple(dict.fromkeys(secrets))
    space = _space(outcomes, tuple(neighbours), None)
    order = space.line()
    if order is not None:
        told = (
            "the answers form a path, so the truncated geometric mechanism is the best for every belief and "
            "every gain that falls with distance"
        )
        return Universal(order, told)
    asked = price("epsilon", epsilon)
    for gain, tried in _some_readers(space, asked) if len(outcomes) <= FEW else ():
        for before, belief in itertools.combinations(tried, 2):
            if (missed := _missed(before, belief, gain, float(asked), space)) > SEEN:
                return _counterexample(before, belief, gain, asked, space, missed)
    why = (
        "the answers form no path, and in essence only paths have a mechanism that is the best for "
        "everybody; of the beliefs that were tried, no two needed different ones"
    )
    return Universal(None, why)


def _counterexample(
    before: Finite[X],
    belief: Finite[X],
    gain: Gain[X, X],
    epsilon: Fraction,
    space: _Space[X],
    missed: float,
) -> Universal[X]:
    tables = [_by_program(each, gain, epsilon, space).table for each in (before, belief)]
    gains = tuple((_gained(t, before, gain), _gained(t, belief, gain)) for t in tables)
    what = "the mean distance" if gain.name == "nearness" else "the chance to be right"
    why = (
        "the answers form no path, and for these two beliefs no mechanism is the best for both: "
        f"in {what}, together they would miss {missed:.2g}"
    )
    return Universal(None, why, (before, belief), gains)


def _some_readers(space: _Space[X], epsilon: Fraction) -> Iterator[tuple[Gain[X, X], tuple[Finite[X], ...]]]:
    """Gains that fall with distance, and beliefs to try with each.

    A reader who wants to be right needs the same on a tree as on a path. So the mean distance is tried, too,
    with beliefs that lean to one secret: as much as an answer two steps away can outweigh; and as much as all
    the others together.
    """
    outcomes = space.secrets
    index = {x: i for i, x in enumerate(outcomes)}
    yield identity(outcomes), tuple(itertools.islice(_some_beliefs(outcomes), TRIED))
    steps: Gain[X, X] = Gain(
        outcomes, lambda w, x: Fraction(-space.distances[index[w], index[x]]), "nearness"
    )
    for lean in (1 + math.ceil(math.exp(min(2 * float(epsilon), MOST_LEANING))), len(outcomes) - 1):
        leaning = (weighted({x: lean if x == one else 1 for x in outcomes}) for one in outcomes)
        yield steps, (uniform(outcomes), *leaning)


def _missed(
    before: Finite[X], belief: Finite[X], gain: Gain[X, X], epsilon: float, space: _Space[X]
) -> float:
    """How much less one mechanism gains for two readers in all than the best for each: a program over pairs.

    An output of the joint mechanism is what it makes each reader guess, so nothing is lost by the pairs.
    """
    worth, _, _ = _even(gain, space.secrets)
    chances = [np.array([float(mass) for mass in each.masses]) for each in (before, belief)]
    alone = sum(_solved(worth, each, epsilon, space).value for each in chances)
    parts = [worth * each[:, None] for each in chances]
    both = (parts[0][:, :, None] + parts[1][:, None, :]).reshape(len(space.secrets), -1)
    together = _solved(both, np.ones(len(space.secrets)), epsilon, space).bound
    return alone - together


def _some_beliefs(outcomes: tuple[X, ...]) -> Iterator[Finite[X]]:
    """Uniform over all secrets, over two, over three, and so on."""
    yield uniform(outcomes)
    for size in range(2, len(outcomes)):
        for some in itertools.combinations(outcomes, size):
            yield _on(some, outcomes)


def _on(some: tuple[X, ...], outcomes: tuple[X, ...]) -> Finite[X]:
    return Finite(outcomes, tuple(Fraction(int(x in some), len(some)) for x in outcomes))


# Spaces --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Space(Generic[X]):
    """Secrets, the pairs that say all (by index, with their distance), and all distances."""

    secrets: tuple[X, ...]
    pairs: tuple[tuple[int, int, Fraction], ...]
    distances: NDArray[np.float64]
    neighbours: tuple[tuple[X, X], ...] | None  # as they were given; None for all pairs
    metric: Callable[[X, X], Fraction | int] | None

    def line(self) -> tuple[X, ...] | None:
        """The secrets in order, if each is at distance 1 from the next and that says all."""
        if any(distance != 1 for *_, distance in self.pairs) or len(self.pairs) != len(self.secrets) - 1:
            return None
        beside: dict[int, list[int]] = {i: [] for i in range(len(self.secrets))}
        for i, j, _ in self.pairs:
            beside[i].append(j)
            beside[j].append(i)
        if any(len(each) > 2 for each in beside.values()):
            return None
        at, before, found = min(i for i, each in beside.items() if len(each) < 2), -1, []
        while at >= 0:
            found.append(self.secrets[at])
            before, at = at, next((j for j in beside[at] if j != before), -1)
        return tuple(found)


def _space(
    outcomes: tuple[X, ...],
    neighbours: Neighbours[X] | None,
    metric: Callable[[X, X], Fraction | int] | None,
) -> _Space[X]:
    if neighbours is not None and metric is not None:
        raise InvalidParameter("metric", "beside neighbours", "give one of the two")
    index = {x: i for i, x in enumerate(outcomes)}
    size = len(outcomes)
    given = None if neighbours is None else tuple(neighbours)
    edges: dict[tuple[int, int], Fraction] = {}
    if metric is not None:
        for i, x in enumerate(outcomes):
            for j in range(i):
                there, back = Fraction(metric(x, outcomes[j])), Fraction(metric(outcomes[j], x))
                if there > 10**300:
                    raise InvalidParameter(
                        "metric", f"from {x} to {outcomes[j]}", "give distances below 10^300"
                    )
                if there != back or there < 0:
                    told = f"{there} from {x} to {outcomes[j]}, {back} back"
                    raise InvalidParameter("metric", told, "a distance is at least 0, and the same both ways")
                edges[j, i] = there
    elif given is None:
        edges = {(j, i): Fraction(1) for i in range(size) for j in range(i)}
    else:
        for x, other in given:
            if x not in index or other not in index:
                raise InvalidParameter("neighbours", (x, other), "both must be secrets of the prior")
            if x != other:
                edges[min(index[x], index[other]), max(index[x], index[other])] = Fraction(1)
    distances = np.full((size, size), np.inf)
    np.fill_diagonal(distances, 0.0)
    for (i, j), length in edges.items():
        distances[i, j] = distances[j, i] = min(distances[i, j], float(length))
    for k in range(size):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k, :])
    if np.isinf(distances).any():
        apart = int(np.flatnonzero(np.isinf(distances[0]))[0])
        told = f"nothing connects {outcomes[0]} and {outcomes[apart]}"
        raise InvalidParameter(
            "neighbours", told, "the parts can be told apart at no cost: treat each separately"
        )
    kept = [
        (i, j, length) for (i, j), length in edges.items() if not _implied(i, j, length, edges, distances)
    ]
    return _Space(outcomes, tuple(kept), distances, given, metric)


def _implied(
    i: int, j: int, length: Fraction, edges: dict[tuple[int, int], Fraction], distances: NDArray[np.float64]
) -> bool:
    """Whether a way over a third secret, of two shorter legs, says as much: then the pair need not be said.

    Floats find the third secret, fractions decide.
    """
    for k in np.flatnonzero(distances[i] + distances[:, j] <= float(length) * (1 + 1e-9)).tolist():
        legs = [edges.get((min(a, k), max(a, k))) for a in (i, j)]
        known = [leg for leg in legs if leg is not None and leg < length]
        if k not in (i, j) and len(known) == 2 and sum(known) <= length:
            return True
    return False


def _falls(gain: Gain[W, X], order: tuple[X, ...]) -> bool:
    """Whether guesses are secrets, and the worth of one depends on how far it is off, and falls with that."""
    if set(gain.guesses) != set(order):
        return False
    for i, x in enumerate(order):
        worths = [gain.of(w, x) for w in order]  # type: ignore[arg-type]  # guesses are secrets
        above, below = worths[i:], worths[i::-1]
        longer, shorter = (above, below) if len(above) >= len(below) else (below, above)
        if shorter != longer[: len(shorter)] or any(a < b for a, b in itertools.pairwise(longer)):
            return False
    return True


# Both ways -----------------------------------------------------------------------------------------------


def _closed(
    belief: Finite[X], gain: Gain[W, X], epsilon: Fraction, order: tuple[X, ...], space: _Space[X]
) -> Optimal[X, Hashable] | None:
    table: Table[X, Hashable] = Table(rows=_stairs(epsilon, len(order)), secrets=order, outputs=order)
    found = _checked(table, space, epsilon)
    if found is None:
        return None
    gained = float(_gained(table, belief, gain))
    return Optimal(table, gained, gained, found, "closed form")


def _stairs(epsilon: Fraction, size: int) -> tuple[tuple[Fraction, ...], ...]:
    """The truncated geometric mechanism in so few bits that a long path does not make long fractions.

    Every power of the ratio is the one before, times the ratio, rounded up: so none is below its neighbour by
    more than the ratio. Rows are divided by their sums, which differ by the roundings alone; that, and the
    rounding of a logarithm, is what a part of epsilon is spared for.
    """
    ratio = numbers.round_up(numbers.exp(-epsilon * (1 - SPARED), KEPT_BITS).high, KEPT_BITS)
    powers = [Fraction(1)]
    for _ in range(size - 1):
        powers.append(numbers.round_up(powers[-1] * ratio, KEPT_BITS))
    inner = [power * (1 - ratio) for power in powers]
    rows = []
    for y in range(size):
        weights = [(inner if 0 < z < size - 1 else powers)[abs(z - y)] for z in range(size)]
        whole = sum(weights, Fraction(0))
        rows.append(tuple(weight / whole for weight in weights))
    return tuple(rows)


def _by_program(
    belief: Finite[X], gain: Gain[W, X], epsilon: Fraction, space: _Space[X]
) -> Optimal[X, Hashable]:
    size, guesses = len(space.secrets), len(gain.guesses)
    if max(size, guesses) > MOST_SECRETS:
        raise InvalidParameter(
            "prior", f"{size} secrets", f"a program is solved for up to {MOST_SECRETS}; group them"
        )
    worth, least, wide = _even(gain, space.secrets)
    chances = np.array([float(mass) for mass in belief.masses])
    base = sum((mass * low for mass, low in zip(belief.masses, least, strict=True)), Fraction(0))
    bound = _float(base + wide * Fraction(_solved(worth, chances, float(epsilon), space).bound))
    for slack in SLACKS:
        less = float(epsilon * (1 - slack))
        point = _solved(worth, chances, less, space).point
        table = _private(point.reshape(size, guesses), less, space, gain.guesses)
        known = _checked(table, space, epsilon)
        if known is not None:
            gained = float(_gained(table, belief, gain))
            return Optimal(table, gained, bound, known, "linear program")
    told = "the solver's tables do not keep it"
    raise InvalidParameter("epsilon", told, "nothing was returned; try one that is less extreme")


def _solved(
    worth: NDArray[np.float64], chances: NDArray[np.float64], epsilon: float, space: _Space[X]
) -> Solved:
    """The program, with floats rounded so that it allows more: its bound holds of the real one."""
    size, guesses = worth.shape
    program = Program((worth * chances[:, None]).reshape(-1) * (1 + 4 * ULP))
    for i in range(size):
        program.row([i * guesses + w for w in range(guesses)], [1.0] * guesses, low=1, high=1)
    for i, j, distance in space.pairs:
        shrunk = math.exp(-min(epsilon * float(distance) * (1 + 4 * ULP), 700.0)) * (1 - 4 * ULP)
        for one, other in ((i, j), (j, i)):
            for w in range(guesses):
                # divided by the factor, so that no coefficient is large
                indices = [one * guesses + w, other * guesses + w]
                program.row(indices, [shrunk, -1.0], low=-math.inf, high=0)
    return program.solve("epsilon")


def _private(
    point: NDArray[np.float64], epsilon: float, space: _Space[X], guesses: tuple[W, ...]
) -> Table[X, Hashable]:
    """The envelope of every column, as fractions whose rows add up to exactly 1.

    In logarithms: the least function above all log p(x') - epsilon d(x, x') falls by at most epsilon d.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(point, 0.0))
    envelope = np.max(logs[None, :, :] - epsilon * space.distances[:, :, None], axis=1)
    used = [j for j in range(point.shape[1]) if np.isfinite(envelope[0, j])]
    rows = []
    for i in range(point.shape[0]):
        entries = [_exp(float(envelope[i, j])) for j in used]
        whole = sum(entries, Fraction(0))
        rows.append(tuple(entry / whole for entry in entries))
    return Table(rows=tuple(rows), secrets=space.secrets, outputs=tuple(guesses[j] for j in used))


def _exp(log: float) -> Fraction:
    """e^log as a fraction, to the precision of a float however small it is."""
    twos = math.floor(log / math.log(2))
    return Fraction(math.exp(log - twos * math.log(2))) * Fraction(2) ** twos


def _checked(table: Table[X, Hashable], space: _Space[X], epsilon: Fraction) -> Fraction | None:
    """The table's own epsilon, computed from its fractions and rounded up; None if it is above the asked.

    It is that of all pairs that were given, not of those alone which imply the others.
    """
    worst = table.worst(space.neighbours) if space.metric is None else table.worst_under(space.metric)
    return worst.epsilon if worst.epsilon is not None and worst.epsilon <= epsilon else None


def _even(gain: Gain[W, X], secrets: tuple[X, ...]) -> tuple[NDArray[np.float64], list[Fraction], Fraction]:
    """The worth of guesses between 0 and 1 as floats, a row for each secret; what was taken off, and by what
    it was divided."""
    exact_ = [[gain.of(w, x) for w in gain.guesses] for x in secrets]
    least = [min(row) for row in exact_]
    wide = max(max(row) - low for row, low in zip(exact_, least, strict=True)) or Fraction(1)
    rows = [[float((each - low) / wide) for each in row] for row, low in zip(exact_, least, strict=True)]
    return np.array(rows), least, wide


def _gained(table: Table[X, Hashable], belief: Finite[X], gain: Gain[W, X]) -> float:
    """The utility with the best remap, in floats: for reading."""
    chances = dict(zip(belief.outcomes, belief.masses, strict=True))
    masses = [chances.get(x, Fraction(0)) for x in table.secrets]
    worth, least, wide = _even(gain, table.secrets)
    base = sum((mass * low for mass, low in zip(masses, least, strict=True)), Fraction(0))
    rows = np.array([[float(p) for p in row] for row in table.rows])
    weights = np.array([float(mass) for mass in masses])
    return _float(base + wide * Fraction(float((worth.T @ (weights[:, None] * rows)).max(axis=0).sum())))


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameter(
            "gain", "more than a float can represent", "measure it in larger units"
        ) from None
