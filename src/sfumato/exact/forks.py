"""What must be at rest when the process forks.

A fork copies memory while other threads are in the middle of things: a lock they held stays locked for ever
in the child, and a database library's bookkeeping is copied half done. SQLite goes further: a connection that
lives on in both processes makes each believe in locks the other holds, and charges get lost. So whoever
enters such a library does it under `STILL`, and whoever keeps something open that must not be copied puts
itself into `RESTING`: a fork takes the lock, lets everybody in there close, and parent and child go on.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

STILL = threading.RLock()
_child = threading.Event()  # set in a process that was forked


class Rests(Protocol):
    """Something that can close what must not be copied, and opens it again when it is needed."""

    def rest(self) -> None:
        """Close it now; called under `STILL`."""


RESTING: WeakSet[Rests] = WeakSet()


def is_child() -> bool:
    """Whether this process was forked from one that had already loaded us."""
    return _child.is_set()


def _before() -> None:
    STILL.acquire()
    for each in list(RESTING):
        each.rest()


def _in_child() -> None:
    _child.set()
    STILL.release()


os.register_at_fork(before=_before, after_in_parent=STILL.release, after_in_child=_in_child)
