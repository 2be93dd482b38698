"""Training through a data set with one fault of each kind: it ends well, and each fault is named once."""

from __future__ import annotations

import json
import math
import shutil
import sys

import pytest

from tests.paddledet.scripts import OVERLAYS, STOCK_SCRIPT, run, tiny_config

FAULTS = {
    "no polygon": [],
    "an empty part": [[]],
    "2 points": [[10, 10, 30, 40]],
    "odd number": [[10, 10, 30, 10, 30]],
    "no finite number": [[10, 10, float("nan"), 10, 30, 40]],
    "beyond": [[10, 10, 1e9, 10, 30, 40]],
    "run-length": {"size": [96, 96], "counts": [1000, 500, 7716]},
    "outside": [[500, 500, 540, 500, 540, 560]],
}


@pytest.fixture(scope="module")
def spoilt(shapes, tmp_path_factory):
    """The shapes with one annotation of each fault added, spread over the pictures, and a box outside."""
    root = tmp_path_factory.mktemp("spoilt")
    shutil.copytree(shapes / "train", root / "train")
    shutil.copytree(shapes / "val", root / "val")
    path = root / "train" / "annotations.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    images = [image["id"] for image in content["images"]]
    for number, segmentation in enumerate([*FAULTS.values(), [[10, 10, 30, 10, 30, 40]]]):
        content["annotations"].insert(
            3 * number,
            {
                "id": 1000 + number, "image_id": images[number % len(images)], "category_id": 1, "iscrowd": 0,
                "area": 600, "bbox": [10, 10, 20, 30] if number < len(FAULTS) else [200, 10, 20, 30],
                "segmentation": segmentation,
            },
        )  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    "overlay", ["exact_targets.yml", "exact_targets_fpn.yml", "bitmap_targets_fpn.yml", "exact_parts_fpn.yml"]
)
def test_training_survives_every_fault(overlay, spoilt, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(STOCK_SCRIPT, encoding="utf-8")
    config = tiny_config(tmp_path / "run", spoilt, OVERLAYS / overlay, worker_num=1)
    output = run([sys.executable, str(script), str(config)])
    loss = float(next(line.split()[1] for line in output.splitlines() if line.startswith("LOSS ")))
    assert math.isfinite(loss) and loss > 0
    for number, word in enumerate(FAULTS):
        named = [line for line in output.splitlines() if f"annotation {1000 + number}:" in line]
        if word == "run-length" and overlay == "bitmap_targets_fpn.yml":
            assert named == []  # bitmaps are made from RLE too
        elif word == "run-length" and overlay in {"exact_targets.yml"}:
            assert "run-length" in output  # met in the step: the assigner is built after the data set is read
        else:
            assert len(named) == 1 and word in named[0], (word, named)
    assert f"annotation {1000 + len(FAULTS)}: a box outside its 96 x 96 image" in output
