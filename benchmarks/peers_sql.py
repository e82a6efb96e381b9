"""The peers of benchmarks/sql.py, each in a virtual environment of its own, made on demand below .peers/."""

from __future__ import annotations

import json
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).parents[1]

# The peers wait for a question on a line, {"query", "sql", "rows", "epsilon", "delta"}, and reply with
# {"seconds", "rows"} or {"refused"}. Arguments: the folder, the rows of each table, the public keys.
OPENDP_CODE = """
import json, os, sys, time, warnings
import polars as pl
import opendp.prelude as dp
warnings.simplefilter("ignore")
dp.enable_features("contrib")
folder, sizes, keys = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what engines print is no reply
most = 10 * sizes["visits"]  # it must be told a length that no group exceeds
everyone = dp.polars.Margin(by=[], max_length=most)
by_dept = dp.polars.Margin(by=["dept"], max_length=most, max_groups=len(keys))

def capped(asked, margins=(), rows=None, where=None):
    context = dp.Context.compositor(
        data=pl.scan_parquet(folder + "/visits.parquet"),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=asked["epsilon"], delta=asked["delta"]),
        split_evenly_over=1,
        margins=list(margins),
    )
    query = context.query() if where is None else context.query().filter(where)
    return query.truncate_per_group(rows or asked["rows"])

def rows_of(query):
    return query.release().collect().rows()

def whole(column, high):
    # sums of floats get thousands of times the noise
    return pl.col(column).cast(int).fill_null(0).dp.sum((0, high))

def answer(asked):
    name, count, public = asked["query"], dp.len(signed=True), pl.LazyFrame({"dept": keys})
    if name == "Q1":
        return rows_of(capped(asked).select(count))
    if name == "Q2":
        return rows_of(capped(asked, rows=1).select(count))
    if name == "Q3":
        groups = capped(asked, [by_dept]).group_by("dept")
        found = rows_of(groups.agg(count, whole("income", 200_000)).with_keys(public))
        return [[key, n, s, s / n if n > 0 else None] for key, n, s in found]
    if name == "Q4":
        return rows_of(capped(asked).group_by("city").agg(count))
    if name == "Q5":
        median = pl.col("age").fill_null(0).dp.median(list(range(121)))
        return rows_of(capped(asked, [by_dept]).group_by("dept").agg(median).with_keys(public))
    if name == "Q6":
        income = pl.col("income").fill_nan(0.0).fill_null(0.0).clip(0.0, 200_000.0)
        query = capped(asked, [everyone]).with_columns(square=income * income)
        sums = whole("income", 200_000), whole("square", 4 * 10**10)
        [(n, s, squares)] = rows_of(query.select(count, *sums))
        return [[squares / n - (s / n) ** 2]]
    if name == "Q8":
        where = (pl.col("income") > 50_000) & (pl.col("dept") == "dept_1")
        return rows_of(capped(asked, where=where).select(count))
    raise NotImplementedError("two tables about the same people cannot be joined")

for line in sys.stdin:
    asked = json.loads(line)
    start = time.perf_counter()
    try:
        found = {"rows": answer(asked)}
    except Exception as error:
        found = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(found | {"seconds": time.perf_counter() - start}), file=replies, flush=True)
"""

# Qrlew gives each aggregate of a question the whole epsilon; we ask for as much less as makes the Gaussians
# together cost what one costs.
QRLEW_CODE = """
import json, os, sys, time
import duckdb
import pyqrlew
folder, sizes, keys = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what engines print is no reply

def integer(low, high):
    of = {"base": "INT64", "min": str(low), "max": str(high), "possible_values": []}
    return {"name": "Integer", "integer": of, "properties": {}}

def number(low, high):
    of = {"base": "FLOAT64", "min": str(low), "max": str(high), "possible_values": []}
    return {"name": "Float64", "float": of, "properties": {}}

def text(values=()):
    of = {"encoding": "UTF-8", "possible_values": list(values)}
    return {"name": "Text UTF-8", "text": of, "properties": {}}

person = integer(0, 2**40)
tables = {
    "visits": {"user_id": person, "age": integer(0, 120), "income": number(0, 200_000), "dept": text(keys),
               "city": text()},
    "people": {"user_id": person, "home_dept": text(keys), "p_age": integer(0, 120)},
}

def union(of):
    return {"name": "Union", "union": {"fields": of}, "properties": {"public_fields": "[]"}}

def schema_of(columns):
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    return {"name": "Struct", "struct": {"fields": fields}, "properties": {}}

def size_of(table, columns):
    fields = []
    for name, kind in columns.items():
        word = next(word for word in ("integer", "float", "text") if word in kind)
        points = {"double" if word == "float" else "integer": {"min": "-1", "max": "1", "points": []}}
        of = {"distribution": points | {"properties": {}}, "multiplicity": 1.0, "size": sizes[table]}
        fields.append({"name": name, "statistics": {"name": word.title(), word: of, "properties": {}}})
    of = {"fields": fields, "size": str(sizes[table]), "multiplicity": 1.0}
    return {"name": "Struct", "struct": of, "properties": {}}

spec = "sarus_data_spec/sarus_data_spec."
ids = [digit * 32 for digit in "123"]
named = {"dataset": ids[0], "name": "sql", "properties": {}}
made = {"transformed": {"transform": ids[0], "arguments": [], "named_arguments": {}}}
schemas = [{"name": name, "type": schema_of(columns)} for name, columns in tables.items()]
counted = [{"name": name, "statistics": size_of(name, columns)} for name, columns in tables.items()]
dataset = pyqrlew.Dataset.from_str(
    json.dumps({"@type": spec + "Dataset", "uuid": ids[0], "name": "sql", "spec": made}),
    json.dumps({"@type": spec + "Schema", "uuid": ids[1], **named, "type": union(schemas)}),
    json.dumps({"@type": spec + "Size", "uuid": ids[2], **named, "statistics": union(counted)}),
)
engine = duckdb.connect()
for name in tables:
    engine.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}.parquet')")
owners = [("visits", [], "user_id"), ("people", [], "user_id")]

def rewritten(asked, share=1.0):
    return dataset.relation(asked["sql"]).rewrite_with_differential_privacy(
        dataset, owners, {"epsilon": asked["epsilon"] * share, "delta": asked["delta"]},
        max_multiplicity=float(asked["rows"]), max_multiplicity_share=1.0,
    )

def gaussians(event):
    return sum(map(gaussians, event.get("events", []))) + (event["class_name"] == "GaussianDpEvent")

shares = {}
for line in sys.stdin:
    asked, found = json.loads(line), {}
    try:
        if asked["query"] not in shares:
            shares[asked["query"]] = gaussians(rewritten(asked).dp_event().to_dict()) ** -0.5
        start = time.perf_counter()
        sql = rewritten(asked, shares[asked["query"]]).relation().to_query(pyqrlew.Dialect.PostgreSql)
        found["rows"] = engine.execute(sql).fetchall()
        found["seconds"] = time.perf_counter() - start
    except BaseException as error:  # a panic is no Exception
        found = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(found, default=float), file=replies, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody else's system: its packages and what it runs."""

    name: str
    packages: tuple[str, ...]
    code: str

    def python(self) -> Path:
        """Of its environment, which is made if need be."""
        home = ROOT / ".peers" / f"{self.name.lower()}-sql"
        if not (home / "ready").exists():
            print(f"installing {', '.join(self.packages)} below .peers/ ...", flush=True)
            venv.create(home, with_pip=True, clear=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, *self.packages], check=True)
            (home / "ready").touch()
        return home / "bin" / "python"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In a process of its own, installed if need be."""
        return subprocess.Popen(
            [str(self.python()), "-c", self.code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # panics, which are replied as well
            text=True,
        )


PEERS = (
    Peer("OpenDP", ("opendp[polars]==0.16.0",), OPENDP_CODE),
    Peer("Qrlew", ("pyqrlew==0.9.27", f"duckdb=={duckdb.__version__}"), QRLEW_CODE),  # the engine we use
)


def asked(process: subprocess.Popen[str], question: dict[str, object]) -> dict[str, Any]:
    """The reply to a question."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a peer died on {question['query']}")
    found: dict[str, Any] = json.loads(line)
    return found
