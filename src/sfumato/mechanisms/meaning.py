"""What a guarantee means for somebody's beliefs: the Bayesian reading of differential privacy.

An observer holds a prior over secrets, sees an output, and updates. Under epsilon-differential privacy
between *all* pairs of secrets (replacement: any value against any other) no belief grows by a factor beyond
e^epsilon, and that is all it promises: about what is learned from a person's own row, never about what is
true of people at large.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.arguments import exact, price, rational

if TYPE_CHECKING:
    from sfumato.exact.numbers import Interval
    from sfumato.mechanisms.table import Table

X = TypeVar("X", bound=Hashable)
Y = TypeVar("Y", bound=Hashable)
V = TypeVar("V", bound=Hashable)


def posterior(table: Table[X, Y], prior: Mapping[X, Fraction], output: Y) -> dict[X, Fraction]:
    """The observer's belief about the secret after seeing the output (Bayes' rule, exactly).

    >>> from sfumato.mechanisms import Table
    >>> coin = Table(rows=((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
    >>> posterior(coin, {0: Fraction(1, 2), 1: Fraction(1, 2)}, 1)[1]
    Fraction(3, 4)
    """
    _check_prior(prior)
    if output not in table.outputs:
        raise InvalidParameter("output", output, "give one of the table's outputs")
    joint = {secret: weight * table.law(secret).mass(output) for secret, weight in prior.items()}
    whole = sum(joint.values())
    if whole == 0:
        raise InvalidParameter(
            "output", output, "it has probability 0 under this prior, so there is no posterior"
        )
    return {secret: weight / whole for secret, weight in joint.items()}


def belief(beliefs: Mapping[X, Fraction], event: Mapping[X, V], value: V) -> Fraction:
    """How strongly somebody believes that the secret has this value of a property."""
    return sum((weight for secret, weight in beliefs.items() if event[secret] == value), Fraction(0))


def largest_gain(table: Table[X, Y], prior: Mapping[X, Fraction]) -> Fraction:
    """The largest factor by which any output raises the belief in any single secret.

    >>> from sfumato.mechanisms import Table
    >>> coin = Table(rows=((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
    >>> largest_gain(coin, {0: Fraction(1, 10), 1: Fraction(9, 10)})  # 3 / (1/10 3 + 9/10)
    Fraction(5, 2)
    """
    _check_prior(prior)
    best = Fraction(0)
    for output in table.outputs:
        joint = {
            secret: weight * table.law(secret).mass(output) for secret, weight in prior.items() if weight
        }
        if whole := sum(joint.values()):
            best = max(best, max(joint[secret] / whole / prior[secret] for secret in joint))
    return best


def ceiling(*, epsilon: Fraction, prior: Fraction) -> Interval:
    """The largest belief an epsilon-private mechanism can lead to, from this prior belief in a value.

    prior e^epsilon / (prior e^epsilon + 1 - prior), attained by randomized response. The factor of growth
    e^epsilon / (prior e^epsilon + 1 - prior) comes close to e^epsilon only for values believed unlikely.

    >>> float(ceiling(epsilon=Fraction(1), prior=Fraction(1, 2)).high)
    0.7310585786300049
    """
    odds = numbers.exp(price("epsilon", epsilon, zero=True))
    prior = rational("prior", prior)
    if prior >= 1:
        raise InvalidParameter("prior", prior, "take a probability strictly between 0 and 1")
    believed = odds * prior
    return (believed / (believed + (1 - prior))).narrowed()


def _check_prior(prior: Mapping[X, Fraction]) -> None:
    weights = [exact("prior", weight) for weight in prior.values()]
    if not weights or min(weights) < 0 or sum(weights) != 1:
        raise InvalidParameter("prior", f"sum {sum(weights)}", "probabilities are Fractions that add up to 1")
