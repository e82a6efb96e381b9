"""Random questions beside the engine's own answers to the same texts: none may differ on clean data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.meaning import Tally, explore

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rightness import Bar


def measured(_: Path, smoke: bool) -> list[Bar]:
    """As many questions as it takes to compare 20,000 numbers, about."""
    tally, differing = Tally(), 0
    for found in explore("right", 120 if smoke else 4_200, tally, each=60, shrink=not smoke):
        differing += 1
        print(found, flush=True)
    print(f"{tally.accepted} questions accepted, {tally.refused} refused, {tally.compared} numbers compared")
    return [
        ("meaning: questions that differ", differing, "=", 0),
        ("meaning: numbers compared", tally.compared, ">=", 300 if smoke else 20_000),
    ]
