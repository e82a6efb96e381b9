"""Trees of SQL made of other trees: for a dialect that is rewritten before it is read."""

from __future__ import annotations

from decimal import Decimal

from sfumato.queries.syntax import Node, bare


def altered(node: Node, **changed: Node | list[Node] | str | bool | None) -> Node:
    """The same node with other arguments; None leaves one out."""
    if not changed:
        return node
    arguments = {name: value for name, value in {**node.arguments, **changed}.items() if value is not None}
    return Node(node.kind, arguments, node.start, node.end, node.called)


def anew(node: Node, kind: str, **arguments: Node | list[Node] | str | bool) -> Node:
    """Another node in the place of one."""
    start, end = node.span or (-1, 0)
    return Node(kind, arguments, start, end - 1, node.called)


def folded(node: Node) -> Node:
    """A name as PostgreSQL has it: in lower case, unless it is quoted."""
    if node.kind == "TableAlias":
        return altered(node, this=folded(node.this)) if node.get("this") is not None else node
    is_plain = node.kind == "Identifier" and not node.arguments.get("quoted")
    lower = "".join(letter.lower() if letter.isascii() else letter for letter in node.name)
    return altered(node, this=lower) if is_plain else node


def as_whole_quotient(node: Node, scale: int) -> Node:
    """a / b as a quotient of whole numbers, which a double holds: 0.3 / 3 is (0.3 * 10) / (3 * 10)."""
    if not scale:
        return node
    return altered(
        node, this=in_last_decimals(node.this, scale), expression=in_last_decimals(node.expression, scale)
    )


def in_last_decimals(node: Node, scale: int) -> Node:
    """A decimal in units of its last one."""
    if not scale:
        return node
    ten = anew(node, "Literal", this=str(10**scale), is_string=False)
    product = anew(node, "Mul", this=anew(node, "Paren", this=node), expression=ten)
    return anew(node, "Paren", this=product)


def held_as_double(node: Node) -> Node:
    """A whole number that PostgreSQL holds in a double: FLOOR leaves it as it is, and tells the reader so."""
    return anew(node, "Floor", this=node)


def number_of(node: Node) -> Decimal | None:
    """The number that is written there, if one is."""
    inner, sign = bare(node), 1
    if inner.kind == "Neg":
        inner, sign = bare(inner.this), -1
    is_number = inner.kind == "Literal" and not inner.arguments.get("is_string")
    return sign * Decimal(inner.text()) if is_number else None


def written(node: Node, number: Decimal) -> Node:
    """A whole number as a literal."""
    found = anew(node, "Literal", this=str(abs(int(number))), is_string=False)
    return anew(node, "Neg", this=found) if number < 0 else found


def is_value(node: Node) -> bool:
    """Whether it is $1."""
    return node.kind == "Placeholder" and node.name.isdecimal()


def listed_in(node: Node) -> list[Node]:
    """The values that ANY (ARRAY[...]) lists, or that stands in it; any other node itself."""
    inner = node
    while inner.get("this") is not None and (
        inner.kind in ("Any", "All", "Paren") or (inner.kind == "Cast" and inner["to"].text() == "ARRAY")
    ):
        inner = inner.this
    if inner.kind == "Anonymous" and inner.name.upper() in ("ALL", "SOME"):
        return [each for one in inner.nodes() for each in listed_in(one)]
    return inner.nodes() if inner.kind == "Array" else [inner]
