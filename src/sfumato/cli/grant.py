"""`sfumato grant`: shares of the budget."""

from __future__ import annotations

from fractions import Fraction

import click

import sfumato as sf
from sfumato.budget import Share
from sfumato.budget.ledger.shares import PERIODS
from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json


@click.command(cls=Friendly)
@POLICY
@click.argument("name")
@click.option("--epsilon", "-e", metavar="E", help="How much, such as 0.5.")
@click.option("--rho", metavar="R", help="The same, if the budget counts rho; such as 0.1.")
@click.option("--delta", metavar="D", help="How much delta, if the budget has one.")
@click.option("--revoke", is_flag=True, help="Remove the share; what was spent stays spent.")
@click.option("--every", type=click.Choice(PERIODS), help="Refill the share this often, from the same total.")
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME",
    help="Make NAME a group with this member; repeatable.",
)
@JSON
def command(
    policy: str,
    name: str,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    revoke: bool,
    every: str | None,
    members: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give an analyst or a group a share of the budget, or change it.

    A share is part of the database's total, not an addition. Once there is one, every named analyst needs
    one.
    """
    database = opened(policy)
    total = database.ledger.total
    if revoke:
        allowance = total.of(Fraction(0))
    elif epsilon is None and rho is None:
        example = "-e 0.5" if total.rho is None else "--rho 0.1"
        told = f"write {example}, or --revoke to remove the share"
        raise sf.InvalidParameter(total.currency, None, told, problem="no amount given")
    else:
        allowance = sf.Guarantee.read(epsilon=epsilon, rho=rho, delta=delta)
    before = next((share for share, _ in database.ledger.shares() if share.name == name), None)
    if revoke and before is None:
        raise sf.InvalidParameter(
            "name", name, f"for the shares: sfumato budget {policy}", problem="no such share"
        )
    share = Share(name, allowance, every, members or (before.members if before else ()))
    database.ledger.share(share)
    members = share.members
    left = next(left for each, left in database.ledger.shares() if each.name == name)
    if as_json:
        facts = {"name": name, **allowance.as_dict(), "every": every, "members": list(members)}
        print_json({**facts, "left": left.as_dict()})
        return
    if revoke:
        click.echo(f"The share of {name} is removed; what was spent stays spent.")
        return
    filled = f", refilled every {every}" if every else ""
    click.echo(f"{name} may spend {share.allowance}{filled}; {left} of it is left now.")
    click.echo(
        f"This is part of the total of {database.policy.name}, which is still {database.ledger.limit}."
    )
