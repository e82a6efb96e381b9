"""What analysts may try at the doors of a server: nothing runs, nothing is spent, no error tells of a row."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
from tests.serving import Server, hospital, serving

import sfumato as sf
from sfumato.server.desk.desk import Caller, Desk, Settings
from sfumato.server.desk.retries import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "planted-in-a-file-of-the-server"
HOSTILE = [
    "DROP TABLE patients",
    "SELECT COUNT(*) FROM patients; DROP TABLE patients",
    "SELECT COUNT(*) FROM patients; SELECT COUNT(*) FROM visits",
    "INSERT INTO patients VALUES (1)",
    "UPDATE patients SET age = 1",
    "DELETE FROM patients",
    "CREATE TABLE x AS SELECT * FROM patients",
    "ATTACH '{file}' AS a",
    "DETACH hospital",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL duckdb_tables()",
    "EXPORT DATABASE '{file}'",
    "COPY patients TO '{file}'",
    "COPY (SELECT * FROM patients) TO STDOUT",
    "COPY patients FROM PROGRAM 'id'",
    "SELECT * FROM read_csv('{file}')",
    "SELECT COUNT(*) FROM read_csv('{file}')",
    "SELECT COUNT(*) FROM '{file}'",
    "SELECT COUNT(*) FROM read_text('{file}')",
    "SELECT pg_read_file('{file}')",
    "SELECT pg_catalog.pg_read_file('{file}')",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_import('{file}')",
    "SELECT COUNT(*) FROM patients WHERE pg_read_file('{file}') IS NOT NULL",
    "SELECT COUNT(*) FROM patients WHERE pg_sleep(5) IS NULL",
    "SELECT pg_sleep(5)",
    "SELECT getenv('PATH')",
    "SELECT current_setting('data_directory')",
    "SELECT dblink('host=127.0.0.1', 'SELECT 1')",
    "SELECT query_to_xml('SELECT * FROM patients', true, true, '')",
    "SELECT table_to_xml('patients', true, true, '')",
    "SELECT * FROM information_schema.patients",
    "SELECT * FROM pg_catalog.patients",
    "SELECT * FROM main.patients",
    "SELECT * FROM hospital.main.patients",
    "SELECT COUNT(*) FROM secret.patients",
    "SELECT * FROM patients",
    "SELECT patient_id FROM patients LIMIT 1",
    "SELECT unnest(list(age)) FROM patients",
    "SELECT array_agg(age) FROM patients",
    "SELECT string_agg(region, ',') FROM patients",
    "SELECT first(age) FROM patients",
    "SELECT arg_max(age, patient_id) FROM patients",
    "SELECT generate_series(1, age) FROM patients",
    "SELECT COUNT(*) FROM patients, LATERAL (SELECT age) AS x",
    "SELECT (SELECT age FROM patients LIMIT 1)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM patients WHERE age = 40)",
    "SELECT c.relname, (SELECT COUNT(*) FROM patients) FROM pg_class c",
    "WITH p AS (SELECT * FROM patients) SELECT * FROM p",
    "WITH x AS (DELETE FROM patients RETURNING *) SELECT COUNT(*) FROM x",
    "SELECT COUNT(*) FROM patients FOR UPDATE",
    "SELECT COUNT(*) INTO x FROM patients",
    "TABLE patients",
    "VALUES ((SELECT MAX(age) FROM patients))",
    "SELECT n_live_tup FROM pg_stat_user_tables WHERE n_live_tup > 0",
    "EXPLAIN ANALYZE DELETE FROM patients",
    "EXPLAIN (ANALYZE) SELECT pg_sleep(5)",
    "PREPARE x AS SELECT 1",
    "DO $$ BEGIN END $$",
    "LISTEN a",
    "SET session_authorization = 'owner'",
    "SET ROLE owner; SELECT patient_id FROM patients",
]
# errors that a database might raise for some rows and not for others
TEMPTING = [
    "SELECT COUNT(*) AS n FROM visits WHERE 1 / cost > 2",
    "SELECT COUNT(*) AS n FROM visits WHERE 1 / (cost - 17) > 0 AND ward = 'surgery'",
    "SELECT COUNT(*) AS n FROM visits WHERE CAST(ward AS INTEGER) = 1",
    "SELECT SUM(cost) AS s FROM visits",
    "SELECT AVG(cost) AS a, STDDEV(cost) AS d FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE SQRT(cost - 500) > 1",
    "SELECT COUNT(*) AS n FROM visits WHERE cost * 1e300 * 1e300 > 1",
    "SELECT COUNT(*) AS n FROM visits WHERE ward LIKE '%(a+)+$%'",
    "SELECT COUNT(*) AS n FROM visits WHERE regexp_matches(ward, '(a+)+$')",
    "SELECT COUNT(*) AS n FROM visits WHERE SUBSTRING(ward, -9223372036854775808) = ''",
    "SELECT MEDIAN(cost) AS m FROM visits",
    "SELECT ward, MAX(cost) AS m FROM visits GROUP BY ward",
    "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE seen > TIMESTAMP '2024-01-01 00:00:00'",
    "SELECT COUNT(*) AS n FROM visits WHERE EXTRACT(year FROM day) = 2025",
    "SELECT COUNT(*) AS n FROM visits WHERE cost % 0 = 1",
]
NASTY = """
INSERT INTO visits SELECT 777777, repeat('a', 99), NULL, 'nan'::DOUBLE, 'infinity'::TIMESTAMP FROM range(5);
INSERT INTO visits SELECT 777777, '', DATE '9999-12-31', 'inf'::DOUBLE, '-infinity'::TIMESTAMP FROM range(5);
INSERT INTO visits SELECT 777777, 'surgery', DATE '0001-01-01', 0, NULL FROM range(100000);
INSERT INTO visits SELECT 777777, NULL, NULL, -1.7e308, NULL FROM range(5);
INSERT INTO visits SELECT 777777, 'surgery', NULL, 17, NULL FROM range(5);
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("attacked"), "--no-deadlines") as running:
        running.let_in("eve")
        (running.policy.parent / "planted.txt").write_text(f"a\n{SECRET}\n")
        yield running


@pytest.fixture(scope="module")
def wire(server: Server) -> Iterator[psycopg.Connection[Any]]:
    options = "-c sfumato.epsilon=0.01"
    with psycopg.connect(server.dsn("eve"), autocommit=True, options=options) as connection:
        yield connection


def spent(server: Server) -> str:
    _, found, _ = server.request("GET", "/v1/hospital/budget", server.tokens["eve"])
    return str(found["spent"])


def attempt(
    wire: psycopg.Connection[Any], text: str, prepare: bool | None
) -> tuple[list[Any], psycopg.Error | None]:
    cursor = wire.cursor()
    try:
        cursor.execute(text.encode(), prepare=prepare)
        return cursor.fetchall() if cursor.description else [], None
    except psycopg.Error as error:
        return [], error


@pytest.mark.parametrize("sql", HOSTILE)
def test_what_must_not_run_is_refused_at_both_doors(
    sql: str, server: Server, wire: psycopg.Connection[Any]
) -> None:
    before = spent(server)
    text = sql.replace("{file}", str(server.policy.parent / "planted.txt"))
    status, found = server.release(server.tokens["eve"], text, "0.01")
    assert status == 422
    assert SECRET not in str(found)
    for prepare in (None, True):
        if prepare is None and ";" in text:  # what stands before it may be asked
            continue
        rows, error = attempt(wire, text, prepare)
        assert SECRET not in str(error)
        assert error is None or error.sqlstate != "XX000"
        assert rows in ([], [("answered from the policy; free",)])
    assert spent(server) == before
    assert wire.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("sql", TEMPTING)
def test_no_error_depends_on_a_row(sql: str, tmp_path: Path) -> None:
    outcomes = []
    for name, rows in (("light", ""), ("nasty", NASTY)):
        policy = hospital(tmp_path / name)
        if rows:
            with duckdb.connect(str(policy.parent / "hospital.duckdb")) as connection:
                connection.execute(rows)
        desk = Desk(policy, Settings(deadlines=False))
        desk.people.add("eve", "analyst")
        person = desk.people.get("eve")
        assert person is not None
        try:
            shown = asyncio.run(desk.ask(Caller(person, "test"), Wanted(sql, epsilon="1")))
        except sf.SfumatoError as error:
            outcomes.append((type(error).__name__, str(error).replace(name, "")))
        else:
            release = shown.release
            outcomes.append(("released", f"{release.columns} {len(release.rows())} {release.notes()[1:]}"))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] != "QueryFailed"
