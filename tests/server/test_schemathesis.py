"""Schemathesis against our own description: what it allows and what it forbids is answered as it says."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from tests.serving import serving

from sfumato.server.http import openapi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case, SerializationContext
    from tests.serving import Server

EXAMPLES = 25  # of every act, the same in every run
SECONDS = 20  # that no answer may take
CHECKS: list[Any] = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
REAL = {"database": "hospital", "name": "nobody"}
SENSE: Iterator[dict[str, Any]] = (
    itertools.cycle(  # instead of what is generated, every other time, to get past the first refusal
        [
            {"sql": "SELECT COUNT(*) AS n FROM patients", "epsilon": "0.1", "secret": "patients.region"},
            {},
            {
                "sql": "SELECT region, AVG(age) FROM patients GROUP BY region",
                "secret": "patients.age",
                "within": 5,
            },
            {},
            {
                "sql": "SELECT COUNT(*) FROM visits WHERE cost > $1",
                "epsilon": 1,
                "parameters": [3],
                "advantage": 0.1,
            },
            {},
        ]
    )
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("described"), "--no-deadlines", "--no-postgres") as found:
        found.let_in("olga", "owner")
        yield found


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        yield found


@schemathesis.serializer("application/toml")
def as_it_is(_: SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


schema = schemathesis.openapi.from_dict(openapi.described())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: Case[Any], server: Server, session: requests.Session) -> None:
    for name in case.path_parameters or {}:
        case.path_parameters[name] = REAL[name]
    sense = next(SENSE)
    asked: dict[str, Any] = case.body if isinstance(case.body, dict) else {}
    parts = asked.get("questions") if isinstance(asked.get("questions"), list) else []
    for each in (asked, *(part for part in parts or [] if isinstance(part, dict))):
        each.update({name: value for name, value in sense.items() if name in each})
    token = {"Authorization": f"Bearer {server.tokens['olga']}"}
    response = case.call(server.url, session=session, headers=token, timeout=SECONDS)
    case.validate_response(response, checks=CHECKS)
    assert response.status_code < 500, response.content


def test_the_server_is_still_there_and_complained_about_nothing(server: Server) -> None:
    status, found, _ = server.request("GET", "/health")
    assert (status, found) == (200, {"ok": True})
    said = (server.policy.parent / "said.txt").read_text(encoding="utf-8")
    assert "internal error" not in said
    assert "Traceback" not in said
