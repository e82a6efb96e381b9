"""Writing a file whole or not at all: policies, and whatever stands beside them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def rewrite(path: Path, text: str) -> None:
    """Replace the text of a file; a link stays a link, and who may read it stays the same.

    A file that is new is for its owner's eyes alone.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, fresh)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
