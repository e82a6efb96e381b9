"""Questions of tools for names and types alone: SELECT * FROM t LIMIT 0, WHERE 1 = 0.

They have no rows, whatever the tables hold: the answer is made of the policy, and nothing is paid for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.held import held_in
from sfumato.queries.made import Made, MadeColumn, MadeSelect
from sfumato.queries.plan import Outer, Plan
from sfumato.queries.reading import Reader
from sfumato.queries.rows import FromReader
from sfumato.queries.scopes import items_of, spelled_out
from sfumato.queries.shape import added_up, apart
from sfumato.queries.syntax import Node, bare
from sfumato.queries.trees import altered

if TYPE_CHECKING:
    from sfumato.queries.syntax import Text

_READ = frozenset({"from_", "joins", "where", "expressions", "limit", "with_"})


def probed(select: Node, text: Text) -> Plan | None:
    """The plan of a SELECT of rows that surely has none; None if it is another one."""
    if select.kind != "Select" or any(value for name, value in select.arguments.items() if name not in _READ):
        return None
    if not (_takes_none(select) or _is_never(select)) or any(
        True for e in select.nodes() for _ in added_up(e)
    ):
        return None
    without = altered(select, limit=None, where=None if _is_never(select) else select.get("where"))
    rows = FromReader(text, Reader(text))
    relation, scope = rows.of(without, {})
    items = items_of(spelled_out(without, scope.names(), text), scope, text)
    domains = [rows.item(node, scope).domain for _, node in items]
    names = apart([name for name, _ in items], ("",), is_last=True)
    shown = tuple(
        MadeColumn(name, domain.kind, held=held_in(domain))
        for name, domain in zip(names, domains, strict=True)
    )
    nothing = tuple(Made("null", "null") for _ in shown)
    return Plan(relation, (), (), (), outer=Outer(MadeSelect(shown, nothing, (), limit=0), is_empty=True))


def _takes_none(select: Node) -> bool:
    limit = select.get("limit")
    return limit is not None and limit.get("expression") is not None and limit.expression.text() == "0"


def _is_never(select: Node) -> bool:
    """Whether WHERE is FALSE, or compares two numbers so that it is."""
    clause = select.get("where")
    if clause is None:
        return False
    where = bare(clause.this)
    if where.kind == "Boolean":
        return not where.arguments.get("this")
    if where.kind != "EQ":
        return False
    a, b = bare(where.this), bare(where.expression)
    both = a.kind == b.kind == "Literal" and not (
        a.arguments.get("is_string") or b.arguments.get("is_string")
    )
    return both and a.text().isdecimal() and b.text().isdecimal() and int(a.text()) != int(b.text())
