"""What is run and drawn for what was paid, all of it sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.release import write_key
from sfumato.mechanisms import Mechanism, Partition
from sfumato.sources.running import all_of_them

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Draw
    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.path import Job
    from sfumato.exact.coins import Coins
    from sfumato.exact.secret import Secret
    from sfumato.sources.answers import Answer, Compiled
    from sfumato.sources.halt import Halt
    from sfumato.sources.running import Choose
    from sfumato.sources.source import Source

    Runs = dict[tuple[object, ...], Secret[Answer]]

PART = 1 << 20  # cells for which noise is drawn at once


def job(source: Source, parts: Sequence[tuple[Compiled, Calibration]], coins: Coins) -> Job:
    """All vectors of all parts, one after the other; what is asked twice is run once, and drawn twice."""

    def done(halt: Halt | None) -> Secret[Draw]:
        runs: Runs = {}
        first, *rest = [drawn(source, compiled, query, coins, runs, halt) for compiled, query in parts]
        for each in rest:
            first = first.beside(each).map(lambda pair: pair[0] + pair[1])
        return first

    return done


def drawn(
    source: Source, compiled: Compiled, query: Calibration, coins: Coins, runs: Runs, halt: Halt | None = None
) -> Secret[Draw]:
    """Run it and add the noise. `runs` holds what was run before for the same charge.

    Private groups are chosen for each question by itself, so what is measured is run for each.
    """
    plan = compiled.plan
    if plan.private_keys:
        return source.run(compiled, chooser(query, coins), halt).map(lambda each: draw(query, each, coins))
    measured = (plan.relation, plan.keys, plan.measures)
    if measured not in runs:
        runs[measured] = source.run(compiled, halt=halt)
    return runs[measured].map(lambda answer: draw(query, answer, coins))


def chooser(query: Calibration, coins: Coins) -> Choose:
    """Which private groups are shown, by how many units count for each; of public groups nobody asks."""
    rules = [step.mechanism for step in query.steps if isinstance(step.mechanism, Partition)]
    return all_of_them if not rules else lambda counts: rules[0].law(counts).draw(coins)


def draw(query: Calibration, answer: Answer, coins: Coins) -> Draw:
    """A vector for every measure, of the groups that are shown; where they are private, first their names.

    Noise and choices of different groups are independent, so groups that are drawn one after the other have
    the law of all of them together; no more than `PART` cells are held at once.
    """
    found: list[tuple[int | str, ...]] = []
    for step, vector in zip(query.steps, answer.vectors, strict=True):
        mechanism = step.mechanism
        if isinstance(mechanism, Partition):
            found.append(tuple(map(write_key, answer.groups)))
            continue
        assert isinstance(mechanism, Mechanism)
        cells = len(vector) // max(len(answer.groups), 1)
        size = cells * max(1, PART // max(cells, 1))
        parts = (vector[start : start + size] for start in range(0, len(vector), max(size, 1)))
        found.append(tuple(y for part in parts for y in mechanism.law(part).draw(coins)))
    return tuple(found)
