"""What is made of the rows of one person: the aggregates of a subquery that groups by the person."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.cells import CAP
from sfumato.queries.columns import finest_grid
from sfumato.queries.domains import call
from sfumato.queries.expressions import Domain, Field, Unusable, bounds, constant, grid_of, possible
from sfumato.queries.reading import is_own
from sfumato.queries.relations import UNIT, Fold, Folded, Scan, Union
from sfumato.queries.scopes import FromItem, Scope
from sfumato.queries.syntax import AGGREGATES, Node, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.expressions import Scalar
    from sfumato.queries.reading import Reader
    from sfumato.queries.relations import Relation, Total

_FOLDS: dict[str, Total] = {
    "AnyValue": "min",
    "Count": "count",
    "Sum": "sum",
    "Avg": "avg",
    "Min": "min",
    "Max": "max",
    "LogicalOr": "any",
    "LogicalAnd": "every",
    "CountIf": "count",
}
ONE, NOTHING = constant(1, "integer"), constant(None, "integer")


def one_fold(reader: Reader, node: Node, scope: Scope, relation: Relation) -> tuple[Folded, Domain]:
    """What is made of the rows of one person, and which values it can have."""
    text = reader.text
    node = node.this if node.kind == "IgnoreNulls" else node  # ANY_VALUE
    text.allow(node)
    condition: Node | None = None
    if node.kind == "Filter":
        text.allow(node.expression)
        condition, node = node.expression.this, node.this
        node = node.this if node.kind == "IgnoreNulls" else node
        text.allow(node)
    function = _FOLDS.get(node.kind)
    if function is None:
        advice = "Supported per person: COUNT, SUM, AVG, MIN, MAX, BOOL_OR and BOOL_AND."
        text.refuse(node, f"{word(node)} is not supported in a subquery", advice)
    rows = relation.rows or 1
    value: Scalar | None
    inner = node.get("this")
    if node.kind == "CountIf":
        assert inner is not None
        value = reader.call(node, "case", reader.condition(inner, scope), ONE, NOTHING)
    elif inner is None:
        text.refuse(node, "it needs an argument", "Write for example: SUM(x)")
    elif node.kind == "Count" and inner.kind in ("Star", "Literal"):
        text.allow(inner)
        value = None
    elif node.kind == "Count" and inner.kind == "Distinct":
        (each,) = inner.nodes() if len(inner.nodes()) == 1 else (None,)
        if each is None:
            text.refuse(node, "COUNT(DISTINCT) takes one expression", "Count one at a time.")
        function, value = "distinct", reader.raw(each, scope)
    elif node.kind == "Count":
        value = reader.raw(inner, scope)
    elif node.kind in ("LogicalOr", "LogicalAnd"):
        value = reader.condition(inner, scope)
    elif node.kind == "AnyValue":
        value = reader.value(inner, scope)
        function = "any" if value.domain.kind == "boolean" else "min"
    else:
        value = reader.value(inner, scope)
    if condition is not None:
        holds = reader.condition(condition, scope)
        value = reader.call(node, "case", holds, value if value is not None else ONE, NOTHING)
    domain, exponent = fold_domain(reader, node, function, value, rows), None
    if value is not None and function in ("sum", "avg") and reader.text.reading > 2:
        exponent = finest_grid(value.domain, rows)
    return Folded(function, value, exponent), domain


def fold_domain(reader: Reader, node: Node, function: Total, value: Scalar | None, rows: int) -> Domain:
    """The values of a fold. Sums and counts are those of at most `rows` rows."""
    if function in ("count", "distinct"):
        return Domain("integer", Fraction(0), Fraction(rows))
    assert value is not None
    if function in ("any", "every"):
        return Domain("boolean")
    if function in ("min", "max"):
        of = value.domain
        keys, listed = (of.keys, of.listed) if node.kind == "AnyValue" else (None, None)  # as since before
        return replace(of, keys=keys, listed=listed, required=False, tuned=None)
    try:
        low, high = bounds(value)
    except Unusable as reason:
        reader.text.unusable(reason, node)
    if value.domain.adds_exactly and value.domain.scale:
        reader.repaired.add("sums of one person")
    if function == "avg":
        exponent = value.domain.exponent
        if reader.text.reading > 4:  # an average of whole numbers lies between them
            exponent = max(exponent, grid_of(low, high))
        return Domain("number", low, high, exponent)
    low, high = min(low * rows, Fraction(0)), max(high * rows, Fraction(0))
    if max(abs(low), abs(high)) * Fraction(2) ** value.domain.exponent >= min(CAP, 1 << 53):
        reader.text.refuse(
            node, "a person's sum could become too large", "Divide it, or bound it with LEAST."
        )
    of = value.domain
    held = "" if reader.text.reading == 1 else of.held
    found = Domain(of.kind, low, high, of.exponent, scale=of.scale, held=held)
    return found if found.adds_exactly else replace(found, scale=None)


def on_both_sides(
    left: FromItem, right: FromItem, number: Callable[[], int]
) -> tuple[Relation, Field, list[dict[str, Scalar]]]:
    """FULL JOIN on the person of two sides that have one row for every person: the people of either.

    The rows of both are put below each other, with nothing in the columns of the other side, and folded by
    person. So nobody has more than one row, and it is made of that person's rows alone. Besides the rows this
    gives the person, and the columns of both sides: those that name the person are missing where the side is.
    """
    below, above = number(), number()
    listed: list[tuple[Scalar, Scalar]] = []
    folds: list[Folded] = []

    def folded(each: Scalar, at: int) -> Field:
        domain = replace(each.domain, required=False, tuned=None, keys=possible(each))
        nothing = constant(None, domain.kind)
        folds.append(
            Folded("any" if domain.kind == "boolean" else "min", Field(f"t{below}.{len(folds)}", domain))
        )
        listed.append((each, nothing) if at == 0 else (nothing, each))
        return Field(f"t{above}.{len(folds) - 1}", domain)

    unit = next(each for each in left.columns.values() if is_own(each))
    assert isinstance(unit, Field)
    person = Field(f"t{above}.{UNIT}", unit.domain, "own", unit.origin)
    found: list[dict[str, Scalar]] = []
    for at, side in enumerate((left, right)):
        is_there = call("=", folded(ONE, at), ONE)
        own = call("case", is_there, person, constant(None, person.domain.kind))
        found.append({name: own if is_own(each) else folded(each, at) for name, each in side.columns.items()})
    parts = tuple(
        (side.relation, tuple(pair[at] for pair in listed)) for at, side in enumerate((left, right))
    )
    kinds = tuple(each.domain.kind for each, _ in listed)
    return Fold(above, Union(below, parts, kinds), (), tuple(folds)), person, found


def as_rows_call_them(
    keys: dict[str, Scalar], shown: dict[str, Scalar], scope: Scope | None
) -> dict[str, Scalar]:
    """The columns that are grouped by, by their names in FROM: in HAVING these come before new names."""
    found = {}
    for source in () if scope is None else scope.sources:
        for name, each in source.columns.items():
            label = next((label for label, key in keys.items() if key == each), None)
            if label is not None and name in shown:
                found[name] = shown[label]
    return found


def aggregated(
    node: Node, measured: Callable[[Node], Scalar], known: dict[str, Scalar]
) -> tuple[Node, Scope]:
    """An expression over aggregates: each aggregate becomes a column, which stands for it."""
    columns = dict(known)

    def without(each: Node) -> Node:
        if each.kind in AGGREGATES or each.kind in ("Filter", "IgnoreNulls"):
            name = f"fold {len(columns)}"
            columns[name] = measured(each)
            return Node("Column", {"this": Node("Identifier", {"this": name})}, *(each.span or (-1, -1)))
        parts: dict[str, Node | list[Node] | str | bool] = {}
        for key, value in each.arguments.items():
            if isinstance(value, Node):
                parts[key] = without(value)
            else:
                parts[key] = [without(one) for one in value] if isinstance(value, list) else value
        return Node(each.kind, parts, each.start, each.end, each.called)

    return without(node), Scope((FromItem("", columns, Scan(-1, "", None, None, True)),))
