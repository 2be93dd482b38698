"""The timer table: reader cost, batch cost and images a second, each as average, max, min and median."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

__all__ = ["timer_rows"]


def timer_rows(reader_s: Sequence[float], batch_s: Sequence[float], batch_size: int) -> list[dict[str, Any]]:
    """Three rows: `reader_cost` and `batch_cost` in seconds, `ips` in images a second.

    Args:
        reader_s, batch_s: of each step, seconds; a step's batch cost includes its reader cost.
        batch_size: images a step.

    Returns:
        timer, avg, max, min, median. The average of ips is images over seconds of the whole run.
    """
    rows: list[dict[str, Any]] = []
    for name, times in (("reader_cost", reader_s), ("batch_cost", batch_s)):
        rows.append(
            {
                "timer": name, "avg": statistics.fmean(times), "max": max(times), "min": min(times),
                "median": statistics.median(times),
            }
        )  # fmt: skip
    batch = rows[1]
    rows.append(
        {
            "timer": "ips", "avg": batch_size / batch["avg"], "max": batch_size / batch["min"],
            "min": batch_size / batch["max"], "median": batch_size / batch["median"],
        }
    )  # fmt: skip
    return rows
