"""How wrong an answer is likely to be, before it is bought: from public facts and past releases alone.

Noise is known before anything is asked. What a cap cuts, and how many rows stand below an average, is not; it
is taken from what may be known: histograms that were released, sizes that the owner declared, or an earlier
release of the same question that the asker paid for. Those of other analysts are never looked at, since a
price that is made of them would show them.

A forecast is the interval that a release would have if its groups were of equal size and held what is
expected: the same functions read both.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from sfumato.curator.caps import PRIVATE_GROUPS
from sfumato.curator.intervals import Errors
from sfumato.curator.release import Cell, is_label
from sfumato.curator.shortfalls import settled
from sfumato.curator.typical import EXAMPLE, middling
from sfumato.mechanisms import QuantileIntervals, Quantiles
from sfumato.queries.cells import CUT_VALUES, NANO
from sfumato.queries.measures import Kinds, Moments, PersonCount, Selected, Spread, Sum, cut_of, total_of
from sfumato.queries.relations import Scan
from sfumato.queries.shown import Arithmetic, Chosen, Function, Mean, Number, Released, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.curator.asked import Stored
    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.linear import Reader
    from sfumato.curator.release import Release
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.shown import Expression

    Sizing = Callable[[Measure], "Size | None"]
    Cells = tuple[tuple[int, ...], ...]  # of each measure, in one group

AT_95 = Fraction(1, 20)
TWICE = 2.0  # deviations that 95% of errors are within, about
SHARE = 0.2  # of what is half way between its bounds, a share is likely this part
DENSE = 2.5  # parts of itself by which a value moves with its rank, as part of all ranks
USUAL = 0.2  # of the ranks that a quantile may be off by for the worst of data, it usually is
FROM_NOISE = ""  # noise alone decides
FROM_TABLES = "by what was measured of its tables"
FROM_SIZES = "by the number of rows that the policy declares"
FROM_BEFORE = "by your earlier release of it"
FROM_NOTHING = "if each group has 1,000 rows"
UNKNOWN = "not known before it is measured how much people have"
DEPENDS = "it depends on the values around it"


@dataclass(frozen=True, slots=True)
class Size:
    """About how much there is of what a measure counts, under its cap, in all groups together; and where the
    mean of it lies, as the part of the way between its bounds."""

    amount: float
    mean: float | None = None
    off: float | None = None  # how far off a group is likely to be for what is cut, in parts of itself


class Foreseen(Protocol):
    """A question, as far as a forecast looks at it."""

    @property
    def plan(self) -> Plan:
        """What is run for it."""

    @property
    def query(self) -> Calibration:
        """The noise that is drawn for it."""

    @property
    def policy(self) -> Policy | None:
        """That it is asked under."""

    @property
    def size(self) -> Sizing | None:
        """What is known of how much there is."""

    def likely(self) -> Foreseen | None:
        """The same once it is measured how much people have; None if that cannot be told."""

    def earlier(self) -> Stored | None:
        """What the asker has paid for before."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """How far off a column is likely to be at 95%, and how large it is, if that is known."""

    column: str
    error: float | None  # None: it depends on data of which nothing is known
    value: float | None
    basis: str  # what that rests on, in words
    noise: float | None = None  # how far off noise alone makes it, at 95%
    off: float | None = None  # and how far off what a cap cuts is likely to, in parts of itself

    @property
    def likely(self) -> float | None:
        """The error that is likely in parts of the number: of what a cap cuts, an interval covers much more
        than is likely."""
        if self.error is None or not self.value:
            return None
        if self.noise is None or self.off is None:
            return self.error / abs(self.value)
        return math.hypot(self.noise / self.value, TWICE * self.off)

    @property
    def relative(self) -> float | None:
        """The error in parts of the number."""
        if self.error is None or not self.value:
            return None
        return self.error / abs(self.value)


def forecasts(question: Foreseen, *, assumes: bool = False, past: bool = True) -> tuple[Forecast, ...]:
    """What to expect of each number that a question asks for, in a group like most others.

    Where sizes are not known, it `assumes` groups of a thousand rows in the middle of the bounds, if that is
    wanted: then every number has an error and a size, to be compared with others. Without the `past`, earlier
    releases are not looked at, so that it is the same for everybody.
    """
    if question.plan.outer is not None or question.plan.beside:
        return ()
    likely = question.likely()
    if likely is None and assumes:
        likely = question
    if likely is None:
        names = [each.name for each in question.plan.outputs if not is_label(each.expression)]
        return tuple(Forecast(name, None, None, UNKNOWN) for name in names)
    least, question = FROM_NOISE if likely is question else FROM_TABLES, likely
    groups, times, basis = _groups_of(question, past)
    sums = zip(*groups, strict=True)
    whole = tuple(tuple(sum(each) * times for each in zip(*vectors, strict=True)) for vectors in sums)
    plan = settled(question.plan, question.query, whole, len(groups) * times)
    is_cut = any(cut_of(each) is not None for each in plan.measures)
    groups = [_with_rest(plan, each, whole) for each in groups]
    whole = _with_rest(plan, whole, whole)
    errors = Errors.of(plan, question.query, 1, whole if is_cut else ())
    tail = AT_95 / plan.lines if plan.selects and not plan.private_keys else AT_95
    found = []
    for output in plan.outputs:
        if is_label(output.expression):
            continue
        try:
            one = _forecast(output.name, output.expression, errors, groups, tail, basis, question.size)
            if assumes:
                one = _assumed(one, output.expression, errors, groups, question)
        except OverflowError:  # numbers that no float holds
            one = Forecast(output.name, None, None, DEPENDS)
        found.append(one if one.basis else replace(one, basis=least))
    return tuple(found)


def _forecast(
    name: str,
    expression: Expression,
    errors: Errors,
    groups: Sequence[Cells],
    tail: Fraction,
    basis: str,
    size: Sizing | None,
) -> Forecast:
    """The error of a number at what groups are expected to hold."""
    read = {each.measure for each in _released(expression)}
    is_cut = any(errors.cut(i) is not None for i in read)
    values = (
        [errors.value(expression, each) for each in groups] if _has_size(expression, errors, basis) else []
    )
    known = [float(each) for each in values if each is not None]
    value = statistics.median(known) if known else None
    if any(isinstance(each, Chosen) for each in _parts(expression)):
        return Forecast(name, None, None, DEPENDS)
    if not is_cut and (radius := errors.width(expression, tail)) is not None:
        return Forecast(name, _near(float(radius)), value, FROM_NOISE)
    bare = replace(errors, measures=tuple(map(_uncut, errors.measures)), whole=())
    error, noise = (_half(each.reader(expression, tail), groups) for each in (errors, bare))
    sizes = [_size_of(size, errors.measures[i]) for i in read]
    offs = [each.off for each in sizes if each is not None and each.off is not None]
    return Forecast(name, _near(error), value, basis, _near(noise), max(offs, default=None))


def _half(reader: Reader, groups: Sequence[Cells]) -> float:
    """Half of the interval, in the middle of the groups."""
    ends = [reader(each) for each in groups]
    return statistics.median((high - low) / 2 for low, high in ends)


def _uncut(measure: Measure) -> Measure:
    """A measure of which it is not known what its cap cuts."""
    return replace(measure, cut=None) if isinstance(measure, (Moments, Sum, PersonCount)) else measure


def _assumed(
    known: Forecast, expression: Expression, errors: Errors, groups: Sequence[Cells], question: Foreseen
) -> Forecast:
    """The same with an error and a size, of which what is not known is made up."""
    if isinstance(expression, Chosen):
        return replace(known, error=_rank_error(expression, question), value=1.0)
    values = [errors.value(expression, each) for each in groups]
    sizes = [abs(float(each)) for each in values if each is not None]
    if isinstance(expression, Arithmetic) and expression.operator == "/" and known.value is None:
        sizes = [min(sizes, default=SHARE) * SHARE]  # most shares are small
    value = known.value or statistics.median(sizes or [1.0]) or 1.0
    return replace(known, error=math.inf if known.error is None else known.error, value=value)


def _rank_error(chosen: Chosen, question: Foreseen) -> float:
    """About how far off a quantile is in parts of itself, as if values were spread as log-normal ones are."""
    measure, step = question.plan.measures[chosen.measure], question.query.steps[chosen.measure]
    if not isinstance(measure, Spread) or not isinstance(step.mechanism, (QuantileIntervals, Quantiles)):
        return 1.0
    ranks = step.mechanism.off(chosen.place, AT_95) / measure.whole
    size = _size_of(question.size, measure)
    rows = size.amount / max(question.plan.size, 1) if size is not None else float(EXAMPLE)
    return min(DENSE * USUAL * float(ranks) / max(rows, 1.0), 10.0)


def _has_size(expression: Expression, errors: Errors, basis: str) -> bool:
    """Whether it is known about how large a number is: of what its groups hold, rows are told by a table, but
    not where their values lie."""
    if basis == FROM_BEFORE:
        return True
    if basis == FROM_NOTHING:
        return False
    match expression:
        case Weighted(terms):
            measures = {errors.measures[each.measure] for _, each in terms}
            is_rows = len({weight for weight, _ in terms}) == 1  # in whatever cells they are
            return all(isinstance(each, (PersonCount, Sum)) or _counts(each, is_rows) for each in measures)
        case Mean():
            cuts = [errors.cut(each.measure) for each in _released(expression)]
            return all(each is not None and (each.rows or each.kind == CUT_VALUES) for each in cuts)
    return False


def _counts(measure: Measure, is_rows: bool) -> bool:
    return isinstance(measure, Moments) and (not measure.degree or is_rows)


def _near(error: float) -> float | None:
    return None if math.isinf(error) or math.isnan(error) else error


def seen_in(release: Release) -> tuple[Forecast, ...]:
    """How far off the numbers of a release are, in the middle of its rows."""
    columns: dict[str, list[Cell]] = {}
    for row in release.exact():
        for name, cell in row.items():
            if isinstance(cell, Cell):
                columns.setdefault(name, []).append(cell)
    found = []
    for name, cells in columns.items():
        known = [abs(float(each.value)) for each in cells if each.value is not None]
        error = statistics.median((each.high - each.low) / 2 for each in cells)
        found.append(Forecast(name, _near(error), statistics.median(known) if known else None, FROM_BEFORE))
    return tuple(found)


def _with_rest(plan: Plan, cells: Cells, whole: Cells) -> Cells:
    """What a group holds, and beside each measure with a declared total what all other groups come to: less
    that total, where no cap cuts (`totals`)."""
    return tuple(
        each
        if total_of(measure) is None
        else (*each, (0 if cut_of(measure) is None else sum(all_)) - sum(each))
        for measure, each, all_ in zip(plan.measures, cells, whole, strict=True)
    )


# What groups hold ------------------------------------------------------------------------------------------


def _groups_of(question: Foreseen, past: bool) -> tuple[list[Cells], int, str]:
    """The integers that are expected, of all groups or of one for so many; and what that rests on."""
    plan = question.plan
    if past and (stored := question.earlier()) is not None and (groups := _as_before(plan, stored)):
        return groups, 1, FROM_BEFORE
    count = PRIVATE_GROUPS if plan.private_keys else max(plan.size, 1)
    rows, basis = _declared(question), FROM_SIZES
    cells: list[tuple[int, ...]] = []
    for measure, typical in zip(plan.measures, middling(plan), strict=True):
        size = _size_of(question.size, measure)
        if size is not None:
            basis = FROM_TABLES
            cells.append(_cells(measure, typical, size, count))
        elif rows is not None:
            part = Fraction(rows) / count / EXAMPLE
            cells.append(tuple(round(each * part) for each in typical))
        else:
            basis = FROM_NOTHING
            cells.append(tuple(map(round, typical)))
    return [tuple(cells)], count, basis


def _size_of(sizing: Sizing | None, measure: Measure) -> Size | None:
    """What is known of how much there is of what a measure counts, whatever total of it is declared."""
    if sizing is None:
        return None
    return sizing(replace(measure, total=None) if isinstance(measure, Moments) else measure)


def _declared(question: Foreseen) -> int | None:
    """How many rows there are, if the policy says so and all of them are asked about."""
    relation, policy = question.plan.relation, question.policy
    if policy is None or not isinstance(relation, Scan):
        return None
    return dict(policy.sizes).get(relation.table)


def _cells(measure: Measure, typical: Sequence[Fraction], size: Size, groups: int) -> tuple[int, ...]:
    """What one of so many groups holds of a measure of this size."""
    amount = Fraction(size.amount) / groups
    match measure:
        case Moments(degree=1) if size.mean is not None and len(typical) == 2:
            high = Fraction(size.mean) * amount * measure.whole
            return round(amount * measure.whole - high), round(high)
        case Sum():
            return (round(amount),)
        case Moments() | PersonCount():
            return tuple(round(each * amount / EXAMPLE) for each in typical)
    return tuple(map(round, typical))


def _as_before(plan: Plan, stored: Stored) -> list[Cells]:
    """What an earlier release showed, group by group, as it would stand under the caps of today; nothing if
    that cannot be told."""
    ((before, _),) = stored.parts
    if plan.private_keys or len(before.measures) != len(plan.measures):
        return []
    found = []
    for measure, old, drawn in zip(plan.measures, before.measures, stored.drawn, strict=True):
        if type(measure) is not type(old) or isinstance(measure, (Selected, Kinds, Spread)):
            return []
        if len(drawn) != plan.size * measure.places or measure.places != old.places:
            return []
        factor = old.one / measure.one * _kept(old) / _kept(measure)
        found.append([round(int(each) * factor) for each in drawn])
    return [
        tuple(
            tuple(cells[g * m.places : (g + 1) * m.places])
            for m, cells in zip(plan.measures, found, strict=True)
        )
        for g in range(plan.size)
    ]


def _kept(measure: Measure) -> Fraction:
    """How much larger a number is than what was counted for it."""
    cut = cut_of(measure)
    return Fraction(1) if cut is None else 1 + cut.back * NANO


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    match expression:
        case Mean(total, count):
            yield from (*_parts(total), *_parts(count))
        case Arithmetic(_, left, right):
            yield from (*_parts(left), *_parts(right))
        case Function(_, arguments):
            for each in arguments:
                yield from _parts(each)


def _released(expression: Expression) -> Iterator[Released]:
    for part in _parts(expression):
        match part:
            case Weighted(terms):
                yield from (released for _, released in terms)
            case Released():
                yield part
            case Number():
                pass
