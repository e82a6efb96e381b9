"""Reading values and conditions of one row: names become columns, nodes become expressions."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries import letters, moments, notation
from sfumato.queries.domains import MOST_COPIES_ASKED, call, copies_in, joined, longest
from sfumato.queries.expressions import (
    EXACT,
    Call,
    Constant,
    Domain,
    Field,
    Misread,
    Scalar,
    Unusable,
    clamped,
    constant,
    evaluate,
    fields,
)
from sfumato.queries.functions import PART_NAMES, PARTS, UNITS, apply
from sfumato.queries.precision import decides, decisive
from sfumato.queries.scopes import FromItem, Scope
from sfumato.queries.spelling import instead_of
from sfumato.queries.syntax import BY_PERSON, Node, Text, bare, word

if TYPE_CHECKING:
    from sfumato.queries.declared import Kind
    from sfumato.queries.plan import Plan

# What gives one of its arguments, or a rounded one, as a double.
_CHOOSING = ("case", "coalesce", "nullif", "least", "greatest", "round", "to decimal")
DIGITS = 15  # of a decimal that its double tells from all others
COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "//"}
_PLAIN = {
    "Abs": "abs",
    "Sign": "sign",
    "Floor": "floor",
    "Ceil": "ceil",
    "Sqrt": "sqrt",
    "Lower": "lower",
    "Upper": "upper",
    "Length": "length",
}
_TEXT_CONDITIONS = {"Like": "like", "ILike": "ilike", "StartsWith": "starts with", "Contains": "contains"}
_PART_OF = {
    **{unit.capitalize(): unit for unit in UNITS if unit != "week"},
    "DayOfWeek": "dow",
    "DayOfWeekIso": "isodow",
    "DayOfYear": "doy",
    "DayOfMonth": "day",
    "Week": "week",  # of ISO: it begins on a Monday
    "WeekOfYear": "week",
}
_CASTS: dict[str, Kind] = {
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "number"),
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT"), "integer"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "timestamp"),
    "DATE": "date",
    "BOOLEAN": "boolean",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads expressions of one query."""

    text: Text
    repaired: set[str] = field(default_factory=set)  # what in it once was read otherwise, and wrongly
    cut: set[Constant] = field(default_factory=set)  # literals of more digits than their doubles have
    doubted: dict[Scalar, Node] = field(default_factory=dict)  # what is computed exactly with one, and where

    # Names --------------------------------------------------------------------------------------------

    def find(self, node: Node, scope: Scope) -> Scalar:
        """The column a node names."""
        text = self.text
        text.allow(node)
        if node.this.kind != "Identifier":
            text.refuse(node, "* would show rows", "Rows are never shown. Write COUNT(*), SUM(x) or AVG(x).")
        text.allow(node.this)
        name, sources = node.name, scope.sources
        if table := node.get("table"):
            sources = tuple(s for s in sources if s.alias.lower() == table.name.lower())
            if not sources:
                text.unknown("table", table.name, [s.alias for s in scope.sources], node)
        else:
            sources = tuple(s for s in sources if name.lower() not in s.merged)
        found = [scalar for source in sources if (scalar := _column(source, name)) is not None]
        if not found:
            text.unknown("column", name, Scope(sources).names(), node)
        if len(set(found)) > 1:
            aliases = [source.alias for source in sources if _column(source, name) is not None]
            advice = f"Write {' or '.join(f'{alias}.{name}' for alias in aliases)}."
            text.refuse(node, f"{name} is a column of several tables", advice)
        return found[0]

    def call(self, node: Node, function: str, *arguments: Scalar) -> Scalar:
        """A function applied, or the refusal with its place."""
        try:
            found = call(function, *arguments)
        except Unusable as reason:
            self.text.unusable(reason, node)
        others = [each.domain.decimals for each in arguments if each.domain.numeric and each not in self.cut]
        if others and None not in others and any(each in self.cut for each in arguments):  # SQL is exact here
            self.doubted[found] = node
        if self.text.reading > 3 and function in _CHOOSING and any(each.domain.wide for each in arguments):
            self.doubted[found] = node
        self.check_decimals(node, function, arguments)
        if function == "%" and self.text.reading == 1:
            found = replace(found, domain=replace(found.domain, held=""))
        if function == "length" and self.text.reading < 5 and found.domain.high is not None:
            most = longest(arguments[0], 20)  # HUGEINT has more digits
            found = replace(found, domain=replace(found.domain, high=Fraction(most or 0)))
        if (repair := once_wrong(found)) is not None:
            self.repaired.add(repair)
        return found

    def check_decimals(self, node: Node, function: str, arguments: tuple[Scalar, ...]) -> None:
        """Refuse to round a decimal column that has more digits than are computed with."""
        if function not in ("round", "to integer", "to decimal"):
            return
        for each in fields(arguments[0]):
            table = self.text.policy.table(each.origin[0])
            column = None if table is None else table.column(each.origin[1])
            wide = column is not None and bool(column.scale) and each.domain.scale is None
            if wide and each.domain.kind == "number" and self.text.reading > 3:
                told = f"{each.origin[1]} has more digits than are computed with, and the last ones decide"
                advice = (
                    "Compute with doubles: CAST(x AS DOUBLE PRECISION); or let the owner narrow its bounds."
                )
                self.text.unusable(Misread(told, advice), node)

    def check_digits(self, plan: Plan, select: Node) -> None:
        """Refuse numbers of more digits than are computed with, where the last ones decide, and too much work
        for each row."""
        if len(letters.patterns(plan.scalars)) > letters.MOST_PATTERNS:
            most = letters.MOST_PATTERNS
            self.text.refuse(
                select, f"there are more than {most} regular expressions", f"Write at most {most}."
            )
        if copies_in(plan.scalars) > MOST_COPIES_ASKED:
            told = f"more than {MOST_COPIES_ASKED} different texts are made of columns of any length"
            self.text.refuse(select, told, "Cut the columns first: LEFT(x, 100).")
        told = "numbers here may have more digits than are computed with, and the last ones decide"
        advice = f"Write at most {DIGITS} digits, or compute with doubles: CAST(x AS DOUBLE), 0.25e0."
        if self.text.reading > 3 and any(each.domain.wide for each in decisive(plan)):
            self.text.unusable(Misread(told, advice), select)
        for found, node in self.doubted.items():
            if decides(plan, found):
                self.text.unusable(Misread(told, advice), node)

    # Values -------------------------------------------------------------------------------------------

    def value(self, node: Node, scope: Scope) -> Scalar:
        """An expression to compute with: numeric columns are clamped to their bounds."""
        return clamped(self.raw(node, scope))

    def raw(self, node: Node, scope: Scope) -> Scalar:
        """An expression as it is: a column alone is not clamped."""
        text = self.text
        text.allow(node)
        kind = node.kind
        if kind == "Paren":
            return self.raw(node.this, scope)
        if kind == "Column":
            return self.find(node, scope)
        if kind in ("Literal", "Boolean", "Null"):
            return self.literal(node)
        if (
            kind in COMPARISONS
            or kind in ("And", "Or", "Not", "Is", "In", "Between")
            or kind in _TEXT_CONDITIONS
        ):
            return self.condition(node, scope)
        if kind in _ARITHMETIC:
            if kind in ("Add", "Sub") and (found := moments.shifted(self, node, scope)) is not None:
                return found
            left, right = self.value(node.this, scope), self.value(node.expression, scope)
            return self.call(node, _ARITHMETIC[kind], left, right)
        if kind in _PLAIN:
            return self.call(node, _PLAIN[kind], self.value(node.this, scope))
        return self._function(node, scope)

    def _function(self, node: Node, scope: Scope) -> Scalar:
        text, kind = self.text, node.kind
        match kind:
            case "Neg":
                inner = self.value(node.this, scope)
                if isinstance(inner, Constant) and isinstance(inner.value, (int, float)):
                    return constant(-inner.value, inner.domain.kind, inner.domain.scale)
                return self.call(node, "negate", inner)
            case "Pow":
                power = self.value(node.expression, scope)
                if not isinstance(power, Constant):
                    text.refuse(node.expression, "the power is not a number", "Write it out: POWER(x, 2)")
                return self.call(node, "power", self.value(node.this, scope), power)
            case "Ln" | "Exp":
                return self.call(node, kind.lower(), self.value(node.this, scope))
            case "Round":
                digits = self.whole(node.get("decimals"), scope, -9, 9)
                return self.call(node, "round", self.value(node.this, scope), digits)
            case "Least" | "Greatest":
                parts = [self.value(each, scope) for each in (node.this, *node.nodes())]
                return self.call(node, kind.lower(), *self.alike(parts, node))
            case "Coalesce":
                parts = [self.value(each, scope) for each in (node.this, *node.nodes())]
                return self.call(node, "coalesce", *self.alike(parts, node))
            case "Nullif":
                parts = self.alike([self.value(node.this, scope), self.value(node.expression, scope)], node)
                return self.call(node, "nullif", *parts)
            case "Case" | "If":
                return self._case(node, scope)
            case "Cast":
                return self._cast(node, scope)
            case "WidthBucket":
                ends = [self.value(node[name], scope) for name in ("min_value", "max_value")]
                if not all(isinstance(end, Constant) for end in ends):
                    text.refuse(node, "the range of buckets is not given by numbers", "Write: 0, 100")
                count = self.whole(node["num_buckets"], scope, 1, 10_000)
                return self.call(node, "bucket", self.raw(node.this, scope), *ends, count)
            case "Concat" | "DPipe":
                if kind == "DPipe":
                    sides = [self._told(each, scope) for each in (node.this, node.expression)]
                    return self.call(node, "concat", *sides)
                empty = constant("", "text")  # CONCAT leaves out what is NULL
                listed = [
                    self.call(node, "coalesce", self._told(each, scope), empty) for each in node.nodes()
                ]
                return self.call(node, "concat", *listed)
            case "Trim":
                signs = [] if node.get("expression") is None else [self.value(node.expression, scope)]
                if not all(isinstance(each, Constant) and each.domain.kind == "text" for each in signs):
                    text.refuse(node, "TRIM takes characters that are written out", "Write: TRIM(x, ' .')")
                return self.call(node, "strip" if signs else "trim", self.value(node.this, scope), *signs)
            case "Left" | "Right":
                count = self._count(node.expression, scope)
                return self.call(node, kind.lower(), self.value(node.this, scope), count)
            case "Substring":
                start = self._start(node.get("start"), scope)
                length = self.whole(node.get("length"), scope, 0, 1000, default=1000)
                return self.call(node, "substring", self.value(node.this, scope), start, length)
        return letters.read(self, node, scope) or self._moment(node, scope)

    def _moment(self, node: Node, scope: Scope) -> Scalar:
        """Functions of dates and timestamps."""
        kind = node.kind
        if (now := moments.today(self, node)) is not None:
            return now
        if kind == "DateAdd":
            return self._added(node, scope)
        if kind == "TimeToStr":
            return moments.written(self, node, self.value(node.this, scope), node["format"])
        if kind in ("Monthname", "Dayname"):
            return moments.monthname(self, node, scope, kind.lower())
        if kind == "LastDay":
            return moments.last_day(self, node, scope)
        if kind == "LengthOfTime":
            return moments.length(self, node, scope)
        if kind in _PART_OF:
            return self._part(node, _PART_OF[kind], node.this, scope)
        if kind == "Extract":
            return self._part(node, node.this.name, node.expression, scope)
        if kind == "Anonymous" and node.name.lower() in ("date_part", "datepart") and len(node.nodes()) == 2:
            return self._part(node, node.nodes()[0].name, node.nodes()[1], scope)
        if kind in ("TimestampTrunc", "DateTrunc"):
            unit = self._unit(node, UNITS)
            return self.call(node, "trunc", unit, self.value(node.this, scope))
        if kind == "DateDiff":
            unit = self._unit(node, (*UNITS, "microsecond"))
            later, earlier = self.value(node.this, scope), self.value(node.expression, scope)
            return self.call(node, "diff", unit, *self.alike([earlier, later], node))
        advice = "Compute with columns, numbers and listed functions."
        if kind in ("Subquery", "Select"):
            advice = (
                f"If it is of the same person, join it: {BY_PERSON}. Else ask for it first, and write it out."
            )
        told = f"{word(node)} is not supported here", advice
        return self.text.refuse(node, *(instead_of(node) or told))

    def _told(self, node: Node, scope: Scope) -> Scalar:
        """A value as a part of a text: 'Q' || QUARTER(x)."""
        found = self.value(node, scope)
        if found.domain.kind not in ("integer", "date", "boolean") or _is_null(found):
            return found
        return self.call(node, "to text", found)

    def _added(self, node: Node, scope: Scope) -> Scalar:
        """DATE_ADD(x, INTERVAL 1 DAY)."""
        given = bare(node.expression)
        if not moments.is_interval(given):
            unit = node.get("unit") or Node("Var", {"this": "DAY"})
            given = Node("Interval", {"this": given, "unit": unit}, node.start, node.end)
        return moments.later(self, node, self.value(node.this, scope), given, 1, scope)

    def _part(self, node: Node, name: str, inner: Node, scope: Scope) -> Scalar:
        spent = bare(inner)
        if spent.kind == "Anonymous" and spent.name.upper() == "AGE" and len(spent.nodes()) in (1, 2):
            return moments.age(self, node, name.lower(), spent.nodes(), scope)
        if (found := moments.apart(self, node, name.lower(), spent, scope)) is not None:
            return found
        unit = PART_NAMES.get(name.lower(), name.lower())
        if unit not in ("year", "isoyear", *PARTS):
            known = ", ".join(["year", "isoyear", *PARTS])
            self.text.refuse(node, f"{name} is not a known part of a date", f"Take one of: {known}.")
        return self.call(node, "part", constant(unit, "text"), self.value(inner, scope))

    def _unit(self, node: Node, units: tuple[str, ...]) -> Scalar:
        given = node.get("unit")
        unit = given.name.lower() if given is not None else ""
        if unit not in units:
            self.text.refuse(
                node, f"{unit or 'that'} is not a unit of time here", f"Write one of: {', '.join(units)}."
            )
        return constant(unit, "text")

    def whole(self, node: Node | None, scope: Scope, low: int, high: int, default: int = 0) -> Scalar:
        """A literal that is a whole number within limits."""
        if node is None:
            return constant(default, "integer")
        found = self.value(node, scope)
        if (
            not isinstance(found, Constant)
            or not isinstance(found.value, int)
            or not low <= found.value <= high
        ):
            self.text.refuse(node, "a whole number is needed here", f"Write one from {low} to {high}.")
        return found

    def _count(self, node: Node, scope: Scope) -> Scalar:
        """How many letters: a number, or one that is found, STRPOS(x, '@') - 1; below 0, all but so many."""
        if bare(node).kind == "Literal":
            return self.whole(node, scope, 0, 1000)
        found = self.value(node, scope)
        low, high = found.domain.low, found.domain.high
        if found.domain.kind != "integer" or low is None or high is None or max(-low, high) > 10_000:
            told = "the number of characters is not known to be a whole number"
            self.text.refuse(node, told, "Write a number, or for example: STRPOS(x, '@') - 1")
        return found

    def _start(self, node: Node | None, scope: Scope) -> Scalar:
        """Where a part of a text begins: a number, or one that is found, STRPOS(x, '@') + 1."""
        if node is None or bare(node).kind in ("Literal", "Neg"):
            return self.whole(node, scope, 1, 1000, default=1)
        found = self.value(node, scope)
        low, high = found.domain.low, found.domain.high
        is_near = low is not None and high is not None and low >= 1 and high <= 10_000
        if found.domain.kind != "integer" or not is_near:
            told = "the start position may be below 1, or is not known to be a whole number"
            self.text.refuse(node, told, "Write a number, or for example: STRPOS(x, '@') + 1")
        return found

    def _case(self, node: Node, scope: Scope) -> Scalar:
        branches = node.nodes("ifs") if node.kind == "Case" else [node]
        subject = node.get("this") if node.kind == "Case" else None
        conditions: list[Scalar] = []
        values: list[Scalar] = []
        for branch in branches:
            self.text.allow(branch)
            if subject is None:
                conditions.append(self.condition(branch.this, scope))
            else:
                conditions.append(self.compare(branch, "=", subject, branch.this, scope))
            values.append(self.value(branch["true"], scope))
        default = node.get("default") if node.kind == "Case" else node.get("false")
        values.append(constant(None, "boolean") if default is None else self.value(default, scope))
        values = self.alike(values, node)
        pairs = [each for pair in zip(conditions, values[:-1], strict=True) for each in pair]
        return self.call(node, "case", *pairs, values[-1])

    def is_one_persons(self, scalar: Scalar) -> bool:
        """Whether the policy says that a value belongs to one person: it names the person, a reference refers
        to it, or it is declared as owned."""
        if not isinstance(scalar, Field):
            return False
        table = self.text.policy.table(scalar.origin[0])
        if is_person(scalar) or (table is not None and table.owns(scalar.origin[1])):
            return True
        return scalar.origin in {each.through for each in self.text.policy.tables if each.through is not None}

    def _cast(self, node: Node, scope: Scope) -> Scalar:
        target = node["to"]
        self.text.allow(target)
        kind = _CASTS.get(target.text())
        if kind is None:
            known = "DOUBLE, INTEGER, VARCHAR, DATE"
            self.text.refuse(node, f"CAST to {target.text()} is not supported", f"Cast to one of: {known}.")
        if kind == "integer" and (rounded := _rounded(bare(node.this))) is not None:
            found = self.value(rounded, scope)  # as other dialects round before they cast, if it is a number
            if found.domain.kind == "boolean":
                return self.call(node, "to integer", found)
        inner = self.value(node.this, scope)
        if node.arguments.get("if_wide") and (self.text.reading < 5 or _is_narrow(inner.domain)):
            return inner
        if isinstance(inner, Constant) and inner.domain.numeric and kind == "number":
            return self._cast_literal(inner, target)
        if target.text() == "DECIMAL" and inner.domain.numeric:
            return self.call(node, "to decimal", inner, constant(self.decimals(target), "integer"))
        if target.text() == "FLOAT" and inner.domain.numeric:
            return self.call(node, "to single", inner)
        if inner.domain.kind == kind and inner.domain.scale is None and not inner.domain.held:
            return inner
        if isinstance(inner, Constant) and (
            isinstance(inner.value, str) or (inner.domain.kind, kind) == ("integer", "number")
        ):
            return self.as_kind(inner, kind, node)
        if kind == "timestamp" and inner.domain.kind == "date" and not isinstance(inner, Constant):
            return self.call(node, "to timestamp", inner)
        if isinstance(inner, Constant) and kind == "timestamp":
            return self.as_kind(inner, kind, node)
        if kind in ("timestamp", "boolean"):
            self.text.refuse(node, f"a column cannot be cast to {kind}", "Compare it with a value instead.")
        return self.call(node, f"to {kind}", inner)

    def _cast_literal(self, literal: Constant, target: Node) -> Constant:
        """A number of another type; a DECIMAL that does not say how many decimals it has keeps them."""
        value = literal.value
        if value is None:
            return literal
        assert isinstance(value, (int, float))
        if target.text() == "DECIMAL":
            if not target.nodes():
                return constant(float(value), "number", literal.domain.decimals)
            digits = self.decimals(target)
            exact = evaluate(literal, None)
            return constant(float(apply("to decimal", [exact, digits])), "number", digits)
        self.cut.discard(literal)  # as a double it is what it should be
        single = target.text() == "FLOAT"
        number = float(apply("to single", [value])) if single else float(value)
        if math.isinf(number):
            self.text.refuse(target, "that number is too large for this type", "Write a smaller number.")
        return constant(number, "number")

    def decimals(self, target: Node) -> int:
        """How many decimals a DECIMAL has: three, if it does not say."""
        given = [each.text() or each.name for each in target.nodes()]
        if not given:
            return 3
        digits = given[1] if len(given) > 1 else "0"
        if not re.fullmatch(r"\d{1,2}", digits):
            self.text.refuse(target, "this is not a valid DECIMAL type", "Write for example: DECIMAL(10, 2)")
        return int(digits)

    # Literals -----------------------------------------------------------------------------------------

    def literal(self, node: Node) -> Constant:
        """A literal by itself."""
        if node.kind == "Null":
            return constant(None, "boolean")
        if node.kind == "Boolean":
            return constant(bool(node.arguments.get("this")), "boolean")
        if node.arguments.get("is_string"):
            return constant(self.plain(node), "text")
        number = self.fraction(node)
        if re.fullmatch(r"\d+", node.text()):
            if number >= 1 << 62:
                self.text.refuse(node, "that number is too large", "Stay below 2^62.")
            return constant(int(number), "integer")
        decimals = re.fullmatch(r"\d*\.(\d*)", node.text())  # with an exponent it is a double
        found = constant(float(number), "number", None if decimals is None else len(decimals[1]))
        digits = node.text().replace(".", "").strip("0")
        if decimals is not None and len(digits) > DIGITS and found.domain.scale is None:
            self.cut.add(found)
        return found

    def plain(self, node: Node) -> str:
        """A text literal."""
        if "\0" in node.text():
            self.text.refuse(node, "that text holds a zero byte", "Remove it.")
        return node.text()

    def fraction(self, node: Node) -> Fraction:
        """A numeric literal, exactly; its size keeps it within an ordinary double."""
        # the exponent is checked before 10^exponent is computed: 1e999999999 would take for ever
        text = node.text()
        if not re.fullmatch(r"(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", text):
            self.text.refuse(node, f"{text[:60]} is not a usable number", "Write a number of moderate size.")
        return Fraction(text)

    def as_kind(self, literal: Constant, kind: Kind, node: Node) -> Constant:
        """A literal read as the type of what it stands beside."""
        value = literal.value
        if value is None or literal.domain.kind == kind:
            return literal
        if isinstance(value, str) and kind in ("integer", "number") and _NUMBER.fullmatch(value):
            return self.as_kind(self._spelled(value), kind, node)
        if kind == "date" and isinstance(value, datetime.datetime) and value.time() == datetime.time():
            return constant(value.date(), "date")
        spelled = isinstance(value, str) and kind in ("date", "timestamp")
        if spelled and not _MOMENT.fullmatch(str(value).strip()):
            return self.text.refuse(node, f"that is not a value of type {kind}", EXAMPLES[kind])
        try:
            if kind == "date" and isinstance(value, str):
                return constant(datetime.date.fromisoformat(value), "date")
            if kind == "timestamp" and isinstance(value, (str, datetime.date)):
                moment = datetime.datetime.fromisoformat(str(value).strip())
                if moment.utcoffset() == datetime.timedelta():  # in UTC, as all moments are
                    moment = moment.replace(tzinfo=None)
                if moment.tzinfo is None:
                    return constant(moment, "timestamp")
        except ValueError:
            pass
        if kind == "boolean" and value in (0, 1) and literal.domain.kind == "integer":
            return constant(bool(value), "boolean")
        if kind == "number" and literal.domain.kind == "integer":
            scale = None if self.text.reading == 1 else 0
            return constant(float(value), "number", scale)  # type: ignore[arg-type]  # an integer
        return self.text.refuse(node, f"that is not a value of type {kind}", EXAMPLES[kind])

    @staticmethod
    def _spelled(number: str) -> Constant:
        """A number that is written as a text."""
        if "." not in number:
            return constant(int(number), "integer")
        return constant(float(number), "number", len(number.partition(".")[2]))

    def alike(self, parts: list[Scalar], node: Node) -> list[Scalar]:
        """Values that stand side by side: literals take the type of the columns."""
        kinds = {each.domain.kind for each in parts if not isinstance(each, Constant)}
        if not kinds:
            kinds = {
                each.domain.kind for each in parts if isinstance(each, Constant) and each.value is not None
            }
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        times = [each.value for each in parts if isinstance(each, Constant) and _has_time(each.value)]
        if kinds == {"date", "timestamp"} or (kinds == {"date"} and times):
            return [self._as_moment(each, node) for each in parts]
        if kinds == {"integer"} and any(
            isinstance(each, Constant) and isinstance(each.value, float) for each in parts
        ):
            return parts
        if len(kinds) != 1:
            return parts
        (kind,) = kinds
        return [self.as_kind(each, kind, node) if isinstance(each, Constant) else each for each in parts]

    def _as_moment(self, value: Scalar, node: Node) -> Scalar:
        """A date beside a timestamp is its midnight."""
        if isinstance(value, Constant):
            return self.as_kind(value, "timestamp", node)
        return self.call(node, "to timestamp", clamped(value)) if value.domain.kind == "date" else value

    # Conditions ---------------------------------------------------------------------------------------

    def condition(self, node: Node, scope: Scope) -> Scalar:
        """Something that is true, false or unknown for a row."""
        text = self.text
        text.allow(node)
        match node.kind:
            case "Paren":
                return self.condition(node.this, scope)
            case "And" | "Or":
                parts = [self.condition(each, scope) for each in node.nodes()]
                return self.all_of(node, parts)
            case "Not":
                return self.call(node, "not", self.condition(node.this, scope))
            case "Is":
                return self._is(node, scope)
            case "In":
                return self._in(node, scope)
            case "Between":
                low = self.compare(node, ">=", node.this, node["low"], scope)
                return self.all_of(
                    node, [low, self.compare(node, "<=", node.this, node["high"], scope)], "and"
                )
            case "EQ" | "NEQ" if (
                listed := array(node.expression, of="ANY" if node.kind == "EQ" else "ALL")
            ) is not None:
                found = self._among(node, node.this, listed, scope)
                return found if node.kind == "EQ" else self.call(node, "not", found)
            case kind if kind in COMPARISONS:
                return self.compare(node, COMPARISONS[kind], node.this, node.expression, scope)
            case kind if kind in _TEXT_CONDITIONS:
                pattern = self.value(node.expression, scope)
                pattern = letters.joined_up(pattern) or pattern
                if not isinstance(pattern, Constant):
                    text.refuse(
                        node.expression, "the pattern is not a string literal", "Write it out: LIKE 'abc%'"
                    )
                found = self.call(node, _TEXT_CONDITIONS[kind], self.raw(node.this, scope), pattern)
                return self.call(node, "not", found) if node.arguments.get("negate") else found
        found = self.raw(node, scope)
        if found.domain.kind != "boolean" or (isinstance(found, Constant) and found.value is None):
            name = node.name if node.kind == "Column" else word(node)
            advice = (
                f"Compare it: {name} = ..." if node.kind == "Column" else "Compare it with a value: x = 3"
            )
            text.refuse(node, f"{name} is not a condition", advice)
        return found

    def all_of(self, node: Node, parts: list[Scalar], how: str = "") -> Scalar:
        """The parts joined by AND, or by OR where the node or `how` says so."""
        try:
            return joined("or" if (how or node.kind.lower()) == "or" else "and", parts)
        except Unusable as reason:
            self.text.unusable(reason, node)

    def compare(self, node: Node, operator: str, left: Node, right: Node, scope: Scope) -> Scalar:
        """left operator right, in one form: a column stands to the left of a literal."""
        parts = [self.operand(left, scope), self.operand(right, scope)]
        for side, other in ((left, parts[0]), (right, parts[1])):
            if isinstance(other, Constant) and other.value is None:
                self.text.refuse(side, "nothing equals NULL", "Write: x IS NULL")
        self._check_digits(left, parts[1])
        self._check_digits(right, parts[0])
        a, b = self.alike(parts, node)
        if isinstance(a, Constant) and not isinstance(b, Constant):
            a, b, operator = b, a, TURNED[operator]
        return self.compared(node, operator, a, b)

    def compared(self, node: Node, operator: str, a: Scalar, b: Scalar) -> Scalar:
        """a operator b; where doubles do not tell them apart, by their difference, which is exact."""
        exact = None not in (a.domain.decimals, b.domain.decimals)
        if self.text.reading <= 3 or not exact or not (a.domain.wide or b.domain.wide):
            return self.call(node, operator, a, b)
        apart = self.call(node, "-", clamped(a), clamped(b))
        if apart.domain.scale is None:
            told = "these numbers have too many digits"
            self.text.unusable(Misread(told, "Compare doubles: CAST(x AS DOUBLE) > y"), node)
        return self.call(node, operator, apart, constant(0.0, "number", 0))

    def _check_digits(self, node: Node, other: Scalar) -> None:
        """Refuse a number that is compared exactly, if it has more digits than a double tells apart."""
        inner = bare(node)
        inner = bare(inner.this) if inner.kind == "Neg" else inner
        is_number = inner.kind == "Literal" and not inner.arguments.get("is_string")
        whole = other.domain.kind == "integer" and "." not in inner.text()
        if not is_number or whole or other.domain.decimals is None or "e" in inner.text().lower():
            return
        digits = inner.text().strip("0.").replace(".", "") if "." in inner.text() else inner.text().strip("0")
        if len(digits) > DIGITS:
            told = "this number has too many digits"
            self.text.unusable(Misread(told, f"Write at most {DIGITS} digits."), node)

    def operand(self, node: Node, scope: Scope) -> Scalar:
        """One side of a comparison: a column alone is compared as it is."""
        return self.raw(bare(node), scope)

    def _is(self, node: Node, scope: Scope) -> Scalar:
        self.text.allow(node.expression)
        inner = self.operand(node.this, scope)
        if node.expression.kind == "Null":
            return self.call(node, "is null", inner)
        if node.expression.kind == "Boolean" and inner.domain.kind == "boolean":
            known = self.call(node, "not", self.call(node, "is null", inner))
            truth = inner if node.expression.arguments.get("this") else self.call(node, "not", inner)
            return self.all_of(node, [known, truth], "and")
        return self.text.refuse(
            node, "IS is followed by NULL, or TRUE and FALSE on booleans", "Use = for values."
        )

    def _in(self, node: Node, scope: Scope) -> Scalar:
        if node.get("query") is not None:
            advice = f"Put it into WHERE, joined by AND; or ask for n > 0 after {BY_PERSON}"
            self.text.refuse(node, "IN (SELECT ...) is not supported here", advice)
        if not node.nodes():
            self.text.refuse(node, "IN takes a list of values", "Write: IN ('a', 'b')")
        return self._among(node, node.this, node.nodes(), scope)

    def _among(self, node: Node, value: Node, among: list[Node], scope: Scope) -> Scalar:
        """Whether a value is one of some."""
        subject = self.operand(value, scope)
        listed = [self.operand(each, scope) for each in among]
        if not listed:
            return constant(False, "boolean")  # not one of nothing, whatever it is
        if isinstance(subject, Constant) and subject.value is None:
            self.text.refuse(node, "NULL is in no list", "Leave the condition out.")
        if any(isinstance(each, Constant) and each.value is None for each in listed):
            self.text.refuse(node, "nothing equals NULL", "Leave it out of the list; write: OR x IS NULL")
        for each in among:
            self._check_digits(each, subject)
        if not all(isinstance(each, Constant) for each in listed):
            self.text.refuse(node, "IN takes a list of values", "Write: IN ('a', 'b')")
        parts = self.alike([subject, *listed], node)
        if self.text.reading > 3 and subject.domain.wide:
            return self.all_of(node, [self.compared(node, "=", parts[0], each) for each in parts[1:]], "or")
        return self.call(node, "in", parts[0], *sorted(set(parts[1:]), key=notation.order))


def once_wrong(found: Scalar) -> str | None:
    """What in a call was read otherwise before, so that what was stored for it answers another question."""
    match found:
        case Call("+" | "-" | "*" as operator, (a, b), domain) if domain.kind == "number" and domain.scale:
            if isinstance(a, Constant) and isinstance(b, Constant):
                doubles = apply(operator, [a.value, b.value])
                return None if float(evaluate(found, None)) == doubles else "decimals"  # type: ignore[arg-type]
            return "decimals"
        case Call("round" | "to integer", (a, *_)) if a.domain.kind == "number" and a.domain.scale:
            return "decimals"
        case Call("to decimal" | "to single"):
            return "casts"
        case Call("diff", (Constant("month" | "quarter" | "year"), *_), domain):
            ends = domain.low or 0, domain.high or 0  # where all are of one sign, some were left out
            return "months between dates" if ends[0] >= -1 or ends[1] <= 1 else None
        case Call("length", _, domain) if domain.high is not None:
            return "lengths"
    return None


def array(node: Node, *, of: str) -> list[Node] | None:
    """The values in ANY (ARRAY[...]) or ALL (ARRAY[...]); None if it is nothing of the kind."""
    parts = [node.this] if node.kind == "Any" else node.nodes() if node.kind == "Anonymous" else []
    called = "ANY" if node.kind == "Any" or node.name.upper() == "SOME" else node.name.upper()
    if len(parts) != 1 or called != of:
        return None
    (inner,), kinds = parts, []
    while inner.kind == "Paren" or (inner.kind == "Cast" and inner["to"].text() == "ARRAY"):
        kinds += inner["to"].nodes() if inner.kind == "Cast" else []
        inner = inner.this
    listed = inner.nodes()
    for kind in reversed(kinds):
        listed = [Node("Cast", {"this": each, "to": kind}, each.start, each.end) for each in listed]
    return listed if inner.kind == "Array" else None


def _column(source: FromItem, name: str) -> Scalar | None:
    if name in source.columns:
        return source.columns[name]
    close = [column for column in source.columns if column.lower() == name.lower()]
    return source.columns[close[0]] if len(close) == 1 else None


def is_own(scalar: Scalar) -> bool:
    """Whether it is the column that says whose row it is."""
    return isinstance(scalar, Field) and scalar.unit == "own"


def is_person(scalar: Scalar) -> bool:
    """Whether its value is the person whose row it is: that column, or one that refers to it."""
    return isinstance(scalar, Field) and scalar.unit in ("own", "refers")


def equality(condition: Scalar) -> tuple[Scalar, Scalar] | None:
    """The two sides of a = b."""
    if isinstance(condition, Call) and condition.function == "=":
        return condition.arguments[0], condition.arguments[1]
    return None


def _rounded(node: Node) -> Node | None:
    """What is rounded, or cut off, to a whole number."""
    if node.kind == "Round" and node.get("decimals") is None:
        return node.this
    return node.get("cut_off")


def _is_narrow(domain: Domain) -> bool:
    """Whether a whole number is one that a double holds."""
    ends = domain.low, domain.high
    return all(end is not None and abs(end) < EXACT for end in ends)


def _is_null(value: Scalar) -> bool:
    return isinstance(value, Constant) and value.value is None


def _has_time(value: object) -> bool:
    return isinstance(value, datetime.datetime) and value.time() != datetime.time()


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,6})?")
TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
EXAMPLES: dict[Kind, str] = {
    "integer": "Write for example: 18",
    "number": "Write for example: 1.5",
    "text": "Write for example: 'abc'",
    "boolean": "Write: TRUE or FALSE",
    "date": "Write for example: DATE '2024-01-31'",
    "timestamp": "Write for example: TIMESTAMP '2024-01-31 12:00:00'",
}
