"""Files that hold data, and how one sees that they are others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Seen = tuple[tuple[str, int, int, int], ...]  # files: their inodes, sizes and times
State = list[tuple[str, int, int, int]]


def states_of(names: Iterable[str]) -> Seen:
    try:
        found = [(name, os.stat(name)) for name in names]
    except OSError:
        return ()
    return tuple((name, each.st_ino, each.st_size, each.st_mtime_ns) for name, each in found)


def log_of(path: Path) -> Path:
    """Where DuckDB writes changes before they are in the file."""
    return path.with_name(path.name + ".wal")
