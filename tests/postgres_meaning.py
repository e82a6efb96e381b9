"""Whether the Postgres server means what PostgreSQL means: random questions beside a real PostgreSQL.

    python -m tests.postgres_meaning --seed 7 --count 2000

As `tests.meaning`, with the texts read in PostgreSQL's dialect and a PostgreSQL of the same rows as the
engine: columns have the types that the server's catalog shows. Words that PostgreSQL does not have are made
there, with the meaning that docs/reference/sql.md gives them, so that they can stand in compared questions.
What differs by design stands in docs/reference/wire.md.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from sqlglot.errors import SqlglotError
from tests.meaning import Author, Clean, EngineFailed, Tally, counting, divided, explore
from tests.meaning import totals_without_null_keys as totals
from tests.meaning import without_limit as unlimited
from tests.places import fill_with
from tests.postgres import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import Server

# What we have beside PostgreSQL's own words, in its own; MEDIAN and quantiles are rewritten in the text.
EXTENSIONS = """
CREATE FUNCTION ifnull(anycompatible, anycompatible) RETURNS anycompatible IMMUTABLE LANGUAGE sql
  AS 'SELECT COALESCE($1, $2)';
CREATE FUNCTION contains(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT strpos($1, $2) > 0';
CREATE FUNCTION whole_quotient(bigint, bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1 / $2';
CREATE OPERATOR // (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = whole_quotient);
CREATE FUNCTION as_number(boolean) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT CASE WHEN $1 THEN 1 END';
CREATE FUNCTION one_more(bigint, boolean) RETURNS bigint IMMUTABLE LANGUAGE sql
  AS 'SELECT $1 + CASE WHEN $2 THEN 1 ELSE 0 END';
CREATE AGGREGATE count_if(boolean) (SFUNC = one_more, STYPE = bigint, INITCOND = '0');
"""
_PARTS = {
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute")},
    "dayofweek": "dow", "dayofyear": "doy", "dayofmonth": "day", "isodow": "isodow",
}  # fmt: skip
_PART = (
    "CREATE FUNCTION {}({}) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT EXTRACT({} FROM $1)::bigint';"
)
_SECOND = (
    "CREATE FUNCTION second({}) RETURNS bigint IMMUTABLE LANGUAGE sql"
    " AS 'SELECT FLOOR(EXTRACT(SECOND FROM $1::timestamp))::bigint';"
)
_DIFFERENCE = """
CREATE FUNCTION date_diff(text, {0}, {0}) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
  SELECT CASE $1
    WHEN 'day' THEN $3::date - $2::date
    WHEN 'year' THEN EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2)
    WHEN 'month' THEN 12 * (EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2))
      + EXTRACT(MONTH FROM $3) - EXTRACT(MONTH FROM $2)
    WHEN 'quarter' THEN 4 * (EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2))
      + EXTRACT(QUARTER FROM $3) - EXTRACT(QUARTER FROM $2)
    ELSE EXTRACT(EPOCH FROM date_trunc($1, $3::timestamp) - date_trunc($1, $2::timestamp))
      / CASE $1 WHEN 'hour' THEN 3600 WHEN 'minute' THEN 60 ELSE 1 END
    END::bigint $$;
"""


def database(server: Server) -> str:
    """A new database that compares texts byte by byte and knows the case of all letters, with our words."""
    uri = server.create("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' TEMPLATE template0")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(EXTENSIONS)
        for name, part in _PARTS.items():
            connection.execute(_PART.format(name, "timestamp", part))
            if name not in ("hour", "minute"):
                connection.execute(_PART.format(name, "date", part))
        for kind in ("date", "timestamp"):
            connection.execute(_SECOND.format(kind))
            connection.execute(_DIFFERENCE.format(kind))
    return uri


def types_there(declared: str) -> str:
    """The columns of a table in the types that our catalog shows for them.

    >>> types_there("n0 HUGEINT, x1 DOUBLE, m2 DECIMAL(4, 2), s3 VARCHAR")
    'n0 BIGINT, x1 DOUBLE PRECISION, m2 DECIMAL(4, 2), s3 TEXT'
    """
    declared = re.sub(r"\b(TINYINT|SMALLINT|INTEGER|HUGEINT|UTINYINT|BIGINT)\b", "BIGINT", declared)
    return re.sub(r"\bVARCHAR\b", "TEXT", re.sub(r"\bDOUBLE\b", "DOUBLE PRECISION", declared))


def as_there(sql: str) -> str:
    """A text with the words that PostgreSQL cannot be taught."""
    sql = re.sub(r"\bAS DOUBLE\)", "AS DOUBLE PRECISION)", sql)
    sql = re.sub(r"\b(MEDIAN|QUANTILE_CONT|QUANTILE_DISC|APPROX_QUANTILE|IF)\(", r"\1 (", sql)
    place = 0
    while found := re.compile(r"\b(MEDIAN|QUANTILE_CONT|QUANTILE_DISC|APPROX_QUANTILE|IF) \(").search(
        sql, place
    ):
        parts, end = _arguments(sql, found.end())
        match found[1]:
            case "IF":
                put = f"(CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[2]} END)"
            case "MEDIAN":
                put = f"PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {parts[0]})"
            case name:
                kind = "DISC" if name == "QUANTILE_DISC" else "CONT"
                put = f"PERCENTILE_{kind}({parts[1]}) WITHIN GROUP (ORDER BY {parts[0]})"
        sql = sql[: found.start()] + put + sql[end:]
        place = found.start()
    return sql


def _arguments(sql: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call that opens before this place, and where it ends."""
    parts, depth, place, begun, quoted = [], 0, start, start, False
    while True:
        letter = sql[place]
        if letter == "'":
            quoted = not quoted
        elif not quoted and letter == "(":
            depth += 1
        elif not quoted and letter in ",)" and depth == 0:
            parts.append(sql[begun:place].strip())
            begun = place + 1
            if letter == ")":
                return parts, place + 1
        elif not quoted and letter == ")":
            depth -= 1
        place += 1


@dataclass(slots=True)
class BesidePostgres(Clean):
    """The same beside a PostgreSQL."""

    uri: str = ""
    there: psycopg.Connection[Any] = field(init=False)

    def __post_init__(self) -> None:
        Clean.__post_init__(self)
        self.dialect = "postgres"
        self.there = psycopg.connect(self.uri, autocommit=True)
        schema = f"clean_{uuid.uuid4().hex}"  # those of fewer rows are beside it
        self.there.execute(
            f"CREATE SCHEMA {schema}; SET TIME ZONE 'UTC'; SET search_path TO {schema}, public"
        )
        columns = {table: types_there(declared) for table, declared in self.place.columns.items()}
        fill_with(self.there.execute, columns, self.rows)

    def close(self) -> None:
        """Let go of both engines."""
        Clean.close(self)
        self.there.close()

    def engine(self, sql: str) -> list[tuple[Any, ...]]:
        """What PostgreSQL says to a text."""
        plain = as_there(counting(unlimited(sql)))
        if "//" in plain:  # which binds less than * where it is made
            raise EngineFailed("// is not PostgreSQL's")
        is_rolled = re.search(r"\b(ROLLUP|CUBE)\b", plain) is not None
        try:
            if not is_rolled:  # as it was written, so that no parser's mistake is made twice
                try:
                    return self.there.execute(plain).fetchall()
                except psycopg.errors.DivisionByZero:
                    pass
            return self.there.execute(divided(totals(plain, "postgres"), "postgres")).fetchall()
        except (psycopg.Error, SqlglotError, IndexError) as error:
            raise EngineFailed(str(error)) from None


def explored(seed: str, count: int, tally: Tally, **options: Any) -> Any:
    """Questions about clean policies, read as the Postgres server reads them; what differs."""
    with serving() as server:
        uri = database(server)

        def made(name: str, folder: Path, kind: str) -> Clean:
            author = Author(random.Random(f"clean {name}"))
            author.tables()
            return BesidePostgres(author.place, author.rows, folder, kind, uri=uri)

        yield from explore(seed, count, tally, made=made, **options)


def main() -> int:
    """The command line; exits 1 if anything differs."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--seed", default="1")
    read.add_argument("--count", type=int, default=500, help="questions")
    read.add_argument("--seconds", type=float, default=math.inf)
    read.add_argument("--plain", action="store_true", help="print questions as they were asked, not shrunk")
    read.add_argument("--without", default="$^", help="do not ask what this regular expression finds")
    read.add_argument("--reasons", action="store_true", help="print why questions were refused")
    given = read.parse_args()
    tally, number = Tally(), 0
    options = {"seconds": given.seconds, "shrink": not given.plain, "without": given.without}
    for found in explored(given.seed, given.count, tally, **options):
        number += 1
        print(f"--- {number} ---\n{found}\n", flush=True)
    print(
        f"accepted {tally.accepted}, refused {tally.refused}, not known to PostgreSQL {tally.failed},"
        f" numbers compared {tally.compared}, questions that differ {number}"
    )
    if given.reasons:
        print("\n".join(f"{count:6} {reason}" for reason, count in tally.reasons.most_common(60)))
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
