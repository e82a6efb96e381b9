"""What must be right about every answer, in numbers: `python benchmarks/right.py [--smoke] [--only NAME]`.

Bars:
  meaning   random questions whose noiseless answer differs from the engine's own
  parquet   neighbouring Parquet sources by other writers of which one fails
  keys      memory and time of MAX by private keys that are not shown
  chain     whether the time of a chain of joins tells who is there
  tuned     errors after tuning over those before; no measure starves
"""

from __future__ import annotations

import argparse
import operator
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.rightness import chain, keys, meaning, parquet, tuned

if TYPE_CHECKING:
    from benchmarks.rightness import Bar

BARS = {
    "meaning": meaning.measured,
    "parquet": parquet.measured,
    "keys": keys.measured,
    "chain": chain.measured,
    "tuned": tuned.measured,
}
HOLDS = {"=": operator.eq, "<=": operator.le, ">=": operator.ge}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small, in seconds")
    parser.add_argument("--only", nargs="+", choices=BARS, default=list(BARS))
    given = parser.parse_args()
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name  # what remembers ledgers forgets these
        for each in given.only:
            began = time.monotonic()
            bars += BARS[each](Path(name) / each, given.smoke)
            print(f"{each}: {time.monotonic() - began:.0f} s", flush=True)
    return told(bars)


def told(bars: list[Bar]) -> int:
    """Print the bars; 1 if any is short."""
    short = 0
    for name, measured, op, target in bars:
        holds = HOLDS[op](measured, target)
        short += not holds
        print(f"BAR {name} {measured:.4g} {op} {target:g} {'ok' if holds else 'short'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
