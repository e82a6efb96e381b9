"""Statements that an engine runs again: it plans each of them once.

For a small table an engine needs longer to plan what a question comes to than to run it. The same question at
another price is the same text, so a cursor is kept when it is done, with the plans of what it ran twice.
Nothing of an answer is in them: the tables are read each time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.exact.forks import STILL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_PLANNED = 64  # statements of one cursor
MOST_IDLE = 8  # cursors of one engine that wait to be used again
LONGEST_PLANNED = 100_000  # characters of a statement that is kept


class EngineConnection(Protocol):
    """What is used of an engine's connection."""

    def begin(self) -> Any: ...
    def execute(self, query: str, parameters: Any = None) -> Any: ...
    def fetchmany(self, size: int = 1) -> list[Any]: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class RepeatingCursor:
    """A cursor that has a statement planned when it comes for the second time."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._planned: OrderedDict[str, str] = OrderedDict()  # by their texts, what they are called; or ""
        self._count = 0
        self.begin, self.fetchmany = connection.begin, connection.fetchmany
        self.interrupt, self.close = connection.interrupt, connection.close

    def execute(self, query: str, parameters: Any = None) -> Any:
        """Run a statement; one without parameters that ran before is not planned again."""
        if parameters is not None or len(query) > LONGEST_PLANNED:
            return self._connection.execute(query, parameters)
        name = self._planned.get(query)
        if name is None:
            self._note(query, "")
            return self._connection.execute(query)
        if not name:
            self._count += 1
            name = f"sfumato_{self._count}"
            self._connection.execute(f"PREPARE {name} AS {query}")
        self._note(query, name)
        return self._connection.execute(f"EXECUTE {name}")

    def _note(self, query: str, name: str) -> None:
        self._planned[query] = name
        self._planned.move_to_end(query)
        if len(self._planned) > MOST_PLANNED:
            _, forgotten = self._planned.popitem(last=False)
            if forgotten:
                self._connection.execute(f"DEALLOCATE {forgotten}")


class IdleCursors:
    """The cursors of an engine that wait to be used again."""

    def __init__(self) -> None:
        self._idle: list[RepeatingCursor] = []
        self._process, self._closed = os.getpid(), 0
        self._inherited: list[RepeatingCursor] = []  # to close a parent's engine in a child could hang

    @contextmanager
    def lent(self, make: Callable[[], EngineConnection]) -> Iterator[RepeatingCursor]:
        """The one that was used last, or a new one; what fails is not used again."""
        with STILL:
            if self._process != os.getpid():
                self._inherited += self._idle
                self._idle, self._process = [], os.getpid()
            cursor = self._idle.pop() if self._idle else RepeatingCursor(make())
            closed = self._closed
        yield cursor
        with STILL:
            if closed == self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(cursor)
            else:
                cursor.close()

    def close(self) -> None:
        """Close all of them, before their engine is closed; those that are out close when they come back."""
        self._closed += 1
        while self._idle:
            self._idle.pop().close()
