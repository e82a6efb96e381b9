"""`sfumato measure`: how much people have, measured on the owner's account before a question needs it."""

from __future__ import annotations

import click

from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json
from sfumato.curator import show
from sfumato.mechanisms.guarantee import decimal


@click.command("measure", cls=Friendly)
@POLICY
@click.argument("tables", nargs=-1)
@click.option(
    "--anew", is_flag=True, help="Measure again what the data have changed since; paid beside the share."
)
@JSON
def command(policy: str, tables: tuple[str, ...], anew: bool, as_json: bool) -> None:
    """Measure how much people have: all tables with several rows a person, or those named.

    Caps are chosen from it, and errors are told from it before anything is spent. It takes what the policy
    sets aside under [measure]; otherwise the first question that needs a table measures it, at the same
    price. What is measured already is not paid again, unless the data have changed and you say --anew.
    """
    database = opened(policy)

    def progress(told: str) -> None:
        if not as_json:
            click.echo(f"  measuring {told}", err=True)

    found = database.measure(tables, anew=anew, progress=progress)
    left = database.ledger.left
    if as_json:
        lines = [
            {
                "what": each.what,
                each.charged.currency: decimal(each.charged.amount),
                "receipt": each.receipt or None,
                "changes_since": each.changes,
            }
            for each in found
        ]
        print_json({"measured": lines, "left": left.as_dict()})
        return
    rows = [[each.what, decimal(each.charged.amount), _told(each.changes, each.receipt)] for each in found]
    click.echo(show.table(["measured", left.currency, "receipt"], rows, [True, False, True]))
    if any(each.changes for each in found):
        click.echo("  The data have changed since some of it was measured. To measure it again: --anew")
    click.echo(f"  {left} left.")


def _told(changes: int, receipt: int) -> str:
    """Under which receipt it was measured, or how old it is."""
    if receipt:
        return str(receipt)
    times = "once" if changes == 1 else f"{changes} times"
    return f"known; the data have changed {times} since" if changes else "known"
