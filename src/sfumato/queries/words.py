"""Expressions and measures in SQL's words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, Constant, Field, Scalar

if TYPE_CHECKING:
    from fractions import Fraction


_NAMES = {
    "trunc": "DATE_TRUNC",
    "part": "DATE_PART",
    "diff": "DATE_DIFF",
    "bucket": "WIDTH_BUCKET",
    "strip": "TRIM",
    "negate": "-",
}
_TYPES = {
    "to date": "DATE", "to number": "DOUBLE", "to single": "FLOAT", "to decimal": "DECIMAL",
    "to integer": "INTEGER", "to text": "VARCHAR", "to timestamp": "TIMESTAMP",
}  # fmt: skip
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
    if function.startswith("to "):
        return f"CAST({said[0]} AS {_TYPES[function]})"
    return f"{_NAMES.get(function, function.upper().replace(' ', '_'))}({', '.join(said)})"


def fraction(value: Fraction) -> str:
    """A public number, as short as it is exact to twelve digits."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
