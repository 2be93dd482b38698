"""Making a profile in a process of its own, reading one back, and saying what moved between two."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import run_child
from detperf_plugins.paddledet.advice import advise

__all__ = ["compare", "make", "moved", "read"]


def make(
    config: Path,
    out: Path,
    *,
    first: int,
    last: int,
    op_steps: int,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
    seed: int | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Profile steps `first` to `last` of training `config`; log and traces are written below `out`.

    Args:
        flags: of `--amp`, `--replace`, `--stock`, `--alternate`.
        on_step: called with steps done and steps in all.

    Returns:
        See `profiling.run`; and `advice`, `outside_ms` (this process's clock over the same steps) and
        `outside_percent` (by how much the sum of the steps differs from it).

    Raises:
        DetperfError: the run ended before step `first` was over; the sentence says why. UnreadableInput where
            that is the config or its data.
    """
    stamps: dict[str, float] = {}
    state: dict[str, Any] = {"steps": 1}

    def on_event(event: dict[str, Any]) -> None:
        if "clock" in event:
            stamps[event["clock"]] = time.monotonic()
        elif "step" in event:
            on_step(event["step"], state["steps"])
        else:
            state.update(event)

    arguments = ["--config", str(config), "--out", str(out), "--first", str(first), "--last", str(last)]
    arguments += ["--op-steps", str(op_steps), "--overrides", json.dumps(list(overrides)), *flags]
    arguments += ["--seed", str(seed)] if seed is not None else []
    log = out / "train.log"
    ended = run_child("detperf_plugins.paddledet.profiling", arguments, log, on_event)
    result = state.get("result")
    if result is None:
        if ended.interrupted:
            raise DetperfError("interrupted before anything was measured")
        what = f"training {config} ended with status {ended.status}: {ended.last_line} (log: {log})"
        raise ended.error or DetperfError(what)
    if not result["modules"]:
        why = result["stopped"] or "the run ended early"
        raise DetperfError(
            f"step {first} of {config} was never over, nothing is measured: {why} (log: {log})"
        )
    result["stopped"] = result["stopped"] or ended.fault
    result["advice"] = advise(result)
    result["outside_ms"] = result["outside_percent"] = None
    if len(stamps) == 2 and "--alternate" not in flags:
        result["outside_ms"] = 1e3 * (stamps["end"] - stamps["begin"])
        result["outside_percent"] = 100 * (result["total_ms"] / result["outside_ms"] - 1)
    return result


def read(path: Path) -> dict[str, Any]:
    """The profile that a folder, or its profile.json, holds: `modules` and `steps` at least.

    Raises:
        UnreadableInput: it holds none.
    """
    file = path / "profile.json" if path.is_dir() else path
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        result = {"modules": content["rows"], "steps": content["steps"], "step_ms": content["step_ms"]}
        for row in result["modules"]:
            _ = row["cpu_self_ms"], row["cpu_total_ms"], row["name"], row["depth"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableInput(f"{file} is no profile written by `detperf profile`: {error}") from error
    return result


def compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Two profiles side by side, one row a range: part, depth, ms a step of both, and their difference.

    Fields: part, depth, this_ms, other_ms (None where a side has no such range), difference_ms (other - this)
    and self_difference_ms, which leaves out ranges inside; those of all rows add up to that of the step.
    """
    rows = []
    others = {row["name"]: row for row in other["modules"]}
    mine = {row["name"]: row for row in one["modules"]}
    for name in [*mine, *(name for name in others if name not in mine)]:
        sides = [(mine.get(name), one["steps"]), (others.get(name), other["steps"])]
        total = [row["cpu_total_ms"] / steps if row else None for row, steps in sides]
        own = [row["cpu_self_ms"] / steps if row else 0.0 for row, steps in sides]
        rows.append(
            {
                "part": name,
                "depth": (sides[0][0] or sides[1][0] or {})["depth"],
                "this_ms": total[0],
                "other_ms": total[1],
                "difference_ms": (total[1] or 0.0) - (total[0] or 0.0),
                "self_difference_ms": own[1] - own[0],
            }
        )
    return rows


def moved(rows: Sequence[Mapping[str, Any]], most: int = 5) -> str:
    """What `compare` found, in a sentence: the step, and the parts whose own time changed most."""
    step = [sum(row[side] or 0.0 for row in rows if row["depth"] == 0) for side in ("this_ms", "other_ms")]
    least = 0.01 * step[0]
    changed = [row for row in rows if abs(row["self_difference_ms"]) >= least]
    changed.sort(key=lambda row: -abs(row["self_difference_ms"]))
    parts = ", ".join(f"{row['part']} {row['self_difference_ms']:+.1f} ms" for row in changed[:most])
    return f"A step took {step[0]:.1f} ms here and {step[1]:.1f} ms there ({step[1] - step[0]:+.1f} ms); " + (
        f"what moved: {parts}." if parts else "no part moved by 1% of a step."
    )
