"""What a question costs and how good its answer will be, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator import show
from sfumato.curator.intervals import Errors
from sfumato.curator.release import reading_notes
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.plan import Expression, KeyOf, Mean, Measure

if TYPE_CHECKING:
    from sfumato.curator.calibrate import Query
    from sfumato.mechanisms import Additive, Guarantee, Step
    from sfumato.queries.plan import Plan
    from sfumato.queries.sensitivity import Derivation

EXAMPLE = 1000  # rows in a group, where an error depends on how many there are


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Price, expected error and derivation of a question. Making one reads no row."""

    question: str
    plan: Plan
    query: Query
    derivations: tuple[Derivation, ...]
    engine_sql: str
    paid: bool
    left: Guarantee

    @property
    def price(self) -> Guarantee:
        """What it proves when one unit comes or goes: what is charged."""
        return self.query.guarantee("presence")

    @property
    def replaced(self) -> Guarantee:
        """What it proves when one unit's rows are replaced: what speaks about values."""
        return self.query.guarantee("value")

    def errors(self) -> dict[str, str]:
        """For every column of the result, how far off it may be at 95%."""
        return {
            output.name: self._error(output.expression)
            for output in self.plan.outputs
            if not isinstance(output.expression, KeyOf)
        }

    def as_dict(self) -> dict[str, Any]:
        """The same facts for programs."""
        return {
            "question": self.question,
            **self.price.as_dict(),
            f"{self.price.currency}_replaced": decimal(self.replaced.amount),
            "free": self.paid,
            "left": decimal(self.left.amount),
            "groups": self.plan.size,
            "error_95": self.errors(),
            "measures": [
                {
                    "measure": describe(measure),
                    "mechanism": step.mechanism.name,
                    "noise": _noise(step, measure),
                    **_cost(step),
                    "because": list(derivation.because),
                }
                for measure, step, derivation in zip(
                    self.plan.measures, self.query.columns, self.derivations, strict=True
                )
            ],
            "notes": reading_notes(self.plan),
            "engine_sql": self.engine_sql,
        }

    def __repr__(self) -> str:
        facts = self.as_dict()
        price = f"{self.price}, of {facts['left']} left"
        if self.price.amount > self.left.amount or self.price.delta > self.left.delta:
            price += ": it would be refused"
        if self.paid:
            price = "free: a stored release answers it"
        lines = [
            f"  {self.question}",
            "",
            f"  price          {price}",
            f"  promise        a unit's presence: {self.price}; its values: {self.replaced}",
            f"  groups         {self.plan.size}",
            "  error at 95%",
        ]
        lines += [f"    {name}: {error}" for name, error in facts["error_95"].items()]
        for measure in facts["measures"]:
            lines += ["", f"  {measure['measure']}"]
            lines += show.paragraphs(measure["because"], indent=4)
            cost = next(f"{name} {measure[name]}" for name in ("epsilon", "rho") if name in measure)
            lines += [f"    {measure['noise']}, {cost}"]
        lines += ["", *show.paragraphs(facts["notes"]), "  No row was read and nothing was spent."]
        return "\n".join(lines)

    def _error(self, expression: Expression) -> str:
        tail = Fraction(1, 20) / (self.plan.size if self.plan.selects else 1)
        errors = Errors.of(self.plan, self.query)
        if isinstance(expression, Mean):
            # an average far from the centre also feels the noise of the count; take the farthest
            reach = max(expression.high - expression.centre, expression.centre - expression.low)
            weights = {
                expression.total: errors.steps[expression.total],
                expression.count: errors.steps[expression.count] * reach,
            }
            worst = min(
                float(errors.radius(weights, tail)) / EXAMPLE, float(expression.high - expression.low)
            )
            return f"at most about ± {worst:,.4g} for a group of {EXAMPLE:,} rows; the more rows, the smaller"
        radius = errors.width(expression, tail)
        if radius is None:
            return "depends on the data; the release states it"
        return f"± {show.number(float(radius), _places(radius))}"


def _cost(step: Step[Additive]) -> dict[str, str]:
    """What one step costs by itself: its epsilon, or a rho where it has none."""
    bound = step.bound()
    if bound.epsilon is not None:
        return {"epsilon": decimal(bound.epsilon)}
    return {"rho": decimal(bound.rho or Fraction(0))}


def _noise(step: Step[Additive], measure: Measure) -> str:
    """The noise in the units of the measure."""
    half = step.mechanism.noise.window(Fraction(1, 20))[-1] * measure.step
    return f"{step.mechanism.name} noise, 95% of it within ± {show.number(float(half), _places(half))}"


def _places(value: Fraction) -> int:
    return 0 if value.denominator == 1 else 3


def describe(measure: Measure) -> str:
    """A measure in SQL's words.

    >>> describe(Measure(None, None, 10))
    'COUNT(*)'
    """
    name = "*" if measure.field is None else measure.field.name
    if measure.clamp is None:
        return f"COUNT({name})"
    if not measure.clamp.centre:
        return f"SUM({name})"
    centre = float(measure.clamp.centre * measure.step)
    return f"SUM({name} - {centre:.12g})"
