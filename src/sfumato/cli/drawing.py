"""Pictures that commands write: what is wrong with a file is said before anything is charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import sfumato as sf
from sfumato.curator.plot import check_installed
from sfumato.curator.veils import has_numbers

if TYPE_CHECKING:
    from sfumato.queries.plan import Plan

DRAWN = (".png", ".svg", ".pdf")  # by matplotlib
DOTS = 200  # an inch: sharp on paper


def check(file: str, plan: Plan) -> None:
    """Refuse what could not be drawn after it was paid for."""
    path = Path(file)
    if path.suffix.lower() not in (*DRAWN, ".json"):
        told = "name a file that ends in .png, .svg or .pdf, or in .json for a specification of Vega-Lite"
        raise sf.InvalidParameter("--plot", file, told)
    if not path.absolute().parent.is_dir():
        raise sf.InvalidParameter("--plot", file, "create its folder first, or name another")
    if not has_numbers(plan):
        told = "omit it: no column of this question is a number"
        raise sf.InvalidParameter("--plot", file, told)
    if path.suffix.lower() in DRAWN:
        check_installed()


def write(release: sf.Release, file: str, level: str) -> None:
    """Draw a release into a file, as its name says."""
    if file.lower().endswith(".json"):
        text = json.dumps(release.vega(level), indent=1, ensure_ascii=False)
        Path(file).write_text(text + "\n", encoding="utf-8")
    else:
        release.plot(level).savefig(file, dpi=DOTS)
