"""Neighbouring Parquet sources that other programs wrote: none may fail on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.parquets import one_sided, pairs

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rightness import Bar


def measured(folder: Path, smoke: bool) -> list[Bar]:
    """Neighbouring Parquet sources of other writers, of which a question fails on one side only."""
    tried = list(pairs())[:: 7 if smoke else 1]
    found = 0
    for number, pair in enumerate(tried):
        troubles = one_sided(pair, folder / str(number))
        found += bool(troubles)
        for told in troubles:
            print(f"  {told}")
    print(f"{len(tried)} pairs of Parquet sources")
    return [("parquet sources that fail on one side only", found, "=", 0)]
