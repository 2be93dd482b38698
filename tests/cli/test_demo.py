"""`detperf demo`: two real runs, their table, JSON and picture."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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
    for text, fault in (
        ("images:", "it holds no JSON"),
        ("[1]", "no list 'images'"),
        ('{"images": [{}]}', "no list 'annotations'"),
        ('{"images": [3], "annotations": [{}], "categories": [{}]}', "no file_name"),
    ):
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
        with pytest.raises(UnreadableInput, match=f"bad.json is no COCO annotation file: .*{fault}"):
            find_coco(tmp_path / "bad.json", None)


def demo_of(tmp_path, *words):
    """The command over twenty generated pictures, with the output's lines joined."""
    from detperf_plugins.samples.coco_shapes import write_coco_shapes

    file = tmp_path / "set" / "annotations.json"
    if not file.is_file():
        write_coco_shapes(tmp_path / "set", images=20, size=96)
    command = [sys.executable, "-c", "from detperf_plugins.cli import main; main()", "demo", "--coco",
               str(file), "--size", "64", "--out", str(tmp_path / "out"), *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return SimpleNamespace(status=done.returncode, text=" ".join((done.stdout + done.stderr).split()))


@pytest.mark.skipif(not HAS_PADDLEDET, reason="PaddleDetection is not installed")
@pytest.mark.slow
def test_it_trains_as_many_steps_as_it_says_and_says_what_the_times_are_worth(tmp_path):
    done = demo_of(tmp_path, "--steps", "4", "--json", str(tmp_path / "demo.json"))
    written = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert done.status == 0 and "Two runs of 4 steps" in done.text  # of the five that an epoch has
    assert [row["steps"] for row in written["rows"]] == [4, 4]
    assert len(written["losses"]["plugin"]) == 4 and written["rows"][0]["bbox_ap"] is not None
    assert "The runs follow each other" in done.text and "bench train measure" in done.text


@pytest.mark.skipif(not HAS_PADDLEDET, reason="PaddleDetection is not installed")
@pytest.mark.slow
def test_random_sampling_explains_losses_that_differ(tmp_path):
    done = demo_of(tmp_path, "--steps", "3", "--random-sampling", "--overlay", "exact_parts")
    assert done.status == 1 and "The losses differ by more than the tolerance." in done.text
    assert "With --random-sampling that is no fault of an overlay such as exact_parts" in done.text


@pytest.mark.skipif(not HAS_PADDLEDET, reason="PaddleDetection is not installed")
@pytest.mark.slow
def test_a_set_that_stock_cannot_read_is_blamed_with_a_remedy(tmp_path):
    from detperf_plugins.samples.coco_shapes import write_coco_shapes

    file = write_coco_shapes(tmp_path / "set", images=20, size=96)
    content = json.loads(file.read_text(encoding="utf-8"))
    for annotation in content["annotations"]:
        annotation["segmentation"] = [[24, 20, 38, 30]]
    file.write_text(json.dumps(content), encoding="utf-8")
    done = demo_of(tmp_path, "--steps", "1")
    assert done.status == 1 and "detperf: stock fails on this set (TypeError: Argument 'bb'" in done.text
    assert (
        f"{len(content['annotations'])} annotations are faulty: `detperf lint {file}` names them" in done.text
    )


def test_a_picture_without_a_prediction_is_marked(tmp_path):
    from PIL import Image

    from detperf_plugins.measure.plots import _draw_masks

    class Axis:
        titles: list[str] = []

        def imshow(self, image): ...

        def set_axis_off(self): ...

        def set_title(self, text, **style):
            self.titles.append(text)

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    _draw_masks(Axis(), {"path": tmp_path / "a.png", "masks": [], "none": "no prediction above 0.3"}, {})
    assert Axis.titles == ["no prediction above 0.3"]
