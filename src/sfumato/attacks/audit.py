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

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.outputs import Raised, joined
from sfumato.attacks.subjects import Input, Room, Subject, name_of
from sfumato.attacks.views import View, views_of
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.accuracy import proportion
from sfumato.mechanisms.mechanism import Additive, Finite, Mechanism

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

Watch = Callable[[float], None]
Pair = tuple[Input, Input]
LEARN, CHOOSE = 0.05, 0.15  # of the outputs teach the order of the cells, or choose the event
FEW = 200_000  # below so many, a quarter each
CHUNK = 1_000_000  # outputs drawn at a time
FIRST = 64  # outputs of each input after which a pair is looked at for the first time
LEAST_SAMPLES, MOST_SAMPLES = 100, 10**12  # samples
ROOM = 20_000_000  # numbers of either input that are looked at together
SMALL = "give a number of at least 0 and below 1, such as 1e-6"
REACH = 200  # outcomes around either answer that are enough for noise that never ends
SHOWN = 6  # outcomes that are named
LUCK = 2.5  # deviations by which the best of many events looks better than it is
STRIDE = 4  # of the counts kept in a test, every so many become a point of its history


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What was found: epsilon is at least this, but for a chance of 1 - confidence."""

    subject: str
    epsilon: float
    delta: float
    confidence: float
    claim: float | Fraction | None
    event: str
    likely: Input  # that falls into the event more often
    unlikely: Input
    counts: tuple[int, int] = (0, 0)  # how often each did
    samples: int = 0  # of either input, in the test
    drawn: int = 0  # of either input, in all
    seconds: float = 0.0
    exact: bool = False
    tried: int = 1  # pairs of inputs and parameters that were looked at
    seen: tuple[tuple[int, int, int], ...] = ()  # outputs of either in the test so far, and the counts then

    @property
    def is_violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.claim is not None and self.epsilon > self.claim

    @property
    def history(self) -> list[tuple[int, float]]:
        """What a test of so many outputs would have proved; only the last was agreed on and is certified."""
        kept = [
            self.seen[i]
            for i in sorted({*range(len(self.seen) - 1, -1, -STRIDE), *range(min(5, len(self.seen)))})
        ]
        return [
            (size, bound(often, seldom, size, delta=self.delta, miss=1 - self.confidence))
            for size, often, seldom in kept
        ]

    @property
    def verdict(self) -> str:
        """In one word or two."""
        return "no claim" if self.claim is None else "REFUTED" if self.is_violated else "not refuted"

    def __repr__(self) -> str:
        how = "exactly" if self.exact else f"with {percent(self.confidence)} confidence"
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
        if self.tried > 1:
            lines.append(f"  the best of {self.tried:,d} pairs of inputs, certified with fresh samples")
        if self.claim is not None:
            lines.append(f"  claim: epsilon {float(self.claim):g}: {self.verdict}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs; an infinite epsilon is null."""
        return {
            "subject": self.subject,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "confidence": self.confidence,
            "claim": None if self.claim is None else float(self.claim),
            "refuted": self.is_violated,
            "event": self.event,
            "likely": repr(self.likely),
            "unlikely": repr(self.unlikely),
            "counts": list(self.counts),
            "samples": self.samples,
            "drawn": self.drawn,
            "tried": self.tried,
            "exact": self.exact,
            "seconds": round(self.seconds, 3),
            "history": [list(point) for point in self.history],
        }


def audit(
    subject: Subject,
    zero: Any = 0,
    one: Any = 1,
    *,
    claim: float | Fraction | None = None,
    delta: float = 0.0,
    samples: int = 1_000_000,
    confidence: float = 0.99,
    parameters: Mapping[str, Any] = MappingProxyType({}),
    cores: int = 1,
    watch: Watch = lambda _: None,
) -> Audit:
    """Look for an event that tells two neighbouring inputs apart.

    `subject` is a mechanism, a function of an input, or a function of an input and a number that returns so
    many outputs at once (much faster). `samples` is how many outputs are drawn, half of them for each input.
    With `cores=2` each input is run in a process of its own. `watch` is told how much is done.

    >>> audit(lambda x: x, 0, 1, samples=2000, claim=1).is_violated
    True
    """
    test, claim = Test(delta, confidence, samples), checked_claim(claim)
    pair = Input(zero, dict(parameters)), Input(one, dict(parameters))
    with Room(subject, cores) as room:
        return _certified(room, name_of(subject), pair, claim, test, watch)


def search(
    subject: Subject,
    pairs: Iterable[tuple[Any, Any]],
    *,
    claim: float | Fraction | Callable[..., float | Fraction] | None = None,
    delta: float = 0.0,
    samples: int = 1_000_000,
    confidence: float = 0.99,
    parameters: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    cores: int = 1,
    watch: Watch = lambda _: None,
) -> Audit:
    """Look for the two neighbouring inputs, and the parameters, that tell most; then audit those.

    Half of the samples go into the search, in rounds that each keep the more promising half of the pairs;
    the other half, which nobody has seen, certifies the winner. `parameters` holds values to try by name, and
    `claim` may be a function of them. `sfumato.attacks.neighbours` has pairs of many kinds.

    Guarantee: that of `audit`, since the pair is fixed before the samples that test it are drawn.

    >>> search(lambda x: x // 10, [(0, 1), (8, 9), (9, 10)], samples=4000).likely.value
    9
    """
    whole = Test(delta, confidence, samples)
    begun, test = time.perf_counter(), replace(whole, samples=whole.samples // 2)
    if not isinstance(pairs, Iterable):
        raise InvalidParameter("pairs", pairs, "give pairs (zero, one) of neighbouring inputs")
    for name, tried in parameters.items():
        if not isinstance(tried, (list, tuple, range)):
            raise InvalidParameter(f"parameters[{name!r}]", tried, "give a list of values to try")
    inputs = list(pairs)
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in inputs):
        raise InvalidParameter("pairs", inputs, "give pairs (zero, one) of neighbouring inputs")
    candidates = [
        (Input(zero, given), Input(one, given)) for given in _every(parameters) for zero, one in inputs
    ]
    if not candidates:
        raise InvalidParameter("pairs", "none", "give at least one pair of neighbouring inputs")

    def claimed(pair: Pair) -> float | Fraction | None:
        return checked_claim(claim(**pair[0].parameters) if callable(claim) else claim)

    with Room(subject, cores) as room:
        best = _most_promising(room, candidates, claimed, test, lambda done: watch(done / 2))
        late: Watch = lambda done: watch(0.5 + done / 2)  # noqa: E731
        found = _certified(room, name_of(subject), best, claimed(best), test, late)
        return replace(found, tried=len(candidates), seconds=time.perf_counter() - begun)


def _every(parameters: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*parameters.values()):
        yield dict(zip(parameters, values, strict=True))


def bound(often: int, seldom: int, samples: int, *, delta: float = 0.0, miss: float = 0.01) -> float:
    """The epsilon that counts of an event prove, but for a chance of `miss`: ln((p - delta) / q), at least 0.

    >>> round(bound(500_000, 183_940, 1_000_000), 4)
    0.992
    """
    slip = 1e-7 + 1e-14 * samples  # more than the floats of the incomplete beta function can be off
    low = proportion(count=often, people=samples, miss=miss)[0] * (
        1 - slip
    )  # each end is wrong with half of it
    high = min(1.0, proportion(count=seldom, people=samples, miss=miss)[1] * (1 + slip))
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def exactly(
    mechanism: Mechanism[Any, Any],
    zero: Any,
    one: Any,
    *,
    claim: float | Fraction | None = None,
    delta: float | Fraction = 0.0,
    outcomes: Iterable[Any] | None = None,
) -> Audit:
    """The epsilon of a mechanism on two inputs from its law, without sampling.

    With finitely many outputs it is the epsilon itself. For noise on one whole number, and for other laws if
    `outcomes` names some, it is a lower bound from these outputs; for pure noise it is the epsilon up to
    rounding.

    >>> from sfumato.mechanisms import RandomizedResponse
    >>> exactly(RandomizedResponse.two_coins(), 0, 1, claim=1.0)
      epsilon is at least 1.0986 at delta 0, exactly
      event: the output is 0
      claim: epsilon 1: REFUTED
    """
    begun, claim = time.perf_counter(), checked_claim(claim)
    if not isinstance(mechanism, Mechanism):
        raise InvalidParameter("mechanism", mechanism, "its distribution is not known: use audit()")
    delta = Fraction(Test(delta, 0.99, LEAST_SAMPLES).delta) if isinstance(delta, float) else delta
    if not isinstance(delta, (int, Fraction)) or not 0 <= delta < 1:
        raise InvalidParameter("delta", delta, SMALL)
    points = _points(mechanism, zero, one, None if outcomes is None else list(dict.fromkeys(outcomes)))
    epsilon, event, turned = 0.0, "nothing", False
    for swap in (False, True):
        order = [(y, q, p) if swap else (y, p, q) for y, p, q in points]
        size, words = _largest(order, Fraction(delta))
        if size > epsilon:
            epsilon, event, turned = size, words, swap
    likely, unlikely = (one, zero) if turned else (zero, one)
    return Audit(
        subject=repr(mechanism),
        epsilon=epsilon,
        delta=float(delta),
        confidence=1.0,
        claim=claim,
        event=event,
        likely=Input(likely),
        unlikely=Input(unlikely),
        seconds=time.perf_counter() - begun,
        exact=True,
    )


Point = tuple[Any, "Mass", "Mass"]  # an outcome and what it has on either input


@dataclass(frozen=True, slots=True)
class Mass:
    """Two ends between which a probability lies."""

    low: Fraction
    high: Fraction


def _points(mechanism: Mechanism[Any, Any], zero: Any, one: Any, outcomes: list[Any] | None) -> list[Point]:
    if outcomes is not None:
        laws = mechanism.law(zero), mechanism.law(one)
        return [(y, _mass(laws[0].log_mass(y)), _mass(laws[1].log_mass(y))) for y in outcomes]
    if isinstance(mechanism, Additive):
        a, b = (x[0] if isinstance(x, tuple) and len(x) == 1 else x for x in (zero, one))
        if not isinstance(a, int) or not isinstance(b, int):
            raise InvalidParameter("mechanism", mechanism.name, "give outcomes, or use audit()")
        reach = min(REACH, mechanism.noise.window(Fraction(1, 10**12)).stop)
        near = sorted({x + k for x in (a, b) for k in range(-reach, reach + 1)})
        masses = {y: _mass(mechanism.noise.log_mass(y)) for y in {y - x for x in (a, b) for y in near}}
        return [(y, masses[y - a], masses[y - b]) for y in near]
    first, second = _finite(mechanism, zero), _finite(mechanism, one)
    none = Fraction(0)
    return [
        (y, Mass(first.get(y, none), first.get(y, none)), Mass(second.get(y, none), second.get(y, none)))
        for y in dict.fromkeys((*first, *second))
    ]


def _finite(mechanism: Mechanism[Any, Any], x: Any) -> dict[Any, Fraction]:
    law = mechanism.law(x)
    if not isinstance(law, Finite):
        raise InvalidParameter("mechanism", mechanism.name, "give outcomes, or use audit()")
    return {outcome: law.mass(outcome) for outcome in law.outcomes}


def _mass(log: numbers.Interval) -> Mass:
    return Mass(numbers.exp(log.low).low, numbers.exp(log.high).high)


def _largest(points: list[Point], delta: Fraction) -> tuple[float, str]:
    """The largest ln((P(E) - delta) / Q(E)): of a beginning of the order by ratio (Neyman and Pearson)."""
    order = sorted(
        (point for point in points if point[1].low), key=lambda point: point[2].high / point[1].low
    )
    best, most, p, q = 0, Fraction(1), Fraction(0), Fraction(0)
    for taken, (_, more, less) in enumerate(order, start=1):
        p, q = p + more.low, q + less.high
        if p > delta and not q:
            return math.inf, _taken(order[:taken])
        if p > delta and (ratio := (p - delta) / q) > most:
            best, most = taken, ratio
    if not best:
        return 0.0, "nothing"
    size = numbers.log(most).low
    return math.nextafter(float(size), 0.0), _taken(order[:best])


def _taken(points: list[Point]) -> str:
    names = [repr(y) for y, _, _ in points]
    more = f", ... ({len(names)} values)" if len(names) > SHOWN else ""
    return f"the output is {'one of ' * (len(names) > 1)}{', '.join(names[:SHOWN])}{more}"


# Learning, choosing, testing -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Test:
    """How sure an audit has to be, and how its outputs are divided."""

    delta: float
    confidence: float
    samples: int

    def __post_init__(self) -> None:
        for name in ("delta", "confidence"):
            if not isinstance(getattr(self, name), (int, float, Fraction)):
                raise InvalidParameter(name, getattr(self, name), "give a number")
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0.5 <= self.confidence < 1:
            raise InvalidParameter("confidence", self.confidence, "give a number such as 0.99, below 1")
        if not 0 <= self.delta < 1:
            raise InvalidParameter("delta", self.delta, SMALL)
        if not isinstance(self.samples, int) or not LEAST_SAMPLES <= self.samples <= MOST_SAMPLES:
            advice = f"give a whole number from {LEAST_SAMPLES} to {MOST_SAMPLES:,d}"
            advice += "; 1,000,000 estimate epsilon to about 1%"
            raise InvalidParameter("samples", self.samples, advice)

    @property
    def each(self) -> int:
        """Outputs of either input."""
        return self.samples // 2

    @property
    def part(self) -> int:
        """Those that teach."""
        return int(self.each * LEARN) if self.each >= FEW else self.each // 4

    @property
    def choice(self) -> int:
        """Those that choose."""
        return int(self.each * CHOOSE) if self.each >= FEW else self.each // 4

    @property
    def size(self) -> int:
        """Those that test."""
        return self.each - self.part - self.choice

    @property
    def miss(self) -> float:
        """The chance that the bound is wrong."""
        return 1 - self.confidence


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


def _certified(
    room: Room, name: str, pair: Pair, claim: float | Fraction | None, test: Test, watch: Watch
) -> Audit:
    begun, each = time.perf_counter(), test.each
    learned = _outputs(room, pair, test.part, lambda done: watch(done / each))
    if _fails(learned):
        raise InvalidParameter(
            "subject",
            name,
            f"every call failed with {learned[0][0]!r} on {pair[0]!r} and {pair[1]!r}: give "
            "inputs that it accepts",
        )
    late: Watch = lambda done: watch((test.part + done) / each)  # noqa: E731
    chosen = _outputs(
        room, pair, test.choice, late, swapped=True
    )  # an event of a process, not of an input, fails
    most = ROOM // max(map(_width, (*learned, *chosen)))
    _, event = _best_event(_some(learned, most), _some(chosen, most), test.delta, test.size, test.miss)
    often, seldom, done, seen = 0, 0, 0, []
    for size in _chunks(test.size, most):
        zero, one = room.counts(pair, size, event)
        often, seldom = often + (zero, one)[not event.towards_zero], seldom + (zero, one)[event.towards_zero]
        done += size
        seen.append((done, often, seldom))
        watch((each - test.size + done) / each)
    likely, unlikely = pair if event.towards_zero else pair[::-1]
    return Audit(
        subject=name,
        epsilon=bound(often, seldom, done, delta=test.delta, miss=test.miss),
        delta=test.delta,
        confidence=test.confidence,
        claim=claim,
        event=event.words,
        likely=likely,
        unlikely=unlikely,
        counts=(often, seldom),
        samples=test.size,
        drawn=each,
        seconds=time.perf_counter() - begun,
        seen=tuple(seen),
    )


def _most_promising(
    room: Room,
    candidates: list[Pair],
    claimed: Callable[[Pair], float | Fraction | None],
    test: Test,
    watch: Watch,
) -> Pair:
    """Rounds of equal cost; each keeps the better half."""
    alive, rounds = candidates, max(1, math.ceil(math.log2(len(candidates))))
    for turn in range(rounds):
        size = max(FIRST, test.each // rounds // len(alive) // 2)
        scores, failed = [], None
        for i, pair in enumerate(alive):
            try:
                learned = _outputs(room, pair, size, lambda _: None)
                chosen = _outputs(room, pair, size, lambda _: None, swapped=True)
            except InvalidParameter as error:
                failed, score = error, -math.inf
            else:
                promise, _ = _best_event(learned, chosen, test.delta, size, miss=0.5)
                score = promise - float(claimed(pair) or 0)
            scores.append(score)
            watch((turn + (i + 1) / len(alive)) / rounds)
        if failed is not None and max(scores) == -math.inf:
            raise failed
        order = sorted(range(len(alive)), key=lambda i: -scores[i])
        alive = [alive[i] for i in order[: (len(alive) + 1) // 2]]
    return alive[0]


def _outputs(room: Room, pair: Pair, size: int, watch: Watch, *, swapped: bool = False) -> tuple[Any, Any]:
    """Outputs in pieces, so that a slow subject shows that it moves."""
    found, done = [], 0
    for piece in _chunks(size):
        found.append(room.outputs(pair, piece, swapped=swapped))
        done += piece
        watch(done)
    zero, one = zip(*found, strict=True)
    return joined(zero), joined(one)


def _fails(learned: tuple[Any, Any]) -> bool:
    """Whether every call failed, and in the same way on both inputs: that is no mechanism."""
    kinds = [
        {each.kind.partition(":")[0] if isinstance(each, Raised) else "" for each in side} for side in learned
    ]
    return kinds[0] == kinds[1] and "" not in kinds[0]


def _width(outputs: Any) -> int:
    return int(outputs.shape[1]) if isinstance(outputs, np.ndarray) and outputs.ndim == 2 else 1


def _some(batches: tuple[Any, Any], most: int) -> tuple[Any, Any]:
    """The first of either: of very wide vectors fewer are enough, and more fill the memory."""
    return batches[0][:most], batches[1][:most]


def _chunks(total: int, room: int = CHUNK) -> Iterator[int]:
    """Pieces that double and then stay the same: the same for every run, so that seeded dice fall alike."""
    most = min(CHUNK, max(FIRST, min(total >> 5, room)))
    size = min(most, max(FIRST, total >> 10))
    while total > 0:
        yield min(size, total)
        total -= size
        size = min(2 * size, most)


def _best_event(
    learned: tuple[Any, Any], chosen: tuple[Any, Any], delta: float, test: int, miss: float
) -> tuple[float, Event]:
    """Of all views, orders and both directions, the event that promises most for a test of this size."""
    best, found = -math.inf, None
    for view in views_of(*learned):
        taught, seen = (
            [np.bincount(view.cells(outputs[: view.enough]), minlength=view.size) for outputs in part]
            for part in (learned, chosen)
        )
        for towards_zero in (True, False):
            more, less = (0, 1) if towards_zero else (1, 0)
            for order in _orders(view, taught[more], taught[less]):
                often, seldom = np.cumsum(seen[more][order]), np.cumsum(seen[less][order])
                promise = _promise(often, seldom, int(seen[0].sum()), delta, test, miss)
                end = int(np.argmax(promise))
                if promise[end] > best or found is None:
                    best, found = float(promise[end]), Event(view, order[: end + 1], towards_zero)
    assert found is not None
    return best, found


def _orders(view: View, more: Counts, less: Counts) -> Iterator[Counts]:
    """Cells by how much more often one input fell into them; along a line also from either end."""
    if view.in_line:
        yield np.arange(view.size)  # the last cell is that of no number
        yield np.concatenate([np.arange(view.size - 1)[::-1], [view.size - 1]])
    a, b = more + 0.5, less + 0.5
    ratio = np.log(a / b) - np.sqrt(1 / a + 1 / b)  # of equal ones the surer first
    yield np.argsort(-ratio, kind="stable")


def _promise(
    often: Counts, seldom: Counts, chosen: int, delta: float, test: int, miss: float
) -> NDArray[np.float64]:
    """About the bound that a test of this size would give, if shares stay as they were when it was chosen."""
    z = math.sqrt(2 * math.log(2 / miss))
    p, q = often / chosen, (seldom + 1) / (chosen + 1)
    # that of the choice, too: or the luckiest of many small events is chosen
    doubt = z / math.sqrt(test) + LUCK / math.sqrt(chosen)
    low = p - doubt * np.sqrt(p * (1 - p) + 1e-18) - 1 / test
    high = q + doubt * np.sqrt(q * (1 - np.minimum(q, 1))) + z**2 / test
    gain: NDArray[np.float64] = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)
    return gain


def checked_claim(claim: float | Fraction | None) -> float | Fraction | None:
    """An epsilon that can be claimed."""
    if claim is None:
        return None
    if not isinstance(claim, (int, float, Fraction)) or not 0 <= claim <= sys.float_info.max:
        raise InvalidParameter("claim", claim, "give an epsilon, such as 1")
    return claim


def percent(share: float) -> str:
    """A confidence in full: 99%, 99.9999%.

    >>> percent(0.99), percent(0.999999)
    ('99%', '99.9999%')
    """
    return f"{100 * share:.10f}".rstrip("0").rstrip(".") + "%"
