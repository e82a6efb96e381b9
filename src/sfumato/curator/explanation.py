"""What a question costs and how good its answer will be, from public facts alone."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from sfumato.curator import repairs, show
from sfumato.curator.curves import NOTHING, TAIL, TAILS, PriceCurve, drawn, in_terminal, prices_around
from sfumato.curator.forecast import FROM_NOISE, FROM_NOTHING
from sfumato.curator.intervals import Errors
from sfumato.curator.release import is_label, reading_notes
from sfumato.errors import SfumatoError
from sfumato.mechanisms import Additive, Geometric, Partition, QuantileIntervals, Quantiles
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.made import Atom
from sfumato.queries.measures import Spread
from sfumato.queries.shown import Chosen, Expression, Function, Mean, Within

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.calibrate import Calibration
    from sfumato.curator.forecast import Forecast
    from sfumato.mechanisms import Guarantee, Private, Step
    from sfumato.queries.made import Trace
    from sfumato.queries.measures import Measure
    from sfumato.queries.plan import Plan
    from sfumato.queries.sensitivity import Derivation

EXAMPLE = 1000  # rows in a group, where an error depends on how many there are


@dataclass(frozen=True, slots=True)
class Expected:
    """How far off a number may be, from public facts alone.

    By `noise`, whatever the data are; in a `mean`, at most about so much for a group of a thousand rows; a
    quantile by so many rows of its `rank`. What is `likely` rests on what is known of data.
    """

    radius: Fraction | float
    kind: Literal["noise", "mean", "rank", "likely"]


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Price, expected error and derivation of a question. Making one reads no row."""

    question: str
    plan: Plan
    query: Calibration
    derivations: tuple[Derivation, ...]
    engine_sql: str
    paid: bool
    left: Guarantee
    tuning: Guarantee | None = None  # what is first spent on caps that fit
    gains: tuple[str, ...] = ()  # how much surer of a secret it can make anybody, in sentences
    breaks: str = ""  # the promise that it would break
    repaired: tuple[int, ...] = ()  # receipts of answers to the same text, which were read wrongly
    too_small: str = ""  # what to type instead of its price, if that is below the least
    beside: tuple[Explanation, ...] = ()  # of the other questions of its text
    together: Guarantee | None = None  # the price of all of them
    before: tuple[str, ...] = ()  # what is measured first, in sentences
    expected: tuple[Forecast, ...] = ()  # errors, as far as they can be told without data
    wished: str = ""  # the error that was asked for, and its price
    aged: str = ""  # that what is known of tables is older than the data
    unmeasured: str = ""  # that it was not measured how much people have
    # the same question planned at another price, for its errors; that is free, too
    at: Callable[[Fraction], Explanation] | None = field(default=None, compare=False)

    @property
    def price(self) -> Guarantee:
        """What it proves when one unit comes or goes: what is charged."""
        if self.together is not None:
            return self.together
        price = self.query.guarantee("presence")
        return price if self.tuning is None else price.of(price.amount + self.tuning.amount, price.delta)

    @property
    def replaced(self) -> Guarantee:
        """What it proves when one unit's rows are replaced: what speaks about values."""
        price = self.query.guarantee("value")
        if self.together is not None:
            return price.of(price.amount + sum((each.replaced.amount for each in self.beside), Fraction(0)))
        if self.tuning is None:
            return price
        twice = 2 if self.tuning.rho is None else 4  # whoever is replaced goes, and somebody comes
        return price.of(price.amount + twice * self.tuning.amount, price.delta)

    def errors(self) -> dict[str, str]:
        """For every column of the result, how far off it may be at 95%."""
        if self.plan.outer is not None:
            return {
                column.name: self._error_above(column.trace)
                for column in self.plan.outer.query.columns
                if not column.end
                and (column.trace is not None or (column.noisy and column.kind in ("integer", "number")))
            }
        expected = {each.column: told for each in self.expected if (told := _expected(each))}
        return {
            output.name: expected.get(output.name) or self._error(output.expression)
            for output in self.plan.outputs
            if not is_label(output.expression)
        }

    def _error_above(self, trace: Trace | None) -> str:
        """How far off a number is that is made of released ones."""
        if trace is None:
            return "no interval: released numbers affect it in more than one way"
        if isinstance(trace, Atom) and not trace.many:
            return (self, *self.beside)[trace.question]._error(trace.expression)
        return "depends on the data; the release states it"

    def radii(self, tail: Fraction = TAIL) -> dict[str, Expected]:
        """The same as numbers, where they are known before the release: how far off each column is with
        probability at most `tail`."""
        found: dict[str, Expected | None] = {}
        if self.plan.outer is None:
            for output in self.plan.outputs:
                if not is_label(output.expression):
                    found[output.name] = self._radius(output.expression, 1, tail)
            far = NormalDist().inv_cdf(1 - float(tail) / 2) / NormalDist().inv_cdf(1 - float(TAIL) / 2)
            for each in self.expected:  # what is known of data counts for more than noise alone
                if each.error is not None and each.basis not in (FROM_NOISE, FROM_NOTHING):
                    found[each.column] = Expected(each.error * far, "likely")
        else:
            for column in self.plan.outer.query.columns:
                trace = column.trace
                if isinstance(trace, Atom) and not trace.many and not column.end:
                    asked = (self, *self.beside)[trace.question]
                    found[column.name] = asked._radius(trace.expression, 1, tail)
        return {name: each for name, each in found.items() if each is not None}

    # Pictures -----------------------------------------------------------------------------------------

    def picture(self, width: int = 64) -> str:
        """Error against price for a terminal. Drawing plans the question at other prices: it is free."""
        drawings = [in_terminal(each, width) for each in self._curves()]
        if not drawings:
            return f"  {NOTHING}"
        return "\n\n".join(drawings)

    def svg(self) -> str:
        """The same as SVG, one panel for each column whose error is known before the release."""
        return drawn(self.question, self._curves())

    def _curves(self) -> list[PriceCurve]:
        """The error of every column at prices around the one that is asked for."""
        here, left = self.price.amount, max(self.left.amount, Fraction(0))
        if not here:  # it shows nothing from the data
            return []
        tried: dict[Fraction, Explanation] = {}
        for amount in prices_around(here, left) if self.at is not None else ():
            assert self.at is not None
            with suppress(SfumatoError):  # at some prices it cannot be asked: they are left out
                other = self.at(amount)
                tried[other.price.amount] = other
        tried[here] = self
        found = [(price, [tried[price].radii(tail) for tail in TAILS]) for price in sorted(tried)]
        return [
            PriceCurve(
                name,
                expected.kind,
                self.price.currency,
                float(here),
                float(left),
                self.paid,
                tuple(
                    (float(price), tuple(_float(each[name].radius) for each in radii))
                    for price, radii in found
                    if all(name in each and each[name].kind == expected.kind for each in radii)
                ),
            )
            for name, expected in self.radii().items()
        ]

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "question": self.question,
            **self.price.as_dict(),
            f"{self.price.currency}_replaced": decimal(self.replaced.amount),
            "free": self.paid,
            "left": decimal(self.left.amount),
            "groups": self._groups(),
            "error_95": self.errors(),
            "measures": [
                {
                    "measure": measure.told,
                    "mechanism": step.mechanism.name,
                    "noise": _noise(step, measure),
                    **_cost(step),
                    "because": list(derivation.because),
                    "optimal": best_for(step, measure, each.plan),
                }
                for each in (self, *self.beside)
                for measure, step, derivation in zip(
                    each.plan.measures, each.query.steps, each.derivations, strict=True
                )
            ],
            "gains": list(self.gains),
            "breaks": self.breaks,
            **({"within": self.wished} if self.wished else {}),
            "too_small": self.too_small,
            "notes": [*self._repaired(), *self._tuned(), *self._about_tables(), *self._notes()],
            "engine_sql": self.engine_sql,
        }

    def __repr__(self) -> str:
        facts = self.as_dict()
        price = f"{self.price}, of {facts['left']} left"
        if self.price.amount > self.left.amount or self.price.delta > self.left.delta:
            price += ": it would be refused"
        elif self.too_small:
            price += f": it would be refused ({self.too_small})"
        elif self.breaks:
            price += ": it would be refused, because it would break a promise"
        if self.paid:
            price = "free: a stored release answers it"
        by_person = self.plan.relation.by_person
        who, rows = ("one person", "one person's rows") if by_person else ("one row", "one row")
        lines = [
            f"  {self.question}",
            "",
            *([f"  within         {self.wished}"] if self.wished else []),
            f"  price          {price}",
            f"  promise        {who} added or removed: {self.price}; {rows} replaced: {self.replaced}",
            f"  groups         {facts['groups']}",
            "  error at 95%",
        ]
        lines += [f"    {name}: {error}" for name, error in facts["error_95"].items()]
        for measure in facts["measures"]:
            lines += ["", f"  {measure['measure']}"]
            lines += show.paragraphs(measure["because"], indent=4)
            cost = next(f"{name} {measure[name]}" for name in ("epsilon", "rho") if name in measure)
            lines += [f"    {measure['noise']}, {cost}"]
            lines += show.paragraphs([measure["optimal"]] if measure["optimal"] else [], indent=4)
        lines += ["", *show.paragraphs(show.gains(self.gains))]
        lines += [*show.paragraphs(facts["notes"]), "  No row was read and nothing was spent."]
        return "\n".join(lines)

    def _groups(self) -> Any:
        found = ["private" if each.plan.private_keys else each.plan.lines for each in (self, *self.beside)]
        return found[0] if len(found) == 1 else ", ".join(map(str, found))

    def _notes(self) -> list[str]:
        return list(dict.fromkeys(note for each in (self, *self.beside) for note in reading_notes(each.plan)))

    def _about_tables(self) -> list[str]:
        return [f"{each}." for each in (self.aged, self.unmeasured) if each]

    def _repaired(self) -> list[str]:
        return [repairs.told(self.repaired)] if self.repaired else []

    def _tuned(self) -> list[str]:
        if self.before:
            told = "The answer may have other caps than declared; its intervals cover what these cut."
            if not any(each.basis and each.error is not None for each in self.expected):
                told = f"The errors here are those of noise alone, under the declared caps. {told}"
            return [f"It is measured how much people have: {'; '.join(self.before)}. {told}"]
        if self.tuning is None:
            return []
        return [
            f"{self.tuning} of the price is first spent on choosing caps. The distances and errors "
            "here are those without these caps; with them, errors are usually smaller."
        ]

    def _error(self, expression: Expression) -> str:
        if not self.plan.sets or self.plan.size == 1:
            return self._error_of(expression, 1)
        each, all_ = self._error_of(expression, 1), self._error_of(expression, self.plan.size)
        return f"{each}; {all_} in the total over all {self.plan.size:,} groups" if each != all_ else each

    def _error_of(self, expression: Expression, times: int) -> str:
        """How far off a number is that is made of so many groups, in words."""
        found = self._radius(expression, times, TAIL)
        if found is None:
            return "depends on the data; the release states it"
        if found.kind == "mean":
            return (
                f"at most about ± {found.radius:,.4g} for a group of {EXAMPLE:,} rows; "
                "the more rows, the smaller"
            )
        if found.kind == "rank":
            return f"within about {show.number(float(found.radius), 0)} rows of its rank"
        if found.radius > 1 << 1000:
            return "± more than a float can represent"
        return f"± {show.number(float(found.radius), _places(Fraction(found.radius)))}"

    def _radius(self, expression: Expression, times: int, tail: Fraction) -> Expected | None:
        """How far off a number is that is made of so many groups; None if that depends on the data."""
        if isinstance(expression, Chosen):
            return Expected(self._ranks_off(expression, tail), "rank")
        if isinstance(expression, Function):
            return None
        if self.plan.selects and not self.plan.private_keys:
            tail /= self.plan.lines
        errors = Errors.of(self.plan, self.query, times, sharing=None if times == 1 else times)
        if isinstance(expression, Mean):
            # what the noise of total - mean * count comes to, for the mean that feels it most
            radii = []
            for mean in (expression.low, expression.high):
                counts = {released: weight for weight, released in expression.count.terms}
                weights = {released: weight for weight, released in expression.total.terms}
                for released, weight in counts.items():
                    weights[released] = weights.get(released, Fraction(0)) - mean * weight
                radii.append(float(errors.radius(weights, tail)))
            worst = min(max(radii) / EXAMPLE, float(expression.high - expression.low))
            return Expected(worst, "mean")
        radius = errors.width(expression, tail)
        if radius is not None and isinstance(expression, Within):
            radius = min(radius, expression.high - expression.low)
        return None if radius is None else Expected(radius, "noise")

    def _ranks_off(self, chosen: Chosen, tail: Fraction) -> Fraction:
        """Within how many rows of its rank a quantile lies."""
        measure, step = self.plan.measures[chosen.measure], self.query.steps[chosen.measure]
        assert isinstance(measure, Spread)
        assert isinstance(step.mechanism, (QuantileIntervals, Quantiles))
        return step.mechanism.off(chosen.place, tail) / measure.whole


def _expected(forecast: Forecast) -> str:
    """An error that rests on what is known of the data, in words; nothing where noise alone decides it."""
    if forecast.error is None or forecast.basis in (FROM_NOISE, FROM_NOTHING):
        return ""
    much = f"about ± {show.sized(forecast.error)}"
    if forecast.relative is not None and forecast.relative < 10:
        much += f" ({show.sized(100 * forecast.relative)}%)"
    return f"{much}, {forecast.basis}"


def _cost(step: Step[Private]) -> dict[str, str]:
    """What one step costs by itself: its epsilon, or a rho where it has none."""
    bound = step.bound()
    delta = {"delta": decimal(bound.delta, 18)} if bound.delta else {}
    if bound.epsilon is not None:
        return {"epsilon": decimal(bound.epsilon), **delta}
    return {"rho": decimal(bound.rho or Fraction(0))}


def best_for(step: Step[Private], measure: Measure, plan: Plan) -> str:
    """For whom no mechanism of this price is better, if that is proved; else nothing.

    One number that one unit moves by at most one step is a path of answers: there the geometric mechanism is
    the best for everybody (`sfumato.utility.optimal.universal`), among those that look at this number alone.
    Where a unit moves it further, answers form no path; of several numbers, a mechanism that looks at all of
    them may serve somebody better.
    """
    distance = step.distances.presence
    alone = not plan.private_keys and not plan.sets and len(plan.measures) == plan.size * measure.cells == 1
    if alone and isinstance(step.mechanism, Geometric) and distance.l1 == 1 and measure.one == 1:
        return (
            "no mechanism at this price that uses this number alone is better for any analyst: one person "
            "changes it by one step at most, so geometric noise is best for every belief about it and every "
            "gain that falls with distance, after the best remap (release.guesses)"
        )
    return ""


def _noise(step: Step[Private], measure: Measure) -> str:
    """The noise in the units of the measure, or how something is chosen."""
    mechanism = step.mechanism
    if isinstance(mechanism, Additive):
        half = mechanism.noise.window(Fraction(1, 20))[-1] * measure.one
        cells = "" if measure.cells == 1 else f" in each of {measure.cells} cells"
        return f"{mechanism.name} noise{cells}, 95% of it within ± {show.number(float(half), _places(half))}"
    if isinstance(mechanism, Partition):
        return f"a group of {mechanism.half} people is shown half of the time"
    return f"chosen by the exponential mechanism ({mechanism.name})"


def _float(radius: Fraction | float) -> float:
    return float(radius) if radius < 1 << 1000 else math.inf


def _places(value: Fraction) -> int:
    return 0 if value.denominator == 1 else 3
