"""Tables of an engine as plain Python, and a plan carried out on them: beside what the engine makes of it.

Both get the same `Work`, with MD5 as its hash. The engine runs it with several threads, the reference in the
order in which it is handed the rows, which tests shuffle: neither may depend on that.
"""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.neighbours import Neighbourhood

from sfumato.exact.secret import unseal
from sfumato.sources.answers import Compiled
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.lower import lower
from sfumato.sources.printing import quoted, statements
from sfumato.sources.reference import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    from tests.neighbours import Member, Star

    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.sources.answers import Answer
    from sfumato.sources.copy import Copy
    from sfumato.sources.duckdb import DuckDB
    from sfumato.sources.reference import Tables

    Mutant = Callable[[Any], Any]

INFINITE = "CASE WHEN {0} > {1} THEN CAST('inf' AS DOUBLE) ELSE CAST('-inf' AS DOUBLE) END"
# how values that Python has no type for are fetched
READ = {
    "DATE": f"CASE WHEN ISFINITE({{0}}) THEN NULL WHEN {{0}} IS NOT NULL THEN"
    f" {INFINITE.format('{0}', 'DATE ' + chr(39) + '2000-01-01' + chr(39))} END,"
    " CASE WHEN ISFINITE({0}) THEN DATE_DIFF('day', DATE '1970-01-01', {0}) END",
    "TIMESTAMP": f"CASE WHEN ISFINITE({{0}}) THEN NULL WHEN {{0}} IS NOT NULL THEN"
    f" {INFINITE.format('{0}', 'TIMESTAMP ' + chr(39) + '2000-01-01' + chr(39))} END,"
    " CASE WHEN ISFINITE({0}) THEN EPOCH_US({0}) END",
    "DECIMAL": "NULL, CAST({0} AS DOUBLE)",
    "FLOAT": "NULL, CAST({0} AS DOUBLE)",
    "UUID": "NULL, CAST({0} AS VARCHAR)",
    "ENUM": "NULL, CAST({0} AS VARCHAR)",
}


def tables_of(cursor: duckdb.DuckDBPyConnection, names: list[str]) -> Tables:
    """The rows of tables, as the reference holds them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table in names:
        described = cursor.execute(f"DESCRIBE {quoted(table)}").fetchall()
        columns = [(str(name), str(kind)) for name, kind, *_ in described]
        reads = [READ.get(kind.partition("(")[0], "NULL, {0}").format(quoted(name)) for name, kind in columns]
        rows = cursor.execute(f"SELECT {', '.join(reads)} FROM {quoted(table)}").fetchall()
        found[table] = [
            {
                name: row[2 * i] if row[2 * i] is not None else row[2 * i + 1]
                for i, (name, _) in enumerate(columns)
            }
            for row in rows
        ]
    return found


def shuffled(tables: Tables, rng: random.Random) -> Tables:
    """The same rows in another order."""
    return {name: rng.sample(rows, len(rows)) for name, rows in tables.items()}


def engines(
    source: DuckDB, policy: Policy, plan: Plan, *, copy: Copy | None = None, seed: int = 1
) -> tuple[Answer, Answer]:
    """What an engine and the reference make of a plan."""
    work = lower(plan, copy, hashed="md5")
    theirs = unseal(source.run(Compiled(plan, statements(work, DUCKDB))))
    tables = tables_of(source._cursor(), [table.name for table in policy.tables])
    return theirs, answer(plan, work, shuffled(tables, random.Random(seed)))


def vectors(found: Answer) -> list[tuple[int, ...]]:
    """Its numbers."""
    return [tuple(each) for each in found.vectors]


def changed(part: Any, mutant: Mutant) -> Any:
    """A tree in which every node was shown to a mutant, from the leaves up."""
    if isinstance(part, tuple):
        return tuple(changed(each, mutant) for each in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    new = {each.name: changed(getattr(part, each.name), mutant) for each in fields(part)}
    return mutant(replace(part, **new))


class Referred(Neighbourhood):
    """Neighbours that are asked through the reference, beside the engine or alone."""

    mutant: Mutant | None = None  # what is changed in every tree; the engine is not asked then

    @cached_property
    def tables(self) -> dict[str, Tables]:
        """What was read of each database."""
        return {}

    def read(self, schema: str) -> Tables:
        """The tables of a database."""
        self._source.at(self.prefix + schema)
        if schema not in self.tables:
            listed = [table.name for table in self.policy.tables]
            self.tables[schema] = tables_of(self._source._cursor(), listed)
        return self.tables[schema]

    def _ask(self, plan: Plan, member: Member, star: Star, sql: str) -> Answer:  # noqa: ARG002
        work = lower(plan, self._source.copy, hashed="md5")
        tables = shuffled(self.read(member.schema), random.Random(f"{sql} {member.schema}"))
        if self.mutant is not None:
            return answer(plan, changed(work, self.mutant), tables)
        found = answer(plan, work, tables)
        theirs = unseal(self._source.run(Compiled(plan, statements(work, DUCKDB))))
        assert (theirs.groups, vectors(theirs)) == (found.groups, vectors(found)), (sql, member.words)
        return found
