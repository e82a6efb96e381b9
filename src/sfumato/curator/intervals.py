"""How wrong a released number may be, from the law of its noise (law 12).

A column of a result is arithmetic on released measures. Three cases, from sharp to safe:

* a weighted sum of measures: one measure has the exact interval of its noise; two have the interval of their
  convolution; three or more that of the union bound;
* a ratio of two weighted sums A/B: Fieller's set. For the true ratio r the noise of A - rB is a weighted sum
  with a known law, whatever A and B are, so {r : |A - rB| <= radius(r)} covers the truth with the stated
  probability. It is the whole line when B may be zero;
* anything else: each part of the first two kinds gets its share of the error probability, and interval
  arithmetic does the rest.

Nothing here touches the guarantee: it is post-processing of released numbers, so floats are allowed; where
they are used, they are rounded towards wider intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.exact.numbers import round_up
from sfumato.queries.plan import Arithmetic, Expression, KeyOf, Mean, Number, Released

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.calibrate import Query
    from sfumato.mechanisms import Line
    from sfumato.queries.plan import Plan

Ends = tuple[float, float]
Reader = Callable[
    ["Sequence[int]"], Ends
]  # from the released integers of one group to the ends of an interval
WHOLE: Ends = (-math.inf, math.inf)
BLOCKS = 2048  # the second law of a convolution is summed in at most this many blocks
KNOTS = 32  # ranges an octave, into which the ratio of two weights is sorted when it varies
SLACK = Fraction(501, 500)  # how far the search for an end steps beyond it


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + sum of weight * released integer."""

    constant: Fraction
    weights: Mapping[int, Fraction]

    def at(self, drawn: Sequence[int]) -> Fraction:
        """Its value for released integers."""
        return self.constant + sum(weight * drawn[i] for i, weight in self.weights.items())

    def plus(self, other: Linear, factor: Fraction) -> Linear:
        """self + factor * other."""
        weights = dict(self.weights)
        for i, weight in other.weights.items():
            weights[i] = weights.get(i, Fraction(0)) + factor * weight
        kept = {i: weight for i, weight in weights.items() if weight}
        return Linear(self.constant + factor * other.constant, kept)


NOTHING = Linear(Fraction(0), {})
ONE = Linear(Fraction(1), {})


@dataclass(frozen=True, slots=True)
class Errors:
    """The noise of one release: a law and a step for every measure."""

    noises: tuple[Line, ...]
    steps: tuple[Fraction, ...]

    @classmethod
    def of(cls, plan: Plan, query: Query) -> Errors:
        """The noise that a query adds to the measures of a plan."""
        noises = tuple(step.mechanism.noise for step in query.columns)
        return cls(noises, tuple(measure.step for measure in plan.measures))

    def value(self, expression: Expression, drawn: Sequence[int]) -> Fraction | None:
        """The number itself; None where it divides by zero."""
        match expression:
            case Number(value):
                return value
            case Released(i):
                return self.steps[i] * drawn[i]
            case Mean(total, count, centre, low, high):
                rows = max(self.steps[count] * drawn[count], Fraction(1))
                return min(max(centre + self.steps[total] * drawn[total] / rows, low), high)
            case Arithmetic(operator, left, right):
                a, b = self.value(left, drawn), self.value(right, drawn)
                if a is None or b is None or (operator == "/" and b == 0):
                    return None
                return (
                    a + b
                    if operator == "+"
                    else a - b
                    if operator == "-"
                    else a * b
                    if operator == "*"
                    else a / b
                )
            case KeyOf():
                raise TypeError("a key is not a number")

    def interval(self, expression: Expression, drawn: Sequence[int], tail: Fraction) -> Ends:
        """Ends that miss the noiseless value with probability at most `tail`."""
        return self.reader(expression, tail)(drawn)

    def reader(self, expression: Expression, tail: Fraction) -> Reader:
        """The same as a function of the released integers: what does not depend on them is done once."""
        if isinstance(expression, Mean):
            return self._mean_reader(expression, tail)
        linear, ratio = self._linear(expression), self._ratio(expression)
        if linear is not None:
            radius = self.radius(linear.weights, tail)

            def around(drawn: Sequence[int]) -> Ends:
                middle = linear.at(drawn)
                return _float_down(middle - radius), _float_up(middle + radius)

            return around
        if ratio is not None:
            return lambda drawn: self._fieller(*ratio, drawn, tail)
        assert isinstance(expression, Arithmetic)
        parts = [self._parts(side) for side in (expression.left, expression.right)]
        left = self.reader(expression.left, tail * parts[0] / sum(parts))
        right = self.reader(expression.right, tail * parts[1] / sum(parts))
        return lambda drawn: _combine(expression.operator, left(drawn), right(drawn))

    def _mean_reader(self, mean: Mean, tail: Fraction) -> Reader:
        top, bottom = self._mean(mean)
        enough = self.radius(bottom.weights, tail)
        floor, ceiling = _float_down(mean.low), _float_up(mean.high)

        def within(drawn: Sequence[int]) -> Ends:
            if bottom.at(drawn) <= enough:  # there may be no rows at all: the mean can be anything
                return floor, ceiling
            low, high = self._fieller(top, bottom, drawn, tail)
            return min(max(low, floor), ceiling), min(max(high, floor), ceiling)

        return within

    def width(self, expression: Expression, tail: Fraction) -> Fraction | None:
        """Half the width of the interval where it is the same for every release, else None."""
        linear = self._linear(expression)
        return None if linear is None else self.radius(linear.weights, tail)

    def radius(self, weights: Mapping[int, Fraction], tail: Fraction) -> Fraction:
        """A number that the weighted noise passes with probability at most `tail`."""
        return self._radius(weights, tail, lambda ratio: (_below(ratio), _above(ratio)))

    def _radius(
        self, weights: Mapping[int, Fraction], tail: Fraction, around: Callable[[float], tuple[float, float]]
    ) -> Fraction:
        """`around` says for which range of ratios of two weights the radius shall hold."""
        terms = [(abs(weight), self.noises[i]) for i, weight in weights.items() if weight]
        union = self._union(terms, tail)
        if len(terms) != 2:
            return union
        (a, first), (b, second) = sorted(terms, key=lambda term: -term[0])
        low, high = around(float(b / a))
        return min(Fraction(_pair(first, second, tail, low, high)) * a, union)

    def _union(self, terms: list[tuple[Fraction, Line]], tail: Fraction) -> Fraction:
        share = tail / max(len(terms), 1)
        return sum((weight * noise.window(share)[-1] for weight, noise in terms), Fraction(0))

    def _linear(self, expression: Expression) -> Linear | None:
        match expression:
            case Number(value):
                return Linear(value, {})
            case Released(i):
                return Linear(Fraction(0), {i: self.steps[i]})
            case Arithmetic(operator, left, right):
                a, b = self._linear(left), self._linear(right)
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
        if linear := self._linear(expression):
            return linear, ONE
        match expression:
            case Mean():
                return self._mean(expression)
            case Arithmetic("/", left, right):
                a, b = self._linear(left), self._linear(right)
                if a is not None and b is not None:
                    return a, b
        if isinstance(expression, Arithmetic):
            return self._ratio_and_number(expression)
        return None

    def _mean(self, mean: Mean) -> tuple[Linear, Linear]:
        rows = Linear(Fraction(0), {mean.count: self.steps[mean.count]})
        return Linear(Fraction(0), {mean.total: self.steps[mean.total]}).plus(rows, mean.centre), rows

    def _ratio_and_number(self, expression: Arithmetic) -> tuple[Linear, Linear] | None:
        """A ratio with a number added, taken off, multiplied or divided; a mean's bounds must not be lost."""
        left, right = expression.left, expression.right
        number = self._linear(right)
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
        number = self._linear(left)
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
        if isinstance(expression, Mean) or self._ratio(expression):
            return 1
        assert isinstance(expression, Arithmetic)
        return self._parts(expression.left) + self._parts(expression.right)

    def _fieller(self, top: Linear, bottom: Linear, drawn: Sequence[int], tail: Fraction) -> Ends:
        """The ratios r with |A - rB| <= radius of the noise of A - rB.

        The ends solve r = A/B +- radius(r)/|B|; iterating that comes there because the radius grows with |r|
        at most as fast as B's own radius, which is below |B| or else the answer is the whole line. An end is
        returned only after it was seen to lie outside the set.
        """
        b = bottom.at(drawn)
        if abs(b) <= self.radius(bottom.weights, tail):
            return WHOLE
        estimate = top.at(drawn) / b

        def half(r: Fraction) -> Fraction:
            return self._radius(top.plus(bottom, -r).weights, tail, _range_around) / abs(b)

        def end(sign: int) -> Fraction | None:
            reach = half(estimate)
            for _ in range(100):
                reach = round_up(reach * SLACK, 48)  # keeps fractions short
                needed = half(estimate + sign * reach)
                if needed <= reach:  # |A - rB| is not below the radius any more: r is outside the set
                    return estimate + sign * reach
                reach = needed
            return None

        low, high = end(-1), end(+1)
        return (
            -math.inf if low is None else _float_down(low),
            math.inf if high is None else _float_up(high),
        )


def _range_around(ratio: float) -> tuple[float, float]:
    """A narrow range that holds the ratio: many ratios share one, so its radius is computed once."""
    if ratio < 2**-20:  # the lighter term hardly matters any more
        return 0.0, 2.0**-20
    knot = math.floor(math.log2(ratio) * KNOTS)
    return min(2 ** (knot / KNOTS), ratio), max(2 ** ((knot + 1) / KNOTS), ratio)


@lru_cache(maxsize=4096)
def _pair(first: Line, second: Line, tail: Fraction, low: float, high: float) -> float:
    """A t with P(|first + c second| > t) <= tail for every c from `low` to `high`, both laws symmetric.

    P(X + cY > t) is summed over blocks of Y, each taken where it comes nearest to t, with the c that brings
    it nearest: an upper bound. A block is a 2048th of the window of Y; what the window leaves out is added.
    """
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


def _float_down(x: Fraction) -> float:
    """The largest float that is at most x."""
    try:
        near = float(x)
    except OverflowError:
        return -math.inf if x < 0 else math.nextafter(math.inf, 0)
    return near if math.isinf(near) or Fraction(near) <= x else math.nextafter(near, -math.inf)


def _float_up(x: Fraction) -> float:
    """The smallest float that is at least x."""
    return -_float_down(-x)


def _combine(operator: str, a: Ends, b: Ends) -> Ends:
    """Interval arithmetic in floats, one step outward after each operation."""
    if operator == "+":
        return _below(a[0] + b[0]), _above(a[1] + b[1])
    if operator == "-":
        return _below(a[0] - b[1]), _above(a[1] - b[0])
    if operator == "/":
        if b[0] <= 0 <= b[1]:
            return WHOLE
        return _combine("*", a, (_below(1 / b[1]), _above(1 / b[0])))
    corners = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return _below(min(corners)), _above(max(corners))


def _below(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _above(x: float) -> float:
    return math.nextafter(x, math.inf)
