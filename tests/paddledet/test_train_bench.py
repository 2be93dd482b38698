"""`detperf bench train`: rows of runs that end well or badly, and going on from them. No timing decides."""

from __future__ import annotations

import csv
import json
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("ppdet")

from detperf_plugins import configs_dir
from detperf_plugins.errors import UnreadableInput
from detperf_plugins.paddledet import variants
from detperf_plugins.paddledet.train_bench import size_of
from tests.paddledet.scripts import OVERLAYS, run, tiny_config

DETPERF = [sys.executable, "-c", "from detperf_plugins.cli import main; main()"]
# A mask head whose third step raises, put there by the config itself.
RAISING = """
from ppdet.modeling.heads import mask_head
calls = []
def forward(self, *args, **kwargs):
    calls.append(1)
    if len(calls) == 3:
        raise {error}
    return original(self, *args, **kwargs)
original = mask_head.MaskHead.forward
mask_head.MaskHead.forward = forward
"""


def raising(error):
    code = json.dumps(RAISING.format(error=error))
    return f"raising: !!python/object/apply:builtins.exec [{code}, {{}}]\n"


@pytest.fixture(scope="module")
def bench(tmp_path_factory, shapes):
    """A baseline, one that runs out of memory and one that fails; then the same command again."""
    folder = tmp_path_factory.mktemp("bench")
    config = tiny_config(folder, shapes)
    full, broken = folder / "full.yml", folder / "broken.yml"
    full.write_text(raising('MemoryError("9 GB")'), encoding="utf-8")
    broken.write_text(raising('ValueError("a fault")'), encoding="utf-8")
    command = [
        *DETPERF, "bench", "train", "-c", str(config), "--tuned", str(full), "--tuned", f"bad={broken}",
        "--batch-size", "2", "--steps", "2", "--warm-up", "1", "--repeats", "1", "--out", str(folder / "out"),
    ]  # fmt: skip
    first = run(command, ok=False)
    second = run(command, ok=False)
    written = json.loads((folder / "out" / "bench_train.json").read_text(encoding="utf-8"))
    return SimpleNamespace(folder=folder / "out", first=first, second=second, written=written)


def test_a_run_without_memory_is_a_row_and_a_failed_one_too(bench):
    rows = {row["direction"]: row for row in bench.written["rows"]}
    assert {name: row["status"] for name, row in rows.items()} == {
        "baseline": "ok", "full": "out of memory", "bad": "failed",
    }  # fmt: skip
    good = rows["baseline"]
    assert (good["steps"], good["repeats"], good["gain"]) == (2, 1, 0)
    assert good["ips_avg"] == pytest.approx(2 / good["batch_cost_avg"])
    assert good["cpu_cost_median"] > 0 and rows["full"]["cpu_cost_median"] is None
    assert good["host_mb"] > 100 and good["device_mb"] is None
    assert good["loader_bytes"] > 2 * 3 * 128 * 128 * 4  # two pictures of float32, and their ground truth
    assert rows["full"]["ips_avg"] is None and rows["bad"]["error"] == "ValueError: a fault"
    assert "detperf: bad: ValueError: a fault" in bench.first and "Traceback (most" not in bench.first


def test_finished_runs_are_not_run_again(bench):
    assert "runs are in" not in bench.first
    assert "2 of 3 runs are in" in " ".join(bench.second.split())
    assert {file.stem for file in (bench.folder / "runs").iterdir()} == {
        "baseline-bs2-fp32-1", "full-bs2-fp32-1",
    }  # fmt: skip


def test_everything_is_in_the_folder(bench):
    header = (bench.folder / "bench_train.md").read_text(encoding="utf-8").splitlines()[0]
    assert header == "| direction | content | precision | BS=2: ips, gain |"
    with (bench.folder / "bench_train.csv").open(encoding="utf-8") as file:
        assert [line["status"] for line in csv.DictReader(file)] == ["ok", "out of memory", "failed"]
    assert (bench.folder / "bench_train.png").stat().st_size > 5_000
    logs = {file.stem for file in (bench.folder / "logs").iterdir()}
    assert logs == {"baseline-bs2-fp32-1", "full-bs2-fp32-1", "bad-bs2-fp32-1"}
    assert {"date", "steps", "warm_up", "processor", "configs"} <= bench.written["conditions"].keys()


def test_an_overlay_over_a_baseline_and_its_fingerprint(tmp_path, shapes):
    baseline = tiny_config(tmp_path / "a", shapes)
    overlay = OVERLAYS / "exact_targets.yml"
    assert variants.is_complete(baseline) and not variants.is_complete(overlay)
    made = variants.over(baseline, overlay, tmp_path / "made")
    files = [path.name for path, _ in variants.config_files(made)]
    assert files == [made.name, "config.yml", "mask_rcnn_r18_fpn_shapes.yml", "exact_targets.yml"]
    mark = variants.fingerprint(made, [1])
    assert mark == variants.fingerprint(made, [1]) != variants.fingerprint(made, [2])
    baseline.write_text(baseline.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert variants.fingerprint(made, [1]) != mark


def test_two_configs_of_one_name_and_unknown_words_are_refused(tmp_path):
    from typer.testing import CliRunner

    from detperf_plugins import cli

    cli._load_verbs()
    tiny = str(configs_dir() / variants.TINY)
    for words, message in (
        (["--tuned", "exact_parts", "--tuned", "exact_parts"], "two configs are called 'exact_parts'"),
        (["--tuned", "no_such_overlay"], "no shipped config is called"),
        (["--precision", "fp8"], "--precision fp8 is unknown"),
    ):
        arguments = ["bench", "train", "-c", tiny, "--out", str(tmp_path), *words]
        error = CliRunner().invoke(cli.app, arguments).exception
        assert isinstance(error, UnreadableInput) and message in str(error)


def test_a_missing_data_set_is_one_sentence_before_anything_runs(tmp_path, shapes, monkeypatch):
    from typer.testing import CliRunner

    from detperf_plugins import cli
    from detperf_plugins.cli import bench_train

    cli._load_verbs()
    monkeypatch.setattr(bench_train, "run_child", None)
    config = tiny_config(tmp_path, shapes)
    words = ["-o", f"TrainDataset.dataset_dir={tmp_path}"]
    for command in (["-c", str(config), *words], ["-c", str(tiny_config(tmp_path, tmp_path))]):
        done = CliRunner().invoke(cli.app, ["bench", "train", "--out", str(tmp_path / "out"), *command])
        assert isinstance(done.exception, UnreadableInput) and done.stdout == ""
        assert str(done.exception).startswith(f"no data set: TrainDataset of {config} names ")


def test_one_fault_of_every_run_is_said_once(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from detperf_plugins import cli
    from detperf_plugins.cli import bench_train
    from detperf_plugins.measure.child import Ended

    cli._load_verbs()
    ended = Ended(1, "detperf: no GPU", False)
    monkeypatch.setattr(bench_train, "run_child", lambda *given: ended)
    command = ["bench", "train", "--batch-size", "2", "--repeats", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli.app, command)
    assert str(done.exception) == (
        f"every run failed: baseline, exact_targets, exact_parts: no GPU (logs: {tmp_path / 'logs'})"
    )
    assert "Training speed" not in done.stdout


def test_what_stops_it_is_one_sentence_and_what_was_measured_is_kept(tmp_path, shapes, monkeypatch):
    """Ctrl-C in the second run, then a full disk there, then neither: no process is started here."""
    from typer.testing import CliRunner

    from detperf_plugins import cli
    from detperf_plugins.cli import bench_train
    from detperf_plugins.measure.child import Ended

    measured = {"status": "ok", "error": None, "reader_s": [0.1], "batch_s": [1.0], "cpu_s": [1.0]}
    started = []

    def child(second, module, arguments, log, on_event):
        started.append(log.stem)
        on_event({"result": measured})
        return second if "exact_targets" in log.stem else Ended(0, "", False)

    cli._load_verbs()
    command = ["bench", "train", "-c", str(tiny_config(tmp_path, shapes)), "--tuned", "exact_targets",
               "--batch-size", "2", "--steps", "1", "--repeats", "1", "--out", str(tmp_path)]  # fmt: skip
    kept = f"1 of 2 runs are kept in {tmp_path}: the same command goes on"
    for second, sentence in (
        (Ended(0, "", True), f"interrupted; {kept}"),
        (Ended(0, "", False, "cannot write a.log: No space left on device"), None),
        (Ended(0, "", False), None),
    ):
        monkeypatch.setattr(bench_train, "run_child", lambda *given, second=second: child(second, *given))
        error = CliRunner().invoke(cli.app, command).exception
        if sentence:
            assert str(error) == sentence
        elif second.fault:
            assert "No space left on device; 2 of 2 runs are kept" in str(error)
        else:
            assert error is None
    assert started == ["baseline-bs2-fp32-1", "exact_targets-bs2-fp32-1", "exact_targets-bs2-fp32-1"]
    rows = json.loads((tmp_path / "bench_train.json").read_text(encoding="utf-8"))["rows"]
    assert [row["gain"] for row in rows] == [0, 0]


def test_bytes_of_a_batch():
    import paddle

    image = paddle.zeros([2, 3, 4, 4], dtype="float32")
    boxes = [np.zeros((5, 4), dtype=np.float32), np.zeros((1, 4), dtype=np.float32)]
    polygons = [[[[1.0, 2.0, 3.0, 4.0]]], [[[5.0, 6.0]]]]
    assert size_of({"image": image, "gt_bbox": boxes}) == 2 * 3 * 16 * 4 + 6 * 16
    assert size_of(polygons) == len(pickle.dumps(polygons, protocol=pickle.HIGHEST_PROTOCOL))
    assert size_of([[boxes[0]], []]) == 80 + size_of([])
