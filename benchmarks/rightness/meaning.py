"""Random questions beside the engine's own answers to the same texts: none may differ on clean data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.meaning import Tally, explore
from tests.places import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rightness import Bar


def measured(_: Path, smoke: bool) -> list[Bar]:
    """As many questions as it takes to compare 20,000 numbers in DuckDB files, about; fewer elsewhere."""
    first, *others = KINDS
    bars = measured_in(first, "right", 120 if smoke else 4_200, 300 if smoke else 20_000, each=60)
    for kind in others:
        count, least = (20, 20) if smoke else (600, 2_000)
        bars += measured_in(kind, f"right {kind}", count, least, each=20)
    return bars


def measured_in(kind: str, seed: str, count: int, least: int, *, each: int) -> list[Bar]:
    """So many questions about tables in places of one kind; `each` are about one policy."""
    tally, differing = Tally(), 0
    for found in explore(seed, count, tally, kind=kind, each=each):
        differing += 1
        print(found, flush=True)
    print(
        f"{kind}: {tally.accepted} questions accepted, {tally.refused} refused,"
        f" {tally.compared} numbers and {tally.intervals} intervals compared, {differing} questions differ",
        flush=True,
    )
    return [
        (f"meaning: questions that differ ({kind})", differing, "=", 0),
        (f"meaning: numbers compared ({kind})", tally.compared, ">=", least),
    ]
