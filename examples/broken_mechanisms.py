"""A gallery of broken mechanisms, each beside one that is right, and what an audit says of both.

Every one of these has been published, shipped or proposed. The auditor knows nothing of them but how to run
them.

Run: python examples/broken_mechanisms.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.audit import Audit, audit

if TYPE_CHECKING:
    from collections.abc import Callable

STOPPED = -1
DICE = np.random.default_rng(20)  # for what is broken anyway; ours draw from the system


@dataclass(frozen=True)
class Case:
    """Something that claims an epsilon, and two neighbouring inputs."""

    name: str
    what: str
    run: Callable[[Any, int], Any]
    zero: Any
    one: Any
    claim: float
    broken: bool
    samples: int = 400_000
    delta: float = 0.0


def geometric(scale: float, size: int | tuple[int, ...]) -> Any:
    """Two-sided geometric noise as a difference of two one-sided ones: exact enough for a lesson."""
    p = -math.expm1(-1 / scale)
    return DICE.geometric(p, size) - DICE.geometric(p, size)


def float_laplace(x: float, size: int) -> Any:
    """Adds a float to a float: the bits of the sum tell the summand."""
    return x + DICE.laplace(0, 1, size)


def inverse_laplace(x: float, size: int) -> Any:
    """The same from a uniform float by the inverse of the distribution function."""
    u = DICE.random(size) - 0.5
    return x - np.sign(u) * np.log1p(-2 * np.abs(u))


def right_laplace(x: float, size: int) -> Any:
    """Whole numbers only."""
    return int(x) + geometric(1, size)


def local_median(rows: tuple[int, ...], size: int) -> Any:
    """Noise scaled to the sensitivity of the median on *these* rows: none at all where they agree."""
    ordered = sorted(rows)
    middle = len(ordered) // 2
    local = max(ordered[middle] - ordered[middle - 1], ordered[middle + 1] - ordered[middle])
    return np.full(size, ordered[middle]) if local == 0 else ordered[middle] + geometric(local, size)


def global_median(rows: tuple[int, ...], size: int) -> Any:
    """Noise scaled to the range."""
    return sorted(rows)[len(rows) // 2] + geometric(10, size)


def sparse(
    answers: tuple[int, ...],
    size: int,
    *,
    threshold: float,
    noise: float,
    limit: int | None,
    show: bool = False,
) -> Any:
    """Above the threshold or not, for each answer, with a noisy threshold and noise on the answers.

    `limit` is after how many "above" it stops; `show` releases the noisy answer instead of "above".
    """
    level = DICE.laplace(0, threshold, (size, 1))
    noisy = np.array(answers) + (DICE.laplace(0, noise, (size, len(answers))) if noise else 0.0)
    above = noisy >= level
    said = np.where(above, np.round(noisy).astype(int) + 10, 0) if show else above.astype(np.int8)
    if limit is not None:
        before = np.cumsum(above, axis=1, dtype=np.int8) - above  # how often "above" was said before this one
        said[before >= limit] = STOPPED
    return said


def rejected(x: int, size: int) -> Any:
    """Noise drawn again until the result lies in 0 .. 3: renormalising depends on where the answer is."""
    found = x + geometric(1, 8 * size + 100)
    return found[(found >= 0) & (found <= 3)][:size]


def clamped(x: int, size: int) -> Any:
    """Everything beyond the ends counts as the end."""
    return np.clip(x + geometric(1, size), 0, 3)


def rounded_first(x: float, size: int) -> Any:
    """Rounds to tens, then adds noise for one: 4.5 and 5.5 lie ten apart."""
    return 10 * int(x / 10 + 0.5) + geometric(1, size)


def rounded_last(x: float, size: int) -> Any:
    """Noise first."""
    return (10 * np.round((int(x) + geometric(1, size)) / 10)).astype(int)


def replaced(x: int, size: int) -> Any:
    """A sum that one person moves by 2, with noise for 1."""
    return 2 * x + geometric(1, size)


def replaced_right(x: int, size: int) -> Any:
    """With noise for 2."""
    return 2 * x + geometric(2, size)


def gaussian(x: float, size: int, sigma: float = 4.2308) -> Any:
    """For (1, 10^-6) this sigma is needed; half of it is not enough."""
    return np.round(x + DICE.normal(0, sigma, size)).astype(int)


def renormalised(x: int, size: int) -> Any:
    """The geometric law cut to 0 .. 2 and scaled to 1 again: ln(16/7), not ln 2."""
    weights = 2.0 ** -np.abs(np.arange(3) - x)
    return DICE.choice(3, size, p=weights / weights.sum())


def truncated(x: int, size: int) -> Any:
    """The tails go to the ends: ln 2."""
    return np.clip(x + geometric(1 / math.log(2), size), 0, 2)


def telling_support(x: int, size: int) -> Any:
    """Only multiples of the answer, plus one, are ever shown."""
    return geometric(2, size) * (x + 1)


def same_stream(x: int, size: int) -> Any:
    """Two workers forked with the same generator: the difference of their releases has no noise."""
    first = geometric(1, size)
    return np.stack([first, x + first], axis=1)


def own_streams(x: int, size: int) -> Any:
    """Each with its own."""
    return np.stack([geometric(1, size), x + geometric(1, size)], axis=1)


LOW, HIGH = (0,) * 4 + (1,) * 4, (1,) * 4 + (0,) * 4
MANY, FEW = (0,) * 5, (1,) * 5
ROWS, OTHERS = (0, 0, 0, 0, 9), (0, 0, 9, 0, 9)
LONG, TURNED = (0,) * 10 + (1,) * 10, (1,) * 10 + (0,) * 10
LAST, FIRST = (0,) * 6 + (1,), (1,) * 6 + (0,)


def svt(**how: Any) -> Callable[[Any, int], Any]:
    return lambda answers, size: sparse(answers, size, **how)


GALLERY = [
    Case("float Laplace", "floats added", float_laplace, 0.0, 1.0, 1, True),
    Case("inverse Laplace", "floats by inversion", inverse_laplace, 0.0, 1.0, 1, True),
    Case("whole Laplace", "integers", right_laplace, 0, 1, 1, False),
    Case("local sensitivity", "noise that depends on the rows", local_median, ROWS, OTHERS, 1, True),
    Case("global sensitivity", "noise that does not", global_median, ROWS, OTHERS, 1, False),
    Case("sparse vector 3", "shows noisy answers", svt(threshold=2, noise=2, limit=1, show=True), LAST, FIRST,
         1, True, 400_000),
    Case("sparse vector 4", "too little noise on answers", svt(threshold=4, noise=4 / 3, limit=4), LOW, HIGH,
         0.5, True, 120_000),
    Case("sparse vector 5", "no noise on the answers", svt(threshold=2, noise=0, limit=None), LOW, HIGH,
         0.5, True, 60_000),
    Case("sparse vector 6", "no limit on how often", svt(threshold=4, noise=4, limit=None), LONG, TURNED,
         0.5, True, 120_000),
    Case("sparse vector", "stops after one of them", svt(threshold=4, noise=8, limit=1), FEW, MANY,
         0.5, False, 60_000),
    Case("rejection", "drawn again until it fits", rejected, 0, 1, 1, True),
    Case("clamping", "the ends take the rest", clamped, 0, 1, 1, False),
    Case("rounded first", "rounding moves neighbours apart", rounded_first, 4, 5, 1, True),
    Case("rounded last", "rounding what is released", rounded_last, 4, 5, 1, False),
    Case("sensitivity 2 for 1", "a person counted twice", replaced, 0, 1, 1, True),
    Case("sensitivity 2", "noise for both", replaced_right, 0, 1, 1, False),
    Case("half a Gaussian", "half the sigma it needs", lambda x, n: gaussian(x, n, 2.1), 0, 1, 1, True,
         4_000_000, 1e-6),
    Case("a Gaussian", "the sigma it needs", gaussian, 0, 1, 1, False, 1_000_000, 1e-6),
    Case("renormalised", "cut and scaled up", renormalised, 0, 1, math.log(2), True),
    Case("truncated", "cut, the tails kept", truncated, 0, 1, math.log(2), False),
    Case("support", "only some values possible", telling_support, 1, 2, 1, True),
    Case("one stream", "two workers, one generator", same_stream, 0, 1, 1, True),
    Case("two streams", "a generator each", own_streams, 0, 1, 1, False),
]  # fmt: skip


def audited(case: Case, confidence: float = 0.999999) -> Audit:
    """What an audit says of it: the same each time, since the dice start anew."""
    global DICE
    DICE = np.random.default_rng(20)
    return audit(
        case.run,
        case.zero,
        case.one,
        claim=case.claim,
        delta=case.delta,
        samples=case.samples,
        confidence=confidence,
    )


def main() -> None:
    print(f"  {'mechanism':<20} {'claim':>6}  {'at least':>8}  verdict      event")
    for case in GALLERY:
        found = audited(case)
        verdict = "REFUTED" if found.is_violated else "not refuted"
        print(
            f"  {case.name:<20} {case.claim:>6.3f}  {found.epsilon:>8.3f}  {verdict:<11}  {found.event[:60]}"
        )
    print(
        "\n  epsilon at least, with 99.9999% confidence. What is not refuted is not proved: read the proof."
    )


if __name__ == "__main__":
    main()
