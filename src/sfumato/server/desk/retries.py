"""What was asked, and retries of it under an idempotency key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter, KeyReused
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.sql import LONGEST_QUESTION
from sfumato.queries.statement import read

if TYPE_CHECKING:
    from sfumato.budget import Ledger
    from sfumato.curator.batch import Batch
    from sfumato.curator.question import Question
    from sfumato.curator.release import Release, Releases
    from sfumato.queries.parameters import Given
    from sfumato.queries.statement import Statement

LONGEST_IDEMPOTENCY_KEY = 200
PRICES = ("epsilon", "rho", "delta", "tune", "within", "most")  # what says what a question costs


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question and its price, as they came through a door."""

    sql: str
    epsilon: str | None = None
    rho: str | None = None
    delta: str | None = None
    tune: str | None = None
    parameters: tuple[Given, ...] = ()
    statement: Statement | None = None  # the text as it was read, if it was
    spelled: str = "duckdb"  # the dialect of the text, if it is still to be read
    within: str | None = None  # the error that is wished, instead of a price
    most: str | None = None  # that may be paid for it

    @property
    def price(self) -> dict[str, str | None]:
        """What was said of its price."""
        return {name: getattr(self, name) for name in PRICES}

    def at(self, price: dict[str, str]) -> Wanted:
        """The same at a price that is known."""
        epsilon, rho = price.get("epsilon"), price.get("rho")
        return replace(self, within=None, most=None, epsilon=epsilon, rho=rho)

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is remembered by; 1 and True are equal, and not the same."""
        given = tuple((type(value).__name__, repr(value)) for value in self.parameters)
        dialect = self.spelled if self.statement is None else self.statement.spelled
        dialect = "" if dialect == "duckdb" else dialect
        return self.sql, dialect, *self.price.values(), given

    def read(self) -> Statement:
        """What it says, with its values in place."""
        return (self.statement or read(self.sql, self.spelled)).bound(self.parameters)

    @property
    def is_long(self) -> bool:
        """Whether it takes more memory than any question that can be read."""
        return len(self.sql) + len(repr(self.parameters)) > 2 * LONGEST_QUESTION


@dataclass(frozen=True, slots=True)
class Retried:
    """A question under an idempotency key: what was asked under it first is what it stands for.

    The key is noted before the charge, with the question and the version of the data, so that whatever is
    lost later, a retry finds the charge and its release: also if the data changed meanwhile.
    """

    ledger: Ledger
    asked: Question | Batch
    wanted: tuple[Wanted, ...]
    about: str

    def _noted(self) -> tuple[dict[str, Any], ...]:
        noted = self.ledger.notes("asked", self.about)
        names = (_fingerprint(*self.wanted), _former_fingerprint(*self.wanted)) if noted else ()
        if any(each["asked"] not in names for each in noted):
            raise KeyReused(
                "this idempotency key was used for another question or another price. Nothing was spent. "
                "Use each key for one question; a retry must repeat the request exactly."
            )
        return noted

    def stored(self) -> Release | Releases | None:
        """What was released under the key; if nothing was asked under it, what is free without one, since
        there is nothing that a retry could pay twice."""
        noted = self._noted()
        for each in noted:
            if (
                self.asked.is_or_was(each["key"])
                and (kept := self.asked.kept(version=each["version"])) is not None
            ):
                return kept
        return None if noted else self.asked.kept()

    def release(self) -> Release | Releases:
        """What was released under the key, or what is released now."""
        if (stored := self.stored()) is not None:
            return stored
        ledger, noted = self.ledger, self._noted()
        version = ledger.data_version
        if not noted or noted[-1]["version"] != version or not self.asked.is_or_was(noted[-1]["key"]):
            if any(ledger.charged(each["key"], version=each["version"]) for each in noted):
                raise KeyReused(
                    "what was asked under this idempotency key is paid for, but the data, the policy or the "
                    "reading of its SQL has changed, so it can no longer be shown under this key. Nothing "
                    "more was spent. Ask under another key: that is a new question."
                )
            price, left = self.asked.still_needed, self.asked.database.left
            if price.amount > left.amount or price.delta > left.delta or self.asked.breaks:
                return self.asked.release()  # refused: then the key stands for nothing
            self._note(version)
        found = self.asked.release()
        if ledger.data_version != version:  # the data changed in between
            self._note(ledger.data_version)
        return found

    def _note(self, version: int) -> None:
        facts: dict[str, Any] = {"asked": _fingerprint(*self.wanted), "key": self.asked.key}
        facts["version"] = version
        if any(each.within is not None for each in self.wanted):  # a retry is asked at the same price
            (price,) = self.asked.prices
            facts["price"] = {price.currency: decimal(price.amount)}
        self.ledger.note("asked", facts, about=self.about)


def check_key(key: str) -> None:
    """Refuse an idempotency key that is none."""
    if key and (len(key) > LONGEST_IDEMPOTENCY_KEY or not key.isprintable()):
        raise InvalidParameter(
            "Idempotency-Key", key, f"use at most {LONGEST_IDEMPOTENCY_KEY} printable characters"
        )


def _fingerprint(*wanted: Wanted) -> str:
    """Names what was sent, by names of its own: what is not given is left out."""
    forms = []
    for each in wanted:
        given = [[type(value).__name__, repr(value)] for value in each.parameters]
        form = {
            "sql": each.sql,
            **each.price,
            "parameters": given or None,
        }
        forms.append({name: value for name, value in form.items() if value is not None})
    text = json.dumps({"form": 1, "wanted": forms}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _former_fingerprint(*wanted: Wanted) -> str:
    """What it was called before it had a form: never to be changed."""
    names = ("sql", "epsilon", "rho", "delta", "tune", "parameters")
    fields = [{name: getattr(each, name) for name in names} for each in wanted]
    return hashlib.sha256(json.dumps(fields, default=repr, sort_keys=True).encode()).hexdigest()
