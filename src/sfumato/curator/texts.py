"""Questions in words, as the history holds them: on one line, and how they are read again.

A comment that ends with its line would swallow what follows, so it is written as one that is closed. Until
the third reading it was not; where such a text is read again, the end of its comment is looked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato.queries.lexing import signs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH = re.compile(r"batch of (\d+): ")
MOST_RESTORED = 200  # texts that are tried, where the ends of comments are lost


def one_line(sql: str) -> str:
    """A text on one line, as it is.

    >>> one_line("SELECT 1 -- one\\n")
    'SELECT 1 -- one'
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in sql)
    return " ".join(printable.split())  # nothing in it can steer a terminal


def told(sql: str) -> str:
    """A text on one line that means the same.

    >>> told("SELECT COUNT(*) -- all\\nFROM visits")
    'SELECT COUNT(*) /* all */ FROM visits'
    """
    parts, place = [], 0
    for sign, start, end in signs(sql):
        if sql.startswith("--", start):
            inner = re.sub(r"/\*|\*/", " ", sql[start + 2 : end])
            parts += [_squeezed(sql[place:start]), f"/* {one_line(inner)} */ "]
            place = end
        elif sign == "closed" and sql[start] in "'\"$":  # what stands in quotes stays as it is
            quoted = "".join(letter if letter.isprintable() else "\ufffd" for letter in sql[start:end])
            parts += [_squeezed(sql[place:start]), quoted]
            place = end
    return "".join([*parts, _squeezed(sql[place:])]).strip()


def _squeezed(sql: str) -> str:
    """A piece of a text with one blank where there were several."""
    printable = "".join(letter if letter.isprintable() else " " for letter in sql)
    return re.sub(" +", " ", printable)


def together(texts: Sequence[str]) -> str:
    """Several questions that are asked at once."""
    return f"batch of {len(texts)}: " + "; ".join(texts)


def apart(question: str) -> list[str]:
    """The questions of an entry of the history.

    >>> apart("batch of 2: SELECT COUNT(*) FROM a WHERE b = 'c; d'; SELECT 1")
    ["SELECT COUNT(*) FROM a WHERE b = 'c; d'", 'SELECT 1']
    """
    if not BATCH.match(question):
        return [question]
    found: list[str] = []
    waiting: list[str] = []
    for piece in question.partition(": ")[2].split("; "):
        waiting.append(piece)
        if sum(each.count("'") for each in waiting) % 2 == 0:  # else it stands in a text
            found.append("; ".join(waiting))
            waiting = []
    return [*found, *waiting]


def restored(text: str) -> Iterator[str]:
    """What a text on one line can have been: a comment that ended with its line may end at any blank. Where
    SQL goes on after it is tried first.

    >>> list(restored("SELECT 1 -- one two"))
    ['SELECT 1 -- one two', 'SELECT 1 --\\none two', 'SELECT 1 -- one\\ntwo']
    >>> next(restored("SELECT COUNT(*) -- of all FROM visits"))
    'SELECT COUNT(*) -- of all\\nFROM visits'
    """
    open_ = (start for _, start, end in signs(text) if text.startswith("--", start) and text[end - 1] != "\n")
    comment = next(open_, None)
    blanks = [] if comment is None else [each for each in re.finditer(" ", text) if each.start() > comment]
    likely = [each for each in blanks if _GOES_ON.match(text, each.end())]
    for found in likely:
        yield from restored(f"{text[: found.start()]}\n{text[found.end() :]}")
    yield text
    for found in blanks:
        if found not in likely:
            yield from restored(f"{text[: found.start()]}\n{text[found.end() :]}")


_GOES_ON = re.compile(
    r"(?:FROM|WHERE|AND|OR|GROUP|HAVING|ORDER|LIMIT|JOIN|LEFT|INNER|ON|USING|UNION|SELECT|WITH|CASE|WHEN|THEN"
    r"|ELSE|END|AS|IN|NOT|BETWEEN|LIKE|IS|FILTER|COUNT|SUM|AVG|MIN|MAX)\b|[,()=<>+*/;-]"
)
