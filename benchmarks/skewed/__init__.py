"""Tables in which few people have most of the rows, and what is asked of them.

Made from seeds, and committed before the first rule that chooses a cap for them: nothing here may be changed
to suit a rule. `shop` and `taxi` are known from before; the tables of `shapes` are scored once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

What = Literal["total", "ratio", "people"]  # counts and sums of rows; averages, shares, medians; people


@dataclass(frozen=True, slots=True)
class SkewedQuestion:
    """A question, and what kind of number it asks for."""

    name: str
    what: What
    sql: str


@dataclass(frozen=True, slots=True)
class Skewed:
    """Tables, the policy that an owner would write for them without looking, and what is asked."""

    name: str
    make: Callable[[duckdb.DuckDBPyConnection], None]
    tables: str  # of the policy, with {cap} where a cap is declared
    questions: tuple[SkewedQuestion, ...]

    def policy(self, total: str, cap: int = 10) -> str:
        """The policy, with a total and with the cap that `sfumato init` writes, or another one."""
        head = (
            f'name = "{self.name}"\n[source]\nduckdb = "{self.name}.duckdb"\n[budget]\nepsilon = "{total}"\n'
        )
        return head + self.tables.replace("{cap}", str(cap))


def load(connection: duckdb.DuckDBPyConnection, name: str, **columns: Any) -> None:
    """A table of these columns."""
    connection.register("columns_", pa.table({key: pa.array(values) for key, values in columns.items()}))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM columns_")
    connection.unregister("columns_")
