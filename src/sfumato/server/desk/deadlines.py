"""When an answer leaves: at a time computed from public facts.

How long the engine takes depends on the data, so the moment of an answer is an output (law 3). An answer
therefore leaves at a deadline: computed from the plan and from the sizes that the policy declares, counted
from the charge. One that is not ready leaves at twice that time, or four times, and so on. At its deadline it
is stored, which takes some milliseconds, and a little more or less after an engine that had much to do; it is
sent at the next multiple of PAUSE after the deadline.

Not covered by the guarantee: *that* a deadline was missed, and that an engine failed. Each tells at most
which of a few moments it was; each is written down before the answer leaves, and after a number of them that
the owner sets, the analyst must wait until the owner has looked.

The deadline is generous, because a missed one costs more than a late answer: BASE for everything, GROUP for
every group and CHOICE where a value is chosen for it, ROW for every row of every table, as often as it is
read, and PAIR for every row that joins can make of one person's, times the work that the shape of the plan
asks for; PATTERN for every regular expression and row, and TEXT for every text that is made of one. Public
tables that give a row several partners multiply both. It is at least LEAST, which is many times what a small
question takes: others who keep the processors busy must not make it late. It is then rounded up to a power of
two, so that there are few different ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.queries.expressions import Field, fields, parts_of
from sfumato.queries.letters import patterns, text_work
from sfumato.queries.narrowing import numbers_of
from sfumato.queries.reading import equality
from sfumato.queries.relations import (
    Among,
    Fold,
    Join,
    Placed,
    Scan,
    Union,
    Where,
    all_of,
    cuts,
    is_chain,
    joins_of,
    number_of,
    prefix,
    scans_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.expressions import Scalar
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.relations import Cut, Relation

    Alike = Callable[[str, str], int]

LEAST = 0.5  # seconds
PAUSE = 0.025  # seconds from a deadline to the moment at which an answer is sent, if it is stored by then
BASE = 0.03  # seconds for a question that reads nothing
GROUP = 2e-5  # seconds for a public group
CHOICE = 1.2e-4  # seconds for a quantile or a mode of a public group, which is chosen by itself
ROW = 2.5e-7  # seconds for a row
PATTERN = 5e-6  # seconds for a row in which a regular expression is looked for
TEXT = 1e-6  # seconds for a row of which a text is made: of 250 letters on average
PAIR = 1e-7  # seconds for a row that a join makes of one person's
UNKNOWN = 1_000_000  # rows of a table of which the policy does not say how many there are


def deadline(plan: Plan, policy: Policy, pace: float = 1.0, alike: Alike = lambda *_: 1) -> float:
    """Seconds from the charge to the answer.

    `pace` is how much slower than usual this machine is taken to be. `alike` tells of a public table how many
    rows have the same value of a column, at most, and of no column ("") how many rows there are.
    """
    work = _Work(dict(policy.sizes), alike)
    joins = sum(isinstance(each, (Join, Placed)) for each in all_of(plan.relation))
    shape = (1 + len(plan.measures) / 2) * (1 + len(plan.keys) / 2)
    rows, pairs = work.rows(plan.relation), work.pairs(plan.relation)
    searched = (PATTERN * len(patterns(plan.scalars)) + TEXT * text_work(plan.scalars)) * (rows + pairs)
    chosen = CHOICE * plan.size * sum(measure.sparse for measure in plan.measures)
    spent = BASE + chosen + GROUP * plan.size + (ROW * rows * (1 + joins) + PAIR * pairs) * shape + searched
    return rounded(pace * max(LEAST, spent))


class _Work:
    """How many rows an engine goes through at most, by public facts."""

    def __init__(self, sizes: dict[str, int], alike: Alike) -> None:
        self._sizes, self._alike = sizes, alike

    def rows(self, relation: Relation) -> int:
        """Rows that are read, each table as often as it is, and those that public tables add to them."""
        read = sum(self._size(scan) for scan in scans_of(relation))
        return read + sum(self._out(join) - self._out(self._kept(join)) for join in self._public(relation))

    def _size(self, scan: Scan) -> int:
        if scan.public:
            return size_class(self._alike(scan.table, ""))
        return sum(size_class(self._sizes.get(name, UNKNOWN)) for name in scan.tables)

    def _public(self, relation: Relation) -> list[Join]:
        return [join for join in joins_of(relation) if not join.of_people]

    def _kept(self, join: Join) -> Relation:
        """The side to whose rows a public table adds something."""
        return join.right if join.left.public and not join.right.public else join.left

    def _out(self, relation: Relation) -> int:
        """Rows of a relation. What joins of people add is bounded for each person, and not counted here."""
        match relation:
            case Scan():
                return self._size(relation)
            case Where(inner) | Among(inner) | Fold(_, inner) | Placed(_, inner):
                return self._out(inner)
            case Union(_, parts):
                return sum(self._out(inner) for inner, _ in parts)
            case Join(_, left, right) if relation.of_people:
                return max(self._out(left), self._out(right))
            case Join():
                return self._out(self._kept(relation)) * self._partners(relation)

    def _partners(self, join: Join) -> int:
        """How many rows of the public side of a join one row of the other can be joined with."""
        if join.single:
            return 1
        public = join.left if self._kept(join) is join.right else join.right
        return max(1, self._like(public, join.on))

    def _like(self, public: Relation, on: Scalar | None) -> int:
        """How many rows of a public relation satisfy the equalities of a join with one row, at most."""
        inside, least = numbers_of(public), self._out(public)
        for part in () if on is None else parts_of(on):
            for side in equality(part) or ():
                if isinstance(side, Field) and {prefix(each) for each in fields(side)} <= inside:
                    least = min(least, self._same(public, side))
        return least

    def _same(self, public: Relation, field: Field) -> int:
        """How many rows of a public relation have the same value of a column, at most."""
        match public:
            case Scan():
                return self._alike(public.table, field.name.partition(".")[2])
            case Where(inner) | Among(inner):
                return self._same(inner, field)
            case Join(_, left, right, on):
                own, other = (left, right) if prefix(field) in numbers_of(left) else (right, left)
                return self._same(own, field) * max(1, self._like(other, on))
        return self._out(public)

    def pairs(self, relation: Relation) -> int:
        """Rows that joins can make of one person's, all joins together."""
        return sum(self._pairs(relation, None))

    def _pairs(self, relation: Relation, kept: dict[int, Cut] | None) -> list[int]:
        """The rows that each join can make of one person's; the last are those of the relation, if it is a
        chain of joins."""
        match relation:
            case Where(inner):
                return self._pairs(inner, kept)
            case Among(inner, _, other):
                return [*self._pairs(other, None), *self._pairs(inner, kept)]
            case Fold(_, inner) | Placed(_, inner):
                return self._pairs(inner, None)
            case Union(_, parts):
                return [each for inner, _ in parts for each in self._pairs(inner, None)]
            case Join() if not relation.of_people:
                side = self._kept(relation)
                found = self._pairs(side, kept)
                return [*found, found[-1] * self._partners(relation)] if is_chain(side) else found
            case Join(_, left, right):
                kept = cuts(relation) if kept is None else kept
                made, found = 1, []
                for side in (left, right):
                    each = self._pairs(side, kept)
                    cut = kept.get(number_of(side))
                    made *= each[-1] if is_chain(side) else 1 if cut is None else cut.rows
                    found += each
                return [*found, made]
        return []


def size_class(rows: int) -> int:
    """The power of ten that is not below.

    >>> size_class(1), size_class(1000), size_class(1001)
    (1, 1000, 10000)
    """
    return int(10 ** math.ceil(math.log10(rows) - 1e-12)) if rows > 1 else 1


def rounded(seconds: float) -> float:
    """The power of two (of seconds) that is not below.

    >>> rounded(0.3)
    0.5
    """
    return float(2.0 ** math.ceil(math.log2(seconds)))


def doublings(took: float, due: float) -> int:
    """How often a deadline has to be doubled for something that took so long.

    >>> doublings(0.4, 0.5), doublings(0.5, 0.5), doublings(0.6, 0.5), doublings(2.1, 0.5)
    (0, 0, 1, 3)
    """
    return max(0, math.ceil(math.log2(took / due))) if took > 0 else 0
