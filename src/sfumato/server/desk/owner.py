"""What the doors say about a database besides releases: schema, budget, people, policy. All of it is public,
or the owner's own."""

from __future__ import annotations

import csv
import datetime
import io
from typing import TYPE_CHECKING, Any, cast

from sfumato.curator import show, texts
from sfumato.curator.database import fitting
from sfumato.curator.files import rewrite
from sfumato.errors import InvalidParameter, QueryRefused
from sfumato.mechanisms.guarantee import FINER, decimal
from sfumato.queries import policy as policies
from sfumato.queries.statement import parse
from sfumato.server.desk.deadlines import deadline
from sfumato.server.desk.watch import stopped_after

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction
    from pathlib import Path

    from sfumato.budget import Ledger, OpenCharge
    from sfumato.curator.database import Database
    from sfumato.queries.policy import Policy
    from sfumato.queries.sql import Dialect
    from sfumato.server.desk.people import Person

LATE = "late"  # notes in the ledger of answers that came late or failed
SHOWN = 1000  # keys of a column that are listed
LOOKED = 5000  # entries of the ledger in which charges are looked for that were never released
LONG = 240.0  # seconds for which a charge is shown whose deadline is not known
STOP_AFTER = 4.0  # deadlines, after which an engine is stopped


def schema(policy: Policy) -> dict[str, Any]:
    """The tables that may be asked about, as the policy declares them."""
    sizes = dict(policy.sizes)
    tables = []
    for table in policy.tables:
        columns = []
        for column in table.columns:
            keys = [_plain(key) for key in (column.keys or ())[:SHOWN]]
            facts: dict[str, Any] = {"name": column.name, "type": column.kind}
            if column.low is not None and column.high is not None:
                facts |= {"low": _number(column.low), "high": _number(column.high)}
            if column.keys is not None:
                facts |= {"keys": keys, "key_count": len(column.keys)}
            columns.append(facts)
        unit = {"public": True} if table.public else {"unit": table.unit or "row"}
        about = {"rows": sizes[table.name]} if table.name in sizes else {}
        tables.append({"name": table.name, **unit, **about, "columns": columns})
    return {"database": policy.name, "tables": tables}


def budget(database: Database, person: Person) -> dict[str, Any]:
    """Total, spent, left; what an analyst sees of it is what concerns her."""
    asker = database.on_behalf_of(person.name) if person.role == "analyst" else database
    facts = asker.budget.as_dict()
    facts.pop("history")
    left = database.ledger.left_for(person.name)
    if person.role == "analyst":
        facts["by_analyst"] = {k: v for k, v in facts["by_analyst"].items() if k == person.name}
        facts["shares"] = [
            each for each in facts["shares"] if person.name in (each["name"], *each["members"])
        ]
        facts.pop("by_day")
    delta = {"left_for_you_delta": decimal(left.delta, FINER)} if left.delta else {}
    return {**facts, "name": person.name, "left_for_you": decimal(left.amount), **delta}


def history(database: Database, person: Person) -> list[dict[str, Any]]:
    """Every charge that somebody may see."""
    lines: list[dict[str, Any]] = database.budget.as_dict()["history"]
    if person.role != "analyst":
        return lines
    mine = database.policy.name  # somebody of the same name may ask another database on the same ledger
    return [line for line in lines if line["analyst"] == person.name and line["database"] == mine]


def as_csv(lines: list[dict[str, Any]], currency: str) -> str:
    """A history as CSV."""
    text = io.StringIO()
    names = ["receipt", "at", currency, "delta", "spent", "analyst", "database", "question", "released"]
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="0")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def people(everybody: Iterable[Person], late: dict[str, int]) -> list[dict[str, Any]]:
    """Names, roles and tokens, without anything that opens a door."""
    return [
        {
            "name": each.name,
            "role": each.role,
            "revoked": each.revoked,
            "password": each.password is not None,
            "late": late.get(each.name, 0),
            "tokens": [
                {
                    "id": token.id,
                    "made": _moment(token.made),
                    "expires": _moment(token.expires),
                    "once": token.once,
                    "revoked": token.revoked,
                }
                for token in each.tokens
            ],
        }
        for each in everybody
    ]


def late(ledger: Ledger, who: str) -> int:
    """How many answers of somebody came late or failed since the owner last looked: each doubling is one,
    and each receipt whose release failed."""
    count, failed = 0, set[int]()
    for n, note in enumerate(ledger.notes(LATE, who)):
        if note.get("looked"):
            count, failed = 0, set()
        else:
            count += note["doublings"]
            failed |= {note.get("receipt", -n)} if note["failed"] else set()
    return count + len(failed)


def count_open(ledger: Ledger, after: int, now: float, age: float) -> int:
    """Count as failed what was charged long ago and never released: a worker may have been killed, or a disk
    full. Up to which number everything is settled."""
    last, found = ledger.open_charges(after)
    for charge in found:
        if now - charge.at < age:
            return charge.number - 1
        who, number = charge.analyst, charge.number
        if who and not any(note.get("receipt") == number for note in ledger.notes(LATE, who)):
            note_late(ledger, who, number, 0, failed=True)
    return last


def note_late(
    ledger: Ledger, who: str, receipt: int, times: int, *, failed: bool, stopped: bool = False
) -> None:
    """Write down that an answer came late or failed. One whose engine was stopped is held: it is not run
    again before the owner has looked."""
    moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    facts = {
        "analyst": who,
        "receipt": receipt,
        "doublings": times,
        "failed": failed or stopped,
        "at": moment,
    }
    if stopped:
        ledger.hold(receipt, held=True, reason="its engine was stopped")
    ledger.note(LATE, facts | ({"stopped": True} if stopped else {}), about=who)


def running(
    database: Database, now: float, pace: float = 1.0, stop_after: float = STOP_AFTER
) -> list[dict[str, Any]]:
    """What was charged and may be running, in any worker: who asked what, and when it is due.

    From the ledger and the policy alone, so it says nothing about how long an engine takes. A charge is shown
    until its engine is stopped at the latest, unless its release is stored.
    """
    ledger = database.ledger
    first = max(-1, int(ledger.head.partition("-")[0]) - LOOKED)
    found = []
    for charge in ledger.open_charges(first)[1]:
        due, at = _due(database, charge, pace), charge.at
        last = LONG if due is None else stopped_after(due, stop_after)
        if now < at + last + (due or 0):
            moments = [None, None] if due is None else [_moment(at + due), _moment(at + last)]
            facts = {"receipt": charge.number, "analyst": charge.analyst, "question": charge.question}
            found.append({**facts, "charged": _moment(at), "due": moments[0], "stopped": moments[1]})
    return found


def _due(database: Database, charge: OpenCharge, pace: float) -> float | None:
    """How long after its charge a question is due; None if its text does not tell."""
    policy, dialect = database.policy, cast("Dialect", charge.dialect)
    try:
        plans = [parse(text, policy, dialect=dialect) for text in texts.apart(charge.question)]
    except QueryRefused:
        return None
    return sum(deadline(plan, policy, pace, database.alike) for plan in plans)


def looked(ledger: Ledger, who: str) -> None:
    """The owner has looked: she may go on, and what was stopped may run again."""
    for note in ledger.notes(LATE, who):
        if note.get("stopped") and ledger.is_held(note["receipt"]):
            ledger.hold(note["receipt"], held=False)
    ledger.note(LATE, {"analyst": who, "looked": True}, about=who)


def replace_policy(path: Path, text: str, before: Policy) -> str:
    """Write another policy in the place of one, if it is right and reads the same data; the old text.

    It is compared with the one that was last opened: what stands in the file may be what is to be repaired.

    Where the data and the ledger are is decided on the machine: whoever could change that from outside could
    point the server at another file.
    """
    old = path.read_bytes().decode("utf-8-sig", "replace") if path.exists() else ""
    after = policies.parse(text, path)
    for name in ("name", "source", "ledger", "prepared"):
        if getattr(before, name) != getattr(after, name):
            told = "it names a location, which can only be changed on the server itself"
            given = getattr(after, name)
            raise InvalidParameter(name, given[1] if isinstance(given, tuple) else given, told)
    fitting(after)
    rewrite(path, text)
    return old


def _number(value: Fraction) -> str:
    return show.fraction(value).replace(",", "")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _moment(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="seconds")
