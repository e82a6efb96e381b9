"""Which values come out of a function, as far as that is public: bounds, days, decimals, lengths.

Interval arithmetic follows the declared bounds through an expression, so that no sum or product can overflow
and a result can be added up. A function that has no bounds is unusable, with the reason and what to write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sfumato.queries import notation
from sfumato.queries.expressions import (
    EXACT,
    FIRST,
    LARGEST,
    LAST,
    MOST_LISTED,
    WIDEST,
    Call,
    Constant,
    Domain,
    Field,
    Misread,
    Scalar,
    Unusable,
    bounds,
    fitting,
    grid_of,
    named,
)
from sfumato.queries.functions import PARTS, apply, truncated

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Sequence

    from sfumato.queries.declared import Kind

MOST_COPIES = (
    8  # texts of any length in one that is put together: what a row of one person may take of memory
)
MOST_COPIES_ASKED = 64  # the same of all texts that are made in a question
BIGGEST = 1_500  # nodes of an expression: subqueries are written out, and could double at every level

Rule = Callable[..., Domain]
BOOLEAN, TEXT = Domain("boolean"), Domain("text")


# How often an engine's text repeats each argument of a function: nested, it would grow without end.
_PRINTED = {
    "bucket": (4, 3, 2, 3),
    "/": (1, 2),
    "//": (1, 2),
    "%": (1, 2),
    "sqrt": (2,),
    "floor": (3,),
    "ceil": (3,),
    "round": (3, 1),
    "to integer": (3,),
    "to decimal": (3, 1),
    "length": (2,),
    "position": (2, 2),
    "ln": (2,),
    "nullif": (2, 1),
    "trunc": (1, 2),
}


def call(function: str, *arguments: Scalar) -> Call:
    """A function applied to arguments, or `Unusable`."""
    times = _PRINTED.get(function, ())
    size = 1 + sum(each.size * (times[i] if i < len(times) else 1) for i, each in enumerate(arguments))
    if size > BIGGEST:
        raise Unusable("an expression becomes too long when it is expanded", "Nest it less deeply.")
    return Call(function, arguments, RULES[function](*arguments), size)


def both(first: Scalar | None, second: Scalar) -> Scalar:
    """first AND second, where the first may be missing; parts are flat, sorted and different."""
    return second if first is None else joined("and", [first, second])


def joined(word: Literal["and", "or"], parts: list[Scalar]) -> Scalar:
    """AND or OR of parts: flat, sorted and different, so that one meaning has one form."""
    flat: dict[Scalar, None] = {}
    for part in parts:
        inner = part.arguments if isinstance(part, Call) and part.function == word else (part,)
        flat |= dict.fromkeys(inner)
    ordered = sorted(flat, key=notation.order)
    return ordered[0] if len(ordered) == 1 else call(word, *ordered)


# Rules ---------------------------------------------------------------------------------------------------


def _number(low: Fraction, high: Fraction, *arguments: Scalar, scale: int | None = None) -> Domain:
    """An integer if all arguments are, else a number, which may have so many decimals."""
    whole = all(each.domain.kind == "integer" for each in arguments)
    if whole:
        return replace(_domain("integer", low, high), held=_held(arguments))
    return replace(_domain("number", low, high), scale=fitting(scale, low, high, WIDEST))


def _held(arguments: Sequence[Scalar]) -> Literal["", "decimal", "double"]:
    """What SQL holds a whole number in that is made of these."""
    held = {each.domain.held for each in arguments}
    return "double" if "double" in held else "decimal" if "decimal" in held else ""


def _finest(arguments: Sequence[Scalar]) -> int | None:
    """How many decimals the finest of them has; None if SQL computes with one of them in doubles."""
    known = [each for each in arguments if not (isinstance(each, Constant) and each.value is None)]
    scales = [each.domain.decimals for each in known]
    found = [scale for scale in scales if scale is not None]
    return max(found, default=0) if len(found) == len(scales) else None


def _domain(kind: Kind, low: Fraction, high: Fraction) -> Domain:
    if max(abs(low), abs(high)) >= LARGEST:
        raise Unusable(
            f"the result can be as large as {float(max(abs(low), abs(high))):.3g}",
            "Stay below 2^53: narrow the columns with LEAST(x, ...) or divide by a constant.",
        )
    return Domain(kind, low, high, grid_of(low, high) if kind == "number" else 0)


def _add(a: Scalar, b: Scalar) -> Domain:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    return _number(al + bl, ah + bh, a, b, scale=_finest((a, b)))


def _subtract(a: Scalar, b: Scalar) -> Domain:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    return _number(al - bh, ah - bl, a, b, scale=_finest((a, b)))


def _multiply(a: Scalar, b: Scalar) -> Domain:
    corners = [x * y for x in bounds(a) for y in bounds(b)]
    scales = a.domain.decimals, b.domain.decimals
    scale = None if scales[0] is None or scales[1] is None else scales[0] + scales[1]
    return _number(min(corners), max(corners), a, b, scale=scale)


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
            f"{named(b)} may be arbitrarily close to zero, so the quotient has no bounds",
            "Keep it away from zero: GREATEST(x, 1).",
        )
    return [end for end in (low, Fraction(-1), Fraction(1), high) if low <= end <= high and end != 0]


def _whole_divide(a: Scalar, b: Scalar) -> Domain:
    _only_integers("//", a, b)
    if _held((a, b)):
        raise Misread(
            "SQL does not round the quotient here: FLOOR and CEIL do not return an integer",
            "Write CAST(FLOOR(x) AS INTEGER) // n, or FLOOR(x / n).",
        )
    corners = [Fraction(math.trunc(x / y)) for x in bounds(a) for y in _divisors(b)]
    if bounds(a)[0] < 0 < bounds(a)[1]:
        corners.append(Fraction(0))
    return _domain("integer", min(corners), max(corners))


def _modulo(a: Scalar, b: Scalar) -> Domain:
    _only_integers("%", a, b)
    (al, ah), most = bounds(a), max(abs(end) for end in bounds(b))
    most = max(most - 1, Fraction(0))
    low, high = max(-most, min(al, Fraction(0))), min(most, max(ah, Fraction(0)))
    return replace(_domain("integer", low, high), held=_held((a, b)))


def _only_integers(word: str, *arguments: Scalar) -> None:
    if any(each.domain.kind != "integer" for each in arguments):
        raise Unusable(f"{word} takes whole numbers", "Use integers: CAST(FLOOR(x) AS INTEGER).")


def _negate(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _number(-high, -low, a, scale=a.domain.decimals)


def _absolute(a: Scalar) -> Domain:
    low, high = bounds(a)
    least = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    return _number(least, max(abs(low), abs(high)), a, scale=a.domain.decimals)


def _sign(a: Scalar) -> Domain:
    bounds(a)
    return Domain("integer", Fraction(-1), Fraction(1))


def _floor(a: Scalar) -> Domain:
    ends = [math.floor(each) for each in _as_doubles(a)]
    return replace(_domain("integer", Fraction(min(ends)), Fraction(max(ends))), held=_rounded_in(a))


def _ceiling(a: Scalar) -> Domain:
    ends = [math.ceil(each) for each in _as_doubles(a)]
    return replace(_domain("integer", Fraction(min(ends)), Fraction(max(ends))), held=_rounded_in(a))


def _as_doubles(a: Scalar) -> list[Fraction]:
    """The ends of a value, exactly and as an engine computes them: 12 / 0.1 is 120 in doubles, though 0.1
    is a little more than a tenth there."""
    ends = bounds(a)
    return [*ends, *(Fraction(float(end)) for end in ends)]


def _rounded_in(a: Scalar) -> Literal["decimal", "double"]:
    """What SQL gives as the floor of a value: of an integer, too, a double."""
    return "decimal" if a.domain.kind == "number" and a.domain.scale is not None else "double"


def _outward(a: Scalar) -> Domain:
    low, high = bounds(a)
    return _domain("integer", Fraction(math.floor(low)), Fraction(math.ceil(high)))


def _round(a: Scalar, digits: Scalar) -> Domain:
    low, high = bounds(a)
    assert isinstance(digits, Constant)
    ten = Fraction(10) ** int(digits.value or 0)  # type: ignore[arg-type]  # the reader allows whole numbers
    low, high = Fraction(math.floor(low * ten)) / ten, Fraction(math.ceil(high * ten)) / ten
    if a.domain.kind == "integer":
        return replace(_domain("integer", low, high), held=a.domain.held)
    scale = None if a.domain.scale is None else min(a.domain.scale, max(int(digits.value or 0), 0))  # type: ignore[arg-type]
    return replace(_domain("number", low, high), scale=fitting(scale, low, high, EXACT))


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
        return _one_of(_partial(kind, low, high), arguments)

    return rule


def _one_of(domain: Domain, arguments: Sequence[Scalar]) -> Domain:
    """The domain of a value that is one of these, as SQL holds it."""
    if domain.kind == "integer":
        return replace(domain, held=_held(arguments))
    if domain.kind != "number" or domain.low is None or domain.high is None:
        return domain
    return replace(domain, scale=fitting(_finest(arguments), domain.low, domain.high, EXACT))


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
        return _one_of(_partial(kind, low, _most(highs)), arguments)
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


def _joined_texts(*arguments: Scalar) -> Domain:
    if sum(map(_copies, arguments)) > MOST_COPIES:
        told = f"more than {MOST_COPIES} texts of any length are put together"
        raise Unusable(told, "Cut them first: LEFT(x, 100).")
    return _texts(*arguments)


def _copies(text: Scalar) -> int:
    """How often the whole of a text from the data may stand in it."""
    match text:
        case Constant():
            return 0
        case Call("left" | "right" | "substring", (of, *_, count)):
            return 0 if kept_letters(count) is not None else _copies(of)
        case Call("to text"):
            return 0
        case Call("concat", parts):
            return sum(map(_copies, parts))
        case Call("case", (*pairs, otherwise)):
            return max(map(_copies, [*pairs[1::2], otherwise]))
        case Call("coalesce" | "least" | "greatest", parts):
            return max(map(_copies, parts))
        case Call(_, (of, *_)) if of.domain.kind == "text":
            return _copies(of)
    return 1


def copies_in(scalars: Iterable[Scalar]) -> int:
    """How many copies of texts of any length are made for a row in these expressions, each made once."""
    found, seen, waiting = set[Scalar](), set[int](), list(scalars)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.arguments
            if each.domain.kind == "text":
                found.add(each)
    return sum(map(_copies, found))


def _text_condition(*arguments: Scalar) -> Domain:
    _texts(*arguments)
    return BOOLEAN


def _sliced(a: Scalar, *_: Scalar) -> Domain:
    return _texts(a)


def _length(a: Scalar) -> Domain:
    _texts(a)
    most = longest(a)
    return Domain("integer", Fraction(0), None if most is None else Fraction(most))


def kept_letters(count: Scalar) -> int | None:
    """How many letters a count keeps at most; below 0 it says how many are left out, which is no bound."""
    match count:
        case Constant(int() as most) if most >= 0:
            return most
    return None


def longest(text: Scalar, digits: int = 40) -> int | None:
    """How many letters a text has at most, where that is public; `digits` for numbers without bounds."""
    match text:
        case Constant(value):
            return 0 if value is None else len(str(value))
        case Field(_, domain):
            return None if domain.keys is None else max(len(str(key)) for key in domain.keys)
        case Call("left" | "right" | "substring", (inner, *_, Constant() as count)):
            known, most = longest(inner, digits), kept_letters(count)
            return known if most is None else most if known is None else min(known, most)
        case Call("to text", (inner,)):
            if inner.domain.kind == "integer" and inner.domain.low is None:
                return digits
            return {"integer": 20, "boolean": 5, "date": 10}.get(inner.domain.kind, longest(inner, digits))
        case Call("trim" | "strip" | "nullif" | "split part" | "regexp extract", (inner, *_)):
            return longest(inner, digits)
        case Call("concat", parts):
            lengths = [longest(each, digits) for each in parts]
            return None if None in lengths else sum(each or 0 for each in lengths)
        case Call("case", (*pairs, otherwise)):
            return _most_letters([*pairs[1::2], otherwise], digits)
        case Call("coalesce" | "least" | "greatest", parts):
            return _most_letters(parts, digits)
    return None


def _most_letters(parts: Sequence[Scalar], digits: int) -> int | None:
    lengths = [longest(each, digits) for each in parts]
    return None if None in lengths else max(each or 0 for each in lengths)


def _bucket(x: Scalar, low: Scalar, high: Scalar, count: Scalar) -> Domain:
    if not x.domain.numeric:
        raise Unusable(f"{named(x)} is {x.domain.kind}, not a number", "Use a numeric column.")
    assert isinstance(count, Constant)
    assert isinstance(count.value, int)
    if bounds(low)[0] >= bounds(high)[0] or not 1 <= count.value <= MOST_LISTED - 2:
        told = f"WIDTH_BUCKET takes a low end below the high end, and 1 to {MOST_LISTED - 2} buckets"
        raise Unusable(told, "Write: WIDTH_BUCKET(x, 0, 100, 10)")
    return Domain("integer", Fraction(0), Fraction(count.value + 1))


def _temporal(a: Scalar) -> Domain:
    if a.domain.kind not in ("date", "timestamp"):
        raise Unusable(f"{named(a)} is {a.domain.kind}, not a date", "Use a date or timestamp column.")
    return a.domain


def _part(unit: Scalar, a: Scalar) -> Domain:
    domain = _temporal(a)
    assert isinstance(unit, Constant)
    if unit.value in ("year", "isoyear"):
        more = unit.value == "isoyear"  # of the days around New Year
        since, until = (domain.since or FIRST).year - more, (domain.until or LAST).year + more
        return Domain("integer", Fraction(since), Fraction(until))
    low, high = PARTS[str(unit.value)]
    return Domain("integer", Fraction(low), Fraction(high))


def _trunc(unit: Scalar, a: Scalar) -> Domain:
    domain = _temporal(a)
    assert isinstance(unit, Constant)
    since, until = domain.since or FIRST, domain.until or LAST
    return Domain(domain.kind, since=truncated(str(unit.value), since), until=until)


PER_DAY = {"day": 1, "hour": 24, "minute": 1440, "second": 86400, "microsecond": 86400 * 10**6}
DAYS_IN = {"week": (7, 7), "month": (28, 31), "quarter": (84, 92), "year": (365, 366)}  # at least, at most


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
    fewest, most = DAYS_IN[word]
    low, high = low // (fewest if low < 0 else most) - 1, -(-high // (most if high < 0 else fewest)) + 1
    return Domain("integer", Fraction(low), Fraction(high))


def _moved(unit: Literal["day", "month", "second"]) -> Rule:
    """A date or a moment some time later: it must stay within the calendar."""
    size = 86400 if unit == "second" else 1

    def rule(a: Scalar, by: Scalar) -> Domain:
        domain, (low, high) = _temporal(a), bounds(by)
        if unit == "second" and a.domain.kind != "timestamp":
            raise Unusable("a date has no time of day", "Add days, months or years; or use a timestamp.")
        since, until = domain.since or FIRST, domain.until or LAST
        try:
            ends = [_later(since, math.floor(low / size), unit), _later(until, math.ceil(high / size), unit)]
        except (OverflowError, ValueError):
            ends = []
        if not ends or not FIRST <= ends[0] <= ends[1] <= LAST:
            told = "the result may lie outside of the years 1 to 9999"
            raise Unusable(told, "Let the owner declare bounds of the column: low and high.", _field_of(a))
        return Domain(a.domain.kind, since=ends[0], until=ends[1])

    return rule


def _later(day: datetime.date, count: int, unit: str) -> datetime.date:
    function = "add months" if unit == "month" else "add days"
    found: datetime.date = apply(function, [day, count])
    return found


def _field_of(a: Scalar) -> Field | None:
    inner = a.arguments[0] if isinstance(a, Call) and a.function == "sane" else a
    return inner if isinstance(inner, Field) and inner.domain.since is None else None


def _logarithm(a: Scalar) -> Domain:
    low, high = bounds(a)
    if low <= 0:
        told = f"{named(a)} may be zero or less, so its logarithm has no bounds"
        raise Unusable(told, "Keep it above zero: LN(GREATEST(x, 1)).")
    return _domain("number", _outside(math.log(low), -1), _outside(math.log(high), 1))


def _exponential(a: Scalar) -> Domain:
    low, high = bounds(a)
    if high > 36:
        raise Unusable("the result can be larger than 2^53", "Keep it below 36: EXP(LEAST(x, 30)).")
    return _domain("number", max(_outside(math.exp(low), -1), Fraction(0)), _outside(math.exp(high), 1))


def _power(a: Scalar, b: Scalar) -> Domain:
    (low, high), (power, other) = bounds(a), bounds(b)
    if low < 0 or power != other or power < 0 or power > 64:
        told = "POWER takes a number that is never below zero, and a power from 0 to 64 that is written out"
        raise Unusable(told, "Write for example: POWER(GREATEST(x, 0), 2), or x * x.")
    try:
        ends = [math.pow(float(end), float(power)) for end in (low, high)]
    except OverflowError:
        ends = [0.0, math.inf]
    if ends[1] >= LARGEST:
        raise Unusable("the result can be larger than 2^53", "Narrow it with LEAST(x, ...).")
    return _domain("number", max(_outside(ends[0], -1), Fraction(0)), _outside(ends[1], 1))


def _outside(end: float, direction: int) -> Fraction:
    """A little farther out, by more than engines differ in the last digits."""
    return Fraction(end) + direction * abs(Fraction(end)) / 10**12 + direction * Fraction(1, 10**15)


def _positioned(a: Scalar, b: Scalar) -> Domain:
    _texts(a, b)
    most = longest(a)
    return Domain("integer", Fraction(0), None if most is None else Fraction(most))


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


def _to_decimal(a: Scalar, digits: Scalar) -> Domain:
    if not a.domain.numeric:
        raise Unusable(f"{named(a)} is {a.domain.kind}, not a number", "Cast numbers only.")
    low, high = bounds(a)
    assert isinstance(digits, Constant)
    assert isinstance(digits.value, int)
    ten = 10**digits.value
    low, high = Fraction(math.floor(low * ten), ten), Fraction(math.ceil(high * ten), ten)
    found = replace(_domain("number", low, high), scale=fitting(digits.value, low, high, EXACT))
    if found.scale is None:
        raise Unusable("it has too many digits", "Cast to DOUBLE, or to a DECIMAL with fewer decimals.")
    return found


def _to_text(a: Scalar) -> Domain:
    if a.domain.kind not in ("text", "integer", "boolean", "date"):
        raise Unusable(f"{named(a)} is {a.domain.kind}", "CAST integers, booleans and dates to text.")
    if a.domain.held == "double":
        raise Misread("SQL writes this number with decimals, as '2.0'", "CAST it to INTEGER first.")
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
    "strip": _texts,
    "concat": _joined_texts,
    "substring": _sliced,
    "left": _sliced,
    "right": _sliced,
    "length": _length,
    "split part": _sliced,
    "replace": _texts,
    "position": _positioned,
    "regexp matches": lambda a, *_: replace(_texts(a), kind="boolean"),
    "regexp replace": _sliced,
    "regexp extract": _sliced,
    "ln": _logarithm,
    "exp": _exponential,
    "power": _power,
    "add days": _moved("day"),
    "add months": _moved("month"),
    "add seconds": _moved("second"),
    "part": _part,
    "trunc": _trunc,
    "diff": _difference,
    "to date": _to_date,
    "to timestamp": lambda a: replace(_to_date(a), kind="timestamp"),
    "to number": _to_number,
    "to single": _to_number,
    "to decimal": _to_decimal,
    "to integer": _to_integer,
    "to text": _to_text,
}
