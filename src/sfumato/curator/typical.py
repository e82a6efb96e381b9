"""Which measures a number is made of, and how much it feels an error in each: what a price is split by.

How much an average feels its count depends on the data: not at all where the average is the centre that was
taken off, more the farther it lies from there. The data must not be asked. So slopes are taken at points that
are made up from public facts, the bounds and what `sfumato tune` released: groups of a thousand rows whose
averages lie at the centre of each column, a little above it, and a little below. The price is split for the
mean of the logarithms of their errors, so that no point decides by being large.

A divisor has to be known well enough to stay away from zero, or else the interval is the whole line, however
well the rest is known. So beside the slopes it is said how far each divisor moves, in parts of itself.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.calibrate import Uses
from sfumato.queries.measures import Distinct, DistinctSum, Moments, PersonCount, Sum, Tally
from sfumato.queries.plan import Compared
from sfumato.queries.relations import Scan
from sfumato.queries.shown import (
    Arithmetic,
    Chosen,
    Expression,
    Function,
    KeyOf,
    Mean,
    Number,
    Released,
    Weighted,
    Within,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sfumato.curator.calibrate import Weights
    from sfumato.queries.cells import Clamp
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Having, Plan

EXAMPLE = 1000  # rows of a group, where an error depends on how many there are
MISSING = 100  # rows beside them in which a value is missing
OFFSETS = (0, 1, -1)  # where the averages lie: at the centre, above it, below it
APART = Fraction(1, 8)  # how far: of the range; or of what rows lie from a tuned centre, at most
HARDLY = Fraction(1, 32)  # of these where it is the average that was tuned; and never more of the range
SPREAD = Fraction(1, 4)  # of the range: how far rows lie from their average
STEEPEST = Fraction(10) ** 140  # of the slopes, so that floats can hold their squares
Slopes = dict[Released, Fraction]


def uses(plan: Plan) -> Uses:
    """Which measures each number of a plan is made of, and how much it feels an error in each.

    Of one measure nothing is said: it gets all of the price.
    """
    if len(plan.measures) == 1:
        return Uses(())
    shown = [output.expression for output in plan.outputs] + [each.by for each in plan.order]
    shown += _compared(plan.having)
    asked = [each for each in shown if not isinstance(each, KeyOf)]
    middles = _middles(plan)
    points = []
    for offset in OFFSETS:
        at = {value: middle.at(offset) for value, middle in middles.items()}
        cells = [_cells(measure, at) for measure in plan.measures]
        points.append(tuple(_felt(expression, cells) for expression in asked))
    kept = [each for point in dict.fromkeys(points) for each in point]  # what is the same everywhere: once
    return Uses(
        tuple(slopes for slopes, _ in kept if slopes),
        tuple(each for _, divisors in kept for each in divisors),
    )


def middling(plan: Plan) -> list[list[Fraction]]:
    """What each measure holds in a group of `EXAMPLE` rows in the middle of the bounds."""
    at = {value: middle.at(0) for value, middle in _middles(plan).items()}
    return [_cells(measure, at) for measure in plan.measures]


def _compared(having: Having | None) -> list[Expression]:
    """The numbers that a condition on released rows looks at."""
    if having is None:
        return []
    if isinstance(having, Compared):
        return [having.left, having.right]
    return [each for part in having.parts for each in _compared(part)]


# Points ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Middle:
    """Where the rows of a value lie: around which centre, how far apart, and how far off their average."""

    centre: Fraction
    spread: Fraction
    apart: Fraction

    def at(self, offset: int) -> tuple[Fraction, Fraction]:
        """The average of the rows and how far they lie from it."""
        return self.centre + offset * self.apart, self.spread


def _middles(plan: Plan) -> dict[Scalar, _Middle]:
    """For every value that is added up; a sum around a tuned centre knows most about its value."""
    bare = isinstance(plan.relation, Scan) and not plan.keys
    found: dict[Scalar, _Middle] = {}
    for measure in plan.measures:
        if isinstance(measure, Sum):
            found[measure.value] = _of_sum(measure, HARDLY if bare else APART)
    for measure in plan.measures:
        if isinstance(measure, Moments):
            for value, clamp in zip(measure.values, measure.clamps, strict=False):
                found.setdefault(value, _of_bounds(clamp))
    return found


def _of_bounds(clamp: Clamp) -> _Middle:
    """The middle of its bounds: one point is no better than another here, and a split that was good for all
    of them is not given up for a centre that was tuned."""
    wide = clamp.width * clamp.step
    return _Middle((clamp.least + clamp.most) * clamp.step / 2, wide * SPREAD, wide * APART)


def _of_sum(measure: Sum, apart: Fraction) -> _Middle:
    plain, tuned = _of_bounds(measure.clamp), measure.value.domain.tuned
    if not measure.centre and tuned is None:
        return plain
    low, high = measure.clamp.least * measure.clamp.step, measure.clamp.most * measure.clamp.step
    centre = plain.centre if tuned is None else min(max(tuned.centre, low), high)
    wide = measure.clamp.width * measure.clamp.step
    far = measure.cap * measure.clamp.step / (measure.rows or 1)  # of a row from the centre, for few people
    return _Middle(centre, min(plain.spread, far), min(far * apart, wide * HARDLY))


def _cells(measure: Measure, at: Mapping[Scalar, tuple[Fraction, Fraction]]) -> list[Fraction]:
    """What a measure holds in such a group."""
    match measure:
        case Sum():
            mean, _ = at[measure.value]
            return [EXAMPLE * (mean / measure.clamp.step - measure.centre)]
        case Moments():
            rows = [Fraction(0)] * measure.cells
            many = list(_rows(measure, at))
            for row in many:
                for cell, part in enumerate(_basis(measure, row)):
                    rows[cell] += part * measure.whole * EXAMPLE / len(many)
            if measure.nulls:
                rows[-1] += MISSING * measure.whole
            return rows
        case PersonCount():
            return [Fraction(EXAMPLE * measure.whole)]
        case Distinct():
            return [Fraction(EXAMPLE)]
        case Tally():
            return [Fraction(EXAMPLE, 1 + cell) for cell in range(measure.cells)]
        case DistinctSum(_, clamp):
            return [Fraction(EXAMPLE * (clamp.least + clamp.most), 2)]
    return [Fraction(0)] * measure.places  # what is chosen by it is no arithmetic


def _rows(measure: Moments, at: Mapping[Scalar, tuple[Fraction, Fraction]]) -> Iterator[tuple[Fraction, ...]]:
    """Values of rows, between 0 and 1 of their bounds: half of how far each lies off is common to all."""
    signs = (-1, 1)
    for common in signs:
        for own in itertools.product(signs, repeat=len(measure.clamps)):
            row = []
            for value, clamp, sign in zip(measure.values, measure.clamps, own, strict=False):
                mean, spread = at[value]
                x = mean + spread * Fraction(common + sign, 2)
                row.append(min(max((x / clamp.step - clamp.least) / clamp.width, Fraction(0)), Fraction(1)))
            yield tuple(row)


def _basis(measure: Moments, row: tuple[Fraction, ...]) -> list[Fraction]:
    """What a row adds to the cells: products of Bernstein polynomials, as in `plan.Moments`."""
    size = measure.degree + 1
    found = []
    for cell in range(size ** len(row)):
        part = Fraction(1)
        for v, t in enumerate(row):
            k = cell // size**v % size
            part *= math.comb(measure.degree, k) * t**k * (1 - t) ** (measure.degree - k)
        found.append(part)
    return found


# Slopes ----------------------------------------------------------------------------------------------------


def _felt(expression: Expression, cells: Sequence[Sequence[Fraction]]) -> tuple[Weights, tuple[Weights, ...]]:
    """How much a number feels each measure, and how much its divisors do, in parts of themselves."""
    if isinstance(expression, Chosen):
        return ((expression.measure, Fraction(1)),), ()
    divisors: list[_Felt] = []
    try:
        found = _derived(expression, cells, divisors)
        parts = [_weights(each.slopes, abs(each.value)) for each in divisors if each.value]
        return (() if found is None else _weights(found.slopes)), tuple(dict.fromkeys(filter(None, parts)))
    except OverflowError:  # of a root: no float holds it
        return (), ()


def _weights(slopes: Slopes, size: Fraction = Fraction(1)) -> Weights:
    """The size of the slopes of each measure."""
    squares: dict[int, float] = {}
    for released, slope in slopes.items():
        one = float(min(abs(slope) / size, STEEPEST))
        squares[released.measure] = squares.get(released.measure, 0.0) + one * one
    return tuple((i, Fraction(math.sqrt(square))) for i, square in sorted(squares.items()) if square)


@dataclass(frozen=True, slots=True)
class _Felt:
    """A number, and how much it moves with each released integer."""

    value: Fraction
    slopes: Slopes

    def times(self, factor: Fraction) -> _Felt:
        return _Felt(self.value * factor, {each: slope * factor for each, slope in self.slopes.items()})

    def plus(self, other: _Felt) -> _Felt:
        slopes = dict(self.slopes)
        for each, slope in other.slopes.items():
            slopes[each] = slopes.get(each, Fraction(0)) + slope
        return _Felt(self.value + other.value, slopes)

    def by(self, other: _Felt) -> _Felt:
        """The product."""
        value = self.value * other.value
        slopes = self.times(other.value).plus(other.times(self.value)).slopes
        return _Felt(value, slopes)

    def over(self, other: _Felt) -> _Felt:
        """The quotient; the divisor is not zero."""
        ratio = self.value / other.value
        slopes = self.plus(other.times(-ratio)).times(1 / other.value).slopes
        return _Felt(ratio, slopes)


def _derived(
    expression: Expression, cells: Sequence[Sequence[Fraction]], divisors: list[_Felt]
) -> _Felt | None:
    """The number at a point and its slopes there, as if nothing were cut to bounds; None if it has none."""
    match expression:
        case Number(value):
            return _Felt(value, {})
        case Released(measure, place):
            return _Felt(cells[measure][place], {expression: Fraction(1)})
        case Weighted(terms):
            value = sum((weight * cells[r.measure][r.place] for weight, r in terms), Fraction(0))
            return _Felt(value, {released: weight for weight, released in terms})
        case Within(total):
            return _derived(total, cells, divisors)
        case Mean(total, count):
            return _quotient(total, count, cells, divisors)
        case Arithmetic("/", left, right):
            return _quotient(left, right, cells, divisors)
        case Arithmetic(operator, left, right):
            a, b = _derived(left, cells, divisors), _derived(right, cells, divisors)
            if a is None or b is None:
                return None
            return a.by(b) if operator == "*" else a.plus(b if operator == "+" else b.times(Fraction(-1)))
        case Function(name, arguments):
            found = [_derived(each, cells, divisors) for each in arguments]
            known = [each for each in found if each is not None]
            return _function(name, known) if len(known) == len(found) else None
    return None


def _quotient(
    left: Expression, right: Expression, cells: Sequence[Sequence[Fraction]], divisors: list[_Felt]
) -> _Felt | None:
    a, b = _derived(left, cells, divisors), _derived(right, cells, divisors)
    if a is None or b is None or not b.value:
        return None
    if b.slopes:
        divisors.append(b)
    return a.over(b)


def _function(name: str, values: list[_Felt]) -> _Felt | None:
    first = values[0]
    match name:
        case "square":
            return first.by(first)
        case "root":
            if first.value <= 0:
                return None
            root = Fraction(math.sqrt(first.value))
            return _Felt(root, first.times(1 / (2 * root)).slopes) if root else None
        case "entropy":
            return _of_entropy(values)
        case "least" | "greatest" | "smallest" | "largest":
            return _first_of(values, -1 if name in ("least", "smallest") else 1)
    return first.times(Fraction(-1)) if name == "abs" and first.value < 0 else first  # rounding: as it is


def _of_entropy(counts: list[_Felt]) -> _Felt | None:
    """It moves by -(log2 p + H) / n with a count of n p."""
    whole = sum((each.value for each in counts), Fraction(0))
    if whole <= 0 or any(each.value <= 0 for each in counts):
        return None
    bits = [math.log2(each.value / whole) for each in counts]
    value = -sum(bit * float(each.value / whole) for bit, each in zip(bits, counts, strict=True))
    found = _Felt(Fraction(value), {})
    for bit, each in zip(bits, counts, strict=True):
        slopes = each.times(-Fraction(bit + value) / whole).slopes
        found = found.plus(_Felt(Fraction(0), slopes))
    return found


def _first_of(values: Iterable[_Felt], sign: int) -> _Felt:
    """The least or largest; a number that is written there is a bound, and the typical is not at a bound."""
    return max(values, key=lambda each: (bool(each.slopes), sign * each.value))
