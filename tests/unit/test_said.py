"""What a policy says, and what is true: totals and promises that come late, are dropped, or are another's."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import shutil
import signal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from click.testing import CliRunner
from tests.unit.test_promises import AGE, HEAD

import sfumato as sf
from sfumato.budget import Ledger
from sfumato.cli.main import main
from sfumato.curator.participant import Page
from sfumato.errors import BudgetExceeded, LedgerError, PromiseBroken

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.database import Database

pytestmark = pytest.mark.slow  # `make check` leaves it out

COUNT, AVERAGE = "SELECT COUNT(*) FROM visits", "SELECT AVG(minutes) FROM visits"
LOOSE = AGE.replace("0.10", "0.25")


def laid(folder: Path, *promises: str, name: str = "cafe", epsilon: str = "100", **more: str) -> Path:
    """A policy in a folder, and the data if they are not there."""
    folder.mkdir(exist_ok=True)
    if not (folder / "cafe.duckdb").exists():
        with duckdb.connect(str(folder / "cafe.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE visits AS SELECT i::INTEGER AS person, (i % 61)::INTEGER AS minutes,"
                " 1.0 AS spent, 'A' AS place, DATE '1980-01-01' AS born, 1.0 AS salary, true AS vip"
                " FROM range(200) t(i)"
            )
            connection.execute("CREATE TABLE orders AS SELECT 1::INTEGER AS person, 5::INTEGER AS price")
            connection.execute("CREATE TABLE census AS SELECT 'A' AS place, 30::INTEGER AS minutes")
    budget = f'epsilon = "{epsilon}"\nledger = "{more.get("ledger", "cafe.ledger")}"'
    text = HEAD.format(budget=budget).replace('name = "cafe"', f'name = "{name}"')
    if "called" in more:
        text = text.replace("[source]\n", f'[source]\nname = "{more["called"]}"\n')
    file = folder / f"{name}.toml"
    file.write_text(text + "".join(f"[[promise]]\n{each}\n" for each in promises), encoding="utf-8")
    return file


def page(database: Database) -> str:
    return " ".join(Page.of(database).text().split())


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(main, [str(each) for each in arguments])
    return found.exit_code, " ".join(found.output.split())


# What comes after the spending ----------------------------------------------------------------------------


def test_a_total_that_was_passed_before_is_not_promised(tmp_path: Path) -> None:
    sf.open(laid(tmp_path)).sql(COUNT, epsilon="5").release()
    file = laid(tmp_path, epsilon="1")
    database = sf.open(file)
    (told,) = database.said.broken
    assert "The total of epsilon 1 is exceeded: epsilon 5 was spent before" in told
    assert 'epsilon = "5" under [budget]' in told
    assert "at most 149 times as likely" in page(database)
    assert "at most 99 percentage points, even if" in page(database)
    assert "2.72" not in page(database)
    code, said = run("check", file)
    assert code == 1
    assert "states something that is not true. The total of epsilon 1 is exceeded" in said
    assert "is right" not in said
    assert json.loads(CliRunner().invoke(main, ["check", str(file), "--json"]).output)["ok"] is False
    for command in (("budget",), ("participant",), ("explain", COUNT, "-e", "5")):
        code, said = run(command[0], file, *command[1:])
        assert code == 0
        assert "warning: The total of epsilon 1 is exceeded" in said
    assert sf.open(file).sql(COUNT, epsilon="5").release().cost.amount == 0
    file = laid(tmp_path, epsilon="5")
    assert sf.open(file).said.broken == ()
    assert run("check", file)[0] == 0


def test_a_delta_that_was_passed_before_is_not_promised(tmp_path: Path) -> None:
    file = laid(tmp_path, epsilon='1"\ndelta = "1e-6')
    database = sf.open(file)
    asked = [database.sql(COUNT, epsilon="0.1"), database.sql(AVERAGE, epsilon="0.1")]
    database.batch(asked, delta="5e-7").release()
    late = sf.open(laid(tmp_path, epsilon='1"\ndelta = "1e-9'))
    assert 'delta = "0.0000005" under [budget]' in late.said.broken[0]
    assert late.ledger.most.delta == database.ledger.spent.delta


def test_a_promise_that_was_broken_before_is_not_promised(tmp_path: Path) -> None:
    sf.open(laid(tmp_path)).sql(AVERAGE, epsilon="20").release()
    file = laid(tmp_path, AGE)
    database = sf.open(file)
    (told,) = database.said.broken
    assert "A promise is broken: nobody who knows" in told
    assert "What was released before allows 99 percentage points" in told
    assert "becomes more than 99 percentage points surer of your visits.minutes" in page(database)
    assert "The owner promises 10 percentage points, but what was released before" in page(database)
    assert "more than 10 percentage points" not in page(database)
    code, said = run("check", file)
    assert code == 1
    assert "is already broken, so every question is refused" in said
    assert database.standing.as_dicts()[0]["broken"]
    assert (
        "(promised: 10 percentage points, which is less)"
        in database.sql(AVERAGE, epsilon="20").release().gains[0]
    )
    assert "It can no longer be promised: what was released so far" in repr(database.suggestions[0])
    assert "It can no longer be promised: what was released so far" in run("suggest", file)[1]
    with pytest.raises(PromiseBroken):
        database.sql(COUNT, epsilon="0.001").release()


def test_a_promise_that_allows_nothing_is_not_broken_by_nothing(tmp_path: Path) -> None:
    file = laid(tmp_path, AGE, epsilon='1"\ndelta = "0.05')
    database = sf.open(file)
    assert database.ledger.own[0].corners == ()
    assert database.said.broken == ()
    assert run("check", file)[0] == 0
    assert database.suggestions[0].passed == ""


# What is taken out of a policy ----------------------------------------------------------------------------


def test_a_promise_that_is_dropped_is_kept_until_the_owner_withdraws_it(tmp_path: Path) -> None:
    file = laid(tmp_path, AGE)
    early = sf.open(file)
    laid(tmp_path)
    for command in (("budget",), ("check",), ("participant",)):
        assert run(command[0], file)[0] == 0
    late = sf.open(file)
    for database in (early, late):
        with pytest.raises(PromiseBroken, match="more than 10 percentage points"):
            database.sql(AVERAGE, epsilon="20").release()
        assert database.sql(AVERAGE, epsilon="20").explain().breaks
    assert "no longer contains a promise that is in force:" in run("check", file)[1]
    assert "Nobody who knows everyone else's record becomes more than 10" in page(late)
    assert run("promise", file)[1].count("still in force") == 2
    code, said = run("promise", file, "--withdraw")
    assert code == 0
    assert "Withdrew 1 promise." in said
    assert "promised by cafe until" in said
    with pytest.raises(PromiseBroken):  # it says that it promises 10, so it keeps that
        early.sql(AVERAGE, epsilon="20").release()
    release = late.sql(AVERAGE, epsilon="20").release()
    assert "promised" not in release.gains[0]
    assert "it was promised that nobody who knows" in page(late)
    assert "It is no longer promised." in page(sf.open(file))
    assert "Nothing to withdraw" in run("promise", file, "--withdraw")[1]
    kinds = [entry.kind for entry in late.ledger.entries()]
    assert kinds.count("withdrawn") == 1
    assert late.ledger.verify() == len(kinds)
    again = sf.open(laid(tmp_path, AGE))  # made again, too late: and then it is not said to be withdrawn
    assert again.said.broken
    assert "no longer promised" not in page(again)


def test_a_weaker_promise_replaces_none_and_a_stricter_one_is_said_alone(tmp_path: Path) -> None:
    strict = sf.open(laid(tmp_path, AGE))
    loose = sf.open(laid(tmp_path, LOOSE))
    assert [limit.made for limit in loose.said.still_kept] == [strict.ledger.own[0].made]
    allowed = strict.ledger.own[0].corners[0][0] / 2 / 10**12
    with pytest.raises(PromiseBroken, match="10 percentage points"):
        loose.sql(AVERAGE, epsilon=f"{allowed + 0.01:.6f}").release()
    back = sf.open(laid(tmp_path, AGE))  # and the looser one is implied by it
    assert back.said.still_kept == ()
    assert len(back.said.dropped) == 1
    loose = sf.open(laid(tmp_path, LOOSE))
    loose.said.withdraw()
    loose.sql(AVERAGE, epsilon=f"{allowed + 0.01:.6f}").release()
    assert loose.said.broken == ()


def test_a_promise_that_was_broken_and_then_dropped_is_not_said_to_hold(tmp_path: Path) -> None:
    sf.open(laid(tmp_path)).sql(AVERAGE, epsilon="20").release()
    sf.open(laid(tmp_path, AGE))
    late = sf.open(laid(tmp_path))
    assert late.said.still_kept
    told = page(late)
    assert "Whatever anyone asks, an attacker's confidence in any one fact" in told
    assert "It was promised that nobody who knows" in told
    assert "More than that was released before" in told
    assert "Nobody who knows everyone else's record becomes more than 10" not in told


def test_a_promise_that_is_withdrawn_beside_a_stricter_one_is_still_promised(tmp_path: Path) -> None:
    sf.open(laid(tmp_path, LOOSE))
    strict = sf.open(laid(tmp_path, AGE))
    assert len(strict.said.withdraw()) == 1
    assert "no longer promised" not in page(strict)
    none = sf.open(laid(tmp_path))
    none.said.withdraw()
    assert page(none).count("no longer promised") == 2


def test_two_promises_about_other_things_do_not_imply_each_other(tmp_path: Path) -> None:
    place = 'secret = "visits.place"\nadvantage = "0.01"\n'
    sf.open(laid(tmp_path, AGE, place))
    late = sf.open(laid(tmp_path, place))
    assert [limit.about for limit in late.said.still_kept] == ["visits.minutes"]


def test_a_public_table_that_changes_needs_no_withdrawal(tmp_path: Path) -> None:
    file = laid(tmp_path, AGE + 'prior = "census.minutes"\nmetric = "manhattan"')
    first = sf.open(file)
    del first
    with duckdb.connect(str(tmp_path / "cafe.duckdb")) as connection:
        connection.execute("INSERT INTO census VALUES ('B', 10)")
    second = sf.open(file)
    assert len(second.ledger.promises()) == 1
    assert second.said.dropped == ()


def test_what_a_charge_was_held_to_is_written_with_it(tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path, AGE))
    database.sql(COUNT, epsilon="0.1").release()
    (line,) = database.ledger.chain.lines("charge")
    own = database.ledger.own[0].made
    assert json.loads(line.body)["under"] == {"total": [100 * 10**12, 0], "promises": [own]}
    sf.open(laid(tmp_path))
    database.said.ledger.withdraw(database.ledger.own)
    database.sql(COUNT, epsilon="0.2").release()
    *_, line = database.ledger.chain.lines("charge")
    assert json.loads(line.body)["under"]["promises"] == [own]


def test_an_earlier_version_cannot_erase_promises_either(tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path, AGE))
    wish = {"act": "note", "kind": "promise", "found": "promises", "body": {"limits": []}}
    database.ledger._submit(wish)
    assert database.ledger.promises() == database.ledger.own


def test_a_promise_as_an_earlier_version_stored_it_is_the_same_promise(tmp_path: Path) -> None:
    database = sf.open(laid(tmp_path, AGE))
    ledger, own = database.ledger, database.ledger.own
    old = {k: v for k, v in own[0].as_dict().items() if k not in ("declared", "about")}
    with ledger._alone(), ledger.store.writing():
        body = {"database": "cafe", "limits": [old]}
        ledger.chain.append("promise", ledger.chain.now(), body, found="promises")
    assert ledger.promises()[0].declared == ""
    assert sf.open(laid(tmp_path, AGE)).ledger.promises() == own


def _opening(file: str, gate: Any, count: int) -> None:
    gate.wait()
    for _ in range(count):
        sf.open(file)


def test_processes_that_open_other_texts_of_a_policy_lose_no_promise(tmp_path: Path) -> None:
    """Two copies of one policy, on machines of their own as it were, with one promise each."""
    place = 'secret = "visits.place"\nadvantage = "0.2"\n'
    one = laid(tmp_path / "one", AGE, ledger="../cafe.ledger", called="data")
    two = laid(tmp_path / "two", place, ledger="../cafe.ledger", called="data")
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(2)
    workers = [context.Process(target=_opening, args=(str(file), gate, 5)) for file in (one, two)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    database = sf.open(one)
    assert {limit.about for limit in database.ledger.promises()} == {"visits.minutes", "visits.place"}
    kinds = [entry.kind for entry in database.ledger.entries()]
    assert kinds.count("promise") == 2


def _dying(file: str, when: str) -> None:
    database = sf.open(file)
    act = getattr(database.ledger.store, when)

    def dying(*arguments: Any) -> None:
        if when == "leave":
            act(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(database.ledger.store, when, dying)
    database.said.withdraw()


@pytest.mark.parametrize(("when", "kept"), [("write", 1), ("leave", 0)])
def test_a_withdrawal_is_whole_or_not_at_all(tmp_path: Path, when: str, kept: int) -> None:
    sf.open(laid(tmp_path, AGE))
    file = laid(tmp_path)
    worker = multiprocessing.get_context("spawn").Process(target=_dying, args=(str(file), when))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    database = sf.open(file)
    assert len(database.ledger.promises()) == kept
    assert len(database.ledger.withdrawn()) == 1 - kept
    database.ledger.verify()


# Whose name it is -----------------------------------------------------------------------------------------


def test_a_name_belongs_to_one_policy_on_a_ledger(tmp_path: Path) -> None:
    first = sf.open(laid(tmp_path / "a", AGE, ledger="../cafe.ledger", epsilon="1"))
    file = laid(tmp_path / "b", ledger="../cafe.ledger")
    entries = len(first.ledger.entries())
    with pytest.raises(LedgerError, match=r"the name 'cafe' belongs to another policy.*a/cafe.toml"):
        sf.open(file)
    assert len(first.ledger.entries()) == entries
    assert first.ledger.limit.amount == 1
    with pytest.raises(BudgetExceeded):
        first.sql(AVERAGE, epsilon="20").release()
    text = file.read_text(encoding="utf-8").replace('name = "cafe"', 'name = "cafe-2"')
    file.write_text(text, encoding="utf-8")
    assert sf.open(file).ledger.limit.amount == 1  # the smaller total applies


def test_a_policy_may_be_moved_copied_linked_and_edited(tmp_path: Path) -> None:
    where = laid(tmp_path / "a", AGE, ledger="../cafe.ledger")
    sf.open(where)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    data = str((tmp_path / "a" / "cafe.duckdb").resolve())
    for folder in ("a", "b"):  # a copy for every worker, of one data file
        file = tmp_path / folder / "cafe.toml"
        text = file.read_text(encoding="utf-8").replace('duckdb = "cafe.duckdb"', f'duckdb = "{data}"')
        file.write_text(text, encoding="utf-8")
    sf.open(tmp_path / "a" / "cafe.toml")
    sf.open(tmp_path / "b" / "cafe.toml")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "cafe.toml").symlink_to(tmp_path / "a" / "cafe.toml")
    sf.open(tmp_path / "c" / "cafe.toml")
    sf.open(laid(tmp_path / "a", AGE, ledger="../cafe.ledger", epsilon="50"))
    shutil.rmtree(tmp_path / "b")
    shutil.move(tmp_path / "a", tmp_path / "d")
    moved = sf.open(laid(tmp_path / "d", AGE, ledger="../cafe.ledger", epsilon="60"))
    assert moved.ledger.limit.amount == 60
    entries = len(moved.ledger.entries())
    sf.open(tmp_path / "d" / "cafe.toml")
    assert len(moved.ledger.entries()) == entries  # nothing is noted twice


def test_a_folder_that_is_moved_with_its_ledger_is_the_same_policy(tmp_path: Path) -> None:
    sf.open(laid(tmp_path / "a", AGE)).sql(COUNT, epsilon="0.1").release()
    shutil.move(tmp_path / "a", tmp_path / "b")
    database = sf.open(tmp_path / "b" / "cafe.toml")
    assert [entry.kind for entry in database.ledger.entries()].count("policy") == 0


def test_the_name_of_the_data_says_which_policy_it_is(tmp_path: Path) -> None:
    sf.open(laid(tmp_path / "blue", AGE, ledger="../cafe.ledger", called="one"))
    green = sf.open(laid(tmp_path / "green", LOOSE, ledger="../cafe.ledger", called="one", epsilon="9"))
    assert len(green.ledger.promises()) == 2  # an edit of the same policy
    with pytest.raises(LedgerError, match="belongs to another policy"):
        sf.open(laid(tmp_path / "red", ledger="../cafe.ledger", called="two"))


def test_servers_may_have_the_same_policy_at_other_paths(
    tmp_path: Path, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = laid(tmp_path / "a", AGE, ledger=empty_database)
    sf.open(file)
    monkeypatch.setattr(platform, "node", lambda: "another-machine")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    second = sf.open(laid(tmp_path / "b", LOOSE, ledger=empty_database))
    assert len(second.ledger.promises()) == 2
    with pytest.raises(LedgerError, match="belongs to another policy"):  # beside one on the same machine
        sf.open(laid(tmp_path / "c", ledger=empty_database))


def test_the_first_opening_after_an_upgrade_says_where_the_policy_lies(tmp_path: Path) -> None:
    file = laid(tmp_path / "a", ledger="../cafe.ledger")
    Ledger(tmp_path / "cafe.ledger", name="cafe", total=sf.Guarantee.parse("100"))
    database = sf.open(file)
    assert [entry.kind for entry in database.ledger.entries()] == ["opened", "grant", "policy"]
    assert len(sf.open(file).ledger.entries()) == 3
    with pytest.raises(LedgerError, match="belongs to another policy"):
        sf.open(laid(tmp_path / "b", ledger="../cafe.ledger"))


def test_a_policy_that_is_retired_promises_nothing_any_more(tmp_path: Path) -> None:
    sf.open(laid(tmp_path, AGE, name="clinic", epsilon="1"))
    file = laid(tmp_path, name="study")
    study = sf.open(file)
    with pytest.raises(BudgetExceeded):
        study.sql(AVERAGE, epsilon="20").release()
    assert "the smaller total applies" in run("check", file)[1]
    code, said = run("budget", file, "--retire", "clinic")
    assert (code, "clinic is retired" in said) == (0, True)
    study.sql(AVERAGE, epsilon="20").release()
    assert "it was promised by clinic, which was about the same people, that nobody" in page(study)
    clinic = sf.open(laid(tmp_path, AGE, name="clinic", epsilon="1"))
    assert len(clinic.said.broken) == 2
    with pytest.raises(BudgetExceeded):
        study.sql(COUNT, epsilon="1").release()


# Names and numbers ----------------------------------------------------------------------------------------


def test_a_new_name_that_looks_like_another_is_refused_at_the_terminal_and_an_old_one_is_not(
    tmp_path: Path,
) -> None:
    file = laid(tmp_path)
    for command in (
        ("grant", file, "alice ", "-e", "1"),
        ("sql", file, COUNT, "-e", "1", "--as", "\u0430lice"),
    ):
        code, said = run(*command)
        assert code == 1
        assert "it could be confused with another name" in said
    database = sf.open(file)
    assert database.ledger.spent.amount == 0
    database.on_behalf_of("alice ").sql(COUNT, epsilon="0.1").release()  # as a server does for whom it knows
    sf.open(file, analyst="alice ").sql(AVERAGE, epsilon="0.1").release()
    assert run("grant", file, "alice ", "-e", "0.5")[0] == 0
    assert run("grant", file, "alice ", "--revoke")[0] == 0


@pytest.mark.parametrize("price", ["1_0", "\u0661", "1\u0660"])
def test_a_price_is_written_in_plain_digits(tmp_path: Path, price: str) -> None:
    file = laid(tmp_path)
    for command in (
        ("grant", file, "ana", "-e", price),
        ("sql", file, COUNT, "-e", price),
        ("suggest", file, "visits.minutes", "--within", price, "--advantage", "0.1"),
        (
            "suggest",
            file,
            "visits.minutes",
            "--within",
            "2",
            "--advantage",
            "0.1",
            "--prior",
            f"normal:40,{price}",
        ),
        ("check", laid(tmp_path, epsilon=price)),
    ):
        code, said = run(*command)
        assert code == 1, command
        assert "refused" in said
    assert sf.open(laid(tmp_path)).ledger.spent.amount == 0
