"""Where the tables of a policy are opened: in place, or as the copy that stands for them.

With `prepared = "auto"` a copy is written and put in place only when the owner says that the data changed, by
the owner's own process. Nothing that analysts can see depends on whether there is one: what is refused is
refused by the tables, deadlines are those of the tables, and the answers are the same integers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import SourceError
from sfumato.sources.duckdb import Prepared, original_of, tables_of
from sfumato.sources.files import states_of
from sfumato.sources.running import all_of_them

if TYPE_CHECKING:
    from sfumato.exact.secret import Secret
    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.made import MadeKind
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.sources.answers import Answer, Compiled
    from sfumato.sources.files import State
    from sfumato.sources.halt import Halt
    from sfumato.sources.running import Choose
    from sfumato.sources.schema import Found
    from sfumato.sources.source import Source


def source_of(policy: Policy) -> Source:
    """Where the tables of a policy live, or the copy that stands for them."""
    if policy.automatic:
        return Automatic(policy)
    return tables_of(policy) if policy.prepared is None else Prepared(policy, original_of(policy))


class Automatic:
    """The tables; and beside them a copy that runs what they are asked, if one was there that fits."""

    def __init__(self, policy: Policy) -> None:
        assert policy.prepared is not None
        self._tables, self._name = tables_of(policy), str(policy.prepared)
        self._seen = states_of([self._name])
        self._running: Source = self._tables
        with suppress(SourceError):  # there is none, or not of these data: the tables do without
            self._running = Prepared(policy, original_of(policy))
        self.path, self.copy = self._tables.path, self._running.copy

    def schema(self) -> dict[str, tuple[Found, ...]]:
        return self._tables.schema()

    def check(self, policy: Policy) -> None:
        self._tables.check(policy)

    def scales(self) -> dict[tuple[str, str], int]:
        return self._tables.scales()

    def keys(self, table: str, column: str, kind: Kind, most: int | None = None) -> tuple[Value, ...]:
        return self._tables.keys(table, column, kind, most)

    def counted(
        self, table: str, columns: tuple[tuple[str, Kind], ...]
    ) -> tuple[tuple[tuple[Value, ...], int], ...]:
        return self._tables.counted(table, columns)

    def alike(self, table: str, column: str) -> int:
        return self._tables.alike(table, column)

    def listed(self, table: str, columns: tuple[tuple[str, MadeKind], ...]) -> list[tuple[Any, ...]]:
        return self._tables.listed(table, columns)

    def compile(self, plan: Plan) -> Compiled:
        return self._running.compile(plan)

    def run(
        self, compiled: Compiled, choose: Choose = all_of_them, halt: Halt | None = None
    ) -> Secret[Answer]:
        return self._running.run(compiled, choose, halt)

    def check_version(self) -> None:
        """Refuse as the tables do; and open anew when another copy was put in place."""
        self._tables.check_version()
        if states_of([self._name]) != self._seen:
            raise SourceError(
                f"{self.path} was recorded as changed since it was opened. Nothing more was charged. Open it "
                "again."
            )

    def state(self) -> State:
        return self._tables.state()

    def close(self) -> None:
        self._tables.close()
        self._running.close()
