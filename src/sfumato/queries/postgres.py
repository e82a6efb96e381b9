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
from dataclasses import dataclass, replace
from decimal import Decimal

from sfumato.errors import QueryRefused
from sfumato.queries.pgrules import RULES, PgRules
from sfumato.queries.pgtypes import (
    FLOAT8,
    INT4,
    INT8,
    UNKNOWN,
    WHOLE,
    PgType,
    columns_of,
    common,
)
from sfumato.queries.pgwords import (
    ALIKE,
    OWN_WORDS,
    PLACES,
    SAME,
    TAKING,
)
from sfumato.queries.reading import DIGITS
from sfumato.queries.syntax import ABOVE, AGGREGATES, ARGUMENTS, Missing, Node, Text, bare, word
from sfumato.queries.trees import (
    altered,
    anew,
    folded,
    is_result,
    is_value,
    number_of,
    one_by_one,
)

_STRINGS = ("ByteString", "RawString", "UnicodeString")
_SETS = ("Union", "Intersect", "Except")
_SUBQUERIES = ("Select", *_SETS, "Subquery")

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


def _called(columns: Columns, node: Node) -> Columns:
    """The same with the names of AS t (a, b)."""
    alias = node.get("alias")
    given = [each.name for each in alias.nodes("columns")] if alias is not None else []
    names = [*given, *list(columns)[len(given) :]]
    return dict(zip(names, columns.values(), strict=False)) if given else columns


def inferred(tree: Node, text: Text) -> dict[int, PgType]:
    """The types of values that are still to come ($1), from what stands beside them."""
    found = _Translation(text)
    with suppress(QueryRefused, Missing, RecursionError):
        if tree.kind in _SUBQUERIES:
            found.query(tree, {}, is_released=True)
    return found.given


class _Translation(PgRules):
    __slots__ = ()

    # Queries ------------------------------------------------------------------------------------------

    def query(
        self, node: Node, named: dict[str, Columns], *, is_released: bool, beyond: _Names | None = None
    ) -> tuple[Node, Columns]:
        """A query and the columns that it gives; `beyond` are those of the query that it stands in."""
        if node.kind in _SETS:
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
            named[each.alias.lower()] = _called(columns, each)
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
            return found, (found.alias, _called(columns, found))
        node = self._folded(node)
        if node.kind == "Values":
            return node, (node.alias, _called(self._values(node), node))
        if node.kind == "Table" and node.this.kind == "ExplodingGenerateSeries":
            series = anew(node.this, "GenerateSeries", **node.this.arguments)
            kind = self.typed(series["start"], _Names(), {})[1]
            columns = {node.alias or "generate_series": kind if kind.is_whole else UNKNOWN}
            return altered(node, this=series), (node.alias, _called(columns, node))
        if node.kind != "Table" or node.this.kind != "Identifier":
            return node, ("", {})
        alias = node.alias or node.name
        columns_ = None if node.arguments.get("in_schema") else named.get(node.name.lower())
        if columns_ is not None:
            return node, (alias, _called(columns_, node))
        return node, (alias, _called(columns_of(self.text.policy.table(node.name)), node))

    def _values(self, node: Node) -> Columns:
        """The types of what VALUES lists."""
        rows = [each.nodes() if each.kind == "Tuple" else [each] for each in node.nodes()]
        kinds = [[self.typed(one, _Names(), {})[1] for one in row] for row in rows]
        return {f"column{i}": common(column) for i, column in enumerate(zip(*kinds, strict=False), 1)}

    def _select(
        self, node: Node, names: _Names, named: dict[str, Columns], is_released: bool
    ) -> tuple[Node, Columns]:
        items: list[Node] = []
        columns: Columns = {}
        for position, item in enumerate(node.nodes(), start=1):
            if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
                items.append(self._folded(item))
                of = item.get("table")
                joins = node.nodes("joins")
                using = [each.name.lower() for join in joins for each in join.nodes("using")]
                using += [join.name for join in joins if join.text("method")]  # NATURAL
                begin = [name.lower() for _, own in names.sources[:1] for name in own][: len(using)]
                if of is None and using and using != begin:
                    told = "* puts the columns of USING and NATURAL first in PostgreSQL"
                    self.text.refuse(item, told, "Name the columns.")
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
            self._check_having(having, node, names)
            changed["having"] = self.typed(having, names, named, is_released)[0]
        if node.arguments.get("distinct") and any(kind.rounded for kind in columns.values()):
            self._refuse_rounded(node)
        if (limit := node.get("limit")) is not None:
            self._give(limit, INT8)
        if (group := node.get("group")) is not None:
            changed["group"] = self._group(group, names, named)
        if windows := node.nodes("windows"):
            changed["windows"] = [self.typed(each, names, named, is_released)[0] for each in windows]
        if (order := node.get("order")) is not None:
            changed["order"] = self._order(order, names, named, is_released)
        return altered(node, **changed), columns

    def _check_having(self, having: Node, select: Node, names: _Names) -> None:
        """Refuse names of results in HAVING: PostgreSQL does not know them there, or means other columns."""
        named = {item.alias.lower() for item in select.nodes() if item.kind == "Alias"}
        named -= {
            item.alias.lower()
            for item in select.nodes()
            if item.kind == "Alias" and item.this.kind == "Column" and item.this.name == item.alias
        }
        grouped = {each.name.lower() for each in (select["group"].nodes() if select.get("group") else [])}
        known = {name.lower() for _, columns in names.sources for name in columns} & grouped
        waiting = [having]
        while waiting:
            node = waiting.pop()
            if node.kind in AGGREGATES or node.kind in ("Filter", "WithinGroup", *_SUBQUERIES):
                continue
            if node.kind == "Column" and node.get("table") is None and node.name.lower() in named - known:
                told = f"{node.name} is the name of a result, and PostgreSQL does not allow it in HAVING"
                self.text.refuse(node, told, "Repeat the expression itself.")
            waiting += node.parts

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

    def _check_position(self, node: Node) -> None:
        """Refuse $1 where its number would be taken for a position, which PostgreSQL does not."""
        if bare(node).kind == "Placeholder":
            self.text.refuse(node, "a parameter is no position here", "Write the number, or the column.")

    def _group(self, group: Node, names: _Names, named: dict[str, Columns]) -> Node:
        """GROUP BY; a number in it is a position."""

        def key(node: Node) -> Node:
            self._check_position(node)
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
            self._check_position(node.this)
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
        if node.kind in _STRINGS and "\\" not in node.text():  # E'...', $$...$$
            return anew(node, "Literal", this=node.text(), is_string=True), UNKNOWN
        if node.kind == "Literal":
            return self._literal(node)
        if node.kind == "Case":
            return self._case(node, names, named, is_released)
        if (spelled := one_by_one(node)) is not node:
            return self.typed(spelled, names, named, is_released)
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
        rule = RULES.get(node.kind)
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
                told = "this number has too many digits"
                self.text.refuse(
                    each, told, f"Write at most {DIGITS} digits, or CAST(... AS DOUBLE PRECISION)."
                )

    def _column(self, node: Node, names: _Names) -> tuple[Node, PgType]:
        node = self._folded(node)
        table = node.get("table")
        if node.this.kind != "Identifier":
            return node, UNKNOWN
        if table is None and node.name in OWN_WORDS and not node.this.arguments.get("quoted"):
            told = f"{node.name} is a keyword in PostgreSQL, not a column"
            self.text.refuse(node, told, f'If you mean a column, write: "{node.name}"')
        return node, names.type_of(node.name, table.name if table is not None else "")

    def _literal(self, node: Node) -> tuple[Node, PgType]:
        """1e-1 is a decimal in PostgreSQL, as 0.1 is."""
        if node.arguments.get("is_string"):
            if re.fullmatch(r"\d{4}-\d\d-\d\d[ T].*\.\d{7,}.*", node.text()):
                told = "PostgreSQL rounds a timestamp to six decimals of a second"
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
