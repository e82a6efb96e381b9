"""Ways to look at outputs: each puts every output into one of finitely many cells.

An auditor needs few cells that tell much. Which ones cannot be known in advance, so several views are tried
on the outputs that may be looked at: the values themselves, if they are few; cells between quantiles; for
floats the sign, the binade and the lowest bit that is set, where sloppy arithmetic leaves its traces; for
vectors a line that separates best.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Cells = NDArray[np.int64]
    Floats = NDArray[np.float64]

ATOMS = 5000  # more different values than that are put into cells between quantiles
QUANTILES = 256
SHOWN = 6  # cells that are named in words


class View(ABC):
    """A map from outputs to cells 0 .. size - 1."""

    size: int

    @abstractmethod
    def cells(self, outputs: Any) -> Cells:
        """The cell of each output."""

    @abstractmethod
    def words(self, cells: Cells) -> str:
        """A set of cells, for people."""


class Atoms(View):
    """Each value seen while learning is a cell; all others are one more."""

    def __init__(self, values: list[Any]) -> None:
        self._places = {value: i for i, value in enumerate(values)}
        self._values, self.size = values, len(values) + 1

    def cells(self, outputs: Any) -> Cells:
        other = len(self._values)
        return np.array([self._places.get(value, other) for value in _hashable(outputs)], dtype=np.int64)

    def words(self, cells: Cells) -> str:
        names = [repr(self._values[i]) if i < len(self._values) else "any other" for i in cells]
        more = f", ... ({len(names)} values)" if len(names) > SHOWN else ""
        return f"the output is {', '.join(names[:SHOWN])}{more}"


class Whole(View):
    """The same for whole numbers in a range, which are counted without looking each one up."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high, self.size = low, high, high - low + 3

    def cells(self, outputs: Any) -> Cells:
        numbers = _column(outputs)
        cells: Cells = np.clip(numbers, self._low - 1, self._high + 1).astype(np.int64) - (self._low - 1)
        return cells

    def words(self, cells: Cells) -> str:
        return f"the output is {_ranges(np.sort(cells) + self._low - 1, self._low - 1, self._high + 1)}"


class Between(View):
    """Cells between cut points; a cut point belongs to the cell below it."""

    def __init__(self, cuts: Floats, name: str = "the output") -> None:
        self._cuts, self._name, self.size = cuts, name, len(cuts) + 1

    def cells(self, outputs: Any) -> Cells:
        cells: Cells = np.searchsorted(self._cuts, self.numbers(outputs), side="left").astype(np.int64)
        return cells

    def numbers(self, outputs: Any) -> Floats:
        """What is cut."""
        return _column(outputs).astype(np.float64)

    def words(self, cells: Cells) -> str:
        ends = [-math.inf, *self._cuts.tolist(), math.inf]
        parts, runs = [], np.split(np.sort(cells), np.flatnonzero(np.diff(np.sort(cells)) != 1) + 1)
        for run in runs[:SHOWN]:
            parts.append(f"({ends[run[0]]:.6g}, {ends[run[-1] + 1]:.6g}]")
        more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
        return f"{self._name} lies in {' or '.join(parts)}{more}"


class Bits(View):
    """Sign, binade and lowest set bit of a float: 2 x 128 x 64 cells, and one for what is no number."""

    size = 2 * 128 * 64 + 1

    def cells(self, outputs: Any) -> Cells:
        numbers = _column(outputs).astype(np.float64)
        mantissa, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))
        whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64)  # 0 for zero, 1 .. 54
        binade = np.clip(exponent.astype(np.int64) + 64, 0, 127)
        cells: Cells = (np.signbit(numbers) * 128 + binade) * 64 + lowest
        return np.where(np.isfinite(numbers), cells, self.size - 1)

    def words(self, cells: Cells) -> str:
        parts = []
        for cell in cells[:SHOWN]:
            if cell == self.size - 1:
                parts.append("it is not finite")
                continue
            rest, lowest = divmod(int(cell), 64)
            sign, binade = divmod(rest, 128)
            parts.append(f"{'-' if sign else '+'}2^{binade - 65} with lowest bit {lowest}")
        more = f" or {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
        return f"sign, size and lowest set bit of the float are {' or '.join(parts)}{more}"


class Line(Between):
    """Cells along the direction that separates two sets of vectors best (Fisher, 1936)."""

    def __init__(self, zero: Any, one: Any) -> None:
        a, b = _matrix(zero), _matrix(one)
        spread = np.cov(np.vstack([a - a.mean(axis=0), b - b.mean(axis=0)]).T).reshape(a.shape[1], a.shape[1])
        ridge = 1e-9 * (np.trace(spread) + 1e-12) * np.eye(len(spread))
        self._weights = np.linalg.solve(spread + ridge, a.mean(axis=0) - b.mean(axis=0))
        super().__init__(
            _cuts(np.concatenate([a @ self._weights, b @ self._weights])), "a weighted sum of the parts"
        )

    def numbers(self, outputs: Any) -> Floats:
        numbers: Floats = _matrix(outputs) @ self._weights
        return numbers


def views_of(zero: Any, one: Any) -> Iterator[View]:
    """The views that fit these outputs."""
    first = _as_array(zero)
    both = [_as_array(zero), _as_array(one)]
    if first is None or first.dtype == object or any(each is None for each in both):
        values = list(dict.fromkeys([*_hashable(zero), *_hashable(one)]))
        if len(values) <= ATOMS * 20:
            yield Atoms(values)
        return
    pooled = np.concatenate([each for each in both if each is not None])
    if first.ndim > 1:
        values = list(dict.fromkeys(_hashable(pooled)))
        if len(values) <= ATOMS:
            yield Atoms(values)
        yield Line(zero, one)
        return
    if np.issubdtype(first.dtype, np.integer) or first.dtype == bool:
        low, high = int(pooled.min()), int(pooled.max())
        if high - low <= ATOMS:
            yield Whole(low, high)
        else:
            yield Between(_cuts(pooled.astype(np.float64)))
        return
    finite = pooled[np.isfinite(pooled)]
    yield Bits()
    if len(different := np.unique(finite)) <= ATOMS:
        yield Atoms(different.tolist())
    if len(finite):
        yield Between(_cuts(finite))


def _cuts(numbers: Floats) -> Floats:
    """Quantiles, and the values that stand out: a law with an atom is cut on both sides of it."""
    cuts: Floats = np.unique(np.quantile(numbers, np.linspace(0, 1, QUANTILES + 1)))
    below = np.nextafter(cuts, -np.inf)
    return np.unique(np.concatenate([cuts, below]))


def _as_array(outputs: Any) -> NDArray[Any] | None:
    """Numbers as an array of one or two dimensions; None for anything else."""
    if not len(outputs):
        return None
    kind = type(outputs[0])
    if not (
        isinstance(outputs, np.ndarray)
        or kind in (int, float, bool, tuple, list)
        or issubclass(kind, np.generic)
    ):
        return None
    try:
        found = np.asarray(outputs)
    except ValueError:
        return None  # vectors of several lengths
    if found.dtype.kind not in "biuf" or found.ndim > 2:
        return None
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def _column(outputs: Any) -> NDArray[Any]:
    """Numbers, of which each may be a vector of length one."""
    found = np.asarray(outputs)
    return found.reshape(len(found))


def _matrix(outputs: Any) -> Floats:
    matrix: Floats = np.nan_to_num(np.asarray(outputs, dtype=np.float64), posinf=1e12, neginf=-1e12)
    return matrix


def _hashable(outputs: Any) -> list[Any]:
    values = outputs.tolist() if isinstance(outputs, np.ndarray) else list(outputs)
    return [_frozen(value) for value in values]


def _frozen(value: Any) -> Any:
    """Something that can be looked up: lists as tuples, what else cannot as its text."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return value if isinstance(value, Hashable) else repr(value)


def _ranges(numbers: Cells, low: int, high: int) -> str:
    """Whole numbers as ranges: "-3 .. 0, 7"; the first and last stand for all beyond."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)

    def words(run: Cells) -> str:
        first, last = int(run[0]), int(run[-1])
        if first <= low:
            return f"at most {last}"
        if last >= high:
            return f"at least {first}"
        return f"{first}" if first == last else f"{first} .. {last}"

    more = f" or {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
    return " or ".join(words(run) for run in runs[:SHOWN]) + more
