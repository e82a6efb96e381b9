"""What the cells of measures are made of: clamped values on a grid, counts of rows, and sums of powers.

A measure says of which whole combinations of these its cells consist; whoever computes it need not know what
it is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Scalar

PARTS = 1024  # what is scaled lives on a grid of 1/1024 row or finer, so that truncating loses little
SUM_BITS = 104  # of what a person's doubles come to, in steps of a fine grid
CAP = 1 << 62  # no cap is above this, and a person's total in the engine is clamped to twice of it


def _floored(value: Fraction, exponent: int) -> int:
    """How many steps of 2^-exponent go into it."""
    number, of = value.numerator << max(exponent, 0), value.denominator << max(-exponent, 0)
    return number // of


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What people have above a cap, as far as a histogram over them tells: in 10^-9 of what they have below.

    Of what was `seen` there, so much is given `back` to each group in proportion; that is `wrong` by so much
    for all groups alike (one standard deviation), and for each of them by `apart` times the root of its part,
    since heavy people are not spread evenly. In a ratio both parts are cut alike, and what is left is `mixed`
    times the deviation of a row: some people weigh less in it than their rows would.

    Where the totals of an average are known, too, `mean` is the average of all rows, as the part of the way
    from the least value to the greatest, and `rows` are left below the cap if each has a value; `wrong` is
    then how far off that mean may be, in parts of itself.
    """

    seen: int
    back: int
    wrong: int
    apart: int
    mixed: int
    kind: int = 0  # of what is cut: rows; the values of rows; or rows of which only proportions are asked
    mean: int = 0
    rows: int = 0

    @property
    def form(self) -> list[int]:
        """How it is stored: with the integers whose meaning it is a part of."""
        known = [self.mean, self.rows] if self.rows else []
        return [self.seen, self.back, self.wrong, self.apart, self.mixed, self.kind, *known]

    @classmethod
    def read(cls, form: list[int] | None) -> Shortfall | None:
        return None if form is None else cls(*form)


@dataclass(frozen=True, slots=True)
class Total:
    """How many rows all groups have together, by declaration; with a `key`, those of each of its values."""

    key: int | None
    rows: tuple[int, ...]

    @property
    def form(self) -> list[Any]:
        """How it is stored: with the integers that are read by it."""
        return [self.key, list(self.rows)]

    @classmethod
    def read(cls, form: list[Any] | None) -> Total | None:
        return None if form is None else cls(form[0], tuple(form[1]))


NANO = Fraction(1, 10**9)
CUT_ROWS, CUT_VALUES, CUT_ALIKE = range(3)  # kinds of shortfalls
CUT_MEANS = 3  # proportions whose mean was made right by what is known of it: never stored


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
        if self.low > self.high:  # every distance rests on their order
            raise ValueError("a clamp needs a lower bound that is not above the upper one")

    @property
    def least(self) -> int:
        """The smallest integer a value can become."""
        return _floored(self.low, self.exponent)

    @property
    def most(self) -> int:
        """The largest integer a value can become."""
        return _floored(self.high, self.exponent)

    @property
    def width(self) -> int:
        """How many steps lie between them, at least one."""
        return max(self.most - self.least, 1)

    @property
    def step(self) -> Fraction:
        """What one step is worth."""
        return Fraction(2) ** -self.exponent

    @property
    def form(self) -> list[Any]:
        """As it is stored."""
        return [str(self.low), str(self.high), self.exponent]

    @classmethod
    def read(cls, form: list[Any]) -> Clamp:
        """As it was stored."""
        low, high, exponent = form
        return cls(Fraction(low), Fraction(high), exponent)


# What cells are made of ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows there are in which all of these have a value."""

    there: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """1 if there is a row in which this has a value, or any row; else 0."""

    value: Scalar | None


@dataclass(frozen=True, slots=True)
class Steps:
    """A value on its grid, in steps from `origin`."""

    value: Scalar
    clamp: Clamp
    origin: int


@dataclass(frozen=True, slots=True)
class Powers:
    """The sum of a product of steps, each as often as its exponent says, over rows that have all of them."""

    steps: tuple[Steps, ...]
    exponents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Which of some public values a value is."""

    value: Scalar
    values: tuple[Value, ...]


Piece = Counted | Seen | Powers
Combination = tuple[tuple[int, Piece], ...]  # a whole combination of pieces: factors, and what they multiply
