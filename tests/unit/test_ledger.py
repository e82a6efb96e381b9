"""The ledger charges first, keeps before it shows, and never passes the budget: on every store."""

from __future__ import annotations

import gc
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from sfumato.budget import Ledger, Share
from sfumato.budget.ledger import ledger as ledgers
from sfumato.budget.ledger import queue as queues
from sfumato.budget.ledger import record
from sfumato.budget.ledger.store import SQLite
from sfumato.budget.ledger.witness import Witness
from sfumato.errors import BudgetExceeded, InvalidParameter, LedgerError
from sfumato.exact.secret import Secret
from sfumato.mechanisms import (
    Bound,
    Cube,
    Distance,
    Distances,
    Exponential,
    Gaussian,
    Geometric,
    Guarantee,
    Modes,
    NoisyMax,
    OnGrid,
    Partition,
    PermuteAndFlip,
    Private,
    QuantileIntervals,
    Quantiles,
    RandomizedResponse,
    Renormalised,
    SmoothMedian,
    SparseVector,
    Spend,
    Staircase,
    Step,
    Table,
    TopK,
    Truncated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC, a Tuesday
DAY = 86_400.0


@dataclass
class Place:
    """Where a ledger lies, and a clock that tests turn."""

    store: str
    address: str
    folder: Path
    now: float = NOW

    def open(self, total: str | Guarantee = "1", *, name: str = "test", **more: Any) -> Ledger:
        given = Guarantee.parse(total) if isinstance(total, str) else total
        witness = self.folder / f"{name}.ledger"
        return Ledger(self.address, name=name, total=given, clock=lambda: self.now, witness=witness, **more)

    @property
    def file(self) -> Path:
        return self.folder / "test.ledger"

    @property
    def head(self) -> Path:
        return self.folder / "test.ledger.head"

    def run(self, *statements: str) -> list[Any]:
        """SQL past the ledger, by somebody who may do everything."""
        rows: list[Any] = []
        if self.store == "sqlite":
            with sqlite3.connect(self.address) as other:
                for statement in statements:
                    rows = other.execute(statement).fetchall()
            other.close()
            return rows
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("SET search_path = sfumato")
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def tamper(self, statement: str) -> None:
        """Change what may not be changed."""
        if self.store == "sqlite":
            self.run("DROP TRIGGER entries_stay", "DROP TRIGGER entries_remain", statement)
        else:
            self.run("ALTER TABLE entries DISABLE TRIGGER ALL", statement)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", str(tmp_path / "test.ledger"), tmp_path)
    return Place("postgres", request.getfixturevalue("empty_database"), tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Place:
    """The store that is a file."""
    return Place("sqlite", str(tmp_path / "test.ledger"), tmp_path)


def spend(epsilon: str | Fraction, l1: int = 1) -> Spend:
    distance = Distance(l1=Fraction(l1))
    return (Step(Geometric(scale=l1 / Fraction(epsilon)), Distances(distance, distance)),)


def gaussian(rho: str) -> Spend:
    distance = Distance(l0=1, linf=Fraction(1))
    return (Step(Gaussian.at_rho(rho=Fraction(rho), distance=distance), Distances(distance, distance)),)


def epsilon(value: str | int | Fraction) -> Guarantee:
    return Guarantee(Fraction(value))


# Charges and releases ---------------------------------------------------------------------------------


def test_a_charge_is_on_disk_before_it_is_returned(place: Place) -> None:
    receipt = place.open().charge(spend("0.25"), "key", question="how many?")
    rows = place.run("SELECT number, amount, spent, body FROM entries WHERE kind = 'charge'")
    assert [row[:3] for row in rows] == [(receipt.number, 250_000_000_000, 250_000_000_000)]
    assert json.loads(rows[0][3])["question"] == "how many?"
    assert (receipt.price, receipt.spent) == (epsilon("0.25"), epsilon("0.25"))
    assert str(receipt) == f"receipt {receipt.number}-{receipt.head[:16]}: epsilon 0.25"


def test_it_survives_closing(place: Place) -> None:
    place.open().charge(spend("0.25"), "key")
    again = place.open()
    assert (again.spent, again.left) == (epsilon("0.25"), epsilon("0.75"))


def test_a_file_is_for_its_owner_alone(file: Place) -> None:
    file.open().charge(spend("0.25"), "key")
    for name in ("test.ledger", "test.ledger.head", "test.ledger.lock"):
        assert os.stat(file.folder / name).st_mode & 0o077 == 0


def test_synchronous_full_and_write_ahead(file: Place) -> None:
    read = file.open().store.read
    assert read("PRAGMA journal_mode") == [("wal",)]
    assert read("PRAGMA synchronous") == [(2,)]


def test_a_server_is_told_to_wait_for_the_disk(empty_database: str, tmp_path: Path) -> None:
    place = Place("postgres", empty_database, tmp_path)
    assert place.open().store.read("SHOW synchronous_commit") == [("on",)]


def test_over_budget_is_refused_and_spends_nothing(place: Place) -> None:
    book = place.open()
    book.charge(spend("0.75"), "a")
    with pytest.raises(BudgetExceeded, match=r"'test' has only epsilon 0.25 left.*Nothing was spent"):
        book.charge(spend("0.250000000001"), "b")
    assert book.spent == epsilon("0.75")
    book.charge(spend("0.25"), "b")
    assert book.left.amount == 0
    with pytest.raises(BudgetExceeded, match="has nothing left"):
        book.charge(spend("0.000000000001"), "c")


def test_prices_are_rounded_up_and_tiny_ones_do_not_vanish(place: Place) -> None:
    book = place.open()
    assert book.price_of(spend(Fraction(1, 3))) == epsilon(Fraction(333_333_333_334, 10**12))
    assert book.price_of(spend("0.1") + spend("0.2")) == epsilon("0.3")
    with pytest.raises(InvalidParameter, match="no pure bound"):
        book.price_of((Step(Geometric(scale=Fraction(1)), Distances(Distance(), Distance())),))
    for turn in range(3):
        book.charge(spend(Fraction(1, 10**30)), f"{turn}")
    assert book.spent == epsilon(Fraction(3, 10**12))


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "nan", "inf", "1e300", "1e-13", "", "x", "1_0", "0_1", "\u0661", "1\u0660", "\uff11", "."],
)
def test_absurd_prices_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Guarantee.read(epsilon=text)
    with pytest.raises(InvalidParameter):
        Guarantee.read(rho=text)
    if text != "1e-13":
        with pytest.raises(InvalidParameter):
            Guarantee.read(epsilon="1", delta=text)


def test_a_release_is_kept_before_it_is_shown_and_the_first_draw_wins(place: Place) -> None:
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    assert book.kept("key", spend("0.5")) is None
    assert not book.history()[0].redeemed
    huge = 2**200
    assert book.keep(receipt, Secret(((1, -2), (huge,)))) == ((1, -2), (huge,))
    assert book.keep(receipt, Secret(((9, 9), (9,)))) == ((1, -2), (huge,))
    kept = book.kept("key", spend("0.5"))
    assert kept is not None
    assert kept.drawn == ((1, -2), (huge,))
    assert kept.spend == spend("0.5")
    assert book.history()[0].redeemed


def test_an_unredeemed_receipt_is_returned_not_charged_again(place: Place) -> None:
    book = place.open()
    first = book.charge(spend("0.5"), "key")
    again = place.open().charge(spend("0.5"), "key")
    assert (again.number, again.price, again.spent) == (first.number, first.price, first.spent)
    assert (first.charged, again.charged) == (epsilon("0.5"), epsilon(0))
    assert book.spent == epsilon("0.5")


def test_a_larger_spend_answers_the_smaller_and_not_the_other_way(place: Place) -> None:
    book = place.open()
    book.keep(book.charge(spend("0.25"), "key"), Secret(((5,),)))
    assert book.kept("key", spend("0.5")) is None
    assert book.kept("key", spend("0.125")) is not None
    assert book.kept("other", spend("0.125")) is None
    book.keep(book.charge(spend("0.5"), "key"), Secret(((6,),)))
    best = book.kept("key", spend("0.125"))
    assert best is not None
    assert best.drawn == ((6,),)


def test_changed_data_empty_the_cache_and_return_no_budget(place: Place) -> None:
    book = place.open()
    old = book.charge(spend("0.25"), "key")
    book.keep(old, Secret(((5,),)))
    open_receipt = book.charge(spend("0.125"), "open")
    assert book.data_changed() == book.data_version == 2
    assert book.kept("key", spend("0.25")) is None
    assert book.charge(spend("0.125"), "open").number != open_receipt.number
    assert book.spent == epsilon("0.5")


# Currencies -------------------------------------------------------------------------------------------


def test_rho_is_added_up_with_the_deltas_of_what_is_not_concentrated(place: Place) -> None:
    book = place.open(Guarantee.read(rho="0.5", delta="1e-6"))
    assert book.charge(gaussian("0.1"), "a").price == Guarantee(rho=Fraction(1, 10))
    assert book.charge(spend("0.2"), "b").price == Guarantee(rho=Fraction(1, 50))  # epsilon^2 / 2
    distance = Distance(l0=1)
    median = SmoothMedian(epsilon=Fraction(1, 5), delta=Fraction(1, 10**7), low=0, high=100, size=9)
    paid = book.charge((Step(median, Distances(distance, distance)),), "c").price
    assert paid == Guarantee(rho=Fraction(1, 50), delta=Fraction(1, 10**7))
    assert book.spent == Guarantee(rho=Fraction(14, 100), delta=Fraction(1, 10**7))
    with pytest.raises(BudgetExceeded, match=r"only rho 0.36, delta 0.0000009 left"):
        book.charge(gaussian("0.37"), "d")
    eleven = SmoothMedian(epsilon=Fraction(1, 5), delta=Fraction(1, 10**6), low=0, high=100, size=9)
    with pytest.raises(BudgetExceeded):
        book.charge((Step(eleven, Distances(distance, distance)),), "e")


def test_epsilon_and_delta_are_both_added_up(place: Place) -> None:
    book = place.open(Guarantee.read(epsilon="1", delta="1e-6"))
    assert book.charge(spend("0.25"), "pure").price == epsilon("0.25")
    slack = Fraction(1, 10**7)
    paid = book.charge(gaussian("0.001"), "gaussian", slack=slack).price
    assert paid.delta == slack
    assert 0 < paid.amount < Fraction(3, 10)
    with pytest.raises(BudgetExceeded):
        book.charge(gaussian("0.001"), "too much", slack=Fraction(1, 10**6))
    with pytest.raises(InvalidParameter, match="no pure bound"):
        book.charge(gaussian("0.001"), "no slack")
    assert book.spent == Guarantee(Fraction(1, 4) + paid.amount, slack)


def test_the_currency_is_fixed_before_the_first_charge(place: Place) -> None:
    place.open()
    for other in (Guarantee.read(rho="1"), Guarantee.read(epsilon="1", delta="1e-6")):
        with pytest.raises(LedgerError, match="counts epsilon, and the policy gives"):
            place.open(other)
    assert place.open().left == epsilon(1)


# Shares -----------------------------------------------------------------------------------------------


def test_a_share_is_part_of_the_total_never_beside_it(place: Place) -> None:
    book = place.open()
    for name in ("ana", "bob", "eve"):
        book.share(Share(name, epsilon("0.5")))
    book.charge(spend("0.5"), "a", analyst="ana")
    with pytest.raises(BudgetExceeded, match="the share of 'ana' has nothing left"):
        book.charge(spend("0.000000000001"), "b", analyst="ana")
    book.charge(spend("0.4"), "c", analyst="bob")
    assert book.left_for("eve") == epsilon("0.1")  # of her half only what the database still has
    with pytest.raises(BudgetExceeded, match=r"'test' has only epsilon 0.1 left"):
        book.charge(spend("0.2"), "d", analyst="eve")
    book.charge(spend("0.1"), "d", analyst="eve")
    assert book.left.amount == 0


def test_once_there_are_shares_a_stranger_needs_one(place: Place) -> None:
    book = place.open()
    book.charge(spend("0.1"), "a", analyst="mallory")
    book.share(Share("ana", epsilon("0.5")))
    with pytest.raises(BudgetExceeded, match=r"'mallory', who has no share, has nothing left"):
        book.charge(spend("0.1"), "b", analyst="mallory")
    assert book.left_for("mallory").amount == 0
    book.charge(spend("0.1"), "c")  # the owner, who gives no name
    book.share(Share("mallory", epsilon("0.2")))
    assert book.left_for("mallory") == epsilon("0.1")  # what she spent before counts


def test_a_group_spends_one_share_together(place: Place) -> None:
    book = place.open()
    book.share(Share("students", epsilon("0.3"), members=("ana", "bob")))
    book.charge(spend("0.2"), "a", analyst="ana")
    assert book.left_for("bob") == epsilon("0.1")
    with pytest.raises(BudgetExceeded, match="the share of 'students'"):
        book.charge(spend("0.2"), "b", analyst="bob")
    assert [entry.analyst for entry in book.history()] == ["ana"]


@pytest.mark.parametrize(
    ("every", "days", "again"),
    [("day", 1, "2023-11-15"), ("week", 6, "2023-11-20"), ("month", 17, "2023-12-01")],
)
def test_a_refresh_fills_the_share_and_spends_the_total(
    place: Place, every: str, days: int, again: str
) -> None:
    book = place.open()
    book.share(Share("ana", epsilon("0.4"), every))
    book.charge(spend("0.4"), "a", analyst="ana")
    with pytest.raises(
        BudgetExceeded, match=f"wait until {again}, when the share is refilled from the database's"
    ):
        book.charge(spend("0.1"), "b", analyst="ana")
    place.now += days * DAY
    assert book.left_for("ana") == epsilon("0.4")
    book.charge(spend("0.4"), "b", analyst="ana")
    place.now += 40 * DAY
    assert book.left_for("ana") == epsilon("0.2")  # nothing comes from nowhere
    with pytest.raises(BudgetExceeded):
        book.charge(spend("0.3"), "c", analyst="ana")


def test_a_clock_that_jumps_back_refreshes_nothing_and_reorders_nothing(place: Place) -> None:
    book = place.open()
    book.share(Share("ana", epsilon("0.1"), "day"))
    for key in ("a", "b", "c"):
        book.charge(spend("0.1"), key, analyst="ana")
        place.now += DAY
    place.now = NOW - 400 * DAY
    with pytest.raises(BudgetExceeded):
        book.charge(spend("0.1"), "d", analyst="ana")
    book.charge(spend("0.1"), "e")
    times = [entry.at for entry in book.entries()]
    assert times == sorted(times)
    assert book.verify() == len(times)


@pytest.mark.parametrize(
    "share",
    [
        Share("", epsilon("0.1")),
        Share("ana", Guarantee.read(rho="0.1")),
        Share("ana", epsilon("0.1"), "hour"),
        Share("team", epsilon("0.1"), members=("ana", " ")),
    ],
)
def test_a_share_that_cannot_be_meant_is_refused(place: Place, share: Share) -> None:
    book = place.open()
    with pytest.raises(InvalidParameter):
        book.share(share)
    assert book.shares() == ()


# Several databases about the same people --------------------------------------------------------------


def test_databases_of_one_domain_share_the_total_and_no_release(place: Place) -> None:
    first, second = place.open(), place.open(name="other")
    first.keep(first.charge(spend("0.6"), "key"), Secret(((1,),)))
    assert second.left == epsilon("0.4")
    assert second.kept("key", spend("0.6")) is None
    with pytest.raises(BudgetExceeded, match=r"'other' has only epsilon 0.4 left"):
        second.charge(spend("0.6"), "key")
    second.data_changed()
    assert (first.data_version, second.data_version) == (1, 2)
    assert first.kept("key", spend("0.6")) is not None


def test_the_least_total_of_all_policies_on_a_ledger_is_the_one_that_counts(place: Place) -> None:
    clinic, study = place.open("1", name="clinic"), place.open("100", name="study")
    assert study.limit == clinic.limit == study.left == study.most == epsilon(1)
    assert study.binding == ("clinic", epsilon(1))
    assert clinic.binding is None
    with pytest.raises(BudgetExceeded, match="in the policy of 'clinic', which is on the same ledger"):
        study.charge(spend("5"), "key")
    study.charge(spend("0.75"), "key")
    assert clinic.left == epsilon("0.25")
    place.open("0.5", name="clinic")  # lowered below what was spent: nothing is left, for nobody
    assert study.left == clinic.left == study.left_for("ana") == epsilon(0)
    assert study.most == epsilon("0.75")
    place.open("3", name="clinic")
    assert study.left == epsilon("2.25")
    assert clinic.left == epsilon("0.25")  # as it was opened


def test_the_least_total_is_the_least_of_delta_too(place: Place) -> None:
    first = place.open(Guarantee.read(epsilon=1, delta="1e-6"), name="first")
    second = place.open(Guarantee.read(epsilon=2, delta="1e-9"), name="second")
    least = Guarantee.read(epsilon=1, delta="1e-9")
    assert first.limit == second.limit == first.left == least
    assert (first.binding, second.binding) == (("second", second.total), ("first", first.total))


def test_a_policy_that_is_retired_binds_nobody_until_it_is_opened_again(place: Place) -> None:
    clinic, study = place.open("1", name="clinic"), place.open("100", name="study")
    for name, told in (
        ("study", "the policy you opened"),
        ("clinc", "no other policy on this ledger has this name. Others: clinic"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            study.retire(name)
    study.retire("clinic")
    assert study.left == study.most == clinic.most == epsilon(100)
    assert clinic.left == epsilon(1)  # a handle keeps to the total that it was opened with
    with pytest.raises(InvalidParameter, match="no other policy on this ledger has this name"):
        study.retire("clinic")
    study.charge(spend("5"), "key")
    assert [entry.kind for entry in study.entries()] == ["opened", "grant", "grant", "retired", "charge"]
    again = place.open("1", name="clinic")
    assert study.left == again.left == epsilon(0)
    assert study.verify() == 6


def _lowering(address: str, witness: str, total: str) -> None:
    Ledger(address, name="clinic", total=Guarantee.parse(total), witness=Path(witness))


def test_a_total_that_another_process_lowers_while_questions_run_is_kept(place: Place) -> None:
    """Whenever it is lowered, no charge after it passes the new one."""
    study = place.open("100", name="study")
    place.open("100", name="clinic")
    other = multiprocessing.get_context("spawn").Process(
        target=_lowering, args=(place.address, str(place.folder / "clinic.ledger"), "1")
    )
    other.start()

    def charging() -> None:
        for n in range(10**4):
            study.charge(spend("0.25"), f"key {n}")

    with pytest.raises(BudgetExceeded):
        charging()
    other.join()
    entries = study.entries()
    lowered = next(e.number for e in entries if e.kind == "grant" and e.database == "clinic" and e.number > 3)
    spent = [entry.spent.amount for entry in entries if entry.number == lowered]
    assert study.spent.amount <= max(Fraction(1), spent[0])


def test_grants_and_policies_are_entries(place: Place) -> None:
    place.open(policy="a")
    place.open(policy="a")
    place.open("2", policy="a")
    book = place.open("2", policy="b")
    book.note("tune", {"columns": ["age"]})
    assert [entry.kind for entry in book.entries()] == ["opened", "grant", "grant", "policy", "tune"]


# The chain --------------------------------------------------------------------------------------------


def filled(place: Place) -> Ledger:
    book = place.open()
    for key in ("a", "b", "c"):
        book.keep(book.charge(spend("0.1"), key, question=f"{key}?", analyst=key), Secret(((7,),)))
    return book


def test_a_whole_ledger_is_verified(place: Place) -> None:
    book = filled(place)
    receipt = book.charge(spend("0.1"), "d")
    assert book.verify() == 9
    assert book.verify(f"{receipt.number}-{receipt.head[:16]}") == 9
    assert book.head == f"{receipt.number}-{receipt.head}"
    for wrong in (f"{receipt.number}-{'0' * 16}", f"99-{receipt.head}"):
        with pytest.raises(LedgerError, match="has no entry"):
            book.verify(wrong)
    for short in (f"{receipt.number}-", "x", f"{receipt.number}-{receipt.head[:15]}"):
        with pytest.raises(InvalidParameter, match="at least 16 characters"):
            book.verify(short)


def test_entries_stay_as_they_are(place: Place) -> None:
    filled(place)
    for statement in ("UPDATE entries SET amount = 0", "DELETE FROM entries"):
        with pytest.raises((sqlite3.Error, psycopg.Error), match="stay as they are"):
            place.run(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET amount = 1 WHERE number = 3",
        "UPDATE entries SET spent = 0 WHERE number = 8",
        "UPDATE entries SET body = REPLACE(body, '7', '8') WHERE number = 4",
        "UPDATE entries SET who = 'x' WHERE number = 5",
        "UPDATE entries SET at = at + 1 WHERE number = 5",
        "UPDATE entries SET topic = NULL WHERE number = 5",
        "UPDATE entries SET head = 'x' WHERE number = 8",
        "DELETE FROM entries WHERE number = 5",
        "DELETE FROM entries WHERE number >= 7",
        "DELETE FROM entries WHERE number >= 2",
    ],
)
def test_a_ledger_that_was_tampered_with_answers_nothing(place: Place, statement: str) -> None:
    book = filled(place)
    place.tamper(statement)
    with pytest.raises(LedgerError, match="othing is charged or answered"):
        place.open()
    if statement.endswith(
        ("number >= 7", "number >= 2", "number = 8")
    ):  # whoever has it open meets the wrong end at once
        with pytest.raises(LedgerError, match="othing is charged or answered"):
            book.charge(spend("0.1"), "d")


def test_a_forged_chain_is_found_by_what_is_remembered(place: Place) -> None:
    """Somebody who can compute hashes writes a new history; the old one is remembered outside."""
    filled(place)
    shutil.copy(place.head, place.folder / "kept.head")
    Witness(place.file).forget()
    if place.store == "sqlite":
        for name in ("test.ledger", "test.ledger-wal", "test.ledger-shm"):
            (place.folder / name).unlink(missing_ok=True)
    else:
        place.run("DROP SCHEMA sfumato CASCADE")
    place.open()
    shutil.copy(place.folder / "kept.head", place.head)
    with pytest.raises(LedgerError, match="is not the ledger that"):
        place.open()


def copied(folder: Path, to: Path) -> None:
    to.mkdir()
    for name in ("test.ledger", "test.ledger-wal", "test.ledger-shm"):
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_an_older_copy_answers_nothing_until_the_owner_goes_on(file: Place, what: str) -> None:
    book = file.open()
    book.charge(spend("0.25"), "a")
    copied(file.folder, file.folder / "old")
    if what == "folder":
        shutil.copy(file.head, file.folder / "old" / "test.ledger.head")
    book.charge(spend("0.5"), "b")
    del book
    gc.collect()
    for each in (file.folder / "old").iterdir():
        shutil.copy(each, file.folder / each.name)
    with pytest.raises(LedgerError, match=r"older than the state that .* records"):
        file.open()
    again = file.open(accept=True)
    assert again.spent == epsilon("0.75")
    assert [entry.kind for entry in again.entries()][-1] == "restored"
    assert file.open().left == epsilon("0.25")


def test_a_deleted_ledger_does_not_reset_the_budget(place: Place) -> None:
    filled(place)
    if place.store == "sqlite":
        place.file.unlink()
    else:
        place.run("DROP SCHEMA sfumato CASCADE")
    with pytest.raises(LedgerError, match=r"records one that had spent epsilon 0.3.*--accept"):
        place.open()
    assert place.open(accept=True).left == epsilon("0.7")


def test_a_ledger_cut_short_answers_nothing(file: Place) -> None:
    filled(file)
    with sqlite3.connect(file.address) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    whole = file.file.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 4096):
        file.file.write_bytes(whole[:size])
        for side in ("-wal", "-shm"):
            Path(f"{file.address}{side}").unlink(missing_ok=True)
        with pytest.raises(LedgerError):
            file.open()


def test_a_ledger_replaced_while_open_is_noticed(file: Place) -> None:
    book = filled(file)
    shutil.copy(file.file, file.folder / "copy")
    os.replace(file.folder / "copy", file.file)
    with pytest.raises(LedgerError, match="replaced while it was open"):
        book.charge(spend("0.1"), "d")


def test_a_damaged_memory_of_the_head_is_refused_not_ignored(place: Place) -> None:
    filled(place)
    place.head.write_text("garbage")
    with pytest.raises(LedgerError, match="cannot be read"):
        place.open()
    place.head.unlink()
    assert place.open().verify() == 8


def test_a_state_folder_that_cannot_be_written_is_no_obstacle(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.folder / "closed").write_text("a file where a folder is wanted")
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "closed"))
    assert filled(place).verify() == 8


def test_a_ledger_of_the_first_form_is_taken_over(file: Place) -> None:
    old = """
    CREATE TABLE about (currency TEXT NOT NULL, data_version INTEGER NOT NULL);
    CREATE TABLE charges (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, key TEXT NOT NULL,
        data_version INTEGER NOT NULL, question TEXT NOT NULL, spend TEXT NOT NULL, price INTEGER NOT NULL,
        spent INTEGER NOT NULL);
    CREATE TABLE releases (number INTEGER NOT NULL, turn INTEGER NOT NULL, drawn TEXT NOT NULL);
    INSERT INTO about VALUES ('epsilon', 3);
    PRAGMA application_id = 6228592;
    PRAGMA user_version = 1;
    """
    with sqlite3.connect(file.address) as store:
        store.executescript(old)
        for key, drawn in (("a", "[[5]]"), ("b", None)):
            row = (NOW, key, 3, f"{key}?", record.write(spend("0.25")), 250_000_000_000, 0)
            columns = "at, key, data_version, question, spend, price, spent"
            insert = f"INSERT INTO charges ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            number = store.execute(insert, row).lastrowid
            if drawn:
                store.execute("INSERT INTO releases VALUES (?, 0, ?)", (number, drawn))
    store.close()
    book = file.open()
    assert (book.spent, book.data_version) == (epsilon("0.5"), 3)
    kept = book.kept("a", spend("0.25"))
    assert kept is not None
    assert kept.drawn == ((5,),)
    assert book.charge(spend("0.25"), "b").charged.amount == 0
    assert [(entry.question, entry.redeemed) for entry in book.history()] == [("a?", True), ("b?", False)]
    assert file.open().verify() == 6


# Stored forms -----------------------------------------------------------------------------------------


def test_what_was_run_is_stored_and_read_back_exactly() -> None:
    near = Distance(l0=3, l1=Fraction(22, 7), linf=Fraction(2))
    step = Step(Geometric(scale=Fraction(10, 3)), Distances(near, Distance(l1=Fraction(5)), (("age", near),)))
    text = record.write((step,))
    assert record.read(text) == (step,)
    assert '"scale":"10/3"' in text
    assert '"name":"geometric"' in text
    with pytest.raises(LedgerError, match="form 2"):
        record.read(text.replace('"version":1', '"version":2'))


def test_the_stored_form_is_what_it_always_was() -> None:
    """Golden: ledgers written today must be readable for ever."""
    assert record.write(spend("0.5")) == (
        '{"steps":[{"mechanism":{"name":"geometric","scale":"2"},'
        '"presence":{"l0":null,"l1":"1","l2_squared":"1","linf":"1"},"promises":[],'
        '"value":{"l0":null,"l1":"1","l2_squared":"1","linf":"1"}}],"version":1}'
    )


# Other files -----------------------------------------------------------------------------------------


def test_a_file_that_is_no_ledger_is_left_alone(file: Place) -> None:
    (file.file).write_text("hello", encoding="utf-8")
    with pytest.raises(LedgerError, match="nothing is answered"):
        file.open()
    assert (file.file).read_text(encoding="utf-8") == "hello"


def test_a_foreign_database_is_left_alone(file: Place) -> None:
    with sqlite3.connect(file.file) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(LedgerError, match="but not a Sfumato ledger"):
        file.open()


def test_a_newer_ledger_is_left_alone(file: Place) -> None:
    file.open()
    with sqlite3.connect(file.file) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="newer"):
        file.open()


def test_a_missing_folder_is_named(file: Place) -> None:
    with pytest.raises(LedgerError, match="cannot be used"):
        Place("sqlite", str(file.folder / "nowhere" / "x.ledger"), file.folder).open()


def test_a_draw_that_cannot_be_stored_is_not_shown(file: Place) -> None:
    book = file.open()
    receipt = book.charge(spend("0.5"), "key")
    file.tamper("DROP TABLE entries")
    with pytest.raises(LedgerError, match="not shown") as caught:
        book.keep(receipt, Secret(((773_100,),)))
    assert caught.value.__context__ is None
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
    assert frames
    assert not any("773100" in repr(values) for values in frames)


# Many at once ----------------------------------------------------------------------------------------


def _spend_all(address: str, witness: str, worker: int, ready: Any, queue: Any) -> None:
    book = Ledger(address, name="test", total=Guarantee.parse("1"), witness=Path(witness))
    ready.wait()
    paid = 0
    for turn in range(25):
        try:
            book.charge(spend("0.03"), f"{worker}-{turn}")
            paid += 1
        except BudgetExceeded:
            pass
    queue.put(paid)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_eight_processes_together_cannot_overspend(place: Place, method: str) -> None:
    count = 8 if method == "fork" else 3
    context: Any = multiprocessing.get_context(method)
    ready, queue = context.Barrier(count), context.Queue()
    given = (place.address, str(place.file))
    workers = [context.Process(target=_spend_all, args=(*given, i, ready, queue)) for i in range(count)]
    for worker in workers:
        worker.start()
    paid = sum(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    book = place.open()
    assert paid == 33  # of many attempts at 0.03 under a budget of 1
    assert book.spent == epsilon("0.99")
    assert len(book.history()) == 33
    assert book.verify() == 35


def test_threads_share_one_ledger(place: Place) -> None:
    book = place.open()
    refused: list[int] = []

    def work(worker: int) -> None:
        for turn in range(5):
            try:
                book.charge(spend("0.125"), f"{worker}-{turn}")
            except BudgetExceeded:
                refused.append(worker)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.left.amount == 0
    assert len(refused) == 12
    assert book.verify() == 10


def test_who_finds_the_lock_taken_is_written_by_the_one_who_has_it(file: Place) -> None:
    """One process holds the lock and finds the wishes of two others: one transaction, three answers."""
    book = file.open()
    go, start = os.pipe()
    children = []
    for name in ("a", "b"):
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.read(go, 1)
            receipt = book.charge(spend("0.25"), name)
            os.write(writer, json.dumps([receipt.number, str(receipt.charged)]).encode())
            os._exit(0)
        children.append((child, reader))
    assert book.store.alone()
    os.write(start, b"xx")
    waited_until(lambda: len(list(book._queue.wishes())) == 2)
    commits = counted(book)
    mine = book._submit(wish(book, "c"))
    assert len(commits) == 1
    assert mine["new"] is True
    told = []
    for child, reader in children:
        told.append(json.loads(os.read(reader, 1000)))
        assert os.waitpid(child, 0)[1] == 0
    assert sorted([mine["receipt"][0], *(number for number, _ in told)]) == [3, 4, 5]
    assert [charged for _, charged in told] == ["epsilon 0.25"] * 2
    assert book.verify() == 5


def wish(book: Ledger, key: str) -> dict[str, Any]:
    """What `charge` hands to the writer."""
    price = [250_000_000_000, 0]
    return {
        "act": "charge", "key": key, "spend": record.write(spend("0.25")), "question": "", "analyst": "",
        "price": price, "limit": [10**12, 0], "lost": {"value": [price[0], 0, 0]}, "name": book.name, "at": 0,
    }  # fmt: skip


def waited_until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError("it never came to that")


def counted(book: Ledger) -> list[str]:
    """The commits of a ledger's connection from now on."""
    commits: list[str] = []
    store = book.store
    assert isinstance(store, SQLite)
    store._opened().set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    return commits


def test_a_wish_of_a_process_that_died_is_not_written(file: Place) -> None:
    book = file.open()
    if (child := os.fork()) == 0:
        queue = queues.Queue(file.folder / "test.ledger.queue")
        queue.ask(bundle(wish(book, "dead")))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.listdir(file.folder / "test.ledger.queue") == ["0"]
    book.charge(spend("0.25"), "alive")
    assert book.spent == epsilon("0.25")
    assert os.listdir(file.folder / "test.ledger.queue") == []


def test_a_torn_wish_is_not_read(file: Place) -> None:
    book = file.open()
    queue = queues.Queue(file.folder / "test.ledger.queue")
    queue.ask(bundle(wish(book, "torn")))
    assert queue._own is not None
    queue._own[1][queues.START + 3] = ord("x")
    book.charge(spend("0.25"), "whole")
    assert book.spent == epsilon("0.25")
    queue.rest()


@pytest.mark.parametrize(
    "text",
    ["[{}]", "{", "null", "{}", '{"turn": 1, "wishes": [{"act": "rob"}]}', '{"turn": 1, "wishes": [{}]}'],
)
def test_a_wish_that_makes_no_sense_holds_nobody_up(file: Place, text: str) -> None:
    book = file.open()
    queue = queues.Queue(file.folder / "test.ledger.queue")
    queue.ask(text.encode())
    book.charge(spend("0.25"), "sensible")
    assert book.spent == epsilon("0.25")
    assert queue.answer() is None
    queue.rest()


def bundle(*wishes: dict[str, Any]) -> bytes:
    """How a process asks another one."""
    return json.dumps({"turn": "mine", "wishes": wishes}).encode()


def test_an_answer_to_a_wish_that_was_given_up_is_not_taken_for_one_to_the_next(file: Place) -> None:
    """Found by attack: interrupted, asked something dearer, and got the receipt of the cheap question."""
    book = file.open()
    stale = json.dumps({"turn": "1-0", "answers": [{"receipt": [3, 1, 0, 1, 0, "x"], "new": True}]}).encode()
    holder = file.open()
    assert holder.store.alone()
    replies: list[bytes] = []

    def answer_wrongly() -> None:
        waited_until(lambda: len(list(holder._queue.wishes())) == 1)
        for page, _ in holder._queue.wishes():
            holder._queue.reply(page, stale)
        waited_until(lambda: any(text for _, text in holder._queue.wishes()))  # it asks again
        replies.extend(text for _, text in holder._queue.wishes())
        holder.store.leave()

    thread = threading.Thread(target=answer_wrongly)
    thread.start()
    receipt = book.charge(spend("0.75"), "dear")
    thread.join()
    assert len(replies) == 1
    assert receipt.charged == epsilon("0.75") == book.spent


def test_a_release_needs_the_receipt_of_its_charge(place: Place) -> None:
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    for forged in (replace(receipt, number=99), replace(receipt, head="0" * 64), replace(receipt, number=1)):
        with pytest.raises(LedgerError, match="not shown"):
            book.keep(forged, Secret(((1,),)))
    assert book.keep(receipt, Secret(((2,),))) == ((2,),)


def test_a_page_keeps_no_letter_of_a_wish(file: Place) -> None:
    queue = queues.Queue(file.folder / "q")
    queue.ask(b"a long wish with a draw in it: 773100")
    other = queues.Queue(file.folder / "q")
    for page, _ in other.wishes():
        other.reply(page, b"short")
    assert queue.answer() == b"short"
    queue.clear()
    page_bytes = (file.folder / "q" / "0").read_bytes()[queues.START :]
    assert not page_bytes.strip(b"\0")
    queue.rest()
    other.rest()


def test_pages_of_the_dead_are_removed_whatever_they_were_doing(file: Place) -> None:
    book = file.open()
    if (child := os.fork()) == 0:
        queue = queues.Queue(file.folder / "test.ledger.queue")
        queue.ask(b"x")
        queue.clear()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    book.charge(spend("0.25"), "key")
    assert os.listdir(file.folder / "test.ledger.queue") == []


def test_a_queue_that_cannot_be_used_is_left_out(file: Place) -> None:
    (file.folder / "test.ledger.queue").write_text("a file where a folder is wanted")
    assert not queues.Queue(file.folder / "test.ledger.queue").ask(b"x")
    book = file.open()
    book.charge(spend("0.25"), "key")
    assert book.spent == epsilon("0.25")


def test_a_writer_who_does_not_get_on_is_named_at_last(file: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "WRITER_SECONDS", 0.2)
    book, other = file.open(), file.open()
    assert other.store.alone()
    with pytest.raises(LedgerError, match=r"has been writing.*not made twice"):
        book.charge(spend("0.25"), "key")
    other.store.leave()
    book.charge(spend("0.25"), "key")
    assert book.spent == epsilon("0.25")


def test_a_total_that_was_lowered_binds_those_who_opened_before(place: Place) -> None:
    early = place.open("10")
    place.open("1")
    assert early.left == epsilon(1)
    with pytest.raises(BudgetExceeded, match="only epsilon 1 left"):
        early.charge(spend("5"), "key")


def test_a_ledger_with_two_names_is_refused(file: Place) -> None:
    file.open().charge(spend("0.25"), "key")
    os.link(file.file, file.folder / "second.ledger")
    for name in ("test.ledger", "second.ledger"):
        with pytest.raises(LedgerError, match="2 names"):
            Place("sqlite", str(file.folder / name), file.folder).open()


def test_two_copies_of_one_ledger_cannot_both_go_on(file: Place) -> None:
    first = file.open()
    first.charge(spend("0.1"), "common")
    with sqlite3.connect(file.address) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    (file.folder / "copy").mkdir()
    shutil.copy(file.file, file.folder / "copy" / "test.ledger")
    second = Place("sqlite", str(file.folder / "copy" / "test.ledger"), file.folder / "copy").open()
    second.charge(spend("0.5"), "in the copy")
    with pytest.raises(LedgerError, match="or a diverged copy"):
        first.charge(spend("0.5"), "in the original")


def test_deleting_every_trace_in_the_folder_does_not_reset_the_budget(file: Place) -> None:
    filled(file)
    for each in file.folder.glob("test.ledger*"):
        each.unlink() if each.is_file() else shutil.rmtree(each)
    with pytest.raises(LedgerError, match=r"had spent epsilon 0.3.*other people's data, remove path-"):
        file.open()
    assert file.open(accept=True).spent == epsilon("0.3")


def test_a_fresh_ledger_put_in_the_place_of_another_is_refused(file: Place) -> None:
    filled(file)
    fresh = Place("sqlite", str(file.folder / "fresh" / "test.ledger"), file.folder / "fresh")
    (file.folder / "fresh").mkdir()
    fresh.open().rest()
    for each in file.folder.glob("test.ledger*"):
        each.unlink() if each.is_file() else shutil.rmtree(each)
    for each in fresh.folder.glob("test.ledger*"):
        shutil.copy(each, file.folder / each.name)
    with pytest.raises(LedgerError, match="is not the ledger that"):
        file.open()
    again = file.open(accept=True)
    assert again.spent == epsilon("0.3")
    assert [entry.question for entry in again.history()] == [ledgers.RESTORED]


def test_accepting_a_healthy_ledger_charges_nothing_however_often(place: Place) -> None:
    filled(place)
    for _ in range(3):
        assert place.open(accept=True).spent == epsilon("0.3")


def test_a_revoked_share_gives_way_to_that_of_a_group(place: Place) -> None:
    book = place.open()
    book.share(Share("bob", epsilon("0.2")))
    book.share(Share("lab", epsilon("0.3"), members=("bob", "eve")))
    assert book.left_for("bob") == epsilon("0.2")
    book.share(Share("bob", epsilon(0)))
    assert book.left_for("bob") == epsilon("0.3")
    book.share(Share("lab", epsilon(0), members=("bob", "eve")))
    with pytest.raises(BudgetExceeded, match="the share of 'lab' has nothing left"):
        book.charge(spend("0.1"), "key", analyst="bob")


@pytest.mark.parametrize("head", ["stray", "kept"])
def test_accepting_never_loses_what_was_spent(
    file: Place, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    """An older copy that went its own way elsewhere, found by attack: all of both counts."""
    book = file.open("5")
    book.charge(spend("0.25"), "a")
    book.rest()
    copied(file.folder, file.folder / "old")
    shutil.copy(file.head, file.folder / "old" / "test.ledger.head")
    book.charge(spend("0.5"), "b")
    book.rest()
    home = os.environ["XDG_STATE_HOME"]
    monkeypatch.setenv("XDG_STATE_HOME", str(file.folder / "elsewhere"))
    away = Place("sqlite", str(file.folder / "old" / "test.ledger"), file.folder / "old").open("5")
    away.charge(spend("1"), "c")
    away.rest()
    monkeypatch.setenv("XDG_STATE_HOME", home)
    names = ["test.ledger", "test.ledger-wal", "test.ledger-shm"]
    for name in [*names, "test.ledger.head"] if head == "stray" else names:
        (file.folder / name).unlink(missing_ok=True)
        if (file.folder / "old" / name).exists():
            shutil.copy(file.folder / "old" / name, file.folder / name)
    with pytest.raises(LedgerError, match="is older than the state that"):
        file.open("5")
    again = file.open("5", accept=True)
    assert again.spent.amount >= Fraction(7, 4)  # 0.25, 0.5 and 1
    spent = again.spent
    assert file.open("5", accept=True).spent == spent  # made up for once
    assert file.open("5").spent == spent


def test_a_share_costs_the_same_however_much_it_was_used(place: Place) -> None:
    """One look-up in an index, not a walk over what was spent."""
    book = place.open()
    book.share(Share("ana", epsilon("0.5"), "month"))
    for turn in range(3):
        book.charge(spend("0.1"), f"{turn}", analyst="ana")
    query = "SELECT own_spent FROM entries WHERE who = 'ana' AND at < 5 ORDER BY at DESC, number DESC LIMIT 1"
    if place.store == "sqlite":
        [plan] = place.run(f"EXPLAIN QUERY PLAN {query}")
        assert "SEARCH entries USING INDEX entries_who (who=? AND at<?)" in plan[-1]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "a\udc80", "x" * 101, "\0"])
def test_a_name_that_could_steer_a_terminal_is_refused(file: Place, name: str) -> None:
    book = file.open()
    with pytest.raises(InvalidParameter, match="printable"):
        book.share(Share(name, epsilon("0.1")))
    if name:
        with pytest.raises(InvalidParameter, match="printable"):
            book.charge(spend("0.1"), "key", analyst=name)
    assert book.spent.amount == 0


LOOKALIKES = {
    "alice ": "write 'alice'",
    " alice": "write 'alice'",
    "alice  b": "write 'alice b'",
    "\u0430lice": "CYRILLIC, LATIN",
    "alic\u03b5": "GREEK, LATIN",
    "\uff41lice": "write 'alice'",
    "ali\u2010ce": ": use letters, digits, spaces, and - _ . @",
    "alice\u0661": ": use letters, digits, spaces, and - _ . @",
    "ale\u0301": "write",
}
HONEST = (
    "alice", "Ana Luc\u00eda", "O'Brien", "ana+x@lab.org", "\u0410\u043d\u043d\u0430", "team-2", "../x",
    "\u5c71\u7530 \u30a2\u30ca", "\u0939\u093f\u0928\u094d\u0926\u0940", "\uae40 \u91d1", "x; DROP TABLE",
)  # fmt: skip


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_new_name_that_can_be_taken_for_another_is_refused(file: Place, name: str) -> None:
    book = file.open()
    for share in (Share(name, epsilon("0.1")), Share("team", epsilon("0.1"), members=("bob", name))):
        with pytest.raises(InvalidParameter, match=LOOKALIKES[name]) as refused:
            book.share(share)
        assert str(refused.value).isprintable()
    assert [entry.kind for entry in book.entries()] == ["opened", "grant"]


@pytest.mark.parametrize("name", HONEST)
def test_a_name_in_one_script_is_a_name(file: Place, name: str) -> None:
    book = file.open()
    book.share(Share(name, epsilon("0.1")))
    book.charge(spend("0.1"), "key", analyst=name)


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_name_that_is_in_a_ledger_already_stays_a_name(place: Place, name: str) -> None:
    """Of an analyst who asked, of one who has a share, and of a member of a group."""
    book = place.open()
    book.charge(spend("0.1"), "first", analyst=name)
    book.share(Share(name, epsilon("0.2")))
    book.charge(spend("0.1"), "second", analyst=name)
    book.share(Share(name, epsilon(0)))  # revoked
    book.share(Share("team", epsilon("0.2"), members=(name,)))
    book.charge(spend("0.1"), "third", analyst=name)
    assert place.open().known(name, "somebody") == {name}


def test_a_clock_beyond_all_calendars_is_no_obstacle(place: Place) -> None:
    book = place.open()
    book.share(Share("ana", epsilon("0.5"), "month"))
    place.now = 1e12
    book.charge(spend("0.1"), "key", analyst="ana")
    with pytest.raises(BudgetExceeded):
        book.charge(spend("0.45"), "more", analyst="ana")


def test_a_connection_cut_while_idle_is_opened_again(
    postgres: Any, empty_database: str, tmp_path: Path
) -> None:
    place = Place("postgres", empty_database, tmp_path)
    book = place.open()
    with psycopg.connect(postgres.uri(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    book.charge(spend("0.25"), "key")
    assert book.spent == epsilon("0.25")


@pytest.mark.slow
def test_an_interrupted_writer_holds_no_lock(place: Place) -> None:
    """Ctrl-C after each number of calls and returns: the next one, and other servers, go on."""
    book, other = place.open("1000"), place.open("1000", name="other")
    finished = False
    for moment in itertools.count(1):
        left = [moment]

        def interrupt(frame: Any, event: str, _: Any, left: list[int] = left) -> None:
            if event in ("call", "return") and "sfumato/budget" in frame.f_code.co_filename:
                left[0] -= 1
                if left[0] == 0:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            book.charge(spend("0.25"), f"{moment}")
            finished = left[0] > 0
        except (KeyboardInterrupt, LedgerError):
            pass
        finally:
            sys.setprofile(None)
        if finished:
            break
        waited_until(other.store.alone)  # a server needs a moment to see that a connection was closed
        other.store.leave()
        book.charge(spend("0.25"), f"{moment}")
    assert moment > 100
    assert book.spent == epsilon(Fraction(moment, 4))
    assert book.verify() > moment


def test_reading_half_of_it_holds_nothing_open(place: Place) -> None:
    """Found by attack: a commit inside the transaction of a half-read cursor was rolled back with it."""
    book, other = place.open(), place.open(name="other")
    half = book.chain.lines()
    next(half)
    receipt = book.charge(spend("0.25"), "key")
    book.keep(receipt, Secret(((1,),)))
    del half
    assert other.spent == epsilon("0.25")
    assert other.verify() == 5


def test_a_head_that_is_deleted_while_open_is_written_again(place: Place) -> None:
    book = place.open()
    place.head.unlink()
    book.charge(spend("0.25"), "key")
    assert place.head.exists()


def test_leaving_the_program_is_no_failure_of_the_disk(file: Place) -> None:
    book = file.open()
    receipt = book.charge(spend("0.25"), "key")
    with pytest.raises(SystemExit) as caught:
        book.keep(receipt, _leaving())
    assert caught.value.code == 7
    assert book.keep(receipt, Secret(((1,),))) == ((1,),)


def _leaving() -> Secret[Any]:
    """A secret whose storing is interrupted by a polite request to end."""

    class Vector(tuple[int, ...]):
        def __len__(self) -> int:
            raise SystemExit(7)

        def __iter__(self) -> Any:
            raise SystemExit(7)

    return Secret((Vector((1,)),))


def test_a_ledger_of_the_first_form_keeps_its_currency(file: Place) -> None:
    with sqlite3.connect(file.address) as store:
        store.executescript(
            "CREATE TABLE about (currency TEXT, data_version INTEGER);"
            "INSERT INTO about VALUES ('epsilon', 1);"
            "CREATE TABLE charges (number, at, key, data_version, question, spend, price);"
            "CREATE TABLE releases (number, turn, drawn);"
            "PRAGMA application_id = 6228592; PRAGMA user_version = 1;"
        )
    store.close()
    with pytest.raises(LedgerError, match="counts epsilon, and the policy gives rho"):
        file.open(Guarantee.read(rho="1"))
    assert file.open().left == epsilon(1)


def test_a_wish_too_long_for_the_queue_waits_for_its_own_turn(file: Place) -> None:
    book = file.open()
    receipt = book.charge(spend("0.5"), "key")
    wide = (tuple(range(200_000)),)
    assert not queues.Queue(file.folder / "q").ask(json.dumps(wide).encode())
    assert book.keep(receipt, Secret(wide)) == wide


def test_a_forked_child_uses_its_own_connection(place: Place) -> None:
    book = place.open()
    book.charge(spend("0.25"), "parent")
    if (child := os.fork()) == 0:
        book.charge(spend("0.25"), "child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert book.spent == epsilon("0.5")


def test_a_child_that_outlives_its_parent_s_ledger_loses_no_charge(place: Place) -> None:
    """A connection copied by a fork made SQLite drop the log under the child: its charges vanished."""
    book = place.open("3")
    book.charge(spend("1"), "parent")
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            assert book.spent == epsilon(1)
            os.read(reader, 1)  # until the parent has let go of its ledger
            for key in ("child 1", "child 2"):
                book.charge(spend("1"), key)
            os._exit(0)
        finally:
            os._exit(1)
    assert book.spent == epsilon(1)
    del book
    gc.collect()
    os.write(writer, b"x")
    assert os.waitpid(child, 0)[1] == 0
    again = place.open("3")
    assert again.spent == epsilon(3)
    with pytest.raises(BudgetExceeded):
        again.charge(spend("1"), "one too many")


def test_two_redeemers_of_one_receipt_see_the_same_release(place: Place) -> None:
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    seen: list[object] = []
    threads = [
        threading.Thread(target=lambda i=i: seen.append(book.keep(receipt, Secret(((i,),)))))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1


def test_two_processes_redeeming_one_receipt_show_the_same_release(place: Place) -> None:
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    readers = []
    for value in (1, 2, 3, 4):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, repr(book.keep(receipt, Secret(((value,),)))).encode())
            os._exit(0)
        os.close(writer)
        readers.append(reader)
    shown = {os.read(reader, 100) for reader in readers}
    for _ in readers:
        os.wait()
    assert len(shown) == 1
    kept = book.kept("key", spend("0.5"))
    assert kept is not None
    assert repr(kept.drawn).encode() in shown


# Failures --------------------------------------------------------------------------------------------


def test_an_interrupted_transaction_is_rolled_back(place: Place) -> None:
    book = place.open()

    def interrupted() -> None:
        assert book.store.alone()
        try:
            with book.store.writing():
                book.chain.append("note", 0, {})
                raise KeyboardInterrupt
        finally:
            book.store.leave()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert book.verify() == 2
    book.charge(spend("0.5"), "key")


def test_a_full_disk_charges_nothing_shows_nothing_and_breaks_nothing(file: Place) -> None:
    """The system refuses every write that makes a file longer than it may be, in a child of its own."""
    book = file.open()
    receipt = book.charge(spend("0.25"), "key")
    if (child := os.fork()) == 0:
        status = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            longest = os.stat(file.address).st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
            problem = until_refused(lambda i: book.charge(spend("0.0001"), f"{i}", question="x" * 5000))
            assert "disk" in problem
            problem = until_refused(lambda i: book.keep(receipt, Secret((tuple(range(5000)),)), turn=i))
            assert "not shown" in problem
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    again = file.open()
    before = again.spent
    assert again.verify() > 0
    assert before.amount == sum((entry.price.amount for entry in again.history()), Fraction(0))
    again.charge(spend("0.25"), "later")
    assert again.spent.amount == before.amount + Fraction(1, 4)


def test_whether_an_entry_could_be_written_is_found_out_without_writing_one(place: Place) -> None:
    book = place.open()
    before = book.head
    book.check_writable()
    if place.store == "sqlite":
        away = place.file.rename(place.folder / "away")
        with pytest.raises(LedgerError, match="cannot be used"):
            book.check_writable()
        away.rename(place.file)
    else:
        place.run("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            book.rest()  # so that it connects again
            with pytest.raises(LedgerError, match="read-only"):
                book.check_writable()
        finally:
            place.run(
                "SET default_transaction_read_only = off",
                "ALTER DATABASE postgres RESET default_transaction_read_only",
            )
            book.rest()
    book.check_writable()
    assert book.head == before


def test_looking_whether_it_could_be_written_lets_no_other_process_end_the_log(file: Place) -> None:
    """Whoever closes a file gives up every lock of the process on it, and SQLite's are among them."""
    book = file.open()
    book.charge(spend("0.25"), "before")
    book.check_writable()
    other = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM entries'); c.close()"
    )
    subprocess.run([sys.executable, "-c", other, file.address], check=True)
    assert Path(f"{file.address}-wal").exists()
    book.charge(spend("0.25"), "after")
    assert file.open().verify() == book.verify() == 4


def until_refused(act: Callable[[int], object]) -> str:
    for turn in range(1000):
        try:
            act(turn)
        except LedgerError as error:
            return str(error)
    raise AssertionError("nothing was ever refused")


def test_a_server_that_stops_is_an_error_and_one_that_comes_back_is_used(
    postgres: Any, empty_database: str, tmp_path: Path
) -> None:
    place = Place("postgres", empty_database, tmp_path)
    book = place.open()
    book.charge(spend("0.25"), "a")
    postgres.stop()
    try:
        with pytest.raises(LedgerError, match="Without it nothing can be charged") as caught:
            book.charge(spend("0.25"), "b")
        assert caught.value.__context__ is None
        with pytest.raises(LedgerError):
            _ = book.spent
    finally:
        postgres.start()
    book.charge(spend("0.25"), "b")
    assert book.spent == epsilon("0.5")
    assert book.verify() == 4


def test_an_address_that_cannot_be_read_is_refused_without_its_password(tmp_path: Path) -> None:
    for address in ("postgresql://ana:hunter2@/%%%", "postgresql://ana:hunter2@nowhere.invalid:1/x"):
        with pytest.raises(LedgerError) as caught:
            Ledger(address, name="test", total=epsilon(1), witness=tmp_path / "test.ledger")
        assert "hunter2" not in str(caught.value)


def test_a_complaint_has_no_chain(file: Place) -> None:
    book = file.open()
    file.file.unlink()
    with pytest.raises(LedgerError) as caught:
        book.charge(spend("0.5"), "key")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


# The stored form of every mechanism ----------------------------------------------------------------------

HALF = Fraction(1, 2)
KINDS: list[Private] = [
    Cube(scale=HALF),
    Exponential(scale=HALF),
    Gaussian(sigma_squared=HALF),
    Geometric(scale=HALF),
    Modes(cells=4, scale=HALF),
    NoisyMax(scale=HALF),
    OnGrid(core=Truncated(core=Geometric(scale=HALF), low=0, high=9), bits=3),
    Partition(epsilon=HALF, delta=HALF / 1000),
    PermuteAndFlip(scale=HALF),
    QuantileIntervals(
        cells=4,
        targets=((HALF, Fraction(0), HALF, HALF, Fraction(7), HALF), (Fraction(1), -HALF, HALF, Fraction(9))),
    ),
    Quantiles(cells=4, targets=((HALF, Fraction(0), HALF), (Fraction(1, 3), Fraction(-7, 2), Fraction(9)))),
    RandomizedResponse(keep=HALF, size=3),
    Renormalised(scale=HALF, low=-1, high=9),
    SmoothMedian(epsilon=HALF, delta=HALF / 1000, low=0, high=9, size=4),
    SparseVector(threshold=7, threshold_scale=HALF, answer_scale=HALF, limit=2),
    Staircase(epsilon=HALF, width=5, flat=2),
    Table(rows=((HALF, HALF), (Fraction(1, 3), Fraction(2, 3))), secrets=("no", "yes"), outputs=(0, 1)),
    TopK(scale=HALF, count=2),
    Truncated(core=Staircase(epsilon=HALF, width=5, flat=2), low=0, high=9),
]


def test_every_mechanism_that_has_a_name_can_be_stored_and_read_back() -> None:
    assert {kind.name for kind in KINDS} == set(record.MECHANISMS)
    distances = Distances(
        presence=Distance(linf=Fraction(1), monotone=True), value=Distance(l0=2, linf=Fraction(1))
    )
    for kind in KINDS:
        spend = (Step(kind, distances),)
        text = record.write(spend)
        assert record.read(text) == spend
        assert record.write(record.read(text)) == text


def test_the_names_of_chosen_groups_are_kept_beside_numbers(place: Place) -> None:
    """A draw holds integers, or the names of what was chosen: each comes back as what it was."""
    drawn = (('["A", 7]', '["12"]', '["é"]'), (3, -(10**40), 0), ())
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    assert book.keep(receipt, Secret.of(lambda: drawn)) == drawn
    kept = place.open().kept("key", spend("0.5"))
    assert kept is not None
    assert kept.drawn == drawn
    assert [[type(y) for y in vector] for vector in kept.drawn] == [[str] * 3, [int] * 3, []]


def test_a_form_stored_before_there_was_monotone_keeps_its_text_and_its_meaning() -> None:
    old = (
        '{"steps":[{"mechanism":{"name":"geometric","scale":"10"},"presence":{"l0":1,"l1":"1",'
        '"l2_squared":"1","linf":"1"},"promises":[],"value":{"l0":2,"l1":"2","l2_squared":"2","linf":"1"}}],'
        '"version":1}'
    )
    assert record.write(record.read(old)) == old
    assert record.read(old)[0].bound().epsilon == Fraction(1, 10)


def test_what_is_not_listed_or_not_itself_cannot_be_stored() -> None:
    class Cheap(Geometric):
        """The honest text with another price."""

        def _bound(self, distance: Distance) -> Bound:  # noqa: ARG002
            return Bound(epsilon=Fraction(0))

    one = Distances(Distance(l1=Fraction(1)), Distance(l1=Fraction(2)))
    with pytest.raises(InvalidParameter, match="only the mechanisms of Sfumato"):
        record.write((Step(Cheap(scale=HALF), one),))
    labelled: Table[bytes, int] = Table(rows=((HALF, HALF),), secrets=(b"x",))
    with pytest.raises(InvalidParameter, match="label"):
        record.write((Step(labelled, one),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"name":"geometric"', '"name":"unheard"'),
        ('"scale":"2"', '"scale":"0"'),
        ('"scale":"2"', '"width":"2"'),
        ('"version":1,', '"version":7,'),
        ('"version":1', '"other":1'),
        ('"l1":"1"', '"l1":"-1"'),
    ],
)
def test_a_charge_that_cannot_be_read_is_an_error_of_the_ledger(old: str, new: str) -> None:
    text = record.write(spend("0.5"))
    assert old.rstrip(",") in text
    with pytest.raises(LedgerError, match="Nothing was changed"):
        record.read(text.replace(old.rstrip(","), new.rstrip(",")))


def test_a_distance_of_any_size_can_be_read_back() -> None:
    for distance in (
        Distance(l0=1, linf=Fraction(1, 2**300)),
        Distance(linf=Fraction(2**300)),
        Distance(l0=2**600, linf=Fraction(1, 3)),
    ):
        stored = (Step(Geometric(scale=HALF), Distances(distance, distance)),)
        assert record.read(record.write(stored)) == stored
    loud = record.write(spend("0.5")).replace('"linf":"1"', '"linf":"1","monotone":"false"')
    assert not record.read(loud)[0].distances.presence.monotone


def test_a_price_in_epsilon_has_no_room_for_a_delta(file: Place) -> None:
    """Neither zCDP nor (epsilon, delta) may pass as a pure epsilon."""
    far = Distance(l0=1, linf=Fraction(1))
    for kind in (
        Gaussian(sigma_squared=HALF),
        Partition(epsilon=HALF, delta=HALF / 1000),
        SmoothMedian(epsilon=HALF, delta=HALF / 1000, low=0, high=9, size=4),
    ):
        with pytest.raises(InvalidParameter, match="no pure bound"):
            file.open().charge((Step(kind, Distances(far, far)),), "key")
