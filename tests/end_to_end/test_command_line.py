"""The commands as a user types them: real processes in an empty folder."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import duckdb
import pytest
from tests.support import make, wild_rows

import sfumato as sf
from sfumato.queries import policy as policies

if TYPE_CHECKING:
    from collections.abc import Callable

SFUMATO = str(Path(sys.executable).parent / "sfumato")


def run(*arguments: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    found = subprocess.run([SFUMATO, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    assert found.returncode == code, found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr
    return found


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A database without a policy."""
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT (i % 500)::INTEGER AS patient_id,"
            " ['A', 'B'][1 + (i % 2)::INTEGER] AS ward,"
            " (20 + i % 60)::INTEGER AS age, (i % 100) * 1.5 AS cost FROM range(2000) AS r(i)"
        )
        connection.execute("CREATE TABLE wards AS SELECT * FROM (VALUES ('A'), ('B')) AS v(ward)")
    return tmp_path


INIT = ["init", "clinic.duckdb", "--epsilon", "1", "--unit", "visits=patient_id", "--rows", "visits=5"]
INIT += ["--bounds", "visits.age=0:110", "--bounds", "visits.cost=0:200", "--keys", "visits.ward=A,B"]
INIT += ["--public", "wards"]


def declared(folder: Path) -> None:
    """A policy whose caps stay as declared, where it is not caps that are looked at."""
    run(*INIT, folder=folder)
    policy = folder / "clinic.toml"
    text = policy.read_text(encoding="utf-8")
    policy.write_text(re.sub(r"\[measure\]\n.*\n.*\n", "", text), encoding="utf-8")


def test_from_a_database_to_an_empty_budget(clinic: Path) -> None:
    assert "wrote clinic.toml" in run(*INIT, folder=clinic).stdout
    assert "clinic.toml is valid." in run("check", "clinic.toml", folder=clinic).stdout
    sql = "SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward"
    explained = run("explain", "clinic.toml", sql, "-e", "0.6", "--engine-sql", folder=clinic).stdout
    assert "No row was read and nothing was spent." in explained
    assert re.search(r"SELECT .* FROM \"visits\" AS t0", explained)
    told = run("sql", "clinic.toml", sql, "-e", "0.6", folder=clinic).stdout
    assert re.search(r"ward +n +95% interval +mean +95% interval", told)
    assert re.search(
        r"Charged epsilon 0\.6 \(receipt \d+-[0-9a-f]{16}\), epsilon 0\.18 of it to find a cap that fits\."
        r" +Epsilon 0\.4 left in 'clinic'\.",
        " ".join(told.split()),
    )
    again = run("sql", "clinic.toml", sql, "-e", "0.6", folder=clinic).stdout
    assert "Free: answered from receipt" in again
    assert told.splitlines()[:4] == again.splitlines()[:4]
    refused = run("sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "0.9", folder=clinic, code=1)
    assert (
        "refused: this query asks for epsilon 0.9, but 'clinic' has only epsilon 0.4 left." in refused.stderr
    )
    assert "Nothing was spent" in refused.stderr
    spent = run("budget", "clinic.toml", folder=clinic).stdout
    assert "epsilon 0.6 of 1 spent, 0.4 left" in spent
    assert sql in spent
    assert (
        "Stored releases are no longer repeated" in run("data-changed", "clinic.toml", folder=clinic).stdout
    )
    over = run("sql", "clinic.toml", sql, "-e", "0.6", folder=clinic, code=1)
    assert "only epsilon 0.4 left" in over.stderr


def test_every_command_speaks_json(clinic: Path) -> None:
    assert json.loads(run(*INIT, "--json", folder=clinic).stdout) == {"policy": "clinic.toml", "open": []}
    assert json.loads(run("check", "clinic.toml", "--json", folder=clinic).stdout)["ok"] is True
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    explained = json.loads(run("explain", "clinic.toml", sql, "-e", "0.5", "--json", folder=clinic).stdout)
    assert (explained["epsilon"], explained["epsilon_replaced"], explained["groups"]) == ("0.5", "1", 2)
    told = json.loads(run("sql", "clinic.toml", sql, "-e", "0.5", "--json", folder=clinic).stdout)
    assert [row["ward"] for row in told["rows"]] == ["A", "B"]
    assert set(told["rows"][0]) == {"ward", "n", "n_low", "n_high"}
    assert (told["charged"], told["left"]) == ("0.5", "0.5")
    spent = json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)
    assert (spent["total"], spent["spent"], spent["left"]) == ("1", "0.5", "0.5")
    assert [each["question"] for each in spent["history"]][-1] == sql
    assert [each["epsilon"] for each in spent["history"]] == ["0.15", "0.35"]
    changed = json.loads(run("data-changed", "clinic.toml", "--json", folder=clinic).stdout)
    assert changed == {"data_version": 2, "left": "0.5"}
    refused = json.loads(run("sql", "clinic.toml", sql, "-e", "0.6", "--json", folder=clinic, code=1).stdout)
    assert refused["error"]["type"] == "BudgetExceeded"


def test_csv_and_other_levels(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    rows = list(
        csv.DictReader(io.StringIO(run("sql", "clinic.toml", sql, "-e", "1", "--csv", folder=clinic).stdout))
    )
    assert [row["ward"] for row in rows] == ["A", "B"]
    assert all(float(row["n_low"]) <= float(row["n"]) <= float(row["n_high"]) for row in rows)
    wide = run("sql", "clinic.toml", sql, "-e", "1", "--level", "0.999", folder=clinic).stdout
    assert "99.9% interval" in wide


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["sql", "clinic.toml", "SELECT COUNT(* FROM visits", "-e", "1"], 1, "^^^^"),
        (["sql", "clinic.toml", "SELECT AVG(agee) FROM visits", "-e", "1"], 1, "Did you mean age?"),
        (["sql", "clinic.toml", "SELECT SUM(patient_id) FROM visits", "-e", "1"], 1, "low = ..., high = ..."),
        (["sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "minus"], 1, "positive number"),
        (["sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "1", "--level", "2"], 1, "probability"),
        (["sql", "nowhere.toml", "SELECT COUNT(*) FROM visits", "-e", "1"], 1, "no such policy file"),
        (
            ["sql", "clinic.toml", "SELECT COUNT(*) FROM visits"],
            1,
            "no price given: say what the question may cost: --epsilon 0.1",
        ),
        (["sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "--rho", "1"], 1, "the budget is in epsilon"),
        (
            ["sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "1", "--delta", "1e-6"],
            1,
            "no delta for questions",
        ),
        (["budget", "clinic.toml", "--verify", "1-0123456789abcdef"], 1, "has no entry 1-0123456789abcdef"),
        (["budget", "clinic.toml", "--picture", "nowhere/x.svg"], 1, "No such file or directory"),
        (["grant", "clinic.toml"], 2, "Missing argument 'NAME'"),
        (["grant", "clinic.toml", "ana"], 1, "no amount given"),
        (["grant", "clinic.toml", "ana", "--revoke"], 1, "no such share"),
        (["grant", "clinic.toml", "ana", "--rho", "1"], 1, "this ledger counts epsilon"),
        (["grant", "clinic.toml", "ana", "-e", "many"], 1, "positive number"),
        (["grant", "clinic.toml", "ana", "-e", "1", "--every", "year"], 2, "'day', 'week', 'month'"),
        (["grant", "clinic.toml", " ", "-e", "1"], 1, "printable characters"),
        (["check", "clinic.duckdb"], 1, "cannot be read as text"),
        (["check", "."], 2, "is a directory"),
        (["init", "nowhere.duckdb"], 1, "no database file"),
        (["init", "clinic.duckdb"], 1, "already exists"),
        (["init", "clinic.duckdb", "-p", "x.toml", "--unit", "visit=row"], 1, "known: visits, wards"),
        (["init", "clinic.duckdb", "-p", "x.toml", "--bounds", "visits.age=1"], 1, "low:high"),
        (["init", "clinic.duckdb", "-p", "x.toml", "--unit", "visits"], 1, "NAME=VALUE"),
        (["init", "clinic.duckdb", "-p", "x.toml", "--rows", "visits=many"], 1, "whole number"),
        (["init", "clinic.duckdb", "-p", "x.toml", "--unit", "visits=zzz"], 1, "one of patient_id, ward"),
        (["init", "clinic.duckdb", "-p", "nowhere/x.toml"], 1, "No such file or directory"),
        (["demo", "--folder", "clinic.toml/demo"], 1, "Not a directory"),
        (["sql", "clinic.toml", "SELECT COUNT() FROM visits", "-e", "1"], 1, "needs an argument"),
        (
            ["sql", "clinic.toml", "SELECT COUNT(*) + 1e999999999 FROM visits", "-e", "1"],
            1,
            "Write a number of moderate size",
        ),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_a_mistake_gets_a_message_not_a_traceback(
    clinic: Path, arguments: list[str], code: int, says: str
) -> None:
    run(*INIT, folder=clinic)
    found = run(*arguments, folder=clinic, code=code)
    assert says in found.stdout + found.stderr


def test_the_owner_gives_shares_and_everybody_sees_the_budget(clinic: Path) -> None:
    declared(clinic)
    told = run("grant", "clinic.toml", "ana", "-e", "0.5", "--every", "month", folder=clinic).stdout
    assert "ana may spend epsilon 0.5, refilled every month; epsilon 0.5 of it is left now." in told
    assert "This is part of the total of clinic, which is still epsilon 1." in told
    lab = ["grant", "clinic.toml", "lab", "-e", "0.3", "--member", "bob", "--member", "eve"]
    assert "lab may spend epsilon 0.3; epsilon 0.3 of it is left now." in run(*lab, folder=clinic).stdout
    more = run("grant", "clinic.toml", "all", "-e", "0.1", "--member", "ana", folder=clinic).stdout
    assert "all may spend epsilon 0.1; epsilon 0.1 of it is left now." in more
    assert (
        "The share of all is removed" in run("grant", "clinic.toml", "all", "--revoke", folder=clinic).stdout
    )
    facts = json.loads(run(*lab, "--json", folder=clinic).stdout)
    assert (facts["name"], facts["members"], facts["left"]) == ("lab", ["bob", "eve"], {"epsilon": "0.3"})
    sql = ["sql", "clinic.toml", "SELECT COUNT(*) AS n FROM visits"]
    run(*sql, "-e", "0.2", "--as", "bob", folder=clinic)
    other = ["sql", "clinic.toml", "SELECT SUM(age) FROM visits", "-e", "0.2"]
    refused = run(*other, "--as", "eve", folder=clinic, code=1).stderr
    assert "the share of 'lab' has only epsilon 0.1 left" in refused
    assert "sfumato grant POLICY NAME" in run(*other, "--as", "zed", folder=clinic, code=1).stderr
    assert "Free: answered from receipt" in run(*sql, "-e", "0.2", "--as", "ana", folder=clinic).stdout
    run(*other, "--as", "ana", folder=clinic)
    told = run("budget", "clinic.toml", folder=clinic).stdout
    assert re.search(r"ana +0\.2 +0\.5 +0\.3 +every month, from the total", told)
    assert re.search(r"lab +0\.2 +0\.3 +0\.1 +never", told)
    rows = list(csv.DictReader(io.StringIO(run("budget", "clinic.toml", "--csv", folder=clinic).stdout)))
    assert [(row["analyst"], row["epsilon"]) for row in rows] == [("bob", "0.2"), ("ana", "0.2")]
    run("budget", "clinic.toml", "--picture", "left.svg", folder=clinic)
    assert ElementTree.parse(clinic / "left.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    facts = json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)
    assert facts["by_analyst"] == {"bob": "0.2", "ana": "0.2"}
    assert [share["left"] for share in facts["shares"]] == ["0.3", "0.1", "0"]


def test_a_receipt_can_be_looked_for_in_the_ledger(clinic: Path) -> None:
    declared(clinic)
    sql = "SELECT COUNT(*) AS n FROM visits"
    head = re.search(
        r"receipt (3-[0-9a-f]{16})", run("sql", "clinic.toml", sql, "-e", "1", folder=clinic).stdout
    )
    assert head is not None
    told = run("budget", "clinic.toml", "--verify", head[1], folder=clinic).stdout
    assert "All 5 entries are intact and contain this head." in told
    assert "All 5 entries" in run("budget", "clinic.toml", "--verify", folder=clinic).stdout
    facts = json.loads(run("budget", "clinic.toml", "--verify", head[1], "--json", folder=clinic).stdout)
    assert (facts["entries"], facts["head"][:2]) == (5, "5-")


def test_a_ledger_that_was_lost_or_is_an_old_copy_is_refused_until_the_owner_accepts(clinic: Path) -> None:
    declared(clinic)
    ledger, old = clinic / "clinic.ledger", clinic / "old"
    run("sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "0.2", folder=clinic)
    shutil.copy(ledger, old)
    run("sql", "clinic.toml", "SELECT SUM(age) FROM visits", "-e", "0.3", folder=clinic)
    shutil.copy(old, ledger)
    question = ["sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "0.2"]
    assert "is older than the state" in run(*question, folder=clinic, code=1).stderr
    assert "epsilon 0.5 of 1 spent" in run("budget", "clinic.toml", "--accept", folder=clinic).stdout
    assert "Free: answered from receipt 3" in run(*question, folder=clinic).stdout
    ledger.unlink()
    refused = run(*question, folder=clinic, code=1).stderr
    assert "records one that had spent epsilon 0.5" in refused
    assert "sfumato budget POLICY --accept" in refused
    assert not ledger.exists()
    assert "epsilon 0.5 of 1 spent" in run("budget", "clinic.toml", "--accept", folder=clinic).stdout


def test_a_budget_of_rho_is_asked_and_told_in_rho(clinic: Path) -> None:
    declared(clinic)
    policy = clinic / "clinic.toml"
    policy.write_text(
        policy.read_text(encoding="utf-8").replace('epsilon = "1"', 'rho = "0.5"'), encoding="utf-8"
    )
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    assert "the budget is in rho" in run("sql", "clinic.toml", sql, "-e", "0.1", folder=clinic, code=1).stderr
    told = run("explain", "clinic.toml", sql, "--rho", "0.1", folder=clinic).stdout
    assert "rho 0.1, of 0.5 left" in told
    assert "gaussian noise, 95% of it within" in told
    assert "Charged rho 0.1" in run("sql", "clinic.toml", sql, "--rho", "0.1", folder=clinic).stdout
    assert "rho 0.1 of 0.5 spent, 0.4 left" in run("budget", "clinic.toml", folder=clinic).stdout


def test_a_silly_level_is_refused_before_the_charge(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    run("sql", "clinic.toml", "SELECT COUNT(*) FROM visits", "-e", "1", "--level", "2", folder=clinic, code=1)
    assert json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)["spent"] == "0"


def test_a_policy_mistake_names_the_line(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    policy = clinic / "clinic.toml"
    policy.write_text(
        policy.read_text(encoding="utf-8").replace("low = 0, high = 110", "low = 0"), encoding="utf-8"
    )
    found = run("check", "clinic.toml", folder=clinic, code=1)
    line = 1 + policy.read_text(encoding="utf-8").splitlines().index('age = { type = "integer", low = 0 }')
    assert f"clinic.toml, line {line}: tables.visits.columns.age: it has low but no high" in found.stderr


def test_without_answers_init_leaves_comments_to_fill_in(clinic: Path) -> None:
    told = run("init", "clinic.duckdb", folder=clinic).stdout
    assert "still open: [tables.visits] unit" in told
    text = (clinic / "clinic.toml").read_text(encoding="utf-8")
    assert '# unit = "..."' in text
    assert "# for SUM and AVG add: low = ..., high = ..." in text
    refused = run("check", "clinic.toml", folder=clinic, code=1)
    assert "whom a row belongs to" in refused.stderr


def test_init_asks_the_owner_at_a_terminal(clinic: Path) -> None:
    """A real pseudo-terminal: the questions appear, the answers become the policy."""
    answers = ["2.5", "patient_id", "7", "", "0:110", "0:200", "public"]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(clinic)
        os.execv(SFUMATO, [SFUMATO, "init", "clinic.duckdb"])
    seen, sent = "", 0
    deadline = time.monotonic() + 60
    prompts = re.compile(r"(epsilon \[1\]: |skip\): |in full \[10\]: |none\): )")
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 4096).decode()
            except OSError:  # the other side has closed: the program is done
                break
        if len(prompts.findall(seen)) > sent:
            os.write(terminal, (answers[sent] + "\n").encode())
            sent += 1
    assert os.waitpid(process, 0)[1] == 0, seen
    assert sent == len(answers), seen
    text = (clinic / "clinic.toml").read_text(encoding="utf-8")
    for line in (
        'epsilon = "2.5"',
        'unit = "patient_id"',
        "rows_per_person = 7",
        'age = { type = "integer", low = 0, high = 110 }',
        "public = true",
    ):
        assert line in text
    run("check", "clinic.toml", folder=clinic)


def test_help_version_and_completion(tmp_path: Path) -> None:
    told = run("--help", folder=tmp_path).stdout
    for command in (
        "budget",
        "check",
        "completion",
        "data-changed",
        "demo",
        "explain",
        "grant",
        "init",
        "sql",
    ):
        assert re.search(rf"^  {command} ", told, re.MULTILINE), command
        assert "--json" in run(command, "--help", folder=tmp_path).stdout or command == "completion"
    assert run("--version", folder=tmp_path).stdout.strip() == "sfumato, version 0.2.0"
    for shell in ("bash", "zsh", "fish"):
        assert "_SFUMATO_COMPLETE" in run("completion", shell, folder=tmp_path).stdout
    words = {"COMP_WORDS": "sfumato ex", "COMP_CWORD": "1", "_SFUMATO_COMPLETE": "bash_complete"}
    found = subprocess.run([SFUMATO], env={**os.environ, **words}, capture_output=True, text=True)
    assert "explain" in found.stdout


def test_a_database_locked_by_a_writer_is_named_without_the_process(tmp_path: Path) -> None:
    path = make(tmp_path, [])
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path.with_suffix(".duckdb"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        found = run("check", "hospital.toml", folder=tmp_path, code=1)
    finally:
        holder.communicate("")
    assert "is open for writing in another program" in found.stderr
    assert str(holder.pid) not in found.stderr
    assert "python" not in found.stderr


def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    start = time.monotonic()
    told = run("demo", folder=tmp_path).stdout
    print(f"demo: {time.monotonic() - start:.1f} s")
    for part in (
        "A hospital with 100,000 patients",
        "1. How many visits were there?",
        "5. How old are the patients of each region?",
        "as before: cost epsilon 0",
        "A differencing attack",
        "50% becomes at most 55%",
        "The budget runs out",
        "refused: this query asks for epsilon 0.5, but 'hospital' has only epsilon 0.4 left",
        "What to try next",
    ):
        assert part in told
    assert "epsilon" in run("budget", "hospital.toml", folder=tmp_path / "sfumato-demo").stdout
    facts = json.loads(run("demo", "--json", folder=tmp_path).stdout)  # a second run starts afresh
    assert len(facts["questions"]) == 5
    assert facts["repeat"] == "0"
    assert facts["attack"]["exact"][0] - facts["attack"]["exact"][1] == 1


@pytest.mark.parametrize("name", ["hospital.toml", "hospital.duckdb", "hospital.ledger"])
def test_the_demo_leaves_a_foreign_folder_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("# mine", encoding="utf-8")
    found = run("demo", "--folder", ".", folder=tmp_path, code=1)
    assert f"{name} was not made by this demo and was not changed. Choose" in found.stderr
    assert (tmp_path / name).read_text(encoding="utf-8") == "# mine"


def test_a_file_that_cannot_be_written_is_named_and_nothing_was_spent(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    given = ["budget", "clinic.toml", "--picture", "nowhere/x.svg", "--json"]
    error = json.loads(run(*given, folder=clinic, code=1).stdout)["error"]
    assert (error["code"], error["spent"]) == ("file_error", False)
    assert "cannot use nowhere/x.svg" in error["message"]


# Several at once -----------------------------------------------------------------------------------------


def test_two_analysts_asking_the_same_at_once_see_one_release(tmp_path: Path) -> None:
    make(tmp_path, wild_rows(1, 300, random.Random(1)), budget="1")
    sql = ["sql", "hospital.toml", "SELECT ward, COUNT(*) FROM visits GROUP BY ward", "-e", "1", "--json"]
    running = [
        subprocess.Popen(
            [SFUMATO, *sql], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 4, outputs
    rows = {json.dumps(json.loads(out)["rows"]) for out, _ in outputs}
    assert len(rows) == 1
    assert json.loads(run("budget", "hospital.toml", "--json", folder=tmp_path).stdout)["spent"] == "1"


KILLED = """
import os, signal, sys, sfumato as sf
from sfumato.curator import asked, drawing
where = sys.argv[2]
db = sf.open(sys.argv[1])
def die(*_, **more):
    os.kill(os.getpid(), signal.SIGKILL)
if where == "run":
    db.source.run = die
if where == "draw":
    drawing.draw = die
if where == "keep":
    db.ledger.keep = die
if where == "shown":
    asked.Release = die
db.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.5").release()
"""


@pytest.mark.parametrize("where", ["run", "draw", "keep", "shown"])
def test_killed_in_the_middle_the_charge_stands_and_the_receipt_redeems_once(
    tmp_path: Path, where: str
) -> None:
    """kill -9 between charge and run, run and draw, draw and keep, keep and send."""
    path = make(tmp_path, [], budget="1")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), where], capture_output=True, timeout=120
    )
    assert killed.returncode == -9
    first = json.loads(run("budget", "hospital.toml", "--json", folder=tmp_path).stdout)
    assert (first["spent"], first["history"][0]["released"]) == ("0.5", where == "shown")
    sql = ["sql", "hospital.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.5", "--json"]
    shown = [json.loads(run(*sql, folder=tmp_path).stdout) for _ in range(2)]
    assert shown[0]["rows"] == shown[1]["rows"]
    assert {each["charged"] for each in shown} == {"0"}
    assert json.loads(run("budget", "hospital.toml", "--json", folder=tmp_path).stdout)["spent"] == "0.5"


def in_child(work: Callable[[], object], seconds: int = 60) -> tuple[int, int]:
    """Fork, do the work, leave at once whatever happens; returns the process and a pipe with its result."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            signal.alarm(seconds)  # a child that hangs dies, and the test fails
            os.write(writer, json.dumps(work()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


def finished(children: list[tuple[int, int]]) -> list[str]:
    found = [os.read(reader, 10_000).decode() for _, reader in children]
    for child, reader in children:
        os.close(reader)
        assert os.waitpid(child, 0)[1] == 0
    return found


def test_forked_workers_share_a_database_and_draw_apart(tmp_path: Path) -> None:
    db = sf.open(make(tmp_path, wild_rows(1, 300, random.Random(1))))
    db.sql("SELECT COUNT(*) FROM visits", epsilon=1).release()  # the engine is running before the fork

    def ask(worker: int) -> object:
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE age <> {1000 + worker}"
        return db.sql(sql, epsilon="0.01").release().drawn

    drawn = finished([in_child(partial(ask, worker)) for worker in range(4)])
    assert len(set(drawn)) == 4
    assert len(db.budget.history) == 5


def test_forking_while_other_threads_ask_stalls_nobody(tmp_path: Path) -> None:
    """A fork copies locks that other threads hold; the child must not wait for them."""
    db = sf.open(make(tmp_path, wild_rows(1, 3000, random.Random(1))))
    stop = threading.Event()

    def keep_asking(worker: int) -> None:
        for turn in range(10_000):
            if stop.is_set():
                break
            where = f"age <> {worker} AND age <> {1000 + turn}"
            db.sql(f"SELECT ward, COUNT(*) FROM visits WHERE {where} GROUP BY ward", epsilon="0.01").release()

    def ask(turn: int) -> object:
        return (
            db.sql(f"SELECT COUNT(*) FROM visits WHERE age <> {5000 + turn}", epsilon="0.01").release().drawn
        )

    threads = [threading.Thread(target=keep_asking, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    try:
        children = []
        for turn in range(6):
            time.sleep(0.05)
            children.append(in_child(partial(ask, turn)))
        assert all(finished(children))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert db.budget.spent.amount == sum(entry.price.amount for entry in db.budget.history)


# Tune ------------------------------------------------------------------------------------------------


def test_tune_spends_once_writes_the_policy_and_changes_the_caps(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    before = (clinic / "clinic.toml").read_text(encoding="utf-8")
    found = run("tune", "clinic.toml", "visits", "-e", "0.5", "--column", "cost", folder=clinic)
    assert "measuring visits: rows" in found.stderr
    assert "Approximate number of people by their rows in" in found.stdout
    assert "epsilon 0.5 left" in found.stdout
    after = (clinic / "clinic.toml").read_text(encoding="utf-8")
    assert after.startswith(before.rstrip("\n"))
    assert "[tables.visits.tuned]" in after
    table = policies.load(clinic / "clinic.toml").table("visits")
    assert table is not None
    assert table.tuning is not None
    assert [column.name for column in table.tuning.columns] == ["cost"]
    run("explain", "clinic.toml", "SELECT AVG(cost) FROM visits", "-e", "0.1", folder=clinic)
    again = json.loads(
        run("tune", "clinic.toml", "visits", "-e", "0.1", "--rows-only", "--json", folder=clinic).stdout
    )
    assert again["written"] is True
    assert (clinic / "clinic.toml").read_text(encoding="utf-8").count("[tables.visits.tuned]") == 1


def test_tune_can_be_looked_at_first_and_refuses_what_it_cannot_tune(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    before = (clinic / "clinic.toml").read_text(encoding="utf-8")
    shown = run(
        "tune", "clinic.toml", "visits", "-e", "0.1", "--rows-only", "--dry-run", folder=clinic
    ).stdout
    assert "[tables.visits.tuned]" in shown
    assert (clinic / "clinic.toml").read_text(encoding="utf-8") == before
    assert (
        "name a table with rows_per_person"
        in run("tune", "clinic.toml", "wards", "-e", "0.1", folder=clinic, code=1).stderr
    )
    assert "may cost: --epsilon 0.1" in run("tune", "clinic.toml", "visits", folder=clinic, code=1).stderr
    refused = run("tune", "clinic.toml", "visits", "-e", "5", folder=clinic, code=1)
    assert "has only" in refused.stderr


def test_prepare_writes_a_copy_and_the_policy_and_is_used(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    policy = clinic / "clinic.toml"
    policy.chmod(0o640)
    sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    before = run("explain", "clinic.toml", sql, "-e", "0.1", "--engine-sql", folder=clinic).stdout
    found = run("prepare", "clinic.toml", folder=clinic)
    assert "clinic.prepared.duckdb is ready" in found.stdout
    assert "copying visits: 100%" in found.stderr
    assert 'prepared = "clinic.prepared.duckdb"' in policy.read_text(encoding="utf-8")
    assert policy.stat().st_mode & 0o777 == 0o640
    assert (clinic / "clinic.prepared.duckdb").stat().st_mode & 0o777 == 0o600
    after = run("explain", "clinic.toml", sql, "-e", "0.1", "--engine-sql", folder=clinic).stdout
    assert "sfumato_rows >" not in before
    assert after != before
    told = json.loads(run("prepare", "clinic.toml", "--json", folder=clinic).stdout)
    assert told["written"] is False
    run("sql", "clinic.toml", sql, "-e", "0.1", folder=clinic)
    with duckdb.connect(str(clinic / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE more AS SELECT 1 AS x")
    refused = run("sql", "clinic.toml", sql, "-e", "0.2", folder=clinic, code=1).stderr
    assert "sfumato prepare clinic.toml" in refused


def test_the_owner_measures_and_analysts_ask_by_error_and_by_plan(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    count = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    early = run("sql", "clinic.toml", count, "--within", "200", folder=clinic, code=1)
    assert "sfumato measure" in early.stderr
    told = run("measure", "clinic.toml", folder=clinic)
    assert re.search(r"visits: rows +0\.05 +\d", told.stdout)
    found = json.loads(run("measure", "clinic.toml", "--anew", "--json", folder=clinic).stdout)
    assert [each["receipt"] for each in found["measured"]] == [None] * 3
    explained = run("explain", "clinic.toml", count, "--within", "20%", "--most", "1", folder=clinic)
    assert "within         20%: epsilon 0." in explained.stdout
    asked = run("sql", "clinic.toml", count, "--within", "20%", "--most", "1", folder=clinic)
    assert asked.stderr.startswith("Within 20%: epsilon 0.")
    assert "Asked within 20%" in asked.stdout
    (clinic / "board.sql").write_text(f"-- two\n{count};\nSELECT ward, AVG(age) FROM visits GROUP BY ward;\n")
    left = json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)["left"]
    price = ["-e", "0.2"]
    planned = run("plan", "clinic.toml", "board.sql", *price, "--weights", "1,2", folder=clinic)
    assert "Costs epsilon 0.2 when released. No row was read." in planned.stdout
    assert json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)["left"] == left
    released = run("plan", "clinic.toml", "board.sql", *price, "--release", folder=clinic)
    assert released.stdout.count("  ward  ") == 2
    again = json.loads(
        run("plan", "clinic.toml", "board.sql", *price, "--release", "--json", folder=clinic).stdout
    )
    assert [each["charged"] for each in again["releases"]] == ["0", "0"]
    assert "give one number" in run(
        "plan", "clinic.toml", "board.sql", *price, "--weights", "1", folder=clinic, code=1
    ).stderr  # fmt: skip


def test_a_question_can_pay_for_its_caps(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    sql = "SELECT COUNT(*) FROM visits"
    told = run("explain", "clinic.toml", sql, "-e", "0.5", "--tune", "0.1", folder=clinic).stdout
    assert "epsilon 0.1 of the price is first spent on choosing caps" in " ".join(told.split())
    run("sql", "clinic.toml", sql, "-e", "0.5", "--tune", "0.1", folder=clinic)
    run("sql", "clinic.toml", sql, "-e", "0.5", "--tune", "0.1", folder=clinic)
    assert json.loads(run("budget", "clinic.toml", "--json", folder=clinic).stdout)["spent"] == "0.5"


def test_an_owner_chooses_epsilon_by_a_promise_and_the_ledger_keeps_it(clinic: Path) -> None:
    run(*INIT, folder=clinic)
    words = ["suggest", "clinic.toml", "visits.age", "--within", "2", "--advantage", "0.10"]
    told = run(*words, "--picture", "age.svg", folder=clinic)
    assert "tight" in told.stdout
    assert "more than 10 percentage points surer" in " ".join(told.stdout.split())
    assert ElementTree.fromstring((clinic / "age.svg").read_text(encoding="utf-8")).tag.endswith("svg")
    section = told.stdout[told.stdout.index("[[promise]]") :]
    with (clinic / "clinic.toml").open("a", encoding="utf-8") as policy:
        policy.write("\n" + "\n".join(line.strip() for line in section.splitlines()) + "\n")
    checked = run("check", "clinic.toml", folder=clinic).stdout
    assert "is the tighter limit: it can apply once" in checked
    facts = json.loads(run("check", "clinic.toml", "--json", folder=clinic).stdout)["promises"]
    assert [each["promised"] for each in facts] == [0.1]
    assert (
        "break a promise"
        in run("explain", "clinic.toml", "SELECT AVG(age) FROM visits", "-e", "0.9", folder=clinic).stdout
    )
    refused = run("sql", "clinic.toml", "SELECT AVG(age) FROM visits", "-e", "0.9", folder=clinic, code=1)
    assert "would break a promise" in refused.stderr
    assert "Nothing was spent and no row was read" in refused.stderr
    released = run("sql", "clinic.toml", "SELECT AVG(age) FROM visits", "-e", "0.1", folder=clinic).stdout
    assert "promised: 10 percentage points" in " ".join(released.split())
    shown = run("suggest", "clinic.toml", "--json", folder=clinic).stdout
    assert json.loads(shown)["suggestions"][0]["epsilon"] == pytest.approx(facts[0]["epsilon_replaced"])
    run("participant", "clinic.toml", "--page", "page.html", folder=clinic)
    assert "your visits.age" in (clinic / "page.html").read_text(encoding="utf-8")
    assert "smoking" in run("participant", "clinic.toml", folder=clinic).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "name a column"),
        ("visits.age --within 2", "--advantage 0.10"),
        ("visits.agee --within 2 --advantage 0.1", "did you mean visits.age"),
        ("visits.age --within 2 --advantage 7", "strictly between 0 and 1"),
        ("visits.age --within x --advantage 0.1", "give a number"),
        ("visits.age --within 500 --advantage 0.1", "every guess"),
        ("visits.age --within 2 --advantage 0.1 --prior normal:4", "normal:40,15"),
        ("visits.age --within 2 --advantage 0.1 --metric max", "several rows"),
    ],
)
def test_what_cannot_be_suggested_is_named_with_the_fix(clinic: Path, words: str, told: str) -> None:
    run(*INIT, folder=clinic)
    assert told in run("suggest", "clinic.toml", *words.split(), folder=clinic, code=1).stderr
