"""The ledger: the only shared state, and the only thing that opens a Secret.

A table that is only appended to: charges and releases, and everything else that changes what may be asked
(grants, shares, policies, versions of the data). Its promises:

* a charge is on disk before the first row is read, and nothing ever takes it back (law 2);
* a release is on disk before it is shown, and the first draw for a receipt is the only one anybody sees;
* the running total never passes the budget, whatever the number of processes and servers: one writer at a
  time decides and writes, in one transaction, for everybody who waits;
* each entry carries a hash over itself and the one before, the last of which is noted outside (`witness`): a
  ledger that was tampered with, cut short, deleted or replaced by an older copy answers nothing.

Totals are whole numbers of 10^-12 (delta: 10^-18); a price that falls between two of them is rounded up. The
gate is a filter, valid when every question depends on earlier releases (`filters`).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from sfumato.budget import filters, record, shares
from sfumato.budget.filters import FINE, UNIT
from sfumato.budget.loss import PrivacyLoss
from sfumato.budget.queue import Queue
from sfumato.budget.store import COLUMNS, FORM, SQLite, Store
from sfumato.budget.witness import Mark, Witness
from sfumato.errors import BudgetExceeded, LedgerError
from sfumato.exact.coins import SystemCoins
from sfumato.exact.forks import RESTING, STILL
from sfumato.exact.secret import Secret, unseal
from sfumato.mechanisms.mechanism import Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.budget.shares import Share
    from sfumato.budget.store import Row
    from sfumato.mechanisms import Guarantee, Spend

Draw = tuple[Vector, ...]  # one integer vector a step
Wish = dict[str, Any]  # what is to be written; and what came of it
SECOND = 10**6  # times are whole numbers of microseconds
ORIGIN = "0" * 64  # the head before the first entry
SEEN = 16  # letters of a head that are shown
PAUSE = 0.0005  # seconds between two looks at whether somebody else has done it


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a charge. It is redeemed once."""

    number: int
    price: Guarantee
    spent: Guarantee  # by the database in all, this charge included
    charged: Guarantee  # by the call that returned this receipt: zero if it was paid before
    head: str  # of the ledger when it was charged

    def __str__(self) -> str:
        return f"receipt {self.number}-{self.head[:SEEN]}: {self.price}"


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
    at: float  # seconds since 1970, by the owner's clock; never earlier than the entry before
    kind: str
    analyst: str
    database: str
    question: str
    price: Guarantee
    spent: Guarantee
    redeemed: bool


P = ParamSpec("P")
T = TypeVar("T")


def _plainly(act: Callable[Concatenate[Ledger, P], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Turn a store's complaints into ours, raised outside the handler: no chain holds a stored value."""

    @wraps(act)
    def acting(self: Ledger, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with STILL:
                return act(self, *args, **kwargs)
        except self.store.problems as error:
            problem = str(error)
        raise self.unusable(problem)

    return acting


class Ledger:
    """The budget of one database, or of several about the same people, and the store of its releases."""

    def __init__(
        self,
        place: Path | str,
        *,
        name: str,
        total: Guarantee,
        policy: str = "",
        witness: Path | None = None,
        clock: Callable[[], float] = time.time,
        accept: bool = False,
    ) -> None:
        """`accept` goes on with a ledger that is older than what is remembered of it, or with a new one: for
        the owner, after a loss. What is missing counts as spent, and stored releases that are missing are
        lost.
        """
        self.name, self.total, self._policy, self._clock = name, total, policy, clock
        if str(place).startswith(("postgres://", "postgresql://")):
            # only who uses it needs the driver
            self.store: Store = import_module("sfumato.budget.postgres").Postgres(str(place))
            self.path = witness if witness is not None else Path(f"{name}.ledger").absolute()
        else:
            self.path = Path(place).absolute()  # also keeps SQLite from reading meaning into :memory:
            self.store = SQLite(self.path)
        self._queue = Queue(self.path.with_name(self.path.name + ".queue"))
        self._witness = Witness(self.path.with_name(self.path.name + ".head"))
        self._waiting: deque[_Ticket] = deque()  # whose operations are atomic
        self._end: _Line | None = None  # the last entry, while this process is writing
        self._identity = ""
        RESTING.add(self)
        self._begin(accept)

    # The three acts -----------------------------------------------------------------------------------

    def charge(
        self, spend: Spend, key: str, *, slack: Fraction = Fraction(0), question: str = "", analyst: str = ""
    ) -> Receipt:
        """Put a charge on disk, or refuse.

        A charge for the same key and the same spend on the same data is returned, not repeated: if it is
        still unredeemed the caller may redeem it, and if not, `keep` hands out what was kept. `slack` is what
        a spend without a pure epsilon may take of delta.
        """
        price = self.price_of(spend, slack)
        found = self._submit(
            {
                "act": "charge",
                "key": key,
                "spend": record.write(spend),
                "question": question,
                "analyst": analyst,
                "price": _units(price),
                "limit": _units(self.total),
            }
        )
        if "refused" in found:
            raise self._over(price, found)
        return self._receipt(found["receipt"], charged=found["new"])

    def keep(self, receipt: Receipt, drawn: Secret[Draw], turn: int = 0) -> Draw:
        """Store a release, then show it. If one was stored before, that one is shown and this one is lost."""
        stored: str | None = None
        interrupted, text = False, ""
        try:
            text = json.dumps(unseal(drawn), separators=(",", ":"))
            stored = self._submit({"act": "keep", "number": receipt.number, "turn": turn, "drawn": text})[
                "drawn"
            ]
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:  # whatever failed, an unstored draw must not live on in a traceback
            pass
        del drawn, text
        if interrupted:
            raise KeyboardInterrupt
        if stored is None:
            raise LedgerError(
                f"the release could not be stored in {self.path.name}, so it is not shown. The charge stays; "
                "once the disk is writable again, the same question redeems it without a new charge."
            )
        return _draw(stored)

    @_plainly
    def kept(self, key: str, spend: Spend, *, slack: Fraction = Fraction(0)) -> Kept | None:
        """The stored release that answers this question: one with the same spend, or with a larger one."""
        (amount, lost) = _units(self.price_of(spend, slack))
        rows = self.store.read(
            f"SELECT {_ALL}, r.body FROM entries c JOIN entries r"
            " ON r.topic = 'release/' || CAST(c.number AS TEXT) || '/0'"
            " WHERE c.found = ? AND c.amount >= ? AND c.slack >= ? ORDER BY c.amount DESC, c.number LIMIT 1",
            (self._found(key, self._data_version()), amount, lost),
        )
        if not rows:
            return None
        charge, body = _Line(*rows[0][:-1]), json.loads(rows[0][-1])
        receipt = self._receipt(charge.facts, charged=False)
        return Kept(receipt, record.read(json.loads(charge.body)["spend"]), _draw(body["drawn"]))

    def price_of(self, spend: Spend, slack: Fraction = Fraction(0)) -> Guarantee:
        """What a spend costs here: by the filter of this ledger's currency."""
        return filters.price(spend, self.total.of(Fraction(0), slack))

    # What is left -------------------------------------------------------------------------------------

    @property
    @_plainly
    def spent(self) -> Guarantee:
        """Spent so far, by everybody."""
        last = self._last()
        return self._guarantee(last.spent, last.lost)

    @property
    def left(self) -> Guarantee:
        """What can still be spent."""
        return self.total.minus(self.spent)

    @_plainly
    def left_for(self, analyst: str) -> Guarantee:
        """What this analyst can still spend: of the total, and of a share if there is one."""
        left, last = self.left, self._last()
        share = self._share(analyst)
        if share is None:
            return left if not self._shares() or not analyst else self._guarantee(0, 0)
        amount, slack = self._room(share, max(self._now(), last.at))
        return self._guarantee(min(amount, int(left.amount * UNIT)), min(slack, int(left.delta * FINE)))

    @property
    @_plainly
    def data_version(self) -> int:
        """Which state of the data the stored releases speak of."""
        return self._data_version()

    @property
    @_plainly
    def head(self) -> str:
        """The number and hash of the last entry: what a receipt shows, and `--verify` looks for."""
        last = self._last()
        return f"{last.number}-{last.head}"

    @_plainly
    def history(self) -> tuple[Entry, ...]:
        """Every charge, oldest first."""
        redeemed = {topic.split("/")[1] for (topic,) in self.store.read(
            "SELECT topic FROM entries WHERE kind = 'release'"
        )}  # fmt: skip
        rows = self.store.read(f"SELECT {_ALL} FROM entries c WHERE kind = 'charge' ORDER BY number")
        return tuple(self._entry(_Line(*row), str(row[0]) in redeemed) for row in rows)

    @_plainly
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of any kind, oldest first."""
        rows = self.store.read(f"SELECT {_ALL} FROM entries c ORDER BY number")
        return tuple(self._entry(_Line(*row), False) for row in rows)

    @_plainly
    def loss(self) -> PrivacyLoss:
        """The privacy loss of everything charged so far, as if it had been planned.

        A label, never a promise: who asks next depends on the answers, and whoever stops when she is ahead
        makes the delta read from it false (`filters.stopping`).
        """
        total = PrivacyLoss()
        for (body,) in self.store.scan("SELECT body FROM entries WHERE kind = 'charge' ORDER BY number"):
            total = total.then(PrivacyLoss.of(record.read(json.loads(body)["spend"])))
        return total

    @_plainly
    def shares(self) -> tuple[tuple[Share, Guarantee], ...]:
        """Every share, and what is left of it now."""
        now = max(self._now(), self._last().at)
        return tuple((share, self._guarantee(*self._room(share, now))) for share in self._shares().values())

    # What the owner does ------------------------------------------------------------------------------

    def data_changed(self) -> int:
        """Say that the tables changed: stored releases no longer answer. Returns no budget (law 11)."""
        return int(self._submit({"act": "data"})["version"])

    def share(self, share: Share) -> None:
        """Give an analyst or a group an allowance out of the total, or change it."""
        shares.check(share, self.total)
        self._submit({"act": "note", "kind": "share", "found": "shares", "body": share.as_dict()})

    def note(self, kind: str, facts: dict[str, Any]) -> None:
        """Write down something that costs nothing and matters later, such as a run of `tune`."""
        self._submit({"act": "note", "kind": kind, "found": None, "body": facts})

    @_plainly
    def verify(self, head: str | None = None) -> int:
        """Go through all entries: hashes, running totals, prices, releases, and what is remembered outside.

        `head` is one printed in a receipt ("12-3f0a..."), which must be found. Returns how many entries there
        are; refuses with the first that is wrong.
        """
        paid: set[str] = set()
        own: dict[str, tuple[int, int]] = {}
        spent = lost = 0
        number, _, wanted = (head or "").partition("-")
        line, found = _FIRST, head is None
        for line in self._walk():
            found |= str(line.number) == number and len(wanted) >= SEEN and line.head.startswith(wanted)
            spent, lost = spent + line.amount, lost + line.slack
            before = own.get(line.who, (0, 0))
            own[line.who] = (before[0] + line.amount, before[1] + line.slack)
            totals = (line.spent, line.lost) == (spent, lost)
            if not totals or (line.who and own[line.who] != (line.own_spent, line.own_lost)):
                raise self._broken(line, "its running total is not the sum of the prices before it")
            if line.kind == "charge":
                price = self.price_of(record.read(json.loads(line.body)["spend"]), Fraction(line.slack, FINE))
                # the epsilon of a delta is computed with floats: another machine may round it elsewhere
                if price.amount > Fraction(line.amount, UNIT) * (1 + Fraction(1, 10**6) * bool(line.slack)):
                    raise self._broken(line, "it costs less than what was run")
                paid.add(str(line.number))
            if line.kind == "release" and str(line.topic).split("/")[1] not in paid:
                raise self._broken(line, "it was never paid for")
        if not found:
            raise LedgerError(
                f"the ledger {self.store.name} has no entry {head}. If a receipt shows it, this is not the "
                "ledger that gave it, or not all of it. Look for the right file."
            )
        self._check_witness(line)
        return line.number

    # One writer for everybody -------------------------------------------------------------------------

    def _submit(self, wish: Wish) -> Wish:
        """Have it written, together with whatever else is waiting in this process or another."""
        wish = {**wish, "name": self.name, "at": self._now()}
        ticket = _Ticket(wish)
        self._waiting.append(ticket)  # whoever is in there may take it along
        with STILL:
            if ticket.answer is None:
                self._lead()
        if ticket.answer is None:
            raise LedgerError(ticket.problem)
        return ticket.answer

    def _lead(self) -> None:
        """Write for everybody in this process who waits now."""
        tickets: list[_Ticket] = []
        while self._waiting:
            tickets.append(self._waiting.popleft())
        problem = "the ledger was interrupted, so nothing is charged or answered. Ask again."
        try:
            answers = self._answers([ticket.wish for ticket in tickets])
            for ticket, answer in zip(tickets, answers, strict=True):
                ticket.answer = answer
        except self.store.problems as error:
            problem = str(self.unusable(str(error)))
        except LedgerError as error:
            problem = str(error)
        finally:
            for ticket in tickets:
                ticket.problem = problem

    def _answers(self, wishes: list[Wish]) -> list[Wish]:
        """Write them, or let whoever is writing do it."""
        try:
            if (told := self._alone_or_told(wishes)) is not None:
                return told
            with self.store.writing():
                self._check_end()
                answers = [self._perform(wish) for wish in wishes]
                replies = [(page, self._for_another(text)) for page, text in self._queue.wishes()]
            self._note_witness()
            for page, reply in replies:
                if reply is not None:
                    self._queue.answer(page, reply)
            return answers
        finally:
            self._end = None
            self.store.leave()

    def _for_another(self, text: bytes) -> bytes | None:
        """What another process wishes; None if it makes no sense here, and then it must see for itself."""
        try:
            return json.dumps([self._perform(wish) for wish in json.loads(text)]).encode()
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def _alone_or_told(self, wishes: list[Wish]) -> list[Wish] | None:
        """Wait until this process is the only writer, or until another one has written what it wished for.

        Whoever writes takes along all wishes it finds, so nobody waits for more than two commits, in whatever
        order the lock is given.
        """
        if self.store.alone(wait=False):
            return None
        if not self._queue.ask(json.dumps(wishes).encode()):
            self.store.alone(wait=True)
            return None
        try:
            while not self._queue.is_answered:
                time.sleep(PAUSE)
                if self.store.alone(wait=False):
                    break
        finally:
            text = self._queue.answer_taken()
        if text is None:
            return None
        told: list[Wish] = json.loads(text)
        return told

    def _perform(self, wish: Wish) -> Wish:
        """One wish, inside the transaction. It refuses before it writes, so a refusal leaves nothing."""
        return {
            "charge": self._do_charge,
            "keep": self._do_keep,
            "data": self._do_data,
            "note": self._do_note,
        }[wish["act"]](wish)

    def _do_charge(self, wish: Wish) -> Wish:
        found = self._found(wish["key"], self._data_version(wish["name"]), wish["name"])
        topic = "charge/" + hashlib.sha256(f"{found}\n{wish['spend']}".encode()).hexdigest()
        if (earlier := self._at_topic(topic)) is not None:
            return {"receipt": earlier.facts, "new": False}
        last, (amount, slack) = self._last(), wish["price"]
        left = [wish["limit"][0] - last.spent, wish["limit"][1] - last.lost]
        if amount > left[0] or slack > left[1]:
            return {"refused": "total", "left": [max(each, 0) for each in left]}
        given, analyst = self._shares(), wish["analyst"]
        share = shares.of(analyst, given)
        if share is None and analyst and given:
            return {"refused": "stranger", "left": [0, 0]}
        if share is not None:
            room = self._room(share, max(wish["at"], last.at))
            if amount > room[0] or slack > room[1]:
                again = shares.next_refresh(share, max(wish["at"], last.at))
                return {"refused": "share", "left": list(room), "share": share.name, "again": again}
        body = {
            "database": wish["name"],
            "question": wish["question"],
            "analyst": analyst,
            "spend": wish["spend"],
        }
        line = self._append(
            "charge", wish["at"], body, who=share.name if share else analyst, topic=topic, found=found,
            price=(amount, slack),
        )  # fmt: skip
        return {"receipt": line.facts, "new": True}

    def _do_keep(self, wish: Wish) -> Wish:
        topic = f"release/{wish['number']}/{wish['turn']}"
        if (earlier := self._at_topic(topic)) is not None:
            return {"drawn": json.loads(earlier.body)["drawn"]}
        self._append("release", wish["at"], {"drawn": wish["drawn"]}, topic=topic)
        return {"drawn": wish["drawn"]}

    def _do_data(self, wish: Wish) -> Wish:
        version = self._data_version(wish["name"]) + 1
        self._append("data", wish["at"], {"version": version}, found=f"data/{wish['name']}")
        return {"version": version}

    def _do_note(self, wish: Wish) -> Wish:
        body = {"database": wish.get("name", self.name), **wish["body"]}
        at, price = wish.get("at", self._now()), tuple(wish.get("price", (0, 0)))
        self._append(wish["kind"], at, body, found=wish["found"], price=price)
        return {}

    def _append(
        self, kind: str, at: int, body: dict[str, Any], *, who: str = "", topic: str | None = None,
        found: str | None = None, price: tuple[int, ...] = (0, 0),
    ) -> _Line:  # fmt: skip
        """The next entry of the chain."""
        last, (amount, slack) = self._last(), price
        own = (0, 0)
        if who:
            rows = self.store.read(
                "SELECT own_spent, own_lost FROM entries WHERE who = ? ORDER BY number DESC LIMIT 1", (who,)
            )
            own = rows[0] if rows else (0, 0)
            own = (own[0] + amount, own[1] + slack)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        facts = (
            last.number + 1, max(at, last.at), kind, who, topic, found, text, amount, slack,
            last.spent + amount, last.lost + slack, *own,
        )  # fmt: skip
        line = _Line(*facts, _hashed(last.head, facts))
        self.store.write([line])
        if self._end is not None:
            self._end = line
        return line

    # Reading ------------------------------------------------------------------------------------------

    def _last(self) -> _Line:
        if self._end is not None:
            return self._end
        rows = self.store.read(f"SELECT {_ALL} FROM entries c ORDER BY number DESC LIMIT 1")
        return _Line(*rows[0]) if rows else _FIRST

    def _at_topic(self, topic: str) -> _Line | None:
        rows = self.store.read(f"SELECT {_ALL} FROM entries c WHERE topic = ?", (topic,))
        return _Line(*rows[0]) if rows else None

    def _data_version(self, name: str | None = None) -> int:
        found = f"data/{self.name if name is None else name}"
        rows = self.store.read(
            "SELECT body FROM entries WHERE found = ? ORDER BY number DESC LIMIT 1", (found,)
        )
        return int(json.loads(rows[0][0])["version"]) if rows else 1

    def _found(self, key: str, version: int, name: str | None = None) -> str:
        return f"charge/{self.name if name is None else name}/{version}/{key}"

    def _shares(self) -> dict[str, Share]:
        rows = self.store.read("SELECT body FROM entries WHERE found = 'shares' ORDER BY number")
        return shares.current(json.loads(body) for (body,) in rows)

    def _share(self, analyst: str) -> Share | None:
        return shares.of(analyst, self._shares())

    def _room(self, share: Share, now: int) -> tuple[int, int]:
        """What is left of a share: of its amount in this period, less what was spent since it began."""
        spent = lost = 0
        query = "SELECT own_spent, own_lost FROM entries WHERE who = ? {} ORDER BY number DESC LIMIT 1"
        for rows, sign in (
            (self.store.read(query.format(""), (share.name,)), 1),
            (self.store.read(query.format("AND at < ?"), (share.name, shares.began(share, now))), -1),
        ):
            for own_spent, own_lost in rows:
                spent, lost = spent + sign * own_spent, lost + sign * own_lost
        amount, slack = _units(share.allowance)
        return max(amount - spent, 0), max(slack - lost, 0)

    def _now(self) -> int:
        return int(self._clock() * SECOND)

    def _guarantee(self, amount: int, slack: int) -> Guarantee:
        return self.total.of(Fraction(amount, UNIT), Fraction(slack, FINE))

    def _receipt(self, facts: list[Any], *, charged: bool) -> Receipt:
        number, amount, slack, spent, lost, head = facts
        price = self._guarantee(amount, slack)
        return Receipt(
            number, price, self._guarantee(spent, lost), price if charged else self._guarantee(0, 0), head
        )

    def _entry(self, line: _Line, redeemed: bool) -> Entry:
        body = json.loads(line.body)
        return Entry(
            line.number, line.at / SECOND, line.kind, body.get("analyst", ""), body.get("database", ""),
            body.get("question", ""), self._guarantee(line.amount, line.slack),
            self._guarantee(line.spent, line.lost), redeemed,
        )  # fmt: skip

    def _over(self, price: Guarantee, found: Wish) -> BudgetExceeded:
        left = self._guarantee(*found["left"])
        whose, advice = (
            repr(self.name),
            f"let the owner raise {self.total.currency} under [budget] in the policy.",
        )
        if found["refused"] == "stranger":
            whose, advice = "whoever has no share", "ask the owner for one: sfumato grant POLICY NAME"
        elif found["refused"] == "share":
            whose = f"the share of {found['share']!r}"
            advice = "ask the owner for more: sfumato grant POLICY NAME"
            if found["again"]:
                advice = f"wait until {found['again']}, when it is filled up out of the database's own total."
        return BudgetExceeded(whose, str(price), str(left), advice)

    # The chain ----------------------------------------------------------------------------------------

    @_plainly
    def _begin(self, accept: bool) -> None:
        with self._alone():
            marks = self._witness.remembered()
            if not accept and marks and not self.store.exists():
                place, mark = marks[0]
                raise LedgerError(
                    f"there is no ledger at {self.store.name}, but {place} remembers one that had spent "
                    f"{self._guarantee(mark.spent, mark.lost)}. Nothing is charged or answered. Put it back; "
                    "or, if it is lost, go on with that much spent: sfumato budget POLICY --accept"
                )
            with self.store.writing():
                self._prepare()
            last = deque(self._walk(), maxlen=1)[0]
            if not accept:
                self._check_witness(last)
            with self.store.writing():
                if accept:
                    self._make_up(last)
                self._note_policy()
            self._note_witness()

    def _make_up(self, last: _Line) -> None:
        """Charge what is remembered and missing."""
        missing = (0, 0)
        for _, mark in self._witness.remembered(self._identity):
            spent, lost = (last.spent, last.lost) if mark.ledger == self._identity else (0, 0)
            missing = (max(missing[0], mark.spent - spent), max(missing[1], mark.lost - lost))
        self._append("restored", self._now(), {"database": self.name}, price=missing)

    def _prepare(self) -> None:
        form = self.store.prepare()
        if form == 0:
            self._open_book()
        elif form == 1:
            self._open_book()
            self._take_over()
        opened = json.loads(self.store.read("SELECT body FROM entries WHERE number = 1")[0][0])
        self._identity = opened["ledger"]
        if opened["currency"] != _currency(self.total):
            raise LedgerError(
                f"{self.store.name} counts {opened['currency']}, and the policy gives "
                f"{_currency(self.total)}. The currency of a ledger is fixed before its first charge; it was "
                "left as it is. "
                f"Write {opened['currency']} under [budget] in the policy, or name another ledger there."
            )

    def _open_book(self) -> None:
        identity = f"{SystemCoins().bits(128):032x}"
        body = {"currency": _currency(self.total), "form": FORM, "ledger": identity}
        self._append("opened", self._now(), body)

    def _take_over(self) -> None:
        """The charges and releases of form 1, as entries."""
        versions = self.store.read("SELECT data_version FROM about")
        drawn: dict[int, str] = dict(self.store.read("SELECT number, drawn FROM releases WHERE turn = 0"))
        for number, at, key, version, question, spend, price in self.store.read(
            "SELECT number, at, key, data_version, question, spend, price FROM charges ORDER BY number"
        ):
            found, moment = self._found(key, version), int(at * SECOND)
            topic = "charge/" + hashlib.sha256(f"{found}\n{spend}".encode()).hexdigest()
            body = {"database": self.name, "question": question, "analyst": "", "spend": spend}
            line = self._append("charge", moment, body, topic=topic, found=found, price=(price, 0))
            if number in drawn:
                release = {"drawn": drawn[number]}
                self._append("release", moment, release, topic=f"release/{line.number}/0")
        self._append("data", self._now(), {"version": versions[0][0]}, found=f"data/{self.name}")

    def _note_policy(self) -> None:
        """A budget or a policy that changed since this database was last opened is an entry of its own."""
        found = f"policy/{self.name}"
        facts = {"total": str(self.total), "policy": self._policy}
        rows = self.store.read(
            "SELECT body FROM entries WHERE found = ? ORDER BY number DESC LIMIT 1", (found,)
        )
        before = json.loads(rows[0][0]) if rows else {}
        if before.get("total") != facts["total"]:
            self._append("grant", self._now(), {"database": self.name, **facts}, found=found)
        elif before.get("policy") != facts["policy"]:
            self._append("policy", self._now(), {"database": self.name, **facts}, found=found)

    def _walk(self) -> Iterator[_Line]:
        """All entries, whose hashes are computed anew."""
        before = _FIRST
        for row in self.store.scan(f"SELECT {_ALL} FROM entries c ORDER BY number"):
            line = _Line(*row)
            if line.number != before.number + 1 or line.head != _hashed(before.head, row[:-1]):
                raise self._broken(line, "it is not what was written")
            yield line
            before = line

    def _check_end(self) -> None:
        """Refuse a ledger whose last entry, which holds the totals, is not what was written."""
        rows = self.store.read(f"SELECT {_ALL} FROM entries c ORDER BY number DESC LIMIT 2")
        last, before = _Line(*rows[0]), _Line(*rows[1]) if len(rows) > 1 else _FIRST
        if last.head != _hashed(before.head, rows[0][:-1]):
            raise self._broken(last, "it is not what was written")
        self._check_witness(last)
        self._end = last

    def _check_witness(self, last: _Line) -> None:
        """Refuse a ledger that lacks what is remembered of it."""
        if self._witness.last is None:
            marks = self._witness.remembered(self._identity)
        else:
            now = self._witness.beside_now()
            marks = [(self._witness.beside, mark) for mark in {now, self._witness.last} if mark is not None]
        for place, mark in marks:
            if mark.ledger != self._identity:
                raise LedgerError(
                    f"{self.store.name} is another ledger than the one that {place} remembers. Nothing is "
                    "charged or answered. Put the right one back; or, if the exchange is meant, go on with "
                    "what was spent there: sfumato budget POLICY --accept"
                )
            if mark.number == last.number:
                here: str | None = last.head
            else:
                rows = self.store.read("SELECT head FROM entries WHERE number = ?", (mark.number,))
                here = rows[0][0] if rows else None
            if here != mark.head:
                raise LedgerError(
                    f"{self.store.name} is older than what {place} remembers of it, or was changed: entry "
                    f"{mark.number} is missing or another one. Nothing is charged or answered. Put the "
                    "newest ledger back; or, if it is lost, go on with all that was spent: "
                    "sfumato budget POLICY --accept"
                )

    def _note_witness(self) -> None:
        last = self._last()
        self._witness.note(Mark(self._identity, last.number, last.head, last.spent, last.lost))

    def _broken(self, line: _Line, problem: str) -> LedgerError:
        return LedgerError(
            f"entry {line.number} ({line.kind}) of the ledger {self.store.name} was changed: {problem}. "
            "Nothing is charged or answered. Put an unchanged copy back."
        )

    def unusable(self, problem: str) -> LedgerError:
        """The error for a store that complains."""
        return LedgerError(
            f"the ledger {self.store.name} cannot be used ({problem}). Without it nothing can be charged, so "
            "nothing is answered. Check that it is a ledger, not damaged, and its folder writable."
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.store.alone(wait=True)
        try:
            yield
        finally:
            self.store.leave()

    def rest(self) -> None:
        """Close everything before a fork; parent and child each open it again when they need it."""
        self.store.rest()
        self._queue.rest()
        self._witness.rest()

    def __del__(self) -> None:
        if hasattr(self, "_witness"):
            self.rest()


class _Ticket:
    """A wish that waits for its answer."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.answer: Wish | None = None
        self.problem = ""


class _Line(NamedTuple):
    """A row of the table."""

    number: int
    at: int
    kind: str
    who: str
    topic: str | None
    found: str | None
    body: str
    amount: int
    slack: int
    spent: int
    lost: int
    own_spent: int
    own_lost: int
    head: str

    @property
    def facts(self) -> list[Any]:
        """What a receipt is made of."""
        return [self.number, self.amount, self.slack, self.spent, self.lost, self.head]


_FIRST = _Line(0, 0, "", "", None, None, "", 0, 0, 0, 0, 0, 0, ORIGIN)
_ALL = ", ".join(f"c.{name}" for name in COLUMNS)


def _hashed(before: str, facts: Row) -> str:
    text = "\x1f".join("\x00" if each is None else str(each) for each in facts)
    return hashlib.sha256(f"{before}\x1f{text}".encode()).hexdigest()


def _units(price: Guarantee) -> tuple[int, int]:
    """In whole units, rounded down: prices are whole already, and budgets are not passed by a part of one."""
    return math.floor(price.amount * UNIT), math.floor(price.delta * FINE)


def _currency(total: Guarantee) -> str:
    return f"{total.currency} and delta" if total.delta else total.currency


def _draw(text: str) -> Draw:
    return tuple(tuple(int(y) for y in vector) for vector in json.loads(text))
