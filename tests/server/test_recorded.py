"""The catalog against PostgreSQL: what real clients send when they look around, and what a real server said.

`recorded.json` holds statements of psql, psycopg, asyncpg, SQLAlchemy, pandas and JDBC on two tables, with
the names, types and rows that PostgreSQL answered. Our answers are the same, but for a few reasons, which are
listed here with the calls that they concern.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.serving import POLICY

from sfumato.errors import UnknownName
from sfumato.queries.policy import parse
from sfumato.queries.sql import tree
from sfumato.server.catalog import catalog
from sfumato.server.catalog.lookup import Lookup
from sfumato.server.catalog.values import TEXT, read, text_of
from sfumato.server.postgres.settings import SessionSettings

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
CATALOG = catalog.of(  # without comments: there were none where it was recorded
    parse(POLICY.format(epsilon="1"), Path("hospital.toml")), "ana", SessionSettings().values, comments=False
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement, and what PostgreSQL answered."""

    client: str
    call: str
    sql: str
    columns: list[tuple[str, int]]
    rows: list[list[str | None]] | None
    parameters: list[str | None] = field(default_factory=list)
    types: list[int] = field(default_factory=list)


def ours(text: str | None) -> str | None:
    """The same with our numbers of the tables."""
    if text is None:
        return None
    for name, number in RECORDED["oids"].items():
        text = text.replace(str(number), f"<{name}>")
    for name, number in CATALOG.relations.items():
        text = text.replace(f"<{name}>", str(number))
    return text


def asked(each: dict[str, Any]) -> Asked:
    rows = each["rows"]
    return Asked(
        each["client"],
        each["call"],
        str(ours(each["sql"])),
        [(name, oid) for name, oid in each["columns"]],
        None if rows is None else [[ours(value) for value in row] for row in rows],
        [ours(value) for value in each.get("parameters", ())],
        each.get("types", []),
    )


ALL = [asked(each) for each in RECORDED["queries"]]


def answer(each: Asked) -> tuple[list[tuple[str, int]], list[list[str | None]]]:
    """Columns and rows as our interpreter gives them."""
    lookup = Lookup(CATALOG, each.sql, each.types)
    query = lookup.compile(tree(each.sql.strip().rstrip(";"), "postgres"))
    values = [
        None if value is None else read(value.encode(), oid or TEXT, binary=False)
        for value, oid in zip(each.parameters, each.types, strict=True)
    ]
    columns = [(column.name, column.oid) for column in query.fields]
    found = lookup.run(query, values)
    rows = [
        [None if value is None else text_of(value, oid) for value, (_, oid) in zip(row, columns, strict=True)]
        for row in found
    ]
    return columns, rows


# Calls whose rows are ours alone, by the reason why. Names and types of their columns are PostgreSQL's.
FEWER = {  # our rows are among PostgreSQL's
    "there are no roles but oneself": (r"\du", r"TAB after \c ho"),
    "there is no database but this": ("getCatalogs",),
    "there are no tablespaces and extensions": ("tablespaces", "extensions"),
}
OTHER = {
    "sizes are not told": (r"\dt+", r"\d+", "tables with estimates"),
    "whoever asks owns everything": (r"\dn", r"\dn+", r"\l", r"\l+"),
    "numbers, roles and privileges differ": (
        "databases, with all columns",
        "schemas, with all columns",
        "roles, with all columns",
    ),
    "tables have no types, files and columns of the system": (
        "tables, with all columns",
        "columns, with all columns",
    ),
    "nothing can be written": ("privileges", "privileges of the user"),
    "another version, with other settings": (
        "create_engine().connect()",
        "one setting",
        "introspection of an unknown type (composite)",
    ),
}
MORE_COLUMNS = ("databases, with all columns",)  # of all versions that clients know
QUESTIONS = ("open a table", "sample", "by month")  # about rows: not for the catalog
LOOKUPS = [
    each
    for each in ALL
    if each.call not in QUESTIONS and each.sql.strip().lower().startswith(("select", "with", "values"))
]


def listed(reasons: dict[str, tuple[str, ...]]) -> set[str]:
    return {call for calls in reasons.values() for call in calls}


def in_order(each: Asked, rows: list[list[str | None]]) -> list[list[str | None]]:
    """Rows that can be compared: those of a query that does not order them come in any order."""
    is_ordered = tree(each.sql.strip().rstrip(";"), "postgres").get("order") is not None
    return rows if is_ordered else sorted(rows, key=str)


def calls(entries: list[Asked]) -> list[Any]:
    """The statements by call, to be named in reports."""
    by_call: dict[str, list[Asked]] = {}
    for each in entries:
        by_call.setdefault(each.call, []).append(each)
    return [
        pytest.param(
            group,
            id=call,
        )
        for call, group in by_call.items()
    ]


@pytest.mark.parametrize("group", calls(LOOKUPS))
def test_columns_have_the_names_and_types_that_postgresql_gives(group: list[Asked]) -> None:
    for each in group:
        found, _ = answer(each)
        if each.call in MORE_COLUMNS:
            found = [column for column in found if column in each.columns]
        assert found == each.columns, each.sql


@pytest.mark.parametrize(
    "group", calls([each for each in LOOKUPS if each.call not in listed(FEWER) | listed(OTHER)])
)
def test_rows_are_those_that_postgresql_gives(group: list[Asked]) -> None:
    for each in group:
        _, rows = answer(each)
        if each.rows is not None:
            assert in_order(each, rows) == in_order(each, each.rows), each.sql


@pytest.mark.parametrize("call", sorted(listed(FEWER) | listed(OTHER)))
def test_rows_differ_where_they_are_said_to_differ(call: str) -> None:
    """So that the lists above stay short."""
    differ: list[str] = []
    for each in LOOKUPS:
        if each.call == call and each.rows is not None:
            _, rows = answer(each)
            if in_order(each, rows) != in_order(each, each.rows):
                differ.append(each.client)
            if call in listed(FEWER):
                assert all(row in each.rows for row in rows), each.sql
    assert differ
    assert len(differ) == len(set(differ))  # of all statements of a call, one


@pytest.mark.parametrize("each", [each for each in ALL if each.call in QUESTIONS], ids=lambda each: each.call)
def test_what_asks_for_rows_is_not_answered_from_the_catalog(each: Asked) -> None:
    with pytest.raises(UnknownName):
        answer(each)


@pytest.mark.parametrize(
    "group",
    calls([each for each in LOOKUPS if "asyncpg" in each.client and each.types]),
)
def test_values_have_the_types_that_postgresql_infers(group: list[Asked]) -> None:
    """asyncpg sends no types, and writes values as the types that it is told."""
    for each in group:
        lookup = Lookup(CATALOG, each.sql, [0] * len(each.types))
        lookup.compile(tree(each.sql.strip().rstrip(";"), "postgres"))
        assert [oid or TEXT for oid in lookup.types] == each.types, each.sql


def test_the_tables_of_the_policy_are_in_what_was_compared() -> None:
    """The oracle is worth something: many rows are about our tables, from most clients."""
    compared = [each for each in LOOKUPS if each.call not in listed(FEWER) | listed(OTHER) and each.rows]
    about = [each for each in compared if "patients" in str(each.rows)]
    assert len(compared) > 100
    assert {each.client.split()[0] for each in about} >= {"psql", "sqlalchemy", "asyncpg", "jdbc", "own,"}
