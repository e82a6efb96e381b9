"""From SQL text to a plan, by whitelist.

A `Statement` is a text that was read once: its tree, and the dialect in which it was written. Values are put
into the tree, and plans are made of it, as often as needed. `postgres` says what it means in that dialect;
`reading`, `rows` and `asking` read the tree node by node and build a `Plan` from what they know. Nothing of
the analyst's text is kept: the engine sees SQL printed from the plan (law 8). Every refusal is decided here,
from the text and the policy alone, so it is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter
from sfumato.queries import parameters
from sfumato.queries.dialects import SPELLINGS, check_doubts, doubts
from sfumato.queries.notation import READING
from sfumato.queries.postgres import inferred, translated
from sfumato.queries.rewrite import rewrite
from sfumato.queries.splitting import ask
from sfumato.queries.sql import check_text, respelled, too_deep, tree
from sfumato.queries.syntax import Missing, Node, Text, word

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from sfumato.queries.asking import Measuring
    from sfumato.queries.dialects import Doubt
    from sfumato.queries.parameters import Given
    from sfumato.queries.pgtypes import PgType
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sql import Dialect


@dataclass(frozen=True, slots=True)
class Statement:
    """A text that was read, with places for values or with values in place."""

    sql: str  # with its values, once they are in place
    written: str  # as it came: what refusals point into
    tree: Node
    dialect: Dialect = "duckdb"  # of the tree
    spelled: str = "duckdb"  # of the text as it came
    part: int | None = None  # if it stands for one of several questions of a text
    today: datetime.date | None = None  # when it was asked: what CURRENT_DATE means
    doubts: tuple[Doubt, ...] = ()  # in another dialect, what only the policy can tell

    def bound(self, values: Sequence[Given]) -> Statement:
        """The same with its values in place."""
        if not values and "$" not in self.written:
            return self
        sql = parameters.bind(self.written, values, self.dialect)
        check_text(sql)
        return replace(self, sql=sql, tree=parameters.filled(self.tree, values, self.dialect))

    def types(self, policy: Policy) -> dict[int, PgType]:
        """The types of its values, as PostgreSQL would infer them."""
        return inferred(self.tree, Text(self.written, policy))

    def plan(self, policy: Policy, measuring: Measuring = rewrite, *, reading: int = READING) -> Plan:
        """What is asked, or a refusal that says what to write instead.

        `measuring` chooses the measures of its aggregates: those that a stored release has, for example. With
        an earlier `reading` it is understood as it was then: from the first on, which was the first to be
        noted.
        """
        check_doubts(self.doubts, policy, self.written)
        text = Text(self.written, policy, self.today, reading, self.dialect)
        try:
            found = translated(self.tree, text) if self.dialect == "postgres" else self.tree
            plan = ask(found, text, measuring, self.part)
            return replace(plan, today=text.days[0]) if text.days else plan
        except Missing as missing:
            text.refuse(
                missing.node, f"{word(missing.node)} is missing an argument", "Give all of its arguments."
            )
        except RecursionError:
            raise too_deep(self.written) from None


def read(sql: str, dialect: str = "duckdb") -> Statement:
    """The one statement of a text; one in another dialect than these two becomes DuckDB's."""
    if dialect not in SPELLINGS:
        raise InvalidParameter("dialect", dialect, f"take one of: {', '.join(SPELLINGS)}")
    if dialect == "postgres":
        return Statement(sql, sql, tree(sql, "postgres"), "postgres", "postgres")
    if dialect == "duckdb":
        return Statement(sql, sql, tree(sql))
    found = respelled(sql, dialect)
    return Statement(found, found, tree(found), spelled=dialect, doubts=doubts(sql, dialect))


def parse(
    sql: str,
    policy: Policy,
    measuring: Measuring = rewrite,
    *,
    reading: int = READING,
    dialect: Dialect = "duckdb",
) -> Plan:
    """The plan of one SELECT, or a refusal that says what to write instead."""
    return read(sql, dialect).plan(policy, measuring, reading=reading)
