CREATE TABLE wards AS SELECT * FROM (VALUES ('A', 'north', 3), ('B', 'south', 5), ('C', 'north', NULL)) AS t(ward, region, floors);
CREATE TABLE patients AS SELECT
  CAST(i AS BIGINT) AS pid, DATE '1930-01-01' + CAST(hash(i, 1) % 30000 AS INTEGER) AS born,
  CAST(40 + hash(i, 2) % 320 / 4 AS DOUBLE) AS weight, ['f', 'm'][CAST(1 + hash(i, 3) % 2 AS BIGINT)] AS sex,
  ['Bonn', 'Ulm', 'Trier', 'Kiel'][CAST(1 + hash(i, 4) % 4 AS BIGINT)] AS city
FROM range(600) AS t(i);
CREATE TABLE visits AS SELECT
  CAST(i % 600 AS BIGINT) AS patient, CAST(i AS BIGINT) AS visit_id, CAST(hash(i % 600, 5) % 100 AS INTEGER) AS age,
  CAST(hash(i, 6) % 4000 AS DOUBLE) / 4 AS cost, CAST(hash(i, 7) % 900 AS BIGINT) - 5 AS debt,
  ['A', 'B', 'C'][CAST(1 + hash(i, 8) % 3 AS BIGINT)] AS ward, CAST(1 + hash(i, 9) % 3 AS INTEGER) AS level,
  [DATE '2024-01-01', DATE '2024-06-15'][CAST(1 + hash(i, 10) % 2 AS BIGINT)] AS day,
  TIMESTAMP '2024-01-01 08:00:00' + INTERVAL (hash(i, 11) % 300) DAY AS seen,
  CASE WHEN hash(i, 12) % 7 = 0 THEN NULL ELSE hash(i, 12) % 2 = 0 END AS urgent,
  ['calm', 'pain', 'fall', NULL][CAST(1 + hash(i, 13) % 4 AS BIGINT)] AS note,
  CAST(CAST(hash(i, 14) % 10000 AS BIGINT) / 100.0 AS DECIMAL(8, 2)) AS fee
FROM range(1800) AS t(i);
CREATE TABLE labs AS SELECT
  CAST(i % 1800 AS BIGINT) AS visit_id, ['blood', 'urine'][CAST(1 + hash(i, 15) % 2 AS BIGINT)] AS test,
  CAST(hash(i, 16) % 1300 AS DOUBLE) / 100 - 5 AS result, TIMESTAMP '2024-03-01 12:00:00' AS taken
FROM range(2400) AS t(i);
CREATE TABLE beds AS SELECT
  ['A', 'B', 'C'][CAST(1 + hash(i, 17) % 3 AS BIGINT)] AS ward, 2 + CAST(hash(i, 18) % 100 AS DOUBLE) / 128 AS width,
  DATE '2010-01-01' + CAST(hash(i, 19) % 3000 AS INTEGER) AS bought
FROM range(300) AS t(i);
CREATE TABLE orders AS SELECT
  CAST(p AS BIGINT) AS pid, CAST(hash(p, k) % 6400 AS DOUBLE) / 64 AS amount, CAST(hash(p, k, 2) % 50 AS INTEGER) AS pieces
FROM range(600) AS t(p), range(40) AS u(k) WHERE k < 1 + hash(p, 20) % (CASE WHEN p % 50 = 0 THEN 40 ELSE 5 END);
CREATE TABLE sales AS SELECT i % 500 AS person, ['A', 'B'][1 + i % 2] AS ward, (i * 7919 % 100)::INTEGER AS age,
    (i * 104729 % 100000 / 1000.0)::DECIMAL(8, 3) AS price FROM range(1500) AS t(i);
