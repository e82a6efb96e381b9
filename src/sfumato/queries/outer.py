"""Reading what is made of released rows: everything of a text that stands above its questions.

A text is split where people are added up. What stands below is a question, with a plan and a price; what
stands above is post-processing of its shown rows, and becomes a `MadeQuery`: other SELECTs over it, windows,
HAVING, DISTINCT, OFFSET, and expressions that a plan does not have. A text with several questions below asks
all of them at once, as a batch.

Only what is listed here is read (law 8). A query over released rows sees nothing but them, literals, and
public tables, so it needs no bounds; it is limited in time and memory by whoever runs it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NoReturn

from sfumato.queries.asking import whole_number
from sfumato.queries.functions import PART_NAMES
from sfumato.queries.held import held
from sfumato.queries.made import (
    Applied,
    Atom,
    Computed,
    Exactly,
    HowMany,
    Made,
    MadeColumn,
    MadeOrder,
    MadeWindow,
    is_partial,
    may_be_missing,
    moved,
    small,
)
from sfumato.queries.madewords import (
    AGGREGATING,
    COMPARING,
    FUNCTIONS,
    INTERVALS,
    PARTS,
    TARGETS,
    WINDOWS,
    MadeFunction,
    is_numeric,
    wider,
)
from sfumato.queries.shown import Arithmetic, Number, Released, Weighted, Within
from sfumato.queries.spelling import instead_of
from sfumato.queries.syntax import Node, Text, bare, place_of, word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.queries.made import Held, MadeKind, MadeQuery, Trace
    from sfumato.queries.shown import Expression

MOST_LISTED_ROWS = 10_000  # that are written out, or made by a series
MOST_PARTS = 4_000  # of all that is made
Operator = Literal["+", "-", "*", "/"]
_OPERATORS: dict[str, str] = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "//"}
_ORDINARY = ("", "INNER", "OUTER", "CROSS")


@dataclass(frozen=True, slots=True)
class MadeName:
    """Something in FROM: what the analyst calls it, what it is called inside, and its rows."""

    alias: str
    inside: str
    query: MadeQuery


@dataclass(frozen=True, slots=True)
class MadeScope:
    """The names that an expression over released rows can use."""

    sources: tuple[MadeName, ...] = ()
    merged: tuple[tuple[str, Made], ...] = ()  # columns that USING has made one
    items: tuple[tuple[str, Made], ...] = ()  # selected, by their names
    known: Callable[[Node, MadeScope], Made | None] = lambda *_: None  # what is measured, in a question
    grouped: bool = False


@dataclass(slots=True)
class MadeReader:
    """Reads expressions and clauses over released rows."""

    text: Text
    subquery: Callable[[Node], MadeQuery]
    number: Callable[[Node], Fraction]
    size: int = 0
    windows: dict[str, Node] = field(default_factory=dict)

    def refuse(self, node: Node, problem: str, advice: str) -> NoReturn:
        self.text.refuse(node, problem, advice)

    def held(self, made: Made) -> Held:
        """What SQL holds a number in."""
        return held(made, divides_exactly=self.text.dialect == "postgres")

    def is_exact(self, node: Node, made: Made) -> bool:
        """Whether SQL computes something in decimals: 0.29 * n. Here it is a double, rounded as a decimal."""
        return bool(node.arguments.get("numeric")) or self.held(made) == "decimal"

    # Values -------------------------------------------------------------------------------------------

    def value(self, node: Node, scope: MadeScope) -> Made:
        """A value of a row of what is made."""
        self.size += 1
        if self.size > MOST_PARTS:
            self.refuse(node, "the query is too long", f"Write it with fewer than {MOST_PARTS} parts.")
        if (known := scope.known(node, scope)) is not None:
            return known
        self.text.allow(node, above=True)
        kind = node.kind
        if kind == "Paren":
            return self.value(node.this, scope)
        if kind == "Column":
            return self.column(node, scope)
        if kind in ("Literal", "Boolean", "Null"):
            return self.literal(node)
        if kind in _OPERATORS:
            return self.arithmetic(node, scope)
        if kind == "Neg":
            inner = self.numeric(node.this, scope)
            zero = None if inner.trace is None else Computed("-", Exactly(Fraction(0)), inner.trace)
            return Made("negate", inner.kind, (inner,), noisy=inner.noisy, trace=small(_merged(zero)))
        if kind in AGGREGATING or kind in ("Filter", "WithinGroup", "IgnoreNulls"):
            return self.aggregate(node, scope)
        if kind in WINDOWS:
            self.refuse(node, f"{word(node)} needs OVER", f"Write: {word(node)} OVER (ORDER BY x)")
        if kind == "Window":
            return self.window(node, scope)
        return self.composed(node, scope)

    def composed(self, node: Node, scope: MadeScope) -> Made:
        """Conditions, choices, casts and functions."""
        kind = node.kind
        if kind in COMPARING or kind in ("And", "Or", "Not", "Is", "In", "Between", "Exists"):
            return self.condition(node, scope)
        match kind:
            case "Case" | "If":
                return self.case(node, scope)
            case "Coalesce":
                parts = [self.value(each, scope) for each in (node.this, *node.nodes())]
                found = self.alike(parts, node)
                traces = [each.trace for each in parts if each.trace is not None]
                known = Applied("coalesce", tuple(traces)) if len(traces) == len(parts) else None
                return self.plain("coalesce", found, parts, trace=small(known))
            case "Nullif":
                parts = [self.value(node.this, scope), self.value(node.expression, scope)]
                self.alike(parts, node)
                guarded = parts[0].trace if parts[1].trace == Exactly(Fraction(0)) else None
                trace = None if guarded is None else small(Applied("nullif", (guarded,)))
                return self.plain("nullif", parts[0].kind, parts, trace=trace)
            case "Cast" | "TryCast":
                return self.cast(node, scope)
            case "Round":
                return self.rounded(node, scope)
            case "Extract":
                return self.part(node, node.this.name, node.expression, scope)
            case "Interval":
                return self.interval(node)
            case "Subquery" | "Select":
                return self.scalar(node)
            case "TimestampTrunc" | "DateTrunc":
                unit = node["unit"].name.lower()
                if unit not in PARTS:
                    self.refuse(
                        node, f"{unit} is not a known unit of time", f"Take one of: {', '.join(PARTS)}."
                    )
                inner = self.value(node.this, scope)
                self.check(inner, ("date", "timestamp"), node)
                return self.plain("trunc", inner.kind, [inner], text=unit)
            case "DateDiff":
                unit = node["unit"].name.lower() if node.get("unit") is not None else "day"
                if unit not in (*PARTS, "microsecond"):
                    self.refuse(
                        node, f"{unit} is not a known unit of time", f"Take one of: {', '.join(PARTS)}."
                    )
                parts = [self.value(each, scope) for each in (node.expression, node.this)]
                for each in parts:
                    self.check(each, ("date", "timestamp", "text"), node)
                return self.plain("diff", "integer", parts, text=unit)
            case "LengthOfTime":
                parts = [self.value(each, scope) for each in (node.expression, node.this)]
                for each in parts:
                    self.check(each, ("date", "timestamp"), node)
                return self.plain("diff", "integer", parts, text="microsecond")
            case "Anonymous":
                name = node.name.lower()
                if name in ("date_part", "datepart") and len(node.nodes()) == 2:
                    return self.part(node, node.nodes()[0].name, node.nodes()[1], scope)
        if kind.lower() in PARTS and set(node.arguments) <= {"this", "mode"}:
            return self.part(node, kind.lower(), node.this, scope)
        found_function = FUNCTIONS.get(kind) or FUNCTIONS.get(
            f"{node.name.upper()}()" if kind == "Anonymous" else ""
        )
        if found_function is None:
            told = f"{word(node)} is not supported here", "Leave it out, or write it differently."
            self.refuse(node, *(instead_of(node) or told))
        return self.function(node, found_function, scope)

    def function(self, node: Node, listed: MadeFunction, scope: MadeScope) -> Made:
        parts = []
        for name in listed.arguments:
            given = node.arguments.get(name)
            nodes = given if isinstance(given, list) else [given] if isinstance(given, Node) else []
            parts += [self.value(each, scope) for each in nodes]
        least, most = listed.counts
        if not least <= len(parts) <= most:
            self.refuse(node, f"{word(node)} takes another number of arguments", "Check its arguments.")
        for i, each in enumerate(parts):
            self.check(each, listed.takes[min(i, len(listed.takes) - 1)], node)
        kind = listed.gives or (wider([each.kind for each in parts]) or parts[0].kind)
        name = listed.word
        if name in ("concat", "||"):
            parts = [self.as_text(each) for each in parts]
        if name in ("floor", "ceil") and self.is_exact(node, parts[0]):
            name = f"{name} exactly"
        trace = None
        leaves_out = listed.traced in ("smallest", "largest") and any(may_be_missing(p.trace) for p in parts)
        if listed.traced and not leaves_out and all(each.trace is not None for each in parts):
            trace = small(
                Applied(listed.traced, tuple(each.trace for each in parts if each.trace is not None))
            )
        return self.plain(name, kind, parts, trace=trace)

    def as_text(self, made: Made) -> Made:
        """What is made a text: a double has a point, but in PostgreSQL."""
        if not is_numeric(made.kind) or self.held(made) != "double" or self.text.dialect == "postgres":
            return made
        return self.plain("double text", "text", [made])

    def plain(
        self, name: str, kind: MadeKind, parts: Iterable[Made], *, text: str = "", trace: Trace | None = None
    ) -> Made:
        listed = tuple(parts)
        return Made(name, kind, listed, text, any(each.noisy for each in listed), trace)

    def check(self, found: Made, kinds: tuple[str, ...], node: Node) -> None:
        """Refuse a value of a kind that does not fit."""
        if found.kind != "null" and kinds and found.kind not in kinds:
            told = f"{word(node)} takes {' or '.join(kinds)}, and this is {found.kind}"
            self.refuse(node, told, "Cast it, or take another value.")

    def alike(self, parts: list[Made], node: Node) -> MadeKind:
        """The common kind of values that stand side by side."""
        found = wider([each.kind for each in parts])
        if found is None:
            kinds = " and ".join(dict.fromkeys(each.kind for each in parts))
            self.refuse(node, f"{word(node)} has values of different types: {kinds}", "Cast one of them.")
        for each in parts:
            self.check_moment(each, found, node)
        return found

    def column(self, node: Node, scope: MadeScope) -> Made:
        if node.this.kind != "Identifier":
            self.refuse(node, "* is not supported here", "Name the columns.")
        self.text.allow(node.this)
        name, of = node.name.lower(), node.get("table")
        if of is None and (one := next((e for n, e in scope.merged if n == name), None)) is not None:
            return one
        found = [
            (source, column)
            for source in scope.sources
            if of is None or of.name.lower() == source.alias.lower()
            for column in source.query.columns
            if column.name.lower() == name
        ]
        if len(found) > 1:
            told = " or ".join(f"{source.alias}.{node.name}" for source, _ in found)
            self.refuse(node, f"{node.name} is a column of several tables", f"Write {told}.")
        if found:
            source, column = found[0]
            return column_of(source.inside, column)
        for given, item in scope.items:
            if of is None and given.lower() == name:
                return item
        aliases = [source.alias for source in scope.sources]
        if of is not None and of.name.lower() not in [alias.lower() for alias in aliases]:
            self.text.unknown("table", of.name, aliases, node)
        known = [column.name for source in scope.sources for column in source.query.columns]
        return self.text.unknown("column", node.name, known, node)

    def literal(self, node: Node) -> Made:
        if node.kind == "Null":
            return Made("null", "null")
        if node.kind == "Boolean":
            return Made("boolean", "boolean", text="TRUE" if node.arguments.get("this") else "FALSE")
        if node.arguments.get("is_string"):
            if "\0" in node.text():
                self.refuse(node, "that text holds a zero byte", "Remove it.")
            return Made("text", "text", text=node.text())
        value, told = self.number(node), node.text()
        whole = re.fullmatch(r"\d{1,18}", told) is not None
        return Made("number", "integer" if whole else "number", text=told, trace=Exactly(value))

    def numeric(self, node: Node, scope: MadeScope) -> Made:
        found = self.value(node, scope)
        self.check(found, ("integer", "number"), node)
        return found

    def arithmetic(self, node: Node, scope: MadeScope) -> Made:
        a, b = self.value(node.this, scope), self.value(node.expression, scope)
        sign, kinds = _OPERATORS[node.kind], (a.kind, b.kind)
        times = ("date", "timestamp")
        if sign in "+-" and (a.kind in times or b.kind in times):
            return self.moment(node, sign, a, b)
        for each in (a, b):
            self.check(each, ("integer", "number"), node)
        kind: MadeKind = "integer" if kinds == ("integer", "integer") and sign != "/" else "number"
        trace = None
        if sign in ("+", "-", "*", "/") and a.trace is not None and b.trace is not None:
            trace = small(_merged(Computed(sign, a.trace, b.trace)))  # type: ignore[arg-type]  # one of them
        return self.plain("operator", kind, [a, b], text=sign, trace=trace)

    def moment(self, node: Node, sign: str, a: Made, b: Made) -> Made:
        """Dates with days or intervals added, and dates apart."""
        match (a.kind, sign, b.kind):
            case ("date", "-", "date"):
                kind: MadeKind = "integer"
            case ("date", _, "integer"):
                kind = "date"
            case ("date", _, "interval"):
                kind = "timestamp"
            case ("timestamp", _, "interval"):
                kind = "timestamp"
            case ("interval", "+", "date") | ("interval", "+", "timestamp"):
                kind = "timestamp"
            case ("timestamp" | "date", "-", "timestamp") | ("timestamp", "-", "date"):
                kind = "interval"
            case _:
                told = f"{a.kind} {sign} {b.kind} is not supported"
                self.refuse(
                    node, told, "Write for example: day + INTERVAL '1' DAY, or DATE_DIFF('day', a, b)"
                )
        return self.plain("operator", kind, [a, b], text=sign)

    def interval(self, node: Node) -> Made:
        unit, given = node["unit"].name.upper().rstrip("S"), bare(node.this)
        told = given.text()
        if given.kind != "Literal" or not re.fullmatch(r"-?[0-9]{1,6}", told) or unit not in INTERVALS:
            self.refuse(node, "this interval is not supported", "Write for example: INTERVAL '3' MONTH")
        return Made("interval", "interval", text=f"{told} {unit}")

    def part(self, node: Node, name: str, inner: Node, scope: MadeScope) -> Made:
        unit = PART_NAMES.get(name.lower(), name.lower())
        if unit not in PARTS:
            self.refuse(node, f"{name} is not a known part of a date", f"Take one of: {', '.join(PARTS)}.")
        found = self.value(inner, scope)
        self.check(found, ("date", "timestamp", "interval"), node)
        return self.plain("part", "integer", [found], text=unit)

    def rounded(self, node: Node, scope: MadeScope) -> Made:
        inner, digits = self.numeric(node.this, scope), node.get("decimals")
        count = 0
        if digits is not None:
            told = bare(digits)
            negative = told.kind == "Neg"
            told = bare(told.this) if negative else told
            if told.kind != "Literal" or not re.fullmatch(r"[0-9]", told.text()):
                self.refuse(node, "ROUND takes a whole number of digits", "Write for example: ROUND(x, 2)")
            count = -int(told.text()) if negative else int(told.text())
        even = bool(node.arguments.get("even"))
        if not even and self.is_exact(node, inner):
            trace = None if inner.trace is None else Applied(f"round {count}", (inner.trace,))
            return self.plain("round exactly", inner.kind, [inner], text=str(count), trace=trace)
        trace = None
        if inner.trace is not None:
            trace = Applied("even" if even else f"round {count}", (inner.trace,))
        return self.plain(
            "round even" if even else "round", inner.kind, [inner], text=str(count), trace=trace
        )

    def case(self, node: Node, scope: MadeScope) -> Made:
        branches = node.nodes("ifs") if node.kind == "Case" else [node]
        subject = node.get("this") if node.kind == "Case" else None
        parts: list[Made] = []
        for branch in branches:
            self.text.allow(branch, above=True)
            if subject is None:
                parts.append(self.truth(branch.this, scope))
            else:
                sides = [self.value(subject, scope), self.value(branch.this, scope)]
                self.alike(sides, branch)
                parts.append(self.plain("compare", "boolean", sides, text="="))
            parts.append(self.value(branch["true"], scope))
        default = node.get("default") if node.kind == "Case" else node.get("false")
        parts.append(Made("null", "null") if default is None else self.value(default, scope))
        kind = self.alike([*parts[1::2], parts[-1]], node)
        return self.plain("case", kind, parts)

    def cast(self, node: Node, scope: MadeScope) -> Made:
        target = node["to"]
        self.text.allow(target)
        kind = TARGETS.get(target.text())
        if kind is None:
            known = "DOUBLE, INTEGER, DECIMAL(10, 2), VARCHAR, DATE, TIMESTAMP"
            self.refuse(node, f"CAST to {target.text()} is not supported", f"Cast to one of: {known}.")
        inner = self.value(node.this, scope)
        if node.arguments.get("if_wide"):
            return inner
        if kind in ("date", "timestamp") and is_numeric(inner.kind):
            self.refuse(node, f"a number cannot be cast to {kind}", "Cast a text or a date.")
        self.check_moment(inner, kind, node)
        if (
            inner.word == "text"
            and kind in _WRITTEN
            and not _WRITTEN[kind].fullmatch(inner.text.strip().lower())
        ):
            self.refuse(node, f"that is not a value of type {kind}", "Write the value without quotes.")
        digits, trace = "", None
        if target.text() == "DECIMAL":
            given = [each.text() or each.name for each in target.nodes()]
            digits = given[1] if len(given) > 1 else "0" if given else "3"
            if not re.fullmatch(r"[0-9]{1,2}", digits) or int(digits) > 18:
                self.refuse(node, "this is not a valid DECIMAL type", "Write for example: DECIMAL(10, 2)")
        if inner.trace is not None and is_numeric(kind):
            trace = inner.trace
            if digits or kind == "integer":
                trace = Applied(f"round {int(digits or 0)}", (inner.trace,))
        if kind == "text" and node.arguments.get("numeric"):
            told = "PostgreSQL writes decimals as texts with zeros at their ends"
            self.refuse(node, told, "Show the number in a column of its own.")
        if kind == "integer" and not digits and is_numeric(inner.kind) and self.is_exact(node, inner):
            inner = self.plain("round exactly", "number", [inner], text="0")
        inner = self.as_text(inner) if kind == "text" else inner
        return self.plain("cast", kind, [inner], text=digits and f"DECIMAL {int(digits)}", trace=trace)

    def check_moment(self, made: Made, kind: MadeKind, node: Node) -> None:
        """Refuse a text that is written out and is read as a date, if it is none."""
        if made.word == "text" and kind in ("date", "timestamp") and not _MOMENT.fullmatch(made.text.strip()):
            example = "DATE '2024-01-31'" if kind == "date" else "TIMESTAMP '2024-01-31 12:00:00'"
            self.refuse(node, f"that is not a value of type {kind}", f"Write for example: {example}")

    def scalar(self, node: Node) -> Made:
        query = self.subquery(node.this if node.kind == "Subquery" else node)
        if len(query.columns) != 1:
            self.refuse(node, "this subquery has several columns", "Select one column in it.")
        (column,) = query.columns
        noisy = column.noisy or query.selected
        found = Made("scalar", column.kind, text="0", noisy=noisy, query=query)
        if (
            column.trace is None or query.selected or is_partial(query)
        ):  # without noise it might be another row
            return found
        inside = lambda at: Made("scalar row", "integer", text=str(at), query=query)  # noqa: E731
        return replace(found, trace=moved(column.trace, inside))

    # Conditions ---------------------------------------------------------------------------------------

    def truth(self, node: Node, scope: MadeScope) -> Made:
        found = self.value(node, scope)
        if found.kind not in ("boolean", "null"):
            self.refuse(node, f"this is {found.kind}, not a condition", "Compare it with something.")
        return found

    def condition(self, node: Node, scope: MadeScope) -> Made:
        kind = node.kind
        if kind in ("And", "Or"):
            return self.plain(kind.lower(), "boolean", [self.truth(each, scope) for each in node.nodes()])
        if kind == "Not":
            return self.plain("not", "boolean", [self.truth(node.this, scope)])
        if kind == "Is":
            inner = self.value(node.this, scope)
            if node.expression.kind == "Null":
                return self.plain("is null", "boolean", [inner])
            if node.expression.kind == "Boolean" and inner.kind == "boolean":
                told = "TRUE" if node.expression.arguments.get("this") else "FALSE"
                return self.plain("is", "boolean", [inner], text=told)
            self.refuse(node, "IS is followed by NULL, or TRUE and FALSE on booleans", "Use = for values.")
        if kind == "Between":
            parts = [self.value(each, scope) for each in (node.this, node["low"], node["high"])]
            self.alike(parts, node)
            return self.plain("between", "boolean", parts)
        if kind == "In":
            return self.among(node, scope)
        if kind == "Exists":
            query = self.subquery(node.this)
            return Made("exists", "boolean", noisy=True, query=query)
        parts = [self.value(node.this, scope), self.value(node.expression, scope)]
        if COMPARING[kind] in ("LIKE", "ILIKE"):
            for each in parts:
                self.check(each, ("text",), node)
            found = self.plain("like", "boolean", parts, text=COMPARING[kind])
            return self.plain("not", "boolean", [found]) if node.arguments.get("negate") else found
        self.alike(parts, node)
        exactly = all(is_numeric(each.kind) for each in parts) and any(
            self.held(each) == "decimal" and each.word != "number" for each in parts
        )
        return self.plain("compare exactly" if exactly else "compare", "boolean", parts, text=COMPARING[kind])

    def among(self, node: Node, scope: MadeScope) -> Made:
        inner = self.value(node.this, scope)
        query = node.get("query")
        if query is not None:
            found = self.subquery(query.this if query.kind == "Subquery" else query)
            if len(found.columns) != 1 or wider([inner.kind, found.columns[0].kind]) is None:
                self.refuse(node, "IN compares with one column of the same type", "Select that column.")
            return Made("in query", "boolean", (inner,), noisy=True, query=found)
        if not node.nodes():
            self.refuse(node, "IN takes a list of values", "Write: IN ('a', 'b')")
        parts = [inner, *(self.value(each, scope) for each in node.nodes())]
        self.alike(parts, node)
        return self.plain("in", "boolean", parts)

    # Aggregates and windows ---------------------------------------------------------------------------

    def aggregate(self, node: Node, scope: MadeScope) -> Made:
        """An aggregate over released rows."""
        if not scope.grouped:
            self.refuse(node, f"{word(node)} is not supported here", "Aggregates belong in SELECT or HAVING.")
        inside = replace(scope, grouped=False)
        call = self.call(node, inside)
        return replace(call, trace=self.summed(call, None))

    def call(self, node: Node, scope: MadeScope) -> Made:
        """An aggregate and its arguments, as they stand."""
        self.text.allow(node, above=True)
        if node.kind == "Filter":
            self.text.allow(node.expression, above=True)
            inner = self.call(node.this, scope)
            if inner.word == "filter":
                self.refuse(node, "there are two FILTER clauses", "Write one condition with AND.")
            return self.plain("filter", inner.kind, [inner, self.truth(node.expression.this, scope)])
        if node.kind == "IgnoreNulls":
            return self.call(node.this, scope)
        if node.kind == "WithinGroup":
            order = node.expression.nodes()
            if node.this.kind not in ("PercentileCont", "PercentileDisc") or len(order) != 1:
                self.refuse(node, "WITHIN GROUP is for percentiles", "Write: QUANTILE_CONT(x, 0.5)")
            self.text.allow(order[0], above=True)
            inner, rank = self.numeric(order[0].this, scope), self.value(node.this.this, scope)
            if order[0].arguments.get("desc") and node.this.kind == "PercentileDisc":
                told = "PERCENTILE_DISC takes an ascending order here"
                self.refuse(order[0], told, "Write 1 minus the fraction, or PERCENTILE_CONT.")
            if order[0].arguments.get("desc"):
                one = Made("number", "integer", text="1")
                rank = self.plain("operator", "number", [one, rank], text="-")
            name = AGGREGATING[node.this.kind].word
            return self.plain("aggregate", "number", [inner, rank], text=name)
        listed = AGGREGATING.get(node.kind)
        if listed is None:
            self.refuse(node, f"{word(node)} is not supported here", "Use SUM, AVG, MIN, MAX or COUNT.")
        first, distinct = node.get("this"), False
        if node.kind == "Count" and (first is None or first.kind in ("Star", "Literal")):
            return Made("aggregate", "integer", text="count")
        if first is not None and first.kind == "Distinct":
            distinct = True
            if len(first.nodes()) != 1:
                self.refuse(node, "DISTINCT takes one expression here", "Count one at a time.")
            first = first.nodes()[0]
        parts = [] if first is None else [self.value(first, scope)]
        for name in listed.arguments[1:]:
            if (given := node.get(name)) is not None:
                parts.append(self.value(given, scope))
        if not parts:
            self.refuse(node, f"{word(node)} needs an argument", "Write for example: SUM(x)")
        for i, each in enumerate(parts):
            self.check(each, listed.takes[min(i, len(listed.takes) - 1)], node)
        kind = listed.gives or parts[0].kind
        if listed.word == "sum" and parts[0].kind == "integer":
            kind = "integer"
        return self.plain("aggregate distinct" if distinct else "aggregate", kind, parts, text=listed.word)

    def summed(self, call: Made, over: MadeWindow | None) -> Trace | None:
        """What is known of the noise of an aggregate."""
        inner, condition = (call.parts[0], call.parts[1]) if call.word == "filter" else (call, None)
        if inner.word != "aggregate" or (over is not None and over.noisy):
            return None
        if condition is not None and condition.noisy:
            return None
        if inner.text not in ("sum", "avg") or not isinstance(atom := inner.parts[0].trace, Atom):
            return None
        if (
            _may_be_null(inner.parts[0])
            or atom.many
            or not _is_homogeneous(atom.expression)
            or isinstance(atom.place, int)
        ):
            return None
        rows = Made("list", "integer", (atom.place,), over=over)
        if condition is not None:
            rows = Made("list", "integer", (atom.place, condition), over=over)
        total = Atom(atom.question, atom.expression, rows, many=True)
        return total if inner.text == "sum" else Computed("/", total, HowMany(rows))

    def window(self, node: Node, scope: MadeScope) -> Made:
        """A function over a window of released rows."""
        inside = scope
        over = self.spec(node, scope)
        inner = node.this
        ignoring = inner.kind == "IgnoreNulls" and inner.this.kind != "AnyValue"
        inner = inner.this if inner.kind == "IgnoreNulls" else inner
        if inner.kind == "Anonymous" and inner.name.upper() == "RATIO_TO_REPORT" and len(inner.nodes()) == 1:
            part = self.numeric(inner.nodes()[0], inside)
            total = Made("aggregate", part.kind, (part,), "sum", part.noisy)
            over_all = Made("over", part.kind, (total,), noisy=part.noisy, over=over)
            trace = self.summed(total, over)
            ratio = None if trace is None or part.trace is None else _merged(Computed("/", part.trace, trace))
            return self.plain("operator", "number", [part, over_all], text="/", trace=ratio)
        listed = WINDOWS.get(inner.kind)
        if listed is None:
            call = self.call(inner, inside)
            noisy = call.noisy or over.noisy
            return Made("over", call.kind, (call,), noisy=noisy, trace=self.summed(call, over), over=over)
        self.text.allow(inner, above=True)
        parts = [
            self.value(each, inside) for name in listed.arguments if (each := inner.get(name)) is not None
        ]
        least, most = listed.counts
        if not least <= len(parts) <= most:
            self.refuse(inner, f"{word(inner)} takes another number of arguments", "Check its arguments.")
        kind = listed.gives or parts[0].kind
        call = Made("window ignoring" if ignoring else "window", kind, tuple(parts), text=listed.word)
        noisy = over.noisy or any(each.noisy for each in parts)
        trace = None
        found = parts[0].trace if parts else None
        is_fixed = not over.noisy and not any(each.noisy for each in parts[1:]) and not ignoring
        if listed.gives is None and is_fixed and found is not None and len(parts) < 3:
            reach = call.parts[1:]  # of LAG: how far

            def seen(place: Made | int) -> Made | int:
                assert isinstance(place, Made)
                looked = Made("window", "integer", (place, *reach), text=listed.word)
                return Made("over", "integer", (looked,), over=over)

            trace = moved(found, seen)
        return Made("over", kind, (call,), noisy=noisy, trace=trace, over=over)

    def spec(self, node: Node, scope: MadeScope) -> MadeWindow:
        self.text.allow(node, above=True)
        if (named := node.get("alias")) is not None:
            if named.name.lower() not in self.windows:
                self.refuse(node, f"there is no window called {named.name}", "Define it: WINDOW w AS (...)")
            known = self.windows[named.name.lower()]
            if known.get("alias") or node.get("order") or node.get("spec") or node.nodes("partition_by"):
                told = "Write it out: OVER (PARTITION BY ... ORDER BY ...)"
                self.refuse(node, "a named window cannot be extended here", told)
            node = known
        inside = scope
        partition = tuple(self.value(each, inside) for each in node.nodes("partition_by"))
        order = self.ordered(node.get("order"), inside, ())
        spec, frame = node.get("spec"), ""
        if spec is not None:
            self.text.allow(spec, above=True)
            frame = self.frame(spec)
        return MadeWindow(partition, order, frame)

    def frame(self, spec: Node) -> str:
        ends = []
        for name in ("start", "end"):
            given, side = spec.arguments.get(name), spec.text(f"{name}_side")
            if given is None or given is False:
                continue
            if isinstance(given, Node):
                told = bare(given).text()
                if bare(given).kind != "Literal" or not re.fullmatch(r"[0-9]{1,6}", told):
                    self.refuse(
                        spec, "frames take whole numbers", "Write: ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
                    )
            else:
                told = str(given)
            ends.append(f"{told} {side}".strip().upper())
        kind = spec.text("kind").upper()
        if kind not in ("ROWS", "RANGE", "GROUPS") or not all(_FRAME_END.fullmatch(each) for each in ends):
            self.refuse(
                spec, "this frame is not supported", "Write: ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
            )
        if kind == "RANGE" and any(each[0].isdigit() for each in ends):
            self.refuse(spec, "RANGE with numbers is not supported", "Write ROWS.")
        return f"{kind} BETWEEN {ends[0]} AND {ends[1]}" if len(ends) > 1 else f"{kind} {ends[0]}"

    def ordered(
        self, node: Node | None, scope: MadeScope, items: tuple[tuple[str, Made], ...]
    ) -> tuple[MadeOrder, ...]:
        """What rows are sorted by: values, names of items or their positions."""
        if node is None:
            return ()
        self.text.allow(node, above=True)
        found = []
        for each in node.nodes():
            self.text.allow(each, above=True)
            ways = [bool(each.arguments.get(name)) for name in ("desc", "nulls_first")]
            by = bare(each.this)
            if by.kind == "Var" and by.name.upper() == "ALL" and items:
                found += [MadeOrder(item, *ways) for _, item in items]
                continue
            if by.kind == "Literal" and not by.arguments.get("is_string") and items:
                if (place := place_of(by.text(), len(items))) is None:
                    self.refuse(
                        by,
                        "that position is not in the SELECT list",
                        f"Write a position from 1 to {len(items)}.",
                    )
                found.append(MadeOrder(items[place][1], *ways))
                continue
            named = None
            if by.kind == "Column" and by.get("table") is None:
                named = next((item for name, item in items if name.lower() == by.name.lower()), None)
            found.append(MadeOrder(named or self.value(by, scope), *ways))
        return tuple(found)

    def limits(self, node: Node) -> tuple[int | None, int | None]:
        """LIMIT or FETCH, and OFFSET."""
        limit = offset = None
        if (clause := node.get("limit")) is not None:
            self.text.allow(clause, above=True)
            if clause.kind == "Fetch":
                options = clause.get("limit_options")
                for name, told in (("with_ties", "WITH TIES"), ("percent", "PERCENT")):
                    if options is not None and options.arguments.get(name):
                        self.text.refuse(clause, f"{told} is not supported", "Write for example: LIMIT 10")
                count = clause.get("count")  # FETCH FIRST ROW ONLY
                limit = 1 if count is None else whole_number(count, "FETCH", self.text)
            else:
                limit = whole_number(clause.expression, "LIMIT", self.text)
        if (clause := node.get("offset")) is not None:
            self.text.allow(clause, above=True)
            offset = whole_number(clause.expression, "OFFSET", self.text)
        return limit, offset


_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_WRITTEN: dict[MadeKind, re.Pattern[str]] = {  # values as texts that all engines read alike
    "integer": re.compile(r"[+-]?[0-9]{1,18}"),
    "number": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,2})?"),
    "boolean": re.compile(r"true|false|t|f"),
}
_FRAME_END = re.compile(r"CURRENT ROW|(UNBOUNDED|[0-9]{1,6}) (PRECEDING|FOLLOWING)")


def column_of(alias: str, column: MadeColumn) -> Made:
    """A column of something in FROM."""
    found = Made("column", column.kind, text=f"{alias}\0{column.name}", noisy=column.noisy, held=column.held)
    if column.trace is None:
        return found
    return replace(found, trace=moved(column.trace, lambda at: row_of(alias, at)))


def row_of(alias: str, at: Made | int) -> Made:
    """A hidden column of something in FROM."""
    assert isinstance(at, int)
    return Made("row", "integer", text=f"{alias}\0{at}")


# What is known of the noise ------------------------------------------------------------------------------


def _may_be_null(made: Made) -> bool:
    """Whether something decides that it has no value, or another one: then sums leave it out."""
    return made.word in ("nullif", "coalesce", "case") or any(_may_be_null(each) for each in made.parts)


def _is_homogeneous(expression: Expression) -> bool:
    """Whether it is a weighted sum of released integers, so that its sum is that of the integers."""
    match expression:
        case Released() | Weighted() | Within():
            return True
        case Arithmetic("+" | "-", left, right):
            return _is_homogeneous(left) and _is_homogeneous(right)
        case Arithmetic("*" | "/", left, Number()):
            return _is_homogeneous(left)
        case Arithmetic("*", Number(), right):
            return _is_homogeneous(right)
    return False


def _merged(trace: Trace | None) -> Trace | None:
    """Arithmetic on numbers of the same rows, as one number of these: its interval is sharper."""
    if not isinstance(trace, Computed):
        return trace
    a, b = trace.left, trace.right
    if isinstance(a, Exactly) and isinstance(b, Exactly):
        if trace.operator == "/" and not b.value:
            return None
        return Exactly(_OF[trace.operator](a.value, b.value))
    if isinstance(a, Atom) and isinstance(b, Exactly):
        if trace.operator == "/" and not b.value:
            return None
        return replace(a, expression=Arithmetic(trace.operator, a.expression, Number(b.value)))
    if isinstance(a, Exactly) and isinstance(b, Atom) and trace.operator != "/":
        return replace(b, expression=Arithmetic(trace.operator, Number(a.value), b.expression))
    if isinstance(a, Atom) and isinstance(b, Atom) and (a.question, a.place) == (b.question, b.place):
        return replace(a, expression=Arithmetic(trace.operator, a.expression, b.expression))
    return trace


_OF: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
