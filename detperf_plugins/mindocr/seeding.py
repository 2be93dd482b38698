"""Random numbers that depend on the seed, the sample and the visit alone, not on which worker draws them."""

from __future__ import annotations

import multiprocessing
import random
from typing import Any

import numpy as np

__all__ = ["Seeds"]

# Odd multipliers of SplitMix64 (Steele, Lea, Flood 2014), which scatter neighbouring inputs.
_STEP, _FIRST, _SECOND, _WORD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, (1 << 64) - 1


def _scatter(value: int) -> int:
    value = (value + _STEP) & _WORD
    value = ((value ^ value >> 30) * _FIRST) & _WORD
    value = ((value ^ value >> 27) * _SECOND) & _WORD
    return value ^ value >> 31


class Seeds:
    """Generators for the samples of a data set, the same for threads, processes and any number of them.

    How often each sample was visited is counted in memory that forked workers share.

    Args:
        seed: of the run.
        count: samples.
    """

    def __init__(self, seed: int, count: int) -> None:
        self._seed = seed
        self._visits = multiprocessing.RawArray("I", max(count, 1))

    def start_at(self, visit: int) -> None:
        """Let every sample's next visit be number `visit`: a probe is undone, a training gone on with."""
        self._visits[:] = [visit] * len(self._visits)

    def next(self, index: int) -> int:
        """The seed of the next visit to sample `index`, 0 to 2**32 - 1."""
        visit = self._visits[index]
        self._visits[index] = visit + 1
        return _scatter(_scatter(_scatter(self._seed & _WORD) + index) + visit) & 0xFFFFFFFF

    def generators(self, index: int) -> tuple[np.random.RandomState, random.Random]:
        """The sample's generators for its next visit; they draw as np.random and random do, seeded so."""
        seed = self.next(index)
        return np.random.RandomState(seed), random.Random(seed)

    @staticmethod
    def set_global(generators: tuple[np.random.RandomState, Any]) -> None:
        """Let stock transforms of this process draw from the same numbers."""
        np.random.set_state(generators[0].get_state(legacy=False))
        random.setstate(generators[1].getstate())
