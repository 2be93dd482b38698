"""Ranges inside steps under a clock that the test moves."""

from __future__ import annotations

import json
import threading

import pytest

from detperf_plugins.measure.timeline import (
    Timeline,
    call_cost,
    chrome_trace,
    coverage,
    own_probes,
    range_rows,
)
from detperf_plugins.measure.timers import timer_rows

MS = 1_000_000


class Clock:
    def __init__(self):
        self.now = 0
        self.reads = 0

    def __call__(self):
        return self.now

    def spend(self, ms, reads=0):
        self.now += ms * MS
        self.reads += reads


def two_steps():
    """Per step: a 10 ms (of that b 4 ms, twice c 1 ms in it), 2 ms unnamed, d 8 ms."""
    clock = Clock()
    timeline = Timeline(clock=clock, probe=lambda: clock.reads)

    def c():
        clock.spend(1, reads=1)

    def b():
        clock.spend(2, reads=2)
        timeline.call("c", c)
        timeline.call("c", c)

    def a():
        clock.spend(6)
        timeline.call("b", b)
        return "value"

    for _ in range(2):
        timeline.begin_step()
        assert timeline.call("a", a) == "value"
        clock.spend(2)
        timeline.call("d", clock.spend, 8, reads=5)
        timeline.end_step()
        clock.spend(100)  # between steps: belongs to none
    return clock, timeline


def test_every_range_gets_its_own_and_its_whole_time():
    _, timeline = two_steps()
    rows = {row["name"]: row for row in range_rows(timeline, {})}
    assert list(rows) == ["a", "b", "c", "d", "(no range)"]
    assert [row["depth"] for row in rows.values()] == [0, 1, 2, 0, 0]
    assert [row["calls"] for row in rows.values()] == [2, 2, 4, 2, 2]
    assert [row["cpu_total_ms"] for row in rows.values()] == [20, 8, 4, 16, 4]
    assert [row["cpu_self_ms"] for row in rows.values()] == [12, 4, 4, 16, 4]
    assert sum(row["cpu_self_ms"] for row in rows.values()) == sum(b - a for a, b in timeline.steps) / MS
    assert rows["c"]["cpu_avg_ms"] == rows["c"]["cpu_max_ms"] == rows["c"]["cpu_min_ms"] == 1
    assert rows["d"]["cpu_ratio"] == 40 and rows["a"]["gpu_total_ms"] is None
    assert coverage(timeline) == pytest.approx(0.9)


def test_device_times_are_shares_of_the_outermost_ranges():
    _, timeline = two_steps()
    rows = {row["name"]: row for row in range_rows(timeline, {"a": [3.0, 5.0], "b": [2.0], "d": [2.0]})}
    assert rows["a"]["gpu_total_ms"] == 8 and rows["a"]["gpu_max_ms"] == 5 and rows["a"]["gpu_min_ms"] == 3
    assert rows["a"]["gpu_ratio"] == 80 and rows["b"]["gpu_ratio"] == 20 and rows["c"]["gpu_ratio"] is None


def test_a_probe_is_attributed_to_the_innermost_range():
    _, timeline = two_steps()
    assert own_probes(timeline) == {"a": 0, "b": 4, "c": 4, "d": 10}


def test_a_range_in_itself_is_one_and_an_error_closes_it():
    clock = Clock()
    timeline = Timeline(clock=clock)

    def fails():
        clock.spend(3)
        raise KeyError("x")

    timeline.begin_step()
    with pytest.raises(KeyError):
        timeline.call("a", timeline.call, "a", fails)
    timeline.call("b", clock.spend, 1)
    timeline.end_step()
    assert [(row["name"], row["calls"], row["depth"]) for row in range_rows(timeline, {})] == [
        ("a", 1, 0), ("b", 1, 0), ("(no range)", 1, 0),
    ]  # fmt: skip


def test_what_is_no_whole_step_counts_nowhere():
    clock, timeline = two_steps()
    whole = range_rows(timeline, {})
    timeline.call("before a step", clock.spend, 5)
    timeline.begin_step()
    timeline.call("broken off", clock.spend, 5)
    assert range_rows(timeline, {}) == whole
    assert all(event["name"] != "broken off" for event in chrome_trace(timeline, "t")["traceEvents"])
    assert range_rows(Timeline(), {}) == []


def test_other_threads_pass_unrecorded():
    clock = Clock()
    timeline = Timeline(clock=clock)
    timeline.begin_step()
    thread = threading.Thread(target=timeline.call, args=("elsewhere", clock.spend, 1))
    thread.start()
    thread.join()
    timeline.end_step()
    assert timeline.ranges == []


def test_markers_enclose_what_they_name():
    seen = []

    def marker(name):
        seen.append(f"+{name}")
        return lambda: seen.append(f"-{name}")

    timeline = Timeline(marker=marker)
    timeline.begin_step()
    timeline.call("a", timeline.call, "b", seen.append, "work")
    assert seen == ["+a", "+b", "work", "-b", "-a"]


def test_chrome_trace_nests_as_the_calls_did():
    _, timeline = two_steps()
    trace = json.loads(json.dumps(chrome_trace(timeline, "title")))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in events if event["cat"] == "step"] == ["step 1", "step 2"]
    by_name = {event["name"]: event for event in reversed(events)}
    assert by_name["a"]["ts"] == 0 and by_name["a"]["dur"] == 10_000
    assert by_name["a"]["ts"] <= by_name["b"]["ts"] <= by_name["c"]["ts"]


def test_a_range_costs_little_and_not_nothing():
    assert 0 < call_cost(calls=200, repeats=3) < 1e-3


def test_timer_table():
    reader, batch, ips = timer_rows([0.1, 0.3], [0.5, 1.5], 4)
    assert reader == {"timer": "reader_cost", "avg": 0.2, "max": 0.3, "min": 0.1, "median": 0.2}
    assert (batch["avg"], batch["max"], batch["min"]) == (1.0, 1.5, 0.5)
    assert ips == {"timer": "ips", "avg": 4.0, "max": 8.0, "min": 4 / 1.5, "median": 4.0}
