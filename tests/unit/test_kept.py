"""Ledgers that earlier versions wrote: whatever is stored in them stays free, and shows the same numbers."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kept.questions import SUMS
from tests.kept.write import HOST, WHERE, asked, laid_out, numbers
from tests.plans.test_plans import policy_named
from tests.serving import serving

import sfumato as sf
from sfumato.budget.ledger.postgres import Postgres
from sfumato.curator import calibrate
from sfumato.curator.repairs import was_wrong
from sfumato.mechanisms import Distances, Private, Quantiles, Step
from sfumato.queries import cells, domains, expressions, former, forms, measures, notation, relations
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.database import Database

KEPT = Path(__file__).parents[1] / "kept" / "first"
ASKED = json.loads((KEPT / "asked.json").read_text(encoding="utf-8"))
# by versions that had forms and units: the second took some decimals for doubles, and names of the third do
# not always tell them apart
LATER = [
    KEPT.parent / name for name in ("second", "second_decimals", "third", "third_comments", "fourth", "fifth")
]
COMMENTS = KEPT.parent / "third_comments"
KEYS = json.loads((KEPT / "keys.json").read_text(encoding="utf-8"))
NAMES = json.loads((KEPT.parent / "names.json").read_text(encoding="utf-8"))


# Charged at a distance of a promised column that does not hold for people with several rows: it was never
# drawn, and what would be drawn for it now is something else.
OUTGROWN = "SELECT SUM(weight) FROM patients WHERE sex = 'm'"


@pytest.fixture(autouse=True)
def nobody_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a copy of its own, so none must be remembered by another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def laid(folder: Path, ledger: str = "postgresql://nowhere", *, version: Path = KEPT) -> Path:
    """A kept version in a folder, with its ledgers."""
    laid_out(folder, version, ledger)
    for kept in version.glob("*.ledger"):
        shutil.copy(kept, folder / kept.name)
        (folder / kept.name).chmod(0o600)
    return folder


def told(version: Path) -> list[dict[str, Any]]:
    """What was asked of a kept ledger."""
    found: list[dict[str, Any]] = json.loads((version / "asked.json").read_text(encoding="utf-8"))["asked"]
    return found


def of(policy: str) -> list[dict[str, Any]]:
    return [question for question in ASKED["asked"] if question["policy"] == policy]


def check_all(database: Database, questions: list[dict[str, Any]]) -> None:
    """Ask everything again: stored ones are free and the same, open receipts are redeemed, and no more."""
    spent, length = database.ledger.spent, len(database.ledger.history())
    for question in questions:
        if question.get("open") or question.get("wrong"):
            continue
        found = asked(database, question).release()
        if "batch" in question:
            assert [numbers(each) for each in found] == question["shown"], question
            found = found[0]
        else:
            assert numbers(found) == question["shown"], question
        assert found.receipt.number == question["receipt"], question
        assert found.receipt.charged.amount == 0
    assert len(database.ledger.entries()) >= length
    for question in questions:
        if question.get("open") and question.get("ask", {}).get("sql") != OUTGROWN:
            first, again = asked(database, question).release(), asked(database, question).release()
            if "batch" in question:
                first, again = first[0], again[0]
            assert first.receipt.charged.amount == 0, question
            assert numbers(first) == numbers(again)
    assert database.ledger.spent == spent
    assert len(database.ledger.history()) == length
    database.ledger.verify()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clinic", "plain", "rho", "lake"])
def test_what_a_kept_ledger_holds_is_free_and_the_same(name: str, tmp_path: Path) -> None:
    folder = laid(tmp_path / "kept")
    check_all(sf.open(folder / f"{name}.toml"), of(name))


@pytest.mark.slow
@pytest.mark.parametrize("version", LATER, ids=lambda version: version.name)
def test_what_a_later_kept_ledger_holds_is_free_and_the_same(version: Path, tmp_path: Path) -> None:
    check_all(sf.open(laid(tmp_path / "kept", version=version) / "clinic.toml"), told(version))


@pytest.mark.parametrize("version", LATER, ids=lambda version: version.name)
def test_what_a_later_kept_ledger_read_wrongly_is_marked_and_answers_nothing(
    version: Path, tmp_path: Path
) -> None:
    database = sf.open(laid(tmp_path / "kept", version=version) / "clinic.toml")
    wrong = {each["receipt"]: each for each in told(version) if each.get("wrong")}
    lines = database.budget.as_dict()["history"]
    assert {line["receipt"] for line in lines if "note" in line} == set(wrong)
    last = len(database.ledger.entries())
    for receipt, each in wrong.items():
        question = asked(database, each)
        said = str(question.explain()) if "ask" in each else repr(question)
        assert f"receipt {receipt}" in " ".join(said.split())
        spent, found = database.ledger.spent.amount, question.release()
        assert database.ledger.spent.amount > spent
        release = found[0] if "batch" in each else found
        assert release.receipt.number > last
        again = asked(database, each).release()
        assert (again[0] if "batch" in each else again).receipt.number == release.receipt.number
    lines = database.budget.as_dict()["history"]
    assert {line["receipt"] for line in lines if "note" in line} == set(wrong)


def test_a_question_that_was_read_wrongly_is_known_in_every_spelling(tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path / "kept", version=COMMENTS) / "clinic.toml")
    (each,) = [each for each in told(COMMENTS) if each.get("ask", {}).get("sql", "").startswith("select")]
    for sql in (each["ask"]["sql"].upper(), f"{each['ask']['sql']};", f"/* all */ {each['ask']['sql']}"):
        question = database.sql(sql, epsilon="0.5")
        assert f"receipt {each['receipt']}" in str(question.explain())
        assert question.kept() is None


UNITED = (
    "SELECT COUNT(*) FROM (SELECT patient, fee AS v FROM visits UNION ALL SELECT"
    " patient, {} AS v FROM visits) AS u WHERE v * 0.1 = 0.29"
)
# what is stored, what is asked in its place, and in which ledgers the same had one name: there it is free
TWINS = (
    ("SELECT COUNT(*) FROM visits WHERE fee * 1e-1 = 0.29", "1e-1", "0.1", ""),
    ("SELECT SUM(ROUND(fee * 0.1, 1)), COUNT(*) FROM visits", "0.1,", "1e-1,", ""),
    ("SELECT SUM(ROUND(fee * 0.1, 1)), COUNT(*) FROM visits", "0.1,", "0.10,", "second_decimals third"),
    ("SELECT COUNT(*) FROM visits WHERE COALESCE(fee, 0.0) * 100 = 29", "0.0", "0", "second_decimals"),
    ("SELECT COUNT(*) FROM visits WHERE COALESCE(fee, 0.0) * 100 = 29", "0.0", "0e0", ""),
    (UNITED.format("90e0"), "90e0", "90.0", ""),
    (UNITED.format("80.0"), "80.0", "80e0", ""),
    (UNITED.format("80.0"), "80.0", "80.00", "second_decimals third"),
    ("SELECT COUNT(*) FROM visits WHERE COALESCE(fee, 90e0) > 50", "90e0", "90.0", "second_decimals"),
)


@pytest.mark.slow
@pytest.mark.parametrize("version", LATER[1:3], ids=lambda version: version.name)
def test_a_stored_release_answers_what_means_the_same_and_nothing_else(version: Path, tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path / "kept", version=version) / "clinic.toml")
    asked = [each for each in told(version) if "ask" in each and "receipt" in each]
    stored = {each["ask"]["sql"]: each["receipt"] for each in asked}
    for sql, old, new, same in TWINS:
        spent = database.ledger.spent
        found = database.sql(sql.replace(old, new), epsilon="0.5").release()
        assert (found.receipt.number == stored[sql]) == (version.name in same.split()), (sql, new)
        assert (database.ledger.spent == spent) == (found.receipt.number == stored[sql])


def test_an_idempotency_key_stands_for_its_question_after_an_upgrade(tmp_path: Path) -> None:
    """Keys are noted with the name of a question: that of its version is known, if it means the same."""
    for version in LATER[1:]:
        database = sf.open(laid(tmp_path / version.name, version=version) / "clinic.toml")
        for each in told(version):
            assert asked(database, each).is_or_was(each["key"]) != each.get("wrong", False), each


def test_what_was_taken_for_a_double_answers_no_decimal(tmp_path: Path) -> None:
    """0 beside a decimal was taken for a double: its answer is none to 0.0, with which it shared a name."""
    database = sf.open(laid(tmp_path / "kept", version=LATER[1]) / "clinic.toml")
    for sql in (
        "SELECT COUNT(*) FROM visits WHERE COALESCE(fee, {}) + 0.1 = 0.39",
        "SELECT COUNT(*) FROM (SELECT patient, SUM(COALESCE(fee, {})) AS s FROM visits GROUP BY patient) AS f"
        " WHERE s = 100.42",
    ):
        assert any(each.get("ask", {}).get("sql") == sql.format("0") for each in told(LATER[1]))
        assert database.sql(sql.format("0.0"), epsilon="0.5").kept() is None


def test_two_values_that_were_not_told_apart_are_not_mixed_up(tmp_path: Path) -> None:
    database = clinic(tmp_path)
    one, other = "SUM(ROUND(fee * 0.1, 1)) AS decimals", "SUM(ROUND(fee * 1e-1, 1)) AS doubles"
    first = database.sql(f"SELECT {one}, {other} FROM visits", epsilon="0.5").release()
    again = database.sql(f"SELECT {other}, {one} FROM visits", epsilon="0.5").release()
    assert first.receipt.number == again.receipt.number
    assert numbers(first) == [dict(reversed(row.items())) for row in numbers(again)]


ASKING = """
import json, sys
from pathlib import Path
from tests.kept.write import asked
import sfumato as sf
database = sf.open(Path(sys.argv[1]))
for question in json.loads(Path(sys.argv[2]).read_text()):
    asked(database, question).release()
    print("one", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", [KEPT, *LATER], ids=lambda version: version.name)
def test_an_upgrade_that_is_killed_again_and_again_charges_nothing(version: Path, tmp_path: Path) -> None:
    """Whoever asks is killed after one question, two, three, ...: in the middle of the next one."""
    policy = laid(tmp_path / "kept", version=version) / "clinic.toml"
    questions = [each for each in told(version) if each["policy"] == "clinic" and not each.get("wrong")]
    before = sf.open(policy).ledger.spent
    for stop in (1, 3, 8):
        turned = [*questions[-stop:], *questions[:-stop]]
        (tmp_path / "questions.json").write_text(json.dumps(turned), encoding="utf-8")
        command = [sys.executable, "-c", ASKING, str(policy), str(tmp_path / "questions.json")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=KEPT.parents[2])
        assert process.stdout is not None
        with process, process.stdout as lines:
            for _ in range(stop):
                lines.readline()
            process.kill()
        assert process.returncode == -signal.SIGKILL
    database = sf.open(policy)
    assert database.ledger.spent == before
    check_all(database, questions)


@pytest.fixture
def remote(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The kept ledger on a server. Its keys name the machine and the path of the data."""
    monkeypatch.setattr(platform, "node", lambda: HOST)
    store = Postgres(empty_database)
    rows = json.loads((KEPT / "remote.json").read_text(encoding="utf-8"))
    store.prepare()
    assert store.alone()
    with store.writing():
        store.write([tuple(row) for row in rows])
    store.leave()
    store.rest()
    shutil.rmtree(WHERE, ignore_errors=True)
    yield laid(WHERE, empty_database)
    shutil.rmtree(WHERE)


@pytest.mark.slow
def test_what_a_kept_ledger_on_a_server_holds_is_free_and_the_same(remote: Path) -> None:
    check_all(sf.open(remote / "remote.toml"), of("remote"))


@pytest.mark.slow
def test_a_retry_of_what_was_asked_before_is_free_and_the_same(tmp_path: Path) -> None:
    folder = laid(tmp_path / "kept")
    with serving(folder, "--no-deadlines", policy=folder / "clinic.toml") as server:
        token = server.let_in("ana")
        for question in ASKED["keyed"]:
            header = {"Idempotency-Key": question["key"]}
            status, found, _ = server.request("POST", question["path"], token, question["body"], header)
            assert status == 200, found
            shown, stored = [each.get("releases", [each]) for each in (found, question["answer"])]
            for one, other in zip(shown, stored, strict=True):
                assert one["receipt"] == other["receipt"]
                for row, first in zip(one["rows"], other["rows"], strict=True):
                    assert {k: v for k, v in row.items() if not k.endswith(("_low", "_high"))} == {
                        k: v for k, v in first.items() if not k.endswith(("_low", "_high"))
                    }
    counts = "SELECT COUNT(*), SUM(amount) FROM entries WHERE kind = 'charge'"
    kept = f"file:{KEPT / 'clinic.ledger'}?immutable=1"  # leaves no files beside it
    before = sqlite3.connect(kept, uri=True).execute(counts).fetchone()
    after = sqlite3.connect(folder / "clinic.ledger").execute(counts).fetchone()
    assert before == after


@pytest.mark.parametrize("name", sorted(KEYS))
def test_golden_keys(name: str) -> None:
    golden = KEYS[name]
    policy = policy_named(golden["policy"])
    assert former.policy_hash(policy) == golden["hash"]
    assert former.key(parse(golden["sql"], policy, former.measures)) == golden["key"]


# Names that later changes leave alone ------------------------------------------------------------------


def clinic(tmp_path: Path) -> Database:
    return sf.open(laid(tmp_path / "kept") / "clinic.toml")


def edited(database: Database, *changes: tuple[str, str]) -> Database:
    """The same database after its policy was edited."""
    path = Path(database.policy.file)
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return sf.open(path)


AVERAGE = "SELECT level, AVG(cost) FROM visits WHERE debt > 10 GROUP BY level"


def test_a_repeat_is_free_after_edits_of_what_it_does_not_read(tmp_path: Path) -> None:
    database = clinic(tmp_path)
    first = database.sql(AVERAGE, epsilon="0.25").release()
    edits = (
        ("high = 300", "high = 301"),  # of another table
        ('note = { type = "text" }', 'note = { type = "text", keys = ["calm", "pain"] }'),
        ('result = { type = "number", low = -5', 'result = { type = "number", low = -6'),
        ("rows_per_person = 10", "rows_per_person = 11"),
        ('epsilon = "500"', 'epsilon = "501"'),
    )
    again = edited(database, *edits).sql(AVERAGE, epsilon="0.25").release()
    assert (again.receipt.number, again.drawn) == (first.receipt.number, first.drawn)


@pytest.mark.parametrize(
    "edit",
    [
        ("high = 5000", "high = 5001"),
        ("keys = [1, 2, 3]", "keys = [1, 3, 2]"),
        ("high = 1000000", "high = 1000001"),
        ("rows_per_person = 4", "rows_per_person = 5"),
        ('duckdb = "clinic.duckdb"', 'duckdb = "other.duckdb"'),
    ],
)
def test_a_repeat_is_a_new_question_after_edits_of_what_it_reads(
    tmp_path: Path, edit: tuple[str, str]
) -> None:
    database = clinic(tmp_path)
    shutil.copy(database.policy.database, database.policy.database.with_name("other.duckdb"))
    first = database.sql(AVERAGE, epsilon="0.25").release()
    other = edited(database, edit)
    assert other.sql(AVERAGE, epsilon="0.25").kept() is None
    assert other.sql(AVERAGE, epsilon="0.25").release().receipt.number > first.receipt.number


def test_a_repeat_is_free_when_the_steps_would_be_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade that splits a price in another way, or rounds scales otherwise."""
    database = clinic(tmp_path)
    sql = "SELECT AVG(cost), SUM(debt), COUNT(DISTINCT note) FROM visits"
    asked = [database.sql(sql, epsilon="0.25"), database.sql(AVERAGE, epsilon="0.125")]
    first, together = asked[0].release(), database.batch(asked).release()
    monkeypatch.setattr(calibrate, "SIGNIFICANT", 8)
    monkeypatch.setattr(calibrate, "PLAIN", 1)
    monkeypatch.setattr(calibrate, "PARTS", 7)
    calibrate._calibrated.cache_clear()
    other = [database.sql(sql, epsilon="0.25"), database.sql(AVERAGE, epsilon="0.125")]
    assert other[0].query.spend != asked[0].query.spend
    assert other[0].release().receipt.number == first.receipt.number
    assert database.batch(other).release()[0].receipt.number == together[0].receipt.number
    calibrate._calibrated.cache_clear()


def test_a_receipt_pays_for_the_steps_that_were_charged_and_for_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = clinic(tmp_path)
    question = database.sql(AVERAGE, epsilon="0.25")
    paid = question.bill().charged(database.ledger)
    monkeypatch.setattr(calibrate, "PLAIN", 1)
    monkeypatch.setattr(calibrate, "SIGNIFICANT", 8)
    calibrate._calibrated.cache_clear()
    release = database.sql(AVERAGE, epsilon="0.25").release()
    assert release.receipt.number == paid.number
    assert release.query.spend == question.query.spend
    calibrate._calibrated.cache_clear()


def three_draws(measure: measures.Spread, distances: Distances, price: Fraction) -> Step[Quantiles]:
    """A quantile as it was bought before its interval was drawn around it: a value, and two ends by rank."""
    (rank,) = measure.ranks
    l1 = distances.presence.l1
    assert l1 is not None
    scales = [
        2 * max(rank, 1 - rank) * l1 / (price * part) for part in (Fraction(2, 3), *[Fraction(1, 6)] * 2)
    ]
    reach = Fraction(1 << 14)
    targets = tuple(zip([rank] * 3, (Fraction(0), -reach, reach), scales, strict=True))
    return Step(Quantiles(cells=measure.cells, targets=targets), distances)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_quantile_that_was_bought_with_ends_by_rank_is_free_and_what_it_was(
    is_stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, sql = clinic(tmp_path), "SELECT MEDIAN(cost) FROM visits"
    true = calibrate._choice

    def before(
        measure: measures.Measure, distances: Distances, epsilon: Fraction | None, rho: Fraction | None
    ) -> Step[Private] | None:
        if not isinstance(measure, measures.Spread):
            return true(measure, distances, epsilon, rho)
        assert epsilon is not None
        return three_draws(measure, distances, epsilon)

    calibrate._calibrated.cache_clear()
    monkeypatch.setattr(calibrate, "_choice", before)
    question = database.sql(sql, epsilon="0.25")
    old = question.query.spend
    assert isinstance(old[0].mechanism, Quantiles)
    if is_stored:
        first = numbers(question.release())
    else:
        question.bill().charged(database.ledger)  # as if the power had failed
    monkeypatch.undo()
    calibrate._calibrated.cache_clear()
    again, spent = database.sql(sql, epsilon="0.25"), database.ledger.spent
    assert again.query.spend != old
    assert "rows of its rank" in str(again.explain())
    release = again.release()
    assert release.query.spend == old
    assert database.ledger.spent == spent
    assert numbers(again.release()) == (first if is_stored else numbers(release))
    assert database.ledger.spent == spent


def test_stored_numbers_are_read_by_what_was_stored_with_them(tmp_path: Path) -> None:
    """A table is tuned after a question about it: other measures, and the stored ones are still read."""
    database = clinic(tmp_path)
    path = Path(database.policy.file)
    text = path.read_text(encoding="utf-8")
    sql = "SELECT AVG(amount), SUM(amount), COUNT(*) AS n FROM orders WHERE pieces > 3"
    tuned = database.sql(sql, epsilon="0.25").release()
    path.write_text(text[: text.index("# Released by")], encoding="utf-8")
    plain = sf.open(path)
    question = plain.sql(sql, epsilon="0.25")
    assert question.meaning != database.sql(sql, epsilon="0.25").meaning
    again = question.release()
    assert again.receipt.number == tuned.receipt.number
    assert numbers(again) == numbers(tuned)
    dearer = plain.sql(sql, epsilon="0.3").release()
    path.write_text(text, encoding="utf-8")
    assert numbers(sf.open(path).sql(sql, epsilon="0.3").release()) == numbers(dearer)


def test_a_class_that_is_renamed_changes_no_name(tmp_path: Path) -> None:
    database = clinic(tmp_path)
    before = [database.sql(each["ask"]["sql"], epsilon="1").key for each in of("clinic")[:60] if _plain(each)]
    kinds: tuple[type, ...] = (
        measures.Moments,
        measures.Sum,
        cells.Clamp,
        expressions.Field,
        expressions.Call,
        relations.Scan,
    )
    names = [kind.__qualname__ for kind in kinds]
    try:
        for kind in kinds:
            kind.__qualname__ = kind.__name__ = f"Renamed{kind.__name__}"
        after = [
            database.sql(each["ask"]["sql"], epsilon="1").key for each in of("clinic")[:60] if _plain(each)
        ]
    finally:
        for kind, name in zip(kinds, names, strict=True):
            kind.__qualname__ = kind.__name__ = name
    assert before == after


def _plain(question: dict[str, Any]) -> bool:
    return "ask" in question and not {"delta", "tune", "parameters"} & set(question["ask"])


def test_data_that_are_named_are_known_wherever_they_lie(tmp_path: Path) -> None:
    database = clinic(tmp_path)
    unnamed = database.sql(AVERAGE, epsilon="0.25").release()
    named = edited(database, ("[source]\n", '[source]\nname = "clinic of 2024"\n'))
    assert named.sql(AVERAGE, epsilon="0.25").release().receipt.number == unnamed.receipt.number
    stored = of("clinic")[0]
    assert asked(named, stored).release().receipt.number == stored["receipt"]
    dearer = named.sql(AVERAGE, epsilon="0.5").release()
    shutil.copy(named.policy.database, named.policy.database.with_name("moved.duckdb"))
    moved = edited(named, ("clinic.duckdb", "moved.duckdb"))
    assert moved.sql(AVERAGE, epsilon="0.5").release().receipt.number == dearer.receipt.number
    assert moved.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").kept() is None


def test_every_function_has_a_stored_name() -> None:
    assert {*domains.RULES, "clamp", "sane"} == set(notation.FUNCTIONS)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_names_of_questions_stay(name: str) -> None:
    golden = KEYS[name]
    policy = policy_named(golden["policy"])
    for reading, names in enumerate(NAMES, 2):
        plan = parse(golden["sql"], policy, reading=reading)
        assert forms.question(plan, policy, "clinic.duckdb", reading=reading) == names[name]


def test_a_receipt_whose_distances_do_not_hold_any_more_is_not_redeemed(tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path / "kept") / "plain.toml")
    (question,) = [each for each in of("plain") if each.get("open")]
    spent = database.ledger.spent.amount
    assert asked(database, question).release().receipt.charged.amount > 0
    assert database.ledger.spent.amount > spent


# Readings that were repaired ----------------------------------------------------------------------------

WRONGS = [question for question in of("clinic") if question.get("wrong") and question["ask"]["sql"] != SUMS]


@pytest.mark.parametrize("question", WRONGS, ids=lambda question: question["ask"]["sql"][:40])
def test_what_was_read_wrongly_stays_in_the_history_and_answers_nothing(
    question: dict[str, Any], tmp_path: Path
) -> None:
    database = clinic(tmp_path)
    wanted = asked(database, question)
    assert wanted.kept() is None
    told = str(wanted.explain())
    assert f"receipt {question['receipt']}" in told
    assert "repaired in version 0.2.0" in " ".join(told.split())
    lines = {line["receipt"]: line for line in database.budget.as_dict()["history"]}
    assert lines[question["receipt"]]["note"] == "answered under a reading repaired in version 0.2.0"
    spent = database.ledger.spent.amount
    release = wanted.release()
    assert database.ledger.spent.amount > spent
    assert release.receipt.number != question["receipt"]
    assert asked(database, question).release().receipt.number == release.receipt.number
    assert "repaired" not in str(asked(database, question).explain())


def test_what_was_read_wrongly_without_harm_stays_free(tmp_path: Path) -> None:
    """70.06 - 0.01 and 200.06 + 0.01 come out right in doubles, too."""
    (question,) = [each for each in of("clinic") if each.get("ask", {}).get("sql") == SUMS]
    assert asked(clinic(tmp_path), question).release().receipt.number == question["receipt"]


def test_a_comment_whose_end_is_lost_answers_only_what_it_must_have_been(tmp_path: Path) -> None:
    """Both texts are one on one line, and had one name; the first reads 1e-1, the second 0.1."""
    database = clinic(tmp_path)
    doubles = "SELECT COUNT(*) FROM visits WHERE fee * -- 0.1 --\n 1e-1 = 0.29"
    decimals = "SELECT COUNT(*) FROM visits WHERE fee * --\n 0.1 -- 1e-1\n = 0.29"
    one, other = (database.sql(sql, epsilon="0.5") for sql in (doubles, decimals))
    assert one.text_then == other.text_then
    assert one.key != other.key
    assert not one.answers(one.text_then, 1, "duckdb")
    assert not other.answers(one.text_then, 1, "duckdb")
    plain = "SELECT COUNT(*) -- it's all; of them\nFROM visits WHERE fee * 0.1 = 0.29"
    reworded = database.sql("select count(*) from visits where fee * 0.1 = 0.29", epsilon="0.5")
    assert reworded.answers(database.sql(plain, epsilon="0.5").text_then, 1, "duckdb")
    assert not reworded.answers(
        database.sql(plain.replace("0.1", "1e-1"), epsilon="0.5").text_then, 1, "duckdb"
    )


def test_bounds_of_a_decimal_column_are_decimals(tmp_path: Path) -> None:
    """What is clamped to them must be one, wherever it is computed with."""
    database = edited(clinic(tmp_path), *FINER)
    one, other = (
        database.sql(f"SELECT SUM(ABS(COALESCE(fee, {x}))) FROM visits", epsilon="1") for x in ("0.0", "0e0")
    )
    assert one.key == other.key
    (measure,) = one.plan.measures
    assert isinstance(measure, measures.Sum)
    assert measure.value.domain.high == Fraction("50.55")


FINER = (
    (
        'fee = { type = "number", low = 0, high = 100 }',
        'fee = { type = "number", low = 0.3333, high = 50.555 }',
    ),
)
PAID = "(SELECT patient, SUM(cost) AS s FROM visits GROUP BY patient) AS f"
BOTH = f"(SELECT patient, s AS v FROM {PAID} UNION ALL SELECT patient, cost AS v FROM visits) AS u"


@pytest.mark.parametrize(
    ("sql", "readings"),
    [
        ("SELECT COUNT(*) FROM visits WHERE CAST(FLOOR(cost) AS VARCHAR) = '2'", {0, 1, 2}),
        ("SELECT SUM(FLOOR(cost) // 7) FROM visits", {0, 1, 2}),
        ("SELECT SUM(FLOOR(cost) // 7) -- by week FROM visits WHERE urgent", {0, 1, 2, 3}),
        ("batch of 2: SELECT COUNT(*) FROM visits; SELECT SUM(FLOOR(cost) // 7) FROM visits", {0, 1, 2}),
        ("SELECT SUM(FLOOR(COALESCE(fee, 0) * 100)) FROM visits", {0, 1}),
        (f"SELECT COUNT(*) FROM {PAID} WHERE s >= 19.99", {0, 1, 2}),
        ("SELECT COUNT(*) FROM visits WHERE NVL(fee, 0) * 100 = 29", {0, 1}),
        ("SELECT COUNT(*) FROM visits WHERE IIF(age > 3, fee, 0) * 100 = 29", {0, 1}),
        ("SELECT COUNT(*) FROM visits WHERE NULLIF(3, fee) * 0.1 = 0.3", {0, 1}),
        (f"SELECT COUNT(*) FROM {PAID} WHERE ROUND(s, -2) = 100", {0, 1, 2}),
        (f"SELECT COUNT(*) FROM {BOTH} WHERE v = 1", {0, 1, 2}),
        (f"SELECT AVG(v) FROM {BOTH}", set()),
        (f"SELECT AVG(s), SUM(s), VARIANCE(s), COUNT(s) FROM {PAID}", set()),
        ("SELECT SUM(FLOOR(cost)) FROM visits WHERE note = 'FLOOR(cost) // 7'", set()),
        ("SELECT SUM(CAST(FLOOR(cost) AS INTEGER) // 7) FROM visits", set()),
        ("SELECT FLOOR(cost) // 7 FROM nowhere", set()),
        ("SELECT COUNT(*) FROM visits WHERE fee > 0.28999999999999999999", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE cost > 0.28999999999999999999", set()),
        ("SELECT COUNT(*) FROM visits WHERE fee - 0.28999999999999999999 > 0", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE fee - 0.28999999999999999 > 0", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE FLOOR(fee * 0.3333333333333333) = 1", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE cost * 0.3333333333333333 > 1", set()),
        ("SELECT COUNT(*) FROM visits WHERE fee * CAST(0.3333333333333333 AS DOUBLE) > 1", set()),
        ("SELECT SUM(fee * 0.3333333333333333) FROM visits", set()),
        ("SELECT SUM(FLOOR(fee * 0.3333333333333333)) FROM visits", {0, 1, 2, 3}),
        ("SELECT SUM(fee) FROM visits WHERE fee * (0.3333333333333333 + 1) > 1", {0, 1, 2, 3}),
        ("SELECT COUNT(DISTINCT fee * 0.3333333333333333) FROM visits", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE fee * 1000000000000 > fee * 1000000000000 - 0.01", {0, 1, 2, 3}),
        ("SELECT COUNT(*) FROM visits WHERE fee * 1000000000000 IN (29.0)", {0, 1, 2, 3}),
        ("SELECT SUM(fee * 1000000000000) FROM visits", {0}),
        ("SELECT SUM(age) FROM (SELECT * REPLACE (1 AS age) FROM visits) AS f", {0, 1, 2, 3, 4}),
        ("SELECT SUM(age) FROM (SELECT v.* EXCLUDE (age) FROM visits AS v) AS f", {0, 1, 2, 3, 4}),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT * EXCLUDE (patient, visit_id) FROM visits)", {0, 1, 2, 3, 4}),
        ("SELECT SUM(age) FROM (SELECT * EXCLUDE (urgent) FROM visits) AS f", set()),
        ("SELECT SUM(age) FROM (SELECT * RENAME (urgent AS u) FROM visits) AS f", set()),
    ],
)
def test_a_wrong_answer_is_marked_by_how_it_was_read(sql: str, readings: set[int], tmp_path: Path) -> None:
    database = clinic(tmp_path)
    entry = next(each for each in database.ledger.history() if each.kind == "charge")
    found = {
        reading
        for reading in range(5)
        if was_wrong(replace(entry, question=sql, reading=reading, redeemed=True), database.names)
    }
    assert found == readings


def test_nothing_else_in_the_history_is_marked(tmp_path: Path) -> None:
    folder = laid(tmp_path / "kept")
    marked = {}
    for name in ("clinic", "plain", "rho", "lake"):
        lines = sf.open(folder / f"{name}.toml").budget.as_dict()["history"]
        marked[name] = {line["receipt"] for line in lines if "note" in line}
    assert marked == {
        "clinic": {each["receipt"] for each in WRONGS},
        "plain": set(),
        "rho": set(),
        "lake": set(),
    }
