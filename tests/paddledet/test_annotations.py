"""COCODataSet behind the guard: one bad annotation costs one mask or one record, and shifts nothing."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from PIL import Image

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.annotations import check_annotations
from detperf_plugins.paddledet.polygons import NO_MASK

FIELDS = ["image", "gt_bbox", "gt_class", "gt_poly", "is_crowd"]


def triangle(x, y, size=12):
    return [[x, y, x + size, y, x, y + size]]


def annotation(number, x, **changes):
    made = {
        "id": number, "image_id": 5, "category_id": 1 + number % 2, "iscrowd": 0, "area": 72.0,
        "bbox": [x, 8, 12, 12], "segmentation": triangle(x, 8),
    }  # fmt: skip
    made.update(changes)
    return {key: value for key, value in made.items() if value != "absent"}


def load(tmp_path, annotations, fields=FIELDS, **options):
    from ppdet.data.source.coco import COCODataSet

    Image.new("RGB", (90, 60)).save(tmp_path / "a.png")
    content = {
        "images": [{"id": 5, "file_name": "a.png", "width": 90, "height": 60}],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "nut"}, {"id": 2, "name": "fig"}],
    }
    (tmp_path / "ann.json").write_text(json.dumps(content), encoding="utf-8")
    dataset = COCODataSet(str(tmp_path), "", "ann.json", data_fields=list(fields), **options)
    dataset.parse_dataset()
    return dataset.roidbs


BAD_MASKS = {
    "empty list": [],
    "empty part": [[]],
    "null": None,
    "two points": [[30, 8, 42, 20]],
    "odd count": [[30, 8, 42, 8, 30]],
    "NaN": [[30, 8, float("nan"), 8, 30, 20]],
    "huge": [[30, 8, 1e9, 8, 30, 20]],
    "outside": triangle(300, 300),
    "RLE of the turned image": {"size": [90, 60], "counts": [100, 20, 5280]},
    "RLE too long": {"size": [60, 90], "counts": [100, 20, 9999]},
}


@pytest.mark.parametrize("kind", BAD_MASKS)
def test_a_bad_mask_keeps_its_box_and_its_neighbours(kind, tmp_path, activated, caplog):
    good = [annotation(11, 5), annotation(13, 60)]
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        (record,) = load(tmp_path, [good[0], annotation(12, 30, segmentation=BAD_MASKS[kind]), good[1]])
    assert record["gt_bbox"].tolist() == [[5, 8, 17, 20], [30, 8, 42, 20], [60, 8, 72, 20]]
    assert record["gt_class"].reshape(-1).tolist() == [1, 0, 1]
    assert record["gt_poly"] == [triangle(5, 8), NO_MASK, triangle(60, 8)]
    warnings = [r.getMessage() for r in caplog.records]
    assert len(warnings) == 1 and "image 5, annotation 12" in warnings[0] and "weight 0" in warnings[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"bbox": [float("inf"), float("inf"), float("-inf"), float("-inf")]}, "no finite number"),
        ({"bbox": [1, 2, 3]}, "four numbers"),
        ({"category_id": 9}, "unknown category_id 9"),
    ],
)
def test_a_bad_record_is_left_out(changes, word, tmp_path, activated, caplog):
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        (record,) = load(tmp_path, [annotation(11, 5), annotation(12, 30, **changes)])
    assert len(record["gt_bbox"]) == 1 and np.isfinite(record["gt_bbox"]).all()
    assert word in caplog.text and "annotation 12" in caplog.text


def test_records_that_cannot_be_filed_cost_only_themselves(tmp_path, activated, caplog):
    rest = [annotation(11, 5), annotation(13, 60)]
    bad = [
        annotation(12, 30, image_id="absent"),
        annotation(14, 30, image_id=[5]),
        annotation(15, 30, category_id={}),
        annotation(16, 30, id="absent"),
        7,
    ]
    (sample,) = load(tmp_path, [rest[0], *bad, rest[1]])
    np.testing.assert_array_equal(sample["gt_bbox"][:, 0], [5, 30, 60])
    for words in (
        "annotation 12: it has no image_id",
        "annotation 14: it has no image_id",
        "annotation 15: unknown category_id {}",
        "no id; it gets the id 16",
        "it is no object",
    ):
        assert words in caplog.text, words


def test_missing_keys_are_filled_in(tmp_path, activated):
    (record,) = load(tmp_path, [annotation(11, 5, area="absent", iscrowd="absent")])
    assert len(record["gt_bbox"]) == 1 and record["is_crowd"].tolist() == [[0]]


def test_a_box_outside_the_image_loses_its_mask(tmp_path, activated, caplog):
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        (record,) = load(tmp_path, [annotation(11, 5), annotation(12, 200)])
    assert record["gt_poly"][1] == NO_MASK and "box outside its 90 x 60 image" in caplog.text


def test_a_detection_data_set_is_refused_for_masks_and_taken_for_boxes(tmp_path, activated):
    boxes_only = [annotation(n, 5 * n, segmentation="absent") for n in (1, 2, 3)]
    with pytest.raises(DetperfError, match="0 of 3 annotations have a mask"):
        load(tmp_path, boxes_only)
    (record,) = load(tmp_path, boxes_only, fields=["image", "gt_bbox", "gt_class"])
    assert len(record["gt_bbox"]) == 3


def test_a_clean_file_is_read_as_stock_reads_it(tmp_path):
    from detperf_plugins.paddledet import activate, deactivate

    annotations = [annotation(n, 5 * n) for n in range(1, 8)]
    annotations.append(annotation(20, 50, iscrowd=1, segmentation={"size": [60, 90], "counts": [100, 5300]}))
    annotations.append(annotation(21, 55, segmentation=triangle(55, 8) + triangle(70, 30)))
    annotations.append(annotation(22, 78.5, segmentation=triangle(78.5, 8)))  # overshoots by half a pixel
    (stock,) = load(tmp_path, annotations, load_crowd=True)
    activate()
    try:
        (ours,) = load(tmp_path, annotations, load_crowd=True)
    finally:
        deactivate()
    assert stock.keys() == ours.keys() and stock["gt_poly"] == ours["gt_poly"]
    for key in ("gt_bbox", "gt_class", "is_crowd"):
        np.testing.assert_array_equal(stock[key], ours[key])


def test_many_faults_of_one_kind_are_counted(tmp_path, activated, caplog):
    bad = [annotation(n, 5, segmentation=[]) for n in range(2, 60)]
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        load(tmp_path, [annotation(1, 5), *bad])
    assert len(caplog.records) == 21 and "58 annotations in all" in caplog.records[-1].getMessage()


def test_rle_is_reported_where_polygons_are_expected(tmp_path, activated, caplog):
    from detperf_plugins.paddledet.transforms import PackPolygons

    PackPolygons()
    rle = {"size": [60, 90], "counts": [100, 20, 5280]}
    with caplog.at_level(logging.WARNING, "detperf_plugins"):
        (record,) = load(tmp_path, [annotation(11, 5), annotation(12, 30, segmentation=rle)])
    assert record["gt_poly"][1] == rle
    assert "annotation 12" in caplog.text and "PolyToBitmap" in caplog.text


def test_real_files_give_findings_only_where_faults_are(data):
    for name, most in {"icevision_coco6": 0, "fruit_nuts": 0, "taco": 40}.items():
        file = next((data / name).glob("*.json"))
        content = json.loads(file.read_text(encoding="utf-8"))
        findings = check_annotations(content)
        assert len(findings) <= most, [str(one) for one in findings[:5]]
