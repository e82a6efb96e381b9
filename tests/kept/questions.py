"""What is asked of every kept version: single questions, batches, open receipts, keys of retries.

`wrong` names a reading that was repaired later: such a release stays in the history, and never answers again.
"""

from __future__ import annotations

from typing import Any


def _each(price: dict[str, str], *texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"ask": {"sql": sql, **price}, **more} for sql in texts]


MANY = (
    "SELECT COUNT(*) FROM visits",
    "SELECT ward, COUNT(*) AS n, AVG(cost) FROM visits GROUP BY ward",
    "SELECT AVG(age), SUM(age), COUNT(age) FROM visits",
    "SELECT SUM(debt) FROM visits WHERE level = 2 AND urgent",
    "SELECT level, urgent, COUNT(DISTINCT patient) FROM visits GROUP BY level, urgent",
    "SELECT VARIANCE(weight), STDDEV_POP(weight) FROM patients",
    "SELECT CORR(cost, age), COVAR_POP(cost, age) FROM visits",
    "SELECT MEDIAN(weight), QUANTILE_CONT(weight, 0.9) FROM patients",
    "SELECT sex, MIN(weight), MAX(weight) FROM patients GROUP BY sex",
    "SELECT MODE(ward) FROM visits",
    "SELECT COUNT(DISTINCT note) FROM visits",
    "SELECT COUNT(*) FILTER (WHERE urgent) AS hurried, SUM(cost) FROM visits WHERE day = DATE '2024-06-15'",
    "SELECT AVG(result) FROM labs JOIN visits ON labs.visit_id = visits.visit_id WHERE ward = 'A'",
    "SELECT region, COUNT(*) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY region",
    "SELECT COUNT(*) FROM patients LEFT JOIN visits ON patients.pid = visits.patient WHERE visits.level = 1",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient AND a.level < b.level",
    "SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)",
    "SELECT COUNT(*) FROM patients WHERE pid IN (SELECT patient FROM visits WHERE urgent)",
    "SELECT COUNT(*) FROM patients WHERE pid NOT IN (SELECT patient FROM visits WHERE note = 'pain')",
    "SELECT SUM(x) FROM (SELECT cost AS x FROM visits UNION ALL SELECT amount AS x FROM orders)",
    "SELECT EXTRACT(month FROM seen) AS m, COUNT(*) FROM visits GROUP BY m ORDER BY m LIMIT 3",
    "SELECT age // 20 * 20 AS decade, COUNT(*) AS n FROM visits GROUP BY decade HAVING COUNT(*) > 10",
    "SELECT ward, level, SUM(cost) FROM visits GROUP BY ROLLUP (ward, level)",
    "SELECT SUM(CASE WHEN note LIKE 'p%' THEN cost ELSE 0 END) FROM visits",
    "SELECT COUNT(*) FROM beds WHERE width > 2.5 AND bought >= DATE '2012-01-01'",
    "SELECT ward, AVG(width) FROM beds GROUP BY ward",
    "WITH heavy AS (SELECT * FROM patients WHERE weight > 80) SELECT sex, COUNT(*) FROM heavy GROUP BY sex",
    "SELECT COUNT(*) FROM (SELECT DISTINCT patient, ward FROM visits)",
)
TUNED = (
    "SELECT COUNT(*) FROM orders",
    "SELECT SUM(amount) FROM orders",
    "SELECT AVG(amount), COUNT(amount) FROM orders",
    "SELECT AVG(pieces), SUM(amount), COUNT(*) FROM orders WHERE pieces > 10",
    "SELECT MEDIAN(amount) FROM orders",
)
PRIVATE = (
    "SELECT city, COUNT(*) FROM patients GROUP BY city",
    "SELECT note, AVG(cost), COUNT(*) FROM visits GROUP BY note",
    "SELECT city, sex, MEDIAN(weight) FROM patients GROUP BY city, sex",
)
WIDE = "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE age > {n})" for n in range(20, 80, 2)) + " FROM visits"
LEFT = (
    "SELECT COUNT(*) FROM patients LEFT JOIN"
    " (SELECT patient, TRUE AS seen FROM visits WHERE level = 1 AND urgent) AS v ON patients.pid = v.patient"
    " WHERE v.seen IS NULL"
)
SUMS = "SELECT COUNT(*) FROM visits WHERE cost BETWEEN 70.06 - 0.01 AND 200.06 + 0.01"
NOBODY = "SELECT COUNT(*) FROM visits WHERE level NOT IN (SELECT floors FROM wards)"
FEES = "SELECT COUNT(*) FROM visits WHERE fee * 100 = 29"

ASKED: dict[str, list[dict[str, Any]]] = {
    "clinic": [
        *_each({"epsilon": "0.123456789012"}, MANY[1], MANY[6], MANY[8], TUNED[2]),
        *_each({"epsilon": "0.2", "delta": "1e-6"}, *PRIVATE, MANY[4], TUNED[3]),
        *_each(
            {"epsilon": "0.5", "delta": "0.0001"}, WIDE, "SELECT ward, SUM(cost) FROM visits GROUP BY ward"
        ),
        *_each(
            {"epsilon": "0.123456789012", "delta": "0.000123456789"},
            WIDE.replace("visits", "visits WHERE urgent"),
        ),
        *_each({"epsilon": "0.5"}, *MANY, *TUNED),
        *_each(
            {"epsilon": "0.3", "delta": "0.00001"},
            "SELECT ward, level, SUM(debt), SUM(cost) FROM visits GROUP BY ward, level",
        ),
        {
            "ask": {
                "sql": "SELECT COUNT(*) FROM visits WHERE level = $1",
                "epsilon": "0.25",
                "parameters": [2],
            }
        },
        {"ask": {"sql": "SELECT SUM(pieces) FROM orders WHERE amount < 50", "epsilon": "0.5", "tune": "0.1"}},
        {"batch": [{"sql": sql, "epsilon": "0.1"} for sql in MANY[:4]]},
        {
            "batch": [{"sql": sql, "epsilon": "0.1"} for sql in (*MANY[1:9], TUNED[2], MANY[0], MANY[0])],
            "delta": "1e-7",
        },
        {
            "batch": [
                {"sql": MANY[0], "epsilon": "0.000123456789"},
                {"sql": PRIVATE[0], "epsilon": "0.4", "delta": "1e-6"},
            ]
        },
        {"ask": {"sql": LEFT, "epsilon": "0.5"}, "wrong": True},
        {"ask": {"sql": SUMS, "epsilon": "0.5"}, "wrong": True},
        {"ask": {"sql": NOBODY, "epsilon": "0.5"}, "wrong": True},
        {"ask": {"sql": FEES, "epsilon": "0.5"}, "wrong": True},
        {
            "ask": {"sql": "SELECT level, AVG(debt) FROM visits GROUP BY level", "epsilon": "0.3"},
            "open": True,
        },
        {"ask": {"sql": "SELECT AVG(amount) FROM orders WHERE pieces < 40", "epsilon": "0.3"}, "open": True},
        {
            "ask": {
                "sql": WIDE.replace("visits", "visits WHERE level = 1"),
                "epsilon": "0.4",
                "delta": "1e-5",
            },
            "open": True,
        },
        {
            "batch": [
                {"sql": WIDE.replace("visits", "visits WHERE level = 2"), "epsilon": "0.4", "delta": "1e-5"}
            ]
            * 2,
            "delta": "0.0001",
        },
        {"batch": [{"sql": MANY[2], "epsilon": "0.06"}, {"sql": MANY[3], "epsilon": "0.07"}], "open": True},
    ],
    "plain": [
        *_each({"epsilon": "0.03"}, *MANY[:8]),
        *_each({"epsilon": "0.000000123457"}, "SELECT AVG(weight) FROM patients WHERE sex = 'f'"),
        {
            "batch": [
                {"sql": "SELECT SUM(weight) FROM patients", "epsilon": "0.02"},
                {"sql": MANY[9], "epsilon": "0.01"},
            ]
        },
        {"ask": {"sql": "SELECT SUM(weight) FROM patients WHERE sex = 'm'", "epsilon": "0.02"}, "open": True},
    ],
    "rho": [
        *_each({"rho": "0.012345678901"}, MANY[0], MANY[1], TUNED[1]),
        *_each({"rho": "0.05"}, *MANY[:12], *TUNED),
        {"batch": [{"sql": sql, "rho": "0.02"} for sql in MANY[2:6]]},
        {"ask": {"sql": "SELECT COUNT(pieces) FROM orders WHERE amount > 3", "rho": "0.05", "tune": "0.01"}},
        {"ask": {"sql": "SELECT AVG(cost) FROM visits WHERE level = 3", "rho": "0.01"}, "open": True},
    ],
    "remote": [
        *_each({"epsilon": "0.4"}, *MANY[:10], *TUNED[:3]),
        *_each({"epsilon": "0.3", "delta": "1e-6"}, *PRIVATE[:2]),
        {"batch": [{"sql": sql, "epsilon": "0.1"} for sql in MANY[:3]], "delta": "1e-6"},
        {"ask": {"sql": "SELECT AVG(cost) FROM visits WHERE level = 3", "epsilon": "0.1"}, "open": True},
    ],
    "lake": _each({"epsilon": "0.5"}, *MANY[:8], MANY[13], MANY[20]),
    "keyed": [
        {"sql": "SELECT COUNT(*) FROM visits WHERE age > 30", "epsilon": "0.5"},
        {"sql": "SELECT ward, AVG(cost) FROM visits GROUP BY ward", "epsilon": "0.123456789012"},
        {"sql": "SELECT COUNT(*) FROM visits WHERE age > $1", "epsilon": "0.5", "parameters": [40]},
        {
            "questions": [
                {"sql": "SELECT COUNT(*) FROM visits", "epsilon": "0.2"},
                {"sql": "SELECT MAX(age) FROM visits", "epsilon": "0.2"},
            ],
            "delta": "1e-7",
        },
    ],
}
