"""`sfumato init`: a commented policy from a schema and the owner's answers. No row is ever read."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.main import Friendly
from sfumato.errors import InvalidParameter, PolicyError, SourceError
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import plain
from sfumato.queries import policy as policies
from sfumato.queries.declared import heading, in_toml, split
from sfumato.queries.policy import MOST_ROWS_PER_PERSON
from sfumato.queries.units import Unit, differ, suggested
from sfumato.sources.duckdb import DuckDB, folder_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.sources.schema import Found


@dataclass(slots=True)
class Answers:
    """What the owner said, by `table` or `table.column`."""

    units: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    public: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    epsilon: str = "1"


@click.command("init", cls=Friendly)
@click.argument("database", type=click.Path(path_type=Path))
@click.option("--policy", "-p", type=click.Path(path_type=Path, dir_okay=False), help="Where to write it.")
@click.option("--epsilon", "-e", metavar="E", help="The whole budget of the database.")
@click.option(
    "--unit", multiple=True, metavar="TABLE=COLUMN", help="The column that names the person, or TABLE=row."
)
@click.option("--rows", multiple=True, metavar="TABLE=N", help="How many rows of one person count in full.")
@click.option("--bounds", multiple=True, metavar="TABLE.COLUMN=LOW:HIGH", help="Public bounds of a column.")
@click.option(
    "--keys",
    multiple=True,
    metavar="TABLE.COLUMN=A,B,..",
    help="Public values of a column, or TABLE.COLUMN=PUBLIC_TABLE.COLUMN to take them from there.",
)
@click.option("--public", multiple=True, metavar="TABLE", help="A table that is not about people.")
@click.option("--force", is_flag=True, help="Overwrite a policy that exists.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs; never prompt.")
def command(
    database: Path,
    policy: Path | None,
    epsilon: str | None,
    unit: tuple[str, ...],
    rows: tuple[str, ...],
    bounds: tuple[str, ...],
    keys: tuple[str, ...],
    public: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write a commented policy for DATABASE, a DuckDB file or a folder of Parquet files, from its schema.

    In a terminal, it prompts for anything the options leave open; otherwise it is left as a comment
    to fill in. Bounds and keys come from you, never from the data: a bound read from the data would reveal
    somebody's extreme value.
    """
    target = policy or (database if database.name else Path(database.resolve().name)).with_suffix(".toml")
    if target.exists() and not force:
        raise PolicyError(
            str(target),
            None,
            "",
            "this policy already exists and was not changed",
            "Add --force to replace it.",
        )
    if not database.exists():
        raise SourceError(f"there is no database file {database}. Nothing was written.")
    schema = folder_schema(database) if database.is_dir() else DuckDB(database).schema()
    if not schema and database.is_dir():
        told = f"{database} has no .parquet files, nor folders with such files. Nothing was written."
        raise SourceError(told)
    answers = Answers(
        units=_pairs("--unit", unit),
        rows=_pairs("--rows", rows),
        bounds=_pairs("--bounds", bounds),
        keys=_pairs("--keys", keys),
        public=set(public),
        epsilon=epsilon or "1",
    )
    _check_names(schema, answers)
    interactive = sys.stdin.isatty() and not as_json
    if interactive:
        _ask(schema, answers, epsilon)
    text = write(database, target, schema, answers)
    open_points = _open_points(schema, answers)
    if not open_points:
        policies.parse(text, target)  # what cannot be read back is not written
    target.write_text(text, encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"policy": str(target), "open": open_points}, indent=2))
        return
    click.secho(f"wrote {target}", fg="green")
    for point in open_points:
        click.echo(f"  still open: {point}")
    read = "--read " if database.is_dir() else ""
    first = f"complete {target}, then: " if open_points else ""
    click.echo(f"next: {first}sfumato check {read}{target}")


def write(database: Path, target: Path, schema: Mapping[str, tuple[Found, ...]], answers: Answers) -> str:
    """The text of the policy."""
    try:
        source = database.resolve().relative_to(target.resolve().parent)
    except ValueError:
        source = database.resolve()
    lines = [
        "# A Sfumato policy. Everything in this file is public; nothing in it was read from the data.",
        f"# Check it with: sfumato check {'--read ' if database.is_dir() else ''}{target.name}",
        "",
        "[source]",
        f"{'parquet' if database.is_dir() else 'duckdb'} = {_toml(str(source))}",
        "",
        "[budget]",
        "# The whole budget of this database, for all analysts together. It does not come back.",
        f"epsilon = {_toml(answers.epsilon)}",
        "",
        "[measure]",
        "# To find out how much people have, so that caps fit the data. Without it caps stay as declared.",
        'share = "10%"',
    ]
    lines += _units({table: unit for table, unit in answers.units.items() if table not in answers.left_out})
    for table, columns in schema.items():
        if table in answers.left_out:
            continue
        lines += ["", *_table(table, columns, answers)]
    return "\n".join(lines) + "\n"


def _units(given: Mapping[str, str]) -> list[str]:
    """Which units are the same, where there are several."""
    rows = [Unit("row", table) for table, unit in given.items() if unit == "row"]
    found = [Unit("person", table, unit) for table, unit in given.items() if unit != "row"] + rows
    if not differ(found):
        return []
    told = "# Columns in one list name the same people; columns that name others go into lists of their own."
    return ["", told, *suggested(found).split("\n")]


def _table(table: str, columns: tuple[Found, ...], answers: Answers) -> list[str]:
    header = heading(table)
    if table in answers.public:
        return [header, "# Not about people: its values may be used as public keys.", "public = true"]
    lines = [header]
    unit = answers.units.get(table)
    if unit is None:
        lines += [
            '# Which column identifies the person? Name it, or write "row" if every person has one row.',
            "# For a table that is not about people, write instead: public = true",
            '# unit = "..."',
        ]
    else:
        lines.append(f"unit = {_toml(unit)}")
    if unit is None or unit != "row":
        lines.append(
            "# A person with more rows is scaled down to this many; a smaller number means less noise."
        )
        rows = answers.rows.get(table)
        lines.append(f"rows_per_person = {rows}" if rows else "# rows_per_person = 10")
    lines += ["", heading(table, "columns")]
    for column in columns:
        lines.append(_column(f"{table}.{column.name}", column, answers))
    return lines


def _column(path: str, column: Found, answers: Answers) -> str:
    if column.kind is None:
        return f"# {column.name}: the type {column.engine_type} is not supported"
    parts = [f'type = "{column.kind}"']
    hint = ""
    if path in answers.bounds:
        low, high = (_number(end) for end in answers.bounds[path].split(":"))
        parts.append(f"low = {low}, high = {high}")
    elif (
        column.kind in ("integer", "number")
        and answers.units.get(path.removesuffix(f".{column.name}")) != column.name
    ):
        hint = "  # for SUM and AVG add: low = ..., high = ..."
    if path in answers.keys:
        parts.append(f"keys = {_keys(answers.keys[path], column.kind, answers.public)}")
    elif column.kind in ("text", "date"):
        hint = "  # for GROUP BY add: keys = [...]"
    return f"{in_toml(column.name)} = {{ {', '.join(parts)} }}{hint}"


def _number(text: str) -> str:
    """A number as TOML writes it: no bare dot at either end.

    >>> _number(".5"), _number("120"), _number("-1e3")
    ('0.5', '120', '-1000.0')
    """
    return str(int(text)) if text.strip().lstrip("+-").isdigit() else repr(float(text))


def _keys(said: str, kind: str, public: set[str]) -> str:
    if split(said, public)[0] in public:
        return _toml(said)
    words = [word.strip() for word in said.split(",")]
    return f"[{', '.join(_toml(word) if kind == 'text' else word.lower() for word in words)}]"


def _ask(schema: Mapping[str, tuple[Found, ...]], answers: Answers, epsilon: str | None) -> None:
    click.echo("Your answers become public. Do not take them from the data: use what is publicly known.\n")
    if epsilon is None:
        answers.epsilon = click.prompt("Whole budget, epsilon", default="1")
    for table, columns in schema.items():
        if table in answers.units or table in answers.public:
            continue
        names = [column.name for column in columns]
        click.secho(f"\n{table}", bold=True, nl=False)
        click.echo(f": {', '.join(names)}")
        choice = click.Choice([*names, "row", "public", "skip"])
        said = click.prompt(
            "  Which column identifies the person? (a column, row, public or skip)",
            type=choice,
            show_choices=False,
        )
        if said == "skip":
            answers.left_out.add(table)
        elif said == "public":
            answers.public.add(table)
        else:
            answers.units[table] = said
            _ask_table(table, columns, answers)


def _ask_table(table: str, columns: tuple[Found, ...], answers: Answers) -> None:
    unit = answers.units[table]
    if unit != "row" and table not in answers.rows:
        answers.rows[table] = str(
            click.prompt("  Rows of one person that count in full", default=10, type=int)
        )
    for column in columns:
        path = f"{table}.{column.name}"
        if column.name == unit:
            continue
        if column.kind in ("integer", "number") and path not in answers.bounds:
            said = click.prompt(
                f"  {column.name}: bounds as low:high (empty: none)", default="", show_default=False
            )
            if said:
                answers.bounds[path] = said
        if column.kind == "text" and path not in answers.keys:
            said = click.prompt(
                f"  {column.name}: public values a,b,c (empty: none)", default="", show_default=False
            )
            if said:
                answers.keys[path] = said
    _check_numbers(answers)


def _open_points(schema: Mapping[str, tuple[Found, ...]], answers: Answers) -> list[str]:
    points: list[str] = []
    for table in schema:
        if table in answers.public or table in answers.left_out:
            continue
        if table not in answers.units:
            points.append(f"{heading(table)} unit: whom a row belongs to")
        elif answers.units[table] != "row" and table not in answers.rows:
            points.append(f"{heading(table)} rows_per_person")
    return points


def _check_names(schema: Mapping[str, tuple[Found, ...]], answers: Answers) -> None:
    columns = {f"{table}.{column.name}" for table, found in schema.items() for column in found}
    for option, names, known in (
        ("--unit", answers.units, set(schema)),
        ("--rows", answers.rows, set(schema)),
        ("--public", answers.public, set(schema)),
        ("--bounds", answers.bounds, columns),
        ("--keys", answers.keys, columns),
    ):
        for name in names:
            if name not in known:
                raise InvalidParameter(option, name, f"known: {', '.join(sorted(known))}")
    kinds = {f"{table}.{column.name}": column.kind for table, found in schema.items() for column in found}
    for path in answers.bounds:
        if kinds[path] not in ("integer", "number"):
            raise InvalidParameter("--bounds", path, f"a {kinds[path]} column has no bounds")
    for path in answers.keys:
        if kinds[path] not in ("text", "integer", "boolean", "date"):
            raise InvalidParameter("--keys", path, f"a {kinds[path]} column cannot be grouped by")
    for table, unit in answers.units.items():
        mine = [column.name for column in schema[table]]
        if unit != "row" and unit not in mine:
            raise InvalidParameter(
                "--unit", f"{table}={unit}", f"there is no such column; name row, or one of {', '.join(mine)}"
            )
    _check_numbers(answers)


def _check_numbers(answers: Answers) -> None:
    Guarantee.parse(answers.epsilon)
    for table, rows in answers.rows.items():
        if not (rows.isascii() and rows.isdigit()) or not 1 <= int(rows) <= MOST_ROWS_PER_PERSON:
            raise InvalidParameter(
                f"rows of {table}", rows, f"write a whole number from 1 to {MOST_ROWS_PER_PERSON}"
            )
    for path, said in answers.bounds.items():
        low, colon, high = said.partition(":")
        try:
            right = bool(colon) and math.isfinite(plain(low)) and plain(low) < plain(high) < math.inf
        except ValueError:
            right = False
        if not right:
            raise InvalidParameter(f"bounds of {path}", said, "write low:high with low < high, such as 0:9")


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise InvalidParameter(option, item, "write NAME=VALUE")
        pairs[name] = value
    return pairs


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a TOML basic string
