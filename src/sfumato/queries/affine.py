"""Values that are another value times a number and a number more: x + 1, 2 - x.

Their sums and averages follow from the sum and the count of that other value. So SUM(x), SUM(x + 1) and
SUM(x + 2) are measured once, for the whole price, and not three times for a third of it each.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, Constant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.queries.expressions import Scalar


@dataclass(frozen=True, slots=True)
class Affine:
    """base * times + more, which is NULL just where the base is."""

    base: Scalar
    times: int = 1
    more: Fraction = Fraction(0)


def affine(value: Scalar) -> Affine:
    """What a value is made of; itself, if it is no such sum.

    Of doubles only sums are looked through: a multiple has steps of its own.
    """
    match value:
        case Call("+", (inner, Constant() as number)) | Call("+", (Constant() as number, inner)):
            return _moved(value, inner, 1, number)
        case Call("-", (inner, Constant() as number)):
            return _moved(value, inner, 1, number, -1)
        case Call("-", (Constant() as number, inner)):
            return _moved(value, inner, -1, number)
        case Call("negate", (inner,)):
            below = affine(inner)
            return Affine(below.base, -below.times, -below.more)
        case Call("*", (inner, Constant(int(factor)))) | Call("*", (Constant(int(factor)), inner)):
            below = affine(inner)
            if type(factor) is int and factor and value.domain.kind == below.base.domain.kind == "integer":
                return Affine(below.base, below.times * factor, below.more * factor)
    return Affine(value)


def _moved(value: Scalar, inner: Scalar, sign: int, number: Constant, of_number: int = 1) -> Affine:
    below = affine(inner)
    is_known = isinstance(number.value, (int, float)) and not isinstance(number.value, bool)
    if not is_known or isinstance(below.base, Constant) or not below.base.domain.numeric:
        return Affine(value)
    assert isinstance(number.value, (int, float))
    decimals = number.domain.decimals
    exact = (
        Fraction(number.value)
        if decimals is None
        else Fraction(round(number.value * 10**decimals), 10**decimals)
    )
    return Affine(below.base, sign * below.times, sign * below.more + of_number * exact)


def with_bases(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The values, and what they are made of."""
    listed = list(values)
    return tuple(dict.fromkeys([*listed, *(affine(each).base for each in listed)]))


def shared(values: Iterable[Scalar]) -> frozenset[Scalar]:
    """The values of which several of these are made."""
    counts: dict[Scalar, int] = {}
    for each in dict.fromkeys(values):
        base = affine(each).base
        counts[base] = counts.get(base, 0) + 1
    return frozenset(base for base, count in counts.items() if count > 1)
