"""What remembers where a ledger stood, outside of it.

A ledger that was deleted, cut short or replaced by an older copy would forget what was spent. Its last entry
is therefore noted elsewhere too: in `FILE.head` beside it, and in the state folder of whoever runs it, once
by the ledger's own name, which copying back a whole folder does not reach, and once by its path, which
deleting a whole folder does not. A ledger must contain what is remembered of it. Memories may lag behind
(they are written after the commit, and not synced), never run ahead.

Each file holds the last entry and, in a ring, the heads of some thousand before it: they tell an older copy,
which lacks only what came after, from one that has gone its own way.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import LedgerError

SIZE = 512  # bytes of a mark: one sector, written at once
TRIES = 5  # to read a mark that is just being written
SLOT, RING = 96, 16_384  # bytes of a remembered head, and how many there are


@dataclass(frozen=True, slots=True)
class Mark:
    """The last entry that was seen, and what was spent up to it."""

    ledger: str
    number: int
    head: str
    spent: int
    delta_spent: int

    @property
    def text(self) -> bytes:
        """As JSON, padded to its full size."""
        facts = f'"number":{self.number},"head":"{self.head}","spent":{self.spent},"lost":{self.delta_spent}'
        return f'{{"ledger":"{self.ledger}",{facts}}}'.encode().ljust(SIZE - 1) + b"\n"


class Witness:
    """The places that remember one ledger."""

    def __init__(self, ledger: Path) -> None:
        self.beside = ledger.with_name(ledger.name + ".head")
        self._state = state_folder()
        path = hashlib.sha256(os.fsencode(ledger.resolve())).hexdigest()
        self._by_path = _hidden(self._state, f"path-{path}")
        self._by_name: Path | None = None
        self._files: dict[Path, int] = {}
        self._last: Mark | None = None

    def of_path(self) -> list[tuple[Path, Mark]]:
        """What is remembered of a ledger at this path."""
        return _marks(self.beside, self._by_path)

    def of_ledger(self, name: str) -> list[tuple[Path, Mark]]:
        """What is remembered of the ledger with this name, and what is noted at this path."""
        return _marks(self.beside, _hidden(self._state, name), self._by_path)

    def now(self) -> list[tuple[Path, Mark]]:
        """The same for the ledger that was noted last, by whoever did."""
        assert self._last is not None
        found = [(self.beside, self._last)]
        for place in (self.beside, self._by_name):
            if place is None:
                continue
            text = os.pread(self._opened(place), SIZE, 0)
            if text != self._last.text and (mark := _read(place)) is not None:
                found.append((place, mark))
        return found

    def note(self, mark: Mark) -> None:
        """Remember this mark. The state folder may be missing or closed; the place beside may not."""
        self._by_name, self._last = _hidden(self._state, mark.ledger), mark
        self._write(self.beside, mark)
        for place in (self._by_name, self._by_path):
            if place is None:
                continue
            try:
                self._write(place, mark)
            except OSError:
                self._state = self._by_name = self._by_path = None
                break

    @staticmethod
    def has_seen(place: Path, mark: Mark) -> bool:
        """Whether an entry was once the last one that was noted in this file."""
        try:
            seen = place.read_bytes()[_offset(mark.number) :][:SLOT]
        except OSError:
            return False
        return seen == _slot(mark.ledger, mark.number, mark.head)

    def forget(self) -> None:
        """Remove what is remembered of the path: for who makes up new data, such as the demo."""
        for place in (self.beside, self._by_path):
            if place is not None:
                place.unlink(missing_ok=True)

    def _write(self, place: Path, mark: Mark) -> None:
        os.pwrite(self._opened(place), mark.text, 0)
        os.pwrite(self._opened(place), _slot(mark.ledger, mark.number, mark.head), _offset(mark.number))

    def _opened(self, place: Path) -> int:
        if place in self._files and os.fstat(self._files[place]).st_nlink == 0:
            os.close(self._files.pop(place))  # somebody deleted it
        if place not in self._files:
            if place != self.beside:
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._files[place] = os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        return self._files[place]

    def rest(self) -> None:
        """Close the files; they are opened again when needed."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _offset(number: int) -> int:
    return SIZE + number % RING * SLOT


def _slot(ledger: str, number: int, head: str) -> bytes:
    return f"{number} {ledger[:8]} {head}".encode().ljust(SLOT - 1)[: SLOT - 1] + b"\n"


def state_folder() -> Path | None:
    """The folder for what programs remember of this user; None if there is none."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return None if base.startswith("~") else Path(base) / "sfumato"


def _hidden(state: Path | None, name: str) -> Path | None:
    return None if state is None else state / f"{name[:40]}.head"


def _marks(*places: Path | None) -> list[tuple[Path, Mark]]:
    found = [(place, _read(place)) for place in places if place is not None]
    return [(place, mark) for place, mark in found if mark is not None]


def _read(place: Path) -> Mark | None:
    try:
        for _ in range(TRIES):
            text = place.read_bytes()[:SIZE]
            if text.endswith(b"}\n") or text.rstrip().endswith(b"}"):
                break  # whole: not read while it was being written
        return _parsed(text, place)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _parsed(text: bytes, place: Path) -> Mark | None:
    if not text.strip(b"\0 \n"):
        return None  # made, and never written
    try:
        facts = json.loads(text)
        facts["delta_spent"] = facts.pop("lost")  # as it is written
        return Mark(**facts)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise LedgerError(
        f"{place}, which records the state of the ledger, cannot be read. Nothing is charged or answered. "
        "Restore it from a copy; or, if only this file is damaged and the ledger is the newest copy, "
        "remove it: the next process to open the ledger checks all of it and writes a new one."
    )
