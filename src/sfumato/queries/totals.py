"""Totals that the owner declared, and the questions that they say something about.

How many rows a table has, or how many for each key of a column, may be public knowledge. It is stated in the
policy, never looked at in the data, and no part of any guarantee. What is released for groups whose rows add
up to such a number is adjusted to it (`curator.totals`): post-processing. The number stands in the measure,
so that it is stored with the integers: a later edit of the policy changes no release.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.queries.cells import CUT_ROWS, Total
from sfumato.queries.declared import in_totals
from sfumato.queries.expressions import Field, possible
from sfumato.queries.measures import Moments
from sfumato.queries.relations import Scan

if TYPE_CHECKING:
    from sfumato.queries.declared import DeclaredColumn, DeclaredTable
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Key, Plan
    from sfumato.queries.policy import Policy

MOST_GROUPS = 1000  # that share a total: of more, each would gain less than a thousandth


def with_totals(plan: Plan, policy: Policy) -> Plan:
    """The plan with a declared total in every measure whose cells, in all groups, add up to it."""
    total = _total(plan, policy)
    if total is None:
        return plan
    is_one = (plan.relation.rows or 1) == 1
    return replace(plan, measures=tuple(_with_total(each, total, is_one=is_one) for each in plan.measures))


def _total(plan: Plan, policy: Policy) -> Total | None:
    """The declared total that says most about the groups of a plan; None if none of them does.

    A table's rows are all in the groups only if nothing drops or repeats them: no condition, no join, a row
    names its person itself, and every row is in one of the keys.
    """
    scan = plan.relation
    if not isinstance(scan, Scan) or scan.public or plan.private_keys or plan.occurring:
        return None
    table = policy.table(scan.table)
    if table is None or (scan.owner is not None and scan.owner.table):
        return None
    columns = [_column(key, table) for key in plan.keys]
    parts = list(zip(plan.keys, columns, strict=True))
    left_out = [i for i, (key, column) in enumerate(parts) if not _is_complete(key, column, table)]
    found = [] if table.size is None or left_out else [Total(None, (table.size,))]
    for i, (key, column) in enumerate(parts):
        rows = _margin(key, column, table)
        if rows is not None and left_out in ([], [i]):
            is_one = bool(plan.sets) or (scan.rows or 1) > 1
            found.append(Total(None, (sum(rows),)) if is_one else Total(i, rows))
    best = max(found, key=lambda each: len(each.rows), default=None)
    return best if best is not None and plan.size <= MOST_GROUPS * len(best.rows) else None


def _column(key: Key, table: DeclaredTable) -> DeclaredColumn | None:
    """The column that a key is, with all of its values."""
    if not isinstance(key.expression, Field) or key.expression.origin[0] != table.name:
        return None
    if key.values is None or set(key.values) != set(possible(key.expression) or ()):
        return None
    return table.column(key.expression.origin[1])


def _is_complete(key: Key, column: DeclaredColumn | None, table: DeclaredTable) -> bool:
    """Whether every row has one of its keys, by declaration."""
    rows = _margin(key, column, table)
    return column is not None and (column.complete or (rows is not None and sum(rows) == table.size))


def _margin(key: Key, column: DeclaredColumn | None, table: DeclaredTable) -> tuple[int, ...] | None:
    """How many rows each key has, if that is declared of all of them."""
    rows = {} if column is None else table.rows_of(column.name)
    names = [in_totals(value) for value in key.values or ()]
    return tuple(rows[name] for name in names) if rows and all(name in rows for name in names) else None


def _with_total(measure: Measure, total: Total, *, is_one: bool) -> Measure:
    """The measure with a total, if each row of the table adds one row in all to its cells: where people have
    `is_one` row each, or a cap cuts that is known to."""
    if not isinstance(measure, Moments) or measure.degree > 1 or len(measure.values) > 1:
        return measure
    cut = measure.cut
    if measure.values and not measure.nulls and not measure.values[0].domain.required:
        return measure
    if is_one and cut is None:
        return replace(measure, total=total)
    if cut is None or cut.kind != CUT_ROWS or measure.cells > 1 or total.key is not None:
        return measure
    # what is wrong for all groups alike is made good; heavy people still live where they live, and a fifth
    # of what is cut may be distributed otherwise than what is not: by half as many deviations of a part
    mixed = math.isqrt(cut.apart**2 + (cut.seen // 10) ** 2)
    return replace(measure, total=total, cut=replace(cut, back=0, wrong=0, apart=0, mixed=mixed))
