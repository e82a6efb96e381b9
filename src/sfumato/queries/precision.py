"""Where the last digits of a value decide, and where they do not.

Until the third reading a person's doubles were added up on the grid of their column, so that a total was a
little too small. Where such a total is itself added up or averaged, that is part of the stated rounding;
where it is compared, rounded or grouped by, it could decide about a whole row. Here is told which is which:
what was stored for the first kind still answers, what was stored for the second does not.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.domains import RULES, call
from sfumato.queries.expressions import Call, Constant, Field, grid_of
from sfumato.queries.plan import OF_VALUES
from sfumato.queries.relations import Among, Fold, Join, Placed, Union, Where, all_of, folds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.queries.expressions import Domain, Scalar
    from sfumato.queries.plan import Plan
    from sfumato.queries.relations import Folded

    _Use = tuple[Scalar | str, bool]

_TELLING = ("distinct", "distinct sum", *OF_VALUES)  # aggregates that tell values apart
# What moves by little when an argument does
_SMOOTH = {
    *("+", "-", "*", "/", "negate", "abs", "sqrt", "least", "greatest", "coalesce", "clamp"),
    *("to number", "to single"),
}
_WHOLE = ("floor", "ceil", "sign", "to integer", "//", "%", "length", "part", "diff", "bucket")
_ONE_OF = ("negate", "abs", "least", "greatest", "coalesce", "nullif", "to number", "to single")


def adds_finely(plan: Plan) -> bool:
    """Whether the last digits of a person's sum of doubles decide, and once were cut off."""
    folds, decisive = dict(folds_of(plan.relation)), deciding(plan)
    return any(name in decisive and is_fine(fold) for name, fold in folds.items())


def averages_finely(plan: Plan) -> bool:
    """Whether a person's average is measured between the steps of its column, to which it once was cut."""
    made: dict[str, tuple[str, tuple[Scalar, ...]]] = {}
    for each in all_of(plan.relation):
        match each:
            case Fold(number, _, _, folds) | Placed(number, totals=folds):
                made |= {f"t{number}.{i}": (f.function, (f.value,)) for i, f in enumerate(folds) if f.value}
            case Union(number, parts):
                for i, values in enumerate(zip(*(columns for _, columns in parts), strict=True)):
                    made[f"t{number}.{i}"] = "one", values
        if isinstance(each, Placed):
            made |= {
                f"t{each.number}.p{i}": ("one", (p.value,)) for i, p in enumerate(each.places) if p.value
            }
    if not any(function == "avg" for function, _ in made.values()):
        return False

    def before(value: Scalar) -> Scalar:
        """The same with the steps that it had."""
        if isinstance(value, Call) and value.function in RULES:
            return call(value.function, *map(before, value.arguments))
        if isinstance(value, Call):  # clamped
            exponent = before(value.arguments[0]).domain.exponent
            return replace(value, domain=replace(value.domain, exponent=exponent))
        if isinstance(value, Field) and value.name in made and value.domain.kind == "number":
            function, parts = made[value.name]
            if function in ("avg", "sum", "min", "max", "one"):
                exponent = max(before(part).domain.exponent for part in parts)
                return replace(value, domain=replace(value.domain, exponent=exponent))
        return value

    values = plan.values or tuple(plan.measured)
    return any(before(each).domain.exponent != each.domain.exponent for each in values)


def is_fine(fold: Folded) -> bool:
    """Whether a person's sum needs a finer grid than that of its column."""
    if fold.exponent is None or fold.value is None:
        return False
    finest = _fineness(fold.value)
    return finest is None or finest > fold.value.domain.exponent


def deciding(plan: Plan) -> frozenset[str]:
    """The columns whose last digits decide about something."""
    return frozenset(each for each, decisive in _uses(plan) if decisive and isinstance(each, str))


def decides(plan: Plan, found: Scalar) -> bool:
    """Whether the last digits of an expression decide about something, or nothing is known about it."""
    uses = _uses(plan)
    return (found, True) in uses or (found, False) not in uses


def decisive(plan: Plan) -> Iterator[Scalar]:
    """The values that are grouped by, told apart or looked up, and the totals of a person that decide."""
    yield from (key.expression for key in plan.keys)
    for aggregate in plan.wanted:
        if aggregate.name in _TELLING:
            yield from aggregate.values
    names, pending = deciding(plan), [plan.relation]
    while pending:
        match pending.pop():
            case Where(inner):
                pending.append(inner)
            case Join(_, left, right):
                pending += (left, right)
            case Among(inner, value, other, other_value):
                yield from (each for each in (value, other_value) if each is not None)
                pending += (inner, other)
            case Union(number, parts):
                for inner, columns in parts:
                    yield from (each for i, each in enumerate(columns) if f"t{number}.{i}" in names)
                    pending.append(inner)
            case Fold(number, inner, by, folds):
                yield from by
                for i, fold in enumerate(folds):
                    if fold.value is not None and (f"t{number}.{i}" in names or fold.function == "distinct"):
                        yield fold.value
                pending.append(inner)
            case Placed(_, inner) as placed:
                yield from placed.scalars  # which rows are equals, and which comes first
                pending.append(inner)


def _uses(plan: Plan) -> set[_Use]:
    """The columns and expressions of a question, each with whether it decides."""
    found = _of_values((key.expression for key in plan.keys), True)
    for aggregate in plan.wanted:
        found |= _of_values(aggregate.values, aggregate.name in _TELLING)
    if not plan.wanted:
        found |= _of_values(plan.measured, True)
    pending = [plan.relation]
    while pending:  # what a relation is made of comes after it
        match pending.pop():
            case Where(inner, condition):
                found |= _of_values([condition], False)
                pending.append(inner)
            case Join(_, left, right, on):
                found |= _of_values([] if on is None else [on], False)
                pending += (left, right)
            case Among(inner, value, other, other_value):
                found |= _of_values((each for each in (value, other_value) if each is not None), True)
                pending += (inner, other)
            case Union(number, parts):
                for inner, columns in parts:
                    for i, each in enumerate(columns):
                        found |= _of_values([each], (f"t{number}.{i}", True) in found)
                    pending.append(inner)
            case Fold(number, inner, by, folds):
                found |= _of_values(by, True)
                for i, fold in enumerate(folds):
                    if fold.value is not None and fold.function != "count":
                        decisive = fold.function == "distinct" or (f"t{number}.{i}", True) in found
                        found |= _of_values([fold.value], decisive)
                pending.append(inner)
            case Placed(_, inner) as placed:
                found |= _of_values(placed.scalars, True)
                pending.append(inner)
    return found


def _of_values(values: Iterable[Scalar], decisive: bool) -> set[_Use]:
    """The columns and expressions in some values: all of them decide, where the values do."""
    found: set[_Use] = set()
    pending = [(each, decisive) for each in values]
    while pending:
        each, is_decisive = pending.pop()
        if isinstance(each, Field):
            found.add((each.name, is_decisive))
        if not isinstance(each, Call):
            continue
        found.add((each, is_decisive))
        match each.function, each.arguments:
            case "is null", arguments:
                pending += [(one, False) for one in arguments]  # whether there is a value, not which
            case (("and" | "or" | "not"), arguments):
                pending += [(one, False) for one in arguments]
            case "case", (*pairs, otherwise):
                pending += [(one, False) for one in pairs[0::2]]
                pending += [(one, is_decisive) for one in (*pairs[1::2], otherwise)]
            case function, arguments:
                pending += [(one, is_decisive or function not in _SMOOTH) for one in arguments]
    return found


def _fineness(value: Scalar) -> int | None:
    """A k such that a value is always a multiple of 2^-k; None if there is none that is known."""
    match value:
        case Field(_, domain):
            return _of_column(domain)
        case Constant(None):
            return 0
        case Constant(given) if isinstance(given, (int, float)):
            below = Fraction(given).denominator
            return below.bit_length() - 1
        case Call("+" | "-", parts):
            return _finest(parts)
        case Call("*", parts):
            each = [_fineness(part) for part in parts]
            return None if None in each else sum(one or 0 for one in each)
        case Call("/", (inner, Constant(given))) if isinstance(given, (int, float)) and given:
            of, by = _fineness(inner), abs(Fraction(given))
            is_power = by.numerator & (by.numerator - 1) == 0 and by.denominator == 1
            return of + by.numerator.bit_length() - 1 if of is not None and is_power else None
        case Call("round", (_, Constant(digits))) if isinstance(digits, int) and digits <= 0:
            return 0
        case Call("clamp", (inner, *_), domain):
            ends = [Fraction(end) for end in (domain.low, domain.high) if end is not None]
            if any(end.denominator & (end.denominator - 1) for end in ends):
                return None
            of = _fineness(inner)
            return None if of is None else max([of, *(end.denominator.bit_length() - 1 for end in ends)])
        case Call("case", (*pairs, otherwise)):
            return _finest([*pairs[1::2], otherwise])
        case Call(function, parts):
            return 0 if function in _WHOLE else _finest(parts) if function in _ONE_OF else None
    return None


def _of_column(domain: Domain) -> int | None:
    """Whole numbers, and numbers for which the policy declares a grid that is coarser than ours."""
    if domain.kind == "integer":
        return 0
    if domain.kind != "number" or domain.low is None or domain.high is None:
        return None
    is_declared = domain.exponent < grid_of(domain.low, domain.high)
    return domain.exponent if is_declared else None


def _finest(parts: Iterable[Scalar]) -> int | None:
    each = [_fineness(part) for part in parts]
    return None if None in each else max((one or 0 for one in each), default=0)
