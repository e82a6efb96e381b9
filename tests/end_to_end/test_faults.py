"""kill -9 at hundreds of seeded moments between request, charge, run, draw, keep and send.

Whatever the moment: the ledger holds a charge for everything that was ever shown, and the very numbers that
were shown; none of its entries is broken, the budget is not passed, and a charge without a release is
redeemed once, without a new charge.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import make, wild_table

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.budget import Ledger

QUESTIONS = 2
EPSILON = Fraction(1, 1000)
SOURCE = str(Path(sf.__file__).parent)


def question(database: sf.Database, number: int) -> sf.Question:
    return database.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age < {number}", epsilon=EPSILON)


def asking(policy: Path, first: int, tell: int, before: Callable[[], None] = lambda: None) -> None:
    """Ask a few questions; tell each release as soon as it is there."""
    database = sf.open(policy)
    before()
    for number in range(first, first + QUESTIONS):
        release = question(database, number).release()
        os.write(tell, json.dumps([number, release.receipt.number, release.drawn]).encode() + b"\n")


def dying_after(calls: int) -> Callable[[], None]:
    """The process kills itself at the n-th time that something of ours is called or returns."""
    left = [calls]

    def count(frame: Any, event: str, _: Any) -> None:
        if event in ("call", "return") and frame.f_code.co_filename.startswith(SOURCE):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return lambda: sys.setprofile(count)


def child(policy: Path, first: int, before: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """A process that asks, and a pipe on which it tells."""
    reader, writer = os.pipe()
    if (process := os.fork()) == 0:
        try:
            asking(policy, first, writer, before)
        finally:
            os._exit(0)
    os.close(writer)
    return process, reader


def told(process: int, reader: int) -> list[Any]:
    os.waitpid(process, 0)
    with os.fdopen(reader, "rb") as pipe:
        return [json.loads(line) for line in pipe.read().splitlines()]


def check(policy: Path, shown: list[Any]) -> int:
    """What must hold after any death. Returns how many charges were without a release."""
    database = sf.open(policy)
    ledger = database.ledger
    assert ledger.verify() > 0
    history = {entry.number: entry for entry in ledger.history()}
    for number, receipt, drawn in shown:
        assert history[receipt].redeemed
        assert history[receipt].question.endswith(f"< {number}")
        again = question(database, number).release()
        assert again.cost.amount == 0
        assert [list(vector) for vector in again.drawn] == drawn
    assert ledger.spent.amount == len(history) * EPSILON <= ledger.total.amount
    open_receipts = [entry for entry in history.values() if not entry.redeemed]
    for entry in open_receipts:
        number = int(entry.question.split()[-1])
        first, second = (question(database, number).release() for _ in range(2))
        assert first.cost.amount == second.cost.amount == 0
        assert first.receipt.number == second.receipt.number == entry.number
        assert first.drawn == second.drawn
    assert ledger.spent.amount == len(history) * EPSILON
    return len(open_receipts)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return fresh(tmp_path)


def fresh(folder: Path) -> Path:
    rows = [row for each in wild_table(random.Random(5)).values() for row in each]
    return make(folder, rows, budget="10")


def test_death_at_any_call(tmp_path: Path) -> None:
    """Seeded moments, evenly over all calls of ours that a few questions make."""
    policy = fresh(tmp_path / "counted")
    asking(policy, 900, os.open(os.devnull, os.O_WRONLY))  # what is loaded and kept the first time
    reader, writer = os.pipe()
    if (process := os.fork()) == 0:
        calls = [0]

        def count(frame: Any, event: str, _: Any) -> None:
            calls[0] += event in ("call", "return") and frame.f_code.co_filename.startswith(SOURCE)

        asking(policy, 0, os.open(os.devnull, os.O_WRONLY), lambda: sys.setprofile(count))
        sys.setprofile(None)
        os.write(writer, str(calls[0]).encode())
        os._exit(0)
    os.waitpid(process, 0)
    most = int(os.read(reader, 100))
    dice = random.Random(11)
    moments = [dice.randrange(most * 11 // 10) for _ in range(130)]
    deaths = orphans = releases = 0
    for turn, moment in enumerate(moments):
        if turn % 30 == 0:  # a ledger that stays short is checked sooner
            policy = fresh(tmp_path / str(turn))
        process, reader = child(policy, QUESTIONS * (turn + 1), dying_after(moment + 1))
        shown = told(process, reader)
        deaths += len(shown) < QUESTIONS
        releases += len(shown)
        orphans += check(policy, shown)
    # shown power: many died, at moments of all kinds
    assert deaths > 50
    assert releases > 30
    assert orphans > 2


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_death_at_any_time_while_others_go_on(
    policy: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Three processes at once, each killed after a seeded time; they write for one another."""
    if store == "postgres":
        uri = request.getfixturevalue("empty_database")
        text = policy.read_text()
        policy.write_text(text.replace("[budget]\n", f'[budget]\nledger = "{uri}"\n'))
        assert sf.open(policy).ledger.store.name.startswith("postgresql")
    dice = random.Random(12)
    for turn in range(25 if store == "sqlite" else 12):
        running = [child(policy, 10_000 + QUESTIONS * (3 * turn + i)) for i in range(3)]
        start = time.monotonic()
        for process, _ in running:
            moment = start + dice.uniform(0, 0.15)
            time.sleep(max(0.0, moment - time.monotonic()))
            os.kill(process, signal.SIGKILL)
        shown = [each for process, reader in running for each in told(process, reader)]
        check(policy, shown)


def test_a_process_killed_in_the_middle_of_a_commit_holds_nobody_up(policy: Path) -> None:
    """It dies alone with the lock in its hand; the next one goes on at once."""
    sf.open(policy)
    held, tell = os.pipe()
    if (process := os.fork()) == 0:
        ledger: Ledger = sf.open(policy).ledger
        assert ledger.store.alone()
        with ledger.store.writing():
            ledger.chain.append("note", 0, {})
            os.write(tell, b"x")
            time.sleep(60)
    os.read(held, 1)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    database = sf.open(policy)
    assert question(database, 1).release().cost.amount == EPSILON
    assert [entry.kind for entry in database.ledger.entries()] == [
        "opened",
        "grant",
        "charge",
        "unit",
        "release",
    ]
