"""The examples run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sfumato import mechanisms
from sfumato.budget.ledger import record

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_in_an_empty_folder(path: Path, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "epsilon" in run.stdout
    assert not run.stderr
    assert not list(tmp_path.iterdir())


def test_the_example_of_mechanisms_draws_every_family() -> None:
    text = next(path for path in EXAMPLES if path.stem == "mechanisms").read_text(encoding="utf-8")
    doors = {"OnGrid": "laplace("}
    for kind in record.MECHANISMS.values():
        assert kind.__name__ in text or doors[kind.__name__] in text, kind
    assert "normal(" in text
    assert mechanisms.__doc__
