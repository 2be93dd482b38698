"""What a log tells: steady speed, compile time, reader share, losses; or why it cannot tell."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any

from detperf_plugins.doctor.findings import Finding
from detperf_plugins.doctor.logs.choose import split_runs, usable_steps
from detperf_plugins.doctor.logs.read import Log
from detperf_plugins.doctor.logs.records import Record
from detperf_plugins.doctor.words import counted

__all__ = ["Analysis", "analyse"]


@dataclass
class Analysis:
    """What was measured; None stands for "cannot tell", with the reason in `reasons` under the same name.

    Attributes:
        dialects: the log formats met.
        steps, epochs, evaluations: how many step lines, epoch lines and evaluations there are.
        ips: steady images a second, warm-up left out; `ips_from` says which lines it is the median of.
        compile: seconds that the first epoch (or the first steps) took longer than later ones.
        startup: seconds from the first line to the first record.
        phases: (what, seconds) between the milestones of the start.
        batch_cost: steady seconds a step.
        reader_share: the part of a step that waits for data, 0 to 1.
        losses: (position, loss) with position in epochs where the log says it, else in steps.
        first_nan: the first record whose loss is not finite.
        runs: how often training started (1 without restarts).
        framework: MindSpore's own messages, counted by component and severity ("ME warning": 3).
        used: the records that `ips` comes from.
    """

    file: str
    dialects: list[str] = field(default_factory=list)
    steps: int = 0
    epochs: int = 0
    evaluations: int = 0
    ips: float | None = None
    ips_from: str = ""
    compile: float | None = None
    startup: float | None = None
    phases: list[tuple[str, float]] = field(default_factory=list)
    batch_cost: float | None = None
    reader_share: float | None = None
    losses: list[tuple[float, float]] = field(default_factory=list)
    learning_rates: list[tuple[float, float]] = field(default_factory=list)
    first_nan: Record | None = None
    runs: int = 1
    ranks: int = 1
    memory: float | None = None
    framework: dict[str, int] = field(default_factory=dict)
    elapsed: float | None = None
    eval_time: float | None = None
    artefacts: list[Record] = field(default_factory=list)
    partial: list[Record] = field(default_factory=list)
    warm_up: list[Record] = field(default_factory=list)
    used: list[Record] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def as_row(self) -> dict[str, Any]:
        """The measurements as a flat JSON-ready object."""
        final = next((loss for _x, loss in reversed(self.losses) if math.isfinite(loss)), None)
        return {
            "file": self.file,
            "format": ", ".join(self.dialects),
            "step_lines": self.steps,
            "epoch_lines": self.epochs,
            "evaluations": self.evaluations,
            "images_per_s": self.ips,
            "images_per_s_from": self.ips_from,
            "batch_cost_s": self.batch_cost,
            "reader_share": self.reader_share,
            "compile_s": self.compile,
            "startup_s": self.startup,
            "elapsed_s": self.elapsed,
            "eval_s": self.eval_time,
            "first_loss": self.losses[0][1] if self.losses and math.isfinite(self.losses[0][1]) else None,
            "last_finite_loss": final,
            "first_nan_line": self.first_nan.line if self.first_nan else None,
            "starts": self.runs,
            "ranks": self.ranks,
            "memory_mb": self.memory,
            "framework_messages": dict(self.framework),
            "cannot_tell": dict(self.reasons),
        }


def analyse(log: Log) -> Analysis:
    """Measure a log and collect its findings (rules `log-*`)."""
    from detperf_plugins.doctor.logs.faults_found import find_faults

    result = Analysis(log.file, list(dict.fromkeys(r.dialect for r in log.records)), elapsed=log.elapsed)
    if log.elapsed is None:
        back = any(r.time is not None for r in log.records)
        why = (
            "the time stamps go back: these are lines of several runs"
            if back
            else "the lines have no time stamps"
        )
        result.reasons["elapsed"] = why
    steps = [r for r in log.records if r.kind == "step"]
    epochs = [r for r in log.records if r.kind == "epoch"]
    result.steps, result.epochs = len(steps), len(epochs)
    performances = log.of("performance")
    result.evaluations = len(performances) or len(
        [e for e in log.of("evaluation") if "FPS" in e.text or "cur metric" in e.text]
    )
    times = [e.value for e in performances if e.value is not None]
    result.eval_time = sum(times) if times else None
    runs = split_runs(log.records, result)
    _speed(runs, result)
    _start(log, runs, result)
    _measured(log, result)
    _curves(runs, result)
    memory = [r.memory for r in log.records if r.memory is not None]
    result.memory = max(memory) if memory else None
    for event in log.events:
        if event.kind.startswith("mindspore "):
            name = f"{event.text.split(' ', 1)[0]} {event.kind.split(' ', 1)[1]}"
            result.framework[name] = result.framework.get(name, 0) + 1
    result.findings = find_faults(log, result)
    return result


def _speed(runs: list[list[Record]], result: Analysis) -> None:
    steps = [r for run in runs for r in run if r.kind == "step"]
    epochs = [r for run in runs for r in run if r.kind == "epoch"]
    usable = usable_steps(runs, result)
    if usable:
        _from_steps(usable, result)
    elif epochs:
        _from_epochs(runs, epochs, result)
    else:
        reason = "no training lines were found" if not steps else _why_no_speed(steps, result)
        result.reasons["images_per_s"] = reason
    if result.reader_share is None:
        result.reasons["reader_share"] = "the log does not say how long a step waits for data"
    _compile(runs, result)


def _why_no_speed(steps: list[Record], result: Analysis) -> str:
    if result.warm_up and len(steps) == len(result.warm_up) + len(result.artefacts):
        return "the only step line is the first of the run, which includes start-up"
    return "the step lines state no speed"


def _from_steps(usable: list[Record], result: Analysis) -> None:
    result.used = usable
    speeds = [r.ips for r in usable if r.ips]
    if speeds:
        result.ips = statistics.median(speeds)
        first = usable[0]
        where = f"epoch {first.epoch}, step {first.step}" if first.epoch is not None else f"step {first.step}"
        result.ips_from = f"median of {counted(len(speeds), 'step line')} from {where} on"
    else:
        result.reasons["images_per_s"] = "the step lines state a time, but no number of images"
    costs = [r.batch_cost for r in usable if r.batch_cost]
    result.batch_cost = statistics.median(costs) if costs else None
    both = [(r.data_cost, r.batch_cost) for r in usable if r.data_cost is not None and r.batch_cost]
    if both:
        result.reader_share = sum(d for d, _ in both) / sum(b for _, b in both)


def _from_epochs(runs: list[list[Record]], epochs: list[Record], result: Analysis) -> None:
    later = [r for run in runs for r in [e for e in run if e.kind == "epoch"][1:]]
    if not later:
        reason = "the log holds a single epoch, whose time includes graph compilation"
        result.reasons["images_per_s"] = reason
        return
    _from_steps(later, result)
    result.ips_from = f"median of {counted(len(later), 'epoch line')} from epoch {later[0].epoch} on"
    if not any(r.kind == "step" for run in runs for r in run):
        result.reasons["steps"] = (
            "there are no step lines: with dataset sink mode MindOCR prints one line an epoch"
        )


def _compile(runs: list[list[Record]], result: Analysis) -> None:
    """Extra time of the first epoch; else of the first step window; else a reason."""
    for run in runs:
        epochs = [r for r in run if r.kind == "epoch" and r.epoch_time]
        if len(epochs) > 1 and epochs[0].epoch_time:
            rest = statistics.median(r.epoch_time for r in epochs[1:] if r.epoch_time)
            result.compile = max(0.0, epochs[0].epoch_time - rest)
            return
    first = next((r for r in result.warm_up if r.batch_cost), None)
    if first is not None and result.batch_cost and first.batch_cost:
        window = max(1, first.step or 1) if first.dialect.startswith(("MindOCR", "MindSpore")) else 1
        result.compile = max(0.0, (first.batch_cost - result.batch_cost) * window)
        return
    if sum(r.kind == "epoch" for run in runs for r in run) == 1:
        result.reasons["compile"] = "there is only one epoch to compare: train a second one"
    else:
        result.reasons["compile"] = "the log does not show the start of a run"


def _start(log: Log, runs: list[list[Record]], result: Analysis) -> None:
    """Seconds between the milestones before the first record."""
    first = next((r for run in runs for r in run if r.time is not None), None)
    if (
        first is None
        or first.time is None
        or not (first in result.warm_up or (first.kind == "epoch" and first.epoch == 1))
    ):
        return
    marks = [(0.0, "start")]
    names = {"dataset": "data set", "checkpoint": "model and checkpoint", "start": "set-up"}
    for event in log.events:
        if (
            event.kind in names
            and event.time is not None
            and event.line < first.line
            and event.time >= marks[-1][0]
        ):
            marks.append((event.time, names[event.kind]))
    result.startup = first.time
    phases: dict[str, float] = {}
    for (begin, _), (end, name) in zip(marks, marks[1:]):
        if end > begin:
            phases[f"until {name}"] = phases.get(f"until {name}", 0.0) + end - begin
    rest = first.time - marks[-1][0]
    if first.kind == "step" and first.batch_cost and first.step and first.dialect == "MindOCR":
        inside = min(first.batch_cost * first.step, rest)
        phases["before the first step (import, data, graph)"] = rest - inside
        phases[f"the first {first.step} steps"] = inside
    elif first.epoch_time:
        phases["before the first epoch"] = max(rest - first.epoch_time, 0.0)
        phases["the first epoch"] = min(first.epoch_time, rest)
    else:
        phases["until the first line"] = rest
    result.phases = [(name, value) for name, value in phases.items() if value >= 0.5]


def _measured(log: Log, result: Analysis) -> None:
    """What `detperf train` measured takes the place of what was made out from the lines."""
    if log.summary is None:
        return
    start_up = log.summary.start_up
    if "compile" in start_up:
        result.compile = start_up["compile"]
        result.reasons.pop("compile", None)
    if result.reader_share is None and log.summary.data_wait_share is not None:
        result.reader_share = log.summary.data_wait_share
        result.reasons.pop("reader_share", None)
    if start_up:
        result.phases = [(name, value) for name, value in start_up.items() if value >= 0.5]


def _curves(runs: list[list[Record]], result: Analysis) -> None:
    """Loss and learning rate against position; epoch lines are used where there are no step lines."""
    records = [r for run in runs for r in run if r.kind == "step"] or [r for run in runs for r in run]
    for record in records:
        if record.loss is not None:
            position = _position(record)
            result.losses.append((position, record.loss))
            if not math.isfinite(record.loss) and result.first_nan is None:
                result.first_nan = record
        if record.lr is not None:
            result.learning_rates.append((_position(record), record.lr))


def _position(record: Record) -> float:
    if record.kind == "epoch" or record.step is None:
        return float(record.epoch or 0)
    if record.steps and record.epoch is not None:
        offset = 0 if record.dialect.startswith(("PaddleDetection", "MMDetection")) else 1
        return record.epoch - offset + record.step / record.steps
    return float(record.step)
