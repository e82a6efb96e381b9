"""Processes: one parent that holds the sockets, and workers that answer on them.

The parent opens nothing but the sockets, starts the workers, and starts another when one dies; whatever was
killed leaves its charges in the ledger, and asking again redeems them. Workers share nothing but the ledger
and the file of people. A worker whose parent is gone stops, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.errors import InvalidParameter, ServerError, SfumatoError
from sfumato.server.desk.access import say
from sfumato.server.desk.desk import Desk, Settings
from sfumato.server.desk.people import People
from sfumato.server.http.api import REQUEST_SECONDS, HttpServer
from sfumato.server.postgres import session as wire
from sfumato.sources.duckdb_engine import share_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BACKLOG = 512
CONNECTIONS = 1000  # of the HTTP door of one worker
HANDLES = 65_536  # files and connections of one worker, if the system allows it
IDLE = 60  # seconds that an HTTP connection may be idle
GRACE = 10.0  # seconds that running questions get when the server is stopped
WRITING = 25.0  # seconds in which their answers are written
SOON = 5.0  # a worker that dies sooner is not started again at once
LONGEST_HEAD = 1 << 16  # bytes of a request before its body
ONCE = 1.0  # days that the first token lives


@dataclass(frozen=True, slots=True)
class Config:
    """What a server is started with."""

    policies: tuple[str, ...]
    host: str = "127.0.0.1"
    http: int | None = 8470
    postgres: int | None = 5470
    workers: int = 1
    certificate: str | None = None
    key: str | None = None
    settings: Settings = field(default_factory=Settings)

    def context(self) -> ssl.SSLContext | None:
        """TLS, if there is a certificate."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for name, file in (("certificate", self.certificate), ("key", self.key)):
            if file is not None and not Path(file).is_file():
                raise InvalidParameter(name, file, "there is no such file")
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            why = "not a PEM file" if isinstance(error, ssl.SSLError) else error.strerror or error
            told = f"it cannot be used with its key ({why}): give PEM files that belong together"
            raise InvalidParameter("certificate", self.certificate, told) from None
        return context


# The parent -------------------------------------------------------------------------------------------


def serve(config: Config, opened: Callable[[dict[str, int]], None]) -> None:
    """Serve until somebody stops it. `opened` is told the ports once every worker answers."""
    config.context()
    sockets = {
        name: _bound(config.host, port, name)
        for name, port in (("http", config.http), ("postgres", config.postgres))
        if port is not None
    }
    if not sockets:
        raise InvalidParameter("ports", "none", "serve HTTP, the Postgres protocol, or both")
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        _Parent(config, sockets, folder).run(opened)


def first_tokens(policies: tuple[str, ...]) -> dict[str, str]:
    """A one-time token for the owner of every database that nobody can enter, by policy."""
    found = {}
    for policy in policies:
        people = People.beside(policy)
        if not people.can_enter():
            found[policy] = people.add("owner", "owner", days=ONCE, once=True)
    return found


class _Parent:
    def __init__(self, config: Config, sockets: dict[str, socket.socket], folder: str) -> None:
        self._config, self._sockets, self._folder = config, sockets, folder
        self._alive, self._held = os.pipe()  # workers see when the other end closes
        self._running: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._stopping = False

    def run(self, opened: Callable[[dict[str, int]], None]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            self._wait({self._start(index): index for index in range(self._config.workers)})
            if not self._stopping:
                opened({name: each.getsockname()[1] for name, each in self._sockets.items()})
            while not self._stopping:
                self._look()
                time.sleep(0.2)
        finally:
            self._end()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _wait(self, heard: dict[int, int]) -> None:
        """Until every worker has said that it is ready; the first that ends before that is named."""
        while heard and not self._stopping:
            for pipe in select.select(list(heard), [], [], 0.2)[0]:
                is_ready = os.read(pipe, 1) == b"!"
                os.close(pipe)
                index = heard.pop(pipe)
                if not is_ready and not self._stopping:
                    raise self._failed(index)

    def _failed(self, index: int) -> ServerError:
        process, workers = self._running[index][0], self._config.workers
        code = process.wait(GRACE)
        which = f"worker {index + 1} of {workers} (process {process.pid})"
        told = f"{which} {_ended(code)} before it was ready. Nothing is served."
        if code >= 0:
            return ServerError(f"{told} Its message is above: fix that, then start the server again.")
        if code != -signal.SIGKILL:
            return ServerError(f"{told} The system log (journalctl, dmesg) may say why. Then start it again.")
        fewer = f", start fewer workers (--workers {workers // 2})" if workers > 1 else ""
        return ServerError(
            f"{told} Unless somebody killed it, memory ran out: see the system log (journalctl -k, dmesg). "
            f"Give it more memory{fewer}, or serve fewer databases; then start it again."
        )

    def _start(self, index: int) -> int:
        """Start a worker; where it will say that it is ready."""
        heard, spoken = os.pipe()
        doors = {name: each.fileno() for name, each in self._sockets.items()}
        told = {
            **asdict(self._config),
            "doors": doors,
            "alive": self._alive,
            "ready": spoken,
            "folder": self._folder,
        }
        passed = [*doors.values(), self._alive, spoken]
        command = [sys.executable, "-m", "sfumato.server.workers", json.dumps(told)]
        self._running[index] = (subprocess.Popen(command, pass_fds=passed), time.monotonic())
        os.close(spoken)
        return heard

    def _look(self) -> None:
        for index, (process, began) in list(self._running.items()):
            if process.poll() is not None and not self._stopping:
                say(
                    "worker died", worker=process.pid, how=_ended(process.returncode), code=process.returncode
                )
                if time.monotonic() - began < SOON:
                    time.sleep(1)
                os.close(self._start(index))

    def _end(self) -> None:
        os.close(self._held)
        for process, _ in self._running.values():
            with suppress(ProcessLookupError):
                process.terminate()
        for process, _ in self._running.values():
            try:
                process.wait(GRACE + WRITING + 5)
            except subprocess.TimeoutExpired:
                process.kill()
        for each in self._sockets.values():
            each.close()
        say("stopped")


def _ended(code: int) -> str:
    names = {each.value: each.name for each in signal.Signals}
    return (
        f"ended with exit code {code}"
        if code >= 0
        else f"was killed by {names.get(-code, f'signal {-code}')}"
    )


def _bound(host: str, port: int, name: str) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except socket.gaierror:
        raise InvalidParameter("host", host, "it is not an address of this machine") from None
    except OSError as error:
        told = f"cannot listen there on {host} ({error.strerror}): check what uses it, or choose another"
        raise InvalidParameter(f"{name} port", port, f"{told}: --{name}-port {port + 1}") from None
    return found


# A worker ---------------------------------------------------------------------------------------------


class _Impatient(HttpToolsProtocol):
    """Closes connections on which a request does not arrive in time, which the library leaves open."""

    _watch: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watched()

    def on_message_begin(self) -> None:
        self._watched()
        super().on_message_begin()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._watch is None:
            self._head = 0
            return
        self._head += len(data)  # of a head that is not complete
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._unwatch()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watched(self) -> None:
        self._unwatch()
        self._watch = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


class _Structured(logging.Handler):
    """What the library for HTTP has to say, as a line of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            say("http", level=record.levelname.lower(), told=str(record.msg)[:200])


class _Quiet(uvicorn.Server):
    """A server that leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def work(told: dict[str, Any]) -> None:
    """One worker, until it is told to stop."""
    config = Config(
        **{key: told[key] for key in ("host", "http", "postgres", "workers", "certificate", "key")},
        policies=tuple(told["policies"]),
        settings=Settings(**told["settings"]),
    )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, HANDLES) if most > 0 else HANDLES, most))
    share_memory(config.workers * len(config.policies))
    desks = _desks(config)
    logging.getLogger("uvicorn.error").addHandler(_Structured())
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(told["alive"], stop.set)  # the parent is gone
    doors: list[asyncio.Task[None]] = []
    web = pg = None
    if "http" in told["doors"]:
        web = _Quiet(_web(config, desks))
        heard = socket.socket(fileno=told["doors"]["http"])
        doors.append(asyncio.create_task(web.serve(sockets=[heard])))
        while not web.started and not doors[0].done():
            await asyncio.sleep(0.01)
    if "postgres" in told["doors"]:
        pg = wire.PostgresServer(desks, config.context(), Path(told["folder"]))
        await pg.open(socket.socket(fileno=told["doors"]["postgres"]))
    with suppress(BrokenPipeError):  # of one that was started again, nobody waits for this
        os.write(told["ready"], b"!")
    os.close(told["ready"])
    say("ready", databases=sorted(desks))
    watching = [asyncio.create_task(desk.watch()) for desk in desks.values()]
    await stop.wait()
    for task in watching:
        task.cancel()
    say("stopping")
    if web is not None:
        web.should_exit = True
    if pg is not None:
        await pg.close()
    ended = await asyncio.gather(*(desk.finish(GRACE) for desk in desks.values()))
    for desk, left in zip(desks.values(), ended, strict=True):
        if left:
            say("left running", database=desk.name, questions=left)
    if doors:
        await asyncio.wait(doors, timeout=WRITING)  # what was finished is still being written
    if web is not None:
        web.force_exit = True
    for door in doors:
        await door


def _desks(config: Config) -> dict[str, Desk]:
    desks: dict[str, Desk] = {}
    for policy in config.policies:
        desk = Desk(policy, config.settings)
        if desk.name in desks:
            raise InvalidParameter(
                "name", desk.name, "two policies have this name: write another name = in one"
            )
        desks[desk.name] = desk
    return desks


def _web(config: Config, desks: dict[str, Desk]) -> uvicorn.Config:
    tls = {"ssl_certfile": config.certificate, "ssl_keyfile": config.key} if config.certificate else {}
    return uvicorn.Config(
        HttpServer(desks).app,
        http=_Impatient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE,
        **tls,  # type: ignore[arg-type]
    )


def main() -> None:
    """What the parent starts."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work(json.loads(sys.argv[1])))
    except SfumatoError as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
