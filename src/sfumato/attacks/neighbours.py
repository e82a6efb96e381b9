"""Pairs of neighbouring inputs to search through: where mechanisms have been seen to leak.

Zero against one is always the first of them. The others are the shapes that found bugs before: numbers whose
floats have other bits, vectors that rise and fall together (Ding, Wang, Wang, Zhang and Kifer, 2018, section
5), rows that come, go or are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable

Pairs = list[tuple[Any, Any]]
SMALL = (*range(13), 14, 19, 24, 29, 49, 99, 999)  # below numbers that people hide, round or cut counts at
KINDS = "numbers, whole, bits, counts:5, vectors:5 or rows:5"


def numbers() -> Pairs:
    """Numbers at most 1 apart, among them such whose floats end differently.

    >>> numbers()[0]
    (0, 1)
    """
    starts = [-1.0, -0.5, 0.1, 0.5, 1.0, 1 / 3, 3.0, 10.0, 1000.0, 1e6, 2.0**30, 1e6 + 0.1, 2.0**52]
    near = [(0.0, 2.0**-10), (0.0, 0.1), (1.0, 1.0 + 2.0**-20)]
    return [(0, 1), *((start, start + 1) for start in starts), *near]


def whole() -> Pairs:
    """Whole numbers 1 apart."""
    starts = [-1, 1, 2, 4, 7, 9, 49, 99, 999, 2**31 - 1, 2**53, -(2**31) - 1]
    return [(0, 1), *((start, start + 1) for start in starts)]


def bits() -> Pairs:
    """One bit."""
    return [(0, 1)]


def counts(length: int) -> Pairs:
    """Vectors of which one part moves by 1, as counts by group do when a person comes or goes.

    Groups are empty, hold one person each, or one of them is as large as counts that people hide.

    >>> ((4, 0, 0), (5, 0, 0)) in counts(3)
    True
    """
    if length == 1:
        return [(start, start + 1) for start in SMALL]
    zero = (0,) * length
    pairs = [(start, _moved(start, i)) for start in (zero, (1,) * length) for i in (0, length - 1)]
    alone = [(start, *zero[1:]) for start in SMALL]
    return _different([*pairs, *((start, _moved(start, 0)) for start in alone)])


def vectors(length: int) -> Pairs:
    """Vectors of which every part moves by at most 1, as the answers to many questions do.

    >>> vectors(3)[:2]
    [((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (1, 0, 0))]
    """
    zero, one, half = (0,) * length, (1,) * length, length // 2
    first, last = _moved(zero, 0), _moved(zero, length - 1)
    rising = zero[:half] + one[half:]
    crossed = tuple(i % 2 for i in range(length))
    shapes = [
        (zero, one),
        (zero, first),
        (zero, last),
        (rising, tuple(1 - x for x in rising)),
        (first, tuple(1 - x for x in first)),
        (last, tuple(1 - x for x in last)),
        (crossed, tuple(1 - x for x in crossed)),
        (zero, crossed),
        (one, tuple(x + 1 for x in one)),
    ]
    far = [(tuple(x + off for x in a), tuple(x + off for x in b)) for off in (-5, 5) for a, b in shapes[3:5]]
    return _different([*shapes, *far])


def rows(length: int) -> Pairs:
    """Tables of one column of numbers from 0 to 1: a row comes or goes, or is replaced by another.

    >>> rows(2)[0]
    ([], [1])
    """
    spread = [i / max(1, length - 1) for i in range(length)]
    some: list[list[float]] = [[0] * length, [1] * length, [i % 2 for i in range(length)], spread]
    come = [(table, [*table, value]) for table in some for value in (0, 1)]
    go = [(table, table[:-1]) for table in some]
    replaced = [(table, [*table[:-1], 1 - table[-1]]) for table in some]
    return _different([([], [1]), ([], [0]), *come, *go, *replaced])


def named(name: str) -> Pairs:
    """The pairs that a word stands for: numbers, whole, bits, counts:5, vectors:5, rows:5.

    >>> len(named("bits"))
    1
    """
    kind, _, text = name.partition(":")
    plain: dict[str, Callable[[], Pairs]] = {"numbers": numbers, "whole": whole, "bits": bits}
    sized: dict[str, Callable[[int], Pairs]] = {"counts": counts, "vectors": vectors, "rows": rows}
    if kind in plain and not text:
        return plain[kind]()
    if kind in sized and text.isdecimal() and 1 <= int(text) <= 1000:
        return sized[kind](int(text))
    raise InvalidParameter("search", name, f"write {KINDS}")


def _moved(vector: tuple[int, ...], place: int) -> tuple[int, ...]:
    return tuple(x + (i == place) for i, x in enumerate(vector))


def _different(pairs: Pairs) -> Pairs:
    """Each pair once, and none of two equal inputs."""
    found: dict[str, tuple[Any, Any]] = {}
    for a, b in pairs:
        if a != b:
            found.setdefault(repr((a, b)), (a, b))
    return list(found.values())
