"""`sfumato user`: who may come in."""

from __future__ import annotations

import copy
import datetime
import shlex
import time
from typing import Any
from urllib.parse import quote

import click

import sfumato as sf
from sfumato.cli.main import JSON, POLICY, Friendly, print_json
from sfumato.curator import show
from sfumato.server.desk import owner
from sfumato.server.desk.people import DAYS, ROLES, People

WIDE = 60  # letters of a question that are shown


class _Group(click.Group):
    command_class = Friendly


@click.group(cls=_Group)
def command() -> None:
    """The users of `sfumato serve`.

    They are stored beside the policy (hospital.people). A running server sees a change at once.
    """


@command.command()
@POLICY
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="analyst", show_default=True)
@click.option("--days", default=DAYS, show_default=True, help="How long the token is valid.")
@click.option("--password", is_flag=True, help="Also prompt for a password, to get tokens over HTTP.")
@JSON
def add(policy: str, name: str, role: str, days: float, password: bool, as_json: bool) -> None:
    """Add a user, or give a user another token. The token is shown only once."""
    declared = sf.open(policy).policy  # a token for a policy that is wrong would open nothing
    people = People.beside(policy)
    chosen = (
        click.prompt("password", hide_input=True, confirmation_prompt=True, err=as_json) if password else None
    )
    token = people.add(name, role, days=days)
    if chosen is not None:
        people.set_password(name, chosen)
    if as_json:
        print_json({"name": name, "role": role, "days": days, "token": token})
        return
    click.echo(
        f"Created a token for {name} on {declared.name} (role: {role}, valid for {days:g} days). "
        "It is shown only once:"
    )
    click.secho(f"\n  {token}\n", bold=True)
    if role == "auditor":
        return
    currency = declared.budget.currency
    much = "0.1" if currency == "epsilon" else "0.01"
    click.echo("Ask, for example (if the server uses its default address):")
    click.echo(f"  export PGPASSWORD={token[:8]}...")
    click.echo(f"  psql -h 127.0.0.1 -p 5470 -U {shlex.quote(name)} {shlex.quote(declared.name)}")
    click.echo(f"    SET sfumato.{currency} = '{much}'; SELECT COUNT(*) FROM {declared.tables[0].name};")
    click.echo(
        f"  curl -H 'Authorization: Bearer {token[:8]}...' http://127.0.0.1:8470/v1/{declared.name}/schema"
    )
    click.echo(f'  sf.connect("http://{quote(name)}@127.0.0.1:8470/{declared.name}", token="{token[:8]}...")')


@command.command()
@POLICY
@click.argument("name")
@click.option("--token", default="", metavar="ID", help="Only this token; its ID is in: sfumato user list.")
@JSON
def revoke(policy: str, name: str, token: str, as_json: bool) -> None:
    """Revoke a user's access at once. It ends for every protocol; what was spent stays spent."""
    People.beside(policy).revoke(name, token)
    if as_json:
        print_json({"name": name, "revoked": token or "all"})
        return
    click.echo(f"Token {token} of {name} is revoked." if token else f"Access of {name} is revoked.")


@command.command()
@POLICY
@click.argument("name")
@JSON
def password(policy: str, name: str, as_json: bool) -> None:
    """Prompt for the password with which a user gets tokens over HTTP."""
    people = People.beside(policy)
    if people.get(name) is None:
        raise sf.InvalidParameter(
            "name", name, "there is no such user; add one: sfumato user add POLICY NAME"
        )
    people.set_password(
        name, click.prompt("password", hide_input=True, confirmation_prompt=True, err=as_json)
    )
    if as_json:
        print_json({"name": name, "password": True})
        return
    click.echo(f"{name} can exchange it for a token:")
    where = f"http://127.0.0.1:8470/v1/{sf.open(policy).policy.name}/tokens"
    click.echo(f"  curl -X POST -u {shlex.quote(name)} {where}")


@command.command("list")
@POLICY
@JSON
def list_people(policy: str, as_json: bool) -> None:
    """List the users and the ids of their tokens. The tokens themselves are never shown."""
    database = sf.open(policy)
    everybody = People.beside(policy).all()
    late = {each.name: owner.late(database.ledger, each.name) for each in everybody}
    if as_json:
        print_json({"people": owner.people(everybody, late)})
        return
    if not everybody:
        click.echo("No users yet. Add one: sfumato user add POLICY NAME")
        return
    rows = [_row(each) for each in owner.people(everybody, late)]
    headers = ["name", "role", "tokens (until)", "late or failed", ""]
    click.echo(show.table(headers, rows, [True, True, True, False, True]))


def _row(person: dict[str, Any]) -> list[str]:
    now = datetime.datetime.now(datetime.UTC).isoformat()
    tokens = [
        f"{each['id']} ({'expired' if each['expires'] < now else each['expires'][:10]})"
        for each in person["tokens"]
        if not each["revoked"]
    ]
    state = "revoked" if person["revoked"] else "password" if person["password"] else ""
    return [person["name"], person["role"], ", ".join(tokens) or "-", str(person["late"]), state]


@command.command()
@POLICY
@click.option("--pace", default=1.0, show_default=True, help="The value that the server was started with.")
@click.option(
    "--stop-after", default=owner.STOP_AFTER, show_default=True, help="The same; see sfumato serve --help."
)
@JSON
def running(policy: str, pace: float, stop_after: float, as_json: bool) -> None:
    """List the questions that are running.

    They were charged and are not released yet; each shows who asked and when it is due.
    """
    found = owner.running(sf.open(policy), time.time(), pace, stop_after)
    if as_json:
        print_json({"running": found})
        return
    if not found:
        click.echo("No question is running.")
        return
    rows = [
        [str(each["receipt"]), each["analyst"], each["charged"], each["due"] or "-", _short(each["question"])]
        for each in found
    ]
    headers = ["receipt", "analyst", "charged", "due", "question"]
    click.echo(show.table(headers, rows, [False, True, True, True, True]))


def _short(question: str) -> str:
    return question if len(question) <= WIDE else f"{question[: WIDE - 3]}..."


@command.command()
@POLICY
@click.argument("name")
@JSON
def review(policy: str, name: str, as_json: bool) -> None:
    """List an analyst's late answers, and lift the suspension. Failed answers are listed too."""
    database = sf.open(policy)
    if People.beside(policy).get(name) is None:
        raise sf.InvalidParameter(
            "name", name, "there is no such user; for the users: sfumato user list POLICY"
        )
    notes = database.ledger.notes(owner.LATE, name)
    seen = max((n for n, note in enumerate(notes) if note.get("looked")), default=-1)
    owner.looked(database.ledger, name)
    if as_json:
        print_json({"name": name, "late_or_failed": list(notes[seen + 1 :])})
        return
    for note in notes[seen + 1 :]:
        what = (
            "the engine failed" if note["failed"] else f"its deadline was doubled {note['doublings']} times"
        )
        if note.get("stopped"):
            what = f"the engine was stopped (receipt {note['receipt']}); the question may be asked again now"
        click.echo(f"  {note.get('at', '')}  {what}")
    if len(notes) > seen + 1:
        click.echo("  To find these questions, see the charges of that time: sfumato budget POLICY")
    if len(notes) == seen + 1:
        click.echo("  Nothing was late or failed since the last review.")
    today = datetime.datetime.now(datetime.UTC).date()
    click.echo(f"Any suspension of {name} is lifted. The ledger records this review ({today}).")


_look = copy.copy(review)  # what it was called before
_look.hidden = True
command.add_command(_look, "look")
