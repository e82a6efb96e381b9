"""Every family of mechanisms, drawn once with its guarantee: `python examples/mechanisms.py`.

The exact answers are printed beside the releases. Never do that with real data: an answer is secret.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms import (
    Bound,
    Cube,
    Distance,
    Exponential,
    Gaussian,
    Geometric,
    Modes,
    NoisyMax,
    Partition,
    PermuteAndFlip,
    QuantileIntervals,
    Quantiles,
    RandomizedResponse,
    Renormalised,
    SmoothMedian,
    SparseVector,
    Staircase,
    Table,
    TopK,
    Truncated,
    accuracy,
    laplace,
    normal,
)
from sfumato.mechanisms.guarantee import decimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.mechanisms import Mechanism

COINS = SystemCoins()
ONE = Distance(l0=1, linf=Fraction(1))  # one person moves one number by 1
EPSILON = Fraction(1, 2)


def promise(bound: Bound) -> str:
    """What a bound proves, in words."""
    if bound.epsilon is not None:
        return f"epsilon {decimal(bound.epsilon)}"
    return f"rho {decimal(bound.rho)}" if bound.rho is not None else "nothing"


def show(name: str, answer: object, release: object, guarantee: str) -> None:
    print(f"{name:20} {answer!s:>18} {release!s:>24}   {guarantee}")


def vectors(answer: tuple[int, ...], all_move: Distance) -> None:
    print("\nNoise on numbers, one of which may move by 1")
    noise: list[tuple[str, Mechanism[tuple[int, ...], tuple[int, ...]], Distance]] = [
        ("geometric", Geometric(scale=1 / EPSILON), ONE),
        ("Gaussian", Gaussian.at(epsilon=EPSILON, delta=Fraction(1, 10**6), distance=ONE), ONE),
        ("staircase", Staircase.at(epsilon=EPSILON, distance=ONE), ONE),
        ("truncated to 0..100", Truncated(core=Geometric(scale=1 / EPSILON), low=0, high=100), ONE),
        ("cube, all may move", Cube(scale=1 / EPSILON), all_move),
    ]
    for name, mechanism, distance in noise:
        show(name, answer, mechanism.law(answer).draw(COINS), promise(mechanism.bound(distance)))
    gauss = Gaussian.at(epsilon=EPSILON, delta=Fraction(1, 10**6), distance=ONE)
    delta = gauss.delta(epsilon=EPSILON, distance=ONE)
    print(f"{'':20} the Gaussian also has epsilon {decimal(EPSILON)} with delta {float(delta):.3g}")


def reals(answer: Fraction) -> None:
    print("\nReals, on a public grid of 2^-10")
    for name, mechanism in (
        ("Laplace", laplace(scale=1 / EPSILON, bits=10)),
        ("normal", normal(sigma_squared=1 / EPSILON**2, bits=10)),
    ):
        (release,) = mechanism.law((answer,)).draw(COINS)
        show(name, float(answer), float(release), promise(mechanism.bound(ONE)))
    warned = Renormalised(scale=1 / EPSILON, low=0, high=5)
    show("renormalised (!)", 3, warned.law(3).draw(COINS), promise(warned.bound(ONE)) + ", not 0.5")


def choices(votes: Sequence[int]) -> None:
    print("\nChoosing: a ballot, where one person moves any score by at most 1")
    for kind in (Exponential, PermuteAndFlip, NoisyMax):
        mechanism = kind.at(epsilon=EPSILON, distance=ONE)
        law = mechanism.law(votes)
        best = math.exp(float(law.log_mass(0).low))
        text = f"{promise(mechanism.bound(ONE))}, the first wins with probability {best:.3f}"
        show(kind.name, list(votes), f"candidate {law.draw(COINS)}", text)
    top = TopK.at(count=2, epsilon=EPSILON, distance=ONE)
    show("top 2 in one shot", list(votes), top.law(votes).draw(COINS), promise(top.bound(ONE)))

    comes = Distance(l0=20, linf=Fraction(1), monotone=True)  # a person comes, with up to 20 conditions
    print("\nThe most common condition, when one person may have 20 of them")
    counts, winner = Geometric(scale=Fraction(10)), NoisyMax(scale=Fraction(10))
    print(f"{'20 noisy counts':20} at scale 10: {promise(counts.bound(comes))}")
    print(f"{'noisy max':20} at scale 10: {promise(winner.bound(comes))}")

    bids = [100, 100, 100, 301] * 100
    prices = range(1, 501)  # public: 0.01 to 5.00
    revenue = [price * sum(bid >= price for bid in bids) for price in prices]
    auction = PermuteAndFlip.at(epsilon=Fraction(1), distance=Distance(linf=Fraction(500)))
    chosen = auction.law(revenue).draw(COINS)
    print("\nA price for 400 bidders, of whom 300 would pay 1.00 and 100 would pay 3.01, at epsilon 1")
    earned = f"{revenue[chosen] / 100:.2f} of {max(revenue) / 100:.2f}"
    print(f"{'permute and flip':20} chose {prices[chosen] / 100:.2f} and earns {earned}")
    exact, bound = (f(epsilon=1, gap=10) for f in (accuracy.best_of_two, accuracy.best_of_two_bound))
    print(f"\nBest of two, 10 apart, at epsilon 1: the worse in {exact:.8f} (the theorem says {bound:.8f})")


def stream(answers: Sequence[int]) -> None:
    print("\nThe sparse vector: which answers are above 100? Two alarms are paid for")
    watch = SparseVector.at(epsilon=Fraction(1), distance=ONE, threshold=100, limit=2)
    state, said = watch.start(COINS), []
    for answer in answers:
        if state.left:
            state, above = watch.reply(state, answer, COINS)
            said.append("above" if above else "below")
    show("sparse vector", f"{len(answers)} answers", " ".join(said), promise(watch.bound(ONE)))


def everyone_alone(truth: int, people: int) -> None:
    print("\nRandomized response: everyone tosses two coins")
    coins = RandomizedResponse.two_coins()
    told = sum(coins.law(int(i < truth)).draw(COINS) for i in range(people))
    _, yes = coins.estimate([people - told, told])
    interval = f"{float(yes.share):.3f} ({yes.low:.3f} to {yes.high:.3f})"
    show("two coins", f"{truth / people:.3f}", interval, promise(coins.bound(ONE)))


def middle(ages: list[int]) -> None:
    print("\nThe median of 401 ages, when one of them may be replaced")
    median = SmoothMedian(epsilon=Fraction(1), delta=Fraction(1, 10**6), low=0, high=120, size=len(ages))
    (release,) = median.law(tuple(ages)).draw(COINS)
    bound = median.bound(ONE)
    show(
        "smooth sensitivity", sorted(ages)[200], release, f"{promise(bound)}, delta {float(bound.delta):.0e}"
    )


def groups() -> None:
    print("\nGroups nobody declared, of 1, 5, 20 and 60 persons: which may be shown?")
    rule = Partition(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    shown = rule.law((1, 5, 20, 60)).draw(COINS)
    one = Distance(l0=1, linf=Fraction(1))
    show(
        "partition",
        "1, 5, 20, 60",
        ", ".join("shown" if s else "hidden" for s in shown),
        promise(rule.bound(one)),
    )
    print("\nMedian and most common value of two groups at once, one person in one cell of one group")
    moved = Distance(l1=Fraction(1))
    histogram = (5, 20, 40, 20, 5, 0, 0, 10, 50, 60)  # two groups of five cells
    medians = Quantiles(cells=5, targets=((Fraction(1, 2), Fraction(0), Fraction(1)),))
    show(
        "quantiles",
        "cells 2, 3",
        f"cells {medians.law(histogram).draw(COINS)}",
        promise(medians.bound(moved)),
    )
    half, scale = Fraction(1, 2), Fraction(2)
    ends = QuantileIntervals(cells=5, targets=((half, Fraction(0), scale, scale, Fraction(12), scale),))
    show(
        "quantile intervals",
        "cells 2, 3",
        f"cells {ends.law(histogram).draw(COINS)}",
        promise(ends.bound(moved)),
    )
    modes = Modes(cells=5, scale=Fraction(1))
    show("modes", "cells 2, 4", f"cells {modes.law(histogram).draw(COINS)}", promise(modes.bound(moved)))


def tables() -> None:
    print("\nFinite mechanisms: heights 50 to 250, any two of them neighbours")
    heights = range(50, 251)
    kinds = {
        "the truth": Table.of(heights, lambda height: {height: 1}),
        "always 150": Table.of(heights, lambda _: {150: 1}),
        "100 or 200": Table.of(heights, lambda height: {100 if height < 150 else 200: 1}),
        "201 outputs": Table.of(heights, lambda x: {z: Fraction(1 + (z == x), 202) for z in heights}),
    }
    for name, table in kinds.items():
        print(f"{name:20} {table.law(170).draw(COINS):>18}   {table.worst()}")


def main() -> None:
    print(f"{'':20} {'exact answer':>18} {'release':>24}   guarantee")
    vectors((17, 42), Distance(linf=Fraction(1)))
    reals(Fraction(10, 3))
    choices([4, 3, 3])
    stream([20, 35, 180, 25, 40, 15, 190, 30])
    everyone_alone(truth=300, people=1000)
    middle([20 + i * 7 % 60 for i in range(401)])
    groups()
    tables()


if __name__ == "__main__":
    main()
