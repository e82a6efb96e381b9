"""What pg_catalog and information_schema say about the policy's tables, for the tools that look there.

catalog     the tables and their rows     values      types: how they are named, read and written
lookup      queries on them, read and answered here: none reaches an engine (evaluate, scalars, patterns)

It rests on law 8: analysts' text never reaches an engine, nor that of a query on the catalog.
"""
