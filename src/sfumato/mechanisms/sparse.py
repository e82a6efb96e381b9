"""The sparse vector technique: watch a long stream of answers and pay only for those above a threshold.

It rests on Dwork, Naor, Reingold, Rothblum and Vadhan (2009) and, for a version whose proof holds, on Lyu,
Su and Li (2017), who list the many published ones whose proof does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import ConversationEnded, InvalidParameter
from sfumato.exact import samplers
from sfumato.mechanisms.mechanism import Bound, Conversation, Distance, rational, set_fields
from sfumato.mechanisms.noise import FREE

if TYPE_CHECKING:
    from sfumato.exact.coins import Coins


@dataclass(frozen=True, slots=True)
class Watch:
    """Where a conversation stands: the noisy threshold, which stays secret, and how many alarms are left."""

    left: int
    threshold: int = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(Conversation[Watch, int, bool]):
    """Say of each whole-number answer whether it is above the threshold, until that was said `limit` times.

    Answers below cost nothing, however many they are. Each answer gets fresh noise; the threshold's noise is
    drawn once and never shown.

    Guarantee: pure DP, epsilon = linf / threshold_scale + 2 limit linf / answer_scale (half of the second if
    monotone: one person moves all answers the same way), linf the most one person can move any answer.
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
    monotone: bool = False

    def __post_init__(self) -> None:
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
    def at(
        cls, *, epsilon: Fraction, distance: Distance, threshold: int, limit: int, monotone: bool = False
    ) -> SparseVector:
        """The one that costs `epsilon`, split so that answer minus threshold varies least.

        The variance of the difference is least when the answers' share is (2 limit)^(2/3) times the
        threshold's (limit^(2/3) if monotone): Lyu, Su and Li (2017), section 4.2.
        """
        epsilon, linf = rational("epsilon", epsilon), distance.linf
        if not linf:
            raise InvalidParameter(
                "distance", linf, "give how much one person can move an answer: linf, above 0"
            )
        times = max(limit, 1) * (1 if monotone else 2)
        weight = Fraction(round(64 * times ** (2 / 3)), 64)  # any split is valid: a float may choose it
        share = epsilon / (1 + weight)
        return cls(
            threshold=threshold,
            threshold_scale=linf / share,
            answer_scale=times * linf / (epsilon - share),
            limit=limit,
            monotone=monotone,
        )

    def bound(self, distance: Distance) -> Bound:
        if distance.is_zero:
            return FREE
        if distance.linf is None:
            return Bound()
        times = self.limit * (1 if self.monotone else 2)
        return Bound(epsilon=distance.linf / self.threshold_scale + times * distance.linf / self.answer_scale)

    def start(self, coins: Coins) -> Watch:
        noise = samplers.discrete_laplace(self.threshold_scale, coins)
        return Watch(left=self.limit, threshold=self.threshold + noise)

    def reply(self, state: Watch, answer: int, coins: Coins) -> tuple[Watch, bool]:
        if state.left == 0:
            raise ConversationEnded(self.limit)
        above = answer + samplers.discrete_laplace(self.answer_scale, coins) >= state.threshold
        return (Watch(left=state.left - above, threshold=state.threshold), above)
