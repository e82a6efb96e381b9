"""The functions of an expression on single values, in Python: as the engine computes them.

They serve one purpose: where the only column of an expression has few public values, its results are found
by trying all of them, and become public keys. Whatever Python and an engine disagree on is a key that nobody
has: it costs accuracy, never privacy.
"""

from __future__ import annotations

import datetime
import enum
import math
import operator
import re
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Null(enum.Enum):
    """No value."""

    NULL = "NULL"


Outcome = str | int | float | Fraction | datetime.date | Null  # what an expression is on one row
NULL = Null.NULL

DAYS = ("day", "week", "month", "quarter", "year", "dow", "isodow", "doy", "isoyear")
PART_NAMES = {  # of other systems
    "dayofweek": "dow",
    "dayofyear": "doy",
    "dayofmonth": "day",
    **dict.fromkeys(("isoweek", "weekofyear", "weekiso", "iso_week"), "week"),
}
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
PARTS = {
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "week": (1, 53),
    "doy": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


def apply(function: str, values: list[Any]) -> Any:
    """The value of a function on values, NULL among them.

    Decimals are fractions. What SQL does in doubles, and what compares, has them as doubles.
    """
    if function not in _EXACT or any(isinstance(each, float) for each in values):
        values = [float(each) if isinstance(each, Fraction) else each for each in values]
    if function in _WITH_NULLS:
        return _WITH_NULLS[function](*values)
    return NULL if NULL in values else _PLAIN[function](*values)


def _case(*values: Any) -> Any:
    *pairs, otherwise = values
    for condition, value in zip(pairs[0::2], pairs[1::2], strict=True):
        if condition is True:
            return value
    return otherwise


def _and(*values: Any) -> Any:
    return False if any(v is False for v in values) else NULL if NULL in values else True


def _or(*values: Any) -> Any:
    return True if any(v is True for v in values) else NULL if NULL in values else False


def _known(values: tuple[Any, ...]) -> list[Any]:
    return [value for value in values if value is not NULL]


def _in(value: Any, *among: Any) -> Any:
    return NULL if value is NULL else value in among


def _divide(a: float, b: float) -> Any:
    return NULL if b == 0 else float(a) / float(b)


def _whole_divide(a: int, b: int) -> Any:
    if b == 0:
        return NULL
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: int, b: int) -> Any:
    return NULL if b == 0 else int(math.fmod(a, b))


def _round(x: float | Fraction, digits: int) -> Any:
    if isinstance(x, Fraction):
        return Fraction(_away(x * Fraction(10) ** digits)) / Fraction(10) ** digits
    ten = 10.0**digits
    whole = math.floor(abs(x) * ten)
    away = (whole + (abs(x) * ten - whole >= 0.5)) / ten  # half away from zero
    return type(x)(math.copysign(away, x))


def _bucket(x: float, low: float, high: float, count: int) -> int:
    if x < low:
        return 0
    return count + 1 if not x < high else min(count, 1 + math.floor((x - low) * count / (high - low)))


def _concat(*values: str) -> str:
    return "".join(values)


def _substring(text: str, start: int, length: int) -> str:
    return text[start - 1 : start - 1 + length]


def _letters(text: str, change: Callable[[str], str]) -> str:
    """Letter by letter, as engines do it; where one letter becomes several they differ, and none is tried."""
    letters = [change(letter) for letter in text]
    if any(len(letter) != 1 for letter in letters):
        raise ValueError(text)
    return "".join(letters)


def _trimmed(text: str) -> str:
    left = text.strip(" ")
    if any(end.isspace() and not end.isascii() for end in (left[:1], left[-1:])):
        raise ValueError(text)  # which blanks of other scripts go is the engine's own affair
    return left


def _like(text: str, pattern: str) -> bool:
    """Whether a text fits a pattern of % and _. Only the last % is tried again: it takes no longer than the
    product of their lengths.

    >>> _like("a" * 100, "%" * 50 + "x"), _like("abcab", "%a_"), _like("abcab", "_b%b")
    (False, True, True)
    """
    at, place, last, again = 0, 0, -1, 0
    while at < len(text):
        here = pattern[place] if place < len(pattern) else ""
        if here == "%":
            last, again, place = place, at, place + 1
        elif here in ("_", text[at]):
            at, place = at + 1, place + 1
        elif last >= 0:
            again += 1
            at, place = again, last + 1
        else:
            return False
    return not pattern[place:].strip("%")


def truncated(unit: str, moment: datetime.date) -> datetime.date:
    """The start of the unit of time that holds a moment; a timestamp stays one.

    >>> truncated("month", datetime.date(2024, 5, 17))
    datetime.date(2024, 5, 1)
    """
    at = {"year": (1, 1), "quarter": ((moment.month - 1) // 3 * 3 + 1, 1), "month": (moment.month, 1)}
    day = datetime.date(moment.year, moment.month, moment.day)
    if unit in at:
        day = day.replace(month=at[unit][0], day=at[unit][1])
    elif unit == "week":
        day = day - datetime.timedelta(min(day.weekday(), day.toordinal() - 1))
    if not isinstance(moment, datetime.datetime):
        return day
    kept = {"hour": ("hour",), "minute": ("hour", "minute"), "second": ("hour", "minute", "second")}
    names = kept.get(unit, ())
    return datetime.datetime.combine(day, datetime.time(**{name: getattr(moment, name) for name in names}))


def _part(unit: str, moment: datetime.date) -> int:
    if unit in ("hour", "minute", "second"):
        return int(getattr(moment, unit, 0))
    calendar = moment.isocalendar()
    found = {
        "year": moment.year,
        "quarter": (moment.month + 2) // 3,
        "month": moment.month,
        "day": moment.day,
        "dow": calendar.weekday % 7,
        "isodow": calendar.weekday,
        "week": calendar.week,
        "isoyear": calendar.year,
        "doy": moment.timetuple().tm_yday,
    }
    return found[unit]


def _day(moment: datetime.date) -> datetime.date:
    return datetime.date(moment.year, moment.month, moment.day)


def _difference(unit: str, a: datetime.date, b: datetime.date) -> int:
    if unit in ("year", "quarter", "month"):
        size = {"year": 12, "quarter": 3, "month": 1}[unit]
        months = [(x.year * 12 + x.month - 1) // size for x in (a, b)]
        return int(months[1] - months[0])
    if unit == "day":
        return (_day(b) - _day(a)).days
    if unit == "week":  # the first day of the first year was a Monday
        first, second = ((x.toordinal() - 1) // 7 for x in (a, b))
        return second - first
    raise ValueError(unit)


def _add_days(moment: datetime.date, days: int) -> datetime.date:
    return moment + datetime.timedelta(days)


def _add_months(moment: datetime.date, months: int) -> datetime.date:
    """So many months later, on the last day of a month that is too short."""
    whole = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(whole, 12)
    last = (datetime.date(year + month // 11, (month + 1) % 12 + 1, 1) - datetime.timedelta(1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _add_seconds(moment: datetime.datetime, seconds: int) -> datetime.datetime:
    return moment + datetime.timedelta(seconds=seconds)


def _split_part(text: str, by: str, number: int) -> str:
    parts = text.split(by) if by else [text]
    return parts[number - 1] if number <= len(parts) else ""


def _matches(text: str, pattern: str) -> bool:
    return re.search(pattern, text, re.ASCII) is not None


def _replaced(text: str, pattern: str, by: str, everywhere: bool) -> str:
    by = re.sub(r"\\(\d)", r"\\g<\1>", by)  # \0 is all that matches, as engines have it
    return re.sub(pattern, by, text, count=0 if everywhere else 1, flags=re.ASCII)


def _extracted(text: str, pattern: str, group: int) -> str:
    found = re.search(pattern, text, re.ASCII)
    return "" if found is None else found.group(group) or ""


def _to_integer(x: float | Fraction) -> int:
    return round(x) if isinstance(x, float) else _away(Fraction(x))


def _away(x: Fraction) -> int:
    """The nearest whole number, half away from zero."""
    whole = math.floor(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def _to_decimal(x: float | Fraction, digits: int) -> Fraction:
    scaled = Fraction(x * 10.0**digits) if isinstance(x, float) else x * 10**digits
    return Fraction(_away(scaled), 10**digits)


def _single(x: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", float(x)))[0]
    return found


def _to_text(x: Any) -> str:
    return str(x).lower() if isinstance(x, bool) else str(x)


_EXACT = {
    "+",
    "-",
    "*",
    "negate",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "to integer",
    "to decimal",
    "case",
    "coalesce",
    "least",
    "greatest",
    "nullif",
}
_WITH_NULLS: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "is null": lambda x: x is NULL,
    "in": _in,
    "case": _case,
    "coalesce": lambda *values: next(iter(_known(values)), NULL),
    "nullif": lambda a, b: NULL if a is NULL or (b is not NULL and a == b) else a,
    "least": lambda *values: min(_known(values), default=NULL),
    "greatest": lambda *values: max(_known(values), default=NULL),
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "not": operator.not_,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "clamp": lambda x: x,  # only values within the bounds are tried
    "sane": lambda x: x,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": _whole_divide,
    "%": _modulo,
    "negate": operator.neg,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": _round,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else NULL,
    "bucket": _bucket,
    "like": lambda text, pattern: _like(text, pattern),
    "ilike": lambda text, pattern: _like(_letters(text, str.lower), _letters(pattern, str.lower)),
    "starts with": str.startswith,
    "contains": lambda text, part: part in text,
    "lower": lambda text: _letters(text, str.lower),
    "upper": lambda text: _letters(text, str.upper),
    "trim": lambda text: _trimmed(text),
    "strip": lambda text, signs: text.strip(signs) if signs else text,
    "concat": _concat,
    "substring": _substring,
    "left": lambda text, count: text[:count],
    "right": lambda text, count: text[-count:] if count else "",
    "length": len,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "split part": _split_part,
    "position": lambda text, part: text.find(part) + 1,
    "regexp matches": _matches,
    "regexp replace": _replaced,
    "regexp extract": _extracted,
    "ln": lambda x: math.log(x) if x > 0 else NULL,
    "exp": math.exp,
    "power": lambda x, y: math.pow(x, y),
    "add days": _add_days,
    "add months": _add_months,
    "add seconds": _add_seconds,
    "part": _part,
    "trunc": truncated,
    "diff": _difference,
    "to date": _day,
    "to timestamp": lambda day: datetime.datetime(day.year, day.month, day.day),
    "to number": float,
    "to single": _single,
    "to decimal": _to_decimal,
    "to integer": _to_integer,
    "to text": _to_text,
}
