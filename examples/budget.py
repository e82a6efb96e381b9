"""What a budget buys: the rules of composition side by side, a plan as one charge, what no mechanism can do.

Run: python examples/budget.py
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

from sfumato.budget import Ledger, Share
from sfumato.budget.accounting.filters import odometer, stopping
from sfumato.budget.accounting.limits import error_against_few, few, laplace_radius
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.budget.accounting.rules import best
from sfumato.errors import BudgetExceeded
from sfumato.mechanisms import Distance, Distances, Gaussian, Geometric, Guarantee, Step

DELTA = Fraction(1, 10**6)
ONE = Distance(l0=1, linf=Fraction(1))
COUNT = Distances(presence=ONE, value=ONE)


def main() -> None:
    print("Ten thousand counts at epsilon 1/801 each, by every rule")
    count = Step(Geometric(scale=Fraction(801)), COUNT)
    print(best((count,), count=10_000, delta=DELTA))

    print("\nA plan of 300 counts and 300 Gaussian sums, as one charge")
    plan = PrivacyLoss.of((Step(Geometric(scale=Fraction(10)), COUNT),)).times(300)
    plan = plan.then(PrivacyLoss.of((Step(Gaussian(sigma_squared=Fraction(400)), COUNT),)).times(300))
    print(f"  epsilon {float(plan.epsilon(DELTA)):.4f} at delta {float(DELTA):g}")

    print("\nThe same computed after the fact is no promise")
    claimed = Fraction(1, 1000)
    comes_to = stopping(Fraction(1, 2), count=50, delta=claimed)
    print(f"  delta {float(claimed)} was claimed; an analyst who stops when ahead makes it {comes_to:.4f}")

    print("\nA ledger in rho, shared by two analysts")
    with tempfile.TemporaryDirectory() as folder:
        shared(Path(folder) / "example.ledger")

    print("\nWhat no mechanism can do")
    people = 1_000_000
    error, radius = float(error_against_few(wrong=people // 100)), float(laplace_radius(Fraction(1)))
    print(f"  {few(people):,} counts within ± {error:g} of the truth tell 99% of {people:,} people apart;")
    print(f"  one count at epsilon 1 has an error of ± {radius:.1f} at 95%.")


def shared(file: Path) -> None:
    """Two analysts, whose shares together are more than there is."""
    ledger = Ledger(file, name="example", total=Guarantee.read(rho="0.5", delta="1e-9"))
    for analyst in ("ana", "bob"):
        ledger.share(Share(analyst, Guarantee.read(rho="0.3")))
    noise = Gaussian.at_rho(rho=Fraction(1, 25), distance=ONE)
    for number in range(1, 100):
        try:
            ledger.charge((Step(noise, COUNT),), f"{number}", analyst="ana" if number % 2 else "bob")
        except BudgetExceeded as refusal:
            print(f"  question {number}: {refusal}")
            break
    epsilon = float(odometer(ledger.spent.amount, delta=DELTA))
    print(f"  spent {ledger.spent}: epsilon {epsilon:.2f} at delta {float(DELTA):g}, whenever one looks")
    print(f"  {ledger.verify()} entries, head {ledger.head[:20]}")


if __name__ == "__main__":
    main()
