"""What `benchmarks/accuracy.py` makes of what it finds: the oracle, saved lines, and the search for peers."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import pytest
from benchmarks import accuracy, peers_skewed
from benchmarks.accuracy import Line, Scored, World, bars, joined
from benchmarks.peers_skewed import CAPS, Peered, Search
from benchmarks.skewed.shop import SHOP, TAXI

from sfumato.curator.intervals import Errors
from sfumato.curator.question import planned
from sfumato.exact.secret import unseal
from sfumato.mechanisms import Guarantee
from sfumato.queries.statement import read

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

ROWS = SHOP.questions[0]


def line(world: str, total: str, errors: list[float], **peers: Peered) -> Line:
    question = ROWS if world == "shop" else TAXI.questions[0]
    ours = Scored(question, errors, len(errors), len(errors), [0.1] * len(errors))
    return Line(world, total, ours, [0.5], 0.1, peers)


def test_the_oracle_counts_in_floats_what_a_release_counts_exactly(tmp_path: Path) -> None:
    world = World(TAXI, tmp_path)
    price = Guarantee.read(epsilon="0.25")
    for each in TAXI.questions:
        db = world.under("3", 10)
        plan = read(each.sql).plan(db.policy, db.measuring)
        asked = planned(db, each.sql, plan, price)
        answer = unseal(db.source.run(asked.compiled))
        drawn = accuracy._drawn(asked.query, answer, 3)
        errors, shown = Errors.of(plan, asked.query), plan.outputs[-1].expression
        values = accuracy._value(errors, shown, drawn)
        assert values is not None, each.name
        for g in range(len(answer.groups)):
            exact = errors.value(shown, [list(map(int, v[2, g])) for v in drawn])
            assert values[2, g] == pytest.approx(float(exact or Fraction(0)), rel=1e-9), each.name
    world.close()


def test_each_run_is_a_world_of_its_own_though_the_file_is_opened_once(tmp_path: Path) -> None:
    world = World(TAXI, tmp_path)
    first, second = (world.asked("1000", 1, 0)["trips"].errors for _ in range(2))
    assert first != second  # a stored release would be the same
    assert world.source is not None
    world.close()


def test_the_filtered_count_is_asked_at_prices_of_its_own(tmp_path: Path) -> None:
    found = accuracy.filtered(tmp_path, 1)
    assert [each.total for each in found] == ["1", "0.25"]
    assert all(each.ours.error < 1 for each in found)


def test_saved_lines_come_back_and_pieces_of_a_run_are_joined() -> None:
    peers = {"OpenDP": Peered(0.2, "64"), "Qrlew": Peered(why="no")}
    lines = [line("shop", "3", [0.1, 0.3], **peers), line("shop", "3", [0.2]), line("shop", "1", [0.4])]
    back = joined(Line.read(each.saved) for each in lines)
    assert [each.name for each in back] == [("shop", "3", ROWS.name), ("shop", "1", ROWS.name)]
    assert back[0].ours.errors == [0.1, 0.3, 0.2]
    assert back[0].ours.cells == 3
    assert back[0].peers == peers
    assert joined(lines) == back
    assert {name: value for name, value, *_ in bars(back)}["shop_3_median"] == pytest.approx(2)


def test_the_bar_of_peers_counts_questions_where_the_better_one_is_not_much_better() -> None:
    lines = [
        line("shop", "3", [0.2], OpenDP=Peered(0.19), Qrlew=Peered(0.5)),  # within a tenth
        line("taxi", "3", [0.2], OpenDP=Peered(0.1), Qrlew=Peered(why="no")),
        line("taxi", "1", [0.2], OpenDP=Peered(), Qrlew=Peered(why="no")),  # nobody answers
    ]
    found = {name: value for name, value, *_ in bars(lines) if name.startswith("peers")}
    assert found == {"peers_3": 0.5}


def test_filtered_counts_have_bars_of_their_own_alone() -> None:
    alone = line("taxi", "1", [0.01])
    alone.world = accuracy.FILTERED
    ((name, percent, _, most),) = bars([alone])
    assert (name, round(percent, 9), most) == ("taxi_1", 1.0, 2.0)


def test_the_best_cap_of_a_peer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that errs least at 32, and refuses what is far too large."""
    asked_for: list[int] = []

    def asked(_: object, question: dict[str, Any]) -> dict[str, Any]:
        cap, runs = question["cap"], question["runs"]
        asked_for.append(cap)
        if cap > 1000:
            return {"refused": "too large"}
        off = abs(CAPS.index(cap) - CAPS.index(32)) / 10
        return {"runs": [[["a", 100 * (1 + off)]]] * runs, "is_capped": True, "is_bounded": False}

    monkeypatch.setattr(peers_skewed, "asked", asked)
    process = cast("subprocess.Popen[str]", None)
    found = Search(process, "q", "SELECT", {("a",): 100.0}, 0.25).best(10)
    assert (found.error, found.cap) == (0, "32")
    assert max(asked_for) < 1000  # it stops where the error only grows


def test_a_peer_that_refuses_or_does_not_know_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    process = cast("subprocess.Popen[str]", None)
    for reply, shown in (({"refused": "no joins"}, "refused"), ({"unknown": True}, "-")):
        monkeypatch.setattr(peers_skewed, "asked", lambda *_, reply=reply: reply)
        found = Search(process, "q", "SELECT", {("a",): 100.0}, 0.25).best(10)
        assert found.error is None
        assert str(found).split() == [shown]
        assert json.loads(json.dumps(found.saved)) == found.saved


def test_a_group_that_a_peer_leaves_out_is_off_by_all_of_it() -> None:
    search = Search(cast("subprocess.Popen[str]", None), "q", "SELECT", {("1",): 10.0, ("2",): 10.0}, 0.25)
    assert search._error([[1.0, 11.0]]) == pytest.approx((0.1 + 1) / 2)
    assert search._error([[1, 10.0], [2, None]]) == pytest.approx(0.5)
