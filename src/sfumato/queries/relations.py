"""Relations: rows that each belong to exactly one unit.

A relation is *separable*: on a database D it is the disjoint union, over all units u, of what it is on the
rows of u alone (and on public tables). Then one unit that comes, goes or changes adds, takes or changes its
own rows of the relation, and nothing else; how many these are does not matter, because a plan bounds what all
rows of one unit can add up to. Every node here keeps the rows separable, and there is no node that does not:

* a scan drops rows without a unit; through a foreign key, a row is there once for every unit it refers to;
* a condition looks at one row;
* a join with a public table adds public values to a row; a join of two tables of people joins rows of the
  same unit only, and of each side only so many of them; a LEFT JOIN keeps the rows of its left side, which
  must not be public;
* a fold adds up rows of one unit;
* places say of a row where it stands among rows of its own unit, and what stands beside it;
* a union keeps the units of its parts.

Where each row is its own unit, there is at most one row of the relation for each (law 7): a join with a
public table takes one partner for a row, and a union has no table twice.

Theorem: docs/explanation/distances.md#separable-relations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.queries.expressions import Call, Constant, Field, fields, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Scalar

FEWEST_JOINED, MOST_JOINED = 64, 1000  # rows of a person on one side of a join: as declared, within these
PAIRS = 10**6  # rows that joins of tables of people make of one person's rows, at most
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

    @property
    def first(self) -> int | None:
        """How many rows of a person it keeps at most, where it asks for the first ones: ROW_NUMBER() <= 3."""
        inner: Relation = self.relation
        while isinstance(inner, Where | Among):
            inner = inner.relation
        if not isinstance(inner, Placed) or inner.within:
            return None
        numbers = {f"t{inner.number}.p{i}" for i, each in enumerate(inner.places) if each.said == "number"}
        counts = [_most(part, numbers) for part in parts_of(self.condition)]
        return min((count for count in counts if count is not None), default=None)

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        rows, first = self.relation.rows, self.first
        return rows if rows is None or first is None else min(rows, first)


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
    def of_people(self) -> bool:
        """Whether both sides are about people."""
        return not (self.left.public or self.right.public)

    @property
    def is_cut(self) -> bool:
        """Whether a person may have many rows on both sides."""
        one_row = any(isinstance(side, Fold) and not side.by for side in (self.left, self.right))
        return self.of_people and not one_row

    @property
    def rows(self) -> int | None:
        """Of one person, that weigh in full."""
        left, right = self.left.rows, self.right.rows
        if left is None or right is None:
            return left if self.right.public else right
        if self._finds_one(self.right):
            return left
        return right if not self.outer and self._finds_one(self.left) else min(left * right, 10**6)

    def _finds_one(self, side: Relation) -> bool:
        """Whether a row of the other side has one partner there at most: in a fold, by all of its keys."""
        while isinstance(side, Where | Among):
            side = side.relation
        if not isinstance(side, Fold) or not side.by:
            return False
        keys = {f"t{side.number}.k{i}": each for i, each in enumerate(side.by)}
        found = set()
        for part in parts_of(self.on):
            match part:
                case Call("=", (Field() as a, b)) | Call("=", (b, Field() as a)) if a.name in keys:
                    is_other = all(prefix(each) != side.number for each in fields(b))
                    if (
                        is_other and a.domain.kind == b.domain.kind != "number"
                    ):  # doubles may be equal and two
                        found.add(a.name)
        return found == set(keys)

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
    """The rows whose unit, or whose value, is (or is not) in another relation.

    A value is looked up in a public relation, or among rows of the same person: then a row without a value is
    in neither, or is kept where `keeps` says so, as NOT EXISTS does.
    """

    relation: Relation
    value: Scalar | None  # None: the unit itself
    other: Relation
    other_value: Scalar | None
    negated: bool
    keeps: bool = False

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
    exponent: int | None = None  # of the grid on which doubles are added up, 2^-exponent; None: the column's


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


Said = Literal["number", "rank", "dense rank", "beside", "first"]


@dataclass(frozen=True, slots=True)
class Sorted:
    """What rows are sorted by."""

    value: Scalar
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What is said of a row by its place: its number, or the value of the row so many places later (earlier,
    if negative), or of the first one."""

    said: Said
    value: Scalar | None = None
    later: int = 0


@dataclass(frozen=True, slots=True)
class Placed(Narrowed):
    """The same rows, each with what is said of it by its place among those of the same person.

    Its columns are called t<number>.p0, ... for places, and t<number>.0, ... for totals of the rows among
    which it stands (of those up to its equals, where they are sorted). Rows that the order does not tell
    apart are sorted by all that is used of them, so that places depend on the rows and not on their order.
    """

    number: int
    relation: Relation
    within: tuple[Scalar, ...]  # beside the person
    order: tuple[Sorted, ...]
    places: tuple[Place, ...] = ()
    totals: tuple[Folded, ...] = ()

    @property
    def cut(self) -> Cut | None:
        """How many rows of a person there are totals of, if they run along an order."""
        return Cut(MOST_SORTED, alike=False) if self.totals and self.order else None

    @property
    def scalars(self) -> Iterator[Scalar]:
        """All that it reads of a row."""
        yield from self.within
        yield from (each.value for each in self.order)
        yield from (each.value for each in self.places if each.value is not None)
        yield from (each.value for each in self.totals if each.value is not None)


Relation = Scan | Where | Join | Among | Union | Fold | Placed


@dataclass(frozen=True, slots=True)
class Cut:
    """How many rows of one person a side of a join keeps, at most: chosen by a hash of that person's rows.

    `alike`: so many of those that have the same partners, which further equalities of the join decide.
    """

    rows: int
    alike: bool


MOST_SORTED = 50_000  # rows of one person over which totals run: engines take the square of them in time


def cuts(join: Join) -> dict[int, Cut]:
    """What each side of a chain of joins keeps of one person, by the number of the side.

    A person with n rows would have n^k pairs in a chain of k sides, and the time of an answer would tell it.
    All sides together therefore keep so few that their product is at most `PAIRS`. Every side asks for as
    many rows as it declares, at least FEWEST_JOINED and at most MOST_JOINED; if that is too much, those that
    ask for most get less, all the same. Of two sides, the one that declares fewer keeps so many of each kind
    that has the same partners (of a LEFT JOIN, the right one), and the other what the product leaves. With
    more sides the engine may join them in any order, so there each is cut by itself.

    Sides with one row for every person are left as they are, and so is one side beside them.
    """
    sides = [side for side in sides_of(join) if not has_one_row(side)]
    wishes = {number_of(side): min(max(side.rows or 1, FEWEST_JOINED), MOST_JOINED) for side in sides}
    if len(sides) < 2:
        return {}
    if len(sides) > 2:
        level = _level(list(wishes.values()))
        return {number: Cut(min(wish, level), alike=False) for number, wish in wishes.items()}
    left, right = wishes
    one, other = (left, right) if wishes[left] < wishes[right] and not _keeps(join) else (right, left)
    return {one: Cut(wishes[one], alike=True), other: Cut(PAIRS // wishes[one], alike=False)}


def _level(wishes: list[int]) -> int:
    """The largest number of rows for which sides that get no more keep to the product."""
    level = 1
    while level < max(wishes) and math.prod(min(wish, level + 1) for wish in wishes) <= PAIRS:
        level += 1
    return level


def sides_of(join: Join) -> Iterator[Relation]:
    """What a chain of joins of people is made of, in order: relations without such a join in their rows."""
    for side in (join.left, join.right):
        inner = _chain(side)
        if inner is None:
            yield side
        else:
            yield from sides_of(inner)


def _chain(relation: Relation) -> Join | None:
    """The join of two relations about people whose rows these are, if they are."""
    match relation:
        case Where(inner) | Among(inner):
            return _chain(inner)
        case Join() if relation.of_people:
            return relation
        case Join(_, left, right):
            return _chain(right if left.public else left)
    return None


def is_chain(relation: Relation) -> bool:
    """Whether its rows are those of a join of two relations about people."""
    return _chain(relation) is not None


def number_of(relation: Relation) -> int:
    """What a side of a join is known by."""
    match relation:
        case Where(inner) | Among(inner):
            return number_of(inner)
    return relation.number


def _most(part: Scalar, numbers: set[str]) -> int | None:
    """How many different whole numbers above 0 a condition on one of these columns leaves."""
    match part:
        case Call("=" | "<=" | "<" as operator, (Field(name), Constant(int(value)))) if name in numbers:
            return max(1 if operator == "=" else value - (operator == "<"), 1)
        case Call("in", (Field(name), *listed)) if name in numbers:
            return len(listed)
    return None


def has_one_row(relation: Relation) -> bool:
    """Whether there is at most one row for every person."""
    match relation:
        case Where() if relation.first == 1:
            return True
        case Where(inner) | Among(inner) | Placed(_, inner):
            return has_one_row(inner)
        case Fold(_, _, by):
            return not by
    return False


def _keeps(join: Join) -> bool:
    """Whether some join of a chain keeps rows without a partner."""
    inner = [_chain(side) for side in (join.left, join.right)]
    return join.outer or any(_keeps(each) for each in inner if each is not None)


def below(relation: Relation) -> tuple[Relation, ...]:
    """The relations that it is made of."""
    match relation:
        case Where(inner) | Fold(_, inner) | Placed(_, inner):
            return (inner,)
        case Among(inner, _, other) | Join(_, inner, other):
            return inner, other
        case Union(_, parts):
            return tuple(inner for inner, _ in parts)
    return ()


def all_of(relation: Relation) -> Iterator[Relation]:
    """It, and every relation that it is made of."""
    yield relation
    for each in below(relation):
        yield from all_of(each)


def chains_of(relation: Relation, inside: bool = False) -> Iterator[Join]:
    """Every join of people that is not a part of a longer chain of such joins."""
    match relation:
        case Where(inner):
            yield from chains_of(inner, inside)
        case Among(inner, _, other):
            yield from chains_of(inner, inside)
            yield from chains_of(other)
        case Join(_, left, right):
            if relation.of_people and not inside:
                yield relation
            for side in (left, right):
                yield from chains_of(side, inside or relation.of_people)
        case _:
            for inner in below(relation):
                yield from chains_of(inner)


def scans_of(relation: Relation) -> Iterator[Scan]:
    """Every scan in it: a table as often as it is read."""
    return (each for each in all_of(relation) if isinstance(each, Scan))


def joins_of(relation: Relation) -> Iterator[Join]:
    """Every join in it."""
    return (each for each in all_of(relation) if isinstance(each, Join))


def scalars_of(relation: Relation) -> Iterator[Scalar]:
    """Every expression on a row in it."""
    match relation:
        case Where(_, condition):
            yield condition
        case Join(_, _, _, on):
            if on is not None:
                yield on
        case Among(_, value, _, other_value):
            yield from (each for each in (value, other_value) if each is not None)
        case Union(_, parts):
            for _, columns in parts:
                yield from columns
        case Fold(_, _, by, folds):
            yield from by
            yield from (fold.value for fold in folds if fold.value is not None)
        case Placed():
            yield from relation.scalars
    for each in below(relation):
        yield from scalars_of(each)


def folds_of(relation: Relation) -> Iterator[tuple[str, Folded]]:
    """Everything that is made of a person's rows, in whatever part of it, and what the column is called."""
    for each in all_of(relation):
        match each:
            case Fold(number, _, _, folds) | Placed(number, totals=folds):
                yield from ((f"t{number}.{i}", fold) for i, fold in enumerate(folds))


def repeats(relation: Relation, number: int) -> int | None:
    """How often a row of one of its tables can be there, by its number: once for each partner that joins give
    it, of people who have no more than is declared. None if it is not one of its tables, but made of them."""
    match relation:
        case Where(inner) | Among(inner) | Placed(_, inner):
            return repeats(inner, number)
        case Join(_, left, right):
            for side, other in ((left, right), (right, left)):
                if (times := repeats(side, number)) is not None:
                    return times * (other.rows or 1)
            return None
    return 1 if isinstance(relation, Scan) and relation.number == number else None


def prefix(field: Field) -> int:
    """The number of the relation that has the column.

    >>> from sfumato.queries.expressions import Domain, Field
    >>> prefix(Field("t12.age", Domain("integer")))
    12
    """
    return int(field.name[1 : field.name.index(".")])
