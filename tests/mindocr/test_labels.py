"""Every kind of fault in a label file: repaired or ignored alone, named once with file and line."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from detperf_plugins.errors import UnreadableInput
from tests.mindocr.support import box, write_set

GOOD = box(10, 10, 60, 30)


def read(path, **options):
    from detperf_plugins.mindocr.labels import read_labels

    return read_labels(str(path), str(path.parent), **options)


def points_of(item):
    return item["points"]


@pytest.mark.parametrize(
    ("item", "words", "kept"),
    [
        (box(70, 10, 110, 30), None, "text"),
        ({"transcription": "a", "points": [[70, 10], [110, 10], [70, 30], [110, 30]]}, "zigzag", "a"),
        (
            {"transcription": "a", "points": [[10, 50], [60, 45], [20, 80], [15, 60], [70, 70], [10, 75]]},
            "crosses itself",
            "###",
        ),
        ({"transcription": "a", "points": [[10, 50], [30, 60], [50, 70]]}, "no area", "###"),
        ({"transcription": "a", "points": [[70, 10], [110, 30]]}, "2 points", "###"),
        ({"transcription": "a", "points": [[70, 10]]}, "cannot enclose anything", None),
        ({"transcription": "a", "points": []}, "cannot enclose anything", None),
        ({"transcription": "a", "points": None}, "no list of points", None),
        ({"transcription": "a"}, "no list of points", None),
        ("box", "no list of points", None),
        (
            {"transcription": "a", "points": [[70, 10], [None, 10], [110, 30], [70, 30]]},
            "1 of its points are no numbers",
            "###",
        ),
        ({"transcription": "a", "points": [[None, None], [None, 1]]}, "2 of its points are no numbers", None),
        (
            {"transcription": "a", "points": [["70", "10"], ["110", "10"], ["110", "30"], ["70", "30.5"]]},
            "strings",
            "a",
        ),
        (
            {"transcription": "a", "points": [["x", "10"], ["110", "10"], ["110", "30"], ["70", "30"]]},
            "no numbers",
            "###",
        ),
        ({"transcription": "a", "points": [[70, 10], [1e30, 10], [110, 30], [70, 30]]}, "no numbers", "###"),
        ({"transcription": "a", "points": [70, 10, 110, 10, 110, 30, 70, 30]}, "flat list", "a"),
        ({"points": GOOD["points"]}, "no transcription", "###"),
        (box(500, 500, 600, 540), "outside 0.jpg, which has 128 x 96 pixels", None),
        (box(-50, 10, -3, 30), "outside 0.jpg", None),
        (box(-50, 10, 30, 30), None, "text"),
    ],
)
def test_a_box_is_mended_alone_and_its_neighbour_stays(tmp_path, item, words, kept):
    path = write_set(tmp_path, [[GOOD, item]])
    records, faults = read(path)
    label = json.loads(records[0].label)
    assert label[0] == GOOD and len(label) == (1 if kept is None else 2)
    if kept is not None:
        assert label[1]["transcription"] == kept
        assert all(len(point) == 2 for point in points_of(label[1]))
    texts = [str(fault) for fault in faults]
    if words is None:
        assert not texts and label[1] == item
    else:
        assert len(texts) == 1 and words in texts[0] and texts[0].startswith(f"{path}:1 box 2: ")


def test_a_zigzag_quad_is_put_in_order(tmp_path):
    zigzag = {"transcription": "a", "points": [[70, 10], [110, 10], [70, 30], [110, 30]]}
    records, _ = read(write_set(tmp_path, [[zigzag]]))
    assert sorted(points_of(json.loads(records[0].label)[0])) == [[70, 10], [70, 30], [110, 10], [110, 30]]
    from detperf_plugins.mindocr.det_targets import pack
    from detperf_plugins.native.border_map import measure_rings

    areas, _, crossing = measure_rings(*pack([np.array(points_of(json.loads(records[0].label)[0]))]))
    assert areas[0] == 40 * 20 and not crossing[0]


def test_the_label_of_a_clean_line_is_left_to_the_letter(tmp_path):
    line = (
        b'0.jpg\t[{"points":  [[1.50, 2], [30, 2], [30, 20]], "transcription": "caf\xc3\xa9", "more": 1}]\n'
    )
    records, faults = read(write_set(tmp_path, [line]))
    assert records[0].label == line.decode().split("\t")[1].strip() and not faults


LABEL = json.dumps([GOOD]).encode()


@pytest.mark.parametrize(
    ("lines", "count", "words"),
    [
        ([b"\xef\xbb\xbf0.jpg\t" + LABEL + b"\n", b"1.jpg\t" + LABEL + b"\n"], 2, ["byte-order mark"]),
        ([b"0.jpg\t" + LABEL + b"\r\n", b"1.jpg\t" + LABEL + b"\r\n"], 2, []),
        ([b"0.jpg\t" + LABEL + b"\n", b"\n", b"  \n", b"1.jpg\t" + LABEL], 2, []),
        ([b"0.jpg     " + LABEL + b"\n", b"1.jpg\t" + LABEL + b"\n"], 2, ["no tab"]),
        ([b"0.jpg\t" + LABEL + b"1.jpg\t" + LABEL + b"\n"], 2, ["two records on one line"]),
        (
            [
                b"0.jpg\t"
                + json.dumps([box(10, 10, 60, 30, "A")]).encode().replace(b"A", "\u8336".encode("gbk"))
                + b"\n"
            ],
            1,
            ["GBK"],
        ),
        ([b"0.jpg\t\n", b"1.jpg\t" + LABEL + b"\n"], 1, ["no label"]),
        ([b"0.jpg\t[{broken\n", b"1.jpg\t" + LABEL + b"\n"], 1, ["not a JSON list"]),
        ([b"gone.jpg\t" + LABEL + b"\n", b"1.jpg\t" + LABEL + b"\n"], 1, ["gone.jpg does not exist"]),
        ([b"0.jpg\t[]\n"], 1, []),
    ],
    ids=["bom", "windows", "blank", "spaces", "glued", "gbk", "empty", "json", "missing", "background"],
)
def test_the_form_of_a_file(tmp_path, lines, count, words):
    path = write_set(tmp_path, lines)
    write_set(tmp_path / "more", [[], []])
    for name in ("0.jpg", "1.jpg"):
        (tmp_path / name).write_bytes((tmp_path / "more" / name).read_bytes())
    records, faults = read(path)
    assert len(records) == count
    assert len(faults) == len(words) and all(word in str(fault) for word, fault in zip(words, faults))
    assert all(str(fault).startswith(str(path)) for fault in faults)


def test_a_picture_without_a_label_is_background_where_the_user_says_so(tmp_path):
    path = write_set(tmp_path, [b"0.jpg\t\n"])
    with pytest.raises(UnreadableInput, match="no record that can be used"):
        read(path)
    records, faults = read(path, empty_is_background=True)
    assert records[0].label == "[]" and len(faults) == 1


def test_a_lost_slash_is_found_again(tmp_path):
    path = write_set(tmp_path, [b"imgs0.jpg\t" + LABEL + b"\n"])
    (tmp_path / "imgs").mkdir()
    (tmp_path / "0.jpg").rename(tmp_path / "imgs" / "0.jpg")
    records, faults = read(path)
    assert records[0].picture == "imgs/0.jpg" and "read as imgs/0.jpg" in str(faults[0])


@pytest.mark.parametrize("ignore", [False, True])
def test_boxes_of_a_rotated_picture(tmp_path, ignore):
    """Stored 128 x 96 and turned by its EXIF mark: a box at x 110 fits only the stored pixels."""
    from PIL import Image

    path = write_set(tmp_path, [[box(100, 10, 120, 30), GOOD]])
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(cv2.imread(str(tmp_path / "0.jpg"))).save(tmp_path / "0.jpg", exif=exif)
    records, faults = read(path, ignore_orientation=ignore)
    assert len(json.loads(records[0].label)) == (2 if ignore else 1)
    assert [("EXIF rotation" in str(fault)) for fault in faults] == ([] if ignore else [True])


def test_a_file_without_a_usable_record_says_why(tmp_path):
    path = write_set(tmp_path, [b"0.jpg\tnull\n", b"1.jpg\t{}\n"])
    with pytest.raises(UnreadableInput, match=r"labels.txt:1: .*not a JSON list"):
        read(path)
    with pytest.raises(UnreadableInput, match="cannot read"):
        read(tmp_path / "none.txt")
