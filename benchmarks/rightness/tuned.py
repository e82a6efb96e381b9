"""Caps that fit, already paid for, must not make an answer worse: over random policies, data and prices."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.curator.caps import ROWS, TOTALS
from sfumato.curator.intervals import Errors
from sfumato.curator.tuning import inserted, section
from sfumato.exact.secret import unseal
from sfumato.queries.cells import PARTS
from sfumato.queries.declared import Measured, TunedColumn, Tuning
from sfumato.queries.shown import KeyOf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.rightness import Bar
    from numpy.typing import NDArray

    from sfumato.curator.database import Database

SMALLEST = 1e-300  # an error of nothing: so that a quotient can be taken

QUESTIONS = (
    "SELECT AVG(x) FROM t",
    "SELECT AVG(x) FROM t WHERE y > 30",
    "SELECT g, AVG(x) FROM t GROUP BY g",
    "SELECT g, AVG(x) FROM t GROUP BY g HAVING COUNT(*) > 100",
    "SELECT AVG(x), COUNT(*) FROM t",
    "SELECT AVG(x), COUNT(x), SUM(x) FROM t",
    "SELECT AVG(x), AVG(y) FROM t",
    "SELECT AVG(x) - AVG(y) FROM t",
    "SELECT AVG(x) / AVG(y) FROM t",
    "SELECT SUM(x) / COUNT(*) FROM t",
    "SELECT SUM(x) FROM t",
    "SELECT g, SUM(x), COUNT(*) FROM t GROUP BY g",
    "SELECT VAR_POP(x), AVG(y) FROM t",
    "SELECT COUNT(DISTINCT p), AVG(x) FROM t",
    "SELECT COVAR_POP(x, y) / VAR_POP(x) FROM t",
)
PRICES = ("0.05", "0.1", "0.3", "1", "3")
POLICY = """
[source]
duckdb = "t.duckdb"
[budget]
epsilon = "1000"
[tables.t]
unit = "p"
rows_per_person = {cap}
[tables.t.columns]
p = "integer"
x = {{ type = "number", low = {low}, high = {high} }}
y = {{ type = "number", low = 0, high = 100 }}
g = {{ type = "text", keys = ["a", "b", "c"] }}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A question at a price: its predicted error with caps that fit, over that without."""

    sql: str
    price: str
    ratio: float
    least: float  # the smallest part of the price that a measure got, over an even share


def measured(_: Path, smoke: bool) -> list[Bar]:
    """The worst ratio of predicted errors: what an interval comes to if the noise happens to be 0."""
    found = sorted(cases(seed=1, worlds=3 if smoke else 14), key=lambda case: -case.ratio)
    for case in found[:3]:
        print(f"  {case.ratio:.3f} times the error without tuning: {case.sql} at {case.price}")
    middle = found[len(found) // 2].ratio
    print(f"{len(found)} cases: the middle one has {middle:.2f} times the error that it has without tuning")
    return [
        ("tuned over untuned predicted error", found[0].ratio, "<=", 1.1),
        ("even share over the smallest share", 1 / min(case.least for case in found), "<=", 10),
    ]


def cases(seed: int, worlds: int) -> Iterator[Case]:
    """Every question in so many random tables, at a random price; the same for the same seed."""
    dice = np.random.default_rng(seed)
    for _ in range(worlds):
        with tempfile.TemporaryDirectory() as folder:
            plain, tuned = world(Path(folder), dice)
            for sql in QUESTIONS:
                price = str(dice.choice(PRICES))
                yield case(plain, tuned, sql, price)


def case(plain: Database, tuned: Database, sql: str, price: str) -> Case:
    """The ratio is the geometric mean over all cells, since the price is split for their product."""
    before, after = errors(plain, sql, price), errors(tuned, sql, price)
    logs = [math.log(b) - math.log(a) for a, b in zip(before, after, strict=True) if math.isfinite(a)]
    steps = tuned.sql(sql, epsilon=price).query.steps
    least = min(float(step.bound().epsilon or 0) for step in steps) * len(steps) / float(price)
    return Case(sql, price, math.exp(sum(logs) / len(logs)) if logs else 0.0, least)


def errors(db: Database, sql: str, price: str) -> list[float]:
    """Half of what each interval comes to if the noise happens to be 0."""
    question = db.sql(sql, epsilon=price)
    vectors = unseal(db.source.run(db.source.compile(question.plan))).vectors
    law, found = Errors.of(question.plan, question.query), []
    cells = [measure.cells for measure in question.plan.measures]
    for output in question.plan.outputs:
        if isinstance(output.expression, KeyOf):
            continue
        reader = law.reader(output.expression, Fraction(1, 20))
        for group in range(question.plan.size):
            each = [v[group * n : (group + 1) * n] for v, n in zip(vectors, cells, strict=True)]
            low, high = reader(each)
            found.append(max((high - low) / 2, SMALLEST))
    return found


def world(folder: Path, dice: np.random.Generator) -> tuple[Database, Database]:
    """A random table whose owner declares what people have, or twice that; and the same after tuning."""
    most = int(dice.choice([1, 2, 4, 8]))
    people = np.repeat(np.arange(size := int(dice.integers(300, 5000))), dice.integers(1, most + 1, size))
    low = float(dice.choice([0, -100, 10]))
    high = low + float(dice.choice([1, 100, 10000]))
    x, y = values(dice, len(people), low, high), values(dice, len(people), 0, 100)
    g = np.array(["a", "b", "c"])[dice.choice(3, len(people), p=[0.6, 0.3, 0.1])]
    rows = pd.DataFrame({"p": people, "x": x, "y": y, "g": g})
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE t AS SELECT p::INTEGER AS p, x, y, g::VARCHAR AS g FROM rows")
    text = POLICY.format(cap=most * int(dice.choice([1, 2])), low=low, high=high)
    (folder / "plain.toml").write_text(text, encoding="utf-8")
    plain = sf.open(folder / "plain.toml")
    fitting = section("t", tuning(plain, rows, dice), [1])
    (folder / "tuned.toml").write_text(inserted(text, "t", fitting), encoding="utf-8")
    return plain, sf.open(folder / "tuned.toml")


def values(dice: np.random.Generator, count: int, low: float, high: float) -> NDArray[np.float64]:
    """A bell, anything alike, many small ones, the two bounds, or one and the same."""
    wide = high - low
    bell = dice.normal(low + wide * dice.uniform(0.2, 0.8), wide * dice.uniform(0.02, 0.2), count)
    small = low + dice.exponential(wide * dice.uniform(0.02, 0.2), count)
    ends = np.where(dice.random(count) < dice.uniform(0.05, 0.5), high, low)
    same = np.full(count, low + wide * dice.random())
    kinds = (bell, dice.uniform(low, high, count), small, ends, same)
    return np.clip(kinds[int(dice.integers(len(kinds)))], low, high)


def tuning(db: Database, rows: pd.DataFrame, dice: np.random.Generator) -> Tuning:
    """What `sfumato tune` releases about the table, with noise from the dice: a case can be repeated.

    A tenth of its price buys the centre.
    """
    epsilon = float(dice.choice([1, 5, 50]))
    table = db.policy.table("t")
    assert table is not None
    rows_per_person = table.rows_per_person or 1
    columns = []
    for column in table.columns:
        if column.name not in ("x", "y"):
            continue
        assert column.low is not None
        assert column.high is not None
        step = 2.0**-column.exponent
        scaled = np.floor(rows[column.name] / step)
        off = dice.laplace(0, float(column.high - column.low) * rows_per_person / (epsilon / 10) / len(rows))
        centre = int(np.clip(round(float(scaled.mean() + off / step)), scaled.min(), scaled.max()))
        totals, centred = (
            histogram(amounts.groupby(rows["p"]).sum().to_numpy(), TOTALS, epsilon, dice)
            for amounts in (scaled.abs(), (scaled - centre).abs())
        )
        columns.append(TunedColumn(column.name, centre * Fraction(step), column.exponent, totals, centred))
    people = histogram(rows.groupby("p").size().to_numpy().astype(np.float64), ROWS, epsilon, dice)
    return Tuning(people, tuple(columns))


def histogram(
    amounts: NDArray[np.float64], nodes: int, epsilon: float, dice: np.random.Generator
) -> Measured:
    """People by their amounts, each shared between two nodes, with noise: see docs/explanation/tuning.md."""
    found = np.zeros(nodes)
    for amount in amounts.tolist():
        octave = math.frexp(amount)[1] - 1 if amount >= 1 else -1
        upper = math.floor(PARTS * (amount / 2**octave - 1)) if octave >= 0 else 0
        found[octave + 1] += PARTS - upper
        found[octave + 2] += upper
    noise = dice.geometric(epsilon / PARTS, nodes) - dice.geometric(epsilon / PARTS, nodes)
    return Measured(Fraction(epsilon), tuple(int(cell) for cell in found + noise))
