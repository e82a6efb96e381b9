"""The ledger charges first, keeps before it shows, and never passes the budget."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sqlite3
import threading
import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.budget import Ledger, record
from sfumato.budget.ledger import price_of
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
    NoisyMax,
    OnGrid,
    PermuteAndFlip,
    Private,
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

NOW = 1_700_000_000.0


def ledger(path: Path, total: str = "1") -> Ledger:
    return Ledger(path / "test.ledger", name="test", total=Guarantee.parse(total), clock=lambda: NOW)


def spend(epsilon: str | Fraction, l1: int = 1) -> Spend:
    distance = Distance(l1=Fraction(l1))
    return (Step(Geometric(scale=l1 / Fraction(epsilon)), Distances(distance, distance)),)


def test_a_charge_is_on_disk_before_it_is_returned(tmp_path: Path) -> None:
    receipt = ledger(tmp_path).charge(spend("0.25"), "key", question="how many?")
    with sqlite3.connect(tmp_path / "test.ledger") as other:
        rows = other.execute("SELECT number, price, spent, question FROM charges").fetchall()
    assert rows == [(receipt.number, 250_000_000_000, 250_000_000_000, "how many?")]
    assert (receipt.price, receipt.spent) == (Fraction(1, 4), Fraction(1, 4))
    assert str(receipt) == "receipt 1: epsilon 0.25"


def test_the_file_survives_closing_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    ledger(tmp_path).charge(spend("0.25"), "key")
    again = ledger(tmp_path)
    assert (again.spent, again.left) == (Fraction(1, 4), Fraction(3, 4))
    assert os.stat(tmp_path / "test.ledger").st_mode & 0o077 == 0


def test_synchronous_full_and_write_ahead(tmp_path: Path) -> None:
    store = ledger(tmp_path)._opened()
    assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.execute("PRAGMA synchronous").fetchone() == (2,)


def test_over_budget_is_refused_and_spends_nothing(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.charge(spend("0.75"), "a")
    with pytest.raises(BudgetExceeded, match=r"only epsilon 0.25 left.*Nothing was spent"):
        book.charge(spend("0.250000000001"), "b")
    assert book.spent == Fraction(3, 4)
    book.charge(spend("0.25"), "b")
    assert book.left == 0
    with pytest.raises(BudgetExceeded, match="only epsilon 0 left"):
        book.charge(spend("0.000000000001"), "c")


def test_prices_are_rounded_up_and_tiny_ones_do_not_vanish() -> None:
    assert price_of(spend(Fraction(1, 3))) == 333_333_333_334
    assert price_of(spend(Fraction(1, 10**30))) == 1
    assert price_of(spend("0.1") + spend("0.2")) == 300_000_000_000
    with pytest.raises(InvalidParameter, match="no pure bound"):
        price_of((Step(Geometric(scale=Fraction(1)), Distances(Distance(), Distance())),))


def test_a_release_is_kept_before_it_is_shown_and_the_first_draw_wins(tmp_path: Path) -> None:
    book = ledger(tmp_path)
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


def test_an_unredeemed_receipt_is_returned_not_charged_again(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    first = book.charge(spend("0.5"), "key")
    again = ledger(tmp_path).charge(spend("0.5"), "key")
    assert (again.number, again.price, again.spent) == (first.number, first.price, first.spent)
    assert (first.charged, again.charged) == (Fraction(1, 2), Fraction(0))
    assert book.spent == Fraction(1, 2)


def test_a_larger_spend_answers_the_smaller_and_not_the_other_way(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.keep(book.charge(spend("0.25"), "key"), Secret(((5,),)))
    assert book.kept("key", spend("0.5")) is None
    assert book.kept("key", spend("0.125")) is not None
    assert book.kept("other", spend("0.125")) is None
    book.keep(book.charge(spend("0.5"), "key"), Secret(((6,),)))
    best = book.kept("key", spend("0.125"))
    assert best is not None
    assert best.drawn == ((6,),)


def test_changed_data_empty_the_cache_and_return_no_budget(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    old = book.charge(spend("0.25"), "key")
    book.keep(old, Secret(((5,),)))
    open_receipt = book.charge(spend("0.125"), "open")
    assert book.data_changed() == book.data_version == 2
    assert book.kept("key", spend("0.25")) is None
    assert book.charge(spend("0.125"), "open").number != open_receipt.number
    assert book.spent == Fraction(1, 2)


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


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test.ledger").write_text("hello", encoding="utf-8")
    with pytest.raises(LedgerError, match="nothing is answered"):
        ledger(tmp_path)
    assert (tmp_path / "test.ledger").read_text(encoding="utf-8") == "hello"


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "test.ledger") as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(LedgerError, match="not a ledger"):
        ledger(tmp_path)


def test_a_newer_ledger_is_left_alone(tmp_path: Path) -> None:
    ledger(tmp_path)
    with sqlite3.connect(tmp_path / "test.ledger") as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="newer"):
        ledger(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger(tmp_path / "nowhere")


def test_a_draw_that_cannot_be_stored_is_not_shown(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    receipt = book.charge(spend("0.5"), "key")
    book._opened().execute("DROP TABLE releases")
    with pytest.raises(LedgerError, match="not shown") as caught:
        book.keep(receipt, Secret(((773_100,),)))
    assert caught.value.__context__ is None
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
    assert frames
    assert not any("773100" in repr(values) for values in frames)


# Many at once ----------------------------------------------------------------------------------------


def _spend_all(path: str, worker: int, ready: Any, queue: Any) -> None:
    book = Ledger(Path(path), name="test", total=Guarantee.parse("1"))
    ready.wait()
    paid = 0
    for turn in range(25):
        try:
            book.charge(spend("0.03"), f"{worker}-{turn}")
            paid += 1
        except BudgetExceeded:
            pass
    queue.put(paid)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_together_cannot_overspend(tmp_path: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    ready, queue = context.Barrier(4), context.Queue()
    path = str(tmp_path / "test.ledger")
    workers = [context.Process(target=_spend_all, args=(path, i, ready, queue)) for i in range(4)]
    for worker in workers:
        worker.start()
    paid = sum(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    book = ledger(tmp_path)
    assert paid == 33  # of 100 attempts at 0.03 under a budget of 1
    assert book.spent == Fraction(99, 100)
    assert len(book.history()) == 33


def test_threads_share_one_ledger(tmp_path: Path) -> None:
    book = ledger(tmp_path)
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
    assert book.left == 0
    assert len(refused) == 12


def test_a_forked_child_uses_its_own_connection(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.charge(spend("0.25"), "parent")
    if (child := os.fork()) == 0:
        book.charge(spend("0.25"), "child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert book.spent == Fraction(1, 2)


def test_a_child_that_outlives_its_parent_s_ledger_loses_no_charge(tmp_path: Path) -> None:
    """A connection copied by a fork made SQLite drop the log under the child: its charges vanished."""
    book = ledger(tmp_path, total="3")
    book.charge(spend("1"), "parent")
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            assert book.spent == 1
            os.read(reader, 1)  # until the parent has let go of its ledger
            for key in ("child 1", "child 2"):
                book.charge(spend("1"), key)
            os._exit(0)
        finally:
            os._exit(1)
    assert book.spent == 1
    del book
    gc.collect()
    os.write(writer, b"x")
    assert os.waitpid(child, 0)[1] == 0
    again = ledger(tmp_path, total="3")
    assert again.spent == 3
    with pytest.raises(BudgetExceeded):
        again.charge(spend("1"), "one too many")


def test_an_interrupted_transaction_is_rolled_back(tmp_path: Path) -> None:
    book = ledger(tmp_path)

    def interrupted() -> None:
        with book._transaction() as store:
            store.execute("UPDATE about SET data_version = 99")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert book.data_version == 1
    book.charge(spend("0.5"), "key")


def test_a_complaint_has_no_chain(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    (tmp_path / "test.ledger").unlink()
    with pytest.raises(LedgerError) as caught:
        book.charge(spend("0.5"), "key")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_two_redeemers_of_one_receipt_see_the_same_release(tmp_path: Path) -> None:
    book = ledger(tmp_path)
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


# The stored form of every mechanism ----------------------------------------------------------------------

HALF = Fraction(1, 2)
KINDS: list[Private] = [
    Cube(scale=HALF),
    Exponential(scale=HALF),
    Gaussian(sigma_squared=HALF),
    Geometric(scale=HALF),
    NoisyMax(scale=HALF),
    OnGrid(core=Truncated(core=Geometric(scale=HALF), low=0, high=9), bits=3),
    PermuteAndFlip(scale=HALF),
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
    with pytest.raises(InvalidParameter, match=r"record\.py"):
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


def test_a_price_in_epsilon_has_no_room_for_a_delta(tmp_path: Path) -> None:
    """Neither zCDP nor (epsilon, delta) may pass as a pure epsilon."""
    far = Distance(l0=1, linf=Fraction(1))
    for kind in (
        Gaussian(sigma_squared=HALF),
        SmoothMedian(epsilon=HALF, delta=HALF / 1000, low=0, high=9, size=4),
    ):
        with pytest.raises(InvalidParameter, match="no pure bound"):
            ledger(tmp_path).charge((Step(kind, Distances(far, far)),), "key")
