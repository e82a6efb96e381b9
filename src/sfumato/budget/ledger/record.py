"""The form in which a spend is stored: what was run, never a bare epsilon (law 10).

Canonical JSON (sorted keys, no blanks), a version number, fractions as "p/q". The meaning of a stored form
never changes: a new form gets a new version, and old ones stay readable.
"""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.errors import InvalidParameter, LedgerError
from sfumato.mechanisms import (
    Cube,
    Distance,
    Distances,
    Exponential,
    Gaussian,
    Geometric,
    Modes,
    NoisyMax,
    OnGrid,
    Partition,
    PermuteAndFlip,
    Private,
    QuantileIntervals,
    Quantiles,
    RandomizedResponse,
    Renormalised,
    SmoothMedian,
    SparseVector,
    Spend,
    Staircase,
    Step,
    Table,
    TopK,
    Truncated,
)
from sfumato.mechanisms.arguments import LARGEST_PART
from sfumato.mechanisms.noise import BY_RHO

VERSION = 1

# The ledger's names, for ever. A mechanism that is not listed here cannot be charged.
MECHANISMS: dict[str, type[Private]] = {
    "cube": Cube,
    "exponential": Exponential,
    "gaussian": Gaussian,
    "geometric": Geometric,
    "modes": Modes,
    "noisy max": NoisyMax,
    "on grid": OnGrid,
    "partition": Partition,
    "permute and flip": PermuteAndFlip,
    "quantile intervals": QuantileIntervals,
    "quantiles": Quantiles,
    "randomized response": RandomizedResponse,
    "renormalised": Renormalised,
    "smooth median": SmoothMedian,
    "sparse vector": SparseVector,
    "staircase": Staircase,
    "table": Table,
    "top k": TopK,
    "truncated": Truncated,
}

LATER = {"monotone": False, "proof": BY_RHO}  # what is meant where they are not written, for ever


@lru_cache(maxsize=1024)
def write(spend: Spend) -> str:
    """The canonical text of a spend."""
    steps: list[dict[str, Any]] = [
        {
            "mechanism": _write(step.mechanism),
            "presence": _write_fields(step.distances.presence),
            "value": _write_fields(step.distances.value),
            "promises": [[name, _write_fields(distance)] for name, distance in step.distances.promises],
        }
        for step in spend
    ]
    return json.dumps({"version": VERSION, "steps": steps}, sort_keys=True, separators=(",", ":"))


def read(text: str) -> Spend:
    """The spend that `write` stored."""
    try:
        stored = json.loads(text)
        if (version := stored.get("version")) == VERSION:
            return tuple(_read_step(step) for step in stored["steps"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as broken:
        raise LedgerError(
            "this ledger holds a charge that this version of sfumato cannot read. Nothing was changed. "
            "Install the version that wrote it, or restore the file from a copy."
        ) from broken
    raise LedgerError(
        f"this ledger stores charges in form {version}, and this version of sfumato reads form {VERSION}. "
        f"Nothing was changed. Install the newer sfumato that wrote it."
    )


def _read_step(stored: dict[str, Any]) -> Step[Private]:
    distances = Distances(
        presence=_read_distance(stored["presence"]),
        value=_read_distance(stored["value"]),
        promises=tuple((name, _read_distance(distance)) for name, distance in stored["promises"]),
    )
    return Step(_read_mechanism(stored["mechanism"]), distances)


def _read_mechanism(stored: dict[str, Any]) -> Private:
    parameters = {name: _read(value) for name, value in stored.items() if name != "name"}
    return MECHANISMS[stored["name"]](**parameters)


def _read(value: Any) -> Any:
    """Text is a fraction, an object another mechanism, a list a tuple; whole numbers are themselves."""
    if isinstance(value, str):
        return Fraction(value)
    if isinstance(value, dict):
        return value["text"] if "text" in value else _read_mechanism(value)
    return tuple(map(_read, value)) if isinstance(value, list) else value


def _read_distance(stored: dict[str, Any]) -> Distance:
    def fraction(name: str) -> Fraction | None:
        return None if stored[name] is None else Fraction(stored[name])

    return Distance(
        l0=stored["l0"],
        l1=fraction("l1"),
        l2_squared=fraction("l2_squared"),
        linf=fraction("linf"),
        monotone=stored.get("monotone", False) is True,
    )


def _write(value: Any) -> Any:
    if isinstance(value, Private):
        if MECHANISMS.get(value.name) is not type(value):
            raise InvalidParameter("mechanism", value.name, "only the mechanisms of Sfumato can be charged")
        return {"name": value.name, **_write_fields(value)}
    if isinstance(value, tuple):
        return [_write(part) for part in value]
    if isinstance(value, str):
        return {"text": value}  # a label: plain text stands for a fraction
    if not isinstance(value, (int, float, Fraction, type(None))) or value != value or _long(value):
        raise InvalidParameter("label", value, "only texts, numbers and tuples of them can be stored")
    return str(value) if isinstance(value, Fraction) else value  # str(Fraction(1, 3)) is "1/3"


def _long(value: Any) -> bool:
    return isinstance(value, (int, Fraction)) and max(abs(value.numerator), value.denominator) >= LARGEST_PART


def _write_fields(value: Any) -> dict[str, Any]:
    """Every field; those which came later only where they say something: the old form keeps its text."""
    written = {field.name: _write(getattr(value, field.name)) for field in fields(value)}
    return {name: each for name, each in written.items() if name not in LATER or each != LATER[name]}
