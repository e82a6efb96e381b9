"""What SQL holds numbers in above released rows: whole numbers, decimals or doubles.

Here all of them are doubles. Where SQL computes in decimals, a half is rounded away from zero, and 0.1 * 3 is
0.3; in doubles it is not. A decimal beside a double is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.madewords import is_numeric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.expressions import Domain
    from sfumato.queries.made import Held, Made
    from sfumato.queries.plan import Aggregate

_COUNTS = ("count", "count_if", "row_number", "rank", "dense_rank", "ntile")
_AS_THEY_ARE = (
    "sum",
    "min",
    "max",
    "any_value",
    "first",
    "last",
    "mode",
    "arg_max",
    "arg_min",
    "lag",
    "lead",
)
_AS_THEIR_PARTS = (
    *("negate", "coalesce", "nullif", "least", "greatest", "abs", "floor", "ceil", "trunc number", "over"),
    *("floor exactly", "ceil exactly", "round", "round exactly", "round even", "case", "filter"),
)


def widest(found: Sequence[Held]) -> Held:
    """What holds numbers beside each other."""
    return "double" if "double" in found else "decimal" if "decimal" in found else "whole"


def held(made: Made, *, divides_exactly: bool = False) -> Held:
    """What SQL holds a number in: a decimal beside a double is one. PostgreSQL divides decimals exactly."""

    def of(parts: Iterable[Made]) -> Held:
        return widest(
            [held(each, divides_exactly=divides_exactly) for each in parts if is_numeric(each.kind)]
        )

    match made.word:
        case "number":
            return "double" if "e" in made.text.lower() else "decimal" if "." in made.text else "whole"
        case "column":
            return made.held
        case "scalar" if made.query is not None:
            return made.query.columns[0].held
        case "cast":
            return "whole" if made.kind == "integer" else "decimal" if made.text else "double"
        case "operator":
            quotient = of(made.parts)
            if made.text != "/":
                return quotient
            return "decimal" if divides_exactly and quotient != "double" else "double"
        case "aggregate" | "aggregate distinct" | "window" | "window ignoring":
            if made.text in _AS_THEY_ARE:
                return of(made.parts[:1])
            if made.text in _COUNTS:
                return "whole"
            is_mean = made.text == "avg" and divides_exactly and of(made.parts) != "double"
            return "decimal" if is_mean else "double"
    if made.word in _AS_THEIR_PARTS:
        return of(made.parts)
    return "whole" if made.kind == "integer" else "double"


def held_in(domain: Domain) -> Held:
    """What SQL holds a value of a row in."""
    if domain.kind == "integer":
        return domain.held or "whole"
    return "double" if domain.scale is None else "decimal"


def held_by(aggregate: Aggregate, dialect: str) -> Held:
    """What SQL holds an aggregate of rows in."""
    if aggregate.name in ("count", "people", "distinct"):
        return "whole"
    is_mean = aggregate.name == "avg" and dialect == "postgres"
    is_as_it_is = aggregate.name in ("sum", "distinct sum") or (
        aggregate.name == "quantile" and aggregate.rank in (0, 1)
    )
    if not aggregate.values or not (is_as_it_is or is_mean):
        return "double"
    found = held_in(aggregate.values[0].domain)
    return "decimal" if is_mean and found == "whole" else found
