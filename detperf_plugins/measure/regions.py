"""Which tables README and docs have: the figures behind each, and its columns (see `tables`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

__all__ = ["REGIONS", "Region", "Row"]

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]


@dataclass(frozen=True)
class Region:
    """What stands in one marked region.

    Attributes:
        file: below docs/benchmarks; written by a verb's `--json`.
        columns: header and text of each column; empty for the gain table of `bench train`.
        where: fields that a row must have for it to be shown.
        rows: the top-level field that holds the rows; empty for the top level itself as the only row.
        least: rows are left out whose `least_of` is nearer to 0.
        least_of: by default the % of a step.
        conditions: whether a line below says where, when and by which command it was measured.
        more: further files whose rows follow; the table is left empty until all are there.
    """

    file: str
    columns: tuple[Column, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    rows: str = "rows"
    least: float = 0.0
    least_of: str = "cpu_ratio"
    conditions: bool = True
    more: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All its files."""
        return (self.file, *self.more)


def _number(key: str, digits: int, per: str = "") -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value = row[key]
        return "-" if value is None else f"{value / (row[per] if per else 1):.{digits}f}"

    return text


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: str(row[key])


def _peak(row: Row) -> str:
    """Stock's and the plugin's; nothing where the machine could not tell."""
    stock, plugin = row.get("stock_peak_mb"), row.get("plugin_peak_mb")
    return "" if stock is None or plugin is None else f"{stock:.1f} to {plugin:.1f}"


def _pair(one: str, other: str) -> Callable[[Row], str]:
    return lambda row: f"{row[one]} to {row[other]}"


_TARGETS: tuple[Column, ...] = (
    ("model", _text("model")),
    ("batch size", _text("batch_size")),
    ("stock, ms", _number("stock_ms", 1)),
    ("plugin, ms", _number("plugin_ms", 1)),
    (
        "times faster (quartiles)",
        lambda row: f"{row['ratio']:.1f} ({row['ratio_low']:.1f} to {row['ratio_high']:.1f})",
    ),
    ("operators", _pair("stock_ops", "plugin_ops")),
    ("host reads", _pair("stock_host_reads", "plugin_host_reads")),
    ("peak memory, MiB", _peak),
    ("values that differ", _text("mismatches")),
)
_BITMAP: tuple[Column, ...] = (
    ("M", _text("mask_size")),
    ("`crop_size`", _text("crop_size")),
    ("cells that differ, %", _number("differing_percent", 2)),
    ("mean IoU with stock's mask", _number("mean_iou", 3)),
    ("KiB an instance", _text("bitmap_kb")),
    ("stock, ms", _number("stock_ms", 1)),
    ("plugin, ms", _number("plugin_ms", 1)),
    ("operators", _pair("stock_ops", "plugin_ops")),
    ("host reads", _pair("stock_host_reads", "plugin_host_reads")),
)
_MODULES: tuple[Column, ...] = (
    ("part", lambda row: "&nbsp;&nbsp;" * row["depth"] + row["name"]),
    ("calls", _text("calls")),
    ("CPU total, ms", _number("cpu_total_ms", 1)),
    ("avg", _number("cpu_avg_ms", 2)),
    ("max", _number("cpu_max_ms", 2)),
    ("min", _number("cpu_min_ms", 2)),
    ("ratio, %", _number("cpu_ratio", 2)),
)
_OPS: tuple[Column, ...] = (("operator", _text("op")), *_MODULES[1:])
_TIMERS: tuple[Column, ...] = (
    ("", _text("timer")), *((key, _number(key, 5)) for key in ("avg", "max", "min", "median"))
)  # fmt: skip
_TRUST: tuple[Column, ...] = (
    ("steps", _text("steps")),
    ("median step, ms", _number("step_ms", 1)),
    ("in named ranges, %", lambda row: f"{100 * row['coverage']:.2f}"),
    ("against an outside clock, %", lambda row: f"{row['outside_percent']:+.2f}"),
    ("ranges a step", lambda row: f"{row['overhead']['calls_per_step']:.0f}"),
    ("cost of a range, microseconds", lambda row: f"{row['overhead']['call_us']:.2f}"),
    ("cost of the ranges, %", lambda row: f"{row['overhead']['percent']:.4f}"),
)
_ADVICE: tuple[Column, ...] = (
    ("part", _text("part")),
    ("ms a step", _number("cpu_ms", 2)),
    ("host reads", _number("host_reads", 0)),
    ("waiting operators", _number("waiting_ops", 0)),
    ("advice", _text("advice")),
)

_GROWTH: tuple[Column, ...] = (
    ("texts", _text("polygons")),
    ("corners of each", _text("vertices")),
    ("stock, ms", _number("stock_ms", 0)),
    ("ours, ms", _number("plugin_ms", 1)),
    ("times faster", _number("ratio", 1)),
    ("values that differ", _text("mismatches")),
)
_CASE: Column = (
    "case",
    lambda row: (
        f"{row['polygons']} texts of {row['vertices']} corners, {row['level']}"
        + ("" if row["cache"] == "none" else f", cache in {row['cache']}")
    ),
)
_SAMPLE: tuple[Column, ...] = (
    _CASE,
    ("stock, ms", _number("stock_ms", 1)),
    ("ours, ms", _number("plugin_ms", 1)),
    (
        "times faster (quartiles)",
        lambda row: f"{row['ratio']:.1f} ({row['ratio_low']:.1f} to {row['ratio_high']:.1f})",
    ),
    ("peak memory of a worker, MiB", lambda row: _peak(row)),
)
_TRANSFORMS: tuple[Column, ...] = (
    ("ours", _text("part")),
    ("stands for", _text("stands_for")),
    *_SAMPLE[1:4],
)
_LOADER: tuple[Column, ...] = (
    _CASE,
    ("loader", lambda row: "stock, processes" if row["part"] == "stock" else f"ours, {row['part']}"),
    ("workers", _text("workers")),
    ("samples a second", _number("samples_per_s", 1)),
    ("times faster", _number("ratio", 1)),
)
_DBNET: tuple[Column, ...] = (
    ("model", _text("model")),
    ("overlay", _text("overlay")),
    ("losses of the first 5 steps differ by at most, %", _number("first_loss_difference_percent", 2)),
    ("of all steps, %", _number("loss_difference_percent", 2)),
    ("mean loss differs by, %", _number("mean_loss_difference_percent", 2)),
    ("first step, s", _number("first_step_s", 1)),
    ("step, ms", _number("step_ms", 0)),
)
_STARTS: tuple[Column, ...] = (
    ("overlay", _text("overlay")),
    ("run", _text("run")),
    ("cache", lambda row: row["cache"] or "-"),
    *(
        (name.replace("_", " "), _number(f"{name}_s", 2))
        for name in ("import_mindspore", "import_mindocr", "data_set", "model", "optimizer", "other",
                     "first_batch", "compile")
    ),
    ("first step, s", _number("first_step_s", 2)),
)  # fmt: skip
_LAYOUTS: tuple[Column, ...] = (
    ("model", _text("model")),
    ("layout", _text("layout")),
    ("transposes", _text("transposes")),
    ("backward", _text("transpose_gradients")),
    ("operators", _text("operators")),
    ("backward", _text("gradients")),
)
_FOLD: tuple[Column, ...] = (
    ("norms", _text("norms")),
    ("image, pixels", _text("size")),
    ("RoIs", _text("rois")),
    ("operators", _text("operators")),
    ("backward", _text("gradients")),
    ("kept for the backward pass, MiB", _number("kept_mb", 1)),
    ("peak, MiB", _number("peak_mb", 1)),
)
_MOVED: tuple[Column, ...] = (
    ("part", lambda row: "&nbsp;&nbsp;" * row["depth"] + row["part"]),
    ("ms a step", _number("this_ms", 2)),
    ("with the other config", _number("other_ms", 2)),
    ("difference", _number("difference_ms", 2)),
)

_ALL_TARGETS = (("part", _text("part")), *_TARGETS)

REGIONS: dict[str, Region] = {
    "targets": Region("targets.json", _ALL_TARGETS),
    "targets-paddle-3.3": Region("targets-paddle-3.3.json", _ALL_TARGETS),
    **{
        part: Region("targets.json", _TARGETS, {"part": part})
        for part in ("mask", "rpn", "bbox", "proposals", "all")
    },
    "transforms": Region(
        "transforms.json",
        _SAMPLE,
        {"part": "sample"},
        more=("transforms-cached.json", "transforms-dense.json"),
    ),
    "transforms-parts": Region("transforms.json", _TRANSFORMS, {"level": "exact"}, conditions=False),
    "transforms-loader": Region("transforms-loader.json", _LOADER, more=("transforms-loader-cached.json",)),
    "transforms-growth": Region("transforms-growth.json", _GROWTH),
    "dbnet-amp": Region("dbnet-amp.json", _DBNET),
    "dbnet-starts": Region("dbnet-cache.json", _STARTS),
    "layouts": Region("layouts.json", _LAYOUTS, {"table": "layouts"}),
    "folded-norms": Region("layouts.json", _FOLD, {"table": "fold"}, conditions=False),
    "bitmap": Region("bitmap.json", _BITMAP, {"part": "bitmap"}),
    "train": Region("bench_train.json"),
    "profile-parts": Region("profile.json", _MODULES, least=0.1, conditions=False),
    "profile-ops": Region("profile.json", _OPS, rows="ops", least=1.0, conditions=False),
    "profile-timers": Region("profile.json", _TIMERS, rows="timers", conditions=False),
    "profile-trust": Region("profile.json", _TRUST, rows=""),
    "profile-moved": Region(
        "profile-against.json", _MOVED, rows="compared", least=0.1, least_of="difference_ms"
    ),
    "profile-advice": Region("profile.json", _ADVICE, rows="advice", conditions=False),
}
