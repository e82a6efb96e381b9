"""How sure of Alice's minutes can somebody become? `python examples/how_sure_can_they_be.py` shows it.

A cafeteria publishes the average time of its guests. Anyone who knows everybody else's time reads Alice's
from an exact average. With noise they become a little surer; the owner says how much surer,  and the
ledger keeps that.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

import sfumato as sf
from sfumato.utility.guessing import simplified_reach

POLICY = """
name = "cafeteria"
[source]
duckdb = "cafeteria.duckdb"
[budget]
epsilon = "20"
[tables.guests]
unit = "row"
[tables.guests.columns]
minutes = { type = "integer", low = 0, high = 60 }

[[promise]]  # in minutes: near times are hidden better than far ones
secret = "guests.minutes"
within = 2
advantage = "0.05"
metric = "manhattan"
"""
QUESTIONS = (
    ("SELECT AVG(minutes) AS average FROM guests", "0.2"),
    ("SELECT COUNT(*) AS guests FROM guests", "1"),
    ("SELECT COUNT(*) AS long FROM guests WHERE minutes > 30", "0.1"),
    ("SELECT COUNT(*) AS long FROM guests WHERE minutes > 30", "1"),
)


def main() -> None:
    alice, others = 20, [15, 10]
    average = sum([alice, *others]) / 3
    print(
        f"Exactly: the average of 3 guests is {average:g}. Anyone who knows {others} knows that Alice has ",
        end="",
    )
    print(f"{3 * average - sum(others):g}.")
    print(f"From 25% to 30% sure is epsilon {simplified_reach(0.25, 0.05):.4f}, if one guest is replaced.\n")
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(f"{folder}/cafeteria.duckdb") as connection:
            connection.execute(
                "CREATE TABLE guests AS SELECT (5 + i * 7 % 50)::INTEGER AS minutes FROM range(2000) t(i)"
            )
        policy = Path(folder) / "cafeteria.toml"
        policy.write_text(POLICY, encoding="utf-8")
        database = sf.open(policy)
        print(f"Promised: {database.judges[0].told()}.\n")
        for sql, epsilon in QUESTIONS:
            print(f"{sql}, epsilon {epsilon}")
            try:
                (row,) = database.sql(sql, epsilon=epsilon).release().rows()
            except sf.PromiseBroken:
                print("  refused: it would break the promise; nothing was spent")
                continue
            (standing,) = database.standing.as_dicts()
            value = next(iter(row.values()))
            print(
                f"  about {value:g}; so far nobody is more than {100 * standing['so_far']:.2f} points surer"
            )
    print("\nThe count of all guests says nothing about minutes. A threshold protects no minute better than")
    print("another, so it is charged as if the guest were replaced.")


if __name__ == "__main__":
    main()
