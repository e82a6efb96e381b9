"""Tables in schemas other than main: one name everywhere, the same answers in every engine and copy."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import duckdb
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.exact.secret import unseal
from sfumato.queries import policy as policies
from sfumato.queries.declared import split
from sfumato.sources.duckdb import DuckDB, prepare

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """
CREATE SCHEMA census;
CREATE SCHEMA town;
CREATE SCHEMA "odd name";
CREATE TABLE census.people AS SELECT i AS id, i % 90 AS age, 'w' || (i % 4) AS ward FROM range(1000) AS t(i);
CREATE TABLE census.visits AS SELECT i % 1000 AS person, i % 50 AS cost FROM range(3000) AS t(i);
CREATE TABLE people AS SELECT i AS id, 5 AS age FROM range(10) AS t(i);
CREATE TABLE "odd name"."Wards" AS SELECT 'w' || i AS ward, i AS area FROM range(4) AS t(i);
CREATE VIEW census.seen AS SELECT * FROM census.visits;
"""
POLICY = """
[source]
duckdb = "town.duckdb"
{prepared}
[budget]
epsilon = "1000"
delta = "0.01"
[units]
all = ["census.people.id", "people.id"]
[tables."census.people"]
unit = "id"
rows_per_person = 1
[tables."census.people".columns]
id = "integer"
age = {{ type = "integer", low = 0, high = 100 }}
ward = {{ type = "text", keys = "odd name.Wards.ward" }}
[tables."census.visits"]
unit = "person -> census.people.id"
rows_per_person = 3
[tables."census.visits".columns]
person = "integer"
cost = {{ type = "integer", low = 0, high = 100 }}
[tables.people]
unit = "id"
rows_per_person = 1
[tables.people.columns]
id = "integer"
age = {{ type = "integer", low = 0, high = 100 }}
[tables."odd name.Wards"]
public = true
columns = {{ ward = "text", area = {{ type = "integer", keys = [0, 1, 2, 3] }} }}
"""
QUESTIONS = [
    ("SELECT COUNT(*) FROM census.people", "SELECT COUNT(*) FROM town.census.people"),
    ("SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM town.main.people"),
    ("SELECT COUNT(*) FROM main.people", "SELECT COUNT(*) FROM town.main.people"),
    ('SELECT COUNT(*) FROM "census.people"', "SELECT COUNT(*) FROM town.census.people"),
    (
        "SELECT COUNT(*) FROM Census.PEOPLE WHERE people.age > 40 AND census.people.age < 60",
        "SELECT COUNT(*) FROM town.census.people WHERE age > 40 AND age < 60",
    ),
    (
        "SELECT COUNT(*) FROM census.visits AS v, census.people WHERE v.person = people.id AND age < 10",
        "SELECT COUNT(*) FROM town.census.visits JOIN town.census.people ON person = id WHERE age < 10",
    ),
    (
        'SELECT area, COUNT(*) FROM census.people p JOIN "odd name"."Wards" w ON w.ward = p.ward GROUP BY 1',
        'SELECT area, COUNT(*) FROM town.census.people JOIN town."odd name"."Wards" USING (ward) GROUP BY 1',
    ),
    (
        "WITH people AS (SELECT id FROM census.people WHERE age > 80) SELECT COUNT(*) FROM people",
        "SELECT COUNT(*) FROM town.census.people WHERE age > 80",
    ),
]


def town(folder: Path, prepared: str = "") -> Path:
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute("USE town.main")
        for each in ROWS.strip().split(";\n"):
            connection.execute(each.replace("census.", "town.census.").replace("SCHEMA ", "SCHEMA town."))
    (folder / "town.toml").write_text(POLICY.format(prepared=prepared), encoding="utf-8")
    return folder / "town.toml"


def truths(folder: Path) -> list[list[int]]:
    with duckdb.connect(str(folder / "town.duckdb"), read_only=True) as connection:
        found = []
        for _, truth in QUESTIONS:
            rows = connection.execute(f"SELECT * FROM ({truth}) ORDER BY ALL").fetchall()
            found.append([row[-1] for row in rows])
    return found


def released(db: sf.Database) -> list[list[int]]:
    """The counts; noise moves one of them by a half with probability below 1e-9."""
    found = []
    for sql, _ in QUESTIONS:
        rows = db.sql(sql, epsilon=100).release().rows()
        found.append([round(row["count"]) for row in sorted(rows, key=lambda row: row.get("area", 0))])
    return found


@pytest.mark.parametrize("prepared", ["", 'prepared = "copy.duckdb"', 'prepared = "auto"'])
def test_the_answers_are_those_of_the_tables(prepared: str, tmp_path: Path) -> None:
    policy = town(tmp_path, prepared)
    truth = truths(tmp_path)
    if prepared:
        prepare(policies.load(policy))
    assert released(sf.open(policy)) == truth


def test_every_engine_finds_them(tmp_path: Path) -> None:
    """The one without optimizers, that of a child, and that of a file that was replaced meanwhile."""
    policy = town(tmp_path)
    db = sf.open(policy)
    plan = db.sql(QUESTIONS[0][0], epsilon=1).plan
    source = DuckDB(db.policy.database)
    source.check(db.policy)
    compiled = source.compile(plan)
    assert unseal(source.run(compiled)).vectors == ((1024 * 1000,),)
    for plain in (False, True):
        rows = source._cursor(plain=plain).execute('SELECT COUNT(*) FROM "census.people"').fetchall()
        assert rows == [(1000,)]
    if (child := os.fork()) == 0:
        os._exit(0 if unseal(source.run(compiled)).vectors == ((1024 * 1000,),) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (tmp_path / "new").mkdir()
    town(tmp_path / "new")
    (tmp_path / "new" / "town.duckdb").replace(tmp_path / "town.duckdb")
    source = DuckDB(db.policy.database)
    source.check(db.policy)
    assert unseal(source.run(source.compile(plan))).vectors == ((1024 * 1000,),)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT COUNT(*) FROM census.peple", "Did you mean census.people?"),
        ("SELECT COUNT(*) FROM visits", "Did you mean census.visits?"),
        ("SELECT COUNT(*) FROM census.seen", "there is no table named 'census.seen'"),
        ("SELECT COUNT(*) FROM town.census.people", "Name the table as the policy does"),
        ("SELECT COUNT(*) FROM information_schema.tables", "a schema is not supported in FROM"),
        ("SELECT COUNT(*) FROM census.people AS p WHERE people.age > 4", "no table named 'people'"),
    ],
)
def test_refused(sql: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(sf.QueryRefused, match=re.escape(told)):
        sf.open(town(tmp_path)).sql(sql, epsilon=1)


def test_the_table_of_main_comes_first(tmp_path: Path) -> None:
    """A name that a table of main has is that table's; so is one in a schema called public without it."""
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE SCHEMA public; CREATE SCHEMA b; CREATE TABLE public.x(i INT)")
        connection.execute('CREATE TABLE public.y(i INT); CREATE TABLE y(j INT); CREATE TABLE "b.z"(k INT)')
        connection.execute("CREATE TABLE b.z(l INT)")
    found = DuckDB(tmp_path / "a.duckdb").schema()
    assert {table: columns[0].name for table, columns in found.items()} == {"b.z": "k", "y": "j", "x": "i"}


def test_a_policy_names_them_in_quotes(tmp_path: Path) -> None:
    policy = town(tmp_path)
    policy.write_text(policy.read_text().replace('[tables."census.people"]', "[tables.census.people]"))
    with pytest.raises(
        sf.PolicyError, match=r'Write a table of a schema in quotes: \[tables."census.people"\]'
    ):
        sf.open(policy)


def test_init_writes_them(tmp_path: Path) -> None:
    town(tmp_path)
    options = ["--unit", "census.people=id", "--rows", "census.people=1", "--unit", "people=id"]
    options += ["--rows", "people=1", "--bounds", "census.people.age=0:9", "--public", "odd name.Wards"]
    options += ["--keys", "census.people.ward=odd name.Wards.ward", "--epsilon", "1"]
    options += ["--unit", "census.visits=row", "--policy", str(tmp_path / "new.toml")]
    told = CliRunner().invoke(main, ["init", str(tmp_path / "town.duckdb"), *options])
    assert told.exit_code == 0, told.output
    text = (tmp_path / "new.toml").read_text()
    assert 'ward = { type = "text", keys = "odd name.Wards.ward" }' in text
    text = text.replace("public = true\n", 'public = true\ncolumns.ward = "text"\n')
    (tmp_path / "new.toml").write_text(text)
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "new.toml")])
    assert checked.exit_code == 0, checked.output
    assert "census.people (unit: id): id, age, ward" in checked.output


def test_names_are_split_by_the_tables_that_there_are() -> None:
    assert split("a.b.c", ["a", "a.b"]) == ("a.b", "c")
    assert split("a.b.c", ["a"]) == ("a", "b.c")
    assert split("a.b", []) == ("a", "b")
    assert split("a", ["a"]) == ("a", "")
