"""How wrong a released number may be, from the law of its noise (law 12).

A column of a result is arithmetic on released measures. Three cases, from sharp to safe:

* a weighted sum of released integers: one has the exact interval of its noise; several have the interval of
  their convolution, summed in blocks that are rounded outward;
* a ratio of two weighted sums A/B: Fieller's set. For the true ratio r the noise of A - rB is a weighted sum
  with a known law, whatever A and B are, so {r : |A - rB| <= radius(r)} covers the truth with the stated
  probability. It is the whole line when B may be zero;
* anything else: each part of the first two kinds gets its share of the error probability, and interval
  arithmetic does the rest;
* a quantile has the ends that were drawn with it.

Nothing here touches the guarantee: it is post-processing of released numbers, so floats are allowed; where
they are used, they are rounded towards wider intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.central import Known, central_of, central_reader, correlation_of, correlation_reader
from sfumato.curator.convolution import FOURIER, chernoff, repeated
from sfumato.curator.ends import (
    TRIFLE,
    WHOLE,
    above,
    arithmetic,
    below,
    combined,
    entropy,
    float_down,
    float_up,
    function_ends,
    sure,
)
from sfumato.curator.linear import Ends, Linear, Noise, Reader
from sfumato.curator.shortfalls import beside, cut_reader, mixed_reader
from sfumato.curator.totals import NOTHING as SILENT
from sfumato.curator.totals import summed
from sfumato.curator.typical import uses as uses  # asked for here
from sfumato.mechanisms import Additive, DiscreteLaplace
from sfumato.queries.cells import CUT_MEANS, CUT_ROWS, CUT_VALUES, NANO
from sfumato.queries.measures import Spread, cut_of, total_of
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
    unbounded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.calibrate import Calibration
    from sfumato.mechanisms import Line
    from sfumato.queries.cells import Shortfall
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Plan

    Drawn = Sequence[Sequence[int]]
    Vectors = tuple[tuple[int, ...], ...]

BLOCKS = 2048  # the second law of a convolution is summed in at most this many blocks
KNOTS = 32  # ranges an octave, into which the ratio of two weights is sorted when it varies
TINY, HUGE = 1e-15, 1e18  # a weight of nothing; and farther than any draw
GRID = 1024  # blocks of each law when several are convolved
FINEST = 16  # times as many blocks at most where laws are drawn often
LEVEL = Fraction(1, 100)  # the ends of a quantile miss it at most so often
NOUGHT = Fraction(0)
SLACK = Fraction(501, 500)  # how far the search for an end steps beyond it


NOTHING = Linear(Fraction(0), {})
ONE = Linear(Fraction(1), {})


@dataclass(frozen=True, slots=True)
class Errors:
    """The noise of one release: a law for every measure that has one."""

    noises: tuple[Line | None, ...]
    measures: tuple[Measure, ...]
    times: int = 1  # how many groups were added up
    whole: tuple[tuple[int, ...], ...] = ()  # what was released for all groups together, where caps cut
    sharing: int = 0  # of how many groups the sum is adjusted to a declared total
    added: int = 1  # and how many of them are added up here; `times` is 1 then

    @classmethod
    def of(
        cls,
        plan: Plan,
        query: Calibration,
        times: int = 1,
        whole: Vectors = (),
        sharing: int | None = None,
    ) -> Errors:
        """The noise that a query adds to the measures of a plan, in the sum of so many groups. So many groups
        are `sharing` a declared total with them: none, if it is not adjusted; as many as with any group."""
        mechanisms = [step.mechanism for step in query.steps]
        noises = tuple(each.noise if isinstance(each, Additive) else None for each in mechanisms)
        totals = [total for each in plan.measures if (total := total_of(each)) is not None]
        if not totals or sharing == 0:
            return cls(noises, plan.measures, times, whole)
        sharing = sharing or plan.size // len(totals[0].rows)
        return cls(noises, plan.measures, 1, whole, sharing, times)

    def cut(self, measure: int) -> Shortfall | None:
        """What is known of people above the cap of a measure."""
        return cut_of(self.measures[measure])

    def _as_drawn(self, expression: Expression) -> Linear | None:
        """A sum of what is never negative, without what is added back; None if it is not one."""
        terms = expression.terms if isinstance(expression, Weighted) else ()
        measures = {released.measure for _, released in terms}
        if len(measures) != 1 or any(weight < 0 for weight, _ in terms):
            return None
        (i,) = measures
        cut = self.cut(i)
        is_signed = self.measures[i].least < 0 or cut is None or cut.kind != CUT_ROWS
        return None if is_signed else Linear(Fraction(0), {r: weight for weight, r in terms})

    def _weights(self, terms: Iterable[tuple[Fraction, Released]]) -> dict[Released, Fraction]:
        """What released integers count for in a sum of them, with what is added back.

        Where it is values that are cut, rows stay: what is added to the cell of the upper end is taken from
        that of the lower one.
        """
        found = {released: weight for weight, released in terms}
        cuts = {r.measure: cut for r in found if (cut := self.cut(r.measure)) is not None and cut.back}
        for measure, cut in cuts.items():
            back = cut.back * NANO
            if cut.kind not in (CUT_VALUES, CUT_MEANS):
                found |= {r: weight * (1 + back) for r, weight in found.items() if r.measure == measure}
                continue
            low, high = Released(measure, 0), Released(measure, 1)
            lower, upper = found.get(low, NOUGHT), found.get(high, NOUGHT)
            found[high] = upper + back * (upper - lower)
        for i in {released.measure for released in found} if self.sharing else ():
            if total_of(self.measures[i]) is not None and self.cut(i) is None:
                self._adjust(i, found)
        return found

    def _adjust(self, i: int, weights: dict[Released, Fraction]) -> None:
        """Take off each cell its part of what all of them are too much: see `totals`."""
        places = [Released(i, cell) for cell in range(self.measures[i].cells + 1)]
        much = sum((weights.get(each, NOUGHT) for each in places), NOUGHT)
        part = much * self.added / (self.sharing * self.measures[i].cells)
        weights |= {each: weights.get(each, NOUGHT) - part for each in places}

    def _scaled(self, expression: Expression) -> Expression:
        """Where a cap cuts, of counts with a declared total their part of all counts: see `totals`."""
        if not self.sharing:
            return expression
        match expression:
            case Weighted(((_, Released(i)),)) if (total := total_of(self.measures[i])) and self.cut(i):
                one, cells = self.measures[i].one, range(self.measures[i].cells + 1)
                all_ = Weighted(tuple((one, Released(i, cell)) for cell in cells))
                part = Arithmetic("/", expression, all_)
                return Arithmetic("*", Number(Fraction(total.rows[0])), part)
            case Arithmetic(operator, left, right):
                return Arithmetic(operator, self._scaled(left), self._scaled(right))
            case Function(name, arguments):
                return Function(name, tuple(map(self._scaled, arguments)))
        return expression

    def _law(self, released: Released) -> Noise:
        """The law of the noise of a released integer, or of what stands beside those that share a total."""
        noise, measure = self.noises[released.measure], self.measures[released.measure]
        assert noise is not None
        if not self.sharing:
            return noise
        is_rest = total_of(measure) is not None and released.place == measure.cells
        return summed(noise, (self.sharing - self.added) * measure.cells if is_rest else self.added)

    def value(self, expression: Expression, drawn: Sequence[Sequence[int]]) -> Fraction | None:
        """The number itself; None where it divides by zero."""
        return self._value(self._scaled(expression), drawn)

    def _value(self, expression: Expression, drawn: Sequence[Sequence[int]]) -> Fraction | None:
        match expression:
            case Number(value):
                return value
            case Released(measure, place):
                return Fraction(drawn[measure][place])
            case Weighted(terms):
                weights = self._weights(terms).items()
                return sum((weight * drawn[r.measure][r.place] for r, weight in weights), Fraction(0))
            case Within(inner, low, high):
                found = self._value(inner, drawn)
                assert found is not None
                return min(max(found, low), high)
            case Mean(total, count, low, high):
                top, bottom = self._value(total, drawn), self._value(count, drawn)
                assert top is not None
                assert bottom is not None
                return min(max(top / max(bottom, Fraction(1)), low), high)
            case Chosen():
                return self._on_grid(expression, drawn[expression.measure][expression.place])
            case Arithmetic(operator, left, right):
                a, b = self._value(left, drawn), self._value(right, drawn)
                if a is None or b is None or (operator == "/" and b == 0):
                    return None
                return arithmetic(operator, a, b)
            case Function(name, arguments):
                values = [self._value(each, drawn) for each in arguments]
                known = [value for value in values if value is not None]
                enough = bool(known) if name in ("smallest", "largest") else len(known) == len(values)
                return _function(name, known) if enough else None
            case KeyOf():
                raise TypeError("a key is not a number")

    def _on_grid(self, chosen: Chosen, place: int) -> Fraction:
        measure = self.measures[chosen.measure]
        assert isinstance(measure, Spread)
        return (measure.clamp.least + place) * measure.clamp.step

    def interval(self, expression: Expression, drawn: Sequence[Sequence[int]], tail: Fraction) -> Ends:
        """Ends that miss the noiseless value with probability at most `tail`."""
        return self.reader(expression, tail)(drawn)

    def reader(self, expression: Expression, tail: Fraction) -> Reader:
        """The same as a function of the released integers: what does not depend on them is done once."""
        return self._reader(self._scaled(expression), tail)

    def _reader(self, expression: Expression, tail: Fraction) -> Reader:
        if (released := unbounded(expression)) != expression:
            return self._bounded_reader(expression, self._reader(released, tail))
        if isinstance(expression, Mean):
            return self._mean_reader(expression, tail)
        if isinstance(expression, Chosen):
            return self._chosen_reader(expression, tail)
        if isinstance(expression, Function):
            return self._function_reader(expression, tail)
        linear, ratio = self.linear(expression), self._ratio(expression)
        if linear is not None:
            radius = self.radius(linear.weights, tail)

            off = cut_reader(self.cut, self.whole, linear, tail)
            bare = None if off is None else self._as_drawn(expression)

            def around(drawn: Sequence[Sequence[int]]) -> Ends:
                middle = linear.at(drawn)
                reach = radius if off is None else beside(radius, off(drawn))
                low = middle - reach
                if bare is not None:  # a cap takes away, and adds nothing
                    low = max(low, bare.at(drawn) - radius)
                return float_down(low), float_up(middle + reach)

            return around
        if ratio is not None:
            return mixed_reader(self.cut, self.whole, *ratio, self._fieller(*ratio, tail), tail)
        if (central := central_of(expression)) is not None:
            return central_reader(self._known, central, tail)
        if (correlation := correlation_of(expression)) is not None:
            return correlation_reader(self._known, correlation, tail)
        assert isinstance(expression, Arithmetic)
        left, right = self._readers((expression.left, expression.right), tail)
        return lambda drawn: combined(expression.operator, left(drawn), right(drawn))

    def _bounded_reader(self, expression: Expression, bare: Reader) -> Reader:
        """The ends without bounds, as far as the bounds allow; and the number itself between them."""
        least, most = sure(expression)

        def within(drawn: Sequence[Sequence[int]]) -> Ends:
            low, high = (min(max(end, least), most) for end in bare(drawn))
            value = self._value(expression, drawn)
            return (low, high) if value is None else (min(low, float_down(value)), max(high, float_up(value)))

        return within

    @property
    def _known(self) -> Known:
        laws = [None if law is None else self._law(Released(i, 0)) for i, law in enumerate(self.noises)]
        return Known(self._mean, self._mean_reader, self.radius, self._box_radius, tuple(laws))

    def _readers(self, expressions: Sequence[Expression], tail: Fraction) -> list[Reader]:
        """Readers that all hold at once: each part gets its share of the error probability."""
        parts = [self._parts(each) for each in expressions]
        whole = max(sum(parts), 1)
        return [
            self._reader(e, tail * part / whole if part else tail)
            for e, part in zip(expressions, parts, strict=True)
        ]

    def _chosen_reader(self, chosen: Chosen, tail: Fraction) -> Reader:
        """The ends that were drawn with a quantile; they hold all at once with a chance that is fixed."""
        measure = self.measures[chosen.measure]
        assert isinstance(measure, Spread)
        least, most = (self._on_grid(chosen, cell) for cell in (0, measure.cells - 1))
        low, high, middle = chosen.low, chosen.high, chosen.place
        assert low is not None
        assert high is not None

        def within(drawn: Sequence[Sequence[int]]) -> Ends:
            if tail < LEVEL:
                return float_down(least), float_up(most)
            cells = [drawn[chosen.measure][place] for place in (low, high, middle)]
            return (
                float_down(self._on_grid(chosen, min(cells))),
                float_up(self._on_grid(chosen, max(cells))),
            )

        return within

    def _function_reader(self, function: Function, tail: Fraction) -> Reader:
        readers, name = self._readers(function.arguments, tail), function.name
        divides = [name in ("smallest", "largest") and _divides(each) for each in function.arguments]
        if not any(divides):
            return lambda drawn: function_ends(name, [reader(drawn) for reader in readers])
        return lambda drawn: _left_out(name, [reader(drawn) for reader in readers], divides)

    def _mean_reader(self, mean: Mean, tail: Fraction) -> Reader:
        top, bottom = self._mean(mean)
        enough, ratio = self.radius(bottom.weights, tail), self._fieller(top, bottom, tail)
        ratio = mixed_reader(self.cut, self.whole, top, bottom, ratio, tail)
        floor, ceiling = float_down(mean.low), float_up(mean.high)

        def within(drawn: Sequence[Sequence[int]]) -> Ends:
            if bottom.at(drawn) <= enough:  # there may be no rows at all: the mean can be anything
                return floor, ceiling
            low, high = ratio(drawn)
            return min(max(low, floor), ceiling), min(max(high, floor), ceiling)

        return within

    def width(self, expression: Expression, tail: Fraction) -> Fraction | None:
        """Half the width of the interval where it is the same for every release, else None."""
        linear = self.linear(unbounded(expression))
        return None if linear is None else self.radius(linear.weights, tail)

    def radius(self, weights: Mapping[Released, Fraction], tail: Fraction) -> Fraction:
        """A number that the weighted noise passes with probability at most `tail`."""
        return self._radius(weights, tail, lambda ratio: (below(ratio), above(ratio)))

    def _radius(
        self,
        weights: Mapping[Released, Fraction],
        tail: Fraction,
        around: Callable[[float], tuple[float, float]],
    ) -> Fraction:
        """`around` says for which range of ratios of two weights the radius shall hold."""
        terms: list[tuple[Fraction, Noise]] = []
        for released, weight in weights.items():
            noise = self._law(released)
            if weight and noise is not SILENT:
                terms.append((abs(weight), noise))
        union = self._union(terms, tail / self.times) * self.times
        if len(terms) * self.times < 2:
            return union
        terms.sort(key=lambda term: -term[0])
        (a, first), *others = terms
        ranges = [around(float(b / a)) for b, _ in others]
        if len(others) == 1 and self.times == 1:
            return min(Fraction(_pair(first, others[0][1], tail, *ranges[0])) * a, union)
        laws = ((first, 1.0, 1.0), *((noise, *ends) for (_, noise), ends in zip(others, ranges, strict=True)))
        return min(Fraction(_several(laws, _at_least(self.times), tail)) * a, union)

    def _union(self, terms: list[tuple[Fraction, Noise]], tail: Fraction) -> Fraction:
        share = tail / max(len(terms), 1)
        return sum((weight * noise.window(share)[-1] for weight, noise in terms), Fraction(0))

    def linear(self, expression: Expression) -> Linear | None:
        """The number as a weighted sum of released integers, with what is added back; None if it is none."""
        match expression:
            case Number(value):
                return Linear(value, {})
            case Weighted(terms):
                return Linear(Fraction(0), self._weights(terms))
            case Arithmetic(operator, left, right):
                a, b = self.linear(left), self.linear(right)
                if a is None or b is None:
                    return None
                if operator in "+-":
                    return a.plus(b, Fraction(1 if operator == "+" else -1))
                if operator == "*" and not a.weights:
                    return NOTHING.plus(b, a.constant)
                if operator == "*" and not b.weights:
                    return NOTHING.plus(a, b.constant)
                if operator == "/" and not b.weights and b.constant:
                    return NOTHING.plus(a, 1 / b.constant)
        return None

    def _ratio(self, expression: Expression) -> tuple[Linear, Linear] | None:
        if linear := self.linear(expression):
            return linear, ONE
        match expression:
            case Mean():
                return self._mean(expression)
            case Arithmetic("/", left, right):
                a, b = self.linear(left), self.linear(right)
                if a is not None and b is not None:
                    return a, b
        if isinstance(expression, Arithmetic):
            return self._ratio_and_number(expression)
        return None

    def _mean(self, mean: Mean) -> tuple[Linear, Linear]:
        top, bottom = self.linear(mean.total), self.linear(mean.count)
        assert top is not None
        assert bottom is not None
        return top, bottom

    def _ratio_and_number(self, expression: Arithmetic) -> tuple[Linear, Linear] | None:
        """A ratio with a number added, taken off, multiplied or divided; a mean's bounds must not be lost."""
        left, right = expression.left, expression.right
        number = self.linear(right)
        if number is not None and not number.weights and not isinstance(left, Mean):
            ratio, constant = self._ratio(left), number.constant
            if ratio is None:
                return None
            top, bottom = ratio
            match expression.operator:
                case "+":
                    return top.plus(bottom, constant), bottom
                case "-":
                    return top.plus(bottom, -constant), bottom
                case "*":
                    return NOTHING.plus(top, constant), bottom
                case "/" if constant:
                    return NOTHING.plus(top, 1 / constant), bottom
        number = self.linear(left)
        if (
            number is not None
            and not number.weights
            and expression.operator == "*"
            and not isinstance(right, Mean)
        ):
            ratio = self._ratio(right)
            return None if ratio is None else (NOTHING.plus(ratio[0], number.constant), ratio[1])
        return None

    def _parts(self, expression: Expression) -> int:
        """Into how many parts the error probability must be split."""
        if isinstance(expression, Number):
            return 0
        if isinstance(expression, (Mean, Chosen)) or self._ratio(expression):
            return 1
        if central_of(expression) or correlation_of(expression):
            return 1
        if isinstance(expression, Function):
            return sum(self._parts(each) for each in expression.arguments)
        assert isinstance(expression, Arithmetic)
        return self._parts(expression.left) + self._parts(expression.right)

    def _fieller(self, top: Linear, bottom: Linear, tail: Fraction) -> Reader:
        """The ratios r with |A - rB| <= radius of the noise of A - rB.

        The ends solve r = A/B +- radius(r)/|B|; iterating that comes there because the radius grows with |r|
        at most as fast as B's own radius, which is below |B| or else the answer is the whole line. An end is
        returned only after it was seen to lie outside the set.
        """
        least = self.radius(bottom.weights, tail)
        try:
            terms = self._floats(top, bottom)
        except OverflowError:
            return lambda _: WHOLE
        share = tail / max(len(terms) * self.times, 1)
        reaches = [noise.window(share)[-1] * self.times for _, _, noise in terms]

        def half(r: float) -> float:
            weights = [(abs(a - r * c) + TRIFLE * (abs(a) + abs(r * c)), noise) for a, c, noise in terms]
            union = sum(weight * reach for (weight, _), reach in zip(weights, reaches, strict=True))
            return self._float_radius(weights, union, tail)

        def end(estimate: float, size: float, sign: int) -> float | None:
            reach = half(estimate) / size
            for _ in range(100):
                reach *= float(SLACK)
                needed = half(estimate + sign * reach) / size
                if needed * (1 + TRIFLE) <= reach:  # |A - rB| is not below the radius any more: r is outside
                    return estimate + sign * reach
                reach = needed
            return None

        def within(drawn: Sequence[Sequence[int]]) -> Ends:
            b = bottom.at(drawn)
            if abs(b) <= least:
                return WHOLE
            try:
                estimate, size = float(top.at(drawn) / b), abs(float(b))
            except OverflowError:
                return WHOLE
            low, high = end(estimate, size, -1), end(estimate, size, +1)
            slack = abs(estimate) * TRIFLE  # the estimate itself was rounded
            return (
                -math.inf if low is None else below(low - slack),
                math.inf if high is None else above(high + slack),
            )

        return within

    def _box_radius(
        self, laws: Sequence[Noise], sizes: tuple[NDArray[np.float64], NDArray[np.float64]], tail: Fraction
    ) -> float:
        """As `_radius`, for all weights whose sizes lie between the two that are given."""
        share = tail / (len(laws) * self.times)
        union = sum(float(high) * law.window(share)[-1] for law, high in zip(laws, sizes[1], strict=True))
        order = np.argsort(-sizes[1])
        most = float(sizes[1][order[0]])
        if not most:
            return 0.0
        ranges = [_range_outward(sizes[0][i] / most, sizes[1][i] / most) for i in order]
        several = _several(
            tuple((laws[i], *ends) for i, ends in zip(order, ranges, strict=True)),
            _at_least(self.times),
            tail,
        )
        return above(min(several * most, union * self.times * (1 + TRIFLE)))

    def _floats(self, top: Linear, bottom: Linear) -> list[tuple[float, float, Noise]]:
        """The weights of both for every released integer, and its noise."""
        found = []
        for released in dict.fromkeys((*top.weights, *bottom.weights)):
            noise = self._law(released)
            if noise is SILENT:
                continue
            weights = (float(each.weights.get(released, Fraction(0))) for each in (top, bottom))
            found.append((*weights, noise))
        return found  # type: ignore[return-value]  # two floats and a law

    def _float_radius(self, terms: list[tuple[float, Noise]], union: float, tail: Fraction) -> float:
        """As `_radius`, in floats: for the many weights that a ratio is tried with."""
        kept = sorted((term for term in terms if term[0]), key=lambda term: -term[0])
        if len(kept) * self.times < 2:
            return above(union)
        (a, first), *others = kept
        if len(others) == 1 and self.times == 1:
            ratio, second = others[0][0] / a, others[0][1]
            if closed := _laplace_pair(first, second, float(tail), ratio):
                return above(min(closed * a, union))
        ranges = [_range_around(b / a) for b, _ in others]
        if len(others) == 1 and self.times == 1:
            return above(min(_pair(first, others[0][1], tail, *ranges[0]) * a, union))
        laws = ((first, 1.0, 1.0), *((noise, *ends) for (_, noise), ends in zip(others, ranges, strict=True)))
        return above(min(_several(laws, _at_least(self.times), tail) * a, union))


def _range_around(ratio: float) -> tuple[float, float]:
    """A narrow range that holds the ratio: many ratios share one, so its radius is computed once."""
    if ratio < 2**-20:  # the lighter term hardly matters any more
        return 0.0, 2.0**-20
    knot = math.floor(math.log2(ratio) * KNOTS)
    return min(2 ** (knot / KNOTS), ratio), max(2 ** ((knot + 1) / KNOTS), ratio)


def _range_outward(low: float, high: float) -> tuple[float, float]:
    """The range, widened to knots: many ranges share one, so its radius is computed once."""
    if high < 2**-20:
        return 0.0, 2.0**-20
    up = math.ceil(math.log2(high) * 2 * KNOTS) / (2 * KNOTS)
    down = 0.0 if low < 2**-20 else 2 ** (math.floor(math.log2(low) * 2 * KNOTS) / (2 * KNOTS))
    return min(down, low), max(2**up, high)


def _function(name: str, values: list[Fraction]) -> Fraction | None:
    match name:
        case "square":
            return values[0] ** 2
        case "root":
            return None if values[0] < 0 else Fraction(math.sqrt(values[0]))
        case "abs":
            return abs(values[0])
        case "floor":
            return Fraction(math.floor(values[0]))
        case "ceil":
            return Fraction(math.ceil(values[0]))
        case "round":
            ten = Fraction(10) ** int(values[1])
            return (
                Fraction(math.floor(abs(values[0]) * ten + Fraction(1, 2)))
                / ten
                * (-1 if values[0] < 0 else 1)
            )
        case "even":
            return Fraction(round(values[0]))
        case "entropy":
            return entropy(values)
        case "least" | "smallest":
            return min(values)
    return max(values)


def _divides(expression: Expression) -> bool:
    """Whether it has no value where something it divides by is zero."""
    match expression:
        case Arithmetic(operator, left, right):
            return (operator == "/" and not isinstance(right, Number)) or _divides(left) or _divides(right)
        case Function(_, arguments):
            return any(map(_divides, arguments))
    return False


def _left_out(name: str, ends: list[Ends], divides: list[bool]) -> Ends:
    """The least or the greatest of what there is, where a quotient may have no value and is left out then: if
    nothing is known about it, not even that its divisor is not zero."""
    surely = [
        each
        for each, may in zip(ends, divides, strict=True)
        if not may or not (each == (-1.0, 1.0) or math.isinf(each[0]) or math.isinf(each[1]))
    ]
    low, high = function_ends(name, ends)
    if len(surely) == len(ends):
        return low, high
    if name == "smallest":
        return low, min((each[1] for each in surely), default=max(each[1] for each in ends))
    return max((each[0] for each in surely), default=min(each[0] for each in ends)), high


def _at_least(times: int) -> int:
    """So many draws or a few more, of which there are eight numbers in every octave: more draws of symmetric
    noise only pass a bound more often, and what was found for one number serves for others."""
    step = 1 << max(times.bit_length() - 4, 0)
    return -(-times // step) * step


@lru_cache(maxsize=4096)
def _several(laws: tuple[tuple[Noise, float, float], ...], times: int, tail: Fraction) -> float:
    """A t with P(|sum of weight * noise| > t) <= tail, for symmetric laws, each drawn so many times.

    The weights are any in the ranges that stand beside the laws. Each law is summed into blocks of one common
    width, every block moved to its upper end and weighted as is worst, which only makes large sums more
    likely; then the blocks are convolved. What the windows leave out is added.
    """
    spared = tail / (1 << 12) / times
    windows = [noise.window(spared)[-1] * high for noise, _, high in laws]
    # each draw is moved by up to one block: the more draws, the smaller blocks
    fine = max(min(math.isqrt(times), FINEST // len(laws)), 1)
    width = max(2 * max(windows) / (GRID * fine), 1e-300)
    total: NDArray[np.float64] = np.ones(1)
    start = 0
    for (noise, low, high), reach in zip(laws, windows, strict=True):
        first, last = math.floor(-reach / width) - 1, math.ceil(reach / width)
        blocks = np.arange(first, last + 1, dtype=np.float64) * np.float64(width)
        # a positive draw weighs most by the larger weight, a negative one by the smaller
        edges = np.where(blocks > 0, blocks / high, blocks / max(low, TINY))
        edges[0] = -HUGE  # whatever lies lower is moved up into the lowest block
        beyond = noise.tails(edges)
        masses = np.maximum(beyond[:-1] - beyond[1:], 0.0)  # of (edge, next edge], moved to the next edge
        total = np.convolve(total, masses)
        start += first + 1
    rest, surely = float(spared) * times * len(laws), math.inf
    if times > 1:
        beyond_ends = float(tail) / (1 << 20)
        room = math.log(2 / (float(tail) - 2 * rest))
        surely = max(chernoff(total, start, times, room, 1) * width * (1 + TRIFLE), 0.0)
        power = repeated(total, start, times, beyond_ends)
        if power is None:
            return surely
        total, start = power
        rest += beyond_ends + times * FOURIER
    upper = np.cumsum(total[::-1])[::-1]  # the chance of this block or a higher one
    room = (float(tail) - 2 * rest) / 2
    within = np.flatnonzero(upper <= room)
    cells = int(within[0]) if len(within) else len(upper)
    return min(max((start + cells) * width, 0.0), surely)


def _laplace_pair(first: Noise, second: Noise, tail: float, c: float) -> float | None:
    """A t with P(|X + cY| > t) <= tail for wide two-sided geometric laws; None for others.

    X is floor or ceiling of a Laplace variable of the same scale, if both are quantiles of one number: its
    tail a^k/(1 + a) lies between those of Laplace at k and at k - 1, which are a^k/2 and a^(k-1)/2. So the
    sum is within 1 + c of that of Laplace variables, of scales p > q say, which passes t with probability
    (p^2 exp(-t/p) - q^2 exp(-t/q)) / (p^2 - q^2): their characteristic function splits into these fractions.
    """
    if not isinstance(first, DiscreteLaplace) or not isinstance(second, DiscreteLaplace):
        return None
    q, p = sorted((float(first.scale), c * float(second.scale)))
    p = max(p, 1.001 * q)  # a wider law passes t more often; nearer scales would cancel
    share = 1 / (1 - (q / p) ** 2)
    bottom, top = 0.0, -p * math.log(min(tail / share, 1.0))
    while top - bottom > 2e-4 * top:
        middle = (bottom + top) / 2
        beyond = share * math.exp(-middle / p) - (share - 1) * (math.exp(-middle / q) if q else 0.0)
        bottom, top = (bottom, middle) if beyond <= tail * (1 - 1e-9) else (middle, top)
    return top + 1 + c if 1 + c <= top / 1000 else None


@lru_cache(maxsize=4096)
def _pair(first: Noise, second: Noise, tail: Fraction, low: float, high: float) -> float:
    """A t with P(|first + c second| > t) <= tail for every c from `low` to `high`, both laws symmetric.

    P(X + cY > t) is summed over blocks of Y, each taken where it comes nearest to t, with the c that brings
    it nearest: an upper bound. A block is a 2048th of the window of Y; what the window leaves out is added.
    """
    if closed := _laplace_pair(first, second, float(tail), high):
        return closed
    window = second.window(tail / (1 << 20))
    size = window.stop - window.start
    width = max(1, -(-size // BLOCKS))
    edges = float(window.start - 1) + float(width) * np.arange(-(-size // width) + 1, dtype=np.float64)
    beyond = second.tails(edges)
    masses, nearest = beyond[:-1] - beyond[1:], np.floor(edges[1:])
    reach = np.where(nearest > 0, high, low) * nearest
    rest = float(tail) / (1 << 20)

    def miss(t: float) -> float:
        return 2 * (float((masses * first.tails(t - reach)).sum()) + rest)

    widest = float(second.window(tail / 2)[-1] + width)
    bottom, top = 0.0, float(first.window(tail / 2)[-1]) + high * widest + 1  # the union bound holds
    while top - bottom > 5e-4 * top:
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if miss(middle) <= float(tail) else (middle, top)
    return top
