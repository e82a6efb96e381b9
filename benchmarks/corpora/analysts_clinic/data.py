"""A made-up hospital: patients, their visits with diagnoses and tests, and what they are prescribed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def make(con: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    """Fill the database: so many laboratory values, and a tenth as many patients."""
    people, visits = max(rows // 10, 1), max(rows * 2 // 5, 1)
    con.execute(f"""
    CREATE OR REPLACE TEMP MACRO roll(i, n, k) AS (hash(hash(i, n, {seed})) % k)::INTEGER;
    CREATE OR REPLACE TEMP MACRO pick(i, n, words) AS words[1 + roll(i, n, len(words))];
    CREATE OR REPLACE TEMP MACRO arrival(visit) AS
        TIMESTAMP '2022-01-01' + to_minutes(roll(visit, 23, 1096 * 1440));

    CREATE TABLE districts AS SELECT
        ['Harbour', 'Hill', 'Mill', 'North', 'Old Town', 'Park', 'River', 'Station'][i] AS district,
        (20000 + 1000 * roll(i, 1, 90))::INTEGER AS population
    FROM range(1, 9) AS t(i);

    CREATE TABLE wards AS SELECT
        'W' || lpad(i::VARCHAR, 2, '0') AS ward,
        ['cardiology', 'internal', 'surgery', 'neurology', 'paediatrics', 'emergency'][1 + i % 6]
            AS specialty,
        8 + roll(i, 6, 30) AS beds, 1 + roll(i, 7, 5) AS storey
    FROM range(1, 13) AS t(i);

    CREATE TABLE drugs AS SELECT
        i::INTEGER AS drug_id, 'drug ' || lpad(i::VARCHAR, 2, '0') AS drug_name,
        pick(i, 8, ['antibiotic', 'statin', 'opioid', 'antidiabetic', 'antihypertensive']) AS drug_class,
        ((20 + roll(i, 9, 900)) / 100)::DECIMAL(6, 2) AS unit_price
    FROM range(1, 41) AS t(i);

    CREATE TABLE patients AS SELECT
        i AS patient_id, pick(i, 11, ['F', 'F', 'F', 'F', 'M', 'M', 'M', 'M', 'X']) AS sex,
        DATE '1930-01-01' + roll(i, 12, 33000) AS born,
        pick(i, 13, ['Harbour', 'Harbour', 'Hill', 'Mill', 'North', 'Old Town', 'Park', 'River', 'Station'])
            AS district,
        pick(i, 14, ['A', 'A', 'A', 'O', 'O', 'O', 'B', 'AB']) AS blood,
        (10000 + least(roll(i, 15, 40), roll(i, 16, 40)) * 7)::VARCHAR AS postcode,
        roll(i, 17, 5) = 0 AS is_smoker,
        CASE WHEN roll(i, 18, 8) = 0 THEN DATE '2023-01-01' + roll(i, 19, 700) END AS died
    FROM range({people}) AS t(i);

    CREATE TABLE visits AS SELECT
        i AS visit_id, least(roll(i, 21, {people}), roll(i, 22, {people}))::BIGINT AS patient_id,
        'W' || lpad((1 + least(roll(i, 24, 12), roll(i, 25, 12)))::VARCHAR, 2, '0') AS ward,
        pick(i, 26, ['emergency', 'emergency', 'planned', 'day']) AS kind,
        'Dr ' || lpad(least(roll(i, 27, 30), roll(i, 28, 30))::VARCHAR, 2, '0') AS doctor,
        arrival(i) AS admitted,
        CASE WHEN roll(i, 29, 40) > 0 THEN
            admitted + to_hours(CASE kind WHEN 'day' THEN 8 ELSE 10 + roll(i, 30, 24) * roll(i, 31, 26) END)
        END AS discharged,
        (150 + 20 * coalesce(date_diff('hour', admitted, discharged), 0) + roll(i, 32, 4000))::DECIMAL(10, 2)
            AS cost
    FROM range(1, {visits} + 1) AS t(i);

    CREATE TABLE diagnoses AS SELECT
        1 + roll(i, 41, {visits})::BIGINT AS visit_id,
        (row_number() OVER (PARTITION BY visit_id ORDER BY i))::INTEGER AS seq,
        pick(i, 42, [
            'I10', 'I10', 'I10', 'E11.9', 'E11.9', 'E11.6', 'J18.9', 'J45.9', 'U07.1', 'M54.5', 'N18.3',
            'F32.1', 'K21.0', 'E78.5', 'I25.1', 'S72.0', 'C50.9', 'Z00.0', 'Z00.0'
        ]) AS code
    FROM range({rows} * 3 // 5) AS t(i);

    CREATE TABLE labs AS SELECT
        i AS lab_id, 1 + roll(i, 51, {visits})::BIGINT AS visit_id,
        arrival(visit_id) + to_minutes(20 + roll(i, 52, 4000)) AS taken,
        pick(i, 53, ['glucose', 'glucose', 'hba1c', 'creatinine', 'sodium']) AS test,
        CASE test
            WHEN 'glucose' THEN 60 + roll(i, 54, 90) + roll(i, 55, 120)
            WHEN 'hba1c' THEN 4 + (roll(i, 54, 40) + roll(i, 55, 50)) / 10
            WHEN 'creatinine' THEN 0.4 + roll(i, 54, 12) * roll(i, 55, 30) / 100
            ELSE 125 + roll(i, 54, 10) + roll(i, 55, 18)
        END::DOUBLE AS value
    FROM range({rows}) AS t(i);

    CREATE TABLE prescriptions AS SELECT
        i AS prescription_id, least(roll(i, 61, {people}), roll(i, 62, {people}))::BIGINT AS patient_id,
        1 + least(roll(i, 63, 40), roll(i, 64, 40)) AS drug_id,
        DATE '2022-01-01' + roll(i, 65, 1096) AS started,
        3 + roll(i, 66, 10) * roll(i, 67, 10) AS days, ((1 + roll(i, 68, 8)) / 2)::DOUBLE AS daily_units
    FROM range({rows} * 2 // 5) AS t(i);
    """)
