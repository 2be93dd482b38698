"""`detperf demo`: stock and plugin trained side by side from one seed, and a table of what differed."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer

from detperf_plugins.cli import FAILED, app
from detperf_plugins.cli.configs import find_config
from detperf_plugins.cli.output import JSON_OPTION, console, print_table, write_json
from detperf_plugins.errors import UnreadableInput

__all__ = ["demo"]

TIMES = (
    "The runs follow each other: on a machine that does other work their times say little. {verbs} measure."
)
DRAWN = (
    "With --random-sampling that is no fault of an overlay such as exact_parts, which draws anchors and RoIs "
    "from stock's distribution by a generator of its own; without it the demo compares them one by one."
)


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
        None, "--images", help="Image folder of the --coco annotation file, or of --labels."
    ),
    size: int = typer.Option(128, "--size", help="Longer side of the training images, pixels."),
    steps: Optional[int] = typer.Option(None, "--steps", help="Training steps of each run."),
    overlay: Optional[str] = typer.Option(
        None,
        "--overlay",
        help="What the plugin run has more than stock (exact_targets or fast_data): see detperf configs.",
    ),
    host: str = typer.Option("paddledet", "--host", help="paddledet (Mask R-CNN) or mindocr (DBNet)."),
    labels: Optional[Path] = typer.Option(
        None, "--labels", help="mindocr: train on your own label file, pictures in --images."
    ),
    random_sampling: bool = typer.Option(
        False, "--random-sampling", help="Draw anchors and RoIs at random, as a real training does."
    ),
    seed: int = typer.Option(0, "--seed", help="Initial weights, order and flips of both runs."),
    tolerance: float = typer.Option(1e-5, "--tolerance", help="Largest allowed difference between losses."),
    json_path: Optional[Path] = JSON_OPTION,
) -> None:
    """Train a tiny Mask R-CNN (or DBNet) twice, stock and with the plugins, and compare losses, AP and times.

    Exit status 1 where any loss of the two runs differs by more than the tolerance.
    """
    for option, value, owner in (
        ("--coco", coco, "paddledet"),
        ("--random-sampling", random_sampling, "paddledet"),
        ("--labels", labels, "mindocr"),
    ):
        if value and (host == "mindocr") != (owner == "mindocr"):
            raise UnreadableInput(f"{option} is for --host {owner}")
    if host == "mindocr" and images is not None and labels is None:
        raise UnreadableInput("--images names the pictures of --labels, which is not given")
    if host == "mindocr":
        _mindocr(out, labels, images, size, steps, quick, seed, overlay or "fast_data", tolerance, json_path)
        return
    if host != "paddledet":
        raise UnreadableInput(f"--host {host} is unknown; there are paddledet and mindocr")
    overlay = overlay or "exact_targets"
    from detperf_plugins.measure import sidebyside
    from detperf_plugins.paddledet import demo as room
    from detperf_plugins.paddledet.variants import require_host

    plan = room.plan(
        out,
        coco=coco,
        images=images,
        size=size,
        steps=steps,
        quick=quick,
        seed=seed,
        overlay=require_host(find_config(overlay)),
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
    console.print(TIMES.format(verbs="detperf bench targets and bench train"), soft_wrap=True)
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
        if random_sampling:
            console.print(DRAWN, soft_wrap=True)
        raise typer.Exit(FAILED)


def _mindocr(
    out: Path,
    labels: Optional[Path],
    images: Optional[Path],
    size: int,
    steps: Optional[int],
    quick: bool,
    seed: int,
    overlay: str,
    tolerance: float,
    json_path: Optional[Path],
) -> None:
    """The same for DBNet."""
    from detperf_plugins.measure import sidebyside
    from detperf_plugins.mindocr import demo as room
    from detperf_plugins.paddledet.variants import require_host

    plan = room.plan(
        out,
        labels=labels,
        images=images,
        size=size,
        steps=steps,
        quick=quick,
        seed=seed,
        overlays=[require_host(find_config(overlay), "mindocr"), find_config("rare_checkpoints")],
    )
    console.print(f"Data: {plan.description}. Two runs of {plan.steps} steps, seed {seed}.", soft_wrap=True)
    results = room.run_both(plan, console)
    rows = room.rows(results)
    difference = room.largest_difference(results)
    picture = room.picture(plan, results)
    print_table(
        f"DBNet, stock and with {overlay} from one seed",
        ("", "stock", "tuned", "tuned / stock"),
        sidebyside.as_table(rows),
    )
    console.print(TIMES.format(verbs="detperf bench dbnet and bench transforms"), soft_wrap=True)
    console.print(
        f"Largest difference between the losses of a step: {difference:.3g} (allowed: {tolerance:g})"
    )
    console.print(f"Picture: {picture}", soft_wrap=True)
    conditions = {
        "data": plan.description, "steps": plan.steps, "seed": seed, "size": size, "tolerance": tolerance,
        "overlay": overlay, "picture": str(picture), "largest_loss_difference": difference,
    }  # fmt: skip
    losses = {name: result["summary"]["losses"] for name, result in results.items()}
    write_json(json_path, rows, conditions, losses=losses)
    if not difference <= tolerance:
        console.print("[red]The losses differ by more than the tolerance.[/red]")
        raise typer.Exit(FAILED)
