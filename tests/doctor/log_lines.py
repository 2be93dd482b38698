"""Log lines as the hosts write them."""

from __future__ import annotations

from detperf_plugins.doctor.logs.analyse import Analysis, analyse
from detperf_plugins.doctor.logs.read import Log, read_log_text

SCALE = "Found inf or nan, current scale is: {}, decrease to: {}*0.5\n"


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
