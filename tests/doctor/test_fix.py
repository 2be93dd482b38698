"""`--fix`: a repaired copy, never in place, every change listed, and nothing left to repair in the copy."""

from __future__ import annotations

import json
import math

import pytest

from detperf_plugins.doctor.lint import lint_file
from detperf_plugins.doctor.repair import repair_file
from detperf_plugins.doctor.yaml.nodes import compose
from detperf_plugins.errors import DetperfError, UnreadableInput

from .support import MINDOCR, coco, run, square, write
from .test_annotations import RING
from .test_labels import GOOD, box, line, png
from .test_yaml import flattened


def fixed(folder, name, content):
    path = write(folder, name, content)
    before = path.read_bytes()
    changes = repair_file(path, folder / "out" / name)
    assert path.read_bytes() == before
    return folder / "out" / name, [change.what for change in changes]


def ids(path):
    return {f.rule.id for f in lint_file(path).findings}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"segmentation": []}, False),
        ({"segmentation": [[1, 2, 3, 4]]}, False),
        ({"segmentation": [square(130, 90)]}, False),
        ({"segmentation": [[*RING[:6], 4.1e8, 2.2e8]]}, False),
        ({"segmentation": [[52, 30, 57, 35, 62, 40]]}, False),
        ({"segmentation": [[None, *RING[1:]]]}, False),
        ({"segmentation": [RING, [3, 3, 9, 9]]}, True),
        ({"segmentation": [[52, 30], [62, 30], [62, 40], [52, 40]]}, True),
        ({"segmentation": [RING[:-1]]}, True),
        ({"bbox": [52, 30, 0, 10]}, True),
        ({"bbox": [2, 2, 10, 10]}, True),
        ({"bbox": [math.inf, math.inf, -math.inf, -math.inf]}, True),
        ({"area": ...}, True),
        ({"area": 0}, True),
        ({"iscrowd": ...}, True),
        ({"image_id": "2"}, True),
        ({"id": 11}, True),
    ],
)
def test_annotations(change, kept, tmp_path):
    out, changes = fixed(tmp_path, "set.json", coco(change))
    assert changes and ids(out) == set()
    rows = json.loads(out.read_text())["annotations"]
    assert len(rows) == (4 if kept else 3)
    assert [r for r in rows if r["bbox"][0] != 52.0] == [
        r for r in coco()["annotations"] if r["bbox"][0] != 52.0
    ]
    if kept:
        assert rows[2]["bbox"] == [52.0, 30.0, 10.0, 10.0] and rows[2]["iscrowd"] == 0 and rows[2]["area"] > 0


def test_a_detection_set_keeps_its_boxes(tmp_path):
    data = coco()
    for row in data["annotations"]:
        row["segmentation"] = []
    data["licenses"] = [{"id": 1}]
    out, changes = fixed(tmp_path, "set.json", data)
    assert changes == [] and json.loads(out.read_text()) == data


def test_file_names_and_text_ids(tmp_path):
    data = coco()
    data["images"][0].update(id="1", file_name="train\\sub\\p1.png")
    out, changes = fixed(tmp_path, "set.json", data)
    image = json.loads(out.read_text())["images"][0]
    assert (image["id"], image["file_name"]) == (1, "train/sub/p1.png") and len(changes) == 2


def test_labels(tmp_path):
    rows = [
        line(box(), picture="a.jpg").replace("\t", "  "),
        line(box(), picture="b.jpg") + line(box(), picture="c.jpg"),
        " ",
        line(box([GOOD[0], GOOD[1], GOOD[3], GOOD[2]]), picture="d.jpg"),
        line(box([[9, 9], [50, 30]]), {"points": GOOD}, box(text="标签"), picture="e.jpg"),
        line(box([[9.1, 9.2], [9.8, 9.3], [9.7, 9.9], [9.2, 9.8]]), picture="f.jpg"),
        "untouched.jpg\t",
        line(box(), picture="ok.jpg").replace(": [", ":    ["),
    ]
    out, changes = fixed(tmp_path, "labels.txt", b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    done = out.read_text(encoding="utf-8").split("\n")
    assert [row.split("\t")[0] for row in done[:-1]] == [
        "a.jpg",
        "b.jpg",
        "c.jpg",
        "d.jpg",
        "e.jpg",
        "f.jpg",
        "untouched.jpg",
        "ok.jpg",
    ]
    assert json.loads(done[3].split("\t")[1])[0]["points"] == GOOD
    boxes = json.loads(done[4].split("\t")[1])
    assert (
        len(boxes) == 3
        and boxes[0]["points"] == [[9, 9], [50, 9], [50, 30], [9, 30]]
        and boxes[1] == {"points": GOOD, "transcription": "###"}
        and boxes[2]["transcription"] == "标签"
    )
    assert json.loads(done[5].split("\t")[1])[0]["transcription"] == "###"
    assert (
        done[6] == rows[6] and done[7] == rows[7]
    )  # what is right, or has no plain repair, is not rewritten
    assert ids(out) == {"label-empty"}
    assert any("byte-order" in change for change in changes) and len(changes) == 8


def test_boxes_that_training_reads_are_kept(tmp_path):
    """Deleted, their text would be trained as background."""
    flat = [value for point in GOOD for value in point]
    broken = [
        box([[str(value) for value in point] for point in GOOD]),
        box(flat),
        box(text=7),
        box([[30, None], *GOOD[1:]]),
        box([["a", "b"], [1, 2]]),
        "no box",
    ]
    out, changes = fixed(tmp_path, "labels.txt", line(box(), *broken) + "\n")
    boxes = json.loads(out.read_text().split("\t")[1])
    assert boxes == [box(), box(), box(), box(text="7"), box(GOOD[1:], text="###")]
    assert changes[0] == "box 2: its coordinates are strings: read as numbers"
    assert changes[-2:] == ["box 6 deleted", "box 7 deleted"]
    assert ids(out) == set()


def test_lost_slashes_in_labels(tmp_path):
    write(tmp_path, "imgs/p9.jpg", png(300, 300))
    out, changes = fixed(
        tmp_path,
        "labels.txt",
        line(box(), picture="imgsp9.jpg") + "\n" + line(box(), picture="imgs/p9.jpg") + "\n",
    )
    assert out.read_text().startswith("imgs/p9.jpg\t") and changes == ["picture imgsp9.jpg -> imgs/p9.jpg"]


def test_configs(tmp_path):
    broken = MINDOCR.replace("weight_decay: 1.0e-4", "weight_decay: 1e-4").replace(
        "sample_ratio: 1.0", "sample_ratio: 1"
    )
    broken = broken.replace("dataset_root: ./texts", "dataset_root: sets\\texts").replace(
        "[ 512, 512 ]", "(512, 512)"
    )
    out, changes = fixed(tmp_path, "c.yaml", flattened(broken))
    expected = compose(MINDOCR.replace("./texts", "sets/texts"), "x").python()
    assert compose(out.read_text(), "x").python() == expected
    assert "indentation" in changes[0] and any("1e-4" in change for change in changes)


def test_lines_that_cannot_be_read_are_kept_as_comments(tmp_path):
    out, changes = fixed(tmp_path, "c.yml", "epoch: 3\nsave_dir: out: put\nworker_num: 2\n")
    assert (
        out.read_text() == "epoch: 3\n# cannot be read: save_dir: out: put\nworker_num: 2\n"
        and len(changes) == 1
    )


def test_a_clean_config_is_copied_unchanged(tmp_path):
    out, changes = fixed(tmp_path, "c.yaml", MINDOCR)
    assert changes == [] and out.read_text() == MINDOCR


def test_gbk_becomes_utf8(tmp_path):
    out, changes = fixed(tmp_path, "c.yml", "# 轮数\nepoch: 3\n".encode("gbk"))
    assert out.read_text(encoding="utf-8") == "# 轮数\nepoch: 3\n" and "UTF-8" in changes[0]


def test_never_in_place(tmp_path, capsys):
    path = write(tmp_path, "c.yml", "epoch: 3\n")
    with pytest.raises(DetperfError, match="never writes in place"):
        repair_file(path, path)
    (tmp_path / "link.yml").symlink_to(path)
    with pytest.raises(DetperfError, match="never writes in place"):
        repair_file(path, tmp_path / "link.yml")
    with pytest.raises(UnreadableInput):
        repair_file(write(tmp_path, "run.sh", "python tools/train.py -c a.yml\n"), tmp_path / "x")
    assert run("lint", str(path), "--fix", str(path)) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.yml", "link.yml", "run.sh"]


def test_renumbered_ids_collide_with_no_later_one(tmp_path):
    data = coco()
    for row, own in zip(data["annotations"], (7, 7, "7", 8)):
        row["id"] = own
    out, changes = fixed(tmp_path, "set.json", data)
    assert [row["id"] for row in json.loads(out.read_text())["annotations"]] == [7, 9, 10, 8] and len(
        changes
    ) == 3


def test_an_id_that_is_a_list_is_no_exception(tmp_path):
    images = [{"id": [1], "file_name": "p1.png", "width": 100, "height": 80}]
    _path, whats = fixed(tmp_path, "set.json", coco({"image_id": [1]}, images=images))
    assert not any("image [1]: deleted" in what for what in whats)
