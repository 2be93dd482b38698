"""MMOCR, ICDAR and Total-Text annotations become label lines; bad records are named and left out."""

from __future__ import annotations

import json

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.samples.convert import convert, format_of


def read(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {name: json.loads(label) for name, label in rows}


def test_mmocr(tmp_path):
    instances = [
        {"polygon": [0, 0, 9, 0, 9, 5, 0, 5.5], "ignore": False, "text": "täxt"},
        {"polygon": [1, 1, 2, 1, 2, 2, 1, 2], "ignore": True},
        {"polygon": [1, 1, 2], "ignore": False},
        {"bbox": [0, 0, 1, 1]},
    ]
    records = [{"img_path": "imgs/test/a.jpg", "instances": instances}, {"instances": []}]
    source = tmp_path / "textdet.json"
    source.write_text(json.dumps({"metainfo": {}, "data_list": records}), encoding="utf-8")
    (tmp_path / "pictures" / "test").mkdir(parents=True)
    (tmp_path / "pictures" / "test" / "a.jpg").touch()
    result = convert(source, tmp_path / "labels.txt", tmp_path / "pictures")
    assert read(result.path) == {
        "test/a.jpg": [
            {"transcription": "täxt", "points": [[0, 0], [9, 0], [9, 5], [0, 5.5]]},
            {"transcription": "###", "points": [[1, 1], [2, 1], [2, 2], [1, 2]]},
        ]
    }
    assert (result.pictures, result.words, result.ignored) == (1, 2, 1)
    assert len(result.left_out) == 3 and "record 1: no img_path" in result.left_out[2]


def test_icdar_in_the_order_of_the_numbers_with_commas_and_a_mark(tmp_path):
    folder = tmp_path / "gt"
    folder.mkdir()
    (folder / "gt_img_10.txt").write_text("1,2,3,2,3,4,1,4,###\n")
    (folder / "gt_img_2.txt").write_text('\ufeff1,2,30,2,30,4,1,4,a, "b"\n\nnonsense\n', encoding="utf-8")
    (tmp_path / "img_2.png").touch()
    result = convert(folder, tmp_path / "labels.txt", tmp_path)
    labels = read(result.path)
    assert list(labels) == ["img_2.png", "img_10.jpg"]
    assert labels["img_2.png"] == [{"transcription": 'a, "b"', "points": [[1, 2], [30, 2], [30, 4], [1, 4]]}]
    assert result.ignored == 1
    assert len(result.left_out) == 1 and "gt_img_2.txt:3" in result.left_out[0]


def test_totaltext(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    import numpy as np

    rows = np.empty((3, 6), object)
    for row, (xs, text) in enumerate([([1, 9, 9, 5, 1], "CURVED"), ([1, 5, 5], "#"), ([1], "dot")]):
        values = ["x:", np.array([xs]), "y:", np.array([list(range(len(xs)))]), np.array([text]), "c"]
        for column, value in enumerate(values):
            rows[row, column] = value
    (tmp_path / "gt").mkdir()
    scipy_io.savemat(tmp_path / "gt" / "poly_gt_img7.mat", {"polygt": rows})
    (tmp_path / "gt" / "poly_gt_img8.mat").write_bytes(b"no matrix")
    result = convert(tmp_path / "gt", tmp_path / "labels.txt")
    assert [word["transcription"] for word in read(result.path)["img7.jpg"]] == ["CURVED", "###"]
    assert read(result.path)["img7.jpg"][0]["points"] == [[1, 0], [9, 1], [9, 2], [5, 3], [1, 4]]
    assert len(result.left_out) == 2


def test_the_real_files(data, tmp_path):
    source = data / "mmocr_det_toy_icdar15"
    result = convert(source / "textdet_test.json", tmp_path / "a.txt", source / "imgs")
    assert (result.pictures, result.words, result.ignored, result.left_out) == (10, 82, 61, [])
    assert all((source / "imgs" / name).is_file() for name in read(result.path))
    pytest.importorskip("scipy.io")
    result = convert(data / "totaltext_examples", tmp_path / "b.txt", data / "totaltext_examples")
    assert result.pictures == 6 and result.left_out == []
    assert (data / "totaltext_examples" / "t3_img3.jpg").is_file() and "t3_img3.jpg" in read(result.path)


@pytest.mark.parametrize(
    "content", ["{}", "[1]", "{", '{"data_list": []}', '{"data_list": [{"img_path": 3}]}']
)
def test_what_is_no_annotation_is_one_sentence(tmp_path, content):
    source = tmp_path / "some.json"
    source.write_text(content)
    with pytest.raises(UnreadableInput) as caught:
        convert(source, tmp_path / "labels.txt")
    assert "\n" not in str(caught.value) and not (tmp_path / "labels.txt").exists()


def test_formats_are_told_apart(tmp_path):
    with pytest.raises(UnreadableInput, match="name the annotations themselves"):
        format_of(tmp_path)
    with pytest.raises(UnreadableInput, match="there are mmocr, icdar, totaltext"):
        convert(tmp_path, tmp_path / "labels.txt", kind="coco")
