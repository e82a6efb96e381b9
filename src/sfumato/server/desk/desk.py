"""What may be asked at any door, by whom, how often, and when the answer leaves.

A `Desk` stands before one database in one worker. Both doors hand it who asks and what is wanted, and get a
release or an error; they differ only in how they say it.

* An answer that was stored is handed out at once: nothing about its time depends on the data.
* A new question runs in a thread, in a task of its own. Whoever stops waiting (a cancel, a lost connection)
  stops nothing: the charge stays, the release is stored, and asking again is free (law 2).
* It is stored, and leaves, at a deadline (`deadlines`); that it came late or failed is on disk before that.
* A retry under an idempotency key finds what was asked under it first, in the ledger.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from sfumato.curator.batch import Batch
from sfumato.curator.database import open as open_database
from sfumato.errors import (
    AccessDenied,
    InvalidParameter,
    KeyReused,
    LedgerError,
    NotAllowed,
    NotRead,
    PolicyError,
    QueryFailed,
    ServerError,
    SfumatoError,
    SourceError,
    Stopped,
    TooMany,
    Unsupported,
)
from sfumato.server.desk import owner
from sfumato.server.desk.access import AccessLog, say
from sfumato.server.desk.deadlines import PAUSE, deadline, doublings
from sfumato.server.desk.people import People
from sfumato.server.desk.retries import Retried, Wanted, check_key
from sfumato.server.desk.turns import Turns
from sfumato.server.desk.watch import Running, Watchman

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from sfumato.curator.database import Database
    from sfumato.curator.explanation import Explanation
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
    from sfumato.curator.release import Release, Releases
    from sfumato.queries.plan import Plan
    from sfumato.server.desk.people import Person, Role
    from sfumato.sources.halt import Halt

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K", bound="Keeper")
KNOWN = 500  # questions that are remembered as plans
STORED = 500  # releases that are remembered as they are shown
BUDGETS = 50  # that are remembered
FORMS, LARGE, ROWS = 24, 1 << 18, 5000  # of a release that are remembered: how many, and how large
PATIENT = 64  # free things of a person that wait for their turn
ASKING = 400  # releases that a person waits for, so that there are connections left for others
HEAVY = 16  # things that wait for their turn because they take long
MEASURES = 100  # of a question, or of a batch
WAITING = 64  # new questions that wait for a thread
CHANGES = 3  # of the data, after which a question is not asked anew
MINUTE = 60.0
MOMENT = 2.0  # seconds for which it is known whether the ledger can be written
ENDING = 3.0  # seconds that engines get to stop
GUESSES = 20  # wrong tokens from one address in a minute


@dataclass(frozen=True, slots=True)
class Settings:
    """What whoever runs the server decides."""

    rate: float = 50.0  # things a person may ask in a second, free ones too
    running: int = 2  # new questions of a person at a time
    threads: int = 8  # new questions of everybody at a time
    late: int = 20  # answers of a person that may come late or fail
    pace: float = 1.0  # how much slower than usual the machine is taken to be
    longest: float = 60.0  # seconds; a question with a later deadline is refused
    deadlines: bool = True
    stop_after: float = owner.STOP_AFTER  # deadlines, after which an engine is stopped


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and through which door."""

    person: Person
    interface: str
    address: str = ""
    token: str = ""  # the id of the one that she came in with


@dataclass(frozen=True, slots=True)
class Answered:
    """A release that may be handed out, and the forms that doors have given it."""

    release: Release
    forms: dict[Any, Any] = field(default_factory=dict)

    def keep(self, key: Any, form: T) -> T:
        """Remember a form, if it is not large; whoever asks for many gets them anew."""
        size = len(form) if isinstance(form, (bytes, list)) else 0
        if size <= (LARGE if isinstance(form, bytes) else ROWS):
            if len(self.forms) >= FORMS:
                self.forms.clear()
            self.forms[key] = form
        return form


class Releasing(Protocol[T_co]):
    """Something that is charged and released."""

    def release(self) -> T_co:
        """Charge, and answer."""


class Recent(Generic[T]):
    """What was used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Any, T] = OrderedDict()

    def get(self, key: Any) -> T | None:
        """What is remembered under a key."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: Any, value: T) -> None:
        """Remember it, and forget what was not used for longest."""
        self._found[key] = value
        self._found.move_to_end(key)
        if len(self._found) > self._most:
            self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()


class _Outdated(Exception):
    """The data changed since they were opened, and are open anew."""


class _Meanwhile(Exception):
    """Somebody was asking the same: what came of it is stored."""


class Bucket:
    """So many things a second, and twice as many at once."""

    def __init__(self, rate: float) -> None:
        self.rate, self.level, self.at = rate, max(1.0, 2 * rate), time.monotonic()

    def take(self) -> float:
        """Take one; how many seconds to wait if there is none."""
        now = time.monotonic()
        self.level = min(max(1.0, 2 * self.rate), self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1:
            return (1 - self.level) / self.rate
        self.level -= 1
        return 0.0


class Desk:
    """One database, in one worker."""

    def __init__(self, policy: Path | str, settings: Settings | None = None) -> None:
        self.path, self.settings = Path(policy).absolute(), settings or Settings()
        self.people = People.beside(self.path)
        self.log = AccessLog(self.path.with_suffix(".access.jsonl"))
        self._engine = ThreadPoolExecutor(self.settings.threads, "engine")
        self._left = threading.local()  # which question reached its deadline, in each thread of them
        self._reader = ThreadPoolExecutor(4, "reader")  # short looks into the ledger
        self._planner = ThreadPoolExecutor(16, "planner")  # free things that may take long; they take turns
        self._heavy = ThreadPoolExecutor(1, "heavy")  # password hashes, suggestions
        self._heavy_waiting = 0
        self._catalog = ThreadPoolExecutor(2, "catalog")
        self._turns = Turns()
        self._waiting: Counter[str] = Counter()
        self._asking: Counter[str] = Counter()
        self._begun: dict[Any, asyncio.Task[Any]] = {}  # new questions that run, by who asked what
        self._questions: Recent[Question] = Recent(KNOWN)
        self._shown: Recent[tuple[tuple[int, int], Answered]] = Recent(STORED)
        self._budgets: Recent[tuple[tuple[int, int], dict[str, Any]]] = Recent(BUDGETS)
        self._buckets: dict[str, Bucket] = {}
        self._running: Counter[str] = Counter()
        self._guesses: dict[str, list[float]] = defaultdict(list)
        self._watch = Watchman(self._is_out)
        self._opening = asyncio.Lock()
        self._looked_at, self._unwritable = 0.0, ""  # until when it is known why the ledger cannot be written
        self.counts: Counter[tuple[str, str]] = Counter()  # for metrics: (what, outcome)
        self._stamp = self._look()
        self.database = open_database(self.path)

    @property
    def name(self) -> str:
        """What the database is called."""
        return self.database.policy.name

    # Who may ask --------------------------------------------------------------------------------------

    def admit(self, caller: Caller) -> None:
        """Refuse whoever asks too often."""
        bucket = self._buckets.setdefault(caller.person.name, Bucket(self.settings.rate))
        if (wait := bucket.take()) > 0:
            raise TooMany(
                f"{caller.person.name!r} sent more than {self.settings.rate:g} requests per second", wait + 1
            )

    def log_stranger(self, address: str, interface: str, name: str = "") -> None:
        """Write down that somebody was not let in; not too often, so that nobody can fill the disk."""
        if len(self._recent(address)) < GUESSES:
            who = {"who": name[:100]} if name else {}
            self.log.write(
                interface=interface, **{"from": address}, **who, act="log in", outcome="AccessDenied"
            )

    def guessed(self, address: str) -> None:
        """Note a wrong token or password."""
        self.counts["login", "refused"] += 1
        if len(self._guesses) > 10_000:
            self._guesses.clear()
        self._guesses[address] = [*self._recent(address), time.monotonic()]

    def check_guesses(self, address: str) -> None:
        """Refuse an address from which too many wrong tokens came, for a minute."""
        if len(recent := self._recent(address)) >= GUESSES:
            raise TooMany("too many failed logins from this address", MINUTE - (time.monotonic() - recent[0]))

    def _recent(self, address: str) -> list[float]:
        return [at for at in self._guesses.get(address, ()) if time.monotonic() - at < MINUTE]

    def check_role(self, caller: Caller, *roles: Role) -> None:
        """Refuse whoever has none of the roles."""
        if not caller.person.may(*roles):
            self.admit(caller)
            self.note(caller, f"for {' or '.join(roles)}", "AccessDenied")
            raise NotAllowed(
                f"{caller.person.name!r} has the role {caller.person.role}; this needs {' or '.join(roles)}. "
                "Nothing was spent. The owner changes roles: sfumato user revoke POLICY NAME, then sfumato "
                "user add POLICY NAME --role ROLE"
            )

    # What is free -------------------------------------------------------------------------------------

    async def explain(self, caller: Caller, wanted: Wanted) -> Explanation:
        """Price, error and derivation; no row is read."""
        self.admit(caller)
        return await self._noting(caller, "explain", self._explain(caller, wanted), wanted.sql)

    async def _explain(self, caller: Caller, wanted: Wanted) -> Explanation:
        question = await self.question(caller, wanted, counted=True)
        view = question.database.on_behalf_of(caller.person.name)
        return await self.in_turn(caller, replace(question, database=view).explain, counted=True)

    async def in_turn(
        self,
        caller: Caller,
        act: Callable[..., T],
        *arguments: Any,
        pool: ThreadPoolExecutor | None = None,
        counted: bool = False,
    ) -> T:
        """Do something free that may take long: one thing of a person at a time, so that others get theirs.

        Whoever stops waiting does not make room: what runs keeps its turn until it is done. What is counted
        is refused when too much waits. What belongs to a release or to a session of the wire door is not:
        their number is limited.
        """
        who, pool = caller.person.name, pool or self._planner
        if not counted:
            return await self._turns.take(who, pool, act, *arguments)
        with _one_more(self._waiting, who, PATIENT, "things"):
            return await self._turns.take(who, pool, act, *arguments)

    async def question(self, caller: Caller, wanted: Wanted, *, counted: bool = False) -> Question:
        """The question as the curator understands it, or its refusal; what is asked at once is read once."""
        await self.refresh()
        today = self.database.today  # a question may speak of it
        known = self._questions.get((today, wanted.key)) if wanted.within is None else None
        if known is not None:
            return known
        database, counted = self.database, counted or wanted.is_long
        key = ("question", caller.person.name, id(database), counted, today, wanted.key)
        return await self._turns.together(key, lambda: self._read(caller, database, wanted, counted))

    async def _read(self, caller: Caller, database: Database, wanted: Wanted, counted: bool) -> Question:
        today = database.today
        view = self._view(caller.person.name, database)
        question = await self.in_turn(caller, self._asked, database, view, wanted, counted=counted)
        check_size(question)
        # the policy may have changed meanwhile; and what an error costs depends on what has been released
        if database is self.database and wanted.within is None:
            self._questions.put((today, wanted.key), question)
        return question

    def _asked(self, database: Database, view: Database, wanted: Wanted) -> Question:
        """The question; where its price depends on what the asker has seen, as hers."""
        asker = database.for_anybody if wanted.within is None else view
        question = replace(asker.question(wanted.read(), **wanted.price), database=database)
        self._due([question.plan])  # looks at public tables, which takes a moment for the first time
        return question

    async def read(self, act: Callable[..., T], *arguments: Any) -> T:
        """Do something free and short in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, act, *arguments)

    async def budget(self, caller: Caller) -> dict[str, Any]:
        """What was spent and what is left: added up again only when the ledger has grown."""
        await self.refresh()
        database, person, stamp = self.database, caller.person, self._moment()
        known = self._budgets.get((person.name, person.role))
        if known is not None and known[0] == stamp is not None:
            return known[1]
        found = await self.in_turn(caller, owner.budget, database, person, counted=True)
        if stamp is not None and database is self.database:
            self._budgets.put((person.name, person.role), (stamp, found))
        return found

    async def look(self, caller: Caller, act: Callable[[], T]) -> T:
        """Look something up in the catalog."""
        return await self.in_turn(caller, act, pool=self._catalog)

    async def check_ledger(self) -> None:
        """Refuse if the ledger cannot be read now, or could not be written a moment ago."""
        ledger = self.database.ledger
        await self.read(lambda: ledger.head)
        if time.monotonic() >= self._looked_at:
            await self._turns.together("ledger", self._look_at_ledger)
        if self._unwritable:
            raise LedgerError(self._unwritable)

    async def _look_at_ledger(self) -> None:
        told = ""
        try:
            await self.read(self.database.ledger.check_writable)
        except LedgerError as error:
            told = str(error)
        if told != self._unwritable:
            event = "ledger failed" if told else "ledger can be written again"
            say(event, database=self.name, reason=told)
        self._looked_at, self._unwritable = time.monotonic() + MOMENT, told

    async def alone(self, act: Callable[[], T]) -> T:
        """Do something free that takes long: one such thing at a time."""
        if self._heavy_waiting >= HEAVY:
            raise TooMany("too many long-running requests are waiting", 10)
        self._heavy_waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._heavy, act)
        finally:
            self._heavy_waiting -= 1

    # What is paid -------------------------------------------------------------------------------------

    async def ask(self, caller: Caller, wanted: Wanted, key: str = "") -> Answered:
        """A release: a stored one at once, a new one at its deadline."""
        self.admit(caller)
        asked = self._again(caller, lambda: self._ask(caller, wanted, key))
        return await self._noting(caller, "release", asked, wanted.sql)

    async def _again(self, caller: Caller, asking: Callable[[], Awaitable[T]]) -> T:
        """Ask, and ask anew if the data changed since they were opened; not for ever."""
        changes = 0
        with _one_more(self._asking, caller.person.name, ASKING, "releases"):
            while changes < CHANGES:
                try:
                    return await asking()
                except _Outdated:
                    changes += 1
                except _Meanwhile:  # it is stored now
                    continue
        raise ServerError(f"the data of {self.name!r} keep changing. Nothing was spent. Ask again later.")

    async def _ask(self, caller: Caller, wanted: Wanted, key: str) -> Answered:
        check_key(key)
        question = await self.question(caller, await self._priced(caller, wanted, key))
        if key and wanted.tune is not None:
            raise InvalidParameter("key", key, "omit it if part of the price is for tuning")
        who = caller.person.name
        remembered = (who, wanted.key)
        stamp = self._moment()
        known = self._shown.get(remembered)
        if not key and known is not None and known[0] == stamp is not None:
            return known[1]
        database = question.database
        question = replace(question, database=self._view(who, database))
        kept, changed = await self.in_turn(caller, _looked, question, bool(key))
        if kept is not None:
            shown = Answered(kept)
            if stamp is not None and database is self.database:
                self._shown.put(remembered, (stamp, shown))
            return shown
        retried = self._retried(who, question, key, wanted)
        if retried and (stored := await self.in_turn(caller, retried.stored)) is not None:
            return Answered(cast("Release", stored))
        if changed:
            await self.open_anew(database)
            raise _Outdated
        self._check_deadline(*[question.plan] * question.releases)
        return Answered(await self._new(caller, database, question, retried, wanted))

    async def _priced(self, caller: Caller, wanted: Wanted, key: str) -> Wanted:
        """What is wanted, at the price that was found for its error when it was first sent under a key."""
        if not key or wanted.within is None:
            return wanted
        ledger, about = self.database.ledger, json.dumps([caller.person.name, key])
        noted = await self.read(lambda: ledger.notes("asked", about))
        return wanted.at(noted[-1]["price"]) if noted and "price" in noted[-1] else wanted

    def _retried(self, who: str, asked: Question | Batch, key: str, *wanted: Wanted) -> Retried | None:
        return Retried(self.database.ledger, asked, wanted, json.dumps([who, key])) if key else None

    def _moment(self) -> tuple[int, int] | None:
        """While this is the same, so is what is shown of a stored release; shares are filled by the clock."""
        length = self.database.ledger.glance()
        return None if length is None else (length, int(time.time() // 60))

    async def batch(
        self, caller: Caller, wanted: Sequence[Wanted], delta: str | None = None, key: str = ""
    ) -> Releases:
        """Several releases as one charge."""
        self.admit(caller)
        told = "; ".join(each.sql for each in wanted)
        asked = self._again(caller, lambda: self._batch(caller, wanted, delta, key))
        return await self._noting(caller, "batch", asked, told)

    async def _batch(self, caller: Caller, wanted: Sequence[Wanted], delta: str | None, key: str) -> Releases:
        check_key(key)
        if wished := next((each.within for each in wanted if each.within is not None), None):
            told = "give each question of a batch a price: explain tells what an error costs"
            raise InvalidParameter("within", wished, told)
        asked = [await self.question(caller, each) for each in wanted]
        while any(each.database is not asked[0].database for each in asked):  # the policy changed meanwhile
            asked = [await self.question(caller, each) for each in wanted]
        check_size(*asked)
        view = self._view(caller.person.name, asked[0].database)
        questions = [replace(each, database=view) for each in asked]
        batch = await self.in_turn(caller, lambda: Batch.of(view, questions, delta))
        who = caller.person.name
        together = replace(wanted[0], delta=delta)  # so that the key stands for this delta, too
        retried = self._retried(who, batch, key, together, *wanted)
        if (stored := await self.in_turn(caller, retried.stored if retried else batch.kept)) is not None:
            return cast("Releases", stored)
        if await self.read(has_changed, asked[0].database):
            await self.open_anew(asked[0].database)
            raise _Outdated
        self._check_deadline(*(each.plan for each in questions for _ in range(each.releases)))
        return await self._new(caller, asked[0].database, batch, retried, together, *wanted)

    def _check_deadline(self, *plans: Plan) -> None:
        """Refuse what would keep a thread for too long: from public facts, so it is free."""
        due = self._due(plans)
        if self.settings.deadlines and due > self.settings.longest:
            raise Unsupported(
                f"the answer would be sent after {due:g} s, and the limit is {self.settings.longest:g} s",
                "Ask for fewer columns or tables at a time; the owner can start the server with another "
                "--longest, and declare how many rows the tables have.",
            )

    def _due(self, plans: Sequence[Plan]) -> float:
        policy, alike = self.database.policy, self.database.alike
        return sum(deadline(each, policy, self.settings.pace, alike) for plan in plans for each in plan.all)

    def _view(self, who: str, database: K) -> K:
        """The database as somebody asks it: at the pace of deadlines."""
        return database.on_behalf_of(who, lambda receipt, *plans: self._paced(who, receipt, *plans))

    async def _new(
        self,
        caller: Caller,
        database: Keeper,
        asked: Releasing[T],
        retried: Retried | None,
        *wanted: Wanted,
    ) -> T:
        """Run it to its end, whoever still waits for it; who asks the same meanwhile waits for that."""
        who = caller.person.name
        same = (who, caller.token, id(database), *(each.key for each in wanted))
        if (begun := self._begun.get(same)) is not None:
            with suppress(KeyReused):  # by another key: that says nothing about this one
                await asyncio.shield(begun)
            raise _Meanwhile
        if sum(self._running.values()) >= self.settings.threads + WAITING:
            raise TooMany("too many new questions are waiting", 5)
        if self._running[who] >= self.settings.running:
            raise TooMany(f"{self.settings.running} new questions of {who!r} are running", 1)
        self._running[who] += 1
        act = (cast("Releasing[T]", retried) if retried else asked).release
        running = self._run(who, same, lambda: self._sent(lambda: self._released(caller, database, act)))
        task = self._begun[same] = self._turns.begin(running)
        return await asyncio.shield(task)

    def _sent(self, act: Callable[[], T]) -> T:
        """Do it, and let what comes of it go only at a multiple of a pause after its deadline.

        How long it takes to store an answer depends a little on how much the engine had to do before.
        """
        self._left.running = None
        try:
            return act()
        finally:
            running: Running | None = self._left.running
            if running is not None and self.settings.deadlines:
                running.pause(PAUSE)

    def _released(self, caller: Caller, database: Keeper, act: Callable[[], T]) -> T:
        """Release it, if whoever asked may still ask, and of this policy: it may have waited for a thread."""
        who, people = caller.person.name, self.people
        person = people.still(who, caller.token) if caller.token else people.get(who)
        if person is None or person.revoked or person.role != caller.person.role:
            raise AccessDenied(
                f"the access of {who!r} was revoked while the question waited. Nothing was spent."
            )
        if database is not self.database:
            raise ServerError("the policy changed while the question waited. Nothing was spent. Ask again.")
        try:
            return act()
        except SourceError:  # not after the charge of a plain question: then everything is a QueryFailed
            self._stamp = ()
            raise ServerError(
                "the data changed while the question waited, so it was not asked. Nothing was spent, except "
                "for an earlier charge for tuning. Ask again.",
                spent=None,
            ) from None

    async def _run(self, who: str, same: Any, act: Callable[[], T]) -> T:
        try:
            if await self.read(owner.late, self.database.ledger, who) >= self.settings.late:
                raise Stopped(who, self.settings.late)
            running = asyncio.get_running_loop().run_in_executor(self._engine, act)
            await asyncio.wait([running])
            failure = running.exception()
            if isinstance(failure, LedgerError):  # one text, whatever it was that could not be stored
                say("ledger failed", database=self.name, reason=str(failure))
                raise LedgerError(
                    f"the ledger of {self.name!r} cannot be written or read now. If it was charged, "
                    "the charge stays, and the same question redeems it later without a new one. The "
                    "owner should check the disk and the server log.",
                    spent=None,
                )
            if failure is None or isinstance(failure, SfumatoError):
                return running.result()
            say("internal error", kind=type(failure).__name__)  # never its text
            raise QueryFailed
        finally:
            del self._begun[same]
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]

    def _is_out(self, who: str) -> bool:
        person = self.people.get(who)
        return person is None or person.revoked

    @contextmanager
    def _paced(self, who: str, receipt: int, *plans: Plan) -> Iterator[Halt]:
        """Keep what is done inside until its deadline: only then is it stored, and can be seen in any way.

        The thread waits, too, so that nobody can tell from a queue how long somebody else's question took.
        """
        running, failed = Running(who, self._due(plans), self.settings.stop_after), True
        with self._watch.over(running):
            try:
                yield running.halt
                failed = False
            finally:
                self._leave(running, receipt, failed)

    def _leave(self, running: Running, receipt: int, failed: bool) -> None:
        took, due = running.ready(), running.due
        is_stopped = took > running.last  # also one that was ready a moment later: decided by the clock alone
        first = running.failure if is_stopped else due
        times = doublings(took, first) if self.settings.deadlines or is_stopped else 0
        if self.settings.deadlines:
            running.wait(first * 2**times)
            self._left.running = running
        if running.ended:
            raise _ended(running) from None
        times += doublings(running.last, due) if is_stopped else 0
        if times or failed:  # only now: a note can be seen, too; on disk before anything leaves
            self.counts["late", "failed" if failed or is_stopped else "late"] += 1
            ledger = self.database.ledger
            owner.note_late(ledger, running.who, receipt, times, failed=failed, stopped=is_stopped)
        if is_stopped and not failed:
            raise QueryFailed

    async def watch(self) -> None:
        """Count what was charged and never released, for as long as the worker runs."""
        settled: int | None = None
        while True:
            await asyncio.sleep(MINUTE)
            age, ledger = 4 * max(MINUTE, self.settings.longest), self.database.ledger
            try:
                if settled is None:
                    head = await self.read(lambda ledger=ledger: ledger.head)
                    settled = max(-1, int(head.partition("-")[0]) - owner.LOOKED)
                settled = await self.read(owner.count_open, ledger, settled, time.time(), age)
            except SfumatoError as error:
                say("ledger failed", database=self.name, reason=str(error))

    # Around it ----------------------------------------------------------------------------------------

    async def _noting(self, caller: Caller, act: str, doing: Awaitable[T], question: str = "") -> T:
        """Write down who asked for what, and what came of it."""
        facts = {"interface": caller.interface, "from": caller.address, "who": caller.person.name, "act": act}
        facts |= {"question": " ".join(question.split())} if question else {}
        try:
            found = await doing
        except asyncio.CancelledError:
            self.counts[act, "left"] += 1
            self.log.write(**facts, outcome="stopped waiting")
            raise
        except SfumatoError as error:
            self.counts[act, type(error).__name__] += 1
            self.log.write(**facts, outcome=type(error).__name__)
            raise
        self.counts[act, "ok"] += 1
        self.log.write(**facts, outcome="ok", **_receipt(found))
        return found

    def words(self, told: str) -> str:
        """What an error says to strangers: without the folders of this machine."""
        folders = {self.path.parent, self.database.ledger.path.parent, self.database.policy.database.parent}
        for folder in sorted(map(str, folders), key=len, reverse=True):
            told = told.replace(f"{folder}/", "")
        return told

    def note(self, caller: Caller, act: str, outcome: str = "ok") -> None:
        """Write down something that is no question."""
        self.counts[act, outcome] += 1
        who = {"interface": caller.interface, "from": caller.address, "who": caller.person.name}
        self.log.write(**who, act=act, outcome=outcome)

    async def refresh(self) -> None:
        """Open the policy again if the file changed; as long as it is wrong, nothing is answered."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        async with self._opening:
            if (stamp := self._look()) == self._stamp:
                return
            try:
                database = await self.read(open_database, self.path)
            except SfumatoError as error:
                say("policy refused", database=self.name, reason=str(error))
                what = "the policy" if isinstance(error, PolicyError) else "policy or data"
                raise ServerError(
                    f"{what} of {self.name!r} changed and cannot be used in the current state, so nothing is "
                    "answered. Nothing was spent. The owner can see what is wrong: sfumato check POLICY"
                ) from None
            self.database, self._stamp = database, stamp
            self._questions.clear()
            self._shown.clear()
            self._budgets.clear()
            say("policy opened", database=self.name)

    def _look(self) -> tuple[int, ...]:
        """While this is the same, so is the policy."""
        try:
            found = os.stat(self.path)
        except OSError:
            return (0,)
        return found.st_ino, found.st_mtime_ns, found.st_size

    async def open_anew(self, database: Keeper) -> None:
        """Open what changed since it was opened, if nobody did yet; or nothing is answered."""
        if database is self.database:
            self._stamp = ()
            await self.refresh()

    async def finish(self, seconds: float) -> int:
        """Let what is running leave at its deadline, and end what is late or runs longer than this; how much
        could not be ended."""
        self._watch.close()
        await self._turns.finish(seconds)
        self._watch.end()
        return await self._turns.finish(ENDING)


@contextmanager
def _one_more(counts: Counter[str], who: str, most: int, what: str) -> Iterator[None]:
    """One more thing that somebody waits for, unless there are too many."""
    if counts[who] >= most:
        raise TooMany(f"{most} {what} of {who!r} are already waiting", 2)
    counts[who] += 1
    try:
        yield
    finally:
        counts[who] -= 1
        if not counts[who]:
            del counts[who]


def _ended(running: Running) -> SfumatoError:
    """What is said of a question that ended before its time: the same whether its engine was ready or not."""
    stays = "Its charge stays; asking the same question again redeems it without a new charge"
    error: SfumatoError = ServerError(f"the server was stopped while the question ran. {stays}.")
    if running.ended == "revoked":
        error = AccessDenied(f"the access of {running.who!r} was revoked while the question ran. {stays}.")
    error.spent = True
    return error


def has_changed(database: Keeper) -> bool:
    """Whether the data changed since they were opened; refused if the owner has to read them first."""
    try:
        database.check_version()
    except NotRead:
        raise  # opening them anew would not help
    except SourceError:
        return True
    return False


def _looked(question: Question, anew: bool) -> tuple[Release | None, bool]:
    """The stored release of a question, unless it is to be asked anew; else whether the data changed."""
    kept = None if anew else question.kept()
    return kept, kept is None and has_changed(question.database)


def check_size(*asked: Question) -> None:
    """Refuse what takes very long to plan."""
    if (found := sum(len(plan.measures) for each in asked for plan in each.plan.all)) > MEASURES:
        raise Unsupported(
            f"the request needs {found} measures, and the limit is {MEASURES}",
            "Ask for some of the columns, or some of the questions, at a time.",
        )


def _receipt(found: Any) -> dict[str, Any]:
    if isinstance(found, Answered):
        known = found.forms.get("receipt")
        return known if known is not None else found.keep("receipt", _receipt_of(found.release))
    return _receipt_of(found[0]) if hasattr(found, "each") else {}


def _receipt_of(release: Release) -> dict[str, Any]:
    receipt = getattr(release, "receipt", None)
    return {} if receipt is None else {"receipt": receipt.number, "charged": str(receipt.charged)}
