"""A plan: exactly what is measured in the engine, and how released numbers become columns.

A `Plan` is a frozen tree. Two parts live in it. What is *measured* (table, unit, condition, keys, measures)
is secret until noised and decides distances, price and the key of the release. What is *shown* (outputs,
order, limit) is arithmetic on released numbers: post-processing, free, and not part of the key, so
`1 + COUNT(*)` after `COUNT(*)` costs nothing.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sfumato.queries.policy import Kind, Value

PARTS = 1024  # a person's scaled count lives on a grid of 1/1024 row
CAP = 1 << 62  # a person's total in the engine is clamped to this


# Conditions on a row: total, three-valued as SQL's ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the table."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, already of the type it is compared as."""

    value: Value
    kind: Kind


@dataclass(frozen=True, slots=True)
class Compare:
    """left (= <> < <= > >=) right."""

    operator: Literal["=", "<>", "<", "<=", ">", ">="]
    left: Field | Constant
    right: Field | Constant


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column has no value."""

    field: Field


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean column, or TRUE, or FALSE."""

    of: Field | Constant


@dataclass(frozen=True, slots=True)
class Not:
    """Negation; NULL stays NULL."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Every:
    """AND of all parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """OR of all parts."""

    parts: tuple[Condition, ...]


Condition = Compare | IsNull | Truth | Not | Every | Some


# What is measured ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping column and its public values, in the owner's order."""

    field: Field
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Clamp:
    """How a value becomes an integer: clamp to [low, high], floor on the grid 2^-exponent, minus centre."""

    low: Fraction
    high: Fraction
    exponent: int
    centre: int = 0

    @property
    def least(self) -> int:
        """The smallest integer a row can become."""
        return math.floor(self.low * Fraction(2) ** self.exponent) - self.centre

    @property
    def most(self) -> int:
        """The largest integer a row can become."""
        return math.floor(self.high * Fraction(2) ** self.exponent) - self.centre


@dataclass(frozen=True, slots=True)
class Measure:
    """One integer a group: a count of rows, or a sum of clamped values, with each person bounded.

    `field` None counts rows; with a field, rows where it is NULL are left out. `clamp` None counts, else
    sums. `rows` is how many rows of one person weigh in full (None: every row is its own unit). A heavier
    person is scaled down: a count, and a sum with `by_rows`, in proportion to the number of rows; any other
    sum in proportion to the person's own total, which cuts less.
    """

    field: Field | None
    clamp: Clamp | None
    rows: int | None
    by_rows: bool = False

    @property
    def step(self) -> Fraction:
        """What one unit of the integer is worth."""
        if self.clamp is not None:
            return Fraction(2) ** -self.clamp.exponent
        return Fraction(1) if self.rows is None else Fraction(1, PARTS)

    @property
    def least(self) -> int:
        """The smallest contribution of one person (or row) to one group."""
        least = 0 if self.clamp is None else min(self.clamp.least, 0)
        return self._scaled(least)

    @property
    def most(self) -> int:
        """The largest contribution of one person (or row) to one group."""
        most = 1 if self.clamp is None else max(self.clamp.most, 0)
        return self._scaled(most)

    def _scaled(self, row: int) -> int:
        """What the rows of one person come to in one group if each of them is `row`, at most."""
        if self.rows is None or self.by_rows:
            return row * (self.rows or 1)
        return self.cap if row > 0 else -self.cap if row < 0 else 0

    @property
    def cap(self) -> int:
        """The largest sum of absolute contributions of one person over all groups."""
        if self.rows is None:
            return max(-self.least, self.most)
        if self.clamp is None:
            return PARTS * self.rows
        whole = self.rows * max(abs(self.clamp.least), abs(self.clamp.most))
        return whole if self.by_rows else min(whole, CAP)


# What is shown: arithmetic on released numbers -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyOf:
    """The value of a grouping key."""

    index: int


@dataclass(frozen=True, slots=True)
class Released:
    """A released measure, scaled back to its own unit."""

    index: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number the analyst wrote."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left (+ - * /) right; a division by zero has no value."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Mean:
    """centre + total/count, kept within the public bounds; a count below one row counts as one."""

    total: int  # indices of released measures
    count: int
    centre: Fraction
    low: Fraction
    high: Fraction


Expression = KeyOf | Released | Number | Arithmetic | Mean


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole question."""

    table: str
    unit: Field | None
    where: Condition | None
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    outputs: tuple[Output, ...]
    order: tuple[tuple[Expression, bool], ...] = ()  # (what, descending)
    limit: int | None = None

    @property
    def groups(self) -> tuple[tuple[Value, ...], ...]:
        """Every combination of public key values; one empty combination if nothing is grouped."""
        return tuple(itertools.product(*(key.values for key in self.keys)))

    @property
    def size(self) -> int:
        """How many groups there are."""
        return math.prod(len(key.values) for key in self.keys)

    @property
    def key(self) -> str:
        """Names what is measured; how it is shown does not matter."""
        measured = [canonical(part) for part in (self.table, self.unit, self.where, self.keys, self.measures)]
        return hashlib.sha256("\n".join(measured).encode()).hexdigest()

    @property
    def selects(self) -> bool:
        """Whether which rows are shown depends on released numbers."""
        by_value = any(not isinstance(expression, KeyOf) for expression, _ in self.order)
        return by_value and self.limit is not None and self.limit < self.size


def canonical(part: object) -> str:
    """One text for one meaning: class names and fields, in order.

    >>> canonical(Field("age", "integer"))
    '["Field",["str","age"],["str","integer"]]'
    """
    return json.dumps(_plain(part), separators=(",", ":"))


def _plain(part: object) -> object:
    if is_dataclass(part):
        return [type(part).__name__, *(_plain(getattr(part, field.name)) for field in fields(part))]
    if isinstance(part, tuple):
        return ["tuple", *(_plain(item) for item in part)]
    if part is None or isinstance(part, (bool, int)):
        return part
    if isinstance(part, (str, float, Fraction, datetime.date)):
        return [type(part).__name__, str(part)]
    raise TypeError(f"no canonical form for {type(part).__name__}")
