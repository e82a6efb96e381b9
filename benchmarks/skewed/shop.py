"""A shop, a taxi company and the Adult census: tables that were measured before.

The shop: 20,000 customers with Zipf(2) orders each (median 1, p90 6, p99 58, most 1,000), about 98,600
orders, of which 2 in 100 have no customer; cities that are missing or misspelt. The taxi: 20,000 riders with
about 164,300 trips (median 4, p99 65, most about 290), fares log-normal around 12, 30 zones by a power law.

Adult: UCI Machine Learning Repository, "Adult" (Becker and Kohavi, 1996), CC BY 4.0; 32,561 rows, one a
person.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.skewed import Skewed, SkewedQuestion, load

if TYPE_CHECKING:
    import duckdb

CATEGORIES = ("books", "games", "garden", "music", "toys")
CITIES = ("Aachen", "Bremen", "Celle", "Dresden", "Essen")
REASONS = ("broken", "late", "too large", "too small")
PAYMENTS = ("card", "cash", "other")
ADULT = Path(__file__).parent / "adult.csv.gz"


def make_shop(connection: duckdb.DuckDBPyConnection) -> None:
    """Customers, their orders, and what came back."""
    chance = np.random.default_rng(1709)
    people = 20_000
    rows = np.minimum(chance.zipf(2.0, people), 1000)
    extra = int(rows.sum()) * 100 // 98 - int(rows.sum())
    customer = np.repeat(np.arange(people + 1), [*rows, extra])
    chance.shuffle(customer)
    orders, nobody = len(customer), customer == people
    category = chance.choice(5, orders, p=(0.35, 0.25, 0.18, 0.12, 0.10))
    amount = np.clip(np.round(chance.lognormal(3.6, 0.9, orders) * (1 + category / 4), 2), 0.5, 500)
    day = np.datetime64("2025-01-01") + np.minimum(chance.beta(1.3, 1.0, orders) * 365, 364).astype(int)
    city = chance.choice(5, people, p=(0.4, 0.25, 0.15, 0.12, 0.08))
    spelt = chance.random(people)
    cities = np.array(CITIES, dtype=object)[city]
    cities[spelt < 0.04] = None
    odd = (spelt >= 0.04) & (spelt < 0.08)
    cities[odd] = [each.upper() + " " for each in cities[odd]]
    load(
        connection,
        "customers",
        customer_id=np.arange(people),
        birth_year=chance.integers(1930, 2008, people),
        newsletter=chance.random(people) < 0.3,
        city=cities,
    )
    returned = chance.random(orders) < 0.06 + 0.02 * category
    load(
        connection,
        "orders",
        order_id=np.arange(orders),
        customer_id=np.where(nobody, -1, customer),
        ordered=day.astype("datetime64[s]"),
        category=np.array(CATEGORIES)[category],
        amount=amount,
        returned=returned,
    )
    connection.execute("UPDATE orders SET customer_id = NULL WHERE customer_id = -1")
    connection.execute("ALTER TABLE orders ALTER amount TYPE DECIMAL(8, 2)")
    connection.execute("ALTER TABLE orders ALTER ordered TYPE TIMESTAMP")
    back = np.flatnonzero(returned)
    reason = np.array(REASONS)[chance.choice(4, len(back), p=(0.4, 0.3, 0.2, 0.1))]
    load(connection, "returns", order_id=back, reason=reason)


SHOP = Skewed(
    "shop",
    make_shop,
    """[tables.customers]
unit = "customer_id"
rows_per_person = 1
[tables.customers.columns]
customer_id = { type = "integer" }
birth_year = { type = "integer", low = 1920, high = 2015 }
newsletter = { type = "boolean" }
city = { type = "text", keys = ["Aachen", "Bremen", "Celle", "Dresden", "Essen"] }
[tables.orders]
unit = "customer_id"
rows_per_person = {cap}
[tables.orders.columns]
order_id = { type = "integer" }
customer_id = { type = "integer" }
ordered = { type = "timestamp", low = 2025-01-01, high = 2025-12-31 }
category = { type = "text", keys = ["books", "games", "garden", "music", "toys"] }
amount = { type = "number", low = 0, high = 500 }
returned = { type = "boolean" }
[tables.returns]
unit = "order_id -> orders.order_id"
rows_per_person = {cap}
[tables.returns.columns]
order_id = { type = "integer" }
reason = { type = "text", keys = ["broken", "late", "too large", "too small"] }
""",
    (
        SkewedQuestion(
            "orders by month",
            "total",
            "SELECT EXTRACT(month FROM ordered) AS k, COUNT(*) AS v FROM orders GROUP BY k",
        ),
        SkewedQuestion(
            "revenue by category", "total", "SELECT category AS k, SUM(amount) AS v FROM orders GROUP BY k"
        ),
        SkewedQuestion(
            "average by category", "ratio", "SELECT category AS k, AVG(amount) AS v FROM orders GROUP BY k"
        ),
        SkewedQuestion(
            "customers by city", "people", "SELECT city AS k, COUNT(*) AS v FROM customers GROUP BY k"
        ),
        SkewedQuestion(
            "orders a customer",
            "total",
            "SELECT AVG(n) AS v FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY 1) AS t",
        ),
        SkewedQuestion(
            "more than five orders",
            "people",
            "SELECT COUNT(*) AS v FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY 1) AS t "
            "WHERE n > 5",
        ),
        SkewedQuestion(
            "median by category", "ratio", "SELECT category AS k, MEDIAN(amount) AS v FROM orders GROUP BY k"
        ),
        SkewedQuestion(
            "share returned",
            "ratio",
            "SELECT category AS k, COUNT(*) FILTER (WHERE returned) / COUNT(*) AS v FROM orders GROUP BY k",
        ),
        SkewedQuestion(
            "returns by reason", "total", "SELECT reason AS k, COUNT(*) AS v FROM returns GROUP BY k"
        ),
        SkewedQuestion(
            "revenue by city",
            "total",
            "SELECT city AS k, SUM(amount) AS v FROM orders JOIN customers USING (customer_id) GROUP BY k",
        ),
        SkewedQuestion(
            "average birth year",
            "people",
            "SELECT newsletter AS k, AVG(birth_year) AS v FROM customers GROUP BY k",
        ),
        SkewedQuestion(
            "buyers by month",
            "people",
            "SELECT EXTRACT(month FROM ordered) AS k, COUNT(DISTINCT customer_id) AS v FROM orders "
            "GROUP BY k",
        ),
    ),
)


def make_taxi(connection: duckdb.DuckDBPyConnection) -> None:
    """Trips of riders."""
    chance = np.random.default_rng(2815)
    people, zones = 20_000, 30
    rows = np.maximum(np.round(chance.lognormal(np.log(4), 1.2, people)), 1).astype(int)
    rider = np.repeat(np.arange(people), rows)
    trips = len(rider)
    weight = 1 / np.arange(1, zones + 1)
    zone = chance.choice(zones, trips, p=weight / weight.sum())
    load(
        connection,
        "trips",
        rider=rider,
        zone=np.array([f"z{n + 1}" for n in range(zones)])[zone],
        payment=np.array(PAYMENTS)[chance.choice(3, trips, p=(0.6, 0.3, 0.1))],
        fare=np.minimum(np.round(chance.lognormal(np.log(12), 0.74, trips), 2), 100),
    )


TAXI = Skewed(
    "taxi",
    make_taxi,
    """[tables.trips]
unit = "rider"
rows_per_person = {cap}
[tables.trips.columns]
rider = { type = "integer" }
zone = { type = "text", keys = ["""
    + ", ".join(f'"z{n + 1}"' for n in range(30))
    + """] }
payment = { type = "text", keys = ["card", "cash", "other"] }
fare = { type = "number", low = 0, high = 100 }
""",
    (
        SkewedQuestion("trips", "total", "SELECT COUNT(*) AS v FROM trips"),
        SkewedQuestion("trips by zone", "total", "SELECT zone AS k, COUNT(*) AS v FROM trips GROUP BY k"),
        SkewedQuestion("average fare", "ratio", "SELECT AVG(fare) AS v FROM trips"),
        SkewedQuestion(
            "fares by payment", "total", "SELECT payment AS k, SUM(fare) AS v FROM trips GROUP BY k"
        ),
        SkewedQuestion(
            "dear trips of a zone", "total", "SELECT COUNT(*) AS v FROM trips WHERE fare > 50 AND zone = 'z2'"
        ),
        SkewedQuestion("riders", "people", "SELECT COUNT(DISTINCT rider) AS v FROM trips"),
        SkewedQuestion(
            "share in cash",
            "ratio",
            "SELECT zone AS k, COUNT(*) FILTER (WHERE payment = 'cash') / COUNT(*) AS v FROM trips "
            "GROUP BY k",
        ),
    ),
)


def make_adult(connection: duckdb.DuckDBPyConnection) -> None:
    """The census, one row a person."""
    connection.execute(
        f"CREATE TABLE adult AS SELECT row_number() OVER () AS id, * FROM read_csv('{ADULT}', header = true)"
    )
    texts = ("workclass", "education", "sex", "salary-class")
    trimmed = ", ".join(f'"{each}" = TRIM("{each}")' for each in texts)
    connection.execute(f"UPDATE adult SET {trimmed}")


ADULT_CENSUS = Skewed(
    "adult",
    make_adult,
    """[tables.adult]
unit = "id"
rows_per_person = 1
[tables.adult.columns]
id = { type = "integer" }
age = { type = "integer", low = 0, high = 120 }
sex = { type = "text", keys = ["Female", "Male"] }
salary-class = { type = "text", keys = ["<=50K", ">50K"] }
hours-per-week = { type = "integer", low = 0, high = 100 }
capital-gain = { type = "integer", low = 0, high = 100000 }
""",
    (
        SkewedQuestion("count by sex", "people", "SELECT sex AS k, COUNT(*) AS v FROM adult GROUP BY k"),
        SkewedQuestion("age by sex", "people", "SELECT sex AS k, AVG(age) AS v FROM adult GROUP BY k"),
        SkewedQuestion(
            "hours by class",
            "people",
            'SELECT "salary-class" AS k, AVG("hours-per-week") AS v FROM adult GROUP BY k',
        ),
        SkewedQuestion(
            "gain by sex", "people", 'SELECT sex AS k, SUM("capital-gain") AS v FROM adult GROUP BY k'
        ),
        SkewedQuestion(
            "share above 50K",
            "people",
            "SELECT sex AS k, COUNT(*) FILTER (WHERE \"salary-class\" = '>50K') / COUNT(*) AS v FROM adult "
            "GROUP BY k",
        ),
        SkewedQuestion("deviation of hours", "people", 'SELECT STDDEV("hours-per-week") AS v FROM adult'),
    ),
)
