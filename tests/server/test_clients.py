"""Real clients at the wire door: psql, psycopg, SQLAlchemy, pandas, asyncpg and JDBC ask a real server.

Numbers are noisy. Where one is compared with the truth, it may be off by `FAR`, which at the prices used here
happens with a chance below 1e-12.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import asyncpg  # type: ignore[import-untyped]
import duckdb
import pandas
import psycopg
import pytest
import sqlalchemy
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg import rows
from sqlalchemy.exc import DBAPIError
from tests.serving import PEOPLE, Server, serving

from sfumato.server.desk.people import People

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

FAR = 100
PRICE = "-c sfumato.epsilon=0.5"
DEADLINE = 1.0  # of a count, at the pace of the slow server
BY_REGION = "SELECT region, count(*) AS n, avg(age) AS a FROM patients GROUP BY region ORDER BY region"
COLUMNS = {
    "patients": {"patient_id": "bigint", "age": "bigint", "region": "text", "diabetic": "boolean"},
    "visits": {
        "patient_id": "bigint",
        "ward": "text",
        "day": "date",
        "cost": "double precision",
        "seen": "timestamp without time zone",
    },
}
JAR = Path("/usr/share/java/postgresql.jar")
HERE = Path(__file__).parent
_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that answers at once."""
    with serving(tmp_path_factory.mktemp("clients"), "--no-deadlines") as made:
        made.let_in("ana")
        yield made


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers, whose new answers leave after half a second."""
    options = ("--workers", "2", "--pace", "2", "--running", "50", "--threads", "8")
    with serving(tmp_path_factory.mktemp("slow"), *options) as made:
        made.let_in("ana")
        yield made


@pytest.fixture
def ana(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with connected(server) as connection:
        yield connection


@contextmanager
def connected(server: Server, name: str = "ana", **more: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that pays."""
    with psycopg.connect(server.dsn(name, options=PRICE, **more), autocommit=True) as connection:
        yield connection


def fresh() -> str:
    """A question that was not asked before; the answer is everybody."""
    return f"SELECT count(*) AS n FROM patients WHERE patient_id > -{next(_numbers)}"


def spent(connection: psycopg.Connection[Any]) -> Decimal:
    with connection.cursor(row_factory=rows.dict_row) as cursor:
        row = cursor.execute("SHOW sfumato.budget").fetchone()
    assert row is not None
    return Decimal(row["spent"])


def one(connection: psycopg.Connection[Any], sql: str, *values: object) -> Any:
    """The only value of a result."""
    row = connection.execute(sql, values or None).fetchone()
    assert row is not None
    (value,) = row
    return value


def state(connection: psycopg.Connection[Any]) -> str:
    """Whether it is in a transaction, and whether that failed."""
    return connection.info.transaction_status.name


def near(value: Any, truth: int = PEOPLE) -> bool:
    return isinstance(value, float) and abs(value - truth) < FAR


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    return found if found is not None else missing(name, package)


def missing(what: str, package: str) -> NoReturn:
    pytest.fail(f"{what} is missing: apt-get install {package}", pytrace=False)


# psql -------------------------------------------------------------------------------------------------


def psql(
    server: Server, *commands: str, name: str = "ana", token: str = "", options: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run commands in one session, as a person does who wants bare rows."""
    asked = [word for command in commands for word in ("-c", command)]
    environment = {
        **os.environ, "PGPASSWORD": token or server.tokens[name], "PGOPTIONS": options, "PGUSER": name,
        "PGHOST": "127.0.0.1", "PGPORT": str(server.postgres), "PGDATABASE": "hospital", **more,
    }  # fmt: skip
    command = [
        program("psql", "postgresql-client"),
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "VERBOSITY=verbose",
        *asked,
    ]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def lines(server: Server, *commands: str, options: str = PRICE) -> list[list[str]]:
    """Rows of commands that go well."""
    told = psql(server, *commands, options=options)
    assert told.returncode == 0, told.stderr
    return [line.split("|") for line in told.stdout.splitlines()]


@pytest.mark.parametrize("command", [r"\d", r"\dt", r"\dt public.*"])
def test_psql_lists_the_tables_of_the_policy(server: Server, command: str) -> None:
    assert [line[:3] for line in lines(server, command)] == [
        ["public", "patients", "table"],
        ["public", "visits", "table"],
    ]


@pytest.mark.parametrize("table", COLUMNS)
def test_psql_describes_a_table(server: Server, table: str) -> None:
    assert [line[:2] for line in lines(server, rf"\d {table}")] == [
        [*each] for each in COLUMNS[table].items()
    ]
    assert [line[:2] for line in lines(server, rf"\d+ {table}")] == [
        [*each] for each in COLUMNS[table].items()
    ]


def test_comments_say_what_the_policy_declares(server: Server) -> None:
    told = psql(server, r"\d+ patients", r"\dt+").stdout
    assert "from 0 to 110" in told
    assert "one of: north, east, south, west" in told
    assert "a row belongs to: patient_id; about 2,000 rows" in told
    engine = sqlalchemy.create_engine(url(server, "psycopg"))
    looked = sqlalchemy.inspect(engine)
    assert looked.get_table_comment("visits") == {"text": "a row belongs to: patient_id; about 6,000 rows"}
    assert {each["name"]: each["comment"] for each in looked.get_columns("visits")}[
        "cost"
    ] == "from 0 to 1,000"
    engine.dispose()


def test_psql_says_that_a_table_is_not_there(server: Server) -> None:
    told = psql(server, r"\d nosuch")
    assert (told.returncode, told.stdout) == (1, "")


def test_psql_lists_one_database_one_schema_and_oneself(server: Server) -> None:
    assert [line[0] for line in lines(server, r"\l")] == ["hospital"]
    assert [line[0] for line in lines(server, r"\dn")] == ["public"]
    assert [line[0] for line in lines(server, r"\du")] == ["ana"]


@pytest.mark.parametrize("command", [r"\df", r"\dv", r"\di", r"\ds", r"\dm", r"\dx", r"\dT", r"\da", r"\dE"])
def test_psql_finds_nothing_else(server: Server, command: str) -> None:
    assert lines(server, command) == []


def test_psql_asks_and_is_told_cost_and_error(server: Server) -> None:
    told = psql(server, "SET sfumato.epsilon = '0.5'", fresh())
    assert near(float(told.stdout))
    assert "NOTICE:  00000: Charged epsilon 0.5 (receipt " in told.stderr
    assert "DETAIL:  With probability 0.95: n ± " in told.stderr
    assert "HINT:  SET sfumato.intervals = 'on'" in told.stderr


def test_psql_asks_for_an_error_instead_of_a_price(server: Server) -> None:
    asked = fresh()
    told = psql(server, "SET sfumato.within = '20'", asked)
    assert near(float(told.stdout))
    assert "Charged epsilon 0." in told.stderr
    both = psql(server, "SET sfumato.epsilon = '0.5'", "SET sfumato.within = '20'", asked)
    assert "Free: answered from receipt" in both.stderr
    wrong = psql(server, "SET sfumato.within = 'x'")
    assert 'write an error such as 50 or "2%"' in wrong.stderr


def test_psql_shows_the_ends_of_intervals(server: Server) -> None:
    found = lines(server, "SET sfumato.intervals = on", BY_REGION)
    assert [row[0] for row in found] == ["east", "north", "south", "west"]
    for _, n, n_low, n_high, a, a_low, a_high in found:
        assert float(n_low) < float(n) < float(n_high)
        assert float(a_low) < float(a) < float(a_high)
    told = psql(server, "SET sfumato.intervals = on", r"\pset tuples_only off", BY_REGION, options=PRICE)
    assert "region|n|n_low|n_high|a|a_low|a_high" in told.stdout
    wide = lines(server, "SET sfumato.intervals = on", "SET sfumato.level = '0.999'", BY_REGION)
    assert all(float(row[2]) < float(narrow[2]) for row, narrow in zip(wide, found, strict=True))


def test_notices_can_be_silenced(server: Server) -> None:
    assert psql(server, "SET client_min_messages = warning", fresh(), options=PRICE).stderr == ""


def test_explain_is_free(server: Server, ana: psycopg.Connection[Any]) -> None:
    before, question = spent(ana), fresh()
    told = psql(server, f"EXPLAIN {question}", options=PRICE).stdout
    assert "No row was read and nothing was spent." in told
    assert "n: ± " in told
    assert psql(server, f"EXPLAIN ANALYZE {question}", options=PRICE).stdout == told
    assert spent(ana) == before


def test_show_budget(server: Server, ana: psycopg.Connection[Any]) -> None:
    ((database, currency, total, paid, left, hers),) = lines(server, "SHOW sfumato.budget")
    assert (database, currency, total) == ("hospital", "epsilon", "1000")
    assert Decimal(paid) == spent(ana)
    assert Decimal(left) == Decimal(hers) == 1000 - Decimal(paid)


def test_an_error_points_at_its_place_and_says_what_to_do(server: Server) -> None:
    told = psql(server, "SELECT count(*)\n  FROM patients WHERE agee > 3", options=PRICE).stderr
    assert "ERROR:  42703: there is no column named 'agee'" in told
    first, caret = told[told.index("LINE 2:") :].splitlines()[:2]
    assert first[caret.index("^") :].startswith("agee")
    assert "HINT:  Did you mean age?" in told
    assert "DETAIL:  Nothing was spent and no row was read." in told


def test_an_error_points_at_its_place_behind_other_statements(server: Server) -> None:
    told = psql(server, "SELECT 1; SELECT count(*) FROM patients WHERE agee > 3", options=PRICE).stderr
    first, caret = told[told.index("LINE 1:") :].splitlines()[:2]
    assert first[caret.index("^") :].startswith("agee")


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("DROP TABLE patients", "25006"),
        ("COPY patients TO STDOUT", "25006"),
        ("COPY (SELECT count(*) FROM patients) TO STDOUT", "25006"),
        (r"\copy patients to stdout", "25006"),
        (r"\copy patients from /dev/null", "25006"),
        ("INSERT INTO patients VALUES (1, 2, 'north', true)", "25006"),
        ("CREATE TABLE t (a int)", "25006"),
        ("/* first */ UPDATE patients SET age = 3", "25006"),
        ("LISTEN everything", "0A000"),
        ("DECLARE c CURSOR FOR SELECT count(*) FROM patients", "25P01"),
        ("SELECT count(*) FROM nosuch", "42P01"),
        ("SELECT age FROM patients", "0A000"),
        ("SELECT * FROM patients LIMIT 10", "0A000"),
        ("WITH gone AS (DELETE FROM patients RETURNING *) SELECT count(*) FROM gone", "0A000"),
        ("SELECT pg_read_file('/etc/passwd')", "42883"),
        ("SELECT * FROM read_csv('/etc/passwd')", "0A000"),
        ("SELEC 1", "42601"),
        ("SHOW nosuch", "42704"),
        ("SET sfumato.epsilon = 'much'", "22023"),
        ("SET sfumato.nosuch = 1", "42704"),
    ],
)
def test_what_is_refused_is_refused_by_its_code_and_free(
    server: Server, ana: psycopg.Connection[Any], sql: str, code: str
) -> None:
    before = spent(ana)
    told = psql(server, sql, options=PRICE)
    assert told.returncode != 0
    assert told.stdout == ""
    assert f"ERROR:  {code}: " in told.stderr
    assert spent(ana) == before


def test_a_question_without_a_price_is_told_how_to_give_one(server: Server) -> None:
    told = psql(server, fresh()).stderr
    assert "ERROR:  22023: this question has no price" in told
    assert "HINT:  SET sfumato.epsilon = '0.1'" in told


@pytest.mark.parametrize("way", ["SELECT * FROM patients LIMIT 0", "SELECT * FROM patients WHERE 1 = 0"])
def test_names_and_types_of_rows_need_no_price(
    server: Server, ana: psycopg.Connection[Any], way: str
) -> None:
    before = spent(ana)
    with psycopg.connect(server.dsn("ana"), autocommit=True) as connection:
        found = connection.execute(way)
        assert found.fetchall() == []
        told = [(each.name, each.type_display) for each in found.description or ()]
        assert connection.execute("SELECT DISTINCT region FROM patients").fetchall()
    assert ("age", "int8") in told
    assert ("region", "text") in told
    assert spent(ana) == before


@pytest.mark.parametrize("sql", ["SET epsilon = 0.1", "SET sfumato_epsilon = 0.1"])
def test_a_setting_by_half_its_name_is_told_the_whole(server: Server, sql: str) -> None:
    told = psql(server, sql)
    assert "the setting is called sfumato.epsilon" in told.stderr
    told = psql(server, "SET sfumato.rho = '0.1'", "SELECT count(*) FROM patients")
    assert "you set sfumato.rho, and this budget is counted in epsilon" in told.stderr
    assert "Did you mean sfumato.budget" in psql(server, "SHOW sfumato.budgt").stderr


def test_more_than_is_left_is_not_spent(server: Server, ana: psycopg.Connection[Any]) -> None:
    before = spent(ana)
    told = psql(server, "SET sfumato.epsilon = '5000'", fresh()).stderr
    assert "ERROR:  53400: this query asks for epsilon 5000, but 'hospital' has only epsilon " in told
    assert spent(ana) == before


@pytest.mark.parametrize(
    ("who", "database", "token"),
    [
        ("ana", "hospital", "wrong"),
        ("ana", "nosuch", ""),
        ("nobody", "hospital", "wrong"),
        ("ana", "", "sfu_a_b"),
    ],
)
def test_whoever_is_not_known_stays_out_and_learns_nothing(
    server: Server, who: str, database: str, token: str
) -> None:
    told = psql(
        server, "SELECT 1", name=who, token=token or server.tokens["ana"], PGDATABASE=database or "hospital"
    )
    assert told.returncode == 2
    assert told.stdout == ""
    assert "the user name, the database or the token is wrong" in told.stderr
    assert "The owner adds users: sfumato user add POLICY NAME" in told.stderr


def test_whoever_is_revoked_is_thrown_out(server: Server) -> None:
    server.let_in("eva")
    command = [program("psql", "postgresql-client"), "-X", "-q", "-A", "-t", server.dsn("eva", options=PRICE)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("SELECT 41 + 1;\n")
        process.stdin.flush()
        assert process.stdout.readline() == "42\n"
        People.beside(server.policy).revoke("eva")
        told, errors = process.communicate("SELECT 1;\nSELECT 2;\n", timeout=30)
    assert told == ""
    assert "the token of this session was revoked or has expired" in errors
    assert process.returncode != 0
    assert "the user name, the database or the token is wrong" in psql(server, "SELECT 1", name="eva").stderr


def test_statements_in_one_text_are_done_one_after_the_other_until_one_fails(server: Server) -> None:
    told = psql(server, "SELECT 1; SELECT ';' AS a; -- ;\nSELECT nosuch; SELECT 3", options=PRICE)
    assert told.stdout.split() == ["1", ";"]
    assert "ERROR:  42703: there is no column named 'nosuch'" in told.stderr


def test_psql_describes_columns_without_asking(server: Server, ana: psycopg.Connection[Any]) -> None:
    before = spent(ana)
    environment = {**os.environ, "PGOPTIONS": PRICE}
    told = subprocess.run(
        [program("psql", "postgresql-client"), "-X", "-q", "-A", "-t", server.dsn("ana")],
        input=BY_REGION.replace("age", "age + 1") + r" \gdesc",
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert told.stdout.splitlines() == ["region|text", "n|double precision", "a|double precision"]
    assert spent(ana) == before


# psycopg ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_psycopg_reads_every_type(ana: psycopg.Connection[Any], binary: bool) -> None:
    cursor = ana.cursor(binary=binary)
    found = cursor.execute(BY_REGION).fetchall()
    assert [row[0] for row in found] == ["east", "north", "south", "west"]
    assert all(near(n, PEOPLE // 4) and isinstance(a, float) for _, n, a in found)
    assert [each.type_code for each in cursor.description or ()] == [25, 701, 701]
    sql = "SELECT diabetic, age, count(*) AS n FROM patients WHERE age IN (3, 4) GROUP BY diabetic, age"
    kept = cursor.execute(sql).fetchall()
    assert {row[:2] for row in kept} == {(is_, age) for is_ in (False, True) for age in (3, 4)}
    assert [each.type_code for each in cursor.description or ()] == [16, 20, 701]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(
    "value",
    [
        1, 40_000, 3_000_000_000, -7, 10**20, 1.5, 1e-300, True, False, None, Decimal("12345.678"),
        Decimal("-0.00012"), datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC), [1, 2, None], [1.5],
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_comes_back_as_it_was_sent(ana: psycopg.Connection[Any], binary: bool, value: object) -> None:
    row = ana.cursor(binary=binary).execute("SELECT %s", (value,)).fetchone()
    assert row == (value,)
    text = ana.cursor(binary=binary).execute("SELECT %s::text", ('"it\'s" \\ %; -- $1 é',)).fetchone()
    assert text == ('"it\'s" \\ %; -- $1 é',)


def test_a_text_of_no_type_is_a_text(ana: psycopg.Connection[Any]) -> None:
    cursor = ana.cursor(binary=True)
    assert cursor.execute("SELECT %s", ("a",)).fetchone() == ("a",)


@pytest.mark.parametrize("way", ["t", "b"], ids=["text", "binary"])
@pytest.mark.parametrize(
    ("condition", "value", "truth"),
    [
        ("patients WHERE age > %", 49, 1000),
        ("patients WHERE age < %", 40_000, PEOPLE),
        ("patients WHERE patient_id < %", 3_000_000_000, PEOPLE),
        ("patients WHERE age > %", -5, PEOPLE),
        ("patients WHERE age - % > 500", -1000, PEOPLE),
        ("patients WHERE region = %", "north", PEOPLE // 4),
        ("patients WHERE region <> %", 'it\'s "north"; -- $1 \\ é', PEOPLE),
        ("patients WHERE region LIKE %", "n%", PEOPLE // 4),
        ("patients WHERE diabetic = %", True, PEOPLE // 10),
        ("patients WHERE diabetic = %", False, PEOPLE * 9 // 10),
        ("visits WHERE cost < %", 500.5, 3000),
        ("visits WHERE cost < %", Decimal("500.25"), 3000),
        ("visits WHERE cost > %", 1e-7, 6000),
        ("visits WHERE day >= %", datetime.date(2025, 1, 1), 6000),
        ("visits WHERE seen > %", datetime.datetime(2025, 1, 1, 7, 59, 59, 999999), 6000),
        ("visits WHERE seen > %", datetime.datetime(2025, 1, 1, 8), 0),
    ],
)
def test_values_of_every_type_are_understood(
    ana: psycopg.Connection[Any], condition: str, value: object, truth: int, way: str
) -> None:
    found = one(ana, f"SELECT count(*) AS n FROM {condition.replace('%', '%' + way)}", value)
    assert near(found, truth) or abs(found - truth) < 3 * FAR  # a visit moves by up to four, and hashes vary


def test_a_value_is_the_same_question_as_its_text(ana: psycopg.Connection[Any]) -> None:
    ready = one(ana, "SELECT count(*) AS n FROM visits WHERE day >= DATE '2025-03-01' AND cost < 500")
    before = spent(ana)
    sql = "SELECT count(*) AS n FROM visits WHERE day >= %s AND cost < %s"
    assert one(ana, sql, datetime.date(2025, 3, 1), 500) == ready
    assert one(ana, sql, datetime.date(2025, 3, 1), 500.0) == ready
    assert one(ana, sql, "2025-03-01", 500) == ready
    assert spent(ana) == before


@pytest.mark.parametrize("way", ["t", "b"], ids=["text", "binary"])
def test_a_moment_with_a_zone_is_that_moment(ana: psycopg.Connection[Any], way: str) -> None:
    moment = datetime.datetime(2025, 1, 1, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert one(ana, f"SELECT %{way}", moment) == moment
    assert abs(one(ana, f"SELECT count(*) AS n FROM visits WHERE seen > %{way}", moment) - 6000) < FAR


def test_values_may_stand_close_together(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE region IN (%s,%s)"
    assert near(one(ana, sql, "north", "west"), PEOPLE // 2)


def test_a_list_of_values(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE region IN (%s, %s) AND age BETWEEN %s AND %s"
    assert near(one(ana, sql, "north", "west", 0, 110), PEOPLE // 2)


@pytest.mark.parametrize("way", ["s", "t", "b"])
def test_a_list_as_one_value(ana: psycopg.Connection[Any], way: str) -> None:
    listed = one(ana, "SELECT count(*) AS n FROM patients WHERE region IN ('north', 'west')")
    before = spent(ana)
    for cast in ("", "::text[]"):
        sql = f"SELECT count(*) AS n FROM patients WHERE region = ANY(%{way}{cast})"
        assert one(ana, sql, ["north", "west"]) == listed
        assert one(ana, sql, ["west", "north", "west"]) == listed
    assert spent(ana) == before
    sql = f"SELECT count(*) AS n FROM patients WHERE age <> ALL(%{way}) AND region <> ALL(%{way})"
    assert near(one(ana, sql, [200, 201], ["north"]), PEOPLE * 3 // 4)
    odd = ["a,b", '{"}', "it's", "back\\slash", "NULL", "", " north ", "null"]
    assert near(one(ana, f"SELECT count(*) AS n FROM patients WHERE region = ANY(%{way})", odd), 0)
    for numbers in ([1, 2], [1.5, 2.0], [Decimal("1.5")]):
        for cast in ("", "::float8[]", "::numeric[]"):
            found = one(ana, f"SELECT count(*) AS n FROM visits WHERE cost = ANY(%{way}{cast})", numbers)
            assert abs(found) < 3 * FAR
    days = [datetime.date(2025, 1, 1), datetime.date(1999, 1, 1)]
    assert one(ana, f"SELECT count(*) AS n FROM visits WHERE day = ANY(%{way})", days) > -FAR
    assert near(one(ana, f"SELECT count(*) AS n FROM patients WHERE region = ANY(%{way})", []), 0)


@pytest.mark.parametrize(
    ("sql", "value", "code"),
    [
        ("age > %s", "many", "22023"),
        ("age = %s", None, "0A000"),
        ("age < %s", 10**20, "0A000"),
        ("age = ANY(%s)", ["many"], "22023"),
        ("age = ANY(%s)", [None], "0A000"),
        ("age = ANY(%s)", [[1, 2], [3, 4]], "22023"),
        ("region = ANY(%s)", [["north"], ["west"]], "22023"),
        ("region = ANY(%s)", [b"north"], "22023"),
        ("age = %s", [1, 2], "0A000"),
        ("region = %s", b"north", "22023"),
    ],
)
def test_a_value_that_fits_nothing_is_refused_and_free(
    ana: psycopg.Connection[Any], sql: str, value: object, code: str
) -> None:
    before = spent(ana)
    with pytest.raises(psycopg.Error) as error:
        ana.execute(f"SELECT count(*) FROM patients WHERE {sql}", (value,))
    assert error.value.sqlstate == code
    assert spent(ana) == before


def test_prepared_statements_are_asked_by_name(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > %s"
    for age in (20, 30, 20):
        assert near(ana.execute(sql, (age,), prepare=True).fetchone()[0], PEOPLE * (99 - age) // 100)  # type: ignore[index]
    assert (
        ana.execute(sql, (20,), prepare=True).fetchone() == ana.execute(sql, (20,), prepare=False).fetchone()
    )


def test_after_five_executions_psycopg_prepares_and_nothing_changes(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > %s AND region = %s"
    found = [one(ana, sql, 50, "north") for _ in range(10)]
    assert len(set(found)) == 1
    paid = spent(ana)
    assert [one(ana, sql, 51 + i % 2, "north") for i in range(10)]
    assert spent(ana) == paid + 2 * Decimal("0.5")


def test_rollback_refunds_nothing(server: Server) -> None:
    with psycopg.connect(server.dsn("ana", options=PRICE)) as connection:
        before, question = spent(connection), fresh()
        found = one(connection, question)
        connection.rollback()
        assert spent(connection) == before + Decimal("0.5")
        assert one(connection, question) == found
        assert spent(connection) == before + Decimal("0.5")


def test_transactions_and_savepoints(server: Server) -> None:
    with psycopg.connect(server.dsn("ana", options=PRICE)) as connection:
        with connection.transaction():
            with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
                connection.execute("SELECT count(*) FROM patients WHERE agee > 3")
            assert one(connection, "SELECT 3") == 3
            assert state(connection) == "INTRANS"
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT count(*) FROM nosuch")
        assert state(connection) == "INERROR"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert one(connection, "SELECT 1") == 1


def test_a_price_of_a_transaction_ends_with_it(ana: psycopg.Connection[Any]) -> None:
    ana.execute("BEGIN; SET LOCAL sfumato.epsilon = '9'; COMMIT")
    assert one(ana, "SHOW sfumato.epsilon") == "0.5"


def test_a_price_goes_back_to_a_savepoint(server: Server) -> None:
    def price(connection: psycopg.Connection[Any]) -> str:
        found: str = one(connection, "SHOW sfumato.epsilon")
        return found

    with psycopg.connect(server.dsn("ana", options=PRICE)) as connection:
        with connection.transaction():
            connection.execute("SET sfumato.epsilon = '1'")
            with connection.transaction(force_rollback=True):
                connection.execute(
                    "SET sfumato.epsilon = '2'; SAVEPOINT \"A b\"; SET LOCAL sfumato.epsilon = '3'"
                )
                assert price(connection) == "3"
                connection.execute('ROLLBACK TO "A b"')
                assert price(connection) == "2"
                connection.execute('SET sfumato.epsilon = 4; ROLLBACK WORK TO SAVEPOINT "A b"')
                assert price(connection) == "2"
            assert price(connection) == "1"
            with pytest.raises(psycopg.errors.InvalidSavepointSpecification), connection.transaction():
                connection.execute('RELEASE "A b"')
        assert price(connection) == "1"
        connection.rollback()
        for sql in ("SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"):
            connection.autocommit = True
            with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
                connection.execute(sql)


def test_a_price_is_rolled_back(server: Server) -> None:
    """Pools roll back what they get back: the price of one must not be that of the next."""
    engine = sqlalchemy.create_engine(url(server, "psycopg"), connect_args={"options": PRICE})
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SET sfumato.epsilon = '9'"))
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SHOW sfumato.epsilon")) == "0.5"
    finally:
        engine.dispose()


def test_settings_go_back_to_what_the_connection_began_with(ana: psycopg.Connection[Any]) -> None:
    for ending in ("RESET sfumato.epsilon", "RESET ALL", "DISCARD ALL"):
        ana.execute("SET sfumato.epsilon = '9'")
        ana.execute(ending)
        assert one(ana, "SHOW sfumato.epsilon") == "0.5"
    ana.execute("SELECT set_config('sfumato.epsilon', %s, false)", ("0.25",))
    assert one(ana, "SELECT current_setting('sfumato.epsilon')") == "0.25"


def test_an_error_tells_code_place_hint_and_detail(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) /* é */ FROM patients WHERE agee > 3"
    with pytest.raises(psycopg.errors.UndefinedColumn) as error:
        ana.execute(sql)
    told = error.value.diag
    assert told.sqlstate == "42703"
    assert told.message_hint == "Did you mean age?"
    assert told.message_detail == "Nothing was spent and no row was read."
    assert told.statement_position == str(sql.index("agee") + 1)


def test_an_error_tells_its_place_in_the_extended_protocol_too(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) FROM patients WHERE agee > 3"
    with pytest.raises(psycopg.errors.UndefinedColumn) as error:
        ana.cursor(binary=True).execute(sql)
    assert error.value.diag.statement_position == str(sql.index("agee") + 1)


def test_nobody_is_told_where_things_are_on_this_machine(
    server: Server, ana: psycopg.Connection[Any]
) -> None:
    with pytest.raises(psycopg.Error) as error:
        ana.execute("SELECT day, count(*) AS n FROM visits GROUP BY day")
    assert str(server.policy.parent) not in str(error.value)


def test_a_pipeline(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > %s"
    with ana.pipeline():
        cursors = [ana.execute(sql, (age,)) for age in (10, 20, 30)]
        ready = [cursor.fetchone() for cursor in cursors]
    assert ready == [ana.execute(sql, (age,)).fetchone() for age in (10, 20, 30)]
    with pytest.raises(psycopg.errors.UndefinedTable), ana.pipeline():  # noqa: PT012 (the first and last go well)
        ana.execute(sql, (10,))
        ana.execute("SELECT count(*) FROM nosuch")
        ana.execute(sql, (20,))
    assert one(ana, "SELECT 5") == 5


def test_executemany(ana: psycopg.Connection[Any]) -> None:
    sql = "SELECT count(*) AS n FROM patients WHERE age > %s"
    with ana.cursor() as cursor:
        cursor.executemany(sql, [(10,), (20,)], returning=True)
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
    assert found == [ana.execute(sql, (age,)).fetchall() for age in (10, 20)]


def test_what_a_connection_says_of_itself(server: Server, ana: psycopg.Connection[Any]) -> None:
    info = ana.info
    assert info.server_version == 150000
    assert (info.dbname, info.user, info.port, info.encoding) == ("hospital", "ana", server.postgres, "utf-8")
    assert info.backend_pid in server.workers()
    assert info.parameter_status("integer_datetimes") == "on"
    assert info.parameter_status("TimeZone") == "UTC"
    asked = (
        "SELECT current_user, current_database(), current_schema(), pg_catalog.version() LIKE '%%Sfumato%%'"
    )
    assert ana.execute(asked, ()).fetchone() == ("ana", "hospital", "public", True)


@pytest.mark.parametrize("sql", ["COPY patients TO STDOUT", "COPY patients FROM STDIN"])
def test_copy_is_refused_and_the_connection_lives(ana: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), ana.cursor().copy(sql):
        pass
    assert one(ana, "SELECT 1") == 1


@pytest.mark.parametrize(
    "binary",
    [False, True],
    ids=["text", "binary"],
)
@pytest.mark.parametrize("sql", ["SELECT 2147483647 + 1", "SELECT 99999::int2", "SELECT -1::oid"])
def test_a_number_too_large_for_its_type_is_an_error(
    ana: psycopg.Connection[Any], sql: str, binary: bool
) -> None:
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        ana.cursor(binary=binary).execute(sql)
    assert one(ana, "SELECT 1") == 1


def test_nothing_is_something_that_can_be_asked(ana: psycopg.Connection[Any]) -> None:
    for sql in ("", ";", " -- nothing", "/* nothing */;"):
        assert ana.execute(sql).description is None
    assert one(ana, "/* a; b */ SELECT 1; -- c") == 1


def test_rows_are_streamed(ana: psycopg.Connection[Any]) -> None:
    assert list(ana.cursor().stream(BY_REGION)) == ana.execute(BY_REGION).fetchall()


# SQLAlchemy and pandas --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(server: Server) -> Iterator[Engine]:
    made = sqlalchemy.create_engine(url(server, "psycopg"), connect_args={"options": PRICE})
    yield made
    made.dispose()


def url(server: Server, driver: str) -> sqlalchemy.URL:
    return sqlalchemy.URL.create(
        f"postgresql+{driver}", "ana", server.tokens["ana"], "127.0.0.1", server.postgres, "hospital"
    )


SHAPES = {
    "patients": {"patient_id": "BIGINT", "age": "BIGINT", "region": "TEXT", "diabetic": "BOOLEAN"},
    "visits": {
        "patient_id": "BIGINT", "ward": "TEXT", "day": "DATE", "cost": "DOUBLE PRECISION",
        "seen": "TIMESTAMP",
    },
}  # fmt: skip
PATIENTS = sqlalchemy.table(
    "patients",
    sqlalchemy.column("age", sqlalchemy.BigInteger),
    sqlalchemy.column("region", sqlalchemy.Text),
    sqlalchemy.column("diabetic", sqlalchemy.Boolean),
)
SOME = (
    sqlalchemy.select(PATIENTS.c.region, sqlalchemy.func.count().label("n"))
    .where(PATIENTS.c.age > 40, PATIENTS.c.region.in_(["north", "east"]))
    .group_by(PATIENTS.c.region)
    .order_by(PATIENTS.c.region)
)


def shapes(metadata: sqlalchemy.MetaData) -> dict[str, dict[str, str]]:
    return {t.name: {c.name: str(c.type) for c in t.columns} for t in metadata.tables.values()}


def test_sqlalchemy_inspects_the_policy(engine: Engine) -> None:
    seen = sqlalchemy.inspect(engine)
    assert seen.get_table_names() == ["patients", "visits"]
    assert seen.get_schema_names() == ["information_schema", "public"]
    assert {each["name"]: str(each["type"]) for each in seen.get_columns("visits")} == SHAPES["visits"]
    assert seen.has_table("patients")
    assert not seen.has_table("nosuch")
    assert seen.get_pk_constraint("patients")["constrained_columns"] == []
    nothing: list[Callable[[str], object]] = [
        seen.get_foreign_keys, seen.get_indexes, seen.get_unique_constraints, seen.get_check_constraints,
    ]  # fmt: skip
    assert [ask("patients") for ask in nothing] == [[], [], [], []]
    assert (seen.get_view_names(), seen.get_sequence_names()) == ([], [])


def test_sqlalchemy_reflects_the_policy(engine: Engine) -> None:
    for schema in (None, "public"):
        metadata = sqlalchemy.MetaData()
        metadata.reflect(engine, schema=schema, views=True)
        assert shapes(metadata) == SHAPES


def test_sqlalchemy_selects_with_bound_values(engine: Engine) -> None:
    patients = sqlalchemy.Table("patients", sqlalchemy.MetaData(), autoload_with=engine)
    total = sqlalchemy.select(sqlalchemy.func.count()).select_from(patients)
    with engine.connect() as connection:
        (east, many), (north, _) = connection.execute(SOME).all()
        assert (east, north) == ("east", "north")
        assert near(many, PEOPLE * 59 // 400)
        assert near(connection.scalar(total.where(patients.c.diabetic.is_(True))), PEOPLE // 10)
        assert near(connection.scalar(total.where(patients.c.age.between(0, 110))))
        assert near(
            connection.scalar(total.where(sqlalchemy.not_(patients.c.region == "north"))), PEOPLE * 3 // 4
        )
    with engine.connect() as connection:  # from the pool
        assert connection.execute(SOME).all()[0][1] == many


def test_sqlalchemy_limits(engine: Engine) -> None:
    with engine.connect() as connection:
        assert len(connection.execute(SOME.limit(1)).all()) == 1


def test_sqlalchemy_says_why_no_rows_are_handed_out(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(DBAPIError, match="Add COUNT"):
        connection.execute(sqlalchemy.select(PATIENTS))


def test_pandas_reads_answers(engine: Engine) -> None:
    frame = pandas.read_sql(BY_REGION, engine)
    assert list(frame.columns) == ["region", "n", "a"]
    assert list(frame["region"]) == ["east", "north", "south", "west"]
    assert [str(frame[each].dtype) for each in ("n", "a")] == ["float64", "float64"]
    asked = sqlalchemy.text("SELECT count(*) AS n FROM patients WHERE age > :age")
    assert near(float(pandas.read_sql_query(asked, engine, params={"age": 49})["n"].iloc[0]), 1000)


def test_pandas_says_why_no_table_is_handed_out(engine: Engine) -> None:
    refused = pytest.raises(Exception, match="only aggregates over many rows are released")
    with refused:
        pandas.read_sql_table("patients", engine)
    with refused:
        pandas.read_sql("visits", engine)
    with pytest.raises(DBAPIError, match="CREATE is not allowed: only SELECT is answered"):
        pandas.DataFrame({"a": [1]}).to_sql("x", engine)


def asynchronously(server: Server, act: Callable[[AsyncEngine], Awaitable[Any]]) -> Any:
    """Do something with SQLAlchemy on asyncpg."""
    if importlib.util.find_spec("greenlet") is None:
        pytest.fail("greenlet is missing: pip install 'sqlalchemy[asyncio]'", pytrace=False)
    from sqlalchemy.ext.asyncio import create_async_engine  # cannot be imported where greenlet is missing

    async def run() -> Any:
        made = create_async_engine(
            url(server, "asyncpg"), connect_args={"server_settings": {"sfumato.epsilon": "0.5"}}
        )
        try:
            return await act(made)
        finally:
            await made.dispose()

    return asyncio.run(run())


def test_sqlalchemy_on_asyncpg_asks(server: Server) -> None:
    async def ask(engine: AsyncEngine) -> Any:
        asked = sqlalchemy.text("SELECT count(*) AS n FROM patients WHERE age > :age")
        async with engine.connect() as connection:
            return (await connection.execute(asked, {"age": 49})).scalar()

    assert near(asynchronously(server, ask), 1000)


def test_sqlalchemy_on_asyncpg_reflects(server: Server) -> None:
    async def ask(engine: AsyncEngine) -> Any:
        metadata = sqlalchemy.MetaData()
        async with engine.connect() as connection:
            await connection.run_sync(metadata.reflect)
        return shapes(metadata)

    assert asynchronously(server, ask) == SHAPES


def test_sqlalchemy_on_asyncpg_selects_with_bound_values(server: Server) -> None:
    async def ask(engine: AsyncEngine) -> Any:
        async with engine.connect() as connection:
            return [tuple(row) for row in (await connection.execute(SOME)).all()]

    assert [row[0] for row in asynchronously(server, ask)] == ["east", "north"]


# asyncpg ----------------------------------------------------------------------------------------------


def with_asyncpg(server: Server, act: Callable[[asyncpg.Connection], Awaitable[Any]]) -> Any:
    """Do something on a connection of asyncpg."""

    async def run() -> Any:
        connection = await asyncpg.connect(**access(server))
        try:
            return await act(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


def access(server: Server) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": server.postgres, "user": "ana", "database": "hospital",
        "password": server.tokens["ana"], "server_settings": {"sfumato.epsilon": "0.5"},
    }  # fmt: skip


def test_asyncpg_fetches_with_values(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        found = await connection.fetch(BY_REGION)
        assert [row["region"] for row in found] == ["east", "north", "south", "west"]
        assert all(near(row["n"], PEOPLE // 4) and isinstance(row["a"], float) for row in found)
        where = "SELECT count(*) AS n FROM patients WHERE region IN ($1, $2) AND diabetic = $3 AND age > $4"
        assert near(await connection.fetchval(where, "north", "east", False, 0), 891)
        where = "SELECT count(*) AS n FROM visits WHERE day >= $1 AND cost < $2 AND seen >= $3"
        dates = datetime.date(2025, 1, 1), 2000.5, datetime.datetime(2025, 1, 1)
        assert abs(await connection.fetchval(where, *dates) - 6000) < 3 * FAR
        where = "SELECT count(*) AS n FROM patients WHERE region = ANY($1) AND age <> ALL($2::int[])"
        assert near(await connection.fetchval(where, ["north", "east"], [200]), PEOPLE // 2)
        limited = "SELECT region, count(*) AS n FROM patients GROUP BY region ORDER BY n LIMIT $1"
        assert len(await connection.fetch(limited, 2)) == 2

    with_asyncpg(server, ask)


def test_asyncpg_prepares(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        prepared = await connection.prepare(
            "SELECT count(*) AS n FROM patients WHERE age > $1 AND region = $2"
        )
        assert [each.name for each in prepared.get_parameters()] == ["int8", "text"]
        assert [(each.name, each.type.name) for each in prepared.get_attributes()] == [("n", "float8")]
        assert await prepared.fetchval(40, "north") == await prepared.fetchval(40, "north")
        for age in (10, 20):  # the second comes from the cache of statements
            assert near(
                await connection.fetchval("SELECT count(*) FROM patients WHERE age > $1", age),
                1900 - 20 * (age - 5),
            )
        await connection.execute("SET sfumato.intervals = on")  # the columns of what was prepared change
        assert list((await connection.fetch(BY_REGION))[0].keys()) == [
            "region", "n", "n_low", "n_high", "a", "a_low", "a_high",
        ]  # fmt: skip

    with_asyncpg(server, ask)


def test_asyncpg_transactions(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            found = await connection.fetchval(question)
            with pytest.raises(asyncpg.UndefinedColumnError):
                async with connection.transaction():
                    await connection.fetchval("SELECT count(*) FROM patients WHERE agee > 3")
            assert await connection.fetchval("SELECT 3") == 3
        rolled_back = connection.transaction(isolation="serializable", readonly=True)
        await rolled_back.start()
        assert await connection.fetchval(question) == found
        await rolled_back.rollback()
        assert await connection.fetchval(question) == found
        async with connection.transaction():
            assert [row async for row in connection.cursor(BY_REGION, prefetch=2)] == await connection.fetch(
                BY_REGION
            )

    question = fresh()
    with_asyncpg(server, ask)


def test_a_pool_of_asyncpg_resets_what_was_set(server: Server) -> None:
    async def ask() -> None:
        async with asyncpg.create_pool(**access(server), min_size=1, max_size=3) as pool:
            async with pool.acquire() as connection:
                await connection.execute("SET sfumato.epsilon = '9'")
            async with pool.acquire() as connection:
                assert await connection.fetchval("SHOW sfumato.epsilon") == "0.5"
            assert len(set(await asyncio.gather(*(pool.fetchval(question) for _ in range(8))))) == 1

    question = fresh()
    with connected(server) as ana:
        one(ana, question)
    asyncio.run(ask())


def test_asyncpg_gives_up_waiting_and_finds_the_answer_later(slow: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        with pytest.raises(TimeoutError):
            await connection.fetchval(question, timeout=0.2)
        await asyncio.sleep(DEADLINE + 0.8)
        assert near(await connection.fetchval(question))

    question = fresh()
    with_asyncpg(slow, ask)


def test_asyncpg_asks_for_a_quantile(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        middle = await connection.fetchval("SELECT quantile(age, $1) AS q FROM patients", 0.5)
        assert middle == await connection.fetchval("SELECT quantile(age, 0.5) AS q FROM patients")

    with_asyncpg(server, ask)


def test_asyncpg_reads_columns_of_types_that_it_has_to_ask_for(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        found = await connection.fetch("SELECT relname, relacl FROM pg_catalog.pg_class ORDER BY relname")
        assert [tuple(row) for row in found] == [("patients", None), ("visits", None)]

    with_asyncpg(server, ask)


def test_asyncpg_is_refused_what_psql_is_refused(server: Server) -> None:
    async def ask(connection: asyncpg.Connection) -> None:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.copy_from_query("SELECT count(*) FROM patients", output=os.devnull)
        with pytest.raises(asyncpg.FeatureNotSupportedError):
            await connection.fetch("SELECT * FROM patients")
        assert await connection.fetchval("SELECT 1") == 1

    with_asyncpg(server, ask)


# JDBC -------------------------------------------------------------------------------------------------

NO_ROWS = {  # calls that work on PostgreSQL and not here: they want rows, or values that no question takes
    "PreparedStatement setNull, setBigDecimal": "nothing equals NULL",
    "PreparedStatement.getMetaData without execution": "the query has no aggregate",
    "Statement.setMaxRows": "the query has no aggregate",
    "getObject of every type": "the query has no aggregate",
    "ResultSetMetaData of SELECT * FROM patients": "* would show rows",
    "ResultSetMetaData of SELECT * FROM visits": "* would show rows",
}
NOWHERE = {"getRowIdLifetime", "getSuperTables", "getAttributes", "syntax error", "unknown table"}
JDBC = {
    "bigint": "int8",
    "double precision": "float8",
    "boolean": "bool",
    "timestamp without time zone": "timestamp",
}


@pytest.fixture(scope="module")
def told(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What Metadata.java tells, by call."""
    if not JAR.exists():
        missing(str(JAR), "libpostgresql-jdbc-java")
    folder = tmp_path_factory.mktemp("java")
    compiled = [program("javac", "default-jdk-headless"), "-d", str(folder), str(HERE / "Metadata.java")]
    subprocess.run(compiled, check=True, timeout=120)
    where = f"jdbc:postgresql://127.0.0.1:{server.postgres}/hospital?options=-c%20sfumato.epsilon=0.5"
    asked = ["-cp", f"{JAR}:{folder}", "Metadata", where, "ana", server.tokens["ana"]]
    java = program("java", "default-jre-headless")
    ran = subprocess.run([java, *asked], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return {each["call"]: each for each in map(json.loads, ran.stdout.splitlines())}


def test_jdbc_fails_only_where_it_fails_on_postgresql_or_wants_rows(told: dict[str, dict[str, Any]]) -> None:
    failed = {call: each["error"] for call, each in told.items() if "error" in each}
    assert set(failed) == NOWHERE | set(NO_ROWS)
    assert all(reason in failed[call] for call, reason in NO_ROWS.items())
    assert failed["syntax error"].startswith("42601 ")
    assert failed["unknown table"].startswith("42P01 ")


def test_jdbc_reports_the_tables_of_the_policy(told: dict[str, dict[str, Any]]) -> None:
    for call in ("getTables(null, null, %, TABLE)", "getTables(hospital, public, %, shown)"):
        assert [row[1:4] for row in told[call]["rows"]] == [["public", name, "TABLE"] for name in COLUMNS]
    assert [row[2] for row in told["getTables(null, public, patients, null)"]["rows"]] == ["patients"]
    assert told["getTables(null, null, nosuch, null)"]["rows"] == []
    names = told["getColumns(null, public, %, %)"]["columns"]
    seen = [dict(zip(names, row, strict=True)) for row in told["getColumns(null, public, %, %)"]["rows"]]
    assert [(each["TABLE_NAME"], each["COLUMN_NAME"], each["TYPE_NAME"]) for each in seen] == [
        (table, name, JDBC.get(kind, kind))
        for table, columns in COLUMNS.items()
        for name, kind in columns.items()
    ]


@pytest.mark.parametrize(
    "call",
    ["getPrimaryKeys", "getIndexInfo", "getImportedKeys", "getExportedKeys", "getFunctions(null, public, %)"],
)
def test_jdbc_finds_nothing_that_the_policy_does_not_declare(
    told: dict[str, dict[str, Any]], call: str
) -> None:
    assert told[call]["rows"] == []


def test_jdbc_asks_with_values_by_text_and_by_bytes(told: dict[str, dict[str, Any]]) -> None:
    found = [float(row[0]) for row in told["PreparedStatement setInt 6 times"]["rows"]]
    assert all(near(value, 1980 - 20 * age) for age, value in enumerate(found, 1))
    assert len(told["PreparedStatement setLong, setString, setBoolean 6 times"]["rows"]) == 6
    assert len(told["PreparedStatement setDate, setDouble, setTimestamp 6 times"]["rows"]) == 6
    assert told["setFetchSize (a portal read in parts)"]["rows"] == [["1"], ["2"], ["3"], ["4"], ["5"]]
    assert told["an error ends the transaction"]["rows"] == [["42P01"]]


def test_jdbc_gets_the_isolation_that_it_set(told: dict[str, dict[str, Any]]) -> None:
    assert told["setTransactionIsolation(SERIALIZABLE)"]["rows"] == [["8"]]


# One budget, one answer -------------------------------------------------------------------------------


def test_psql_pandas_and_http_get_the_same_numbers_for_one_price(
    server: Server, ana: psycopg.Connection[Any], engine: Engine
) -> None:
    before = spent(ana)
    what = "region, count(*) AS n, sum(age) AS s"
    sql = f"SELECT {what} FROM patients WHERE patient_id >= 0 GROUP BY region ORDER BY region"
    first = [(region, float(n), float(s)) for region, n, s in lines(server, sql)]
    frame = pandas.read_sql(sql, engine)
    status, body = server.release(server.tokens["ana"], sql, "0.5")
    assert status == 200, body
    assert list(frame.itertuples(index=False, name=None)) == first
    assert ana.cursor(binary=True).execute(sql).fetchall() == first
    assert [(row["region"], row["n"], row["s"]) for row in body["rows"]] == first
    assert spent(ana) == before + Decimal("0.5")


BY_ROW = """
[source]
duckdb = "hospital.duckdb"

[budget]
epsilon = "1000"

[tables.births]
unit = "row"
rows = 2_000

[tables.births.columns]
weight = { type = "integer", low = 0, high = 6000 }
"""


@pytest.fixture(scope="module")
def by_row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a table of which every row is a person, so that nobody is scaled down."""
    folder = tmp_path_factory.mktemp("by_row")
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute(f"CREATE TABLE births AS SELECT 3000 AS weight FROM range({PEOPLE})")
    policy = folder / "hospital.toml"
    policy.write_text(BY_ROW, encoding="utf-8")
    with serving(folder, "--no-deadlines", policy=policy) as made:
        made.let_in("ana")
        yield made


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(
    ("what", "oid", "kind", "truth", "far"),
    [
        ("COUNT(*)", 20, int, PEOPLE, FAR),
        ("SUM(weight)", 20, int, 3000 * PEOPLE, 6000 * FAR),
        ("AVG(weight)", 701, float, 3000, 3 * FAR),
    ],
)
def test_where_every_row_is_a_person_counts_and_sums_are_whole(
    by_row: Server, what: str, oid: int, kind: type[float], truth: int, far: int, binary: bool
) -> None:
    sql = f"SELECT {what} AS x FROM births"
    with connected(by_row) as connection:
        cursor = connection.cursor(binary=binary)
        ((found,),) = cursor.execute(sql).fetchall()
        assert [each.type_code for each in cursor.description or ()] == [oid]
    assert isinstance(found, kind)
    assert abs(found - truth) < far
    status, body = by_row.release(by_row.tokens["ana"], sql, "0.5")
    assert status == 200, body
    assert [row["x"] for row in body["rows"]] == [found]


# Cancelling, and several workers ----------------------------------------------------------------------


def both(slow: Server) -> list[psycopg.Connection[Any]]:
    """A connection to each of the two workers."""
    found: dict[int, psycopg.Connection[Any]] = {}
    for _ in range(60):
        connection = psycopg.connect(slow.dsn("ana", options=PRICE), autocommit=True)
        if found.setdefault(connection.info.backend_pid, connection) is not connection:
            connection.close()
        if len(found) == 2:
            return list(found.values())
    for connection in found.values():
        connection.close()
    pytest.fail("sixty connections went to the same worker")


def test_workers_share_budget_and_releases(slow: Server) -> None:
    one_, other = both(slow)
    with one_, other:
        before, question = spent(one_), fresh()
        assert spent(other) == before
        found = one(one_, question)
        assert one(other, question) == found
        assert spent(one_) == spent(other) == before + Decimal("0.5")


def test_whoever_is_revoked_is_out_of_all_workers(slow: Server) -> None:
    slow.let_in("uli")
    sessions = [psycopg.connect(slow.dsn("uli"), autocommit=True) for _ in range(6)]
    People.beside(slow.policy).revoke("uli")
    for session in sessions:
        with pytest.raises(psycopg.Error, match="revoked"):
            session.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
        session.close()


def test_a_cancel_reaches_its_worker_whoever_hears_it(slow: Server) -> None:
    """Each of the eight is heard by either worker: all by the right one with a chance below 1%."""
    with connected(slow) as connection:
        before, questions = spent(connection), [fresh() for _ in range(8)]
        for question in questions:
            timer = threading.Timer(0.1, connection.cancel_safe)
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled) as error:
                connection.execute(question)
            timer.join()
            assert "asking again is free" in (error.value.diag.message_hint or "")
        assert one(connection, "SELECT 1") == 1
        assert all(near(one(connection, question)) for question in questions)
        assert spent(connection) == before + 8 * Decimal("0.5")


def test_what_was_cancelled_is_paid_once_and_then_free(slow: Server) -> None:
    notices: list[str] = []
    with connected(slow) as connection:
        connection.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
        before, question = spent(connection), fresh()
        timer = threading.Timer(0.15, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(question)
        timer.join()
        time.sleep(DEADLINE + 0.8)
        assert near(one(connection, question))
        assert notices[-1].startswith("Free: answered from receipt ")
        assert spent(connection) == before + Decimal("0.5")


def test_a_cancel_does_not_bring_an_answer_before_its_deadline(slow: Server) -> None:
    """When a release is stored depends on the data (law 3), so nobody may find out."""
    with connected(slow) as connection:
        before, question, began = spent(connection), fresh(), time.monotonic()
        timer = threading.Timer(0.15, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(question)
        timer.join()
        one(connection, question)
        assert time.monotonic() - began > DEADLINE * 0.9
        assert spent(connection) == before + Decimal("0.5")  # asking again is free, also while it runs


def test_a_second_session_gets_an_answer_at_its_deadline_too(slow: Server) -> None:
    took: list[float] = []

    def ask(session: psycopg.Connection[Any]) -> None:
        one(session, question)
        took.append(time.monotonic() - began)

    question, (first, second) = fresh(), both(slow)
    with first, second:
        before, began = spent(first), time.monotonic()
        waiting = threading.Thread(target=ask, args=(first,))
        waiting.start()
        time.sleep(0.2)
        ask(second)
        waiting.join()
        assert spent(second) == before + Decimal("0.5")
    assert min(took) > DEADLINE * 0.9


def test_a_new_question_leaves_at_its_deadline(slow: Server) -> None:
    with connected(slow) as connection:
        question, began = fresh(), time.monotonic()
        one(connection, question)
        assert time.monotonic() - began > DEADLINE * 0.99


# TLS --------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, secret = folder / "certificate.pem", folder / "key.pem"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    secret.chmod(0o600)
    return shown, secret


def test_with_a_certificate_nothing_is_said_in_plain(tmp_path: Path) -> None:
    shown, secret = certificate(tmp_path)
    options = ("--no-deadlines", "--certificate", str(shown), "--key", str(secret))
    with serving(tmp_path, *options) as server:
        server.let_in("ana")
        assert near(float(psql(server, fresh(), options=PRICE, PGSSLMODE="require").stdout))
        told = psql(server, "SELECT 1", PGSSLMODE="disable")
        assert told.returncode == 2
        assert "only TLS connections are accepted" in told.stderr
        assert "Connect with sslmode=require." in told.stderr
        sure = {
            "sslmode": "verify-full",
            "sslrootcert": str(shown),
            "host": "localhost",
            "hostaddr": "127.0.0.1",
        }
        with connected(server, **sure) as connection:
            assert connection.pgconn.ssl_in_use
            assert one(connection, "SELECT 1") == 1
        with pytest.raises(psycopg.OperationalError, match="certificate"):
            psycopg.connect(server.dsn("ana", sslmode="verify-full", sslrootcert=os.devnull))
        with connected(server, sslmode="require") as connection:
            connection.cancel_safe()  # goes over TLS, too; nothing runs, so nothing happens
            assert one(connection, "SELECT 2") == 2
