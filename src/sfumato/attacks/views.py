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
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.outputs import EXACT, OutputPart, OutputRows, Raised, column, joined, values

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numpy.typing import NDArray

    Cells = NDArray[np.int64]
    Floats = NDArray[np.float64]

ATOMS = 5000  # more different values than that are put into cells between quantiles
QUANTILES = 256
SHOWN = 6  # cells that are named in words
PARTS = 6  # of a vector are also looked at one by one
PRODUCTS = 16  # parts up to which products of two are formed
FEWER, ADDED = 64, 64  # quantiles of a part, and parts, whose evidence is added up
FIT = 50_000  # vectors of either input that teach a direction
ENOUGH = 1_000_000  # outputs by which what takes long is judged
LOOK = 5000  # outputs that say which parts of a vector tell most
ODD = "no number"


class View(ABC):
    """A map from outputs to cells 0 .. size - 1."""

    size: int
    in_line = False  # whether cells that follow each other hold numbers that do
    enough = 1 << 62  # outputs to judge it by

    @abstractmethod
    def cells(self, outputs: Any) -> Cells:
        """The cell of each output."""

    @abstractmethod
    def words(self, cells: Cells) -> str:
        """A set of cells, for people."""


class SeenValues(View):
    """Each value seen while learning is a cell; all others are one more."""

    def __init__(self, known: list[Any]) -> None:
        self._places = {value: i for i, value in enumerate(known)}
        self._values, self.size = known, len(known) + 1

    def cells(self, outputs: Any) -> Cells:
        other = len(self._values)
        return np.array([self._places.get(value, other) for value in values(outputs)], dtype=np.int64)

    def words(self, cells: Cells) -> str:
        names = [repr(self._values[i]) if i < len(self._values) else "any other" for i in cells]
        more = f", ... ({len(names)} values)" if len(names) > SHOWN else ""
        return f"the output is {', '.join(names[:SHOWN])}{more}"


class OutputKinds(SeenValues):
    """What sort of thing came out: a number, nothing, an error, a text."""

    def cells(self, outputs: Any) -> Cells:
        return super().cells([_kind(value) for value in values(outputs)])

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

    def __init__(self, cuts: Floats, name: str = "the output", read: OutputPart | None = None) -> None:
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
    """Sign, binade and lowest set bit of a float: 2 x 128 x 64 cells, and three for what is not finite."""

    size = 2 * 128 * 64 + 3

    def __init__(self, name: str = "the float", read: OutputPart | None = None) -> None:
        self._name, self._read = name, read

    def cells(self, outputs: Any) -> Cells:
        return self.of(self._read(outputs) if self._read else column(outputs).astype(np.float64))

    def of(self, numbers: Floats) -> Cells:
        """The cell of each number."""
        finite = np.isfinite(numbers)
        mantissa, exponent = np.frexp(np.where(finite, numbers, 0.0))
        whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64)  # 0 for zero, 1 .. 54
        binade = np.clip(exponent.astype(np.int64) + 64, 0, 127)
        cells: Cells = (np.signbit(numbers) * 128 + binade) * 64 + lowest
        odd = self.size - 1 - np.where(np.isnan(numbers), 0, np.where(numbers > 0, 1, 2))
        return np.where(finite, cells, odd)

    def words(self, cells: Cells) -> str:
        parts = []
        for cell in cells[:SHOWN]:
            if cell >= self.size - 3:
                parts.append(("no number", "+infinity", "-infinity")[self.size - 1 - int(cell)])
                continue
            rest, lowest = divmod(int(cell), 64)
            sign, binade = divmod(rest, 128)
            parts.append(f"{'-' if sign else '+'}2^{binade - 65} with lowest bit {lowest}")
        more = f" or {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
        return f"sign, size and lowest set bit of {self._name} are {' or '.join(parts)}{more}"


class Codes(View):
    """Vectors of few values, each written as one whole number, so that none has to be looked up singly."""

    def __init__(self, read: OutputRows, rows: NDArray[Any]) -> None:
        self._read = read
        self._low: list[int] = rows.min(axis=0).astype(np.int64).tolist()
        self._high: list[int] = rows.max(axis=0).astype(np.int64).tolist()
        self._codes: Cells = np.unique(self._coded(rows))
        self.size = len(self._codes) + 1

    @staticmethod
    def fit(rows: NDArray[Any]) -> bool:
        """Whether these vectors are whole and few enough."""
        if rows.dtype.kind == "f" and (not np.isfinite(rows).all() or (rows != np.floor(rows)).any()):
            return False
        if max(-int(rows.min()), int(rows.max())) >= EXACT:
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


class Direction(Between):
    """Cells along the direction that separates two sets of vectors best (Fisher, 1936).

    With `products`, the squares and products of parts count as parts: spreads and ties differ, too.
    """

    enough = ENOUGH

    def __init__(self, read: OutputRows, zero: Floats, one: Floats, *, products: bool = False) -> None:
        self._rows, self._products = read, products
        some = np.vstack([zero[:FIT], one[:FIT]])
        self._middle: Floats = np.median(some, axis=0)
        # heavy tails would drown a product
        reach = np.quantile(np.abs(some - self._middle), 0.99, axis=0)
        self._reach: Floats = np.where(reach > 0, reach, 1.0)
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

    enough = ENOUGH

    def __init__(self, read: OutputRows, kept: list[int], zero: Floats, one: Floats) -> None:
        self._rows, self._kept = read, kept
        self._parts: list[tuple[Floats, Floats]] = []
        for a, b in ((zero[:, i], one[:, i]) for i in kept):
            cuts = _cuts(np.concatenate([a, b]), min(FEWER, max(8, len(zero) // 200)))
            seen = [np.bincount(np.searchsorted(cuts, x), minlength=len(cuts) + 1) + 10 for x in (a, b)]
            self._parts.append((cuts, np.log(seen[0] / seen[1])))
        numbers = np.concatenate([self._added(zero), self._added(one)])
        super().__init__(_cuts(numbers), "the evidence of the parts, added up,")

    def numbers(self, outputs: Any) -> Floats:
        return self._added(_tame(self._rows(outputs)))

    def _added(self, rows: Floats) -> Floats:
        total: Floats = np.zeros(len(rows))
        for i, (cuts, tells) in zip(self._kept, self._parts, strict=True):
            total += tells[np.searchsorted(cuts, rows[:, i])]
        return total


def views_of(zero: Any, one: Any) -> Iterator[View]:
    """The views that fit these outputs."""
    both = joined([zero, one])
    if isinstance(both, np.ndarray):
        yield from _vectors(OutputRows.of(both), zero, one) if both.ndim > 1 else _on_a_line(both)
        return
    numbers = column(both)
    if all(isinstance(value, (bool, int, float)) for value in both):
        yield from _on_a_line(numbers)
        return
    seen = Counter(values(both))
    yield OutputKinds(list(dict.fromkeys(map(_kind, seen))))
    yield SeenValues([value for value, _ in seen.most_common(ATOMS * 20)])
    if not np.isnan(numbers).all():
        yield from _on_a_line(numbers)
    yield from _vectors(OutputRows.of(both), zero, one)


def _on_a_line(numbers: NDArray[Any]) -> Iterator[View]:
    if numbers.dtype.kind in "biu":
        low, high = int(numbers.min()), int(numbers.max())
        if high - low <= ATOMS and max(-low, high) < EXACT:
            yield Whole(low, high)
            return
        numbers = numbers.astype(np.float64)
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    yield Bits()
    if len(finite):
        if len(different := np.unique(finite)) <= ATOMS:
            yield SeenValues(different.tolist())
        yield Between(_cuts(finite))


def _vectors(read: OutputRows, first: Any, second: Any) -> Iterator[View]:
    rows, others = read(first), read(second)
    both = np.vstack([rows, others])
    few = False
    if Codes.fit(both):
        codes = Codes(read, both)
        few = codes.size <= ATOMS
        yield codes
    zero, one = _tame(rows), _tame(others)
    telling = _telling(read, zero, one, lambda part: np.searchsorted(_cuts(part, FEWER), part))
    for i in telling[:PARTS]:
        yield Between(
            _cuts(np.concatenate([zero[:, i], one[:, i]])), f"part {i + 1} of the output", OutputPart(read, i)
        )
    if both.dtype.kind == "f":
        for i in _telling(read, zero, one, Bits().of)[:PARTS]:
            yield Bits(f"part {i + 1}", OutputPart(read, i))
    yield Odds(read, telling[:ADDED], zero, one)
    yield Direction(read, zero, one)
    if read.width <= PRODUCTS and not few:  # a cell for each vector shows all that products do
        yield Direction(read, zero, one, products=True)


def _telling(read: OutputRows, zero: Floats, one: Floats, cells: Callable[[Floats], Cells]) -> list[int]:
    """The parts by how differently the first outputs of either input fall into cells of them."""
    few = min(LOOK, len(zero), len(one))

    def apart(i: int) -> float:
        found = cells(np.concatenate([zero[:few, i], one[:few, i]]))
        _, places = np.unique(found, return_inverse=True)
        sides = (np.bincount(side, minlength=places.max() + 1) for side in (places[:few], places[few:]))
        return float(np.abs(next(sides) - next(sides)).sum())

    return sorted(range(read.width), key=lambda i: -apart(i))


def _cuts(numbers: Floats, count: int = QUANTILES) -> Floats:
    """Quantiles; one that was seen more than once is cut on both sides: there may be an atom."""
    ordered = np.sort(numbers)
    cuts = np.unique(ordered[np.linspace(0, len(ordered) - 1, count + 1).round().astype(np.int64)])
    often = np.searchsorted(ordered, cuts, side="right") - np.searchsorted(ordered, cuts, side="left") > 1
    found: Floats = np.unique(np.concatenate([cuts, np.nextafter(cuts[often], -np.inf)]))
    return found


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


def _kind(value: Hashable) -> Hashable:
    if isinstance(value, (bool, int, float)) or value == "nan":
        return "a number"
    return repr(value) if isinstance(value, Raised) or value is None else f"a {type(value).__name__}"


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
