"""The command line: the same path as the library, for people who type.

This room exists for owners and analysts who do not write Python. It holds no rule of its own: every command
calls the curator, prints what comes back, and turns each of our errors into a message and an exit code, never
a traceback. `main` has the commands, `start` writes a policy from a schema, `demo` is a guided tour.
"""
