"""The commands of `sfumato`."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFUSED = 1  # exit code when a question, a policy or a file is refused; click uses 2 for wrong usage

POLICY = click.argument("policy", type=click.Path(dir_okay=False))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables.")
_PRICE = [
    click.option("--epsilon", "-e", metavar="E", help="What the question may cost, such as 0.1."),
    click.option("--rho", metavar="R", help="The same, if the budget counts rho; such as 0.01."),
    click.option("--delta", metavar="D", help="How much delta it may use, if the budget has one."),
]
_AS = click.option(
    "--as", "analyst", default="", metavar="NAME", help="The analyst who asks, and whose share is spent."
)


_DIALECT = click.option(
    "--dialect",
    default="duckdb",
    metavar="NAME",
    help="Of the question: duckdb (default), postgres, bigquery, tsql, mysql or snowflake.",
)
_WITHIN = [
    click.option(
        "--within",
        metavar="ERROR",
        help='Instead of a price: the error the numbers may have at 95%, such as 50, 2% or "n=50, mean=2%".',
    ),
    click.option("--most", metavar="E", help="With --within: what the question may cost at most."),
]
_TUNE = click.option("--tune", metavar="PART", help="Spend this part of the price on choosing caps.")


def priced(command: Callable[..., None]) -> Callable[..., None]:
    """The options that name a price, or the error that it shall buy."""
    for option in reversed([*_PRICE, *_WITHIN]):
        command = option(command)
    return command


# Commands that need an engine at import are loaded when they run, so that --help stays quick.
_LATER = {
    "audit": ("sfumato.cli.audit", "A lower bound on the epsilon of any function that can be run."),
    "grant": ("sfumato.cli.grant", "Give an analyst or a group a share of the budget."),
    "demo": ("sfumato.cli.demo", "A guided tour on a synthetic hospital, in 30 seconds."),
    "prepare": (
        "sfumato.cli.prepare",
        "Write a copy of the tables on which questions are several times faster.",
    ),
    "participant": (
        "sfumato.cli.participant",
        "A page for the people in the data: what is promised to them, and what is not.",
    ),
    "serve": ("sfumato.cli.serve", "Serve over HTTP and the Postgres protocol, on one budget."),
    "user": ("sfumato.cli.user", "The users of a server: add, list, review, revoke."),
    "promise": (
        "sfumato.cli.promise",
        "Which promises are in force; withdraw those taken out of the policy.",
    ),
    "suggest": ("sfumato.cli.suggest", "The epsilon that keeps a promise, in words and as a plot."),
    "measure": (
        "sfumato.cli.measure",
        "Measure how much people have, on the owner's account, before a question does.",
    ),
    "plan": ("sfumato.cli.plan", "Divide one price among many questions, and ask them all."),
    "tune": ("sfumato.cli.tune", "Choose caps privately, once, for all later questions."),
    "init": ("sfumato.cli.start", "Write a policy from the schema of a database; rows are not read."),
}


CHARGING = ("sql", "measure", "plan", "tune", "shell", "demo", "serve")  # commands that may charge something


class Friendly(click.Command):
    """A command that never ends in a traceback for a mistake of the user."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read our output has seen enough
            raise
        except sf.SfumatoError as error:
            facts, message = {"code": error.code, "spent": error.spent}, str(error)
            kind = type(error).__name__
        except (OSError, ImportError) as error:
            code = "missing_package" if isinstance(error, ImportError) else "file_error"
            spent = None if ctx.command.name in CHARGING else False  # it may have been, before it was written
            facts, kind, message = {"code": code, "spent": spent}, type(error).__name__, str(error)
            if isinstance(error, OSError) and error.filename and error.strerror:
                message = f"cannot use {error.filename}: {error.strerror}"
        if ctx.params.get("as_json"):
            print_json({"error": {"type": kind, "message": message, **facts}})
        else:
            click.secho("refused: ", fg="red", bold=True, err=True, nl=False)
            click.echo(message, err=True)
        return ctx.exit(REFUSED)


class Commands(click.Group):
    """The commands, some of which are loaded when they run."""

    command_class = Friendly

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_LATER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LATER:
            try:
                command: click.Command = import_module(_LATER[cmd_name][0]).command
            except ImportError as error:
                extra = 'Run: pip install "sfumato[server]"' if cmd_name == "serve" else "Install it."
                raise click.ClickException(f"{cmd_name} needs the package {error.name}. {extra}") from None
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        told = {name: help_text for name, (_, help_text) in _LATER.items()}
        for name, command in self.commands.items():
            told[name] = command.get_short_help_str(80)
        with formatter.section("Commands"):
            formatter.write_dl(sorted(told.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sf.__version__, prog_name="sfumato")
def main() -> None:
    """See the population, never the person.

    Sfumato answers SQL about people with noise that hides each of them, and keeps track of the budget.

    \b
    First steps:
      sfumato demo                                a guided tour, in 30 seconds
      sfumato init hospital.duckdb                write a policy from a schema
      sfumato check hospital.toml                 is the policy valid?
      sfumato explain hospital.toml "SELECT ..." -e 0.1
      sfumato sql hospital.toml "SELECT ..." -e 0.1
      sfumato budget hospital.toml
      sfumato grant hospital.toml ana -e 0.5
      sfumato serve hospital.toml                 for psql, pandas and curl
    """


def opened(policy: str, **more: Any) -> sf.Database:
    """A database; what its policy says and is no longer true is told to whoever is at the terminal."""
    database = sf.open(policy, **more)
    for told in database.said.broken:
        click.secho("warning: ", fg="red", bold=True, err=True, nl=False)
        click.echo(told, err=True)
    return database


@main.command()
@POLICY
@click.argument("sql")
@priced
@_TUNE
@_DIALECT
@_AS
@click.option(
    "--level", default="0.95", show_default=True, metavar="P", help="Confidence level of the intervals."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "--plot", metavar="FILE", help="Also draw it: .png, .svg or .pdf, or .json for a Vega-Lite specification."
)
@JSON
def sql(
    policy: str,
    sql: str,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    within: str | None,
    most: str | None,
    tune: str | None,
    dialect: str,
    analyst: str,
    level: str,
    as_csv: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Ask a question: charge its price, print the release with its error.

    The same question asked again is free.
    """
    sf.Release.check_level(level)  # before anything is charged
    question = opened(policy, analyst=analyst).sql(
        sql,
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        tune=tune,
        within=within,
        most=most,
        dialect=dialect,
    )
    if question.wished and not as_json:
        click.echo(f"Within {question.wished}", err=True)  # before it is spent
    if plot is not None:
        import_module("sfumato.cli.drawing").check(plot, question.plan)  # it needs the engine
    with working("asking the database"):
        release = question.release()
    if as_json:
        print_json(release.as_dict(level))
    elif as_csv:
        click.echo(release.csv(level), nl=False)
    else:
        click.echo(release.text(level))
    if plot is not None:
        import_module("sfumato.cli.drawing").write(release, plot, level)
        click.echo(f"Drew {plot}.", err=True)


@main.command()
@POLICY
@click.argument("sql")
@priced
@_TUNE
@_DIALECT
@_AS
@click.option("--engine-sql", is_flag=True, help="Also print the SQL that the engine would run.")
@click.option("--picture", is_flag=True, help="Also draw the error against the price, in the terminal.")
@click.option("--svg", metavar="FILE", help="Draw the error against the price, as SVG.")
@JSON
def explain(
    policy: str,
    sql: str,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    within: str | None,
    most: str | None,
    tune: str | None,
    dialect: str,
    analyst: str,
    engine_sql: bool,
    picture: bool,
    svg: str | None,
    as_json: bool,
) -> None:
    """What a question would cost and how exact it would be. Free; no row is read."""
    database = opened(policy, analyst=analyst)
    explanation = database.sql(
        sql,
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        tune=tune,
        within=within,
        most=most,
        dialect=dialect,
    ).explain()
    if svg is not None:
        Path(svg).write_text(explanation.svg(), encoding="utf-8")
        click.echo(f"Drew {svg}.", err=True)
    if as_json:
        print_json(explanation.as_dict())
        return
    click.echo(repr(explanation))
    if picture:
        click.echo(f"\n{explanation.picture()}")
    if engine_sql:
        click.echo(f"\n  {explanation.engine_sql}")


@main.command()
@POLICY
@click.option("--read", is_flag=True, help="Read all Parquet files once; required before the first question.")
@JSON
def check(policy: str, read: bool, as_json: bool) -> None:
    """Check a policy: its text, its tables and types, its ledger. Reads no row about a person.

    It fails if the policy states a total or a promise that has already been exceeded.

    With --read it reads every declared column of Parquet files: one unreadable value would make questions
    fail, and so reveal that it exists. It names the file and the column, never a value, and records the
    check beside the policy. Required once, and again when files or declared columns change.
    """
    reading = import_module("sfumato.cli.reading")  # it needs the engine
    if read:
        reading.read(policy, as_json)
    database = sf.open(policy)
    tables, broken = [table for table in database.policy.tables if not table.public], database.said.broken
    is_read = reading.is_read(database.policy)
    if as_json:
        names = [table.name for table in database.policy.tables]
        facts = {"ok": not broken, "name": database.policy.name, "tables": names, "read": is_read}
        kept = {"promises": database.standing.as_dicts(), "broken": list(broken)}
        print_json({**facts, **kept, "still_kept": [limit.told for limit in database.said.still_kept]})
        raise SystemExit(REFUSED if broken else 0)
    if not broken:
        click.secho(f"{policy} is valid.", fg="green")
    for told in broken:
        click.secho(f"{policy} states something that is not true. ", fg="red", nl=False)
        click.echo(told)
    if is_read is not None:
        click.echo(reading.told(policy, is_read))
    click.echo(repr(database))
    for line in database.standing.text():
        click.echo(line)
    for note in database.said.notes:
        click.echo(click.wrap_text(note, 100, "  ", "    "))
    for table in tables:
        for column in table.columns:
            if column.kind in ("integer", "number") and column.low is None and column.name != table.unit:
                click.echo(
                    f"  {table.name}.{column.name} has no bounds: COUNT and WHERE only, no SUM or AVG."
                )
    for table, column in database.policy.mentions:
        note = (
            f"{table.name}.{column.name} mentions people of {column.told}. A row of {table.name} belongs to "
            f"{table.unit} alone: promises about the row do not cover people who are only mentioned in it."
        )
        click.echo(click.wrap_text(note, 100, "  ", "    "))
    if broken:
        raise SystemExit(REFUSED)


@main.command()
@POLICY
@click.option("--csv", "as_csv", is_flag=True, help="Print the history as CSV.")
@click.option("--picture", metavar="FILE", help="Draw what was left after each charge, as SVG.")
@click.option(
    "--verify",
    metavar="HEAD",
    is_flag=False,
    flag_value="",
    help="Check every entry of the ledger and, if given, that it contains the head of a receipt.",
)
@click.option(
    "--planned",
    metavar="DELTA",
    help="Also print the epsilon at this delta if all charges had been planned; not a guarantee.",
)
@click.option(
    "--accept", is_flag=True, help="Continue after the ledger was lost, counting the recorded total as spent."
)
@click.option(
    "--retire",
    metavar="NAME",
    help="Retire another policy on this ledger: its total no longer applies.",
)
@click.option(
    "--other-people",
    metavar="WHY",
    help="Record that the data are no longer about the people another ledger was charged for.",
)
@JSON
def budget(
    policy: str,
    as_csv: bool,
    picture: str | None,
    verify: str | None,
    planned: str | None,
    accept: bool,
    retire: str | None,
    other_people: str | None,
    as_json: bool,
) -> None:
    """What was spent, by whom, on what, and what is left."""
    database = opened(policy, accept=accept, other_people=other_people or "")
    if other_people:
        click.echo("Recorded: the data are about other people than those of the first ledger.", err=True)
    if retire is not None:
        database.ledger.retire(retire)
        click.echo(f"{retire} is retired: what was spent under it stays spent.", err=True)
    if verify is not None:
        count = database.ledger.verify(verify or None)
        if as_json:
            print_json({"entries": count, "head": database.ledger.head})
        else:
            click.secho(
                f"All {count} entries are intact{' and contain this head' if verify else ''}.", fg="green"
            )
            click.echo(f"head {database.ledger.head}")
        return
    found = database.budget
    if picture is not None:
        Path(picture).write_text(found.picture(), encoding="utf-8")
        click.echo(f"Drew {picture}.", err=True)
    label = {} if planned is None else {"if_planned": _if_planned(database, planned)}
    if as_json:
        print_json({**found.as_dict(), **label})
    elif as_csv:
        click.echo(found.csv(), nl=False)
    elif picture is None:
        click.echo(repr(found))
        if planned is not None:
            click.echo(
                f"  If all of it had been planned in advance: epsilon {label['if_planned']} at delta "
                f"{planned}. It was not, so this is not a guarantee."
            )


def _if_planned(database: sf.Database, delta: str) -> str:
    wanted = sf.Guarantee.read(epsilon=1, delta=delta).delta
    return f"{float(database.ledger.loss().epsilon(wanted)):.6f}"


@main.command("data-changed")
@POLICY
@click.option(
    "--without-copy", is_flag=True, help='With prepared = "auto": do not write a copy of the tables.'
)
@JSON
def data_changed(policy: str, without_copy: bool, as_json: bool) -> None:
    """Record that the tables changed, so that stored releases are no longer repeated. Restores no budget.

    If the policy says prepared = "auto" under [source], it first writes a copy of the tables on which
    questions are several times faster; new questions use it from then on. If it cannot be written, nothing
    is recorded.
    """
    database = opened(policy)
    if without_copy and not database.policy.automatic:
        raise sf.InvalidParameter(
            "--without-copy", True, 'omit it: the policy does not say prepared = "auto"'
        )
    copying = import_module("sfumato.cli.prepare").copying  # it needs the engine
    database.data_changed(copying(as_json), copy=not without_copy)
    left = database.budget.as_dict()["left"]
    if as_json:
        print_json({"data_version": database.ledger.data_version, "left": left})
    else:
        currency = database.ledger.total.currency.capitalize()
        click.echo(f"Stored releases are no longer repeated. {currency} {left} is left, as before.")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script. For bash: eval "$(sfumato completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "sfumato", "_SFUMATO_COMPLETE").source())


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show that something is going on and for how long, if somebody is watching."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def turn() -> None:
        for seconds, sign in enumerate(itertools.cycle("◐◓◑◒")):
            if done.wait(0.25):
                break
            if seconds > 2:
                click.echo(f"\r{sign} {message} … {seconds // 4} s", err=True, nl=False)
        click.echo("\r" + " " * (len(message) + 16) + "\r", err=True, nl=False)

    thread = threading.Thread(target=turn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def print_json(facts: dict[str, Any]) -> None:
    """For programs."""
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
