"""A made-up bank: customers in regions, nodes that hold their money, transactions, cards and loans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: so many transactions, and a tenth as many customers."""
    people = max(rows // 10, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];

    CREATE TABLE regions AS SELECT
        i AS region_id, ['Africa', 'America', 'Asia', 'Europe', 'Oceania'][i] AS region_name
    FROM range(1, 6) AS t(i);

    CREATE TABLE customers AS SELECT
        i AS customer_id, 1 + greatest(roll(i, 1, 5), roll(i, 2, 5)) AS region_id,
        pick(i, 3, ['mass', 'mass', 'affluent', 'student']) AS segment,
        'trade ' || least(roll(i, 4, 25), roll(i, 5, 25)) AS occupation,
        1935 + roll(i, 6, 70) AS birth_year,
        (8000 + roll(i, 7, 300) * roll(i, 8, 600))::DECIMAL(12, 2) AS income,
        DATE '2019-01-01' + roll(i, 9, 1800) AS opened
    FROM range({people}) AS t(i);

    CREATE TABLE nodes AS SELECT
        i % {people} AS customer_id, 1 + roll(i, 11, 5) AS node_id,
        DATE '2023-01-01' + ((i // {people}) * 80 + roll(i, 12, 40))::INTEGER AS start_date,
        start_date + 2 + roll(i, 13, 30) AS end_date
    FROM range(4 * {people}) AS t(i);

    CREATE TABLE transactions AS SELECT
        i AS transaction_id, least(roll(i, 21, {people}), roll(i, 22, {people}))::BIGINT AS customer_id,
        DATE '2023-01-01' + roll(i, 23, 365) AS tx_date,
        pick(i, 24, ['deposit', 'deposit', 'withdrawal', 'purchase']) AS tx_type,
        (1 + roll(i, 25, 70) * roll(i, 26, 70))::DECIMAL(10, 2) AS amount
    FROM range({rows}) AS t(i);

    CREATE TABLE cards AS SELECT
        'K-' || lpad(i::VARCHAR, 8, '0') AS card_id,
        (i % {people} - i // {people} * roll(i, 31, 2) + {people}) % {people} AS customer_id,
        pick(i, 32, ['debit', 'debit', 'credit']) AS kind,
        DATE '2019-01-01' + roll(i, 33, 1800) AS issued,
        CASE kind WHEN 'credit' THEN 500.0 * (1 + roll(i, 34, 30)) END::DECIMAL(10, 2) AS credit_limit
    FROM range({people} * 3 // 2) AS t(i);

    CREATE TABLE card_payments AS SELECT
        'K-' || lpad(roll(i, 41, {people} * 3 // 2)::VARCHAR, 8, '0') AS card_id,
        TIMESTAMP '2023-01-01' + to_seconds(roll(i, 42, 365 * 86400)) AS paid_at,
        'shop-' || pick(i, 43, ['food', 'fuel', 'rent', 'travel', 'games'])
            || '-' || least(roll(i, 44, 8), roll(i, 45, 8)) AS merchant,
        roll(i, 46, 50) * roll(i, 47, 5000) / 100 AS amount,
        roll(i, 48, 3) = 0 AS is_online, roll(i, 49, 80) = 0 AS is_fraud
    FROM range({rows} * 4 // 5) AS t(i);

    CREATE TABLE loans AS SELECT
        i + 1 AS loan_id, roll(i, 51, {people})::BIGINT AS customer_id,
        DATE '2020-01-01' + roll(i, 52, 1400) AS granted,
        500.0 * (2 + roll(i, 53, 90))::DECIMAL(12, 2) AS principal,
        12 * (1 + roll(i, 54, 5)) AS months, (20 + roll(i, 55, 160)) / 1000 AS rate,
        roll(i, 56, 15) = 0 AS is_default
    FROM range({people} // 2) AS t(i);
    """)
