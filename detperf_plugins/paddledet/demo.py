"""What `detperf demo` runs: data, two configs that differ in one overlay, two processes, one picture."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detperf_plugins import configs_dir
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.hosts import require_paddledet
from detperf_plugins.paddledet.annotations import check_annotations
from detperf_plugins.paddledet.trial import PREFIX, THRESHOLD

__all__ = ["Plan", "find_coco", "picture", "plan", "run_both"]

RUNS = ("stock", "plugin")
BATCH_SIZE = 4
STEPS, QUICK_STEPS = 128, 12


@dataclass(frozen=True)
class Plan:
    """Two runs that differ only in the overlay.

    Attributes:
        out: folder of everything that is written.
        configs: config file by run name.
        annotations, images: what is evaluated and drawn.
        steps: training steps of each run.
        seed: of both runs.
        description: the data in words.
        own: whether the data are the user's.
    """

    out: Path
    configs: dict[str, Path]
    annotations: Path
    images: Path
    steps: int
    seed: int
    description: str
    own: bool = False


def find_coco(path: Path, images: Path | None) -> tuple[Path, Path]:
    """Annotation file and image folder of a COCO data set given as a folder or as a file.

    Raises:
        UnreadableInput: there is no such file, no annotation file in the folder, or no image folder; or the
            file is none of annotations.
    """
    if path.is_dir():
        candidates = sorted([*path.glob("*.json"), *path.glob("annotations/*.json")])
        candidates = [one for one in candidates if _is_annotation_file(one)]
        if not candidates:
            raise UnreadableInput(f"no COCO annotation file (*.json) in {path} or {path / 'annotations'}")
        preferred = [one for one in candidates if "train" in one.name]
        file = (preferred or candidates)[0]
    elif path.is_file():
        file = path
    else:
        raise UnreadableInput(f"no such file or folder: {path}")
    first = _read(file)["images"][0]["file_name"]
    root = path if path.is_dir() else path.parent
    places = [images] if images else [root, *sorted(one for one in root.iterdir() if one.is_dir())]
    for folder in places:
        if folder is not None and (folder / first).is_file():
            return file.resolve(), folder.resolve()
    raise UnreadableInput(
        f"{first} of {file} is in none of: {', '.join(map(str, places))}; name it with --images"
    )


def _read(file: Path) -> dict[str, Any]:
    """A COCO annotation file.

    Raises:
        UnreadableInput: it is no JSON, or has no images, annotations or categories.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"{file} is no COCO annotation file: it holds no JSON ({error})") from error
    for key in ("images", "annotations", "categories"):
        if not (isinstance(content, dict) and isinstance(content.get(key), list) and content[key]):
            raise UnreadableInput(f"{file} is no COCO annotation file: it has no list {key!r}")
    if not all(isinstance(image, dict) and "file_name" in image for image in content["images"]):
        raise UnreadableInput(f"{file} is no COCO annotation file: an image has no file_name")
    return content


def _is_annotation_file(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(content, dict) and bool(content.get("annotations")) and bool(content.get("images"))


def plan(
    out: Path,
    *,
    coco: Path | None,
    images: Path | None,
    size: int,
    steps: int | None,
    quick: bool,
    seed: int,
    overlay: Path,
    random_sampling: bool,
) -> Plan:
    """Make data and configs ready below `out`.

    Raises:
        UnsupportedHost: PaddleDetection cannot run here.
        UnreadableInput: `coco` or `images` do not hold what they should.
    """
    require_paddledet()
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = steps or (QUICK_STEPS if quick else STEPS)
    if coco is None:
        from detperf_plugins.samples.coco_shapes import write_coco_shapes

        train = write_coco_shapes(out / "data" / "train", images=64, size=size, seed=0)
        val = write_coco_shapes(out / "data" / "val", images=8 if quick else 16, size=size, seed=1)
        sets = {"TrainDataset": (train, train.parent / "images"), "EvalDataset": (val, val.parent / "images")}
        description = f"generated coloured shapes, 64 to train and {8 if quick else 16} to evaluate"
    else:
        file, folder = find_coco(coco, images)
        sets = dict.fromkeys(("TrainDataset", "EvalDataset"), (file, folder))
        description = f"{file.name} in {folder.parent.name}, evaluated on the training images"
    content = _read(sets["TrainDataset"][0])
    per_epoch = len({one.get("image_id") for one in content["annotations"]}) // BATCH_SIZE
    if per_epoch == 0:
        raise UnreadableInput(f"{sets['TrainDataset'][0]} has fewer than {BATCH_SIZE} annotated images")
    epochs = max(1, math.ceil(wanted / per_epoch))
    configs = {}
    for run in RUNS:
        (out / run).mkdir(exist_ok=True)
        configs[run] = out / run / f"{run}.yml"
        bases = [overlay] if run == "plugin" else []
        text = _config(bases, sets, len(content["categories"]), size, epochs, per_epoch)
        text += _SAMPLING.format(random=str(random_sampling).lower())
        configs[run].write_text(text, encoding="utf-8")
    total = steps or epochs * per_epoch
    return Plan(out, configs, *sets["EvalDataset"], total, seed, description, own=coco is not None)


_SAMPLING = """RPNHead: {{rpn_target_assign: {{use_random: {random}}}}}
BBoxAssigner: {{use_random: {random}}}
"""


def _config(
    overlays: list[Path], sets: dict[str, Any], num_classes: int, size: int, epochs: int, per_epoch: int
) -> str:
    """The YAML of one run: the tiny model, its overlays, and the data."""
    bases = [configs_dir() / "paddledet" / "tiny" / "mask_rcnn_r18_fpn_shapes.yml", *overlays]
    lines = [
        f"_BASE_: {json.dumps([str(base) for base in bases])}",
        f"num_classes: {num_classes}",
        f"epoch: {epochs}",
    ]
    for name, (file, folder) in sets.items():
        section = {"dataset_dir": "/", "anno_path": str(file)[1:], "image_dir": str(folder)[1:]}
        lines.append(f"{name}: {json.dumps(section)}")
    for reader in ("TrainReader", "EvalReader"):
        flip = [{"RandomFlip": {"prob": 0.5}}] if reader == "TrainReader" else []
        transforms = [
            {"Decode": {}},
            {"Resize": {"interp": 2, "target_size": [size, size], "keep_ratio": True}},
            *flip,
            {
                "NormalizeImage": {
                    "is_scale": True,
                    "mean": [0.485, 0.456, 0.406],
                    "std": [0.229, 0.224, 0.225],
                }
            },
            {"Permute": {}},
        ]
        lines.append(f"{reader}: {json.dumps({'sample_transforms': transforms})}")
    warm_up = min(16, max(1, epochs * per_epoch // 4))
    milestone = max(1, epochs - 1)
    lines += [
        "LearningRate:",
        "  base_lr: 0.02",
        "  schedulers:",
        f"  - !PiecewiseDecay {{gamma: 0.1, milestones: [{milestone}]}}",
        f"  - !LinearWarmup {{start_factor: 0.1, steps: {warm_up}}}",
    ]
    return "\n".join(lines) + "\n"


def run_both(plan: Plan, console: Any) -> dict[str, dict[str, Any]]:
    """Run stock and plugin one after the other, each in a process of its own with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:>7}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        return {run: _run(plan, run, progress) for run in RUNS}


def _run(plan: Plan, run: str, progress: Any) -> dict[str, Any]:
    task = progress.add_task(run, total=plan.steps, loss="-")
    out = plan.out / run
    log_path = out / "train.log"
    (out / "trial.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "detperf_plugins.paddledet.trial"]
    command += ["--config", str(plan.configs[run]), "--out", str(out), "--seed", str(plan.seed)]
    command += ["--steps", str(plan.steps)]
    command += ["--plugins"] if run == "plugin" else []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if not line.startswith(PREFIX):
                    log.write(line)
                    continue
                event = json.loads(line[len(PREFIX) :])
                if "step" in event:
                    progress.update(task, completed=event["step"], loss=f"{event['loss']:.4f}")
                elif "evaluating" in event:
                    progress.update(task, description="eval")
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()
            process.wait()
    progress.update(task, description=run)
    if process.returncode != 0 or not (out / "trial.json").is_file():
        last = log_path.read_text(encoding="utf-8").strip().splitlines()[-1:] or ["no output"]
        what = f"the {run} run ended with status {process.returncode}: {last[0]} (log: {log_path})"
        raise DetperfError((run == "stock" and _faulty_set(plan, last[0], log_path)) or what)
    return json.loads((out / "trial.json").read_text(encoding="utf-8"))


def _faulty_set(plan: Plan, error: str, log: Path) -> str:
    """Why stock fails where the annotations are faulty; an empty string where they are not."""
    faults = len(check_annotations(_read(plan.annotations))) if plan.own else 0
    if not faults:
        return ""
    return (
        f"stock fails on this set ({error}), in which {faults} annotations are faulty: "
        f"`detperf lint {plan.annotations}` names them; with the plugins each costs its mask or its record, "
        f"not the run (log: {log})"
    )


def picture(plan: Plan, results: dict[str, dict[str, Any]]) -> Path:
    """Write `out/demo.png`: loss curves of both runs, and predicted masks over a few pictures."""
    from detperf_plugins.measure.plots import demo_picture

    content = json.loads(plan.annotations.read_text(encoding="utf-8"))
    wanted = [image for image in content["images"] if (plan.images / image["file_name"]).is_file()][:4]
    names = {category["id"]: category["name"] for category in content["categories"]}
    pictures = [
        {
            "path": plan.images / image["file_name"],
            "none": f"no prediction above {THRESHOLD:g}",
            "masks": [one for one in results["plugin"]["predictions"] if one["image_id"] == image["id"]],
        }
        for image in wanted
    ]
    curves = {run: [step["loss"] for step in result["losses"]] for run, result in results.items()}
    return demo_picture(plan.out / "demo.png", curves, pictures, names)
