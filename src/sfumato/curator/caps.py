"""Caps that fit the data, chosen from what `sfumato tune` released.

A cap that is too small loses rows, one that is too large adds noise, and the owner cannot know which is which
without looking. So a small part of the budget is spent once on a few noisy histograms over people: how many
rows they have, and how much of each column in sum. They are released, hence public, and written to the
policy. For every question the caps are then chosen from them anew, as free post-processing: the best cap
depends on the price and on the number of groups (it leaves about 2.2 groups / epsilon people above it).

What is released is a vector in which one person moves two entries, by 1024 in all (`plan.Octaves`): its price
is that of one count. Everything after that is arithmetic on released numbers, so floats are allowed. The
constants below were chosen on log-normal data and tested on others (docs/explanation/tuning.md).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.calibrate import SELECTION
from sfumato.queries.cells import PARTS
from sfumato.queries.declared import Tuned
from sfumato.queries.expressions import Call, Field, parts_of, possible
from sfumato.queries.measures import Moments, Sum
from sfumato.queries.policy import MOST_ROWS_PER_PERSON
from sfumato.queries.relations import Where
from sfumato.queries.shown import Arithmetic, KeyOf, Weighted, Within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.mechanisms import Guarantee
    from sfumato.queries.declared import DeclaredTable, Measured, TunedColumn
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.relations import Relation

ROWS, TOTALS = 22, 64  # nodes of the histograms: up to 2^20 rows, and to 2^62 steps
CLEAR = 5.0  # in units of the noise: a node is believed from here on, next to one that is believed
JUMP = 2.0  # more for every octave without people in between
CERTAIN = 13.0  # and never more than that
SHRINKING = 0.5  # beyond the last believed node there are at most half as many people an octave
UNSEEN = 0.5  # and at least so many units of noise of them, as long as that is possible
JITTERS = 31  # the choice is averaged over so many shifts of the histogram within its noise
PRIVATE_GROUPS = 100  # how many groups to reckon with where nobody knows
PASSING = 2  # a condition is reckoned to leave one row in so many, or what its list of values says
WORTH = 1.1  # times less error: only then is a cap taken that is above the declared one
SHAPE = 100  # how much less it matters for a mean, a variance or a quantile that people are cut


def nodes(count: int) -> NDArray[np.float64]:
    """Where the nodes stand: 0, 1, 2, 4, ..."""
    return np.array([0.0, *(2.0**k for k in range(count - 1))])


@lru_cache(maxsize=1024)
def choose(measured: Measured, epsilon: float, groups: int, declared: int | None = None) -> int | None:
    """The cap with the least error for a count or sum in one of so many groups at this price.

    Above a declared cap it lies only where people are seen who have more, and that is clearly better: where
    there is only noise, the owner knows more than the histogram.

    None if the histogram shows nobody. The error of a cap C is its bias, what people have above C, and the
    noise, of variance 2 (C/epsilon)^2; it is averaged, by its logarithm, over fixed shifts of the histogram,
    since one noisy node must not decide.
    """
    noise = 1 / float(measured.epsilon)
    seen = np.array(measured.people, dtype=np.float64) / PARTS
    curves = []
    for shift in _shifts(len(seen)):
        masses = believed(seen + noise * shift, noise)
        if masses is not None:
            curves.append(_lost(masses))
    if 2 * len(curves) <= JITTERS:
        return None
    caps = _candidates(len(seen))
    errors = np.sum([np.log((lost / groups) ** 2 + 2 * (caps / epsilon) ** 2) for lost in curves], axis=0)
    best = int(np.argmin(errors))
    if declared is not None and caps[best] > declared:
        worth = 2 * math.log(WORTH) * len(curves)
        between = (float(np.interp(math.log2(declared), np.log2(caps), lost)) for lost in curves)
        here = sum(math.log((lost / groups) ** 2 + 2 * (declared / epsilon) ** 2) for lost in between)
        if nodes(len(seen))[_top(seen, noise) or 0] <= declared or here - errors[best] < worth:
            return declared
    return int(caps[best])


def believed(seen: NDArray[np.float64], noise: float) -> NDArray[np.float64] | None:
    """How many people there are at each node, with what is only noise taken out; None if nobody is seen.

    From the bottom a node is believed that stands clear of the noise, the more the farther it is from the
    last one; beyond the last there are fewer people from octave to octave, as few as the histogram allows.
    """
    top = _top(seen, noise)
    if top is None:
        return None
    masses = np.zeros(len(seen))
    masses[: top + 1] = seen[: top + 1]
    before, last = max(masses[top - 1], 0.0) if top else 0.0, masses[top]
    for k in range(top + 1, len(seen)):
        most = last * (SHRINKING if before <= 0 else min(SHRINKING, last / before))
        masses[k] = most if most <= noise else min(max(seen[k], UNSEEN * noise), most)
        before, last = last, masses[k]
        if last <= 1e-3:
            break
    return masses


def _top(seen: NDArray[np.float64], noise: float) -> int | None:
    """The last node that is believed; None if there is none."""
    top, found = 0, bool(seen[0] >= CLEAR * noise)
    while True:
        gaps = range(1, len(seen) - top)
        step = next((d for d in gaps if seen[top + d] >= noise * min(CLEAR + JUMP * (d - 1), CERTAIN)), None)
        if step is None:
            return top if found else None
        top, found = top + step, True


def _lost(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """What people have above each candidate cap: exact at nodes, between them by the geometric mean."""
    at = nodes(len(masses))
    above = [max(float((masses * np.maximum(at - x, 0)).sum()), 0.0) for x in at[1:]]
    above = list(itertools.accumulate(above, min))
    between = [
        (a**0.415 * b**0.585 if b else (a + b) / 2) for a, b in itertools.pairwise(above)
    ]  # at one and a half of the lower node
    return np.array([x for pair in zip(above, [*between, above[-1]], strict=True) for x in pair])


def _candidates(count: int) -> NDArray[np.float64]:
    """Powers of two, and one and a half of them."""
    return np.array([x for node in nodes(count)[1:] for x in (node, max(1.5 * node, node))])


@lru_cache(maxsize=8)
def _shifts(count: int) -> NDArray[np.float64]:
    """Fixed shifts with a Laplace law, from multiples of the roots of primes: no coins are needed."""
    primes = [n for n in range(2, 1000) if all(n % p for p in range(2, math.isqrt(n) + 1))][:count]
    spread = np.outer(np.arange(1, JITTERS + 1), np.sqrt(np.array(primes, dtype=np.float64)))
    even = np.clip((spread + 0.5) % 1, 5e-7, 1 - 5e-7)
    return np.where(even < 0.5, np.log(2 * even), -np.log(2 * (1 - even)))


# For a question ------------------------------------------------------------------------------------------


def resolve(policy: Policy, plan: Plan, spend: Guarantee, *, is_former: bool = False) -> Policy:
    """The policy with caps for one question, where tables were tuned; else as it is.

    Caps that are `former` are those under which releases were stored before 0.2.0: they did not heed declared
    ones, and what the question does not read had one, too.
    """
    groups = round((PRIVATE_GROUPS if plan.private_keys else max(plan.size, 1)) * passing(plan.relation))
    price = price_of_one(plan, spend)
    shown = [output.expression for output in plan.outputs if not isinstance(output.expression, KeyOf)]
    counts = any(isinstance(each, (Weighted, Within, Arithmetic)) for each in shown)
    read = {field.origin for field in plan.fields}

    def resolved(table: DeclaredTable) -> DeclaredTable:
        if table.tuning is None or not (is_former or table.name in plan.tables):
            return table
        declared = None if is_former else table.rows_per_person
        rows = choose(table.tuning.rows, price, groups if counts else groups * SHAPE, declared)
        tuned = {column.name: column for column in table.tuning.columns}
        columns = tuple(
            replace(column, tuned=_column(tuned[column.name], price, groups))
            if column.name in tuned and (is_former or (table.name, column.name) in read)
            else column
            for column in table.columns
        )
        cap = table.rows_per_person if rows is None else min(rows, MOST_ROWS_PER_PERSON)
        return replace(table, rows_per_person=cap, columns=columns)

    if all(table.tuning is None for table in policy.tables):
        return policy
    return replace(policy, tables=tuple(resolved(table) for table in policy.tables))


def tuned_by(policy: Policy, plan: Plan) -> dict[str, list[str]]:
    """The tables whose caps matter to a plan, and of each the columns that are added up."""
    found: dict[str, list[str]] = {
        table.name: []
        for table in policy.tables
        if table.name in plan.tables and table.rows_per_person is not None
    }
    added = [m.value for m in plan.measures if isinstance(m, Sum)]
    added += [m.values[0] for m in plan.measures if isinstance(m, Moments) and m.degree == len(m.values) == 1]
    for value in added:
        field = value.arguments[0] if isinstance(value, Call) and value.function == "clamp" else value
        table, column = field.origin if isinstance(field, Field) else ("", "")
        if table in found and column not in found[table]:
            found[table].append(column)
    return found


def passing(relation: Relation) -> float:
    """How many rows there are, about, for each that passes the conditions: a guess, from public facts."""
    found = 1.0
    while isinstance(relation, Where):
        for part in parts_of(relation.condition):
            listed = isinstance(part, Call) and part.function in ("=", "in")
            values = possible(part.arguments[0]) if isinstance(part, Call) and listed else None
            found *= PASSING if not values else max(len(values) / (len(part.arguments) - 1), 1.0)  # type: ignore[union-attr]
        relation = relation.relation
    return found


def _column(column: TunedColumn, price: float, groups: int) -> Tuned | None:
    step = Fraction(2) ** -column.exponent
    total = choose(column.totals, price, groups)
    centred = choose(column.centred, price, groups)
    if total is None or centred is None:
        return None
    return Tuned(column.centre, total * step, centred * step)


def price_of_one(plan: Plan, spend: Guarantee) -> float:
    """About what one measure of the question will get, as an epsilon."""
    whole = float(spend.epsilon) if spend.epsilon is not None else 2 * math.sqrt(spend.amount)
    if plan.private_keys:
        whole *= 1 - float(SELECTION)
    averages = sum(isinstance(m, Moments) and m.degree == 1 and len(m.values) == 1 for m in plan.measures)
    return whole / max(len(plan.measures) - plan.private_keys + averages, 1)
