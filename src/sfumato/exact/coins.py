"""The only place that makes random bits (law 6).

`Coins` answers three questions: some fair bits, a number below n, a chance of p/q. Samplers ask nothing else,
so a sampler is a tree of coin tosses, and a test can walk the whole tree with exact weights (`walk`).

`SystemCoins` keeps no state at all: every call takes fresh bits from the operating system, and every bulk
call runs AES-256-CTR once under a key that was drawn for it and is then dropped. So there is no buffer that a
forked worker could inherit, no used byte to erase, and nothing to copy; it refuses to be copied all the
same.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

Y = TypeVar("Y")


class Coins(ABC):
    """A source of fair, independent bits. It cannot be copied or pickled."""

    @abstractmethod
    def bits(self, count: int) -> int:
        """A whole number made of `count` fair bits."""

    def below(self, n: int) -> int:
        """A uniform whole number in 0 .. n-1, by rejection: exact for every n."""
        if n < 1:
            raise ValueError("below needs n >= 1")
        count = (n - 1).bit_length()
        while (number := self.bits(count)) >= n:
            pass
        return number

    def chance(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator, exactly."""
        return self.below(denominator) < numerator

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` uniform 64-bit words, for bulk samplers."""
        return np.array([self.bits(64) for _ in range(count)], dtype=np.uint64)

    def __copy__(self) -> NoReturn:
        raise TypeError("Coins cannot be copied: two copies would give the same noise")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("Coins cannot be copied: two copies would give the same noise")

    def __reduce__(self) -> NoReturn:
        raise TypeError("Coins cannot be pickled: two copies would give the same noise")


class SystemCoins(Coins):
    """Bits of the operating system. Stateless, hence safe across threads and forks."""

    def bits(self, count: int) -> int:
        return int.from_bytes(os.urandom((count + 7) // 8), "little") & ((1 << count) - 1)

    def words(self, count: int) -> NDArray[np.uint64]:
        if count <= 64:  # below this, the system call is cheaper than setting up a cipher
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).copy()
        return _stream(os.urandom(32), 8 * count)


def _stream(key: bytes, size: int) -> NDArray[np.uint64]:
    """`size` bytes of AES-256-CTR under a key used once: the counter may start at zero."""
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    out = bytearray(size)
    cipher.update_into(out, out)
    return np.frombuffer(out, dtype=np.uint64)


class Tape(Coins):
    """Replayable bits, for tests and rehearsals; never for a release. Either given, or grown from a seed.

    >>> Tape([1, 0, 1]).bits(3)
    5
    >>> Tape.seeded(7).bits(32) == Tape.seeded(7).bits(32)
    True
    """

    def __init__(self, bits: Iterable[int]) -> None:
        self._bits = list(bits)
        self._key: bytes | None = None
        self._turn = 0

    @classmethod
    def seeded(cls, seed: int) -> Tape:
        """An endless tape that is the same for the same seed."""
        tape = cls([])
        tape._key = seed.to_bytes(32, "little")
        return tape

    def bits(self, count: int) -> int:
        if self._key is not None and len(self._bits) < count:
            self._bits += np.unpackbits(self._more(max(count // 8 + 1, 512))).tolist()
        if len(self._bits) < count:
            raise EndOfTape
        taken, self._bits = self._bits[:count], self._bits[count:]
        return sum(bit << i for i, bit in enumerate(taken))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._more(8 * count).view(np.uint64) if self._key is not None else super().words(count)

    def _more(self, size: int) -> NDArray[np.uint8]:
        assert self._key is not None
        self._turn += 1
        key = bytes(a ^ b for a, b in zip(self._key, self._turn.to_bytes(32, "big"), strict=True))
        return _stream(key, size + -size % 8).view(np.uint8)


class EndOfTape(Exception):
    """A finite tape has no bits left."""


class _Branches(Coins):
    """Follows one path of a coin tree and notes the branches it did not take."""

    def __init__(self, path: tuple[int, ...], floor: Fraction) -> None:
        self._path, self._at, self._floor = path, 0, floor
        self.weight = Fraction(1)
        self.others: list[tuple[Fraction, tuple[int, ...]]] = []

    def bits(self, count: int) -> int:
        return self.below(1 << count)

    def below(self, n: int) -> int:
        return self._branch([Fraction(1, n)] * n)

    def chance(self, numerator: int, denominator: int) -> bool:
        success = Fraction(min(max(numerator, 0), denominator), denominator)
        if success in (0, 1):
            return success == 1
        return self._branch([1 - success, success]) == 1

    def _branch(self, weights: list[Fraction]) -> int:
        if self._at < len(self._path):
            choice = self._path[self._at]
        else:
            choice = 0
            for other in range(1, len(weights)):
                self.others.append((self.weight * weights[other], (*self._path, other)))
            self._path = (*self._path, 0)
        self._at += 1
        self.weight *= weights[choice]
        if self.weight < self._floor:
            raise EndOfTape
        return choice


def walk(draw: Callable[[Coins], Y], floor: Fraction) -> tuple[dict[Y, Fraction], Fraction]:
    """The exact law of `draw`, by walking every sequence of coins that weighs at least `floor`.

    Returns the mass seen of each outcome and the mass left undecided. The true mass of an outcome lies
    between what was seen and what was seen plus the undecided mass: no statistics, no luck.

    >>> walk(lambda coins: coins.below(3), Fraction(1, 100))
    ({0: Fraction(1, 3), 1: Fraction(1, 3), 2: Fraction(1, 3)}, Fraction(0, 1))
    """
    seen: dict[Y, Fraction] = {}
    undecided = Fraction(0)
    paths: list[tuple[int, ...]] = [()]
    while paths:
        coins = _Branches(paths.pop(), floor)
        try:
            outcome = draw(coins)
            seen[outcome] = seen.get(outcome, Fraction(0)) + coins.weight
        except EndOfTape:
            undecided += coins.weight
        for weight, path in coins.others:
            if weight < floor:
                undecided += weight
            else:
                paths.append(path)
    return dict(sorted(seen.items(), key=lambda item: str(item[0]))), undecided
