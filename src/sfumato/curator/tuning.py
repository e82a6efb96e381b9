"""Spending a small part of the budget on caps that fit: `sfumato tune`, and questions that pay for their own.

Noisy histograms over people are released like any other answer (`path`), hence public; `caps` chooses from
them, for free, and `section` writes them into the policy.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.caps import ROWS, TOTALS, tuned_by
from sfumato.curator.question import Question, asked, planned
from sfumato.curator.release import Cell
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries.cells import Clamp
from sfumato.queries.columns import domain_of
from sfumato.queries.declared import Measured, TunedColumn, Tuning, heading, in_toml
from sfumato.queries.expressions import Field, clamped
from sfumato.queries.measures import Octaves
from sfumato.queries.plan import Plan
from sfumato.queries.statement import parse, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sfumato.curator.keeper import Keeper
    from sfumato.curator.release import Release
    from sfumato.mechanisms.guarantee import Number
    from sfumato.queries.declared import DeclaredColumn, DeclaredTable
    from sfumato.queries.relations import Relation
    from sfumato.queries.statement import Statement


def tune(
    keeper: Keeper,
    table: str,
    spend: Guarantee,
    columns: Iterable[str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Tuning, tuple[int, ...]]:
    """Spend once on how much people have, so that caps can fit; what was released, and its receipts.

    Two fifths of the price go to rows, the rest to columns: a quarter of each column's part to its centre,
    the rest to totals.
    """
    found = keeper.policy.table(table)
    known = [each.name for each in keeper.policy.tables if each.rows_per_person is not None]
    if found is None or found.rows_per_person is None:
        raise InvalidParameter(
            "table",
            table,
            f"name a table with rows_per_person: {', '.join(known) or 'there is none'}",
        )
    bounded = [c.name for c in found.columns if c.low is not None and not c.tuned]
    wanted = bounded if columns is None else list(columns)
    for name in wanted:
        if name not in bounded:
            raise InvalidParameter("columns", name, f"name columns with bounds: {', '.join(bounded)}")
    each = Fraction(0) if not wanted else spend.amount * 3 / 5 / len(wanted)
    progress(f"{found.name}: rows")
    rows, receipt = _histogram(rows_question(keeper, found, _for_rows(spend, bool(wanted))))
    receipts, tuned = [receipt], []
    for name in wanted:
        progress(f"{found.name}: {name}")
        column = found.column(name)
        assert column is not None
        centre, receipt = _centre(keeper, found, column, Tuning(rows), spend.of(each / 4))
        price = spend.of(each * 3 / 8)
        totals, second = _histogram(totals_question(keeper, found, column, Fraction(0), price))
        centred, third = _histogram(totals_question(keeper, found, column, centre, price))
        tuned.append(TunedColumn(name, centre, column.exponent, totals, centred))
        receipts += [receipt, second, third]
    return Tuning(rows, tuple(tuned)), tuple(receipts)


def _for_rows(spend: Guarantee, has_columns: bool) -> Guarantee:
    """What of a price for tuning goes to rows."""
    return spend.of(spend.amount * 2 / 5 if has_columns else spend.amount)


def rows_question(keeper: Keeper, table: DeclaredTable, spend: Guarantee, verb: str = "tune") -> Question:
    """How many persons have how many rows."""
    plan = Plan(_all_rows(keeper, table), (), (Octaves(None, None, 0, ROWS),), ())
    return planned(keeper, f"{verb} {table.name}: rows", plan, spend)


def totals_question(
    keeper: Keeper,
    table: DeclaredTable,
    column: DeclaredColumn,
    centre: Fraction,
    spend: Guarantee,
    verb: str = "tune",
) -> Question:
    """How many persons have how much of a column."""
    assert column.low is not None
    assert column.high is not None
    value = Field(f"t0.{column.name}", domain_of(column), "", (table.name, column.name))
    middle = round(centre * Fraction(2) ** column.exponent)
    measure = Octaves(clamped(value), Clamp(column.low, column.high, column.exponent), middle, TOTALS)
    told = f"{verb} {table.name}: {column.name}" + (" around its centre" if middle else "")
    return planned(keeper, told, Plan(_all_rows(keeper, table), (), (measure,), ()), spend)


def _histogram(question: Question) -> tuple[Measured, int]:
    """What is released of it, and its receipt."""
    release = replace(question, is_part=True).release()
    return as_measured(question.query.asked, release.drawn[0]), release.receipt.number


def as_measured(spend: Guarantee, drawn: Iterable[int | str]) -> Measured:
    """What was released at a price."""
    price = spend.amount
    if spend.rho is not None:
        price = Fraction(2 * math.sqrt(spend.amount)).limit_denominator(10**6)
    return Measured(price, tuple(map(int, drawn)))


def _all_rows(keeper: Keeper, table: DeclaredTable) -> Relation:
    return parse('SELECT COUNT(*) FROM "' + table.name.replace('"', '""') + '"', keeper.policy).relation


def _centre(
    keeper: Keeper, table: DeclaredTable, column: DeclaredColumn, tuning: Tuning, spend: Guarantee
) -> tuple[Fraction, int]:
    """About the mean of a column, on its grid."""
    names = [each.replace('"', '""') for each in (column.name, table.name)]
    sql = f'SELECT AVG("{names[0]}") FROM "{names[1]}"'
    others = [replace(t, tuning=tuning if t.name == table.name else None) for t in keeper.policy.tables]
    policy = replace(keeper.policy, tables=tuple(others))
    release = replace(asked(keeper, read(sql), policy, spend), is_part=True).release()
    (cell,) = release.exact()[0].values()
    assert isinstance(cell, Cell)
    assert cell.value is not None
    step = Fraction(2) ** -column.exponent
    return round(cell.value / step) * step, release.receipt.number


# A question that pays for its own caps ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class FirstTuned(Question):
    """A question, a part of whose price is first spent on caps that fit it. Asked again, all is free."""

    for_caps: Guarantee = field(kw_only=True)

    @property
    def tuning(self) -> Guarantee | None:
        """What is first spent on caps."""
        return self.for_caps

    @property
    def releases(self) -> int:
        """How many releases it takes: one for rows, and three for a column, come first."""
        return 1 + sum(1 + 3 * len(columns) for columns in self._wanted.values())

    @property
    def _wanted(self) -> dict[str, list[str]]:
        """The tables whose caps matter, and of each the columns that are added up."""
        return tuned_by(self.database.policy, self.plan)

    def kept(self, *, version: int | None = None) -> Release | None:
        """Nothing: what it is stored as depends on what was released about caps."""
        del version
        return None

    def release(self) -> Release:
        """Spend the part for caps, and ask with them."""
        keeper, wanted = self.database, self._wanted
        each = self.for_caps.of(self.for_caps.amount / len(wanted))
        first = keeper.policy.table(next(iter(wanted)))
        assert first is not None
        share = _for_rows(each, bool(wanted[first.name]))
        if rows_question(keeper, first, share).stored() is None:  # nothing of it is paid for
            self.check_affordable()
        tables = {name: tune(keeper, name, each, columns)[0] for name, columns in wanted.items()}
        tuned = [replace(t, tuning=tables.get(t.name, t.tuning)) for t in keeper.policy.tables]
        policy = replace(keeper.policy, tables=tuple(tuned))
        assert self.statement is not None
        price = self.query.asked
        return asked(keeper, self.statement, policy, price, tuned_for=self.for_caps).release()


def first_tuned(keeper: Keeper, statement: Statement, spend: Guarantee, part: Number) -> FirstTuned:
    """A question whose whole price this is, of which so much is for caps."""
    for_caps = Guarantee.read(**{spend.currency: part})
    if for_caps.amount >= spend.amount:
        advice = f"give less than the price, which is {spend}: a tenth of it is a good start"
        raise InvalidParameter("tune", part, advice)
    rest = spend.of(spend.amount - for_caps.amount, spend.delta)
    question = asked(keeper, statement, keeper.policy, rest)
    if not tuned_by(keeper.policy, question.plan):
        told = "omit it: no table of this question has a cap on the rows of a person"
        raise InvalidParameter("tune", part, told)
    given = [each.name for each in fields(question) if each.init]
    facts: dict[str, Any] = {name: getattr(question, name) for name in given}
    share = for_caps.amount / spend.amount
    facts["priced"] = lambda who, other: first_tuned(who, statement, other, other.amount * share)
    return FirstTuned(**facts, for_caps=for_caps)


# In the policy file --------------------------------------------------------------------------------------


def section(table: str, tuning: Tuning, receipts: Sequence[int]) -> str:
    """The section of the policy that says what was released."""
    told = f"receipt {receipts[0]}" if len(receipts) == 1 else f"receipts {min(receipts)} to {max(receipts)}"
    lines = [
        f"# Released by `sfumato tune` ({told}): people, in 1024ths, who have 0, 1, 2, 4, ... rows or",
        "# steps of a value in sum. Caps are chosen from it for each question. Remove it to undo that.",
        heading(table, "tuned"),
        f"rows = {_inline(tuning.rows)}",
    ]
    for column in tuning.columns:
        parts = f"totals = {_inline(column.totals)}, centred = {_inline(column.centred)}"
        centre = f'"{column.centre}"'
        lines.append(
            f"{in_toml(column.name)} = {{ centre = {centre}, exponent = {column.exponent}, {parts} }}"
        )
    return "\n".join(lines) + "\n"


def _inline(measured: Measured) -> str:
    people = ", ".join(map(str, measured.people))
    return f'{{ epsilon = "{decimal(measured.epsilon)}", people = [{people}] }}'


def inserted(text: str, table: str, added: str) -> str:
    """The text of a policy with the section of a table put at its end, instead of an older one."""
    header = re.compile(
        rf"^\[tables\.({re.escape(in_toml(table))}|\"{re.escape(table)}\")\.tuned\]\s*(#.*)?$"
    )
    kept: list[str] = []
    inside = False
    for line in text.split("\n"):
        if header.match(line):
            inside = True
            while kept and kept[-1].startswith("#") and "sfumato tune" in "".join(kept[-2:]):
                kept.pop()
            continue
        if inside and line.startswith("["):
            inside = False
        if not inside:
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n\n" + added
