"""What a question means in PostgreSQL, written in the SQL that is read here.

The two dialects share nearly all their words; a few of them mean something else. Here the tree of a question
is rewritten, before it is read, so that what is read is what PostgreSQL means: integers are divided as
integers, ROUND of a double goes to the even neighbour, names without quotes are in lower case. For that every
expression gets the type that PostgreSQL gives it, from the types that the catalog of the server shows:
`integer` columns are bigint, `number` columns double precision, or numeric if the source holds decimals.
What cannot be said in our SQL is refused, with what to write instead. Words that PostgreSQL does not have
(MEDIAN, COUNT_IF, `//`) keep the meaning that they have here.

A quotient of decimals is a special case. PostgreSQL rounds it to 16 digits or more, we to a double. Both are
the exact quotient where they are compared with a number of ordinary size, so that is allowed; where a rounded
quotient is computed with first, or two of them are compared, the digits beyond would decide.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import QueryRefused
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
    columns_of,
    common,
    first,
)
from sfumato.queries.pgwords import (
    ALIKE,
    COMPARING,
    EXACT_DECIMALS,
    LOOKING,
    OF_THEIR_ARGUMENT,
    ONE_OF,
    OWN_WORDS,
    PLACES,
    SAME,
    SINGLE,
    TAKING,
)
from sfumato.queries.reading import DIGITS
from sfumato.queries.syntax import ABOVE, AGGREGATES, ARGUMENTS, Missing, Node, Text, bare, word
from sfumato.queries.trees import (
    altered,
    anew,
    as_whole_quotient,
    folded,
    held_as_double,
    in_last_decimals,
    is_result,
    is_value,
    listed_in,
    number_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_SUBQUERIES = ("Select", "Union", "Subquery")

Columns = dict[str, PgType]


@dataclass(frozen=True, slots=True)
class _Names:
    """The columns that a query can use, by the names of what they are columns of."""

    sources: tuple[tuple[str, Columns], ...] = ()
    aliases: tuple[tuple[str, PgType], ...] = ()  # of what it selects

    def type_of(self, name: str, table: str) -> PgType:
        for alias, columns in self.sources:
            if not table or alias.lower() == table.lower():
                if name in columns:
                    return columns[name]
                for column, kind in columns.items():
                    if column.lower() == name.lower():
                        return kind
        return next((kind for alias, kind in self.aliases if alias.lower() == name.lower()), UNKNOWN)


def translated(tree: Node, text: Text) -> Node:
    """The tree of a question in PostgreSQL's dialect, in ours."""
    while tree.kind in ("Subquery", "Paren") and tree.get("alias") is None:
        tree = tree.this
    if tree.kind not in _SUBQUERIES:
        return tree
    return _Translation(text).query(tree, {}, is_released=True)[0]


def inferred(tree: Node, text: Text) -> dict[int, PgType]:
    """The types of values that are still to come ($1), from what stands beside them."""
    found = _Translation(text)
    with suppress(QueryRefused, Missing, RecursionError):
        if tree.kind in _SUBQUERIES:
            found.query(tree, {}, is_released=True)
    return found.given


@dataclass(frozen=True, slots=True)
class _Translation:
    text: Text
    given: dict[int, PgType] = field(default_factory=dict)  # of values that are still to come

    # Queries ------------------------------------------------------------------------------------------

    def query(
        self, node: Node, named: dict[str, Columns], *, is_released: bool, beyond: _Names | None = None
    ) -> tuple[Node, Columns]:
        """A query and the columns that it gives; `beyond` are those of the query that it stands in."""
        if node.kind == "Union":
            node, named = self._with(node, named)
            first, columns = self.query(node.this, named, is_released=False)
            second, others = self.query(node.expression, named, is_released=False)
            pairs = zip(columns.items(), others.values(), strict=False)
            return altered(node, this=first, expression=second), {
                name: common((mine, other)) for (name, mine), other in pairs
            }
        if node.kind in ("Subquery", "Paren"):
            inner, columns = self.query(node.this, named, is_released=False, beyond=beyond)
            return self._folded(altered(node, this=inner)), columns
        if node.kind != "Select":
            return node, {}
        node, named = self._with(node, named)
        node, names = self._from(node, named)
        if beyond is not None:
            names = replace(names, sources=(*names.sources, *beyond.sources))
        return self._select(node, names, named, is_released)

    def _with(self, node: Node, named: dict[str, Columns]) -> tuple[Node, dict[str, Columns]]:
        clause = node.get("with_")
        if clause is None:
            return node, named
        named, bodies = dict(named), []
        known: set[str] = set()
        for each in clause.nodes():
            body, columns = self.query(each.this, named, is_released=False)
            each = self._folded(altered(each, this=body))
            if each.alias in known:
                self._refuse_names(each, each.alias)
            if each.alias != each.alias.lower():  # a table or another query may have the same name but for it
                self.text.refuse(each, "names in WITH are in lower case here", "Write it in lower case.")
            known.add(each.alias)
            named[each.alias.lower()] = columns
            bodies.append(each)
        return altered(node, with_=altered(clause, expressions=bodies)), named

    def _from(self, node: Node, named: dict[str, Columns]) -> tuple[Node, _Names]:
        """What stands in FROM, and the columns of it."""
        clause = node.get("from_")
        if clause is None:
            return node, _Names()
        first, names = self._source(clause.this, named)
        sources = [names]
        inner, sources = self._joins(first, named, sources)
        node, sources = self._joins(altered(node, from_=altered(clause, this=inner)), named, sources)
        return node, _Names(tuple(sources))

    def _joins(
        self, node: Node, named: dict[str, Columns], sources: list[tuple[str, Columns]]
    ) -> tuple[Node, list[tuple[str, Columns]]]:
        joins = []
        for each in node.nodes("joins"):
            right, names = self._source(each.this, named)
            each = self._folded(altered(each, this=right))
            for name in each.nodes("using"):
                kinds = [_Names(tuple(s)).type_of(name.name, "") for s in (sources, [names])]
                self._check_compared(name, kinds)
                is_whole = kinds[0].is_whole and kinds[1].is_whole
                if kinds[0].name != kinds[1].name and not is_whole and kinds[0].name and kinds[1].name:
                    told = f"{name.name} has two types here, and PostgreSQL takes the wider one"
                    self.text.refuse(name, told, "Join with ON, and say which of the columns you mean.")
            sources = [*sources, names]
            if (on := each.get("on")) is not None:
                each = altered(each, on=self.typed(on, _Names(tuple(sources)), named)[0])
            joins.append(each)
        return (altered(node, joins=joins), sources) if joins else (node, sources)

    def _source(self, node: Node, named: dict[str, Columns]) -> tuple[Node, tuple[str, Columns]]:
        if node.kind == "Subquery":
            found, columns = self.query(node, named, is_released=False)
            return found, (found.alias, columns)
        node = self._folded(node)
        if node.kind != "Table" or node.this.kind != "Identifier":
            return node, ("", {})
        alias = node.alias or node.name
        columns_ = None if node.arguments.get("in_schema") else named.get(node.name.lower())
        if columns_ is not None:
            return node, (alias, columns_)
        return node, (alias, columns_of(self.text.policy.table(node.name)))

    def _select(
        self, node: Node, names: _Names, named: dict[str, Columns], is_released: bool
    ) -> tuple[Node, Columns]:
        items: list[Node] = []
        columns: Columns = {}
        for position, item in enumerate(node.nodes(), start=1):
            if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
                items.append(self._folded(item))
                of = item.get("table")
                for alias, found in names.sources:
                    if of is None or alias.lower() == of.name.lower():
                        columns |= {name: kind for name, kind in found.items() if name not in columns}
                continue
            found_item, kind = self._item(item, names, named, is_released)
            items.append(found_item)
            name = found_item.alias or (
                found_item.name if found_item.kind == "Column" else f"column_{position}"
            )
            if any(each != name and each.lower() == name.lower() for each in columns):
                self._refuse_names(item, name)
            columns[name] = kind
        names = replace(names, aliases=tuple(columns.items()))
        changed: dict[str, Node | list[Node]] = {"expressions": items}
        if (where := node.get("where")) is not None:
            changed["where"] = self.typed(where, names, named)[0]
        if (having := node.get("having")) is not None:
            changed["having"] = self.typed(having, names, named, is_released)[0]
        if node.arguments.get("distinct") and any(kind.rounded for kind in columns.values()):
            self._refuse_rounded(node)
        if (limit := node.get("limit")) is not None:
            self._give(limit, INT8)
        if (group := node.get("group")) is not None:
            changed["group"] = self._group(group, names, named)
        if (order := node.get("order")) is not None:
            changed["order"] = self._order(order, names, named, is_released)
        return altered(node, **changed), columns

    def _refuse_names(self, node: Node, name: str) -> None:
        told = f"two names differ only by upper and lower case, or not at all: {name}"
        self.text.refuse(node, told, "Give one of them another name.")

    def _item(
        self, item: Node, names: _Names, named: dict[str, Columns], is_released: bool
    ) -> tuple[Node, PgType]:
        if item.kind != "Alias":
            return self.typed(item, names, named, is_released and is_result(item))
        inner, kind = self.typed(item.this, names, named, is_released and is_result(item))
        return self._folded(altered(item, this=inner)), kind

    def _group(self, group: Node, names: _Names, named: dict[str, Columns]) -> Node:
        """GROUP BY; a number in it is a position."""

        def key(node: Node) -> Node:
            if node.kind in ("Rollup", "Cube"):
                return altered(node, expressions=[key(each) for each in node.nodes()])
            if node.kind == "Literal":
                return node
            found, kind = self.typed(node, names, named)
            if kind.rounded:
                self._refuse_rounded(node)
            return found

        return altered(group, expressions=[key(each) for each in group.nodes()])

    def _order(self, order: Node, names: _Names, named: dict[str, Columns], is_released: bool) -> Node:
        def key(node: Node) -> Node:
            if node.this.kind == "Literal":
                return node
            return altered(node, this=self.typed(node.this, names, named, is_released and is_result(node))[0])

        return altered(order, expressions=[key(each) for each in order.nodes()])

    # Expressions --------------------------------------------------------------------------------------

    def typed(
        self, node: Node, names: _Names, named: dict[str, Columns], is_released: bool = False
    ) -> tuple[Node, PgType]:
        """An expression in our SQL, and its type in PostgreSQL; `is_released` where aggregates are shown."""
        if node.kind in _SUBQUERIES:
            found, columns = self.query(node, named, is_released=False, beyond=names)
            return found, next(iter(columns.values()), UNKNOWN)
        if node.kind == "Column":
            return self._column(node, names)
        if node.kind == "Literal":
            return self._literal(node)
        if node.kind == "Case":
            return self._case(node, names, named, is_released)
        parts: dict[str, Node | list[Node]] = {}
        kinds: list[PgType] = []
        children: list[Node] = []
        inner = is_released and node.kind not in AGGREGATES and node.kind not in ("Filter", "WithinGroup")
        for name, value in node.arguments.items():
            listed = value if isinstance(value, list) else [value] if isinstance(value, Node) else []
            typed = [self.typed(each, names, named, inner) for each in listed]
            if listed:
                made = [each for each, _ in typed]
                parts[name] = made if isinstance(value, list) else made[0]
                kinds += [kind for _, kind in typed]
                children += listed
        node = self._folded(altered(node, **parts))
        for name, kind in PLACES.get(node.kind, {}).items():
            kind = FLOAT8 if (node.kind, name) == ("Round", "this") and not node.get("decimals") else kind
            self._give(Node("", {"": node.arguments.get(name, "")}), kind)
        if node.kind in ALIKE:
            alike = common(kinds)
            self._give(node, alike)
            kinds = [alike if is_value(each) else kind for each, kind in zip(children, kinds, strict=True)]
        elif (wanted := TAKING.get(node.kind)) is not None:
            self._give(node, wanted)
        self._check_digits(node, children)
        rule = _RULES.get(node.kind)
        if rule is not None:
            return rule(self, node, kinds, is_released)
        if node.kind in SAME:
            return node, SAME[node.kind]
        if node.kind in ABOVE or node.kind in ARGUMENTS:
            self.text.refuse(
                node,
                f"{word(node)} is not supported in PostgreSQL's dialect",
                "Leave it out, or write it differently.",
            )
        return node, UNKNOWN  # whatever else there is: the reader refuses what it does not know

    def _case(
        self, node: Node, names: _Names, named: dict[str, Columns], is_released: bool
    ) -> tuple[Node, PgType]:
        """CASE: what stands before THEN is compared, what stands after it is its value."""

        def typed(each: Node) -> tuple[Node, PgType]:
            return self.typed(each, names, named, is_released)

        changed: dict[str, Node | list[Node]] = {}
        compared, values, branches = list[PgType](), list[PgType](), list[Node]()
        if (subject := node.get("this")) is not None:
            changed["this"], kind = typed(subject)
            compared.append(kind)
        for each in node.nodes("ifs"):
            when, kind = typed(each.this)
            then, value = typed(each["true"])
            compared.append(kind)
            values.append(value)
            branches.append(altered(each, this=when, true=then))
        changed["ifs"] = branches
        if (default := node.get("default")) is not None:
            changed["default"], kind = typed(default)
            values.append(kind)
        if subject is not None:
            self._check_compared(node, compared)
            self._give(Node("", {"all": [subject, *(each.this for each in branches)]}), common(compared))
        thens = [each["true"] for each in branches] + ([] if default is None else [default])
        self._give(Node("", {"all": thens}), common(values))
        return altered(node, **changed), common(values)

    def _check_digits(self, node: Node, children: list[Node]) -> None:
        """Refuse decimals of more digits than a double tells apart, unless they are made doubles."""
        is_double = node.kind == "Cast" and node["to"].text() == "DOUBLE"
        if is_double or node.kind in ("Neg", "Paren"):
            return
        for each in children:
            number = number_of(each)
            if (
                number is not None
                and number != int(number)
                and len(number.normalize().as_tuple().digits) > DIGITS
            ):
                told = "this number has more digits than are computed with"
                self.text.refuse(
                    each, told, f"Write at most {DIGITS} digits, or CAST(... AS DOUBLE PRECISION)."
                )

    def _give(self, node: Node, kind: PgType) -> None:
        """Values that stand in a node have this type, unless more is known."""
        for value in node.arguments.values():
            for each in value if isinstance(value, list) else [value]:
                for one in listed_in(each) if isinstance(each, Node) else ():
                    if one.kind == "Placeholder" and one.name.isdecimal() and kind.name:
                        self.given.setdefault(int(one.name), kind)

    def _column(self, node: Node, names: _Names) -> tuple[Node, PgType]:
        node = self._folded(node)
        table = node.get("table")
        if node.this.kind != "Identifier":
            return node, UNKNOWN
        if table is None and node.name in OWN_WORDS and not node.this.arguments.get("quoted"):
            told = f"{node.name} is a word of PostgreSQL, not a column"
            self.text.refuse(node, told, f'If you mean a column, write: "{node.name}"')
        return node, names.type_of(node.name, table.name if table is not None else "")

    def _literal(self, node: Node) -> tuple[Node, PgType]:
        """1e-1 is a decimal in PostgreSQL, as 0.1 is."""
        if node.arguments.get("is_string"):
            if re.fullmatch(r"\d{4}-\d\d-\d\d[ T].*\.\d{7,}.*", node.text()):
                told = "PostgreSQL rounds a moment to six decimals of a second"
                self.text.refuse(node, told, "Write at most six.")
            return node, UNKNOWN
        written = node.text()
        if re.fullmatch(r"\d{1,40}", written):
            size = int(written)
            return node, INT4 if size < 1 << 31 else INT8 if size < 1 << 63 else WHOLE
        if re.fullmatch(r"(\d{1,40}(\.\d{0,40})?|\.\d{1,40})[eE][+-]?\d{1,2}", written):
            plain = format(Decimal(written), "f")
            node = altered(node, this=plain if "." in plain else f"{plain}.")
        scale = len(node.text().partition(".")[2].rstrip("0"))
        return node, PgType("numeric", scale)

    def _folded(self, node: Node) -> Node:
        """The same with its names as PostgreSQL has them: in lower case, unless they are quoted."""
        changed: dict[str, Node | list[Node]] = {}
        for name, value in node.arguments.items():
            if isinstance(value, Node) and value.kind in ("Identifier", "TableAlias"):
                changed[name] = folded(value)
            elif isinstance(value, list) and any(each.kind == "Identifier" for each in value):
                changed[name] = [folded(each) for each in value]
        return altered(node, **changed) if changed else node

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
        if moments and node.kind == "Sub" and len(moments) == 2:
            return node, INT4 if moments == ["date", "date"] else UNKNOWN
        if moments and any(each.kind == "Interval" for each in node.walk()):
            return node, PgType("timestamptz" if moments == ["date"] else "timestamp")
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
        return node, WHOLE if kind.name == "numeric" else FLOAT8

    def rounded(self, node: Node, kinds: list[PgType], is_released: bool) -> tuple[Node, PgType]:
        """ROUND: of a double to the even neighbour; with digits only of a numeric."""
        kind, digits = first(kinds), node.get("decimals")
        if digits is not None:
            if kind.name == "float8":
                return node, FLOAT8  # which PostgreSQL has not
            if kind.rounded and not is_released:
                self._refuse_rounded(node)
            places = int(digits.text()) if digits.kind == "Literal" and digits.text().isdecimal() else 0
            return node, PgType("numeric", places)
        if kind.rounded == "computed" and not is_released:
            self._refuse_rounded(node)
        if kind.name == "numeric":
            return node, WHOLE
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
                "Write STARTS_WITH(x, 'text') or CONTAINS(x, 'text'), which take every sign as it is.",
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
        """ORDER BY in WITHIN GROUP, where there are no NULLs."""
        return altered(node, nulls_first=None), first(kinds)

    def filtered(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        return node, first(kinds)

    def looking(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """LAG(x), SUM(x) OVER (...)."""
        return node, first(kinds)

    def joined_texts(self, node: Node, kinds: list[PgType], _: bool) -> tuple[Node, PgType]:
        """a || b, CONCAT: numbers have a form of their own as texts."""
        if any(kind.name in ("float8", "numeric", "timestamp", "timestamptz") for kind in kinds):
            told = "PostgreSQL writes numbers and moments as texts in its own way"
            self.text.refuse(node, told, "Show them in columns of their own.")
        return node, TEXT

    def replaced(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """REGEXP_REPLACE, where the whole match is called otherwise."""
        put = bare(node["replacement"])
        if "\\0" in put.text() or "\\&" in put.text():
            told = "the whole match is written differently in the two dialects"
            self.text.refuse(put, told, "Put brackets around the pattern, and write \\1.")
        return node, TEXT

    def formatted(self, node: Node, _: list[PgType], __: bool) -> tuple[Node, PgType]:
        """TO_CHAR(x, 'YYYY-MM'), of which the parser makes the codes of STRFTIME."""
        form = bare(node["format"])
        told = form.text().replace("FM%B", "\0").replace("FM%A", "\1")
        if "%B" in told or "%A" in told:
            advice = "Write: TO_CHAR(x, 'FMMonth'), TO_CHAR(x, 'FMDay')"
            self.text.refuse(node, "TO_CHAR pads names of months and days with blanks", advice)
        told = told.replace("\0", "%B").replace("\1", "%A")
        if re.search(r"[A-Za-z]", re.sub(r"%-?[A-Za-z]", "", told)):
            known = "YYYY YY MM DD DDD HH24 MI SS Mon FMMonth Dy FMDay"
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
                "PostgreSQL makes a numeric of a double by way of its first 15 digits",
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
            "PostgreSQL rounds a quotient of decimals to digits of its own, and here they would matter",
            "Divide last, or use doubles: CAST(a AS DOUBLE PRECISION) / b.",
        )


_RULES: dict[str, Callable[[_Translation, Node, list[PgType], bool], tuple[Node, PgType]]] = {
    "Div": _Translation.divided,
    "If": _Translation.either,
    "WidthBucket": _Translation.bucketed,
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod", "IntDiv"), _Translation.computed),
    **dict.fromkeys(COMPARING, _Translation.compared),
    **dict.fromkeys(ONE_OF, _Translation.chosen),
    **dict.fromkeys(OF_THEIR_ARGUMENT, _Translation.same),
    **dict.fromkeys(("Floor", "Ceil"), _Translation.rounded_down),
    **dict.fromkeys(("Like", "ILike"), _Translation.like),
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), _Translation.truncated),
    **dict.fromkeys(("Variance", "VariancePop", "Stddev", "StddevPop", "StddevSamp"), _Translation.spread),
    "Sum": _Translation.summed,
    "Avg": _Translation.averaged,
    "Round": _Translation.rounded,
    "Sign": _Translation.signed,
    "Sqrt": _Translation.root,
    "Trim": _Translation.trimmed,
    "Extract": _Translation.part,
    "Anonymous": _Translation.named,
    "WithinGroup": _Translation.within,
    "Ordered": _Translation.ordered,
    "Filter": _Translation.filtered,
    "Is": _Translation.is_,
    "Count": _Translation.counted,
    "Distinct": _Translation.distinct,
    "Cast": _Translation.cast,
    **dict.fromkeys(LOOKING, _Translation.looking),
    **dict.fromkeys(("Concat", "DPipe"), _Translation.joined_texts),
    **dict.fromkeys(("Ln", "Exp", "Pow"), _Translation.root),
    "TimeToStr": _Translation.formatted,
    "RegexpReplace": _Translation.replaced,
}
