"""Readings of SQL that were wrong once: their answers stay in the history, and answer nothing any more.

A question whose meaning was repaired is a new one. What was stored for it before is found by no name; here it
is recognised by its text, so that the history can say what it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.errors import QueryRefused
from sfumato.queries import forms, notation
from sfumato.queries.sql import parse

if TYPE_CHECKING:
    from sfumato.budget import Entry
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy

VERSION = "0.2.0"  # in which readings were repaired
WRONG = f"answered under a reading repaired in version {VERSION}"
BATCH = re.compile(r"batch of \d+: ")
# what a text holds if it may be one of them, by the reading it was asked under: to read all of them again
# would take long
SUSPECTS = {
    0: re.compile(r"left\s+(outer\s+)?join|not\b|length|cast|round|floor|ceil|::|//|[-+*]|\bsum\b|avg", re.I),
    1: re.compile(r"coalesce|ifnull|least|greatest|\bcase\b|\bif\b|floor|ceil", re.I),
}


def wrong_readings(plan: Plan) -> tuple[int, ...]:
    """The readings of SQL, of those before the present one, that understood a question wrongly."""
    wrong = ((0, bool(plan.repairs)), (1, forms.read_anew(plan)))
    return tuple(reading for reading, is_wrong in wrong if is_wrong)


def was_wrong(entry: Entry, policy: Policy) -> bool:
    """Whether an entry answered a question of this database under a reading that was repaired since."""
    if entry.kind != "charge" or entry.reading >= notation.READING or entry.database != policy.name:
        return False
    question = entry.question
    texts = question.partition(": ")[2].split("; ") if BATCH.match(question) else [question]
    suspected = (text for text in texts if SUSPECTS[entry.reading].search(text.replace("(*)", "")))
    return any(entry.reading in _wrong_readings(text, policy) for text in suspected)


@lru_cache(maxsize=10_000)
def _wrong_readings(text: str, policy: Policy) -> tuple[int, ...]:
    try:
        return wrong_readings(parse(text, policy))
    except QueryRefused:
        return ()
