"""The tables that accuracy is measured on are as described, and what is asked of them is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from benchmarks.skewed.shapes import SHAPES
from benchmarks.skewed.shop import ADULT_CENSUS, SHOP, TAXI

import sfumato as sf

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.skewed import Skewed

ROWS = (
    "SELECT QUANTILE_DISC(n, [0.5, 0.9, 0.99, 1]) FROM "
    "(SELECT COUNT(*) AS n FROM {table} WHERE {person} IS NOT NULL GROUP BY {person}) AS t"
)


def made(world: Skewed) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    world.make(connection)
    return connection


def one(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    found = connection.execute(sql).fetchone()
    assert found is not None
    return found[0]


def test_the_shop_and_the_taxi_are_those_that_were_described() -> None:
    shop = made(SHOP)
    assert one(shop, "SELECT COUNT(*) FROM orders") == pytest.approx(98_609, rel=0.005)
    assert one(shop, "SELECT COUNT(*) FROM orders WHERE category = 'books'") == pytest.approx(
        34_287, rel=0.02
    )
    assert one(shop, ROWS.format(table="orders", person="customer_id")) == [1, 6, 58, 1000]
    lost = "SELECT COUNT(*) FILTER (WHERE customer_id IS NULL) / COUNT(*) FROM orders"
    assert one(shop, lost) == pytest.approx(0.02, abs=0.001)
    taxi = made(TAXI)
    assert one(taxi, "SELECT COUNT(*) FROM trips") == pytest.approx(164_333, rel=0.005)
    assert one(taxi, ROWS.format(table="trips", person="rider")) == [4, 18, 65, 288]
    cut = (
        "SELECT SUM(GREATEST(n - 40, 0)) / SUM(n) FROM (SELECT COUNT(*) AS n FROM trips GROUP BY rider) AS t"
    )
    assert one(taxi, cut) == pytest.approx(0.097, abs=0.002)
    assert one(taxi, "SELECT MEDIAN(fare) FROM trips") == pytest.approx(12, abs=0.1)
    dear = "SELECT COUNT(*) FROM trips WHERE fare > 50 AND zone = 'z2'"
    assert one(taxi, dear) == pytest.approx(515, rel=0.05)


@pytest.mark.parametrize("world", [SHOP, TAXI, ADULT_CENSUS, *SHAPES], ids=lambda each: each.name)
def test_every_question_about_a_skewed_table_is_answered(world: Skewed, tmp_path: Path) -> None:
    path = tmp_path / f"{world.name}.toml"
    with duckdb.connect(str(tmp_path / f"{world.name}.duckdb")) as connection:
        world.make(connection)
    path.write_text(world.policy("1000"), encoding="utf-8")
    database = sf.open(path)
    for asked in world.questions:
        assert database.sql(asked.sql, epsilon="1").release().rows(), asked.name
