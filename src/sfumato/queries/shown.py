"""What is shown of released numbers: the expressions of a result.

They are arithmetic on integers that were drawn, so all of them are post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction


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
class Within:
    """A sum of released integers that is known to lie within public bounds, and is kept there."""

    total: Weighted
    low: Fraction
    high: Fraction


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
    """A function of released numbers: square, root, abs, round (to digits), even (rounded, from the middle to
    the even neighbour), least, greatest; the entropy, in bits, of how many rows there are of each kind.

    The least and the greatest have no value where one of their arguments has none; the smallest and the
    largest, which an analyst asks for, leave it out.
    """

    name: Literal[
        "square",
        "root",
        "abs",
        "round",
        "even",
        "floor",
        "ceil",
        "entropy",
        "least",
        "greatest",
        "smallest",
        "largest",
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


Expression = KeyOf | Released | Number | Weighted | Within | Arithmetic | Mean | Function | Chosen


def unbounded(expression: Expression, keeps: Callable[[Weighted], bool] = lambda _: False) -> Expression:
    """The same as it was released, kept within no bounds but where it `keeps` them; means keep theirs."""
    match expression:
        case Within(total):
            return expression if keeps(total) else total
        case Arithmetic(_, left, right):
            return replace(expression, left=unbounded(left, keeps), right=unbounded(right, keeps))
        case Function(_, arguments):
            return replace(expression, arguments=tuple(unbounded(each, keeps) for each in arguments))
    return expression
