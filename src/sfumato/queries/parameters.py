"""Values that come beside the text: $1, $2, ...

A value is put into the text as a literal of its type before the text is read. The text is the analyst's own,
read by whitelist like any other, so this adds nothing that she could not have typed.
"""

from __future__ import annotations

import datetime
import math
import numbers
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter, QueryRefused, SyntaxRefused
from sfumato.queries.lexing import signs
from sfumato.queries.sql import tree
from sfumato.queries.syntax import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.queries.declared import DeclaredColumn, Kind, Value
    from sfumato.queries.policy import Policy
    from sfumato.queries.syntax import Node

    Given = Value | Decimal | Sequence["Given"] | None

MOST_PARAMETERS = 1000


def count(sql: str) -> int:
    """How many values the text asks for: the highest number after a dollar sign.

    >>> count("SELECT COUNT(*) FROM visits WHERE age > $2 AND ward = '$7'")
    2
    """
    if "$" not in sql:
        return 0
    most = max((number for number, _, _ in values_of(sql)), default=0)
    if most > MOST_PARAMETERS:
        raise SyntaxRefused(
            f"${most} is beyond the last value there can be", f"Use at most ${MOST_PARAMETERS}.", sql=sql
        )
    return most


def bind(sql: str, values: Sequence[Given]) -> str:
    """The text with its values in place. A list stands in = ANY ($1), or in <> ALL ($1).

    >>> bind("SELECT COUNT(*) FROM visits WHERE age > $1 AND ward = $2", (30, "St. Mary's"))
    "SELECT COUNT(*) FROM visits WHERE age > 30 AND ward = 'St. Mary''s'"
    >>> bind("SELECT COUNT(*) FROM visits WHERE ward = ANY ($1)", (["A", "B"],))
    "SELECT COUNT(*) FROM visits WHERE ward = ANY (ARRAY['A', 'B'])"
    """
    if isinstance(values, (str, bytes)):
        raise InvalidParameter("parameters", values, "give a list of values: [...]")
    if (wanted := count(sql)) < len(values):
        told = f"the text has places for {wanted}" if wanted else "write $1, $2, ... where the values go"
        raise InvalidParameter("parameters", len(values), told)
    for number, start, end in values_of(sql):
        if number == 0:
            raise SyntaxRefused("$0 is no value", "The first one is $1.", sql=sql, span=(start, end))
        if number > len(values):
            advice = "Give it (parameters=[...]), or write the value itself."
            raise SyntaxRefused(f"${number} has no value", advice, sql=sql, span=(start, end))
    return replaced(sql, lambda number: literal(values[number - 1]))


def values_of(sql: str) -> list[tuple[int, int, int]]:
    """The numbers of all values in a text, and where they stand."""
    return [(int(sql[start + 1 : end]), start, end) for sign, start, end in signs(sql) if sign == "value"]


def replaced(sql: str, put: Callable[[int], str]) -> str:
    """The text with something in the place of each value."""
    parts, place = [], 0
    for number, start, end in values_of(sql):
        parts += [sql[place:start], put(number)]
        place = end
    return "".join([*parts, sql[place:]])


def literal(value: Given) -> str:
    """A value as SQL.

    >>> literal(-5), literal(True), literal(datetime.date(2024, 1, 31))
    ('(-5)', 'TRUE', "DATE '2024-01-31'")
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC)
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case list() | tuple():
            if any(isinstance(each, (list, tuple)) for each in value):
                raise InvalidParameter("parameters", "a list of lists", "give a list of values")
            return f"ARRAY[{', '.join(map(literal, value))}]"
    text = format(_number(value), "f")
    return f"({text})" if text.startswith("-") else text


def _number(value: object) -> Decimal:
    """A number of any kind, also numpy's, in decimal."""
    if isinstance(value, numbers.Integral):
        if abs(int(value)) >= 10**38:
            raise InvalidParameter("parameters", "a huge number", "no column holds so many digits")
        return Decimal(int(value))
    if not isinstance(value, (numbers.Real, Decimal)):
        told = "give texts, numbers, truth values, dates, timestamps, None, or lists of those"
        raise InvalidParameter("parameters", type(value).__name__, told)
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise InvalidParameter("parameters", value, "give a finite number")
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))


def kinds(sql: str, policy: Policy) -> list[Kind]:
    """Of which kind each value probably is, from what stands beside it; text where nothing tells.

    For clients that ask before they send.
    """
    found: dict[int, Kind] = {}
    for node, nodes in _places(sql):
        kind = _kind(node, nodes, policy)
        for each in nodes:
            if _is_value(each):
                found.setdefault(int(each.name), kind)
    return [found.get(n + 1, "text") for n in range(count(sql))]


def lists(sql: str) -> set[int]:
    """The numbers of the values that are lists: those in ANY ($1) or ALL ($1).

    >>> lists("SELECT COUNT(*) FROM visits WHERE ward = ANY ($1) AND age > $2")
    {1}
    """
    inside = [_inside(node) for node, _ in _places(sql) if _is_any(node)]
    return {int(each.name) for each in inside if _is_value(each)}


def read(sql: str, dialect: str = "duckdb") -> Node:
    """The tree of a text whose values are still to come: each is a node of the kind Placeholder.

    The parser takes $1,$ for the beginning of a quoted text, so it is given names instead.
    """
    if _NAME in sql.lower():
        raise SyntaxRefused(f"names cannot begin with {_NAME}", "Take another name.", sql=sql)
    found = tree(replaced(sql, lambda number: f" {_NAME}{number} "), dialect)
    for node in found.walk():
        if node.kind == "Column" and node.name.startswith(_NAME):
            node.kind, node.arguments = "Placeholder", {"this": node.name.removeprefix(_NAME)}
    return found


_NAME = "sfumato_value_"


def _is_value(node: Node) -> bool:
    """Whether it is $1; others, such as ? or :name, are refused by whoever reads the question."""
    return node.kind == "Placeholder" and node.name.isdecimal()


def _places(sql: str) -> list[tuple[Node, list[Node]]]:
    """Every node of a text and its parts; none if it cannot be read, which whoever binds it will say."""
    try:
        return [(node, _parts(node)) for node in read(sql).walk()]
    except (QueryRefused, Missing):
        return []


def place(sql: str, values: Sequence[Given], at: int) -> int:
    """Where something stands in a text that stands so far in it with its values in place.

    >>> place("SELECT $1 AND x", (True,), 16)
    14
    """
    shift = 0
    for number, start, end in values_of(sql):
        if start + shift < at:
            grown = len(literal(values[number - 1])) - (end - start)
            shift += min(grown, at - start - shift)
    return at - shift


_CASTS: dict[str, Kind] = {
    "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp", "BOOLEAN": "boolean",
    "TEXT": "text",
    "VARCHAR": "text", "INT": "integer", "BIGINT": "integer", "SMALLINT": "integer", "DOUBLE": "number",
    "FLOAT": "number", "DECIMAL": "number",
}  # fmt: skip


_COMPARING = (
    "EQ",
    "NEQ",
    "LT",
    "LTE",
    "GT",
    "GTE",
    "In",
    "Between",
    "Coalesce",
    "Nullif",
    "Least",
    "Greatest",
)
_COUNTING = ("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Neg")


def _parts(node: Node) -> list[Node]:
    values = node.arguments.values()
    parts = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [below for each in parts if not isinstance(each, (str, bool)) for below in _listed(each)]


def _is_any(node: Node) -> bool:
    return node.kind == "Any" or (node.kind in ("All", "Anonymous") and node.name.upper() == "ALL")


def _inside(node: Node) -> Node:
    """What stands in ANY (...) or ALL (...)."""
    inner = node.this if node.kind == "Any" else (*node.nodes(), node)[0]
    while inner.kind in ("Paren", "Cast"):
        inner = inner.this
    return inner


def _listed(node: Node) -> list[Node]:
    """The values that ANY (ARRAY[...]) lists, or what else it holds; any other node itself."""
    if not _is_any(node):
        return [node]
    inner = _inside(node)
    return inner.nodes() if inner.kind == "Array" else [inner]


def _columns(parts: list[Node], policy: Policy) -> list[DeclaredColumn]:
    """The columns that stand in some of the parts, by their names."""
    names = [below.name for part in parts for below in part.walk() if below.kind == "Column"]
    found = [table.column(name) for name in names for table in policy.tables]
    return [column for column in found if column is not None]


def _kind(node: Node, parts: list[Node], policy: Policy) -> Kind:
    """The kind of a value that stands in this node."""
    if node.kind == "Limit":
        return "integer"
    if node.kind == "Cast":
        return _CASTS.get(node["to"].text(), "text")
    if node.kind in ("Quantile", "ApproxQuantile", "PercentileCont", "PercentileDisc"):
        return "number"
    if node.kind in ("Left", "Right", "Substring"):
        return "integer"
    for column in _columns(parts, policy) if node.kind in (*_COMPARING, *_COUNTING) else ():
        return column.kind
    if any(part.kind == "Literal" and not part.arguments.get("is_string") for part in parts):
        return "number"
    return "number" if node.kind in _COUNTING else "text"


def samples(sql: str, policy: Policy) -> list[Given]:
    """A value for every parameter with which the text can be read: to describe its columns, not to answer.

    Where a parameter is compared with a column that has keys, it is one of them.
    """
    found: dict[int, Value] = {}
    for node, nodes in _places(sql):
        kind = _kind(node, nodes, policy)
        keys = [column.keys for column in _columns(nodes, policy) if column.keys]
        inner = [each.this if each.kind == "Cast" else each for each in nodes]
        for each in inner if node.kind in _COMPARING else nodes:
            if _is_value(each):
                known = keys[0][0] if keys and node.kind in _COMPARING else None
                found[int(each.name)] = known or found.get(int(each.name), _SAMPLES[kind])
    many = lists(sql)
    single = [found.get(n + 1, "a") for n in range(count(sql))]
    return [(value,) if n in many else value for n, value in enumerate(single, 1)]


_SAMPLES: dict[Kind, Value] = {
    "integer": 1,
    "number": 0.5,
    "text": "a",
    "boolean": True,
    "date": datetime.date(2000, 1, 1),
    "timestamp": datetime.datetime(2000, 1, 1),
}
