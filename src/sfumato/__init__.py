"""Sfumato: a differentially private curator for real databases. See the population, never the person.

    import sfumato as sf

    db = sf.open("hospital.toml")
    question = db.sql("SELECT ward, AVG(age) FROM visits GROUP BY ward", epsilon="0.2")
    question.explain()   # free: price, error, how each distance was derived
    question.release()   # charged once; asking again is free

Names below are loaded when first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "AccessDenied",
    "Batch",
    "Budget",
    "BudgetExceeded",
    "ConversationEnded",
    "Database",
    "Explanation",
    "Guarantee",
    "Halted",
    "InvalidParameter",
    "KeyReused",
    "LedgerError",
    "MissingBound",
    "NotAllowed",
    "NotRead",
    "PolicyError",
    "PromiseBroken",
    "QueryFailed",
    "QueryRefused",
    "Question",
    "Release",
    "ServerError",
    "SfumatoError",
    "SourceError",
    "Stopped",
    "SyntaxRefused",
    "TooMany",
    "UnknownName",
    "Unsupported",
    "connect",
    "open",
]

_HOMES = {
    "Batch": "sfumato.curator.batch",
    "Budget": "sfumato.curator.budget",
    "Database": "sfumato.curator.database",
    "Explanation": "sfumato.curator.explanation",
    "Guarantee": "sfumato.mechanisms",
    "Question": "sfumato.curator.question",
    "Release": "sfumato.curator.release",
    "connect": "sfumato.client",
    "open": "sfumato.curator.database",
}

if TYPE_CHECKING:
    from sfumato.client import connect
    from sfumato.curator.batch import Batch
    from sfumato.curator.budget import Budget
    from sfumato.curator.database import Database, open  # noqa: A004  # sf.open
    from sfumato.curator.explanation import Explanation
    from sfumato.curator.question import Question
    from sfumato.curator.release import Release
    from sfumato.errors import (
        AccessDenied,
        BudgetExceeded,
        ConversationEnded,
        Halted,
        InvalidParameter,
        KeyReused,
        LedgerError,
        MissingBound,
        NotAllowed,
        NotRead,
        PolicyError,
        PromiseBroken,
        QueryFailed,
        QueryRefused,
        ServerError,
        SfumatoError,
        SourceError,
        Stopped,
        SyntaxRefused,
        TooMany,
        UnknownName,
        Unsupported,
    )
    from sfumato.mechanisms import Guarantee


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "sfumato.errors")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
