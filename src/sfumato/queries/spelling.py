"""Other spellings of what is read anyway: trees that are rewritten before they are read.

Nothing here knows of people, plans or distances. What a word of another system means is written in words that
are read here; what these do not say is left as it is, and refused later by its own name.
"""

from __future__ import annotations

import datetime
import difflib
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.queries.syntax import Node, bare
from sfumato.queries.trees import altered, anew, literal, one_quantile_each

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.made import End

MOST_RANKS = 100  # quantiles that APPROX_QUANTILES(x, n) may stand for
_AGGREGATES = {  # of one value, by the names of other systems
    **dict.fromkeys(("VAR", "VARIANCE_SAMP"), "Variance"),
    **dict.fromkeys(("VARP", "VARIANCE_POP"), "VariancePop"),
    "STD": "Stddev",
    "STDEVP": "StddevPop",
    **dict.fromkeys(("MEAN", "FAVG"), "Avg"),
    "EVERY": "LogicalAnd",
    "ENTROPY": "Entropy",
    "HISTOGRAM": "Histogram",
}
_COMPARED = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE")


def plainly(tree: Node) -> Node:
    """The same query in the words that are read here."""
    return one_quantile_each(_changed(tree))


def _changed(node: Node) -> Node:
    """A node, its parts first."""
    parts: dict[str, Node | list[Node] | str | bool | None] = {}
    for name, value in node.arguments.items():
        if isinstance(value, Node):
            found = _changed(value)
            if found is not value:
                parts[name] = found
        elif isinstance(value, list):
            listed = [_changed(each) for each in value]
            if any(a is not b for a, b in zip(listed, value, strict=True)):
                parts[name] = listed
    node = altered(node, **parts)
    change = _named if node.kind == "Anonymous" else _CHANGES.get(node.kind)
    return node if change is None else change(node)


def _named(node: Node) -> Node:
    """A function that the parser does not know."""
    name, given = node.name.upper(), node.nodes()
    if len(given) == 1 and name in _AGGREGATES:
        return anew(node, _AGGREGATES[name], this=given[0])
    if len(given) == 1 and name in ("GEOMEAN", "GEOMETRIC_MEAN"):  # bounds above 0 are asked for by LN
        return anew(node, "Exp", this=anew(node, "Avg", this=anew(node, "Ln", this=given[0])))
    if len(given) == 3 and name == "IFF":
        return anew(node, "If", this=given[0], true=given[1], false=given[2])
    if len(given) == 2 and name == "TO_DATE":
        return _read_by(node, _text_of(given[0]), _codes(_text_of(given[1]) or "%"), "DATE")
    if len(given) == 1 and name == "ISOYEAR":
        return anew(node, "Extract", this=anew(node, "Var", this="isoyear"), expression=given[0])
    if name == "YEARWEEK" and (len(given) == 1 or (len(given) == 2 and bare(given[1]).text() == "3")):
        parts = [
            anew(node, "Extract", this=anew(node, "Var", this=unit), expression=given[0])
            for unit in ("isoyear", "week")
        ]
        years = anew(node, "Mul", this=parts[0], expression=literal(node, "100"))
        return anew(node, "Paren", this=anew(node, "Add", this=years, expression=parts[1]))
    if len(given) == 1 and name == "ZEROIFNULL":
        return anew(node, "Coalesce", this=given[0], expressions=[literal(node, "0")])
    return node


def _quantiles(node: Node) -> Node:
    """APPROX_QUANTILES(x, n): the least, the greatest, and n - 1 between them."""
    count = node.get("expression")
    told = "" if count is None else bare(count).text()
    if not (told.isascii() and told.isdecimal()) or not 1 <= int(told[:4]) <= MOST_RANKS:
        return node
    ranks = [literal(node, format(Decimal(i) / int(told), ".6f")) for i in range(int(told) + 1)]
    return anew(node, "ApproxQuantile", this=node.this, quantile=anew(node, "Array", expressions=ranks))


def _between(node: Node) -> Node:
    """BETWEEN SYMMETRIC: whichever end is the lower one."""
    if not node.arguments.get("symmetric"):
        return node
    one = altered(node, symmetric=None)
    other = altered(one, low=node["high"], high=node["low"])
    return anew(node, "Paren", this=anew(node, "Or", expressions=[one, other]))


def _among(node: Node) -> Node:
    """(a, b) IN ((1, 2), (3, 4)): false where a part is NULL, as DuckDB has it."""
    parts = bare(node.this).nodes() if bare(node.this).kind == "Tuple" else []
    rows = [bare(each).nodes() for each in node.nodes() if bare(each).kind == "Tuple"]
    if not parts or not rows or len(rows) != len(node.nodes()) or any(len(row) != len(parts) for row in rows):
        return node
    found = [
        anew(
            node,
            "And",
            expressions=[
                one
                for part, value in zip(parts, row, strict=True)
                for one in (
                    anew(node, "Not", this=anew(node, "Is", this=part, expression=anew(node, "Null"))),
                    anew(node, "EQ", this=part, expression=value),
                )
            ],
        )
        for row in rows
    ]
    return anew(node, "Paren", this=anew(node, "Or", expressions=found)) if len(found) > 1 else found[0]


def _one_each(node: Node) -> Node:
    """DISTINCT ON (k) ... ORDER BY k, x: the first row of each k."""
    distinct = node.get("distinct")
    on = None if distinct is None else distinct.get("on")
    if on is None or node.get("qualify") is not None or node.nodes("windows"):
        return node
    names = {each.alias.lower(): each.this for each in node.nodes() if each.kind == "Alias"}
    keys = [_meant(each, names) for each in (on.nodes() if on.kind == "Tuple" else [bare(on)])]
    if (order := node.get("order")) is not None:
        by = [altered(each, this=_meant(each.this, names)) for each in order.nodes()]
        order = altered(order, expressions=by)
    if any(
        not _is_told(each, names)
        for each in [*keys, *(each.this for each in (order.nodes() if order is not None else []))]
    ):
        return node
    number = anew(node, "Window", this=anew(node, "RowNumber"), partition_by=keys)
    if order is not None:
        told = [_told(each) for each in keys]
        by = [each for each in order.nodes() if _told(each.this) not in told]
        number = altered(number, order=altered(order, expressions=by)) if by else number
    first = anew(node, "EQ", this=number, expression=literal(node, "1"))
    return altered(node, distinct=None, qualify=anew(node, "Qualify", this=first))


def _meant(node: Node, names: dict[str, Node]) -> Node:
    """What a name alone stands for: a result called so, before a column."""
    inner = bare(node)
    is_name = inner.kind == "Column" and inner.get("table") is None
    return names.get(inner.name.lower(), node) if is_name else node


def _is_told(node: Node, names: dict[str, Node]) -> bool:
    """Whether it is an expression of columns: no position, and with no name of a result in it, which would be
    another column there."""
    inner = bare(node)
    if inner.kind in ("Literal", "Neg"):
        return False
    is_result = any(inner is bare(each) for each in names.values())
    columns = [each for each in inner.walk() if each.kind == "Column" and each.get("table") is None]
    return inner.kind == "Column" or is_result or not any(each.name.lower() in names for each in columns)


def _told(node: Node) -> object:
    """What tells an expression from another by its spelling."""
    node = bare(node)
    if node.kind == "Column":
        of = node.get("table")
        return "Column", of.name.lower() if of is not None else "", node.name.lower()
    return node.kind, [
        (name, [_told(each) for each in value] if isinstance(value, list) else value)
        if not isinstance(value, Node)
        else (name, _told(value))
        for name, value in sorted(node.arguments.items())
    ]


def _apart(node: Node) -> Node:
    """later - earlier <= INTERVAL '30' MINUTE: in microseconds, as engines compare lengths of time."""
    sides = [bare(node.this), bare(node.expression)]
    spans = [_microseconds(each) for each in sides]
    if (spans[0] is None) == (spans[1] is None):
        return node
    at = 0 if spans[0] is None else 1
    length, spent = spans[1 - at], sides[at]
    if spent.kind != "Sub" or _is_length(spent.expression) or _is_length(spent.this):
        return node
    apart = anew(node, "LengthOfTime", this=spent.this, expression=spent.expression)
    told = literal(node, str(abs(length or 0)))
    number = anew(node, "Neg", this=told) if (length or 0) < 0 else told
    return (
        altered(node, this=apart, expression=number)
        if at == 0
        else altered(node, this=number, expression=apart)
    )


_UNITS = {"MICROSECOND": 1, "MILLISECOND": 10**3, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_UNITS |= {"DAY": 24 * _UNITS["HOUR"], "WEEK": 7 * 24 * _UNITS["HOUR"]}
_UNITS |= {"MONTH": 30 * _UNITS["DAY"], "YEAR": 360 * _UNITS["DAY"]}  # of lengths of time that are compared


def _is_length(node: Node) -> bool:
    return bare(node).kind == "Interval"


def _microseconds(node: Node) -> int | None:
    """How long INTERVAL '30' MINUTE is; None if it is something else."""
    if node.kind != "Interval" or node.get("unit") is None:
        return None
    unit, given = node["unit"].name.upper().rstrip("S"), bare(node.this)
    negative = given.kind == "Neg"
    told = bare(given.this).text() if negative else given.text()
    if unit not in _UNITS or not (told.isascii() and told.isdecimal()) or len(told) > 9:
        return None
    return int(told) * _UNITS[unit] * (-1 if negative else 1)


# Dates and moments that are written as texts ----------------------------------------------------------------

_SPANS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_ZONED = ("TIMESTAMPTZ", "TIMESTAMPLTZ")
_TOKENS = {  # of TO_CHAR and TO_DATE, the longest first
    "YYYY": "%Y", "HH24": "%H", "DDD": "%j", "YY": "%y", "MM": "%m", "DD": "%d", "MI": "%M", "SS": "%S",
}  # fmt: skip
_READ = (
    "%Y",
    "%m",
    "%d",
    "%H",
    "%M",
    "%S",
    "%y",
    "%j",
    "%b",
    "%B",
    "%%",
)  # codes that are read alike everywhere


def _codes(form: str) -> str | None:
    """A format of TO_CHAR in the codes of STRFTIME; nothing if it has others."""
    found = re.sub("|".join(_TOKENS), lambda token: _TOKENS[token[0]], form)
    return None if re.search(r"[A-Za-z\"]", re.sub(r"%[A-Za-z]", "", found)) or "%" in form else found


def _text_of(node: Node | None) -> str | None:
    """A text that is written out."""
    inner = None if node is None else bare(node)
    is_text = inner is not None and inner.kind == "Literal" and bool(inner.arguments.get("is_string"))
    return inner.text() if inner is not None and is_text else None


def _moment(node: Node, moment: datetime.datetime, target: str) -> Node:
    """A literal of a date, or of a moment in UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    told = moment.date().isoformat() if target == "DATE" else moment.isoformat(" ")
    text = anew(node, "Literal", this=told, is_string=True)
    return anew(node, "Cast", this=text, to=anew(node, "DataType", this=target, nested=False))


def _read_by(node: Node, text: str | None, form: str | None, target: str) -> Node:
    """STRPTIME('05/01/2024', '%d/%m/%Y'), of texts that are written out."""
    if text is None or form is None or set(re.findall(r"%.", form)) - set(_READ):
        return node
    try:
        return _moment(node, datetime.datetime.strptime(text, form), target)  # it has no zone
    except ValueError:
        return node


def _parsed(node: Node) -> Node:
    return _read_by(node, _text_of(node.get("this")), _text_of(node.get("format")), "TIMESTAMP")


def _cast(node: Node) -> Node:
    """TIMESTAMPTZ '2024-01-05 10:00+02' is a moment in UTC, in which all moments are; a date of a moment."""
    target, inner = node["to"].text(), bare(node.this)
    span = re.fullmatch(r"\s*(-?\d{1,6})\s+([a-z]+?)s?\s*", (_text_of(inner) or "").lower())
    if target == "INTERVAL" and span is not None and span[2].upper() in _SPANS:
        count = anew(node, "Literal", this=span[1], is_string=True)
        return anew(node, "Interval", this=count, unit=anew(node, "Var", this=span[2].upper()))
    if target in _ZONED and (text := _text_of(inner)) is not None:
        try:
            return _moment(node, datetime.datetime.fromisoformat(text.strip()), "TIMESTAMP")
        except ValueError:
            return node
    is_moment = inner.kind == "Cast" and inner["to"].text() == "TIMESTAMP"
    if target == "DATE" and is_moment and (text := _text_of(inner.this)) is not None:
        try:
            return _moment(node, datetime.datetime.fromisoformat(text.strip()), "DATE")
        except ValueError:
            return node
    return node


def _as_date(node: Node) -> Node:
    """DATE(x)."""
    if node.get("this") is None or node.nodes():
        return node
    return anew(node, "Cast", this=node.this, to=anew(node, "DataType", this="DATE", nested=False))


def _written(node: Node) -> Node:
    """TO_CHAR(x, 'YYYY-MM')."""
    form = _codes(_text_of(node.get("format")) or "%")
    if form is None:
        return node
    return anew(node, "TimeToStr", this=node.this, format=anew(node, "Literal", this=form, is_string=True))


def _distinct_from(node: Node) -> Node:
    """a IS DISTINCT FROM b: never unknown."""
    a, b = node.this, node.expression
    nothing = anew(node, "Null")
    sides = [each for each in (a, b) if bare(each).kind not in ("Literal", "Boolean")]
    if any(bare(each).kind == "Null" for each in (a, b)):
        other = b if bare(a).kind == "Null" else a
        same = anew(node, "Is", this=other, expression=nothing)
    else:
        missing = [anew(node, "Is", this=each, expression=nothing) for each in sides]
        known = [anew(node, "Not", this=each) for each in missing]
        same = anew(node, "And", expressions=[*known, anew(node, "EQ", this=a, expression=b)])
        if len(missing) > 1:
            same = anew(
                node,
                "Paren",
                this=anew(node, "Or", expressions=[anew(node, "And", expressions=missing), same]),
            )
    return same if node.kind == "NullSafeEQ" else anew(node, "Not", this=anew(node, "Paren", this=same))


def _cut_off(node: Node) -> Node:
    """TRUNC(x): towards zero."""
    if node.get("this") is None or node.get("decimals") is not None:
        return node
    low = anew(node, "LT", this=node.this, expression=literal(node, "0"))
    branch = anew(node, "If", this=low, true=anew(node, "Ceil", this=node.this))
    return anew(node, "Case", ifs=[branch], default=anew(node, "Floor", this=node.this), cut_off=node.this)


_CHANGES: dict[str, Callable[[Node], Node]] = {
    "ApproxQuantiles": _quantiles,
    "Between": _between,
    "In": _among,
    "Select": _one_each,
    "Cast": _cast,
    "Date": _as_date,
    "StrToTime": _parsed,
    "ToChar": _written,
    "Trunc": _cut_off,
    **dict.fromkeys(("NullSafeEQ", "NullSafeNEQ"), _distinct_from),
    **dict.fromkeys(_COMPARED, _apart),
}


# What is not known -----------------------------------------------------------------------------------------

_KNOWN = (
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "MODE", "VARIANCE", "VAR_POP", "VAR_SAMP"),
    *(
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "CORR",
        "COVAR_POP",
        "COVAR_SAMP",
        "REGR_SLOPE",
        "REGR_INTERCEPT",
    ),
    *("REGR_R2", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "APPROX_QUANTILE", "GEOMEAN"),
    *("APPROX_COUNT_DISTINCT", "ABS", "ROUND", "FLOOR", "CEIL", "SQRT", "LN", "EXP", "POWER", "SIGN"),
    *("COALESCE", "NULLIF", "LEAST", "GREATEST", "LOWER", "UPPER", "LENGTH", "SUBSTRING", "REPLACE", "TRIM"),
    *("STRPOS", "SPLIT_PART", "CONCAT", "DATE_TRUNC", "DATE_DIFF", "DATE_PART", "STRFTIME", "WIDTH_BUCKET"),
)
_OTHERWISE = {
    **dict.fromkeys(
        ("SKEWNESS", "KURTOSIS"),
        "Ask for the averages of x, POWER(x, 2), POWER(x, 3) and POWER(x, 4), and compute it from these.",
    ),
    **dict.fromkeys(
        (
            "LISTAGG",
            "STRING_AGG",
            "GROUP_CONCAT",
            "ARRAY_AGG",
            "LIST",
            "JSON_AGG",
            "JSONB_AGG",
            "JSON_ARRAYAGG",
        ),
        "Values are never listed one by one. To list those that many people share: GROUP BY x",
    ),
    "AGE": "Write: EXTRACT(YEAR FROM AGE(a, b)) >= 18, or DATE_DIFF('day', b, a)",
    **dict.fromkeys(("LOG", "LOG10", "LOG2"), "For rows there is LN: LN(x) / 2.302585092994046e0"),
    **dict.fromkeys(
        ("STRPTIME", "TO_DATE", "TO_TIMESTAMP"), "Compare with a date that is written out: DATE '2024-01-31'"
    ),
    "PRODUCT": "Add up logarithms: EXP(SUM(LN(x)))",
    **dict.fromkeys(
        ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH"),
        "Select it alone, in the outermost SELECT: DP_INTERVAL_LOW(n) AS low",
    ),
}


def end_of(node: Node) -> tuple[Node, End]:
    """Of what an end of its interval is asked for, and which: DP_INTERVAL_LOW(n)."""
    inner = bare(node)
    name = inner.name.upper() if inner.kind == "Anonymous" and len(inner.nodes()) == 1 else ""
    if name == "DP_INTERVAL_LOW":
        return inner.nodes()[0], "low"
    return (inner.nodes()[0], "high") if name == "DP_INTERVAL_HIGH" else (node, "")


def instead_of(node: Node) -> tuple[str, str] | None:
    """What to say of a function that is not known, and what to write instead; None if it is known."""
    name = re.sub(r"^the function |\(\)$", "", node.called)
    if not node.called or (node.kind != "Anonymous" and name not in _OTHERWISE) or name in _KNOWN:
        return None
    if name in _OTHERWISE:
        return f"{node.called} is not supported", _OTHERWISE[name]
    near = difflib.get_close_matches(name, _KNOWN, n=2, cutoff=0.6)
    advice = f"Did you mean {' or '.join(near)}?" if near else "Leave it out, or write it differently."
    return f"{node.called} is not known", advice
