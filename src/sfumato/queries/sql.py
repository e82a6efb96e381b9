"""From SQL text to a tree of our own nodes.

The parser library turns the text into its tree, which is copied here: no other file knows the library. Two
dialects are read, DuckDB's and PostgreSQL's. Values that come beside the text ($1, $2, ...) are nodes of the
kind Placeholder.
"""

from __future__ import annotations

import enum
import logging
import re
from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, TokenError, UnsupportedError

from sfumato.errors import SyntaxRefused
from sfumato.queries.dialects import CALLED, looks_like, put_right
from sfumato.queries.lexing import signs
from sfumato.queries.syntax import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Dialect = Literal["duckdb", "postgres"]
LONGEST_QUESTION = 20_000  # characters of SQL
DEEPEST = 120  # levels of nodes
CATALOGS = ("pg_catalog", "information_schema")
VALUE = "sfumato_value_"  # how $1 is spelled for the parser, which takes $1,$ for the beginning of a text


class _AtTheServer(Postgres):
    """PostgreSQL's grammar, and the words that we have beside it."""

    class Tokenizer(Postgres.Tokenizer):
        KEYWORDS = {**Postgres.Tokenizer.KEYWORDS, "//": TokenType.DIV}  # noqa: RUF012  # the library's way

    class Parser(Postgres.Parser):  # type: ignore[valid-type, misc]  # the library makes it an attribute
        FUNCTIONS = {  # noqa: RUF012  # the library's way
            **Postgres.Parser.FUNCTIONS,
            **{
                name: DuckDB.Parser.FUNCTIONS[name]
                for name in ("QUANTILE_CONT", "QUANTILE_DISC", "DATETRUNC", "DATE_DIFF", "DATEDIFF")
            },
        }

        FUNCTION_PARSERS = {  # noqa: RUF012  # DATE_PART is a double, EXTRACT a numeric: both are told apart
            name: made for name, made in Postgres.Parser.FUNCTION_PARSERS.items() if name != "DATE_PART"
        }


_GRAMMARS: dict[Dialect, Any] = {"duckdb": "duckdb", "postgres": _AtTheServer}


def tree(sql: str, dialect: Dialect = "duckdb") -> Node:
    """The tree of one statement."""
    check_text(sql)
    _check_words(sql, dialect)
    spelled = replaced(sql, lambda number: f" {VALUE}{number} ")
    try:
        with _silence():
            statements = sqlglot.parse(spelled, dialect=_GRAMMARS[dialect])
        if len(statements) != 1 or statements[0] is None:
            number = sum(statement is not None for statement in statements)
            told = f"there are {number} statements" if number > 1 else "there is an empty statement"
            told = told if number else "the query is empty"
            raise SyntaxRefused(told, "Write exactly one SELECT.", sql=sql)
        found = _node(_sorted_inside(statements[0], sql), 0)
        if found is not None:
            _call_as_typed(found, spelled)
            return found if spelled == sql else _with_values(found, sql)
    except ParseError as error:
        raise _syntax(sql, spelled, error) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # the library trips over some texts
        raise SyntaxRefused("this is not valid SQL", "Write a SELECT.", sql=sql) from None
    except TokenError:
        start = _unclosed(sql)
        problem = f"this is not valid SQL: the quote or comment at character {start + 1} is never closed"
        raise SyntaxRefused(
            problem, "Close the quote or comment.", sql=sql, span=(start, start + 1)
        ) from None
    except RecursionError:
        pass
    raise too_deep(sql)


_AROUND = ("order", "limit", "offset", "with_")


def _sorted_inside(tree: exp.Expr, sql: str) -> exp.Expr:
    """(SELECT ...) ORDER BY x LIMIT 1: what stands behind a query in parentheses is said of the query."""
    for outer in tree.find_all(exp.Subquery):
        given = {name: outer.args[name] for name in _AROUND if outer.args.get(name)}
        if any(outer.this.args.get(name) for name in (*_AROUND, "fetch")) and given:
            told = "a query in parentheses has ORDER BY, LIMIT or WITH inside and behind it"
            raise SyntaxRefused(told, "Give it a name: SELECT * FROM (SELECT ...) AS t ORDER BY x", sql=sql)
        for name, value in given.items():
            outer.set(name, None)
            outer.this.set(name, value)
    return tree


def respelled(sql: str, dialect: str) -> str:
    """A text in BigQuery's, T-SQL's, MySQL's or Snowflake's dialect, in DuckDB's."""
    check_text(sql)
    try:
        with _silence():
            statements = sqlglot.parse(sql, dialect=dialect)
            if len(statements) != 1 or statements[0] is None:
                raise SyntaxRefused(
                    "there is not exactly one statement", "Write exactly one SELECT.", sql=sql
                )
            return put_right(statements[0], dialect, sql).sql(
                dialect="duckdb", unsupported_level=ErrorLevel.RAISE
            )
    except ParseError as error:
        raise _syntax(sql, sql, error) from None
    except UnsupportedError as error:
        told = f"this has no counterpart here: {str(error).splitlines()[0][:200]}"
        raise SyntaxRefused(told, "Write it in DuckDB's SQL.", sql=sql) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, TokenError):
        raise SyntaxRefused(f"this is not valid {CALLED[dialect]}", "Write a SELECT.", sql=sql) from None
    except RecursionError:
        raise too_deep(sql) from None


def check_text(sql: str) -> None:
    """Refuse a text that is too long, or that is no text."""
    if len(sql) > LONGEST_QUESTION:
        raise SyntaxRefused(f"the query is longer than {LONGEST_QUESTION} characters", "Write a shorter one.")
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise SyntaxRefused("the query is not valid Unicode", "Remove the broken character.")


def too_deep(sql: str) -> SyntaxRefused:
    """A question that nothing here can walk through."""
    return SyntaxRefused(
        "the query is nested too deeply", "Write it with fewer parentheses and terms.", sql=sql
    )


def values_of(sql: str) -> list[tuple[int, int, int]]:
    """The numbers of all values in a text, and where they stand."""
    if "$" not in sql:
        return []
    return [(int(sql[start + 1 : end]), start, end) for sign, start, end in signs(sql) if sign == "value"]


def replaced(sql: str, put: Callable[[int], str]) -> str:
    """The text with something in the place of each value."""
    parts, place = [], 0
    for number, start, end in values_of(sql):
        parts += [sql[place:start], put(number)]
        if sql[end : end + 1].isalnum() or sql[end : end + 1] == "_":  # $1AND
            parts.append(" ")
        place = end
    return "".join([*parts, sql[place:]])


def _check_words(sql: str, dialect: Dialect) -> None:
    if VALUE in sql.lower():
        raise SyntaxRefused(f"names cannot begin with {VALUE}", "Take another name.", sql=sql)
    for number, start, end in values_of(sql) if dialect == "postgres" else ():
        if start and (sql[start - 1].isalnum() or sql[start - 1] == "_"):
            told = f"${number} stands directly after a word"
            raise SyntaxRefused(told, "Put a space between them.", sql=sql, span=(start, end))
    for pattern, problem, advice in _NOT_IN_POSTGRES if dialect == "postgres" else ():
        if (found := _outside_of_quotes(pattern, sql)) is not None:
            raise SyntaxRefused(problem, advice, sql=sql, span=found)


# What the parser reads, and PostgreSQL does not: 1_000 would be 1 AS _000.
_NOT_IN_POSTGRES = (
    (
        r"(?<![\w.])\d++\.?+\d*+(?![eE][+-]?\d)[A-Za-z_]\w*",
        "a number is followed directly by a letter or an underscore",
        "Write 1000 for 1_000, 16 for 0x10; else add a space.",
    ),
    (r"\|/", "the operators |/ and ||/ are not supported", "Write: SQRT(x)"),
    (r"==", "== is not an operator of PostgreSQL", "Write: ="),
    (r",\s*FROM\b", "there is a comma before FROM", "Remove it."),
)


def _outside_of_quotes(pattern: str, sql: str) -> tuple[int, int] | None:
    """Where something stands in a text that is no quote, comment or value."""
    place, bare = 0, []
    for sign, start, end in signs(sql):
        if sign in ("closed", "open", "value"):
            bare.append((place, start))
            place = end
    for first, last in (*bare, (place, len(sql))):
        if (found := re.search(pattern, sql[first:last], re.IGNORECASE)) is not None:
            return first + found.start(), first + found.end()
    return None


def _with_values(tree: Node, sql: str) -> Node:
    """The tree of a text in which values are spelled as names: they become nodes of their own, and every
    node stands where it stands in the text that was given."""
    places = _Places(sql)
    for node in tree.walk():
        if node.kind == "Column" and node.name.startswith(VALUE) and node.get("table") is None:
            node.kind, node.arguments = "Placeholder", {"this": node.name.removeprefix(VALUE)}
        if node.start >= 0:
            node.start, node.end = places.given(node.start), places.given(node.end + 1) - 1
    for node in tree.walk():
        if any(isinstance(each, str) and VALUE in each.lower() for each in node.arguments.values()):
            number, start, end = places.values[0]
            told = f"a value (${number}) stands where a name or a word of SQL is needed"
            raise SyntaxRefused(told, "Write the word itself.", sql=sql, span=(start, end))
    return tree


class _Places:
    """Where things stand in a text that are found in it once its values are spelled out."""

    def __init__(self, sql: str) -> None:
        self.values = values_of(sql)
        self.starts: list[int] = []  # of the values that are spelled out
        shift = 0
        for number, start, end in self.values:
            self.starts.append(start + shift)
            shift += len(f" {VALUE}{number} ") - (end - start)
            shift += sql[end : end + 1].isalnum() or sql[end : end + 1] == "_"

    def given(self, at: int) -> int:
        """The same place in the text that was given; all of a value is its beginning, or its end."""
        index = bisect_left(self.starts, at) - 1
        if index < 0:
            return at
        number, start, end = self.values[index]
        beyond = at - self.starts[index] - len(f" {VALUE}{number} ")
        return end + beyond if beyond >= 0 else start


def _node(tree: exp.Expr, depth: int) -> Node | None:
    """Our copy of the library's tree; None if it is too deep for whoever walks it later."""
    if isinstance(tree, (exp.And, exp.Or)):
        return _chain(tree, depth)
    if depth > DEEPEST:
        return None
    arguments: dict[str, Node | list[Node] | str | bool] = {}
    for name, value in _without_schema(tree).items():
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


def _without_schema(tree: exp.Expr) -> dict[str, Any]:
    """The arguments of a node. public.visits and main.visits are visits, since some tools always write a
    schema; the name of a table in another one is that of a policy, "census.people", known here as people."""
    given: dict[str, Any] = tree.args
    schema, name = given.get("db"), given.get("this")
    if not isinstance(tree, (exp.Table, exp.Column)) or given.get("catalog"):
        return given
    if not isinstance(schema, exp.Identifier) or not isinstance(name, exp.Identifier):
        return given
    if schema.name.lower() in CATALOGS:
        return given
    kept = {key: value for key, value in given.items() if key != "db"}
    if isinstance(tree, exp.Column):
        return kept
    if schema.name.lower() not in ("public", "main"):
        whole = exp.Identifier(this=f"{schema.name}.{name.name}", quoted=True)
        whole.meta.update(name.meta, start=schema.meta.get("start", -1))
        alias = kept.get("alias") or exp.TableAlias()
        if not alias.args.get("this"):
            alias = alias.copy()
            alias.set("this", name)
        kept |= {"this": whole, "alias": alias}
    return {**kept, "in_schema": True}


def _called(tree: exp.Expr) -> str:
    if isinstance(tree, (exp.Anonymous, exp.AnonymousAggFunc)):
        return f"the function {tree.name}()"
    if isinstance(tree, exp.Func) and not isinstance(tree, (exp.Cast, exp.Case)):
        return f"the function {type(tree).sql_name()}()"
    return ""


_ALSO_CALLED = {"GROUP_CONCAT": ("STRING_AGG", "LISTAGG"), "STR_POSITION": ("POSITION",)}


def _call_as_typed(tree: Node, sql: str) -> None:
    """Functions are called as they were typed: BOOL_OR(), not LOGICAL_OR()."""
    whole = sql.upper()
    for node in tree.walk():
        if not node.called:
            continue
        typed = sql[node.start : node.end + 1] if node.start >= 0 else ""
        name = node.called.removeprefix("the function ").removesuffix("()")
        names = [name, *_ALSO_CALLED.get(name, ())]
        if re.fullmatch(r"[A-Za-z_]\w*", typed):
            node.called = f"the function {typed.upper()}()"
        elif not any(each in whole for each in names):  # it is an operator, or has another name
            node.called = ""
        else:
            node.called = f"the function {next(each for each in names if each in whole)}()"


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


def _syntax(sql: str, spelled: str, error: ParseError) -> SyntaxRefused:
    first = error.errors[0] if error.errors else {}
    start = len(first.get("start_context") or "")
    word = first.get("highlight") or ""
    line, column = first.get("line"), first.get("col")
    start = _offset(spelled, line, column, word) if line and column else start
    places = _Places(sql)
    start, end = places.given(start), places.given(start + max(1, len(word)))
    told = first.get("description") or ""
    told = told.replace("Invalid expression / Unexpected token", "unexpected text")
    problem = f"this is not valid SQL: {'it cannot be parsed' if not told or '<' in told else told}"
    if line and column:
        problem += f", at line {line}, column {start - sql.rfind(chr(10), 0, start)}"
    other = looks_like(sql)
    advice = f"{other[0].upper()}{other[1:]}." if other else "Correct the marked part."
    return SyntaxRefused(problem, advice, sql=sql, span=(start, max(end, start + 1)))


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
