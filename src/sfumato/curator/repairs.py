"""Readings of SQL that were wrong once: their answers stay in the history, and answer nothing any more.

A question whose meaning was repaired is a new one. What was stored for it before is found by no name; here it
is recognised by its text, so that the history can say what it is: read as it was then, it has another name
than today.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from sfumato.curator import texts
from sfumato.errors import QueryRefused
from sfumato.queries import forms, notation
from sfumato.queries.sql import parse

if TYPE_CHECKING:
    from sfumato.budget import Entry
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy

VERSION = "0.2.0"  # in which readings were repaired
WRONG = f"answered under a reading repaired in version {VERSION}"
# what a text holds if it may be one of them, by the reading it was asked under: to read all of them again
# would take long
SUMS_AND_FLOORS = r"floor|ceil|select\b.*\bselect\b.*(sum|avg)|(sum|avg)\b.*\bselect\b"
SUSPECTS = {
    0: re.compile(r"left\s+(outer\s+)?join|not\b|length|cast|round|floor|ceil|::|//|[-+*]|\bsum\b|avg", re.I),
    1: re.compile(rf"coalesce|ifnull|least|greatest|\bcase\b|\bi?if\b|nvl|nullif|{SUMS_AND_FLOORS}", re.I),
    2: re.compile(SUMS_AND_FLOORS, re.I),
}


def wrong_readings(sql: str, policy: Policy) -> tuple[int, ...]:
    """The readings of SQL, of those before the present one, that understood a question wrongly."""
    return tuple(reading for reading in range(notation.READING) if _is_wrong(sql, reading, policy))


def was_wrong(entry: Entry, policy: Policy) -> bool:
    """Whether an entry answered a question of this database under a reading that was repaired since."""
    if entry.kind != "charge" or entry.reading >= notation.READING or entry.database != policy.name:
        return False
    suspect = SUSPECTS[entry.reading]
    return any(
        _is_wrong(text, entry.reading, policy)
        for text in texts.apart(entry.question)
        if suspect.search(text.replace("(*)", ""))
    )


def is_repaired(plan: Plan) -> bool:
    """Whether a question was read wrongly before there were forms."""
    return bool(plan.repairs) or forms.adds_finely(plan)


@lru_cache(maxsize=10_000)
def _is_wrong(text: str, reading: int, policy: Policy) -> bool:
    for sql in islice(texts.restored(text), texts.MOST_RESTORED):
        try:
            plan = parse(sql, policy)
            return (
                is_repaired(plan)
                if reading == 0
                else _meant(sql, policy, reading) != forms.meaning(plan, policy)
            )
        except QueryRefused as refusal:
            if refusal.was_answered:
                return True
    return False


def _meant(sql: str, policy: Policy, reading: int) -> str:
    return forms.meaning(parse(sql, policy, reading=reading), policy)
