"""Vectors of which only l2 is known: what is claimed lies above every shift of that norm, and not far."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest

from sfumato.budget.accounting import filters
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.budget.ledger import record
from sfumato.budget.ledger.ledger import Ledger
from sfumato.curator.calibrate import calibrate
from sfumato.errors import InvalidParameter, LedgerError
from sfumato.exact import gaussian, numbers
from sfumato.mechanisms import (
    Distance,
    Distances,
    Gaussian,
    Geometric,
    Guarantee,
    RandomizedResponse,
    Spend,
    Step,
    accuracy,
)
from sfumato.mechanisms.noise import BY_RHO, BY_TURNING
from sfumato.queries.measures import Moments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MILLIONTH = Fraction(1, 10**6)
COUNT = Moments((), (), 0, False, None)
CAP = Distance(l1=Fraction(10))  # ten rows a person, in any groups
BOTH = Distances(CAP, Distance(l1=Fraction(20), l2_squared=Fraction(200), linf=Fraction(10)))
UNITS = 10**12


def told(sigma_squared: float, moved: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The law of <y, v> for discrete Gaussian noise y, term by term, and the loss of Y + v at each value."""
    reach = int(10 * math.sqrt(sigma_squared)) + 3
    y = np.arange(-reach, reach + 1)
    one = np.exp(-(y**2) / (2 * sigma_squared))
    law = np.ones(1)
    for size in (abs(each) for each in moved if each):
        spread = np.zeros(2 * reach * size + 1)
        spread[::size] = one / one.sum()
        law = np.convolve(law, spread)
    t = np.arange(len(law)) - len(law) // 2
    return law, (2 * t - sum(each**2 for each in moved)) / (2 * sigma_squared)


def truth(sigma_squared: float, moved: tuple[int, ...], epsilon: float, rate: float = 1.0) -> float:
    """Their delta, in one order and, if only some are looked at, in the other as well."""
    below, losses = told(sigma_squared, moved)
    above = (1 - rate) * below + rate * below * np.exp(losses)
    factor = math.exp(epsilon)
    orders = (above - factor * below, below - factor * above)
    return max(float(np.maximum(order, 0.0).sum()) for order in orders)


def shifts(most: int) -> Iterator[tuple[int, ...]]:
    """Every whole shift of up to four coordinates whose square is at most that, but for signs and order."""
    for moved in itertools.combinations_with_replacement(range(math.isqrt(most) + 1), 4):
        if 0 < sum(each**2 for each in moved) <= most:
            yield moved


def worst(sigma_squared: float, most: int, epsilon: Fraction) -> float:
    return max(truth(sigma_squared, moved, float(epsilon)) for moved in shifts(most))


@pytest.mark.parametrize("most", [4, 5, 6, 9, 13])
@pytest.mark.parametrize("variance", [1, 4, 39, 60, 150])
def test_every_whole_shift_of_a_norm_is_covered_and_little_less_noise_is_not(
    variance: int, most: int
) -> None:
    noise, far = (
        Gaussian(sigma_squared=Fraction(variance), proof=BY_TURNING),
        Distance(l2_squared=Fraction(most)),
    )
    for epsilon in (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2)):
        found, true = float(noise.delta(epsilon=epsilon, distance=far)), worst(variance, most, epsilon)
        assert found >= true * (1 - 1e-9) - 1e-13
        if variance >= 60 and true > 1e-9:  # it is tight: with 3% less noise the claim would be false
            assert worst(variance * 0.97**2, most, epsilon) > found


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 3, 7, 16])
def test_coordinates_that_all_move_have_the_delta_of_their_sum(count: int, shift: int) -> None:
    far = Distance(l0=count, linf=Fraction(shift))
    for variance, epsilon in itertools.product((1, 2, 9, 60), (Fraction(0), Fraction(1, 3), Fraction(2))):
        found = float(Gaussian(sigma_squared=Fraction(variance)).delta(epsilon=epsilon, distance=far))
        true = truth(variance, (shift,) * count, float(epsilon))
        assert true * (1 - 1e-9) - 1e-13 <= found <= true * (1.005 if variance == 1 else 1.00001) + 1e-13
        if 1e-9 < true < 0.9:
            assert truth(variance * 0.97**2, (shift,) * count, float(epsilon)) > found


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100, 1023, 1024, 10**6, 2**200])
def test_the_factors_of_a_turned_vector_stay_below_what_is_added(count: int) -> None:
    variance, square = Fraction(10**6), Fraction(2**202)
    found = gaussian.turned(variance, square, count)
    assert found is not None
    rest = variance - square / found
    assert rest < Fraction(count.bit_length() + 51, 28) + Fraction(1, 10**9)
    away = rest - Fraction(1, 10**9)  # the square was rounded up
    once = numbers.exp(-2 * numbers.pi().low ** 2 * away).high * Fraction(21, 10)
    assert count * Fraction(31, 10) * once < gaussian.ALMOST / 4


@pytest.mark.parametrize("place", ["0", "0.1", "0.25", "0.5", "0.77"])
def test_a_rounded_normal_number_is_divided_by_nearly_the_same_everywhere(place: str) -> None:
    with mpmath.workdps(40):
        rest, x = mpmath.mpf(52) / 28, mpmath.mpf(place)
        total = mpmath.fsum(mpmath.exp(-((y - x) ** 2) / (2 * rest)) for y in range(-60, 61))
        wrong = abs(total / mpmath.sqrt(2 * mpmath.pi * rest) - 1)
        assert wrong <= mpmath.mpf("2.1") * mpmath.exp(-2 * mpmath.pi**2 * rest)


def test_narrow_noise_is_priced_by_its_rho() -> None:
    assert gaussian.turned(Fraction(37), Fraction(4), 4) is None
    for variance in (2, 37):
        old, new = (Gaussian(sigma_squared=Fraction(variance), proof=proof) for proof in (BY_RHO, BY_TURNING))
        far = Distance(l2_squared=Fraction(4))
        assert new.bound(far) == old.bound(far)
        assert PrivacyLoss.of((Step(new, Distances(far, far)),)).epsilon(MILLIONTH) == PrivacyLoss.of(
            (Step(old, Distances(far, far)),)
        ).epsilon(MILLIONTH)


def test_absurd_squares_have_an_honest_answer() -> None:
    assert gaussian.turned_delta(Fraction(1 << 21), Fraction(1)) == 1
    assert gaussian.turned_delta(Fraction(1), Fraction(1), 10**15) == 1
    assert gaussian.turned_delta(Fraction(1, 1 << 200), Fraction(1)) < Fraction(1, 10**200)
    assert gaussian.turned_delta(Fraction(1, 1 << 200), Fraction(0)) < Fraction(1, 10**13)
    assert gaussian.alike_delta(Fraction(1, 2), Fraction(1), 1, 2) == 1
    assert gaussian.alike_delta(Fraction(1), Fraction(1), 1, 10**9) == 1
    with pytest.raises(InvalidParameter, match="reaches it"):
        PrivacyLoss.of(turned(Fraction(40), Distance(l1=Fraction(10**6)))).epsilon(MILLIONTH)


@pytest.mark.parametrize("square", ["0.0001", "0.05", "1", "30"])
@pytest.mark.parametrize("epsilon", ["0", "0.01", "0.5", "4"])
def test_the_closed_form_is_that_of_the_normal_law(square: str, epsilon: str) -> None:
    shift = math.sqrt(float(square))
    true = accuracy.continuous_delta(epsilon=float(epsilon), sigma=1, l2=shift)
    found = float(gaussian.turned_delta(Fraction(square), Fraction(epsilon)))
    assert found == pytest.approx(true, rel=1e-6, abs=1e-12)
    assert found >= true * (1 - 1e-9) - 1e-15


# Composition ------------------------------------------------------------------------------------------


def turned(variance: Fraction, distance: Distance = CAP, count: int = 1) -> Spend:
    step = Step(Gaussian(sigma_squared=variance, proof=BY_TURNING), Distances(distance, distance))
    return (step,) * count


def test_normal_shifts_add_up_to_one() -> None:
    four = PrivacyLoss.of(turned(Fraction(4000), count=4))
    assert four == PrivacyLoss.of(turned(Fraction(4000))).times(4)
    ((part, count),) = four.parts
    assert count == 1
    found = four.epsilon(MILLIONTH)
    assert found == PrivacyLoss(((part, 1),)).epsilon(MILLIONTH)
    assert four.delta(found) <= MILLIONTH < four.delta(found - Fraction(1, 1 << 39))
    alone = PrivacyLoss.of(turned(Fraction(1000))).epsilon(MILLIONTH)
    assert float(found) == pytest.approx(float(alone), rel=0.003)


@pytest.mark.parametrize("variance", [400, 5000, 10**6, 10**10])
def test_among_other_noise_it_is_as_by_itself(variance: int) -> None:
    """Hardly any response beside it, and it is written out."""
    alone = PrivacyLoss.of(turned(Fraction(variance)))
    nothing = RandomizedResponse.at(epsilon=Fraction(1, 10**9))
    beside = alone.then(PrivacyLoss.of((Step(nothing, Distances(CAP, CAP)),)))
    for delta in (Fraction(1, 100), MILLIONTH, Fraction(1, 10**9)):
        one, two = float(alone.epsilon(delta)), float(beside.epsilon(delta))
        assert one * (1 - 1e-9) <= two <= one + 2e-5


def test_too_fine_a_shift_among_other_noise_is_its_rho() -> None:
    nothing = PrivacyLoss.of((Step(RandomizedResponse.at(epsilon=Fraction(1, 10**12)), Distances(CAP, CAP)),))
    fine = PrivacyLoss.of(turned(Fraction(10**12)))
    by_rho = PrivacyLoss.of((Step(Gaussian(sigma_squared=Fraction(10**12)), Distances(CAP, CAP)),))
    for delta in (MILLIONTH, Fraction(1, 10**9)):
        alone, beside, rho = (each.epsilon(delta) for each in (fine, fine.then(nothing), by_rho))
        assert alone < beside < rho * Fraction(101, 100) + Fraction(1, 10**10)


def test_with_a_real_noise_beside_it_every_outcome_is_covered() -> None:
    """A turned vector and a response, against all outcomes of the worst shifts."""
    noise, response = Fraction(90), RandomizedResponse.at(epsilon=Fraction(1, 2))
    far = Distance(l2_squared=Fraction(9))
    both = PrivacyLoss.of((*turned(noise, far), Step(response, Distances(far, far))))
    likely = 1 / (1 + math.exp(-0.5))
    for epsilon in (0.5, 1.0, 1.5):
        true = []
        for law, losses in (told(90, moved) for moved in shifts(9)):
            ratios = (likely * np.exp(losses), (1 - likely) * np.exp(losses))
            others = math.exp(epsilon) * (1 - likely), math.exp(epsilon) * likely
            pairs = zip(ratios, others, strict=True)
            true.append(sum(float(np.maximum(law * (p - q), 0.0).sum()) for p, q in pairs))
        found = float(both.delta(Fraction(epsilon)))
        assert max(true) * (1 - 1e-9) <= found <= 1.25 * max(true)


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)])
def test_a_sampled_vector_is_covered_in_both_orders(rate: Fraction) -> None:
    far = Distance(l2_squared=Fraction(6))
    loss = PrivacyLoss.of(turned(Fraction(80), far)).sampled(rate)
    for epsilon in (Fraction(0), Fraction(1, 10), Fraction(1, 2)):
        true = max(truth(80, moved, float(epsilon), float(rate)) for moved in shifts(6))
        found = float(loss.delta(epsilon))
        assert true * (1 - 1e-9) - 1e-12 <= found <= 1.25 * true + 1e-9


def test_wide_noise_is_normal_however_it_is_known() -> None:
    one = Distance(l0=3, linf=Fraction(2))
    for variance in (10**6, 10**11):
        old, new = (
            PrivacyLoss.of(
                (Step(Gaussian(sigma_squared=Fraction(variance), proof=proof), Distances(one, one)),)
            )
            for proof in (BY_RHO, BY_TURNING)
        )
        shift = math.sqrt(12 / variance)
        assert float(new.epsilon(MILLIONTH)) == pytest.approx(
            accuracy.continuous_epsilon(delta=1e-6, ratio=shift), rel=1e-4
        )
        assert new.epsilon(MILLIONTH) <= old.epsilon(MILLIONTH)


# Prices that were charged -----------------------------------------------------------------------------

STORED = (
    '{"steps":[{"mechanism":{"name":"gaussian","sigma_squared":"2089"},"presence":{"l0":null,"l1":"10",'
    '"l2_squared":"100","linf":"10"},"promises":[],"value":{"l0":null,"l1":"20","l2_squared":"200",'
    '"linf":"10"}}],"version":1}'
)


def paid(spend: Spend, delta: str, towards: str = "presence") -> int:
    currency = Guarantee(epsilon=Fraction(1), delta=Fraction(delta)).of(Fraction(0), Fraction(delta))
    return int(filters.price(spend, currency, towards).amount * UNITS)


def test_a_stored_step_keeps_the_price_that_it_had() -> None:
    """The numbers are those of the version that wrote such steps."""
    spend = record.read(STORED)
    assert record.write(spend) == STORED
    assert spend == (Step(Gaussian(sigma_squared=Fraction(2089)), BOTH),)
    assert paid(spend, "1e-6") == pytest.approx(990706021445, rel=1e-9)
    assert paid(spend, "1e-6", "value") == pytest.approx(1437464366033, rel=1e-9)
    assert paid(spend * 3, "1e-9") == pytest.approx(2277980213376, rel=1e-9)
    assert paid(spend * 3, "1e-9", "value") == pytest.approx(3293409665761, rel=1e-9)
    one = Distance(l0=3, linf=Fraction(2))
    prices = {50: 2203332452955, 10**6: 10669880159, 10**11: 14740025}
    for variance, price in prices.items():
        written = (Step(Gaussian(sigma_squared=Fraction(variance)), Distances(one, one.times(2))),)
        assert '"proof"' not in record.write(written)
        assert paid(written, "1e-6") == pytest.approx(price, rel=1e-9)


def test_a_new_step_says_by_which_proof_it_is_priced() -> None:
    spend = (Step(Gaussian(sigma_squared=Fraction(2089), proof=BY_TURNING), BOTH),)
    text = record.write(spend)
    assert text == STORED.replace('"name":"gaussian",', '"name":"gaussian","proof":2,')
    assert record.read(text) == spend
    assert spend != record.read(STORED)
    for towards in ("presence", "value"):
        assert paid(spend, "1e-6", towards) < 0.94 * paid(record.read(STORED), "1e-6", towards)
    with pytest.raises(LedgerError, match="cannot read"):
        record.read(text.replace('"proof":2', '"proof":3'))
    for wrong in (0, 3, True, None, "2"):
        with pytest.raises(InvalidParameter, match="proof"):
            Gaussian(sigma_squared=Fraction(1), proof=wrong)  # type: ignore[arg-type]


def test_a_ledger_holds_old_prices_beside_new_ones(tmp_path: Path) -> None:
    total = Guarantee(epsilon=Fraction(10), delta=Fraction(1, 10**4))
    book = Ledger(tmp_path / "own.db", name="own", total=total, witness=tmp_path / "own.ledger")
    new_step = Step(Gaussian(sigma_squared=Fraction(2089), proof=BY_TURNING), BOTH)
    old = book.charge(record.read(STORED), "old", slack=MILLIONTH).price
    new = book.charge((new_step,), "new", slack=MILLIONTH).price
    assert float(old.amount * UNITS) == pytest.approx(990706021445, rel=1e-9)
    assert new.amount < Fraction(94, 100) * old.amount
    assert book.spent.amount == old.amount + new.amount
    book.verify()
    again = book.charge(record.read(STORED), "old", slack=MILLIONTH)
    assert again.charged.amount == 0


# Calibration ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-9"])
@pytest.mark.parametrize("cap", [10, 100])
def test_a_cap_over_groups_is_calibrated_like_normal_noise(cap: int, delta: str, epsilon: str) -> None:
    distance = Distance(l1=Fraction(cap))
    found = Gaussian.at(epsilon=Fraction(epsilon), delta=Fraction(delta), distance=distance)
    assert found.proof == BY_TURNING
    assert found.delta(epsilon=Fraction(epsilon), distance=distance) <= Fraction(delta)
    sigma = math.sqrt(found.sigma_squared)
    normal = accuracy.continuous_delta(epsilon=float(epsilon), sigma=sigma * 0.998, l2=cap)
    assert normal > float(delta)  # a normal law needs no less than 0.2% less
    by_rho = Gaussian(sigma_squared=found.sigma_squared * Fraction(110, 100))
    assert by_rho.delta(epsilon=Fraction(epsilon), distance=distance) > Fraction(
        delta
    )  # 5% more is too little
    step = Step(found, Distances(distance, distance))
    assert PrivacyLoss.of((step,)).epsilon(Fraction(delta)) <= Fraction(epsilon)


@pytest.mark.parametrize("count", [12, 40])
def test_many_columns_under_a_cap_are_charged_what_was_asked(count: int) -> None:
    asked = Guarantee.read(epsilon="0.2", delta="1e-7")
    found = calibrate((COUNT,) * count, (BOTH,) * count, asked)
    assert {step.mechanism.name for step in found.steps} == {"gaussian"}
    assert all(isinstance(step.mechanism, Gaussian) and step.mechanism.proof == 2 for step in found.steps)
    price = found.guarantee()
    assert Fraction(998, 1000) * asked.amount < price.amount <= asked.amount
    replaced = found.guarantee("value").amount
    assert asked.amount < replaced < Fraction(3, 2) * asked.amount  # the root of 2, and a little


def test_what_needs_no_new_proof_keeps_its_text() -> None:
    one = Distances(Distance(l0=1, linf=Fraction(1)), Distance(l0=2, linf=Fraction(1)))
    found = calibrate((COUNT,) * 30, (one,) * 30, Guarantee.read(epsilon="1", delta="1e-7"))
    assert all(isinstance(step.mechanism, Gaussian) and step.mechanism.proof == 1 for step in found.steps)
    rhos = calibrate((COUNT,) * 30, (BOTH,) * 30, Guarantee.read(rho="0.1"))
    assert all(isinstance(step.mechanism, Gaussian) and step.mechanism.proof == 1 for step in rhos.steps)
    alone = calibrate((COUNT,), (BOTH,), Guarantee.read(epsilon="1", delta="1e-7"))
    assert isinstance(alone.steps[0].mechanism, Geometric)


def test_a_last_step_of_the_search_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where far more noise is needed than for one shift, what is taken is near the least all the same."""
    monkeypatch.setattr("sfumato.curator.calibrate.best_proof", lambda *_: BY_RHO)
    found = calibrate((COUNT,) * 20, (BOTH,) * 20, Guarantee.read(epsilon="0.1", delta="1e-6"))
    assert Fraction(998, 10000) < found.guarantee().amount <= Fraction(1, 10)
