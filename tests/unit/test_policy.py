"""A policy says what is wrong with it: file, line and key."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import PolicyError, QueryRefused
from sfumato.mechanisms import Guarantee
from sfumato.queries import forms
from sfumato.queries import policy as policies
from sfumato.queries.policy import Policy, default_exponent
from sfumato.queries.statement import parse

GOOD = """\
name = "clinic"

[source]
duckdb = "data/clinic.duckdb"

[budget]
epsilon = "2.5"

[tables.visits]
unit = "pid"
rows_per_person = 10

[tables.visits.columns]
pid = "integer"
age = { type = "integer", low = 0, high = 120 }
cost = { type = "number", low = 0.5, high = 5000 }
temp = { type = "number", low = -40, high = 45, grid = "1/16" }
ward = { type = "text", keys = ["A", "B"] }
region = { type = "text", keys = "regions.name" }
day = { type = "date", keys = [2024-01-01] }
urgent = { type = "boolean" }

[tables.regions]
public = true
"""


def read(text: str) -> Policy:
    return policies.parse(text, Path("clinic.toml"))


def test_a_good_policy_is_read_whole() -> None:
    policy = read(GOOD)
    assert (policy.name, policy.source) == ("clinic", ("duckdb", "data/clinic.duckdb"))
    assert policy.database == Path("data/clinic.duckdb")
    assert policy.budget == Guarantee(Fraction(5, 2))
    assert policy.ledger == Path("clinic.ledger")
    table = policy.table("VISITS")
    assert table is not None
    assert (table.unit, table.rows_per_person) == ("pid", 10)
    columns = {column.name: column for column in table.columns}
    assert columns["pid"].kind == "integer"
    assert (columns["age"].low, columns["age"].high) == (Fraction(0), Fraction(120))
    assert columns["age"].exponent == 0
    assert columns["temp"].exponent == 4
    assert columns["ward"].keys == ("A", "B")
    assert columns["region"].keys_from == ("regions", "name")
    assert columns["day"].keys == (datetime.date(2024, 1, 1),)
    assert columns["urgent"].keys == (False, True)
    assert policy.with_keys(lambda *_: ("x", "y")).tables[0].column("region") is not None
    assert policy.table("nothing") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('epsilon = "2.5"', "", 6, "no epsilon"),
        ('epsilon = "2.5"', 'epsilon = "-1"', 7, "not a budget"),
        ('epsilon = "2.5"', 'epsilon = "0.1234567890123"', 7, "at most 12 decimal places"),
        ('epsilon = "2.5"', "epsilon = nan", 7, "not a budget"),
        ('epsilon = "2.5"', "epsilon = [1]", 7, "not a budget"),
        ('epsilon = "2.5"', 'epsilom = "2.5"', 7, "Did you mean epsilon"),
        ('epsilon = "2.5"', 'rho = "0"', 7, "not a budget"),
        ('epsilon = "2.5"', 'rho = "0.5"\nepsilon = "1"', 7, "epsilon or rho"),
        ('epsilon = "2.5"', 'delta = "1e-6"', 6, "no epsilon"),
        ('epsilon = "2.5"', 'epsilon = "1"\ndelta = "1"', 8, "far below 1"),
        ('epsilon = "2.5"', 'epsilon = "1"\ndelta = "0"', 8, "not a budget"),
        ('epsilon = "2.5"', 'epsilon = "1"\ndelta = "1e-19"', 8, "at most 18 decimal places"),
        ('epsilon = "2.5"', 'epsilon = "1"\nledger = ""', 8, "ledger must be a string"),
        ('epsilon = "2.5"', 'epsilon = "1"\nleast = "0"', 8, "'0' is not a price"),
        ('epsilon = "2.5"', 'epsilon = "1"\nleast = ""', 8, "'' is not a price"),
        (
            'epsilon = "2.5"',
            'epsilon = "1"\nleast = "1.5"',
            8,
            "more than the whole budget. Write at most 1.",
        ),
        ('duckdb = "data/clinic.duckdb"', "", 3, "duckdb must be a string"),
        ('duckdb = "data/clinic.duckdb"', "duckdb = 3", 4, "duckdb must be a string"),
        ('[budget]\nepsilon = "2.5"', "", None, r"no \[budget\]"),
        ('unit = "pid"', "", 9, "whom a row belongs to"),
        ('unit = "pid"', 'unit = "patient"', 10, "not one of the declared columns"),
        ('unit = "pid"', 'unit = "cost"', 10, "is a number column"),
        ("rows_per_person = 10", "", 9, "rows_per_person must be"),
        ("rows_per_person = 10", "rows_per_person = 0", 11, "from 1 to"),
        ("rows_per_person = 10", "rows_per_person = true", 11, "from 1 to"),
        ("rows_per_person = 10", "rows_per_person = 10000000", 11, "from 1 to"),
        ('unit = "pid"', 'unit = "row"', 11, "it has no effect here"),
        ('pid = "integer"', "pid = 3", 14, "inline table"),
        ('pid = "integer"', 'pid = "int"', 14, "type is one of"),
        ("low = 0, high = 120", "low = 0", 15, "no high"),
        ("low = 0, high = 120", "low = 0.5, high = 120", 15, "whole number"),
        ("low = 0, high = 120", "low = 120, high = 120", 15, "above low"),
        ("low = 0, high = 120", "low = 0, high = inf", 15, "not a number"),
        ("low = 0, high = 120", "low = 0, high = 9007199254740992", 15, "too large"),
        ("low = 0, high = 120", "low = 0, high = 120, grid = 1", 15, "only a number column"),
        ("low = 0, high = 120", "low = 0, high = 120, keys = [1, 1]", 15, "listed twice"),
        ("low = 0, high = 120", "low = 0, high = 120, keys = [true]", 15, "not of type integer"),
        ("low = 0, high = 120", "low = 0, high = 120, keys = [4611686018427387904]", 15, "too large"),
        ("low = 0.5, high = 5000", "lo = 0, high = 5000", 16, "Did you mean low"),
        ("low = 0.5, high = 5000", "keys = [1.5]", 16, "cannot be grouped by"),
        ('grid = "1/16"', 'grid = "1/10"', 17, "power of two"),
        ('grid = "1/16"', 'grid = "x"', 17, "power of two"),
        ('grid = "1/16"', "grid = 128", 17, "wider than the bounds"),
        ('grid = "1/16"', 'grid = "1/1125899906842624"', 17, "too many steps"),
        ('keys = ["A", "B"]', "keys = []", 18, "the list is empty"),
        ('keys = ["A", "B"]', 'keys = ["A", 3]', 18, "not of type text"),
        ('keys = ["A", "B"]', 'keys = ["A"], low = 0', 18, "has no bounds"),
        ('keys = ["A", "B"]', 'keys = "wards"', 18, "does not name a table"),
        ('keys = "regions.name"', 'keys = "visits.ward"', 19, "not a public table"),
        ("public = true", 'public = true\nunit = "row"', 25, "not about people"),
        ("public = true", "public = 1", 24, "true or false"),
        ("[tables.regions]\npublic = true", "[tables]\nregions = 3", 24, "a table is a section"),
        ('name = "clinic"', "name = clinic", 1, "not TOML"),
        ('name = "clinic"', 'name = "clinic', 1, "not TOML"),
        ('name = "clinic"', "tables = 3", None, "TOML"),
        ('name = "clinic"', "x = " + "[" * 3000, None, "too deep"),
        ('name = "clinic"', "x = " + "9" * 5000, None, "too long"),
        ("low = 0, high = 120", "low = 0, high = 1" + "0" * 400, 15, "too large"),
        ("low = 0.5, high = 5000", "low = 0.0, high = 5e-324", 16, "too close together"),
        ("low = 0.5, high = 5000", "low = 4503599627370496.0, high = 4503599627370496.5", 16, "above low"),
        ('grid = "1/16"', "grid = inf", 17, "power of two"),
        ('grid = "1/16"', 'grid = "1e999999999"', 17, "power of two"),
        ('keys = ["A", "B"]', 'keys = ["a\\u0000b"]', 18, "zero byte"),
        ('duckdb = "data/clinic.duckdb"', 'duckdb = "a\\u0000b"', 4, "must be a string"),
    ],
)
def test_a_wrong_policy_names_file_line_and_key(old: str, new: str, line: int | None, says: str) -> None:
    assert old in GOOD
    with pytest.raises(PolicyError, match=says) as caught:
        read(GOOD.replace(old, new))
    if line is not None:
        assert caught.value.line == line
        assert f"clinic.toml, line {line}" in str(caught.value)
    assert caught.value.file == "clinic.toml"


LABS = """
[tables.labs]
unit = "visit -> visits.pid"
rows_per_person = 3

[tables.labs.columns]
visit = "integer"
taken = { type = "timestamp", low = 2024-01-01, high = 2024-12-31 }
"""


def test_a_unit_may_be_reached_through_another_table_and_days_have_bounds() -> None:
    labs = read(GOOD + LABS).table("labs")
    assert labs is not None
    assert (labs.unit, labs.through, labs.rows_per_person) == ("visit", ("visits", "pid"), 3)
    taken = labs.column("taken")
    assert taken is not None
    assert (taken.since, taken.until) == (datetime.date(2024, 1, 1), datetime.date(2024, 12, 31))
    assert (taken.low, taken.high) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("visit -> visits.pid", "visit -> visits", "is not a reference"),
        ("visit -> visits.pid", "-> visits.pid", "is not a reference"),
        ("visit -> visits.pid", "visit -> nothing.pid", "does not say whom a row belongs to"),
        ("visit -> visits.pid", "visit -> regions.name", "does not say whom a row belongs to"),
        ("visit -> visits.pid", "visit -> visits.nothing", "is not a column that it can refer to"),
        ("visit -> visits.pid", "visit -> visits.ward", "is not a column that it can refer to"),
        ("visit -> visits.pid", "visit -> labs.visit", "form a cycle"),
        ("visit -> visits.pid", "other -> visits.pid", "not one of the declared columns"),
        ("low = 2024-01-01, high = 2024-12-31", "low = 2024-01-01", "no high"),
        ("low = 2024-01-01, high = 2024-12-31", "low = 1, high = 2", "is not a day"),
        (
            "low = 2024-01-01, high = 2024-12-31",
            "low = 2024-01-01T00:00:00, high = 2024-12-31",
            "is not a day",
        ),
        ("low = 2024-01-01, high = 2024-12-31", "low = 2024-12-31, high = 2024-01-01", "above low|before"),
        ("low = 2024-01-01, high = 2024-12-31", 'grid = "1/2"', "only a number column"),
    ],
)
def test_a_wrong_reference_or_day_is_refused(old: str, new: str, says: str) -> None:
    assert old in LABS
    with pytest.raises(PolicyError, match=says):
        read(GOOD + LABS.replace(old, new))


def test_a_missing_or_unreadable_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="sfumato init"):
        policies.load(tmp_path / "no.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        policies.load(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match="cannot be read"):
        policies.load(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("lines", "budget"),
    [
        ('epsilon = "1"', Guarantee(Fraction(1))),
        ('epsilon = 0.1\ndelta = "1e-6"', Guarantee(Fraction(1, 10), Fraction(1, 10**6))),
        ("epsilon = 1\ndelta = 1e-9", Guarantee(Fraction(1), Fraction(1, 10**9))),
        ('rho = "0.5"', Guarantee(rho=Fraction(1, 2))),
        ('rho = 0.5\ndelta = "1e-6"', Guarantee(None, Fraction(1, 10**6), Fraction(1, 2))),
    ],
)
def test_a_budget_counts_epsilon_or_rho_and_may_have_a_delta(lines: str, budget: Guarantee) -> None:
    assert read(GOOD.replace('epsilon = "2.5"', lines)).budget == budget


def test_a_ledger_is_a_file_beside_the_policy_or_a_server() -> None:
    def ledger(place: str) -> object:
        text = GOOD.replace('epsilon = "2.5"', f'epsilon = "1"\nledger = "{place}"')
        return policies.parse(text, Path("folder/clinic.toml")).ledger

    assert ledger("all.ledger") == Path("folder/all.ledger")
    for address in ("postgresql://ana@server:5432/ledgers", "postgres://server/ledgers"):
        assert ledger(address) == address


def test_the_name_changes_with_what_can_change_an_answer_and_with_nothing_else() -> None:
    base = forms.policy(read(GOOD))
    assert forms.policy(read(GOOD.replace("2.5", "9"))) == base
    assert forms.policy(read("# a comment\n" + GOOD)) == base
    for old, new in (
        ("high = 120", "high = 121"),
        ('["A", "B"]', '["B", "A"]'),
        ("person = 10", "person = 11"),
        ("clinic.duckdb", "other.duckdb"),
    ):
        assert forms.policy(read(GOOD.replace(old, new))) != base


@pytest.mark.parametrize(
    ("low", "high", "exponent"),
    [(0, 1, 20), (0, 5000, 7), (-1, 1, 19), (0, 2**21, -1), (2**52, 2**52 + 1, 0)],
)
def test_the_default_grid_has_about_a_million_steps_and_stays_exact(
    low: int, high: int, exponent: int
) -> None:
    assert default_exponent(Fraction(low), Fraction(high)) == exponent


MENTIONS = (
    GOOD.replace('pid = "integer"', 'pid = "integer"\nclerk = { type = "integer", refers = "staff.sid" }', 1)
    + '[tables.staff]\nunit = "sid"\nrows_per_person = 1\n[tables.staff.columns]\nsid = "integer"\n'
)


def test_a_column_may_mention_somebody_else_whose_row_it_is_not() -> None:
    policy = read(MENTIONS)
    ((table, column),) = policy.mentions
    assert (table.name, column.name, column.told) == ("visits", "clerk", "staff.sid")
    with pytest.raises(QueryRefused, match="clerk only mentions a person: the row belongs to pid"):
        parse("SELECT COUNT(*) FROM visits JOIN staff ON clerk = sid", policy)
    plain = read(MENTIONS.replace(', refers = "staff.sid"', ""))
    sql = "SELECT COUNT(*) FROM visits WHERE clerk = 3"
    names = {forms.question(parse(sql, each), each, "") for each in (policy, plain)}
    assert len(names) == 1  # it says nothing about what is answered


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ('refers = "staff"', "is not a reference"),
        ('refers = "nobody.sid"', "not a column of a table about people"),
        ('refers = "regions.name"', "not a column of a table about people"),
        ("refers = 3", "is not a reference"),
    ],
)
def test_a_wrong_mention_is_refused(new: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        read(MENTIONS.replace('refers = "staff.sid"', new))
