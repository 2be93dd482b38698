"""`detperf demo`: stock and plugin trained side by side from one seed, and a table of what differed."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from detperf_plugins.cli import FAILED, app
from detperf_plugins.cli.configs import find_config
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json

__all__ = ["demo"]


@app.command()
def demo(
    out: Path = typer.Option(
        Path("out/demo"), "--out", help="Folder for data, configs, logs and the picture."
    ),
    quick: bool = typer.Option(False, "--quick", help="A few steps only: shows equal losses, learns little."),
    coco: Optional[Path] = typer.Option(
        None, "--coco", help="Train on your own: a COCO folder, or an annotation file with --images."
    ),
    images: Optional[Path] = typer.Option(
        None, "--images", help="Image folder of the --coco annotation file."
    ),
    size: int = typer.Option(128, "--size", help="Longer side of the training images, pixels."),
    steps: Optional[int] = typer.Option(None, "--steps", help="Training steps of each run."),
    overlay: str = typer.Option(
        "exact_targets",
        "--overlay",
        help="What the plugin run has more than the stock run: see detperf configs.",
    ),
    random_sampling: bool = typer.Option(
        False, "--random-sampling", help="Draw anchors and RoIs at random, as a real training does."
    ),
    seed: int = typer.Option(0, "--seed", help="Initial weights, order and flips of both runs."),
    tolerance: float = typer.Option(1e-5, "--tolerance", help="Largest allowed difference between losses."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train a tiny Mask R-CNN twice, stock and with the plugins, and compare losses, AP and times.

    Exit status 1 where any loss of the two runs differs by more than the tolerance.
    """
    from detperf_plugins.measure import sidebyside
    from detperf_plugins.paddledet import demo as room

    plan = room.plan(
        out,
        coco=coco,
        images=images,
        size=size,
        steps=steps,
        quick=quick,
        seed=seed,
        overlay=find_config(overlay),
        random_sampling=random_sampling,
    )
    console.print(f"Data: {plan.description}. Two runs of {plan.steps} steps, seed {seed}.", soft_wrap=True)
    results = room.run_both(plan, console)
    rows = sidebyside.compare(results)
    difference = sidebyside.largest_difference(results)
    picture = room.picture(plan, results)
    print_table(
        "Mask R-CNN, stock and plugin from one seed",
        ("", "stock", "plugin", "plugin / stock"),
        sidebyside.as_table(rows),
    )
    console.print(
        f"Largest difference between the losses of a step: {difference:.3g} (allowed: {tolerance:g})"
    )
    console.print(f"Picture: {picture}", soft_wrap=True)
    losses = {name: result["losses"] for name, result in results.items()}
    conditions = {
        "data": plan.description, "steps": plan.steps, "seed": seed, "size": size, "tolerance": tolerance,
        "overlay": overlay, "random_sampling": random_sampling, "picture": str(picture),
        "largest_loss_difference": difference,
    }  # fmt: skip
    write_json(json_path, rows, conditions, losses=losses)
    if not difference <= tolerance:
        console.print("[red]The losses differ by more than the tolerance.[/red]")
        raise typer.Exit(FAILED)
