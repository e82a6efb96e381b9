"""`sfumato grant`: shares of the budget."""

from __future__ import annotations

import click

import sfumato as sf
from sfumato.budget import Share
from sfumato.budget.shares import PERIODS
from sfumato.cli.main import JSON, POLICY, Friendly, priced, print_json


@click.command(cls=Friendly)
@POLICY
@click.argument("name")
@priced
@click.option("--every", type=click.Choice(PERIODS), help="Fill it up so often, out of the same total.")
@click.option("--member", "members", multiple=True, metavar="NAME", help="Make NAME a group; repeat it.")
@JSON
def command(
    policy: str,
    name: str,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    every: str | None,
    members: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give an analyst or a group a share of the budget, or change it.

    A share is part of the database's total, never beside it. Once there is one, whoever gives a name needs
    one.
    """
    database = sf.open(policy)
    share = Share(name, sf.Guarantee.read(epsilon=epsilon, rho=rho, delta=delta), every, members)
    database.ledger.share(share)
    left = database.ledger.left_for(members[0] if members else name)
    if as_json:
        print_json({**share.as_dict(), "left": left.as_dict()})
        return
    filled = f", filled up every {every}" if every else ""
    click.echo(f"{name} may spend {share.allowance}{filled}; {left} of it is left now.")
    click.echo(f"It comes out of the total of {database.policy.name}, which stays {database.ledger.total}.")
