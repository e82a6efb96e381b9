"""What a mutant of the budget room once survived: a line was changed for the worse, and no test minded."""

from __future__ import annotations

import datetime
import json
import math
import os
import shutil
import sqlite3
import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import psycopg
import pytest
from tests.unit.test_ledger import DAY, Place, epsilon, file, filled, gaussian, place, spend, wish  # noqa: F401
from tests.unit.test_loss import MILLIONTH, discrete_gaussian
from tests.unit.test_rules import BELL, COUNT, PAIR

from sfumato.budget import Ledger, Share
from sfumato.budget.accounting import atoms, filters, loss
from sfumato.budget.accounting.composition import advanced, optimal
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.budget.ledger import ledger as ledgers
from sfumato.budget.ledger import queue as queues
from sfumato.budget.ledger import shares
from sfumato.budget.ledger import store as stores
from sfumato.budget.ledger.entries import ALL, FIRST, Record, hashed
from sfumato.errors import BudgetExceeded, InvalidParameter, LedgerError
from sfumato.exact.secret import Secret
from sfumato.mechanisms import Bound, Distance, Distances, Guarantee, SmoothMedian, Step

if TYPE_CHECKING:
    from collections.abc import Callable

# Shares (B4, B16, B41: the delta of a share was not checked, or not counted)


@pytest.mark.parametrize("every", [None, "day"])
def test_a_share_ends_where_its_delta_ends(place: Place, every: str | None) -> None:  # noqa: F811
    book = place.open(Guarantee.read(epsilon="10", delta="1e-6"))
    book.share(Share("ana", Guarantee.read(epsilon="5", delta="2e-7"), every))
    slack = Fraction(15, 10**8)
    book.charge(gaussian("0.001"), "a", slack=slack, analyst="ana")
    with pytest.raises(BudgetExceeded, match="the share of 'ana'"):
        book.charge(gaussian("0.001"), "b", slack=slack, analyst="ana")
    assert book.left_for("ana").delta == Fraction(5, 10**8)


# Shares (B6: a share's period is that of the latest entry, not of the clock)


def test_a_clock_that_jumps_back_stays_in_the_period_of_the_last_entry(place: Place) -> None:  # noqa: F811
    book = place.open()
    book.share(Share("ana", epsilon("0.1"), "day"))
    book.charge(spend("0.1"), "a", analyst="ana")
    place.now += DAY
    book.charge(spend("0.05"), "b", analyst="ana")
    place.now -= DAY
    assert book.left_for("ana") == epsilon("0.05")
    book.charge(spend("0.05"), "c", analyst="ana")
    with pytest.raises(BudgetExceeded, match="wait until 2023-11-16"):
        book.charge(spend("0.01"), "d", analyst="ana")


# Shares (B7: a release by a clock that went back let a share be spent twice)


def test_a_release_by_a_clock_that_went_back_hides_nothing_of_a_share(place: Place) -> None:  # noqa: F811
    book = place.open()
    book.share(Share("ana", epsilon("0.3")))
    receipt = book.charge(spend("0.1"), "a", analyst="ana")
    place.now -= 10 * DAY
    book.keep(receipt, Secret(((1,),)))
    for key in ("b", "c"):
        book.charge(spend("0.1"), key, analyst="ana")
    assert book.left_for("ana").amount == 0
    with pytest.raises(BudgetExceeded, match="the share of 'ana' has nothing left"):
        book.charge(spend("0.1"), "d", analyst="ana")
    times = [entry.at for entry in book.entries()]
    assert times == sorted(times)


# beside test_a_release_needs_the_receipt_of_its_charge (B13: any entry would do)


def test_an_entry_that_is_no_charge_pays_for_no_release(place: Place) -> None:  # noqa: F811
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    for number, head in place.run("SELECT number, head FROM entries WHERE kind <> 'charge'"):
        with pytest.raises(LedgerError, match="not shown"):
            book.keep(replace(receipt, number=number, head=head), Secret(((1,),)))


# Charges and releases (B14: the turn of a release was ignored) --------------


def test_every_turn_of_a_receipt_keeps_its_own_first_draw(place: Place) -> None:  # noqa: F811
    book = place.open()
    receipt = book.charge(spend("0.5"), "key")
    assert [book.keep(receipt, Secret(((turn,),)), turn) for turn in (0, 1)] == [((0,),), ((1,),)]
    assert book.keep(receipt, Secret(((9,),)), 1) == ((1,),)


# Shares (B15: what was spent at the first moment of a period did not count) -


def test_what_is_spent_at_the_first_moment_of_a_period_belongs_to_it(place: Place) -> None:  # noqa: F811
    place.now = 1_700_006_400.0  # midnight
    book = place.open()
    book.share(Share("ana", epsilon("0.1"), "day"))
    book.charge(spend("0.1"), "a", analyst="ana")
    assert book.left_for("ana").amount == 0


# beside test_prices_are_rounded_up... (B18: a total was rounded up) --------


def test_a_total_between_two_units_is_rounded_down(place: Place) -> None:  # noqa: F811
    book = place.open(epsilon(Fraction(1, 3)))
    with pytest.raises(BudgetExceeded):
        book.charge(spend(Fraction(1, 3)), "a")
    book.charge(spend("0.333333333333"), "a")


# The chain (B25, B26, B27, B28, B40: what `verify` looks at beside the hashes) --


def forged(place: Place, change: Callable[[Record], dict[str, Any]]) -> Ledger:  # noqa: F811
    """A ledger that was changed by somebody who computes all hashes anew and removes every memory."""
    statements, before = [], FIRST
    for row in place.run(f"SELECT {ALL} FROM entries c ORDER BY number"):
        line = Record(*row)._replace(**change(Record(*row)))
        line = line._replace(head=hashed(before.head, line[:-1]))
        body = line.body.replace("'", "''")
        statements.append(
            f"UPDATE entries SET kind = '{line.kind}', amount = {line.amount}, spent = {line.spent}, "
            f"own_spent = {line.own_spent}, body = '{body}', head = '{line.head}' "
            f"WHERE number = {line.number}"
        )
        before = line
    place.tamper(statements[0])
    place.run(*statements[1:])
    place.head.unlink()
    return place.open()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda line: {"spent": 0} if line.kind == "charge" else {}, "running total"),
        (lambda line: {"own_spent": 0} if line.kind == "charge" else {}, "running total"),
        (
            lambda line: {"amount": 0, "spent": 0, "own_spent": 0} if line.kind != "opened" else {},
            "its price is lower than the cost of what was run",
        ),
        (
            lambda line: {
                "amount": line.amount - bool(line.amount),  # one unit less for each of the three
                "spent": line.spent - line.spent // 10**11,
                "own_spent": line.own_spent - bool(line.own_spent),
            },
            "its price is lower than the cost of what was run",
        ),
        (lambda line: {"kind": "note"} if line.number == 3 else {}, "there is no charge for it"),
    ],
)
def test_a_forged_chain_without_memories_is_still_verified(
    place: Place,  # noqa: F811
    change: Callable[[Record], dict[str, Any]],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled(place).rest()
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "elsewhere"))
    book = forged(place, change)
    with pytest.raises(LedgerError, match=problem):
        book.verify()


# The chain (B29: `verify` did not ask what is remembered) -------------------


def test_verify_misses_the_end_that_was_cut_off(place: Place) -> None:  # noqa: F811
    book = filled(place)
    place.tamper("DELETE FROM entries WHERE number >= 7")
    with pytest.raises(LedgerError, match="is older than the state that"):
        book.verify()


# The chain (B30: a delta that was spent was forgotten) ----------------------


def test_accepting_a_loss_remembers_the_delta_too(file: Place) -> None:  # noqa: F811
    total = Guarantee.read(epsilon="1", delta="1e-6")
    spent = file.open(total).charge(gaussian("0.001"), "a", slack=Fraction(1, 10**7)).spent
    file.file.unlink()
    assert file.open(total, accept=True).spent == spent


# The chain (B32: of a ledger that was exchanged only an old memory counted) -


def test_accepting_another_ledger_counts_all_that_the_former_spent(file: Place) -> None:  # noqa: F811
    book = file.open()
    book.charge(spend("0.1"), "a")
    shutil.copy(file.head, file.folder / "old.head")
    book.charge(spend("0.2"), "b")
    book.rest()
    (file.folder / "new").mkdir()
    Place("sqlite", str(file.folder / "new" / "test.ledger"), file.folder / "new").open().rest()
    for name in ("test.ledger-wal", "test.ledger-shm"):
        (file.folder / name).unlink(missing_ok=True)
    shutil.copy(file.folder / "new" / "test.ledger", file.file)
    shutil.copy(file.folder / "old.head", file.head)
    with pytest.raises(LedgerError, match="is not the ledger that"):
        file.open()
    assert file.open(accept=True).spent == epsilon("0.3")


# The chain (B45: a ledger ahead of its memories was charged all of them again)


def test_accepting_a_ledger_that_lacks_nothing_charges_nothing(
    place: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book = place.open()
    book.charge(spend("0.25"), "a")
    lagging = place.head.read_bytes()
    book.charge(spend("0.5"), "b")
    book.rest()
    place.head.write_bytes(lagging)
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "elsewhere"))
    assert place.open(accept=True).spent == epsilon("0.75")


# beside test_an_answer_to_a_wish_that_was_given_up... (G2, G4, G13) ---------


def between(book: Ledger, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen after a process has asked, and just before it gets the lock itself."""
    alone, calls = book.store.alone, [False]

    def late() -> bool:
        if calls.pop() is False:
            calls.append(True)
            return False
        calls.append(True)
        act()
        return alone()

    monkeypatch.setattr(book.store, "alone", late)


@pytest.mark.parametrize("stale", [True, False])
def test_an_answer_that_came_just_before_the_lock_is_looked_at_too(
    file: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    stale: bool,
) -> None:
    book, other = file.open(), queues.Queue(file.folder / "test.ledger.queue")

    def answer() -> None:
        for page, text in other.wishes():
            turn = "1-0" if stale else json.loads(text)["turn"]
            told = [{"receipt": [3, 1, 0, 1, 0, "x"], "new": True}]
            other.reply(page, json.dumps({"turn": turn, "answers": told}).encode())

    between(book, monkeypatch, answer)
    if stale:  # of another wish: not taken
        assert book.charge(spend("0.75"), "dear").charged == epsilon("0.75") == book.spent
    else:  # of this one, and not what was asked
        with pytest.raises(LedgerError, match=r"charged epsilon 0.000000000001 instead of epsilon 0.75"):
            book.charge(spend("0.75"), "dear")
    other.rest()


def test_who_was_written_for_just_before_the_lock_hears_what_it_paid(
    file: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book, holder = file.open(), file.open()
    between(book, monkeypatch, lambda: holder._write([]))
    assert book.charge(spend("0.75"), "key").charged == epsilon("0.75") == holder.spent


# beside test_a_writer_who_does_not_get_on... (G3: the queue was not cleared)


def test_a_wish_that_was_given_up_is_taken_back(
    file: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledgers, "WRITER_SECONDS", 0.2)
    book, other = file.open(), file.open()
    assert other.store.alone()
    with pytest.raises(LedgerError, match="has been writing"):
        book.charge(spend("0.25"), "given up")
    page = (file.folder / "test.ledger.queue" / "0").read_bytes()
    assert not page[queues.START :].strip(b"\0")
    other.store.leave()
    other.charge(spend("0.5"), "key")
    assert other.spent == epsilon("0.5")


# Currencies (G6: a release with less delta answered) ------------------------


def test_a_release_without_a_delta_does_not_answer_for_one_with(place: Place) -> None:  # noqa: F811
    book, slack = place.open(Guarantee.read(epsilon="1", delta="1e-6")), Fraction(1, 10**7)
    book.keep(book.charge(spend("0.5"), "key"), Secret(((1,),)))
    assert book.kept("key", gaussian("0.001"), slack=slack) is None
    book.keep(book.charge(gaussian("0.001"), "key", slack=slack), Secret(((2,),)))
    assert book.kept("key", gaussian("0.001"), slack=slack) is not None


# beside test_a_forked_child_uses_its_own_connection (G9, G12) ---------------


def test_a_ticket_that_a_fork_copied_is_not_written_and_none_keeps_its_wish(file: Place) -> None:  # noqa: F811
    book = file.open()
    copied, mine = (ledgers._Ticket(wish(book, key)) for key in ("copied", "mine"))
    copied.process = 0
    book._waiting.extend([copied, mine])
    book.charge(spend("0.5"), "key")
    assert book.spent == epsilon("0.75")
    assert copied.answer is None
    assert mine.answer is not None
    assert mine.wish == {}


# beside test_a_damaged_memory... (W11: the memory beside was read once only)


def test_a_memory_that_is_damaged_while_the_ledger_is_open_is_noticed(place: Place) -> None:  # noqa: F811
    book = filled(place)
    place.head.write_text("garbage")
    with pytest.raises(LedgerError, match="cannot be read"):
        book.charge(spend("0.1"), "d")


# beside test_a_page_keeps_no_letter_of_a_wish (Q4) --------------------------


def test_a_wish_that_was_taken_back_gets_no_answer(file: Place) -> None:  # noqa: F811
    queue, other = queues.Queue(file.folder / "q"), queues.Queue(file.folder / "q")
    queue.ask(b"a wish")
    ((page, _),) = other.wishes()
    queue.clear()
    other.reply(page, b"a draw: 773100")
    assert queue.answer() is None
    assert not (file.folder / "q" / "0").read_bytes()[queues.START :].strip(b"\0")
    queue.rest()
    other.rest()


# beside the same (Q5, Q7) ----------------------------------------------------


def test_a_page_keeps_no_letter_of_an_answer_and_has_its_own_blocks(file: Place) -> None:  # noqa: F811
    queue, other = queues.Queue(file.folder / "q"), queues.Queue(file.folder / "q")
    queue.ask(b"short")
    ((page, _),) = other.wishes()
    other.reply(page, b"a long answer with a draw in it: 773100")
    queue.clear()
    assert not (file.folder / "q" / "0").read_bytes()[queues.START :].strip(b"\0")
    assert os.stat(file.folder / "q" / "0").st_blocks * 512 >= queues.SIZE  # a hole could not be filled
    queue.rest()
    other.rest()


# beside test_a_ledger_with_two_names_is_refused (T7) ------------------------


def test_a_ledger_that_is_mounted_by_itself_is_refused(
    file: Place,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file.open()
    (file.folder / "mounts").write_text(f"36 35 98:0 /x {file.file.resolve()} rw - ext4 /dev/x rw\n")
    monkeypatch.setattr(stores, "MOUNTS", file.folder / "mounts")
    with pytest.raises(LedgerError, match="a second name"):
        file.open()


# beside test_entries_stay_as_they_are (T9) ----------------------------------


def test_no_topic_is_written_twice(place: Place) -> None:  # noqa: F811
    filled(place)
    columns = [name if name != "number" else "number + 100" for name in stores.COLUMNS]
    with pytest.raises((sqlite3.Error, psycopg.Error), match=r"(?i)unique"):
        place.run(f"INSERT INTO entries SELECT {', '.join(columns)} FROM entries WHERE number = 3")


# Shares (S1: who took the name of a group spent its share) ------------------


def test_who_has_the_name_of_a_group_is_not_in_it(place: Place) -> None:  # noqa: F811
    book = place.open()
    book.share(Share("students", epsilon("0.3"), members=("ana",)))
    with pytest.raises(BudgetExceeded, match="'students', who has no share"):
        book.charge(spend("0.1"), "a", analyst="students")
    assert book.left_for("students").amount == 0


# Shares (S3, S4, S8: months, and clocks of other places) --------------------


@pytest.mark.parametrize(
    ("every", "now", "began", "again"),
    [
        ("month", "2024-01-01", "2024-01-01", "2024-02-01"),
        ("month", "2024-01-31", "2024-01-01", "2024-02-01"),
        ("month", "2024-02-29", "2024-02-01", "2024-03-01"),
        ("month", "2023-12-31", "2023-12-01", "2024-01-01"),
        ("week", "2024-01-07", "2024-01-01", "2024-01-08"),
        ("week", "2024-01-08", "2024-01-08", "2024-01-15"),
        ("day", "2024-02-29", "2024-02-29", "2024-03-01"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "JST-9", "PST+8"])
def test_periods_begin_by_utc_wherever_the_clock_hangs(
    every: str, now: str, began: str, again: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        int(datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * shares.SECOND
        for day in (began, now)
    )
    share = Share("ana", epsilon("0.1"), every)
    with monkeypatch.context() as there:
        there.setenv("TZ", zone)
        time.tzset()
        for moment in (second, second + 86_400 * shares.SECOND - 1):
            assert shares.began(share, moment) == first
            assert shares.next_refresh(share, moment) == again
    time.tzset()


# Shares (S5, S7) ------------------------------------------------------------


def test_of_several_shares_for_one_name_the_last_is_in_force(place: Place) -> None:  # noqa: F811
    book = place.open()
    book.share(Share("ana", epsilon("0.5")))
    book.share(Share("ana", epsilon("0.1")))
    assert book.left_for("ana") == epsilon("0.1")
    with pytest.raises(BudgetExceeded, match="the share of 'ana'"):
        book.charge(spend("0.2"), "a", analyst="ana")


def test_no_share_has_a_delta_where_the_budget_has_none(place: Place) -> None:  # noqa: F811
    with pytest.raises(
        InvalidParameter, match="this budget has no delta"
    ):  # one more in ..._cannot_be_meant...
        place.open().share(Share("ana", Guarantee.read(epsilon="0.1", delta="1e-7")))


# in test_prices_in_epsilon_and_delta_are_those_of_the_common_loss (F8) -------


def test_a_price_in_epsilon_and_delta_is_towards_the_relation_that_was_asked_for() -> None:
    for spend in ((COUNT,) * 60, (BELL,) * 10):  # noqa: F402
        found, tight = filters.price(spend, PAIR, "value"), PrivacyLoss.of(spend, "value").epsilon(MILLIONTH)
        assert tight <= found.amount < tight + Fraction(1, 10**12)
        assert found.amount > filters.price(spend, PAIR).amount


# The arithmetic (L3: what lies above the window was forgotten) ----------------


def test_what_lies_above_the_window_counts_as_lost() -> None:
    (total,) = discrete_gaussian(400).times(1000)._sums
    curve = total.curve(8.0)
    beyond = total.beyond(float(curve.losses[-1]), float(curve.losses[1] - curve.losses[0]))
    assert beyond > 0
    assert curve.lost >= total.lost + beyond


# The arithmetic (L4, L5, L36: what splitting adds to Chernoff's bound) --------


def test_chernoff_s_bound_holds_on_a_grid_that_splits_coarsely() -> None:
    """200 responses of epsilon 1/10 on whole numbers: each loss is split onto -1, 0 and 1."""
    up, size = 1 / (1 + math.exp(-0.1)), 0.1
    go = -math.expm1(-size) / -math.expm1(-1)  # of +0.1, to 1
    stay = math.exp(-(1 - size)) * -math.expm1(-size) / -math.expm1(-1)  # of -0.1 = -1 + 0.9, at -1
    one = np.array([(1 - up) * stay, (1 - up) * (1 - stay) + up * (1 - go), up * go])
    law = np.ones(1)
    for _ in range(200):
        law = np.convolve(law, one)
    total = loss.AtomSum(((atoms.response(Fraction(1, 10)).atoms(), 200),))
    for above in (20, 30, 100):
        truth = float(law[200 + above + 1 :].sum())
        assert truth <= total.beyond(above, 1.0)


# Sampling (L8, L9, L10: deltas were dropped by times, sampled, then)


def test_a_sample_keeps_its_share_of_the_delta_that_is_lost() -> None:
    one = Distance(l0=1)
    median = SmoothMedian(epsilon=Fraction(1, 5), delta=Fraction(1, 10**7), low=0, high=100, size=9)
    found = PrivacyLoss.of((Step(median, Distances(one, one)),)).sampled(Fraction(1, 10)).times(3)
    assert found.lost == Fraction(3, 10**8)
    assert found.delta(Fraction(1)) == Fraction(3, 10**8)
    assert PrivacyLoss().then(found).lost == Fraction(3, 10**8)
    assert found.then(found).lost == Fraction(6, 10**8)


# The arithmetic (A4, A7, A8: what no loss is written out for) -----------------


def test_what_is_not_written_out_is_put_where_it_tells_most() -> None:
    logs, rate, lost = np.log([0.2, 0.7]), 0.25, 0.1
    pair = atoms.Pair(np.array([-1.0, 1.0]), logs, logs[::-1].copy(), lost)
    whole, (forward, back) = pair.atoms(), pair.sampled(rate)
    assert whole.lost >= lost
    assert np.exp(whole.logs[0]) >= 0.2 + lost
    assert forward.lost >= lost
    assert np.exp(forward.logs[0]) >= rate * 0.2 + (1 - rate) * 0.7 + lost
    assert np.exp(back.logs[-1]) >= lost
    assert back.losses[-1] >= -math.log(1 - rate)  # the mixture has 1 - rate of it


# The arithmetic (A15, A16) ----------------------------------------------------


def test_the_last_delta_of_a_curve_and_a_rate_are_rounded_up() -> None:
    assert atoms.dotted([(Fraction(1), Fraction(1, 100))]).atoms().lost >= 0.01
    for rate in (Fraction(1, 3), Fraction(1, 10), Fraction(2, 3)):
        assert Fraction(atoms.as_rate(rate)) >= rate


#  (C2, C5, X2: the last bit was rounded down) ----------------------------


def test_the_last_bit_is_rounded_up() -> None:
    with mpmath.workdps(60):
        for i in range(1, 8):
            size, count, total = mpmath.mpf(i) / 7, 5, mpmath.mpf(i) / 3
            x = mpmath.exp(size)
            truth = (
                sum(
                    mpmath.binomial(count, j) * max(x ** (count - j) - mpmath.exp(total) * x**j, 0)
                    for j in range(count + 1)
                )
                / (1 + x) ** count
            )
            found = optimal(Fraction(i, 7), count=count).delta(Fraction(i, 3))
            assert mpmath.mpf(found.numerator) / found.denominator >= truth
            slack = mpmath.mpf(1) / 10**6
            truth = mpmath.sqrt(2 * count * mpmath.log(1 / slack)) * size + count * size * (x - 1)
            found = advanced(Fraction(i, 7), count=count, slack=MILLIONTH)
            assert mpmath.mpf(found.numerator) / found.denominator >= truth
            found = Bound(epsilon=Fraction(i, 7)).delta_at(Fraction(i, 8))
            truth = (x - mpmath.exp(mpmath.mpf(i) / 8)) / (x + 1)
            assert mpmath.mpf(found.numerator) / found.denominator >= truth


# beside test_every_rounding_points_up (L13, L22, L28) -------------------------


def test_an_epsilon_is_that_of_the_worse_order_and_rounded_up() -> None:
    assert all(loss._up(x) >= Fraction(x) for x in (1 / 3, 0.1, 7 / 9))
    found = PrivacyLoss(((loss.Response(Fraction(2)), 1),)).sampled(Fraction(1, 10)).times(20)
    one, other = (total.renyi(1e-6) for total in found._sums)
    assert abs(one - other) > 0.01
    assert float(found.renyi(MILLIONTH)) >= max(one, other) - 1e-9


def test_renyi_takes_what_is_lost_off_delta_first() -> None:
    pair = atoms.response(Fraction(1)).atoms()
    total, less = (loss.AtomSum(((replace(pair, lost=lost), 1),)) for lost in (0.01, 0.0))
    assert total.renyi(0.02) >= less.renyi(0.01) - 1e-9
    with pytest.raises(InvalidParameter, match="lose for certain"):
        total.renyi(0.01)
