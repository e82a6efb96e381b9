"""Where the entries of a ledger lie: a SQLite file, or a PostgreSQL database for several servers.

Both hold one table that is only ever appended to, and give two things: reading, and being alone. Whoever is
alone sees the last entry and writes the next ones in one transaction that is on disk when it returns.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import stat
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = tuple[Any, ...]

FORM = 2  # of the table below
APPLICATION = 0x5F0A70  # marks a SQLite file as a ledger of ours
MOUNTS = Path("/proc/self/mountinfo")
LOCK_SECONDS = 60.0  # seconds to wait for a lock that something else than a ledger holds

COLUMNS = (
    "number", "at", "kind", "who", "topic", "found", "body", "amount", "slack", "spent", "lost", "own_spent",
    "own_lost", "head",
)  # fmt: skip
TABLE = """
CREATE TABLE entries (
    number BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    topic TEXT UNIQUE,
    found TEXT,
    body TEXT NOT NULL,
    amount BIGINT NOT NULL,
    slack BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    own_spent BIGINT NOT NULL,
    own_lost BIGINT NOT NULL,
    head TEXT NOT NULL
);
CREATE INDEX entries_found ON entries (found, number);
CREATE INDEX entries_who ON entries (who, at, number)
"""
STAY = "BEGIN SELECT RAISE(ABORT, 'entries stay as they are'); END"
TRIGGERS = (
    f"CREATE TRIGGER entries_stay BEFORE UPDATE ON entries {STAY}",
    f"CREATE TRIGGER entries_remain BEFORE DELETE ON entries {STAY}",
)


class Store(ABC):
    """The table of entries."""

    name: str  # for messages
    advice: str  # what to look at when it fails

    @abstractmethod
    def read(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Rows, by SQL with question marks."""

    @abstractmethod
    def alone(self) -> bool:
        """Become the only writer, if nobody else is. Whether it worked."""

    @abstractmethod
    def leave(self) -> None:
        """Let the next one in; nothing happens to whoever is not alone."""

    @abstractmethod
    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, on disk at its end; only when alone."""

    @abstractmethod
    def write(self, rows: list[Row]) -> None:
        """Append entries."""

    @abstractmethod
    def check_writable(self) -> None:
        """Fail with one of `problems` if an entry could not be written now; nothing is written."""

    @abstractmethod
    def drop(self, *tables: str) -> None:
        """Remove tables of an earlier form, so that an earlier version cannot go on with them."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a ledger there."""

    @abstractmethod
    def prepare(self) -> int:
        """Look at what is there, make the table if there is none, and return the form it was found in."""

    @abstractmethod
    def rest(self) -> None:
        """Close what must not be copied by a fork; it is opened again when needed."""

    problems: tuple[type[BaseException], ...] = (OSError,)


class SQLite(Store):
    """One file, in write-ahead mode with a full sync on every commit.

    SQLite lets whoever asks first after a commit have the lock, and the others sleep; so somebody may wait
    for seconds. Writers therefore first wait for a lock of their own, `FILE.lock`, which is given in turn.
    """

    problems = (sqlite3.Error, OSError)
    advice = "Check that the file is an undamaged ledger and that its folder is writable."

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self._store: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._lock: int | None = None

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        self._check_place()
        return self._opened().execute(sql, values).fetchall()

    def alone(self) -> bool:
        if self._lock is None:
            self._lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._check_place()
        store = self._opened()
        try:
            store.execute("BEGIN IMMEDIATE")
            yield
            store.execute("COMMIT")
        finally:
            if store.in_transaction:
                store.execute("ROLLBACK")

    def write(self, rows: list[Row]) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        self._opened().executemany(f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({marks})", rows)

    def check_writable(self) -> None:
        self._check_place()
        # asked, not opened: closing a file gives up all locks of this process on it, SQLite's too
        if not os.access(self.path, os.W_OK, effective_ids=True):
            raise PermissionError("the file cannot be written")

    def drop(self, *tables: str) -> None:
        for table in tables:
            self._opened().execute(f"DROP TABLE {table}")

    def exists(self) -> bool:
        if self.path.exists():
            self._check_names()
        return self.path.exists() and self.path.stat().st_size > 0

    def _check_names(self) -> None:
        """Refuse a file with two names: SQLite keeps its log beside the name, so there would be two logs."""
        found = os.stat(self.path)
        if not stat.S_ISREG(found.st_mode):
            raise LedgerError(f"{self.path} is not a file, so it cannot be a ledger. It was not changed.")
        names = found.st_nlink
        try:  # blanks and the like are written as three octal digits there
            points = [line.split()[4] for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
            mounts = [re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), each) for each in points]
        except OSError:
            mounts = []
        if names > 1 or str(self.path.resolve()) in mounts:
            how = f"{names} names (hard links)" if names > 1 else "a second name (a mount)"
            raise LedgerError(
                f"the ledger {self.path} has {how}, and charges made under one would not be seen under "
                "another. Nothing is charged or answered. Keep one name; mount the folder, not the file."
            )

    def prepare(self) -> int:
        store = self._opened()
        (application,) = store.execute("PRAGMA application_id").fetchone()
        (form,) = store.execute("PRAGMA user_version").fetchone()
        (tables,) = store.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables == 0 and application == 0:
            form = 0
        elif application != APPLICATION:
            raise LedgerError(
                f"{self.path} is a SQLite file, but not a Sfumato ledger. It was not changed. "
                "Name another file under [budget] ledger in the policy."
            )
        check_form(str(self.path), form)
        if form < FORM:
            for statement in (*TABLE.split(";"), *TRIGGERS):
                store.execute(statement)
            store.execute(f"PRAGMA application_id = {APPLICATION}")
            store.execute(f"PRAGMA user_version = {FORM}")
        return int(form)

    def rest(self) -> None:
        if self._store is not None:
            self._store.close()
        if self._lock is not None:
            os.close(self._lock)
        self._store = self._lock = None

    def _opened(self) -> sqlite3.Connection:
        if self._store is None:
            # transactions are opened by hand; any thread may use it, since STILL lets in one at a time
            store = sqlite3.connect(
                self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("PRAGMA synchronous = FULL")
            store.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: an entry takes more than a bare row
            self._store = store
        return self._store

    def _check_place(self) -> None:
        """Refuse a file that is no longer the one at the path: others would not see what is charged to it."""
        if self._place is None and not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        place = os.stat(self.path)
        here = (place.st_dev, place.st_ino)
        if self._place is None:
            self._place = here
        if here != self._place:
            raise LedgerError(
                f"the ledger {self.path} was replaced while it was open, so nothing is charged or answered. "
                "Put the original file back, or open the database again if the replacement is intended."
            )


def check_form(name: str, form: int) -> None:
    """Refuse what a newer version wrote."""
    if form > FORM:
        raise LedgerError(
            f"{name} was written by a newer sfumato (form {form}; this one reads {FORM}). "
            "It was not changed. Install the newer version."
        )
