"""Two training runs compared: every loss of every step, AP, and times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

__all__ = ["as_table", "compare", "largest_difference"]

# Steps at the start of a run that are left out of times: first-use work is not the steady state.
WARM_UP = 3


def largest_difference(results: Mapping[str, Mapping[str, Any]]) -> float:
    """Largest |a - b| over all losses of all steps of two runs; infinity where one is missing or NaN.

    Args:
        results: two runs by name, each with `losses`: one {loss name: value} a step.
    """
    first, second = (result["losses"] for result in results.values())
    if len(first) != len(second) or not first:
        return math.inf
    worst = 0.0
    for one, other in zip(first, second):
        if one.keys() != other.keys():
            return math.inf
        for name, value in one.items():
            difference = abs(value - other[name])
            worst = max(worst, difference if math.isfinite(difference) else math.inf)
    return worst


def compare(results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per run.

    Returns:
        run, steps, first_loss and last_loss (mean total loss over the first and last eighth of the run),
        one last_<loss> each, bbox_ap, mask_ap, mask_ap50 (None without evaluation), step_ms, reader_ms and
        mask_targets_ms (medians without the first steps).
    """
    return [{"run": name, **_summary(result)} for name, result in results.items()]


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    losses: Sequence[Mapping[str, float]] = result["losses"]
    window = max(1, len(losses) // 8)
    times = result["times"][WARM_UP:] or result["times"]
    bbox, mask = result["ap"].get("bbox"), result["ap"].get("mask")
    row: dict[str, Any] = {
        "steps": len(losses),
        "first_loss": sum(step["loss"] for step in losses[:window]) / window,
        "last_loss": sum(step["loss"] for step in losses[-window:]) / window,
    }
    for name in losses[0]:
        if name != "loss":
            row[f"last_{name}"] = sum(step[name] for step in losses[-window:]) / window
    row["bbox_ap"] = bbox[0] if bbox else None
    row["mask_ap"] = mask[0] if mask else None
    row["mask_ap50"] = mask[1] if mask else None
    row["step_ms"] = 1000 * median(step["step"] for step in times)
    row["reader_ms"] = 1000 * median(step["reader"] for step in times)
    row["mask_targets_ms"] = 1000 * median(step["mask_targets"] for step in times)
    return row


# Ends of the names of times and rates: these are compared as a ratio, and shown with two decimals.
TIMES = ("_ms", "_s")

LABELS = {
    "steps": "steps",
    "first_loss": "loss, first eighth",
    "last_loss": "loss, last eighth",
    "bbox_ap": "bbox AP",
    "mask_ap": "mask AP",
    "mask_ap50": "mask AP50",
    "step_ms": "step, median ms",
    "reader_ms": "of that reader, ms",
    "mask_targets_ms": "of that mask targets, ms",
    "hmean": "h-mean",
    "data_wait_ms": "waiting for data, ms a step",
    "images_per_s": "img/s after the first epoch",
    "import_s": "imports, s",
    "data_set_s": "data set, s",
    "model_s": "model and optimizer, s",
    "start_s": "before the first step, s",
    "compile_s": "compile, in the first step, s",
}


def as_table(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """The two rows of `compare` turned on their side: label, stock, plugin, ratio."""
    stock, plugin = rows
    table = []
    for key in stock:
        if key == "run":
            continue
        label = LABELS.get(key, f"{key.replace('last_', '')}, last eighth")
        values = [row[key] for row in (stock, plugin)]
        ratio = f"{values[1] / values[0]:.3f}" if key.endswith(TIMES) and all(values) else ""
        table.append((label, *(_format(key, value) for value in values), ratio))
    return table  # type: ignore[return-value]


def _format(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if key == "steps":
        return str(value)
    return f"{value:.2f}" if key.endswith(TIMES) else f"{value:.4f}"
