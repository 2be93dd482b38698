"""32 steps of stock and plugin from one seed: every loss, and all final parameters."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest

from detperf_plugins.patching.engine import open_job
from tests.paddledet.scripts import OVERLAYS, run, tiny_config
from tests.patches.hosts import copy_of

STEPS = 32


def trial(
    folder: Path, shapes: Path, *bases: Path, steps: int = STEPS, env: dict[str, str] | None = None, **changes
) -> tuple[list[dict[str, float]], dict[str, np.ndarray]]:
    """Losses of every step, and the final parameters, of a run in its own process."""
    reader = {"batch_size": 2, **changes.pop("TrainReader", {})}
    config = tiny_config(folder, shapes, *bases, epoch=steps // 4, TrainReader=reader, **changes)
    schedule = (
        "LearningRate:\n  base_lr: 0.01\n  schedulers:\n  - !PiecewiseDecay {gamma: 0.1, milestones: [99]}\n"
    )
    schedule += "  - !LinearWarmup {start_factor: 0.1, steps: 8}\n"
    config.write_text(config.read_text(encoding="utf-8") + schedule, encoding="utf-8")
    command = [sys.executable, "-m", "detperf_plugins.paddledet.trial", "--no-evaluate", "--seed", "3"]
    command += ["--config", str(config), "--out", str(folder), *(["--plugins"] if bases else [])]
    run(command, env=env)
    losses = json.loads((folder / "trial.json").read_text(encoding="utf-8"))["losses"]
    weights = paddle.load(str(folder / "config" / "model_final.pdparams"))
    return losses, {name: np.asarray(value.numpy()) for name, value in weights.items()}


@pytest.fixture(scope="module")
def stock(tmp_path_factory, shapes):
    return trial(tmp_path_factory.mktemp("stock"), shapes)


def assert_equal_runs(ours, stock, tolerance=1e-6):
    """Every loss of every step and every parameter within `tolerance`, relative to its size."""
    (losses, weights), (stock_losses, stock_weights) = ours, stock
    assert len(losses) == len(stock_losses) == STEPS
    for step, (mine, theirs) in enumerate(zip(losses, stock_losses)):
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert mine[name] == pytest.approx(theirs[name], rel=tolerance, abs=tolerance), (
                f"{name}, step {step}"
            )
    assert weights.keys() == stock_weights.keys()
    for name, value in weights.items():
        scale = max(1e-3, float(np.abs(stock_weights[name]).max()))
        assert np.abs(value - stock_weights[name]).max() <= tolerance * scale, name


@pytest.mark.slow
def test_exact_mask_targets(stock, shapes, tmp_path):
    """Polygons packed by the reader, rasterised by the kernel. The raster is exact, so the runs are equal."""
    packed = {"batch_transforms": [{"PadBatch": {"pad_to_stride": 32}}, {"PackPolygons": {"del_poly": True}}]}
    ours = trial(tmp_path, shapes, OVERLAYS / "exact_targets.yml", TrainReader=packed)
    assert stock[0][-1]["loss"] < 0.6 * stock[0][0]["loss"], "the runs do not learn, so they prove nothing"
    assert_equal_runs(ours, stock)


@pytest.mark.slow
def test_all_exact_parts(stock, shapes, tmp_path):
    """RPN targets made in the loader, fixed slots, fixed-shape losses, sampling off.

    The losses sum float32 terms in another order, 6e-8 a term; 32 updates carry that to below 1e-4.
    """
    ours = trial(tmp_path, shapes, OVERLAYS / "exact_parts_fpn.yml")
    assert_equal_runs(ours, stock, tolerance=1e-4)


@pytest.mark.slow
def test_patched_host(stock, shapes, tmp_path):
    """PaddleDetection with every patch of its series and no plugin: the losses of its first 16 steps.

    The bound is that of all exact parts: some patches sum the same float32 terms in another order.
    """
    root = copy_of(Path(importlib.util.find_spec("ppdet").origin).parent, tmp_path)
    with open_job(root) as job:
        job.apply([])
    env = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    losses, _ = trial(tmp_path, shapes, steps=16, env=env)
    assert (root / "ppdet" / "__pycache__").is_dir(), "the copy was not used"
    assert len(losses) == 16
    for step, (mine, theirs) in enumerate(zip(losses, stock[0])):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-4), f"step {step}"


@pytest.mark.slow
def test_bitmap_mask_targets_train_alike(stock, shapes, tmp_path):
    """Bitmap targets differ a little from stock's: so do the losses, and only the mask loss to begin with."""
    bitmaps = {
        "batch_transforms": [{"PadBatch": {"pad_to_stride": 32}}, {"PolyToBitmap": {"crop_size": 112}}]
    }
    losses, _ = trial(tmp_path, shapes, OVERLAYS / "bitmap_targets_fpn.yml", TrainReader=bitmaps)
    first, stock_first = losses[0], stock[0][0]
    for name in ("loss_rpn_cls", "loss_rpn_reg", "loss_bbox_cls", "loss_bbox_reg"):
        assert first[name] == pytest.approx(stock_first[name], rel=1e-6)
    assert first["loss_mask"] == pytest.approx(stock_first["loss_mask"], rel=0.02)
    last, stock_last = (np.mean([step["loss"] for step in run[-8:]]) for run in (losses, stock[0]))
    assert last == pytest.approx(stock_last, rel=0.15)
