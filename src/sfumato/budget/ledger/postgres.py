"""A ledger in PostgreSQL, for several servers.

Writers wait for an advisory lock, which the server gives in turn and takes back from a connection that
breaks. Should two ever believe to be alone, the second to write finds its number taken, and fails.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.budget.ledger.store import COLUMNS, FORM, TABLE, Store, check_form
from sfumato.errors import LedgerError

try:
    import psycopg
    from psycopg import conninfo, pq
except ImportError:
    raise LedgerError('a ledger in PostgreSQL needs psycopg. Run: pip install "sfumato[postgres]"') from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.budget.ledger.store import Row

LOCK = 0x5F0A70  # the advisory lock of writers
PATIENT = {  # seconds after which a connection that says nothing counts as lost
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
LIMITS = "SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = '120s'"  # at the server's side
_STAY = """
CREATE FUNCTION sfumato.stay() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'entries stay as they are'; END $$;
CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON sfumato.entries EXECUTE FUNCTION
sfumato.stay()
"""


class Postgres(Store):
    """The schema `sfumato` of one database."""

    problems = (psycopg.Error, OSError)
    advice = "Check that the server is running, its address is correct, and this user may create a schema."

    def __init__(self, uri: str) -> None:
        self._uri = uri
        try:
            parts = conninfo.conninfo_to_dict(uri)
        except psycopg.Error:
            parts = {}
        if not parts:
            raise LedgerError(
                "the address of the ledger under [budget] cannot be read. Write it as "
                "postgresql://user@host:5432/database (keep the password in ~/.pgpass)."
            )
        self.name = f"postgresql://{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"  # no password
        self._store: psycopg.Connection[Row] | None = None
        self._locked: psycopg.Connection[Row] | None = None

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._twice(lambda store: store.execute(_marked(sql), values).fetchall())

    def alone(self) -> bool:
        if self._locked is not None and self._locked is self._store:
            return True
        rows = self._twice(lambda store: store.execute(f"SELECT pg_try_advisory_lock({LOCK})").fetchall())
        self._locked = self._store if rows == [(True,)] else None
        return self._locked is not None

    def leave(self) -> None:
        if self._store is not None:  # also a lock that an interrupt kept us from hearing of
            with self._or_close() as store:
                store.execute("SELECT pg_advisory_unlock_all()")
        self._locked = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._or_close() as store:
            if store is not self._locked:
                raise psycopg.OperationalError("the connection was lost, and the lock with it")
            if store.info.transaction_status != pq.TransactionStatus.IDLE:  # ours would end with that one
                raise psycopg.OperationalError("the connection is busy")
            with store.transaction():
                yield

    def _twice(self, act: Callable[[psycopg.Connection[Row]], list[Row]]) -> list[Row]:
        """On a connection that may have been cut while it was idle: then on a new one, unless it is alone."""
        tries = 1 if self._store is None or self._locked is not None else 2
        while True:
            try:
                with self._or_close() as store:
                    return act(store)
            except psycopg.OperationalError:
                tries -= 1
                if not tries:
                    raise

    @contextmanager
    def _or_close(self) -> Iterator[psycopg.Connection[Row]]:
        """The connection, which is closed by whatever goes wrong on it or interrupts it: it could be in the
        middle of something, and hold the lock."""
        sound = False
        try:
            yield self._opened()
            sound = True
        except LedgerError:
            sound = True  # a refusal of ours: nothing is wrong with the connection
            raise
        finally:
            if not sound:
                self.rest()

    def write(self, rows: list[Row]) -> None:
        marks = ", ".join(["%s"] * len(COLUMNS))
        insert = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({marks})"
        with self._opened().cursor() as cursor:
            for row in rows:
                cursor.execute(insert, row)

    def check_writable(self) -> None:
        if self.read("SELECT current_setting('transaction_read_only')") != [("off",)]:
            raise psycopg.OperationalError("the server is read-only")

    def drop(self, *tables: str) -> None:
        raise AssertionError(f"no earlier form had {tables}")

    def exists(self) -> bool:
        return self.read("SELECT to_regclass('sfumato.entries') IS NOT NULL")[0][0] is True

    def prepare(self) -> int:
        if self.exists():
            form = int(self.read("SELECT form FROM about")[0][0])
            check_form(self.name, form)
            return form
        store = self._opened()
        store.execute("CREATE SCHEMA IF NOT EXISTS sfumato")
        store.execute(f"CREATE TABLE about AS SELECT {FORM} AS form")
        store.execute(TABLE)
        store.execute(_STAY)
        return 0

    def rest(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._locked = None

    def _opened(self) -> psycopg.Connection[Row]:
        if self._store is None or self._store.closed:
            given = {**PATIENT, **conninfo.conninfo_to_dict(self._uri), "client_encoding": "utf8"}
            store: psycopg.Connection[Row] = psycopg.connect(
                conninfo.make_conninfo("", **given), autocommit=True
            )
            store.execute(f"SET synchronous_commit = on; SET search_path = sfumato; {LIMITS}")
            self._store = store
        return self._store


def _marked(sql: str) -> Any:
    return sql.replace("?", "%s")
