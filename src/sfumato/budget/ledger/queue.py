"""Where processes leave what they want written while another one is writing.

A commit takes as long as the disk takes, whether it writes one entry or eight. So whoever finds the lock
taken puts its wishes into a small file of its own before it waits. Whoever is writing finds them there,
writes them together with its own, and leaves the answers; the one who waited finds its work done.

Each process owns one file, mapped into memory: a byte that says whose turn it is, a length, and text. Nothing
here needs to survive: what is in no transaction was not written, and asking twice for one thing is one thing.
A queue that cannot be used (a full disk, a closed folder) is left out: everybody then writes for themselves.
"""

from __future__ import annotations

import itertools
import mmap
import os
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 1 << 18  # bytes of one file; longer wishes wait for their own turn
START = 20  # a byte of state, 4 of length, 8 of process number, 4 of checksum
IDLE, ASKED, ANSWERED = 0, 1, 2


class Queue:
    """A folder of such files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own: tuple[str, mmap.mmap] | None = None
        self._used = 0  # bytes of the own page that may hold something
        self._others: dict[tuple[str, int], mmap.mmap] = {}  # by name and inode: names are used again

    def ask(self, text: bytes) -> bool:
        """Leave a wish; False if it is too long, or there is no place for it."""
        if len(text) > SIZE - START:
            return False
        try:
            if self._own is None:
                self._own = self._claimed()
        except OSError:
            return False
        self._used = max(self._used, len(text))
        _put(self._own[1], text, ASKED)
        return True

    def answer(self) -> bytes | None:
        """What somebody else left in the place of the wish; None if nobody did yet."""
        assert self._own is not None
        page = self._own[1]
        return _whole(page) if page[0] == ANSWERED else None

    def clear(self) -> None:
        """Take the wish back, and every letter of it: a draw that was not stored must not lie around."""
        if self._own is not None:
            page = self._own[1]
            page[0] = IDLE
            used = max(self._used, min(int.from_bytes(page[1:5], "little"), SIZE - START))
            page[START : START + used] = bytes(used)
            self._used = 0

    def wishes(self) -> Iterator[tuple[mmap.mmap, bytes]]:
        """What others want written; only for whoever is alone."""
        try:
            files = {(file.name, file.inode()) for file in os.scandir(self.folder)}
        except OSError:
            return
        for gone in self._others.keys() - files:
            self._others.pop(gone).close()
        for file in files:
            page = None if self._own is not None and file[0] == self._own[0] else self._page(file)
            if page is None:
                continue
            if not _alive(int.from_bytes(page[5:13], "little")):
                self._others.pop(file).close()
                (self.folder / file[0]).unlink(missing_ok=True)
            elif page[0] == ASKED and (text := _whole(page)) is not None:
                yield page, text

    @staticmethod
    def reply(page: mmap.mmap, text: bytes) -> None:
        """Tell whoever waits; an answer that is too long is left for them to ask for again."""
        if len(text) <= SIZE - START and page[0] == ASKED:
            _put(page, text, ANSWERED)

    def rest(self) -> None:
        """Give the file back."""
        if self._own is not None:
            self.clear()
            self._own[1].close()
            (self.folder / self._own[0]).unlink(missing_ok=True)
            self._own = None
        for page in self._others.values():
            page.close()
        self._others.clear()

    def _claimed(self) -> tuple[str, mmap.mmap]:
        """A file that nobody else has: the first free number."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for number in itertools.count():
            try:
                file = os.open(self.folder / str(number), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            except FileExistsError:
                continue
            try:
                # blocks of its own: writing to a hole on a full disk would kill the process
                if os.write(file, bytes(SIZE)) < SIZE:
                    raise OSError("the disk is full")
                page = mmap.mmap(file, SIZE)
            except OSError:
                (self.folder / str(number)).unlink(missing_ok=True)
                raise
            finally:
                os.close(file)
            page[5:13] = os.getpid().to_bytes(8, "little")
            return str(number), page
        raise AssertionError("numbers do not end")

    def _page(self, name: tuple[str, int]) -> mmap.mmap | None:
        if name not in self._others:
            try:
                file = os.open(self.folder / name[0], os.O_RDWR)
            except OSError:
                return None
            try:
                found = os.fstat(file)
                if found.st_size < SIZE or found.st_ino != name[1]:
                    return None  # just being made
                page = mmap.mmap(file, SIZE)
                if not int.from_bytes(page[5:13], "little"):
                    page.close()  # its owner has not signed it yet
                    return None
                self._others[name] = page
            except OSError:
                return None
            finally:
                os.close(file)
        return self._others[name]


def _put(page: mmap.mmap, text: bytes, state: int) -> None:
    page[1:5] = len(text).to_bytes(4, "little")
    page[13:17] = zlib.crc32(text).to_bytes(4, "little")
    page[START : START + len(text)] = text
    page[0] = state  # last: who reads it reads the rest


def _whole(page: mmap.mmap) -> bytes | None:
    """The text, if it is all there."""
    text = bytes(page[START : START + int.from_bytes(page[1:5], "little")])
    return text if zlib.crc32(text).to_bytes(4, "little") == page[13:17] else None


def _alive(process: int) -> bool:
    """Whether a process is there; one of another container looks dead, and then writes for itself."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
