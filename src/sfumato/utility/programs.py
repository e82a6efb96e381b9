"""Linear programs, solved by HiGHS: the one place that knows it.

The point that comes back is one of floats that keeps the constraints to about 10^-10, and never exactly.
Whatever must hold of it is made to hold, and checked, by whoever asked (see `optimal`).

The bound that comes back is sure. By weak duality every choice of multipliers proves one: if y . A >= c, then
c . x <= y . A x <= y . b for all points x. The solver's multipliers are as good a choice as any; where they
miss a column by a little, that much times its largest value, which is 1, is added; and all that floats may
round is added, too. So a wrong solver would make the bound worse, never false.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter

try:
    import highspy
except ImportError:  # an extra: named when it is needed
    highspy = None  # type: ignore[assignment]

Floats = NDArray[np.float64]
ULP = 2.0**-52
MOST_SECONDS = 300.0  # seconds that a program may take
SHARP = (2.0**6, 2.0**12)  # by which both sides are multiplied, so that a solver tolerates that much less
CLOSE = 1e-13  # how near a bound shall come to what was found


@dataclass(frozen=True, slots=True)
class Solved:
    """A point, its value, and what the value of no point exceeds."""

    point: Floats
    value: float
    bound: float


@dataclass(slots=True)
class Program:
    """Maximise objective . x over x >= 0, with rows low <= row . x <= high.

    The bound is one for points with no x above 1. For it to hold of a program in real numbers, its floats
    must be rounded so that they allow more.
    """

    objective: Floats
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    indices: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def row(self, indices: list[int], values: list[float], *, low: float, high: float) -> None:
        """One more constraint."""
        self.lows.append(low)
        self.highs.append(high)
        self.indices += indices
        self.values += values
        self.starts.append(len(self.indices))

    def solve(
        self, what: str, advice: str = "try an epsilon that is less extreme, or fewer secrets"
    ) -> Solved:
        """The best point and its value; or the refusal, which names what was to be found."""
        if highspy is None:
            raise ImportError('linear programs need HiGHS. Run: pip install "sfumato[optimal]"')
        try:
            found = self._solved(what, advice, SHARP[0])
        except InvalidParameter:  # it happens where coefficients are very small
            found = self._solved(what, advice, 1.0)
        if found.bound - found.value > CLOSE * max(1.0, abs(found.value)):  # solved more sharply, or less
            with suppress(InvalidParameter):
                found = min(found, self._solved(what, advice, SHARP[1]), key=lambda each: each.bound)
        return found

    def _solved(self, what: str, advice: str, sharp: float) -> Solved:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.objective), len(self.lows)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = self.objective * sharp
        model.col_lower_ = np.zeros(len(self.objective))
        model.col_upper_ = np.full(len(self.objective), highspy.kHighsInf)
        model.row_lower_ = np.maximum(np.array(self.lows) * sharp, -highspy.kHighsInf)
        model.row_upper_ = np.minimum(np.array(self.highs) * sharp, highspy.kHighsInf)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.starts)
        model.a_matrix_.index_ = np.array(self.indices)
        model.a_matrix_.value_ = np.array(self.values)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(tolerance, 1e-10)
        solver.setOptionValue("small_matrix_value", 1e-12)
        solver.setOptionValue("time_limit", MOST_SECONDS)
        solver.passModel(model)
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            told = solver.modelStatusToString(status)
            raise InvalidParameter(what, told, f"the solver did not finish: {advice}")
        solution, value = solver.getSolution(), float(solver.getInfo().objective_function_value)
        multipliers = np.array(solution.row_dual) / sharp
        found = [self._bound(multipliers), self._bound(self._sharpened(multipliers, solver))]
        bound = min((each for each in found if not math.isnan(each)), default=math.inf)
        return Solved(np.array(solution.col_value) / sharp, value / sharp**2, bound)

    def _sharpened(self, y: Floats, solver: highspy.Highs) -> Floats:
        """The multipliers with one more step of solving for the solver's basis: it neglects what is small."""
        basic: NDArray[np.int32] = solver.getBasicVariables()[1]  # type: ignore[attr-defined]  # it has
        columns = basic >= 0
        missed = np.where(columns, (self.objective - self._met(y))[np.where(columns, basic, 0)], 0.0)
        if not (size := float(np.abs(missed).max(initial=0.0))) > 0:
            return y
        step: Floats = solver.getBasisTransposeSolve(missed / size)[1]  # type: ignore[attr-defined]
        return y + step * size

    def _met(self, y: Floats, *, size: bool = False) -> Floats:
        """The rows (or the sizes of their values), times their multipliers, added up by columns."""
        values = np.array(self.values)
        terms = np.repeat(y, np.diff(self.starts)) * (np.abs(values) if size else values)
        found = np.bincount(self.indices, weights=terms, minlength=len(self.objective))
        return found.astype(np.float64)

    def _bound(self, multipliers: Floats) -> float:
        """What these multipliers prove; those of the wrong sign are none."""
        lows, highs = np.array(self.lows), np.array(self.highs)
        y = np.where(multipliers > 0, np.where(np.isfinite(highs), multipliers, 0.0), multipliers)
        y = np.where((y < 0) & ~np.isfinite(lows), 0.0, y)
        sides = np.where(y > 0, highs, np.where(y < 0, lows, 0.0))
        missed = self.objective - self._met(y)
        sizes = np.abs(self.objective) + self._met(np.abs(y), size=True)
        count = np.bincount(self.indices, minlength=len(self.objective))
        rounded = (count + 4) * ULP * sizes  # more than additions can lose
        proved = math.fsum(np.maximum(missed + rounded, 0.0)) + math.fsum(y * sides)
        return proved + 4 * ULP * (abs(proved) + math.fsum(np.abs(y * sides)))
