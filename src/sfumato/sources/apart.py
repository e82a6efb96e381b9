"""What is made of released rows, run apart from all data.

The engine lives in a process of its own (`confined`), which sees the shown rows that are put into it and
nothing else: no file, network, extension or object of Python. It has one thread, and the system stops it when
it takes too long or needs too much memory. So a query over released rows can neither learn anything that was
not released, nor hold a server. It is no `Source`: nothing here is secret.
"""

from __future__ import annotations

import atexit
import datetime
import decimal
import io
import math
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import AfterRelease
from sfumato.queries.made import ListedRows, MadeSelect, MadeUnion, PublicRows, ShownRows, public_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.queries.made import Made, MadeKind, MadeOrder, MadeQuery, MadeWindow

SECONDS = 10.0  # that a query over released rows may take
CHECK_SECONDS = 2.0  # that it takes to find out whether an engine can make anything of it
AT_ONCE = 3  # queries that run at the same time; others wait
MOST_MADE_ROWS = 200_000  # that a query may give
MOST_SHOWN_IN_WINDOWS = 3_000  # rows whose windows can be told row by row: each may hold all of them
LONGEST_VALUE, LONGEST_QUERY = 20_000, 300_000  # letters of what is printed
_TYPES: dict[MadeKind, str] = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "interval": "INTERVAL",
    "null": "INTEGER",
}
_WHY = {
    "time": f"it takes longer than {SECONDS:g} seconds",
    "memory": "it needs too much memory",
    "range": "a number in it becomes too large",
    "several": "a subquery that must give one value gives several",
    "types": "its values do not fit together",
    "rows": f"it has more than {MOST_MADE_ROWS:,} rows, or too many values in all",
    "letters": "its texts are too long",
}


@dataclass(frozen=True, slots=True)
class ShownTable:
    """Shown rows as they are put into the engine: columns of values."""

    kinds: tuple[MadeKind, ...]
    columns: tuple[Sequence[Any], ...]


def made(
    query: MadeQuery,
    tables: Sequence[ShownTable],
    public: Sequence[ShownTable] = (),
    seconds: float = SECONDS,
    *,
    is_check: bool = False,
) -> list[tuple[Any, ...]]:
    """The rows of a query over shown rows and those of public tables: its columns, then the hidden ones.

    It is only checked with rows of nothing. Where hidden columns would be too many, they are left out.
    """
    told, count = printed(query), sum(len(each.columns[0]) if each.columns else 0 for each in tables)
    given = [
        _filled(f"{name}{i}", each)
        for name, some in (("q", tables), ("p", public))
        for i, each in enumerate(some)
    ]
    alone = f"SELECT {_columns(len(query.columns))} FROM ({told})"
    if query.hidden and count > MOST_SHOWN_IN_WINDOWS and " list(" in told:
        told = alone
    where = CHECKED if is_check else CONFINED
    job = {"tables": given, "sql": told, "most": MOST_MADE_ROWS}
    word, rows = where.run(job, CHECK_SECONDS if is_check else seconds)
    if is_check and word in ("time", "memory", "rows", "letters"):  # which depend on how many rows there are
        return []
    if word in ("rows", "letters", "memory", "time") and query.hidden and told != alone and not is_check:
        word, rows = CONFINED.run({"tables": given, "sql": alone, "most": MOST_MADE_ROWS}, seconds)
    if word != "made":
        raise AfterRelease(_WHY[word])
    return [tuple(map(_plain, row)) for row in rows]


def _filled(name: str, table: ShownTable) -> tuple[str, list[str], list[list[Any]]]:
    kinds = [_type(kind, values) for kind, values in zip(table.kinds, table.columns, strict=True)]
    return name, kinds, [list(values) for values in table.columns]


@dataclass(slots=True)
class Confinement:
    """The processes in which queries over released rows run: started when they are needed, and kept."""

    idle: list[subprocess.Popen[bytes]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def run(self, job: dict[str, Any], seconds: float) -> tuple[str, Any]:
        """The rows of a job, or one word for why there are none."""
        with self.turns:
            process, told = self._taken(), None
            try:
                told = _asked(process, pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL), seconds)
            finally:
                if told is None:  # what it still says would be taken for the next answer
                    _end(process)
            if told is None:
                return ("time" if process.returncode == -signal.SIGALRM else "memory"), None
            with self.lock:
                self.idle.append(process)
            return told

    def _taken(self) -> subprocess.Popen[bytes]:
        with self.lock:
            while self.idle:
                process = self.idle.pop()
                if process.poll() is None:
                    return process
                _end(process)
        script = str(Path(__file__).with_name("confined.py"))
        return subprocess.Popen(
            [sys.executable, "-I", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, cwd="/"
        )

    def end(self) -> None:
        """End all that wait for something to do."""
        with self.lock:
            for process in self.idle:
                _end(process)
            self.idle.clear()

    def forked(self) -> None:
        """In a copy of this process: they belong to the one that started them."""
        for process in self.idle:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.returncode = 0  # it is not waited for here
        self.idle, self.lock = [], threading.Lock()
        self.turns = threading.Semaphore(AT_ONCE)


class _Values(pickle.Unpickler):
    """What comes back are plain values: whoever took over that process can make nothing else here."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN_CLASSES:
            return super().find_class(module, name)
        raise pickle.UnpicklingError("no value of a query")


_PLAIN_CLASSES = {("decimal", "Decimal"), ("uuid", "UUID")}
_PLAIN_CLASSES |= {("datetime", name) for name in ("date", "datetime", "time", "timedelta")}


def _asked(process: subprocess.Popen[bytes], job: bytes, seconds: float) -> tuple[str, Any] | None:
    """What a process answers; nothing if it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(struct.pack("!Qf", len(job), seconds) + job)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    head = process.stdout.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("!Q", head)
    body = process.stdout.read(size)
    if len(body) < size:
        return None
    word, rows = _Values(io.BytesIO(body)).load()
    return word, rows


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what was not sent is lost
                pipe.close()
    process.wait()


CONFINED, CHECKED = Confinement(), Confinement()  # what only is looked at does not wait for what runs
for _each in (CONFINED, CHECKED):
    os.register_at_fork(after_in_child=_each.forked)
    atexit.register(_each.end)


def _type(kind: MadeKind, values: Sequence[Any]) -> str:
    if kind == "integer" and any(v is not None and abs(v) >= 1 << 63 for v in values):
        return "HUGEINT"
    return _TYPES[kind]


def _plain(value: Any) -> Any:
    """Infinity and what is no number have no value here, as everywhere in a release; intervals are texts."""
    if isinstance(value, datetime.timedelta):
        return _length_of_time(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _length_of_time(value: datetime.timedelta) -> str:
    """As engines write it: 367 days 03:04:05."""
    sign = "-" if value < datetime.timedelta() else ""
    value = abs(value)
    hours, seconds = divmod(value.seconds, 3600)
    clock = f"{sign}{hours:02}:{seconds // 60:02}:{seconds % 60:02}"
    clock += f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    if not value.days:
        return clock
    days = f"{sign}{value.days} day{'s' if value.days > 1 else ''}"
    return f"{days} {clock}" if value.seconds or value.microseconds else days


# Printing ------------------------------------------------------------------------------------------------


def printed(query: MadeQuery) -> str:
    """A query over shown rows, as the engine reads it."""
    printer = _MadePrinter(public_rows(query))
    body = printer.body(query, is_last=True)
    told = f"WITH {', '.join(printer.parts)}\n{body}" if printer.parts else body
    if len(told) > LONGEST_QUERY:
        raise AfterRelease("the query becomes too long when it is written out")
    return told


class _MadePrinter:
    """Prints queries; those in FROM are named first, each once."""

    def __init__(self, public: list[PublicRows]) -> None:
        self.public = public
        self.parts: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[MadeQuery] = []  # so that no other object gets their identity
        self.bodies: dict[str, MadeQuery] = {}  # what stands in FROM, by its alias

    def named(self, query: MadeQuery) -> str:
        """What a query is called in FROM."""
        if isinstance(query, ShownRows):
            return f"q{query.number}"
        if isinstance(query, PublicRows):
            return f"p{self.public.index(query)}"
        if id(query) not in self.names:
            body = self.body(query)
            name = f"w{len(self.parts)}"
            self.parts.append(f"{name} AS ({body})")
            self.names[id(query)] = name
            self.kept.append(query)
        return self.names[id(query)]

    def body(self, query: MadeQuery, *, is_last: bool = False) -> str:
        match query:
            case ShownRows():
                return f"SELECT {_columns(len(query.columns))} FROM q{query.number}"
            case PublicRows():
                return f"SELECT {_columns(len(query.columns))} FROM {self.named(query)}"
            case ListedRows():
                return self.listed(query)
            case MadeUnion():
                return self.union(query)
        return self.select(query, is_last)

    def listed(self, query: ListedRows) -> str:
        if query.is_series:
            (parts,) = query.rows
            kind = _TYPES[query.columns[0].kind]
            given = ", ".join(
                self.cast(each, kind) if each.kind != "interval" else self.value(each) for each in parts
            )
            return f"SELECT c0 FROM generate_series({given}) AS g(c0)"
        kinds = [_TYPES[column.kind] for column in query.columns]
        rows = []
        for row in query.rows:
            rows.append(
                f"({', '.join(self.cast(each, kind) for each, kind in zip(row, kinds, strict=True))})"
            )
        return f"SELECT * FROM (VALUES {', '.join(rows)}) AS v({_columns(len(kinds))})"

    def cast(self, value: Made, kind: str) -> str:
        return f"CAST({self.value(value)} AS {kind})"

    def union(self, query: MadeUnion) -> str:
        kinds = [_TYPES[column.kind] for column in query.columns]
        parts, before = [], 1
        for index, part in enumerate(query.parts):
            items = [f"CAST(p.c{i} AS {kind}) AS c{i}" for i, kind in enumerate(kinds)]
            if query.hidden:
                own = {before + at: f"p.r{at}" for at in range(part.hidden)}
                items.append(f"{index} AS r0")
                items += [f"{own.get(at, 'NULL')} AS r{at}" for at in range(1, query.hidden)]
                before += part.hidden
            parts.append(f"SELECT {', '.join(items)} FROM {self.named(part)} AS p")
        return f" {query.word} ".join(parts)

    def select(self, query: MadeSelect, is_last: bool) -> str:
        sources: list[str] = []
        for source in query.sources:
            self.bodies[source.alias] = source.body
            named = f"{self.named(source.body)} AS {source.alias}"
            on = "" if source.on is None else f" ON {self.value(source.on)}"
            sources.append(f"{source.join} {named}{on}" if sources else named)
        items = [f"{self.value(item)} AS c{i}" for i, item in enumerate(query.items)]
        items += [f"{self.value(row)} AS r{i}" for i, row in enumerate(query.rows)]
        parts = [f"SELECT {'DISTINCT ' if query.distinct else ''}{', '.join(items)}"]
        if sources:
            parts.append(f"FROM {' '.join(sources)}")
        if query.where is not None:
            parts.append(f"WHERE {self.value(query.where)}")
        if query.group:
            parts.append(f"GROUP BY {', '.join(map(self.value, query.group))}")
        for word, condition in (("HAVING", query.having), ("QUALIFY", query.qualify)):
            if condition is not None:
                parts.append(f"{word} {self.value(condition)}")
        cuts = query.limit is not None or query.offset is not None
        order = [self.order(each, query) for each in query.order]
        if (is_last or cuts) and query.sources and _keeps_rows(query):
            first = query.sources[0]
            order += [f"{first.alias}.r0"] if isinstance(first.body, ShownRows) else []
        elif is_last and not order:
            places = sorted(range(len(query.items)), key=lambda i: query.items[i].noisy)
            order = [str(i + 1) for i in places]
        if order:
            parts.append(f"ORDER BY {', '.join(order)}")
        if query.limit is not None:
            parts.append(f"LIMIT {query.limit}")
        if query.offset is not None:
            parts.append(f"OFFSET {query.offset}")
        return " ".join(parts)

    def order(self, each: MadeOrder, query: MadeSelect | None = None) -> str:
        by = self.value(each.by)
        if query is not None and each.by in query.items:
            by = str(query.items.index(each.by) + 1)
        elif query is not None:
            by = f"({by})"  # a number alone would be a position
        way = "DESC" if each.descending else "ASC"
        return f"{by} {way} NULLS {'FIRST' if each.nulls_first else 'LAST'}"

    # Values -------------------------------------------------------------------------------------------

    def value(self, made: Made) -> str:
        """A value, in brackets wherever that could matter."""
        told = self.written(made)
        if len(told) > LONGEST_VALUE:  # some functions write an argument several times
            raise AfterRelease("an expression becomes too long when it is written out")
        return told

    def written(self, made: Made) -> str:
        if made.word == "over":
            assert made.over is not None
            return f"{self.value(made.parts[0])} OVER ({self.window(made.over)})"
        if made.word == "list":
            place, *conditions = map(self.value, made.parts)
            chosen = f" FILTER (WHERE {conditions[0]})" if conditions else ""
            over = f" OVER ({self.window(made.over)})" if made.over is not None else ""
            return f"list({place}){chosen}{over}"
        if made.query is not None:
            return self.subquery(made)
        found: str = _PRINTED[made.word](self, made)
        return found

    def subquery(self, made: Made) -> str:
        assert made.query is not None
        name = self.named(made.query)
        if made.word == "exists":
            return f"EXISTS (SELECT 1 FROM {name})"
        if made.word == "in query":
            return f"({self.value(made.parts[0])} IN (SELECT c0 FROM {name}))"
        column = "r" if made.word == "scalar row" else "c"
        return f"(SELECT {column}{made.text} FROM {name})"

    def window(self, over: MadeWindow) -> str:
        parts = []
        if over.partition:
            parts.append(f"PARTITION BY {', '.join(map(self.value, over.partition))}")
        if over.order:
            parts.append(f"ORDER BY {', '.join(map(self.order, over.order))}")
        return " ".join([*parts, over.frame]).strip()

    def column(self, made: Made) -> str:
        alias, _, name = made.text.partition("\0")
        if made.word == "row":
            return f"{alias}.r{name}"
        names = [column.name for column in self.bodies[alias].columns]
        return f"{alias}.c{names.index(name)}"

    def as_text(self, made: Made) -> str:
        """A value as a text; whole numbers without a point."""
        told = self.value(made)
        if made.kind != "number":
            return f"CAST({told} AS VARCHAR)"
        return (
            f"CASE WHEN {told} = floor({told}) AND abs({told}) < 1e15 "
            f"THEN CAST(CAST({told} AS BIGINT) AS VARCHAR) ELSE CAST({told} AS VARCHAR) END"
        )

    def alike(self, parts: Sequence[Made]) -> list[str]:
        """Values beside each other: a text beside a date is read as one."""
        kinds = {each.kind for each in parts}
        wanted = next((kind for kind in ("timestamp", "date") if kind in kinds), None)
        return [
            f"TRY_CAST({self.value(each)} AS {_TYPES[wanted]})"
            if wanted is not None and each.kind == "text"
            else self.value(each)
            for each in parts
        ]

    def among(self, made: Made) -> str:
        first, *others = self.alike(made.parts)
        return f"({first} IN ({', '.join(others)}))"

    def call(self, made: Made) -> str:
        """A function that is called as it is."""
        return f"{made.word}({', '.join(map(self.value, made.parts))})"

    def choice(self, made: Made) -> str:
        """A function that gives one of its arguments."""
        return f"{made.word}({', '.join(self.alike(made.parts))})"

    def aggregate(self, made: Made) -> str:
        inner = ", ".join(map(self.value, made.parts)) or ("" if made.word == "window" else "*")
        return f"{made.text}({'DISTINCT ' if made.word.endswith('distinct') else ''}{inner})"

    def operator(self, made: Made) -> str:
        a, b = map(self.value, made.parts)
        if made.text == "/":
            a = f"CAST({a} AS DOUBLE)" if made.parts[0].kind == "integer" else a
        divisor = f"nullif({b}, 0)" if made.text in ("/", "//", "%") else b
        if made.text == "//" and made.kind == "number":
            return f"trunc({a} / {divisor})"
        if made.kind == "date":  # a number of days is a small integer
            kinds = [each.kind for each in made.parts]
            a, divisor = (
                f"CAST({one} AS INTEGER)" if kind == "integer" else one
                for one, kind in zip((a, divisor), kinds, strict=True)
            )
        found = f"({a} {made.text} {divisor})"
        return f"CAST({found} AS DATE)" if made.kind == "date" else found

    def case(self, made: Made) -> str:
        *pairs, otherwise = made.parts
        values = self.alike([*pairs[1::2], otherwise])
        branches = zip(pairs[0::2], values[:-1], strict=True)
        told = " ".join(f"WHEN {self.value(condition)} THEN {value}" for condition, value in branches)
        return f"CASE {told} ELSE {values[-1]} END"

    def cast_to(self, made: Made) -> str:
        (inner,) = made.parts
        if made.kind == "text":
            return self.as_text(inner)
        told = self.value(inner)
        if made.text:
            told = f"TRY_CAST({told} AS DECIMAL(38, {made.text.partition(' ')[2]}))"
        return f"TRY_CAST({told} AS {_TYPES[made.kind]})"

    def only(self, made: Made, condition: str, word: str) -> str:
        told = [self.value(each) for each in made.parts]
        return f"CASE WHEN {condition.format(*told)} THEN {word}({', '.join(told)}) END"

    def trunc(self, made: Made) -> str:
        found = f"date_trunc('{made.text}', {self.value(made.parts[0])})"
        return f"CAST({found} AS {_TYPES[made.kind]})"

    def diff(self, made: Made) -> str:
        ends = [f"TRY_CAST({self.value(each)} AS TIMESTAMP)" for each in made.parts]
        return f"date_diff('{made.text}', {ends[0]}, {ends[1]})"


def _literal(_: _MadePrinter, made: Made) -> str:
    return "'" + made.text.replace("'", "''") + "'"


def _exactly(form: str) -> Any:
    """A function that rounds decimals, of what is a double here: as of the nearest decimal of nine digits."""

    def printed_(printer: _MadePrinter, made: Made) -> str:
        told = printer.value(made.parts[0])
        decimal_ = form.format(f"TRY_CAST({told} AS DECIMAL(38, 9))", text=made.text)
        return f"coalesce(CAST({decimal_} AS DOUBLE), {form.format(told, text=made.text)})"

    return printed_


def _since(printer: _MadePrinter, made: Made) -> str:
    """A moment so many days, or seconds, after another."""
    count = printer.value(made.parts[0])
    if made.kind == "date":
        return f"(DATE '{made.text}' + CAST({count} AS INTEGER))"
    return f"(TIMESTAMP '{made.text}' + to_seconds(CAST({count} AS BIGINT)))"


def _two(form: str) -> Any:
    def printed_(printer: _MadePrinter, made: Made) -> str:
        a, *others = printer.alike(made.parts)
        return form.format(a, *others, sign=made.text)

    return printed_


_PRINTED: dict[str, Any] = {
    "column": _MadePrinter.column,
    "row": _MadePrinter.column,
    "number": lambda _, made: made.text,
    "text": _literal,
    "boolean": lambda _, made: made.text,
    "null": lambda *_: "NULL",
    "interval": lambda _, made: f"INTERVAL ({made.text.split()[0]}) {made.text.split()[1]}",
    "double text": lambda p, made: f"CAST({p.value(made.parts[0])} AS VARCHAR)",
    "end": lambda p, made: p.value(made.parts[0]),
    "negate": lambda p, made: f"(-{p.value(made.parts[0])})",
    "operator": _MadePrinter.operator,
    "compare": _two("({} {sign} {})"),
    "compare exactly": _two("(TRY_CAST({} AS DECIMAL(38, 9)) {sign} TRY_CAST({} AS DECIMAL(38, 9)))"),
    "like": _two("({} {sign} {})"),
    "between": _two("({} BETWEEN {} AND {})"),
    "in": _MadePrinter.among,
    "and": lambda p, made: f"({' AND '.join(map(p.value, made.parts))})",
    "or": lambda p, made: f"({' OR '.join(map(p.value, made.parts))})",
    "not": lambda p, made: f"(NOT {p.value(made.parts[0])})",
    "is null": lambda p, made: f"({p.value(made.parts[0])} IS NULL)",
    "is": lambda p, made: f"({p.value(made.parts[0])} IS {made.text})",
    "case": _MadePrinter.case,
    "cast": _MadePrinter.cast_to,
    "round": lambda p, made: f"round({p.value(made.parts[0])}, {made.text})",
    "round exactly": _exactly("round({}, {text})"),
    "floor exactly": _exactly("floor({})"),
    "ceil exactly": _exactly("ceil({})"),
    "round even": lambda p, made: f"round_even({p.value(made.parts[0])}, 0)",
    "trunc": _MadePrinter.trunc,
    "diff": _MadePrinter.diff,
    "since": _since,
    "part": lambda p, made: f"date_part('{made.text}', {p.value(made.parts[0])})",
    "aggregate": _MadePrinter.aggregate,
    "aggregate distinct": _MadePrinter.aggregate,
    "filter": lambda p, made: f"{p.value(made.parts[0])} FILTER (WHERE {p.value(made.parts[1])})",
    "window": _MadePrinter.aggregate,
    "window ignoring": lambda p, made: f"{made.text}({', '.join(map(p.value, made.parts))} IGNORE NULLS)",
    "safe divide": _two("({} / nullif({}, 0))"),
    "trunc number": lambda p, made: f"trunc({p.value(made.parts[0])})",
    "sqrt": lambda p, made: p.only(made, "{0} >= 0", "sqrt"),
    "ln": lambda p, made: p.only(made, "{0} > 0", "ln"),
    "log": lambda p, made: p.only(made, " AND ".join(f"{{{i}}} > 0" for i in range(len(made.parts))), "log"),
    "power": lambda p, made: p.only(made, "{0} > 0 OR ({0} = 0 AND {1} >= 0) OR {1} = floor({1})", "power"),
    "concat": lambda p, made: f"concat({', '.join(map(p.as_text, made.parts))})",
    "||": lambda p, made: f"({' || '.join(map(p.as_text, made.parts))})",
    **dict.fromkeys(("least", "greatest", "coalesce", "nullif"), _MadePrinter.choice),
    **dict.fromkeys(
        (
            *(
                "abs",
                "sign",
                "floor",
                "ceil",
                "exp",
                "lower",
                "upper",
            ),
            *("trim", "length", "reverse", "left", "right", "substring", "replace", "split_part", "strpos"),
            *("starts_with", "contains", "strftime", "monthname", "dayname", "last_day"),
        ),
        _MadePrinter.call,
    ),
}


def _columns(count: int) -> str:
    return ", ".join(f"c{i}" for i in range(count))


def _keeps_rows(query: MadeSelect) -> bool:
    """Whether each of its rows is one of the first source's."""
    is_aggregated = bool(query.group) or query.having is not None or any(_adds(each) for each in query.items)
    return not query.distinct and not is_aggregated


def _adds(made: Made) -> bool:
    """Whether rows are added up in it."""
    if made.word == "over":
        return any(_adds(each) for each in made.parts[0].parts)
    return made.word in ("aggregate", "aggregate distinct", "filter") or any(
        _adds(each) for each in made.parts
    )
