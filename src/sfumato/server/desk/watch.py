"""Stops engines that run too long, or for somebody who was shut out, or after the server was told to stop.

An engine is interrupted at a public moment: `stop_after` times its deadline, and not before four seconds, so
that a busy machine fails no small question. The failure leaves one deadline later, at a public moment again;
until then the engine has had time to stop. That it happened at all is a fact about the data: it is written
down and counted as a late answer is, and the question is held until the owner has looked, so that nobody can
have it run again and again.

Whoever is shut out, and a server that stops, ends a question whether its engine is ready or not. Nothing is
stored, so nothing can be learned from it; its receipt stays open.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sfumato.errors import SfumatoError
from sfumato.sources.halt import OFTEN, Halt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SELDOM = 0.5  # seconds between two looks at who was shut out
SOONEST = 4.0  # seconds that every engine may take


def stopped_after(due: float, times: float) -> float:
    """How many seconds after a charge its engine is stopped: so many deadlines."""
    return max(due * times, SOONEST)


@dataclass(slots=True, eq=False)
class Running:
    """A question that was charged, and whose release is not stored."""

    who: str
    due: float  # seconds from the charge to its deadline
    times: float  # how many deadlines its engine may take
    began: float = field(default_factory=time.monotonic)
    halt: Halt = field(default_factory=Halt)
    is_ready: bool = False  # the engine is done
    left: float = 0.0  # when it left, or will
    ended: Literal["", "revoked", "stopping"] = ""
    _end: threading.Event = field(default_factory=threading.Event)

    @property
    def last(self) -> float:
        """When its engine is stopped, in seconds from the charge."""
        return stopped_after(self.due, self.times)

    @property
    def failure(self) -> float:
        """When the failure of an engine that was stopped leaves."""
        return self.last + self.due

    def end(self, why: Literal["revoked", "stopping"]) -> None:
        """End it now, whether its engine is ready or not."""
        self.ended = self.ended or why
        self._end.set()
        self.halt.push()

    def ready(self) -> float:
        """The engine is done, or has failed: after how many seconds."""
        self.is_ready = True
        return time.monotonic() - self.began

    def wait(self, seconds: float) -> None:
        """Wait until so long after the charge, unless it ends before."""
        self.left = self.began + seconds
        self._end.wait(max(0.0, self.left - time.monotonic()))

    def pause(self, seconds: float) -> None:
        """Wait until the next multiple of so long after what was waited for, unless it ended."""
        since = time.monotonic() - self.left
        self._end.wait(seconds - since % seconds)


class Watchman:
    """All questions that run in one worker for one database, and the thread that watches them."""

    def __init__(self, is_out: Callable[[str], bool]) -> None:
        self._is_out = is_out
        self._lock = threading.Lock()
        self._running: set[Running] = set()
        self._is_watched = False
        self._is_closing = False

    @contextmanager
    def over(self, running: Running) -> Iterator[None]:
        """Watch a question for as long as it runs."""
        with self._lock:
            self._running.add(running)
            if not self._is_watched:
                threading.Thread(target=self._watch, name="watch", daemon=True).start()
                self._is_watched = True
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(running)

    def close(self) -> None:
        """From now on, stop engines that are not ready at their deadline."""
        self._is_closing = True

    def end(self) -> None:
        """End all questions."""
        with self._lock:
            for each in self._running:
                each.end("stopping")

    def _watch(self) -> None:
        """For as long as anything runs."""
        looked = 0.0
        while True:
            with self._lock:
                if not self._running:
                    self._is_watched = False
                    return
                now = time.monotonic()
                for each in self._running:
                    self._look(each, now - each.began)
                names = {each.who for each in self._running if not each.ended}
            if now - looked >= SELDOM:
                looked = now
                self._end_those_out(names)
            time.sleep(OFTEN)

    def _look(self, running: Running, took: float) -> None:
        if running.ended:
            running.halt.push()
        elif not running.is_ready and self._is_closing and took > running.due:
            running.end("stopping")
        elif not running.is_ready and took > running.last:
            running.halt.push()

    def _end_those_out(self, names: set[str]) -> None:
        out = set()
        for name in names:
            with suppress(SfumatoError):  # a file of people that cannot be read shuts nobody out
                out |= {name} if self._is_out(name) else set()
        with self._lock:
            for each in self._running:
                if each.who in out:
                    each.end("revoked")
