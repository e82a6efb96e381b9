"""The names that an expression on a row can use, and what readers of such expressions have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sfumato.queries.syntax import Node, place_of
from sfumato.queries.trees import altered, anew

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Constant, Scalar
    from sfumato.queries.relations import Relation
    from sfumato.queries.syntax import Text


@dataclass(frozen=True, slots=True)
class FromItem:
    """Something in FROM: what it is called, its columns by name, and its rows."""

    alias: str
    columns: dict[str, Scalar] = field(repr=False)
    relation: Relation
    merged: frozenset[str] = frozenset()  # by USING with columns before it, whose names they only have


@dataclass(frozen=True, slots=True)
class Scope:
    """The names a query can use."""

    sources: tuple[FromItem, ...]

    def names(self) -> list[str]:
        """Every column, for messages."""
        return list(dict.fromkeys(name for source in self.sources for name in source.columns))


class RowReader(Protocol):
    """What reads expressions on a row: `reading.Reader`, as `moments` and `letters` see it."""

    @property
    def text(self) -> Text:
        """The text that is read."""

    def value(self, node: Node, scope: Scope, /) -> Scalar:
        """An expression to compute with."""

    def call(self, node: Node, function: str, /, *arguments: Scalar) -> Scalar:
        """A function applied, or the refusal with its place."""

    def whole(self, node: Node | None, scope: Scope, low: int, high: int, default: int = ...) -> Scalar:
        """A literal that is a whole number within limits."""

    def as_kind(self, literal: Constant, kind: Kind, node: Node, /) -> Constant:
        """A literal read as the type of what it stands beside."""


MOST_SPELLED_OUT = 2_000  # parts of an item, with those that it names


def spelled_out(select: Node, columns: Iterable[str], text: Text) -> Node:
    """The same SELECT with items written out where WHERE or an item after them names them.

    In SELECT x + 1 AS y, 2 * y FROM t WHERE y > 3 a y is x + 1, unless t has a column y.
    """
    if text.dialect == "postgres" or not any(each.kind == "Alias" for each in select.nodes()):
        return select
    taken, named, items = {name.lower() for name in columns}, dict[str, Node](), list[Node]()
    for item in select.nodes():
        found = _spelled(item, named)
        if found is not item and sum(1 for _ in found.walk()) > MOST_SPELLED_OUT:
            told = "the items of SELECT name each other too often"
            text.refuse(item, told, f"Write it with fewer than {MOST_SPELLED_OUT:,} parts.")
        items.append(found)
        if item.kind == "Alias" and item.alias.lower() not in taken:
            named[item.alias.lower()] = found.this
            taken.add(item.alias.lower())
    where = select.get("where")
    seen = None if where is None else _spelled(where, named)
    if seen is where and all(a is b for a, b in zip(items, select.nodes(), strict=True)):
        return select
    return altered(select, expressions=items, where=seen)


def _spelled(node: Node, named: dict[str, Node]) -> Node:
    """A node in which names stand for what they name; queries in it have names of their own."""
    if node.kind == "Column":
        found = named.get(node.name.lower()) if node.get("table") is None else None
        return node if found is None else anew(node, "Paren", this=found)
    if node.kind in ("Subquery", "Select", "Exists", "Union", "Intersect", "Except"):
        return node
    parts: dict[str, Node | list[Node] | str | bool | None] = {}
    for name, value in node.arguments.items():
        if isinstance(value, Node) and (found := _spelled(value, named)) is not value:
            parts[name] = found
        elif isinstance(value, list):
            listed = [_spelled(each, named) for each in value]
            if any(a is not b for a, b in zip(listed, value, strict=True)):
                parts[name] = listed
    return altered(node, **parts)


def items_of(select: Node, scope: Scope, text: Text) -> list[tuple[str, Node]]:
    """The columns of a SELECT by name, with * written out."""
    found: list[tuple[str, Node]] = []
    for position, item in enumerate(select.nodes(), start=1):
        if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
            found += _written_out(item, scope, text)
        elif item.kind == "Alias":
            text.allow(item)
            found.append((item.alias, item.this))
        else:
            found.append((item.name if item.kind == "Column" else f"column_{position}", item))
    names = [name.lower() for name, _ in found]
    for name, item in found:
        if names.count(name.lower()) > 1 and item.kind != "Known":
            text.refuse(item, f"two columns are called {name}", "Give one of them another name: AS b")
    return found


def _written_out(item: Node, scope: Scope, text: Text) -> list[tuple[str, Node]]:
    """What * stands for, or t.*, without what EXCLUDE names, and with what REPLACE and RENAME put there."""
    star, of = item if item.kind == "Star" else item.this, item.get("table")
    known = [source.alias for source in scope.sources]
    found = [
        (name, Node("Known", {"this": name, "source": source.alias}, item.start, item.end))
        for source in scope.sources
        if of is None or of.name.lower() == source.alias.lower()
        for name in source.columns
        if of is not None or name.lower() not in source.merged
    ]
    if text.reading <= 4:  # what stands behind * was not heeded
        return found
    if of is not None and of.name.lower() not in map(str.lower, known):
        text.unknown("table", of.name, known, of)
    kept = None if text.dialect == "postgres" else {"except_": None, "replace": None, "rename": None}
    text.allow(altered(star, **(kept or {})))
    names = [name.lower() for name, _ in found]
    left, put, called = star.nodes("except_"), star.nodes("replace"), star.nodes("rename")
    told: set[str] = set()
    for each in (*left, *put, *(one.this for one in called)):
        name = each.alias if each.kind == "Alias" else each.name
        if name.lower() not in names:
            text.unknown("column", name, [one for one, _ in found], each)
        if name.lower() in told:
            text.refuse(each, f"{name} is named twice behind *", "Name it once.")
        told.add(name.lower())
        if names.count(name.lower()) > 1 and each not in left:
            text.refuse(each, f"several columns are called {name}", "Name the columns that you want.")
    out = {each.name.lower() for each in left}
    instead = {each.alias.lower(): each.this for each in put}
    titles = {each.this.name.lower(): each.alias for each in called}
    return [
        (titles.get(name.lower(), name), instead.get(name.lower(), node))
        for name, node in found
        if name.lower() not in out
    ]


def rows_alone(select: Node) -> Node:
    """The same FROM and WHERE, and what is selected of them, by whose names WHERE may call it."""
    names = ("from_", "joins", "where", "expressions")
    kept = {name: value for name, value in select.arguments.items() if name in names}
    return Node("Select", kept, select.start, select.end)


def grouped(node: Node, items: list[Node], text: Text, scope: Scope) -> Node:
    """What stands in GROUP BY: an expression, or the number or alias of a selected one."""
    target = node
    if node.kind == "Literal":
        target = positional(node, items, text)
    elif node.kind == "Column" and node.get("table") is None:
        names = {name.lower() for source in scope.sources for name in source.columns}
        if node.name.lower() not in names:
            for item in items:
                if item.kind == "Alias" and item.alias.lower() == node.name.lower():
                    target = item
    return target.this if target.kind == "Alias" else target


def positional(node: Node, items: list[Node], text: Text) -> Node:
    """The selected expression that a number counts to."""
    told = node.text()
    place = None if node.arguments.get("is_string") else place_of(told, len(items))
    if place is None:
        text.refuse(
            node, "that position is not in the SELECT list", f"Write a position from 1 to {len(items)}."
        )
    return items[place]
