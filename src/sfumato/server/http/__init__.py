"""The HTTP API: `api` answers requests, `openapi` describes them.

It rests on `desk`: it adds no way to an answer.
"""
