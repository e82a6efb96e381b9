"""Edges at which mutants of the source once survived: prices, guards, closing terms."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.test_bulk import SmallWords, agree, bell_masses
from tests.laws.test_samplers import given_success

from sfumato.budget.accounting.composition import optimal, zcdp
from sfumato.budget.ledger import record
from sfumato.errors import InvalidParameter, LedgerError
from sfumato.exact import bulk, gaussian, numbers
from sfumato.exact.bulk import Bell
from sfumato.exact.coins import Coins, Tape, walk
from sfumato.mechanisms import (
    Bound,
    Cube,
    DiscreteLaplace,
    Distance,
    Distances,
    Finite,
    Gaussian,
    Geometric,
    NoisyMax,
    RandomizedResponse,
    Renormalised,
    SparseVector,
    Stairs,
    Step,
    Table,
    TopK,
    Truncated,
    accuracy,
    meaning,
    normal,
)
from sfumato.mechanisms.ranges import Ends, Inside
from sfumato.mechanisms.selection import Costs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

F = Fraction
ONE = Distance(linf=F(1))
# 100 digits, to compare an interval with
PI = F(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679"
)


def test_prices_use_the_right_norm_and_the_right_factor() -> None:
    assert Geometric(scale=F(10)).bound(Distance(l0=3, linf=F(1))).epsilon == F(3, 10)
    assert Gaussian(sigma_squared=F(50)).bound(Distance(l2_squared=F(1))).rho == F(1, 100)
    found = Gaussian(sigma_squared=F(100)).delta(epsilon=F(1, 2), distance=Distance(l0=16, linf=F(1)))
    # of sixteen coordinates the sum tells all, a discrete law of sigma 40 moved by 16: on either side
    assert float(found) == pytest.approx(accuracy.continuous_delta(epsilon=0.5, sigma=10, l2=4), rel=1e-3)
    assert normal(sigma_squared=F(3), bits=4).core == Gaussian(sigma_squared=F(3 * 256))
    assert TopK.at(count=3, epsilon=F(1), distance=ONE).bound(ONE).epsilon == 1
    assert TopK(scale=F(6), count=3).bound(ONE).rho == 3 * F(1, 3) ** 2 / 8
    far = Distance(l2_squared=F(1), monotone=True).times(3)
    assert far.l2_squared == 9
    assert not far.monotone  # one may come and another go
    assert Distance(linf=F(1), monotone=True).times(1).monotone
    one = Distance(l0=1, linf=F(1))
    assert Geometric(scale=F(1)).bound(one.times(np.int8(16))).epsilon == 16  # type: ignore[arg-type]
    watch = SparseVector.at(epsilon=F(1), distance=ONE, threshold=0, limit=4)
    assert watch.threshold_scale == 5
    assert watch.answer_scale == 10


@pytest.mark.parametrize(("epsilon", "size"), [(F(31, 48), 5), (F(254, 71), 50), (F(130, 43), 50)])
def test_randomized_response_costs_no_more_than_asked(epsilon: Fraction, size: int) -> None:
    bound = RandomizedResponse.at(epsilon=epsilon, size=size).bound(Distance(l0=1)).epsilon
    assert bound is not None
    assert bound <= epsilon


@pytest.mark.parametrize(("linear", "square"), [(F(1, 4), F(0)), (F(0), F(1, 70))])
def test_a_split_law_in_wide_integers_is_the_law(
    linear: Fraction, square: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "WIDEST", 0)
    bell = Bell(linear, square, bits=2, width=2)
    bell.lookup  # noqa: B018  # built outside the walk

    def attempt(coins: Coins) -> int | None:
        found: list[int] = bell._attempts(1, SmallWords(coins, [2])).tolist()
        return found[0] if found else None

    masses, undecided = walk(attempt, F(1, 2**15))
    agree(given_success(masses, undecided), bell_masses(bell, 300))


@pytest.mark.parametrize("variance", [F(10**4), F(7 * 10**6, 3), F(2**40), F(2**41)])
def test_within_reach_no_x_is_above_one(variance: Fraction) -> None:
    bell = bulk.bell(F(0), 1 / (2 * variance))
    assert bell._cost(bell.reach, 1 << bell.shift) <= 1


def test_the_top_words_are_rejected() -> None:
    class Given(Coins):
        """Hands out the words it was given."""

        def __init__(self, words: list[int]) -> None:
            self._given = words

        def bits(self, count: int) -> int:
            raise NotImplementedError(count)

        def words(self, count: int) -> NDArray[np.uint64]:
            return np.array([self._given.pop(0) for _ in range(count)], dtype=np.uint64)

    n = 3 << 61
    assert bulk.below(n, 1, Given([2 * n, 5])).tolist() == [5]
    assert bulk.below(n, 1, Given([2 * n - 1, 5])).tolist() == [n - 1]


@pytest.mark.parametrize(
    ("linear", "square"), [(F(1, 3), F(0)), (F(0), F(1, 50)), (F(1, 40), F(0)), (F(0), F(1, 8000))]
)
def test_few_bits_leave_a_cut_open_and_never_wrong(linear: Fraction, square: Fraction) -> None:
    for bits in (16, 24):
        right = Bell(linear, square)._cuts(bits)
        for spare in range(0, 40, 4):
            assert Bell(linear, square)._attempt_cuts(bits, spare) in (None, right)


def test_bulk_draws_at_the_edges() -> None:
    drawn = Stairs(epsilon=F(1), width=3, flat=3).draws(Tape.seeded(1), 20_000).tolist()
    assert abs(drawn.count(0) - drawn.count(1)) < 500  # zero is drawn once, not twice
    wide = Stairs(epsilon=F(1, 100), width=2**59, flat=2**59).draws(Tape.seeded(1), 50).tolist()
    assert max(map(abs, wide)) > 2**63
    top = Ends(DiscreteLaplace(scale=F(4)), 2**63 - 1, 0, 2**63 - 1).draws(Tape.seeded(1), 50)
    assert min(top.tolist()) > 2**62
    for end in (0, 5):
        assert Inside(F(1, 8), centre=end, low=0, high=5).draw(Tape.seeded(1)) == end
    scores = np.array([2**63 - 1, 2**63], dtype=np.uint64)
    assert Costs.of(scores, F(1)).numerators.tolist() == [1, 0]  # type: ignore[arg-type]
    law = NoisyMax(scale=F(4)).law([0] * 150 + [2**63 - 1])
    assert {law.draw(Tape.seeded(seed)) for seed in range(10)} == {150}
    cut = Truncated(core=Geometric(scale=F(2)), low=0, high=10)
    assert cut.law((99,)).log_mass((10,)) == cut.law((10,)).log_mass((10,))


@pytest.mark.parametrize("sigma_squared", [F(256), F(1000, 3), F(2000)])
@pytest.mark.parametrize("n", [0, 1, 16, 50, 100])
def test_terms_and_integrals_overlap(sigma_squared: Fraction, n: int) -> None:
    law = gaussian.Sums(sigma_squared)
    terms, integral = law._terms(n), law._integral(n)
    assert max(terms.low, integral.low) <= min(terms.high, integral.high)


def test_far_tails_and_series_are_closed() -> None:
    v, n = 10**12, 64 * 10**6 + 1
    assert 1000 * numbers.exp(-F((n + 1000) ** 2, 2 * v)).low <= gaussian.Sums(F(v)).beyond(n).high
    law = gaussian.Sums(F(100))
    last = len(law._tails[0]) - 1
    two = numbers.exp(-F(last**2, 200)).low + numbers.exp(-F((last + 1) ** 2, 200)).low
    assert two <= law.beyond(last).high
    assert numbers._exp_small(F(1, 1 << 20), 20)[1] > (1 << 20) + 1
    tiny = F(9, 5 << 112)
    assert tiny <= numbers.log(1 + tiny).high
    assert 1 + F(1, 1 << 20) < gaussian._series(F(3, 1 << 20), 20).high


@given(st.fractions(0, 10**6, max_denominator=10**6), st.integers(1, 40))
@settings(deadline=None)
def test_a_root_lies_in_its_interval(x: Fraction, precision: int) -> None:
    root = numbers.sqrt(x, precision)
    assert root.low**2 <= x <= root.high**2


@pytest.mark.parametrize("precision", [*range(1, 40), 96, 300])
def test_pi_lies_in_its_interval(precision: int) -> None:
    assert numbers.pi(precision).low < PI < numbers.pi(precision).high


@given(st.fractions(F(1, 10**9), 50, max_denominator=10**9))
@settings(max_examples=60, deadline=None)
def test_one_minus_exp_lies_in_its_interval_and_is_narrow(x: Fraction) -> None:
    found = numbers.one_minus_exp(x)
    plain = 1 - numbers.exp(-x)
    assert max(found.low, plain.low) <= min(found.high, plain.high)
    assert found.high - found.low <= found.low / 2**80


def test_small_refusals() -> None:
    with pytest.raises(InvalidParameter, match="masses"):
        Finite((0, 1), (F(-1, 2), F(3, 2)))
    with pytest.raises(InvalidParameter, match="outside the range"):
        RandomizedResponse.two_coins().law(-1)
    with pytest.raises(InvalidParameter, match="prior"):
        meaning.posterior(Table.geometric(ratio=F(1, 2), size=2), {0: F(-1, 2), 1: F(3, 2)}, 0)
    with pytest.raises(LedgerError, match="form 0"):
        record.read('{"steps":[],"version":0}')
    assert Table.geometric(ratio=F(1, 2), size=3).worst_under(lambda _x, _y: 0).epsilon is None
    both = accuracy.best_of_two(epsilon=1, gap=-10) + accuracy.best_of_two(epsilon=1, gap=10)
    assert both == pytest.approx(1)


def test_numbers_of_numpy_are_kept_nowhere() -> None:
    """They wrap, and a Fraction made of them keeps them."""
    small = Fraction(np.int64(1), np.int64(20))  # type: ignore[call-overload]
    assert len(Stairs(epsilon=F(1), width=3, flat=1).window(small)) > 3
    assert optimal(F(1, 10), count=5).total(small) < 1
    ends = Renormalised(scale=F(10), low=np.int8(-100), high=np.int8(100))  # type: ignore[arg-type]
    assert ends.bound(Distance(linf=F(5))).epsilon is not None
    assert type(ends.low) is int
    cut = Truncated(core=Geometric(scale=F(1)), low=np.int8(0), high=np.int8(5))  # type: ignore[arg-type]
    assert type(cut.high) is int
    assert type(Bound(epsilon=np.int64(3)).rho) is Fraction  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("epsilon", lambda: Stairs(epsilon=F(1, 2**512), width=1, flat=1)),
        ("count", lambda: optimal(F(10), count=6000)),
        ("delta", lambda: zcdp([F(9999)], delta=F(1, 10**6))),
        ("epsilon", lambda: RandomizedResponse.at(epsilon=F(10_000))),
    ],
)
def test_extremes_are_refused_by_the_name_that_was_given(named: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.name == named


def test_few_stairs_come_as_plain_integers() -> None:
    for seed in range(12):
        assert Stairs(epsilon=F(39, 10), width=1000, flat=1).draws(Tape.seeded(seed), 3).dtype == np.int64


def test_long_distances_are_stored_and_broken_texts_are_errors_of_the_ledger() -> None:
    long = Distance(l1=F(1, 3**3000), linf=F(1, 7**2000))
    wide = Distance(l0=2**5000, linf=F(2**5000))
    for distance in (long, wide):
        spend = (Step(Cube(scale=F(1)), Distances(distance, distance)),)
        assert record.read(record.write(spend)) == spend
    for text in ('{"vers', "[]", '{"steps":[{"mechanism":[]}],"version":1}'):
        with pytest.raises(LedgerError, match="cannot read"):
            record.read(text)
    labelled: Table[float, int] = Table(rows=((F(1),),), secrets=(float("nan"),))
    with pytest.raises(InvalidParameter, match="label"):
        record.write((Step(labelled, Distances(long, long)),))
