"""What the MindOCR benches say: their rows, and that the tables of the pages can be made of them."""

from __future__ import annotations

import json
import os

import pytest
import yaml
from typer.testing import CliRunner

from detperf_plugins import configs_dir
from detperf_plugins.cli import _load_verbs, app
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.measure.tables import regenerated
from detperf_plugins.mindocr import activate, overlay_bench
from detperf_plugins.mindocr import config as mindocr_config
from detperf_plugins.mindocr.own_labels import both_can_read
from detperf_plugins.mindocr.target_map_bench import grow
from detperf_plugins.mindocr.transform_bench import time_transforms
from detperf_plugins.samples.text_pictures import write_pictures
from tests.mindocr.scripts import OVERLAYS

activate()
STARTS = (
    "import mindspore",
    "import mindocr",
    "data set",
    "model",
    "optimizer",
    "other",
    "first batch",
    "compile",
)
CONDITIONS = {"processor": "some processor", "cores": 2, "polygons": "2", "vertices": 4, "cache": "none"}


def shown(folder, name, files, rows):
    """The table `name` of a page, made of `rows`."""
    result = {
        "command": ["detperf"],
        "versions": {"mindspore": "2.8.0"},
        "conditions": CONDITIONS,
        "rows": rows,
    }
    for file in files:
        (folder / file).write_text(json.dumps({**result, "rows": rows}), encoding="utf-8")
    return regenerated(f"<!-- bench:{name} -->\n<!-- /bench -->\n", folder)


def test_transforms_are_timed_and_their_memory_told(tmp_path):
    labels = write_pictures(tmp_path / "pictures", 2, (2, 2), size=(120, 160))
    rows = [
        {"level": "exact", **row}
        for row in time_transforms(labels, tmp_path / "pictures", {"level": "exact"}, passes=3)
    ]
    assert [row["part"] for row in rows][-1] == "sample" and rows[-1]["mismatches"] == 0
    assert rows[-1]["stock_peak_mb"] > rows[-1]["plugin_peak_mb"] > 5 and rows[0]["stock_peak_mb"] is None
    files = ["transforms.json", "transforms-cached.json", "transforms-dense.json"]
    assert shown(tmp_path, "transforms", files, rows).count("| 2 texts of 4 corners, exact |") == 3
    assert "| ShrinkBinaryMap + BorderMap |" in shown(tmp_path, "transforms-parts", files, rows)


@pytest.mark.parametrize("count", [0, 1000])
def test_more_workers_than_cores_are_one_sentence(count):
    _load_verbs()
    done = CliRunner().invoke(app, ["bench", "transforms", "--loader", "--workers", str(count)])
    assert isinstance(done.exception, UnreadableInput)
    assert f"--workers {count}: MindSpore takes 1 to {os.cpu_count()} on this machine" in str(done.exception)


def bench(*words):
    _load_verbs()
    return CliRunner().invoke(app, ["bench", "transforms", "--level", "exact", "--passes", "3", *words])


def test_own_labels_are_measured_on_the_records_that_stock_can_read(tmp_path):
    write_pictures(tmp_path, 3, (2, 2), size=(120, 160))
    lines = (tmp_path / "labels.txt").read_text().splitlines()
    name, label = lines[0].split("\t")
    crossing = [[10, 10], [90, 60], [90, 10], [10, 60], [50, 80]]
    bow_tie = json.dumps([{"transcription": "a", "points": crossing}])
    (tmp_path / "broken.jpg").write_text("no picture")
    faulty = [f"{name}\t[{{", f"{name}\t{bow_tie}", f"gone.jpg\t{label}", f"broken.jpg\t{label}"]
    (tmp_path / "own.txt").write_text("\n".join([*faulty, f"{name}\t[]", *lines[1:]]) + "\n")
    done = bench("--labels", str(tmp_path / "own.txt"), "--json", str(tmp_path / "own.json"))
    assert done.exit_code == 0, done.exception
    content = json.loads((tmp_path / "own.json").read_text())
    assert content["conditions"]["left_out"] == 4 and content["rows"][-1]["samples"] == 3
    assert "4 of 7 records are left out" in done.output
    (tmp_path / "data").mkdir()
    own = both_can_read(tmp_path / "own.txt", None, tmp_path / "data")
    assert (own.count, own.left_out) == (3, 4) and own.file.read_text().splitlines()[1:] == lines[1:]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--labels", "none.txt"], "--labels: there is no file none.txt"),
        (["--labels", "labels.txt"], "--images names the folder of the pictures"),
        (["--labels", "labels.txt", "--images", "nowhere"], "--images: there is no folder nowhere"),
        (["--images", "."], "--images names the pictures of --labels, which is not given"),
        (["--pictures", "2", "--cache", "/proc/nope"], "decoded pictures cannot be kept in /proc/nope"),
        (["--pictures", "2", "--reduced", "--cache", "memory", "--level", "fast"], "exclude each other"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("gone.jpg\t[]\n")
    done = bench(*words)
    assert isinstance(done.exception, UnreadableInput) and sentence in str(done.exception)


def test_target_maps_grow_and_stay_equal(tmp_path):
    rows = [{"level": "exact", **row} for row in grow((3,), (5,), (2, 4), 1)]
    assert [(row["polygons"], row["vertices"]) for row in rows] == [(3, 4), (2, 5)]
    assert all(row["mismatches"] == 0 and row["stock_ms"] > 0 < row["plugin_ms"] for row in rows)
    assert "| 3 | 4 |" in shown(tmp_path, "transforms-growth", ["transforms-growth.json"], rows)


def test_overlays_differ_from_the_baseline_in_what_they_say_alone(tmp_path):
    overlays = {"rounded_weights": None}
    overlays.update({name: OVERLAYS / f"{name}.yml" for name in ("amp_o2", "compile_cache")})
    runs = overlay_bench.plan(tmp_path, ["dbnet_r18", "dbnetpp_mobilenetv3"], overlays, 64, 3, 2)
    names = [run.key for run in runs[:6]]
    assert names == [
        f"dbnet_r18-{name}"
        for name in ("none-1", "rounded_weights-1", "amp_o2-1", *(f"compile_cache-{n}" for n in (1, 2, 3)))
    ]
    assert len(runs) == 12 and len((tmp_path / "data" / "labels.txt").read_text().splitlines()) == 6
    merged = {run.key: mindocr_config.read(run.config) for run in runs}
    base, half = merged["dbnet_r18-none-1"], merged["dbnet_r18-amp_o2-1"]
    out = base["train"].pop("ckpt_save_dir")
    assert merged["dbnet_r18-rounded_weights-1"]["train"].pop("ckpt_save_dir") != out
    assert merged["dbnet_r18-rounded_weights-1"] == base
    assert half["system"]["amp_level"] == "O2" and base["system"]["amp_level"] == "O0"
    assert base["train"]["clip_grad"] is half["train"]["clip_grad"] is True
    assert merged["dbnet_r18-compile_cache-1"]["system"]["compile_cache_path"].startswith(str(tmp_path))
    assert merged["dbnetpp_mobilenetv3-none-1"]["model"]["neck"]["use_asf"] is True
    assert yaml.safe_load(runs[0].config.read_text(encoding="utf-8"))["train"]["loader"] == {"batch_size": 2}
    with pytest.raises(UnreadableInput, match="multiple of 32"):
        overlay_bench.plan(tmp_path, ["dbnet_r18"], overlays, 100, 3, 2)


def test_an_overlay_of_the_other_host_is_refused_before_the_first_run(tmp_path):
    overlays = {"exact_targets": configs_dir() / "paddledet" / "mask_rcnn" / "exact_targets.yml"}
    with pytest.raises(UnreadableInput, match=r"exact_targets\.yml is an overlay for PaddleDetection"):
        overlay_bench.plan(tmp_path, ["dbnet_r18"], overlays, 64, 3, 2)


def test_losses_are_compared_with_the_same_model_step_by_step(tmp_path):
    def result(*losses, **cache):
        return {
            "steps": len(losses), "losses": list(losses), "first_step": 9.0, "step_ms": 100.0,
            "facts": {"compile_cache": cache} if cache else {}, "start_up": dict.fromkeys(STARTS, 1.0),
        }  # fmt: skip

    def run(model, overlay, repeat=0):
        return overlay_bench.Run(model, overlay, repeat, tmp_path)

    rows = overlay_bench.rows(
        {
            run("a", "none"): result(4.0, 2.0),
            run("a", "amp_o2"): result(4.0, 2.1),
            run("a", "compile_cache", 1): result(4.0, 2.0, result="hit", size_mb=0.7),
            run("b", "amp_o2"): result(4.0, 2.0),
            run("a", "amp_o3"): result(4.0, float("nan")),
        }
    )
    assert [row["loss_difference_percent"] for row in rows] == [None, pytest.approx(5), 0, None, None]
    assert [row["finite"] for row in rows] == [True, True, True, True, False]
    assert rows[2]["cache"] == "hit" and rows[2]["run"] == 2 and rows[0]["cache"] is None
    assert rows[1]["mean_loss_difference_percent"] == pytest.approx(100 * 0.1 / 6)
    assert "| a | amp_o2 | 5.00 | 5.00 | 1.67 | 9.0 | 100 |" in shown(
        tmp_path, "dbnet-amp", ["dbnet-amp.json"], rows
    )
    starts = shown(tmp_path, "dbnet-starts", ["dbnet-cache.json"], rows)
    assert "| compile_cache | 2 | hit | 1.00 |" in starts and "mindspore 2.8.0" in starts


def test_weights_are_rounded_to_float16_and_stay_float32():
    import mindspore as ms
    import numpy as np
    from mindspore import nn

    from detperf_plugins.mindocr.trial import round_weights

    layer = nn.Dense(
        3, 2, weight_init=ms.Tensor(np.array([[0.1, 2.0, 3e-9], [1 / 3, -0.7, 5.0]], np.float32))
    )
    round_weights(layer)
    got = layer.weight.asnumpy()
    assert got.dtype == np.float32 and got[0].tolist() == [0.0999755859375, 2.0, 0.0]
    np.testing.assert_array_equal(got, got.astype(np.float16))
