"""A plan: exactly what is measured in the engine, and how released numbers become columns.

A `Plan` is a frozen tree. Two parts live in it. What is *measured* (relation, keys, measures) is secret until
noised and decides distances and price. What is *shown* (outputs, order, limit, which
groups) is arithmetic on released numbers: post-processing, free, and not part of the question's name (see
`forms`), so `1 + COUNT(*)` after `COUNT(*)` costs nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from sfumato.queries.expressions import fields
from sfumato.queries.relations import scalars_of
from sfumato.queries.shown import Chosen, Expression, KeyOf

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Field, Scalar
    from sfumato.queries.made import MadeKind, MadeQuery
    from sfumato.queries.measures import Measure
    from sfumato.queries.relations import Relation

# What is measured ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """What is grouped by, and its public values in their order; None if the values are private."""

    expression: Scalar
    values: tuple[Value, ...] | None
    is_listed: bool = False  # by a public table or by conditions, without a declaration
    told: str = field(default="", compare=False)  # what was written


@dataclass(frozen=True, slots=True)
class Occurring:
    """Keys of which only some combinations of values can occur, by their places, and these combinations."""

    places: tuple[int, ...]
    values: frozenset[tuple[Value, ...]]

    def allows(self, group: tuple[Value, ...]) -> bool:
        """Whether a group can occur."""
        return tuple(group[i] for i in self.places) in self.values


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
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "people",
    "distinct",
    "distinct sum",
    "quantile",
    "mode",
    "histogram",
    "entropy",
]
OF_VALUES = ("mode", "histogram", "entropy")  # of how many rows have each of the public values
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
        return self.name not in ("people", "distinct", "distinct sum", "quantile", *OF_VALUES)


# What is shown ---------------------------------------------------------------------------------------


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


class Sorting(NamedTuple):
    """What rows are sorted by, and how."""

    by: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: its name, what its values are, and by which expression if there is one."""

    name: str
    kind: MadeKind
    has_interval: bool
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    """What is made of released rows, in place of these rows."""

    query: MadeQuery
    is_empty: bool = False  # whatever they are: a tool asks for the columns alone


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole question."""

    relation: Relation
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    outputs: tuple[Output, ...]
    sets: tuple[tuple[int, ...], ...] = ()  # of keys, by which totals are shown; none: all keys
    having: Having | None = None
    order: tuple[Sorting, ...] = ()
    limit: int | None = None
    wanted: tuple[Aggregate, ...] = ()  # what the measures are for
    repairs: tuple[str, ...] = ()  # what in it was once read otherwise, and wrongly
    outer: Outer | None = None  # what is shown instead of its rows
    beside: tuple[Plan, ...] = ()  # further questions that this is made of
    occurring: tuple[Occurring, ...] = ()  # of which groups are shown: no row can be in another one
    today: datetime.date | None = None  # if its text speaks of the day on which it is asked

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the result."""
        if self.outer is not None:
            columns = self.outer.query.columns
            return tuple(ResultColumn(c.name, c.kind, bool(c.trace) and not c.end) for c in columns)
        return tuple(self._column(output) for output in self.outputs)

    def _column(self, output: Output) -> ResultColumn:
        expression = output.expression
        match expression:
            case KeyOf(index):
                return ResultColumn(output.name, self.keys[index].expression.domain.kind, False, expression)
            case Chosen(measure, low=None):
                return ResultColumn(
                    output.name, self.measures[measure].reads[0].domain.kind, False, expression
                )
        return ResultColumn(output.name, "number", True, expression)

    @property
    def all(self) -> tuple[Plan, ...]:
        """Every question that is asked, this one first, without what is made of them."""
        return (replace(self, outer=None, beside=()), *self.beside) if self.outer else (self,)

    @property
    def shows_nothing(self) -> bool:
        """Whether it has no rows whatever is released: LIMIT 0, by which tools ask for the columns."""
        return self.limit == 0 or (self.outer is not None and self.outer.is_empty)

    @property
    def is_free(self) -> bool:
        """Whether nothing is measured: it lists public keys, or shows nothing."""
        return self.shows_nothing or not any(each.measures for each in self.all)

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
    def shown_groups(self) -> list[int] | None:
        """The places of the groups that can occur among `groups`; None if all can."""
        if not self.occurring:
            return None
        return [
            g for g, group in enumerate(self.groups) if all(each.allows(group) for each in self.occurring)
        ]

    @property
    def lines(self) -> int:
        """How many rows a release has at most, totals counted, if that is public."""
        return sum(map(self._lines, self.sets or (tuple(range(len(self.keys))),)))

    def _lines(self, kept: tuple[int, ...]) -> int:
        """How many combinations of these keys can occur."""
        count, limited = 1, set[int]()
        for each in self.occurring:
            shown = [j for j, place in enumerate(each.places) if place in kept]
            count *= len({tuple(values[j] for j in shown) for values in each.values})
            limited |= set(each.places)
        return count * math.prod(len(self.keys[i].values or ()) for i in kept if i not in limited)

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
    def values(self) -> tuple[Scalar, ...]:
        """Every expression that is aggregated."""
        return tuple(value for aggregate in self.wanted for value in aggregate.values)

    @property
    def measured(self) -> Iterator[Scalar]:
        """Every expression on a row of the relation that is grouped by or measured."""
        yield from (key.expression for key in self.keys)
        for measure in self.measures:
            yield from measure.reads

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
        by_value = any(not isinstance(each.by, KeyOf) for each in self.order)
        many = self.private_keys or bool(self.sets)
        cut = self.limit is not None and (many or self.limit < self.lines)
        return self.having is not None or (by_value and cut)
