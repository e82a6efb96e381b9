"""How much was promised and spent.

This room exists because a promise about one answer is worth nothing if answers can be asked without end. The
budget belongs to the database, since analysts may collude (law 4).

What releases cost together: `composition` has the textbook's rules, `loss` the tight one for steps that are
planned (from the `atoms` of each), `filters` those that hold when every question depends on the answers
before; `limits` says what no mechanism can do. What was promised and spent: `ledger` charges before data are
read and keeps a release before it is shown, as entries in a `store` (SQLite, or `postgres`), for everybody
who waits in the `queue`; `record` is the stored form of what was run, `shares` are allowances, and a
`witness` remembers where the ledger stood.

It rests on: basic composition (Dwork and Roth, 2014, theorem 3.14); sums as filters under fully adaptive
choice (Rogers, Roth, Ullman and Vadhan, 2016; Feldman and Zrnic, 2021; Whitehouse, Ramdas, Rogers and Wu,
2023); for steps fixed in advance on Kairouz, Oh and Viswanath (2015) and on dominating pairs (Zhu, Dong and
Wang, 2022).
"""

from sfumato.budget.entries import Draw, Entry, Kept, Receipt
from sfumato.budget.ledger import Ledger
from sfumato.budget.shares import Share

__all__ = ["Draw", "Entry", "Kept", "Ledger", "Receipt", "Share"]
