"""Writes what a version stores, so that every later one can be held to it.

    python -m tests.kept.write first

fills the folder `first` beside this file, whose policies and tables were put there by hand: a ledger for each
policy, as this version of sfumato writes it, and in `asked.json` every question with the numbers it showed.
It is run once for a version, by that version, and its files are never changed again.
`tests/unit/test_kept.py` asks everything again: it must be free and show the same numbers.

A ledger on a server names the machine and the whole path of the data, so both are fixed here.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
from tests.kept.questions import ASKED
from tests.plans.test_plans import FILES, policy_named
from tests.postgres import serving as serving_postgres
from tests.serving import serving

import sfumato as sf
from sfumato.curator.release import Cell
from sfumato.curator.tuning import inserted, section
from sfumato.errors import QueryRefused
from sfumato.queries import forms
from sfumato.queries.statement import parse

if TYPE_CHECKING:
    from sfumato.curator.database import Database
    from sfumato.curator.release import Release

WHERE = Path(os.sep, "tmp", "sfumato-kept")
HOST = "clinic-server"
LAKE = ("patients", "visits", "labs", "beds", "orders", "wards")


class Left(Exception):
    """Raised between a charge and its release, as if the machine had lost its power."""


class Leaving:
    """What is entered after a charge: and nothing is released."""

    def __enter__(self) -> None:
        raise Left

    def __exit__(self, *_: object) -> None:
        raise AssertionError("it was never entered")


def laid_out(folder: Path, kept: Path, ledger: str) -> None:
    """The policies and data of a kept version in an empty folder."""
    folder.mkdir(parents=True)
    for policy in kept.glob("*.toml"):
        text = policy.read_text(encoding="utf-8").replace("postgresql://LEDGER", ledger)
        (folder / policy.name).write_text(text, encoding="utf-8")
    (folder / "lake").mkdir()
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute((kept / "build.sql").read_text(encoding="utf-8"))
        for table in LAKE:
            connection.execute(f"COPY {table} TO '{folder / 'lake' / table}.parquet' (FORMAT parquet)")


def numbers(release: Release) -> list[dict[str, Any]]:
    """The values of a release, as they were drawn."""
    return [
        {
            name: (None if cell.value is None else str(cell.value)) if isinstance(cell, Cell) else str(cell)
            for name, cell in row.items()
        }
        for row in release.exact()
    ]


def asked(database: Database, question: dict[str, Any]) -> Any:
    """A question, or a batch of them, as it is written in `asked.json`."""
    if "batch" in question:
        parts = [database.sql(**each) for each in question["batch"]]
        return database.batch(parts, delta=question.get("delta"))
    return database.sql(**question["ask"])


def _left_open(database: Database, question: dict[str, Any]) -> None:
    """Charge for it, and go."""
    view = database.on_behalf_of("ana", lambda *_: Leaving())
    try:
        asked(view, question).release()
    except Left:
        return
    raise AssertionError("it was released before")


def _shown(database: Database, question: dict[str, Any]) -> dict[str, Any]:
    """What is stored for a question: of several releases that answer it, the one with the largest price."""
    wanted = asked(database, question)
    if question.get("open"):
        return {**question, "key": wanted.key}
    found = wanted.release()
    first = found[0] if "batch" in question else found
    assert not first.receipt.charged.amount
    shown = [numbers(each) for each in found] if "batch" in question else numbers(found)
    return {**question, "key": wanted.key, "receipt": first.receipt.number, "shown": shown}


def _tuned(folder: Path, name: str) -> None:
    policy = folder / f"{name}.toml"
    database = sf.open(policy)
    rho = "0.5" if name == "rho" else None
    tuning, receipts = database.tune("orders", rho=rho, epsilon=None if rho else "2")
    text = policy.read_text(encoding="utf-8")
    policy.write_text(inserted(text, "orders", section("orders", tuning, receipts)), encoding="utf-8")


def _idempotent(folder: Path) -> list[dict[str, Any]]:
    """Questions under idempotency keys, through the HTTP door."""
    found = []
    with serving(folder, "--no-deadlines", policy=folder / "clinic.toml") as server:
        token = server.let_in("ana")
        for n, question in enumerate(ASKED["keyed"]):
            path = "/v1/clinic/batch" if "questions" in question else "/v1/clinic/release"
            header = {"Idempotency-Key": f"key {n}"}
            status, shown, _ = server.request("POST", path, token, question, header)
            assert status == 200, shown
            found.append(
                {"policy": "clinic", "path": path, "body": question, "key": f"key {n}", "answer": shown}
            )
    return found


def _golden() -> dict[str, Any]:
    """The keys of the golden plans, and the hashes of their policies."""
    found: dict[str, Any] = {}
    for file in FILES:
        golden = tomllib.loads(file.read_text(encoding="utf-8"))
        policy = policy_named(golden["policy"])
        try:
            plan = parse(golden["sql"], policy)
        except QueryRefused:
            continue
        found[file.stem] = {
            "policy": golden["policy"],
            "sql": golden["sql"],
            "key": forms.question(plan, policy, "clinic.duckdb"),
            "hash": forms.policy(policy),
        }
    return found


def _rows(uri: str) -> list[list[Any]]:
    with psycopg.connect(uri) as connection:
        return [list(row) for row in connection.execute("SELECT * FROM sfumato.entries ORDER BY number")]


def write(kept: Path) -> None:
    """Everything, from an empty folder."""
    shutil.rmtree(WHERE, ignore_errors=True)
    os.environ["XDG_STATE_HOME"] = str(WHERE / "state")
    platform.node = lambda: HOST
    with serving_postgres() as server:
        uri = server.create()
        laid_out(WHERE, kept, uri)
        found: dict[str, Any] = {"asked": [], "keyed": []}
        for name in ("clinic", "plain", "rho", "remote", "lake"):
            if name in ("clinic", "rho", "remote"):
                _tuned(WHERE, name)
            database = sf.open(WHERE / f"{name}.toml")
            for question in ASKED[name]:
                if question.get("open"):
                    _left_open(database, question)
                else:
                    asked(database, question).release()
            found["asked"] += [{"policy": name, **_shown(database, question)} for question in ASKED[name]]
            database.ledger.verify()
        found["keyed"] = _idempotent(WHERE)
        (kept / "remote.json").write_text(json.dumps(_rows(uri), indent=0) + "\n", encoding="utf-8")
    for name in ("clinic", "rho", "remote"):
        text = (WHERE / f"{name}.toml").read_text(encoding="utf-8").replace(uri, "postgresql://LEDGER")
        (kept / f"{name}.toml").write_text(text, encoding="utf-8")
    for name in ("clinic", "plain", "rho", "lake"):
        with sqlite3.connect(WHERE / f"{name}.ledger") as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(WHERE / f"{name}.ledger", kept / f"{name}.ledger")
    (kept / "asked.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (kept / "keys.json").write_text(json.dumps(_golden(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / sys.argv[1])
