"""Where texts, names, comments and values stand in SQL: found in one pass, whatever the text.

Parsers come later; this only says which signs mean something. It looks at every letter a few times, so no
text of any shape takes longer than its length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Sign = Literal["closed", "open", "value", "mark", "end"]
_NEXT = re.compile(r"['\"$;?]|--|/\*")
_VALUE = re.compile(r"\$(\d{1,5})(?!\d)")
_COMMENT = re.compile(r"/\*|\*/")
_TAG = re.compile(r"\$(?:[A-Za-z_]\w{0,62})?\$")


def signs(sql: str) -> Iterator[tuple[Sign, int, int]]:
    """Quotes and comments (closed, or open to the end), values ($1), marks (?) and ends of statements (;).

    >>> [(sign, "SELECT '$1', $2; -- ;"[a:b]) for sign, a, b in signs("SELECT '$1', $2; -- ;")]
    [('closed', "'$1'"), ('value', '$2'), ('end', ';'), ('closed', '-- ;')]
    """
    place = 0
    while (found := _NEXT.search(sql, place)) is not None:
        start, sign = found.start(), found.group()
        place = found.end()
        if sign == ";":
            yield "end", start, place
        elif sign == "?":
            yield "mark", start, place
        elif sign == "$":
            if (value := _VALUE.match(sql, start)) is not None:
                place = value.end()
                yield "value", start, place
            elif (tag := _TAG.match(sql, start)) is not None:
                place = _after(sql, tag.group(), tag.end())
                yield ("open" if place < 0 else "closed"), start, len(sql) if place < 0 else place
        else:
            place = _closed(sql, sign, start)
            yield ("open" if place < 0 else "closed"), start, len(sql) if place < 0 else place
        if place < 0:
            return


def _closed(sql: str, sign: str, start: int) -> int:
    """The end of a quote or comment; -1 if there is none."""
    if sign == "--":
        end = sql.find("\n", start)
        return len(sql) if end < 0 else end + 1
    if sign == "/*":  # comments may stand in comments
        depth = 0
        for found in _COMMENT.finditer(sql, start):
            depth += 1 if found.group() == "/*" else -1
            if depth == 0:
                return found.end()
        return -1
    escapes = sign == "'" and re.fullmatch(r"(?:.*\W)?[eE]", sql[max(0, start - 2) : start], re.DOTALL)
    place = start + 1
    while (end := sql.find(sign, place)) >= 0:
        if escapes:
            slashes = end - len(sql[place:end].rstrip("\\")) - place
            if slashes % 2:
                place = end + 1
                continue
        if sql[end + 1 : end + 2] != sign:
            return end + 1
        place = end + 2  # a doubled quote is a letter
    return -1


def _after(sql: str, sign: str, start: int) -> int:
    end = sql.find(sign, start)
    return -1 if end < 0 else end + len(sign)
