"""Shares: what an analyst or a group may spend of a database's budget.

A share is an allowance *within* the total, never beside it: shares may add up to more than the total, and
whoever colludes can together spend the total and no more (law 4). One that is filled up every day, week or
month promises a new allowance, not new privacy: what it spends is gone from the total for ever.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

SECOND = 10**6
PERIODS = ("day", "week", "month")
LONGEST_NAME = 100  # letters of a name
TOGETHER = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")
LATEST = 250_000_000_000  # seconds since 1970: the year 9892, where calendars nearly end


@dataclass(frozen=True, slots=True)
class Share:
    """An allowance for `name`, or for each member of the group `name` together."""

    name: str
    allowance: Guarantee
    every: str | None = None  # "day", "week", "month": filled up then, by UTC; None: never
    members: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For the ledger."""
        kind = "rho" if self.allowance.epsilon is None else "epsilon"
        return {
            "name": self.name,
            kind: str(self.allowance.amount),
            "delta": str(self.allowance.delta),
            "every": self.every,
            "members": list(self.members),
        }


def check(share: Share, total: Guarantee, known: Collection[str] = ()) -> None:
    """Refuse what cannot be meant; `known` are the names that there are already."""
    for name in (share.name, *share.members):
        check_name(name, known)
    if share.name in share.members:
        raise InvalidParameter("members", share.name, "a group cannot have the name of one of its members")
    if share.allowance.currency != total.currency:
        raise InvalidParameter("allowance", share.allowance, f"this ledger counts {total.currency}")
    if share.allowance.delta and not total.delta:
        raise InvalidParameter("delta", share.allowance.delta, "this budget has no delta. Leave it out")
    if share.every is not None and share.every not in PERIODS:
        raise InvalidParameter("every", share.every, f"take one of {', '.join(PERIODS)}")


def check_printable(name: str) -> None:
    """Refuse a name that is none, or that could steer the terminal of whoever reads it."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise InvalidParameter("name", repr(name), f"use at most {LONGEST_NAME} printable characters")


def check_name(name: str, known: Collection[str] = ()) -> None:
    """Refuse a new name that looks like another one: whoever reads a list of names could not tell them apart.

    Letters are of one script, blanks are single and inside, and everything is in its usual form. A name that
    is known already stays what it is: somebody has it.

    >>> [check_name(name) for name in ("Ana Lucía", "ana+lab@example.org", "O'Brien", "山田 アナ")]
    [None, None, None, None]
    >>> check_name("alice ")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sfumato.errors.InvalidParameter: name = 'alice ' cannot be used: it could be confused with another ...
    """
    check_printable(name)
    if name in known:
        return
    usual = " ".join(unicodedata.normalize("NFKC", name).split())
    if usual != name:
        raise InvalidParameter(
            "name", ascii(name), f"it could be confused with another name: write {usual!r}"
        )
    for letter in name:
        if not (letter.isascii() or unicodedata.category(letter)[0] in "LM"):
            told = f"remove {letter!a}: use letters, digits, spaces, and - _ . @ +"
            raise InvalidParameter("name", ascii(name), f"it could be confused with another name: {told}")
    if len(scripts := sorted({_script(letter) for letter in name} - {""})) > 1:
        told = f"it mixes scripts ({', '.join(scripts)}): use only one of them"
        raise InvalidParameter("name", ascii(name), f"it could be confused with another name: {told}")


def _script(letter: str) -> str:
    """The script of a letter, by its name; Chinese, Japanese and Korean are written together."""
    if not letter.isalpha():
        return ""
    first = re.split("[ -]", unicodedata.name(letter, "UNKNOWN"))[0]
    return "CJK" if first in TOGETHER else first


def current(bodies: Iterable[dict[str, Any]]) -> dict[str, Share]:
    """The shares in force: of several for one name the last."""
    found: dict[str, Share] = {}
    for body in bodies:
        allowance = Guarantee(
            Fraction(body["epsilon"]) if "epsilon" in body else None,
            Fraction(body["delta"]),
            Fraction(body["rho"]) if "rho" in body else None,
        )
        found[body["name"]] = Share(body["name"], allowance, body["every"], tuple(body["members"]))
    return found


def of(analyst: str, shares: dict[str, Share]) -> Share | None:
    """The share an analyst spends: her own, unless it was revoked, or that of the first group she is in."""
    own = shares.get(analyst)
    if own is not None and not own.members and own.allowance.amount:
        return own
    group = next((share for share in shares.values() if analyst in share.members), None)
    return group or (own if own is not None and not own.members else None)


def began(share: Share, now: int) -> int:
    """When the period began that `now` lies in."""
    if share.every is None:
        return 0
    day = _when(now).replace(hour=0, minute=0, second=0, microsecond=0)
    back = {"day": 0, "week": day.weekday(), "month": day.day - 1}[share.every]
    return int((day - datetime.timedelta(days=back)).timestamp()) * SECOND


def next_refresh(share: Share, now: int) -> str:
    """The day on which it is filled up; empty if never."""
    if share.every is None:
        return ""
    start = _when(began(share, now))
    days = {"day": 1, "week": 7, "month": 32}[share.every]
    later = start + datetime.timedelta(days=days)
    return (later.replace(day=1) if share.every == "month" else later).date().isoformat()


def _when(now: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(min(max(now // SECOND, 0), LATEST), datetime.UTC)
