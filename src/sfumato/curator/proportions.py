"""Whether only proportions are asked for: averages, shares, spreads, and values that are chosen.

If everybody weighs half as much, such a number stays as it is. So a small cap costs it little, whatever
people have: what is cut, is cut from both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.measures import Moments
from sfumato.queries.plan import Combined, Compared
from sfumato.queries.shown import Arithmetic, Chosen, Function, KeyOf, Mean, Number, Weighted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Having, Plan
    from sfumato.queries.shown import Expression


def are_all(plan: Plan) -> bool:
    """Whether all that is shown, sorted by and compared is a proportion of one measure each."""
    return all(_is_one(each, plan.measures) for each in _looked_at(plan))


def _looked_at(plan: Plan) -> Iterator[Expression]:
    yield from (each.expression for each in plan.outputs)
    yield from (each.by for each in plan.order)
    if plan.having is not None:
        yield from _compared(plan.having)


def _compared(having: Having) -> Iterator[Expression]:
    if isinstance(having, Compared):
        yield from (having.left, having.right)
        return
    assert isinstance(having, Combined)
    for each in having.parts:
        yield from _compared(each)


def _is_one(expression: Expression, measures: tuple[Measure, ...]) -> bool:
    """Whether it stays as it is if everybody weighs half as much."""
    match expression:
        case KeyOf() | Number() | Chosen():
            return True
        case Mean(total, count):
            return _of_one(measures, _counted(total), _counted(count))
        case Arithmetic("/", left, right):
            parts = _counted(left), _counted(right)
            if None not in parts:
                return _of_one(measures, *parts)
            return _is_one(left, measures) and _is_one(right, measures)
        case Arithmetic(_, left, right):
            return _is_one(left, measures) and _is_one(right, measures)
        case Function("entropy"):  # of counts, which are not capped for it
            return True
        case Function(_, arguments):
            return all(_is_one(each, measures) for each in arguments)
    return False


def _of_one(measures: tuple[Measure, ...], *parts: set[int] | None) -> bool:
    """Whether both sides are made of the same vector: of two, each is cut in its own way."""
    found = set[int]().union(*(each or set() for each in parts))
    return None not in parts and len(found) == 1 and isinstance(measures[found.pop()], Moments)


def _counted(expression: Expression) -> set[int] | None:
    """The measures of what halves if everybody weighs half as much; None if it does not."""
    match expression:
        case Weighted(terms):
            return {released.measure for _, released in terms}
        case Arithmetic("*", Number(), other) | Arithmetic("*" | "/", other, Number()):
            return _counted(other)
        case Arithmetic("-", left, Number(value)) if value == 1:  # one row less, as for a sample
            return _counted(left)
        case Arithmetic("+" | "-", left, right):
            parts = _counted(left), _counted(right)
            return None if parts[0] is None or parts[1] is None else parts[0] | parts[1]
    return None
