"""Messages of the PostgreSQL protocol, version 3: reading them with limits, writing them as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sfumato.server.catalog.values import BY_OID, INT2, INT4, OID, as_bytes, as_text, sized

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from typing import Any

    from sfumato.server.catalog.values import ResultField

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
MAJOR = 3
BEFORE, AFTER = 10_000, 1 << 20  # bytes of a message before and after somebody is let in
WHOLE = {INT2: range(-(1 << 15), 1 << 15), INT4: range(-(1 << 31), 1 << 31), OID: range(1 << 32)}
AUTHENTICATED = struct.pack("!ciI", b"R", 8, 0)


class Broken(Exception):
    """The client does not speak the protocol: there is nothing more to say."""


CHANGED = "cached plan must not change result type"


class TooLarge(Exception):
    """A value that does not fit into the type of its column."""


class MessageBody:
    """The content of a message, read from left to right."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if count < 0 or self._place + count > len(self._content):
            raise Broken("a message is shorter than its stated length")
        found = self._content[self._place : self._place + count]
        self._place += count
        return found

    def int16(self) -> int:
        """An integer of two bytes."""
        return int(struct.unpack("!h", self.take(2))[0])

    def int32(self) -> int:
        """An integer of four bytes."""
        return int(struct.unpack("!i", self.take(4))[0])

    def text(self) -> str:
        """A text that ends with a zero byte."""
        end = self._content.find(b"\0", self._place)
        if end < 0:
            raise Broken("a string has no terminator")
        found = self.take(end - self._place)
        self._place += 1
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise Broken("a string is not UTF-8") from None

    @property
    def rest(self) -> bytes:
        """Everything that is left."""
        return self._content[self._place :]

    def many(self) -> range:
        """A count of two bytes, which cannot be more than what is left."""
        count = struct.unpack("!H", self.take(2))[0]
        if count > len(self._content):
            raise Broken("a message declares more items than it contains")
        return range(count)


async def opening(reader: asyncio.StreamReader) -> tuple[int, MessageBody]:
    """The first message, which has no letter: what the client wants."""
    (size,) = struct.unpack("!i", await reader.readexactly(4))
    if not 8 <= size <= BEFORE:
        raise Broken("the startup message has an invalid size")
    body = MessageBody(await reader.readexactly(size - 4))
    return body.int32(), body


async def following(reader: asyncio.StreamReader, limit: int = AFTER) -> tuple[bytes, MessageBody]:
    """Any other message."""
    kind, size = struct.unpack("!ci", await reader.readexactly(5))
    if not 4 <= size <= limit:
        raise Broken("a message has an invalid size")
    return kind, MessageBody(await reader.readexactly(size - 4) if size > 4 else b"")


def message(kind: bytes, content: bytes = b"") -> bytes:
    """A message."""
    return kind + struct.pack("!i", len(content) + 4) + content


def text(value: str) -> bytes:
    """A text with its end."""
    return value.replace("\0", " ").encode("utf-8", "replace") + b"\0"


def ready(state: bytes) -> bytes:
    """Ready for the next query: idle, in a transaction, or in one that failed."""
    return message(b"Z", state)


def status(name: str, value: str) -> bytes:
    """A setting that clients want to know."""
    return message(b"S", text(name) + text(value))


def done(tag: str) -> bytes:
    """A command is complete."""
    return message(b"C", text(tag))


def described(fields: Sequence[ResultField], formats: Sequence[int]) -> bytes:
    """Names and types of the columns of a result."""
    parts = [struct.pack("!H", len(fields))]
    for field, form in zip(fields, spread(formats, len(fields)), strict=True):
        size = BY_OID[field.oid].size if field.oid in BY_OID else -1
        parts.append(text(field.name) + struct.pack("!IhIhih", 0, 0, field.oid, size, -1, form))
    return message(b"T", b"".join(parts))


def row(values: Sequence[Any], fields: Sequence[ResultField], formats: Sequence[int]) -> bytes:
    """A row, every value in the format of its column."""
    parts = [struct.pack("!H", len(fields))]
    for value, field, form in zip(values, fields, formats, strict=True):
        write = as_bytes if form else as_text
        if field.oid in WHOLE and isinstance(value, int) and int(value) not in WHOLE[field.oid]:
            raise TooLarge(f"column {field.name!r} has a value outside the range of its type")
        try:
            parts.append(sized(None if value is None else write(value, field.oid)))
        except (struct.error, ArithmeticError, AttributeError, TypeError, ValueError):
            raise TooLarge(f"column {field.name!r} has a value outside the range of its type") from None
    return message(b"D", b"".join(parts))


def spread(formats: Sequence[int], count: int) -> list[int]:
    """One format for every column: none given means text, one means all."""
    if len(formats) <= 1:
        return [formats[0] if formats else 0] * count
    if len(formats) != count:
        raise Broken("the number of formats is not the number of columns")
    return list(formats)


def complaint(
    kind: bytes, severity: str, code: str, words: str, detail: str = "", hint: str = "", position: int = 0
) -> bytes:
    """An error (E) or a notice (N)."""
    parts = {"S": severity, "V": severity, "C": code, "M": words, "D": detail, "H": hint}
    if words == CHANGED:
        parts["R"] = "RevalidateCachedQuery"  # by which clients know that preparing it again helps
    told = b"".join(sign.encode() + text(value) for sign, value in parts.items() if value)
    place = b"P" + text(str(position)) if position else b""
    return message(kind, told + place + b"\0")
