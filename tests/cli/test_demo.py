"""`detperf demo`: two real runs, their table, JSON and picture."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure.sidebyside import as_table, compare, largest_difference
from tests.conftest import HAS_PADDLEDET


def made_run(losses, ap=0.5):
    return {
        "losses": [{"loss": value, "loss_mask": value / 2} for value in losses],
        "times": [{"step": 0.2, "reader": 0.01, "mask_targets": 0.02} for _ in losses],
        "ap": {"bbox": [ap] * 12, "mask": [ap] * 12},
    }


def test_largest_difference_sees_every_loss_of_every_step():
    one, other = made_run([4, 3, 2]), made_run([4, 3, 2])
    assert largest_difference({"a": one, "b": other}) == 0
    other["losses"][1]["loss_mask"] += 1e-4
    assert largest_difference({"a": one, "b": other}) == pytest.approx(1e-4)
    other["losses"][2]["loss"] = float("nan")
    assert largest_difference({"a": one, "b": other}) == float("inf")
    assert largest_difference({"a": one, "b": made_run([4, 3])}) == float("inf")


def test_rows_and_table():
    rows = compare({"stock": made_run([4.0] * 8 + [1.0] * 8), "plugin": made_run([4.0] * 16, ap=0.25)})
    assert [row["run"] for row in rows] == ["stock", "plugin"]
    assert (
        rows[0]["first_loss"] == 4 and rows[0]["last_loss"] == 1 and rows[0]["step_ms"] == pytest.approx(200)
    )
    table = {line[0]: line[1:] for line in as_table(rows)}
    assert table["mask AP50"][:2] == ("0.5000", "0.2500") and table["step, median ms"][2] == "1.000"


@pytest.mark.skipif(not HAS_PADDLEDET, reason="PaddleDetection is not installed")
@pytest.mark.slow
def test_demo_on_a_users_own_photos(tmp_path, data):
    """The real photos, a handful of steps: equal losses, a table, JSON, a picture."""
    from tests.paddledet.scripts import run

    detperf = str(Path(sys.executable).with_name("detperf"))
    out = tmp_path / "demo"
    output = run(
        [detperf, "demo", "--coco", str(data / "fruit_nuts"), "--out", str(out), "--steps", "4", "--json",
         str(tmp_path / "demo.json")]
    )  # fmt: skip
    assert "mask AP50" in output and "Largest difference" in output
    written = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert [row["run"] for row in written["rows"]] == ["stock", "plugin"]
    assert written["conditions"]["largest_loss_difference"] <= 1e-5
    assert len(written["losses"]["stock"]) == written["conditions"]["steps"] == 4
    assert (out / "demo.png").stat().st_size > 10_000


@pytest.mark.skipif(not HAS_PADDLEDET, reason="PaddleDetection is not installed")
def test_coco_data_is_found_or_what_lacks_is_said(tmp_path):
    from detperf_plugins.paddledet.demo import find_coco
    from detperf_plugins.samples.coco_shapes import write_coco_shapes

    file = write_coco_shapes(tmp_path / "set", images=2)
    assert find_coco(tmp_path / "set", None) == (file, tmp_path / "set" / "images")
    (tmp_path / "coco" / "annotations").mkdir(parents=True)
    shutil.copy(file, tmp_path / "coco" / "annotations" / "instances_train2017.json")
    (tmp_path / "set" / "images").rename(tmp_path / "coco" / "train2017")
    assert find_coco(tmp_path / "coco", None)[1] == tmp_path / "coco" / "train2017"
    with pytest.raises(UnreadableInput, match="--images"):
        find_coco(file, None)
    assert find_coco(file, tmp_path / "coco" / "train2017")[0] == file
    with pytest.raises(UnreadableInput, match="no COCO annotation file"):
        find_coco(tmp_path, None)
    with pytest.raises(UnreadableInput, match="no such file"):
        find_coco(tmp_path / "nowhere", None)
