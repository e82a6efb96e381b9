"""What the moment of an answer tells: two databases that differ in one person, asked through a real server.

One of them has a person with eight million rows. Without deadlines the difference shows; with them it
must not. The bar is how well somebody who times one answer can guess which database it was; 0.5 is not at
all.

    .venv/bin/python benchmarks/deadlines.py [--smoke]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))  # the server for tests
from benchmarks.server import Bar, told
from tests.serving import Server, hospital, serving

HEAVY = 8_000_000  # rows of one person
ASKED = 25  # questions to each database


def built(folder: Path, heavy: int) -> Path:
    """A hospital in which one person has so many rows."""
    policy = hospital(folder)
    policy.write_text(policy.read_text().replace("rows = 6_000", "rows = 1_000_000"))
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute(
            "INSERT INTO visits SELECT 999999, 'surgery', DATE '2025-01-01', 999, NULL "
            f"FROM range(CAST({heavy} AS BIGINT))"
        )
    return policy


def timed(server: Server, token: str, number: int) -> float:
    """Seconds of one new question."""
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {number} AND ward = 'surgery'"
    began = time.perf_counter()
    status, _ = server.release(token, sql, "0.01")
    assert status == 200
    return time.perf_counter() - began


def guessed(light: list[float], heavy: list[float]) -> float:
    """How often the slower of two answers, one from each database, is that of the heavy one."""
    wins = sum((a < b) + (a == b) / 2 for a in light for b in heavy)
    share = wins / (len(light) * len(heavy))
    return max(share, 1 - share)


def measured(folder: Path, heavy: int, count: int, *options: str) -> tuple[list[float], list[float]]:
    """Times of questions to both databases, in turns."""
    policies = [built(folder / name, rows) for name, rows in (("light", 0), ("heavy", heavy))]
    found: tuple[list[float], list[float]] = ([], [])
    with (
        serving(folder / "light", *options, policy=policies[0]) as light,
        serving(folder / "heavy", *options, policy=policies[1]) as heavier,
    ):
        tokens = [each.let_in("ana") for each in (light, heavier)]
        for server, token in zip((light, heavier), tokens, strict=True):
            timed(server, token, 0)
        for number in range(1, count + 1):
            for times, server, token in zip(found, (light, heavier), tokens, strict=True):
                times.append(timed(server, token, number))
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="a few seconds: only that it runs")
    smoke = parser.parse_args().smoke
    heavy, count = (200_000, 3) if smoke else (HEAVY, ASKED)
    with tempfile.TemporaryDirectory() as folder:
        open_light, open_heavy = measured(Path(folder) / "open", heavy, count, "--no-deadlines")
        light, heavier = measured(Path(folder) / "kept", heavy, count)
    rows = (("without deadlines", open_light, open_heavy), ("with deadlines", light, heavier))
    for name, a, b in rows:
        medians = " and ".join(f"{1000 * statistics.median(times):8.2f} ms" for times in (a, b))
        print(f"{name:18} median {medians}, guessed right {guessed(a, b):.2f}")
    least = min(light + heavier)
    bars: list[Bar] = [
        ("earliest_answer_in_seconds", least, ">=", 0.5),
        ("guessed_without_deadlines", guessed(open_light, open_heavy), ">=", 0.5 if smoke else 0.99),
        # with 25 answers of each, pure chance stays below 0.79 in all but one of a thousand runs
        ("guessed_with_deadlines", guessed(light, heavier), "<=", 1.0 if smoke else 0.79),
    ]
    return told(bars, smoke=smoke)


if __name__ == "__main__":
    sys.exit(main())
