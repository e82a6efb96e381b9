"""Quantiles and their intervals, as they are bought: `python benchmarks/quantiles.py [--smoke]`.

Beside them what was bought before: a value for two thirds of the price and two ends for a sixth each, all
three chosen by rank among all cells. One row a person, one group, drawn anew each time. Of each are shown

  rows    how many rows the value lies from its rank, in the mean; MAX: how many rows lie above it
  width   the interval in parts of the range, in the median
  held    how often it holds the quantile without noise
  out     how often MAX lies outside of the data

Both guarantees are the same epsilon; the interval is one for 99%. Bars:
  value     medians and p90 lie no farther off than before, MAX at most 0.75 times as far, all lines together
  interval  at most 0.8 times as wide as before, in the geometric mean
  held      in at least 95% of all draws, on each line; false alarms: once in 10^8 lines that hold in 99%
  out       at most 2% on each line

With --smoke a sixth of the lines, of fewer draws: they hold in 90%, and medians may be 1.5 times as far off.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.calibrate import calibrate
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms import Distance, Distances, Guarantee, Mechanism, Quantiles
from sfumato.queries.cells import Clamp
from sfumato.queries.expressions import Domain, Field
from sfumato.queries.measures import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ADULT = Path(__file__).parent / "skewed" / "adult.csv.gz"
RANKS = {"MEDIAN": Fraction(1, 2), "p90": Fraction(9, 10), "MAX": Fraction(1)}
DRAWS, FEW = 400, 100
FINE = 1 << 16  # cells of what has no steps of its own
ANY = Field("t.x", Domain("integer", Fraction(0), Fraction(FINE)))
COINS = SystemCoins()


@dataclass(frozen=True, slots=True)
class Data:
    """Cells from which rows are drawn."""

    name: str
    cells: int
    ages: tuple[int, ...] = ()

    def group(self, rows: int, made: np.random.Generator) -> NDArray[np.int64]:
        """How many of so many rows fall into each cell."""
        if self.ages:
            drawn = made.choice(np.array(self.ages), rows)
        elif self.name == "normal":
            drawn = made.normal(50, 10, rows) / 100 * self.cells
        else:
            drawn = made.lognormal(3, 1, rows) / 1000 * self.cells
        inside = np.clip(drawn.astype(np.int64), 0, self.cells - 1)
        return np.bincount(inside, minlength=self.cells).astype(np.int64)


def now(rank: Fraction, cells: int, epsilon: str) -> Mechanism[tuple[int, ...], tuple[int, ...]]:
    """What is bought for this price."""
    one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(2)))
    spread = Spread(ANY, Clamp(Fraction(0), Fraction(cells - 1), 0), (rank,), None)
    (step,) = calibrate((spread,), (one,), Guarantee.parse(epsilon)).steps
    assert isinstance(step.mechanism, Mechanism)
    return step.mechanism


def before(rank: Fraction, cells: int, epsilon: str) -> Mechanism[tuple[int, ...], tuple[int, ...]]:
    """What was bought for it."""
    worst = 2 * max(rank, 1 - rank) / Fraction(epsilon)
    value, end = worst * Fraction(3, 2), worst * 6
    inward = Fraction(math.ceil(float(value) * (math.log(cells) + 3)))
    reach = Fraction(math.ceil(float(end) * math.log(cells * 100)) + 1)
    middle = inward if rank == 0 else -inward if rank == 1 else Fraction(0)
    return Quantiles(cells=cells, targets=((rank, middle, value), (rank, -reach, end), (rank, reach, end)))


@dataclass(frozen=True, slots=True)
class Found:
    """One half of a line."""

    rows: float
    width: float
    held: float
    out: float
    name: str

    def __str__(self) -> str:
        out = f"{self.out:.1%}" if self.name == "MAX" else ""
        return f"{self.rows:6.1f} {self.width:6.1%} {self.held:6.1%} {out:>5}"


def measured(
    mechanism: Mechanism[tuple[int, ...], tuple[int, ...]], name: str, groups: list[NDArray[np.int64]]
) -> Found:
    """What is drawn from each of these groups."""
    rank, off, widths, held, out = RANKS[name], [], [], 0, 0
    for group in groups:
        ends = np.cumsum(group)
        wanted = float(rank) * int(ends[-1])
        true = int(np.searchsorted(ends, wanted))
        value, *drawn = mechanism.law(tuple(group.tolist())).draw(COINS)
        low, high = min(value, *drawn), max(value, *drawn)
        off.append(max(0.0, int(ends[value] - group[value]) - wanted, wanted - int(ends[value])))
        widths.append((high - low) / (len(group) - 1))
        held += low <= true <= high
        out += rank == 1 and value > true
    count = len(groups)
    return Found(float(np.mean(off)), float(np.median(widths)), held / count, out / count, name)


def kinds() -> Iterator[Data]:
    yield Data("normal", FINE)
    yield Data("log-normal", FINE)
    with gzip.open(ADULT, "rt", encoding="utf-8") as file:
        yield Data("ages", 121, tuple(int(row["age"]) for row in csv.DictReader(file)))


def bars(lines: list[tuple[Found, Found]], farthest: float, least: float) -> list[str]:
    """What was missed."""
    missed = []
    for name, most in (("MEDIAN", farthest), ("p90", farthest), ("MAX", 0.75)):
        before_, now_ = (sum(line[i].rows for line in lines if line[i].name == name) for i in (0, 1))
        print(f"{name}: {now_ / before_:.2f} times as many rows off")
        missed += [f"value of {name}"] if now_ > most * before_ else []
    finest = 1 / FINE  # both may be one cell
    ratios = [math.log((new.width + finest) / (old.width + finest)) for old, new in lines]
    width = math.exp(sum(ratios) / len(ratios))
    print(f"intervals: {width:.2f} times as wide")
    missed += ["interval"] if width > 0.8 else []
    missed += ["held"] if min(new.held for _, new in lines) < least else []
    return missed + (["out"] if max(new.out for _, new in lines) > 0.02 else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    made, lines = np.random.default_rng(1), []
    head = "  rows  width   held   out"
    print(f"{'':33} {'before':>26}   {'now':>26}\n{'':33} {head}   {head}")
    for data in kinds():
        for rows in (3000,) if smoke else (300, 3000, 30000):
            for epsilon in ("1",) if smoke else ("0.1", "1"):
                groups = [data.group(rows, made) for _ in range(FEW if smoke else DRAWS)]
                for name, rank in RANKS.items():
                    old, new = (
                        measured(kind(rank, data.cells, epsilon), name, groups) for kind in (before, now)
                    )
                    lines.append((old, new))
                    print(f"{data.name:10} {rows:6} {epsilon:>4} {name:10} {old}   {new}", flush=True)
    if missed := bars(lines, *((1.5, 0.9) if smoke else (1.0, 0.95))):
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
