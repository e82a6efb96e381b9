"""From promises to limits of a ledger, and from what was spent back to sentences.

A promise says how much surer of a secret anybody may become. `Judge` knows what that is at any state of a
ledger: what all charges come to if a person's rows are replaced, and, where a column has a distance of its
own, what they come to over its whole range. In epsilon the bound holds for every release; with a delta, or in
rho, only on average over releases, and the sentences say so (`utility.guessing.on_average`).

A ledger must not do this arithmetic while it decides. It is given corners: states up to which the promise is
kept. Two prices are traded against each other on a staircase of such corners.
"""

from __future__ import annotations

import bisect
import datetime
import hashlib
import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.budget.accounting.filters import FINE, UNIT, odometer
from sfumato.budget.ledger.chain import Limit
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Bound
from sfumato.queries import former, forms, notation
from sfumato.queries import policy as policies
from sfumato.queries.promises import bounds_of, step_of
from sfumato.queries.sensitivity import Watched
from sfumato.queries.units import apart, unit_of
from sfumato.utility import guessing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.mechanisms import Guarantee
    from sfumato.queries.declared import DeclaredColumn as Declared
    from sfumato.queries.declared import Kind, Value
    from sfumato.queries.policy import Policy
    from sfumato.queries.promises import Promise, PromisePart
    from sfumato.queries.units import Unit
    from sfumato.utility.guessing import Floats

    Read = Callable[[str, tuple[tuple[str, Kind], ...]], Sequence[tuple[tuple[Value, ...], int]]]

FORM = 1  # of what is worked out below: corners of another form are worked out anew
STAIRS = 16  # corners between the two axes
LARGE = 20_000  # values of a column, beyond which fewer do
COMBINED = 10**6  # chances of several parts together, up to which all are looked at
ALL = 10**15  # more than anybody has, in units
SLACKS = 4  # times the budget's delta: what a replaced person may lose of it
HUGE = Fraction(10**6)  # of an epsilon or a rho, at which nothing is hidden
KEPT = Fraction(1, 10**6)  # the chance that an odometer is wrong, where sentences need one

Lost = tuple[Fraction, Fraction, Fraction]  # in any case, for the whole range of a column, of delta


@dataclass(frozen=True)
class Judge:
    """What a promise means for one database."""

    promise: Promise
    policy: Policy
    read: Read

    # What is believed ---------------------------------------------------------------------------------

    @cached_property
    def column(self) -> guessing.Belief | None:
        """What is believed about the number of a promise with one part; None for anything else."""
        part = self.promise.parts[0]
        numeric = part.within is not None or part.above is not None
        if len(self.promise.parts) > 1 or not numeric or part.prior.kind == "unknown":
            return None
        return self._numbers(part)

    @cached_property
    def chances(self) -> list[float] | float | None:
        """The prior probabilities that goals can have, sorted; or up to which they go; None if nothing is
        known of them."""
        if any(part.prior.kind == "unknown" for part in self.promise.parts) and not self.promise.joint:
            return None
        if self.promise.joint:
            return self._joint()
        parts = [_few(self._goals(part)) for part in self.promise.parts]
        if len(parts) == 1:
            return parts[0]
        if math.prod(map(len, parts)) > COMBINED:
            return None
        combined = (self._together(each) for each in itertools.product(*parts))
        return _few(np.array(sorted(combined)))

    def _together(self, chances: Sequence[float]) -> float:
        """Of several parts that say nothing about each other: that all are right, or any."""
        if self.promise.either:
            return 1 - math.prod(1 - chance for chance in chances)
        return math.prod(chances)

    def _declared(self, part: PromisePart) -> Declared:
        table = self.policy.table(part.table)
        found = None if table is None else table.column(part.column.name)
        return found or part.column

    def _numbers(self, part: PromisePart) -> guessing.Belief:
        """What is believed about a number: on the grid of its column, with its range as the unit."""
        column = self._declared(part)
        low, high = _ends(column)
        step = step_of(column)
        if part.prior.kind == "normal" and (low is None or high is None):
            mean, deviation = part.prior.numbers[0]
            return guessing.Belief.normal(mean, deviation, step=max(step, deviation / 10**4))
        assert low is not None
        assert high is not None
        low, high = math.floor(low / step) * step, math.floor(high / step) * step  # as the engine does
        wide = max(high - low, step)
        if part.prior.kind == "normal":
            mean, deviation = part.prior.numbers[0]
            return guessing.Belief.normal(mean, deviation, low=low, high=high, step=step, unit=wide)
        if part.prior.kind == "uniform":
            return guessing.Belief.uniform(low, high, step=step, unit=wide)
        parts = part.prior.numbers
        if part.prior.source is not None:
            rows = self.read(part.prior.source[0], ((part.prior.source[1], column.kind),))
            numbers = [(_ordinal(values[0]), count) for values, count in rows]
            parts = tuple((_on(x, low, high, step), _on(x, low, high, step), float(n)) for x, n in numbers)
            if not parts:
                raise _empty(part.prior.source[0])
        triples = [(max(start, low), min(end, high), weight) for start, end, weight in parts]
        return guessing.Belief.weighted(triples, low=low, high=high, step=step, unit=wide)

    def _goals(self, part: PromisePart) -> Floats:
        """The prior probability of the goal of every value."""
        if part.within is None and part.above is None:
            # a guess need not be a key: beside other parts it may be right by them alone
            other = [0.0] if len(self.promise.parts) > 1 else []
            return np.array([*other, *(weight for _, weight in self._categories(part))])
        column = self._numbers(part)
        if part.above is not None:
            at = min(max(math.ceil((float(part.above) - column.low) / column.step - 1e-9), 0), column.size)
            sides = column.chances[at:], column.chances[:at]
            return np.array([min(float(side.sum()), 1.0) for side in sides])
        assert part.within is not None
        masses = []
        for wide, before, after in guessing.windows(column, float(part.within)):
            sums = np.concatenate([[0.0], np.cumsum(wide.chances)])
            counts = np.concatenate([[0], np.cumsum(wide.chances > 0)])
            size = before + after + 1
            believed = counts[size:] > counts[:-size]  # what is lost in a difference of sums is not nothing
            found = np.maximum(sums[size:] - sums[:-size], guessing.LOST)
            masses.append(np.where(believed, np.minimum(found, 1.0), 0.0))
        return np.concatenate(masses)

    def _categories(self, part: PromisePart) -> list[tuple[Value, float]]:
        column = self._declared(part)
        weights = list(part.prior.weights)
        if part.prior.source is not None:
            rows = self.read(part.prior.source[0], ((part.prior.source[1], column.kind),))
            weights = [(values[0], float(count)) for values, count in rows]
            if not weights:
                raise _empty(part.prior.source[0])
        elif part.prior.kind == "uniform":
            keys = column.keys or ((False, True) if column.kind == "boolean" else ())
            if not keys:
                advice = f'{part.name} has no keys: declare them, or write prior = "unknown"'
                raise InvalidParameter("prior", "uniform", advice)
            weights = [(key, 1.0) for key in keys]
        total = sum(weight for _, weight in weights)
        return [(key, weight / total) for key, weight in weights]

    def _joint(self) -> float:
        """What no guess is likelier than, where the rows of a public table are believed.

        What one guess is right for lies at most twice as far apart as it may miss; so it is among what lies
        that near to one of its rows.
        """
        parts = self.promise.parts
        columns = tuple((part.column.name, self._declared(part).kind) for part in parts)
        rows = self.read(self.promise.joint, columns)
        if not rows:
            raise _empty(self.promise.joint)
        if len(rows) > 2000:
            raise InvalidParameter(
                "joint", self.promise.joint, "it has over 2,000 combinations: make it coarser"
            )
        total = sum(count for _, count in rows)
        near = [0.0] * (len(parts) if self.promise.either else 1)
        for truth, _ in rows:
            right = [list(map(self._near, parts, truth, row)) for row, _ in rows]
            sides = list(zip(*right, strict=True)) if self.promise.either else [list(map(all, right))]
            for n, side in enumerate(sides):
                mass = sum(count for is_in, (_, count) in zip(side, rows, strict=True) if is_in)
                near[n] = max(near[n], mass / total)
        return min(sum(near), 1.0)

    def _near(self, part: PromisePart, one: Value, other: Value) -> bool:
        """Whether some guess is right for both."""
        if part.above is None and part.within is None:
            return one == other
        low, high = _ends(self._declared(part))
        least, most_ = (-math.inf if low is None else low), (math.inf if high is None else high)
        a, b = (min(max(_ordinal(each), least), most_) for each in (one, other))
        if part.above is not None:
            return (a >= part.above) == (b >= part.above)
        return abs(a - b) <= 2 * float(part.within or 0)

    def check(self) -> None:
        """Refuse now what cannot be believed, and not after a charge."""
        _ = self.chances, self.column

    # What is gained -----------------------------------------------------------------------------------

    @property
    def on_average(self) -> bool:
        """Whether nothing can be said about single releases."""
        return self.policy.budget.rho is not None or self.policy.budget.delta > 0

    @property
    def watched(self) -> Watched | None:
        """The column whose own distance it speaks of."""
        part = self.promise.parts[0]
        if self.promise.metric == "record":
            return None
        return Watched(self.policy.name, part.table, self._declared(part))

    @property
    def relation(self) -> str:
        """What its distance is called in a charge."""
        return "value" if self.watched is None else self.watched.name

    def gained(self, lost: Lost) -> float:
        """How much surer somebody may be at this state of the ledger; rounded up."""
        if not any(lost):
            return 0.0
        if self.on_average:
            return self._averaged(lost)
        fixed, sloped = (_size(each * self.promise.group) for each in lost[:2])
        if self.promise.metric == "record" or sloped == 0:
            return most(self.chances, fixed)
        part = self.promise.parts[0]
        assert self.column is not None
        if part.above is not None:
            sides = guessing.above(self.column, float(part.above), sloped, record=fixed)
            return max(side.advantage for side in sides)
        assert part.within is not None
        return guessing.worst_guess(self.column, float(part.within), sloped, record=fixed)

    def _averaged(self, lost: Lost) -> float:
        amount, _, delta = lost
        group = self.promise.group
        if self.policy.budget.rho is not None:
            return averaged(self.chances, Bound(rho=min(amount * group**2, HUGE)), float(delta * group))
        grown = Fraction(math.ceil(math.exp(min(float(amount) * (group - 1), 600.0)) * 10**6 + 1), 10**6)
        lost_ = min(delta * group * (grown if group > 1 else 1), Fraction(1))
        return averaged(self.chances, Bound(epsilon=min(amount * group, HUGE), delta=lost_))

    # What it allows -----------------------------------------------------------------------------------

    @property
    def made(self) -> str:
        """Names everything that the corners depend on."""
        columns = [self._declared(part) for part in self.promise.parts]
        budget = self.policy.budget
        told = [FORM, forms.promise(self.promise, columns), budget.currency, str(budget.delta), self._public]
        return notation.digest(told)

    @property
    def declared(self) -> str:
        """Names what the policy says of it: the same whatever public tables hold, and however it is worked
        out."""
        columns = [self._declared(part) for part in self.promise.parts]
        fixed = [replace(each, keys=None) if each.keys_from else each for each in columns]
        budget = self.policy.budget
        return notation.digest([forms.promise(self.promise, fixed), budget.currency, str(budget.delta)])

    @property
    def formerly(self) -> str:
        """The same before promises had a stored form."""
        columns = [self._declared(part) for part in self.promise.parts]
        budget = self.policy.budget
        told = former.shown((1, self.promise, columns, budget.currency, budget.delta))
        return hashlib.sha256(f"{told}\n{self._public}".encode()).hexdigest()

    @property
    def _public(self) -> str:
        """What public tables say of it, which may change."""
        if not self.promise.joint and not any(part.prior.source for part in self.promise.parts):
            return ""
        public = repr(self.chances)  # of floats
        if self.column is not None:
            public += f"{self.column.low} {self.column.step} {self.column.chances.tobytes().hex()}"
        return public

    @cached_property
    def limit(self) -> Limit:
        """What a ledger must know of it."""
        names = self.declared, self.about
        return Limit(self.relation, tuple(self._corners()), self.told(), self.made, *names, self.apart)

    @cached_property
    def apart(self) -> tuple[Unit, ...]:
        """Units that it is not about: what is charged about these alone does not count."""
        tables = [self.policy.table(part.table) for part in self.promise.parts]
        own = [unit_of(table, self.policy.tables) for table in tables if table is not None]
        return apart([unit for unit in own if unit is not None], self.policy)

    @property
    def about(self) -> str:
        """The columns that it is about."""
        return ", ".join(part.name for part in self.promise.parts)

    def as_known(self, known: Sequence[Limit]) -> Limit:
        """The same as a ledger knows it already, if it does: then it need not be worked out again."""
        made = {limit.made: limit for limit in known}
        found = made.get(self.made) or made.get(self.formerly)
        return (
            self.limit
            if found is None
            else found._replace(declared=self.declared, about=self.about, apart=self.apart)
        )

    def _corners(self) -> list[tuple[int, int, int]]:
        slack = math.ceil(SLACKS * self.policy.budget.delta * FINE)
        eta = float(self.promise.advantage)

        def keeps(fixed: float, sloped: float) -> bool:
            lost = (Fraction(fixed), Fraction(sloped), Fraction(slack, FINE))
            return self.gained(lost) <= eta

        if not keeps(0.0, 0.0):
            return []
        many = self.column is not None and self.column.size > LARGE
        whole = guessing.largest(lambda size: keeps(size, 0.0))
        if not math.isfinite(whole):
            return [(ALL, ALL, slack)]  # what is likely enough already: nothing breaks it
        if self.promise.metric == "record":
            return [(_units(whole), ALL, slack)]
        stairs, close = (STAIRS // 8, 1e-3) if many else (STAIRS, 1e-6)  # a search takes seconds there
        levels = [whole * n / stairs for n in range(stairs + 1)]
        assert self.column is not None
        scale = self.column.unit / self.column.step
        found = []
        for fixed in levels:
            sloped = guessing.largest(lambda size, fixed=fixed: keeps(fixed, size), scale, close)  # type: ignore[misc]
            found.append((_units(fixed), _units(sloped), slack))
        return found

    # Words --------------------------------------------------------------------------------------------

    @property
    def secret(self) -> str:
        """What it is about, of one person."""
        word = " or " if self.promise.either else " and "
        return word.join(_phrase(part) for part in self.promise.parts)

    @property
    def attacker(self) -> str:
        """Whom it is hidden from, as a clause."""
        if self.promise.group > 1:
            group = f"{self.promise.group:,}"
            return f"who knows every record outside of a group of {group} that depend on each other"
        if self.promise.metric != "record":
            return "who knows everything else, in the same record and in all others"
        return "who knows everyone else's record"

    def is_broken(self, limit: Limit, lost: Lost) -> bool:
        """Whether more is gained at this state of the ledger than was promised.

        Where a limit is stricter than the promise, what it does not allow may still keep the promise.
        """
        state = [int(lost[0] * UNIT), int(lost[1] * UNIT), int(lost[2] * FINE)]
        return not limit.allows(state) and self.gained(lost) > float(self.promise.advantage)

    def told(self, gained: float | None = None) -> str:
        """The promise as a sentence; or the same of what can really be gained."""
        average = ", on average over releases," if self.on_average else ""
        much = points(float(self.promise.advantage) if gained is None else gained)
        comma = "," if self.promise.metric != "record" and self.promise.group <= 1 and not average else ""
        whom = f"nobody {self.attacker}{comma}"
        return f"{whom} becomes{average} more than {much} surer of {self.secret}, {self.belief}"

    @property
    def belief(self) -> str:
        """What is believed before any release, as a condition."""
        promise = self.promise
        if promise.joint:
            return f"if at first the table {promise.joint} says what is believed"
        told = [_believed(part) for part in promise.parts]
        if any(part.prior.kind == "unknown" for part in promise.parts):
            return "whatever was believed at first"
        apart = ", and no part says anything about another" if len(told) > 1 else ""
        return f"if at first {' and '.join(dict.fromkeys(told))}{apart}"

    def standing(self, alone: Lost, after: Lost) -> str:
        """What a question allows, alone and with all so far."""
        one, whole, eta = self.gained(alone), self.gained(after), float(self.promise.advantage)
        average = " on average" if self.on_average else ""
        passed = ", which is less" if whole > eta and points(whole) != points(eta) else ""
        return (
            f"on its own, this release can make an attacker {self.attacker} at most {points(one)} surer"
            f"{average} of {self.secret}, {self.belief}; together with all releases so far: at most "
            f"{points(whole)} (promised: {points(eta)}{passed})"
        )


def most(chances: Sequence[float] | float | None, reach: float) -> float:
    """The largest advantage over these sorted prior probabilities: at one beside the worst, by concavity.

    >>> round(most([0.1, 0.5], 1.0), 4), round(most(None, 1.0), 4)
    (0.2311, 0.2449)
    """
    if not math.isfinite(reach):
        return 1.0
    worst, gained = guessing.worst_chance(reach)
    if chances is None:
        return gained
    if isinstance(chances, float):
        return gained if worst <= chances else guessing.simplified(chances, reach) - chances
    at = bisect.bisect(chances, worst)
    near = chances[max(at - 1, 0) : at + 1]
    return max((guessing.simplified(p, reach) - p for p in near), default=0.0)


def averaged(chances: Sequence[float] | float | None, bound: Bound, missed: float = 0.0) -> float:
    """The largest advantage on average over releases, for these sorted prior probabilities or for all.

    It is concave in the probability, so of the sorted ones only those around the worst matter. `missed` is
    the chance of outputs of which the bound says nothing.

    >>> one = Bound(epsilon=Fraction(1))
    >>> round(averaged([0.05], one), 4), round(averaged(None, one), 3)
    (0.0752, 0.246)
    """

    def gained(p: float) -> float:
        return min(guessing.on_average(min(p + 2 * missed, 1.0), bound) + missed, 1.0) - p

    if chances is None or isinstance(chances, float):
        top = 1.0 if chances is None else chances
        spots = np.linspace(0, top, 1001)
        values = np.minimum(guessing.on_averages(np.minimum(spots + 2 * missed, 1.0), bound) + missed, 1.0)
        # the posterior grows with the prior: the next less this
        return min(float((values[1:] - spots[:-1]).max()), 1.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if gained(left) >= gained(right) else (left, high)
    at = bisect.bisect(chances, (low + high) / 2)
    return max((gained(p) for p in chances[max(at - 3, 0) : at + 3]), default=0.0)


def anything(lost: Lost, budget: Guarantee) -> float:
    """How much surer of any one fact about a person somebody may be, whatever she believed before."""
    amount, _, delta = lost
    if budget.rho is not None:
        return min(most(None, _size(odometer(min(amount, HUGE), delta=KEPT))) + float(delta), 1.0)
    if delta:
        return averaged(None, Bound(epsilon=min(amount, HUGE), delta=min(delta, Fraction(1))))
    return most(None, _size(amount))


def plainly(alone: Lost, after: Lost, budget: Guarantee) -> str:
    """The sentence where nothing was promised."""
    average = " on average" if budget.delta else ""
    sure = " (but for a chance of one in a million)" if budget.rho is not None else ""
    return (
        "on its own, this release can raise an attacker's confidence in any fact about one person by at most "
        f"{points(anything(alone, budget))}{average}, even if the attacker knows everybody else's record; "
        f"together with all releases so far: at most {points(anything(after, budget))}{sure}"
    )


def points(share: float) -> str:
    """A share in percentage points, rounded up to two digits.

    >>> points(0.1), points(0.012345), points(0), points(0.9999)
    ('10 percentage points', '1.3 percentage points', '0 percentage points', '100 percentage points')
    """
    if share <= 0:
        return "0 percentage points"
    size = min(share, 1.0) * 100
    digits = 1 - math.floor(math.log10(size))
    rounded = math.ceil(size * 10**digits * (1 - 1e-6)) / 10**digits
    shown = f"{min(rounded, 100.0):.6g}"
    return f"{shown} percentage point" + ("" if shown == "1" else "s")


def _phrase(part: PromisePart) -> str:
    if part.above is not None:
        limit = part.above
        shown = f"{float(limit):,.12g}"
        if part.column.kind == "date":
            shown = str(_day(limit))
        return f"whether somebody's {part.name} is at least {shown}"
    if part.within is None:
        return f"somebody's {part.name}"
    days = " days" if part.column.kind == "date" else ""
    return f"somebody's {part.name} to within {float(part.within):,.12g}{days}"


def _believed(part: PromisePart) -> str:
    prior = part.prior
    if prior.source is not None:
        return f"{'.'.join(prior.source)} says how likely values are"
    if prior.kind == "uniform":
        return "all values seem equally likely"
    if prior.kind == "normal":
        mean, deviation = prior.numbers[0]
        return f"the value seems to be about {mean:g}, give or take {deviation:g}"
    return "the policy says how likely values are"


def _day(ordinal: Fraction) -> datetime.date:
    return datetime.date.fromordinal(int(ordinal))


def _few(values: Floats) -> list[float]:
    """Sorted, and each once."""
    floored = np.where(values > 0, np.maximum(values, guessing.LOST), 0.0)  # what is little is not nothing
    found: list[float] = np.unique(np.round(floored, 15)).tolist()
    return found


def _ends(column: Declared) -> tuple[float | None, float | None]:
    low, high = bounds_of(column)
    return None if low is None else float(low), None if high is None else float(high)


def _ordinal(value: Value) -> float:
    return float(value.toordinal()) if hasattr(value, "toordinal") else float(value)


def _on(value: float, low: float, high: float, step: float) -> float:
    """A value on the grid, within the bounds."""
    return low + math.floor((min(max(value, low), high) - low) / step + 1e-9) * step


def _empty(table: str) -> InvalidParameter:
    return InvalidParameter("prior", table, "the public table has no rows: fill it, or name another one")


def _size(amount: Fraction) -> float:
    """As a float, rounded up; what is huge tells everything, and more would tell no more."""
    return float(min(amount, HUGE)) * (1 + 1e-12)


def _units(size: float) -> int:
    """In whole units, rounded down."""
    return ALL if not math.isfinite(size) else min(math.floor(size * (1 - 1e-12) * UNIT), ALL)


def judges_of(policy: Policy, read: Read) -> tuple[Judge, ...]:
    """What every promise of a policy means; refused, with its place, if one cannot be kept."""
    judges = tuple(Judge(promise, policy, read) for promise in policy.promises)
    for n, judge in enumerate(judges):
        try:
            judge.check()
        except InvalidParameter as error:
            raise policies.problem(policy, ("promise", str(n)), str(error)) from None
    return judges
