"""Running the statements of a plan in an engine: what comes back, and what is held of it at a time.

Where groups are private they are chosen first, and only the chosen ones are measured: in the same
transaction, so of the same data, and by numbers that reach the engine as values, never as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.sources.answers import arrange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from sfumato.queries.plan import Plan
    from sfumato.sources.answers import Answer, EngineStatements

    Counted = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

Choose = Callable[[tuple[int, ...]], Sequence[int]]  # of private groups, by how many units count for each
COUNTS = 1 << 16  # of groups that are chosen from at a time
BATCH = 1 << 14  # rows that Python holds at a time


class EngineCursor(Protocol):
    """What is used of an engine."""

    def begin(self) -> Any: ...
    def execute(self, query: str, parameters: Any = None) -> Any: ...
    def fetchmany(self, size: int = 1) -> list[Any]: ...


def all_of_them(counts: tuple[int, ...]) -> Sequence[int]:
    """Every private group: whoever looks at all of them must not show any."""
    return (1,) * len(counts)


def measured(cursor: EngineCursor, printed: EngineStatements) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows of every query in turn, of which Python holds few at a time."""
    for sql in printed.measuring:
        cursor.execute(sql)
        yield itertools.chain.from_iterable(iter(partial(cursor.fetchmany, BATCH), []))


def counted(cursor: EngineCursor, printed: EngineStatements) -> Counted:
    """The numbers of private groups, and how many units count for each; what follows sees the same data."""
    cursor.begin()
    for sql in printed.making:
        cursor.execute(sql)
    found = cursor.execute(printed.counting).fetchnumpy()  # numbers of 64 bits: none is rounded
    codes, counts = np.asarray(found["code"]), np.asarray(found["s"])
    order = np.argsort(codes)
    return codes[order], counts[order]


def choice(found: Counted, choose: Choose) -> dict[int, int]:
    """The numbers of the groups that are shown, and their counts."""
    chosen: dict[int, int] = {}
    for start in range(0, len(found[0]), COUNTS):
        codes, counts = (each[start : start + COUNTS].tolist() for each in found)
        chosen |= choice_of(codes, counts, choose)
    return chosen


def choice_of(codes: Sequence[int], counts: Sequence[int], choose: Choose) -> dict[int, int]:
    """The same of groups that are few."""
    shown = choose(tuple(counts))
    return {code: n for code, n, is_shown in zip(codes, counts, shown, strict=True) if is_shown}


def answered(cursor: EngineCursor, plan: Plan, printed: EngineStatements, chosen: dict[int, int]) -> Answer:
    """What is measured in the chosen groups. If there are none, which is shown, nothing is."""
    if not chosen:
        return arrange(plan, [()] * len(printed.measuring), [])
    named = cursor.execute(printed.naming, [list(chosen)]).fetchall()
    groups = sorted(((tuple(group), code) for code, *group in named), key=repr)
    cursor.execute(printed.choosing, [[code for _, code in groups]])
    return arrange(plan, measured(cursor, printed), [(group, chosen[code]) for group, code in groups])
