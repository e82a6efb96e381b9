"""From epsilon to what an attacker may gain, and back: `python benchmarks/guessing.py [--smoke]`.

There is no open system to run beside it. Bars:
  below        how far any bound lies below the exact posterior of an implemented mechanism, over a grid of
               (prior, epsilon, precision, goal): never by anything
  below_lp     the same, below the linear program
  tent         the one-dimensional tight bound against the program
  seconds      a column of 10^6 values: the tight bound for the worst true value at one epsilon; its inversion
  epsilon      the inverted epsilon keeps the advantage (at most 1 of it), and a thousandth more does not
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.utility import Bar, told

from sfumato.mechanisms import Finite, Table
from sfumato.utility.gain import weighted
from sfumato.utility.goals import (
    either,
    every,
    fact,
    gained,
    independent,
    manhattan,
    most_gained,
    near,
    tight,
)
from sfumato.utility.guessing import Belief, about, above, epsilon_for, worst_value

EPSILONS = (0.05, 0.3, 1.0, 3.0)


def priors(n: int) -> list[Finite[int]]:
    return [
        weighted(dict.fromkeys(range(n), 1)),
        weighted({k: math.comb(n - 1, k) for k in range(n)}),
        weighted({k: 1 + 20 * (k in (0, n - 1)) for k in range(n)}),
        weighted({k: (7 * k) % 5 for k in range(n)}),
    ]


def geometric(n: int, epsilon: float) -> Table[int, int]:
    """Truncated geometric noise on the value itself, with at least this much noise."""
    return Table.geometric(ratio=Fraction(math.exp(-epsilon)) + Fraction(1, 10**15), size=n)


def bounds(n: int, reaches: tuple[int, ...]) -> list[Bar]:
    below = below_lp = tent = 0.0
    cases = 0
    for belief, epsilon, reach in itertools.product(priors(n), EPSILONS, reaches):
        column = Belief(np.array([float(mass) for mass in belief.masses]))
        table = geometric(n, epsilon)
        attained = float(gained(table, belief, near(reach)))
        most = 0.0
        for x in range(n):
            found = about(column, x, reach, epsilon)
            goal = [z for z in range(n) if abs(z - x) <= reach]
            solved = tight(belief, goal, lambda a, b: abs(a - b), epsilon)
            tent = max(tent, abs(found.tight - solved))
            below_lp = max(
                below_lp, *(solved - each - 1e-9 for each in (found.simplified, found.shell, found.precise))
            )
            most, cases = max(most, found.advantage), cases + 1
        below = max(below, attained - most, attained - worst_value(column, reach, epsilon)[1])
    for belief, epsilon in itertools.product(priors(n), EPSILONS):  # a fact
        column = Belief(np.array([float(mass) for mass in belief.masses]))
        attained = float(gained(geometric(n, epsilon), belief, fact((n // 3).__le__)))
        below = max(below, attained - max(side.advantage for side in above(column, n // 3, epsilon)))
        cases += 1
    small = 4
    for epsilon, goal in itertools.product(EPSILONS, (every(near(1), near(0)), either(near(0), near(0)))):
        pair = independent(*(weighted({0: 1, 1: 2, 2: 1, 3: 3}) for _ in range(2)))
        one = geometric(small, epsilon)
        rows = tuple(
            tuple(p * q for p, q in itertools.product(one.rows[a], one.rows[b])) for a, b in pair.outcomes
        )
        outputs = tuple(itertools.product(one.outputs, repeat=2))
        both = Table(rows=rows, secrets=pair.outcomes, outputs=outputs)
        below = max(
            below, float(gained(both, pair, goal)) - most_gained(pair, goal, manhattan(1, 1), epsilon)[1]
        )
        cases += 1
    print(f"{cases} cases of prior, epsilon, precision and goal, n = {n}")
    return [
        ("below_a_mechanism", below, "<=", 0.0),
        ("below_the_program", below_lp, "<=", 0.0),
        ("tent_off_the_program", tent, "<=", 1e-6),
    ]


def large(n: int) -> list[Bar]:
    values = np.arange(n)
    columns = {
        "uniform": Belief(np.full(n, 1 / n), unit=n - 1),
        "bell": Belief.normal(n / 3, n / 10, low=0, high=n - 1, unit=n - 1),
        "waves": Belief((1 + np.sin(values / 50)) / (1 + np.sin(values / 50)).sum(), unit=n - 1),
    }
    slowest = inverting = over = under = 0.0
    for name, column in columns.items():
        for reach in (5, 2_000):
            for epsilon in (1.0, 100.0, 10_000.0):
                start = time.perf_counter()
                worst_value(column, reach, epsilon)
                slowest = max(slowest, time.perf_counter() - start)
            start = time.perf_counter()
            epsilon = epsilon_for(column, reach, 0.1)
            seconds = time.perf_counter() - start
            inverting = max(inverting, seconds)
            kept = worst_value(column, reach, epsilon)[1]
            more = worst_value(column, reach, epsilon * 1.05)[1]
            over, under = max(over, kept / 0.1), max(under, 0.1 / more)
            told = f"{n:,} values, {name}, within {reach:,}: epsilon {epsilon:.5g} keeps {kept:.5f}"
            print(f"{told}, in {seconds:.2f} s")
    return [
        ("large_seconds", slowest, "<=", 1),
        ("inversion_seconds", inverting, "<=", 10),
        ("kept_of_the_advantage", over, "<=", 1.0 + 1e-9),
        ("advantage_over_a_little_more", under, "<=", 1.0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small and quick; no times")
    smoke = parser.parse_args().smoke
    bars = bounds(6 if smoke else 12, (1,) if smoke else (0, 1, 3)) + large(10_000 if smoke else 1_000_000)
    return told(bars, smoke=smoke)


if __name__ == "__main__":
    sys.exit(main())
