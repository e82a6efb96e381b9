"""Ledgers that earlier versions wrote: whatever is stored in them stays free, and shows the same numbers."""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kept.write import HOST, WHERE, asked, laid_out, numbers
from tests.plans.test_plans import policy_named
from tests.serving import serving

import sfumato as sf
from sfumato.budget.postgres import Postgres
from sfumato.queries.sql import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.database import Database

KEPT = Path(__file__).parents[1] / "kept" / "first"
ASKED = json.loads((KEPT / "asked.json").read_text(encoding="utf-8"))
KEYS = json.loads((KEPT / "keys.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def nobody_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a copy of its own, so none must be remembered by another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def laid(folder: Path, ledger: str = "postgresql://nowhere") -> Path:
    """The kept version in a folder, with its ledgers."""
    laid_out(folder, KEPT, ledger)
    for kept in KEPT.glob("*.ledger"):
        shutil.copy(kept, folder / kept.name)
        (folder / kept.name).chmod(0o600)
    return folder


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
        if question.get("open"):
            first, again = asked(database, question).release(), asked(database, question).release()
            if "batch" in question:
                first, again = first[0], again[0]
            assert first.receipt.charged.amount == 0, question
            assert numbers(first) == numbers(again)
    assert database.ledger.spent == spent
    assert len(database.ledger.history()) == length
    database.ledger.verify()


@pytest.mark.parametrize("name", ["clinic", "plain", "rho", "lake"])
def test_what_a_kept_ledger_holds_is_free_and_the_same(name: str, tmp_path: Path) -> None:
    folder = laid(tmp_path / "kept")
    check_all(sf.open(folder / f"{name}.toml"), of(name))


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


def test_what_a_kept_ledger_on_a_server_holds_is_free_and_the_same(remote: Path) -> None:
    check_all(sf.open(remote / "remote.toml"), of("remote"))


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
    assert policy.hash == golden["hash"]
    assert parse(golden["sql"], policy).key == golden["key"]
