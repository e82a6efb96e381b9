"""Reading FROM, JOIN, WHERE, WITH, UNION ALL and subqueries: which rows a query is about.

Whatever is built here is separable (see `relations`): each row belongs to one unit. What would not be is
refused with the reason.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sfumato.queries import relations
from sfumato.queries.cells import CAP, SUM_BITS
from sfumato.queries.domains import both, hull
from sfumato.queries.expressions import (
    EXACT,
    Domain,
    Field,
    Scalar,
    Unusable,
    bounds,
    constant,
    fields,
    parts_of,
    possible,
)
from sfumato.queries.notation import READING
from sfumato.queries.reading import FromItem, Reader, Scope, equality, is_own
from sfumato.queries.relations import Among, Fold, Folded, Join, Owner, Relation, Scan, Union, Where, prefix
from sfumato.queries.syntax import Node, Text, bare, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Kind

MOST_SCANS = 24  # tables in one query, each use of a subquery counted
_FOLDS: dict[str, relations.Total] = {
    "Count": "count",
    "Sum": "sum",
    "Avg": "avg",
    "Min": "min",
    "Max": "max",
    "LogicalOr": "any",
    "LogicalAnd": "every",
    "CountIf": "count",
}
ONE, NOTHING = constant(1, "integer"), constant(None, "integer")
AGGREGATES = {
    *_FOLDS,
    *("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp", "CovarPop", "CovarSamp", "Corr"),
    *("Median", "Mode", "PercentileCont", "PercentileDisc", "Quantile", "ApproxQuantile"),
}


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
        source = select.get("from_")
        if source is None:
            self.text.refuse(select, "the query has no FROM", "Write: SELECT COUNT(*) FROM YOUR_TABLE")
        self.text.allow(source)
        sources = [self.source(source.this, named)]
        relation = sources[0].relation
        for node in [*source.this.nodes("joins"), *select.nodes("joins")]:
            relation, sources = self.join(node, relation, sources, named)
        scope = Scope(tuple(sources))
        where = select.get("where")
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
            self.text.allow(alias)
            body = Node(each.this.kind, dict(each.this.arguments), each.this.start, each.this.end)
            named[alias.name.lower()] = Node("Named", {"this": body, "names": _names(named)})
        return named

    def source(self, node: Node, named: dict[str, Node]) -> FromItem:
        """A table, a named subquery or a subquery in FROM."""
        if node.kind == "Subquery":
            self.text.allow(node)
            if node.get("alias") is not None:
                self.text.allow(node["alias"])
            return self.subquery(node.this, node.alias, named)
        if node.kind != "Table" or node.this.kind != "Identifier":
            self.text.refuse(node, "FROM must name tables of the policy", "Name a table or a subquery.")
        self.text.allow(node)
        if node.get("alias") is not None:
            self.text.allow(node["alias"])
        alias = node.alias or node.name
        if (inner := named.get(node.name.lower())) is not None:
            return self.subquery(inner.this, alias, _back(inner))
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
            unit: Literal["own", ""] = "own" if own else ""
            columns[column.name] = Field(
                f"t{number}.{name}", domain_of(column, self.text.reading), unit, (table.name, column.name)
            )
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
            else:
                kept.append(part)
        conditions = [self.reader.condition(part, scope) for part in kept]
        if not conditions:
            return relation
        return filtered(relation, self.reader.all_of(node, conditions, "and"))

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
        if not (is_own(value) and is_own(other_value)):
            self.text.refuse(
                node,
                "whether a row is kept would depend on rows of other people",
                "Both columns must be the one that names the person: person IN (SELECT person FROM ...)",
            )
        if unit_kind(relation) != unit_kind(other.relation):
            told = f"one table identifies people by {value.domain.kind}, one by {other_value.domain.kind}"
            self.text.refuse(node, told, "They cannot be compared; ask about each table by itself.")
        return Among(relation, None, other.relation, None, negated)

    # Joins --------------------------------------------------------------------------------------------

    def join(
        self, node: Node, left: Relation, sources: list[FromItem], named: dict[str, Node]
    ) -> tuple[Relation, list[FromItem]]:
        """One more table beside those there are."""
        text = self.text
        text.allow(node)
        side, kind = node.text("side").upper(), node.text("kind").upper()
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
                    "which rows of the public table have no match depends on everybody",
                    "Put the table of people on the left of LEFT JOIN.",
                )
            left, other, inside = other, left, numbers_of(left)
        single = not left.by_person and not left.public
        if single and not all(_across(pair, inside) for pair in map(equality, parts_of(condition)) if pair):
            text.refuse(node, "this join may multiply rows that are units", "Join with equalities only.")
        if single and any(equality(part) is None for part in parts_of(condition)):
            text.refuse(node, "this join may multiply rows that are units", "Join with equalities only.")
        return Join(self.number(node), left, other, condition, outer, single)

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
        return len(ends) == 1 and ("", "") not in ends and any(self._is_key(side) for side in pair)

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
            self.text.refuse(node, f"{word(node)} is not supported as a subquery", "Write a SELECT.")
        for name, told in (("order", "ORDER BY"), ("limit", "LIMIT")):
            if (clause := node.get(name)) is not None:
                advice = "Leave it out: which rows come first depends on the rows of all people."
                self.text.refuse(clause, f"{told} is not supported in a subquery", advice)
        relation, scope = self.of(node, named)
        items = self.items(node, scope)
        if node.get("group") is not None or any(self.aggregates(item) for _, item in items):
            return self.fold(node, alias, relation, scope, items)
        if node.get("having") is not None:
            self.text.refuse(node["having"], "HAVING needs GROUP BY", "Use WHERE.")
        columns = {name: self.item(item, scope) for name, item in items}
        if node.arguments.get("distinct"):
            self.text.allow(node["distinct"])
            return self.folded(node, alias, relation, columns, {}, None)
        return FromItem(alias, columns, relation)

    def items(self, node: Node, scope: Scope) -> list[tuple[str, Node]]:
        """The columns of a SELECT by name, with * written out."""
        found: list[tuple[str, Node]] = []
        for position, item in enumerate(node.nodes(), start=1):
            star = item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star")
            if star:
                of = item.get("table")
                for source in scope.sources:
                    if of is None or of.name.lower() == source.alias.lower():
                        found += [
                            (
                                name,
                                Node("Known", {"this": name, "source": source.alias}, item.start, item.end),
                            )
                            for name in source.columns
                            if of is not None or name.lower() not in source.merged
                        ]
                continue
            if item.kind == "Alias":
                self.text.allow(item)
                found.append((item.alias, item.this))
            else:
                found.append((item.name if item.kind == "Column" else f"column_{position}", item))
        names = [name.lower() for name, _ in found]
        for name, item in found:
            if names.count(name.lower()) > 1 and item.kind != "Known":
                self.text.refuse(
                    item, f"two columns are called {name}", "Give one of them another name: AS b"
                )
        return found

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
        if not any(is_own(key) for key in keys):
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
        own = [name for name, each in columns.items() if is_own(each)]
        if relation.public or not relation.by_person or not own:
            self.text.refuse(
                node,
                "DISTINCT and GROUP BY in a subquery would mix rows of different people",
                "Select the column that names the person as well.",
            )
        by = list(dict.fromkeys(each for each in columns.values() if not is_own(each)))
        number = self.number(node)
        shown: dict[str, Scalar] = {}
        for name, each in columns.items():
            if is_own(each):
                shown[name] = _unit(each, number)
            else:
                place = by.index(each)
                shown[name] = Field(f"t{number}.k{place}", each.domain, origin=_origin(each))
        listed: list[Folded] = []

        def measured(item: Node) -> Scalar:
            one, domain = self.one_fold(item, scope or Scope(()), relation)
            if one not in listed:
                listed.append(one)
            return Field(f"t{number}.{listed.index(one)}", domain)

        for name, item in folds.items():
            tree, inner = _aggregated(item, measured, shown)
            shown[name] = self.reader.raw(tree, inner)
        condition: Scalar | None = None
        if (having := node.get("having")) is not None:
            self.text.allow(having)
            tree, inner = _aggregated(having.this, measured, shown)
            condition = self.reader.condition(tree, inner)
        result = Fold(number, relation, tuple(by), tuple(listed))
        visible = {name: each for name, each in shown.items() if not name.startswith("hidden ")}
        return FromItem(alias, visible, result if condition is None else filtered(result, condition))

    def one_fold(self, node: Node, scope: Scope, relation: Relation) -> tuple[Folded, Domain]:
        """What is made of the rows of one person, and which values it can have."""
        text = self.text
        text.allow(node)
        condition: Node | None = None
        if node.kind == "Filter":
            text.allow(node.expression)
            condition, node = node.expression.this, node.this
            text.allow(node)
        function = _FOLDS.get(node.kind)
        if function is None:
            advice = "Supported per person: COUNT, SUM, AVG, MIN, MAX, BOOL_OR and BOOL_AND."
            text.refuse(node, f"{word(node)} is not supported in a subquery", advice)
        rows = relation.rows or 1
        value: Scalar | None
        inner = node.get("this")
        if node.kind == "CountIf":
            assert inner is not None
            value = self.reader.call(node, "case", self.reader.condition(inner, scope), ONE, NOTHING)
        elif inner is None:
            text.refuse(node, "it needs an argument", "Write for example: SUM(x)")
        elif node.kind == "Count" and inner.kind in ("Star", "Literal"):
            value = None
        elif node.kind == "Count" and inner.kind == "Distinct":
            (each,) = inner.nodes() if len(inner.nodes()) == 1 else (None,)
            if each is None:
                text.refuse(node, "COUNT(DISTINCT) takes one expression", "Count one at a time.")
            function, value = "distinct", self.reader.raw(each, scope)
        elif node.kind == "Count":
            value = self.reader.raw(inner, scope)
        elif node.kind in ("LogicalOr", "LogicalAnd"):
            value = self.reader.condition(inner, scope)
        else:
            value = self.reader.value(inner, scope)
        if condition is not None:
            holds = self.reader.condition(condition, scope)
            value = self.reader.call(node, "case", holds, value if value is not None else ONE, NOTHING)
        domain, exponent = self.fold_domain(node, function, value, rows), None
        if value is not None and function in ("sum", "avg") and self.text.reading > 2:
            exponent = _finest_grid(value.domain, rows)
        return Folded(function, value, exponent), domain

    def fold_domain(self, node: Node, function: relations.Total, value: Scalar | None, rows: int) -> Domain:
        """The values of a fold. Sums and counts are those of at most `rows` rows."""
        if function in ("count", "distinct"):
            return Domain("integer", Fraction(0), Fraction(rows))
        assert value is not None
        if function in ("any", "every"):
            return Domain("boolean")
        if function in ("min", "max"):
            return replace(value.domain, keys=None, required=False, tuned=None)
        try:
            low, high = bounds(value)
        except Unusable as reason:
            self.text.unusable(reason, node)
        if value.domain.adds_exactly and value.domain.scale:
            self.reader.repaired.add("sums of one person")
        if function == "avg":
            return Domain("number", low, high, value.domain.exponent)
        low, high = min(low * rows, Fraction(0)), max(high * rows, Fraction(0))
        if max(abs(low), abs(high)) * Fraction(2) ** value.domain.exponent >= min(CAP, 1 << 53):
            self.text.refuse(
                node, "a person's sum could become too large", "Divide it, or bound it with LEAST."
            )
        of = value.domain
        held = "" if self.text.reading == 1 else of.held
        found = Domain(of.kind, low, high, of.exponent, scale=of.scale, held=held)
        return found if found.adds_exactly else replace(found, scale=None)

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
            text.refuse(node, "the parts of UNION ALL are about different units", "Ask about each by itself.")
        if len({unit_kind(part.relation) for part in parts}) > 1:
            told = "one part identifies people by numbers, the other by text: 5 and '5' would be one person"
            text.refuse(node, told, "Ask about each by itself.")
        if not first.relation.by_person and first.relation.tables & second.relation.tables:
            text.refuse(
                node, "a row that is a unit would appear twice", "Use OR in WHERE instead of UNION ALL."
            )
        number = self.number(node)
        columns: dict[str, Scalar] = {}
        listed: list[tuple[Scalar, Scalar]] = []
        for (name, a), b in zip(first.columns.items(), second.columns.values(), strict=True):
            if is_own(a) and is_own(b) and a.domain.kind == b.domain.kind:
                columns[name] = _unit(a, number)
                continue
            try:
                domain = hull([a, b])
            except Unusable as reason:
                text.unusable(reason, node)
            if a.domain.keys is not None and b.domain.keys is not None:
                domain = replace(domain, keys=tuple(dict.fromkeys((*a.domain.keys, *b.domain.keys))))
            columns[name] = Field(f"t{number}.{len(listed)}", domain, origin=_origin(a))
            listed.append((a, b))
        sides = (tuple(a for a, _ in listed), tuple(b for _, b in listed))
        kinds_ = tuple(each.domain.kind for each in columns.values() if not is_own(each))
        relation = Union(number, ((first.relation, sides[0]), (second.relation, sides[1])), kinds_)
        return FromItem(alias, columns, relation)


def domain_of(column: DeclaredColumn, reading: int = READING) -> Domain:
    """What the policy says about the values of a column."""
    low, high, scale = column.low, column.high, _scale(column)
    if scale is not None and low is not None and high is not None and reading > 2:
        low, high = _on_decimals(low, scale, math.ceil), _on_decimals(high, scale, math.floor)
        if low > high:  # no decimal lies between them
            low, high, scale = column.low, column.high, None
    return Domain(
        column.kind,
        low,
        high,
        column.exponent,
        column.since,
        column.until,
        column.keys,
        column.tuned,
        column.required,
        scale,
    )


def _on_decimals(end: Fraction, scale: int, inward: Callable[[Fraction], int]) -> Fraction:
    """A bound, or the next one inside with so many decimals: what is clamped to it must have them, too."""
    one = 10**scale
    if float(Fraction(round(end * one), one)) == float(end):
        return end
    return Fraction(inward(end * one), one)


def _finest_grid(domain: Domain, rows: int) -> int | None:
    """The grid on which a person's doubles are added up, so fine that one of them is hardly ever changed.

    A sum of so many rows is below 2^104 steps, so that it becomes a double by one rounding; one of 2^43 rows,
    more than any table has, below 2^126, so that it fits into 128 bits.
    """
    if domain.kind != "number" or domain.adds_exactly or domain.low is None or domain.high is None:
        return None
    most = max(abs(domain.low), abs(domain.high), Fraction(1, 1 << 20))
    one, all_ = (math.ceil(each).bit_length() for each in (most, most * rows))
    return min(SUM_BITS - all_, 126 - 43 - one)


def _scale(column: DeclaredColumn) -> int | None:
    """How many decimals a column has, if doubles can tell all its values apart."""
    if column.scale is None or column.low is None or column.high is None:
        return None
    widest = max(abs(column.low), abs(column.high)) * 10**column.scale
    return column.scale if widest < EXACT else None


def filtered(relation: Relation, condition: Scalar) -> Relation:
    """The rows for which a condition holds: one node, however often it is asked for.

    Where only so many rows of a person are joined, conditions on one side choose among them first.
    """
    if isinstance(relation, Join) and relation.is_cut:
        kept: list[Scalar] = []
        left, right = relation.left, relation.right
        for part in parts_of(condition):
            used = {prefix(each) for each in fields(part)}
            if used and used <= numbers_of(left):
                left = filtered(left, part)
            elif used and used <= numbers_of(right) and not relation.outer:
                right = filtered(right, part)
            else:
                kept.append(part)
        relation = replace(relation, left=left, right=right)
        for part in kept:
            relation = _where(relation, part)
        return relation
    return _where(relation, condition)


def _where(relation: Relation, condition: Scalar) -> Relation:
    if isinstance(relation, Where):
        return Where(relation.relation, both(relation.condition, condition))
    return Where(relation, condition)


def unit_kind(relation: Relation) -> Kind | None:
    """How persons are named in a relation; None if its rows are their own units, or public."""
    match relation:
        case Scan(_, _, owner):
            while owner is not None and owner.owner is not None:
                owner = owner.owner
            return None if owner is None else owner.kind
        case Where(inner) | Among(inner):
            return unit_kind(inner)
        case Join(_, left, right):
            return unit_kind(left) or unit_kind(right)
        case Union(_, parts):
            return unit_kind(parts[0][0])
        case Fold(_, inner):
            return unit_kind(inner)


def numbers_of(relation: Relation) -> set[int]:
    """The relations whose columns can be used, by number."""
    match relation:
        case Where(inner) | Among(inner):
            return numbers_of(inner)
        case Join(number, left, right):
            return {number} | numbers_of(left) | numbers_of(right)
    return {relation.number}


def grouped(node: Node, items: list[Node], text: Text, scope: Scope) -> Node:
    """What stands in GROUP BY: an expression, or the number or alias of a selected one."""
    target = node
    if node.kind == "Literal":
        target = positional(node, items, text)
    elif node.kind == "Column" and node.get("table") is None:
        names = {name.lower() for source in scope.sources for name in source.columns}
        if node.name.lower() not in names:
            for item in items:
                if item.kind == "Alias" and item.alias.lower() == node.name.lower():
                    target = item
    return target.this if target.kind == "Alias" else target


def positional(node: Node, items: list[Node], text: Text) -> Node:
    """The selected expression that a number counts to."""
    told = node.text()
    if node.arguments.get("is_string") or not told.isdecimal() or not 1 <= int(told[:5]) <= len(items):
        text.refuse(node, "that position is not in the SELECT list", f"Count from 1 to {len(items)}.")
    return items[int(told) - 1]


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
    unit: Literal["", "maybe"] = "maybe" if scalar.unit else ""
    return replace(scalar, unit=unit, domain=replace(scalar.domain, required=False))


def _origin(scalar: Scalar) -> tuple[str, str]:
    return scalar.origin if isinstance(scalar, Field) else ("", "")


def _aggregated(
    node: Node, measured: Callable[[Node], Scalar], known: dict[str, Scalar]
) -> tuple[Node, Scope]:
    """An expression over aggregates: each aggregate becomes a column, which stands for it."""
    columns = dict(known)

    def without(each: Node) -> Node:
        if each.kind in AGGREGATES or each.kind == "Filter":
            name = f"fold {len(columns)}"
            columns[name] = measured(each)
            return Node("Column", {"this": Node("Identifier", {"this": name})}, *(each.span or (-1, -1)))
        parts: dict[str, Node | list[Node] | str | bool] = {}
        for key, value in each.arguments.items():
            if isinstance(value, Node):
                parts[key] = without(value)
            else:
                parts[key] = [without(one) for one in value] if isinstance(value, list) else value
        return Node(each.kind, parts, each.start, each.end, each.called)

    return without(node), Scope((FromItem("", columns, Scan(-1, "", None, None, True)),))


def _names(named: dict[str, Node]) -> list[Node]:
    return [Node("Name", {"this": name, "node": node}) for name, node in named.items()]


def _back(named: Node) -> dict[str, Node]:
    return {each.text(): each["node"] for each in named.nodes("names")}
