"""The HTTP door: the curator's acts as requests, described in `openapi`.

Nothing is decided here. A request is read, `desk` is asked, and what comes back is written as JSON, CSV or
Arrow; an error becomes a status and the words that the library would have said.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime
import json
import math
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

import sfumato
from sfumato.curator.files import rewrite
from sfumato.curator.release import LEVEL
from sfumato.errors import (
    AccessDenied,
    InvalidParameter,
    LedgerError,
    PolicyError,
    SfumatoError,
    SourceError,
    TooMany,
    nearest,
)
from sfumato.mechanisms.guarantee import FINER, decimal
from sfumato.server.catalog.values import KIND_OF, fields
from sfumato.server.desk import owner
from sfumato.server.desk.access import say
from sfumato.server.desk.desk import Caller, has_changed
from sfumato.server.desk.people import DAYS, check_days, id_of
from sfumato.server.desk.retries import PRICES, Wanted
from sfumato.server.http import openapi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from sfumato.curator.release import Release
    from sfumato.server.desk.desk import Answered, Desk

LARGEST_REQUEST = 1 << 18  # bytes of a request
REQUEST_SECONDS = 10.0  # seconds for a request to arrive
MOST_QUESTIONS = 100  # questions of a batch
JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
NO_LEDGER = (
    "A ledger cannot be written or read now, so new questions are refused. The owner finds the reason in "
    "the server log."
)
NO_POLICY = (
    "A policy or its data cannot be used now, so nothing is answered. The owner can see what is "
    "wrong: sfumato check POLICY"
)
SAFE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
PRICE: dict[str, tuple[type, ...]] = {
    "epsilon": (str, int, float),
    "rho": (str, int, float),
    "delta": (str, int, float),
    "tune": (str, int, float),
    "within": (str, int, float),
    "most": (str, int, float),
    "parameters": (list,),
    "dialect": (str,),
}


class Malformed(Exception):
    """A request that cannot be read."""

    code, spent = "malformed", False

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class HttpServer:
    """All databases of a server, by name."""

    def __init__(self, desks: Mapping[str, Desk]) -> None:
        self._desks = desks
        self._guard = next(iter(desks.values()))  # counts wrong tokens for all of them
        act = "/v1/{database}"
        routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/", self.welcome),
            ("GET", "/health", self.health),
            ("GET", "/metrics", self.metrics),
            ("GET", "/openapi.json", self.described),
            ("GET", "/v1/databases", self.databases),
            ("GET", f"{act}/schema", self.schema),
            ("POST", f"{act}/explain", self.explain),
            ("POST", f"{act}/release", self.release),
            ("POST", f"{act}/batch", self.batch),
            ("GET", f"{act}/budget", self.budget),
            ("GET", f"{act}/history", self.history),
            ("POST", f"{act}/suggest", self.suggest),
            ("GET", f"{act}/policy", self.policy),
            ("PUT", f"{act}/policy", self.replace_policy),
            ("GET", f"{act}/access", self.access),
            ("POST", f"{act}/tokens", self.token),
            ("GET", f"{act}/running", self.running),
            ("GET", f"{act}/people", self.people),
            ("POST", f"{act}/people", self.let_in),
            ("POST", f"{act}/people/{{name:path}}/review", self.review),
            ("POST", f"{act}/people/{{name:path}}/look", self.review),  # what it was called before
            ("DELETE", f"{act}/people/{{name:path}}", self.shut_out),
        ]
        by_path: dict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = {}
        for method, path, handler in routes:
            by_path.setdefault(path, {})[method] = handler
        self.app = Starlette(
            routes=[
                Route(path, _Methods(self, acts).serve, methods=list(acts)) for path, acts in by_path.items()
            ],
            exception_handlers={404: _missing, 405: _missing},
        )
        self.app.router.redirect_slashes = False  # it would lead to whatever host the request names

    def words(self, told: str) -> str:
        """A message without the folders of this machine."""
        for desk in self._desks.values():
            told = desk.words(told)
        return told

    # Everybody ----------------------------------------------------------------------------------------

    async def welcome(self, _: Request) -> Response:
        """What this is."""
        told = {"name": "sfumato", "version": sfumato.__version__, "described": "/openapi.json"}
        return _json({**told, "databases": "/v1/databases"})

    async def health(self, _: Request) -> Response:
        """Whether new questions can be answered: every policy is right, and every ledger can be written."""
        told = {}
        for desk in self._desks.values():
            try:
                await desk.refresh()
                if await desk.read(has_changed, desk.database):
                    await desk.open_anew(desk.database)
                await desk.check_ledger()
            except SfumatoError as error:
                told = {"reason": NO_LEDGER if isinstance(error, LedgerError) else NO_POLICY}
        return _json({"ok": not told, **told}, 503 if told else 200)

    async def described(self, _: Request) -> Response:
        """The description of all this."""
        return _json(openapi.described())

    async def databases(self, request: Request) -> Response:
        """The databases that a token opens."""
        token = _bearer(request)
        found = [name for name, desk in self._desks.items() if token and desk.people.by_token(token)]
        if not found:
            raise self._stranger(request)
        return _json({"databases": found})

    async def metrics(self, request: Request) -> Response:
        """Counts for whoever watches the server; nothing in them depends on a row."""
        callers = [
            (name, desk, person)
            for name, desk in self._desks.items()
            if (person := desk.people.by_token(_bearer(request)))
        ]
        if not callers:
            raise self._stranger(request)
        lines = ["# TYPE sfumato_requests_total counter", "# TYPE sfumato_budget gauge"]
        for name, desk, person in callers:
            caller = Caller(person, "http", _address(request))
            desk.admit(caller)
            desk.check_role(caller, "owner", "auditor")
            label = json.dumps(name)
            for (act, outcome), count in sorted(desk.counts.items()):
                labels = f'database={label},act={json.dumps(act)},outcome="{outcome}"'
                lines.append(f"sfumato_requests_total{{{labels}}} {count}")
            ledger = desk.database.ledger
            total, spent = await desk.read(lambda ledger=ledger: (ledger.limit, ledger.spent))
            for kind, value in (("total", total), ("spent", spent)):
                lines.append(f'sfumato_budget{{database={label},what="{kind}"}} {decimal(value.amount)}')
        return Response("\n".join(lines) + "\n", headers=SAFE, media_type="text/plain; version=0.0.4")

    # Analysts -----------------------------------------------------------------------------------------

    async def schema(self, request: Request) -> Response:
        """What may be asked about: from the policy, which is public."""
        caller, desk = self._caller(request)
        await desk.refresh()
        desk.note(caller, "schema")
        return _json({**owner.schema(desk.database.policy), "name": caller.person.name})

    async def explain(self, request: Request) -> Response:
        """What a question would cost and how exact it would be; free."""
        caller, desk = self._caller(request, admitted=False)
        body = await _body(request, {"sql": (str,), **PRICE})
        explanation = await desk.explain(caller, _wanted(body))
        facts = await desk.in_turn(
            caller, lambda: {**explanation.as_dict(), "text": repr(explanation)}, counted=True
        )
        return _json(facts)

    async def release(self, request: Request) -> Response:
        """Ask: charged once, free when it is asked again."""
        caller, desk = self._caller(request, admitted=False)
        desk.check_role(caller, "owner", "analyst")
        body = await _body(request, {"sql": (str,), "level": (str, int, float), **PRICE})
        level, form = str(body.get("level", LEVEL)), _format(request)
        sfumato.Release.check_level(level)
        if form == ARROW and find_spec("pyarrow") is None:  # said before anything is charged
            raise Malformed('Arrow needs pyarrow on the server: pip install "sfumato[arrow]"', 406)
        shown = await desk.ask(caller, _wanted(body), request.headers.get("idempotency-key", ""))
        content = shown.forms.get((form, level))
        if content is None:
            content = await desk.in_turn(caller, _written, shown, form, level)
            shown.keep((form, level), content)
        return Response(content, headers=SAFE, media_type=form)

    async def batch(self, request: Request) -> Response:
        """Several questions as one charge."""
        caller, desk = self._caller(request, admitted=False)
        desk.check_role(caller, "owner", "analyst")
        if _format(request) != JSON:  # said before anything is charged
            raise Malformed("a batch is available only as JSON", 406)
        known = {"questions": (list,), "delta": PRICE["delta"], "level": (str, int, float)}
        body = await _body(request, known)
        level = str(body.get("level", LEVEL))
        sfumato.Release.check_level(level)
        questions = body.get("questions", [])
        if not 0 < len(questions) <= MOST_QUESTIONS or not all(isinstance(each, dict) for each in questions):
            raise Malformed(
                f"give from 1 to {MOST_QUESTIONS} questions: "
                '{"questions": [{"sql": "...", "epsilon": "0.1"}]}'
            )
        wanted = [_wanted(_checked(each, {"sql": (str,), **PRICE})) for each in questions]
        key, delta = request.headers.get("idempotency-key", ""), _text(body.get("delta"))
        releases = await desk.batch(caller, wanted, delta, key)
        found = await desk.in_turn(caller, lambda: [_facts(each, level) for each in releases])
        return _json({"releases": found, "charged": decimal(releases.cost.amount)})

    async def budget(self, request: Request) -> Response:
        """What was spent and what is left, for whoever asks."""
        caller, desk = self._caller(request)
        desk.note(caller, "budget")
        return _json(await desk.budget(caller))

    async def history(self, request: Request) -> Response:
        """Every charge: an analyst sees her own, the others all."""
        caller, desk = self._caller(request)
        await desk.refresh()
        desk.note(caller, "history")
        lines = await desk.in_turn(caller, owner.history, desk.database, caller.person, counted=True)
        form = _format(request)
        if form == JSON:
            return _json({"history": lines})
        if form == CSV:
            currency = desk.database.ledger.total.currency
            return Response(owner.as_csv(lines, currency), headers=SAFE, media_type=CSV)
        raise Malformed("history is available as JSON or CSV", 406)

    async def suggest(self, request: Request) -> Response:
        """The epsilon that keeps a promise."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner", "auditor")
        number = (str, int, float)
        known: dict[str, tuple[type, ...]] = {"secret": (str,), "advantage": number, "within": number}
        known |= {"above": number, "prior": (str, dict, list), "metric": (str,), "group": (int,)}
        body = await _body(request, known)
        if "secret" not in body or "advantage" not in body:
            raise Malformed('name a secret and an advantage: {"secret": "patients.age", "advantage": "0.1"}')
        desk.note(caller, "suggest")
        secret = body.pop("secret")
        await desk.refresh()
        found = await desk.alone(lambda: desk.database.suggest_epsilon(secret, **body).as_dict())
        return _json(found)

    # Owners and auditors ------------------------------------------------------------------------------

    async def policy(self, request: Request) -> Response:
        """The text of the policy."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        desk.note(caller, "policy")
        text = await desk.read(lambda: desk.path.read_text(encoding="utf-8-sig"))
        return Response(text, headers=SAFE, media_type="application/toml")

    async def replace_policy(self, request: Request) -> Response:
        """Another text for the policy: checked first, whole or not at all."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        text = (await _content(request)).decode("utf-8", "replace")
        try:
            old = await desk.read(owner.replace_policy, desk.path, text, desk.database.policy)
        except (PolicyError, SourceError) as error:
            return _told(error, desk.words, status=422)  # of what was sent, not of what is served
        try:
            await desk.refresh()
        except SfumatoError:
            await desk.read(rewrite, desk.path, old) if old else desk.path.unlink()
            await desk.refresh()
            raise InvalidParameter(
                "policy", "this", "it makes a promise that cannot be kept; the old policy stays"
            ) from None
        desk.note(caller, "replace policy")
        return _json({"ok": True, "name": desk.name})

    async def access(self, request: Request) -> Response:
        """The last lines of the access log."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "auditor", "owner")
        count = request.query_params.get("last", "100")
        if not count.isdecimal() or len(count) > 6:
            raise Malformed("last must be a whole number, such as ?last=100")
        lines = await desk.read(desk.log.last, int(count))
        desk.note(caller, "access log")
        return _json({"access": lines})

    async def token(self, request: Request) -> Response:
        """A token for a password, or for a one-time token."""
        address = _address(request)
        body = await _body(request, {"days": (int, float)})
        days = float(body.get("days", DAYS))
        check_days(days)
        self._guard.check_guesses(address)
        known = self.desk_of(request)
        desk = known or self._guard  # what is not there takes as long as what is
        name, secret = _basic(request)
        if name and not secret.startswith("sfu_"):
            fresh = await desk.alone(lambda: desk.people.log_in(name if known else "", secret, days))
        else:
            given = (_bearer(request) or secret) if known else ""
            fresh = await desk.read(desk.people.exchange, given, days)
        if fresh is None:
            raise self._stranger(request, known)
        person = desk.people.by_token(fresh)
        assert person is not None
        desk.note(Caller(person, "http", address), "token")
        return _json({"name": person.name, "role": person.role, "token": fresh, "days": days}, 201)

    async def running(self, request: Request) -> Response:
        """What was charged and is not released yet, in all workers."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        await desk.refresh()
        desk.note(caller, "running")
        settings = desk.settings
        facts = (desk.database, time.time(), settings.pace, settings.stop_after)
        return _json({"running": await desk.in_turn(caller, owner.running, *facts)})

    async def people(self, request: Request) -> Response:
        """Who has access."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner", "auditor")
        desk.note(caller, "people")
        everybody, ledger = desk.people.all(), desk.database.ledger
        late = await desk.read(lambda: {each.name: owner.late(ledger, each.name) for each in everybody})
        return _json({"people": owner.people(everybody, late)})

    async def let_in(self, request: Request) -> Response:
        """Give somebody access; the token is shown this one time."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        body = await _body(request, {"name": (str,), "role": (str,), "days": (int, float)})
        name, role = body.get("name", ""), body.get("role", "analyst")
        token = await desk.read(lambda: desk.people.add(name, role, days=float(body.get("days", DAYS))))
        desk.note(caller, f"add user {name}")
        return _json({"name": name, "role": role, "token": token}, 201)

    async def shut_out(self, request: Request) -> Response:
        """Take somebody's access away."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        name = request.path_params["name"]
        await desk.read(desk.people.revoke, name)
        desk.note(caller, f"revoke user {name}")
        return _json({"ok": True})

    async def review(self, request: Request) -> Response:
        """Let somebody go on whose answers came late or failed."""
        caller, desk = self._caller(request)
        desk.check_role(caller, "owner")
        name = request.path_params["name"]
        if desk.people.get(name) is None:
            raise InvalidParameter(
                "name", name, "there is no such user; for the users: GET /v1/DATABASE/people"
            )
        await desk.read(owner.looked, desk.database.ledger, name)
        desk.note(caller, f"review user {name}")
        return _json({"ok": True})

    # Who it is ----------------------------------------------------------------------------------------

    def desk_of(self, request: Request) -> Desk | None:
        """The database that a request is about, if there is one."""
        return self._desks.get(request.path_params.get("database", ""))

    def _desk(self, request: Request) -> Desk:
        desk = self.desk_of(request)
        if desk is None:
            raise self._stranger(request)
        return desk

    def _caller(self, request: Request, *, admitted: bool = True) -> tuple[Caller, Desk]:
        """Who asks, and of which database; counted, unless the desk does that."""
        desk, token = self._desk(request), _bearer(request)
        person = desk.people.by_token(token)
        if person is None:
            raise self._stranger(request, desk)
        caller = Caller(person, "http", _address(request), id_of(token))
        if admitted:
            desk.admit(caller)
        return caller, desk

    def _stranger(self, request: Request, desk: Desk | None = None) -> SfumatoError:
        """The same words for a wrong token, an old one, none, and a database that is not there."""
        address = _address(request)
        try:
            self._guard.check_guesses(address)
        except TooMany as error:
            return error
        self._guard.guessed(address)
        (desk or self._guard).log_stranger(address, "http")
        return AccessDenied(
            "no such database, or the token gives no access to it: it may be wrong, expired or "
            "revoked. Nothing was spent. Send it as Authorization: Bearer TOKEN. The owner creates tokens: "
            "sfumato user add POLICY NAME"
        )


class _Methods:
    """The handlers of one path, and what becomes of errors."""

    def __init__(self, door: HttpServer, acts: dict[str, Callable[[Request], Awaitable[Response]]]) -> None:
        self._door, self._acts = door, acts

    async def serve(self, request: Request) -> Response:
        """An answer, and the end of the connection if something was sent that nobody read."""
        response = await self._answered(request)
        sent = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
        if sent and not request._stream_consumed:
            response.headers["connection"] = "close"
        return response

    async def _answered(self, request: Request) -> Response:
        try:
            return await self._acts["GET" if request.method == "HEAD" else request.method](request)
        except Malformed as error:
            return _error("Malformed", str(error), error.status, code=error.code, spent=error.spent)
        except SfumatoError as error:
            return self._refused(error)
        except ClientDisconnect:  # nobody reads it
            told = "the request was cut off"
            return _error("Malformed", told, 400, code=Malformed.code, spent=Malformed.spent)
        except (
            ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
            TypeError, ValueError,
        ) as error:  # fmt: skip
            say("internal error", kind=type(error).__name__, path=request.url.path)  # never its text
            told = "internal error. If the question was charged, the charge stays"
            return _error("InternalError", told, 500, code="internal_error", spent=None)

    def _refused(self, error: SfumatoError) -> Response:
        words = self._door.words
        response = _told(error, words)
        if isinstance(error, TooMany):
            response.headers["retry-after"] = str(max(1, round(error.seconds)))
        if error.status == 401:
            response.headers["www-authenticate"] = 'Bearer realm="sfumato"'
        return response


def _told(error: SfumatoError, words: Callable[[str], str], *, status: int = 0) -> Response:
    """An error of the library: its words, and what programs decide by."""
    facts = {**_more(error, words), "code": error.code, "spent": error.spent}
    return _error(type(error).__name__, words(str(error)), status or error.status, **facts)


def _more(error: SfumatoError, words: Callable[[str], str]) -> dict[str, Any]:
    """What programs can use: where it is wrong, what to write instead, whose budget, what is left, ..."""
    found: dict[str, Any] = {}
    for name, value in vars(error).items():
        if isinstance(value, str):
            found[name] = words(value)
        elif value is None or (isinstance(value, (int, float)) and math.isfinite(value)):
            found[name] = value
        elif isinstance(value, (tuple, list)) and all(isinstance(each, (str, int)) for each in value):
            found[name] = list(value)
    return {name: value for name, value in found.items() if name not in _NOT_TOLD}


_NOT_TOLD = ("type", "message", "sql", "file", "status", "sqlstate")  # said elsewhere, or nobody's business


async def _missing(request: Request, error: Exception) -> Response:
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    told, code = f"no such endpoint: {request.method} {request.url.path}. See /openapi.json", "not_found"
    if allowed:
        told, code = f"{request.url.path} accepts {allowed}, not {request.method}", "method_not_allowed"
    response = _error("NotFound", told, 405 if allowed else 404, code=code, spent=False)
    response.headers["connection"] = "close"
    if allowed:
        response.headers["allow"] = allowed
    return response


def _json(facts: Any, status: int = 200) -> Response:
    content = json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()
    return Response(content, status, headers=SAFE, media_type=JSON)


def _error(kind: str, message: str, status: int, /, **more: Any) -> Response:
    return _json({"error": {"type": kind, "message": message, **more}}, status)


def _written(shown: Answered, form: str, level: str) -> bytes:
    """A release in the form that was asked for."""
    if form == CSV:
        return shown.release.csv(level).encode()
    if form == ARROW:
        return shown.release.arrow_stream(level)
    return json.dumps(_facts(shown.release, level), ensure_ascii=False, allow_nan=False).encode()


def _facts(release: Release, level: str) -> dict[str, Any]:
    kinds: list[str] = []
    ends: list[int] = []
    for field, column in zip(fields(release.plan, intervals=False), release.plan.columns, strict=True):
        is_name = not column.has_interval
        kinds += [KIND_OF[field.oid]] if is_name else ["number"] * 3
        ends += [0] if is_name else [0, -1, 1]
    types = {"types": kinds, "ends": ends}
    deltas = {"charged_delta": release.cost.delta, "left_delta": release.left.delta}
    told = {name: decimal(delta, FINER) for name, delta in deltas.items() if delta}
    facts = {"columns": release.columns, **types, **release.as_dict(level)}
    return {**facts, **told, "currency": release.left.currency}


def _format(request: Request) -> str:
    """What the client would rather have; JSON if it does not say."""
    wanted = request.query_params.get("format")
    if wanted is not None:
        found = {"json": JSON, "csv": CSV, "arrow": ARROW}.get(wanted)
        if found is None:
            raise Malformed("format must be json, csv or arrow", 406)
        return found
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    if not accepted or accepted == [""]:
        return JSON
    for each in accepted:
        if each in (JSON, CSV, ARROW):
            return each
        if each in ("*/*", "application/*"):
            return JSON
        if each == "text/*":
            return CSV
    raise Malformed(f"answers are available as {JSON}, {CSV} or {ARROW}", 406)


async def _content(request: Request) -> bytes:
    """The body, if it is not too large and comes in time."""
    content = b""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > LARGEST_REQUEST:
                    raise Malformed(f"the request has more than {LARGEST_REQUEST} bytes", 413)
    except TimeoutError:
        raise Malformed(f"the request did not arrive within {REQUEST_SECONDS:.0f} s", 408) from None
    return content


async def _body(request: Request, known: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    content = await _content(request)
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise Malformed(
            'the body is not JSON. Send for example {"sql": "SELECT ...", "epsilon": "0.1"}'
        ) from None
    if not isinstance(found, dict):
        raise Malformed('the body is not a JSON object. Send for example {"sql": "SELECT ..."}')
    return _checked(found, known)


def _checked(found: dict[str, Any], known: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    for name, value in found.items():
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
            raise Malformed(f"unknown field {name!r}. {hint}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, known[name])):
            kinds = {
                str: "a string",
                int: "a whole number",
                float: "a number",
                list: "a list",
                dict: "an object",
            }
            wanted = [kinds[kind] for kind in known[name] if not (kind is int and float in known[name])]
            raise Malformed(f"{name} must be {' or '.join(wanted)}")
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Malformed(f"{name} is not valid Unicode")
    return {name: value for name, value in found.items() if value is not None}


def _wanted(body: dict[str, Any]) -> Wanted:
    if "sql" not in body:
        raise Malformed('no question given. Send for example {"sql": "SELECT ...", "epsilon": "0.1"}')
    values = [_parameter(value) for value in body.get("parameters", [])]
    price: dict[str, Any] = {name: _text(body.get(name)) for name in PRICES}
    spelled = body.get("dialect", "duckdb")
    return Wanted(body["sql"], **price, parameters=tuple(values), spelled=spelled)


def _parameter(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, list) and not any(isinstance(each, list) for each in value):
        return tuple(map(_parameter, value))
    reads = {"date": datetime.date.fromisoformat, "timestamp": datetime.datetime.fromisoformat}
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        try:
            return reads[kind](text)
        except (KeyError, TypeError, ValueError):
            pass
    told = "parameters are strings, numbers, true, false, null, lists of these"
    raise Malformed(f'{told}, {{"date": "2024-01-31"}} or {{"timestamp": "2024-01-31T12:00:00"}}')


def _text(value: Any) -> str | None:
    if isinstance(value, int) and abs(value) >= 10**18:
        raise Malformed("the price has too many digits")
    return None if value is None else str(value)


def _bearer(request: Request) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else _basic(request)[1]


def _basic(request: Request) -> tuple[str, str]:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, secret = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, secret


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
