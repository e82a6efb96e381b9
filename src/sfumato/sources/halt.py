"""How a run of an engine is stopped from outside: by another thread, or by Ctrl-C.

An engine forgets an interrupt that comes between two statements. So whoever stops a run says so until the run
has ended (`push`), and a run looks before every statement whether it was stopped.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
OFTEN = 0.02  # seconds between two interrupts


class Halt:
    """Stops the engines of one run."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """Whether the run is to end."""
        return self._set.is_set()

    def push(self) -> None:
        """Stop whatever runs now, and let nothing more begin."""
        self._set.set()
        with self._lock:
            for interrupt in self._interrupts:
                interrupt()

    @contextmanager
    def over(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Something that can be interrupted, for as long as it runs."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    def check(self) -> None:
        """End here if the run was stopped."""
        if self.is_set:
            raise InterruptedError


def heeding(interrupt: Callable[[], None], act: Callable[[], T]) -> T:
    """Do something that takes long and does not hear of Ctrl-C; on Ctrl-C, interrupt it.

    Signals reach the main thread alone, between two lines of Python: so there it is done by another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return act()
    pool = ThreadPoolExecutor(1, "heeding")
    doing = pool.submit(act)
    pool.shutdown(wait=False)
    try:
        return doing.result()
    except KeyboardInterrupt:
        while not doing.done():
            interrupt()
            wait([doing], OFTEN)
        raise
