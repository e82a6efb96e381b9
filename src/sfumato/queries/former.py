"""What earlier versions wrote: frozen, and only read from now on.

Before questions had a stored form, a release was found by a hash over class names, fields in their order and
`repr`s, of the plan and of the whole policy; and the numbers in it meant what the plan said, whose measures
stood in the order of these texts. Releases that were stored so stay free: their keys are written here, from a
table of the old names, and their numbers are read by a copy of the rule of that time. Nothing in this file
may change what it writes; `tests/kept` holds ledgers and keys of that time against it. Where a class or field
of ours gets another name, the table below gets it on its left side.

The first stored form of an expression was `notation.scalar`, which does not tell decimals from doubles; the
second had the marks that are written at the end of this file.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries import notation
from sfumato.queries.cells import Clamp
from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Measured, Tuned, TunedColumn, Tuning
from sfumato.queries.expressions import Call, Constant, Domain, Field, bounds, possible
from sfumato.queries.measures import Distinct, Kinds, Moments, Octaves, PersonCount, Selected, Spread, Sum
from sfumato.queries.plan import Aggregate, Key
from sfumato.queries.promises import Prior, Promise, PromisePart
from sfumato.queries.relations import (
    Among,
    Fold,
    Folded,
    Join,
    Owner,
    Place,
    Placed,
    Scan,
    Sorted,
    Union,
    Where,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.expressions import Scalar
    from sfumato.queries.measures import Measure
    from sfumato.queries.notation import Form
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.relations import Relation

READING = 2  # by which a plan of that time is found again
# Each class of ours: what it was called, and its fields, in their order.
NAMES: dict[type, tuple[str, tuple[str, ...]]] = {
    Aggregate: ("Aggregate", ("name", "values", "rank")),
    Among: ("Among", ("relation", "value", "other", "other_value", "negated")),
    Call: ("Call", ("function", "arguments", "domain", "size")),
    Clamp: ("Clamp", ("low", "high", "exponent")),
    DeclaredColumn: (
        "Column",
        (
            "name",
            "kind",
            "low",
            "high",
            "exponent",
            "keys",
            "keys_from",
            "since",
            "until",
            "required",
            "tuned",
        ),
    ),
    Constant: ("Constant", ("value", "domain")),
    Distinct: ("Distinct", ("value", "pairs")),
    Domain: (
        "Domain",
        ("kind", "low", "high", "exponent", "since", "until", "keys", "tuned", "required"),
    ),
    Field: ("Field", ("name", "domain", "unit", "origin")),
    Fold: ("Fold", ("number", "relation", "by", "folds")),
    Folded: ("Folded", ("function", "value")),
    Join: ("Join", ("number", "left", "right", "on", "outer", "single")),
    Key: ("Key", ("expression", "values")),
    Kinds: ("Kinds", ("value", "values", "rows")),
    Measured: ("Measured", ("epsilon", "people")),
    Moments: ("Moments", ("values", "clamps", "degree", "nulls", "rows")),
    Octaves: ("Octaves", ("value", "clamp", "centre", "nodes")),
    Owner: ("Owner", ("column", "kind", "table", "key", "owner")),
    Place: ("Place", ("said", "value", "later")),
    Placed: ("Placed", ("number", "relation", "within", "order", "places", "totals")),
    PromisePart: ("Part", ("table", "column", "within", "above", "prior")),
    PersonCount: ("People", ("value", "groups")),
    Prior: ("Prior", ("kind", "numbers", "weights", "source")),
    Promise: ("Promise", ("parts", "advantage", "metric", "group", "either", "joint")),
    Scan: ("Scan", ("number", "table", "owner", "rows", "public")),
    Selected: ("Selected", ("groups",)),
    Sorted: ("Sorted", ("value", "descending", "nulls_first")),
    Spread: ("Spread", ("value", "clamp", "ranks", "rows")),
    Sum: ("Sum", ("value", "clamp", "rows", "centre", "limit")),
    DeclaredTable: (
        "Table",
        ("name", "unit", "rows_per_person", "columns", "public", "through", "tuning"),
    ),
    Tuned: ("Tuned", ("centre", "total", "centred")),
    TunedColumn: ("TunedColumn", ("name", "centre", "exponent", "totals", "centred")),
    Tuning: ("Tuning", ("rows", "columns")),
    Union: ("Union", ("number", "parts", "kinds")),
    Where: ("Where", ("relation", "condition")),
}
STEPS, FEW_STEPS = 1 << 20, 1 << 10
CELLS, MOST_CELLS = 1 << 21, 1 << 16
MOST_PAIRS = 10**6 - 1


# Keys ----------------------------------------------------------------------------------------------------


def key(plan: Plan) -> str:
    """What a plan was called."""
    measured = [canonical(part) for part in (plan.relation, plan.keys, plan.measures)]
    return hashlib.sha256("\n".join(measured).encode()).hexdigest()


def policy_hash(policy: Policy) -> str:
    """What a policy was called, with everything that it declares about tables."""
    return hashlib.sha256(json.dumps([policy.source, shown(policy.tables)]).encode()).hexdigest()


def question(plan: Plan, identity: str) -> str:
    """What a question was called, of a database with this identity."""
    return hashlib.sha256(f"{key(plan)}\n{identity}".encode()).hexdigest()


def batch(keys: Sequence[str]) -> str:
    """What a batch of questions was called."""
    return hashlib.sha256("batch\n{}".format("\n".join(keys)).encode()).hexdigest()


def canonical(part: object) -> str:
    """The text of anything in a plan.

    >>> canonical(Clamp(Fraction(0), Fraction(1, 2), 3))
    '["Clamp",["Fraction","0"],["Fraction","1/2"],3]'
    """
    return json.dumps(_plain(part), separators=(",", ":"))


def _plain(part: object) -> object:
    part = _as_it_was(part)
    if type(part) in NAMES:
        name, fields = NAMES[type(part)]
        return [name, *(_plain(each) for each in _fields(part, fields))]
    if isinstance(part, tuple):
        return ["tuple", *(_plain(item) for item in part)]
    if part is None or isinstance(part, (bool, int)):
        return part
    if isinstance(part, (str, float, Fraction, datetime.date)):
        return [type(part).__name__, str(part)]
    raise TypeError(f"no canonical form for {type(part).__name__}")


def shown(part: object) -> str:
    """The `repr` that anything had.

    >>> shown((Selected(1),))
    '(Selected(groups=1),)'
    """
    part = _as_it_was(part)
    if type(part) in NAMES:
        name, fields = NAMES[type(part)]
        pairs = zip(fields, _fields(part, fields), strict=True)
        return f"{name}({', '.join(f'{field}={shown(each)}' for field, each in pairs)})"
    if isinstance(part, tuple):
        return f"({', '.join(map(shown, part))}{',' if len(part) == 1 else ''})"
    if isinstance(part, list):
        return f"[{', '.join(map(shown, part))}]"
    return repr(part)


def _as_it_was(part: object) -> object:
    """A call as it was read: casts that changed no type were left out, and texts were of any length."""
    if isinstance(part, Call):
        first = part.arguments[0] if part.arguments else None
        kinds = {"to number": "number", "to integer": "integer"}
        if first is not None and kinds.get(part.function) == first.domain.kind:
            return _as_it_was(first)
        if part.function == "length":
            return replace(part, domain=Domain("integer", Fraction(0), Fraction(1 << 31)))
    if isinstance(part, Field) and part.unit == "refers":
        return replace(part, unit="")
    return part


def _fields(part: object, names: tuple[str, ...]) -> list[object]:
    """The fields of an object; what stands in any order, in the order of that time."""
    found: list[object] = [getattr(part, name) for name in names]
    if isinstance(part, Call) and part.function in ("and", "or", "in"):
        fixed = 1 if part.function == "in" else 0
        found[1] = (*part.arguments[:fixed], *sorted(part.arguments[fixed:], key=shown))
    return found


# Measures ------------------------------------------------------------------------------------------------


def measures(aggregates: Iterable[Aggregate], relation: Relation, groups: int) -> tuple[Measure, ...]:
    """The measures that aggregates had, in the order of that time."""
    rows = relation.rows
    wanted = list(dict.fromkeys(aggregates))
    degrees: dict[tuple[Scalar, ...], int] = {}
    for each in wanted:
        if each.of_moments and each.values:
            degrees[each.values] = max(degrees.get(each.values, 0), each.degree)
    counts = Aggregate("count") in wanted
    found: list[Measure] = []
    for values, degree in degrees.items():
        alone = [each.name for each in wanted if each.values == values] == ["sum"]
        tuned = values[0].domain.tuned if rows is not None and len(values) == 1 else None
        if alone and not counts:
            clamp = _clamp(values[0], 1 << 62)
            limit = None if tuned is None else math.ceil(tuned.total / clamp.step)
            found.append(Sum(values[0], clamp, rows, limit=limit))
        elif tuned is not None and degree == 1:
            clamp = _clamp(values[0], 1 << 40)
            centre, limit = round(tuned.centre / clamp.step), math.ceil(tuned.centred / clamp.step)
            found.append(Sum(values[0], clamp, rows, centre, limit))
            found.append(Moments(values, (), 0, False, rows))
        else:
            steps = FEW_STEPS if degree * len(values) > 2 else STEPS
            clamps = tuple(_clamp(value, steps) for value in values) if degree else ()
            found.append(Moments(values, clamps, degree, False, rows))
    found.sort(key=canonical)
    if counts:
        singles = [m for m in found if isinstance(m, Moments) and len(m.values) == 1]
        if singles:
            best = min(singles, key=lambda m: (not m.values[0].domain.required, m.degree, canonical(m)))
            found[found.index(best)] = replace(best, nulls=not best.values[0].domain.required)
        else:
            found.append(Moments((), (), 0, False, rows))
    return tuple(sorted([*found, *_others(wanted, rows, groups)], key=canonical))


def _others(wanted: list[Aggregate], rows: int | None, groups: int) -> list[Measure]:
    found: list[Measure] = []
    cap = 1 if rows is None else rows
    ranks: dict[Scalar, list[Fraction]] = {}
    for each in wanted:
        value = each.values[0] if each.values else None
        if each.name == "people":
            found.append(PersonCount(value, min(cap, groups) if groups else cap))
        elif value is not None and each.name == "distinct":
            found.append(Distinct(value, min(cap, MOST_PAIRS)))
        elif value is not None and each.name == "quantile":
            ranks.setdefault(value, []).append(each.rank)
        elif value is not None and each.name == "mode":
            found.append(Kinds(value, possible(value) or (), rows))
    for value, asked in ranks.items():
        most = min(MOST_CELLS, CELLS // max(groups, 1))
        found.append(Spread(value, _clamp(value, max(most - 1, 1)), tuple(sorted(asked)), rows))
    return found


def _clamp(value: Scalar, steps: int) -> Clamp:
    low, high = (Fraction(float(end)) for end in bounds(value))
    exponent = value.domain.exponent
    while (high - low) * Fraction(2) ** exponent > steps:
        exponent -= 1
    return Clamp(low, high, exponent)


# Marks of the second reading -----------------------------------------------------------------------------

EXACT = (
    *("+", "-", "*", "negate", "abs", "round", "to integer", "to decimal"),
    *("case", "coalesce", "least", "greatest", "nullif"),
)
READ_ANEW = 2
DOUBLE = {"double": True}


def marked(expression: Scalar) -> Form:
    """The form that an expression had: marked where a literal was a double or a call was read anew."""
    if not isinstance(expression, Call):
        return notation.scalar(expression)
    function, arguments = expression.function, expression.arguments
    forms = notation.ordered(function, [marked(each) for each in arguments])
    if function in EXACT:
        pairs = zip(forms, arguments, strict=True)
        forms = [[*form, DOUBLE] if _decides(each, arguments) else form for form, each in pairs]
    name = notation.FUNCTIONS[function]
    return [[name, READ_ANEW] if _is_read_anew(expression) else name, *forms]


def unmarked(form: Form) -> Form:
    """A form without these marks."""
    if isinstance(form, dict):
        return {name: unmarked(each) for name, each in form.items()}
    if not isinstance(form, list):
        return form
    if len(form) == 2 and form[1] == READ_ANEW and form[0] in notation.FUNCTIONS.values():
        return form[0]
    return [unmarked(each) for each in form if each != DOUBLE]


def _decides(literal: Scalar, among: Sequence[Scalar]) -> bool:
    if not _is_double(literal):
        return False
    numbers = [each for each in among if each.domain.numeric and not _is_double(each)]
    return all(each.domain.decimals is not None for each in numbers)


def _is_double(each: Scalar) -> bool:
    is_number = isinstance(each, Constant) and each.domain.kind == "number" and each.value is not None
    return is_number and each.domain.scale is None


def _is_read_anew(call: Call) -> bool:
    if call.function in ("round", "to integer", "to decimal"):
        return call.arguments[0].domain.kind == "number" and _was_held_otherwise(call.arguments[0])
    computes = call.function in ("+", "-", "*") and call.domain.kind == "number"
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
