"""What remembers where a ledger stood, outside of it.

A ledger that was deleted, cut short or replaced by an older copy would forget what was spent. Its last entry
is therefore noted in two more places: in `FILE.head` beside it, and in the state folder of whoever runs it,
where copying back a whole folder does not reach. A ledger must contain what any of them remembers. They may
lag behind it (they are written after the commit, and not synced), never run ahead.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import LedgerError

SIZE = 512  # bytes: one sector, written at once


@dataclass(frozen=True, slots=True)
class Mark:
    """The last entry that was seen, and what was spent up to it."""

    ledger: str
    number: int
    head: str
    spent: int
    lost: int

    @property
    def text(self) -> bytes:
        """As JSON, padded to its full size."""
        facts = f'"number":{self.number},"head":"{self.head}","spent":{self.spent},"lost":{self.lost}'
        return f'{{"ledger":"{self.ledger}",{facts}}}'.encode().ljust(SIZE - 1) + b"\n"


class Witness:
    """The places that remember one ledger."""

    def __init__(self, beside: Path) -> None:
        self.beside = beside
        self._home: Path | None = None
        self._files: dict[Path, int] = {}
        self._last: Mark | None = None

    def remembered(self, ledger: str | None = None) -> list[tuple[Path, Mark]]:
        """Every mark there is; of the state folder only that of this ledger."""
        places = [self.beside]
        if ledger is not None:
            self._home = _state() / f"{ledger[:32]}.head"
            places.append(self._home)
        return [(place, mark) for place in places if (mark := _read(place)) is not None]

    def note(self, mark: Mark) -> None:
        """Remember this mark. The state folder may be missing or closed; the place beside may not."""
        self._last = mark
        self._write(self.beside, mark)
        if self._home is not None:
            try:
                if self._home not in self._files:
                    self._home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._write(self._home, mark)
            except OSError:
                self._home = None

    @property
    def last(self) -> Mark | None:
        """What this process noted last."""
        return self._last

    def beside_now(self) -> Mark | None:
        """What whoever wrote last has noted beside the ledger."""
        text = os.pread(self._opened(self.beside), SIZE, 0)
        return (
            self._last if self._last is not None and text == self._last.text else _parsed(text, self.beside)
        )

    def _write(self, place: Path, mark: Mark) -> None:
        os.pwrite(self._opened(place), mark.text, 0)

    def _opened(self, place: Path) -> int:
        if place not in self._files:
            self._files[place] = os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        return self._files[place]

    def rest(self) -> None:
        """Close the files; they are opened again when needed."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _state() -> Path:
    """The folder for what programs remember of this user."""
    base = os.environ.get("XDG_STATE_HOME")
    return Path(base or os.path.expanduser("~/.local/state")) / "sfumato"


def _read(place: Path) -> Mark | None:
    try:
        return _parsed(place.read_bytes(), place)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _parsed(text: bytes, place: Path) -> Mark | None:
    if not text.strip(b"\0 \n"):
        return None  # made, and never written
    try:
        return Mark(**json.loads(text))
    except (ValueError, TypeError):
        pass
    raise LedgerError(
        f"{place}, which remembers where the ledger stood, cannot be read. Nothing is charged or answered. "
        "Put it back from a copy; or, if only this file is damaged, remove it and run: "
        "sfumato budget POLICY --verify"
    )
