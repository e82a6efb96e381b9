"""Who is let in: tokens, passwords, SCRAM, and the file they are kept in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.server.desk import scram
from sfumato.server.desk.people import DAY, MOST_TOKENS, People

if TYPE_CHECKING:
    from pathlib import Path


def proof(password: str, first: str, client_nonce: str = "abc", header: str = "n,,") -> str:
    """The last message of a client that knows a password."""
    given = dict(part.split("=", 1) for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(given["s"]), int(given["i"]))
    client = hmac.digest(salted, b"Client Key", "sha256")
    told = f"c={base64.b64encode(header.encode()).decode()},r={given['r']}"
    message = f"n=,r={client_nonce},{first},{told}".encode()
    signature = hmac.digest(hashlib.sha256(client).digest(), message, "sha256")
    return (
        f"{told},p={base64.b64encode(bytes(a ^ b for a, b in zip(client, signature, strict=True))).decode()}"
    )


def test_scram_is_that_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored, server = scram.keys("pencil", salt)
    exchange = scram.Server("n,,n=user,r=rOprNGfwEbeRWgbNEkqO", b"", salt, (("it", stored, server),))
    exchange._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange.first = f"r={exchange._nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = f"c=biws,r={exchange._nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.final(final) == ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "it")


def test_any_of_her_tokens_proves_who_she_is_and_no_other(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    tokens = [people.add("ana", "analyst") for _ in range(3)]
    people.add("bob", "analyst")
    for token in tokens:
        exchange = people.handshake("ana", "n,,n=,r=abc")
        _, known = exchange.final(proof(token, exchange.first))
        assert known == token.split("_")[1]
    for name, token in (("bob", tokens[0]), ("ana", tokens[0][:-1] + "x"), ("nobody", tokens[0])):
        exchange = people.handshake(name, "n,,n=,r=abc")
        with pytest.raises(scram.LoginRefused):
            exchange.final(proof(token, exchange.first))


@pytest.mark.parametrize(
    "first", ["", "p=tls-unique,,n=,r=a", "n,a=other,n=,r=a", "n,,n=", "n,,r=a", "x,,n=,r=a"]
)
def test_what_is_not_scram_without_binding_is_refused(first: str, tmp_path: Path) -> None:
    with pytest.raises(scram.LoginRefused):
        People(tmp_path / "a.people").handshake("ana", first)


def test_a_proof_fits_one_exchange_only(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    token = people.add("ana", "analyst")
    one, other = (people.handshake("ana", "n,,n=,r=abc") for _ in range(2))
    said = proof(token, one.first)
    assert one.final(said)
    with pytest.raises(scram.LoginRefused):
        other.final(said)
    with pytest.raises(scram.LoginRefused):  # of a client that thinks it binds the channel
        people.handshake("ana", "y,,n=,r=abc").final(proof(token, one.first))


def test_a_stranger_gets_the_same_salt_every_time(tmp_path: Path) -> None:
    path = tmp_path / "a.people"
    People(path).add("ana", "analyst")
    salts = {People(path).handshake("eve", "n,,n=,r=abc").first.split(",")[1] for _ in range(3)}
    assert len(salts) == 1
    others = {People(path).handshake(f"eve{n}", "n,,n=,r=abc").first.split(",")[1] for n in range(20)}
    assert len(others) == 20


def test_nothing_that_opens_a_door_is_in_the_file(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    token = people.add("ana", "analyst")
    people.set_password("ana", "correct horse battery")
    text = people.path.read_text()
    assert token not in text
    assert token.split("_")[2] not in text
    assert "correct horse" not in text
    assert stat.S_IMODE(people.path.stat().st_mode) == 0o600


def test_tokens_expire_are_revoked_and_are_for_one_thing_if_they_say_so(tmp_path: Path) -> None:
    now = [1e9]
    people = People(tmp_path / "a.people", lambda: now[0])
    token = people.add("ana", "analyst", days=2)
    once = people.add("owner", "owner", days=1, once=True)
    assert people.by_token(token)
    assert people.by_token(once) is None
    lasting = people.exchange(once)
    assert lasting is not None
    assert people.exchange(once) is None
    assert people.exchange(lasting) is None  # it cannot prolong itself
    now[0] += 2 * DAY
    assert people.by_token(token) is None
    assert people.by_token(lasting)
    again = people.add("ana", "analyst")
    assert People(people.path, lambda: now[0]).by_token(again)
    people.revoke("ana", again.split("_")[1])
    assert people.by_token(again) is None
    third = people.add("ana", "analyst")
    people.revoke("ana")
    assert people.by_token(third) is None
    assert people.handshake("ana", "n,,n=,r=abc")._known == ()


@pytest.mark.parametrize(
    "token", ["", "sfu", "sfu__", "sfu_00_00", "x" * 10_000, "sfu_\ud800_x", "sfu_a_b_c"]
)
def test_what_is_no_token_opens_nothing(token: str, tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    people.add("ana", "analyst")
    assert people.by_token(token) is None
    assert people.exchange(token) is None


def test_passwords_get_tokens_and_nothing_else(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    people.add("ana", "analyst")
    people.set_password("ana", "correct horse battery")
    token = people.log_in("ana", "correct horse battery")
    assert token is not None
    assert people.by_token(token)
    assert people.log_in("ana", "correct horse batterz") is None
    assert people.log_in("eve", "correct horse battery") is None
    assert people.by_token("correct horse battery") is None
    with pytest.raises(sf.InvalidParameter, match="at least 10"):
        people.set_password("ana", "short")
    people.revoke("ana")
    assert people.log_in("ana", "correct horse battery") is None


def test_names_and_roles_are_checked(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    people.add("ana", "analyst")
    for name, role, days in (
        ("", "analyst", 1.0),
        ("a\x1b[1m", "analyst", 1),
        ("bob", "king", 1),
        ("bob", "owner", 0),
    ):
        with pytest.raises(sf.InvalidParameter):
            people.add(name, role, days=days)
    with pytest.raises(sf.InvalidParameter, match="; revoke it first:"):
        people.add("ana", "owner")
    people.revoke("ana")
    people.add("ana", "owner")
    assert [each.role for each in people.all()] == ["owner"]
    with pytest.raises(sf.InvalidParameter, match="there is no such user; known:"):
        people.revoke("eve")


def test_tokens_of_one_person_are_limited(tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    for _ in range(MOST_TOKENS):
        people.add("ana", "analyst")
    with pytest.raises(sf.InvalidParameter, match="revoke some"):
        people.add("ana", "analyst")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"form": 2}', '{"form": 1, "people": [{}], "pepper": ""}', "\0"]
)
def test_a_broken_file_lets_nobody_in(text: str, tmp_path: Path) -> None:
    people = People(tmp_path / "a.people")
    token = people.add("ana", "analyst")
    people.path.write_text(text)
    with pytest.raises(sf.ServerError, match="is not a users file of this version"):
        people.by_token(token)


def test_many_processes_may_let_people_in_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.people"
    code = (
        "import sys; from pathlib import Path; from sfumato.server.desk.people import People\n"
        f"people = People(Path({str(path)!r}))\n"
        "for n in range(5): people.add(f'p{sys.argv[1]}-{n}', 'analyst')"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(4)]
    assert [each.wait(60) for each in running] == [0] * 4
    assert len(People(path).all()) == 20
    assert len(json.loads(path.read_text())["people"]) == 20
    assert {name for name in os.listdir(tmp_path) if name.startswith(".")} == set()
