"""The process in which queries over released rows run: started for that, with little memory and little time.

An engine's own limits do not count all that it takes (texts in the middle of a computation, lists, planning),
and nothing inside a process can stop what holds its lock. So the engine lives in a process of its own, which
the system keeps from taking more than `MOST_MEMORY` and which is killed when its time is over. It sees what
comes in through its pipe: rows that were released, and SQL that was printed from a tree. Run as a script it
imports nothing of ours.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO

import duckdb

MOST_MEMORY = 2 << 30  # bytes of addresses, with what the interpreter and the engine are made of
MOST_CELLS = 2_000_000  # values that a query gives, those of hidden columns counted
MOST_LETTERS_MADE = 20_000_000  # in texts and lists of these
SETTINGS: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": "512MiB",
    "threads": "1",
    "lock_configuration": "true",
}
Job = dict[str, Any]


def run(engine: duckdb.DuckDBPyConnection, job: Job) -> tuple[str, Any]:
    """The rows of a job, or one word for why there are none."""
    try:
        for name, kinds, columns in job["tables"]:
            fill(engine, name, kinds, columns)
        cursor = engine.execute(job["sql"])
        return fetched(cursor, job["most"])
    except (duckdb.OutOfMemoryException, MemoryError):
        return "memory", None
    except duckdb.OutOfRangeException:
        return "range", None
    except duckdb.Error as error:
        return ("several" if "More than one row" in str(error) else "types"), None


def fill(engine: duckdb.DuckDBPyConnection, name: str, kinds: list[str], columns: list[list[Any]]) -> None:
    """Shown rows as a table, each with its number."""
    names = [f"c{i} {kind}" for i, kind in enumerate(kinds)]
    engine.execute(f"CREATE TABLE {name} ({', '.join(['r0 BIGINT', *names])})")
    count = len(columns[0]) if columns else 0
    if count:
        lists = [f"unnest(CAST(? AS {kind}[]))" for kind in kinds]
        rows = "unnest(CAST(? AS BIGINT[]))"
        engine.execute(
            f"INSERT INTO {name} SELECT {', '.join([rows, *lists])}", [list(range(count)), *columns]
        )


def fetched(cursor: duckdb.DuckDBPyConnection, most: int) -> tuple[str, Any]:
    """The rows, in parts: so many of them as may be held."""
    rows: list[tuple[Any, ...]] = []
    letters, step = 0, max(1, min(1000, 100_000 // max(len(cursor.description), 1)))
    while part := cursor.fetchmany(step):
        rows += part
        letters += sum(len(each) for row in part for each in row if isinstance(each, (str, list)))
        if len(rows) > most or len(rows) * len(rows[0]) > MOST_CELLS:
            return "rows", None
        if letters > MOST_LETTERS_MADE:
            return "letters", None
    return "made", rows


def main(given: BinaryIO, gives: BinaryIO) -> None:
    """Jobs from one pipe, answers into the other, until the first is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        with duckdb.connect(":memory:", config=SETTINGS) as engine:  # of one job; made before it comes
            if len(head := given.read(12)) < 12:
                return
            size, seconds = struct.unpack("!Qf", head)
            job = pickle.loads(given.read(size))
            signal.setitimer(signal.ITIMER_REAL, seconds)  # whoever started it may be gone
            told = pickle.dumps(run(engine, job), protocol=pickle.HIGHEST_PROTOCOL)
            signal.setitimer(signal.ITIMER_REAL, 0)
            gives.write(struct.pack("!Q", len(told)) + told)
            gives.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the one who started it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else writes among the answers
    main(sys.stdin.buffer, answers)
