"""What a database may spend, has spent, and what the rest is good for."""

from __future__ import annotations

import csv
import datetime
import html
import io
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget.accounting.filters import odometer
from sfumato.budget.ledger.shares import of
from sfumato.budget.ledger.subjects import counts
from sfumato.curator import show
from sfumato.curator.calibrate import count_within
from sfumato.curator.repairs import WRONG, was_wrong
from sfumato.curator.tables import ANEW, MEASURE
from sfumato.mechanisms.guarantee import FINER, decimal
from sfumato.queries.sensitivity import derive
from sfumato.queries.statement import parse
from sfumato.queries.units import apart, called, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.budget import Entry, Share
    from sfumato.budget.ledger.subjects import Units
    from sfumato.curator.keeper import Keeper
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.policy import Policy

WIDTH, HEIGHT, EDGE = 640, 320, 48  # of the picture
SHOWN = 16  # letters of the head
NO_QUESTIONS = (f"{MEASURE} ", f"{ANEW} ", "tune ", "caps that fit ")  # what is spent on caps


@dataclass(frozen=True, slots=True, repr=False)
class Budget:
    """Total, spent, left; history and shares."""

    database: str
    total: Guarantee
    spent: Guarantee
    history: tuple[Entry, ...]
    shares: tuple[tuple[Share, Guarantee], ...] = ()
    head: str = ""
    worth: str = field(default="")  # what is left, in the words of somebody who counts
    was_wrong: Callable[[Entry], bool] = lambda _: False  # whether a question was read wrongly once
    bound: str = field(default="")  # which other policy on the same ledger gives less, in words
    as_before: str = field(default="")  # how many questions are left of the price of those so far, in words
    measuring: str = field(default="")  # what of the owner's share for measuring is spent, in words
    units: tuple[
        tuple[str, Units], ...
    ] = ()  # names of what the policy tells apart, and all that is something else

    @property
    def left(self) -> Guarantee:
        """What can still be asked for."""
        return self.total.minus(self.spent)

    def by_analyst(self) -> dict[str, Guarantee]:
        """What each analyst has spent; those who gave no name are together."""
        return self._summed(lambda entry: entry.analyst or "(no name)")

    def by_day(self) -> dict[str, Guarantee]:
        """What was spent on each day, by UTC."""
        return self._summed(lambda entry: f"{when(entry):%Y-%m-%d}")

    def by_unit(self) -> dict[str, Guarantee]:
        """What was spent about each unit that the policy tells apart; old charges are about every one."""
        return {
            name: self._sum(
                entry
                for entry in self.history
                if counts({"database": entry.database, "unit": entry.units}, self.database, others)
            )
            for name, others in self.units
        }

    def _sum(self, entries: Iterable[Entry]) -> Guarantee:
        prices = [entry.price for entry in entries]
        delta = sum((price.delta for price in prices), Fraction(0))
        return self.total.of(sum((price.amount for price in prices), Fraction(0)), delta)

    def _summed(self, name: Any) -> dict[str, Guarantee]:
        sums: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for entry in self.history:
            pair = sums[name(entry)]
            pair[0], pair[1] = pair[0] + entry.price.amount, pair[1] + entry.price.delta
        return {key: self.total.of(*pair) for key, pair in sums.items()}

    def epsilon_so_far(self, delta: Fraction) -> Fraction:
        """An epsilon for what was spent so far, valid whenever one looks: the sum, or for rho a ladder.

        Guarantee: in epsilon, all releases so far are (epsilon, sum of the charged deltas)-private. In rho,
        with probability 1 - delta (and but for the charged deltas) no loss was ever above what was reported.
        Proof: basic composition; `sfumato.budget.accounting.filters.odometer`.
        """
        return odometer(self.spent.amount, delta=delta) if self.spent.rho is not None else self.spent.amount

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "database": self.database,
            "currency": self.total.currency,
            "total": decimal(self.total.amount),
            "spent": decimal(self.spent.amount),
            "left": decimal(self.left.amount),
            **({"delta": self._deltas()} if self.total.delta else {}),
            "worth": self.worth,
            "bound": self.bound,
            "as_before": self.as_before,
            "measuring": self.measuring,
            "head": self.head,
            "by_analyst": {name: decimal(spent.amount) for name, spent in self.by_analyst().items()},
            "by_day": {day: decimal(spent.amount) for day, spent in self.by_day().items()},
            "by_unit": {name: decimal(spent.amount) for name, spent in self.by_unit().items()},
            "shares": [
                {
                    "name": share.name,
                    "allowance": decimal(share.allowance.amount),
                    "left": decimal(left.amount),
                    "every": share.every,
                    "members": list(share.members),
                }
                for share, left in self.shares
            ],
            "history": [
                {
                    "receipt": entry.number,
                    "at": when(entry).isoformat(timespec="seconds"),
                    self.total.currency: decimal(entry.price.amount),
                    **({"delta": decimal(entry.price.delta, FINER)} if self.total.delta else {}),
                    "spent": decimal(entry.spent.amount),
                    "analyst": entry.analyst,
                    "database": entry.database,
                    "question": entry.question,
                    "released": entry.redeemed,
                    **({"note": WRONG} if self.was_wrong(entry) else {}),
                }
                for entry in self.history
            ],
        }

    def _apart(self) -> str:
        """What was spent about each of several units, in words."""
        if len(self.units) < 2:
            return ""
        told = ", ".join(f"{spent} about {name}" for name, spent in self.by_unit().items())
        return f"Of this {told}: a promise about one says nothing about another."

    def _deltas(self) -> dict[str, str]:
        facts = {"total": self.total, "spent": self.spent, "left": self.left}
        return {name: decimal(value.delta, FINER) for name, value in facts.items()}

    def csv(self) -> str:
        """The history as CSV, one charge a line."""
        text = io.StringIO()
        rows = self.as_dict()["history"]
        columns = [
            "receipt",
            "at",
            self.total.currency,
            "delta",
            "spent",
            "analyst",
            "database",
            "question",
            "released",
            "note",
        ]
        for row in rows:
            row.setdefault("note", "")
        writer = csv.DictWriter(text, columns, lineterminator="\n", restval="0")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def __repr__(self) -> str:
        share = float(self.spent.amount / self.total.amount) if self.total.amount else 1.0
        lines = [
            f"  {self.database}: {self.total.currency} {decimal(self.spent.amount)} of "
            f"{decimal(self.total.amount)} spent, {decimal(self.left.amount)} left",
            f"  {show.bar(share)}",
        ]
        if self.total.delta:
            deltas = self._deltas()
            lines.append(f"  delta {deltas['spent']} of {deltas['total']} spent, {deltas['left']} left")
        lines += show.paragraphs(
            [each for each in (self.worth, self.as_before, self.measuring, self.bound, self._apart()) if each]
        )
        if len(self.by_analyst()) > 1 or self.shares:
            lines += ["", self._people()]
        if self.history:
            rows = [
                [
                    str(entry.number),
                    _minute(entry),
                    decimal(entry.price.amount),
                    decimal(entry.spent.amount),
                    entry.question + self._remark(entry),
                ]
                for entry in self.history
            ]
            headers = ["receipt", "when (UTC)", self.total.currency, "so far", "question"]
            lines += ["", show.table(headers, rows, [False, True, False, False, True])]
        if self.head:
            number, _, letters = self.head.partition("-")
            lines += ["", f"  head {number}-{letters[:SHOWN]}"]
        return "\n".join(lines)

    def _remark(self, entry: Entry) -> str:
        if not entry.redeemed:
            return "   (paid, not yet released)"
        return f"   ({WRONG})" if self.was_wrong(entry) else ""

    def _people(self) -> str:
        spent, rows = self.by_analyst(), []
        shares = {share.name: share for share, _ in self.shares}
        for share, left in self.shares:
            mine = {name: spent.pop(name).amount for name in [*spent] if of(name, shares) == share}
            fill = f"every {share.every}, from the total" if share.every else "never"
            allowance = decimal(share.allowance.amount)
            total = decimal(sum(mine.values(), Fraction(0)))
            rows.append([share.name, total, allowance, decimal(left.amount), fill])
            if share.members:
                rows += [[f"- {name}", decimal(amount), "", "", ""] for name, amount in mine.items()]
        rows += [[name, decimal(price.amount), "", "", ""] for name, price in spent.items()]
        headers = ["analyst", "spent", "share", "left of it", "refilled"]
        return show.table(headers, rows, [True, False, False, False, True])

    def picture(self) -> str:
        """What was left after each charge, as an SVG: the burn-down."""
        points = [
            (when(entry).timestamp(), float(self.total.amount - entry.spent.amount)) for entry in self.history
        ]
        first = points[0][0] if points else 0.0
        span, top = max((points[-1][0] if points else 0.0) - first, 1.0), float(self.total.amount) or 1.0
        wide, high = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE

        def place(at: float, left: float) -> str:
            return f"{EDGE + wide * (at - first) / span:.1f},{EDGE + high * (1 - max(left, 0.0) / top):.1f}"

        path, left = [place(first, top)], top
        for at, after in points:
            path += [place(at, left), place(at, after)]
            left = after
        path.append(place(first + span, left))
        ground = (place(first + span, 0.0), place(first, 0.0))
        words = f"{self.database}: {self.total.currency} {decimal(self.left.amount)} of "
        title = html.escape(f"{words}{decimal(self.total.amount)} left")
        labels = [
            f'<text x="{EDGE}" y="{EDGE - 16}" font-size="15">{title}</text>',
            f'<text x="{EDGE - 6}" y="{EDGE + 5}" text-anchor="end">{decimal(self.total.amount)}</text>',
            f'<text x="{EDGE - 6}" y="{HEIGHT - EDGE + 5}" text-anchor="end">0</text>',
        ]
        if points:
            ends = (self.history[0], EDGE, "start"), (self.history[-1], WIDTH - EDGE, "end")
            labels += [
                f'<text x="{x}" y="{HEIGHT - EDGE + 20}" text-anchor="{anchor}">{_minute(entry)}</text>'
                for entry, x, anchor in ends
            ]
        frame = f"M{EDGE},{EDGE}V{HEIGHT - EDGE}H{WIDTH - EDGE}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
            f'<polygon points="{" ".join([*path, *ground])}" fill="#7a4e2d" fill-opacity="0.15"/>'
            f'<path d="{frame}" fill="none" stroke="#888"/>'
            f'<polyline points="{" ".join(path)}" fill="none" stroke="#7a4e2d" stroke-width="2"/>'
            f"{''.join(labels)}</svg>\n"
        )


def _minute(entry: Entry) -> str:
    return f"{when(entry):%Y-%m-%d %H:%M}"


def when(entry: Entry) -> datetime.datetime:
    """The time of an entry."""
    return datetime.datetime.fromtimestamp(entry.at, datetime.UTC)


def worth(left: Guarantee, cost: Guarantee, what: str, error: int) -> str:
    """What is left, as a number of counts of a stated error."""
    ratios = [left.amount / cost.amount] + ([left.delta / cost.delta] if cost.delta else [])
    many = math.floor(min(ratios))
    if many == 0:
        return f"Not enough for one more {what} within ± {error:,d} at 95%."
    return f"Enough for about {many:,d} more {what} within ± {error:,d} at 95%."


def budget_of(keeper: Keeper) -> Budget:
    """The budget of a database as it stands."""
    ledger, policy = keeper.ledger, keeper.policy
    spent, limit = ledger.spent, ledger.limit
    facts = (spent, ledger.history(), ledger.shares(), ledger.head, _good_for(policy, limit.minus(spent)))
    others = {called(unit, policy): apart([unit], policy) for unit in units_of(policy)}
    told = (keeper.said.bound, _as_before(keeper, facts[1]), _measured(keeper))
    more = (*told, tuple(others.items()) if policy.units else ())
    return Budget(policy.name, limit, *facts, lambda entry: was_wrong(entry, keeper.names), *more)


def _as_before(keeper: Keeper, history: Iterable[Entry]) -> str:
    """How many more questions there are of the price of those that were asked: by whoever asks now."""
    theirs = [
        entry.price.amount
        for entry in history
        if entry.database == keeper.policy.name and entry.analyst == (keeper.analyst or entry.analyst)
        if entry.price.amount and not entry.question.startswith(NO_QUESTIONS)
    ]
    if not theirs:
        return ""
    usual = statistics.median_low(theirs)
    many = math.floor(keeper.left.amount / usual)
    return (
        f"At the usual price of the questions so far, {keeper.left.of(usual, Fraction(0))}: "
        f"{f'about {many:,d}' if many else 'none'} more."
    )


def _measured(keeper: Keeper) -> str:
    """What of the share for measuring is spent."""
    policy = keeper.policy
    if not policy.measure:
        return ""
    share = policy.budget.of(policy.budget.amount * policy.measure, Fraction(0))
    spent = decimal(keeper.ledger.spent_on(f"{MEASURE} "))
    return f"Of {share} for measuring how much people have ([measure] in the policy), {spent} is spent."


def _good_for(policy: Policy, left: Guarantee) -> str:
    """How many more plain counts of the first table are left, at an error of ten people's rows."""
    for table in policy.tables:
        if not table.public:
            name = table.name.replace('"', '""')
            plan = parse(f'SELECT COUNT(*) FROM "{name}"', policy)
            (derivation,) = derive(plan)
            measure = plan.measures[0]
            cost, error = count_within(measure, derivation.distances, left.of(Fraction(0)), measure.one)
            cost = cost.of(max(cost.amount, policy.least), cost.delta)
            return worth(left, cost, f"COUNT(*) of {table.name}", error)
    return ""
