"""What the policy says about the values of a column, as expressions know it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.cells import SUM_BITS
from sfumato.queries.expressions import EXACT, Domain
from sfumato.queries.notation import READING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.declared import DeclaredColumn


def domain_of(column: DeclaredColumn, reading: int = READING) -> Domain:
    """What the policy says about the values of a column."""
    low, high, scale = column.low, column.high, _scale(column)
    if scale is not None and low is not None and high is not None and reading > 2:
        low, high = _on_decimals(low, scale, math.ceil), _on_decimals(high, scale, math.floor)
        if low > high:  # no decimal lies between them
            low, high, scale = column.low, column.high, None
    return Domain(
        column.kind,
        low,
        high,
        column.exponent,
        column.since,
        column.until,
        column.keys,
        column.tuned,
        column.required,
        scale,
    )


def _on_decimals(end: Fraction, scale: int, inward: Callable[[Fraction], int]) -> Fraction:
    """A bound, or the next one inside with so many decimals: what is clamped to it must have them, too."""
    one = 10**scale
    if float(Fraction(round(end * one), one)) == float(end):
        return end
    return Fraction(inward(end * one), one)


def finest_grid(domain: Domain, rows: int) -> int | None:
    """The grid on which a person's doubles are added up, so fine that one of them is hardly ever changed.

    A sum of so many rows is below 2^104 steps, so that it becomes a double by one rounding; one of 2^43 rows,
    more than any table has, below 2^126, so that it fits into 128 bits.
    """
    if domain.kind != "number" or domain.adds_exactly or domain.low is None or domain.high is None:
        return None
    most = max(abs(domain.low), abs(domain.high), Fraction(1, 1 << 20))
    one, all_ = (math.ceil(each).bit_length() for each in (most, most * rows))
    return min(SUM_BITS - all_, 126 - 43 - one)


def _scale(column: DeclaredColumn) -> int | None:
    """How many decimals a column has, if doubles can tell all its values apart."""
    if column.scale is None or column.low is None or column.high is None:
        return None
    widest = max(abs(column.low), abs(column.high)) * 10**column.scale
    return column.scale if widest < EXACT else None
