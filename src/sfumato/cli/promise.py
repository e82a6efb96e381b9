"""`sfumato promise`: which promises are in force, and taking one back."""

from __future__ import annotations

import datetime
from typing import Any

import click

from sfumato.budget.ledger.entries import SECOND
from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json
from sfumato.curator import show


@click.command("promise", cls=Friendly)
@POLICY
@click.option("--withdraw", is_flag=True, help="Withdraw the promises that the policy no longer makes.")
@JSON
def command(policy: str, withdraw: bool, as_json: bool) -> None:
    """Which promises are in force, and which were withdrawn.

    A promise that is taken out of a policy, or made weaker there, stays in force until it is withdrawn:
    people were told otherwise. Edit the policy first; then withdraw what it no longer makes. This
    is recorded in the ledger and shown on the page for participants. A process that has the policy open keeps
    the old promise. Free; no row is read.
    """
    database = opened(policy)
    gone = database.said.withdraw() if withdraw else ()
    facts: dict[str, list[Any]] = {
        "promised": [limit.told for limit in database.ledger.own],
        "still_kept": [limit.told for limit in database.said.dropped],
        "withdrawn": [
            {"until": f"{_day(at)}", "database": name, "promise": limit.told}
            for at, name, limit in database.ledger.withdrawn()
        ],
    }
    if as_json:
        print_json(facts)
        return
    if withdraw:
        many = f"{len(gone)} promise{'' if len(gone) == 1 else 's'}"
        click.echo(
            f"Withdrew {many}." if gone else f"Nothing to withdraw: every promise in force is in {policy}."
        )
    said = [f"promised: {told}." for told in facts["promised"]]
    said += [f"still in force, but no longer in {policy}: {told}." for told in facts["still_kept"]]
    said += [
        f"promised by {name} until {_day(at)}: {limit.told}."
        for at, name, limit in database.ledger.withdrawn()
    ]
    for line in show.paragraphs(
        said or [f"{policy} has no [[promise]]. What its budget alone promises: sfumato participant {policy}"]
    ):
        click.echo(line)
    if facts["still_kept"]:
        click.echo(f"  To withdraw what is still in force: sfumato promise {policy} --withdraw")


def _day(at: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(at / SECOND, datetime.UTC).date()
