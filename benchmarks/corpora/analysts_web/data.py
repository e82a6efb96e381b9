"""A made-up product on the web: users, their sessions with events, their subscriptions with invoices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: so many events, and a tenth as many users."""
    people, sessions = max(rows // 10, 1), max(rows * 2 // 5, 1)
    subscriptions = max(people * 4 // 5, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];
    CREATE OR REPLACE TEMP MACRO login(session) AS
        TIMESTAMP '2023-01-01' + to_seconds(roll(session, 23, 731 * 86400 - 7200));
    CREATE OR REPLACE TEMP MACRO bought(subscription) AS
        pick(subscription, 42, ['free', 'free', 'solo', 'solo', 'team', 'business']);
    CREATE OR REPLACE TEMP MACRO since(subscription) AS roll(subscription, 43, 700);

    CREATE TABLE pages AS SELECT
        i::INTEGER AS page_id, ['docs', 'blog', 'shop', 'help', 'account'][1 + i % 5] AS section,
        '/' || section || '/' || pick(i, 1, ['start', 'news', 'list', 'item', 'faq']) || '-' || i AS path,
        100 + roll(i, 2, 2000) AS words
    FROM range(1, 31) AS t(i);

    CREATE TABLE plans AS SELECT
        ['free', 'solo', 'team', 'business'][i] AS plan, [0, 9, 29, 99][i]::DECIMAL(8, 2) AS price,
        [1, 1, 10, 50][i] AS most_seats
    FROM range(1, 5) AS t(i);

    CREATE TABLE users AS SELECT
        'u' || lpad(i::VARCHAR, 7, '0') AS user_id,
        DATE '2023-01-01' + least(roll(i, 11, 700), roll(i, 12, 1400)) AS signed_up,
        pick(i, 13, ['DE', 'DE', 'DE', 'FR', 'FR', 'PL', 'PL', 'ES', 'IT', 'NL', 'AT', 'CZ']) AS country,
        pick(i, 14, ['search', 'search', 'ads', 'referral', 'social']) AS source,
        pick(i, 15, ['control', 'trial']) AS variant,
        'user.' || i || '@'
            || pick(i, 16, ['mail.example', 'mail.example', 'post.example', 'firm.example', 'qa.test'])
            AS email
    FROM range({people}) AS t(i);

    CREATE TABLE sessions AS SELECT
        i AS session_id,
        'u' || lpad(least(roll(i, 21, {people}), roll(i, 22, {people}))::VARCHAR, 7, '0') AS user_id,
        login(i) AS started, started + to_seconds(5 + roll(i, 24, 60) * roll(i, 25, 60)) AS ended,
        pick(i, 26, ['desktop', 'desktop', 'mobile', 'mobile', 'tablet']) AS device,
        pick(i, 27, ['Chrome', 'Chrome', 'Safari', 'Firefox', 'Edge']) || ' ' || (110 + roll(i, 28, 20))
            AS browser,
        CASE WHEN roll(i, 29, 3) = 0 THEN
            pick(i, 30, ['spring/mail', 'spring/video', 'autumn/mail', 'launch/banner'])
        END AS campaign
    FROM range(1, {sessions} + 1) AS t(i);

    CREATE TABLE events AS SELECT
        i AS event_id, 1 + roll(i, 31, {sessions})::BIGINT AS session_id,
        login(session_id) + to_seconds(roll(i, 32, 60) * roll(i, 33, 60)) AS occurred,
        1 + least(roll(i, 34, 30), roll(i, 35, 30)) AS page_id,
        pick(i, 36, ['view', 'view', 'view', 'view', 'click', 'click', 'search', 'add', 'buy', 'error'])
            AS event,
        20 + roll(i, 37, 90) * roll(i, 38, 90) AS ms
    FROM range({rows}) AS t(i);

    CREATE TABLE subscriptions AS SELECT
        i AS subscription_id, 'u' || lpad(roll(i, 41, {people})::VARCHAR, 7, '0') AS user_id,
        bought(i) AS plan, DATE '2023-01-01' + since(i) AS started,
        CASE WHEN roll(i, 44, 5) < 2 THEN least(started + 15 + roll(i, 45, 400), DATE '2024-12-31') END
            AS cancelled,
        CASE WHEN plan IN ('team', 'business') THEN 2 + roll(i, 46, 8) ELSE 1 END AS seats
    FROM range(1, {subscriptions} + 1) AS t(i);

    CREATE TABLE invoices AS SELECT
        i AS invoice_id, 1 + roll(i, 51, {subscriptions})::BIGINT AS subscription_id,
        DATE '2023-01-01' + since(subscription_id) + roll(i, 52, 731 - since(subscription_id)) AS issued,
        CASE bought(subscription_id) WHEN 'free' THEN 0 ELSE 9 + roll(i, 53, 30) * roll(i, 54, 30)
        END::DECIMAL(10, 2) AS amount,
        pick(i, 55, ['paid', 'paid', 'paid', 'paid', 'open', 'void']) AS status
    FROM range(5 * {subscriptions}) AS t(i);
    """)
