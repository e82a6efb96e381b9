"""From a DuckDB file to a first release, in one page: `python examples/first_release.py`.

It makes a small clinic in a temporary folder, writes its policy, and asks three questions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import sfumato as sf
from sfumato.sources.duckdb import build

POLICY = """
[source]
duckdb = "clinic.duckdb"

[budget]
epsilon = "1"                       # for everybody, for ever

[tables.visits]
unit = "patient"                    # neighbours differ by all rows of one patient
rows_per_person = 5                 # nobody weighs more than five rows

[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["day clinic", "emergency"] }
age = { type = "integer", low = 0, high = 110 }
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wards = "['day clinic', 'emergency'][1 + (hash(i) % 2)::INTEGER]"
        build(
            folder / "clinic.duckdb",
            [
                f"CREATE TABLE visits AS SELECT (i % 4000)::INTEGER AS patient, {wards} AS ward, "
                "(18 + hash(i % 4000) % 70)::INTEGER AS age FROM range(12000) AS r(i)"
            ],
            [],
        )
        (folder / "clinic.toml").write_text(POLICY, encoding="utf-8")

        db = sf.open(folder / "clinic.toml")
        question = db.sql(
            "SELECT ward, COUNT(*) AS visits, AVG(age) FROM visits GROUP BY ward", epsilon="0.6"
        )
        print(question.explain(), end="\n\n")  # free, and no row is read
        print(question.release(), end="\n\n")  # charged once
        print(question.release(), end="\n\n")  # the same numbers, for nothing
        try:
            db.sql("SELECT MAX(age) FROM visits", epsilon="0.1")
        except sf.QueryRefused as refusal:
            print(f"refused: {refusal}\n")
        print(db.budget)


if __name__ == "__main__":
    main()
