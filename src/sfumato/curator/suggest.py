"""From a sentence about an attacker to an epsilon: a table, a sentence, and a picture."""

from __future__ import annotations

import datetime
import html
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.budget.accounting.filters import UNIT
from sfumato.curator import show
from sfumato.curator.promises import ALL, LARGE, Judge, most, points
from sfumato.queries.promises import promise_of
from sfumato.utility import guessing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.budget.ledger.chain import Limit
    from sfumato.budget.ledger.subjects import Units
    from sfumato.curator.promises import Lost, Read
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.policy import Policy
    from sfumato.queries.promises import PromisePart

    SoFar = Callable[[str, Units], Lost]  # what was lost under a relation, about some units

WIDTH, HEIGHT, EDGE = 300, 260, 44  # of one panel
SEEN = 48  # values of a column that are drawn
INK, PALE, LINES = "#7a4e2d", "#cbb8a8", ("#7a4e2d", "#3d6d8a", "#8a8a8a")
BOUNDS = ("simplified", "shell", "precise", "tight")


@dataclass(frozen=True)
class Suggestion:
    """An epsilon that keeps a promise, under every bound that is known; and what it means.

    `epsilon` is what all releases together may cost: if a person is replaced, or, where the promise has a
    metric of its own, over the whole range of the column. It is rounded down. In rho it is a rho.
    """

    judge: Judge
    lost: Lost = (Fraction(0), Fraction(0), Fraction(0))  # so far

    @cached_property
    def epsilon(self) -> float:
        """By the tight bound, for every true value."""
        promise = self.judge.promise
        corners = self.judge.limit.corners
        if not corners:
            return 0.0
        units = corners[0][0] if promise.metric == "record" else corners[0][1]
        return math.inf if units >= ALL else units / UNIT

    @property
    def budget(self) -> float:
        """What to write under [budget], so that no question is ever stopped by this promise.

        Whoever is replaced goes, and somebody comes: twice the epsilon, four times the rho.
        """
        return self.epsilon / (4 if self.judge.policy.budget.rho is not None else 2)

    @cached_property
    def bounds(self) -> dict[str, float]:
        """The epsilon by each bound, at the true value that is the worst by the tight one."""
        judge, part = self.judge, self.judge.promise.parts[0]
        if judge.promise.metric == "record" or judge.column is None or not math.isfinite(self.epsilon):
            return dict.fromkeys(BOUNDS, self.epsilon)
        column, eta = judge.column, float(judge.promise.advantage)

        def at(epsilon: float) -> guessing.Bounds:
            if part.above is not None:
                sides = guessing.above(column, float(part.above), epsilon)
                return max(sides, key=lambda side: side.advantage)
            return guessing.about(column, worst or 0.0, float(part.within or 0), epsilon)

        worst = self.worst
        found = {}
        for name in BOUNDS:
            found[name] = guessing.largest(
                lambda size, name=name: _gain(at(size), name) <= eta,  # type: ignore[misc]
                column.unit / column.step,
                1e-6 if column.size < LARGE else 1e-3,
            )
        return found

    @cached_property
    def worst(self) -> float | None:
        """The true value about which most is gained, where values have a distance of their own."""
        part, column = self.judge.promise.parts[0], self.judge.column
        if self.judge.promise.metric == "record" or column is None or part.within is None:
            return None
        size = self.epsilon if math.isfinite(self.epsilon) else 1.0
        return guessing.worst_value(column, float(part.within), size)[0]

    @property
    def per_unit(self) -> float | None:
        """The epsilon of two values that differ by one, where a column has a metric of its own."""
        column = self.judge.column
        if self.judge.promise.metric == "record" or column is None:
            return None
        return self.epsilon / column.unit

    # Words --------------------------------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """What it means."""
        judge, currency = self.judge, self.judge.policy.budget.currency
        if not math.isfinite(self.epsilon):
            return f"Whatever is released, {judge.told()}: it was as likely before."
        if judge.promise.metric == "record":
            when = "when one person's rows are replaced by any others"
        else:
            name = judge.promise.parts[0].name
            when = f"over the whole range of {name}, in proportion to how far two values are apart"
        cost = f"{currency} {self.epsilon:.6g}"
        return f"If all releases together cost at most {cost} {when}, then {judge.told()}."

    def advice(self) -> list[str]:
        """What to type next."""
        currency = self.judge.policy.budget.currency
        said = [] if not self.passed else [self.passed]
        if not said and self.judge.promise.metric == "record" and math.isfinite(self.budget):
            less = "half" if currency == "epsilon" else "a quarter"
            said.append(
                f'To stay within it for every question, write {currency} = "{_down(self.budget)}" under '
                f"[budget] (a budget counts adding or removing a person: at least {less} of replacing one)."
            )
        if not self.passed:
            said.append("Or write the promise into the policy, which enforces it for every question:")
        return said

    @property
    def passed(self) -> str:
        """That what was released allows more already, in words; else nothing."""
        if not self.judge.is_broken(self.judge.limit, self.lost):
            return ""
        so_far = points(self.judge.gained(self.lost))
        return f"It can no longer be promised: what was released so far allows {so_far}."

    def section(self) -> str:
        """The promise as a section of a policy."""
        promise = self.judge.promise
        lines = ["[[promise]]"]
        if len(promise.parts) > 1:
            parts = ", ".join("{ " + ", ".join(_lines(part)) + " }" for part in promise.parts)
            lines += [f"parts = [{parts}]", f'goal = "{"any" if promise.either else "all"}"']
            lines += [f'joint = "{promise.joint}"'] if promise.joint else []
        else:
            lines += _lines(promise.parts[0])
        lines += [f'advantage = "{_number(promise.advantage)}"', f'metric = "{promise.metric}"']
        return "\n".join([*lines, *([f"group = {promise.group}"] if promise.group > 1 else [])])

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs; what is without limit is null."""
        currency = self.judge.policy.budget.currency

        def plain(value: float | None) -> float | None:
            return value if value is not None and math.isfinite(value) else None

        return {
            "secret": self.judge.secret,
            "advantage": float(self.judge.promise.advantage),
            "metric": self.judge.promise.metric,
            "on_average": self.judge.on_average,
            currency: plain(self.epsilon),
            "budget": plain(self.budget),
            "per_unit": plain(self.per_unit),
            "bounds": {name: plain(value) for name, value in self.bounds.items()},
            "sentence": self.sentence,
            "passed": self.passed,
        }

    def __repr__(self) -> str:
        promise, currency = self.judge.promise, self.judge.policy.budget.currency
        headers = ["bound", currency]
        rows = [[name, _shown(value)] for name, value in self.bounds.items()]
        if promise.metric == "manhattan" and self.judge.column is not None:
            headers.append("per unit")
            rows = [
                [*row, _shown(v / self.judge.column.unit)]
                for row, v in zip(rows, self.bounds.values(), strict=True)
            ]
        table = show.table(headers, rows, [True, False, False][: len(headers)])
        where = []
        if self.worst is not None:
            name = promise.parts[0].name
            where = [f"The bounds are those for a person whose {name} is {self.worst:g}, the worst case."]
        said = show.paragraphs([*where, self.sentence, *self.advice()])
        lines = [] if self.passed else ["", *(f"    {line}" for line in self.section().splitlines())]
        return "\n".join([table, "", *said, *lines])

    # A picture ----------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.picture()}"

    def picture(self) -> str:
        """Three panels as an SVG: what is gained against epsilon for several beliefs; what is believed before
        and after; what is gained for every true value."""
        panels = [self._curves(), self._bars(), self._heat()]
        drawn = "".join(
            f'<g transform="translate({n * WIDTH},24)">{panel}</g>' for n, panel in enumerate(panels)
        )
        title = html.escape(f"How much surer of {self.judge.secret}?")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * WIDTH} {HEIGHT + 24}" '
            'font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="white"/>'
            f'<text x="{EDGE}" y="18" font-size="14">{title}</text>{drawn}</svg>\n'
        )

    @property
    def _top(self) -> float:
        """The largest epsilon that is drawn."""
        return 2.5 * self.epsilon if math.isfinite(self.epsilon) and self.epsilon > 0 else 4.0

    def _gained(self, judge: Judge) -> Callable[[float], float]:
        record = judge.promise.metric == "record"
        zero = Fraction(0)
        if record:
            return lambda size: judge.gained((Fraction(size), zero, zero))
        return lambda size: judge.gained((zero, Fraction(size), zero))

    def _curves(self) -> str:
        """What is gained against epsilon: as believed, if all values were alike, and for the worst belief."""
        judge, top = self.judge, self._top
        named: list[tuple[str, Callable[[float], float]]] = [(_prior(judge), self._gained(judge))]
        if (even := _evenly(judge)) is not None:
            named.append(("uniform", self._gained(even)))
        if judge.promise.metric == "record" and not judge.on_average and judge.chances is not None:
            named.append(("worst case", lambda size: most(None, size * judge.promise.group)))
        sizes = [top * n / 24 for n in range(25)]
        lines = [(name, [of(size) for size in sizes]) for name, of in named]
        eta = float(judge.promise.advantage)
        high = min(1.0, 1.2 * max(eta, *(value for _, values in lines for value in values)))
        frame = _Frame(top, high, f"{judge.policy.budget.currency}", "surer by")
        drawn = [frame.line(sizes, values, LINES[n]) for n, (_, values) in enumerate(lines)]
        drawn += [
            f'<text x="{EDGE + 8}" y="{EDGE + 12 + 13 * n}" fill="{LINES[n]}">{html.escape(name)}</text>'
            for n, (name, _) in enumerate(lines)
        ]
        drawn.append(frame.line([0.0, top], [eta, eta], INK, dashed=True))
        if math.isfinite(self.epsilon) and self.epsilon > 0:
            drawn.append(frame.line([self.epsilon] * 2, [0.0, eta], INK, dashed=True))
            x, y = frame.at(self.epsilon, 0.0)
            drawn.append(f'<text x="{x + 3}" y="{y - 4}" fill="{INK}">{self.epsilon:.3g}</text>')
        return frame.drawn("what is gained", drawn)

    def _bars(self) -> str:
        """Before and after, for the true value about which most can be learned."""
        judge = self.judge
        labels, before, after = self._beliefs()
        peak = max([*before, *after, 1e-9])
        frame = _Frame(float(len(labels)), peak, "", "probability")
        drawn, wide = [], 1 / 2.6
        for n, (old, new) in enumerate(zip(before, after, strict=True)):
            for value, start, colour in ((old, 0.1, PALE), (new, 0.1 + wide, INK)):
                x, y = frame.at(n + start, value)
                base = frame.at(0.0, 0.0)[1]
                width = frame.at(wide, 0.0)[0] - frame.at(0.0, 0.0)[0]
                drawn.append(
                    f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{base - y:.1f}" fill="{colour}"/>'
                )
        step = max(1, math.ceil(len(labels) / 6))
        for n in range(0, len(labels), step):
            x, y = frame.at(n + 0.5, 0.0)
            drawn.append(
                f'<text x="{x}" y="{y + 13}" text-anchor="middle">{html.escape(labels[n][:8])}</text>'
            )
        told = "before (pale) and after, at the worst" if not judge.on_average else "before (pale) and after"
        return frame.drawn(told, drawn, ticks=False)

    def _beliefs(self) -> tuple[list[str], list[float], list[float]]:
        judge, part = self.judge, self.judge.promise.parts[0]
        size = self.epsilon if math.isfinite(self.epsilon) else 1.0
        record = judge.promise.metric == "record"
        column = judge.column
        if judge.on_average or column is None or part.within is None:
            p = self._worst_chance(size)
            after = min(p + float(judge.promise.advantage), 1.0)
            return ["right", "wrong"], [p, 1 - p], [after, 1 - after]
        reach = column.within(float(part.within))
        fixed, sloped = (size, 0.0) if record else (0.0, size)
        value = guessing.worst_value(column, float(part.within), sloped, record=fixed)[0]
        places = np.arange(column.size)
        at = column.place(value)
        inside = np.abs(places - at) <= reach
        tops = [at] if record else range(max(at - reach, 0), min(at + reach, column.size - 1) + 1)
        best = column.chances
        for top in list(tops)[:: max(1, len(tops) // 200)]:
            likely = np.exp(-column.rate(sloped) * np.abs(places - top) - fixed * ~inside) * column.chances
            likely = likely / likely.sum()
            if likely[inside].sum() >= best[inside].sum():
                best = likely
        cuts = np.arange(0, column.size, math.ceil(column.size / (2 * SEEN)))
        labels = [f"{column.low + column.step * int(cut):g}" for cut in cuts]
        sums = [np.add.reduceat(each, cuts).tolist() for each in (column.chances, best)]
        return labels, sums[0], sums[1]

    def _worst_chance(self, size: float) -> float:
        chances = self.judge.chances
        if not chances:
            return guessing.worst_chance(size)[0]
        if isinstance(chances, float):
            return min(chances, guessing.worst_chance(size)[0])
        return max(chances, key=lambda p: guessing.simplified(p, size) - p)

    def _heat(self) -> str:
        """What is gained for every true value (or every prior probability) and every epsilon."""
        judge, top, part = self.judge, self._top, self.judge.promise.parts[0]
        sizes = [top * (n + 1) / 16 for n in range(16)]
        column = judge.column
        if column is None or part.within is None or judge.on_average:
            low, high, told = 0.0, 1.0, "prior probability"
            spots = [(n + 0.5) / SEEN for n in range(SEEN)]

            def of(spot: float, size: float) -> float:
                return guessing.simplified(spot, size * judge.promise.group) - spot
        else:
            low, high = column.low, column.low + column.step * (column.size - 1)
            told = f"true {part.name}"
            spots = [low + (high - low) * n / (SEEN - 1) for n in range(SEEN)]
            record, within = judge.promise.metric == "record", float(part.within)

            def of(spot: float, size: float) -> float:
                fixed, sloped = (size, 0.0) if record else (0.0, size)
                assert column is not None
                return guessing.about(column, spot, within, sloped, record=fixed).advantage

        frame = _Frame(high - low, top, told, judge.policy.budget.currency)
        drawn = []
        across, up = (WIDTH - 2 * EDGE) / len(spots), (HEIGHT - 2 * EDGE) / len(sizes)
        shades = [[min(max(of(spot, size), 0.0), 1.0) for size in sizes] for spot in spots]
        darkest = max(max(column_) for column_ in shades) or 1.0
        for i, column_ in enumerate(shades):
            for j, shade in enumerate(column_):
                x, y = EDGE + i * across, HEIGHT - EDGE - (j + 1) * up
                drawn.append(
                    f'<rect x="{x:.2f}" y="{y:.2f}" width="{across:.2f}" height="{up:.2f}" '
                    f'fill="{INK}" fill-opacity="{shade / darkest:.2f}" shape-rendering="crispEdges"/>'
                )
        ends = f'<text x="{EDGE}" y="{HEIGHT - EDGE + 13}">{low:g}</text>'
        ends += f'<text x="{WIDTH - EDGE}" y="{HEIGHT - EDGE + 13}" text-anchor="end">{high:g}</text>'
        return frame.drawn(f"gained, up to {_percent(darkest)} (darkest)", [*drawn, ends], ticks=False)


@dataclass(frozen=True)
class _Frame:
    """The axes of a panel."""

    right: float
    top: float
    across: str
    up: str

    def at(self, x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE
        across = EDGE + wide * x / (self.right or 1.0)
        return round(across, 1), round(HEIGHT - EDGE - high * min(y / (self.top or 1.0), 1.0), 1)

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, *, dashed: bool = False) -> str:
        spots = " ".join(f"{x},{y}" for x, y in (self.at(*pair) for pair in zip(xs, ys, strict=True)))
        dash = ' stroke-dasharray="3 3"' if dashed else ""
        return f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>'

    def drawn(self, title: str, parts: Sequence[str], *, ticks: bool = True) -> str:
        base = HEIGHT - EDGE
        words = [
            f'<text x="{EDGE}" y="{EDGE - 10}" font-size="11">{html.escape(title)}</text>',
            f'<text x="{WIDTH - EDGE}" y="{base + 26}" text-anchor="end">{html.escape(self.across)}</text>',
            f'<text x="{EDGE - 4}" y="{EDGE + 4}" text-anchor="end">{self.top:.3g}</text>',
            f'<text x="{EDGE - 30}" y="{(EDGE + base) / 2:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 {EDGE - 30} {(EDGE + base) / 2:.0f})">{html.escape(self.up)}</text>',
        ]
        if ticks:
            words += [
                f'<text x="{self.at(self.right * n / 4, 0)[0]}" y="{base + 13}" text-anchor="middle">'
                f"{self.right * n / 4:.3g}</text>"
                for n in range(5)
            ]
        frame = f'<path d="M{EDGE},{EDGE}V{base}H{WIDTH - EDGE}" fill="none" stroke="#888"/>'
        return "".join([*parts, frame, *words])


def _gain(bounds: guessing.Bounds, name: str) -> float:
    found: float = getattr(bounds, name) - bounds.before
    return found


def _lines(part: PromisePart) -> list[str]:
    """A part as lines of a policy."""
    prior, day = part.prior, part.column.kind == "date"

    def value(number: Fraction | float) -> str:
        return str(datetime.date.fromordinal(int(number))) if day else _number(Fraction(number))

    found = [f'secret = "{part.name}"']
    found += [] if part.within is None else [f"within = {_number(part.within)}"]
    found += [] if part.above is None else [f"above = {value(part.above)}"]
    if prior.source is not None:
        found.append(f'prior = "{prior.source[0]}.{prior.source[1]}"')
    elif prior.kind == "normal":
        mean, deviation = prior.numbers[0]
        found.append(f"prior = {{ normal = [{value(mean)}, {deviation!r}] }}")
    elif prior.kind == "parts":
        told = ", ".join(f"[{value(a)}, {value(b)}, {weight!r}]" for a, b, weight in prior.numbers)
        found.append(f"prior = {{ parts = [{told}] }}")
    elif prior.kind == "weights":
        told = ", ".join(
            f"{json.dumps(_key(key), ensure_ascii=False)} = {weight!r}" for key, weight in prior.weights
        )
        found.append(f"prior = {{ weights = {{ {told} }} }}")
    else:
        found.append(f'prior = "{prior.kind}"')
    return found


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _number(value: Fraction) -> str:
    """A number in full, as a policy takes it."""
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


def _prior(judge: Judge) -> str:
    if judge.promise.joint:
        return judge.promise.joint
    prior = judge.promise.parts[0].prior
    told = ".".join(prior.source) if prior.source is not None else prior.kind
    return {"unknown": "worst case", "parts": "as declared", "weights": "as declared"}.get(told, told)


def _evenly(judge: Judge) -> Judge | None:
    """The same with a uniform belief, where that is another one and possible."""
    part = judge.promise.parts[0]
    if len(judge.promise.parts) > 1 or part.prior.kind == "uniform":
        return None
    column = part.column
    bounded = column.low is not None or column.since is not None
    if not (bounded if part.within is not None or part.above is not None else column.keys):
        return None
    even = replace(part, prior=replace(part.prior, kind="uniform", numbers=(), weights=(), source=None))
    return replace(judge, promise=replace(judge.promise, parts=(even,)))


def _shown(value: float) -> str:
    return "no limit" if not math.isfinite(value) else f"{value:.6g}"


def _down(value: float) -> str:
    """Three digits, rounded down."""
    if value <= 0:
        return "0"
    digits = 2 - math.floor(math.log10(value))
    return f"{math.floor(value * 10**digits) / 10**digits:.10g}"


@dataclass(frozen=True)
class Standing:
    """The promises of a database: what each allows, and how much of it is gone."""

    judges: Sequence[Judge]
    limits: Sequence[Limit]
    lost: SoFar
    total: Guarantee  # or what was spent, if that is more

    def as_dicts(self) -> list[dict[str, Any]]:
        """For programs; what has no limit is null."""
        found = []
        for judge, limit in zip(self.judges, self.limits, strict=True):
            fixed = max((corner[0] for corner in limit.corners), default=0)
            sloped = max((corner[1] for corner in limit.corners), default=0)
            found.append(
                {
                    "secret": judge.secret,
                    "promised": float(judge.promise.advantage),
                    "so_far": judge.gained(self.lost(judge.relation, judge.apart)),
                    "broken": judge.is_broken(limit, self.lost(judge.relation, judge.apart)),
                    "on_average": judge.on_average,
                    "metric": judge.promise.metric,
                    f"{self.total.currency}_replaced": None if fixed >= ALL else fixed / UNIT,
                    f"{self.total.currency}_over_the_range": None if sloped >= ALL else sloped / UNIT,
                }
            )
        return found

    def text(self) -> list[str]:
        """A table, and which promise sets the budget; nothing if there is none."""
        facts, currency = self.as_dicts(), self.total.currency
        if not facts:
            return []
        headers = ["secret", "promised", "so far at most", f"allows {currency}"]
        allowed = [each[f"{currency}_replaced"] for each in facts]
        rows = []
        for each, much in zip(facts, allowed, strict=True):
            told = "no limit" if much is None else _shown(much)
            if each["metric"] != "record":
                wide = each[f"{currency}_over_the_range"]
                told += f", or {'no limit' if wide is None else _shown(wide)} over its range"
            rows.append([each["secret"], _percent(each["promised"]), _percent(each["so_far"]), told])
        return [
            "",
            show.table(headers, rows, [True, False, False, False]),
            "",
            *show.paragraphs([self._setter(facts, allowed)]),
        ]

    def _setter(self, facts: list[dict[str, Any]], allowed: list[float | None]) -> str:
        currency, total = self.total.currency, float(self.total.amount)
        times = 4 if self.total.rho is not None else 2
        if broken := [each["secret"] for each in facts if each["broken"]]:
            return f"The promise about {broken[0]} is already broken, so every question is refused."
        limits = [
            (much, each["secret"]) for much, each in zip(allowed, facts, strict=True) if much is not None
        ]
        if not limits or min(limits)[0] >= times * total:
            return f"The budget is the tighter limit: {currency} {_down(total)} breaks no promise."
        much, secret = min(limits)
        least = _down(much / times)
        if much <= 0:
            return f"The promise about {secret} allows nothing: raise it, or give the budget less delta."
        return (
            f"The promise about {secret} is the tighter limit: it can apply once {currency} {least} of "
            f"{_down(total)} is spent, if every question has the highest cost of replacing a person: {times} "
            "times the cost of adding or removing one. With cheaper questions, more can be asked."
        )


def _percent(share: float) -> str:
    return points(share).partition(" ")[0] + "%"


def suggested(wanted: dict[str, Any], policy: Policy, read: Read, lost: SoFar) -> Suggestion:
    """What a promise in these words would come to."""
    judge = Judge(promise_of(wanted, policy.tables, policy.budget), policy, read)
    judge.check()
    return Suggestion(judge, lost(judge.relation, judge.apart))
