"""The ledger: the only shared state, and the only thing that opens a Secret.

A table that is only appended to: charges and releases, and everything else that changes what may be asked
(grants, shares, policies, versions of the data). Its promises:

* a charge is on disk before the first row is read, and nothing ever takes it back (law 2);
* a release is on disk before it is shown, and the first draw for a receipt is the only one anybody sees;
* the running total never passes the budget, whatever the number of processes and servers: one writer at a
  time decides and writes, in one transaction, for everybody who waits;
* each entry carries a hash over itself and the one before, the last of which is noted outside (`witness`): a
  ledger that was tampered with, cut short, deleted or replaced by an older copy answers nothing.

Totals are whole numbers of 10^-12 (delta: 10^-18), rounded up; the gate is a filter, valid when questions
depend on earlier releases (`filters`).
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sfumato.budget.accounting import filters
from sfumato.budget.accounting.filters import FINE, UNIT
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.budget.ledger import record, shares, subjects
from sfumato.budget.ledger.bodies import DataBody
from sfumato.budget.ledger.chain import Chain, Wish
from sfumato.budget.ledger.entries import FIRST_DIALECT, SECOND, Draw, Entry, Kept, Receipt, Record
from sfumato.budget.ledger.entries import draw_of as _draw
from sfumato.budget.ledger.entries import units as in_units
from sfumato.budget.ledger.queue import Queue
from sfumato.budget.ledger.shelf import Charged, Shelf, reading_of
from sfumato.budget.ledger.store import SQLite, Store
from sfumato.errors import BudgetExceeded, InvalidParameter, LedgerError, PromiseBroken
from sfumato.exact.forks import RESTING, STILL
from sfumato.exact.secret import Secret, unseal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sfumato.budget.ledger.chain import Home, Limit, Withdrawn
    from sfumato.budget.ledger.entries import OpenCharge
    from sfumato.budget.ledger.shares import Share
    from sfumato.budget.ledger.subjects import Units
    from sfumato.mechanisms import Guarantee, Spend

    Answers = Callable[[str, int, str], bool]

WRITER_SECONDS = 60.0  # seconds to wait for a writer who does not get on
ROOM = 1 << 18  # bytes that must be free on the disk: more than a charge and its release take
PAUSES = (0.0005, 0.02)  # seconds between two looks at whether somebody else has done it: first and longest
HELD = "held"  # notes about charges that are not to be redeemed for now
RESTORED = "(spent on a lost ledger, as recorded)"
NONSENSE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)  # of a wish that cannot be read

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
        raise self._unusable(problem)

    return acting


class Ledger:
    """The budget of one database, or of several about the same people, and the store of its releases."""

    def __init__(
        self,
        place: Path | str,
        *,
        name: str,
        total: Guarantee,
        policy: tuple[str, ...] = (),
        witness: Path | None = None,
        clock: Callable[[], float] = time.time,
        accept: bool = False,
        home: Home | None = None,
        stands: Callable[[Home], bool] = lambda _: False,
        tables: dict[str, Any] | None = None,
    ) -> None:
        """`policy` is what the declarations are called now, and were in earlier forms. `home` is where they
        stand; `stands` says whether another policy of this name stands where one was opened before; `tables`
        how each says whose its rows are.

        `accept` goes on with a ledger that is older than what is remembered of it, or with a new one: for
        the owner, after a loss. What is missing counts as spent, and stored releases that are missing are
        lost.
        """
        self.name, self.total = name, total
        self.least = total.of(Fraction(0))  # that whoever asks here may spend on a question
        if "://" in str(place):
            if not str(place).startswith(("postgres://", "postgresql://")):
                raise LedgerError(
                    "a ledger is a file, or an address that begins with postgresql://. Write one of them "
                    "under [budget] ledger in the policy."
                )
            # only who uses it needs the driver
            self.store: Store = import_module("sfumato.budget.ledger.postgres").Postgres(str(place))
            self.path = witness if witness is not None else Path(f"{name}.ledger").absolute()
        else:
            self.path = Path(place).absolute()  # also keeps SQLite from reading meaning into :memory:
            self.store = SQLite(self.path)
        facts: dict[str, Any] = {"policy": policy, "clock": clock, "home": home, "stands": stands}
        facts["tables"] = tables
        self.chain = Chain(self.store, self.path, name=name, total=total, **facts)
        self.own: tuple[Limit, ...] = ()  # promises of this database as it was opened
        self.body: DataBody | None = None  # the data that are charged for here
        self._shelf = Shelf(self.chain)
        self._queue = Queue(self.path.with_name(self.path.name + ".queue"))
        self._waiting: deque[_Ticket] = deque()  # whose operations are atomic
        self._turns = itertools.count()
        RESTING.add(self)
        self._begin(accept)

    @_plainly
    def _begin(self, accept: bool) -> None:
        with self._alone():
            self.chain.open(accept=accept)

    def of_data(self, data: Path, policy: str) -> DataBody:
        """Data that are charged for here."""
        return DataBody(data, self.chain.identity, self.store.name, policy, self.chain.instead_of())

    # The three acts -----------------------------------------------------------------------------------

    def charge(
        self,
        spend: Spend,
        key: str,
        *,
        slack: Fraction = Fraction(0),
        question: str = "",
        analyst: str = "",
        asked: Sequence[Guarantee] = (),
        meaning: Sequence[Any] = (),
        units: Sequence[Sequence[str]] = (),
        tables: Mapping[str, dict[str, Any]] | None = None,
        reading: int = 1,
        dialect: str = FIRST_DIALECT,
    ) -> Receipt:
        """Put a charge on disk, or refuse.

        A charge for the same key, the same spend and the same meaning on the same data is returned, not
        repeated: if it is still unredeemed the caller may redeem it, and if not, `keep` hands out what was
        kept. `slack` is what a spend without a pure epsilon may take of delta, `asked` the price that was
        asked for every part, if that is not what it costs. `units`: whose neighbours it is about; `tables`:
        how each that is read says whose its rows are, which must not change; `reading`, `dialect`: its SQL's.
        """
        price = self.price_of(spend, slack)
        if analyst:
            shares.check_printable(analyst)
        if self.body is not None:
            self.body.claim()
        written = {} if dialect == FIRST_DIALECT else {"dialect": dialect}
        found = self._submit(
            {
                **written,
                "act": "ask",
                "key": key,
                "spend": record.write(spend),
                "question": question,
                "analyst": analyst,
                "price": in_units(price),
                "limit": in_units(self.total),
                "promises": [limit.as_dict() for limit in self.own],
                "lost": filters.losses(spend, self.total.of(Fraction(0), slack)),
                "asked": [list(in_units(each)) for each in asked or (price,)],
                "meaning": list(meaning),
                "reading": reading,
                "unit": [list(each) for each in units],
                "tables": dict(tables or {}),
            }
        )
        if found.get("refused") == "unit":
            raise subjects.changed(
                self.store.name, self.name, **{name: found[name] for name in subjects.CHANGED}
            )
        if "refused" in found:
            raise self._over(price, found, analyst)
        receipt = self._receipt(found["receipt"], charged=found["new"])
        if found["new"] and receipt.price != price:
            raise LedgerError(
                f"{self.store.name} charged {receipt.price} instead of {price}. Verify the ledger."
            )
        return receipt

    def keep(self, receipt: Receipt, drawn: Secret[Draw], turn: int = 0) -> Draw:
        """Store a release, then show it. If one was stored before, that one is shown and this one is lost."""
        stored: str | None = None
        stopped: BaseException | None = None
        wish = {"act": "keep", "number": receipt.number, "head": receipt.head, "turn": turn}
        try:
            wish["drawn"] = json.dumps(unseal(drawn), separators=(",", ":"))
            stored = self._submit(wish).get("drawn")
        except KeyboardInterrupt:
            stopped = KeyboardInterrupt()
        except SystemExit as left:
            stopped = SystemExit(left.code)
        except BaseException:  # whatever failed, an unstored draw must not live on in a traceback
            pass
        del drawn, wish
        if stopped is not None:
            raise stopped
        if stored is None:
            raise LedgerError(
                f"the release could not be stored in {self.path.name}, so it is not shown. The charge stays; "
                "once the disk is writable again, the same question redeems it without a new charge.",
                spent=True,
            )
        return _draw(stored)

    def kept(
        self, key: str, spend: Spend, *, slack: Fraction = Fraction(0), version: int | None = None
    ) -> Kept | None:
        """The dearest stored release for a question at this price, about the data as they are or were."""
        found = self.all_kept([key], [self.price_of(spend, slack)], version=version)
        return found[0] if found else None

    @_plainly
    def all_kept(
        self,
        keys: Sequence[str],
        asked: Sequence[Guarantee],
        *,
        sizes: Sequence[int] = (),
        version: int | None = None,
        answers: Answers = lambda *_: True,
    ) -> tuple[Kept, ...]:
        """The stored releases that may answer a question, known by any of these keys; the dearest first.

        `sizes` says how many steps each part had where the price that was asked is not stored. `answers` says
        of a text, its reading and its dialect whether what is stored for it is an answer.
        """
        return tuple(
            self._as_kept(charged, _draw(drawn))
            for charged, drawn in self._shelf.stored(keys, version)
            if charged.is_worth(asked, sizes, self.total) and answers(*charged.as_asked)
        )

    def _as_kept(self, charged: Charged, drawn: Draw) -> Kept:
        receipt = self._receipt(charged.line.facts, charged=False)
        return Kept(receipt, charged.spend, drawn, charged.meaning, charged.reading, charged.analyst)

    @_plainly
    def unredeemed(
        self,
        keys: Sequence[str],
        asked: Sequence[Guarantee],
        *,
        sizes: Sequence[int] = (),
        answers: Answers = lambda *_: True,
    ) -> tuple[Kept, ...]:
        """Charges for a question whose release was never stored, the dearest first: with the steps that may
        be drawn for each, and what these mean."""
        return tuple(
            self._as_kept(each, ())
            for each in self._shelf.waiting(keys)
            if each.is_worth(asked, sizes, self.total) and answers(*each.as_asked)
        )

    @_plainly
    def asked_before(self, question: str, readings: Collection[int], dialect: str) -> tuple[int, ...]:
        """Answered charges of this database for a text, by these readings and in this dialect, if noted."""
        return self._shelf.read_as(question, self.name, readings, dialect)

    @_plainly
    def answered_under(self, keys: Sequence[str], wanted: Answers) -> tuple[int, ...]:
        """The charges with a stored release under these keys whose text and reading are wanted."""
        stored = self._shelf.stored(keys, None)
        return tuple(each.line.number for each, _ in stored if wanted(*each.as_asked))

    @property
    @_plainly
    def readings(self) -> frozenset[int]:
        """The earlier readings of SQL by which anything was charged here."""
        return self._shelf.readings()

    def price_of(self, spend: Spend, slack: Fraction = Fraction(0)) -> Guarantee:
        """What a spend costs here: by the filter of this ledger's currency."""
        return filters.price(spend, self.total.of(Fraction(0), slack))

    @_plainly
    def spent_on(self, beginning: str) -> Fraction:
        """What the charges of this database came to whose words begin so."""
        return Fraction(self._shelf.spent_on(beginning, self.name), UNIT)

    # What is left -------------------------------------------------------------------------------------

    @property
    @_plainly
    def spent(self) -> Guarantee:
        """Spent so far, by everybody."""
        last = self.chain.last()
        return self.chain.guarantee(last.spent, last.delta_spent)

    @property
    def left(self) -> Guarantee:
        """What can still be spent: also if the total was lowered since this process opened it."""
        return self._left()

    @_plainly
    def _left(self) -> Guarantee:
        last, limit = self.chain.last(), self.chain.limit(in_units(self.total))
        return self.chain.guarantee(max(limit[0] - last.spent, 0), max(limit[1] - last.delta_spent, 0))

    @property
    @_plainly
    def limit(self) -> Guarantee:
        """The total that is enforced here: the least of all policies on this ledger, and of this one as it
        was opened."""
        limit = self.chain.limit(in_units(self.total))
        return self.chain.guarantee(limit[0], limit[1])

    @property
    @_plainly
    def most(self) -> Guarantee:
        """What people must reckon with as things stand: the total, or what was spent if that is more."""
        last, limit = self.chain.last(), self.chain.limit()
        return self.chain.guarantee(max(limit[0], last.spent), max(limit[1], last.delta_spent))

    @property
    @_plainly
    def binding(self) -> tuple[str, Guarantee] | None:
        """Another policy on this ledger that gives less than this one, and its total: that one counts."""
        whose = self.chain.binding(in_units(self.total), self.name)
        if not whose:
            return None
        amount, slack = self.chain.totals()[whose]
        return whose, self.chain.guarantee(amount, slack)

    @_plainly
    def left_for(self, analyst: str) -> Guarantee:
        """What this analyst can still spend: of the total, and of a share if there is one."""
        given = self.chain.shares()
        share = shares.of(analyst, given)
        if share is None:
            return self.left if not given or not analyst else self.chain.guarantee(0, 0)
        return self._left_of(share)

    def _left_of(self, share: Share) -> Guarantee:
        now = max(self.chain.now(), self.chain.last().at)
        amount, slack = map(min, self.chain.room(share, now), in_units(self.left))
        return self.chain.guarantee(amount, slack)

    @_plainly
    def shares(self) -> tuple[tuple[Share, Guarantee], ...]:
        """Every share, and what can be spent of it now."""
        return tuple((share, self._left_of(share)) for share in self.chain.shares().values())

    @property
    @_plainly
    def data_version(self) -> int:
        """Which state of the data the stored releases speak of."""
        return self.chain.data_version()

    @property
    @_plainly
    def head(self) -> str:
        """The number and hash of the last entry: what a receipt shows, and `--verify` looks for."""
        last = self.chain.last()
        return f"{last.number}-{last.head}"

    def history(self) -> tuple[Entry, ...]:
        """Every charge, oldest first, and what was made up for after a loss."""
        lines, redeemed = self._charges()
        return tuple(
            self._entry(line, str(line.number) in redeemed or line.kind == "restored") for line in lines
        )

    @_plainly
    def _charges(self) -> tuple[tuple[Record, ...], set[str]]:
        """As they stand, and which are redeemed; to understand them takes long, and nobody waits for it."""
        topics = self.store.read("SELECT topic FROM entries WHERE kind = 'release'")
        return tuple(self.chain.lines("charge", "restored")), {topic.split("/")[1] for (topic,) in topics}

    @_plainly
    def open_charges(self, after: int) -> tuple[int, tuple[OpenCharge, ...]]:
        """The last number there is, and the charges of this database after one that were never released."""
        return self.chain.last().number, self._shelf.open_charges(after, self.name)

    @_plainly
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of any kind, oldest first."""
        return tuple(self._entry(line, False) for line in self.chain.lines())

    @_plainly
    def loss(self) -> PrivacyLoss:
        """The privacy loss of everything charged so far, as if it had been planned.

        A label, never a promise: who asks next depends on the answers, and whoever stops when she is ahead
        makes the delta read from it false (`filters.stopping`).
        """
        total = PrivacyLoss()
        for line in self.chain.lines("charge"):
            total = total.then(PrivacyLoss.of(record.read(json.loads(line.body)["spend"])))
        return total

    # What the owner does ------------------------------------------------------------------------------

    def data_changed(self) -> int:
        """Say that the tables changed: stored releases no longer answer. Returns no budget (law 11)."""
        return int(self._submit({"act": "data"})["version"])

    def share(self, share: Share) -> None:
        """Give an analyst or a group an allowance out of the total, or change it."""
        names = (share.name, *share.members)
        for name in names:
            shares.check_printable(name)
        shares.check(share, self.total, self.known(*names))
        self._submit({"act": "note", "kind": "share", "found": "shares", "body": share.as_dict()})

    @_plainly
    def known(self, *names: str) -> set[str]:
        """Who of them has a share, is in one, or has spent something."""
        given = {name for share in self.chain.shares().values() for name in (share.name, *share.members)}
        sql = "SELECT 1 FROM entries WHERE who = ? LIMIT 1"
        return {name for name in names if name in given or (name and self.store.read(sql, (name,)))}

    def retire(self, name: str) -> None:
        """Say that another policy on this ledger will not be opened again: neither its total nor its promises
        bind anybody any more.

        What was spent stays spent. Whoever opens it again gives its total again, and its promises.
        """
        if name == self.name:
            raise InvalidParameter(
                "name", name, "this is the policy you opened: change its budget, or name another one"
            )
        found = self._submit({"act": "retire", "whose": name})
        if "known" in found:
            others = [each for each in found["known"] if each != self.name]
            raise InvalidParameter(
                "name",
                name,
                f"no other policy on this ledger has this name. Others: {', '.join(others) or 'none'}",
            )

    def promise(self, limits: tuple[Limit, ...]) -> None:
        """Say which promises this database makes; from now on no charge passes them, whoever makes it.

        Those that it made before stay in force until they are withdrawn. What is asked through this object
        keeps to `limits`, also if they are withdrawn later.
        """
        self.own = limits
        if not set(limits) <= set(self.promises()):
            self._submit({"act": "promise", "limits": [limit.as_dict() for limit in limits]})

    def withdraw(self, limits: Sequence[Limit]) -> None:
        """Take promises of this database back: for those who open it from now on."""
        gone = [limit.as_dict() for limit in limits]
        self._submit({"act": "withdraw", "whose": self.name, "limits": gone})

    @_plainly
    def withdrawn(self) -> tuple[Withdrawn, ...]:
        """The promises of all databases on this ledger that were taken back."""
        return self.chain.withdrawn()

    @_plainly
    def promises(self) -> tuple[Limit, ...]:
        """The promises of this database, as they were last said."""
        return self.chain.promises().get(self.name, ())

    @_plainly
    def everybodys_promises(self) -> tuple[tuple[str, Limit], ...]:
        """The promises of all databases on this ledger, and of this one as it was opened, with who made them:
        no charge that is made here passes any of them."""
        known = [(name, limit) for name, limits in self.chain.promises().items() for limit in limits]
        return tuple(dict.fromkeys([*known, *((self.name, limit) for limit in self.own)]))

    @_plainly
    def losses_for(self, name: str, limit: Limit) -> list[int]:
        """What the charges come to that count for a promise of a database, in units."""
        return self.chain.losses(limit.relation, name, limit.apart)

    @_plainly
    def losses(self, relation: str = "value", apart: Units = ()) -> tuple[Fraction, Fraction, Fraction]:
        """What all charges cost under a relation between neighbours: in any case, for the whole range of a
        column, and of delta; without those that are about some units alone."""
        fixed, sloped, slack = self.chain.losses(relation, self.name, apart)
        return Fraction(fixed, UNIT), Fraction(sloped, UNIT), Fraction(slack, FINE)

    @_plainly
    def keeps(self, limit: Limit) -> bool:
        """Whether all charges so far are within a promise."""
        return limit.allows(self.chain.losses(limit.relation, self.name, limit.apart))

    @property
    @_plainly
    def was_charged(self) -> bool:
        """Whether anything was charged for this database."""
        return self.chain.was_charged

    def note(self, kind: str, facts: dict[str, Any], *, about: str = "") -> None:
        """Write down something that costs nothing and matters later, such as a run of `tune`."""
        found = self._noted(kind, about) if about else None
        self._submit({"act": "note", "kind": kind, "found": found, "body": facts})

    @_plainly
    def notes(self, kind: str, about: str) -> tuple[dict[str, Any], ...]:
        """What this database noted about something, oldest first."""
        rows = self.store.read(
            "SELECT body FROM entries WHERE found = ? ORDER BY number", (self._noted(kind, about),)
        )
        return tuple(json.loads(body) for (body,) in rows)

    def _noted(self, kind: str, about: str) -> str:
        return f"note/{self.name}/{kind}/{about}"

    def hold(self, receipt: int, *, held: bool, reason: str = "") -> None:
        """Say that a charge is not to be redeemed for now, or that it may be again."""
        self.note(HELD, {"receipt": receipt, "held": held, "reason": reason}, about=str(receipt))

    def is_held(self, receipt: int) -> bool:
        """Whether a charge is not to be redeemed for now."""
        return any(note["held"] for note in self.notes(HELD, str(receipt))[-1:])

    @_plainly
    def charged(self, key: str, *, version: int) -> bool:
        """Whether this question was ever charged for, about the data of a version."""
        sql, found = "SELECT number FROM entries WHERE found = ? LIMIT 1", self.chain.found(key, version)
        return bool(self.store.read(sql, (found,)))

    def glance(self) -> int | None:
        """How many entries there are, without waiting: None if somebody in this process is writing.

        As long as it is the same, nothing was written.
        """
        if not STILL.acquire(blocking=False):
            return None
        try:
            return int(self.store.read("SELECT COALESCE(MAX(number), 0) FROM entries")[0][0])
        except self.store.problems:
            return None
        finally:
            STILL.release()

    @_plainly
    def check_writable(self) -> None:
        """Refuse if nothing could be charged now: a full disk, a folder or a server that is read-only.

        No entry is written. Room is taken for a moment in a file without a name, since only that finds quotas
        and limits, too; a PostgreSQL server that has none finds out when it is asked to write.
        """
        self.store.check_writable()
        with tempfile.TemporaryFile(dir=self.path.parent) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)

    @_plainly
    def verify(self, head: str | None = None) -> int:
        """Go through all entries: hashes, running totals, prices, releases, and what is remembered outside.

        `head` is one printed in a receipt ("12-3f0a..."), which must be found. Returns how many entries there
        are; refuses with the first that is wrong.
        """
        return self.chain.verify(head)

    # One writer for everybody -------------------------------------------------------------------------

    def _submit(self, wish: Wish) -> Wish:
        """Have it written, together with whatever else is waiting in this process or another."""
        ticket = _Ticket({**wish, "name": self.name, "at": self.chain.now()})
        self._waiting.append(ticket)  # whoever is in there may take it along
        with STILL:
            if ticket.answer is None:
                self._lead()
        if ticket.answer is None:
            raise LedgerError(ticket.problem)
        if "nonsense" in ticket.answer:
            raise LedgerError(f"{self.store.name} could not read the request. Nothing was charged.")
        return ticket.answer

    def _lead(self) -> None:
        """Write for everybody in this process who waits now."""
        tickets: list[_Ticket] = []
        while self._waiting:
            ticket = self._waiting.popleft()
            if ticket.process == os.getpid():  # a fork copies those of threads that it does not
                tickets.append(ticket)
        problem = "the ledger was interrupted. Ask again: a charge that was already made is not made twice."
        is_over = False
        try:
            self._write(tickets)
            is_over = True
        except self.store.problems as error:
            problem, is_over = str(self._unusable(str(error))), True
        except LedgerError as error:
            problem, is_over = str(error), True
        finally:
            if not is_over:
                self.chain.left()
                self.store.rest()  # an interrupt may have come while the lock was taken or given back
            for ticket in tickets:
                ticket.problem = problem
                ticket.wish.clear()  # no traceback of ours leads to a draw of another's

    def _write(self, tickets: list[_Ticket]) -> None:
        """Write them, or let whoever is writing do it."""
        try:
            told = self._alone_or_told([ticket.wish for ticket in tickets])
            if told is not None:
                _tell(tickets, told)
                return
            with self.store.writing():
                self.chain.check_end()
                answers = [self._answer(ticket.wish) for ticket in tickets]
                replies = [(page, self._for_another(text)) for page, text in self._queue.wishes()]
            _tell(tickets, answers)
            self.chain.note_witness()
            for page, reply in replies:
                if reply is not None:
                    self._queue.reply(page, reply)
        finally:
            try:
                self.chain.left()
            finally:
                self.store.leave()

    def _answer(self, wish: Wish) -> Wish:
        try:
            return self.chain.perform(wish)
        except NONSENSE:
            return {"nonsense": True}

    def _for_another(self, text: bytes) -> bytes | None:
        """What another process wishes; None if it makes no sense here, and then it must see for itself."""
        try:
            asked = json.loads(text)
            answers = [self.chain.perform(wish) for wish in asked["wishes"]]
            return json.dumps({"turn": asked["turn"], "answers": answers}).encode()
        except NONSENSE:
            return None

    def _alone_or_told(self, wishes: list[Wish]) -> list[Wish] | None:
        """Wait until this process is the only writer, or until another one has written what it wished for.

        Whoever writes takes along all wishes it finds, so nobody waits for more than two commits, in whatever
        order the lock is given. An answer carries the turn that it answers: one to an earlier wish, which was
        given up, is not taken for one to this.
        """
        if self.store.alone():
            return None
        turn = f"{os.getpid()}-{next(self._turns)}"
        asked = json.dumps({"turn": turn, "wishes": wishes}).encode()
        if not self._queue.ask(asked):
            self._wait()
            return None
        try:
            for _ in self._pauses():
                if self._queue.answer() is not None:
                    if (told := self._told(turn, len(wishes))) is not None:
                        return told
                    self._queue.ask(asked)
                elif self.store.alone():
                    return self._told(turn, len(wishes))  # it may have come just before
        finally:
            self._queue.clear()
        raise AssertionError("a pause that never ends is refused")

    def _told(self, turn: str, count: int) -> list[Wish] | None:
        """The answers that somebody left, if they are to these wishes."""
        answer = json.loads(self._queue.answer() or b"{}")
        answers: list[Wish] = answer.get("answers", [])
        return answers if answer.get("turn") == turn and len(answers) == count else None

    def _wait(self) -> None:
        """Until this process is the only writer."""
        if not self.store.alone():
            next(each for each in self._pauses() if self.store.alone())

    def _pauses(self) -> Iterator[None]:
        """Ever longer pauses, and at last a refusal."""
        end, pause = time.monotonic() + WRITER_SECONDS, PAUSES[0]
        while time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 1.1, PAUSES[1])
            yield
        raise LedgerError(
            f"another process has been writing to {self.store.name} for {WRITER_SECONDS:.0f} seconds, so "
            "nothing is charged or answered here. Check whether it hangs, or its disk or server does not "
            "respond. Then ask again: a charge that was already made is not made twice."
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        is_over = False
        try:
            self._wait()
            yield
            is_over = True
        finally:
            self.store.leave() if is_over else self.store.rest()

    # Words --------------------------------------------------------------------------------------------

    def _receipt(self, facts: list[Any], *, charged: bool) -> Receipt:
        number, amount, slack, spent, lost, head = facts
        price, nothing = self.chain.guarantee(amount, slack), self.chain.guarantee(0, 0)
        return Receipt(number, price, self.chain.guarantee(spent, lost), price if charged else nothing, head)

    def _entry(self, line: Record, redeemed: bool) -> Entry:
        body = json.loads(line.body)
        return Entry(
            number=line.number,
            at=line.at / SECOND,
            kind=line.kind,
            analyst=body.get("analyst", ""),
            database=body.get("database", ""),
            question=RESTORED if line.kind == "restored" else body.get("question", ""),
            price=self.chain.guarantee(line.amount, line.slack),
            spent=self.chain.guarantee(line.spent, line.delta_spent),
            redeemed=redeemed,
            reading=reading_of(body),
            dialect=body.get("dialect", FIRST_DIALECT),
            key=(line.found or "").rpartition("/")[2],
            units=tuple(tuple(unit) for unit in body.get("unit", ())),
        )

    def _over(self, price: Guarantee, found: Wish, analyst: str) -> BudgetExceeded:
        left = self.total.of(Fraction(found["left"][0], UNIT), Fraction(found["left"][1], FINE))
        if found["refused"] == "promise":
            return PromiseBroken(found["whose"], str(price), str(left), found["told"])
        whose = repr(self.name)
        mine = [each for each in self.shares() if analyst in (each[0].name, *each[0].members)]
        if found["refused"] == "total" and mine and mine[0][1].amount < left.amount:
            left, found = mine[0][1], {**found, "refused": "share", "share": mine[0][0].name, "again": ""}
        advice, grant = self.more, f"sfumato grant POLICY NAME --{self.total.currency} AMOUNT"
        if found["refused"] == "stranger":
            whose = f"{found['analyst']!r}, who has no share,"
            advice = f"ask the owner for a share: {grant}"
        elif found["refused"] == "share":
            whose = f"the share of {found['share']!r}"
            advice = f"ask the owner for a larger share: {grant}"
            if found["again"]:
                advice = f"wait until {found['again']}, when the share is refilled from the database's total."
        return self.exceeded(whose, price, left, advice)

    def exceeded(self, whose: str, price: Guarantee, left: Guarantee, advice: str) -> BudgetExceeded:
        """Less is left than a price; nobody is told to ask for what is too little for any question."""
        least = str(self.least) if left.amount < self.least.amount else ""
        return BudgetExceeded(whose, str(price), str(left) if left.amount else "", advice, least)

    @property
    def more(self) -> str:
        """What helps if the total is spent."""
        advice = f"let the owner raise {self.total.currency} under [budget] in the policy."
        if (binding := self.binding) is None:
            return advice
        return f"{advice[:-1]} of {binding[0]!r}, which is on the same ledger and has the smallest total."

    def _unusable(self, problem: str) -> LedgerError:
        return LedgerError(
            f"the ledger {self.store.name} cannot be used ({problem}). Without it nothing can be charged, so "
            f"nothing is answered. {self.store.advice}"
        )

    def rest(self) -> None:
        """Close everything before a fork; parent and child each open it again when they need it."""
        self.store.rest()
        self._queue.rest()
        self.chain.witness.rest()

    def __del__(self) -> None:
        if hasattr(self, "_queue"):
            self.rest()


class _Ticket:
    """A wish that waits for its answer."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.process = os.getpid()
        self.answer: Wish | None = None
        self.problem = ""


def _tell(tickets: list[_Ticket], answers: list[Wish]) -> None:
    for ticket, answer in zip(tickets, answers, strict=True):
        ticket.answer = answer
