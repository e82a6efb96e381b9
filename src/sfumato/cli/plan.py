"""`sfumato plan`: many questions within one price."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json, working
from sfumato.errors import InvalidParameter
from sfumato.queries.lexing import signs

if TYPE_CHECKING:
    from sfumato.curator.agenda import Agenda


@click.command("plan", cls=Friendly)
@POLICY
@click.argument("questions", type=click.File(encoding="utf-8"))
@click.option("--epsilon", "-e", metavar="E", help="What all questions may cost together, such as 1.")
@click.option("--rho", metavar="R", help="The same, if the budget counts rho.")
@click.option(
    "--weights",
    metavar="LIST",
    default="",
    help="How much the error of each question counts, in their order: 1,1,3. Without it all count alike.",
)
@click.option("--dialect", default="duckdb", metavar="NAME", help="Of the questions: duckdb, postgres, ...")
@click.option("--as", "analyst", default="", metavar="NAME", help="The analyst who asks.")
@click.option("--release", "is_release", is_flag=True, help="Ask them all, and charge the price.")
@JSON
def command(
    policy: str,
    questions: IO[str],
    epsilon: str | None,
    rho: str | None,
    weights: str,
    dialect: str,
    analyst: str,
    is_release: bool,
    as_json: bool,
) -> None:
    """Divide one price among many questions, so that the largest of their errors is as small as can be.

    QUESTIONS is a file of SQL statements with a semicolon after each, or - for standard input. What each will
    cost and how wrong it may be is printed first, free of charge. With --release they are all asked; the same
    list at the same price again is free.
    """
    asked = _split(questions.read())
    if not asked:
        told = "write SQL statements into it, with a semicolon after each"
        raise InvalidParameter("QUESTIONS", getattr(questions, "name", "-"), told)
    given = [each.strip() for each in weights.split(",")] if weights.strip() else []
    agenda = opened(policy, analyst=analyst).plan(
        asked, epsilon=epsilon, rho=rho, weights=given, dialect=dialect
    )
    if not is_release:
        _tell(agenda, as_json, Path(policy).name)
        return
    if not as_json:
        click.echo(repr(agenda), err=True)  # before it is spent
    with working("asking the database"):
        releases = agenda.release()
    if as_json:
        print_json({"releases": [each.as_dict() for each in releases]})
    else:
        click.echo(repr(releases))


def _tell(agenda: Agenda, as_json: bool, policy: str) -> None:
    if as_json:
        print_json(agenda.as_dict())
        return
    click.echo(repr(agenda))
    click.echo(f"  To ask them all, add --release: sfumato plan {policy} ... --release")


def _split(text: str) -> list[str]:
    """The statements of a text."""
    found, start = [], 0
    for sign, at, end in signs(text):
        if sign == "end":
            found.append(text[start:at])
            start = end
    return [each.strip() for each in [*found, text[start:]] if each.strip()]
