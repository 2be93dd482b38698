"""The collection of public cases, where it is here: each input gives the finding its expectation asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from detperf_plugins.doctor.lint import Options, lint_file
from detperf_plugins.doctor.logs.analyse import analyse
from detperf_plugins.doctor.logs.read import read_log_text

from .support import write

CASES = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "cases" / "cases.json"

# Rules that must fire for a case; an empty set means a legal input, which must stay free of alarms.
# A case that is absent gives no file a doctor could read (it describes code, not data).
EXPECTED = {
    "a01-seg-empty-list": {"coco-empty-segmentation"},
    "a02-seg-inner-empty": {"coco-empty-segmentation"},
    "a04-bbox-only-dataset": {"coco-no-masks"},
    "a05-rle-uncompressed-noncrowd": {"coco-rle-instance"},
    "a07-rle-crowd": set(),
    "a08-part-two-points": {"coco-part-too-short"},
    "a09-only-two-point-part": {"coco-part-too-short"},
    "a10-one-point-part": {"coco-part-too-short"},
    "a12-point-pairs": {"coco-point-pairs"},
    "a13-odd-count": {"coco-odd-coordinates"},
    "a15-null-coordinate": {"coco-bad-coordinate"},
    "a16-edge-equal-to-size": set(),
    "a18-fully-outside": {"coco-outside-image"},
    "a19-huge-coordinate": {"coco-huge-coordinate"},
    "a21-rle-size-mismatch": {"coco-rle-size"},
    "a22-zero-width-box": {"coco-bad-box"},
    "a24-area-key-missing": {"coco-area-missing"},
    "a25-iscrowd-key-missing": {"coco-iscrowd-missing"},
    "a27-multi-part": set(),
    "a28-nested-parts-hole": {"coco-nested-parts"},
    "a31-no-gt-image": {"coco-no-instances"},
    "a33-unknown-category": {"coco-unknown-category"},
    "a34-string-ids": {"coco-unknown-image"},
    "a36-collinear": {"coco-zero-area"},
    "a39-repeated-vertices": set(),
    "a40-truncating-raster": set(),
    "a42-missing-image-file": {"coco-file-name-separator"},
    "a43-bowtie": {"coco-self-intersection"},
    "a45-infinite-box": {"coco-bad-box", "coco-nonfinite-literal"},
    "a46-overshoot-one": {"coco-over-edge"},
    "b01-data-fields-no-poly": {"ppdet-mask-needs-poly"},
    "b02-voc-for-mask": {"ppdet-voc-for-mask"},
    "b04-roi-batch-mismatch": set(),
    "b08-lr-not-scaled": {"ppdet-lr-cards"},
    "b10-nhwc-partial": {"ppdet-nhwc-partial"},
    "b11-unused-parameters": {"log-known-error", "log-loss-zero"},
    "b13-paddle3": {"log-known-error"},
    "b14-libz": {"log-known-error"},
    "b16-export-no-mask": {"ppdet-export-batch"},
    "b17-eval-empty": {"log-eval-empty"},
    "b19-tag-lost": {"yaml-tag-lost"},
    "b20-yaml-gbk": {"encoding-not-utf8"},
    "b22-wrong-scheduler-name": {"ppocr-piecewise-values"},
    "b23-num-classes-background": {"ppdet-num-classes"},
    "b25-windows-paths": {"config-path-missing", "config-path-separator"},
    "c01-space-separator": {"label-no-tab"},
    "c02-missing-newline": {"label-glued-records"},
    "c04-zigzag-order": {"label-point-order"},
    "c05-degenerate-fraction": {"label-degenerate"},
    "c07-two-points": {"label-few-points"},
    "c08-mixed-vertex-count": set(),
    "c10-self-intersection": {"label-self-intersection"},
    "c11-crop-splits-polygon": {"label-splits-on-crop"},
    "c13-empty-list": set(),
    "c14-empty-label-string": {"label-empty"},
    "c16-bom": {"encoding-bom"},
    "c19-gbk-bytes": {"encoding-not-utf8"},
    "c20-path-prefix": {"label-image-missing"},
    "c22-nested-precision": set(),
    "c23-tiny-under-min-size": {"label-tiny-text"},
    "c25-zero-area-crop": set(),
    "c26-amp-scale-collapse": {"log-scale-zero"},
    "c28-slow-loader-910": set(),
    "c29-too-many-workers": {"log-workers-many"},
    "c31-sink-no-step-lines": set(),
    "c32-dynamic-shape": {"mindocr-dynamic-shape"},
    "c34-ignored-key": {"ppocr-unknown-key"},
    "c35-batch-larger-than-data": {"log-no-steps"},
    "c37-shm-leak": {"log-known-error"},
    "c38-many-workers-one-line-file": {"config-path-missing"},
    "d01-ppdet-basic": set(),
    "d03-ppdet-static-old": {"log-loss-nan", "log-artefact"},
    "d04-ppdet-file-no-prefix": set(),
    "d06-ci-wrapper": {"log-loss-nan"},
    "d07-ppocr-new": {"log-reader-bound"},
    "d09-scale-noise": {"log-scale-low"},
    "d10-tqdm-glued": {"log-aborted"},
    "d12-mindocr-step": {"log-loss-spike"},
    "d13-mindspore-warnings": {"log-framework-error"},
    "d15-abort-truncated": {"log-truncated"},
    "d16-new-year": set(),
    "d18-ansi": set(),
    "d19-mindyolo": {"log-foreign", "log-loss-explodes"},
    "d21-config-in-log": {"log-config-no-workers"},
    "d22-fullwidth-punctuation": {"yaml-full-width"},
    "d24-cli-overrides": set(),
    "d25-base-chain": {"config-override-lost-step"},
    "d27-blank-run-wrap": {"log-foreign"},
}

# (attribute of the analysis, value) for the logs whose figures are stated.
FIGURES = {
    "c28-slow-loader-910": {"ips": 9.07, "startup": 579},
    "c31-sink-no-step-lines": {"ips": 59.99},
    "d01-ppdet-basic": {"ips": 3.4066, "steps": 2},
    "d07-ppocr-new": {"reader_share": 0.881},
    "d12-mindocr-step": {"steps": 2, "epochs": 1, "evaluations": 1},
    "d16-new-year": {"elapsed": 15},
    "d27-blank-run-wrap": {"ips": 4.6},
}


def plain(value):
    """JSON of the collection with its spelling of NaN and Infinity made real."""
    if isinstance(value, dict):
        return (
            float(value["$nonfinite"]) if "$nonfinite" in value else {k: plain(v) for k, v in value.items()}
        )
    return [plain(v) for v in value] if isinstance(value, list) else value


def case(name: str) -> dict:
    if not CASES.is_file():
        pytest.skip("the collection of cases is not here")
    return {c["id"]: c for c in json.loads(CASES.read_text(encoding="utf-8"))}[name]


def linted(given: dict, kind: str, folder: Path) -> list:
    if kind == "a":
        return lint_file(write(folder, "set.json", plain(given))).findings
    text = given.get("text", "")
    names = {"yaml": "x.yml", "shell": "run.sh", "label-line": "labels.txt", "icdar-gt-line": "gt_1.txt"}
    if given["format"] == "hex-bytes":
        path = write(folder, "x.yml" if kind == "b" else "labels.txt", bytes.fromhex(text))
    elif given["format"] == "yaml-files":
        path = [write(folder, name, content) for name, content in given["files"].items()][-1]
    else:
        path = write(folder, names[given["format"]], text + "\n")
    return lint_file(path, Options(cards=1 if "command" in given else None)).findings


@pytest.mark.parametrize("name", EXPECTED)
def test_a_public_case(name, tmp_path):
    given = case(name)["input"]
    if name == "c20-path-prefix":
        write(tmp_path, "train_imgs/img_12.jpg", b"x")
    if name == "b23-num-classes-background":
        write(
            tmp_path,
            "d/ann/train.json",
            {"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 2}]},
        )
    if given.get("format") == "log":
        result = analyse(read_log_text(given["text"], "train.log"))
        findings = result.findings
        for attribute, value in FIGURES.get(name, {}).items():
            assert getattr(result, attribute) == pytest.approx(value, abs=0.001), attribute
    else:
        findings = linted(given, name[0], tmp_path)
    rules = {finding.rule.id for finding in findings}
    assert EXPECTED[name] <= rules
    if not EXPECTED[name]:
        assert [
            f.message for f in findings if f.severity != "hint" and f.rule.id != "command-config-missing"
        ] == []
