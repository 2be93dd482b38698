"""Evaluating a set with bad annotations: a clean set gives stock's AP to the bit, a fault costs its mask."""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import pytest

from detperf_plugins.paddledet import activate, deactivate
from tests.paddledet.scripts import OVERLAYS, run, tiny_config
from tests.paddledet.test_activation import DETPERF
from tests.paddledet.test_annotations import BAD_MASKS, annotation, triangle


@pytest.fixture()
def plain():
    deactivate()
    yield
    deactivate()


def truth(folder, annotations):
    content = {
        "images": [{"id": 5, "file_name": "a.png", "width": 90, "height": 60}],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "nut"}, {"id": 2, "name": "fig"}],
    }
    path = folder / "truth.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def evaluate(folder, path):
    """AP vectors of one right mask of each class, one wrong one, and one on the place of annotation 12."""
    from ppdet.metrics import COCOMetric
    from pycocotools import mask

    def found(category, score, x, y=8, size=12):
        (rle,) = mask.frPyObjects(triangle(x, y, size), 60, 90)
        rle["counts"] = rle["counts"].decode()
        return {"image_id": 5, "category_id": category, "score": score, "bbox": [x, y, size, size],
                "segmentation": rle}  # fmt: skip

    predictions = [found(2, 0.9, 5), found(1, 0.8, 31), found(2, 0.7, 60, 9, 11), found(1, 0.6, 5, 40)]
    metric = COCOMetric(str(path), output_eval=str(folder))
    metric.results["bbox"] = [{k: v for k, v in one.items() if k != "segmentation"} for one in predictions]
    metric.results["mask"] = [{k: v for k, v in one.items() if k != "bbox"} for one in predictions]
    metric.accumulate()
    return {kind: np.asarray(vector) for kind, vector in metric.get_results().items()}


GOOD = [annotation(11, 5), annotation(13, 60), annotation(14, 5, bbox=[5, 40, 12, 12],
                                                          segmentation=triangle(5, 40))]  # fmt: skip


def test_a_clean_set_gives_stocks_ap_to_the_bit(tmp_path, plain):
    rle = {"size": [60, 90], "counts": [1808, 12, 48, 12, 3520]}
    crowd = annotation(20, 50, iscrowd=1, segmentation={"size": [60, 90], "counts": [100, 5300]})
    path = truth(tmp_path, [*GOOD, annotation(12, 30), annotation(15, 30, segmentation=rle), crowd])
    stock = evaluate(tmp_path, path)
    activate()
    from detperf_plugins.paddledet.annotations import polygons_expected

    polygons_expected()
    ours = evaluate(tmp_path, path)
    deactivate()
    again = evaluate(tmp_path, path)
    assert set(stock) == {"bbox", "mask"} and 0 < stock["mask"][0] < 1
    for kind, vector in stock.items():
        np.testing.assert_array_equal(vector, ours[kind])
        np.testing.assert_array_equal(vector, again[kind])


@pytest.mark.parametrize("kind", [*BAD_MASKS, "a box of two points", "a crowd's", "absent"])
def test_a_bad_mask_is_left_out_of_the_masks_and_its_box_counts(kind, tmp_path, plain, caplog):
    changes = {"segmentation": BAD_MASKS.get(kind, [[24, 20, 38, 30]])}
    if kind == "absent":
        changes = {"segmentation": "absent"}
    if kind == "a crowd's":
        changes["iscrowd"] = 1
    activate()
    path = truth(tmp_path, [*GOOD, annotation(12, 30, **changes)])
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        spoilt = [evaluate(tmp_path, path) for _ in range(2)][1]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "image 5, annotation 12" in warning and "left out of the evaluation" in warning
    whole = evaluate(tmp_path, truth(tmp_path, [*GOOD, annotation(12, 30)]))
    if kind != "a crowd's":
        np.testing.assert_array_equal(spoilt["bbox"], whole["bbox"])
    # Neither a miss, nor is the prediction that lies there a false alarm.
    without = evaluate(tmp_path, truth(tmp_path, GOOD))
    assert spoilt["mask"][0] > without["mask"][0]


def test_parts_that_can_be_read_stay(tmp_path, plain, caplog):
    activate()
    whole = evaluate(tmp_path, truth(tmp_path, [*GOOD, annotation(12, 30)]))
    path = truth(tmp_path, [*GOOD, annotation(12, 30, segmentation=[*triangle(30, 8), [1, 2, 3, 4]])])
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        spoilt = evaluate(tmp_path, path)
    for kind, vector in whole.items():
        np.testing.assert_array_equal(vector, spoilt[kind])
    assert "1 part(s) kept" in caplog.text


@pytest.mark.parametrize(
    "changes", [{"bbox": "absent"}, {"bbox": [1, 2]}, {"category_id": 9}, {"image_id": "absent"}]
)
def test_a_bad_record_is_left_out(changes, tmp_path, plain):
    activate()
    without = evaluate(tmp_path, truth(tmp_path, GOOD))
    spoilt = evaluate(tmp_path, truth(tmp_path, [*GOOD, annotation(12, 30, **changes)]))
    for kind, vector in without.items():
        np.testing.assert_array_equal(vector, spoilt[kind])


def test_missing_keys_are_filled_in(tmp_path, plain):
    activate()
    whole = evaluate(tmp_path, truth(tmp_path, GOOD))
    bare = annotation(11, 5, id="absent", area="absent", iscrowd="absent")
    for kind, vector in evaluate(tmp_path, truth(tmp_path, [bare, *GOOD[1:]])).items():
        np.testing.assert_array_equal(vector, whole[kind])


@pytest.mark.slow
def test_the_command_ends_well_on_a_bad_evaluation_set(tmp_path, shapes):
    shutil.copytree(shapes / "val", tmp_path / "val")
    file = tmp_path / "val" / "annotations.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["annotations"][2]["segmentation"] = [[24, 20, 38, 30]]
    file.write_text(json.dumps(content), encoding="utf-8")
    data = {"EvalDataset": {"dataset_dir": str(tmp_path / "val")}, "snapshot_epoch": 1, "epoch": 12}
    config = tiny_config(tmp_path, shapes, OVERLAYS / "exact_targets.yml", **data)
    output = run([DETPERF, "train", "-c", str(config), "--eval", "--seed", "1"], cwd=tmp_path)
    named = f"annotation {content['annotations'][2]['id']}: a part of 2 points"
    assert output.count(named) == 1 and "Trained 12 epochs" in output
