"""What stands behind a policy: its source, its ledger, its promises; who asks, and at which pace."""

from __future__ import annotations

import copy
import datetime
import zoneinfo
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from sfumato.budget.ledger.entries import SECOND
from sfumato.budget.ledger.shares import check_printable
from sfumato.curator.names import Names
from sfumato.curator.promises import judges_of
from sfumato.curator.said import Said
from sfumato.queries.rewrite import rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from sfumato.budget import Ledger
    from sfumato.curator.path import Pace
    from sfumato.exact.coins import Coins
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.asking import Measuring
    from sfumato.queries.declared import Measured
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.sensitivity import Watched
    from sfumato.sources.halt import Halt
    from sfumato.sources.source import Source

    Pacing = Callable[..., AbstractContextManager[Halt | None]]


class Keeper:
    """All that a question needs. `pacing` gets the number of a charge and the plans that are run for it."""

    pacing: Pacing = staticmethod(lambda *_: nullcontext())
    is_for_anybody = False  # whether it is not said yet who asks

    def __init__(
        self, policy: Policy, source: Source, ledger: Ledger, coins: Coins, analyst: str = ""
    ) -> None:
        self.policy, self.ledger, self.analyst = policy, ledger, analyst
        self.source, self.coins = source, coins
        self.names = Names.of(policy, ledger.path)
        self.measured: dict[str, tuple[Measured, int]] = {}  # what is known of tables, and how old it is
        self.judges = judges_of(policy, source.counted)
        known = ledger.promises()
        ledger.promise(tuple(judge.as_known(known) for judge in self.judges))

    def on_behalf_of(self, analyst: str, pacing: Pacing | None = None) -> Self:
        """The same database, engine and ledger, asked by somebody else, and perhaps at another pace."""
        check_printable(analyst)
        other = copy.copy(self)
        other.analyst, other.is_for_anybody = analyst, False
        other.pacing = pacing or self.pacing
        return other

    @property
    def for_anybody(self) -> Self:
        """The same, where it is not said yet who asks: then nothing counts that somebody has paid for."""
        other = copy.copy(self)
        other.is_for_anybody = True
        return other

    def has_paid(self, analyst: str) -> bool:
        """Whether what was charged to this name was paid by whoever asks now."""
        return not self.is_for_anybody and analyst == self.analyst

    @property
    def owner(self) -> Self:
        """The same, asked by its owner: who pays for what serves everybody."""
        other = copy.copy(self)
        other.analyst = ""
        return other

    def pace(self, plans: tuple[Plan, ...]) -> Pace:
        """What goes on around the work for these plans."""
        return lambda number: self.pacing(number, *plans)

    @property
    def measuring(self) -> Measuring:
        """How aggregates are measured, so that promises about a column's own distance are kept."""
        return partial(rewrite, watched=[(each.table, each.column.name) for each in self.watched])

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The columns that some promise measures by their own distance."""
        found = [judge.watched for judge in self.judges]
        return tuple(dict.fromkeys(each for each in found if each is not None))

    @property
    def said(self) -> Said:
        """What the policy says beside what is spent and enforced: what is broken, and what is still kept."""
        return Said(self.policy, self.ledger, self.judges)

    @property
    def left(self) -> Guarantee:
        """What whoever asks can still spend: of the total, and of a share if there is one."""
        return self.ledger.left_for(self.analyst)

    @property
    def today(self) -> datetime.date:
        """The day, where the policy says, by the clock of the ledger: what CURRENT_DATE means in a question
        that is asked now."""
        zone = self.policy.time_zone
        where = zoneinfo.ZoneInfo(zone) if zone else datetime.UTC
        return datetime.datetime.fromtimestamp(self.ledger.chain.now() / SECOND, where).date()

    def alike(self, table: str, column: str) -> int:
        """How many rows of a public table have the same value of a column, at most; of none, its rows."""
        return self.source.alike(table, column)

    def check_version(self) -> None:
        """Refuse, before anything is charged, to answer from a copy of data that changed."""
        self.source.check_version()
