"""Windows over the rows of one person, in a subquery: ROW_NUMBER, LAG, FIRST_VALUE, COUNT(*) OVER.

What is said of a row there must follow from rows of the same person alone, so PARTITION BY names the person.
Rows that ORDER BY does not tell apart are put into an order of their own, by all that is used of them: which
of them the engine happens to see first must not matter (law 7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from sfumato.queries.expressions import Constant, Domain, Field, Scalar, constant, possible
from sfumato.queries.folding import one_fold
from sfumato.queries.narrowing import filtered
from sfumato.queries.reading import is_person
from sfumato.queries.relations import Folded, Place, Placed, Sorted
from sfumato.queries.scopes import FromItem, Scope
from sfumato.queries.syntax import Node, word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.queries.reading import Reader
    from sfumato.queries.relations import Relation

MOST_LATER = 1000  # rows that LAG and LEAD look back or ahead
OVER_ONE = "Write: ... OVER (PARTITION BY person ORDER BY x), with the column that names the person."
_NUMBERS = {"RowNumber": "number", "Rank": "rank", "DenseRank": "dense rank"}
_FIRST = ("ArgMin", "ArgMax", "First", "Last")
_TOTALS = ("Count", "CountIf", "Sum", "Avg", "Min", "Max", "LogicalOr", "LogicalAnd", "Filter")
_Sorting = tuple[tuple[Scalar, ...], tuple[Sorted, ...]]  # PARTITION BY beside the person, ORDER BY


def windows_of(select: Node) -> list[Node]:
    """The windows of a SELECT: in what is selected, and in QUALIFY."""
    clause = select.get("qualify")
    return [
        found
        for each in (*select.nodes(), *([] if clause is None else [clause]))
        for found in _outside(each, ("Window",))
    ]


def firsts_of(node: Node) -> list[Node]:
    """What gives the value of the first of some rows: ARG_MIN(x, y), FIRST(x ORDER BY y)."""
    found = _outside(node, (*_FIRST, "Filter"))
    return [each for each in found if each.kind != "Filter" or each.this.kind in _FIRST]


def _outside(node: Node, kinds: tuple[str, ...]) -> Iterator[Node]:
    """The outermost nodes of some kinds, none of a subquery."""
    if node.kind in kinds:
        yield node
    elif node.kind not in ("Select", "Subquery"):
        for part in node.parts:
            yield from _outside(part, kinds)


@dataclass(slots=True)
class Windowing:
    """Makes columns of windows: rows are placed once for each order that is asked for."""

    reader: Reader
    number: Callable[[Node], int]  # of a new relation
    select: Node
    relation: Relation
    scope: Scope
    found: dict[_Sorting, tuple[int, list[Place], list[Folded]]] = field(default_factory=dict)
    columns: dict[str, Scalar] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # by the identity of nodes

    def refuse(self, node: Node, problem: str, advice: str) -> NoReturn:
        self.reader.text.refuse(node, problem, advice)

    def read(self, nodes: list[Node]) -> None:
        """Make a column of each of these."""
        for each in nodes:
            self.check(each)
            name = f"window {len(self.names)}"
            self.names[id(each)] = name
            self.columns[name] = self.window(each)

    def check(self, node: Node) -> None:
        if self.relation.public or not self.relation.by_person:
            self.refuse(
                node, f"{word(node)} works on rows of one person here", "Leave it out for other tables."
            )

    def placed(self) -> Relation:
        """The rows with all these columns."""
        relation = self.relation
        for (within, order), (number, places, totals) in self.found.items():
            relation = Placed(number, relation, within, order, tuple(places), tuple(totals))
        return relation

    def inside(self) -> Scope:
        """The names of the rows, and those of these columns."""
        return Scope((*self.scope.sources, FromItem("", self.columns, self.relation)))

    def without(self, node: Node) -> Node:
        """The same with columns in the place of windows."""
        if (name := self.names.get(id(node))) is not None:
            start, end = node.span or (-1, 0)
            column = Node("Column", {"this": Node("Identifier", {"this": name})}, start, end - 1)
            around = "Paren" if node.kind == "Window" else "AnyValue"  # the same for all rows of a group
            return Node(around, {"this": column}, start, end - 1)
        parts: dict[str, Node | list[Node] | str | bool] = {}
        for key, value in node.arguments.items():
            if isinstance(value, Node):
                parts[key] = self.without(value)
            else:
                parts[key] = [self.without(one) for one in value] if isinstance(value, list) else value
        return Node(node.kind, parts, node.start, node.end, node.called)

    # One window ---------------------------------------------------------------------------------------

    def window(self, node: Node) -> Scalar:
        """The column that a window is."""
        text, inner = self.reader.text, node.this
        text.allow(node, above=True)
        within, order, is_whole = self.over(node)
        if inner.kind in _TOTALS:
            return self.total(inner, (within, () if is_whole else order))
        if inner.kind == "IgnoreNulls":
            self.refuse(inner, "IGNORE NULLS is not supported here", "Leave it out.")
        text.allow(inner, above=True)
        if not order:
            self.refuse(node, f"{word(inner)} needs ORDER BY", "Write: OVER (PARTITION BY person ORDER BY x)")
        at = within, order
        if inner.kind in _NUMBERS:
            if inner.nodes():
                self.refuse(inner, f"{word(inner)} takes no arguments", f"Write: {word(inner)}() OVER (...)")
            most = constant(self.relation.rows or 1, "integer").domain.high
            place = Place(_NUMBERS[inner.kind])  # type: ignore[arg-type]  # from the table
            return self.column(at, place, Domain("integer", constant(1, "integer").domain.low, most))
        if inner.kind in ("Lag", "Lead"):
            count = self.reader.whole(inner.get("offset"), Scope(()), 0, MOST_LATER, default=1)
            assert isinstance(count, Constant)
            assert isinstance(count.value, int)
            if inner.get("default") is not None:
                told = f"COALESCE({word(inner)}(x) OVER (...), 0)"
                self.refuse(inner["default"], "the third argument is not supported here", f"Write: {told}")
            later = count.value if inner.kind == "Lead" else -count.value
            return self.beside(at, inner, later)
        if inner.kind == "FirstValue":
            return self.first(at, self.reader.raw(inner.this, self.scope))
        return self.refuse(
            node,
            f"{word(inner)} is not supported over rows of a person",
            "Use ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, COUNT, SUM, AVG, MIN or MAX.",
        )

    def beside(self, at: _Sorting, inner: Node, later: int) -> Scalar:
        value = self.reader.raw(inner.this, self.scope)
        return self.column(at, Place("beside", value, later), _maybe_missing(value))

    def first(self, at: _Sorting, value: Scalar) -> Scalar:
        return self.column(at, Place("first", value), _maybe_missing(value))

    def column(self, at: _Sorting, place: Place, domain: Domain) -> Scalar:
        number, places, _ = self.at(at)
        if place not in places:
            places.append(place)
        return Field(f"t{number}.p{places.index(place)}", domain)

    def total(self, inner: Node, at: _Sorting) -> Scalar:
        folded, domain = one_fold(self.reader, inner, self.scope, self.relation)
        if folded.function == "distinct":
            self.refuse(inner, "COUNT(DISTINCT) is not supported in a window", "Count in a subquery.")
        number, _, totals = self.at(at)
        if folded not in totals:
            totals.append(folded)
        return Field(f"t{number}.{totals.index(folded)}", domain)

    def at(self, at: _Sorting) -> tuple[int, list[Place], list[Folded]]:
        if at not in self.found:
            self.found[at] = self.number(self.select), [], []
        return self.found[at]

    def over(self, node: Node) -> tuple[tuple[Scalar, ...], tuple[Sorted, ...], bool]:
        """PARTITION BY beside the person, ORDER BY, and whether all rows count in totals."""
        spec = node
        if node.get("alias") is not None:
            named = [each for each in self.select.nodes("windows") if each.name.lower() == node.alias.lower()]
            if not named:
                self.refuse(node, f"there is no window {node.alias}", "Write: OVER (PARTITION BY ...)")
            spec = named[0]
            self.reader.text.allow(spec, above=True)
            if node.get("order") or node.get("spec") or node.nodes("partition_by") or spec.get("alias"):
                self.refuse(
                    node, "a named window cannot be extended here", "Write it out: OVER (PARTITION BY ...)"
                )
        keys = [self.reader.raw(each, self.scope) for each in spec.nodes("partition_by")]
        if not any(map(self.reader.is_one_persons, keys)):
            told = f"{word(node.this)} would look at rows of other people"
            self.refuse(node, told, OVER_ONE)
        order = self.sorted_by(spec.get("order"))
        within = tuple(dict.fromkeys(key for key in keys if not is_person(key)))
        frame = spec.get("spec")
        is_whole = not order
        if frame is not None:
            self.reader.text.allow(frame, above=True)
            ends = [frame.text(name).upper() for name in ("start", "start_side", "end", "end_side")]
            ends_here = ends[2] in ("CURRENT ROW", "")
            is_whole = ends[2:] == ["UNBOUNDED", "FOLLOWING"]
            is_first = node.this.kind == "FirstValue"
            is_range = frame.text("kind").upper() == "RANGE" or is_whole or is_first
            counted = frame.get("start") is not None or frame.get("end") is not None  # 1 PRECEDING
            begins = ends[:2] == ["UNBOUNDED", "PRECEDING"] and not counted
            if not begins or not (ends_here or is_whole) or not is_range:
                self.refuse(
                    node,
                    "this frame is not supported over rows of a person",
                    "Leave it out, or write: RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                )
        return within, order, is_whole

    def sorted_by(self, clause: Node | None) -> tuple[Sorted, ...]:
        """What rows are sorted by."""
        found = []
        for item in [] if clause is None else clause.nodes():
            self.reader.text.allow(item)
            ways = [bool(item.arguments.get(name)) for name in ("desc", "nulls_first")]
            by = self.reader.raw(item.this, self.scope)
            if isinstance(by, Constant):
                self.refuse(item, "ORDER BY takes columns here", "Write: ORDER BY day")
            found.append(Sorted(by, *ways))
        return tuple(found)


def windowed(
    reader: Reader, number: Callable[[Node], int], select: Node, relation: Relation, scope: Scope
) -> tuple[Node, Relation, Scope]:
    """A SELECT whose windows are columns of its rows; with those for which QUALIFY holds."""
    windows = Windowing(reader, number, select, relation, scope)
    nodes = windows_of(select)
    if not nodes:
        return select, relation, scope
    if select.get("group") is not None:
        windows.refuse(
            nodes[0],
            f"{word(nodes[0].this)} stands beside GROUP BY",
            "Put GROUP BY into a subquery of its own.",
        )
    windows.read(nodes)
    plain = {name: value for name, value in select.arguments.items() if name not in ("qualify", "windows")}
    plain["expressions"] = [windows.without(each) for each in select.nodes()]
    changed, inside = Node("Select", plain, select.start, select.end), windows.inside()
    relation = windows.placed()
    if (clause := select.get("qualify")) is not None:
        reader.text.allow(clause, above=True)
        known = {name.lower() for source in inside.sources for name in source.columns}
        aliases = {
            each.alias: reader.raw(each.this, inside)
            for each in changed.nodes()
            if each.kind == "Alias" and each.alias.lower() not in known
        }
        named = Scope((*inside.sources, FromItem("", aliases, relation)))
        relation = filtered(relation, reader.condition(windows.without(clause.this), named))
    return changed, relation, inside


def first_ones(
    reader: Reader,
    number: Callable[[Node], int],
    select: Node,
    nodes: list[Node],
    relation: Relation,
    scope: Scope,
    keys: list[Scalar],
) -> tuple[Windowing, Relation]:
    """The rows of which ARG_MIN, FIRST and their kin are taken, by these keys: each with the first value."""
    windows = Windowing(reader, number, select, relation, scope)
    within = tuple(dict.fromkeys(key for key in keys if not is_person(key)))
    call = reader.call
    for whole in nodes:
        windows.check(whole)
        reader.text.allow(whole, above=True)
        is_filtered = whole.kind == "Filter"
        node = whole.this if is_filtered else whole
        reader.text.allow(node, above=True)
        inner = node.this
        if node.kind in ("ArgMin", "ArgMax"):
            value, by = (reader.raw(each, scope) for each in (inner, node.expression))
            nothing = constant(None, value.domain.kind)
            by = call(node, "case", call(node, "is null", value), constant(None, by.domain.kind), by)
            value = call(node, "case", call(node, "is null", by), nothing, value)
            order: tuple[Sorted, ...] = (Sorted(by, node.kind == "ArgMax"),)
        else:
            if inner.kind != "Order":
                windows.refuse(
                    node, f"{word(node)} needs an order", f"Write: {node.kind.upper()}(x ORDER BY y)"
                )
            value, order = reader.raw(inner.this, scope), windows.sorted_by(inner)
            if node.kind == "Last":
                order = tuple(
                    replace(s, descending=not s.descending, nulls_first=not s.nulls_first) for s in order
                )
        if is_filtered:
            reader.text.allow(whole.expression)
            holds = reader.condition(whole.expression.this, scope)
            others = call(node, "case", holds, constant(0, "integer"), constant(1, "integer"))
            order = Sorted(others), *order
            value = call(node, "case", holds, value, constant(None, value.domain.kind))
        name = f"window {len(windows.names)}"
        windows.names[id(whole)] = name
        windows.columns[name] = windows.first((within, order), value)
    return windows, windows.placed()


def _maybe_missing(value: Scalar) -> Domain:
    keys = value.domain.keys
    if keys is None and value.domain.kind == "text":
        keys = possible(value)
    return replace(value.domain, keys=keys, required=False, tuned=None)
