"""The doors: people, an HTTP API and a Postgres wire door onto the same curator.

Only a server makes the analyst untrusted for real: data and ledger live where she cannot touch them. This
room adds no way to an answer. Every door goes through one `desk`, which asks the curator and nobody else, so
what the curator promises holds here: one budget, one ledger, one stored release for one question.

It rests on: law 2 (a charge is never taken back, so a cancel or a lost connection only stops waiting),
law 3 (errors are outputs, and so is time: `deadlines`), law 8 (analysts' text never reaches an engine: also
not that of a catalog query, which `lookup` reads itself), and SCRAM (RFC 5802, 7677) for who comes in.

    desk        who may ask what, how often, and when an answer leaves: the same for every protocol
    http        the HTTP API
    postgres    the Postgres protocol
    catalog     what pg_catalog says of the policy's tables, and queries on it
    workers     processes, sockets, stopping
"""
