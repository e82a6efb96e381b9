"""When an answer leaves: at a time computed from public facts.

How long the engine takes depends on the data, so the moment of an answer is an output (law 3). An answer
therefore leaves at a deadline: computed from the plan and from the sizes that the policy declares, counted
from the charge. One that is not ready leaves at twice that time, or four times, and so on.

Not covered by the guarantee: *that* a deadline was missed, and that an engine failed. Each tells at most
which of a few moments it was; each is written down before the answer leaves, and after a number of them that
the owner sets, the analyst must wait until the owner has looked.

The deadline is generous, because a missed one costs more than a late answer: BASE for everything, GROUP for
every group, and ROW for every row of every table that is read, times the work that the shape of the plan asks
for. It is at least LEAST, which is many times what a small question takes: others who keep the processors
busy must not make it late. It is then rounded up to a power of two, so that there are few different ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.queries.relations import joins_of

if TYPE_CHECKING:
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy

LEAST = 0.5  # seconds
BASE = 0.03  # seconds for a question that reads nothing
GROUP = 2e-5  # seconds for a public group
ROW = 2.5e-7  # seconds for a row
UNKNOWN = 1_000_000  # rows of a table of which the policy does not say how many there are


def deadline(plan: Plan, policy: Policy, pace: float = 1.0) -> float:
    """Seconds from the charge to the answer.

    `pace` is how much slower than usual this machine is taken to be.
    """
    sizes = dict(policy.sizes)
    rows = sum(size_class(sizes.get(name, UNKNOWN)) for name in plan.tables)
    joins = len(list(joins_of(plan.relation)))
    work = (1 + joins) * (1 + len(plan.measures) / 2) * (1 + len(plan.keys) / 2)
    return rounded(pace * max(LEAST, BASE + GROUP * plan.size + ROW * rows * work))


def size_class(rows: int) -> int:
    """The power of ten that is not below.

    >>> size_class(1), size_class(1000), size_class(1001)
    (1, 1000, 10000)
    """
    return int(10 ** math.ceil(math.log10(rows) - 1e-12)) if rows > 1 else 1


def rounded(seconds: float) -> float:
    """The power of two (of seconds) that is not below.

    >>> rounded(0.3)
    0.5
    """
    return float(2.0 ** math.ceil(math.log2(seconds)))


def doublings(took: float, due: float) -> int:
    """How often a deadline has to be doubled for something that took so long.

    >>> doublings(0.4, 0.5), doublings(0.5, 0.5), doublings(0.6, 0.5), doublings(2.1, 0.5)
    (0, 0, 1, 3)
    """
    return max(0, math.ceil(math.log2(took / due))) if took > 0 else 0
