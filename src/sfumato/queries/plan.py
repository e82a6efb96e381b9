"""A plan: exactly what is measured in the engine, and how released numbers become columns.

A `Plan` is a frozen tree. Two parts live in it. What is *measured* (relation, keys, measures) is secret until
noised and decides distances and price. What is *shown* (outputs, order, limit, which
groups) is arithmetic on released numbers: post-processing, free, and not part of the question's name (see
`forms`), so `1 + COUNT(*)` after `COUNT(*)` costs nothing.

Every measure is a histogram: for every group a fixed number of integer cells, of which all rows of one person
together fill at most `cap`, whatever they hold. A count has one cell. Averages and variances have the cells
of a Bernstein basis: for x scaled to t in [0, 1] the cells (1-t)^2, 2t(1-t), t^2 are never negative and add
up to one, so count, sum and sum of squares come from one vector that a row moves by one in all, not by three.
A median has a cell for every step of its grid.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sfumato.queries.expressions import fields
from sfumato.queries.relations import scalars_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Field, Scalar
    from sfumato.queries.relations import Relation

PARTS = 1024  # what is scaled lives on a grid of 1/1024 row or finer, so that truncating loses little
CAP = 1 << 62  # no cap is above this, and a person's total in the engine is clamped to twice of it


# What is measured ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """What is grouped by, and its public values in their order; None if the values are private."""

    expression: Scalar
    values: tuple[Value, ...] | None


@dataclass(frozen=True, slots=True)
class Clamp:
    """How a value becomes an integer: clamp to [low, high], floor on the grid 2^-exponent.

    The bounds are doubles, so that the engine's clamp and the integers below are about the same numbers.
    """

    low: Fraction
    high: Fraction
    exponent: int

    def __post_init__(self) -> None:
        assert Fraction(float(self.low)) == self.low
        assert Fraction(float(self.high)) == self.high

    @property
    def least(self) -> int:
        """The smallest integer a value can become."""
        return math.floor(self.low * Fraction(2) ** self.exponent)

    @property
    def most(self) -> int:
        """The largest integer a value can become."""
        return math.floor(self.high * Fraction(2) ** self.exponent)

    @property
    def width(self) -> int:
        """How many steps lie between them, at least one."""
        return max(self.most - self.least, 1)

    @property
    def step(self) -> Fraction:
        """What one step is worth."""
        return Fraction(2) ** -self.exponent


class Histogram(ABC):
    """For every group a fixed number of integer cells, of which one person fills at most `cap`."""

    __slots__ = ()

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many there are in a group."""

    @property
    @abstractmethod
    def cap(self) -> int:
        """What one person adds to all groups and cells at most, in absolute numbers."""

    @property
    def places(self) -> int:
        """How many integers are released for a group."""
        return self.cells

    @property
    def least(self) -> int:
        """The least one person can add to a cell."""
        return 0

    @property
    def most(self) -> int:
        """The most one person can add to a cell."""
        return self.cap


@dataclass(frozen=True, slots=True)
class Moments(Histogram):
    """Counts, sums and sums of squares (or of products of two values) from one vector of cells.

    The cells are products of Bernstein polynomials of `degree` in each value; with `nulls` there is one more
    for rows in which a value is missing. Without values, or with degree 0, it counts rows. Whoever has more
    than `rows` rows is scaled down in proportion.
    """

    values: tuple[Scalar, ...]
    clamps: tuple[Clamp, ...]  # of each value, if the degree is not 0
    degree: int
    nulls: bool
    rows: int | None  # None: every row is its own unit

    @property
    def whole(self) -> int:
        """What one row comes to, in all cells together."""
        return self.steps * self.parts

    @property
    def steps(self) -> int:
        """The same on the grids of the values."""
        steps: int = math.prod(clamp.width for clamp in self.clamps) ** self.degree if self.degree else 1
        return steps

    @property
    def parts(self) -> int:
        """Into how many parts a step is cut: where rows are scaled, a row has at least so many in all."""
        return 1 if self.rows is None else max(1, PARTS >> (self.steps.bit_length() - 1))

    @property
    def cells(self) -> int:
        basis: int = (self.degree + 1) ** len(self.clamps)
        return basis + self.nulls

    @property
    def cap(self) -> int:
        return self.whole * (self.rows or 1)


@dataclass(frozen=True, slots=True)
class Sum(Histogram):
    """A sum of clamped values, each less a centre. A person whose total is beyond the cap is scaled to it.

    The cap is that of so many rows at the farther bound, or `limit` if that is smaller.
    """

    value: Scalar
    clamp: Clamp
    rows: int | None
    centre: int = 0  # in steps of the grid
    limit: int | None = None

    @property
    def cells(self) -> int:
        return 1

    @property
    def row(self) -> tuple[int, int]:
        """The least and the most that one row can add."""
        return self.clamp.least - self.centre, self.clamp.most - self.centre

    @property
    def cap(self) -> int:
        whole = min((self.rows or 1) * max(map(abs, self.row)), CAP)
        return whole if self.limit is None or self.rows is None else min(whole, max(self.limit, 1))

    @property
    def least(self) -> int:
        if self.rows is None:
            return min(self.row[0], 0)
        return -self.cap if self.row[0] < 0 else 0

    @property
    def most(self) -> int:
        if self.rows is None:
            return max(self.row[1], 0)
        return self.cap if self.row[1] > 0 else 0


@dataclass(frozen=True, slots=True)
class People(Histogram):
    """How many persons have a row in which the value is not NULL; whoever is in more `groups` is scaled."""

    value: Scalar | None
    groups: int

    @property
    def cells(self) -> int:
        return 1

    @property
    def whole(self) -> int:
        """What one person comes to in one group."""
        return 1 if self.groups == 1 else PARTS

    @property
    def cap(self) -> int:
        return self.whole * self.groups

    @property
    def most(self) -> int:
        return self.whole


@dataclass(frozen=True, slots=True)
class Distinct(Histogram):
    """How many different values there are, of at most `pairs` pairs of a group and a value a person.

    Which pairs of a person count is decided by a hash of the pair and the person: by nobody else's rows.
    """

    value: Scalar
    pairs: int

    @property
    def cells(self) -> int:
        return 1

    @property
    def cap(self) -> int:
        return self.pairs


@dataclass(frozen=True, slots=True)
class Selected(Histogram):
    """How many persons have a row in each group, each person counted in at most `groups` of them.

    It decides which groups are shown where nobody declared the keys. Which groups of a person count is
    decided by a hash of the group and the person.
    """

    groups: int

    @property
    def cells(self) -> int:
        return 1

    @property
    def cap(self) -> int:
        return self.groups

    @property
    def most(self) -> int:
        return 1


class Weighed(Histogram):
    """Cells into which each row falls once. Whoever has more than `rows` rows is scaled in proportion."""

    __slots__ = ()
    rows: int | None  # None: every row is its own unit

    @property
    def whole(self) -> int:
        """What one row comes to."""
        return 1 if self.rows is None else PARTS

    @property
    def cap(self) -> int:
        return self.whole * (self.rows or 1)


@dataclass(frozen=True, slots=True)
class Spread(Weighed):
    """How many rows fall on each step of the grid of a value: what its quantiles are chosen by.

    Released are, for each of `ranks`, the step chosen and the two ends of its interval. Whoever has more than
    `rows` rows is scaled down in proportion.
    """

    value: Scalar
    clamp: Clamp
    ranks: tuple[Fraction, ...]
    rows: int | None

    @property
    def cells(self) -> int:
        return self.clamp.most - self.clamp.least + 1

    @property
    def places(self) -> int:
        return 3 * len(self.ranks)


@dataclass(frozen=True, slots=True)
class Kinds(Weighed):
    """How many rows have each of the public values: what a mode is chosen by."""

    value: Scalar
    values: tuple[Value, ...]
    rows: int | None

    @property
    def cells(self) -> int:
        return len(self.values)

    @property
    def places(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Octaves(Histogram):
    """How many persons have how much: of rows, or of a value in sum.

    The cells are nodes at 0, 1, 2, 4, 8, ... A person between two of them is shared among both, in such parts
    that the amount is their mean: what everybody has in all, or has above a node, is a sum over nodes.
    The amount is that of sum |value - centre| in steps of the grid; without a value, of rows.
    """

    value: Scalar | None
    clamp: Clamp | None
    centre: int
    nodes: int

    @property
    def cells(self) -> int:
        return self.nodes

    @property
    def cap(self) -> int:
        return PARTS


Measure = Moments | Sum | People | Distinct | Selected | Spread | Kinds | Octaves


# What is asked for: aggregates as SQL means them -----------------------------------------------------

Name = Literal[
    "count",
    "sum",
    "avg",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "covar_pop",
    "covar_samp",
    "corr",
    "people",
    "distinct",
    "quantile",
    "mode",
]
_DEGREES: dict[str, int] = {"count": 0, "sum": 1, "avg": 1, "covar_pop": 1, "covar_samp": 1}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate as the analyst wrote it: of no value (rows), of one, or of two."""

    name: Name
    values: tuple[Scalar, ...] = ()
    rank: Fraction = Fraction(0)  # of a quantile

    @property
    def degree(self) -> int:
        """The highest power of a value that it needs."""
        return _DEGREES.get(self.name, 2)

    @property
    def of_moments(self) -> bool:
        """Whether it is arithmetic on counts, sums and squares."""
        return self.name not in ("people", "distinct", "quantile", "mode")


# What is shown: arithmetic on released numbers -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyOf:
    """The value of a grouping key."""

    index: int


@dataclass(frozen=True, slots=True)
class Released:
    """A released integer: of which measure, and which of the numbers it releases for a group."""

    measure: int
    place: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number the analyst wrote."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Weighted:
    """The sum of released integers, each times a number."""

    terms: tuple[tuple[Fraction, Released], ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left (+ - * /) right; a division by zero has no value."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Mean:
    """total/count, kept within public bounds; a count below one row counts as one."""

    total: Weighted
    count: Weighted
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class Function:
    """A function of released numbers: square, root, abs, round (to digits), least, greatest.

    The least and the greatest have no value where one of their arguments has none; the smallest and the
    largest, which an analyst asks for, leave it out.
    """

    name: Literal[
        "square", "root", "abs", "round", "floor", "ceil", "least", "greatest", "smallest", "largest"
    ]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value chosen for a group, as a place in a public list or on a grid.

    `places` are the released numbers: the value, and where they were bought, the ends of its interval.
    """

    measure: int
    place: int
    low: int | None = None
    high: int | None = None


Expression = KeyOf | Released | Number | Weighted | Arithmetic | Mean | Function | Chosen


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of released numbers or keys."""

    operator: Literal["=", "<>", "<", "<=", ">", ">="]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Combined:
    """AND, OR or NOT of comparisons."""

    word: Literal["and", "or", "not"]
    parts: tuple[Having, ...]


Having = Compared | Combined


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole question."""

    relation: Relation
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    outputs: tuple[Output, ...]
    sets: tuple[tuple[int, ...], ...] = ()  # of keys, by which totals are shown; none: all keys
    having: Having | None = None
    order: tuple[tuple[Expression, bool], ...] = ()  # (what, descending)
    limit: int | None = None
    wanted: tuple[Aggregate, ...] = ()  # what the measures are for
    repairs: tuple[str, ...] = ()  # what in it was once read otherwise, and wrongly

    @property
    def private_keys(self) -> bool:
        """Whether nobody declared which groups there are."""
        return any(key.values is None for key in self.keys)

    @property
    def groups(self) -> tuple[tuple[Value, ...], ...]:
        """Every combination of public key values; one empty combination if nothing is grouped."""
        return tuple(itertools.product(*(key.values or () for key in self.keys)))

    @property
    def size(self) -> int:
        """How many groups there are, if that is public."""
        return math.prod(len(key.values or ()) for key in self.keys)

    @property
    def lines(self) -> int:
        """How many rows a release has at most, totals counted, if that is public."""
        if not self.sets:
            return self.size
        return sum(math.prod(len(self.keys[i].values or ()) for i in kept) for kept in self.sets)

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        return self.relation.tables

    @property
    def scalars(self) -> Iterator[Scalar]:
        """Every expression on a row that anything in it uses."""
        yield from self.measured
        yield from scalars_of(self.relation)

    @property
    def measured(self) -> Iterator[Scalar]:
        """Every expression on a row of the relation that is grouped by or measured."""
        yield from (key.expression for key in self.keys)
        for measure in self.measures:
            if isinstance(measure, Moments):
                yield from measure.values
            elif not isinstance(measure, Selected) and measure.value is not None:
                yield measure.value

    @property
    def fields(self) -> set[Field]:
        """Every column that anything in it uses."""
        return set(itertools.chain.from_iterable(fields(each) for each in self.scalars))

    @property
    def shown(self) -> set[Field]:
        """Every column of the relation that is grouped by or measured."""
        return set(itertools.chain.from_iterable(fields(each) for each in self.measured))

    @property
    def selects(self) -> bool:
        """Whether which rows are shown depends on released numbers."""
        by_value = any(not isinstance(expression, KeyOf) for expression, _ in self.order)
        many = self.private_keys or bool(self.sets)
        cut = self.limit is not None and (many or self.limit < self.size)
        return self.having is not None or (by_value and cut)
