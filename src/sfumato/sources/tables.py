"""Relations as they stand after FROM and WHERE, and how to name their columns.

Each row belongs to one unit, as `queries.relations` proves; here that is enforced. Rows without a unit are
dropped, a join of two tables of people is always on the unit as well, and nothing depends on the order of
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.queries.expressions import Call, fields, parts_of
from sfumato.queries.relations import (
    Among,
    Cut,
    Fold,
    Join,
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
from sfumato.queries.rows import numbers_of
from sfumato.sources.copy import UNIT
from sfumato.sources.dialect import SQL_TYPE, double, field_text, quoted, scalar_text, steps_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.queries.declared import Kind
    from sfumato.queries.expressions import Field, Scalar
    from sfumato.queries.relations import Folded, Owner
    from sfumato.sources.copy import Copy


SPARE = 64  # rows beyond twice a cut among which its rows are looked for: in vain less than once in 10^9
LARGEST = (1 << 64) - 1  # hash


@dataclass(slots=True)
class Rows:
    """A relation as it stands after FROM and WHERE, and how to name its columns."""

    source: str
    conditions: list[str]
    unit: str
    columns: dict[int, Callable[[Field], str]]
    units: dict[int, str]  # of each table in it, unless a LEFT JOIN may have found no row of that

    def column(self, field: Field) -> str:
        return self.columns[prefix(field)](field)


def rows_of(
    relation: Relation, needed: set[Field], copy: Copy | None = None, kept: dict[int, Cut] | None = None
) -> Rows:
    """How to read a relation of which some columns are needed; from a prepared copy if there is one.

    `kept` is what sides keep of one person, if the relation is part of a chain of joins.
    """
    match relation:
        case Scan():
            return _scan(relation, copy)
        case Where(inner, condition):
            rows = rows_of(inner, needed | _used(condition), copy, kept)
            rows.conditions += [*_same_person(condition, rows.units), scalar_text(condition, rows.column)]
            return rows
        case Join():
            return _join(relation, needed, copy, kept)
        case Among():
            return _among(relation, needed, copy, kept)
        case Union(number, parts, kinds):
            selects = []
            for inner, columns in parts:
                rows = rows_of(inner, _used(*columns), copy)
                printed = [
                    f"CAST({scalar_text(column, rows.column)} AS {_wide(kind)}) AS c{i}"
                    for i, (column, kind) in enumerate(zip(columns, kinds, strict=True))
                ]
                unit = [f"{rows.unit} AS u"] if rows.unit else []
                selects.append(_select([*unit, *printed] or ["1 AS one"], rows))
            return _derived(number, f"({' UNION ALL '.join(selects)})", relation.by_person, "c")
        case Fold(number, inner, by, folds):
            rows = rows_of(inner, _used(*by, *(fold.value for fold in folds)), copy)
            keys = [f"{scalar_text(each, rows.column)} AS k{i}" for i, each in enumerate(by)]
            totals = [f"{_folded(each, rows)} AS c{i}" for i, each in enumerate(folds)]
            select = _select([f"{rows.unit} AS u", *keys, *totals], rows)
            group = ", ".join(str(i + 1) for i in range(1 + len(keys)))
            return _derived(number, f"({select} GROUP BY {group})", True, "c")


def _same_person(condition: Scalar, units: dict[int, str]) -> Iterator[str]:
    """That tables of which columns are equal speak of the same person, wherever that follows from others.

    An engine joins tables in the order it likes, by the equalities it is told: never two of different people.
    """
    for part in parts_of(condition):
        if isinstance(part, Call) and part.function == "=":
            compared = {prefix(field) for field in fields(part)}
            named = list(dict.fromkeys(unit for number, unit in units.items() if number in compared))
            yield from (f"{named[0]} = {each}" for each in named[1:])


def _used(*scalars: Scalar | None) -> set[Field]:
    """The columns that expressions use."""
    return {field for each in scalars if each is not None for field in fields(each)}


def _select(columns: list[str], rows: Rows) -> str:
    where = f" WHERE {' AND '.join(rows.conditions)}" if rows.conditions else ""
    return f"SELECT {', '.join(columns)} FROM {rows.source}{where}"


def _derived(number: int, text: str, by_person: bool, letter: str) -> Rows:
    """A subselect, whose columns are called u, k0, k1, ... and c0, c1, ..."""
    name = f"t{number}"

    def column(field: Field) -> str:
        _, _, inner = field.name.partition(".")
        if inner == "u" or inner.startswith("k"):
            return _collated(f"{name}.{inner}", field)
        return _collated(f"{name}.{letter}{inner}", field)

    unit = f"{name}.u" if by_person else ""
    return Rows(f"{text} AS {name}", [], unit, {number: column}, {number: unit} if unit else {})


def _collated(text: str, field: Field) -> str:
    return f"{text} COLLATE C" if field.domain.kind == "text" else text


def _scan(scan: Scan, copy: Copy | None) -> Rows:
    name = f"t{scan.number}"
    source, conditions, unit = f"{quoted(scan.table)} AS {name}", [], ""
    if scan.owner is not None:
        column = _key(name, scan.owner)
        if scan.owner.table and copy is not None:  # it was looked up when the copy was made
            unit = field_text(f"{name}.{UNIT}", _last(scan.owner).kind)
        elif scan.owner.table:
            assert scan.owner.owner is not None
            owners = _owners(scan.owner)
            source += f" JOIN ({owners}) AS o{scan.number} ON {column} = o{scan.number}.k"
            unit = f"o{scan.number}.u"
        else:
            unit = column
            conditions.append(f"{unit} IS NOT NULL")

    def text(field: Field) -> str:
        _, _, inner = field.name.partition(".")
        return unit if field.unit else field_text(f"{name}.{quoted(inner)}", field.domain.kind)

    return Rows(source, conditions, unit, {scan.number: text}, {scan.number: unit} if unit else {})


def _key(name: str, owner: Owner) -> str:
    return field_text(f"{name}.{quoted(owner.column)}", owner.kind)


def _last(owner: Owner) -> Owner:
    """The one that names persons, at the end of a chain of references."""
    return owner if owner.owner is None else _last(owner.owner)


def _owners(owner: Owner) -> str:
    """Whom each value of a referred column belongs to: every unit once."""
    inner = owner.owner
    assert inner is not None
    key = field_text(f"f.{quoted(owner.key)}", owner.kind)
    source, unit = f"{quoted(owner.table)} AS f", _key("f", inner)
    if inner.table:
        source += f" JOIN ({_owners(inner)}) AS g ON {unit} = g.k"
        unit = "g.u"
    known = f"{key} IS NOT NULL AND {unit} IS NOT NULL"
    return f"SELECT DISTINCT {key} AS k, {unit} AS u FROM {source} WHERE {known}"


def _join(join: Join, needed: set[Field], copy: Copy | None, kept: dict[int, Cut] | None) -> Rows:
    needed = needed | _used(join.on)
    if join.of_people and kept is None:
        kept = cuts(join)
    left, right = rows_of(join.left, needed, copy, kept), rows_of(join.right, needed, copy, kept)
    if join.single:
        return _single(join, left, right, needed | _used(*scalars_of(join.right)))
    if (cut := _cut_of(join, join.left, kept)) is not None:
        left = _wrapped(f"l{join.number}", join.left, left, needed, cut, join.on)
    if (cut := _cut_of(join, join.right, kept)) is not None or not is_plain(join.right):
        right = _wrapped(f"j{join.number}", join.right, right, needed, cut, join.on)
    columns = {**left.columns, **right.columns}
    units = left.units if join.outer else left.units | right.units
    rows = Rows("", list(left.conditions), left.unit or right.unit, columns, units)
    on = [f"{left.unit} = {right.unit}"] if left.unit and right.unit else []
    on += right.conditions  # which partners there are; with LEFT JOIN this is not the same as WHERE
    if join.on is not None:
        on += [*_same_person(join.on, left.units | right.units), scalar_text(join.on, rows.column)]
    word = "LEFT JOIN" if join.outer else "JOIN"
    rows.source = f"{left.source} {word} {right.source} ON {' AND '.join(dict.fromkeys(on))}"
    return rows


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


def _wrapped(
    name: str, relation: Relation, rows: Rows, needed: set[Field], cut: Cut | None, on: Scalar | None
) -> Rows:
    """One side of a join as a subselect, of which only so many rows of a person are kept."""
    inside = numbers_of(relation)
    texts = {f: rows.column(f) for f in sorted(needed, key=repr) if prefix(f) in inside}
    unit = {rows.unit: "u"} if rows.unit else {}
    others = [text for text in dict.fromkeys(texts.values()) if text not in unit]
    called = unit | {text: f"c{i}" for i, text in enumerate(others)}
    shown = [f"{text} AS {name}" for text, name in called.items()]
    if cut is None:
        select = _select(shown or ["1 AS one"], rows)
    else:
        keys = [scalar_text(key, rows.column) for key in _equal_to(on, inside)]
        inner = _select([*shown, *(f"{key} AS e{i}" for i, key in enumerate(keys))], rows)
        known, parts = [called[text] for text in others], [f"e{i}" for i in range(len(keys))]
        select = _cut(inner, known, parts, cut, is_plain(relation))

    def column(field: Field) -> str:
        return _collated(f"{name}.{called[texts[field]]}", field)

    unit_ = f"{name}.u" if rows.unit else ""
    units = dict.fromkeys(inside, unit_) if unit_ else {}
    return Rows(f"({select}) AS {name}", [], unit_, dict.fromkeys(inside, column), units)


def _cut(inner: str, known: list[str], keys: list[str], cut: Cut, plain: bool) -> str:
    """Of rows, at most so many of a person, or of those of a person that have the same partners.

    Which ones is decided by a hash of what is used of them, and of which of several same ones it is: by
    nobody else's rows, and evenly. What must be equal to something of another side is hashed first, so that
    rows that are partners are taken on both sides. Rows of which nothing is used are all the same: counted.

    Almost nobody has more, so the others pass as they are. Whoever has is not sorted, which would take long:
    of m same rows among `total`, about m/total of twice as many as are kept are looked at.
    """
    most, looked = cut.rows, 2 * cut.rows + SPARE
    if not known and not keys:
        counted = f"SELECT u, UNNEST(RANGE(LEAST(COUNT(*), {most}))) AS n FROM ({inner}) AS r GROUP BY u"
        return f"SELECT u FROM ({counted}) AS s"
    shown, person = ", ".join(["u", *known]), ["u", *(keys if cut.alike else ())]
    first = [f"HASH({', '.join(['u', *keys])})"] if keys and not cut.alike else []
    by, match_ = ", ".join(person), " AND ".join(f"r.{each} = h.{each}" for each in person)
    heavy = f"SELECT {by}, COUNT(*) AS total FROM r GROUP BY {by} HAVING COUNT(*) > {most}"
    whole = ", ".join(f"r.{each}" for each in ["u", *known, *keys])
    same = f"SELECT {whole}, h.total, COUNT(*) AS m FROM r JOIN h ON {match_} GROUP BY {whole}, h.total"
    rest = f"CAST({LARGEST} AS UBIGINT) // CAST(total AS UBIGINT) * CAST(m * {looked} % total AS UBIGINT)"
    last = [*first, f"HASH({shown})"][0]
    few = f"m * {looked} // total + CASE WHEN {last} < {rest} THEN 1 ELSE 0 END"
    some = (
        f"SELECT *, UNNEST(RANGE(CASE WHEN total > {looked} THEN {few} ELSE m END)) AS n FROM ({same}) AS s"
    )
    order = ", ".join([*first, f"HASH({shown}, n)", *known, "n"])
    return (
        f"WITH r AS {'NOT ' if plain else ''}MATERIALIZED ({inner}), h AS MATERIALIZED ({heavy})"
        f" SELECT {shown} FROM r ANTI JOIN h ON {match_} UNION ALL SELECT {shown} FROM ({some}) AS s"
        f" QUALIFY ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) <= {most}"
    )


def _equal_to(on: Scalar | None, inside: set[int]) -> Iterator[Scalar]:
    """What of one side must be equal to something of the other."""
    for part in () if on is None else parts_of(on):
        if isinstance(part, Call) and part.function == "=":
            sides = [{prefix(f) for f in fields(each)} for each in part.arguments]
            for i in (0, 1):
                if sides[i] and sides[i] <= inside and sides[1 - i].isdisjoint(inside):
                    yield part.arguments[i]


def _single(join: Join, left: Rows, right: Rows, needed: set[Field]) -> Rows:
    """At most one partner for a row: the smallest, where the public table has several."""
    inside = numbers_of(join.right)
    assert join.on is not None
    parts = parts_of(join.on)
    keys: list[tuple[Scalar, Scalar]] = []  # of the left side, of the right one
    for part in parts:
        assert isinstance(part, Call)
        a, b = part.arguments  # only equalities are let through
        keys.append((a, b) if {prefix(f) for f in fields(b)} <= inside else (b, a))
    used = sorted((f for f in needed if prefix(f) in inside), key=repr)
    names = {field: f"c{i}" for i, field in enumerate(used)}
    kinds = [_common_type(a, b) for a, b in keys]
    printed = [
        f"CAST({scalar_text(b, right.column)} AS {kind}) AS k{i}"
        for i, ((_, b), kind) in enumerate(zip(keys, kinds, strict=True))
    ]
    struct = ", ".join(f"'{names[f]}': {right.column(f)}" for f in used) or "'one': 1"
    select = _select([*printed, f"MIN({{{struct}}}) AS m"], right)
    select += f" GROUP BY {', '.join(str(i + 1) for i in range(len(printed)))}"
    name = f"j{join.number}"

    def column(field: Field) -> str:
        return _collated(f"{name}.m.{names[field]}", field)

    on = " AND ".join(
        f"CAST({scalar_text(a, left.column)} AS {kind}) = {name}.k{i}"
        for i, ((a, _), kind) in enumerate(zip(keys, kinds, strict=True))
    )
    word = "LEFT JOIN" if join.outer else "JOIN"
    source = f"{left.source} {word} ({select}) AS {name} ON {on}"
    return Rows(source, list(left.conditions), "", {**left.columns, **dict.fromkeys(inside, column)}, {})


def _wide(kind: Kind) -> str:
    """A type that holds every value a column of this kind can have, so that the cast is total."""
    return "HUGEINT" if kind == "integer" else SQL_TYPE[kind]


def _common_type(a: Scalar, b: Scalar) -> str:
    kinds = {a.domain.kind, b.domain.kind}
    return SQL_TYPE["number"] if len(kinds) > 1 else _wide(kinds.pop())


def _among(among: Among, needed: set[Field], copy: Copy | None, kept: dict[int, Cut] | None) -> Rows:
    rows = rows_of(among.relation, needed | _used(among.value), copy, kept)
    other = rows_of(among.other, _used(among.other_value), copy)
    if among.value is None or among.other_value is None:
        subject, listed_ = rows.unit, other.unit
    else:
        subject, listed_ = scalar_text(among.value, rows.column), scalar_text(among.other_value, other.column)
        if among.value.domain.kind != among.other_value.domain.kind:
            subject, listed_ = f"CAST({subject} AS DOUBLE)", f"CAST({listed_} AS DOUBLE)"
    if among.value is None or not among.negated:  # x NOT IN (..., NULL) is never true
        other.conditions.append(f"{listed_} IS NOT NULL")
    word = "NOT IN" if among.negated else "IN"
    rows.conditions.append(f"({subject} {word} ({_select([listed_], other)}))")
    return rows


def _folded(fold: Folded, rows: Rows) -> str:
    """One value made of the rows of one person: of integers, so that no order of rows matters."""
    if fold.value is None:
        return "COUNT(*)"
    text, domain = scalar_text(fold.value, rows.column), fold.value.domain
    match fold.function:
        case "count":
            return f"COUNT({text})"
        case "distinct":
            return f"COUNT(DISTINCT {text})"
        case "min" | "max":
            return f"{fold.function.upper()}({text})"
        case "any":
            return f"BOOL_OR({text})"
        case "every":
            return f"BOOL_AND({text})"
    if domain.kind == "integer":
        total, factor = f"SUM(CAST({text} AS BIGINT))", ""
    elif domain.adds_exactly:
        assert domain.scale is not None
        total = f"SUM({steps_text(fold.value, rows.column)})"
        if fold.function == "avg":
            count = f"NULLIF(CAST(COUNT({text}) AS DOUBLE), 0e0)"
            return f"CAST({total} AS DOUBLE) / ({count} * {double(10.0**domain.scale)})"
        return f"CAST({total} AS DOUBLE) / {double(10.0**domain.scale)}"
    else:
        steps = f"{text} * {double(float(Fraction(2) ** domain.exponent))}"
        total = f"SUM(CAST(FLOOR({steps}) AS BIGINT))"
        factor = f" * {double(float(Fraction(2) ** -domain.exponent))}"
    if fold.function == "avg":
        return f"CAST({total} AS DOUBLE) / NULLIF(CAST(COUNT({text}) AS DOUBLE), 0e0){factor}"
    return f"CAST({total} AS DOUBLE){factor}" if factor else total
