"""Running things in processes of their own: ppdet keeps its config in one global dict, so each needs one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from detperf_plugins import configs_dir

TINY = configs_dir() / "paddledet" / "tiny" / "mask_rcnn_r18_fpn_shapes.yml"
OVERLAYS = configs_dir() / "paddledet" / "mask_rcnn"

# What a user's own training script does: nothing in it knows of the plugins.
STOCK_SCRIPT = """
import sys
import paddle
import pycocotools.mask, pyclipper, zlib
zlib.decompress(zlib.compress(b"after paddle"))
from ppdet.core.workspace import create, load_config, merge_config
from ppdet.engine import Trainer, init_parallel_env, set_random_seed

if __name__ == "__main__":
    cfg = load_config(sys.argv[1])
    paddle.set_device("cpu")
    init_parallel_env()
    set_random_seed(0)
    trainer = Trainer(cfg, mode="train")
    trainer.train()
    print("ASSIGNER", type(trainer.model.mask_head.mask_assigner).__name__,
          trainer.model.mask_head.mask_assigner.mask_resolution)
    meters = trainer.status["training_staus"].meters
    if meters is not None:  # rank 0
        print("LOSS", float(meters["loss"].value))
"""


def run(
    command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None, ok: bool = True
) -> str:
    """Output of a command; a failure shows its end."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=cwd,
        env={**os.environ, **(env or {})}, timeout=600,
    )  # fmt: skip
    if ok:
        assert done.returncode == 0, done.stdout[-4000:]
    else:
        assert done.returncode != 0, done.stdout[-4000:]
    return done.stdout


def python(code: str, *arguments: str, **options) -> str:
    return run([sys.executable, "-c", code, *arguments], **options)


def tiny_config(folder: Path, shapes: Path, *bases: Path, head: str = "", **changes) -> Path:
    """A config over the tiny model and the shapes below `shapes`; `head` is put before everything."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = {
        "_BASE_": [str(TINY), *map(str, bases)],
        "epoch": 1,
        "save_dir": str(folder / "output"),
        "TrainDataset": {"dataset_dir": str(shapes / "train")},
        "EvalDataset": {"dataset_dir": str(shapes / "val")},
        **changes,
    }
    path = folder / "config.yml"
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items())
    path.write_text(head + text, encoding="utf-8")
    return path
