"""What words of SQL mean in PostgreSQL, one by one, and the types that they give.

Each rule takes a node whose parts are translated already, with their types, and writes it in our SQL, or
refuses it with what to write instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sfumato.queries.pgtypes import (
    BOOLEAN,
    FLOAT8,
    INT4,
    INT8,
    OF_TARGET,
    TEXT,
    UNKNOWN,
    WHOLE,
    PgType,
    common,
    first,
)
from sfumato.queries.pgwords import (
    COMPARING,
    EXACT_DECIMALS,
    LOOKING,
    OF_THEIR_ARGUMENT,
    ONE_OF,
    SINGLE,
)
from sfumato.queries.syntax import Node, Text, bare
from sfumato.queries.trees import (
    altered,
    anew,
    as_whole_quotient,
    held_as_double,
    in_last_decimals,
    listed_in,
    number_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class PgRules:
    """The rules, and the types of values that are still to come."""

    text: Text
    given: dict[int, PgType] = field(default_factory=dict)

    def _give(self, node: Node, kind: PgType) -> None:
        """Values that stand in a node have this type, unless more is known."""
        for value in node.arguments.values():
            for each in value if isinstance(value, list) else [value]:
                for one in listed_in(each) if isinstance(each, Node) else ():
                    if one.kind == "Placeholder" and one.name.isdecimal() and kind.name:
                        self.given.setdefault(int(one.name), kind)

    # Rules --------------------------------------------------------------------------------------------

    def divided(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """a / b: of integers an integer."""
        one, other = (*kinds, UNKNOWN, UNKNOWN)[:2]
        if one.is_whole and other.is_whole:
            if is_released:
                self.text.refuse(
                    node,
                    "in PostgreSQL, dividing integers drops the fraction, so this would not be a ratio",
                    "Multiply by 1.0 first, as in: 1.0 * COUNT(x) / COUNT(*)",
                )
            return anew(node, "IntDiv", this=node.this, expression=node.expression), common(kinds)
        if not {"float8", "numeric"} & {one.name, other.name} and not _is_open(node):
            told = "whether this divides integers, which drops the fraction, is not known here"
            self.text.refuse(node, told, "Multiply by 1.0 first, or CAST(x AS DOUBLE PRECISION).")
        if "float8" in (one.name, other.name) or "" in (one.name, other.name):
            return node, common((one, other)) if "float8" in (one.name, other.name) else UNKNOWN
        if is_released:
            is_rounded = one.rounded or other.rounded
            return node, PgType("numeric", rounded="computed" if is_rounded else "divided")
        scales = one.decimals, other.decimals
        if scales[0] is None or scales[1] is None or one.rounded or other.rounded:
            return node, PgType("numeric", rounded="computed")
        return as_whole_quotient(node, max(scales[0], scales[1])), PgType("numeric", rounded="divided")

    def computed(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """a + b, a - b, a * b, a % b, a // b."""
        moments = [kind.name for kind in kinds if kind.name in ("date", "timestamp", "timestamptz")]
        is_apart = any(each.kind == "Interval" for each in node.walk())
        if "timestamptz" in moments and not is_apart:
            told = "DATE_TRUNC gives a timestamp in PostgreSQL, which is not computed with like a date"
            self.text.refuse(node, told, "Cast it first: CAST(DATE_TRUNC('month', x) AS DATE)")
        if moments and node.kind == "Sub" and len(moments) == 2:
            return node, INT4 if moments == ["date", "date"] else UNKNOWN
        if moments and is_apart:
            return node, PgType("timestamp")
        found = common(kinds)
        if found.name != "numeric":
            return node, found
        if is_released:
            return node, replace(found, rounded="computed" if found.rounded else "")
        if any(kind.rounded for kind in kinds) or any(kind.decimals is None for kind in kinds if kind.name):
            return node, PgType("numeric", rounded="computed")
        decimals = [kind.decimals or 0 for kind in kinds]
        return node, PgType("numeric", sum(decimals) if node.kind == "Mul" else max(decimals))

    def compared(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        self._check_compared(node, kinds)
        if BOOLEAN in kinds and any(kind.is_whole or kind.name in ("numeric", "float8") for kind in kinds):
            self.text.refuse(node, "PostgreSQL does not compare booleans with numbers", "Write: x, or NOT x")
        return node, BOOLEAN

    def chosen(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """One of several values, which are compared."""
        if node.kind != "Coalesce":
            self._check_compared(node, kinds)
        found = common(kinds)
        if node.kind == "Nullif" and found.name == "float8" != first(kinds).name:
            target = anew(node, "DataType", this="DOUBLE", nested=False)
            return anew(node, "Cast", this=node, to=target), found
        return node, found

    def either(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """IF(condition, a, b), which PostgreSQL does not have."""
        return node, common(kinds[1:])

    def bucketed(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """WIDTH_BUCKET of numerics is exact: counted in their last decimal, they are whole."""
        given = [node.get(name) for name in ("this", "min_value", "max_value")]
        found = common(kinds[:3])
        if found.name != "numeric" or not all(given):
            return node, INT4
        ends = [number_of(each) for each in given[1:] if each is not None]
        scales = [kind.decimals for kind in kinds[:3]]
        if None in scales or None in ends or found.rounded:
            self._refuse_rounded(node)
        scale = max(each or 0 for each in scales)
        low, high = (written(node, (end or 0) * 10**scale) for end in ends)
        return altered(node, this=in_last_decimals(node.this, scale), min_value=low, max_value=high), INT4

    def same(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """The type of what it is made of: the last part, if an ORDER BY stands in it."""
        return node, kinds[-1] if kinds else UNKNOWN

    def summed(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """SUM of integers is a bigint, of bigints a numeric."""
        kind = first(kinds)
        if kind.rounded:
            return node, PgType("numeric", rounded="computed")
        return node, {"int4": INT8, "int8": WHOLE}.get(kind.name, kind)

    def averaged(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        kind = first(kinds)
        if kind.name in ("float8", ""):
            return node, kind
        if is_released:
            return node, PgType("numeric")
        return node, PgType("numeric", rounded="computed" if kind.rounded or kind.decimals else "divided")

    def spread(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """VARIANCE, STDDEV: numeric, unless of doubles."""
        return node, FLOAT8 if first(kinds).name in ("float8", "") else PgType("numeric")

    def rounded_down(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """FLOOR and CEIL: of a numeric a numeric, else a double."""
        kind = first(kinds)
        if kind.rounded == "computed":
            self._refuse_rounded(node)
        return _exact(node, kind), WHOLE if kind.name == "numeric" else FLOAT8

    def rounded(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """ROUND: of a double to the even neighbour; with digits only of a numeric."""
        kind, digits = first(kinds), node.get("decimals")
        if digits is not None:
            if kind.name == "float8":
                return node, FLOAT8  # which PostgreSQL has not
            if kind.rounded and not is_released:
                self._refuse_rounded(node)
            places = int(digits.text()) if digits.kind == "Literal" and digits.text().isdecimal() else 0
            return _exact(node, kind), PgType("numeric", places)
        if kind.rounded == "computed" and not is_released:
            self._refuse_rounded(node)
        if kind.name == "numeric":
            return _exact(node, kind), WHOLE
        if is_released:
            return (node if kind.is_whole else altered(node, even=True)), FLOAT8
        if kind.is_whole:
            return held_as_double(node.this), FLOAT8
        whole = anew(node, "DataType", this="BIGINT", nested=False)
        return held_as_double(anew(node, "Cast", this=node.this, to=whole)), FLOAT8

    def signed(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        kind = first(kinds)
        if kind.rounded == "computed":
            self._refuse_rounded(node)
        return (node, WHOLE) if kind.name == "numeric" else (held_as_double(node), FLOAT8)

    def root(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        kind = first(kinds)
        if kind.name == "numeric" and not is_released:
            self.text.refuse(
                node,
                "PostgreSQL computes the root of a numeric with more digits than a double has",
                "Write: SQRT(CAST(x AS DOUBLE PRECISION))",
            )
        return node, FLOAT8

    def like(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """LIKE: a backslash makes the sign after it an ordinary one."""
        pattern = bare(node.expression)
        if pattern.kind == "Literal" and "\\" in pattern.text():
            self.text.refuse(
                pattern,
                "patterns with a backslash are not supported",
                "Write STARTS_WITH(x, 'text') or CONTAINS(x, 'text'), which take every character as it is.",
            )
        return node, BOOLEAN

    def trimmed(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """TRIM takes away blanks, and not the spaces of other scripts."""
        blank = anew(node, "Literal", this=" ", is_string=True)
        return (node if node.get("expression") is not None else altered(node, expression=blank)), TEXT

    def part(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """EXTRACT(part FROM x), a numeric, and DATE_PART('part', x), a double."""
        given = node.this if node.kind == "Extract" else next(iter(node.nodes()), node)
        if given.name.lower() in ("second", "seconds") and kinds[-1].name != "date":
            self.text.refuse(
                node,
                "PostgreSQL gives seconds with their fraction",
                "For whole seconds write: SECOND(x)",
            )
        if given.name.lower() == "epoch":
            return node, PgType("numeric") if node.kind == "Extract" else FLOAT8
        return (node, WHOLE) if node.kind == "Extract" else (held_as_double(node), FLOAT8)

    def named(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """A function that the parser does not know."""
        if node.name.lower() in ("date_part", "datepart"):
            return self.part(node, kinds or [UNKNOWN], is_released)
        return node, UNKNOWN

    def truncated(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """DATE_TRUNC of a date is a moment; here it stays the day on which that is."""
        return node, PgType("timestamptz") if first(kinds).name == "date" else first(kinds)

    def within(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        return node, kinds[-1] if kinds and node.this.kind == "PercentileDisc" else FLOAT8

    def ordered(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """What rows are sorted by: NULLs are the largest, as the parser of this dialect writes down."""
        return node, first(kinds)

    def filtered(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        return node, first(kinds)

    def looking(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """LAG(x), SUM(x) OVER (...)."""
        return node, first(kinds)

    def joined_texts(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """a || b, CONCAT: numbers have a form of their own as texts."""
        if any(kind.name in _WRITTEN for kind in kinds):
            told = "PostgreSQL formats numbers, dates, timestamps and booleans as text in its own way"
            self.text.refuse(node, told, "Show them in columns of their own.")
        return node, TEXT

    def matched(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """x ~ pattern."""
        return self.pattern(node), BOOLEAN

    def pattern(self, node: Node) -> Node:
        """A pattern as it is read here: in PostgreSQL a point is any sign, the end of a line too."""
        form = bare(node.expression)
        if re.search(r"(?<!\\)(?:\\\\)*\\[wW]", form.text()):
            told = "\\w also stands for letters of other scripts in PostgreSQL"
            self.text.refuse(form, told, "Write the letters: [A-Za-z0-9_]")
        if re.search(r"(?<!\\)(?:\\\\)*\\[sS]", form.text()):
            told = "\\s also stands for spaces of other scripts in PostgreSQL"
            self.text.refuse(form, told, "Write the characters: [ \t\n]")
        found = re.sub(
            r"\\.|\[(?:\\.|[^\]\\])*\]|\.",
            lambda part: r"[\s\S]" if part[0] == "." else part[0],
            form.text(),
        )
        return altered(node, expression=altered(form, this=found))

    def sliced(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """SUBSTRING(x, start, length): before the first character, PostgreSQL counts on."""
        for name, least in (("start", 1), ("length", 0)):
            given = node.get(name)
            if given is not None and bare(given).kind != "Placeholder" and (number_of(given) or 0) < least:
                known = number_of(given) is not None
                if known or name == "start":
                    told = f"the {name} of SUBSTRING must be written out, and at least {least}"
                    self.text.refuse(given, told, "Write for example: SUBSTRING(x, 1, 3)")
        return node, TEXT

    def split(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """SPLIT_PART(x, by, n); by nothing, PostgreSQL splits nothing."""
        if not bare(node["delimiter"]).text():
            self.text.refuse(node, "SPLIT_PART needs a separator that is written out", "Write: ','")
        if (at := node.get("part_index")) is not None and number_of(at) == 0:
            self.text.refuse(at, "PostgreSQL counts fields from 1", "Write: 1")
        return node, TEXT

    def replaced(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """REGEXP_REPLACE, where the whole match is called otherwise."""
        node = self.pattern(node)
        if "|" in bare(node.expression).text() or re.search(r"[*+?}]\?", bare(node.expression).text()):
            told = "which of several matches is replaced differs from PostgreSQL's choice"
            self.text.refuse(node.expression, told, "Leave out | and lazy repetitions (*?, +?).")
        everywhere = "g" in (node.get("modifiers") or Node("")).text()
        if everywhere and _fits_nothing(bare(node.expression).text()):
            told = "where a pattern that fits nothing is replaced differs from PostgreSQL's choice"
            self.text.refuse(node.expression, told, "Write a pattern of at least one character: a+")
        put = bare(node["replacement"])
        if "\\0" in put.text() or "\\&" in put.text():
            told = "the whole match is written differently in the two dialects"
            self.text.refuse(put, told, "Put parentheses around the pattern, and write \\1.")
        return node, TEXT

    def formatted(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """TO_CHAR(x, 'YYYY-MM'), of which the parser makes the codes of STRFTIME."""
        form = bare(node["format"])
        if '"' in form.text() or "%%" in form.text() or "%" in re.sub(r"%-?[A-Za-z]", "", form.text()):
            told = "quotes and percent signs in a format are not supported"
            self.text.refuse(node, told, "Put texts together with ||.")
        told = form.text().replace("FM%B", "\0").replace("FM%A", "\1")
        if "%B" in told or "%A" in told:
            advice = "Write: TO_CHAR(x, 'TMMonth'), TO_CHAR(x, 'TMDay')"
            self.text.refuse(node, "TO_CHAR pads names of months and days with blanks", advice)
        told = told.replace("\0", "%B").replace("\1", "%A")
        codes = set(re.findall(r"%-?[A-Za-z]", told))
        if codes - _CODES or re.search(r"[A-Za-z]", re.sub(r"%-?[A-Za-z]", "", told)):
            known = "YYYY YY MM DD DDD HH24 MI SS TMMon TMMonth TMDy TMDay"
            self.text.refuse(node, "this format is not supported", f"Use: {known}")
        return altered(node, format=altered(form, this=told)), TEXT

    def is_(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """x IS NOT NULL is one node there."""
        if not node.arguments.get("negate"):
            return node, BOOLEAN
        return anew(node, "Not", this=altered(node, negate=None)), BOOLEAN

    def counted(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """COUNT(DISTINCT x) compares its values."""
        if node.get("this") is not None and node.this.kind == "Distinct" and any(k.rounded for k in kinds):
            self._refuse_rounded(node)
        return node, INT8

    def distinct(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        return node, first(kinds)

    # Casts --------------------------------------------------------------------------------------------

    def cast(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """CAST(x AS type), x::type."""
        kind, target = first(kinds), node["to"]
        node = _exact(node, kind)
        if target.text() in OF_TARGET:
            self._give(node, OF_TARGET[target.text()])
        given = [each.text() or each.name for each in target.nodes()]
        match target.text():
            case "DOUBLE" if not given or (given[0].isdecimal() and int(given[0]) > SINGLE):
                rounded = "" if is_released else kind.rounded
                return altered(node, to=altered(target, expressions=None)), replace(FLOAT8, rounded=rounded)
            case "FLOAT" | "DOUBLE" if is_released:
                return altered(node, to=altered(target, expressions=None)), FLOAT8
            case "FLOAT" | "DOUBLE":
                told = "PostgreSQL computes with REAL in single precision"
                self.text.refuse(node, told, "Write: CAST(x AS DOUBLE PRECISION)")
            case "DECIMAL":
                return self._to_numeric(node, kind, given, is_released)
            case "INT" | "BIGINT" | "SMALLINT" | "TINYINT" as name:
                return self._to_integer(node, kind, INT8 if name == "BIGINT" else INT4, is_released)
            case "VARCHAR" | "TEXT" as name:
                self._check_text(node, kind)
                node = altered(node, to=altered(target, expressions=None))
                if not given:
                    return node, TEXT
                count = anew(node, "Literal", this=given[0], is_string=False)
                return anew(node, "Left", this=node, expression=count), TEXT
            case "CHAR" | "BPCHAR" | "NCHAR":
                self.text.refuse(node, "CHAR cuts and pads texts in PostgreSQL", "Write: LEFT(x, 3)")
            case "DATE":
                return node, PgType("date")
            case "TIMESTAMP" | "TIMESTAMPNTZ" if given:
                told = "TIMESTAMP with a number of decimals is not supported"
                self.text.refuse(node, told, "Write TIMESTAMP alone.")
            case "TIMESTAMP" | "TIMESTAMPNTZ":
                return node, PgType("timestamp")
            case "BOOLEAN":
                return node, BOOLEAN
        return node, UNKNOWN

    def _to_numeric(
        self, node: Node, kind: PgType, given: list[str], is_released: bool
    ) -> tuple[Node, PgType]:
        """NUMERIC keeps what there is, NUMERIC(p, s) rounds it."""
        scale = 0 if len(given) == 1 else int(given[1]) if len(given) == 2 and given[1].isdecimal() else None
        if is_released:
            if not given or scale is None:
                return anew(node, "Paren", this=node.this), PgType("numeric")
            digits = anew(node, "Literal", this=str(scale), is_string=False)
            return anew(node, "Round", this=node.this, decimals=digits), PgType("numeric")
        if kind.name == "float8":
            self.text.refuse(
                node,
                "PostgreSQL converts a double to numeric using its first 15 digits",
                "Leave the cast out, or round with ROUND(x, 2).",
            )
        if not given:
            is_plain = kind.is_whole or kind.name == "numeric"
            if not is_plain:
                return node, PgType("numeric")
            found = kind if kind.name == "numeric" else WHOLE
            return anew(node, "Paren", this=node.this), found
        if kind.rounded:
            self._refuse_rounded(node)
        return node, PgType("numeric", scale)

    def _to_integer(self, node: Node, kind: PgType, target: PgType, is_released: bool) -> tuple[Node, PgType]:
        """A numeric is rounded away from zero where it lies in the middle, a double to the even neighbour."""
        if kind.rounded == "computed" and not is_released:
            self._refuse_rounded(node)
        if kind.rounded or (is_released and kind.name == "numeric"):
            return altered(node, this=anew(node, "Round", this=node.this)), target
        return node, target

    def _check_text(self, node: Node, kind: PgType) -> None:
        if kind.name == "timestamptz":
            self.text.refuse(
                node,
                "PostgreSQL writes it with a time and a time zone",
                "Cast it to a date first: CAST(CAST(x AS DATE) AS TEXT)",
            )
        if kind.name == "float8":
            self.text.refuse(node, "PostgreSQL writes a double in its own way", "Cast it to BIGINT first.")

    # Quotients ----------------------------------------------------------------------------------------

    def _check_compared(self, node: Node, kinds: Sequence[PgType]) -> None:
        """Refuse comparisons that digits beyond those of a double would decide."""
        rounded = [kind for kind in kinds if kind.rounded]
        if not rounded:
            return
        if any(kind.rounded == "computed" for kind in rounded) or len(rounded) > 1:
            self._refuse_rounded(node)
        others = [kind for kind in kinds if kind.name and not kind.rounded]
        if any(kind.name == "float8" for kind in (*others, *rounded) if len(rounded) > 1 or kind in others):
            self._refuse_rounded(node)
        if any(kind.decimals is None or kind.decimals > EXACT_DECIMALS for kind in others):
            self._refuse_rounded(node)

    def _refuse_rounded(self, node: Node) -> None:
        self.text.refuse(
            node,
            "PostgreSQL rounds a quotient of decimals to its own number of digits, which would matter here",
            "Divide last, or use doubles: CAST(a AS DOUBLE PRECISION) / b.",
        )


_WRITTEN = ("float8", "numeric", "timestamp", "timestamptz", "boolean")
_CODES = {"%Y", "%y", "%m", "%d", "%j", "%H", "%M", "%S", "%b", "%B", "%a", "%A"}


def _exact(node: Node, kind: PgType) -> Node:
    """The same, and that it is about decimals: above released rows it cannot be told from a double."""
    return altered(node, numeric=True) if kind.name == "numeric" and kind.decimals != 0 else node


def _fits_nothing(pattern: str) -> bool:
    try:
        return re.search(pattern, "") is not None
    except re.error:
        return True


def _is_open(node: Node) -> bool:
    """Whether a part of a quotient is a value that is still to come, or NULL."""
    return any(each.kind in ("Placeholder", "Null") for each in (bare(node.this), bare(node.expression)))


RULES: dict[str, Callable[[PgRules, Node, list[PgType], bool], tuple[Node, PgType]]] = {
    "Div": PgRules.divided,
    "If": PgRules.either,
    "WidthBucket": PgRules.bucketed,
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod", "IntDiv"), PgRules.computed),
    **dict.fromkeys(COMPARING, PgRules.compared),
    **dict.fromkeys(ONE_OF, PgRules.chosen),
    **dict.fromkeys(OF_THEIR_ARGUMENT, PgRules.same),
    **dict.fromkeys(("Floor", "Ceil"), PgRules.rounded_down),
    **dict.fromkeys(("Like", "ILike"), PgRules.like),
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), PgRules.truncated),
    **dict.fromkeys(("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp"), PgRules.spread),
    "Sum": PgRules.summed,
    "Avg": PgRules.averaged,
    "Round": PgRules.rounded,
    "Sign": PgRules.signed,
    "Sqrt": PgRules.root,
    "Trim": PgRules.trimmed,
    "Extract": PgRules.part,
    "Anonymous": PgRules.named,
    "WithinGroup": PgRules.within,
    "Ordered": PgRules.ordered,
    "Filter": PgRules.filtered,
    "Is": PgRules.is_,
    "Count": PgRules.counted,
    "Distinct": PgRules.distinct,
    "Cast": PgRules.cast,
    **dict.fromkeys(LOOKING, PgRules.looking),
    **dict.fromkeys(("Concat", "DPipe"), PgRules.joined_texts),
    **dict.fromkeys(("Ln", "Exp", "Pow"), PgRules.root),
    "TimeToStr": PgRules.formatted,
    "RegexpReplace": PgRules.replaced,
    "RegexpLike": PgRules.matched,
    "SplitPart": PgRules.split,
    "Substring": PgRules.sliced,
}
