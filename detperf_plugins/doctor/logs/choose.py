"""Which records of a log count: runs and ranks told apart, warm-up and impossible speeds left out."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from detperf_plugins.doctor.logs.records import Record

if TYPE_CHECKING:
    from detperf_plugins.doctor.logs.analyse import Analysis

__all__ = ["split_runs", "usable_steps"]

_LEAST_COST = 1e-3  # seconds: no training step of these models is faster


def split_runs(records: list[Record], result: Analysis) -> list[list[Record]]:
    """Records of the first rank, split where training starts anew.

    A record of the same epoch and step as the one before is another rank's line of the same step. A step back
    in the same file is a restart.
    """
    ranks = {r.rank for r in records if r.rank is not None}
    result.ranks = max(len(ranks), 1)
    if ranks:
        records = [r for r in records if r.rank in (None, min(ranks))]
    runs: list[list[Record]] = [[]]
    last: tuple[int, int] | None = None
    seen_at: dict[tuple[int, int], int] = {}
    lines: Counter[tuple[int, int]] = Counter()
    for record in records:
        if record.kind == "epoch" or record.step is None:
            runs[-1].append(record)
            continue
        own = (record.epoch if record.epoch is not None else -1, record.step)
        near = seen_at.get(own)
        if near is not None and len(runs[-1]) - near <= 8 and (last is None or own >= _slack(last)):
            lines[own] += 1
            continue
        if last is not None and own < last:
            runs.append([])
            seen_at.clear()
            lines.clear()
        seen_at[own] = len(runs[-1])
        runs[-1].append(record)
        last = own
    if lines and not ranks:
        result.ranks = 1 + max(lines.values())
    result.runs = len(runs)
    return runs


def _slack(last: tuple[int, int]) -> tuple[int, int]:
    return last[0], last[1] - 1


def usable_steps(runs: list[list[Record]], result: Analysis) -> list[Record]:
    """Step records without artefacts, partial windows and warm-up."""
    every = [r for run in runs for r in run if r.kind == "step"]
    fullest = max((r.samples for r in every if r.samples), default=0.0)
    usable = []
    for run in runs:
        steps = []
        for record in run:
            if record.kind != "step":
                continue
            if record.batch_cost is not None and record.batch_cost < _LEAST_COST:
                result.artefacts.append(record)
            elif record.samples is not None and record.samples < 0.5 * fullest:
                result.partial.append(record)
            else:
                steps.append(record)
        if steps and _is_start(steps[0], steps[1:]):
            result.warm_up.append(steps.pop(0))
        usable += [r for r in steps if r.ips or r.batch_cost]
    return usable


def _is_start(record: Record, later: list[Record]) -> bool:
    """Whether a run's first record holds start-up: it begins epoch one, or is far slower than the rest."""
    if record.dialect == "PaddleDetection" and record.epoch == 0 and record.step == 0:
        return True
    if record.dialect in ("MindOCR", "MindSpore") and record.epoch == 1 and record.step is not None:
        return record.steps is None or record.step <= max(0.3 * record.steps, 1)
    if record.dialect.endswith("(static graph)") and record.step is not None and record.step <= 20:
        return True
    costs = [r.batch_cost for r in later if r.batch_cost]
    return bool(costs and record.batch_cost and record.batch_cost > 3 * statistics.median(costs))
