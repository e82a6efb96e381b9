"""An engine of DuckDB's, shut against everything but the file that it is opened for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from sfumato.errors import SourceError
from sfumato.exact.forks import is_child
from sfumato.sources.printing import literal

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
ATTACHED = "attached_by_sfumato"
COPY = "copy_by_sfumato"
SMALLEST = 512  # MiB of memory with which an engine is opened
LAST = ("enable_external_access", "lock_configuration")


def share_memory(parts: int) -> None:
    """Give every engine that is opened from now on one of so many parts of the memory that one would take.

    An engine that has too little fails, which is counted; a process that the system kills is worse.
    """
    if parts > 1:
        with duckdb.connect(":memory:") as connection:  # it knows the limits of containers, too
            told = str(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])
        number, unit = told.split()
        whole = float(number) * {"KiB": 2**-10, "MiB": 1, "GiB": 2**10, "TiB": 2**20}.get(unit, 2**-20)
        SETTINGS["memory_limit"] = f"{max(SMALLEST, int(whole / parts))}MiB"


def open_file(path: Path, *, anew: bool) -> duckdb.DuckDBPyConnection:
    """An engine for a file; `anew` if another file was open under this name, which DuckDB would hand out."""
    try:
        found = path.exists()
    except OSError:  # a name no file system takes
        found = False
    if not found:
        raise SourceError(
            f"there is no database file {path}. Nothing was changed. Check [source] duckdb in the policy; a "
            "relative path starts at the folder of the policy file."
        )
    try:
        return guarded(attach(path) if anew or is_child() else _connect(path), path)
    except duckdb.ConnectionException:
        problem = (
            "is already open in this process with other settings. Close that connection first: sfumato opens "
            "the file read-only and locked down."
        )
    except duckdb.IOException as error:
        if "Could not set lock" in str(error):  # DuckDB's message names a process and a program; ours not
            problem = (
                "is open for writing in another program. Close it there, or give sfumato a copy; any number "
                "of readers can share the file."
            )
        else:
            problem = "is not a DuckDB file that this version can read. Check its path ([source] duckdb)."
    except duckdb.Error:
        problem = "cannot be opened by DuckDB. Check that the file is complete and readable."
    raise SourceError(f"{path} {problem}")


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(path), read_only=True, config=dict(SETTINGS))


def disable_optimizers(connection: duckdb.DuckDBPyConnection, some: frozenset[str] | None = None) -> None:
    """Some of them, or all: none is needed for the answer."""
    known = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    names = ",".join(name for name in known if some is None or name in some)
    connection.execute(f"SET disabled_optimizers = {literal(names)}")


def attach(path: Path, *, plain: bool = False, beside: Path | None = None) -> duckdb.DuckDBPyConnection:
    """The file in an engine of this process's own, for a process that was forked, or without optimizers.

    `duckdb.connect(path)` would hand back the parent's engine, copied by the fork without its threads; a new
    engine in memory that attaches the file has threads, locks and file handles of its own.
    """
    connection = duckdb.connect(":memory:", config={k: v for k, v in SETTINGS.items() if k not in LAST})
    connection.execute(f"ATTACH {literal(str(path))} AS {ATTACHED} (READ_ONLY)")
    if beside is not None:
        connection.execute(f"ATTACH {literal(str(beside))} AS {COPY}")
        connection.execute(f"USE {ATTACHED}")
    if plain:
        disable_optimizers(connection)
    for setting in LAST:  # the doors are shut once the file is in
        connection.execute(f"SET {setting} = {SETTINGS[setting]}")
    return connection


def guarded(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyConnection:
    """Refuse a file whose own functions or types take the names of the engine's.

    DuckDB looks into the file first, so a macro called abs or floor would replace the one that keeps a person
    to the cap (law 7).
    """
    taken = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal AND function_name IN"
        " (SELECT function_name FROM duckdb_functions() WHERE internal)"
        " UNION SELECT DISTINCT type_name FROM duckdb_types() WHERE NOT internal AND type_name IN"
        " (SELECT type_name FROM duckdb_types() WHERE internal) ORDER BY 1"
    ).fetchall()
    if taken:
        names = ", ".join(name for (name,) in taken)
        raise SourceError(
            f"{path} defines functions or types with the names of built-in ones: {names}. They would "
            "replace the functions that enforce the caps. Drop or rename them, for example: DROP MACRO floor"
        )
    return connection
