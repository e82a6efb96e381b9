"""`sfumato prepare`: a copy of the tables in which questions are fast."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.main import JSON, POLICY, Friendly, print_json
from sfumato.curator.files import rewrite
from sfumato.errors import PolicyError, SourceError
from sfumato.queries import policy as policies
from sfumato.sources.duckdb import prepare

if TYPE_CHECKING:
    from sfumato.sources.reading import Progress


@click.command("prepare", cls=Friendly)
@POLICY
@JSON
def command(policy: str, as_json: bool) -> None:
    """Write a copy of the tables on which questions are several times faster.

    It holds the declared columns, sorted by the amount of data per person, and what is needed to apply any
    cap quickly. Answers, errors and prices are those of the tables themselves. It costs no budget.
    The copy is as secret as the data. Once the data or the policy change it is refused: run this again.
    """
    declared = policies.load(policy)
    if declared.automatic:
        raise SourceError(
            f'{policy} says prepared = "auto": the copy is written by sfumato data-changed {policy}, '
            "and used from then on. Nothing was written. To use one at once, name it: "
            f'prepared = "{policies.copy_of(Path(policy)).name}"'
        )
    named = declared.prepared is not None
    if not named:
        declared = replace(declared, prepared=policies.copy_of(Path(policy)))
    assert declared.prepared is not None
    start = time.perf_counter()
    target = prepare(declared, copying(as_json))
    seconds = time.perf_counter() - start
    if not named:
        _write(Path(policy), target.name)
    size = target.stat().st_size
    if as_json:
        print_json(
            {"prepared": str(target), "bytes": size, "seconds": round(seconds, 3), "written": not named}
        )
        return
    click.secho(f"{target} is ready: {size / 1e6:,.1f} MB in {seconds:.1f} s.", fg="green")
    if not named:
        click.echo(f"  Written into {policy}: remove `prepared` from [source] there to use the tables again.")
    click.echo("  The copy is as secret as the data. Run this again when they change.")


def copying(is_quiet: bool) -> Progress:
    """Says how much of each table is copied."""
    shown = [""]

    def progress(table: str, done: float) -> None:
        told = f"{table}: {100 * done:.0f}%"
        if not is_quiet and told != shown[0]:
            shown[0] = told
            click.echo(f"  copying {told}", err=True)

    return progress


def _write(path: Path, name: str) -> None:
    """Put the line into the policy, if the policy is still one afterwards."""
    line = f'prepared = "{name}"'
    text = path.read_text(encoding="utf-8-sig")
    changed = re.sub(r"^(\[source\][^\n]*\n)", lambda found: f"{found[0]}{line}\n", text, count=1, flags=re.M)
    try:
        is_right = policies.parse(changed, path).prepared is not None
    except PolicyError:
        is_right = False
    if not is_right:
        told = "the line could not be added automatically"
        raise PolicyError(str(path), None, "source", told, f"The copy is there. Add under [source]: {line}")
    rewrite(path, changed)
