"""The tree of a query as we read it: nodes with a kind, arguments and a place in the text.

`sql` makes these from what the parser library returns, so that only one file knows that library. A node is
accepted only if its kind *and* each of its non-empty arguments are on the list: parsers hang surprises on
arguments (TABLESAMPLE on a table, DISTINCT inside COUNT).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from sfumato.errors import MissingBound, UnknownName, Unsupported
from sfumato.queries.declared import heading
from sfumato.queries.expressions import Misread
from sfumato.queries.notation import READING

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from sfumato.queries.expressions import Unusable
    from sfumato.queries.policy import Policy


class Missing(LookupError):
    """A node lacks an argument that it needs."""

    def __init__(self, node: Node) -> None:
        self.node = node
        super().__init__(node.kind)


@dataclass(slots=True)
class Node:
    """One node: what the parser calls it, its arguments, and where it stands."""

    kind: str
    arguments: dict[str, Node | list[Node] | str | bool] = field(default_factory=dict)
    start: int = -1
    end: int = -1
    called: str = ""  # what to call it in a message, if it is a function

    def __getitem__(self, name: str) -> Node:
        """The node under an argument."""
        found = self.arguments.get(name)
        if not isinstance(found, Node):
            raise Missing(self)
        return found

    @property
    def this(self) -> Node:
        """The first part."""
        return self["this"]

    @property
    def expression(self) -> Node:
        """The second part."""
        return self["expression"]

    def get(self, name: str) -> Node | None:
        """The node under an argument, if there is one."""
        found = self.arguments.get(name)
        return found if isinstance(found, Node) else None

    def nodes(self, name: str = "expressions") -> list[Node]:
        """The nodes under an argument that is a list."""
        found = self.arguments.get(name)
        return found if isinstance(found, list) else []

    def text(self, name: str = "this") -> str:
        """The text under an argument."""
        found = self.arguments.get(name)
        return found if isinstance(found, str) else ""

    @property
    def name(self) -> str:
        """The name of an identifier, or of the node that holds one."""
        inner = self.arguments.get("this")
        return inner if isinstance(inner, str) else inner.name if isinstance(inner, Node) else ""

    @property
    def alias(self) -> str:
        """What the node is called by AS."""
        given = self.arguments.get("alias")
        return given.name if isinstance(given, Node) else ""

    @property
    def parts(self) -> Iterator[Node]:
        """The nodes directly below it."""
        for value in self.arguments.values():
            if isinstance(value, Node):
                yield value
            elif isinstance(value, list):
                yield from value

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            for value in node.arguments.values():
                if isinstance(value, Node):
                    waiting.append(value)
                elif isinstance(value, list):
                    waiting.extend(value)

    @property
    def span(self) -> tuple[int, int] | None:
        """Where it stands in the text, from its own place or those of its parts."""
        places = [(each.start, each.end) for each in self.walk() if each.start >= 0]
        if not places:
            return None
        return min(start for start, _ in places), max(end for _, end in places) + 1


def bare(node: Node) -> Node:
    """The node without its parentheses."""
    while node.kind == "Paren":
        node = node.this
    return node


AGGREGATES = {  # nodes by which rows are added up
    *("Count", "CountIf", "Sum", "Avg", "Min", "Max", "AnyValue", "LogicalOr", "LogicalAnd"),
    *("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp", "CovarPop", "CovarSamp", "Corr"),
    *("Median", "Mode", "PercentileCont", "PercentileDisc", "Quantile", "ApproxQuantile"),
    *("RegrSlope", "RegrIntercept", "RegrR2", "ApproxDistinct", "Entropy", "Histogram"),
}
_CHAIN = frozenset({"this", "expression"})
_ONE = frozenset({"this"})
# What each node may carry; anything else that is not empty is a refusal.
ARGUMENTS: dict[str, frozenset[str] | set[str]] = {
    "Select": {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "with_",
        "distinct",
    },
    "With": {"expressions"},
    "CTE": {"this", "alias"},
    "Union": {"this", "expression", "distinct", "with_"},
    "Subquery": {"this", "alias"},
    "From": {"this"},
    "Join": {"this", "on", "using", "side", "kind"},
    "Table": {"this", "alias", "joins", "in_schema"},
    "TableAlias": {"this"},
    "Where": {"this"},
    "Having": {"this"},
    "Group": {"expressions"},
    "Rollup": {"expressions"},
    "Cube": {"expressions"},
    "Order": {"expressions"},
    "Ordered": {"this", "desc", "nulls_first"},
    "Limit": {"expression"},
    "Distinct": {"expressions"},
    "Alias": {"this", "alias"},
    "Column": {"this", "table"},
    "Identifier": {"this", "quoted"},
    "Literal": {"this", "is_string"},
    "Boolean": {"this"},
    "Null": set(),
    "Star": set(),
    "Var": {"this"},
    "Paren": {"this"},
    "Tuple": {"expressions"},
    "Array": {"expressions"},
    "Neg": {"this"},
    "Cast": {"this", "to", "_type", "numeric", "if_wide"},
    "DataType": {"this", "nested", "expressions"},
    "DataTypeParam": {"this"},
    "Not": {"this"},
    "In": {"this", "expressions", "query"},
    "Is": _CHAIN,
    "Between": {"this", "low", "high"},
    "Filter": _CHAIN,
    "Case": {"this", "ifs", "default", "cut_off"},
    "If": {"this", "true", "false"},
    "Coalesce": {"this", "expressions"},
    "Nullif": _CHAIN,
    "Least": {"this", "expressions", "ignore_nulls"},
    "Greatest": {"this", "expressions", "ignore_nulls"},
    "Abs": {"this"},
    "Sign": {"this"},
    # what is written by `pgrules` alone: `even`, and `numeric` where decimals are meant
    "Floor": {"this", "numeric"},
    "Ceil": {"this", "numeric"},
    "Round": {"this", "decimals", "even", "numeric"},
    "Sqrt": {"this"},
    "WidthBucket": {"this", "min_value", "max_value", "num_buckets"},
    "Like": _CHAIN | {"negate"},
    "ILike": _CHAIN | {"negate"},
    "StartsWith": _CHAIN,
    "Contains": _CHAIN,
    "Lower": {"this"},
    "Upper": {"this"},
    "Trim": {"this", "expression"},
    "Length": {"this"},
    "Concat": {"expressions", "safe", "coalesce"},
    "Left": _CHAIN,
    "Right": _CHAIN,
    "Substring": {"this", "start", "length"},
    "Extract": _CHAIN,
    "Anonymous": {"this", "expressions"},
    "TimestampTrunc": {"this", "unit"},
    "DateTrunc": {"this", "unit"},
    "DateDiff": {"this", "expression", "unit", "date_part_boundary"},
    "Interval": {"this", "unit"},
    **dict.fromkeys(("CurrentDate", "CurrentTimestamp"), frozenset({"sysdate"})),
    "DateAdd": _CHAIN | {"unit"},
    "ToDays": _ONE,
    "LengthOfTime": _CHAIN,  # one moment less another, where it is compared with an interval
    "TimeToStr": {"this", "format"},
    "Monthname": {"this"},
    "Dayname": {"this"},
    "LastDay": {"this"},
    "Pow": _CHAIN,
    "Ln": _ONE,
    "Exp": _ONE,
    "SplitPart": {"this", "delimiter", "part_index"},
    "Replace": {"this", "expression", "replacement"},
    "StrPosition": {"this", "substr"},
    "RegexpLike": {"this", "expression"},
    "RegexpExtract": {"this", "expression", "group", "null_if_pos_overflow"},
    "RegexpReplace": {"this", "expression", "replacement", "single_replace", "modifiers"},
    "Count": {"this", "big_int"},
    "CountIf": {"this"},
    **dict.fromkeys(("Year", "Quarter", "Month", "Week", "Day", "Hour", "Minute", "Second"), _ONE),
    **dict.fromkeys(("DayOfWeek", "DayOfWeekIso", "DayOfYear", "DayOfMonth", "WeekOfYear"), _ONE),
    **dict.fromkeys(("Sum", "Avg", "Min", "Max", "Median", "Mode", "LogicalOr", "LogicalAnd"), _ONE),
    **dict.fromkeys(("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp"), _ONE),
    **dict.fromkeys(("CovarPop", "CovarSamp", "Corr", "RegrSlope", "RegrIntercept", "RegrR2"), _CHAIN),
    **dict.fromkeys(("ApproxDistinct", "AnyValue", "IgnoreNulls", "Entropy", "Histogram"), _ONE),
    "PercentileCont": _CHAIN,
    "PercentileDisc": _CHAIN,
    "Quantile": {"this", "quantile"},
    "ApproxQuantile": {"this", "quantile"},
    "WithinGroup": _CHAIN,
    **dict.fromkeys(("EQ", "NEQ", "LT", "LTE", "GT", "GTE"), _CHAIN),
    "And": {"expressions"},
    "Or": {"expressions"},
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod", "IntDiv"), _CHAIN),
    "Div": {"this", "expression", "typed", "safe"},
    "DPipe": {"this", "expression", "safe"},
}

# What nodes may carry besides, above released rows.
ABOVE: dict[str, frozenset[str] | set[str]] = {
    "Select": {*ARGUMENTS["Select"], "qualify", "offset", "windows"},
    "Group": {"expressions", "all"},
    "GroupingSets": {"expressions"},
    "Join": {*ARGUMENTS["Join"], "method"},
    "TableAlias": {"this", "columns"},
    **{
        name: {
            "this",
            "expression",
            "distinct",
            "with_",
            "order",
            "limit",
            "offset",
            "by_name",
            "side",
            "kind",
        }
        for name in ("Union", "Intersect", "Except")
    },
    "Offset": {"expression"},
    "Fetch": {"direction", "count", "limit_options"},
    "Qualify": {"this"},
    "Window": {"this", "partition_by", "order", "spec", "over", "alias"},
    "WindowSpec": {"kind", "start", "start_side", "end", "end_side"},
    "RowNumber": set(),
    **dict.fromkeys(("Rank", "DenseRank", "PercentRank", "CumeDist"), frozenset({"expressions"})),
    "Ntile": {"this"},
    **dict.fromkeys(("Lag", "Lead"), frozenset({"this", "offset", "default"})),
    "FirstValue": {"this"},
    "LastValue": {"this"},
    "NthValue": {"this", "offset"},
    **dict.fromkeys(("First", "Last"), _ONE),
    **dict.fromkeys(("ArgMax", "ArgMin"), _CHAIN),
    "Trunc": {"this"},
    "Exp": {"this"},
    "Ln": {"this"},
    "Log": _CHAIN,
    "Pow": _CHAIN,
    "SafeDivide": _CHAIN,
    "TryCast": {"this", "to", "safe", "_type", "requires_string"},
    "Reverse": {"this"},
    "Replace": {"this", "expression", "replacement"},
    "SplitPart": {"this", "delimiter", "part_index"},
    "StrPosition": {"this", "substr"},
    "TimeToStr": {"this", "format"},
    "Monthname": {"this", "abbreviated"},
    "Dayname": {"this", "abbreviated"},
    "LastDay": {"this"},
    "Interval": {"this", "unit"},
    "Exists": {"this"},
    "NullSafeEQ": _CHAIN,
    "NullSafeNEQ": _CHAIN,
    "Values": {"expressions", "alias"},
    "GenerateSeries": {"start", "end", "step", "is_end_exclusive"},
}

# What to call a node or an argument in a message, where its own name would not do.
_CALLED = {
    "Ordered": "ORDER BY",
    "LengthOfTime": "the difference",
    "Window": "OVER",
    "RegexpILike": "the operator ~*",
    "Overlaps": "OVERLAPS",
    "Grouping": "GROUPING()",
    "SimilarTo": "SIMILAR TO",
    **dict.fromkeys(
        ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitwiseLeftShift", "BitwiseRightShift"),
        "an operator on bits",
    ),
    "Bracket": "indexing with [ ]",
    "Dot": "a name with a point",
    "AtTimeZone": "AT TIME ZONE",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "TryCast": "TRY_CAST",
    "Placeholder": "a parameter without a value",
    "Parameter": "a parameter",
    **dict.fromkeys(
        ("ByteString", "HexString", "BitString", "RawString", "UnicodeString"), "a string with a prefix"
    ),
    "Tuple": "a list in parentheses, (a, b),",
    "Subquery": "a subquery",
    "Escape": "ESCAPE",
    "Identifier": "a name in this place",
    "WindowSpec": "a window frame",
    **dict.fromkeys(("JSONExtract", "JSONExtractScalar"), "the operator ->"),
    "Columns": "COLUMNS",
    "Lambda": "a lambda",
    "EQ": "a comparison",
    "NEQ": "a comparison",
    "Neg": "a minus sign",
    "Star": "*",
    "Boolean": "a boolean",
    "kind": "a type in this form",
    "windows": "WINDOW",
    "hints": "a hint",
    "version": "a version of a table",
    "when": "a version of a table",
    "pivots": "PIVOT",
    "laterals": "LATERAL VIEW",
    "exclude": "EXCLUDE",
    "limit_options": "a percentage or WITH TIES",
    "position": "LEADING, TRAILING or BOTH",
    "expressions": "another argument",
    "this": "ORDER BY",
    "count": "another argument",
    "Pow": "raising to a power (^, POWER)",
    "RegexpLike": "matching a regular expression (~)",
    "Rand": "RANDOM()",
    "Group": "GROUP BY",
    "Table": "FROM",
    "TableAlias": "AS",
    "Literal": "a text",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "db": "a schema",
}
_WORDS = {  # of SQL, that the parser calls nearly so
    kind: kind.upper()
    for kind in (
        *("Select", "Union", "Intersect", "Except", "Join", "Where", "Having", "Limit", "Offset", "Distinct"),
        *(
            "In",
            "Between",
            "Like",
            "ILike",
            "Exists",
            "Case",
            "Cast",
            "Filter",
            "Values",
            "Interval",
            "Rollup",
        ),
        *("Cube", "With", "From", "Alias", "Column", "Star", "Array", "Fetch", "Qualify", "Lateral", "Pivot"),
        *(
            "Insert",
            "Update",
            "Delete",
            "Create",
            "Drop",
            "Attach",
            "Detach",
            "Pragma",
            "Copy",
            "Set",
            "Show",
        ),
        *("Describe", "Use", "Merge", "Alter", "Grant", "Kill", "Analyze", "Collate", "Any", "All", "Glob"),
        *("And", "Or", "Not", "Is", "Neg", "Case", "If", "Null", "Boolean", "Unnest", "Struct", "Map"),
    )
}
BY_PERSON = "LEFT JOIN (SELECT person, COUNT(*) AS n FROM t GROUP BY person) AS x USING (person)"
# What to write instead, by the argument or the node that was refused.
INSTEAD = {
    "offset": "Leave OFFSET out; ask for more rows with LIMIT and skip them yourself.",
    "sample": "Leave TABLESAMPLE out: the noise already hides each row.",
    "qualify": "Leave QUALIFY out.",
    "windows": "Leave window functions out.",
    **dict.fromkeys(("db", "catalog"), "Name the table as the policy does, without the name of a database."),
    "GroupingSets": "Use ROLLUP or CUBE, or ask one question for each set.",
    "all": "List the key columns in GROUP BY.",
    "Window": "Leave OVER out; per person, write a subquery with GROUP BY the person.",
    "Placeholder": "Write the value itself, or write $1 and pass its value.",
    "Any": "Write: x IN (a, b, c), x = ANY (ARRAY[a, b, c]), or x IN (SELECT y FROM ...).",
    "Exists": "Write: person IN (SELECT person FROM ...)",
    "recursive": "Leave RECURSIVE out.",
    "Log": "For rows there is LN: LN(x) / 2.302585092994046e0",
    "StrToTime": "Compare with a date that is written out: DATE '2024-01-31'",
    "SimilarTo": "Write a pattern: x LIKE 'a%', or REGEXP_MATCHES(x, '^a')",
    "Escape": "Write CONTAINS(x, 'a_b') or STARTS_WITH(x, 'a_b'), which take every character as it is.",
    "TryCast": "Numbers and dates: CAST(x AS DOUBLE). Texts stay texts: compare x = '5'.",
    "AtTimeZone": "Moments are in UTC. Add the hours: x + INTERVAL 1 HOUR",
    "Grouping": "The key of a total is NULL: COALESCE(x, 'all')",
    "pivots": "Write for each value: SUM(x) FILTER (WHERE status = 'paid') AS paid",
    "Pivot": "Write for each value: SUM(x) FILTER (WHERE status = 'paid') AS paid",
    "rollup": "Write: GROUP BY ROLLUP (a, b)",
    **dict.fromkeys(
        ("JSONExtract", "JSONExtractScalar"), 'Write: REGEXP_EXTRACT(x, \'"key":"([a-z]+)"\', 1)'
    ),
    "RegexpILike": "Write: x ILIKE '%a%', or LOWER(x) ~ 'a'",
    "Overlaps": "Compare the ends: a < d AND c < b",
    "Bracket": "Of a text that is split: SPLIT_PART(x, '@', 2)",
    "Lateral": f"Join what is grouped by the person: {BY_PERSON}",
    "Trunc": "Write: FLOOR(x), or ROUND(x, 1)",
    "Rand": "Leave random numbers out: Sfumato adds the noise.",
}


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a query and the policy it is read against; it makes the refusals."""

    sql: str
    policy: Policy
    today: datetime.date | None = None  # what CURRENT_DATE is
    reading: int = READING  # by which it is understood: of before, where a stored text is read as it was then
    dialect: str = "duckdb"  # of its tree
    days: list[datetime.date] = field(default_factory=list, compare=False)  # today, if it speaks of it

    def allow(self, node: Node, *, above: bool = False) -> None:
        """Refuse a node whose kind, or one of whose non-empty arguments, is not on the list: that of rows, or
        that of what stands above released ones."""
        allowed = (ABOVE.get(node.kind) if above else None) or ARGUMENTS.get(node.kind)
        if allowed is None and not (above and node.kind in ABOVE):
            self.refuse(
                node,
                f"{word(node)} is not supported",
                "Leave it out, or write it differently.",
                name=node.kind,
            )
        for name, value in node.arguments.items():
            if value and name not in (allowed or ()):
                part = value[0] if isinstance(value, list) else value
                where = part if isinstance(part, Node) and part.span else node
                told = _CALLED.get(name, name.strip("_").replace("_", " ").upper())
                self.refuse(where, f"{told} is not supported in {word(node)}", "Leave it out.", name=name)

    def written(self, node: Node) -> str:
        """What was written there, where that is known: places of functions end before their last bracket."""
        if node.span is None or node.kind == "Cast":
            return ""
        start, end = node.span
        opened = self.sql.count("(", start, end) - self.sql.count(")", start, end)
        for _ in range(opened):
            end = self.sql.find(")", end) + 1 or end
        return self.sql[start:end]

    def refuse(self, node: Node, problem: str, advice: str, *, name: str = "") -> NoReturn:
        """Refuse the query because of a node."""
        raise Unsupported(problem, INSTEAD.get(name, advice), sql=self.sql, span=node.span)

    def unknown(self, thing: str, name: str, known: list[str], node: Node) -> NoReturn:
        """Refuse a name that is not there."""
        raise UnknownName(thing, name, known, sql=self.sql, span=node.span)

    def unusable(self, reason: Unusable, node: Node) -> NoReturn:
        """Refuse an expression; where a declaration is missing, say which."""
        field = reason.field
        if field is not None and field.origin != ("", "") and field.domain.kind != "text":
            table, column = field.origin
            example = f'{column} = {{ type = "{field.domain.kind}", low = ..., high = ... }}'
            raise MissingBound(
                reason.problem,
                self.policy.file,
                f"{heading(table, 'columns')}\n  {example}",
                sql=self.sql,
                span=node.span,
            )
        refusal = Unsupported(reason.problem, reason.advice, sql=self.sql, span=node.span)
        refusal.was_answered = isinstance(reason, Misread)
        raise refusal


def place_of(told: str, count: int) -> int | None:
    """Which of so many things a number from 1 on names; None if there is none.

    >>> place_of("002", 3), place_of("4", 3), place_of("0", 3), place_of("1.5", 3)
    (1, None, None, None)
    """
    digits = told.lstrip("0")
    is_place = digits.isascii() and digits.isdecimal() and len(digits) < 10 and int(digits) <= count
    return int(digits) - 1 if is_place else None


def word(node: Node) -> str:
    """What to call a node in a message."""
    return _CALLED.get(node.kind) or node.called or _WORDS.get(node.kind, "this expression")
