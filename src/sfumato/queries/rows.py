"""Reading FROM, JOIN, WHERE, WITH, UNION ALL and subqueries: which rows a query is about.

Whatever is built here is separable (see `relations`): each row belongs to one unit. What would not be is
refused with the reason.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sfumato.queries import relations
from sfumato.queries.columns import domain_of
from sfumato.queries.domains import hull
from sfumato.queries.expressions import (
    Constant,
    Domain,
    Field,
    Scalar,
    Unusable,
    fields,
    parts_of,
    possible,
)
from sfumato.queries.folding import aggregated, as_rows_call_them, on_both_sides, one_fold
from sfumato.queries.joins import NESTED, ONE_BY_ONE, as_joins
from sfumato.queries.narrowing import filtered, numbers_of, unit_kind
from sfumato.queries.places import first_ones, firsts_of, windowed, windows_of
from sfumato.queries.reading import COMPARISONS, TURNED, Reader, equality, is_own, is_person
from sfumato.queries.relations import (
    Among,
    Fold,
    Folded,
    Join,
    Owner,
    Relation,
    Scan,
    Union,
    has_one_row,
    prefix,
)
from sfumato.queries.scopes import FromItem, Scope, grouped, items_of, spelled_out
from sfumato.queries.syntax import AGGREGATES, Node, Text, bare, word
from sfumato.queries.trees import aggregate_in

if TYPE_CHECKING:
    from sfumato.queries.declared import DeclaredTable

_PLAIN = ("Star", "Literal", "Column", "Identifier", "Null", "Boolean", "Alias")  # what EXISTS may select
MOST_SCANS = 24  # tables in one query, each use of a subquery counted


@dataclass(slots=True)
class FromReader:
    """Reads what a query is about."""

    text: Text
    reader: Reader
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    # Statements ---------------------------------------------------------------------------------------

    def of(self, select: Node, named: dict[str, Node]) -> tuple[Relation, Scope]:
        """The rows of a SELECT before anything is grouped, and the names it can use."""
        self.text.allow(select)
        named = self.with_names(select, named)
        select = as_joins(select, named, self.text)
        source = select.get("from_")
        if source is None:
            self.text.refuse(select, "the query has no FROM", "Write: SELECT COUNT(*) FROM YOUR_TABLE")
        self.text.allow(source)
        sources = [self.source(source.this, named)]
        relation = sources[0].relation
        for node in [*source.this.nodes("joins"), *select.nodes("joins")]:
            relation, sources = self.join(node, relation, sources, named)
        scope = Scope(tuple(sources))
        where = spelled_out(select, scope.names(), self.text).get("where")
        if where is not None:
            self.text.allow(where)
            relation = self.where(where.this, relation, scope, named)
        return relation, scope

    def with_names(self, select: Node, named: dict[str, Node]) -> dict[str, Node]:
        """The subqueries that can be named: those of WITH, each seeing the ones before it."""
        clause = select.get("with_")
        if clause is None:
            return named
        self.text.allow(clause)
        named = dict(named)
        for each in clause.nodes():
            self.text.allow(each)
            alias = each.get("alias")
            assert alias is not None
            self.text.allow(alias, above=True)
            body = Node(each.this.kind, dict(each.this.arguments), each.this.start, each.this.end)
            facts = {"this": body, "names": _names(named), "columns": alias.nodes("columns")}
            named[alias.name.lower()] = Node("Named", facts)  # type: ignore[arg-type]  # nodes and lists
        return named

    def source(self, node: Node, named: dict[str, Node]) -> FromItem:
        """A table, a named subquery or a subquery in FROM, with its columns as they are called here."""
        alias = node.get("alias")
        return self.renamed(self.rows_of(node, named), [] if alias is None else alias.nodes("columns"), node)

    def renamed(self, item: FromItem, given: list[Node], node: Node) -> FromItem:
        """The same with other names of its columns: AS t (a, b)."""
        if not given:
            return item
        if len(given) > len(item.columns):
            most = len(item.columns)
            told = f"Give {most} names." if most > 1 else "Give one name."
            self.text.refuse(node, "there are more names than columns", told)
        names = [each.name for each in given] + list(item.columns)[len(given) :]
        if len({name.lower() for name in names}) < len(names):
            self.text.refuse(node, "two columns have the same name", "Give each another name.")
        return replace(item, columns=dict(zip(names, item.columns.values(), strict=True)))

    def rows_of(self, node: Node, named: dict[str, Node]) -> FromItem:
        if node.kind == "Subquery":
            self.text.allow(node)
            if node.get("alias") is not None:
                self.text.allow(node["alias"], above=True)
            return self.subquery(node.this, node.alias, named)
        if node.nodes("joins"):
            self.text.refuse(node, NESTED, ONE_BY_ONE)
        if node.kind != "Table" or node.this.kind != "Identifier":
            self.text.refuse(node, "FROM must name tables of the policy", "Name a table or a subquery.")
        self.text.allow(node)
        if node.get("alias") is not None:
            self.text.allow(node["alias"], above=True)
        alias = node.alias or node.name
        inner = None if node.arguments.get("in_schema") else named.get(node.name.lower())
        if inner is not None:
            found = self.subquery(inner.this, alias, _back(inner))
            return self.renamed(found, inner.nodes("columns"), node)
        table = self.text.policy.table(node.name)
        if table is None:
            known = [*(each.name for each in self.text.policy.tables), *named]
            self.text.unknown("table", node.name, known, node.this)
        return self.scan(table, alias, node)

    def scan(self, table: DeclaredTable, alias: str, node: Node) -> FromItem:
        """All declared columns of a table."""
        number = self.number(node)
        owner = _owner(table, self.text)
        relation = Scan(number, table.name, owner, table.rows_per_person, table.public)
        columns: dict[str, Scalar] = {}
        for column in table.columns:
            own = column.name == table.unit and not table.through
            name = relations.UNIT if own else column.name
            unit: Literal["own", "refers", ""] = "own" if own else ""
            if not own and self.text.policy.names_person(table, column.name):
                unit = "refers"
            domain, origin = domain_of(column, self.text.reading), (table.name, column.name)
            if table.public and column.kind == "text" and column.keys is None and self.text.reading > 4:
                domain = replace(domain, listed=origin)
            columns[column.name] = Field(f"t{number}.{name}", domain, unit, origin)
        return FromItem(alias, columns, relation)

    def number(self, node: Node) -> int:
        """A new number for a relation."""
        number = next(self.numbers)
        if number >= MOST_SCANS:
            self.text.refuse(node, "the query reads too many tables", f"Stay below {MOST_SCANS}.")
        return number

    # Conditions ---------------------------------------------------------------------------------------

    def where(self, node: Node, relation: Relation, scope: Scope, named: dict[str, Node]) -> Relation:
        """The rows for which a condition holds; parts with a subquery become relations of their own."""
        kept: list[Node] = []
        for part in _conjuncts(node):
            inner = bare(part)
            negated = inner.kind == "Not"
            inner = bare(inner.this) if negated else inner
            if inner.kind == "In" and inner.get("query") is not None:
                self.text.allow(inner)
                relation = self.among(inner, relation, scope, named, negated)
            elif inner.kind == "Exists":
                relation = self.exists(inner, relation, scope, named, negated)
            else:
                kept.append(part)
        for found in filter(None, map(aggregate_in, kept)):
            told = f"{word(found)} cannot stand in WHERE, which picks rows before they are counted"
            self.text.refuse(found, told, "Put the condition into HAVING.")
        conditions = [self.reader.condition(part, scope) for part in kept]
        return filtered(relation, self.reader.all_of(node, conditions, "and")) if conditions else relation

    def among(
        self, node: Node, relation: Relation, scope: Scope, named: dict[str, Node], negated: bool
    ) -> Relation:
        """x IN (SELECT y ...): of the same person, or of a public table."""
        value = self.reader.operand(node.this, scope)
        query = node["query"]
        other = self.subquery(query.this if query.kind == "Subquery" else query, "", named)
        if len(other.columns) != 1:
            self.text.refuse(node, "the subquery of IN has several columns", "Select one column in it.")
        (other_value,) = other.columns.values()
        if other.relation.public:
            try:
                hull([value, other_value])
            except Unusable as reason:
                self.text.unusable(reason, node)
            if negated:
                self.reader.repaired.add("not in")
            return Among(relation, value, other.relation, other_value, negated)
        if self.refers((value, other_value)) and not is_own(
            value
        ):  # what a reference finds is the same person's
            return self.among_own(node, relation, value, other.relation, other_value, negated)
        if not (is_person(value) and is_person(other_value)):
            self.text.refuse(
                node,
                "whether a row is kept would depend on rows of other people",
                "Both columns must be the one that names the person: person IN (SELECT person FROM ...)",
            )
        if unit_kind(relation) != unit_kind(other.relation):
            told = f"one table identifies people by {value.domain.kind}, one by {other_value.domain.kind}"
            self.text.refuse(node, told, "They cannot be compared; ask about each table separately.")
        return Among(relation, None, other.relation, None, negated)

    def among_own(
        self,
        node: Node,
        relation: Relation,
        value: Scalar,
        other: Relation,
        other_value: Scalar,
        negated: bool,
    ) -> Among:
        """The rows whose value is among those of the same person."""
        if unit_kind(relation) != unit_kind(other):
            told = "the tables identify people by different types"
            self.text.refuse(node, told, "They cannot be compared; ask about each table separately.")
        return Among(relation, value, other, other_value, negated)

    def exists(
        self, node: Node, relation: Relation, scope: Scope, named: dict[str, Node], negated: bool
    ) -> Relation:
        """EXISTS (SELECT ...): of the same person, along a reference, or of a public table."""
        text, select = self.text, bare(node.this)
        text.allow(node, above=True)
        select = select.this if select.kind == "Subquery" else select
        parts = ("group", "having", "limit")
        if select.kind != "Select" or select.get("from_") is None or any(select.get(n) for n in parts):
            text.refuse(
                node, "this EXISTS is not supported", "Write: EXISTS (SELECT 1 FROM t WHERE t.x = a.x)"
            )
        text.allow(select)
        for each in select.nodes():
            if any(part.kind not in _PLAIN for part in each.walk()):
                text.refuse(each, "this is not supported in EXISTS", "Write: EXISTS (SELECT 1 FROM ...)")
        named = self.with_names(select, named)
        select = as_joins(select, named, text)
        clause = select.get("where")
        inside = {name: value for name, value in select.arguments.items() if name in ("from_", "joins")}
        other, own = self.of(Node("Select", inside, select.start, select.end), named)
        kept, pairs, unlike = [], [], list[tuple[str, Scalar, Scalar]]()
        for part in [] if clause is None else _conjuncts(clause.this):
            if self.knows(part, own):
                kept.append(part)
                continue
            sides = [bare(part.this), bare(part.expression)] if part.kind in COMPARISONS else []
            inner = [each for each in sides if self.knows(each, own)]
            outer = [each for each in sides if not self.knows(each, own)]
            if len(inner) != 1 or any(
                self.knows(each, own) for one in outer for each in one.walk() if _named(each)
            ):
                told = "this condition compares rows of both queries in a way that is not supported"
                text.refuse(
                    part, told, "Compare two columns, or add up rows of each person in a subquery first."
                )
            pair = (self.reader.operand(outer[0], scope), self.reader.operand(inner[0], own))
            if part.kind == "EQ":
                pairs.append(pair)
            else:
                operator = COMPARISONS[part.kind]
                unlike.append((operator if inner[0] is sides[0] else TURNED[operator], *pair))
        if kept:
            whole = kept[0] if len(kept) == 1 else Node("And", {"expressions": kept})
            other = self.where(whole, other, own, named)
        if unlike and (other.public or len(unlike) > 1):
            told = "EXISTS takes one comparison other than =, and none with a public table"
            text.refuse(node, told, "Compare with =, or add up rows of each person in a subquery first.")
        if other.public:
            if len(pairs) != 1:
                text.refuse(
                    node, "EXISTS of a public table takes one equality", "Write: EXISTS (... WHERE t.x = a.x)"
                )
            ((value, other_value),) = pairs
            try:
                hull([value, other_value])
            except Unusable as reason:
                text.unusable(reason, node)
            return Among(relation, value, other, other_value, negated, keeps=negated)
        same = [pair for pair in pairs if is_own(pair[0]) and is_own(pair[1])]
        rest = [pair for pair in pairs if pair not in same]
        if not relation.by_person or len(rest) > 1 or not (same or (rest and self.refers(rest[0]))):
            told = "whether a row is kept would depend on rows of other people"
            advice = "Compare the columns that name the person, or a reference of the policy."
            text.refuse(node, told, advice)
        if unit_kind(relation) != unit_kind(other):
            told = "the tables identify people by different types"
            text.refuse(node, told, "They cannot be compared; ask about each table separately.")
        if unlike:
            return self.beside(node, relation, other, rest, unlike[0], negated)
        if not rest:
            return Among(relation, None, other, None, negated)
        found = self.among_own(node, relation, rest[0][0], other, rest[0][1], negated)
        return replace(found, keeps=negated)

    def beside(
        self,
        node: Node,
        relation: Relation,
        other: Relation,
        keys: list[tuple[Scalar, Scalar]],
        unlike: tuple[str, Scalar, Scalar],
        negated: bool,
    ) -> Relation:
        """EXISTS of rows of the same person, and key, with a value below one of the outer row, above it, or
        elsewhere: as the least or the greatest of them is."""
        operator, value, inner = unlike
        number, call = self.number(node), self.reader.call
        domain = replace(inner.domain, keys=None, listed=None, required=False, tuned=None)
        low, high = (Field(f"t{number}.{i}", domain) for i in range(2))
        holds = {
            "<>": lambda: self.reader.all_of(
                node, [self.reader.compared(node, "<>", end, value) for end in (low, high)], "or"
            ),
            "<": lambda: self.reader.compared(node, "<", low, value),
            "<=": lambda: self.reader.compared(node, "<=", low, value),
            ">": lambda: self.reader.compared(node, ">", high, value),
            ">=": lambda: self.reader.compared(node, ">=", high, value),
        }[operator]()
        folds = (Folded("min", inner), Folded("max", inner))
        folded = Fold(number, other, tuple(key for _, key in keys), folds)
        on = [
            call(node, "=", mine, Field(f"t{number}.k{i}", theirs.domain, origin=_origin(theirs)))
            for i, (mine, theirs) in enumerate(keys)
        ]
        on_all = self.reader.all_of(node, on, "and") if on else None
        joined = Join(self.number(node), relation, folded, on_all, negated)
        if negated:  # where there is no such row, nothing is compared
            truths = Constant(False, Domain("boolean")), Constant(True, Domain("boolean"))
            holds = call(node, "case", holds, *truths)
        return filtered(joined, holds)

    def knows(self, node: Node, scope: Scope) -> bool:
        """Whether every column in it is one of these."""
        inner = node.this if node.kind == "In" and node.get("query") is not None else node
        for each in inner.walk():
            if _named(each):
                of = each.get("table")
                sources = [s for s in scope.sources if of is None or s.alias.lower() == of.name.lower()]
                names = {name.lower() for source in sources for name in source.columns}
                if each.name.lower() not in names:
                    return False
        return True

    # Joins --------------------------------------------------------------------------------------------

    def join(
        self, node: Node, left: Relation, sources: list[FromItem], named: dict[str, Node]
    ) -> tuple[Relation, list[FromItem]]:
        """One more table beside those there are."""
        text = self.text
        text.allow(node)
        side, kind = node.text("side").upper(), node.text("kind").upper()
        if side == "FULL" and kind in ("", "OUTER"):
            return self.full(node, sources, self.source(node.this, named))
        if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
            advice = "Write JOIN ... ON, or LEFT JOIN ... ON with the table of people on the left."
            text.refuse(node, f"{side or kind} JOIN is not supported", advice)
        outer = side == "LEFT"
        right = self.source(node.this, named)
        if outer:
            right = self.projected(node, right)
        if any(source.alias.lower() == right.alias.lower() for source in sources):
            text.refuse(node, f"{right.alias} is named twice", "Give one of them another name: JOIN t AS b")
        scope = Scope((*sources, right))
        condition = self.on(node, sources, right, scope)
        relation = self.joined(node, left, right, condition, outer)
        right = replace(right, merged=frozenset(each.name.lower() for each in node.nodes("using")))
        if outer:
            right = replace(right, columns={name: _maybe(each) for name, each in right.columns.items()})
        return relation, [*sources, right]

    def full(self, node: Node, sources: list[FromItem], right: FromItem) -> tuple[Relation, list[FromItem]]:
        """FULL JOIN on the person, of two sides that have one row for every person."""
        text, left = self.text, sources[0]
        if left.alias.lower() == right.alias.lower():
            text.refuse(node, f"{right.alias} is named twice", "Give one of them another name: JOIN t AS b")
        is_one = len(sources) == 1 and all(map(has_one_row, (left.relation, right.relation)))
        pair = equality(self.on(node, sources, right, Scope((left, right)))) if is_one else None
        if pair is None or not all(map(is_own, pair)) or not _across(pair, numbers_of(right.relation)):
            advice = "Join two subqueries, each with GROUP BY person: FROM a FULL JOIN b USING (person)"
            text.refuse(
                node.this, "which rows of this FULL JOIN have no match depends on other people's rows", advice
            )
        if unit_kind(left.relation) != unit_kind(right.relation):
            told = "the tables identify people by different types"
            text.refuse(node, told, "They cannot be compared; ask about each table separately.")
        relation, person, columns = on_both_sides(left, right, lambda: self.number(node))
        using = {each.name: person for each in node.nodes("using")}
        merged = frozenset(name.lower() for name in using)
        shared = [FromItem("", dict(using), relation)] if using else []
        sides = [
            replace(side, columns=own, relation=relation, merged=merged)
            for side, own in zip((left, right), columns, strict=True)
        ]
        return relation, [*shared, *sides]

    def projected(self, node: Node, right: FromItem) -> FromItem:
        """The right side of LEFT JOIN with its computed columns made before the join: where there is no
        partner they are NULL, whatever they would be of NULLs."""
        if all(isinstance(each, Field) for each in right.columns.values()):
            return right
        self.reader.repaired.add("left join")
        number = self.number(node)
        columns: dict[str, Scalar] = {}
        made: list[Scalar] = []
        for name, each in right.columns.items():
            if is_own(each):
                columns[name] = _unit(each, number)
                continue
            domain = replace(each.domain, required=False, tuned=None)
            if not isinstance(each, Field):
                domain = replace(domain, keys=possible(each))
            columns[name] = Field(f"t{number}.{len(made)}", domain, origin=_origin(each))
            made.append(each)
        kinds = tuple(each.domain.kind for each in made)
        return replace(
            right, columns=columns, relation=Union(number, ((right.relation, tuple(made)),), kinds)
        )

    def on(self, node: Node, sources: list[FromItem], right: FromItem, scope: Scope) -> Scalar:
        """The condition of a join."""
        if using := node.nodes("using"):
            parts = []
            for each in using:
                column = Node("Column", {"this": each}, each.start, each.end)
                sides = [
                    self.reader.find(column, Scope((right,))),
                    self.reader.find(column, Scope(tuple(sources))),
                ]
                parts.append(self.reader.call(each, "=", sides[1], sides[0]))
            return self.reader.all_of(node, parts, "and")
        on = node.get("on")
        if on is None:
            self.text.refuse(node.this, "the join has no condition", "Write: JOIN b ON a.person = b.person")
        return self.reader.condition(on, scope)

    def joined(self, node: Node, left: Relation, right: FromItem, condition: Scalar, outer: bool) -> Relation:
        """The relation of a join, if its rows each belong to one unit."""
        text, other = self.text, right.relation
        inside = numbers_of(other)
        equal = [pair for part in parts_of(condition) if (pair := equality(part)) is not None]
        across = [pair for pair in equal if _across(pair, inside)]
        if not left.public and not other.public:
            if not left.by_person or not other.by_person:
                text.refuse(
                    node,
                    "the rows of the join would depend on two units, as each row of one of them is a unit",
                    "Join it with public tables, or declare the column that names the person as its unit.",
                )
            same = [pair for pair in across if is_own(pair[0]) and is_own(pair[1])]
            if not same and not any(self.refers(pair) for pair in across):
                self.refuse_mention(node, across)
                text.refuse(
                    node,
                    "the rows of this join would depend on two people",
                    "Join on the column that names the person: ON a.person = b.person (AND more).",
                )
            rest = []
            for part in parts_of(condition):
                used = {prefix(each) for each in fields(part)}
                if used and used <= inside:
                    other = filtered(other, part)  # which partners there are
                elif used and used <= numbers_of(left) and not outer:
                    left = filtered(left, part)
                elif equality(part) not in same:
                    rest.append(part)
            on = self.reader.all_of(node, rest, "and") if rest else None
            return Join(self.number(node), left, other, on, outer)
        if not across:
            text.refuse(node, "the join has no equality between the two tables", "Write: ON a.x = b.x")
        if left.public and not other.public:
            if outer:
                text.refuse(
                    node,
                    "which rows of the public table have no match depends on everybody's rows",
                    "Put the table of people on the left of LEFT JOIN.",
                )
            left, other, inside = other, left, numbers_of(left)
        single = not left.by_person and not left.public
        if single and not all(_across(pair, inside) for pair in map(equality, parts_of(condition)) if pair):
            text.refuse(node, "this join may multiply rows that are units", "Join with equalities only.")
        if single and any(equality(part) is None for part in parts_of(condition)):
            text.refuse(node, "this join may multiply rows that are units", "Join with equalities only.")
        return Join(self.number(node), left, other, condition, outer, single)

    def refuse_mention(self, node: Node, pairs: list[tuple[Scalar, Scalar]]) -> None:
        """Say so, if a join follows a column that mentions somebody else than whose row it is."""
        for side in (side for pair in pairs for side in pair if isinstance(side, Field)):
            table = self.text.policy.table(side.origin[0])
            column = None if table is None else table.column(side.origin[1])
            if table is not None and column is not None and column.refers is not None:
                told = f"{table.name}.{column.name} only mentions a person: the row belongs to {table.unit}"
                advice = (
                    f"Join on {table.unit}, or GROUP BY {column.name} to count by those who are mentioned."
                )
                self.text.refuse(node, told, advice)

    def refers(self, pair: tuple[Scalar, Scalar]) -> bool:
        """Whether an equality is that of a foreign key, which says that both rows are the same person's."""
        ends = set()
        for side in pair:
            if not isinstance(side, Field):
                return False
            table = self.text.policy.table(side.origin[0])
            through = None if table is None else table.through
            if through is not None and table is not None and table.unit == side.origin[1]:
                ends.add(through)
            else:
                ends.add(side.origin)
        if len(ends) > 1 or ("", "") in ends:
            return False
        return any(self._is_key(side) for side in pair) or all(map(self.reader.is_one_persons, pair))

    def _is_key(self, side: Scalar) -> bool:
        assert isinstance(side, Field)
        table = self.text.policy.table(side.origin[0])
        return table is not None and table.through is not None and table.unit == side.origin[1]

    # Subqueries ---------------------------------------------------------------------------------------

    def subquery(self, node: Node, alias: str, named: dict[str, Node]) -> FromItem:
        """The rows of a subquery, and what its columns are."""
        node = bare(node)
        if node.kind == "Subquery":
            return self.subquery(node.this, alias, named)
        if node.kind == "Union":
            return self.union(node, alias, named)
        if node.kind != "Select":
            advice = "Write a SELECT. For INTERSECT: x IN (SELECT ...); for EXCEPT: x NOT IN (SELECT ...)."
            self.text.refuse(node, f"{word(node)} is not supported as a subquery", advice)
        if (clause := node.get("limit")) is not None:
            advice = "Leave it out: the first rows depend on all people. For those of each person: QUALIFY."
            self.text.refuse(clause, "LIMIT is not supported in a subquery", advice)
        above = ("qualify", "windows") if windows_of(node) else ()
        parts = {name: value for name, value in node.arguments.items() if name not in (*above, "order")}
        relation, rows = self.of(Node("Select", parts, node.start, node.end), named)
        node = spelled_out(node, rows.names(), self.text)
        node, relation, scope = windowed(self.reader, self.number, node, relation, rows)
        items = items_of(node, rows, self.text)
        if node.get("group") is not None or any(self.aggregates(item) for _, item in items):
            return self.fold(node, alias, relation, scope, items)
        if node.get("having") is not None:
            self.text.refuse(node["having"], "HAVING needs GROUP BY", "Use WHERE.")
        columns = {name: self.item(item, scope) for name, item in items}
        if node.arguments.get("distinct"):
            self.text.allow(node["distinct"])
            return self.folded(node, alias, relation, columns, {}, None)
        return FromItem(alias, columns, relation)

    def item(self, node: Node, scope: Scope) -> Scalar:
        """A column of a subquery."""
        if node.kind == "Known":
            source = next(each for each in scope.sources if each.alias == node.text("source"))
            return source.columns[node.text()]
        return self.reader.raw(node, scope)

    def aggregates(self, node: Node) -> bool:
        """Whether something in it is added up."""
        return any(each.kind in AGGREGATES for each in node.walk())

    def fold(
        self, node: Node, alias: str, relation: Relation, scope: Scope, items: list[tuple[str, Node]]
    ) -> FromItem:
        """GROUP BY in a subquery: by person, or it would add up people before the noise."""
        group = node.get("group")
        keys: list[Scalar] = []
        if group is not None:
            self.text.allow(group)
            for each in group.nodes():
                target = grouped(each, node.nodes(), self.text, scope)
                keys.append(self.reader.raw(target, scope))
        clause = node.get("having")
        firsts = [
            f for each in (*(i for _, i in items), *([clause] if clause else [])) for f in firsts_of(each)
        ]
        if firsts:
            windows, relation = first_ones(self.reader, self.number, node, firsts, relation, scope, keys)
            scope, node = windows.inside(), windows.without(node)
            items = [(name, windows.without(item)) for name, item in items]
        columns: dict[str, Scalar] = {}
        folds: dict[str, Node] = {}
        for name, item in items:
            if item.kind != "Known" and self.aggregates(item):
                folds[name] = item
                continue
            found = self.item(item, scope)
            if found not in keys:
                told = item.name if item.kind in ("Column", "Known") else word(item)
                self.text.refuse(item, f"{told} is neither grouped by nor aggregated", "Add it to GROUP BY.")
            columns[name] = found
        if not any(map(self.reader.is_one_persons, keys)):
            self.text.refuse(
                group or node,
                "this subquery aggregates rows of different people before noise is added",
                "GROUP BY the column that names the person in it, or release it as a question of its own.",
            )
        hidden = {f"hidden {i}": key for i, key in enumerate(keys)}
        return self.folded(node, alias, relation, {**columns, **hidden}, folds, scope)

    def folded(
        self,
        node: Node,
        alias: str,
        relation: Relation,
        columns: dict[str, Scalar],
        folds: dict[str, Node],
        scope: Scope | None,
    ) -> FromItem:
        """One row for each person and each combination of the other columns."""
        is_owned = any(map(self.reader.is_one_persons, columns.values()))
        if relation.public or not relation.by_person or not is_owned:
            self.text.refuse(
                node,
                "DISTINCT and GROUP BY in a subquery would mix rows of different people",
                "Select the column that names the person as well.",
            )
        names_person = is_person if self.text.reading > 4 else is_own
        by = list(dict.fromkeys(each for each in columns.values() if not names_person(each)))
        number = self.number(node)
        shown: dict[str, Scalar] = {}
        for name, each in columns.items():
            if names_person(each):
                shown[name] = _unit(each, number)
            else:
                place = by.index(each)
                shown[name] = Field(f"t{number}.k{place}", each.domain, origin=_origin(each))
        listed: list[Folded] = []

        def measured(item: Node) -> Scalar:
            one, domain = one_fold(self.reader, item, scope or Scope(()), relation)
            if one not in listed:
                listed.append(one)
            return Field(f"t{number}.{listed.index(one)}", domain)

        for name, item in folds.items():
            tree, inner = aggregated(item, measured, shown)
            shown[name] = self.reader.raw(tree, inner)
        condition: Scalar | None = None
        if (having := node.get("having")) is not None:
            self.text.allow(having)
            tree, inner = aggregated(having.this, measured, shown | as_rows_call_them(columns, shown, scope))
            condition = self.reader.condition(tree, inner)
        result = Fold(number, relation, tuple(by), tuple(listed))
        visible = {name: each for name, each in shown.items() if not name.startswith("hidden ")}
        return FromItem(alias, visible, result if condition is None else filtered(result, condition))

    def union(self, node: Node, alias: str, named: dict[str, Node]) -> FromItem:
        """UNION ALL of parts with the same columns."""
        text = self.text
        text.allow(node)
        named = self.with_names(node, named)
        if node.arguments.get("distinct"):
            advice = "Write UNION ALL; to count people once, use COUNT(DISTINCT person)."
            text.refuse(node, "UNION drops equal rows of different people", advice)
        parts = [self.subquery(each, "", named) for each in (node.this, node.expression)]
        first, second = parts
        if len(first.columns) != len(second.columns):
            text.refuse(
                node,
                "the parts of UNION ALL have different numbers of columns",
                "Select the same number in each part.",
            )
        if first.relation.public != second.relation.public or (
            first.relation.by_person != second.relation.by_person
        ):
            text.refuse(
                node, "the parts of UNION ALL are about different units", "Ask about each separately."
            )
        if len({unit_kind(part.relation) for part in parts}) > 1:
            told = "one part identifies people by numbers, the other by text: 5 and '5' would be one person"
            text.refuse(node, told, "Ask about each separately.")
        if not first.relation.by_person and first.relation.tables & second.relation.tables:
            text.refuse(
                node, "a row that is a unit would appear twice", "Use OR in WHERE instead of UNION ALL."
            )
        number = self.number(node)
        columns: dict[str, Scalar] = {}
        listed: list[tuple[Scalar, Scalar]] = []
        for (name, a), b in zip(first.columns.items(), second.columns.values(), strict=True):
            are_people = all(map(is_person if text.reading > 4 else is_own, (a, b)))
            if are_people and a.domain.kind == b.domain.kind:
                columns[name] = _unit(a, number)
                continue
            try:
                domain = hull([a, b])
            except Unusable as reason:
                text.unusable(reason, node)
            if a.domain.keys is not None and b.domain.keys is not None:
                domain = replace(domain, keys=tuple(dict.fromkeys((*a.domain.keys, *b.domain.keys))))
            is_key = any(map(self.reader.is_one_persons, (a, b)))  # of two references it is none
            origin = ("", "") if is_key and _origin(a) != _origin(b) else _origin(a)
            columns[name] = Field(f"t{number}.{len(listed)}", domain, origin=origin)
            listed.append((a, b))
        sides = (tuple(a for a, _ in listed), tuple(b for _, b in listed))
        kinds_ = tuple(each.domain.kind for each in columns.values() if not is_own(each))
        relation = Union(number, ((first.relation, sides[0]), (second.relation, sides[1])), kinds_)
        return FromItem(alias, columns, relation)


def _owner(table: DeclaredTable, text: Text) -> Owner | None:
    if table.public or table.unit is None:
        return None
    column = table.column(table.unit)
    assert column is not None
    if table.through is None:
        return Owner(column.name, column.kind)
    other = text.policy.table(table.through[0])
    assert other is not None
    return Owner(column.name, column.kind, other.name, table.through[1], _owner(other, text))


def _named(node: Node) -> bool:
    return node.kind == "Column" and node.this.kind == "Identifier"


def _conjuncts(node: Node) -> list[Node]:
    node = bare(node)
    if node.kind == "And":
        return [part for each in node.nodes() for part in _conjuncts(each)]
    return [node]


def _across(pair: tuple[Scalar, Scalar], inside: set[int]) -> bool:
    """Whether one side is about the right table alone, and the other does not speak of it."""
    sides = [{relations.prefix(each) in inside for each in fields(side)} for side in pair]
    return sides in ([{True}, {False}], [{False}, {True}])


def _unit(scalar: Scalar, number: int) -> Field:
    """The column that names the person, in another relation."""
    return Field(f"t{number}.{relations.UNIT}", scalar.domain, "own", _origin(scalar))


def _maybe(scalar: Scalar) -> Scalar:
    """A column to the right of LEFT JOIN: it may be missing."""
    if not isinstance(scalar, Field):
        return scalar
    unit: Literal["", "maybe"] = "maybe" if scalar.unit in ("own", "maybe") else ""
    return replace(scalar, unit=unit, domain=replace(scalar.domain, required=False))


def _origin(scalar: Scalar) -> tuple[str, str]:
    return scalar.origin if isinstance(scalar, Field) else ("", "")


def _names(named: dict[str, Node]) -> list[Node]:
    return [Node("Name", {"this": name, "node": node}) for name, node in named.items()]


def _back(named: Node) -> dict[str, Node]:
    return {each.text(): each["node"] for each in named.nodes("names")}
