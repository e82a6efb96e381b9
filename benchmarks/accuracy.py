"""Errors on skewed tables: `python benchmarks/accuracy.py [--smoke] [--runs N] [--only shop taxi ...]`.

`--jobs N` tables are measured at a time, each in a process of its own. `--save FILE` adds what was found to a
file, a line of JSON for every question and total, and `--load FILE ...` says what saved lines come to without
asking anything: a run may be made in pieces, by tables or by runs. `--peers N` is how often peers are asked,
and `--runs 0` asks them alone.

Every table is asked its questions through the product, with `[measure] share = "10%"` and without; each of
twelve questions gets a twelfth of what is left of the total. The measuring stick is an oracle: the same
measure under the cap that is best in hindsight, at a whole twelfth, for which it pays nothing. Nobody can do
that. OpenDP and Qrlew, where caps are set by hand, get the same: see `peers_skewed`.

All of it goes through the product, and each run opens a ledger of its own; but the data do not change, so
what runs have in common is done once: the file is opened, each plan is printed and each query is run.

An error is the median over groups of |release - truth| / |truth|, its mean is taken over all runs, and a
ratio is that mean over the oracle's. Bars:
  shop_N       median and worst ratio of the shop's twelve at total N
  unseen_N     median, 90% and worst ratio of counts and sums on the twelve tables of `skewed.shapes`
  ratios_N     median ratio of averages and shares there
  worse        questions that are worse than under the default cap by over 10%; and by how many points at most
  taxi_E       error in percent of the filtered count of the taxi table at epsilon E
  covered      intervals at 95% that hold the truth: of counts and sums, and of averages and shares
  wide         half an interval over the error, in the median over questions
  plan_N       the worst error of the questions of a table as `db.plan` divides the same price, over that of
               an even split: the mean of shop and taxi
  peers_N      questions of those that a peer answers where the error is at most 1.1 times the better peer's
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.peers_skewed import PEERS, Peered, peered
from benchmarks.skewed.shapes import SHAPES
from benchmarks.skewed.shop import ADULT_CENSUS, SHOP, TAXI

import sfumato as sf
from sfumato.curator import database
from sfumato.curator.drawing import draw
from sfumato.curator.intervals import Errors
from sfumato.curator.question import planned
from sfumato.curator.release import Cell
from sfumato.errors import SfumatoError
from sfumato.exact.coins import SystemCoins
from sfumato.exact.secret import unseal
from sfumato.mechanisms import Additive, Guarantee
from sfumato.queries.measures import Sum
from sfumato.queries.shown import Arithmetic, Expression, Mean, Number, Released, Weighted
from sfumato.queries.statement import read
from sfumato.sources.opened import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.skewed import Skewed, SkewedQuestion
    from numpy.typing import NDArray

    from sfumato.curator.database import Database
    from sfumato.queries.policy import Policy

    Truth = dict[tuple[str, ...], float]
    Bar = tuple[str, float, str, float]
    Floats = NDArray[np.float64]

QUESTIONS = 12  # among which a total is divided
SHARE = 10  # percent of it, for measuring
CAPS = tuple(sorted({int(x * 2**k) for k in range(14) for x in (1, 1.5)}))
TOTALS = ("3", "1")
DRAWS = 120  # of noise, for each plan of the oracle
FILTERED_BARS = {"1": 2.0, "0.25": 4.0}
OF_FLOATS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
OPERATORS = {"<=": float.__le__, ">=": float.__ge__}
WORLDS = {each.name: each for each in (SHOP, TAXI, ADULT_CENSUS, *SHAPES)}
SLOWEST = ("many_places", "shop", "taxi")  # begun first, so that no process is left with them at the end
PLANNED = {"planned shop": "shop", "planned taxi": "taxi"}  # tables whose questions are planned together
PLAN_BARS = {"3": 0.65, "1": 0.75}
FILTERED = "filtered"  # the table of one question, at prices of its own
MEMORY = Path("/dev/shm")  # where ledgers need not wait for a disk, if there is such a place
PRINTED = 1000  # plans that are remembered as they were printed


class Remembered:
    """A source that does everything once: the data do not change, only the noise does."""

    def __init__(self, source: Any) -> None:
        self.source, self.answers, self.is_checked = source, dict[Any, Any](), False
        self.compile = functools.lru_cache(PRINTED)(source.compile)
        self.scales = functools.cache(source.scales)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def check(self, policy: Policy) -> None:
        if not self.is_checked:  # policies of a table differ in caps and totals alone
            self.source.check(policy)
            self.is_checked = True

    def run(self, compiled: Any, choose: Any = None, halt: Any = None) -> Any:
        del halt
        if compiled.plan.private_keys:
            return self.source.run(compiled, choose)
        if compiled.texts not in self.answers:
            self.answers[compiled.texts] = self.source.run(compiled)
        return self.answers[compiled.texts]


@dataclass
class Scored:
    """What became of one question."""

    question: SkewedQuestion
    errors: list[float] = field(default_factory=list)
    held: int = 0
    cells: int = 0
    halves: list[float] = field(default_factory=list)

    @property
    def error(self) -> float:
        return statistics.mean(self.errors)

    @property
    def covered(self) -> float:
        return self.held / max(self.cells, 1)

    @property
    def width(self) -> float:
        return statistics.median(self.halves) / max(statistics.median(self.errors), 1e-12)


@dataclass
class World:
    """One table, its truth, and where it lies."""

    skewed: Skewed
    folder: Path
    source: Remembered | None = None
    truths: dict[str, Truth] = field(default_factory=dict)
    shown: dict[str, Truth] = field(default_factory=dict)  # of the groups that are released
    capped: dict[tuple[str, int], Database] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with duckdb.connect(str(self.data)) as connection:
            self.skewed.make(connection)
            for each in self.skewed.questions:
                self.truths[each.name] = truth(connection, each.sql)

    @property
    def data(self) -> Path:
        return self.folder / f"{self.skewed.name}.duckdb"

    def remembered(self, policy: Policy) -> Remembered:
        """Its source, which is opened once."""
        if self.source is None:
            self.source = Remembered(source_of(policy))
        return self.source

    def opened(self, folder: Path, total: str, cap: int = 10, share: int = 0) -> Database:
        """The database with a ledger of its own: each run is a world in which nothing was asked before."""
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        text = self.skewed.policy(total, cap).replace(f"{self.skewed.name}.duckdb", str(self.data))
        measure = f'[measure]\nshare = "{share}%"\n' if share else ""
        (folder / "policy.toml").write_text(measure + text.replace("name =", "# name =", 1), encoding="utf-8")
        with patch.object(database, "source_of", self.remembered):
            return sf.open(folder / "policy.toml")

    def under(self, total: str, cap: int) -> Database:
        """The database under a cap, for the oracle, which charges nothing."""
        if (total, cap) not in self.capped:
            (folder := self.folder / f"{total}-{cap}").mkdir()
            self.capped[total, cap] = self.opened(folder, total, cap=cap)
        return self.capped[total, cap]

    def close(self) -> None:
        """Let go of the file."""
        self.capped.clear()
        if self.source is not None:
            self.source.close()

    def asked(self, total: str, runs: int, share: int) -> dict[str, Scored]:
        """All questions, in worlds of their own."""
        found = {each.name: Scored(each) for each in self.skewed.questions}
        price = Fraction(total) * (100 - share) / 100 / QUESTIONS
        for _ in range(runs):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                db = self.opened(Path(folder), total, share=share)
                for each in self.skewed.questions:
                    rows = db.sql(each.sql, epsilon=f"{float(price):.9f}").release().exact()
                    self.shown[each.name] = score(found[each.name], rows, self.truths[each.name])
        return found

    def planned(self, total: str, runs: int) -> dict[str, Scored]:
        """All questions as one plan, which costs what they cost together in an even split."""
        found = {each.name: Scored(each) for each in self.skewed.questions}
        price = Fraction(total) * (100 - SHARE) / 100 / QUESTIONS * len(self.skewed.questions)
        for _ in range(runs):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                db = self.opened(Path(folder), total, share=SHARE)
                asked = [each.sql for each in self.skewed.questions]
                releases = db.plan(asked, epsilon=f"{float(price):.9f}").release()
                for each, release in zip(self.skewed.questions, releases, strict=True):
                    score(found[each.name], release.exact(), self.truths[each.name])
        return found

    def oracle(self, question: SkewedQuestion, total: str, draws: int) -> float:
        """The error under the best cap in hindsight."""
        best, seen = float("inf"), set()
        price = Guarantee.read(epsilon=f"{float(Fraction(total) / QUESTIONS):.9f}")
        step = self.typical
        for cap in CAPS:
            db = self.under(total, cap)

            def measuring(*given: Any, db: Database = db, cap: int = cap) -> Any:
                return tuple(
                    replace(m, rows=10**6, limit=max(1, int(cap * step / m.clamp.step)))
                    if isinstance(m, Sum)
                    else m
                    for m in db.measuring(*given)
                )

            plan = read(question.sql).plan(db.policy, measuring)
            if (name := f"{plan.measures} {plan.relation}") in seen:
                continue
            seen.add(name)
            asked = planned(db, question.sql, plan, price)
            answer = unseal(db.source.run(asked.compiled))
            best = min(best, self.noisy(question, plan, asked.query, answer, draws))
        return best

    @property
    def typical(self) -> Fraction:
        """About what a row of it adds to a sum: what caps of sums are counted in."""
        return Fraction(50)

    def noisy(self, question: SkewedQuestion, plan: Any, query: Any, answer: Any, draws: int) -> float:
        """The mean error of one plan."""
        errors = Errors.of(plan, query)
        truths = self.truths[question.name]
        places = [(g, truths[key]) for g, key in enumerate(_texts(answer.groups)) if key in truths]
        shown = next(each.expression for each in plan.outputs if each.name == "v")
        if all(isinstance(step.mechanism, Additive) for step in query.steps):
            drawn = _drawn(query, answer, draws)
            values = _value(errors, shown, drawn)
            if values is not None:
                exact = errors.value(shown, [list(map(int, v[0, 0])) for v in drawn])
                assert np.isclose(np.nan_to_num(values[0, 0]), float(exact or 0)), question.name
                off = [np.abs(np.nan_to_num(values[:, g]) - true) / abs(true) for g, true in places if true]
                off += [np.zeros(draws) for _, true in places if not true]
                return float(np.median(off, axis=0).mean())
        else:
            draws //= 6
            releases = [cast("Any", draw(query, answer, SystemCoins())) for _ in range(draws)]
            vectors = zip(*releases, strict=True)
            drawn = [np.array(v, dtype=object).reshape(draws, len(answer.groups), -1) for v in vectors]
        found = []
        for i in range(draws):
            parts = {g: [list(map(int, v[i, g])) for v in drawn] for g, _ in places}
            off_by = [relative(errors.value(shown, parts[g]), true) for g, true in places]
            found.append(statistics.median(off_by))
        return statistics.mean(found)


def _texts(groups: Iterable[Iterable[object]]) -> list[tuple[str, ...]]:
    return [tuple(map(str, group)) for group in groups]


def _drawn(query: Any, answer: Any, draws: int) -> list[Floats]:
    """What is released with Laplace's noise: for each measure by draws, groups and cells."""
    chance = np.random.default_rng(12)
    vectors = [np.array(v[:], dtype=np.float64) for v in answer.vectors]
    noise = np.split(
        chance.laplace(0, 1, (draws, sum(map(len, vectors)))), np.cumsum([*map(len, vectors)]), 1
    )
    scales = [float(step.mechanism.scale) for step in query.steps]
    return [
        (v + np.round(s * each)).reshape(draws, len(answer.groups), -1)
        for v, s, each in zip(vectors, scales, noise, strict=False)
    ]


def _value(errors: Errors, shown: Expression, drawn: Sequence[Floats]) -> Floats | None:
    """`Errors.value` of all draws and groups at once, in floats; None where it is more than arithmetic."""
    match shown:
        case Number(value):
            return np.full(drawn[0].shape[:2], float(value))
        case Released(measure, place):
            return drawn[measure][:, :, place]
        case Weighted(terms):
            found = np.zeros(drawn[0].shape[:2])
            for measure in {released.measure for _, released in terms}:
                for place in range(drawn[measure].shape[2]):
                    unit = [[0] * v.shape[2] for v in drawn]
                    unit[measure][place] = 1
                    found += float(errors.value(shown, unit) or 0) * drawn[measure][:, :, place]
            return found
        case Mean(total, count, low, high):
            above, below = _value(errors, total, drawn), _value(errors, count, drawn)
            if above is None or below is None:
                return None
            return np.clip(above / np.maximum(below, 1), float(low), float(high))
        case Arithmetic(operator, left, right) if operator in OF_FLOATS:
            a, b = _value(errors, left, drawn), _value(errors, right, drawn)
            if a is None or b is None:
                return None
            return OF_FLOATS[operator](a, np.where(b == 0, np.nan, b) if operator == "/" else b)
    return None


def truth(connection: duckdb.DuckDBPyConnection, sql: str) -> Truth:
    """The engine's own answer, by keys."""
    cursor = connection.execute(sql)
    names = [each[0] for each in cursor.description or ()]
    value = names.index("v")
    return {
        tuple(str(row[i]) for i in range(len(names)) if i != value): float(row[value])
        for row in cursor.fetchall()
    }


def relative(value: Fraction | None, exact: float) -> float:
    return abs(float(value or 0) - exact) / abs(exact) if exact else 0.0


def score(found: Scored, rows: list[dict[str, Any]], truths: Truth) -> Truth:
    """What became of one release; the truth of what it shows."""
    shown, errors = {}, []
    for row in rows:
        cell, key = row["v"], tuple(str(value) for name, value in row.items() if name != "v")
        assert isinstance(cell, Cell)
        exact = truths.get(key)
        if exact is None:
            continue
        shown[key] = exact
        errors.append(relative(cell.value, exact))
        found.held += cell.low <= exact <= cell.high
        found.cells += 1
        found.halves.append((cell.high - cell.low) / 2 / abs(exact) if exact else 0.0)
    found.errors.append(statistics.median(errors))
    return shown


@dataclass
class Line:
    """A question at a total: ours, the default's, the oracle's and the peers'."""

    world: str
    total: str
    ours: Scored
    default: list[float] = field(default_factory=list)
    oracle: float = 0.0
    peers: dict[str, Peered] = field(default_factory=dict)

    @property
    def name(self) -> tuple[str, str, str]:
        return self.world, self.total, self.ours.question.name

    @property
    def ratio(self) -> float:
        return self.ours.error / max(self.oracle, 1e-9)

    @property
    def before(self) -> float:
        return statistics.mean(self.default)

    @property
    def better_peer(self) -> float | None:
        """The error of the better peer, if any answers."""
        return min((each.error for each in self.peers.values() if each.error is not None), default=None)

    def __str__(self) -> str:
        head = f"  {self.world:18s} {self.total:>4s}  {self.ours.question.name:22s}"
        if self.world == FILTERED or self.world in PLANNED:
            return f"{head}  ours {100 * self.ours.error:6.2f}%  covered {self.ours.covered:4.0%}"
        parts = [f"{name} {100 * error:6.2f}%" for name, error in self.errors.items()]
        parts += [f"ratio {self.ratio:5.2f}", f"covered {self.ours.covered:4.0%}"]
        return "  ".join([head, *parts, f"half-width {self.ours.width:5.1f} x"])

    @property
    def errors(self) -> dict[str, float]:
        return {"default": self.before, "ours": self.ours.error, "oracle": self.oracle}

    @property
    def beside_peers(self) -> str:
        """The same, with what became of each peer."""
        head = f"  {self.world:18s} {self.total:>4s}  {self.ours.question.name:22s}"
        parts = [f"{peer} {each}" for peer, each in self.peers.items()]
        ours = [f"ours {100 * self.ours.error:7.2f}%"] if self.ours.errors else []
        return "  ".join([head, *ours, *parts])

    @property
    def saved(self) -> str:
        """All of it, as a line of JSON."""
        ours, peers = self.ours, {name: each.saved for name, each in self.peers.items()}
        return json.dumps(
            {
                "world": self.world,
                "total": self.total,
                "question": ours.question.name,
                "ours": {
                    "errors": ours.errors,
                    "held": ours.held,
                    "cells": ours.cells,
                    "halves": ours.halves,
                },
                "default": self.default,
                "oracle": self.oracle,
                "peers": peers,
            }
        )

    @classmethod
    def read(cls, text: str) -> Line:
        """What was saved."""
        found = json.loads(text)
        here = "taxi" if found["world"] == FILTERED else PLANNED.get(found["world"], found["world"])
        world = WORLDS[here]
        (question,) = (each for each in world.questions if each.name == found["question"])
        peers = {name: Peered(**each) for name, each in found["peers"].items()}
        ours = Scored(question, **found["ours"])
        return cls(found["world"], found["total"], ours, found["default"], found["oracle"], peers)


def joined(lines: Iterable[Line]) -> list[Line]:
    """Lines about the same, from pieces of a run, as one, in the order of tables."""
    found: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        if (first := found.setdefault(line.name, line)) is line:
            continue
        mine, more = first.ours, line.ours
        ours = Scored(
            mine.question,
            mine.errors + more.errors,
            mine.held + more.held,
            mine.cells + more.cells,
            mine.halves + more.halves,
        )
        default, peers = first.default + line.default, first.peers or line.peers
        oracle = first.oracle or line.oracle
        found[line.name] = replace(first, ours=ours, default=default, oracle=oracle, peers=peers)
    order = [*WORLDS, FILTERED, *PLANNED]
    asked = (line for line in found.values() if line.ours.errors)  # of others peers alone were asked
    return sorted(asked, key=lambda line: order.index(line.world))


def measured(skewed: Skewed, folder: Path, totals: tuple[str, ...], runs: int, draws: int) -> list[Line]:
    """All questions of a table at all totals."""
    world, lines = World(skewed, folder), []
    for total in totals:
        ours, default = world.asked(total, runs, SHARE), world.asked(total, max(runs // 5, 2), 0)
        for name, scored in ours.items():
            oracle = world.oracle(scored.question, total, draws)
            lines.append(Line(skewed.name, total, scored, default[name].errors, oracle))
    world.close()
    return lines


def beside(skewed: Skewed, folder: Path, totals: tuple[str, ...], runs: int) -> list[Line]:
    """What peers make of all questions of a table, in lines without anything of ours."""
    world = World(skewed, folder)
    world.asked("1000", 1, 0)  # to see which groups are released
    world.close()
    prices = {total: float(Fraction(total) / QUESTIONS) for total in totals}
    found = peered(skewed, world.data, world.shown, prices, runs)
    return [
        Line(skewed.name, total, Scored(each), peers=found[total, each.name])
        for total in totals
        for each in skewed.questions
    ]


def filtered(folder: Path, runs: int) -> list[Line]:
    """The filtered count of the taxi table, at prices of its own."""
    few = replace(TAXI, questions=tuple(q for q in TAXI.questions if q.name == "dear trips of a zone"))
    world, lines = World(few, folder), []
    for price in FILTERED_BARS:
        total = f"{float(Fraction(price) * QUESTIONS * 100 / (100 - SHARE)):.9f}"
        (found,) = world.asked(total, runs, SHARE).values()
        lines.append(Line(FILTERED, price, found))
    world.close()
    return lines


def planned_together(name: str, folder: Path, runs: int) -> list[Line]:
    """All questions of a table as one plan."""
    world = World(WORLDS[PLANNED[name]], folder)
    lines = [Line(name, total, each) for total in PLAN_BARS for each in world.planned(total, runs).values()]
    world.close()
    return lines


def task(name: str, runs: int, peer_runs: int) -> tuple[list[str], float]:
    """What is found of a table by us or by peers, as it is saved, and its seconds; in another process."""
    start = time.monotonic()
    gc.freeze()  # what is imported stays: no need to go through it again and again
    try:
        with (
            patch.object(database, "read", functools.cache(read)),  # a text is always read alike
            tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made,
        ):
            folder = Path(made)
            if name == FILTERED:
                lines = filtered(folder, runs)
            elif name in PLANNED:
                lines = planned_together(name, folder, max(runs // 3, 2))
            elif peer_runs:
                lines = beside(WORLDS[name], folder, TOTALS, peer_runs)
            else:
                lines = measured(WORLDS[name], folder, TOTALS, runs, DRAWS)
    except SfumatoError as error:  # which is told by its parts, and cannot leave a process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
    finally:
        gc.unfreeze()
    return [line.saved for line in lines], time.monotonic() - start


def run(names: list[str], runs: int, peer_runs: int, jobs: int, save: Path | None) -> list[Line]:
    """All tables, so many at a time; what is found of each is saved at once."""
    lines: list[Line] = []
    problems: list[BaseException] = []
    names.sort(key=lambda each: SLOWEST.index(each) if each in SLOWEST else len(SLOWEST))
    todo = [(name, runs, 0) for name in names if runs]
    if peer_runs:
        for peer in PEERS:
            peer.python()  # installed before several processes would do it
        without = (FILTERED, *PLANNED, ADULT_CENSUS.name)  # asked already; and nothing is to be capped
        todo += [(name, 0, peer_runs) for name in names if name not in without]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(task, *each): each for each in todo}
        for each in as_completed(waiting):
            name, is_ours, _ = waiting[each]
            if (problem := each.exception()) is not None:  # the others go on, and are saved
                print(f"{name}: {type(problem).__name__}: {problem}", flush=True)
                problems.append(problem)
                continue
            texts, seconds = each.result()
            found = [Line.read(text) for text in texts]
            told = [str(line) if is_ours else line.beside_peers for line in found]
            print(*told, f"{name}{'' if is_ours else ' at peers'}: {seconds:.0f} s", sep="\n", flush=True)
            if save is not None:
                with save.open("a", encoding="utf-8") as file:
                    file.writelines(f"{text}\n" for text in texts)
            lines += found
    if problems:
        raise problems[0]
    return joined(lines)


def bars(lines: list[Line]) -> list[Bar]:
    """What is held to a bar."""
    found: list[Bar] = []
    alone = [line for line in lines if line.world == FILTERED]
    together = [line for line in lines if line.world in PLANNED]
    lines = [line for line in lines if line.world != FILTERED and line.world not in PLANNED]
    shapes = {each.name for each in SHAPES}
    for total in dict.fromkeys(line.total for line in lines):
        here = [line for line in lines if line.total == total]
        if shop := [line.ratio for line in here if line.world == "shop"]:
            found += [(f"shop_{total}_median", statistics.median(shop), "<=", 1.5)]
            found += [(f"shop_{total}_worst", max(shop), "<=", 2.5)]
        unseen = [line for line in here if line.world in shapes]
        if totals := [line.ratio for line in unseen if line.ours.question.what == "total"]:
            found += [(f"unseen_{total}_median", statistics.median(totals), "<=", 1.75)]
            found += [(f"unseen_{total}_90", float(np.quantile(totals, 0.9)), "<=", 3.5)]
            found += [(f"unseen_{total}_worst", max(totals), "<=", 15.0)]
        if ratios := [line.ratio for line in unseen if line.ours.question.what == "ratio"]:
            found += [(f"ratios_{total}_median", statistics.median(ratios), "<=", 1.3)]
        if beside := [(line.ours.error, peer) for line in here if (peer := line.better_peer) is not None]:
            good = sum(ours <= 1.1 * peer for ours, peer in beside)
            found += [(f"peers_{total}", good / len(beside), ">=", 0.8)]
    wanted = [line for line in lines if line.ours.question.what != "people"]
    worse = [line.ours.error > 1.1 * line.before for line in wanted]
    points = [100 * (line.ours.error - line.before) for line in wanted if line.total == "3"]
    found += _plan_bars(together, lines)
    if not wanted:
        return found + _filtered_bars(alone)
    found += [("worse", sum(worse) / max(len(worse), 1), "<=", 1 / 6)]
    found += [("worse_points", max(points, default=0.0), "<=", 8.0)]
    for what, least in (("total", 0.93), ("ratio", 0.85)):
        those = [line.ours for line in wanted if line.ours.question.what == what]
        if cells := sum(each.cells for each in those):
            found.append((f"covered_{what}", sum(each.held for each in those) / cells, ">=", least))
    widths = [line.ours.width for line in wanted]
    found.append(("wide", statistics.median(widths), "<=", 10.0))
    return found + _filtered_bars(alone)


def _plan_bars(together: list[Line], lines: list[Line]) -> list[Bar]:
    """The worst of the questions of a plan, over the worst of an even split."""
    found: list[Bar] = []
    for total, most in PLAN_BARS.items():
        parts = []
        for name, world in PLANNED.items():
            ours = [line.ours.error for line in together if (line.world, line.total) == (name, total)]
            even = [line.ours.error for line in lines if (line.world, line.total) == (world, total)]
            if ours and even:
                parts.append(max(ours) / max(even))
        if parts:
            found.append((f"plan_{total}", statistics.mean(parts), "<=", most))
    return found


def _filtered_bars(lines: Iterable[Line]) -> list[Bar]:
    return [(f"taxi_{line.total}", 100 * line.ours.error, "<=", FILTERED_BARS[line.total]) for line in lines]


def main() -> int:
    """Run it, or load it, and compare."""
    parser = argparse.ArgumentParser()
    smoke = "the shop alone, few runs, and no bars of ratios"
    parser.add_argument("--smoke", action="store_true", help=smoke)
    parser.add_argument("--runs", type=int, default=300, help="0 for peers alone")
    parser.add_argument("--only", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tables at a time")
    parser.add_argument("--peers", type=int, default=40, help="runs of each peer; 0 for none")
    parser.add_argument("--save", type=Path, help="add what is found to this file")
    parser.add_argument("--load", type=Path, nargs="+", help="ask nothing: what do saved lines come to?")
    given = parser.parse_args()
    start = time.monotonic()
    if given.smoke:
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
            lines = measured(SHOP, Path(name), ("3",), 12, 12)
        print(*lines, sep="\n")
        kept = {"shop_3_median": 2.0, "covered_total": 0.75}  # few runs: far from what they come to
        compared = [(n, x, op, kept[n]) for n, x, op, _ in bars(lines) if n in kept]
    else:
        if given.load:
            texts = [text for file in given.load for text in file.read_text(encoding="utf-8").splitlines()]
            lines = joined(map(Line.read, dict.fromkeys(texts)))  # a file that is named twice counts once
            print(*lines, sep="\n")
        else:
            names = [*given.only, *([FILTERED] if "taxi" in given.only else [])]
            names += [name for name, world in PLANNED.items() if world in given.only]
            lines = run(names, given.runs, given.peers, given.jobs, given.save)
        for line in lines:
            if line.peers:
                print(line.beside_peers)
        compared = bars(lines)
    short = False
    for bar, value, op, target in compared:
        holds = OPERATORS[op](float(value), float(target))
        short |= not holds
        print(f"BAR {bar} {value:.4g} {op} {target:.4g} {'ok' if holds else 'short'}")
    print(f"{time.monotonic() - start:.0f} s")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
