"""Kind a: every fault of a COCO file is named with the ids of its image and annotation."""

from __future__ import annotations

import json
import math

import pytest

from detperf_plugins.doctor.lint import Options, lint_file

from .support import coco, found, run, square, write

RING = square(52.0, 30.0)
RLE = {"size": [80, 100], "counts": [4030, 10, 70, 10, 3880]}

CASES = {
    "empty list": ({"segmentation": []}, "coco-empty-segmentation", "warning"),
    "empty part": ({"segmentation": [[]]}, "coco-empty-segmentation", "warning"),
    "null": ({"segmentation": None}, "coco-empty-segmentation", "warning"),
    "no key": ({"segmentation": ...}, "coco-empty-segmentation", "warning"),
    "two points beside a good part": (
        {"segmentation": [RING, [3, 3, 9, 9]]},
        "coco-part-too-short",
        "warning",
    ),
    "one point beside a good part": ({"segmentation": [RING, [3, 3]]}, "coco-part-too-short", "warning"),
    "two points alone": ({"segmentation": [[52, 30, 62, 40]]}, "coco-part-too-short", "warning"),
    "pairs": ({"segmentation": [[52, 30], [62, 30], [62, 40]]}, "coco-point-pairs", "error"),
    "pairs in a part": ({"segmentation": [[[52, 30], [62, 30], [62, 40]]]}, "coco-point-pairs", "error"),
    "no outer list": ({"segmentation": RING}, "coco-point-pairs", "error"),
    "odd count": ({"segmentation": [RING[:-1]]}, "coco-odd-coordinates", "error"),
    "null coordinate": ({"segmentation": [[None, *RING[1:]]]}, "coco-bad-coordinate", "error"),
    "text coordinate": ({"segmentation": [["52", *RING[1:]]]}, "coco-bad-coordinate", "error"),
    "text": ({"segmentation": "polygon"}, "coco-bad-coordinate", "error"),
    "outside": ({"segmentation": [square(130, 90)]}, "coco-outside-image", "warning"),
    "huge": ({"segmentation": [[*RING[:6], 4.1e8, 2.2e8]]}, "coco-huge-coordinate", "error"),
    "line": ({"segmentation": [[52, 30, 57, 35, 62, 40]]}, "coco-zero-area", "warning"),
    "over the edge": (
        {"segmentation": [square(92, 71)], "bbox": [92, 71, 10, 10]},
        "coco-over-edge",
        "hint",
    ),
    "bow-tie": ({"segmentation": [[52, 30, 62, 40, 62, 30, 52, 40]]}, "coco-self-intersection", "hint"),
    "hole": (
        {"segmentation": [square(20, 20, 40), square(30, 30, 9)], "bbox": [20, 20, 40, 40], "area": 1600},
        "coco-nested-parts",
        "hint",
    ),
    "RLE instance": ({"segmentation": RLE}, "coco-rle-instance", "warning"),
    "RLE size swapped": ({"segmentation": {**RLE, "size": [100, 80]}}, "coco-rle-size", "error"),
    "RLE counts short": ({"segmentation": {**RLE, "counts": [4030, 10]}}, "coco-rle-counts", "error"),
    "zero width": ({"bbox": [52, 30, 0, 10]}, "coco-bad-box", "error"),
    "negative height": ({"bbox": [52, 30, 10, -10]}, "coco-bad-box", "error"),
    "three numbers": ({"bbox": [52, 30, 10]}, "coco-bad-box", "error"),
    "no box": ({"bbox": ...}, "coco-bad-box", "error"),
    "box elsewhere": ({"bbox": [2, 2, 10, 10]}, "coco-box-mask-differ", "warning"),
    "no area": ({"area": ...}, "coco-area-missing", "warning"),
    "zero area": ({"area": 0}, "coco-area-zero", "warning"),
    "no iscrowd": ({"iscrowd": ...}, "coco-iscrowd-missing", "warning"),
    "unknown category": ({"category_id": 9}, "coco-unknown-category", "error"),
    "unknown image": ({"image_id": 99}, "coco-unknown-image", "error"),
    "text image id": ({"image_id": "2"}, "coco-unknown-image", "error"),
    "id twice": ({"id": 11}, "coco-duplicate-id", "warning"),
    "pixel contour": (
        {
            "segmentation": [
                [v for k in range(3000) for v in (57 + 5 * math.cos(k / 478), 35 + 5 * math.sin(k / 478))]
            ]
        },
        "coco-many-vertices",
        "hint",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_with_its_ids(name, tmp_path):
    change, rule, severity = CASES[name]
    findings = found(tmp_path, "set.json", coco(change))
    assert rule in findings, sorted(findings)
    finding = findings[rule]
    assert finding.severity == severity
    row = coco(change)["annotations"][2]
    assert finding.records[0]["annotation_id"] == row["id"]
    assert finding.records[0]["image_id"] == row["image_id"]
    assert str(row["id"]) in finding.message


def test_a_correct_file_has_no_finding(tmp_path):
    assert found(tmp_path, "set.json", coco()) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"segmentation": [square(90, 70)], "bbox": [90, 70, 10, 10]},  # on the edge: legal
        {"segmentation": [[*RING[:2], *RING, *RING[-2:], *RING[:2]]]},  # repeated and closing points
        {"segmentation": [square(52, 30, 4), square(58, 36, 4)]},  # an object in two parts
        {"segmentation": [[52.9, 30.4, 61.8, 30.4, 61.8, 39.7, 52.9, 39.7]]},  # fractions of a pixel
        {"segmentation": RLE, "iscrowd": 1},  # one crowd region
    ],
)
def test_legal_annotations_are_left_alone(change, tmp_path):
    assert found(tmp_path, "set.json", coco(change)) == {}


def test_text_ids_are_told_from_unknown_ones(tmp_path):
    finding = found(tmp_path, "set.json", coco({"image_id": "2"}))["coco-unknown-image"]
    assert "another type" in finding.message


def test_many_records_make_one_finding(tmp_path):
    data = coco()
    for row in data["annotations"]:
        row.pop("area")
    finding = found(tmp_path, "set.json", data)["coco-area-missing"]
    assert finding.count == 4 and [r["annotation_id"] for r in finding.records] == [11, 12, 13, 14]


def test_a_detection_set_is_one_error(tmp_path):
    data = coco()
    for index, row in enumerate(data["annotations"]):
        row["segmentation"] = None
        if index % 2:
            del row["segmentation"]
    findings = found(tmp_path, "boxes.json", data)
    assert list(findings) == ["coco-no-masks"]
    assert "0 of 4" in findings["coco-no-masks"].message


def test_a_set_of_crowds_is_named(tmp_path):
    data = coco()
    for row in data["annotations"][:3]:
        row.update(iscrowd=1, segmentation=RLE)
    assert "3 of 4" in found(tmp_path, "set.json", data)["coco-crowd-mostly"].message


def test_literal_infinity_is_read_and_named(tmp_path):
    data = coco({"bbox": [math.inf, math.inf, -math.inf, math.nan], "segmentation": [], "area": 0})
    data["images"][0]["file_name"] = 'NaN, "Infinity" .png'  # the same words inside a text must survive
    findings = found(tmp_path, "set.json", data)
    assert {"coco-nonfinite-literal", "coco-bad-box", "coco-empty-segmentation"} <= set(findings)
    assert "Infinity" in findings["coco-bad-box"].message


def test_images_without_instances_are_a_hint(tmp_path):
    data = coco()
    data["images"].append({"id": 5, "file_name": "empty.png", "width": 10, "height": 10})
    finding = found(tmp_path, "set.json", data)["coco-no-instances"]
    assert finding.severity == "hint" and finding.records[0]["image_id"] == 5


def test_mask_memory_is_estimated(tmp_path):
    data = coco()
    data["images"][0].update(width=30_000, height=20_000)
    finding = found(tmp_path, "set.json", data)["coco-mask-memory"]
    assert "2 instances x 30000 x 20000 = 1.12 GiB" in finding.message


def test_a_crowded_picture_is_named(tmp_path):
    data = coco()
    data["annotations"] = [{**data["annotations"][0], "id": i} for i in range(320)]
    finding = found(tmp_path, "set.json", data)["coco-many-instances"]
    assert "320 instances" in finding.message and "assign_on_cpu" in finding.fix


def test_pictures_are_looked_for(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "p1.png").write_bytes(b"")
    finding = found(tmp_path, "set.json", coco())["coco-image-missing"]
    assert finding.records[0]["image_id"] == 2
    assert str(tmp_path / "images" / "p2.png") in finding.message and "1 of 2 are missing" in finding.message


def test_no_pictures_at_all_is_a_note(tmp_path):
    report = lint_file(write(tmp_path, "set.json", coco()))
    assert not report.findings and any("--images" in note for note in report.notes)
    report = lint_file(tmp_path / "set.json", Options(images=tmp_path))
    assert report.findings[0].count == 2


def test_windows_separators_are_named(tmp_path):
    data = coco()
    data["images"][1]["file_name"] = "train\\p2.png"
    finding = found(tmp_path, "set.json", data)["coco-file-name-separator"]
    assert finding.records[0]["file_name"] == "train\\p2.png" and "does not exist" in finding.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"images": [], "annotations": [{"id": 1', "middle"),
        ('{"images": [],\n "annotations": [1,, 2]}', ":2:"),
        ("[1, 2]", "no object"),
        ("", "empty"),
    ],
)
def test_a_file_that_is_no_json_is_unreadable(content, words, tmp_path, capsys):
    path = write(tmp_path, "set.json", content)
    assert run("lint", str(path)) == 2
    assert words in capsys.readouterr().out


def test_missing_sections_are_named(tmp_path):
    finding = found(tmp_path, "set.json", {"images": [], "annotations": {}})["coco-structure"]
    assert finding.severity == "error"
    other = found(tmp_path, "other.json", {"hello": 1})["coco-structure"]
    assert "no COCO file" in other.message


def test_progress_is_reported(tmp_path):
    calls: list[tuple[int, int]] = []
    lint_file(write(tmp_path, "set.json", coco()), Options(progress=lambda *seen: calls.append(seen)))
    assert calls[0] == (0, 4) and calls[-1] == (4, 4)


def test_the_result_does_not_depend_on_the_batch(tmp_path, monkeypatch):
    from detperf_plugins.doctor.coco import check

    data = coco({"segmentation": [[52, 30, 62, 40, 62, 30, 52, 40]]})
    whole = {k: f.message for k, f in found(tmp_path, "a.json", data).items()}
    monkeypatch.setattr(check, "_BATCH", 1)
    assert {k: f.message for k, f in found(tmp_path, "a.json", data).items()} == whole
    assert json.loads((tmp_path / "a.json").read_text()) == data
