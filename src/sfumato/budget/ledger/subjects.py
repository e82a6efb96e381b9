"""Whose unit a charge is about, as a ledger knows it: which charges count for whom, and what must not change.

A charge lists its units: all that were called the same when it was made. A promise lists those that it is not
about: all that its policy names in other lists. A charge counts for it unless all its units are among these.
So what nobody knows any more counts: units of tables that were renamed or left out, what was charged before
units were noted or under a policy that mixes them, and what another database charged, which is about the same
people and may call them otherwise.
"""

from __future__ import annotations

from typing import Any

from sfumato.errors import LedgerError

CHANGED = ("table", "before", "now", "number")  # what is told of a table that says otherwise
Units = tuple[tuple[str, ...], ...]  # (kind, table, column)


def counts(charge: dict[str, Any], whose: str, apart: Units) -> bool:
    """Whether a charge counts for a promise of a database that is not about some units."""
    about = {tuple(unit) for unit in charge.get("unit") or ()}
    return not about or charge.get("database") != whose or not about <= {tuple(unit) for unit in apart}


def is_kept(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a table still says whose its rows are as it did."""
    return all(before.get(part) == now.get(part) for part in ("kind", "by"))


def told(form: dict[str, Any]) -> str:
    """How a table says whose its rows are, as a policy says it."""
    if form["kind"] == "public":
        return "public = true"
    if form["kind"] == "row":
        return 'unit = "row"'
    steps = [f"{step[0]} -> {'.'.join(step[1:])}" if step[1:] else step[0] for step in form["by"]]
    first, *rest = steps
    return f'unit = "{first}"' + "".join(f", and there {each}" for each in rest)


def changed(
    ledger: str, name: str, *, table: str, before: dict[str, Any], now: dict[str, Any], number: int
) -> LedgerError:
    """A table that says otherwise whose its rows are than when something was charged about it."""
    was = f"[tables.{table}] declared {told(before)}, and now declares {told(now)}"
    written = f"write {told(before).partition(',')[0]} there"
    return LedgerError(
        f"at the last charge about {table}, {was} (entry {number} of {ledger}). What was spent "
        "would be added up as if it were about the same units. Nothing is charged or answered. To continue, "
        f"{written}. If the change is intended, write a second policy with its own name "
        f'(name = "{name}-2" at its top) and the same ledger: the spending of both adds up, and each states '
        "whom it is about."
    )
