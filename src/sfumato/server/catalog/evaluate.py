"""Expressions of catalog queries, compiled: the value of each in a frame of rows, and its type.

`scalars` knows operators and functions, `lookup` the queries around and inside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, cast

from sfumato.errors import SyntaxRefused, UnknownName
from sfumato.queries.syntax import Node, bare
from sfumato.server.catalog import patterns, scalars
from sfumato.server.catalog.scalars import FUNCTIONS, LETTERS, compare, refused, type_named
from sfumato.server.catalog.values import (
    BOOL,
    DATE,
    ELEMENT,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TYPES,
    UNKNOWN,
    ResultField,
    array_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sfumato.server.catalog.catalog import Catalog

LONGEST_VALUE = 10_000  # letters or elements of a value that is made
LARGEST_NUMERIC = 10**38
DIGITS = Context(prec=2000)  # enough for what two decimals give
Row = tuple[Any, ...]


class Frame:
    """The rows that are bound while a query runs, and those of the query around it."""

    __slots__ = ("group", "numbers", "outer", "rows")

    def __init__(self, rows: list[Row], outer: Frame | None) -> None:
        self.rows, self.outer = rows, outer
        self.group: list[Frame] = []
        self.numbers: dict[int, int] = {}  # of window functions


@dataclass(frozen=True, slots=True)
class Evaluator:
    """An expression: its value in a frame, its type, and which sources of its own query it looks at."""

    of: Callable[[Frame], Any]
    oid: int
    uses: frozenset[int] = frozenset()
    column: tuple[int, int] | None = None  # if it is a column of a source of its own query


@dataclass(slots=True)
class CatalogSource:
    """Something in FROM."""

    alias: str
    names: tuple[str, ...]
    types: tuple[int, ...]
    rows: Callable[[Frame], Sequence[Row]]
    left: bool = False  # a left join
    on: list[Evaluator] = field(default_factory=list)
    qualified: str = ""  # pg_catalog.pg_class, by which columns may also be named


@dataclass(slots=True)
class CatalogScope:
    """The sources of a query, and of the one around it."""

    sources: list[CatalogSource]
    outer: CatalogScope | None
    named: dict[str, CatalogQuery]  # by WITH


@dataclass(frozen=True, slots=True)
class CatalogQuery:
    """A compiled query."""

    fields: list[ResultField]
    run: Callable[[Frame | None], list[Row]]


class Expressions(ABC):
    """Compiles the expressions of one statement."""

    def __init__(self, catalog: Catalog, sql: str, types: Sequence[int] = ()) -> None:
        self._catalog, self._sql = catalog, sql
        self.types = list(types)  # of parameters; 0 where nobody said
        self._values: Sequence[Any] = ()

    @abstractmethod
    def _work(self, steps: int) -> None:
        """Count what was done, and stop what takes too long."""

    def _bounded(self, value: Any) -> Any:
        """A value that was made, if it is not too long."""
        if isinstance(value, (str, list)):
            self._work(1 + len(value) // 100)
            if len(value) > LONGEST_VALUE:
                raise refused("a value so long")
        elif (isinstance(value, Decimal) and abs(value.adjusted()) > scalars.LARGEST_EXPONENT) or (
            isinstance(value, int) and not -LARGEST_NUMERIC < value < LARGEST_NUMERIC
        ):
            raise refused("a number this large")
        return value

    @abstractmethod
    def _query(self, node: Node, outer: CatalogScope | None, named: dict[str, CatalogQuery]) -> CatalogQuery:
        """A query inside an expression."""

    def _order(
        self, node: Node, scope: CatalogScope, fields: list[ResultField], outputs: dict[str, Evaluator]
    ) -> list[tuple[Callable[[Row, Frame], Any], bool]]:
        found: list[tuple[Callable[[Row, Frame], Any], bool]] = []
        names = [each.name for each in fields]
        del outputs
        for ordered in node["order"].nodes() if node.get("order") else []:
            each, down = bare(ordered.this), bool(ordered.arguments.get("desc"))
            if bool(ordered.arguments.get("nulls_first")) != down:
                raise refused(f"NULLS {'LAST' if down else 'FIRST'} here")
            if each.kind == "Literal" and each.name.isdecimal():
                place = int(each.name) - 1
                if not 0 <= place < len(names):
                    raise SyntaxRefused(f"ORDER BY {each.name} does not name a column", "Name one of them.")
                found.append((lambda row, _, place=place: row[place], down))  # type: ignore[misc]
            elif each.kind == "Column" and not each.get("table") and _place(each.name, names) is not None:
                at = _place(each.name, names)
                found.append((lambda row, _, at=at: row[at], down))  # type: ignore[misc]
            else:
                value = self._value(each, scope)
                found.append((lambda _, frame, value=value: value.of(frame), down))  # type: ignore[misc]
        return found

    def _value(self, node: Node, scope: CatalogScope) -> Evaluator:
        node = bare(node)
        match node.kind:
            case "Column":
                return self._column(node, scope)
            case "Literal":
                return self._literal(node)
            case "Boolean":
                truth = bool(node.arguments.get("this")) and node.text() != "False"
                return Evaluator(lambda _: truth, BOOL)
            case "Null":
                return Evaluator(lambda _: None, UNKNOWN)
            case "ByteString":  # E'...'
                text = node.text()
                return Evaluator(lambda _: text, TEXT)
            case "Parameter" | "Placeholder":
                return self._parameter(node)
            case "Alias" | "Collate":
                return self._value(node.this, scope)
            case "Dot":
                return self._dot(node, scope)
            case "Cast" | "TryCast":
                return self._cast(node, scope)
            case "And" | "Or":
                return self._junction(node, scope)
            case "Not":
                inner = self._value(node.this, scope)
                return Evaluator(lambda f: _not(inner.of(f)), BOOL, inner.uses)
            case "EQ" | "NEQ" | "LT" | "LTE" | "GT" | "GTE" | "NullSafeNEQ" | "NullSafeEQ":
                return self._comparison(node, scope)
            case "Is":
                return self._is(node, scope)
            case "In":
                return self._in(node, scope)
            case "Between" if node.arguments.get("symmetric"):
                raise refused("BETWEEN SYMMETRIC")
            case "Between":
                a, low, high = (self._value(node[name], scope) for name in ("this", "low", "high"))
                return Evaluator(_Within(a, low, high), BOOL, a.uses | low.uses | high.uses)
            case "Like" | "ILike" | "Escape" | "RegexpLike" | "RegexpILike" | "Operator":
                return self._pattern(node, scope)
            case "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Neg" | "BitwiseAnd" | "DPipe":
                return self._arithmetic(node, scope)
            case "Case":
                return self._case(node, scope)
            case "Coalesce":
                parts = [self._value(each, scope) for each in (node.this, *node.nodes())]
                first = lambda f: next((v for part in parts if (v := part.of(f)) is not None), None)  # noqa: E731
                return Evaluator(first, _common(parts), _uses(parts))
            case "Nullif":
                a, b = self._value(node.this, scope), self._value(node.expression, scope)
                nullif = lambda f: None if compare("=", a.of(f), b.of(f)) else a.of(f)  # noqa: E731
                return Evaluator(nullif, a.oid, a.uses | b.uses)
            case "Array":
                return self._array(node, scope)
            case "Bracket":
                return self._subscript(node, scope)
            case "Subquery" | "Select" | "Union":
                query = self._query(node, scope, scope.named)
                scalar = lambda f: next((row[0] for row in query.run(f)), None)  # noqa: E731
                return Evaluator(scalar, query.fields[0].oid, everything(scope))
            case "Exists":
                query = self._query(node.this, scope, scope.named)
                return Evaluator(lambda f: bool(query.run(f)), BOOL, everything(scope))
            case "Window":
                number = id(node)
                return Evaluator(lambda f: f.numbers.get(number), INT8, everything(scope))
            case "Tuple":
                parts = [self._value(each, scope) for each in node.nodes()]
                row = lambda f: self._flat([part.of(f) for part in parts])  # noqa: E731
                return Evaluator(row, TYPES["record"].oid, _uses(parts))
        return self._call(node, scope)

    def _column(self, node: Node, scope: CatalogScope) -> Evaluator:
        name, table = node.name, node["table"].name if node.get("table") else ""
        schema = node["db"].name if node.get("db") else ""
        depth, around = 0, scope
        if name == "tableoid":
            return Evaluator(lambda _: 0, OID)
        while True:
            for n, source in enumerate(around.sources):
                if table and source.alias != table:
                    continue
                if schema and source.qualified and source.qualified != f"{schema}.{table}":
                    continue
                if name in source.names:
                    place = source.names.index(name)
                    return column_of(n, place, source.types[place], depth)
                if not table and name == source.alias and len(source.names) == 1:
                    return column_of(n, 0, source.types[0], depth)  # a function in FROM, by its name
            if around.outer is None:
                break
            depth, around = depth + 1, around.outer
        keyword = name.lower()
        if not table and keyword in (
            "current_user",
            "session_user",
            "current_schema",
            "current_catalog",
            "user",
        ):
            oid, act = FUNCTIONS[keyword]
            return Evaluator(lambda _: act(self._catalog), oid)
        known = [each for source in scope.sources for each in source.names]
        raise UnknownName("column", name, known, sql=self._sql, span=node.span)

    def _literal(self, node: Node) -> Evaluator:
        text = node.text()
        if node.arguments.get("is_string"):
            return Evaluator(lambda _: text, UNKNOWN)
        if text.isdecimal():
            number = int(text)
            return Evaluator(lambda _: number, INT4 if number < 1 << 31 else INT8)
        value = Decimal(text)
        if abs(value.adjusted()) > scalars.LARGEST_EXPONENT:
            raise refused("this number")
        return Evaluator(lambda _: value, NUMERIC)

    def _parameter(self, node: Node) -> Evaluator:
        number = node.name
        if not number.isdecimal() or not 0 < int(number) <= 1000:
            raise refused("this parameter")
        place = int(number) - 1
        self.types += [0] * (place + 1 - len(self.types))

        def value(_: Frame) -> Any:
            return self._values[place] if place < len(self._values) else None

        return Evaluator(value, self.types[place] or UNKNOWN, column=None)

    def _typed(self, node: Node, oid: int) -> None:
        """A parameter whose type nobody gave has that of what it is compared with."""
        node = bare(node)
        if node.kind in ("Parameter", "Placeholder") and node.name.isdecimal():
            place = int(node.name) - 1
            self.types += [0] * (place + 1 - len(self.types))
            self.types[place] = self.types[place] or (TEXT if oid == UNKNOWN else oid)

    def _dot(self, node: Node, scope: CatalogScope) -> Evaluator:
        if node.this.kind == "Identifier":  # pg_catalog.format_type(...)
            return self._value(node.expression, scope)
        inner = self._value(node.this, scope)

        def part(_: Frame) -> Any:
            raise refused("a part of a row")

        return Evaluator(part, INT4, inner.uses)

    def _cast(self, node: Node, scope: CatalogScope) -> Evaluator:
        oid = type_of(node["to"])
        self._typed(node.this, oid)
        inner = self._value(node.this, scope)
        given = [each.text() or each.name for each in node["to"].nodes() if each.kind == "DataTypeParam"]
        if given:
            return Evaluator(
                lambda f: scalars.sized(scalars.cast(inner.of(f), oid, self._catalog), oid, given),
                oid,
                inner.uses,
            )
        return Evaluator(lambda f: scalars.cast(inner.of(f), oid, self._catalog), oid, inner.uses)

    def _junction(self, node: Node, scope: CatalogScope) -> Evaluator:
        parts = [self._value(each, scope) for each in node.nodes()]
        decided = node.kind == "Or"

        def value(frame: Frame) -> bool | None:
            unknown = False
            for part in parts:
                found: bool | None = part.of(frame)
                if found is decided:
                    return decided
                unknown = unknown or found is None
            return None if unknown else not decided

        return Evaluator(value, BOOL, _uses(parts))

    def _comparison(self, node: Node, scope: CatalogScope) -> Evaluator:
        signs = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
        right = bare(node.expression)
        a = self._value(node.this, scope)
        if right.kind in ("Any", "All"):
            return self._any(node, a, right, scope, signs[node.kind])
        b = self._value(right, scope)
        self._typed(node.this, b.oid)
        self._typed(right, a.oid)
        uses = a.uses | b.uses
        if node.kind.startswith("NullSafe"):
            same = node.kind == "NullSafeEQ"
            return Evaluator(lambda f: _same(a.of(f), b.of(f)) == same, BOOL, uses)
        sign = signs[node.kind]
        if sign == "=":
            return Evaluator(Equal(a, b), BOOL, uses)
        return Evaluator(lambda f: compare(sign, a.of(f), b.of(f)), BOOL, uses)

    def _any(self, node: Node, a: Evaluator, right: Node, scope: CatalogScope, sign: str) -> Evaluator:
        inner = bare(right.this)
        is_all = right.kind == "All"
        if inner.kind in ("Select", "Union", "Subquery"):
            query = self._query(inner, scope, scope.named)
            values: Callable[[Frame], Any] = lambda f: [row[0] for row in query.run(f)]  # noqa: E731
            uses = everything(scope)
        else:
            self._typed(inner, array_of(a.oid))
            found = self._value(inner, scope)
            values, uses = found.of, a.uses | found.uses
        self._typed(node.this, TEXT)

        def value(frame: Frame) -> bool | None:
            one, many = a.of(frame), values(frame)
            if many is None:
                return None
            if isinstance(many, str):
                many = scalars.array(many)
            self._work(1 + len(many) // 4)
            tested = [compare(sign, one, each) for each in many]
            return (
                (False if False in tested else None if None in tested else True) if is_all else _some(tested)
            )

        return Evaluator(value, BOOL, uses)

    def _is(self, node: Node, scope: CatalogScope) -> Evaluator:
        inner, wanted = self._value(node.this, scope), bare(node.expression)
        turned = bool(node.arguments.get("negate"))
        if wanted.kind == "Not":
            wanted, turned = bare(wanted.this), not turned
        truth: Any = None if wanted.kind == "Null" else wanted.arguments.get("this") is True
        return Evaluator(lambda f: (inner.of(f) is truth) != turned, BOOL, inner.uses)

    def _in(self, node: Node, scope: CatalogScope) -> Evaluator:
        a = self._value(node.this, scope)
        if (inner := node.get("query")) is not None:
            query = self._query(inner, scope, scope.named)
            values: Callable[[Frame], list[Any]] = lambda f: [row[0] for row in query.run(f)]  # noqa: E731
            uses = everything(scope)
        else:
            for each in node.nodes():
                self._typed(each, a.oid)
            parts = [self._value(each, scope) for each in node.nodes()]
            values, uses = (lambda f: [part.of(f) for part in parts]), a.uses | _uses(parts)

        def value(frame: Frame) -> bool | None:
            one, many = a.of(frame), values(frame)
            self._work(1 + len(many) // 4)
            return _some([compare("=", one, each) for each in many])

        return Evaluator(value, BOOL, uses)

    def _pattern(self, node: Node, scope: CatalogScope) -> Evaluator:
        escape, turned = "\\", False
        if node.kind == "Escape":
            escape, node = bare(node.expression).text(), node.this
        turned = bool(node.arguments.get("negate"))
        a, b = self._value(node.this, scope), self._value(node.expression, scope)
        self._typed(node.expression, TEXT)
        kind = node.kind
        if kind == "Operator":
            signs = {"~": "RegexpLike", "~*": "RegexpILike", "!~": "Not", "=": "EQ", "<>": "NEQ"}
            sign = node.text("operator").rpartition(".")[2]
            if sign not in signs:
                raise refused(f"the operator {sign}")
            if signs[sign] in ("EQ", "NEQ"):
                return Evaluator(lambda f: compare(sign, a.of(f), b.of(f)), BOOL, a.uses | b.uses)
            kind, turned = ("RegexpLike", True) if sign == "!~" else (signs[sign], False)

        def value(frame: Frame) -> bool | None:
            text, pattern = a.of(frame), b.of(frame)
            if text is None or pattern is None:
                return None
            shown = text_of(text)
            self._work(1 + len(shown) * len(str(pattern)) // 2)
            if kind.startswith("Regexp"):
                found = patterns.matches(shown, str(pattern), ignore_case=kind == "RegexpILike")
            else:
                found = patterns.like(shown, str(pattern), escape, ignore_case=kind == "ILike")
            return found != turned

        return Evaluator(value, BOOL, a.uses | b.uses)

    def _arithmetic(self, node: Node, scope: CatalogScope) -> Evaluator:
        a = self._value(node.this, scope)
        if node.kind == "Neg":
            return Evaluator(lambda f: None if (v := a.of(f)) is None else -v, a.oid, a.uses)
        b, kind = self._value(node.expression, scope), node.kind
        self._typed(node.this, b.oid)
        self._typed(node.expression, a.oid)

        def value(frame: Frame) -> Any:
            x, y = a.of(frame), b.of(frame)
            if x is None or y is None:  # an array and nothing is the array
                is_array = kind == "DPipe" and {a.oid, b.oid} & set(ELEMENT)
                return None if not is_array else y if x is None else x
            if kind == "DPipe":
                both = isinstance(x, list) and isinstance(y, list)
                if isinstance(x, list) != isinstance(y, list):
                    raise refused("an array beside a single value")
                return self._bounded([*x, *y] if both else scalars.worded(x) + scalars.worded(y))
            x, y = scalars.alike(x, y)
            if {type(x), type(y)} & scalars.MOMENTS:
                return scalars.moved(kind, x, y)
            if isinstance(x, (str, list)) or isinstance(y, (str, list)):
                raise refused("arithmetic with texts")
            if kind in ("Div", "Mod") and y == 0:
                raise scalars.mistaken("division by zero", "22012")
            if any(
                isinstance(each, float) or (kind == "Div" and isinstance(each, Decimal)) for each in (x, y)
            ):
                x, y = float(x), float(y)
            with localcontext(DIGITS):
                return self._bounded(_computed(kind, x, y))

        oid = (a.oid if a.oid in ELEMENT else TEXT) if kind == "DPipe" else _wider(a.oid, b.oid)
        if kind in ("Add", "Sub") and DATE in (a.oid, b.oid):
            oid = INT4 if a.oid == b.oid else DATE
        return Evaluator(value, oid, a.uses | b.uses)

    def _case(self, node: Node, scope: CatalogScope) -> Evaluator:
        subject = self._value(node.this, scope) if node.get("this") else None
        pairs = [
            (self._value(each.this, scope), self._value(each["true"], scope)) for each in node.nodes("ifs")
        ]
        default = self._value(node["default"], scope) if node.get("default") else None
        results = [result for _, result in pairs] + ([default] if default else [])

        def value(frame: Frame) -> Any:
            for test, result in pairs:
                found = test.of(frame)
                if (found is True) if subject is None else (compare("=", subject.of(frame), found) is True):
                    return result.of(frame)
            return None if default is None else default.of(frame)

        every = [*results, *(test for test, _ in pairs), *([subject] if subject else [])]
        return Evaluator(value, _common(results), _uses(every))

    def _array(self, node: Node, scope: CatalogScope) -> Evaluator:
        inner = node.nodes()
        if len(inner) == 1 and bare(inner[0]).kind in ("Select", "Union", "Subquery"):
            query = self._query(inner[0], scope, scope.named)
            rows = lambda f: self._flat([row[0] for row in query.run(f)])  # noqa: E731
            return Evaluator(rows, array_of(query.fields[0].oid), everything(scope))
        parts = [self._value(each, scope) for each in inner]
        flat = lambda f: self._flat([part.of(f) for part in parts])  # noqa: E731
        return Evaluator(flat, array_of(_common(parts)), _uses(parts))

    def _flat(self, values: list[Any]) -> list[Any]:
        if any(isinstance(each, list) for each in values):
            raise refused("an array of arrays")
        return cast("list[Any]", self._bounded(values))

    def _subscript(self, node: Node, scope: CatalogScope) -> Evaluator:
        values, (place, *_) = self._value(node.this, scope), [self._value(n, scope) for n in node.nodes()]
        # the parser counts from zero what PostgreSQL counts from one, if it is written as a number
        shift = 0 if bare(node.nodes()[0]).kind == "Literal" else -1

        def value(frame: Frame) -> Any:
            found, at = values.of(frame), place.of(frame)
            if found is None or at is None or not 0 <= int(at) + shift < len(found):
                return None
            return found[int(at) + shift]

        return Evaluator(value, ELEMENT.get(values.oid, TEXT), values.uses | place.uses)

    def _call(self, node: Node, scope: CatalogScope) -> Evaluator:
        name, arguments = function_of(node)
        if name in AGGREGATES:
            return self._aggregate(name, node, scope)
        values = [self._value(each, scope) for each in arguments]
        oid, act = FUNCTIONS.get(name, (TEXT, None))
        if name == "abs" and values and values[0].oid in (INT2, INT8, FLOAT8, NUMERIC):
            oid = values[0].oid
        if name == "set_config":
            return Evaluator(lambda f: values[1].of(f), TEXT, _uses(values))

        def value(frame: Frame) -> Any:
            if act is None:
                raise refused(f"the function {name}()", "42883")
            return self._bounded(act(self._catalog, *(each.of(frame) for each in values)))

        return Evaluator(value, oid, _uses(values))

    def _aggregate(self, name: str, node: Node, scope: CatalogScope) -> Evaluator:
        inner = node.get("this")
        is_distinct, order = False, []
        if inner is not None and inner.kind == "Order":
            order, inner = self._order(Node("", {"order": inner}), scope, [], {}), inner.get("this")
        if inner is not None and inner.kind == "Distinct":
            is_distinct, inner = True, inner.nodes()[0]
        every = inner is None or inner.kind == "Star"
        of = None if every or inner is None else self._value(inner, scope)
        between = self._value(node["separator"], scope) if node.get("separator") else None

        def value(frame: Frame) -> Any:
            rows = [((), each) for each in frame.group]
            pairs = [((of.of(each),) if of else (1,), each) for _, each in rows]
            values = [row[0] for row in in_order(pairs, order)]
            known = [each for each in values if each is not None]
            if is_distinct:
                known = [row[0] for row in distinct([(each,) for each in known])]
            match name:
                case "count":
                    return len(known)
                case "array_agg":
                    return self._flat(known if is_distinct else values) or None
                case "string_agg" | "group_concat":
                    sign = "" if between is None else str(between.of(frame))
                    shown = [text_of(each) for each in known]
                    if sum(map(len, shown)) + len(sign) * len(shown) > LONGEST_VALUE:
                        raise refused("a value so long")
                    return sign.join(shown) if known else None
                case "bool_and" | "logical_and" | "every" | "logicaland":
                    return all(known) if known else None
                case "bool_or" | "logical_or":
                    return any(known) if known else None
                case "min":
                    return min(known) if known else None
                case "max":
                    return max(known) if known else None
                case "sum":
                    return sum(known) if known else None
            return sum(known) / len(known) if known else None

        inner_oid = TEXT if of is None else of.oid
        oid = {"count": INT8, "array_agg": array_of(inner_oid), "string_agg": TEXT, "group_concat": TEXT}.get(
            name
        )
        if name.startswith(("bool", "logical", "every")):
            oid = BOOL
        if name in ("sum", "avg"):
            oid = (
                {INT2: INT8, INT4: INT8, FLOAT8: FLOAT8}.get(inner_oid, NUMERIC) if name == "sum" else NUMERIC
            )
        return Evaluator(value, inner_oid if oid is None else oid, frozenset())


AGGREGATES = frozenset(
    {
        "count", "array_agg", "string_agg", "group_concat", "bool_and", "logical_and", "bool_or",
        "logical_or", "every", "min", "max", "sum", "avg",
    }
)  # fmt: skip


class _Within:
    """a BETWEEN low AND high."""

    __slots__ = ("a", "high", "low")

    def __init__(self, a: Evaluator, low: Evaluator, high: Evaluator) -> None:
        self.a, self.low, self.high = a, low, high

    def __call__(self, frame: Frame) -> bool | None:
        value = self.a.of(frame)
        return _both(compare(">=", value, self.low.of(frame)), compare("<=", value, self.high.of(frame)))


class Equal:
    """a = b, whose sides can be looked at: an index answers it where one side is a column."""

    __slots__ = ("a", "b")

    def __init__(self, a: Evaluator, b: Evaluator) -> None:
        self.a, self.b = a, b

    def __call__(self, frame: Frame) -> bool | None:
        return compare("=", self.a.of(frame), self.b.of(frame))


def column_of(n: int, place: int, oid: int, depth: int) -> Evaluator:
    if depth == 0:
        return Evaluator(lambda f: f.rows[n][place], oid, frozenset({n}), (n, place))

    def value(frame: Frame) -> Any:
        around: Frame | None = frame
        for _ in range(depth):
            around = around.outer if around is not None else None
        return None if around is None else around.rows[n][place]

    return Evaluator(value, oid)


def function_of(node: Node) -> tuple[str, list[Node]]:
    """What a function is called, and its arguments in their order."""
    if node.kind == "Anonymous":
        return node.text().lower(), node.nodes()
    name = node.called.removeprefix("the function ").removesuffix("()").lower()
    if not name:
        raise refused(node.kind.upper())
    arguments: list[Node] = []
    for value in node.arguments.values():
        arguments += [value] if isinstance(value, Node) else value if isinstance(value, list) else []
    return name, arguments


def type_of(node: Node) -> int:
    """The type that a cast names."""
    if node.kind == "ObjectIdentifier":
        return type_named(node.text())
    kind = node.get("kind")
    name = node.text()
    if kind is not None:
        last = kind.expression if kind.kind == "Dot" else kind
        name = f'"{last.name}"' if last.arguments.get("quoted") else last.name
    elif isinstance(given := node.arguments.get("kind"), str):
        name = given
    if name.upper() == "ARRAY":
        return array_of(type_of(node.nodes()[0]))
    return type_named(name)


def own(node: Node) -> Iterator[Node]:
    """A node and all below it, but for those of queries inside."""
    yield node
    for value in node.arguments.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Node) and each.kind not in ("Select", "Union", "Subquery"):
                yield from own(each)


def aggregates(node: Node) -> bool:
    return any(
        (each.kind == "Anonymous" and each.text().lower() in AGGREGATES)
        or (each.called and each.kind != "Anonymous" and function_of(each)[0] in AGGREGATES)
        for each in own(node)
    )


def _same(a: Any, b: Any) -> bool:
    """Whether both are nothing, or equal."""
    return a is b if a is None or b is None else compare("=", a, b) is True


def in_order(
    pairs: list[tuple[Row, Frame]], order: list[tuple[Callable[[Row, Frame], Any], bool]]
) -> list[Row]:
    """The rows in order: NULL comes last, and first where the order is turned."""
    for key, down in reversed(order):
        decorated = [(key(row, frame), (row, frame)) for row, frame in pairs]
        decorated.sort(key=lambda each: _RANK(each[0]), reverse=down)
        pairs = [pair for _, pair in decorated]
    return [row for row, _ in pairs]


def _ranked(a: Any, b: Any) -> int:
    if a is None or b is None:
        return (a is None) - (b is None)
    a, b = (list(map(str, each)) if isinstance(each, list) else each for each in scalars.alike(a, b))
    try:
        return int(a > b) - int(a < b)
    except TypeError:
        return int(str(a) > str(b)) - int(str(a) < str(b))


_RANK = cmp_to_key(_ranked)


def hashable(row: Row) -> Any:
    return tuple(tuple(each) if isinstance(each, list) else each for each in row)


def distinct(rows: list[Row]) -> list[Row]:
    return list({hashable(row): row for row in reversed(rows)}.values())[::-1]


def _uses(parts: Iterable[Evaluator]) -> frozenset[int]:
    return frozenset().union(*(part.uses for part in parts))


def everything(scope: CatalogScope) -> frozenset[int]:
    return frozenset(range(len(scope.sources)))


def _not(value: Any) -> bool | None:
    return None if value is None else not value


def _both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _some(tested: list[bool | None]) -> bool | None:
    return True if True in tested else None if None in tested else False


def _common(parts: list[Evaluator]) -> int:
    """The type of one of several: the first that is not a plain literal."""
    known = {part.oid: None for part in parts if part.oid != UNKNOWN}
    if len(known) > 1 and set(known) <= LETTERS:
        return TEXT
    return next(iter(known), UNKNOWN)


def _wider(a: int, b: int) -> int:
    rank = [INT2, INT4, INT8, NUMERIC, FLOAT8]
    return max((each for each in (a, b) if each in rank), key=rank.index, default=INT4)


def _place(name: str, names: list[str]) -> int | None:
    if name in names:
        return names.index(name)
    low = [each.lower() for each in names]
    return low.index(name.lower()) if name.lower() in low else None


def _computed(kind: str, x: Any, y: Any) -> Any:
    match kind:
        case "Add":
            return x + y
        case "Sub":
            return x - y
        case "Mul":
            return x * y
        case "Div":
            return scalars.quotient(x, y) if isinstance(x, int) and isinstance(y, int) else x / y
        case "Mod":
            return x - y * scalars.quotient(x, y)
    if not (isinstance(x, int) and isinstance(y, int)):
        raise refused("& of values that are no integers")
    return int(x) & int(y)
