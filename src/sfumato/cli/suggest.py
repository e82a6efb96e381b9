"""`sfumato suggest`: from a sentence about an attacker to an epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.guarantee import plain
from sfumato.queries.promises import METRICS


@click.command("suggest", cls=Friendly)
@POLICY
@click.argument("secret", required=False)
@click.option(
    "--within", metavar="R", help="A guess counts as right within this distance of the value, such as 2."
)
@click.option("--above", metavar="LIMIT", help="Guess whether the value is at least this.")
@click.option("--advantage", metavar="A", help="How much surer an attacker may become, such as 0.10.")
@click.option(
    "--prior",
    default="uniform",
    show_default=True,
    metavar="P",
    help="The prior belief: uniform, unknown, normal:MEAN,DEVIATION or PUBLIC_TABLE.COLUMN.",
)
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="record",
    show_default=True,
    help="The distance in which values are protected.",
)
@click.option(
    "--group", type=int, default=1, metavar="K", help="The number of people who depend on each other."
)
@click.option("--picture", metavar="FILE", help="Draw the gain, before and after, as SVG.")
@JSON
def command(
    policy: str,
    secret: str | None,
    within: str | None,
    above: str | None,
    advantage: str | None,
    prior: str,
    metric: str,
    group: int,
    picture: str | None,
    as_json: bool,
) -> None:
    """The epsilon at which no attacker gains more confidence in a secret than you allow.

    SECRET is a column, such as patients.age. Without one, the promises of the policy are shown. Free; no row
    about a person is read.

    \b
    For example:
      sfumato suggest hospital.toml patients.age --within 2 --advantage 0.10 --picture age.svg
    """
    database = opened(policy)
    if secret is None:
        found = database.suggestions
        if not found:
            advice = "name a column, such as patients.age; or write a [[promise]] into the policy"
            raise InvalidParameter(
                "secret", None, advice, problem="no secret given, and no promise in the policy"
            )
    else:
        if advantage is None:
            advice = "say how much surer an attacker may become, such as --advantage 0.10"
            raise InvalidParameter("advantage", None, advice, problem="no advantage given")
        one = database.suggest_epsilon(
            secret,
            advantage=advantage,
            within=within,
            above=above,
            prior=_prior(prior),
            metric=metric,
            group=group,
        )
        found = (one,)
    if picture is not None:
        for n, each in enumerate(found):
            file = Path(picture) if not n else Path(picture).with_stem(f"{Path(picture).stem}-{n + 1}")
            file.write_text(each.picture(), encoding="utf-8")
            click.echo(f"Drew {file}.", err=True)
    if as_json:
        print_json({"suggestions": [each.as_dict() for each in found]})
        return
    click.echo("\n\n".join(repr(each) for each in found))


def _prior(given: str) -> Any:
    if not given.startswith("normal:"):
        return given
    try:
        mean, deviation = (plain(each) for each in given.removeprefix("normal:").split(","))
    except ValueError:
        raise InvalidParameter("prior", given, "write a mean and a deviation: normal:40,15") from None
    return {"normal": [mean, deviation]}
