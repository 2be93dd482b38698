"""Named ranges of time inside steps: who took how long, as a table and as a Chrome trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

__all__ = ["Range", "Timeline", "call_cost", "chrome_trace", "coverage", "own_probes", "range_rows"]


@dataclass
class Range:
    """One call of a part.

    Attributes:
        name: of the part.
        start, end: nanoseconds of the timeline's clock.
        parent: index of the range around it, or -1.
        step: index of the step it belongs to.
        inner: nanoseconds of the ranges directly inside it.
        probed: what the timeline's probe rose by meanwhile.
    """

    name: str
    start: int
    parent: int
    step: int
    end: int = 0
    inner: int = 0
    probed: int = 0


class Timeline:
    """Ranges and the steps that hold them, of one thread; calls from other threads pass unrecorded.

    Args:
        clock: nanoseconds.
        probe: a counter that only rises; each range notes by how much.
        marker: called with a range's name when it begins, returns what is called when it ends: for the
            ranges of a profiler.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.perf_counter_ns,
        probe: Optional[Callable[[], int]] = None,
        marker: Optional[Callable[[str], Callable[[], Any]]] = None,
    ) -> None:
        self.ranges: list[Range] = []
        self.steps: list[tuple[int, int]] = []
        self._clock, self._probe, self._marker = clock, probe, marker
        self._open: list[int] = []
        self._begun: Optional[int] = None
        self._thread = threading.get_ident()

    def begin_step(self) -> None:
        """A step begins; the one before must have ended."""
        self._begun = self._clock()

    def end_step(self) -> None:
        """The step ends; nothing where none has begun."""
        if self._begun is not None:
            self.steps.append((self._begun, self._clock()))
            self._begun = None

    def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)` as a range; directly inside one of its own name it is part of that."""
        inside = self._open and self.ranges[self._open[-1]].name == name
        if inside or self._begun is None or threading.get_ident() != self._thread:
            return function(*args, **kwargs)
        unmark = self._marker(name) if self._marker else None
        found = self._probe() if self._probe else 0
        index = len(self.ranges)
        one = Range(name, self._clock(), self._open[-1] if self._open else -1, len(self.steps))
        self.ranges.append(one)
        self._open.append(index)
        try:
            return function(*args, **kwargs)
        finally:
            one.end = self._clock()
            self._open.pop()
            if one.parent >= 0:
                self.ranges[one.parent].inner += one.end - one.start
            if self._probe:
                one.probed = self._probe() - found
            if unmark:
                unmark()


def _finished(timeline: Timeline) -> list[Range]:
    """Ranges of whole steps: those of a step that was broken off are left out."""
    return [one for one in timeline.ranges if one.step < len(timeline.steps)]


def coverage(timeline: Timeline) -> float:
    """Which part of the steps' time lies in named ranges, 0 to 1; NaN without a step."""
    total = sum(end - start for start, end in timeline.steps)
    named = sum(one.end - one.start for one in _finished(timeline) if one.parent < 0)
    return named / total if total else float("nan")


def own_probes(timeline: Timeline) -> dict[str, int]:
    """By name, what the probe rose by in its ranges but outside the ranges inside them."""
    found: dict[str, int] = {}
    for one in _finished(timeline):
        found[one.name] = found.get(one.name, 0) + one.probed
        if one.parent >= 0:
            above = timeline.ranges[one.parent].name
            found[above] = found.get(above, 0) - one.probed
    return found


def range_rows(timeline: Timeline, device_ms: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """One row a name, those inside others below them, and last what lies in no range.

    Args:
        timeline: whole steps of it count.
        device_ms: by name, the device time of each call that a profiler saw; its steps may be others.

    Returns:
        name, depth, calls, cpu_total_ms, cpu_avg_ms, cpu_max_ms, cpu_min_ms, cpu_ratio (% of the steps),
        cpu_self_ms (total without ranges inside), gpu_total_ms, gpu_avg_ms, gpu_max_ms, gpu_min_ms and
        gpu_ratio (% of the device time of all outermost ranges; None without device times). `cpu_self_ms`
        of all rows add up to the time of the steps.
    """
    ranges = _finished(timeline)
    total = sum(end - start for start, end in timeline.steps) / 1e6
    by_name: dict[str, list[Range]] = {}
    above: dict[str, str] = {}
    for one in ranges:
        by_name.setdefault(one.name, []).append(one)
        above.setdefault(one.name, ranges[one.parent].name if one.parent >= 0 else "")
    device_total = sum(sum(device_ms.get(name, ())) for name in by_name if not above[name])
    rows = []
    for name in _ordered(above):
        mine = by_name[name]
        times = [(one.end - one.start) / 1e6 for one in mine]
        rows.append(
            {
                "name": name,
                "depth": _depth(name, above),
                "calls": len(mine),
                **_spread("cpu", times, total),
                "cpu_self_ms": sum((one.end - one.start - one.inner) / 1e6 for one in mine),
                **_spread("gpu", device_ms.get(name, ()), device_total),
            }
        )
    if total:
        rest = total - sum(row["cpu_total_ms"] for row in rows if row["depth"] == 0)
        steps = len(timeline.steps)
        rows.append(
            {
                "name": "(no range)", "depth": 0, "calls": steps, "cpu_total_ms": rest,
                "cpu_avg_ms": rest / steps, "cpu_max_ms": None, "cpu_min_ms": None,
                "cpu_ratio": 100 * rest / total, "cpu_self_ms": rest, **_spread("gpu", (), 0.0),
            }
        )  # fmt: skip
    return rows


def _ordered(above: Mapping[str, str], parent: str = "") -> list[str]:
    names = []
    for name, over in above.items():
        if over == parent:
            names += [name, *_ordered(above, name)]
    return names


def _depth(name: str, above: Mapping[str, str]) -> int:
    depth = 0
    while above[name]:
        name, depth = above[name], depth + 1
    return depth


def _spread(kind: str, times: Sequence[float], whole: float) -> dict[str, Any]:
    known = list(times) if whole else []
    total = sum(known)
    return {
        f"{kind}_total_ms": total if known else None,
        f"{kind}_avg_ms": total / len(known) if known else None,
        f"{kind}_max_ms": max(known) if known else None,
        f"{kind}_min_ms": min(known) if known else None,
        f"{kind}_ratio": 100 * total / whole if known else None,
    }


def chrome_trace(timeline: Timeline, title: str) -> dict[str, Any]:
    """The ranges in the Trace Event Format, for chrome://tracing and Perfetto; times in microseconds."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": title}}
    ]
    first = timeline.steps[0][0] if timeline.steps else 0

    def add(name: str, kind: str, start: int, end: int) -> None:
        events.append(
            {
                "name": name, "cat": kind, "ph": "X", "pid": 0, "tid": 0,
                "ts": (start - first) / 1e3, "dur": (end - start) / 1e3,
            }
        )  # fmt: skip

    for index, (start, end) in enumerate(timeline.steps):
        add(f"step {index + 1}", "step", start, end)
    for one in _finished(timeline):
        add(one.name, "range", one.start, one.end)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def call_cost(calls: int = 2000, repeats: int = 7) -> float:
    """Seconds that one range adds to a call: least of `repeats` loops of `calls` empty ranges each."""

    def nothing() -> None:
        return None

    best = []
    for ranged in (True, False):
        loops = []
        for _ in range(repeats):
            timeline = Timeline()
            timeline.begin_step()
            begin = time.perf_counter()
            for _ in range(calls):
                timeline.call("empty", nothing) if ranged else nothing()
            loops.append(time.perf_counter() - begin)
        best.append(min(loops))
    return max(0.0, best[0] - best[1]) / calls
