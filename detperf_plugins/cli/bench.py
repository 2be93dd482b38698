"""`detperf bench`: what the parts gain, measured against stock on this machine."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli import app
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.compare import LEAST_PAIRS, compare
from detperf_plugins.measure.counters import count
from detperf_plugins.measure.memory import peak_mb

__all__ = ["bench", "regressions", "target_rows"]

bench = typer.Typer(name="bench", help="Measure the parts against stock.", no_args_is_help=True)
app.add_typer(bench)

PARTS = ("mask", "rpn", "bbox", "proposals")
# Measured when asked for: its results are not stock's, and `all` leaves it out.
BITMAP = "bitmap"
MODELS = ("c4", "fpn")


def target_rows(
    parts: Iterable[str],
    models: Iterable[str],
    batch_sizes: Iterable[int],
    boxes: int = 20,
    vertices: int = 40,
    pairs: int = LEAST_PAIRS,
    height: int = 800,
    width: int = 1333,
    crop_sizes: Iterable[int] = (224,),
    scene_images: int = 50,
) -> Iterable[dict[str, Any]]:
    """One row a part, model and batch size, and `all` for the exact parts one after the other.

    Fields: part, model, batch_size, boxes, vertices, pairs, stock_ms, plugin_ms, ratio, ratio_low,
    ratio_high, stock_ops, plugin_ops, stock_host_reads, plugin_host_reads, stock_peak_mb, plugin_peak_mb
    (resident memory above the start, MiB; None where the system cannot tell), mismatches. The part `bitmap`
    has a row for each crop size, no mismatches, and the fields of `bitmap_bench.difference`.
    """
    from detperf_plugins.paddledet import activate

    activate()
    from detperf_plugins.paddledet.bitmap_bench import bitmap_case, difference
    from detperf_plugins.paddledet.target_bench import CASES, MODELS, make_batch, together

    exact = [part for part in parts if part != BITMAP]
    differences = {
        (model, crop_size): difference(MODELS[model].mask, crop_size, scene_images)
        for model in models
        for crop_size in crop_sizes
        if BITMAP in parts
    }
    for model in models:
        for batch_size in batch_sizes:
            batch = make_batch(model, batch_size, boxes, vertices, height, width)
            shown = {"model": model, "batch_size": batch_size, "boxes": boxes, "vertices": vertices}
            cases = {part: CASES[part](batch) for part in exact}
            if len(cases) > 1:
                cases["all"] = together(list(cases.values()))
            for part, case in cases.items():
                yield {"part": part, **shown, **_measured(case, pairs)}
            for (of, crop_size), found in differences.items():
                if of == model:
                    case = bitmap_case(batch, crop_size)
                    yield {"part": BITMAP, **shown, **_measured(case, pairs), **found}


def _measured(case: Any, pairs: int) -> dict[str, Any]:
    """Times, counts, memory and mismatches of one case."""
    timed = compare(case.stock, case.plugin, pairs)
    stock, plugin = count(case.stock), count(case.plugin)
    peaks = {name: peak_mb(run) for name, run in (("stock", case.stock), ("plugin", case.plugin))}
    return {
        "pairs": timed.pairs,
        "stock_ms": round(timed.base_ms, 3),
        "plugin_ms": round(timed.other_ms, 3),
        "ratio": round(timed.ratio, 3),
        "ratio_low": round(timed.ratio_low, 3),
        "ratio_high": round(timed.ratio_high, 3),
        "stock_ops": stock.ops,
        "plugin_ops": plugin.ops,
        "stock_host_reads": stock.host_reads,
        "plugin_host_reads": plugin.host_reads,
        **{f"{name}_peak_mb": None if peak is None else round(peak, 2) for name, peak in peaks.items()},
        "mismatches": case.mismatches(),
    }


def _setting(row: dict[str, Any]) -> tuple:
    return row["part"], row["model"], row["batch_size"], row.get("crop_size")


def _named(row: dict[str, Any]) -> str:
    crop = f" crop {row['crop_size']}" if row.get("crop_size") else ""
    return f"{row['part']} {row['model']}{crop} at batch size {row['batch_size']}"


def regressions(
    rows: Iterable[dict[str, Any]], old_rows: Iterable[dict[str, Any]], tolerance: float
) -> list[str]:
    """What got worse than in `old_rows`, as sentences: a ratio, operators, host reads or mismatches.

    A ratio may fall by `tolerance` of itself, since clocks are noisy; counts may not rise at all.
    """
    known = {_setting(row): row for row in old_rows}
    worse = []
    for row in rows:
        old = known.get(_setting(row))
        if old is None:
            continue
        name = _named(row)
        if row["ratio"] < old["ratio"] * (1 - tolerance):
            worse.append(f"{name}: ratio {row['ratio']} was {old['ratio']}")
        for field in ("plugin_ops", "plugin_host_reads", "mismatches"):
            if (row[field] or 0) > (old[field] or 0):
                worse.append(f"{name}: {field} {row[field]} was {old[field]}")
    return worse


@bench.command()
def targets(
    part: list[str] = typer.Option(
        list(PARTS), help="Part to measure, or bitmap for BitmapMaskAssigner; may be given more than once."
    ),
    model: list[str] = typer.Option(list(MODELS), help="c4 (63,000 anchors, M 14) or fpn (267,069, M 28)."),
    batch_size: list[int] = typer.Option([2, 4, 8], help="Images a batch; may be given more than once."),
    boxes: int = typer.Option(20, min=1, help="Objects an image."),
    vertices: int = typer.Option(40, min=3, help="Corners of each object's outline."),
    crop_size: list[int] = typer.Option(
        [224], help="PolyToBitmap's, for bitmap; may be given more than once."
    ),
    pairs: int = typer.Option(LEAST_PAIRS, min=LEAST_PAIRS, help="Interleaved pairs."),
    fail_below: Optional[float] = typer.Option(None, help="Fail where a part's ratio is below this."),
    compare_with: Optional[Path] = typer.Option(
        None, "--compare", metavar="OLD.json", help="Fail on a regression."
    ),
    tolerance: float = typer.Option(0.25, help="How much of its ratio a part may lose under --compare."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Each target-making part of Mask R-CNN against stock PaddleDetection, on a synthetic batch."""
    for name, given, known in (("part", part, (*PARTS, BITMAP)), ("model", model, MODELS)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise UnreadableInput(f"--{name} {unknown[0]} is unknown; there are: {', '.join(known)}")
    old_rows = _read_rows(compare_with) if compare_with else []
    for size in crop_size:
        if size != 0 and not 8 <= size <= 4096:
            raise UnreadableInput(f"--crop-size {size} is outside 8 to 4096 (0: whole images)")
    rows = []
    with console.status("measuring") as status:
        for row in target_rows(part, model, batch_size, boxes, vertices, pairs, crop_sizes=crop_size):
            rows.append(row)
            status.update(f"measured {_named(row)}")
    _show(rows)
    conditions = {"boxes": boxes, "vertices": vertices, "pairs": pairs, "image": "800 x 1333"}
    write_json(json_path, rows, {**conditions, "date": datetime.date.today().isoformat()})
    faults = regressions(rows, old_rows, tolerance)
    for row in rows:
        name = _named(row)
        if fail_below is not None and row["ratio"] < fail_below:
            faults.append(f"{name}: ratio {row['ratio']} is below {fail_below}")
        if row["mismatches"]:
            faults.append(f"{name}: {row['mismatches']} values differ from stock's")
    if faults:
        raise DetperfError("; ".join(faults))


def _show(rows: list[dict[str, Any]]) -> None:
    columns = (
        "part", "model", "batch", "stock ms", "plugin ms", "ratio", "spread", "ops", "host reads", "peak MiB",
        "mismatches",
    )  # fmt: skip
    table = [
        (
            row["part"],
            row["model"],
            row["batch_size"],
            f"{row['stock_ms']:.1f}",
            f"{row['plugin_ms']:.1f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
            f"{row['stock_ops']} to {row['plugin_ops']}",
            f"{row['stock_host_reads']} to {row['plugin_host_reads']}",
            f"{_one_digit(row.get('stock_peak_mb'))} to {_one_digit(row.get('plugin_peak_mb'))}",
            "-" if row["mismatches"] is None else row["mismatches"],
        )
        for row in rows
    ]
    print_table("Targets and proposals against stock", columns, table)
    shown = ("mask_size", "crop_size", "rois", "differing_percent", "mean_iou", "bitmap_kb")
    bitmap = {tuple(row[key] for key in shown) for row in rows if row["part"] == BITMAP}
    if bitmap:
        header = ("M", "crop size", "RoIs", "differing cells, %", "mean IoU", "KiB an instance")
        print_table("Bitmap targets against exact ones", header, sorted(bitmap))


def _one_digit(value: Optional[float]) -> str:
    return "?" if value is None else f"{value:.1f}"


def _read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        needed = {"part", "model", "batch_size", "ratio", "plugin_ops", "plugin_host_reads", "mismatches"}
        if not all(needed <= set(row) for row in rows):
            raise KeyError("rows")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableInput(f"{path} is not a result of `detperf bench targets --json`: {error}") from error
    return rows
