"""Answers SELECTs about the catalog: a small interpreter of SQL over the tables of `catalog`.

An analyst's text never reaches an engine (law 8), and a query about the catalog is an analyst's text, too. So
it is read by the same parser as a question, and evaluated here, by nested loops over a few hundred rows of
public facts; conditions are tested as early as they can be. What is not on the list is refused. The work is
counted and bounded.

A query is compiled first, which gives the names and types of its columns without running it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.errors import SyntaxRefused, UnknownName, Unsupported
from sfumato.queries.syntax import Node, bare
from sfumato.server.catalog.catalog import typeinfo
from sfumato.server.catalog.evaluate import (
    CatalogQuery,
    CatalogScope,
    CatalogSource,
    Equal,
    Evaluator,
    Expressions,
    Frame,
    Row,
    aggregates,
    column_of,
    distinct,
    function_of,
    hashable,
    in_order,
    own,
    type_of,
)
from sfumato.server.catalog.scalars import LETTERS, NUMBERS, compare, refused
from sfumato.server.catalog.values import (
    BOOL,
    ELEMENT,
    INT4,
    TEXT,
    TYPES,
    UNKNOWN,
    ResultField,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sfumato.server.catalog.catalog import Catalog

MOST_STEPS = 2_000_000
SECONDS = 1.0  # for one statement; the catalog is public, and so is how long it takes to read it
LOOK = 500  # steps between two looks at the clock
FRAME = 20  # steps for a combination of rows that is kept
DEEPEST = 20  # queries inside queries
LONGEST_SERIES = 10_000  # of a series


class Lookup(Expressions):
    """Compiles and runs one statement."""

    def __init__(self, catalog: Catalog, sql: str, types: Sequence[int] = ()) -> None:
        super().__init__(catalog, sql, types)
        self._steps = 0
        self._looked = 0  # at the clock, after so many steps
        self._end = time.monotonic() + SECONDS
        self._depth = 0

    def compile(self, tree: Node) -> CatalogQuery:
        """The query, or its refusal."""
        for node in tree.walk():
            if node.kind == "Identifier" and not node.arguments.get("quoted"):
                node.arguments["this"] = node.text().lower()
        with _foreseen():
            found = self._query(tree, None, {})
        named = [ResultField(each.name, TEXT if each.oid == UNKNOWN else each.oid) for each in found.fields]
        return CatalogQuery(named, found.run)

    def types_known(self) -> CatalogQuery:
        """What is known of the types whose numbers the first value lists."""
        self.types = [TYPES["oid"].array]
        shape = typeinfo(())
        fields = [ResultField(name, oid) for name, oid in zip(shape.names, shape.types, strict=True)]
        return CatalogQuery(fields, lambda _: list(typeinfo(self._values[0] or ()).rows))

    def run(self, query: CatalogQuery, values: Sequence[Any] = ()) -> list[Row]:
        """Its rows."""
        self._values, self._steps, self._looked = values, 0, 0
        self._end = time.monotonic() + SECONDS
        with _foreseen():
            return query.run(None)

    def _work(self, steps: int) -> None:
        self._steps += steps
        is_late = False
        if self._steps - self._looked > LOOK:
            self._looked, is_late = self._steps, time.monotonic() > self._end
        if self._steps > MOST_STEPS or is_late:
            raise Unsupported("this query about the catalog takes too long", "Ask a simpler one.")

    # Queries ------------------------------------------------------------------------------------------

    def _query(self, node: Node, outer: CatalogScope | None, named: dict[str, CatalogQuery]) -> CatalogQuery:
        self._depth += 1
        if self._depth > DEEPEST:
            raise refused("nesting this deep")
        try:
            if (with_ := node.get("with_")) is not None:
                if with_.arguments.get("recursive"):
                    raise refused("WITH RECURSIVE")
                named = dict(named)
                for each in with_.nodes():
                    named[each.alias.lower()] = self._renamed(
                        self._query(each.this, outer, named), each["alias"]
                    )
            match node.kind:
                case "Subquery" | "Paren":
                    return self._query(node.this, outer, named)
                case "Union":
                    return self._counted(self._union(node, outer, named))
                case "Values":
                    return self._counted(self._values_query(node, outer, named))
                case "Select":
                    return self._counted(self._select(node, outer, named))
            raise refused(node.kind.upper())
        finally:
            self._depth -= 1

    def _counted(self, query: CatalogQuery) -> CatalogQuery:
        """The same, where every run is work, also one that reads no row."""

        def run(around: Frame | None) -> list[Row]:
            self._work(5)
            rows = query.run(around)
            self._work(len(rows))
            return rows

        return CatalogQuery(query.fields, run)

    def _renamed(self, query: CatalogQuery, alias: Node) -> CatalogQuery:
        names = [each.name for each in alias.nodes("columns")]
        if not names:
            return query
        fields = [ResultField(name, old.oid) for name, old in zip(names, query.fields, strict=False)]
        return CatalogQuery([*fields, *query.fields[len(fields) :]], query.run)

    def _union(self, node: Node, outer: CatalogScope | None, named: dict[str, CatalogQuery]) -> CatalogQuery:
        left = self._query(node.this, outer, named)
        right = self._query(node.expression, outer, named)
        if len(left.fields) != len(right.fields):
            raise SyntaxRefused("the parts of UNION have different numbers of columns", "Make them equal.")
        fields = [
            ResultField(a.name, b.oid if a.oid == UNKNOWN else a.oid)
            for a, b in zip(left.fields, right.fields, strict=True)
        ]
        both = CatalogSource("", tuple(f.name for f in fields), tuple(f.oid for f in fields), lambda _: ())
        scope = CatalogScope([both], outer, named)
        order, limit = self._order(node, scope, fields, {}), self._limit(node, scope)

        def run(around: Frame | None) -> list[Row]:
            rows = [*left.run(around), *right.run(around)]
            if node.arguments.get("distinct"):
                rows = distinct(rows)
            frames = [Frame([row], around) for row in rows]
            return limit(in_order(list(zip(rows, frames, strict=True)), order), around)

        return CatalogQuery(fields, run)

    def _values_query(
        self, node: Node, outer: CatalogScope | None, named: dict[str, CatalogQuery]
    ) -> CatalogQuery:
        scope = CatalogScope([], outer, named)
        lines = [[self._value(each, scope) for each in line.nodes()] for line in node.nodes()]
        fields = [
            ResultField(f"column{n}", value.oid) for n, value in enumerate(lines[0] if lines else [], 1)
        ]
        run = lambda around: [tuple(value.of(Frame([], around)) for value in line) for line in lines]  # noqa: E731
        return CatalogQuery(fields, run)

    def _select(self, node: Node, outer: CatalogScope | None, named: dict[str, CatalogQuery]) -> CatalogQuery:
        for name in ("windows", "qualify", "laterals", "locks", "sample", "into"):
            if node.arguments.get(name):
                raise refused(name.upper())
        scope = CatalogScope([], outer, named)
        tests = self._from(node, scope)
        if (where := node.get("where")) is not None:
            tests += [self._value(each, scope) for each in _conjuncts(where.this)]
        outputs = self._outputs(node, scope)
        fields = [ResultField(name, value.oid) for name, value in outputs]
        group = self._group(node, scope, outputs)
        having = node.get("having")
        kept = None if having is None else self._value(having.this, scope)
        order = self._order(node, scope, fields, dict(outputs))
        limit = self._limit(node, scope)
        windows = self._numbered(node, scope)
        is_distinct = node.get("distinct") is not None
        if is_distinct and node["distinct"].get("on") is not None:
            raise refused("DISTINCT ON")

        def run(around: Frame | None) -> list[Row]:
            frames: Iterable[Frame] = self._bound(scope, tests, around)
            if group is not None:
                frames = _grouped(frames, group, around, len(scope.sources))
                if kept is not None:
                    frames = [each for each in frames if kept.of(each) is True]
            found = list(frames)
            for number in windows:
                number(found)
            self._work(len(found) * (1 + len(outputs) // 4))
            pairs = [(tuple(value.of(frame) for _, value in outputs), frame) for frame in found]
            if is_distinct:
                pairs = list({hashable(row): (row, frame) for row, frame in reversed(pairs)}.values())[::-1]
            return limit(in_order(pairs, order), around)

        return CatalogQuery(fields, run)

    # FROM ---------------------------------------------------------------------------------------------

    def _from(self, node: Node, scope: CatalogScope) -> list[Evaluator]:
        """Fill the scope; the conditions of inner joins."""
        tests: list[Evaluator] = []
        if (first := node.get("from_")) is None:
            return tests
        self._add(first.this, scope, tests)
        for join in node.nodes("joins"):
            self._join(join, scope, tests)
        return tests

    def _join(self, join: Node, scope: CatalogScope, tests: list[Evaluator]) -> None:
        side, kind = join.text("side").upper(), join.text("kind").upper()
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER") or join.text("method"):
            raise refused(f"{side or join.text('method') or kind} JOIN")
        before = len(scope.sources)
        self._add(join.this, scope, tests)
        conditions = []
        if (on := join.get("on")) is not None:
            conditions = [self._value(each, scope) for each in _conjuncts(on)]
        for name in join.nodes("using"):
            conditions.append(self._using(name.name, scope, before))
        if side == "LEFT":
            if len(scope.sources) != before + 1:
                raise refused("LEFT JOIN with several tables")
            scope.sources[before].left, scope.sources[before].on = True, conditions
        else:
            tests += conditions

    def _using(self, name: str, scope: CatalogScope, before: int) -> Evaluator:
        sides = []
        for part in (range(before), range(before, len(scope.sources))):
            places = [(n, scope.sources[n].names.index(name)) for n in part if name in scope.sources[n].names]
            if not places:
                raise UnknownName("column", name, (), sql=self._sql, span=None)
            sides.append(places[0])
        (a, i), (b, j) = sides
        uses = frozenset({a, b})
        return Evaluator(lambda f: compare("=", f.rows[a][i], f.rows[b][j]), BOOL, uses)

    def _add(self, node: Node, scope: CatalogScope, tests: list[Evaluator]) -> None:
        """One item of FROM."""
        alias = node.get("alias")
        called = alias.name if alias is not None else ""
        if node.kind == "Paren":
            self._add(node.this, scope, tests)
            return
        if node.kind in ("Subquery", "Values"):
            if node.kind == "Subquery" and node.this.kind == "Table":
                self._add(node.this, scope, tests)
                for join in node.this.nodes("joins"):
                    self._join(join, scope, tests)
                return
            query = self._query(node if node.kind == "Values" else node.this, scope.outer, scope.named)
            if alias is not None:
                query = self._renamed(query, alias)
            scope.sources.append(_of_query(called, query))
            return
        if node.kind != "Table":
            scope.sources.append(self._series(node, called, alias, scope))
            return
        inner, schema = node.this, node["db"].name if node.get("db") else ""
        if inner.kind != "Identifier":
            scope.sources.append(self._series(inner, called, alias, scope))
            return
        scope.sources.append(self._table(inner.name, schema, called, scope, node))
        if alias is not None and alias.nodes("columns"):
            given = [each.name for each in alias.nodes("columns")]
            source = scope.sources[-1]
            source.names = (*given, *source.names[len(given) :])

    def _table(self, name: str, schema: str, alias: str, scope: CatalogScope, node: Node) -> CatalogSource:
        if not schema and (query := scope.named.get(name.lower())) is not None:
            return _of_query(alias or name, query)
        key = f"information_schema.{name.lower()}" if schema == "information_schema" else name.lower()
        table = self._catalog.tables.get(key) if schema in ("", "pg_catalog", "information_schema") else None
        if table is None:
            known = [*self._catalog.tables]
            raise UnknownName("table in the catalog", name, known, sql=self._sql, span=node.span)
        qualified = f"{schema}.{name}" if schema else ""
        rows = table.rows
        return CatalogSource(alias or name, table.names, table.types, lambda _: rows, qualified=qualified)

    def _series(self, node: Node, called: str, alias: Node | None, scope: CatalogScope) -> CatalogSource:
        """A function in FROM."""
        while node.kind == "Dot":
            node = node.expression
        name, arguments = function_of(node)
        values = [self._value(each, scope) for each in arguments]
        columns = [each.name for each in alias.nodes("columns")] if alias is not None else []

        def series(frame: Frame) -> list[Row]:
            given = [value.of(frame) for value in values]
            if any(not isinstance(each, int) for each in given):
                raise refused("a series of anything but integers")
            start, end, step = [*given, 1][:3]
            if not step or abs(end - start) // abs(step) > LONGEST_SERIES:
                raise refused("a series this long")
            return [(n,) for n in range(start, end + (1 if step > 0 else -1), step)]

        def unnested(frame: Frame) -> list[Row]:
            return [(each,) for each in values[0].of(frame) or ()]

        if name in ("generate_series", "exploding_generate_series"):
            called = called or "generate_series"
            return CatalogSource(called, tuple(columns or [called]), (INT4,), series)
        if name in ("unnest", "explode"):
            oid = ELEMENT.get(values[0].oid, TEXT)
            return CatalogSource(called or "unnest", tuple(columns or [called or "unnest"]), (oid,), unnested)
        if name == "pg_get_keywords":
            words = tuple(columns or ("word", "catcode", "catdesc"))
            return CatalogSource(called or name, words, (TEXT,) * len(words), lambda _: ())
        if name in ("pg_available_extensions", "pg_partition_ancestors", "pg_options_to_table", "aclexplode"):
            return CatalogSource(
                called or name, tuple(columns or [name]), (TEXT,) * max(1, len(columns)), lambda _: ()
            )
        raise refused(f"{name}() in FROM")

    def _bound(self, scope: CatalogScope, tests: list[Evaluator], around: Frame | None) -> Iterator[Frame]:
        """All combinations of rows that pass, each tested as early as it can be."""
        sources = scope.sources
        at: list[list[Evaluator]] = [[] for _ in range(len(sources) + 1)]
        for test in tests:
            at[max(test.uses, default=-1) + 1].append(test)
        frame = Frame([()] * len(sources), around)
        if any(test.of(frame) is not True for test in at[0]):
            return
        if any(
            not each.left and each.alias and not _depends(each) and not each.rows(frame) for each in sources
        ):
            return  # something that must be there is not
        index: dict[int, tuple[dict[Any, list[Row]], Evaluator]] = {}
        for n, source in enumerate(sources):
            probe = _probe(n, source.on if source.left else at[n + 1])
            if probe is not None:
                place, other = probe
                rows: dict[Any, list[Row]] = {}
                for row in source.rows(frame):
                    rows.setdefault(row[place], []).append(row)
                index[n] = (rows, other)

        def bind(n: int) -> Iterator[Frame]:
            if n == len(sources):
                self._work(FRAME)
                yield _copied(frame)
                return
            source = sources[n]
            found: Sequence[Row] = ()
            if n in index:
                rows, other = index[n]
                key = other.of(frame)
                found = rows.get(key, ()) if key is not None else ()
            else:
                found = source.rows(frame)
            is_matched = False
            for row in found:
                self._work(1)
                frame.rows[n] = row
                if source.left:
                    if any(test.of(frame) is not True for test in source.on):
                        continue
                    is_matched = True
                if all(test.of(frame) is True for test in at[n + 1]):
                    yield from bind(n + 1)
            if source.left and not is_matched:
                frame.rows[n] = (None,) * len(source.names)
                if all(test.of(frame) is True for test in at[n + 1]):
                    yield from bind(n + 1)

        yield from bind(0)

    # What is selected ---------------------------------------------------------------------------------

    def _outputs(self, node: Node, scope: CatalogScope) -> list[tuple[str, Evaluator]]:
        found: list[tuple[str, Evaluator]] = []
        for each in node.nodes():
            inner = each.this if each.kind == "Alias" else each
            if inner.kind == "Star" or (
                inner.kind == "Column" and inner.get("this") and inner.this.kind == "Star"
            ):
                wanted = inner["table"].name if inner.kind == "Column" and inner.get("table") else ""
                for n, source in enumerate(scope.sources):
                    if wanted in ("", source.alias):
                        found += [
                            (name, column_of(n, place, source.types[place], 0))
                            for place, name in enumerate(source.names)
                        ]
                continue
            found.append((each.alias if each.kind == "Alias" else _name(inner), self._value(inner, scope)))
        return found

    def _group(
        self, node: Node, scope: CatalogScope, outputs: list[tuple[str, Evaluator]]
    ) -> list[Evaluator] | None:
        group = node.get("group")
        if group is None:
            is_aggregate = any(aggregates(each) for each in node.nodes())
            return [] if is_aggregate else None
        keys = []
        named = dict(outputs)
        for each in group.nodes():
            if each.kind == "Literal" and each.name.isdecimal():
                keys.append(outputs[int(each.name) - 1][1])
            elif (
                each.kind == "Column"
                and not each.get("table")
                and each.name in named
                and not self._has(each, scope)
            ):
                keys.append(named[each.name])
            else:
                keys.append(self._value(each, scope))
        return keys

    def _has(self, node: Node, scope: CatalogScope) -> bool:
        return any(node.name in source.names for source in scope.sources)

    def _limit(self, node: Node, scope: CatalogScope) -> Callable[[list[Row], Frame | None], list[Row]]:
        limit = node.get("limit")
        if limit is not None and limit.kind == "Fetch":
            most = self._value(limit["count"], scope) if limit.get("count") else None
        else:
            most = self._value(limit.expression, scope) if limit is not None else None
        skip = self._value(node["offset"].expression, scope) if node.get("offset") else None

        def cut(rows: list[Row], around: Frame | None) -> list[Row]:
            frame = Frame([], around)
            first = 0 if skip is None else int(skip.of(frame) or 0)
            count = None if most is None else most.of(frame)
            return rows[first:] if count is None else rows[first : first + int(count)]

        return cut

    def _numbered(self, node: Node, scope: CatalogScope) -> list[Callable[[list[Frame]], None]]:
        """row_number() of every frame: computed when all frames are known."""
        found: list[Callable[[list[Frame]], None]] = []
        for window in (each for part in node.nodes() for each in own(part) if each.kind == "Window"):
            if window.this.kind != "RowNumber":
                raise refused("a window function")
            parts = [self._value(each, scope) for each in window.nodes("partition_by")]
            order = self._order(window, scope, [], {})
            number = id(window)

            def count(
                frames: list[Frame],
                parts: list[Evaluator] = parts,
                order: list[tuple[Callable[[Row, Frame], Any], bool]] = order,
                number: int = number,
            ) -> None:
                groups: dict[Any, list[Frame]] = {}
                for frame in frames:
                    groups.setdefault(hashable(tuple(part.of(frame) for part in parts)), []).append(frame)
                for group in groups.values():
                    pairs = [((n,), frame) for n, frame in enumerate(group)]
                    for place, (n,) in enumerate(in_order(pairs, order), 1):
                        group[n].numbers[number] = place

            found.append(count)
        return found


@contextmanager
def _foreseen() -> Iterator[None]:
    """Values that do not fit where they stand are refused: nothing here is private, so nothing is told."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
        raise refused("a value of this kind in this place") from None


def _probe(n: int, tests: list[Evaluator]) -> tuple[int, Evaluator] | None:
    """A column of source n and what it must equal, if that is known before n is bound."""
    for test in tests:
        if isinstance(test.of, Equal):
            for one, other in ((test.of.a, test.of.b), (test.of.b, test.of.a)):
                same = {one.oid, other.oid} <= NUMBERS or {one.oid, other.oid} <= LETTERS
                if one.column and one.column[0] == n and same and max(other.uses, default=-1) < n:
                    return one.column[1], other
    return None


def _depends(source: CatalogSource) -> bool:
    """Whether its rows may depend on what is bound before: those of functions."""
    return source.rows.__name__ in ("series", "unnested")


def _of_query(alias: str, query: CatalogQuery) -> CatalogSource:
    names, types = tuple(each.name for each in query.fields), tuple(each.oid for each in query.fields)
    known: list[tuple[Frame | None, list[Row]]] = []

    def rows(frame: Frame) -> list[Row]:
        """The rows, worked out once for a frame around it."""
        if not known or known[0][0] is not frame.outer:
            known[:] = [(frame.outer, query.run(frame.outer))]
        return known[0][1]

    return CatalogSource(alias, names, types, rows)


def _name(node: Node) -> str:
    """What PostgreSQL calls a column that has no name of its own."""
    node = bare(node)
    match node.kind:
        case "Column":
            return node.name
        case "Dot":
            return _name(node.expression) if node.expression.kind != "Identifier" else node.expression.name
        case "Cast":
            inner = _name(node.this)
            return inner if inner != "?column?" else _spelled(node["to"])
        case "Case":
            inner = _name(node["default"]) if node.get("default") else "?column?"
            return inner if inner != "?column?" else "case"
        case "Boolean":
            return "bool"
        case "Subquery" | "Select":
            inside = node.this if node.kind == "Subquery" else node
            first = next(iter(inside.nodes()), None)
            return "?column?" if first is None else first.alias if first.kind == "Alias" else _name(first)
        case "Collate":
            return _name(node.this)
        case "Window":
            return "row_number"
        case "Coalesce" | "Nullif" | "Array" | "Exists":
            return node.kind.lower()
        case "Bracket":
            return _name(node.this)
        case "Explode":
            return "unnest"
    known = node.called.removeprefix("the function ").removesuffix("()").lower()
    renamed = {"group_concat": "string_agg", "logical_and": "bool_and", "trim": "btrim"}
    renamed |= {"current_version": "version", "current_timestamp": "now"}
    renamed["exploding_generate_series"] = "generate_series"
    return renamed.get(known, known) or "?column?"


def _spelled(node: Node) -> str:
    oid = type_of(node)
    return next((each.name for each in TYPES.values() if each.oid == oid), "?column?")


def _conjuncts(node: Node) -> list[Node]:
    node = bare(node)
    return [part for each in node.nodes() for part in _conjuncts(each)] if node.kind == "And" else [node]


def _grouped(
    frames: Iterable[Frame], keys: list[Evaluator], around: Frame | None, sources: int
) -> list[Frame]:
    groups: dict[Any, list[Frame]] = {}
    for frame in frames:
        groups.setdefault(hashable(tuple(key.of(frame) for key in keys)), []).append(frame)
    if not groups and not keys:
        groups[()] = []
    found = []
    for members in groups.values():
        first = _copied(members[0]) if members else Frame([()] * sources, around)
        first.group = members
        found.append(first)
    return found


def _copied(frame: Frame) -> Frame:
    return Frame(list(frame.rows), frame.outer)
