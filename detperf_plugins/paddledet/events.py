"""What Paddle's profiler recorded: the operator table, device times of our ranges, operators that wait."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

__all__ = ["WAITING", "read_events"]

# Operators whose result has a size that only the device knows: on a GPU the host waits for it.
WAITING = ("nonzero", "masked_select", "nms", "unique", "generate_proposals")


def read_events(
    roots: Sequence[Any], steps: int
) -> tuple[list[dict[str, Any]], dict[str, list[float]], dict[str, float]]:
    """Read the event trees of a `paddle.profiler.Profiler`, one a thread.

    Args:
        roots: values of `profiler_result.get_data()`.
        steps: how many steps they hold.

    Returns:
        Operator rows, slowest first: op, calls, calls_per_step, and for cpu and gpu total, avg, max, min (ms)
        and ratio (% of all operators on the CPU, of all kernels on the device; None without a device).
        Device times in ms of each call of our ranges; empty without a device.
        Operators of `WAITING` a step, by the innermost range around them.
    """
    cpu: dict[str, list[float]] = {}
    device: dict[str, list[float]] = {}
    ranges: dict[str, list[float]] = {}
    waits: dict[str, float] = {}

    def visit(node: Any, inside: str) -> float:
        """Device time below a node, ms."""
        kind = str(node.type).rsplit(".", 1)[-1]
        if kind == "PythonUserDefined":
            inside = node.name
        total = sum(visit(child, inside) for child in node.children_node)
        for call in node.runtime_node:
            total += sum((kernel.end_ns - kernel.start_ns) / 1e6 for kernel in call.device_node)
        if kind == "Operator":
            # Paddle 3 calls them Global_ExpGradNode, 2.6 ExpGradNode.
            name = node.name.replace("Global_", "")
            cpu.setdefault(name, []).append((node.end_ns - node.start_ns) / 1e6)
            device.setdefault(name, []).append(total)
            if name.split(" ")[0] in WAITING:
                waits[inside] = waits.get(inside, 0) + 1 / steps
        elif kind == "PythonUserDefined":
            ranges.setdefault(node.name, []).append(total)
        return total

    on_device = sum(visit(root, "") for root in roots)
    whole = sum(sum(times) for times in cpu.values())
    rows = []
    for name, times in sorted(cpu.items(), key=lambda item: -sum(item[1])):
        row: dict[str, Any] = {"op": name, "calls": len(times), "calls_per_step": len(times) / steps}
        for key, values, total in (("cpu", times, whole), ("gpu", device[name], on_device)):
            known = bool(total)
            row[f"{key}_total_ms"] = sum(values) if known else None
            row[f"{key}_avg_ms"] = statistics.fmean(values) if known else None
            row[f"{key}_max_ms"] = max(values) if known else None
            row[f"{key}_min_ms"] = min(values) if known else None
            row[f"{key}_ratio"] = 100 * sum(values) / total if known else None
        rows.append(row)
    return rows, ranges if on_device else {}, waits
