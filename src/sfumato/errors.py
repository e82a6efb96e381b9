"""Every exception a user of Sfumato can meet.

    SfumatoError
    ├── InvalidParameter      an argument outside its range (also a ValueError)
    ├── PolicyError           the policy file: names file, line and key
    ├── QueryRefused          decided from the SQL text and the policy alone: free
    │   ├── SyntaxRefused     the text is not SQL we can read: position and caret
    │   ├── UnknownName       no such table or column: the nearest names
    │   ├── MissingBound      a column without the declaration this query needs: the line to add
    │   └── Unsupported       SQL that is not proven stable: what to write instead
    ├── ConversationEnded     a sparse vector has raised all its alarms
    ├── BudgetExceeded        decided from the ledger alone: nothing was spent
    │   └── PromiseBroken     there is budget left, but a promise of the owner would be broken
    ├── LedgerError           the ledger file cannot be used
    ├── SourceError           the database cannot be opened, or does not fit the policy
    │   └── NotRead           the owner has not read the files through as they are: nothing was spent
    ├── AccessDenied          a server does not know who asks
    │   └── NotAllowed        it does, and this role may not do that
    ├── TooMany               a server is asked too much at once: when to ask again
    ├── Stopped               too many answers to one analyst were late or failed; the owner must review them
    │   └── Halted            this question was stopped because it ran too long; the owner must review it
    ├── KeyReused             an idempotency key that stands for something else
    ├── ServerError           a server, or its file of people, cannot be used
    ├── AfterRelease          what is made of released rows cannot be computed: they are stored
    └── QueryFailed           the engine failed after the charge: one fixed message

Everything above `AfterRelease` is decided before a row is read, so its message may say whatever helps;
`AfterRelease` from released rows alone, which are public.
`QueryFailed` comes after, so it says the same in every case (law 3: errors are outputs).

Programs decide by attributes, never by the text, which may be improved at any time: `code` is a name that
stays, `status` the one of HTTP, `sqlstate` the one of SQL, and `spent` whether this call spent anything.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AccessDenied",
    "AfterRelease",
    "BudgetExceeded",
    "ConversationEnded",
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
    "ServerError",
    "SfumatoError",
    "SourceError",
    "Stopped",
    "SyntaxRefused",
    "TooMany",
    "UnknownName",
    "Unsupported",
]


class SfumatoError(Exception):
    """The root: `except sfumato.SfumatoError` catches everything we raise on purpose.

    `spent` says whether anything was charged: None where that is not known.
    """

    code = "error"
    status = 500
    sqlstate = "XX000"
    spent: bool | None = False


class InvalidParameter(SfumatoError, ValueError):
    """An argument outside its range."""

    code, status, sqlstate = "invalid_parameter", 422, "22023"

    def __init__(self, name: str, value: object, advice: str, *, problem: str = "") -> None:
        self.name, self.value, self.advice = name, value, advice
        super().__init__(f"{problem or f'{name} = {_shown(value)} cannot be used'}: {advice}")


class ConversationEnded(SfumatoError):
    """A conversation has given all the answers it was charged for."""

    code, status, sqlstate = "conversation_ended", 409, "55000"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"this conversation has reported {limit} answers above the threshold, which is all "
            f"it was charged for. Nothing was drawn. Start a new one; it is charged again."
        )


def _shown(value: object) -> str:
    """The value as text, cut where nobody would read on; Python refuses to print very long integers."""
    try:
        text = str(value)
    except ValueError:
        return "a huge number"
    return text if len(text) <= 200 else f"{text[:200]}..."


class PolicyError(SfumatoError):
    """The policy file says something that cannot be meant."""

    code, status, sqlstate = "invalid_policy", 503, "58000"

    def __init__(self, file: str, line: int | None, key: str, problem: str, advice: str) -> None:
        self.file, self.line, self.key, self.problem, self.advice = file, line, key, problem, advice
        where = f"{file}, line {line}" if line else file
        subject = f"{where}: {key}: " if key else f"{where}: "
        super().__init__(f"{subject}{problem}. {advice}")


class QueryRefused(SfumatoError):
    """A query we will not run. Decided from public facts alone, so it costs nothing."""

    code, status, sqlstate = "query_refused", 422, "0A000"

    was_answered = False  # by an earlier version, which read it otherwise than SQL does
    is_shown_elsewhere = False  # what a plan cannot show, something made of its release may

    def __init__(
        self, problem: str, advice: str, *, sql: str = "", span: tuple[int, int] | None = None
    ) -> None:
        self.problem, self.advice, self.sql, self.span = problem, advice, sql, span
        picture = f"\n{caret(sql, span)}\n" if span and sql else " "
        super().__init__(f"{problem}.{picture}{advice}\nNothing was spent and no row was read.")


class SyntaxRefused(QueryRefused):
    """The text is not SQL we can read."""

    code, sqlstate = "syntax_error", "42601"


# of names that are not there, by what they would name; else those of columns
SQLSTATES = {"table": "42P01", "table in the catalog": "42P01", "setting": "42704"}


class UnknownName(QueryRefused):
    """No such table or column."""

    code = "unknown_name"

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, sql: str, span: tuple[int, int] | None
    ) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        self.sqlstate = SQLSTATES.get(kind, "42703")
        self.nearest = tuple(nearest(name, self.known))
        if self.nearest:
            advice = f"Did you mean {' or '.join(self.nearest)}?"
        else:
            advice = f"Known: {', '.join(self.known)}."
            if not self.known:
                advice = f"No {kind} is declared there: the owner can add it to the policy."
        super().__init__(f"there is no {kind} named {name!r}", advice, sql=sql, span=span)


class MissingBound(QueryRefused):
    """A column lacks the declaration this query needs."""

    code = "missing_bound"

    def __init__(
        self, problem: str, file: str, line_to_add: str, *, sql: str, span: tuple[int, int] | None
    ) -> None:
        self.file, self.line_to_add = file, line_to_add
        super().__init__(
            problem,
            f"The owner can declare it in {file}, for example:\n  {line_to_add}",
            sql=sql,
            span=span,
        )


class Unsupported(QueryRefused):
    """SQL that is not proven stable."""

    code = "unsupported"


class BudgetExceeded(SfumatoError):
    """The database, or the analyst's share of it, has less budget left than the query asks for."""

    code, status, sqlstate = "budget_exceeded", 402, "53400"

    def __init__(self, whose: str, asked: str, left: str, owner_advice: str, least: str = "") -> None:
        """`least` is what a question costs at least, if less than that is left."""
        self.whose, self.asked, self.left = whose, asked, left
        has, ask = f"has only {left} left", f"Ask for at most {left}, r"
        if not left:
            has, ask = "has nothing left", "R"
        elif least:
            has, ask = f"has only {left} left, and a question costs at least {least}", "R"
        super().__init__(
            f"this query asks for {asked}, but {whose} {has}. Nothing was spent and no row was read. "
            f"{ask}epeat an earlier question (repeats are free), or {owner_advice}"
        )


class PromiseBroken(BudgetExceeded):
    """There is budget left, but an answer at this price would break a promise of the owner."""

    code = "promise_broken"

    def __init__(self, name: str, asked: str, left: str, promise: str) -> None:
        self.whose, self.asked, self.left = name, asked, left
        SfumatoError.__init__(
            self,
            f"this query asks for {asked}, which would break a promise of {name!r}: {promise}. Nothing was "
            "spent and no row was read. Ask for less, ask something that reveals less about it, or repeat an "
            "earlier question (repeats are free). What is left of each promise, and whether "
            "one is already broken: sfumato check POLICY",
        )


class LedgerError(SfumatoError):
    """The ledger file cannot be used."""

    code, status, sqlstate = "ledger_unavailable", 503, "58000"

    def __init__(self, message: str, *, spent: bool | None = False) -> None:
        self.spent = spent
        super().__init__(message)


class SourceError(SfumatoError):
    """The database cannot be opened, or does not fit the policy."""

    code, status, sqlstate = "source_unavailable", 503, "58000"


class NotRead(SourceError):
    """The owner has not read the files through as they are. It never says why: the reason may be a value."""

    code = "files_not_read"

    def __init__(self, path: str, policy: str) -> None:
        self.path, self.policy = path, policy
        super().__init__(
            f"the files in {path} have not been checked in their current state, so new questions are not "
            "answered from them. Nothing was charged; earlier questions can be repeated. The owner checks "
            f"them once, and again when they change: sfumato check --read {policy}"
        )


class AccessDenied(SfumatoError):
    """A server does not know who asks."""

    code, status, sqlstate = "access_denied", 401, "42501"


class NotAllowed(AccessDenied):
    """The role of the caller does not include this."""

    code, status = "not_allowed", 403


class TooMany(SfumatoError):
    """A server is asked too much at once; nothing was spent."""

    code, status, sqlstate = "too_many_requests", 429, "53300"

    def __init__(self, what: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"{what}. Nothing was spent. Ask again in {seconds:.0f} s.")


class Stopped(SfumatoError):
    """Too many answers of one analyst came late or failed, which tells something about the data."""

    code, status, sqlstate = "analyst_suspended", 403, "42501"

    def __init__(self, name: str, times: int) -> None:
        self.name, self.times = name, times
        super().__init__(
            f"{times} answers to {name!r} were late or failed (a deadline that was doubled twice counts "
            "twice). Each of them may reveal something about the data that no budget pays for, so new "
            "questions are suspended until the owner has reviewed them. Nothing was spent; earlier questions "
            f"can still be repeated. The owner lifts the suspension: sfumato user review POLICY {name}"
        )


class Halted(Stopped):
    """A question that ran too long was stopped, and is not run again before the owner has reviewed it."""

    code = "question_suspended"

    def __init__(self, database: str, receipt: int) -> None:
        self.database, self.receipt = database, receipt
        SfumatoError.__init__(
            self,
            f"this question was charged (receipt {receipt}) and then stopped, because it ran too long. It is "
            "not run again until the owner has reviewed it. Nothing more was or will be spent: "
            "after the review, the same question redeems its receipt. The owner allows it to run again: "
            "sfumato user review POLICY NAME",
        )


class KeyReused(SfumatoError):
    """An idempotency key stands for one question at one price, for ever."""

    code, status, sqlstate = "key_reused", 409, "22023"


class ServerError(SfumatoError):
    """A server, or its file of people, cannot be used."""

    code, status, sqlstate = "server_unavailable", 503, "58000"

    def __init__(self, message: str, *, spent: bool | None = False, status: int = 503) -> None:
        self.spent, self.status = spent, status
        super().__init__(message)


class AfterRelease(SfumatoError):
    """What a text makes of released rows cannot be computed. What it says depends on these rows alone."""

    code, status, sqlstate, spent = "not_computed", 422, "22000", None

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"the answer is released and stored, but what the query makes of it cannot be computed: {why}. "
            "Change the outer part of the query; the same questions inside it are not charged again."
        )


class QueryFailed(SfumatoError):
    """The engine failed after the charge. The message never says why: the reason may be private."""

    code, status, sqlstate, spent = "query_failed", 500, "58000", True

    def __init__(self) -> None:
        super().__init__(
            "the query could not be completed. Its charge stays in the ledger and its receipt is open: "
            "asking the same question again redeems it without a new charge, or says that the owner must "
            "review it first. "
            "The reason is withheld from analysts because it may depend on private data; "
            "the owner can run the engine on a copy to find it."
        )


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names most like the one typed, best first; none if nothing is close."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)


def caret(text: str, span: tuple[int, int]) -> str:
    """The line of `text` around `span`, with carets under it.

    >>> print(caret("SELECT agee FROM t", (7, 11)))
      SELECT agee FROM t
             ^^^^
    """
    start = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", start)
    line = text[start:] if end < 0 else text[start:end]
    width = max(1, min(span[1] - span[0], len(line) - (span[0] - start)))
    return f"  {line}\n  {' ' * (span[0] - start)}{'^' * width}"
