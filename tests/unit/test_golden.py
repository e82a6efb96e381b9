"""The numbers of the textbook examples. A test carries the id of its golden value in its name.

Where lecture slides print something else, the test says so: the slide is wrong, and the value here was
computed anew.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import pytest

from sfumato.exact import numbers
from sfumato.mechanisms import (
    Distance,
    Exponential,
    Gaussian,
    Geometric,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothMedian,
    Table,
    Truncated,
    accuracy,
    dependent,
    laplace,
    meaning,
)
from sfumato.mechanisms.noise import DiscreteLaplace
from sfumato.mechanisms.ranges import Ends

if TYPE_CHECKING:
    from sfumato.exact.numbers import Interval

F = Fraction
HEIGHTS = range(50, 251)
ONE = Distance(l0=1, linf=F(1))


def middle(interval: Interval) -> float:
    assert interval.high - interval.low < F(1, 10**15) * (1 + abs(interval.high))
    return float(interval.low)


def masses(law: Exponential, scores: list[int]) -> list[float]:
    chosen = law.law(scores)
    return [math.exp(middle(chosen.log_mass(i))) for i in range(len(scores))]


# A: databases, differential privacy, Bayes ---------------------------------------------------------------


def test_a1_changing_a_value_costs_twice_what_adding_or_removing_costs() -> None:
    """x + v1 to x to x + v2: two steps of epsilon, and a mechanism that needs both."""
    step = F(1, 2)
    table = Table.geometric(ratio=step, size=3)  # secret 1 is "without v"; 0 and 2 hold v1 and v2
    assert table.worst([(0, 1), (1, 2)]).ratio == 2
    assert table.worst([(0, 2)]).ratio == 4


def test_a2_the_bayesian_bound_with_two_epsilon_does_not_imply_epsilon_privacy() -> None:
    """Posterior <= e^(2 eps) prior for all priors gives 2 eps-privacy only: the slide's "iff" is wrong."""
    table: Table[int, int] = Table(rows=((F(4, 5), F(1, 5)), (F(1, 5), F(4, 5))))  # exactly ln 4 = 2 ln 2
    squared = F(2) ** 2  # e^(2 eps) with eps = ln 2
    for prior in (F(1, 1000), F(1, 10), F(1, 2), F(9, 10)):
        assert meaning.largest_gain(table, {0: prior, 1: 1 - prior}) <= squared
    worst = table.worst().ratio
    assert worst is not None
    assert worst > 2  # yet not ln 2-private


def test_a2_the_true_equivalence_is_with_one_epsilon_and_replacement() -> None:
    """sup over priors of posterior / prior is the worst ratio: approached as the prior vanishes."""
    for table in (
        RandomizedResponse(keep=F(2, 3), size=3).table(),
        Table.renormalised(ratio=F(1, 2), size=3),
    ):
        worst = table.worst()
        assert worst.ratio is not None
        assert worst.pair is not None
        gains = []
        for q in (F(1, 2), F(1, 100), F(1, 10**9)):
            prior = dict.fromkeys(table.secrets, F(0)) | {worst.pair[0]: q, worst.pair[1]: 1 - q}
            gains.append(meaning.largest_gain(table, prior))
        assert gains == sorted(gains)
        assert worst.ratio - F(1, 10**6) < gains[-1] < worst.ratio


@pytest.mark.parametrize(
    ("prior", "growth"), [(F(1, 2), 1.462117), (F(1, 10), 2.319693), (F(1, 1000), 2.713619)]
)
def test_a3_the_largest_growth_of_a_belief_at_epsilon_one(prior: Fraction, growth: float) -> None:
    found = meaning.ceiling(epsilon=F(1), prior=prior)
    assert middle(found) / float(prior) == pytest.approx(growth, abs=5e-7)


def test_a4_reporting_the_height_is_private_for_no_epsilon() -> None:
    worst = Table.of(HEIGHTS, lambda height: {height: 1}).worst()
    assert worst.epsilon is None
    assert "infinite" in str(worst)


def test_a5_always_reporting_150_has_epsilon_0() -> None:
    assert Table.of(HEIGHTS, lambda _: {150: 1}).worst().epsilon == 0


def test_a6_a_threshold_at_150_is_private_for_no_epsilon() -> None:
    worst = Table.of(HEIGHTS, lambda height: {100 if height < 150 else 200: 1}).worst()
    assert worst.epsilon is None
    assert worst.pair is not None
    assert min(worst.pair) < 150 <= max(worst.pair)


def test_a7_the_201_output_mechanism_has_exactly_its_epsilon() -> None:
    exact = Table.of(HEIGHTS, lambda x: {z: F(2 if z == x else 1, 202) for z in HEIGHTS})
    assert exact.worst().ratio == 2
    assert float(exact.law(170).mass(170)) == pytest.approx(0.00990099, abs=5e-9)
    assert float(exact.law(170).mass(171)) == pytest.approx(0.00495050, abs=5e-9)
    one = RandomizedResponse.at(epsilon=F(1), size=201)
    assert float(one.keep) == pytest.approx(0.01340916, abs=5e-9)
    assert float(one.other) == pytest.approx(0.00493295, abs=5e-9)
    bound = one.bound(ONE).epsilon
    assert bound is not None
    assert 1 - F(1, 10**12) < bound <= 1


def test_a8_the_example_is_about_heights_and_its_average_is_a_height() -> None:
    assert 50 <= sum(HEIGHTS) / len(HEIGHTS) <= 250


def test_a9_a_budget_belongs_to_the_database_two_colluding_analysts_add_up() -> None:
    coin = RandomizedResponse.two_coins().table()
    assert coin.beside(coin).worst().ratio == 9  # each alone: 3


def test_small_epsilons_are_alike_and_large_ones_are_not() -> None:
    """A belief q moves by at most about epsilon q (1 - q): 0.01 or 0.02 is all the same."""
    for q in (F(1, 2), F(1, 10), F(1, 1000)):
        for epsilon in (F(1, 100), F(2, 100)):
            moved = middle(meaning.ceiling(epsilon=epsilon, prior=q)) - float(q)
            assert moved <= float(epsilon * q * (1 - q)) * 1.02
        small, twice = (middle(meaning.ceiling(epsilon=e, prior=F(1, 100))) for e in (F(1, 100), F(2, 100)))
        large, more = (middle(meaning.ceiling(epsilon=e, prior=F(1, 100))) for e in (F(5), F(10)))
        assert twice - small < 0.0002
        assert more - large > 0.39


# B: the mechanism rows ------------------------------------------------------------------------------------


def test_b1_randomized_response_keeps_with_e_to_the_epsilon_over_one_plus_it() -> None:
    assert RandomizedResponse(keep=F(3, 4)).ratio == 3  # epsilon = ln 3
    kept = RandomizedResponse.at(epsilon=F(1)).keep
    assert float(kept) == pytest.approx(math.e / (1 + math.e), abs=1e-15)


def test_b2_the_estimator_of_randomized_response() -> None:
    for keep, f in product((F(3, 4), F(2, 3)), (F(1, 10), F(1, 2), F(4, 5))):
        people = 1000
        told = int(f * people)
        _, yes = RandomizedResponse(keep=keep).estimate([people - told, told])
        assert yes.share == (f - 1 + keep) / (2 * keep - 1)
        if keep == F(3, 4):
            assert yes.share == 2 * f - F(1, 2)


def test_b3_a_delta_of_zero_leaves_epsilon_privacy() -> None:
    coin = RandomizedResponse.two_coins().table()
    assert coin.delta(epsilon=F(11, 10)) == 0  # 1.1 > ln 3
    assert coin.delta(epsilon=F(109, 100)) > 0


def test_b4_the_variance_of_laplace_noise() -> None:
    """2 b^2 on the reals; the grid's comes as close as its step is fine."""
    fine = laplace(scale=F(3), bits=12).core
    assert isinstance(fine, Geometric)
    assert fine.noise.variance / 4**12 == pytest.approx(2 * 3**2, rel=1e-7)


def test_b5_the_tail_of_laplace_noise() -> None:
    noise = DiscreteLaplace(scale=F(2**30))
    for t in (1, 2, 5):
        assert accuracy.laplace_tail(times=t) == pytest.approx(math.exp(-t), rel=1e-15)
        exact = 2 * (1 - middle(noise.cdf(t * 2**30 - 1)))
        assert exact == pytest.approx(math.exp(-t), rel=1e-8)


def test_b6_the_union_bound_for_ten_thousand_names() -> None:
    found = accuracy.union_radius(scale=1, count=10_000, miss=0.05)
    assert found == pytest.approx(12.206073, abs=5e-7)
    assert found == pytest.approx(math.log(200_000), rel=1e-12)


def test_b6b_the_exact_radius_for_ten_thousand_names() -> None:
    radius = accuracy.exact_radius(scale=1, count=10_000, miss=0.05)
    assert radius == pytest.approx(12.180538, abs=5e-7)
    assert (1 - math.exp(-radius)) ** 10_000 == pytest.approx(0.95, rel=1e-9)


def test_b7_the_ballot_under_the_exponential_mechanism() -> None:
    """The sixth decimals of the golden list are off (0.858982, 0.390993): these are exp(...) to ten."""
    five = masses(Exponential.at(epsilon=F(5), distance=ONE), [4, 3, 3])
    assert five == pytest.approx([0.858982, 0.070509, 0.070509], abs=2e-6)
    assert five[0] == pytest.approx(1 / (1 + 2 * math.exp(-2.5)), abs=1e-12)
    half = masses(Exponential.at(epsilon=F(1, 2), distance=ONE), [4, 3, 3])
    assert half == pytest.approx([0.390993, 0.304503, 0.304503], abs=2e-6)
    assert half[0] == pytest.approx(1 / (1 + 2 * math.exp(-0.25)), abs=1e-12)
    none = masses(Exponential(scale=F(10**12)), [4, 3, 3])
    assert none == pytest.approx([1 / 3] * 3, abs=1e-9)


def test_b8_the_slide_s_column_is_epsilon_six_not_five() -> None:
    assert masses(Exponential.at(epsilon=F(6), distance=ONE), [4, 3, 3]) == pytest.approx(
        [0.909443, 0.045278, 0.045278], abs=1.1e-6
    )
    plain = Exponential(scale=F(1, 5))  # without the factor 2, and so with twice the epsilon
    assert masses(plain, [4, 3, 3]) == pytest.approx([0.98670, 0.00665, 0.00665], abs=1e-5)
    assert plain.bound(ONE).epsilon == 10
    assert masses(Exponential(scale=F(2)), [4, 3, 3]) == pytest.approx(
        [0.451863, 0.274069, 0.274069], abs=1.1e-6
    )


def test_b9_the_normaliser_is_why_the_price_is_twice_the_exponent() -> None:
    """Scores (1, 0) and (0, 1) are neighbours: the ratio needs both factors."""
    law = Exponential(scale=F(1))
    ratio = law.law([1, 0]).log_mass(0) - law.law([0, 1]).log_mass(0)
    assert middle(ratio) == pytest.approx(1)  # one from the exponent alone ...
    near = law.law([10, 0, 0]).log_mass(1) - law.law([11, -1, -1]).log_mass(1)
    assert 1.99 < middle(near) <= 2  # ... and almost one more from the normaliser
    assert law.bound(ONE).epsilon == 2
    assert law.bound(ONE).rho == F(1, 2)


def test_b10_best_of_two() -> None:
    assert accuracy.best_of_two(epsilon=1, gap=10) == pytest.approx(0.00669285, abs=5e-9)
    assert accuracy.best_of_two_bound(epsilon=1, gap=10) == pytest.approx(0.01347589, abs=5e-9)
    exact = masses(Exponential.at(epsilon=F(1), distance=ONE), [0, 10])
    assert exact[0] == pytest.approx(0.00669285, abs=5e-9)


def test_b11_the_accuracy_of_the_exponential_mechanism() -> None:
    """The theorem's loss is kept with the promised probability, computed exactly, by both mechanisms."""
    scores = [10, 10, 9, 7, 7, 7, 3, 0]
    for t in (0.5, 1.0, 3.0):
        loss = accuracy.exponential_loss(epsilon=1, distance=1, candidates=8, best=2, miss=math.exp(-t))
        assert loss == pytest.approx(2 * (math.log(8 / 2) + t))
        for mechanism in (Exponential, PermuteAndFlip):
            law = mechanism.at(epsilon=F(1), distance=ONE).law(scores)
            missed = sum(math.exp(middle(law.log_mass(i))) for i, u in enumerate(scores) if u <= 10 - loss)
            assert missed <= math.exp(-t)


def test_b12_the_textbook_gaussian_is_valid_and_larger_than_needed() -> None:
    sigma = accuracy.classic_sigma(epsilon=0.5, delta=1e-6, l2=1)
    assert sigma**2 * 0.5**2 == pytest.approx(2 * math.log(1.25 / 1e-6))
    ours = Gaussian.at(epsilon=F(1, 2), delta=F(1, 10**6), distance=ONE)
    assert float(ours.sigma_squared) < 0.65 * sigma**2
    assert ours.delta(epsilon=F(1, 2), distance=ONE) <= F(1, 10**6)
    with pytest.raises(ValueError, match="epsilon"):
        accuracy.classic_sigma(epsilon=1.5, delta=1e-6, l2=1)


def test_b13_a_group_of_k_costs_k_epsilon() -> None:
    geometric = Geometric(scale=F(10))
    assert geometric.bound(ONE.times(7)).epsilon == F(7, 10)
    table = Table.geometric(ratio=F(1, 2), size=9)
    assert table.worst([(x, x + 1) for x in range(8)]).ratio == 2
    assert table.worst([(x, x + 3) for x in range(6)]).ratio == 2**3


def test_b17_the_local_sensitivity_of_a_median() -> None:
    """n odd: the larger of the two gaps beside it."""
    for values in ([0, 2, 3, 7, 9], [5, 5, 5], [0, 0, 10], [4]):
        m = (len(values) + 1) // 2 - 1
        beside = [0, *values, 10] if len(values) == 1 else values
        m = m + 1 if len(values) == 1 else m
        expected = max(beside[m] - beside[m - 1], beside[m + 1] - beside[m])
        assert dependent.local_sensitivity(values, low=0, high=10) == expected


D1, D2 = [0] * 6 + [1000] * 4, [0] * 5 + [1000] * 5


def test_b18_two_data_sets_whose_local_sensitivities_are_0_and_l() -> None:
    assert dependent.local_sensitivity(D1, low=0, high=1000) == 0
    assert dependent.local_sensitivity(D2, low=0, high=1000) == 1000
    for beta in (F(1, 10), F(1), F(3)):
        first = dependent.smooth_sensitivity(D1, low=0, high=1000, beta=beta)
        assert float(first) == pytest.approx(1000 * math.exp(-beta), rel=1e-15)
        assert float(dependent.smooth_sensitivity(D2, low=0, high=1000, beta=beta)) == 1000.0


def test_b19_smooth_sensitivity_is_the_largest_shrunk_local_one_over_all_data() -> None:
    """max over D' of LS(D') e^(-beta d(D, D')): D' and beta, where two slides have D and epsilon."""
    beta, places = F(1, 2), range(4)
    everything = [list(d) for d in product(places, repeat=4)]
    for data in ([0, 1, 3, 3], [2, 2, 2, 2], [0, 0, 3, 3]):
        brute = max(
            dependent.local_sensitivity(other, low=0, high=3)
            * math.exp(-beta * sum(a != b for a, b in zip(data, other, strict=True)))
            for other in everything
        )
        found = dependent.smooth_sensitivity(data, low=0, high=3, beta=beta)
        assert float(found) == pytest.approx(brute, rel=1e-12)


def test_b20_the_noise_is_twice_the_smooth_sensitivity_and_the_promise_has_a_delta() -> None:
    median = SmoothMedian(epsilon=F(1), delta=F(1, 10**6), low=0, high=1000, size=10)
    law = median.law(tuple(D1)).shifted
    assert isinstance(law.noise, DiscreteLaplace)
    smooth = dependent.smooth_sensitivity(D1, low=0, high=1000, beta=median.beta)
    assert law.noise.scale == 2 * smooth
    bound = median.bound(Distance(l0=1))
    assert (bound.epsilon, bound.delta) == (F(1), F(1, 10**6))
    assert float(median.beta) == pytest.approx(math.log1p(1 / (2 * math.log(2 * 10**6))), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "slack"), [(1, 1e-6, 1.7e-8), (0.5, 1e-5, 9.0e-8), (2, 1e-3, 8.7e-5)]
)
def test_b21_laplace_noise_is_admissible(epsilon: float, delta: float, slack: float) -> None:
    """Widening Lap(1) by e^beta, beta = eps/(2 ln(1/delta)): what exceeds e^(eps/2) is below delta/2."""
    beta = epsilon / (2 * math.log(1 / delta))
    beyond = (epsilon / 2 + beta) / -math.expm1(
        -beta
    )  # where the wider density is e^(eps/2) times the narrower
    found = math.exp(-beyond * math.exp(-beta)) - math.exp(epsilon / 2 - beyond)
    assert found == pytest.approx(slack, rel=0.05)
    assert found <= delta / 2
    ours = SmoothMedian(epsilon=F(epsilon), delta=F(str(delta)), low=0, high=1, size=1).beta
    assert float(ours) < beta  # ln(2/delta) and ln(1 + x): the smaller beta of our proof


def test_b25_each_of_two_parties_needs_only_the_noise_of_its_own_count() -> None:
    """One row changes one party's count by 1, so scale 1/eps will do; the slide's 2/eps over-noises."""
    own, slide = DiscreteLaplace(scale=F(1000)), DiscreteLaplace(scale=F(2000))
    assert Geometric(scale=F(1000)).bound(ONE).epsilon == F(1, 1000)
    assert Geometric(scale=F(2000)).bound(ONE).epsilon == F(1, 2000)
    epsilon = 1 / 1000
    assert math.sqrt(own.variance) * epsilon == pytest.approx(math.sqrt(2), rel=1e-6)
    assert math.sqrt(2 * own.variance) * epsilon == pytest.approx(2, rel=1e-6)
    assert math.sqrt(2 * slide.variance) * epsilon == pytest.approx(4, rel=1e-6)


def test_b26_edge_privacy_protects_one_over_epsilon_edges_with_ratio_e() -> None:
    assert Geometric(scale=F(50)).bound(ONE.times(50)).epsilon == 1


# C: the two rows about mechanisms --------------------------------------------------------------------------


def test_c4_the_noisy_ages_and_weights_are_the_renormalised_geometric_on_ranks() -> None:
    table = Table.renormalised(ratio=F(1, 2), size=3)
    assert table.law(1).masses == (F(1, 4), F(1, 2), F(1, 4))
    assert table.law(2).masses == (F(1, 7), F(2, 7), F(4, 7))


def test_c5_renormalising_costs_ln_sixteen_sevenths_and_truncating_ln_two() -> None:
    ranks = [(0, 1), (1, 2)]
    renormalised = Table.renormalised(ratio=F(1, 2), size=3)
    assert renormalised.rows[0] == (F(4, 7), F(2, 7), F(1, 7))
    worst = renormalised.worst(ranks)
    assert worst.ratio == F(16, 7)
    assert worst.epsilon is not None
    assert float(worst.epsilon) == pytest.approx(0.826679, abs=5e-7)
    assert renormalised.worst([(0, 2)]).ratio == 4
    truncated = Table.geometric(ratio=F(1, 2), size=3)
    assert truncated.worst(ranks).ratio == 2
    assert truncated.rows == (
        (F(2, 3), F(1, 6), F(1, 6)),
        (F(1, 3), F(1, 3), F(1, 3)),
        (F(1, 6), F(1, 6), F(2, 3)),
    )


# D: mechanisms ----------------------------------------------------------------------------------------------


def density(answer: Fraction, z: Fraction, epsilon: Fraction, distance: Fraction, bits: int = 30) -> float:
    """The mass of a grid point over the step: what the density is on the reals, but for a 2^-bits-th."""
    law = laplace(scale=distance / epsilon, bits=bits).law((answer,))
    return math.exp(middle(law.log_mass((z,)))) * float(1 << bits)


def test_d1_the_laplace_density_and_its_ratios() -> None:
    assert density(F(10), F(10), F(1), F(10)) == pytest.approx(0.05, abs=1e-9)
    for z in (F(0), F(5), F(25)):  # outside [10, 20] the ratio is e
        ratio = density(F(10), z, F(1), F(10)) / density(F(20), z, F(1), F(10))
        assert max(ratio, 1 / ratio) == pytest.approx(math.e, rel=1e-8)
    assert density(F(10), F(15), F(1), F(10)) / density(F(20), F(15), F(1), F(10)) == pytest.approx(1)
    inside = density(F(10), F(12), F(1), F(10)) / density(F(20), F(12), F(1), F(10))
    assert 1 < inside < math.e


def test_d2_gaussian_noise_is_private_for_no_pure_epsilon() -> None:
    noise = Gaussian(sigma_squared=F(4)).noise
    ratios = [middle(noise.log_mass(y) - noise.log_mass(y + 1)) for y in (0, 10, 1000)]
    assert ratios == pytest.approx([(2 * y + 1) / 8 for y in (0, 10, 1000)])  # no limit
    assert Gaussian(sigma_squared=F(4)).bound(ONE).epsilon is None


def test_d3_how_far_one_person_moves_an_average_age() -> None:
    """Replace one of n >= 100: 120/100. Add one to n >= 100: |(s + x)/(n + 1) - s/n| <= 120/101."""
    replaced = max(abs(F(a - b, 100)) for a, b in product((0, 120), repeat=2))
    added = max(abs(F(s + x, 101) - F(s, 100)) for s, x in product((0, 120 * 100), (0, 120)))
    assert float(replaced) == 1.2
    assert float(added) == pytest.approx(1.188119, abs=5e-7)
    alone = max(abs(F(a - b, 1)) for a, b in product((0, 120), repeat=2))
    assert alone == 120


def test_d4_one_person_moves_a_count_by_one() -> None:
    assert Geometric(scale=F(1)).bound(Distance(l0=1, linf=F(1))).epsilon == 1


def test_d5_the_geometric_law_with_ratio_one_half() -> None:
    a = F(1, 2)
    c = (1 - a) / (1 + a)
    assert c == F(1, 3)
    assert 2 * a / (1 - a**2) == F(4, 3)
    noise = DiscreteLaplace(scale=1 / numbers.log(2).low)
    assert math.exp(middle(noise.log_mass(0))) == pytest.approx(1 / 3, abs=1e-12)
    mean = sum(abs(y) * math.exp(middle(noise.log_mass(y))) for y in range(-60, 61))
    assert mean == pytest.approx(4 / 3, abs=1e-12)


def test_d6_the_truncated_geometric_law() -> None:
    a, n = F(1, 3), 6
    table = Table.geometric(ratio=a, size=n + 1)
    for y, z in product(range(n + 1), repeat=2):
        if z == 0:
            expected = a**y / (1 + a)
        elif z == n:
            expected = a ** (n - y) / (1 + a)
        else:
            expected = (1 - a) / (1 + a) * a ** abs(z - y)
        assert table.law(y).mass(z) == expected
    drawn = Truncated(core=Geometric(scale=1 / numbers.log(3).low), low=0, high=n).law((2,))
    for z in range(n + 1):
        assert math.exp(middle(drawn.log_mass((z,)))) == pytest.approx(float(table.law(2).mass(z)), abs=1e-12)


def test_d7_a_percentile_of_at_least_a_thousand_rows() -> None:
    epsilon = F(1)
    for y, z in ((F(50), F(50)), (F(50), F(101, 2)), (F(0), F(1, 8))):
        expected = 5 * math.exp(-10 * abs(z - y))
        assert density(y, z, epsilon, F(100, 1000)) == pytest.approx(expected, rel=1e-6)
    assert float(F(100, 1001)) == pytest.approx(0.0999001, abs=5e-8)  # add or remove


def test_d8_the_truncated_percentile_has_atoms_at_both_ends() -> None:
    bits = 24
    noise = DiscreteLaplace(scale=F(100, 1000) / F(1, 10) * 2**bits)
    law = Ends(noise, centre=1 << bits, low=0, high=100 << bits)
    assert math.exp(middle(law.log_mass(0))) == pytest.approx(0.18393972, abs=5e-8)
    assert math.exp(middle(law.log_mass(0))) == pytest.approx(0.5 * math.exp(-10 * 0.1 * 1), rel=1e-6)
    top = Ends(noise, centre=99 << bits, low=0, high=100 << bits)
    assert math.exp(middle(top.log_mass(100 << bits))) == pytest.approx(0.18393972, abs=5e-8)


# G: randomized response --------------------------------------------------------------------------------


def test_g1_two_coins_give_three_quarters_and_ln_three() -> None:
    coins = RandomizedResponse.two_coins()
    assert coins.law(1).masses == (F(1, 4), F(3, 4))
    epsilon = coins.bound(ONE).epsilon
    assert epsilon is not None
    assert float(epsilon) == pytest.approx(1.098612, abs=5e-7)
    assert epsilon >= numbers.log(3).high


def test_g2_the_expected_number_of_yes_is_pn_over_two_plus_n_over_four() -> None:
    """The slide has 1/4 for n/4."""
    coins, n = RandomizedResponse.two_coins(), 1000
    for true in (0, 300, 1000):
        expected = true * coins.law(1).mass(1) + (n - true) * coins.law(0).mass(1)
        assert expected == F(true, n) * n / 2 + F(n, 4)


def test_g3_the_estimate_is_twice_the_reported_share_less_a_half() -> None:
    coins, n = RandomizedResponse.two_coins(), 1000
    for told in (250, 400, 750):
        _, yes = coins.estimate([n - told, told])
        assert yes.share == (told - F(n, 4)) * F(2, n) == 2 * F(told, n) - F(1, 2)


def test_g4_the_variance_has_two_readings() -> None:
    """Fixed database: 3/(4n). Sampled population: p(1-p)/n more. The slide mixes them."""
    coins, n, p = RandomizedResponse.two_coins(), 1000, F(3, 10)
    fixed = coins.variance(share=p, people=n)
    assert fixed == F(3, 4 * n)
    assert float(fixed) == 0.00075
    assert float(fixed + p * (1 - p) / n) == pytest.approx(0.00096)
    _, yes = coins.estimate([600, 400])
    assert yes.fixed_error == pytest.approx(math.sqrt(0.00075))
    assert yes.sampled_error == pytest.approx(math.sqrt(0.00096))


def test_g5_vectors_of_answers_differ_by_at_most_a_factor_of_three() -> None:
    coins = RandomizedResponse.two_coins().table()
    both = coins.across(coins)
    neighbours = [((a, b), (1 - a, b)) for a, b in product((0, 1), repeat=2)]
    assert both.worst(neighbours).ratio == 3
    ratios = {
        both.law((0, 0)).mass(y) / both.law((1, 0)).mass(y) for y in both.outputs
    }  # 3 or 1/3 at the changed coordinate
    assert ratios == {F(3), F(1, 3)}


def test_g6_differencing_two_answers_costs_two_epsilon() -> None:
    """With and without the Speaker: exact answers reveal the bit, two private ones add up."""
    exact = Table.of((0, 1), lambda bit: {(100 + bit, 100): 1})
    assert exact.worst().epsilon is None
    noisy = Table.geometric(ratio=F(1, 2), size=4)
    pair = noisy.after({0: 1, 1: 2}).beside(noisy.after({0: 1, 1: 2}))
    assert pair.worst().ratio == 4
