"""The demo end to end on real pictures: converted labels, two runs, equal losses, a table and a picture."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.mindocr import demo
from detperf_plugins.samples.convert import convert
from tests.mindocr.scripts import run


@pytest.mark.slow
def test_real_pictures_train_stock_and_tuned_to_the_same_losses(data, tmp_path):
    source = data / "mmocr_det_toy_icdar15"
    labels = convert(source / "textdet_test.json", tmp_path / "labels.txt", source / "imgs").path
    command = [
        sys.executable,
        "-c",
        "from detperf_plugins.cli import main; main()",
        "demo",
        "--host",
        "mindocr",
    ]
    command += ["--labels", str(labels), "--images", str(source / "imgs"), "--size", "64", "--steps", "4"]
    output = run([*command, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "demo.json")])
    content = json.loads((tmp_path / "demo.json").read_text())
    assert [row["run"] for row in content["rows"]] == ["stock", "tuned"]
    assert content["conditions"]["largest_loss_difference"] <= 1e-5
    losses = content["losses"]["tuned"]
    assert len(losses) == 4 and all(map(math.isfinite, losses))
    for row in content["rows"]:
        assert 0 <= row["hmean"] <= 1 and row["images_per_s"] > 0 and row["compile_s"] > 0
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10_000
    for word in ("h-mean", "before the first step, s", "compile, in the first step, s"):
        assert word in output
    for word in ("img/s after the first epoch", "waiting for data"):
        assert word in output


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 100}, "multiple of 32"),
        ({"labels": "none.txt"}, "--labels: there is no file"),
        ({"labels": "few.txt"}, "few.txt has fewer than 4 pictures"),
        ({"labels": "elsewhere.txt"}, "--images names the folder of the pictures"),
        ({"labels": "few.txt", "images": Path("/nowhere")}, "--images: there is no folder /nowhere"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(tmp_path, changes, sentence):
    cv2.imwrite(str(tmp_path / "a.jpg"), np.zeros((32, 32, 3), np.uint8))
    (tmp_path / "few.txt").write_text("a.jpg\t[]\nbroken.jpg\t[{\n")
    (tmp_path / "elsewhere.txt").write_text("b.jpg\t[]\n" * 8)
    given = {"labels": None, "images": None, "size": 64, "steps": 4, "quick": True, "seed": 0, "overlays": []}
    given.update(changes)
    if given["labels"]:
        given["labels"] = tmp_path / given["labels"]
    with pytest.raises(UnreadableInput, match=sentence):
        demo.plan(tmp_path / "out", **given)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "mindocr", "--coco", "x"], "--coco is for --host paddledet"),
        (["--host", "mindocr", "--random-sampling"], "--random-sampling is for --host paddledet"),
        (["--host", "mindocr", "--images", "x"], "--images names the pictures of --labels"),
        (["--labels", "x"], "--labels is for --host mindocr"),
    ],
)
def test_an_option_of_the_other_host_is_refused(words, sentence):
    _load_verbs()
    done = CliRunner().invoke(app, ["demo", *words])
    assert isinstance(done.exception, UnreadableInput) and sentence in str(done.exception)


def test_losses_that_are_missing_or_not_finite_are_a_difference_without_end():
    def results(*losses):
        return {str(index): {"summary": {"losses": one}} for index, one in enumerate(losses)}

    assert demo.largest_difference(results([1.0, 2.0], [1.0, 2.5])) == 0.5
    assert demo.largest_difference(results([1.0], [1.0, 2.0])) == math.inf
    assert demo.largest_difference(results([1.0], [math.nan])) == math.inf
