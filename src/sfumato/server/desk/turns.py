"""Who waits for what: one thing of a person at a time, and what several wait for is done once.

Everybody waits in a task of her own, so no more things wait than there are connections, and those are
limited, for a person and for everybody. Whoever stops waiting leaves the line; what runs in a thread cannot
be stopped, and keeps the turn until it is done.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable
    from concurrent.futures import Executor

T = TypeVar("T")


@dataclass(slots=True)
class _Common:
    """Something that several wait for."""

    task: asyncio.Task[Any]
    waiting: int = 0


class Turns:
    """The lines before the threads of one worker."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()  # what goes on although nobody may wait for it any more
        self._lines: dict[str, asyncio.Lock] = {}
        self._common: dict[Hashable, _Common] = {}

    def begin(self, doing: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something to its end, whoever still waits for it."""
        task = asyncio.create_task(doing)
        self.tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone

    async def take(self, who: str, pool: Executor, act: Callable[..., T], *arguments: Any) -> T:
        """Wait in somebody's line, then do something in a thread."""
        line = self._lines.setdefault(who, asyncio.Lock())
        await line.acquire()

        async def alone() -> T:
            try:
                return await asyncio.get_running_loop().run_in_executor(pool, act, *arguments)
            finally:
                line.release()

        return await asyncio.shield(self.begin(alone()))

    async def together(self, key: Hashable, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What is being done under a key, or what is begun now; it is given up when the last one leaves."""
        common = self._common.get(key)
        if common is None:
            common = self._common[key] = _Common(asyncio.create_task(act()))
        common.waiting += 1
        task: asyncio.Task[T] = common.task
        try:
            return await asyncio.shield(task)
        finally:
            common.waiting -= 1
            if not common.waiting or task.done():
                task.cancel()  # nothing, if it is done
                if self._common.get(key) is common:
                    del self._common[key]

    async def finish(self, seconds: float) -> int:
        """Wait for what is running; how much is not done after so long."""
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=seconds)
        return len(self.tasks)
