"""From aggregates as SQL means them to measures that bound every person, and back to numbers.

This is the step where a query becomes private by construction: the aggregates of a query turn into as few
histograms as possible, of which one person fills only so much, whatever the rows say (laws 5 and 7).

Count, sum and sum of squares of one value come from *one* vector (see `plan.Moments`): asking for AVG,
VARIANCE and COUNT of a column together costs what COUNT alone costs, and each is more accurate than if the
price had been split among them. COUNT(*) joins the vector of another value through a cell for the rows
without one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries import notation
from sfumato.queries.affine import Affine, affine, shared
from sfumato.queries.cells import CAP, Clamp
from sfumato.queries.expressions import (
    Call,
    Constant,
    Domain,
    Field,
    Scalar,
    Unusable,
    bounds,
    fields,
    parts_of,
    possible,
)
from sfumato.queries.grouping import narrowed
from sfumato.queries.measures import (
    Distinct,
    DistinctSum,
    Kinds,
    Measure,
    Moments,
    PersonCount,
    Spread,
    Sum,
    Tally,
    among_of,
)
from sfumato.queries.plan import Aggregate
from sfumato.queries.relations import Where, prefix, repeats
from sfumato.queries.sensitivity import is_column
from sfumato.queries.shown import (
    Arithmetic,
    Chosen,
    Expression,
    Function,
    Mean,
    Number,
    Released,
    Weighted,
    Within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.queries.declared import Tuned
    from sfumato.queries.plan import Name
    from sfumato.queries.relations import Relation

STEPS = 1 << 20  # of a value from its lower to its upper bound, at most, in sums
FEW_STEPS = 1 << 10  # where four powers are multiplied
CELLS = 1 << 21  # of a quantile, in all groups together
MOST_CELLS = 1 << 16
MOST_PAIRS = 10**6 - 1  # of a group and a value, that a person counts for
ORDER = (Distinct, DistinctSum, Kinds, Moments, PersonCount, Spread, Sum, Tally)


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The measures of a query, and how to show each of its aggregates by them."""

    measures: tuple[Measure, ...]

    def shown(self, aggregate: Aggregate) -> Expression:
        """The arithmetic that turns released integers into an aggregate."""
        match aggregate.name:
            case "people":
                i = self._find(lambda m: isinstance(m, PersonCount) and m.value == _only(aggregate.values))
                return Weighted(((self.measures[i].one, Released(i, 0)),))
            case "distinct":
                i = self._find(
                    lambda m: isinstance(m, (Distinct, PersonCount)) and m.value == aggregate.values[0]
                )
                measure = self.measures[i]
                total = Weighted(((measure.one, Released(i, 0)),))
                among = among_of(measure)
                return total if among is None else Within(total, Fraction(0), Fraction(among))
            case "distinct sum":
                i = self._find(lambda m: isinstance(m, DistinctSum) and m.value == aggregate.values[0])
                return Weighted(((self.measures[i].one, Released(i, 0)),))
            case "mode":
                i = self._find(lambda m: isinstance(m, Kinds) and m.value == aggregate.values[0])
                return Chosen(i, 0)
            case "entropy":
                return Function("entropy", self.each_of(aggregate))
            case "quantile":
                i = self._find(lambda m: isinstance(m, Spread) and m.value == aggregate.values[0])
                spread = self.measures[i]
                assert isinstance(spread, Spread)
                place = 3 * spread.ranks.index(aggregate.rank)
                return Chosen(i, place, place + 1, place + 2)
        return self._moments(aggregate)

    def each_of(self, aggregate: Aggregate) -> tuple[Expression, ...]:
        """How many rows have each of the public values."""
        i = self._find(lambda m: isinstance(m, Tally) and m.value == aggregate.values[0])
        measure = self.measures[i]
        return tuple(Weighted(((measure.one, Released(i, cell)),)) for cell in range(measure.cells))

    def _moments(self, aggregate: Aggregate) -> Expression:
        for i, measure in enumerate(self.measures):
            if isinstance(measure, Sum) and aggregate.values == (measure.value,):
                return self._summed(i, measure, aggregate)
            if isinstance(measure, Moments):
                if measure.values == aggregate.values and measure.degree >= aggregate.degree:
                    return _Vector(i, measure).shown(aggregate)
                if aggregate == Aggregate("count") and (measure.nulls or _required(measure.values)):
                    return _Vector(i, measure).rows()
        found = affine(aggregate.values[0]) if len(aggregate.values) == 1 else None
        if found is None or found.base == aggregate.values[0]:
            raise AssertionError("every aggregate has a measure")
        return self._moved(aggregate, found)

    def _moved(self, aggregate: Aggregate, value: Affine) -> Expression:
        """An aggregate of base * times + more, by those of the base."""

        def of(name: Name) -> Expression:
            return self._moments(Aggregate(name, (value.base,)))

        times = Number(Fraction(value.times))
        match aggregate.name:
            case "count":
                return of("count")
            case "sum":
                rows = Arithmetic("*", Number(value.more), of("count"))
                return Arithmetic("+", Arithmetic("*", times, of("sum")), rows)
            case "avg":
                return Arithmetic("+", Arithmetic("*", times, of("avg")), Number(value.more))
            case "stddev_pop" | "stddev_samp":
                return Arithmetic("*", Number(Fraction(abs(value.times))), of(aggregate.name))
        return Arithmetic("*", Number(Fraction(value.times**2)), of(aggregate.name))

    def _summed(self, i: int, measure: Sum, aggregate: Aggregate) -> Expression:
        """A sum, or an average, by a sum around a centre and a count of its own."""
        total = ((measure.clamp.step, Released(i, 0)),)
        counter = next(
            (
                _Vector(j, m)
                for j, m in enumerate(self.measures)
                if isinstance(m, Moments) and m.values == (measure.value,) and not m.degree
            ),
            None,
        )
        if counter is None:
            return Weighted(total)
        count = counter.power(())
        if aggregate.name == "count":
            return count
        centre = measure.centre * measure.clamp.step
        back = tuple((weight * centre, released) for weight, released in count.terms)
        if aggregate.name == "sum":
            return Weighted((*total, *back))
        ends = [(measure.centre + row) * measure.clamp.step for row in measure.row]
        return Mean(Weighted((*total, *back)), count, ends[0], ends[1])

    def _find(self, holds: Callable[[Measure], bool]) -> int:
        return next(i for i, measure in enumerate(self.measures) if holds(measure))


def rewrite(
    aggregates: Iterable[Aggregate], relation: Relation, groups: int, watched: Iterable[tuple[str, str]] = ()
) -> tuple[Measure, ...]:
    """The fewest measures for these aggregates. `groups` is how many there are, if that is public, else 0.

    Columns that are `watched` have a distance of their own. Where persons have rows, only `Moments` keep to
    it (a person's rows are scaled by their number there), so a sum is taken from them.
    """
    wanted, rows = _of_bases(dict.fromkeys(aggregates)), relation.rows
    degrees: dict[tuple[Scalar, ...], int] = {}
    for each in wanted:
        if each.of_moments and each.values:
            degrees[each.values] = max(degrees.get(each.values, 0), each.degree)
    counts = Aggregate("count") in wanted
    found: list[Measure] = []
    for values, degree in degrees.items():
        names = [each.name for each in wanted if each.values == values]
        alone = names == ["sum"]
        tuned = _tuned(values[0], relation) if rows is not None and len(values) == 1 else None
        is_watched = len(values) == 1 and any(is_column(values[0], each) for each in watched)
        if rows is not None and degree == 1 and is_watched:
            clamp = _clamp(values[0], 1 << 40) if alone else _steps(values[0], degree, len(values))
            found.append(Moments(values, (clamp,), degree, False, rows))
            continue
        if alone and not counts:
            clamp = _clamp(values[0], 1 << 62)
            limit = None if tuned is None else math.ceil(tuned.total / clamp.step)
            found.append(Sum(values[0], clamp, rows, limit=limit))
            continue
        is_alone = names == ["avg"] and len(wanted) == 1
        if tuned is not None and degree == 1 and _is_narrow(tuned, values[0], rows or 1, is_alone):
            clamp = _clamp(values[0], 1 << 40)
            centre, limit = round(tuned.centre / clamp.step), math.ceil(tuned.centred / clamp.step)
            found.append(Sum(values[0], clamp, rows, centre, limit))
            found.append(Moments(values, (), 0, False, rows))
            continue
        clamps = tuple(_steps(value, degree, len(values)) for value in values) if degree else ()
        found.append(Moments(values, clamps, degree, False, rows))
    found.sort(key=_named)
    if counts:
        singles = [m for m in found if isinstance(m, Moments) and len(m.values) == 1]
        if singles:
            best = min(singles, key=lambda m: (not _required(m.values), m.degree, _named(m)))
            found[found.index(best)] = replace(best, nulls=not _required(best.values))
        else:
            found.append(Moments((), (), 0, False, rows))
    found += _others(wanted, relation, groups)
    return tuple(sorted(found, key=_named))


def _of_bases(aggregates: Iterable[Aggregate]) -> list[Aggregate]:
    """What is measured for these: of x + 1 and x + 2 one vector of x."""
    listed = list(aggregates)
    bases = shared(each.values[0] for each in listed if each.of_moments and len(each.values) == 1)
    found: list[Aggregate] = []
    for each in listed:
        base = affine(each.values[0]).base if each.of_moments and len(each.values) == 1 else None
        if base is None or base not in bases or base == each.values[0]:
            found.append(each)
        else:
            found += [replace(each, values=(base,)), Aggregate("count", (base,))]
    return list(dict.fromkeys(found))


def _tuned(value: Scalar, relation: Relation) -> Tuned | None:
    """What was found out about a column: of the rows that a person has in its table. Where a join repeats
    them, her total may be as many times as much."""
    tuned = value.domain.tuned
    if tuned is None:
        return None
    (field,) = fields(value)
    times = repeats(relation, prefix(field))
    if times is None:  # a subquery may repeat rows as well, and that is not looked at
        return None
    return replace(tuned, total=tuned.total * times, centred=tuned.centred * times)


def _is_narrow(tuned: Tuned, value: Scalar, rows: int, is_alone: bool) -> bool:
    """Whether a sum around the centre, beside a count of its own, is better than the vector of both.

    Their price is split between two measures, where a vector gives both for one. So what people have around
    the centre must lie well below the whole range: at half of it for a mean that is all that is asked for,
    else at an eighth.
    """
    low, high = bounds(value)
    return tuned.centred * (2 if is_alone else 8) <= rows * (high - low)


def _named(measure: Measure) -> tuple[int, str, str]:
    """What measures are sorted by, so that one question has one plan."""
    read = [notation.exact(each) for each in measure.reads]
    return ORDER.index(type(measure)), notation.text(measure.form), notation.text(read)


def _others(wanted: list[Aggregate], relation: Relation, groups: int) -> list[Measure]:
    found: list[Measure] = []
    rows = relation.rows
    cap = 1 if rows is None else rows
    ranks: dict[Scalar, list[Fraction]] = {}
    for each in wanted:
        match each.name:
            case "people":
                found.append(PersonCount(_only(each.values), min(cap, groups) if groups else cap))
            case "distinct" if _is_person(each.values[0]):
                found.append(PersonCount(each.values[0], min(cap, groups) if groups else cap))
            case "distinct":
                value = each.values[0]
                found.append(Distinct(value, min(cap, MOST_PAIRS), _how_many(value, relation)))
            case "distinct sum":
                pairs, clamp = min(cap, MOST_PAIRS), _clamp(each.values[0], 1 << 40)
                if pairs * max(abs(clamp.least), abs(clamp.most)) > CAP:
                    told = "the sum of one person's different values could become too large"
                    raise Unusable(told, "Divide the values, or bound them with LEAST.")
                found.append(DistinctSum(each.values[0], clamp, pairs))
            case "quantile":
                ranks.setdefault(each.values[0], []).append(each.rank)
            case "mode" | "histogram" | "entropy":
                values = possible(each.values[0])
                if not values:
                    raise Unusable(
                        "its possible values are not public, and there may be too many to list",
                        "Use a column with keys, or GROUP BY it with a delta, ORDER BY COUNT(*) DESC.",
                    )
                kind = Kinds if each.name == "mode" else Tally
                if (measure := kind(each.values[0], values, rows)) not in found:
                    found.append(measure)
    for value, asked in ranks.items():
        most = min(MOST_CELLS, CELLS // max(groups, 1))
        clamp = _clamp(value, max(most - 1, 1))
        found.append(Spread(value, clamp, tuple(sorted(asked)), rows))
    return found


def _how_many(value: Scalar, relation: Relation) -> int | None:
    """How many values there can be, if they are public: as many as there would be groups of it."""
    conditions = parts_of(relation.condition) if isinstance(relation, Where) else ()
    return len(narrowed(value, conditions, possible(value)) or ()) or None


def _is_person(value: Scalar) -> bool:
    """Whether a value is the person whose row it is, or NULL: so there are as many of them as persons."""
    match value:
        case Field(unit="refers"):
            return True
        case Constant(value=None):
            return True
        case Call("case", (*pairs, otherwise)):
            return all(map(_is_person, [*pairs[1::2], otherwise]))
    return False


def _required(values: tuple[Scalar, ...]) -> bool:
    """Whether every row has a value, by declaration."""
    return len(values) == 1 and values[0].domain.required


def _only(values: tuple[Scalar, ...]) -> Scalar | None:
    return values[0] if values else None


def _steps(value: Scalar, degree: int, count: int) -> Clamp:
    return _clamp(value, FEW_STEPS if degree * count > 2 else STEPS)


def _clamp(value: Scalar, steps: int) -> Clamp:
    """The bounds of a value on its own grid, or on a coarser one if that has too many steps.

    The bounds are doubles, as the engine clamps to them: a step more than the plan knows of would be one more
    than its distances claim.
    """
    low, high = (Fraction(float(end)) for end in bounds(value))
    exponent = value.domain.exponent
    while (high - low) * Fraction(2) ** exponent > steps:
        exponent -= 1
    return Clamp(low, high, exponent)


@dataclass(frozen=True, slots=True)
class _Vector:
    """The cells of `Moments`, read back."""

    index: int
    measure: Moments

    def shown(self, aggregate: Aggregate) -> Expression:
        count = self.power(())
        if aggregate.name == "count":
            return count
        if aggregate.name == "sum":
            return self.power((0,), centre=Fraction(0))
        if aggregate.name == "avg":
            return self.mean((0,), centre=Fraction(0))
        if aggregate.name.startswith("covar"):
            return self.sampled(aggregate.name, self.central((0, 1)))
        if aggregate.name == "corr":
            spread = Arithmetic("*", self.central((0, 0)), self.central((1, 1)))
            ratio = Arithmetic("/", self.central((0, 1)), Function("root", (spread,)))
            return Function("least", (Function("greatest", (ratio, _minus(1))), Number(Fraction(1))))
        if aggregate.name.startswith("regr"):
            return self.regression(aggregate.name)
        variance = self.sampled(aggregate.name, self.central((0, 0)))
        variance = Function("greatest", (variance, Number(Fraction(0))))
        return Function("root", (variance,)) if aggregate.name.startswith("stddev") else variance

    def regression(self, name: str) -> Expression:
        """The line through pairs of y and x that is nearest to y, and how much it explains."""
        slope = Arithmetic("/", self.central((0, 1)), self.central((1, 1)))
        if name == "regr_slope":
            return slope
        if name == "regr_r2":
            return Function("square", (self.shown(Aggregate("corr", self.measure.values)),))
        means = self.mean((0,), centre=Fraction(0)), self.mean((1,), centre=Fraction(0))
        return Arithmetic("-", means[0], Arithmetic("*", slope, means[1]))

    def sampled(self, name: str, of_all: Expression) -> Expression:
        """The same for a sample of a larger population: times n / (n - 1)."""
        if not name.endswith("_samp"):
            return of_all
        count = self.power(())
        return Arithmetic("*", of_all, Arithmetic("/", count, Arithmetic("-", count, Number(Fraction(1)))))

    def central(self, which: tuple[int, int]) -> Expression:
        """The mean product of two values (or the mean square of one) around their means.

        Both are taken around the middle of the bounds first, which keeps the interval narrow.
        """
        i, j = which
        product = self.mean(which)
        first = self.mean((i,))
        if i == j:
            return Arithmetic("-", product, Function("square", (first,)))
        return Arithmetic("-", product, Arithmetic("*", first, self.mean((j,))))

    def rows(self) -> Weighted:
        """How many rows there are, with and without a value."""
        share = Fraction(1, self.measure.whole)
        return Weighted(tuple((share, Released(self.index, c)) for c in range(self.measure.cells)))

    def mean(self, which: tuple[int, ...], centre: Fraction | None = None) -> Mean:
        """The mean of a product of values, each less its centre."""
        ends = [self.ends(i, centre) for i in which]
        if len(which) == 2 and which[0] == which[1]:
            low, high = ends[0]
            reach = max(low**2, high**2)
            least = Fraction(0) if low <= 0 <= high else min(low**2, high**2)
            return Mean(self.power(which, centre), self.power(()), least, reach)
        corners = [math.prod(each, start=Fraction(1)) for each in _corners(ends)]
        return Mean(self.power(which, centre), self.power(()), min(corners), max(corners))

    def ends(self, i: int, centre: Fraction | None) -> tuple[Fraction, Fraction]:
        """The least and largest value, less the centre, on the grid."""
        clamp = self.measure.clamps[i]
        middle = self.middle(i) if centre is None else centre
        return clamp.least * clamp.step - middle, (clamp.least + clamp.width) * clamp.step - middle

    def middle(self, i: int) -> Fraction:
        """The middle of the bounds."""
        clamp = self.measure.clamps[i]
        return (2 * clamp.least + clamp.width) * clamp.step / 2

    def power(self, which: tuple[int, ...], centre: Fraction | None = None) -> Weighted:
        """The sum over all rows of a product of values, each less its centre, as weights of the cells.

        In the Bernstein basis of degree d the coefficients of 1 are all 1, those of t are k/d, and those of
        t^2 are k(k-1)/(d(d-1)): a polynomial's coefficients are its polar form (its blossom) at k ones and
        d - k zeros.
        """
        measure, degree, whole = self.measure, self.measure.degree, self.measure.whole
        ends = [
            self.ends(v, centre) if v in which else (Fraction(0),) * 2 for v in range(len(measure.clamps))
        ]
        terms: list[tuple[Fraction, Released]] = []
        size = degree + 1
        for cell in range(measure.cells - measure.nulls):
            places = [cell // size**v % size for v in range(len(measure.clamps))]
            weight = Fraction(1)
            for v, reach in enumerate(ends):
                weight *= _blossom(places[v], degree, which.count(v), *reach)
            if weight:
                terms.append((weight / whole, Released(self.index, cell)))
        return Weighted(tuple(terms))


def _blossom(k: int, degree: int, power: int, low: Fraction | int, high: Fraction | int) -> Fraction:
    """The k-th Bernstein coefficient of x^power on [low, high].

    >>> [_blossom(k, 2, 2, 1, 3) for k in range(3)]  # x^2 = (1-t)^2 + 3 * 2t(1-t) + 9 t^2 for x = 1 + 2t
    [Fraction(1, 1), Fraction(3, 1), Fraction(9, 1)]
    """
    if power == 0:
        return Fraction(1)
    if power == 1:
        return Fraction(low) + (Fraction(high) - low) * k / degree
    pairs = math.comb(degree, 2)
    ones, zeros = math.comb(k, 2), math.comb(degree - k, 2)
    return (
        Fraction(high) ** 2 * ones + Fraction(low) ** 2 * zeros + Fraction(low) * high * k * (degree - k)
    ) / pairs


def _corners(ends: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, ...]]:
    found: list[tuple[Fraction, ...]] = [()]
    for low, high in ends:
        found = [(*each, end) for each in found for end in (low, high)]
    return found


def _minus(number: int) -> Number:
    return Number(Fraction(-number))


def grouping(domain: Domain) -> bool:
    """Whether values of this kind can be grouped by."""
    return domain.kind in ("integer", "text", "boolean", "date", "timestamp")
