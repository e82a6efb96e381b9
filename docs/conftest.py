"""The small hospital that the pages speak of, made anew for each page in a folder that is thrown away."""

from __future__ import annotations

import shutil
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import sfumato
from sfumato.sources.duckdb import build

if TYPE_CHECKING:
    from pathlib import Path

TABLES = [
    "CREATE TABLE wards AS SELECT UNNEST(['cardiology', 'maternity', 'oncology', 'surgery']) AS ward",
    """
    CREATE TABLE patients AS
    SELECT i AS patient_id,
           CAST(18 + i * 37 % 70 AS INTEGER) AS age,
           ['north', 'south', 'east', 'west'][1 + i % 4] AS region
    FROM range(2000) AS people(i)
    """,
    """
    CREATE TABLE visits AS
    SELECT patient_id,
           ['surgery', 'cardiology', 'surgery', 'oncology', 'maternity', 'cardiology', 'surgery']
               [1 + (patient_id * 5 + n * 3) % 7] AS ward,
           DATE '2025-01-01' + CAST((patient_id * 7 + n * 61) % 365 AS INTEGER) AS day,
           CAST(50 + (patient_id * 13 + n * 101) % 900 AS DOUBLE) AS cost
    FROM (SELECT patient_id, UNNEST(range(1 + patient_id % 5)) AS n FROM patients) AS stays
    """,
]

POLICY = """\
[source]
duckdb = "hospital.duckdb"

[budget]
epsilon = "1"

[tables.patients]
unit = "patient_id"
rows_per_person = 1

[tables.patients.columns]
patient_id = { type = "integer" }
age = { type = "integer", low = 0, high = 110 }
region = { type = "text", keys = ["north", "south", "east", "west"] }

[tables.visits]
unit = "patient_id"
rows_per_person = 5

[tables.visits.columns]
patient_id = { type = "integer" }
ward = { type = "text", keys = "wards.ward" }
day = { type = "date" }
cost = { type = "number", low = 0, high = 1000 }

[tables.wards]
public = true
"""

# A larger hospital, for pages about joins, subqueries, dates and private keys.
CLINIC_TABLES = [
    """
    CREATE TABLE regions AS
    SELECT UNNEST(['north', 'south', 'east', 'west']) AS region,
           UNNEST(['coast', 'coast', 'inland', 'inland']) AS part,
           UNNEST([120, 80, 200, 150]) AS beds
    """,
    """
    CREATE TABLE patients AS
    SELECT i AS patient_id,
           CAST(18 + i * 37 % 70 AS INTEGER) AS age,
           ['north', 'south', 'east', 'west'][1 + i % 4] AS region,
           i % 3 = 0 AS smoker,
           CAST(50 + (i * 37 % 70) / 2 + i % 7 AS DOUBLE) AS weight
    FROM range(2000) AS people(i)
    """,
    """
    CREATE TABLE visits AS
    SELECT patient_id * 10 + n AS visit_id,
           patient_id,
           ['surgery', 'cardiology', 'surgery', 'oncology', 'maternity', 'cardiology', 'surgery']
               [1 + (patient_id * 5 + n * 3) % 7] AS ward,
           DATE '2025-01-01' + CAST((patient_id * 7 + n * 61) % 365 AS INTEGER) AS day,
           CAST(50 + (patient_id * 13 + n * 101) % 900 AS DOUBLE) AS cost
    FROM (SELECT patient_id, UNNEST(range(1 + patient_id % 5)) AS n FROM patients) AS stays
    """,
    """
    CREATE TABLE treatments AS
    SELECT visit_id,
           'drug ' || CAST(visit_id * 7 % 23 AS VARCHAR) AS drug,
           CAST(visit_id % 40 AS DOUBLE) AS dose
    FROM visits
    """,
    """
    CREATE TABLE events AS
    SELECT patient_id,
           ['invited', 'opened', 'booked', 'came'][1 + n] AS step,
           TIMESTAMP '2025-01-01 08:00:00' + INTERVAL 1 HOUR * ((patient_id * 11 + n * 200) % 8000) AS at
    FROM (SELECT patient_id, UNNEST(range(1 + patient_id * 3 % 4)) AS n FROM patients) AS steps
    """,
]

CLINIC_POLICY = """\
[source]
duckdb = "clinic.duckdb"

[budget]
epsilon = "100"
delta = "0.001"

[tables.patients]
unit = "patient_id"
rows_per_person = 1

[tables.patients.columns]
patient_id = "integer"
age = { type = "integer", low = 0, high = 110 }
region = { type = "text", keys = "regions.region" }
smoker = "boolean"
weight = { type = "number", low = 0, high = 200 }

[tables.visits]
unit = "patient_id"
rows_per_person = 5

[tables.visits.columns]
visit_id = "integer"
patient_id = "integer"
ward = { type = "text", keys = ["cardiology", "maternity", "oncology", "surgery"] }
day = { type = "date", low = 2025-01-01, high = 2025-12-31 }
cost = { type = "number", low = 0, high = 1000 }

[tables.treatments]
unit = "visit_id -> visits.visit_id"
rows_per_person = 5

[tables.treatments.columns]
visit_id = "integer"
drug = "text"
dose = { type = "number", low = 0, high = 50 }

[tables.events]
unit = "patient_id"
rows_per_person = 4

[tables.events.columns]
patient_id = "integer"
step = { type = "text", keys = ["invited", "opened", "booked", "came"] }
at = { type = "timestamp", low = 2025-01-01, high = 2025-12-31 }

[tables.regions]
public = true

[tables.regions.columns]
region = "text"
part = { type = "text", keys = ["coast", "inland"] }
beds = { type = "integer", low = 0, high = 1000 }
"""


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the database files, built once."""
    folder = tmp_path_factory.mktemp("docs")
    build(folder / "hospital.duckdb", TABLES, [])
    build(folder / "clinic.duckdb", CLINIC_TABLES, [])
    return folder


@pytest.fixture(autouse=True)
def page(
    hospital: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doctest_namespace: dict[str, Any]
) -> None:
    """A page runs in a folder of its own, which holds the hospitals, their policies and full budgets."""
    for name, policy in (("hospital", POLICY), ("clinic", CLINIC_POLICY)):
        shutil.copy(hospital / f"{name}.duckdb", tmp_path)
        (tmp_path / f"{name}.toml").write_text(policy, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where ledgers note their heads
    doctest_namespace.update(sf=sfumato, Fraction=Fraction)
