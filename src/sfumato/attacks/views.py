"""Ways to look at outputs: each puts every output into one of finitely many cells.

An auditor needs few cells that tell much. Which ones cannot be known in advance, so several views are tried
on the outputs that may be looked at: the values themselves, if they are few; cells between quantiles; for
floats the sign, the binade and the lowest bit that is set, where sloppy arithmetic leaves its traces; for
vectors each part, what all parts tell together, and the sum of parts (and of their products) that separates
best; for anything else, what kind of thing came out.

A view has a cell for every output there can be, also for one it has never seen, and the cell depends on that
output alone, never on those that were drawn with it: a count of independent outputs stays one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
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
PARTS = 6  # of a vector are also looked at one by one
PRODUCTS = 8  # parts up to which products of two are formed
FEWER, ADDED = 64, 64  # quantiles of a part, and parts, whose evidence is added up
FIT = 50_000  # vectors of either input that teach a direction
ODD = "no number"


class View(ABC):
    """A map from outputs to cells 0 .. size - 1."""

    size: int
    in_line = False  # whether cells that follow each other hold numbers that do

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
        return np.array([self._places.get(value, other) for value in hashable(outputs)], dtype=np.int64)

    def words(self, cells: Cells) -> str:
        names = [repr(self._values[i]) if i < len(self._values) else "any other" for i in cells]
        more = f", ... ({len(names)} values)" if len(names) > SHOWN else ""
        return f"the output is {', '.join(names[:SHOWN])}{more}"


class Kinds(Atoms):
    """What sort of thing came out: a number, nothing, an error, a text."""

    def cells(self, outputs: Any) -> Cells:
        return super().cells([_kind(value) for value in outputs])

    def words(self, cells: Cells) -> str:
        return super().words(cells).replace("'", "")


class Whole(View):
    """The same for whole numbers in a range, which are counted without looking each one up."""

    in_line = True

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high, self.size = low, high, high - low + 4

    def cells(self, outputs: Any) -> Cells:
        numbers = column(outputs)
        if numbers.dtype.kind == "f":
            fine = np.isfinite(numbers) & (numbers == np.floor(numbers))
            inside = _clipped(np.where(fine, numbers, 0.0), self._low - 1, self._high + 1)
            return np.where(fine, inside - (self._low - 1), self.size - 1)
        return _clipped(numbers, self._low - 1, self._high + 1) - (self._low - 1)

    def words(self, cells: Cells) -> str:
        numbers = np.sort(cells[cells < self.size - 1]) + self._low - 1
        parts = [_ranges(numbers, self._low - 1, self._high + 1)] if len(numbers) else []
        if len(numbers) < len(cells):
            parts.append("no whole number")
        return f"the output is {' or '.join(parts)}"


class Between(View):
    """Cells between cut points, each of which belongs to the cell below it; the last is for no number."""

    in_line = True

    def __init__(self, cuts: Floats, name: str = "the output", read: Part | None = None) -> None:
        self._cuts, self._name, self._read, self.size = cuts, name, read, len(cuts) + 2

    def cells(self, outputs: Any) -> Cells:
        numbers = self.numbers(outputs)
        cells: Cells = np.searchsorted(self._cuts, numbers, side="left").astype(np.int64)
        return np.where(np.isnan(numbers), self.size - 1, cells)

    def numbers(self, outputs: Any) -> Floats:
        """What is cut."""
        return self._read(outputs) if self._read else column(outputs).astype(np.float64)

    def words(self, cells: Cells) -> str:
        ends = [-math.inf, *self._cuts.tolist(), math.inf]
        inside = np.sort(cells[cells < self.size - 1])
        runs = np.split(inside, np.flatnonzero(np.diff(inside) != 1) + 1) if len(inside) else []
        parts = [_stretch(ends[run[0]], ends[run[-1] + 1]) for run in runs[:SHOWN]]
        if len(inside) < len(cells):
            parts.append(ODD)
        more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
        return f"{self._name} is {' or '.join(parts)}{more}"


class Bits(View):
    """Sign, binade and lowest set bit of a float: 2 x 128 x 64 cells, and one for what is no number."""

    size = 2 * 128 * 64 + 1

    def __init__(self, name: str = "the float", read: Part | None = None) -> None:
        self._name, self._read = name, read

    def cells(self, outputs: Any) -> Cells:
        numbers = self._read(outputs) if self._read else column(outputs).astype(np.float64)
        finite = np.isfinite(numbers)
        mantissa, exponent = np.frexp(np.where(finite, numbers, 0.0))
        whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64)  # 0 for zero, 1 .. 54
        binade = np.clip(exponent.astype(np.int64) + 64, 0, 127)
        cells: Cells = (np.signbit(numbers) * 128 + binade) * 64 + lowest
        return np.where(finite, cells, self.size - 1)

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
        return f"sign, size and lowest set bit of {self._name} are {' or '.join(parts)}{more}"


class Codes(View):
    """Vectors of few values, each written as one whole number, so that none has to be looked up singly."""

    def __init__(self, read: Rows, rows: NDArray[Any]) -> None:
        self._read = read
        self._low: list[int] = rows.min(axis=0).astype(np.int64).tolist()
        self._high: list[int] = rows.max(axis=0).astype(np.int64).tolist()
        self._codes: Cells = np.unique(self._coded(rows))
        self.size = len(self._codes) + 1

    @staticmethod
    def fit(rows: NDArray[Any]) -> bool:
        """Whether these vectors are whole and few enough."""
        if not np.isfinite(rows).all() or (rows != np.floor(rows)).any():
            return False
        spans = rows.max(axis=0) * 1.0 - rows.min(axis=0) + 3
        return bool(np.log2(spans).sum() < 62)

    def _coded(self, rows: NDArray[Any]) -> Cells:
        codes: Cells = np.zeros(len(rows), dtype=np.int64)
        for i, (low, high) in enumerate(zip(self._low, self._high, strict=True)):
            codes *= high - low + 3
            codes += _clipped(rows[:, i], low - 1, high + 1) - (low - 1)
        return codes

    def cells(self, outputs: Any) -> Cells:
        codes = self._coded(self._read(outputs))
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[places] == codes, places, self.size - 1)

    def words(self, cells: Cells) -> str:
        names = []
        for cell in cells[:SHOWN]:
            if cell == self.size - 1:
                names.append("any other")
                continue
            code, digits = int(self._codes[cell]), []
            for low, high in zip(self._low[::-1], self._high[::-1], strict=True):
                code, digit = divmod(code, high - low + 3)
                digits.append(low - 1 + digit)
            names.append(f"({', '.join(map(str, digits[::-1]))})")
        more = f", ... ({len(cells)} values)" if len(cells) > SHOWN else ""
        return f"the output is {', '.join(names)}{more}"


class Line(Between):
    """Cells along the direction that separates two sets of vectors best (Fisher, 1936).

    With `products`, the squares and products of parts count as parts: spreads and ties differ, too.
    """

    def __init__(self, read: Rows, zero: Floats, one: Floats, *, products: bool = False) -> None:
        self._rows, self._products = read, products
        some = np.vstack([zero[:FIT], one[:FIT]])
        self._middle: Floats = np.median(some, axis=0)
        # heavy tails would drown a product
        self._reach: Floats = np.quantile(np.abs(some - self._middle), 0.99, axis=0) + 1e-300
        a, b = (np.stack(list(self._features(rows[:FIT])), axis=1) for rows in (zero, one))
        spread = np.cov(np.vstack([a - a.mean(axis=0), b - b.mean(axis=0)]).T).reshape(a.shape[1], a.shape[1])
        ridge = 1e-9 * (np.trace(spread) + 1e-12) * np.eye(len(spread))
        self._weights: Floats = np.linalg.solve(spread + ridge, a.mean(axis=0) - b.mean(axis=0))
        what = "a weighted sum of the parts" + (" and their products" if products else "")
        super().__init__(_cuts(np.concatenate([self._along(zero), self._along(one)])), what)

    def _features(self, rows: Floats) -> Iterator[Floats]:
        if not self._products:
            yield from np.ascontiguousarray(rows.T)
            return
        parts = np.ascontiguousarray(np.clip((rows - self._middle) / self._reach, -1, 1).T)
        yield from parts
        for i, j in combinations_with_replacement(range(len(parts)), 2):
            yield parts[i] * parts[j]

    def numbers(self, outputs: Any) -> Floats:
        return self._along(_tame(self._rows(outputs)))

    def _along(self, rows: Floats) -> Floats:
        """The weighted sums, part by part: a product of matrices rounds as the size of the batch has it."""
        total: Floats = np.zeros(len(rows))
        for part, weight in zip(self._features(rows), self._weights, strict=True):
            total += part * weight
        return total


class Odds(Between):
    """Cells along the sum of what each part tells by itself: best where noise on the parts is independent."""

    def __init__(self, read: Rows, zero: Floats, one: Floats) -> None:
        self._rows = read
        self._parts: list[tuple[Floats, Floats]] = []
        for a, b in zip(zero.T[:ADDED], one.T[:ADDED], strict=True):
            cuts = _cuts(np.concatenate([a, b]), min(FEWER, max(8, len(zero) // 200)))
            seen = [np.bincount(np.searchsorted(cuts, x), minlength=len(cuts) + 1) + 10 for x in (a, b)]
            self._parts.append((cuts, np.log(seen[0] / seen[1])))
        numbers = np.concatenate([self._added(zero), self._added(one)])
        super().__init__(_cuts(numbers), "what the parts tell, added up,")

    def numbers(self, outputs: Any) -> Floats:
        return self._added(_tame(self._rows(outputs)))

    def _added(self, rows: Floats) -> Floats:
        total: Floats = np.zeros(len(rows))
        for part, (cuts, tells) in zip(rows.T, self._parts, strict=False):
            total += tells[np.searchsorted(cuts, part)]
        return total


def views_of(zero: Any, one: Any) -> Iterator[View]:
    """The views that fit these outputs."""
    both = [*zero, *one] if _is_list(zero) or _is_list(one) else np.concatenate([zero, one])
    numbers = _numeric(both)
    if numbers is None:
        seen = Counter(hashable(both))
        yield Kinds(list(dict.fromkeys(map(_kind, both))))
        yield Atoms([value for value, _ in seen.most_common(ATOMS * 20)])
        if any(isinstance(value, (int, float, np.number)) for value in both):
            yield from _on_a_line(column(both))
        elif any(_is_vector(value) for value in both):
            yield from _vectors(Rows.of(both), zero, one)
    elif numbers.ndim > 1:
        yield from _vectors(Rows.of(both), zero, one)
    else:
        yield from _on_a_line(numbers)


def _on_a_line(numbers: NDArray[Any]) -> Iterator[View]:
    if numbers.dtype.kind in "biu":
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= ATOMS:
            yield Whole(low, high)
            return
        numbers = numbers.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return
    yield Bits()
    if len(different := np.unique(finite)) <= ATOMS:
        yield Atoms(different.tolist())
    yield Between(_cuts(finite))


def _vectors(read: Rows, first: Any, second: Any) -> Iterator[View]:
    zero, one = read(first), read(second)
    both = np.vstack([zero, one])
    if Codes.fit(both):
        yield Codes(read, both)
    for i in range(min(read.width, PARTS)):
        part = both[:, i].astype(np.float64)
        finite = part[np.isfinite(part)]
        if len(finite):
            yield Between(_cuts(finite), f"part {i + 1} of the output", Part(read, i))
            if (finite != np.floor(finite)).any():
                yield Bits(f"part {i + 1}", Part(read, i))
    zero, one = _tame(zero), _tame(one)
    yield Odds(read, zero, one)
    yield Line(read, zero, one)
    if read.width <= PRODUCTS:
        yield Line(read, zero, one, products=True)


def _cuts(numbers: Floats, count: int = QUANTILES) -> Floats:
    """Quantiles; one that was seen more than once is cut on both sides: there may be an atom."""
    ordered = np.sort(numbers)
    cuts = np.unique(ordered[np.linspace(0, len(ordered) - 1, count + 1).round().astype(np.int64)])
    often = np.searchsorted(ordered, cuts, side="right") - np.searchsorted(ordered, cuts, side="left") > 1
    found: Floats = np.unique(np.concatenate([cuts, np.nextafter(cuts[often], -np.inf)]))
    return found


# Outputs as numbers: whatever does not fit becomes NaN, for which every view has a cell ------------------


def _numeric(outputs: Any) -> NDArray[Any] | None:
    """Numbers as an array of one or two dimensions; None for anything else."""
    try:
        found = np.asarray(outputs)
    except ValueError:
        return None  # vectors of several lengths
    if found.dtype.kind not in "biuf" or not found.ndim:
        return None
    found = found.reshape(len(found), -1) if found.ndim > 1 else found
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def column(outputs: Any) -> NDArray[Any]:
    """One number for each output."""
    found = _numeric(outputs)
    if found is not None and found.ndim == 1:
        return found
    return np.array([_number(value) for value in outputs], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Reads vectors as rows of this width. Where lengths differ, the last part is the length."""

    width: int
    ragged: bool

    @classmethod
    def of(cls, outputs: Any) -> Rows:
        """The reader for vectors like these."""
        found = _numeric(outputs)
        if found is not None:
            return cls(found.shape[1], ragged=False)
        return cls(1 + max(len(_parts(value)) for value in outputs if _is_vector(value)), ragged=True)

    def __call__(self, outputs: Any) -> NDArray[Any]:
        found = _numeric(outputs)
        if found is not None and found.ndim == 2 and found.shape[1] == self.width and not self.ragged:
            return found
        rows = np.full((len(outputs), self.width), -1.0 if self.ragged else np.nan)
        for row, value in zip(rows, outputs, strict=True):
            parts = [_number(part) for part in _parts(value)] if _is_vector(value) else []
            if self.ragged:
                kept = parts[: self.width - 1]
                row[: len(kept)], row[-1] = kept, len(parts)
            elif len(parts) == self.width:
                row[:] = parts
        return rows


@dataclass(frozen=True, slots=True)
class Part:
    """Reads one part of each vector."""

    rows: Rows
    place: int

    def __call__(self, outputs: Any) -> Floats:
        return self.rows(outputs)[:, self.place].astype(np.float64)


def hashable(outputs: Any) -> list[Any]:
    """Outputs that can be looked up."""
    values = outputs.tolist() if isinstance(outputs, np.ndarray) else list(outputs)
    return [_frozen(value) for value in values]


def _clipped(numbers: NDArray[Any], low: int, high: int) -> Cells:
    """Whole numbers moved into a range; what is no number becomes the lowest."""
    if numbers.dtype.kind == "f" or numbers.dtype == np.uint64:
        numbers = np.nan_to_num(numbers.astype(np.float64), nan=-np.inf)
    else:
        numbers = numbers.astype(np.int64)  # a byte cannot hold what lies beyond its range
    clipped: Cells = np.clip(numbers, low, high).astype(np.int64)
    return clipped


def _tame(rows: Floats) -> Floats:
    tame: Floats = np.nan_to_num(rows.astype(np.float64), nan=-1e12, posinf=1e12, neginf=-1e12)
    return tame


def _number(value: Any) -> float:
    if _is_vector(value) and len(parts := _parts(value)) == 1:
        value = parts[0]
    if isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return math.nan


def _parts(value: Any) -> list[Any]:
    """A vector, however deep, as one row."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return [part for each in value for part in _parts(each)] if isinstance(value, (tuple, list)) else [value]


def _is_list(outputs: Any) -> bool:
    return not isinstance(outputs, np.ndarray)


def _is_vector(value: Any) -> bool:
    return isinstance(value, (tuple, list, np.ndarray))


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return repr(value) if kind == "Raised" else f"a {kind}" if value is not None else "None"


def _frozen(value: Any) -> Any:
    """Something to look up: lists as tuples, what else cannot be as its text; every NaN is the same."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, Mapping):
        return tuple((_frozen(key), _frozen(each)) for key, each in value.items())
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value if isinstance(value, Hashable) else repr(value)


def _stretch(low: float, high: float) -> str:
    if math.isinf(low):
        return f"at most {high:.6g}"
    if math.isinf(high):
        return f"above {low:.6g}"
    ends = f"{low:.6g}", f"{high:.6g}"
    return ends[1] if ends[0] == ends[1] else f"in ({ends[0]}, {ends[1]}]"


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
