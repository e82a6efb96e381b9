"""The access log: who asked what, when, at which door, and what came of it. Never an answer.

One JSON object a line, appended in one write, so that several workers share a file; whoever rotates it moves
it away, and the next line begins a new one. Questions stand in it as they stand in the ledger. How long
something took does not: that depends on the data (law 1).
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONGEST_LOGGED = 2000  # letters of a question that are written down
MOST_LINES = 10_000  # lines that are handed out at a time


class AccessLog:
    """The log of one database."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock
        self._file, self._inode = -1, 0
        self._opening = threading.Lock()

    def write(self, **facts: Any) -> None:
        """One line. A full disk must not stop an answer that is paid for, so it only complains."""
        moment = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        told = {"at": moment.isoformat(timespec="milliseconds"), **{k: _short(v) for k, v in facts.items()}}
        line = (json.dumps(told, ensure_ascii=True) + "\n").encode()
        try:
            os.write(self._opened(), line)
        except OSError as error:
            say("access log not written", file=self.path.name, reason=error.strerror)

    def _opened(self) -> int:
        """The file, which stays open (a process may have no handle left), until it is moved away."""
        with self._opening:
            try:
                inode = os.stat(self.path).st_ino
            except FileNotFoundError:
                inode = 0
            if self._file < 0 or inode != self._inode:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                fresh = os.open(self.path, flags, 0o600)
                if self._file >= 0:
                    os.close(self._file)
                self._file, self._inode = fresh, os.fstat(fresh).st_ino
            return self._file

    def last(self, count: int) -> list[dict[str, Any]]:
        """The last lines, oldest first."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                lines = deque(file, maxlen=max(0, min(count, MOST_LINES)))
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:  # half a line, of a disk that was full
                continue
        return found


def say(event: str, **facts: Any) -> None:
    """A line for whoever runs the server, on the standard error: structured, without questions or answers."""
    moment = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    told = {"at": moment.isoformat(timespec="milliseconds"), "event": event, "process": os.getpid(), **facts}
    sys.stderr.write(json.dumps(told) + "\n")
    sys.stderr.flush()


def _short(value: Any) -> Any:
    return (
        value
        if not isinstance(value, str) or len(value) <= LONGEST_LOGGED
        else value[:LONGEST_LOGGED] + "..."
    )
