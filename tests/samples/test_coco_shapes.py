"""The generated data set is a true COCO set: polygons, boxes and areas agree, and it can be drawn again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from detperf_plugins.samples.coco_shapes import CLASSES, write_coco_shapes


def test_annotations_agree_with_themselves(tmp_path):
    content = json.loads(
        write_coco_shapes(tmp_path / "a", images=12, size=100, seed=5).read_text(encoding="utf-8")
    )
    assert len(content["images"]) == 12 and len(content["categories"]) == len(CLASSES)
    used = {one["category_id"] for one in content["annotations"]}
    assert used == {1, 2, 3}
    for one in content["annotations"]:
        points = np.reshape(one["segmentation"][0], (-1, 2))
        x, y, w, h = one["bbox"]
        assert len(points) >= 3 and points.min() >= 0 and points.max() <= 100
        assert np.allclose([*points.min(axis=0), *points.max(axis=0)], [x, y, x + w, y + h], atol=0.02)
        assert 0 < one["area"] <= w * h


def test_a_seed_gives_the_same_set(tmp_path):
    first, again, other = (
        write_coco_shapes(tmp_path / name, images=3, seed=seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    name = "images/000001.png"
    assert (first.parent / name).read_bytes() == (again.parent / name).read_bytes()


def test_pictures_show_the_shapes(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    content = json.loads(write_coco_shapes(tmp_path / "a", images=4, seed=3).read_text(encoding="utf-8"))
    for one in content["annotations"]:
        picture = np.asarray(image_module.open(tmp_path / "a" / "images" / f"{one['image_id'] - 1:06d}.png"))
        x, y, w, h = one["bbox"]
        centre = picture[int(y + h / 2), int(x + w / 2)]
        assert picture.shape == (128, 128, 3) and centre.max() >= 120
