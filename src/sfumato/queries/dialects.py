"""Texts in other dialects of SQL, in the words of ours.

The parser library reads BigQuery, T-SQL, MySQL and Snowflake and writes DuckDB's SQL, which is then read like
any other text: a question in another dialect is the same question, with the same name. Where the library
would change the meaning in silence, the tree is put right first, or the text is refused.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sfumato.errors import SyntaxRefused

SPELLINGS = ("duckdb", "postgres", "bigquery", "tsql", "mysql", "snowflake")
CALLED = {"bigquery": "BigQuery", "tsql": "T-SQL", "mysql": "MySQL", "snowflake": "Snowflake"}
_WHOLE_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
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
    for node in list(tree.walk()):
        sides = (node.this, node.expression) if isinstance(node, exp.Div) else ()
        if dialect == "tsql" and sides and not any(map(_is_exact, sides)):
            raise SyntaxRefused(
                "T-SQL divides whole numbers as whole numbers, and these may be whole",
                "Write 1.0 * a / b, or CAST(a AS FLOAT) / b.",
                sql=sql,
            )
        if dialect == "mysql" and isinstance(node, exp.TimestampDiff):
            node.replace(_full_units(node))
        if dialect == "bigquery" and isinstance(node, exp.RegexpExtract):
            node.replace(_extracted(node))
    return tree


def _is_exact(node: exp.Expr) -> bool:
    """Whether it is surely no whole number."""
    for each in node.walk():
        if isinstance(each, exp.Literal) and not each.is_string and "." in each.name:
            return True
        if isinstance(each, exp.Cast) and each.to.this in _FLOATS:
            return True
        if isinstance(each, (exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance)):
            return True
    return False


def _full_units(node: exp.TimestampDiff) -> exp.Expr:
    """TIMESTAMPDIFF counts what has passed in full, not the borders between."""
    unit = node.text("unit").upper()
    if unit not in _WHOLE_UNITS:
        return node
    seconds = exp.Anonymous(
        this="DATE_DIFF",
        expressions=[exp.Literal.string("second"), node.expression.copy(), node.this.copy()],
    )
    return exp.IntDiv(this=seconds, expression=exp.Literal.number(_WHOLE_UNITS[unit]))


def _extracted(node: exp.RegexpExtract) -> exp.Expr:
    """REGEXP_EXTRACT gives the group if there is one, and NULL where nothing matches."""
    pattern = node.expression
    group = int(pattern.is_string and re.search(r"(?<!\\)\((?!\?)", pattern.name) is not None)
    given = [node.this.copy(), pattern.copy(), exp.Literal.number(group)]
    found = exp.Anonymous(this="REGEXP_EXTRACT", expressions=given)
    return exp.Nullif(this=found, expression=exp.Literal.string(""))
