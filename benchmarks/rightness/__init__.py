"""The bars of `benchmarks/right.py`, one module each: `measured(folder, smoke)` gives what it measured."""

from __future__ import annotations

Bar = tuple[str, float, str, float]  # name, what was measured, how it must compare, with what
