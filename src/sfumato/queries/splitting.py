"""Where a text is split: below stand questions that are paid for, above what is made of their rows.

The border is where rows of different people are added up (or their keys are listed). A subquery below it
belongs to `rows`, one above it to `outer`. A text that is one question and shows what a plan can show is
left alone: then nothing stands above it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import QueryRefused, Unsupported
from sfumato.queries import asking
from sfumato.queries.asking import Asking
from sfumato.queries.columns import domain_of
from sfumato.queries.held import held, held_by, held_in, widest
from sfumato.queries.joins import NESTED, ONE_BY_ONE, is_comma
from sfumato.queries.made import (
    MOST_TRACED,
    MOST_WRITTEN_OUT,
    Atom,
    ListedRows,
    Made,
    MadeColumn,
    MadeSelect,
    MadeSource,
    MadeUnion,
    PublicRows,
    ShownRows,
    either,
    has_choice,
    has_end,
    is_added,
    is_of_others,
    is_partial,
    is_sorted,
    is_sorted_by_noise,
    looks_around,
    moved,
    places_of,
    small,
    takes_order,
    written_out,
)
from sfumato.queries.madewords import NUMERIC, is_numeric, wider
from sfumato.queries.outer import MOST_LISTED_ROWS, MadeName, MadeReader, MadeScope, column_of, row_of
from sfumato.queries.plan import Outer
from sfumato.queries.probing import probed
from sfumato.queries.reading import Reader
from sfumato.queries.rewrite import rewrite
from sfumato.queries.rows import FromReader
from sfumato.queries.scopes import grouped, rows_alone, spelled_out
from sfumato.queries.shape import (
    added_up,
    apart,
    is_empty,
    may_be_plain,
    named_apart,
    named_by_with,
    names_before,
    scalars_in,
)
from sfumato.queries.shown import KeyOf
from sfumato.queries.spelling import end_of, plainly
from sfumato.queries.syntax import Node, Text, place_of, word

if TYPE_CHECKING:
    from sfumato.queries.asking import Measuring
    from sfumato.queries.made import End, Held, MadeKind, MadeQuery
    from sfumato.queries.plan import Plan

MOST_QUESTIONS = 32  # that one text asks
Level = Literal["people", "public", "released", "listed"]
_SETS: dict[str, Any] = {"Union": "UNION", "Intersect": "INTERSECT", "Except": "EXCEPT"}
_JOINS: dict[str, Any] = {"LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


def ask(tree: Node, text: Text, measuring: Measuring = rewrite, part: int | None = None) -> Plan:
    """The plan of a statement, with what is made of its released rows; or only that of one of its questions,
    whose aggregates are measured so."""
    while tree.kind in ("Subquery", "Paren") and tree.get("alias") is None and not tree.nodes("joins"):
        tree = tree.this
    tree = plainly(tree)
    if (lateral := next((each for each in tree.walk() if each.kind == "Lateral"), None)) is not None:
        called = "LATERAL" if "LATERAL" in text.sql.upper() else "APPLY"
        text.refuse(lateral, f"{called} is not supported", "", name="Lateral")
    splitter = Splitter(text, measuring, part, top=tree)
    if tree.kind not in ("Select", *_SETS) or splitter.level(tree, {}) not in ("released", "listed"):
        return probed(tree, text) or asking.ask(tree, text, measuring)
    refusal: Unsupported | None = None
    if tree.kind == "Select" and splitter.is_lowest(tree, {}) and may_be_plain(tree):
        try:
            return asking.ask(tree, text, measuring)
        except Unsupported as found:
            refusal = found
    try:
        query = splitter.query(tree, {})
    except QueryRefused:
        if refusal is not None and not refusal.is_shown_elsewhere:
            raise refusal from None
        raise
    if not splitter.questions:
        text.refuse(
            tree, "the query asks nothing about the tables", "Ask for example: SELECT COUNT(*) FROM t"
        )
    if written_out(query) > MOST_WRITTEN_OUT:
        told = "the parts of WITH name each other too often"
        text.refuse(tree, told, "Name each of them a few times.")
    first, *others = splitter.questions
    if part is not None:
        return splitter.questions[part]
    return replace(first, outer=Outer(query, is_empty(query)), beside=tuple(others))


@dataclass(slots=True)
class Splitter:
    """Splits one statement."""

    text: Text
    measuring: Measuring
    part: int | None = None
    questions: list[Plan] = field(default_factory=list)
    levels: dict[int, Level] = field(default_factory=dict)  # of nodes, by identity
    made: dict[int, MadeQuery] = field(default_factory=dict)  # of what WITH names, by identity
    flat: dict[int, tuple[MadeQuery, MadeQuery]] = field(default_factory=dict)  # without their order
    aliases: itertools.count[int] = field(default_factory=itertools.count)
    top: Node | None = None  # what is shown

    # Levels -------------------------------------------------------------------------------------------

    def level(self, node: Node, named: dict[str, Node]) -> Level:
        """What a query is about: rows of people, public rows, released ones, or what is written out."""
        if id(node) not in self.levels:
            self.levels[id(node)] = self._level(node, named)
        return self.levels[id(node)]

    def _level(self, node: Node, named: dict[str, Node]) -> Level:
        match node.kind:
            case "Subquery" | "Paren":
                return self._together([self.level(node.this, named), *self._joined(node, named)])
            case "Table":
                return self._together([self._table(node, named), *self._joined(node, named)])
            case "Values" | "Unnest" | "GenerateSeries":
                return "listed"
            case "Union" | "Intersect" | "Except":
                named = self.named(node, named)
                return self._together([self.level(each, named) for each in (node.this, node.expression)])
            case "Select":
                return self._of_select(node, named)
        return "people"

    def _table(self, node: Node, named: dict[str, Node]) -> Level:
        if node.this.kind != "Identifier":
            return "listed" if node.this.kind in ("GenerateSeries", "Unnest") else "people"
        if (inner := named_by_with(node, named)) is not None:
            return self.level(inner.this, names_before(inner))
        table = self.text.policy.table(node.name)
        return "public" if table is not None and table.public else "people"

    def _joined(self, node: Node, named: dict[str, Node]) -> list[Level]:
        return [self.level(each.this, named) for each in node.nodes("joins")]

    def _of_select(self, node: Node, named: dict[str, Node]) -> Level:
        named = self.named(node, named)
        if node.get("from_") is None:
            inner = [self.level(each.this, named) for each in scalars_in(node)]
            return "released" if "released" in inner else "listed"
        found = self._together(self.below(node, named))
        return "released" if found == "people" and self.is_question(node, named) else found

    def below(self, select: Node, named: dict[str, Node]) -> list[Level]:
        """The levels of what stands in FROM."""
        return [self.level(select["from_"].this, named), *self._joined(select, named)]

    @staticmethod
    def _together(levels: list[Level]) -> Level:
        for each in ("released", "people", "public"):
            if each in levels:
                return each
        return "listed"

    def is_lowest(self, select: Node, named: dict[str, Node]) -> bool:
        """Whether nothing but rows of people and public ones stand in FROM."""
        if select.get("from_") is None:
            return False
        return not {"released", "listed"} & set(self.below(select, self.named(select, named)))

    def is_question(self, select: Node, named: dict[str, Node]) -> bool:
        """Whether it adds up rows of different people, or lists their keys."""
        group, distinct = select.get("group"), bool(select.arguments.get("distinct"))
        clauses = [*select.nodes(), *(c for n in ("having", "order") if (c := select.get(n)) is not None)]
        adds = any(True for each in clauses for _ in added_up(each))
        if group is None and not adds and not distinct:
            return False
        reader = Reader(self.text)
        _, scope = FromReader(self.text, reader).of(rows_alone(select), named)
        select = spelled_out(select, scope.names(), self.text)
        items = [each.this if each.kind == "Alias" else each for each in select.nodes()]
        listed = group.nodes() if group is not None else items if distinct and not adds else []
        if group is not None and group.arguments.get("all"):
            listed = [item for item in items if not any(True for _ in added_up(item))]
        for each in listed:
            target = grouped(each, select.nodes(), self.text, scope) if group is not None else each
            for one in target.walk():
                if one.kind == "Star":
                    return False
                if one is target and one.kind == "Column" and reader.is_one_persons(reader.find(one, scope)):
                    return False
        return True

    def named(self, select: Node, named: dict[str, Node]) -> dict[str, Node]:
        """What WITH names, beside what was named before."""
        return FromReader(self.text, Reader(self.text)).with_names(select, named)

    # Queries ------------------------------------------------------------------------------------------

    def query(self, node: Node, named: dict[str, Node]) -> MadeQuery:
        """What is made of released rows by a query."""
        if node.kind in ("Subquery", "Paren") and not node.nodes("joins"):
            return self.query(node.this, named)
        if node.kind in _SETS:
            return self.sets(node, named)
        if node.kind == "Values":
            return self.values(node)
        if node.kind != "Select":
            self.text.refuse(node, f"{word(node)} is not supported as a subquery", "Write a SELECT.")
        self.text.allow(node, above=True)
        named = self.named(node, named)
        if self.is_lowest(node, named):
            return self.question(node, named)
        return self.above(node, named)

    def reader(self, named: dict[str, Node], select: Node) -> MadeReader:
        """A reader of expressions, which may have subqueries."""
        numbers = Reader(self.text)
        found = MadeReader(self.text, lambda node: self.inner(node, named), numbers.fraction)
        for each in select.nodes("windows"):
            found.windows[each.name.lower()] = each
        return found

    def inner(self, node: Node, named: dict[str, Node]) -> MadeQuery:
        """A subquery in an expression."""
        while node.kind in ("Subquery", "Paren"):
            node = node.this
        if self.level(node, named) == "people":
            told = "this subquery is about single rows of people"
            self.text.refuse(node, told, "Aggregate in it, or GROUP BY what many people share.")
        return self.query(node, named)

    def question(self, select: Node, named: dict[str, Node]) -> MadeQuery:
        """A question, and what is shown of its rows."""
        if self.level(select, named) == "public":
            told = "the query asks only about public tables"
            self.text.refuse(select, told, "They need no noise: read them from the source directly.")
        number, inside = len(self.questions), f"s{next(self.aliases)}"
        measuring = self.measuring if self.part in (None, number) else rewrite
        found = Asking(self.text, Reader(self.text), select, measuring)
        plan, aggregates = found.below(FromReader(self.text, found.reader), named)
        number = self.numbered(plan)
        holds = [held_in(key.expression.domain) for key in plan.keys]
        holds += [held_by(each, self.text.dialect) for each in aggregates]
        columns = [
            MadeColumn(c.name, c.kind, True, Atom(number, c.expression, 0), in_)
            if c.has_interval and c.expression is not None
            else MadeColumn(c.name, c.kind, not isinstance(c.expression, KeyOf), held=in_)
            for c, in_ in zip(plan.columns, holds, strict=True)
        ]
        body = ShownRows(number, tuple(columns), partial=plan.private_keys)
        by_name = {column.name: column for column in columns}

        def shown(name: str) -> Made:
            column = by_name[name]
            made = replace(column_of(inside, column), trace=None)
            trace = column.trace
            return made if trace is None else replace(made, trace=moved(trace, lambda _: row_of(inside, 0)))

        def known(node: Node, scope: MadeScope) -> Made | None:
            if asking.is_aggregate(node):
                column = shown(f"a{aggregates.index(found.aggregate(node))}")
                since = found.since(node)
                if since is None:
                    return column
                kind = since.domain.kind  # MIN of a date: so many days after its lower bound
                return Made("since", kind, (column,), str(since.value), noisy=True)
            if any(True for _ in added_up(node)) or any(each.kind == "Window" for each in node.walk()):
                return None
            index = found.key_index(node)
            if index is not None:
                return shown(f"k{index}")
            if node.kind == "Column":
                if node.get("table") is None and any(n.lower() == node.name.lower() for n, _ in scope.items):
                    return None
                found.refuse_column(node)
            return None

        scope = MadeScope(known=known)
        source = MadeSource(inside, body)
        return self.select(self.instead(select, found.select), named, (source,), scope, found)

    def held(self, made: Made) -> Held:
        """What SQL holds a number in."""
        return held(made, divides_exactly=self.text.dialect == "postgres")

    def numbered(self, plan: Plan) -> int:
        """The number of a question: the same for the same question, however it is measured."""
        for number, each in enumerate(self.questions):
            if replace(each, measures=(), outputs=()) == replace(plan, measures=(), outputs=()):
                return number
        if len(self.questions) == MOST_QUESTIONS:
            told = f"this asks more than {MOST_QUESTIONS} questions at once"
            self.text.refuse(self.top or Node(""), told, "Ask for all numbers in one GROUP BY, or ask twice.")
        self.questions.append(plan)
        return len(self.questions) - 1

    def above(self, select: Node, named: dict[str, Node]) -> MadeQuery:
        """A SELECT over released rows."""
        levels = self.below(select, named) if select.get("from_") is not None else []
        if "people" in levels:
            told = "released rows cannot be joined with single rows of people"
            self.text.refuse(
                select["from_"], told, "Add up the rows of people in a question of their own first."
            )
        reader = self.reader(named, select)
        sources: list[MadeSource] = []
        names: list[MadeName] = []
        merged: dict[str, Made] = {}
        if (clause := select.get("from_")) is not None:
            self.text.allow(clause)
            self.source(clause.this, named, sources, names, merged, reader, None)
            after_comma = False
            for join in select.nodes("joins"):
                side = join.text("side").upper()
                if after_comma and side in ("RIGHT", "FULL"):
                    told = f"{side} JOIN after a comma is not supported"
                    self.text.refuse(join.this, told, "Write JOIN ... ON instead of the comma.")
                after_comma = after_comma or is_comma(join)
                self.source(join.this, named, sources, names, merged, reader, join)
        scope = MadeScope(tuple(names), tuple(merged.items()))
        known = [*merged, *(column.name for each in names for column in each.query.columns)]
        select = self.instead(select, spelled_out(select, known, self.text))
        return self.select(select, named, tuple(sources), scope, None)

    def instead(self, select: Node, found: Node) -> Node:
        """The same SELECT in other words, which is what is shown if that was."""
        if select is self.top:
            self.top = found
        return found

    def source(
        self,
        node: Node,
        named: dict[str, Node],
        sources: list[MadeSource],
        names: list[MadeName],
        merged: dict[str, Made],
        reader: MadeReader,
        join: Node | None,
    ) -> None:
        """One more thing in FROM."""
        text = self.text
        if node.kind == "Subquery" and node.this.kind == "Table" and not node.alias:  # brackets
            node = node.this
        alias = node.alias or (node.name if node.kind == "Table" else f"subquery_{len(names) + 1}")
        body = self.body(node, named)
        if any(each.alias.lower() == alias.lower() for each in names):
            text.refuse(node, f"{alias} is named twice", "Give one of them another name: JOIN t AS b")
        inside = f"s{next(self.aliases)}"
        name = MadeName(alias, inside, body)
        if join is None:
            sources.append(MadeSource(inside, body))
            names.append(name)
        else:
            sources.append(self.join(join, name, names, merged, reader))
            names.append(name)
        for each in node.nodes("joins"):
            self.source(each.this, named, sources, names, merged, reader, each)

    def join(
        self, node: Node, name: MadeName, names: list[MadeName], merged: dict[str, Made], reader: MadeReader
    ) -> MadeSource:
        text = self.text
        text.allow(node, above=True)
        side, kind = node.text("side").upper(), node.text("kind").upper()
        method = node.text("method").upper()
        if (
            side not in ("", *_JOINS)
            or kind not in ("", "INNER", "OUTER", "CROSS")
            or method not in ("", "NATURAL")
        ):
            told = (method if method != "NATURAL" else "") or side or kind
            text.refuse(node.this, f"{told} JOIN is not supported", "Write JOIN, LEFT JOIN or FULL JOIN.")
        inner = node.this
        inside = inner.this if inner.kind == "Subquery" and not inner.alias else inner
        if inner.nodes("joins") or (inside.kind in ("Table", "Subquery") and inside.nodes("joins")):
            text.refuse(inner, NESTED, ONE_BY_ONE)
        how: Any = _JOINS.get(side, "JOIN")
        before = MadeScope(tuple(names), tuple(merged.items()))
        alone = MadeScope((name,))
        using = node.nodes("using")
        if node.text("method").upper() == "NATURAL":
            left = {c.name.lower() for each in names for c in each.query.columns}
            using = [
                Node("Identifier", {"this": c.name}) for c in name.query.columns if c.name.lower() in left
            ]
            if not using:
                text.refuse(node, "the tables have no column of the same name", "Write: JOIN b ON a.x = b.x")
        if using:
            parts = []
            for each in using:
                column = Node("Column", {"this": each}, each.start, each.end)
                a, b = reader.value(column, before), reader.value(column, alone)
                reader.alike([a, b], each)
                parts.append(reader.plain("compare", "boolean", [a, b], text="="))
                chosen = {"JOIN": a, "LEFT JOIN": a, "RIGHT JOIN": b}.get(how)
                merged[each.name.lower()] = chosen or reader.plain("coalesce", a.kind, [a, b])
            return MadeSource(name.inside, name.query, how, reader.plain("and", "boolean", parts))
        if node.get("on") is None:
            if how != "JOIN":
                text.refuse(node, "the join has no condition", "Write: JOIN b ON a.x = b.x")
            return MadeSource(name.inside, name.query, "CROSS JOIN")
        both = MadeScope((*names, name), tuple(merged.items()))
        return MadeSource(name.inside, name.query, how, reader.truth(node["on"], both))

    def body(self, node: Node, named: dict[str, Node]) -> MadeQuery:
        """The rows of something in FROM, with its columns as the analyst names them."""
        alias = node.get("alias")
        given = [] if alias is None else alias.nodes("columns")
        if node.kind == "Subquery":
            self.text.allow(node)
            found = self.query(node.this, named)
        elif node.kind in ("Values", "Unnest"):
            found = self.values(node)
        elif node.kind == "Table" and node.this.kind == "GenerateSeries":
            self.check_table(node)
            found = self.series(node.this, node.alias)
        elif node.kind == "Table" and (inner := named_by_with(node, named)) is not None:
            self.check_table(node)
            if id(inner.this) not in self.made:
                self.made[id(inner.this)] = self.query(inner.this, names_before(inner))
            found = self.made[id(inner.this)]
            given = given or inner.nodes("columns")
        elif node.kind == "Table" and node.this.kind == "Identifier":
            found = self.public(node)
        else:
            self.text.refuse(node, f"{word(node)} is not supported in FROM", "Name a table or a subquery.")
        return self.renamed(found, given, node)

    def check_table(self, node: Node) -> None:
        """Refuse what may hang on a table: TABLESAMPLE, PIVOT."""
        self.text.allow(node)
        if (alias := node.get("alias")) is not None:
            self.text.allow(alias, above=True)

    def renamed(self, found: MadeQuery, given: list[Node], node: Node) -> MadeQuery:
        """The same rows, with other names of their columns."""
        if not given:
            return found
        if len(given) > len(found.columns):
            self.text.refuse(node, "there are more names than columns", f"Give {len(found.columns)} names.")
        inside = f"s{next(self.aliases)}"
        names = [each.name for each in given] + [column.name for column in found.columns[len(given) :]]
        items = tuple(replace(column_of(inside, column), trace=None) for column in found.columns)
        columns = tuple(replace(column, name=name) for column, name in zip(found.columns, names, strict=True))
        rows = tuple(row_of(inside, at) for at in range(found.hidden))
        return MadeSelect(columns, items, rows, (MadeSource(inside, found),), selected=found.selected)

    def public(self, node: Node) -> MadeQuery:
        """A public table."""
        self.check_table(node)
        table = self.text.policy.table(node.name)
        if table is None or not table.public:
            known = [each.name for each in self.text.policy.tables if each.public]
            self.text.unknown("table", node.name, known, node.this)
        holds = [held_in(domain_of(column, self.text.reading)) for column in table.columns]
        columns = [MadeColumn(c.name, c.kind, held=in_) for c, in_ in zip(table.columns, holds, strict=True)]
        return PublicRows(table.name, tuple(columns))

    def values(self, node: Node) -> MadeQuery:
        """Rows that are written out."""
        reader = self.reader({}, node)
        rows = []
        for each in node.nodes():
            listed = each.nodes() if each.kind == "Tuple" else [each]
            rows.append(tuple(reader.value(one, MadeScope()) for one in listed))
        if not rows or len({len(row) for row in rows}) > 1 or len(rows) > MOST_LISTED_ROWS:
            self.text.refuse(
                node, "the rows of VALUES do not have the same columns", "Write: VALUES (1, 'a')"
            )
        columns = []
        for i, column in enumerate(zip(*rows, strict=True)):
            noisy = any(each.noisy for each in column)
            kind = reader.alike(list(column), node)
            in_ = widest([self.held(each) for each in column if is_numeric(each.kind)])
            columns.append(MadeColumn(f"col{i}", kind, noisy, held=in_))
        return ListedRows(tuple(rows), tuple(columns))

    def series(self, node: Node, alias: str) -> MadeQuery:
        """Numbers, or moments, from one to another."""
        reader = self.reader({}, node)
        parts = [reader.value(node[name], MadeScope()) for name in ("start", "end")]
        if (step := node.get("step")) is not None:
            parts.append(reader.value(step, MadeScope()))
        kind = parts[0].kind
        if kind not in ("integer", "date", "timestamp") or (kind != "integer" and len(parts) < 3):
            told = "generate_series takes whole numbers, or dates and an interval"
            self.text.refuse(node, told, "Write: generate_series(1, 12)")
        if node.arguments.get("is_end_exclusive"):
            self.text.refuse(node, "RANGE is not supported here", "Write: generate_series(1, 12)")
        gives: MadeKind = "integer" if kind == "integer" else "timestamp"
        noisy = any(each.noisy for each in parts)
        column = MadeColumn(alias or "generate_series", gives, noisy, held="whole")
        return ListedRows((tuple(parts),), (column,), is_series=True, selected=noisy)

    # SELECT -------------------------------------------------------------------------------------------

    def select(
        self,
        select: Node,
        named: dict[str, Node],
        sources: tuple[MadeSource, ...],
        scope: MadeScope,
        question: Asking | None,
    ) -> MadeQuery:
        """A SELECT over these rows; those of a question are grouped already."""
        reader, text = self.reader(named, select), self.text
        selected = any(each.body.selected or (each.on is not None and each.on.noisy) for each in sources)
        where = group = having = None
        keys: tuple[Made, ...] = ()
        is_grouped = False
        listed = self.starred(select, scope)
        if question is None:
            if (clause := select.get("where")) is not None:
                text.allow(clause)
                where = reader.truth(clause.this, scope)
                selected = selected or where.noisy
            group = select.get("group")
            adds = [*select.nodes(), *(c for n in ("having", "order") if (c := select.get(n)) is not None)]
            is_grouped = group is not None or any(True for each in adds for _ in added_up(each))
            if group is not None:
                keys = self.keys(group, reader, scope, listed)
                selected = selected or any(each.noisy for each in keys)
        inside = replace(scope, grouped=is_grouped)
        items: list[tuple[str, Made]] = []
        ends: list[End] = []
        for name, item in listed:
            end: End = ""
            of = item
            if isinstance(item, Node) and select is self.top:
                of, end = end_of(item)
            made = of if isinstance(of, Made) else reader.value(of, inside)
            if is_grouped:
                self.check_grouped(made, keys, select)
            if end:
                reader.check(made, NUMERIC, select)
                made = Made("end", "number", (made,), noisy=True, trace=made.trace)
            items.append((name, made))
            ends.append(end)
        items = named_apart(items, is_last=select is self.top)
        after = replace(inside, items=tuple(items))
        if (clause := select.get("having")) is not None:
            text.allow(clause)
            having = reader.truth(clause.this, after)
            selected = selected or having.noisy
            if question is not None:
                where, having = having, None
        qualify = None
        if (clause := select.get("qualify")) is not None:
            text.allow(clause, above=True)
            qualify = reader.truth(clause.this, after)
            selected = selected or qualify.noisy
        order = reader.ordered(select.get("order"), after, tuple(items))
        limit, offset = reader.limits(select)
        cuts = limit is not None or offset is not None
        distinct = bool(select.arguments.get("distinct"))
        shown = [*(made for _, made in items), *(each.by for each in order), *filter(None, (having, qualify))]
        if any(is_sorted(each.body) for each in sources) and any(map(takes_order, shown)):
            told = "no order of rows is kept between a subquery and what stands above it"
            text.refuse(select, told, "Write OVER (ORDER BY x), or ARG_MAX(x, y) instead of FIRST(x).")
        is_plain = not (is_grouped or distinct or len(sources) > 1 or any(map(looks_around, items)))
        if not is_plain or qualify is not None:  # an order below means nothing there
            sources = tuple(replace(each, body=self.unsorted(each.body)) for each in sources)
        by_noise = [each.by.noisy for each in order] + [is_sorted_by_noise(each.body) for each in sources]
        if not order and (is_grouped or distinct):  # whatever comes first then
            by_noise += [made.noisy for _, made in items]
        selected = selected or (cuts and any(by_noise))
        if (
            distinct
            and isinstance(select.arguments["distinct"], Node)
            and select["distinct"].arguments.get("on")
        ):
            text.refuse(
                select["distinct"], "DISTINCT ON is not supported", "Use QUALIFY ROW_NUMBER() ... = 1."
            )
        if any(ends):
            clauses = [where, having, qualify, *(each.by for each in order)]
            clauses += [made for _, made in items if distinct]
            if any(has_end(each) for each in clauses):
                told = "the ends of intervals are known only after rows are picked and sorted"
                text.refuse(select, told, "Sort by the number itself, and pick rows in the result.")
        partly = bool(selected) or any(is_partial(each.body) for each in sources)
        columns, rows = self.columns(items, partly, distinct, is_grouped)
        for (name, _), column, end in zip(items, columns, ends, strict=True):
            if end and column.trace is None:
                told = f"no interval is known for {name}: released numbers affect it in more than one way"
                text.refuse(select, told, "Ask for the interval of a number that is released itself.")
        columns = tuple(replace(each, end=end) for each, end in zip(columns, ends, strict=True))
        return MadeSelect(
            columns, tuple(made for _, made in items), rows, sources, where, keys, having, qualify,
            order, limit, offset, distinct, selected, is_grouped and group is None,
        )  # fmt: skip

    def unsorted(self, query: MadeQuery) -> MadeQuery:
        """The same rows in no order of their own; which ones there are stays as it is."""
        if not isinstance(query, MadeSelect) or query.limit is not None or query.offset is not None:
            return query
        if id(query) not in self.flat:
            sources = query.sources
            if len(sources) == 1:
                sources = (replace(sources[0], body=self.unsorted(sources[0].body)),)
            is_same = not query.order and all(
                a.body is b.body for a, b in zip(sources, query.sources, strict=True)
            )
            found = query if is_same else replace(query, order=(), sources=sources)
            self.flat[id(query)] = query, found
        return self.flat[id(query)][1]

    def columns(
        self, items: list[tuple[str, Made]], selected: bool, distinct: bool, is_grouped: bool
    ) -> tuple[tuple[MadeColumn, ...], tuple[Made, ...]]:
        """The columns of items, and the hidden ones that their traces need."""
        rows: list[Made] = []
        columns = []

        def hidden(place: Made | int) -> int:
            assert isinstance(place, Made)
            if place not in rows:
                rows.append(place)
            return rows.index(place)

        for name, made in items:
            trace = made.trace
            places = [] if trace is None else list(places_of(trace))
            if distinct or (is_grouped and not all(is_added(each) for each in places)):
                trace = None
            if selected and (any(is_of_others(each) for each in places) or has_choice(trace)):
                trace = None  # without noise it would be made of other rows
            trace = small(trace)
            known = None if trace is None else moved(trace, hidden)
            columns.append(MadeColumn(name, made.kind, made.noisy, known, self.held(made)))
        return tuple(columns), tuple(rows)

    def starred(self, select: Node, scope: MadeScope) -> list[tuple[str, Node | Made]]:
        """The selected items by name, with * written out."""
        found: list[tuple[str, Node | Made]] = []
        for position, item in enumerate(select.nodes(), start=1):
            if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
                star = item if item.kind == "Star" else item.this
                self.text.allow(star)
                of = item.get("table")
                known = [source.alias for source in scope.sources]
                if of is not None and of.name.lower() not in map(str.lower, known):
                    self.text.unknown("table", of.name, known, of)
                seen = set()
                for source in scope.sources:
                    if of is not None and of.name.lower() != source.alias.lower():
                        continue
                    for column in source.query.columns:
                        column_ = Node("Column", {"this": Node("Identifier", {"this": column.name})})
                        one = dict(scope.merged).get(column.name.lower()) if of is None else None
                        if one is not None:
                            if column.name.lower() not in seen:
                                found.append((column.name, one))
                            seen.add(column.name.lower())
                            continue
                        column_.arguments["table"] = Node("Identifier", {"this": source.alias})
                        found.append((column.name, column_))
                continue
            if item.kind == "Alias":
                self.text.allow(item)
                found.append((item.alias, item.this))
            else:
                found.append((asking.name_of(item, position), item))
        return found

    def keys(
        self,
        group: Node,
        reader: MadeReader,
        scope: MadeScope,
        listed: list[tuple[str, Node | Made]],
    ) -> tuple[Made, ...]:
        """What released rows are grouped by."""
        self.text.allow(group, above=True)
        plain = [each for each in group.nodes() if each.kind not in ("Rollup", "Cube", "GroupingSets")]
        if len(plain) < len(group.nodes()):
            told = "totals over released rows are not supported"
            self.text.refuse(group, told, "Put ROLLUP, CUBE or GROUPING SETS into the question itself.")
        if group.arguments.get("all"):
            plain = [
                item for _, item in listed if isinstance(item, Node) and not any(True for _ in added_up(item))
            ]
        keys: list[Made] = []
        for each in plain:
            target = each
            if each.kind == "Literal":
                if (place := place_of(each.text(), len(listed))) is None:
                    told = "that position is not in the SELECT list"
                    self.text.refuse(each, told, f"Write a position from 1 to {len(listed)}.")
                item = listed[place][1]
                if isinstance(item, Made):
                    keys.append(item)
                    continue
                target = item
            elif each.kind == "Column" and each.get("table") is None:
                columns = {c.name.lower() for s in scope.sources for c in s.query.columns}
                by_name = {name.lower(): item for name, item in listed}
                item = by_name.get(each.name.lower(), each)
                if each.name.lower() not in columns and isinstance(item, Node):
                    target = item
            found = reader.value(target, scope)
            if found not in keys:
                keys.append(found)
        return tuple(keys)

    def check_grouped(self, made: Made, keys: tuple[Made, ...], node: Node) -> None:
        """Refuse a column that is neither grouped by nor aggregated."""
        if made in keys or made.word.startswith("aggregate") or made.word == "filter":
            return
        if made.word == "column":
            name = made.text.partition("\0")[2]
            self.text.refuse(node, f"{name} is neither grouped by nor aggregated", "Add it to GROUP BY.")
        for each in made.parts:
            self.check_grouped(each, keys, node)

    # UNION --------------------------------------------------------------------------------------------

    def sets(self, node: Node, named: dict[str, Node]) -> MadeQuery:
        """UNION, INTERSECT and EXCEPT of released rows."""
        self.text.allow(node, above=True)
        if any(node.arguments.get(each) for each in ("by_name", "side", "kind")):
            self.text.refuse(node, "UNION BY NAME is not supported", "Select the columns in the same order.")
        named = self.named(node, named)
        parts = []
        for each in (node.this, node.expression):
            if self.level(each, named) == "people":
                told = "a part of this query is about single rows of people"
                self.text.refuse(each, told, "Aggregate in each part.")
            parts.append(self.query(each, named))
        if node.get("limit") is not None and node.get("order") is None and any(map(is_sorted, parts)):
            told = "no order of rows is kept from the parts of a UNION"
            self.text.refuse(node, told, "Write ORDER BY behind the last part, before LIMIT.")
        parts = [self.unsorted(each) for each in parts]
        distinct = bool(node.arguments.get("distinct"))
        how: Any = _SETS[node.kind] + ("" if distinct or node.kind != "Union" else " ALL")
        if not distinct and node.kind != "Union":
            self.text.refuse(node, f"{_SETS[node.kind]} ALL is not supported", f"Write {_SETS[node.kind]}.")
        first, second = parts
        if len(first.columns) != len(second.columns):
            told = f"the parts of {how} have different numbers of columns"
            self.text.refuse(node, told, "Select the same number in each part.")
        hidden = 1 + first.hidden + second.hidden if how == "UNION ALL" else 0
        hidden = hidden if hidden <= MOST_TRACED else 0
        columns = []
        for a, b in zip(first.columns, second.columns, strict=True):
            kind = wider([a.kind, b.kind])
            if kind is None:
                told = f"{a.name} is {a.kind} in one part and {b.kind} in the other"
                self.text.refuse(node, told, "Cast one of them.")
            columns.append(
                MadeColumn(
                    a.name,
                    kind,
                    a.noisy or b.noisy,
                    either(a.trace, b.trace, first.hidden),
                    widest([a.held, b.held]),
                )
            )
        if not hidden:
            columns = [replace(column, trace=None) for column in columns]
        if node is self.top:
            names = apart([column.name for column in columns], ("", "_low", "_high"), True)
            columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        selected = first.selected or second.selected or (how != "UNION ALL" and any(c.noisy for c in columns))
        found = MadeUnion(how, (first, second), tuple(columns), hidden, selected=selected)
        limit, offset = self.reader(named, node).limits(node)
        if node.get("order") is None and limit is None and offset is None:
            return found
        inside = f"s{next(self.aliases)}"
        scope = MadeScope((MadeName("", inside, found),))
        reader = self.reader(named, node)
        items = tuple((c.name, replace(column_of(inside, c), trace=None)) for c in columns)
        order = reader.ordered(node.get("order"), scope, items)
        is_cut = (limit is not None or offset is not None) and any(each.by.noisy for each in order)
        rows = tuple(row_of(inside, at) for at in range(hidden))
        return MadeSelect(
            tuple(columns), tuple(made for _, made in items), rows, (MadeSource(inside, found),),
            order=order, limit=limit, offset=offset, selected=selected or is_cut,
        )  # fmt: skip
