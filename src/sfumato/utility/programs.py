"""Linear programs, solved by HiGHS: the one place that knows it.

What comes back is a point of floats that keeps the constraints to about 10^-10, and never exactly. Whatever
must hold is made to hold, and checked, by whoever asked (see `optimal`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter

try:
    import highspy
except ImportError:  # an extra: named when it is needed
    highspy = None  # type: ignore[assignment]

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Program:
    """Maximise objective . x over x >= 0, with rows low <= row . x <= high."""

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
    ) -> tuple[Floats, float]:
        """The best point and its value; or the refusal, which names what was to be found."""
        if highspy is None:
            raise ImportError('linear programs need HiGHS. Run: pip install "sfumato[optimal]"')
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.objective), len(self.lows)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = self.objective
        model.col_lower_ = np.zeros(len(self.objective))
        model.col_upper_ = np.full(len(self.objective), highspy.kHighsInf)
        model.row_lower_ = np.maximum(np.array(self.lows), -highspy.kHighsInf)
        model.row_upper_ = np.minimum(np.array(self.highs), highspy.kHighsInf)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.starts)
        model.a_matrix_.index_ = np.array(self.indices)
        model.a_matrix_.value_ = np.array(self.values)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(tolerance, 1e-10)
        solver.setOptionValue("small_matrix_value", 1e-12)
        solver.passModel(model)
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            told = solver.modelStatusToString(status)
            raise InvalidParameter(what, told, f"the solver did not come to an end: {advice}")
        return np.array(solver.getSolution().col_value), float(solver.getInfo().objective_function_value)
