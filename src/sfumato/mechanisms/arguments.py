"""What may be given to a mechanism: exact numbers within reach, or a refusal that says what to write.

Floats are refused, not read: 0.1 is not a tenth. Numbers that are too large or too small to mean anything
are refused too, so that no formula behind them overflows.
"""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_EPSILON = 10_000  # an epsilon above this is no privacy at all
LARGEST_PART = 1 << 8192  # numerators and denominators beyond this could not be stored or shown
WIDEST = 1 << 256  # a scale beyond this is a mistake, and floats about its square would overflow


def exact(name: str, value: Fraction | int) -> Fraction:
    """The number as a fraction, if it is exact already; integers of numpy count.

    >>> exact("scale", 0.1)
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: scale = 0.1 cannot be used: write it exactly, such as Fraction("0.1")
    """
    number = _index(value)
    if number is not None or isinstance(value, Fraction):
        # Python's integers: a Fraction made of numpy's keeps them, and they wrap
        top, bottom = (number, 1) if number is not None else (int(value.numerator), int(value.denominator))
        if max(abs(top), bottom) >= LARGEST_PART:
            raise InvalidParameter(name, "a number of thousands of digits", "round it")
        return Fraction(top, bottom)
    text = str(value)
    raise InvalidParameter(
        name, value, f'write it exactly, such as Fraction("{text if _NUMBER(text) else 1}")'
    )


_NUMBER = re.compile(r"\d+(\.\d*)?(e-?\d+)?").fullmatch


def _index(value: object) -> int | None:
    """Python's integer for a whole number of any kind; None for what is none, and for truth values."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None


def rational(name: str, value: Fraction | int, *, zero: bool = False, most: int = WIDEST) -> Fraction:
    """The number as a fraction, if it is exact, positive (or zero, where that is allowed) and within reach.

    >>> rational("scale", 10)
    Fraction(10, 1)
    """
    number = exact(name, value)
    if number < 0 or (number == 0 and not zero):
        raise InvalidParameter(name, number, f"give a number {'of at least' if zero else 'above'} 0")
    if number > most or 0 < number < Fraction(1, WIDEST**2):
        limit = most if most == LARGEST_EPSILON else f"2^{most.bit_length() - 1}"
        raise InvalidParameter(name, number, f"give a number between 2^-512 and {limit}")
    return number


def price(name: str, epsilon: Fraction | int, *, zero: bool = False) -> Fraction:
    """An epsilon: exact, positive, and small enough to mean something."""
    return rational(name, epsilon, zero=zero, most=LARGEST_EPSILON)


def whole(name: str, value: int, *, least: int | None = None) -> int:
    """The number as one of Python's integers, if it is a whole one and not too small."""
    number = _index(value)
    if number is None or (least is not None and number < least) or abs(number) >= LARGEST_PART:
        low = "" if least is None else f" of at least {least}"
        raise InvalidParameter(name, value, f"give a whole number{low}")
    return number


def whole_vector(answer: Iterable[int], name: str = "answer") -> tuple[int, ...]:
    """The answer as Python's integers: those of numpy would wrap. What it holds stays out of the message."""
    try:
        return tuple(map(operator.index, listed(answer, name)))
    except TypeError:
        raise InvalidParameter(name, "not whole numbers", "count in steps of a public grid") from None


def listed(answer: Iterable[int], name: str = "answer") -> Iterable[int]:
    """The answer, if it is a vector at all."""
    try:
        iter(answer)
    except TypeError:
        raise InvalidParameter(name, "a single number", "give a vector, such as (5,)") from None
    return answer


def check_tail(tail: Fraction) -> Fraction:
    """Refuse what is no tail, or too small to be told from 0."""
    if not Fraction(1, 1 << 1000) < (number := exact("tail", tail)) < 1:
        raise InvalidParameter("tail", tail, "take a probability strictly between 10^-300 and 1")
    return number


def set_fields(owner: object, **values: object) -> None:
    """Put checked values into the fields of a frozen owner, from its `__post_init__` alone."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)
