"""What is paid for and drawn together: the plans that are run, and the steps of noise that go with each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.curator.calibrate import Query
from sfumato.curator.release import write_key
from sfumato.mechanisms import Mechanism, Partition
from sfumato.sources.running import all_of_them

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Draw, Receipt
    from sfumato.exact.coins import Coins
    from sfumato.mechanisms import Guarantee, Spend
    from sfumato.queries.plan import Plan
    from sfumato.sources.answers import Answer
    from sfumato.sources.running import Choose

PART = 1 << 20  # cells for which noise is drawn at once


@dataclass(frozen=True, slots=True)
class Paid:
    """What was charged for questions, and what is run and drawn for each of them."""

    receipt: Receipt
    parts: tuple[tuple[Plan, Query], ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored release: the plans by which its integers are read, and the steps by which they were drawn."""

    receipt: Receipt
    parts: tuple[tuple[Plan, Query], ...]
    drawn: Draw


def parted(
    plans: Sequence[Plan], spend: Spend, prices: Sequence[Guarantee]
) -> tuple[tuple[Plan, Query], ...]:
    """Steps that were charged together, each with the plan that they are for."""
    parts, start = [], 0
    for plan, price in zip(plans, prices, strict=True):
        end = start + len(plan.measures)
        parts.append((plan, Query(spend[start:end], price)))
        start = end
    return tuple(parts)


def chooser(query: Query, coins: Coins) -> Choose:
    """Which private groups are shown, by how many units count for each; of public groups nobody asks."""
    rules = [step.mechanism for step in query.steps if isinstance(step.mechanism, Partition)]
    return all_of_them if not rules else lambda counts: rules[0].law(counts).draw(coins)


def draw(query: Query, answer: Answer, coins: Coins) -> Draw:
    """A vector for every measure, of the groups that are shown; where they are private, first their names.

    Noise and choices of different groups are independent, so groups that are drawn one after the other have
    the law of all of them together; no more than `PART` cells are held at once.
    """
    drawn: list[tuple[int | str, ...]] = []
    for step, vector in zip(query.steps, answer.vectors, strict=True):
        mechanism = step.mechanism
        if isinstance(mechanism, Partition):
            drawn.append(tuple(map(write_key, answer.groups)))
            continue
        assert isinstance(mechanism, Mechanism)
        cells = len(vector) // max(len(answer.groups), 1)
        size = cells * max(1, PART // max(cells, 1))
        parts = (vector[start : start + size] for start in range(0, len(vector), max(size, 1)))
        drawn.append(tuple(y for part in parts for y in mechanism.law(part).draw(coins)))
    return tuple(drawn)
