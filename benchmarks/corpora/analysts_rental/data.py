"""A made-up shop that rents films: its customers, what they borrow and pay, and a public stock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: so many rentals, and a tenth as many customers."""
    people = max(rows // 10, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];

    CREATE TABLE film AS SELECT
        i::INTEGER AS film_id,
        pick(i, 1, ['Blue', 'Lost', 'Golden', 'Silent', 'Last']) || ' '
            || pick(i, 2, ['River', 'Empire', 'Garden', 'Mirror']) || ' ' || i AS title,
        pick(i, 3, ['Action', 'Comedy', 'Drama', 'Family', 'Horror']) AS category,
        pick(i, 4, ['G', 'PG', 'PG-13', 'R', 'NC-17']) AS rating, 45 + roll(i, 5, 140) AS length,
        3 + roll(i, 6, 5) AS rental_duration, (0.99 + roll(i, 7, 5))::DECIMAL(4, 2) AS rental_rate
    FROM range(1, 101) AS t(i);

    CREATE TABLE inventory AS SELECT
        i::INTEGER AS inventory_id, 1 + least(roll(i, 11, 100), roll(i, 12, 100)) AS film_id,
        1 + roll(i, 13, 3) AS store_id
    FROM range(1, 301) AS t(i);

    CREATE TABLE customer AS SELECT
        i::INTEGER AS customer_id, 1 + roll(i, 21, 3) AS store_id,
        pick(i, 22, ['Mary', 'John', 'Ana', 'Wei', 'Omar', 'Lena', 'Ivan', 'Rosa']) AS first_name,
        'Name' || i AS last_name,
        lower(first_name) || '.' || i
            || pick(i, 23, ['@mail.example', '@post.example', '@web.example']) AS email,
        'district ' || least(roll(i, 24, 20), roll(i, 25, 20)) AS district,
        roll(i, 26, 10) > 0 AS active, DATE '2020-01-01' + roll(i, 27, 1000) AS create_date
    FROM range(1, {people} + 1) AS t(i);

    CREATE TABLE rental AS SELECT
        i::INTEGER AS rental_id, TIMESTAMP '2023-01-01' + to_minutes(roll(i, 31, 365 * 1440)) AS rental_date,
        1 + roll(i, 32, 300) AS inventory_id,
        1 + least(roll(i, 33, {people}), roll(i, 34, {people})) AS customer_id,
        CASE WHEN roll(i, 35, 50) > 0 THEN rental_date + to_hours(12 + roll(i, 36, 220)) END AS return_date,
        1 + roll(i, 37, 6) AS staff_id
    FROM range(1, {rows} + 1) AS t(i);

    CREATE TABLE payment AS SELECT
        100000 + rental_id AS payment_id, rental_id,
        (0.99 + roll(rental_id, 41, 5) + least(roll(rental_id, 42, 9), 4))::DECIMAL(5, 2) AS amount,
        rental_date::DATE + roll(rental_id, 43, 3) AS payment_date
    FROM rental WHERE roll(rental_id, 44, 20) > 0;
    """)
