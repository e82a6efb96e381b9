"""What may still be spent when every question, and its price, is chosen after seeing the answers before.

A filter is a rule that says no in time. Three are valid under fully adaptive choice, and a ledger follows one
of them for ever:

* `epsilon`: the sum of epsilons stays below the total. Basic composition.
* `epsilon` with `delta`: both sums stay below their totals (Rogers, Roth, Ullman and Vadhan, 2016).
* `rho`: the sum of rhos stays below the total, and so does the sum of deltas of what is not zCDP (Feldman and
  Zrnic, 2021, theorem 4.3 for Renyi filters; Whitehouse, Ramdas, Rogers and Wu, 2023, for the deltas).

Admitting what *any* of several filters has room for is none of them. Nor is the privacy loss of the history
so far: an analyst who stops when she is ahead turns a claimed delta of 0.001 into one of 0.0076 (`stopping`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.budget.accounting.composition import chance, optimal
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import price as checked_price
from sfumato.mechanisms.arguments import rational, whole
from sfumato.mechanisms.guarantee import DECIMALS, FINER

if TYPE_CHECKING:
    from sfumato.mechanisms import Guarantee, Spend

UNIT = 10**DECIMALS  # parts of one epsilon or rho
FINE = 10**FINER  # parts of one delta
RUNG = Fraction(5, 4)  # each rung of a ladder is that much above the one before
LOWEST = Fraction(1, 10**6)  # rho of the first rung


@lru_cache(maxsize=1024)
def price(spend: Spend, currency: Guarantee, towards: str = "presence") -> Guarantee:
    """What a spend costs in the currency of this guarantee, rounded up to whole units.

    `currency.delta` is what the spend itself may take of delta, where an epsilon is to be found for it.

    Guarantee: the prices of all spends, added up, are a filter of the currency.
    Proof: in epsilon, basic composition. In epsilon and delta, the steps of one spend are fixed before the
    first is drawn, so their privacy loss gives a valid pair. In rho, an (epsilon, delta) step is randomized
    response but for a chance of delta, so delta-approximately epsilon^2/2-zCDP (Bun and Steinke, 2016,
    section 8; Kairouz, Oh and Viswanath, 2015).
    """
    bounds = [(step.mechanism.name, step.bound(towards)) for step in spend]
    amount = slack = Fraction(0)
    if currency.rho is not None:
        for name, bound in bounds:
            rho = bound.epsilon**2 / 2 if bound.rho is None and bound.epsilon is not None else bound.rho
            if rho is None:
                raise InvalidParameter(
                    "spend", name, "this ledger counts rho, and no rho is proved for this mechanism"
                )
            amount, slack = amount + rho, slack + (0 if bound.rho is not None else bound.delta)
    elif currency.delta:
        loss = PrivacyLoss.of(spend, towards)
        if loss != PrivacyLoss(towards=towards):  # what tells nothing is free
            amount, slack = loss.epsilon(currency.delta), currency.delta
    else:
        for name, bound in bounds:
            if bound.epsilon is None or bound.delta > 0:
                raise InvalidParameter(
                    "spend",
                    name,
                    "this ledger counts epsilon, and no pure bound is proved for this mechanism",
                )
            amount += bound.epsilon
    return currency.of(_up(amount, UNIT), _up(slack, FINE))


@lru_cache(maxsize=1024)
def losses(spend: Spend, currency: Guarantee) -> dict[str, list[int]]:
    """What a spend costs if a person is replaced, and in every distance of a column that its steps know.

    By name, in whole units: what is paid whatever the distance, what is paid for the whole range of the
    column, and of delta. `value` is the name where rows are replaced by any others; a step that does not know
    a distance costs there what it costs then.
    """
    named = {name for step in spend for name, _ in step.distances.promises}
    found = {"value": _replaced(spend, currency)}
    for name in sorted(named):
        near = tuple(step for step in spend if name in dict(step.distances.promises))
        rest = tuple(step for step in spend if name not in dict(step.distances.promises))
        sloped = price(near, currency.of(Fraction(0)), name).amount
        fixed, _, lost = _replaced(rest, currency)
        found[name] = [fixed, int(sloped * UNIT), lost]
    return found


def _replaced(spend: Spend, currency: Guarantee) -> list[int]:
    lost = sum((step.bound("value").delta for step in spend), Fraction(0))
    slack = max(currency.delta, lost) if currency.delta else Fraction(0)
    cost = price(spend, currency.of(Fraction(0), slack), "value")
    return [int(cost.amount * UNIT), 0, int(cost.delta * FINE)]


def replaced(amount: int, slack: int, currency: Guarantee) -> list[int]:
    """What a price comes to if a person is replaced, where what was run is not known: by group privacy.

    Whoever is replaced goes, and somebody comes. Twice epsilon, with a delta of (1 + e^epsilon) delta; four
    times rho.
    """
    if currency.rho is not None:
        return [4 * amount, 0, 2 * slack]
    grown = numbers.exp(Fraction(amount, UNIT)).high if slack else Fraction(0)
    return [2 * amount, 0, math.ceil(slack * (1 + grown))]


def _up(value: Fraction, unit: int) -> Fraction:
    return Fraction(math.ceil(value * unit), unit)


def odometer(spent: Fraction, *, delta: Fraction) -> Fraction:
    """An epsilon for a rho that was spent adaptively, valid at all times at once but for a chance of delta.

    A ladder of filters: rung j stops at rho_j = 10^-6 (5/4)^j and may fail with chance delta / ((j+1) (j+2)),
    which add up to delta. What is reported is the bound of the lowest rung that was not passed.

    Guarantee: with probability 1 - delta no reported epsilon is ever below the loss so far, whenever one
    looks and whatever made one look. Proof: on the rung rho_j the loss is above rho_j + 2 sqrt(rho_j
    ln(1/d_j)) with chance at most d_j (Bun and Steinke, 2016, lemma 3.5, for the filter's view: Feldman and
    Zrnic, 2021); the union bound.

    >>> round(float(odometer(Fraction(1, 2), delta=Fraction(1, 10**6))), 3)
    7.303
    """
    spent, delta = rational("spent", spent, zero=True), chance(delta)
    if spent == 0:
        return Fraction(0)
    j, rung = 0, LOWEST
    while rung < spent:
        j, rung = j + 1, rung * RUNG
    log = -numbers.log(delta / ((j + 1) * (j + 2))).low
    return numbers.round_up(rung + 2 * numbers.sqrt(numbers.round_up(rung * log, 64)).high, 40)


def stopping(epsilon: Fraction, *, count: int, delta: Fraction) -> float:
    """What a claimed delta comes to if an analyst stops when it suits her: a float, for reading.

    She asks up to `count` randomized responses of this epsilon. Whenever she stops, at n of them, the loss
    distribution of the n is computed as if n had been planned, and the epsilon at delta is claimed. Her best
    rule to stop is found backwards from the last answer.

    >>> round(stopping(Fraction(1, 2), count=200, delta=Fraction(1, 1000)), 4)
    0.0076
    """
    size, count = float(checked_price("epsilon", epsilon)), whole("count", count, least=1)
    up = 1 / (1 + math.exp(-size))
    worth: list[float] = []
    for n in range(count, 0, -1):
        claimed = float(optimal(epsilon, count=n).total(delta))
        now = [max(0.0, 1 - math.exp(claimed - (2 * ups - n) * size)) for ups in range(n + 1)]
        later = [up * worth[ups + 1] + (1 - up) * worth[ups] for ups in range(n + 1)] if worth else now
        worth = [max(pair) for pair in zip(now, later, strict=True)]
    return up * worth[1] + (1 - up) * worth[0]
