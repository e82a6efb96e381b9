"""Expressions of a plan as operations: total, typed, and the same for every engine.

Two things are decided here and nowhere else. A clamp comes before any arithmetic (NULL stays NULL, NaN sorts
above everything and becomes the upper bound). And decimals, with which SQL computes exactly, are computed
with as whole numbers of their last decimal; what is compared or added up is the double nearest to the result,
as it is for a column.
"""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.expressions import FIRST, LAST, Call, Domain, Field, Scalar
from sfumato.queries.expressions import Constant as Known
from sfumato.queries.letters import TEXT_WORK
from sfumato.sources.work import TYPES, Apply, ConstantValue, Expression, Type, apply, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.queries.cells import Clamp
    from sfumato.queries.declared import Kind, Value

    Columns = Callable[[Field], Expression]

_ARITHMETIC = ("+", "-", "*", "negate", "abs", "round", "to decimal")
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")
_TEXTS = (
    *("lower", "upper", "trim", "strip", "left", "right", "substring", "concat", "split part", "replace"),
    *("regexp extract", "regexp replace"),
)


def lowered(scalar: Scalar, column: Columns) -> Expression:
    """An expression over columns, as operations that never fail."""
    match scalar:
        case Field():
            return column(scalar)
        case Known(value, domain):
            return constant(value, domain.kind)
        case Call(function, arguments):
            if (exactly := _exactly(scalar, column)) is not None:
                return exactly
            given = [lowered(each, column) for each in arguments]
            if function in TEXT_WORK:
                given = [_short(each, x) for each, x in zip(arguments, given, strict=True)]
            return _call(scalar, function, arguments, given)


def _short(argument: Scalar, given: Expression) -> Expression:
    """A text of any length that something is made of: of a very long one, the first letters."""
    is_open = isinstance(argument, Field) and argument.domain.kind == "text" and argument.domain.keys is None
    return apply("short", given, type="text") if is_open else given


def constant(value: Value | None, kind: Kind) -> ConstantValue:
    """A literal of its kind."""
    known = float(value) if kind == "number" and value is not None else value  # type: ignore[arg-type]  # a number
    return ConstantValue(known, TYPES[kind])


def integer(value: int, of: Type = "i64") -> ConstantValue:
    """A whole number of a type."""
    return ConstantValue(value, of)


def bare(value: int) -> ConstantValue:
    """A whole number whose type does not matter."""
    return ConstantValue(value, "i64", bare=True)


def double(value: float) -> ConstantValue:
    """A double."""
    return ConstantValue(value, "f64")


def when(condition: Expression, value: Expression, otherwise: Expression) -> Apply:
    """A value where a condition is true, else another."""
    return Apply("case", (condition, value, otherwise), value.type)


def null(of: Type) -> ConstantValue:
    """No value."""
    return ConstantValue(None, of)


# Decimals ------------------------------------------------------------------------------------------------


def _exactly(call: Call, column: Columns) -> Expression | None:
    """A call whose value is found by computing with decimals; None if it is not."""
    function, inner, domain = call.function, call.arguments[0], call.domain
    if domain.kind == "number" and domain.scale is not None and function in _ARITHMETIC:
        steps = cast(_steps(call, domain.scale, column), "f64")
        return apply("quotient", steps, double(10.0**domain.scale), type="f64")
    if inner.domain.kind != "number" or inner.domain.scale is None:
        return None
    one = 10**inner.domain.scale
    match function:
        case "to integer":
            return cast(_rounded(_steps(inner, inner.domain.scale, column), one), "i64")
        case "floor":
            return cast(_floored(_steps(inner, inner.domain.scale, column), one), "i64")
        case "ceil":
            turned = _negated(_steps(inner, inner.domain.scale, column))
            return cast(_negated(_floored(turned, one)), "i64")
    return None


def steps(scalar: Scalar, column: Columns) -> Expression:
    """A decimal as a whole number of its last decimal."""
    return _steps(scalar, scalar.domain.decimals or 0, column)


def _steps(scalar: Scalar, scale: int, column: Columns) -> Expression:
    """A value that has at most so many decimals, as a whole number of the last of them."""
    own = scalar.domain.decimals or 0
    found = _own_steps(scalar, own, column)
    if scale == own:
        return found
    kind = _whole_type(scale, scalar)
    return apply("*", cast(found, kind), integer(10 ** (scale - own), kind), type=kind)


def _own_steps(scalar: Scalar, scale: int, column: Columns) -> Expression:
    match scalar:
        case Known(None):
            return null("i64")
        case Known(value):
            return integer(round(Fraction(value) * 10**scale), _whole_type(scale, scalar))  # type: ignore[arg-type]  # a number
        case Call("+" | "-" as operator, (a, b), Domain("number")):
            kind = _whole_type(scale, scalar, a, b)
            left, right = (cast(_steps(each, scale, column), kind) for each in (a, b))
            return apply(operator, left, right, type=kind)
        case Call("*", (a, b), Domain("number")):
            scales = [each.domain.decimals or 0 for each in (a, b)]
            wide = {_whole_type(scale, scalar), _whole_type(scales[0], a), _whole_type(scales[1], b)}
            kind = "i128" if "i128" in wide else "i64"
            left, right = (
                cast(_steps(each, of, column), kind) for each, of in zip((a, b), scales, strict=True)
            )
            return apply("*", left, right, type=kind)
        case Call("negate", (a,), Domain("number")):
            return _negated(_steps(a, scale, column))
        case Call("abs", (a,), Domain("number")):
            found = _steps(a, scale, column)
            return apply("abs", found, type=found.type)
        case Call("round" | "to decimal", (a, Known(int(digits)))) if a.domain.decimals is not None:
            own = a.domain.decimals
            if own <= digits:
                return _steps(a, scale, column)
            rounded = _rounded(_steps(a, own, column), 10 ** (own - digits))
            return rounded if digits >= 0 else apply("*", rounded, integer(10**-digits, "i128"), type="i128")
        case Call("to decimal", (a, _)):
            return _nearest(lowered(a, column), scale)
    found = lowered(scalar, column)
    if scalar.domain.kind == "integer":
        return cast(found, _whole_type(scale, scalar))
    return _nearest(found, scale)


def _negated(value: Expression) -> Expression:
    return apply("negate", value, type=value.type)


def _nearest(value: Expression, scale: int) -> Expression:
    """A double as a whole number of its last decimal: it is clamped, and below 2^51 of them."""
    scaled = apply("*", value, double(10.0**scale), type="f64")
    return cast(apply("nearest", scaled, type="f64"), "i64")


def _rounded(value: Expression, one: int) -> Expression:
    """The nearest whole number of units of so many steps, half away from zero."""
    unit, half = integer(one, "i128"), integer(one // 2, "i128")

    def above(each: Expression) -> Expression:
        return apply("divide", apply("+", each, half, type="i128"), unit, type="i128")

    negative = apply("<", value, bare(0), type="bool")
    return when(negative, _negated(above(_negated(value))), above(value))


def _floored(value: Expression, one: int) -> Expression:
    """The whole number of units of so many steps below: a division would go towards zero."""
    unit = integer(one, "i128")
    rest = apply("+", apply("modulo", value, unit, type="i128"), unit, type="i128")
    rest = apply("modulo", rest, unit, type="i128")
    return apply("divide", apply("-", value, rest, type="i128"), unit, type="i128")


def _whole_type(scale: int, *scalars: Scalar) -> Type:
    """An integer type that holds values in units of their last decimal."""
    ends = [end for each in scalars for end in (each.domain.low, each.domain.high)]
    known = [abs(end) * 10**scale for end in ends if end is not None]
    return "i64" if len(known) == len(ends) and max(known) < 1 << 60 else "i128"


# Calls ---------------------------------------------------------------------------------------------------


def _call(call: Call, function: str, arguments: tuple[Scalar, ...], given: list[Expression]) -> Expression:
    kind = call.domain.kind
    of = TYPES[kind]
    match function:
        case "clamp":
            return _clamped(given[0], call)
        case "sane":
            since, until = call.domain.since or FIRST, call.domain.until or LAST
            high = datetime.datetime.combine(until, datetime.time.max) if kind == "timestamp" else until
            low = datetime.datetime.combine(since, datetime.time.min) if kind == "timestamp" else since
            return within(given[0], ConstantValue(low, of), ConstantValue(high, of))
        case (
            "and"
            | "or"
            | "not"
            | "is null"
            | "starts with"
            | "contains"
            | "like"
            | "ilike"
            | "regexp matches"
        ):
            return apply(function, *given, type="bool")
        case "=" | "<>" | "<" | "<=" | ">" | ">=" | "in":
            return apply(function, *alike(arguments, given), type="bool")
        case "case":
            return apply("case", *_branches(call, arguments, given), type=of)
        case "coalesce" | "least" | "greatest":
            return apply(
                function, *(_as_kind(a, x, kind) for a, x in zip(arguments, given, strict=True)), type=of
            )
        case "nullif":
            a, b = alike(arguments, given)
            if any(isinstance(each, Known) and each.value is None for each in arguments):
                return given[0]  # nothing equals NULL
            return when(apply("=", a, b, type="bool"), null(given[0].type), given[0])
        case "negate":
            return cast(_negated(given[0]), of)
        case "+" | "-" | "*":
            sides = (_as_kind(a, x, kind) for a, x in zip(arguments, given, strict=True))
            return apply(function, *sides, type=of)
        case "abs":
            return apply("abs", given[0], type=given[0].type)
        case "sign":
            return cast(apply("sign", given[0], type="i32"), "i64")
        case "sqrt":
            root = apply("sqrt", cast(given[0], "f64"), type="f64")
            return when(apply(">=", given[0], _zero(given[0]), type="bool"), root, null("f64"))
        case "//" | "%" | "/":
            return _divided(function, *given)
        case "floor" | "ceil":
            if arguments[0].domain.kind == "integer":
                return given[0]
            return apply("try cast", apply(function, given[0], type="f64"), type="i64")
        case "round":
            rounded = apply("round", given[0], cast(given[1], "i32"), type=given[0].type)
            return cast(rounded, "i64") if kind == "integer" else rounded
        case "to integer":
            return apply(
                "cast" if arguments[0].domain.kind == "boolean" else "try cast", given[0], type="i64"
            )
        case "to date" | "to timestamp" | "to number" | "to text":
            return cast(given[0], of)
        case "to single":
            # one row beyond what it holds would fail the question
            return cast(apply("try cast", given[0], type="f32"), "f64")
        case "exp" | "power":
            return apply(function, *(cast(each, "f64") for each in given), type="f64")
        case "ln":
            positive = apply(">", given[0], _zero(given[0]), type="bool")
            return when(positive, apply("ln", cast(given[0], "f64"), type="f64"), null("f64"))
        case "add days" | "add months" | "add seconds":  # a date has fewer than 2^31 days, and more seconds
            count = cast(given[1], "i64" if function == "add seconds" else "i32")
            return apply(function, given[0], count, type=of)
        case "regexp extract":
            group = arguments[2]
            assert isinstance(group, Known)
            return apply(function, *given[:2], bare(int(group.value or 0)), type="text")  # type: ignore[arg-type]
        case "position":
            place = cast(apply("position", *given, type="i64"), "i64")
            if call.domain.high is None:
                return place
            most = integer(int(call.domain.high))
            return when(apply(">", place, most, type="bool"), most, place)
        case "length":
            length = cast(apply("length", given[0], type="i64"), "i64")
            if call.domain.high is None:
                return length
            most = integer(int(call.domain.high))
            return when(apply(">", length, most, type="bool"), most, length)
        case "part":
            return cast(apply("part", *given, type="i64"), "i64")
        case "trunc" if given[0] == ConstantValue("week", "text"):
            # an engine tries what it knows of weeks on the extremes of a column when it plans a query, and
            # raises on dates at the end of what it can hold: an error that one row could cause
            day = cast(given[1], "date")
            before = apply(
                "-", apply("part", ConstantValue("isodow", "text"), day, type="i64"), bare(1), type="i64"
            )
            return cast(apply("minus days", day, cast(before, "i32"), type="date"), of)
        case "trunc":
            return cast(apply("trunc", *given, type=given[1].type), of)
        case "diff":
            return cast(apply("diff", *given, type="i64"), "i64")
        case "bucket":
            return _bucket(*given)
    assert function in _TEXTS, function
    return apply(function, *given, type="text")


def _zero(like: Expression) -> ConstantValue:
    return double(0.0) if like.type == "f64" else bare(0)


def _divided(function: str, a: Expression, b: Expression) -> Expression:
    there = apply("<>", b, _zero(b), type="bool")
    if function == "/":
        return when(there, apply("quotient", cast(a, "f64"), cast(b, "f64"), type="f64"), null("f64"))
    found = apply("divide" if function == "//" else "modulo", a, b, type="i64")
    return when(there, found, null("i64"))


def _bucket(x: Expression, low: Expression, high: Expression, count: Expression) -> Expression:
    """Which of so many equal parts of a range a value is in, from 1 on; 0 below it, one more above."""
    x, low, high = (cast(each, "f64") if each.type != "f64" else each for each in (x, low, high))
    part = apply("*", apply("-", x, low, type="f64"), cast(count, "f64"), type="f64")
    part = apply("quotient", part, apply("-", high, low, type="f64"), type="f64")
    whole = apply("try cast", apply("floor", part, type="f64"), type="i64")
    inside = apply("least", apply("-", count, bare(1), type="i64"), whole, type="i64")
    return apply(
        "case",
        apply("<", x, low, type="bool"),
        integer(0),
        apply(">=", x, high, type="bool"),
        apply("+", count, bare(1), type="i64"),
        apply("is not null", x, type="bool"),
        apply("+", bare(1), inside, type="i64"),
        null("i64"),
        type="i64",
    )


def alike(arguments: Sequence[Scalar], given: list[Expression]) -> list[Expression]:
    """Values that are compared: as doubles if one of them is one."""
    kinds = {each.domain.kind for each in arguments}
    if kinds == {"integer", "number"}:
        return [_as_kind(a, x, "number") for a, x in zip(arguments, given, strict=True)]
    return given


def _branches(call: Call, arguments: tuple[Scalar, ...], given: list[Expression]) -> list[Expression]:
    """The values of CASE in the type of all of them."""
    last = len(arguments) - 1
    return [
        _as_kind(a, x, call.domain.kind) if i % 2 or i == last else x
        for i, (a, x) in enumerate(zip(arguments, given, strict=True))
    ]


def _as_kind(scalar: Scalar, given: Expression, kind: Kind) -> Expression:
    if isinstance(scalar, Known) and scalar.value is None:
        return null(TYPES[kind])
    return cast(given, "f64") if kind == "number" and scalar.domain.kind == "integer" else given


def _clamped(value: Expression, call: Call) -> Expression:
    low, high = call.domain.low, call.domain.high
    assert low is not None
    assert high is not None
    if call.domain.kind == "integer":
        return cast(within(value, integer(int(low)), integer(int(high))), "i64")
    return within(value, double(float(low)), double(float(high)))


def within(value: Expression, low: ConstantValue, high: ConstantValue) -> Expression:
    """A value clamped to its bounds, total for every value: NaN becomes the upper one, NULL stays NULL."""
    return apply("within", value, low, high, type=value.type)


def on_grid(value: Expression, kind: Kind, clamp: Clamp) -> Expression:
    """A value as an integer: clamp before any arithmetic, then floor."""
    small = max(abs(clamp.least), abs(clamp.most)) < 1 << 31
    narrow: Type = "i32" if small else "i64"  # a sum is taken in 128 bits either way; this one is faster
    if kind == "integer" and clamp.exponent == 0:
        return cast(within(value, integer(int(clamp.low)), integer(int(clamp.high))), narrow)
    value = cast(value, "f64") if kind == "integer" else value
    inside = within(value, double(float(clamp.low)), double(float(clamp.high)))
    scaled = apply("*", inside, double(float(Fraction(2) ** clamp.exponent)), type="f64")
    return cast(apply("floor", scaled, type="f64"), narrow)
