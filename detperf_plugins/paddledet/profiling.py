"""One profiled training run, in a process of its own: `python -m detperf_plugins.paddledet.profiling`.

ppdet's own Trainer trains; its parts are named from outside. Steps A to B carry the ranges alone, which
cost microseconds. After them one step counts host reads, and a few run under Paddle's profiler, whose
operator table and trace would slow the others down.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import time
from pathlib import Path
from typing import Any, Callable, Optional

from detperf_plugins.errors import DetperfError
from detperf_plugins.measure.child import emit, give_up, write_file
from detperf_plugins.measure.timeline import (
    Timeline,
    call_cost,
    chrome_trace,
    coverage,
    own_probes,
    range_rows,
)
from detperf_plugins.measure.timers import timer_rows
from detperf_plugins.paddledet import short_run
from detperf_plugins.paddledet.events import read_events
from detperf_plugins.paddledet.ranges import READER, name_parts
from detperf_plugins.paddledet.short_run import Finished

__all__ = ["Settings", "main", "run"]


class Settings(argparse.Namespace):
    """What a run is told; see the arguments of `main`."""


class _Session:
    """Which step runs, and what records it."""

    def __init__(self, settings: Settings, on_device: bool) -> None:
        self.settings = settings
        self.on_device = on_device
        self.step = 0
        self.fetching = False
        self.current: Optional[Timeline] = None
        self.profiled = Timeline(marker=_nvtx() if on_device else None)
        self.counted: Optional[Timeline] = None
        self.timers: list[tuple[float, float]] = []
        self.plain_steps: list[float] = []
        self.ops: list[dict[str, Any]] = []
        self.device_ms: dict[str, list[float]] = {}
        self.waits: Optional[dict[str, float]] = None
        self._cleanup = contextlib.ExitStack()
        self._begun = 0.0
        self._profiler: Any = None

    def fetch(self, function: Callable[..., Any], reader: Any) -> Any:
        """The reader's next batch; a new step begins here, unless the last one found an epoch's end."""
        if not self.fetching:
            self._boundary()
            self.fetching = True
        timeline = self.current
        batch = timeline.call(READER, function, reader) if timeline else function(reader)
        self.fetching = False
        return batch

    def note(self, reader_s: float, batch_s: float) -> None:
        """The trainer's own timers of the step that has just ended."""
        if self.settings.first <= self.step <= self.settings.last:
            self.timers.append((reader_s, batch_s))
        emit(step=self.step)

    def _boundary(self) -> None:
        self.close_step()
        self.step += 1
        first, last, step = self.settings.first, self.settings.last, self.step
        if step == first:
            emit(clock="begin")
        if step == last + 1:
            emit(clock="end")
            self._count()
        elif step == last + 2 and self.settings.op_steps:
            self.current = Timeline(marker=_record_event)
            self._watch()
        elif step == last + 2 + self.settings.op_steps:
            raise Finished
        elif first <= step <= last:
            off = self.settings.alternate and (step - first) % 2
            self.current = None if off else self.profiled
        self._begun = time.perf_counter()
        if self.current:
            self.current.begin_step()

    def close_step(self) -> None:
        """End the step that runs, and what was recording it alone."""
        if self.current:
            self.current.end_step()
        elif self.settings.first <= self.step <= self.settings.last:
            self.plain_steps.append(time.perf_counter() - self._begun)
        if self.step == self.settings.last + 1:
            self._cleanup.close()
            self.current = None
        elif self.step == self.settings.last + 1 + self.settings.op_steps:
            self.stop_profiler()

    def _count(self) -> None:
        from detperf_plugins.measure.counters import host_reads

        found = self._cleanup.enter_context(host_reads())
        self.current = self.counted = Timeline(probe=lambda: sum(found.values()))

    def _watch(self) -> None:
        from paddle import profiler

        targets = [profiler.ProfilerTarget.CPU]
        if self.on_device:
            targets.append(profiler.ProfilerTarget.GPU)
        trace = self.settings.out / "trace_ops.json"
        self._profiler = profiler.Profiler(
            targets=targets, on_trace_ready=lambda done: done.export(str(trace), format="json")
        )
        self._profiler.start()

    def stop_profiler(self) -> None:
        """Take the operator table from Paddle's profiler, where it runs."""
        if self._profiler is None:
            return
        watch, self._profiler = self._profiler, None
        self.current = None
        with contextlib.redirect_stdout(io.StringIO()):  # it prints a summary of its own
            watch.stop()
        if watch.profiler_result is not None:
            steps = max(1, self.step - self.settings.last - 1)
            found = read_events(list(watch.profiler_result.get_data().values()), steps)
            self.ops, self.device_ms, self.waits = found

    def end(self) -> None:
        """Undo what a broken-off step would leave behind."""
        self._cleanup.close()
        self.stop_profiler()


def _nvtx() -> Optional[Callable[[str], Callable[[], Any]]]:
    import paddle

    core = paddle.base.core
    if not hasattr(core, "nvprof_nvtx_push"):
        return None

    def mark(name: str) -> Callable[[], Any]:
        core.nvprof_nvtx_push(name)
        return core.nvprof_nvtx_pop

    return mark


def _record_event(name: str) -> Callable[[], Any]:
    from paddle.profiler import RecordEvent

    event = RecordEvent(name)
    event.begin()
    return event.end


def run(settings: Settings) -> dict[str, Any]:
    """Train and profile; what was measured comes back even where the run is broken off.

    Returns:
        modules, ops and timers (rows), host_reads and waiting_ops of one step by range (None where that was
        not recorded), sources (module of
        the class behind each range), steps, step_ms (median), total_ms, coverage, overhead, batch_size,
        float32_on_gpu (AMP is off on a GPU), and `stopped`: why the run ended early, else None.
    """
    cfg, trainer = short_run.prepare(
        settings.config,
        settings.overrides,
        settings.out,
        amp=settings.amp,
        seed=settings.seed,
        plugins=not settings.stock,
        replace=settings.replace,
    )
    session = _Session(settings, on_device=bool(cfg.get("use_gpu")))
    short_run.on_each_step(trainer, session.note)
    emit(steps=settings.last + 1 + settings.op_steps)
    sources, undo = name_parts(trainer, lambda: session.current)
    try:
        error = short_run.train(trainer, session.fetch)
    finally:
        session.end()
        undo()
    stopped = None if error is None else short_run.sentence(error)
    trace = chrome_trace(session.profiled, settings.config.stem)
    try:
        write_file(settings.out / "trace.json", json.dumps(trace))
    except DetperfError as fault:  # a full disk does not take the tables away
        stopped = stopped or str(fault)
    facts = {
        "sources": sources,
        "stopped": stopped,
        "float32_on_gpu": bool(cfg.get("use_gpu")) and not cfg["amp"],
    }
    return {**_result(session, cfg.TrainReader["batch_size"]), **facts}


def _result(session: _Session, batch_size: int) -> dict[str, Any]:
    timeline = session.profiled
    if not timeline.steps:
        return {"modules": [], "ops": [], "timers": [], "host_reads": None, "waiting_ops": None, "steps": 0}
    steps_ms = [(end - start) / 1e6 for start, end in timeline.steps]
    step_ms = statistics.median(steps_ms)
    calls = len(timeline.ranges) / len(timeline.steps)
    reads = own_probes(session.counted) if session.counted else None
    overhead = {"calls_per_step": calls, "call_us": 1e6 * call_cost()}
    overhead["percent"] = 100 * calls * overhead["call_us"] / 1e3 / step_ms
    if session.plain_steps:
        overhead["alternate_percent"] = 100 * (step_ms / 1e3 / statistics.median(session.plain_steps) - 1)
    reader_s, batch_s = zip(*session.timers)
    return {
        "modules": range_rows(timeline, session.device_ms),
        "ops": session.ops,
        "timers": timer_rows(reader_s, batch_s, batch_size),
        "host_reads": reads,
        "waiting_ops": session.waits,
        "steps": len(steps_ms),
        "step_ms": step_ms,
        "total_ms": sum(steps_ms),
        "coverage": coverage(timeline),
        "overhead": overhead,
        "batch_size": batch_size,
    }


def main(arguments: Optional[list[str]] = None) -> None:
    """Parse the command line and run; an error ends with its status, and its sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    parser.add_argument("--op-steps", type=int, default=0)
    parser.add_argument("--overrides", type=json.loads, default=[])
    parser.add_argument("--seed", type=int)
    for flag in ("--amp", "--replace", "--stock", "--alternate"):
        parser.add_argument(flag, action="store_true")
    settings = parser.parse_args(arguments, namespace=Settings())
    settings.config, settings.out = settings.config.resolve(), settings.out.resolve()
    try:
        emit(result=run(settings))
    except DetperfError as error:
        give_up(error)


if __name__ == "__main__":
    main()
