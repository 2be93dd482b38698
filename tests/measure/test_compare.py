"""Interleaved timing, with a clock that the test turns."""

from __future__ import annotations

import gc

import pytest

from detperf_plugins.measure.compare import compare


class Clock:
    """Seconds that pass only while a piece of work says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def work(self, name: str, *seconds: float):
        durations = list(seconds)

        def run() -> None:
            self.log.append(name)
            self.now += durations.pop(0) if len(durations) > 1 else durations[0]

        return run

    def __call__(self) -> float:
        return self.now


def test_medians_ratio_and_spread():
    clock = Clock()
    # The first call is the unmeasured one.
    base = clock.work("base", 99, 4, 4, 4, 4, 4, 4, 40)
    other = clock.work("other", 99, 1, 1, 2, 2, 2, 4, 4)
    result = compare(base, other, 7, clock)
    assert (result.base_ms, result.other_ms, result.pairs) == (4000, 2000, 7)
    assert result.ratio == 2
    assert (result.ratio_low, result.ratio_high) == (2, 4)


def test_each_pair_turns_the_order():
    clock = Clock()
    compare(clock.work("a", 1), clock.work("b", 1), 8, clock)
    assert "".join(clock.log) == "ab" + "abba" * 4


def test_equal_work_is_one():
    clock = Clock()
    result = compare(clock.work("a", 3), clock.work("b", 3), 9, clock)
    assert (result.ratio, result.ratio_low, result.ratio_high) == (1, 1, 1)


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="at least 7"):
        compare(lambda: None, lambda: None, 3)


def test_the_collector_runs_again_after_a_failure():
    def fail() -> None:
        if not gc.isenabled():
            raise KeyError

    with pytest.raises(KeyError):
        compare(fail, fail)
    assert gc.isenabled()
