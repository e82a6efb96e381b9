"""What an engine is to the rest of the house.

Whoever adds an engine writes one file with a class like this, and a `Dialect` of one-line texts. What is to
be computed comes as a `Work`, in which every bound is already an operator; the engine prints it, runs it and
seals what comes back. Contract tests (`tests/plans/test_reference.py`) compare it with the reference engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.exact.secret import Secret
    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.made import MadeKind
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.sources.answers import Answer, Compiled
    from sfumato.sources.copy import Copy
    from sfumato.sources.files import State
    from sfumato.sources.halt import Halt
    from sfumato.sources.running import Choose
    from sfumato.sources.schema import Found


class Source(Protocol):
    """Where tables live. All but `run` is public: it reads no row of anybody's."""

    path: Path
    copy: Copy | None  # what `sfumato prepare` stored beside the columns, if these are prepared tables

    def schema(self) -> dict[str, tuple[Found, ...]]:
        """Tables and their columns. Never a row, never a count."""

    def check(self, policy: Policy) -> None:
        """Every declared table and column exists with the declared type, or a SourceError says which not."""

    def scales(self) -> dict[tuple[str, str], int]:
        """How many decimals the columns have that are no doubles."""

    def keys(self, table: str, column: str, kind: Kind, most: int | None = None) -> tuple[Value, ...]:
        """The distinct values of a column of a *public* table, sorted; so many of them at most."""

    def counted(
        self, table: str, columns: tuple[tuple[str, Kind], ...]
    ) -> tuple[tuple[tuple[Value, ...], int], ...]:
        """The combinations of columns of a *public* table, and how many rows have each; none has a NULL."""

    def alike(self, table: str, column: str) -> int:
        """How many rows of a *public* table have the same value of a column, at most."""

    def listed(self, table: str, columns: tuple[tuple[str, MadeKind], ...]) -> list[tuple[Any, ...]]:
        """The rows of a *public* table."""

    def compile(self, plan: Plan) -> Compiled:
        """A plan as the engine will get it: printed by us, before anything is charged."""

    def run(self, compiled: Compiled, choose: Choose = ..., halt: Halt | None = None) -> Secret[Answer]:
        """The exact answer, sealed; whatever goes wrong in the engine looks the same from outside.

        Where groups are private, `choose` is told how many units count for each, and says which are shown.
        """

    def check_version(self) -> None:
        """Refuse to answer from data that are known to be of yesterday."""

    def state(self) -> State:
        """The version of the data: changes whenever they are written, as far as it can be told."""

    def close(self) -> None:
        """Let go of the engine; whoever asks again opens it anew."""
