"""Two ways to the same result, timed against each other so that a busy machine disturbs both alike."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable

__all__ = ["LEAST_PAIRS", "Comparison", "compare"]

# Below this many pairs the quartiles of the ratio say little.
LEAST_PAIRS = 7


@dataclass(frozen=True)
class Comparison:
    """Medians over interleaved pairs.

    Attributes:
        base_ms, other_ms: median time of each way, milliseconds.
        ratio: median over pairs of base time / other time; above 1 the other is faster.
        ratio_low, ratio_high: its quartiles.
        pairs: how many pairs were timed.
    """

    base_ms: float
    other_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int


def compare(
    base: Callable[[], Any],
    other: Callable[[], Any],
    pairs: int = LEAST_PAIRS,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Time `base` and `other` in turns, each pair in the other order than the last.

    Each is called once before, unmeasured. The garbage collector is held off meanwhile.

    Args:
        base, other: called without arguments; they must have finished their work when they return.
        pairs: at least `LEAST_PAIRS`.
        clock: seconds.

    Raises:
        ValueError: too few pairs.
    """
    if pairs < LEAST_PAIRS:
        raise ValueError(f"{pairs} pairs are too few, take at least {LEAST_PAIRS}")
    base()
    other()
    base_times: list[float] = []
    other_times: list[float] = []
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for pair in range(pairs):
            turns = [(base, base_times), (other, other_times)]
            for run, times in turns if pair % 2 == 0 else reversed(turns):
                begin = clock()
                run()
                times.append(clock() - begin)
    finally:
        if collecting:
            gc.enable()
    ratios = [a / b for a, b in zip(base_times, other_times)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return Comparison(
        statistics.median(base_times) * 1e3,
        statistics.median(other_times) * 1e3,
        statistics.median(ratios),
        low,
        high,
        pairs,
    )
