"""Expressions and measures in SQL's words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, Constant, Field, Scalar
from sfumato.queries.plan import Distinct, Kinds, Moments, Octaves, People, Selected, Spread, Sum

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.queries.plan import Measure

_INFIX = {"and", "or", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "like", "ilike"}


def spoken(scalar: Scalar) -> str:
    """An expression as one would write it.

    >>> from fractions import Fraction
    >>> from sfumato.queries.domains import call
    >>> from sfumato.queries.expressions import Domain, constant
    >>> age = Field("t0.age", Domain("integer", Fraction(0), Fraction(9)), "", ("visits", "age"))
    >>> spoken(call("+", age, constant(1, "integer")))
    'age + 1'
    """
    match scalar:
        case Field(name, _, _, (_, column)):
            return column or name.partition(".")[2]
        case Constant(value):
            return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
        case Call(function, arguments):
            return _spoken_call(function, arguments)


def _spoken_call(function: str, arguments: tuple[Scalar, ...]) -> str:
    said = [spoken(each) for each in arguments]
    if function in ("clamp", "sane"):
        return said[0]
    if function in _INFIX:
        return f" {function.upper()} ".join(
            f"({part})" if isinstance(each, Call) and each.function in _INFIX else part
            for part, each in zip(said, arguments, strict=True)
        )
    if function == "case":
        *pairs, otherwise = said
        whens = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(pairs[0::2], pairs[1::2], strict=True))
        return f"CASE {whens} ELSE {otherwise} END"
    if function == "is null":
        return f"{said[0]} IS NULL"
    if function == "not":
        return f"NOT ({said[0]})"
    if function == "in":
        return f"{said[0]} IN ({', '.join(said[1:])})"
    return f"{function.upper().replace(' ', '_')}({', '.join(said)})"


def describe(measure: Measure) -> str:
    """A measure in SQL's words.

    >>> describe(Moments((), (), 0, False, 10))
    'COUNT(*)'
    """
    match measure:
        case Moments(values, _, degree, nulls):
            told = ", ".join(spoken(value) for value in values)
            if not values:
                return "COUNT(*)"
            names = ["COUNT(*)"] if nulls else []
            names.append(f"COUNT({told})")
            if degree and len(values) == 1:
                names.append(f"SUM({told})")
            if degree > 1 and len(values) == 1:
                names.append(f"SUM({told}^2)")
            if len(values) == 2:
                names.append(f"moments of ({told})")
            return " and ".join(names)
        case Sum(value):
            centre = fraction(measure.centre * measure.clamp.step)
            return f"SUM({spoken(value)})" if not measure.centre else f"SUM({spoken(value)} - {centre})"
        case Octaves(value):
            return f"how much {'rows' if value is None else spoken(value)} people have"
        case People(value):
            return "COUNT(DISTINCT person)" + ("" if value is None else f" where {spoken(value)} is not NULL")
        case Distinct(value):
            return f"COUNT(DISTINCT {spoken(value)})"
        case Selected():
            return "which groups are shown"
        case Spread(value, _, ranks):
            return f"quantiles {', '.join(fraction(rank) for rank in ranks)} of {spoken(value)}"
        case Kinds(value):
            return f"MODE({spoken(value)})"


def fraction(value: Fraction) -> str:
    """A public number, as short as it is exact to twelve digits."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
