"""How good answers can be, beside libqif: `python benchmarks/utility.py [--smoke]`.

libqif (the Python package qif) gets a virtual environment of its own below .peers/. Bars:
  gap        truncated geometric and best remap against the linear program, over (n, epsilon, gain, prior)
  parity     the gain that does not fall with distance: 2/3 by the program, 0.604167 by geometric noise
  program    n = 100 by the program: seconds
  answers    10^5 answers and noise of scale 1,000 without the matrix: seconds
  epsilon    the largest epsilon of any returned table over the asked one, random priors and gains
  qif        beside libqif: the same posterior vulnerability; its time over ours; the epsilon of its table
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
import venv
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sfumato.exact import numbers
from sfumato.mechanisms import DiscreteLaplace, Finite, Table
from sfumato.utility.gain import Gain, identity, nearness, of_noise, uniform, utility, weighted
from sfumato.utility.optimal import optimal, path

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
PEER = "qif==1.6.0"
LN2 = Fraction(math.log(2))

# libqif: what it finds best on a path of answers, and how long it takes
PEER_CODE = """
import json, math, sys, time
import numpy as np
import qif
given = json.load(sys.stdin)
n, epsilon = given["n"], given["epsilon"]
prior = np.array(given["prior"])
start = time.perf_counter()
distance = lambda x, y: abs(x - y)
channel = qif.mechanism.d_privacy.min_loss_given_d(prior, n, lambda x, y: epsilon * abs(x - y), distance)
seconds = time.perf_counter() - start
channel = np.array(channel)
worst = 0.0
for x in range(n - 1):
    for a, b in ((channel[x], channel[x + 1]), (channel[x + 1], channel[x])):
        for p, q in zip(a, b):
            if p > 0:
                worst = max(worst, math.inf if q <= 0 else math.log(p / q))
lost = float(sum(prior[x] * channel[x][y] * abs(x - y) for x in range(n) for y in range(n)))
print(json.dumps({"seconds": seconds, "epsilon": worst, "lost": lost}))
"""
Bar = tuple[str, float, str, float]


GAINS: dict[str, Callable[[int], Gain[int, int]]] = {  # which fall with distance
    "identity": lambda n: identity(range(n)),
    "nearness": lambda n: nearness(range(n), most=n),
    "squares": lambda n: nearness(range(n), most=n * n, distance=lambda w, x: (w - x) ** 2),
    "within one": lambda n: Gain(tuple(range(n)), lambda w, x: int(abs(w - x) <= 1)),
    "steps": lambda n: Gain(tuple(range(n)), lambda w, x: -(abs(w - x) // 2)),
}


def beliefs(n: int) -> list[Finite[int]]:
    return [
        uniform(range(n)),
        weighted({k: math.comb(n - 1, k) for k in range(n)}),
        weighted({k: 2**k for k in range(n)}),
        weighted({k: 1 + 9 * (k in (0, n - 1)) for k in range(n)}),
        weighted({k: 1 + (7 * k) % 5 for k in range(n)}),
    ]


def gaps(sizes: tuple[int, ...]) -> list[Bar]:
    worst, cases = 0.0, 0
    for n in sizes:
        for epsilon in (LN2, Fraction(1, 2)):
            for gain in (of(n) for of in GAINS.values()):
                for belief in beliefs(n):
                    closed = optimal(belief, gain, epsilon=epsilon, neighbours=path(range(n)))
                    solved = optimal(belief, gain, epsilon=epsilon, neighbours=path(range(n)), program=True)
                    size = max(1.0, abs(closed.utility))
                    worst, cases = max(worst, abs(closed.utility - solved.bound) / size), cases + 1
    print(f"{cases} cases: the closed form is off the program by at most {worst:.2g} of the gain")
    parity: Gain[int, int] = Gain(tuple(range(6)), lambda w, x: int((w - x) % 2 == 0))
    best = optimal(uniform(range(6)), parity, epsilon=LN2, neighbours=path(range(6)))
    ratio = numbers.round_up(numbers.exp(-LN2).high, 64)
    stairs = float(utility(Table.geometric(ratio=ratio, size=6), uniform(range(6)), parity))
    print(f"parity gain: program {best.bound:.6f}, geometric {stairs:.6f}")
    return [
        ("gap", worst, "<=", 1e-12),
        ("parity_program_off", abs(best.bound - 2 / 3), "<=", 1e-9),
        ("parity_geometric_off", abs(stairs - 0.604167), "<=", 5e-7),
    ]


def program(n: int) -> list[Bar]:
    start = time.perf_counter()
    belief = weighted({k: 1 + (7 * k) % 5 for k in range(n)})
    best = optimal(belief, nearness(range(n)), epsilon=Fraction(1), neighbours=path(range(n)), program=True)
    seconds = time.perf_counter() - start
    print(f"program, n = {n}: {best} in {seconds:.1f} s")
    return [("program_seconds", seconds, "<=", 10)]


def answers(n: int) -> list[Bar]:
    slowest = 0.0
    both: tuple[Literal["identity", "nearness"], ...] = ("identity", "nearness")
    for gain in both:
        start = time.perf_counter()
        read = of_noise(DiscreteLaplace(scale=Fraction(1000)), [1 / n] * n, gain)
        slowest = max(slowest, time.perf_counter() - start)
        print(f"{n:,} answers, {gain}: {read.utility:.6g} in {time.perf_counter() - start:.2f} s")
    return [("answers_seconds", slowest, "<=", 5)]


def kept(times: int) -> list[Bar]:
    dice, worst = random.Random(6), 0.0
    for _ in range(times):
        size = dice.randint(2, 9)
        belief = weighted({x: dice.choice((0, 1, 1, 5, 10**6)) + (x == 0) for x in range(size)})
        rows = [[dice.randint(-5, 5) for _ in range(size)] for _ in range(dice.randint(1, 6))]
        gain = Gain.matrix(rows, guesses=range(len(rows)), secrets=range(size))
        epsilon = Fraction(dice.choice(("0.01", "0.5", "2", "10")))
        edges = [*path(range(size)), *((dice.randrange(size), dice.randrange(size)) for _ in range(3))]
        best = optimal(belief, gain, epsilon=epsilon, neighbours=edges)
        found = best.table.worst([edge for edge in edges if edge[0] != edge[1]]).epsilon
        worst = max(worst, math.inf if found is None else float(found / epsilon))
    print(f"{times} random problems: no table above {worst:.9f} of the epsilon asked for")
    return [("epsilon_over_asked", worst, "<=", 1)]


def beside_qif(n: int) -> list[Bar]:
    home = ROOT / ".peers" / "qif"
    if not (home / "ready").exists():
        print(f"installing {PEER} below .peers/ ...", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run(
            [home / "bin" / "python", "-m", "pip", "install", "--quiet", PEER, "numpy"], check=True
        )
        (home / "ready").touch()
    belief = weighted({k: 1 + (7 * k) % 5 for k in range(n)})
    given = {"n": n, "epsilon": 1.0, "prior": [float(mass) for mass in belief.masses]}
    command = [str(home / "bin" / "python"), "-c", PEER_CODE]
    told = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    if told.returncode:
        print(f"libqif did not answer: {told.stderr.strip().splitlines()[-1:]}")
        return []
    theirs = json.loads(told.stdout.splitlines()[-1])
    start = time.perf_counter()
    ours = optimal(belief, nearness(range(n)), epsilon=Fraction(1), neighbours=path(range(n)), program=True)
    seconds = time.perf_counter() - start
    print(
        f"n = {n}: libqif loses {theirs['lost']:.9f} in {theirs['seconds']:.2f} s, its table has epsilon "
        f"{theirs['epsilon']:.6g} where 1 was asked; ours loses {-ours.utility:.9f} in {seconds:.2f} s, "
        f"epsilon {float(ours.epsilon):.9f}"
    )
    return [
        ("qif_gain_off", abs(theirs["lost"] + ours.bound), "<=", 1e-5),
        ("our_seconds_over_qif", seconds / theirs["seconds"], "<=", 1),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small and quick, without libqif; no times")
    smoke = parser.parse_args().smoke
    bars = gaps((5,) if smoke else (5, 10, 20))
    bars += program(12 if smoke else 101) + answers(1_000 if smoke else 100_001) + kept(20 if smoke else 400)
    bars += [] if smoke else beside_qif(20)
    return told(bars, smoke=smoke)


def told(bars: list[Bar], *, smoke: bool) -> int:
    """Print the bars; 1 if any is short. Seconds are bars only at full size."""
    short = 0
    for name, measured, op, target in bars:
        if smoke and "seconds" in name:
            print(f"{name} {measured:.4g} (a bar only at full size)")
            continue
        ok = measured <= target
        short += not ok
        print(f"BAR {name} {measured:.4g} {op} {target:g} {'ok' if ok else 'short'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
