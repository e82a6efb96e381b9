"""How expressions are written down, for ever: the part of stored forms that `forms` and `measures` share.

The names below are those of the stored form, not those of classes and functions: whoever renames one of ours
leaves them as they are.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.queries.expressions import Call, Constant, Domain, Field, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.queries.declared import Value

Form = Any  # of JSON: lists, objects, texts, whole numbers, true, false and null

# What functions are called in the stored form. One that is renamed here keeps its name there.
FUNCTIONS = {
    name: name
    for name in (
        *("and", "or", "not", "is null", "=", "<>", "<", "<=", ">", ">=", "in", "case", "coalesce", "nullif"),
        *("+", "-", "*", "/", "//", "%", "negate", "abs", "sign", "floor", "ceil", "round", "sqrt"),
        *("least", "greatest", "bucket", "like", "ilike", "starts with", "contains", "lower", "upper"),
        *("trim", "strip", "concat", "substring", "left", "right", "length", "part", "trunc", "diff"),
        *("add days", "add months", "add seconds", "ln", "exp", "power", "split part", "replace", "position"),
        *("to timestamp", "regexp matches", "regexp replace", "regexp extract"),
        *("to date", "to number", "to single", "to decimal", "to integer", "to text", "clamp", "sane"),
    )
}
IN_ANY_ORDER = ("and", "or")
# How SQL is understood and questions are named, noted with every charge: 0 before there were forms; 1 while
# whole numbers beside decimals were taken for doubles, and whole doubles for integers; 2 while names did not
# always tell decimals from doubles; 3 while decimals of more than 15 digits were compared as doubles; 4 while
# a person's average of whole numbers was cut to a whole number, and values of public tables were private keys
# unless they were declared.
READING = 5
EXACTLY = "exactly"  # beside a function that computes with decimals
EXACT_POWERS = 22  # powers of ten up to this one are doubles
# Where decimals and doubles give different values.
COMPUTING = ("+", "-", "*", "round", "to integer", "to decimal", "floor", "ceil")


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
            return [FUNCTIONS[function], *ordered(function, [scalar(each) for each in arguments])]


def tell_apart(values: Iterable[Scalar]) -> bool:
    """Whether different values have different forms, in which decimals and doubles are not told apart."""
    known = set(values)
    return len({text(scalar(each)) for each in known}) == len(known)


def exact(expression: Scalar) -> Form:
    """An expression, and where SQL computes with decimals in it."""
    if not isinstance(expression, Call):
        return scalar(expression)
    return [_told(expression), *ordered(expression.function, [exact(each) for each in expression.arguments])]


def meant(expression: Scalar) -> Form:
    """The same without casts that change nothing: earlier readings left some of them out."""
    match expression:
        case Call("to number" | "to integer", (inner,), domain) if _as_held(inner.domain) == _as_held(domain):
            return meant(inner)
        case Call(function, arguments):
            return [_told(expression), *ordered(function, [meant(each) for each in arguments])]
    return scalar(expression)


def _as_held(domain: Domain) -> Domain:
    """A domain, whatever SQL holds its values in."""
    return replace(domain, scale=None, held="")


def is_exact(plan: Iterable[Scalar]) -> bool:
    """Whether any of these expressions computes where decimals and doubles differ."""
    pending = list(plan)
    while pending:
        each = pending.pop()
        if isinstance(each, Call):
            kinds = {one.domain.kind for one in (each, *each.arguments)}
            whole = each.function in ("floor", "ceil")  # of an integer, too, it is a double
            if whole or (each.function in COMPUTING and "number" in kinds):
                return True
            pending += each.arguments
    return False


def _told(call: Call) -> Form:
    """The name of a function; where it computes with decimals, marked so. Where these are more than a double
    can tell apart, the result depends on how many there are."""
    name, domain = FUNCTIONS[call.function], call.domain
    if call.function in ("to integer", "to decimal", "floor", "ceil"):
        inner = call.arguments[0].domain
        return [name, EXACTLY] if inner.kind == "number" and inner.scale is not None else name
    if call.function not in COMPUTING or domain.kind != "number" or domain.scale is None:
        return name
    is_told_apart = domain.adds_exactly and domain.scale <= EXACT_POWERS
    return [name, EXACTLY] if is_told_apart else [name, EXACTLY, domain.scale]


def order(expression: Scalar) -> str:
    """What expressions are sorted by where they may stand in any order."""
    return text(scalar(expression))


def ordered(function: str, arguments: list[Form]) -> list[Form]:
    """The forms of arguments; those that may stand in any order, sorted."""
    if function == "in":
        return [arguments[0], *sorted(arguments[1:], key=text)]
    return sorted(arguments, key=text) if function in IN_ANY_ORDER else arguments


def value(given: Value) -> Form:
    """A literal; its type stands beside it or is declared."""
    if isinstance(given, (bool, int, str)):
        return given
    return given.isoformat() if isinstance(given, datetime.date) else repr(given)
