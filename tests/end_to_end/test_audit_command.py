"""`sfumato audit` as a user types it: real processes in an empty folder."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.test_command_line import SFUMATO, run
from tests.support import children, is_running

if TYPE_CHECKING:
    from pathlib import Path

MINE = """
import numpy as np

dice = np.random.default_rng(1)

def noisy(x, size):
    return x + dice.laplace(0, 1, size)

def whole(x, size):
    return x + np.round(dice.laplace(0, 5, size)).astype(int)

def tens(x, size, epsilon):
    p = -np.expm1(-epsilon)
    return x // 10 * 10 + dice.geometric(p, size) - dice.geometric(p, size)

def late(x):
    import time
    time.sleep(0.01)
    return x

def stubborn(x):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pass

def two(x, y):
    return y

def chatty(x):
    print("a line that is no JSON")
    return x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "bad.py").write_text("import nothing_of_that_name", encoding="utf-8")
    return tmp_path


def test_a_function_in_one_line(folder: Path) -> None:
    found = run("audit", "mine.py:noisy", "--claim", "1", "--samples", "100000", folder=folder, code=3)
    assert "REFUTED" in found.stdout
    assert "lowest set bit" in found.stdout
    assert "┃ is the claim" in found.stdout
    facts = json.loads(run("audit", "mine:whole", "--claim", "1", "--json", folder=folder).stdout)
    assert not facts["refuted"]
    assert 0 < facts["epsilon"] < 1
    assert facts["history"][-1] == [facts["samples"], facts["epsilon"]]


@pytest.mark.parametrize("cores", ["1", "2"])
def test_what_a_function_prints_is_no_part_of_the_answer(cores: str, folder: Path) -> None:
    asked = ["mine.py:chatty", "--samples", "400", "--json", "--cores", cores]
    assert json.loads(run("audit", *asked, folder=folder).stdout)["epsilon"] > 2


def test_a_search_over_inputs_and_parameters_ends_in_a_report(folder: Path) -> None:
    asked = ["mine.py:tens", "--search", "whole", "--with", "epsilon=0.5,1", "--claim", "epsilon"]
    found = run("audit", *asked, "--html", "report.html", folder=folder, code=3)
    assert "the best of 26 pairs" in found.stdout
    assert "the report is in report.html" in found.stdout
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Audit of mine.py:tens" in page
    assert page.count("<svg") == 1
    single = ["mine.py:tens", "--zero", "0", "--one", "1", "--with", "epsilon=0.5", "--claim", "epsilon"]
    assert "claim: epsilon 0.5: not refuted" in run("audit", *single, "--cores", "1", folder=folder).stdout


def test_our_own_mechanisms(folder: Path) -> None:
    found = run("audit", "--ours", "--samples", "20000", folder=folder)
    assert found.stdout.count("its law") >= 14
    assert "REFUTED" not in found.stdout


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["mine.py:nothing"], "no function"),
        (["x"], "file.py:function"),
        (["no.py:f"], "no file"),
        (["nowhere:f"], "cannot be imported"),
        (["bad.py:f"], "nothing_of_that_name"),
        ([], "name either a function"),
        (["mine.py:noisy", "--ours"], "name either a function"),
        (["mine.py:noisy", "--zero", "a b"], "write a Python literal, such as 0, (1, 2) or 'a'"),
        (["mine.py:noisy", "--search", "letters"], "write numbers"),
        (["mine.py:noisy", "--search", "bits", "--zero", "1"], "not both"),
        (["mine.py:noisy", "--with", "size"], "NAME=VALUE"),
        (["mine.py:noisy", "--claim", "much"], "give a number"),
        (["mine.py:noisy", "--claim", "nan"], "give a number"),
        (["mine.py:tens", "--with", "epsilon='a'", "--claim", "epsilon"], "is not a number"),
        (["mine.py:noisy", "--samples", "10"], "number from 100"),
        (["mine.py:noisy", "--confidence", "1"], "below 1"),
        (["mine.py:noisy", "--zero", "'a'"], "it failed"),
        (["mine.py:tens"], "needs size, epsilon"),
        (["mine.py:two"], "one int"),
        (["mine.py:noisy", "--html", "no/such/folder.html"], "no such folder"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_mistake_is_named(asked: list[str], says: str, folder: Path) -> None:
    assert says in run("audit", *asked, folder=folder, code=1).stderr


@pytest.mark.parametrize("subject", ["late", "stubborn"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_whoever_is_stopped_leaves_no_process(how: signal.Signals, subject: str, folder: Path) -> None:
    asked = [SFUMATO, "audit", f"mine.py:{subject}"]
    process = subprocess.Popen(asked, cwd=folder, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(workers := children(process.pid)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)  # they are at work
    process.send_signal(how)
    process.wait(timeout=30)
    while any(map(is_running, workers)):
        assert time.monotonic() < deadline, "a worker outlives the audit"
        time.sleep(0.05)


def test_a_terminal_shows_how_far_it_is(folder: Path) -> None:
    ours, theirs = pty.openpty()
    asked = [SFUMATO, "audit", "mine.py:late", "--samples", "400"]
    process = subprocess.Popen(asked, cwd=folder, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # closed at the other end
            break
        shown += piece
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert "100%" in shown.decode()
    assert "█" in shown.decode()
