"""What is grouped by: the sets of keys that are shown, and the values that groups may have."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, Constant, Domain, Field
from sfumato.queries.plan import Key
from sfumato.queries.syntax import bare

if TYPE_CHECKING:
    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.syntax import Node

MOST_GROUPS = 10**6  # public ones of a question


def hide_largest(keys: list[Key]) -> None:
    """Where public keys form more groups than are shown, the largest is treated as a private one: only groups
    of enough people are shown."""
    while math.prod(len(key.values) for key in keys if key.values is not None) > MOST_GROUPS:
        largest = max(keys, key=lambda key: len(key.values or ()))
        keys[keys.index(largest)] = private_key(largest.expression)


def private_key(found: Scalar) -> Key:
    """A key without public values."""
    if found.domain.kind in ("date", "timestamp") and isinstance(found, Field):
        found = Call("sane", (found,), Domain(found.domain.kind), 2)  # of which Python has no dates
    return Key(found, None)


def set_of(node: Node) -> list[Node]:
    """The keys of one of GROUPING SETS."""
    return node.nodes() if node.kind == "Tuple" else [bare(node)]


def sets_of(kind: str, count: int) -> tuple[tuple[int, ...], ...]:
    """The sets of keys of ROLLUP and CUBE, from all keys to none."""
    if kind == "Rollup":
        return tuple(tuple(range(size)) for size in range(count, -1, -1))
    if kind == "Cube":
        return tuple(
            kept for size in range(count, -1, -1) for kept in itertools.combinations(range(count), size)
        )
    return ()


def narrowed(
    found: Scalar, conditions: tuple[Scalar, ...], values: tuple[Value, ...] | None
) -> tuple[Value, ...] | None:
    """The values that a condition of the query leaves: what the analyst listed is public."""
    for condition in conditions:
        if isinstance(condition, Call) and condition.function in ("=", "in"):
            subject, *listed = condition.arguments
            if subject == found and all(isinstance(each, Constant) for each in listed):
                named = [
                    each.value for each in listed if isinstance(each, Constant) and each.value is not None
                ]
                if all(type(each) is _TYPES.get(found.domain.kind) for each in named):
                    left = sorted(set(named))
                    values = tuple(left if values is None else (v for v in values if v in left))
    return values


_TYPES: dict[str, type] = {"integer": int, "text": str, "boolean": bool, "date": datetime.date}
