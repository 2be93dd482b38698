"""Logs of MindOCR and its neighbours on MindSpore."""

from __future__ import annotations

import pytest

from .log_lines import mindocr, mindocr_epoch, read


def test_mindocr_steps_epochs_banner_and_evaluation():
    banner = (
        "[2024-06-03 09:58:00] mindocr.train INFO - \n"
        + "=" * 40
        + "\nModel: det-x\nBatch size: 8\nSteps per epoch: 80\nAMP level: O0\n"
        + "=" * 40
    )
    text = "\n".join(
        [
            banner,
            "Start training... (The first epoch takes longer, please wait...)",
            mindocr(10, ms=6000, time="09:59:00"),
            mindocr(20, time="09:59:05"),
            mindocr(30, time="09:59:10").replace("lr:", "lr_0:"),
            mindocr_epoch(1, 95),
            "[2024-06-03 10:00:30] mindocr.utils.callbacks INFO - Performance: {'recall': 0.5, 'f-score': "
            "0.6}, eval time: 30.5",
        ]
    )
    log, result = read(text)
    assert (result.steps, result.epochs, result.evaluations, result.eval_time) == (3, 1, 1, 30.5)
    assert (
        log.banner["Batch size"] == "8"
        and log.banner["Steps per epoch"] == "80"
        and log.banner["AMP level"] == "O0"
    )
    assert log.records[2].lr == 0.001 and log.records[3].epoch_time == 95
    assert result.ips == pytest.approx(16.0) and result.compile == pytest.approx(55.0)
    assert "log-amp-off" in {f.rule.id for f in result.findings}


def test_start_up_is_divided():
    text = "\n".join(
        [
            "[2024-06-03 10:00:00] mindocr.train INFO - Standalone training. Device id: 0.",
            "[2024-06-03 10:00:07] mindocr.data.builder INFO - Creating dataloader (training=True) for "
            "device 0.",
            "[2024-06-03 10:00:20] mindocr.models INFO - Finish loading model checkpoint from: /a.ckpt",
            mindocr(10, ms=6000, time="10:05:00"),
            mindocr(20, time="10:05:05"),
            mindocr(30, time="10:05:10"),
        ]
    )
    _log, result = read(text)
    phases = dict(result.phases)
    assert (
        result.startup == 300 and phases["until data set"] == 7 and phases["until model and checkpoint"] == 13
    )
    assert phases["the first 10 steps"] == 60 and phases["before the first step (import, data, graph)"] == 220
    assert sum(phases.values()) == pytest.approx(300)


def test_epoch_lines_alone():
    text = "\n".join(
        [mindocr_epoch(1, 80.0), mindocr_epoch(2, 20.0), mindocr_epoch(3, 21.0), mindocr_epoch(4, 20.5)]
    )
    _log, result = read(text)
    assert result.ips == pytest.approx(8 * 50 / 20.5, abs=0.01) and result.compile == pytest.approx(59.5)
    assert "sink mode" in result.reasons["steps"] and result.ips_from.endswith("from epoch 2 on")


def test_one_epoch_cannot_tell():
    _log, result = read(mindocr_epoch(1, 80.0))
    assert result.ips is None and result.compile is None
    assert "compilation" in result.reasons["images_per_s"] and "second" in result.reasons["compile"]
    assert [f.rule.id for f in result.findings] == ["log-one-epoch"]


def test_framework_messages_are_counted_by_component():
    text = (
        "[WARNING] ME(77:2810,MainProcess):2024-06-03-10:00:00.118.207 [mindspore/x.py:8] "
        "GeneratorDataset's num_parallel_workers: 9 "
        "is too large. Therefore, it is recommended to reduce num_parallel_workers to 3 or smaller.\n"
        + mindocr(10)
        + "\n[ERROR] MD(77,ffff,python):2024-06-03-10:00:09.730.551 [mindspore/y.cc:2] Run] Task is "
        "terminated\n"
    )
    _log, result = read(text)
    assert result.framework == {"ME warning": 1, "MD error": 1} and result.steps == 1
    found = {f.rule.id: f for f in result.findings}
    assert found["log-workers-many"].fix == "Reduce num_workers to 3."
    assert "component MD" in found["log-framework-error"].message


def test_mindyolo_is_not_mindocr():
    line = (
        "2024-01-02 03:04:05,600 [INFO] Epoch {0}/90, Step 5/9, imgsize (640, 640), loss: {1}, lbox: "
        "0.1, lcls: 0.2, cur_lr: 0.002\n"
    )
    text = (
        line.format(1, 0.5) + "2024-01-02 03:04:05,700 [INFO] Epoch 1/90, Step 5/9, step time: 1500.0 ms\n"
        "2024-01-02 03:04:06,700 [WARNING] overflow, still update, loss scale adjust to 512.0\n"
        + line.format(2, 700.0)
    )
    log, result = read(text)
    assert result.dialects == ["MindYOLO"] and log.records[0].batch_cost == 1.5 and result.steps == 2
    found = {f.rule.id: f for f in result.findings}
    assert "line 3 precedes it" in found["log-loss-explodes"].message and "log-foreign" in found


def test_mindspore_monitors():
    text = "epoch: 1 step: 50, loss is 2.5\nTrain epoch time: 9000.0 ms, per step time: 180.0 ms\n"
    text += "epoch: 2 step: 50, loss is 1.5\nTrain epoch time: 3000.0 ms, per step time: 60.0 ms\n"
    _log, result = read(text)
    assert result.dialects == ["MindSpore"] and result.compile == pytest.approx(6.0)
    assert [loss for _x, loss in result.losses] == [2.5, 1.5]


def test_the_summary_of_detperf_train_is_believed():
    """Its figures were measured; those of the lines are guesses. The block stands at the end of its log."""
    summary = """
Where the time went
  before and in the first step:
    import mindspore       1.38 s
    data set               0.03 s
    compile                7.25 s
  during training:
    steps                 12.90 s
    compile                9.99 s
  steady: 989.7 ms a step, waiting for data 12.5 %
  3.94 img/s over the epochs after the first
    compile               99.00 s"""
    lines = [mindocr(step, ms=6000 if step == 10 else 500, time=f"09:59:{step:02}") for step in (10, 20, 30)]
    guessed = read("\n".join(lines))[1]
    result = read("\n".join([*lines, "Training completed!", summary]))[1]
    assert guessed.reader_share is None and guessed.compile != 7.25
    assert (result.compile, result.reader_share) == (7.25, 0.125)
    assert result.phases == [("import mindspore", 1.38), ("compile", 7.25)]
    assert "reader_share" not in result.reasons
