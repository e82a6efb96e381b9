"""The SQL of a plan, and the integers that come back.

All arithmetic is on integers (law 5), so the answer does not depend on threads, row order or version:

* a value is clamped by CASE (NULL stays NULL, NaN sorts above everything and becomes the upper bound), put on
  its grid by FLOOR(x * 2^k) and summed in 128 bits;
* for person units the rows are first added up by (unit, group); whoever weighs more than the cap is scaled by
  a truncating 128-bit division;
* public keys are joined in by position, so only declared groups come back, as integers.

Only names of the policy and literals of the right type are printed, never a word of the analyst's (law 8).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.queries.expressions import Call
from sfumato.queries.plan import (
    CAP,
    PARTS,
    Distinct,
    Kinds,
    Measure,
    Moments,
    Octaves,
    People,
    Plan,
    Selected,
    Spread,
    Sum,
)
from sfumato.queries.relations import Scan, Where
from sfumato.sources.answers import Answer, Sparse, Statements
from sfumato.sources.copy import ROWS
from sfumato.sources.dialect import SQL_TYPE, double, integer, listed, on_grid, scalar_text, typed
from sfumato.sources.tables import is_plain, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.queries.declared import Value
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.plan import Clamp
    from sfumato.queries.relations import Relation
    from sfumato.sources.answers import Group
    from sfumato.sources.copy import Copy, Grid

LONGEST = 1000  # characters of a private key
BUCKETS = 1 << 16  # into which people are put, so many that the engine's caches hold them
SEVERAL = 256  # rows that weigh in full, from which on a bucket of light people is seldom beyond the cap


def statements(plan: Plan, copy: Copy | None = None) -> Statements:
    """The queries that compute a plan: one for what is added up by group, one for every grid."""
    measuring = tuple(_text(plan, measures, copy) for measures in _together(plan))
    if not plan.private_keys:
        return Statements(measuring)
    names = ", ".join(f"h{i}" for i in range(len(plan.keys)))
    chosen = "SELECT UNNEST(CAST($1 AS UBIGINT[])) AS code"
    placed = f"{chosen}, UNNEST(range(len(CAST($1 AS UBIGINT[])))) AS position"
    flat = _Query(plan, [plan.measures[i] for i in _flat(plan)], copy)
    return Statements(
        measuring,
        *flat.choosing(),
        naming=f"SELECT code, {names} FROM sfumato_every WHERE code IN ({chosen})",
        choosing=_made(
            "chosen", f"SELECT position, {names} FROM ({placed}) AS placed JOIN sfumato_every USING (code)"
        ),
    )


def texts(plan: Plan, copy: Copy | None = None) -> tuple[str, ...]:
    """The same, one after the other."""
    return statements(plan, copy).texts


def arrange(
    plan: Plan,
    results: Iterable[Iterable[tuple[Any, ...]]],
    chosen: Sequence[tuple[Group, int]] | None = None,
) -> Answer:
    """What the queries returned, as one vector a measure; groups without rows are zero.

    `chosen` are the private groups that are shown, each with how many count for it.
    """
    groups = plan.groups if chosen is None else tuple(group for group, _ in chosen)
    counts = tuple(count for _, count in chosen or ())
    found: dict[int, Sequence[int]] = {
        i: counts for i, measure in enumerate(plan.measures) if isinstance(measure, Selected)
    }
    for measures, rows in zip(_together(plan), results, strict=True):
        sizes = [plan.measures[i].cells for i in measures]
        if isinstance(plan.measures[measures[0]], (Spread, Kinds, Octaves)):
            cells = sizes[0]
            weights = ((at * cells + cell, int(weight)) for at, cell, weight in rows)
            found[measures[0]] = Sparse.of(len(groups) * cells, weights)
            continue
        vectors = [[0] * (len(groups) * cells) for cells in sizes]
        for row in rows:
            start = 1
            for vector, cells in zip(vectors, sizes, strict=True):
                for c in range(cells):
                    vector[row[0] * cells + c] += int(row[start + c])
                start += cells
        found.update(zip(measures, map(tuple, vectors), strict=True))
    return Answer(groups, tuple(found[i] for i in range(len(plan.measures))))


def _flat(plan: Plan) -> list[int]:
    """The measures that are added up by group, by index."""
    return [i for i, m in enumerate(plan.measures) if isinstance(m, (Moments, Sum, People))]


def _together(plan: Plan) -> list[list[int]]:
    """The measures by index, those first that one query computes; which groups are shown is found before."""
    flat = _flat(plan)
    alone = [[i] for i, m in enumerate(plan.measures) if isinstance(m, (Distinct, Spread, Kinds, Octaves))]
    return [*([flat] if flat else []), *alone]


def _text(plan: Plan, measures: list[int], copy: Copy | None) -> str:
    first = plan.measures[measures[0]]
    if isinstance(first, Distinct):
        return _distinct(_Query(plan, [first], copy), first)
    if isinstance(first, Octaves):
        return _octaves(_Query(plan, [], copy), first)
    return _Query(plan, [plan.measures[i] for i in measures], copy).text()


class _Query:
    """One query over the rows of a plan: its keys, and what is added up."""

    def __init__(self, plan: Plan, measures: list[Measure], copy: Copy | None) -> None:
        self.plan, self.measures, self.copy = plan, measures, copy
        self.rows = rows_of(plan.relation, plan.shown, copy)
        self.scan = None if copy is None else _only_scan(plan.relation)  # of a copy
        self.pieces = _Pieces()
        self.columns: dict[str, str] = {}  # what of a row is used, and what it is called
        self.hidden: list[str] = []  # the keys of a row, where they are private
        self.raw: list[str] = []  # what is grouped by
        self.lists: dict[int, str] = {}  # and for which of it there are public values
        for i, key in enumerate(plan.keys):
            text, kind = self.scalar(key.expression), key.expression.domain.kind
            if plan.private_keys:
                self.hidden.append(self.named(text))
                self.rows.conditions.append(_usable(text, key.expression))
                if key.values is not None:
                    self.rows.conditions.append(f"{text} IN ({listed(key.values, kind)})")
            else:
                assert key.values is not None
                self.raw.append(self.named(text))
                self.lists[i] = _values(key.values, SQL_TYPE[kind])
        if plan.private_keys:
            self.raw.append("chosen.position")
        first = measures[0] if measures else None
        if isinstance(first, Spread):
            cell, least = self.on_grid(first.value, first.clamp), first.clamp.least
            self.raw.append(f"({cell} - {least})" if least else cell)
            if not first.value.domain.required:
                self.rows.conditions.append(f"({self.scalar(_unclamped(first.value))}) IS NOT NULL")
        elif isinstance(first, Kinds):
            self.lists[len(self.raw)] = _values(first.values, SQL_TYPE[first.value.domain.kind])
            self.raw.append(self.named(self.scalar(first.value)))
        self.keys = [f"v{i}.position" if i in self.lists else raw for i, raw in enumerate(self.raw)]
        self.joins = self.joined("{}", self.raw)

    def joined(self, pattern: str, raw: Sequence[str]) -> str:
        """The lists of public values, joined to what is grouped by."""
        return "".join(
            f" JOIN sfumato_v{i} AS v{i} ON {pattern.format(raw[i])} = v{i}.key" for i in self.lists
        )

    def chosen(self, keys: Iterable[str]) -> str:
        """The private groups that are shown, joined to keys; nothing where the keys are public."""
        on = [f"{key} = chosen.h{i}" for i, key in enumerate(keys)]
        return f" JOIN sfumato_chosen AS chosen ON {' AND '.join(on)}" if on else ""

    def named(self, text: str) -> str:
        """What an expression of a row is called: a short text is parsed faster than three long ones."""
        return self.columns.setdefault(text, f"x{len(self.columns)}")

    def text(self) -> str:
        """The whole query, over rows that hold what is used of them.

        These are not materialized: each use of them reads the table, and only the columns that it needs.
        """
        body = self.by_person() if self.plan.relation.by_person else self.by_row()
        return body if self.is_known and not self.is_split else self.whole(body)

    def whole(self, body: str) -> str:
        """A query with the rows and the public values that it names."""
        unit = [f"{self.rows.unit} AS u"] if self.rows.unit else []
        columns = [*unit, *(f"{text} AS {name}" for text, name in self.columns.items())] or ["1 AS one"]
        where = f" WHERE {' AND '.join(self.rows.conditions)}" if self.rows.conditions else ""
        rows = f"SELECT {', '.join(columns)} FROM {self.rows.source}{where}"
        tables = [f"sfumato_rows AS NOT MATERIALIZED ({rows})"]
        tables += [f"sfumato_v{i} AS ({values})" for i, values in self.lists.items()]
        more = body.removeprefix("WITH ")
        return f"WITH {', '.join(tables)}{', ' if more != body else ' '}{more}"

    def scalar(self, expression: Scalar) -> str:
        return scalar_text(expression, self.rows.column)

    def there(self, value: Scalar) -> str:
        """Something that is NULL where the value is: a clamped column is where the column is."""
        return self.named(self.scalar(_unclamped(value)))

    def on_grid(self, value: Scalar, clamp: Clamp) -> str:
        """A value as an integer; what is clamped to the same bounds need not be clamped twice."""
        if found := self.stored(value, clamp):
            on, steps = found
            return f"({self.beside(on.value)} // {steps})" if steps > 1 else self.beside(on.value)
        same = (value.domain.low, value.domain.high) == (clamp.low, clamp.high)
        text = self.scalar(_unclamped(value) if same else value)
        grid = on_grid(text, value.domain.kind, clamp)
        return self.named(f"COALESCE({grid}, {clamp.least})" if value.domain.required else grid)

    def stored(self, value: Scalar, clamp: Clamp) -> tuple[Grid, int] | None:
        """Where the copy has a value on its grid, and how many of its steps are one of the clamp's."""
        if self.copy is None or self.scan is None:
            return None
        if (value.domain.low, value.domain.high) != (clamp.low, clamp.high):
            return None
        return self.copy.grid(self.scan.table, _unclamped(value), clamp)

    def beside(self, name: str) -> str:
        """A column of our own in a copy."""
        assert self.scan is not None
        return self.named(f"t{self.scan.number}.{name}")

    def from_rows(self, joins: str = "", where: str = "") -> str:
        return f" FROM sfumato_rows AS t{joins}" + (f" WHERE {where}" if where else "")

    def shown(self, names: list[str]) -> list[str]:
        """The keys as they come back: one position among the groups."""
        if self.hidden:
            return names
        groups = names[: len(self.plan.keys)]
        position = "0"
        for i, (name, key) in enumerate(zip(groups, self.plan.keys, strict=True)):
            assert key.values is not None
            position = f"({position}) * {len(key.values)} + {name}" if i else name
        return [position, *names[len(groups) :]]

    def by_row(self) -> str:
        """Each row is its own unit: one aggregate, grouped by key. Groups are fewer to look up than rows."""
        cells = [each for measure in self.measures for each in self.cells(measure)]
        names = [f"k{i}" for i in range(len(self.raw))]
        keys = [f"{raw} AS {name}" for raw, name in zip(self.raw, names, strict=True)]
        rows = self.from_rows(self.chosen(self.hidden))
        inner = f"SELECT {', '.join([*keys, *self.pieces.printed()])}{rows}{_by(len(keys))}"
        places = [f"v{i}.position" if i in self.lists else f"g.{name}" for i, name in enumerate(names)]
        shown = ", ".join([*self.shown(places), *cells])
        return f"SELECT {shown} FROM ({inner}) AS g{self.joined('g.{}', names)}"

    def by_person(self) -> str:
        """Everybody's rows by group, with heavy people scaled; in the form that is fastest for it."""
        return self.split() if self.is_split else self.persons()

    @property
    def is_split(self) -> bool:
        """Whether only heavy people are looked at one by one."""
        by_row = all(isinstance(m, (Moments, Sum, Spread, Kinds)) for m in self.measures)
        counts = all(isinstance(m, Moments) and not m.degree for m in self.measures)
        several = self.raw or not counts or self.scan is not None
        return bool(by_row and several and is_plain(self.plan.relation))

    @property
    def is_known(self) -> bool:
        """Whether people were looked at for what is measured when private groups were chosen."""
        flat = all(isinstance(measure, (Moments, Sum, People)) for measure in self.measures)
        return bool(self.hidden and flat and self.plan.relation.by_person)

    def choosing(self) -> tuple[tuple[str, ...], str]:
        """Which private groups there are, each with a number; and how many units count for each."""
        if not self.plan.relation.by_person:
            rows = _Keyed(self.from_rows(), self.hidden)
            every = self.whole(rows.every("COUNT(*) AS s"))
            return (_made("every", every),), "SELECT code, s FROM sfumato_every ORDER BY code"
        if self.is_split:
            rows, heavy = (
                _Keyed(self.from_rows(), self.hidden),
                [f"{self.few()} AS h"] if self.measures else [],
            )
            made = [_made("every", self.whole(rows.every())), _made("who", self.whole(rows.who(*heavy)))]
        else:  # what is looked at one by one is looked at once
            rows = _Keyed(" FROM sfumato_person AS t", [f"t.h{i}" for i in range(len(self.hidden))])
            made = [_made("person", self.whole(self.person()))]
            made += [_made("every", rows.every()), _made("who", rows.who())]
        counted = "SELECT code, COUNT(*) AS s FROM sfumato_who GROUP BY code"
        return tuple(made), (
            f"SELECT code, COALESCE(s, 0) AS s FROM sfumato_every LEFT JOIN ({counted}) AS counted"
            " USING (code) ORDER BY code"
        )

    def added(self, cells: int) -> str:
        """All of sfumato_r added up by group, the groups that are public in their places."""
        names = [f"k{i}" for i in range(len(self.raw))]
        places = [f"v{i}.position" if i in self.lists else f"r.{name}" for i, name in enumerate(names)]
        grouped = [f"{place} AS p{i}" for i, place in enumerate(places)]
        sums = [f"COALESCE(SUM(c{j}), 0)" for j in range(cells)]
        shown = self.shown([f"p{i}" for i in range(len(names))])
        return (
            f"sfumato_q AS (SELECT {', '.join([*grouped, *(f'c{j}' for j in range(cells))])}"
            f" FROM sfumato_r AS r{self.joined('r.{}', names)})"
            f" SELECT {', '.join([*shown, *sums])} FROM sfumato_q AS q"
            + (f" GROUP BY {', '.join(f'p{i}' for i in range(len(names)))}" if names else "")
        )

    def split(self) -> str:
        """Add up all rows by group; then for the few heavy people, what scaling them changes.

        A person with at most as many rows as weigh in full in every measure cannot be beyond any cap, so
        only those who have more are looked at one by one. The integers are those of `persons`. Where caps are
        high, people are first looked at in buckets: whoever is beyond a cap is in one that is beyond it.
        """
        measures = self.measures
        names = [f"k{i}" for i in range(len(self.raw))]
        cells = [self.cells(measure) for measure in measures]
        columns, bounds, parts = [], [], []  # of a person in a group: cells and norms, a sum's bounded
        for i, (measure, each) in enumerate(zip(measures, cells, strict=True)):
            columns += [f"{cell} AS n{i}c{c}" for c, cell in enumerate(each)]
            if isinstance(measure, Sum):
                (total,) = self.bounded(measure, [f"h.n{i}c0"])
                bounds += [f"{total} AS n{i}b0", f"ABS({total}) AS n{i}"]
                parts.append([f"n{i}b0"])
            else:
                columns.append(f"{self.norm(measure)} AS n{i}")
                parts.append([f"n{i}c{c}" for c in range(len(each))])
        keys = [f"{raw} AS {name}" for raw, name in zip(self.raw, names, strict=True)]
        every_row = self.from_rows(self.chosen(self.hidden))
        everybody = f"SELECT {', '.join([*keys, *self.pieces.printed()])}{every_row}{_by(len(keys))}"
        own = self.own("k")
        stored = "" if self.is_known else self.heavy_beside(measures)
        several = (self.plan.relation.rows or 0) >= SEVERAL and not self.is_known
        who = f"HASH(u) & CAST({BUCKETS - 1} AS UBIGINT)" if several else "u"
        maybe = stored or f"{who} IN (SELECT u FROM sfumato_heavy)"
        one_by_one = (
            f"SELECT {', '.join(['u', *(f'{raw} AS {name}' for name, raw in own.items())])}"
            f"{''.join(f', {piece}' for piece in self.pieces.printed())}"
            f"{self.from_rows(where=maybe)}{_by(1 + len(own))}"
        )
        person = f"SELECT {', '.join(['g.u', *(f'g.{n}' for n in own), *columns])} FROM ({one_by_one}) AS g"
        person += self.joined("g.{}", names)
        if bounds:
            person = f"SELECT h.*, {', '.join(bounds)} FROM ({person}) AS h"
        limits = [_limit(measure) for measure in measures]
        letter = "m" if names else "n"  # without groups a person has one row, which is the norm itself
        changes = [
            f"{_scaled(part, f'{letter}{i}', limits[i])} - n{i}c{c}"
            for i, each in enumerate(parts)
            for c, part in enumerate(each)
        ]
        bounded = f"sfumato_person AS {'MATERIALIZED ' if names else ''}({person})"
        if names:
            beyond = " OR ".join(f"SUM(n{i}) > {limit}" for i, limit in enumerate(limits))
            sums = ", ".join(f"SUM(n{i}) AS m{i}" for i in range(len(limits)))
            bounded += f", sfumato_norm AS (SELECT u, {sums} FROM sfumato_person GROUP BY u HAVING {beyond})"
        totals = [f"CAST({cell} AS HUGEINT) AS c{j}" for j, cell in enumerate(itertools.chain(*cells))]
        heavy = f"SELECT {who} AS u{self.from_rows()} GROUP BY 1 HAVING {self.few()}"
        if self.is_known:
            heavy = "SELECT u FROM sfumato_who WHERE h"
        found = "" if stored else f"sfumato_heavy AS MATERIALIZED ({heavy}), "
        joined = " JOIN sfumato_norm USING (u)" if names else ""
        joined += self.chosen(f"sfumato_person.h{i}" for i in range(len(self.hidden)))
        shown = ["chosen.position", *names[1:]] if self.hidden else names
        return (
            f"WITH {found}{bounded},"
            f" sfumato_r AS (SELECT {', '.join([*names, *totals])} FROM ({everybody}) AS g UNION ALL"
            f" SELECT {', '.join([*shown, *changes])} FROM sfumato_person{joined}),"
            f" {self.added(len(totals))}"
        )

    def own(self, letter: str) -> dict[str, str]:
        """What a person's rows are grouped by, by name: also groups that are not shown are weighed."""
        raw = self.keys if letter == "p" else self.raw
        hidden = {f"h{i}": key for i, key in enumerate(self.hidden)}
        return hidden | {f"{letter}{i}": each for i, each in enumerate(raw) if i or not hidden}

    def weights(self) -> list[tuple[str, str, int, list[str]]]:
        """Of every measure: a name, what a person weighs in a group, the limit of that, and the cells."""
        cells = [self.bounded(measure, self.cells(measure)) for measure in self.measures]
        return [
            (f"n{i}", self.norm(measure), _limit(measure), each)
            for i, (measure, each) in enumerate(zip(self.measures, cells, strict=True))
        ]

    def person(self) -> str:
        """Each person's rows by group, added up."""
        weights, own = self.weights(), self.own("p")
        rows = (
            f"SELECT {', '.join(['u', *(f'{raw} AS {name}' for name, raw in own.items())])}"
            f"{''.join(f', {piece}' for piece in self.pieces.printed())}"
            f"{self.from_rows(self.joins)}{_by(1 + len(own))}"
        )
        columns = [f"{norm} AS {name}" for name, norm, _, _ in weights]
        for name, _, _, cells in weights:
            columns += [f"{cell} AS {name}c{c}" for c, cell in enumerate(cells)]
        return f"SELECT {', '.join(['g.u', *own, *columns])} FROM ({rows}) AS g"

    def persons(self) -> str:
        """Add up each person's rows by group, find the heavy people, scale them, then add up everybody."""
        weights, person = self.weights(), self.person()
        letter = "m" if self.keys else ""  # without groups a person has one row, which is the norm itself
        sums = [
            f"COALESCE(SUM({_scaled(f'{name}c{c}', letter + name, limit)}), 0)"
            for name, _, limit, cells in weights
            for c in range(len(cells))
        ]
        if not self.keys:
            return f"SELECT 0, {', '.join(sums)} FROM ({person}) AS person"
        norms = [f"SUM({name}) AS m{name}" for name, *_ in weights]
        heavy = " OR ".join(f"SUM({name}) > {limit}" for name, _, limit, _ in weights)
        places = [f"person.p{i}" for i in range(len(self.keys))]
        if self.hidden:
            places[0] = "chosen.position"
        made = "" if self.is_known else f"sfumato_person AS MATERIALIZED ({person}), "
        return (
            f"WITH {made}"
            f"sfumato_heavy AS (SELECT u, {', '.join(norms)} FROM sfumato_person GROUP BY u HAVING {heavy})"
            f" SELECT {', '.join([*self.shown(places), *sums])} FROM sfumato_person AS person"
            f"{self.chosen(f'person.h{i}' for i in range(len(self.hidden)))}"
            f" LEFT JOIN sfumato_heavy AS heavy ON person.u = heavy.u"
            f" GROUP BY {', '.join(places)}"
        )

    # Measures -----------------------------------------------------------------------------------------

    def cells(self, measure: Measure) -> list[str]:
        """What the rows of one person (or all rows) come to in one group, before any bounding."""
        match measure:
            case Moments():
                return self._moments(measure)
            case Sum(value, clamp):
                total = self.pieces.name(f"SUM({self.on_grid(value, clamp)})")
                total = f"COALESCE({total}, {integer(0, 'HUGEINT')})"
                if not measure.centre:
                    return [total]
                return [f"({total} - {integer(measure.centre, 'HUGEINT')} * {self._count((value,))})"]
            case People(value):
                return [f"{self._seen(value)} * {measure.whole}"]
            case Spread() | Kinds():
                return [f"{self.pieces.name('COUNT(*)')} * {measure.whole}"]
        raise AssertionError("it has a query of its own")

    def maybe_heavy(self, measure: Measure) -> str:
        """What holds of every person who is beyond the cap, over all rows: only they are looked at again.

        For a sum the size of the rows' own contributions is added up, which is at least the norm. In doubles
        that is faster: what is not clamped is no nearer to the centre, flooring moves a row by less than one
        step, and a millionth is more than all rounding. NaN is above everything, so whoever has it is looked
        at again. Who else is by rounding alone makes no difference.
        """
        if not isinstance(measure, Sum):
            return f"COUNT(*) > {_limit(measure)}"
        if measure.limit is None:
            return f"COUNT(*) > {measure.cap // max(1, *map(abs, measure.row))}"
        value, clamp = measure.value, measure.clamp
        if value.domain.kind == "number" and clamp.least <= measure.centre <= clamp.most:
            x = self.there(value)
            x = f"COALESCE({x}, {double(float(clamp.low))})" if value.domain.required else x
            step = float(clamp.step)
            beyond = f"{double(measure.cap * step * (1 - 1e-6))} - COUNT(*) * {double(step)}"
            return f"SUM(ABS({x} - {double(measure.centre * step)})) > {beyond}"
        x = self.on_grid(value, clamp)
        return f"SUM(ABS(CAST({x} AS BIGINT) - {measure.centre})) > {measure.cap}"

    def few(self) -> str:
        """The same of any measure."""
        return " OR ".join(dict.fromkeys(self.maybe_heavy(measure) for measure in self.measures))

    def heavy_beside(self, measures: Sequence[Measure]) -> str:
        """The same of a row, by what the copy says about its person; nothing if it does not say it."""
        if self.scan is None:
            return ""
        beyond: list[str] = []
        for measure in measures:
            name: str | None = ROWS
            if isinstance(measure, Sum):
                found = self.stored(measure.value, measure.clamp)
                name = found[0].norm(measure.centre) if found is not None and found[1] == 1 else None
            if name is None:
                return ""
            beyond.append(f"{self.beside(name)} > {_limit(measure)}")
        return " OR ".join(dict.fromkeys(beyond))

    def bounded(self, measure: Measure, cells: list[str]) -> list[str]:
        """The cells of one person; a sum stays within the 63 bits that the scaling can multiply.

        What is cut off here is beyond every cap, and still is when it is cut: so it is scaled.
        """
        if not isinstance(measure, Sum):
            return cells
        low, high = integer(-2 * CAP, "HUGEINT"), integer(2 * CAP, "HUGEINT")
        return [
            f"CASE WHEN {cell} < {low} THEN {low} WHEN {cell} > {high} THEN {high} ELSE {cell} END"
            for cell in cells
        ]

    def norm(self, measure: Measure) -> str:
        """What a group adds to the norm of a person: rows, groups, or the total itself."""
        match measure:
            case Moments(values, _, _, nulls):
                return self._count(() if nulls else values)
            case People(value):
                return self._seen(value)
            case Spread() | Kinds():
                return self.pieces.name("COUNT(*)")
        return f"ABS({self.bounded(measure, self.cells(measure))[0]})"

    def _seen(self, value: Scalar | None) -> str:
        if value is None:
            return "1"
        return f"CASE WHEN {self._count((value,))} > 0 THEN 1 ELSE 0 END"

    def _count(self, values: tuple[Scalar, ...]) -> str:
        values = tuple(value for value in values if not value.domain.required)
        if not values:
            return self.pieces.name("COUNT(*)")
        if len(values) == 1:
            return self.pieces.name(f"COUNT({self.there(values[0])})")
        there = " AND ".join(f"({self.there(value)}) IS NOT NULL" for value in values)
        return self.pieces.name(f"COUNT(CASE WHEN {there} THEN 1 END)")

    def _moments(self, measure: Moments) -> list[str]:
        """The Bernstein cells as whole combinations of power sums."""
        count = self._count(measure.values)
        absent = f"CAST({self._count(())} - {count} AS HUGEINT)"
        missing = [f"{absent} * {integer(measure.whole, 'HUGEINT')}"] if measure.nulls else []
        if not measure.degree:
            return [f"{count} * {measure.whole}", *missing]
        steps = []
        for i, (value, clamp) in enumerate(zip(measure.values, measure.clamps, strict=True)):
            x = self.on_grid(value, clamp)
            x = f"({x} - {clamp.least})" if clamp.least else x
            others = [v for j, v in enumerate(measure.values) if j != i and not v.domain.required]
            for other in others:
                x = f"(CASE WHEN ({self.there(other)}) IS NOT NULL THEN {x} END)"
            steps.append(x)
        powers: dict[tuple[int, ...], str] = {}
        for exponents in itertools.product(range(measure.degree + 1), repeat=len(steps)):
            if not any(exponents):
                powers[exponents] = f"CAST({count} AS HUGEINT)"
                continue
            factors = [
                f"CAST({x} AS BIGINT)" if sum(exponents) > 1 else x
                for x, e in zip(steps, exponents, strict=True)
                for _ in range(e)
            ]
            total = self.pieces.name(f"SUM({' * '.join(factors)})")
            powers[exponents] = f"COALESCE({total}, {integer(0, 'HUGEINT')})"
        size, cells = measure.degree + 1, []
        for cell in range(size ** len(steps)):
            places = [cell // size**v % size for v in range(len(steps))]
            terms = _bernstein(places, measure)
            cells.append(" + ".join(f"{integer(c, 'HUGEINT')} * {powers[e]}" for e, c in terms.items() if c))
        return [f"({cell})" for cell in cells] + missing


@dataclass(frozen=True, slots=True)
class _Keyed:
    """Rows, and the private keys in them."""

    rows: str
    keys: Sequence[str]

    @property
    def names(self) -> list[str]:
        return [f"h{i}" for i in range(len(self.keys))]

    def every(self, *counts: str) -> str:
        """Every group, numbered in the order of keys: the same numbers for the same data in any engine."""
        named = [f"{key} AS {name}" for key, name in zip(self.keys, self.names, strict=True)]
        found = f"SELECT {', '.join([*named, *counts])}{self.rows}{_by(len(named))}"
        code = f"CAST(ROW_NUMBER() OVER (ORDER BY {', '.join(self.names)}) AS UBIGINT) AS code"
        return f"SELECT *, {code} FROM ({found}) AS g"

    def who(self, *more: str) -> str:
        """Everybody, and the group that each counts for.

        It is the group with the smallest hash of person and group; where the first half of two hashes is the
        same, the group that sorts first. Other people's groups only change by which number a group is called
        in between, not which of two comes first.
        """
        on = " AND ".join(f"{key} = every.{name}" for key, name in zip(self.keys, self.names, strict=True))
        high, low = ((1 << 32) - 1) << 32, (1 << 32) - 1
        masked = f"(HASH({', '.join(['u', *self.keys])}) & CAST({high} AS UBIGINT))"
        chosen = f"MIN({masked} | every.code) & CAST({low} AS UBIGINT) AS code"
        joined = f"{self.rows} JOIN sfumato_every AS every ON {on}"
        return f"SELECT {', '.join(['u', chosen, *more])}{joined} GROUP BY u"


def _made(name: str, query: str) -> str:
    """What is found once and read again, for as long as the connection lives."""
    return f"CREATE TEMP TABLE sfumato_{name} AS {query}"


def _only_scan(relation: Relation) -> Scan | None:
    """The one table of people that a relation narrows, if that is all it does."""
    while isinstance(relation, Where):
        relation = relation.relation
    return relation if isinstance(relation, Scan) and relation.by_person else None


def _by(count: int) -> str:
    """GROUP BY the first columns."""
    return f" GROUP BY {', '.join(str(i + 1) for i in range(count))}" if count else ""


def _unclamped(value: Scalar) -> Scalar:
    return value.arguments[0] if isinstance(value, Call) and value.function == "clamp" else value


def _bernstein(places: list[int], measure: Moments) -> dict[tuple[int, ...], int]:
    """A product of Bernstein polynomials, times what a row comes to, by powers of the steps.

    C(d, k) X^k (w - X)^(d - k) = sum over m of C(d, k) C(d - k, m) (-1)^m w^(d - k - m) X^(k + m).
    """
    found: dict[tuple[int, ...], int] = {(): 1}
    d = measure.degree
    for k, clamp in zip(places, measure.clamps, strict=True):
        ones = {
            k + m: math.comb(d, k) * math.comb(d - k, m) * (-1) ** m * clamp.width ** (d - k - m)
            for m in range(d - k + 1)
        }
        found = {(*e, p): c * one for e, c in found.items() for p, one in ones.items()}
    return {powers: measure.parts * factor for powers, factor in found.items()}


def _limit(measure: Measure) -> int:
    """The norm up to which a person counts in full."""
    match measure:
        case Sum():
            return measure.cap
        case People(_, groups):
            return groups
        case Moments() | Spread() | Kinds():
            assert measure.rows is not None
            return measure.rows
    raise AssertionError("it has a query of its own")


def _scaled(value: str, norm: str, limit: int) -> str:
    """The value, scaled so that all groups together keep to the cap; a norm of NULL is a light person's.

    `//` truncates towards zero, so |scaled| <= |value| * limit / norm, and the sum over groups and cells is
    at most the cap. The divisor is above the limit, hence at least 2; the product is taken in 128 bits.
    """
    return f"CASE WHEN {norm} > {limit} THEN {value} * {integer(limit, 'HUGEINT')} // {norm} ELSE {value} END"


def _distinct(query: _Query, measure: Distinct) -> str:
    """How many different values there are in each group, of few pairs a person."""
    text = query.scalar(measure.value)
    value = query.named(text)
    query.rows.conditions.append(f"({text}) IS NOT NULL")
    names = [f"p{i}" for i in range(len(query.keys))]
    group = f" GROUP BY {', '.join(names)}" if names else ""
    if not query.plan.relation.by_person:
        keys = [f"{key} AS {name}" for key, name in zip(query.keys, names, strict=True)]
        rows = query.from_rows(query.joins + query.chosen(query.hidden))
        inner = f"SELECT {', '.join([*keys, f'{value} AS x'])}{rows}"
        found = f"SELECT {', '.join([*query.shown(names), 'COUNT(DISTINCT x)'])} FROM ({inner}) AS q{group}"
        return query.whole(found)
    own = query.own("p")
    pairs = f"SELECT {', '.join(['u', *(f'{raw} AS {name}' for name, raw in own.items()), f'{value} AS x'])}"
    pairs += f"{query.from_rows(query.joins)}{_by(2 + len(own))}"
    # pairs are different, so hash, group and value order them totally
    order = ", ".join([f"HASH({', '.join(['u', *own, 'x'])})", *own, "x"])
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS n FROM ({pairs}) AS q"
    places = ["chosen.position"] if query.hidden else names
    joined = query.chosen(f"p.h{i}" for i in range(len(query.hidden)))
    return query.whole(
        f"SELECT {', '.join([*query.shown(places), 'COUNT(DISTINCT x)'])}"
        f" FROM ({ranked}) AS p{joined} WHERE n <= {measure.pairs}"
        + (f" GROUP BY {', '.join(places)}" if places else "")
    )


def _octaves(query: _Query, measure: Octaves) -> str:
    """How many persons have how much, each shared between the two nodes around it.

    For an amount a with 2^k <= a < 2^(k+1) the upper node gets trunc(1024 (a - 2^k) / 2^k), the lower one
    what is left of 1024. A logarithm of doubles only guesses k; whole numbers then settle it.
    """
    amount = "COUNT(*)"
    if measure.value is not None and measure.clamp is not None:
        x = query.on_grid(measure.value, measure.clamp)
        amount = f"COALESCE(SUM(ABS(CAST({x} AS BIGINT) - {measure.centre})), {integer(0, 'HUGEINT')})"
    top = 1 << (measure.nodes - 2)
    person = f"SELECT CAST({amount} AS HUGEINT) AS a{query.from_rows()} GROUP BY u"
    most = integer(top, "HUGEINT")
    cut = f"SELECT CASE WHEN a > {most} THEN {most} ELSE a END AS a FROM ({person}) AS p"
    guess = "CAST(FLOOR(LOG2(CAST(a AS DOUBLE))) AS INTEGER)"
    guessed = f"SELECT a, CASE WHEN a > 0 THEN {guess} ELSE -1 END AS k FROM ({cut}) AS q"
    power = "CAST(POW(2, {}) AS HUGEINT)"  # exact: a double holds every power of two
    settled = (
        f"SELECT a, CASE WHEN k < 0 THEN -1 WHEN {power.format('k')} > a THEN k - 1"
        f" WHEN {power.format('k + 1')} <= a THEN k + 1 ELSE k END AS k FROM ({guessed}) AS q"
    )
    part = f"(a - {power.format('k')}) * {PARTS} // {power.format('k')}"
    shared = f"SELECT k, CASE WHEN k < 0 THEN CAST(0 AS HUGEINT) ELSE {part} END AS t FROM ({settled}) AS q"
    lower = f"SELECT k + 1 AS cell, {PARTS} - t AS w FROM sfumato_shared"
    upper = "SELECT k + 2 AS cell, t AS w FROM sfumato_shared WHERE t > 0"
    both = f"({lower} UNION ALL {upper}) AS n"
    return query.whole(f"WITH sfumato_shared AS ({shared}) SELECT 0, cell, SUM(w) FROM {both} GROUP BY cell")


class _Pieces:
    """The distinct engine aggregates of a query: each computed once, whoever needs it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, aggregate: str) -> str:
        return "g." + self._names.setdefault(aggregate, f"a{len(self._names)}")

    def printed(self) -> list[str]:
        return [f"{aggregate} AS {name}" for aggregate, name in self._names.items()]


def _usable(text: str, key: Scalar) -> str:
    """A private key has a value, and one that can be stored and shown under a name of its own."""
    there = f"({text}) IS NOT NULL"
    if key.domain.kind == "text":
        return f"{there} AND LENGTH({text}) <= {LONGEST}"
    return f"{there} AND ISFINITE({text})" if key.domain.kind in ("date", "timestamp") else there


def _values(values: tuple[Value, ...], engine_type: str) -> str:
    """The public keys as a table of (position, key): one typed list is planned faster than typed rows."""
    keys = f"CAST([{', '.join(typed(value) for value in values)}] AS {engine_type}[])"
    return f"SELECT UNNEST(range({len(values)})) AS position, UNNEST({keys}) AS key"
