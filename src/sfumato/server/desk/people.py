"""Who may come in: names, roles, tokens and passwords, in a file beside the policy.

A token is 256 random bits that are shown once. The file holds its hash for the HTTP door and its SCRAM keys
for the wire door; from neither can it be found. Passwords are chosen by people, so they are kept only as
scrypt hashes, open only the HTTP door, and only to get a token that expires. (SCRAM would need a hash that is
quick to try, and a stolen disk could then be tried against a dictionary.)

The file is replaced as a whole, under a lock; every process looks whether it changed before it believes what
it read, so whoever is revoked is out at once, at every door and in every worker.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sfumato.budget.ledger.shares import check_name
from sfumato.curator.files import rewrite
from sfumato.errors import InvalidParameter, ServerError
from sfumato.exact.coins import SystemCoins
from sfumato.server.desk import scram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Role = Literal["owner", "analyst", "auditor"]
ROLES: tuple[str, ...] = get_args(Role)
DAY = 86_400.0
DAYS = 90.0  # a token lives so long unless somebody says otherwise
MOST_DAYS = 3650.0
FORM = 1
COST = {"n": 1 << 15, "r": 8, "p": 1}  # of scrypt: about 32 MB and a tenth of a second
SHORTEST = 10  # letters of a password
MOST_TOKENS = 32  # tokens of one person that are valid at a time


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token: everything but the token."""

    id: str
    made: float
    expires: float
    digest: str  # SHA-256
    stored_key: str  # SCRAM, in hex
    server_key: str
    once: bool = False  # good for one thing: to get another token
    revoked: bool = False

    def is_valid(self, now: float) -> bool:
        """Whether it still opens anything."""
        return not self.revoked and now < self.expires


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may come in."""

    name: str
    role: Role
    salt: str  # of all her SCRAM keys, in hex
    tokens: tuple[Token, ...] = ()
    password: dict[str, Any] | None = None  # scrypt
    revoked: bool = False

    def may(self, *roles: Role) -> bool:
        """Whether she has one of the roles."""
        return self.role in roles


class People:
    """The file of people of one database."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock
        self._seen: tuple[int, int, int] | None = None
        self._people: dict[str, Person] = {}
        self._tokens: dict[str, str] = {}  # whose
        self._pepper = b""
        self._looking = threading.Lock()

    @classmethod
    def beside(cls, policy: Path | str) -> People:
        """The people of a policy."""
        return cls(Path(policy).absolute().with_suffix(".people"))

    # Who is it ----------------------------------------------------------------------------------------

    def by_token(self, text: str, *, once: bool = False) -> Person | None:
        """Whose token it is, if it is valid. A one-time token opens nothing but the exchange for another."""
        self._refresh()
        owner = self._people.get(self._tokens.get(id_of(text), ""))
        known = next((each for each in owner.tokens if each.id == id_of(text)), None) if owner else None
        digest = _digest(text)
        same = hmac.compare_digest(digest, known.digest if known else "0" * 64)
        if owner is None or known is None or not same or owner.revoked:
            return None
        return owner if known.is_valid(self._clock()) and known.once <= once else None

    def by_password(self, name: str, password: str) -> Person | None:
        """Who has this name and password. It takes as long for a name that nobody has."""
        self._refresh()
        person = self._people.get(name)
        kept = (person.password if person else None) or {"salt": "00" * 16, "hash": "00" * 32, **COST}
        same = hmac.compare_digest(_scrypt(password, kept), kept["hash"])
        has = person is not None and person.password is not None and not person.revoked
        return person if same and has else None

    def handshake(
        self, name: str, client_first: str, *, database: str = "", stranger: bool = False
    ) -> scram.Server:
        """SCRAM for whoever calls herself so; for a stranger it fails at the end, and not before."""
        self._refresh()
        now, person = self._clock(), self._people.get(name)
        salt = hmac.digest(self._pepper, f"{database}\0{name}".encode(), "sha256")[:16]
        keys: list[tuple[str, bytes, bytes]] = []
        if person is not None and not person.revoked and not stranger:
            salt = bytes.fromhex(person.salt)
            keys = [
                (each.id, bytes.fromhex(each.stored_key), bytes.fromhex(each.server_key))
                for each in person.tokens
                if each.is_valid(now) and not each.once
            ]
        return scram.Server(client_first, _random(18), salt, tuple(keys))

    def still(self, name: str, token: str) -> Person | None:
        """The person, if she may still come in with the token of this id."""
        self._refresh()
        person = self._people.get(name)
        if person is None or person.revoked:
            return None
        valid = any(each.id == token and each.is_valid(self._clock()) for each in person.tokens)
        return person if valid else None

    def all(self) -> tuple[Person, ...]:
        """Everybody, by name."""
        self._refresh()
        return tuple(self._people[name] for name in sorted(self._people))

    def can_enter(self) -> bool:
        """Whether anybody can come in."""
        now = self._clock()
        able = [each for each in self.all() if not each.revoked]
        return any(each.password or any(token.is_valid(now) for token in each.tokens) for each in able)

    def get(self, name: str) -> Person | None:
        """Somebody of that name."""
        self._refresh()
        return self._people.get(name)

    # Who may change -----------------------------------------------------------------------------------

    def add(self, name: str, role: str, *, days: float = DAYS, once: bool = False) -> str:
        """Let somebody in, or give somebody another token. The token is shown this one time."""
        check_name(name, {each.name for each in self.all()})
        if role not in ROLES:
            raise InvalidParameter("role", role, f"use one of: {', '.join(ROLES)}")
        check_days(days)
        with self._changing() as people:
            before = people.get(name)
            if before is not None and before.role != role and not before.revoked:
                told = (
                    f"{name} has the role {before.role}; revoke it first: sfumato user revoke POLICY {name}"
                )
                raise InvalidParameter("role", role, told)
            fresh = before is None or before.revoked
            person = Person(name, role, _random(16).hex()) if fresh else before  # type: ignore[arg-type]
            assert person is not None
            text, token = self._token(person, days, once)
            people[name] = replace(person, tokens=(*self._valid(person), token))
        return text

    def exchange(self, text: str, days: float = DAYS) -> str | None:
        """A token for a one-time token, which is used up; None if it is none."""
        check_days(days)
        with self._changing() as people:
            person = self.by_token(text, once=True)  # under the lock: it is exchanged once
            if person is None or not any(each.id == id_of(text) and each.once for each in person.tokens):
                return None
            fresh, token = self._token(person, days, once=False)
            kept = tuple(each for each in person.tokens if each.id != id_of(text))
            people[person.name] = replace(person, tokens=(*kept, token))
        return fresh

    def log_in(self, name: str, password: str, days: float = DAYS) -> str | None:
        """A token for a password; None if it is not hers."""
        check_days(days)
        known = self.by_password(name, password)
        if known is None:
            return None
        with self._changing() as people:
            person = people.get(name)
            if person is None or person.revoked or person.password != known.password:
                return None  # shut out while the hash was computed
            text, token = self._token(person, days, once=False)
            people[name] = replace(person, tokens=(*self._valid(person), token))
        return text

    def set_password(self, name: str, password: str) -> None:
        """Let somebody get tokens by a password."""
        if len(password) < SHORTEST or len(password) > 1000:
            told = f"use at least {SHORTEST} and at most 1000 characters"
            raise InvalidParameter("password", "(not shown)", told)
        kept: dict[str, Any] = {"salt": _random(16).hex(), **COST}
        kept["hash"] = _scrypt(password, kept)
        with self._changing() as people:
            people[name] = replace(self._known(people, name), password=kept)

    def revoke(self, name: str, token: str = "") -> None:
        """Shut somebody out, or one token of hers."""
        with self._changing() as people:
            person = self._known(people, name)
            if not token:
                people[name] = replace(person, revoked=True, tokens=(), password=None)
                return
            if token not in {each.id for each in person.tokens}:
                ids = ", ".join(each.id for each in person.tokens) or "none"
                raise InvalidParameter("token", token, f"name one of {name}'s: {ids}")
            tokens = [replace(t, revoked=True) if t.id == token else t for t in person.tokens]
            people[name] = replace(person, tokens=tuple(tokens))

    def _valid(self, person: Person) -> list[Token]:
        """Her tokens, if there may be one more."""
        now = self._clock()
        kept = [each for each in person.tokens if each.is_valid(now)]
        if len(kept) >= MOST_TOKENS:
            name = person.name
            told = f"{name} has {MOST_TOKENS} valid tokens; revoke some: sfumato user revoke POLICY {name}"
            raise InvalidParameter("tokens", len(kept), told)
        return kept

    def _known(self, people: dict[str, Person], name: str) -> Person:
        if name not in people:
            known = ", ".join(sorted(people)) or "nobody"
            raise InvalidParameter("name", name, f"there is no such user; known: {known}")
        return people[name]

    def _token(self, person: Person, days: float, once: bool) -> tuple[str, Token]:
        name = _random(5).hex()
        secret = base64.b32encode(_random(32)).decode().rstrip("=").lower()
        text, now = f"sfu_{name}_{secret}", self._clock()
        stored, server = scram.keys(text, bytes.fromhex(person.salt))
        token = Token(name, now, now + days * DAY, _digest(text), stored.hex(), server.hex(), once)
        return text, token

    # The file -----------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        with self._looking:  # two threads must not mix what they read with what the other saw
            self._look()

    def _look(self) -> None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._people, self._tokens = None, {}, {}
            self._pepper = self._pepper or _random(32)
            return
        except OSError as error:
            raise ServerError(
                f"{self.path.name} cannot be read ({error.strerror}). All logins are refused."
            ) from None
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._read()
            self._seen = seen

    def _read(self) -> None:
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
            if told["form"] != FORM:
                raise ValueError(f"it has form {told['form']}")
            people = [
                Person(**{**each, "tokens": tuple(Token(**token) for token in each["tokens"])})
                for each in told["people"]
            ]
            self._pepper = bytes.fromhex(told["pepper"])
        except OSError as error:
            raise ServerError(
                f"{self.path.name} cannot be read now ({error.strerror}). All logins are refused."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ServerError(
                f"{self.path.name} is not a users file of this version. All logins are refused. Restore "
                "it, or remove it and start again: sfumato user add POLICY NAME"
            ) from None
        self._people = {each.name: each for each in people}
        self._tokens = {token.id: each.name for each in people for token in each.tokens}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Person]]:
        """The people, to be changed by one process at a time; on disk at the end, or not changed."""
        lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._refresh()
            people = dict(self._people)
            before = dict(people)
            yield people
            if people != before:
                self._write(people)
        finally:
            os.close(lock)
        self._refresh()

    def _write(self, people: dict[str, Person]) -> None:
        told = {
            "form": FORM,
            "pepper": self._pepper.hex(),
            "people": [asdict(people[name]) for name in sorted(people)],
        }
        rewrite(self.path, json.dumps(told, indent=1))


def check_days(days: float) -> None:
    """Refuse a token that lives for ever, or not at all."""
    if not 0 < days <= MOST_DAYS:
        raise InvalidParameter(
            "days", days, f"a token is valid for more than 0 and at most {MOST_DAYS:g} days"
        )


def _random(size: int) -> bytes:
    return SystemCoins().bits(8 * size).to_bytes(size, "little")


def id_of(text: str) -> str:
    """The id of a token, by which it is known without the rest."""
    parts = text.split("_")
    return parts[1] if len(parts) == 3 and parts[0] == "sfu" else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _scrypt(password: str, kept: dict[str, Any]) -> str:
    given, salt = password.encode("utf-8", "replace"), bytes.fromhex(kept["salt"])
    memory = 256 * kept["n"] * kept["r"]
    found = hashlib.scrypt(given, salt=salt, n=kept["n"], r=kept["r"], p=kept["p"], maxmem=memory, dklen=32)
    return found.hex()
