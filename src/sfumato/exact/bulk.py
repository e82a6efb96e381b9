"""Exact draws in bulk, by looking them up.

Inversion: cut the unit interval at the cumulative sums of a law; a uniform number U falls into one piece,
and which piece it is has exactly the law. Here U is never a float. Its first 64 bits are one random word, the
cuts are known as floor(2^64 F), proven with fractions rounded outward, and a comparison of the two integers
decides unless the word *equals* a cut. Then, once in about 2^55 draws, U gets 64 more bits and the cuts are
computed to 64 more bits, and so on: the outcome is that of an infinitely precise U. No tail is dropped; what
lies beyond the last cut is a tie like any other (Devroye, 1986, chapter III.2; lazy bits as in Knuth and
Yao, 1976).

`Bell` covers both the discrete Laplace and the discrete Gaussian law: P(y) proportional to
exp(-(linear |y| + square y^2)). A wide one is split as |y| = 2^b h + m: a table for h, fair bits for m, and m
is kept with probability exp(-x), where x is the rational number that |y| costs more than 2^b h.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import numbers, samplers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.exact.coins import Coins
    from sfumato.exact.numbers import Interval

Ints = NDArray[np.int64] | NDArray[np.object_]  # object only where int64 could overflow
Words = NDArray[np.uint64]

WORD = 64  # bits of U looked at first
GUIDE = 12  # the top bits of a word that index the table's guide
SPARE = 48  # bits the weights are computed to beyond the cuts: m of them err by about 2 m units
ENOUGH = 1 << 12  # weights below this many of their last units are summed by a bound
WIDTH = 5  # a law wider than 2^WIDTH steps is split
NARROW = 3  # the same where few are drawn: more attempts fail, but the table is made in a quarter of the time
FEW = 2000  # draws of a scale for which a table of full width does not pay
WIDEST = 48  # a law split at more than this many bits could leave int64: Python's integers then
CHUNK = 1 << 16  # attempts at a time: their arrays stay in the processor's cache
COMPILED_PAYS = 50_000  # from this size on the compiled kernels are used, if they are installed


class Cuts(NamedTuple):
    """floor(2^bits F(y)) for y = first, first + 1, ...: below the first all are 0, the last is 2^bits - 1."""

    first: int
    at: list[int]


class Kernels(NamedTuple):
    """The two inner loops, in numpy or compiled; the same words give the same result."""

    locate: Callable[[Words, NDArray[np.int64], Words, int], tuple[NDArray[np.int64], NDArray[np.int64]]]
    toss: Callable[[Words, NDArray[np.int64], NDArray[np.int64], Slope], NDArray[np.int8]]


class InverseTable:
    """Draws from a law on the integers whose cuts are known to any number of bits.

    >>> from sfumato.exact.coins import Tape
    >>> halves = InverseTable(lambda bits: Cuts(0, [1 << bits - 1, (1 << bits) - 1]))  # a fair coin
    >>> sorted(set(halves.draws(100, Tape.seeded(1)).tolist()))
    [0, 1]
    """

    def __init__(self, cuts: Callable[[int], Cuts], bits: int = WORD) -> None:
        self._cuts, self._bits = cuts, bits
        self.first, at = cuts(bits)
        self._at = at
        self._words = np.array(at, dtype=np.uint64)
        guide = min(GUIDE, bits)
        starts = np.arange(1 << guide, dtype=np.uint64) << np.uint64(bits - guide)
        before = np.searchsorted(self._words, starts, side="left")
        within = np.searchsorted(self._words, starts + np.uint64((1 << bits - guide) - 1), side="right")
        # a cell that no cut touches decides at once; -1 sends the word to a search
        self._guide = np.where(before == within, before, -1).astype(np.int64)

    def draw(self, coins: Coins) -> int:
        """One outcome."""
        word = coins.bits(self._bits)
        index = bisect_right(self._at, word)
        return self._settled(word, coins) if _tied(self._at, index, word) else self.first + index

    def draws(self, size: int, coins: Coins) -> NDArray[np.int64]:
        """`size` independent outcomes."""
        words = coins.words(size)
        if self._bits < WORD:
            words = words >> np.uint64(WORD - self._bits)
        outcome, tied = kernels(size).locate(words, self._guide, self._words, self._bits)
        outcome += self.first
        for i in tied.tolist():
            outcome[i] = self._settled(int(words[i]), coins)
        return outcome

    def _settled(self, word: int, coins: Coins) -> int:
        """The outcome of a U whose first bits are exactly a cut: more bits of both until they differ."""
        bits = self._bits
        while True:
            word, bits = word << self._bits | coins.bits(self._bits), bits + self._bits
            first, at = self._cuts(bits)
            index = bisect_right(at, word)
            if not _tied(at, index, word):
                return first + index


def _tied(at: list[int], index: int, word: int) -> bool:
    return index > 0 and at[index - 1] == word


def _locate(
    words: Words, guide: NDArray[np.int64], cuts: Words, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many cuts are at most each word, and where a word equals a cut."""
    cells = words >> np.uint64(bits - (len(guide).bit_length() - 1))
    index = guide[cells.view(np.int64)]
    rough = np.flatnonzero(index < 0)
    searched = np.searchsorted(cuts, words[rough], side="right")
    index[rough] = searched
    tied = (searched > 0) & (cuts[searched - 1] == words[rough])
    return index, rough[tied]


# Laws proportional to exp(-(linear |y| + square y^2)) ----------------------------------------------------


class Slope(NamedTuple):
    """What x = (linear 2^b) u + (square 4^b) (2 h u + u^2) needs, u = m / 2^b, in units of 2^-36."""

    shift: int
    linear_low: int
    linear_high: int
    square_low: int
    square_high: int


FINE, COARSE = 24, 36  # bits of u, and of the slopes: their products stay below 2^62
YES, NO, TIE = 1, 0, -1


@dataclass(frozen=True)
class Bell:
    """Integers y with probability proportional to exp(-(linear |y| + square y^2)).

    >>> from sfumato.exact.coins import Tape
    >>> Bell(Fraction(1, 3), Fraction(0)).draws(5, Tape.seeded(1)).tolist()
    [3, 3, -4, -5, 12]
    """

    linear: Fraction
    square: Fraction
    bits: int = WORD
    width: int = WIDTH

    @cached_property
    def shift(self) -> int:
        """b: the law of h is between 2^(width-2) and 2^width steps wide; 0 if the law itself is no wider."""
        widths = [numbers.exponent(1 / self.linear)] if self.linear else []
        widths += [numbers.exponent(1 / (2 * self.square)) // 2] if self.square else []
        return max(min(widths) + 1 - self.width, 0)

    @cached_property
    def lookup(self) -> InverseTable:
        """The table of y itself, or of h with its sign: t >= 0 stands for h = t, t < 0 for h = -1 - t."""
        return InverseTable(self._cuts, self.bits)

    @cached_property
    def slope(self) -> Slope:
        """The slopes of x, rounded down and up."""
        linear = self.linear * (1 << self.shift) * (1 << COARSE)
        square = self.square * (1 << 2 * self.shift) * (1 << COARSE)
        return Slope(self.shift, math.floor(linear), math.ceil(linear), math.floor(square), math.ceil(square))

    @cached_property
    def reach(self) -> int:
        """The largest h for which x is at most 1 and fits the fixed point; beyond, one at a time."""
        linear, square = self.linear * (1 << self.shift), self.square * (1 << 2 * self.shift)
        rest = (1 - linear - square) / (2 * square) if square else Fraction(1 << 16)
        return min(math.floor(rest), 1 << 16 if not square else 1 << 8)

    def draws(self, size: int, coins: Coins) -> Ints:
        """`size` independent outcomes; an object array if any is too wide for int64."""
        if self.shift == 0:
            return self.lookup.draws(size, coins)
        return gathered(lambda missing: self._attempts(min(missing + missing // 16 + 16, CHUNK), coins), size)

    def _attempts(self, count: int, coins: Coins) -> Ints:
        turn = self.lookup.draws(count, coins)
        negative = turn < 0
        high = np.where(negative, ~turn, turn)
        if self.shift > WIDEST or (int(high.max()) + 1) << self.shift >= 1 << 62:
            return self._wide(high.tolist(), negative.tolist(), coins)
        rest = (coins.words(count) >> np.uint64(64 - self.shift)).view(np.int64) + negative
        kept = self._kept(high, rest, coins)
        magnitude = (high << self.shift) + rest
        return np.where(negative, -magnitude, magnitude)[kept]

    def _wide(self, high: list[int], negative: list[bool], coins: Coins) -> NDArray[np.object_]:
        kept = []
        for h, minus in zip(high, negative, strict=True):
            rest = coins.bits(self.shift) + minus
            cost = self._cost(h, rest)
            if samplers.bernoulli_exp(cost.numerator, cost.denominator, coins):
                kept.append(-((h << self.shift) + rest) if minus else (h << self.shift) + rest)
        return np.array(kept, dtype=np.object_)

    def _cost(self, high: int, rest: int) -> Fraction:
        """x: how much more |y| = 2^b h + m costs than 2^b h."""
        return self.linear * rest + self.square * rest * ((high << self.shift + 1) + rest)

    def _kept(self, high: NDArray[np.int64], rest: NDArray[np.int64], coins: Coins) -> NDArray[np.bool_]:
        """Bernoulli(exp(-x)) elementwise."""
        near = np.flatnonzero(high <= self.reach)
        kept = np.zeros(len(high), dtype=np.bool_)
        kept[near] = _exp_coins(
            len(near), lambda active: self._less(high[near[active]], rest[near[active]], coins), coins
        )
        for i in np.flatnonzero(high > self.reach).tolist():
            cost = self._cost(int(high[i]), int(rest[i]))
            kept[i] = samplers.bernoulli_exp(cost.numerator, cost.denominator, coins)
        return kept

    def _less(self, high: NDArray[np.int64], rest: NDArray[np.int64], coins: Coins) -> NDArray[np.bool_]:
        """U < x elementwise: by bounds on x, and by x itself where U falls between them."""
        words = coins.words(len(high)) >> np.uint64(64 - FINE - COARSE)
        verdict = kernels(len(high)).toss(words, high, rest, self.slope)
        for i in np.flatnonzero(verdict == TIE).tolist():
            scaled = self._cost(int(high[i]), int(rest[i])) * (1 << FINE + COARSE)
            whole, word = math.floor(scaled), int(words[i])
            part = scaled - whole
            verdict[i] = coins.chance(part.numerator, part.denominator) if word == whole else word < whole
        return verdict.view(np.bool_)

    # the table

    def _cuts(self, bits: int) -> Cuts:
        spare = SPARE
        while (cuts := self._attempt_cuts(bits, spare)) is None:
            spare += WORD
        return cuts

    def _attempt_cuts(self, bits: int, spare: int) -> Cuts | None:
        """The cuts from weights with `bits + spare` bits; None if that leaves one of them open."""
        shift = self.shift
        weights = weighed(self.linear * (1 << shift), self.square * (1 << 2 * shift), bits + spare)
        # upper tails of the magnitude, from the far end: (sum of lows, sum of highs) of the weights beyond
        split = self.shift > 0
        low, high = 0, weights.beyond
        tails: list[tuple[int, int]] = []
        for below_, above in zip(reversed(weights.low), reversed(weights.high), strict=True):
            tails.append((low, high))
            low, high = low + below_, high + above
        tails.reverse()  # tails[h] bounds the sum of the weights of h + 1, h + 2, ...
        if split:  # all weights count twice
            tails.insert(0, (low, high))
            low, high = 2 * low, 2 * high
        else:  # all but that of 0
            low, high = 2 * low - weights.low[0], 2 * high - weights.high[0]
        lower: list[int] = []  # floor(2^bits tail / total) for every tail, down to the first 0
        for i, (beyond_low, beyond_high) in enumerate(tails):
            if split and i == 0:
                lower.append(1 << bits - 1)  # exactly one half
                continue
            least = (beyond_low << bits) // high
            if least != (beyond_high << bits) // low:
                return None
            lower.append(least)
            if least == 0:
                break
        # F(-1 - h) is the tail itself; F(h) is one minus it. A tail that were a multiple of 2^-bits (the half
        # apart) would never be settled above, so here none is
        top = (1 << bits) - 1
        upper = [top - cut for cut in (lower[1:] if split else lower)]
        return Cuts(-len(lower), [*reversed(lower), *upper])


def gathered(attempts: Callable[[int], Ints], size: int) -> Ints:
    """Rounds of attempts until `size` have succeeded; `attempts(missing)` makes some and returns the kept.

    Kept attempts are independent and alike in the order they come, so the first ones will do.
    """
    parts: list[Ints] = []
    missing = size
    while missing > 0:
        parts.append(attempts(missing)[:missing])
        missing -= len(parts[-1])
    joined: Ints = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)  # type: ignore[assignment]  # a mix becomes object
    return joined


class Weights(NamedTuple):
    """Bounds on the weights of h = 0, 1, ... and on the sum of all that follow."""

    low: list[int]
    high: list[int]
    beyond: int


def weighed(linear: Fraction, square: Fraction, precision: int) -> Weights:
    """exp(-(linear h + square h^2)) for h = 0, 1, ... in units of 2^-precision, until that is small."""
    step = numbers.exp(-(linear + square), precision + 8)
    bend = numbers.exp(-2 * square, precision + 8)
    one = 1 << precision
    step_low, step_high = math.floor(step.low * one), math.ceil(step.high * one)
    bend_low, bend_high = math.floor(bend.low * one), math.ceil(bend.high * one)
    low, high = [one], [one]
    while high[-1] > ENOUGH:
        low.append(low[-1] * step_low >> precision)
        high.append(-(-high[-1] * step_high >> precision))
        step_low = step_low * bend_low >> precision
        step_high = -(-step_high * bend_high >> precision)
    # from here on each weight is at most `step` times the one before, and `step` only falls
    ratio = Fraction(step_high, one)
    return Weights(low, high, math.ceil(high[-1] * ratio / (1 - ratio)))


@lru_cache(maxsize=64)
def bell(linear: Fraction, square: Fraction, width: int = WIDTH) -> Bell:
    """The law with its table, kept for the scales used last."""
    return Bell(linear, square, width=width)


def discrete_laplace(scale: Fraction, size: int, coins: Coins) -> Ints:
    """`size` draws with probability proportional to exp(-|y|/scale)."""
    return bell(1 / scale, Fraction(0), NARROW if size < FEW else WIDTH).draws(size, coins)


def discrete_gaussian(sigma_squared: Fraction, size: int, coins: Coins) -> Ints:
    """`size` draws with probability proportional to exp(-y^2 / (2 sigma_squared))."""
    return bell(Fraction(0), 1 / (2 * sigma_squared)).draws(size, coins)


def _toss(words: Words, high: NDArray[np.int64], rest: NDArray[np.int64], slope: Slope) -> NDArray[np.int8]:
    """Whether each word is below 2^60 x: YES below a lower bound, NO from an upper bound on, else TIE."""
    if slope.shift > FINE:  # only the top bits of u: x lies between its values at both ends
        least = rest >> (slope.shift - FINE)
        most = least + 1
    else:
        least = most = rest << (FINE - slope.shift)
    twice = high << (FINE + 1)
    low = least * (slope.linear_low + ((twice + least) * slope.square_low >> FINE))
    above = most * (slope.linear_high + ((twice + most) * slope.square_high >> FINE) + 1)
    number = words.view(np.int64)
    return np.where(number < low, np.int8(YES), np.where(number >= above, np.int8(NO), np.int8(TIE)))


NUMPY = Kernels(_locate, _toss)


@lru_cache(maxsize=1)
def _compiled() -> Kernels | None:
    """The compiled kernels, if the extra `fast` is installed and works."""
    if not find_spec("numba"):
        return None
    try:
        compiled: Kernels = import_module("sfumato.exact.compiled").KERNELS
    except Exception as broken:  # whatever ails the compiler or its cache, numpy draws the same numbers
        warnings.warn(f"sfumato[fast] does not work here and is not used: {broken}", stacklevel=2)
        return None
    return compiled


def kernels(size: int) -> Kernels:
    """What to run a call of this size on."""
    return (_compiled() if size >= COMPILED_PAYS else None) or NUMPY


def below(n: int, count: int, coins: Coins) -> NDArray[np.int64]:
    """Uniform integers below n < 2^63, by rejection on the top of the 64-bit range."""
    if n == 1:
        return np.zeros(count, dtype=np.int64)
    if n & (n - 1) == 0:
        return (coins.words(count) & np.uint64(n - 1)).astype(np.int64)
    limit = np.uint64((1 << 64) // n * n - 1)
    words = coins.words(count)
    while len(rejected := np.flatnonzero(words > limit)):
        words[rejected] = coins.words(len(rejected))
    return (words % np.uint64(n)).astype(np.int64)


# Coins ---------------------------------------------------------------------------------------------------


def cuts_of_tails(tail: Callable[[int, int], Interval]) -> Callable[[int], Cuts]:
    """The cuts of a law on 0, 1, ... from P(Y > k) = tail(k, precision), an interval that narrows at will.

    A tail that is a multiple of 2^-bits would never be settled; ours hold powers of e and are irrational.
    """

    def cuts(bits: int) -> Cuts:
        at: list[int] = []
        while not at or at[-1] < (1 << bits) - 1:
            precision = bits
            while True:
                precision += SPARE
                beyond = tail(len(at), precision) * (1 << bits)
                if (floor := math.floor(beyond.low)) == math.floor(beyond.high):
                    break
            at.append((1 << bits) - 1 - floor)
        return Cuts(0, at)

    return cuts


POWERS = cuts_of_tails(lambda k, precision: numbers.exp(-k - 1, precision))  # (1 - 1/e) e^-k


@lru_cache(maxsize=1)
def _turns() -> InverseTable:
    """How often Bernoulli(1/e) succeeds before it fails."""
    return InverseTable(POWERS)


def bernoulli_exp(numerators: Ints, denominator: int, coins: Coins) -> NDArray[np.bool_]:
    """True with probability exp(-numerator/denominator), elementwise, for numerators >= 0.

    The whole part w of the exponent asks for w successes of Bernoulli(1/e) in a row, that is, for a
    geometric number of at least w; most elements end there.
    """
    if denominator >= 1 << 62:
        numerators = numerators.astype(np.object_)
    whole = np.minimum(numerators // denominator, 1 << 62).astype(np.int64)
    alive = _turns().draws(len(whole), coins) >= whole
    left = np.flatnonzero(alive)
    rest = numerators[left]
    rest -= whole[left] * denominator if rest.dtype == np.int64 else whole[left].astype(object) * denominator
    if denominator >= 1 << 62 or (len(rest) and rest.max() >= denominator):
        alive[left] = [samplers.bernoulli_exp(n, denominator, coins) for n in rest.tolist()]
    else:
        part = rest.astype(np.int64)
        alive[left] = _exp_coins(
            len(part), lambda active: below(denominator, len(active), coins) < part[active], coins
        )
    return alive


def _exp_coins(
    count: int, toss: Callable[[NDArray[np.int64]], NDArray[np.bool_]], coins: Coins
) -> NDArray[np.bool_]:
    """Bernoulli(exp(-x)), x <= 1, from tosses of Bernoulli(x): as in `samplers`, the first failure is odd.

    `toss(active)` tosses for these elements. Bernoulli(x/k) is Bernoulli(x) and below(k) = 0: no overflow.
    """
    result = np.zeros(count, dtype=np.bool_)
    active = np.arange(count)
    k = 1
    while len(active):
        success = toss(active)
        if k > 1:
            success[success] = below(k, int(success.sum()), coins) == 0
        result[active[~success]] = k % 2 == 1
        active = active[success]
        k += 1
    return result
