"""Which parts of a profiled step wait on the host, and which shipped overlay takes the waiting away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from detperf_plugins import configs_dir

__all__ = ["advise"]

OVERLAYS = "paddledet/mask_rcnn"
# The smallest overlay that replaces the part, by range.
REMEDIES = {
    "MaskHead::assign_mask": "exact_targets",
    "MaskHead::loss": "exact_parts",
    "RPNHead::anchor_generator": "exact_parts",
    "RPNHead::rpn_target_assign": "exact_parts",
    "RPNHead::gen_proposal": "exact_parts",
    "RPNHead::loss": "exact_parts",
    "BBoxHead::bbox_assigner": "exact_parts",
    "BBoxHead::loss": "exact_parts",
}
# What a two-stage detector gains most from on a GPU with tensor cores.
RECOMMENDED = "mask_rcnn_r50_nhwc_amp"
# From this share of a step on, percent, waiting for the reader is worth a word.
SLOW_READER = 5.0


def advise(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a part that waits, most host time first.

    Args:
        result: of a profiled run: modules, host_reads, waiting_ops, sources, steps; perhaps float32_on_gpu.

    Returns:
        part, cpu_ms (a step), cpu_ratio (% of the step), host_reads and waiting_ops (a step, without those
        of parts inside it; None where not recorded), overlay (None where none helps) and advice.
    """
    rows = []
    two_stage = any(module["name"] == "RPNHead" for module in result["modules"])
    for module in result["modules"]:
        name = module["name"]
        reads, waits = (
            None if result[key] is None else result[key].get(name, 0) for key in ("host_reads", "waiting_ops")
        )
        advice: Optional[str]
        if name == "reader":
            slow = module["cpu_ratio"] >= SLOW_READER
            advice = "the step waits for data: raise worker_num" if slow else None
            overlay = None
        elif name == "backbone" and two_stage and result.get("float32_on_gpu"):
            overlay, advice = RECOMMENDED, f"float32 on a GPU: add the overlay {RECOMMENDED}"
        else:
            overlay, advice = _remedy(name, (reads or 0) + (waits or 0), result["sources"].get(name, ""))
        if advice:
            rows.append(
                {
                    "part": name,
                    "cpu_ms": module["cpu_total_ms"] / result["steps"],
                    "cpu_ratio": module["cpu_ratio"],
                    "host_reads": reads,
                    "waiting_ops": waits,
                    "overlay": overlay,
                    "advice": advice,
                }
            )
    return sorted(rows, key=lambda row: -row["cpu_ms"])


def _remedy(name: str, waits: float, source: str) -> tuple[Optional[str], Optional[str]]:
    if not waits:
        return None, None
    if source.startswith("detperf_plugins"):
        return None, "is the plugin's part already; this is what it needs"
    overlay = REMEDIES.get(name)
    if overlay and (configs_dir() / OVERLAYS / f"{overlay}.yml").is_file():
        return overlay, f"waits on the host: add the overlay {overlay}"
    if name == "statistics":
        return None, "the trainer reads every loss for its log: no overlay changes that"
    return None, "waits on the host: no overlay changes that"
