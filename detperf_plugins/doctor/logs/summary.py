"""The summary that `detperf train` ends a MindOCR training with: measured phases, better than any guess."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Summary", "read_summary"]

_HEAD = "Where the time went"
_PHASE = re.compile(r"^ {4}(\S.*?)\s{2,}(\d+\.\d+) s$")
_STEADY = re.compile(r"^ {2}steady: [\d.]+ ms a step, waiting for data ([\d.]+) %$")


@dataclass
class Summary:
    """Seconds of each phase before and in the first step; the share of a step that waits for data, 0 to 1."""

    start_up: dict[str, float] = field(default_factory=dict)
    data_wait_share: float | None = None


def read_summary(lines: Iterable[str]) -> Summary | None:
    """The last summary in the lines of a log; None where there is none."""
    found: Summary | None = None
    part = ""
    for line in lines:
        if line.strip() == _HEAD:
            found, part = Summary(), "head"
        elif found is not None and part:
            steady, phase = _STEADY.match(line), _PHASE.match(line)
            if steady:
                found.data_wait_share = float(steady[1]) / 100
            elif phase and part == "start-up":
                found.start_up[phase[1]] = float(phase[2])
            elif line.startswith("  before and in the first step"):
                part = "start-up"
            elif line.startswith("  during training"):
                part = "training"
            elif not line.startswith("  "):
                part = ""
    return found
