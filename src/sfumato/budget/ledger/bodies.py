"""One body of data, one ledger: which ledger some data were first charged to, as far as this user remembers.

A policy that is copied and given a ledger of its own would have a second budget for the same people. So the
state folder of whoever runs it notes, for every place of data, the ledger that its first charge was written
to, and another one is refused: until the owner names the first, or says in writing that these are other
people. Other users and other machines are not seen, nor that a file was moved, copied or linked elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.budget.ledger.witness import state_folder
from sfumato.errors import LedgerError

if TYPE_CHECKING:
    from pathlib import Path

FACTS = {"ledger": str, "place": str, "policy": str, "apart": dict}  # what a note holds


@dataclass(slots=True)
class DataBody:
    """Data at a place, and the ledger that is charged for them."""

    data: Path
    ledger: str  # what it is called for ever
    place: str  # where it is
    policy: str  # the file through which it was opened
    instead_of: frozenset[str] = frozenset()  # ledgers that were lost, and counted as spent in this one
    _is_noted: bool = field(default=False, init=False)

    @property
    def note(self) -> Path | None:
        """The file that remembers it; None if there is no state folder."""
        folder = state_folder()
        name = hashlib.sha256(os.fsencode(self.data.resolve())).hexdigest()
        return None if folder is None else folder / f"data-{name[:40]}.json"

    @property
    def other(self) -> dict[str, Any] | None:
        """What is noted of another ledger that the data were charged to; None if there is none."""
        noted = self._noted()
        ours = noted is None or noted["ledger"] in (self.ledger, *self.instead_of)
        return None if noted is None or ours or self.ledger in noted["apart"] else noted

    def check(self) -> None:
        """Refuse a second budget for the same data."""
        if (other := self.other) is not None:
            raise LedgerError(
                f"the data at {self.data} were first charged to another ledger, {other['place']} (policy "
                f"{other['policy']}). A second ledger would give the same people a second budget. "
                f"Nothing is charged or answered. Name it in {self.policy}: [budget] ledger = ...; or, "
                "if the data are about other people now, record that: sfumato budget "
                f"{self.policy} --other-people WHY"
            )

    def claim(self) -> None:
        """Note this ledger before its first charge, if no other is; else refuse.

        The note is made whole and by one of all who try at once; only then is it looked at.
        """
        if self._is_noted or (note := self.note) is None:
            return
        facts = {"ledger": self.ledger, "place": self.place, "policy": self.policy, "apart": {}}
        noted = self._noted()
        if noted is None or noted["ledger"] in self.instead_of:
            self._write(note, facts, is_first=noted is None)
        self.check()
        self._is_noted = True

    def go_on(self) -> None:
        """Note a ledger that was charged before: by a version that did not note it, so it is not refused."""
        if self.other is not None:
            self.part("it was charged before this was noted")
        self.claim()

    def part(self, why: str) -> None:
        """Note that the other ledger was about other people."""
        note, other = self.note, self.other
        if note is not None and other is not None:
            self._write(note, {**other, "apart": {**other["apart"], self.ledger: why}})

    def forget(self) -> None:
        """Remove what is remembered: for who makes up new data, such as the demo."""
        if (note := self.note) is not None:
            note.unlink(missing_ok=True)

    def _noted(self) -> dict[str, Any] | None:
        note = self.note
        try:
            text = b"" if note is None else note.read_bytes()
        except OSError:
            return None
        try:
            noted: dict[str, Any] = json.loads(text) if text else {}
            known = not noted or all(isinstance(noted[name], kind) for name, kind in FACTS.items())
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            raise LedgerError(
                f"{note}, which records the ledger that {self.data} was charged to, cannot be read. Nothing "
                "is charged or answered. If this is the only ledger for these data, remove that file."
            )
        return noted or None

    def _write(self, note: Path, noted: dict[str, Any], *, is_first: bool = False) -> None:
        """Whole or not at all; without a state folder that can be written, nothing is remembered."""
        fresh = note.with_name(f"{note.name}.{os.getpid()}-{threading.get_ident()}")
        try:
            note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text(json.dumps(noted), encoding="utf-8")
            fresh.chmod(0o600)
            if is_first:
                with suppress(FileExistsError):  # somebody else was first
                    os.link(fresh, note)
                fresh.unlink()
            else:
                fresh.replace(note)
        except OSError:
            return
