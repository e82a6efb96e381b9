"""The experiment behind composition: an adversary, two worlds, and what she sees.

In each round the adversary, who has seen all answers so far, names a mechanism and two neighbouring inputs.
In world 0 the mechanism is run on the first, in world 1 on the second; she sees the output. After k rounds
she guesses the world (Dwork, Rothblum and Vadhan, 2010; Dwork and Roth, 2014, section 3.5.1). Composition
theorems bound how far apart her views can be, whatever she does. Here the game can be played, and for
mechanisms with finitely many outputs all its views be written down with their exact probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter
from sfumato.exact import numbers
from sfumato.mechanisms.mechanism import Finite, Mechanism

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins

View = tuple[Any, ...]  # the outputs so far


@dataclass(frozen=True, slots=True)
class Round:
    """A mechanism and two neighbouring inputs."""

    mechanism: Mechanism[Any, Any]
    zero: Any
    one: Any


Adversary = Callable[[View], Round | None]  # what she does next; None when she has seen enough


def play(adversary: Adversary, world: int, coins: Coins) -> View:
    """One game: what she sees in this world.

    >>> from sfumato.exact.coins import SystemCoins
    >>> from sfumato.mechanisms import RandomizedResponse
    >>> coin = Round(RandomizedResponse.two_coins(), 0, 1)
    >>> len(play(lambda view: coin if len(view) < 3 else None, 1, SystemCoins()))
    3
    """
    view: View = ()
    while (move := adversary(view)) is not None:
        answer = move.one if world else move.zero
        view = (*view, move.mechanism.law(answer).draw(coins))
    return view


@dataclass(frozen=True, slots=True)
class Views:
    """Every view the game can end with, and its probability in either world."""

    chances: dict[View, tuple[Fraction, Fraction]]

    def delta(self, epsilon: Fraction) -> Fraction:
        """The smallest delta that separates the worlds at this epsilon, in the worse order, rounded down."""
        factor = numbers.exp(epsilon).high

        def beyond(order: int) -> Fraction:
            sides = ((pair[order], pair[1 - order]) for pair in self.chances.values())
            return sum((max(a - factor * b, Fraction(0)) for a, b in sides), Fraction(0))

        return max(beyond(0), beyond(1))

    @property
    def advantage(self) -> Fraction:
        """How much better than a coin the best guess of the world is, times two: the total variation."""
        return sum((max(a - b, Fraction(0)) for a, b in self.chances.values()), Fraction(0))


def views(adversary: Adversary) -> Views:
    """All views of an adversary whose mechanisms have finitely many outputs, exactly.

    >>> from sfumato.mechanisms import RandomizedResponse
    >>> coin = Round(RandomizedResponse.two_coins(), 0, 1)
    >>> views(lambda view: coin if len(view) < 2 else None).advantage
    Fraction(1, 2)
    """
    done: dict[View, tuple[Fraction, Fraction]] = {}
    open_views: dict[View, tuple[Fraction, Fraction]] = {(): (Fraction(1), Fraction(1))}
    while open_views:
        view, (zero, one) = open_views.popitem()
        if (move := adversary(view)) is None:
            done[view] = (zero, one)
            continue
        left, right = move.mechanism.law(move.zero), move.mechanism.law(move.one)
        if not isinstance(left, Finite) or not isinstance(right, Finite):
            name = move.mechanism.name
            raise InvalidParameter("mechanism", name, "it has infinitely many outputs: use play() instead")
        for output in dict.fromkeys((*left.outcomes, *right.outcomes)):
            open_views[(*view, output)] = (zero * left.mass(output), one * right.mass(output))
    return Views(done)
