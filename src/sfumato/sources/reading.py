"""What Parquet files say about themselves, what only reading them can tell, and that somebody did.

Two things in a folder of Parquet files would let one value of one person decide whether a question fails,
which is an output (law 3):

* files of one table that store a column in several types: the engine casts all to the type of the first, and
  a cast may fail on a value. The footers of all files tell this when the folder is opened, and no row does;
* values that the engine cannot read at all: text that is not UTF-8, moments beyond its range, damaged pages.
  Nothing but reading tells. So the owner reads all that is declared once (`sfumato check --read`), and what
  was read, in which state, is noted in a file beside the policy. Only files that are still in that state are
  asked. What is wrong with which file is said to whoever reads them, and to nobody else.

Files of several types, or with columns that are missing in some, become one table in a prepared copy.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SourceError
from sfumato.sources.printing import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sfumato.queries.declared import Kind
    from sfumato.queries.policy import Policy

    Run = Callable[[str], list[tuple[Any, ...]]]
    Attempt = Callable[[str], str]  # runs a query; what went wrong, or nothing
    Progress = Callable[[str, float], None]

FORM = 1  # of the note: another one must be read again
NOTHING = "1 AS sfumato_nothing"  # of a table of which nothing is declared but that it has rows
ABSENT = '"NULL"'  # the type of a column in which nobody has a value: a cast of it never fails
AT_ONCE = 256  # files that one query reads through
MOST_TROUBLES = 20  # files and columns that are named in one message
MUCH = 1 << 30  # bytes that one query reads through, of several files
_ENDS = 8  # bytes after a footer: its length, and four letters
State = tuple[str, int, int, int, int]  # a file: its name, inode, size, and times
Files = dict[str, list[tuple[State, str]]]  # by table: the state of a file, and its footer


# What footers tell ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """Files of one table with the same columns in the same types, as the engine reads them."""

    files: tuple[Path, ...]
    columns: dict[str, str]
    doubled: frozenset[str]  # names that two columns have, in small letters

    def type_of(self, column: str) -> str | None:
        """The type of a column; the engine finds it in whatever case it is written."""
        return {name.lower(): found for name, found in self.columns.items()}.get(column.lower())


@dataclass(frozen=True, slots=True)
class Look:
    """A table in a folder: its files by what their footers say, and the columns that can be asked about."""

    table: str
    folder: Path
    parts: tuple[FilePart, ...]
    columns: dict[str, Kind]

    def files(self) -> list[Path]:
        """All of them, in the order of their names."""
        return sorted(file for part in self.parts for file in part.files)

    def plain(self, options: str) -> str:
        """What questions read: the columns that they can name, since a plain engine reads all of a view."""
        shown = ", ".join(map(quoted, self.columns)) or NOTHING
        return f"SELECT {shown} FROM {scan(self.files(), options)}"


def check_alike(look: Look, policy: str) -> None:
    """Refuse files that differ from the first in a column that is asked about."""
    if told := _difference(look.parts, look.columns):
        raise SourceError(
            f"the files of {look.table} in {look.folder} differ: {told}. Read as one table, a single value "
            "could make a question fail. Nothing was charged. Make a copy with one type: sfumato prepare "
            f"{policy}; or rewrite the files."
        )


def _difference(parts: Sequence[FilePart], columns: Iterable[str]) -> str:
    first, *_ = parts
    for part, column in itertools.product(parts, columns):
        name, mine, theirs = part.files[0].name, first.type_of(column), part.type_of(column)
        if column.lower() in part.doubled:
            return f"{name} has two columns named {column!r}, ignoring case"
        if mine is not None and theirs is None:
            return f"{name} has no column {column!r}, which {first.files[0].name} has"
        if mine is not None and theirs not in (mine, ABSENT):
            return f"column {column!r} is {mine} in {first.files[0].name} and {theirs} in {name}"
    return ""


def files_of(folder: Path, table: str) -> list[Path]:
    """Where a table of a folder is: in one file, or in a folder of its own."""
    if table in (".", "..") or "/" in table:
        return []
    single = folder / f"{table}.parquet"
    if single.is_file():
        return [single]
    inner = folder / table
    return sorted(inner.glob("*.parquet")) if inner.is_dir() else []


def tables_in(folder: Path) -> list[str]:
    """The tables that a folder has."""
    single = [file.stem for file in folder.glob("*.parquet") if file.is_file()]
    return sorted({*single, *(file.parent.name for file in folder.glob("*/*.parquet"))})


def parts_of(files: Sequence[Path], options: str, run: Run) -> list[FilePart]:
    """Which files look alike; the first of them come first. Reads footers, and no row."""
    places = {str(file.resolve()): file for file in files}
    shape = "name, type, type_length, repetition_type, num_children, converted_type, scale, precision"
    listed = ", ".join(map(literal, places))
    rows = run(f"SELECT file_name, {shape}, logical_type FROM parquet_schema([{listed}])")
    shapes: dict[str, list[tuple[Any, ...]]] = {}
    for name, *shaped in rows:
        shapes.setdefault(name, []).append(tuple(shaped))
    alike: dict[tuple[tuple[Any, ...], ...], list[Path]] = {}
    for name, place in places.items():
        alike.setdefault(tuple(shapes[name]), []).append(place)
    return [_part(shaped, among, options, run) for shaped, among in alike.items()]


def _part(shaped: tuple[tuple[Any, ...], ...], files: list[Path], options: str, run: Run) -> FilePart:
    names = [name.lower() for name in _outermost(shaped)]
    described = run(f"DESCRIBE SELECT * FROM {scan(files[:1], options)}")
    doubled = frozenset(name for name in names if names.count(name) > 1)
    return FilePart(tuple(files), {row[0]: row[1] for row in described}, doubled)


def _outermost(shaped: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """The names of columns, without what they are made of: parts follow their whole."""
    inside = 0
    for name, _, _, _, children, *_ in shaped[1:]:
        if not inside:
            yield name
        inside = max(0, inside - 1) + (children or 0)


def scan(files: Sequence[Path], options: str) -> str:
    """Files as a table."""
    return f"read_parquet([{', '.join(literal(str(file.resolve())) for file in files)}], {options})"


# Files of several types as one table --------------------------------------------------------------------

_WHOLE = r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT"
_NUMBER = rf"{_WHOLE}|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR"
_MOMENT = r"TIMESTAMP(_S|_MS|_NS)?|DATE"
_BECOMES: dict[Kind, tuple[str, str]] = {  # by kind: a type for all files, and which types become it
    "integer": ("BIGINT", _NUMBER),
    "number": ("DOUBLE", _NUMBER),
    "text": ("VARCHAR", rf"VARCHAR|UUID|ENUM\(.*\)|BLOB|{_WHOLE}"),
    "boolean": ("BOOLEAN", "BOOLEAN"),
    "date": ("DATE", _MOMENT),
    "timestamp": ("TIMESTAMP", _MOMENT),
}


def common_type(parts: Sequence[FilePart], column: str, kind: Kind) -> str:
    """The one type a column gets: its own if there is only one, else one for its kind."""
    found = {part.type_of(column) for part in parts} - {None, ABSENT}
    if len(found) == 1:
        return str(found.pop())
    if kind == "integer" and found & {"HUGEINT", "UBIGINT"}:
        return "HUGEINT"
    return _BECOMES[kind][0]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column of a part in the type that it gets; NULL where a value does not fit, and when that is so."""

    value: str
    misfit: str  # nothing if every value fits


def fitted(part: FilePart, column: str, kind: Kind, becomes: str) -> Fitted | None:
    """How a column becomes its type; None if it cannot.

    A value fits if nothing of it is lost: the way back leads to the same one. Only numbers may be rounded, as
    they are in every question.
    """
    found, name = part.type_of(column), quoted(column)
    if found == becomes:
        return Fitted(name, "")
    if found in (None, ABSENT):
        return Fitted(f"CAST(NULL AS {becomes})", "")
    assert found is not None
    if not re.fullmatch(_BECOMES[kind][1], found):
        return None
    if found == "BLOB":
        value = f"TRY(DECODE({name}))"
        return Fitted(value, f"{name} IS NOT NULL AND {value} IS NULL")
    value = f"TRY_CAST({name} AS {becomes})"
    lost = f"{value} IS NULL"
    if kind != "number":
        lost += f" OR TRY_CAST({value} AS {found}) IS DISTINCT FROM {name}"
    if kind == "integer" and found in ("FLOAT", "DOUBLE"):
        lost += f" OR ABS({name}) >= 9007199254740992"  # 2^53: from here on two ids may have become one
    return Fitted(value, f"{name} IS NOT NULL AND ({lost})")


def every_fit(look: Look) -> Iterator[tuple[FilePart, str, Fitted | None]]:
    """How every column of every part becomes its type."""
    for part in look.parts:
        for column, kind in look.columns.items():
            yield part, column, fitted(part, column, kind, common_type(look.parts, column, kind))


def united(look: Look, options: str) -> str:
    """Files of several types as one table; NULL where a value does not fit, which `misfits` counts."""
    shown: dict[FilePart, list[str]] = {part: [] for part in look.parts}
    for part, column, fit in every_fit(look):
        shown[part].append(f"{fit.value if fit else 'NULL'} AS {quoted(column)}")
    return " UNION ALL ".join(
        f"SELECT {', '.join(columns) or NOTHING} FROM {scan(part.files, options)}"
        for part, columns in shown.items()
    )


def check_fits(look: Look, unit: str | None) -> None:
    """Refuse columns that cannot become one."""
    for part, column, fit in every_fit(look):
        file, told = part.files[0].relative_to(look.folder), part.type_of(column)
        rest = "Nothing was written. Rewrite the file, or remove the column from the policy."
        if column.lower() in part.doubled:
            raise SourceError(f"{file} has two columns named {column!r}. {rest}")
        if fit is None:
            kind = look.columns[column]
            raise SourceError(f"column {column!r} of {file} is {told}, which cannot become {kind}. {rest}")
        if told is None and column == unit:
            raise SourceError(f"{file} has no column {column!r}, which says whom a row belongs to. {rest}")


def misfits(look: Look, options: str, run: Run) -> Iterator[str]:
    """How many values do not fit the type that their column gets, and where."""
    for part, column, fit in every_fit(look):
        for file in part.files if fit and fit.misfit else ():
            assert fit is not None
            sql = f"SELECT COUNT(*) FILTER (WHERE {fit.misfit}) FROM {scan([file], options)}"
            if found := run(sql)[0][0]:
                becomes = common_type(look.parts, column, look.columns[column])
                name, told = file.relative_to(look.folder), part.type_of(column)
                yield f"{name}, column {column!r}: {found:,} of {told} do not fit {becomes}"


# What reading tells -------------------------------------------------------------------------------------


def unreadable(look: Look, options: str, attempt: Attempt, progress: Progress) -> Iterator[str]:
    """What cannot be read of a table: files and columns, never a value."""
    files = look.files()
    whole, done = len(look.columns) * sum(file.stat().st_size for file in files) or 1, 0
    progress(look.table, 0.0)
    for part in look.parts:
        for batch in batches(part.files):
            size = sum(file.stat().st_size for file in batch)
            for column in look.columns:
                if attempt(through(column, batch, options)):
                    yield from _unreadable(look, part, column, batch, options, attempt)
                done += size
                progress(look.table, done / whole)
    progress(look.table, 1.0)


def _unreadable(
    look: Look, part: FilePart, column: str, files: list[Path], options: str, attempt: Attempt
) -> Iterator[str]:
    for file in files:
        if told := attempt(through(column, [file], options)):
            yield f"{file.relative_to(look.folder)}, column {column!r} ({part.type_of(column)}): {told}"


def through(column: str, files: Sequence[Path], options: str) -> str:
    """A query that reads every value: a hash is made of all of it, so nothing can be left out."""
    return f"SELECT BIT_XOR(HASH({quoted(column)})) FROM {scan(files, options)}"


def listing(troubles: Sequence[str]) -> str:
    """Troubles below each other, but not for ever."""
    rest = [f"and {len(troubles) - MOST_TROUBLES} more"] if len(troubles) > MOST_TROUBLES else []
    return "".join(f"\n  {each}" for each in [*troubles[:MOST_TROUBLES], *rest])


def batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Files that are read through together: neither too many nor too large."""
    batch: list[Path] = []
    size = 0
    for file in files:
        mine = file.stat().st_size
        if batch and (len(batch) >= AT_ONCE or size + mine > MUCH):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += mine
    if batch:
        yield batch


# The note that they were read ---------------------------------------------------------------------------


def note_of(policy: Policy) -> Path:
    """Where it is noted that the files of a policy were read: beside the policy, wherever the ledger is."""
    return Path(policy.file).absolute().with_suffix(".read")


def states_of(folder: Path, tables: Sequence[str], known: dict[State, str]) -> Files:
    """The files of tables as they are; a footer that is known is not read again."""
    found: Files = {}
    for table in tables:
        files = files_of(folder, table)
        states = [state_of(file, folder) for file in files]
        for file, state in zip(files, states, strict=True):
            if state not in known:
                known[state] = footer_of(file)
        found[table] = [(state, known[state]) for state in states]
    return found


def state_of(file: Path, folder: Path) -> State:
    """What changes whenever a file is written, as far as a file system tells."""
    found = file.stat()
    name = str(file.relative_to(folder))
    return name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def footer_of(file: Path) -> str:
    """A hash of the footer, which says how the pages are stored and what lies in them."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _ENDS))
        length = int.from_bytes(opened.read(_ENDS)[:4], "little")
        opened.seek(max(0, size - _ENDS - length))
        return hashlib.sha256(opened.read()).hexdigest()


@dataclass(frozen=True, slots=True)
class Note:
    """Which columns of which files were read to their end, by which engine. No value is in it."""

    engine: str
    columns: dict[str, list[str]]  # by table
    files: Files

    def covers(self, columns: dict[str, list[str]], files: Files) -> bool:
        """Whether all of this was read, and is what it was then."""
        return all(
            files[table] == self.files.get(table) and set(named) <= set(self.columns.get(table, ()))
            for table, named in columns.items()
        )

    def write(self, path: Path) -> None:
        """Note it, whole or not at all, for the eyes of its owner alone."""
        facts = {"form": FORM, "engine": self.engine, "columns": self.columns, "files": self.files}
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(facts, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path, engine: str) -> Note | None:
        """What was noted by this engine; nothing if it cannot be understood."""
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if (facts["form"], facts["engine"]) != (FORM, engine):
                return None
            files = {
                table: [(_state(state), str(footer)) for state, footer in found]
                for table, found in facts["files"].items()
            }
            return cls(engine, dict(facts["columns"]), files)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def _state(found: Sequence[Any]) -> State:
    name, inode, size, written, changed = found
    return str(name), int(inode), int(size), int(written), int(changed)
