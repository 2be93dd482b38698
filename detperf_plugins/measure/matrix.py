"""The runs of a benchmark: in which order they go, and how finished ones are kept for the next time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detperf_plugins.measure.child import write_file

__all__ = ["Run", "interleaved", "keep", "kept"]


@dataclass(frozen=True)
class Run:
    """One process: config `name` at one batch size and precision, for the `repeat`-th time (from 0)."""

    name: str
    batch_size: int
    precision: str
    repeat: int

    @property
    def key(self) -> str:
        """A file name of its own."""
        name = re.sub(r"[^\w.+-]+", "_", self.name)
        return f"{name}-bs{self.batch_size}-{self.precision}-{self.repeat + 1}"


def interleaved(
    names: Sequence[str], batch_sizes: Sequence[int], precisions: Sequence[str], repeats: int
) -> list[Run]:
    """Every run, the configs in turns within each setting and in the other order at each repeat, so that a
    machine that grows slower or faster disturbs all alike."""
    return [
        Run(name, batch_size, precision, repeat)
        for repeat in range(repeats)
        for batch_size in batch_sizes
        for precision in precisions
        for name in (names if repeat % 2 == 0 else reversed(names))
    ]


def keep(folder: Path, run: Run, fingerprint: str, result: Mapping[str, Any]) -> None:
    """Write a finished run's result; raises DetperfError where that fails."""
    text = json.dumps({"fingerprint": fingerprint, "result": result}) + "\n"
    write_file(folder / f"{run.key}.json", text)


def kept(folder: Path, run: Run, fingerprint: str) -> dict[str, Any] | None:
    """The result of a run that was kept under the same fingerprint, or None."""
    try:
        content = json.loads((folder / f"{run.key}.json").read_text(encoding="utf-8"))
        return content["result"] if content["fingerprint"] == fingerprint else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
