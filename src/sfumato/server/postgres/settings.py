"""Statements of a session that are no questions: what they are, and the settings they change."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import sfumato
from sfumato.curator.release import Release
from sfumato.curator.within import wishes
from sfumato.errors import InvalidParameter, SyntaxRefused, UnknownName
from sfumato.mechanisms import Guarantee
from sfumato.queries.dialects import SPELLINGS
from sfumato.queries.lexing import signs
from sfumato.server.catalog.catalog import VERSION
from sfumato.server.desk.retries import PRICES

_BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
_SET = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.]+)\s*(?:=|\s+TO\s+)\s*(.+)", re.IGNORECASE | re.DOTALL
)
REPORTED = {  # as the protocol spells them
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "search_path": "public",
    "server_encoding": "UTF8",
    "server_version": f"{VERSION} (Sfumato {sfumato.__version__})",
    "server_version_num": f"{VERSION.partition('.')[0]}0000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "row_security": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "transaction_deferrable": "off",
    "wal_level": "replica",
}
OURS = {
    **dict.fromkeys((f"sfumato.{name}" for name in PRICES), ""),
    "sfumato.intervals": "off",
    "sfumato.level": "0.95",
    "sfumato.dialect": "postgres",
}
LONGEST_SETTING, MOST_SETTINGS = 1000, 200  # letters of a setting; settings of a session
SAVED = 5000  # savepoints of a transaction; JDBC never releases its own
FIXED = (
    "session_authorization",
    "server_version",
    "server_version_num",
    "server_encoding",
    "integer_datetimes",
    "is_superuser",
)


def split(sql: str) -> list[tuple[int, str]]:
    """The statements of a text, and where each begins.

    >>> split("SET a = ';'; SELECT 1 -- ;")
    [(0, "SET a = ';'"), (12, ' SELECT 1 -- ;')]
    """
    found, start = [], 0
    for sign, at, end in signs(sql):
        if sign == "end":
            found.append((start, sql[start:at]))
            start = end
    return [(at, each) for at, each in [*found, (start, sql[start:])] if bare(each)]


def bare(sql: str) -> str:
    """A statement without blanks and comments around it."""
    if (before := _BLANK.match(sql)) is not None:
        sql = sql[before.end() :]
    return sql.strip().rstrip(";").strip()


def uncommented(sql: str) -> str:
    """A statement without comments.

    >>> uncommented("FETCH /* ten */ 10 FROM c -- of '--'")
    'FETCH   10 FROM c'
    """
    parts, place = [], 0
    for sign, start, end in signs(sql):
        if sign in ("closed", "open") and sql.startswith(("--", "/*"), start):
            parts.append(sql[place:start])
            place = end
    return bare(" ".join([*parts, sql[place:]]))


def words(sql: str) -> list[str]:
    """The first words of a statement, in capitals."""
    return [word.upper() for word in re.findall(r"[A-Za-z_]+", bare(sql)[:200])[:4]]


@dataclass(slots=True)
class SessionSettings:
    """The settings of one session."""

    values: dict[str, str] = field(default_factory=lambda: {**DEFAULTS, **OURS})
    first: dict[str, str] = field(default_factory=dict)  # as the connection began
    before: dict[str, str] = field(default_factory=dict)  # SET LOCAL in a transaction
    started: dict[str, str] | None = None  # as the transaction began
    saved: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)  # at savepoints

    def begin(self) -> None:
        """From now on RESET goes back to what is set now."""
        self.first = dict(self.values)

    def set(self, name: str, value: str) -> list[tuple[str, str]]:
        """Change a setting; what clients want to be told of it."""
        key = name.lower()
        if len(value) > LONGEST_SETTING or (key not in self.values and len(self.values) >= MOST_SETTINGS):
            raise InvalidParameter(
                name,
                value,
                f"a setting has at most {LONGEST_SETTING} characters; at most {MOST_SETTINGS} exist",
            )
        ours = f"sfumato.{key.removeprefix('sfumato_')}"
        if ours in OURS:
            raise InvalidParameter(name, value, f"the setting is called {ours}")
        if key.startswith("sfumato."):
            value = self._checked(key, value)
        elif key in FIXED:
            raise InvalidParameter(name, value, "it cannot be changed")
        elif key == "client_encoding" and value.strip("'\"").upper().replace("-", "") not in (
            "UTF8",
            "UNICODE",
        ):
            raise InvalidParameter(name, value, "only UTF8 is supported")
        elif key == "client_encoding":
            value = "UTF8"
        elif key == "datestyle":
            value = "ISO, MDY"  # the only one that is written
        self.values = {**self.values, key: value}  # anew: a savepoint may hold the old ones
        self.before = {name: old for name, old in self.before.items() if name != key}
        return [(REPORTED[key], value)] if key in REPORTED else []

    def _checked(self, key: str, value: str) -> str:
        if key not in OURS:
            raise UnknownName("setting", key, OURS, sql="", span=None)
        if key == "sfumato.intervals":
            if value.lower() not in ("on", "off", "true", "false", "1", "0"):
                raise InvalidParameter(key, value, "write on or off")
            return "on" if value.lower() in ("on", "true", "1") else "off"
        if key == "sfumato.level":
            Release.check_level(value)
            return value
        if key == "sfumato.dialect":
            if value.lower() not in SPELLINGS:
                raise InvalidParameter(key, value, f"take one of: {', '.join(SPELLINGS)}")
            return value.lower()
        if value and key == "sfumato.within":
            wishes(value)
        elif value:
            given = {"epsilon": 1, "delta": value} if key == "sfumato.delta" else {"epsilon": value}
            try:
                Guarantee.read(**given)
            except InvalidParameter as error:
                raise InvalidParameter(key, value, error.advice) from None
        return value

    def set_local(self, name: str, value: str) -> list[tuple[str, str]]:
        """Change a setting until the transaction ends."""
        old = self.before.get(name.lower(), self.values.get(name.lower(), ""))
        told = self.set(name, value)
        self.before = {**self.before, name.lower(): old}
        return told

    def start(self) -> None:
        """A transaction begins: what is set in it lasts only if it does."""
        if self.started is None:
            self.started = self.values

    def save(self, name: str) -> None:
        """A savepoint: what is set after it can be undone."""
        if len(self.saved) >= SAVED:
            raise InvalidParameter("SAVEPOINT", name, f"a transaction has at most {SAVED}: RELEASE some")
        self.saved.append((name, self.values, self.before))

    def release(self, name: str) -> bool:
        """Forget a savepoint and all after it; False if it is not there."""
        known = [n for n, each in enumerate(self.saved) if each[0] == name]
        self.saved = self.saved[: known[-1]] if known else self.saved
        return bool(known)

    def go_back(self, name: str) -> list[tuple[str, str]] | None:
        """Undo what was set after a savepoint, which stays; None if it is not there."""
        old, found = self.values, next((each for each in reversed(self.saved) if each[0] == name), None)
        if found is None:
            return None
        self.release(name)
        self.saved.append(found)
        _, self.values, self.before = found
        return self._changed(old)

    def end(self, *, undone: bool) -> list[tuple[str, str]]:
        """The transaction is over."""
        old = self.values
        if undone and self.started is not None:
            self.values = self.started
        else:
            self.values = {**self.values, **self.before}
        self.started, self.before, self.saved = None, {}, []
        return self._changed(old)

    def _changed(self, old: dict[str, str]) -> list[tuple[str, str]]:
        return [(shown, self.values[key]) for key, shown in REPORTED.items() if old[key] != self.values[key]]

    def reset(self, name: str) -> list[tuple[str, str]]:
        """Back to what it was when the connection began."""
        if name.lower() != "all":
            return self.set(name, self.first.get(name.lower(), ""))
        self.values, self.before = dict(self.first), {}
        return [(shown, self.values[key]) for key, shown in REPORTED.items()]

    def show(self, name: str) -> str:
        """A setting."""
        key = {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}.get(
            name, name
        )
        if key not in self.values:
            raise UnknownName("setting", name, [*self.values, "sfumato.budget"], sql="", span=None)
        return self.values[key]

    def price(self) -> dict[str, str | None]:
        """What a question may cost, or which error it shall buy: that counts where both are set."""
        price = {name: self.values[f"sfumato.{name}"] or None for name in PRICES}
        left_out = ("epsilon", "rho", "tune") if price["within"] else ("most",)
        return price | dict.fromkeys(left_out)

    @property
    def intervals(self) -> bool:
        """Whether the ends of intervals are columns."""
        return self.values["sfumato.intervals"] == "on"

    @property
    def dialect(self) -> str:
        """In which SQL questions are written; what asks about the catalog is always PostgreSQL's."""
        return self.values["sfumato.dialect"]

    @property
    def level(self) -> str:
        """How sure intervals are."""
        return self.values["sfumato.level"]


def assignment(sql: str) -> tuple[str, str | None] | None:
    """The name and value of a SET, without one for DEFAULT; None if it sets nothing that matters here.

    >>> assignment("SET sfumato.epsilon TO '0.1'")
    ('sfumato.epsilon', '0.1')
    """
    text = bare(sql)
    upper = text.upper()
    if (level := re.search(r"ISOLATION\s+LEVEL\s+(\w+(?:\s+\w+)?)", upper)) is not None:
        return "transaction_isolation", " ".join(level[1].lower().split())
    if re.match(
        r"SET\s+(SESSION\s+CHARACTERISTICS|TRANSACTION|CONSTRAINTS|ROLE|SESSION\s+AUTHORIZATION)\b", upper
    ):
        return None
    if (
        zone := re.match(r"SET\s+(?:SESSION\s+|LOCAL\s+)?TIME\s+ZONE\s+(.+)", text, re.IGNORECASE)
    ) is not None:
        return "timezone", _unquoted(zone[1])
    if (names := re.match(r"SET\s+NAMES\s+(.+)", text, re.IGNORECASE)) is not None:
        return "client_encoding", _unquoted(names[1])
    found = _SET.fullmatch(text)
    if found is None:
        raise SyntaxRefused("unsupported SET statement", "Write: SET sfumato.epsilon = '0.1'", sql=sql)
    return found[1], None if found[2].strip().upper() == "DEFAULT" else _unquoted(found[2])


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace(value[0] * 2, value[0])
    return value
