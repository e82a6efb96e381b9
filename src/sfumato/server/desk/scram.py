"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, for somebody who may hold one of several tokens.

The client proves that it knows a token without sending it, and the server proves that it knows the token's
keys. All tokens of a person share a salt, so one exchange serves them all: the proof fits at most one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

ROUNDS = 4096  # of PBKDF2: a token has 256 random bits, so nobody can try them
NAME = "SCRAM-SHA-256"


class LoginRefused(Exception):
    """The exchange ends here; why, only our own log may know."""


def keys(password: str, salt: bytes) -> tuple[bytes, bytes]:
    """What the server keeps of a password: StoredKey and ServerKey."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256")


class Server:
    """One exchange."""

    def __init__(
        self, client_first: str, nonce: bytes, salt: bytes, known: tuple[tuple[str, bytes, bytes], ...]
    ) -> None:
        """`known` are the ids and keys of the tokens that would do."""
        header, _, rest = client_first.partition(",")
        authority, _, bare = rest.partition(",")
        # "y": the client would bind the channel, and believes that we cannot, which is so
        if header not in ("n", "y") or authority or not bare.startswith("n="):
            raise LoginRefused("the first message is not SCRAM without channel binding")
        self._header = f"{header},,"
        given = dict(part.split("=", 1) for part in bare.split(",") if "=" in part)
        client_nonce = given.get("r", "")
        if not client_nonce or not client_nonce.isprintable():
            raise LoginRefused("the nonce is missing")
        self._nonce = client_nonce + base64.b64encode(nonce).decode()
        self._known, self._bare = known, bare
        self.first = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={ROUNDS}"

    def final(self, client_final: str) -> tuple[str, str]:
        """The server's last message, and the id of the token that was proved; or a refusal."""
        told, _, proof_text = client_final.rpartition(",p=")
        given = dict(part.split("=", 1) for part in told.split(",") if "=" in part)
        bound = base64.b64encode(self._header.encode()).decode()
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            proof = b""
        message = f"{self._bare},{self.first},{told}".encode()
        found: tuple[str, bytes] | None = None
        for name, stored, server in self._known:  # all of them, so that time does not tell which
            signature = hmac.digest(stored, message, "sha256")
            client = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
            if hmac.compare_digest(hashlib.sha256(client).digest(), stored):
                found = name, hmac.digest(server, message, "sha256")
        fits = hmac.compare_digest(given.get("r", "").encode(), self._nonce.encode())
        if found is None or len(proof) != 32 or not fits or given.get("c") != bound:
            raise LoginRefused("the proof is wrong")
        return f"v={base64.b64encode(found[1]).decode()}", found[0]
