"""Kind d: training logs of any dialect, and what they cannot tell."""

from __future__ import annotations

import pytest

from .log_lines import faults, mindocr, mindocr_epoch, ppdet, read


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


TRACE = """\
Traceback (most recent call last):
  File "tools/train.py", line 9, in <module>
    main()
  File "ppdet/modeling/necks/fpn.py", line 197, in forward
    laterals[lvl - 1] += upsample
ValueError: (InvalidArgument) Broadcast dimension mismatch.
  [Hint: Expected x == y] (at common_shape.h:86)
"""


def test_a_log_that_ends_in_a_traceback():
    found = faults(f"{ppdet(0)}\n{ppdet(20)}\n{TRACE}LAUNCH INFO exit code 1\n")["log-traceback"]
    assert found.line == 8 and found.severity == "error"
    assert "ended with ValueError: (InvalidArgument) Broadcast" in found.message
    assert "ppdet/modeling/necks/fpn.py, line 197" in found.message
    assert "log-traceback" in faults(TRACE)
    ranked = "".join(f"[rank3]: {row}\n" for row in TRACE.splitlines())
    assert "ValueError" in faults(ranked)["log-traceback"].message
    wordless = 'Traceback (most recent call last):\n  File "a.py", line 1\nRuntimeError: \n\n'
    wordless += "C++ Traceback (most recent call last):\nError Message Summary:\nFatalError: no memory\n"
    assert "RuntimeError: FatalError: no memory" in faults(wordless)["log-traceback"].message
    stopped = faults(TRACE.replace("ValueError: (Inv", "KeyboardInterrupt\n# ("))["log-traceback"]
    assert stopped.severity == "hint"


def test_a_traceback_that_the_run_survives_is_none():
    assert "log-traceback" not in faults(f"{TRACE}{ppdet(20)}\n")
    assert "log-traceback" not in faults(f"{ppdet(20)}\n{TRACE}ppdet INFO: Save checkpoint: out\n")
