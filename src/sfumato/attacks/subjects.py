"""What is audited, and how its outputs are drawn: here, or in two processes of its own, one for each input.

Guarantee: outputs of one input are independent if the subject's calls are, also where its dice were seeded
before it was given to us.
Proof: all outputs of an input come out of one process, one after the other, so no stream is read twice. The
two inputs may share a stream when their processes began from the same seed; their counts are then not
independent of each other, but the bound adds the chances that either misleads and asks for no independence.
"""

from __future__ import annotations

import inspect
import multiprocessing
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms.mechanism import Additive, Conversation, Mechanism

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from types import TracebackType

    from sfumato.exact.coins import Coins

LONG = 80  # letters of an input that are shown
UNSENDABLE = (pickle.PicklingError, TypeError, AttributeError)  # what no pipe carries


class Counter(Protocol):
    """Something that counts outputs where they are."""

    def count(self, outputs: Any) -> int: ...


@dataclass(frozen=True, slots=True)
class Fresh:
    """A subject that is made where it runs, with connections and streams of its own.

    What holds a connection, a file or a thread cannot follow into another process. Give how to make it.
    """

    make: Callable[[], Mechanism[Any, Any] | Conversation[Any, Any, Any] | Callable[..., Any]]
    name: str = "subject"


Subject = Mechanism[Any, Any] | Conversation[Any, Any, Any] | Callable[..., Any] | Fresh


@dataclass(frozen=True, slots=True)
class Raised:
    """That a call failed is an output too: an attacker sees it."""

    kind: str

    def __repr__(self) -> str:
        return f"an error ({self.kind})"


@dataclass(frozen=True, slots=True)
class Input:
    """An input, and the values of the parameters it is run with."""

    value: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short enough for a line."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        text = repr(self.value)
        short = text if len(text) <= LONG else f"{text[: LONG - 4]} ..."
        return f"{short} with {given}" if given else short


class Room:
    """Where a subject runs: in this process, or with two cores in one process for each input.

    >>> with Room(lambda x: x + 1) as room:
    ...     room.outputs((Input(0), Input(1)), 3)
    ([1, 1, 1], [2, 2, 2])
    """

    def __init__(self, subject: Subject, cores: int = 1) -> None:
        if cores not in (1, 2):
            raise InvalidParameter("cores", cores, "1, or 2 for one process for each of the two inputs")
        self._subject, self._workers = subject, [_Worker(subject) for _ in range(2)] if cores == 2 else []
        self._draws: Callable[[Input, int], Any] | None = None

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def outputs(self, pair: tuple[Input, Input], size: int) -> tuple[Any, Any]:
        """So many outputs of each."""
        zero, one = self._both(pair, size, None)
        return zero, one

    def counts(self, pair: tuple[Input, Input], size: int, event: Counter) -> tuple[int, int]:
        """How many of so many new outputs of each lie in an event."""
        zero, one = self._both(pair, size, event)
        return zero, one

    def _both(self, pair: tuple[Input, Input], size: int, event: Counter | None) -> list[Any]:
        if self._workers:
            for worker, each in zip(self._workers, pair, strict=True):
                worker.ask(each, size, event)
            return [worker.answer() for worker in self._workers]
        if self._draws is None:
            self._draws = _draws(self._subject)
        return [_done(self._draws, each, size, event) for each in pair]


def name_of(subject: Subject) -> str:
    """What a report calls it."""
    if isinstance(subject, Fresh):
        return subject.name
    if isinstance(subject, (Mechanism, Conversation)):
        return repr(subject)
    return getattr(subject, "__qualname__", None) or type(subject).__name__


class _Worker:
    """A process that draws outputs of one input for as long as the audit runs."""

    def __init__(self, subject: Subject) -> None:
        # forked, since what is audited is often a closure, which no pipe carries
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._pipe, subject))
        self._process.start()
        theirs.close()

    def ask(self, given: Input, size: int, event: Counter | None) -> None:
        try:
            self._pipe.send((given, size, event))
        except UNSENDABLE as error:
            raise InvalidParameter("input", given, f"{error}: audit it with cores=1") from None

    def answer(self) -> Any:
        try:
            fine, found = self._pipe.recv()
        except (EOFError, OSError):
            raise InvalidParameter("subject", "its process", "it ended in the middle of the audit") from None
        if not fine:
            raise InvalidParameter(*found)
        return found

    def stop(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection, theirs: Connection, subject: Subject) -> None:
    theirs.close()  # or we would never hear that whoever asks is gone
    draws: Callable[[Input, int], Any] | None = None
    while True:
        try:
            given, size, event = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            draws = draws or _draws(subject)
            answer = True, _done(draws, given, size, event)
        except InvalidParameter as error:
            answer = False, (error.name, str(error.value), error.advice)
        except KeyboardInterrupt:
            return
        try:
            pipe.send(answer)
        except UNSENDABLE as error:
            pipe.send((False, ("output", f"of {given!r}", f"{error}: audit it with cores=1")))


def _done(draws: Callable[[Input, int], Any], given: Input, size: int, event: Counter | None) -> Any:
    outputs = draws(given, size)
    return outputs if event is None else event.count(outputs)


def _draws(subject: Subject) -> Callable[[Input, int], Any]:
    """So many outputs at once, of whatever is audited."""
    if isinstance(subject, Fresh):
        return _draws(_guarded(subject.make, subject.name))
    coins = SystemCoins()
    if isinstance(subject, Additive):
        return lambda given, size: _additive(subject, given.value, size, coins)
    if isinstance(subject, Mechanism):

        def drawn(given: Input, size: int) -> list[Any]:
            law = subject.law(given.value)
            return [law.draw(coins) for _ in range(size)]

        return drawn
    if isinstance(subject, Conversation):
        return lambda given, size: [_talk(subject, given.value, coins) for _ in range(size)]
    return lambda given, size: _called(subject, given, size)


def _called(subject: Callable[..., Any], given: Input, size: int) -> Any:
    needed = _needed(subject, given.parameters)
    if len(needed) > 2:
        raise InvalidParameter(
            "subject",
            name_of(subject),
            f"it also needs {', '.join(needed[1:])}: give values (--with NAME=VALUE, parameters={{...}}); an "
            f"argument that is left may stand for how many outputs to return",
        )
    if len(needed) < 2:
        return [_tried(subject, given) for _ in range(size)]
    many = _guarded(lambda: subject(given.value, size, **given.parameters), f"input {given!r}")
    if not hasattr(many, "__len__") or len(many) != size:
        what = f"{len(many)} of them" if hasattr(many, "__len__") else f"one {type(many).__name__}"
        raise InvalidParameter(
            "subject",
            name_of(subject),
            f"it takes two arguments, so it was asked for {size} outputs at once and returned {what}; give "
            f"the second argument a value (--with NAME=VALUE, functools.partial) or return so many",
        )
    return many


def _tried(subject: Callable[..., Any], given: Input) -> Any:
    try:
        return subject(given.value, **given.parameters)
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _guarded(run: Callable[[], Any], what: str) -> Any:
    """For calls that stand for many outputs at once: one that fails says nothing about the others."""
    try:
        return run()
    except InvalidParameter:
        raise
    except Exception as error:
        raise InvalidParameter("subject", what, f"it failed: {type(error).__name__}: {error}") from error


def _additive(subject: Additive, x: Any, size: int, coins: Coins) -> Any:
    """Noise in bulk on every coordinate."""
    answer = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    columns = [y + subject.noise.draws(coins, size) for y in answer]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _talk(subject: Conversation[Any, Any, Any], answers: Any, coins: Coins) -> tuple[Any, ...]:
    """Every reply of one conversation."""
    said, state = [], subject.start(coins)
    for answer in answers:
        if getattr(state, "left", 1) == 0:
            break
        state, reply = subject.reply(state, answer, coins)
        said.append(reply)
    return tuple(said)


def _needed(subject: Callable[..., Any], parameters: Mapping[str, Any]) -> list[str]:
    """The arguments that a call must give."""
    try:
        return [
            each.name
            for each in inspect.signature(subject).parameters.values()
            if each.default is each.empty
            and each.name not in parameters
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):  # what is not written in Python may not say
        return ["input"]
