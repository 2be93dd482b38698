"""Every overlay over every config it claims: loads through stock load_config, builds, and takes a step.

Without a PaddleDetection checkout (PADDLEDETECTION) the configs are our own complete ones; with it, all of
its Mask R-CNN and Cascade R-CNN configs too, and two of Faster R-CNN. Pictures are small, RoIs few, and
networks shallow but for the overlays that are recommended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from detperf_plugins import configs_dir
from tests.paddledet.scripts import OVERLAYS, run

# One import of the host for many configs: each is loaded in a fork, since ppdet merges into one global dict.
SCRIPT = """
import gc, json, os, sys, traceback
import numpy as np, paddle
from ppdet.core.workspace import create, load_config, merge_config
import ppdet.engine
from detperf_plugins.paddledet.compat import mend_host

def tensors(value):
    if isinstance(value, np.ndarray): return paddle.to_tensor(value)
    return [tensors(one) for one in value] if isinstance(value, list) else value

def samples(size):
    rng = np.random.default_rng(0)
    return [{"image": rng.normal(size=(3, size, size)).astype(np.float32), "im_id": np.array([i]),
             "im_shape": np.array([size, size], np.float32), "scale_factor": np.ones(2, np.float32),
             "gt_bbox": np.array([[8, 8, 40, 50], [20, 15, 62, 60]], np.float32),
             "gt_class": np.array([[3], [70]], np.int32), "is_crowd": np.zeros((2, 1), np.int32),
             "gt_poly": [[[8.0, 8, 40, 8, 40, 50, 8, 50]], [[20.0, 15, 62, 15, 40, 60]]]} for i in range(2)]

def step(path, depth):
    cfg = load_config(path)
    merge_config({"BBoxAssigner": {"batch_size_per_im": 4}, "FPN": {"out_channel": 32},
                  "MaskFeat": {"out_channel": 32}, "TwoFCHead": {"out_channel": 64},
                  "CascadeTwoFCHead": {"out_channel": 64}})
    if depth and cfg["ResNet"].get("groups", 1) == 1:  # only bottlenecks have groups
        merge_config({"ResNet": {"depth": depth}, "Res5Head": {"depth": depth}})
    mend_host()
    paddle.seed(0)
    model = create(cfg.architecture)
    model.train()
    optimizer = create("OptimizerBuilder")(create("LearningRate")(10), model)
    reader = create("TrainReader")
    batch = reader._batch_transforms(samples(64))
    loss = model({key: value if key == "gt_poly" else tensors(value) for key, value in batch.items()})["loss"]
    loss.backward()
    trained = [(name, p) for name, p in model.named_parameters() if not p.stop_gradient]
    # Stock's heads give their box deltas no gradient in a step, or a cascade stage, without foreground.
    stock = type(model.bbox_head).__name__.startswith("Perf") is False
    missing = [name for name, p in trained if p.grad is None]
    bad = [name for name in missing if not (stock and name.startswith("bbox_head"))]
    trained = [(name, p) for name, p in trained if p.grad is not None]
    bad += [name for name, p in trained if not bool(p.grad.abs().sum().isfinite())]
    before = {name: p.numpy() for name, p in trained[:3]}
    optimizer._learning_rate.base_lr = optimizer._learning_rate.last_lr = 0.01
    optimizer.step()
    still = [name for name, p in trained[:3] if (p.numpy() == before[name]).all()]
    assigner = getattr(getattr(model, "mask_head", None), "mask_assigner", None)
    return {
        "loss": float(loss), "bad": bad, "still": still, "optimizer": type(optimizer).__name__,
        "backbone": type(model.backbone).__name__, "assigner": type(assigner).__name__,
        "size": getattr(assigner, "mask_resolution", 0), "classes": model.bbox_head.num_classes,
        "transforms": [type(one).__name__ for one in reader._batch_transforms.transforms_cls],
        "channels last": getattr(model.backbone, "channels_last", False),
        "folded": sum(type(layer).__name__ == "FoldedConvNorm" for layer in model.sublayers()) > 0,
        "amp": [cfg.get(key) for key in ("amp", "amp_level", "master_grad")],
        "black": len(cfg.get("custom_black_list") or []), "workers": cfg.worker_num,
        "said": [str(cfg[key]) for key in ("autotune", "prefetch") if key in cfg],
    }

gc.freeze()  # forks then share their parent's memory
for path in sys.argv[1:]:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    try:
        # Bottlenecks, which the shallow networks lack, in the overlays that are recommended.
        result = step(path, 0 if "recommended" in path else 18)
    except BaseException:
        result = {"error": traceback.format_exc()[-1500:]}
    print("RESULT " + json.dumps({"path": path, **result}), flush=True)
    os._exit(0)
"""
OURS = {"c4": OVERLAYS / "mask_rcnn_r50_1x_coco.yml", "fpn": OVERLAYS / "mask_rcnn_r50_fpn_1x_coco.yml"}
COMPLETE = {path.name for path in OURS.values()}
ALL = sorted(path.name for path in OVERLAYS.glob("*.yml") if path.name not in COMPLETE)
# What an overlay changes; what is not named here is as in the config itself.
STOCK = {
    "optimizer": "Momentum",
    "backbone": "ResNet",
    "assigner": "MaskAssigner",
    "classes": 80,
    "transforms": ["PadBatch"],
    "channels last": False,
    "folded": False,
    "amp": [None, None, None],
    "black": 0,
    "workers": 2,
    "said": [],
}
PARTS = {"backbone": "PerfResNet", "assigner": "PolygonMaskAssigner"}
IN_LOADER = {**PARTS, "transforms": ["PadBatch", "PackPolygons", "AssignRPNTargets"]}
NHWC_AMP = {
    **PARTS,
    "channels last": True,
    "folded": True,
    "amp": [True, "O1", None],
    "black": 7,
    "optimizer": "PerfMomentum",
}
EXPECTED = {
    "bitmap_targets": {"assigner": "BitmapMaskAssigner", "transforms": ["PadBatch", "PolyToBitmap"]},
    "exact_parts": PARTS,
    "exact_parts_loader": IN_LOADER,
    "exact_targets": {"assigner": "PolygonMaskAssigner"},
    "exact_targets_loader": {"assigner": "PolygonMaskAssigner", "transforms": ["PadBatch", "PackPolygons"]},
    "mask_rcnn_r50_amp_o1": {"amp": [True, "O1", None], "black": 7},
    "mask_rcnn_r50_amp_o2": {"amp": [True, "O2", True], "black": 18},
    "mask_rcnn_r50_autotune": {"said": ["autotune: nothing"]},
    "mask_rcnn_r50_fold_norm": {**PARTS, "folded": True},
    "mask_rcnn_r50_loader": {"workers": 4, "said": ["prefetch: 4 batches a worker"]},
    "mask_rcnn_r50_multi_tensor": {"optimizer": "PerfMomentum"},
    "mask_rcnn_r50_nhwc": {**PARTS, "channels last": True},
    "mask_rcnn_r50_nhwc_amp": NHWC_AMP,
    "mask_rcnn_r50_nhwc_amp_loader": {**NHWC_AMP, "transforms": IN_LOADER["transforms"]},
}


def expected(overlay: str) -> dict:
    stem = overlay[: -len(".yml")]
    for kind in OURS:
        if stem.endswith(f"_{kind}"):
            stem = stem[: -len(kind) - 1]
            stem = stem if stem in {"bitmap_targets"} else f"{stem}_loader"
    return {**STOCK, **EXPECTED[stem]}


def cases(bases: dict[str, Path]) -> list[tuple[str, str]]:
    """(config, overlay) of everything that is claimed to work together."""
    found = []
    for name, path in bases.items():
        unfit = ["_c4.yml" if "fpn" in path.stem else "_fpn.yml"]
        if "mask" not in path.stem:
            unfit = ["_c4.yml", "_fpn.yml", "targets.yml"]
        found += [(name, overlay) for overlay in ALL if not overlay.endswith(tuple(unfit))]
    return found


def take_steps(tmp_path: Path, bases: dict[str, Path]) -> None:
    files = {}
    for index, (base, overlay) in enumerate(cases(bases)):
        recommended = overlay in ("mask_rcnn_r50_nhwc_amp_c4.yml", "mask_rcnn_r50_nhwc_amp_fpn.yml")
        config = tmp_path / f"{index}{'-recommended' * recommended}.yml"
        chain = [str(bases[base]), str(OVERLAYS / overlay)]
        config.write_text(f"_BASE_: {json.dumps(chain)}\n", encoding="utf-8")
        files[str(config)] = (base, overlay)
    output = run([sys.executable, "-c", SCRIPT, *files], env={"OMP_NUM_THREADS": "1"})
    results = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    assert len(results) == len(files) > 0
    for result in results:
        case = files[result.pop("path")]
        assert "error" not in result, (case, result["error"])
        assert 0 < result.pop("loss") < 1e4, case
        assert result.pop("bad") == [] == result.pop("still"), case
        masks = "mask" in bases[case[0]].stem
        assert result.pop("size") == (28 if "fpn" in case[0] else 14) * masks, case
        wanted = expected(case[1])
        assert result == (wanted if masks else {**wanted, "assigner": "NoneType"}), case


@pytest.mark.slow
def test_every_overlay_on_our_configs(tmp_path):
    """The two complete configs that are shipped; the third, the demo's, is trained in other tests."""
    take_steps(tmp_path, OURS)


def stock_configs() -> dict[str, Path]:
    checkout = os.environ.get("PADDLEDETECTION")
    if not checkout:
        return {}
    configs = Path(checkout, "configs")
    paths = [*configs.glob("mask_rcnn/mask_rcnn*coco.yml"), *configs.glob("cascade_rcnn/cascade*coco.yml")]
    paths += [configs / "faster_rcnn" / f"faster_rcnn_r50_{kind}1x_coco.yml" for kind in ("", "fpn_")]
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(paths)}


@pytest.mark.slow
@pytest.mark.skipif("PADDLEDETECTION" not in os.environ, reason="PADDLEDETECTION names no checkout")
@pytest.mark.parametrize("base", stock_configs())
def test_every_overlay_on_stock_configs(base, tmp_path):
    """1x and 2x, C4 and FPN, vd, ssld, ResNet-101, ResNeXt-101, Cascade with and without masks, Faster."""
    take_steps(tmp_path, {base: stock_configs()[base]})


def test_every_overlay_is_expected_here_and_described_in_the_docs():
    for overlay in ALL:
        expected(overlay)
    page = (configs_dir().parent / "docs" / "overlays.md").read_text(encoding="utf-8")
    assert [name for name in ALL if f"`{name[: -len('.yml')]}`" not in page] == []
