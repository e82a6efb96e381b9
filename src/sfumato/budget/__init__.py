"""How much was promised and spent.

This room exists because a promise about one answer is worth nothing if answers can be asked without end. The
budget belongs to the database, since analysts may collude (law 4).

    accounting   what releases cost together: theorems, without a ledger
    ledger       what was promised and spent, on disk: charged before data are read

It rests on: basic composition (Dwork and Roth, 2014, theorem 3.14); sums as filters under fully adaptive
choice (Rogers, Roth, Ullman and Vadhan, 2016; Feldman and Zrnic, 2021; Whitehouse, Ramdas, Rogers and Wu,
2023); for steps fixed in advance on Kairouz, Oh and Viswanath (2015) and on dominating pairs (Zhu, Dong and
Wang, 2022).
"""

from sfumato.budget.ledger.entries import Draw, Entry, Kept, OpenCharge, Receipt
from sfumato.budget.ledger.ledger import Ledger
from sfumato.budget.ledger.shares import Share

__all__ = ["Draw", "Entry", "Kept", "Ledger", "OpenCharge", "Receipt", "Share"]
