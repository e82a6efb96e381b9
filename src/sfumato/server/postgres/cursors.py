"""Cursors: DECLARE, FETCH, MOVE and CLOSE, for clients that want rows piece by piece.

A release is whole when it is stored, so a cursor only says which of its rows are next. It is asked, and
charged, at the first FETCH.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

_DECLARE = re.compile(
    r"""DECLARE\s+("(?:[^"]|"")+"|\w+)\s+((?:(?:BINARY|ASENSITIVE|INSENSITIVE|NO\s+SCROLL|SCROLL)\s+)*)CURSOR\s+
        (?:(WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(.+)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_STEP = re.compile(
    r"""(?:FETCH|MOVE)\s+
        (?:(?P<word>NEXT|PRIOR|FIRST|LAST|ALL)\s+|(?:(?P<way>FORWARD|BACKWARD|ABSOLUTE|RELATIVE)\s+)?
           (?:(?P<far>[-+]?\d{1,18}|ALL)\s+)?)
        (?:(?:FROM|IN)\s+)?(?P<name>"(?:[^"]|"")+"|[A-Za-z_]\w*)""",
    re.IGNORECASE | re.VERBOSE,
)
Way = Literal["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"]
_WAYS: dict[str, Way] = {way: way for way in get_args(Way)}
_WORDS: dict[str, tuple[Way, int | None]] = {
    "NEXT": ("FORWARD", 1),
    "PRIOR": ("BACKWARD", 1),
    "FIRST": ("ABSOLUTE", 1),
    "LAST": ("ABSOLUTE", -1),
    "ALL": ("FORWARD", None),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A cursor as DECLARE says it."""

    name: str
    sql: str
    is_binary: bool
    is_held: bool  # beyond its transaction


def declared(sql: str) -> Declared | None:
    """What DECLARE says, if it can be read.

    >>> declared('DECLARE "my rows" NO SCROLL CURSOR WITH HOLD FOR SELECT 1')
    Declared(name='my rows', sql='SELECT 1', is_binary=False, is_held=True)
    """
    if (found := _DECLARE.fullmatch(sql)) is None:
        return None
    held = (found[3] or "").upper() == "WITH"
    return Declared(named(found[1]), found[4], "BINARY" in found[2].upper(), held)


def named(word: str) -> str:
    """A name as it is meant: in small letters, unless it stands in quotes."""
    return word[1:-1].replace('""', '"') if word.startswith('"') else word.lower()


@dataclass(frozen=True, slots=True)
class CursorMove:
    """Which rows FETCH or MOVE wants of which cursor."""

    name: str
    way: Way
    far: int | None  # None: to the end

    def rows(self, at: int, count: int) -> tuple[Sequence[int], int]:
        """The rows, counted from 0, and where the cursor then stands: before row 0 at 0, on it at 1, ...

        >>> CursorMove("c", "FORWARD", 2).rows(0, 3), CursorMove("c", "FORWARD", 2).rows(2, 3)
        ((range(0, 2), 2), (range(2, 3), 4))
        >>> CursorMove("c", "BACKWARD", None).rows(4, 3)
        (range(2, -1, -1), 0)
        """
        end, far = count + 1, self.far
        if self.way in ("FORWARD", "BACKWARD") and far != 0:
            onward = (self.way == "FORWARD") == (far is None or far > 0)
            many = end if far is None else abs(far)
            if onward:
                return range(at, min(at + many, count)), min(at + many, end)
            return range(at - 2, max(at - 2 - many, -1), -1), max(at - many, 0)
        to = at + (far or 0)
        if self.way == "ABSOLUTE":
            to = far or 0
            to = to if to >= 0 else end + to
        to = max(0, min(to, end))
        return range(to - 1, to if 0 < to < end else to - 1), to


def step(sql: str) -> CursorMove | None:
    """What FETCH or MOVE says, if it can be read.

    >>> step("FETCH FORWARD 100 FROM c"), step("FETCH LAST c")
    (CursorMove(name='c', way='FORWARD', far=100), CursorMove(name='c', way='ABSOLUTE', far=-1))
    >>> step('MOVE "c"')
    CursorMove(name='c', way='FORWARD', far=1)
    """
    if (found := _STEP.fullmatch(sql)) is None:
        return None
    word, way, far, name = found["word"], found["way"], found["far"] or "1", named(found["name"])
    if word is not None:
        return CursorMove(name, *_WORDS[word.upper()])
    if (way or "").upper() in ("ABSOLUTE", "RELATIVE") and (found["far"] or "ALL").upper() == "ALL":
        return None
    return CursorMove(name, _WAYS[(way or "FORWARD").upper()], None if far.upper() == "ALL" else int(far))
