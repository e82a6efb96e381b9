"""By which names a database knows its questions: those of today, and those under which they were stored."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sfumato.queries import former, forms, notation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.mechanisms import Guarantee
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy


class Named(Protocol):
    """What has a name."""

    @property
    def key(self) -> str:
        """The name."""

    @property
    def sense(self) -> str:
        """What it means, in whatever place it is asked: it has no other name where a name changes."""


@dataclass(frozen=True, slots=True)
class Names:
    """Two databases that share a ledger must not share releases: so the place of the data is part of a name.

    The first place is written, and all are looked up: what the policy calls its source, if it does, and where
    the data lie.
    """

    policy: Policy
    places: tuple[str, ...]
    formerly: str  # the identity of a database in names of before

    @classmethod
    def of(cls, policy: Policy, ledger: Path) -> Names:
        """The names of a database whose ledger is kept, or remembered, there."""
        lies = os.path.relpath(policy.database.resolve(), ledger.parent.resolve())  # survives moving both
        if isinstance(policy.ledger, str):  # on a server: other machines have such paths, too
            lies = f"{platform.node()}\n{policy.database.resolve()}"
        places = [f"called\n{policy.called}"] if policy.called else []
        return cls(policy, (*places, f"lies at\n{lies}"), f"{former.policy_hash(policy)}\n{lies}")

    def keys(self, plan: Plan, tune: Guarantee | None, reading: int = notation.READING) -> tuple[str, ...]:
        """The names of a question, as it is before caps that we choose: of today, or of before."""
        paid = "" if tune is None else str(tune.amount)
        return tuple(
            forms.question(plan, self.policy, place, tune=paid, reading=reading) for place in self.places
        )

    def former(self, plan: Plan) -> str:
        """What a question was called, with the caps it had."""
        return former.question(plan, self.formerly)


def order(questions: Sequence[Named]) -> tuple[int, ...]:
    """The places of questions in an order of their own, which stays where their names change."""
    return tuple(sorted(range(len(questions)), key=lambda i: (questions[i].sense, questions[i].key)))


def batch(keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of questions together, from those of each."""
    return tuple(notation.digest(["batch", *together]) for together in zip(*keys, strict=True))
