"""Texts in other dialects of SQL, in the words of ours.

The parser library reads BigQuery, T-SQL, MySQL and Snowflake and writes DuckDB's SQL, which is then read like
any other text: a question in another dialect is the same question, with the same name. Where the library
would change the meaning in silence, the tree is put right first, or the text is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from sfumato.errors import SyntaxRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.queries.policy import Policy

SPELLINGS = ("duckdb", "postgres", "bigquery", "tsql", "mysql", "snowflake")
CALLED = {"bigquery": "BigQuery", "tsql": "T-SQL", "mysql": "MySQL", "snowflake": "Snowflake"}
_WHOLE_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_FLOATS = (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT, exp.DataType.Type.DECIMAL)
_SIGNS = (  # by which a text is taken for one of another dialect
    (r"^\s*SELECT\s+(?:DISTINCT\s+)?TOP\s*\(?\s*\d", "tsql", "TOP is T-SQL: write LIMIT at the end"),
    (r"\[\w[\w ]*\]", "tsql", 'brackets around names are T-SQL: write "name"'),
    (r"\b(?:ISNULL|GETDATE|DATEPART|IIF)\s*\(", "tsql", "this looks like T-SQL"),
    (r"\bDATE_FORMAT\s*\(|\bCURDATE\s*\(", "mysql", "this looks like MySQL"),
    (r"\bSAFE_DIVIDE\s*\(|\bTIMESTAMP_TRUNC\s*\(|\bFORMAT_DATE\s*\(", "bigquery", "this looks like BigQuery"),
    (r"`", "bigquery", 'backticks are BigQuery or MySQL: write "name"'),
    (r"\bIFF\s*\(|\bDATEADD\s*\(", "snowflake", "this looks like Snowflake"),
)


def looks_like(sql: str) -> str:
    """Which other dialect a text seems to be written in, and what to do; nothing if none."""
    bare = re.sub(r"'(?:[^']|'')*'", "''", sql)
    for pattern, name, told in _SIGNS:
        if re.search(pattern, bare, re.IGNORECASE):
            return f"{told}, or say so: dialect=\"{name}\" (--dialect {name}; SET sfumato.dialect = '{name}')"
    return ""


def put_right(tree: exp.Expr, dialect: str, sql: str) -> exp.Expr:
    """The same tree, where the library would write something else."""
    for pattern, told, advice in _REFUSED.get(dialect, ()):
        if re.search(pattern, re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql), re.IGNORECASE):
            raise SyntaxRefused(told, advice, sql=sql)
    for node in reversed(list(tree.walk())):  # what stands inside first: then it is part of what is made
        for kind, change in _CHANGES.get(dialect, ()):
            if isinstance(node, kind):
                changed = change(node, sql)
                if changed is not node:
                    node.replace(changed)
                break
    return tree


# Whole numbers and dates, of which only the policy tells ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Doubt:
    """A part of a text that means something else here unless one of these columns has decimals, or if any of
    them is a date."""

    columns: frozenset[str]
    is_quotient: bool


def doubts(sql: str, dialect: str) -> tuple[Doubt, ...]:
    """What only the policy can tell: whether T-SQL divides whole numbers, and MySQL subtracts dates."""
    tree = sqlglot.parse_one(sql, dialect=dialect)
    named = _Named()
    for item in tree.find_all(exp.Alias):
        named.items.setdefault(item.alias.lower(), []).append(item.this)
    found = []
    for node in tree.walk():
        if dialect == "tsql" and isinstance(node, exp.Div):
            sides = [_columns(each, named) for each in (node.this, node.expression)]
            if None not in sides:
                found.append(Doubt(frozenset().union(*(each or () for each in sides)), is_quotient=True))
        if dialect == "mysql" and isinstance(node, exp.Sub):
            sides = [_columns(each, named) or frozenset() for each in (node.this, node.expression)]
            found.append(Doubt(frozenset().union(*(each or () for each in sides)), is_quotient=False))
    return tuple(found)


def check_doubts(found: Sequence[Doubt], policy: Policy, sql: str) -> None:
    """Refuse what would mean something else."""
    for doubt in found:
        columns = [
            column
            for table in policy.tables
            for column in table.columns
            if column.name.lower() in doubt.columns
        ]
        if doubt.is_quotient:
            exact = {each.name.lower() for each in columns if each.kind == "number" and each.scale != 0}
            whole = {each.name.lower() for each in columns} - exact
            whole |= {each.name.lower() for each in columns if each.kind != "number" or each.scale == 0}
            if not exact - whole:
                raise SyntaxRefused(
                    "T-SQL divides whole numbers as whole numbers, and these may be whole",
                    "Write 1.0 * a / b, or CAST(a AS FLOAT) / b.",
                    sql=sql,
                )
        elif any(each.kind in ("date", "timestamp") for each in columns):
            told = "MySQL takes dates for numbers when it subtracts them"
            raise SyntaxRefused(told, "Write: DATEDIFF(later, earlier)", sql=sql)


@dataclass(frozen=True, slots=True)
class _Named:
    """What the names of a text stand for, and what was found out about them."""

    items: dict[str, list[exp.Expr]] = field(default_factory=dict)
    known: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def columns(self, name: str) -> frozenset[str] | None:
        """The columns that decide whether what is called so is a whole number."""
        if name not in self.known:
            self.known[name] = frozenset({name})  # where it is made of itself
            inner = [_columns(each, self) for each in self.items.get(name, ())]
            found = frozenset().union(*(each or () for each in inner))
            if inner == [None]:
                self.known[name] = None
            else:
                self.known[name] = found - {name} if inner else frozenset({name})
        return self.known[name]


def _columns(node: exp.Expr, named: _Named) -> frozenset[str] | None:
    """The columns that make a value no whole number if one of them is none; None if it surely is none."""
    match node:
        case exp.Literal():
            return None if not node.is_string and "." in node.name else frozenset()
        case exp.Cast() if node.to.this in _FLOATS:
            return None if node.to.this is not exp.DataType.Type.DECIMAL or _scale(node.to) else frozenset()
        case exp.Cast() | exp.Count():
            return frozenset()
        case (
            exp.Avg() | exp.Stddev() | exp.StddevPop() | exp.StddevSamp() | exp.Variance() | exp.VariancePop()
        ):
            return None
        case exp.Column():
            return named.columns(node.name.lower())
        case exp.Case():
            parts = [each.args["true"] for each in node.args["ifs"]] + [node.args.get("default")]
        case exp.If():
            parts = [node.args["true"], node.args.get("false")]
        case exp.Nullif():
            parts = [node.this]
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            parts = [node.this, node.expression]
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            parts = [node.this, *node.expressions]
        case exp.Subquery() | exp.Select():
            inner_select = node.find(exp.Select)
            parts = list(inner_select.expressions[:1]) if inner_select is not None else []
        case exp.Sum() | exp.Min() | exp.Max() | exp.Paren() | exp.Neg() | exp.Abs() | exp.Alias():
            parts = [node.this]
        case exp.Window() | exp.Lag() | exp.Lead() | exp.FirstValue() | exp.LastValue() | exp.Filter():
            parts = [node.this]
        case _:
            return frozenset()
    sides = [_columns(each, named) for each in parts if each is not None]
    return None if None in sides else frozenset().union(*(each or () for each in sides))


def _scale(kind: exp.DataType) -> int:
    given = [each.this.name for each in kind.expressions]
    return int(given[1]) if len(given) > 1 and given[1].isdecimal() else 0


# What is written otherwise ---------------------------------------------------------------------------------


def _call(name: str, *given: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in given])


def _from_sunday_one(node: exp.Expr, _: str) -> exp.Expr:
    """The day of the week from 1 on; DuckDB's begins with 0."""
    if isinstance(node, exp.Extract) and node.name.upper() != "DAYOFWEEK":
        return node
    return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))


def _extract(node: exp.Expr, sql: str) -> exp.Expr:
    if node.name.upper() in ("WEEKISO", "ISOWEEK"):
        return exp.Extract(this=exp.Var(this="WEEK"), expression=node.expression.copy())
    if node.name.upper() in ("WEEK", "YEAROFWEEK"):
        raise SyntaxRefused("weeks begin on Sunday in this dialect", "Write: ISOWEEK, or DATE_TRUNC", sql=sql)
    return _from_sunday_one(node, sql)


def _week(node: exp.Expr, sql: str) -> exp.Expr:
    if isinstance(mode := node.args.get("mode"), exp.Literal) and mode.name == "3":
        return exp.WeekOfYear(this=node.this.copy())
    told = "WEEK() counts weeks from a Sunday on, unless its mode is 3"
    raise SyntaxRefused(told, "Write: WEEKOFYEAR(x), or WEEK(x, 3)", sql=sql)


def _truncated(node: exp.Expr, _: str) -> exp.Expr:
    """T-SQL cuts decimals off when it casts them to integers."""
    if not isinstance(node, exp.Cast) or node.to.this not in exp.DataType.INTEGER_TYPES:
        return _cast(node, _)
    if _is_whole(node.this):
        return node
    return exp.Cast(this=_call("TRUNC", node.this), to=node.to.copy())


def _rounded(node: exp.Expr, _: str) -> exp.Expr:
    """A half is rounded away from zero, which DuckDB does in ROUND, but not in casts of doubles."""
    if not isinstance(node, exp.Cast) or node.to.this not in exp.DataType.INTEGER_TYPES:
        return _cast(node, _)
    if _is_whole(node.this):
        return node
    return exp.Cast(this=exp.Round(this=node.this.copy()), to=node.to.copy())


def _is_whole(node: exp.Expr) -> bool:
    """Whether a cast to an integer leaves it as it is, or reads it: a whole number, a text, a truth value."""
    if isinstance(node, exp.Literal):
        return node.is_string or node.name.isdecimal()
    if isinstance(node, exp.Paren):
        return _is_whole(node.this)
    return isinstance(node, (exp.Count, exp.Boolean, exp.Null, exp.Predicate, exp.Not, exp.Connector))


def _mysql_cast(node: exp.Expr, sql: str) -> exp.Expr:
    """A quotient is a decimal, whose half is rounded away from zero."""
    is_quotient = isinstance(node, exp.Cast) and node.this.find(exp.Div, exp.Avg) is not None
    return _rounded(node, sql) if is_quotient else _cast(node, sql)


def _bigquery_cast(node: exp.Expr, sql: str) -> exp.Expr:
    """NUMERIC has nine decimals unless others are written."""
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.BIGDECIMAL:
        raise SyntaxRefused("BIGNUMERIC is not supported", "Write: CAST(x AS FLOAT64)", sql=sql)
    if isinstance(node, exp.Cast) and node.to.this is _KINDS.DECIMAL and not node.to.expressions:
        return exp.Round(this=node.this.copy(), decimals=exp.Literal.number(9))
    return _rounded(node, sql)


_KINDS = exp.DataType.Type
_TEXTS = (_KINDS.VARCHAR, _KINDS.CHAR, _KINDS.NVARCHAR, _KINDS.NCHAR)


def _cast(node: exp.Expr, _: str) -> exp.Expr:
    """DECIMAL has no decimals unless they are written, and VARCHAR(3) has three letters."""
    if isinstance(node, exp.Cast) and node.to.this in _TEXTS and node.to.expressions:
        whole = exp.Cast(this=node.this.copy(), to=exp.DataType.build("VARCHAR", dialect="duckdb"))
        return exp.Left(this=whole, expression=node.to.expressions[0].this.copy())
    if (
        isinstance(node, exp.Cast)
        and node.to.this is exp.DataType.Type.DECIMAL
        and len(node.to.expressions) < 2
    ):
        digits = node.to.expressions[0].this.name if node.to.expressions else "18"
        return exp.Cast(
            this=node.this.copy(), to=exp.DataType.build(f"DECIMAL({digits}, 0)", dialect="duckdb")
        )
    return node


def _tsql_cast(node: exp.Expr, sql: str) -> exp.Expr:
    """FLOAT is a double."""
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.FLOAT:
        return exp.Cast(this=node.this.copy(), to=exp.DataType.build("DOUBLE", dialect="duckdb"))
    return _truncated(node, sql)


def _no_classes(node: exp.Expr, sql: str) -> exp.Expr:
    if "[" in node.expression.name:
        raise SyntaxRefused("[ ] in LIKE is not supported", "Write: x LIKE 'a%' OR x LIKE 'b%'", sql=sql)
    return node


def _no_escapes(node: exp.Expr, sql: str) -> exp.Expr:
    if "\\" in node.expression.name:
        raise SyntaxRefused("a backslash in LIKE is not supported", "Write: CONTAINS(x, '_')", sql=sql)
    return node


def _never_below_none(node: exp.Expr, _: str) -> exp.Expr:
    """LEFT(x, -1) is nothing, not all but one."""
    if isinstance(node.expression, exp.Literal):
        return node
    count = exp.Greatest(this=node.expression.copy(), expressions=[exp.Literal.number(0)])
    return type(node)(this=node.this.copy(), expression=count)


def _full_units(node: exp.Expr, sql: str) -> exp.Expr:
    """What has passed in full, not the borders between."""
    unit = node.text("unit").upper()
    given = node.expression, node.this
    if unit == "YEAR":
        age = _call("AGE", *reversed(given))
        return exp.Extract(this=exp.Var(this="YEAR"), expression=age)
    if unit not in _WHOLE_UNITS:
        told = f"full units of {unit.lower() or 'this kind'} cannot be counted here"
        raise SyntaxRefused(told, "Write: TIMESTAMPDIFF(DAY, a, b), or of YEAR", sql=sql)
    passed = _call("DATE_DIFF", exp.Literal.string("microsecond"), *given)
    return exp.IntDiv(this=passed, expression=exp.Literal.number(_WHOLE_UNITS[unit] * 10**6))


def _extracted(node: exp.Expr, sql: str) -> exp.Expr:
    """REGEXP_EXTRACT gives the group if there is one, and NULL where nothing matches."""
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        told = "a position or an occurrence in REGEXP_EXTRACT is not supported"
        raise SyntaxRefused(told, "Write: REGEXP_EXTRACT(x, 'a(b)')", sql=sql)
    pattern = node.expression
    is_written = isinstance(pattern, exp.RawString) or pattern.is_string
    group = int(is_written and re.search(r"(?<!\\)\((?!\?)", pattern.name) is not None)
    written = exp.Literal.string(pattern.name) if is_written else pattern
    found = _call("REGEXP_EXTRACT", node.this, written, exp.Literal.number(group))
    matches = _call("REGEXP_MATCHES", node.this, written)
    return exp.Case(ifs=[exp.If(this=matches, true=found)])


def _shown_as(node: exp.Expr, sql: str) -> exp.Expr:
    """A date as a text: in no other zone, and in no language."""
    if node.args.get("zone") is not None:
        told = "a time zone in this function is not supported"
        raise SyntaxRefused(
            told, "Leave it out: moments are in UTC. Or add the hours to the moment.", sql=sql
        )
    if node.args.get("culture") is not None:
        raise SyntaxRefused(
            "a language in FORMAT is not supported", "Write: FORMAT(x, 'yyyy-MM-dd')", sql=sql
        )
    return node


def _trimmed(letters: str) -> Callable[[exp.Expr, str], exp.Expr]:
    """TRIM without letters removes these."""

    def trimmed(node: exp.Expr, _: str) -> exp.Expr:
        if node.args.get("expression") is not None or node.args.get("position"):
            return node
        return exp.Trim(this=node.this.copy(), expression=exp.Literal.string(letters))

    return trimmed


_REFUSED = {
    "tsql": (
        (
            r"\bFORMAT\s*\([^()]*,\s*N?'[A-Za-z]'",
            "formats of one letter depend on the language in T-SQL",
            "Write the parts: FORMAT(x, 'yyyy-MM-dd')",
        ),
        (r"\bAS\s+REAL\b", "REAL has only seven digits", "Write: CAST(x AS FLOAT)"),
        (
            r"\b(?:DATEADD|DATEDIFF|DATETRUNC|DATEPART)\s*\(\s*(?:y|w)\s*,|"
            r"\b(?:DATEADD|DATEDIFF|DATETRUNC)\s*\(\s*(?:dy|dw|weekday|dayofyear)\s*,",
            "this short name of a unit means days in T-SQL",
            "Write the unit in full: YEAR, WEEK or DAY",
        ),
        (
            r"\b(?:DATETRUNC|DATEDIFF)\s*\(\s*(?:week|wk|ww)\s*,",
            "weeks begin on Sunday in T-SQL",
            "Write: DATETRUNC(iso_week, x), or DATEDIFF(day, a, b) / 7",
        ),
        (
            r"\bDATENAME\s*\(\s*(?:day|dd|d|dayofyear|hour|minute|second|week|year)\s*,",
            "DATENAME is for months and weekdays here",
            "Write: CAST(DATEPART(day, x) AS VARCHAR(2))",
        ),
        (
            r"\bFORMAT\s*\([^()]*,\s*N?'[^']*(?:(?<![yY])y(?!y)|Y|D|\\|\")",
            "this format is not supported",
            "Write: FORMAT(x, 'yyyy-MM-dd')",
        ),
    ),
    "bigquery": (
        (r"\bFORMAT_\w+\s*\(\s*'[^']*%[ejklU]", "this format is not supported", "Write: %d, %H or %I"),
    ),
}
_CHANGES: dict[str, tuple[tuple[Any, Callable[[Any, str], exp.Expr]], ...]] = {
    "tsql": (
        (exp.Extract, _extract),
        (exp.Cast, _tsql_cast),
        (exp.Like, _no_classes),
        (exp.TimeToStr, _shown_as),
        (exp.Trim, _trimmed(" ")),
    ),
    "mysql": (
        (exp.DayOfWeek, _from_sunday_one),
        (exp.Week, _week),
        (exp.TimestampDiff, _full_units),
        (exp.Cast, _mysql_cast),
        (exp.Trim, _trimmed(" ")),
        (exp.Like, _no_escapes),
        ((exp.Left, exp.Right), _never_below_none),
    ),
    "bigquery": (
        (exp.Extract, _extract),
        (exp.TimestampDiff, _full_units),
        (exp.RegexpExtract, _extracted),
        (exp.Cast, _bigquery_cast),
        (exp.TimeToStr, _shown_as),
        (exp.Trim, _trimmed(" \t\n\v\f\r")),
        (exp.Like, _no_escapes),
        ((exp.Left, exp.Right), _never_below_none),
    ),
    "snowflake": (
        (exp.Cast, _rounded),
        (exp.Trim, _trimmed(" ")),
        (exp.Like, _no_escapes),
        ((exp.Left, exp.Right), _never_below_none),
    ),
}
