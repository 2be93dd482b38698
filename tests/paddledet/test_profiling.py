"""`detperf profile`: ranges, tables, traces and advice of the stock trainer. Timings decide nothing here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ppdet")

from detperf_plugins import configs_dir
from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.paddledet import profiles, short_run, variants
from detperf_plugins.paddledet.advice import OVERLAYS, RECOMMENDED, REMEDIES, advise
from tests.paddledet.scripts import run, tiny_config

DETPERF = [sys.executable, "-c", "from detperf_plugins.cli import main; main()"]
PARTS = {
    "reader": 0, "backbone": 0, "neck": 0, "RPNHead": 0, "RPNHead::rpn_feat": 1, "RPNHead::gen_proposal": 1,
    "RPNHead::loss": 1, "RPNHead::rpn_target_assign": 2, "BBoxHead": 0, "BBoxHead::bbox_assigner": 1,
    "BBoxHead::roi_extractor": 1, "BBoxHead::head": 1, "BBoxHead::loss": 1, "MaskHead": 0,
    "MaskHead::assign_mask": 1, "MaskHead::assign_mask::rasterize_polygons_within_box": 2,
    "MaskHead::roi_extractor": 1, "MaskHead::head": 1, "MaskHead::loss": 1, "backward": 0, "optimizer": 0,
    "clear_grad": 0, "statistics": 0, "callbacks": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, shapes):
    """Stock against exact_parts, by the command."""
    folder = tmp_path_factory.mktemp("profile")
    config = tiny_config(folder, shapes, TrainReader={"batch_size": 2})
    output = run(
        [*DETPERF, "profile", "-c", str(config), "--from", "2", "--to", "4", "--op-steps", "1", "--out",
         str(folder / "out"), "--against", "exact_parts", "--json", str(folder / "copy.json")]
    )  # fmt: skip
    written = json.loads((folder / "out" / "profile.json").read_text(encoding="utf-8"))
    other = json.loads((folder / "out" / "against" / "profile.json").read_text(encoding="utf-8"))
    return SimpleNamespace(folder=folder, config=config, output=output, stock=written, plugin=other)


def test_every_part_of_every_step_has_its_range(profiled):
    for written in (profiled.stock, profiled.plugin):
        depths = {row["name"]: row["depth"] for row in written["rows"]}
        assert {name: depth for name, depth in depths.items() if name in PARTS} == PARTS
        assert set(depths) - PARTS.keys() <= {"(no range)", "RPNHead::anchor_generator"}
        calls = {row["name"]: row["calls"] for row in written["rows"]}
        assert all(calls[name] == 3 for name in PARTS if name not in
                   ("callbacks", "MaskHead::assign_mask::rasterize_polygons_within_box"))  # fmt: skip
    assert profiled.stock["sources"]["MaskHead::assign_mask"].startswith("ppdet.")
    assert profiled.plugin["sources"]["MaskHead::assign_mask"].startswith("detperf_plugins.")


def test_the_parts_add_up_to_the_steps(profiled):
    written = profiled.stock
    assert written["steps"] == 3
    assert sum(row["cpu_self_ms"] for row in written["rows"]) == pytest.approx(written["total_ms"])
    outer = sum(row["cpu_total_ms"] for row in written["rows"] if row["depth"] == 0)
    assert outer == pytest.approx(written["total_ms"])
    unnamed = next(row for row in written["rows"] if row["name"] == "(no range)")
    assert written["coverage"] == pytest.approx(1 - unnamed["cpu_ratio"] / 100)
    assert written["outside_percent"] == pytest.approx(
        100 * (written["total_ms"] / written["outside_ms"] - 1)
    )
    assert written["overhead"]["calls_per_step"] >= len(PARTS)


def test_operators_and_timers(profiled):
    names = {row["op"].split(" ")[0] for row in profiled.stock["ops"]}
    assert {"conv2d", "roi_align", "RoiAlignGradNode"} <= names
    totals = [row["cpu_total_ms"] for row in profiled.stock["ops"]]
    assert totals == sorted(totals, reverse=True)
    assert sum(row["cpu_ratio"] for row in profiled.stock["ops"]) == pytest.approx(100)
    timers = {row["timer"]: row for row in profiled.stock["timers"]}
    assert timers["ips"]["avg"] == pytest.approx(2 / timers["batch_cost"]["avg"])
    assert all(row["min"] <= row["median"] <= row["max"] for row in timers.values())


def test_what_waits_is_named_with_an_overlay_that_exists(profiled):
    advice = {row["part"]: row for row in profiled.stock["advice"]}
    assert advice["MaskHead::assign_mask"]["overlay"] == "exact_targets"
    assert advice["MaskHead::assign_mask"]["host_reads"] > 1
    assert advice["RPNHead::rpn_target_assign"]["overlay"] == "exact_parts"
    assert advice["MaskHead::loss"]["waiting_ops"] == 1  # the nonzero in stock's loss
    assert "add the overlay exact_targets" in profiled.output
    after = {row["part"]: row for row in profiled.plugin["advice"]}
    assert "MaskHead::loss" not in after
    assert all(row["overlay"] is None for row in after.values())
    assert after["MaskHead::assign_mask"]["host_reads"] == 1


def test_every_remedy_is_shipped():
    for overlay in (*REMEDIES.values(), RECOMMENDED):
        assert (configs_dir() / OVERLAYS / f"{overlay}.yml").is_file()


def test_a_slow_reader_is_worth_a_word():
    module = {"name": "reader", "cpu_total_ms": 30.0, "cpu_ratio": 30.0}
    result = {"modules": [module], "host_reads": {}, "waiting_ops": {}, "sources": {}, "steps": 3}
    (row,) = advise(result)
    assert row["cpu_ms"] == 10 and "worker_num" in row["advice"]
    module["cpu_ratio"] = 1.0
    assert advise(result) == []


def test_float32_on_a_gpu_is_worth_a_word():
    modules = [{"name": name, "cpu_total_ms": 30.0, "cpu_ratio": 30.0} for name in ("backbone", "RPNHead")]
    result = {"modules": modules, "host_reads": {}, "waiting_ops": {}, "sources": {}, "steps": 3}
    assert advise(result) == advise({**result, "float32_on_gpu": False}) == []
    (row,) = advise({**result, "float32_on_gpu": True})
    assert (row["part"], row["overlay"]) == ("backbone", "mask_rcnn_r50_nhwc_amp")
    assert advise({**result, "modules": modules[:1], "float32_on_gpu": True}) == []  # a one-stage detector


def test_what_was_not_recorded_is_no_zero(tmp_path, shapes):
    config = tiny_config(tmp_path, shapes, TrainReader={"batch_size": 2})
    output = run(
        [*DETPERF, "profile", "-c", str(config), "--from", "2", "--to", "2", "--op-steps", "0", "--out",
         str(tmp_path / "out")]
    )  # fmt: skip
    written = json.loads((tmp_path / "out" / "profile.json").read_text(encoding="utf-8"))
    assert written["waiting_ops"] is None and written["host_reads"]
    assert all(row["waiting_ops"] is None and row["host_reads"] for row in written["advice"])
    (line,) = [line for line in output.splitlines() if "MaskHead::assign_mask" in line and "overlay" in line]
    assert line.replace("│", "|").split("|")[4].strip() == "-"


def test_traces_hold_the_ranges(profiled):
    for name in ("trace.json", "trace_ops.json"):
        text = (profiled.folder / "out" / name).read_text(encoding="utf-8")
        names = {event.get("name", "").split("[")[0] for event in json.loads(text)["traceEvents"]}
        assert {"backbone", "MaskHead::assign_mask", "backward"} <= names
    assert (profiled.folder / "out" / "profile.png").stat().st_size > 10_000


def test_two_profiles_side_by_side(profiled):
    rows = profiled.stock["compared"]
    step = [sum(row[side] for row in rows if row["depth"] == 0) for side in ("this_ms", "other_ms")]
    assert sum(row["self_difference_ms"] for row in rows) == pytest.approx(step[1] - step[0])
    assert profiled.stock["moved"] in " ".join(profiled.output.split())
    stock = profiles.read(profiled.folder / "out")
    same = profiles.compare(stock, profiles.read(profiled.folder / "copy.json"))
    assert all(row["difference_ms"] == 0 for row in same)
    assert profiles.moved(same).endswith("no part moved by 1% of a step.")
    with pytest.raises(UnreadableInput, match="is no profile"):
        profiles.read(profiled.folder)


def test_ranges_leave_nothing_behind():
    import paddle

    from detperf_plugins.measure.timeline import Timeline
    from detperf_plugins.paddledet.ranges import name_parts

    class Assigner:
        def __call__(self, value):
            return value + 1

    class Head(paddle.nn.Layer):
        def __init__(self, assigner):
            super().__init__()
            self.mask_assigner = assigner

        def forward(self, value):
            return self.mask_assigner(value)

        def get_loss(self):
            return None

    model = paddle.nn.Layer()
    model.mask_head = Head(Assigner())
    other = Assigner()
    optimizer = SimpleNamespace(step=lambda: None, clear_grad=lambda: None)
    callbacks = SimpleNamespace(on_step_begin=lambda: None, on_step_end=lambda: None)
    trainer = SimpleNamespace(model=model, optimizer=optimizer, _compose_callback=callbacks)
    before = (
        dict(vars(model.mask_head)),
        vars(Assigner).copy(),
        paddle.Tensor.backward,
        dict(vars(optimizer)),
    )
    timeline = Timeline()
    current = [timeline]
    sources, undo = name_parts(trainer, lambda: current[0])
    timeline.begin_step()
    assert model.mask_head(1) == 2 and other(1) == 2
    current[0] = None
    assert model.mask_head(1) == 2
    timeline.end_step()
    assert [one.name for one in timeline.ranges] == ["MaskHead", "MaskHead::assign_mask"]
    assert sources["MaskHead::assign_mask"] == __name__
    undo()
    after = (
        dict(vars(model.mask_head)),
        vars(Assigner).copy(),
        paddle.Tensor.backward,
        dict(vars(optimizer)),
    )
    assert after == before


def test_a_missing_data_set_or_config_is_one_sentence(tmp_path, shapes):
    config = tiny_config(tmp_path, shapes, TrainDataset={"dataset_dir": str(tmp_path / "nowhere")})
    command = [*DETPERF, "profile", "-c", str(config), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("detperf: no data set: TrainDataset of")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    with pytest.raises(UnreadableInput, match="no config file"):
        variants.is_complete(tmp_path / "none.yml")
    (tmp_path / "tabs.yml").write_text("a:\n\t- b: [", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="cannot be read"):
        variants.is_complete(tmp_path / "tabs.yml")
    (tmp_path / "ring.yml").write_text("_BASE_: ring.yml\n", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="includes itself"):
        variants.is_complete(tmp_path / "ring.yml")


def test_an_interrupted_run_keeps_what_it_measured(tmp_path, shapes):
    out = tmp_path / "out"
    config = tiny_config(tmp_path, shapes, TrainReader={"batch_size": 2})
    command = [*DETPERF, "profile", "-c", str(config), "--from", "1", "--to", "100000", "--out", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "COLUMNS": "1000"},
        # A test run in the background of a shell script is deaf to SIGINT, and so would be its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        log = out / "train.log"
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and process.poll() is None:
            if log.is_file() and log.read_text(encoding="utf-8", errors="replace").count("loss_mask") >= 3:
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 1, output
    assert "detperf: interrupted;" in output and "steps were measured" in output and "Traceback" not in output
    written = json.loads((out / "profile.json").read_text(encoding="utf-8"))
    assert written["steps"] >= 2 and written["stopped"] == "interrupted"
    assert sum(row["cpu_self_ms"] for row in written["rows"]) == pytest.approx(written["total_ms"])


def test_errors_that_end_a_run_are_one_line():
    error = RuntimeError("C++ Traceback\n  at foo\nResourceExhaustedError: Out of memory on GPU 0\n\n  hint")
    assert short_run.out_of_memory(error)
    assert short_run.sentence(error) == "RuntimeError: ResourceExhaustedError: Out of memory on GPU 0"
    assert short_run.out_of_memory(MemoryError()) and not short_run.out_of_memory(ValueError("other"))
    assert short_run.sentence(KeyboardInterrupt()) == "interrupted"


def test_a_run_that_ends_too_early_measures_nothing(tmp_path, monkeypatch):
    def ended(module, arguments, log: Path, on_event):
        on_event({"result": {"modules": [], "stopped": "ValueError: x"}})
        return SimpleNamespace(status=0, last_line="", interrupted=False)

    monkeypatch.setattr(profiles, "run_child", ended)
    with pytest.raises(DetperfError, match=r"step 3 of .* was never over, .*: ValueError: x"):
        profiles.make(tmp_path / "config.yml", tmp_path, first=3, last=5, op_steps=0)
