"""Neighbouring Parquet sources that DuckDB did not write: two folders that differ in rows of one person.

What an analyst may see of both must be alike: refused when they are opened, refused for free because nobody
read them through, or answered. A failure after the charge on one side only would tell which side it is.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tests.support import engine

import sfumato as sf
from sfumato.exact.secret import unseal
from sfumato.queries import policy as policies
from sfumato.sources.duckdb import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[Path], None]
    Column = pa.Array[Any]

POLICY = """
[source]
parquet = "files"
[budget]
epsilon = "1000000"
least = "0.000001"
[tables.visits]
unit = "pid"
rows_per_person = 2
[tables.visits.columns]
pid = "integer"
x = "{kind}"
"""
QUESTIONS = {
    "": (
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE pid < 3",
        "SELECT COUNT(DISTINCT x) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE x IS NULL",
        "SELECT COUNT(*) FROM (SELECT pid, COUNT(DISTINCT x) AS n FROM visits GROUP BY pid) AS p WHERE n > 1",
    ),
    "integer": (
        "SELECT COUNT(*) FROM visits WHERE x > 100",
        "SELECT SUM(LEAST(GREATEST(x, 0), 100)) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE x = pid",
    ),
    "number": (
        "SELECT COUNT(*) FROM visits WHERE x > 100",
        "SELECT COUNT(*) FROM visits WHERE x >= 0 AND x <= 0",
        "SELECT SUM(LEAST(GREATEST(x, 0), 100)) FROM visits",
        "SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.pid = b.pid AND a.x = b.x",
    ),
    "text": (
        "SELECT COUNT(*) FROM visits WHERE x = 'b'",
        "SELECT COUNT(*) FROM visits WHERE x LIKE 'caf%'",
        "SELECT COUNT(*) FROM visits WHERE LENGTH(x) > 2",
    ),
    "timestamp": (
        "SELECT COUNT(*) FROM visits WHERE x > TIMESTAMP '2020-01-01 00:00:00'",
        "SELECT COUNT(*) FROM visits WHERE EXTRACT(YEAR FROM x) = 2001",
    ),
    "date": (
        "SELECT COUNT(*) FROM visits WHERE x > DATE '2020-01-01'",
        "SELECT COUNT(*) FROM visits WHERE EXTRACT(YEAR FROM x) = 2001",
    ),
    "boolean": ("SELECT COUNT(*) FROM visits WHERE x",),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two ways to write the files of one table, and what x is declared as."""

    name: str
    kind: str
    one: Write
    other: Write

    def make(self, folder: Path) -> tuple[Path, Path]:
        """Both sources; the policies of each."""
        made = []
        for side, write in (("one", self.one), ("other", self.other)):
            files = folder / side / "files" / "visits"
            files.mkdir(parents=True)
            write(files)
            policy = folder / side / "visits.toml"
            policy.write_text(POLICY.format(kind=self.kind), encoding="utf-8")
            made.append(policy)
        return made[0], made[1]

    def questions(self) -> tuple[str, ...]:
        return QUESTIONS[""] + QUESTIONS[self.kind]


def seen(policy: Path, questions: tuple[str, ...], *, reads: bool) -> tuple[str, ...]:
    """What an analyst sees: how the folder opens, and how each question ends. Nothing else is returned."""
    if reads:
        with suppress(sf.SourceError):  # said to the owner alone
            read(policies.load(policy))
    try:
        database = sf.open(policy)
    except sf.SourceError as error:
        return (f"open: {type(error).__name__}",)
    ends = []
    for sql in questions:
        question = database.sql(sql, epsilon="0.001")
        before = database.ledger.spent
        try:
            question.release()
            ends.append("answered")
        except sf.SfumatoError as error:
            is_free = database.ledger.spent == before
            ends.append(f"{'free' if is_free else 'charged'}: {type(error).__name__}: {_public(str(error))}")
    return tuple(ends)


def _public(told: str) -> str:
    return " ".join(word for word in told.split() if "/" not in word)  # folders differ, and are public


def one_sided(pair: Pair, folder: Path) -> list[str]:
    """Questions that fail after the charge on one side only; and refusals that depend on the question."""
    troubles = []
    sides = [seen(policy, pair.questions(), reads=True) for policy in pair.make(folder)]
    for side in sides:
        if len(set(side)) > 1:
            troubles.append(f"{pair.name}: what is seen depends on the question: {set(side)}")
    if any(end.startswith("charged") for side in sides for end in side) and sides[0] != sides[1]:
        troubles.append(f"{pair.name}: {sides[0]} against {sides[1]}")
    if any("open" in side[0] for side in sides) and sides[0] != sides[1]:
        troubles.append(f"{pair.name}: one side opens: {sides[0]} against {sides[1]}")
    shutil.rmtree(folder, ignore_errors=True)
    return troubles


def answers(policy: Path, questions: tuple[str, ...]) -> list[Any]:
    """Exact answers, which no user can reach, from an optimizing engine and from a plain one."""
    read(policies.load(policy))
    database = sf.open(policy)
    found = []
    for sql in questions:
        plan = database.sql(sql, epsilon="1").plan
        texts = database.source.compile(plan).texts
        engines = [engine(database.source, plain=plain) for plain in (False, True)]
        rows = [[Counter(engine.execute(text).fetchall()) for text in texts] for engine in engines]
        assert rows[0] == rows[1], sql
        found.append(unseal(database.source.run(database.source.compile(plan))).vectors)
    return found


# Files ------------------------------------------------------------------------------------------------


def raw_text(values: list[bytes | None]) -> Column:
    """Bytes as text, right or wrong."""
    held = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers(), held.null_count)


def raw(values: list[int], kind: pa.DataType) -> Column:
    """Integers as a type of eight bytes, whether or not it can hold them."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.array(values, pa.int64()).buffers()[1]])


def table(x: Column, **more: Column) -> pa.Table:
    return pa.table({"pid": pa.array(range(1, len(x) + 1), pa.int64()), "x": x, **more})


def arrow(*tables: pa.Table, **options: Any) -> Write:
    """Files written by pyarrow."""

    def write(folder: Path) -> None:
        for number, each in enumerate(tables):
            pq.write_table(each, folder / f"{number}.parquet", **options)

    return write


def pandas(*frames: pd.DataFrame) -> Write:
    """Files written by pandas."""

    def write(folder: Path) -> None:
        for number, frame in enumerate(frames):
            frame.to_parquet(folder / f"{number}.parquet", index=False)

    return write


def polars(*frames: pl.DataFrame, **options: Any) -> Write:
    """Files written by polars."""

    def write(folder: Path) -> None:
        for number, frame in enumerate(frames):
            frame.write_parquet(folder / f"{number}.parquet", **options)

    return write


def pairs() -> Iterator[Pair]:
    """All of them."""
    yield from _of_several_types()
    yield from _unreadable()
    yield from _of_many_kinds()
    yield from _of_other_writers()


def _of_several_types() -> Iterator[Pair]:
    first = table(pa.array([1, 2], pa.int32()))

    def second(x: Column, pid: Column | None = None) -> pa.Table:
        return pa.table({"pid": pa.array([3], pa.int64()) if pid is None else pid, "x": x})

    for kind, one, other in (
        (pa.int64(), 5, 3_000_000_000),
        (pa.float64(), 5.0, float("nan")),
        (pa.float64(), None, 1e300),
        (pa.string(), "5", "n/a"),
        (pa.uint32(), 5, 4_000_000_000),
        (pa.decimal128(20, 2), Decimal(5), Decimal("99999999999.99")),
        (pa.binary(), b"5", b"\xe9"),
    ):
        sides = [arrow(first, second(pa.array([value], kind))) for value in (one, other)]
        yield Pair(f"integers and {kind}", "integer", *sides)
    ids = [
        arrow(
            pa.table({"pid": pa.array([1, 2], pa.int32()), "x": pa.array([1, 2], pa.int32())}),
            second(pa.array([1], pa.int32()), pa.array([value], pa.int64())),
        )
        for value in (5_000, 3_000_000_000)
    ]
    yield Pair("ids of two types", "integer", *ids)
    scales = [
        arrow(
            table(pa.array([Decimal(1)], pa.decimal128(5, 2))),
            table(pa.array([Decimal(value)], pa.decimal128(9, 1))),
        )
        for value in (1, 99_999_999)
    ]
    yield Pair("decimals of two scales", "number", *scales)
    days = pa.array([1, 2], pa.int32()).view(pa.date32())
    moments = [
        arrow(table(days), table(raw([value], pa.timestamp("us")))) for value in (86_400_000_000, 2**62)
    ]
    yield Pair("dates and moments", "date", *moments)
    zones = [
        arrow(
            table(raw([10**15], pa.timestamp("us"))),
            table(raw([value], pa.timestamp("us", tz="Europe/Rome"))),
        )
        for value in (10**15, 2**62)
    ]
    yield Pair("moments with and without a zone", "timestamp", *zones)
    missing = [arrow(first, pa.table({"pid": [3] * rows})) for rows in (1, 2)]
    yield Pair("a column that one file lacks", "integer", *missing)
    doubled = [
        arrow(pa.table([pa.array([1]), pa.array([2]), pa.array([value])], names=["pid", "x", "X"]))
        for value in ("3", "n/a")
    ]
    yield Pair("two columns of one name", "integer", *doubled)


def _unreadable() -> Iterator[Pair]:
    encodings: dict[str, dict[str, Any]] = {
        "plain": {"use_dictionary": False},
        "dictionary": {},
        "without statistics": {"use_dictionary": False, "write_statistics": False},
        "delta": {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}},
        "delta of lengths": {"use_dictionary": False, "column_encoding": {"x": "DELTA_LENGTH_BYTE_ARRAY"}},
        "second pages": {"data_page_version": "2.0"},
        "small row groups": {"row_group_size": 1},
        "zstd": {"compression": "zstd"},
    }
    for name, options in encodings.items():
        sides = [
            arrow(table(raw_text([b"a", None, value, b"b"])), **options)
            for value in (b"caf\xc3\xa9", b"caf\xe9")
        ]
        yield Pair(f"text that is not UTF-8, {name}", "text", *sides)
    two = [
        arrow(table(raw_text([b"a"])), table(raw_text([value])))
        for value in (b"caf\xc3\xa9", b"caf\xe9 \xff")
    ]
    yield Pair("text that is not UTF-8, in the second file", "text", *two)
    for moment in (2**62, -(2**62), -(2**63)):
        sides = [arrow(table(raw([10**12, value], pa.timestamp("ms")))) for value in (10**12, moment)]
        yield Pair(f"a moment of {moment} ms", "timestamp", *sides)
    for damage in (1, 40):
        good = table(pa.array(range(5_000)))
        yield Pair(f"a page of which {damage} bytes are lost", "integer", arrow(good), damaged(good, damage))


def damaged(good: pa.Table, many: int) -> Write:
    """A file of which some bytes in the middle of its pages are gone."""

    def write(folder: Path) -> None:
        file = folder / "0.parquet"
        pq.write_table(good, file, use_dictionary=False)
        held = bytearray(file.read_bytes())
        held[len(held) // 4 : len(held) // 4 + many] = b"\xff" * many
        file.write_bytes(bytes(held))

    return write


def _of_many_kinds() -> Iterator[Pair]:
    def both(name: str, kind: str, one: Column, other: Column, **options: Any) -> Pair:
        return Pair(name, kind, arrow(table(one), **options), arrow(table(other), **options))

    kind: Any
    held: Any
    for unit in ("us", "ns"):
        for moment in (2**62, -(2**62), -(2**63)):
            held = [raw([10**15, value], pa.timestamp(unit)) for value in (10**15, moment)]
            yield both(f"a moment of {moment} {unit}", "timestamp", *held)
    old = [raw([10**15, value], pa.timestamp("ns")) for value in (10**15, 2**62)]
    yield both("moments of 96 bits", "timestamp", *old, use_deprecated_int96_timestamps=True)
    days = [pa.array([1, value], pa.int32()).view(pa.date32()) for value in (2, 2**31 - 1)]
    yield both("days", "date", *days)
    longer = [raw([86_400_000, 86_400_000 * value], pa.date64()) for value in (2, 2**30)]
    yield both("days of 64 bits", "date", *longer)
    for kind, one, other in (
        (pa.uint64(), 5, 2**64 - 1),
        (pa.uint8(), 5, 255),
        (pa.int8(), 5, -128),
        (pa.int64(), 5, -(2**63)),
    ):
        yield both(f"{kind}", "integer", *(pa.array([1, value], kind) for value in (one, other)))
    for kind, held in ((pa.float64(), np.float64), (pa.float32(), np.float32), (pa.float16(), np.float16)):
        for value in (float("nan"), float("inf"), -0.0):
            sides = [pa.array(np.array([1, 50, each], held), kind) for each in (2.0, value)]
            yield both(f"{kind} {value}", "number", *sides)
    for precision, scale in ((5, 2), (18, 2), (38, 2)):
        most = Decimal("9" * (precision - scale) + "." + "9" * scale)
        sides = [
            pa.array([Decimal(1), value], pa.decimal128(precision, scale)) for value in (Decimal(2), most)
        ]
        yield both(f"decimal {precision}", "number", *sides)
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        sides = [pa.array(["a", None, value]).cast(kind) for value in ("b", "caf\xe9 \U0001f600\0")]
        yield both(f"{kind}", "text", *sides)
    yield both("bytes", "text", pa.array([b"a", b"b"]), pa.array([b"a", b"\xe9"]))
    yield both("truth", "boolean", pa.array([True, None]), pa.array([True, False]))
    yield both("nothing", "integer", pa.array([1, 2], pa.int32()), pa.array([1, None], pa.int32()))
    broken = [
        arrow(
            table(
                pa.array([1, 2]),
                tags=pa.array([[{"a": "b"}], None]),
                note=pa.array(["{}", value], pa.json_()),
                latin=raw_text([b"a", latin]),
            )
        )
        for value, latin in (("{}", b"b"), ("{", b"caf\xe9"))
    ]
    yield Pair("columns that are not declared", "integer", *broken)
    empty = [arrow(table(pa.array([1], pa.int64())), second) for second in _with_nobody()]
    yield Pair("a file in which nobody has a value", "integer", *empty)


def _with_nobody() -> tuple[pa.Table, pa.Table]:
    return table(pa.nulls(2)), table(pa.array([None, None], pa.int64()))


def _of_other_writers() -> Iterator[Pair]:
    def frame(x: Any) -> pd.DataFrame:
        return pd.DataFrame({"pid": range(1, len(x) + 1), "x": x})

    made: tuple[tuple[str, str, Any, Any], ...] = (
        ("nullable integers", "integer", pd.array([1, 2], "Int64"), pd.array([1, None], "Int64")),
        ("floats", "number", np.array([1.0, 2.0]), np.array([1.0, np.nan])),
        ("categories", "text", pd.Categorical(["a", "b"]), pd.Categorical(["a", None])),
        ("texts", "text", ["a", "b"], ["a", None]),
        ("objects", "text", pd.Series(["a", "b"], dtype=object), pd.Series(["a", None], dtype=object)),
    )
    for name, kind, one, other in made:
        yield Pair(f"pandas, {name}", kind, pandas(frame(one)), pandas(frame(other)))
    both = [pandas(frame(np.array([1, 2])), frame(np.array(x))) for x in ([1.0, 2.0], [1.0, np.nan])]
    yield Pair("pandas, a missing value made floats", "integer", *both)

    def held(x: Any) -> pl.DataFrame:
        return pl.DataFrame({"pid": range(1, len(x) + 1), "x": x})

    more: tuple[tuple[str, str, Any, Any], ...] = (
        ("floats", "number", [1.0, 50.0, 2.0], [1.0, 50.0, float("nan")]),
        ("texts", "text", ["a", "b", "c"], ["a", "b", "caf\xe9" * 100]),
        ("long texts", "text", ["a" * 200, "b" * 200], ["a" * 200, "\U0010ffff" * 200]),
        ("integers", "integer", [1, 2], [1, None]),
    )
    for name, kind, one, other in more:
        sides = [polars(held(x), row_group_size=1) for x in (one, other)]
        yield Pair(f"polars, {name}", kind, *sides)
    types: list[Any] = [pl.Categorical, pl.Enum(["a", "b"])]
    for dtype in types:
        sides = [polars(held(pl.Series(x, dtype=dtype))) for x in (["a", "b"], ["a", None])]
        yield Pair(f"polars, {dtype}", "text", *sides)
