"""The chain of entries: what one writer does, alone, in one transaction.

Everything here happens in the store, under the lock: the gate, the next entry, the check that the ledger is
the one that is remembered. `ledger` decides who is the writer.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from fractions import Fraction
from operator import le, lt
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.budget.accounting import filters
from sfumato.budget.accounting.filters import FINE, UNIT
from sfumato.budget.ledger import record, shares, subjects
from sfumato.budget.ledger.entries import ALL, FIRST, SECOND, SEEN, Record, hashed, units
from sfumato.budget.ledger.store import FORM
from sfumato.budget.ledger.witness import Mark, Witness
from sfumato.errors import InvalidParameter, LedgerError
from sfumato.exact.coins import SystemCoins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sfumato.budget.ledger.shares import Share
    from sfumato.budget.ledger.store import Store
    from sfumato.budget.ledger.subjects import Units
    from sfumato.mechanisms import Guarantee

Wish = dict[str, Any]  # what is to be written; and what came of it
ACCEPT = "sfumato budget POLICY --accept"
CHUNK = 5000  # entries that are read at a time
# beside what was run: the price asked for every part, what numbers mean, how the text was understood, and in
# which dialect it was written, if not in the first
STORED = ("asked", "meaning", "reading", "dialect")


class Limit(NamedTuple):
    """A promise, as far as a ledger must know it: what all charges may come to under a relation.

    They may be anywhere below one of the corners (in any case, for the whole range of a column, of delta), in
    units. `told` is the promise in words; `made` names everything that it was computed from, `declared` the
    part of it that stands in a policy, without what public tables say, and `about` the columns.
    """

    relation: str
    corners: tuple[tuple[int, int, int], ...]
    told: str
    made: str
    declared: str = ""  # and this, in what was stored before
    about: str = ""
    apart: Units = ()  # units that it is not about: charges about these alone do not count

    def allows(self, state: Sequence[int]) -> bool:
        """Whether charges may come to this."""
        return any(all(map(le, state, corner)) for corner in self.corners)

    def replaces(self, other: Limit) -> bool:
        """Whether it is the same declaration, so that the other is not in force beside it; not if less would
        count for it."""
        same = self.made == other.made or bool(self.declared and self.declared == other.declared)
        return same and {*self.apart} <= {*other.apart}

    def implies(self, other: Limit) -> bool:
        """Whether it is about the same and allows nothing that the other does not."""
        same = (self.relation, self.about) == (other.relation, other.about)
        return same and {*self.apart} <= {*other.apart} and all(map(other.allows, self.corners))

    def as_dict(self) -> dict[str, Any]:
        """As it is stored."""
        apart = {"apart": [list(unit) for unit in self.apart]} if self.apart else {}
        facts = {name: each for name, each in self._asdict().items() if name != "apart"}
        return {**facts, "corners": [list(corner) for corner in self.corners], **apart}

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Limit:
        """As it was stored."""
        corners = tuple((a, b, c) for a, b, c in stored["corners"])
        later = stored.get("declared", ""), stored.get("about", "")
        apart = tuple(tuple(unit) for unit in stored.get("apart", ()))
        return cls(stored["relation"], corners, stored["told"], stored["made"], *later, apart)


class Withdrawn(NamedTuple):
    """A promise that was taken back."""

    at: int  # in microseconds
    database: str
    limit: Limit


class Home(NamedTuple):
    """Which policy it is that has a name: where it lies, and what it calls its data, if it does."""

    place: str
    called: str = ""


class Chain:
    """The entries of one ledger, as one database sees them."""

    def __init__(
        self,
        store: Store,
        path: Path,
        *,
        name: str,
        total: Guarantee,
        policy: tuple[str, ...],
        clock: Callable[[], float],
        home: Home | None = None,
        stands: Callable[[Home], bool] = lambda _: False,
        tables: dict[str, Any] | None = None,
    ) -> None:
        self.store, self.name, self.total = store, name, total
        self._tables = tables or {}
        self._policy, self._clock = policy, clock
        self._home, self._stands = home, stands
        self.witness = Witness(path)
        self.identity = ""
        self._end: Record | None = None  # the last entry, while this process is writing
        self._sums: dict[
            tuple[Any, ...], tuple[Record, list[int]]
        ] = {}  # up to which entry, and the losses up to it
        self._totals: tuple[Record, dict[str, list[int]]] = (FIRST, {})  # up to which entry, and by policy

    # Writing ------------------------------------------------------------------------------------------

    def perform(self, wish: Wish) -> Wish:
        """One wish, inside the transaction. It refuses before it writes, so a refusal leaves nothing."""
        acts = {
            "charge": self._charge,  # as an earlier version wishes it, which may wait in another process
            "ask": self._charge,
            "keep": self._keep,
            "data": self._change,
            "note": self._note,
            "retire": self._retire,
            "promise": self._promise,
            "withdraw": self._withdraw,
        }
        return acts[wish["act"]](wish)

    def _charge(self, wish: Wish) -> Wish:
        name, analyst, (amount, slack) = wish["name"], wish["analyst"], wish["price"]
        found = self.found(wish["key"], self.data_version(name), name)
        topic = _charge_topic(found, wish["spend"], wish.get("meaning"))
        if (earlier := self._at_topic(topic)) is not None:
            return {"receipt": earlier.facts, "new": False}
        tables = wish.get("tables", {})
        if other := self.other_unit(name, tables):
            return {"refused": "unit", **other}
        last, limit = self.last(), self.limit(wish["limit"])
        left = [most - spent for most, spent in zip(limit, (last.spent, last.delta_spent), strict=True)]
        if amount > left[0] or slack > left[1]:
            return {"refused": "total", "left": [max(each, 0) for each in left]}
        promises = self._in_force(wish)
        if broken := self._broken_promise(wish, promises):
            maker, promise = broken
            left = [max(each, 0) for each in left]
            return {"refused": "promise", "left": left, "whose": maker, "told": promise.told}
        given, now = self.shares(), max(wish["at"], last.at)
        share = shares.of(analyst, given)
        if share is None and analyst and given:
            return {"refused": "stranger", "left": [0, 0], "analyst": analyst}
        if share is not None:
            room = self.room(share, now)
            if amount > room[0] or slack > room[1]:
                again = shares.next_refresh(share, now)
                return {"refused": "share", "left": list(room), "share": share.name, "again": again}
        body = {"database": name, "question": wish["question"], "analyst": analyst, "spend": wish["spend"]}
        body |= {each: wish[each] for each in ("lost", *STORED) if each in wish}
        body |= {"unit": wish["unit"]} if wish.get("unit") else {}
        body |= {"tables": sorted(tables)} if tables else {}
        made = sorted({promise.made for _, promise in promises})
        body["under"] = {"total": limit, **({"promises": made} if made else {})}
        who = share.name if share else analyst
        line = self.append("charge", now, body, who=who, topic=topic, found=found, price=(amount, slack))
        self._note_units(name, tables, now)
        return {"receipt": line.facts, "new": True}

    def _in_force(self, wish: Wish) -> list[tuple[str, Limit]]:
        """The promises that a charge must keep, and who made them: all in the ledger, and those of whoever
        asks as the policy was opened, which may have been withdrawn since."""
        known = [(name, limit) for name, limits in self.promises().items() for limit in limits]
        own = [(wish["name"], Limit.of(limit)) for limit in wish.get("promises", ())]
        return list(dict.fromkeys(known + own))

    def _broken_promise(self, wish: Wish, promises: Sequence[tuple[str, Limit]]) -> tuple[str, Limit] | None:
        """The first promise that a charge would break, and the database that made it."""
        charge = {"database": wish["name"], "unit": wish.get("unit")}
        for name, limit in promises:
            if not subjects.counts(charge, name, limit.apart):
                continue
            price = wish["lost"].get(limit.relation, wish["lost"]["value"])
            so_far = self.losses(limit.relation, name, limit.apart)
            if not limit.allows([a + b for a, b in zip(so_far, price, strict=True)]):
                return name, limit
        return None

    def _note_units(self, name: str, tables: dict[str, Any], now: int) -> None:
        """How tables say whose their rows are, from their first charge on."""
        known = self.units(name)
        new = {table: form for table, form in tables.items() if known.get(table, (None,))[0] != form}
        if new:
            self.append("unit", now, {"database": name, "tables": new}, found=f"units/{name}")

    def units(self, name: str) -> dict[str, tuple[dict[str, Any], int]]:
        """How the tables of a database say whose their rows are, and which entry says so."""
        rows = self.store.read(
            "SELECT number, body FROM entries WHERE found = ? AND number > ? ORDER BY number",
            (f"units/{name}", self._retired_at(name)),
        )
        return {
            table: (form, number)
            for number, body in rows
            for table, form in json.loads(body)["tables"].items()
        }

    def other_unit(self, name: str, tables: dict[str, Any]) -> dict[str, Any]:
        """The first table that says otherwise than when it was charged for; nothing if there is none."""
        known = self.units(name) if tables else {}
        for table, form in tables.items():
            if table in known and not subjects.is_kept(known[table][0], form):
                before, number = known[table]
                return {"table": table, "before": before, "now": form, "number": number}
        return {}

    def _keep(self, wish: Wish) -> Wish:
        topic = f"release/{wish['number']}/{wish['turn']}"
        if (earlier := self._at_topic(topic)) is not None:
            return {"drawn": json.loads(earlier.body)["drawn"]}
        paid = self.store.read("SELECT kind, head FROM entries WHERE number = ?", (wish["number"],))
        if paid != [("charge", wish["head"])]:
            return {"refused": "unpaid"}
        self.append("release", wish["at"], {"drawn": wish["drawn"]}, topic=topic)
        return {"drawn": wish["drawn"]}

    def _change(self, wish: Wish) -> Wish:
        version = self.data_version(wish["name"]) + 1
        self.append("data", wish["at"], {"version": version}, found=f"data/{wish['name']}")
        return {"version": version}

    def _note(self, wish: Wish) -> Wish:
        if wish["found"] == "promises":  # as an earlier version wishes it
            return self._promise({**wish, "limits": wish["body"]["limits"]})
        body = {"database": wish["name"], **wish["body"]}
        self.append(wish["kind"], wish["at"], body, found=wish["found"])
        return {}

    def _promise(self, wish: Wish) -> Wish:
        """Promises are added. One that is no longer declared stays in force until it is withdrawn."""
        made, before = [Limit.of(each) for each in wish["limits"]], self.promises().get(wish["name"], ())
        kept = [old for old in before if not any(new.replaces(old) for new in made)]
        if {*made, *kept} != {*before}:
            self._say("promise", wish, wish["name"], [*made, *kept])
        return {}

    def _withdraw(self, wish: Wish) -> Wish:
        """Promises end here, for those who open the policy from now on."""
        before = self.promises().get(wish["whose"], ())
        wanted = [Limit.of(each) for each in wish.get("limits", ())]
        gone = [limit for limit in before if limit in wanted or limit.made in wish.get("made", ())]
        if gone:
            rest = [limit for limit in before if limit not in gone]
            self._say("withdrawn", wish, wish["whose"], rest, gone)
        return {"withdrawn": [limit.told for limit in gone]}

    def _say(
        self, kind: str, wish: Wish, name: str, limits: Sequence[Limit], gone: Sequence[Limit] = ()
    ) -> None:
        """The promises of a database that are in force from here on, and those that are not any more."""
        body: dict[str, Any] = {"database": name, "limits": [limit.as_dict() for limit in limits]}
        if gone:
            body |= {"withdrawn": [limit.as_dict() for limit in gone], "by": wish["name"]}
        self.append(kind, wish["at"], body, found="promises")

    def _retire(self, wish: Wish) -> Wish:
        """A policy that will not be opened again binds nobody any more; what was spent under it stays."""
        if wish["whose"] not in self.totals():
            return {"known": sorted(self.totals())}
        body = {"database": wish["whose"], "by": wish["name"]}
        self.append("retired", wish["at"], body, found=f"policy/{wish['whose']}")
        promised = self.promises().get(wish["whose"], ())
        return self._withdraw({**wish, "made": [limit.made for limit in promised]})

    def append(
        self,
        kind: str,
        at: int,
        body: dict[str, Any],
        *,
        who: str = "",
        topic: str | None = None,
        found: str | None = None,
        price: tuple[int, int] = (0, 0),
    ) -> Record:
        """The next entry of the chain."""
        last, (amount, slack) = self.last(), price
        own = (0, 0)
        if who:
            before = self._own(who, "")
            own = (before[0] + amount, before[1] + slack)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        facts = (
            last.number + 1, max(at, last.at), kind, who, topic, found, text, amount, slack,
            last.spent + amount, last.delta_spent + slack, *own,
        )  # fmt: skip
        line = Record(*facts, hashed(last.head, facts))
        self.store.write([line])
        if self._end is not None:
            self._end = line
        return line

    # Reading ------------------------------------------------------------------------------------------

    def last(self) -> Record:
        """The last entry."""
        if self._end is not None:
            return self._end
        rows = self.store.read(f"SELECT {ALL} FROM entries c ORDER BY number DESC LIMIT 1")
        return Record(*rows[0]) if rows else FIRST

    def now(self) -> int:
        """The time, in microseconds."""
        return int(self._clock() * SECOND)

    def data_version(self, name: str | None = None) -> int:
        """Which state of its data a database is in."""
        body = self._latest(f"data/{self.name if name is None else name}")
        return int(body["version"]) if body else 1

    def shares(self) -> dict[str, Share]:
        """The shares in force."""
        rows = self.store.read("SELECT body FROM entries WHERE found = 'shares' ORDER BY number")
        return shares.current(json.loads(body) for (body,) in rows)

    def promises(self) -> dict[str, tuple[Limit, ...]]:
        """The promises in force, by database."""
        rows = self.store.read("SELECT body FROM entries WHERE found = 'promises' ORDER BY number")
        bodies = [json.loads(body) for (body,) in rows]
        return {body["database"]: tuple(map(Limit.of, body["limits"])) for body in bodies}

    def withdrawn(self) -> tuple[Withdrawn, ...]:
        """The promises that were taken back and not made again, oldest first."""
        rows = self.store.read("SELECT at, body FROM entries WHERE found = 'promises' ORDER BY number")
        found = [(at, json.loads(body)) for at, body in rows]
        in_force = {(name, limit.made) for name, limits in self.promises().items() for limit in limits}
        gone = [
            Withdrawn(at, body["database"], Limit.of(each))
            for at, body in found
            for each in body.get("withdrawn", ())
        ]
        return tuple(each for each in gone if (each.database, each.limit.made) not in in_force)

    def losses(self, relation: str, name: str = "", apart: Units = ()) -> list[int]:
        """What charges come to under a relation, in units of money; only new ones are read.

        All of them; or those that count for a promise of a database that is not about some units. What was
        charged under a name before it was retired is of another database.
        """
        retired = self._retired_at(name) if apart else 0
        key = (relation, name, apart, retired)
        seen, sums = self._sums.get(key, (FIRST, [0, 0, 0]))
        if seen is not FIRST and self._head_at(seen.number) != seen.head:
            seen, sums = FIRST, [0, 0, 0]  # what was seen was never written, or is of another ledger
        last = self.last()
        if seen.number < last.number:
            for line in self.lines("charge", "restored", after=seen.number):
                is_own = apart and line.number > retired
                if is_own and not subjects.counts(json.loads(line.body), name, apart):
                    continue
                losses = self._losses_of(line)
                sums = [a + b for a, b in zip(sums, losses.get(relation, losses["value"]), strict=True)]
            self._sums[key] = (last, sums)
        return sums

    def _losses_of(self, line: Record) -> dict[str, list[int]]:
        """What a charge comes to under other relations: as it was noted, or worked out for an older one."""
        body = json.loads(line.body)
        if "lost" in body:
            noted: dict[str, list[int]] = body["lost"]
            return noted
        if line.kind != "charge":
            return {"value": filters.replaced(line.amount, line.slack, self.total)}
        currency = self.total.of(Fraction(0), Fraction(line.slack, FINE))
        return filters.losses(record.read(body["spend"]), currency)

    def room(self, share: Share, now: int) -> tuple[int, int]:
        """What is left of a share: of its amount in this period, less what was spent since it began."""
        spent, delta_spent = self._own(share.name, "")
        if share.every is not None:
            before = self._own(share.name, "AND at < ?", shares.began(share, now))
            spent, delta_spent = spent - before[0], delta_spent - before[1]
        amount, slack = units(share.allowance)
        return max(amount - spent, 0), max(slack - delta_spent, 0)

    def found(self, key: str, version: int, name: str | None = None) -> str:
        """What the charges for a question are found by."""
        return f"charge/{self.name if name is None else name}/{version}/{key}"

    def _own(self, who: str, until: str, *values: int) -> tuple[int, int]:
        """What one share or analyst has spent, in all or up to a time."""
        rows = self.store.read(
            f"SELECT own_spent, own_lost FROM entries WHERE who = ? {until}"
            " ORDER BY at DESC, number DESC LIMIT 1",
            (who, *values),
        )
        return (rows[0][0], rows[0][1]) if rows else (0, 0)

    def _at_topic(self, topic: str) -> Record | None:
        rows = self.store.read(f"SELECT {ALL} FROM entries c WHERE topic = ?", (topic,))
        return Record(*rows[0]) if rows else None

    def _latest(self, found: str) -> dict[str, Any]:
        rows = self.store.read(
            "SELECT body FROM entries WHERE found = ? ORDER BY number DESC LIMIT 1", (found,)
        )
        body: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
        return body

    def totals(self) -> dict[str, list[int]]:
        """What every policy on this ledger gave last, in units; only new entries are read."""
        seen, totals = self._totals
        if seen is not FIRST and self._head_at(seen.number) != seen.head:
            seen, totals = FIRST, {}  # what was seen was never written, or is of another ledger
        last = self.last()
        if seen.number < last.number:
            rows = self.store.read(
                "SELECT found, body FROM entries WHERE number > ? AND found LIKE ? ORDER BY number",
                (seen.number, "policy/%"),
            )
            given = {found.partition("/")[2]: json.loads(body).get("units") for found, body in rows}
            totals = {name: total for name, total in (totals | given).items() if total is not None}
            self._totals = (last, totals)
        return totals

    def limit(self, *totals: Sequence[int]) -> list[int]:
        """What all charges together may come to, in units: the least that any policy on this ledger gives.

        The people are the same in all of them, so the total that is promised to them in one must hold
        whichever is asked.
        """
        given = [*self.totals().values(), *totals]
        return [min(each) for each in zip(*given, strict=True)]

    def binding(self, total: Sequence[int], name: str) -> str:
        """The policy whose total is the least, if that is another one and gives less than this."""
        others = [(each, other) for other, each in self.totals().items() if other != name]
        return next((other for each, other in sorted(others) if any(map(lt, each, total))), "")

    def lines(self, *kinds: str, after: int = -1) -> Iterator[Record]:
        """All entries, or those of some kinds: a few thousand at a time, and nothing is held open between."""
        number, which = after, " OR ".join("kind = ?" for _ in kinds) or "TRUE"
        while rows := self.store.read(
            f"SELECT {ALL} FROM entries c WHERE number > ? AND ({which}) ORDER BY number LIMIT {CHUNK}",
            (number, *kinds),
        ):
            yield from (Record(*row) for row in rows)
            number = rows[-1][0]

    # Opening ------------------------------------------------------------------------------------------

    def open(self, *, accept: bool) -> None:
        """Make the ledger if there is none, and refuse it if it is not what is remembered."""
        former = [] if self.store.exists() else self.witness.of_path()
        if former and not accept:
            place, mark = former[0]
            raise LedgerError(
                f"there is no ledger at {self.store.name}, but {place} records one that had spent "
                f"{self.guarantee(mark.spent, mark.delta_spent)}. Nothing is charged or answered. Restore "
                f"it; or, if it is lost, count that much as spent: {ACCEPT}; or, if these are other "
                f"people's data, remove {place.name} from {place.parent}."
            )
        with self.store.writing():
            self._prepare()
        last = deque(self.walk(), maxlen=1)[0]
        if not accept:
            self._check(last, self.witness.of_ledger(self.identity))
        self._check_home()
        self._check_units()
        with self.store.writing():
            if accept:
                self._make_up(last, former)
            self._note_policy()
            self._note_former_units()
        self.note_witness()

    def _check_home(self) -> None:
        """Refuse another policy of the same name: it would change the total and the promises of the first."""
        for home in self._homes():
            if self._home is None or home.place == self._home.place:
                return
            named = bool(home.called and self._home.called)
            if (home.called != self._home.called) if named else self._stands(home):
                where = home.place.rpartition("\n")[2]
                raise LedgerError(
                    f"the name {self.name!r} belongs to another policy on the ledger {self.store.name}: "
                    f"{where}. Nothing is charged or answered. Write a different name at the top of this "
                    f'policy, such as name = "{self.name}-2"; or, if both are about the same data, give both '
                    'the same name = "..." under [source]; or, if this one replaces the other, '
                    "remove the other file."
                )

    def _check_units(self) -> None:
        """Refuse tables whose rows belong to others than when something was charged about them."""
        if other := self.other_unit(self.name, self._tables):
            raise subjects.changed(self.store.name, self.name, **other)

    @property
    def was_charged(self) -> bool:
        """Whether anything was charged for this database, or made up for after a loss."""
        return self._was_charged(0, "")

    def _was_charged(self, after: int, noting: str) -> bool:
        """Whether it was after an entry, by a charge whose body does not look so."""
        found = f"charge/{self.name}/"
        own = "(kind = 'restored' OR (kind = 'charge' AND SUBSTR(found, 1, ?) = ?))"
        sql = f"SELECT 1 FROM entries WHERE number > ? AND {own} AND body NOT LIKE ? LIMIT 1"
        after = max(after, self._retired_at(self.name))
        return bool(self.store.read(sql, (after, len(found), found, noting)))

    def _note_former_units(self) -> None:
        """Of what was charged by a version that did not note which tables it read, take all as they are."""
        known = self.units(self.name)
        noted = max((number for _, number in known.values()), default=0)
        if self._was_charged(noted, '%"tables":[%'):
            unnoted = {table: form for table, form in self._tables.items() if table not in known}
            self._note_units(self.name, unnoted, self.now())

    def _retired_at(self, name: str) -> int:
        """The entry that ended an earlier policy of this name."""
        sql = "SELECT MAX(number) FROM entries WHERE kind = 'retired' AND found = ?"
        return int(self.store.read(sql, (f"policy/{name}",))[0][0] or 0)

    def _homes(self) -> list[Home]:
        """Where policies of this name were opened, the first one first."""
        rows = self.store.read(
            "SELECT kind, body FROM entries WHERE found = ? ORDER BY number", (f"policy/{self.name}",)
        )
        found: list[Home] = []
        for kind, text in rows:
            body = json.loads(text)
            if kind == "retired":
                found = []
            elif "place" in body:
                found.append(Home(body["place"], body["called"]))
        return found

    def _prepare(self) -> None:
        form = self.store.prepare()
        if form == 1:
            currencies = self.store.read("SELECT currency FROM about")
            self._check_currency(currencies[0][0])
        if form < FORM:
            identity = f"{SystemCoins().bits(128):032x}"
            body = {"currency": _currency(self.total), "form": FORM, "ledger": identity}
            self.append("opened", self.now(), body)
        if form == 1:
            self._take_over()
            self.store.drop("about", "charges", "releases")
        opened = json.loads(self.store.read("SELECT body FROM entries WHERE number = 1")[0][0])
        self.identity = opened["ledger"]
        self._check_currency(opened["currency"])

    def _check_currency(self, counted: str) -> None:
        if counted != (given := _currency(self.total)):
            raise LedgerError(
                f"{self.store.name} counts {counted}, and the policy gives {given}. The currency of a ledger "
                "is fixed before its first charge; it was not changed. "
                f"Write {counted} under [budget] in the policy, or name another ledger there."
            )

    def _take_over(self) -> None:
        """The charges and releases of form 1, as entries."""
        versions = self.store.read("SELECT data_version FROM about")
        drawn: dict[int, str] = dict(self.store.read("SELECT number, drawn FROM releases WHERE turn = 0"))
        for number, at, key, version, question, spend, price in self.store.read(
            "SELECT number, at, key, data_version, question, spend, price FROM charges ORDER BY number"
        ):
            found, moment = self.found(key, version), int(at * SECOND)
            body = {"database": self.name, "question": question, "analyst": "", "spend": spend}
            line = self.append(
                "charge", moment, body, topic=_charge_topic(found, spend), found=found, price=(price, 0)
            )
            if number in drawn:
                release = {"drawn": drawn[number]}
                self.append("release", moment, release, topic=f"release/{line.number}/0")
        self.append("data", self.now(), {"version": versions[0][0]}, found=f"data/{self.name}")

    def _note_policy(self) -> None:
        """A budget or a policy that changed since this database was last opened is an entry of its own."""
        found = f"policy/{self.name}"
        named = self._policy[0] if self._policy else ""
        facts = {"total": str(self.total), "policy": named, "units": list(units(self.total))}
        facts |= {} if self._home is None else self._home._asdict()
        is_known = self._home is None or self._home in self._homes()
        before = self._latest(found)
        if before.get("units") != facts["units"]:
            self.append("grant", self.now(), {"database": self.name, **facts}, found=found)
        elif not is_known or before.get("policy") not in (named, *self._policy):  # also by an earlier form
            self.append("policy", self.now(), {"database": self.name, **facts}, found=found)

    def _make_up(self, last: Record, former: list[tuple[Path, Mark]]) -> None:
        """Charge what is remembered and missing.

        A mark that the ledger holds, or that was made up for, misses nothing. If the file of a mark remembers
        the last entry here, then what came after is missing; if not, all that was spent up to the mark is,
        since the ledger may have gone another way. A mark that the file of another one remembers is part of
        that one.
        """
        marks = dict.fromkeys(former + self.witness.of_ledger(self.identity))
        for name in {mark.ledger for _, mark in marks} - {self.identity}:
            marks |= dict.fromkeys(self.witness.of_ledger(name))
        covered = self._made_up()
        open_marks = [
            (place, mark)
            for place, mark in marks
            if _key(mark) not in covered
            and not (mark.ledger == self.identity and self._head_at(mark.number) == mark.head)
        ]
        missing: dict[tuple[str, int, str], tuple[int, int]] = {}
        for place, mark in open_marks:
            others = [(where, other) for where, other in open_marks if _key(other) != _key(mark)]
            if any(
                self.witness.has_seen(where, mark) and other.number > mark.number for where, other in others
            ):
                continue
            here = Mark(self.identity, last.number, last.head, last.spent, last.delta_spent)
            known = mark.ledger == self.identity and self.witness.has_seen(place, here)
            spent, delta_spent = (last.spent, last.delta_spent) if known else (0, 0)
            before = missing.get(_key(mark), (mark.spent, mark.delta_spent))
            missing[_key(mark)] = (
                min(before[0], max(mark.spent - spent, 0)),
                min(before[1], max(mark.delta_spent - delta_spent, 0)),
            )
        price = (sum(spent for spent, _ in missing.values()), sum(delta for _, delta in missing.values()))
        body = {"database": self.name, "made_up": sorted(_key(mark) for _, mark in open_marks)}
        if open_marks:
            self.append("restored", self.now(), body, found="restored", price=price)

    def _made_up(self) -> set[tuple[str, int, str]]:
        """The marks that were charged for after a loss."""
        rows = self.store.read("SELECT body FROM entries WHERE found = 'restored'")
        return {
            (ledger, number, head) for (body,) in rows for ledger, number, head in json.loads(body)["made_up"]
        }

    def instead_of(self) -> frozenset[str]:
        """Ledgers that were lost, and counted as spent in this one."""
        return frozenset(ledger for ledger, _, _ in self._made_up()) - {self.identity}

    # Checking -----------------------------------------------------------------------------------------

    def walk(self) -> Iterator[Record]:
        """All entries, whose hashes are computed anew."""
        before = FIRST
        for line in self.lines():
            if line.number != before.number + 1 or line.head != hashed(before.head, line[:-1]):
                raise self._broken(line, "it is not what was written")
            yield line
            before = line

    def check_end(self) -> None:
        """Refuse a ledger whose last entry, which holds the totals, is not what was written."""
        rows = self.store.read(f"SELECT {ALL} FROM entries c ORDER BY number DESC LIMIT 2")
        last, before = Record(*rows[0]), Record(*rows[1]) if len(rows) > 1 else FIRST
        if last.head != hashed(before.head, rows[0][:-1]):
            raise self._broken(last, "it is not what was written")
        self._check(last, self.witness.now())
        self._end = last

    def left(self) -> None:
        """The transaction is over."""
        self._end = None

    def _check(self, last: Record, marks: list[tuple[Path, Mark]]) -> None:
        """Refuse a ledger that lacks what is remembered of it."""
        for place, mark in marks:
            is_here = last.head if mark.number == last.number else self._head_at(mark.number)
            if (mark.ledger == self.identity and is_here == mark.head) or _key(mark) in self._made_up():
                continue
            if mark.ledger != self.identity:
                raise LedgerError(
                    f"{self.store.name} is not the ledger that {place} records. Nothing is "
                    "charged or answered. Restore the right one; or, if the change is intended, go on with "
                    f"what was spent there: {ACCEPT}; or, if that one was about other people, remove "
                    f"{place.name} from {place.parent}."
                )
            raise LedgerError(
                f"{self.store.name} is older than the state that {place} records, or a diverged "
                f"copy, or was changed: entry {mark.number} is missing or different. Nothing is charged or "
                "answered. Restore the newest ledger; or, if it is lost, continue with all that was spent: "
                f"{ACCEPT}; or, if another server has already done that, remove {place.name} from "
                f"{place.parent}."
            )

    def _head_at(self, number: int) -> str | None:
        rows = self.store.read("SELECT head FROM entries WHERE number = ?", (number,))
        return rows[0][0] if rows else None

    def note_witness(self) -> None:
        """Note the last entry outside."""
        last = self.last()
        self.witness.note(Mark(self.identity, last.number, last.head, last.spent, last.delta_spent))

    def verify(self, head: str | None) -> int:
        """Go through all entries; see `Ledger.verify`."""
        number, _, wanted = (head or "").partition("-")
        if head is not None and len(wanted) < SEEN:
            raise InvalidParameter(
                "head",
                head,
                f"give the number of an entry and at least {SEEN} characters of its head, as in a receipt",
            )
        paid: set[str] = set()
        own: dict[str, tuple[int, int]] = {}
        prices: dict[tuple[str, int], Fraction] = {}
        spent = delta_spent = 0
        line, found = FIRST, head is None
        for line in self.walk():
            found |= str(line.number) == number and line.head.startswith(wanted)
            spent, delta_spent = spent + line.amount, delta_spent + line.slack
            before = own.get(line.who, (0, 0))
            own[line.who] = (before[0] + line.amount, before[1] + line.slack)
            totals = (line.spent, line.delta_spent) == (spent, delta_spent)
            if not totals or (line.who and own[line.who] != (line.own_spent, line.own_delta_spent)):
                raise self._broken(line, "its running total is not the sum of the prices before it")
            if line.kind == "charge":
                text = json.loads(line.body)["spend"]
                if (text, line.slack) not in prices:
                    currency = self.total.of(Fraction(0), Fraction(line.slack, FINE))
                    prices[text, line.slack] = filters.price(record.read(text), currency).amount
                # the epsilon of a delta is computed with floats: another machine may round it elsewhere
                most = Fraction(line.amount, UNIT) * (1 + Fraction(1, 10**6) * bool(line.slack))
                if prices[text, line.slack] > most:
                    raise self._broken(line, "its price is lower than the cost of what was run")
                self._check_losses(line, text)
                paid.add(str(line.number))
            if line.kind == "release" and str(line.topic).split("/")[1] not in paid:
                raise self._broken(line, "there is no charge for it")
        if not found:
            raise LedgerError(
                f"the ledger {self.store.name} has no entry {head}. If a receipt shows it, this is not the "
                "ledger that issued it, or part of it is missing. Find the right file."
            )
        self._check(line, self.witness.now())
        return line.number

    def _check_losses(self, line: Record, text: str) -> None:
        """What it noted for other relations must not be less than what was run costs there."""
        noted = json.loads(line.body).get("lost")
        if noted is None:
            return
        currency = self.total.of(Fraction(0), Fraction(line.slack, FINE))
        found = filters.losses(record.read(text), currency)
        room = 1e-6 if line.slack else 0.0
        enough = all(
            each <= most * (1 + room)
            for name in found | noted
            for each, most in zip(
                found.get(name, found["value"]), noted.get(name, noted["value"]), strict=True
            )
        )
        if not enough:
            raise self._broken(line, "its cost of replacing a person is lower than that of what was run")

    def guarantee(self, amount: int, slack: int) -> Guarantee:
        """Units as an amount of the currency."""
        return self.total.of(Fraction(amount, UNIT), Fraction(slack, FINE))

    def _broken(self, line: Record, problem: str) -> LedgerError:
        return LedgerError(
            f"entry {line.number} ({line.kind}) of the ledger {self.store.name} was changed: {problem}. "
            "Nothing is charged or answered. Restore an unchanged copy."
        )


def _key(mark: Mark) -> tuple[str, int, str]:
    return mark.ledger, mark.number, mark.head


def _currency(total: Guarantee) -> str:
    return f"{total.currency} and delta" if total.delta else total.currency


def _charge_topic(found: str, spend: str, meaning: list[Any] | None = None) -> str:
    """A charge for the same thing has the same topic: then the earlier one is taken."""
    parts = [found, spend, *([json.dumps(meaning, sort_keys=True)] if meaning else [])]
    return "charge/" + hashlib.sha256("\n".join(parts).encode()).hexdigest()
