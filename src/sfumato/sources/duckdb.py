"""Tables in a DuckDB file, in Parquet files or in a prepared copy: opened read-only, answered with a Secret.

The connection is read-only, cannot reach other files, cannot change its settings and never spills to disk
(DuckDB can encrypt its spill files only with a module that is not part of it; law 1 forbids plain ones).
These are second walls: the first is that the analyst's text never comes here (law 8).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from sfumato.errors import NotRead, SourceError
from sfumato.exact.forks import STILL, is_child
from sfumato.exact.secret import Secret
from sfumato.sources import public, reading
from sfumato.sources.answers import Compiled, arrange
from sfumato.sources.copy import MARK, Copy, former_mark, mark
from sfumato.sources.dialect import DUCKDB
from sfumato.sources.duckdb_engine import (
    ATTACHED,
    COPY,
    LAST,
    SETTINGS,
    attach,
    disable_optimizers,
    guarded,
    open_file,
)
from sfumato.sources.files import log_of, states_of
from sfumato.sources.halt import Halt, heeding
from sfumato.sources.lower import lower
from sfumato.sources.prepare import sweep, write
from sfumato.sources.printing import literal, quoted, statements
from sfumato.sources.repeated import IdleCursors, RepeatingCursor
from sfumato.sources.running import all_of_them, answered, choice, counted, measured
from sfumato.sources.schema import Found, check, kind_of, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.queries.declared import DeclaredTable, Kind, Value
    from sfumato.queries.made import MadeKind
    from sfumato.queries.plan import Plan
    from sfumato.queries.policy import Policy
    from sfumato.sources.answers import Answer, EngineStatements
    from sfumato.sources.files import Seen, State
    from sfumato.sources.reading import FilePart, Files, Look, Note, Progress
    from sfumato.sources.running import Choose

T = TypeVar("T")
Cursor = TypeVar("Cursor", duckdb.DuckDBPyConnection, RepeatingCursor)
_FIRST: dict[str, Seen] = {}  # what this process opened first under a name
# Whether a row of a Parquet file is looked at is not left to what its footer says about other people's rows.
_PRUNING = frozenset(("filter_pushdown", "join_filter_pushdown", "row_group_pruner", "top_n"))
# Columns are what the files hold, not what folders are called. Footers leave NaN out: if that were not said,
# one large value would bring back all rows of NaN that it stands beside.
_PARQUET = "hive_partitioning = false, can_have_nan = true"


class DuckDB:
    """A DuckDB file, and the only place that runs anything in it."""

    copy: Copy | None = None
    _seen: Seen = ()
    _is_another = False

    def __init__(self, path: Path) -> None:
        self.path, self._place = path, path.absolute()  # whoever changes the folder later finds it, too
        self._process: int | None = None
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._plain: duckdb.DuckDBPyConnection | None = None
        self._idle = IdleCursors()  # of the engine
        self._inherited: list[object] = []
        self._alike: dict[tuple[str, str], int] = {}  # of public tables
        self._elsewhere: dict[str, str] = {}  # tables outside of main, and where they are
        self._views: dict[str, str] = {}  # those of them that are declared
        self._cursor()

    # Public facts -------------------------------------------------------------------------------------

    def schema(self) -> dict[str, tuple[Found, ...]]:
        """Tables and their columns. Never a row, never a count."""
        rows = (
            self._cursor()
            .execute(
                "SELECT schema_name, table_name, column_name, data_type, is_generated"
                " FROM duckdb_columns() JOIN duckdb_tables() USING (database_name, schema_name, table_name)"
                " WHERE database_name = current_database()"
                " ORDER BY schema_name <> 'main', schema_name, table_name, column_index"
            )
            .fetchall()
        )
        found: dict[str, tuple[Found, ...]] = {}
        schemas: dict[str, str] = {}
        for schema, name, column, engine_type, generated in rows:
            table = name if schema in ("main", "public") else f"{schema}.{name}"
            if schemas.setdefault(table, schema) != schema:  # what is called so in main comes first
                continue
            # a generated column is an expression of somebody's: it may fail, or change from row to row
            kind = None if generated else kind_of(engine_type)
            told = f"{engine_type} GENERATED" if generated else engine_type
            found[table] = (*found.get(table, ()), Found(column, told, kind))
        self._elsewhere = {
            table: f"{quoted(schema)}.{quoted(table.removeprefix(f'{schema}.'))}"
            for table, schema in schemas.items()
            if schema != "main"
        }
        return found

    def check(self, policy: Policy) -> None:
        """Every declared table and column exists with the declared type, or a SourceError says which not."""
        check(policy, self.schema(), self.path)
        declared = {table.name for table in policy.tables}
        self._views = {table: place for table, place in self._elsewhere.items() if table in declared}

    def scales(self) -> dict[tuple[str, str], int]:
        """How many decimals the columns have that are no doubles."""
        found = {
            (table, each.name): scale_of(each) for table, columns in self.schema().items() for each in columns
        }
        return {name: scale for name, scale in found.items() if scale is not None}

    def keys(self, table: str, column: str, kind: Kind, most: int | None = None) -> tuple[Value, ...]:
        """The distinct values of a column of a *public* table, sorted; so many of them at most."""
        real = {found.name: found.kind for found in self.schema().get(table, ())}
        if real.get(column) != kind:
            raise SourceError(
                f'keys = "{table}.{column}" must name a column of type {kind} of a table in '
                f"{self.path}, like the column that takes its keys from it. Correct it, or list the keys."
            )
        return tuple(row[0] for row in self._public(table, public.keys(table, column, kind, most)))

    def counted(
        self, table: str, columns: tuple[tuple[str, Kind], ...]
    ) -> tuple[tuple[tuple[Value, ...], int], ...]:
        """The combinations of columns of a *public* table, and how many rows have each; none has a NULL."""
        real = {found.name: found.kind for found in self.schema().get(table, ())}
        for column, kind in columns:
            if real.get(column) != kind:
                raise SourceError(
                    f"{table}.{column} must be a {kind} column of a table in {self.path}. Correct the prior, "
                    "or the table."
                )
        rows = self._public(table, public.counted(table, columns))
        return tuple((tuple(row[:-1]), int(row[-1])) for row in rows)

    def _public(self, table: str, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._cursor().execute(sql).fetchall()
        except duckdb.Error as error:
            kind = type(error).__name__
            raise SourceError(
                f"the public table {table!r} of {self.path} cannot be read by DuckDB ({kind}). Nothing was "
                "charged. For Parquet files, find it with: sfumato check --read POLICY"
            ) from None

    def alike(self, table: str, column: str) -> int:
        """How many rows of a *public* table have the same value of a column, at most; of no column (""), how
        many rows it has."""
        if (table, column) not in self._alike:
            ((found,),) = self._public(table, public.alike(table, column))
            self._alike[table, column] = int(found)
        return self._alike[table, column]

    def listed(self, table: str, columns: tuple[tuple[str, MadeKind], ...]) -> list[tuple[Any, ...]]:
        """The rows of a *public* table."""
        return self._public(table, public.listed(table, columns))

    # The secret ---------------------------------------------------------------------------------------

    def compile(self, plan: Plan) -> Compiled:
        """A plan as the engine will get it."""
        return Compiled(plan, statements(lower(plan, self.copy), DUCKDB))

    def run(
        self, compiled: Compiled, choose: Choose = all_of_them, halt: Halt | None = None
    ) -> Secret[Answer]:
        """The exact answer, sealed. Whatever goes wrong in the engine looks the same from outside; so does
        that the files changed meanwhile, of which a plan may read some twice, and that it was stopped.

        Where groups are private, `choose` is told how many units count for each, and says which are shown;
        only these are measured, in the same transaction.

        The engine's optimizer looks at statistics of the data, and has been seen to fail on some of them
        (law 3: an error is an output). What fails is run again in an engine without one: slower, but total.
        What was stopped (`halt`) is not.
        """
        plan, printed, stopped = compiled.plan, compiled.statements, halt or Halt()

        def unchanged() -> Answer:
            whole = self._chosen if plan.private_keys else self._whole
            answer = whole(plan, printed, choose, stopped)
            if not self._is_current():
                raise SourceError("the files changed")  # inside a Secret: nobody sees more than a failure
            return answer

        return Secret.of(unchanged)

    def _whole(self, plan: Plan, printed: EngineStatements, _: Choose, halt: Halt) -> Answer:
        """The answer for public groups."""
        try:
            with self._idle.lent(self._cursor) as each:
                return _heeded(each, halt, lambda cursor: arrange(plan, measured(cursor, printed)))
        except duckdb.Error:
            halt.check()
            plain = self._cursor(plain=True)
            return _heeded(plain, halt, lambda cursor: arrange(plan, measured(cursor, printed)))

    def _chosen(self, plan: Plan, printed: EngineStatements, choose: Choose, halt: Halt) -> Answer:
        """The answer for those private groups that are chosen.

        They are chosen once. What fails after that is run again for the same groups, which have the same
        numbers in every engine: a second choice because of a failure would depend on more than its coins.
        """
        cursor = self._cursor()
        try:
            found = _heeded(cursor, halt, lambda each: counted(each, printed))
        except duckdb.Error:
            halt.check()
            cursor = self._cursor(plain=True)
            found = _heeded(cursor, halt, lambda each: counted(each, printed))
        chosen = choice(found, choose)
        try:
            return _heeded(cursor, halt, lambda each: answered(each, plan, printed, chosen))
        except duckdb.Error:
            halt.check()
            plain = self._cursor(plain=True)
            _heeded(plain, halt, lambda each: counted(each, printed))
            return _heeded(plain, halt, lambda each: answered(each, plan, printed, chosen))

    def check_version(self) -> None:
        """Refuse to answer from data that are known to be of yesterday: from files that were replaced."""
        self._check_same()

    def _is_current(self) -> bool:
        return states_of(name for name, *_ in self._seen) == self._seen

    def _check_same(self) -> None:
        if self._now() != self._seen:
            raise SourceError(
                f"{self.path} was replaced, changed or removed since it was opened. Nothing more was "
                "charged. Open it again, and record that stored releases are outdated: sfumato "
                "data-changed POLICY"
            )

    def _now(self) -> Seen:
        """Which files hold the data, and which they are; nothing if one of them is gone."""
        try:
            files = self.files()
        except OSError:  # a name no file system takes
            return ()
        return states_of(map(str, files))

    def files(self) -> list[Path]:
        """Where the data are: the last changes may still stand in a log beside the file."""
        log = log_of(self._place)
        return [self._place, *([log] if log.exists() else [])]

    def state(self) -> State:
        """The version of the data: changes whenever they are written, as far as a file system tells."""
        try:
            states = [(str(file.relative_to(self._place.parent)), file.stat()) for file in self.files()]
        except OSError:
            raise SourceError(f"{self.path} no longer exists. Nothing was charged.") from None
        return [(name, found.st_size, found.st_mtime_ns, found.st_ctime_ns) for name, found in states]

    def check_values(self) -> None:
        """Refuse values that do not fit into a copy; a table has columns of one type, so all do."""

    def troubles(self, progress: Progress) -> list[str]:
        """What of the data cannot be read; a file of DuckDB's holds nothing that it cannot."""
        del progress
        return []

    def beside(self, target: Path) -> duckdb.DuckDBPyConnection:
        """An engine that reads the tables and writes a new file."""
        return self._with_views(guarded(attach(self.path, beside=target), self.path))

    def close(self) -> None:
        """Let go of the engines; whoever asks again opens the file anew."""
        with STILL:
            for engine in (self._engine, self._plain):
                if engine is not None and self._process == os.getpid():
                    self._idle.close()
                    engine.close()
            self._engine = self._plain = self._process = None

    def _cursor(self, *, plain: bool = False) -> duckdb.DuckDBPyConnection:
        """One cursor per query, in an engine of this process's own; a plain one does not optimize.

        DuckDB's threads do not survive a fork, so a child opens the file anew.
        """
        with STILL:
            if self._process != os.getpid():
                # closing the parent's engines in a child could hang
                self._inherited += [self._engine, self._plain]
                self._engine, self._plain, self._process = self._opened(), None, os.getpid()
            if plain and self._plain is None:
                self._plain = self._opened(plain=True)
            engine = self._plain if plain else self._engine
            assert engine is not None
            return self._made(engine.cursor(), plain)

    def _opened(self, *, plain: bool = False) -> duckdb.DuckDBPyConnection:
        if plain:
            self._check_same()
            return guarded(attach(self.path, plain=True), self.path)
        self._seen = self._now()
        self._is_another = _FIRST.setdefault(str(self._place), self._seen) != self._seen
        return open_file(self.path, anew=self._is_another)

    def _made(self, cursor: duckdb.DuckDBPyConnection, plain: bool) -> duckdb.DuckDBPyConnection:
        if plain or is_child() or self._is_another:
            cursor.execute(f"USE {ATTACHED}")
        return self._with_views(cursor)

    def _with_views(self, cursor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """A table of another schema has one name, everywhere: that of the policy."""
        if self._views:
            ((file,),) = cursor.execute("SELECT current_database()").fetchall()
            for table, place in self._views.items():
                view = f"CREATE OR REPLACE TEMP VIEW {quoted(table)}"
                cursor.execute(f"{view} AS SELECT * FROM {quoted(file)}.{place}")
        return cursor


class Parquet(DuckDB):
    """A folder of Parquet files: table NAME is NAME.parquet, or all .parquet files of the folder NAME.

    The files are read in place by an engine in memory that can reach this folder and nothing else. They are
    asked only if they have the same columns, and if the owner has read them through as they are.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._looks: dict[str, Look] = {}
        self._footers: dict[tuple[str, int, int, int, int], str] = {}
        self._noted: tuple[Seen, Note | None] = ((), None)
        super().__init__(policy.database)

    # Public facts -------------------------------------------------------------------------------------

    def schema(self) -> dict[str, tuple[Found, ...]]:
        return {table: _found(look.parts[0].columns) for table, look in self._looks.items()}

    def check(self, policy: Policy) -> None:
        super().check(policy)
        for look in self._looks.values():
            reading.check_alike(look, policy.file)

    def files(self) -> list[Path]:
        return [file for table in self._policy.tables for file in reading.files_of(self._place, table.name)]

    # Whether the owner has read them ------------------------------------------------------------------

    def check_version(self) -> None:
        """Refuse files that the owner did not read through as they are: one refusal, whatever the reason.

        If they were read, but are others than those that are open, whoever asks opens them anew.
        """
        if not self.is_read():
            raise NotRead(str(self.path), self._policy.file)
        self._check_same()

    def is_read(self) -> bool:
        """Whether the owner read all that is declared, and nothing changed since."""
        path = reading.note_of(self._policy)
        if (stamp := states_of([str(path)])) != self._noted[0]:
            self._noted = stamp, reading.Note.read(path, duckdb.__version__)
        note = self._noted[1]
        columns = {table.name: [column.name for column in table.columns] for table in self._policy.tables}
        try:
            return note is not None and note.covers(columns, self._as_they_are())
        except OSError:
            return False

    def _as_they_are(self) -> Files:
        tables = [table.name for table in self._policy.tables]
        return reading.states_of(self._place, tables, self._footers)

    def _is_current(self) -> bool:
        return super()._is_current() and self.is_read()

    def read(self, progress: Progress) -> Note:
        """Read every value of every column that can be asked about; what fails is said to whoever reads."""
        before = self._as_they_are()
        troubles = self.troubles(progress)
        if self._as_they_are() != before:
            raise SourceError(f"files in {self.path} changed while they were read. Run it again.")
        if troubles:
            raise SourceError(
                f"some files in {self.path} cannot be read fully, so no new question is answered from any "
                f"of them:{reading.listing(troubles)}\nRewrite these files, or remove the columns from "
                f"{self._policy.file}; then run this again."
            )
        return reading.Note(
            duckdb.__version__, {name: list(look.columns) for name, look in self._looks.items()}, before
        )

    def troubles(self, progress: Progress) -> list[str]:
        """What cannot be read, by files and columns.

        It is read in an engine without optimizers, since that leaves nothing out, and since a question that
        fails in the other one is asked again in this.
        """
        looks = self._looks.values()
        return [
            told for look in looks for told in reading.unreadable(look, _PARQUET, self._attempt, progress)
        ]

    def _attempt(self, sql: str) -> str:
        try:
            self._cursor(plain=True).execute(sql).fetchall()
        except duckdb.OutOfMemoryException:
            raise SourceError(f"there is not enough memory to read the files in {self.path}.") from None
        except duckdb.Error as error:
            return _trouble(error)
        return ""

    # The engine ---------------------------------------------------------------------------------------

    def beside(self, target: Path) -> duckdb.DuckDBPyConnection:
        return self._opened(beside=target)

    def _opened(self, *, plain: bool = False, beside: Path | None = None) -> duckdb.DuckDBPyConnection:
        if not self.path.is_dir():
            raise SourceError(
                f"there is no folder {self.path}. Nothing was changed. Check [source] parquet in the policy; "
                "a relative path starts at the folder of the policy file."
            )
        if plain:
            self._check_same()
        elif beside is None:
            self._seen = self._now()
        connection = duckdb.connect(":memory:", config={k: v for k, v in SETTINGS.items() if k not in LAST})
        try:
            if beside is not None:
                connection.execute(f"ATTACH {literal(str(beside))} AS {COPY}")
            connection.execute(f"SET allowed_directories = [{literal(str(self.path.resolve()))}]")
            connection.execute(f"SET {LAST[0]} = {SETTINGS[LAST[0]]}")
            for table in self._policy.tables:
                look = self._looks[table.name] = self._look(connection, table)
                connection.execute(f"CREATE VIEW {quoted(table.name)} AS {self._view(look)}")
            disable_optimizers(connection, None if plain else _PRUNING)
            connection.execute(f"SET {LAST[1]} = {SETTINGS[LAST[1]]}")
        except SourceError:
            connection.close()
            raise
        except duckdb.Error:
            connection.close()
            raise SourceError(f"the files in {self.path} cannot be read by DuckDB.") from None
        return connection

    def _look(self, connection: duckdb.DuckDBPyConnection, table: DeclaredTable) -> Look:
        files = reading.files_of(self._place, table.name)
        if not files:
            raise SourceError(
                f"{self.path} has no file {table.name}.parquet and no folder {table.name} with .parquet "
                f"files. Correct [tables.{table.name}] in the policy, or put the files there."
            )
        parts = _looked(connection, files)
        return reading.Look(table.name, self._place, tuple(parts), self._asked(table, parts))

    def _asked(self, table: DeclaredTable, parts: list[FilePart]) -> dict[str, Kind]:
        """The columns that a question can name, of those that there are; of a public table, all."""
        there = {name: kind_of(told) for name, told in parts[0].columns.items()}
        named: dict[str, Kind] = {c.name: c.kind for c in table.columns if c.name in there}
        if table.public:
            named = {name: kind for name, kind in there.items() if kind is not None} | named
        return named

    def _view(self, look: Look) -> str:
        return look.plain(_PARQUET)

    def _made(self, cursor: duckdb.DuckDBPyConnection, plain: bool) -> duckdb.DuckDBPyConnection:
        del plain  # the views are in the engine itself
        return cursor


class Mixed(Parquet):
    """The same folder for the owner who copies it: files may store a column in several types, or not at all.

    Every column gets one type, and what does not fit is said to the owner. No question is asked of it.
    """

    def schema(self) -> dict[str, tuple[Found, ...]]:
        found = {}
        for table, look in self._looks.items():
            types = {name: told for part in reversed(look.parts) for name, told in part.columns.items()}
            types |= {
                name: reading.common_type(look.parts, name, kind) for name, kind in look.columns.items()
            }
            found[table] = _found(types)
        return found

    def check(self, policy: Policy) -> None:
        DuckDB.check(self, policy)
        for table in policy.tables:
            reading.check_fits(self._looks[table.name], table.unit)

    def check_values(self) -> None:
        run = lambda sql: self._cursor(plain=True).execute(sql).fetchall()  # noqa: E731
        looks = self._looks.values()
        if found := [told for look in looks for told in reading.misfits(look, _PARQUET, run)]:
            told = f"some values in {self.path} do not fit the common type of their column:"
            raise SourceError(f"{told}{reading.listing(found)}\nNothing was written. Rewrite these files.")

    def _asked(self, table: DeclaredTable, parts: list[FilePart]) -> dict[str, Kind]:
        there = [c for c in table.columns if any(part.type_of(c.name) for part in parts)]
        return super()._asked(table, parts) | {c.name: c.kind for c in there}

    def _view(self, look: Look) -> str:
        return reading.united(look, _PARQUET)


def folder_schema(folder: Path) -> dict[str, tuple[Found, ...]]:
    """The tables that a folder of Parquet files has, and the columns of their first files."""
    with duckdb.connect(":memory:") as connection:
        tables = {
            table: _looked(connection, reading.files_of(folder, table)) for table in reading.tables_in(folder)
        }
    return {table: _found(parts[0].columns) for table, parts in tables.items()}


def _found(types: dict[str, str]) -> tuple[Found, ...]:
    return tuple(Found(name, told, kind_of(told)) for name, told in types.items())


def _looked(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> list[FilePart]:
    """Files by what their footers say; or which of them has none that can be read."""
    run = lambda sql: connection.execute(sql).fetchall()  # noqa: E731
    try:
        return reading.parts_of(files, _PARQUET, run)
    except duckdb.Error:
        for file in files:
            try:
                reading.parts_of([file], _PARQUET, run)
            except duckdb.Error:
                told = "cannot be read as a Parquet file. Nothing was charged. Check that it is complete."
                raise SourceError(f"{file} {told}") from None
        raise


def _trouble(error: duckdb.Error) -> str:
    """What an engine says about a value, without the value."""
    if isinstance(error, duckdb.ConversionException):
        return "values beyond the range of DuckDB's type"
    if isinstance(error, duckdb.InvalidInputException):
        return "text that is not UTF-8, or values that are not of their type"
    return f"pages that DuckDB cannot read ({type(error).__name__})"


class Prepared(DuckDB):
    """The copy that `sfumato prepare` wrote, for as long as data and policy are those it was made of."""

    def __init__(self, policy: Policy, original: DuckDB) -> None:
        assert policy.prepared is not None
        self._policy, self._original, self.copy = policy, original, Copy.of(policy)
        self._version = original.state()
        super().__init__(policy.prepared)

    def scales(self) -> dict[tuple[str, str], int]:
        return self._original.scales()  # numbers are doubles in the copy

    def check_version(self) -> None:
        if self._original.state() != self._version:
            raise self._stale("The data changed since it was made.")

    def _opened(self, *, plain: bool = False) -> duckdb.DuckDBPyConnection:
        """Whoever opens the file looks at its mark: it may have been written anew.

        An engine of its own, always: of a path that is open, DuckDB would hand out the file that was there.
        """
        if not self.path.is_file():
            raise self._stale("There is no such file.")
        if log_of(self.path).exists():
            raise self._stale("It was modified after it was made.")
        try:
            connection = guarded(attach(self.path, plain=plain), self.path)
        except duckdb.Error:
            raise self._stale("DuckDB cannot read it.") from None
        try:
            found = connection.execute(f"SELECT mark FROM {ATTACHED}.main.{MARK}").fetchall()
        except duckdb.Error:
            found = []
        if found not in ([(made(self._policy, self._version),)] for made in (mark, former_mark)):
            connection.close()
            raise self._stale("The data or the policy changed since it was made, or Sfumato did not make it.")
        return connection

    def _made(self, cursor: duckdb.DuckDBPyConnection, plain: bool) -> duckdb.DuckDBPyConnection:
        del plain
        return cursor.execute(f"USE {ATTACHED}")

    def _stale(self, problem: str) -> SourceError:
        return SourceError(
            f"the prepared copy {self.path} cannot be used. {problem} Nothing was charged. Make it again: "
            f"sfumato prepare {self._policy.file}; or remove `prepared` from [source] there."
        )


def tables_of(policy: Policy) -> DuckDB:
    """The tables of a policy themselves."""
    return Parquet(policy) if policy.source[0] == "parquet" else DuckDB(policy.database)


def original_of(policy: Policy) -> DuckDB:
    """Where the tables of a policy live, for whoever copies them."""
    return Mixed(policy) if policy.source[0] == "parquet" else DuckDB(policy.database)


def read(policy: Policy, progress: Progress = lambda _name, _done: None) -> Path:
    """Read the Parquet files of a policy through, and note that they were; for the owner, before questions.

    If something cannot be read, the note of an earlier time is gone as well.
    """
    path = reading.note_of(policy)
    path.unlink(missing_ok=True)
    source = Parquet(policy)
    source.check(policy)
    source.read(progress).write(path)
    return path


def _heeded(cursor: Cursor, halt: Halt, act: Callable[[Cursor], T]) -> T:
    """Do something in an engine, until somebody stops it."""
    with halt.over(cursor.interrupt):
        return heeding(cursor.interrupt, lambda: act(cursor))


def prepare(policy: Policy, progress: Progress = lambda _name, _done: None) -> Path:
    """Write the copy that the policy names, whole or not at all; an older one is replaced.

    Whoever has the older one open goes on with it for as long as the data stay the same.
    """
    assert policy.prepared is not None
    original, target = original_of(policy), policy.prepared
    original.check(policy)
    _check_target(target, policy, original)
    before = original.state()
    try:
        original.check_values()
    except duckdb.Error as error:
        raise _unwritten(target, original, error) from None
    sweep(target)
    mine = f".{target.name}.{os.getpid()}."  # for our eyes alone
    with tempfile.TemporaryDirectory(prefix=mine, dir=target.parent) as folder:
        fresh = Path(folder) / target.name
        try:
            with original.beside(fresh) as connection:
                run = lambda sql: connection.execute(sql).fetchall()  # noqa: E731
                for name, done in write(policy, run, f"{COPY}.main", mark(policy, before)):
                    progress(name, done)
                connection.execute(f"CHECKPOINT {COPY}")
        except duckdb.OutOfMemoryException:
            problem = (
                "there is not enough memory to sort the tables. Add memory, or ask without a prepared copy."
            )
            raise SourceError(f"{target} was not written: {problem}") from None
        except duckdb.Error as error:
            raise _unwritten(target, original, error) from None
        if original.state() != before:
            raise SourceError(f"{target} was not written: the data changed meanwhile. Run it again.")
        fresh.chmod(0o600)
        log_of(target).unlink(missing_ok=True)
        fresh.replace(target)
    return target


def _unwritten(target: Path, original: DuckDB, error: duckdb.Error) -> SourceError:
    """Why there is no copy: to the owner, by files and columns where they can be told."""
    told = f"{target} was not written: "
    if found := original.troubles(lambda _name, _done: None):
        return SourceError(f"{told}some files cannot be read fully:{reading.listing(found)}\nRewrite them.")
    return SourceError(f"{told}DuckDB failed ({type(error).__name__}).")


def _check_target(target: Path, policy: Policy, original: DuckDB) -> None:
    """A copy replaces a copy, and nothing else."""
    told = f"{target} was not written: "
    if not target.parent.is_dir():
        raise SourceError(f"{told}there is no folder {target.parent}. Make it, or name another file.")
    if target.resolve().is_relative_to(original.path.resolve()):
        raise SourceError(f"{told}that is where the tables are. Name another file: prepared under [source].")
    if not target.exists():
        return
    is_copy = target.is_file() and target.resolve() != Path(policy.ledger).resolve()
    if is_copy:
        try:
            with duckdb.connect(str(target), read_only=True) as connection:
                connection.execute(f"SELECT mark FROM {MARK}")
        except duckdb.ConnectionException:
            pass  # it is open in this process, as only copies and the source are
        except duckdb.Error:
            is_copy = False
    if not is_copy:
        raise SourceError(
            f"{told}another file is in its place, which was not changed. Name another file: "
            f"prepared under [source] in {policy.file}."
        )


def build(path: Path, statements: list[str], questions: list[str]) -> list[list[tuple[Any, ...]]]:
    """Make a new database file from SQL of our own, and answer questions about it while it is being made.

    For demonstrations and tests, which know the truth because they made it. It refuses a file that exists.
    """
    if path.exists():
        raise SourceError(f"{path} already exists and was not changed. Name a file that does not exist.")
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        return [connection.execute(question).fetchall() for question in questions]
