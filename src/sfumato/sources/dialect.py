"""How engines write operations: one line a piece, and nothing is decided here.

`COMMON` is what SQL has in common; a dialect adds what is its own. In a text, {0}, {1}, ... are the
arguments, {all} all of them with commas between, {rest} all but the first, {type} the type of the result,
{word} the first argument as a bare word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.sources.work import Total, Type

COMMON: dict[str, str] = {
    "cast": "CAST({0} AS {type})",
    "try cast": "TRY_CAST({0} AS {type})",
    **{sign: f"({{0}} {sign} {{1}})" for sign in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*")},
    "in": "({0} IN ({rest}))",
    "not": "(NOT {0})",
    "is null": "({0} IS NULL)",
    "is not null": "({0} IS NOT NULL)",
    # the common case stands first because engines then skip the others
    "within": "(CASE WHEN {0} BETWEEN {1} AND {2} THEN {0} WHEN {0} < {1} THEN {1} WHEN {0} > {2} THEN {2}"
    " ELSE {0} END)",
    "coalesce": "COALESCE({all})",
    "negate": "(- {0})",
    "abs": "ABS({0})",
    "sign": "SIGN({0})",
    "quotient": "({0} / {1})",
    "floor": "FLOOR({0})",
    "ceil": "CEIL({0})",
    "round": "ROUND({0}, {1})",
    "nearest": "ROUND({0})",
    "sqrt": "SQRT({0})",
    "like": "({0} LIKE {1})",
    "length": "LENGTH({0})",
    "part": "EXTRACT({word} FROM {1})",
    "trunc": "DATE_TRUNC('{word}', {1})",
}


PLACES: dict[str, str] = {
    "number": "ROW_NUMBER()",
    "rank": "RANK()",
    "dense rank": "DENSE_RANK()",
    "before": "LAG({0}, {1})",
    "beside": "LEAD({0}, {1})",
    "first": "FIRST_VALUE({0})",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The texts of an engine."""

    types: Mapping[Type, str]
    operations: Mapping[str, str]
    constants: Mapping[Type, str]  # around a literal: digits, a double with an exponent, or a quoted text
    stored: Mapping[Type, str]  # a column of a table, as it is used
    made: Mapping[Type, str]  # a column of ours
    canonical: Mapping[Type, str]  # a value as the text that MD5 is taken of
    totals: Mapping[Total, str]
    places: Mapping[str, str]  # by what is said of a row: the value, and how many rows away
    keys: str  # public values: {values}, {type}, {count}
    given: str  # numbers that are handed in
    repeated: str  # so many rows, with a number each
    kept: str  # rows under a name, for as long as the connection lives
    once: Mapping[bool | None, str]  # a word for shared rows that are computed once


DUCKDB = Dialect(
    types={
        "bool": "BOOLEAN",
        "i32": "INTEGER",
        "i64": "BIGINT",
        "i128": "HUGEINT",
        "u64": "UBIGINT",
        "f32": "FLOAT",
        "f64": "DOUBLE",
        "text": "VARCHAR",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
    },
    operations={
        **COMMON,
        "least": "LEAST({all})",
        "greatest": "GREATEST({all})",
        "divide": "({0} // {1})",
        "modulo": "({0} % {1})",
        "log2": "LOG2({0})",
        "power of two": "CAST(POW(2, {0}) AS HUGEINT)",  # exact: a double holds every power of two
        "ilike": "({0} ILIKE {1})",
        "starts with": "STARTS_WITH({0}, {1})",
        "contains": "CONTAINS({0}, {1})",
        "short": "(CASE WHEN STRLEN({0}) > 40000 THEN LEFT({0}, 10000) ELSE {0} END COLLATE C)",
        "lower": "(LOWER({0}) COLLATE C)",
        "upper": "(UPPER({0}) COLLATE C)",
        "trim": "(TRIM({0}) COLLATE C)",
        "strip": "(TRIM({0}, {1}) COLLATE C)",
        "left": "(LEFT({0}, {1}) COLLATE C)",
        "right": "(RIGHT({0}, {1}) COLLATE C)",
        "substring": "(SUBSTRING({0}, {1}, {2}) COLLATE C)",
        "split part": "(SPLIT_PART({0}, {1}, {2}) COLLATE C)",
        "replace": "(REPLACE({0}, {1}, {2}) COLLATE C)",
        "position": "STRPOS({0}, {1})",
        "regexp matches": "REGEXP_MATCHES({0}, {1})",
        "regexp replace": "(REGEXP_REPLACE({0}, {1}, {2}, CASE WHEN {3} THEN 'g' ELSE '' END) COLLATE C)",
        "regexp extract": "(REGEXP_EXTRACT({0}, {1}, {2}) COLLATE C)",
        "ln": "LN({0})",
        "exp": "EXP({0})",
        "power": "POW({0}, {1})",
        "add days": "CAST(({0} + TO_DAYS({1})) AS {type})",
        "add months": "CAST(({0} + TO_MONTHS({1})) AS {type})",
        "add seconds": "CAST(({0} + TO_SECONDS({1})) AS {type})",
        "finite": "ISFINITE({0})",
        "diff": "DATE_DIFF('{word}', {1}, {2})",
        "minus days": "({0} - {1})",
        "hash": "HASH({all})",
        "md5": "CAST('0x' || SUBSTRING(MD5({canonical}), 1, 16) AS UBIGINT)",
        "both bits": "({0} & {1})",
        "either bit": "({0} | {1})",
    },
    constants={
        "bool": "{0}",
        "i32": "CAST({0} AS INTEGER)",
        "i64": "CAST({0} AS BIGINT)",
        "i128": "CAST({0} AS HUGEINT)",
        "u64": "CAST({0} AS UBIGINT)",
        "f64": "{0}",  # a literal with an exponent is a DOUBLE, read to the nearest one
        "text": "{0}",
        "date": "CAST({0} AS DATE)",
        "timestamp": "CAST({0} AS TIMESTAMP)",
    },
    # Casts are total: whatever the engine stores, they succeed. Text is compared byte by byte whatever
    # collation a column was declared with: under NOCASE one row would match two keys, and two persons would
    # share one cap.
    stored={"text": "CAST({0} AS VARCHAR) COLLATE C", "f64": "CAST({0} AS DOUBLE)"},
    made={"text": "{0} COLLATE C"},
    canonical={
        "bool": "CAST(CAST({0} AS INTEGER) AS VARCHAR)",
        "f64": "PRINTF('%.17g', {0} + 0e0)",  # of the two zeros, one
        "text": "{0}",
        "date": "CAST(DATE_DIFF('day', DATE '1970-01-01', {0}) AS VARCHAR)",
        "timestamp": "CAST(EPOCH_US({0}) AS VARCHAR)",
    },
    places=PLACES,
    totals={
        "count": "COUNT({0})",
        "distinct": "COUNT(DISTINCT {0})",
        "sum": "SUM({0})",
        "min": "MIN({0})",
        "max": "MAX({0})",
        "any": "BOOL_OR({0})",
        "every": "BOOL_AND({0})",
    },
    # one typed list is planned faster than typed rows
    keys="SELECT UNNEST(range({count})) AS position, UNNEST(CAST([{values}] AS {type}[])) AS key",
    given="SELECT UNNEST(range(len(CAST($1 AS BIGINT[])))) AS position, UNNEST(CAST($1 AS BIGINT[])) AS code",
    repeated="UNNEST(RANGE({0}))",
    kept="CREATE TEMP TABLE {0} AS {1}",
    once={True: "MATERIALIZED ", False: "NOT MATERIALIZED ", None: ""},
)
