"""Made-up travel of riders: taxi trips between public zones, shared bikes, and flight tickets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: so many taxi trips, and a tenth as many riders."""
    people = max(rows // 10, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];

    CREATE TABLE zones AS SELECT
        i::INTEGER + 1 AS zone_id,
        ['Manhattan', 'Brooklyn', 'Queens', 'Bronx', 'Airport'][1 + i % 5] AS borough,
        'zone ' || i AS zone_name
    FROM range(40) AS t(i);

    CREATE TABLE riders AS SELECT
        i AS rider_id, pick(i, 1, ['casual', 'casual', 'monthly', 'annual']) AS plan,
        1940 + roll(i, 2, 66) AS birth_year, DATE '2021-01-01' + roll(i, 3, 1080) AS signed_up
    FROM range({people}) AS t(i);

    CREATE TABLE trips AS SELECT
        i AS trip_id, least(roll(i, 11, {people}), roll(i, 12, {people}))::BIGINT AS rider_id,
        TIMESTAMP '2024-01-01' + to_seconds(roll(i, 13, 181 * 86400)) AS pickup_at,
        pickup_at + to_seconds(120 + roll(i, 14, 60) * roll(i, 15, 60)) AS dropoff_at,
        1 + least(roll(i, 16, 40), roll(i, 17, 40)) AS pickup_zone, 1 + roll(i, 18, 40) AS dropoff_zone,
        1 + least(roll(i, 19, 6), roll(i, 20, 6)) AS passengers,
        (5 + roll(i, 21, 30) * roll(i, 22, 80) / 10) / 10 AS miles,
        (3 + 2.5 * miles + roll(i, 23, 500) / 100)::DECIMAL(8, 2) AS fare,
        pick(i, 24, ['card', 'card', 'card', 'cash', 'cash', 'dispute']) AS payment,
        CASE payment WHEN 'card' THEN fare::DOUBLE * roll(i, 25, 30) / 100 ELSE 0 END AS tip,
        CASE WHEN roll(i, 26, 8) = 0 THEN 6.55 ELSE 0 END::DOUBLE AS tolls
    FROM range({rows}) AS t(i);

    CREATE TABLE rides AS SELECT
        'R' || lpad(i::VARCHAR, 9, '0') AS ride_id, roll(i, 31, {people})::BIGINT AS rider_id,
        TIMESTAMP '2024-01-01' + to_seconds(roll(i, 32, 181 * 86400)) AS started_at,
        started_at + to_seconds(60 + roll(i, 33, 80) * roll(i, 34, 80)) AS ended_at,
        'Station ' || lpad(least(roll(i, 35, 35), roll(i, 36, 35))::VARCHAR, 2, '0') AS start_station,
        'Station ' || lpad(roll(i, 37, 35)::VARCHAR, 2, '0') AS end_station,
        pick(i, 38, ['classic', 'classic', 'electric']) AS bike
    FROM range({rows} // 2) AS t(i);

    CREATE TABLE tickets AS SELECT
        roll(i, 41, {people})::BIGINT AS rider_id, DATE '2024-01-01' + roll(i, 42, 182) AS flown,
        pick(i, 43, ['AA', 'DL', 'DL', 'UA', 'WN', 'B6']) AS carrier,
        pick(i, 44, ['JFK', 'LGA', 'EWR']) AS origin,
        pick(i, 45, ['LAX', 'SFO', 'ORD', 'MIA', 'ATL', 'BOS', 'DEN', 'SEA', 'AUS', 'PHX']) AS dest,
        roll(i, 46, 40) = 0 AS is_cancelled,
        CASE WHEN NOT is_cancelled THEN roll(i, 47, 40) * roll(i, 48, 12) - 20 END AS dep_delay,
        dep_delay + roll(i, 49, 40) - 22 AS arr_delay
    FROM range({rows} // 4) AS t(i);

    CREATE TABLE ride_notes AS SELECT
        ride_id, 1 + greatest(roll(ride_id, 51, 5), roll(ride_id, 52, 5)) AS stars,
        pick(ride_id, 53, ['good bike', 'flat tyre', 'dock was full', 'brakes squeak #7']) AS remark
    FROM rides WHERE roll(ride_id, 54, 3) = 0;
    """)
