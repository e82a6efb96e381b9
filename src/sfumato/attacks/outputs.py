"""Outputs as plain values: whatever comes out of a subject is first made of numbers, texts and tuples.

That is done where the subject runs and at once: a buffer that is used again cannot change what was seen, and
nothing has to be imported to read it. Every view reads an output in one way, whatever came with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LETTERS = 200  # of a text that nobody else wrote
ADDRESS = re.compile("0x[0-9a-fA-F]+")
DEPTH = 20  # of lists in lists
EXACT = 1 << 53  # whole numbers from here on are read as floats
NUMBERS = (bool, int, float)


@dataclass(frozen=True, slots=True)
class Raised:
    """That a call failed is an output too: an attacker sees it."""

    kind: str

    @classmethod
    def by(cls, error: BaseException) -> Raised:
        """What is seen of an error."""
        said = text(error)
        return cls(f"{type(error).__name__}: {said}" if said else type(error).__name__)

    def __repr__(self) -> str:
        return f"an error ({self.kind})"


def text(value: object) -> str:
    """What something says of itself, if it can, and not too long."""
    try:
        said = str(value)
    except Exception:
        said = type(value).__name__
    said = ADDRESS.sub("0x...", said)  # where something lies in memory tells nothing about an input
    return said if len(said) <= LETTERS else f"{said[:LETTERS]} ..."


def many(outputs: Any, size: int) -> Any:
    """So many outputs that were returned together, as an array of numbers or as a list of plain values.

    >>> many(np.arange(3), 3)
    array([0, 1, 2])
    >>> many([1, None, [2.5]], 3)
    [1, None, 2.5]
    """
    if hasattr(outputs, "to_numpy"):  # a frame or a series
        outputs = outputs.to_numpy()
    alone = isinstance(outputs, np.ndarray) and not outputs.ndim
    if alone or not isinstance(outputs, Collection) or isinstance(outputs, (Mapping, Set, str, bytes)):
        what = f"one {type(outputs).__name__}"
    elif len(outputs) != size:
        what = f"{len(outputs)} of them"
    elif (
        isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf" and not np.ma.isMaskedArray(outputs)
    ):
        return _shaped(_narrow(outputs))
    else:
        return listed([one(value) for value in outputs])
    raise InvalidParameter(
        "subject",
        what,
        f"it takes two arguments, so it was asked for {size} outputs at once; return that many, or give the "
        f"second argument a value (--with NAME=VALUE, parameters={{...}})",
    )


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """A copy in which whole numbers that no float holds are floats, as they are elsewhere."""
    wide = array.dtype.itemsize > 8 or (
        array.dtype.kind in "iu" and bool(((array >= EXACT) | (array <= -EXACT)).any())
    )
    return array.astype(np.float64) if wide else array.copy()


def _shaped(array: NDArray[Any]) -> Any:
    """One number or one row each."""
    if array.ndim == 1:
        return array
    rows = array.reshape(len(array), math.prod(array.shape[1:]))
    return rows[:, 0] if rows.shape[1] == 1 else rows if rows.shape[1] else [()] * len(array)


def listed(values: list[Any]) -> Any:
    """Plain values; as an array if all are of one kind of number, or vectors of one length."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= set(NUMBERS):
        return np.array(values)
    lengths = set(map(len, values)) if kinds == {tuple} else set()
    flat = chain.from_iterable(values) if len(lengths) == 1 and lengths != {0} else iter(("",))
    return _shaped(np.array(values)) if set(map(type, flat)) <= set(NUMBERS) else values


def one(value: Any) -> Any:
    """One output as a plain value; a vector is flat, and one of length 1 is its number.

    >>> one([[1, 2], [3]]), one([4]), one([5, "a"])
    ((1, 2, 3), 4, (5, 'a'))
    """
    found = plain(value)
    if isinstance(found, tuple) and (flat := _flat(found)) is not None:
        return flat[0] if len(flat) == 1 else flat
    return found


def _flat(value: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Numbers in tuples in tuples as one row; None if there is anything else."""
    if all(type(each) in NUMBERS for each in value):
        return value
    rows = [
        _flat(each) if isinstance(each, tuple) else (each,) if type(each) in NUMBERS else None
        for each in value
    ]
    return tuple(part for row in rows if row for part in row) if all(rows) else None


def plain(value: Any, depth: int = 0) -> Any:
    """One output as numbers, texts and tuples of them.

    >>> plain({"a": [1, 2 + 1j]})
    (('a', (1, (2.0, 1.0))),)
    """
    if type(value) is int:
        return value if -EXACT < value < EXACT else number(value)
    if type(value) in (bool, float, str, bytes, type(None), Raised):
        return value
    if depth > DEPTH:
        return "..."
    if isinstance(value, np.generic):
        item = value.item()
        if isinstance(item, np.generic):  # wider than anything in Python
            item = complex(value) if np.iscomplexobj(value) else float(value)
        return plain(item, depth + 1)
    if isinstance(value, int):
        return plain(int(value), depth + 1)
    if isinstance(value, (float, Fraction, Decimal)):
        return number(value)
    if isinstance(value, complex):
        return value.real, value.imag
    if np.ma.isMaskedArray(value):
        return plain(value.filled(np.nan).tolist() if value.dtype.kind == "f" else value.tolist(), depth + 1)
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), depth + 1)
    if hasattr(value, "to_numpy"):
        return plain(value.to_numpy(), depth + 1)
    if isinstance(value, Mapping):
        return tuple((plain(key, depth + 1), plain(each, depth + 1)) for key, each in value.items())
    if isinstance(value, Set):
        return tuple(sorted((plain(each, depth + 1) for each in value), key=text))
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(plain(getattr(value, each.name, None), depth + 1) for each in fields(value))
    if isinstance(value, (Sequence, memoryview)) or type(value).__name__ in ("array", "deque"):
        return tuple(plain(each, depth + 1) for each in value)
    if isinstance(value, (str, bytes)):
        return str(value)
    return text(value)


def number(value: Any) -> float:
    """A plain value as a number; NaN if it is none."""
    if isinstance(value, (*NUMBERS, Fraction, Decimal)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except ValueError:  # a signalling NaN
            return math.nan
    if isinstance(value, tuple) and len(value) == 1:
        return number(value[0])
    return math.nan


def parts(value: Any) -> list[float]:
    """All of a plain value that is a number: of a text its length, what it reads as, and both ends."""
    if isinstance(value, tuple):
        return [part for each in value for part in parts(each)]
    if isinstance(value, (str, bytes)):
        ends = (
            [float(ord(value[i]) if isinstance(value, str) else value[i]) for i in (0, -1)]
            if value
            else [-1.0] * 2
        )
        return [float(len(value)), _read(value), *ends]
    return [number(value)]


def _read(written: str | bytes) -> float:
    try:
        return float(written) if len(written) <= LETTERS else math.nan
    except ValueError:
        return math.nan


def column(outputs: Any) -> NDArray[Any]:
    """One number for each output."""
    if isinstance(outputs, np.ndarray):
        return outputs if outputs.ndim == 1 else np.full(len(outputs), np.nan)
    return np.array([number(value) for value in outputs], dtype=np.float64)


def singly(outputs: Any) -> list[Any]:
    """Outputs as plain values, also those in an array."""
    if not isinstance(outputs, np.ndarray):
        return list(outputs)
    return outputs.tolist() if outputs.ndim == 1 else [tuple(row) for row in outputs.tolist()]


def values(outputs: Any) -> list[Hashable]:
    """Outputs that can be looked up; every NaN is the same."""
    return [_same(value) for value in singly(outputs)]


def _same(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return tuple(map(_same, value))
    found: Hashable = "nan" if isinstance(value, float) and math.isnan(value) else value
    return found


class OutputRows:
    """Reads outputs as rows of this width. Where lengths differ, the last part is the length."""

    def __init__(self, width: int, *, ragged: bool) -> None:
        self.width, self._ragged = width, ragged
        self._last: tuple[Any, NDArray[Any]] | None = (
            None  # what was read last: several views ask for the same
        )

    @classmethod
    def of(cls, *batches: Any) -> OutputRows:
        """The reader for outputs like these."""
        widths = {batch.shape[1] for batch in batches if isinstance(batch, np.ndarray) and batch.ndim == 2}
        if len(widths) == 1 and all(isinstance(batch, np.ndarray) and batch.ndim == 2 for batch in batches):
            return cls(widths.pop(), ragged=False)
        return cls(1 + max(len(parts(value)) for batch in batches for value in singly(batch)), ragged=True)

    def __call__(self, outputs: Any) -> NDArray[Any]:
        if self._last is None or self._last[0] is not outputs:
            self._last = outputs, self._read(outputs)
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    def _read(self, outputs: Any) -> NDArray[Any]:
        as_array = isinstance(outputs, np.ndarray) and outputs.ndim == 2 and not self._ragged
        if as_array and outputs.shape[1] == self.width:
            found: NDArray[Any] = outputs
            return found
        rows = np.full((len(outputs), self.width), -1.0 if self._ragged else np.nan)
        for row, value in zip(rows, singly(outputs), strict=True):
            told = parts(value)
            if self._ragged:
                kept = told[: self.width - 1]
                row[: len(kept)], row[-1] = kept, len(told)
            elif isinstance(value, tuple) and len(told) == len(value) == self.width:
                row[:] = told
        return rows


@dataclass(frozen=True, slots=True)
class OutputPart:
    """Reads one part of each vector."""

    rows: OutputRows
    place: int

    def __call__(self, outputs: Any) -> Floats:
        return self.rows(outputs)[:, self.place].astype(np.float64)


def joined(pieces: Iterable[Any]) -> Any:
    """Batches as one."""
    batches = list(pieces)
    shapes = {(each.shape[1:], each.dtype.kind) if isinstance(each, np.ndarray) else None for each in batches}
    if len(shapes) == 1 and None not in shapes:
        return np.concatenate(batches)
    return [value for batch in batches for value in singly(batch)]
