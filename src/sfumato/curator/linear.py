"""Weighted sums of released integers, and what reads an interval from a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.queries.shown import Released

Ends = tuple[float, float]
Reader = Callable[["Sequence[Sequence[int]]"], Ends]  # from what was released for a group to an interval


class Noise(Protocol):
    """What is known of the law of a symmetric noise: that of a mechanism, or of a sum of its draws."""

    def __hash__(self) -> int:
        """Radii are remembered by laws."""

    def window(self, tail: Fraction) -> range:
        """A range around 0 that leaves at most tail/2 on either side."""

    def tails(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of being above each point, or more; it does not rise with them."""


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
