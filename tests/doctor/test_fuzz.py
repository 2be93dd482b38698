"""Any bytes, and any damage to a good file, give a report or one sentence: nothing crashes, nothing hangs."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detperf_plugins.doctor.coco.segmentation import classify, rle_problem
from detperf_plugins.doctor.explain import explain
from detperf_plugins.doctor.lint import lint_file
from detperf_plugins.doctor.logs.analyse import analyse
from detperf_plugins.doctor.logs.read import read_log_text
from detperf_plugins.doctor.repair import repair_file
from detperf_plugins.doctor.yaml.repair import read_yaml
from detperf_plugins.errors import DetperfError

from .log_lines import mindocr, mindocr_epoch, ppdet, ppocr
from .support import MINDOCR, PPDET, coco
from .test_labels import GOOD, box, line

FUZZ = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
LABELS = "\n".join([line(box()), line(box(GOOD[::-1]), box(text="###"), picture="q.jpg")]) + "\n"
LOG = "\n".join(
    [
        ppdet(0),
        ppdet(20),
        mindocr(10),
        mindocr_epoch(1, 9),
        ppocr(30),
        "Found inf or nan, current scale is: 1.0, decrease to: 1.0*0.5",
    ]
)
SEEDS = {
    "c.yaml": MINDOCR,
    "d.yml": PPDET,
    "set.json": json.dumps(coco()),
    "labels.txt": LABELS,
    "run.sh": "python tools/train.py -c a.yml -o b.c=1\n",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def survives(path: Path) -> None:
    """A check gives findings or a reason; a repair gives a copy or a DetperfError."""
    report = lint_file(path)
    assert (report.unreadable is None) or isinstance(report.unreadable, str)
    for finding in report.findings:
        assert finding.message and json.dumps(finding.as_row(), default=str)
    try:
        repair_file(path, path.with_name("copy"))
    except DetperfError as error:
        assert str(error)


def damaged(text: str):
    """A good file with stretches cut, doubled, moved, or replaced by rubbish."""
    piece = st.tuples(
        st.integers(0, len(text)),
        st.integers(0, 60),
        st.sampled_from(["cut", "double", "noise"]),
        st.text(max_size=6),
    )

    def apply(edits) -> str:
        made = text
        for start, length, what, noise in edits:
            stretch = made[start : start + length]
            middle = {"cut": "", "double": stretch * 2, "noise": noise}[what]
            made = made[:start] + middle + made[start + length :]
        return made

    return st.lists(piece, min_size=1, max_size=4).map(apply)


@FUZZ
@given(data=st.binary(max_size=400), name=st.sampled_from([*SEEDS, "a.log", "b", "gt.txt"]))
def test_any_bytes(folder, data, name):
    (folder / name).write_bytes(data)
    survives(folder / name)


@pytest.mark.parametrize("name", SEEDS)
def test_any_damage(folder, name):
    @FUZZ
    @given(text=damaged(SEEDS[name]))
    def check(text):
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        survives(folder / name)

    check()


@FUZZ
@given(text=st.text(alphabet=":-#&*![]{}'\"|>%@,?\n\t ab1：！［" + string.digits, max_size=120))
def test_any_yaml_like_text(text):
    node, findings = read_yaml(text, "f.yml")
    assert node.kind == "map" and all(f.line is None or f.line >= 1 for f in findings)


@FUZZ
@given(text=damaged(LOG) | st.text(max_size=300))
def test_any_log(text):
    result = analyse(read_log_text(text, "a.log"))
    assert json.dumps(result.as_row()) and result.runs >= 1
    assert result.ips is None or result.ips > 0
    assert result.reader_share is None or result.reader_share >= 0
    explain(text)


@FUZZ
@given(value=JSON, row=JSON)
def test_any_json_in_an_annotation(folder, value, row):
    shape = classify(value)
    assert all(len(part) >= 6 and len(part) % 2 == 0 for part in shape.parts if shape.kind == "polygon")
    if isinstance(value, dict):
        rle_problem(value, 80, 100)
    data = coco(
        {
            "segmentation": value,
            "bbox": row,
            "area": value,
            "id": row,
            "image_id": row,
            "category_id": value,
            "iscrowd": row,
        }
    )
    data["images"].append(row)
    data["categories"].append(value)
    data["annotations"].append(row)
    (folder / "any.json").write_text(json.dumps(data))
    survives(folder / "any.json")
    (folder / "top.json").write_text(
        json.dumps({"images": row, "annotations": value, "categories": [value, row]})
    )
    survives(folder / "top.json")


@FUZZ
@given(points=JSON, text=JSON)
def test_any_json_in_a_label(folder, points, text):
    (folder / "any.txt").write_text(
        f"{LABELS}p.jpg\t{json.dumps([{'transcription': text, 'points': points}, points])}\n"
    )
    survives(folder / "any.txt")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"images": ' + b"[" * 100_000,
        b'{"annotations": [' + b'{"a":' * 5000,
        b"p.jpg\t" + b"[" * 100_000,
        b"- " * 20_000,
        b"a: &a [*a, *a]\n",
        b"epoch: [" + b"1000 " * 20_000 + b"/\n",
        b"%|" * 20_000,
        b"\xff\xfe" + b"a\0" * 99,
        b"{" * 50_000,
        b"x" * 300_000,
        b"\x1b[" * 30_000,
    ],
)
@pytest.mark.parametrize("suffix", ["json", "yml", "txt", "log"])
def test_nesting_and_length(data, suffix, tmp_path):
    (tmp_path / f"x.{suffix}").write_bytes(data)
    survives(tmp_path / f"x.{suffix}")
    analyse(read_log_text(data.decode("utf-8", "replace"), "x"))
