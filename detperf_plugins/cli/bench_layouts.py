"""`detperf bench layouts`: transposes and operators of a training step, and what folded norms save."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins import hosts
from detperf_plugins.cli.bench import bench
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure.compare import LEAST_PAIRS

__all__ = ["layouts"]

MODELS = ("c4", "fpn", "cascade")


@bench.command()
def layouts(
    model: list[str] = typer.Option(list(MODELS), help="c4, fpn or cascade; may be repeated."),
    size: int = typer.Option(384, min=64, help="Height and width of the image for folded norms."),
    rois: int = typer.Option(32, min=1, help="RoIs in the box head for folded norms."),
    pairs: int = typer.Option(0, min=0, help="Interleaved pairs to time folded norms by; 0: only count."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Mask R-CNN in NCHW, NHWC and with folded norms: what is dispatched, and memory."""
    unknown = sorted(set(model) - set(MODELS))
    if unknown:
        raise UnreadableInput(f"--model {unknown[0]} is unknown; there are: {', '.join(MODELS)}")
    if 0 < pairs < LEAST_PAIRS:
        raise UnreadableInput(f"--pairs {pairs} is too few; take 0 or at least {LEAST_PAIRS}")
    hosts.require_paddledet()
    from detperf_plugins.paddledet import activate

    activate()
    from detperf_plugins.paddledet.layout_bench import fold_rows, layout_rows

    rows: list[dict[str, Any]] = []
    with console.status("counting") as status:
        for row in layout_rows(model):
            rows.append(row)
            status.update(f"counted {row['model']} in {row['layout']}")
        rows += fold_rows(size, rois, pairs)
    _show(rows)
    conditions = {"size": size, "rois": rois, "pairs": pairs, "date": datetime.date.today().isoformat()}
    write_json(json_path, rows, conditions)


def _show(rows: list[dict[str, Any]]) -> None:
    counted = ("model", "layout", "transposes", "transpose_gradients", "operators", "gradients")
    print_table(
        "One training step",
        [name.replace("_", " ") for name in counted],
        [[row[name] for name in counted] for row in rows if row["table"] == "layouts"],
    )
    folded = [row for row in rows if row["table"] == "fold"]
    names = ("norms", "operators", "gradients", "kept_mb", "peak_mb", "step_ms", "ratio")
    shown = [name for name in names if name in folded[0]]
    print_table(
        f"R50-C4's convolutions, {folded[0]['size']} pixels, {folded[0]['rois']} RoIs",
        [name.replace("_mb", ", MiB").replace("_ms", ", ms") for name in shown],
        [["?" if row[name] is None else row[name] for name in shown] for row in folded],
    )
