"""Relations of a plan as rows of a `Work`: where it is enforced that each row belongs to one unit.

`queries.relations` proves that, and here it is done. Rows without a unit are dropped, a join of two tables of
people is always on the unit as well, and nothing depends on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.cells import SUM_BITS
from sfumato.queries.expressions import Call, fields, parts_of
from sfumato.queries.narrowing import numbers_of
from sfumato.queries.relations import (
    Among,
    Cut,
    Fold,
    Join,
    Placed,
    Relation,
    Scan,
    Union,
    Where,
    cuts,
    is_chain,
    number_of,
    prefix,
    scalars_of,
)
from sfumato.sources import work
from sfumato.sources.copy import UNIT
from sfumato.sources.values import bare, double, integer, lowered, steps, when, within
from sfumato.sources.work import (
    TYPES,
    ColumnValue,
    Expression,
    Select,
    Totals,
    Type,
    apply,
    both,
    cast,
    equal,
    filtered,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Field, Scalar
    from sfumato.queries.relations import Folded, Owner
    from sfumato.sources.copy import Copy


SPARE = 64  # rows beyond twice a cut among which its rows are looked for: in vain less than once in 10^9
LARGEST_HASH = (1 << 64) - 1


@dataclass(slots=True)
class Lowered:
    """A relation as rows, how to name its columns, and whose its rows are."""

    rows: work.Rows
    unit: Expression | None
    columns: dict[int, Callable[[Field], Expression]]
    units: dict[int, Expression]  # of each table in it, unless a LEFT JOIN may have found no row of that

    def column(self, field: Field) -> Expression:
        """A column of one of its tables."""
        return self.columns[prefix(field)](field)

    def value(self, scalar: Scalar) -> Expression:
        """An expression over its columns."""
        return lowered(scalar, self.column)


@dataclass(slots=True)
class Lowering:
    """Lowers relations: from a prepared copy if there is one, with a hash of which the name is given."""

    copy: Copy | None
    hash: str
    shared: list[work.Shared] = field(default_factory=list)  # what the rows use several times

    def of(self, relation: Relation, needed: set[Field], kept: dict[int, Cut] | None = None) -> Lowered:
        """The rows of a relation of which some columns are needed.

        `kept` is what sides keep of one person, if the relation is part of a chain of joins.
        """
        match relation:
            case Scan():
                return self._scan(relation)
            case Where(inner, condition):
                found = self.of(inner, needed | _used(condition), kept)
                found.rows = filtered(
                    found.rows, *_same_person(condition, found.units), found.value(condition)
                )
                return found
            case Join():
                return self._join(relation, needed, kept)
            case Among():
                return self._among(relation, needed, kept)
            case Union(number, parts, kinds):
                return self._union(number, parts, kinds, relation.by_person)
            case Placed():
                return self._placed(relation, needed)
            case Fold(number, inner, by, folds):
                below = self.of(inner, _used(*by, *(fold.value for fold in folds)))
                assert below.unit is not None
                keys = [("u", below.unit), *((f"k{i}", below.value(each)) for i, each in enumerate(by))]
                totals: list[tuple[str, Totals]] = []
                shown: list[tuple[str, Expression]] = [
                    (n, ColumnValue(f"f{number}", n, e.type)) for n, e in keys
                ]
                for i, each in enumerate(folds):
                    shown.append((f"c{i}", _folded(each, below, totals, f"f{number}")))
                group = work.Group(f"f{number}", below.rows, tuple(keys), tuple(totals))
                select = Select(f"t{number}", group, tuple(shown))
                return _derived(number, select, by_person=True, unit=below.unit.type)

    def _scan(self, scan: Scan) -> Lowered:
        alias = f"t{scan.number}"
        rows: work.Rows = work.TableRows(alias, scan.table)
        unit: Expression | None = None
        if scan.owner is not None:
            column = _key(alias, scan.owner)
            if scan.owner.table and self.copy is not None:  # it was looked up when the copy was made
                unit = ColumnValue(alias, UNIT, TYPES[_last(scan.owner).kind])
            elif scan.owner.table:
                owners = _owners(scan.owner, f"o{scan.number}")
                unit = ColumnValue(owners.alias, "u", dict(owners.keys)["u"].type)
                rows = work.JoinedRows(
                    rows, owners, (equal(column, ColumnValue(owners.alias, "k", TYPES[scan.owner.kind])),)
                )
            else:
                unit = column
                rows = filtered(rows, there(unit))

        def named(of: Field) -> Expression:
            _, _, inner = of.name.partition(".")
            if of.unit in ("own", "maybe"):
                assert unit is not None
                return unit
            return ColumnValue(alias, inner, TYPES[of.domain.kind])

        return Lowered(rows, unit, {scan.number: named}, {} if unit is None else {scan.number: unit})

    def _union(
        self,
        number: int,
        parts: tuple[tuple[Relation, tuple[Scalar, ...]], ...],
        kinds: tuple[Kind, ...],
        by_person: bool,
    ) -> Lowered:
        selects, unit_type = [], None
        for i, (inner, columns) in enumerate(parts):
            below = self.of(inner, _used(*columns))
            shown = [] if below.unit is None else [("u", below.unit)]
            unit_type = None if below.unit is None else below.unit.type
            shown += [
                (f"c{j}", cast(below.value(column), _wide(kind)))
                for j, (column, kind) in enumerate(zip(columns, kinds, strict=True))
            ]
            selects.append(Select(f"t{number}p{i}", below.rows, tuple(shown) or _ONE))
        return _derived(
            number, work.UnitedRows(f"t{number}", tuple(selects)), by_person=by_person, unit=unit_type
        )

    def _placed(self, placed: Placed, needed: set[Field]) -> Lowered:
        """Rows with what is said of their places among those of the same person."""
        used = needed | _used(*placed.scalars)
        below = self.of(placed.relation, used)
        if placed.cut is not None:
            below = self._wrapped(f"o{placed.number}", placed.relation, below, used, placed.cut, None)
        assert below.unit is not None
        number, inside = placed.number, numbers_of(placed.relation)
        values = {f: below.column(f) for f in sorted(needed, key=lambda f: f.name) if prefix(f) in inside}
        called = {below.unit: "u"}
        for each in values.values():
            called.setdefault(each, f"c{len(called) - 1}")
        alias, window = f"t{number}", f"w{number}"
        places = tuple(
            (f"p{i}", work.Placing(p.said, None if p.value is None else below.value(p.value), p.later))
            for i, p in enumerate(placed.places)
        )
        totals: list[tuple[str, Totals]] = []
        made = [_folded(each, below, totals, window) for each in placed.totals]
        read = [p.value for _, p in places if p.value is not None]
        rows = work.Windows(
            window,
            below.rows,
            tuple((name, each) for each, name in called.items()),
            (below.unit, *map(below.value, placed.within)),
            tuple(
                work.SortedBy(below.value(each.value), each.descending, each.nulls_first)
                for each in placed.order
            ),
            tuple(dict.fromkeys([*list(called)[1:], *read])),
            places,
            tuple(totals),
        )
        shown: list[tuple[str, Expression]] = [
            (name, ColumnValue(window, name, each.type)) for each, name in called.items()
        ]
        for (name, place), of in zip(places, placed.places, strict=True):
            type_: Type = "i64" if place.value is None or of.value is None else place.value.type
            shown.append((name, ColumnValue(window, name, type_)))
        shown += [(f"s{i}", each) for i, each in enumerate(made)]
        types = {name: each.type for name, each in shown}

        def column(field: Field) -> Expression:
            name = field.name.partition(".")[2]
            if prefix(field) == number:
                name = name if name.startswith("p") else f"s{name}"
            else:
                name = called[values[field]]
            return ColumnValue(alias, name, types[name])

        unit = ColumnValue(alias, "u", below.unit.type)
        columns: dict[int, Callable[[Field], Expression]] = dict.fromkeys(inside | {number}, column)
        rows_ = Select(alias, rows, tuple(shown))
        return Lowered(rows_, unit, columns, dict.fromkeys(below.units, unit))

    # Joins --------------------------------------------------------------------------------------------

    def _join(self, join: Join, needed: set[Field], kept: dict[int, Cut] | None) -> Lowered:
        needed = needed | _used(join.on)
        if join.of_people and kept is None:
            kept = cuts(join)
        left, right = self.of(join.left, needed, kept), self.of(join.right, needed, kept)
        if join.single:
            return _single(join, left, right, needed | _used(*scalars_of(join.right)))
        if (cut := _cut_of(join, join.left, kept)) is not None:
            left = self._wrapped(f"l{join.number}", join.left, left, needed, cut, join.on)
        if (cut := _cut_of(join, join.right, kept)) is not None or not is_plain(join.right):
            right = self._wrapped(f"j{join.number}", join.right, right, needed, cut, join.on)
        columns = {**left.columns, **right.columns}
        units = left.units if join.outer else left.units | right.units
        found = Lowered(left.rows, left.unit or right.unit, columns, units)
        on: list[Expression] = [_one_person(left.unit, right.unit)] if left.unit and right.unit else []
        if join.on is not None:
            on += [*_same_person(join.on, left.units | right.units), found.value(join.on)]
        found.rows = work.JoinedRows(left.rows, right.rows, tuple(dict.fromkeys(on)), join.outer)
        return found

    def _wrapped(
        self,
        alias: str,
        relation: Relation,
        below: Lowered,
        needed: set[Field],
        cut: Cut | None,
        on: Scalar | None,
    ) -> Lowered:
        """One side of a join by itself, of which only so many rows of a person are kept."""
        inside = numbers_of(relation)
        values = {f: below.column(f) for f in sorted(needed, key=lambda f: f.name) if prefix(f) in inside}
        unit = {} if below.unit is None else {below.unit: "u"}
        others = [each for each in dict.fromkeys(values.values()) if each not in unit]
        called = unit | {each: f"c{i}" for i, each in enumerate(others)}
        shown = tuple((name, each) for each, name in called.items())
        if cut is None:
            rows: work.Rows = Select(alias, below.rows, shown or _ONE)
        else:
            keys = tuple((f"e{i}", below.value(key)) for i, key in enumerate(_equal_to(on, inside)))
            rows = self._cut(alias, below.rows, shown, keys, cut, is_plain(relation))

        def column(field: Field) -> Expression:
            each = values[field]
            return ColumnValue(alias, called[each], each.type)

        unit_ = None if below.unit is None else ColumnValue(alias, "u", below.unit.type)
        units = {} if unit_ is None else dict.fromkeys(inside, unit_)
        return Lowered(rows, unit_, dict.fromkeys(inside, column), dict(units))

    def _cut(
        self,
        alias: str,
        rows: work.Rows,
        shown: tuple[tuple[str, Expression], ...],
        keys: tuple[tuple[str, Expression], ...],
        cut: Cut,
        plain: bool,
    ) -> work.Rows:
        """Of rows, at most so many of a person, or of those of a person that have the same partners.

        Which ones is decided by a hash of what is used of them, and of which of several same ones it is: by
        nobody else's rows, and evenly. What must be equal to something of another side is hashed first, so
        that rows that are partners are taken on both sides. Rows of which nothing is used are all the same:
        counted.

        Almost nobody has more, so the others pass as they are. Whoever has is not sorted, which would take
        long: of m same rows among `total`, about m/total of twice as many as are kept are looked at.
        """
        most, looked = cut.rows, 2 * cut.rows + SPARE
        if len(shown) == 1 and not keys:
            group = work.Group(f"{alias}g", rows, shown, (("n", Totals("count")),))
            u = ColumnValue(group.alias, "u", shown[0][1].type)
            times = apply("least", ColumnValue(group.alias, "n", "i64"), bare(most), type="i64")
            repeated = work.Repeat(f"{alias}s", group, (("u", u),), times, "n")
            return Select(alias, repeated, (("u", ColumnValue(repeated.alias, "u", u.type)),))

        def of(name: str, which: tuple[tuple[str, Expression], ...]) -> list[Expression]:
            return [ColumnValue(name, each, value.type) for each, value in which]

        every = work.Shared(f"{alias}r", Select(f"{alias}q", rows, (*shown, *keys)), once=not plain)
        person = (*shown[:1], *(keys if cut.alike else ()))
        counted = work.Group(
            f"{alias}p",
            work.Use("r", every.name),
            tuple((name, ColumnValue("r", name, value.type)) for name, value in person),
            (("total", Totals("count")),),
        )
        beyond = apply(">", ColumnValue(counted.alias, "total", "i64"), bare(most), type="bool")
        heavy = work.Shared(
            f"{alias}h",
            Select(
                f"{alias}w",
                filtered(counted, beyond),
                (
                    *((name, ColumnValue(counted.alias, name, e.type)) for name, e in person),
                    ("total", ColumnValue(counted.alias, "total", "i64")),
                ),
            ),
            once=True,
        )
        on = tuple(equal(a, b) for a, b in zip(of("r", person), of("h", person), strict=True))
        both_sides = work.Use("r", every.name), work.Use("h", heavy.name)
        total = ColumnValue("h", "total", "i64")
        light = filtered(work.JoinedRows(*both_sides, on, outer=True), apply("is null", total, type="bool"))
        few = work.JoinedRows(*both_sides, on)
        names = (*shown, *keys)
        same = work.Group(
            f"{alias}m",
            few,
            (*zip((name for name, _ in names), of("r", names), strict=True), ("total", total)),
            (("m", Totals("count")),),
        )
        hashed = [apply(self.hash, *of(same.alias, (*shown[:1], *keys)), type="u64")]
        first = hashed if keys and not cut.alike else []
        last = [*first, apply(self.hash, *of(same.alias, shown), type="u64")][0]
        m, all_of = ColumnValue(same.alias, "m", "i64"), ColumnValue(same.alias, "total", "i64")
        share = apply("*", m, bare(looked), type="i64")
        unit = apply("divide", integer(LARGEST_HASH, "u64"), cast(all_of, "u64"), type="u64")
        rest = apply("*", unit, cast(apply("modulo", share, all_of, type="i64"), "u64"), type="u64")
        more = when(apply("<", last, rest, type="bool"), bare(1), bare(0))
        some = apply("+", apply("divide", share, all_of, type="i64"), more, type="i64")
        times = when(apply(">", all_of, bare(looked), type="bool"), some, m)
        kept = tuple((name, ColumnValue(same.alias, name, e.type)) for name, e in names)
        repeated = work.Repeat(f"{alias}s", same, kept, times, "n")
        number = ColumnValue(repeated.alias, "n", "i64")
        first = [apply(self.hash, *of(repeated.alias, (*shown[:1], *keys)), type="u64")] if first else []
        order = (
            *first,
            apply(self.hash, *of(repeated.alias, shown), number, type="u64"),
            *of(repeated.alias, shown[1:]),
            number,
        )
        ranked = work.Rank(
            f"{alias}k",
            repeated,
            tuple(zip((name for name, _ in shown), of(repeated.alias, shown), strict=True)),
            tuple(of(repeated.alias, person)),
            order,
            "place",
        )
        first_ones = apply("<=", ColumnValue(ranked.alias, "place", "i64"), bare(most), type="bool")
        passing = Select(
            f"{alias}l", light, tuple(zip((name for name, _ in shown), of("r", shown), strict=True))
        )
        taken = Select(
            f"{alias}t",
            filtered(ranked, first_ones),
            tuple((n, ColumnValue(ranked.alias, n, e.type)) for n, e in shown),
        )
        self.shared += [every, heavy]
        return work.UnitedRows(alias, (passing, taken))

    def _among(self, among: Among, needed: set[Field], kept: dict[int, Cut] | None) -> Lowered:
        found = self.of(among.relation, needed | _used(among.value), kept)
        other = self.of(among.other, _used(among.other_value))
        subjects: tuple[Expression, ...]
        values: tuple[Expression, ...]
        if among.value is None or among.other_value is None:
            assert found.unit is not None
            assert other.unit is not None
            _one_person(found.unit, other.unit)
            subjects, values = (found.unit,), (other.unit,)
        else:
            subject, value = found.value(among.value), other.value(among.other_value)
            if among.value.domain.kind != among.other_value.domain.kind:
                subject, value = cast(subject, "f64"), cast(value, "f64")
            subjects, values = (subject,), (value,)
            if not among.other.public:  # rows of the same person alone
                assert found.unit is not None
                assert other.unit is not None
                _one_person(found.unit, other.unit)
                subjects, values = (found.unit, subject), (other.unit, value)
                if not among.keeps:
                    found.rows = filtered(found.rows, there(subject))
        if among.keeps or not (among.value is not None and among.other.public and among.negated):
            other.rows = filtered(other.rows, *map(there, values))  # x NOT IN (..., NULL) is never true
        found.rows = work.SemiJoin(found.rows, subjects, other.rows, values, among.negated, among.keeps)
        return found


_ONE = (("one", bare(1)),)


def _one_person(a: Expression, b: Expression) -> Expression:
    """That two rows are the same person's. People who are named by numbers here and by texts there are never
    compared: an engine would read the texts as numbers, '7' and '07' would be one, and others would fail."""
    if (a.type == "text") != (b.type == "text"):
        raise AssertionError("people are named by numbers and by texts")
    return equal(a, b)


def _same_person(condition: Scalar, units: dict[int, Expression]) -> Iterator[Expression]:
    """That tables of which columns are equal speak of the same person, wherever that follows from others.

    An engine joins tables in the order it likes, by the equalities it is told: never two of different people.
    """
    for part in parts_of(condition):
        if isinstance(part, Call) and part.function == "=":
            compared = {prefix(field) for field in fields(part)}
            named = list(dict.fromkeys(unit for number, unit in units.items() if number in compared))
            yield from (equal(named[0], each) for each in named[1:])


def _used(*scalars: Scalar | None) -> set[Field]:
    """The columns that expressions use."""
    return {field for each in scalars if each is not None for field in fields(each)}


def _derived(number: int, rows: Select | work.UnitedRows, *, by_person: bool, unit: Type | None) -> Lowered:
    """Rows of our own making, whose columns are called u, k0, k1, ... and c0, c1, ..."""
    alias = f"t{number}"

    def column(field: Field) -> Expression:
        _, _, inner = field.name.partition(".")
        name = inner if inner == "u" or inner.startswith("k") else f"c{inner}"
        return ColumnValue(alias, name, TYPES[field.domain.kind])

    whose = ColumnValue(alias, "u", unit) if by_person and unit is not None else None
    return Lowered(rows, whose, {number: column}, {} if whose is None else {number: whose})


def _key(alias: str, owner: Owner) -> ColumnValue:
    return ColumnValue(alias, owner.column, TYPES[owner.kind])


def _last(owner: Owner) -> Owner:
    """The one that names persons, at the end of a chain of references."""
    return owner if owner.owner is None else _last(owner.owner)


def _owners(owner: Owner, alias: str) -> work.Group:
    """Whom each value of a referred column belongs to: every unit once."""
    inner = owner.owner
    assert inner is not None
    table = f"{alias}f"
    key: Expression = ColumnValue(table, owner.key, TYPES[owner.kind])
    unit: Expression = _key(table, inner)
    rows: work.Rows = work.TableRows(table, owner.table)
    if inner.table:
        others = _owners(inner, f"{alias}g")
        rows = work.JoinedRows(
            rows, others, (equal(unit, ColumnValue(others.alias, "k", TYPES[inner.kind])),)
        )
        unit = ColumnValue(others.alias, "u", dict(others.keys)["u"].type)
    known = both(there(key), there(unit))
    return work.Group(alias, filtered(rows, known), (("k", key), ("u", unit)))


def _cut_of(join: Join, side: Relation, kept: dict[int, Cut] | None) -> Cut | None:
    """What a side keeps of one person; a side that is a chain itself is cut where its own sides are."""
    if kept is None or not join.of_people or is_chain(side):
        return None
    return kept.get(number_of(side))


def is_plain(relation: Relation) -> bool:
    """Whether it is one table, which can stand in a join as it is."""
    match relation:
        case Scan(_, _, owner):
            return owner is None or not owner.table
        case Where(inner):
            return is_plain(inner)
        case Union() | Fold():
            return True
    return False


def _equal_to(on: Scalar | None, inside: set[int]) -> Iterator[Scalar]:
    """What of one side must be equal to something of the other."""
    for part in () if on is None else parts_of(on):
        if isinstance(part, Call) and part.function == "=":
            sides = [{prefix(f) for f in fields(each)} for each in part.arguments]
            for i in (0, 1):
                if sides[i] and sides[i] <= inside and sides[1 - i].isdisjoint(inside):
                    yield part.arguments[i]


def _single(join: Join, left: Lowered, right: Lowered, needed: set[Field]) -> Lowered:
    """At most one partner for a row: the smallest, where the public table has several."""
    inside = numbers_of(join.right)
    assert join.on is not None
    keys: list[tuple[Scalar, Scalar]] = []  # of the left side, of the right one
    for part in parts_of(join.on):
        assert isinstance(part, Call)
        a, b = part.arguments  # only equalities are let through
        keys.append((a, b) if {prefix(f) for f in fields(b)} <= inside else (b, a))
    used = sorted((f for f in needed if prefix(f) in inside), key=lambda f: f.name)
    names = {field: f"c{i}" for i, field in enumerate(used)}
    types = [_common_type(a, b) for a, b in keys]
    alias = f"j{join.number}"
    grouped = tuple(
        (f"k{i}", cast(right.value(b), kind))
        for i, ((_, b), kind) in enumerate(zip(keys, types, strict=True))
    )
    parts = tuple((names[f], right.column(f)) for f in used)
    inner = Select(f"{alias}s", right.rows, grouped + parts)
    shown = tuple((name, ColumnValue(inner.alias, name, value.type)) for name, value in inner.columns)
    within, order = [[value for _, value in part] for part in (shown[: len(keys)], shown[len(keys) :])]
    ranked = work.Rank(alias, inner, shown, tuple(within), tuple(order), "place")

    def column(field: Field) -> Expression:
        return ColumnValue(alias, names[field], TYPES[field.domain.kind])

    on = tuple(
        equal(cast(left.value(a), kind), ColumnValue(alias, f"k{i}", kind))
        for i, ((a, _), kind) in enumerate(zip(keys, types, strict=True))
    )
    least = filtered(ranked, apply("=", ColumnValue(alias, "place", "i64"), bare(1), type="bool"))
    rows = work.JoinedRows(left.rows, least, on, join.outer)
    return Lowered(rows, None, {**left.columns, **dict.fromkeys(inside, column)}, {})


def _wide(kind: Kind) -> Type:
    """A type that holds every value a column of this kind can have, so that the cast is total."""
    return "i128" if kind == "integer" else TYPES[kind]


def _common_type(a: Scalar, b: Scalar) -> Type:
    kinds = {a.domain.kind, b.domain.kind}
    return "f64" if len(kinds) > 1 else _wide(kinds.pop())


def _rounded_once(steps: Expression) -> Expression:
    """The double nearest to a whole number: of two halves that are doubles. What is beyond them is beyond
    every bound of a person's sum."""
    most = 1 << (SUM_BITS + 1)
    inside = within(steps, integer(-most, "i128"), integer(most, "i128"))
    high, low = (apply(word, inside, integer(1 << 53, "i128"), type="i128") for word in ("divide", "modulo"))
    scaled = apply("*", cast(high, "f64"), double(2.0**53), type="f64")
    return apply("+", scaled, cast(low, "f64"), type="f64")


def _folded(fold: Folded, below: Lowered, totals: list[tuple[str, Totals]], alias: str) -> Expression:
    """One value made of the rows of one person: of integers, so that no order of rows matters."""

    def total(function: work.Total, value: Expression | None, of: Type) -> Expression:
        totals.append((f"a{len(totals)}", Totals(function, value)))
        return ColumnValue(alias, totals[-1][0], of)

    if fold.value is None:
        return total("count", None, "i64")
    value, domain = below.value(fold.value), fold.value.domain
    match fold.function:
        case "count" | "distinct":
            return total(fold.function, value, "i64")
        case "min" | "max":
            return total(fold.function, value, value.type)
        case "any" | "every":
            return total(fold.function, value, "bool")
    one = double(1.0)
    if domain.kind == "integer":
        found = total("sum", cast(value, "i64"), "i128")
        if fold.function == "sum":
            return found
    elif domain.adds_exactly:
        assert domain.scale is not None
        found = total("sum", steps(fold.value, below.column), "i128")
        one = double(10.0**domain.scale)
    else:
        exponent = domain.exponent if fold.exponent is None else fold.exponent
        one = double(float(Fraction(2) ** exponent))
        steps_ = apply("floor", apply("*", value, one, type="f64"), type="f64")
        found = total("sum", cast(steps_, "i64" if fold.exponent is None else "i128"), "i128")
    whole: Expression = cast(found, "f64")
    if fold.exponent is not None:
        whole = _rounded_once(found)
    if fold.function == "sum":
        return apply("quotient", whole, one, type="f64")
    count = cast(total("count", value, "i64"), "f64")
    zero = apply("=", count, double(0.0), type="bool")
    divisor = apply("*", count, one, type="f64")
    mean = apply("quotient", whole, divisor, type="f64")
    return when(zero, work.ConstantValue(None, "f64"), mean)
