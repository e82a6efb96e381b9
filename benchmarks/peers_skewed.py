"""OpenDP and Qrlew on the tables of benchmarks/accuracy.py, under the caps that are best in hindsight.

Both want to be told how many rows of a person count, and cannot find out. Here somebody who knows all
answers tells them: each count, sum and average is asked under one cap of `CAPS` after the other, a few times,
until the error only grows; the best few are asked as often as wanted, and the best of these is reported.
OpenDP is also told to cut off values earlier than the policy declares, if that helps. Both get the price that
our oracle gets for a question, and Qrlew a delta besides; nothing is charged for the search.

An error is, as there, the median over groups of |release - truth| / |truth|, in the mean over runs; a group
that is not released is off by 100%. "-" is what a peer has no words for, "refused" what it does not take.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.peers_sql import PEERS as FOUND
from benchmarks.peers_sql import asked

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from benchmarks.skewed import Skewed

    Truth = Mapping[tuple[str, ...], float]

CAPS = tuple(2**k for k in range(13))
BOUNDS = (1.0, 0.5, 0.25)  # of what is declared, in which values are cut off
FEW = 4  # runs, to see which caps are worth more
BEST = 2  # of all caps are asked as often as wanted
WORSE = 2.5  # times the best error so far, twice in a row: from here on it only grows
DELTA = 1e-6  # of each question, where a peer cannot do without

# The peers wait for a question on a line, {"question", "sql", "cap", "bound", "epsilon", "delta", "runs"},
# and reply with {"runs": rows of each run, "is_capped", "is_bounded"}, {"refused"} or {"unknown"}. Arguments:
# the folder, and of each table its rows, its unit and its columns as the policy declares them.
OPENDP_CODE = """
import json, os, sys, warnings
import polars as pl
import opendp.prelude as dp
warnings.simplefilter("ignore")
dp.enable_features("contrib")
folder, tables = sys.argv[1], json.loads(sys.argv[2])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what engines print is no reply
GRID = 100  # sums of floats get thousands of times the noise: cents are counted

# a table, its groups, what is asked, of which column, of which rows
dear = pl.col("mark") & (pl.col("amount") > 40) & (pl.col("place") < 2)
dear_trips = (pl.col("fare") > 50) & (pl.col("zone") == "z2")
QUESTIONS = {
    "rows": ("visits", None, "count", None, None),
    "rows by place": ("visits", "place", "count", None, None),
    "sum by place": ("visits", "place", "sum", "amount", None),
    "average by place": ("visits", "place", "average", "amount", None),
    "marked and dear": ("visits", None, "count", None, dear),
    "share marked": ("visits", "place", "share", pl.col("mark"), None),
    "people by place": ("visits", "place", "people", None, None),
    "orders by month": ("orders", "month", "count", None, None),
    "revenue by category": ("orders", "category", "sum", "amount", None),
    "average by category": ("orders", "category", "average", "amount", None),
    "customers by city": ("customers", "city", "count", None, None),
    "orders a customer": ("orders", None, "rows of one", None, None),
    "share returned": ("orders", "category", "share", pl.col("returned"), None),
    "average birth year": ("customers", "newsletter", "average", "birth_year", None),
    "buyers by month": ("orders", "month", "people", None, None),
    "trips": ("trips", None, "count", None, None),
    "trips by zone": ("trips", "zone", "count", None, None),
    "average fare": ("trips", None, "average", "fare", None),
    "fares by payment": ("trips", "payment", "sum", "fare", None),
    "dear trips of a zone": ("trips", None, "count", None, dear_trips),
    "riders": ("trips", None, "people", None, None),
    "share in cash": ("trips", "zone", "share", pl.col("payment") == "cash", None),
}

def keys_of(table, group):
    if group == "month":
        return list(range(1, 13))
    column = tables[table]["columns"][group]
    if column["type"] == "boolean":
        return [False, True]
    return column.get("keys") or list(range(column["low"], column["high"] + 1))

data = {}
for name in tables:
    if "->" not in tables[name]["unit"]:
        found = pl.read_parquet(f"{folder}/{name}.parquet")
        if name == "orders":
            found = found.with_columns(month=pl.col("ordered").dt.month().cast(pl.Int64))
        data[name] = found.lazy()

def measured(asked, parts, cap, share=1.0):
    # a function that releases rows
    table, group, what, column, where = QUESTIONS[asked["question"]]
    most = 10 * tables[table]["rows"]  # it must be told a length that no group exceeds
    keys = keys_of(table, group) if group else []
    margin = dp.polars.Margin(by=[group] if group else [], max_length=most, max_groups=max(len(keys), 1))
    context = dp.Context.compositor(
        data=data[table],
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col(tables[table]["unit"])),
        privacy_loss=dp.loss_of(epsilon=asked["epsilon"] * share),
        split_evenly_over=1,
        margins=[margin],
    )
    query = context.query() if where is None else context.query().filter(where)
    if what == "people" and group:
        query = query.truncate_per_group(1, by=[group])
    else:
        query = query.truncate_per_group(cap)
    if group:
        query = query.group_by(group).agg(*parts).with_keys(pl.LazyFrame({group: keys}))
    else:
        query = query.select(*parts)
    release = resolved(query)
    return lambda: release(data[table]).collect().rows()

def resolved(query):
    # its own `resolve` finds the scale by a thousand steps of bisection; but the loss is one over the scale
    plan, found = (object.__getattribute__(query, name) for name in ("polars_plan", "_query"))

    def made(scale):
        return dp.m.make_private_lazyframe(*found._chain, found._output_measure, plan, scale)

    release = made(made(1.0).map(found._d_in) / found._d_out * (1 + 1e-9))
    assert release.check(found._d_in, found._d_out)
    return release

def bounded(asked):
    # what a sum adds up: whole numbers, within bounds
    table, _, _, column, _ = QUESTIONS[asked["question"]]
    declared = tables[table]["columns"][column]
    grid = 1 if declared["type"] == "integer" else GRID
    low, high = (round(declared[end] * asked["bound"] * grid) for end in ("low", "high"))
    return (pl.col(column) * grid).cast(int).fill_null(0).dp.sum((low, high)), grid

def ratio(above, below):
    return above / below if below > 0 else None

def answers(asked):
    _, _, what, column, _ = QUESTIONS[asked["question"]]
    count, cap, runs = dp.len(signed=True), asked["cap"], range(asked["runs"])
    if what in ("count", "people"):
        ask = measured(asked, [count], 1 if what == "people" else cap)
        return [ask() for _ in runs]
    if what == "sum":
        total, grid = bounded(asked)
        ask = measured(asked, [total], cap)
        return [[[*keys, found / grid] for *keys, found in ask()] for _ in runs]
    if what == "average":
        total, grid = bounded(asked)
        ask = measured(asked, [count, total], cap)
        return [[[*keys, ratio(s / grid, n)] for *keys, n, s in ask()] for _ in runs]
    if what == "share":
        ask = measured(asked, [count, column.cast(int).fill_null(0).dp.sum((0, 1))], cap)
        return [[[*keys, ratio(s, n)] for *keys, n, s in ask()] for _ in runs]
    rows, people = measured(asked, [count], cap, 0.5), measured(asked, [count], 1, 0.5)
    return [[[ratio(rows()[0][0], people()[0][0])]] for _ in runs]

for line in sys.stdin:
    asked = json.loads(line)
    try:
        found = {"unknown": True}
        if asked["question"] in QUESTIONS:
            table, _, what, column, _ = QUESTIONS[asked["question"]]
            found = {"runs": answers(asked), "is_capped": what != "people"}
            numbers = what in ("sum", "average") and tables[table]["columns"][column]["type"] == "number"
            found["is_bounded"] = numbers
    except Exception as error:
        found = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(found), file=replies, flush=True)
"""

# Qrlew gives each aggregate of a question the whole epsilon: see `peers_sql`. It panics at FILTER beside
# COUNT(*), so that shares are averages here.
QRLEW_CODE = """
import json, os, sys
import duckdb
import pyqrlew
folder, tables = sys.argv[1], json.loads(sys.argv[2])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what engines print is no reply
SHARE = "SELECT {} AS k, AVG(CASE WHEN {} THEN 1 ELSE 0 END) AS v FROM {} GROUP BY k"
SHARES = {
    "share marked": SHARE.format("place", "mark", "visits"),
    "share returned": SHARE.format("category", "returned", "orders"),
    "share in cash": SHARE.format("zone", "payment = 'cash'", "trips"),
}
LISTED = 1000  # values of an integer that are listed, so that groups are public
DAY = "%Y-%m-%d %H:%M:%S"

def kind_of(column):
    kind, low, high = column["type"], column.get("low", 0), column.get("high", 2**40)
    of = {"min": str(low), "max": str(high), "possible_values": []}
    if kind == "integer":
        of["possible_values"] = list(map(str, range(low, high + 1))) if high - low < LISTED else []
        return {"name": "Integer", "integer": {**of, "base": "INT64"}, "properties": {}}
    if kind == "number":
        return {"name": "Float64", "float": {**of, "base": "FLOAT64"}, "properties": {}}
    if kind == "boolean":
        return {"name": "Boolean", "boolean": {}, "properties": {}}
    if kind == "timestamp":
        of = {"min": f"{low} 00:00:00", "max": f"{high} 23:59:59", "possible_values": []}
        return {"name": "Datetime", "datetime": {**of, "format": DAY, "base": "INT64_NS"}, "properties": {}}
    of = {"encoding": "UTF-8", "possible_values": column.get("keys", [])}
    return {"name": "Text UTF-8", "text": of, "properties": {}}

def union(of):
    return {"name": "Union", "union": {"fields": of}, "properties": {"public_fields": "[]"}}

def schema_of(table):
    fields = [{"name": name, "type": kind_of(column)} for name, column in table["columns"].items()]
    return {"name": "Struct", "struct": {"fields": fields}, "properties": {}}

def size_of(table):
    fields = []
    for name, column in table["columns"].items():
        word = next(w for w in ("integer", "float", "boolean", "datetime", "text") if w in kind_of(column))
        points = {"double" if word == "float" else "integer": {"min": "-1", "max": "1", "points": []}}
        of = {"distribution": points | {"properties": {}}, "multiplicity": 1.0, "size": table["rows"]}
        fields.append({"name": name, "statistics": {"name": word.title(), word: of, "properties": {}}})
    of = {"fields": fields, "size": str(table["rows"]), "multiplicity": 1.0}
    return {"name": "Struct", "struct": of, "properties": {}}

spec = "sarus_data_spec/sarus_data_spec."
ids = [digit * 32 for digit in "123"]
named = {"dataset": ids[0], "name": "sql", "properties": {}}
made = {"transformed": {"transform": ids[0], "arguments": [], "named_arguments": {}}}
schemas = [{"name": name, "type": schema_of(table)} for name, table in tables.items()]
counted = [{"name": name, "statistics": size_of(table)} for name, table in tables.items()]
dataset = pyqrlew.Dataset.from_str(
    json.dumps({"@type": spec + "Dataset", "uuid": ids[0], "name": "sql", "spec": made}),
    json.dumps({"@type": spec + "Schema", "uuid": ids[1], **named, "type": union(schemas)}),
    json.dumps({"@type": spec + "Size", "uuid": ids[2], **named, "statistics": union(counted)}),
)
engine = duckdb.connect()
owners = []
for name, table in tables.items():
    engine.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{folder}/{name}.parquet')")
    column, _, there = table["unit"].partition(" -> ")
    other, _, key = there.partition(".")
    owners.append((name, [(column, other, key)], tables[other]["unit"]) if there else (name, [], column))

def rewritten(asked, share=1.0):
    return dataset.relation(SHARES.get(asked["question"], asked["sql"])).rewrite_with_differential_privacy(
        dataset, owners, {"epsilon": asked["epsilon"] * share, "delta": asked["delta"]},
        max_multiplicity=float(asked["cap"]), max_multiplicity_share=1.0,
    )

def gaussians(event):
    return sum(map(gaussians, event.get("events", []))) + (event["class_name"] == "GaussianDpEvent")

def answers(asked):
    share = gaussians(rewritten(asked).dp_event().to_dict()) ** -0.5
    sql = rewritten(asked, share).relation().to_query(pyqrlew.Dialect.PostgreSql)
    return [engine.execute(sql).fetchall() for _ in range(asked["runs"])]

for line in sys.stdin:
    asked = json.loads(line)
    try:
        found = {"unknown": True}
        if "MEDIAN" not in asked["sql"]:
            found = {"runs": answers(asked), "is_capped": True, "is_bounded": False}
    except BaseException as error:  # a panic is no Exception
        found = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(found, default=float), file=replies, flush=True)
"""

CODES = {"OpenDP": OPENDP_CODE, "Qrlew": QRLEW_CODE}
PEERS = tuple(replace(peer, code=CODES[peer.name]) for peer in FOUND)


@dataclass(frozen=True, slots=True)
class Peered:
    """What became of a question at a peer."""

    error: float | None = None
    cap: str = ""  # the best one, and where values were cut off
    why: str = ""  # it was not answered

    def __str__(self) -> str:
        if self.error is None:
            return f"{'-' if not self.why else 'refused':>9s} {'':14s}"
        cap = f"(cap {self.cap})" if self.cap else ""
        return f"{100 * self.error:8.2f}% {cap:14s}"

    @property
    def saved(self) -> dict[str, object]:
        return asdict(self)


def peered(
    skewed: Skewed, data: Path, truths: Mapping[str, Truth], prices: Mapping[str, float], runs: int
) -> dict[tuple[str, str], dict[str, Peered]]:
    """What becomes of all questions of a table at all totals, by peer."""
    found: dict[tuple[str, str], dict[str, Peered]] = {}
    tables: dict[str, dict[str, Any]] = tomllib.loads(skewed.policy("1"))["tables"]
    with tempfile.TemporaryDirectory(dir=data.parent) as folder:
        with duckdb.connect(str(data), read_only=True) as connection:
            for name, table in tables.items():
                table["rows"] = _exported(connection, name, Path(folder))
        for peer in PEERS:
            process = peer.start(folder, json.dumps(tables, default=str))
            try:
                for total, price in prices.items():
                    for each in skewed.questions:
                        search = Search(process, each.name, each.sql, truths[each.name], price)
                        found.setdefault((total, each.name), {})[peer.name] = search.best(runs)
                        if process.poll() is not None:
                            process = peer.start(folder, json.dumps(tables, default=str))
            finally:
                process.kill()
                process.wait()
    return found


def _exported(connection: duckdb.DuckDBPyConnection, table: str, folder: Path) -> int:
    """A table as a file, with decimals as floats, which both peers take; how many rows it has."""
    columns = connection.execute(f"SELECT * FROM {table} LIMIT 0").description or ()
    decimals = [name for name, kind, *_ in columns if str(kind).startswith("DECIMAL")]
    replaced = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in decimals)
    what = f"* REPLACE ({replaced})" if replaced else "*"
    connection.execute(f"COPY (SELECT {what} FROM {table}) TO '{folder / table}.parquet'")
    found = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    assert found is not None
    return int(found[0])


@dataclass(slots=True)
class Search:
    """Looking for the best cap of a question at a price."""

    process: subprocess.Popen[str]
    question: str
    sql: str
    truths: Truth
    price: float
    is_capped: bool = True  # whether a cap changes anything
    is_bounded: bool = False  # whether bounds of values do
    why: str = ""  # it was not answered, if it said so

    def best(self, runs: int) -> Peered:
        """What the peer comes to under the best cap."""
        few = min(FEW, runs)
        tried: dict[tuple[int, float], float] = {}
        behind = 0
        for cap in CAPS:
            found = self._asked(cap, 1.0, few)
            if found is None:  # some caps are too large for it
                break
            behind = behind + 1 if tried and found > WORSE * min(tried.values()) else 0
            tried[cap, 1.0] = found
            if behind == 2 or not self.is_capped:
                break
        if self.is_bounded:
            promising = sorted(tried, key=lambda each: tried[each])[:2]
            for cap, bound in [(c * more, b) for c, _ in promising for more in (1, 2) for b in BOUNDS]:
                if (cap, bound) not in tried and (found := self._asked(cap, bound, few)) is not None:
                    tried[cap, bound] = found
        errors = {}
        for cap, bound in sorted(tried, key=lambda each: tried[each])[:BEST]:
            if (found := self._asked(cap, bound, runs)) is not None:
                errors[cap, bound] = found
        if not errors:
            return Peered(why=self.why)
        cap, bound = min(errors, key=lambda each: errors[each])
        told = f"{cap}" + (f", {bound:.0%}" if bound != 1 else "")
        return Peered(errors[cap, bound], told if self.is_capped else "")

    def _asked(self, cap: int, bound: float, runs: int) -> float | None:
        """The mean error under a cap; none if there is no answer."""
        question = {
            "query": self.question,
            "question": self.question,
            "sql": self.sql,
            "cap": cap,
            "bound": bound,
            "epsilon": self.price,
            "delta": DELTA,
            "runs": runs,
        }
        try:
            reply = asked(self.process, question)
        except (SystemExit, BrokenPipeError):  # it died
            self.process.wait()
            self.why = "it died"
            return None
        if "runs" not in reply:
            self.why = str(reply.get("refused", ""))[:200]
            return None
        self.is_capped, self.is_bounded = reply["is_capped"], reply["is_bounded"]
        return statistics.mean(self._error(rows) for rows in reply["runs"])

    def _error(self, rows: list[list[Any]]) -> float:
        values = {tuple(_key(each) for each in keys): value for *keys, value in rows}
        off = [
            abs((values.get(key) or 0) - exact) / abs(exact) if exact else 0.0
            for key, exact in self.truths.items()
        ]
        return statistics.median(off)


def _key(value: object) -> str:
    """A key as the engine spells it: a peer may say 1.0 for 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
