"""The parts of an audit: where a subject runs, how outputs are read, which neighbours, what is told."""

from __future__ import annotations

import array
import math
import multiprocessing
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from tests.support import children, is_running

from sfumato.attacks import neighbours, report
from sfumato.attacks.audit import Audit, audit, bound, exactly, search
from sfumato.attacks.outputs import Raised, listed, many, one
from sfumato.attacks.subjects import Fresh, Input, Room
from sfumato.attacks.views import Codes, Whole, views_of
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Cube, Exponential, Finite, Gaussian, Geometric

DICE = np.random.default_rng(5)
BEGINNING = DICE.bit_generator.state


@pytest.fixture(autouse=True)
def _dice_fall_alike() -> None:
    """Whatever ran before."""
    DICE.bit_generator.state = BEGINNING


# Where a subject runs ------------------------------------------------------------------------------------


def drawn(x: float, size: int) -> Any:
    return x + DICE.random(size)


@pytest.mark.parametrize("cores", [1, 2])
def test_no_stream_is_read_twice_for_one_input(cores: int) -> None:
    pair = Input(0.0), Input(0.0)
    with Room(drawn, cores) as room:
        pieces = [room.outputs(pair, 500) for _ in range(4)]
    for side in (0, 1):
        outputs = np.concatenate([piece[side] for piece in pieces])
        assert len(np.unique(outputs)) == 2000
    assert not (pieces[0][0] == pieces[0][1]).any()  # dice that fall alike in two processes are found out


def test_what_differs_by_process_is_no_leak() -> None:
    vectors = Fresh(lambda: lambda _: (os.getpid(), os.urandom(1)[0] % 4))
    texts = Fresh(lambda: lambda _: f"{os.getpid()} {os.urandom(1)[0] % 4}")
    for subject in (vectors, texts):
        for _ in range(5):
            assert audit(subject, samples=4000, confidence=1 - 1e-9, cores=2).epsilon == 0


def test_where_something_lies_in_memory_is_no_leak() -> None:
    def failing(x: Any) -> int:
        if DICE.random() < 0.5:
            raise KeyError(x)
        return 0

    assert audit(failing, object(), object(), samples=4000, confidence=1 - 1e-9).epsilon == 0


def test_an_input_with_a_default_is_given_all_the_same() -> None:
    def plain_copy(x: int = 0, eps: float = 1.0) -> float:
        return x * eps

    def packed(*given: int, eps: float = 1.0) -> float:
        return given[0] * eps

    for subject in (plain_copy, packed):
        assert audit(subject, samples=400, parameters={"eps": 1.0}).epsilon > 2


def test_a_subject_with_processes_of_its_own_leaves_none() -> None:
    def forking() -> Any:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        return lambda _: child.pid * 0

    with Room(Fresh(forking), cores=2) as room:
        room.outputs((Input(0), Input(1)), 10)
        began = {each for worker in room._workers for each in children(worker._process.pid or 0)}
    assert len(began) == 2
    deadline = time.monotonic() + 10
    while any(map(is_running, began)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_made_afresh_is_made_where_it_runs() -> None:
    with Room(Fresh(lambda: lambda _: os.getpid()), cores=2) as room:
        zero, one = room.outputs((Input(0), Input(1)), 2)
    assert len({*zero, *one, os.getpid()}) == 3


@pytest.mark.parametrize("cores", [1, 2])
def test_what_fails_says_so_and_leaves_no_process(cores: int) -> None:
    def many(_x: int, size: int) -> list[int]:
        return [0] * (size + 1)

    def broken(_x: int, _size: int) -> list[int]:
        raise RuntimeError("no such table")

    def three(_x: int, _scale: float, _limit: int) -> int:
        return 0

    def unmade() -> Any:
        raise OSError("no such server")

    subjects: list[tuple[Any, str]] = [
        (many, r"\d of them"),
        (lambda _x, _size: 7, "one int"),
        (broken, "RuntimeError: no such table"),
        (three, "needs _scale, _limit"),
        (lambda x: x.foo, "every call failed with an error .AttributeError"),
        (Fresh(unmade, "server"), "no such server"),
    ]
    for subject, says in subjects:
        with pytest.raises(InvalidParameter, match=says):
            audit(subject, samples=400, cores=cores)
    with pytest.raises(InvalidParameter, match="cores"):
        Room(drawn, 3)
    assert not multiprocessing.active_children()


def test_what_no_pipe_carries_is_audited_in_one_process() -> None:
    assert audit(lambda _: lambda: 0, samples=400, cores=2).epsilon == 0  # an address tells nothing
    with pytest.raises(InvalidParameter, match="cores=1"):
        audit(lambda _: 0, lambda: 0, lambda: 1, samples=400, cores=2)
    assert audit(lambda f: f(), lambda: 0, lambda: 1, samples=400).epsilon > 2


def test_a_process_that_dies_ends_the_audit() -> None:
    with pytest.raises(InvalidParameter, match="ended in the middle"):
        audit(lambda x: os._exit(1) if x else 0, samples=400, cores=2)
    assert not multiprocessing.active_children()


def test_an_error_is_an_output() -> None:
    def picky(x: int) -> float:
        if x and DICE.random() < 0.3:
            raise ValueError("too large")
        return float(DICE.random())

    found = audit(picky, samples=4000, claim=1)
    assert found.is_violated
    assert found.event == "the output is an error (ValueError: too large)"


@dataclass
class Thing:
    """Something of somebody else's making."""

    inside: list[int]


# How outputs are read ------------------------------------------------------------------------------------

ODDITIES = [None, "text", 7, -0.0, math.nan, math.inf, 10**400, 2**70, True, Raised("X"), (), (1,), (1, 2),
            [3, [4, 5]], {"a": 1}, np.float32(2.5), 1j, b"x", (None, "a")]  # fmt: skip


@pytest.mark.parametrize(
    "usual",
    [
        lambda: DICE.integers(-3, 4),
        lambda: int(DICE.integers(0, 10**6)),
        lambda: float(DICE.normal()),
        lambda: round(float(DICE.normal()), 1),
        lambda: tuple(DICE.integers(0, 2, 3).tolist()),
        lambda: DICE.normal(size=3),
        lambda: tuple(DICE.integers(0, 2, DICE.integers(1, 5)).tolist()),
        lambda: DICE.choice(["a", "b"]),
        lambda: (float(DICE.normal()),),
        lambda: None if DICE.random() < 0.5 else 1.5,
        lambda: 2**53 + int(DICE.integers(0, 9)),
        lambda: array.array("d", DICE.random(2)),
        lambda: {"a": float(DICE.random()), "b": "x" * int(DICE.integers(0, 3))},
        lambda: f"{DICE.random():.3f}",
        lambda: complex(*DICE.random(2)),
        lambda: Thing([int(DICE.integers(0, 3))]),
    ],
    ids=[
        "few",
        "many",
        "floats",
        "tenths",
        "bits",
        "vectors",
        "ragged",
        "texts",
        "singles",
        "missing",
        "huge",
        "arrays",
        "dicts",
        "numerals",
        "complex",
        "dataclasses",
    ],
)
def test_a_cell_depends_on_its_output_alone(usual: Any) -> None:
    """Whatever else is in the batch, and also for outputs of kinds never seen while learning."""
    views = list(views_of(read([usual() for _ in range(300)]), read([usual() for _ in range(300)])))
    assert views
    mixed = [*ODDITIES, *(usual() for _ in range(40))]
    random.Random(3).shuffle(mixed)
    for view in views:
        for batch in (mixed, [usual() for _ in range(40)], [usual(), 2**53 + 1, 3.5], [1, True, 2.0]):
            cells = view.cells(read(batch))
            assert len(cells) == len(batch)
            assert ((cells >= 0) & (cells < view.size)).all()
            assert [int(view.cells(read([each]))[0]) for each in batch] == cells.tolist(), view
        assert view.words(np.arange(view.size))
        assert view.words(np.arange(1))


def read(batch: list[Any]) -> Any:
    """As a room hands outputs on."""
    return listed([one(each) for each in batch])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint64, np.int64, np.bool_])
@pytest.mark.parametrize("width", [(), (2,)])
def test_the_ends_of_a_type_have_cells(kind: Any, width: tuple[int, ...]) -> None:
    ends = [0, 1] if kind is np.bool_ else [np.iinfo(kind).min, np.iinfo(kind).max]
    outputs = DICE.choice(np.array(ends, dtype=kind), (100, *width))
    for view in views_of(outputs[:50], outputs[50:]):
        cells = view.cells(outputs)
        assert ((cells >= 0) & (cells < view.size)).all()
        if isinstance(view, (Whole, Codes)):
            assert len(set(cells.tolist())) == (4 if width else 2), view


def test_arrays_are_read_as_lists_are() -> None:
    huge, shares = DICE.integers(2**53 - 3, 2**53 + 9, 50), DICE.random(50)
    several: list[Any] = [huge, -huge, huge.astype(np.uint64) * 1024, shares, DICE.integers(0, 9, 50)]
    several += [shares.astype(np.longdouble), shares.astype(np.float16), DICE.normal(size=(50, 2))]
    several += [DICE.random((50, 2, 2)), np.stack([huge, huge], axis=1)]
    for outputs in several:
        for view in views_of(many(outputs[:25], 25), many(outputs[25:], 25)):
            assert view.cells(many(outputs, 50)).tolist() == view.cells(read(list(outputs))).tolist(), view


@pytest.mark.parametrize(
    ("zero", "one", "least"),
    [
        (lambda n: DICE.normal(0, 1, (n, 3)), lambda n: DICE.normal(0, 3, (n, 3)), 3.0),  # spread
        (
            lambda n: DICE.normal(0, 1, (n, 1)) * [1, 1],
            lambda n: DICE.normal(0, 1, (n, 1)) * [1, -1],
            3.0,
        ),  # ties
        (
            lambda n: DICE.normal(0, 1, (n, 20)),
            lambda n: DICE.normal(0.5, 1, (n, 20)),
            3.0,
        ),  # many small shifts
        (lambda n: DICE.laplace(0, 1, (n, 3)), lambda n: DICE.laplace(0.5, 1, (n, 3)), 1.3),  # an octant: 1.5
        (lambda n: DICE.random((n, 3)), lambda n: np.round(DICE.random((n, 3)), 6), 3.0),  # bits of one part
    ],
    ids=["spread", "ties", "shifts", "octant", "bits"],
)
def test_vectors_are_told_apart_by_more_than_their_means(zero: Any, one: Any, least: float) -> None:
    found = audit(lambda x, n: one(n) if x else zero(n), samples=40_000, confidence=1 - 1e-9)
    assert found.epsilon > least


BUFFER = np.zeros(3)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_buffer_that_is_used_again_changes_nothing_that_was_seen(cores: int) -> None:
    def one_by_one(_x: int) -> Any:
        BUFFER[:] = DICE.standard_normal(3)
        return BUFFER

    kept = np.zeros(10_000)

    def at_once(x: int, size: int) -> Any:
        kept[:size] = x * 10 + DICE.random(size)
        return kept[:size]

    for _ in range(8):
        assert audit(one_by_one, samples=2000, confidence=1 - 1e-9, cores=cores).epsilon == 0
    assert audit(at_once, samples=4000, cores=cores).epsilon > 4


@pytest.mark.slow
def test_a_rare_odd_output_does_not_change_how_the_others_are_read() -> None:
    """Such outputs turn arrays of numbers into arrays of objects; all of it is allowed by the delta."""

    def sometimes(x: int, size: int) -> Any:
        drawn: Any = DICE.standard_normal(size).tolist()
        if x == 0 and DICE.random() < 0.5:
            drawn[0] = None
        return np.array(drawn)

    def large(x: int, size: int) -> Any:
        drawn: list[Any] = (DICE.integers(0, 50, size) + 2**53).tolist()
        if x == 1 and DICE.random() < 0.5:
            drawn[-1] = None
        return drawn

    for subject in (sometimes, large):
        for _ in range(5):
            assert audit(subject, delta=0.02, samples=40_000, confidence=1 - 1e-9).epsilon == 0


@pytest.mark.parametrize(
    "subject",
    [
        lambda x: math.inf if x else -math.inf,
        lambda x: math.nan if x else math.inf,
        lambda x: () if x else (1,),
        lambda x: [[]] if x else [],
        lambda x, n: np.zeros((n, 0)) if x else [None] * n,
        lambda x: {"a": 1} if x else {"a": 1, "b": 2},
        lambda x: {"a": 1, "b": 2} if x else {"b": 2, "a": 1},
        lambda x: {1, 2} if x else {1},
        lambda x: "a" * int(DICE.integers(5, 9)) if x else "b" * int(DICE.integers(1, 4)),
        lambda x: f"{DICE.random() + x:.9f}",
        lambda x: bytes([int(128 * x + DICE.integers(0, 128))]) + DICE.bytes(6),
        lambda x: Decimal(str(DICE.random() + x)),
        lambda x: Fraction(float(DICE.random() + x)),
        lambda x: complex(DICE.random(), DICE.random() + x),
        lambda x: {"value": float(DICE.random() + x)},
        lambda x: Thing([int(DICE.integers(0, 1000)) + 1000 * x]),
        lambda x: np.array([(DICE.random() + x, 1)], dtype=[("a", float), ("b", int)])[0],
        lambda x: 10**400 + x if x else 10**300,
        lambda x: 2**64 - 1 if x else -(2**63),
        lambda x, n: pd.DataFrame({"a": DICE.random(n) + x, "b": DICE.random(n)}),
        lambda x, n: pd.Series(DICE.random(n) + x),
        lambda x: sys.exit(1) if x else 0,
        lambda x, n: np.full(n, 1j * x, "clongdouble"),
        lambda x: DICE.random(100) * (1 + 5 * (np.arange(100) == 90) * x),
        lambda x: (*DICE.random(DICE.integers(1, 4)).tolist(), x),
    ],
)
def test_a_total_leak_is_seen_in_whatever_comes_out(subject: Any) -> None:
    for cores in (1, 2):
        assert audit(subject, samples=2000, cores=cores).epsilon > 0.9


STRANGE: list[dict[str, Any]] = [
    *({"claim": claim} for claim in (math.nan, math.inf, -1, "1")),
    *({"samples": samples} for samples in (1e6, "many", 10**20, 99)),
    *({"delta": delta} for delta in ("0", math.nan, -1, 2)),
    *({"confidence": confidence} for confidence in (math.nan, "0.9", 1)),
]


@pytest.mark.parametrize("given", STRANGE, ids=repr)
def test_arguments_that_are_none_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(given))):
        audit(lambda x: x, **({"samples": 400} | given))
    if "claim" in given or "delta" in given:
        with pytest.raises(InvalidParameter, match=next(iter(given))):
            exactly(Geometric(scale=Fraction(1)), 0, 1, **given)


def test_arguments_stand_where_they_like() -> None:
    def second(epsilon: float, x: int, size: int) -> Any:
        return DICE.laplace(x, 1 / epsilon, size)

    def named(x: int, *, epsilon: float) -> float:
        return float(DICE.laplace(x, 1 / epsilon))

    async def promised(x: int) -> int:
        return x

    for subject in (second, named):
        assert audit(subject, parameters={"epsilon": 5.0}, samples=4000).epsilon > 1
    with pytest.raises(InvalidParameter, match="it returns awaitables: give a function that returns outputs"):
        audit(promised, samples=400)


def test_a_failure_in_one_process_leaves_the_other_in_step() -> None:
    def picky(x: int, size: int) -> Any:
        if x < 0:
            raise ValueError("negative")
        return np.full(size, float(x))

    with Room(picky, 2) as room:
        with pytest.raises(InvalidParameter, match="negative"):
            room.outputs((Input(-1), Input(100)), 3)
        zero, one_ = room.outputs((Input(0), Input(1)), 5)
    assert zero.tolist() == [0.0] * 5
    assert one_.tolist() == [1.0] * 5


def test_outcomes_that_are_named_twice_count_once() -> None:
    law, named = Geometric(scale=Fraction(1)), list(range(-20, 21))
    once = exactly(law, (0,), (1,), delta=Fraction(1, 10), outcomes=[(y,) for y in named]).epsilon
    assert (
        exactly(law, (0,), (1,), delta=Fraction(1, 10), outcomes=[(y,) for y in named * 50]).epsilon == once
    )
    twice = Finite(("a", "a", "b"), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))
    assert twice.mass("a") == Fraction(3, 4)
    with pytest.raises(InvalidParameter, match="use audit"):
        exactly(lambda x: x, 0, 1)  # type: ignore[arg-type]


# Which neighbours ----------------------------------------------------------------------------------------


def apart(a: Any, b: Any) -> float:
    if isinstance(a, tuple):
        return float(max(abs(x - y) for x, y in zip(a, b, strict=True)))
    return float(abs(a - b))


@pytest.mark.parametrize(
    "kind", ["numbers", "whole", "bits", "counts:1", "counts:4", "vectors:1", "vectors:6"]
)
def test_named_pairs_are_neighbours(kind: str) -> None:
    pairs = neighbours.named(kind)
    assert all(0 < apart(a, b) <= 1 for a, b in pairs)
    assert len({repr(pair) for pair in pairs}) == len(pairs)
    if ":" not in kind:
        assert pairs[0] == (0, 1)
    if kind.startswith("counts:4"):
        assert all(sum(x != y for x, y in zip(a, b, strict=True)) == 1 for a, b in pairs)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_tables_differ_by_one_row(length: int) -> None:
    for a, b in neighbours.rows(length):
        if len(a) == len(b):
            assert sum(x != y for x, y in zip(a, b, strict=True)) == 1
        else:
            short, long = sorted((a, b), key=len)
            assert long[: len(short)] == short
            assert len(long) == len(short) + 1


@pytest.mark.parametrize(
    "name", ["", "vectors", "vectors:0", "vectors:-1", "vectors:x", "numbers:3", "rows:1001"]
)
def test_unknown_pairs_are_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="numbers, whole"):
        neighbours.named(name)


@pytest.mark.parametrize("least", [2, 3, 5, 6, 10, 11, 20, 25, 30, 50, 100])
def test_counts_that_are_hidden_before_the_noise_are_found(least: int) -> None:
    """A group below `least` people is shown as empty: the noise of scale 1 does not reach over that."""

    dice, p = np.random.default_rng(least), 1 - math.exp(-1)

    def hidden(counts: tuple[int, ...], size: int) -> Any:
        kept = np.array([count if count >= least else 0 for count in counts])
        noise = dice.geometric(p, (size, len(counts))) - dice.geometric(p, (size, len(counts)))
        return kept + noise

    found = search(hidden, neighbours.counts(3), claim=1, samples=40_000)
    assert found.is_violated
    assert {max(found.likely.value), max(found.unlikely.value)} == {least - 1, least}


def test_a_search_finds_the_pair_and_the_parameter() -> None:
    def steps(x: int, size: int, width: int) -> Any:
        return x // width * width + DICE.geometric(0.5, size) - DICE.geometric(0.5, size)

    found = search(
        steps,
        neighbours.whole(),
        parameters={"width": [1, 10]},
        claim=lambda width: math.log(2) * (1 if width == 1 else 2),
        samples=60_000,
        confidence=1 - 1e-9,
    )
    assert found.is_violated
    assert found.tried == 26
    assert found.likely.value // 10 != found.unlikely.value // 10
    assert found.likely.parameters == {"width": 10}
    assert "best of 26 pairs" in repr(found)
    assert "with width=10" in repr(found)


def test_a_search_passes_over_inputs_that_fail_unless_all_do() -> None:
    def positive(x: int, size: int) -> Any:
        if x < 0:
            raise ValueError("negative")
        return np.full(size, x)

    for cores in (1, 2):
        assert search(positive, [(-1, 0), (0, 1)], samples=2000, cores=cores).epsilon > 2
    unsendable: list[tuple[Any, Any]] = [(0, 1), (0, lambda: 1)]
    assert search(lambda x: x, unsendable, samples=2000, cores=2).epsilon > 2
    with pytest.raises(InvalidParameter, match="negative"):
        search(positive, [(-1, 0), (-2, -1)], samples=2000)
    with pytest.raises(InvalidParameter, match="at least one pair"):
        search(positive, [], samples=2000)


@pytest.mark.slow
def test_the_best_of_many_pairs_is_tested_on_new_samples() -> None:
    """Nothing to find in any of 17 pairs: alarms stay as rare as stated. Reused samples would raise more."""
    runs, wrong = 100, 0
    for _ in range(runs):
        nothing = search(
            lambda _, n: DICE.integers(0, 50, n), neighbours.numbers(), claim=0, samples=6000, confidence=0.9
        )
        wrong += nothing.is_violated
    assert wrong <= stats.binom.isf(1e-9, runs, 0.1)


# What is proved ------------------------------------------------------------------------------------------


def solved(excess: Any) -> float:
    """Scipy's own quantile is twice too large at a thousand in 10^9; its tails are right."""
    return math.exp(optimize.brentq(lambda log: excess(math.exp(log)), -60.0, 0.0, xtol=1e-14))


@pytest.mark.parametrize("samples", [10, 1000, 4_500_000, 10**9])
@pytest.mark.parametrize("miss", [0.05, 1e-9])
def test_the_bound_lies_just_below_that_of_scipy(samples: int, miss: float) -> None:
    for share, other in ((1.0, 0.0), (0.5, 0.18), (0.01, 0.009), (0.9, 0.0), (1e-6, 0.0)):
        often, seldom = round(share * samples), round(other * samples)
        low = solved(lambda p: special.betainc(often, samples - often + 1, p) - miss / 2) if often else 0.0  # noqa: B023
        high = solved(lambda q: miss / 2 - special.betaincc(seldom + 1, samples - seldom, q))  # noqa: B023
        true = max(0.0, math.log(low / high)) if low else 0.0
        found = bound(often, seldom, samples, miss=miss)
        assert found <= true
        assert found == pytest.approx(true, abs=1e-4)


def test_laws_are_compared_without_samples() -> None:
    assert exactly(Geometric(scale=Fraction(3)), 0, 1).epsilon == pytest.approx(1 / 3, rel=1e-12)
    assert exactly(Geometric(scale=Fraction(10**6)), 0, 10**6).epsilon == pytest.approx(
        1, abs=0.01
    )  # far away
    assert not exactly(Geometric(scale=Fraction(3)), 0, 1, claim=Fraction(1, 3)).is_violated
    assert exactly(Geometric(scale=Fraction(3)), 0, 1, claim=Fraction(333, 1000)).is_violated
    choices = exactly(Exponential(scale=Fraction(1)), (0, 20), (1, 19), outcomes=range(2), claim=2)
    assert 1.99 < choices.epsilon <= 2
    cube = exactly(Cube(scale=Fraction(2)), (0, 0), (1, 1), outcomes=[(3, 3), (-1, 0), (0, 0)])
    assert cube.epsilon == pytest.approx(0.5, rel=1e-12)
    sigma = Gaussian(sigma_squared=Fraction(1))
    assert exactly(sigma, 0, 1, delta=Fraction(1, 1000)).epsilon > exactly(sigma, 0, 1, delta=0.01).epsilon


# What is told --------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Checks that what is opened is closed, and keeps what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "rect", "path", "polyline", "circle"):
            self.open.append(tag)
        self.fetched += [v or "" for k, v in attrs if k in ("src", "href") and not (v or "").startswith("#")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def told() -> list[Audit]:
    named = Fresh(lambda: lambda x, n: x + DICE.integers(0, 3, n), "<script>alert('&')</script>")
    return [
        audit(named, samples=4000, claim=0.5),
        audit(Geometric(scale=Fraction(1)), samples=4000),
        exactly(Geometric(scale=Fraction(1)), 0, 1, claim=1),
        audit(lambda x: x, samples=400, claim=Fraction(1, 3)),
    ]


def test_a_report_stands_alone_and_shows_what_was_found() -> None:
    audits = told()
    page = Page()
    text = report.page(audits, title="Ours & theirs", when="2026-11-15")
    page.feed(text)
    assert not page.open
    assert not page.fetched
    assert "<script" not in text
    assert text.count("<svg") == 3  # the exact one has no samples to draw
    assert text.count("claim: ") == 2
    assert "2 refuted" in text
    assert all(f"{each.epsilon:.4f}" in text for each in audits)
    assert "0.01; any of them, with at most 0.03" in text
    assert "wrong with probability at most 0.01." in report.page(audits[:1])
    assert "without samples" in report.page(audits[2:3])


def test_the_terminal_shows_the_bound_against_samples() -> None:
    for each in told():
        lines = report.chart(each).splitlines()
        counts = [int(line.split()[0].replace(",", "")) for line in lines[1:]]
        assert counts == sorted(counts)
        assert (counts[-1:] == [each.samples]) != each.exact
        assert ("┃" in lines[0]) == (each.claim is not None)
    assert report.table(told()).count("REFUTED") == 2


def test_a_program_can_read_it() -> None:
    found = told()[0].as_dict()
    assert found["refuted"] is True
    assert found["history"][-1] == [found["samples"], found["epsilon"]]
    assert exactly(Geometric(scale=Fraction(1)), 0, 1).as_dict()["claim"] is None
