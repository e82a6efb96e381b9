"""Ends of intervals: rounded outward, and carried through arithmetic and functions.

Floats are allowed, since all of it is post-processing; each is moved outward by more than it was rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.shown import Arithmetic, Function, Mean, Number, Within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.linear import Ends
    from sfumato.queries.shown import Expression

WHOLE: Ends = (-math.inf, math.inf)
TRIFLE = 1e-12  # by this part floats are moved outward, far more than their rounding comes to


def sure(expression: Expression) -> Ends:
    """Where a number lies whatever was drawn: by what is public alone."""
    if (exact := _exactly(expression)) is not None:
        return float_down(exact[0]), float_up(exact[1])
    match expression:
        case Arithmetic(operator, left, right):
            return combined(operator, sure(left), sure(right))
        case Function(name, arguments):
            return function_ends(name, [sure(each) for each in arguments])
    return WHOLE


def _exactly(expression: Expression) -> tuple[Fraction, Fraction] | None:
    """The same without rounding, where that is simple."""
    match expression:
        case Number(value):
            return value, value
        case Within(_, low, high) | Mean(_, _, low, high):
            return low, high
        case Arithmetic(operator, left, right):
            a, b = _exactly(left), _exactly(right)
            if a is None or b is None or (operator == "/" and b[0] <= 0 <= b[1]):
                return None
            corners = [arithmetic(operator, x, y) for x in a for y in b]
            return min(corners), max(corners)
    return None


def arithmetic(operator: str, a: Fraction, b: Fraction) -> Fraction:
    """a (+ - * /) b."""
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    return a * b if operator == "*" else a / b


def float_down(x: Fraction) -> float:
    """The largest float that is at most x."""
    try:
        near = float(x)
    except OverflowError:
        return -math.inf if x < 0 else math.nextafter(math.inf, 0)
    return near if math.isinf(near) or Fraction(near) <= x else math.nextafter(near, -math.inf)


def float_up(x: Fraction) -> float:
    """The smallest float that is at least x."""
    return -float_down(-x)


def entropy(counts: Sequence[Fraction]) -> Fraction:
    """How many bits it takes to say of which kind a row is, if there are so many of each kind."""
    known = [float(each) for each in counts if each > 0]
    whole = math.fsum(known)
    bits = math.fsum(-(n / whole) * math.log2(n / whole) for n in known)
    return Fraction(min(max(0.0, bits), math.log2(max(len(counts), 1))))


def _entropy_ends(ends: list[Ends]) -> Ends:
    """Each part of the sum alone: it rises up to 1/e, and falls after that."""
    lows, highs = ([max(each[i], 0.0) for each in ends] for i in (0, 1))
    least, most = math.fsum(lows), math.fsum(highs)
    if math.isinf(most):
        return 0.0, math.log2(len(ends))
    found = []
    for low, high in zip(lows, highs, strict=True):
        parts = [
            n / whole if n > 0 else 0.0 for n, whole in ((low, low + most - high), (high, high + least - low))
        ]
        found.append(_part_ends(max(0.0, parts[0] * (1 - TRIFLE)), min(1.0, parts[1] * (1 + TRIFLE))))
    low, high = (math.fsum(each[i] for each in found) for i in (0, 1))
    return max(0.0, low - TRIFLE), min(math.log2(len(ends)), high + TRIFLE)


def _part_ends(low: float, high: float) -> Ends:
    """The least and the most of -p log2 p, for p in a range."""
    at = [-p * math.log2(p) if p > 0 else 0.0 for p in (low, high)]
    top = 1 / math.e
    return min(at), -top * math.log2(top) if low <= top <= high else max(at)


def function_ends(name: str, ends: list[Ends]) -> Ends:
    """The same on intervals; all but the first two are monotone."""
    low, high = ends[0]
    match name:
        case "square" | "abs":
            far = max(abs(low), abs(high))
            near = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
            return (near, far) if name == "abs" else (max(0.0, below(near * near)), above(far * far))
        case "root":
            return below(math.sqrt(max(low, 0.0))) if low > 0 else 0.0, above(math.sqrt(max(high, 0.0)))
        case "floor" | "ceil" | "round" | "even":
            digits = round(ends[1][0]) if name == "round" else 0
            shift = 10.0**-digits
            return below(low - shift), above(high + shift)
        case "entropy":
            return _entropy_ends(ends)
        case "least" | "smallest":
            return min(each[0] for each in ends), min(each[1] for each in ends)
    return max(each[0] for each in ends), max(each[1] for each in ends)


def combined(operator: str, a: Ends, b: Ends) -> Ends:
    """Interval arithmetic in floats, one step outward after each operation."""
    if operator == "+":
        return below(a[0] + b[0]), above(a[1] + b[1])
    if operator == "-":
        return below(a[0] - b[1]), above(a[1] - b[0])
    if operator == "/":
        if b[0] <= 0 <= b[1]:
            return WHOLE
        return combined("*", a, (below(1 / b[1]), above(1 / b[0])))
    corners = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return below(min(corners)), above(max(corners))


def below(x: float) -> float:
    return math.nextafter(x, -math.inf)


def above(x: float) -> float:
    return math.nextafter(x, math.inf)
