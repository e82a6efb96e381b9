"""FROM as people write it, as joins with conditions.

Commas become JOIN ... ON, with the conditions that WHERE has for them; NATURAL becomes USING; RIGHT becomes
LEFT; brackets are opened, or become a subquery if they have a name. Nothing changes what is asked: inner
joins may stand in any order, and here tables of people come first, each beside one of the same people, so
that a public table never multiplies rows before it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.queries.syntax import Node, Text, bare

if TYPE_CHECKING:
    from collections.abc import Iterator

NESTED = "joins inside of a join are not supported here"
ONE_BY_ONE = "Write the joins one after another: a JOIN b ON ... JOIN c ON ..."
MOST_PATHS = 50  # parts of OR that are looked through for what they have in common


def as_joins(select: Node, named: dict[str, Node], text: Text) -> Node:
    """The same SELECT with all of its joins written out."""
    clause = select.get("from_")
    if clause is None:
        return select
    first, own = clause.this, clause.this.nodes("joins")
    while _is_bracket(first):
        first = first.this
        own = [*own, *first.nodes("joins")]
    listed = list(_flat(clause.this, select.nodes("joins")))
    nested = _check(listed, [*own, *select.nodes("joins")], text)
    written = _Written(text, named)
    is_open = listed[0][0] is clause.this or bool(clause.this.nodes("joins"))
    is_written = (
        is_open
        and not nested
        and all(join is None or (not is_comma(join) and _is_plain(join)) for _, join in listed)
    )
    if is_written and all(node.kind != "Subquery" or _is_query(node.this) for node, _ in listed):
        return select
    items = [(written.item(node), join) for node, join in listed]
    where = None if select.get("where") is None else select["where"].this
    if nested or any(join is not None and is_comma(join) for _, join in items):
        return written.commas(_starred(select, items, text), clause, items, where)
    begin, *others = items
    joins = []
    before = [begin[0]]
    for node, join in others:
        assert join is not None
        made = written.join(node, join, before)
        if made.text("side").upper() == "RIGHT":
            if len(before) > 1 or before[0].nodes("joins"):
                text.refuse(join, "RIGHT JOIN after another join is not supported", "Write it as LEFT JOIN.")
            select = _starred(select, items, text)
            before[0], made = node, Node("Join", {**made.arguments, "this": before[0], "side": "LEFT"})
            begin = (node, None)
        before.append(node)
        joins.append(made)
    changed = {**select.arguments, "from_": Node("From", {"this": begin[0]}, clause.start, clause.end)}
    return Node("Select", {**changed, "joins": joins}, select.start, select.end)


def _check(listed: list[tuple[Node, Node | None]], tops: list[Node], text: Text) -> bool:
    """Whether there are joins inside of joined brackets; of what kinds there are none is refused."""
    joins = [join for _, join in listed if join is not None]
    for join in joins:
        kind, method = join.text("kind").upper(), join.text("method").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
            told = f"{method if method not in ('', 'NATURAL') else kind} JOIN"
            advice = "Write JOIN ... ON, LEFT JOIN ... ON, or WHERE x IN (SELECT y FROM ...)."
            text.refuse(join.this, f"{told} is not supported", advice)
    nested = any(len(list(_flat(join.this, []))) > 1 for join in tops)
    if nested and any(join.text("side") for join in joins):
        text.refuse(joins[0].this, NESTED, ONE_BY_ONE)
    return nested


def _starred(select: Node, items: list[tuple[Node, Node | None]], text: Text) -> Node:
    """The same with * written out for each table, in the order in which they were written."""
    if not any(each.kind == "Star" for each in select.nodes()):
        return select
    found: list[Node] = []
    for each in select.nodes():
        if each.kind != "Star":
            found.append(each)
            continue
        is_changed = text.reading > 4 and any(each.arguments.values())  # by EXCLUDE, REPLACE, RENAME
        if is_changed or any(
            join is not None and (join.nodes("using") or join.text("method")) for _, join in items
        ):
            text.refuse(each, "* is not supported beside these joins", "Name the columns.")
        for node, _ in items:
            table = Node("Identifier", {"this": node.alias or node.name}, each.start, each.end)
            found.append(Node("Column", {"this": each, "table": table}, each.start, each.end))
    return Node("Select", {**select.arguments, "expressions": found}, select.start, select.end)


def _flat(first: Node, joins: list[Node]) -> Iterator[tuple[Node, Node | None]]:
    """Everything in FROM with the join that brings it, brackets opened."""
    own = first.nodes("joins")
    if _is_bracket(first):
        yield from _flat(first.this, [])
    else:
        kept = {name: value for name, value in first.arguments.items() if name != "joins"}
        yield (Node(first.kind, kept, first.start, first.end) if own else first), None
    for join in (*own, *(each for each in joins if not any(each is one for one in own))):
        for node, inner in _flat(join.this, []):
            yield node, join if inner is None else inner


def _is_bracket(node: Node) -> bool:
    return node.kind == "Subquery" and node.this.kind in ("Table", "Subquery") and node.get("alias") is None


def is_comma(join: Node) -> bool:
    """Whether nothing is said of how rows belong together."""
    said = join.get("on") is not None or join.nodes("using") or join.text("method")
    return not said and not join.text("side") and join.text("kind").upper() in ("", "CROSS")


def _is_query(node: Node) -> bool:
    return node.kind in ("Select", "Union", "Intersect", "Except", "Values")


def _is_plain(join: Node) -> bool:
    return join.text("side").upper() != "RIGHT" and not join.text("method")


@dataclass(frozen=True, slots=True)
class _Written:
    text: Text
    named: dict[str, Node]

    def item(self, node: Node) -> Node:
        """Something in FROM; brackets with a name are a subquery of all columns."""
        if node.kind == "Subquery" and node.this.kind in ("Table", "Subquery"):
            inner = node.this
            star = Node("Star", {}, inner.start, inner.end)
            joins = inner.nodes("joins")
            bared = Node(
                inner.kind, {k: v for k, v in inner.arguments.items() if k != "joins"}, inner.start, inner.end
            )
            select = Node(
                "Select", {"expressions": [star], "from_": Node("From", {"this": bared}), "joins": joins}
            )
            return Node("Subquery", {**node.arguments, "this": select}, node.start, node.end)
        return node

    def join(self, node: Node, join: Node, before: list[Node]) -> Node:
        """A join with its condition said by ON or USING."""
        arguments = {**join.arguments, "this": node}
        if join.text("method").upper() == "NATURAL":
            known = [each.lower() for one in before for each in self.columns(one)]
            common = [each for each in self.columns(node) if each.lower() in known]
            if not common:
                self.text.refuse(
                    node, "the tables have no column of the same name", "Write: JOIN b ON a.x = b.x"
                )
            arguments["using"] = [Node("Identifier", {"this": each}, node.start, node.end) for each in common]
            del arguments["method"]
        return Node("Join", arguments, join.start, join.end)

    def columns(self, node: Node) -> list[str]:
        """The columns of something in FROM, as far as its text tells."""
        alias = node.get("alias")
        given = [] if alias is None else [each.name for each in alias.nodes("columns")]
        if node.kind == "Table" and node.this.kind == "Identifier":
            inner = None if node.arguments.get("in_schema") else self.named.get(node.name.lower())
            if inner is not None:
                back = {each.text(): each["node"] for each in inner.nodes("names")}
                found = [each.name for each in inner.nodes("columns")]
                found += _Written(self.text, back).of_query(inner.this)[len(found) :]
            else:
                table = self.text.policy.table(node.name)
                found = [] if table is None else [column.name for column in table.columns]
        elif node.kind == "Subquery":
            found = self.of_query(node.this)
        else:
            found = []
        return given + found[len(given) :]

    def of_query(self, node: Node) -> list[str]:
        while node.kind in ("Subquery", "Paren"):
            node = node.this
        if node.kind in ("Union", "Intersect", "Except"):
            return self.of_query(node.this)
        found: list[str] = []
        for item in node.nodes():
            if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
                clause, star = node.get("from_"), item if item.kind == "Star" else item.this
                for each, _ in _flat(clause.this, node.nodes("joins")) if clause is not None else ():
                    found += [name for name in self.columns(each) if name not in found]
                found += [each.alias for each in star.nodes("rename")]
            else:
                found.append(item.alias if item.kind == "Alias" else item.name)
        return found

    # Commas -------------------------------------------------------------------------------------------

    def commas(
        self, select: Node, clause: Node, items: list[tuple[Node, Node | None]], where: Node | None
    ) -> Node:
        """A list of tables with conditions in WHERE, as a chain of joins."""
        conditions = [] if where is None else [part for each in _conjuncts(where) for part in _common(each)]
        later: list[Node] = []
        nodes: list[Node] = []
        for node, join in items:
            if join is not None and join.text("side"):
                later.append(self.join(node, join, nodes))
                continue
            nodes.append(node)
            if join is None or is_comma(join):
                continue
            made = self.join(node, join, nodes[:-1])
            for each in made.nodes("using"):
                having = [one for one in nodes if each.name.lower() in map(str.lower, self.columns(one))]
                if not any(one is node for one in having):
                    known = [name for one in nodes for name in self.columns(one)]
                    self.text.unknown("column", each.name, known, each)
                sides = [_column(one, each) for one in (having[0], node)]
                conditions.append(
                    Node("EQ", {"this": sides[0], "expression": sides[1]}, each.start, each.end)
                )
            if (on := made.get("on")) is not None:
                conditions += _conjuncts(on)
        uses = [self.used(each, nodes) for each in conditions]
        first_one = self.first(nodes)
        joined = {first_one}
        used: set[int] = set()  # conditions that stand in a join
        joins: list[Node] = []
        while len(joined) < len(nodes):
            here = self.next(nodes, conditions, uses, joined)
            ons = [
                i
                for i, each in enumerate(uses)
                if i not in used
                and each is not None
                and here in each
                and each <= joined | {here}
                and len(each) > 1
            ]
            if not ons:
                told = "Add to WHERE: a.person = b.person; for a public table, a.x = b.x"
                self.text.refuse(nodes[here], "this table is not joined to the others", told)
            used |= set(ons)
            parts = [conditions[i] for i in ons]
            whole = parts[0] if len(parts) == 1 else Node("And", {"expressions": parts})
            joins.append(Node("Join", {"this": nodes[here], "on": whole}, nodes[here].start, nodes[here].end))
            joined.add(here)
        rest = [each for i, each in enumerate(conditions) if i not in used]
        changed = {name: value for name, value in select.arguments.items() if name != "where"}
        changed |= {"from_": Node("From", {"this": nodes[first_one]}, clause.start, clause.end)}
        if rest:
            whole = rest[0] if len(rest) == 1 else Node("And", {"expressions": rest})
            changed["where"] = Node("Where", {"this": whole})
        return Node("Select", {**changed, "joins": [*joins, *later]}, select.start, select.end)

    def used(self, condition: Node, nodes: list[Node]) -> frozenset[int] | None:
        """Which tables a condition is about; None if it has a subquery."""
        found: set[int] = set()
        for each in condition.walk():
            if each.kind in ("Select", "Subquery", "Exists"):
                return None
            if each.kind != "Column" or each.this.kind != "Identifier":
                continue
            of = each.get("table")
            for i, node in enumerate(nodes):
                alias = node.alias or node.name
                known = [name.lower() for name in self.columns(node)]
                if (of is None and each.name.lower() in known) or (
                    of is not None and of.name.lower() == alias.lower()
                ):
                    found.add(i)
        return frozenset(found)

    def is_public(self, node: Node) -> bool:
        in_schema = node.arguments.get("in_schema")
        if node.kind != "Table" or (node.name.lower() in self.named and not in_schema):
            return False
        table = self.text.policy.table(node.name)
        return table is not None and table.public

    def first(self, nodes: list[Node]) -> int:
        return next((i for i, node in enumerate(nodes) if not self.is_public(node)), 0)

    def next(
        self, nodes: list[Node], conditions: list[Node], uses: list[frozenset[int] | None], joined: set[int]
    ) -> int:
        """The table that is joined next: one of people if there is one, else the one that most is said of."""

        def links(i: int) -> int:
            return sum(
                each is not None and i in each and bool(each & joined) and each <= joined | {i}
                for each, condition in zip(uses, conditions, strict=True)
                if condition.kind == "EQ"
            )

        left = [i for i in range(len(nodes)) if i not in joined]
        linked = [i for i in left if links(i)]
        if not linked:
            return left[0]
        return min(linked, key=lambda i: (self.is_public(nodes[i]), -links(i), i))


def _column(node: Node, name: Node) -> Node:
    table = Node("Identifier", {"this": node.alias or node.name}, name.start, name.end)
    return Node("Column", {"this": name, "table": table}, name.start, name.end)


def _conjuncts(node: Node) -> list[Node]:
    node = bare(node)
    return [part for each in node.nodes() for part in _conjuncts(each)] if node.kind == "And" else [node]


def _common(condition: Node) -> list[Node]:
    """A condition, and the equalities that all parts of an OR have in common: they hold whenever it does."""
    if condition.kind != "Or" or len(condition.nodes()) > MOST_PATHS:
        return [condition]
    parts = [{_spelled(each): each for each in _conjuncts(part)} for part in condition.nodes()]
    common = [
        each
        for spelled, each in parts[0].items()
        if each.kind == "EQ" and all(spelled in other for other in parts[1:])
    ]
    return [*common, condition]


def _spelled(node: Node) -> str:
    """One text for nodes that say the same."""
    if node.kind == "Paren":
        return _spelled(node.this)
    if node.kind == "EQ":
        return " = ".join(sorted(_spelled(each) for each in (node.this, node.expression)))
    if node.kind == "Column":
        of = node.get("table")
        return f"{'' if of is None else of.name.lower()}.{node.name.lower()}"
    told = []
    for name, value in sorted(node.arguments.items()):
        if isinstance(value, list):
            told.append(f"{name}={[_spelled(one) for one in value]}")
        elif value:
            told.append(f"{name}={_spelled(value) if isinstance(value, Node) else value}")
    return f"{node.kind}({','.join(told)})"
