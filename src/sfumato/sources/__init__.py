"""Where tables live, and the only rooms an engine is imported in.

A source opens a database as safely as its engine allows, tells its schema (public), and runs a plan. What it
brings back is sealed in a `Secret` before anything can look at it, and any failure of the engine becomes one
fixed error without a chain (laws 1, 3 and 8). SQL is printed from the plan with our own type names:
`dialect` prints expressions, `tables` relations, `printing` whole queries, and `duckdb` runs them.

It rests on exact integer arithmetic: a sum of bounded integers in 128 bits is the same on every engine, in
every order and with any number of threads, so a distance proved on the plan holds for the number computed.
"""
