"""The words that queries over released rows may use: functions, aggregates and windows, by whitelist.

Each says which arguments it takes, of which kinds, what comes out, and the word by which it is printed. All
of them give the same for the same rows, reach nothing but their arguments, and make texts and lists no longer
than a small multiple of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.queries.made import MadeKind

NUMERIC = ("integer", "number")
TEXTS = ("text",)
MOMENTS = ("date", "timestamp")
ANYTHING = ()


@dataclass(frozen=True, slots=True)
class MadeFunction:
    """A function: how it is printed, where its arguments stand, which kinds they have, what it gives."""

    word: str
    takes: tuple[tuple[str, ...], ...] = (NUMERIC,)  # of each argument; the last stands for all further ones
    gives: MadeKind | None = None  # None: the kind of its arguments
    arguments: tuple[str, ...] = ("this",)
    counts: tuple[int, int] = (1, 1)
    traced: str = ""  # the name in `plan.Function` of a monotone one


def _two(word: str, *takes: tuple[str, ...], gives: MadeKind | None = None) -> MadeFunction:
    return MadeFunction(word, takes, gives, ("this", "expression"), (2, 2))


_LIST = ("this", "expressions")
FUNCTIONS: dict[str, MadeFunction] = {
    "Abs": MadeFunction("abs", traced="abs"),
    "Sign": MadeFunction("sign", gives="integer"),
    "Floor": MadeFunction("floor", traced="floor"),
    "Ceil": MadeFunction("ceil", traced="ceil"),
    "Trunc": MadeFunction("trunc number"),
    "Sqrt": MadeFunction("sqrt", gives="number", traced="root"),
    "Exp": MadeFunction("exp", gives="number", traced="exp"),
    "Ln": MadeFunction("ln", gives="number", traced="ln"),
    "Log": MadeFunction("log", gives="number", arguments=("this", "expression"), counts=(1, 2)),
    "Pow": _two("power", NUMERIC, gives="number"),
    "Least": MadeFunction("least", (ANYTHING,), None, _LIST, (1, 100), "smallest"),
    "Greatest": MadeFunction("greatest", (ANYTHING,), None, _LIST, (1, 100), "largest"),
    "SafeDivide": _two("safe divide", NUMERIC, gives="number"),
    "Lower": MadeFunction("lower", (TEXTS,)),
    "Upper": MadeFunction("upper", (TEXTS,)),
    "Trim": MadeFunction("trim", (TEXTS,), None, ("this", "expression"), (1, 2)),
    "Length": MadeFunction("length", (TEXTS,), "integer"),
    "Reverse": MadeFunction("reverse", (TEXTS,)),
    "Left": _two("left", TEXTS, NUMERIC, gives="text"),
    "Right": _two("right", TEXTS, NUMERIC, gives="text"),
    "Substring": MadeFunction("substring", (TEXTS, NUMERIC), "text", ("this", "start", "length"), (2, 3)),
    "Replace": MadeFunction("replace", (TEXTS,), "text", ("this", "expression", "replacement"), (3, 3)),
    "SplitPart": MadeFunction(
        "split_part", (TEXTS, TEXTS, NUMERIC), "text", ("this", "delimiter", "part_index"), (3, 3)
    ),
    "StrPosition": MadeFunction("strpos", (TEXTS,), "integer", ("this", "substr"), (2, 2)),
    "Concat": MadeFunction("concat", (ANYTHING,), "text", ("expressions",), (1, 100)),
    "DPipe": _two("||", ANYTHING, gives="text"),
    "StartsWith": _two("starts_with", TEXTS, gives="boolean"),
    "Contains": _two("contains", TEXTS, gives="boolean"),
    "TimeToStr": MadeFunction("strftime", (MOMENTS, TEXTS), "text", ("this", "format"), (2, 2)),
    "Monthname": MadeFunction("monthname", (MOMENTS,), "text"),
    "Dayname": MadeFunction("dayname", (MOMENTS,), "text"),
    "LastDay": MadeFunction("last_day", (MOMENTS,), "date"),
}

AGGREGATING: dict[str, MadeFunction] = {
    "Count": MadeFunction("count", (ANYTHING,), "integer"),
    "CountIf": MadeFunction("count_if", (("boolean",),), "integer"),
    "Sum": MadeFunction("sum"),
    "Avg": MadeFunction("avg", gives="number"),
    "Min": MadeFunction("min", (ANYTHING,)),
    "Max": MadeFunction("max", (ANYTHING,)),
    "Median": MadeFunction("median", gives="number"),
    "Mode": MadeFunction("mode", (ANYTHING,)),
    "AnyValue": MadeFunction("any_value", (ANYTHING,)),
    "First": MadeFunction("first", (ANYTHING,)),
    "Last": MadeFunction("last", (ANYTHING,)),
    "ArgMax": MadeFunction("arg_max", (ANYTHING,), None, ("this", "expression"), (2, 2)),
    "ArgMin": MadeFunction("arg_min", (ANYTHING,), None, ("this", "expression"), (2, 2)),
    "LogicalOr": MadeFunction("bool_or", (("boolean",),), "boolean"),
    "LogicalAnd": MadeFunction("bool_and", (("boolean",),), "boolean"),
    **{
        kind: MadeFunction(word, gives="number")
        for kind, word in (
            ("Variance", "var_samp"),
            ("VariancePop", "var_pop"),
            ("Stddev", "stddev_samp"),
            ("StddevSamp", "stddev_samp"),
            ("StddevPop", "stddev_pop"),
        )
    },
    **{
        kind: MadeFunction(word, gives="number", arguments=("this", "expression"), counts=(2, 2))
        for kind, word in (("Corr", "corr"), ("CovarPop", "covar_pop"), ("CovarSamp", "covar_samp"))
    },
    "PercentileCont": MadeFunction(
        "quantile_cont", gives="number", arguments=("this", "expression"), counts=(2, 2)
    ),
    "PercentileDisc": MadeFunction(
        "quantile_disc", gives="number", arguments=("this", "expression"), counts=(2, 2)
    ),
}

WINDOWS: dict[str, MadeFunction] = {
    "RowNumber": MadeFunction("row_number", gives="integer", arguments=(), counts=(0, 0)),
    "Rank": MadeFunction("rank", gives="integer", arguments=(), counts=(0, 0)),
    "DenseRank": MadeFunction("dense_rank", gives="integer", arguments=(), counts=(0, 0)),
    "PercentRank": MadeFunction("percent_rank", gives="number", arguments=(), counts=(0, 0)),
    "CumeDist": MadeFunction("cume_dist", gives="number", arguments=(), counts=(0, 0)),
    "Ntile": MadeFunction("ntile", gives="integer"),
    "Lag": MadeFunction("lag", (ANYTHING,), None, ("this", "offset", "default"), (1, 3)),
    "Lead": MadeFunction("lead", (ANYTHING,), None, ("this", "offset", "default"), (1, 3)),
    "FirstValue": MadeFunction("first_value", (ANYTHING,)),
    "LastValue": MadeFunction("last_value", (ANYTHING,)),
    "NthValue": MadeFunction("nth_value", (ANYTHING,), None, ("this", "offset"), (2, 2)),
}

COMPARING = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "Like": "LIKE",
    "ILike": "ILIKE",
}

PARTS = (
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    *("dow", "isodow", "doy", "isoyear", "decade", "century"),
)
INTERVALS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")

TARGETS: dict[str, MadeKind] = {
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "number"),
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT", "INT128"), "integer"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR", "NVARCHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), "timestamp"),
    "DATE": "date",
    "BOOLEAN": "boolean",
}


def is_numeric(kind: MadeKind) -> bool:
    """Whether one can compute with it."""
    return kind in NUMERIC


def wider(kinds: Sequence[MadeKind]) -> MadeKind | None:
    """The kind that values of all these kinds have beside each other; None if there is none."""
    found = set(kinds) - {"null"}
    if not found:
        return "null"
    if len(found) == 1:
        return found.pop()
    if found <= {"integer", "number"}:
        return "number" if "number" in found else "integer"
    if found <= {"date", "timestamp"}:
        return "timestamp" if "timestamp" in found else "date"
    if found <= {"date", "text"} or found <= {"timestamp", "text"}:  # a text that is read as one
        return next(kind for kind in found if kind != "text")
    return None
