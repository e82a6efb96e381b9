"""Reading the SELECT that is released: its groups, its aggregates, and how they are shown."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NoReturn

from sfumato.errors import QueryRefused, Unsupported
from sfumato.queries.domains import call
from sfumato.queries.expressions import (
    Call,
    Constant,
    Field,
    Scalar,
    Unusable,
    constant,
    parts_of,
    possible,
    with_listed,
)
from sfumato.queries.folding import NOTHING, ONE
from sfumato.queries.grouping import hide_largest, narrowed, private_key, set_of, sets_of
from sfumato.queries.groups import listed, occurring
from sfumato.queries.measures import Measure, Moments, Selected, Sum, Tally
from sfumato.queries.plan import Aggregate, Combined, Compared, Having, Key, Name, Output, Plan, Sorting
from sfumato.queries.reading import COMPARISONS, Reader, is_own
from sfumato.queries.relations import Where
from sfumato.queries.rewrite import Rewriting, grouping, rewrite
from sfumato.queries.rows import FromReader
from sfumato.queries.scopes import Scope, grouped, positional, rows_alone, spelled_out
from sfumato.queries.shown import Arithmetic, Chosen, Expression, Function, KeyOf, Number
from sfumato.queries.spelling import instead_of
from sfumato.queries.syntax import AGGREGATES, Node, Text, bare, word
from sfumato.queries.trees import is_histogram, tuple_without_nulls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sfumato.queries.relations import Relation

    Measuring = Callable[[Iterable[Aggregate], Relation, int], tuple[Measure, ...]]

MOST_COLUMNS = 100  # of a histogram
KEYS_PER_PERSON = 1  # of private keys: more of them release fewer
_ARITHMETIC: dict[str, Literal["+", "-", "*", "/"]] = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_NAMES: dict[str, Name] = {
    "Sum": "sum",
    "Avg": "avg",
    "Variance": "var_samp",
    "VariancePop": "var_pop",
    "Stddev": "stddev_samp",
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "CovarPop": "covar_pop",
    "CovarSamp": "covar_samp",
    "Corr": "corr",
    "RegrSlope": "regr_slope",
    "RegrIntercept": "regr_intercept",
    "RegrR2": "regr_r2",
    "Mode": "mode",
    "Entropy": "entropy",
    "Histogram": "histogram",
}
_CALLED = {"PercentileCont": "quantile", "PercentileDisc": "quantile", "ApproxQuantile": "quantile"}
_ROWS = "Rows are never shown. Write COUNT(*), SUM(x) or AVG(x)."
_WHOLE: dict[str, Literal["floor", "ceil", "abs", "root"]] = {
    "Floor": "floor",
    "Ceil": "ceil",
    "Abs": "abs",
    "Sqrt": "root",
}


def ask(tree: Node, text: Text, measuring: Measuring = rewrite) -> Plan:
    """The plan of a statement, whose aggregates are measured so."""
    while tree.kind in ("Subquery", "Paren") and tree.get("alias") is None:
        tree = tree.this
    if tree.kind == "Union":
        advice = "Put it into a subquery: SELECT COUNT(*) FROM (SELECT ... UNION ALL SELECT ...) AS t"
        text.refuse(tree, "UNION is outside the aggregate", advice)
    if tree.kind != "Select":
        told = "only SELECT is answered"
        text.refuse(tree, told, "Write: SELECT COUNT(*) FROM YOUR_TABLE", name=tree.kind)
    reader = Reader(text)
    return Asking(text, reader, tree, measuring).plan(FromReader(text, reader))


@dataclass(slots=True)
class Asking:
    """One pass over one statement."""

    text: Text
    reader: Reader
    select: Node
    measuring: Measuring
    scope: Scope = field(default_factory=lambda: Scope(()))
    keys: tuple[Key, ...] = ()
    rewriting: Rewriting = field(default_factory=lambda: Rewriting(()))
    is_below: bool = False  # something stands above it, which shows what it likes

    def plan(self, rows: FromReader) -> Plan:
        select, text = self.select, self.text
        text.allow(select)
        if select.arguments.get("distinct"):
            advice = "Leave DISTINCT out; a key with its count: SELECT x, COUNT(*) ... GROUP BY x"
            text.refuse(
                select["distinct"] if select.get("distinct") else select,
                "DISTINCT has no effect here",
                advice,
            )
        relation, self.scope = rows.of(select, {})
        self.select = spelled_out(select, self.scope.names(), text)
        if relation.public:
            told = "the query asks only about public tables"
            text.refuse(select["from_"], told, "They need no noise: read them from the source directly.")
        self.keys, sets = self.read_keys(relation)
        private = any(key.values is None for key in self.keys)
        size = 0 if private else math.prod(len(key.values or ()) for key in self.keys)
        aggregates = self.aggregates()
        if not aggregates:
            self.refuse_rows()
        self.rewriting = self.rewritten(aggregates, relation, size)
        if private and not any(isinstance(each, Selected) for each in self.rewriting.measures):
            self.rewriting = Rewriting((Selected(KEYS_PER_PERSON), *self.rewriting.measures))
        outputs = self.outputs()
        plan = Plan(
            relation=relation,
            keys=self.keys,
            measures=self.rewriting.measures,
            outputs=outputs,
            sets=(sets := self.checked(sets)),
            having=self.having(),
            order=self.order(outputs),
            limit=self.limit(),
            wanted=tuple(aggregates),
            repairs=tuple(sorted(self.reader.repaired)),
            occurring=occurring(self.keys, sets, relation, self.text.policy.public_table),
        )
        self.reader.check_digits(plan, select)
        return plan

    def below(self, rows: FromReader, named: dict[str, Node]) -> tuple[Plan, list[Aggregate]]:
        """The question that stands below what is shown: with keys k0, ... and aggregates a0, ..."""
        select, self.is_below = self.select, True
        relation, self.scope = rows.of(rows_alone(select), named)
        self.select = spelled_out(select, self.scope.names(), self.text)
        self.keys, sets = self.read_keys(relation)
        found: dict[Aggregate, Node] = {}
        for node in self.measured():
            found.setdefault(self.aggregate(node), node)
        if not found and not self.keys:
            self.refuse_rows()
        private = any(key.values is None for key in self.keys)
        size = 0 if private else math.prod(len(key.values or ()) for key in self.keys)
        self.rewriting = self.rewritten(found, relation, size) if found else Rewriting(())
        if private and not any(isinstance(each, Selected) for each in self.rewriting.measures):
            self.rewriting = Rewriting((Selected(KEYS_PER_PERSON), *self.rewriting.measures))
        aggregates = list(found)
        outputs = [Output(f"k{i}", KeyOf(i)) for i in range(len(self.keys))]
        outputs += [Output(f"a{i}", self.rewriting.shown(each)) for i, each in enumerate(aggregates)]
        plan = Plan(
            relation=relation,
            keys=self.keys,
            measures=self.rewriting.measures,
            outputs=tuple(outputs),
            sets=(sets := self.checked(sets)),
            wanted=tuple(aggregates),
            repairs=tuple(sorted(self.reader.repaired)),
            occurring=occurring(self.keys, sets, relation, self.text.policy.public_table),
        )
        self.reader.check_digits(plan, select)
        return plan, aggregates

    def measured(self) -> Iterator[Node]:
        """The aggregates of what is shown, and of what windows over it look at."""
        for item in self.select.nodes():
            yield from _added_up(item)
        for name in ("having", "qualify", "order"):
            if (clause := self.select.get(name)) is not None:
                yield from _added_up(clause)
        for each in self.select.nodes("windows"):
            yield from _added_up(each)

    def key_index(self, node: Node) -> int | None:
        """Which key a node spells out, if it does."""
        inner = bare(node)
        if not self.keys or inner.kind in ("Literal", "Star", "Null", "Boolean"):
            return None
        if inner.kind == "Column" and inner.get("table") is None:
            names = {name.lower() for source in self.scope.sources for name in source.columns}
            if inner.name.lower() not in names:
                inner = grouped(inner, self.select.nodes(), self.text, self.scope)
        if not _columns(inner):
            return None
        try:
            wanted = _bare_key(Reader(self.text).raw(inner, self.scope))
        except QueryRefused:
            return None
        return next((i for i, key in enumerate(self.keys) if _bare_key(key.expression) == wanted), None)

    def refuse_column(self, node: Node) -> NoReturn:
        """Refuse a column of rows."""
        self.reader.find(node, self.scope)
        advice = f"Rows are never shown. Write COUNT({node.name})"
        advice += f", or GROUP BY {node.name} if many people share its values."
        self.text.refuse(node, f"{node.name} is neither grouped by nor aggregated", advice)

    def refuse_rows(self) -> NoReturn:
        """Refuse a query without an aggregate, or with one that is not known."""
        for item in self.select.nodes():
            if item.kind == "Star" or (item.kind == "Column" and item.this.kind == "Star"):
                self.text.refuse(item, "* would show rows", _ROWS)
            for node in item.walk():
                if (told := instead_of(node)) is not None:
                    self.text.refuse(node, *told)
        advice = "Add COUNT(*), COUNT(x), SUM(x) or AVG(x): only aggregates over many rows are released."
        self.text.refuse(self.select, "the query has no aggregate", advice)

    def rewritten(self, aggregates: dict[Aggregate, Node], relation: Relation, size: int) -> Rewriting:
        try:
            return Rewriting(self.measuring(aggregates, relation, size))
        except Unusable as reason:
            for aggregate, node in aggregates.items():  # whose fault it is
                try:
                    self.measuring([aggregate], relation, size)
                except Unusable:
                    self.text.unusable(reason, node)
            self.text.unusable(reason, self.select)

    # Groups -------------------------------------------------------------------------------------------

    def read_keys(self, relation: Relation) -> tuple[tuple[Key, ...], tuple[tuple[int, ...], ...]]:
        """The keys, and by which sets of them totals are shown."""
        group = self.select.get("group")
        items = [item.this if item.kind == "Alias" else item for item in self.select.nodes()]
        if group is None and (not self.is_below or any(True for _ in self.measured())):
            return (), ()
        conditions = parts_of(relation.condition) if isinstance(relation, Where) else ()
        keys: list[Key] = []
        if group is None:  # SELECT DISTINCT
            plain = items
        else:
            self.text.allow(group, above=self.is_below)
            plain = group.nodes()
        if group is not None and group.arguments.get("all"):
            plain = [item for item in items if not any(True for _ in _added_up(item))]
        rolled = next((node for node in plain if node.kind in ("Rollup", "Cube")), None)
        if rolled is not None:
            self.text.allow(rolled)
            if len(plain) > 1:
                told = f"{rolled.kind.upper()} is combined with other keys"
                self.text.refuse(rolled, told, f"Put all keys into it: {rolled.kind.upper()}(a, b).")
            plain = rolled.nodes()
        listed = next((node for node in plain if node.kind == "GroupingSets"), None)
        spelled: list[list[Node]] = []
        if listed is not None:
            self.text.allow(listed, above=True)
            if len(plain) > 1:
                advice = "Put all keys into it: GROUPING SETS ((a, b), (a), ())."
                self.text.refuse(listed, "GROUPING SETS is combined with other keys", advice)
            spelled = [set_of(each) for each in listed.nodes()]
            plain = [node for each in spelled for node in each]
        for node in plain:
            target = grouped(node, self.select.nodes(), self.text, self.scope)
            if any(each.kind in AGGREGATES for each in target.walk()):
                self.text.refuse(target, "GROUP BY takes no aggregate", "Group by columns of the rows.")
            if self.is_below and not _columns(target):
                continue  # one value for all
            found = self.reader.raw(target, self.scope)
            key = self.read_key(found, target, conditions)
            if any(key.expression == other.expression for other in keys):
                if self.is_below and rolled is None:
                    continue
                self.text.refuse(target, "GROUP BY names this twice", "Name it once.")
            keys.append(key)
        hide_largest(keys)
        if listed is not None:
            sets = [self.set_of(each, keys) for each in spelled]
            if len(set(sets)) < len(sets):
                self.text.refuse(listed, "GROUPING SETS names a set twice", "Name it once.")
            return tuple(keys), tuple(sets)
        return tuple(keys), sets_of(rolled.kind if rolled is not None else "", len(keys))

    def set_of(self, nodes: list[Node], keys: list[Key]) -> tuple[int, ...]:
        """Which keys one of GROUPING SETS has."""
        found = set()
        for node in nodes:
            target = grouped(node, self.select.nodes(), self.text, self.scope)
            wanted = _bare_key(Reader(self.text).raw(target, self.scope))
            found.add(next(i for i, key in enumerate(keys) if _bare_key(key.expression) == wanted))
        return tuple(sorted(found))

    def checked(self, sets: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Totals are sums of what is released for the groups: of some measures there are none."""
        if sets:
            group = self.select["group"]
            if any(key.values is None for key in self.keys):
                told = "totals over private groups would omit the groups that are not shown"
                self.text.refuse(group, told, "Ask for the totals as a question of their own.")
            if not all(isinstance(m, (Moments, Sum, Tally)) for m in self.rewriting.measures):
                told = "people, distinct values, quantiles and modes of groups do not add up"
                self.text.refuse(
                    group, told, "Use COUNT, SUM, AVG or VARIANCE, or leave ROLLUP and CUBE out."
                )
        return sets

    def read_key(self, found: Scalar, node: Node, conditions: tuple[Scalar, ...]) -> Key:
        if isinstance(found, Field) and found.unit:
            advice = "Group by something that many people share."
            self.text.refuse(node, "each group would be one person", advice)
        if self.reader.is_one_persons(found):
            advice = "Group by something that many people share."
            self.text.refuse(node, "each group would be rows of one person", advice)
        if isinstance(found, Constant):
            self.text.refuse(node, "GROUP BY takes columns and expressions of them", "Leave it out.")
        values, is_listed = narrowed(found, conditions, possible(found)), False
        if values is None:
            values = possible(with_listed(found, self.text.policy.values_of))
            is_listed = values is not None
        if values is None and self.text.reading > 4 and (some := listed(found, conditions)) is not None:
            return replace(private_key(found), values=some, is_listed=True)
        if not values and not grouping(found.domain):
            advice = "Group by ranges of it: FLOOR(x / 10), or WIDTH_BUCKET(x, 0, 100, 10)."
            self.text.refuse(node, f"a {found.domain.kind} has too many values to group by", advice)
        if values == ():
            self.text.refuse(node, "there is no value to group by", "Group by something else.")
        if values is not None:
            return Key(found, values, is_listed)
        return replace(private_key(found), told=self.text.written(node))

    # Aggregates ---------------------------------------------------------------------------------------

    def aggregates(self) -> dict[Aggregate, Node]:
        """Everything that must be measured to show what is asked for, each with where it stands."""
        found: dict[Aggregate, Node] = {}
        waiting = [*self.select.nodes()]
        for name in ("having", "order"):
            if (clause := self.select.get(name)) is not None:
                waiting.append(clause)
        while waiting:
            node = waiting.pop()
            if is_aggregate(node):
                found.setdefault(self.aggregate(node), node)
                continue
            for value in node.arguments.values():
                if isinstance(value, Node):
                    waiting.append(value)
                elif isinstance(value, list):
                    waiting.extend(value)
        return found

    def aggregate(self, node: Node, condition: Scalar | None = None) -> Aggregate:
        text, reader, scope = self.text, self.reader, self.scope
        text.allow(node)
        if self.is_below and is_histogram(node):
            told = "HISTOGRAM is a column for each value, so nothing is computed from it"
            text.refuse(node, told, "Count by x and compute with that: SELECT x, COUNT(*) ... GROUP BY x")
        if node.kind == "Filter":
            text.allow(node.expression)
            inner = reader.condition(node.expression.this, scope)
            return self.aggregate(
                node.this, inner if condition is None else reader.call(node, "and", condition, inner)
            )
        if node.kind == "WithinGroup":
            return self.within_group(node, condition)
        inner_node = node.get("this")
        if inner_node is None:
            text.refuse(node, f"{word(node)} needs an argument", "Write for example: SUM(x), or COUNT(*).")
        if node.kind == "CountIf":
            holds = reader.condition(inner_node, scope)
            return Aggregate("count", (self.only_if(condition, self.only_if(holds, ONE, node), node),))
        if node.kind == "Count":
            return self.count(node, inner_node, condition)
        if node.kind == "ApproxDistinct":
            return self.distinct([inner_node], node, condition, skip=True)
        if node.kind == "AnyValue":
            told = f"{word(node)} would reveal the value of one person"
            text.refuse(node, told, "Use it in a subquery with GROUP BY the person; otherwise use MODE.")
        if node.kind in ("LogicalOr", "LogicalAnd"):
            text.refuse(
                node, f"{word(node)} would reveal something about single people", "Write COUNT_IF(condition)."
            )
        if node.kind == "Sum" and inner_node.kind == "Distinct" and len(inner_node.nodes()) == 1:
            text.allow(inner_node)
            return Aggregate("distinct sum", (self.number(inner_node.nodes()[0], condition, node),))
        if inner_node.kind == "Distinct":
            text.refuse(node, f"DISTINCT is not supported in {word(node)}", "Write it without DISTINCT.")
        if (since := self.since(node)) is not None:
            found = self.moment(node, since, condition)
            return Aggregate("quantile", (found,), Fraction(node.kind == "Max"))
        if node.kind in ("Min", "Max", "Median"):
            rank = {"Min": Fraction(0), "Max": Fraction(1), "Median": Fraction(1, 2)}[node.kind]
            return Aggregate("quantile", (self.number(inner_node, condition, node),), rank)
        if node.kind in ("PercentileCont", "PercentileDisc", "Quantile", "ApproxQuantile"):
            given = node.get("expression") or node.get("quantile")
            return Aggregate("quantile", (self.number(inner_node, condition, node),), self.rank(given, node))
        if node.kind in ("Mode", "Entropy", "Histogram"):
            value = self.only_if(condition, reader.raw(inner_node, scope), node)
            return Aggregate(_NAMES[node.kind], (value,))
        values = [self.number(inner_node, condition, node)]
        if (second := node.get("expression")) is not None:
            values.append(self.number(second, condition, node))
        if len(values) == 2 and values[0] == values[1]:
            text.refuse(node, "both arguments are the same", "Write VARIANCE(x).")
        return Aggregate(_NAMES[node.kind], tuple(values))

    def count(self, node: Node, inner: Node, condition: Scalar | None) -> Aggregate:
        text, reader, scope = self.text, self.reader, self.scope
        if inner.kind in ("Star", "Literal"):
            text.allow(inner)
            return Aggregate("count", () if condition is None else (self.only_if(condition, ONE, node),))
        if inner.kind != "Distinct":
            value = reader.value(inner, scope)  # as AVG would read it: both come from one measure
            if is_own(value):  # a row always has a person
                return Aggregate("count", () if condition is None else (self.only_if(condition, ONE, node),))
            return Aggregate("count", (self.only_if(condition, value, node),))
        text.allow(inner)
        listed, skip = inner.nodes(), True
        if len(listed) == 1 and bare(listed[0]).kind == "Tuple":
            listed, skip = bare(listed[0]).nodes(), False
        elif len(listed) == 1 and (tuple_ := tuple_without_nulls(listed[0])) is not None:
            listed = tuple_
        return self.distinct(listed, node, condition, skip=skip)

    def distinct(self, listed: list[Node], node: Node, condition: Scalar | None, *, skip: bool) -> Aggregate:
        """How many different values there are, or combinations: with those that lack a part, or not."""
        if len(listed) != 1:
            return Aggregate(
                "distinct", (self.only_if(condition, self.together(listed, node, skip=skip), node),)
            )
        value = self.reader.raw(listed[0], self.scope)
        if is_own(value):
            return Aggregate("people", () if condition is None else (self.only_if(condition, ONE, node),))
        if isinstance(value, Field) and value.unit == "maybe":
            return Aggregate("people", (self.only_if(condition, value, node),))
        owned = _person_if(value)
        if owned is not None:
            return Aggregate("people", (self.only_if(condition, owned, node),))
        return Aggregate("distinct", (self.only_if(condition, value, node),))

    def together(self, listed: list[Node], node: Node, *, skip: bool) -> Scalar:
        """Several values as one text, which is the same just where all of them are."""
        call, parts, there = self.reader.call, [], []
        for each in listed:
            value = self.reader.raw(each, self.scope)
            told = value if value.domain.kind == "text" else call(each, "to text", value)
            length = call(each, "to text", call(each, "length", told))
            whole = call(each, "concat", length, constant(":", "text"), told)
            missing = call(each, "is null", value)
            parts.append(call(each, "case", missing, constant("-", "text"), whole))
            there.append(call(each, "not", missing))
        found = call(node, "concat", *parts)
        return self.only_if(self.reader.all_of(node, there, "and"), found, node) if skip else found

    def since(self, node: Node) -> Constant | None:
        """For MIN and MAX of a date or a timestamp: the moment from which it is counted, its lower bound."""
        node = node.this if node.kind == "Filter" else node
        if node.kind not in ("Min", "Max") or node.this.kind == "Distinct":
            return None
        value = self.reader.raw(node.this, self.scope)
        domain = value.domain
        if domain.kind not in ("date", "timestamp"):
            return None
        if domain.since is None or domain.until is None:
            name = node.this.name if node.this.kind == "Column" else f"this {domain.kind}"
            told = f"{name} has no bounds, so one person could change the result without limit"
            advice = "Use a column with bounds, or count: GROUP BY x"
            self.text.unusable(Unusable(told, advice, value if isinstance(value, Field) else None), node)
        if not self.is_below:
            self.text.refuse(node, f"{word(node)} of a {domain.kind} is made of what is released", "")
        start = domain.since
        if domain.kind == "timestamp":
            start = datetime.datetime(start.year, start.month, start.day)
        return constant(start, domain.kind)

    def moment(self, node: Node, since: Constant, condition: Scalar | None) -> Scalar:
        """A date or a timestamp as days, or seconds, since then."""
        unit = constant("day" if since.domain.kind == "date" else "second", "text")
        found = self.reader.call(node, "diff", unit, since, self.reader.raw(node.this, self.scope))
        return self.only_if(condition, found, node)

    def within_group(self, node: Node, condition: Scalar | None) -> Aggregate:
        inner, order = node.this, node.expression
        self.text.allow(order)
        if inner.kind == "Mode" and inner.get("this") is None and len(order.nodes()) == 1:
            by = order.nodes()[0]
            self.text.allow(by)
            return Aggregate("mode", (self.only_if(condition, self.reader.raw(by.this, self.scope), node),))
        if inner.kind not in ("PercentileCont", "PercentileDisc") or len(order.nodes()) != 1:
            told = "WITHIN GROUP is for percentiles"
            self.text.refuse(node, told, "Write: PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
        by = order.nodes()[0]
        self.text.allow(by)
        rank = self.rank(inner.get("this"), node)
        rank = 1 - rank if by.arguments.get("desc") else rank
        return Aggregate("quantile", (self.number(by.this, condition, node),), rank)

    def rank(self, node: Node | None, whole: Node) -> Fraction:
        if node is not None and bare(node).kind == "Cast":  # as a value comes that is a double
            node = bare(node).this
        if node is None or node.kind != "Literal" or node.arguments.get("is_string"):
            advice = "Write QUANTILE_CONT(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."
            self.text.refuse(whole, "the quantile must be a number from 0 to 1, written out", advice)
        rank = self.reader.fraction(node)
        if not 0 <= rank <= 1:
            self.text.refuse(node, "a quantile lies between 0 and 1", "Write for example: 0.9")
        return rank

    def number(self, node: Node, condition: Scalar | None, whole: Node) -> Scalar:
        """A value that is added up: it must be a number."""
        value = self.reader.value(node, self.scope)
        if not value.domain.numeric:
            name = node.name if node.kind == "Column" else word(node)
            advice = f"Use an integer or number column, or COUNT({name if node.kind == 'Column' else 'x'})."
            if value.domain.kind == "boolean":
                advice = "To count the rows where it is true, write COUNT_IF(condition)."
            self.text.refuse(node, f"{name} is {value.domain.kind}, not a number", advice)
        return self.only_if(condition, value, whole)

    def only_if(self, condition: Scalar | None, value: Scalar, node: Node) -> Scalar:
        """The value where a condition holds, else NULL."""
        return value if condition is None else self.reader.call(node, "case", condition, value, NOTHING)

    # What is shown ------------------------------------------------------------------------------------

    def outputs(self) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for position, item in enumerate(self.select.nodes(), start=1):
            if item.kind == "Alias":
                self.text.allow(item)
            node = item.this if item.kind == "Alias" else item
            name = item.alias if item.kind == "Alias" else name_of(node, position)
            if is_histogram(node):
                self.add_counts(node, name, outputs)
                continue
            outputs.append(Output(_free_name(name, outputs), self.expression(node)))
        return tuple(outputs)

    def add_counts(self, node: Node, name: str, outputs: list[Output]) -> None:
        """A column for each value of HISTOGRAM(x)."""
        aggregate = self.aggregate(node)
        values = possible(aggregate.values[0]) or ()
        if len(values) > MOST_COLUMNS:
            told = f"HISTOGRAM would be {len(values)} columns, one for each value"
            self.text.refuse(node, told, "Ask for a row of each: SELECT x, COUNT(*) ... GROUP BY x")
        for value, count in zip(values, self.rewriting.each_of(aggregate), strict=True):
            told = str(value).lower() if isinstance(value, bool) else str(value)
            outputs.append(Output(_free_name(f"{name}_{told}", outputs), count))

    def expression(self, node: Node) -> Expression:
        """A column of the result: a key, or arithmetic on released numbers."""
        if is_histogram(node):
            wide = "HISTOGRAM is a column for each value, so it cannot be part of something"
            self.text.refuse(node, wide, "Select it alone: SELECT HISTOGRAM(x) FROM ...")
        if is_aggregate(node):
            return self.rewriting.shown(self.aggregate(node))
        key = self.key(node)
        if key is not None:
            return key
        self.text.allow(node)
        if node.kind == "Paren":
            return self.expression(node.this)
        if node.kind == "Neg":
            return Arithmetic("-", Number(Fraction(0)), self.number_shown(node.this))
        if node.kind == "Literal" and not node.arguments.get("is_string"):
            return Number(self.reader.fraction(node))
        if node.kind in _ARITHMETIC:
            left, right = self.number_shown(node.this), self.number_shown(node.expression)
            return Arithmetic(_ARITHMETIC[node.kind], left, right)
        if node.kind in _WHOLE:
            return Function(_WHOLE[node.kind], (self.number_shown(node.this),))
        if node.kind == "Round" and node.arguments.get("even"):
            return Function("even", (self.number_shown(node.this),))
        if node.kind == "Round":
            digits = self.reader.whole(node.get("decimals"), Scope(()), -9, 9)
            assert isinstance(digits, Constant)
            assert isinstance(digits.value, int)
            return Function("round", (self.number_shown(node.this), Number(Fraction(digits.value))))
        if node.kind in ("Least", "Greatest"):
            parts = tuple(self.number_shown(each) for each in (node.this, *node.nodes()))
            return Function("smallest" if node.kind == "Least" else "largest", parts)
        if node.kind == "Cast" and node["to"].text() == "DECIMAL":
            places = Number(Fraction(self.reader.decimals(node["to"])))
            return Function("round", (self.number_shown(node.this), places))
        is_wide = bool(node.arguments.get("if_wide"))
        if node.kind == "Cast" and (is_wide or node["to"].text() in ("DOUBLE", "FLOAT")):
            return self.number_shown(node.this)
        if node.kind == "Star" or (node.kind == "Column" and node.this.kind == "Star"):
            self.text.refuse(node, "* would show rows", _ROWS)
        if node.kind == "Column":
            self.refuse_column(node)
        told = f"{word(node)} is not supported in SELECT", "Use keys, numbers and aggregates."
        try:
            self.text.refuse(node, *(instead_of(node) or told))
        except Unsupported as refusal:
            refusal.is_shown_elsewhere = True
            raise

    def key(self, node: Node) -> KeyOf | None:
        """The key that a node spells out, if it does."""
        if not self.keys or any(is_aggregate(each) for each in node.walk()):
            return None
        inner = bare(node)
        if inner.kind in ("Literal", "Star"):
            return None
        if inner.kind == "Column" and inner.get("table") is None:
            names = {name.lower() for source in self.scope.sources for name in source.columns}
            if inner.name.lower() not in names:
                inner = grouped(inner, self.select.nodes(), self.text, self.scope)
        if inner.kind in ("Add", "Sub", "Mul", "Div", "Neg") and not _columns(inner):
            return None
        wanted = _bare_key(self.reader.raw(inner, self.scope))
        for index, key in enumerate(self.keys):
            if _bare_key(key.expression) == wanted:
                return KeyOf(index)
        if inner.kind in ("Column", "Literal") or not _columns(inner):
            return None
        advice = "Select exactly the expression in GROUP BY, and compute with the result."
        return self.text.refuse(node, "this is neither grouped by nor aggregated", advice)

    def number_shown(self, node: Node) -> Expression:
        """An expression that is a number; a key or a chosen value is not one to compute with."""
        found = self.expression(node)
        if isinstance(found, KeyOf):
            advice = "Select the key alone, and compute with the result."
            self.text.refuse(node, "arithmetic works on aggregates and numbers", advice)
        if isinstance(found, Chosen) and found.low is None:
            self.text.refuse(node, "MODE cannot be part of an expression", "Select it alone.")
        return found

    def having(self) -> Having | None:
        node = self.select.get("having")
        if node is None:
            return None
        self.text.allow(node)
        return self.held(node.this)

    def held(self, node: Node) -> Having:
        """A condition on released rows: it costs nothing."""
        node = bare(node)
        self.text.allow(node)
        if node.kind in ("And", "Or"):
            word_: Literal["and", "or"] = "and" if node.kind == "And" else "or"
            return Combined(word_, tuple(self.held(each) for each in node.nodes()))
        if node.kind == "Not":
            return Combined("not", (self.held(node.this),))
        if node.kind == "Between":
            ends = (("<=", node["high"]), (">=", node["low"]))
            return Combined("and", tuple(self.compared(node, o, node.this, end) for o, end in ends))
        if node.kind in COMPARISONS:
            return self.compared(node, COMPARISONS[node.kind], node.this, node.expression)
        return self.text.refuse(
            node, f"{word(node)} is not supported in HAVING", "Compare aggregates with numbers."
        )

    def compared(self, node: Node, operator: str, left: Node, right: Node) -> Compared:
        sides = [self.alias_or(left), self.alias_or(right)]
        if any(isinstance(side, KeyOf) for side in sides):
            self.text.refuse(node, "HAVING compares released numbers", "Put conditions on keys into WHERE.")
        return Compared(operator, sides[0], sides[1])  # type: ignore[arg-type]  # from the table

    def alias_or(self, node: Node) -> Expression:
        """An expression, or the alias of a selected one."""
        node = bare(node)
        if node.kind == "Column" and node.get("table") is None and self.key_index(node) is None:
            for item in self.select.nodes():
                if item.kind == "Alias" and item.alias.lower() == node.name.lower():
                    return self.number_shown(item.this)
        return self.number_shown(node)

    def order(self, outputs: tuple[Output, ...]) -> tuple[Sorting, ...]:
        node = self.select.get("order")
        if node is None:
            return ()
        self.text.allow(node)
        found: list[Sorting] = []
        for item in node.nodes():
            self.text.allow(item)
            ways = [bool(item.arguments.get(name)) for name in ("desc", "nulls_first")]
            found.append(Sorting(self.ordered(item.this, outputs), *ways))
        return tuple(found)

    def ordered(self, node: Node, outputs: tuple[Output, ...]) -> Expression:
        if node.kind == "Literal":
            item = positional(node, self.select.nodes(), self.text)
            return self.expression(item.this if item.kind == "Alias" else item)
        if node.kind == "Column" and node.get("table") is None:
            for output in outputs:
                if output.name == node.name:
                    return output.expression
            index = self.key_index(node)
            alike = [output for output in outputs if output.name.lower() == node.name.lower()]
            if alike and index is None:
                return alike[0].expression
        return self.expression(node)

    def limit(self) -> int | None:
        node = self.select.get("limit")
        if node is None:
            return None
        self.text.allow(node)
        return whole_number(node.expression, "LIMIT", self.text)


def name_of(node: Node, position: int) -> str:
    """What an item is called that has no name."""
    if node.kind == "Column":
        return node.name
    if node.kind in AGGREGATES:
        inner = node.get("this")
        if inner is not None and inner.kind == "Distinct" and inner.nodes():
            inner = inner.nodes()[0]
        told = _CALLED.get(node.kind, _NAMES.get(node.kind, node.kind.lower()))
        return f"{told}_{inner.name}" if inner is not None and inner.kind == "Column" else told
    return f"column_{position}"


def _added_up(node: Node) -> Iterator[Node]:
    """The aggregates in an expression: not those that look at a window, but what stands in them."""
    if node.kind == "Window":
        inner = node.this
        while inner.kind in ("Filter", "IgnoreNulls"):
            inner = inner.this
        parts = [inner, *node.nodes("partition_by"), *([node["order"]] if node.get("order") else [])]
        for part in parts:
            for each in part.parts if part is inner else (part,):
                yield from _added_up(each)
    elif is_aggregate(node):
        yield node
    elif node.kind not in ("Subquery", "Select"):
        for each in node.parts:
            yield from _added_up(each)


def is_aggregate(node: Node) -> bool:
    """Whether rows are added up by it."""
    return node.kind in AGGREGATES or node.kind in ("Filter", "WithinGroup")


def whole_number(node: Node, clause: str, text: Text) -> int:
    """The number of LIMIT and its kin."""
    number = bare(node)
    if number.kind == "Cast" and number["to"].text() in ("INT", "BIGINT"):  # as some tools write it
        number = bare(number.this)
    if (
        number.kind != "Literal"
        or number.arguments.get("is_string")
        or not re.fullmatch(r"\d{1,9}", number.text())
    ):
        text.refuse(number, f"{clause} takes a whole number", f"Write for example: {clause} 10")
    return int(number.text())


def _columns(node: Node) -> bool:
    return any(each.kind == "Column" for each in node.walk())


def _bare_key(found: Scalar) -> Scalar:
    if isinstance(found, Call) and found.function == "sane":
        return found.arguments[0]
    return found


def _person_if(value: Scalar) -> Scalar | None:
    """For CASE WHEN condition THEN person END: a value that is there when the person is counted."""
    if not isinstance(value, Call) or value.function != "case":
        return None
    *pairs, otherwise = value.arguments
    branches = [*pairs[1::2], otherwise]
    if any(not _is_null(each) and not is_own(each) for each in branches):
        return None
    ones: list[Scalar] = [NOTHING if _is_null(each) else ONE for each in branches]
    if all(_is_null(each) for each in ones):
        return None
    return call("case", *(each for pair in zip(pairs[0::2], ones, strict=False) for each in pair), ones[-1])


def _is_null(scalar: Scalar) -> bool:
    return isinstance(scalar, Constant) and scalar.value is None


def _free_name(name: str, outputs: list[Output]) -> str:
    """The name, or the name with a number, so that no column or end of an interval is called the same."""
    ends = ("", "_low", "_high")
    taken = {output.name + end for output in outputs for end in ends}
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    return next(each for each in candidates if not taken & {each + end for end in ends})
