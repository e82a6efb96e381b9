"""Pairing audits: every mechanism of ours, on neighbours that attain what it claims.

Each entry is audited twice. Its law is compared with its bound without sampling, which sees any bound that
is too small; its draws are audited as those of a stranger, which sees a sampler that is not its law. A test
finds mechanisms by reflection and fails when one has no entry here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

from sfumato.attacks.audit import Audit, audit, exactly
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.mechanisms import (
    Conversation,
    Cube,
    Distance,
    Distances,
    Exponential,
    Gaussian,
    Geometric,
    Mechanism,
    Modes,
    NoisyMax,
    OnGrid,
    Partition,
    PermuteAndFlip,
    QuantileIntervals,
    Quantiles,
    RandomizedResponse,
    Renormalised,
    SmoothMedian,
    SparseVector,
    Staircase,
    Step,
    Table,
    TopK,
    Truncated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ONE, HALF = Fraction(1), Fraction(1, 2)
SINGLE = Distance(l0=1, linf=ONE)
EACH = Distance(linf=ONE)  # every part may move by one
COME = Distance(linf=ONE, monotone=True)  # all that move do so in the same direction
SLOW = 25  # a draw that cannot be made in bulk takes so many times as long


@dataclass(frozen=True, slots=True)
class Pairing:
    """A mechanism and two neighbouring answers at a distance."""

    mechanism: Mechanism[Any, Any] | Conversation[Any, Any, Any]
    zero: Any
    one: Any
    distance: Distance
    delta: Fraction = Fraction(0)
    outcomes: Iterable[Any] | None = None  # that matter, where the law does not list them

    @property
    def claim(self) -> Fraction:
        """The epsilon that the mechanism proves at this delta."""
        step = Step(self.mechanism, Distances(self.distance, self.distance))
        proved = self.mechanism.bound(self.distance)
        if proved.epsilon is not None and proved.delta <= self.delta:
            return proved.epsilon
        return PrivacyLoss.of((step,)).epsilon(self.delta)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return self.mechanism.name


def entries() -> list[Pairing]:
    """One or more for every mechanism there is."""
    geometric, grid = Geometric(scale=ONE), Geometric(scale=Fraction(4))
    least = (Fraction(0), Fraction(11), Fraction(3), Fraction(9))
    return [
        Pairing(geometric, (0,), (1,), SINGLE),
        Pairing(geometric, (0, 0), (1, 1), Distance(l0=2, linf=ONE), outcomes=_cube(2, -3, 4)),
        Pairing(Gaussian(sigma_squared=Fraction(2)), (0,), (1,), SINGLE, delta=Fraction(1, 1000)),
        Pairing(Staircase(epsilon=ONE, width=3, flat=1), (0,), (3,), Distance(l0=1, linf=Fraction(3))),
        Pairing(Cube(scale=ONE), (0, 0), (1, 1), EACH, outcomes=_cube(2, -3, 4)),
        Pairing(Truncated(core=geometric, low=0, high=4), (0,), (1,), SINGLE, outcomes=_cube(1, 0, 4)),
        Pairing(Truncated(core=geometric, low=0, high=4), (-7,), (1,), Distance(l0=1, linf=Fraction(8)),
              outcomes=_cube(1, 0, 4)),
        Pairing(Renormalised(scale=ONE, low=0, high=3), 0, 1, SINGLE, outcomes=range(4)),
        Pairing(OnGrid(core=grid, bits=2), (Fraction(0),), (ONE,), SINGLE,
              outcomes=[(Fraction(y, 4),) for y in range(-20, 21)]),
        Pairing(OnGrid(core=grid, bits=2), (Fraction(1, 8),), (Fraction(1, 4),),
              Distance(l0=1, linf=Fraction(1, 8)), outcomes=[(Fraction(y, 4),) for y in range(-20, 21)]),
        Pairing(Exponential(scale=Fraction(2)), (0, 3), (1, 2), EACH, outcomes=range(2)),
        Pairing(Exponential(scale=ONE), (0, 9, 9), (1, 9, 9), COME, outcomes=range(3)),
        Pairing(PermuteAndFlip(scale=Fraction(2)), (0, 3), (1, 2), EACH, outcomes=range(2)),
        Pairing(PermuteAndFlip(scale=ONE), (0, 5), (1, 5), COME, outcomes=range(2)),
        Pairing(NoisyMax(scale=Fraction(2)), (0, 3), (1, 2), EACH, outcomes=range(2)),
        Pairing(NoisyMax(scale=ONE), (0, 30), (1, 30), COME, outcomes=range(2)),
        Pairing(TopK(scale=Fraction(4), count=2), (0, 0, 3, 3), (1, 1, 2, 2), EACH,
              outcomes=list(permutations(range(4), 2))),
        Pairing(TopK(scale=Fraction(4), count=2), (0, 0, 40, 40), (1, 1, 39, 39), EACH,
              outcomes=list(permutations(range(4), 2))),
        Pairing(Partition(epsilon=ONE, delta=Fraction(1, 1000)), (3,), (4,), SINGLE, delta=Fraction(1, 1000),
              outcomes=[(0,), (1,)]),
        Pairing(Quantiles(cells=203, targets=((HALF, Fraction(7, 2), Fraction(4)),)), (8, 8, *[0] * 200, 8),
              (8, 8, *[0] * 200, 9), Distance(l1=ONE), outcomes=_cube(1, 0, 202)),
        Pairing(QuantileIntervals(cells=203, targets=(least,)), (8, 3, *[0] * 201), (9, 3, *[0] * 201),
              Distance(l1=ONE), outcomes=[(j, 0, j) for j in range(203)]),
        Pairing(QuantileIntervals(cells=4, targets=((HALF, Fraction(0), ONE, ONE, ONE, ONE),)), (0, 1, 1, 9),
              (0, 2, 1, 9), Distance(l1=ONE),
              outcomes=[y for y in _cube(3, 0, 3) if y[1] <= y[0] <= y[2]]),
        Pairing(Modes(cells=2, scale=ONE), (0, 40), (1, 40), Distance(l1=ONE), outcomes=[(0,), (1,)]),
        Pairing(Table.geometric(ratio=HALF, size=4), 0, 3, EACH),
        Pairing(RandomizedResponse(keep=Fraction(3, 4)), 0, 1, SINGLE),
        Pairing(RandomizedResponse(keep=HALF, size=5), 0, 4, SINGLE),
        Pairing(SmoothMedian(epsilon=ONE, delta=Fraction(1, 1000), low=0, high=10, size=5),
              (0, 0, 0, 10, 10), (0, 0, 10, 10, 10), Distance(l0=1), delta=Fraction(1, 1000),
              outcomes=_cube(1, -400, 400)),
        Pairing(SparseVector(threshold=2, threshold_scale=Fraction(2), answer_scale=Fraction(4), limit=1),
              (0, 0, 0, 1), (1, 1, 1, 0), EACH),
        Pairing(SparseVector(threshold=2, threshold_scale=Fraction(2), answer_scale=Fraction(4), limit=2),
              (0, 0, 1, 1), (1, 1, 1, 1), COME),
    ]  # fmt: skip


def audits(
    *,
    samples: int = 1_000_000,
    confidence: float = 0.99,
    watch: Callable[[float], None] = lambda _: None,
) -> list[Audit]:
    """What is found of every entry: from its law, then from its draws.

    `confidence` is that of all bounds together: each one's chance to be wrong is its part of the rest.
    """
    chosen = entries()
    each = 1 - (1 - confidence) / len(chosen)
    found = []
    for i, entry in enumerate(chosen):
        found += from_law(entry)
        found.append(drawn(entry, samples=samples, confidence=each))
        watch((i + 1) / len(chosen))
    return found


def drawn(entry: Pairing, *, samples: int, confidence: float) -> Audit:
    """What its draws show."""
    fast = isinstance(entry.mechanism, (Geometric, Gaussian, Staircase))
    found = audit(
        entry.mechanism,
        entry.zero,
        entry.one,
        claim=entry.claim,
        delta=float(entry.delta),
        samples=samples if fast else max(2000, samples // SLOW),
        confidence=confidence,
    )
    return replace(found, subject=f"{entry.name} (its draws)")


def from_law(entry: Pairing) -> list[Audit]:
    """What its law shows; nothing, if it has none."""
    if not isinstance(entry.mechanism, Mechanism):
        return []
    pair, claim = (entry.zero, entry.one), entry.claim
    found = exactly(entry.mechanism, *pair, claim=claim, delta=entry.delta, outcomes=entry.outcomes)
    return [replace(found, subject=f"{entry.name} (its law)")]


def _cube(size: int, low: int, high: int) -> list[tuple[int, ...]]:
    return list(product(range(low, high + 1), repeat=size))
