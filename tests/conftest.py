"""Fixtures that every kind of test may ask for."""

from tests.postgres import empty_database, postgres

__all__ = ["empty_database", "postgres"]
