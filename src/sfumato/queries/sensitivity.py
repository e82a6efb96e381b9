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

Theorem: docs/explanation/distances.md. `tests/plans` runs every accepted plan on neighbouring tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.mechanisms import Distance, Distances
from sfumato.queries.plan import PARTS, Distinct, Kinds, Moments, Octaves, People, Selected, Spread, Sum
from sfumato.queries.words import fraction, spoken

if TYPE_CHECKING:
    from sfumato.queries.plan import Clamp, Measure, Plan


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


def derive(plan: Plan) -> tuple[Derivation, ...]:
    """The distances of every measure of a plan, in the plan's order."""
    return tuple(_derive(measure, plan) for measure in plan.measures)


def _derive(measure: Measure, plan: Plan) -> Derivation:
    """Where the keys are private there is no telling how many groups there are."""
    size = None if plan.private_keys else plan.size * measure.cells
    reach, width = max(-measure.least, measure.most), measure.most - measure.least
    touched = size if plan.relation.by_person else measure.cells
    if isinstance(measure, Selected):
        touched = measure.groups
    counted = not isinstance(measure, Sum)
    presence = Distance(
        l0=_least(touched, size), l1=Fraction(measure.cap), linf=Fraction(reach), monotone=counted
    )
    value = Distance(
        l0=_least(None if touched is None else 2 * touched, size),
        l1=Fraction(width if size == 1 else 2 * measure.cap),
        l2_squared=Fraction(max(width**2, 2 * measure.cap**2)),
        linf=Fraction(width),
    )
    return Derivation(Distances(presence, value), measure, plan)


def _least(a: int | None, b: int | None) -> int | None:
    known = [each for each in (a, b) if each is not None]
    return min(known) if known else None


# Why -----------------------------------------------------------------------------------------------------


def _sentences(measure: Measure, plan: Plan, distances: Distances) -> list[str]:
    said = _per_row(measure)
    if not plan.relation.by_person:
        said.append("each row is its own unit, so one unit adds to at most one group")
    else:
        said.append("rows without a person are dropped; the rows of one person are added up by group first")
        said.append(_bounding(measure))
    unit = one_of(measure)
    presence, value = distances.presence.l1, distances.value.l1
    assert presence is not None
    assert value is not None
    alone = not plan.private_keys and plan.size * measure.cells == 1
    thing = "the number" if alone else "all groups together" if measure.cells == 1 else "all cells together"
    said.append(
        f"so one unit moves {thing} by at most {fraction(presence * unit)} when it comes or goes, "
        f"and by at most {fraction(value * unit)} when its rows are replaced"
    )
    return said


def _per_row(measure: Measure) -> list[str]:
    match measure:
        case Moments(values, clamps, degree, nulls):
            said = []
            for value, clamp in zip(values, clamps, strict=False):
                said.append(_clamped(spoken(value), clamp))
            if degree:
                said.append(
                    f"each row adds 1 in all to {measure.cells} cells, which together tell the count"
                    + (", the sum" if degree == 1 else ", the sum and the sum of squares")
                )
            elif nulls or not values:
                said.append("each row adds 1" + (" to one of two cells" if nulls else ""))
            else:
                said.append(f"each row where {spoken(values[0])} is not NULL adds 1")
            return said
        case Sum(value, clamp):
            said = [_clamped(f"each {spoken(value)}", clamp)]
            if measure.centre:
                said.append(f"{fraction(measure.centre * clamp.step)}, the tuned centre, is taken off each")
            return said
        case People(value):
            where = "" if value is None else f" where {spoken(value)} is not NULL"
            return [f"each person who has a row{where} adds 1 to a group, however many rows there are"]
        case Distinct(value, pairs):
            return [
                f"of each person at most {pairs} different pairs of a group and {spoken(value)} are counted"
            ]
        case Selected(groups):
            many = f"{groups} group{'s' if groups > 1 else ''}"
            return [f"each person is counted in at most {many}, chosen by a hash"]
        case Spread(value, clamp):
            return [
                _clamped(spoken(value), clamp),
                f"each row adds 1 to one of {measure.cells} steps",
            ]
        case Octaves():
            return [f"each person adds 1 in all to two of {measure.cells} nodes at 0, 1, 2, 4, ..."]
        case Kinds(value, values):
            return [f"each row adds 1 to one of the {len(values)} values of {spoken(value)}"]


def _clamped(thing: str, clamp: Clamp) -> str:
    bounds = f"[{fraction(clamp.low)}, {fraction(clamp.high)}]"
    return f"{thing} is clamped to {bounds} and floored to steps of {fraction(clamp.step)}"


def _bounding(measure: Measure) -> str:
    match measure:
        case Sum():
            total = fraction(measure.cap * measure.clamp.step)
            return f"whoever has more than {total} in all groups is scaled down in proportion, to {total}"
        case People(_, groups):
            many = f"{groups} group{'s' if groups > 1 else ''}"
            return f"whoever is in more than {many} is scaled down in proportion, to weigh {many} in all"
        case Moments() | Spread() | Kinds():
            many = f"{measure.rows} row{'s' if (measure.rows or 1) > 1 else ''}"
            return f"whoever has more than {many} is scaled down in proportion, to weigh {many} in all"
    return "which of them are counted depends on that person's rows alone"


def one_of(measure: Measure) -> Fraction:
    """What one unit of the integers is worth, in rows, persons or the unit of the value."""
    match measure:
        case Moments() | People() | Spread() | Kinds():
            return Fraction(1, measure.whole)
        case Octaves():
            return Fraction(1, PARTS)
        case Sum():
            return measure.clamp.step
    return Fraction(1)
