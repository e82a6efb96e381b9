"""Tables of other schemas at the wire door: real clients find them where PostgreSQL would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import sqlalchemy
from tests.server.test_clients import psql
from tests.serving import serving
from tests.unit.test_schemas import town

if TYPE_CHECKING:
    from pathlib import Path


def test_clients_find_the_tables_of_schemas(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-deadlines", policy=town(tmp_path)) as server:
        server.let_in("ana")
        price = {"PGDATABASE": "town", "options": "-c sfumato.epsilon=50"}
        told = psql(server, r"\dt census.*", r"\d census.people", r"\d people", **price).stdout
        assert [line.split("|")[:2] for line in told.splitlines()] == [
            ["census", "people"], ["census", "visits"], ["id", "bigint"], ["age", "bigint"], ["ward", "text"],
            ["id", "bigint"], ["age", "bigint"],
        ]  # fmt: skip
        counted = psql(server, "SELECT round(count(*)) FROM census.people", **price)
        assert counted.stdout == "1000\n", counted.stderr
        asked = "SET search_path = census, public; SELECT count(*) FROM {}"
        told = psql(server, asked.format("people"), **price).stderr
        assert "search_path is not followed: a table without a schema is one of the schema public" in told
        assert "Write census.people, or: SET search_path = public" in told
        beside = "(SELECT count(*) FROM people), (WITH people AS (SELECT 1 AS n) SELECT n FROM people) AS x"
        said = psql(server, f"SET search_path = census, public; SELECT {beside}", **price).stderr
        assert "search_path is not followed" in said
        named = "WITH people AS (SELECT count(*) AS n FROM census.people) SELECT n FROM people"
        said = psql(server, f"SET search_path = census, public; {named}", **price).stderr
        assert "search_path" not in said
        told = psql(server, "SET search_path = 'odd name'; SELECT count(*) FROM people", **price).stderr
        assert "people is a table of the schema public, which is not in search_path" in told
        assert psql(server, asked.format("public.people"), **price).returncode == 0
        dsn = server.dsn("ana", dbname="town", options="-c sfumato.epsilon=50")
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
        looked = sqlalchemy.inspect(engine)
        assert {"census", "odd name", "public"} <= set(looked.get_schema_names())
        assert looked.get_table_names() == ["people"]
        assert sorted(looked.get_table_names("census")) == ["people", "visits"]
        visits = sqlalchemy.Table("visits", sqlalchemy.MetaData(), schema="census", autoload_with=engine)
        assert [column.name for column in visits.columns] == ["person", "cost"]
        with engine.connect() as connection:
            counted_all = (
                sqlalchemy.select(sqlalchemy.func.count()).select_from(visits).where(visits.c.cost < 10)
            )
            assert round(float(connection.execute(counted_all).scalar_one())) == 600
        engine.dispose()


def test_types_say_by_which_functions_they_are_read(tmp_path: Path) -> None:
    """ADBC and Npgsql ask so, and know no type whose functions they cannot tell."""
    with serving(tmp_path, "--no-deadlines", policy=town(tmp_path)) as server:
        server.let_in("ana")
        acts = "typinput, typoutput::regproc, typreceive::text, typsend"
        sql = (
            f"SELECT typname, {acts} FROM pg_type WHERE typname IN ('int8', 'date', '_int4') ORDER BY typname"
        )
        told = psql(server, sql, PGDATABASE="town").stdout
        assert told.splitlines() == [
            "_int4|array_in|array_out|array_recv|array_send",
            "date|date_in|date_out|date_recv|date_send",
            "int8|int8in|int8out|int8recv|int8send",
        ]
        adbc = "(typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'"
        told = psql(
            server, f"SELECT count(*) > 20 FROM pg_catalog.pg_type WHERE {adbc}", PGDATABASE="town"
        ).stdout
        assert told == "t\n"
