"""The arrows of the design, kept true: imports, engines, randomness, sizes, and what may stand in a file."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato import mechanisms
from sfumato.budget.ledger import record

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sfumato"
FILES = sorted(SOURCE.rglob("*.py"))

SPINE = {"budget", "mechanisms", "exact"}
ALLOWED: dict[str, set[str]] = {
    "exact": set(),
    "mechanisms": {"exact"},
    "budget": {"mechanisms", "exact"},
    "queries": {"mechanisms", "exact"},
    "sources": {"queries", "exact"},
    "utility": SPINE,
    "models": {"utility", *SPINE},
    "attacks": {"utility", *SPINE},
    "anonymity": set(),
    "workloads": SPINE,
    "learning": SPINE,
    "client": {"curator", "queries", "mechanisms", "exact"},
    "curator": {"sources", "queries", "utility", *SPINE},
}
ALLOWED["server"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)  # stands on top of all of them

# A third-party engine is imported in exactly one file; but that where released rows are worked on is not the
# one that holds the data, and other dialects are put right beside where they are read.
ENGINES = {
    "duckdb": "sources/duckdb.py",
    "sqlglot": "queries/sql.py",
    "cryptography": "exact/coins.py",
    "numba": "exact/compiled.py",
    "highspy": "utility/programs.py",
    "matplotlib": "curator/plot.py",
    "psycopg": "budget/ledger/postgres.py",
    "sqlite3": "budget/ledger/store.py",
    "tomllib": "queries/policy.py",
}
RANDOMNESS = {"random", "secrets", "numpy.random", "uuid"}
CLOCKS = {
    "attacks",
    "budget",
    "cli",
    "client",
    "server",
    "curator",
}  # the curator only hands the clock on to the ledger


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module a file imports, also for type checking only."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by full name"
            module = node.module or ""
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")


def ours(names: frozenset[str]) -> set[str]:
    """The rooms among imported names."""
    return {name.split(".")[1] for name in names if name.startswith("sfumato.")}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_the_rooms_it_may(path: Path) -> None:
    here = room(path)
    if here == "errors":
        assert not ours(imports(path))
    elif here != "__init__":
        assert (ours(imports(path)) & set(ALLOWED)) - {here} <= ALLOWED[here]


# Rooms with rooms of their own: which of them each may import.
WITHIN: dict[str, dict[str, set[str]]] = {
    "server": {
        "desk": set(),
        "catalog": set(),
        "http": {"desk", "catalog"},
        "postgres": {"desk", "catalog"},
        "workers": {"desk", "http", "postgres"},
    },
    "budget": {"accounting": set(), "ledger": {"accounting"}},
}


@pytest.mark.parametrize("outer", WITHIN)
def test_rooms_within_a_room_import_only_what_they_may(outer: str) -> None:
    """Also through the package itself: `from sfumato.budget import Ledger` is an arrow to the ledger."""
    exported = {
        name.rsplit(".", 1)[1]: name.split(".")[2]
        for name in imports(SOURCE / outer / "__init__.py")
        if name.startswith(f"sfumato.{outer}.") and name.count(".") > 3
    }
    allowed = WITHIN[outer]
    seen = set()
    for path in (SOURCE / outer).rglob("*.py"):
        parts = path.relative_to(SOURCE / outer).parts
        if parts == ("__init__.py",):
            continue
        here = parts[0].removesuffix(".py")
        seen.add(here)
        found = {name.split(".")[2] for name in imports(path) if name.startswith(f"sfumato.{outer}.")}
        found = {exported.get(name, name) for name in found}
        assert found & set(allowed) - {here} <= allowed[here], path
    assert seen == set(allowed)


def test_a_class_name_stands_for_one_thing() -> None:
    where = defaultdict(list)
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_modules_have_no_cycles() -> None:
    """A package is what its `__init__` imports; that of sfumato itself imports nothing until it is asked."""
    modules = {
        f"sfumato.{'.'.join(p.relative_to(SOURCE).with_suffix('').parts)}".removesuffix(".__init__"): p
        for p in FILES
        if p != SOURCE / "__init__.py"
    }
    arrows = {
        name: {target for target in imports(path) if target in modules and target != name}
        for name, path in modules.items()
    }
    done: set[str] = set()
    while len(done) < len(arrows):
        free = {name for name, targets in arrows.items() if name not in done and targets <= done}
        assert free, f"a cycle among {sorted(set(arrows) - done)}"
        done |= free


@pytest.mark.parametrize(("engine", "home"), ENGINES.items())
def test_an_engine_is_imported_in_one_file(engine: str, home: str) -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in FILES
        if any(name == engine or name.startswith(f"{engine}.") for name in imports(path))
    }
    beside = {
        "duckdb": {"sources/confined.py", "sources/duckdb_engine.py"},
        "sqlglot": {"queries/dialects.py"},
    }
    assert users == {home} | beside.get(engine, set())


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_coins_make_random_bits(path: Path) -> None:
    found = imports(path)
    assert not found & RANDOMNESS
    text = path.read_text(encoding="utf-8")
    assert "np.random" not in text
    if path != SOURCE / "exact" / "coins.py":
        assert "urandom" not in text


def test_only_the_ledger_opens_a_secret() -> None:
    users = {str(path.relative_to(SOURCE)) for path in FILES if "unseal" in path.read_text(encoding="utf-8")}
    assert users == {"exact/secret.py", "budget/ledger/ledger.py"}


def test_only_the_path_charges_and_stores() -> None:
    """Law 2 is one function: no room has its own way to charge, or to store what was drawn."""
    users = {
        (str(path.relative_to(SOURCE)), node.func.attr)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("charge", "keep") and ast.unparse(node.func.value).endswith("ledger")
    }
    assert users == {("curator/path.py", "charge"), ("curator/path.py", "keep")}


def test_secrets_are_named_only_where_they_may_be() -> None:
    users = {room(path) for path in FILES if "sfumato.exact.secret" in imports(path)}
    assert users <= {"sources", "curator", "budget"}


def test_the_clock_is_read_only_where_it_may_be() -> None:
    users = {room(path) for path in FILES if imports(path) & {"time", "time.time"}}
    assert users <= CLOCKS


def test_nothing_is_imported_inside_a_function_but_optional_frames() -> None:
    for path in FILES:
        tree = parsed(path)
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, (ast.Import, ast.ImportFrom)):
                        names = {a.name.partition(".")[0] for a in node.names}
                        assert names <= {"pandas", "polars", "pyarrow", "matplotlib"}, (path, names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_is_a_chapter_not_a_book(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 800


def test_every_module_says_why_it_exists() -> None:
    for path in FILES:
        doc = ast.get_docstring(parsed(path))
        assert doc, path
        if path.name == "__init__.py" and path.parent != SOURCE and path.parent.name != "cli":
            assert re.search(r"It rests on", doc), f"{path} names no theorem"


def test_no_blanket_exception_carries_on() -> None:
    """Only where one fixed error replaces it, numpy replaces a broken compiler, or it is what we measure."""
    allowed = {
        SOURCE / "exact" / "secret.py",
        SOURCE / "budget" / "ledger" / "ledger.py",
        SOURCE / "exact" / "bulk.py",
        SOURCE / "attacks" / "subjects.py",  # what somebody else's function raises is an output
        SOURCE / "attacks" / "outputs.py",  # and what cannot even be printed
    }
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler):
                names = ast.unparse(node.type) if node.type else "everything"
                if names in ("everything", "Exception", "BaseException"):
                    assert path in allowed, path


# Which programs may be started ------------------------------------------------------------------------

PROGRAMS = {"git"}  # not needed: a clone has it, and without it the tests look at the files that lie here
STARTS = re.compile(
    r"subprocess\.\w+|asyncio\.create_subprocess_\w+|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*)"
    r"|pty\.spawn|shutil\.which|program"
)


def started(act: ast.AST) -> Iterator[str]:
    """The programs that a function starts, or looks for, by name."""
    given = defaultdict[str, list[ast.expr]](list)  # the command may have been written down before
    for node in ast.walk(act):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given[ast.unparse(target)].append(node.value)
    for node in ast.walk(act):
        if isinstance(node, ast.Call) and node.args and STARTS.fullmatch(ast.unparse(node.func)):
            for first in (node.args[0], *given[ast.unparse(node.args[0])]):
                command = first.elts[0] if isinstance(first, (ast.List, ast.Tuple)) and first.elts else first
                if isinstance(command, ast.Constant) and isinstance(command.value, str):
                    yield command.value.split()[0]


def test_every_program_that_is_started_by_name_is_one_that_make_installs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installed = {*re.findall(r"command -v (\w+) >", makefile), "java"}  # java comes with javac
    folders = ("src", "tests", "examples", "benchmarks", "docs")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    acts = [(act, file) for file in files for act in ast.walk(parsed(file)) if isinstance(act, kinds)]
    found = {name: file for act, file in acts for name in started(act)}
    assert {"psql", "javac", "java", "git"} <= set(found)  # it sees what is there
    allowed = installed | PROGRAMS | {"sfumato"}
    assert set(found) <= allowed, {name: file for name, file in found.items() if name not in allowed}


# What may stand in a tracked file --------------------------------------------------------------------


def tracked() -> list[Path]:
    """The files of the project; without git, or where there is no repository, those that lie here."""
    names: list[str] = []
    if shutil.which("git"):
        asked = ["git", "ls-files", "-co", "--exclude-standard"]
        names = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    found = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return found or [p for p in ROOT.rglob("*") if p.is_file() and not MADE & set(p.parts)]


MADE = {
    ".git",
    ".venv",
    ".peers",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "__pycache__",
}
# spelled in pieces, so that this file does not contain what it looks for
HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org"]
PATHS = re.compile(r"(?<![\w.])/(?:home|root|work|Users|opt|tmp)/[\w.]+")


def test_no_machine_and_no_registry_is_named() -> None:
    files = tracked()
    assert len(files) > 50
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        assert not PATHS.search(text), (path, PATHS.search(text))
        for host in HOSTS:
            assert host not in text, (path, host)


# The public surface ----------------------------------------------------------------------------------


def test_the_public_surface_is_sorted_complete_and_documented() -> None:
    assert sf.__all__ == sorted(sf.__all__)
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    for name in sf.__all__:
        assert getattr(sf, name).__doc__
        assert f"`{name}" in page or f".{name}" in page, f"{name} is not on docs/reference/python.md"
    assert dir(sf) == sorted([*sf.__all__, "__version__"])
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = sf.nothing_here


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    for command in (
        "init",
        "check",
        "sql",
        "explain",
        "budget",
        "audit",
        "grant",
        "data-changed",
        "demo",
        "completion",
    ):
        assert f"sfumato {command}" in page


def test_importing_the_package_imports_no_engine() -> None:
    engines = ("duckdb", "sqlglot", "numpy", "pandas")
    code = f"import sfumato, sys; print([m for m in {engines} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# Proofs, pages and pictures --------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_every_proof_that_is_cited_exists() -> None:
    cited = 0
    for path in FILES:
        for name, anchor in re.findall(
            r"docs/(explanation/[\w-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")
        ):
            page = ROOT / "docs" / name
            assert page.exists(), (path, name)
            assert not anchor or anchor in anchors(page), (path, name, anchor)
            cited += 1
    assert cited > 15


def test_links_into_pages_lead_to_a_heading() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(
            r"\]\((?!https?:)([^)#\s]*)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")
        ):
            assert not target or (page.parent / target).exists(), (page, target)
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)#([\w-]+)\)", page.read_text(encoding="utf-8")):
            assert anchor in anchors(page.parent / target), (page, target, anchor)


def test_every_mechanism_guarantees_and_proves_and_is_on_the_reference_page() -> None:
    page = (ROOT / "docs" / "reference" / "mechanisms.md").read_text(encoding="utf-8")
    for name in mechanisms.__all__:
        assert f"`{name}" in page or f"`.{name}" in page or name in ABSTRACT, name
        kind = getattr(mechanisms, name)
        if isinstance(kind, type) and issubclass(kind, mechanisms.Private) and name not in ABSTRACT:
            assert "Guarantee:" in (kind.__doc__ or ""), name
            assert "Proof:" in (kind.__doc__ or ""), name
            assert record.MECHANISMS[kind.name] is kind


ABSTRACT = {
    "Additive",
    "Conversation",
    "Finite",
    "Guarantee",
    "Law",
    "Line",
    "Mechanism",
    "Private",
    "Selection",
}


def test_every_family_has_a_page_with_its_law_proof_accuracy_use_and_picture() -> None:
    families = ("geometric-mechanism", "gaussian", "staircase", "cube", "grid", "truncation", "selection")
    others = ("sparse-vector", "randomized-response", "smooth-sensitivity", "finite-mechanisms")
    for family in (*families, *others):
        text = (ROOT / "docs" / "explanation" / f"{family}.md").read_text(encoding="utf-8")
        assert re.search(r"!\[.+\]\(\.\./pictures/[\w-]+\.svg\)", text), family
        for word in (
            "guarantee|private with",
            "proof",
            "accura|error|how good",
            "when (to use|it is)",
            "```python",
        ):
            assert re.search(word, text, flags=re.IGNORECASE), (family, word)


@pytest.mark.slow
def test_the_pictures_are_what_the_script_draws() -> None:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "pictures" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    sys.modules["draw"] = draw  # dataclasses look their module up
    spec.loader.exec_module(draw)
    for name, text in draw.pictures().items():
        assert (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8") == text, name
