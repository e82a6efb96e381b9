"""What was promised and spent, on disk.

ledger      charges before data are read and keeps a release before it is shown; one writer for all who
            wait in the `queue`
chain       the entries: each holds the hash of the one before      entries   what they look like
shelf       which stored release answers a question                 record    how what was run is stored
store       SQLite (or `postgres`) under it                         witness   where the ledger stood
shares      allowances of analysts      subjects   whose units a charge is about     bodies   whose data

It rests on law 2 (charge, run, draw, store, send), law 4 (one budget for everybody) and on filters
(`budget.accounting.filters`).
"""
