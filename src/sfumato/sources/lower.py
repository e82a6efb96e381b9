"""From a plan to what an engine does: `lower`.

All arithmetic is on integers (law 5), so the answer does not depend on threads, row order or engine:

* a value is clamped, put on its grid by a floor and summed in 128 bits;
* for person units the rows are first added up by (unit, group); whoever weighs more than the cap is scaled by
  a truncating 128-bit division;
* public keys are joined in by position, so only declared groups come back, as integers.

Two forms give the same integers. `persons` adds up everybody's rows by group and scales heavy people. `split`
adds up all rows at once, and then what scaling changes for the few who may be heavy; in tables of one row a
person, and where a prepared copy says who is heavy, that is nearly all there is to do.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.queries.cells import PARTS
from sfumato.queries.measures import Distinct, DistinctSum, Moments, Octaves, Selected
from sfumato.sources import work
from sfumato.sources.adding import ZERO, Adder, Adding, above, any_of, less
from sfumato.sources.relations import is_plain
from sfumato.sources.values import bare, integer, on_grid, when
from sfumato.sources.work import (
    ColumnValue,
    EngineQuery,
    Expression,
    Select,
    Shared,
    Totals,
    Use,
    Work,
    apply,
    cast,
    equal,
    filtered,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.plan import Plan
    from sfumato.sources.copy import Copy

    Columns = tuple[tuple[str, Expression], ...]

BUCKETS = 1 << 16  # into which people are put, so many that the engine's caches hold them
SEVERAL = 256  # rows that weigh in full, from which on a bucket of light people is seldom beyond the cap
HIGH, LOW = ((1 << 32) - 1) << 32, (1 << 32) - 1  # halves of a hash


def lower(plan: Plan, copy: Copy | None = None, *, hashed: str = "hash") -> Work:
    """The queries that compute a plan: one for what is added up by group, one for every grid.

    `hashed` names the operation that decides which rows a cap picks: the engine's own, or "md5".
    """
    measuring = tuple(_query(plan, measures, copy, hashed) for measures in together(plan))
    if not plan.private_keys:
        return Work(measuring)
    flat = _Forms(plan, [plan.measures[i] for i in _flat(plan)], copy, hashed)
    making, counting = flat.choosing()
    code, given = ColumnValue("every", "code", "i64"), work.Given("placed")
    named = tuple((f"h{i}", ColumnValue("every", f"h{i}", key.type)) for i, key in enumerate(flat.hidden))
    joined = work.JoinedRows(
        given, Use("every", "every"), (equal(ColumnValue("placed", "code", "i64"), code),)
    )
    chosen = Select("named", joined, (("position", ColumnValue("placed", "position", "i64")), *named))
    return Work(
        measuring,
        making,
        counting,
        EngineQuery(Select("named", joined, (("code", code), *named))),
        ("chosen", EngineQuery(chosen)),
    )


def together(plan: Plan) -> list[list[int]]:
    """The measures by index, those first that one query computes; which groups are shown is found before."""
    flat = _flat(plan)
    alone = [[i] for i, m in enumerate(plan.measures) if i not in flat and not isinstance(m, Selected)]
    return [*([flat] if flat else []), *alone]


def _flat(plan: Plan) -> list[int]:
    """The measures that are added up by group, by index."""
    return [i for i, m in enumerate(plan.measures) if m.sums and m.cell is None]


def _query(plan: Plan, measures: list[int], copy: Copy | None, hashed: str) -> EngineQuery:
    first = plan.measures[measures[0]]
    if isinstance(first, (Distinct, DistinctSum)):
        return _Forms(plan, [first], copy, hashed).distinct(first)
    if isinstance(first, Octaves):
        return _Forms(plan, [], copy, hashed).octaves(first)
    rows = _Forms(plan, [plan.measures[i] for i in measures], copy, hashed)
    if not plan.relation.by_person or rows.is_single:
        return rows.by_row()
    return rows.split() if rows.is_split else rows.persons()


@dataclass(frozen=True, slots=True)
class _Weight:
    """What a person weighs in a group, for one measure: `name` begins the names of its columns."""

    name: str
    norm: Expression
    limit: int  # of the norm, up to which a person counts in full
    cells: list[Expression]


class _Forms(Adding):
    """The forms that a query can have."""

    # Units that are rows ------------------------------------------------------------------------------

    def by_row(self) -> EngineQuery:
        """Each row is its own unit: one aggregate, grouped by key. Groups are fewer to look up than rows."""
        cells = [each for measure in self.measures for each in self.cells(measure)]
        rows = self.chosen(self.rows, self.hidden)
        group = work.Group("g", rows, _paired(self.names, self.raw), self.totals.listed)
        at = [ColumnValue("g", name, raw.type) for name, raw in zip(self.names, self.raw, strict=True)]
        shown = (*self.positions(self.places(at)), *((f"c{j}", cell) for j, cell in enumerate(cells)))
        return self.query(Select("shown", self.placed(group, at), shown))

    # Units that are persons ---------------------------------------------------------------------------

    @property
    def is_split(self) -> bool:
        """Whether only heavy people are looked at one by one."""
        by_row = all(measure.by_rows for measure in self.measures)
        counts = all(isinstance(m, Moments) and not m.degree for m in self.measures)
        several = self.raw or not counts or self.scan is not None
        return bool(by_row and several and is_plain(self.plan.relation))

    @property
    def is_known(self) -> bool:
        """Whether people were looked at for what is measured when private groups were chosen."""
        flat = all(measure.cell is None for measure in self.measures)
        return bool(self.hidden and flat and self.plan.relation.by_person)

    def own(self, raw: Sequence[Expression]) -> Columns:
        """What a person's rows are grouped by: also groups that are not shown are weighed."""
        hidden = tuple((f"h{i}", key) for i, key in enumerate(self.hidden))
        return hidden + tuple(
            (name, each)
            for i, (name, each) in enumerate(zip(self.names, raw, strict=True))
            if i or not hidden
        )

    def weights(self) -> list[_Weight]:
        """What a person weighs in a group, for every measure; a sum's cell is bounded."""
        return [
            _Weight(f"n{i}", self.norm(measure), measure.full, self.bounded(measure, self.cells(measure)))
            for i, measure in enumerate(self.measures)
        ]

    def person(self, weights: list[_Weight]) -> Select:
        """Each person's rows by group, added up."""
        own = self.own(self.places(self.raw))
        keys = (("u", self.whose()), *own)
        group = work.Group("g", self.placed(self.rows, self.raw), keys, self.totals.listed)
        shown: list[tuple[str, Expression]] = [(n, ColumnValue("g", n, each.type)) for n, each in keys]
        shown += [(each.name, each.norm) for each in weights]
        shown += [(f"{each.name}c{c}", cell) for each in weights for c, cell in enumerate(each.cells)]
        return Select("person", group, tuple(shown))

    def norms(self, weights: Sequence[tuple[str, int]]) -> Shared:
        """What people weigh in all groups together, of those who are beyond a limit."""
        u = ColumnValue("person", "u", self.whose().type)
        sums = tuple((f"m{name}", Totals("sum", ColumnValue("person", name, "i128"))) for name, _ in weights)
        group = work.Group("w", Use("person", "person"), (("u", u),), sums)
        heavy = any_of(above(ColumnValue("w", f"m{name}", "i128"), most) for name, most in weights)
        shown = (("u", ColumnValue("w", "u", u.type)), *((n, ColumnValue("w", n, "i128")) for n, _ in sums))
        return Shared("norm", Select("norm", filtered(group, heavy), shown))

    def persons(self) -> EngineQuery:
        """Add up each person's rows by group, find the heavy people, scale them, then add up everybody."""
        weights = self.weights()
        person, cells = self.person(weights), sum(len(each.cells) for each in weights)
        if not self.raw:  # a person has one row, which is the norm itself
            scaled = [
                _scaled(
                    ColumnValue("person", f"{each.name}c{c}", "i128"),
                    ColumnValue("person", each.name, "i128"),
                    each,
                )
                for each in weights
                for c in range(len(each.cells))
            ]
            return self.query(self.added(work.Group("q", person, (), _summed(scaled)), cells))
        shared = [] if self.is_known else [Shared("person", person, once=True)]
        shared.append(self.norms([(each.name, each.limit) for each in weights]))
        rows = self.chosen(
            Use("person", "person"), (ColumnValue("person", f"h{i}", k.type) for i, k in self.keyed)
        )
        u = self.whose().type
        same = equal(ColumnValue("person", "u", u), ColumnValue("norm", "u", u))
        rows = work.JoinedRows(rows, Use("norm", "norm"), (same,), outer=True)
        scaled = [
            _scaled(
                ColumnValue("person", f"{each.name}c{c}", "i128"),
                ColumnValue("norm", f"m{each.name}", "i128"),
                each,
            )
            for each in weights
            for c in range(len(each.cells))
        ]
        at: list[Expression] = [ColumnValue("person", name, "i64") for name in self.names]
        if self.hidden:
            at[0] = self.raw[0]
        group = work.Group("q", rows, self.positions(at), _summed(scaled))
        return self.query(self.added(group, cells), *shared)

    @property
    def keyed(self) -> Iterable[tuple[int, ColumnValue]]:
        return enumerate(self.hidden)

    def split(self) -> EngineQuery:
        """Add up all rows by group; then for the few heavy people, what scaling them changes.

        A person with at most as many rows as weigh in full in every measure cannot be beyond any cap, so
        only those who have more are looked at one by one. The integers are those of `persons`. Where caps are
        high, people are first looked at in buckets: whoever is beyond a cap is in one that is beyond it.
        """
        cells = [self.cells(measure) for measure in self.measures]
        weights: list[tuple[str, int]] = []
        parts: list[_Weight] = []  # of a person in a group: the cells that are scaled
        columns: list[tuple[str, Expression]] = []
        bounds: list[tuple[str, Expression]] = []
        for i, (measure, each) in enumerate(zip(self.measures, cells, strict=True)):
            columns += [(f"n{i}c{c}", cell) for c, cell in enumerate(each)]
            norm, scaled = ColumnValue("h", f"n{i}", "i128"), [f"n{i}c{c}" for c in range(len(each))]
            if measure.norm is None:
                (total,) = self.bounded(measure, [ColumnValue("h", f"n{i}c0", "i128")])
                bounds += [(f"n{i}b0", total), (f"n{i}", apply("abs", total, type="i128"))]
                scaled = [f"n{i}b0"]
            else:
                columns.append((f"n{i}", self.norm(measure)))
            weights.append((f"n{i}", measure.full))
            named: list[Expression] = [ColumnValue("person", name, "i128") for name in scaled]
            parts.append(_Weight(f"n{i}", norm, measure.full, named))
        totals = self.totals.listed
        everybody = work.Group(
            "g", self.chosen(self.rows, self.hidden), _paired(self.names, self.raw), totals
        )
        stored = None if self.is_known else self.heavy_beside()
        few, shared = self.few_rows(stored)
        keys = (("u", self.whose()), *self.own(self.raw))
        one_by_one = work.Group("g", few, keys, totals)
        at = [ColumnValue("g", name, raw.type) for name, raw in zip(self.names, self.raw, strict=True)]
        shown = tuple((name, ColumnValue("g", name, each.type)) for name, each in keys)
        person = Select("h", self.placed(one_by_one, at), (*shown, *columns))
        if bounds:
            below = tuple((name, ColumnValue("h", name, each.type)) for name, each in person.columns)
            person = Select("b", person, (*below, *bounds))
        shared.append(Shared("person", person, once=True if self.raw else None))
        changed: work.Rows = Use("person", "person")
        if self.raw:
            shared.append(self.norms(weights))
            u = self.whose().type
            on = equal(ColumnValue("person", "u", u), ColumnValue("norm", "u", u))
            changed = work.JoinedRows(changed, Use("norm", "norm"), (on,))
        changed = self.chosen(changed, (ColumnValue("person", f"h{i}", key.type) for i, key in self.keyed))
        count = sum(map(len, cells))
        whole = tuple((f"c{j}", cast(cell, "i128")) for j, cell in enumerate(itertools.chain(*cells)))
        changes = []
        for part in parts:
            where = (
                ColumnValue("norm", f"m{part.name}", "i128")
                if self.raw
                else ColumnValue("person", part.name, "i128")
            )
            for c, cell in enumerate(part.cells):
                before = ColumnValue("person", f"{part.name}c{c}", "i128")
                changes.append(apply("-", _scaled(cell, where, part), before, type="i128"))
        again: list[Expression] = [
            ColumnValue("person", name, raw.type) for name, raw in zip(self.names, self.raw, strict=True)
        ]
        if self.hidden:
            again[0] = self.raw[0]
        both_parts = (
            Select("e", everybody, (*_paired(self.names, at), *whole)),
            Select(
                "c", changed, (*_paired(self.names, again), *((f"c{j}", x) for j, x in enumerate(changes)))
            ),
        )
        shared.append(Shared("r", work.UnitedRows("r", both_parts)))
        there = [ColumnValue("r", name, raw.type) for name, raw in zip(self.names, self.raw, strict=True)]
        sums = tuple((f"c{j}", Totals("sum", ColumnValue("r", f"c{j}", "i128"))) for j in range(count))
        rows = self.placed(Use("r", "r"), there)
        grouped = self.positions(self.places(there)) if there else ()
        return self.query(self.added(work.Group("q", rows, grouped, sums), count), *shared)

    def few_rows(self, stored: Expression | None) -> tuple[work.Rows, list[Shared]]:
        """The rows of those who may be heavy, and what is shared to find them."""
        if stored is not None:
            return filtered(self.rows, stored), []
        u = self.whose()
        who: Expression = u
        if self.is_known:
            found: work.Rows = filtered(Use("w", "who"), ColumnValue("w", "h", "bool"))
        else:
            if (self.plan.relation.rows or 0) >= SEVERAL:
                bucket = apply(self.hash, u, type="u64")
                who = apply("both bits", bucket, integer(BUCKETS - 1, "u64"), type="u64")
            totals = Adder("w")
            beyond = self.few(totals)
            found = filtered(work.Group("w", self.rows, (("u", who),), totals.listed), beyond)
        heavy = Shared("heavy", Select("heavy", found, (("u", ColumnValue("w", "u", who.type)),)), once=True)
        among = work.SemiJoin(
            self.rows, (who,), Use("heavy", "heavy"), (ColumnValue("heavy", "u", who.type),)
        )
        return among, [heavy]

    # Private groups -----------------------------------------------------------------------------------

    def choosing(self) -> tuple[tuple[tuple[str, EngineQuery], ...], EngineQuery]:
        """Which private groups there are, each with a number; and how many units count for each."""
        code, s = ("code", ColumnValue("every", "code", "i64")), ColumnValue("every", "s", "i64")
        if not self.plan.relation.by_person:
            made = ("every", self.query(self.every(self.rows, self.hidden, counted=True)))
            return (made,), EngineQuery(Select("counted", Use("every", "every"), (code, ("s", s))))
        if self.is_split:
            heavy = Adder("w")
            few = self.few(heavy) if self.measures else None
            who = self.who(self.rows, self.hidden, heavy, few)
            made_of: tuple[tuple[str, EngineQuery], ...] = (
                ("every", self.query(self.every(self.rows, self.hidden))),
                ("who", self.query(who)),
            )
        else:  # what is looked at one by one is looked at once
            person, rows = self.person(self.weights()), Use("t", "person")
            keys = [ColumnValue("t", f"h{i}", key.type) for i, key in self.keyed]
            made_of = (
                ("person", self.query(person)),
                ("every", EngineQuery(self.every(rows, keys))),
                ("who", EngineQuery(self.who(rows, keys, Adder("w"), None))),
            )
        counts = work.Group(
            "c", Use("who", "who"), (("code", ColumnValue("who", "code", "i64")),), (("s", Totals("count")),)
        )
        same = equal(code[1], ColumnValue("c", "code", "i64"))
        joined = work.JoinedRows(Use("every", "every"), counts, (same,), outer=True)
        found = apply("coalesce", ColumnValue("c", "s", "i64"), bare(0), type="i64")
        return made_of, EngineQuery(Select("counted", joined, (code, ("s", found))))

    def every(self, rows: work.Rows, keys: Sequence[ColumnValue], *, counted: bool = False) -> work.Rank:
        """Every group, numbered in the order of keys: the same numbers for the same data in any engine."""
        named = tuple((f"h{i}", key) for i, key in enumerate(keys))
        group = work.Group("g", rows, named, (("s", Totals("count")),) if counted else ())
        shown: Columns = tuple((name, ColumnValue("g", name, key.type)) for name, key in named)
        order = tuple(value for _, value in shown)
        shown += (("s", ColumnValue("g", "s", "i64")),) if counted else ()
        return work.Rank("every", group, shown, (), order, "code")

    def who(
        self, rows: work.Rows, keys: Sequence[ColumnValue], totals: Adder, heavy: Expression | None
    ) -> Select:
        """Everybody, and the group that each counts for.

        It is the group with the smallest hash of person and group; where the first half of two hashes is the
        same, the group that sorts first. Other people's groups only change by which number a group is called
        in between, not which of two comes first.
        """
        u, code = self.whose(), cast(ColumnValue("every", "code", "i64"), "u64")
        on = tuple(equal(key, ColumnValue("every", f"h{i}", key.type)) for i, key in enumerate(keys))
        high = apply("both bits", apply(self.hash, u, *keys, type="u64"), integer(HIGH, "u64"), type="u64")
        least = Totals("min", apply("either bit", high, code, type="u64"))
        group = work.Group(
            totals.alias,
            work.JoinedRows(rows, Use("every", "every"), on),
            (("u", u),),
            (("least", least), *totals.listed),
        )
        chosen = apply("both bits", ColumnValue(group.alias, "least", "u64"), integer(LOW, "u64"), type="u64")
        shown: Columns = (("u", ColumnValue(group.alias, "u", u.type)), ("code", cast(chosen, "i64")))
        return Select("who", group, shown if heavy is None else (*shown, ("h", heavy)))

    # Measures of their own ----------------------------------------------------------------------------

    def distinct(self, measure: Distinct | DistinctSum) -> EngineQuery:
        """How many different values there are in each group, of few pairs a person; or their sum."""
        found = self.value(measure.value)
        x = self.named(found)
        self.narrow(there(found))
        rows = self.placed(self.rows, self.raw)
        places = self.places(self.raw)
        if not self.plan.relation.by_person:
            return self.different(measure, self.chosen(rows, self.hidden), places, x)
        own = self.own(places)
        keys = (("u", self.whose()), *own, ("x", x))
        pairs = work.Group("q", rows, keys)
        u, *others = [ColumnValue("q", name, each.type) for name, each in keys]
        # pairs are different, so hash, group and value order them totally
        order: tuple[Expression, ...] = (apply(self.hash, u, *others, type="u64"), *others)
        shown = tuple((name, ColumnValue("q", name, each.type)) for name, each in keys)
        ranked = work.Rank("p", pairs, shown, (u,), order, "n")
        first = apply("<=", ColumnValue("p", "n", "i64"), bare(measure.pairs), type="bool")
        shown_rows = self.chosen(
            filtered(ranked, first), (ColumnValue("p", f"h{i}", key.type) for i, key in self.keyed)
        )
        at: list[Expression] = [ColumnValue("p", name, "i64") for name in self.names]
        if self.hidden:
            at[0] = self.raw[0]
        return self.different(measure, shown_rows, at, ColumnValue("p", "x", x.type))

    def different(
        self, measure: Distinct | DistinctSum, rows: work.Rows, places: Sequence[Expression], x: Expression
    ) -> EngineQuery:
        """How many different values there are in each group of some rows; or each of them once, added up."""
        keys = self.positions(places) if places else ()
        if isinstance(measure, Distinct):
            group = work.Group("q", rows, keys, (("c0", Totals("distinct", x)),))
            return self.query(self.added(group, 1))
        once = work.Group("d", rows, (*keys, ("x", x)))
        value = ColumnValue("d", "x", x.type)
        total = Totals("sum", cast(on_grid(value, measure.value.domain.kind, measure.clamp), "i64"))
        at = tuple((name, ColumnValue("d", name, "i64")) for name, _ in keys)
        return self.query(self.added(work.Group("q", once, at, (("c0", total),)), 1))

    def octaves(self, measure: Octaves) -> EngineQuery:
        """How many persons have how much, each shared between the two nodes around it.

        For an amount a with 2^k <= a < 2^(k+1) the upper node gets trunc(1024 (a - 2^k) / 2^k), the lower one
        what is left of 1024. A logarithm of doubles only guesses k; whole numbers then settle it.
        """
        total = Totals("count")
        if measure.value is not None and measure.clamp is not None:
            x = cast(self.on_grid(measure.value, measure.clamp), "i64")
            total = Totals("sum", apply("abs", less(x, measure.centre), type="i64"))
        group = work.Group("p", self.rows, (("u", self.whose()),), (("a", total),))
        amount = cast(apply("coalesce", ColumnValue("p", "a", "i128"), ZERO, type="i128"), "i128")
        counted = Select("n", group, (("a", amount),))
        top = integer(1 << (measure.nodes - 2), "i128")
        a = ColumnValue("n", "a", "i128")
        cut = Select("m", counted, (("a", when(apply(">", a, top, type="bool"), top, a)),))
        a = ColumnValue("m", "a", "i128")
        log = apply("log2", cast(a, "f64"), type="f64")
        guess = cast(apply("floor", log, type="f64"), "i32")
        known = when(above(a, 0), guess, bare(-1))
        guessed = Select("l", cut, (("a", a), ("k", known)))
        a, k = ColumnValue("l", "a", "i128"), ColumnValue("l", "k", "i32")

        def power(of: Expression) -> Expression:
            return apply("power of two", of, type="i128")

        next_one = apply("+", k, bare(1), type="i32")
        settled = apply(
            "case",
            apply("<", k, bare(0), type="bool"),
            bare(-1),
            apply(">", power(k), a, type="bool"),
            apply("-", k, bare(1), type="i32"),
            apply("<=", power(next_one), a, type="bool"),
            next_one,
            k,
            type="i32",
        )
        sure = Select("s", guessed, (("a", a), ("k", settled)))
        a, k = ColumnValue("s", "a", "i128"), ColumnValue("s", "k", "i32")
        part = apply("*", apply("-", a, power(k), type="i128"), bare(PARTS), type="i128")
        part = apply("divide", part, power(k), type="i128")
        part = when(apply("<", k, bare(0), type="bool"), ZERO, part)
        nodes = Shared("nodes", Select("nodes", sure, (("k", k), ("t", part))))
        k, t = ColumnValue("o", "k", "i32"), ColumnValue("o", "t", "i128")
        lower_node = Select(
            "o1",
            Use("o", "nodes"),
            (
                ("cell", apply("+", k, bare(1), type="i32")),
                ("w", apply("-", bare(PARTS), t, type="i128")),
            ),
        )
        upper_node = Select(
            "o2",
            filtered(Use("o", "nodes"), above(t, 0)),
            (("cell", apply("+", k, bare(2), type="i32")), ("w", t)),
        )
        both_nodes = work.UnitedRows("n", (lower_node, upper_node))
        shared_out = work.Group(
            "q",
            both_nodes,
            (("cell", ColumnValue("n", "cell", "i32")),),
            (("c0", Totals("sum", ColumnValue("n", "w", "i128"))),),
        )
        cells = (("cell", ColumnValue("q", "cell", "i32")), ("c0", ColumnValue("q", "c0", "i128")))
        return self.query(Select("shown", shared_out, (("position", bare(0)), *cells)), nodes)


def _paired(names: Iterable[str], values: Iterable[Expression]) -> Columns:
    return tuple(zip(names, values, strict=True))


def _summed(values: Sequence[Expression]) -> tuple[tuple[str, Totals], ...]:
    return tuple((f"c{j}", Totals("sum", each)) for j, each in enumerate(values))


def _scaled(value: Expression, norm: Expression, weight: _Weight) -> Expression:
    """The value, scaled so that all groups together keep to the cap; a norm of NULL is a light person's.

    A division truncates towards zero, so |scaled| <= |value| * limit / norm, and the sum over groups and
    cells is at most the cap. The divisor is above the limit, hence at least 2; the product is taken in 128
    bits.
    """
    product = apply("*", value, integer(weight.limit, "i128"), type="i128")
    return when(above(norm, weight.limit), apply("divide", product, norm, type="i128"), value)
