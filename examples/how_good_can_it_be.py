"""How good can a count be at one epsilon? `python examples/how_good_can_it_be.py` compares five mechanisms.

Ten people answer yes or no; the answer is a count from 0 to 10, and every count is as likely as any other.
All mechanisms keep epsilon ln 2 between a count and the next. Two readers make the best of each: one wants
the right answer, the other wants to be near it. Needs the extra `optimal`, for linear programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from sfumato.exact import numbers
from sfumato.mechanisms import Table
from sfumato.utility.gain import Gain, identity, nearness, uniform, utility
from sfumato.utility.leakage import capacity, min_capacity, vulnerability
from sfumato.utility.optimal import optimal, path

if TYPE_CHECKING:
    from collections.abc import Hashable

Y = TypeVar("Y", bound="Hashable")

ANSWERS = range(11)
NEIGHBOURS = path(ANSWERS)  # one person moves the count by 1
EPSILON = numbers.log(2).low
BELIEF = uniform(ANSWERS)
RIGHT, NEAR = identity(ANSWERS), nearness(ANSWERS)
CLOSE = 1e-4  # a program is solved for 1/100,000 less than epsilon, so its table is a little below the best


@dataclass(frozen=True, slots=True)
class Row:
    """What there is to say about one mechanism."""

    name: str
    epsilon: float
    right: float
    distance: float
    leaked: float
    bits: float


def responses() -> Table[int, int]:
    """The true count with weight 2, every other one with weight 1."""
    return Table.of(ANSWERS, lambda x: {y: Fraction(1 + (x == y), 12) for y in ANSWERS})


def exponential() -> Table[int, int]:
    """Counts in proportion to exp(-epsilon distance / 2), as the theorem on it asks."""
    return Table.renormalised(ratio=numbers.round_up(numbers.exp(-EPSILON / 2).high, 64), size=len(ANSWERS))


def by_program(gain: Gain[int, int]) -> Table[int, Hashable]:
    """The best table for a gain, from a linear program."""
    return optimal(BELIEF, gain, epsilon=EPSILON, neighbours=NEIGHBOURS, program=True).table


def row(name: str, table: Table[int, Y]) -> Row:
    worst = table.worst(NEIGHBOURS).epsilon
    assert worst is not None
    right, near = (float(utility(table, BELIEF, gain)) for gain in (RIGHT, NEAR))
    return Row(name, float(worst), right, -near, float(min_capacity(table)), capacity(table).low)


def compared() -> list[Row]:
    """The five mechanisms."""
    return [
        row("truncated geometric", Table.geometric(ratio=Fraction(1, 2), size=len(ANSWERS))),
        row("program, to be right", by_program(RIGHT)),
        row("program, to be near", by_program(NEAR)),
        row("exponential", exponential()),
        row("randomized response", responses()),
    ]


def main() -> None:
    most_right = optimal(BELIEF, RIGHT, epsilon=EPSILON, neighbours=NEIGHBOURS).bound
    least_far = -optimal(BELIEF, NEAR, epsilon=EPSILON, neighbours=NEIGHBOURS).bound
    print("A count from 0 to 10 at epsilon ln 2 = 0.6931; every count is as likely as any other.\n")
    heads = (" " * 22, "own", "chance to", "mean", "guessing", "Shannon", "best for who wants")
    under = (f"{'mechanism':22}", "epsilon", "be right", "distance", "eased by", "bits", "it right, near")
    for name, *columns, last in (heads, under):
        print(name + "".join(f"{column:>10}" for column in columns) + "   " + last)
    for each in compared():
        best = (each.right > most_right - CLOSE, each.distance < least_far + CLOSE)
        said = ", ".join("yes" if good else "no" for good in best)
        shown = (each.epsilon, each.right, each.distance, each.leaked, each.bits)
        print(f"{each.name:22}" + "".join(f"{number:10.4f}" for number in shown) + "   " + said)
    right, far = (float(vulnerability(BELIEF, gain)) for gain in (RIGHT, NEAR))
    print(f"{'nothing released':22}{0:10.4f}{right:10.4f}{-far:10.4f}{1:10.4f}{0:10.4f}")
    print(f"{'nothing is better than':32}{most_right:10.4f}{least_far:10.4f}")
    print(
        "\nThe two programs know nothing of geometric noise, and find it: on a path it is the best for both."
        "\nThe exponential mechanism is charged ln 2 by its theorem, which assumes the worst of the sum it"
        "\ndivides by; its own epsilon is less, and so is its use."
        "\nRandomized response hides distant counts from each other as well as neighbours. Nobody asked for"
        "\nthat, and to those who want to be near it is worth no more than no release."
    )


if __name__ == "__main__":
    main()
