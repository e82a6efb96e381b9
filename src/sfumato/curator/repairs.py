"""Readings of SQL that were wrong once: their answers stay in the history, and answer nothing any more.

A question whose meaning was repaired is a new one. What was stored for it before is found by no name; here it
is recognised by its text, so that the history can say what it is: read as it was then, it has another name
than today.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from sfumato.curator import texts
from sfumato.errors import QueryRefused
from sfumato.queries import forms, notation
from sfumato.queries.precision import adds_finely, averages_finely
from sfumato.queries.statement import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Entry
    from sfumato.curator.names import Names
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.statement import Statement

ONE_DIALECT = 3  # readings before this one read all texts in one dialect
VERSION = "0.2.0"  # in which readings were repaired
WRONG = f"answered under a reading repaired in version {VERSION}"
# what a text holds if it may be one of them, by the reading it was asked under: to read all of them again
# would take long
LONG_NUMBERS = r"\d[\d.]{15}|[-+*]"  # a product may have more digits than its parts
AVERAGES = r"select\b.*\bselect\b.*\bavg\b|\bavg\b.*\bselect\b"
SUMS_AND_FLOORS = rf"{LONG_NUMBERS}|floor|ceil|select\b.*\bselect\b.*(sum|avg)|(sum|avg)\b.*\bselect\b"
STARRED = re.compile(r"\*\s*(exclude|except|replace|rename)\b", re.I)  # what stands behind * was not heeded
SUSPECTS = {
    0: re.compile(
        rf"{LONG_NUMBERS}|left\s+(outer\s+)?join|not\b|length|cast|round|floor|ceil|::|//|\bsum\b|avg",
        re.I,
    ),
    1: re.compile(rf"coalesce|ifnull|least|greatest|\bcase\b|\bi?if\b|nvl|nullif|{SUMS_AND_FLOORS}", re.I),
    2: re.compile(SUMS_AND_FLOORS, re.I),
    3: re.compile(rf"{LONG_NUMBERS}|{AVERAGES}", re.I),
    4: re.compile(AVERAGES, re.I),
}


def wrong_readings(statement: Statement, policy: Policy) -> tuple[int, ...]:
    """The readings of SQL, of those before the present one, that understood a question wrongly.

    Until the third one every question was read in one dialect, also those that came in PostgreSQL's.
    """
    sql, own, dialect = statement.sql, forms.meaning(statement.plan(policy), policy), statement.dialect
    before: set[int] = set()
    if dialect != "duckdb":
        with suppress(QueryRefused):  # if it is, it was never answered
            is_same = _meant(sql, policy, notation.READING) == own
            before = {each for each in range(ONE_DIALECT) if not is_same or _is_wrong(sql, each, policy)}
    else:
        before = {each for each in range(ONE_DIALECT) if _is_wrong(sql, each, policy)}
    later = range(ONE_DIALECT, notation.READING)
    return (*sorted(before), *(each for each in later if _is_wrong(sql, each, policy, dialect)))


def was_wrong(entry: Entry, names: Names) -> bool:
    """Whether an entry answered a question of this database under a reading that was repaired since."""
    if entry.kind != "charge" or entry.reading >= notation.READING or entry.database != names.policy.name:
        return False
    if not entry.redeemed:  # nothing was ever answered
        return False
    suspect, parts = SUSPECTS[entry.reading], texts.apart(entry.question)
    key = entry.key if len(parts) == 1 and entry.reading else ""
    return any(
        _is_wrong(text, entry.reading, names.policy, entry.dialect, key, names)
        for text in parts
        if suspect.search(text.replace("(*)", "")) or STARRED.search(text)
    )


def told(receipts: Sequence[int]) -> str:
    """That answers to a question were to another one."""
    numbers = ", ".join(str(each) for each in receipts)
    which = f"receipt{'s' if len(receipts) > 1 else ''} {numbers}"
    return (
        f"This was answered before ({which}), but its SQL was read wrongly then (repaired in version "
        f"{VERSION}). That answer is not shown again; a new one is charged."
    )


def is_repaired(plan: Plan) -> bool:
    """Whether a question was read wrongly before there were forms."""
    return bool(plan.repairs) or adds_finely(plan) or averages_finely(plan)


@lru_cache(maxsize=10_000)
def _is_wrong(
    text: str,
    reading: int,
    policy: Policy,
    dialect: str = "duckdb",
    key: str = "",
    names: Names | None = None,
) -> bool:
    """Whether a text was read wrongly; where the end of a comment is lost, the text that had this name."""
    told = list(islice(texts.restored(text), texts.MOST_RESTORED))
    found = (
        told if len(told) == 1 or not key or names is None else _known_by(key, told, reading, dialect, names)
    ) or told
    for sql in found:
        starred = STARRED.search(sql) is not None
        try:
            plan = read(sql, dialect).plan(policy)
            if reading == 0 and (is_repaired(plan) or not starred):
                return is_repaired(plan)
            return _meant(sql, policy, reading or 1, dialect) != forms.meaning(plan, policy)
        except QueryRefused as refusal:
            if refusal.was_answered or starred:
                return True
    return False


def _known_by(key: str, told: list[str], reading: int, dialect: str, names: Names) -> list[str]:
    """The first of several texts that had a name, by an earlier reading."""
    for sql in told:
        with suppress(QueryRefused):
            plan = read(sql, dialect).plan(names.policy, reading=reading)
            if key in names.keys(plan, None, reading):
                return [sql]
    return []


def _meant(sql: str, policy: Policy, reading: int, dialect: str = "duckdb") -> str:
    """What a text meant."""
    return forms.meaning(read(sql, dialect).plan(policy, reading=reading), policy)
