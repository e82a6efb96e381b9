"""From SQL text to a plan, by whitelist.

sqlglot turns the text into a tree; this module reads that tree node by node and builds our own from what it
knows. A node is accepted only if its class *and* each of its non-empty arguments are on the list, because
sqlglot hangs surprises on arguments (TABLESAMPLE on a table, DISTINCT inside COUNT). Nothing of the analyst's
text is kept: the engine sees SQL printed from the `Plan` (law 8). Every refusal is decided here, from the
text and the policy alone, so it is free.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sfumato.errors import MissingBound, SyntaxRefused, UnknownName, Unsupported
from sfumato.queries.plan import (
    Arithmetic,
    Compare,
    Condition,
    Constant,
    Every,
    Expression,
    Field,
    IsNull,
    Key,
    KeyOf,
    Measure,
    Not,
    Number,
    Output,
    Plan,
    Some,
    Truth,
    canonical,
)
from sfumato.queries.rewrite import Aggregate, measures_of, shown_as

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.policy import Column, Kind, Policy, Table

LONGEST = 20_000  # characters of SQL
DEEPEST = 60  # levels of a condition or of arithmetic
MOST_GROUPS = 10**6

# What each node may carry; anything else non-empty is a refusal.
_ARGUMENTS: dict[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "where", "group", "order", "limit"},
    exp.From: {"this"},
    exp.Table: {"this", "alias"},
    exp.TableAlias: {"this"},
    exp.Where: {"this"},
    exp.Group: {"expressions"},
    exp.Order: {"expressions"},
    exp.Ordered: {"this", "desc"},
    exp.Limit: {"expression"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    exp.Star: set(),
    exp.Paren: {"this"},
    exp.Neg: {"this"},
    exp.Cast: {"this", "to"},
    exp.DataType: {"this", "nested"},
    exp.Count: {"this", "big_int"},
    exp.Sum: {"this"},
    exp.Avg: {"this"},
    exp.In: {"this", "expressions"},
    exp.Is: {"this", "expression"},
    exp.Between: {"this", "low", "high"},
    exp.Not: {"this"},
}
_TYPES = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp"}
_CALLED = {
    "Ordered": "ORDER BY",
    "Group": "GROUP BY",
    "Table": "FROM",
    "TableAlias": "AS",
    "Literal": "a text",
}
_WORDS = {
    "joins": "JOIN",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "db": "a schema",
    "query": "a subquery",
}
_BINARY = {"this", "expression"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}

# What to write instead, by the argument or the node that was refused.
_INSTEAD = {
    "joins": "Ask about one table at a time.",
    "distinct": "Leave DISTINCT out; GROUP BY already lists each key once.",
    "having": "Leave HAVING out and filter the released rows yourself; that is free.",
    "with_": "Write one SELECT without WITH.",
    "offset": "Leave OFFSET out; ask for more rows with LIMIT and skip them yourself.",
    "sample": "Leave TABLESAMPLE out: the noise already hides every single row.",
    "qualify": "Leave QUALIFY out.",
    "windows": "Leave window functions out.",
    "db": "Name the table alone, as the policy does.",
    "catalog": "Name the table alone, as the policy does.",
    "Rollup": "GROUP BY the key columns; ask a second question for totals.",
    "Cube": "GROUP BY the key columns; ask a second question for totals.",
    "GroupingSets": "GROUP BY the key columns; ask a second question for totals.",
    "nulls_first": "Leave NULLS FIRST out: rows without a value come last.",
    "all": "List the key columns in GROUP BY.",
    "query": "List the values: IN ('a', 'b').",
    "Filter": "Move the condition into WHERE and ask it as a question of its own.",
    "Window": "Leave OVER out.",
    "Subquery": "Ask about the table itself.",
    "Union": "Ask the two questions one after the other.",
    "Min": "Extremes are single persons. Ask for AVG, or COUNT(*) with WHERE.",
    "Max": "Extremes are single persons. Ask for AVG, or COUNT(*) with WHERE.",
    "Median": "Ask for AVG, or COUNT(*) with WHERE.",
    "Stddev": "Ask for AVG, or COUNT(*) by ranges with WHERE.",
    "Variance": "Ask for AVG, or COUNT(*) by ranges with WHERE.",
    "CountIf": "Write COUNT(*) and put the condition into WHERE.",
    "Like": "Compare with = or IN.",
    "ILike": "Compare with = or IN.",
    "Case": "Put the condition into WHERE.",
}


def parse(sql: str, policy: Policy) -> Plan:
    """The plan of one SELECT, or a refusal that says what to write instead."""
    if len(sql) > LONGEST:
        raise SyntaxRefused(f"the query is longer than {LONGEST} characters", "Write a shorter one.")
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise SyntaxRefused("the query is not valid Unicode", "Remove the broken character.")
    try:
        with _silence():
            statements = sqlglot.parse(sql, dialect="duckdb")
        if len(statements) != 1 or statements[0] is None:
            number = sum(statement is not None for statement in statements)
            raise SyntaxRefused(f"there are {number} statements", "Write exactly one SELECT.", sql=sql)
        plan = _Reading(sql, policy).plan(statements[0])
        if _depth((plan.where, plan.outputs, plan.order)) <= DEEPEST:
            return plan
    except ParseError as error:
        raise _syntax(sql, error) from None
    except TokenError:
        start = _unclosed(sql)
        problem = f"this is not SQL: something opened at character {start + 1} is never closed"
        raise SyntaxRefused(
            problem, "Close the quote or comment.", sql=sql, span=(start, start + 1)
        ) from None
    except RecursionError:
        pass
    raise SyntaxRefused(
        "the query is nested too deeply", "Write it with fewer parentheses and terms.", sql=sql
    )


def _syntax(sql: str, error: ParseError) -> SyntaxRefused:
    first = error.errors[0] if error.errors else {}
    start = len(first.get("start_context") or "")
    word = first.get("highlight") or ""
    line, column = first.get("line"), first.get("col")
    start = _offset(sql, line, column, word) if line and column else start
    told = first.get("description") or ""
    problem = f"this is not SQL: {'it cannot be parsed' if not told or '<' in told else told}"
    if line and column:
        problem += f", at line {line}, column {max(1, column - len(word) + 1)}"
    return SyntaxRefused(problem, "Fix the marked place.", sql=sql, span=(start, start + max(1, len(word))))


@contextmanager
def _silence() -> Iterator[None]:
    """sqlglot logs the text it cannot parse; what an analyst types is no business of a log."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _depth(part: object) -> int:
    """How deeply a plan is nested; whoever walks it later must not run out of stack."""
    if isinstance(part, tuple):
        return max((_depth(item) for item in part), default=0)
    if is_dataclass(part):
        return 1 + max((_depth(getattr(part, field.name)) for field in fields(part)), default=0)
    return 0


def _unclosed(sql: str) -> int:
    """Where the quote or comment opens that the text never closes.

    >>> _unclosed("SELECT 'a', 'b")
    12
    """
    place = 0
    for opened in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|['\"]|/\*", sql, re.DOTALL):
        place = opened.start()
        if opened.group() in ("'", '"', "/*"):
            break
    return place


def _offset(sql: str, line: int, column: int, word: str) -> int:
    """sqlglot counts columns to the end of the offending word."""
    before = sum(len(text) + 1 for text in sql.split("\n")[: line - 1])
    return max(0, min(len(sql), before + column - len(word)))


@dataclass(slots=True)
class _Reading:
    """One pass over one statement."""

    sql: str
    policy: Policy

    # Statement ----------------------------------------------------------------------------------------

    def plan(self, statement: exp.Expr) -> Plan:
        if not isinstance(statement, exp.Select):
            advice = "Write: SELECT COUNT(*) FROM a_table"
            self.refuse(statement, "only SELECT is answered", advice, name=type(statement).__name__)
        self.allow(statement)
        table, alias = self.table(statement)
        scope = _Scope(table, alias)
        where = self.where(statement, scope)
        keys = self.keys(statement, scope)
        measures = self.measures(statement, scope)
        shown = _Shown(self, scope, keys, measures)
        outputs = shown.outputs(statement)
        if not measures:
            advice = "Add COUNT(*), COUNT(x), SUM(x) or AVG(x): only aggregates over many rows are released."
            self.refuse(statement, "the query asks for no aggregate", advice)
        plan = Plan(
            table=table.name,
            unit=None if table.unit is None else scope.field(table.unit),
            where=where,
            keys=keys,
            measures=measures,
            outputs=outputs,
        )
        if plan.size > MOST_GROUPS:
            self.refuse(
                statement.args["group"], f"the keys make {plan.size} groups", f"Stay below {MOST_GROUPS}."
            )
        return replace(plan, order=shown.order(statement, outputs), limit=self.limit(statement))

    def table(self, statement: exp.Select) -> tuple[Table, str]:
        source = statement.args.get("from_")
        if source is None:
            self.refuse(statement, "the query has no FROM", "Write: SELECT COUNT(*) FROM a_table")
        self.allow(source)
        node = source.this
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            self.refuse(node, "FROM must name one table of the policy", "Ask about the table itself.")
        self.allow(node)
        table = self.policy.table(node.this.name)
        if table is None:
            known = [each.name for each in self.policy.tables if not each.public]
            raise UnknownName("table", node.this.name, known, sql=self.sql, span=self.span(node.this))
        if table.public:
            self.refuse(
                node,
                f"{table.name} is a public table",
                "It needs no noise: read it from the source directly.",
            )
        alias = node.args.get("alias")
        if alias is not None:
            self.allow(alias)
        return table, alias.name if alias is not None else table.name

    def keys(self, statement: exp.Select, scope: _Scope) -> tuple[Key, ...]:
        group = statement.args.get("group")
        if group is None:
            return ()
        self.allow(group)
        keys: list[Key] = []
        for node in group.expressions:
            target = self.positional(node, statement) if isinstance(node, exp.Literal) else node
            if isinstance(target, exp.Alias):
                target = target.this
            column = self.aliased(target, statement, scope)
            if column is None:
                advice = "GROUP BY a column of the table that has public keys."
                self.refuse(target, "GROUP BY takes columns only", advice, name=type(target).__name__)
            if column.kind in ("number", "timestamp"):
                advice = "Group by a text, integer, boolean or date column with public keys."
                self.refuse(target, f"{column.name} is a {column.kind} column", advice)
            if column.keys is None:
                example = f'{column.name} = {{ type = "{column.kind}", keys = [...] }}'
                raise MissingBound(
                    f"the values of {column.name!r} are private: nobody declared which ones exist",
                    self.policy.file,
                    f"[tables.{scope.table.name}.columns]\n  {example}",
                    sql=self.sql,
                    span=self.span(target),
                )
            if any(key.field.name == column.name for key in keys):
                self.refuse(target, f"{column.name} is grouped by twice", "Name it once.")
            keys.append(Key(scope.field(column.name), column.keys))
        return tuple(keys)

    def aliased(self, node: exp.Expr, statement: exp.Select, scope: _Scope) -> Column | None:
        """The column behind a node, which may be the alias of a selected column."""
        if not isinstance(node, exp.Column):
            return None
        if scope.table.column(node.name) is None and not node.table:
            for item in statement.expressions:
                if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                    return self.column(item.this, scope) if isinstance(item.this, exp.Column) else None
        return self.column(node, scope)

    def positional(self, node: exp.Literal, statement: exp.Select) -> exp.Expr:
        items = statement.expressions
        if node.is_string or not re.fullmatch(r"\d{1,4}", node.this) or not 1 <= int(node.this) <= len(items):
            self.refuse(node, "that position is not in the SELECT list", f"Count from 1 to {len(items)}.")
        item: exp.Expr = items[int(node.this) - 1]
        return item

    def limit(self, statement: exp.Select) -> int | None:
        node = statement.args.get("limit")
        if node is None:
            return None
        self.allow(node)
        number = node.expression
        is_number = isinstance(number, exp.Literal) and not number.is_string
        if not is_number or not re.fullmatch(r"\d{1,9}", number.this):
            self.refuse(number, "LIMIT takes a whole number", "Write for example: LIMIT 10")
        return int(number.this)

    # Measures -----------------------------------------------------------------------------------------

    def measures(self, statement: exp.Select, scope: _Scope) -> tuple[Measure, ...]:
        """Everything that must be measured to show what is selected: each once, in one canonical order."""
        found: set[Measure] = set()
        for item in statement.expressions:
            for node in item.walk():
                if isinstance(node, (exp.Count, exp.Sum, exp.Avg)):
                    found.update(measures_of(self.aggregate(node, scope), scope.table))
        return tuple(sorted(found, key=canonical))

    def aggregate(self, node: exp.Expr, scope: _Scope) -> Aggregate:
        self.allow(node)
        name: Literal["COUNT", "SUM", "AVG"]
        name = "COUNT" if isinstance(node, exp.Count) else "SUM" if isinstance(node, exp.Sum) else "AVG"
        inner = node.this
        if name == "COUNT" and isinstance(inner, (exp.Star, exp.Literal)):
            self.allow(inner)
            return Aggregate("COUNT", None)
        if inner is None:
            self.refuse(node, f"{name} needs an argument", f"Write {name}(column) or COUNT(*).")
        if isinstance(inner, exp.Distinct):
            self.refuse(
                node, f"DISTINCT is not supported in {name}", f"Write {name}(column) without DISTINCT."
            )
        if not isinstance(inner, exp.Column):
            self.refuse(
                inner, f"{name} takes one column", f"Write {name}(column).", name=type(inner).__name__
            )
        column = self.column(inner, scope)
        if name == "COUNT":
            return Aggregate("COUNT", column)
        if column.kind not in ("integer", "number"):
            advice = f"Take {name} of an integer or number column, or COUNT({column.name})."
            self.refuse(inner, f"{column.name} is a {column.kind} column", advice)
        if column.low is None or column.high is None:
            example = f'{column.name} = {{ type = "{column.kind}", low = ..., high = ... }}'
            raise MissingBound(
                f"{column.name!r} has no bounds, so one person could move {name} without limit",
                self.policy.file,
                f"[tables.{scope.table.name}.columns]\n  {example}",
                sql=self.sql,
                span=self.span(inner),
            )
        return Aggregate(name, column)

    # Conditions ---------------------------------------------------------------------------------------

    def where(self, statement: exp.Select, scope: _Scope) -> Condition | None:
        node = statement.args.get("where")
        if node is None:
            return None
        self.allow(node)
        return self.condition(node.this, scope)

    def condition(self, node: exp.Expr, scope: _Scope) -> Condition:
        self.allow(node)
        match node:
            case exp.Paren():
                return self.condition(node.this, scope)
            case exp.And() | exp.Or():
                parts = {canonical(p): p for p in self.flat(node, type(node), scope)}
                ordered = tuple(part for _, part in sorted(parts.items()))
                return (
                    ordered[0]
                    if len(ordered) == 1
                    else (Every if isinstance(node, exp.And) else Some)(ordered)
                )
            case exp.Not():
                return Not(self.condition(node.this, scope))
            case exp.Boolean():
                return Truth(Constant(bool(node.this), "boolean"))
            case exp.Column():
                column = self.column(node, scope)
                if column.kind != "boolean":
                    self.refuse(node, f"{column.name} is not a condition", f"Compare it: {column.name} = ...")
                return Truth(scope.field(column.name))
            case exp.Is():
                return self.is_(node, scope)
            case exp.In():
                column, field = self.operand_column(node.this, scope)
                values = [Compare("=", field, self.constant(each, column)) for each in node.expressions]
                if not values:
                    self.refuse(node, "IN takes a list of values", "Write: IN ('a', 'b')")
                unique = {canonical(value): value for value in values}
                return Some(tuple(value for _, value in sorted(unique.items())))
            case exp.Between():
                column, field = self.operand_column(node.this, scope)
                low = Compare(">=", field, self.constant(node.args["low"], column))
                high = Compare("<=", field, self.constant(node.args["high"], column))
                return Every(tuple(sorted((low, high), key=canonical)))
            case _ if type(node) in _COMPARISONS:
                return self.comparison(node, scope)
        return self.refuse(node, f"{_word(node)} is not supported in WHERE", "Compare columns with values.")

    def flat(self, node: exp.Expr, kind: type[exp.Expr], scope: _Scope) -> list[Condition]:
        """The parts of a chain of ANDs or of ORs, without recursion: chains can be thousands long."""
        parts: list[Condition] = []
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if type(each) is kind:
                self.allow(each)
                waiting += [each.expression, each.this]
            else:
                parts.append(self.condition(each, scope))
        return parts

    def is_(self, node: exp.Is, scope: _Scope) -> Condition:
        column = self.operand_column(node.this, scope)[0]
        right = node.expression
        self.allow(right)
        if isinstance(right, exp.Null):
            return IsNull(scope.field(column.name))
        if isinstance(right, exp.Boolean) and column.kind == "boolean":
            field = scope.field(column.name)
            known = Not(IsNull(field))
            truth: Condition = Truth(field) if right.this else Not(Truth(field))
            return Every(tuple(sorted((known, truth), key=canonical)))
        return self.refuse(node, "IS is followed by NULL, or TRUE and FALSE on booleans", "Use = for values.")

    def comparison(self, node: exp.Expr, scope: _Scope) -> Condition:
        operator = _COMPARISONS[type(node)]
        left, right = _bare(node.this), _bare(node.expression)
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, operator = right, left, _TURNED[operator]
        column, field = self.operand_column(left, scope)
        if not isinstance(right, exp.Column):
            return Compare(operator, field, self.constant(right, column))  # type: ignore[arg-type]  # a table value
        other, other_field = self.operand_column(right, scope)
        numeric = {column.kind, other.kind} <= {"integer", "number"}
        if column.kind != other.kind and not numeric:
            advice = "Compare columns of the same type."
            self.refuse(node, f"{column.name} is {column.kind} and {other.name} is {other.kind}", advice)
        return Compare(operator, field, other_field)  # type: ignore[arg-type]  # the operator comes from the table

    def operand_column(self, node: exp.Expr, scope: _Scope) -> tuple[Column, Field]:
        node = _bare(node)
        if not isinstance(node, exp.Column):
            advice = "Put a column alone on one side of the comparison."
            self.refuse(node, f"{_word(node)} is not supported in WHERE", advice, name=type(node).__name__)
        column = self.column(node, scope)
        return column, scope.field(column.name)

    def constant(self, node: exp.Expr, column: Column) -> Constant:
        """A literal, read as the type of the column it is compared with."""
        node = _bare(node)
        self.allow(node)
        if isinstance(node, exp.Null):
            self.refuse(node, "nothing equals NULL", f"Write: {column.name} IS NULL")
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            self.allow(node.to)
            cast = node.to.this.name
            if not node.this.is_string or _TYPES.get(cast) != column.kind:
                self.refuse(node, f"{cast} does not fit the {column.kind} column", _example(column))
            node = node.this
        if isinstance(node, exp.Boolean) and column.kind == "boolean":
            return Constant(bool(node.this), "boolean")
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if isinstance(literal, exp.Literal):
            self.allow(literal)
            if literal.is_string and not negative:
                return self.text(literal, column)
            if not literal.is_string and column.kind in ("integer", "number"):
                return self.numeric(literal, column, negative)
        return self.refuse(node, f"that is not a value of the {column.kind} column", _example(column))

    def text(self, node: exp.Literal, column: Column) -> Constant:
        try:
            match column.kind:
                case "text" if "\0" not in node.this:
                    return Constant(node.this, "text")
                case "date":
                    return Constant(datetime.date.fromisoformat(node.this), "date")
                case "timestamp":
                    moment = datetime.datetime.fromisoformat(node.this)
                    if moment.tzinfo is None:
                        return Constant(moment, "timestamp")
        except ValueError:
            pass
        return self.refuse(node, f"that is not a value of the {column.kind} column", _example(column))

    def numeric(self, node: exp.Literal, column: Column, negative: bool) -> Constant:
        value = self.fraction(node) * (-1 if negative else 1)
        if column.kind == "integer" and value.denominator == 1:
            if abs(value) >= 1 << 62:
                self.refuse(node, "that number is too large", "Stay below 2^62.")
            return Constant(int(value), "integer")
        return Constant(float(value), "number")

    def fraction(self, node: exp.Literal) -> Fraction:
        """A numeric literal, exactly; its size keeps it within an ordinary double."""
        # the exponent is checked before 10^exponent is computed: 1e999999999 would take for ever
        if not re.fullmatch(r"(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", node.this):
            self.refuse(node, f"{node.this[:60]} is not a number we can use", "Write one of usual size.")
        return Fraction(node.this)

    # Names and nodes ----------------------------------------------------------------------------------

    def column(self, node: exp.Column, scope: _Scope) -> Column:
        self.allow(node)
        if not isinstance(node.this, exp.Identifier):
            self.refuse(node, "* would show rows", "Rows are never shown. Write COUNT(*), SUM(x) or AVG(x).")
        self.allow(node.this)
        if node.table and node.table.lower() not in (scope.alias.lower(), scope.table.name.lower()):
            known = [scope.alias]
            raise UnknownName("table", node.table, known, sql=self.sql, span=self.span(node))
        column = scope.table.column(node.name)
        if column is None:
            known = [each.name for each in scope.table.columns]
            raise UnknownName("column", node.name, known, sql=self.sql, span=self.span(node))
        return column

    def allow(self, node: exp.Expr) -> None:
        """Refuse a node whose class, or one of whose non-empty arguments, is not on the list."""
        kind = type(node)
        binary = kind in _COMPARISONS or kind in _ARITHMETIC or kind in (exp.And, exp.Or)
        extra = {"typed", "safe"} if kind is exp.Div else set()
        allowed = _BINARY | extra if binary else _ARGUMENTS.get(kind)
        if allowed is None:
            self.refuse(
                node, f"{_word(node)} is not supported", "Ask a simpler question.", name=kind.__name__
            )
        for name, value in node.args.items():
            if value and name not in allowed:
                word = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
                part = value[0] if isinstance(value, list) else value
                where = part if isinstance(part, exp.Expr) and self.span(part) else node
                self.refuse(where, f"{word} is not supported in {_word(node)}", "Leave it out.", name=name)

    def refuse(self, node: exp.Expr, problem: str, advice: str, *, name: str = "") -> NoReturn:
        raise Unsupported(problem, _INSTEAD.get(name, advice), sql=self.sql, span=self.span(node))

    def span(self, node: exp.Expr) -> tuple[int, int] | None:
        """Where a node stands in the text, from its own position or those of its parts."""
        places = [each.meta for each in node.walk() if "start" in each.meta]
        if not places:
            return None
        return min(place["start"] for place in places), max(place["end"] for place in places) + 1


@dataclass(frozen=True, slots=True)
class _Scope:
    """The table a query speaks of, and what it calls it."""

    table: Table
    alias: str

    def field(self, name: str) -> Field:
        column = self.table.column(name)
        assert column is not None
        return Field(column.name, column.kind)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Builds the columns of the result from released measures."""

    reading: _Reading
    scope: _Scope
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]

    def outputs(self, statement: exp.Select) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for position, item in enumerate(statement.expressions, start=1):
            if isinstance(item, exp.Alias):
                self.reading.allow(item)
            node = item.this if isinstance(item, exp.Alias) else item
            name = item.alias if isinstance(item, exp.Alias) else self.name(node, position)
            outputs.append(Output(_free_name(name, outputs), self.expression(node)))
        return tuple(outputs)

    def name(self, node: exp.Expr, position: int) -> str:
        match node:
            case exp.Column():
                return self.reading.column(node, self.scope).name
            case exp.Count() | exp.Sum() | exp.Avg():
                column = self.reading.aggregate(node, self.scope).column
                word = type(node).__name__.lower()
                return word if column is None else f"{word}_{column.name}"
        return f"column_{position}"

    def expression(self, node: exp.Expr) -> Expression:
        reading = self.reading
        reading.allow(node)
        match node:
            case exp.Paren():
                return self.expression(node.this)
            case exp.Neg():
                return Arithmetic("-", Number(Fraction(0)), self.number(node.this))
            case exp.Literal() if not node.is_string:
                return Number(reading.fraction(node))
            case exp.Star():
                reading.refuse(
                    node, "* would show rows", "Rows are never shown. Write COUNT(*), SUM(x) or AVG(x)."
                )
            case exp.Column():
                return self.key(node)
            case exp.Count() | exp.Sum() | exp.Avg():
                return shown_as(reading.aggregate(node, self.scope), self.scope.table, self.measures)
            case _ if type(node) in _ARITHMETIC:
                left, right = self.number(node.this), self.number(node.expression)
                return Arithmetic(_ARITHMETIC[type(node)], left, right)  # type: ignore[arg-type]  # from the table
        return reading.refuse(
            node, f"{_word(node)} is not supported in SELECT", "Use numbers and aggregates."
        )

    def number(self, node: exp.Expr) -> Expression:
        """An expression that is a number; a key is not one."""
        found = self.expression(node)
        if isinstance(found, KeyOf):
            advice = "Select the key alone and compute with it yourself."
            self.reading.refuse(node, "arithmetic works on aggregates and numbers", advice)
        return found

    def key(self, node: exp.Column) -> KeyOf:
        column = self.reading.column(node, self.scope)
        for index, key in enumerate(self.keys):
            if key.field.name == column.name:
                return KeyOf(index)
        advice = f"Rows are never shown. Write COUNT({column.name}), or GROUP BY {column.name}."
        return self.reading.refuse(node, f"{column.name} is neither grouped by nor aggregated", advice)

    def order(
        self, statement: exp.Select, outputs: tuple[Output, ...]
    ) -> tuple[tuple[Expression, bool], ...]:
        node = statement.args.get("order")
        if node is None:
            return ()
        self.reading.allow(node)
        found: list[tuple[Expression, bool]] = []
        for item in node.expressions:
            self.reading.allow(item)
            found.append((self.ordered(item.this, statement, outputs), bool(item.args.get("desc"))))
        return tuple(found)

    def ordered(self, node: exp.Expr, statement: exp.Select, outputs: tuple[Output, ...]) -> Expression:
        if isinstance(node, exp.Literal):
            item = self.reading.positional(node, statement)
            return self.expression(item.this if isinstance(item, exp.Alias) else item)
        if isinstance(node, exp.Column) and not node.table:
            for output in outputs:
                if output.name.lower() == node.name.lower():
                    return output.expression
        for each in node.walk():
            if isinstance(each, (exp.Count, exp.Sum, exp.Avg)):
                needed = measures_of(self.reading.aggregate(each, self.scope), self.scope.table)
                if not set(needed) <= set(self.measures):
                    advice = "Put it into the SELECT list as well: it has to be released to sort by it."
                    self.reading.refuse(each, "ORDER BY uses an aggregate that is not selected", advice)
        return self.expression(node)


def _free_name(name: str, outputs: list[Output]) -> str:
    """The name, or the name with a number, so that no column or end of an interval is called the same."""
    ends = ("", "_low", "_high")
    taken = {output.name + end for output in outputs for end in ends}
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    return next(each for each in candidates if not taken & {each + end for end in ends})


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _word(node: exp.Expr) -> str:
    """What to call a node in a message."""
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return f"the function {node.name}()"
    if isinstance(node, exp.Func) and not isinstance(node, (exp.And, exp.Or, exp.Cast, exp.Case)):
        return f"the function {type(node).sql_name()}()"
    return _CALLED.get(type(node).__name__, type(node).__name__.upper())


def _example(column: Column) -> str:
    examples: dict[Kind, str] = {
        "integer": f"Write for example: {column.name} >= 18",
        "number": f"Write for example: {column.name} >= 1.5",
        "text": f"Write for example: {column.name} = 'abc'",
        "boolean": f"Write for example: {column.name} = TRUE",
        "date": f"Write for example: {column.name} >= DATE '2024-01-31'",
        "timestamp": f"Write for example: {column.name} >= TIMESTAMP '2024-01-31 12:00:00'",
    }
    return examples[column.kind]
