"""The loss of planned steps: never below the truth, and near it.

The truth is computed anew here: exact fractions over all outcomes of small products, closed forms of the
normal law with mpmath, and the sums of the discrete laws that the mechanisms prove.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.budget.accounting import atoms, loss
from sfumato.budget.accounting.composition import optimal
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.errors import InvalidParameter
from sfumato.exact import gaussian, numbers
from sfumato.mechanisms import (
    Bound,
    Distance,
    Distances,
    Exponential,
    Gaussian,
    Geometric,
    RandomizedResponse,
    SmoothMedian,
    Step,
)
from sfumato.mechanisms.grid import laplace, normal
from sfumato.mechanisms.noise import DiscreteLaplace

MILLIONTH = Fraction(1, 10**6)


def at(steps: int = 1, coordinates: int = 1) -> Distances:
    distance = Distance(l0=coordinates, linf=Fraction(steps))
    return Distances(distance, distance.times(2))


def geometric(scale: Fraction | int, steps: int = 1, coordinates: int = 1) -> PrivacyLoss:
    return PrivacyLoss.of((Step(Geometric(scale=Fraction(scale)), at(steps, coordinates)),))


def discrete_gaussian(sigma_squared: Fraction | int, steps: int = 1, coordinates: int = 1) -> PrivacyLoss:
    return PrivacyLoss.of((Step(Gaussian(sigma_squared=Fraction(sigma_squared)), at(steps, coordinates)),))


LAPLACE = PrivacyLoss.of((Step(laplace(scale=Fraction(10), bits=20), at()),))  # epsilon 1/10
NORMAL = PrivacyLoss.of((Step(normal(sigma_squared=Fraction(400), bits=20), at()),))
RESPONSE = PrivacyLoss.of((Step(RandomizedResponse.at(epsilon=Fraction(1, 10)), at()),))


def hockey_stick(pairs: list[tuple[Fraction, Fraction]], epsilon: Fraction) -> Fraction:
    """The delta of a pair of laws given by the masses of every outcome, rounded down."""
    factor = numbers.exp(epsilon).high
    return sum((max(p - factor * q, Fraction(0)) for p, q in pairs), Fraction(0))


def pair_of(scale: int, steps: int) -> list[tuple[Fraction, Fraction]]:
    """Geometric noise moved by `steps`, outcomes at or below 0 and at or above `steps` put together."""
    noise = DiscreteLaplace(scale=Fraction(scale))
    cuts = [noise.cdf(y) for y in range(-steps, steps + 1)]

    def cells(first: int) -> list[Fraction]:
        cdf = [cuts[first + i] for i in range(steps)]
        ends = [Fraction(0), *((c.low + c.high) / 2 for c in cdf), Fraction(1)]
        return [b - a for a, b in itertools.pairwise(ends)]

    return list(zip(cells(0), cells(steps), strict=True))


def product(pairs: list[list[tuple[Fraction, Fraction]]]) -> list[tuple[Fraction, Fraction]]:
    return [
        (
            math.prod((p for p, _ in each), start=Fraction(1)),
            math.prod((q for _, q in each), start=Fraction(1)),
        )
        for each in itertools.product(*pairs)
    ]


# Anchors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "truth", "within"),
    [
        (LAPLACE.times(1000), 18.95029, 1e-4),
        (NORMAL.times(1000), 8.306225, 1e-4),
        (LAPLACE.times(300).then(NORMAL.times(300)).then(RESPONSE.times(400)), 16.32768, 1e-4),
        (geometric(801).times(10_000), 0.5031228, 1e-6),
    ],
)
def test_the_anchors_are_met_from_above(steps: PrivacyLoss, truth: float, within: float) -> None:
    assert truth - 1e-6 <= float(steps.epsilon(MILLIONTH)) <= truth + within


def test_the_subsampled_gaussian_is_at_least_as_tight_as_the_best_peer() -> None:
    one = PrivacyLoss.of((Step(normal(sigma_squared=Fraction(1), bits=20), at()),))
    found = one.sampled(Fraction(1, 100)).times(10_000).epsilon(MILLIONTH)
    assert 6.907 <= float(found) <= 6.9074


def test_the_gaussian_agrees_with_its_closed_form_in_the_continuous_limit() -> None:
    """k shifts of 1 against sigma are one shift of sqrt(k): Phi(...) - e^epsilon Phi(...)."""
    sigma = mpmath.mpf(20) / mpmath.sqrt(1000)
    for epsilon in (0, 1, 4, 8, 12, 16):
        a = mpmath.ncdf(1 / (2 * sigma) - epsilon * sigma)
        truth = a - mpmath.exp(epsilon) * mpmath.ncdf(-1 / (2 * sigma) - epsilon * sigma)
        found = float(NORMAL.times(1000).delta(Fraction(epsilon)))
        assert float(truth) * (1 - 1e-9) <= found <= float(truth) * (1 + 3e-4)


# Never below, and near --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(9, 4)])
def test_small_products_are_dominated_exactly(epsilon: Fraction) -> None:
    parts = [(2, 3), (5, 4), (3, 1), (3, 1)]  # scale, steps
    truth = hockey_stick(product([pair_of(*part) for part in parts]), epsilon)
    found = geometric(2, 3).then(geometric(5, 4)).then(geometric(3).times(2)).delta(epsilon)
    assert truth <= found <= truth + max(truth / 10**6, Fraction(1, 10**30))


@pytest.mark.parametrize(
    ("sigma_squared", "steps"),
    [(Fraction(1, 4), 1), (1, 1), (400, 7), (10**10, 10**5), (10**14, 1_234_567), (10**20, 10**9 + 7)],
)
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 100), Fraction(1, 2), Fraction(3)])
def test_one_gaussian_is_bounded_by_the_sums_of_its_law(
    sigma_squared: Fraction | int, steps: int, epsilon: Fraction
) -> None:
    truth = gaussian.shift_delta(Fraction(sigma_squared), epsilon, steps)
    found = discrete_gaussian(sigma_squared, steps).delta(epsilon)
    assert truth.low <= found
    assert found <= truth.high * (1 + Fraction(1, 5000)) + Fraction(1, 10**40)


def test_wide_geometric_noise_is_made_coarse_without_losing_a_thing() -> None:
    """Scale 10^9 moved by 10^8 steps: as scale 10 moved by one, cut ever finer."""
    for steps in (10**8, 10**8 + 7):
        found = geometric(10**9, steps)
        limit = 1 - math.exp(-float(Fraction(steps, 10**9)) / 2)  # Laplace: 1 - e^(-epsilon/2) at 0
        assert limit * (1 - 1e-9) <= float(found.delta(Fraction(0))) <= limit * (1 + 1e-4)
        assert found.delta(Fraction(steps, 10**9)) == 0


def test_a_shift_too_fine_to_write_out_falls_back_on_its_rho() -> None:
    many = discrete_gaussian(40_000**2).times(10**6)
    assert many.parts == (
        (loss.Concentrated(Fraction(10**6, 2 * 40_000**2)), 1),
    )  # added up before converted
    found = discrete_gaussian(10**20, 1)
    assert (
        gaussian.shift_delta(Fraction(10**20), Fraction(0), 1).low
        <= found.delta(Fraction(0))
        <= Fraction(1, 10**9)
    )


def test_equal_responses_are_summed_exactly_and_the_grid_stays_above(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = optimal(Fraction(1, 10), count=400)
    assert geometric(10).times(400).epsilon(MILLIONTH) == exact.total(MILLIONTH)
    monkeypatch.setattr(loss, "BINOMIAL", 0)
    loss._atoms.cache_clear()
    try:
        for epsilon in (Fraction(0), Fraction(1), Fraction(61, 10), Fraction(401, 20)):
            truth, found = exact.delta(epsilon), geometric(10).times(400).delta(epsilon)
            assert truth * (1 - Fraction(1, 10**9)) <= found <= truth * (1 + Fraction(1, 1000))
    finally:
        loss._atoms.cache_clear()


def test_responses_keep_their_atoms_among_other_noise() -> None:
    """400 responses and one step that tells next to nothing: the exact number of the responses."""
    almost = geometric(10).times(400).then(geometric(10**9))
    exact = optimal(Fraction(1, 10), count=400).total(MILLIONTH)
    assert exact - Fraction(1, 10**9) <= almost.epsilon(MILLIONTH) <= exact + Fraction(1, 10**7)


def test_several_coordinates_are_several_shifts() -> None:
    assert geometric(10, 1, 3) == geometric(10).times(3)
    assert discrete_gaussian(50, 2, 3) == discrete_gaussian(50, 2).times(3)


def test_vectors_known_by_a_norm_alone_fall_back_on_what_is_proved() -> None:
    l1, l2 = Distance(l1=Fraction(3)), Distance(l2_squared=Fraction(9))
    pure = PrivacyLoss.of((Step(Geometric(scale=Fraction(10)), Distances(l1, l1)),))
    assert pure.parts == ((loss.Response(Fraction(3, 10)), 1),)
    rho = PrivacyLoss.of((Step(Gaussian(sigma_squared=Fraction(50)), Distances(l2, l2)),))
    assert rho.times(3).parts == ((loss.Concentrated(Fraction(27, 100)), 1),)
    for epsilon in (Fraction(0), Fraction(1, 2), Fraction(2), Fraction(4)):
        proved = Bound(rho=Fraction(27, 100)).delta_at(epsilon)
        found = rho.times(3).delta(epsilon)
        assert found <= proved * Fraction(51, 50) + Fraction(1, 10**12)
        assert found >= gaussian.shift_delta(Fraction(50), epsilon, 3).low  # one of those it must dominate


def test_deltas_that_are_proved_are_added() -> None:
    median = SmoothMedian(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6), low=0, high=100, size=9)
    distance = Distance(l0=1)
    step = Step(median, Distances(distance, distance))
    found = PrivacyLoss.of((step, step))
    assert found.lost == 2 * step.bound().delta
    assert found.delta(Fraction(1)) == found.lost
    with pytest.raises(InvalidParameter, match="lose for certain"):
        found.epsilon(Fraction(1, 10**7))
    assert found.epsilon(found.lost) == 1


def test_a_pure_total_ends_delta_exactly() -> None:
    mixed = geometric(10).times(3).then(geometric(7, 3))
    total = Fraction(3, 10) + Fraction(3, 7)
    assert mixed.delta(total) == 0 < mixed.delta(total - Fraction(1, 100))
    assert mixed.epsilon(Fraction(1, 10**60)) <= total


def test_nothing_costs_nothing() -> None:
    nothing = PrivacyLoss.of(())
    assert nothing.delta(Fraction(0)) == 0 == nothing.epsilon(MILLIONTH)
    assert geometric(10).times(0) == nothing
    zero = Distance(l0=0)
    assert PrivacyLoss.of((Step(Geometric(scale=Fraction(1)), Distances(zero, zero)),)) == nothing


def test_towards_names_the_relation() -> None:
    step = Step(Geometric(scale=Fraction(10)), at())
    assert PrivacyLoss.of((step,), "value").delta(Fraction(0)) > PrivacyLoss.of((step,)).delta(Fraction(0))


def test_tiny_deltas_keep_their_digits() -> None:
    thousand = geometric(10).times(1000)
    smooth = thousand.then(geometric(10**9))  # the same through the grid and the transform
    for power in (10, 20, 30):
        delta = Fraction(1, 10**power)
        exact, found = thousand.epsilon(delta), smooth.epsilon(delta)
        assert exact - Fraction(1, 10**9) <= found <= exact + Fraction(1, 10**4)


def test_many_different_steps_are_composed() -> None:
    mixed = PrivacyLoss.of(())
    for i in range(1, 41):
        mixed = mixed.then(geometric(10 + i, 1 + i % 3)).then(discrete_gaussian(100 * i, 1 + i % 2))
    low, high = mixed.epsilon(Fraction(1, 10**3)), mixed.epsilon(Fraction(1, 10**9))
    assert 0 < low < high < 8
    assert mixed.delta(high) <= Fraction(1, 10**9) * (1 + Fraction(1, 10**4))


@pytest.mark.parametrize("seed", range(20))
def test_random_products_against_every_outcome(seed: int) -> None:
    dice = np.random.default_rng(seed)
    parts = [(int(dice.integers(1, 9)), int(dice.integers(1, 5))) for _ in range(4)]
    epsilon = Fraction(int(dice.integers(0, 40)), 16)
    truth = hockey_stick(product([pair_of(*part) for part in parts]), epsilon)
    found = PrivacyLoss.of(())
    for part in parts:
        found = found.then(geometric(*part))
    assert (
        truth - Fraction(1, 10**25)
        <= found.delta(epsilon)
        <= truth * (1 + Fraction(1, 10**4)) + Fraction(1, 10**25)
    )


def test_renyi_lies_between_the_tight_rule_and_the_loose_one() -> None:
    for steps in (geometric(10).times(1000), NORMAL.times(1000), LAPLACE.times(50)):
        assert steps.epsilon(MILLIONTH) < steps.renyi(MILLIONTH) < steps.epsilon(MILLIONTH) * Fraction(6, 5)


# Sampling ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 2), Fraction(99, 100)])
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 50), Fraction(1, 2), Fraction(2)])
def test_poisson_sampling_against_every_outcome(rate: Fraction, epsilon: Fraction) -> None:
    """Both orders: the mixture against Q, and Q against the mixture; two steps."""
    pair = pair_of(1, 3)
    mixed = [((1 - rate) * q + rate * p, q) for p, q in pair]
    orders = [product([mixed] * 2), product([[(q, m) for m, q in mixed]] * 2)]
    truth = max(hockey_stick(order, epsilon) for order in orders)
    found = geometric(1, 3).sampled(rate).times(2).delta(epsilon)
    assert truth - Fraction(1, 10**20) <= found <= truth * (1 + Fraction(1, 10**4)) + Fraction(1, 10**20)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10), Fraction(1)])
def test_a_fixed_sample_against_every_outcome(epsilon: Fraction) -> None:
    """One step: the mixture against Q. Two: the profile that is its own mirror image."""
    rate, pair = Fraction(1, 5), pair_of(1, 3)
    mixed = [((1 - rate) * q + rate * p, q) for p, q in pair]
    once = hockey_stick(mixed, epsilon)
    value = Distance(l0=1, linf=Fraction(3))
    step = Step(Geometric(scale=Fraction(1)), Distances(value, value))
    found = PrivacyLoss.of((step,), "value").sampled(rate, fixed=True)
    assert (
        once - Fraction(1, 10**20)
        <= found.delta(epsilon)
        <= once * (1 + Fraction(1, 10**4)) + Fraction(1, 10**10)
    )
    positive = [(m, q) for m, q in mixed if m > q]
    rest = 1 - sum((m + q for m, q in positive), Fraction(0))
    mirrored = [*positive, *((q, m) for m, q in positive), (rest, rest)]
    twice = hockey_stick(product([mirrored] * 2), epsilon)
    assert (
        twice - Fraction(1, 10**20)
        <= found.times(2).delta(epsilon)
        <= twice * (1 + Fraction(1, 10**4)) + Fraction(1, 10**10)
    )


def test_what_is_split_beyond_the_window_is_counted() -> None:
    """Found by attack: mass that the grid moves above the window wrapped round, 9% below the truth."""
    epsilon, rate = Fraction(6563299767, 536870912), Fraction(149638935463205, 4611686018427387904)
    at_epsilon, scale, count = Fraction(70328434979521, 2251799813685248), 101034, 37
    one = PrivacyLoss(((loss.Response(epsilon), 1),)).sampled(rate)
    found = one.then(geometric(scale, 2).times(count)).delta(at_epsilon)
    with mpmath.workdps(50):
        size, share, total = (mpmath.mpf(z.numerator) / z.denominator for z in (epsilon, rate, at_epsilon))
        x, a = mpmath.exp(size), mpmath.exp(-mpmath.mpf(1) / scale)
        pairs = [(1 / (1 + x), x / (1 + x)), (x / (1 + x), 1 / (1 + x))]
        mixed = [((1 - share) * q + share * p, q) for p, q in pairs]
        law, sums = [a * a / (1 + a), (1 - a) / (1 + a) * a, 1 / (1 + a)], [mpmath.mpf(1)]
        for _ in range(count):
            sums = [
                sum(sums[i - j] * law[j] for j in range(3) if 0 <= i - j < len(sums))
                for i in range(len(sums) + 2)
            ]
        told = [
            p * s - mpmath.exp(total) * q * t for p, q in mixed for s, t in zip(sums, sums[::-1], strict=True)
        ]
        truth = sum(max(each, 0) for each in told)
        assert float(truth) <= float(found) <= 1.001 * float(truth)


@pytest.mark.parametrize(
    ("part", "rate", "delta", "most"),
    [
        (loss.Response(Fraction(23, 100)), Fraction(9, 10), Fraction(1, 20), 0.12),
        (loss.Response(Fraction(1)), Fraction(1, 10), Fraction(1, 100), 0.14),
        (loss.Response(Fraction(1, 10)), Fraction(1, 2), Fraction(1, 100), 0.033),
    ],
)
def test_an_epsilon_below_the_window_is_found(
    part: loss.Response, rate: Fraction, delta: Fraction, most: float
) -> None:
    found = PrivacyLoss(((part, 1),)).sampled(rate)
    assert float(found.epsilon(delta)) <= most
    assert found.delta(found.epsilon(delta)) <= delta * (1 + Fraction(1, 1000))


@pytest.mark.parametrize(
    "rate", [Fraction(1, 100), Fraction(1, 10**200), Fraction(1, 10**320), 1 - Fraction(1, 10**30)]
)
def test_a_single_sampled_response_has_an_answer_everywhere(rate: Fraction) -> None:
    one = PrivacyLoss(((loss.Response(Fraction(1)), 1),)).sampled(rate)
    deltas = [one.delta(Fraction(i, 8)) for i in range(12)]
    assert deltas == sorted(deltas, reverse=True)
    assert one.epsilon(Fraction(1, 10**6)) <= 1


@pytest.mark.parametrize("rho", [Fraction(20_000), Fraction(10) ** 400, Fraction(1, 10**700), Fraction(1000)])
def test_absurd_noise_has_an_honest_answer(rho: Fraction) -> None:
    found = PrivacyLoss(((loss.Concentrated(rho), 1),)).delta(Fraction(1))
    assert found == 1 if rho > 100 else found < Fraction(1, 10**20)


def test_gaussian_noise_too_wide_to_be_coarse_is_written_out() -> None:
    for sigma, steps in ((4200, 1), (4200, 7), (20_000, 13)):
        for epsilon in (Fraction(0), Fraction(1, 10**4)):
            truth = gaussian.shift_delta(Fraction(sigma**2), epsilon, steps)
            assert (
                truth.low
                <= discrete_gaussian(sigma**2, steps).delta(epsilon)
                <= truth.high * Fraction(1001, 1000)
            )


def test_a_delta_below_what_is_written_out_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidParameter, match="written out but for"):
        discrete_gaussian(4).epsilon(Fraction(1, 10**60))


def test_sampling_is_for_the_relation_it_is_proved_for() -> None:
    step = Step(Geometric(scale=Fraction(10)), at())
    for towards, fixed in (("presence", True), ("value", False)):
        with pytest.raises(InvalidParameter, match="proved for"):
            PrivacyLoss.of((step,), towards).sampled(Fraction(1, 10), fixed=fixed)
    with pytest.raises(InvalidParameter, match="compose losses of the same direction"):
        PrivacyLoss.of((step,)).then(PrivacyLoss.of((step,), "value"))
    assert PrivacyLoss().sampled(Fraction(1, 10)) == PrivacyLoss()


def test_sampling_helps_and_has_its_limits() -> None:
    one = discrete_gaussian(4)
    assert one.sampled(Fraction(1, 10)).delta(Fraction(1)) < one.delta(Fraction(1))
    with pytest.raises(InvalidParameter, match="sample one step"):
        one.times(2).sampled(Fraction(1, 10))
    for rate in (Fraction(0), Fraction(1), Fraction(-1, 2), Fraction(3, 2)):
        with pytest.raises(InvalidParameter, match="share of people"):
            one.sampled(rate)


# The arithmetic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_on_the_transform_holds(seed: int) -> None:
    """Masses that are whole numbers of 2^-20 are convolved exactly with Python's integers."""
    dice = np.random.default_rng(seed)
    weights = dice.integers(0, 1 << 20, size=64)
    exact = np.array([1], dtype=object)
    for _ in range(8):
        exact = np.convolve(exact, weights.astype(object))
    total = int(weights.sum())
    given = atoms.Atoms(np.arange(64) / 64.0, np.log(weights / total) + 1e-12)
    curve = loss.Curve.of(loss.AtomSum(((given, 8),)), 4.0)
    for i, mass in enumerate(exact):
        at_loss = np.searchsorted(curve.losses, i / 64)
        if 0 < at_loss < len(curve.losses) and curve.losses[at_loss] == i / 64:
            truth = float(Fraction(int(mass), total**8))
            assert truth <= curve.masses[at_loss] * (1 + 1e-13)
            if 3.5 < i / 64 < 4.5:
                assert curve.masses[at_loss] <= truth * (1 + 1e-6)


def test_every_rounding_points_up() -> None:
    """Fewer masses, smaller losses: the sum with the true ones is never above the sum with the rounded."""
    true = atoms.response(Fraction(1, 3))
    up = true.atoms()
    assert (up.logs > true.above).all()
    assert (up.losses >= true.losses).all()


def test_masses_far_below_a_float_keep_their_size() -> None:
    """Ten thousand responses: the largest loss has mass (e/(1+e))^k, and a tilt must not blow it up."""
    losses, logs = optimal(Fraction(1, 2), count=10_000).logs()
    least, most = -10_000 * math.log1p(math.exp(0.5)), -10_000 * math.log1p(math.exp(-0.5))
    assert losses[0] == -5000
    assert losses[-1] == 5000
    assert 0 <= logs[0] - least < 1e-5
    assert 0 <= logs[-1] - most < 1e-5
    assert abs(np.logaddexp.reduce(logs)) < 1e-5


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "x", None])
def test_what_is_no_epsilon_or_delta_is_refused(bad: object) -> None:
    for ask in (geometric(10).delta, geometric(10).epsilon):
        with pytest.raises(InvalidParameter):
            ask(bad)  # type: ignore[arg-type]


def test_a_mechanism_with_nothing_proved_is_refused() -> None:
    step = Step(Geometric(scale=Fraction(1)), Distances(Distance(), Distance()))
    with pytest.raises(InvalidParameter, match="nothing is proved"):
        PrivacyLoss.of((step,))


def test_a_selection_counts_as_its_epsilon() -> None:
    distance = Distance(linf=Fraction(1))
    mechanism = Exponential.at(epsilon=Fraction(1, 2), distance=distance)
    assert PrivacyLoss.of((Step(mechanism, Distances(distance, distance)),)).parts == (
        (loss.Response(Fraction(1, 2)), 1),
    )
