"""The first page is true word for word: its commands are typed, its Python is run, its output compared."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def headless(text: str) -> str:
    """Text without the heads of receipts: they are hashes of noise and times, too."""
    return re.sub(r"(receipt \d+)-[0-9a-f]{16}", r"\1-HEAD", text)


def skeleton(text: str) -> str:
    """Text without what noise decides: digits, the widths that follow from them, heads."""
    masked = re.sub(r"\d[\d,]*(\.\d+)?", "#", re.sub(r"─+", "─", headless(text)))
    return re.sub(r"\s+", " ", masked).strip()


def settled(text: str) -> list[str]:
    """Lines whose numbers are not noise: they must agree to the digit."""
    return [
        line.strip()
        for line in headless(text).splitlines()
        if re.search(r"epsilon|price|at most|±|weigh", line, re.I)
    ]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    subprocess.run([str(BIN / "sfumato"), "demo"], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_command_line_session_is_true(demo: Path) -> None:
    folder = demo
    shown = [
        part for fence in fences("console") for part in re.split(r"^\$ ", fence, flags=re.MULTILINE) if part
    ]
    assert len(shown) == 6
    for part in shown:
        command, _, expected = part.partition("\n")
        words = shlex.split(command)
        if words[0] == "cd":
            folder = demo / words[1]
            continue
        found = subprocess.run([str(BIN / words[0]), *words[1:]], cwd=folder, capture_output=True, text=True)
        told = found.stdout + found.stderr
        assert skeleton(told) == skeleton(expected)
        assert settled(told) == settled(expected)


def test_the_lines_about_mechanisms_run(tmp_path: Path) -> None:
    _, code = fences("python")
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    drawn, delta, winner = run.stdout.split("\n")[:3]
    assert drawn.startswith("(")
    assert 0 < float(delta) <= 1e-6
    assert int(winner) in range(3)


def test_the_ten_lines_of_python_run(demo: Path) -> None:
    code, _ = fences("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    found = subprocess.run([sys.executable, "-c", code], cwd=demo, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    for said in ("No row was read and nothing was spent.", "region   patients", "hospital: epsilon"):
        assert said in found.stdout


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 10
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_two_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test"):
        assert f"    make {command} " in README
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_lines_that_show_what_python_prints_are_true() -> None:
    (shown,) = fences("pycon")
    found = doctest.DocTestParser().get_doctest(shown, {}, "README", "README.md", 0)
    assert doctest.DocTestRunner().run(found).failed == 0
    assert found.examples
