"""How expressions are written down, for ever: the part of stored forms that `forms` and `measures` share.

The names below are those of the stored form, not those of classes and functions: whoever renames one of ours
leaves them as they are.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import TYPE_CHECKING, Any

from sfumato.queries.expressions import Call, Constant, Field, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.queries.declared import Value

Form = Any  # of JSON: lists, objects, texts, whole numbers, true, false and null

# What functions are called in the stored form. One that is renamed here keeps its name there.
FUNCTIONS = {
    name: name
    for name in (
        *("and", "or", "not", "is null", "=", "<>", "<", "<=", ">", ">=", "in", "case", "coalesce", "nullif"),
        *("+", "-", "*", "/", "//", "%", "negate", "abs", "sign", "floor", "ceil", "round", "sqrt"),
        *("least", "greatest", "bucket", "like", "ilike", "starts with", "contains", "lower", "upper"),
        *("trim", "concat", "substring", "left", "right", "length", "part", "trunc", "diff"),
        *("to date", "to number", "to single", "to decimal", "to integer", "to text", "clamp", "sane"),
    )
}
IN_ANY_ORDER = ("and", "or")
# where it matters whether SQL takes a literal for a decimal or for a double
EXACT = (
    *("+", "-", "*", "negate", "abs", "round", "to integer", "to decimal"),
    *("case", "coalesce", "least", "greatest", "nullif"),
)
# How SQL is understood, noted with every charge: 0 before there were forms, 1 while what is READ_ANEW was
# read otherwise.
READING = 2
READ_ANEW = 2
DOUBLE = {"double": True}  # beside a literal that SQL takes for one, where a decimal would be another


def text(form: Form) -> str:
    """A form as one text: no blanks, names sorted, letters of ASCII."""
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


def digest(form: Form) -> str:
    """A short name for a form."""
    return hashlib.sha256(text(form).encode()).hexdigest()


def scalar(expression: Scalar) -> Form:
    """An expression; what it can be follows from the columns it is made of."""
    match expression:
        case Field(name):
            return ["column", name]
        case Constant(given, domain):
            return ["value", domain.kind, None if given is None else value(given)]
        case Call(function, arguments):
            forms = [scalar(each) for each in arguments]
            if function in IN_ANY_ORDER:
                forms.sort(key=text)
            elif function == "in":
                forms[1:] = sorted(forms[1:], key=text)
            elif function in EXACT:
                forms = [
                    [*f, DOUBLE] if _decides(x, arguments) else f
                    for f, x in zip(forms, arguments, strict=True)
                ]
            name = FUNCTIONS[function]
            return [[name, READ_ANEW] if is_read_anew(expression) else name, *forms]


def unmarked(form: Form) -> Form:
    """A form as it was before literals were told apart."""
    if isinstance(form, dict):
        return {name: unmarked(each) for name, each in form.items()}
    return [unmarked(each) for each in form if each != DOUBLE] if isinstance(form, list) else form


def _decides(literal: Scalar, among: Sequence[Scalar]) -> bool:
    """Whether SQL would compute with decimals here, if this literal were not a double."""
    if not _is_double(literal):
        return False
    numbers = [each for each in among if each.domain.numeric and not _is_double(each)]
    return all(each.domain.decimals is not None for each in numbers)


def _is_double(each: Scalar) -> bool:
    is_number = isinstance(each, Constant) and each.domain.kind == "number" and each.value is not None
    return is_number and each.domain.scale is None


def is_read_anew(call: Call) -> bool:
    """Whether it has had this form before, with another meaning: its numbers were taken for doubles where SQL
    has decimals, or the other way."""
    rounds = call.function in ("round", "to integer", "to decimal")
    computes = call.function in ("+", "-", "*") and call.domain.kind == "number"
    if rounds:  # an integer is what it is, whatever it is held in
        return call.arguments[0].domain.kind == "number" and _was_held_otherwise(call.arguments[0])
    return computes and any(_was_held_otherwise(each) for each in call.arguments)


def _was_held_otherwise(value: Scalar) -> bool:
    match value:
        case Field(_, domain) | Call("%", _, domain):
            return domain.kind == "integer" and domain.held == "double"
        case Call("nullif" | "floor" | "ceil", (inner, *_)):
            return inner.domain.kind == "number" and _was_held_otherwise(inner)
        case Call("case" | "coalesce" | "least" | "greatest", arguments, domain):
            whole = [x for x in arguments if isinstance(x, Constant) and x.domain.kind == "number"]
            if domain.scale is not None and any(each.domain.scale == 0 for each in whole):
                return True
        case Call("clamp" | "sane" | "negate" | "abs", arguments):
            pass
        case Call("+" | "-" | "*", arguments, domain) if domain.kind == "integer":
            pass
        case _:
            return False
    return any(_was_held_otherwise(each) for each in arguments)


def value(given: Value) -> Form:
    """A literal; its type stands beside it or is declared."""
    if isinstance(given, (bool, int, str)):
        return given
    return given.isoformat() if isinstance(given, datetime.date) else repr(given)
