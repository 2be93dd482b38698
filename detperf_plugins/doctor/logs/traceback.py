"""The Python traceback that a log ends in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from detperf_plugins.doctor.logs.clean import Line

__all__ = ["Ending", "ending"]

_HEADER = re.compile(r"^\W*Traceback \(most recent call last\)")
_FRAME = re.compile(r"^\s*File \"(.+)\", line (\d+)")
_EXCEPTION = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::\s*(.*))?$")
_SUMMARY = re.compile(r"^\w+Error: .")


@dataclass(frozen=True)
class Ending:
    """The exception that ended a run: its name and words, its line in the log, and where it was raised."""

    text: str
    line: int
    raised: str = ""


def ending(lines: Sequence[Line]) -> Ending | None:
    """The exception of the last traceback among the lines of a log, or None."""
    starts = [index for index, line in enumerate(lines) if _HEADER.match(line.text)]
    if not starts:
        return None
    raised = ""
    for index in range(starts[-1] + 1, len(lines)):
        line = lines[index]
        frame = _FRAME.match(line.text)
        if frame:
            raised = f"{frame[1]}, line {frame[2]}"
        elif not line.text[:1].isspace():
            match = _EXCEPTION.match(line.text.rstrip())
            if match is None:
                continue
            words = match[2] or _summary(lines[index + 1 : index + 200])
            text = f"{match[1]}: {words}" if words else match[1]
            return Ending(text[:300], line.number, raised)
    return None


def _summary(lines: Sequence[Line]) -> str:
    """What Paddle prints below an exception without words: the line under `Error Message Summary`."""
    return next((line.text.strip() for line in lines if _SUMMARY.match(line.text)), "")
