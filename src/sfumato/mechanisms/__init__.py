"""What may be released: laws and bounds, nothing else.

A mechanism is a law for every exact answer and a bound for every distance between neighbours. It owns no
random generator and no data; the curator draws from the law, the ledger charges the bound. Arguments are
given by name: the orders of other libraries differ and invite mistakes.

    additive noise    Geometric, Gaussian, Staircase, Cube; on reals laplace(...), normal(...), OnGrid
    bounded ranges    Truncated; Renormalised (a warning)
    choosing          Exponential, PermuteAndFlip, NoisyMax, TopK; SparseVector (a conversation)
    everyone alone    RandomizedResponse
    the median        SmoothMedian; Quantiles, QuantileIntervals and Modes of many groups
    private groups    Partition
    finite            Table: any matrix of probabilities
    beside them       accuracy (theorems about errors), meaning (the Bayesian reading)

It rests on: Dwork, McSherry, Nissim and Smith (2006) for noise calibrated to the L1 distance; Ghosh,
Roughgarden and Sundararajan (2009) for the geometric mechanism and its optimality on counts; Canonne,
Kamath and Steinke (2020) for the discrete Gaussian; Geng and Viswanath (2014) for the staircase; McSherry
and Talwar (2007) and McKenna and Sheldon (2020) for selection; Lyu, Su and Li (2017) for the sparse vector;
Nissim, Raskhodnikova and Smith (2007) for smooth sensitivity; Warner (1965) for randomized response; Bun
and Steinke (2016) for the zCDP that pure privacy implies.
"""

from sfumato.mechanisms.cube import Cube
from sfumato.mechanisms.dependent import SmoothMedian
from sfumato.mechanisms.distance import Bound, Distance, Distances
from sfumato.mechanisms.grid import OnGrid, laplace, normal
from sfumato.mechanisms.guarantee import Guarantee
from sfumato.mechanisms.mechanism import (
    Additive,
    Conversation,
    Finite,
    Law,
    Line,
    Mechanism,
    Private,
    Spend,
    Step,
)
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Geometric
from sfumato.mechanisms.partition import Partition
from sfumato.mechanisms.quantiles import Modes, QuantileIntervals, Quantiles
from sfumato.mechanisms.ranges import Renormalised, Truncated
from sfumato.mechanisms.response import RandomizedResponse
from sfumato.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip, Selection, TopK
from sfumato.mechanisms.sparse import SparseVector
from sfumato.mechanisms.staircase import Staircase, Stairs
from sfumato.mechanisms.table import Table

__all__ = [
    "Additive",
    "Bound",
    "Conversation",
    "Cube",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Distance",
    "Distances",
    "Exponential",
    "Finite",
    "Gaussian",
    "Geometric",
    "Guarantee",
    "Law",
    "Line",
    "Mechanism",
    "Modes",
    "NoisyMax",
    "OnGrid",
    "Partition",
    "PermuteAndFlip",
    "Private",
    "QuantileIntervals",
    "Quantiles",
    "RandomizedResponse",
    "Renormalised",
    "Selection",
    "SmoothMedian",
    "SparseVector",
    "Spend",
    "Staircase",
    "Stairs",
    "Step",
    "Table",
    "TopK",
    "Truncated",
    "laplace",
    "normal",
]
