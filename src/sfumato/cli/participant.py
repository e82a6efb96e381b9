"""`sfumato participant`: a page for those whom the data are about."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.main import JSON, POLICY, Friendly, opened, print_json
from sfumato.curator.participant import Page


@click.command("participant", cls=Friendly)
@POLICY
@click.option("--page", metavar="FILE", help="Write it as an HTML page.")
@JSON
def command(policy: str, page: str | None, as_json: bool) -> None:
    """What is promised to the people in the data, and what is not, in plain words.

    Everything in it is public. Publish it, so that the people in the data can read it.
    """
    found = Page.of(opened(policy))
    if page is not None:
        Path(page).write_text(found.html(), encoding="utf-8")
        click.echo(f"Wrote {page}.", err=True)
    if as_json:
        print_json(found.as_dict())
    elif page is None:
        click.echo(found.text())
