"""What stands in the tree of a SELECT, told before any of it is read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sfumato.queries import asking
from sfumato.queries.made import Exactly, MadeSelect
from sfumato.queries.madewords import AGGREGATING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.made import Made, MadeQuery
    from sfumato.queries.syntax import Node


def is_empty(query: MadeQuery) -> bool:
    """Whether it surely has no rows: LIMIT 0, WHERE 0 = 1, WHERE FALSE."""
    if not isinstance(query, MadeSelect):
        return False
    where = query.where
    never = where is not None and (
        (where.word == "boolean" and where.text == "FALSE")
        or (where.word == "compare" and where.text == "=" and _numbers_differ(where))
    )
    return query.limit == 0 or (never and (bool(query.group) or not query.is_total))


def _numbers_differ(compare: Made) -> bool:
    a, b = compare.parts
    return a.word == b.word == "number" and isinstance(a.trace, Exactly) and a.trace != b.trace


def may_be_plain(select: Node) -> bool:
    """Whether it has nothing that a plan surely cannot show."""
    if any(select.arguments.get(name) for name in ("distinct", "qualify", "offset", "windows")):
        return False
    group = select.get("group")
    if group is not None and any(select["group"].arguments.get(n) for n in ("all", "grouping_sets")):
        return False
    return not any(each.kind in ("Window", "GroupingSets", "Subquery", "Exists") for each in _shown(select))


def _shown(select: Node) -> Iterator[Node]:
    """Every node of what is shown and of how it is grouped."""
    for name in ("having", "order", "group"):
        if (clause := select.get(name)) is not None:
            yield from clause.walk()
    for item in select.nodes():
        yield from item.walk()


def added_up(node: Node) -> Iterator[Node]:
    """The aggregates in an expression, of rows or of released ones: not those that look at a window, but what
    stands in them."""
    if node.kind == "Window":
        inner = node.this
        while inner.kind in ("Filter", "IgnoreNulls"):
            inner = inner.this
        for part in (
            *inner.parts,
            *node.nodes("partition_by"),
            *([node["order"]] if node.get("order") else []),
        ):
            yield from added_up(part)
    elif node.kind in ("Subquery", "Select", "Exists"):
        return
    elif asking.is_aggregate(node) or node.kind in AGGREGATING:
        yield node
    else:
        for part in node.parts:
            yield from added_up(part)


def named_by_with(node: Node, named: dict[str, Node]) -> Node | None:
    return None if node.arguments.get("in_schema") else named.get(node.name.lower())


def scalars_in(select: Node) -> Iterator[Node]:
    """The subqueries in what is selected."""
    for item in select.nodes():
        for each in item.walk():
            if each.kind == "Subquery" and each.this.kind == "Select":
                yield each


def names_before(named: Node) -> dict[str, Node]:
    return {each.text(): each["node"] for each in named.nodes("names")}


def named_apart(items: list[tuple[str, Made]], *, is_last: bool) -> list[tuple[str, Made]]:
    """The items, none called like another; where they are shown, or like an end of its interval."""
    names = apart([name for name, _ in items], ("", "_low", "_high") if is_last else ("",), is_last)
    return [(name, made) for name, (_, made) in zip(names, items, strict=True)]


def apart(names: list[str], ends: tuple[str, ...], is_last: bool) -> list[str]:
    """The names, none like another, nor like one with an ending."""
    taken: set[str] = set()
    found = []
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2 if is_last else 1)))
        free = next(each for each in candidates if not taken & {(each + end).lower() for end in ends})
        taken |= {(free + end).lower() for end in ends}
        found.append(free)
    return found
