"""Sums of independent draws of one law: chances of blocks by Fourier's transform, and Chernoff's bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_CIRCLE = 1 << 21  # blocks around which a transform is taken
FOURIER = 1e-13  # what a transform errs by in all, for each draw: some hundred times what it does


def repeated(
    masses: NDArray[np.float64], start: int, times: int, beyond: float
) -> tuple[NDArray[np.float64], int] | None:
    """The sum of so many independent draws, as chances from a first block on; what lies farther out, of
    chance `beyond` at most, is left out or counted where it is not. None if that is too many blocks.

    A power of the Fourier transform, around a circle that is long enough.
    """
    ends = [chernoff(masses, start, times, math.log(4 / beyond), side) for side in (-1, 1)]
    low, high = math.floor(ends[0]) - 1, math.ceil(ends[1]) + 1
    size = 1 << max(high - low, 1).bit_length()
    if size > LONGEST_CIRCLE:
        return None
    around = np.bincount((np.arange(len(masses)) + start) % size, weights=masses, minlength=size)
    found = np.maximum(np.fft.irfft(np.fft.rfft(around) ** times, size), 0.0)
    return np.roll(found, -(low % size)), low


def chernoff(masses: NDArray[np.float64], start: int, times: int, far: float, side: int) -> float:
    """A block that so many draws together pass, on one side, with chance exp(-far) at most.

    By Chernoff's bound, P(S > t) is at most E[exp(s X)]^times exp(-s t), for any s: the best of many is
    taken. Draws that are nearly always 0 need a large one, those that are spread out a small one.
    """
    at = np.arange(start, start + len(masses), dtype=np.float64)
    mean = float(at @ masses) / float(masses.sum())
    off = side * (at - mean)
    reach = max(float(np.abs(off).max()), 1.0)
    best, steps = times * reach, np.geomspace(1e-6, 1.0, 90) * (600 / reach)

    def bound(i: int) -> float:
        s = float(steps[i])
        return (times * max(math.log(float(np.exp(s * off) @ masses)), 0.0) + far) / s

    # it falls and rises: a few of them tell where the least one is
    coarse = {i: bound(i) for i in range(0, len(steps), 8)}
    at_best = min(coarse, key=coarse.__getitem__)
    near = range(max(at_best - 8, 0), min(at_best + 9, len(steps)))
    best = min(best, *coarse.values(), *(bound(i) for i in near if i not in coarse))
    return times * mean + side * best
