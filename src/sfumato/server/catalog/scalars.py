"""The scalar part of catalog queries: operators, casts and functions, by whitelist.

Values are Python's: int, bool, str, float, list, None for NULL, and `Reg` for an object of the catalog, which
is a number that is shown as a name. What is not known here is refused only when a row asks for it, since most
catalogs are empty and most of what clients write is never evaluated.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import sfumato
from sfumato.errors import Unsupported
from sfumato.server.catalog import catalog as catalogs
from sfumato.server.catalog.values import (
    BOOL,
    CHAR,
    DATE,
    ELEMENT,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    MOST_DIGITS,
    NAME,
    NUMERIC,
    OID,
    REGCLASS,
    REGTYPE,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    TYPES,
    UNKNOWN,
    VARCHAR,
    VOID,
    Reg,
    array_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.server.catalog.catalog import Catalog

LETTERS = frozenset({CHAR, NAME, TEXT, VARCHAR, UNKNOWN, TYPES["bpchar"].oid})
LARGEST_EXPONENT = 400  # of a decimal
BITS = {INT2: 15, INT4: 31, INT8: 63}
NUMBERS = frozenset({INT2, INT4, INT8, OID, REGCLASS, REGTYPE, TYPES["xid"].oid})


def refused(what: str, sqlstate: str = Unsupported.sqlstate) -> Unsupported:
    """Something that catalog queries cannot do here."""
    found = Unsupported(
        f"{what} is not supported in a query about the catalog",
        "The tables and columns are in information_schema.tables and information_schema.columns.",
    )
    found.sqlstate = sqlstate
    return found


def mistaken(told: str, sqlstate: str) -> Unsupported:
    """Something that PostgreSQL, too, refuses, with its code."""
    found = Unsupported(told, "Check the values in the query.")
    found.sqlstate = sqlstate
    return found


# Comparing --------------------------------------------------------------------------------------------


MOMENTS = {datetime.date, datetime.datetime}
_TRUTHS = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}


def _at_midnight(day: datetime.date) -> datetime.datetime:
    is_moment = isinstance(day, datetime.datetime)
    return day if is_moment else datetime.datetime(day.year, day.month, day.day)  # type: ignore[return-value]


def moved(kind: str, x: Any, y: Any) -> Any:
    """A date and a number of days, or two dates; nothing else is computed with moments here."""
    if type(x) is type(y) is datetime.date and kind == "Sub":
        return (x - y).days
    day, days = (x, y) if isinstance(x, datetime.date) else (y, x)
    if type(day) is datetime.date and type(days) is int and (kind == "Add" or (kind == "Sub" and day is x)):
        try:
            return day + datetime.timedelta(days if kind == "Add" else -days)
        except OverflowError:
            pass
    raise refused("computing with these dates or times")


def worded(value: Any) -> str:
    """A value that is made a text: a truth value in full."""
    return str(value).lower() if isinstance(value, bool) else text_of(value)


def sized(value: Any, oid: int, given: list[str]) -> Any:
    """A value cast to a type with sizes: NUMERIC(10, 2), VARCHAR(3)."""
    if value is None:
        return None
    sizes = [int(each) for each in given if each.isascii() and each.isdecimal()]
    if len(sizes) != len(given) or len(sizes) > 2 or max(sizes) > MOST_DIGITS:
        raise refused("this type")
    if oid == NUMERIC and isinstance(value, Decimal) and value.is_finite():
        scale = sizes[1] if len(sizes) > 1 else 0
        found = value.quantize(Decimal(1).scaleb(-min(scale, 100)), ROUND_HALF_UP, Context(prec=1000))
        if abs(found) >= 10 ** (sizes[0] - scale):
            raise mistaken("a value is outside the range of its type", "22003")
        return found
    if oid == VARCHAR and isinstance(value, str):
        return value[: sizes[0]]
    raise refused("a type with a size")


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values in one type, as PostgreSQL would read a literal beside a number or a truth value."""
    if {type(a), type(b)} == MOMENTS:
        a, b = (_at_midnight(each) for each in (a, b))
    if isinstance(a, str) and not isinstance(b, str):
        return _as(a, b), b
    if isinstance(b, str) and not isinstance(a, str):
        return a, _as(b, a)
    if isinstance(a, float) or isinstance(b, float):  # a decimal beside a double is one
        a, b = (float(each) if isinstance(each, Decimal) else each for each in (a, b))
    return a, b


def _as(text: str, other: Any) -> Any:
    if isinstance(other, bool):
        return _TRUTHS.get(text.strip().lower(), text)
    if isinstance(other, Reg):
        return int(text) if text.strip().lstrip("-").isdecimal() else -1 if other.shown != text else other
    if isinstance(other, (int, float, Decimal)):
        try:
            if isinstance(other, Decimal):
                return _plainly(text, NUMERIC)
            return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
        except (ValueError, InvalidOperation):
            return None
    if isinstance(other, list):
        return array(text)
    if isinstance(other, datetime.date):
        try:
            return _plainly(text, TIMESTAMP if isinstance(other, datetime.datetime) else DATE)
        except ValueError:
            raise mistaken(f"{text[:50]!r} is not a date or time", "22007") from None
    return text


def compare(sign: str, a: Any, b: Any) -> bool | None:
    """a sign b; unknown if one of them is."""
    if a is None or b is None:
        return None
    a, b = alike(a, b)
    if a is None or b is None:
        return None
    if sign in ("=", "<>"):
        return bool((a == b) == (sign == "="))
    try:
        return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign])
    except TypeError:
        return compare(sign, text_of(a), text_of(b))


def array(text: str) -> list[str | None]:
    """An array of plain words that is written as text."""
    inner = text.strip()[1:-1]
    words = re.findall(r'"(?:[^"\\]|\\.)*"|[^,]+', inner)
    return [
        re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else None if word == "NULL" else word
        for word in words
    ]


# Casting ----------------------------------------------------------------------------------------------

NAMES = {
    "integer": INT4, "int": INT4, "int4": INT4, "int2": INT2, "smallint": INT2, "int8": INT8, "bigint": INT8,
    "boolean": BOOL, "bool": BOOL, "text": TEXT, "varchar": VARCHAR, "name": NAME, "oid": OID,
    "char": TYPES["bpchar"].oid,
    "float": FLOAT8, "float8": FLOAT8, "double": FLOAT8, "double precision": FLOAT8, "decimal": NUMERIC,
    "numeric": NUMERIC, "date": DATE, "timestamp": TIMESTAMP, "timestamptz": TIMESTAMPTZ,
}  # fmt: skip


def type_named(name: str) -> int:
    """The number of a type that a cast names; text if it is none of ours."""
    if name.removeprefix("pg_catalog.") == '"char"':
        return CHAR
    bare = name.lower().removeprefix("pg_catalog.").strip('"')
    if bare.endswith("[]"):
        return array_of(type_named(bare[:-2]))
    return NAMES.get(bare) or (TYPES[bare].oid if bare in TYPES else TEXT)


def cast(value: Any, oid: int, catalog: Catalog) -> Any:
    """A value as another type."""
    if value is None:
        return None
    kind = next(
        (name for name in ("regclass", "regtype", "regnamespace", "regrole") if TYPES[name].oid == oid), ""
    )
    if kind:
        return _object(value, kind, catalog)
    if oid == TYPES["regproc"].oid:
        if isinstance(value, Reg):
            return value
        return str(value).removeprefix("pg_catalog.")
    if oid in ELEMENT:
        values = array(value) if isinstance(value, str) else value
        return [cast(each, ELEMENT[oid], catalog) for each in values]
    try:
        return _plainly(value, oid)
    except OverflowError:
        raise mistaken(f"a value is outside the range of {catalogs.spoken(oid)}", "22003") from None
    except (ValueError, TypeError, KeyError, InvalidOperation):
        sqlstate = "22007" if oid in (DATE, TIMESTAMP, TIMESTAMPTZ) else "22P02"
        raise mistaken(
            f"{text_of(value)[:50]!r} is not a value of type {catalogs.spoken(oid)}", sqlstate
        ) from None


def _plainly(value: Any, oid: int) -> Any:
    if oid in (INT2, INT4, INT8, OID):
        whole = int(value.strip()) if isinstance(value, str) else _rounded(value)
        if oid in BITS and not -(1 << BITS[oid]) <= whole < 1 << BITS[oid]:
            raise OverflowError
        return whole
    if oid == BOOL:
        return _TRUTHS[value.strip().lower()] if isinstance(value, str) else bool(value)
    if oid == FLOAT8:
        return float(value)
    if oid == NUMERIC:
        number = Decimal(str(value))
        if number.is_finite() and abs(number.adjusted()) > LARGEST_EXPONENT:
            raise ValueError
        return number
    if oid == DATE:
        day = (
            value if isinstance(value, datetime.date) else datetime.datetime.fromisoformat(str(value).strip())
        )
        return day.date() if isinstance(day, datetime.datetime) else day
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        if isinstance(value, datetime.date):
            return _at_midnight(value)
        moment = datetime.datetime.fromisoformat(str(value).strip())
        if oid == TIMESTAMPTZ and moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC)
        return moment.replace(tzinfo=None)
    return worded(value) if oid in LETTERS else value


def _rounded(value: Any) -> int:
    """The nearest integer: a decimal's half goes away from zero, a double's to the even one."""
    if isinstance(value, Decimal):
        return int(value.to_integral_value(ROUND_HALF_UP))
    return round(value) if isinstance(value, float) else int(value)


def quotient(x: Any, y: Any) -> int:
    """x / y without what is behind the point."""
    whole = abs(x) // abs(y)
    return int(whole if (x < 0) == (y < 0) else -whole)


def _object(value: Any, kind: str, catalog: Catalog) -> Reg:
    if isinstance(value, str) and not value.lstrip("-").isdecimal():
        found = catalog.find(kind, value)
        if found is None:
            raise Unsupported(f"there is no {kind.removeprefix('reg')} named {value!r}", "Check its name.")
        return found
    number = int(value)
    return Reg(number, catalog.name_of(kind, number) or ("-" if number == 0 else str(number)))


# Functions --------------------------------------------------------------------------------------------


def _setting(catalog: Catalog, name: Any, missing: Any = False) -> Any:
    found = catalog.settings.get(str(name).lower())
    if found is None and not missing:
        raise Unsupported(f"there is no setting {name!r}", "SHOW ALL lists them.")
    return found


def _allowed(catalog: Catalog, *arguments: Any) -> bool:
    """Reading is allowed, and nothing else is."""
    del catalog
    wanted = {word.strip().upper() for word in str(arguments[-1]).split(",")}
    return bool(wanted & {"SELECT", "USAGE", "CONNECT"})


def _allowed_table(catalog: Catalog, *arguments: Any) -> bool:
    """The same of a table, which must be there."""
    name = arguments[-2] if len(arguments) > 1 else None
    is_ours = not str(name).startswith(("information_schema.", "pg_"))
    if isinstance(name, str) and is_ours and catalog.find("regclass", name) is None:
        raise mistaken(f"there is no table named {name[:50]!r}", "42P01")
    return _allowed(catalog, *arguments)


def _json_object(catalog: Catalog, *pairs: Any) -> str:
    del catalog
    if len(pairs) % 2 or any(each is None for each in pairs[::2]):
        raise mistaken("json_build_object takes pairs of a name and a value", "22023")
    shown = [
        f"{json.dumps(text_of(name), ensure_ascii=False)} : {_json(value)}"
        for name, value in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    return "{" + ", ".join(shown) + "}"


def _json(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(_json(each) for each in value) + "]"
    if isinstance(value, (Decimal, float)) and math.isfinite(value):
        return text_of(value)
    is_plain = value is None or (isinstance(value, int) and not isinstance(value, Reg))
    return json.dumps(value if is_plain else text_of(value), ensure_ascii=False)


def _pretty(catalog: Catalog, size: Any) -> Any:
    del catalog
    return None if size is None else f"{int(size)} bytes"


def _format(catalog: Catalog, text: Any, *values: Any) -> Any:
    del catalog
    if text is None:
        return None
    left = list(values)

    def put(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        value = left.pop(0) if left else None
        shown = "" if value is None else text_of(value)
        return shown if found[0] == "%s" else _quoted(shown) if found[0] == "%I" else f"'{shown}'"

    return re.sub(r"%[%sIL]", put, str(text))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else '"' + name.replace('"', '""') + '"'


def _joined(catalog: Catalog, values: Any, between: Any, missing: Any = None) -> Any:
    del catalog
    if values is None or between is None:
        return None
    shown = [missing if each is None else text_of(each) for each in values]
    return str(between).join(each for each in shown if each is not None)


def _part(catalog: Catalog, text: Any, start: Any = 1, length: Any = None) -> Any:
    del catalog
    if text is None or start is None:
        return None
    first = int(start) - 1
    last = None if length is None else first + int(length)
    return str(text)[max(0, first) : None if last is None else max(0, last)]


def _moment() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def _nothing(*_: Any) -> None:
    return None


def _schemas(catalog: Catalog, implicit: Any = False) -> list[str]:
    del catalog
    return ["pg_catalog", "public"] if implicit else ["public"]


def _is_visible(catalog: Catalog, oid: Any) -> bool:
    """Whether a table is meant by its name alone: those of schemas are not."""
    return "." not in (catalog.name_of("regclass", int(oid)) or "")


def _strict(act: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is unknown where an argument is."""
    return lambda _, *given: None if any(each is None for each in given) else act(*given)


_TEXTS = TYPES["text"].array
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "version": (TEXT, lambda _: f"PostgreSQL {catalogs.VERSION} (Sfumato {sfumato.__version__})"),
    "current_version": (TEXT, lambda _: f"PostgreSQL {catalogs.VERSION} (Sfumato {sfumato.__version__})"),
    "now": (TIMESTAMPTZ, lambda _: _moment()),
    "current_timestamp": (TIMESTAMPTZ, lambda *_: _moment()),
    "current_date": (DATE, lambda _: _moment().date()),
    "current_schema": (NAME, lambda _: "public"),
    "current_schemas": (TYPES["name"].array, _schemas),
    "current_database": (NAME, lambda c: c.database),
    "current_catalog": (NAME, lambda c: c.database),
    "current_user": (NAME, lambda c: c.person),
    "session_user": (NAME, lambda c: c.person),
    "user": (NAME, lambda c: c.person),
    "current_role": (NAME, lambda c: c.person),
    "current_setting": (TEXT, _setting),
    "pg_advisory_unlock_all": (VOID, lambda _: ""),
    "pg_backend_pid": (INT4, lambda _: os.getpid()),
    "pg_is_in_recovery": (BOOL, lambda _: False),
    "format_type": (TEXT, lambda _, oid, *__: None if oid is None else catalogs.spoken(int(oid))),
    "pg_get_userbyid": (NAME, lambda c, oid: c.person if oid == catalogs.OWNER else f"unknown (OID={oid})"),
    "pg_encoding_to_char": (NAME, lambda _, number: "UTF8" if number == 6 else ""),
    "pg_char_to_encoding": (INT4, lambda _, name: 6 if str(name).upper() in ("UTF8", "UTF-8") else -1),
    "getdatabaseencoding": (NAME, lambda _: "UTF8"),
    "to_regtype": (REGTYPE, lambda c, name: None if name is None else c.find("regtype", str(name))),
    "to_regclass": (REGCLASS, lambda c, name: None if name is None else c.find("regclass", str(name))),
    "pg_size_pretty": (TEXT, _pretty),
    "pg_tablespace_location": (TEXT, lambda *_: ""),
    "lower": (TEXT, _strict(lambda text: str(text).lower())),
    "upper": (TEXT, _strict(lambda text: str(text).upper())),
    "length": (INT4, _strict(lambda text: len(str(text)))),
    "replace": (TEXT, _strict(lambda text, old, new: str(text).replace(old, new) if old else text)),
    "quote_ident": (TEXT, _strict(lambda name: _quoted(str(name)))),
    "quote_literal": (TEXT, _strict(lambda text: "'" + str(text).replace("'", "''") + "'")),
    "format": (TEXT, _format),
    "concat": (TEXT, lambda _, *parts: "".join(text_of(each) for each in parts if each is not None)),
    "array_to_string": (TEXT, _joined),
    "array_length": (INT4, _strict(lambda values, _: len(values) or None)),
    "array_upper": (INT4, _strict(lambda values, _: len(values) or None)),
    "array_lower": (INT4, _strict(lambda values, _: 1 if values else None)),
    "cardinality": (INT4, _strict(len)),
    "substring": (TEXT, _part),
    "substr": (TEXT, _part),
    "left": (TEXT, _strict(lambda text, count: str(text)[: int(count)])),
    "trim": (TEXT, _strict(lambda text, signs=" ": str(text).strip(str(signs)) if signs else text)),
    "btrim": (TEXT, _strict(lambda text, signs=" ": str(text).strip(str(signs)) if signs else text)),
    "split_part": (
        TEXT,
        _strict(lambda text, by, n: dict(enumerate(str(text).split(by), 1)).get(int(n), "")),
    ),
    "strpos": (INT4, _strict(lambda text, part: str(text).find(part) + 1)),
    "abs": (INT4, _strict(abs)),
    **dict.fromkeys(
        (
            "has_schema_privilege", "has_database_privilege", "has_column_privilege",
        ),
        (BOOL, _allowed),
    ),
    **dict.fromkeys(("has_table_privilege", "has_any_column_privilege"), (BOOL, _allowed_table)),
    **dict.fromkeys(
        (
            "has_function_privilege", "pg_has_role", "has_sequence_privilege", "pg_relation_is_publishable",
            "has_type_privilege",
        ),
        (BOOL, lambda *_: False),
    ),
    "pg_table_is_visible": (BOOL, _is_visible),
    **dict.fromkeys(
        (
            "pg_type_is_visible", "pg_function_is_visible", "pg_collation_is_visible",
            "pg_opclass_is_visible", "pg_operator_is_visible", "pg_opfamily_is_visible",
            "pg_conversion_is_visible", "pg_statistics_obj_is_visible", "pg_ts_config_is_visible",
        ),
        (BOOL, lambda *_: True),
    ),
    **dict.fromkeys(
        (
            "pg_get_expr", "pg_get_partkeydef", "shobj_description",
            "pg_get_constraintdef", "pg_get_indexdef", "pg_get_viewdef", "pg_get_ruledef",
            "pg_get_functiondef",
            "pg_get_function_arguments", "pg_get_function_result", "pg_get_serial_sequence",
            "pg_get_statisticsobjdef_columns", "inet_server_addr", "pg_get_triggerdef",
            "pg_get_function_identity_arguments",
        ),
        (TEXT, _nothing),
    ),
    **dict.fromkeys(
        (
            "pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_indexes_size",
            "pg_database_size",
            "inet_server_port", "pg_stat_get_numscans", "pg_relation_filenode", "pg_tablespace_size",
        ),
        (INT8, _nothing),
    ),
    "obj_description": (TEXT, lambda c, oid, *_: c.described.get((oid, 0))),
    "col_description": (TEXT, lambda c, oid, place: c.described.get((oid, place))),
    "json_build_object": (TYPES["json"].oid, _json_object),
    "pg_get_keywords": (TEXT, _nothing),
    "array_remove": (_TEXTS, _strict(lambda values, out: [each for each in values if each != out])),
    "array_position": (INT4, _strict(lambda values, one: values.index(one) + 1 if one in values else None)),
}  # fmt: skip
