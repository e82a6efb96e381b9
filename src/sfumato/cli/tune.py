"""`sfumato tune`: spend once, so that every question has caps that fit."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json
from sfumato.curator import show
from sfumato.curator.caps import choose, nodes
from sfumato.curator.files import rewrite
from sfumato.curator.tuning import inserted, section
from sfumato.errors import PolicyError
from sfumato.queries import policy as policies
from sfumato.queries.cells import PARTS
from sfumato.queries.declared import heading

EXAMPLES = (1, 10, 100)  # groups, for which the chosen caps are shown


@click.command("tune", cls=Friendly)
@POLICY
@click.argument("table")
@click.option("--epsilon", "-e", metavar="E", help="How much to spend on it, such as 0.1.")
@click.option("--rho", metavar="R", help="The same, if the budget counts rho.")
@click.option("--column", "columns", multiple=True, metavar="NAME", help="Only these columns; repeatable.")
@click.option("--rows-only", is_flag=True, help="No columns: only the number of rows per person.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Charge and release as usual, but print the section instead of writing it into the policy.",
)
@JSON
def command(
    policy: str,
    table: str,
    epsilon: str | None,
    rho: str | None,
    columns: tuple[str, ...],
    rows_only: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Choose caps privately: how many rows, and how much of a column, one person may contribute.

    It charges and releases noisy histograms of the data per person, and writes them into the policy.
    Later questions choose their caps from them according to their price and groups, free of charge.
    Repeating it on the same data is also free.
    """
    database = opened(policy)
    wanted = () if rows_only else columns or None

    def progress(told: str) -> None:
        if not as_json:
            click.echo(f"  measuring {told}", err=True)

    tuning, receipts = database.tune(table, epsilon=epsilon, rho=rho, columns=wanted, progress=progress)
    found = database.policy.table(table)
    assert found is not None
    added = section(found.name, tuning, receipts)
    if not dry_run:
        _write(Path(policy), found.name, added)
    price = 1.0
    caps = {groups: choose(tuning.rows, price, groups) for groups in EXAMPLES}
    if as_json:
        print_json(
            {
                "table": found.name,
                "receipts": list(receipts),
                "rows_per_person": {str(groups): cap for groups, cap in caps.items()},
                "columns": [column.name for column in tuning.columns],
                "written": not dry_run,
                "section": added,
                "left": database.ledger.left.as_dict(),
            }
        )
        return
    most = max([*tuning.rows.people, 1])
    click.echo(f"  Approximate number of people by their rows in {found.name}, with noise:")
    for rows, people in zip(nodes(len(tuning.rows.people)), tuning.rows.people, strict=True):
        if people > most / 200:
            bar = show.bar(people / most, 30).rstrip("░")
            click.echo(f"  {int(rows):>10,d}  {people / PARTS:>12,.0f}  {bar}")
    if caps[1] is None:
        click.echo("  Too few people stand out from the noise: the declared cap stays.")
    else:
        told = ", ".join(f"{cap:,d} for {groups} group{'s' * (groups > 1)}" for groups, cap in caps.items())
        click.echo(f"  Rows per person in a count at epsilon 1: at most {told}.")
    for column in tuning.columns:
        click.echo(f"  {column.name}: averages are taken around {float(column.centre):,.6g}.")
    if dry_run:
        click.echo(f"\n{added}")
    else:
        click.echo(f"  Written into {policy}: remove {heading(found.name, 'tuned')} there to undo it.")
        if database.policy.prepared is not None:
            command = "data-changed" if database.policy.automatic else "prepare"
            click.echo(f"  The prepared copy does not fit any more. Next: sfumato {command} {policy}")
    click.echo(f"  {database.ledger.left} left.")


def _write(path: Path, table: str, added: str) -> None:
    """Put the section into the policy, if the policy is still one afterwards."""
    text = inserted(path.read_text(encoding="utf-8-sig"), table, added)
    try:
        policies.parse(text, path)
    except PolicyError:
        raise PolicyError(
            str(path),
            None,
            f"tables.{table}.tuned",
            "the section could not be added automatically",
            f"Add this by hand:\n{added}",
        ) from None
    rewrite(path, text)
