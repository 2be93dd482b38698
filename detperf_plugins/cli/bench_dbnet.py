"""`detperf bench dbnet`: small DBNets under overlays, start-up and losses against the model without one."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import typer

from detperf_plugins.cli.bench import bench
from detperf_plugins.cli.configs import find_config
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import DetperfError, UnreadableInput, UnsupportedHost
from detperf_plugins.hosts import mindocr_host

__all__ = ["dbnet"]


@bench.command()
def dbnet(
    model: Optional[list[str]] = typer.Option(
        None, help="dbnet_r18, dbnet_mobilenetv3, dbnetpp_r18 or dbnetpp_mobilenetv3; all by default."
    ),
    overlay: list[str] = typer.Option(
        ["rounded_weights", "amp_o2", "amp_o3", "compile_cache"],
        help="A MindOCR overlay (see detperf configs); may be repeated. compile_cache runs three times; "
        "rounded_weights is float32 from weights rounded to float16 once, to judge the AMP overlays by.",
    ),
    steps: int = typer.Option(20, min=2, help="Steps of each run."),
    size: int = typer.Option(96, help="Side of the training crops, pixels."),
    batch_size: int = typer.Option(2, min=1, help="Pictures a step."),
    out: Path = typer.Option(Path("out/bench-dbnet"), help="Folder of data, configs and logs."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train DBNet and DBNet++ from random weights on generated words, each run in a process of its own."""
    host = mindocr_host()
    if not host.supported:
        raise UnsupportedHost(host.reason)
    from detperf_plugins.mindocr import overlay_bench

    models = list(dict.fromkeys(model or overlay_bench.MODELS))
    unknown = [name for name in models if name not in overlay_bench.MODELS]
    if unknown:
        raise UnreadableInput(
            f"--model {unknown[0]} is unknown; there are: {', '.join(overlay_bench.MODELS)}"
        )
    files = {Path(name).stem: None if name == overlay_bench.ROUNDED else _file(name) for name in overlay}
    runs = overlay_bench.plan(out.resolve(), models, files, size, steps, batch_size)
    results: dict[Any, Mapping[str, Any]] = {}
    stopped = _train(runs, out.resolve(), steps, results)
    if not results:
        raise DetperfError(stopped or "nothing was measured")
    rows = overlay_bench.rows(results)
    _show(rows)
    conditions = {"steps": steps, "size": size, "batch_size": batch_size, "neck_channels": 64}
    date = datetime.date.today().isoformat()
    write_json(json_path, rows, {**conditions, "repeats": overlay_bench.REPEATED, "date": date})
    if stopped:
        raise DetperfError(f"{stopped}, with {len(results)} of {len(runs)} runs measured")


def _file(name: str) -> Path:
    return Path(name) if Path(name).is_file() else find_config(name, "mindocr")


def _train(runs: list[Any], out: Path, steps: int, results: dict[Any, Mapping[str, Any]]) -> Optional[str]:
    """Fill `results`; says why it stopped before the end, if it did."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from detperf_plugins.mindocr.overlay_bench import run_all

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    order = {run: index for index, run in enumerate(runs)}
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(runs[0].key, total=steps * len(runs))

        def on_step(run: Any, step: int) -> None:
            progress.update(task, completed=order[run] * steps + step, description=run.key)

        try:
            for run, summary in run_all(runs, out, on_step):
                results[run] = summary
        except KeyboardInterrupt:
            return "interrupted"
        except DetperfError as error:
            return str(error)
    return None


def _show(rows: list[dict[str, Any]]) -> None:
    header = (
        "model", "overlay", "run", "first step, s", "compile, s", "step, ms", "cache", "loss differs by, %"
    )  # fmt: skip
    table = [
        (
            row["model"],
            row["overlay"],
            row["run"],
            f"{row['first_step_s']:.2f}",
            "-" if row["compile_s"] is None else f"{row['compile_s']:.2f}",
            f"{row['step_ms']:.0f}",
            row["cache"] or "-",
            ("-" if row["finite"] else "not finite")
            if row["loss_difference_percent"] is None
            else f"{row['loss_difference_percent']:.2f}",
        )
        for row in rows
    ]
    print_table("DBNet under overlays", header, table)
