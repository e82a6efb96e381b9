"""Expressions on one row: what they are made of, which values they can take, and what they are on one value.

Every expression is total: whatever a row holds, it has a value or is NULL, and the engine raises nothing
(laws 5 and 8). A numeric column is clamped to its declared bounds before anything is computed with it, and
interval arithmetic follows the bounds through the expression, so that no sum or product can overflow. Privacy
does not rest on these intervals: whatever is added up is clamped once more (`plan.Clamp`).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sfumato.queries.functions import DAYS, PARTS, Null, Outcome, apply, truncated

if TYPE_CHECKING:
    from sfumato.queries.declared import Kind, Tuned, Value

LARGEST = 1 << 53  # a number in an expression stays below this, where every integer is a double
MANY = 5_000  # so many values are listed at most, when the values of an expression become public keys
LONGEST = 1 << 31  # characters of a text, at most
BIGGEST = 1_500  # nodes of an expression: subqueries are written out, and could double at every level
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)


class Unusable(Exception):
    """An expression that cannot be used, and what to write instead; `field` if a declaration is missing."""

    def __init__(self, problem: str, advice: str, field: Field | None = None) -> None:
        self.problem, self.advice, self.field = problem, advice, field
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Domain:
    """Which values an expression can take, besides NULL: as far as that is public.

    Bounds are of numbers, `since` and `until` of dates and timestamps; `exponent` k is the grid 2^-k on which
    numbers are added up; `keys` are the values it can be grouped by.
    """

    kind: Kind
    low: Fraction | None = None
    high: Fraction | None = None
    exponent: int = 0
    since: datetime.date | None = None
    until: datetime.date | None = None
    keys: tuple[Value, ...] | None = None
    tuned: Tuned | None = None
    required: bool = False  # a row without it counts as one at the lower bound

    @property
    def numeric(self) -> bool:
        """Whether one can compute with it."""
        return self.kind in ("integer", "number")


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the rows asked about.

    `unit` is "own" for the column that says whose row it is, and "maybe" for one that says the same or is
    NULL, as after a LEFT JOIN. `origin` is the table and column of the policy, for messages.
    """

    name: str
    domain: Domain
    unit: Literal["", "own", "maybe"] = ""
    origin: tuple[str, str] = ("", "")

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal of the type it is used as; None is NULL."""

    value: Value | None
    domain: Domain

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return 1


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator, its arguments and what comes out."""

    function: str
    arguments: tuple[Scalar, ...]
    domain: Domain
    size: int


Scalar = Field | Constant | Call


def constant(value: Value | None, kind: Kind) -> Constant:
    """A literal and its domain."""
    if value is not None and kind in ("integer", "number"):
        assert isinstance(value, (int, float))
        exact = Fraction(value)
        return Constant(value, Domain(kind, exact, exact, _grid(exact, exact) if kind == "number" else 0))
    if isinstance(value, datetime.date):
        day = value.date() if isinstance(value, datetime.datetime) else value
        return Constant(value, Domain(kind, since=day, until=day))
    return Constant(value, Domain(kind))


# How often an engine's text repeats each argument of a function: nested, it would grow without end.
_PRINTED = {
    "bucket": (4, 3, 2, 3),
    "/": (1, 2),
    "//": (1, 2),
    "%": (1, 2),
    "sqrt": (2,),
    "nullif": (2, 1),
    "trunc": (1, 2),
}


def call(function: str, *arguments: Scalar) -> Call:
    """A function applied to arguments, or `Unusable`."""
    times = _PRINTED.get(function, ())
    size = 1 + sum(each.size * (times[i] if i < len(times) else 1) for i, each in enumerate(arguments))
    if size > BIGGEST:
        raise Unusable("an expression becomes too long when it is written out", "Nest it less deeply.")
    return Call(function, arguments, RULES[function](*arguments), size)


def both(first: Scalar | None, second: Scalar) -> Scalar:
    """first AND second, where the first may be missing; parts are flat, sorted and different."""
    return second if first is None else joined("and", [first, second])


def joined(word: Literal["and", "or"], parts: list[Scalar]) -> Scalar:
    """AND or OR of parts: flat, sorted and different, so that one meaning has one form."""
    flat: dict[str, Scalar] = {}
    for part in parts:
        for each in part.arguments if isinstance(part, Call) and part.function == word else (part,):
            flat[repr(each)] = each
    ordered = [flat[text] for text in sorted(flat)]
    return ordered[0] if len(ordered) == 1 else call(word, *ordered)


def fields(expression: Scalar) -> set[Field]:
    """The columns that an expression uses."""
    found: set[Field] = set()
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Field() as field:
                found.add(field)
            case Call(_, arguments):
                waiting.extend(arguments)
    return found


def parts_of(condition: Scalar | None) -> tuple[Scalar, ...]:
    """The conditions that must all hold."""
    if condition is None:
        return ()
    return (
        condition.arguments if isinstance(condition, Call) and condition.function == "and" else (condition,)
    )


# Values --------------------------------------------------------------------------------------------------


def possible(expression: Scalar) -> tuple[Value, ...] | None:
    """Every value it can take besides NULL, where they are public and at most `MANY`; else None.

    >>> age = Field("age", Domain("integer", Fraction(0), Fraction(39)))
    >>> tens = call("*", call("//", clamped(age), constant(10, "integer")), constant(10, "integer"))
    >>> possible(tens)
    (0, 10, 20, 30)
    """
    if isinstance(expression, Field):
        return _listed(expression.domain)
    if isinstance(expression, Constant):
        return () if expression.value is None else (expression.value,)
    if expression.function == "clamp":
        return _listed(expression.domain)
    used = fields(expression)
    if len(used) <= 1:
        inputs = _inputs(expression, next(iter(used), None))
        results = None if inputs is None else _results(expression, inputs)
        if results is not None:
            return results
    match expression.function:
        case "case":
            *pairs, otherwise = expression.arguments
            return _union([*pairs[1::2], otherwise])
        case "coalesce":
            return _union(list(expression.arguments))
    return _listed(expression.domain)


def _inputs(expression: Call, field: Field | None) -> tuple[Value | None, ...] | None:
    """The values of its only column that tell every value of the expression."""
    if field is None:
        return (None,)
    known = _listed(field.domain)
    if known is None and field.domain.kind == "timestamp" and _by_day(expression):
        days = _days(field.domain)
        midnight = datetime.time()
        known = None if days is None else tuple(datetime.datetime.combine(day, midnight) for day in days)
    return None if known is None else (None, *known)


def _by_day(expression: Scalar) -> bool:
    """Whether it depends on the day of a timestamp only."""
    if isinstance(expression, Field):
        return False
    if isinstance(expression, Constant):
        return True
    if expression.function == "to date":
        return True
    if expression.function in ("trunc", "part"):
        unit = expression.arguments[0]
        return isinstance(unit, Constant) and unit.value in DAYS
    return all(_by_day(each) for each in expression.arguments)


def _results(expression: Call, inputs: tuple[Value | None, ...]) -> tuple[Value, ...] | None:
    found: dict[Value, None] = {}
    for value in inputs:
        try:
            result = evaluate(expression, value)
        except (ValueError, OverflowError, TypeError, AttributeError, KeyError):
            return None  # Python has no such value, or no such function
        if not isinstance(result, Null):
            found[result] = None
    if len(found) > MANY:
        return None
    if expression.domain.kind == "text":
        return tuple(found)
    return tuple(sorted(found))


def _union(branches: list[Scalar]) -> tuple[Value, ...] | None:
    found: dict[Value, None] = {}
    for each in branches:
        values = possible(each)
        if values is None:
            return None
        found.update(dict.fromkeys(values))
    return tuple(found) if len(found) <= MANY else None


def _listed(domain: Domain) -> tuple[Value, ...] | None:
    if domain.keys is not None:
        return domain.keys
    if domain.kind == "boolean":
        return (False, True)
    if domain.kind == "integer" and domain.low is not None and domain.high is not None:
        low, high = math.ceil(domain.low), math.floor(domain.high)
        return tuple(range(low, high + 1)) if high - low < MANY else None
    return _days(domain) if domain.kind == "date" else None


def _days(domain: Domain) -> tuple[datetime.date, ...] | None:
    if domain.since is None or domain.until is None or (domain.until - domain.since).days >= MANY:
        return None
    count = (domain.until - domain.since).days + 1
    return tuple(domain.since + datetime.timedelta(days) for days in range(count))


def evaluate(expression: Scalar, value: Value | None) -> Outcome:
    """What an expression is when its only column has this value: the same as in the engine."""
    match expression:
        case Field():
            return Null.NULL if value is None else value
        case Constant(known):
            return Null.NULL if known is None else known
        case Call(function, arguments):
            result: Outcome = apply(function, [evaluate(each, value) for each in arguments])
            return result


# Which values come out -----------------------------------------------------------------------------------

Rule = Callable[..., Domain]
BOOLEAN, TEXT = Domain("boolean"), Domain("text")


def bounds(expression: Scalar) -> tuple[Fraction, Fraction]:
    """The bounds of a number, or `Unusable`."""
    domain = expression.domain
    if not domain.numeric:
        raise Unusable(f"{named(expression)} is {domain.kind}, not a number", "Compute with numbers only.")
    if domain.low is None or domain.high is None:
        field = next((each for each in fields(expression) if each.domain.low is None), None)
        raise Unusable(
            f"{named(expression)} has no bounds, so one person could move the result without limit",
            "Bound it in the query: LEAST(GREATEST(x, 0), 100).",
            field,
        )
    return domain.low, domain.high


def clamped(expression: Scalar) -> Scalar:
    """A bounded numeric column as one computes with it; anything else as it is."""
    domain = expression.domain
    if not isinstance(expression, Field):
        return expression
    if domain.kind in ("date", "timestamp"):
        since, until = domain.since or FIRST, domain.until or LAST
        known = Domain(domain.kind, since=since, until=until, keys=domain.keys)
        return Call("sane", (expression,), known, 6)
    if domain.low is None or domain.high is None:
        return expression
    known = Domain(
        domain.kind, domain.low, domain.high, domain.exponent, tuned=domain.tuned, required=domain.required
    )
    return Call("clamp", (expression,), known, 6)


def named(expression: Scalar) -> str:
    """What to call an expression in a message."""
    if isinstance(expression, Field):
        return expression.origin[1] or "a column of the subquery"
    if isinstance(expression, Call) and expression.function in ("clamp", "sane"):
        return named(expression.arguments[0])
    return "this expression" if isinstance(expression, Call) else "this value"


def _number(low: Fraction, high: Fraction, *arguments: Scalar) -> Domain:
    """An integer if all arguments are, else a number."""
    whole = all(each.domain.kind == "integer" for each in arguments)
    return _domain("integer" if whole else "number", low, high)


def _domain(kind: Kind, low: Fraction, high: Fraction) -> Domain:
    if max(abs(low), abs(high)) >= LARGEST:
        raise Unusable(
            f"the result can be as large as {float(max(abs(low), abs(high))):.3g}",
            "Stay below 2^53: narrow the columns with LEAST(x, ...) or divide by a constant.",
        )
    return Domain(kind, low, high, _grid(low, high) if kind == "number" else 0)


def _grid(low: Fraction, high: Fraction) -> int:
    """About 2^20 steps from low to high, as for a declared column."""
    exponent, width = 20, max(high - low, abs(high) / (1 << 20), Fraction(1, 1 << 20))
    while width * Fraction(2) ** exponent > 1 << 20:
        exponent -= 1
    while width * Fraction(2) ** (exponent + 1) <= 1 << 20 and exponent < 60:
        exponent += 1
    while max(abs(low), abs(high)) * Fraction(2) ** exponent >= LARGEST:
        exponent -= 1
    return exponent


def _add(a: Scalar, b: Scalar) -> Domain:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    return _number(al + bl, ah + bh, a, b)


def _subtract(a: Scalar, b: Scalar) -> Domain:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    return _number(al - bh, ah - bl, a, b)


def _multiply(a: Scalar, b: Scalar) -> Domain:
    corners = [x * y for x in bounds(a) for y in bounds(b)]
    return _number(min(corners), max(corners), a, b)


def _divide(a: Scalar, b: Scalar) -> Domain:
    divisors = _divisors(b)
    corners = [x / y for x in bounds(a) for y in divisors]
    if bounds(a)[0] < 0 < bounds(a)[1]:
        corners.append(Fraction(0))
    return _domain("number", min(corners), max(corners))


def _divisors(b: Scalar) -> list[Fraction]:
    """The ends of what it can be divided by; by zero there is no value."""
    low, high = bounds(b)
    if low > 0 or high < 0:
        return [low, high]
    if b.domain.kind != "integer" or (low == 0 and high == 0):
        raise Unusable(
            f"{named(b)} may be as near to zero as it likes, so the quotient has no bounds",
            "Keep it away from zero: GREATEST(x, 1).",
        )
    return [end for end in (low, Fraction(-1), Fraction(1), high) if low <= end <= high and end != 0]


def _whole_divide(a: Scalar, b: Scalar) -> Domain:
    _only_integers("//", a, b)
    corners = [Fraction(math.trunc(x / y)) for x in bounds(a) for y in _divisors(b)]
    if bounds(a)[0] < 0 < bounds(a)[1]:
        corners.append(Fraction(0))
    return _domain("integer", min(corners), max(corners))


def _modulo(a: Scalar, b: Scalar) -> Domain:
    _only_integers("%", a, b)
    (al, ah), most = bounds(a), max(abs(end) for end in bounds(b))
    most = max(most - 1, Fraction(0))
    return _domain("integer", max(-most, min(al, Fraction(0))), min(most, max(ah, Fraction(0))))


def _only_integers(word: str, *arguments: Scalar) -> None:
    if any(each.domain.kind != "integer" for each in arguments):
        raise Unusable(f"{word} takes whole numbers", "Use integer columns, or FLOOR them first.")


def _negate(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _number(-high, -low, a)


def _absolute(a: Scalar) -> Domain:
    low, high = bounds(a)
    least = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    return _number(least, max(abs(low), abs(high)), a)


def _sign(a: Scalar) -> Domain:
    bounds(a)
    return Domain("integer", Fraction(-1), Fraction(1))


def _floor(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _domain("integer", Fraction(math.floor(low)), Fraction(math.floor(high)))


def _ceiling(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _domain("integer", Fraction(math.ceil(low)), Fraction(math.ceil(high)))


def _outward(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _domain("integer", Fraction(math.floor(low)), Fraction(math.ceil(high)))


def _round(a: Scalar, digits: Scalar) -> Domain:
    low, high = bounds(a)
    assert isinstance(digits, Constant)
    ten = Fraction(10) ** int(digits.value or 0)  # type: ignore[arg-type]  # the reader allows whole numbers
    kind: Kind = "integer" if a.domain.kind == "integer" else "number"
    return _domain(kind, Fraction(math.floor(low * ten)) / ten, Fraction(math.ceil(high * ten)) / ten)


def _root(a: Scalar) -> Domain:
    low, high = (max(end, Fraction(0)) for end in bounds(a))
    return _domain("number", Fraction(math.isqrt(math.floor(low))), Fraction(math.isqrt(math.ceil(high)) + 1))


def _extreme(pick: Literal["least", "greatest"]) -> Rule:
    def rule(*arguments: Scalar) -> Domain:
        kind = common(arguments)
        if kind not in ("integer", "number"):
            return Domain(kind)
        lows, highs = [a.domain.low for a in arguments], [a.domain.high for a in arguments]
        fixed = [a.domain.low for a in arguments if isinstance(a, Constant) and a.domain.low is not None]
        # an argument that is NULL does not count, so only literals bound the side that is cut
        low: Fraction | None
        high: Fraction | None
        if pick == "least":
            low = None if None in lows else min(low for low in lows if low is not None)
            high = min(fixed) if fixed else _most(highs)
        else:
            high = _most(highs)
            low = max(fixed) if fixed else None if None in lows else min(x for x in lows if x is not None)
        return _partial(kind, low, high)

    return rule


def _most(ends: list[Fraction | None]) -> Fraction | None:
    return None if None in ends else max(end for end in ends if end is not None)


def _partial(kind: Kind, low: Fraction | None, high: Fraction | None) -> Domain:
    if low is None or high is None:
        return Domain(kind, low, high)
    return _domain(kind, min(low, high), high)


def common(arguments: tuple[Scalar, ...] | list[Scalar]) -> Kind:
    """The kind that several values have together; integers among numbers are numbers."""
    kinds = {
        each.domain.kind for each in arguments if not (isinstance(each, Constant) and each.value is None)
    }
    if kinds == {"integer", "number"}:
        return "number"
    if len(kinds) != 1:
        told = " and ".join(sorted(kinds)) or "only NULL"
        raise Unusable(f"these values are {told}", "Use values of one type, or CAST them.")
    return kinds.pop()


def hull(arguments: tuple[Scalar, ...] | list[Scalar]) -> Domain:
    """The domain of a value that is one of these."""
    kind = common(arguments)
    known = [each.domain for each in arguments if not (isinstance(each, Constant) and each.value is None)]
    if kind in ("integer", "number"):
        lows, highs = [each.low for each in known], [each.high for each in known]
        low = None if None in lows else min(x for x in lows if x is not None)
        return _partial(kind, low, _most(highs))
    if kind in ("date", "timestamp"):
        sinces, untils = [each.since for each in known], [each.until for each in known]
        if None in sinces or None in untils:
            return Domain(kind)
        return Domain(kind, since=min(x for x in sinces if x), until=max(x for x in untils if x))
    return Domain(kind)


def _case(*arguments: Scalar) -> Domain:
    *pairs, otherwise = arguments
    for condition in pairs[0::2]:
        _boolean(condition)
    return hull([*pairs[1::2], otherwise])


def _coalesce(*arguments: Scalar) -> Domain:
    return hull(arguments)


def _nullif(a: Scalar, b: Scalar) -> Domain:
    common((a, b))
    return replace(a.domain, required=False, tuned=None)


def _compare(a: Scalar, b: Scalar) -> Domain:
    common((a, b))
    return BOOLEAN


def _among(*arguments: Scalar) -> Domain:
    common(arguments)
    return BOOLEAN


def _boolean(*arguments: Scalar) -> Domain:
    for each in arguments:
        if each.domain.kind != "boolean":
            raise Unusable(f"{named(each)} is not a condition", "Compare it with a value.")
    return BOOLEAN


def _texts(*arguments: Scalar) -> Domain:
    for each in arguments:
        if each.domain.kind != "text":
            raise Unusable(f"{named(each)} is {each.domain.kind}, not text", "Use a text column.")
    return TEXT


def _text_condition(*arguments: Scalar) -> Domain:
    _texts(*arguments)
    return BOOLEAN


def _sliced(a: Scalar, *_: Scalar) -> Domain:
    return _texts(a)


def _length(a: Scalar) -> Domain:
    _texts(a)
    return Domain("integer", Fraction(0), Fraction(LONGEST))


def _bucket(x: Scalar, low: Scalar, high: Scalar, count: Scalar) -> Domain:
    if not x.domain.numeric:
        raise Unusable(f"{named(x)} is {x.domain.kind}, not a number", "Take buckets of numbers.")
    assert isinstance(count, Constant)
    assert isinstance(count.value, int)
    if bounds(low)[0] >= bounds(high)[0] or not 1 <= count.value <= MANY - 2:
        raise Unusable("that is no range of buckets", "Write: WIDTH_BUCKET(x, 0, 100, 10)")
    return Domain("integer", Fraction(0), Fraction(count.value + 1))


def _temporal(a: Scalar) -> Domain:
    if a.domain.kind not in ("date", "timestamp"):
        raise Unusable(f"{named(a)} is {a.domain.kind}, not a date", "Use a date or timestamp column.")
    return a.domain


def _part(unit: Scalar, a: Scalar) -> Domain:
    domain = _temporal(a)
    assert isinstance(unit, Constant)
    if unit.value == "year":
        return Domain(
            "integer", Fraction((domain.since or FIRST).year), Fraction((domain.until or LAST).year)
        )
    low, high = PARTS[str(unit.value)]
    return Domain("integer", Fraction(low), Fraction(high))


def _trunc(unit: Scalar, a: Scalar) -> Domain:
    domain = _temporal(a)
    assert isinstance(unit, Constant)
    since, until = domain.since or FIRST, domain.until or LAST
    return Domain(domain.kind, since=truncated(str(unit.value), since), until=until)


PER_DAY = {"day": 1, "hour": 24, "minute": 1440, "second": 86400}
DAYS_IN = {"month": 28, "quarter": 84, "year": 365}


def _difference(unit: Scalar, a: Scalar, b: Scalar) -> Domain:
    """b - a, in whole units whose borders lie between."""
    first, second = _temporal(a), _temporal(b)
    if a.domain.kind != b.domain.kind:
        raise Unusable("a date and a timestamp cannot be subtracted", "Write: CAST(x AS DATE)")
    assert isinstance(unit, Constant)
    low = ((second.since or FIRST) - (first.until or LAST)).days - 1
    high = ((second.until or LAST) - (first.since or FIRST)).days + 1
    word = str(unit.value)
    if word in PER_DAY:
        return Domain("integer", Fraction(low * PER_DAY[word]), Fraction(high * PER_DAY[word]))
    size = DAYS_IN[word]
    return Domain("integer", Fraction(low // size - 1), Fraction(-(-high // size) + 1))


def _to_date(a: Scalar) -> Domain:
    domain = _temporal(a)
    return Domain("date", since=domain.since, until=domain.until)


def _to_number(a: Scalar) -> Domain:
    if not a.domain.numeric:
        raise Unusable(f"{named(a)} is {a.domain.kind}, not a number", "Cast numbers only.")
    return _partial("number", a.domain.low, a.domain.high)


def _to_integer(a: Scalar) -> Domain:
    if a.domain.kind == "boolean":
        return Domain("integer", Fraction(0), Fraction(1))
    return _outward(a)


def _to_text(a: Scalar) -> Domain:
    if a.domain.kind not in ("text", "integer", "boolean", "date"):
        raise Unusable(f"{named(a)} is {a.domain.kind}", "CAST integers, booleans and dates to text.")
    return TEXT


RULES: dict[str, Rule] = {
    "and": _boolean,
    "or": _boolean,
    "not": _boolean,
    "is null": lambda _: BOOLEAN,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compare),
    "in": _among,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "//": _whole_divide,
    "%": _modulo,
    "negate": _negate,
    "abs": _absolute,
    "sign": _sign,
    "floor": _floor,
    "ceil": _ceiling,
    "round": _round,
    "sqrt": _root,
    "least": _extreme("least"),
    "greatest": _extreme("greatest"),
    "bucket": _bucket,
    "like": _text_condition,
    "ilike": _text_condition,
    "starts with": _text_condition,
    "contains": _text_condition,
    "lower": _texts,
    "upper": _texts,
    "trim": _texts,
    "concat": _texts,
    "substring": _sliced,
    "left": _sliced,
    "right": _sliced,
    "length": _length,
    "part": _part,
    "trunc": _trunc,
    "diff": _difference,
    "to date": _to_date,
    "to number": _to_number,
    "to integer": _to_integer,
    "to text": _to_text,
}
