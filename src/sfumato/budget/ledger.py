"""The ledger: the only shared state, and the only thing that opens a Secret.

One SQLite file beside the policy, in write-ahead mode with a full sync on every commit. Three promises:

* a charge is on disk before the first row is read, and nothing ever takes it back (law 2);
* a release is on disk before it is shown, and the first draw for a receipt is the only one anybody sees;
* the running total never passes the budget, whatever the number of processes: the decision and the charge
  are one `BEGIN IMMEDIATE` transaction.

Totals are whole numbers of 10^-12 epsilon; a price that falls between two of them is rounded up.
The gate is the sum of epsilons, which stays valid when every question depends on earlier releases
(Rogers, Roth, Ullman and Vadhan, 2016; for sums of pure epsilons it is basic composition).
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sfumato.budget import record
from sfumato.errors import BudgetExceeded, InvalidParameter, LedgerError
from sfumato.exact.forks import RESTING, STILL
from sfumato.exact.secret import Secret, unseal
from sfumato.mechanisms.guarantee import decimal
from sfumato.mechanisms.mechanism import Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.mechanisms import Guarantee, Spend

Draw = tuple[Vector, ...]  # one integer vector a step

CURRENCY = "epsilon"
UNIT = 10**12  # parts of one epsilon
FORM = 1  # of the tables below
APPLICATION = 0x5F0A70  # marks a SQLite file as a ledger of ours
PATIENCE = 60.0  # seconds to wait for another process's transaction

_TABLES = """
CREATE TABLE about (currency TEXT NOT NULL, data_version INTEGER NOT NULL);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    key TEXT NOT NULL,
    data_version INTEGER NOT NULL,
    question TEXT NOT NULL,
    spend TEXT NOT NULL,
    price INTEGER NOT NULL CHECK (price >= 0),
    spent INTEGER NOT NULL
);
CREATE INDEX charges_by_key ON charges (key, data_version);
CREATE TABLE releases (
    number INTEGER NOT NULL REFERENCES charges (number),
    turn INTEGER NOT NULL,
    drawn TEXT NOT NULL,
    PRIMARY KEY (number, turn)
);
"""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge. It is redeemed once."""

    number: int
    price: Fraction
    spent: Fraction  # by the database in all, this charge included
    charged: Fraction  # by the call that returned this receipt: zero if it was paid before

    def __str__(self) -> str:
        return f"receipt {self.number}: epsilon {decimal(self.price)}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored release: what was drawn, and what was paid for it."""

    receipt: Receipt
    spend: Spend
    drawn: Draw


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

    number: int
    at: float  # seconds since 1970, by the owner's clock
    question: str
    price: Fraction
    spent: Fraction
    redeemed: bool


P = ParamSpec("P")
T = TypeVar("T")


def _plainly(act: Callable[Concatenate[Ledger, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Turn SQLite's complaints into ours, raised outside the handler: no chain holds a stored value."""

    @wraps(act)
    def acting(self: Ledger, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return act(self, *args, **kwargs)
        except (sqlite3.Error, OSError) as error:
            problem = str(error)
        raise LedgerError(
            f"the ledger {self.path} cannot be used ({problem}). Without it nothing can be charged, so "
            "nothing is answered. Check that the file is a ledger, not damaged, and its folder writable."
        )

    return acting


class Ledger:
    """The budget of one database, and the store of its releases."""

    def __init__(
        self, path: Path | str, *, name: str, total: Guarantee, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = Path(path).absolute()  # also keeps SQLite from reading meaning into names like :memory:
        self.name, self.total = name, total
        self._clock = clock
        self._store: sqlite3.Connection | None = None  # one for all threads, used under STILL
        self._place: tuple[int, int] | None = None
        RESTING.add(self)
        self._begin()

    @_plainly
    def _begin(self) -> None:
        with self._transaction() as store:
            self._prepare(store)

    # The three acts -----------------------------------------------------------------------------------

    @_plainly
    def charge(self, spend: Spend, key: str, *, question: str = "") -> Receipt:
        """Put a charge on disk, or refuse.

        A charge for the same key and the same spend on the same data is returned, not repeated: if it is
        still unredeemed the caller may redeem it, and if not, `keep` hands out what was kept.
        """
        price, text = price_of(spend), record.write(spend)
        with self._transaction() as store:
            version = self._data_version(store)
            earlier = store.execute(
                "SELECT number, price, spent FROM charges WHERE key = ? AND data_version = ? AND spend = ?",
                (key, version, text),
            ).fetchone()
            if earlier:
                return _receipt(*earlier, charged=0)
            spent = self._spent(store)
            left = _units_down(self.total.epsilon) - spent
            if price > left:
                raise BudgetExceeded(
                    self.name,
                    f"epsilon {decimal(Fraction(price, UNIT))}",
                    f"epsilon {decimal(Fraction(max(left, 0), UNIT))}",
                    "let the owner raise epsilon under [budget] in the policy.",
                )
            number = store.execute(
                "INSERT INTO charges (at, key, data_version, question, spend, price, spent)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self._clock(), key, version, question, text, price, spent + price),
            ).lastrowid
        assert number is not None
        return _receipt(number, price, spent + price, charged=price)

    def keep(self, receipt: Receipt, drawn: Secret[Draw], turn: int = 0) -> Draw:
        """Store a release, then show it. If one was stored before, that one is shown and this one is lost."""
        stored: str | None = None
        interrupted = False
        try:
            stored = self._write(receipt.number, turn, drawn)
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:  # whatever failed, an unstored draw must not live on in a traceback
            pass
        del drawn
        if interrupted:
            raise KeyboardInterrupt
        if stored is None:
            raise LedgerError(
                f"the release could not be stored in {self.path.name}, so it is not shown. The charge stays; "
                "once the disk is writable again, the same question redeems it without a new charge."
            )
        return _draw(stored)

    def _write(self, number: int, turn: int, drawn: Secret[Draw]) -> str:
        """Write a draw unless one is there, and read back the one that is."""
        text = json.dumps(unseal(drawn), separators=(",", ":"))
        with self._transaction() as store:
            store.execute(
                "INSERT OR IGNORE INTO releases (number, turn, drawn) VALUES (?, ?, ?)", (number, turn, text)
            )
            found = store.execute("SELECT drawn FROM releases WHERE number = ? AND turn = ?", (number, turn))
            return str(found.fetchone()[0])

    @_plainly
    def kept(self, key: str, spend: Spend) -> Kept | None:
        """The stored release that answers this question: one with the same spend, or with a larger one."""
        price = price_of(spend)
        with self._reading() as store:
            row = store.execute(
                "SELECT number, price, spent, spend, drawn FROM charges JOIN releases USING (number)"
                " WHERE key = ? AND data_version = (SELECT data_version FROM about) AND price >= ?"
                " AND turn = 0 ORDER BY price DESC, number LIMIT 1",
                (key, price),
            ).fetchone()
        if row is None:
            return None
        return Kept(_receipt(*row[:3], charged=0), record.read(row[3]), _draw(row[4]))

    # What is left -------------------------------------------------------------------------------------

    @property
    @_plainly
    def spent(self) -> Fraction:
        """Epsilon spent so far, by everybody."""
        with self._reading() as store:
            return Fraction(self._spent(store), UNIT)

    @property
    def left(self) -> Fraction:
        """Epsilon that can still be spent."""
        return max(self.total.epsilon - self.spent, Fraction(0))

    @property
    @_plainly
    def data_version(self) -> int:
        """Which state of the data the stored releases speak of."""
        with self._reading() as store:
            return self._data_version(store)

    @_plainly
    def history(self) -> tuple[Entry, ...]:
        """Every charge, oldest first."""
        with self._reading() as store:
            rows = store.execute(
                "SELECT number, at, question, price, spent,"
                " EXISTS (SELECT 1 FROM releases WHERE releases.number = charges.number)"
                " FROM charges ORDER BY number"
            )
            return tuple(
                Entry(number, at, question, Fraction(price, UNIT), Fraction(spent, UNIT), bool(redeemed))
                for number, at, question, price, spent, redeemed in rows
            )

    @_plainly
    def data_changed(self) -> int:
        """Say that the tables changed: stored releases no longer answer. Returns no budget (law 11)."""
        with self._transaction() as store:
            store.execute("UPDATE about SET data_version = data_version + 1")
            return self._data_version(store)

    # The file -----------------------------------------------------------------------------------------

    def _spent(self, store: sqlite3.Connection) -> int:
        row = store.execute("SELECT spent FROM charges ORDER BY number DESC LIMIT 1").fetchone()
        return int(row[0]) if row else 0

    def _data_version(self, store: sqlite3.Connection) -> int:
        return int(store.execute("SELECT data_version FROM about").fetchone()[0])

    def _prepare(self, store: sqlite3.Connection) -> None:
        (application,) = store.execute("PRAGMA application_id").fetchone()
        (form,) = store.execute("PRAGMA user_version").fetchone()
        (tables,) = store.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables == 0 and application == 0:
            for statement in _TABLES.split(";"):
                store.execute(statement)
            store.execute("INSERT INTO about VALUES (?, 1)", (CURRENCY,))
            store.execute(f"PRAGMA application_id = {APPLICATION}")
            store.execute(f"PRAGMA user_version = {FORM}")
            return
        if application != APPLICATION:
            raise LedgerError(
                f"{self.path} is a SQLite file, but not a ledger of sfumato. It was left as it is. "
                "Name another file under [budget] ledger in the policy."
            )
        if form != FORM:
            raise LedgerError(
                f"{self.path} was written by a newer sfumato (form {form}; this one reads {FORM}). "
                "It was left as it is. Install the newer version."
            )
        (currency,) = store.execute("SELECT currency FROM about").fetchone()
        if currency != CURRENCY:
            raise LedgerError(
                f"{self.path} counts {currency}, and the policy gives {CURRENCY}. The currency of a ledger "
                "is fixed before its first charge; it was left as it is."
            )

    def rest(self) -> None:
        """Close the file before a fork; parent and child each open it again when they need it."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> sqlite3.Connection:
        if self._store is None:
            # transactions are opened by hand; any thread may use it, since STILL lets in one at a time
            store = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("PRAGMA synchronous = FULL")
            self._store = store
        return self._store

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with STILL:
            if self._place is None and not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._check_place()
            yield self._opened()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as store:
            try:
                store.execute("BEGIN IMMEDIATE")
                yield store
                store.execute("COMMIT")
            finally:
                if store.in_transaction:
                    store.execute("ROLLBACK")

    def _check_place(self) -> None:
        """Refuse a file that is no longer the one at the path: others would not see what is charged to it."""
        place = os.stat(self.path)
        here = (place.st_dev, place.st_ino)
        if self._place is None:
            self._place = here
        if here != self._place:
            raise LedgerError(
                f"the ledger {self.path} was replaced while it was open, so nothing is charged or answered. "
                "Put the original file back, or open the database again if the replacement is meant."
            )


def price_of(spend: Spend) -> int:
    """What a spend costs, in units of 10^-12 epsilon, rounded up.

    Guarantee: the sum of the epsilons of its steps bounds the epsilon of all of them together.
    Proof: basic composition (Dwork and Roth, 2014, theorem 3.14; under adaptive choice Rogers, Roth, Ullman
    and Vadhan, 2016).
    """
    total = Fraction(0)
    for step in spend:
        bound = step.bound()
        if bound.epsilon is None or bound.delta > 0:
            raise InvalidParameter(
                "spend", step.mechanism.name, "this ledger counts epsilon, and no pure bound is proved for it"
            )
        total += bound.epsilon
    return -(-total.numerator * UNIT // total.denominator)


def _units_down(value: Fraction) -> int:
    return value.numerator * UNIT // value.denominator


def _receipt(number: int, price: int, spent: int, *, charged: int) -> Receipt:
    return Receipt(number, Fraction(price, UNIT), Fraction(spent, UNIT), Fraction(charged, UNIT))


def _draw(text: str) -> Draw:
    return tuple(tuple(int(y) for y in vector) for vector in json.loads(text))
