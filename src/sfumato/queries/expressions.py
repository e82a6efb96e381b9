"""Expressions on one row: what they are made of, which values they can take, and what they are on one value.

Every expression is total: whatever a row holds, it has a value or is NULL, and the engine raises nothing
(laws 5 and 8). A numeric column is clamped to its declared bounds before anything is computed with it, and
interval arithmetic follows the bounds through the expression, so that no sum or product can overflow. Privacy
does not rest on these intervals: whatever is added up is clamped once more (`plan.Clamp`).
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sfumato.queries.functions import DAYS, Null, Outcome, apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sfumato.queries.declared import Kind, Tuned, Value

LARGEST = 1 << 53  # a number in an expression stays below this, where every integer is a double
EXACT = 1 << 51  # below this, in units of its last decimal, a decimal is known by the nearest double
WIDEST = 10**37  # and below this it can be computed with in 128 bits
MOST_WORK = 20_000_000  # letters that patterns are compared with, to list the values of an expression
MOST_LISTED = 5_000  # so many values are listed at most, when the values of an expression become public keys
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)


class Unusable(Exception):
    """An expression that cannot be used, and what to write instead; `field` if a declaration is missing."""

    def __init__(self, problem: str, advice: str, field: Field | None = None) -> None:
        self.problem, self.advice, self.field = problem, advice, field
        super().__init__(problem)


class Misread(Unusable):
    """An expression that earlier versions answered, and read otherwise than SQL does."""


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
    scale: int | None = None  # how many decimals a number has at most, if SQL computes with it exactly
    held: Literal["", "decimal", "double"] = ""  # what SQL holds a whole number in, if not in an integer
    listed: tuple[str, str] | None = None  # the public table and column that has all of its values

    def __post_init__(self) -> None:
        """Bounds in the wrong order would hold for no value, and everything derived from them be wrong."""
        if self.low is not None and self.high is not None and self.low > self.high:
            raise Unusable("no value has these bounds", "Write it in another way.")

    @property
    def decimals(self) -> int | None:
        """How many decimals a value has, where SQL computes exactly: in integers, or in decimals."""
        if self.kind == "integer":
            return None if self.held == "double" else 0
        return self.scale if self.kind == "number" else None

    @property
    def adds_exactly(self) -> bool:
        """Whether decimals are added up as whole numbers of the last one: however many rows, 128 bits do."""
        if self.kind != "number" or self.scale is None or self.low is None or self.high is None:
            return False
        return bool(max(abs(self.low), abs(self.high)) * 10**self.scale < EXACT)

    @property
    def wide(self) -> bool:
        """Whether SQL computes with it exactly, in more digits than the nearest double tells apart."""
        return self.kind == "number" and self.scale is not None and not self.adds_exactly

    @property
    def numeric(self) -> bool:
        """Whether one can compute with it."""
        return self.kind in ("integer", "number")


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the rows asked about.

    `unit` is "own" for the column that says whose row it is, "maybe" for one that says the same or is NULL,
    as after a LEFT JOIN, and "refers" for one that refers to the column that says so. `origin` is the table
    and column of the policy.
    """

    name: str
    domain: Domain
    unit: Literal["", "own", "maybe", "refers"] = ""
    origin: tuple[str, str] = ("", "")

    def __hash__(self) -> int:
        return hash(self.name)  # not its domain, which may have a million keys

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal of the type it is used as; None is NULL."""

    value: Value | None
    domain: Domain

    def __hash__(self) -> int:
        return hash((self.value, self.domain.kind))

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function or operator, its arguments and what comes out.

    `key` is computed once, from the keys of the arguments: it tells nearly all expressions apart without a
    walk through them.
    """

    function: str
    arguments: tuple[Scalar, ...]
    domain: Domain
    size: int
    key: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hash((self.function, self.arguments)))

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Call) or self.key != other.key:
            return False
        is_same = self.function == other.function and self.arguments == other.arguments
        return is_same and self.domain == other.domain


Scalar = Field | Constant | Call


def constant(value: Value | None, kind: Kind, scale: int | None = None) -> Constant:
    """A literal and its domain; a number may have so many decimals."""
    if value is not None and kind in ("integer", "number"):
        assert isinstance(value, (int, float))
        exact = Fraction(value)
        grid = grid_of(exact, exact) if kind == "number" else 0
        return Constant(value, Domain(kind, exact, exact, grid, scale=fitting(scale, exact, exact, EXACT)))
    if isinstance(value, datetime.date):
        day = value.date() if isinstance(value, datetime.datetime) else value
        return Constant(value, Domain(kind, since=day, until=day))
    return Constant(value, Domain(kind))


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


@lru_cache(maxsize=256)
def possible(expression: Scalar) -> tuple[Value, ...] | None:
    """Every value it can take besides NULL, where they are public and at most `MOST_LISTED`; else None.

    >>> from sfumato.queries.domains import call
    >>> age = Field("age", Domain("integer", Fraction(0), Fraction(39)))
    >>> tens = call("*", call("//", clamped(age), constant(10, "integer")), constant(10, "integer"))
    >>> possible(tens)
    (0, 10, 20, 30)
    """
    if isinstance(expression, Field):
        return values_in(expression.domain)
    if isinstance(expression, Constant):
        return () if expression.value is None else (expression.value,)
    if expression.function == "clamp":
        return values_in(expression.domain)
    used = fields(expression)
    if len(used) <= 1 and not has_pattern(expression):
        inputs = _inputs(expression, next(iter(used), None))
        results = None if inputs is None else _results(expression, inputs)
        if results is not None:
            return results
    if expression.domain.kind == "number" and (steps := stepped(expression)) is not None:
        return steps
    match expression.function:
        case "case":
            *pairs, otherwise = expression.arguments
            return _union([*pairs[1::2], otherwise])
        case "coalesce":
            return _union(list(expression.arguments))
    return values_in(expression.domain)


def with_listed(expression: Scalar, values: Callable[[str, str], tuple[Value, ...] | None]) -> Scalar:
    """The expression with keys for the columns of public tables that nobody declared keys for."""
    match expression:
        case Field(_, domain) if domain.keys is None and domain.listed is not None:
            return replace(expression, domain=replace(domain, keys=values(*domain.listed)))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(with_listed(each, values) for each in arguments))
    return expression


def stepped(expression: Call) -> tuple[Value, ...] | None:
    """The values of a number that is made of one whole number with few values: FLOOR(x / 10) * 10 + 0.5.

    ROUND(x, 1) is a whole number of tenths.
    """
    if expression.function == "round":
        inner, digits = expression.arguments
        low, high, places = expression.domain.low, expression.domain.high, apply("to number", [digits.value])  # type: ignore[union-attr]
        if inner.domain.kind != "number" or low is None or high is None:
            return None
        ten = Fraction(10) ** int(places)
        first, last = math.ceil(low * ten), math.floor(high * ten)
        return tuple(float(n / ten) for n in range(first, last + 1)) if last - first < MOST_LISTED else None
    hinge = _hinge(expression)
    if hinge is None or hinge.domain.low is None or hinge.domain.high is None:
        return None
    low_, high_ = math.ceil(hinge.domain.low), math.floor(hinge.domain.high)
    if high_ - low_ >= MOST_LISTED or has_pattern(expression):
        return None
    return _results(expression, (None, *range(low_, high_ + 1)), hinge)


def _hinge(expression: Scalar) -> Call | None:
    """The whole number through which alone columns come into an expression."""
    found: set[Call] = set()
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Field():
                return None
            case Call(function, arguments) as call:
                if call.domain.kind == "integer" and function not in (
                    "clamp",
                    "+",
                    "-",
                    "*",
                    "negate",
                    "case",
                ):
                    found.add(call)
                else:
                    waiting.extend(arguments)
    return found.pop() if len(found) == 1 else None


def has_pattern(expression: Scalar) -> bool:
    """Whether a regular expression is in it, which takes Python much longer than it takes engines."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call):
            if each.function.startswith("regexp"):
                return True
            waiting.extend(each.arguments)
    return False


def _inputs(expression: Call, field: Field | None) -> tuple[Value | None, ...] | None:
    """The values of its only column that tell every value of the expression."""
    if field is None:
        return (None,)
    known = values_in(field.domain)
    if known is None and field.domain.kind == "timestamp" and by_day(expression):
        known = moments_in(field.domain, [expression])
    return None if known is None else (None, *known)


def moments_in(domain: Domain, expressions: Iterable[Scalar]) -> tuple[datetime.datetime, ...] | None:
    """A moment of every day of a domain, or of every hour, if expressions tell no more than these apart."""
    listed, days = list(expressions), days_in(domain)
    hours = 1 if all(map(by_day, listed)) else 24
    if days is None or len(days) * hours > MOST_LISTED:
        return None
    if hours > 1 and not all(by_day(each, ("hour", *DAYS)) for each in listed):
        return None
    return tuple(datetime.datetime.combine(day, datetime.time(hour)) for day in days for hour in range(hours))


def by_day(expression: Scalar, units: Sequence[str] = DAYS) -> bool:
    """Whether it depends on the day of a timestamp only, or on these units of it."""
    if isinstance(expression, Field):
        return False
    if isinstance(expression, Constant):
        return True
    if expression.function == "to date":
        return True
    if expression.function in ("trunc", "part"):
        unit = expression.arguments[0]
        return isinstance(unit, Constant) and unit.value in units
    return all(by_day(each, units) for each in expression.arguments)


def _results(
    expression: Call, inputs: tuple[Value | None, ...], hinge: Call | None = None
) -> tuple[Value, ...] | None:
    found: dict[Value, None] = {}
    letters = max((len(each) for each in inputs if isinstance(each, str)), default=0)
    if len(inputs) * work(expression, letters) > MOST_WORK:
        return None
    for value in inputs:
        try:
            result = evaluate(expression, value, hinge)
        except (ValueError, OverflowError, TypeError, AttributeError, KeyError):
            return None  # Python has no such value, or no such function
        if (known := as_value(result, expression.domain.kind)) is not None:
            found[known] = None
    if len(found) > MOST_LISTED:
        return None
    if expression.domain.kind == "text":
        return tuple(found)
    return tuple(sorted(found))


def work(expression: Scalar, letters: int) -> int:
    """How many letters patterns are compared with, where columns have texts of so many."""
    patterns, waiting = 0, [expression]
    while waiting:
        match waiting.pop():
            case Constant(str() as text):
                letters += len(text)
            case Call(function, arguments):
                waiting.extend(arguments)
                if function in ("like", "ilike") and isinstance(arguments[1], Constant):
                    patterns += len(str(arguments[1].value))
    return patterns * max(letters, 20)


def as_value(found: Outcome, kind: Kind) -> Value | None:
    """What an expression is on a row, as a key has it; None is NULL."""
    if isinstance(found, Null):
        return None
    if kind == "integer" and isinstance(found, float) and found.is_integer():
        return int(found)
    return float(found) if isinstance(found, Fraction) else found


def _union(branches: list[Scalar]) -> tuple[Value, ...] | None:
    found: dict[Value, None] = {}
    for each in branches:
        values = possible(each)
        if values is None:
            return None
        found.update(dict.fromkeys(values))
    return tuple(found) if len(found) <= MOST_LISTED else None


def values_in(domain: Domain) -> tuple[Value, ...] | None:
    """Every value that a domain has, where they are public and at most `MOST_LISTED`."""
    if domain.keys is not None:
        return domain.keys
    if domain.kind == "boolean":
        return (False, True)
    if domain.kind == "integer" and domain.low is not None and domain.high is not None:
        low, high = math.ceil(domain.low), math.floor(domain.high)
        return tuple(range(low, high + 1)) if high - low < MOST_LISTED else None
    return days_in(domain) if domain.kind == "date" else None


def days_in(domain: Domain) -> tuple[datetime.date, ...] | None:
    if domain.since is None or domain.until is None or (domain.until - domain.since).days >= MOST_LISTED:
        return None
    count = (domain.until - domain.since).days + 1
    return tuple(domain.since + datetime.timedelta(days) for days in range(count))


def evaluate(expression: Scalar, value: Value | None, hinge: Call | None = None) -> Outcome:
    """What an expression is when its only column has this value, or the part of it that has all columns: the
    same as in the engine."""
    return _evaluated(expression, lambda _: value, value, hinge)


def on_row(expression: Scalar, row: Mapping[str, Value | None]) -> Outcome:
    """What an expression is when its columns have these values, by their names."""
    return _evaluated(expression, lambda field: row[field.name], None, None)


def _evaluated(
    expression: Scalar, of: Callable[[Field], Value | None], at: Value | None, hinge: Call | None
) -> Outcome:
    if hinge is not None and expression == hinge:
        return Null.NULL if at is None else float(at) if hinge.domain.held == "double" else at  # type: ignore[arg-type]
    match expression:
        case Field(_, domain) | Constant(_, domain):
            known = of(expression) if isinstance(expression, Field) else expression.value
            if isinstance(known, float) and domain.scale is not None:
                return Fraction(round(Fraction(known) * 10**domain.scale), 10**domain.scale)
            return Null.NULL if known is None else known
        case Call(function, arguments):
            result: Outcome = apply(
                function, [_held(each, _evaluated(each, of, at, hinge)) for each in arguments]
            )
            return result


def _held(expression: Scalar, found: Outcome) -> Outcome:
    """A value as SQL holds it where it is computed with: FLOOR of a double is a double."""
    is_whole = isinstance(found, int) and not isinstance(found, bool)
    return float(found) if is_whole and expression.domain.held == "double" else found  # type: ignore[arg-type]


# Bounds --------------------------------------------------------------------------------------------------


def bounds(expression: Scalar) -> tuple[Fraction, Fraction]:
    """The bounds of a number, or `Unusable`."""
    domain = expression.domain
    if not domain.numeric:
        raise Unusable(f"{named(expression)} is {domain.kind}, not a number", "Compute with numbers only.")
    if domain.low is None or domain.high is None:
        field = next((each for each in fields(expression) if each.domain.low is None), None)
        raise Unusable(
            f"{named(expression)} has no bounds, so one person could change the result without limit",
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
        domain.kind,
        domain.low,
        domain.high,
        domain.exponent,
        tuned=domain.tuned,
        required=domain.required,
        scale=domain.scale,
        held=domain.held,
    )
    return Call("clamp", (expression,), known, 6)


def named(expression: Scalar) -> str:
    """What to call an expression in a message."""
    if isinstance(expression, Field):
        return expression.origin[1] or "a column of the subquery"
    if isinstance(expression, Call) and expression.function in ("clamp", "sane"):
        return named(expression.arguments[0])
    return "this expression" if isinstance(expression, Call) else "this value"


def fitting(scale: int | None, low: Fraction, high: Fraction, most: int) -> int | None:
    """So many decimals, if numbers within these bounds can have them."""
    return scale if scale is not None and max(abs(low), abs(high)) * 10**scale < most else None


def grid_of(low: Fraction, high: Fraction) -> int:
    """About 2^20 steps from low to high, as for a declared column."""
    exponent, width = 20, max(high - low, abs(high) / (1 << 20), Fraction(1, 1 << 20))
    while width * Fraction(2) ** exponent > 1 << 20:
        exponent -= 1
    while width * Fraction(2) ** (exponent + 1) <= 1 << 20 and exponent < 60:
        exponent += 1
    while max(abs(low), abs(high)) * Fraction(2) ** exponent >= LARGEST:
        exponent -= 1
    return exponent
