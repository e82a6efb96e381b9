"""Words of SQL that mean the same in PostgreSQL's dialect and in ours, and the types that they give there."""

from __future__ import annotations

from sfumato.queries.pgtypes import BOOLEAN, FLOAT8, INT4, INT8, TEXT, UNKNOWN, PgType

COMPARING = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "Between", "In", "NullSafeEQ", "NullSafeNEQ")
SAME = {  # what means the same in both, and what comes out of it
    **dict.fromkeys(("And", "Or", "Not", "Boolean", "Is", "StartsWith", "Contains"), BOOLEAN),
    **dict.fromkeys(("Lower", "Upper", "Left", "Right", "Substring"), TEXT),
    "Length": INT4,
    **dict.fromkeys(("LogicalOr", "LogicalAnd"), BOOLEAN),
    **dict.fromkeys(("Count", "CountIf", "DateDiff"), INT8),
    **dict.fromkeys(("Year", "Quarter", "Month", "Week", "Day", "Hour", "Minute", "Second"), INT8),
    **dict.fromkeys(("DayOfWeek", "DayOfWeekIso", "DayOfYear", "DayOfMonth", "WeekOfYear"), INT8),
    **dict.fromkeys(("CovarPop", "CovarSamp", "Corr", "Median", "Quantile", "ApproxQuantile"), FLOAT8),
    **dict.fromkeys(("RegrSlope", "RegrIntercept", "RegrR2"), FLOAT8),
    **dict.fromkeys(("Null", "Star", "Var", "Tuple", "Array", "DataType", "DataTypeParam"), UNKNOWN),
    **dict.fromkeys(("Where", "Having", "Group", "Rollup", "Cube", "Limit", "Distinct"), UNKNOWN),
    **dict.fromkeys(("Any", "All", "Placeholder"), UNKNOWN),
    **dict.fromkeys(("Exists", "RegexpLike"), BOOLEAN),
    **dict.fromkeys(("RowNumber", "Rank", "DenseRank"), INT8),
    **dict.fromkeys(("PercentRank", "CumeDist"), FLOAT8),
    **dict.fromkeys(("Ntile", "StrPosition"), INT4),
    **dict.fromkeys(("SplitPart", "Replace", "RegexpReplace", "RegexpExtract"), TEXT),
    **dict.fromkeys(("Reverse", "Monthname", "Dayname"), TEXT),
    **dict.fromkeys(("CurrentDate", "CurrentTimestamp", "LastDay"), PgType("date")),
    **dict.fromkeys(("Interval", "WindowSpec", "Qualify", "Offset", "Fetch", "LimitOptions"), UNKNOWN),
    **dict.fromkeys(("GroupingSets", "Alias", "If", "DataType", "Identifier"), UNKNOWN),
}
OF_THEIR_ARGUMENT = (
    "Paren",
    "Neg",
    "Abs",
    "Min",
    "Max",
    "Mode",
    "PercentileDisc",
    "PercentileCont",
    "Order",
    "AnyValue",
    "IgnoreNulls",
)
LOOKING = ("Lag", "Lead", "FirstValue", "LastValue", "NthValue", "Window")  # of the type of their first part
ONE_OF = ("Coalesce", "Nullif", "Least", "Greatest")
ALIKE = (*COMPARING, *ONE_OF, "Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "WidthBucket")  # of one type
PLACES = {  # what takes values of a type in one place
    **{name: {"expression": INT4, "this": TEXT} for name in ("Left", "Right")},
    "Substring": {"start": INT4, "length": INT4, "this": TEXT},
    "Round": {"decimals": INT4, "this": PgType("numeric")},
    "WidthBucket": {"num_buckets": INT4},
}
TAKING = {  # what takes values of one type
    **dict.fromkeys(("And", "Or", "Not"), BOOLEAN),
    **dict.fromkeys(("Abs", "Floor", "Ceil", "Sqrt", "Sign"), FLOAT8),
    **dict.fromkeys(("Like", "ILike", "StartsWith", "Contains", "Concat", "DPipe", "Lower", "Upper"), TEXT),
    **dict.fromkeys(("PercentileCont", "PercentileDisc", "Quantile", "ApproxQuantile"), FLOAT8),
}
OWN_WORDS = ("user", "current_role", "current_user", "session_user", "current_catalog", "current_schema")
SINGLE = 24  # bits of a FLOAT(n) that is a REAL
EXACT_DECIMALS = 9  # of a number that a quotient may be compared with: a double tells them apart
