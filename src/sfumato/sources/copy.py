"""A copy of the tables in which questions are fast: what `sfumato prepare` writes.

The copy of a table of people holds the declared columns of every row that belongs to somebody, and beside
them, in each row:

* how many rows its person has in this table;
* for every column with bounds, the clamped value on its integer grid, and what the person's values come to
  in sum, as absolute numbers; where the table was tuned, also around the tuned centre;
* the person, where the table only refers to rows of another that say it.

So nobody's rows have to be added up to see who may be beyond a cap: what the person has in all says it, for
any condition and any groups, and only the rows of those few are looked at person by person. Rows are sorted
by how many their person has, so that the engine reads those of heavy people and no others for it. The
integers that come out are those of the tables.

A weight stored for each row, such as cap/rows, would make even that one pass. But then whoever has many rows
that a condition or a list of keys leaves out would be scaled for them, small values would be lost to
truncation, and a sum of both signs would be bounded by its size: the answer would be another one.

Every stored number is made of one person's own rows, so what a person can change is still that person's rows
alone; `tests/plans` prepares every neighbour and measures how far the answers move.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries import former, notation
from sfumato.queries.cells import Clamp
from sfumato.queries.expressions import Field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.declared import DeclaredTable
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.policy import Policy

FORM = 1  # of the copy: another one must be prepared again
ROWS = "sfumato_rows"
UNIT = "sfumato_unit"
MARK = "sfumato_prepared"  # the table that says what the copy was made of


@dataclass(frozen=True, slots=True)
class Grid:
    """A column as the copy stores it: `number` is part of the names, `centre` is in steps."""

    number: int
    clamp: Clamp
    required: bool
    centre: int | None

    @property
    def value(self) -> str:
        return f"sfumato_value_{self.number}"

    @property
    def total(self) -> str:
        return f"sfumato_total_{self.number}"

    @property
    def centred(self) -> str:
        return f"sfumato_centred_{self.number}"

    def norm(self, centre: int) -> str | None:
        """The stored sum over a person's rows of |value - centre|, if there is one."""
        return self.total if centre == 0 else self.centred if centre == self.centre else None


@dataclass(frozen=True, slots=True)
class Copy:
    """What is stored beside the columns, by table; of tables of people only."""

    tables: dict[str, dict[str, Grid]]

    @classmethod
    def of(cls, policy: Policy) -> Copy:
        people = [table for table in policy.tables if table.rows_per_person is not None]
        return cls({table.name: dict(_grids(table)) for table in people})

    def grid(self, table: str, value: Scalar, clamp: Clamp) -> tuple[Grid, int] | None:
        """Where a value of a table is stored, and how many of its steps are one of the clamp's."""
        if not isinstance(value, Field) or value.unit in ("own", "maybe"):
            return None
        grid = self.tables[table].get(value.name.partition(".")[2])
        if grid is None or (grid.clamp.low, grid.clamp.high) != (clamp.low, clamp.high):
            return None
        finer = grid.clamp.exponent - clamp.exponent
        if finer < 0 or (finer and clamp.least < 0) or grid.required != value.domain.required:
            return None  # a division truncates, which is a floor from zero up
        return grid, 1 << finer


def _grids(table: DeclaredTable) -> Iterator[tuple[str, Grid]]:
    tuned = {} if table.tuning is None else {each.name: each for each in table.tuning.columns}
    for number, column in enumerate(table.columns):
        if column.low is None or column.high is None or column.name == table.unit:
            continue
        low, high = (Fraction(float(end)) for end in (column.low, column.high))
        clamp = Clamp(low, high, column.exponent)
        centre = None
        if column.name in tuned:
            centre = round(tuned[column.name].centre / clamp.step)
        yield column.name, Grid(number, clamp, column.required, centre)


def mark(policy: Policy, state: object) -> str:
    """Names all that a copy is made of: its form, the declarations it depends on, and the data's version."""
    tables = [
        [
            *(t.name, t.unit, t.through, t.public, [[c.name, c.kind] for c in t.columns]),
            [[name, *_form(grid)] for name, grid in sorted(_grids(t))],
        ]
        for t in policy.tables
    ]
    return notation.digest({"form": FORM, "source": policy.source, "tables": tables, "state": state})


def _form(grid: Grid) -> list[object]:
    clamp = grid.clamp
    return [grid.number, str(clamp.low), str(clamp.high), clamp.exponent, grid.required, grid.centre]


def former_mark(policy: Policy, state: object) -> str:
    """What it was called before it had a form: never to be changed. Such a copy is as good as any."""
    tables = [
        [
            *(t.name, t.unit, t.through, t.public, [[c.name, c.kind] for c in t.columns]),
            f"[{', '.join(_former(name, grid) for name, grid in sorted(_grids(t)))}]",
        ]
        for t in policy.tables
    ]
    text = json.dumps(["1", policy.source, tables, state], default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _former(name: str, grid: Grid) -> str:
    told = f"number={grid.number!r}, clamp={former.shown(grid.clamp)}, required={grid.required!r}"
    return f"({name!r}, Grid({told}, centre={grid.centre!r}))"
