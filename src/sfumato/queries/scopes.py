"""The names that an expression on a row can use, and what readers of such expressions have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Constant, Scalar
    from sfumato.queries.relations import Relation
    from sfumato.queries.syntax import Node, Text


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
    if node.arguments.get("is_string") or not told.isdecimal() or not 1 <= int(told[:5]) <= len(items):
        text.refuse(
            node, "that position is not in the SELECT list", f"Write a position from 1 to {len(items)}."
        )
    return items[int(told) - 1]
