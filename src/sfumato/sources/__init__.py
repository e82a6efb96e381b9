"""Where tables live, and the only rooms an engine is imported in.

A source opens a database as safely as its engine allows, tells its schema (public), and runs a plan. What it
brings back is sealed in a `Secret` before anything can look at it, and any failure of the engine becomes one
fixed error without a chain (laws 1, 3 and 8).

A plan reaches an engine as a `Work`: a tree of few operators, in which every bound of a person is one
(`work`). `lower` makes it, from `relations`, `values` and `adding`; `printing` writes it as SQL with the
texts of a `Dialect`; `reference` carries it out in plain Python, for engines to be compared with.

It rests on exact integer arithmetic: a sum of bounded integers in 128 bits is the same on every engine, in
every order and with any number of threads, so a distance proved on the tree holds for the number computed.
"""
