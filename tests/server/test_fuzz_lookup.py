"""Catalog queries that nobody meant: every one is answered or refused, soon, and without filling the memory.

They run in a process of their own, which can be killed: a regular expression that never ends cannot be
stopped from inside. What comes out of each is written as rows, as text and as bytes, as the wire door does.
"""

from __future__ import annotations

import json
import random
import re
import resource
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.serving import POLICY

from sfumato.errors import SfumatoError
from sfumato.queries import policy as policies
from sfumato.queries.sql import tree
from sfumato.server.catalog import catalog, values
from sfumato.server.catalog.lookup import Lookup
from sfumato.server.catalog.scalars import FUNCTIONS
from sfumato.server.postgres import frames
from sfumato.server.postgres.frames import TooLarge
from sfumato.server.postgres.settings import DEFAULTS, bare, split

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 8.0  # for one statement; ours takes about one, on a machine that does something else, too
GROWTH = 400  # MB that the process may ever need beside what it needs to begin with
SEED = 9
RECORDED = Path(__file__).parent / "recorded.json"

# In a process of its own ------------------------------------------------------------------------------


def answer() -> None:
    """Statements come as lines; what became of each goes back as a line."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # rather than that the machine dies
    shown = catalog.of(
        policies.parse(POLICY.format(epsilon="1"), Path("hospital.toml")), "ana", dict(DEFAULTS)
    )
    print(json.dumps({"peak": _peak()}), flush=True)
    for line in sys.stdin:
        sql, types, given = json.loads(line)
        start = time.perf_counter()
        try:
            outcome = f"{look(shown, sql, types, given)} rows"
        except (SfumatoError, TooLarge):
            outcome = "refused"
        except BaseException as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            at = "" if place is None else f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
            outcome = f"{type(error).__name__} at {at}: {str(error)[:80]}"
        took = time.perf_counter() - start
        print(json.dumps({"outcome": outcome, "seconds": took, "peak": _peak()}), flush=True)


def look(shown: catalog.Catalog, sql: str, types: list[int], given: list[str | None]) -> int:
    """Compile, run and write a statement; how many rows it has."""
    split(sql)  # which comes first at the door
    read = tree(bare(sql), "postgres")
    lookup = Lookup(shown, sql, types)
    query = lookup.compile(read)
    inferred = [*lookup.types, *[0] * len(given)]
    bound = [
        None if value is None else values.read(value.encode(), oid or values.TEXT, binary=False)
        for value, oid in zip(given, inferred, strict=False)
    ]
    rows = lookup.run(query, bound)
    frames.described(query.fields, [])
    for form in (0, 1):
        for row in rows[:1000]:
            frames.row(row, query.fields, [form] * len(query.fields))
    return len(rows)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Child:
    """The process, and another one if it had to be killed."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.test_fuzz_lookup"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.floor = self._line(30)["peak"]

    def _line(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return {}
        told = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(told) if told else {}
        return found

    def ask(self, sql: str, types: list[int] | None = None, given: list[str | None] | None = None) -> str:
        """What is wrong with what became of a statement; nothing if it was answered or refused in time."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([sql, types or [], given or []]) + "\n")
        found = self._line(SECONDS + 1)
        if not found:
            self.stop()
            self._start()
            return f"no answer within {SECONDS + 1:g} s"
        if (told := found["peak"] - self.floor) > GROWTH:
            self.stop()
            self._start()
            return f"{told:.0f} MB: {found['outcome']}"
        if found["seconds"] > SECONDS:
            return f"{found['seconds']:.1f} s: {found['outcome']}"
        return "" if found["outcome"] == "refused" or found["outcome"].endswith(" rows") else found["outcome"]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.stop()


def complaints(child: Child, statements: list[str], seconds: float) -> list[str]:
    """What is wrong, once for every kind of it; as many statements as fit into the time."""
    found: dict[str, str] = {}
    end = time.monotonic() + seconds
    for sql in statements:
        if time.monotonic() > end:
            break
        if told := child.ask(sql):
            found.setdefault(re.sub(r"[\d.]+ (s|MB)|: .*", "", told), f"{told}\n    {sql[:300]}")
    return list(found.values())


def recorded() -> list[str]:
    told = json.loads(RECORDED.read_text(encoding="utf-8"))
    every = {each["sql"].strip().rstrip(";") for each in told["queries"]}
    return sorted(sql for sql in every if sql.lower().startswith(("select", "with", "values")))


# Meant to take long -----------------------------------------------------------------------------------

CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_namespace", "information_schema.columns")
LETTERS = "a" * 200
SLOW = {
    "a name among numbers": "SELECT 1 UNION ALL SELECT 'patients'::regclass",
    "names instead of numbers": "SELECT CASE WHEN n > 0 THEN 'patients'::regclass ELSE 1 END "
    "FROM generate_series(1, 1000) AS g(n)",
    "a type of a million digits": "SELECT CAST(1.5 AS NUMERIC(1000000, 2))",
    "bits of a huge number": "SELECT 1.5 & '1e1000000'",
    "nested brackets": "SELECT " + "(" * 9000 + "1" + ")" * 9000,
    "nested queries": "SELECT (" * 200 + "1" + ")" * 200,
    "nested subqueries in FROM": "SELECT * FROM (" * 200 + "SELECT 1" + ") AS x" * 200,
    "a long sum": "SELECT " + "+".join(["1"] * 9_000),
    "a long chain of NOT": "SELECT " + "NOT " * 5000 + "true",
    "a long chain of casts": "SELECT 1" + "::text::integer" * 1000,
    "nested CASE": "SELECT " + "CASE WHEN true THEN " * 100 + "1" + " END" * 100,
    "nested functions": "SELECT " + "lower(" * 2000 + "'a'" + ")" * 2000,
    "a cross join of many": "SELECT count(*) FROM " + ", ".join(f"pg_attribute a{n}" for n in range(8)),
    "a cross join that finds nothing": "SELECT 1 FROM "
    + ", ".join(f"pg_type a{n}" for n in range(6))
    + " WHERE a0.oid + a1.oid + a2.oid + a3.oid + a4.oid + a5.oid = -1",
    "left joins on anything": "SELECT count(*) FROM pg_type a "
    + " ".join(f"LEFT JOIN pg_type b{n} ON b{n}.oid > a.oid" for n in range(5)),
    "a query for every row": "SELECT (SELECT count(*) FROM pg_attribute b WHERE b.attname <> a.attname AND "
    "(SELECT count(*) FROM pg_attribute c WHERE c.attname <> b.attname) > 1) FROM pg_attribute a",
    "a long series": "SELECT count(*) FROM generate_series(1, 1000000000000) AS s",
    "series of series": "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    "a series in the output": "SELECT generate_series(1, 1000000000000)",
    "a series backwards": "SELECT * FROM generate_series(1000000000000, 1)",
    "a series of nothing": "SELECT * FROM generate_series(NULL, NULL)",
    "a series of words": "SELECT * FROM generate_series('a', 'b')",
    "a series with one end": "SELECT * FROM generate_series(1)",
    "doubling rows by UNION": "WITH a0 AS (SELECT 1 AS x)"
    + "".join(f", a{n + 1} AS (SELECT * FROM a{n} UNION ALL SELECT * FROM a{n})" for n in range(40))
    + " SELECT count(*) FROM a40",
    "doubling rows by joins": "WITH a0 AS (SELECT 1 AS x UNION ALL SELECT 2)"
    + "".join(f", a{n + 1} AS (SELECT p.x FROM a{n} p, a{n} q)" for n in range(10))
    + " SELECT count(*) FROM a10",
    "doubling work without rows": "WITH a0 AS (SELECT 1 AS x WHERE false)"
    + "".join(
        f", a{n + 1} AS (SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM a{n}) OR EXISTS (SELECT 1 FROM a{n}))"
        for n in range(60)
    )
    + " SELECT * FROM a60",
    "doubling work in scalars": "WITH a0 AS (SELECT 1 AS x)"
    + "".join(f", a{n + 1} AS (SELECT (SELECT x FROM a{n}) - (SELECT x FROM a{n}) AS x)" for n in range(60))
    + " SELECT * FROM a60",
    "doubling text": "SELECT x || x FROM (" * 18 + "SELECT 'aaaaaaaaaaaaaaaa' || 'b' AS x" + ") AS t(x)" * 18,
    "doubling text in CTEs": "WITH a0 AS (SELECT repeat('a', 100) || 'aaaaaaaaaa' AS x)"
    + "".join(f", a{n + 1} AS (SELECT x || x AS x FROM a{n})" for n in range(40))
    + " SELECT length(x) FROM a40",
    "growing text by CTEs": "WITH a0 AS (SELECT 'aaaaaaaaaa' AS x)"
    + "".join(f", a{n + 1} AS (SELECT x || x AS x FROM a{n})" for n in range(40))
    + " SELECT length(x) FROM a40",
    "growing text by replace": "WITH a0 AS (SELECT 'aaaaaaaaaa' AS x)"
    + "".join(f", a{n + 1} AS (SELECT replace(x, 'a', x) AS x FROM a{n})" for n in range(10))
    + " SELECT length(x) FROM a10",
    "growing text by format": "WITH a0 AS (SELECT 'aaaaaaaaaa' AS x)"
    + "".join(f", a{n + 1} AS (SELECT format('%s%s%s%s', x, x, x, x) AS x FROM a{n})" for n in range(20))
    + " SELECT length(x) FROM a20",
    "growing text by concat": "WITH a0 AS (SELECT 'aaaaaaaaaa' AS x)"
    + "".join(f", a{n + 1} AS (SELECT concat(x, x, x, x, x, x) AS x FROM a{n})" for n in range(20))
    + " SELECT length(x) FROM a20",
    "growing text by quoting": "WITH a0 AS (SELECT '''\"''' AS x)"
    + "".join(f", a{n + 1} AS (SELECT quote_literal(quote_ident(x)) AS x FROM a{n})" for n in range(40))
    + " SELECT length(x) FROM a40",
    "growing text by string_agg": "WITH a0 AS (SELECT 'aaaaaaaaaa' AS x)"
    + "".join(
        f", a{n + 1} AS (SELECT string_agg(x, x) AS x FROM a{n}, generate_series(1, 100))" for n in range(6)
    )
    + " SELECT length(x) FROM a6",
    "growing arrays": "WITH a0 AS (SELECT ARRAY[1, 2, 3] AS x)"
    + "".join(f", a{n + 1} AS (SELECT x || x AS x FROM a{n})" for n in range(40))
    + " SELECT cardinality(x) FROM a40",
    "arrays in arrays": "WITH a0 AS (SELECT ARRAY[1, 2] AS x)"
    + "".join(f", a{n + 1} AS (SELECT ARRAY[x, x, x, x] AS x FROM a{n})" for n in range(30))
    + " SELECT x FROM a30",
    "growing numbers": "WITH a0 AS (SELECT 99999999999999 AS x)"
    + "".join(f", a{n + 1} AS (SELECT x * x AS x FROM a{n})" for n in range(40))
    + " SELECT x % 7 FROM a40",
    "multiplying text": "SELECT 'aaaaaaaaaa' * 1000000000",
    "multiplying arrays": "SELECT ARRAY[1, 2] * 1000000000",
    "a number of many digits": f"SELECT {'9' * 15_000}",
    "a text as such a number": f"SELECT '{'9' * 15_000}'::integer",
    "a number as text": "SELECT (99999999999999999999999999::numeric * 1e300::numeric)::text",
    "a power of ten": "SELECT '1e999999999'::numeric",
    "and in a sum": "SELECT '1e999999999'::numeric + 1",
    "and as an integer": "SELECT ('1e99999999'::numeric)::integer",
    "repeat": "SELECT repeat('a', 1000000000)",
    "lpad": "SELECT lpad('a', 1000000000)",
    "recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "recursion without the word": "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    "many UNIONs": " UNION ALL ".join(["SELECT 1"] * 1000),
    "many UNIONs of catalogs": " UNION ALL ".join(["TABLE pg_attribute"] * 600),
    "nested UNIONs": "(" * 100 + "SELECT 1" + " UNION SELECT 1)" * 100,
    "a long list": "SELECT count(*) FROM pg_attribute WHERE attnum IN ("
    + ", ".join(map(str, range(3000)))
    + ")",
    "a long list of words": "SELECT count(*) FROM pg_attribute, pg_type WHERE attname IN ("
    + ", ".join(f"'a{n}'" for n in range(2000))
    + ")",
    "a long list for every pair": "SELECT count(*) FROM pg_attribute a, pg_attribute b WHERE a.attnum"
    " + b.attnum IN (" + ", ".join(str(-n) for n in range(100, 3000)) + ")",
    "a long ANY": f"SELECT count(*) FROM pg_attribute WHERE attname = ANY('{{{','.join(['a'] * 9_000)}}}')",
    "many columns": "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(1500)),
    "many stars": "SELECT " + ", ".join(["*"] * 500) + " FROM pg_attribute, pg_type",
    "long VALUES": "VALUES " + ", ".join(f"({n})" for n in range(2500)),
    "distinct pairs": "SELECT DISTINCT a.attname, b.attname FROM pg_attribute a, pg_attribute b",
    "ordered pairs": "SELECT a.attname FROM pg_attribute a, pg_attribute b ORDER BY b.attname DESC, 1",
    "grouped pairs": "SELECT a.attname, array_agg(b.attname) FROM pg_attribute a, pg_attribute b GROUP BY 1",
    "numbered pairs": "SELECT row_number() OVER (PARTITION BY a.attname ORDER BY b.attname) FROM"
    " pg_attribute a, pg_attribute b",
    "LIKE with many signs": f"SELECT '{'a' * 9_000}' LIKE '{'%a' * 5_000}b'",
    "LIKE for every pair": "SELECT count(*) FROM pg_attribute a, pg_attribute b WHERE a.attname || b.attname"
    f" LIKE '{'%_' * 500}'",
    "LIKE with nothing but signs": f"SELECT '{'a' * 9_000}' LIKE '{'%' * 9_000}'",
    "star over a group": f"SELECT '{LETTERS}' ~ '(a+)+$'",
    "star over a choice": f"SELECT '{LETTERS}' ~ '(a|a)*b'",
    "many stars in a row": f"SELECT '{LETTERS}' ~ 'a*a*a*a*a*a*b'",
    "stars over anything": f"SELECT '{LETTERS}' ~ '.*.*.*.*.*.*b'",
    "question marks": f"SELECT '{'a' * 100}' ~ '{'a?' * 90}{'a' * 90}b'",
    "choices in a row": f"SELECT '{LETTERS}' ~ '{'(a|a)' * 50}b'",
    "choices that differ": f"SELECT '{LETTERS}' ~* '{'(a|aa)' * 40}b'",
    "choices of nothing": f"SELECT '{LETTERS}' ~ '{'(a|)' * 60}b'",
    "a regular expression for every pair": "SELECT count(*) FROM pg_attribute a, pg_attribute b WHERE "
    "a.attname || b.attname ~ '^.*a.*b.*$'",
    "backreferences": f"SELECT '{LETTERS}' ~ '(a*)\\1b'",
    "no regular expression": "SELECT 'a' ~ '('",
    "a class that never ends": "SELECT 'a' ~ '[[[[[[['",
    "comments that never end": "SELECT 1 " + "/* " * 100_000,
    "dollars that never end": "SELECT 1 " + " ".join(f"$a{n}$" for n in range(50_000)),
    "quotes": "SELECT " + "'" * 499_999,
    "semicolons": ";" * 500_000,
}


@pytest.mark.parametrize("name", SLOW)
def test_what_is_meant_to_take_long_is_answered_or_refused_soon(child: Child, name: str) -> None:
    assert not child.ask(SLOW[name]), name


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT $1::int", "SELECT pg_size_pretty($1)", "SELECT substr('abc', $1)", "SELECT $1 & 1"),
        *("SELECT (ARRAY[1, 2])[$1]", "SELECT 1 LIMIT $1", "SELECT $1 + 1", "SELECT round($1)"),
    ],
)
@pytest.mark.parametrize("value", ["1e500000", "-1e500000", "1e-500000", "1e999"])
def test_a_value_with_a_huge_exponent_ends(sql: str, value: str, child: Child) -> None:
    assert not child.ask(sql, [values.NUMERIC], [value])


# Meant to be wrong ------------------------------------------------------------------------------------

ODD = (
    "NULL", "0", "-1", "7", "2147483648", "99999999999999999999999", "1.5", "'1e308'::float8",
    "'NaN'::float8", "'Infinity'::float8", "'1e400'::numeric", "''", "'a'", "'patients'", "'{a,NULL,\"b\"}'",
    "true", "ARRAY[1, NULL]", "ARRAY['a']", "ARRAY[]::text[]", "DATE '2024-01-31'",
    "TIMESTAMP '2024-01-31 10:00:00'", "'patients'::regclass", "(1, 2)", "(SELECT 1 WHERE false)",
    "(SELECT oid FROM pg_class)", "'\u00e9\U0001f600'",
)  # fmt: skip
SIGNS = ("+", "-", "*", "/", "%", "&", "||", "=", "<", "<>", "~", "LIKE", "IS DISTINCT FROM", "AND", "= ANY")
NAMES = (
    "integer", "smallint", "bigint", "oid", "text", "boolean", "float8", "numeric", "date", "timestamp",
    "regclass", "regtype", "regproc", "regnamespace", "text[]", "integer[]", "char", "name", "bytea", "json",
    "uuid", "interval", "nothing",
)  # fmt: skip


def odd() -> list[str]:
    made = [f"SELECT {a}::{name}" for a in ODD for name in NAMES]
    made += [
        f"SELECT {a} {sign} ({b})" if sign == "= ANY" else f"SELECT {a} {sign} {b}"
        for a in ODD
        for b in ODD
        for sign in SIGNS
    ]
    for name in sorted(FUNCTIONS):
        made.append(f"SELECT {name}()")
        made += [f"SELECT {name}({a})" for a in ODD]
        made += [f"SELECT {name}({a}, {b})" for a, b in zip(ODD, ODD[5:] + ODD[:5], strict=True)]
        made += [f"SELECT {name}({a}, 'a', {a})" for a in ODD[::3]]
    for name in ("count", "array_agg", "string_agg", "min", "max", "sum", "avg", "bool_and", "unnest"):
        made += [f"SELECT {name}({a}) FROM pg_class" for a in ODD]
        made += [f"SELECT {name}(DISTINCT {a}), 1 FROM pg_class GROUP BY {a} ORDER BY {a}" for a in ODD]
    made += [
        f"SELECT * FROM {name}({a})" for name in ("unnest", "generate_series", "aclexplode") for a in ODD
    ]
    made += [f"SELECT 1 FROM pg_class LIMIT {a} OFFSET {b}" for a in ODD for b in ("0", a)]
    made += [f"SELECT * FROM pg_class WHERE {a} ORDER BY {a}, {n}" for n, a in enumerate(ODD)]
    made += [f"SELECT * FROM pg_class a JOIN pg_type b ON {a} = b.oid WHERE a.relname = {a}" for a in ODD]
    made += [f"SELECT CASE {a} WHEN {b} THEN {a} ELSE {b} END" for a in ODD for b in ODD[::2]]
    made += [f"SELECT ({a})[{b}], ARRAY[{a}, {b}]" for a in ODD for b in ODD[::2]]
    made += [f"SELECT {a} BETWEEN {b} AND {a}, {a} IN ({b}, {a})" for a in ODD for b in ODD[::2]]
    made += [f"SELECT DISTINCT {a} UNION SELECT {b} ORDER BY 1" for a in ODD for b in ODD[::2]]
    return made


def test_values_of_every_kind_in_every_place_are_answered_or_refused(child: Child) -> None:
    every = odd()
    random.Random(SEED).shuffle(every)
    assert complaints(child, every, 3.5) == []


# Recorded, and then spoiled ---------------------------------------------------------------------------

_TOKENS = re.compile(
    r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_][\w$]*|\d+(?:\.\d+)?|::|<>|<=|>=|!~|\|\||.", re.DOTALL
)


def spoiled(every: list[str], chance: random.Random) -> str:
    """A statement made of recorded ones."""
    one, other = chance.choice(every), chance.choice(every)
    match chance.randrange(9):
        case 0:
            return f"SELECT * FROM ({one}) AS a, ({other}) AS b"
        case 1:
            return f"WITH a AS ({one}), b AS ({other}) SELECT * FROM a LEFT JOIN b ON true ORDER BY 1"
        case 2:
            return f"{one} UNION {other}"
        case 3:
            return f"SELECT ({one}), EXISTS ({other}), 1 IN ({one})"
    left, right = _TOKENS.findall(one), _TOKENS.findall(other)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, place = chance.randrange(len(left)), chance.randrange(len(right))
        match chance.randrange(6):
            case 0:
                del left[at : at + chance.choice((1, 1, 3, 10))]
            case 1:
                left[at:at] = left[at : at + 8]
            case 2:
                left[at] = right[place]
            case 3:
                left[at:at] = right[place : place + chance.randrange(1, 30)]
            case 4:
                left[at] = chance.choice(ODD)
            case 5:
                left = left[:at] + right[place:]
        left = left or ["SELECT"]
    return "".join(left)


def test_recorded_statements_and_what_can_be_made_of_them_are_answered_or_refused(child: Child) -> None:
    every, chance = recorded(), random.Random(SEED)
    assert len(every) > 50
    assert complaints(child, every + [spoiled(every, chance) for _ in range(5000)], 4) == []


if __name__ == "__main__":
    answer()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("CAST(2.5 AS INT)", "3"),
        ("CAST(-2.5 AS INT)", "-3"),
        ("CAST(2.5::float8 AS INT)", "2"),
        ("CAST('7' AS INT)", "7"),
        ("0.1 + 0.2", "0.3"),
        ("0.1 + 0.2 = 0.3", "t"),
        ("0.1::float8 + 0.2", "0.30000000000000004"),
        ("0.1::float8 = 0.1", "t"),
        ("0.1 = '0.1'", "t"),
        ("9007199254740993 / 1", "9007199254740993"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("7.5 % -2", "1.5"),
        ("'2024-01-01 10:00'::timestamp::date", "2024-01-01"),
        ("date '2024-03-01' - date '2024-02-01'", "29"),
        ("date '2024-02-28' + 2", "2024-03-01"),
        ("date '2024-01-01' = '2024-01-01'", "t"),
        ("date '2024-01-01' = timestamp '2024-01-01'", "t"),
        ("'off'::boolean", "f"),
        ("true = 'yes'", "t"),
        ("1.55::numeric(10,1)", "1.6"),
        ("'abc'::varchar(2)", "ab"),
        ("btrim('xxaxx', 'x')", "a"),
        ("'1' IS DISTINCT FROM 1", "f"),
        ("true::text", "true"),
        ("'a' || true", "atrue"),
        ("abs(-2.5)", "2.5"),
        ("json_build_object('x', 0.5::float8, 'n', 'NaN'::float8)", '{"x" : 0.5, "n" : "NaN"}'),
        (
            "json_build_object('a', null, 'b', 1, 'c', ARRAY[1, 2], 'd', 'x\"y', 'e', 1.5)",
            '{"a" : null, "b" : 1, "c" : [1,2], "d" : "x\\"y", "e" : 1.5}',
        ),
        ("has_table_privilege('patients', 'select')", "t"),
        ("has_table_privilege('information_schema.tables', 'select')", "t"),
    ],
)
def test_numbers_without_a_table_are_those_of_postgresql(sql: str, value: str) -> None:
    shown = catalog.of(
        policies.parse(POLICY.format(epsilon="1"), Path("hospital.toml")), "ana", dict(DEFAULTS)
    )
    lookup = Lookup(shown, f"SELECT {sql}", [])
    rows = lookup.run(lookup.compile(tree(f"SELECT {sql}", "postgres")), [])
    assert [[values.text_of(each) for each in row] for row in rows] == [[value]]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CAST(3000000000 AS INT)", "22003"),
        ("CAST(40000 AS SMALLINT)", "22003"),
        ("1e300 * 1e300", "0A000"),
        ("1 / 0", "22012"),
        ("7.5 % 0", "22012"),
        ("120::numeric(2,0)", "22003"),
        ("'maybe'::boolean", "22P02"),
        ("'abc'::int", "22P02"),
        ("'abc'::date", "22007"),
        ("date '2024-01-01' = 'abc'", "22007"),
        ("1 BETWEEN SYMMETRIC 2 AND 0", "0A000"),
        ("ARRAY[1,2] || 3", "0A000"),
        ("now() - now()", "0A000"),
        ("nosuch(1)", "42883"),
        ("has_table_privilege('nosuch', 'select')", "42P01"),
        ("has_any_column_privilege('ana', 'nosuch', 'select')", "42P01"),
        ("json_build_object('a')", "22023"),
        ("json_build_object(null, 1)", "22023"),
    ],
)
def test_numbers_that_postgresql_does_not_have_are_refused(sql: str, code: str) -> None:
    shown = catalog.of(
        policies.parse(POLICY.format(epsilon="1"), Path("hospital.toml")), "ana", dict(DEFAULTS)
    )
    lookup = Lookup(shown, f"SELECT {sql}", [])
    with pytest.raises(SfumatoError) as error:
        lookup.run(lookup.compile(tree(f"SELECT {sql}", "postgres")), [])
    assert error.value.sqlstate == code
