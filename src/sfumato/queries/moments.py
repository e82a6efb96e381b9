"""Reading functions of dates and moments: intervals, differences, ages, and how they are written.

All are made of a few: a date so many days, months or seconds later, differences in units of time, and parts.
What is computed of literals alone is a literal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, Constant, Scalar, constant, evaluate, fields
from sfumato.queries.functions import apply
from sfumato.queries.syntax import Node, bare

if TYPE_CHECKING:
    from sfumato.queries.scopes import RowReader, Scope

_INTERVAL = "this interval is not supported"
_BEYOND = "the result lies outside of the years 1 to 9999"
MOST_UNITS = 1_000_000  # of time, in an interval
_UNITS = {  # how an interval is counted
    "second": ("add seconds", 1),
    "minute": ("add seconds", 60),
    "hour": ("add seconds", 3600),
    "day": ("add days", 1),
    "week": ("add days", 7),
    "month": ("add months", 1),
    "quarter": ("add months", 3),
    "year": ("add months", 12),
}
_MADE = {f"TO_{unit.upper()}S": unit for unit in _UNITS}  # TO_DAYS(n)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NOW = ("NOW", "GETDATE", "SYSDATE", "TODAY", "CURDATE", "GETUTCDATE", "SYSDATETIME")
_CURRENT = ("CurrentDate", "CurrentTimestamp")


def is_interval(node: Node) -> bool:
    """Whether a node is a length of time."""
    node = bare(node)
    if node.kind == "Mul":
        return is_interval(node.this) != is_interval(node.expression)
    return node.kind == "Interval" or _made(node) is not None


def _made(node: Node) -> tuple[str, Node] | None:
    """The unit of TO_DAYS(n) and its kin, and how many."""
    if node.kind == "ToDays":
        return "day", node.this
    if node.kind == "Anonymous" and node.name.upper() in _MADE and len(node.nodes()) == 1:
        return _MADE[node.name.upper()], node.nodes()[0]
    return None


def shifted(reader: RowReader, node: Node, scope: Scope) -> Scalar | None:
    """x + interval, x - interval, date + days; None if it is nothing of the kind."""
    left, right, sign = node.this, node.expression, 1 if node.kind == "Add" else -1
    if sign == 1 and is_interval(left) and not is_interval(right):
        left, right = right, left
    if is_interval(right):
        return later(reader, node, reader.value(left, scope), bare(right), sign, scope)
    parts = [reader.value(each, scope) for each in (left, right)]
    kinds = [each.domain.kind for each in parts]
    if kinds[0] in ("date", "timestamp") and kinds[1] == "integer":
        if kinds[0] == "timestamp":
            reader.text.refuse(node, "a number is added to a timestamp", "Write: x + INTERVAL '1' DAY")
        count = parts[1] if sign == 1 else reader.call(node, "negate", parts[1])
        return _moved(reader, node, "add days", parts[0], count)
    if kinds == ["integer", "date"] and sign == 1:
        return _moved(reader, node, "add days", parts[1], parts[0])
    if sign == -1 and kinds == ["date", "date"]:
        return reader.call(node, "diff", constant("day", "text"), parts[1], parts[0])
    if {"date", "timestamp"} & set(kinds):
        told = "this operation on dates is not supported"
        reader.text.refuse(node, told, "Write: DATE_DIFF('day', earlier, later), or x + INTERVAL '1' DAY")
    return None


def later(reader: RowReader, node: Node, moment: Scalar, interval: Node, sign: int, scope: Scope) -> Scalar:
    """A moment some time later, or earlier."""
    unit, count = _counted(reader, interval, scope)
    function, times = _UNITS[unit]
    if moment.domain.kind == "date" and function == "add seconds":
        if not isinstance(moment, Constant):
            reader.text.refuse(node, "a date has no time of day", "Add days, months or years.")
        moment = reader.as_kind(moment, "timestamp", node)
    if sign * times != 1:
        count = reader.call(node, "*", count, constant(sign * times, "integer"))
    return _moved(reader, node, function, moment, count)


def _counted(reader: RowReader, interval: Node, scope: Scope) -> tuple[str, Scalar]:
    """The unit of an interval, and how many of them it has."""
    if interval.kind == "Mul":
        first, second = (bare(each) for each in (interval.this, interval.expression))
        inner, other = (first, second) if is_interval(first) else (second, first)
        unit, count = _counted(reader, inner, scope)
        factor = reader.value(other, scope)
        if factor.domain.kind != "integer" or factor.domain.held:
            reader.text.refuse(other, "an interval is multiplied by something else", "Use a whole number.")
        return unit, reader.call(interval, "*", factor, count)
    if (made := _made(interval)) is not None:
        return made[0], reader.value(made[1], scope)
    reader.text.allow(interval, above=True)
    named = interval.get("unit")
    unit = "" if named is None else named.name.lower().rstrip("s")
    given = bare(interval.this)
    told = re.fullmatch(r"(-?)\s*([0-9]{1,7})", given.text()) if given.kind == "Literal" else None
    if unit not in _UNITS:
        reader.text.refuse(
            interval, "this interval is not supported", "Write for example: INTERVAL '3' MONTH"
        )
    if told is not None and int(told[2]) <= MOST_UNITS:
        return unit, constant(int(told[2]) * (-1 if told[1] else 1), "integer")
    if told is None and given.kind != "Literal":
        return unit, reader.value(given, scope)
    return reader.text.refuse(
        interval, "this interval is not supported", "Write for example: INTERVAL '3' MONTH"
    )


def _moved(reader: RowReader, node: Node, function: str, moment: Scalar, count: Scalar) -> Scalar:
    if isinstance(count, Call) and not fields(count):
        count = constant(evaluate(count, None), "integer")  # type: ignore[arg-type]  # a whole number
    if isinstance(moment, Constant) and isinstance(moment.value, str):
        kind = "date" if re.fullmatch(r"\d{4}-\d\d-\d\d", moment.value) else "timestamp"
        moment = reader.as_kind(moment, kind, node)  # type: ignore[arg-type]  # one of them
    if isinstance(moment, Constant) and isinstance(count, Constant):
        try:
            found = apply(function, [moment.value, count.value])
        except (OverflowError, ValueError):
            reader.text.refuse(
                node, "the result lies outside of the years 1 to 9999", "Take a shorter interval."
            )
        return constant(found, moment.domain.kind)
    return reader.call(node, function, moment, count)


def today(reader: RowReader, node: Node) -> Scalar | None:
    """CURRENT_DATE and its kin, all cut to the day on which the question is asked; None for other nodes."""
    is_now = node.kind in _CURRENT or (
        node.kind == "Anonymous" and node.name.upper() in _NOW and not node.nodes()
    )
    if not is_now:
        return None
    if reader.text.today is None:
        reader.text.refuse(node, "the current date is not known here", "Write the date: DATE '2024-01-31'")
    reader.text.days.append(reader.text.today)
    return constant(reader.text.today, "date")


# Ages ----------------------------------------------------------------------------------------------------


def age(reader: RowReader, node: Node, unit: str, parts: list[Node], scope: Scope) -> Scalar:
    """EXTRACT(unit FROM AGE(later, earlier)): full years, or the full months beyond them."""
    values = [reader.value(each, scope) for each in parts]
    if len(values) == 1:
        values = [_today(reader, node), *values]
    if unit not in ("year", "month") or any(each.domain.kind != "date" for each in values):
        told = "only full years or months can be extracted from AGE"
        reader.text.refuse(node, told, "Write: EXTRACT(YEAR FROM AGE(a, b)), or DATE_DIFF('day', b, a)")
    months = full_months(reader, node, *values)
    return reader.call(node, "//" if unit == "year" else "%", months, constant(12, "integer"))


def _today(reader: RowReader, node: Node) -> Scalar:
    found = today(reader, Node("CurrentDate", {}, node.start, node.end))
    assert found is not None
    return found


def apart(reader: RowReader, node: Node, unit: str, spent: Node, scope: Scope) -> Scalar | None:
    """EXTRACT(EPOCH FROM a - b), DATE_PART('day', a - b), of two moments; None if it is something else."""
    if spent.kind != "Sub" or is_interval(spent.expression) or unit not in ("epoch", "day", "hour"):
        return None
    later_, earlier = (reader.value(each, scope) for each in (spent.this, spent.expression))
    if {later_.domain.kind, earlier.domain.kind} != {"timestamp"}:
        return None
    apart_ = reader.call(node, "diff", constant("microsecond", "text"), earlier, later_)
    if unit == "epoch":
        return reader.call(node, "/", apart_, constant(10**6, "integer"))
    seconds = {"day": 86400, "hour": 3600}[unit]
    found = reader.call(node, "//", apart_, constant(seconds * 10**6, "integer"))
    return found if unit == "day" else reader.call(node, "%", found, constant(24, "integer"))


def length(reader: RowReader, node: Node, scope: Scope) -> Scalar:
    """One moment less another, in microseconds: what is compared with an interval."""
    values = [reader.value(each, scope) for each in (node.this, node.expression)]
    kinds = {each.domain.kind for each in values}
    if not kinds <= {"date", "timestamp"} or "timestamp" not in kinds:
        told = "two dates differ by days, not by an interval"
        reader.text.refuse(node, told, "Compare dates in days: a - b <= 30; or DATE_DIFF('day', b, a) <= 30")
    later_, earlier = (
        each if each.domain.kind == "timestamp" else reader.call(node, "to timestamp", each)
        for each in values
    )
    return reader.call(node, "diff", constant("microsecond", "text"), earlier, later_)


def full_months(reader: RowReader, node: Node, a: Scalar, b: Scalar) -> Scalar:
    """How many full months lie between two dates; negative if the first is the earlier one."""

    def call(function: str, *arguments: Scalar) -> Scalar:
        return reader.call(node, function, *arguments)

    def part(unit: str, of: Scalar) -> Scalar:
        return call("part", constant(unit, "text"), of)

    one, zero = constant(1, "integer"), constant(0, "integer")
    apart = call("diff", constant("month", "text"), b, a)
    short = call("<", part("day", a), part("day", b))
    beyond = call(">", part("day", a), part("day", b))
    forwards = call("-", apart, call("case", short, one, zero))
    backwards = call("+", apart, call("case", beyond, one, zero))
    return call("case", call(">=", a, b), forwards, backwards)


# How they are written ------------------------------------------------------------------------------------

_STRFTIME = {
    "%Y": "year4", "%m": "month2", "%d": "day2", "%H": "hour2", "%M": "minute2", "%S": "second2",
    "%y": "year2", "%B": "monthname", "%b": "month3", "%A": "dayname", "%a": "day3", "%j": "doy3",
    "%-d": "day", "%-m": "month", "%%": "%", "%Q": "quarter",
}  # fmt: skip


def written(reader: RowReader, node: Node, moment: Scalar, form: Node) -> Scalar:
    """STRFTIME(x, '%Y-%m'): a date or a moment as a text."""
    given = bare(form)
    if given.kind != "Literal" or not given.arguments.get("is_string"):
        reader.text.refuse(
            form, "the format is not a string literal", "Write for example: STRFTIME(x, '%Y-%m')"
        )
    if "\0" in given.text():
        reader.text.refuse(form, "that text holds a zero byte", "Remove it.")
    if moment.domain.kind not in ("date", "timestamp"):
        reader.text.refuse(node, f"this is {moment.domain.kind}, not a date", "Format dates and timestamps.")
    parts: list[Scalar] = []
    for piece in re.findall(r"%-?.|[^%]+|%", given.text()):
        made = _STRFTIME.get(piece)
        if piece.startswith("%") and made is None:
            known = " ".join(_STRFTIME)
            reader.text.refuse(form, f"the format {piece} is not supported", f"Use: {known}")
        is_plain = made is None or made == "%"
        parts.append(
            constant(made or piece, "text") if is_plain else _piece(reader, node, made or "", moment)
        )
    if not parts:
        return constant("", "text")
    return parts[0] if len(parts) == 1 else reader.call(node, "concat", *parts)


def _piece(reader: RowReader, node: Node, made: str, moment: Scalar) -> Scalar:
    def call(function: str, *arguments: Scalar) -> Scalar:
        return reader.call(node, function, *arguments)

    def part(unit: str) -> Scalar:
        return call("part", constant(unit, "text"), moment)

    names = {"monthname": _MONTHS, "month3": [m[:3] for m in _MONTHS], "dayname": _WEEKDAYS}
    names["day3"] = [day[:3] for day in _WEEKDAYS]
    if made in names:
        number, first = (part("month"), 1) if made.startswith("month") else (part("dow"), 0)
        listed = [constant(name, "text") for name in names[made]]
        pairs: list[Scalar] = []
        for i, name in enumerate(listed):
            pairs += [call("=", number, constant(first + i, "integer")), name]
        return call("case", *pairs, constant(None, "text"))
    unit, width = (made[:-1], int(made[-1])) if made[-1].isdigit() else (made, 0)
    told = call("to text", part(unit))
    if not width:
        return told
    padded = call("concat", constant("0" * (width - 1), "text"), told)
    return call("right", padded, constant(width, "integer"))


def monthname(reader: RowReader, node: Node, scope: Scope, made: str) -> Scalar:
    """MONTHNAME(x), DAYNAME(x)."""
    moment = reader.value(node.this, scope)
    if moment.domain.kind not in ("date", "timestamp"):
        reader.text.refuse(node, f"this is {moment.domain.kind}, not a date", "Use a date or a timestamp.")
    return _piece(reader, node, made, moment)


def last_day(reader: RowReader, node: Node, scope: Scope) -> Scalar:
    """LAST_DAY(x): of its month."""
    moment = reader.value(node.this, scope)
    day = moment if moment.domain.kind == "date" else reader.call(node, "to date", moment)
    first = reader.call(node, "trunc", constant("month", "text"), day)
    following = _moved(reader, node, "add months", first, constant(1, "integer"))
    return _moved(reader, node, "add days", following, constant(-1, "integer"))
