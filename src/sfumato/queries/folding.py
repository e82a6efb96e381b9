"""What is made of the rows of one person: the aggregates of a subquery that groups by the person."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.cells import CAP
from sfumato.queries.columns import finest_grid
from sfumato.queries.expressions import Domain, Unusable, bounds, constant, grid_of
from sfumato.queries.relations import Folded
from sfumato.queries.syntax import word

if TYPE_CHECKING:
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.reading import Reader
    from sfumato.queries.relations import Relation, Total
    from sfumato.queries.scopes import Scope
    from sfumato.queries.syntax import Node

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
AGGREGATES = {
    *_FOLDS,
    *("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp", "CovarPop", "CovarSamp", "Corr"),
    *("Median", "Mode", "PercentileCont", "PercentileDisc", "Quantile", "ApproxQuantile"),
    *("RegrSlope", "RegrIntercept", "RegrR2", "ApproxDistinct", "AnyValue"),
}


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
        keys = value.domain.keys if node.kind == "AnyValue" else None  # of MIN since before: other names
        return replace(value.domain, keys=keys, required=False, tuned=None)
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
