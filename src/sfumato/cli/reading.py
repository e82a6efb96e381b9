"""`sfumato check --read`: the owner reads Parquet files through, before anybody asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sfumato.errors import InvalidParameter
from sfumato.queries import policy as policies
from sfumato.sources.duckdb import Parquet
from sfumato.sources.duckdb import read as read_files

if TYPE_CHECKING:
    from sfumato.queries.policy import Policy


def read(path: str, as_json: bool) -> None:
    """Read what the policy declares, and note it; or say which files cannot be read."""
    policy = policies.load(path)
    if not _needs_reading(policy):
        told = "omit it: a DuckDB file or a prepared copy has no unreadable values"
        raise InvalidParameter("--read", path, told)
    shown = [""]

    def progress(table: str, done: float) -> None:
        told = f"{table}: {100 * done:.0f}%"
        if not as_json and told != shown[0]:
            shown[0] = told
            click.echo(f"  reading {told}", err=True)

    read_files(policy, progress)


def is_read(policy: Policy) -> bool | None:
    """Whether its files were read through as they are; nothing if they need not be."""
    return Parquet(policy).is_read() if _needs_reading(policy) else None


def told(path: str, is_read: bool) -> str:
    """The same in words, and what to type next."""
    if is_read:
        return "  All declared columns of all files were read: no value makes a question fail."
    return (
        "  No question is answered yet: the files have not been checked in their current state. Next: "
        f"sfumato check --read {path}"
    )


def _needs_reading(policy: Policy) -> bool:
    return policy.source[0] == "parquet" and (policy.prepared is None or policy.automatic)
