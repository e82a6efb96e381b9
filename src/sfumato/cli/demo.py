"""`sfumato demo`: the whole story in half a minute, on a hospital that never existed."""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.budget.ledger.bodies import DataBody
from sfumato.budget.ledger.witness import Witness
from sfumato.cli.main import Friendly, working
from sfumato.curator import show
from sfumato.errors import BudgetExceeded, SourceError
from sfumato.mechanisms.guarantee import decimal
from sfumato.sources.duckdb import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.database import Database
    from sfumato.curator.release import Release

PEOPLE = 100_000
MARK = "# Made by: sfumato demo"
LEDGER = ("", "-wal", "-shm", ".lock", ".head")
FILES = ("hospital.duckdb", "hospital.toml", *(f"hospital.ledger{side}" for side in LEDGER))
WARDS = ("cardiology", "emergency", "maternity", "oncology", "paediatrics", "surgery")
REGIONS = ("north", "east", "south", "west")

POLICY = f"""{MARK}. Everything in this file is public; nothing in it was read from the data.

[source]
duckdb = "hospital.duckdb"

[budget]
epsilon = "2"

[tables.patients]
unit = "patient_id"
rows_per_person = 1
rows = 100_000

[tables.patients.columns]
patient_id = {{ type = "integer" }}
age = {{ type = "integer", low = 0, high = 110 }}
region = {{ type = "text", keys = {json.dumps(REGIONS)} }}
diabetic = {{ type = "boolean" }}

[tables.visits]
unit = "patient_id"
rows_per_person = 12
rows = 210_000

[tables.visits.columns]
patient_id = {{ type = "integer" }}
ward = {{ type = "text", keys = {json.dumps(WARDS)} }}
day = {{ type = "date" }}
cost = {{ type = "number", low = 0, high = 4000 }}
"""


def _uniform(*parts: str | int) -> str:
    """A number in [0, 1) that looks random and is the same on every run."""
    return f"(hash({', '.join(str(part) for part in parts)}) % 1000003) / 1000003.0"


def _bell(*parts: str | int) -> str:
    """About normal, mean 0 and deviation 1: the sum of twelve uniforms less six."""
    return "(" + " + ".join(_uniform(*parts, 100 + i) for i in range(12)) + " - 6)"


def _pick(values: tuple[str, ...], *parts: str | int) -> str:
    words = ", ".join(f"'{value}'" for value in values)
    # the square of a uniform prefers the first ones
    return f"[{words}][1 + CAST(FLOOR({len(values)} * POWER({_uniform(*parts)}, 1.5)) AS INTEGER)]"


PATIENTS = f"""
CREATE TABLE patients AS SELECT
  CAST(i AS INTEGER) AS patient_id,
  CAST(LEAST(105, GREATEST(0, 46 + 22 * {_bell("i", 1)})) AS INTEGER) AS age,
  {_pick(REGIONS, "i", 2)} AS region,
  {_uniform("i", 3)} < 0.08 AS diabetic
FROM range(1, {PEOPLE + 1}) AS people(i)
"""
VISITS = f"""
CREATE TABLE visits AS SELECT
  patient_id,
  {_pick(WARDS, "patient_id", "n", 4)} AS ward,
  DATE '2025-01-01' + CAST(FLOOR(365 * {_uniform("patient_id", "n", 5)}) AS INTEGER) AS day,
  ROUND(EXP(5.6 + 0.8 * {_bell("patient_id", "n", 6)}), 2) AS cost
FROM (
  SELECT patient_id, UNNEST(range(CAST(1 + FLOOR(EXP(0.3 + 0.6 * {_bell("patient_id", 7)})) AS BIGINT))) AS n
  FROM patients
) AS each_visit
"""


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question of the tour, and the exact query that knows the truth."""

    title: str
    sql: str
    epsilon: str
    key: str | None
    value: str


QUESTIONS = (
    DemoQuestion(
        "How many visits were there?", "SELECT COUNT(*) AS visits FROM visits", "0.1", None, "visits"
    ),
    DemoQuestion(
        "How many by ward?",
        "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward ORDER BY visits DESC",
        "0.2",
        "ward",
        "visits",
    ),
    DemoQuestion(
        "What does a visit cost on average?",
        "SELECT ward, AVG(cost) AS mean_cost FROM visits GROUP BY ward",
        "0.4",
        "ward",
        "mean_cost",
    ),
    DemoQuestion(
        "What did June cost in all?",
        "SELECT SUM(cost) AS total FROM visits WHERE day BETWEEN '2025-06-01' AND '2025-06-30'",
        "0.2",
        None,
        "total",
    ),
    DemoQuestion(
        "How old are the patients of each region?",
        "SELECT region, AVG(age) AS mean_age FROM patients GROUP BY region",
        "0.2",
        "region",
        "mean_age",
    ),
)
ALICE = 4711
ALL = "SELECT COUNT(*) AS diabetics FROM patients WHERE diabetic"
WITHOUT_ALICE = f"{ALL} AND patient_id <> {ALICE}"


@click.command("demo", cls=Friendly)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("sfumato-demo"),
    show_default=True,
    help="Where to create the hospital.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(folder: Path, as_json: bool) -> None:
    """A guided tour: a synthetic hospital of 100,000 people, five questions, an attack, an empty budget.

    The demo shows the true answers because it generated the data; an analyst never sees them.
    """
    database, truths = _make(folder)
    say = (lambda *_, **__: None) if as_json else click.secho
    facts: dict[str, Any] = {"folder": str(folder), "questions": []}

    def heading(text: str) -> None:
        say(f"\n{text}", bold=True)

    say(f"A hospital with {PEOPLE:,} patients is in {folder}/hospital.duckdb, its policy in hospital.toml.")
    say(f"The policy gives the whole database a budget of epsilon {decimal(database.budget.total.amount)}.")
    for number, (question, truth) in enumerate(zip(QUESTIONS, truths[:-2], strict=True), start=1):
        heading(f"{number}. {question.title}")
        say(f"   {question.sql}\n")
        release = database.sql(question.sql, epsilon=question.epsilon).release()
        compared = list(_compare(question, release, truth))
        facts["questions"].append({"sql": question.sql, "epsilon": question.epsilon, "rows": compared})
        say(_table(question, compared, release))
        say(f"\n  cost epsilon {decimal(release.cost.amount)}; {decimal(release.left.amount)} left")
    facts["repeat"] = _repeat(database, heading, say)
    facts["attack"] = _attack(database, truths[-2:], heading, say)
    facts["refusal"] = _run_out(database, heading, say)
    heading("What to try next")
    if shutil.which("sfumato") is None:  # started by its path: let the shell find it by its name
        say(f'  export PATH="{Path(sys.argv[0]).absolute().parent}:$PATH"')
    say(
        f"  cd {folder}\n"
        '  sfumato explain hospital.toml "SELECT region, COUNT(*) FROM patients GROUP BY region" -e 0.1\n'
        "  sfumato budget hospital.toml              every charge, and what is left\n"
        '  sfumato sql hospital.toml "SELECT age FROM patients" -e 0.1     a refusal, and why\n'
        "  sfumato serve hospital.toml               for psql, pandas and curl\n"
        "  sfumato init YOUR.duckdb                  a policy for your own data"
    )
    if as_json:
        click.echo(json.dumps(facts, indent=2))


def _make(folder: Path) -> tuple[Database, list[list[tuple[Any, ...]]]]:
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "hospital.toml"
    is_ours = policy.exists() and policy.read_bytes().startswith(MARK.encode())
    if not is_ours and (found := [folder / name for name in FILES if (folder / name).exists()]):
        raise SourceError(
            f"{found[0]} was not made by this demo and was not changed. Choose another --folder."
        )
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    Witness(folder / "hospital.ledger").forget()  # the people are made up anew
    DataBody(folder / "hospital.duckdb", "", "", "").forget()
    exact = [question.sql for question in QUESTIONS] + [ALL, WITHOUT_ALICE]
    alice = f"UPDATE patients SET diabetic = TRUE WHERE patient_id = {ALICE}"
    with working("making a hospital"):
        truths = build(folder / "hospital.duckdb", [PATIENTS, alice, VISITS], exact)
    policy.write_text(POLICY, encoding="utf-8")
    return sf.open(policy), truths


def _compare(
    question: DemoQuestion, release: Release, truth: list[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    exact = {row[0] if question.key else None: float(row[-1]) for row in truth}
    for row in release.rows():
        true = exact[row[question.key] if question.key else None]
        value, low, high = (row[question.value + end] for end in ("", "_low", "_high"))
        yield {
            "group": row[question.key] if question.key else "",
            "released": value,
            "low": low,
            "high": high,
            "truth": true,
            "error": value - true,
            "inside": low <= true <= high,
        }


def _table(question: DemoQuestion, rows: list[dict[str, Any]], release: Release) -> str:
    texts = release.rows()
    decimals = max((len(str(row[question.value]).partition(".")[2]) for row in texts), default=0)
    body = [
        [
            *([row["group"]] if question.key else []),
            show.number(row["released"], decimals),
            f"[{show.number(row['low'], decimals)}, {show.number(row['high'], decimals)}]",
            show.number(row["truth"], decimals),
            f"{row['error']:+,.{decimals}f}",
            "yes" if row["inside"] else "no (1 in 20 may)",
        ]
        for row in rows
    ]
    headers = [question.value, "95% interval", "truth", "error", "inside"]
    left = [False, False, False, False, True]
    if question.key:
        headers, left = [question.key, *headers], [True, *left]
    return show.table(headers, body, left)


def _repeat(database: Database, heading: Any, say: Any) -> str:
    first = QUESTIONS[0]
    heading("The same question again is free")
    release = database.sql(first.sql, epsilon=first.epsilon).release()
    cost = decimal(release.cost.amount)
    say(f"  {first.sql}\n  {release.rows()[0][first.value]:,} as before: cost epsilon {cost}")
    return cost


def _attack(
    database: Database, truths: list[list[tuple[Any, ...]]], heading: Any, say: Any
) -> dict[str, Any]:
    """Two counts that differ by one person: exact answers give her away, noisy ones do not."""
    exact = [int(truth[0][0]) for truth in truths]
    released = [
        database.sql(sql, epsilon="0.1").release().rows()[0]["diabetics"] for sql in (ALL, WITHOUT_ALICE)
    ]
    spent = Fraction(2, 10)
    ceiling = 100 * math.exp(spent) / (1 + math.exp(spent))
    heading("A differencing attack: is patient 4711, Alice, diabetic?")
    say(f"  {ALL}\n  {WITHOUT_ALICE}\n")
    difference = released[0] - released[1]
    rows = [
        [
            "exact (never released)",
            f"{exact[0]:,}",
            f"{exact[1]:,}",
            f"{exact[0] - exact[1]:+,}",
            "yes, with certainty",
        ],
        [
            "released by sfumato",
            f"{released[0]:,.0f}",
            f"{released[1]:,.0f}",
            f"{difference:+,.0f}",
            f"undecided: a belief of 50% becomes at most {ceiling:.0f}%",
        ],
    ]
    say(
        show.table(
            ["", "with Alice", "without Alice", "difference", "conclusion"],
            rows,
            [True, False, False, False, True],
        )
    )
    return {"exact": exact, "released": released, "certainty_at_most_percent": ceiling}


def _run_out(database: Database, heading: Any, say: Any) -> str:
    heading("The budget runs out")
    for month, epsilon in enumerate(("0.3", "0.5"), start=1):
        sql = f"SELECT COUNT(*) AS visits FROM visits WHERE day >= '2025-{month:02d}-01'"
        say(f"  {sql}")
        try:
            release = database.sql(sql, epsilon=epsilon).release()
        except BudgetExceeded as error:
            say("\n".join(show.paragraphs([f"refused: {error}"])), fg="red")
            return str(error)
        say(f"  paid epsilon {epsilon}; {decimal(release.left.amount)} left")
    raise AssertionError("the budget did not run out")
