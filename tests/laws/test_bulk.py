"""Bulk draws have exactly the law of single ones: small words make ties common, and a walk decides.

With 64-bit words a tie comes once in 2^55 draws and no test would ever see one. The same code with words of
3 to 6 bits ties all the time, so a walk over its coins reaches every branch: the guide, the search, the
refinement of ties, the split, and the thinning.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.test_samplers import given_success

from sfumato.exact import bulk, numbers
from sfumato.exact.bulk import NUMPY, Bell, Cuts, InverseTable
from sfumato.exact.coins import Coins, SystemCoins, Tape, walk
from sfumato.exact.numbers import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAPLACE, GAUSS = Fraction(0), Fraction(1, 2)


def bell_masses(bell: Bell, reach: int = 60) -> dict[int, Interval]:
    weights = {
        y: numbers.exp(-(bell.linear * abs(y) + bell.square * y * y)) for y in range(-reach, reach + 1)
    }
    low = sum((w.low for w in weights.values()), Fraction(0))
    high = sum((w.high for w in weights.values()), Fraction(1, 10**6))  # and what lies beyond
    return {y: w / Interval(low, high) for y, w in weights.items()}


def agree(found: dict[int, Interval], truth: dict[int, Interval]) -> None:
    for y, seen in found.items():
        assert seen.low <= truth[y].high, y
        assert truth[y].low <= seen.high, y


class Bits(Coins):
    """A tape whose words are its bits in order, so that single and bulk draws can read the same ones."""

    def __init__(self, seed: int) -> None:
        self._tape = Tape.seeded(seed)

    def bits(self, count: int) -> int:
        return self._tape.bits(count)


@pytest.mark.parametrize("bits", [3, 5])
@pytest.mark.parametrize(
    ("linear", "square"),
    [(Fraction(1, 2), 0), (Fraction(3), 0), (0, Fraction(1, 8)), (Fraction(1, 3), Fraction(1, 7))],
)
def test_a_lookup_draws_its_law_through_every_tie(bits: int, linear: Fraction, square: Fraction) -> None:
    bell = Bell(Fraction(linear), Fraction(square), bits=bits)
    assert bell.shift == 0
    masses, undecided = walk(bell.lookup.draw, Fraction(1, 2**16))
    assert undecided < Fraction(1, 500)
    agree({y: Interval(seen, seen + undecided) for y, seen in masses.items()}, bell_masses(bell))


class SmallWords(Coins):
    """Words of which only the top `bits` are ever looked at, so that a walk can branch over them."""

    def __init__(self, coins: Coins, sizes: list[int]) -> None:
        self._coins, self._sizes = coins, sizes

    def bits(self, count: int) -> int:
        return self._coins.bits(count)

    def below(self, n: int) -> int:
        return self._coins.below(n)

    def chance(self, numerator: int, denominator: int) -> bool:
        return self._coins.chance(numerator, denominator)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count == 1
        size = self._sizes.pop(0) if self._sizes else 2
        return np.array([self._coins.bits(size) << 64 - size], dtype=np.uint64)


def below_by_coins(n: int, count: int, coins: Coins) -> NDArray[np.int64]:
    return np.array([coins.below(n) for _ in range(count)], dtype=np.int64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("linear", "square"), [(Fraction(1, 4), 0), (Fraction(2, 9), 0), (0, Fraction(1, 70))]
)
def test_a_split_law_is_the_law(linear: Fraction, square: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Width 1 splits even these narrow laws; toss words of 2 bits tie with the bounds on x all the time."""
    monkeypatch.setattr(bulk, "below", below_by_coins)
    monkeypatch.setattr(bulk, "FINE", 1)
    monkeypatch.setattr(bulk, "COARSE", 1)  # 64 - FINE - COARSE: two bits of a word are looked at
    bell = Bell(Fraction(linear), Fraction(square), bits=2, width=2)
    assert bell.shift >= 1
    bell.lookup  # noqa: B018  # built outside the walk

    def attempt(coins: Coins) -> int | None:
        found = bell._attempts(1, SmallWords(coins, [2, bell.shift])).tolist()
        return found[0] if found else None

    masses, undecided = walk(attempt, Fraction(1, 2**16))
    assert undecided < Fraction(1, 20), float(undecided)
    assert None in masses  # some attempts fail: the thinning is at work
    agree(given_success(masses, undecided), bell_masses(bell, 300))


@pytest.mark.parametrize("numerator", [0, 1, 2, 3, 5])
def test_bulk_coins_of_e_to_the_minus_x_have_that_probability(
    numerator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_turns", lambda: InverseTable(bulk.POWERS, bits=4))
    monkeypatch.setattr(bulk, "below", below_by_coins)

    def toss(coins: Coins) -> bool:
        words = SmallWords(coins, [4])
        return bool(bulk.bernoulli_exp(np.array([numerator], dtype=np.int64), 2, words)[0])

    masses, undecided = walk(toss, Fraction(1, 2**15))
    truth = numbers.exp(-Fraction(numerator, 2))
    assert masses.get(True, Fraction(0)) <= truth.high
    assert truth.low <= masses.get(True, Fraction(0)) + undecided
    assert undecided < Fraction(1, 100)


def test_wide_exponents_use_wide_integers() -> None:
    huge = np.array([0, 10**30, 5 * 10**29, 1], dtype=np.object_)
    assert bulk.bernoulli_exp(huge, 10**30, SystemCoins()).shape == (4,)
    never = np.array([10**40] * 3, dtype=np.object_)
    assert not bulk.bernoulli_exp(never, 7, SystemCoins()).any()
    assert bulk.bernoulli_exp(np.zeros(3, dtype=np.int64), 1, SystemCoins()).all()


@pytest.mark.parametrize("bits", [2, 6, 64])
@pytest.mark.parametrize("scale", [Fraction(1, 8), Fraction(4), Fraction(30)])
def test_single_and_bulk_lookups_read_the_same_words_alike(bits: int, scale: Fraction) -> None:
    lookup = Bell(1 / scale, Fraction(0), bits=bits).lookup

    class Fixed(Coins):
        """Hands out chosen words; ties get zeros, which are ties again until the cut has a one there."""

        def __init__(self, words: list[int]) -> None:
            self._given = words

        def bits(self, count: int) -> int:
            return (self._given.pop(0) if self._given else 1) & ((1 << count) - 1)

        def words(self, count: int) -> NDArray[np.uint64]:
            taken = [self._given.pop(0) << (64 - bits) for _ in range(count)]
            return np.array(taken, dtype=np.uint64)

    # every cut, its neighbours, and the ends
    near = sorted({w for cut in lookup._at for w in (cut - 1, cut, cut + 1) if 0 <= w < 1 << bits})
    for word in near[:: max(1, len(near) // 200)]:
        single = lookup.draw(Fixed([word]))
        assert lookup.draws(1, Fixed([word])).tolist() == [single]


@pytest.mark.parametrize("square", [LAPLACE, GAUSS])
@pytest.mark.parametrize("scale", [Fraction(1, 8), Fraction(10), Fraction(1000, 3), Fraction(2**40)])
def test_compiled_kernels_draw_the_same_numbers_from_the_same_coins(
    scale: Fraction, square: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = Bell(1 / scale, Fraction(0)) if square == LAPLACE else Bell(Fraction(0), 1 / (2 * scale**2))
    monkeypatch.setattr(bulk, "COMPILED_PAYS", 1)
    compiled = bulk._compiled()
    assert compiled is not None
    assert bulk.kernels(1) is compiled
    fast = bell.draws(70_000, Tape.seeded(5))
    monkeypatch.setattr(bulk, "COMPILED_PAYS", 10**9)
    assert bulk.kernels(70_000) is NUMPY
    assert np.array_equal(fast, bell.draws(70_000, Tape.seeded(5)))


@given(
    st.integers(0, 255),
    st.integers(0, 2**40),
    st.integers(0, 2**60 - 1),
    st.fractions(Fraction(1, 64), Fraction(1, 8)),
    st.sampled_from([1, 7, 24, 25, 40]),
)
@settings(max_examples=300, deadline=None)
def test_the_bounds_of_a_toss_enclose_x(high: int, rest: int, word: int, width: Fraction, shift: int) -> None:
    """YES only if U < x for sure, NO only if U >= x for sure: in exact arithmetic, at every corner."""
    for bell in (
        Bell(width / (1 << shift), Fraction(0)),
        Bell(Fraction(0), width**2 / (4 << 2 * shift)),
    ):
        bell.__dict__["shift"] = shift
        rest_ = rest % ((1 << shift) + 1)
        high_ = min(high, bell.reach)
        x = bell._cost(high_, rest_) * (1 << 60)
        assert x <= 1 << 60
        for number in (word, int(x), max(int(x) - 1, 0), min(int(x) + 1, (1 << 60) - 1)):
            words = np.array([number], dtype=np.uint64)
            verdict = int(bulk._toss(words, np.array([high_]), np.array([rest_]), bell.slope)[0])
            if verdict == bulk.YES:
                assert number + 1 <= x
            elif verdict == bulk.NO:
                assert number >= x
            else:
                assert abs(number - x) < (1 << 60) / (1 << 20)  # a tie is rare: U within 2^-20 of x


@pytest.mark.parametrize(
    "scale", [Fraction(1, 8), Fraction(10, 3), Fraction(2**61), Fraction(2**70, 3), Fraction(1, 2**70)]
)
def test_bulk_draws_are_whole_numbers_of_any_width(scale: Fraction) -> None:
    drawn = bulk.discrete_laplace(scale, 500, Tape.seeded(1)).tolist()
    assert len(drawn) == 500
    assert all(type(y) is int for y in drawn)
    if scale >= 2:
        assert len(set(drawn)) > 5
    if scale > 2**62:
        assert max(abs(y) for y in drawn) > 2**63  # wider than int64, and not wrapped


def test_bulk_gaussian_falls_back_to_wide_integers() -> None:
    drawn = bulk.discrete_gaussian(Fraction(2**160), 50, Tape.seeded(1)).tolist()
    assert max(abs(y) for y in drawn) > 2**78
    assert len(bulk.discrete_gaussian(Fraction(1, 10), 0, Tape.seeded(1))) == 0


def test_cuts_are_proven_or_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no spare bits most cuts stay open; the table then takes more instead of guessing."""
    right = Bell(Fraction(1, 10), Fraction(0))._cuts(64)
    monkeypatch.setattr(bulk, "SPARE", 0)
    bell = Bell(Fraction(1, 10), Fraction(0))
    assert bell._attempt_cuts(64, 0) is None
    assert bell._cuts(64) == right == Cuts(right.first, sorted(right.at))


def test_a_broken_compiler_is_replaced_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that was paid for must not fail because a cache folder cannot be written."""

    def broken(_name: str) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    bulk._compiled.cache_clear()
    monkeypatch.setattr(bulk, "import_module", broken)
    monkeypatch.setattr(bulk, "COMPILED_PAYS", 1)
    with pytest.warns(UserWarning, match="is not used"):
        assert len(bulk.discrete_laplace(Fraction(10), 10, SystemCoins())) == 10
    assert bulk.kernels(10) is NUMPY
    bulk._compiled.cache_clear()
