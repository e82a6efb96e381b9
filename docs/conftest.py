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


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file, built once."""
    path = tmp_path_factory.mktemp("docs") / "hospital.duckdb"
    build(path, TABLES, [])
    return path


@pytest.fixture(autouse=True)
def page(
    hospital: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doctest_namespace: dict[str, Any]
) -> None:
    """A page runs in a folder of its own, which holds the hospital, its policy and a full budget."""
    shutil.copy(hospital, tmp_path)
    (tmp_path / "hospital.toml").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where ledgers note their heads
    doctest_namespace.update(sf=sfumato, Fraction=Fraction)
