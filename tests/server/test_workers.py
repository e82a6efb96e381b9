"""How a server starts, or does not: what is said of a worker that ends before it is ready."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.serving import hospital
from tests.support import children, is_running

if TYPE_CHECKING:
    from pathlib import Path

STARTING = """
import sys
import sfumato as sf
from sfumato.server.workers import Config, serve
try:
    serve(Config((sys.argv[1],), http=0, postgres=None, workers=2), lambda ports: print("open"))
except sf.ServerError as error:
    sys.exit(str(error))
"""


def starting(policy: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STARTING, str(policy)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def two_workers(server: subprocess.Popen[str]) -> list[int]:
    """Those of a server that has started both."""
    end = time.monotonic() + 60
    while len(found := children(server.pid)) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("how", "advice"),
    [(signal.SIGKILL, "--workers 1"), (signal.SIGSEGV, "journalctl")],
    ids=["kill", "fault"],
)
def test_a_worker_that_is_killed_before_it_is_ready_is_named(
    number: int, how: signal.Signals, advice: str, tmp_path: Path
) -> None:
    policy = hospital(tmp_path)
    with open(tmp_path / "hospital.ledger.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that no worker gets further than to its ledger
        with starting(policy) as server:
            workers = two_workers(server)
            os.kill(workers[number - 1], how)
            opened, said = server.communicate(timeout=60)
    assert server.returncode == 1
    assert opened == ""
    named = (
        rf"worker [12] of 2 \(process {workers[number - 1]}\) was killed by {how.name} before it was ready"
    )
    assert re.search(named, said)
    assert "Nothing is served" in said
    assert advice in said
    assert "is above" not in said
    assert not any(map(is_running, workers))


def test_a_worker_that_ends_by_itself_says_why_before_it_is_named(tmp_path: Path) -> None:
    with starting(tmp_path / "missing.toml") as server:
        opened, said = server.communicate(timeout=60)
    assert (server.returncode, opened) == (1, "")
    why, _, told = said.partition("\nworker ")
    assert "refused: " in why
    assert "missing.toml" in why
    assert "of 2 (process " in told
    assert "ended with exit code 1 before it was ready. Nothing is served. Its message is above" in told


def test_a_server_that_is_stopped_while_it_starts_stops_without_complaint(tmp_path: Path) -> None:
    policy = hospital(tmp_path)
    with open(tmp_path / "hospital.ledger.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with starting(policy) as server:
            workers = two_workers(server)
            server.send_signal(signal.SIGTERM)
            opened, said = server.communicate(timeout=60)
    assert (server.returncode, opened) == (0, "")
    assert "worker" not in said
    assert not any(map(is_running, workers))
