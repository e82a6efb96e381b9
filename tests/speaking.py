"""A client of the wire protocol for tests, that says whatever it is told to, and hears every message."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

PATIENCE = 12.0  # seconds in which the server says something or closes
SSL, GSS, CANCEL, MAJOR = 80877103, 80877104, 80877102, 3 << 16


def frame(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return kind + struct.pack("!i", len(content) + 4) + content


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(**pairs: str) -> bytes:
    return versioned(MAJOR, pairs)


def versioned(code: int, pairs: dict[str, str]) -> bytes:
    content = b"".join(text(key) + text(value) for key, value in pairs.items()) + b"\0"
    return struct.pack("!ii", len(content) + 8, code) + content


def sasl(first: bytes, mechanism: str = "SCRAM-SHA-256") -> bytes:
    return frame(b"p", text(mechanism), struct.pack("!i", len(first)), first)


@dataclass(slots=True)
class Client:
    """One connection, and everything that came on it."""

    port: int
    found: list[tuple[bytes, bytes]] = field(default_factory=list)
    is_closed: bool = False
    _rest: bytes = b""
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, content: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(content)

    def heard(self) -> bytes:
        """Say no more; everything that comes until the server closes, as it comes."""
        found = b""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while part := self._socket.recv(1 << 16):
                found += part
        return found

    def message(self) -> tuple[bytes, bytes]:
        """The next message; nothing once the server has closed. Silence is an error."""
        while len(self._rest) < 5 or len(self._rest) < 1 + int.from_bytes(self._rest[1:5], "big"):
            try:
                part = self._socket.recv(1 << 16)
            except ConnectionResetError:
                part = b""
            if not part:
                self.is_closed = True
                return b"", b""
            self._rest += part
        size = 1 + int.from_bytes(self._rest[1:5], "big")
        message, self._rest = (self._rest[:1], self._rest[5:size]), self._rest[size:]
        self.found.append(message)
        if message[0] == b"E":
            assert self.code() != "XX000", message
        return message

    def until(self, kinds: bytes) -> bytes:
        """Read on until a message of one of these kinds; which, or nothing if the server closed."""
        while True:
            kind, _ = self.message()
            if not kind or kind in kinds:
                return kind

    def over(self) -> None:
        """Say no more, and hear the rest: the server closes soon."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self.until(b"")

    def code(self) -> str:
        """Of the last error."""
        last = next((content for kind, content in reversed(self.found) if kind == b"E"), b"")
        parts = {part[:1]: part[1:] for part in last.split(b"\0") if part}
        return parts.get(b"C", b"").decode()

    def codes(self) -> list[str]:
        """Of all errors until the server is ready again, or closes."""
        self.found.clear()
        self.until(b"Z")
        errors = [content.split(b"\0") for kind, content in self.found if kind == b"E"]
        return [part[1:].decode() for parts in errors for part in parts if part[:1] == b"C"]

    def enter(
        self, name: str, token: str, database: str = "hospital", options: str = "-c sfumato.epsilon=0.1"
    ) -> Client:
        """Come in by SCRAM."""
        self.send(startup(user=name, database=database, options=options))
        self.until(b"RE")
        self.prove(token)
        assert self.until(b"ZE") == b"Z", self.found[-1:]
        return self

    def prove(self, token: str, header: str = "n,,", **other: str) -> str:
        """Both messages of a client; `other` replaces parts of the last. What was sent last."""
        nonce = "fuzzfuzzfuzzfuzz"
        bare = f"n=,r={nonce}"
        self.send(sasl(f"{header}{bare}".encode()))
        if self.until(b"RE") != b"R":
            return ""
        told = self.found[-1][1][4:].decode()
        facts = dict(part.split("=", 1) for part in told.split(","))
        key = _client_key(token, facts["s"], int(facts["i"]))
        bound = other.get("c", base64.b64encode(header.encode()).decode())
        last = f"c={bound},r={other.get('r', facts['r'])}"
        signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{told},{last}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        last = other.get("last", f"{last},p={other.get('p', proof)}")
        self.send(frame(b"p", last.encode()))
        return last

    def ask(self, sql: str) -> list[tuple[bytes, bytes]]:
        """A simple query, and all that came."""
        self.found.clear()
        self.send(frame(b"Q", text(sql)))
        self.until(b"Z")
        return self.found


_KEYS: dict[tuple[str, str, int], bytes] = {}


def _client_key(token: str, salt: str, rounds: int) -> bytes:
    if (token, salt, rounds) not in _KEYS:
        salted = hashlib.pbkdf2_hmac("sha256", token.encode(), base64.b64decode(salt), rounds)
        _KEYS[token, salt, rounds] = hmac.digest(salted, b"Client Key", "sha256")
    return _KEYS[token, salt, rounds]


def parse(name: str, sql: str, *types: int) -> bytes:
    oids = b"".join(struct.pack("!I", oid) for oid in types)
    return frame(b"P", text(name), text(sql), struct.pack("!H", len(types)), oids)


def bind(
    portal: str, name: str, *given: bytes | None, forms: tuple[int, ...] = (), out: tuple[int, ...] = ()
) -> bytes:
    parts = [struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each for each in given]
    head = struct.pack(f"!H{len(forms)}h", len(forms), *forms) + struct.pack("!H", len(given))
    return frame(b"B", text(portal), text(name), head, *parts, struct.pack(f"!H{len(out)}h", len(out), *out))


def execute(portal: str = "", most: int = 0) -> bytes:
    return frame(b"E", text(portal), struct.pack("!i", most))


SYNC, FLUSH = frame(b"S"), frame(b"H")
