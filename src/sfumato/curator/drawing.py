"""What is paid for and drawn together: the plans that are run, and the steps of noise that go with each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.curator.calibrate import Query
from sfumato.curator.release import write_key
from sfumato.mechanisms import Mechanism, Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Draw, Receipt
    from sfumato.exact.coins import Coins
    from sfumato.mechanisms import Guarantee, Spend
    from sfumato.queries.plan import Plan
    from sfumato.sources.printing import Answer


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


def draw(query: Query, answer: Answer, coins: Coins) -> Draw:
    """A vector for every measure; where the groups are private, first which of them are shown."""
    shown = range(len(answer.groups))
    drawn: list[tuple[int | str, ...]] = []
    for step, vector in zip(query.steps, answer.vectors, strict=True):
        mechanism = step.mechanism
        if isinstance(mechanism, Partition):
            chosen = mechanism.law(vector).draw(coins)
            shown = [g for g, is_shown in enumerate(chosen) if is_shown]  # type: ignore[assignment]
            drawn.append(tuple(write_key(answer.groups[g]) for g in shown))
            continue
        assert isinstance(mechanism, Mechanism)
        cells = len(vector) // max(len(answer.groups), 1)
        seen = [vector[g * cells : (g + 1) * cells] for g in shown]
        drawn.append(mechanism.law(tuple(itertools.chain.from_iterable(seen))).draw(coins))
    return tuple(drawn)
