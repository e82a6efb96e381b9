"""What may be released: laws and bounds, nothing else.

A mechanism is a law for every exact answer and a bound for every distance between neighbours. It owns no
random generator and no data; the curator draws from the law, the ledger charges the bound.

It rests on: Dwork, McSherry, Nissim and Smith (2006) for noise calibrated to the L1 distance; Ghosh,
Roughgarden and Sundararajan (2009) for the geometric mechanism and its optimality on counts; Bun and Steinke
(2016) for the zCDP that pure privacy implies.
"""

from sfumato.mechanisms.guarantee import Guarantee
from sfumato.mechanisms.mechanism import (
    Additive,
    Bound,
    Distance,
    Distances,
    Law,
    Line,
    Mechanism,
    Private,
    Spend,
    Step,
)
from sfumato.mechanisms.noise import DiscreteLaplace, Geometric

__all__ = [
    "Additive",
    "Bound",
    "DiscreteLaplace",
    "Distance",
    "Distances",
    "Geometric",
    "Guarantee",
    "Law",
    "Line",
    "Mechanism",
    "Private",
    "Spend",
    "Step",
]
