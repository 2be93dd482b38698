"""Where the time of a training run goes: start-up phase by phase, then steps, waiting and callbacks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from detperf_plugins import hosts, imports
from detperf_plugins.measure.child import write_file

__all__ = ["Phases", "Step"]

# In the order in which a run goes through them; `other` is what is left of the time before the first step.
START_UP = ("import mindspore", "import mindocr", "data set", "model", "checkpoint", "optimizer", "other")
DURING = ("steps", "data wait", "callbacks", "summaries", "checkpoints", "evaluation")


@dataclass
class Step:
    """One call of the training network: `count` optimizer steps (more than one only in sink mode).

    `data` and `compute` are seconds: waiting for the batch, and the network.
    """

    epoch: int
    count: int
    data: float
    compute: float

    @property
    def cycle(self) -> float:
        """Seconds per optimizer step, callbacks at the end of an epoch left out."""
        return (self.data + self.compute) / self.count


@dataclass
class Phases:
    """The clock of one run.

    Attributes:
        seconds: time by phase; a phase inside another counts for itself only.
        steps: every call of the training network.
        losses: one a step (one an epoch in sink mode).
        facts: conditions of the run: batch_size, devices, device, mode, sink, jit_level, amp_level, ...
        notes: sentences about what cannot be seen or has no effect.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    before_first_step: float | None = None
    _open: list[float] = field(default_factory=list)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Count the time of a block for `name`, less that of blocks measured inside it."""
        self._open.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            inner = self._open.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed - inner
            if self._open:
                self._open[-1] += elapsed

    def note(self, sentence: str) -> None:
        """Add a sentence once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def first_step_begins(self, waited: float) -> None:
        """Close the start-up, after `waited` seconds for a batch: what no phase explains is `other`."""
        whole = time.perf_counter() - imports.STARTED
        for name in ("mindspore", "mindocr"):
            self.seconds.setdefault(f"import {name}", imports.seconds.get(name, 0.0))
        known = sum(self.seconds.get(name, 0.0) for name in START_UP if name != "other") + waited
        self.seconds["other"] = max(0.0, whole - known)
        self.before_first_step = whole

    def summary(self) -> dict[str, Any]:
        """Figures of the run, JSON-ready. Seconds, unless a name ends in `_ms`.

        Returns:
            `start_up` by phase with `first batch` and `compile` (first step less the median of the others;
            None with one step), `during` by phase, `first_step`, `step_ms` (median of steps after the first
            epoch, of all but the first step where there is one epoch only), `images_per_s` (epochs after
            the first; None with one epoch), `data_wait_share` (of waiting and computing, without the first
            step), `facts`, `notes`, `losses`.
        """
        later = self.steps[1:]
        typical = median(step.compute for step in later) if later else None
        first = self.steps[0] if self.steps else None
        start_up: dict[str, Any] = {name: self.seconds.get(name, 0.0) for name in START_UP}
        start_up["first batch"] = first.data if first else None
        start_up["compile"] = max(0.0, first.compute - typical) if first and typical is not None else None
        first_epoch = first.epoch if first else 0
        steady = [step for step in later if step.epoch != first_epoch]
        shown = steady or later
        during = {
            "steps": sum(step.compute for step in self.steps),
            "data wait": sum(step.data for step in later),
            **{name: self.seconds.get(name, 0.0) for name in DURING[2:]},
        }
        busy = sum(step.data + step.compute for step in later)
        images = self.facts.get("batch_size", 0) * self.facts.get("devices", 1)
        spent = sum(step.data + step.compute for step in steady)
        return {
            "before_first_step": self.before_first_step,
            "start_up": start_up,
            "first_step": first.compute if first else None,
            "during": during,
            "steps": sum(step.count for step in self.steps),
            "step_ms": 1000 * median(step.cycle for step in shown) if shown else None,
            "images_per_s": images * sum(step.count for step in steady) / spent if spent else None,
            "data_wait_share": sum(step.data for step in later) / busy if busy else None,
            "facts": self.facts,
            "notes": self.notes,
            "losses": self.losses,
        }

    def text(self) -> str:
        """The summary as lines for a log."""
        figures = self.summary()
        start_up = {name: value for name, value in figures["start_up"].items() if value is not None}
        lines = ["Where the time went", "  before and in the first step:"]
        lines += [f"    {name:<18} {value:8.2f} s" for name, value in start_up.items()]
        lines.append("  during training:")
        lines += [f"    {name:<18} {value:8.2f} s" for name, value in figures["during"].items()]
        if figures["step_ms"] is not None:
            share = 100 * (figures["data_wait_share"] or 0.0)
            lines.append(f"  steady: {figures['step_ms']:.1f} ms a step, waiting for data {share:.1f} %")
        if figures["images_per_s"] is not None:
            lines.append(f"  {figures['images_per_s']:.2f} img/s over the epochs after the first")
        elif self.steps:
            lines.append("  img/s: unknown, since the first epoch holds the compiling and there is no other")
        lines += [f"  note: {sentence}" for sentence in self.notes]
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write the summary and the installed versions to `path` as one JSON object.

        Raises:
            DetperfError: the file cannot be written.
        """
        content = {"versions": hosts.versions(), **self.summary()}
        write_file(path, json.dumps(content, indent=2) + "\n")
