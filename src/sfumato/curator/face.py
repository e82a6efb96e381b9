"""What `sf.open` and `sf.connect` have in common: code that is written for one works with the other.

These are types only. A test asks both the same questions and compares what they say.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas
    import polars
    import pyarrow

    from sfumato.curator.within import Within
    from sfumato.mechanisms.guarantee import Guarantee, Number

Level = str | float | Fraction


class ReceiptFace(Protocol):
    """Proof of a charge."""

    @property
    def number(self) -> int:
        """Which one it is."""

    @property
    def head(self) -> str:
        """Of the ledger when it was charged."""

    @property
    def charged(self) -> Guarantee:
        """By asking now: zero if it was paid before."""


class ReleaseFace(Protocol):
    """A released table."""

    def rows(self, level: Level = ..., /) -> list[dict[str, Any]]:
        """Every row: key columns, and for each number `name`, `name_low`, `name_high`."""

    def df(self, level: Level = ..., /) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""

    def pl(self, level: Level = ..., /) -> polars.DataFrame:
        """The rows as a polars DataFrame."""

    def arrow(self, level: Level = ..., /) -> pyarrow.Table:
        """The rows as an Arrow table."""

    def csv(self, level: Level = ..., /) -> str:
        """The rows as CSV, with a header."""

    def table(self, level: Level = ..., /) -> str:
        """The numbers, for a terminal."""

    def text(self, level: Level = ..., /) -> str:
        """The same with notes."""

    def notes(self, level: Level = ..., /) -> list[str]:
        """What the numbers do not say by themselves."""

    def as_dict(self, level: Level = ..., /) -> dict[str, Any]:
        """The same facts, ready for JSON."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows()`."""

    @property
    def cost(self) -> Guarantee:
        """Charged by asking now: zero if the question was paid before."""

    @property
    def left(self) -> Guarantee:
        """What the analyst can still spend."""

    @property
    def guarantee(self) -> Guarantee:
        """What the release proves."""

    @property
    def receipt(self) -> ReceiptFace:
        """What was paid for it."""


class ReleasesFace(Protocol):
    """The releases of a batch."""

    def __iter__(self) -> Iterator[ReleaseFace]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ReleaseFace: ...

    @property
    def cost(self) -> Guarantee:
        """Charged for all of them by asking now."""


class ExplanationFace(Protocol):
    """What a question costs and how good its answer will be."""

    def as_dict(self) -> dict[str, Any]:
        """The facts."""


class QuestionFace(Protocol):
    """A question and its price. Looking at it never spends."""

    @property
    def text(self) -> str:
        """The question on one line."""

    def explain(self) -> ExplanationFace:
        """Price, error and derivation; free."""

    def release(self) -> ReleaseFace:
        """Spend the price and get the numbers; asking again is free."""


class BatchFace(Protocol):
    """Questions that are charged and released together."""

    def release(self) -> ReleasesFace:
        """Spend the price and get all the numbers; asking the same batch again is free."""


class BudgetFace(Protocol):
    """What was spent, and what is left."""

    @property
    def total(self) -> Guarantee:
        """Of the database."""

    @property
    def spent(self) -> Guarantee:
        """By everybody."""

    @property
    def left(self) -> Guarantee:
        """What can still be asked for, by everybody together."""

    def as_dict(self) -> dict[str, Any]:
        """The facts."""


class SuggestionFace(Protocol):
    """The epsilon that keeps a promise."""

    @property
    def epsilon(self) -> float:
        """What all releases together may cost if a person is replaced; infinite if there is no limit."""

    @property
    def budget(self) -> float:
        """What to write under [budget]."""

    @property
    def sentence(self) -> str:
        """What it means."""

    def as_dict(self) -> dict[str, Any]:
        """The facts."""


class DatabaseFace(Protocol):
    """A database that answers questions at a price."""

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = ...,
        rho: Number | None = ...,
        delta: Number | None = ...,
        tune: Number | None = ...,
        within: Within | None = ...,
        most: Number | None = ...,
        parameters: Sequence[Any] = ...,
        dialect: str = ...,
    ) -> QuestionFace:
        """A question at a price, or at that of an error that its numbers may have."""

    def batch(self, questions: Sequence[Any], /, *, delta: Number | None = ...) -> BatchFace:
        """Questions of this database that are fixed before the first answer, as one charge."""

    def suggest_epsilon(
        self, secret: str, *, advantage: str | float | Fraction, within: Number | None = ...
    ) -> SuggestionFace:
        """The epsilon that keeps everybody within this advantage; free."""

    @property
    def budget(self) -> BudgetFace:
        """Total, spent and left, as of now."""

    @property
    def left(self) -> Guarantee:
        """What whoever asks can still spend."""
