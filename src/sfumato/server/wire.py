"""stub"""

from __future__ import annotations
from typing import Any


class Door:
    def __init__(self, *a: Any) -> None: ...
    async def open(self, s: Any) -> None: ...
    async def close(self) -> None: ...
