"""How values and expressions are written for DuckDB: total, typed, and the same for every row order."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.expressions import FIRST, LAST, Call, Constant, Domain, Field, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.plan import Clamp

SQL_TYPE: dict[Kind, str] = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
_TEMPLATES = {
    "is null": "({} IS NULL)",
    "not": "(NOT {})",
    "abs": "ABS({})",
    "sign": "CAST(SIGN({}) AS BIGINT)",
    "sqrt": "(CASE WHEN {0} >= 0 THEN SQRT(CAST({0} AS DOUBLE)) END)",
    "//": "(CASE WHEN {1} <> 0 THEN {0} // {1} END)",
    "%": "(CASE WHEN {1} <> 0 THEN {0} % {1} END)",
    "/": "(CASE WHEN {1} <> 0 THEN CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE) END)",
    "like": "(({}) LIKE {})",
    "ilike": "(({}) ILIKE {})",
    "starts with": "STARTS_WITH({}, {})",
    "contains": "CONTAINS({}, {})",
    "lower": "(LOWER({}) COLLATE C)",
    "upper": "(UPPER({}) COLLATE C)",
    "trim": "(TRIM({}) COLLATE C)",
    "left": "(LEFT({}, {}) COLLATE C)",
    "right": "(RIGHT({}, {}) COLLATE C)",
    "substring": "(SUBSTRING({}, {}, {}) COLLATE C)",
    "to date": "CAST({} AS DATE)",
    "to number": "CAST({} AS DOUBLE)",
    "to single": "CAST(CAST({} AS FLOAT) AS DOUBLE)",
    "to text": "(CAST({} AS VARCHAR) COLLATE C)",
    "bucket": (
        "(CASE WHEN {0} < {1} THEN CAST(0 AS BIGINT) WHEN {0} >= {2} THEN {3} + 1 WHEN {0} IS NOT NULL THEN"
        " 1 + LEAST({3} - 1, TRY_CAST(FLOOR((CAST({0} AS DOUBLE) - {1}) * {3} / ({2} - {1})) AS BIGINT)) END)"
    ),
}


def scalar_text(scalar: Scalar, column: Callable[[Field], str]) -> str:
    """An expression over columns, as SQL that never raises."""
    match scalar:
        case Field():
            return column(scalar)
        case Constant(value, domain):
            return "NULL" if value is None else constant_text(value, domain.kind)
        case Call(function, arguments):
            if (exactly := _exactly(scalar, column)) is not None:
                return exactly
            printed = [scalar_text(each, column) for each in arguments]
            return _call(scalar, function, arguments, printed)


# Decimals: SQL computes with them exactly, so they are computed with as whole numbers of their last decimal.
# What is compared or added up is the double that is nearest to the result, as it is for a column.

_ARITHMETIC = ("+", "-", "*", "negate", "abs", "round", "to decimal")


def _exactly(call: Call, column: Callable[[Field], str]) -> str | None:
    """A call whose value is found by computing with decimals; None if it is not."""
    function, inner, domain = call.function, call.arguments[0], call.domain
    if domain.kind == "number" and domain.scale is not None and function in _ARITHMETIC:
        return f"(CAST({_steps(call, domain.scale, column)} AS DOUBLE) / {double(10.0**domain.scale)})"
    if inner.domain.kind != "number" or inner.domain.scale is None:
        return None
    one, steps = 10**inner.domain.scale, ""
    if function in ("to integer", "floor", "ceil"):
        steps = _steps(inner, inner.domain.scale, column)
    match function:
        case "to integer":
            return f"CAST({_rounded(steps, one)} AS BIGINT)"
        case "floor":
            return f"CAST({_floored(steps, one)} AS BIGINT)"
        case "ceil":
            return f"CAST(- {_floored(f'(- {steps})', one)} AS BIGINT)"
    return None


def steps_text(scalar: Scalar, column: Callable[[Field], str]) -> str:
    """A decimal as a whole number of its last decimal."""
    return _steps(scalar, scalar.domain.decimals or 0, column)


def _steps(scalar: Scalar, scale: int, column: Callable[[Field], str]) -> str:
    """A value that has at most so many decimals, as a whole number of the last of them."""
    own = scalar.domain.decimals or 0
    text = _own_steps(scalar, own, column)
    if scale == own:
        return text
    kind = _whole_type(scale, scalar)
    return f"(CAST({text} AS {kind}) * {integer(10 ** (scale - own), kind)})"


def _own_steps(scalar: Scalar, scale: int, column: Callable[[Field], str]) -> str:
    match scalar:
        case Constant(None):
            return "CAST(NULL AS BIGINT)"
        case Constant(value):
            return integer(round(Fraction(value) * 10**scale), _whole_type(scale, scalar))  # type: ignore[arg-type]  # a number
        case Call("+" | "-" as operator, (a, b), Domain("number")):
            kind = _whole_type(scale, scalar, a, b)
            left, right = (f"CAST({_steps(each, scale, column)} AS {kind})" for each in (a, b))
            return f"({left} {operator} {right})"
        case Call("*", (a, b), Domain("number")):
            scales = [each.domain.decimals or 0 for each in (a, b)]
            wide = {_whole_type(scale, scalar), _whole_type(scales[0], a), _whole_type(scales[1], b)}
            kind = "HUGEINT" if "HUGEINT" in wide else "BIGINT"
            left, right = (
                f"CAST({_steps(each, of, column)} AS {kind})" for each, of in zip((a, b), scales, strict=True)
            )
            return f"({left} * {right})"
        case Call("negate", (a,), Domain("number")):
            return f"(- {_steps(a, scale, column)})"
        case Call("abs", (a,), Domain("number")):
            return f"ABS({_steps(a, scale, column)})"
        case Call("round" | "to decimal", (a, Constant(int(digits)))) if a.domain.decimals is not None:
            own = a.domain.decimals
            if own <= digits:
                return _steps(a, scale, column)
            found = _rounded(_steps(a, own, column), 10 ** (own - digits))
            return found if digits >= 0 else f"({found} * {integer(10**-digits, 'HUGEINT')})"
        case Call("to decimal", (a, _)):
            return _nearest(scalar_text(a, column), scale)
    text = scalar_text(scalar, column)
    if scalar.domain.kind == "integer":
        return f"CAST({text} AS {_whole_type(scale, scalar)})"
    return _nearest(text, scale)


def _nearest(text: str, scale: int) -> str:
    """A double as a whole number of its last decimal: it is clamped, and below 2^51 of them."""
    return f"CAST(ROUND({text} * {double(10.0**scale)}) AS BIGINT)"


def _rounded(steps: str, one: int) -> str:
    """The nearest whole number of units of so many steps, half away from zero."""
    unit, half = integer(one, "HUGEINT"), integer(one // 2, "HUGEINT")
    below, above = f"- ((- {steps} + {half}) // {unit})", f"({steps} + {half}) // {unit}"
    return f"(CASE WHEN {steps} < 0 THEN {below} ELSE {above} END)"


def _floored(steps: str, one: int) -> str:
    """The whole number of units of so many steps below: a division would go towards zero."""
    unit = integer(one, "HUGEINT")
    return f"(({steps} - (({steps} % {unit}) + {unit}) % {unit}) // {unit})"


def _whole_type(scale: int, *scalars: Scalar) -> str:
    """An integer type that holds values in units of their last decimal."""
    ends = [end for each in scalars for end in (each.domain.low, each.domain.high)]
    known = [abs(end) * 10**scale for end in ends if end is not None]
    return "BIGINT" if len(known) == len(ends) and max(known) < 1 << 60 else "HUGEINT"


def _call(call: Call, function: str, arguments: tuple[Scalar, ...], printed: list[str]) -> str:
    kind = call.domain.kind
    match function:
        case "clamp":
            return _clamped(printed[0], call)
        case "sane":
            since, until = call.domain.since or FIRST, call.domain.until or LAST
            low, high = constant_text(since, kind), constant_text(until, kind)
            if kind == "timestamp":
                end = datetime.datetime.combine(until, datetime.time.max)
                high = constant_text(end, "timestamp")
            return _within(printed[0], low, high)
        case "and" | "or":
            return f"({f' {function.upper()} '.join(printed)})"
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            a, b = alike(arguments, printed)
            return f"({a} {function} {b})"
        case "in":
            subject, *among = alike(arguments, printed)
            return f"({subject} IN ({', '.join(among)}))"
        case "case":
            *pairs, otherwise = _branches(call, arguments, printed)
            whens = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(pairs[0::2], pairs[1::2], strict=True))
            return f"(CASE {whens} ELSE {otherwise} END)"
        case "coalesce" | "least" | "greatest":
            values = [_as_kind(a, p, kind) for a, p in zip(arguments, printed, strict=True)]
            return f"{function.upper()}({', '.join(values)})"
        case "nullif":
            a, b = alike(arguments, printed)
            return f"(CASE WHEN {a} = {b} THEN NULL ELSE {printed[0]} END)"
        case "negate":
            return f"CAST(- {printed[0]} AS {SQL_TYPE[kind]})"
        case "+" | "-" | "*":
            sides = [_as_kind(a, p, kind) for a, p in zip(arguments, printed, strict=True)]
            return f"({sides[0]} {function} {sides[1]})"
        case "floor" | "ceil":
            if arguments[0].domain.kind == "integer":
                return printed[0]
            return f"TRY_CAST({function.upper()}({printed[0]}) AS BIGINT)"
        case "round":
            rounded = f"ROUND({printed[0]}, CAST({printed[1]} AS INTEGER))"
            return f"CAST({rounded} AS BIGINT)" if kind == "integer" else rounded
        case "to integer":
            if arguments[0].domain.kind == "boolean":
                return f"CAST({printed[0]} AS BIGINT)"
            return f"TRY_CAST({printed[0]} AS BIGINT)"
        case "concat":
            return f"(({' || '.join(printed)}) COLLATE C)"
        case "length":
            length = f"CAST(LENGTH({printed[0]}) AS BIGINT)"
            if call.domain.high is None:
                return length
            most = integer(int(call.domain.high), "BIGINT")
            return f"(CASE WHEN {length} > {most} THEN {most} ELSE {length} END)"
        case "part":
            return f"CAST(EXTRACT({_word(arguments[0])} FROM {printed[1]}) AS BIGINT)"
        case "trunc" if _word(arguments[0]) == "week":
            # DATE_TRUNC and EXTRACT of weeks are tried on the extremes of the column when a query is planned,
            # and raise on dates at the end of what the engine can hold: an error that one row could cause
            day = f"CAST({printed[1]} AS DATE)"
            return f"CAST({day} - CAST(EXTRACT(isodow FROM {day}) - 1 AS INTEGER) AS {SQL_TYPE[kind]})"
        case "trunc":
            return f"CAST(DATE_TRUNC('{_word(arguments[0])}', {printed[1]}) AS {SQL_TYPE[kind]})"
        case "diff":
            return f"CAST(DATE_DIFF('{_word(arguments[0])}', {printed[1]}, {printed[2]}) AS BIGINT)"
    return _TEMPLATES[function].format(*printed)


def _word(unit: Scalar) -> str:
    """A unit of time: one of ours, since the reader takes no other."""
    assert isinstance(unit, Constant)
    return str(unit.value)


def alike(arguments: Sequence[Scalar], printed: list[str]) -> list[str]:
    """Values that are compared: as doubles if one of them is one."""
    kinds = {each.domain.kind for each in arguments}
    if kinds == {"integer", "number"}:
        return [_as_kind(a, p, "number") for a, p in zip(arguments, printed, strict=True)]
    return printed


def _branches(call: Call, arguments: tuple[Scalar, ...], printed: list[str]) -> list[str]:
    """The values of CASE in the type of all of them."""
    last = len(arguments) - 1
    return [
        _as_kind(a, p, call.domain.kind) if i % 2 or i == last else p
        for i, (a, p) in enumerate(zip(arguments, printed, strict=True))
    ]


def _as_kind(scalar: Scalar, printed: str, kind: Kind) -> str:
    if isinstance(scalar, Constant) and scalar.value is None:
        return f"CAST(NULL AS {SQL_TYPE[kind]})"
    return f"CAST({printed} AS DOUBLE)" if kind == "number" and scalar.domain.kind == "integer" else printed


def _clamped(text: str, call: Call) -> str:
    low, high = call.domain.low, call.domain.high
    assert low is not None
    assert high is not None
    if call.domain.kind == "integer":
        return f"CAST({_within(text, integer(int(low), 'BIGINT'), integer(int(high), 'BIGINT'))} AS BIGINT)"
    return _within(text, double(float(low)), double(float(high)))


def _within(x: str, low: str, high: str) -> str:
    """x clamped to its bounds, total for every value.

    The common case stands first because the engine then skips the others. NaN sorts above everything, so it
    fails the first two tests and becomes `high`; NULL fails all and stays NULL.
    """
    inside = f"WHEN {x} BETWEEN {low} AND {high} THEN {x}"
    return f"(CASE {inside} WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END)"


def on_grid(text: str, kind: Kind, clamp: Clamp) -> str:
    """A value as an integer: clamp before any arithmetic, then floor."""
    small = max(abs(clamp.least), abs(clamp.most)) < 1 << 31
    narrow = "INTEGER" if small else "BIGINT"  # the sum is taken in 128 bits either way; this one is faster
    if kind == "integer" and clamp.exponent == 0:
        low, high = integer(int(clamp.low), "BIGINT"), integer(int(clamp.high), "BIGINT")
        return f"CAST({_within(text, low, high)} AS {narrow})"
    value = f"CAST({text} AS DOUBLE)" if kind == "integer" else text
    low, high = double(float(clamp.low)), double(float(clamp.high))
    factor = double(float(Fraction(2) ** clamp.exponent))
    return f"CAST(FLOOR({_within(value, low, high)} * {factor}) AS {narrow})"


def field_text(name: str, kind: Kind) -> str:
    """A column in the type it is used as. The casts are total: whatever the engine stores, they succeed.

    Text is compared byte by byte whatever collation the column was declared with: under NOCASE one row would
    match two keys, and two persons would share one cap.
    """
    if kind == "text":
        return f"CAST({name} AS VARCHAR) COLLATE C"
    return f"CAST({name} AS DOUBLE)" if kind == "number" else name


def constant_text(value: Value, kind: Kind) -> str:
    """A literal of its type."""
    if kind == "number":
        return double(float(value))  # type: ignore[arg-type]  # a number
    if kind == "text":
        return f"{typed(value)}"
    return f"CAST({typed(value)} AS {SQL_TYPE[kind]})"


def listed(values: tuple[Value, ...], kind: Kind) -> str:
    """Literals side by side."""
    return ", ".join(constant_text(value, kind) for value in values)


def typed(value: Value) -> str:
    """A value as text the engine casts exactly; the cast beside it carries the type."""
    return "'" + str(value).replace("'", "''") + "'"


def integer(value: int, engine_type: str) -> str:
    """A whole number of a type."""
    return f"CAST({value} AS {engine_type})"


def double(value: float) -> str:
    """A literal with an exponent is a DOUBLE in DuckDB, read to the nearest one: exactly this value."""
    return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"


def quoted(name: str) -> str:
    """A name of the policy."""
    return '"' + name.replace('"', '""') + '"'
