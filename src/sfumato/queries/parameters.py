"""Values that come beside the text: $1, $2, ...

A value takes the place of its $1 in the tree of the text, as a literal of its type: whatever can be said by a
value could have been typed. In the history the text stands with its values in place.
"""

from __future__ import annotations

import datetime
import math
import numbers
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter, SyntaxRefused
from sfumato.queries.sql import replaced, values_of
from sfumato.queries.syntax import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.queries.declared import DeclaredColumn, Value
    from sfumato.queries.policy import Policy
    from sfumato.queries.sql import Dialect

    Given = Value | Decimal | Sequence["Given"] | None

MOST_PARAMETERS = 1000
MOST_DIGITS = 1000  # of a number, before or behind the point


def count(sql: str) -> int:
    """How many values the text asks for: the highest number after a dollar sign.

    >>> count("SELECT COUNT(*) FROM visits WHERE age > $2 AND ward = '$7'")
    2
    """
    most = max((number for number, _, _ in values_of(sql)), default=0)
    if most > MOST_PARAMETERS:
        raise SyntaxRefused(
            f"${most} is beyond the last possible parameter", f"Use at most ${MOST_PARAMETERS}.", sql=sql
        )
    return most


def bind(sql: str, values: Sequence[Given], dialect: Dialect = "duckdb") -> str:
    """The text with its values in place. A list stands in = ANY ($1), or in <> ALL ($1).

    >>> bind("SELECT COUNT(*) FROM visits WHERE age > $1 AND ward = $2", (30, "St. Mary's"))
    "SELECT COUNT(*) FROM visits WHERE age > 30 AND ward = 'St. Mary''s'"
    >>> bind("SELECT COUNT(*) FROM visits WHERE ward = ANY ($1)", (["A", "B"],))
    "SELECT COUNT(*) FROM visits WHERE ward = ANY (ARRAY['A', 'B'])"
    """
    if isinstance(values, (str, bytes)):
        raise InvalidParameter("parameters", values, "give a list of values: [...]")
    if (wanted := count(sql)) < len(values):
        told = f"the query takes only {wanted}" if wanted else "write $1, $2, ... where the values go"
        raise InvalidParameter("parameters", len(values), told)
    for number, start, end in values_of(sql):
        if number == 0:
            raise SyntaxRefused("$0 is not a parameter", "The first one is $1.", sql=sql, span=(start, end))
        if number > len(values):
            advice = "Give it (parameters=[...]), or write the value itself."
            raise SyntaxRefused(f"${number} has no value", advice, sql=sql, span=(start, end))
    return replaced(sql, lambda number: literal(values[number - 1], dialect))


def literal(value: Given, dialect: Dialect = "duckdb") -> str:
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
            return f"TIMESTAMP '{_told(value)}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case list() | tuple():
            if any(isinstance(each, (list, tuple)) for each in value):
                raise InvalidParameter("parameters", "a list of lists", "give a list of values")
            return f"ARRAY[{', '.join(literal(each, dialect) for each in value)}]"
    text = format(_number(value), "f")
    if (target := _held_as(value, text, dialect)) is not None:
        return f"CAST({text} AS {target[0]})"
    return f"({text})" if text.startswith("-") else text


def _told(moment: datetime.datetime) -> str:
    """A moment in words, by the clock of UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def _number(value: object) -> Decimal:
    """A number of any kind, also numpy's, in decimal."""
    if isinstance(value, numbers.Integral):
        if abs(int(value)) >= 10**38:
            raise InvalidParameter("parameters", "a huge number", "no column holds that many digits")
        return Decimal(int(value))
    if not isinstance(value, (numbers.Real, Decimal)):
        told = "give strings, numbers, booleans, dates, timestamps, None, or lists of these"
        raise InvalidParameter("parameters", type(value).__name__, told)
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise InvalidParameter("parameters", value, "give a finite number")
    if isinstance(value, Decimal) and abs(value.adjusted()) > MOST_DIGITS:
        raise InvalidParameter("parameters", "a huge exponent", "no column holds that many digits")
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))


def lists(tree: Node) -> set[int]:
    """The numbers of the values that are lists: those in ANY ($1) or ALL ($1)."""
    inside = [_inside(node) for node in tree.walk() if _is_any(node)]
    return {int(each.name) for each in inside if _is_value(each)}


def _is_value(node: Node) -> bool:
    """Whether it is $1; others, such as ? or :name, are refused when the question is read."""
    return node.kind == "Placeholder" and node.name.isdecimal()


def filled(tree: Node, values: Sequence[Given], dialect: Dialect) -> Node:
    """The tree with its values in place; what holds none of them is not copied."""
    if _is_value(tree):
        return _literal(values[int(tree.name) - 1], tree, dialect)
    changed: dict[str, Node | list[Node] | str | bool] = {}
    for name, value in tree.arguments.items():
        if isinstance(value, Node):
            put = filled(value, values, dialect)
            if put is not value:
                changed[name] = put
        elif isinstance(value, list):
            puts = [filled(each, values, dialect) for each in value]
            if any(new is not old for new, old in zip(puts, value, strict=True)):
                changed[name] = puts
    if not changed:
        return tree
    return Node(tree.kind, {**tree.arguments, **changed}, tree.start, tree.end, tree.called)


def _literal(value: Given, place: Node, dialect: Dialect) -> Node:
    """The node that `literal` would be read as, in the place of another."""

    def made(kind: str, **arguments: Node | list[Node] | str | bool) -> Node:
        return Node(kind, arguments, place.start, place.end)

    def moment(text: str, kind: str) -> Node:
        target = made("DataType", this=kind, nested=False)
        return made("Cast", this=made("Literal", this=text, is_string=True), to=target)

    match value:
        case None:
            return made("Null")
        case bool():
            return made("Boolean", this=value)
        case datetime.datetime():
            return moment(_told(value), "TIMESTAMPNTZ" if dialect == "duckdb" else "TIMESTAMP")
        case datetime.date():
            return moment(value.isoformat(), "DATE")
        case str():
            return made("Literal", this=value, is_string=True)
        case list() | tuple():
            return made("Array", expressions=[_literal(each, place, dialect) for each in value])
    text = format(_number(value), "f")
    number = made("Literal", this=text.lstrip("-"), is_string=False)
    number = made("Neg", this=number) if text.startswith("-") else number
    if (target := _held_as(value, text, dialect)) is not None:
        return made("Cast", this=number, to=made("DataType", this=target[1], nested=False))
    return made("Paren", this=number) if text.startswith("-") else number


def _held_as(value: Given, text: str, dialect: Dialect) -> tuple[str, str] | None:
    """The type of a number, as it is written and as the parser calls it, where PostgreSQL would give its text
    another one: 2 is an integer, 0.5 a numeric."""
    if dialect != "postgres" or isinstance(value, numbers.Integral):
        return None
    if isinstance(value, Decimal):
        return None if "." in text else ("NUMERIC", "DECIMAL")
    return "DOUBLE PRECISION", "DOUBLE"


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


def keys(tree: Node, most: int, policy: Policy) -> list[Value | None]:
    """For each of so many values a key of the column that it is compared with, where that has keys: with any
    other, a text that is only described may be refused."""
    found: dict[int, Value] = {}
    for node in tree.walk():
        parts = _parts(node) if node.kind in _COMPARING else []
        known = [column.keys for column in _columns(parts, policy) if column.keys]
        for each in parts:
            inner = each.this if each.kind == "Cast" else each
            if known and _is_value(inner):
                found.setdefault(int(inner.name), known[0][0])
    return [found.get(n + 1) for n in range(most)]
