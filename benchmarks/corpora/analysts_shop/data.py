"""A made-up shop: customers, their orders with items, payments and reviews, and a public catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: about so many order items, and a tenth as many customers."""
    people, orders = max(rows // 10, 1), max(rows * 2 // 5, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];

    CREATE TABLE products AS SELECT
        i::INTEGER + 1 AS product_id, 'product ' || i AS product_name,
        pick(i, 1, ['books', 'toys', 'garden', 'kitchen', 'sports', 'beauty']) AS category,
        (1 + roll(i, 2, 200)) / 10 AS weight, (5 + roll(i, 3, 200))::DECIMAL(10, 2) AS list_price
    FROM range(60) AS t(i);

    CREATE TABLE customers AS SELECT
        'c' || lpad(i::VARCHAR, 7, '0') AS customer_id,
        'city ' || lpad(least(roll(i, 1, 30), roll(i, 2, 30))::VARCHAR, 2, '0') AS city,
        pick(i, 3, ['SP', 'SP', 'SP', 'RJ', 'RJ', 'MG', 'RS', 'PR', 'BA']) AS state,
        DATE '1945-01-01' + roll(i, 4, 22000) AS birth,
        DATE '2022-01-01' + roll(i, 5, 1000) AS joined, roll(i, 6, 3) = 0 AS is_member
    FROM range({people}) AS t(i);

    CREATE TABLE orders AS SELECT
        i + 1 AS order_id,
        'c' || lpad(least(roll(i, 11, {people}), roll(i, 12, {people}))::VARCHAR, 7, '0') AS customer_id,
        pick(i, 13, ['delivered', 'delivered', 'delivered', 'shipped', 'processing', 'canceled']) AS status,
        pick(i, 14, ['web', 'web', 'app', 'store']) AS channel,
        TIMESTAMP '2023-01-01' + to_minutes(roll(i, 15, 730 * 1440)) AS ordered_at,
        CASE status WHEN 'delivered' THEN ordered_at + to_hours(24 + roll(i, 16, 480)) END AS delivered_at,
        ordered_at::DATE + 7 + roll(i, 17, 14) AS promised,
        (roll(i, 18, 6000) / 100)::DECIMAL(10, 2) AS freight
    FROM range({orders}) AS t(i);

    CREATE TABLE order_items AS SELECT
        1 + roll(i, 21, {orders})::BIGINT AS order_id,
        (row_number() OVER (PARTITION BY order_id ORDER BY i))::INTEGER AS line,
        1 + least(roll(i, 22, 60), roll(i, 23, 60)) AS product_id, 1 + roll(i, 24, 5) AS quantity,
        (1 + roll(i, 25, 300) * roll(i, 26, 100) / 100)::DECIMAL(10, 2) AS price,
        CASE WHEN roll(i, 27, 4) = 0 THEN roll(i, 28, 40) / 100 ELSE 0 END AS discount
    FROM range({rows}) AS t(i);

    CREATE TABLE payments AS SELECT
        order_id,
        pick(order_id, 31, ['credit_card', 'credit_card', 'boleto', 'voucher', 'debit_card']) AS method,
        CASE method WHEN 'credit_card' THEN 1 + roll(order_id, 32, 12) ELSE 1 END AS instalments,
        least(freight + coalesce(spent, 0), 2000)::DECIMAL(10, 2) AS amount
    FROM orders LEFT JOIN (
        SELECT order_id, sum(quantity * price) AS spent FROM order_items GROUP BY order_id
    ) USING (order_id);

    CREATE TABLE reviews AS SELECT
        order_id, greatest(roll(order_id, 41, 5), roll(order_id, 42, 5)) + 1 AS score,
        CASE WHEN score < 3 THEN 'came late, ' || channel WHEN score = 5 THEN 'very good' END AS comment,
        promised + roll(order_id, 43, 10) AS created
    FROM orders WHERE roll(order_id, 44, 4) > 0;
    """)
