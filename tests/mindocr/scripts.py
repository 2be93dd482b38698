"""Training in processes of their own: MindSpore keeps its context, its graphs and its seeds in one state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from detperf_plugins import configs_dir

TINY = configs_dir() / "mindocr" / "tiny" / "db_r18_scene_text.yml"
OVERLAYS = configs_dir() / "mindocr" / "dbnet"

# What `detperf train` does with its result, without the command line: losses and phases as JSON.
TRAIN = """
import json, sys
from pathlib import Path
from detperf_plugins.mindocr import runner
result = runner.train(Path(sys.argv[1]), sys.argv[2:])
print("RESULT" + json.dumps(result))
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "GLOG_v": "3", **more}


def run(command: list[str], ok: bool = True, cwd: Path | None = None, **more: str) -> str:
    """Output of a command; where it should end well and does not, the end of it is shown."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=cwd,
        env=environment(**more), timeout=600,
    )  # fmt: skip
    assert (done.returncode == 0) == ok, done.stdout[-4000:]
    return done.stdout


def config(folder: Path, words: Path, *bases: Path, **changes: Any) -> Path:
    """A config over the tiny model (16 neck channels, crops of 64, batch 2) and the set at `words`."""
    folder.mkdir(parents=True, exist_ok=True)
    root = {"dataset": {"dataset_root": str(words)}}
    sections: dict[str, Any] = {
        "_BASE_": [str(TINY), *map(str, bases)],
        "system": {"val_while_train": False},
        "model": {"neck": {"out_channels": 16}},
        "train": {**root, "ckpt_save_dir": str(folder / "out"), "loader": {"batch_size": 2}},
        "eval": root,
    }
    sections["train"]["dataset"] = {**root["dataset"], "transform_pipeline": PIPELINE}
    for name, values in changes.items():
        sections[name] = {**sections.get(name, {}), **values}
    path = folder / "config.yml"
    path.write_text(
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()), encoding="utf-8"
    )
    return path


# Random as a training is, but small.
PIPELINE = [
    {"DecodeImage": {"img_mode": "RGB", "to_float32": False}},
    {"DetLabelEncode": None},
    {"RandomHorizontalFlip": {"p": 0.5}},
    {"RandomCropWithBBox": {"max_tries": 10, "min_crop_ratio": 0.1, "crop_size": [64, 64], "p": 1.0}},
    {"ValidatePolygons": None},
    {"ShrinkBinaryMap": {"min_text_size": 2, "shrink_ratio": 0.4}},
    {"BorderMap": {"shrink_ratio": 0.4, "thresh_min": 0.3, "thresh_max": 0.7}},
    {"NormalizeImage": {"bgr_to_rgb": False, "is_hwc": True, "mean": "imagenet", "std": "imagenet"}},
    {"ToCHWImage": None},
]


def train(path: Path, *overrides: str, **more: str) -> tuple[dict[str, Any], str]:
    """The result of `runner.train`, and everything printed."""
    # A file: MindSpore's compile cache reads the script that was started.
    script = path.parent / "script.py"
    script.write_text(TRAIN, encoding="utf-8")
    output = run([sys.executable, str(script), str(path), *overrides], **more)
    line = next(line for line in output.splitlines() if line.startswith("RESULT"))
    return json.loads(line[len("RESULT") :]), output
