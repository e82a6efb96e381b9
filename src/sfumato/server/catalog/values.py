"""Values on the wire: PostgreSQL's types, and how they are written as text and as bytes."""

from __future__ import annotations

import datetime
import json
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter
from sfumato.queries.measures import Distinct, Moments, PersonCount, Sum
from sfumato.queries.shown import Weighted, Within

if TYPE_CHECKING:
    from sfumato.queries.parameters import Given
    from sfumato.queries.plan import Plan
    from sfumato.queries.shown import Expression

EPOCH = datetime.datetime(2000, 1, 1)
MOST_DIGITS = 1000  # digits of a number
BEYOND_INTEGERS = 1 << 63  # what an integer of 64 bits is below
SURE = 1 << 31  # a column within this adds up to fewer than 2^63 over four thousand million rows
BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, REGPROC, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 24, 25, 26
FLOAT4, FLOAT8, UNKNOWN, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ = 700, 701, 705, 1043, 1082, 1114, 1184
NUMERIC, REGCLASS, REGTYPE, VOID, REGROLE, REGNAMESPACE = 1700, 2205, 2206, 2278, 4096, 4089


@dataclass(frozen=True, slots=True)
class Type:
    """A type of PostgreSQL's: facts of its catalog."""

    name: str
    oid: int
    array: int
    size: int
    category: str
    spoken: str  # as format_type writes it
    collation: int = 0


TYPES = {
    each.name: each
    for each in (
        Type("bool", 16, 1000, 1, "B", "boolean"),
        Type("bytea", 17, 1001, -1, "U", "bytea"),
        Type("char", 18, 1002, 1, "Z", '"char"'),
        Type("name", 19, 1003, 64, "S", "name", 950),
        Type("int8", 20, 1016, 8, "N", "bigint"),
        Type("int2", 21, 1005, 2, "N", "smallint"),
        Type("int2vector", 22, 1006, -1, "A", "int2vector"),
        Type("int4", 23, 1007, 4, "N", "integer"),
        Type("regproc", 24, 1008, 4, "N", "regproc"),
        Type("text", 25, 1009, -1, "S", "text", 100),
        Type("oid", 26, 1028, 4, "N", "oid"),
        Type("tid", 27, 1010, 6, "U", "tid"),
        Type("xid", 28, 1011, 4, "U", "xid"),
        Type("oidvector", 30, 1013, -1, "A", "oidvector"),
        Type("json", 114, 199, -1, "U", "json"),
        Type("pg_node_tree", 194, 0, -1, "Z", "pg_node_tree", 100),
        Type("float4", 700, 1021, 4, "N", "real"),
        Type("float8", 701, 1022, 8, "N", "double precision"),
        Type("unknown", 705, 0, -2, "X", "unknown"),
        Type("aclitem", 1033, 1034, 16, "U", "aclitem"),
        Type("bpchar", 1042, 1014, -1, "S", "character", 100),
        Type("varchar", 1043, 1015, -1, "S", "character varying", 100),
        Type("date", 1082, 1182, 4, "D", "date"),
        Type("time", 1083, 1183, 8, "D", "time without time zone"),
        Type("timestamp", 1114, 1115, 8, "D", "timestamp without time zone"),
        Type("timestamptz", 1184, 1185, 8, "D", "timestamp with time zone"),
        Type("interval", 1186, 1187, 16, "T", "interval"),
        Type("numeric", 1700, 1231, -1, "N", "numeric"),
        Type("regclass", 2205, 2210, 4, "N", "regclass"),
        Type("regtype", 2206, 2211, 4, "N", "regtype"),
        Type("record", 2249, 2287, -1, "P", "record"),
        Type("anyarray", 2277, 0, -1, "P", "anyarray"),
        Type("void", 2278, 0, 4, "P", "void"),
        Type("uuid", 2950, 2951, 16, "U", "uuid"),
        Type("jsonb", 3802, 3807, -1, "U", "jsonb"),
        Type("regnamespace", 4089, 4090, 4, "N", "regnamespace"),
        Type("regrole", 4096, 4097, 4, "N", "regrole"),
    )
}
BY_OID = {each.oid: each for each in TYPES.values()}
ELEMENT = {each.array: each.oid for each in TYPES.values() if each.array}
OF_KIND: dict[str, int] = {
    "integer": INT8,
    "number": FLOAT8,
    "text": TEXT,
    "boolean": BOOL,
    "date": DATE,
    "timestamp": TIMESTAMP,
}


KIND_OF: dict[int, str] = {oid: kind for kind, oid in OF_KIND.items()}


def array_of(oid: int) -> int:
    """The type of arrays of a type; of texts if there is none."""
    return BY_OID[oid].array if oid in BY_OID and BY_OID[oid].array else TYPES["text"].array


@dataclass(frozen=True, slots=True)
class ResultField:
    """A column of a result."""

    name: str
    oid: int
    end: int = 0  # of an interval: -1 the lower, 1 the upper


# Columns of a release ---------------------------------------------------------------------------------


def fields(plan: Plan, *, intervals: bool) -> list[ResultField]:
    """Names and types of the columns of a release: from the plan, before anything is run."""
    found: list[ResultField] = []
    for column in plan.columns:
        is_whole = column.expression is not None and _is_whole(column.expression, plan)
        oid = INT8 if is_whole and column.has_interval else OF_KIND.get(column.kind, TEXT)
        found.append(ResultField(column.name, oid))
        if intervals and column.has_interval:
            found += [ResultField(f"{column.name}_low", oid, -1), ResultField(f"{column.name}_high", oid, 1)]
    return found


def _is_whole(expression: Expression, plan: Plan) -> bool:
    """Whether it is always a whole number, and far from the end of 64 bits: a count, or a sum of integers.

    Where people are scaled down, counts are on a finer grid, and are shown as they are at every door.
    """
    if isinstance(expression, Within):
        expression = expression.total
    if not isinstance(expression, Weighted) or not expression.terms:
        return False
    if any(weight.denominator != 1 for weight, _ in expression.terms):
        return False
    for _, released in expression.terms:
        match plan.measures[released.measure]:
            case Moments(degree=0) | PersonCount() | Distinct():
                continue
            case Sum(value, clamp) if value.domain.kind == "integer" and clamp.exponent == 0:
                if max(abs(clamp.low), abs(clamp.high)) > SURE:
                    return False
            case _:
                return False
    return True


def whole(value: float | int, end: int) -> int:
    """A number as an integer: rounded to the nearest, or away from the middle if it is an end."""
    if math.isinf(value):
        return BEYOND_INTEGERS - 1 if value > 0 else -BEYOND_INTEGERS
    found = round(value) if end == 0 else math.floor(value) if end < 0 else math.ceil(value)
    return max(-BEYOND_INTEGERS, min(BEYOND_INTEGERS - 1, found))


def fitted(row: dict[str, Any], columns: list[ResultField]) -> list[Any]:
    """A row of a release as values of the types of its columns."""
    found = []
    for field in columns:
        value = row[field.name]
        if field.oid == INT8 and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = whole(value, field.end)
        elif field.oid == FLOAT8 and value is not None:
            value = _float(value)
        found.append(value)
    return found


def _float(value: float | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# Writing ----------------------------------------------------------------------------------------------


class Reg(int):
    """An object of the catalog: a number that is shown as a name."""

    shown: str

    def __new__(cls, oid: int, shown: str) -> Reg:
        made = super().__new__(cls, oid)
        made.shown = shown
        return made


def as_text(value: Any, oid: int) -> bytes:
    """A value as text, as PostgreSQL writes it."""
    return text_of(value, oid).encode("utf-8", "replace")


def text_of(value: Any, oid: int = TEXT) -> str:
    """The same as a string.

    >>> text_of(True), text_of([1, None]), text_of(39481.0)
    ('t', '{1,NULL}', '39481')
    """
    if isinstance(value, Reg):
        return value.shown if oid != OID else str(int(value))
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, list):
        if oid in (TYPES["int2vector"].oid, TYPES["oidvector"].oid):
            return " ".join(str(each) for each in value)
        return "{" + ",".join(_element(each, ELEMENT.get(oid, TEXT)) for each in value) + "}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ") + ("+00" if oid == TIMESTAMPTZ else "")
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _element(value: Any, oid: int) -> str:
    if value is None:
        return "NULL"
    text = text_of(value, oid)
    plain = text and text.lower() != "null" and not set(text) & set('{}",\\ \t\n')
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_bytes(value: Any, oid: int) -> bytes:
    """A value in the binary format of its type."""
    match oid:
        case 16:
            return b"\1" if value else b"\0"
        case 20:
            return struct.pack("!q", int(value))
        case 21:
            return struct.pack("!h", int(value))
        case 23:
            return struct.pack("!i", int(value))
        case 26 | 28 | 24 | 2205 | 2206 | 4089 | 4096:
            return struct.pack("!I", int(value) if isinstance(value, int) else 0)
        case 700:
            return struct.pack("!f", value)
        case 701:
            return struct.pack("!d", value)
        case 1082:
            return struct.pack("!i", (value - EPOCH.date()).days)
        case 1114 | 1184:
            return struct.pack(
                "!q", (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
            )
        case 1700:
            return _numeric_bytes(Decimal(str(value)))
    if oid in ELEMENT and isinstance(value, list):
        return _array_bytes(value, ELEMENT[oid])
    return as_text(value, oid)


def _array_bytes(values: list[Any], oid: int) -> bytes:
    has_null = any(each is None for each in values)
    if not values:
        return struct.pack("!iiI", 0, 0, oid)
    head = struct.pack("!iiIii", 1, int(has_null), oid, len(values), 1)
    parts = [None if each is None else as_bytes(each, oid) for each in values]
    return head + b"".join(sized(part) for part in parts)


def sized(part: bytes | None) -> bytes:
    """A value with its length before it; NULL has the length -1."""
    return b"\xff\xff\xff\xff" if part is None else struct.pack("!i", len(part)) + part


def _numeric_bytes(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return struct.pack("!HhHH", 0, 0, 0xC000, 0)
    scale = max(0, -exponent)
    number = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent)
    pad = -scale % 4
    number *= 10**pad
    groups: list[int] = []
    while number:
        number, group = divmod(number, 10000)
        groups.insert(0, group)
    weight = len(groups) - (scale + pad) // 4 - 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!hhHH", len(groups), weight if groups else 0, 0x4000 if sign else 0, scale)
    return head + b"".join(struct.pack("!h", group) for group in groups)


# Reading ----------------------------------------------------------------------------------------------


def read(content: bytes, oid: int, *, binary: bool) -> Any:
    """A value that a client sent."""
    try:
        return _from_bytes(content, oid) if binary else _from_text(content.decode(), oid)
    except (ValueError, struct.error, OverflowError, InvalidOperation):
        known = BY_OID.get(ELEMENT.get(oid, oid))
        name = f"type {oid}" if known is None else known.spoken + ("[]" if oid in ELEMENT else "")
        problem = f"a parameter cannot be read as {name}"
        raise InvalidParameter("parameters", None, "send a value of that type", problem=problem) from None


def _from_text(text: str, oid: int) -> Any:
    match oid:
        case 16:
            if text.lower() not in _BOOLEAN:
                raise ValueError
            return _BOOLEAN[text.lower()]
        case 20 | 21 | 23 | 26:
            return int(text)
        case 700 | 701:
            return _finite(float(text))
        case 1700:
            number = Decimal(text)
            if not number.is_finite() or max(len(text), abs(number.adjusted())) > MOST_DIGITS:
                raise ValueError
            return number
        case 1082:
            day, _, time = text.replace("T", " ").partition(" ")
            if re.search(r"[1-9]", re.split(r"[Z+-]", time)[0]):  # it would be lost
                raise ValueError
            return datetime.date.fromisoformat(day)
        case 1114:  # without a zone: one that is given does not count
            return datetime.datetime.fromisoformat(_rounded(text)).replace(tzinfo=None)
        case 1184:
            moment = datetime.datetime.fromisoformat(_rounded(text))
            return (moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)).replace(tzinfo=None)
    return _array(text, ELEMENT[oid]) if oid in ELEMENT else text


def _rounded(text: str) -> str:
    """A moment of at most six decimals of a second: more would be rounded by PostgreSQL, and cut here."""
    if re.search(r"\.\d{7,}", text):
        raise ValueError(text)
    return text.strip()


_BOOLEAN = {
    **dict.fromkeys(("t", "true", "1", "on", "yes", "y"), True),
    **dict.fromkeys(("f", "false", "0", "off", "no", "n"), False),
}


_ELEMENT = re.compile(
    r'(?:\s*+"((?:[^"\\]|\\.)*+)"\s*+|((?:[^",{}\\]|\\.)*+))([,}])', re.DOTALL
)  # possessive: it never looks back


def _array(text: str, oid: int) -> list[Any]:
    """The elements of an array that is written as text; arrays of arrays are none of ours."""
    text = text.strip()
    if oid == BYTEA:  # of which no question is
        raise ValueError
    if re.fullmatch(r"\{\s*\}", text):
        return []
    found: list[Any] = []
    place, mark = 1, "," if text.startswith("{") else ""
    while mark == ",":
        if (element := _ELEMENT.match(text, place)) is None:
            raise ValueError
        quoted, bare, mark = element.groups()
        if quoted is None and not bare.strip():
            raise ValueError
        is_null = quoted is None and bare.strip().upper() == "NULL"
        word = re.sub(r"\\(.)", r"\1", bare.strip() if quoted is None else quoted, flags=re.DOTALL)
        found.append(None if is_null else _from_text(word, oid))
        place = element.end()
    if not found or place != len(text):
        raise ValueError
    return found


def _from_bytes(content: bytes, oid: int) -> Any:
    match oid:
        case 16:
            return content != b"\0"
        case 20:
            return struct.unpack("!q", content)[0]
        case 21:
            return struct.unpack("!h", content)[0]
        case 23:
            return struct.unpack("!i", content)[0]
        case 26:
            return struct.unpack("!I", content)[0]
        case 700:
            return _finite(struct.unpack("!f", content)[0])
        case 701:
            return _finite(struct.unpack("!d", content)[0])
        case 1082:
            return EPOCH.date() + datetime.timedelta(days=struct.unpack("!i", content)[0])
        case 1114 | 1184:
            return EPOCH + datetime.timedelta(microseconds=struct.unpack("!q", content)[0])
        case 1700:
            return _numeric(content)
    if oid in ELEMENT:
        return _array_from(content)
    if oid in (0, CHAR, NAME, TEXT, UNKNOWN, VARCHAR, TYPES["bpchar"].oid):
        return content.decode()
    raise ValueError


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError
    return value


def _numeric(content: bytes) -> Decimal:
    count, weight, sign, _ = struct.unpack("!hhHH", content[:8])
    many = not 0 <= count <= MOST_DIGITS // 4
    if sign not in (0, 0x4000) or many or len(content) != 8 + 2 * count or abs(weight) > 100:
        raise ValueError
    groups = struct.unpack(f"!{count}h", content[8:])
    value = sum(
        (Decimal(group) * Decimal(10000) ** (weight - n) for n, group in enumerate(groups)), Decimal(0)
    )
    return -value if sign else value


def _array_from(content: bytes) -> list[Any]:
    dimensions, _, oid = struct.unpack("!iiI", content[:12])
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError
    (count,) = struct.unpack("!i", content[12:16])
    if oid in ELEMENT or not 0 <= count <= len(content):
        raise ValueError
    found, place = [], 20
    for _ in range(count):
        (size,) = struct.unpack("!i", content[place : place + 4])
        place += 4
        if place + size > len(content):
            raise ValueError
        found.append(None if size < 0 else _from_bytes(content[place : place + size], oid))
        place += max(size, 0)
    if place != len(content):
        raise ValueError
    return found


def plain(value: Any) -> Given:
    """A value as a question can take it."""
    if value is None or isinstance(value, (str, int, float, Decimal, datetime.date)):
        return value
    if isinstance(value, (list, tuple)) and not any(isinstance(each, (list, tuple)) for each in value):
        return tuple(plain(each) for each in value)
    told = "a question takes texts, numbers, booleans, dates, timestamps and lists of these"
    raise InvalidParameter("parameters", "a value", told)
