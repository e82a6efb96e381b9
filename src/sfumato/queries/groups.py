"""Which groups there can be: what conditions and public tables say of combinations of keys.

Keys are declared one by one, and a question measures every combination of their values. Some of them no row
can have: a day outside of the month that WHERE names, the March of the second quarter, a ward with the number
of beds of another. These are measured like the others, so that neither names nor distances depend on this,
and are not shown: they would be rows of nothing but noise, and wrong in every average over the groups.

All of it follows from the policy, the text and public tables, so it tells nothing about people. What cannot
be told in few steps is left as it is: then more groups are shown.
"""

from __future__ import annotations

import datetime
import itertools
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.queries.domains import call
from sfumato.queries.expressions import (
    MOST_LISTED,
    MOST_WORK,
    Call,
    Constant,
    Domain,
    Field,
    Unusable,
    as_value,
    by_day,
    clamped,
    fields,
    has_pattern,
    moments_in,
    on_row,
    possible,
    stepped,
    values_in,
    work,
)
from sfumato.queries.plan import Occurring
from sfumato.queries.relations import Among, Fold, Join, Placed, Scan, Where, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.queries.declared import PublicTable, Value
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.plan import Key
    from sfumato.queries.relations import Relation

    Row = Mapping[str, Value | None]  # values of columns, by the names that expressions have for them

MOST_TRIED = 20_000  # rows on which conditions and keys are tried
NO_VALUE = (ValueError, OverflowError, TypeError, AttributeError, KeyError, ZeroDivisionError)


@dataclass(slots=True)
class _Facts:
    """What is known of every row of a relation."""

    conditions: list[Scalar] = field(default_factory=list)
    folded: dict[str, Scalar] = field(default_factory=dict)  # what columns of a subquery are grouped by in it
    public: dict[int, str] = field(default_factory=dict)  # public tables, by number

    def gather(self, relation: Relation, *, holds: bool = True) -> None:
        """Collect what a relation says; of the right side of a LEFT JOIN conditions may not hold."""
        match relation:
            case Scan(number, table, public=True):
                self.public[number] = table
            case Where(inner, condition):
                if holds:
                    self.conditions += _parts(condition)
                self.gather(inner, holds=holds)
            case Join(_, left, right, on, outer):
                self.gather(left, holds=holds)
                self.gather(right, holds=holds and not outer)
                if on is not None and holds and not outer:
                    self.conditions += _parts(on)
            case Among(inner) | Placed(_, inner):
                self.gather(inner, holds=holds)
            case Fold(number, inner, by):
                self.folded |= {f"t{number}.k{i}": each for i, each in enumerate(by)}
                self.gather(inner, holds=holds)


def occurring(
    keys: Sequence[Key],
    sets: Sequence[tuple[int, ...]],
    relation: Relation,
    table: Callable[[str], PublicTable | None],
) -> tuple[Occurring, ...]:
    """Which combinations of values of the keys can occur, where not all of them can.

    A total over all of them is there even if none can: then it is made of all that are measured.
    """
    if not keys or any(key.values is None for key in keys):
        return ()
    facts = _Facts()
    facts.gather(relation)
    if not facts.conditions and len(keys) == 1 and isinstance(keys[0].expression, Field):
        return ()
    conditions = [_unfolded(each, facts.folded) for each in dict.fromkeys(facts.conditions)]
    spelled = [_unfolded(key.expression, facts.folded) for key in keys]
    public = []
    for number, name in sorted(facts.public.items()):
        of_keys, about = ([e for e in some if number in _numbers(e)] for some in (spelled, conditions))
        if len(of_keys) > 1 or (of_keys and (about or not isinstance(of_keys[0], Field))):
            public.append((number, table(name)))
    known = tuple((number, each) for number, each in public if each is not None)
    found = _occurring(tuple(keys), tuple(spelled), tuple(conditions), known)
    return () if () in sets and not all(each.values for each in found) else found


def listed(found: Scalar, conditions: Sequence[Scalar]) -> tuple[Value, ...] | None:
    """The values that conditions leave of a key without public ones, where these are few."""
    parts = [part for each in conditions for part in _parts(each)]
    for part in parts:
        if isinstance(part, Call) and part.function in ("=", "in") and part.arguments[0] == found:
            named = [each.value for each in part.arguments[1:] if isinstance(each, Constant)]
            moments = [each for each in named if isinstance(each, datetime.datetime)]
            if len(moments) == len(part.arguments) - 1:
                return tuple(sorted(set(moments)))
    kin = _Kin((), [], [found], {}, {each.name: each for each in fields(found)})
    for part in parts:
        if fields(part) <= fields(found):
            kin.narrow(part)
    try:
        values = possible(_bounded(found, kin.columns))
    except Unusable:
        return None
    if values is None and isinstance(found, Call) and (tried := kin.tried([])) is not None:
        values = tuple(sorted(value for (value,) in tried))
    return values if values and len(values) <= MOST_LISTED else None


@lru_cache(maxsize=500)
def _occurring(
    keys: tuple[Key, ...],
    spelled: tuple[Scalar, ...],
    conditions: tuple[Scalar, ...],
    public: tuple[tuple[int, PublicTable], ...],
) -> tuple[Occurring, ...]:
    tables, found = dict(public), list[Occurring]()
    for places in _together([_sources(each, tables) for each in spelled]):
        group = _Kin(tuple(places), [keys[i] for i in places], [spelled[i] for i in places], tables)
        found += group.occurring(conditions)
    return tuple(found)


@dataclass(slots=True)
class _Kin:
    """Keys that are made of the same columns."""

    places: tuple[int, ...]
    keys: list[Key]
    spelled: list[Scalar]
    tables: dict[int, PublicTable]
    columns: dict[str, Field] = field(default_factory=dict)

    def occurring(self, conditions: Sequence[Scalar]) -> Iterator[Occurring]:
        """The combinations of values that they can have, where not all can occur."""
        own = set().union(*(_sources(each, self.tables) for each in self.spelled))
        about = [each for each in conditions if fields(each) and _sources(each, self.tables) <= own]
        self.columns = {each.name: each for one in (*self.spelled, *about) for each in fields(one)}
        is_alone = len(self.keys) == 1 and isinstance(self.spelled[0], Field)
        if not own or (is_alone and not about):
            return
        for condition in about:
            self.narrow(condition)
        tried = self.tried(about)
        if tried is not None:
            every = math.prod(len(key.values or ()) for key in self.keys)
            sets = [frozenset(key.values or ()) for key in self.keys]
            left = frozenset(
                each for each in tried if all(v in known for v, known in zip(each, sets, strict=True))
            )
            if len(left) < every:
                yield Occurring(self.places, left)
            return
        for place, key, spelled in zip(self.places, self.keys, self.spelled, strict=True):
            image = _image(spelled, self.columns)
            if image is not None and not frozenset(key.values or ()) <= image:
                left = frozenset((value,) for value in key.values or () if value in image)
                yield Occurring((place,), left)

    def narrow(self, condition: Scalar) -> None:
        """Bring the bounds of a column closer, where a condition compares it with a constant."""
        if not isinstance(condition, Call) or condition.function not in _TURNED:
            return
        a, b = condition.arguments
        sign = condition.function
        if isinstance(a, Constant):
            a, b, sign = b, a, _TURNED[sign]
        column = _column(a)
        if column is None or not isinstance(b, Constant) or b.value is None:
            return
        of = self.columns[column.name]
        try:
            self.columns[column.name] = replace(of, domain=_closer(of.domain, sign, b.value))
        except Unusable:  # no value is left: trying them will tell
            return

    def tried(self, about: list[Scalar]) -> set[tuple[Value, ...]] | None:
        """The combinations that the keys have on all rows there can be; None if these cannot be tried."""
        texts = self.texts()
        used = [each for each in about if self.is_tried(each) and all(_only_compares(each, t) for t in texts)]
        inputs = list(self.inputs([*self.spelled, *used]))
        if any(each is None for each in inputs):
            return None
        count = math.prod(len(each or ()) for each in inputs)
        if any(map(has_pattern, self.spelled)) or count > MOST_TRIED:
            return None
        told = (value for each in inputs for row in each or () for value in row.values())
        letters = max((len(text) for text in told if isinstance(text, str)), default=0)
        if count * sum(work(each, letters) for each in (*self.spelled, *used)) > MOST_WORK:
            return None
        found: set[tuple[Value, ...]] = set()
        for parts in itertools.product(*(each or () for each in inputs)):
            row: dict[str, Value | None] = {}
            for part in parts:
                row |= part
            if not all(_may_hold(each, row) for each in used):
                continue
            try:
                values = [as_value(on_row(each, row), each.domain.kind) for each in self.spelled]
            except NO_VALUE:
                return None
            if None not in values:
                found.add(tuple(each for each in values if each is not None))
        return found

    def texts(self) -> list[str]:
        """The columns of texts of which others than the declared ones may be in a group that is shown."""
        shown = {each.name for each in self.spelled if isinstance(each, Field)}
        return [
            name
            for name, each in self.columns.items()
            if each.domain.kind == "text" and name not in shown and prefix(each) not in self.tables
        ]

    def is_tried(self, condition: Scalar) -> bool:
        """Whether a condition can be tried: a timestamp is by the day."""
        moments = any(each.domain.kind == "timestamp" for each in fields(condition))
        return not has_pattern(condition) and (not moments or by_day(condition))

    def inputs(self, expressions: list[Scalar]) -> Iterator[list[Row] | None]:
        """The values of each column, or the rows of each public table, beside none at all."""
        names = {each.name for one in expressions for each in fields(one)}
        at: dict[int, list[str]] = {}
        for name in sorted(names):
            column = self.columns[name]
            if prefix(column) in self.tables:
                at.setdefault(prefix(column), []).append(name)
                continue
            values = self.values(column, expressions)
            yield None if values is None else [{name: None}, *({name: value} for value in values)]
        for number, listed in at.items():
            table = self.tables[number]
            places = [table.columns.index(name.partition(".")[2]) for name in listed]
            rows = dict.fromkeys(tuple(row[i] for i in places) for row in table.rows)
            nothing: dict[str, Value | None] = dict.fromkeys(listed)
            yield [nothing, *(dict(zip(listed, row, strict=True)) for row in rows)]

    def values(self, column: Field, expressions: list[Scalar]) -> Sequence[Value] | None:
        """Every value that a column has, or one for each case that is told apart."""
        domain = column.domain
        if column.name in self.texts():
            if not all(_only_compares(each, column.name) for each in expressions):
                return None
            named = {value for each in expressions for value in _compared(each, column.name)}
            return [*sorted({*named, *map(str, domain.keys or ())}), "".join(sorted(named)) + "?"]
        if domain.keys is not None:
            return domain.keys if any(each == column for each in self.spelled) else None
        if domain.kind == "timestamp":
            return moments_in(domain, self.spelled)
        return values_in(domain)


_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _parts(condition: Scalar) -> Iterator[Scalar]:
    """The conditions that must all hold."""
    if isinstance(condition, Call) and condition.function == "and":
        for each in condition.arguments:
            yield from _parts(each)
    else:
        yield condition


def _unfolded(expression: Scalar, folded: dict[str, Scalar]) -> Scalar:
    """An expression with the columns of subqueries written out."""
    match expression:
        case Field(name) if name in folded:
            return _unfolded(folded[name], folded)
        case Call(_, arguments):
            parts = tuple(_unfolded(each, folded) for each in arguments)
            is_same = all(a is b for a, b in zip(parts, arguments, strict=True))
            return expression if is_same else replace(expression, arguments=parts)
    return expression


def _numbers(expression: Scalar) -> set[int]:
    """The relations whose columns an expression looks at, by number."""
    return {prefix(each) for each in fields(expression)}


def _sources(expression: Scalar, tables: Mapping[int, object]) -> set[str | int]:
    """The columns of people, and the public tables, that an expression looks at."""
    return {prefix(each) if prefix(each) in tables else each.name for each in fields(expression)}


def _together(sources: list[set[str | int]]) -> list[list[int]]:
    """The places of expressions, those that have sources in common together."""
    found: list[tuple[set[str | int], list[int]]] = []
    for place, own in enumerate(sources):
        joined = [each for each in found if each[0] & own]
        found = [each for each in found if not each[0] & own]
        names = own.union(*(each[0] for each in joined))
        found.append((names, sorted([place, *(i for each in joined for i in each[1])])))
    return [places for _, places in found]


def _only_compares(expression: Scalar, name: str) -> bool:
    """Whether a column matters only by which constants it equals."""
    match expression:
        case Field():
            return expression.name != name
        case Call("=" | "<>" | "in" | "is null", (Field() as column, *others)) if column.name == name:
            return all(isinstance(each, Constant) for each in others)
        case Call(_, arguments):
            return all(_only_compares(each, name) for each in arguments)
    return True


def _compared(expression: Scalar, name: str) -> Iterator[str]:
    """The constants that a column is compared with."""
    if isinstance(expression, Call):
        if any(isinstance(each, Field) and each.name == name for each in expression.arguments):
            for each in expression.arguments:
                if isinstance(each, Constant) and each.value is not None:
                    yield str(each.value)
        for each in expression.arguments:
            yield from _compared(each, name)


def _column(expression: Scalar) -> Field | None:
    """The column that an expression is, or the day of it."""
    while isinstance(expression, Call) and expression.function in ("clamp", "sane", "to date"):
        expression = expression.arguments[0]
    return expression if isinstance(expression, Field) and expression.domain.keys is None else None


def _closer(domain: Domain, sign: str, value: Value) -> Domain:
    """The domain of the values that compare so with a constant."""
    if isinstance(value, datetime.date):
        day = value.date() if isinstance(value, datetime.datetime) else value
        is_start = not isinstance(value, datetime.datetime) or value.time() == datetime.time()
        one = datetime.timedelta(1)
        since, until = domain.since, domain.until
        if since is None or until is None:
            return domain
        if sign in (">", ">=", "="):
            since = max(since, day + one if sign == ">" and domain.kind == "date" and is_start else day)
        if sign in ("<", "<=", "="):
            until = min(until, day - one if sign == "<" and is_start else day)
        if since > until:
            raise Unusable("no value is left", "")
        return replace(domain, since=since, until=until)
    if domain.low is None or domain.high is None or isinstance(value, str):
        return domain
    least = domain.low if sign in ("<", "<=") else max(domain.low, type(domain.low)(value))
    most = domain.high if sign in (">", ">=") else min(domain.high, type(domain.high)(value))
    return replace(domain, low=least, high=most)


def _may_hold(condition: Scalar, row: Row) -> bool:
    """Whether a condition holds on a row, as far as it can be told."""
    try:
        return on_row(condition, row) is True
    except NO_VALUE:
        return True


def _image(expression: Scalar, columns: Mapping[str, Field]) -> frozenset[Value] | None:
    """The values of an expression whose columns have closer bounds; None if they cannot be listed."""
    try:
        found = _bounded(expression, columns)
    except Unusable:
        return None
    if not isinstance(found, Call) or has_pattern(found):
        return None
    values = stepped(found) if found.domain.numeric else None
    values = possible(found) if values is None else values
    return None if values is None else frozenset(values)


def _bounded(expression: Scalar, columns: Mapping[str, Field]) -> Scalar:
    """The expression over columns with these bounds."""
    match expression:
        case Field(name):
            return columns[name]
        case Call("clamp" | "sane", (inner, *_)):
            found = _bounded(inner, columns)
            return clamped(found) if isinstance(found, Field) else found
        case Call(function, arguments):
            return call(function, *(_bounded(each, columns) for each in arguments))
    return expression
