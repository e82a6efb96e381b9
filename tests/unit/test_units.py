"""Whose unit a charge is about: what is noted, what must not change, and what counts for a promise."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.budget.ledger import subjects
from sfumato.budget.ledger.chain import Limit
from sfumato.cli.main import main
from sfumato.curator.participant import Page
from sfumato.queries import policy as policies
from sfumato.queries import units

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

TABLES = {
    "patients": 'unit = "id"\nrows_per_person = 1\n[tables.patients.columns]\nid = "integer"\n'
    'age = { type = "integer", low = 0, high = 100 }\n',
    "visits": 'unit = "patient -> patients.id"\nrows_per_person = 3\n[tables.visits.columns]\n'
    'patient = "integer"\nnumber = "integer"\ncost = { type = "integer", low = 0, high = 10 }\n',
    "labs": 'unit = "who"\nrows_per_person = 3\n[tables.labs.columns]\nwho = "integer"\n'
    'x = { type = "integer", low = 0, high = 10 }\n',
    "beds": 'unit = "row"\n[tables.beds.columns]\nward = { type = "text", keys = ["a", "b"] }\n',
    "wards": 'public = true\n[tables.wards.columns]\nward = "text"\n',
}
UNITS = '[units]\npeople = ["patients.id", "labs.who"]\nbeds = ["beds"]\n'
PROMISE = '[[promise]]\nsecret = "patients.age"\nwithin = 2\nadvantage = "0.10"\n'


def written(folder: Path, *tables: str, more: str = "", name: str = "clinic", **edits: str) -> Path:
    """A policy about some of the tables, and the data if they are not there."""
    folder.mkdir(exist_ok=True)
    if not (folder / "clinic.duckdb").exists():
        with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE patients AS SELECT i::INTEGER AS id, 30 AS age FROM range(50) t(i)"
            )
            connection.execute(
                "CREATE TABLE visits AS SELECT i::INTEGER AS patient, i::INTEGER AS number, 1 AS cost "
                "FROM range(50) t(i)"
            )
            connection.execute("CREATE TABLE labs AS SELECT i::INTEGER AS who, 1 AS x FROM range(50) t(i)")
            connection.execute("CREATE TABLE beds AS SELECT 'a' AS ward FROM range(50)")
            connection.execute("CREATE TABLE wards AS SELECT 'a' AS ward")
    text = f'name = "{name}"\n[source]\nduckdb = "clinic.duckdb"\n[budget]\nepsilon = "100"\n'
    text += f'ledger = "clinic.ledger"\n{more}'
    for table in tables:
        text += f"[tables.{table}]\n{edits.get(table, TABLES[table])}"
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def count(db: Database, table: str, epsilon: str = "0.1") -> sf.Release:
    return db.sql(f"SELECT COUNT(*) FROM {table}", epsilon=epsilon).release()


def charges(db: Database) -> list[dict[str, Any]]:
    return [json.loads(line.body) for line in db.ledger.chain.lines("charge")]


def test_every_charge_says_whose_unit_it_is_about_and_what_is_called_the_same(tmp_path: Path) -> None:
    db = sf.open(written(tmp_path, "patients", "visits", "labs", "beds", "wards", more=UNITS))
    for relation in ("patients", "visits", "labs", "beds", "patients JOIN labs ON id = who"):
        count(db, relation)
    db.batch([db.sql(f"SELECT COUNT(*) FROM {t}", epsilon="0.2") for t in ("beds", "labs")]).release()
    people, beds = [["person", "labs", "who"], ["person", "patients", "id"]], ["row", "beds", ""]
    about = [charge["unit"] for charge in charges(db)]
    assert about == [people, people, people, [beds], people, [*people, beds]]
    assert db.budget.history[3].units == (("row", "beds", ""),)


def test_tuning_says_whose_unit_it_is_about(tmp_path: Path) -> None:
    db = sf.open(written(tmp_path, "patients"))
    db.tune("patients", epsilon="1")
    assert len(charges(db)) >= 3  # a centre of 0 takes one less
    assert all(charge["unit"] == [["person", "patients", "id"]] for charge in charges(db))


CHANGES = {
    "a different column": ("labs", TABLES["labs"].replace('"who"', '"x"', 1)),
    "rows instead of persons": ("labs", TABLES["labs"].replace('"who"\nrows_per_person = 3', '"row"', 1)),
    "persons instead of rows": ("beds", TABLES["beds"].replace('"row"', '"ward"\nrows_per_person = 2')),
    "public": ("labs", "public = true\n"),
    "private": ("wards", 'unit = "row"\n[tables.wards.columns]\nward = "text"\n'),
    "no reference": ("visits", TABLES["visits"].replace("patient -> patients.id", "patient")),
}


@pytest.mark.parametrize(("table", "text"), CHANGES.values(), ids=CHANGES)
def test_what_a_table_says_of_its_unit_does_not_change_after_its_first_charge(
    table: str, text: str, tmp_path: Path
) -> None:
    more = '[units]\npeople = ["patients.id"]\nlabs = ["labs.who"]\nbeds = ["beds"]\n'
    before = sf.open(written(tmp_path, *TABLES, more=more))
    for each in ("patients", "visits", "labs", "beds JOIN wards ON beds.ward = wards.ward"):
        count(before, each)
    spent = before.ledger.spent
    file = written(tmp_path, *TABLES, **{table: text})
    found = units.suggested(units.units_of(policies.load(file)))
    file = written(tmp_path, *TABLES, more=found + "\n", **{table: text})
    with pytest.raises(sf.LedgerError) as refused:
        sf.open(file)
    told = str(refused.value)
    assert f"[tables.{table}] declared" in told
    assert "Nothing is charged or answered. To continue, write" in told
    assert before.ledger.spent == spent
    count(sf.open(written(tmp_path, *TABLES, more=more)), "labs")  # written back, it goes on


def test_a_table_that_was_never_charged_for_may_say_something_else(tmp_path: Path) -> None:
    more = '[units]\np = ["patients.id", "labs.who"]\n'
    count(sf.open(written(tmp_path, "patients", "labs", more=more)), "labs")
    changed = TABLES["patients"].replace('"id"\nrows_per_person = 1', '"row"')
    more = '[units]\np = ["labs.who"]\nq = ["patients"]\n'
    count(sf.open(written(tmp_path, "patients", "labs", more=more, patients=changed)), "patients")


def test_a_handle_that_was_opened_before_is_refused_when_it_charges(tmp_path: Path) -> None:
    old = sf.open(written(tmp_path, "patients"))
    changed = TABLES["patients"].replace('"id"\nrows_per_person = 1', '"row"')
    count(sf.open(written(tmp_path, "patients", patients=changed)), "patients")
    spent = old.ledger.spent
    with pytest.raises(sf.LedgerError, match="added up as if it were about the same"):
        count(old, "patients", "0.2")
    assert old.ledger.spent == spent


def test_another_promise_needs_a_policy_with_a_name_of_its_own(tmp_path: Path) -> None:
    count(sf.open(written(tmp_path, "patients")), "patients")
    changed = TABLES["patients"].replace('"id"\nrows_per_person = 1', '"row"')
    second = sf.open(written(tmp_path, "patients", name="clinic-2", patients=changed))
    count(second, "patients", "0.2")
    assert second.ledger.spent.amount == sf.Guarantee.parse("0.3").amount
    assert [charge["unit"][0][0] for charge in charges(second)] == ["person", "row"]


def test_a_new_policy_that_mixes_units_says_so_and_one_that_was_charged_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path, "patients", "labs", "beds")
    with pytest.raises(sf.PolicyError) as refused:
        sf.open(file)
    assert str(refused.value).endswith(
        '[units]\npeople = ["patients.id", "labs.who"]\nrows_of_beds = ["beds"]'
    )
    checked = CliRunner().invoke(main, ["check", str(file)])
    assert checked.exit_code != 0
    added = str(refused.value).partition("\n\n")[2] + "\n"
    count(sf.open(written(tmp_path, "patients", "labs", "beds", more=added)), "beds")
    db = sf.open(written(tmp_path, "patients", "labs", "beds"))  # charged before: with a warning
    assert "mixes units" in db.said.notes[-1]
    count(db, "labs", "0.3")
    assert "unit" not in charges(db)[-1]  # so it counts for every one


def test_columns_of_one_name_are_one_unit_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    same = TABLES["labs"].replace("who", "id")
    (tmp_path / "a").mkdir()
    with duckdb.connect(str(tmp_path / "a" / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE patients (id INTEGER, age INTEGER)")
        connection.execute("CREATE TABLE labs (id INTEGER, x INTEGER)")
    db = sf.open(written(tmp_path / "a", "patients", "labs", labs=same))
    count(db, "labs")
    assert "unit" not in charges(db)[0]  # so it counts for both
    assert not units.is_mixed(db.policy)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[units]\npeople = ["patients.id", "labs.who"]\n', "'beds' is missing"),
        ('[units]\npeople = ["patients.id", "labs.who", "beds"]\n', "it mixes people and rows"),
        (
            '[units]\na = ["patients.id"]\nb = ["patients.id", "labs.who"]\nc = ["beds"]\n',
            "is listed twice",
        ),
        ('[units]\npeople = ["patients.age"]\n', "is not a unit of these tables"),
        ('[units]\npeople = "patients.id"\n', "this is not a list of columns"),
        ("[units]\npeople = []\n", "this is not a list of columns"),
    ],
)
def test_units_that_make_no_sense_are_refused_with_their_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    file = written(tmp_path, "patients", "labs", "beds", more=text)
    with pytest.raises(sf.PolicyError, match=problem) as refused:
        sf.open(file)
    assert "clinic.toml, line" in str(refused.value) or "clinic.toml:" in str(refused.value)


def test_a_promise_counts_what_was_charged_about_its_own_unit(tmp_path: Path) -> None:
    db = sf.open(written(tmp_path, *TABLES, more=UNITS + PROMISE))
    (judge,) = db.judges
    assert judge.apart == (("row", "beds", ""),)
    count(db, "beds", "50")  # far more than the promise about patients allows
    assert not any(db.ledger.losses("value", judge.apart))
    assert db.ledger.losses("value")[0] == 50
    count(db, "visits", "0.01")
    count(db, "labs", "0.01")
    assert db.ledger.losses("value", judge.apart)[0] > 0
    with pytest.raises(sf.PromiseBroken):
        count(db, "labs", "5")
    assert db.sql("SELECT COUNT(*) FROM labs", epsilon="5").explain().breaks
    assert not db.sql("SELECT COUNT(*) FROM beds", epsilon="5").explain().breaks
    assert not db.said.broken
    told = db.budget
    assert {name: str(spent.amount) for name, spent in told.by_unit().items()}["beds"] == "50"
    assert "about beds: a promise about one says nothing about another" in " ".join(repr(told).split())
    page = " ".join(Page.of(db).text().split())
    assert "In beds, this is promised for each row separately." in page


def test_a_charge_counts_unless_all_it_is_about_is_called_something_else() -> None:
    beds, labs = ("row", "beds", ""), ("person", "labs", "who")
    charge = {"database": "clinic", "unit": [list(beds)]}
    assert not subjects.counts(charge, "clinic", (beds,))
    assert subjects.counts(charge, "clinic", (labs,))
    assert subjects.counts(charge, "clinic", ())
    assert subjects.counts({"database": "clinic", "unit": [list(beds), list(labs)]}, "clinic", (beds,))
    assert subjects.counts({"database": "clinic"}, "clinic", (beds,))
    assert subjects.counts({**charge, "database": "other"}, "clinic", (beds,))


def test_a_promise_for_which_less_counts_replaces_and_implies_none_for_which_more_does() -> None:
    one = (("row", "a", ""),)
    narrow, wide = (Limit("value", ((1, 1, 1),), "told", "made", "said", "x", apart) for apart in (one, ()))
    assert wide.implies(narrow)
    assert wide.replaces(narrow)
    assert not narrow.implies(wide)
    assert not narrow.replaces(wide)
    assert [Limit.of(each.as_dict()) for each in (narrow, wide)] == [narrow, wide]
    assert "apart" not in wide.as_dict()


SPLIT = '[units]\npeople = ["patients.id"]\nlabs = ["labs.who"]\nbeds = ["beds"]\n'
FOUR = ("patients", "visits", "labs", "beds")


def test_a_promise_is_not_made_smaller_by_telling_units_apart_later(tmp_path: Path) -> None:
    sf.open(written(tmp_path, *FOUR, more=UNITS + PROMISE))  # nothing was charged
    split = sf.open(written(tmp_path, *FOUR, more=SPLIT + PROMISE))
    with pytest.raises(sf.PromiseBroken):
        count(split, "labs", "50")
    assert any("no longer contains a promise" in note for note in split.said.notes)
    split.said.withdraw()
    fresh = sf.open(written(tmp_path, *FOUR, more=SPLIT + PROMISE))
    assert [limit.apart for limit in fresh.ledger.promises()] == [fresh.judges[0].apart]
    count(fresh, "labs", "50")
    with pytest.raises(sf.PromiseBroken):
        count(fresh, "patients", "50")


@pytest.mark.parametrize("between", ["", "no units"])
def test_what_was_charged_while_units_were_one_counts_for_both_of_them(between: str, tmp_path: Path) -> None:
    joined = sf.open(written(tmp_path, *FOUR, more=UNITS))
    count(joined, "labs", "0.75")
    if between:
        count(sf.open(written(tmp_path, *FOUR)), "patients JOIN labs ON id = who", "0.011")
    split = sf.open(written(tmp_path, *FOUR, more=SPLIT + PROMISE))
    assert split.ledger.losses("value", split.judges[0].apart)[0] >= sf.Guarantee.parse("0.75").amount
    alone = sf.open(written(tmp_path, "patients", more='[units]\npeople = ["patients.id"]\n' + PROMISE))
    assert alone.ledger.losses("value", alone.judges[0].apart)[0] >= sf.Guarantee.parse("0.75").amount


def test_columns_of_one_name_that_are_told_apart_later_were_one_unit(tmp_path: Path) -> None:
    same = TABLES["labs"].replace("who", "id")
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE patients (id INTEGER, age INTEGER)")
        connection.execute("CREATE TABLE labs (id INTEGER, x INTEGER)")
    count(sf.open(written(tmp_path, "patients", "labs", labs=same)), "labs", "0.5")
    more = '[units]\npeople = ["patients.id"]\nlabs = ["labs.id"]\n'
    split = sf.open(written(tmp_path, "patients", "labs", more=more + PROMISE, labs=same))
    assert split.ledger.losses("value", split.judges[0].apart)[0] >= sf.Guarantee.parse("0.5").amount


def test_a_name_that_was_retired_is_another_database(tmp_path: Path) -> None:
    count(sf.open(written(tmp_path, "labs", name="x")), "labs", "5")
    other = sf.open(written(tmp_path, "patients", name="y"))
    other.ledger.retire("x")
    (tmp_path / "x.toml").unlink()
    rows = TABLES["labs"].replace('"who"\nrows_per_person = 3', '"row"', 1)
    more = '[units]\npeople = ["patients.id"]\nlabs = ["labs"]\n'
    new = sf.open(written(tmp_path, "patients", "labs", name="x", more=more + PROMISE, labs=rows))
    assert new.ledger.losses("value", new.judges[0].apart)[0] >= 5


def test_a_name_that_looks_alike_was_not_charged(tmp_path: Path) -> None:
    count(sf.open(written(tmp_path, "patients", name="clinic-2")), "patients")
    for name in ("clinic_2", "CLINIC-2", "clinic"):
        assert not sf.open(written(tmp_path, "patients", name=name)).ledger.was_charged


def test_a_table_that_gave_keys_does_not_become_private(tmp_path: Path) -> None:
    beds = TABLES["beds"].replace('["a", "b"]', '"wards.ward"')
    db = sf.open(written(tmp_path, "beds", "wards", beds=beds))
    db.sql("SELECT ward, COUNT(*) FROM beds GROUP BY ward", epsilon="1").release()
    assert set(db.ledger.chain.units("clinic")) == {"beds", "wards"}


def test_a_table_of_a_charge_that_noted_none_is_noted_at_the_next_opening(tmp_path: Path) -> None:
    file = written(tmp_path, "patients", "labs", more='[units]\np = ["patients.id", "labs.who"]\n')
    db = sf.open(file)
    count(db, "patients")
    (step,) = db.sql("SELECT COUNT(*) FROM labs", epsilon="0.1").query.spend
    db.ledger.charge((step,), "a key")  # by a process of an earlier version
    assert set(sf.open(file).ledger.chain.units("clinic")) == {"patients", "labs"}


def test_units_are_noted_when_a_ledger_of_before_is_opened(tmp_path: Path) -> None:
    """A charge of an earlier version says no unit: it counts for every one, and from now on none changes."""
    file = written(tmp_path, "patients")
    db = sf.open(file)
    (step,) = db.sql("SELECT COUNT(*) FROM patients", epsilon="0.1").query.spend
    db.ledger.charge((step,), "a key")  # as it was written then
    assert "unit" not in charges(db)[0]
    changed = TABLES["patients"].replace('"id"\nrows_per_person = 1', '"row"')
    sf.open(file)
    notes = "SELECT COUNT(*) FROM entries WHERE found = 'units/clinic'"
    with sqlite3.connect(tmp_path / "clinic.ledger") as connection:
        assert connection.execute(notes).fetchall() == [(1,)]
    sf.open(file)
    with sqlite3.connect(tmp_path / "clinic.ledger") as connection:
        assert connection.execute(notes).fetchall() == [(1,)]
    with pytest.raises(sf.LedgerError, match="added up as if it were about the same"):
        sf.open(written(tmp_path, "patients", patients=changed))


def test_init_writes_which_units_are_the_same(tmp_path: Path) -> None:
    written(tmp_path, "patients")
    answers = ["--unit", "patients=id", "--unit", "labs=who", "--unit", "beds=row", "--public", "wards"]
    given = ["init", str(tmp_path / "clinic.duckdb"), "--policy", str(tmp_path / "new.toml"), *answers]
    made = CliRunner().invoke(main, [*given, "--unit", "visits=patient", "--json"])
    assert made.exit_code == 0, made.output
    text = (tmp_path / "new.toml").read_text(encoding="utf-8")
    assert '[units]\npeople = ["patients.id", "labs.who", "visits.patient"]\nrows_of_beds = ["beds"]' in text


# One body of data, one ledger -----------------------------------------------------------------------------


@pytest.fixture
def remembering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "sfumato"


def copied(file: Path, name: str = "copy") -> Path:
    """The same policy with a ledger of its own."""
    text = file.read_text(encoding="utf-8").replace("clinic.ledger", f"{name}.ledger")
    other = file.with_name(f"{name}.toml")
    other.write_text(text.replace('name = "clinic"', f'name = "{name}"'), encoding="utf-8")
    return other


def test_a_copied_policy_with_another_ledger_gets_no_second_budget(tmp_path: Path, remembering: Path) -> None:
    file = written(tmp_path, "patients")
    early = sf.open(copied(file, "early"))  # nothing is charged yet, so both may be opened
    count(sf.open(file), "patients")
    with pytest.raises(sf.LedgerError) as refused:
        sf.open(copied(file))
    told = str(refused.value)
    assert "were first charged to another ledger" in told
    assert str(tmp_path / "clinic.ledger") in told
    assert "Nothing is charged or answered" in told
    assert "--other-people" in told
    with pytest.raises(sf.LedgerError, match="were first charged to another ledger"):
        count(early, "patients")
    assert early.ledger.spent.amount == 0
    count(sf.open(file), "patients", "0.2")
    (note,) = remembering.glob("data-*.json")
    assert note.stat().st_mode & 0o777 == 0o600
    shared = copied(file, "shared")
    shared.write_text(shared.read_text().replace("shared.ledger", "clinic.ledger"), encoding="utf-8")
    count(sf.open(shared), "patients", "0.4")


@pytest.mark.usefixtures("remembering")
def test_the_owner_says_in_both_ledgers_that_these_are_other_people(tmp_path: Path) -> None:
    file = written(tmp_path, "patients")
    first = sf.open(file)
    count(first, "patients")
    other = copied(file)
    said = CliRunner().invoke(main, ["budget", str(other), "--other-people", "the cohort of 2027"])
    assert said.exit_code == 0, said.output
    second = sf.open(other)
    count(second, "patients")
    for db, there in ((first, "copy.ledger"), (second, "clinic.ledger")):
        (note,) = [json.loads(line.body) for line in db.ledger.chain.lines("other people")]
        assert note["why"] == "the cohort of 2027"
        assert note["ledger"].endswith(there)
    count(sf.open(file), "patients", "0.2")
    again = CliRunner().invoke(main, ["budget", str(other), "--other-people", "again"])
    assert again.exit_code != 0
    assert "no other ledger was charged for these data" in again.output
    with pytest.raises(sf.LedgerError, match="were first charged to another ledger"):
        sf.open(copied(file, "third"))


@pytest.mark.usefixtures("remembering")
def test_a_ledger_that_was_lost_and_made_up_for_is_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, "patients")
    count(sf.open(file), "patients", "0.5")
    (tmp_path / "clinic.ledger").unlink()
    with pytest.raises(sf.LedgerError, match="there is no ledger"):
        sf.open(file)
    db = sf.open(file, accept=True)
    assert db.ledger.spent.amount == sf.Guarantee.parse("0.5").amount
    count(db, "patients", "0.1")
    count(sf.open(file), "patients", "0.2")
    with pytest.raises(sf.LedgerError, match="were first charged to another ledger"):
        sf.open(copied(file))


@pytest.mark.usefixtures("remembering")
def test_of_two_that_charge_first_at_once_one_is_refused(tmp_path: Path) -> None:
    """All looked, and found nothing: only one of them can make the note."""
    file = written(tmp_path, "patients")
    handles = [sf.open(copied(file, f"copy{n}")) for n in range(4)]
    gate, outcomes = threading.Barrier(4), []

    def charging(db: Database) -> None:
        gate.wait()
        try:
            count(db, "patients")
            outcomes.append("charged")
        except sf.LedgerError:
            outcomes.append("refused")

    threads = [threading.Thread(target=charging, args=(db,)) for db in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["charged", *["refused"] * 3]


def test_a_ledger_that_was_charged_before_is_noted_when_it_is_opened(
    tmp_path: Path, remembering: Path
) -> None:
    file = written(tmp_path, "patients")
    count(sf.open(file), "patients")
    (note,) = remembering.glob("data-*.json")
    note.unlink()  # as if an earlier version had charged
    sf.open(file)
    with pytest.raises(sf.LedgerError, match="were first charged to another ledger"):
        sf.open(copied(file))


@pytest.mark.parametrize("text", ["{", "[1]", '{"ledger": 1}', '"x"'])
def test_without_a_state_folder_nothing_is_remembered_and_a_broken_note_is_said(
    text: str, tmp_path: Path, remembering: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "patients")
    count(sf.open(file), "patients")
    (note,) = remembering.glob("data-*.json")
    note.write_text(text, encoding="utf-8")
    with pytest.raises(sf.LedgerError, match="cannot be read"):
        sf.open(copied(file))
    (tmp_path / "closed").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "closed"))
    count(sf.open(copied(file)), "patients")
