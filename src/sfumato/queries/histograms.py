"""What every measure has: cells of groups, what one person adds to them, and the words it is told in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.queries.cells import Counted
from sfumato.queries.words import fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.cells import Clamp, Combination, Listed, Piece, Steps
    from sfumato.queries.expressions import Scalar

    Known = Callable[[Any], Scalar]  # a value by its form


class Histogram(ABC):
    """For every group a fixed number of integer cells, of which one person fills at most `cap`."""

    __slots__ = ()
    name: ClassVar[str]  # in a stored form, for ever
    by_rows: ClassVar[bool] = False  # whether a person adds what each row adds, as far as the cap allows
    monotone: ClassVar[bool] = True  # whether whoever comes makes no cell smaller
    sparse: ClassVar[bool] = False  # whether it has many cells, of which an engine gives those that are not 0

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

    @property
    def touched(self) -> int | None:
        """How many cells one person can add to; None if that follows from nothing but how many there are."""
        return None

    @property
    def one(self) -> Fraction:
        """What one unit of the integers is worth, in rows, persons or the unit of the value."""
        return Fraction(1)

    # How it is computed -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def reads(self) -> tuple[Scalar, ...]:
        """The values of a row that it looks at."""

    @property
    def sums(self) -> tuple[Combination, ...]:
        """What the rows of one person, or all rows, come to in the cells of a group; none if they are not
        added up (a query of its own says how then)."""
        return ()

    @property
    def cell(self) -> Steps | Listed | None:
        """Which cell of a grid a row falls into; None if it is not one."""
        return None

    @property
    def norm(self) -> Piece | None:
        """What a group adds to a person's weight; None: the size of the total itself."""
        return Counted()

    @property
    def full(self) -> int:
        """The weight up to which a person counts in full; whoever weighs more is scaled down to it."""
        raise AssertionError("it has a query of its own")

    # What is said about it ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def told(self) -> str:
        """What it is, in SQL's words."""

    @property
    @abstractmethod
    def per_row(self) -> list[str]:
        """What a row, or a person, adds to it: sentences of an explanation."""

    @property
    def bounding(self) -> str:
        """How one person is bounded: a sentence of an explanation."""
        return "which of them are counted depends on that person's rows alone"

    @property
    def clamped(self) -> tuple[tuple[Scalar, Clamp | None], ...]:
        """The values whose NULLs are skipped, and how each is clamped."""
        return ()

    @property
    def scaling(self) -> list[str]:
        """What is taken from people who have more than others: sentences of a release."""
        return []

    # How it is stored ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def form(self) -> dict[str, Any]:
        """What its integers mean: of what they are, on which grid, around which centre."""

    @classmethod
    @abstractmethod
    def read(cls, form: dict[str, Any], known: Known) -> Histogram:
        """The measure of a form."""


def clamped_sentence(thing: str, clamp: Clamp) -> str:
    bounds = f"[{fraction(clamp.low)}, {fraction(clamp.high)}]"
    return f"{thing} is clamped to {bounds} and floored to steps of {fraction(clamp.step)}"


def counted(count: int | None, what: str) -> str:
    return f"{count} {what}{'s' if (count or 1) > 1 else ''}"


def scaled_sentence(verb: str, count: int | None, what: str) -> str:
    many = counted(count, what)
    return f"anyone {verb} more than {many} is scaled down in proportion, to weigh {many} in all"


class ByRows(Histogram):
    """What a person adds is what each row adds; anyone with more than `rows` rows is scaled in proportion."""

    __slots__ = ()
    by_rows: ClassVar[bool] = True
    rows: int | None  # None: every row is its own unit

    @property
    def full(self) -> int:
        assert self.rows is not None
        return self.rows

    @property
    def bounding(self) -> str:
        return scaled_sentence("with", self.rows, "row")

    @property
    def scaling(self) -> list[str]:
        many = counted(self.rows, "row")
        return [f"anyone with more than {many} is scaled down to weigh {many}"]
