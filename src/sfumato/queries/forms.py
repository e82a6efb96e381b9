"""One text for one meaning: how questions, declarations and stored numbers are written down, for ever.

A question asked again is free, also after an upgrade. So it is known by a name that depends on what it reads
and on nothing else: its tables with their units, references and declared caps, the columns it uses with
their bounds and keys, what is grouped by and what is wanted. Caps that *we* choose are not part of it, nor is
the way it is measured.

The names below are those of the stored form, not those of classes and functions: whoever renames one of ours
leaves them as they are. What has its default is left out, so that a new declaration changes no name. A form
whose meaning must change gets a new number, and the old one stays readable (`former` holds what was written
before there were forms). The second form tells where SQL computes with decimals, and where with doubles; a
question in which that makes no difference keeps the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.queries import former
from sfumato.queries.notation import (
    EXACTLY,
    READING,
    Form,
    digest,
    exact,
    is_exact,
    meant,
    scalar,
    text,
    value,
)
from sfumato.queries.precision import averages_finely, deciding, is_fine
from sfumato.queries.relations import Among, Fold, Join, Placed, Scan, Union, Where, folds_of, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Measured
    from sfumato.queries.expressions import Scalar
    from sfumato.queries.plan import Aggregate, Key, Plan
    from sfumato.queries.policy import Policy
    from sfumato.queries.promises import Promise
    from sfumato.queries.relations import Folded, Owner, Relation

    Writing = Callable[[Scalar], Form]

FORM = 1
EXACT_FORM = 2  # of questions that compute where decimals and doubles differ
FINELY = "finely"  # beside a person's sum of doubles that is more than added up, on a fine grid

# A question ----------------------------------------------------------------------------------------------


def question(plan: Plan, policy: Policy, place: str, *, tune: str = "", reading: int = READING) -> str:
    """The name of what a plan asks about the data at a place, before caps that we choose.

    `tune` is what was asked to be spent on caps, where the question itself pays for them. An earlier reading
    gives the name that was written then.
    """
    write = {1: scalar, 2: former.marked}.get(reading, exact)
    return digest(
        _form(plan, policy, place, write, tune) | _flags(averages=reading > 4 and averages_finely(plan))
    )


def meaning(plan: Plan, policy: Policy) -> str:
    """Names what a plan means, by whatever reading it was made: equal for plans that ask for the same."""
    return digest(_form(plan, policy, "", meant, "") | _flags(averages=averages_finely(plan)))


def _form(plan: Plan, policy: Policy, place: str, write: Writing, tune: str) -> Form:
    used: dict[int, set[str]] = {}
    for field in plan.fields:
        used.setdefault(prefix(field), set()).add(field.name.partition(".")[2])
    is_told = write in (exact, meant) and _tells(plan)
    form: dict[str, Form] = {
        "form": EXACT_FORM if is_told else FORM,
        "place": place,
        "rows": relation(plan.relation, policy, used, write, deciding(plan) if is_told else frozenset()),
        "keys": [key(each, write) for each in plan.keys],
        "wanted": wanted(plan.wanted, write) if plan.wanted else [each.form for each in plan.measures],
    }
    return {**form, "tune": tune} if tune else form


def _tells(plan: Plan) -> bool:
    """Whether it computes where decimals and doubles differ: on a row, or over rows of a person. Of what is
    wanted, too, where it is measured as a part of something else."""
    return is_exact([*plan.scalars, *plan.values]) or any(
        _adds_numbers(each) for _, each in folds_of(plan.relation)
    )


def _adds_numbers(fold: Folded) -> bool:
    return fold.function in ("sum", "avg") and fold.value is not None and fold.value.domain.kind == "number"


def relation(
    rows: Relation, policy: Policy, used: dict[int, set[str]], write: Writing, decisive: frozenset[str]
) -> Form:
    """Which rows are asked about, and what the policy declares of all that is read of them."""

    def below(inner: Relation) -> Form:
        return relation(inner, policy, used, write, decisive)

    match rows:
        case Scan(number, name, owner, cap, public):
            table = policy.table(name)
            assert table is not None
            read = [column(each) for each in table.columns if each.name in used.get(number, ())]
            form = {"scan": name, "as": number, "columns": read, "unit": unit(owner), "rows": cap}
            return _without(form, unit=None, rows=None) | ({"public": True} if public else {})
        case Where(inner, condition):
            return {"where": write(condition), "of": below(inner)}
        case Join(number, left, right, on, outer, single):
            sides = [below(each) for each in (left, right)]
            form = {"join": sides, "as": number, "on": None if on is None else write(on)}
            return _without(form, on=None) | _flags(outer=outer, single=single)
        case Among(inner, value, other, other_value, negated, keeps):
            values = [None if each is None else write(each) for each in (value, other_value)]
            return {"among": [below(inner), below(other)], "values": values} | _flags(
                negated=negated, keeps=keeps
            )
        case Union(number, parts, kinds):
            listed = [[below(each), [write(x) for x in values]] for each, values in parts]
            return {"union": listed, "as": number, "kinds": list(kinds)}
        case Fold(number, inner, by, folds):
            made = [_folded(each, write, f"t{number}.{i}" in decisive) for i, each in enumerate(folds)]
            return {"fold": made, "as": number, "by": [write(each) for each in by], "of": below(inner)}
        case Placed(number, inner, within, order, places, totals):
            form = {
                "placed": [
                    [each.said, None if each.value is None else write(each.value), each.later]
                    for each in places
                ],
                "totals": [
                    _folded(each, write, f"t{number}.{i}" in decisive) for i, each in enumerate(totals)
                ],
                "as": number,
                "within": [write(each) for each in within],
                "order": [[write(each.value), each.descending, each.nulls_first] for each in order],
                "of": below(inner),
            }
            return _without(form, placed=[], totals=[], order=[])


def _folded(fold: Folded, write: Writing, is_decisive: bool) -> Form:
    if fold.value is None:
        return [fold.function, None]
    mark = []
    if write in (exact, meant) and _adds_numbers(fold):
        mark = [EXACTLY] if fold.value.domain.adds_exactly else []
        mark = [FINELY] if is_decisive and is_fine(fold) else mark
    return [fold.function, write(fold.value), *mark]


def unit(owner: Owner | None) -> Form:
    """How a row says whose it is, over the whole chain of references."""
    if owner is None:
        return None
    form: dict[str, Form] = {"column": owner.column, "type": owner.kind}
    if owner.table:
        form |= {"through": [owner.table, owner.key], "unit": unit(owner.owner)}
    return form


def key(each: Key, write: Writing) -> Form:
    """What is grouped by, with its public values in their order. Those of public tables were private keys
    before they were listed: that means the same."""
    is_told = each.values is not None and not (each.is_listed and write is meant)
    return [write(each.expression), [value(one) for one in each.values or ()] if is_told else None]


def wanted(aggregates: Sequence[Aggregate], write: Writing) -> Form:
    """What is asked for, however it is measured: equal for all that one measure of today answers together.

    Count, sum and average of a value are moments of degree 1, its variance one of degree 2. A sum by itself
    is something else: it can be bounded by its own size.
    """
    rows = any(each.name == "count" and not each.values for each in aggregates)
    moments: dict[tuple[Scalar, ...], list[Aggregate]] = {}
    ranks: dict[Scalar, set[Fraction]] = {}
    found: list[Form] = []
    for each in aggregates:
        if each.of_moments:
            if each.values:
                moments.setdefault(each.values, []).append(each)
        elif each.name == "quantile":
            ranks.setdefault(each.values[0], set()).add(each.rank)
        else:
            name = "histogram" if each.name == "entropy" else each.name
            found.append([name, *(write(one) for one in each.values)])
    found = [each for i, each in enumerate(found) if each not in found[:i]]
    for values, asked in moments.items():
        listed = [write(one) for one in values]
        if not rows and {each.name for each in asked} == {"sum"}:
            found.append(["sum", *listed])
        else:
            found.append(["moments", max(each.degree for each in asked), *listed])
    found += [["quantiles", write(one), sorted(map(str, asked))] for one, asked in ranks.items()]
    if rows and not any(len(values) == 1 and values[0].domain.required for values in moments):
        found.append(["rows"])
    return sorted(found, key=text)


# What the policy declares --------------------------------------------------------------------------------


def column(each: DeclaredColumn) -> Form:
    """What is declared of a column."""
    keys = None if each.keys is None else [value(one) for one in each.keys]
    form = {
        "name": each.name,
        "type": each.kind,
        "low": _number(each.low),
        "high": _number(each.high),
        "exponent": each.exponent,
        "since": None if each.since is None else each.since.isoformat(),
        "until": None if each.until is None else each.until.isoformat(),
        "keys": keys,
        "scale": each.scale,
    }
    absent = ("low", "high", "since", "until", "keys", "scale")
    defaults = {"exponent": 0, **dict.fromkeys(absent)}
    return _without(form, **defaults) | _flags(required=each.required)


def policy(declared: Policy) -> str:
    """Names all that is declared about tables, and what was released about them by `sfumato tune`."""
    return digest(
        {"form": FORM, "source": list(declared.source), "tables": [_table(t) for t in declared.tables]}
    )


def promise(given: Promise, columns: Sequence[DeclaredColumn]) -> Form:
    """A promise, and what the policy declares of its columns."""
    parts = []
    for part, declared in zip(given.parts, columns, strict=True):
        prior = part.prior
        believed = {
            "kind": prior.kind,
            "numbers": [[repr(x) for x in each] for each in prior.numbers],
            "weights": [[value(one), repr(weight)] for one, weight in prior.weights],
            "source": None if prior.source is None else list(prior.source),
        }
        form = {
            "table": part.table,
            "column": column(declared),
            "within": _number(part.within),
            "above": _number(part.above),
            "prior": _without(believed, numbers=[], weights=[], source=None),
        }
        parts.append(_without(form, within=None, above=None))
    form = {
        "parts": parts,
        "advantage": str(given.advantage),
        "metric": given.metric,
        "group": given.group,
        "joint": given.joint,
    }
    return _without(form, metric="record", group=1, joint="") | _flags(either=given.either)


def _table(each: DeclaredTable) -> Form:
    form = {
        "name": each.name,
        "unit": each.unit,
        "rows_per_person": each.rows_per_person,
        "columns": [{**column(one), **_flags(owned=one.owned)} for one in each.columns],
        "through": None if each.through is None else list(each.through),
    }
    tuned = {}
    if each.tuning is not None:
        tuned["tuned"] = {
            "rows": _measured(each.tuning.rows),
            "columns": [
                [c.name, str(c.centre), c.exponent, _measured(c.totals), _measured(c.centred)]
                for c in each.tuning.columns
            ],
        }
    return _without(form, unit=None, rows_per_person=None, through=None) | tuned | _flags(public=each.public)


def _measured(each: Measured) -> Form:
    return [str(each.epsilon), list(each.people)]


def _number(given: Fraction | None) -> Form:
    return None if given is None else str(given)


def _without(form: dict[str, Form], **defaults: Form) -> dict[str, Form]:
    """The form without what has its default."""
    return {name: each for name, each in form.items() if name not in defaults or each != defaults[name]}


def _flags(**given: bool) -> dict[str, Form]:
    return {name: True for name, each in given.items() if each}
