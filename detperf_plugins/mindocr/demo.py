"""What `detperf demo --host mindocr` runs: scene text, stock and tuned config, two processes, one picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detperf_plugins import configs_dir
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import run_child
from detperf_plugins.mindocr.own_labels import both_can_read
from detperf_plugins.mindocr.runner import require_mindocr

__all__ = ["Plan", "largest_difference", "picture", "pipeline", "plan", "rows", "run_both"]

RUNS = ("stock", "tuned")
BATCH_SIZE = 4
STEPS, QUICK_STEPS = 320, 16


@dataclass(frozen=True)
class Plan:
    """Two runs that differ only in overlays: `configs` by run name, `steps` of each, data in words."""

    out: Path
    configs: dict[str, Path]
    steps: int
    description: str


def plan(
    out: Path,
    *,
    labels: Path | None,
    images: Path | None,
    size: int,
    steps: int | None,
    quick: bool,
    seed: int,
    overlays: Sequence[Path],
) -> Plan:
    """Make data and configs ready below `out`.

    Args:
        labels, images: a label file of your own and the folder of its pictures; generated words without.
        size: side of the training crops, pixels, a multiple of 32.
        steps: of each run, rounded up to whole epochs.
        overlays: what the tuned run has more.

    Raises:
        UnsupportedHost: MindOCR cannot run here.
        UnreadableInput: `labels` cannot be read or has fewer pictures than a batch, or `size` does not fit.
    """
    require_mindocr()
    if size < 64 or size % 32:
        raise UnreadableInput(f"--size {size}: DBNet needs a multiple of 32, at least 64")
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if labels is None:
        from detperf_plugins.samples.scene_text import write_scene_text

        train = write_scene_text(out / "data" / "train", images=32, size=2 * size, seed=0)
        val = write_scene_text(out / "data" / "val", images=8, size=2 * size, seed=1)
        sets = {"train": (train, train.parent / "images"), "eval": (val, val.parent / "images")}
        description = "generated words, 32 pictures to train and 8 to evaluate"
    else:
        (out / "data").mkdir(exist_ok=True)
        own = both_can_read(labels, images, out / "data")
        sets = dict.fromkeys(("train", "eval"), (own.file, own.folder))
        description = f"{labels.name}, evaluated on the training pictures"
        if own.note:
            description += f" ({own.note})"
    lines = sets["train"][0].read_text(encoding="utf-8").split("\n")
    pictures = len([line for line in lines if line.strip()])
    if pictures < BATCH_SIZE:
        raise UnreadableInput(f"{labels or sets['train'][0]} has fewer than {BATCH_SIZE} pictures")
    per_epoch = pictures // BATCH_SIZE
    epochs = max(2, math.ceil((steps or (QUICK_STEPS if quick else STEPS)) / per_epoch))
    configs = {}
    for run in RUNS:
        configs[run] = out / run / f"{run}.yml"
        configs[run].parent.mkdir(exist_ok=True)
        bases = [*overlays] if run == "tuned" else []
        configs[run].write_text(_config(bases, sets, size, epochs, seed, out / run), encoding="utf-8")
    return Plan(out, configs, epochs * per_epoch, description)


def _config(
    overlays: Sequence[Path],
    sets: Mapping[str, tuple[Path, Path]],
    size: int,
    epochs: int,
    seed: int,
    out: Path,
) -> str:
    """The YAML of one run: the tiny model, its overlays, the data, and random numbers as stock draws them."""
    tiny = configs_dir() / "mindocr" / "tiny" / "db_r18_scene_text.yml"
    sections: dict[str, Any] = {
        "_BASE_": [str(tiny), *map(str, overlays)],
        "system": {
            "seed": seed,
            "val_start_epoch": epochs,
            "val_interval": epochs,
            "log_interval": 10,
            "ckpt_max_keep": 1,
        },
        # From random weights SGD finds no text in so few steps; Adam finds the words after about 200.
        "optimizer": {"opt": "adam"},
        "scheduler": {"lr": 0.002, "num_epochs": epochs},
        "postprocess": {"box_thresh": 0.4},
        "train": {"ckpt_save_dir": str(out), "dataset": {"transform_pipeline": pipeline(size)}},
        "eval": {"dataset": {}},
    }
    for part, (labels, folder) in sets.items():
        sections[part]["dataset"].update(
            dataset_root="/", data_dir=str(folder)[1:], label_file=str(labels)[1:]
        )
    perf = {"seeding": "stock", "workers": "processes"} if overlays else {"level": "off"}
    sections["train"]["dataset"]["perf"] = sections["eval"]["dataset"]["perf"] = perf
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items())


def pipeline(size: int) -> list[dict[str, Any]]:
    """The tiny model's training transforms with crops of `size` pixels."""
    from detperf_plugins.mindocr import config

    tiny = config.read(configs_dir() / "mindocr" / "tiny" / "db_r18_scene_text.yml")
    steps = tiny["train"]["dataset"]["transform_pipeline"]
    for step in steps:
        if "RandomCropWithBBox" in step:
            step["RandomCropWithBBox"]["crop_size"] = [size, size]
    return steps


def run_both(plan: Plan, console: Any) -> dict[str, dict[str, Any]]:
    """Run stock and tuned one after the other, each in a process of its own with a progress bar.

    Returns:
        What `trial.run` wrote, by run name.

    Raises:
        DetperfError: a run failed; with its last words and its log.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:>7}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"), TimeRemainingColumn(),
    )  # fmt: skip
    results = {}
    with Progress(*columns, console=console) as progress:
        for run in RUNS:
            task = progress.add_task(run, total=plan.steps, loss="-")
            out = plan.out / run
            (out / "trial.json").unlink(missing_ok=True)

            def show(event: dict[str, Any], task: Any = task) -> None:
                progress.update(task, completed=event["step"], loss=f"{event['loss']:.4f}")

            arguments = ["--config", str(plan.configs[run]), "--out", str(out)]
            ended = run_child("detperf_plugins.mindocr.trial", arguments, out / "train.log", show)
            if ended.status != 0 or not (out / "trial.json").is_file():
                raise DetperfError(
                    f"the {run} run ended with status {ended.status}: {ended.last_line} "
                    f"(log: {out / 'train.log'})"
                )
            results[run] = json.loads((out / "trial.json").read_text(encoding="utf-8"))
    return results


def rows(results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a run: run, steps, first_loss, last_loss (means over an eighth), hmean, step_ms, images_per_s,
    data_wait_ms (a step), and the start-up in seconds: import_s, data_set_s, model_s,
    start_s (all of them, before the first step), compile_s (in that step)."""
    made = []
    for run, result in results.items():
        summary = result["summary"]
        losses, start_up = summary["losses"], summary["start_up"]
        window = max(1, len(losses) // 8)
        made.append(
            {
                "run": run,
                "steps": summary["steps"],
                "first_loss": sum(losses[:window]) / window,
                "last_loss": sum(losses[-window:]) / window,
                "hmean": result["best"],
                "step_ms": summary["step_ms"],
                "data_wait_ms": 1000 * summary["during"]["data wait"] / max(1, summary["steps"] - 1),
                "images_per_s": summary["images_per_s"],
                "import_s": start_up["import mindspore"] + start_up["import mindocr"],
                "data_set_s": start_up["data set"],
                "model_s": start_up["model"] + start_up["checkpoint"] + start_up["optimizer"],
                "start_s": summary["before_first_step"],
                "compile_s": start_up["compile"],
            }
        )
    return made


def largest_difference(results: Mapping[str, Mapping[str, Any]]) -> float:
    """Largest |a - b| over the losses of all steps; infinity where one is missing or not finite."""
    first, second = (result["summary"]["losses"] for result in results.values())
    if len(first) != len(second) or not all(map(math.isfinite, [*first, *second])):
        return math.inf
    return max(abs(a - b) for a, b in zip(first, second))


def picture(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write `out/demo.png`: loss curves of both runs, and the texts found in a few pictures."""
    from detperf_plugins.measure.plots import demo_picture

    curves = {run: result["summary"]["losses"] for run, result in results.items()}
    return demo_picture(
        plan.out / "demo.png", curves, results["tuned"]["texts"], {}, "Texts found after training"
    )
