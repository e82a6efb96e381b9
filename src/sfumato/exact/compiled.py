"""The inner loops of `bulk` as machine code: the extra `fast`.

Line for line what numpy does there, on the same words, so a test can ask for equality of every draw. This
file is loaded only where the extra is installed and a call is large enough to pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sfumato.exact.bulk import COARSE, FINE, NO, TIE, YES, Kernels, Slope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.exact.bulk import Words


@njit("i8(u8[::1], i8[::1], u8[::1], i8, i8[::1], i8[::1])", cache=True, nogil=True)
def _locate(
    words: Words,
    guide: NDArray[np.int64],
    cuts: Words,
    shift: int,
    index: NDArray[np.int64],
    tied: NDArray[np.int64],
) -> int:
    ties = 0
    for i in range(len(words)):
        word = words[i]
        found = guide[word >> np.uint64(shift)]
        if found < 0:
            low, high = 0, len(cuts)  # the first cut above the word
            while low < high:
                middle = (low + high) >> 1
                if cuts[middle] <= word:
                    low = middle + 1
                else:
                    high = middle
            found = low
            if low > 0 and cuts[low - 1] == word:
                tied[ties] = i
                ties += 1
        index[i] = found
    return ties


def locate(
    words: Words, guide: NDArray[np.int64], cuts: Words, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many cuts are at most each word, and where a word equals a cut."""
    index = np.empty(len(words), dtype=np.int64)
    tied = np.empty(len(words), dtype=np.int64)
    ties = _locate(words, guide, cuts, bits - (len(guide).bit_length() - 1), index, tied)
    return index, tied[:ties]


@njit("void(u8[::1], i8[::1], i8[::1], i8, i8, i8, i8, i8, i1[::1])", cache=True, nogil=True)
def _toss(
    words: Words,
    high: NDArray[np.int64],
    rest: NDArray[np.int64],
    shift: int,
    linear_low: int,
    linear_high: int,
    square_low: int,
    square_high: int,
    verdict: NDArray[np.int8],
) -> None:
    for i in range(len(words)):
        if shift > FINE:
            least = rest[i] >> (shift - FINE)
            most = least + 1
        else:
            least = rest[i] << (FINE - shift)
            most = least
        twice = high[i] << (FINE + 1)
        low = least * (linear_low + ((twice + least) * square_low >> FINE))
        above = most * (linear_high + ((twice + most) * square_high >> FINE) + 1)
        number = np.int64(words[i])
        verdict[i] = YES if number < low else (NO if number >= above else TIE)


def toss(words: Words, high: NDArray[np.int64], rest: NDArray[np.int64], slope: Slope) -> NDArray[np.int8]:
    """Whether each word is below 2^60 x, or too close to tell."""
    verdict = np.empty(len(words), dtype=np.int8)
    _toss(words, high, rest, *slope, verdict)
    return verdict


KERNELS = Kernels(locate, toss)
assert FINE + COARSE <= 60  # the products above stay within 63 bits
