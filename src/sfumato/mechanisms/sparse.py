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
from sfumato.mechanisms.mechanism import (
    Bound,
    Conversation,
    Distance,
    price,
    rational,
    set_fields,
    whole,
    whole_vector,
)
from sfumato.mechanisms.noise import FREE

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins


class Watch:
    """Where a conversation stands. Good for one reply, and neither shown, copied nor stored.

    It holds the noisy threshold, which stays secret; a second reply from the same state would be one that
    nobody paid for.
    """

    __slots__ = ("_threshold", "_used", "left")

    def __init__(self, left: int, threshold: int) -> None:
        self.left, self._threshold, self._used = left, threshold, False

    def __repr__(self) -> str:
        return f"Watch(left={self.left})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a conversation cannot be copied or stored: a lost state ends it")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(Conversation[Watch, int, bool]):
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
        whole("threshold", self.threshold)
        whole("limit", self.limit, least=1)
        set_fields(
            self,
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
        epsilon, linf = price("epsilon", epsilon), distance.linf
        if not linf:
            raise InvalidParameter(
                "distance", linf, "give how much one person can move an answer: linf, above 0"
            )
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

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        if distance.linf is None:
            return Bound()
        times = self.limit * (1 if distance.monotone else 2)
        return Bound(epsilon=distance.linf / self.threshold_scale + times * distance.linf / self.answer_scale)

    def start(self, coins: Coins) -> Watch:
        noise = samplers.discrete_laplace(self.threshold_scale, coins)
        return Watch(self.limit, self.threshold + noise)

    def reply(self, state: Watch, answer: int, coins: Coins) -> tuple[Watch, bool]:
        if state.left <= 0:
            raise ConversationEnded(self.limit)
        if state._used:
            raise InvalidParameter(
                "state", state, "it was used before: go on from the state of the last reply"
            )
        (exact,) = whole_vector((answer,))
        state._used = True
        above = exact + samplers.discrete_laplace(self.answer_scale, coins) >= state._threshold
        return Watch(state.left - above, state._threshold), above
