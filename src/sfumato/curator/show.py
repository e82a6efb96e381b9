"""Tables for people: in the terminal and in notebooks. Numbers are never shortened."""

from __future__ import annotations

import html
import math
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


def number(value: float | int | None, decimals: int) -> str:
    """A number in full, with thousands marked.

    >>> number(1234567.891, 2), number(None, 0), number(float("inf"), 0)
    ('1,234,567.89', '-', '∞')
    """
    if value is None:
        return "-"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int):
        return f"{value:,d}"  # as an integer: through a float, long ones would lose digits
    return f"{value:,.{decimals}f}"


def sized(value: float) -> str:
    """A forecast, with as many digits as it is worth.

    >>> sized(1234.5), sized(0.012345), sized(49.96)
    ('1,230', '0.0123', '50')
    """
    return f"{float(f'{value:.3g}'):,.12g}"


def fraction(value: Fraction) -> str:
    """A public constant in full.

    >>> from fractions import Fraction
    >>> fraction(Fraction(1, 1024)), fraction(Fraction(1234567))
    ('0.0009765625', '1,234,567')
    """
    return f"{value.numerator:,d}" if value.denominator == 1 else f"{float(value)!r}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    """A text table: columns padded, never cut; `left` says which are aligned to the left.

    >>> print(table(["ward", "count"], [["A", "12"], ["B", "7"]], [True, False]))
      ward   count
      ────────────
      A         12
      B          7
    """
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(cells, widths, left, strict=True)
        )
        return ("  " + "   ".join(padded)).rstrip()

    rule = "  " + "─" * (sum(widths) + 3 * (len(widths) - 1))
    return "\n".join([line(headers), rule, *(line(row) for row in rows)])


def html_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool], notes: Sequence[str]
) -> str:
    """The same table for a notebook."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align:{"left" if is_left else "right"};padding:2px 10px">'
            f"{html.escape(value)}</{tag}>"
            for value, is_left in zip(values, left, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    said = "".join(f"<div><small>{html.escape(note)}</small></div>" for note in notes)
    return f"<table><thead><tr>{cells('th', headers)}</tr></thead><tbody>{body}</tbody></table>{said}"


def paragraphs(sentences: Sequence[str], indent: int = 2) -> list[str]:
    """Sentences as lines of at most 100 characters, later lines set in."""
    first, later = " " * indent, " " * (indent + 2)
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, 100, initial_indent=first, subsequent_indent=later)
    ]


def gains(told: Sequence[str]) -> list[str]:
    """What is gained, in one sentence: that of the promise nearest to its limit.

    >>> gains(["this is one", "and another"])
    ['This is one. 1 more promise is further from its limit.']
    """
    if not told:
        return []
    more = len(told) - 1
    rest = "" if not more else " 1 more promise is further from its limit."
    if more > 1:
        rest = f" {more} more promises are further from their limits."
    return [f"{told[0][:1].upper()}{told[0][1:]}.{rest}"]


def bar(share: float, width: int = 40) -> str:
    """A bar that is `share` full.

    >>> bar(0.5, 8)
    '████░░░░'
    """
    full = min(width, max(0, round(share * width)))
    return "█" * full + "░" * (width - full)
