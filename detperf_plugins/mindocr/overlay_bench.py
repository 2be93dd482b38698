"""What `detperf bench dbnet` measures: small DBNets trained as they are and under overlays, the same samples.

Each run has a process of its own. Start-up is told phase by phase, and the losses are compared step by step
with those of the same model without an overlay. `ROUNDED` is no overlay but the measure for the others:
float32 from weights rounded to float16 once. How far that training moves away is the model's own sensitivity
to rounding.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from detperf_plugins import configs_dir
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.measure.child import run_child
from detperf_plugins.mindocr import config as mindocr_config
from detperf_plugins.mindocr.demo import pipeline

__all__ = ["BASELINE", "MODELS", "ROUNDED", "Run", "plan", "rows", "run_all"]

BASELINE = "none"
ROUNDED = "rounded_weights"
# Steps after which rounding has grown so far that it hides what an overlay adds.
FIRST = 5
_RESNET = {"name": "det_resnet18", "pretrained": False}
_MOBILENET = {
    "name": "det_mobilenet_v3",
    "architecture": "large",
    "alpha": 0.5,
    "out_stages": [5, 8, 14, 20],
    "bottleneck_params": {"se_version": "SqueezeExciteV2", "always_expand": True},
    "pretrained": False,
}
# DBNet and DBNet++ with both backbones; necks of 64 channels, so that two cores get through them.
MODELS: dict[str, dict[str, Any]] = {
    "dbnet_r18": {"backbone": _RESNET},
    "dbnet_mobilenetv3": {"backbone": _MOBILENET},
    "dbnetpp_r18": {"backbone": _RESNET, "neck": {"use_asf": True, "channel_attention": True}},
    "dbnetpp_mobilenetv3": {"backbone": _MOBILENET, "neck": {"use_asf": True, "channel_attention": True}},
}
# A cache shows from the second run on.
REPEATED = {"compile_cache": 3}
CACHE = "compile_cache"


@dataclass(frozen=True)
class Run:
    """One training: a model, an overlay (or `BASELINE`, or `ROUNDED`), and how often it has run before."""

    model: str
    overlay: str
    repeat: int
    config: Path

    @property
    def key(self) -> str:
        """Its name in file names and progress bars."""
        return f"{self.model}-{self.overlay}-{self.repeat + 1}"


def plan(
    out: Path,
    models: Sequence[str],
    overlays: Mapping[str, Path | None],
    size: int,
    steps: int,
    batch_size: int,
) -> list[Run]:
    """Make data and configs ready below `out`, and list the runs, each model's baseline first.

    Args:
        out: folder of everything.
        models: of `MODELS`.
        overlays: file of each overlay by its name; None for `ROUNDED`.
        size: side of the training crops, pixels, a multiple of 32.
        steps: of each run, all in one epoch.
        batch_size: pictures a step.

    Raises:
        UnreadableInput: `size` does not fit, or an overlay cannot be read.
    """
    from detperf_plugins.samples.scene_text import write_scene_text

    if size < 64 or size % 32:
        raise UnreadableInput(f"--size {size}: DBNet needs a multiple of 32, at least 64")
    labels = write_scene_text(out / "data", images=steps * batch_size, size=2 * size, seed=0)
    runs = []
    for model in models:
        for name, overlay in {BASELINE: None, **overlays}.items():
            config = out / "configs" / f"{model}-{name}.yml"
            config.parent.mkdir(parents=True, exist_ok=True)
            sections = _sections(model, overlay, labels, size, batch_size, out / "work" / f"{model}-{name}")
            text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items())
            config.write_text(text, encoding="utf-8")
            mindocr_config.load(config)  # an overlay that cannot be read is known before the first run
            runs += [Run(model, name, repeat, config) for repeat in range(REPEATED.get(name, 1))]
    return runs


def _sections(
    model: str, overlay: Path | None, labels: Path, size: int, batch_size: int, out: Path
) -> dict[str, Any]:
    tiny = configs_dir() / "mindocr" / "tiny" / "db_r18_scene_text.yml"
    data = {
        "dataset_root": "/",
        "data_dir": str(labels.parent / "images")[1:],
        "label_file": str(labels)[1:],
    }
    perf = {"seeding": "stock", "workers": "processes"}
    system: dict[str, Any] = {"seed": 1, "val_while_train": False, "log_interval": 1}
    if overlay and overlay.stem == "compile_cache":
        system["compile_cache_path"] = str(out / CACHE)
    return {
        "_BASE_": [str(tiny), *([str(overlay)] if overlay else [])],
        "system": system,
        "scheduler": {"num_epochs": 1},
        "model": MODELS[model],
        "train": {
            "ckpt_save_dir": str(out),
            # As the AMP overlays have it, so that a loss differs by its precision alone.
            "clip_grad": True,
            "clip_norm": 1.0,
            "dataset": {**data, "transform_pipeline": pipeline(size), "perf": perf},
            "loader": {"batch_size": batch_size},
        },
        "eval": {"dataset": data},
    }


def run_all(
    runs: Sequence[Run], out: Path, on_step: Callable[[Run, int], None]
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Train one after the other; yields each run with its `Phases.summary`.

    Raises:
        DetperfError: a run failed; with its last words and its log.
    """
    for run in runs:
        work, log = out / "work" / run.key, out / "logs" / f"{run.key}.log"
        (work / "trial.json").unlink(missing_ok=True)
        if run.repeat == 0:  # what an earlier call compiled would make the first run a warm one
            shutil.rmtree(out / "work" / f"{run.model}-{run.overlay}" / CACHE, ignore_errors=True)
        arguments = ["--config", str(run.config), "--out", str(work)]
        arguments += ["--rounded"] if run.overlay == ROUNDED else []

        def on_event(event: dict[str, Any], run: Run = run) -> None:
            on_step(run, event["step"])

        ended = run_child("detperf_plugins.mindocr.trial", arguments, log, on_event)
        if ended.interrupted:
            raise KeyboardInterrupt
        if ended.status != 0 or not (work / "trial.json").is_file():
            raise DetperfError(f"{run.key}: {ended.sentence or ended.last_line} (log: {log})")
        yield run, json.loads((work / "trial.json").read_text(encoding="utf-8"))["summary"]


def rows(results: Mapping[Run, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a run.

    Returns:
        model, overlay, run (1, 2, ...), steps, first_step_s, step_ms, cache ("hit", "miss" or None),
        cache_mb, loss_difference_percent (the largest of any step from the model without an overlay),
        first_loss_difference_percent (of the first `FIRST` steps), mean_loss_difference_percent (of the mean
        loss; these three None for that one and where a loss is not finite), finite, and seconds by phase
        before the first step: import_mindspore_s, import_mindocr_s, data_set_s, model_s, checkpoint_s,
        optimizer_s, other_s, first_batch_s, compile_s.
    """
    bases = {run.model: result["losses"] for run, result in results.items() if run.overlay == BASELINE}
    made = []
    for run, result in results.items():
        losses, base = result["losses"], bases.get(run.model)
        cache = result["facts"].get("compile_cache") or {}
        finite = all(map(math.isfinite, losses))
        made.append(
            {
                "model": run.model,
                "overlay": run.overlay,
                "run": run.repeat + 1,
                "steps": result["steps"],
                "first_step_s": result["first_step"],
                "step_ms": result["step_ms"],
                "cache": cache.get("result"),
                "cache_mb": cache.get("size_mb"),
                **_differences(losses, None if run.overlay == BASELINE else base),
                "finite": finite,
                **{f"{name.replace(' ', '_')}_s": value for name, value in result["start_up"].items()},
            }
        )
    return made


def _differences(losses: Sequence[float], base: Sequence[float] | None) -> dict[str, float | None]:
    """The three differences of `rows`, each None where the runs cannot be compared."""
    found: dict[str, float | None] = dict.fromkeys(
        f"{what}loss_difference_percent" for what in ("", "first_", "mean_")
    )
    if base and len(base) == len(losses) and all(map(math.isfinite, losses)):
        steps = [100 * abs(a - b) / abs(b) for a, b in zip(losses, base)]
        found["loss_difference_percent"] = max(steps)
        found["first_loss_difference_percent"] = max(steps[:FIRST])
        found["mean_loss_difference_percent"] = 100 * abs(sum(losses) / sum(base) - 1)
    return found
