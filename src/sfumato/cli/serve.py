"""`sfumato serve`: the doors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

import sfumato as sf
from sfumato.cli import reading
from sfumato.cli.main import JSON, Friendly, opened, print_json
from sfumato.client.remote import is_near
from sfumato.queries.declared import heading
from sfumato.server.desk.deadlines import UNKNOWN, deadline, size_class
from sfumato.server.desk.desk import Settings
from sfumato.server.desk.people import People
from sfumato.server.workers import Config, first_tokens, serve
from sfumato.sources.duckdb_engine import share_memory

PORT = click.IntRange(0, 65535)


@click.command(cls=Friendly)
@click.argument("policies", nargs=-1, required=True, type=click.Path(dir_okay=False), metavar="POLICY...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--http-port", default=8470, type=PORT, show_default=True, help="Port of the HTTP API; 0: any free one."
)
@click.option(
    "--postgres-port",
    default=5470,
    type=PORT,
    show_default=True,
    help="Port of the Postgres protocol; 0: any free one.",
)
@click.option("--no-http", is_flag=True, help="Do not serve HTTP.")
@click.option("--no-postgres", is_flag=True, help="Do not serve the Postgres protocol.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes.")
@click.option(
    "--certificate", type=click.Path(dir_okay=False), metavar="FILE", help="TLS certificate, in PEM format."
)
@click.option(
    "--key", type=click.Path(dir_okay=False), metavar="FILE", help="Its private key, in PEM format."
)
@click.option("--plain", is_flag=True, help="Serve without TLS, because a proxy in front provides it.")
@click.option("--rate", default=50.0, show_default=True, help="Requests per second, per user.")
@click.option("--running", default=2, show_default=True, help="Concurrent new questions, per user.")
@click.option("--threads", default=8, show_default=True, help="Concurrent new questions, per worker.")
@click.option(
    "--late",
    default=20,
    show_default=True,
    help="Late or failed answers after which an analyst is suspended.",
)
@click.option(
    "--pace", default=1.0, show_default=True, help="How many times slower this machine is than a typical one."
)
@click.option("--longest", default=60.0, show_default=True, help="The longest deadline, in seconds.")
@click.option(
    "--stop-after", default=4.0, show_default=True, help="Stop an engine after this many deadlines."
)
@click.option(
    "--no-deadlines",
    is_flag=True,
    help="Answer at once: response times then reveal something about the data.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Check that the server could start, then exit. Runs one count per table to time it.",
)
@JSON
def command(
    policies: tuple[str, ...],
    host: str,
    http_port: int,
    postgres_port: int,
    no_http: bool,
    no_postgres: bool,
    workers: int,
    certificate: str | None,
    key: str | None,
    plain: bool,
    rate: float,
    running: int,
    threads: int,
    late: int,
    pace: float,
    longest: float,
    stop_after: float,
    no_deadlines: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Serve over HTTP and over the Postgres protocol, which psql, pandas and JDBC speak.

    Both share one curator, one budget and the same stored releases.
    """
    if key is not None and certificate is None:
        raise sf.InvalidParameter("key", key, "give --certificate as well: TLS needs both")
    if certificate is None and not plain and not is_near(host):
        told = (
            "others can reach it, and without TLS they could read tokens and releases in transit. Give "
            "--certificate and --key; or --plain, if a proxy in front of it provides TLS"
        )
        raise sf.InvalidParameter("host", host, told)
    limits = {"rate": rate, "running": running, "threads": threads, "late": late, "pace": pace}
    limits["longest"] = longest
    for name, value in limits.items():
        if not value > 0:
            raise sf.InvalidParameter(name, value, "give a number above 0")
    if not stop_after >= 1:
        raise sf.InvalidParameter("stop-after", stop_after, "give at least 1: one deadline")
    config = Config(
        policies=tuple(str(Path(policy).absolute()) for policy in policies),
        host=host,
        http=None if no_http else http_port,
        postgres=None if no_postgres else postgres_port,
        workers=workers,
        certificate=certificate,
        key=key,
        settings=Settings(rate, running, threads, late, pace, longest, not no_deadlines, stop_after),
    )
    share_memory(workers * len(policies))
    databases = [opened(policy) for policy in policies]  # what is wrong with a policy is said here
    names = [database.policy.name for database in databases]
    if twice := [name for name in names if names.count(name) > 1]:
        raise sf.InvalidParameter(
            "name", twice[0], "two policies have this name: write another name = in one of them"
        )
    for path, database in zip(policies, databases, strict=True):
        if reading.is_read(database.policy) is False:
            click.echo(f"{database.policy.name}:{reading.told(path, False)}", err=True)
    if check:
        config.context()
        found = [_check(*each, config) for each in zip(policies, databases, strict=True)]
        if as_json:
            print_json({"policies": found})
        else:
            for each in found:
                _tell(each, config)
        return
    del databases
    welcome = _welcome_json if as_json else _welcome
    serve(config, lambda ports: welcome(config, ports, first_tokens(config.policies)))


def _addresses(config: Config, ports: dict[str, int]) -> dict[str, str]:
    found, scheme = {}, "http" if config.certificate is None else "https"
    if "http" in ports:
        found["http"] = f"{scheme}://{config.host}:{ports['http']}"
    if "postgres" in ports:
        found["postgres"] = f"postgresql://NAME@{config.host}:{ports['postgres']}/DATABASE"
    return found


def _welcome_json(config: Config, ports: dict[str, int], tokens: dict[str, str]) -> None:
    print_json({**_addresses(config, ports), "first_tokens": tokens})


def _welcome(config: Config, ports: dict[str, int], tokens: dict[str, str]) -> None:
    click.secho("Serving.", fg="green", bold=True)
    for door, where in _addresses(config, ports).items():
        click.echo(f"  {'HTTP' if door == 'http' else 'Postgres':<9} {where}")
    for policy, token in tokens.items():
        click.echo(f"\n  {Path(policy).stem} has no users yet. The owner's first token, shown only once:")
        click.secho(f"    {token}", bold=True)
        click.echo(
            "  It is valid for one day and one use: POST /v1/DATABASE/tokens exchanges it for a lasting one."
        )
    example = Path(config.policies[0])
    click.echo("\n  Add a user, from another terminal:")
    click.echo(f"    sfumato user add {json.dumps(str(example)) if ' ' in str(example) else example} ana")
    click.echo("\n  Stop with Ctrl-C: running questions are answered at their deadlines first.")


def _check(policy: str, database: sf.Database, config: Config) -> dict[str, Any]:
    """What the owner would want to know before opening: people, and whether deadlines will be met."""
    sizes, tables = dict(database.policy.sizes), []
    for table in database.policy.tables:
        if table.public:
            continue
        name = table.name.replace('"', '""')
        price = {database.ledger.total.currency: "0.1"}
        question = database.sql(f'SELECT COUNT(*) FROM "{name}"', **price)
        due = deadline(question.plan, database.policy, config.settings.pace, database.alike)
        began = time.monotonic()
        database.source.run(question.compiled)  # sealed, and thrown away: for the owner's clock alone
        took = round(time.monotonic() - began, 3)
        facts = {"name": table.name, "rows": sizes.get(table.name), "leaves_after": due, "took": took}
        tables.append({**facts, "too_close": took > due / 4})
    people = [each for each in People.beside(policy).all() if not each.revoked]
    who = [{"name": each.name, "role": each.role} for each in people]
    return {"policy": policy, "people": who, "tables": tables}


def _tell(found: dict[str, Any], config: Config) -> None:
    click.secho(f"{found['policy']} can be served.", fg="green")
    people = [f"{each['name']} ({each['role']})" for each in found["people"]]
    click.echo(f"  users: {', '.join(people) or 'none'}")
    for table in found["tables"]:
        name, rows = table["name"], table["rows"]
        told = f"no rows declared: {UNKNOWN:,} assumed" if rows is None else f"declared rows: {rows:,}"
        after = f"a count is sent after {table['leaves_after']:g} s, and took {table['took']:.3f} s now"
        click.echo(f"  {name}: {after} ({told})")
        if table["too_close"]:
            click.secho(
                f"    Too close: declare more rows in {heading(name)}, such as rows = "
                f"{10 * size_class(rows or UNKNOWN):_}, or give --pace {config.settings.pace * 4:g}.",
                fg="yellow",
            )
