"""Relations: rows that each belong to exactly one unit.

A relation is *separable*: on a database D it is the disjoint union, over all units u, of what it is on the
rows of u alone (and on public tables). Then one unit that comes, goes or changes adds, takes or changes its
own rows of the relation, and nothing else; how many these are does not matter, because a plan bounds what all
rows of one unit can add up to. Every node here keeps the rows separable, and there is no node that does not:

* a scan drops rows without a unit; through a foreign key, a row is there once for every unit it refers to;
* a condition looks at one row;
* a join with a public table adds public values to a row; a join of two tables of people joins rows of the
  same unit only, and of one side only so many of them; a LEFT JOIN keeps the rows of its left side, which
  must not be public;
* a fold adds up rows of one unit;
* a union keeps the units of its parts.

Where each row is its own unit, there is at most one row of the relation for each (law 7): a join with a
public table takes one partner for a row, and a union has no table twice.

Theorem: docs/explanation/distances.md#separable-relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Field, Scalar

FEWEST, MOST = 64, 1000  # rows of one person on one side of a join: as many as declared, within these
UNIT = "u"  # what the column of the unit is called in every relation


@dataclass(frozen=True, slots=True)
class Owner:
    """How a row says whose it is: by a column, or by one that refers to rows of another table that say it."""

    column: str
    kind: Kind
    table: str = ""  # if it is a foreign key
    key: str = ""
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table."""

    number: int
    table: str
    owner: Owner | None
    rows: int | None  # of one person, that weigh in full; None if each row is its own unit, or public
    public: bool

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        found, owner = {self.table}, self.owner
        while owner is not None and owner.table:
            found.add(owner.table)
            owner = owner.owner
        return frozenset() if self.public else frozenset(found)

    @property
    def by_person(self) -> bool:
        """Whether rows belong to persons, and not each to itself or to nobody."""
        return self.owner is not None


class Narrowed:
    """Some rows of a relation: they are about whom it is about."""

    __slots__ = ()
    relation: Relation

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        return self.relation.rows

    @property
    def public(self) -> bool:
        """Whether it tells nothing about anybody."""
        return self.relation.public

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        return self.relation.tables

    @property
    def by_person(self) -> bool:
        """Whether rows belong to persons."""
        return self.relation.by_person


@dataclass(frozen=True, slots=True)
class Where(Narrowed):
    """The rows of a relation for which a condition holds."""

    relation: Relation
    condition: Scalar


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which a condition holds, of the same person where both sides are about people.

    `outer` keeps rows of the left side that have no partner. `single`, for units that are rows, takes one
    partner at most: the smallest.
    """

    number: int
    left: Relation
    right: Relation
    on: Scalar | None  # beside the equality of units
    outer: bool
    single: bool = False

    @property
    def partners(self) -> tuple[Literal["left", "right"], int] | None:
        """Of which side how many rows of one person are joined with a row of the other, at most.

        Of two tables of people, somebody with a million rows in each would have a million million pairs, and
        the time of an answer would tell it. It is the side that has fewer, by declaration; of a LEFT JOIN it
        is the right one.
        """
        if self.left.public or self.right.public:
            return None
        if any(isinstance(side, Fold) and not side.by for side in (self.left, self.right)):
            return None  # one row for every person
        left, right = (min(max(side.rows or 1, FEWEST), MOST) for side in (self.left, self.right))
        return ("left", left) if left < right and not self.outer else ("right", right)

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        if self.left.rows is None or self.right.rows is None:
            return self.left.rows if self.right.public else self.right.rows
        return min(self.left.rows * self.right.rows, 10**6)

    @property
    def public(self) -> bool:
        """Whether it tells nothing about anybody."""
        return self.left.public and self.right.public

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        return self.left.tables | self.right.tables

    @property
    def by_person(self) -> bool:
        """Whether rows belong to persons."""
        return self.left.by_person or self.right.by_person


@dataclass(frozen=True, slots=True)
class Among(Narrowed):
    """The rows whose unit, or whose value, is (or is not) in another relation."""

    relation: Relation
    value: Scalar | None  # None: the unit itself
    other: Relation
    other_value: Scalar | None
    negated: bool

    @property
    def tables(self) -> frozenset[str]:
        return self.relation.tables | self.other.tables


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all parts, whose columns are called t<number>.0, t<number>.1, ..."""

    number: int
    parts: tuple[tuple[Relation, tuple[Scalar, ...]], ...]
    kinds: tuple[Kind, ...]

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        counts = [relation.rows for relation, _ in self.parts]
        return None if None in counts else min(sum(count or 0 for count in counts), 10**6)

    @property
    def public(self) -> bool:
        """Whether it tells nothing about anybody."""
        return all(relation.public for relation, _ in self.parts)

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        return frozenset().union(*(relation.tables for relation, _ in self.parts))

    @property
    def by_person(self) -> bool:
        """Whether rows belong to persons."""
        return self.parts[0][0].by_person


Total = Literal["count", "distinct", "sum", "avg", "min", "max", "any", "every"]


@dataclass(frozen=True, slots=True)
class Folded:
    """One number, date or text made of the rows of one person."""

    function: Total
    value: Scalar | None  # None: the rows themselves


@dataclass(frozen=True, slots=True)
class Fold:
    """One row for every person, or for every person and combination of further columns.

    Its columns are called t<number>.k0, ... for what is grouped by, t<number>.0, ... for what is folded.
    """

    number: int
    relation: Relation
    by: tuple[Scalar, ...]
    folds: tuple[Folded, ...]

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        return self.relation.rows if self.by else 1

    @property
    def public(self) -> bool:
        """Never: people are added up, not public rows."""
        return False

    @property
    def tables(self) -> frozenset[str]:
        """The tables of people that are read."""
        return self.relation.tables

    @property
    def by_person(self) -> bool:
        """Always."""
        return True


Relation = Scan | Where | Join | Among | Union | Fold


def joins_of(relation: Relation) -> Iterator[Join]:
    """Every join in it."""
    match relation:
        case Where(inner) | Fold(_, inner):
            yield from joins_of(inner)
        case Among(inner, _, other):
            yield from joins_of(inner)
            yield from joins_of(other)
        case Union(_, parts):
            for inner, _ in parts:
                yield from joins_of(inner)
        case Join(_, left, right):
            yield relation
            yield from joins_of(left)
            yield from joins_of(right)


def scalars_of(relation: Relation) -> Iterator[Scalar]:
    """Every expression on a row in it."""
    match relation:
        case Where(inner, condition):
            yield condition
            yield from scalars_of(inner)
        case Join(_, left, right, on):
            if on is not None:
                yield on
            yield from scalars_of(left)
            yield from scalars_of(right)
        case Among(inner, value, other, other_value):
            yield from (each for each in (value, other_value) if each is not None)
            yield from scalars_of(inner)
            yield from scalars_of(other)
        case Union(_, parts):
            for inner, columns in parts:
                yield from columns
                yield from scalars_of(inner)
        case Fold(_, inner, by, folds):
            yield from by
            yield from (fold.value for fold in folds if fold.value is not None)
            yield from scalars_of(inner)


def prefix(field: Field) -> int:
    """The number of the relation that has the column.

    >>> from sfumato.queries.expressions import Domain, Field
    >>> prefix(Field("t12.age", Domain("integer")))
    12
    """
    return int(field.name[1 : field.name.index(".")])
