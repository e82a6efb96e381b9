"""From SQL text to proven distances.

This room exists so that everything about a query is settled before a row is read: what it means, whether it
is allowed, and how far one person can move it. It never sees data and never talks to an engine.

    policy          what the owner declared
    sql, syntax     the analyst's text as nodes of our own, by whitelist
    statement       a text that was read once, with its values and its dialect (postgres says what that means)
    reading         nodes become expressions on one row (expressions, functions; moments, letters)
    rows            FROM, JOIN, WITH, subqueries become relations: each row belongs to one unit (relations)
    asking          the SELECT that is released: groups, aggregates, what is shown
    rewrite         aggregates become histograms of which one person fills only so much
    plan            the frozen result; shown says what is made of released numbers
    splitting       where a text has questions below, and released rows above (outer, made, madewords)
    joins           FROM as people write it, as joins with conditions
    dialects        texts in BigQuery's, T-SQL's, MySQL's and Snowflake's dialect, in ours
    sensitivity     its distances, and why; words says it in SQL's words

It rests on: global sensitivity (Dwork, McSherry, Nissim and Smith, 2006) at the level of units that may own
many rows, each bounded by a function of that unit's rows alone (Wilson et al., 2020, section 3); on separable
relations, whose rows are a disjoint union over units (docs/explanation/distances.md#separable-relations); and
on the truncating integer division that keeps a scaled vector's L1 norm below its cap; and, for what stands
above a release, on the closure of differential privacy under post-processing
(docs/explanation/after-release.md).
"""
