"""The other side of the HTTP door: a database that is asked from afar, with the face of one that is here.

This room exists so that an analyst needs neither the data nor the ledger: `connect` gives an object with the
methods of `sfumato.open`, and it is a DB-API 2.0 connection, too. Everything it holds is public. It needs
nothing but Python and the light parts of this package.

It rests on idempotency keys: every release is asked under a key of its own, so that a lost answer is asked
for again without a second draw or a second charge.
"""

from __future__ import annotations

import datetime

from sfumato.client.remote import (
    Cursor,
    RemoteBatch,
    RemoteDatabase,
    RemoteExplanation,
    RemoteQuestion,
    RemoteRelease,
    connect,
)
from sfumato.errors import (
    AccessDenied,
    InvalidParameter,
    KeyReused,
    QueryFailed,
    QueryRefused,
    ServerError,
    SfumatoError,
    Unsupported,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "RemoteBatch",
    "RemoteDatabase",
    "RemoteExplanation",
    "RemoteQuestion",
    "RemoteRelease",
    "Timestamp",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

# What DB-API 2.0 (PEP 249) asks of a module -----------------------------------------------------------

apilevel = "2.0"
threadsafety = 2  # threads may share connections
paramstyle = "qmark"

Error = DatabaseError = SfumatoError
InterfaceError = AccessDenied
ProgrammingError = QueryRefused
NotSupportedError = Unsupported
OperationalError = ServerError
DataError = InvalidParameter
InternalError = QueryFailed
IntegrityError = KeyReused


class Warning(SfumatoError):  # noqa: A001  # PEP 249 wants this name
    """Never raised: what there is to warn of stands in the notes of a release."""


Date, Timestamp = datetime.date, datetime.datetime
STRING = frozenset({"text"})
NUMBER = frozenset({"integer", "number", "boolean"})
DATETIME = frozenset({"date", "timestamp"})
BINARY: frozenset[str] = frozenset()
ROWID: frozenset[str] = frozenset()
