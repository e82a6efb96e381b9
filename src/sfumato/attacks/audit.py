"""A certified lower bound on the epsilon of anything that can be run.

Run it on two neighbouring inputs. On a first part of the outputs, cells are ordered by how much more often
one input falls into them than the other; on a second part, the best beginning of that order is chosen; that
event is then counted on the rest, which nobody has looked at. If one input falls into it with probability at
least p and the other with at most q, then epsilon is at least ln((p - delta) / q), and p and q are bounded
exactly.

Guarantee: the probability that the bound is above the true epsilon is at most 1 - confidence.
Proof: the event is fixed before the samples that test it are seen; Clopper and Pearson (1934) for either
count, each wrong with half of that chance. (Bichsel, Steffen, Bogunovic and Vechev, 2021, audit in this way.)
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.views import View, views_of
from sfumato.errors import InvalidParameter
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms.accuracy import proportion
from sfumato.mechanisms.mechanism import Additive, Finite, Mechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

Draws = Callable[[Any, int], Any]  # an input and a number of outputs wanted
LEARN = 0.05  # of the outputs teach the order of the cells, and as many choose the event
FEW = 200_000  # below so many, a quarter each
CHUNK = 1_000_000  # outputs drawn at a time


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What was found: epsilon is at least this, but for a chance of 1 - confidence."""

    epsilon: float
    delta: float
    confidence: float
    claim: float | None
    event: str
    likely: Any  # the input that falls into the event more often
    unlikely: Any
    counts: tuple[int, int]  # how often each did
    samples: int  # of either input, in the test
    drawn: int  # of either input, in all
    seconds: float
    exact: bool = False

    @property
    def is_violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.claim is not None and self.epsilon > self.claim

    def __repr__(self) -> str:
        how = "exactly" if self.exact else f"with {self.confidence:.4%} confidence"
        lines = [
            f"  epsilon is at least {self.epsilon:.4f} at delta {self.delta:g}, {how}",
            f"  event: {self.event}",
        ]
        if not self.exact:
            often, seldom = self.counts
            lines.append(
                f"  seen {often:,d} times in {self.samples:,d} on {self.likely!r}, {seldom:,d} times on "
                f"{self.unlikely!r} ({self.drawn:,d} outputs of each, {self.seconds:.1f} s)"
            )
        if self.claim is not None:
            verdict = "REFUTED" if self.is_violated else "not refuted"
            lines.append(f"  claim: epsilon {self.claim:g}: {verdict}")
        return "\n".join(lines)


def audit(
    subject: Mechanism[Any, Any] | Callable[..., Any],
    zero: Any = 0,
    one: Any = 1,
    *,
    claim: float | None = None,
    delta: float = 0.0,
    samples: int = 1_000_000,
    confidence: float = 0.99,
    watch: Callable[[float], None] = lambda _: None,
) -> Audit:
    """Look for an event that tells two neighbouring inputs apart.

    `subject` is a mechanism, a function of an input, or a function of an input and a number that returns so
    many outputs at once (much faster). `samples` is how many outputs are drawn, half of them for each input.
    `watch` is told how much is done.

    >>> audit(lambda x: x, 0, 1, samples=2000, claim=1).is_violated
    True
    """
    if not 0.5 <= confidence < 1 or not 0 <= delta < 1:
        raise InvalidParameter("confidence", confidence, "give a confidence such as 0.99 and a delta below 1")
    if samples < 100:
        raise InvalidParameter("samples", samples, "give at least 100; 1,000,000 see an epsilon to about 1%")
    begun, each = time.perf_counter(), samples // 2
    draws = _draws(subject)
    part = max(1, int(each * LEARN)) if each >= FEW else each // 4
    learned = draws(zero, part), draws(one, part)
    watch(part / each)
    chosen = draws(zero, part), draws(one, part)
    watch(2 * part / each)
    test = each - 2 * part
    event = _best_event(learned, chosen, delta, test, 1 - confidence)
    counts = [0, 0]
    for start in range(0, test, CHUNK):
        size = min(CHUNK, test - start)
        counts[0] += event.count(draws(zero, size))
        counts[1] += event.count(draws(one, size))
        watch((2 * part + start + size) / each)
    likely, unlikely = (zero, one) if event.towards_zero else (one, zero)
    often, seldom = counts if event.towards_zero else counts[::-1]
    return Audit(
        epsilon=bound(often, seldom, test, delta=delta, miss=1 - confidence),
        delta=delta,
        confidence=confidence,
        claim=claim,
        event=event.words,
        likely=likely,
        unlikely=unlikely,
        counts=(often, seldom),
        samples=test,
        drawn=each,
        seconds=time.perf_counter() - begun,
    )


def bound(often: int, seldom: int, samples: int, *, delta: float = 0.0, miss: float = 0.01) -> float:
    """The epsilon that counts of an event prove, but for a chance of `miss`: ln((p - delta) / q), at least 0.

    >>> round(bound(500_000, 183_940, 1_000_000), 4)
    0.992
    """
    low, _ = proportion(count=often, people=samples, miss=miss)  # each end is wrong with half of it
    _, high = proportion(count=seldom, people=samples, miss=miss)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def exactly(
    mechanism: Mechanism[Any, Any], zero: Any, one: Any, *, claim: float | None = None, delta: float = 0.0
) -> Audit:
    """The epsilon of a mechanism with finitely many outputs on two inputs, without sampling.

    >>> from sfumato.mechanisms import RandomizedResponse
    >>> exactly(RandomizedResponse.two_coins(), 0, 1, claim=1.0)
      epsilon is at least 1.0986 at delta 0, exactly
      event: the output is 0
      claim: epsilon 1: REFUTED
    """
    begun = time.perf_counter()
    laws = mechanism.law(zero), mechanism.law(one)
    if not isinstance(laws[0], Finite) or not isinstance(laws[1], Finite):
        raise InvalidParameter("mechanism", mechanism.name, "it has infinitely many outputs: use audit()")
    outcomes = list(dict.fromkeys((*laws[0].outcomes, *laws[1].outcomes)))
    pairs = [(outcome, laws[0].mass(outcome), laws[1].mass(outcome)) for outcome in outcomes]
    epsilon, words, turned = 0.0, "nothing", False
    for swap in (False, True):
        found = [(y, q, p) if swap else (y, p, q) for y, p, q in pairs]
        size, event = _largest(found, Fraction(delta))
        if size > epsilon:
            epsilon, words, turned = size, event, swap
    likely, unlikely = (one, zero) if turned else (zero, one)
    return Audit(
        epsilon,
        delta,
        1.0,
        claim,
        words,
        likely,
        unlikely,
        (0, 0),
        0,
        0,
        time.perf_counter() - begun,
        exact=True,
    )


def _largest(pairs: list[tuple[Any, Fraction, Fraction]], delta: Fraction) -> tuple[float, str]:
    """The largest ln((P(E) - delta) / Q(E)): of a beginning of the order by ratio (Neyman and Pearson)."""
    order = sorted((pair for pair in pairs if pair[1]), key=lambda pair: (pair[2] / pair[1], str(pair[0])))
    best, words, p, q, taken = 0.0, "nothing", Fraction(0), Fraction(0), []
    for outcome, more, less in order:
        p, q = p + more, q + less
        taken.append(outcome)
        size = 0.0 if p <= delta else math.inf if q == 0 else math.log((p - delta) / q)
        if size > best:
            what = repr(taken[0]) if len(taken) == 1 else "one of " + ", ".join(map(repr, taken))
            best, words = size, f"the output is {what}"
    return best, words


@dataclass(frozen=True, slots=True)
class Event:
    """A set of cells of a view, and which input falls into it more often."""

    view: View
    cells: Counts
    towards_zero: bool

    def count(self, outputs: Any) -> int:
        """How many outputs lie in it."""
        inside = np.zeros(self.view.size, dtype=bool)
        inside[self.cells] = True
        return int(inside[self.view.cells(outputs)].sum())

    @property
    def words(self) -> str:
        """The event for people."""
        return self.view.words(self.cells)


def _best_event(
    learned: tuple[Any, Any], chosen: tuple[Any, Any], delta: float, test: int, miss: float
) -> Event:
    """Of all views and both directions, the event that promises most for a test of this size."""
    best, found = -math.inf, None
    for view in views_of(*learned):
        taught = [np.bincount(view.cells(outputs), minlength=view.size) for outputs in learned]
        seen = [np.bincount(view.cells(outputs), minlength=view.size) for outputs in chosen]
        for towards_zero in (True, False):
            more, less = (0, 1) if towards_zero else (1, 0)
            ratio = (taught[more] + 0.5) / (taught[less] + 0.5)
            order = np.argsort(-ratio, kind="stable")
            often, seldom = np.cumsum(seen[more][order]), np.cumsum(seen[less][order])
            promise = _promise(often, seldom, int(seen[0].sum()), delta, test, miss)
            end = int(np.argmax(promise))
            if promise[end] > best:
                best, found = float(promise[end]), Event(view, order[: end + 1], towards_zero)
    assert found is not None
    return found


def _promise(
    often: Counts, seldom: Counts, chosen: int, delta: float, test: int, miss: float
) -> NDArray[np.float64]:
    """About the bound that a test of this size would give, if shares stay as they were when it was chosen."""
    z = math.sqrt(2 * math.log(2 / miss))
    p, q = often / chosen, (seldom + 1) / (chosen + 1)
    doubt = 1 / test + 1 / chosen  # that of the choice, too: or the luckiest of many small events is chosen
    low = p - z * np.sqrt(p * (1 - p) * doubt + 1e-18) - 1 / test
    high = q + z * np.sqrt(q * (1 - np.minimum(q, 1)) * doubt) + z**2 / test
    gain: NDArray[np.float64] = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)
    return gain


def _draws(subject: Mechanism[Any, Any] | Callable[..., Any]) -> Draws:
    """So many outputs at once, of whatever is audited."""
    if isinstance(subject, Additive):
        return lambda x, size: _additive(subject, x, size)
    if isinstance(subject, Mechanism):
        coins = SystemCoins()

        def drawn(x: Any, size: int) -> list[Any]:
            law = subject.law(x)
            return [law.draw(coins) for _ in range(size)]

        return drawn
    if _wants_size(subject):
        return subject
    return lambda x, size: [subject(x) for _ in range(size)]


def _additive(subject: Additive, x: Any, size: int) -> Any:
    """Noise in bulk on every coordinate."""
    answer = (x,) if isinstance(x, int) else tuple(x)
    columns = [y + subject.noise.draws(SystemCoins(), size) for y in answer]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _wants_size(subject: Callable[..., Any]) -> bool:
    try:
        needed = [
            each
            for each in inspect.signature(subject).parameters.values()
            if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return False
    return len(needed) == 2
