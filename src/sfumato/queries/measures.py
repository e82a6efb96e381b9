"""Measures: what is added up in the engine, each kind in one class.

Every measure is a histogram: for every group a fixed number of integer cells, of which all rows of one person
together fill at most `cap`, whatever they hold. A count has one cell. Averages and variances have the cells
of a Bernstein basis: for x scaled to t in [0, 1] the cells (1-t)^2, 2t(1-t), t^2 are never negative and add
up to one, so count, sum and sum of squares come from one vector that a row moves by one in all, not by three.
A median has a cell for every step of its grid.

A class says all there is to say about its kind: what it is bounded by (`cap`, `least`, `most`), of which
counts and sums its cells are made (`sums`), what a person weighs (`norm`, up to `full`), what its integers
are worth, what it is called, in which words it is explained, and the form in which they are stored.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.queries import notation
from sfumato.queries.cells import (
    CAP,
    PARTS,
    Clamp,
    Combination,
    Counted,
    Listed,
    Piece,
    Powers,
    Seen,
    Shortfall,
    Steps,
    Total,
)
from sfumato.queries.expressions import possible
from sfumato.queries.histograms import ByRows, Histogram, clamped_sentence, counted, scaled_sentence
from sfumato.queries.words import fraction, spoken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.histograms import Known


@dataclass(frozen=True, slots=True)
class Moments(ByRows):
    """Counts, sums and sums of squares (or of products of two values) from one vector of cells.

    The cells are products of Bernstein polynomials of `degree` in each value; with `nulls` there is one more
    for rows in which a value is missing. Without values, or with degree 0, it counts rows. Anyone with more
    than `rows` rows is scaled down in proportion.
    """

    name: ClassVar[str] = "moments"
    values: tuple[Scalar, ...]
    clamps: tuple[Clamp, ...]  # of each value, if the degree is not 0
    degree: int
    nulls: bool
    rows: int | None  # None: every row is its own unit
    cut: Shortfall | None = None  # what is known of people with more rows
    total: Total | None = None  # how many rows all groups have, by declaration

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

    @property
    def one(self) -> Fraction:
        return Fraction(1, self.whole)

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return self.values

    @property
    def sums(self) -> tuple[Combination, ...]:
        """The Bernstein cells as whole combinations of power sums."""
        count = Counted(self.values)
        missing: tuple[Combination, ...] = ()
        if self.nulls:
            missing = (((self.whole, Counted()), (-self.whole, count)),)
        if not self.degree:
            return (((self.whole, count),), *missing)
        steps = tuple(Steps(v, c, c.least) for v, c in zip(self.values, self.clamps, strict=True))
        size, cells = self.degree + 1, []
        for cell in range(size ** len(steps)):
            places = [cell // size**v % size for v in range(len(steps))]
            terms = self._bernstein(places)
            cells.append(tuple((c, Powers(steps, e) if any(e) else count) for e, c in terms.items() if c))
        return (*cells, *missing)

    def _bernstein(self, places: list[int]) -> dict[tuple[int, ...], int]:
        """A product of Bernstein polynomials, times what a row comes to, by powers of the steps.

        C(d, k) X^k (w - X)^(d - k) = sum over m of C(d, k) C(d - k, m) (-1)^m w^(d - k - m) X^(k + m).
        """
        d = self.degree
        found: dict[tuple[int, ...], int] = {(): 1}
        for k, clamp in zip(places, self.clamps, strict=True):
            ones = {
                k + m: math.comb(d, k) * math.comb(d - k, m) * (-1) ** m * clamp.width ** (d - k - m)
                for m in range(d - k + 1)
            }
            found = {(*e, p): c * one for e, c in found.items() for p, one in ones.items()}
        return {powers: self.parts * factor for powers, factor in found.items()}

    @property
    def norm(self) -> Piece:
        return Counted(() if self.nulls else self.values)

    @property
    def told(self) -> str:
        told = ", ".join(spoken(value) for value in self.values)
        if not self.values:
            return "COUNT(*)"
        names = ["COUNT(*)"] if self.nulls else []
        names.append(f"COUNT({told})")
        if self.degree and len(self.values) == 1:
            names.append(f"SUM({told})")
        if self.degree > 1 and len(self.values) == 1:
            names.append(f"SUM({told}^2)")
        if len(self.values) == 2:
            names.append(f"moments of ({told})")
        return " and ".join(names)

    @property
    def per_row(self) -> list[str]:
        said = [
            clamped_sentence(spoken(v), clamp) for v, clamp in zip(self.values, self.clamps, strict=False)
        ]
        if self.degree:
            more = ", the sum" if self.degree == 1 else ", the sum and the sum of squares"
            told = f"each row adds 1 in all to {self.cells} cells, which together tell the count{more}"
        elif self.nulls or not self.values:
            told = "each row adds 1" + (" to one of two cells" if self.nulls else "")
        else:
            told = f"each row where {spoken(self.values[0])} is not NULL adds 1"
        return [*said, told]

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        return tuple(itertools.zip_longest(self.values, self.clamps))

    @property
    def form(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "moments": [notation.scalar(one) for one in self.values],
            "clamps": [one.form for one in self.clamps],
            "degree": self.degree,
            "rows": self.rows,
            "whole": self.whole,
        }
        form |= {} if self.total is None else {"total": self.total.form}
        return form | ({"nulls": True} if self.nulls else {}) | _cut(self.cut)

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        clamps = tuple(Clamp.read(each) for each in form["clamps"])
        values = tuple(known(each) for each in form["moments"])
        cut, total = Shortfall.read(form.get("cut")), Total.read(form.get("total"))
        return cls(values, clamps, form["degree"], form.get("nulls", False), form["rows"], cut, total)


@dataclass(frozen=True, slots=True)
class Sum(Histogram):
    """A sum of clamped values, each less a centre. A person whose total is beyond the cap is scaled to it.

    The cap is that of so many rows at the farther bound, or `limit` if that is smaller.
    """

    name: ClassVar[str] = "sum"
    by_rows: ClassVar[bool] = True
    monotone: ClassVar[bool] = False
    value: Scalar
    clamp: Clamp
    rows: int | None
    centre: int = 0  # in steps of the grid
    limit: int | None = None
    cut: Shortfall | None = None  # what is known of people with more than the limit

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

    @property
    def one(self) -> Fraction:
        return self.clamp.step

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return (self.value,)

    @property
    def sums(self) -> tuple[Combination, ...]:
        total: Combination = ((1, Powers((Steps(self.value, self.clamp, 0),), (1,))),)
        return (((*total, (-self.centre, Counted((self.value,)))) if self.centre else total),)

    @property
    def norm(self) -> None:
        return None

    @property
    def full(self) -> int:
        return self.cap

    @property
    def told(self) -> str:
        centre = f" - {fraction(self.centre * self.clamp.step)}" if self.centre else ""
        return f"SUM({spoken(self.value)}{centre})"

    @property
    def per_row(self) -> list[str]:
        said = [clamped_sentence(f"each {spoken(self.value)}", self.clamp)]
        if self.centre:
            said.append(f"{fraction(self.centre * self.clamp.step)}, the tuned centre, is taken off each")
        return said

    @property
    def bounding(self) -> str:
        total = fraction(self.cap * self.clamp.step)
        return f"anyone with more than {total} in all groups is scaled down in proportion, to {total}"

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        return ((self.value, self.clamp),)

    @property
    def scaling(self) -> list[str]:
        total = fraction(self.cap * self.clamp.step)
        return [f"anyone with more than {total} of {spoken(self.value)} is scaled down to that"]

    @property
    def form(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "sum": notation.scalar(self.value),
            "clamp": self.clamp.form,
            "rows": self.rows,
        }
        form |= {"centre": self.centre} if self.centre else {}
        return form | ({} if self.limit is None else {"limit": self.limit}) | _cut(self.cut)

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        clamp = Clamp.read(form["clamp"])
        cut = Shortfall.read(form.get("cut"))
        return cls(known(form["sum"]), clamp, form["rows"], form.get("centre", 0), form.get("limit"), cut)


@dataclass(frozen=True, slots=True)
class PersonCount(Histogram):
    """How many persons have a row in which the value is not NULL; anyone in more `groups` is scaled."""

    name: ClassVar[str] = "people"
    value: Scalar | None
    groups: int
    cut: Shortfall | None = None  # what is known of people in more groups

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

    @property
    def one(self) -> Fraction:
        return Fraction(1, self.whole)

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return () if self.value is None else (self.value,)

    @property
    def sums(self) -> tuple[Combination, ...]:
        return (((self.whole, Seen(self.value)),),)

    @property
    def norm(self) -> Piece:
        return Seen(self.value)

    @property
    def full(self) -> int:
        return self.groups

    @property
    def told(self) -> str:
        where = "" if self.value is None else f" where {spoken(self.value)} is not NULL"
        return f"COUNT(DISTINCT person){where}"

    @property
    def per_row(self) -> list[str]:
        where = "" if self.value is None else f" where {spoken(self.value)} is not NULL"
        return [f"each person who has a row{where} adds 1 to a group, however many rows there are"]

    @property
    def bounding(self) -> str:
        return scaled_sentence("in", self.groups, "group")

    @property
    def scaling(self) -> list[str]:
        if self.groups == 1:
            return []
        return [f"anyone in more than {self.groups} groups is scaled down to weigh {self.groups}"]

    @property
    def form(self) -> dict[str, Any]:
        value = None if self.value is None else notation.scalar(self.value)
        return {"people": value, "groups": self.groups, "whole": self.whole} | _cut(self.cut)

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        value = None if form["people"] is None else known(form["people"])
        return cls(value, form["groups"], Shortfall.read(form.get("cut")))


@dataclass(frozen=True, slots=True)
class Distinct(Histogram):
    """How many different values there are, of at most `pairs` pairs of a group and a value a person.

    Which pairs of a person count is decided by a hash of the pair and the person: by nobody else's rows.
    Where its values are public there are at most so many to be `among`, and more are never shown.
    """

    name: ClassVar[str] = "distinct"
    value: Scalar
    pairs: int
    among: int | None = None

    @property
    def cells(self) -> int:
        return 1

    @property
    def cap(self) -> int:
        return self.pairs

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return (self.value,)

    @property
    def told(self) -> str:
        return f"COUNT(DISTINCT {spoken(self.value)})"

    @property
    def per_row(self) -> list[str]:
        thing = f"different pairs of a group and {spoken(self.value)}"
        return [f"of each person at most {self.pairs} {thing} are counted"]

    @property
    def scaling(self) -> list[str]:
        return [f"of each person at most {self.cap} different values are counted"]

    @property
    def form(self) -> dict[str, Any]:
        form = {"distinct": notation.scalar(self.value), "pairs": self.pairs}
        return form | ({} if self.among is None else {"within": self.among})

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        return cls(known(form["distinct"]), form["pairs"], form.get("within"))


@dataclass(frozen=True, slots=True)
class DistinctSum(Histogram):
    """The sum of different values, each added once, of at most `pairs` pairs of a group and a value a person.

    A pair adds the value, clamped and on the grid: one person brings or takes along at most `pairs` of them.
    """

    name: ClassVar[str] = "distinct sum"
    monotone: ClassVar[bool] = False
    value: Scalar
    clamp: Clamp
    pairs: int

    @property
    def cells(self) -> int:
        return 1

    @property
    def cap(self) -> int:
        return self.pairs * max(abs(self.clamp.least), abs(self.clamp.most))

    @property
    def least(self) -> int:
        return self.pairs * min(self.clamp.least, 0)

    @property
    def most(self) -> int:
        return self.pairs * max(self.clamp.most, 0)

    @property
    def one(self) -> Fraction:
        return self.clamp.step

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return (self.value,)

    @property
    def told(self) -> str:
        return f"SUM(DISTINCT {spoken(self.value)})"

    @property
    def per_row(self) -> list[str]:
        thing = f"different pairs of a group and {spoken(self.value)}"
        each = clamped_sentence(f"each {spoken(self.value)}", self.clamp)
        return [each, f"of each person at most {self.pairs} {thing} are added"]

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        return ((self.value, self.clamp),)

    @property
    def scaling(self) -> list[str]:
        return [f"of each person at most {self.pairs} different values are added"]

    @property
    def form(self) -> dict[str, Any]:
        return {"distinct sum": notation.scalar(self.value), "clamp": self.clamp.form, "pairs": self.pairs}

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        return cls(known(form["distinct sum"]), Clamp.read(form["clamp"]), form["pairs"])


@dataclass(frozen=True, slots=True)
class Selected(Histogram):
    """How many persons have a row in each group, each person counted in at most `groups` of them.

    It decides which groups are shown where nobody declared the keys. Which groups of a person count is
    decided by a hash of the group and the person.
    """

    name: ClassVar[str] = "selected"
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

    @property
    def touched(self) -> int:
        return self.groups

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return ()

    @property
    def told(self) -> str:
        return "which groups are shown"

    @property
    def per_row(self) -> list[str]:
        return [f"each person is counted in at most {counted(self.groups, 'group')}, chosen by a hash"]

    @property
    def form(self) -> dict[str, Any]:
        return {"selected": self.groups}

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        del known
        return cls(form["selected"])


class Weighed(ByRows):
    """Cells into which each row falls once."""

    __slots__ = ()
    sparse: ClassVar[bool] = True
    value: Scalar

    @property
    def whole(self) -> int:
        """What one row comes to."""
        return 1 if self.rows is None else PARTS

    @property
    def cap(self) -> int:
        return self.whole * (self.rows or 1)

    @property
    def one(self) -> Fraction:
        return Fraction(1, self.whole)

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return (self.value,)

    @property
    def sums(self) -> tuple[Combination, ...]:
        return (((self.whole, Counted()),),)


@dataclass(frozen=True, slots=True)
class Spread(Weighed):
    """How many rows fall on each step of the grid of a value: what its quantiles are chosen by.

    Released are, for each of `ranks`, the step chosen and the two ends of its interval. Anyone with more than
    `rows` rows is scaled down in proportion.
    """

    name: ClassVar[str] = "spread"
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

    @property
    def cell(self) -> Steps:
        return Steps(self.value, self.clamp, self.clamp.least)

    @property
    def told(self) -> str:
        return f"quantiles {', '.join(fraction(rank) for rank in self.ranks)} of {spoken(self.value)}"

    @property
    def per_row(self) -> list[str]:
        said = clamped_sentence(spoken(self.value), self.clamp)
        return [said, f"each row adds 1 to one of {self.cells} steps"]

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        return ((self.value, self.clamp),)

    @property
    def form(self) -> dict[str, Any]:
        ranks = [str(rank) for rank in self.ranks]
        form = {"spread": notation.scalar(self.value), "clamp": self.clamp.form, "ranks": ranks}
        return form | {"rows": self.rows, "whole": self.whole}

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        ranks = tuple(Fraction(rank) for rank in form["ranks"])
        return cls(known(form["spread"]), Clamp.read(form["clamp"]), ranks, form["rows"])


class OfKinds(Weighed):
    """A cell for each of the public values: how many rows have it."""

    __slots__ = ()
    values: tuple[Value, ...]

    @property
    def cells(self) -> int:
        return len(self.values)

    @property
    def cell(self) -> Listed:
        return Listed(self.value, self.values)

    @property
    def per_row(self) -> list[str]:
        return [f"each row adds 1 to one of the {len(self.values)} values of {spoken(self.value)}"]

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        return ((self.value, None),)

    @property
    def form(self) -> dict[str, Any]:
        named = notation.digest([notation.value(one) for one in self.values])
        return {
            self.name: notation.scalar(self.value),
            "values": named,
            "rows": self.rows,
            "whole": self.whole,
        }


@dataclass(frozen=True, slots=True)
class Kinds(OfKinds):
    """How many rows have each of the public values: what a mode is chosen by."""

    name: ClassVar[str] = "kinds"
    value: Scalar
    values: tuple[Value, ...]
    rows: int | None

    @property
    def places(self) -> int:
        return 1

    @property
    def told(self) -> str:
        return f"MODE({spoken(self.value)})"

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        value = known(form["kinds"])
        return cls(value, possible(value) or (), form["rows"])


@dataclass(frozen=True, slots=True)
class Tally(OfKinds):
    """The same, and what is released is how many: by itself, or as their entropy."""

    name: ClassVar[str] = "tally"
    value: Scalar
    values: tuple[Value, ...]
    rows: int | None

    @property
    def told(self) -> str:
        return f"HISTOGRAM({spoken(self.value)})"

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        value = known(form["tally"])
        return cls(value, possible(value) or (), form["rows"])


@dataclass(frozen=True, slots=True)
class Octaves(Histogram):
    """How many persons have how much: of rows, or of a value in sum.

    The cells are nodes at 0, 1, 2, 4, 8, ... A person between two of them is shared among both, in such parts
    that the amount is their mean: what everybody has in all, or has above a node, is a sum over nodes.
    The amount is that of sum |value - centre| in steps of the grid; without a value, of rows.
    """

    name: ClassVar[str] = "octaves"
    sparse: ClassVar[bool] = True
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

    @property
    def one(self) -> Fraction:
        return Fraction(1, PARTS)

    @property
    def reads(self) -> tuple[Scalar, ...]:
        return () if self.value is None else (self.value,)

    @property
    def told(self) -> str:
        return f"how {'many rows' if self.value is None else f'much {spoken(self.value)}'} people have"

    @property
    def per_row(self) -> list[str]:
        return [f"each person adds 1 in all to two of {self.cells} nodes at 0, 1, 2, 4, ..."]

    @property
    def form(self) -> dict[str, Any]:
        value = None if self.value is None else notation.scalar(self.value)
        clamp = None if self.clamp is None else self.clamp.form
        return {"octaves": value, "clamp": clamp, "centre": self.centre, "nodes": self.nodes}

    @classmethod
    def read(cls, form: dict[str, Any], known: Known) -> Measure:
        clamp = None if form["clamp"] is None else Clamp.read(form["clamp"])
        value = None if form["octaves"] is None else known(form["octaves"])
        return cls(value, clamp, form["centre"], form["nodes"])


Measure = Moments | Sum | PersonCount | Distinct | DistinctSum | Selected | Spread | Kinds | Tally | Octaves
KINDS: dict[str, type[Measure]] = {
    kind.name: kind
    for kind in (Moments, Sum, PersonCount, Distinct, DistinctSum, Selected, Spread, Kinds, Tally, Octaves)
}


def cut_of(measure: Measure) -> Shortfall | None:
    """What is known of people above its cap."""
    return measure.cut if isinstance(measure, (Moments, Sum, PersonCount)) else None


def total_of(measure: Measure) -> Total | None:
    """How many rows all groups have together, where that is declared and its cells add up to it."""
    return measure.total if isinstance(measure, Moments) else None


def among_of(measure: Measure) -> int | None:
    """How many different values there can be, where that is public."""
    return measure.among if isinstance(measure, Distinct) else None


def _cut(cut: Shortfall | None) -> dict[str, Any]:
    return {} if cut is None else {"cut": cut.form}


def measured(stored: Iterable[dict[str, Any]], among: Iterable[Scalar]) -> tuple[Measure, ...] | None:
    """The measures that were stored so, of values that are among these; None if they mean nothing here."""
    values = {notation.text(notation.scalar(each)): each for each in among}
    listed = list(stored)
    try:
        found = tuple(_named(form).read(form, lambda each: values[notation.text(each)]) for form in listed)
    except (KeyError, TypeError, ValueError):
        return None
    return found if [each.form for each in found] == listed else None


def _named(form: dict[str, Any]) -> type[Measure]:
    """The kind of a form: exactly one of its names is that of a kind."""
    (kind,) = (KINDS[name] for name in form if name in KINDS)
    return kind
