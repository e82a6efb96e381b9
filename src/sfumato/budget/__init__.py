"""How much was promised and spent.

This room exists because a promise about one answer is worth nothing if answers can be asked without end. The
budget belongs to the database, since analysts may collude (law 4). `record` is the stored form of what was
run; `ledger` charges before data are read and keeps a release before it is shown; `composition` holds the
textbook's rules for what several releases cost together.

It rests on: basic composition (Dwork and Roth, 2014, theorem 3.14) and on the fact that a sum of epsilons is
a valid gate under fully adaptive choice (Rogers, Roth, Ullman and Vadhan, 2016); for numbers fixed in advance
on Kairouz, Oh and Viswanath (2015).
"""

from sfumato.budget.ledger import Draw, Entry, Kept, Ledger, Receipt

__all__ = ["Draw", "Entry", "Kept", "Ledger", "Receipt"]
