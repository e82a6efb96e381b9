"""How far one person can move each measure of a plan: the distances, and why.

The derivation uses the plan alone. Write v for what one person adds to a measure, over all groups and cells:
an integer vector. The relation is separable (see `relations`), so v depends on that person's rows and on
public tables only. The plan enforces, whatever the data hold:

* |v|_1 <= cap, the measure's own cap;
* least <= v_g <= most in every cell g, with least <= 0 <= most;
* for a row unit, v is zero outside one group.

The measure is the sum of these vectors over all people, so

* when a person comes or goes it moves by v: l1 <= cap, linf <= max(-least, most);
* when a person's rows are replaced it moves by v' - v: each entry by at most most - least, and
  |v' - v|_1 <= 2 cap; with a single cell also |v' - v|_1 <= most - least. Where only caps bound the entries,
  |v' - v|_2^2 is largest when both are as large as they can be in one cell each: in the same cell
  (most - least)^2, in two of them 2 cap^2.

Counts of different values are not such sums; but of them, too, one person who brings at most cap pairs of a
group and a value moves all groups together by at most cap, and a replaced person by at most 2 cap (one cell:
cap, since there the pairs that go and those that come cancel).

**In a column's own distance** only the value of one person changes, by so many steps of its grid: in the one
row that the person has, or in all of them if there are more than the policy says. That is derived for plans
in which the value is nothing but added up: then cells move in proportion to the change (`_slope`). Whatever
else depends on it, such as a condition or a key, is as far off as if all rows of the person were replaced.

Theorem: docs/explanation/distances.md. `tests/plans` runs every accepted plan on neighbouring tables.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.mechanisms import Distance, Distances
from sfumato.queries.cells import Clamp
from sfumato.queries.expressions import Call, Field
from sfumato.queries.measures import Moments, Sum
from sfumato.queries.relations import Scan, Where
from sfumato.queries.words import fraction

if TYPE_CHECKING:
    from sfumato.queries.declared import DeclaredColumn
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Plan


@dataclass(frozen=True, slots=True)
class Derivation:
    """The distances of one measure of a plan, and the sentences that lead to them."""

    distances: Distances
    measure: Measure
    plan: Plan

    @property
    def because(self) -> tuple[str, ...]:
        """Why, line by line."""
        return tuple(_sentences(self.measure, self.plan, self.distances))


@dataclass(frozen=True, slots=True)
class Watched:
    """A column that has a distance of its own: one unit of it is the whole range, so many steps of a grid."""

    database: str
    table: str
    column: DeclaredColumn

    @property
    def name(self) -> str:
        """What the distance is called in a charge: another range, or another database, is another one."""
        spot = f"{self.database}/{self.table}.{self.column.name}"
        return f"{spot} {self.column.low}..{self.column.high} 2^{-self.column.exponent}"

    @property
    def steps(self) -> int:
        """From the lower bound to the upper."""
        assert self.column.low is not None
        assert self.column.high is not None
        return Clamp(self.column.low, self.column.high, self.column.exponent).width


def derive(plan: Plan, watched: tuple[Watched, ...] = ()) -> tuple[Derivation, ...]:
    """The distances of every measure of a plan, in the plan's order; also in those of watched columns."""
    return tuple(_derive(measure, plan, watched) for measure in plan.measures)


def _derive(measure: Measure, plan: Plan, watched: tuple[Watched, ...]) -> Derivation:
    """Where the keys are private there is no telling how many groups there are."""
    size = None if plan.private_keys else plan.size * measure.cells
    # never nothing: what is measured in data is never free, even where all values are taken to be the same
    reach, width = max(-measure.least, measure.most, 1), max(measure.most - measure.least, 1)
    cap = max(measure.cap, 1)
    touched = size if plan.relation.by_person else measure.cells
    touched = measure.touched or touched
    presence = Distance(
        l0=_least(touched, size), l1=Fraction(cap), linf=Fraction(reach), monotone=measure.monotone
    )
    value = Distance(
        l0=_least(None if touched is None else 2 * touched, size),
        l1=Fraction(width if size == 1 else 2 * cap),
        l2_squared=Fraction(max(width**2, 2 * cap**2)),
        linf=Fraction(width),
    )
    slopes = [(each.name, _slope(measure, plan, each)) for each in watched]
    promises = tuple((name, slope) for name, slope in slopes if slope is not None)
    return Derivation(Distances(presence, value, promises), measure, plan)


def _slope(measure: Measure, plan: Plan, watched: Watched) -> Distance | None:
    """How far a measure moves when the value of one person moves over the whole range of a column, if it
    moves in proportion: by a part of that for a part of the range. None if that is not proved.

    Proof. Let the value move by k steps of the measure's grid; clamping makes it no more. A sum of rows that
    are units moves by k. Of an average, the cells W - t and t move by k each; of a variance, the cells
    (W - t)^2, 2 t (W - t), t^2 by k (2 (W - t) - k), |k (2 W - 4 t - 2 k)|, k (2 t + k): at most 2 W k each
    and 4 W k - 2 k^2 in all. A person with n rows, each of which moves by at most k, is scaled by n: cell c
    of group g moves by x_gc <= n_g / n of that before it is truncated, and by at most the next whole number
    after. In one group that is no more in any cell, nor in all of them: the cells of an average are whole
    already, and of three the 2 k^2 are enough. In G groups all the x_gc add up to no more than in one, and
    truncating adds less than 1 for each of the (degree + 1) (G - 1) others; k is at least what one step of
    the column is. A person's *sum* is cut at its cap, and n rows move it by n k: it has no slope. What is not
    read does not move anything.
    """
    origin = (watched.table, watched.column.name)
    if watched.table not in plan.tables:
        return Distance(l1=Fraction(0))
    relation = plan.relation.relation if isinstance(plan.relation, Where) else plan.relation
    if not isinstance(relation, Scan) or mentions((plan.relation, plan.keys), origin):
        return None
    if relation.owner is not None and relation.owner.table:
        return None  # a row that refers to several people is there once for each of them
    if not mentions(measure, origin):
        return Distance(l1=Fraction(0))
    match measure:
        case Moments(values, _, 0) if len(values) == 1 and is_column(values[0], origin):
            return Distance(l1=Fraction(0))  # whether it is there, not what it is
        case Moments(values, (clamp,), degree) if len(values) == 1 and is_column(values[0], origin):
            k, by_person = _moved(clamp, watched), plan.relation.by_person
            if k is None or degree > 2 or (by_person and (plan.private_keys or measure.rows != 1)):
                return None
            k, groups = k * measure.parts, plan.size if by_person else 1
            cells, truncated = groups * (degree + 1), (groups - 1) * (degree + 1) * watched.steps
            if degree == 1:
                return Distance(l0=cells, l1=Fraction(2 * k + truncated), linf=Fraction(k))
            wide = clamp.width
            return Distance(l0=cells, l1=Fraction(4 * wide * k + truncated), linf=Fraction(2 * wide * k))
        case Sum(value, clamp) if is_column(value, origin) and not plan.relation.by_person:
            k = _moved(clamp, watched)
            return None if k is None else Distance(l0=1, l1=Fraction(k), linf=Fraction(k))
    return None


def _moved(clamp: Clamp, watched: Watched) -> int | None:
    """How many steps of a measure's grid the range of a column is, if all its steps are such steps."""
    finer = clamp.exponent - watched.column.exponent
    exact = watched.column.kind == "integer" and min(clamp.exponent, watched.column.exponent) >= 0
    return watched.steps << finer if finer == 0 or (exact and finer > 0) else None


def is_column(value: Scalar, origin: tuple[str, str]) -> bool:
    """Whether a value is the column itself, clamped or not."""
    while isinstance(value, Call) and value.function == "clamp":
        value = value.arguments[0]
    return isinstance(value, Field) and value.origin == origin


def mentions(part: object, origin: tuple[str, str]) -> bool:
    """Whether anything in it looks at a column."""
    if isinstance(part, Field) and part.origin == origin:
        return True
    if isinstance(part, tuple):
        return any(mentions(each, origin) for each in part)
    return is_dataclass(part) and any(mentions(getattr(part, each.name), origin) for each in fields(part))


def _least(a: int | None, b: int | None) -> int | None:
    known = [each for each in (a, b) if each is not None]
    return min(known) if known else None


# Why -----------------------------------------------------------------------------------------------------


def _sentences(measure: Measure, plan: Plan, distances: Distances) -> list[str]:
    said = list(measure.per_row)
    if not plan.relation.by_person:
        said.append("each row is protected by itself, so one row adds to at most one group")
    else:
        said.append("rows without a person are dropped; the rows of one person are added up by group first")
        said.append(measure.bounding)
    unit = measure.one
    presence, value = distances.presence.l1, distances.value.l1
    assert presence is not None
    assert value is not None
    alone = not plan.private_keys and plan.size * measure.cells == 1
    thing = "the number" if alone else "all groups together" if measure.cells == 1 else "all cells together"
    whose = ("person", "that person's rows") if plan.relation.by_person else ("row", "it")
    said.append(
        f"so adding or removing one {whose[0]} changes {thing} by at most {fraction(presence * unit)}, "
        f"and replacing {whose[1]} by at most {fraction(value * unit)}"
    )
    return said
