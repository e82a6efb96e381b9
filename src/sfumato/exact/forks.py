"""One lock for everything that must be at rest when the process forks.

A fork copies memory while other threads are in the middle of things: a lock they held stays locked for ever
in the child, and a database library's bookkeeping is copied half done. So whoever enters such a library does
it under `STILL`, and a fork waits until it holds that lock itself; parent and child both go on with it free.
"""

from __future__ import annotations

import os
import threading

STILL = threading.RLock()

os.register_at_fork(before=STILL.acquire, after_in_parent=STILL.release, after_in_child=STILL.release)
