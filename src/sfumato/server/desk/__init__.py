"""What may be asked through a server, by whom and how often; the same for every protocol.

people      who may come in: roles, tokens, passwords (scram)
desk        one question: turns, limits, retries, the access log
deadlines   when an answer leaves; watch and owner: what runs, and who must look

It rests on law 2 (a charge is never taken back: a lost connection only stops waiting), law 3 (time is an
output: `deadlines`) and SCRAM (RFC 5802, 7677).
"""
