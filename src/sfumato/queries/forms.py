"""One text for one meaning: how questions, declarations and stored numbers are written down, for ever.

A question asked again is free, also after an upgrade. So it is known by a name that depends on what it reads
and on nothing else: its tables with their units, references and declared caps, the columns it uses with
their bounds and keys, what is grouped by and what is wanted. Caps that *we* choose are not part of it, nor is
the way it is measured.

The names below are those of the stored form, not those of classes and functions: whoever renames one of ours
leaves them as they are. What has its default is left out, so that a new declaration changes no name. A form
whose meaning must change gets a new number, and the old one stays readable (`former` holds what was written
before there were forms).
"""

from __future__ import annotations

import datetime
import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.queries.expressions import Call, Constant, Field, Scalar, possible
from sfumato.queries.plan import (
    Clamp,
    Distinct,
    Kinds,
    Moments,
    Octaves,
    People,
    Selected,
    Spread,
    Sum,
)
from sfumato.queries.relations import Among, Fold, Join, Scan, Union, Where, prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.declared import Column, Measured, Table, Value
    from sfumato.queries.plan import Aggregate, Key, Measure, Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.promises import Promise
    from sfumato.queries.relations import Owner, Relation

FORM = 1

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


def text(form: Form) -> str:
    """A form as one text: no blanks, names sorted, letters of ASCII."""
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


def digest(form: Form) -> str:
    """A short name for a form."""
    return hashlib.sha256(text(form).encode()).hexdigest()


# A question ----------------------------------------------------------------------------------------------


def question(plan: Plan, policy: Policy, place: str, *, tune: str = "") -> str:
    """The name of what a plan asks about the data at a place, before caps that we choose.

    `tune` is what was asked to be spent on caps, where the question itself pays for them.
    """
    used: dict[int, set[str]] = {}
    for field in plan.fields:
        used.setdefault(prefix(field), set()).add(field.name.partition(".")[2])
    form: dict[str, Form] = {
        "form": FORM,
        "place": place,
        "rows": relation(plan.relation, policy, used),
        "keys": [key(each) for each in plan.keys],
        "wanted": wanted(plan.wanted) if plan.wanted else [measure(each) for each in plan.measures],
    }
    return digest({**form, "tune": tune} if tune else form)


def relation(rows: Relation, policy: Policy, used: dict[int, set[str]]) -> Form:
    """Which rows are asked about, and what the policy declares of all that is read of them."""
    match rows:
        case Scan(number, name, owner, cap, public):
            table = policy.table(name)
            assert table is not None
            read = [column(each) for each in table.columns if each.name in used.get(number, ())]
            form = {"scan": name, "as": number, "columns": read, "unit": unit(owner), "rows": cap}
            return _without(form, unit=None, rows=None) | ({"public": True} if public else {})
        case Where(inner, condition):
            return {"where": scalar(condition), "of": relation(inner, policy, used)}
        case Join(number, left, right, on, outer, single):
            sides = [relation(each, policy, used) for each in (left, right)]
            form = {"join": sides, "as": number, "on": None if on is None else scalar(on)}
            return _without(form, on=None) | _flags(outer=outer, single=single)
        case Among(inner, value, other, other_value, negated):
            values = [None if each is None else scalar(each) for each in (value, other_value)]
            sides = [relation(each, policy, used) for each in (inner, other)]
            return {"among": sides, "values": values} | _flags(negated=negated)
        case Union(number, parts, kinds):
            listed = [[relation(each, policy, used), [scalar(x) for x in values]] for each, values in parts]
            return {"union": listed, "as": number, "kinds": list(kinds)}
        case Fold(number, inner, by, folds):
            made = [[each.function, None if each.value is None else scalar(each.value)] for each in folds]
            of = relation(inner, policy, used)
            return {"fold": made, "as": number, "by": [scalar(each) for each in by], "of": of}


def unit(owner: Owner | None) -> Form:
    """How a row says whose it is, over the whole chain of references."""
    if owner is None:
        return None
    form: dict[str, Form] = {"column": owner.column, "type": owner.kind}
    if owner.table:
        form |= {"through": [owner.table, owner.key], "unit": unit(owner.owner)}
    return form


def key(each: Key) -> Form:
    """What is grouped by, with its public values in their order."""
    values = None if each.values is None else [value(one) for one in each.values]
    return [scalar(each.expression), values]


def wanted(aggregates: Sequence[Aggregate]) -> Form:
    """What is asked for, however it is measured: equal for all that one measure of today answers together.

    Count, sum and average of a value are moments of degree 1, its variance one of degree 2. A sum by itself
    is something else: it can be bounded by its own size.
    """
    rows = any(each.name == "count" and not each.values for each in aggregates)
    moments: dict[tuple[Scalar, ...], list[Aggregate]] = {}
    ranks: dict[Scalar, set[Fraction]] = {}
    found: list[Form] = []
    for each in aggregates:
        if each.of_moments:
            if each.values:
                moments.setdefault(each.values, []).append(each)
        elif each.name == "quantile":
            ranks.setdefault(each.values[0], set()).add(each.rank)
        else:
            found.append([each.name, *(scalar(one) for one in each.values)])
    for values, asked in moments.items():
        listed = [scalar(one) for one in values]
        if not rows and {each.name for each in asked} == {"sum"}:
            found.append(["sum", *listed])
        else:
            found.append(["moments", max(each.degree for each in asked), *listed])
    found += [["quantiles", scalar(one), sorted(map(str, asked))] for one, asked in ranks.items()]
    if rows and not any(len(values) == 1 and values[0].domain.required for values in moments):
        found.append(["rows"])
    return sorted(found, key=text)


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
                    [*f, "double"] if _decides(x, arguments) else f
                    for f, x in zip(forms, arguments, strict=True)
                ]
            name = FUNCTIONS[function]
            return [[name, READ_ANEW] if _is_read_anew(expression) else name, *forms]


def _decides(literal: Scalar, among: Sequence[Scalar]) -> bool:
    """Whether SQL would compute with decimals here, if this literal were not a double."""
    if not _is_double(literal):
        return False
    numbers = [each for each in among if each.domain.numeric and not _is_double(each)]
    return all(each.domain.decimals is not None for each in numbers)


def _is_double(each: Scalar) -> bool:
    is_number = isinstance(each, Constant) and each.domain.kind == "number" and each.value is not None
    return is_number and each.domain.scale is None


def read_anew(plan: Plan) -> bool:
    """Whether anything in a plan was read otherwise before the present reading, after the first."""
    pending = list(plan.scalars)
    while pending:
        each = pending.pop()
        if isinstance(each, Call):
            if _is_read_anew(each):
                return True
            pending += each.arguments
    return False


def _is_read_anew(call: Call) -> bool:
    """Whether it has had this form before, with another meaning: its numbers were taken for doubles where SQL
    has decimals, or the other way."""
    rounds = call.function in ("round", "to integer", "to decimal")
    computes = call.function in ("+", "-", "*") and call.domain.kind == "number"
    return (rounds or computes) and any(_was_held_otherwise(each) for each in call.arguments)


def _was_held_otherwise(value: Scalar) -> bool:
    match value:
        case Field(_, domain) | Call("%", _, domain):
            return domain.kind == "integer" and domain.held == "double"
        case Call("case" | "coalesce" | "least" | "greatest" | "nullif", arguments, domain):
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


# What the policy declares --------------------------------------------------------------------------------


def column(each: Column) -> Form:
    """What is declared of a column."""
    keys = None if each.keys is None else [value(one) for one in each.keys]
    form = {
        "name": each.name,
        "type": each.kind,
        "low": _number(each.low),
        "high": _number(each.high),
        "exponent": each.exponent,
        "since": None if each.since is None else each.since.isoformat(),
        "until": None if each.until is None else each.until.isoformat(),
        "keys": keys,
        "scale": each.scale,
    }
    absent = ("low", "high", "since", "until", "keys", "scale")
    defaults = {"exponent": 0, **dict.fromkeys(absent)}
    return _without(form, **defaults) | _flags(required=each.required)


def policy(declared: Policy) -> str:
    """Names all that is declared about tables, and what was released about them by `sfumato tune`."""
    return digest(
        {"form": FORM, "source": list(declared.source), "tables": [_table(t) for t in declared.tables]}
    )


def promise(given: Promise, columns: Sequence[Column]) -> Form:
    """A promise, and what the policy declares of its columns."""
    parts = []
    for part, declared in zip(given.parts, columns, strict=True):
        prior = part.prior
        believed = {
            "kind": prior.kind,
            "numbers": [[repr(x) for x in each] for each in prior.numbers],
            "weights": [[value(one), repr(weight)] for one, weight in prior.weights],
            "source": None if prior.source is None else list(prior.source),
        }
        form = {
            "table": part.table,
            "column": column(declared),
            "within": _number(part.within),
            "above": _number(part.above),
            "prior": _without(believed, numbers=[], weights=[], source=None),
        }
        parts.append(_without(form, within=None, above=None))
    form = {
        "parts": parts,
        "advantage": str(given.advantage),
        "metric": given.metric,
        "group": given.group,
        "joint": given.joint,
    }
    return _without(form, metric="record", group=1, joint="") | _flags(either=given.either)


def _table(each: Table) -> Form:
    form = {
        "name": each.name,
        "unit": each.unit,
        "rows_per_person": each.rows_per_person,
        "columns": [column(one) for one in each.columns],
        "through": None if each.through is None else list(each.through),
    }
    tuned = {}
    if each.tuning is not None:
        tuned["tuned"] = {
            "rows": _measured(each.tuning.rows),
            "columns": [
                [c.name, str(c.centre), c.exponent, _measured(c.totals), _measured(c.centred)]
                for c in each.tuning.columns
            ],
        }
    return _without(form, unit=None, rows_per_person=None, through=None) | tuned | _flags(public=each.public)


def _measured(each: Measured) -> Form:
    return [str(each.epsilon), list(each.people)]


# What stored numbers mean --------------------------------------------------------------------------------


def measure(each: Measure) -> Form:
    """What the integers drawn for a measure mean: of what they are, on which grid, around which centre."""
    match each:
        case Moments(values, clamps, degree, nulls, rows):
            form: dict[str, Form] = {
                "moments": [scalar(one) for one in values],
                "clamps": [_clamp(one) for one in clamps],
            }
            return form | {"degree": degree, "rows": rows, "whole": each.whole} | _flags(nulls=nulls)
        case Sum(of, clamp, rows, centre, limit):
            form = {"sum": scalar(of), "clamp": _clamp(clamp), "rows": rows, "centre": centre, "limit": limit}
            return _without(form, centre=0, limit=None)
        case People(of, groups):
            return {"people": _maybe(of), "groups": groups, "whole": each.whole}
        case Distinct(of, pairs):
            return {"distinct": scalar(of), "pairs": pairs}
        case Selected(groups):
            return {"selected": groups}
        case Spread(of, clamp, ranks, rows):
            form = {"spread": scalar(of), "clamp": _clamp(clamp), "ranks": [str(rank) for rank in ranks]}
            return form | {"rows": rows, "whole": each.whole}
        case Kinds(of, listed, rows):
            named = digest([value(one) for one in listed])
            return {"kinds": scalar(of), "values": named, "rows": rows, "whole": each.whole}
        case Octaves(of, one, centre, nodes):
            clamp_ = None if one is None else _clamp(one)
            return {"octaves": _maybe(of), "clamp": clamp_, "centre": centre, "nodes": nodes}


def measured(forms: Iterable[Form], among: Iterable[Scalar]) -> tuple[Measure, ...] | None:
    """The measures that were written so, of values that are among these; None if they mean nothing here."""
    known = {text(scalar(each)): each for each in among}
    try:
        found = tuple(_read(form, known) for form in forms)
    except (KeyError, TypeError, ValueError):
        return None
    return found if [measure(each) for each in found] == list(forms) else None


def _read(form: dict[str, Any], known: dict[str, Scalar]) -> Measure:
    def of(name: str) -> Scalar:
        return known[text(form[name])]

    match form:
        case {"moments": values}:
            clamps = tuple(_clamp_of(each) for each in form["clamps"])
            among = tuple(known[text(each)] for each in values)
            return Moments(among, clamps, form["degree"], form.get("nulls", False), form["rows"])
        case {"sum": _}:
            clamp = _clamp_of(form["clamp"])
            return Sum(of("sum"), clamp, form["rows"], form.get("centre", 0), form.get("limit"))
        case {"people": given}:
            return People(None if given is None else of("people"), form["groups"])
        case {"distinct": _}:
            return Distinct(of("distinct"), form["pairs"])
        case {"selected": groups}:
            return Selected(groups)
        case {"spread": _}:
            ranks = tuple(Fraction(rank) for rank in form["ranks"])
            return Spread(of("spread"), _clamp_of(form["clamp"]), ranks, form["rows"])
        case {"kinds": _}:
            return Kinds(of("kinds"), possible(of("kinds")) or (), form["rows"])
        case {"octaves": given}:
            clamp_ = None if form["clamp"] is None else _clamp_of(form["clamp"])
            return Octaves(None if given is None else of("octaves"), clamp_, form["centre"], form["nodes"])
    raise KeyError


def _clamp(each: Clamp) -> Form:
    return [str(each.low), str(each.high), each.exponent]


def _clamp_of(form: Sequence[Any]) -> Clamp:
    low, high, exponent = form
    return Clamp(Fraction(low), Fraction(high), exponent)


def _maybe(each: Scalar | None) -> Form:
    return None if each is None else scalar(each)


def _number(given: Fraction | None) -> Form:
    return None if given is None else str(given)


def _without(form: dict[str, Form], **defaults: Form) -> dict[str, Form]:
    """The form without what has its default."""
    return {name: each for name, each in form.items() if name not in defaults or each != defaults[name]}


def _flags(**given: bool) -> dict[str, Form]:
    return {name: True for name, each in given.items() if each}
