"""Random numbers by address: a pure function of (seed, stream, record, ...), not of how many were drawn before.

So a record is the same whichever worker, batch or attempt asks for it, and any record can be made without the others.
The idea is that of counter-based generators (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"); the
mixing function is SplitMix64 (Steele, Lea and Flood 2014). Integer arithmetic only: the same on every machine.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MASK = 2**64 - 1


def bits(*address: int | Array) -> Array:
    """uint64 of the broadcast shape of ``address``: 64 unrelated bits for each address."""
    state: Array = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for part in address:
            number = np.uint64(part & _MASK) if isinstance(part, int) else part.astype(np.uint64)
            state = (state ^ number) + _GOLDEN
            state = (state ^ state >> np.uint64(30)) * _FIRST
            state = (state ^ state >> np.uint64(27)) * _SECOND
            state = state ^ state >> np.uint64(31)
    return np.asarray(state)


def integers(high: int, *address: int | Array) -> Array:
    """int64 in [0, high), of the broadcast shape of ``address``; the bias is below high / 2**64."""
    drawn: Array = (bits(*address) % np.uint64(high)).astype(np.int64)
    return drawn


def uniform(*address: int | Array) -> Array:
    """float64 in [0, 1), of the broadcast shape of ``address``."""
    drawn: Array = (bits(*address) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


def normal(*address: int | Array) -> Array:
    """float64 with mean 0 and variance 1, of the broadcast shape of ``address``.

    The sum of twelve uniform numbers less six (Irwin-Hall): close to Gaussian within three standard deviations, and
    without a logarithm or a cosine, whose last bit differs between processors.
    """
    total = uniform(*address, 0)
    for index in range(1, 12):
        total = total + uniform(*address, index)
    return total - 6.0


def permutation(size: int, *address: int) -> Array:
    """int64 [size]: a permutation of 0..size-1."""
    return np.argsort(bits(*address, np.arange(size)), kind="stable").astype(np.int64)
