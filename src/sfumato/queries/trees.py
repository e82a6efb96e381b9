"""Trees of SQL made of other trees: for a dialect that is rewritten before it is read."""

from __future__ import annotations

from decimal import Decimal

from sfumato.queries.syntax import AGGREGATES, Node, bare


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


def literal(node: Node, number: str) -> Node:
    """A number in the place of a node."""
    return anew(node, "Literal", this=number, is_string=False)


def folded(node: Node) -> Node:
    """A name as PostgreSQL has it: in lower case, unless it is quoted."""
    if node.kind == "TableAlias":
        return altered(node, this=folded(node.this)) if node.get("this") is not None else node
    is_plain = node.kind == "Identifier" and not node.arguments.get("quoted")
    lower = "".join(letter.lower() if letter.isascii() else letter for letter in node.name)
    return altered(node, this=lower) if is_plain else node


FEW_DECIMALS = 2  # with so many, a decimal in units of its last one is a double without being told


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
    ten = literal(node, str(10**scale))
    product = anew(node, "Paren", this=anew(node, "Mul", this=anew(node, "Paren", this=node), expression=ten))
    if scale <= FEW_DECIMALS:
        return product
    whole = anew(node, "DataType", this="BIGINT", nested=False)  # so that no digit of a wide one is lost
    return anew(node, "Cast", this=product, to=whole, if_wide=True)


def one_by_one(node: Node) -> Node:
    """(a, b) IN ((1, 2), (3, 4)) and BETWEEN SYMMETRIC as what they are short for; any other node itself."""
    if node.kind == "Between" and node.arguments.get("symmetric"):
        one = altered(node, symmetric=None)
        other = altered(one, low=node["high"], high=node["low"])
        return anew(node, "Paren", this=anew(node, "Or", expressions=[one, other]))
    parts = bare(node.this).nodes() if node.kind == "In" and bare(node.this).kind == "Tuple" else []
    rows = [bare(each).nodes() for each in node.nodes() if bare(each).kind == "Tuple"]
    if not parts or not rows or len(rows) != len(node.nodes()) or any(len(row) != len(parts) for row in rows):
        return node
    found = [
        anew(
            node,
            "And",
            expressions=[
                anew(node, "EQ", this=part, expression=value) for part, value in zip(parts, row, strict=True)
            ],
        )
        for row in rows
    ]
    return anew(node, "Paren", this=anew(node, "Or", expressions=found) if len(found) > 1 else found[0])


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
    found = literal(node, str(abs(int(number))))
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


_QUANTILES = {"PercentileCont": "expression", "PercentileDisc": "expression", "ApproxQuantile": "quantile"}


def one_quantile_each(node: Node) -> Node:
    """A query in which a list of quantiles is an item each: QUANTILE_CONT(x, [0.1, 0.9]) AS q."""
    parts: dict[str, Node | list[Node]] = {}
    for name, value in node.arguments.items():
        if isinstance(value, Node):
            changed = one_quantile_each(value)
            if changed is not value:
                parts[name] = changed
        elif isinstance(value, list):
            listed = [one_quantile_each(each) for each in value]
            if node.kind == "Select" and name == "expressions":
                listed = [one for position, each in enumerate(listed, 1) for one in _spread(each, position)]
            if len(listed) != len(value) or any(a is not b for a, b in zip(listed, value, strict=True)):
                parts[name] = listed
    found = altered(node, **parts) if parts else node
    if found.kind == "Bracket" and len(found.nodes()) == 1 and (ranks := _ranks(found.this)) is not None:
        inner, told = found.this, found.nodes()[0].text()
        first = 0 if inner.kind == "PercentileDisc" else 1  # the parser counts from 0 where it knows no type
        if told.isdecimal() and len(told) < 10 and 0 <= int(told) - first < len(ranks):
            return altered(inner, **{_QUANTILES[inner.kind]: ranks[int(told) - first]})
    return found


def _ranks(node: Node) -> list[Node] | None:
    place = node.get(_QUANTILES.get(node.kind, ""))
    return place.nodes() if place is not None and place.kind == "Array" and place.nodes() else None


def _spread(item: Node, position: int) -> list[Node]:
    node = item.this if item.kind == "Alias" else item
    ranks = _ranks(node)
    if ranks is None:
        return [item]
    name = item.alias or f"quantile_{position}"
    return [
        Node(
            "Alias",
            {
                "this": altered(node, **{_QUANTILES[node.kind]: rank}),
                "alias": Node("Identifier", {"this": f"{name}_{i}"}),
            },
            item.start,
            item.end,
        )
        for i, rank in enumerate(ranks, 1)
    ]


def is_histogram(node: Node) -> bool:
    """Whether it is HISTOGRAM(x), with or without a filter."""
    return (node.this if node.kind == "Filter" else node).kind == "Histogram"


def is_result(node: Node) -> bool:
    """Whether something that is selected is computed from what is released; if not, it is a key."""
    kinds = {each.kind for each in node.walk()}
    return bool(kinds & AGGREGATES) or "Column" not in kinds


def aggregate_in(node: Node) -> Node | None:
    """The first aggregate of a condition; those of subqueries are theirs."""
    if node.kind in AGGREGATES:
        return node
    if node.kind in ("Subquery", "Select", "Exists", "Window"):
        return None
    return next((found for each in node.parts if (found := aggregate_in(each)) is not None), None)


def tuple_without_nulls(node: Node) -> list[Node] | None:
    """The parts of CASE WHEN a IS NULL THEN NULL ... ELSE (a, b) END, as some dialects mean (a, b)."""
    inner = bare(node)
    default = inner.get("default") if inner.kind == "Case" else None
    if default is None or bare(default).kind != "Tuple":
        return None
    parts = bare(default).nodes()
    ifs = inner.nodes("ifs")
    nulls = [each for each in ifs if each.this.kind == "Is" and each["true"].kind == "Null"]
    return parts if len(nulls) == len(ifs) == len(parts) else None
