"""Reading functions of texts that look for something in them.

What they look in is cut to a public length, and so is what they make: nobody's text decides how long a row
takes. Patterns are of a subset on which engines agree and which takes time in proportion to the text: no
references back, no looking around, no counts beyond 100.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from sfumato.queries.domains import kept_letters, longest
from sfumato.queries.expressions import Call, Constant, Scalar, constant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.queries.scopes import RowReader, Scope
    from sfumato.queries.syntax import Node

MOST_LETTERS = 1000  # of a text that is searched, and of what is made of it
MOST_PUT = 20  # letters that replace something
LONGEST_PATTERN = 200
MOST_PLACES = 40  # of a pattern whose counts are written out: what a letter of a text may cost
MOST_SEARCHED = 300  # letters of a text in which a pattern is looked for
MOST_PATTERNS = 8  # in one question
_DIGITS = tuple("0123456789")
_PATTERN = re.compile(
    r"""(?: \\[dDwWsS.+*?()\[\]{}|^$\\/-]      # classes, and signs by themselves
          | \[\^?(?:\\[dwsDWS.+*?()\[\]{}|^$\\/-]|[^\[\]\\])+\]
          | \(\?: | \((?!\?) | \) | \| | \^ | \$ | \.
          | [^\\\[\](){}*+?|^$.]
          | (?<=[^(|^*+?])[*+?]\??
          | \{[0-9]{1,2}(?:,[0-9]{0,2})?\} )*""",
    re.VERBOSE,
)


# A count of a group, and a count of a count: engines multiply them, and give up.
_TWICE = re.compile(r"\)\{|(?<!\\)[*+?}][*+{]|(?<!\\)[*+?}]\?[*+?{]")


def read(reader: RowReader, node: Node, scope: Scope) -> Scalar | None:
    """A function of texts; None if it is none of these."""
    match node.kind:
        case "SplitPart":
            by = _written(reader, node["delimiter"], scope, MOST_PUT)
            number = reader.whole(node.get("part_index"), scope, 1, 100, default=1)
            return reader.call(node, "split part", _cut(reader, node, node.this, scope), by, number)
        case "Replace":
            parts = [_written(reader, node[name], scope, MOST_PUT) for name in ("expression", "replacement")]
            found = reader.call(node, "replace", _cut(reader, node, node.this, scope), *parts)
            return reader.call(node, "left", found, constant(MOST_LETTERS, "integer"))
        case "StrPosition":
            part = _written(reader, node["substr"], scope, MOST_LETTERS)
            return reader.call(node, "position", _cut(reader, node, node.this, scope), part)
        case "RegexpLike":
            pattern = _pattern(reader, node.expression)
            return reader.call(
                node, "regexp matches", _cut(reader, node, node.this, scope, MOST_SEARCHED), pattern
            )
        case "RegexpExtract":
            pattern = _pattern(reader, node.expression)
            most = min(_groups(node.expression.text()) or 0, 9)  # engines know groups of one digit
            group = reader.whole(node.get("group"), scope, 0, most)
            return reader.call(
                node, "regexp extract", _cut(reader, node, node.this, scope, MOST_SEARCHED), pattern, group
            )
        case "RegexpReplace":
            by = _written(reader, node["replacement"], scope, MOST_PUT)
            options = node.get("modifiers")
            if options is not None and options.text() not in ("", "g"):
                reader.text.refuse(
                    options, "these options are not supported", "Leave them out, or write: 'g'"
                )
            everywhere = constant(options is not None and options.text() == "g", "boolean")
            pattern = _pattern(reader, node.expression)
            _check_put(reader, node, by, _groups(node.expression.text()) or 0)
            given = (_cut(reader, node, node.this, scope, MOST_SEARCHED), pattern, by, everywhere)
            found = reader.call(node, "regexp replace", *given)
            return reader.call(node, "left", found, constant(MOST_LETTERS, "integer"))
    return None


def _cut(reader: RowReader, node: Node, of: Node, scope: Scope, most: int = MOST_LETTERS) -> Scalar:
    """A text of at most so many letters."""
    found = reader.value(of, scope)
    if found.domain.kind != "text":
        reader.text.refuse(node, f"this is {found.domain.kind}, not text", "Use a text column.")
    known = longest(found)
    if not _has_any_length(found) and (most == MOST_LETTERS or (known is not None and known <= most)):
        return found
    return reader.call(node, "left", found, constant(most, "integer"))


def _has_any_length(text: Scalar) -> bool:
    """Whether nothing but the data bounds a text: those of a column may be longer than its declared keys."""
    match text:
        case Constant():
            return False
        case Call("left" | "right" | "substring", (of, *_, count)):
            return kept_letters(count) is None and _has_any_length(of)
        case Call("to text"):
            return False
        case Call("case", (*pairs, otherwise)):
            return any(map(_has_any_length, [*pairs[1::2], otherwise]))
        case Call(
            "lower" | "upper" | "trim" | "strip" | "nullif" | "split part" | "regexp extract", (of, *_)
        ):
            return _has_any_length(of)
        case Call("concat" | "coalesce" | "least" | "greatest", parts):
            return any(map(_has_any_length, parts)) or (longest(text) or 0) > MOST_LETTERS
    return True


# what goes through every letter of a text, and of which one could be as long as it likes
TEXT_WORK = ("lower", "upper", "trim", "strip", "concat", "replace", "split part")


def text_work(scalars: Iterable[Scalar]) -> int:
    """How often texts of any length are gone through for a row."""
    found, seen, waiting = set[Scalar](), set[int](), list(scalars)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.arguments
            if each.function in TEXT_WORK:
                found.add(each)
    return len(found)


def patterns(scalars: Iterable[Scalar]) -> set[Scalar]:
    """The expressions among these, and in them, that look for a regular expression."""
    found, seen, waiting = set[Scalar](), set[int](), list(scalars)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.arguments
            if each.function.startswith("regexp"):
                found.add(each)
    return found


def _written(reader: RowReader, node: Node, scope: Scope, most: int) -> Constant:
    found = reader.value(node, scope)
    if not isinstance(found, Constant) or not isinstance(found.value, str) or len(found.value) > most:
        told = f"this must be a string literal of at most {most} characters"
        reader.text.refuse(node, told, "Write it out: 'abc'")
    return found


def joined_up(pattern: Scalar) -> Constant | None:
    """A text that is written out in parts, 'a' || '%', as one; None if it is another expression."""
    if isinstance(pattern, Constant):
        return pattern if isinstance(pattern.value, str) else None
    if not isinstance(pattern, Call) or pattern.function not in ("concat", "coalesce"):
        return None
    parts = [joined_up(each) for each in pattern.arguments]
    if None in parts:
        return None
    if pattern.function == "coalesce":  # CONCAT leaves out what is NULL, and these are none
        return parts[0]
    return constant("".join(str(each.value) for each in parts if each is not None), "text")


def _check_put(reader: RowReader, node: Node, by: Constant, groups: int) -> None:
    """Refuse a replacement that an engine fails on: it would fail for a row, and tell that there is one."""
    left = re.sub(r"\\\\", "", str(by.value))
    if any(  # other digits than these are digits to Python alone
        each[1:] not in _DIGITS or int(each[1:]) > groups for each in re.findall(r"\\.?", left, re.DOTALL)
    ):
        advice = (
            f"Write \\0 for all that matches, \\1 to \\{groups} for its groups."
            if groups
            else "Write no backslash but \\0."
        )
        reader.text.refuse(node, "the replacement refers to a group that is not in the pattern", advice)


def _pattern(reader: RowReader, node: Node) -> Constant:
    if node.kind != "Literal" or not node.arguments.get("is_string"):
        reader.text.refuse(node, "the pattern is not a string literal", "Write it out: '^[A-Z]'")
    if _groups(node.text()) is None:
        reader.text.refuse(
            node,
            "this regular expression is not supported",
            r"Use letters, classes ([A-Z], \d, \w), groups, |, *, +, ?, {2,5}, ^ and $; or LIKE.",
        )
    if "\0" in node.text():
        reader.text.refuse(node, "that text holds a zero byte", "Remove it.")
    return constant(node.text(), "text")


def _groups(pattern: str) -> int | None:
    """How many groups a pattern has; None if it is none of ours."""
    if len(pattern) > LONGEST_PATTERN or _PATTERN.fullmatch(pattern) is None or _TWICE.search(pattern):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = re.compile(pattern, re.ASCII).groups
        except (re.error, FutureWarning, RecursionError, OverflowError):
            return None
    return found if _places(pattern) <= MOST_PLACES else None


def _places(pattern: str) -> int:
    """How many letters a pattern has with its counts written out: x{2,5} has five."""
    without = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern)
    counted = [max(map(int, filter(None, each.split(",")))) for each in re.findall(r"\{([0-9,]+)\}", without)]
    return len(re.sub(r"\{[0-9,]+\}", "", without)) + sum(counted)
