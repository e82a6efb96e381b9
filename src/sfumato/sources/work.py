"""What an engine does for a plan: a tree of few operators, the same for every engine.

A `Plan` says what is measured; `lower` turns it into a `Work`, in which every bound is an operator that one
can point at: rows without a unit are filtered out, joins are on the unit, caps are a truncating division, and
what a hash picks is a rank. The proof of a distance is about this tree. An engine prints it (`printing`, with
a `Dialect` of one-line texts), or walks it (`reference`).

Rows have columns, each known by an alias and a name. Two kinds of things are in the tree:

* expressions on one row (`Column`, `Constant`, `Apply`): total, strict in NULL unless said otherwise, with a
  type each; the names of operations stand in `OPERATIONS`, with what they mean;
* rows (`TableRows`, `Keys`, `Given`, `Use`, `Filter`, `JoinedRows`, `SemiJoin`, `Select`, `Group`, `Rank`,
  `Windows`, `Repeat`, `UnitedRows`): none of them depends on the order of rows.

All sums are of integers, but one: a sum of doubles may sift out people who are then looked at exactly. Which
rows a cap picks is decided by a hash of one person's own rows; which hash is an argument of `lower`, since
every engine has a fastest one of its own, and MD5 of a canonical text is the same on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.relations import Said

Type = Literal["bool", "i32", "i64", "i128", "u64", "f32", "f64", "text", "date", "timestamp"]
TYPES: dict[Kind, Type] = {
    "integer": "i64",
    "number": "f64",
    "text": "text",
    "boolean": "bool",
    "date": "date",
    "timestamp": "timestamp",
}


# Expressions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column of the rows at hand."""

    alias: str
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A value of a type; None is NULL. One that is `bare` needs no type beside it."""

    value: Value | None
    type: Type
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation, of those in `OPERATIONS`."""

    operation: str
    arguments: tuple[Expression, ...]
    type: Type


Expression = ColumnValue | ConstantValue | Apply

# What each operation means. Of NULL it is NULL, but for those marked with *, which say what they do.
# Numbers are compared as numbers, NaN above all others and equal to itself; text by its bytes.
OPERATIONS: dict[str, str] = {
    "cast": "the value in the type of the result: nothing is lost, or a double is rounded half to even",
    "try cast": "the same; NULL if it does not fit",
    "=": "",
    "<>": "",
    "<": "",
    "<=": "",
    ">": "",
    ">=": "",
    "in": "* whether the first is one of the others, which are constants; NULL is in nothing",
    "and": "* of three-valued logic",
    "or": "* of three-valued logic",
    "not": "",
    "is null": "*",
    "is not null": "*",
    "case": "* condition, value, condition, value, ..., otherwise: only true conditions count",
    "within": "the first, but not below the second nor above the third, which are constants",
    "coalesce": "* the first that is not NULL",
    "least": "* of those that are not NULL",
    "greatest": "* of those that are not NULL",
    "+": "",
    "-": "",
    "*": "",
    "negate": "",
    "abs": "",
    "sign": "-1, 0 or 1; 0 of NaN",
    "divide": "of integers, towards zero; the divisor is never 0",
    "modulo": "of integers, with the sign of the first; the divisor is never 0",
    "quotient": "of doubles; the divisor is never 0",
    "floor": "of a double",
    "ceil": "of a double",
    "round": "of a double to so many decimals, half away from zero as the engine does it",
    "nearest": "of a double to a whole one, half away from zero",
    "sqrt": "of a double that is not negative",
    "ln": "of a double above 0, nearly exactly",
    "exp": "of a double, nearly exactly",
    "power": "of doubles, the first not negative, nearly exactly",
    "log2": "of a double above 0, not exactly",
    "power of two": "2 to a small whole number, as an integer",
    "like": "text and pattern: % is any text, _ any letter",
    "ilike": "the same, whatever the case of letters",
    "starts with": "",
    "contains": "",
    "short": "the text, or the first 10,000 letters of one that has more than 40,000 bytes",
    "lower": "",
    "upper": "",
    "trim": "blanks at both ends",
    "strip": "these signs at both ends",
    "left": "so many letters",
    "right": "so many letters",
    "substring": "from a place on, so many letters",
    "concat": "",
    "length": "letters",
    "split part": "text, what divides it, and the number of a part: empty if there are fewer",
    "replace": "text, what is replaced wherever it stands, and by what",
    "position": "text and a part of it: where that first stands, from 1; 0 if nowhere",
    "regexp matches": "text and a pattern",
    "regexp replace": "text, pattern, what it is replaced by, and whether everywhere or once",
    "regexp extract": "text, pattern and the number of a group: empty if there is none",
    "finite": "whether a date or a moment is none of the two that are infinite",
    "part": "a unit of time and a date or a moment: its number in that",
    "trunc": "a unit of time and a date or a moment: where that begins",
    "diff": "a unit of time and two dates or moments: how many such borders lie between",
    "minus days": "a date, so many days earlier",
    "add days": "a date or a moment, so many days later",
    "add months": "a date or a moment, so many months later, on the last day where a month is too short",
    "add seconds": "a moment, so many seconds later",
    "hash": "* a number below 2^64 made of all arguments, as evenly as the engine's own hash does it",
    "md5": "* the same on every engine: the first 64 bits of MD5 of the arguments' canonical texts",
    "both bits": "of two whole numbers",
    "either bit": "of two whole numbers",
}


# Rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableRows:
    """A stored table. Each column is read in the type it is used as; text is compared by its bytes."""

    alias: str
    table: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Public values, each with its `position` among them: columns `position` and `key`."""

    alias: str
    values: tuple[Value, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Given:
    """The numbers of chosen groups, which are handed in when it runs: columns `position` and `code`."""

    alias: str


@dataclass(frozen=True, slots=True)
class Use:
    """Rows that are shared, by the name they have there."""

    alias: str
    name: str


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    rows: Rows
    condition: Expression


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Pairs of rows for which a condition is true; `outer` keeps rows of the left side without a partner."""

    left: Rows
    right: Rows
    on: tuple[Expression, ...]
    outer: bool = False


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The rows whose subjects are, or are not, among the values of other rows: as SQL says it of NULL.

    Where there are several subjects, none of them and of the values is NULL. With `keeps` no value is NULL,
    and rows whose last subject is NULL are there.
    """

    rows: Rows
    subjects: tuple[Expression, ...]
    other: Rows
    values: tuple[Expression, ...]
    negated: bool = False
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """New columns, computed of each row."""

    alias: str
    rows: Rows
    columns: tuple[tuple[str, Expression], ...]


Total = Literal["count", "distinct", "sum", "min", "max", "any", "every"]


@dataclass(frozen=True, slots=True)
class Totals:
    """What rows come to: how many there are (or have a value), an integer sum in 128 bits (of nothing NULL).

    A "sum" of doubles is one of doubles: whatever is decided by it is decided again, exactly.
    """

    function: Total
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One row for every combination of keys, or one in all where there are none."""

    alias: str
    rows: Rows
    keys: tuple[tuple[str, Expression], ...]
    totals: tuple[tuple[str, Totals], ...] = ()


@dataclass(frozen=True, slots=True)
class Rank:
    """The rows below with a number each, from 1 on in a total order, within those that agree in some columns.

    `columns` are those that are kept; the number is called `name`. NULL comes last.
    """

    alias: str
    rows: Rows
    columns: tuple[tuple[str, Expression], ...]
    within: tuple[Expression, ...]
    order: tuple[Expression, ...]
    name: str


@dataclass(frozen=True, slots=True)
class SortedBy:
    """What rows are sorted by: NaN above all numbers, text by its bytes."""

    value: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Placing:
    """What is said of a row by its place; see `queries.relations.Place`."""

    said: Said
    value: Expression | None
    later: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The rows below, each with what is said of it among those that agree in some columns.

    Places are those in the order; what it leaves undecided `ties` decide, which tell all rows apart that are
    not the same. Totals are of all rows among which one stands, or of those up to its equals in the order.
    """

    alias: str
    rows: Rows
    columns: tuple[tuple[str, Expression], ...]
    within: tuple[Expression, ...]
    order: tuple[SortedBy, ...]
    ties: tuple[Expression, ...]
    places: tuple[tuple[str, Placing], ...]
    totals: tuple[tuple[str, Totals], ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Each row so often, with a number from 0 on that is called `name`."""

    alias: str
    rows: Rows
    columns: tuple[tuple[str, Expression], ...]
    times: Expression
    name: str


@dataclass(frozen=True, slots=True)
class UnitedRows:
    """The rows of all parts, which have the same columns."""

    alias: str
    parts: tuple[Select | Group | Rank, ...]


Rows = (
    TableRows
    | Keys
    | Given
    | Use
    | Filter
    | JoinedRows
    | SemiJoin
    | Select
    | Group
    | Rank
    | Windows
    | Repeat
    | UnitedRows
)


# The whole -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shared:
    """Rows that are used several times. `once`: they are computed once; None leaves that to the engine."""

    name: str
    rows: Rows
    once: bool | None = None


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """Rows that come back, or are kept under a name while a plan runs, and what is shared in them."""

    rows: Select | Group | Rank
    shared: tuple[Shared, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """All that is run for a plan, in this order. Where groups are private, these are chosen in between.

    `measuring` gives, for each set of measures that one query computes, rows of whole numbers: a group's
    position, then their cells; for a grid, position, cell and weight. Nothing is measured in groups that are
    not shown. The numbers of those that are reach the engine as values: their names stand in no text.
    """

    measuring: tuple[EngineQuery, ...]
    making: tuple[tuple[str, EngineQuery], ...] = ()  # which private groups there are, each with a number
    counting: EngineQuery | None = None  # the number of each, and how many units count for it
    naming: EngineQuery | None = None  # what the chosen are called
    choosing: tuple[str, EngineQuery] | None = None  # the chosen, in the order in which they are shown

    @property
    def queries(self) -> Iterator[tuple[str, EngineQuery]]:
        """One after the other, with the name that it is kept under, if it is."""
        yield from self.making
        yield from (("", each) for each in (self.counting, self.naming) if each is not None)
        yield from () if self.choosing is None else (self.choosing,)
        yield from (("", each) for each in self.measuring)


def apply(operation: str, *arguments: Expression, type: Type) -> Apply:  # noqa: A002  # what it is
    """An operation on arguments."""
    assert operation in OPERATIONS, operation
    return Apply(operation, arguments, type)


def cast(value: Expression, to: Type) -> Apply:
    """A value in another type."""
    return Apply("cast", (value,), to)


def both(*conditions: Expression) -> Expression:
    """All of some conditions; there is at least one."""
    return conditions[0] if len(conditions) == 1 else Apply("and", conditions, "bool")


def filtered(rows: Rows, *conditions: Expression) -> Rows:
    """The rows for which all conditions are true."""
    for each in conditions:
        rows = Filter(rows, each)
    return rows


def equal(a: Expression, b: Expression) -> Apply:
    """Whether two values are the same."""
    return Apply("=", (a, b), "bool")


def there(value: Expression) -> Apply:
    """Whether it is not NULL."""
    return Apply("is not null", (value,), "bool")
