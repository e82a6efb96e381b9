"""The canary: a string and numbers planted in private rows are looked for in everything that leaves."""

from __future__ import annotations

import io
import logging
import os
import random
import re
import subprocess
import sys
import tomllib
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support import Row, answer, make, wild_rows

import sfumato as sf
from sfumato.budget import Share
from sfumato.exact import coins

TEXT = "CANARY-7731"
NUMBER = 773_177_377_317_731  # a cost far outside its bounds, of so many digits that none is met by chance
PRICE = "7731773177.31"
TOGETHER = ("SELECT SUM(cost) FROM visits WHERE age > 3", "SELECT ward, AVG(cost) FROM visits GROUP BY ward")
PLANS = sorted((Path(__file__).parent / "plans").glob("*.toml"))
HASH = re.compile(rb"(?=[0-9]*[a-f])[0-9a-f]{16,}")


def planted() -> list[Row]:
    rng = random.Random(5)
    rows = [row for person in range(60) for row in wild_rows(person, 4, rng)]
    # pid, age, cost, temp, paid, big, ward, floor, day, seen, urgent, note
    rows += [(7731, 42, float(NUMBER), 36.6, PRICE, NUMBER, TEXT, 1, "2024-01-01", None, True, TEXT)] * 3
    return rows


@pytest.mark.parametrize("policy", ["person", "row"])
def test_nothing_planted_and_no_exact_answer_leaves(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # always the same noise: some noise is an exact answer of seven digits now and then
    monkeypatch.setattr(coins, "os", SimpleNamespace(urandom=random.Random(policy).randbytes))
    path = make(tmp_path, planted(), policy)
    seen = io.StringIO()
    handler = logging.StreamHandler(seen)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    exact: set[str] = set()
    try:
        with redirect_stdout(seen), redirect_stderr(seen), warnings.catch_warnings(record=True) as raised:
            db = sf.open(path)
            for file in PLANS:
                golden = tomllib.loads(file.read_text(encoding="utf-8"))
                if golden["policy"] != policy:
                    continue
                try:
                    question = db.sql(golden["sql"], epsilon="0.5")
                    # only answers too wide to be met by chance
                    exact.update(str(y) for vector in answer(question) for y in vector if abs(y) >= 10**6)
                    print(repr(question), repr(question.explain()), question.explain().as_dict())
                    release = question.release()
                    print(
                        repr(release), release._repr_html_(), release.rows(), release.df(), release.as_dict()
                    )
                except sf.SfumatoError as error:
                    print("".join(traceback.format_exception(error)), repr(vars(error)))
            together = db.batch([db.sql(sql, epsilon="0.5") for sql in TOGETHER])
            print(repr(together), repr(together.release()), [each.rows() for each in together.release()])
            db.ledger.share(Share("ana", sf.Guarantee.parse("0.5")))
            print(repr(db), repr(db.budget), db.budget.as_dict(), db.budget.csv(), db.budget.picture())
            print(db.ledger.entries(), db.ledger.shares(), db.ledger.verify())
        seen.write("".join(str(each) for each in raised))
    finally:
        logging.getLogger().removeHandler(handler)
    assert exact  # there is something to look for
    bodies = {"what was shown": seen.getvalue().encode()}
    state = Path(os.environ["XDG_STATE_HOME"]) / "sfumato"
    for file in (*tmp_path.rglob("*"), *state.iterdir()):
        if file.is_file() and file.suffix != ".duckdb":  # the data themselves
            bodies[file.name] = file.read_bytes()
    assert {"hospital.ledger", "hospital.ledger.head"} < set(bodies)
    assert any(file.name in bodies for file in state.iterdir())
    for name, found in bodies.items():
        body = HASH.sub(b"", found)  # any digits stand somewhere in enough of them
        for planted_text in (TEXT, str(NUMBER), PRICE, *exact):
            alone = rb"(?<![0-9.])" + re.escape(planted_text.encode()) + rb"(?![0-9])"
            assert not re.search(alone, body), (name, planted_text)


def test_the_canary_test_can_fail(tmp_path: Path) -> None:
    """The data file does hold the canary, so the search above would find it."""
    make(tmp_path, planted())
    assert TEXT.encode() in (tmp_path / "hospital.duckdb").read_bytes()


def test_only_hashes_are_left_out_of_the_search() -> None:
    assert HASH.sub(b"", b"d2df773177d47ded 773177 1234567890123 773177a") == b" 773177 1234567890123 773177a"


BREAKING = """
import sys, sfumato as sf
from sfumato.sources import duckdb as source
db = sf.open(sys.argv[1])
wrong = db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").compiled.statements
wrong = type(wrong)(("SELECT error('private ' || note) FROM visits",))
source.statements = lambda work, dialect: wrong
db.sql("SELECT COUNT(*) FROM visits", epsilon="0.5").release()
"""


def test_an_engine_error_that_quotes_a_row_is_swallowed(tmp_path: Path) -> None:
    """The engine is made to raise with private text in its message; a whole process shows none of it."""
    path = make(tmp_path, [planted()[-1]] * 5)
    found = subprocess.run([sys.executable, "-c", BREAKING, str(path)], capture_output=True, text=True)
    assert found.returncode == 1
    assert "QueryFailed" in found.stderr
    assert "During handling" not in found.stderr
    for text in (TEXT, "private", "DuckDB", "note"):
        assert text not in found.stdout + found.stderr.replace('"private data"', "").replace(
            "on private data", ""
        )
