"""Kind d: training logs in every dialect, and what they cannot tell."""

from __future__ import annotations

import pytest

from detperf_plugins.doctor.logs.analyse import Analysis, analyse
from detperf_plugins.doctor.logs.read import Log, read_log_text


def read(text: str) -> tuple[Log, Analysis]:
    log = read_log_text(text, "train.log")
    return log, analyse(log)


def faults(text: str) -> dict:
    found: dict = {}
    for finding in read(text)[1].findings:
        found.setdefault(finding.rule.id, finding)
    return found


def ppdet(
    step: int,
    epoch=0,
    steps=500,
    loss="1.25",
    cost=0.5,
    data=0.01,
    stamp="[03/07 08:00:00] ",
    extra="",
    eta="1:02:03",
):
    return (
        f"{stamp}ppdet.engine INFO: Epoch: [{epoch}] [{step:>3}/{steps}] learning_rate: 0.000{step:03d} "
        f"loss_rpn_cls: 0.31 {extra}loss_mask: 0.72 loss: {loss} eta: {eta} batch_cost: {cost:.4f} "
        f"data_cost: {data:.4f} ips: {2 / cost:.4f} images/s"
    )


def mindocr(step: int, epoch=1, steps=80, loss="3.5", ms=500.0, time="10:00:00", bs=8):
    return (
        f"[2024-06-03 {time}] mindocr.utils.callbacks INFO - epoch: [{epoch}/40] step: [{step}/{steps}], "
        f"loss: {loss}, "
        f"lr: 0.001000, per step time: {ms:.3f} ms, fps per card: {1000 * bs / ms:.2f} img/s"
    )


def mindocr_epoch(epoch: int, seconds: float, loss="3.5", steps=50, bs=8, time="10:00:00"):
    ms = 1000 * seconds / steps
    return (
        f"[2024-06-03 {time}] mindocr.utils.callbacks INFO - epoch: [{epoch}/9], loss: {loss}, epoch time: "
        f"{seconds:.3f} s, "
        f"per step time: {ms:.3f} ms, fps per card: {1000 * bs / ms:.2f} img/s"
    )


def ppocr(step: int, cost=0.4, reader=0.02, samples=16.0, loss="1.5", epoch=2):
    return (
        f"[2024/05/06 07:08:{step % 60:02d}] ppocr INFO: epoch: [{epoch}/90], global_step: {step}, lr: "
        f"0.001000, loss: {loss}, "
        f"loss_shrink_maps: 0.8, loss_cbn: 0.000000, avg_reader_cost: {reader:.5f} s, avg_batch_cost: "
        f"{cost:.5f} s, "
        f"avg_samples: {samples}, ips: {samples / cost:.5f} samples/s, eta: 3 days, 4:05:06, "
        f"max_mem_reserved: 2000 MB, max_mem_allocated: 1500 MB"
    )


def test_paddledetection():
    text = "\n".join(
        [ppdet(0, cost=9.0, data=4.0, eta="2 days, 1:00:00"), ppdet(20, cost=0.5), ppdet(40, cost=0.4)]
    )
    log, result = read(text)
    first = log.records[0]
    assert (first.epoch, first.step, first.steps, first.eta) == (0, 0, 500, 2 * 86400 + 3600)
    assert first.losses == {"loss_rpn_cls": 0.31, "loss_mask": 0.72} and first.loss == 1.25
    assert result.warm_up == [first] and result.ips == pytest.approx(4.5)
    assert result.reader_share == pytest.approx(0.02 / 0.9)
    assert result.compile == pytest.approx(9.0 - 0.45)


def test_a_log_without_time_stamps():
    text = (
        "\n".join(ppdet(s, stamp="").replace("ppdet.engine INFO: ", "") for s in (0, 20, 40))
        + "\nSave checkpoint: out\n"
    )
    _log, result = read(text)
    assert result.ips == pytest.approx(4.0) and result.elapsed is None
    assert "no time stamps" in result.reasons["elapsed"]


def test_the_static_graph_spellings():
    text = (
        "2021-03-04 05:06:07,100-INFO: iter: 0, lr: 0.000010, 'loss_cls': '1.2', 'loss': '3.5', eta: "
        "0:00:00, batch_cost: 0.00004 s, "
        "ips: 88123.5 images/sec\n"
        "2021-03-04 05:06:27,100-INFO: iter: 20, lr: 0.000020, 'loss_cls': '1.0', 'loss': '3.1', time: "
        "1.500, eta: 2:00:00\n"
        "2021-03-04 05:06:47,100-INFO: iter: 40, lr: 0.000030, 'loss_cls': 'nan', 'loss': 'nan', eta: "
        "1:00:00, batch_cost: 0.25 sec, "
        "ips: 8.0 images/sec\n"
    )
    log, result = read(text)
    assert [r.step for r in log.records] == [0, 20, 40] and log.records[1].batch_cost == 1.5
    assert result.ips == 8.0 and result.elapsed == 40
    found = {f.rule.id: f for f in result.findings}
    assert "88123" in found["log-artefact"].message
    assert "iter 40" in found["log-loss-nan"].message and "loss_cls" in found["log-loss-nan"].message
    assert found["log-loss-nan"].line == 3


def test_a_ci_wrapper_is_taken_off():
    inner = "2020-05-06 01:02:03.100000, iter: {}, lr: 0.001, 'loss_a': 0.5, 'loss': {}, time: 0.3"
    text = "\n".join(
        f'[01:02:09] :\t [Step 2/5] ["{inner.format(i, v)}"]' for i, v in ((7, "1.5"), (8, "inf"))
    )
    log, result = read(text)
    assert [(r.step, r.batch_cost) for r in log.records] == [(7, 0.3), (8, 0.3)]
    assert "iter 8" in {f.rule.id: f for f in result.findings}["log-loss-nan"].message


def test_paddleocr_partial_windows_and_reader_share():
    text = "\n".join(
        [
            ppocr(500, cost=2.0, reader=1.5),
            ppocr(510, cost=2.0, reader=1.7),
            ppocr(514, 0.1, 0.09, 1.6, epoch=3),
        ]
    )
    log, result = read(text)
    assert log.records[0].eta == 3 * 86400 + 4 * 3600 + 5 * 60 + 6 and result.memory == 1500
    assert len(result.partial) == 1 and result.ips == pytest.approx(8.0)
    assert result.reader_share == pytest.approx(0.8)
    finding = {f.rule.id: f for f in result.findings}["log-reader-bound"]
    assert "80.0%" in finding.message and "input bound" in finding.message


SCALE = "Found inf or nan, current scale is: {}, decrease to: {}*0.5\n"


def test_loss_scales():
    found = faults(ppocr(10) + "\n" + "".join(SCALE.format(v, v) for v in (0.5, 3.05e-05)) + ppocr(20) + "\n")
    assert (
        "2 overflows, up to 2 in a row" in found["log-scale-low"].message
        and "3.05e-05" in found["log-scale-low"].message
    )
    found = faults("".join(SCALE.format(v, v) for v in (8.0, 4.0, 0.0)) + ppocr(20) + "\n")
    assert found["log-scale-zero"].severity == "error" and found["log-scale-zero"].line == 3
    assert "bf16" in found["log-scale-zero"].fix and "3 in a row" in found["log-scale-zero"].message
    found = faults(SCALE.format(1024.0, 1024.0) + ppocr(10) + "\n" + SCALE.format(512.0, 512.0))
    assert (
        found["log-scale-halved"].severity == "hint"
        and "up to 1 in a row" in found["log-scale-halved"].message
    )


def test_progress_bars_and_an_abort_in_evaluation():
    bar = "eval model::  {}%|{}| {}/400 [00:0{}<00:09, 44.1it/s]"
    text = (
        ppocr(90)
        + "\n"
        + bar.format(30, "███   ", 120, 3)
        + "\r"
        + bar.format(99, "█████▉", 399, 8)
        + "INFO 2024-05-06 07:09:00,100 launch_utils.py:301] terminate\n"
        "ERROR 2024-05-06 07:09:00,200 launch_utils.py:602] ABORT!!! Out of all 4 trainers, the trainer "
        "process with "
        "rank=[2] was aborted. Please check its log.\n"
    )
    message = faults(text)["log-aborted"].message
    assert "rank 2" in message and "during evaluation" in message
    assert (
        "during training"
        in faults(text.replace("eval model", "x").split("\n")[0] + "\n" + text.split("\n")[-2])[
            "log-aborted"
        ].message
    )


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


def test_a_truncated_log():
    whole = "\n".join([ppdet(20), ppdet(40)])
    log, result = read(whole[: whole.rindex("loss_mask: 0.72 loss:") + 13])
    assert result.steps == 1 and log.last_step == 40
    assert "step 40" in {f.rule.id: f for f in result.findings}["log-truncated"].message


def test_new_year():
    text = "\n".join([ppdet(100, 3, stamp="[12/31 23:59:30] "), ppdet(120, 3, stamp="[01/01 00:00:10] ")])
    assert read(text)[1].elapsed == 40


def test_colours_do_not_matter():
    plain = ppdet(20)
    coloured = (
        plain.replace("ppdet.engine", "\x1b[32mppdet.engine\x1b[0m").replace("loss: ", "\x1b[1;31mloss: ")
        + "\x1b[K\x1b[0m"
    )
    assert read(coloured)[0].records == read(plain)[0].records


@pytest.mark.parametrize("width", [60, 79, 80, 97, 120])
def test_wrapped_lines_are_joined(width):
    lines = [ppdet(s, cost=0.5 + s / 1000) for s in (0, 20, 40, 60)]
    wrapped = "\n".join(line[i : i + width] for line in lines for i in range(0, len(line), width))
    expected = [(r.step, r.loss, r.ips, r.data_cost, r.losses) for r in read("\n".join(lines))[0].records]
    assert [(r.step, r.loss, r.ips, r.data_cost, r.losses) for r in read(wrapped)[0].records] == expected


def test_runs_of_blanks_inside_a_number():
    text = (
        "2021-01-02 03:04:05,600 DBNet.pytorch INFO: [3/90], [20/31], global_step: 80, speed: 1            "
        "  2.5 samples/sec, acc: 0.4, "
        "loss: 3.2, loss_shrink_maps: 1.           75, lr:0.0005, time:1.28\n"
    )
    log, result = read(text)
    record = log.records[0]
    assert record.ips == 12.5 and record.losses["loss_shrink_maps"] == 1.75 and record.lr == 0.0005
    assert "DBNet.pytorch" in {f.rule.id: f for f in result.findings}["log-foreign"].message


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


def test_a_printed_configuration_is_read():
    rows = [
        "Train :",
        "    loader :",
        "        num_workers : 0",
        "        batch_size_per_card : 8",
        "PostProcess :",
        "    name : DBPostProcess",
        "    det_thresh : 0.3",
    ]
    found = faults("\n".join(f"[2024/02/14 10:20:07] root INFO: {row}" for row in rows))
    assert "Train.loader.num_workers is 0" in found["log-config-no-workers"].message
    assert "det_thresh" in found["log-known-error"].message


def test_no_step_lines():
    text = (
        "[2024/07/09 09:40:31] root INFO: train dataloader has 3 iters\n[2024/07/09 09:40:37] root "
        "INFO: save model in ./out\n"
    )
    found = faults(text)
    assert (
        "3 iterations" in found["log-no-steps"].message and "1 checkpoints" in found["log-no-steps"].message
    )


def test_empty_evaluations_are_counted_and_traced_back():
    empty = (
        "[08/02 09:14:40] ppdet.engine WARNING: Evaluation results empty, this may be due to training "
        "iterations being too few\n"
    )
    message = faults(ppdet(20) + "\n" + ppdet(40, loss="nan") + "\n" + empty * 3)["log-eval-empty"].message
    assert "3 evaluations in a row" in message and "nan from line 2 on" in message
    assert "no line before it" in faults(ppdet(20) + "\n" + empty)["log-eval-empty"].message


def test_known_errors_are_counted_once():
    bus = (
        "ERROR: Unexpected BUS error encountered in DataLoader worker. This might be caused by "
        "insufficient shared memory (shm)\n"
    )
    finding = faults(bus * 5)["log-known-error"]
    assert finding.count == 5 and "--shm-size" in finding.fix
    text = (
        ppdet(337, extra="loss_bbox_reg_stage2: 0.000000 ")
        + "\nRuntimeError: Please set find_unused_parameters=True to traverse\n"
    )
    found = faults(text)
    assert (
        "find_unused_parameters: true" in found["log-known-error"].fix
        and "loss_bbox_reg_stage2" in found["log-loss-zero"].message
    )


def test_spikes_and_restarts():
    text = "\n".join([mindocr(10, 5, loss="20.0"), mindocr(20, 5, loss="4.0"), mindocr(30, 5, loss="4.2")])
    assert "from 20 to 4" in faults(text)["log-loss-spike"].message
    assert "log-loss-spike" not in faults(
        text.replace("[5/40]", "[1/40]")
    )  # a steep first epoch is what one hopes for
    twice = "\n".join([ppdet(0), ppdet(20), ppdet(40), ppdet(0, cost=8.0), ppdet(20), ppdet(40)])
    _log, result = read(twice)
    assert result.runs == 2 and len(result.warm_up) == 2 and result.ips == pytest.approx(4.0)


def test_ranks_are_told_apart():
    named = "\n".join(
        f"[1,{rank}]<stdout>:{ppdet(step, cost=0.5 + rank)}" for step in (20, 40, 60) for rank in (0, 1)
    )
    _log, result = read(named)
    assert (result.ranks, result.runs) == (2, 1) and result.ips == pytest.approx(4.0)
    unnamed = "\n".join(ppdet(step) for step in (20, 40, 60) for _rank in range(2))
    _log, result = read(unnamed)
    assert (result.ranks, result.runs) == (2, 1) and len(result.used) == 3


def test_prose_around_a_log_is_ignored():
    text = (
        "你好，训练很慢：\n"
        + "\n".join([mindocr_epoch(1, 50), mindocr_epoch(2, 10)])
        + "\n\n谢谢！epoch time 是什么？\n"
    )
    _log, result = read(text)
    assert result.epochs == 2 and result.compile == pytest.approx(40)
