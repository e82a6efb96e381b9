"""Where processes leave what they want written while another one is writing.

A commit takes as long as the disk takes, whether it writes one entry or eight. So whoever finds the lock
taken puts its wishes into a small file of its own before it waits. Whoever is writing finds them there,
writes them together with its own, and leaves the answers; the one who waited finds its work done.

Each process owns one file, mapped into memory: a byte that says whose turn it is, a length, and text. Nothing
here needs to survive: what is in no transaction was not written, and asking twice for one thing is one thing.
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
        self._others: dict[tuple[str, int], mmap.mmap] = {}  # by name and inode: names are used again

    def ask(self, text: bytes) -> bool:
        """Leave a wish; False if it is too long."""
        if len(text) > SIZE - START:
            return False
        if self._own is None:
            self._own = self._claimed()
        _put(self._own[1], text, ASKED)
        return True

    @property
    def is_answered(self) -> bool:
        """Whether somebody else has written the wish down."""
        assert self._own is not None
        page = self._own[1]
        return page[0] == ANSWERED and _is_whole(page, _text(page))

    def answer_taken(self) -> bytes | None:
        """What somebody else answered to the wish; None if nobody did. Either way it is taken back."""
        assert self._own is not None
        page = self._own[1]
        text, size = (_text(page) if self.is_answered else None), int.from_bytes(page[1:5], "little")
        page[START : START + size] = bytes(size)  # a draw that was not stored must not lie around
        _put(page, b"", IDLE)
        return text

    def wishes(self) -> Iterator[tuple[mmap.mmap, bytes]]:
        """What others want written; only for whoever is alone."""
        try:
            files = {(file.name, file.inode()) for file in os.scandir(self.folder)}
        except FileNotFoundError:
            return
        for gone in self._others.keys() - files:
            self._others.pop(gone).close()
        for file in files:
            if self._own is not None and file[0] == self._own[0]:
                continue
            page = self._page(file)
            if page is None or page[0] != ASKED:
                continue
            if not _alive(int.from_bytes(page[5:13], "little")):
                self._others.pop(file).close()
                (self.folder / file[0]).unlink(missing_ok=True)
            elif _is_whole(page, text := _text(page)):
                yield page, text

    @staticmethod
    def answer(page: mmap.mmap, text: bytes) -> None:
        """Tell whoever waits; an answer that is too long is left for them to ask for again."""
        if len(text) <= SIZE - START:
            _put(page, text, ANSWERED)

    def rest(self) -> None:
        """Give the file back."""
        if self._own is not None:
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
                os.ftruncate(file, SIZE)
                page = mmap.mmap(file, SIZE)
            finally:
                os.close(file)
            page[5:13] = os.getpid().to_bytes(8, "little")
            return str(number), page
        raise AssertionError("numbers do not end")

    def _page(self, name: tuple[str, int]) -> mmap.mmap | None:
        if name not in self._others:
            try:
                file = os.open(self.folder / name[0], os.O_RDWR)
            except FileNotFoundError:
                return None
            try:
                found = os.fstat(file)
                if found.st_size < SIZE or found.st_ino != name[1]:
                    return None  # just being made
                self._others[name] = mmap.mmap(file, SIZE)
            finally:
                os.close(file)
        return self._others[name]


def _put(page: mmap.mmap, text: bytes, state: int) -> None:
    page[1:5] = len(text).to_bytes(4, "little")
    page[13:17] = zlib.crc32(text).to_bytes(4, "little")
    page[START : START + len(text)] = text
    page[0] = state  # last: who reads it reads the rest


def _text(page: mmap.mmap) -> bytes:
    return bytes(page[START : START + int.from_bytes(page[1:5], "little")])


def _is_whole(page: mmap.mmap, text: bytes) -> bool:
    return zlib.crc32(text).to_bytes(4, "little") == page[13:17]


def _alive(process: int) -> bool:
    """Whether a process is there; one of another container looks dead, and then writes for itself."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
