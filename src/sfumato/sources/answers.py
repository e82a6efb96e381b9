"""What is asked of an engine for a plan, and what comes back: integers, group by group."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sfumato.queries.measures import Selected
from sfumato.sources.lower import together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.queries.declared import Value
    from sfumato.queries.plan import Plan

    Group = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The exact answer: for every measure its cells, group by group."""

    groups: tuple[Group, ...]
    vectors: tuple[Sequence[int], ...]


@dataclass(frozen=True, slots=True)
class Sparse(Sequence[int]):
    """A long vector that is nearly everywhere zero; only what is not is held, in order."""

    size: int
    places: array[int]
    weights: array[int]

    @classmethod
    def of(cls, size: int, found: Iterable[tuple[int, int]]) -> Sparse:
        """From places and what stands there, in any order."""
        places, weights = array("q"), array("q")
        for place, weight in found:
            places.append(place)
            weights.append(weight)
        order = np.argsort(np.frombuffer(places, dtype=np.int64), kind="stable") if places else ()
        return cls(size, array("q", (places[i] for i in order)), array("q", (weights[i] for i in order)))

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, wanted: int) -> int: ...
    @overload
    def __getitem__(self, wanted: slice) -> tuple[int, ...]: ...
    def __getitem__(self, wanted: int | slice) -> int | tuple[int, ...]:
        if isinstance(wanted, int):
            return self[wanted : wanted + 1][0]
        start, stop, _ = wanted.indices(self.size)
        found = [0] * max(0, stop - start)
        for i in range(bisect_left(self.places, start), bisect_left(self.places, stop)):
            found[self.places[i] - start] += self.weights[i]
        return tuple(found)

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])


def arrange(
    plan: Plan,
    results: Iterable[Iterable[tuple[Any, ...]]],
    chosen: Sequence[tuple[Group, int]] | None = None,
) -> Answer:
    """What the queries returned, as one vector a measure; groups without rows are zero.

    `chosen` are the private groups that are shown, each with how many count for it.
    """
    groups = plan.groups if chosen is None else tuple(group for group, _ in chosen)
    counts = tuple(count for _, count in chosen or ())
    found: dict[int, Sequence[int]] = {
        i: counts for i, measure in enumerate(plan.measures) if isinstance(measure, Selected)
    }
    for measures, rows in zip(together(plan), results, strict=True):
        sizes = [plan.measures[i].cells for i in measures]
        if plan.measures[measures[0]].sparse:
            cells = sizes[0]
            weights = ((at * cells + cell, int(weight)) for at, cell, weight in rows)
            found[measures[0]] = Sparse.of(len(groups) * cells, weights)
            continue
        vectors = [[0] * (len(groups) * cells) for cells in sizes]
        for row in rows:
            start = 1
            for vector, cells in zip(vectors, sizes, strict=True):
                for c in range(cells):
                    vector[row[0] * cells + c] += int(row[start + c])
                start += cells
        found.update(zip(measures, map(tuple, vectors), strict=True))
    return Answer(groups, tuple(found[i] for i in range(len(plan.measures))))


# Queries -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineStatements:
    """What is run for a plan, in this order. Where the groups are private, these are chosen in between.

    Nothing is measured in groups that are not shown. The numbers of those that are reach the engine as the
    value of $1: their names stand in no text.
    """

    measuring: tuple[str, ...]
    making: tuple[str, ...] = ()  # which groups there are, each with a number
    counting: str = ""  # the number of each, and how many units count for it
    naming: str = ""  # what the chosen are called
    choosing: str = ""  # the chosen, in the order in which they are shown

    @property
    def texts(self) -> tuple[str, ...]:
        """One after the other."""
        first = (*self.making, self.counting, self.naming, self.choosing)
        return (*(text for text in first if text), *self.measuring)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan as an engine gets it: printed before anything is charged for it."""

    plan: Plan
    statements: EngineStatements

    @property
    def texts(self) -> tuple[str, ...]:
        """What is run, one after the other."""
        return self.statements.texts
