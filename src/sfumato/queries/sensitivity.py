"""How far one person can move each measure of a plan: the distances, and why.

The derivation uses the plan alone. Write v for what one person adds to a measure over all groups: an integer
vector, zero where the person has no rows that pass the condition. The plan enforces, whatever the data hold:

* |v|_1 <= cap, the measure's own cap;
* least <= v_g <= most in every group g, with least <= 0 <= most;
* for a row unit, v has at most one entry that is not zero.

The measure is the sum of these vectors over all people, so

* when a person comes or goes it moves by v: l1 <= cap, linf <= max(-least, most);
* when a person's rows are replaced it moves by v' - v: each entry by at most most - least, and
  |v' - v|_1 <= 2 cap; with a single group also |v' - v|_1 <= most - least. Where only caps bound the entries,
  |v' - v|_2^2 is largest when both are as large as they can be in one group each: in the same group
  (most - least)^2, in two of them 2 cap^2.

Theorem: docs/explanation/distances.md. `tests/plans` runs every accepted plan on neighbouring tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.mechanisms import Distance, Distances

if TYPE_CHECKING:
    from sfumato.queries.plan import Measure, Plan


@dataclass(frozen=True, slots=True)
class Derivation:
    """The distances of one measure of a plan, and the sentences that lead to them."""

    distances: Distances
    measure: Measure
    plan: Plan

    @property
    def because(self) -> tuple[str, ...]:
        """Why, line by line."""
        return tuple(_sentences(self.measure, self.plan, self.distances.presence, self.distances.value))


def derive(plan: Plan) -> tuple[Derivation, ...]:
    """The distances of every measure of a plan, in the plan's order."""
    return tuple(_derive(measure, plan) for measure in plan.measures)


def _derive(measure: Measure, plan: Plan) -> Derivation:
    size = plan.size
    reach = max(-measure.least, measure.most)
    width = measure.most - measure.least
    touched = 1 if measure.rows is None else size
    presence = Distance(l0=min(touched, size), l1=Fraction(measure.cap), linf=Fraction(reach))
    value = Distance(
        l0=min(2 * touched, size),
        l1=Fraction(width if size == 1 else 2 * measure.cap),
        l2_squared=None if measure.by_rows else Fraction(max(width**2, 2 * measure.cap**2)),
        linf=Fraction(width),
    )
    return Derivation(Distances(presence, value), measure, plan)


def _sentences(measure: Measure, plan: Plan, presence: Distance, value: Distance) -> list[str]:
    said = []
    if measure.clamp is None:
        thing = "row" if measure.field is None else f"row where {measure.field.name} is not NULL"
        said.append(f"each {thing} adds 1")
    else:
        assert measure.field is not None
        clamp = measure.clamp
        said.append(
            f"each {measure.field.name} is clamped to [{_text(clamp.low)}, {_text(clamp.high)}] "
            f"and floored to steps of {_text(measure.step)}"
        )
        if clamp.centre:
            said.append(f"{_text(clamp.centre * measure.step)}, the middle of the bounds, is taken off each")
    if plan.unit is None or measure.rows is None:
        said.append("each row is its own unit, so one unit adds to at most one group")
    else:
        said.append(f"rows without {plan.unit.name} are dropped")
        said.append(f"the rows of one {plan.unit.name} are added up by group first")
        if measure.clamp is None or measure.by_rows:
            many = f"{measure.rows} row{'s' if measure.rows > 1 else ''}"
            said.append(f"whoever has more than {many} is scaled down in proportion, to weigh {many} in all")
        else:
            total = _text(measure.cap * measure.step)
            said.append(
                f"whoever has more than {total} in all groups is scaled down in proportion, to {total}"
            )
    step = measure.step
    assert presence.l1 is not None
    assert value.l1 is not None
    thing = "the number" if plan.size == 1 else f"all {plan.size} groups together"
    said.append(
        f"so one unit moves {thing} by at most {_text(presence.l1 * step)} when it comes or goes, "
        f"and by at most {_text(value.l1 * step)} when its rows are replaced"
    )
    return said


def _text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
