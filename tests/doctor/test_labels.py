"""Kind c: every fault of a DBNet label file is named by its line and box."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from detperf_plugins.doctor.labels.pictures import read_header
from detperf_plugins.doctor.lint import lint_file

from .support import found, write

GOOD = [[30, 40], [130, 40], [130, 70], [30, 70]]


def box(points=GOOD, text="word"):
    return {"transcription": text, "points": points}


def line(*boxes, picture="p.jpg"):
    return f"{picture}\t{json.dumps(list(boxes))}"


FIRST = line(box(), picture="first.jpg")
CASES = {
    "blanks for the tab": (line(box()).replace("\t", "   "), "label-no-tab", "error"),
    "picture alone": ("p.jpg", "label-empty", "error"),
    "empty label": ("p.jpg\t", "label-empty", "error"),
    "tab in the text": (line(box(text="a b")).replace("a b", "a\tb"), "label-extra-tab", "error"),
    "two records": (line(box()) + line(box(), picture="q/2.jpg"), "label-glued-records", "error"),
    "blank line": ("   ", "label-blank-line", "error"),
    "single quotes": ("p.jpg\t[{'transcription': 'a'}]", "label-bad-json", "error"),
    "an object": ('p.jpg\t{"transcription": "a"}', "label-bad-json", "error"),
    "cut off": (line(box())[:-9], "label-bad-json", "error"),
    "no transcription": (line({"points": GOOD}), "label-bad-box", "error"),
    "no points": (line({"transcription": "a"}), "label-bad-box", "error"),
    "null coordinate": (line(box([[30, None], *GOOD[1:]])), "label-bad-box", "error"),
    "flat points": (line(box([30, 40, 130, 40, 130, 70])), "label-bad-box", "error"),
    "not finite": (line(box([[30, float("nan")], *GOOD[1:]])), "label-bad-box", "error"),
    "two points": (line(box(), box([[9, 9], [50, 30]])), "label-few-points", "error"),
    "no point": (line(box(), box([])), "label-few-points", "error"),
    "zigzag": (line(box([GOOD[0], GOOD[1], GOOD[3], GOOD[2]])), "label-point-order", "error"),
    "loop": (
        line(box([[0, 0], [80, 0], [80, 60], [60, 60], [60, -20], [50, -20], [50, 60], [0, 60]])),
        "label-self-intersection",
        "error",
    ),
    "collapsed": (
        line(box(), box([[9.1, 9.2], [9.8, 9.3], [9.7, 9.9], [9.2, 9.8]])),
        "label-degenerate",
        "warning",
    ),
    "U shape": (
        line(box([[0, 0], [20, 0], [20, 180], [200, 180], [200, 0], [220, 0], [220, 200], [0, 200]])),
        "label-splits-on-crop",
        "hint",
    ),
    "dense": (
        line(*[box([[x, 0], [x + 9, 0], [x + 9, 9], [x, 9]]) for x in range(0, 3100, 10)]),
        "label-very-dense",
        "hint",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_with_its_line(name, tmp_path):
    text, rule, severity = CASES[name]
    findings = found(tmp_path, "labels.txt", f"{FIRST}\n{text}\n{line(box(), picture='last.jpg')}\n")
    assert rule in findings, sorted(findings)
    assert findings[rule].severity == severity and findings[rule].line == 2
    assert set(findings) == {rule}


@pytest.mark.parametrize(
    "text",
    [
        line(box(GOOD[::-1])),  # counter-clockwise
        line(
            box(),
            box([[30, 100], [60, 90], [90, 88], [120, 92], [120, 120], [90, 116], [60, 118], [30, 128]]),
        ),
        "p.jpg\t[]",
        line(box(text="###")),
        line(box([[9, 9], [9.2, 9], [9.1, 9.3]], text="###"), box()),  # degenerate but ignored
        line(box([[0, 0], [319, 0], [319, 319], [0, 319]])),
    ],
)
def test_legal_lines_are_left_alone(text, tmp_path):
    assert found(tmp_path, "labels.txt", f"{FIRST}\n{text}\n") == {}


def test_the_split_and_the_second_picture_are_named(tmp_path):
    spaced = line(box()).replace("\t", "  ")
    text = f"{spaced}\n{line(box(), picture='a.jpg')}{line(box(), picture='sub/b.jpg')}\n"
    findings = found(tmp_path, "labels.txt", text)
    assert "after `p.jpg` (column 5)" in findings["label-no-tab"].message
    assert "sub/b.jpg" in findings["label-glued-records"].message


def test_a_better_order_is_offered(tmp_path):
    text = line(box([GOOD[0], GOOD[1], GOOD[3], GOOD[2]]))
    message = found(tmp_path, "labels.txt", text + "\n")["label-point-order"].message
    assert "[[30, 40], [130, 40], [130, 70], [30, 70]]" in message


def test_small_text_is_counted(tmp_path):
    small = [box([[x, 0], [x + 20, 0], [x + 20, 5], [x, 5]]) for x in range(0, 200, 40)]
    finding = found(tmp_path, "labels.txt", line(*small, box()) + "\n")["label-tiny-text"]
    assert "5 of 6" in finding.message
    ignored = [{**b, "transcription": "###"} for b in small]
    assert "label-tiny-text" not in found(tmp_path, "labels.txt", line(*ignored, box(), box()) + "\n")


def test_a_file_of_ignored_boxes_is_named(tmp_path):
    assert "label-all-ignored" in found(tmp_path, "labels.txt", line(box(text="*"), box(text="###")) + "\n")


def test_a_picture_on_two_lines(tmp_path):
    same = f"{FIRST}\n{FIRST}\n"
    assert set(found(tmp_path, "labels.txt", same)) == {"label-repeated-line"}
    other = f"{FIRST}\n{line(box(text='other'), picture='first.jpg')}\n"
    assert "line 2" in found(tmp_path, "labels.txt", other)["label-duplicate-picture"].message


def test_encodings_are_named_and_read_on(tmp_path):
    gbk = line({"transcription": "号码", "points": GOOD[:2]}).encode("ascii")
    gbk = gbk.replace(b"\\u53f7\\u7801", "号码".encode("gbk"))
    findings = found(tmp_path, "labels.txt", gbk)
    assert "GBK" in findings["encoding-not-utf8"].message and "label-few-points" in findings
    assert "encoding-bom" in found(tmp_path, "labels.txt", b"\xef\xbb\xbf" + FIRST.encode())


def test_icdar_ground_truth_is_recognised(tmp_path):
    findings = found(
        tmp_path, "gt_7.txt", "\ufeff9,8,60,8,60,30,9,30,CAFE, 2\n9,8,60,8,60,30,9,3O,BAR\n1,2,3,4,5,6,7,8\n"
    )
    assert {"label-icdar-format", "label-icdar-line", "encoding-bom"} <= set(findings)
    assert findings["label-icdar-line"].line == 2 and findings["label-icdar-line"].count == 1


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IEND", b"")
    )


def jpeg(width: int, height: int, orientation: int = 0, order: str = "<") -> bytes:
    exif = b""
    if orientation:
        tiff = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "I", 8)
        tiff += struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
        exif = b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9 + exif + frame + b"\xff\xd9"


@pytest.mark.parametrize("order", "<>")
def test_headers_of_pictures(order, tmp_path):
    write(tmp_path, "a.png", png(31, 17))
    write(tmp_path, "b.jpg", jpeg(320, 200, 6, order))
    write(tmp_path, "c.jpg", b"no picture")
    header = read_header(tmp_path / "a.png")
    assert header is not None and (header.width, header.height, header.orientation) == (31, 17, 1)
    header = read_header(tmp_path / "b.jpg")
    assert header is not None and (header.width, header.height, header.orientation) == (320, 200, 6)
    assert read_header(tmp_path / "c.jpg") is None and read_header(tmp_path / "none.jpg") is None


def with_picture(folder: Path, picture: bytes, *boxes) -> dict:
    write(folder, "p.jpg", picture)
    return found(folder, "labels.txt", line(*boxes) + "\n")


def test_boxes_against_the_picture(tmp_path):
    far = box([[400, 20], [460, 20], [460, 50], [400, 50]])
    assert with_picture(tmp_path, png(200, 100), box()) == {}
    assert "box 2" in with_picture(tmp_path, png(200, 100), box(), far)["label-box-outside"].message
    whole = box([[0, 0], [200, 0], [200, 100], [0, 100]])
    assert "label-covers-picture" in with_picture(tmp_path, png(200, 100), whole)
    assert "label-image-broken" in with_picture(tmp_path, b"text", box())


def test_rotated_pictures(tmp_path):
    wide = box([[250, 20], [310, 20], [310, 60], [250, 60]])
    tall = box([[20, 250], [60, 250], [60, 310], [20, 310]])
    assert (
        "stored pixels only" in with_picture(tmp_path, jpeg(320, 200, 6), wide)["label-exif-rotated"].message
    )
    assert (
        "decoded picture only"
        in with_picture(tmp_path, jpeg(320, 200, 8), tall)["label-exif-rotated"].message
    )
    assert with_picture(tmp_path, jpeg(320, 200, 1), wide) == {}


def test_lost_slashes_are_found(tmp_path):
    write(tmp_path, "train_images/p9.jpg", png(300, 300))
    finding = found(tmp_path, "labels.txt", line(box(), picture="train_imagesp9.jpg") + "\n")[
        "label-image-missing"
    ]
    assert "train_images/p9.jpg exists" in finding.message


def test_missing_pictures_are_counted(tmp_path):
    write(tmp_path, "imgs/first.jpg", png(300, 300))
    finding = found(tmp_path, "labels.txt", f"{FIRST}\n{line(box())}\n")["label-image-missing"]
    assert finding.line == 2 and str(tmp_path / "imgs" / "p.jpg") in finding.message
    report = lint_file(tmp_path / "labels.txt")
    assert "1 of 2 pictures found" in report.notes[1]
