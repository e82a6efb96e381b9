"""From SQL text to proven distances.

This room exists so that everything about a query is settled before a row is read: what it means, whether it
is allowed, and how far one person can move it. It never sees data and never talks to an engine. `policy` is
what the owner declared; `sql` reads the analyst's text by whitelist; `rewrite` bounds every person; `plan` is
the frozen result; `sensitivity` derives its distances.

It rests on: global sensitivity (Dwork, McSherry, Nissim and Smith, 2006) at the level of units that may own
many rows, each bounded by a function of that unit's rows alone (Wilson et al., 2020, section 3), and on the
truncating integer division that keeps a scaled vector's L1 norm below its cap.
"""
