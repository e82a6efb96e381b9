"""A database behind a server: the same acts, as requests."""

from __future__ import annotations

import csv
import datetime
import http.client
import io
import ipaddress
import json
import math
import os
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sfumato
from sfumato import errors
from sfumato.curator import show
from sfumato.errors import AccessDenied, InvalidParameter, QueryRefused, ServerError, SfumatoError
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms.guarantee import FINER, Guarantee, decimal
from sfumato.queries.lexing import signs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas
    import polars
    import pyarrow

    from sfumato.curator.face import Level
    from sfumato.curator.within import Within
    from sfumato.mechanisms.guarantee import Number

LEVEL = "0.95"
TRIES = 4  # of a request whose answer was lost
PAUSE = 0.2  # seconds before the second try, and twice as long before each other one
SECONDS = 3600.0  # for an answer: deadlines may be long


def connect(
    url: str,
    *,
    token: str | None = None,
    certificate: str | None = None,
    epsilon: Number | None = None,
    rho: Number | None = None,
    delta: Number | None = None,
    intervals: bool = False,
    plain: bool = False,
) -> RemoteDatabase:
    """A database behind `sfumato serve`, asked over HTTP: sf.connect("https://ana@host:8470/hospital").

    The token is given here, in the URL (https://ana:TOKEN@host/hospital), or in SFUMATO_TOKEN. `certificate`
    is a file of certificates to trust besides those of the system. A price given here is that of every
    question that names none, and of cursors; with `intervals`, cursors give the ends of intervals, too.
    `plain` allows http:// to another machine, if the way to it is safe.
    """
    parts = urllib.parse.urlsplit(url)
    name = parts.path.strip("/")
    if parts.scheme not in ("http", "https") or not parts.hostname or not name or "/" in name:
        raise InvalidParameter("url", url, "write for example https://ana@host:8470/hospital")
    if parts.scheme == "http" and not plain and not is_near(parts.hostname):
        told = "the token could be read in transit: write https://, or plain=True if the network is safe"
        raise InvalidParameter("url", f"http://{parts.hostname}", told)
    given = token or urllib.parse.unquote(parts.password or "") or os.environ.get("SFUMATO_TOKEN", "")
    if not given:
        told = "write sf.connect(url, token=...), or set SFUMATO_TOKEN. The owner creates tokens"
        raise InvalidParameter("token", None, told, problem="no token given")
    context = None
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=certificate)
        except OSError as error:
            told = f"it cannot be read as certificates ({error.strerror or error})"
            raise InvalidParameter("certificate", certificate, told) from None
        if certificate is not None:
            context.load_default_certs()
    line = _Line(parts.hostname, parts.port, context, given)
    price = {"epsilon": _text(epsilon), "rho": _text(rho), "delta": _text(delta)}
    database = RemoteDatabase(line, urllib.parse.unquote(name), price, intervals)
    whose = database.schema()["name"]  # a wrong token or database is said here
    if parts.username and urllib.parse.unquote(parts.username) != whose:
        raise AccessDenied(f"the token belongs to {whose!r}, not to {parts.username!r}. Nothing was asked.")
    return database


def is_near(host: str) -> bool:
    """Whether it is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Line:
    """Requests to one server, over one connection a thread."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext | None, token: str) -> None:
        self._host, self._port, self._context = host, port, context
        self._token = token
        self._own = threading.local()
        self._open: list[http.client.HTTPConnection] = []  # of all threads

    def send(self, method: str, path: str, body: Any = None, *, key: str = "", repeat: bool = True) -> Any:
        """What the server answers, as JSON; an error as the exception that it is."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers |= {"Accept": "application/json", "User-Agent": f"sfumato/{sfumato.__version__}"}
        headers |= {"Idempotency-Key": key} if key else {}
        problem = ""
        for attempt in range(TRIES if repeat else 1):
            if attempt:
                time.sleep(PAUSE * 2**attempt)
            try:
                connection = self._connection()
                connection.request(method, path, content, headers)
                answer = connection.getresponse()
                found = answer.read()
            except ssl.SSLCertVerificationError as error:
                told = f"the certificate of {self._host} is not trusted ({error.verify_message})"
                raise ServerError(f"{told}. Name one to trust: sf.connect(..., certificate=FILE)") from None
            except ssl.SSLError:
                self.close()
                told = f"{self._host} does not speak TLS on this port"
                raise ServerError(
                    f"{told}. Check the port, or write http:// if it is on this machine"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                problem = type(error).__name__
                self.close()
                continue
            return _answer(answer, found)
        told = f"{self._host}:{self._port or 'its usual port'} does not answer ({problem})."
        if problem in ("RemoteDisconnected", "BadStatusLine"):
            told += " Is this the HTTP port, and does it need https?"
        elif problem in ("ConnectionRefusedError", "gaierror"):
            told += " Is `sfumato serve` running there, on this port?"
        if body is not None:
            told += " If it was charged, the charge and its release are stored there: asking again is free."
        raise ServerError(told, spent=None if body is not None else False)

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            if self._context is None:
                found = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
            else:
                found = http.client.HTTPSConnection(
                    self._host, self._port, timeout=SECONDS, context=self._context
                )
            self._own.connection = found
            self._open.append(found)
        return found

    def close(self) -> None:
        """Hang up; the next request of this thread calls again."""
        found = getattr(self._own, "connection", None)
        if found is not None:
            found.close()
            self._open.remove(found)
            self._own.connection = None

    def __del__(self) -> None:
        for each in getattr(self, "_open", ()):
            each.close()


def _answer(answer: http.client.HTTPResponse, content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        told = f"this is not a Sfumato server: it answered with status {answer.status}"
        raise ServerError(told, status=answer.status) from None
    if answer.status < 400:
        return found
    told = found.get("error", {}) if isinstance(found, dict) else {}
    kind = getattr(errors, str(told.get("type")), ServerError)
    if not (isinstance(kind, type) and issubclass(kind, SfumatoError)):
        kind = ServerError
    message = str(told.get("message", f"status {answer.status}"))
    error = kind.__new__(kind)
    error.args = (message,)
    error.status = answer.status
    if isinstance(error, QueryRefused):
        error.sql = ""
    for name, value in told.items():  # what the exception of the library would hold, too
        if name.isidentifier() and name not in ("type", "message", "args"):
            setattr(error, name, tuple(value) if isinstance(value, list) else value)
    raise error


class RemoteDatabase:
    """A database behind a server: ask it with `sql`, or as a DB-API connection with `cursor`."""

    def __init__(self, line: _Line, name: str, price: dict[str, str | None], intervals: bool) -> None:
        self._line, self.name = line, name
        self.price, self.intervals = price, intervals

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        tune: Number | None = None,
        within: Within | None = None,
        most: Number | None = None,
        parameters: Sequence[Any] = (),
        dialect: str = "",
    ) -> RemoteQuestion:
        """A question at a price; asked when you call `release()`. `parameters` are for $1, $2, ...; the text
        may be in another `dialect`. Instead of a price, say `within` which error it may have."""
        given = {"epsilon": _text(epsilon), "rho": _text(rho), "delta": _text(delta)}
        price = given if any(given.values()) or within is not None else self.price
        wish = {"tune": _text(tune), "within": _wished(within), "most": _text(most)}
        body = {"sql": sql, **price, **wish, "parameters": [_plain(each) for each in parameters]}
        body["dialect"] = dialect or None
        return RemoteQuestion(
            self, sql, {key: value for key, value in body.items() if value not in (None, [])}
        )

    def release(self, question: RemoteQuestion, level: Level = LEVEL) -> RemoteRelease:
        """Spend the price of a question, or get its stored release for nothing."""
        body = {**question.body, "level": str(level)}
        key = "" if "tune" in question.body else _key()
        return RemoteRelease(question, self.act("POST", "release", body, key=key, repeat=bool(key)))

    def batch(self, questions: Iterable[RemoteQuestion], *, delta: Number | None = None) -> RemoteBatch:
        """Questions that are fixed before the first answer, as one charge."""
        return RemoteBatch(self, tuple(questions), _text(delta))

    @property
    def budget(self) -> RemoteBudget:
        """Total, spent, left, and what is left for you."""
        return RemoteBudget(self.act("GET", "budget"))

    @property
    def left(self) -> Guarantee:
        """What you can still spend: of the total, and of a share if there is one."""
        return self.budget.for_you

    def history(self) -> list[dict[str, Any]]:
        """Every charge that you may see."""
        lines: list[dict[str, Any]] = self.act("GET", "history")["history"]
        return lines

    def schema(self) -> dict[str, Any]:
        """Tables and columns, as the policy declares them."""
        found: dict[str, Any] = self.act("GET", "schema")
        return found

    def suggest_epsilon(
        self, secret: str, *, advantage: Number, within: Number | None = None, **more: Any
    ) -> RemoteSuggestion:
        """The epsilon that keeps everybody within this advantage; for owners and auditors."""
        near = {} if within is None else {"within": _sent(within)}
        body = {"secret": secret, "advantage": _sent(advantage), **near, **more}
        return RemoteSuggestion(self.act("POST", "suggest", body))

    def act(self, method: str, what: str, body: Any = None, *, key: str = "", repeat: bool = True) -> Any:
        """One request about this database."""
        path = f"/v1/{urllib.parse.quote(self.name, safe='')}/{what}"
        return self._line.send(method, path, body, key=key, repeat=repeat)

    # DB-API 2.0 ---------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A cursor whose questions cost the price of the connection."""
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: a release is stored before it is shown."""

    def rollback(self) -> None:
        """Nothing is undone: what was released stays released, and paid."""

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def __enter__(self) -> RemoteDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        tables = self.schema()["tables"]
        lines = [repr(self.budget).splitlines()[0]]
        for table in tables:
            owner = "public" if table.get("public") else f"unit: {table['unit']}"
            columns = ", ".join(column["name"] for column in table["columns"])
            lines.append(f"  {table['name']} ({owner}): {columns}")
        return "\n".join(lines)


class RemoteQuestion:
    """A question and its price. Looking at it never spends."""

    def __init__(self, database: RemoteDatabase, sql: str, body: dict[str, Any]) -> None:
        self.database, self.text, self.body = database, " ".join(sql.split()), body

    def explain(self) -> RemoteExplanation:
        """Price, error and derivation. Free, and no row is read."""
        return RemoteExplanation(self.database.act("POST", "explain", self.body))

    def release(self, level: Level = LEVEL) -> RemoteRelease:
        """Spend the price and get the numbers; asking again is free."""
        return self.database.release(self, level)

    def __repr__(self) -> str:
        price = ", ".join(f"{k} {v}" for k, v in self.body.items() if k in ("epsilon", "rho", "delta"))
        cost = f"costs {price} when released, nothing until then."
        return (
            f"  {self.text}\n"
            f"  {cost if price else 'has no price yet, so it cannot be released.'}\n"
            f"  .explain() shows price, error and why; .release() spends and answers."
        )


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation:
    """What a question costs and how good its answer will be."""

    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The facts."""
        return self.facts

    def __repr__(self) -> str:
        return str(self.facts["text"])


@dataclass(frozen=True, slots=True, repr=False)
class RemoteBudget:
    """What was spent, and what is left."""

    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The facts."""
        return self.facts

    @property
    def total(self) -> Guarantee:
        """Of the database."""
        return self._of("total")

    @property
    def spent(self) -> Guarantee:
        """By everybody."""
        return self._of("spent")

    @property
    def left(self) -> Guarantee:
        """What can still be asked for, by everybody together."""
        return self._of("left")

    @property
    def for_you(self) -> Guarantee:
        """What you can still spend: of the total, and of a share if there is one."""
        facts = self.facts
        return _guarantee(facts["currency"], facts["left_for_you"], facts.get("left_for_you_delta"))

    def _of(self, name: str) -> Guarantee:
        return _guarantee(self.facts["currency"], self.facts[name], self.facts.get("delta", {}).get(name))

    def __repr__(self) -> str:
        facts = self.facts
        share = float(facts["spent"]) / float(facts["total"]) if float(facts["total"]) else 1.0
        lines = [
            f"  {facts['database']}: {facts['currency']} {facts['spent']} of {facts['total']} spent, "
            f"{facts['left_for_you']} left for {facts['name']}",
            f"  {show.bar(share)}",
        ]
        return "\n".join([*lines, *([f"  {facts['worth']}"] if facts.get("worth") else [])])


@dataclass(frozen=True, slots=True, repr=False)
class RemoteSuggestion:
    """The epsilon that keeps a promise."""

    facts: dict[str, Any]

    @property
    def epsilon(self) -> float:
        """What all releases together may cost; in a budget of rho, a rho. Infinite if there is no limit."""
        found = self.facts.get("epsilon", self.facts.get("rho"))
        return math.inf if found is None else float(found)

    @property
    def budget(self) -> float:
        """What to write under [budget]."""
        return math.inf if self.facts["budget"] is None else float(self.facts["budget"])

    @property
    def sentence(self) -> str:
        """What it means."""
        return str(self.facts["sentence"])

    def as_dict(self) -> dict[str, Any]:
        """The facts."""
        return self.facts

    def __repr__(self) -> str:
        return "\n".join(show.paragraphs([self.sentence]))


@dataclass(frozen=True, slots=True)
class RemoteReceipt:
    """Proof of a charge, as far as a server tells it."""

    number: int
    head: str
    charged: Guarantee


class RemoteRelease:
    """A released table: its rows, their intervals, what it cost. Everything in it is public."""

    def __init__(self, question: RemoteQuestion | None, facts: dict[str, Any]) -> None:
        self._question, self.facts = question, facts
        self.columns: list[str] = facts["columns"]

    def rows(self, level: Level = LEVEL) -> list[dict[str, Any]]:
        """Every row: key columns, and for each number `name`, `name_low`, `name_high`."""
        facts = self._at(level)
        kinds = list(zip(facts["columns"], facts["types"], facts["ends"], strict=True))
        return [{name: _read(row[name], kind, end) for name, kind, end in kinds} for row in facts["rows"]]

    def _at(self, level: Level) -> dict[str, Any]:
        """The facts at another level: asked for again, which is free."""
        if str(level) == self.facts["level"]:
            return self.facts
        if self._question is None:
            told = f"a batch has one level, {self.facts['level']}: give it to Batch.release"
            raise InvalidParameter("level", level, told)
        return self._question.release(level).facts

    def df(self, level: Level = LEVEL) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise ImportError('df() needs pandas. Run: pip install "sfumato[pandas]"') from None
        return pandas.DataFrame(self.rows(level), columns=self.columns)

    def pl(self, level: Level = LEVEL) -> polars.DataFrame:
        """The rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise ImportError('pl() needs polars. Run: pip install "sfumato[polars]"') from None
        return polars.DataFrame(self._columnar(level), strict=False)

    def arrow(self, level: Level = LEVEL) -> pyarrow.Table:
        """The rows as an Arrow table."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError('arrow() needs pyarrow. Run: pip install "sfumato[arrow]"') from None
        return pyarrow.table(self._columnar(level))

    def _columnar(self, level: Level) -> dict[str, list[Any]]:
        rows, kinds = self.rows(level), dict(zip(self.columns, self.facts["types"], strict=True))
        found = {name: [row[name] for row in rows] for name in self.columns}
        for name, values in found.items():
            if kinds[name] == "number" and any(isinstance(value, float) for value in values):
                found[name] = [None if value is None else float(value) for value in values]
        return found

    @property
    def cost(self) -> Guarantee:
        """Charged by asking now: zero if the question was paid before."""
        return _guarantee(self.facts["currency"], self.facts["charged"], self.facts.get("charged_delta"))

    @property
    def left(self) -> Guarantee:
        """What you can still spend."""
        return _guarantee(self.facts["currency"], self.facts["left"], self.facts.get("left_delta"))

    @property
    def guarantee(self) -> Guarantee:
        """What the release proves when one unit is added or removed."""
        currency = "rho" if "rho" in self.facts else "epsilon"
        return _guarantee(currency, self.facts[currency], self.facts.get("delta"))

    @property
    def receipt(self) -> RemoteReceipt:
        """What was paid for it."""
        return RemoteReceipt(self.facts["receipt"], self.facts["head"].partition("-")[2], self.cost)

    def notes(self, level: Level = LEVEL) -> list[str]:
        """What the numbers do not say by themselves."""
        return list(self._at(level)["notes"])

    def as_dict(self, level: Level = LEVEL) -> dict[str, Any]:
        """The facts."""
        return self._at(level)

    def text(self, level: Level = LEVEL) -> str:
        """The table for a terminal, with intervals and what it cost."""
        return "\n".join([self.table(level), "", *show.paragraphs(self.notes(level))])

    def table(self, level: Level = LEVEL) -> str:
        """The numbers alone."""
        return show.table(*self._grid(level))

    def csv(self, level: Level = LEVEL) -> str:
        """The rows as CSV, with a header."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows(level))
        return text.getvalue()

    def _grid(self, level: Level) -> tuple[list[str], list[list[str]], list[bool]]:
        rows, percent = self.rows(level), f"{float(level) * 100:.10g}%"
        headers: list[str] = []
        left: list[bool] = []
        numbers = [name for name, end in zip(self.columns, self.facts["ends"], strict=True) if end == -1]
        middle = {name.removesuffix("_low") for name in numbers}
        shown = [n for n, end in zip(self.columns, self.facts["ends"], strict=True) if end == 0]
        for name in shown:
            headers += [name, f"{percent} interval"] if name in middle else [name]
            left += [False, False] if name in middle else [True]
        body = []
        for row in rows:
            line: list[str] = []
            for name in shown:
                if name not in middle:
                    line.append("(all)" if row[name] is None else str(row[name]))
                    continue
                ends = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
                value, low, high = (show.number(each, _places(rows, name)) for each in ends)
                line += [value, f"[{low}, {high}]"]
            body.append(line)
        return headers, body, left

    def __repr__(self) -> str:
        return self.text(self.facts["level"])

    def _repr_html_(self) -> str:
        level = self.facts["level"]
        return show.html_table(*self._grid(level), self.notes(level))


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """Questions that are charged and released together."""

    database: RemoteDatabase
    questions: tuple[RemoteQuestion, ...]
    delta: str | None

    def release(self, level: Level = LEVEL) -> RemoteReleases:
        """Spend the price and get all the numbers; asking the same batch again is free."""
        body: dict[str, Any] = {"questions": [each.body for each in self.questions], "level": str(level)}
        body |= {"delta": self.delta} if self.delta is not None else {}
        found = self.database.act("POST", "batch", body, key=_key())
        return RemoteReleases(tuple(RemoteRelease(None, facts) for facts in found["releases"]))


@dataclass(frozen=True, slots=True, repr=False)
class RemoteReleases:
    """The releases of a batch, in the order of its questions."""

    each: tuple[RemoteRelease, ...]

    def __iter__(self) -> Iterator[RemoteRelease]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, index: int) -> RemoteRelease:
        return self.each[index]

    @property
    def cost(self) -> Guarantee:
        """Charged for all of them by asking now."""
        return self.each[0].cost

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.each))


class Cursor:
    """DB-API 2.0: execute, and fetch the rows of one release."""

    arraysize = 1

    def __init__(self, connection: RemoteDatabase) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self.released: RemoteRelease | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._place = 0

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Ask a question; a ? in it is the next of the parameters."""
        places = [place for sign, place, _ in signs(sql) if sign == "mark"]
        text = sql
        for number, place in reversed(list(enumerate(places, 1))):
            text = f"{text[:place]}${number} {text[place + 1 :]}"
        release = self.connection.sql(text, parameters=parameters).release()
        facts = release.facts
        wanted = [
            (name, kind)
            for name, kind, end in zip(facts["columns"], facts["types"], facts["ends"], strict=True)
            if end == 0 or self.connection.intervals
        ]
        self.description = [(name, kind, None, None, None, None, None) for name, kind in wanted]
        self._rows = [tuple(row[name] for name, _ in wanted) for row in release.rows()]
        self._place, self.released = 0, release
        return self

    def executemany(self, sql: str, every: Iterable[Sequence[Any]]) -> None:
        """Ask it once for each of the parameters; the last release can be fetched."""
        for parameters in every:
            self.execute(sql, parameters)

    @property
    def rowcount(self) -> int:
        """How many rows the last release has."""
        return -1 if self.released is None else len(self._rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Some more rows."""
        if self.released is None:
            raise InvalidParameter("cursor", None, "execute a question first", problem="no rows to fetch")
        end = self._place + (self.arraysize if size is None else size)
        found = self._rows[self._place : end]
        self._place += len(found)
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: object) -> None:
        """Nothing to do."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Let go of the rows."""
        self._rows, self.released, self.description = [], None, None


def _read(value: Any, kind: str, end: int) -> Any:
    """A value as it is in the library: JSON has neither dates nor infinity."""
    if value is None:
        return None if end == 0 else end * math.inf
    if kind == "date":
        return datetime.date.fromisoformat(value)
    return datetime.datetime.fromisoformat(value) if kind == "timestamp" else value


def _places(rows: list[dict[str, Any]], name: str) -> int:
    """How many decimals a column shows."""
    texts = [repr(row[name]) for row in rows if isinstance(row[name], float) and math.isfinite(row[name])]
    return max((len(text.partition(".")[2]) for text in texts if "e" not in text), default=0)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, datetime.datetime):
        return {"timestamp": value.isoformat()}
    return {"date": value.isoformat()} if isinstance(value, datetime.date) else value


def _key() -> str:
    """A new idempotency key: for one release, however often it has to be sent."""
    return f"{SystemCoins().bits(128):032x}"


def _text(value: Number | None) -> str | None:
    return None if value is None else str(_sent(value))


def _wished(within: Within | None) -> str | None:
    """An error as it is sent: for each column its own, if there are several."""
    if not isinstance(within, Mapping):
        return _text(within)
    return ", ".join(f"{name}={_sent(error)}" for name, error in within.items())


def _sent(value: Number) -> str | int | float:
    """A number as it is sent: exactly."""
    return decimal(value, FINER) if isinstance(value, Fraction) else str(value)


def _guarantee(currency: str, amount: str, delta: str | None) -> Guarantee:
    much, slack = Fraction(amount), Fraction(delta or 0)
    return Guarantee(much, slack) if currency == "epsilon" else Guarantee(None, slack, much)
