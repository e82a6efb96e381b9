"""CURRENT_DATE: the day on which a question is asked, where the policy says, is part of its name."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import duckdb
import pytest

import sfumato as sf

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """
[source]
duckdb = "visits.duckdb"
{zone}
[budget]
epsilon = "10"
[tables.visits]
unit = "row"
columns = {{ day = "date" }}
"""
EVENING = datetime.datetime(2026, 3, 1, 23, 30, tzinfo=datetime.UTC)
BERLIN = 'time_zone = "Europe/Berlin"'
HAWAII = 'time_zone = "Pacific/Honolulu"'


def policy(folder: Path, zone: str = "") -> Path:
    if not (folder / "visits.duckdb").exists():
        with duckdb.connect(str(folder / "visits.duckdb")) as connection:
            connection.execute("CREATE TABLE visits AS SELECT DATE '2026-03-01' AS day")
    (folder / "visits.toml").write_text(POLICY.format(zone=zone), encoding="utf-8")
    return folder / "visits.toml"


def opened(file: Path, at: datetime.datetime = EVENING) -> sf.Database:
    return sf.open(file, clock=at.timestamp)


@pytest.mark.parametrize(("zone", "day"), [("", 1), (BERLIN, 2), (HAWAII, 1)])
@pytest.mark.parametrize("now", ["CURRENT_DATE", "NOW()", "CAST(CURRENT_TIMESTAMP AS DATE)"])
def test_the_day_is_that_of_the_policy(zone: str, day: int, now: str, tmp_path: Path) -> None:
    db = opened(policy(tmp_path, zone))
    question = db.sql(f"SELECT COUNT(*) FROM visits WHERE day < {now}", epsilon=1)
    for told in (question.explain(), question.release()):
        text = " ".join(str(told).split())
        assert f"The current date is 2026-03-0{day} here; on another day this is a new question" in text
    assert "current date" not in str(db.sql("SELECT COUNT(*) FROM visits", epsilon=1).explain())


def test_a_question_is_free_within_the_day_and_another_one_tomorrow(tmp_path: Path) -> None:
    file, sql = policy(tmp_path, BERLIN), "SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE"
    hours = [
        (0, 1),
        (23, 1),  # until 23:00 UTC it is the 2nd in Berlin
        (24, 2),
    ]
    for after, spent in hours:
        db = opened(file, EVENING + datetime.timedelta(hours=after))
        db.sql(sql, epsilon=1).release()
        assert db.ledger.spent.amount == spent
        assert db.ledger.left.amount == 10 - spent
    # the constant is the same question
    db = opened(file, EVENING + datetime.timedelta(hours=24))
    db.sql("SELECT COUNT(*) FROM visits WHERE day < DATE '2026-03-02'", epsilon=1).release()
    assert db.ledger.spent.amount == 2


def test_a_zone_that_changes_charges_nothing_twice(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits"
    for zone in ("", BERLIN, HAWAII):
        db = opened(policy(tmp_path, zone))
        db.sql(sql, epsilon=1).release()
        assert db.ledger.spent.amount == 1


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("Europe/Berln", "Did you mean Europe/Berlin"),
        ("../../etc/passwd", "not a time zone"),
        ("Europe", "not a time zone"),
        ("\\u0000", "must be a string"),
    ],
)
def test_a_zone_that_is_not_known_is_refused(zone: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(sf.PolicyError, match=told):
        opened(policy(tmp_path, f'time_zone = "{zone}"'))
