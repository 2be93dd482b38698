"""Peak memory: what a call holds at most, also where the memory is one that was freed before."""

from __future__ import annotations

import numpy as np
import pytest

from detperf_plugins.measure import memory
from detperf_plugins.measure.memory import peak_mb


def blocks(count, kilobytes):
    return sum(len(block) for block in [bytearray(kilobytes << 10) for _ in range(count)])


def test_a_call_is_charged_what_it_holds_at_most():
    if peak_mb(lambda: None) is None:
        pytest.skip("this system does not say")
    for _ in range(2):
        assert peak_mb(lambda: np.ones(8 << 20)) == pytest.approx(64, abs=2)
        # Small blocks come from memory that the process keeps when they are freed.
        assert peak_mb(lambda: blocks(2048, 16)) == pytest.approx(32, abs=3)
    assert peak_mb(lambda: [np.ones(1 << 20).sum() for _ in range(9)]) == pytest.approx(8, abs=2)


def test_where_the_system_cannot_tell_there_is_no_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_SELF", tmp_path / "missing")
    assert peak_mb(lambda: None) is None
