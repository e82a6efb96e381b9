"""From SQL text to a plan, by whitelist.

The parser library turns the text into a tree, which is copied into nodes of our own here (no other file knows
the library); `reading`, `rows` and `asking` read them node by node and build a `Plan` from what they know.
Nothing of the analyst's text is kept: the engine sees SQL printed from the plan (law 8). Every refusal is
decided here, from the text and the policy alone, so it is free.
"""

from __future__ import annotations

import enum
import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sfumato.errors import SyntaxRefused
from sfumato.queries.asking import ask
from sfumato.queries.notation import READING
from sfumato.queries.rewrite import rewrite
from sfumato.queries.syntax import Missing, Node, Text, word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.asking import Measuring
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy

LONGEST_QUESTION = 20_000  # characters of SQL
DEEPEST = 120  # levels of nodes


def parse(sql: str, policy: Policy, measuring: Measuring = rewrite, *, reading: int = READING) -> Plan:
    """The plan of one SELECT, or a refusal that says what to write instead.

    `measuring` chooses the measures of its aggregates: those that a stored release has, for example. With an
    earlier `reading` it is understood as it was then: from the first on, which was the first to be noted.
    """
    try:
        return _asked(tree(sql), Text(sql, policy, reading), measuring)
    except RecursionError:
        raise too_deep(sql) from None


def tree(sql: str, dialect: str = "duckdb") -> Node:
    """The tree of one statement."""
    if len(sql) > LONGEST_QUESTION:
        raise SyntaxRefused(f"the query is longer than {LONGEST_QUESTION} characters", "Write a shorter one.")
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise SyntaxRefused("the query is not valid Unicode", "Remove the broken character.")
    try:
        with _silence():
            statements = sqlglot.parse(sql, dialect=dialect)
        if len(statements) != 1 or statements[0] is None:
            number = sum(statement is not None for statement in statements)
            raise SyntaxRefused(f"there are {number} statements", "Write exactly one SELECT.", sql=sql)
        found = _node(statements[0], 0)
        if found is not None:
            return found
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
    raise too_deep(sql)


def too_deep(sql: str) -> SyntaxRefused:
    """A question that nothing here can walk through."""
    return SyntaxRefused(
        "the query is nested too deeply", "Write it with fewer parentheses and terms.", sql=sql
    )


def _asked(tree: Node, text: Text, measuring: Measuring) -> Plan:
    try:
        return ask(tree, text, measuring)
    except Missing as missing:
        text.refuse(missing.node, f"{word(missing.node)} lacks an argument", "Write all of them.")


def _node(tree: exp.Expr, depth: int) -> Node | None:
    """Our copy of the library's tree; None if it is too deep for whoever walks it later."""
    if isinstance(tree, (exp.And, exp.Or)):
        return _chain(tree, depth)
    if depth > DEEPEST:
        return None
    arguments: dict[str, Node | list[Node] | str | bool] = {}
    for name, value in _in_the_one_schema(tree).items():
        if isinstance(value, exp.Expr):
            copied = _node(value, depth + 1)
            if copied is None:
                return None
            arguments[name] = copied
        elif isinstance(value, list):
            parts = [_node(each, depth + 1) for each in value if isinstance(each, exp.Expr)]
            if None in parts:
                return None
            arguments[name] = [part for part in parts if part is not None]
            if len(parts) < len(value):  # a list of something we do not know
                arguments["unknown"] = True
        elif isinstance(value, enum.Enum):
            arguments[name] = str(value.name)
        elif value is not None:
            arguments[name] = value if isinstance(value, bool) else str(value)
    start, end = tree.meta.get("start", -1), tree.meta.get("end", -1)
    return Node(type(tree).__name__, arguments, start, end, _called(tree))


def _in_the_one_schema(tree: exp.Expr) -> dict[str, Any]:
    """The arguments of a node; public.visits is visits, for tools that always write a schema."""
    given: dict[str, Any] = tree.args
    is_name = isinstance(tree, (exp.Table, exp.Column)) and not given.get("catalog")
    if is_name and isinstance(schema := given.get("db"), exp.Identifier) and schema.name == "public":
        return {name: value for name, value in given.items() if name != "db"}
    return given


def _called(tree: exp.Expr) -> str:
    if isinstance(tree, (exp.Anonymous, exp.AnonymousAggFunc)):
        return f"the function {tree.name}()"
    if isinstance(tree, exp.Func) and not isinstance(tree, (exp.Cast, exp.Case)):
        return f"the function {type(tree).sql_name()}()"
    return ""


def _chain(tree: exp.Expr, depth: int) -> Node | None:
    """A chain of ANDs or ORs as one node with many parts: chains can be thousands long."""
    parts: list[Node] = []
    waiting: list[exp.Expr] = [tree]
    while waiting:
        each = waiting.pop()
        if type(each) is type(tree):
            waiting += [each.expression, each.this]
            continue
        copied = _node(each, depth + 1)
        if copied is None:
            return None
        parts.append(copied)
    return Node(type(tree).__name__, {"expressions": parts})


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
    """The library logs the text it cannot parse; what an analyst types is no business of a log."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


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
    """The library counts columns to the end of the offending word."""
    before = sum(len(text) + 1 for text in sql.split("\n")[: line - 1])
    return max(0, min(len(sql), before + column - len(word)))
