"""The sparse vector technique: watch a long stream of answers and pay only for those above a threshold.

It rests on Dwork, Naor, Reingold, Rothblum and Vadhan (2009) and, for a version whose proof holds, on Lyu,
Su and Li (2017), who list the many published ones whose proof does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NoReturn

from sfumato.errors import ConversationEnded, InvalidParameter
from sfumato.exact import samplers
from sfumato.mechanisms.arguments import price, rational, set_fields, whole, whole_vector
from sfumato.mechanisms.distance import Bound, Distance
from sfumato.mechanisms.mechanism import Conversation, ForIntegers
from sfumato.mechanisms.noise import needed

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins


class ConversationState:
    """Where a conversation stands. Good for one reply of its own mechanism; not shown, copied or stored.

    It holds the noisy threshold, which stays secret; a second reply from the same state would be one that
    nobody paid for.
    """

    __slots__ = ("_left", "_owner", "_threshold", "_unused")

    def __init__(self, owner: SparseVector, left: int, threshold: int) -> None:
        self._owner, self._left, self._threshold = owner, left, threshold
        self._unused = [True]  # taken by list.pop, which lets only one thread have it

    @property
    def left(self) -> int:
        """How many more times the conversation may say "above"."""
        return self._left

    def take(self, owner: SparseVector) -> int:
        """The noisy threshold, once, for the mechanism that drew it."""
        if owner != self._owner:
            raise InvalidParameter(
                "state", self, "it belongs to another mechanism: start one with this mechanism"
            )
        if self._left <= 0:
            raise ConversationEnded(owner.limit)
        try:
            self._unused.pop()
        except IndexError:
            raise InvalidParameter(
                "state", self, "it was already used: continue from the state of the last reply"
            ) from None
        return self._threshold

    def __repr__(self) -> str:
        return f"Watch(left={self._left})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a conversation cannot be copied or stored: a lost state ends it")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(ForIntegers, Conversation[ConversationState, int, bool]):
    """Say of each whole-number answer whether it is above the threshold, until that was said `limit` times.

    Answers below cost nothing, however many they are. Each answer gets fresh noise; the threshold's noise is
    drawn once and never shown.

    Guarantee: pure DP, epsilon = linf / threshold_scale + 2 limit linf / answer_scale, linf the most one
    person can move any answer; half of the second term if the distance is monotone.
    Proof: docs/explanation/sparse-vector.md#guarantee (Lyu, Su and Li, 2017, theorems 2 and 5).

    >>> one = Distance(linf=Fraction(1))
    >>> SparseVector.at(epsilon=Fraction(1), distance=one, threshold=100, limit=1).bound(one).epsilon
    Fraction(1, 1)
    """

    name: ClassVar[str] = "sparse vector"
    threshold: int
    threshold_scale: Fraction
    answer_scale: Fraction
    limit: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            threshold=whole("threshold", self.threshold),
            limit=whole("limit", self.limit, least=1),
            threshold_scale=rational("threshold_scale", self.threshold_scale),
            answer_scale=rational("answer_scale", self.answer_scale),
        )
        if self.limit < 1:
            raise InvalidParameter(
                "limit", self.limit, "give how many answers above the threshold, at least 1"
            )

    @classmethod
    def at(cls, *, epsilon: Fraction, distance: Distance, threshold: int, limit: int) -> SparseVector:
        """The one that costs `epsilon`, split so that answer minus threshold varies least.

        The variance of the difference is least when the answers' share is (2 limit)^(2/3) times the
        threshold's (limit^(2/3) if monotone): Lyu, Su and Li (2017), section 4.2.
        """
        epsilon, linf = price("epsilon", epsilon), needed("linf", distance.for_integers().linf)
        times = whole("limit", limit, least=1) * (1 if distance.monotone else 2)
        rational("limit", times)
        weight = Fraction(round(64 * times ** (2 / 3)), 64)  # any split is valid: a float may choose it
        share = epsilon / (1 + weight)
        return cls(
            threshold=threshold,
            threshold_scale=linf / share,
            answer_scale=times * linf / (epsilon - share),
            limit=limit,
        )

    def _bound(self, distance: Distance) -> Bound:
        if distance.linf is None:
            return Bound()
        times = self.limit * (1 if distance.monotone else 2)
        return Bound(epsilon=distance.linf / self.threshold_scale + times * distance.linf / self.answer_scale)

    def start(self, coins: Coins) -> ConversationState:
        noise = samplers.discrete_laplace(self.threshold_scale, coins)
        return ConversationState(self, self.limit, self.threshold + noise)

    def reply(self, state: ConversationState, answer: int, coins: Coins) -> tuple[ConversationState, bool]:
        exact = whole_vector((answer,))[0]
        threshold = state.take(self)
        above = exact + samplers.discrete_laplace(self.answer_scale, coins) >= threshold
        return ConversationState(self, state.left - above, threshold), above
