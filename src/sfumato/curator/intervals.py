"""How wrong a released number may be, from the law of its noise (law 12).

A column of a result is arithmetic on released measures. Three cases, from sharp to safe:

* a weighted sum of measures: one measure has the exact interval of its noise; two have the interval of the
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
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.queries.plan import Arithmetic, Expression, KeyOf, Mean, Number, Released

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.mechanisms import Line

Ends = tuple[float, float]
WHOLE: Ends = (-math.inf, math.inf)
BLOCKS = 4096  # the second law of a convolution is summed in at most this many blocks
KNOTS = 8  # per octave of the ratio of two weights
SLACK = 1.0005  # covers float rounding and the tolerance of the searches below


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
        if isinstance(expression, Mean):
            low, high = self._fieller(*self._mean(expression), drawn, tail)
            floor, ceiling = float(expression.low), float(expression.high)
            return min(max(low, floor), ceiling), min(max(high, floor), ceiling)
        if linear := self._linear(expression):
            middle, radius = linear.at(drawn), self.radius(linear.weights, tail)
            return float(middle - radius), float(middle + radius)
        if ratio := self._ratio(expression):
            return self._fieller(*ratio, drawn, tail)
        assert isinstance(expression, Arithmetic)
        left, right = self._parts(expression.left), self._parts(expression.right)
        a = self.interval(expression.left, drawn, tail * left / (left + right))
        b = self.interval(expression.right, drawn, tail * right / (left + right))
        return _combine(expression.operator, a, b)

    def radius(self, weights: Mapping[int, Fraction], tail: Fraction) -> Fraction:
        """A number that the weighted noise passes with probability at most `tail`."""
        terms = [(abs(weight), self.noises[i]) for i, weight in weights.items() if weight]
        if not terms:
            return Fraction(0)
        if len(terms) == 2:
            (a, first), (b, second) = terms
            share = Fraction(_pair(first, second, tail, float(b / a))) * a
            return min(share, self._union(terms, tail))
        return self._union(terms, tail)

    def width(self, expression: Expression, tail: Fraction) -> Fraction | None:
        """Half the width of the interval where it is the same for every release, else None."""
        linear = self._linear(expression)
        return None if linear is None else self.radius(linear.weights, tail)

    def _union(self, terms: list[tuple[Fraction, Line]], tail: Fraction) -> Fraction:
        share = tail / len(terms)
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

        The ends solve r = A/B +- radius(r)/|B|; iterating that converges because the radius grows with |r| at
        most as fast as B's own radius, which is below |B| or else the answer is the whole line.
        """
        b = bottom.at(drawn)
        if abs(b) <= self.radius(bottom.weights, tail):
            return WHOLE
        estimate = top.at(drawn) / b

        def half(r: Fraction) -> Fraction:
            return self.radius(top.plus(bottom, -r).weights, tail) / abs(b)

        def end(sign: int) -> float:
            r = estimate
            for _ in range(200):
                further = estimate + sign * half(r).limit_denominator(1 << 60)
                if abs(further - r) * 4096 <= abs(further - estimate):
                    return float(estimate + (further - estimate) * Fraction(SLACK))
                r = Fraction(float(further))  # floats keep the fractions short
            return sign * math.inf

        return end(-1), end(+1)


def _pair(first: Line, second: Line, tail: Fraction, ratio: float) -> float:
    """A radius for first + ratio * second, from two knots: the true one is convex in between."""
    if ratio > 1:
        return ratio * _pair(second, first, tail, 1 / ratio)
    # the lighter term hardly matters below 2^-20: one knot serves
    exponent = max(math.log2(ratio) if ratio > 0 else -20.0, -20.0)
    knot = math.floor(exponent * KNOTS)
    low, high = 2 ** (knot / KNOTS), 2 ** ((knot + 1) / KNOTS)
    at_low, at_high = _knot(first, second, tail, knot), _knot(first, second, tail, knot + 1)
    position = min(max((ratio - low) / (high - low), 0.0), 1.0)
    return (at_low + (at_high - at_low) * position) * SLACK


@lru_cache(maxsize=4096)
def _knot(first: Line, second: Line, tail: Fraction, knot: int) -> float:
    """The smallest t, up to a small step, with P(|first + ratio second| > t) <= tail, both symmetric.

    P(X + cY > t) is summed over blocks of Y, each taken at its end nearest to t: an upper bound. The blocks
    are a 4096th of the window of Y, which leaves out a mass of tail / 2^20 that is added again.
    """
    ratio = 2 ** (knot / KNOTS)
    window = second.window(tail / (1 << 20))
    width = max(1, -(-len(window) // BLOCKS))
    edges = np.arange(window.start - 1, window.stop + width, width, dtype=np.float64)
    beyond = second.tails(edges)
    masses, nearest = beyond[:-1] - beyond[1:], edges[1:]
    rest = float(tail) / (1 << 20)

    def miss(t: float) -> float:
        return 2 * (float((masses * first.tails(t - ratio * nearest)).sum()) + rest)

    low = 0.0
    high = float(first.window(tail / 2)[-1] + ratio * second.window(tail / 2)[-1]) + width
    while high - low > 2e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if miss(middle) <= float(tail) else (middle, high)
    return high


def _combine(operator: str, a: Ends, b: Ends) -> Ends:
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    if operator == "/":
        if b[0] <= 0 <= b[1]:
            return WHOLE
        return _combine("*", a, (1 / b[1], 1 / b[0]))
    corners = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)
