"""Caps chosen privately: what is released, what is chosen from it, and how it stands in the policy."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from benchmarks.rightness.tuned import cases
from tests.support import literal

import sfumato as sf
from sfumato.curator.caps import ROWS, believed, choose, nodes, resolve
from sfumato.curator.question import asked
from sfumato.curator.tuning import inserted, section
from sfumato.errors import BudgetExceeded, InvalidParameter, PolicyError
from sfumato.exact.secret import unseal
from sfumato.mechanisms import Guarantee
from sfumato.queries import policy as policies
from sfumato.queries.cells import PARTS
from sfumato.queries.declared import Measured, TunedColumn, Tuning
from sfumato.queries.measures import Moments, Octaves, Sum
from sfumato.queries.plan import Plan
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.curator.database import Database
    from sfumato.curator.question import Question
    from sfumato.mechanisms import Private, Step
    from sfumato.queries.measures import Measure

POLICY = """
[source]
duckdb = "shop.duckdb"
[budget]
epsilon = "1000"
[tables.orders]
unit = "buyer"
rows_per_person = 7
[tables.orders.columns]
buyer = "integer"
amount = { type = "integer", low = -1000, high = 1000 }
price = { type = "number", low = 0, high = 100 }
kind = { type = "text", keys = ["a", "b", "c"] }
"""


def shop(folder: Path, rows: Sequence[tuple[object, ...]]) -> Database:
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE orders (buyer INTEGER, amount BIGINT, price DOUBLE, kind VARCHAR)")
        lines = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
        if rows:
            connection.execute(f"INSERT INTO orders VALUES {lines}")
    (folder / "shop.toml").write_text(POLICY, encoding="utf-8")
    return sf.open(folder / "shop.toml")


def hat(amount: int, count: int) -> list[int]:
    """What one person adds, by the definition: the amount is the mean of the nodes it is shared between."""
    found = [0] * count
    amount = min(amount, 1 << (count - 2))
    if amount == 0:
        found[0] = PARTS
        return found
    k = amount.bit_length() - 1
    upper = (amount - (1 << k)) * PARTS >> k
    found[k + 1] = PARTS - upper
    if upper:
        found[k + 2] = upper
    return found


# What is released ------------------------------------------------------------------------------------


def test_the_engine_shares_each_person_between_two_nodes_exactly(tmp_path: Path) -> None:
    rng = random.Random(3)
    amounts = [0, 1, 2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 2**20 - 1, 2**20, 2**20 + 1, 2**40 + 12345]
    amounts += [rng.randrange(1 << rng.randrange(1, 45)) for _ in range(150)]
    policy = POLICY.replace("low = -1000, high = 1000", "low = 0, high = 9007199254740991")
    rows = [(person, amount, None, None) for person, amount in enumerate(amounts)]
    db = shop(tmp_path, [*rows, (None, 5, None, None)])
    (tmp_path / "shop.toml").write_text(policy, encoding="utf-8")
    db = sf.open(tmp_path / "shop.toml")
    plan = octaves(db, "amount", nodes=40)
    wanted = [sum(cells) for cells in zip(*(hat(amount, 40) for amount in amounts), strict=True)]
    assert [list(vector) for vector in unseal(db.source.run(db.source.compile(plan))).vectors] == [wanted]


def octaves(db: Database, column: str | None, nodes: int = ROWS, centre: int = 0) -> Plan:
    relation = parse("SELECT COUNT(*) FROM orders", db.policy).relation
    if column is None:
        return Plan(relation, (), (Octaves(None, None, 0, nodes),), ())
    (total,) = parse(f"SELECT SUM({column}) FROM orders", db.policy).measures
    assert isinstance(total, Sum)
    return Plan(relation, (), (Octaves(total.value, total.clamp, centre, nodes),), ())


def test_rows_and_centred_totals_are_those_of_persons(tmp_path: Path) -> None:
    rows = [
        (1, -5, 1.0, "a"),
        (1, 9, 1.0, "a"),
        (2, None, None, None),
        (3, 5000, 2.0, "b"),
        (None, 1, 1.0, "c"),
    ]
    db = shop(tmp_path, rows)
    counted = unseal(db.source.run(db.source.compile(octaves(db, None)))).vectors[0]
    assert list(counted) == [sum(pair) for pair in zip(hat(2, ROWS), hat(1, ROWS), hat(1, ROWS), strict=True)]
    centred = unseal(db.source.run(db.source.compile(octaves(db, "amount", centre=4)))).vectors[0]
    sizes = (9 + 5, 0, 996)  # clamped to 1000 before the centre is taken off; NULL adds nothing
    assert list(centred) == [sum(each) for each in zip(*(hat(size, ROWS) for size in sizes), strict=True)]


def test_one_person_moves_a_histogram_by_one_person(tmp_path: Path) -> None:
    db = shop(tmp_path, [])
    (derivation,) = derive(octaves(db, None))
    assert derivation.distances.presence.l1 == PARTS
    assert derivation.distances.value.l1 == 2 * PARTS
    assert "two of 22 nodes" in derivation.because[0]


# What is chosen --------------------------------------------------------------------------------------


def people(amounts: NDArray[np.int64], epsilon: float, rng: np.random.Generator) -> Measured:
    """A histogram with noise, as it is released."""
    cells = np.sum([hat(int(amount), ROWS) for amount in np.unique(amounts)], axis=0) * 0
    for amount, count in zip(*np.unique(amounts, return_counts=True), strict=True):
        cells = cells + int(count) * np.array(hat(int(amount), ROWS))
    noise = rng.geometric(epsilon / PARTS, ROWS) - rng.geometric(epsilon / PARTS, ROWS)
    return Measured(Fraction(str(epsilon)), tuple(int(cell) for cell in cells + noise))


def error(amounts: NDArray[np.int64], cap: int, epsilon: float, groups: int) -> float:
    lost = float(np.maximum(amounts - cap, 0).sum()) / groups
    return float(np.sqrt(lost**2 + 2 * (cap / epsilon) ** 2))


@cache
def shapes() -> dict[str, NDArray[np.int64]]:
    """Rows a person, in shapes on which nothing was developed."""
    dice = np.random.default_rng(5)
    return {
        "one each": np.ones(20_000, dtype=np.int64),
        "ten each": np.full(20_000, 10, dtype=np.int64),
        "geometric": dice.geometric(0.2, 20_000),
        "pareto": np.minimum(dice.pareto(1.5, 20_000) + 1, 10**6).astype(np.int64),
        "two kinds": np.where(np.arange(20_000) % 2, 1, 200),
        "uniform": dice.integers(1, 1000, 20_000),
        "log-normal": np.exp(dice.normal(1.5, 1.2, 20_000)).astype(np.int64) + 1,
    }


@pytest.mark.parametrize("groups", [1, 50])
@pytest.mark.parametrize("shape", list(shapes()))
def test_the_chosen_cap_is_near_the_best_one_on_shapes_it_was_not_made_for(shape: str, groups: int) -> None:
    amounts, dice = shapes()[shape], np.random.default_rng(7)  # seeded: the same noise in every run
    best = min(error(amounts, cap, 0.9, groups) for cap in np.unique(np.geomspace(1, 10**6, 200).astype(int)))
    found = []
    for _ in range(25):
        cap = choose(people(amounts, 0.05, dice), 0.9, groups)
        assert cap is not None
        found.append(error(amounts, cap, 0.9, groups) / best)
    assert np.median(found) < 3.5
    assert max(found) < 14


def test_a_larger_price_lets_people_weigh_more_and_more_groups_less() -> None:
    measured = people(shapes()["log-normal"], 0.1, np.random.default_rng(1))
    caps = [choose(measured, price, 1) or 0 for price in (0.01, 0.1, 1.0, 10.0)]
    assert caps == sorted(caps)
    by_groups = [choose(measured, 1.0, groups) or 0 for groups in (1, 10, 100, 1000)]
    assert by_groups == sorted(by_groups, reverse=True)


def test_a_declared_cap_is_passed_only_for_people_who_are_seen() -> None:
    """Noise alone decided for more than a cap that was right, now and then; people above it still do."""
    dice = np.random.default_rng(5)
    right, wrong = np.full(2000, 4, dtype=np.int64), np.full(2000, 40, dtype=np.int64)
    plain, heeding, beyond = [], [], []
    for _ in range(100):
        measured = people(right, 0.5, dice)
        plain.append(choose(measured, 3.0, 1) or 0)
        heeding.append(choose(measured, 3.0, 1, 4) or 0)
        beyond.append(choose(people(wrong, 0.5, dice), 3.0, 1, 4) or 0)
    assert max(plain) > 4
    assert max(heeding) == 4
    assert min(beyond) >= 32


def test_where_nobody_stands_out_of_the_noise_nothing_is_chosen() -> None:
    dice = np.random.default_rng(2)
    found = [choose(people(np.zeros(0, dtype=np.int64), 0.1, dice), 1.0, 1) for _ in range(40)]
    assert found.count(None) >= 36
    few = [choose(people(np.full(20, 3, dtype=np.int64), 0.05, dice), 1.0, 1) for _ in range(40)]
    assert few.count(None) >= 36


def test_a_lonely_spike_of_noise_far_out_is_not_believed() -> None:
    seen = np.zeros(ROWS)
    seen[1:5] = 1000.0
    seen[18] = 12.9  # units of noise: thirteen are needed so far away
    masses = believed(seen, 1.0)
    assert masses is not None
    assert masses[18] < 1
    seen[18] = 13.1
    masses = believed(seen, 1.0)
    assert masses is not None
    assert masses[18] == 13.1


def test_nodes_stand_at_zero_and_powers_of_two() -> None:
    assert list(nodes(6)) == [0, 1, 2, 4, 8, 16]


# In a database ---------------------------------------------------------------------------------------


@pytest.fixture
def busy(tmp_path: Path) -> Database:
    rng = random.Random(9)
    rows = [
        (person, rng.randint(-20, 60), rng.uniform(10, 20), rng.choice("abc"))
        for person in range(3000)
        for _ in range(1 + min(int(rng.expovariate(0.2)), 80))
    ]
    return shop(tmp_path / "busy", rows)


def tuned(db: Database, tuning: Tuning) -> Database:
    tables = tuple(replace(table, tuning=tuning) for table in db.policy.tables)
    db.policy = replace(db.policy, tables=tables)
    return db


def test_tuning_charges_no_more_than_its_price_and_is_free_when_repeated(busy: Database) -> None:
    before = busy.ledger.left.amount
    tuning, receipts = busy.tune("orders", epsilon="0.5")
    spent = before - busy.ledger.left.amount
    assert Fraction("0.4") < spent <= Fraction("0.5")  # a centre of 0 makes two of the histograms one
    assert [column.name for column in tuning.columns] == ["amount", "price"]
    assert len(receipts) == 7
    assert busy.tune("orders", epsilon="0.5") == (tuning, receipts)
    assert busy.ledger.left.amount == before - spent


def test_questions_of_a_tuned_table_have_caps_that_fit(busy: Database) -> None:
    tuning, _ = busy.tune("orders", epsilon="2")
    db = tuned(busy, tuning)
    (count,) = db.sql("SELECT COUNT(*) FROM orders", epsilon="1").plan.measures
    assert isinstance(count, Moments)
    assert count.rows is not None
    assert 16 <= count.rows <= 128
    (by_kind,) = db.sql("SELECT kind, COUNT(*) FROM orders GROUP BY kind", epsilon="0.1").plan.measures
    assert isinstance(by_kind, Moments)
    assert by_kind.rows is not None
    assert by_kind.rows < count.rows


def test_an_average_of_a_tuned_column_is_taken_around_its_centre(busy: Database) -> None:
    tuning, _ = busy.tune("orders", epsilon="200")  # its noise is then a hundredth
    plain = busy.sql("SELECT kind, AVG(price), SUM(price) FROM orders GROUP BY kind", epsilon="100")
    db = tuned(busy, tuning)
    question = db.sql("SELECT kind, AVG(price), SUM(price) FROM orders GROUP BY kind", epsilon="100.01")
    total = next(m for m in question.plan.measures if isinstance(m, Sum))
    assert 14 < total.centre * total.clamp.step < 16
    wide, narrow = (q.release().rows()[0] for q in (plain, question))
    assert narrow["avg_price_high"] - narrow["avg_price_low"] < wide["avg_price_high"] - wide["avg_price_low"]
    assert 14 < narrow["avg_price"] < 16


def test_only_tables_of_persons_and_columns_with_bounds_are_tuned(busy: Database) -> None:
    for arguments in ({"table": "nowhere"}, {"table": "orders", "columns": ["kind"]}):
        with pytest.raises(InvalidParameter):
            busy.tune(epsilon="0.1", **arguments)
    assert busy.ledger.spent.amount == 0


def test_a_policy_without_tuning_is_left_alone(busy: Database) -> None:
    plan = parse("SELECT COUNT(*) FROM orders", busy.policy)
    assert resolve(busy.policy, plan, Guarantee.parse("1")) is busy.policy


# In the policy file ----------------------------------------------------------------------------------

SOME = Tuning(
    Measured(Fraction(1, 25), (-5, 1024, 77)),
    (
        TunedColumn(
            "amount", Fraction(-7, 2), 1, Measured(Fraction(1, 10), (1, 2)), Measured(Fraction(1), (3, 4))
        ),
    ),
)


def test_what_is_written_is_read_back_and_replaces_what_stood_there(tmp_path: Path) -> None:
    text = inserted(POLICY, "orders", section("orders", SOME, (3, 5)))
    (table,) = policies.parse(text, tmp_path / "shop.toml").tables
    assert table.tuning == SOME
    other = replace(SOME, columns=())
    again = inserted(text, "orders", section("orders", other, (9,)))
    (table,) = policies.parse(again, tmp_path / "shop.toml").tables
    assert table.tuning == other
    assert again.count("[tables.orders.tuned]") == 1
    assert again.count("sfumato tune") == 1
    assert again.startswith(POLICY.rstrip("\n"))


@pytest.mark.parametrize(
    "bad",
    [
        "tuned = 3",
        "tuned = {}",
        'tuned = { rows = { epsilon = "0", people = [1, 2] } }',
        'tuned = { rows = { epsilon = "1", people = [1] } }',
        'tuned = { rows = { epsilon = "1", people = [1, "2"] } }',
        'tuned = { rows = { epsilon = "1", people = [1, 2] }, nobody = {} }',
        'tuned = { rows = { epsilon = "1", people = [1, 2] }, amount = { centre = "1" } }',
    ],
)
def test_a_section_that_tune_did_not_write_is_refused_by_name(bad: str, tmp_path: Path) -> None:
    text = POLICY.replace("rows_per_person = 7", f"rows_per_person = 7\n{bad}")
    with pytest.raises(PolicyError, match="tuned"):
        policies.parse(text, tmp_path / "shop.toml")


# Inside a question ---------------------------------------------------------------------------------------


def uneven(folder: Path) -> Database:
    """Most buyers have two orders, some have forty."""
    rows = [(i, 20, 5.0, "ab"[i % 2]) for i in range(900) for _ in range(40 if i % 30 == 0 else 2)]
    return shop(folder, rows)


def test_a_question_may_first_spend_on_caps_that_fit_it(tmp_path: Path) -> None:
    db = uneven(tmp_path)
    sql = "SELECT kind, SUM(amount), COUNT(*) FROM orders GROUP BY kind"
    question = db.sql(sql, epsilon=10, tune=2)
    assert question.price.epsilon == 10
    told = repr(question.explain())
    assert "epsilon 2 of the price is first spent on choosing caps" in told
    assert db.ledger.spent.amount == 0
    release = question.release()
    assert db.ledger.spent.amount == 10
    assert release.plan.relation.rows != 7  # the declared cap
    assert next(entry.question.partition(":")[0] for entry in db.ledger.history()) == "tune orders"
    again = db.sql(sql, epsilon=10, tune=2).release()
    assert again.drawn == release.drawn
    assert db.ledger.spent.amount == 10
    assert db.policy.tables[0].tuning is None  # nothing stays


def test_whoever_cannot_pay_all_of_it_pays_nothing(tmp_path: Path) -> None:
    db = uneven(tmp_path)
    with pytest.raises(BudgetExceeded, match="asks for epsilon 1001"):
        db.sql("SELECT COUNT(*) FROM orders", epsilon=1001, tune=1).release()
    assert db.ledger.spent.amount == 0


@pytest.mark.parametrize("part", ["1", "2", "0", "-1", "x"])
def test_a_part_that_is_no_part_is_refused(part: str, tmp_path: Path) -> None:
    db = uneven(tmp_path)
    with pytest.raises(InvalidParameter):
        db.sql("SELECT COUNT(*) FROM orders", epsilon=1, tune=part)


def test_questions_that_tune_are_not_asked_together(tmp_path: Path) -> None:
    db = uneven(tmp_path)
    question = db.sql("SELECT COUNT(*) FROM orders", epsilon=1, tune="0.1")
    with pytest.raises(InvalidParameter, match="with tune"):
        db.batch([question])


# What it is worth ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_caps_that_fit_never_make_an_answer_worse() -> None:
    """Random policies, data, prices and questions: the predicted error is at most 1.1 times that without.

    The seed is fixed, so it does not fail by chance. `benchmarks/right.py` tries more.
    """
    found = list(cases(seed=20, worlds=5))
    assert len(found) >= 70
    assert max(case.ratio for case in found) <= 1.1
    assert min(case.least for case in found) >= 0.0999  # a scale is rounded up, so a part is not all spent


def test_an_average_near_its_tuned_centre_spends_little_on_its_count(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    amounts = np.clip(rng.normal(200, 50, 4000), -1000, 1000)
    db = shop(tmp_path, [(i, int(amount), None, "a") for i, amount in enumerate(amounts)])
    with_caps, _ = db.tune("orders", epsilon="50", columns=["amount"])
    declared = replace(db.policy, tables=(replace(db.policy.tables[0], tuning=with_caps),))
    for sql, most in (("", 0.15), (" GROUP BY kind", 0.3)):
        question = asked(db, read(f"SELECT AVG(amount) FROM orders{sql}"), declared, Guarantee.parse("1"))
        parts = {type(m).__name__: s.bound().epsilon for m, s in steps_of(question)}
        assert parts["Moments"] is not None
        assert 0.05 <= float(parts["Moments"]) <= most


def steps_of(question: Question) -> list[tuple[Measure, Step[Private]]]:
    return list(zip(question.plan.measures, question.query.steps, strict=True))


def test_a_receipt_is_redeemed_by_the_measures_that_it_was_charged_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version measures otherwise: what was charged is drawn, and nothing is charged again."""
    db = shop(tmp_path, [(i, i % 100, None, "a") for i in range(500)])
    with_caps, _ = db.tune("orders", epsilon="5", columns=["amount"])
    declared = replace(db.policy, tables=(replace(db.policy.tables[0], tuning=with_caps),))
    sql, price = "SELECT AVG(amount), COUNT(*) FROM orders", Guarantee.parse("1")
    monkeypatch.setattr("sfumato.queries.rewrite._is_narrow", lambda *_: True)
    once = asked(db, read(sql), declared, price)
    receipt = once.bill().charged(db.ledger)
    monkeypatch.setattr("sfumato.queries.rewrite._is_narrow", lambda *_: False)
    now = asked(db, read(sql), declared, price)
    assert now.meaning != once.meaning
    release = now.release()
    assert release.receipt.number == receipt.number
    assert release.query.steps == once.query.steps
    assert release.cost.amount == 0
    assert asked(db, read(sql), declared, price).release().drawn == release.drawn
