"""From aggregates as SQL means them to measures that bound every person.

This is the step where a query becomes private by construction: each aggregate turns into integer measures
whose value one person can move only so far, whatever the rows say (laws 5 and 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sfumato.queries.plan import Clamp, Expression, Field, Mean, Measure, Released

if TYPE_CHECKING:
    from sfumato.queries.policy import Column, Table


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM or AVG of a column (None: of whole rows), as the analyst wrote it."""

    function: Literal["COUNT", "SUM", "AVG"]
    column: Column | None


def measures_of(aggregate: Aggregate, table: Table) -> tuple[Measure, ...]:
    """What must be measured to show an aggregate.

    An average is a centred sum over a count: centred in the public bounds, because half the range is the
    least a person can be kept to; both are scaled by the same number of rows, so the ratio keeps its meaning
    for people who are cut.
    """
    column, rows = aggregate.column, table.rows_per_person
    if column is None:
        return (Measure(None, None, rows),)
    field = Field(column.name, column.kind)
    count = Measure(field, None, rows)
    if aggregate.function == "COUNT":
        return (count,)
    assert column.low is not None
    assert column.high is not None
    clamp = Clamp(column.low, column.high, column.exponent)
    if aggregate.function == "SUM":
        return (Measure(field, clamp, rows),)
    centred = replace(clamp, centre=(clamp.least + clamp.most) // 2)
    return (Measure(field, centred, rows, by_rows=rows is not None), count)


def shown_as(aggregate: Aggregate, table: Table, measures: tuple[Measure, ...]) -> Expression:
    """The arithmetic that turns released measures back into the aggregate."""
    needed = measures_of(aggregate, table)
    indices = [measures.index(measure) for measure in needed]
    clamp = needed[0].clamp
    if aggregate.function != "AVG" or clamp is None:
        return Released(indices[0])
    return Mean(
        total=indices[0],
        count=indices[1],
        centre=clamp.centre * Fraction(2) ** -clamp.exponent,
        low=clamp.low,
        high=clamp.high,
    )
