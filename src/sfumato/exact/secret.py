"""A value nobody may look at until it has been noised and stored.

`Secret` makes law 2 a type: the exact answer can be transformed (`map`, `beside`) but not read, printed,
compared or pickled. The one function that opens it, `unseal`, is imported by the ledger alone, which writes
the value to disk before it returns it; `tests/test_architecture.py` holds that line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from sfumato.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable

X = TypeVar("X")
T = TypeVar("T")


class Secret(Generic[X]):
    """A sealed value: it can be worked on, not seen.

    >>> Secret(41).map(lambda x: x + 1)
    <Secret>
    """

    __slots__ = ("__value",)

    def __init__(self, value: X) -> None:
        self.__value = value

    @classmethod
    def of(cls, make: Callable[[], X]) -> Secret[X]:
        """Seal what `make` returns; if it fails, nothing of the failure is seen."""
        return Secret(None).map(lambda _: make())

    def map(self, f: Callable[[X], T]) -> Secret[T]:
        """Seal f(value). Any failure becomes one fixed error with an empty chain.

        The new exception is raised after the handler has been left, so neither `__cause__`, `__context__`
        nor a traceback frame holds on to the private value.
        """
        interrupted = False
        try:
            return Secret(f(self.__value))
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:  # every kind of failure must look the same, even one of the engine's own
            pass
        del self, f  # the frame of the new exception must not lead back to the value
        if interrupted:
            raise KeyboardInterrupt
        raise QueryFailed

    def beside(self, other: Secret[T]) -> Secret[tuple[X, T]]:
        """Both values, sealed together."""
        return self.map(lambda mine: (mine, unseal(other)))

    def __repr__(self) -> str:
        return "<Secret>"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a Secret cannot be compared")

    __hash__ = None  # type: ignore[assignment]  # unhashable: a hash would be a look at the value

    def __bool__(self) -> NoReturn:
        raise TypeError("a Secret cannot be tested")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")


def unseal(secret: Secret[X]) -> X:
    """Open a Secret. For the ledger alone: it stores the value before anybody sees it."""
    value: X = secret._Secret__value  # type: ignore[attr-defined]  # the one door through the mangled name
    return value
