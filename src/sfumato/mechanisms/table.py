"""Finite mechanisms: a probability for every secret and every output, all of them fractions.

Whatever releases one of finitely many outputs about one of finitely many secrets is a row-stochastic matrix.
Of a matrix everything can be computed exactly: its epsilon, which neighbours and which output are the worst,
its whole (epsilon, delta) curve, what remains after post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import ClassVar, Generic, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, price, rational, set_fields, whole
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.guarantee import decimal
from sfumato.mechanisms.mechanism import Finite, Mechanism

X = TypeVar("X", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
Z = TypeVar("Z", bound=Hashable)
W = TypeVar("W", bound=Hashable)

Neighbours = Iterable[tuple[X, X]]
ROUGH = Fraction(1, 10**6)  # how far from 1 a row of floats may add up


@dataclass(frozen=True, slots=True)
class Worst(Generic[X, Y]):
    """Where a mechanism tells the most: an output, the secret under which it is likely, and the other one.

    `ratio` is that of the two probabilities, None if the second is zero. `epsilon` is its logarithm (divided
    by the distance, if a metric was given), rounded up; None stands for infinity.
    """

    ratio: Fraction | None
    epsilon: Fraction | None
    pair: tuple[X, X] | None = None
    output: Y | None = None

    def __str__(self) -> str:
        if self.pair is None:
            return "epsilon 0: no output tells any two neighbours apart"
        size = "infinite" if self.epsilon is None else decimal(self.epsilon)
        likelier = "impossible" if self.ratio is None else f"{decimal(self.ratio)} times less likely"
        return f"epsilon {size}: output {self.output} under {self.pair[0]} is {likelier} under {self.pair[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Mechanism[X, Y]):
    """A row-stochastic matrix: `rows[i][j]` is the probability of `outputs[j]` under `secrets[i]`.

    Guarantee: pure DP with the epsilon of its worst pair of rows, at every distance.
    Proof: docs/explanation/finite-mechanisms.md#guarantee; the ratio is attained, so it is exact.

    >>> coin = Table(rows=((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
    >>> print(coin.worst())
    epsilon 1.098612288669: output 0 under 0 is 3 times less likely under 1
    """

    name: ClassVar[str] = "table"
    rows: tuple[tuple[Fraction, ...], ...]
    secrets: tuple[X, ...] = ()
    outputs: tuple[Y, ...] = ()

    def __post_init__(self) -> None:
        if not self.rows or not self.rows[0]:
            raise InvalidParameter(
                "rows", "an empty table", "give a row for every secret, a column for every output"
            )
        secrets: tuple[Hashable, ...] = self.secrets or tuple(range(len(self.rows)))
        outputs: tuple[Hashable, ...] = self.outputs or tuple(range(len(self.rows[0])))
        for name, labels, size in (
            ("secrets", secrets, len(self.rows)),
            ("outputs", outputs, len(self.rows[0])),
        ):
            if len(labels) != size or len(set(labels)) != size:
                raise InvalidParameter(name, f"{len(labels)} labels", f"give {size} different ones")
        for secret, row in zip(secrets, self.rows, strict=True):
            _check_row(secret, row, len(outputs))
        rows = tuple(tuple(exact("rows", entry) for entry in row) for row in self.rows)
        set_fields(self, rows=rows, secrets=secrets, outputs=outputs)

    @classmethod
    def of(cls, secrets: Iterable[X], law: Callable[[X], Mapping[Y, Fraction | int]]) -> Table[X, Y]:
        """The table of a function from secrets to probabilities of outputs; what is not listed has none.

        >>> Table.of(range(50, 251), lambda height: {150: 1}).worst().epsilon  # always 150: epsilon 0
        Fraction(0, 1)
        """
        laws = {secret: law(secret) for secret in secrets}
        outputs = tuple(dict.fromkeys(output for masses in laws.values() for output in masses))
        rows = tuple(tuple(Fraction(masses.get(output, 0)) for output in outputs) for masses in laws.values())
        return cls(rows=rows, secrets=tuple(laws), outputs=outputs)

    @classmethod
    def from_floats(
        cls,
        rows: Sequence[Sequence[float]],
        *,
        bits: int = 53,
        neighbours: Neighbours[int] | None = None,
    ) -> Rounded:
        """The nearest table on a grid, with the epsilon that *it* has: floats never add up to exactly 1.

        Every entry is rounded to a multiple of 2^-bits, then each row is divided by its sum.

        >>> print(Table.from_floats([[0.9, 0.1], [0.1, 0.9]]))  # doctest: +ELLIPSIS
        epsilon 2.197224577337 after moving probabilities by at most 2.8e-17: output 0 under 0 is ...
        """
        if not 1 <= whole("bits", bits) <= 1000:
            raise InvalidParameter("bits", bits, "give the bits kept of each probability, such as 53")
        table = []
        for i, row in enumerate(rows):
            for entry in row:
                if not (math.isfinite(entry) and entry >= 0):
                    raise InvalidParameter(f"rows[{i}]", entry, "probabilities are finite and at least 0")
            kept = [round(Fraction(float(entry)) * (1 << bits)) for entry in row]
            if not any(kept) or abs(Fraction(sum(kept), 1 << bits) - 1) > ROUGH + Fraction(
                len(row), 1 << bits
            ):
                raise InvalidParameter(f"rows[{i}]", f"sum {sum(row)}", "the entries of a row add up to 1")
            table.append(tuple(Fraction(entry, sum(kept)) for entry in kept))
        found: Table[int, int] = Table(rows=tuple(table))
        moved = max(
            abs(a - Fraction(float(b)))
            for new, old in zip(found.rows, rows, strict=True)
            for a, b in zip(new, old, strict=True)
        )
        return Rounded(found, found.worst(neighbours), float(moved))

    # as a mechanism

    def law(self, answer: X) -> Finite[Y]:
        return Finite(self.outputs, self._row(answer))

    def _row(self, secret: X) -> tuple[Fraction, ...]:
        if secret not in self.secrets:
            raise InvalidParameter(
                "answer", "a secret without a row", "extend the table: it must cover every answer"
            )
        return self.rows[self.secrets.index(secret)]

    def _bound(self, distance: Distance) -> Bound:  # noqa: ARG002  # the same at every distance
        return Bound(epsilon=self.worst().epsilon)

    # what it tells

    def worst(self, neighbours: Neighbours[X] | None = None) -> Worst[X, Y]:
        """Its exact epsilon over these pairs of secrets (all pairs if none are given), and where it is."""
        if neighbours is None:
            return self._worst_of_columns()
        return self._worst(((x, other, Fraction(1)) for x, other in _both_ways(neighbours)))

    def worst_under(self, metric: Callable[[X, X], Fraction | int]) -> Worst[X, Y]:
        """The smallest epsilon with ratio <= exp(epsilon metric(x, x')) for all secrets: d_X-privacy.

        >>> stairs = Table.geometric(ratio=Fraction(1, 2), size=4)
        >>> round(float(stairs.worst_under(lambda x, y: abs(x - y)).epsilon), 6)  # ln 2 a step
        0.693147
        """
        pairs = ((x, other, Fraction(metric(x, other))) for x, other in permutations(self.secrets, 2))
        return self._worst(pairs)

    def _worst_of_columns(self) -> Worst[X, Y]:
        """Over all pairs the worst ratio of an output is that of its largest and its smallest entry."""
        ratio = Fraction(1)
        found: Worst[X, Y] = Worst(ratio, Fraction(0))
        for j, output in enumerate(self.outputs):
            column = [row[j] for row in self.rows]
            most, least = max(column), min(column)
            pair = self.secrets[column.index(most)], self.secrets[column.index(least)]
            if most > 0 and least == 0:
                return Worst(None, None, pair, output)
            if most > 0 and most / least > ratio:
                ratio = most / least
                found = Worst(ratio, _log_up(ratio), pair, output)
        return found

    def _worst(self, pairs: Iterable[tuple[X, X, Fraction]]) -> Worst[X, Y]:
        """Ratios are compared as fractions; only different ones at different distances need logarithms."""
        index = {secret: i for i, secret in enumerate(self.secrets)}
        worst: dict[Fraction, Worst[X, Y]] = {}  # by distance
        for x, other, distance in pairs:
            if x not in index or other not in index:
                raise InvalidParameter("neighbours", (x, other), "both must be secrets of this table")
            if distance < 0:
                raise InvalidParameter("metric", distance, "a distance is at least 0")
            ratio, j = _largest_ratio(self.rows[index[x]], self.rows[index[other]])
            if ratio is None or (distance == 0 and ratio > 1):
                return Worst(ratio, None, (x, other), self.outputs[j])
            known = worst.get(distance)
            if ratio > 1 and (known is None or known.ratio is None or ratio > known.ratio):
                worst[distance] = Worst(ratio, None, (x, other), self.outputs[j])
        found: Worst[X, Y] = Worst(Fraction(1), Fraction(0))
        for distance, each in worst.items():
            assert each.ratio is not None
            epsilon = numbers.round_up(_log_up(each.ratio) / distance, 64)
            if found.epsilon is None or epsilon > found.epsilon:
                found = replace(each, epsilon=epsilon)
        return found

    def delta(self, *, epsilon: Fraction, neighbours: Neighbours[X] | None = None) -> Fraction:
        """The smallest delta that goes with this epsilon, rounded up: the largest sum of p - e^epsilon p'.

        >>> coin = Table(rows=((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
        >>> coin.delta(epsilon=Fraction(0)), coin.delta(epsilon=Fraction(11, 10))
        (Fraction(1, 2), Fraction(0, 1))
        """
        factor = numbers.exp(price("epsilon", epsilon, zero=True)).low  # less is taken away: an upper bound
        pairs = permutations(self.secrets, 2) if neighbours is None else _both_ways(neighbours)

        def excess(x: X, other: X) -> Fraction:
            both = zip(self._row(x), self._row(other), strict=True)
            return sum((max(a - factor * b, Fraction(0)) for a, b in both), Fraction(0))

        return max((excess(x, other) for x, other in pairs), default=Fraction(0))

    def curve(
        self, epsilons: Iterable[Fraction], neighbours: Neighbours[X] | None = None
    ) -> tuple[tuple[Fraction, Fraction], ...]:
        """(epsilon, delta) for each epsilon."""
        pairs = None if neighbours is None else tuple(neighbours)
        return tuple((epsilon, self.delta(epsilon=epsilon, neighbours=pairs)) for epsilon in epsilons)

    # building others from it

    def after(self, query: Mapping[W, X]) -> Table[W, Y]:
        """The oblivious mechanism: answer the query exactly, then use this table on the answer."""
        rows = tuple(self._row(answer) for answer in query.values())
        return Table(rows=rows, secrets=tuple(query), outputs=self.outputs)

    def looks_only_at(self, query: Mapping[X, Hashable]) -> bool:
        """Whether it is oblivious: secrets with the same answer to the query have the same row."""
        rows: dict[Hashable, tuple[Fraction, ...]] = {}
        return all(
            rows.setdefault(query[x], row) == row for x, row in zip(self.secrets, self.rows, strict=True)
        )

    def then(self, post: Table[Y, Z]) -> Table[X, Z]:
        """Post-processing: feed its output into another table. It never costs more."""
        if missing := [output for output in self.outputs if output not in post.secrets]:
            raise InvalidParameter(
                "post", f"no row for {missing[0]}", "give one for every output of this table"
            )
        steps = [post._row(output) for output in self.outputs]
        rows = tuple(
            tuple(
                sum((p * step[j] for p, step in zip(row, steps, strict=True)), Fraction(0))
                for j in range(len(post.outputs))
            )
            for row in self.rows
        )
        return Table(rows=rows, secrets=self.secrets, outputs=post.outputs)

    def beside(self, other: Table[X, Z]) -> Table[X, tuple[Y, Z]]:
        """Both outputs, drawn independently about the same secret: the epsilons add up at most."""
        if set(self.secrets) != set(other.secrets):
            raise InvalidParameter("other", "other secrets", "both tables must be about the same secrets")
        outputs = tuple((y, z) for y in self.outputs for z in other.outputs)
        rows = tuple(
            tuple(p * q for p in row for q in other._row(x))
            for x, row in zip(self.secrets, self.rows, strict=True)
        )
        return Table(rows=rows, secrets=self.secrets, outputs=outputs)

    def across(self, other: Table[W, Z]) -> Table[tuple[X, W], tuple[Y, Z]]:
        """Two independent secrets, each with its own table: a change of one secret costs its own epsilon."""
        rows = tuple(tuple(p * q for p in row for q in next_) for row in self.rows for next_ in other.rows)
        secrets = tuple((x, w) for x in self.secrets for w in other.secrets)
        outputs = tuple((y, z) for y in self.outputs for z in other.outputs)
        return Table(rows=rows, secrets=secrets, outputs=outputs)

    # two textbook families

    @classmethod
    def geometric(cls, *, ratio: Fraction, size: int) -> Table[int, int]:
        """The truncated geometric mechanism on 0 .. size-1: what falls outside is moved to the ends.

        >>> [str(p) for p in Table.geometric(ratio=Fraction(1, 2), size=3).rows[0]]
        ['2/3', '1/6', '1/6']
        """
        _check_ratio(ratio, size)

        def mass(y: int, z: int) -> Fraction:
            if size == 1:
                return Fraction(1)
            ends = ratio ** abs(z - y) / (1 + ratio)
            return ends if z in (0, size - 1) else ends * (1 - ratio)

        return Table(rows=tuple(tuple(mass(y, z) for z in range(size)) for y in range(size)))

    @classmethod
    def renormalised(cls, *, ratio: Fraction, size: int) -> Table[int, int]:
        """A warning: the geometric law *divided by* its mass inside the range, at more than ln(1/ratio).

        >>> Table.renormalised(ratio=Fraction(1, 2), size=3).worst([(0, 1), (1, 2)]).ratio
        Fraction(16, 7)
        """
        _check_ratio(ratio, size)
        weights = [[Fraction(ratio) ** abs(z - y) for z in range(size)] for y in range(size)]
        return Table(rows=tuple(tuple(w / sum(row) for w in row) for row in weights))


@dataclass(frozen=True, slots=True)
class Rounded:
    """What became of a matrix of floats: the table, its worst pair, and the largest change of an entry."""

    table: Table[int, int]
    worst: Worst[int, int]
    moved: float

    @property
    def epsilon(self) -> Fraction | None:
        """What the rounded table guarantees; None if it guarantees nothing."""
        return self.worst.epsilon

    def __str__(self) -> str:
        head, _, tail = str(self.worst).partition(":")
        return f"{head} after moving probabilities by at most {self.moved:.1e}:{tail}"


def _check_row(secret: Hashable, row: tuple[Fraction, ...], size: int) -> None:
    name = f"row of {secret}"
    if len(row) != size:
        raise InvalidParameter(
            name, f"{len(row)} entries", f"every row has one for each of the {size} outputs"
        )
    for entry in row:
        if not isinstance(entry, (int, Fraction)):
            raise InvalidParameter(
                name, entry, "entries are Fractions; for floats use Table.from_floats(rows)"
            )
        if entry < 0:
            raise InvalidParameter(name, entry, "probabilities are at least 0")
    if sum(row) != 1:
        raise InvalidParameter(
            name,
            f"sum {sum(row)}",
            "the entries of a row add up to exactly 1; for floats use Table.from_floats(rows)",
        )


def _check_ratio(ratio: Fraction, size: int) -> None:
    if rational("ratio", ratio) >= 1:
        raise InvalidParameter("ratio", ratio, "give exp(-epsilon), a Fraction between 0 and 1")
    whole("size", size, least=1)


def _largest_ratio(row: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> tuple[Fraction | None, int]:
    """The largest ratio of two rows and where it is; None if something possible here is impossible there."""
    best, where = Fraction(0), 0
    for j, (a, b) in enumerate(zip(row, other, strict=True)):
        if a and not b:
            return None, j
        if a and a > best * b:
            best, where = a / b, j
    return best, where


def _both_ways(neighbours: Neighbours[X]) -> Iterable[tuple[X, X]]:
    for x, other in neighbours:
        yield x, other
        yield other, x


def _log_up(ratio: Fraction) -> Fraction:
    return numbers.round_up(numbers.log(ratio).high, 64)
