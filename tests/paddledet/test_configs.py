"""Every overlay over every config it claims: loads through stock load_config, builds, and takes a step."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from detperf_plugins import configs_dir
from tests.paddledet.scripts import OVERLAYS, run

# One import of the host for many configs: each is loaded in a fork, since ppdet merges into one global dict.
BUILD = """
import json, os, sys, traceback
from ppdet.core.workspace import create, load_config
import ppdet.engine
for path in sys.argv[1:]:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    try:
        cfg = load_config(path)
        head = cfg["MaskHead"]
        assigner = create(head["mask_assigner"])
        reader = create("TrainReader")
        result = {
            "assigner": type(assigner).__name__, "size": assigner.mask_resolution,
            "classes": assigner.num_classes,
            "batch": [type(f).__name__ for f in reader._batch_transforms.transforms_cls],
        }
    except BaseException:
        result = {"error": traceback.format_exc()}
    print("RESULT " + json.dumps({"path": path, **result}), flush=True)
    os._exit(0)
"""
COMPLETE = {"c4": OVERLAYS / "mask_rcnn_r50_1x_coco.yml", "fpn": OVERLAYS / "mask_rcnn_r50_fpn_1x_coco.yml"}
EXPECTED = {
    "exact_parts.yml": ("PolygonMaskAssigner", ["PadBatch"]),
    "exact_parts_c4.yml": ("PolygonMaskAssigner", ["PadBatch", "PackPolygons", "AssignRPNTargets"]),
    "exact_parts_fpn.yml": ("PolygonMaskAssigner", ["PadBatch", "PackPolygons", "AssignRPNTargets"]),
    "exact_targets.yml": ("PolygonMaskAssigner", ["PadBatch"]),
    "exact_targets_c4.yml": ("PolygonMaskAssigner", ["PadBatch", "PackPolygons"]),
    "exact_targets_fpn.yml": ("PolygonMaskAssigner", ["PadBatch", "PackPolygons"]),
    "bitmap_targets_c4.yml": ("BitmapMaskAssigner", ["PadBatch", "PolyToBitmap"]),
    "bitmap_targets_fpn.yml": ("BitmapMaskAssigner", ["PadBatch", "PolyToBitmap"]),
}


def bases() -> dict[str, tuple[str, Path]]:
    """Stock configs by name: ours, and those of a checkout where PADDLEDETECTION names one."""
    found = {path.stem: (kind, path) for kind, path in COMPLETE.items()}
    checkout = os.environ.get("PADDLEDETECTION")
    for path in sorted(Path(checkout, "configs").glob("*/*mask_rcnn_r*coco.yml")) if checkout else []:
        if path.parent.name in {"mask_rcnn", "cascade_rcnn"}:
            found[f"{path.parent.name}/{path.stem}"] = ("fpn" if "fpn" in path.stem else "c4", path)
    return found


def claims() -> list[tuple[Path, str, str]]:
    """(config, kind, overlay) of everything that is claimed to work together."""
    return [
        (path, kind, overlay)
        for kind, path in bases().values()
        for overlay in EXPECTED
        if overlay in {"exact_targets.yml", "exact_parts.yml"} or overlay.endswith(f"_{kind}.yml")
    ]


def test_every_overlay_on_every_config(tmp_path):
    expected = {}
    for index, (base, kind, overlay) in enumerate(claims()):
        config = tmp_path / f"{index}.yml"
        config.write_text(f"_BASE_: {json.dumps([str(base), str(OVERLAYS / overlay)])}\n", encoding="utf-8")
        assigner, transforms = EXPECTED[overlay]
        size = 28 if kind == "fpn" else 14
        made = {"assigner": assigner, "size": size, "classes": 80, "batch": transforms}
        expected[str(config)] = (base.stem, overlay, made)
    output = run([sys.executable, "-c", BUILD, *expected])
    results = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    assert len(results) == len(expected) >= 10
    for result in results:
        base, overlay, made = expected[result.pop("path")]
        assert result == made, (base, overlay, result)


def test_every_shipped_config_says_what_it_changes():
    from detperf_plugins.cli.configs import list_configs

    rows = list_configs()
    assert {Path(row["name"]).name for row in rows} >= set(EXPECTED)
    assert all(len(row["changes"]) > 20 for row in rows)


@pytest.mark.skipif("PADDLEDETECTION" not in os.environ, reason="PADDLEDETECTION names no checkout")
@pytest.mark.parametrize("kind", COMPLETE)
def test_complete_configs_are_stocks(kind):
    """Our one-file configs merge to what the checkout's files merge to."""
    code = (
        "import json, sys\nfrom ppdet.core.workspace import load_config\nimport ppdet.engine\n"
        "cfg = load_config(sys.argv[1])\n"
        "print('RESULT ' + json.dumps({k: v for k, v in cfg.items() if v}, default=str))"
    )
    stock = Path(os.environ["PADDLEDETECTION"], "configs", "mask_rcnn", COMPLETE[kind].name)
    merged = []
    for path in (COMPLETE[kind], stock):
        output = run([sys.executable, "-c", code, str(path)])
        merged.append(
            json.loads(next(line for line in output.splitlines() if line.startswith("RESULT "))[7:])
        )
    for key in merged[1]:
        if "LearningRate" not in key:
            assert merged[0].get(key) == merged[1][key], key


STEP = """
import sys
import numpy as np, paddle
from ppdet.core.workspace import create, load_config, merge_config
import ppdet.engine
cfg = load_config(sys.argv[1])
from detperf_plugins.paddledet.compat import mend_host
mend_host()
paddle.seed(0)
model = create(cfg.architecture)
model.train()
rng = np.random.default_rng(0)
samples = [{"image": rng.normal(size=(3, 96, 96)).astype(np.float32), "im_id": np.array([i]),
            "im_shape": np.array([96, 96], np.float32), "scale_factor": np.ones(2, np.float32),
            "gt_bbox": np.array([[8, 8, 60, 70], [30, 20, 90, 88]], np.float32),
            "gt_class": np.array([[3], [70]], np.int32), "is_crowd": np.zeros((2, 1), np.int32),
            "gt_poly": [[[8.0, 8, 60, 8, 60, 70, 8, 70]], [[30.0, 20, 90, 20, 60, 88]]]} for i in range(2)]
reader = create("TrainReader")
batch = reader._batch_transforms(samples)
def tensors(value):
    if isinstance(value, np.ndarray): return paddle.to_tensor(value)
    return [tensors(one) for one in value] if isinstance(value, list) else value
loss = model({key: tensors(value) if key != "gt_poly" else value for key, value in batch.items()})["loss"]
loss.backward()
missing = [name for name, p in model.named_parameters() if not p.stop_gradient and p.grad is None]
print("RESULT", float(loss), missing)
"""


@pytest.mark.slow
@pytest.mark.parametrize("overlay", ["exact_parts_c4.yml", "exact_parts_fpn.yml", "bitmap_targets_fpn.yml"])
def test_a_full_model_takes_a_step(overlay, tmp_path):
    """ResNet-50 at 96 pixels, two images: a finite loss, and a gradient for every trainable parameter."""
    base = COMPLETE["c4" if "c4" in overlay else "fpn"]
    config = tmp_path / "user.yml"
    config.write_text(f"_BASE_: {json.dumps([str(base), str(OVERLAYS / overlay)])}\n", encoding="utf-8")
    output = run([sys.executable, "-c", STEP, str(config)])
    _, loss, missing = next(line for line in output.splitlines() if line.startswith("RESULT ")).split(" ", 2)
    assert 0 < float(loss) < 1e4 and missing == "[]"


def test_configs_travel_with_the_package():
    assert (configs_dir() / "paddledet" / "mask_rcnn" / "exact_targets.yml").is_file()
