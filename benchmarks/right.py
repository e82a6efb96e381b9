"""What must never happen, counted: `python benchmarks/right.py [--smoke]`.

Each bar is a function of its own that counts violations; every target is 0. With --smoke a part of each.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.parquets import one_sided, pairs

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Bar:
    """How often something happened that must not."""

    name: str
    found: int

    def __str__(self) -> str:
        return f"BAR {self.name} {self.found} = 0 {'short' if self.found else 'ok'}"


def parquet_neighbours(folder: Path, smoke: bool) -> Bar:
    """Neighbouring Parquet sources of other writers, of which a question fails on one side only."""
    tried = list(pairs())[:: 7 if smoke else 1]
    found = 0
    for number, pair in enumerate(tried):
        troubles = one_sided(pair, folder / str(number))
        found += bool(troubles)
        for told in troubles:
            print(f"  {told}")
    print(f"{len(tried)} pairs of Parquet sources")
    return Bar("parquet sources that fail on one side only", found)


BARS: tuple[Callable[[Path, bool], Bar], ...] = (parquet_neighbours,)


def main() -> int:
    smoke = "--smoke" in sys.argv[1:]
    found = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name  # what remembers ledgers forgets these
        for number, bar in enumerate(BARS):
            found.append(bar(Path(name) / f"bar-{number}", smoke))
            print(found[-1], flush=True)
    return 1 if any(bar.found for bar in found) else 0


if __name__ == "__main__":
    sys.exit(main())
