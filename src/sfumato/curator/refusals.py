"""What is refused before anything is charged, from public facts alone, and what to type instead."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter, PolicyError, Unsupported
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries import units
from sfumato.queries.measures import cut_of
from sfumato.queries.words import spoken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.budget import Ledger
    from sfumato.mechanisms import Guarantee
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy


def private_keys(plan: Plan, policy: Policy, total: Guarantee, sql: str) -> Unsupported:
    """Groups that nobody declared, and no delta."""
    names = ", ".join(key.told or spoken(key.expression) for key in plan.keys if key.values is None)
    some = "ask with a delta: delta=\"1e-6\", --delta 1e-6 in a terminal, SET sfumato.delta = '1e-6' in psql"
    if total.rho is not None:
        some = "ask a database whose budget counts epsilon and has a delta"
    elif not total.delta:
        some = "let the owner give the budget a delta"
    return Unsupported(
        f"the values of {names} are private: nobody declared which ones exist, and without a delta none "
        "can be shown, because a value that only one person has would reveal that person",
        f"List the ones you want (WHERE {names} IN (...)), let the owner declare keys in "
        f"{policy.file}, or {some}.",
        sql=sql,
    )


def too_small(policy: Policy, prices: Sequence[Guarantee]) -> str:
    """What to type instead of prices that are below the least together; nothing if they are not."""
    name, least = policy.budget.currency, decimal(policy.least)
    if not prices or sum((price.amount for price in prices), Fraction(0)) >= policy.least:
        return ""
    return (
        f"a new question or batch costs at least {name} {least} here. Nothing was spent and no row was read. "
        f"Ask for at least {name} {least}; repeating an earlier question is free"
    )


def told_age(aged: Sequence[tuple[str, int]]) -> str:
    """That what is known of tables is older than the data."""
    if not aged:
        return ""
    names, most = ", ".join(name for name, _ in aged), max(changes for _, changes in aged)
    times = "once" if most == 1 else f"{most} times"
    return (
        f"How much people have was measured before the data last changed ({names}; the data have changed "
        f"{times} since). Caps still hold but may fit worse. The owner can measure it again: sfumato measure "
        "--anew"
    )


def told_unmeasured(policy: Policy, plan: Plan) -> str:
    """That nobody measured how much the caps on one person cut."""
    is_capped = any(t.rows_per_person not in (None, 1) and t.name in plan.tables for t in policy.tables)
    is_tuned = any(t.tuning is not None for t in policy.tables)
    is_known = any(cut_of(each) is not None for each in plan.measures)
    if policy.measure or is_tuned or is_known or not is_capped:
        return ""
    if not any(each.scaling for each in plan.measures):
        return ""
    return (
        "Noise only: it was not measured how much the caps on one person cut. The owner can have that "
        'measured and added back: write [measure] and share = "10%" into the policy'
    )


def check_least(policy: Policy, prices: Sequence[Guarantee]) -> None:
    """Refuse prices that are below the least together."""
    if told := too_small(policy, prices):
        asked = sum((price.amount for price in prices), Fraction(0))
        raise InvalidParameter(policy.budget.currency, decimal(asked), told)


def check_units(policy: Policy, ledger: Ledger) -> None:
    """Refuse a new policy that mixes units and does not say so."""
    if units.is_mixed(policy) and not ledger.was_charged:
        raise PolicyError(policy.file, None, "units", "tables are about different units", mixed(policy))


def mixed(policy: Policy) -> str:
    """Which units are mixed, and what to write."""
    there = units.units_of(policy)
    found = "; ".join(map(str, there))
    return (
        f"They are: {found}. What is promised about one says nothing about another. If all columns name the "
        f"same people, add this; columns that identify other people go into a separate list:\n\n"
        f"{units.suggested(there)}"
    )
