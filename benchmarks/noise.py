"""Exact integer noise against OpenDP 0.16, in the same run: `python benchmarks/noise.py [--smoke]`.

OpenDP gets a virtual environment of its own, made on demand below .peers/, and runs in a process beside ours;
the two take turns, so that a slow moment hits both. Bars (ratios of time per draw, one thread, scale 10):
  numpy      a million draws in plain numpy, Laplace and Gaussian: at least 15 times as fast
  compiled   the same with the extra `fast`: at least 100 times
  single     one draw: not slower
  flip       permute and flip over a million candidates, for the worst of three kinds of scores: under 2 s
  law        the smallest p-value of a chi-square over scales from 1/8 to 2^40: above 10^-9
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import venv
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from sfumato.exact import bulk, samplers
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Distance, PermuteAndFlip

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.mechanisms import Line

ROOT = Path(__file__).parents[1]
PEER = "opendp==0.16.0"
SCALES = [Fraction(1, 8), Fraction(1), Fraction(10), Fraction(1000, 3), Fraction(2**20), Fraction(2**40)]
COINS = SystemCoins()

# what the peer runs: "laplace|gaussian vector|single count" on a line, seconds for each draw on the next
PEER_CODE = """
import sys, time
import opendp.prelude as dp
dp.enable_features("contrib")
integer = dp.atom_domain(T="i64")
make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}
many = {"laplace": dp.l1_distance(T="i64"), "gaussian": dp.l2_distance(T="f64")}
one = {"laplace": dp.absolute_distance(T="i64"), "gaussian": dp.absolute_distance(T="f64")}
for line in sys.stdin:
    law, how, count = line.split()
    count = int(count)
    if how == "vector":
        draw = make[law](dp.vector_domain(integer), many[law], scale=10.0)
        zeros = [0] * count
        start = time.perf_counter()
        draw(zeros)
    else:
        draw = make[law](integer, one[law], scale=10.0)
        start = time.perf_counter()
        for _ in range(count):
            draw(0)
    print((time.perf_counter() - start) / count, flush=True)
"""


def peer() -> subprocess.Popen[str]:
    """OpenDP in a process of its own, on one thread."""
    home = ROOT / ".peers" / "opendp"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"installing {PEER} below .peers/ ...", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        (home / "ready").touch()
    alone = os.environ | {"RAYON_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    command = [str(python), "-c", PEER_CODE]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone)


def asked(process: subprocess.Popen[str], law: str, how: str, count: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{law} {how} {count}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def timed(job: Callable[[], object], draws: int) -> float:
    start = time.perf_counter()
    job()
    return (time.perf_counter() - start) / draws


def laplace(scale: Fraction) -> Line:
    return DiscreteLaplace(scale=scale)


def gaussian(scale: Fraction) -> Line:
    return DiscreteGaussian(sigma_squared=scale**2)


LAWS = {"laplace": laplace, "gaussian": gaussian}
SINGLE: dict[str, Callable[[], int]] = {
    "laplace": lambda: samplers.discrete_laplace(Fraction(10), COINS),
    "gaussian": lambda: samplers.discrete_gaussian(Fraction(100), COINS),
}


def one_by_one(draw: Callable[[], int], count: int) -> None:
    for _ in range(count):
        draw()


def in_bulk(law: Line, size: int, compiled: bool) -> None:
    bulk.COMPILED_PAYS = 1 if compiled else size + 1
    law.draws(COINS, size)


def compare(process: subprocess.Popen[str], name: str, size: int, turns: int) -> dict[str, float]:
    """Seconds for one draw, the medians of several turns."""
    law = LAWS[name](Fraction(10))
    seconds: dict[str, list[float]] = {key: [] for key in ("peer", "numpy", "compiled", "peer1", "single")}
    in_bulk(law, size, True)  # compiled now, or loaded from the cache
    for _ in range(turns):
        seconds["peer"].append(asked(process, name, "vector", size // 5))
        for kind in ("numpy", "compiled"):
            bulk.bell.cache_clear()  # a table is built each time: a scale that was never used before
            seconds[kind].append(timed(partial(in_bulk, law, size, kind == "compiled"), size))
        seconds["peer1"].append(asked(process, name, "single", size // 500))
        seconds["single"].append(timed(partial(one_by_one, SINGLE[name], size // 500), size // 500))
    return {key: statistics.median(found) for key, found in seconds.items()}


def p_value(law: Line, size: int) -> float:
    """Chi-square of |draws| in at most 40 bins of about equal mass."""
    edges: list[int] = []
    for i in range(1, 40):
        edge = law.window(1 - Fraction(i, 40))[-1]
        if not edges or edge > edges[-1]:
            edges.append(edge)
    drawn = np.abs(law.draws(COINS, size).astype(np.float64))
    found = np.histogram(drawn, bins=np.array([-np.inf, *edges, np.inf]) + 0.5)[0]
    expected = size * np.diff([0.0, *(2 * float(law.cdf(edge).low) - 1 for edge in edges), 1.0])
    thick = expected >= 100
    if thick.sum() < 2:  # nearly all mass in one bin: the rare rest against its binomial
        return float(
            stats.binomtest(int(found[~thick].sum()), size, float(expected[~thick].sum() / size)).pvalue
        )
    found, expected = (np.append(x[thick], x[~thick].sum()) for x in (found, expected))
    found, expected = found[expected > 0], expected[expected > 0]
    return float(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1))


def flip(kind: str, candidates: int) -> float:
    """Seconds of one private choice, from the scores to the chosen number."""
    numbers = np.arange(candidates, dtype=np.int64)
    scores = {"all equal": numbers * 0, "spread": numbers % 1000, "one good": (numbers == 7) * 10**6}[kind]
    mechanism = PermuteAndFlip.at(epsilon=Fraction(1), distance=Distance(linf=Fraction(1)))
    return timed(lambda: mechanism.law(scores).draw(COINS), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small and quick; times are printed, not judged")
    smoke = parser.parse_args().smoke
    size, turns = (50_000, 1) if smoke else (1_000_000, 5)
    bars: list[tuple[str, float, str, float]] = []

    process = peer()
    print(f"{'scale 10, ns a draw':22}{'OpenDP':>9}{'numpy':>9}{'compiled':>9}{'OpenDP 1':>10}{'ours 1':>9}")
    for name in LAWS:
        found = compare(process, name, size, turns)
        shown = [f"{1e9 * found[key]:.0f}" for key in ("peer", "numpy", "compiled", "peer1", "single")]
        print(f"{name:22}{shown[0]:>9}{shown[1]:>9}{shown[2]:>9}{shown[3]:>10}{shown[4]:>9}")
        bars.append((f"bulk_{name}_numpy_times_as_fast", found["peer"] / found["numpy"], ">=", 15))
        bars.append((f"bulk_{name}_compiled_times_as_fast", found["peer"] / found["compiled"], ">=", 100))
        bars.append((f"single_{name}_time_over_opendp", found["single"] / found["peer1"], "<=", 1))
    process.terminate()

    print(f"\n{'ours, ns a draw':22}" + "".join(f"{scale!s:>16}" for scale in SCALES))
    for name, law in LAWS.items():
        for kind in ("numpy", "compiled"):
            compiled = kind == "compiled"
            times = [timed(partial(in_bulk, law(scale), size, compiled), size) for scale in SCALES]
            print(f"{name + ', ' + kind:22}" + "".join(f"{1e9 * each:16.0f}" for each in times))
    smallest = min(p_value(law(scale), size) for law in LAWS.values() for scale in SCALES)
    bars.append(("law_smallest_p_value", smallest, ">=", 1e-9))

    worst = 0.0
    for kind in ("all equal", "spread", "one good"):
        seconds = statistics.median(flip(kind, size) for _ in range(3))
        print(f"permute and flip, {size:,} candidates, scores {kind}: {seconds:.3f} s")
        worst = max(worst, seconds)
    bars.append(("permute_and_flip_seconds", worst, "<=", 2))

    short = 0
    for name, measured, op, target in bars:
        if smoke and not name.startswith("law"):
            print(f"{name} {measured:.4g} (a bar only at full size)")  # a time is never a test
            continue
        ok = measured >= target if op == ">=" else measured <= target
        short += not ok
        print(f"BAR {name} {measured:.4g} {op} {target:g} {'ok' if ok else 'short'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
