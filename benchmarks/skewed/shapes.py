"""Twelve tables that no rule was made for: who has how many rows, and of what, by a law of each.

They are scored once. Each has 20,000 people, places, an amount and a mark, and is asked the same seven
questions; what differs is the law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.skewed import Skewed, SkewedQuestion, load

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    from numpy.random import Generator
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

PEOPLE = 20_000
MOST = 20_000  # rows of a person


@dataclass(frozen=True, slots=True)
class Law:
    """How a table is made: rows of each person, then the place and the amount of each row."""

    name: str
    seed: int
    rows: Callable[[Generator], Floats]
    places: int = 8
    places_of: Callable[[Generator, Ints, Ints, int], Ints] | None = None  # by person of a row, and rows
    amount: Callable[[Generator, Ints, Ints], Floats] | None = None
    low: int = 0
    high: int = 200


def _amounts(chance: Generator, person: Ints, rows: Ints) -> Floats:
    del rows
    return chance.gamma(2.0, 15.0, len(person))


def _anywhere(chance: Generator, person: Ints, rows: Ints, places: int) -> Ints:
    """By a power law over places, whoever it is."""
    del rows
    weight = 1 / np.sqrt(np.arange(1, places + 1))
    return chance.choice(places, len(person), p=weight / weight.sum())


def _robots(chance: Generator) -> Floats:
    few = chance.poisson(3, PEOPLE) + 1
    many = chance.poisson(400, PEOPLE)
    return np.where(chance.random(PEOPLE) < 0.005, many, few).astype(float)


def _cut(chance: Generator) -> Floats:
    """A power law that an exponential one ends."""
    sizes = np.arange(1, 3001)
    weight = sizes**-1.2 * np.exp(-sizes / 200)
    return chance.choice(sizes, PEOPLE, p=weight / weight.sum()).astype(float)


def _daily(chance: Generator) -> Floats:
    days = chance.binomial(365, chance.beta(5, 1, PEOPLE))
    return np.where(chance.random(PEOPLE) < 0.2, days, chance.geometric(0.5, PEOPLE)).astype(float)


def _log_logistic(chance: Generator, scale: float, shape: float) -> Floats:
    at = chance.random(PEOPLE)
    return scale * (at / (1 - at)) ** (1 / shape)


def _dearer(chance: Generator, person: Ints, rows: Ints) -> Floats:
    """Whoever has more rows spends more on each."""
    return chance.gamma(2.0, 6.0 * np.sqrt(rows[person]), len(person))


def _cheaper(chance: Generator, person: Ints, rows: Ints) -> Floats:
    return chance.gamma(2.0, 40.0 / np.sqrt(rows[person]), len(person))


def _refunds(chance: Generator, person: Ints, rows: Ints) -> Floats:
    """Of both signs, so that most of a sum goes away."""
    del rows
    return chance.normal(4, 40, len(person))


def _at_home(chance: Generator, person: Ints, rows: Ints, places: int) -> Ints:
    """One place a person, by chance."""
    del rows
    return chance.integers(0, places, PEOPLE)[person]


def _apart(chance: Generator, person: Ints, rows: Ints, places: int) -> Ints:
    """One place a person; those with many rows live in the last two."""
    home = chance.integers(0, places, PEOPLE)
    heavy = rows > np.quantile(rows, 0.98)
    return np.where(heavy, places - 1 - home % 2, home)[person]


LAWS = (
    Law("negative_binomial", 101, lambda c: c.negative_binomial(0.3, 0.3 / 8.3, PEOPLE).astype(float) + 1),
    Law("robots", 102, _robots),
    Law("log_logistic", 103, partial(_log_logistic, scale=3.0, shape=1.3)),
    Law("halves", 104, lambda c: np.where(c.random(PEOPLE) < 0.5, 1.0, 30.0)),
    Law("cut_power", 105, _cut),
    Law("stretched", 106, lambda c: 2.0 * c.weibull(0.4, PEOPLE).astype(float) + 1),
    Law("daily", 107, _daily, places_of=_at_home),
    Law("dear_regulars", 108, lambda c: c.geometric(0.1, PEOPLE).astype(float), amount=_dearer),
    Law("cheap_regulars", 109, lambda c: c.pareto(1.4, PEOPLE).astype(float) + 1, amount=_cheaper),
    Law("two_towns", 110, lambda c: c.lognormal(0.7, 1.3, PEOPLE), places_of=_apart),
    Law("many_places", 111, lambda c: c.lognormal(1.0, 1.1, PEOPLE), places=200),
    Law("refunds", 112, lambda c: c.zipf(2.2, PEOPLE).astype(float), amount=_refunds, low=-200),
)


def make(law: Law, connection: duckdb.DuckDBPyConnection) -> None:
    """The rows of a law."""
    chance = np.random.default_rng(law.seed)
    rows = np.clip(np.round(law.rows(chance)), 1, MOST).astype(np.int64)
    person = np.repeat(np.arange(PEOPLE), rows)
    places = (law.places_of or _anywhere)(chance, person, rows, law.places)
    amount = np.clip(np.round((law.amount or _amounts)(chance, person, rows), 2), law.low, law.high)
    mark = chance.random(len(person)) < 0.2
    load(connection, "visits", person=person, place=places, amount=amount, mark=mark)


QUESTIONS = (
    SkewedQuestion("rows", "total", "SELECT COUNT(*) AS v FROM visits"),
    SkewedQuestion("rows by place", "total", "SELECT place AS k, COUNT(*) AS v FROM visits GROUP BY k"),
    SkewedQuestion("sum by place", "total", "SELECT place AS k, SUM(amount) AS v FROM visits GROUP BY k"),
    SkewedQuestion("average by place", "ratio", "SELECT place AS k, AVG(amount) AS v FROM visits GROUP BY k"),
    SkewedQuestion(
        "marked and dear",
        "total",
        "SELECT COUNT(*) AS v FROM visits WHERE mark AND amount > 40 AND place < 2",
    ),
    SkewedQuestion(
        "share marked",
        "ratio",
        "SELECT place AS k, COUNT(*) FILTER (WHERE mark) / COUNT(*) AS v FROM visits GROUP BY k",
    ),
    SkewedQuestion(
        "people by place", "total", "SELECT place AS k, COUNT(DISTINCT person) AS v FROM visits GROUP BY k"
    ),
)

SHAPES = tuple(
    Skewed(
        law.name,
        partial(make, law),
        f"""[tables.visits]
unit = "person"
rows_per_person = {{cap}}
[tables.visits.columns]
person = {{ type = "integer" }}
place = {{ type = "integer", low = 0, high = {law.places - 1} }}
amount = {{ type = "number", low = {law.low}, high = {law.high} }}
mark = {{ type = "boolean" }}
""".replace("{{cap}}", "{cap}"),
        QUESTIONS,
    )
    for law in LAWS
)
