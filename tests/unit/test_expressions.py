"""Expressions on one row: Python and the engine agree, bounds hold, and nothing in a row makes them fail."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sfumato.queries.cells import Clamp
from sfumato.queries.domains import BIGGEST, RULES, call, joined, longest
from sfumato.queries.expressions import (
    LARGEST,
    MOST_LISTED,
    Call,
    Constant,
    Domain,
    Field,
    Scalar,
    Unusable,
    bounds,
    clamped,
    constant,
    evaluate,
    possible,
)
from sfumato.queries.functions import PARTS, UNITS, Null, _like
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.printing import expression as printed_expression
from sfumato.sources.printing import quoted
from sfumato.sources.values import lowered
from sfumato.sources.work import TYPES, ColumnValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.queries.declared import Kind, Value

DATE, STAMP = datetime.date, datetime.datetime
NULL = constant(None, "boolean")


def whole(value: int) -> Constant:
    return constant(value, "integer")


def real(value: float) -> Constant:
    return constant(value, "number")


def text(value: str) -> Constant:
    return constant(value, "text")


def day(value: str) -> Constant:
    return constant(DATE.fromisoformat(value), "date")


def moment(value: str) -> Constant:
    return constant(STAMP.fromisoformat(value), "timestamp")


# Columns: as the policy declares them, as the engine stores them, and what stands in them.

LOW, HIGH = DATE(2019, 12, 28), DATE(2024, 3, 1)
I = Field("i", Domain("integer", Fraction(-7), Fraction(12)))  # noqa: E741  # an integer
J = Field("j", Domain("integer", Fraction(1), Fraction(10**6)))
X = Field("x", Domain("number", Fraction(-5, 2), Fraction(29, 4), 16))
Y = Field("y", Domain("number", Fraction(1, 3), Fraction(10**12), 4))
T = Field("t", Domain("text"))
B = Field("b", Domain("boolean"))
D = Field("d", Domain("date", since=LOW, until=HIGH))
S = Field("s", Domain("timestamp", since=LOW, until=HIGH))
FREE = Field("free", Domain("integer"))  # nothing is declared of these
WILD = Field("wild", Domain("number"))
DAY = Field("day", Domain("date"))
SEEN = Field("seen", Domain("timestamp"))
FIELDS = (I, J, X, Y, T, B, D, S, FREE, WILD, DAY, SEEN)
STORED = {
    "i": "HUGEINT",
    "j": "BIGINT",
    "x": "DOUBLE",
    "y": "FLOAT",
    "t": "VARCHAR COLLATE NOCASE",
    "b": "BOOLEAN",
    "d": "DATE",
    "s": "TIMESTAMP",
    "free": "HUGEINT",
    "wild": "DOUBLE",
    "day": "DATE",
    "seen": "TIMESTAMP",
}
HUGE = [2**127 - 1, -(2**127), 2**64, -(2**63), 2**63 - 1, 2**53 + 1, 0, 1, -1]
FLOATS = ["nan", "inf", "-inf", "1e308", "-1e308", "5e-324", "-0.0", "0.5", "9007199254740993", "2.5"]
DAYS = ["infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)", "0001-01-01", "9999-12-31"]
DAYS += ["10000-01-01", "2020-02-29", "2019-12-30", "1970-01-01"]
MOMENTS = ["infinity", "-infinity", "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00"]
MOMENTS += [
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "2020-02-29 12:34:56.789",
    "2019-12-30 00:00:00",
]
HOSTILE: dict[str, list[object]] = {
    "i": [None, *range(-9, 15), *HUGE],
    "j": [None, *range(5), 10**6, 10**6 + 1, 2**63 - 1, -(2**63)],
    "x": [None, *FLOATS, "7.25", "7.26", "-2.5", "-2.51", "0.1", "1e16"],
    "y": [None, "nan", "inf", "-inf", "3.4e38", "-3.4e38", "1e-45", "0.333", "1e12", "17.5"],
    "t": [None, "", " a ", "A", "a", "é", "ß", "O'Brien", "%_\\", "日本", "🙂", "12", "x" * 100_000, "\t\n"],
    "b": [None, True, False],
    "d": [None, *DAYS],
    "s": [None, *MOMENTS],
    "free": [None, *HUGE],
    "wild": [None, *FLOATS],
    "day": [None, *DAYS],
    "seen": [None, *MOMENTS],
}


def column(field: Field) -> ColumnValue:
    return ColumnValue("t", field.name, TYPES[field.domain.kind])


def scalar_text(expression: Scalar, of: Callable[[Field], ColumnValue]) -> str:
    return printed_expression(lowered(expression, of), DUCKDB, stored=["t"])


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows in which every hostile value stands at least once, beside others by chance."""
    rng, rows = random.Random(1), max(map(len, HOSTILE.values())) * 3
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(f'{n} {k}' for n, k in STORED.items())})")
        columns = [[*values, *rng.choices(values, k=rows - len(values))] for values in HOSTILE.values()]
        for values in columns:
            rng.shuffle(values)
        for row in zip(*columns, strict=True):
            connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", _cast(row))
        yield connection


def _cast(row: tuple[object, ...]) -> list[object]:
    return [str(each) if isinstance(each, int) and not isinstance(each, bool) else each for each in row]


def computed(engine: duckdb.DuckDBPyConnection, expression: Scalar) -> list[Any]:
    """What the engine makes of an expression on every hostile row."""
    return [row[0] for row in engine.execute(f"SELECT {_shown(expression)} FROM t").fetchall()]


def _shown(expression: Scalar) -> str:
    """As it is printed; dates that Python has none of come back as text."""
    printed = scalar_text(expression, column)
    return f"CAST({printed} AS VARCHAR)" if expression.domain.kind in ("date", "timestamp") else printed


# What Python says is what the engine computes --------------------------------------------------------

INTEGERS: list[Value] = [*range(-7, 13)]
NUMBERS: list[Value] = [
    -2.5,
    -1.5,
    -0.5,
    -0.1,
    0.0,
    0.05,
    0.1,
    0.30000000000000004,
    0.5,
    1.0,
    1.005,
    1.5,
    2.5,
]
NUMBERS += [2.675, 3.0, 3.5, 4.35, 6.999999999999999, 7.25]
TEXTS: list[Value] = [
    "",
    " ",
    " a ",
    "A",
    "a",
    "Abc",
    "aBC",
    "é",
    "É",
    "O'Brien",
    "%",
    "_",
    "a%b",
    "\\",
    "日本語",
]
TEXTS += ["🙂x", "\ta\n", "12", "x" * 2000]
BOOLEANS: list[Value] = [False, True]
DATES: list[Value] = [LOW + datetime.timedelta(days) for days in range(0, (HIGH - LOW).days + 1, 3)]
DATES += [DATE(2020, 2, 29), DATE(2020, 12, 31), DATE(2021, 1, 1), DATE(2021, 1, 3), DATE(2021, 1, 4), HIGH]
STAMPS: list[Value] = [
    STAMP(2019, 12, 28),
    STAMP(2020, 2, 29, 23, 59, 59, 999_999),
    STAMP(2020, 12, 31, 12, 34, 56, 789_000),
    STAMP(2021, 1, 3, 0, 0, 1),
    STAMP(2024, 3, 1, 23, 59, 59),
]
SANE: dict[Field, list[Value]] = {
    I: INTEGERS,
    X: NUMBERS,
    T: TEXTS,
    B: BOOLEANS,
    D: DATES,
    S: STAMPS,
}
i, x, d, s = clamped(I), clamped(X), clamped(D), clamped(S)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
CASES: dict[str, list[Scalar]] = {
    "clamp": [i, x],
    "sane": [d, s],
    "and": [
        call("and", call(">", I, whole(0)), call("<", I, whole(5))),
        call("and", B, NULL),
        call("and", B, B),
    ],
    "or": [call("or", call(">", I, whole(9)), call("<", I, whole(5))), call("or", B, NULL), call("or", B, B)],
    "not": [call("not", B), call("not", call(">", X, real(0.5)))],
    "is null": [call("is null", each) for each in (I, X, T, B, D, S)],
    **{
        sign: [
            call(sign, I, whole(3)),
            call(sign, I, real(2.5)),
            call(sign, X, real(0.1)),
            call(sign, X, whole(1)),
            call(sign, T, text("a")),
            call(sign, D, day("2021-01-03")),
            call(sign, S, moment("2020-12-31T12:34:56.789")),
            call(sign, B, constant(True, "boolean")),
        ]
        for sign in COMPARISONS
    },
    "in": [
        call("in", I, whole(3), whole(-7)),
        call("in", X, real(0.1), real(2.5)),
        call("in", T, text("a"), text("O'Brien"), text("%")),
        call("in", D, day("2021-01-03")),
    ],
    "case": [
        call("case", call(">", I, whole(3)), text("many"), call(">", I, whole(0)), text("few"), text("none")),
        call("case", call(">", X, real(0.5)), x, whole(0)),
        call("case", B, whole(1), NULL),
        call("case", call("is null", T), text("?"), T),
    ],
    "coalesce": [
        call("coalesce", i, whole(99)),
        call("coalesce", x, whole(1)),
        call("coalesce", T, text("none")),
        call("coalesce", NULL, i),
        call("coalesce", call("nullif", i, whole(0)), NULL),
    ],
    "nullif": [call("nullif", i, whole(3)), call("nullif", x, whole(1)), call("nullif", T, text("a"))],
    "+": [call("+", i, whole(5)), call("+", x, real(0.2)), call("+", i, real(0.5)), call("+", x, whole(3))],
    "-": [call("-", i, whole(5)), call("-", x, real(0.2)), call("-", whole(3), i), call("-", i, i)],
    "*": [call("*", i, whole(-5)), call("*", x, real(0.1)), call("*", x, x), call("*", i, real(0.3))],
    "/": [call("/", i, whole(3)), call("/", x, real(0.3)), call("/", whole(5), i), call("/", i, whole(-2))],
    "//": [call("//", i, whole(3)), call("//", i, whole(-3)), call("//", whole(20), i)],
    "%": [call("%", i, whole(3)), call("%", i, whole(-3)), call("%", whole(20), i)],
    "negate": [call("negate", i), call("negate", x)],
    "abs": [call("abs", i), call("abs", x)],
    "sign": [call("sign", i), call("sign", x)],
    "floor": [call("floor", i), call("floor", x), call("floor", call("/", i, whole(10)))],
    "ceil": [call("ceil", i), call("ceil", x), call("ceil", call("/", i, whole(10)))],
    "round": [call("round", each, whole(n)) for each in (i, x) for n in (-1, 0, 1, 2)],
    "sqrt": [call("sqrt", call("+", i, whole(8))), call("sqrt", x), call("sqrt", i)],
    "least": [
        call("least", i, whole(3)),
        call("least", x, whole(1)),
        call("least", T, text("b")),
        call("least", i, i),
    ],
    "greatest": [
        call("greatest", i, whole(3)),
        call("greatest", x, whole(1)),
        call("greatest", D, day("2021-01-03")),
    ],
    "bucket": [
        call("bucket", I, whole(0), whole(10), whole(5)),
        call("bucket", I, whole(0), whole(10), whole(7)),
        call("bucket", X, real(0.1), real(0.7), whole(6)),
        call("bucket", X, whole(-1), whole(3), whole(3)),
    ],
    "like": [call("like", T, text(p)) for p in ("a%", "%b", "_", "%", "", "a\\%b", "日%", "A__")],
    "ilike": [call("ilike", T, text(p)) for p in ("a%", "%B%", "_", "É", "a__")],
    "starts with": [call("starts with", T, text(p)) for p in ("a", "", "日", "%")],
    "contains": [call("contains", T, text(p)) for p in ("b", "", "本", "%", "'")],
    "lower": [call("lower", T)],
    "upper": [call("upper", T)],
    "trim": [call("trim", T)],
    "strip": [call("strip", T, constant(" a", "text")), call("strip", T, constant("", "text"))],
    "concat": [call("concat", T, text("!")), call("concat", T, T)],
    "substring": [call("substring", T, whole(a), whole(n)) for a in (1, 2, 7) for n in (0, 1, 3, 1000)],
    "left": [call("left", T, whole(n)) for n in (0, 1, 3, 1000)],
    "right": [call("right", T, whole(n)) for n in (0, 1, 3, 1000)],
    "length": [call("length", T)],
    "split part": [call("split part", T, text(by), whole(n)) for by in ("b", " ") for n in (1, 2, 9)],
    "replace": [call("replace", T, text("a"), text("xy")), call("replace", T, text("bc"), text(""))],
    "position": [call("position", T, text("b")), call("position", T, text(""))],
    "regexp matches": [call("regexp matches", T, text(p)) for p in ("^[a-c]", "b(c|$)", r"\d", ".")],
    "regexp replace": [
        call("regexp replace", T, text("[a-c]+"), text(r"<\0>"), constant(everywhere, "boolean"))
        for everywhere in (False, True)
    ],
    "regexp extract": [call("regexp extract", T, text("(.)b"), whole(n)) for n in (0, 1)],
    "ln": [call("ln", call("+", i, whole(8)))],
    "exp": [call("exp", x), call("exp", i)],
    "power": [call("power", call("+", i, whole(8)), whole(n)) for n in (0, 1, 2)],
    "add days": [call("add days", each, whole(n)) for each in (d, s) for n in (40, -1, 0)],
    "add months": [call("add months", each, whole(n)) for each in (d, s) for n in (1, -13, 0, 24)],
    "add seconds": [call("add seconds", s, whole(n)) for n in (90, -86401)],
    "to timestamp": [call("to timestamp", d)],
    "part": [call("part", text(unit), each) for unit in ("year", *PARTS) for each in (d, s)],
    "trunc": [call("trunc", text(unit), each) for unit in UNITS for each in (d, s)],
    "diff": [
        *(call("diff", text(unit), d, day("2021-06-15")) for unit in UNITS if unit != "week"),
        *(call("diff", text(unit), s, moment("2021-06-15T13:00:30")) for unit in UNITS if unit != "week"),
        *(call("diff", text(unit), day("2021-06-15"), d) for unit in UNITS if unit != "week"),
    ],
    "to date": [call("to date", s)],
    "to number": [call("to number", i)],
    "to single": [call("to single", i), call("to single", x)],
    "to decimal": [call("to decimal", each, whole(n)) for each in (i, x) for n in (0, 1, 3)],
    "to integer": [call("to integer", x), call("to integer", B), call("to integer", call("/", i, whole(2)))],
    "to text": [call("to text", each) for each in (i, T, B, d)],
}


def test_every_function_is_compared_with_the_engine() -> None:
    assert set(CASES) == set(RULES) | {"clamp", "sane"}


def on_each(engine: duckdb.DuckDBPyConnection, expression: Scalar, field: Field) -> list[tuple[Any, Any]]:
    """A sane value, and what the engine makes of it; NULL is the last."""
    values = [*SANE[field], None]
    kind = {"i": "BIGINT", "x": "DOUBLE", "t": "VARCHAR"}.get(field.name, STORED[field.name])
    engine.execute(f"CREATE OR REPLACE TABLE sane (n INTEGER, {quoted(field.name)} {kind})")
    engine.executemany("INSERT INTO sane VALUES (?, ?)", [*enumerate(values)])
    sql = f"SELECT {scalar_text(expression, column)} FROM sane AS t ORDER BY n"
    return list(zip(values, (row[0] for row in engine.execute(sql).fetchall()), strict=True))


def only_field(expression: Scalar) -> Field:
    if isinstance(expression, Call):
        found = {only_field(each) for each in expression.arguments if not isinstance(each, Constant)}
        assert len(found) == 1
        return found.pop()
    assert isinstance(expression, Field)
    return expression


def _is_left_to_the_engine(expression: Scalar) -> bool:
    """Patterns, and differences in hours and less: Python says nothing of them, and no key rests on it."""
    assert isinstance(expression, Call)
    if expression.function in ("like", "ilike"):
        return possible(expression) == (False, True)
    unit = expression.arguments[0]
    fine = expression.function == "diff" and isinstance(unit, Constant) and unit.value in UNITS[-3:]
    return fine and possible(expression) is None


@pytest.mark.slow
@pytest.mark.parametrize("function", sorted(CASES))
def test_what_python_says_is_what_the_engine_computes(
    function: str, engine: duckdb.DuckDBPyConnection
) -> None:
    """On every value of its column and on NULL, for every function: the same value of the same type."""
    wrong = []
    for expression in CASES[function]:
        for value, expected in on_each(engine, expression, only_field(expression)):
            try:
                found: Any = evaluate(expression, value)
            except (ValueError, KeyError) as error:
                if _is_left_to_the_engine(expression):
                    continue
                found = error
            if isinstance(found, Fraction):  # a decimal, which is compared as a double
                found = float(found)
            same = expected is None if found is Null.NULL else found == expected
            if same and not isinstance(found, Null) and expression.domain.kind != "number":
                same = type(found) is type(expected)  # 1 among numbers is 1.0
            if not same:
                wrong.append((scalar_text(expression, column), value, found, expected))
    assert not wrong


FOREIGN: list[Value] = [
    "Straße",
    "İstanbul",
    "ΑΣ",
    "ŉ",
    "ǆ",
    "\u00a0a\u00a0",
    "\u3000a",
    "e\u0301",
    "👨‍👩‍👧x",
]


@pytest.mark.parametrize("function", ["lower", "upper", "trim", "length", "left", "right", "substring"])
def test_python_and_the_engine_agree_on_every_script(
    function: str, engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A declared key that one of them spells otherwise would be a group that nobody is in."""
    monkeypatch.setitem(SANE, T, FOREIGN)
    for expression in CASES[function]:
        for value, expected in on_each(engine, expression, T):
            try:
                found = evaluate(expression, value)
            except ValueError:  # one letter becomes several, or a blank that is no space: nothing is said
                assert function in ("lower", "upper", "trim")
                continue
            assert (None if found is Null.NULL else found) == expected, (value, found, expected)


@pytest.mark.parametrize("function", ["and", "or"])
def test_logic_has_three_values(function: str, engine: duckdb.DuckDBPyConnection) -> None:
    truths = [constant(True, "boolean"), constant(False, "boolean"), NULL]
    for parts in itertools.chain(itertools.product(truths, repeat=2), itertools.product(truths, repeat=3)):
        expression = call(function, *parts)
        (expected,) = engine.execute(f"SELECT {scalar_text(expression, column)}").fetchone() or ()
        found = evaluate(expression, None)
        assert (None if found is Null.NULL else found) == expected


def test_what_compares_with_null_is_unknown_and_least_and_greatest_leave_it_out(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    for value in (None, 3):
        expressions = [
            *(call(sign, I, whole(3)) for sign in COMPARISONS),
            call("not", call("=", I, whole(3))),
            call("in", I, whole(3)),
            call("least", i, whole(2)),
            call("greatest", i, whole(9)),
            call("coalesce", i, whole(9)),
            call("case", call("=", I, whole(3)), whole(1), whole(0)),
            call("nullif", i, whole(3)),
            call("+", i, whole(1)),
            call("is null", I),
        ]
        for expression in expressions:
            sql = f"SELECT {scalar_text(expression, column)} FROM (SELECT CAST(? AS BIGINT) AS i) AS t"
            (expected,) = engine.execute(sql, [value]).fetchone() or ()
            found = evaluate(expression, value)
            assert (None if found is Null.NULL else found) == expected, expression


# Which values there can be ---------------------------------------------------------------------------

KEYED = Field("t", Domain("text", keys=("A", "b", "É", "")))
FEW = Field("d", Domain("date", since=DATE(2020, 2, 27), until=DATE(2020, 3, 2)))
SHORT = Field("s", Domain("timestamp", since=DATE(2020, 2, 28), until=DATE(2020, 3, 1)))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (I, tuple(range(-7, 13))),
        (clamped(I), tuple(range(-7, 13))),
        (B, (False, True)),
        (X, None),
        (T, None),
        (FREE, None),
        (KEYED, ("A", "b", "É", "")),
        (call("lower", KEYED), ("a", "b", "é", "")),
        (call("length", KEYED), (0, 1)),
        (call("like", KEYED, text("A%")), (False, True)),
        (whole(3), (3,)),
        (NULL, ()),
        (call("//", i, whole(5)), (-1, 0, 1, 2)),
        (call("%", i, whole(4)), (-3, -2, -1, 0, 1, 2, 3)),
        (call("nullif", call("%", i, whole(2)), whole(0)), (-1, 1)),
        (call("is null", I), (False, True)),
        (call(">", X, real(0.0)), (False, True)),
        (call("floor", x), tuple(range(-3, 8))),
        (call("bucket", X, whole(0), whole(3), whole(3)), (0, 1, 2, 3, 4)),
        (call("case", call(">", X, real(0.0)), text("up"), text("down")), ("up", "down")),
        (call("case", call(">", X, real(0.0)), text("up"), KEYED), ("up", "A", "b", "É", "")),
        (call("coalesce", KEYED, text("none")), ("none", "A", "b", "É", "")),
        (call("case", call(">", I, whole(50)), text("never"), text("always")), ("always",)),
        (call("trunc", text("month"), clamped(FEW)), (DATE(2020, 2, 1), DATE(2020, 3, 1))),
        (call("part", text("day"), clamped(FEW)), (1, 2, 27, 28, 29)),
        (call("to date", clamped(SHORT)), (DATE(2020, 2, 28), DATE(2020, 2, 29), DATE(2020, 3, 1))),
        (call("part", text("hour"), clamped(SHORT)), tuple(range(24))),
        (call("trunc", text("hour"), clamped(SHORT)), None),
        (clamped(J), None),  # too many to list
    ],
)  # fmt: skip
def test_possible_lists_every_value_that_is_public(
    expression: Scalar, expected: tuple[Value, ...] | None
) -> None:
    assert possible(expression) == expected


def test_at_most_many_values_are_listed() -> None:
    for size, listed in ((MOST_LISTED - 1, True), (MOST_LISTED, True), (MOST_LISTED + 1, False)):
        field = Field("i", Domain("integer", Fraction(1), Fraction(size)))
        assert (possible(field) is not None) == listed
        assert (possible(clamped(field)) is not None) == listed
        assert possible(call("%", clamped(field), whole(2))) == (0, 1)  # by trying, or by its bounds


LISTED = [*itertools.chain.from_iterable(CASES.values())]


@pytest.mark.slow
def test_no_value_of_a_row_is_missing_among_the_possible_ones(engine: duckdb.DuckDBPyConnection) -> None:
    """Whatever stands in the rows, hostile or not: outside of declared bounds it is clamped first."""
    missing = []
    for expression in LISTED:
        field = only_field(expression)
        if field in (I, B, D, S) and (listed := possible(expression)) is not None:
            raw = field in (I, D, S) and _is_raw(expression, field)
            seen = {each for _, each in on_each(engine, expression, field) if each is not None}
            if not raw:
                seen |= {
                    _python(each, expression) for each in computed(engine, expression) if each is not None
                }
            if not seen <= set(listed):
                missing.append((scalar_text(expression, column), seen - set(listed)))
    assert not missing


def _is_raw(expression: Scalar, field: Field) -> bool:
    """Whether a column stands in it as it is, not clamped: then values beyond the bounds are nobody's key."""
    if expression == field:
        return True
    if isinstance(expression, Call) and expression.function not in ("clamp", "sane"):
        return any(_is_raw(each, field) for each in expression.arguments)
    return False


def _python(value: Any, expression: Scalar) -> Any:
    kinds: dict[Kind, Any] = {"date": DATE.fromisoformat, "timestamp": STAMP.fromisoformat}
    read = kinds.get(expression.domain.kind)
    return value if read is None else read(value)


# Bounds hold, and nothing fails ----------------------------------------------------------------------


NUMBER_LEAVES: list[Scalar] = [
    *(clamped(field) for field in (I, J, X, Y)),
    call("least", call("greatest", FREE, whole(-3)), whole(9)),
    call("greatest", call("least", WILD, real(4.5)), real(-0.25)),
    *(whole(n) for n in (0, 1, -1, 2, 7, 1000)),
    *(real(v) for v in (0.0, 0.1, -0.5, 2.5, 1e6)),
]
TEXT_LEAVES: list[Scalar] = [T, text(""), text("a'b"), text("%")]
DATE_LEAVES: list[Scalar] = [clamped(D), clamped(DAY), day("2021-01-03")]
STAMP_LEAVES: list[Scalar] = [clamped(S), clamped(SEEN), moment("2020-02-29T12:00:00")]
CONDITION_LEAVES: list[Scalar] = [
    B,
    call("is null", WILD),
    call(">", FREE, whole(3)),
    call("<=", WILD, real(0.5)),
    call("=", DAY, day("2020-02-29")),
    call("<", SEEN, moment("2020-02-29T12:00:00")),
    call("in", FREE, whole(0), whole(7)),
    call("in", WILD, whole(0), real(0.5)),
    call("=", FREE, real(0.5)),
    call("<", FREE, WILD),
    call("like", T, text("a%")),
    call("ilike", T, text("%É\\_")),
    call("starts with", T, text("")),
    call("contains", T, text("b")),
]
LEAVES: dict[Kind, list[Scalar]] = {
    "number": NUMBER_LEAVES,
    "text": TEXT_LEAVES,
    "date": DATE_LEAVES,
    "timestamp": STAMP_LEAVES,
    "boolean": CONDITION_LEAVES,
}
ONE_NUMBER = ("negate", "abs", "sign", "floor", "ceil", "sqrt", "to number", "to integer")
OF_ANY = ("coalesce", "nullif", "least", "greatest", "case")
SPANS = [unit for unit in UNITS if unit != "week"]
COUNTS = [whole(n) for n in (0, 1, 5, 1000)]


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows an expression of a kind, as the reader would make it: numeric columns are clamped."""

    draw: some.DrawFn

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(some.sampled_from(options))

    def grown(self, kind: Kind, depth: int) -> Scalar:
        if depth == 0 or self.draw(some.integers(0, 3)) == 0:
            return self.pick(LEAVES[kind])  # type: ignore[no-any-return]
        function, *arguments = self.parts(kind, depth - 1)
        try:
            return call(function, *arguments)
        except Unusable:
            return self.pick(LEAVES[kind])  # type: ignore[no-any-return]

    def parts(self, kind: Kind, depth: int) -> tuple[Any, ...]:
        """A function and its arguments; what is not chosen is not grown."""
        names = {
            "number": [*"+-*/%", "//", *ONE_NUMBER, "round", "length", "part", "diff", "bucket", *OF_ANY],
            "text": ["lower", "upper", "trim", "concat", "left", "right", "substring", "to text", *OF_ANY],
            "date": ["trunc", "to date", *OF_ANY],
            "timestamp": ["trunc", *OF_ANY],
            "boolean": ["and", "or", "not", *COMPARISONS, "is null", "in"],
        }
        name = self.pick(names[kind])

        def more(of: Kind = kind) -> Scalar:
            return self.grown(of, depth)

        match name:
            case "case":
                return (name, more("boolean"), more(), more())
            case "round":
                return (name, more(), self.pick([whole(n) for n in range(-3, 5)]))
            case "to integer":
                return (name, more(self.pick(["number", "boolean"])))
            case "length":
                return (name, more("text"))
            case "part":
                return (name, text(self.pick(["year", *PARTS])), more(self.pick(["date", "timestamp"])))
            case "diff":
                of = self.pick(["date", "timestamp"])
                return (name, text(self.pick(SPANS)), more(of), more(of))
            case "bucket":
                low, high = self.pick([whole(0), real(-1.5)]), self.pick([whole(3), real(2.25)])
                subject = self.pick([I, X, FREE, WILD, None]) or more()
                return (name, subject, low, high, self.pick([whole(1), whole(7), whole(4000)]))
            case "left" | "right":
                return (name, more(), self.pick([*COUNTS, whole(-1), whole(-3), whole(-1000)]))
            case "substring":
                return (name, more(), self.pick([whole(n) for n in (1, 2, 1000)]), self.pick(COUNTS))
            case "to text":
                return (name, more(self.pick(["number", "boolean", "date"])))
            case "trunc":
                return (name, text(self.pick(UNITS)), more())
            case "to date":
                return (name, more("timestamp"))
            case "is null":
                return (name, more(self.pick(["number", "text", "date"])))
            case "in":
                return (name, more("number"), whole(3), whole(4))
        if name in COMPARISONS:
            of = self.pick(["number", "text", "date", "timestamp"])
            return (name, more(of), more(of))
        alone = name in ONE_NUMBER or name in ("lower", "upper", "trim", "not")
        return (name, more()) if alone else (name, more(), more())


@some.composite
def expressions(draw: some.DrawFn) -> Scalar:
    kind = draw(some.sampled_from([*LEAVES, "number", "number"]))
    return Grower(draw).grown(kind, 4)


EPSILON = Fraction(1, 10**9)  # doubles are rounded, bounds are not


def is_within(value: Any, expression: Scalar) -> bool:
    domain = expression.domain
    if domain.kind in ("date", "timestamp"):
        lowest, highest = domain.since, domain.until
        if "infinity" in value or "BC" in value or len(value.split("-")[0]) > 4:
            return lowest is None and highest is None
        at = DATE.fromisoformat(value[:10])
        return (lowest is None or lowest <= at) and (highest is None or at <= highest)
    if not domain.numeric or domain.low is None or domain.high is None:
        return True
    if not math.isfinite(value):
        return False
    if domain.kind == "integer":
        return isinstance(value, int) and domain.low <= value <= domain.high
    room = EPSILON * max(abs(domain.low), abs(domain.high), Fraction(1))
    return bool(domain.low - room <= Fraction(value) <= domain.high + room)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=expressions())
def test_whatever_stands_in_the_rows_nothing_fails_and_bounds_hold(
    engine: duckdb.DuckDBPyConnection, expression: Scalar
) -> None:
    """Random expressions on NaN, infinities, extreme integers, dates that Python has none of, huge texts."""
    for value in computed(engine, expression):
        assert value is None or is_within(value, expression), (scalar_text(expression, column), value)


@pytest.mark.parametrize("function", sorted(CASES))
def test_each_function_alone_survives_every_hostile_value(
    function: str, engine: duckdb.DuckDBPyConnection
) -> None:
    for expression in CASES[function]:
        for value in computed(engine, expression):
            assert value is None or is_within(value, expression), (scalar_text(expression, column), value)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.name))
def test_a_clamped_column_is_its_value_or_the_nearer_bound(
    field: Field, engine: duckdb.DuckDBPyConnection
) -> None:
    within = clamped(field)
    raw = [row[0] for row in engine.execute(f"SELECT {_shown(field)} FROM t").fetchall()]
    kept = computed(engine, within)
    assert [value is None for value in raw] == [value is None for value in kept]
    for before, after in zip(raw, kept, strict=True):
        if before is None or within == field:
            assert before == after or before != before
            continue
        assert is_within(after, within)
        if field.domain.numeric:
            low, high = map(float, bounds(within))
            expected = high if before != before else min(max(before, low), high)
            assert after == expected
        elif is_within(before, within):
            assert after == before


# Refusals --------------------------------------------------------------------------------------------


def test_what_may_have_no_bounds_is_refused() -> None:
    for function, *arguments in (
        ("+", FREE, whole(1)),
        ("*", WILD, WILD),
        ("abs", FREE),
        ("/", whole(1), x),  # as near to zero as it likes
        ("/", whole(1), whole(0)),
        ("//", whole(1), whole(0)),
        ("//", x, whole(2)),
        ("%", x, whole(2)),
        ("+", T, whole(1)),
        ("lower", i),
        ("part", text("day"), i),
        ("and", i, B),
        ("=", i, T),
        ("case", B, i, T),
        ("to text", x),
    ):
        with pytest.raises(Unusable):
            call(function, *arguments)
    assert (
        call("/", whole(1), i).domain.low == -1
    )  # an integer is at least one away from zero, or has no value


@pytest.mark.parametrize("function", ["left", "right"])
@pytest.mark.parametrize("count", [-1, -3, -1000])
def test_all_but_some_letters_is_no_bound_on_how_many(function: str, count: int) -> None:
    """Bounds in the wrong order would make the distance of what is added up nothing at all."""
    free = Field("t0.note", Domain("text"))
    assert longest(call(function, free, whole(count))) is None
    assert call("length", call(function, free, whole(count))).domain.high is None
    listed = Field("t0.ward", Domain("text", keys=("A", "abc")))
    assert longest(call(function, listed, whole(count))) == 3
    assert longest(call(function, listed, whole(2))) == 2
    with pytest.raises(Unusable, match="put together"):
        call("concat", *[call(function, free, whole(count))] * 9)


def test_bounds_in_the_wrong_order_are_refused_where_they_are_made() -> None:
    with pytest.raises(Unusable):
        Domain("integer", Fraction(1), Fraction(0))
    with pytest.raises(ValueError, match="lower bound"):
        Clamp(Fraction(1), Fraction(0), 0)


def test_no_number_reaches_two_to_the_53rd() -> None:
    grown: Scalar = clamped(J)
    grown = call("*", grown, clamped(J))
    assert bounds(grown)[1] < LARGEST
    with pytest.raises(Unusable, match="as large as"):
        call("*", grown, clamped(J))


def test_an_expression_that_doubles_at_every_level_is_refused_in_time() -> None:
    grown: Scalar = call("+", i, whole(0))
    while grown.size * 2 + 1 <= BIGGEST:
        grown = call("least", grown, grown)
    with pytest.raises(Unusable, match="too long"):
        call("least", grown, grown)


@pytest.mark.parametrize("word", ["and", "or"])
def test_one_meaning_of_and_and_or_has_one_form(word: Literal["and", "or"]) -> None:
    a, b, c = call(">", I, whole(1)), B, call("is null", T)
    parts: list[Scalar] = [a, b, c, a]
    forms = {repr(joined(word, list(order))) for order in itertools.permutations(parts)}
    assert forms == {repr(joined(word, [c, joined(word, [b, a])]))}
    assert joined(word, [a, a]) == a


def test_a_pattern_fits_what_a_regular_expression_of_it_fits() -> None:
    """Every pattern of up to five signs, on every text of up to four."""
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n)]
    for n in range(6):
        for signs in itertools.product("a%_", repeat=n):
            told = "".join({"%": ".*", "_": "."}.get(sign, sign) for sign in signs)
            for text in texts:
                assert _like(text, "".join(signs)) == bool(re.fullmatch(told, text)), (signs, text)
