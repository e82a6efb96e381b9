"""Promises: what the owner says an attacker may gain, as it is declared.

A promise names a secret of one person, when a guess about it counts as right, and by how much surer of it
anybody may become. What it means for epsilon is worked out elsewhere (`curator.promises`).
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from sfumato.errors import InvalidParameter, nearest
from sfumato.mechanisms.guarantee import plain
from sfumato.queries.declared import split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.mechanisms import Guarantee
    from sfumato.queries.declared import DeclaredColumn, DeclaredTable, Value

Metric = Literal["record", "manhattan", "normalised", "max"]
SMALLEST_NUMBER = Fraction(1, 10**6)  # of an advantage
LARGEST_NUMBER = 10**30  # of a number in a promise
NUMBER = r"-?[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?"  # as a text; 1_0 is nobody's 10
HEAVY = 1e12  # of a weight, a mean or a deviation
METRICS: tuple[str, ...] = get_args(Metric)
KNOWN = {
    "secret",
    "within",
    "above",
    "below",
    "advantage",
    "prior",
    "metric",
    "group",
    "parts",
    "goal",
    "joint",
}
OF_A_PART = {"secret", "within", "above", "below", "prior"}
PRIORS = '"uniform", "unknown", { normal = [40, 15] }, { parts = [[0, 17, 1], [18, 64, 3]] }, { cdf = [[17, 0.2], [64, 1]] }, { weights = { A = 3, B = 1 } }, or "table.column" of a public table'  # noqa: E501  # one text


@dataclass(frozen=True, slots=True)
class Prior:
    """What an attacker believes about a value before any release."""

    kind: Literal["uniform", "unknown", "normal", "parts", "weights"]
    numbers: tuple[tuple[float, ...], ...] = ()  # mean and deviation; or (from, to, weight), ...
    weights: tuple[tuple[Value, float], ...] = ()
    source: tuple[str, str] | None = None  # a public table's column, whose values it counts


@dataclass(frozen=True, slots=True)
class PromisePart:
    """A column, and when a guess is right: within so much, on the right side of a limit, or equal."""

    table: str
    column: DeclaredColumn
    within: Fraction | None
    above: Fraction | None
    prior: Prior

    @property
    def name(self) -> str:
        """The column and its table."""
        return f"{self.table}.{self.column.name}"


@dataclass(frozen=True, slots=True)
class Promise:
    """Nobody becomes more than `advantage` surer that a guess about one person is right.

    With several parts a guess is right if all of it is (or, with `either`, any). `metric` is the distance in
    which values are protected: "record", in which any two are one apart, or one of the column's own. `group`
    people may depend on each other. `joint` is a public table whose rows are what is believed of all parts.
    """

    parts: tuple[PromisePart, ...]
    advantage: Fraction
    metric: Metric = "record"
    group: int = 1
    either: bool = False
    joint: str = ""


def promise_of(body: Mapping[str, Any], tables: tuple[DeclaredTable, ...], budget: Guarantee) -> Promise:
    """The promise that a section of a policy (or the arguments of `suggest`) declares; or what is wrong."""
    _known(body, KNOWN)
    given = body.get("parts")
    if given is None:
        bodies: list[Any] = [{key: body[key] for key in OF_A_PART if key in body}]
    elif not isinstance(given, list) or len(given) < 2 or OF_A_PART & body.keys():
        raise InvalidParameter(
            "parts", given, "give two or more, each with its own secret, and no other secret"
        )
    else:
        bodies = given
    parts = tuple(_part(each, tables) for each in bodies)
    if len({part.name for part in parts}) < len(parts):
        raise InvalidParameter("parts", parts[0].name, "each part must be a different column")
    goal = body.get("goal", "all")
    if goal not in ("all", "any") or ("goal" in body and len(parts) == 1):
        raise InvalidParameter("goal", goal, 'with several parts, write "all" or "any"')
    metric = body.get("metric", "record")
    if metric not in METRICS:
        raise InvalidParameter("metric", metric, f"write one of: {', '.join(METRICS)}")
    group = body.get("group", 1)
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= 10**6:
        raise InvalidParameter("group", group, "say how many people depend on each other: 1 or more")
    found = Promise(parts, _advantage(body), metric, group, goal == "any", _joint(body, parts, tables))
    if metric != "record":
        if budget.rho is not None or budget.delta:
            raise InvalidParameter(
                "metric", metric, 'with rho or a delta, only metric = "record" can be promised'
            )
        _check_metric(found, tables)
    if group > 1 and budget.delta:
        raise InvalidParameter("group", group, "groups need a budget without a delta")
    return found


def _known(body: Mapping[str, Any], names: set[str]) -> None:
    for key in body:
        if key not in names:
            close = nearest(key, names)
            advice = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(names))}"
            raise InvalidParameter(key, body[key], f"there is no such key; {advice}")


def _advantage(body: Mapping[str, Any]) -> Fraction:
    advice = 'write how much surer an attacker may become, strictly between 0 and 1: advantage = "0.10"'
    found = _read(body.get("advantage"))
    if found is None or not 0 < found < 1:
        raise InvalidParameter("advantage", body.get("advantage", "nothing"), advice)
    if found < SMALLEST_NUMBER:
        raise InvalidParameter("advantage", body["advantage"], f"give at least {float(SMALLEST_NUMBER):f}")
    return found


def _part(body: Any, tables: tuple[DeclaredTable, ...]) -> PromisePart:
    if not isinstance(body, dict):
        raise InvalidParameter("parts", body, 'write { secret = "table.column", within = 2 }')
    _known(body, OF_A_PART)
    table, column = _secret(body.get("secret"), tables)
    limits = [key for key in ("within", "above", "below") if key in body]
    if len(limits) > 1:
        raise InvalidParameter(
            limits[1], body[limits[1]], f"a promise has one of {limits[0]} and {limits[1]}, not both"
        )
    numeric = column.kind in ("integer", "number", "date")
    if column.kind == "timestamp":
        raise InvalidParameter(
            "secret", f"{table.name}.{column.name}", "promise something about its date instead"
        )
    if limits and not numeric:
        advice = f"a guess about a {column.kind} is right or wrong: remove it"
        raise InvalidParameter(limits[0], body[limits[0]], advice)
    if numeric and not limits and column.keys is None:
        advice = "write how close a correct guess must be: within = 2; or a threshold: above = 100000"
        raise InvalidParameter("within", None, advice, problem="no within, above or below given")
    within = _number("within", body["within"]) if "within" in body else None
    limit = next((_at(key, body[key], column) for key in ("above", "below") if key in body), None)
    if within is not None and within < 0:
        raise InvalidParameter("within", within, "give a number of at least 0")
    low, high = bounds_of(column)
    if within is not None and low is not None and high is not None and within >= high - low:
        advice = f"every guess would be right: the whole range is {float(high - low):g}; give less"
        raise InvalidParameter("within", body["within"], advice)
    if limit is not None and low is not None and high is not None and not _first(low, limit, high, column):
        advice = f"all values are on one side of it: give one above {float(low):g}, up to {float(high):g}"
        raise InvalidParameter("above", body.get("above", body.get("below")), advice)
    return PromisePart(
        table.name, column, within, limit, _prior(body.get("prior", "uniform"), column, limits, tables)
    )


def _secret(given: Any, tables: tuple[DeclaredTable, ...]) -> tuple[DeclaredTable, DeclaredColumn]:
    known = [f"{t.name}.{c.name}" for t in tables if not t.public for c in t.columns if c.name != t.unit]
    name, field = split(given, [t.name for t in tables]) if isinstance(given, str) else ("", "")
    table = next((t for t in tables if t.name == name), None)
    column = None if table is None else next((c for c in table.columns if c.name == field), None)
    close = nearest(str(given), known)
    if table is None or column is None:
        told = f"did you mean {close[0]}?" if close else f"name one of: {', '.join(known[:12])}"
        raise InvalidParameter("secret", given, f"there is no such column in the policy; {told}")
    if table.public:
        raise InvalidParameter("secret", given, "its table is public, so nothing about it can be promised")
    referred = any(t.through == (table.name, column.name) for t in tables)
    if column.name == table.unit or referred:
        advice = "it identifies the person, who is hidden as a whole: name another column"
        raise InvalidParameter("secret", given, advice)
    return table, column


def _prior(given: Any, column: DeclaredColumn, limits: list[str], tables: tuple[DeclaredTable, ...]) -> Prior:
    numeric = bool(limits)
    low, high = bounds_of(column)
    if given == "unknown":
        return Prior("unknown")
    if given == "uniform":
        if numeric and (low is None or high is None):
            advice = (
                f"{column.name} has no bounds, so it has no uniform prior: declare low and high, or write "
            )
            raise InvalidParameter("prior", given, advice + 'prior = { normal = [40, 15] }, or "unknown"')
        if not numeric and column.keys is None and column.keys_from is None and column.kind != "boolean":
            advice = f'{column.name} has no keys: declare them, or write prior = "unknown"'
            raise InvalidParameter("prior", given, advice)
        return Prior("uniform")
    if isinstance(given, str) and "." in given:
        return _counted(given, column, tables)
    if not isinstance(given, dict) or len(given) != 1:
        raise InvalidParameter("prior", given, f"write {PRIORS}")
    ((kind, body),) = given.items()
    try:
        if kind == "normal" and numeric:
            first, second = body
            mean, deviation = float(_at("prior", first, column)), plain(second)
            if not (abs(mean) <= HEAVY and 1 / HEAVY <= deviation <= HEAVY):
                raise InvalidParameter(
                    "prior", given, "give a mean, and a deviation above 0, of moderate size"
                )
            return Prior("normal", ((mean, deviation),))
        if kind == "cdf" and numeric and low is not None:
            return Prior("parts", _steps(body, column))
        if kind == "parts" and numeric and low is not None:
            parts = tuple((_place(a, column), _place(b, column), plain(w)) for a, b, w in body)
            if not all(0 <= w <= HEAVY for *_, w in parts) or not any(w >= 1 / HEAVY for *_, w in parts):
                raise InvalidParameter(
                    "prior", given, f"weights lie between 0 and {HEAVY:g}, and some are above 0"
                )
            if any(a > b or not _holds(a, b, column) for a, b, _ in parts):
                raise InvalidParameter(
                    "prior", given, "a part is (from, to, weight), and contains at least one value"
                )
            return Prior("parts", parts)
        if kind == "weights" and not numeric and isinstance(body, dict):
            return Prior("weights", weights=_weights(body, column))
    except InvalidParameter:
        raise
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidParameter("prior", given, f"it does not fit {column.name}: write {PRIORS}")


def _steps(body: Any, column: DeclaredColumn) -> tuple[tuple[float, ...], ...]:
    """A distribution function, given by points (value, share at most that), as parts."""
    low, _ = bounds_of(column)
    step = step_of(column)
    assert low is not None
    parts, start, before = [], float(low), 0.0
    for value, share in body:
        end = _place(value, column)
        if not (before <= share <= 1 and end >= start):
            raise InvalidParameter("prior", [value, share], "values and shares of a cdf must not fall")
        parts.append((start, end, plain(share) - before))
        start, before = math.floor(end / step + 1e-9) * step + step, plain(share)
    if abs(before - 1) > 1e-9:
        raise InvalidParameter("prior", before, "the last share of a cdf is 1: probabilities add up to 1")
    return tuple(parts)


def _weights(body: dict[str, Any], column: DeclaredColumn) -> tuple[tuple[Value, float], ...]:
    keys = column.keys or ((False, True) if column.kind == "boolean" else ())
    named: dict[str, Value] = {str(key).lower() if isinstance(key, bool) else str(key): key for key in keys}
    for name in body:
        if named and name not in named:
            raise InvalidParameter("prior", name, f"it is not among the keys: {', '.join(list(named)[:12])}")
    weights = tuple((named.get(name, name), plain(weight)) for name, weight in body.items())
    if not all(0 <= w <= HEAVY for _, w in weights) or not any(w >= 1 / HEAVY for _, w in weights):
        raise InvalidParameter(
            "prior", body, f"weights lie between 0 and {HEAVY:g}, and at least one is above 0"
        )
    return weights


def _counted(given: str, column: DeclaredColumn, tables: tuple[DeclaredTable, ...]) -> Prior:
    name, field = split(given, [t.name for t in tables])
    table = next((t for t in tables if t.name == name), None)
    known = None if table is None else next((c for c in table.columns if c.name == field), None)
    if table is None or not table.public or known is None or known.kind != column.kind:
        advice = f"name a column of type {column.kind} in a public table of this policy, such as a census"
        raise InvalidParameter("prior", given, advice)
    return Prior("weights", source=(table.name, known.name))


def _joint(body: Mapping[str, Any], parts: tuple[PromisePart, ...], tables: tuple[DeclaredTable, ...]) -> str:
    name = body.get("joint")
    if name is None:
        return ""
    table = next((t for t in tables if t.name == name), None)
    fits = table is not None and table.public and len(parts) > 1
    for part in parts:
        known = (
            None if table is None else next((c for c in table.columns if c.name == part.column.name), None)
        )
        fits = fits and known is not None and known.kind == part.column.kind
    if not fits:
        advice = "with several parts, name a public table with columns of the same names and types"
        raise InvalidParameter("joint", name, advice)
    return str(name)


def _check_metric(promise: Promise, tables: tuple[DeclaredTable, ...]) -> None:
    part = promise.parts[0]
    if len(promise.parts) > 1 or promise.group > 1:
        raise InvalidParameter("metric", promise.metric, 'several parts, or groups, need metric = "record"')
    if part.column.kind not in ("integer", "number"):
        advice = 'only a number column has its own metric: use metric = "record"'
        raise InvalidParameter("metric", promise.metric, advice)
    if part.column.low is None:
        advice = f'{part.name} has no bounds to measure by: declare low and high, or use metric = "record"'
        raise InvalidParameter("metric", promise.metric, advice)
    if part.prior.kind == "unknown":
        advice = "a metric of the column needs a prior: distant values are not hidden from each other"
        raise InvalidParameter("prior", "unknown", advice)
    table = next(t for t in tables if t.name == part.table)
    if table.through is not None:
        advice = 'its rows may belong to several people at once, through a key: use metric = "record"'
        raise InvalidParameter("metric", promise.metric, advice)
    if table.unit is not None and table.rows_per_person != 1:
        advice = (
            f"in {table.name} a person has several rows, and a value of one row is not the person's: use "
            'metric = "record", or declare rows_per_person = 1'
        )
        raise InvalidParameter("metric", promise.metric, advice)


def bounds_of(column: DeclaredColumn) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of a column as numbers: a day as its ordinal."""
    if column.since is not None and column.until is not None:
        return Fraction(column.since.toordinal()), Fraction(column.until.toordinal())
    return column.low, column.high


def step_of(column: DeclaredColumn) -> float:
    """How far two values of a column are apart at least: on its grid."""
    if column.kind == "date":
        return 1.0
    step = float(Fraction(2) ** -column.exponent)
    return max(step, 1.0) if column.kind == "integer" else step


def _first(low: Fraction, limit: Fraction, high: Fraction, column: DeclaredColumn) -> bool:
    """Whether values of the column lie on both sides of a limit."""
    step = Fraction(step_of(column))
    return math.floor(low / step) * step < limit and math.ceil(limit / step) <= math.floor(high / step)


def _holds(low: float, high: float, column: DeclaredColumn) -> bool:
    """Whether a value of the column lies between two others."""
    start, _ = bounds_of(column)
    step = step_of(column)
    return start is not None and math.floor((high - float(start)) / step + 1e-9) * step >= (
        math.ceil((low - float(start)) / step - 1e-9) * step
    )


def _place(given: Any, column: DeclaredColumn) -> float:
    found = float(_at("prior", given, column))
    low, high = bounds_of(column)
    if low is not None and high is not None and not float(low) <= found <= float(high):
        raise InvalidParameter("prior", given, f"it is outside the bounds of {column.name}")
    return found


def _at(key: str, given: Any, column: DeclaredColumn) -> Fraction:
    """A value of the column as a number: a day as its ordinal."""
    if column.kind == "date":
        try:
            day = datetime.date.fromisoformat(given) if isinstance(given, str) else given
        except ValueError:
            day = None
        if type(day) is not datetime.date:
            raise InvalidParameter(key, given, "give a day: 2024-01-31")
        return Fraction(day.toordinal())
    return _number(key, given)


def _number(key: str, given: Any) -> Fraction:
    found = _read(given)
    if found is None or abs(found) > LARGEST_NUMBER:
        raise InvalidParameter(key, given, "give a number")
    return found


def _read(given: Any) -> Fraction | None:
    """A number, or a text that is one; a float counts as it is printed."""
    if isinstance(given, (int, Fraction)) and not isinstance(given, bool):
        found = Fraction(given)
        return found if abs(found) < LARGEST_NUMBER else None
    text = repr(given) if isinstance(given, float) else given
    if not isinstance(text, str) or not re.fullmatch(NUMBER, text):
        return None
    return Fraction(text)
