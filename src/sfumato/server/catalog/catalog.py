"""What pg_catalog and information_schema say: the tables of the policy, and nothing else.

Clients look at the catalog before they ask. It is made from the policy, which is public; no engine is asked,
so nothing about a row, a count or an index can come from it. Comments on tables and columns say what the
policy declares of them. Of PostgreSQL's own objects it holds the types that the wire door speaks; most
catalogs are empty. `catalog.txt` lists their columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sfumato.curator import show
from sfumato.server.catalog.values import (
    BY_OID,
    CHAR,
    ELEMENT,
    INT4,
    NAME,
    NUMERIC,
    OF_KIND,
    OID,
    TEXT,
    TYPES,
    Reg,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable
    from sfumato.queries.policy import Policy

VERSION = "15.0"  # of PostgreSQL, as clients are told: what they send depends on it
PG_CATALOG, INFORMATION, PUBLIC = 11, 13000, 2200
LISTED = 20  # keys of a column that a comment names
OTHERS = 15000  # schemas of the policy
FIRST = 16384  # the first number of an object that is not PostgreSQL's own
OWNER, DATABASE, HEAP = 10, 5, 2
SYSTEM = {  # numbers that clients compare with
    "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_class": 1259, "pg_authid": 1260,
    "pg_database": 1262, "pg_tablespace": 1213, "pg_attrdef": 2604, "pg_constraint": 2606, "pg_index": 2610,
    "pg_namespace": 2615, "pg_description": 2609, "pg_trigger": 2620, "pg_rewrite": 2618, "pg_am": 2601,
    "pg_extension": 3079, "pg_collation": 3456, "pg_operator": 2617, "pg_language": 2612, "pg_cast": 2605,
    "pg_enum": 3501, "pg_policy": 3256, "pg_publication": 6104, "pg_subscription": 6100, "pg_depend": 2608,
    "pg_statistic_ext": 3381, "pg_event_trigger": 3466, "pg_foreign_server": 1417, "pg_opclass": 2616,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Columns:
    """A table of the catalog: names and types of its columns, and its rows."""

    names: tuple[str, ...]
    types: tuple[int, ...]
    rows: Sequence[tuple[Any, ...]] = ()


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables of the catalog of one database, as one person sees them."""

    database: str
    person: str
    tables: dict[str, Columns]
    relations: dict[str, int]  # the tables of the policy, by name
    schemas: dict[str, int]
    settings: dict[str, str] = field(default_factory=dict)
    described: dict[tuple[int, int], str] = field(default_factory=dict)  # comments, by table and column

    def name_of(self, kind: str, oid: int) -> str | None:
        """What an object is called."""
        if kind == "regtype":
            return spoken(oid)
        if kind == "regclass":
            named = {number: name for name, number in (*SYSTEM.items(), *self.relations.items())}
            return named.get(oid)
        if kind == "regnamespace":
            return {number: name for name, number in self.schemas.items()}.get(oid)
        return self.person if oid == OWNER else None

    def find(self, kind: str, name: str) -> Reg | None:
        """The object of a name."""
        bare = name.replace('"', "").removeprefix("pg_catalog.").removeprefix("public.")
        if kind == "regtype":
            wanted = bare.removesuffix("[]")
            for each in TYPES.values():
                if wanted in (each.name, each.spoken):
                    is_array = bare != wanted
                    return Reg(each.array if is_array else each.oid, bare if is_array else each.spoken)
            return None
        if kind == "regclass":
            found = self.relations.get(bare) or SYSTEM.get(bare)
            return None if found is None else Reg(found, bare)
        if kind == "regnamespace":
            return Reg(self.schemas[bare], bare) if bare in self.schemas else None
        return Reg(OWNER, bare) if bare == self.person else None


TYPEINFO = "typeinfo_tree"  # by which asyncpg's question about types is known
_TYPEINFO = (
    ("oid", OID), ("ns", NAME), ("name", NAME), ("kind", CHAR), ("basetype", OID), ("elemtype", OID),
    ("elemdelim", CHAR), ("range_subtype", OID), ("attrtypoids", TYPES["oid"].array),
    ("attrnames", TYPES["text"].array), ("depth", INT4), ("basetype_name", TEXT), ("elemtype_name", TEXT),
    ("range_subtype_name", TEXT),
)  # fmt: skip


_VECTORS = {TYPES["int2vector"].oid: TYPES["int2"].oid, TYPES["oidvector"].oid: OID}


def typeinfo(oids: Sequence[int]) -> Columns:
    """What asyncpg asks about types it does not know, by a recursive query: arrays, and what is in them."""
    rows: list[tuple[Any, ...]] = []
    for oid in oids:
        if (element := {**ELEMENT, **_VECTORS}.get(oid)) is not None:
            inner = BY_OID[element]
            rows.insert(0, _typeinfo(element, inner.name, None, 1))
            name = BY_OID[oid].name if oid in BY_OID else f"_{inner.name}"
            rows.append(_typeinfo(oid, name, element, 0))
        elif oid in BY_OID:
            rows.append(_typeinfo(oid, BY_OID[oid].name, None, 0))
    names, types = zip(*_TYPEINFO, strict=True)
    return Columns(names, types, rows)


def _typeinfo(oid: int, name: str, element: int | None, depth: int) -> tuple[Any, ...]:
    told = None if element is None else spoken(element)
    mark = None if element is None else ","
    return (oid, "pg_catalog", name, "b", None, element or 0, mark, None, None, None, depth, None, told, None)


def spoken(oid: int) -> str:
    """A type as format_type writes it."""
    if oid in BY_OID:
        return BY_OID[oid].spoken
    return f"{BY_OID[ELEMENT[oid]].spoken}[]" if oid in ELEMENT else "???"


def _read() -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
    found = {}
    text = files("sfumato.server.catalog").joinpath("catalog.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, _, rest = line.partition(": ")
        pairs = [pair.rpartition(":") for pair in rest.split()]
        types = [
            TYPES[kind].oid if kind in TYPES else TYPES[kind[1:]].array if kind[1:] in TYPES else TEXT
            for _, _, kind in pairs
        ]
        found[name] = (tuple(column for column, _, _ in pairs), tuple(types))
    return found


_SHAPES = _read()


def of(policy: Policy, person: str, settings: dict[str, str], *, comments: bool = True) -> Catalog:
    """The catalog of a policy for somebody; the comments say what the policy declares."""
    described: dict[tuple[int, int], str] = {}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _SHAPES}
    relations: dict[str, int] = {}
    named = [_placed(table.name) for table in policy.tables]
    schemas = {"pg_catalog": PG_CATALOG, "information_schema": INFORMATION, "public": PUBLIC}
    schemas |= {
        name: OTHERS + i for i, name in enumerate(sorted({schema for schema, _ in named} - {"public"}))
    }
    number = FIRST
    for table, (schema, called) in zip(policy.tables, named, strict=True):
        relations[table.name] = number
        where = {"table_catalog": policy.name, "table_schema": schema, "table_name": called}
        _table(rows, number, schemas[schema], where, person, len(table.columns))
        for place, column in enumerate(table.columns, 1):
            _column(rows, number, where, place, column.name, _held_as(column))
            described[number, place] = _declared(column)
        described[number, 0] = _owned(table, dict(policy.sizes).get(table.name))
        number += 1
    described = {where: told for where, told in described.items() if told and comments}
    rows["pg_description"] = [
        {"objoid": relation, "classoid": SYSTEM["pg_class"], "objsubid": place, "description": told}
        for (relation, place), told in described.items()
    ]
    _around(rows, policy.name, person, schemas, settings)
    tables = {
        name: Columns(names, types, [tuple(row.get(each) for each in names) for row in rows[name]])
        for name, (names, types) in _SHAPES.items()
    }
    return Catalog(policy.name, person, tables, relations, schemas, settings, described)


def _placed(table: str) -> tuple[str, str]:
    """The schema of a table of the policy, and its name there."""
    schema, dot, name = table.partition(".")
    return (schema, name) if dot else ("public", table)


def _held_as(column: DeclaredColumn) -> int:
    """The type of a column: decimals are numeric."""
    is_decimal = column.kind == "number" and column.scale is not None
    return NUMERIC if is_decimal else OF_KIND[column.kind]


def _owned(table: DeclaredTable, rows: int | None) -> str:
    """What the policy says of a table."""
    whose = "public" if table.public else f"a row belongs to: {table.unit or 'itself'}"
    return whose if rows is None else f"{whose}; about {rows:,} rows"


def _declared(column: DeclaredColumn) -> str:
    """What the policy says of a column: its bounds and keys."""
    told = []
    if column.low is not None and column.high is not None:
        told.append(f"from {show.fraction(column.low)} to {show.fraction(column.high)}")
    if column.keys is not None:
        listed = ", ".join(str(key) for key in column.keys[:LISTED])
        more = f", ... ({len(column.keys):,} in all)" if len(column.keys) > LISTED else ""
        told.append(f"one of: {listed}{more}")
    return "; ".join(told)


def _table(
    rows: dict[str, list[dict[str, Any]]],
    number: int,
    schema: int,
    place: dict[str, str],
    person: str,
    columns: int,
) -> None:
    space, name = place["table_schema"], place["table_name"]
    no = dict.fromkeys(
        (
            "relhasindex", "relisshared", "relhasrules", "relhastriggers", "relhassubclass", "relrowsecurity",
            "relforcerowsecurity", "relispartition",
        ),
        False,
    )  # fmt: skip
    nothing = dict.fromkeys(
        (
            "reltype", "reloftype", "reltablespace", "relpages", "relallvisible", "reltoastrelid",
            "relchecks", "relrewrite", "relfilenode", "relallfrozen",
        ),
        0,
    )  # fmt: skip
    rows["pg_class"].append(
        {
            **no, **nothing, "oid": number, "relname": name, "relnamespace": schema, "relowner": OWNER,
            "relam": HEAP, "reltuples": -1.0, "relpersistence": "p", "relkind": "r", "relnatts": columns,
            "relispopulated": True, "relreplident": "d",
        }
    )  # fmt: skip
    plain = dict.fromkeys(("hasindexes", "hasrules", "hastriggers", "rowsecurity"), False)
    rows["pg_tables"].append({"schemaname": space, "tablename": name, "tableowner": person, **plain})
    rows["information_schema.tables"].append(
        {**place, "table_type": "BASE TABLE", "is_insertable_into": "NO", "is_typed": "NO"}
    )
    for view in ("pg_stat_user_tables", "pg_stat_all_tables"):
        rows[view].append({"relid": number, "schemaname": space, "relname": name})
    granted = {"grantor": person, "grantee": person, "privilege_type": "SELECT", "is_grantable": "NO"}
    rows["information_schema.table_privileges"].append({**place, **granted, "with_hierarchy": "YES"})


def _column(
    rows: dict[str, list[dict[str, Any]]],
    number: int,
    where: dict[str, str],
    place: int,
    name: str,
    oid: int,
) -> None:
    kind = BY_OID[oid]
    no = dict.fromkeys(("attnotnull", "atthasdef", "atthasmissing", "attisdropped"), False)
    rows["pg_attribute"].append(
        {
            **no, "attrelid": number, "attname": name, "atttypid": oid, "attlen": kind.size, "attnum": place,
            "atttypmod": -1, "attndims": 0, "attbyval": kind.size > 0,
            "attalign": "d" if kind.size == 8 else "i",
            "attstorage": "p" if kind.size > 0 else "x", "attcompression": "", "attidentity": "",
            "attgenerated": "", "attislocal": True, "attinhcount": 0, "attcollation": kind.collation,
            "attstattarget": -1,
        }
    )  # fmt: skip
    numeric = {"int8": (64, 2, 0), "float8": (53, 2, None)}.get(kind.name, (None, None, None))
    rows["information_schema.columns"].append(
        {
            **where, "column_name": name,
            "ordinal_position": place, "is_nullable": "YES", "data_type": kind.spoken,
            "numeric_precision": numeric[0], "numeric_precision_radix": numeric[1],
            "numeric_scale": numeric[2],
            "character_octet_length": 1 << 30 if kind.name == "text" else None,
            "datetime_precision": {"timestamp": 6, "date": 0}.get(kind.name),
            "udt_catalog": where["table_catalog"], "udt_schema": "pg_catalog", "udt_name": kind.name,
            "dtd_identifier": str(place), "is_self_referencing": "NO", "is_identity": "NO",
            "identity_cycle": "NO", "is_generated": "NEVER", "is_updatable": "NO",
        }
    )  # fmt: skip


def _around(
    rows: dict[str, list[dict[str, Any]]],
    database: str,
    person: str,
    schemas: dict[str, int],
    settings: dict[str, str],
) -> None:
    """Schemas, and what is the same for every policy."""
    for name, number in schemas.items():
        rows["pg_namespace"].append({"oid": number, "nspname": name, "nspowner": OWNER})
        rows["information_schema.schemata"].append(
            {"catalog_name": database, "schema_name": name, "schema_owner": person}
        )
    for number, name, use in ((HEAP, "heap", "t"), (403, "btree", "i")):
        rows["pg_am"].append({"oid": number, "amname": name, "amhandler": f"{name}handler", "amtype": use})
    rows["pg_database"].append(
        {
            "oid": DATABASE, "datname": database, "datdba": OWNER, "encoding": 6, "datlocprovider": "c",
            "datistemplate": False, "datallowconn": True, "datconnlimit": -1, "dattablespace": 1663,
            "datcollate": "C", "datctype": "C", "dathasloginevt": False,
        }
    )  # fmt: skip
    rights = dict.fromkeys(
        ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"), False
    )
    role = {**rights, "oid": OWNER, "rolname": person, "rolinherit": True, "rolcanlogin": True}
    rows["pg_roles"].append({**role, "rolconnlimit": -1, "rolpassword": "********"})
    rows["pg_user"].append({"usename": person, "usesysid": OWNER, "usecreatedb": False, "usesuper": False})
    rows["pg_tablespace"].append({"oid": 1663, "spcname": "pg_default", "spcowner": OWNER})
    for number, name in ((100, "default"), (950, "C")):
        rows["pg_collation"].append(
            {
                "oid": number, "collname": name, "collnamespace": PG_CATALOG, "collowner": OWNER,
                "collprovider": "d" if name == "default" else "c", "collisdeterministic": True,
                "collencoding": -1,
            }
        )  # fmt: skip
    for name, setting in settings.items():
        rows["pg_settings"].append(
            {"name": name, "setting": setting, "category": "", "short_desc": "", "context": "user",
             "vartype": "string", "source": "default", "boot_val": setting, "reset_val": setting,
             "pending_restart": False}
        )  # fmt: skip
    for each in TYPES.values():
        rows["pg_type"].append(
            _type(each.oid, each.name, each.array, 0, each.size, each.category, each.collation)
        )
        if each.array:
            rows["pg_type"].append(_type(each.array, f"_{each.name}", 0, each.oid, -1, "A", each.collation))


# types whose functions are called date_in; those of others are called int8in
_APART = (
    *("array", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "json", "jsonb"),
    *("record", "void", "anyarray", "pg_node_tree"),
)
_FUNCTIONS = 20_000  # from which on they are numbered, four of a type


def _acts(name: str, oid: int) -> list[Reg]:
    """The functions that read and write a type, as text and as bytes."""
    called = f"{name}_" if name in _APART else name
    ends = ("in", "out", "recv", "send")
    return [Reg(_FUNCTIONS + 4 * oid + n, f"{called}{end}") for n, end in enumerate(ends)]


def _type(
    oid: int, name: str, array: int, element: int, size: int, category: str, collation: int
) -> dict[str, Any]:
    acts = _acts("array" if element and category == "A" else name, oid)
    return {
        "oid": oid, "typname": name, "typnamespace": PG_CATALOG, "typowner": OWNER, "typlen": size,
        "typbyval": 0 < size <= 8, "typtype": "p" if category == "P" else "b", "typcategory": category,
        "typispreferred": name in ("text", "oid", "float8", "bool", "timestamptz"), "typisdefined": True,
        "typdelim": ",", "typrelid": 0, "typsubscript": "-", "typelem": element, "typarray": array,
        "typinput": acts[0], "typoutput": acts[1], "typreceive": acts[2], "typsend": acts[3],
        "typmodin": "-", "typmodout": "-", "typanalyze": "-", "typalign": "i", "typstorage": "p",
        "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typcollation": collation,
    }  # fmt: skip
