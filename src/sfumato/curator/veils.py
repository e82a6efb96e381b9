"""What a plan says about how its columns are drawn: which are numbers, which start at 0, whose law is known.

The law of a column is drawn where one draw of noise is all that is between it and the answer. Where several
are added up or divided, where intervals also cover what a cap cut, where groups are totals of others or were
picked by their values, a veil follows from intervals at several levels: it is then as wide as these say.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.intervals import Errors
from sfumato.curator.picture import RINGS, SHARES, PictureColumn, Ring
from sfumato.queries.made import Atom, MadeSelect, MadeUnion, queries_in
from sfumato.queries.measures import cut_of
from sfumato.queries.shown import Arithmetic, Chosen, Function, KeyOf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.calibrate import Calibration
    from sfumato.mechanisms import Line
    from sfumato.queries.made import MadeColumn
    from sfumato.queries.plan import Plan, ResultColumn
    from sfumato.queries.shown import Expression

NUMBERS = ("integer", "number")


def has_numbers(plan: Plan) -> bool:
    """Whether a release of this plan has anything to draw."""
    return any(each.kind in NUMBERS and not isinstance(each.expression, KeyOf) for each in plan.columns)


def is_ordered(plan: Plan) -> bool:
    """Whether the text says in which order rows come."""
    made = () if plan.outer is None else queries_in(plan.outer.query)
    return bool(plan.order) or any(isinstance(q, (MadeSelect, MadeUnion)) and q.order for q in made)


def columns_of(plan: Plan, queries: Sequence[Calibration]) -> list[PictureColumn]:
    """The columns of a release, as far as a picture depends on them; the noise of all its questions."""
    if plan.outer is None:
        errors = Errors.of(plan, queries[0])
        return [_column(plan, errors, each) for each in plan.columns]
    below = [Errors.of(one, query) for one, query in zip(plan.all, queries, strict=True)]
    return [
        PictureColumn(
            each.name,
            each.kind in NUMBERS,
            each.has_interval,
            is_joint=plan.selects,
            from_zero=_shows_count(made, below),
            note=_unknown(each, noisy=made.noisy),
        )
        for each, made in zip(plan.columns, plan.outer.query.columns, strict=True)
    ]


def _shows_count(column: MadeColumn, below: Sequence[Errors]) -> bool:
    """Whether it shows what was counted or added up below, as it is."""
    trace = column.trace
    if not isinstance(trace, Atom) or trace.many or column.end:
        return False
    return _is_never_negative(below[trace.question], trace.expression)


def _unknown(column: ResultColumn, *, noisy: bool) -> str:
    return "no interval is known" if noisy and not column.has_interval else ""


def _column(plan: Plan, errors: Errors, column: ResultColumn) -> PictureColumn:
    expression, is_number = column.expression, column.kind in NUMBERS
    assert expression is not None
    if not column.has_interval:
        return PictureColumn(column.name, is_number, is_key=isinstance(expression, KeyOf))
    alone = None
    if not plan.selects and not plan.sets and not any(cut_of(each) for each in plan.measures):
        alone = _alone(errors, expression)
    return PictureColumn(
        column.name,
        is_number,
        has_interval=True,
        from_zero=_is_never_negative(errors, expression),
        law=() if alone is None else law_of(*alone),
        is_joint=plan.selects,
        is_veiled=not _is_chosen(expression),
    )


def _is_chosen(expression: Expression) -> bool:
    """Whether it is made of quantiles, whose law is not around the value."""
    match expression:
        case Chosen():
            return True
        case Arithmetic(_, left, right):
            return _is_chosen(left) or _is_chosen(right)
        case Function(_, arguments):
            return any(map(_is_chosen, arguments))
    return False


def _alone(errors: Errors, expression: Expression) -> tuple[Fraction, Line] | None:
    """The weight and the law of its noise, where one draw is all of it."""
    linear = errors.linear(expression)
    weights = {} if linear is None else {r: weight for r, weight in linear.weights.items() if weight}
    if len(weights) != 1:
        return None
    ((released, weight),) = weights.items()
    noise = errors.noises[released.measure]
    return None if noise is None else (weight, noise)


def _is_never_negative(errors: Errors, expression: Expression) -> bool:
    """Whether it would be at least 0 without noise, whatever the data are: as a count is."""
    linear = errors.linear(expression)
    if linear is None or linear.constant < 0:
        return False
    return all(w >= 0 and errors.measures[r.measure].least >= 0 for r, w in linear.weights.items())


def law_of(weight: Fraction, noise: Line) -> tuple[Ring, ...]:
    """The veil of one draw of symmetric noise around 0: its density over its peak, to its 99%.

    A narrow law has a range for every integer, a wide one for every few.
    """
    reach = noise.window(Fraction(1, 100))[-1]
    peak, size = noise.log_mass(0).low, abs(weight)
    if reach < RINGS:
        ends = [(k, k + Fraction(1, 2)) for k in range(reach + 1)]
    else:
        shares = [(Fraction(inner), Fraction(end)) for inner, end in SHARES]
        ends = [(round((inner + end) / 2 * reach), end * reach) for inner, end in shares]
    found, ink = [], 1.0
    for middle, end in ends:
        ink = min(ink, math.exp(min(float(noise.log_mass(middle).low - peak), 0.0)))
        found.append((float(end * size) if end * size < 1 << 1000 else math.inf, ink))
    return tuple(Ring(-end, end, ink) for end, ink in reversed(found) if math.isfinite(end))
