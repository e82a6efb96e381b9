"""Weighted sums of released integers, and what reads an interval from a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.queries.shown import Released

Ends = tuple[float, float]
Reader = Callable[["Sequence[Sequence[int]]"], Ends]  # from what was released for a group to an interval


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + sum of weight * released integer."""

    constant: Fraction
    weights: Mapping[Released, Fraction]

    def at(self, drawn: Sequence[Sequence[int]]) -> Fraction:
        """Its value for released integers."""
        terms = (weight * drawn[r.measure][r.place] for r, weight in self.weights.items())
        return self.constant + sum(terms, Fraction(0))

    def plus(self, other: Linear, factor: Fraction) -> Linear:
        """self + factor * other."""
        weights = dict(self.weights)
        for released, weight in other.weights.items():
            weights[released] = weights.get(released, Fraction(0)) + factor * weight
        kept = {released: weight for released, weight in weights.items() if weight}
        return Linear(self.constant + factor * other.constant, kept)
