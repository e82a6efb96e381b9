"""The Postgres protocol, version 3.

session     one connection: messages in, messages out
statements  what a statement is, and what is done about it
settings    SET and SHOW               cursors    DECLARE and FETCH
frames      the bytes of messages

It rests on `desk`: it adds no way to an answer; and on law 8: analysts' text never reaches an engine.
"""
