"""LIKE and regular expressions, in time that grows with the product of both lengths at most.

Python's own matcher tries everything, and an analyst could write an expression that takes it years. This one
keeps the set of places in the pattern that a text can have reached (Thompson, 1968), so there is nothing to
try again.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_PATTERN = 500  # letters of a regular expression
_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "s": str.isspace,
    "w": lambda letter: letter.isalnum() or letter == "_",
    "D": lambda letter: not letter.isdecimal(),
    "S": lambda letter: not letter.isspace(),
    "W": lambda letter: not (letter.isalnum() or letter == "_"),
}


@dataclass(frozen=True, slots=True)
class _Step:
    """One place in a pattern: a letter that fits, or where to go on without one."""

    fits: Callable[[str], bool] | None = None
    to: tuple[int, ...] = ()
    bound: str = ""  # "^" or "$"


def like(text: str, pattern: str, escape: str = "\\", *, ignore_case: bool = False) -> bool:
    """LIKE.

    >>> like("patients", "pat%s"), like("pg_class", "pg/_%", "/"), like("pgxclass", "pg/_%", "/")
    (True, True, False)
    """
    if ignore_case:
        text, pattern = text.lower(), pattern.lower()
    steps: list[_Step] = []
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        place += 1
        if escape and letter == escape and place < len(pattern):
            letter = pattern[place]
            place += 1
            steps.append(_Step(letter.__eq__))
        elif letter == "%":
            here = len(steps)
            steps += [_Step(to=(here + 1, here + 2)), _Step(lambda _: True, (here,))]
        elif letter == "_":
            steps.append(_Step(lambda _: True))
        else:
            steps.append(_Step(letter.__eq__))
    return _run(steps, text, whole=True)


def matches(text: str, pattern: str, *, ignore_case: bool = False) -> bool:
    """Whether a regular expression is found in a text.

    >>> matches("patients", "^(pat.*|x)$"), matches("a" * 100 + "c", "(a|a)*(a*)*b")
    (True, False)
    """
    if len(pattern) > LONGEST_PATTERN:
        raise _unreadable()
    if ignore_case:
        text, pattern = text.lower(), pattern.lower()
    return _run(_compiled(pattern), text, whole=False)


def _unreadable() -> Unsupported:
    return Unsupported("a regular expression of this form is not supported", "Write LIKE '%name%'.")


@functools.lru_cache(256)
def _compiled(pattern: str) -> list[_Step]:
    reader = _PatternReader(pattern)
    steps = reader.choice()
    if reader.place != len(pattern):
        raise _unreadable()
    return steps


class _PatternReader:
    """Reads an expression into steps; places in a list of steps are relative to its beginning."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self.place, self._depth = pattern, 0, 0

    def _peek(self) -> str:
        return self._pattern[self.place : self.place + 1]

    def choice(self) -> list[_Step]:
        parts = [self._chain()]
        while self._peek() == "|":
            self.place += 1
            parts.append(self._chain())
        steps = parts[-1]
        for part in reversed(parts[:-1]):
            after = len(part) + 2
            steps = [
                _Step(to=(1, after)),
                *_moved(part, 1),
                _Step(to=(after + len(steps),)),
                *_moved(steps, after),
            ]
        return steps

    def _chain(self) -> list[_Step]:
        steps: list[_Step] = []
        while self._peek() not in ("", "|", ")"):
            part = self._repeated()
            steps += _moved(part, len(steps))
        return steps

    def _repeated(self) -> list[_Step]:
        part = self._atom()
        while (sign := self._peek()) and sign in "*+?":
            self.place += 1
            size = len(part)
            if sign == "+":
                part = [*part, _Step(to=(0, size + 1))]
            elif sign == "?":
                part = [_Step(to=(1, size + 1)), *_moved(part, 1)]
            else:
                part = [_Step(to=(1, size + 2)), *_moved(part, 1), _Step(to=(0,))]
            if len(part) > 4 * LONGEST_PATTERN:
                raise _unreadable()
        return part

    def _atom(self) -> list[_Step]:
        letter = self._peek()
        self.place += 1
        if letter in "^$":
            return [_Step(bound=letter)]
        if letter == ".":
            return [_Step(lambda _: True)]
        if letter == "(":
            self._depth += 1
            if self._pattern.startswith("?:", self.place):
                self.place += 2
            if self._depth > 50:
                raise _unreadable()
            inner = self.choice()
            if self._peek() != ")":
                raise _unreadable()
            self.place += 1
            self._depth -= 1
            return inner
        if letter == "[":
            return [_Step(self._set())]
        if letter == "\\":
            escaped = self._peek()
            self.place += 1
            if not escaped or (escaped.isalnum() and escaped not in _CLASSES):
                raise _unreadable()
            return [_Step(_CLASSES.get(escaped) or escaped.__eq__)]
        if letter in "*+?{}":
            raise _unreadable()
        return [_Step(letter.__eq__)]

    def _set(self) -> Callable[[str], bool]:
        turned = self._peek() == "^"
        self.place += turned
        letters: set[str] = set()
        spans: list[tuple[str, str]] = []
        first = True
        while (letter := self._peek()) != "]" or first:
            if not letter or self._pattern.startswith("[:", self.place):
                raise _unreadable()
            self.place += 1
            first = False
            if letter == "\\":
                letter = self._peek()
                self.place += 1
            if self._peek() == "-" and self._pattern[self.place + 1 : self.place + 2] not in ("]", ""):
                spans.append((letter, self._pattern[self.place + 1]))
                self.place += 2
            else:
                letters.add(letter)
        self.place += 1
        return lambda each: (each in letters or any(a <= each <= b for a, b in spans)) != turned


def _moved(steps: list[_Step], by: int) -> list[_Step]:
    """The same steps, further back in a list. A letter without a place to go goes on to the next one."""
    return [_Step(each.fits, tuple(place + by for place in each.to), each.bound) for each in steps]


def _run(steps: list[_Step], text: str, *, whole: bool) -> bool:
    """Whether a text gets through: as a whole, or from any place in it to any other."""
    end = len(steps)

    def spread(places: set[int], at: int) -> set[int]:
        """All places that can be reached without a letter."""
        reached, waiting = set(places), list(places)
        while waiting:
            place = waiting.pop()
            if place == end:
                continue
            step = steps[place]
            if step.fits is not None:
                continue
            if step.bound and at != (0 if step.bound == "^" else len(text)):
                continue
            for each in step.to or (place + 1,):
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        return reached

    reached = spread({0}, 0)
    for at, letter in enumerate(text, 1):
        if end in reached and not whole:
            return True
        moved: set[int] = set() if whole else {0}
        for place in reached:
            if place < end and (fits := steps[place].fits) is not None and fits(letter):
                moved |= set(steps[place].to) or {place + 1}
        if not moved:
            return False
        reached = spread(moved, at)
    return end in reached
