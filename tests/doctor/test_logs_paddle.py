"""Logs of PaddleDetection and PaddleOCR."""

from __future__ import annotations

import pytest

from .log_lines import SCALE, faults, ppdet, ppocr, read


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
