"""Whose unit a charge is about, as a ledger knows it: which charges count for whom, and what must not change.

A charge lists its units. For a promise about some units only those charges count that are about one of them;
what was charged before units were noted, or under a policy that mixes them, counts for every one. So does
what another database charged: it is about the same people, and calls them otherwise.
"""

from __future__ import annotations

from typing import Any

from sfumato.errors import LedgerError

CHANGED = ("table", "before", "now", "number")  # what is told of a table that says otherwise
Units = tuple[tuple[str, ...], ...]  # (kind, table, column); none: every one


def counts(body: dict[str, Any], whose: str, units: Units) -> bool:
    """Whether a charge counts for these units of a database."""
    about = body.get("unit") or ()
    return not units or not about or body.get("database") != whose or meets(about, units)


def meets(some: Any, others: Any) -> bool:
    """Whether two lists of units share one, or one of them is of every unit."""
    return not some or not others or bool({tuple(each) for each in some} & {tuple(each) for each in others})


def is_kept(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a table still says whose its rows are as it did; more may be called the same, never less.

    Where nothing is called the same, everything counts for everybody.
    """
    alike = "same" not in now or set(before.get("same", ())) <= set(now["same"])
    return alike and all(before.get(part) == now.get(part) for part in ("kind", "by"))


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
    if before["kind"] == now["kind"] and before.get("by") == now.get("by"):
        lost = ", ".join(sorted(set(before["same"]) - set(now.get("same", ()))))
        was, written = f"{lost} was the same unit as that of {table}", f"name {lost} beside it under [units]"
    else:
        was = f"[tables.{table}] said {told(before)}, and says {told(now)} now"
        written = f"write {told(before).partition(',')[0]} there"
    return LedgerError(
        f"when something was last charged about {table}, {was} (entry {number} of {ledger}). What was spent "
        "would be added up as if it were about the same. Nothing is charged or answered. To go on, "
        f"{written}. If this is meant to be another promise, write a second policy with a name of its own "
        f'(name = "{name}-2" at its top) and the same ledger: what both spend counts together, and each says '
        "whom it is about."
    )
