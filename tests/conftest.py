"""Fixtures that every kind of test may ask for."""

from __future__ import annotations

import os
import tempfile

from tests.postgres import empty_database, postgres

__all__ = ["empty_database", "postgres"]

# ledgers note their last entry in the state folder of the user: tests have one of their own
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="sfumato-state-")
