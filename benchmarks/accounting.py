"""What many releases cost together, against dp-accounting and prv-accountant, in the same run:
`python benchmarks/accounting.py [--smoke]`.

Each peer gets a virtual environment of its own, made on demand below .peers/, and runs in a process beside
ours; they take turns. Every case asks for the epsilon at delta 10^-6, and its truth is known to more digits
than anyone claims. Bars:
  above      ours exceeds the truth by at most 10^-3
  below      ours is never below the truth: by at most 10^-9, to which the truths are stated
  sampled    the subsampled Gaussian: at most 6.9074, what dp-accounting reaches on its usual grid
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.budget.loss import PrivacyLoss
from sfumato.mechanisms import Distance, Distances, RandomizedResponse, Step, laplace, normal

if TYPE_CHECKING:
    from sfumato.mechanisms import Private

ROOT = Path(__file__).parents[1]
DELTA = Fraction(1, 10**6)
BITS = 20  # of the grid below our noise: finer than any of the digits below
STATED = 1e-9  # the truths are right to this for our laws on their grid, too: it moves Laplace by 4e-13

Bar = tuple[str, float, str, float]


@dataclass(frozen=True, slots=True)
class Part:
    """`count` uses of a law: Laplace or response at an epsilon, Gaussian at a sigma; on a Poisson sample."""

    law: str
    parameter: Fraction
    count: int
    rate: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    parts: tuple[Part, ...]
    truth: Fraction


TENTH, SMALL = Fraction(1, 10), Fraction(1, 801)

# The truths are contour integrals of the moment generating function of the summed loss L, at 40 digits,
#   delta(e) = 1/(2 pi i) integral over Re z = c of E[exp(z L)] exp(-z e) / (z (z + 1)) dz,
# which two choices of c, step and cut reproduce to 24 digits or more. The Gaussian has its closed form
# besides; responses are summed over their binomial at 60 digits.
CASES = (
    Case("laplace", (Part("laplace", TENTH, 1000),), Fraction("18.950287367539558198")),
    Case("gaussian", (Part("gaussian", Fraction(20), 1000),), Fraction("8.306225049954728191")),
    Case(
        "mixed",
        (
            Part("laplace", TENTH, 300),
            Part("gaussian", Fraction(20), 300),
            Part("response", TENTH, 400),
        ),
        Fraction("16.327682451482120964"),
    ),
    Case("response", (Part("response", SMALL, 10_000),), Fraction("0.503122843082514361")),
    Case("laplace_801", (Part("laplace", SMALL, 10_000),), Fraction("0.503001886021535528")),
    Case(
        "sampled",
        (Part("gaussian", Fraction(1), 10_000, Fraction(1, 100)),),
        Fraction("6.907384495045082348"),  # of removing; adding costs 6.207484
    ),
)

# What the peers run: the parts of a case as JSON on a line; epsilons by column (null: refused), and seconds.
#
# The composed distributions are built by hand because PLDAccountant of 0.6.0 forgets the count of a
# RandomizedResponseDpEvent: 400 of them cost as much as one.
GOOGLE_CODE = """
import json, math, sys, time
import dp_accounting as dp
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
delta, grid = 1e-6, float(sys.argv[1])

def flips(epsilon):
    return 2 / (1 + math.exp(epsilon))

def spectrum(law, parameter, count, rate):
    on = {"value_discretization_interval": grid}
    if law == "laplace":
        return pld.from_laplace_mechanism(1 / parameter, **on).self_compose(count)
    if law == "response":
        return pld.from_randomized_response(flips(parameter), 2, **on).self_compose(count)
    if rate == 1:
        return pld.from_gaussian_mechanism(parameter / math.sqrt(count), **on)
    return pld.from_gaussian_mechanism(parameter, sampling_prob=rate, **on).self_compose(count)

def by_spectrum(parts):
    first, *rest = [spectrum(*part) for part in parts]
    for other in rest:
        first = first.compose(other)
    return first.get_epsilon_for_delta(delta)

def event(law, parameter, count, rate):
    if law == "laplace":
        return dp.LaplaceDpEvent(1 / parameter)
    if law == "response":
        return dp.RandomizedResponseDpEvent(flips(parameter), 2)
    return dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(parameter))

def by_renyi(parts):
    replaced = all(part[0] == "response" for part in parts)
    relation = dp.NeighboringRelation.REPLACE_ONE if replaced else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = RdpAccountant(neighboring_relation=relation)
    for part in parts:
        try:
            accountant.compose(event(*part), part[2])
        except dp.UnsupportedEventError:
            return None
    return accountant.get_epsilon(delta)

for line in sys.stdin:
    parts, found = json.loads(line), {}
    for name, how in (("renyi", by_renyi), ("pld", by_spectrum)):
        start = time.perf_counter()
        epsilon = how(parts)
        found[name] = [epsilon, time.perf_counter() - start]
    print(json.dumps(found), flush=True)
"""

PRV_CODE = """
import json, sys, time
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as prv
delta, error = 1e-6, float(sys.argv[1])

def variable(law, parameter, count, rate):
    if law == "laplace":
        return prv.LaplaceMechanism(parameter)
    if law == "response":
        return prv.PureDPMechanism(parameter)
    if rate == 1:
        return prv.GaussianMechanism(parameter)
    return prv.PoissonSubsampledGaussianMechanism(rate, parameter)

for line in sys.stdin:
    parts = json.loads(line)
    counts = [part[2] for part in parts]
    start = time.perf_counter()
    accountant = PRVAccountant(
        prvs=[variable(*part) for part in parts],
        max_self_compositions=counts, eps_error=error, delta_error=delta / 1000,
    )
    low, guess, high = accountant.compute_epsilon(delta, counts)
    seconds = time.perf_counter() - start
    print(json.dumps({"prv": [guess, seconds], "prv upper": [high, seconds]}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """An accountant of others: its release, what it runs, how finely at full size and in a smoke run."""

    package: str
    code: str
    full: float
    smoke: float

    def start(self, smoke: bool) -> subprocess.Popen[str]:
        """In a process of its own, on one thread."""
        home = ROOT / ".peers" / self.package.partition("==")[0]
        python = home / "bin" / "python"
        if not (home / "ready").exists():
            print(f"installing {self.package} below .peers/ ...", flush=True)
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", self.package], check=True)
            (home / "ready").touch()
        fineness = str(self.smoke if smoke else self.full)
        return subprocess.Popen(
            [str(python), "-W", "ignore", "-c", self.code, fineness],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )


PEERS = (
    Peer("dp-accounting==0.6.0", GOOGLE_CODE, full=1e-4, smoke=1e-3),  # the step of its grid; 1e-4 is usual
    Peer("prv-accountant==0.2.0", PRV_CODE, full=0.01, smoke=0.1),  # how far `upper` may lie from the truth
)
COLUMNS = ("renyi", "pld", "prv", "prv upper", "ours")

Found = dict[str, tuple[float | None, float]]  # epsilon (None: refused) and seconds, by column


def asked(process: subprocess.Popen[str], case: Case) -> Found:
    assert process.stdin is not None
    assert process.stdout is not None
    parts = [[part.law, float(part.parameter), part.count, float(part.rate)] for part in case.parts]
    process.stdin.write(json.dumps(parts) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"a peer died on {case.name}; its message stands above")
    return {name: (epsilon, seconds) for name, (epsilon, seconds) in json.loads(answer).items()}


def mechanism(part: Part) -> Private:
    if part.law == "laplace":
        return laplace(scale=1 / part.parameter, bits=BITS)
    if part.law == "response":
        return RandomizedResponse.at(epsilon=part.parameter)
    return normal(sigma_squared=part.parameter**2, bits=BITS)


def ours(case: Case) -> Fraction:
    one = Distance(l0=1, linf=Fraction(1))
    loss: PrivacyLoss | None = None
    for part in case.parts:
        each = PrivacyLoss.of((Step(mechanism(part), Distances(one, one)),), towards="presence")
        if part.rate < 1:
            each = each.sampled(part.rate)
        each = each.times(part.count)
        loss = each if loss is None else loss.then(each)
    assert loss is not None
    return loss.epsilon(DELTA)


def composition(smoke: bool) -> list[Bar]:
    """Epsilon of each case by each accountant, and the seconds it took."""
    bars: list[Bar] = []
    times: list[tuple[str, Found]] = []
    processes = [peer.start(smoke) for peer in PEERS]
    print(f"{'epsilon at delta 1e-6':22}{'truth':>12}" + "".join(f"{name:>12}" for name in COLUMNS))
    try:
        for case in CASES:
            found: Found = {}
            for process in processes:
                found |= asked(process, case)
            start = time.perf_counter()
            epsilon = ours(case)
            found["ours"] = (float(epsilon), time.perf_counter() - start)
            shown = (found[name][0] for name in COLUMNS)
            row = "".join(f"{'refuses' if each is None else f'{each:.6f}':>12}" for each in shown)
            print(f"{case.name:22}{float(case.truth):12.6f}{row}", flush=True)
            times.append((case.name, found))
            excess = float(epsilon - case.truth)  # exact until here
            bars.append((f"{case.name}_above_truth", excess, "<=", 1e-3))
            bars.append((f"{case.name}_below_truth", -excess, "<=", STATED))
            if case.name == "sampled":
                bars.append(("sampled_epsilon", float(epsilon), "<=", 6.9074))
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    timed = [name for name in COLUMNS if name != "prv upper"]
    print(f"\n{'seconds':22}" + "".join(f"{name:>12}" for name in timed))
    for name, found in times:
        print(f"{name:22}" + "".join(f"{found[column][1]:12.3f}" for column in timed))
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="peers on coarse grids; the bars stay")
    smoke = parser.parse_args().smoke
    bars = composition(smoke)

    print()
    short = 0
    for name, measured, op, target in bars:
        ok = measured >= target if op == ">=" else measured <= target
        short += not ok
        print(f"BAR {name} {measured:.7g} {op} {target:g} {'ok' if ok else 'short'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
