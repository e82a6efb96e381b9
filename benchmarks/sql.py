"""Eight questions at person level, against DuckDB itself and two peers, in the same run:
`python benchmarks/sql.py [--smoke | --large] [--only Q3 Q4] [--without-peers] [--data FOLDER]`.

Each is asked for epsilon 1 in total and delta 10^-6, of the same Parquet files as raw DuckDB; all take turns.
OpenDP (Polars) and Qrlew (on DuckDB) get virtual environments of their own, made on demand below .peers/, and
run with a cap set by hand and, for free, with the caps that we choose privately. Times are from SQL to rows.
Bars:
  ratio      medians of ours over raw DuckDB; for Q1, which DuckDB reads from the footer, milliseconds
  error      against the exact answer: the median over keys and releases of the relative error, or a root mean
             square (rms), relative but for Q2 (people) and Q5 (years)
  first_N    Q4, keys private: the error among the first N keys by released count, where a peer releases N
With --large, 20 million rows: Q3 and Q4 as they are, Q3 after preparation, and the peak memory of a process
that asks one question beyond that of DuckDB.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.peers_sql import PEERS, Peer, asked

import sfumato as sf
from sfumato.curator.drawing import drawn
from sfumato.exact.secret import unseal
from sfumato.sources.duckdb import prepare, read
from sfumato.sources.opened import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from sfumato.curator.database import Database
    from sfumato.curator.drawing import Runs
    from sfumato.curator.release import Release

ROOT = Path(__file__).parents[1]
TOTAL = Fraction(1)  # epsilon of a question, with all that was spent to prepare for it
TUNING = Fraction(1, 10)  # the part of it that chooses caps, where a question has any
DELTA = Fraction(1, 10**6)
BY_HAND = 100  # rows of one person: a round number above the rows of 98 in 100
SEED = 1
DEPTS, CITIES = 50, 5000
TURNS, PEER_TURNS = 21, 11
KEYS = [f"dept_{i}" for i in range(DEPTS)]

Table = dict[str, tuple[float | None, ...]]  # values by key; "" is the key of a question without one


class Refused(Exception):
    """A question that somebody does not answer, and why."""


# Errors -----------------------------------------------------------------------------------------------


def off(table: Table, truth: Table, column: int, key: str) -> tuple[float, float]:
    """Released less exact, and exact. A number that is missing counts as zero, on either side."""
    released, exact = (each[key][column] or 0.0 if key in each else 0.0 for each in (table, truth))
    return released - exact, exact


def relative(table: Table, truth: Table, column: int, key: str) -> float:
    error, exact = off(table, truth, column, key)
    return abs(error / exact) if exact else math.inf


def typical(tables: Sequence[Table], truth: Table, column: int = 0) -> float:
    """The median over keys and releases of the relative error."""
    return statistics.median(relative(table, truth, column, key) for table in tables for key in truth)


def rms(tables: Sequence[Table], truth: Table) -> float:
    return math.sqrt(statistics.fmean(off(table, truth, 0, key)[0] ** 2 for table in tables for key in truth))


def relative_rms(tables: Sequence[Table], truth: Table) -> float:
    return math.sqrt(
        statistics.fmean(relative(table, truth, 0, key) ** 2 for table in tables for key in truth)
    )


def first(tables: Sequence[Table], truth: Table, many: int = 0) -> float:
    """The median error among the first so many keys by released count, or among all; infinite if fewer."""
    found = []
    for table in tables:
        keys = sorted(table, key=lambda key: -(table[key][0] or 0.0))
        enough = len(keys) >= max(many, 1)
        errors = (relative(table, truth, 0, key) for key in keys[: many or None])
        found.append(statistics.median(errors) if enough else math.inf)
    return statistics.median(found)


# Questions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Error:
    """How a released column is compared with the truth, and how near it must come."""

    name: str
    measured: Callable[[Sequence[Table], Table], float]
    target: float
    unit: str = ""  # a share of the truth if there is none

    def shown(self, value: float) -> str:
        if math.isinf(value):
            return "-"
        return f"{value:.2f} {self.unit}" if self.unit else f"{100 * value:.2f}%"


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    sql: str
    columns: tuple[str, ...]  # of numbers; a key stands before them
    ratio: float
    errors: tuple[Error, ...]
    key: str = ""
    is_capped: bool = True  # whether caps must be chosen
    redraws: int = 0  # draws besides the releases, where an error must be known to a hundredth

    def table(self, rows: Iterable[Sequence[object]]) -> Table:
        """Rows of a key, if there is one, and numbers."""
        start = 1 if self.key else 0
        return {
            str(row[0]) if self.key else "": tuple(
                float(value) if isinstance(value, int | float) else None for value in row[start:]
            )
            for row in rows
        }


QUERIES = (
    Query("Q1", "SELECT COUNT(*) AS n FROM visits", ("n",), math.inf, (Error("rms", relative_rms, 0.003),)),
    Query(
        "Q2",
        "SELECT COUNT(DISTINCT user_id) AS n FROM visits",
        ("n",),
        3,
        (Error("rms", rms, 1.4, "people"),),
        is_capped=False,
        redraws=20_000,  # the law itself is 3% below the bar
    ),
    Query(
        "Q3",
        "SELECT dept, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a FROM visits GROUP BY dept",
        ("n", "s", "a"),
        6,
        (
            Error("count_error", typical, 0.035),
            Error("sum_error", partial(typical, column=1), 0.045),
            Error("avg_error", partial(typical, column=2), 0.023),
        ),
        key="dept",
    ),
    Query(
        "Q4",
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
        ("n",),
        12,
        tuple(
            Error(f"first_{many}", partial(first, many=many), target)  # what four peers are known to reach
            for many, target in ((28, 0.04), (53, 0.047), (180, 0.3), (185, 0.52))
        ),
        key="city",
    ),
    Query(
        "Q5",
        "SELECT dept, MEDIAN(age) AS m FROM visits GROUP BY dept",
        ("m",),
        4,
        (Error("rms", rms, 1.3, "years"),),
        key="dept",
    ),
    Query("Q6", "SELECT VARIANCE(income) AS v FROM visits", ("v",), 4, (Error("rms", relative_rms, 0.018),)),
    Query(
        "Q7",
        "SELECT home_dept, COUNT(*) AS n FROM people JOIN visits USING (user_id) GROUP BY home_dept",
        ("n",),
        4,
        (Error("error", typical, 0.022),),
        key="home_dept",
    ),
    Query(
        "Q8",
        "SELECT COUNT(*) AS n FROM visits WHERE income > 50000 AND dept = 'dept_1'",
        ("n",),
        3,
        (Error("rms", relative_rms, 0.018),),
    ),
)
Q1_MILLISECONDS = 40
LARGE = {"Q3": 10.0, "Q4": 22.0}
LARGE_PREPARED = 1.5
LARGE_MEGABYTES = 400


# Data -------------------------------------------------------------------------------------------------


def weights(count: int, power: float) -> npt.NDArray[np.float64]:
    found = np.arange(1, count + 1, dtype=np.float64) ** -power
    return found / np.sum(found)


def texts(kind: str, codes: npt.NDArray[np.int64], count: int) -> pa.StringArray:
    names = pa.array([f"{kind}_{i}" for i in range(count)])
    return names.take(codes)


def generate(folder: Path, rows: int, people: int) -> None:
    """visits.parquet and people.parquet. The first two draws give the numbers that anchors know."""
    dice = np.random.default_rng(SEED)
    eagerness = dice.lognormal(0, 1.3, people)
    visits = 1 + dice.multinomial(rows - people, eagerness / eagerness.sum())
    age = np.clip(np.rint(dice.normal(42, 18, people)), 0, 120).astype(np.int32)
    level = dice.normal(10.5, 0.5, people)
    homes = {
        "dept": (weights(DEPTS, 0.9), 0.1),  # and the share of rows elsewhere, by the same weights
        "city": (weights(CITIES, 1.1), 0.2),
    }
    home = {name: dice.choice(len(law), people, p=law) for name, (law, _) in homes.items()}

    who = np.repeat(np.arange(people), visits)
    dice.shuffle(who)
    places: dict[str, pa.StringArray] = {}
    for name, (law, away) in homes.items():
        codes = home[name][who]
        moved = dice.random(rows) < away
        codes[moved] = dice.choice(len(law), int(moved.sum()), p=law)
        places[name] = texts(name, codes, len(law))
    income = np.clip(np.exp(level[who] + dice.normal(0, 0.35, rows)), 0, 200_000)
    seconds = dice.integers(0, 366 * 86_400, rows).astype("timedelta64[s]")
    moments = (np.datetime64("2024-01-01", "s") + seconds).astype("datetime64[us]")
    tables: dict[str, dict[str, Any]] = {  # of numpy or Arrow
        "people": {
            "user_id": np.arange(people),
            "home_dept": texts("dept", home["dept"], DEPTS),
            "p_age": age,
        },
        "visits": {"user_id": who, "age": age[who], "income": income, **places, "ts": moments},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        written = folder / f"{name}.writing"
        # row groups of the size that DuckDB writes, so that both cores have work
        pq.write_table(pa.table(columns), written, row_group_size=122_880)
        written.rename(folder / f"{name}.parquet")  # whole or not at all; visits come last


def views(folder: Path) -> duckdb.DuckDBPyConnection:
    """Raw DuckDB over the files."""
    engine = duckdb.connect()
    for name in ("visits", "people"):
        engine.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder / name}.parquet')")
    return engine


def spread(engine: duckdb.DuckDBPyConnection) -> str:
    found = engine.execute(
        "SELECT SUM(n), COUNT(*), MEDIAN(n), QUANTILE_CONT(n, 0.99), MAX(n) "
        "FROM (SELECT COUNT(*) AS n FROM visits GROUP BY user_id)"
    ).fetchone()
    assert found is not None
    rows, people, middle, late, most = (int(number) for number in found)
    return f"{rows:,} rows of {people:,} people: median {middle}, p99 {late}, most {most:,} rows a person"


# Who answers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    seconds: float
    table: Table


class Contender(Protocol):
    name: str
    turns: int

    def ask(self, query: Query) -> Answer: ...


class Raw:
    """DuckDB, without any privacy."""

    name, turns = "DuckDB", TURNS

    def __init__(self, folder: Path) -> None:
        self.engine = views(folder)

    def ask(self, query: Query) -> Answer:
        start = time.perf_counter()
        rows = self.engine.execute(query.sql).fetchall()
        return Answer(time.perf_counter() - start, query.table(rows))


POLICY = """
[source]
parquet = "{data}"
[budget]
epsilon = "1000000"
least = "0.001"
delta = "0.1"
[tables.visits]
unit = "user_id"
rows_per_person = {rows}
[tables.visits.columns]
user_id = "integer"
age = {{ type = "integer", low = 0, high = 120 }}
income = {{ type = "number", low = 0, high = 200000, required = true }}
dept = {{ type = "text", keys = {keys} }}
city = "text"
ts = "timestamp"
[tables.people]
unit = "user_id"
rows_per_person = 1
[tables.people.columns]
user_id = "integer"
home_dept = {{ type = "text", keys = {keys} }}
p_age = {{ type = "integer", low = 0, high = 120 }}
"""


def tuned(db: Database, query: Query) -> tuple[Database, int]:
    """The database with a cap that fits this question, and the cap: how many rows of a person weigh in full.

    It is called before every release, so that errors hold what the choice costs.
    """
    assert query.is_capped
    columns = ["income"] if "AVG(income)" in query.sql else []
    tuning, _ = db.tune("visits", epsilon=TUNING, columns=columns)
    tables = [replace(t, tuning=tuning if t.name == "visits" else None) for t in db.policy.tables]
    db.policy = replace(db.policy, tables=tuple(tables))
    plan = db.sql(query.sql, epsilon=TOTAL - TUNING, delta=DELTA).plan
    return db, plan.relation.rows or BY_HAND


def prepared(db: Database, query: Query) -> Database:
    """The database after the owner tuned and prepared it, which is not timed."""
    db, _ = tuned(db, query)
    policy = replace(db.policy, prepared=Path(db.policy.file).with_suffix(".prepared.duckdb"))
    prepare(policy)
    db.policy, db.source = policy, source_of(policy)  # as if it were opened anew
    return db


class Ours:
    """Sfumato: parse, charge, run, draw, keep, and the rows with their intervals."""

    name, turns = "Sfumato", TURNS

    def __init__(self, data: Path, folder: Path, is_prepared: bool = False) -> None:
        self.data, self.folder, self.is_prepared = data, folder, is_prepared
        self.caps: list[int] = []
        self.db: Database | None = None

    def opened(self, query: Query) -> tuple[Database, Fraction]:
        """A database that never answered, and what may be asked of it."""
        try:
            if self.db is None:
                text = POLICY.format(data=self.data, rows=BY_HAND, keys=json.dumps(KEYS))
                policy = self.folder / ("prepared.toml" if self.is_prepared else "sql.toml")
                policy.write_text(text, encoding="utf-8")
                self.db = sf.open(policy)
                if not self.is_prepared:
                    read(self.db.policy)  # by the owner, once, which is not timed
                self.db = prepared(self.db, query) if self.is_prepared else self.db
            self.db.ledger.data_changed()  # a new draw each time
            if not query.is_capped:
                return self.db, TOTAL
            if self.is_prepared:  # tuned once, before it was prepared
                return self.db, TOTAL - TUNING
            db, cap = tuned(self.db, query)
            self.caps.append(cap)
            return db, TOTAL - TUNING
        except sf.SfumatoError as error:
            raise Refused(str(error)) from None

    def ask(self, query: Query) -> Answer:
        db, epsilon = self.opened(query)
        start = time.perf_counter()
        try:
            release = db.sql(query.sql, epsilon=epsilon, delta=DELTA).release()
        except sf.SfumatoError as error:
            raise Refused(str(error)) from None
        rows = release.rows()
        return Answer(time.perf_counter() - start, self.table(query, rows))

    def table(self, query: Query, rows: list[dict[str, object]]) -> Table:
        names = (*((query.key,) if query.key else ()), *query.columns)
        return query.table([row[name] for name in names] for row in rows)

    def redrawn(self, query: Query, times: int) -> list[Table]:
        """What so many more releases would show: the same answer, other noise."""
        db, epsilon = self.opened(query)
        question = db.sql(query.sql, epsilon=epsilon, delta=DELTA)
        release: Release = question.release()
        runs: Runs = {}
        facts = (db.source, question.compiled, question.query, db.coins, runs)
        each_drawn = (unseal(drawn(*facts)) for _ in range(times))
        return [self.table(query, replace(release, drawn=each).rows()) for each in each_drawn]


class Theirs:
    """A peer, with a cap set by hand or with ours."""

    def __init__(self, peer: Peer, data: Path, sizes: dict[str, int], turns: int) -> None:
        self.name, self.rows, self.turns = peer.name, BY_HAND, turns
        self.process = peer.start(str(data), json.dumps(sizes), json.dumps(KEYS))

    def ask(self, query: Query) -> Answer:
        question = {"query": query.name, "sql": query.sql, "rows": self.rows}
        found = asked(self.process, question | {"epsilon": float(TOTAL), "delta": float(DELTA)})
        if "refused" in found:
            raise Refused(found["refused"])
        return Answer(found["seconds"], query.table(found["rows"]))


# The race ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Run:
    """What one contender did with one question."""

    seconds: list[float] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    refused: str = ""

    def median(self) -> float:
        return statistics.median(self.seconds)


def race(query: Query, contenders: Sequence[Contender], turns: int) -> dict[str, Run]:
    """All take turns, so that a slow moment hits all of them; whoever has fewer turns skips some."""
    runs = {contender.name: Run() for contender in contenders}
    for turn in range(turns + 1):
        for contender in contenders:
            run = runs[contender.name]
            if run.refused or turn % -(-turns // min(contender.turns, turns)):
                continue
            try:
                answer = contender.ask(query)
            except Refused as refusal:
                run.refused = str(refusal).splitlines()[0]
                continue
            if turn:  # the first is to warm up
                run.seconds.append(answer.seconds)
                run.tables.append(answer.table)
    return runs


def errors(query: Query, run: Run, truth: Table) -> str:
    """All errors of a contender, on one line."""
    if query.name == "Q4":
        keys = statistics.median_low([len(table) for table in run.tables])
        found = [Error(f"{keys} keys", first, 0), *query.errors]
        return ", ".join(f"{each.name} {each.shown(each.measured(run.tables, truth))}" for each in found)
    return " / ".join(each.shown(each.measured(run.tables, truth)) for each in query.errors)


def shown(query: Query, who: str, cap: object, run: Run, raw: float, truth: Table) -> None:
    start = f"{query.name:4}{who:10}{cap:>5}"
    if run.refused:
        print(f"{start}   refused: {run.refused[:110]}", flush=True)
        return
    ratio = run.median() / raw
    print(f"{start}{1000 * run.median():>11.2f}{ratio:>9.1f}  {errors(query, run, truth)}", flush=True)


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    measured: float | None  # nothing if it was refused
    target: float

    @property
    def is_met(self) -> bool:
        return self.measured is not None and self.measured <= self.target

    def __str__(self) -> str:
        measured = "refused" if self.measured is None else f"{self.measured:.4g}"
        return f"BAR {self.name} {measured} <= {self.target:g} {'ok' if self.is_met else 'short'}"


def judged(query: Query, ours: Ours, raw: Raw, others: list[Theirs], turns: int) -> list[Bar]:
    """One question to everybody: the table's lines and the bars."""
    truth = raw.ask(query).table
    runs = race(query, [raw, ours, *others], turns)
    base, run = runs[raw.name].median(), runs[ours.name]
    print(f"{query.name:4}{raw.name:10}{'':>5}{1000 * base:>11.2f}{1.0:>9.1f}")
    cap = statistics.median_low(ours.caps) if ours.caps else None
    if query.redraws and not run.refused:
        run.tables = ours.redrawn(query, max(query.redraws * turns // TURNS, turns))
    shown(query, ours.name, cap or "", run, base, truth)
    name, is_released = query.name.lower(), not run.refused
    bars = (
        [Bar(f"{name}_milliseconds", 1000 * run.median() if is_released else None, Q1_MILLISECONDS)]
        if query.name == "Q1"
        else [Bar(f"{name}_ratio", run.median() / base if is_released else None, query.ratio)]
    )
    for error in query.errors:
        value = error.measured(run.tables, truth) if is_released else None
        bars.append(Bar(f"{name}_{error.name}", value, error.target))
    for peer in others:
        shown(query, peer.name, peer.rows, runs[peer.name], base, truth)
    found = [(peer.name, runs[peer.name]) for peer in others]
    if cap is not None and cap != BY_HAND and others:
        for peer in others:
            peer.rows = cap
        again = race(query, [raw, *others], turns)
        base = again[raw.name].median()
        for peer in others:
            shown(query, peer.name, peer.rows, again[peer.name], base, truth)
            peer.rows = BY_HAND
        found += [(f"{peer.name}_at_our_cap", again[peer.name]) for peer in others]
    if query.name == "Q4":
        for who, theirs in found:
            if theirs.refused:
                continue
            many = statistics.median_low([len(table) for table in theirs.tables])
            value = first(run.tables, truth, many) if is_released else None
            bars.append(Bar(f"q4_first_{many}_of_{who.lower()}", value, first(theirs.tables, truth)))
    ours.caps.clear()
    return bars


# Large ------------------------------------------------------------------------------------------------


def peak() -> int:
    """The most memory this process ever held, in megabytes; getrusage would also count its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def child(who: str, query: Query, data: Path) -> int:
    """Asks one question and tells the peak memory."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        try:
            (Raw(data) if who == "raw" else Ours(data, Path(name))).ask(query)
        except Refused as refusal:
            print(f"refused {refusal}")
        else:
            print(peak())
    return 0


def memory(query: Query, data: Path) -> Bar:
    found = {}
    for who in ("raw", "ours"):
        command = [sys.executable, __file__, "--child", who, "--only", query.name, "--data", str(data)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[who] = None if answer.startswith("refused") else int(answer)
    base, peaked = found["raw"], found["ours"]
    assert base is not None
    print(
        f"{query.name} peak memory: DuckDB {base} MB, ours {'refused' if peaked is None else f'{peaked} MB'}"
    )
    beyond = None if peaked is None else peaked - base
    return Bar(f"large_{query.name.lower()}_megabytes_beyond_duckdb", beyond, LARGE_MEGABYTES)


def large(
    queries: list[Query], raw: Raw, folder: Path, data: Path, others: list[Theirs], turns: int
) -> list[Bar]:
    """Time and memory; errors are shown, not judged."""
    bars: list[Bar] = []
    ours = Ours(data, folder)
    for query in queries:
        bars += judged(replace(query, ratio=LARGE[query.name]), ours, raw, others, turns)[:1]
        bars.append(memory(query, data))
    for query in queries:
        if query.name == "Q3":
            after = Ours(data, folder, is_prepared=True)
            bar, *_ = judged(replace(query, ratio=LARGE_PREPARED), after, raw, [], turns)
            bars.append(replace(bar, name="q3_ratio_prepared"))
    return [bar if bar.name.startswith("large") else replace(bar, name=f"large_{bar.name}") for bar in bars]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="small, quick, without peers; only refusals count")
    size.add_argument("--large", action="store_true", help="20 million rows: Q3, Q4, prepared, and memory")
    parser.add_argument("--only", nargs="+", choices=[query.name for query in QUERIES], help="some questions")
    parser.add_argument("--without-peers", action="store_true", help="DuckDB and ours alone")
    parser.add_argument(
        "--data", type=Path, default=ROOT / ".peers" / "sql-data", help="where files are kept"
    )
    parser.add_argument("--child", choices=["raw", "ours"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.only or (list(LARGE) if given.large else [query.name for query in QUERIES])
    queries = [query for query in QUERIES if query.name in names]
    if given.child:
        return child(given.child, queries[0], given.data)

    people = 2_000 if given.smoke else 2_000_000 if given.large else 100_000
    sizes = {"visits": 10 * people, "people": people}
    data = given.data.resolve() / f"{sizes['visits']}-rows"
    if not (data / "visits.parquet").exists():
        print(f"generating {sizes['visits']:,} rows ...", flush=True)
        generate(data, sizes["visits"], people)
    raw = Raw(data)
    print(spread(raw.engine))
    print(f"{'':4}{'':10}{'cap':>5}{'ms':>11}{'ratio':>9}  error", flush=True)
    invited = () if given.smoke or given.without_peers else PEERS
    others = [Theirs(peer, data, sizes, 2 if given.large else PEER_TURNS) for peer in invited]
    bars: list[Bar] = []
    try:
        with tempfile.TemporaryDirectory() as name:
            os.environ["XDG_STATE_HOME"] = name  # what remembers ledgers forgets these
            if given.large:
                bars = large([q for q in queries if q.name in LARGE], raw, Path(name), data, others, 5)
            else:
                ours = Ours(data, Path(name))
                for query in queries:
                    bars += judged(query, ours, raw, others, 3 if given.smoke else TURNS)
    finally:
        for peer in others:
            peer.process.terminate()
            peer.process.wait()

    print()
    for bar in bars:
        if given.smoke and bar.measured is not None:
            print(f"{bar.name} {bar.measured:.4g} (a bar only at full size)")
            continue
        print(bar)
    return 1 if any(not bar.is_met for bar in bars if not given.smoke or bar.measured is None) else 0


if __name__ == "__main__":
    sys.exit(main())
