"""Rules side by side, the game behind them, and filters: against all views, and walks counted out."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget.accounting import filters, rules
from sfumato.budget.accounting.composition import optimal, zcdp
from sfumato.budget.accounting.game import Round, View, play, views
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.exact.coins import Tape, walk
from sfumato.mechanisms import (
    Distance,
    Distances,
    Gaussian,
    Geometric,
    Guarantee,
    Private,
    RandomizedResponse,
    SmoothMedian,
    Spend,
    Step,
    Table,
    laplace,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.budget.accounting.game import Adversary

F = Fraction
MILLIONTH = F(1, 10**6)
NEAR = F(1, 10**6)  # the grid of losses may add so much
ONE = Distance(l0=1, linf=F(1))
COIN = RandomizedResponse.two_coins()  # ln 3


def step(mechanism: Private, distance: Distance = ONE) -> Step[Private]:
    return Step(mechanism, Distances(distance, distance.times(2)))


COUNT, OTHER = step(Geometric(scale=F(10))), step(Geometric(scale=F(7)), Distance(l0=1, linf=F(2)))
BELL = step(Gaussian(sigma_squared=F(400)))
MEDIAN = step(SmoothMedian(epsilon=F(1, 2), delta=F(1, 10**8), low=0, high=100, size=9), Distance(l0=1))
UNKNOWN = step(Geometric(scale=F(10)), Distance())


# The best of the rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spend", "count", "names", "best"),
    [
        ((COUNT,), 300, "basic advanced optimal zCDP Renyi loss", "optimal"),  # the loss is the same
        ((COUNT,), 1, "basic advanced optimal zCDP Renyi loss", "optimal"),
        ((COUNT, COUNT), 50, "basic advanced optimal zCDP Renyi loss", "optimal"),
        ((step(laplace(scale=F(10), bits=20)),), 300, "basic advanced optimal zCDP Renyi loss", "loss"),
        ((COUNT, OTHER), 50, "basic zCDP Renyi loss", "loss"),
        ((BELL,), 100, "zCDP Renyi loss", "loss"),
        ((BELL, COUNT, OTHER), 20, "zCDP Renyi loss", "loss"),
        ((MEDIAN,), 40, "basic Renyi loss", "loss"),
        ((MEDIAN, COUNT, BELL), 10, "Renyi loss", "loss"),
    ],
)
def test_every_rule_that_applies_is_listed_and_the_smallest_is_the_best(
    spend: Spend, count: int, names: str, best: str
) -> None:
    found = rules.best(spend, count=count, delta=MILLIONTH)
    full = names.replace("loss", "privacy-loss").split()
    assert [name.replace(" ", "-") for name in found.epsilons] == full
    assert found.best == best.replace("loss", "privacy loss")
    assert found.epsilon == found.epsilons[found.best] == min(found.epsilons.values())
    tight = PrivacyLoss.of(spend).times(count).epsilon(MILLIONTH)
    assert found.epsilons["privacy loss"] == tight
    assert all(epsilon >= tight - NEAR for epsilon in found.epsilons.values())


def test_the_relation_between_neighbours_is_that_which_was_asked_for() -> None:
    presence, value = (
        rules.best((COUNT,), count=9, delta=MILLIONTH, towards=t) for t in ("presence", "value")
    )
    assert value.epsilons["basic"] == 2 * presence.epsilons["basic"] == F(18, 10)
    assert value.epsilon > presence.epsilon


def test_nothing_costs_nothing_by_any_rule() -> None:
    found = rules.best((), delta=MILLIONTH)
    assert set(found.epsilons.values()) == {F(0)}
    free = step(Geometric(scale=F(1)), Distance(l0=0))
    assert rules.best((free,), count=5, delta=MILLIONTH).epsilon == 0


def test_what_is_refused_by_one_rule_leaves_the_others() -> None:
    """Gaussian losses are written out but for e^-105: below that only the sum of rhos speaks."""
    found = rules.best((BELL,), count=10, delta=F(1, 10**60))
    assert list(found.epsilons) == ["zCDP"]


def test_the_printed_rules_say_which_are_for_plans() -> None:
    lines = repr(rules.best((COUNT,), count=30, delta=MILLIONTH)).splitlines()
    assert lines[0].split() == ["epsilon", "at", "delta", "1e-06"]
    planned = {line.split()[0] for line in lines if "planned in advance" in line}
    assert planned == {"advanced", "optimal", "Renyi", "privacy"}
    assert lines[-1] == "  best: optimal"


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("delta", lambda: rules.best((COUNT,), delta=F(1))),
        ("delta", lambda: rules.best((COUNT,), delta=F(0))),
        ("count", lambda: rules.best((COUNT,), count=0, delta=MILLIONTH)),
        ("spend", lambda: rules.best((UNKNOWN,), delta=MILLIONTH)),
        ("delta", lambda: rules.best((MEDIAN,), count=200, delta=MILLIONTH)),  # 200 * 10^-8 are lost
    ],
)
def test_what_no_rule_covers_is_refused(named: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.name == named


# The game ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 7))
def test_views_of_planned_responses_are_the_optimal_rule(count: int) -> None:
    epsilon = F(1, 2)
    coin = Round(RandomizedResponse.at(epsilon=epsilon), 0, 1)
    seen = views(lambda view: coin if len(view) < count else None)
    assert len(seen.chances) == 2**count
    for world in (0, 1):
        assert sum(pair[world] for pair in seen.chances.values()) == 1
    for total in (F(k, 8) for k in range(4 * count + 2)):
        assert abs(seen.delta(total) - optimal(epsilon, count=count).delta(total)) < F(1, 10**12)
    assert seen.delta(F(0)) <= seen.advantage <= seen.delta(F(0)) + F(1, 10**15)


TURNED = [Round(COIN, 0, 1), Round(COIN, 1, 0)]
STEPS = Table.geometric(ratio=F(1, 3), size=3)  # ln 3 between neighbours as well
THREE = RandomizedResponse(keep=F(3, 5), size=3)  # and so has this
LN_3 = [*TURNED, Round(STEPS, 0, 1), Round(STEPS, 2, 1), Round(THREE, 0, 2), Round(THREE, 1, 1)]


def choosing(moves: list[Round], picks: list[int], most: int) -> Adversary:
    """An adversary whose next move depends on all she has seen; one in `len(moves) + 1` picks is to stop."""

    def move(view: View) -> Round | None:
        number = sum((answer + 1) * 4**i for i, answer in enumerate(view))
        pick = picks[number % len(picks)] % (len(moves) + 1)
        return moves[pick] if len(view) < most and pick < len(moves) else None

    return move


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.fractions(0, 6, max_denominator=8))
@settings(max_examples=60, deadline=None)
def test_no_adaptive_adversary_beats_the_optimal_rule(picks: list[int], epsilon: Fraction) -> None:
    """Views round down and the rule rounds up: the comparison is exact."""
    each = COIN.bound(ONE).epsilon
    assert each is not None
    assert views(choosing(LN_3, picks, 4)).delta(epsilon) <= optimal(each, count=4).delta(epsilon)
    assert views(choosing(TURNED, picks, 6)).delta(epsilon) <= optimal(each, count=6).delta(epsilon)


RESPONSES = [RandomizedResponse.at(epsilon=epsilon) for epsilon in (F(1, 10), F(1, 3), F(1), F(2))]


def spender(picks: list[int], total: Fraction, *, filtered: bool) -> Adversary:
    """She chooses the price of each response from all answers so far, until the filter says no."""

    def move(view: View) -> Round | None:
        spent = F(0)
        for turn in range(len(view) + 1):
            number = sum((answer + 1) * 3**i for i, answer in enumerate(view[:turn]))
            coin = RESPONSES[picks[number % len(picks)] % len(RESPONSES)]
            spent += filters.price((step(coin),), Guarantee(total)).amount
        return Round(coin, 0, 1) if len(view) < 7 and (spent <= total or not filtered) else None

    return move


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.sampled_from([F(1, 2), F(1), F(5, 2), F(4)]))
@settings(max_examples=30, deadline=None)
def test_a_filter_of_epsilons_holds_for_every_choice_of_prices(picks: list[int], total: Fraction) -> None:
    assert views(spender(picks, total, filtered=True)).delta(total) == 0


def test_without_the_filter_she_gets_more() -> None:
    assert views(spender([3, 2, 3], F(4), filtered=False)).delta(F(4)) > F(1, 10)
    assert views(spender([3, 2, 3], F(4), filtered=True)).delta(F(3)) > 0  # and it is no smaller promise


def rising(view: View) -> Round | None:
    """Two coins; after a yes, three categories, the other way round."""
    if len(view) == 4 or view[-2:] == (1, 1):
        return None
    return Round(THREE, 1, 0) if view and view[-1] else Round(COIN, 0, 1)


@pytest.mark.parametrize("world", [0, 1])
def test_play_draws_the_views_coin_by_coin(world: int) -> None:
    """Every sequence of coins with its exact weight; three categories reject, so a little stays undecided."""
    masses, undecided = walk(lambda coins: play(rising, world, coins), floor=F(1, 10**5))
    chances = views(rising).chances
    assert set(masses) == set(chances)
    assert undecided < F(1, 10)
    for view, pair in chances.items():
        assert masses[view] <= pair[world] <= masses[view] + undecided


ALARM = 1e-9  # chance that a right game fails here: Hoeffding's bound, shared by all views and both sides


def test_games_that_are_played_have_the_frequencies_of_the_views() -> None:
    games, chances = 5_000, views(rising).chances
    coins = Tape.seeded(20)
    seen = [play(rising, 1, coins) for _ in range(games)]
    radius = math.sqrt(math.log(2 * len(chances) / ALARM) / (2 * games))
    off = [
        [abs(seen.count(view) / games - pair[world]) for view, pair in chances.items()] for world in (0, 1)
    ]
    assert max(off[1]) <= radius
    assert max(off[0]) > 3 * radius  # the other world is told apart, so a wrong game would be


# Prices in the three currencies -----------------------------------------------------------------------

EPSILON, RHO = Guarantee(F(1)), Guarantee(None, F(0), F(1))
PAIR = Guarantee(F(1), MILLIONTH)  # its delta is what one spend may take
UNIT, FINE = F(1, 10**12), F(1, 10**18)


def test_prices_in_epsilon_add_up_and_are_rounded_up_to_units() -> None:
    assert filters.price((COUNT, OTHER), EPSILON).amount == F(385714285715, 10**12)  # 1/10 + 2/7
    assert filters.price((COUNT,) * 3, EPSILON) == Guarantee(F(3, 10))
    assert filters.price((COUNT,) * 3, EPSILON, "value") == Guarantee(F(6, 10))
    assert filters.price((), EPSILON) == Guarantee(F(0))
    tiny = step(Geometric(scale=F(10**15)))
    assert filters.price((tiny,), EPSILON).amount == UNIT  # never free


def test_prices_in_epsilon_and_delta_are_those_of_the_common_loss() -> None:
    for spend in ((COUNT,) * 60, (BELL,) * 10, (COUNT, BELL, MEDIAN)):
        found, tight = filters.price(spend, PAIR), PrivacyLoss.of(spend).epsilon(MILLIONTH)
        assert found.delta == MILLIONTH
        assert tight <= found.amount < tight + UNIT
        assert (found.amount / UNIT).denominator == 1
    assert filters.price((COUNT,) * 60, PAIR).amount < filters.price((COUNT,) * 60, EPSILON).amount
    odd = filters.price((COUNT,), Guarantee(F(1), F(1, 3 * 10**9)))
    assert F(1, 3 * 10**9) < odd.delta < F(1, 3 * 10**9) + FINE


def test_prices_in_rho_add_up_and_what_is_no_zcdp_brings_its_delta() -> None:
    assert filters.price((BELL,) * 8, RHO) == Guarantee(None, F(0), F(1, 100))
    assert filters.price((COUNT,), RHO).amount == F(1, 200)  # epsilon^2 / 2
    mixed = filters.price((BELL, MEDIAN, MEDIAN), RHO)
    assert mixed == Guarantee(None, F(2, 10**8), F(1, 800) + 2 * F(1, 8))
    third = SmoothMedian(epsilon=F(1, 3), delta=F(1, 3 * 10**9), low=0, high=100, size=9)
    odd = filters.price((step(third, Distance(l0=1)),), RHO)
    assert F(1, 18) < odd.amount < F(1, 18) + UNIT
    assert F(1, 3 * 10**9) < odd.delta < F(1, 3 * 10**9) + FINE


def test_an_epsilon_delta_step_is_worth_its_rho_but_for_its_delta() -> None:
    """The worst of them: the truth with chance delta, randomized response otherwise. k steps, exactly."""
    k, coin, lost = 5, COIN, F(1, 1000)
    each = coin.bound(ONE).epsilon
    assert each is not None
    rho, delta = k * each**2 / 2, F(1, 100)
    told = 1 - (1 - lost) ** k  # at least one truth
    total = zcdp([rho], delta=delta)
    exact = told + (1 - told) * optimal(each, count=k).delta(total)
    assert exact <= k * lost + delta


@pytest.mark.parametrize(
    ("spend", "currency", "words"),
    [
        ((COUNT, BELL), EPSILON, "no pure bound"),
        ((MEDIAN,), EPSILON, "no pure bound"),
        ((UNKNOWN,), EPSILON, "no pure bound"),
        ((COUNT, UNKNOWN), RHO, "no rho is proved"),
        ((UNKNOWN,), PAIR, "nothing is proved"),
        ((MEDIAN,), Guarantee(F(1), F(1, 10**9)), "lose for certain"),
    ],
)
def test_what_has_no_price_in_a_currency_is_refused(spend: Spend, currency: Guarantee, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        filters.price(spend, currency)


# The odometer -----------------------------------------------------------------------------------------


def test_the_odometer_never_goes_back_and_is_no_less_than_the_bound_for_one_look() -> None:
    rungs = [filters.LOWEST * filters.RUNG**j for j in range(90)]
    spends = sorted([F(0), *rungs, *(rung * F(11, 10) for rung in rungs), *(rung + FINE for rung in rungs)])
    for delta in (F(1, 20), MILLIONTH, F(1, 10**12)):
        shown = [filters.odometer(spent, delta=delta) for spent in spends]
        assert shown[0] == 0
        assert shown == sorted(shown)
        for spent, epsilon in zip(spends[1:], shown[1:], strict=True):
            once = spent + 2 * numbers.sqrt(spent * -numbers.log(delta).low).low
            assert epsilon >= once
    for spent in (F(1, 10**5), F(1, 2), F(30)):
        assert filters.odometer(spent, delta=MILLIONTH) > zcdp([spent], delta=MILLIONTH)
        assert filters.odometer(spent, delta=MILLIONTH) > filters.odometer(spent, delta=F(1, 1000))


def ever_above(ratio: Fraction, count: int, shown: Callable[[int], Fraction]) -> Fraction:
    """The chance that the loss of responses of this e^epsilon is ever above what is shown, exactly.

    Sequences that stayed below are counted by their number of likely answers; all that have n answers and
    the same number of likely ones weigh the same.
    """
    unit = numbers.log(ratio).high  # up: a loss that touches counts as above
    keep = ratio / (1 + ratio)
    staying = {0: 1}
    for n in range(1, count + 1):
        limit = shown(n)
        step_on: dict[int, int] = {}
        for likely, ways in staying.items():
            for more in (likely, likely + 1):
                step_on[more] = step_on.get(more, 0) + ways
        staying = {likely: ways for likely, ways in step_on.items() if (2 * likely - n) * unit <= limit}
    stayed = (ways * keep**likely * (1 - keep) ** (count - likely) for likely, ways in staying.items())
    return 1 - sum(stayed, F(0))


@pytest.mark.parametrize("ratio", [F(51, 49), F(11, 9), F(3)])
@pytest.mark.parametrize("delta", [F(1, 4), F(1, 20), F(1, 1000)])
def test_the_loss_is_never_above_the_odometer_but_for_delta(ratio: Fraction, delta: Fraction) -> None:
    """400 responses, and she looks after each: one walk of exact binomial weights, no union bound."""
    rho = numbers.log(ratio).high ** 2 / 2
    assert ever_above(ratio, 400, lambda n: filters.odometer(n * rho, delta=delta)) <= delta


def test_a_walk_can_catch_a_false_odometer() -> None:
    """Showing the exact bound for each moment by itself: right whenever one looks once, wrong for ever."""
    ratio, delta = F(11, 9), F(1, 20)
    each = numbers.log(ratio).high

    @cache
    def shown(n: int) -> Fraction:
        exact = optimal(each, count=n)
        return next(i * each for i in range(n + 1) if exact.beyond(i * each).high <= delta)

    assert all(1 - ever_once(ratio, n, shown(n)) >= 1 - delta for n in (1, 40, 400))
    assert ever_above(ratio, 400, shown) > 3 * delta


def ever_once(ratio: Fraction, n: int, limit: Fraction) -> Fraction:
    """The same for one look at n."""
    return ever_above(ratio, n, lambda turn: limit if turn == n else F(n) * ratio)


# Stopping ---------------------------------------------------------------------------------------------

HALF, THOUSANDTH = F(1, 2), F(1, 1000)


@cache
def claim(size: float, n: int, delta: float) -> float:
    """The epsilon of n responses at delta, from sums of floats."""
    up = 1 / (1 + math.exp(-size))
    masses = [math.comb(n, k) * up**k * (1 - up) ** (n - k) for k in range(n + 1)]
    low, high = 0.0, n * size
    while high - low > 1e-13 * n:
        middle = (low + high) / 2
        lost = sum(max(0.0, p - math.exp(middle) * q) for p, q in zip(masses, masses[::-1], strict=True))
        low, high = (low, middle) if lost <= delta else (middle, high)
    return high


def worth(size: float, count: int, delta: float) -> dict[tuple[int, int], tuple[float, float]]:
    """By (answers, likely ones): the worth of stopping there and of going on, in masses of one path."""
    up = 1 / (1 + math.exp(-size))
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for n in range(count, -1, -1):
        for k in range(n + 1):
            p, q = up**k * (1 - up) ** (n - k), up ** (n - k) * (1 - up) ** k
            stop = max(0.0, p - math.exp(claim(size, n, delta)) * q) if n else 0.0
            go = sum(max(found[n + 1, after]) for after in (k, k + 1)) if n < count else 0.0
            found[n, k] = stop, go
    return found


@pytest.mark.parametrize("count", [1, 9, 60, 200])
@pytest.mark.slow
def test_stopping_is_what_an_independent_recursion_finds(count: int) -> None:
    found = filters.stopping(HALF, count=count, delta=THOUSANDTH)
    assert found == pytest.approx(worth(0.5, count, 0.001)[0, 0][1], rel=1e-7)
    if count == 200:
        assert round(found, 4) == 0.0076


def test_stopping_grows_with_the_number_of_questions_from_the_claimed_delta() -> None:
    found = [filters.stopping(HALF, count=n, delta=THOUSANDTH) for n in (1, 2, 5, 12, 25, 50, 100)]
    assert found[0] == pytest.approx(0.001, rel=1e-8)  # who asks once cannot choose when to stop
    assert all(b >= a * (1 - 1e-8) for a, b in pairwise(found))
    assert found[-1] > 5 * found[0]


def test_stopping_is_reached_in_the_game() -> None:
    """An adversary who follows the rule: the views that she ends with, each against its own claim."""
    count, delta = 9, F(1, 20)
    rule, coin = worth(0.5, count, float(delta)), Round(RandomizedResponse.at(epsilon=HALF), 0, 1)

    def move(view: View) -> Round | None:
        stop, go = rule[len(view), view.count(0)]
        return coin if len(view) < count and go >= stop else None

    claims = {n: math.exp(optimal(HALF, count=n).total(delta)) for n in range(1, count + 1)}
    ended = views(move).chances
    told = sum(max(0.0, float(p) - claims[len(view)] * float(q)) for view, (p, q) in ended.items())
    assert told == pytest.approx(filters.stopping(HALF, count=count, delta=delta), rel=1e-7)
    assert told > 1.4 * float(delta)


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("epsilon", lambda: filters.stopping(F(0), count=1, delta=THOUSANDTH)),
        ("count", lambda: filters.stopping(HALF, count=0, delta=THOUSANDTH)),
        ("delta", lambda: filters.stopping(HALF, count=1, delta=F(1))),
        ("spent", lambda: filters.odometer(F(-1), delta=THOUSANDTH)),
        ("delta", lambda: filters.odometer(F(1), delta=F(0))),
    ],
)
def test_bad_input_is_named(named: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.name == named
