"""The rows of a plan, what of them is used, and how counts and sums of them are found.

Whatever form a query has (`lower`), the cells of a measure are whole combinations of the same few totals, and
who may be beyond a cap is told by the same conditions: this is where both are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries.cells import CAP, Counted, Listed, Powers, Seen, Steps
from sfumato.queries.expressions import Call
from sfumato.queries.measures import Measure, Sum
from sfumato.queries.relations import Scan, Where, has_one_row
from sfumato.sources import work
from sfumato.sources.copy import ROWS
from sfumato.sources.relations import Lowering
from sfumato.sources.values import bare, constant, double, integer, lowered, on_grid, when
from sfumato.sources.work import (
    TYPES,
    ColumnValue,
    EngineQuery,
    Expression,
    Select,
    Shared,
    Totals,
    Type,
    Use,
    apply,
    both,
    cast,
    equal,
    filtered,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.cells import Clamp, Combination, Piece
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.plan import Plan
    from sfumato.queries.relations import Relation
    from sfumato.sources.copy import Copy, Grid

    Columns = tuple[tuple[str, Expression], ...]

LONGEST_PRIVATE_KEY = 1000  # characters of a private key
ZERO = integer(0, "i128")


class Adder:
    """The different totals of a group: each computed once, whoever needs it."""

    def __init__(self, alias: str = "g") -> None:
        self.alias = alias
        self._names: dict[Totals, str] = {}

    def of(self, function: work.Total, value: Expression | None = None) -> ColumnValue:
        """A total, by the column that it is found in."""
        name = self._names.setdefault(Totals(function, value), f"a{len(self._names)}")
        doubles = value is not None and value.type == "f64"
        kind: Type = "i64" if function == "count" else "f64" if doubles else "i128"
        return ColumnValue(self.alias, name, kind)

    @property
    def listed(self) -> tuple[tuple[str, Totals], ...]:
        return tuple((name, total) for total, name in self._names.items())


class Adding:
    """The rows of a plan, its keys, and what is added up."""

    def __init__(self, plan: Plan, measures: list[Measure], copy: Copy | None, hashed: str) -> None:
        self.plan, self.measures, self.copy, self.hash = plan, measures, copy, hashed
        self.relations = Lowering(copy, hashed)
        self.below = self.relations.of(plan.relation, plan.shown)
        self.unit = None if self.below.unit is None else ColumnValue("t", "u", self.below.unit.type)
        self.scan = None if copy is None else _only_scan(plan.relation)  # of a copy
        self.totals = Adder()
        # by identity, beside what has it: to compare large expressions takes long
        self._lowered: dict[int, tuple[Scalar, Expression]] = {}
        self._named: dict[int, tuple[Expression, ColumnValue]] = {}
        self._grids: dict[tuple[int, Clamp], tuple[Scalar, Expression]] = {}
        self.columns: dict[Expression, str] = {}  # what of a row is used, and what it is called
        self.hidden: list[ColumnValue] = []  # the keys of a row, where they are private
        self.raw: list[Expression] = []  # what is grouped by
        self.lists: dict[int, work.Keys] = {}  # and for which of it there are public values
        for i, key in enumerate(plan.keys):
            found, kind = self.value(key.expression), key.expression.domain.kind
            if plan.private_keys:
                self.hidden.append(self.named(found))
                self.narrow(*_usable(found))
                if key.values is not None:
                    listed = (constant(each, kind) for each in key.values)
                    self.narrow(apply("in", found, *listed, type="bool"))
            else:
                assert key.values is not None
                self.raw.append(self.named(found))
                self.lists[i] = work.Keys(f"v{i}", key.values, TYPES[kind])
        if plan.private_keys:
            self.raw.append(ColumnValue("chosen", "position", "i64"))
        first = measures[0] if measures else None
        match first.cell if first is not None else None:
            case Steps(value, clamp, origin):
                self.raw.append(less(self.on_grid(value, clamp), origin))
                if not value.domain.required:
                    self.narrow(there(self.value(_unclamped(value))))
            case Listed(value, values):
                at = len(self.raw)
                self.lists[at] = work.Keys(f"v{at}", values, TYPES[value.domain.kind])
                self.raw.append(self.named(self.value(value)))
        self.names = [f"k{i}" for i in range(len(self.raw))]
        self.rows = Use("t", "rows")

    # Parts --------------------------------------------------------------------------------------------

    def narrow(self, *conditions: Expression) -> None:
        """Look only at rows for which these hold."""
        self.below.rows = filtered(self.below.rows, *conditions)

    def value(self, scalar: Scalar) -> Expression:
        """An expression on a row; the same one is lowered once, however often it is used."""
        known = self._lowered.get(id(scalar))
        if known is None:
            known = self._lowered[id(scalar)] = (scalar, lowered(scalar, self.below.column))
        return known[1]

    def named(self, value: Expression) -> ColumnValue:
        """What an expression of a row is called: it is computed once, and short to refer to."""
        known = self._named.get(id(value))
        if known is None:
            column = ColumnValue("t", self.columns.setdefault(value, f"x{len(self.columns)}"), value.type)
            known = self._named[id(value)] = (value, column)
        return known[1]

    def there(self, value: Scalar) -> ColumnValue:
        """Something that is NULL where the value is: a clamped column is where the column is."""
        return self.named(self.value(_unclamped(value)))

    def on_grid(self, value: Scalar, clamp: Clamp) -> Expression:
        """A value as an integer; what is clamped to the same bounds need not be clamped twice."""
        known = self._grids.get((id(value), clamp))
        if known is None:
            known = self._grids[id(value), clamp] = (value, self._on_grid(value, clamp))
        return known[1]

    def _on_grid(self, value: Scalar, clamp: Clamp) -> Expression:
        if found := self.stored(value, clamp):
            on, steps = found
            stored = self.beside(on.value)
            return apply("divide", stored, bare(steps), type="i64") if steps > 1 else stored
        same = (value.domain.low, value.domain.high) == (clamp.low, clamp.high)
        grid = on_grid(self.value(_unclamped(value) if same else value), value.domain.kind, clamp)
        if value.domain.required:
            grid = apply("coalesce", grid, bare(clamp.least), type=grid.type)
        return self.named(grid)

    def stored(self, value: Scalar, clamp: Clamp) -> tuple[Grid, int] | None:
        """Where the copy has a value on its grid, and how many of its steps are one of the clamp's."""
        if self.copy is None or self.scan is None:
            return None
        if (value.domain.low, value.domain.high) != (clamp.low, clamp.high):
            return None
        return self.copy.grid(self.scan.table, _unclamped(value), clamp)

    def beside(self, name: str) -> ColumnValue:
        """A column of our own in a copy."""
        assert self.scan is not None
        return self.named(ColumnValue(f"t{self.scan.number}", name, "i64"))

    def placed(self, rows: work.Rows, at: Sequence[Expression]) -> work.Rows:
        """Rows with the lists of public values joined to what is grouped by."""
        for i, keys in self.lists.items():
            rows = work.JoinedRows(
                rows, Use(f"v{i}", f"v{i}"), (equal(at[i], ColumnValue(f"v{i}", "key", keys.type)),)
            )
        return rows

    def places(self, at: Sequence[Expression]) -> list[Expression]:
        """What is grouped by: positions where there are lists."""
        return [
            ColumnValue(f"v{i}", "position", "i64") if i in self.lists else each for i, each in enumerate(at)
        ]

    def chosen(self, rows: work.Rows, keys: Iterable[Expression]) -> work.Rows:
        """Rows in those private groups that are shown; all of them where the keys are public."""
        on = [equal(key, ColumnValue("chosen", f"h{i}", key.type)) for i, key in enumerate(keys)]
        return work.JoinedRows(rows, Use("chosen", "chosen"), tuple(on)) if on else rows

    def positions(self, places: Sequence[Expression]) -> Columns:
        """The keys as they come back: one position among the groups, then the cell of a grid."""
        if self.hidden:
            groups, rest = places[:1], places[1:]
            position = groups[0]
        else:
            groups, rest = places[: len(self.plan.keys)], places[len(self.plan.keys) :]
            position = bare(0)
            for i, (place, key) in enumerate(zip(groups, self.plan.keys, strict=True)):
                assert key.values is not None
                scaled = apply("*", position, bare(len(key.values)), type="i64")
                position = apply("+", scaled, place, type="i64") if i else place
        return (("position", position), *(("cell", each) for each in rest))

    def query(self, rows: Select | work.Group | work.Rank, *shared: Shared) -> EngineQuery:
        """A query with what it shares: the rows of the plan are read by each use of them for itself, and
        only the columns that it needs."""
        columns: list[tuple[str, Expression]] = [] if self.below.unit is None else [("u", self.below.unit)]
        columns += [(name, value) for value, name in self.columns.items()]
        every = Select("rows", self.below.rows, tuple(columns) or (("one", bare(1)),))
        lists = (Shared(f"v{i}", keys) for i, keys in self.lists.items())
        all_of_it = (*self.relations.shared, Shared("rows", every, once=False), *lists, *shared)
        return EngineQuery(rows, used(rows, all_of_it))

    def added(self, group: work.Group, cells: int) -> Select:
        """Sums of a group as they come back: of nothing 0."""
        keys = tuple((name, ColumnValue(group.alias, name, "i64")) for name, _ in group.keys)
        position = () if keys else (("position", bare(0)),)
        sums = (
            (f"c{j}", apply("coalesce", ColumnValue(group.alias, f"c{j}", "i128"), bare(0), type="i128"))
            for j in range(cells)
        )
        return Select("shown", group, (*position, *keys, *sums))

    def whose(self) -> ColumnValue:
        assert self.unit is not None
        return self.unit

    # Measures that are added up -----------------------------------------------------------------------

    def cells(self, measure: Measure) -> list[Expression]:
        """What the rows of one person (or all rows) come to in one group, before any bounding."""
        return [self._combined(each) for each in measure.sums]

    def _combined(self, combination: Combination) -> Expression:
        """A whole combination of pieces, in 128 bits; one count by itself fits into 64."""
        (factor, piece), *more = combination
        if not more and not isinstance(piece, Powers):
            count = self.piece(piece)
            return count if factor == 1 else apply("*", count, bare(factor), type="i64")
        terms = []
        for factor, piece in combination:
            found = self.piece(piece)
            found = found if isinstance(piece, Powers) else cast(found, "i128")
            one = factor == 1
            terms.append(found if one else apply("*", integer(factor, "i128"), found, type="i128"))
        total: Expression = terms[0]
        for term in terms[1:]:
            total = apply("+", total, term, type="i128")
        return total

    @property
    def is_single(self) -> bool:
        """Whether every person has one row at most, which no cap cuts: then rows are added up as they are."""
        cut = any(isinstance(each, Sum) and each.limit is not None for each in self.measures)
        return has_one_row(self.plan.relation) and not cut

    def piece(self, piece: Piece) -> Expression:
        """A count or a sum, by the total that it is found in."""
        match piece:
            case Counted(values):
                known = [self.there(value) for value in values if not value.domain.required]
                if len(known) > 1:
                    all_known = both(*(there(each) for each in known))
                    return self.totals.of("count", when(all_known, bare(1), work.ConstantValue(None, "i64")))
                return self.totals.of("count", known[0]) if known else self.totals.of("count")
            case Seen(value):
                if self.is_single:  # of several people
                    return self.piece(Counted(() if value is None else (value,)))
                if value is None:
                    return bare(1)
                return when(above(self.piece(Counted((value,))), 0), bare(1), bare(0))
            case Powers(steps, exponents):
                factors = [x for i, e in enumerate(exponents) if e for x in [self._step(steps, i)] * e]
                if len(factors) > 1:
                    factors = [cast(x, "i64") for x in factors]
                product = factors[0]
                for factor in factors[1:]:
                    product = apply("*", product, factor, type="i64")
                return apply("coalesce", self.totals.of("sum", product), ZERO, type="i128")

    def _step(self, steps: tuple[Steps, ...], i: int) -> Expression:
        """A value in steps from its origin, in rows that have all the others as well."""
        x = less(self.on_grid(steps[i].value, steps[i].clamp), steps[i].origin)
        for j, other in enumerate(steps):
            if j != i and not other.value.domain.required:
                x = when(there(self.there(other.value)), x, work.ConstantValue(None, x.type))
        return x

    def maybe_heavy(self, measure: Measure, totals: Adder) -> Expression:
        """What holds of every person who is beyond the cap, over all rows: only they are looked at again.

        For a sum the size of the rows' own contributions is added up, which is at least the norm. In doubles
        that is faster: what is not clamped is no nearer to the centre, flooring moves a row by less than one
        step, and a millionth is more than all rounding. NaN is above everything, so whoever has it is looked
        at again. Who else is by rounding alone makes no difference.
        """
        count = totals.of("count")
        if measure.norm is not None:
            return above(count, measure.full)
        assert isinstance(measure, Sum)
        if measure.limit is None:
            return above(count, measure.cap // max(1, *map(abs, measure.row)))
        value, clamp = measure.value, measure.clamp
        if value.domain.kind == "number" and clamp.least <= measure.centre <= clamp.most:
            x: Expression = self.there(value)
            if value.domain.required:
                x = apply("coalesce", x, double(float(clamp.low)), type="f64")
            step = float(clamp.step)
            far = apply("abs", apply("-", x, double(measure.centre * step), type="f64"), type="f64")
            floored = apply("*", cast(count, "f64"), double(step), type="f64")
            beyond = apply("-", double(measure.cap * step * (1 - 1e-6)), floored, type="f64")
            return apply(">", totals.of("sum", far), beyond, type="bool")
        x = cast(self.on_grid(value, clamp), "i64")
        return above(totals.of("sum", apply("abs", less(x, measure.centre), type="i64")), measure.cap)

    def few(self, totals: Adder) -> Expression:
        """The same of any measure."""
        return any_of(dict.fromkeys(self.maybe_heavy(measure, totals) for measure in self.measures))

    def heavy_beside(self) -> Expression | None:
        """The same of a row, by what the copy says about its person; None if it does not say it."""
        if self.scan is None:
            return None
        beyond: list[Expression] = []
        for measure in self.measures:
            name: str | None = ROWS
            if isinstance(measure, Sum):
                found = self.stored(measure.value, measure.clamp)
                name = found[0].norm(measure.centre) if found is not None and found[1] == 1 else None
            if name is None:
                return None
            beyond.append(above(self.beside(name), measure.full))
        return any_of(dict.fromkeys(beyond))

    def bounded(self, measure: Measure, cells: list[Expression]) -> list[Expression]:
        """The cells of one person; a sum stays within the 63 bits that the scaling can multiply.

        What is cut off here is beyond every cap, and still is when it is cut: so it is scaled.
        """
        if measure.norm is not None:
            return cells
        low, high = integer(-2 * CAP, "i128"), integer(2 * CAP, "i128")
        return [
            apply(
                "case",
                apply("<", cell, low, type="bool"),
                low,
                apply(">", cell, high, type="bool"),
                high,
                cell,
                type="i128",
            )
            for cell in cells
        ]

    def norm(self, measure: Measure) -> Expression:
        """What a group adds to the norm of a person: rows, groups, or the total itself."""
        if measure.norm is not None:
            return self.piece(measure.norm)
        return apply("abs", self.bounded(measure, self.cells(measure))[0], type="i128")


def used(rows: work.Rows, shared: Iterable[Shared]) -> tuple[Shared, ...]:
    """What of shared rows is used, by rows or by what these use, in its order."""
    found: list[Shared] = []
    wanted = _uses(rows)
    for each in reversed(tuple(shared)):
        if each.name in wanted:
            found.append(each)
            wanted |= _uses(each.rows)
    return tuple(reversed(found))


def _uses(rows: work.Rows) -> set[str]:
    match rows:
        case Use(_, name):
            return {name}
        case work.JoinedRows(left, right):
            return _uses(left) | _uses(right)
        case work.SemiJoin(inner, _, other):
            return _uses(inner) | _uses(other)
        case work.UnitedRows(_, parts):
            return set().union(*(_uses(each) for each in parts))
        case work.Filter(inner):
            return _uses(inner)
        case Select(_, inner) | work.Group(_, inner) | work.Rank(_, inner) | work.Repeat(_, inner):
            return _uses(inner)
        case work.Windows(_, inner):
            return _uses(inner)
    return set()


def above(value: Expression, most: int) -> Expression:
    return apply(">", value, bare(most), type="bool")


def any_of(conditions: Iterable[Expression]) -> Expression:
    listed = tuple(conditions)
    return listed[0] if len(listed) == 1 else apply("or", *listed, type="bool")


def less(value: Expression, by: int) -> Expression:
    return apply("-", value, bare(by), type="i64") if by else value


def _only_scan(relation: Relation) -> Scan | None:
    """The one table of people that a relation narrows, if that is all it does."""
    while isinstance(relation, Where):
        relation = relation.relation
    return relation if isinstance(relation, Scan) and relation.by_person else None


def _unclamped(value: Scalar) -> Scalar:
    return value.arguments[0] if isinstance(value, Call) and value.function == "clamp" else value


def _usable(key: Expression) -> list[Expression]:
    """A private key has a value, and one that can be stored and shown under a name of its own."""
    conditions: list[Expression] = [there(key)]
    if key.type == "text":
        short = apply("<=", apply("length", key, type="i64"), bare(LONGEST_PRIVATE_KEY), type="bool")
        conditions.append(short)
    elif key.type in ("date", "timestamp"):
        conditions.append(apply("finite", key, type="bool"))
    return conditions
