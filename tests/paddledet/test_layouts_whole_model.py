"""Whole models in NHWC and with folded norms against NCHW: losses, predictions, checkpoints, counts.

Weights are random, so norms are frozen at statistics that keep features of such weights at their size.
"""

from __future__ import annotations

import json

import pytest

from tests.paddledet.scripts import python, tiny_config
from tests.paddledet.test_step import CASCADE, MASK_C4

FROZEN = """
TrainReader:
  sample_transforms:
  - Decode: {}
  - Resize: {interp: 2, target_size: [SIZE, SIZE], keep_ratio: true}
  - NormalizeImage: {is_scale: true, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
  - Permute: {}
  batch_size: 2
  shuffle: false
ResNet: {freeze_norm: true, freeze_at: 0}
LearningRate:
  base_lr: 0.002
  schedulers:
  - !PiecewiseDecay {gamma: 0.1, milestones: [99]}
  - !LinearWarmup {start_factor: 0.1, steps: 4}
"""

SCRIPT = """
import json, sys
from pathlib import Path
from detperf_plugins.paddledet import activate, deactivate
activate()
import numpy as np, paddle
from ppdet.core.workspace import global_config, load_config
from ppdet.engine import Trainer, set_random_seed
from ppdet.engine.callbacks import Callback
from detperf_plugins.measure.counters import count

cfg = load_config(sys.argv[1])
wanted, out, resumed = json.loads(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4])
for key in ("use_gpu", "amp", "fleet", "use_vdl", "to_static"):
    cfg[key] = False
cfg["snapshot_epoch"], cfg["epoch"] = 1, int(sys.argv[5])
paddle.set_device("cpu")

def build(name, data_format, fold=False, stock=False):
    deactivate()
    activate(replace=not stock)
    cfg["data_format"], cfg["fold_frozen_norm"] = data_format, fold
    cfg["save_dir"] = str(out / name)
    set_random_seed(0)
    trainer = Trainer(cfg, mode="train")
    rng = np.random.default_rng(0)
    state = trainer.model.state_dict()
    for key, value in state.items():
        if "norm" in key or ".bn" in key:
            low, high = {"weight": (0.4, 0.9), "_variance": (0.6, 1.5)}.get(key.rsplit(".")[-1], (-0.1, 0.1))
            value.set_value(rng.uniform(low, high, value.shape).astype("float32"))
    return trainer

# Names as in a process of its own: the optimizer's state goes by them.
@paddle.utils.unique_name.guard()
def train(name, resume=None, **settings):
    trainer, losses = build(name, **settings), []
    class Recorder(Callback):
        def on_step_end(self, status):
            losses.append({k: float(m.value) for k, m in status["training_staus"].meters.items()})
    if resume:
        trainer.resume_weights(str(resume))
    if not resumed:
        trainer._callbacks.clear()  # no checkpoint
    trainer.register_callbacks([Recorder(trainer)])
    start = {k: v.numpy() for k, v in trainer.model.state_dict().items()}
    trainer.train()
    weights = {k: v.numpy() for k, v in trainer.model.state_dict().items()}
    result["moved"] = apart(weights, start)
    return trainer, losses, weights

def predictions(model):
    model.eval()
    rng = np.random.default_rng(1)
    shape = cfg["TrainReader"]["sample_transforms"][1]["Resize"]["target_size"]
    found = []
    for height, width in (shape, (shape[0], shape[1] // 2)):
        image = rng.standard_normal((1, 3, height, width)).astype("float32")
        found.append(model({"image": paddle.to_tensor(image), "scale_factor": paddle.ones([1, 2]),
                            "im_shape": paddle.to_tensor([[float(height), float(width)]])}))
    return [{k: v.numpy() for k, v in one.items()} for one in found]

def transposes(trainer):
    trainer.model.train()
    batch = next(iter(trainer.loader))
    def step():
        trainer.model(batch)["loss"].sum().backward()
    step()
    counted = count(step, backward=True)
    names = {"operators": ("transpose", "transpose2"), "gradients": ("TransposeGradNode",)}
    return {kind: sum(getattr(counted, kind).get(name, 0) for name in names[kind]) for kind in names}

def apart(ours, theirs):
    largest = lambda value: float(np.abs(value).max())
    return max(largest(ours[k] - v) / max(1e-3, largest(v)) for k, v in theirs.items())

result, runs = {"paddle": paddle.__version__}, {}
for name, settings in wanted.items():
    trainer, losses, weights = train(name, **settings)
    runs[name] = weights, predictions(trainer.model)
    result[name] = {"losses": losses, "layout": getattr(trainer.model.backbone, "channels_last", None)}
    if settings["data_format"] == "NHWC":
        result[name]["transposes"] = transposes(trainer)
first = next(iter(wanted))
for name in list(wanted)[1:]:
    (weights, found), (expected, base) = runs[name], runs[first]
    assert list(weights) == list(expected)
    result[name]["weights"] = apart(weights, expected)
    result[name]["boxes"] = max(float(np.abs(a["bbox"] - b["bbox"]).max()) for a, b in zip(found, base))
    result[name]["numbers"] = all((a["bbox_num"] == b["bbox_num"]).all() for a, b in zip(found, base))
    result[name]["masks"] = min(float((a["mask"] == b["mask"]).mean()) for a, b in zip(found, base))
result["found"] = sum(int(one["bbox_num"].sum()) for one in runs[first][1])
result["covered"] = max(float(one["mask"].mean()) for one in runs[first][1])

# Resumed after the first epoch from the other layout's checkpoint, and in stock from ours.
for name, of, settings in resumed:
    checkpoint = next((out / of).rglob("0.pdparams")).with_suffix("")
    _, losses, weights = train(name, resume=checkpoint, **settings)
    result[name] = {"losses": losses, "weights": apart(weights, runs[first][0])}
print("RESULT", json.dumps(result))
"""


def run(folder, shapes, changes: str, wanted: dict, resumed: list, epochs: int = 2, size: int = 64) -> dict:
    """Train each of `wanted` for `epochs` of four steps, and go on from the first epoch of others."""
    (folder / "changes.yml").write_text(changes or "{}", encoding="utf-8")
    path = tiny_config(folder, shapes, folder / "changes.yml", worker_num=0, log_iter=1)
    path.write_text(path.read_text(encoding="utf-8") + FROZEN.replace("SIZE", str(size)), encoding="utf-8")
    out = python(SCRIPT, str(path), json.dumps(wanted), str(folder), json.dumps(resumed), str(epochs))
    return json.loads(out.split("RESULT ")[1].splitlines()[0])


STOCK = {"data_format": "NCHW", "stock": True}
NCHW, NHWC = {"data_format": "NCHW"}, {"data_format": "NHWC"}
FOLD = {"data_format": "NHWC", "fold": True}
# Few RoIs and features of 4 x 4, for the time it takes.
SMALL_C4 = (
    MASK_C4.replace("resolution: 8", "resolution: 4")
    .replace("batch_size_per_im: 16", "batch_size_per_im: 6")
    .replace("  train_proposal:", "  test_proposal: {post_nms_top_n: 12}\n  train_proposal:")
)


def assert_equal_losses(ours: list, theirs: list, tolerance: float = 1e-5) -> None:
    assert len(ours) == len(theirs) > 0
    for step, (one, other) in enumerate(zip(ours, theirs)):
        assert one.keys() == other.keys()
        for name, value in other.items():
            assert one[name] == pytest.approx(value, rel=tolerance, abs=tolerance), f"{name}, step {step}"


def assert_equal_runs(result: dict, first: str, name: str, steps: int = 8, tolerance: float = 1e-5) -> None:
    """Losses of every step, the weights after them, and the predictions made with these."""
    losses = result[first]["losses"]
    assert len(losses) == steps
    assert result["moved"] > 0.01, "the weights hardly move, so equal ones prove nothing"
    assert result["found"] > 0 and result["covered"] > 0.001, "nothing is predicted, so nothing is compared"
    run = result[name]
    assert run["layout"]
    assert_equal_losses(run["losses"], losses, tolerance)
    assert run["weights"] < 20 * tolerance  # float32 sums in another order, carried on by the updates
    assert run["numbers"] and run["boxes"] < 1e-3 and run["masks"] > 0.9999


def assert_transposes(result: dict, name: str, operators: int, gradients: int) -> None:
    counted = result[name]["transposes"]
    assert counted["operators"] == operators
    # Paddle 2.6 leads no gradient back to a level that has no RoI.
    assert 0 < counted["gradients"] <= gradients
    assert counted["gradients"] == gradients or result["paddle"].startswith("2.")


@pytest.mark.slow
def test_fpn_and_its_checkpoints(tmp_path, shapes):
    """Transposes: the image, four levels into RoIAlign, the mask head's RoI features."""
    resumed = [("nhwc after nchw", "nchw", NHWC), ("stock after nhwc", "nhwc", STOCK)]
    result = run(tmp_path, shapes, "", {"nchw": NCHW, "nhwc": NHWC}, resumed)
    assert not result["nchw"]["layout"]
    assert_equal_runs(result, "nchw", "nhwc")
    assert_transposes(result, "nhwc", 6, 5)
    for name, of, _ in resumed:
        assert_equal_losses(result[name]["losses"], result[of]["losses"][4:])
        assert result[name]["weights"] < 2e-4


@pytest.mark.slow
def test_c4(tmp_path, shapes):
    """Transposes: the image, its features into RoIAlign, RoI features for both heads."""
    result = run(tmp_path, shapes, SMALL_C4, {"nchw": NCHW, "nhwc": NHWC}, [])
    assert_equal_runs(result, "nchw", "nhwc")
    assert_transposes(result, "nhwc", 3, 2)


@pytest.mark.slow
def test_cascade_with_folded_norms(tmp_path, shapes):
    """Against stock. Three stages of boxes and the masks, still one transpose a level.

    Folding rounds otherwise: where a value is next to 0, ReLU lets it pass in one run and not in the other.
    """
    result = run(tmp_path, shapes, CASCADE, {"stock": STOCK, "fold": FOLD}, [], epochs=1)
    assert_equal_runs(result, "stock", "fold", steps=4, tolerance=1e-3)
    assert_transposes(result, "fold", 6, 5)
