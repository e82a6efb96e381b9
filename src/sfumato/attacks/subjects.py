"""What is audited, and how its outputs are drawn: here, or in two processes of its own, one for each input.

Guarantee: outputs of one input are independent of each other and of all that was drawn before, if calls are.
Proof: nothing is drawn twice from one process, and two processes that would draw the same, because their dice
were seeded before they began, are found out at the start; then one of them runs both inputs.

What differs between the processes and not between the inputs (a name made at import, an address) must not
pass for a leak. So whoever looks for an event can have the inputs swapped between the processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.attacks.outputs import Raised, listed, many, one, text, values
from sfumato.errors import InvalidParameter
from sfumato.exact.coins import SystemCoins
from sfumato.mechanisms.mechanism import Additive, Conversation, Mechanism

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from types import TracebackType

    from sfumato.exact.coins import Coins

LONG = 80  # letters of an input that are shown
GRACE, WAIT = 2.0, 0.5  # seconds to end in, and after which we look whether anybody is there
LOOK = 64  # outputs that show whether the dice of two processes fall alike
STOPS = (Exception, SystemExit, GeneratorExit)  # what a call may end with, other than by our own hand
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
class Input:
    """An input, and the values of the parameters it is run with."""

    value: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short enough for a line."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        try:
            said = repr(self.value)
        except Exception:  # of somebody else's making
            said = f"a {type(self.value).__name__}"
        short = said if len(said) <= LONG else f"{said[: LONG - 4]} ..."
        return f"{short} with {given}" if given else short


class Room:
    """Where a subject runs: in this process, or with two cores in one process for each input.

    >>> with Room(lambda x: x + 1) as room:
    ...     room.outputs((Input(0), Input(1)), 3)
    (array([1, 1, 1]), array([2, 2, 2]))
    """

    def __init__(self, subject: Subject, cores: int = 1) -> None:
        if cores not in (1, 2):
            raise InvalidParameter("cores", cores, "1, or 2 for one process per input")
        self._subject, self._workers = subject, [_Worker(subject) for _ in range(2)] if cores == 2 else []
        self._draws: Callable[[Input, int], Any] | None = None
        self._are_told_apart = False

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def outputs(self, pair: tuple[Input, Input], size: int, *, swapped: bool = False) -> tuple[Any, Any]:
        """So many outputs of each; `swapped`, from the process that is otherwise the other's."""
        zero, one = self._both(pair, size, None, swapped=swapped)
        return zero, one

    def counts(self, pair: tuple[Input, Input], size: int, event: Counter) -> tuple[int, int]:
        """How many of so many new outputs of each lie in an event."""
        zero, one = self._both(pair, size, event)
        return zero, one

    def _both(
        self, pair: tuple[Input, Input], size: int, event: Counter | None, *, swapped: bool = False
    ) -> list[Any]:
        if self._workers:
            self._tell_apart(pair[0])
            return self._asked(self._workers[::-1] if swapped else self._workers, pair, size, event)
        if self._draws is None:
            self._draws = _draws(self._subject)
        return [_done(self._draws, each, size, event) for each in pair]

    def _tell_apart(self, given: Input) -> None:
        """One process is enough if the dice of both fall alike; what was drawn to see that is forgotten."""
        if not self._are_told_apart:
            drawn = [values(each) for each in self._asked(self._workers, (given, given), LOOK, None)]
            if drawn[0] == drawn[1] and len(set(drawn[0])) > 1:
                self._workers[1].stop()
                self._workers[1] = self._workers[0]
            self._are_told_apart = True

    def _asked(
        self, workers: list[_Worker], pair: tuple[Input, Input], size: int, event: Counter | None
    ) -> list[Any]:
        questions = [worker.question(each, size, event) for worker, each in zip(workers, pair, strict=True)]
        if workers[0] is workers[1]:
            answers = [workers[0].answer(question) for question in questions]
        else:
            for worker, question in zip(workers, questions, strict=True):
                worker.ask(question)
            answers = [worker.answer() for worker in workers]  # both, or the next would hear of this one
        for answer in answers:
            if isinstance(answer, Failure):
                raise InvalidParameter(answer.name, answer.value, answer.advice)
        return answers


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in another process."""

    name: str
    value: str
    advice: str


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
        self._number = self._asked = 0
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._pipe, subject))
        self._process.start()
        theirs.close()

    def question(self, given: Input, size: int, event: Counter | None) -> bytes:
        """What will be sent: made before anything is, so that nobody is asked alone."""
        self._number += 1
        try:
            return pickle.dumps((self._number, given, size, event))
        except UNSENDABLE as error:
            raise InvalidParameter("input", given, f"{text(error)}: audit it with cores=1") from None

    def ask(self, question: bytes) -> None:
        self._asked = pickle.loads(question)[0]
        try:
            self._pipe.send_bytes(question)
        except OSError:
            raise _ended() from None

    def answer(self, question: bytes | None = None) -> Any:
        if question is not None:
            self.ask(question)
        try:
            while not self._pipe.poll(WAIT):  # a child of its own may hold the other end open
                if not self._process.is_alive():
                    raise _ended()
            number, found = self._pipe.recv()
        except (EOFError, OSError):
            raise _ended() from None
        if number != self._asked:
            raise InvalidParameter(
                "subject", "its process", "two processes answer: does the function fork? Use cores=1"
            )
        return found

    def stop(self) -> None:
        self._pipe.close()
        if self._process.is_alive():
            for how in (signal.SIGTERM, signal.SIGKILL):  # the second for one that does not listen
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid or 0, how)  # with all processes that it began
                self._process.join(GRACE)
        self._process.join()


def _ended() -> InvalidParameter:
    return InvalidParameter("subject", "its process", "it ended in the middle of the audit")


def _serve(pipe: Connection, theirs: Connection, subject: Subject) -> None:
    theirs.close()  # or we would never hear that whoever asks is gone
    os.setsid()  # a group of its own, which can be ended as one
    _die_with_parent()
    os.dup2(2, 1)  # what it prints is no part of our answer
    draws: Callable[[Input, int], Any] | None = None
    try:
        while True:
            number, given, size, event = pipe.recv()
            try:
                draws = draws or _draws(subject)
                answer = _done(draws, given, size, event)
            except InvalidParameter as error:
                answer = Failure(error.name, text(error.value), error.advice)
            pipe.send((number, answer))
    except (EOFError, OSError, KeyboardInterrupt):
        return  # whoever asked is gone


def _die_with_parent() -> None:
    """On Linux a process can ask for it; elsewhere one that never returns outlives a killed audit."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


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

        def drawn(given: Input, size: int) -> Any:
            law = subject.law(given.value)
            return listed([one(law.draw(coins)) for _ in range(size)])

        return drawn
    if isinstance(subject, Conversation):
        return lambda given, size: listed([one(_talk(subject, given.value, coins)) for _ in range(size)])
    return lambda given, size: _called(subject, given, size)


def _called(subject: Callable[..., Any], given: Input, size: int) -> Any:
    needed = _needed(subject, given.parameters)
    if len(needed) > 2:
        raise InvalidParameter(
            "subject",
            name_of(subject),
            f"it also needs {', '.join(each.name for each in needed[1:])}: give values (--with NAME=VALUE, "
            f"parameters={{...}}); one argument without a value may be the number of outputs",
        )
    if len(needed) < 2:
        return listed([_tried(subject, needed, given) for _ in range(size)])
    return _guarded(
        lambda: many(_call(subject, needed, (given.value, size), given), size), f"input {given!r}"
    )


def _call(
    subject: Callable[..., Any], needed: list[inspect.Parameter], given_values: tuple[Any, ...], given: Input
) -> Any:
    """By name where there are parameters: the input and the size may stand anywhere among them."""
    by_name = given.parameters and len(needed) == len(given_values)
    if not by_name or any(each.kind is each.POSITIONAL_ONLY for each in needed):
        return subject(*given_values, **given.parameters)
    named = dict(zip((each.name for each in needed), given_values, strict=True))
    return subject(**named, **given.parameters)


def _tried(subject: Callable[..., Any], needed: list[inspect.Parameter], given: Input) -> Any:
    try:
        return one(_call(subject, needed, (given.value,), given))
    except STOPS as error:
        return Raised.by(error)


def _guarded(run: Callable[[], Any], what: str) -> Any:
    """For calls that stand for many outputs at once: one that fails says nothing about the others."""
    try:
        return run()
    except InvalidParameter:
        raise
    except STOPS as error:
        told = Raised.by(error).kind
        raise InvalidParameter("subject", what, f"it failed: {told}") from error


def _additive(subject: Additive, x: Any, size: int, coins: Coins) -> Any:
    """Noise in bulk on every coordinate."""
    answer = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    columns = [y + subject.noise.draws(coins, size) for y in answer]
    return many(columns[0] if len(columns) == 1 else np.stack(columns, axis=1), size)


def _talk(subject: Conversation[Any, Any, Any], answers: Any, coins: Coins) -> tuple[Any, ...]:
    """Every reply of one conversation."""
    said, state = [], subject.start(coins)
    for answer in answers:
        if getattr(state, "left", 1) == 0:
            break
        state, reply = subject.reply(state, answer, coins)
        said.append(reply)
    return tuple(said)


def _needed(subject: Callable[..., Any], parameters: Mapping[str, Any]) -> list[inspect.Parameter]:
    """The arguments that a call must give."""
    if any(
        kind(subject)
        for kind in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    ):
        raise InvalidParameter(
            "subject", name_of(subject), "it returns awaitables: give a function that returns outputs"
        )
    try:
        listed = inspect.signature(subject).parameters.values()
    except (TypeError, ValueError):  # what is not written in Python may not say
        return []
    return [
        each
        for each in listed
        if each.default is each.empty
        and each.name not in parameters
        and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
