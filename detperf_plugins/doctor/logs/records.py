"""One line of a training log as a record: step, epoch, evaluation or event, in each host's dialect."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

__all__ = ["Record", "parse_record", "seconds"]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
_PAIR = re.compile(rf"(?<![\w.])'?([A-Za-z_][\w./]*)'?\s*[:：=]\s*'?({_NUMBER})'?", re.IGNORECASE)
_GLUED_PAIR = re.compile(rf"(?<=\d)((?:loss|eta|batch|data|ips|learning)[\w]*)\s*:\s*'?({_NUMBER})'?")
_ETA = re.compile(r"eta:\s*(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)")
_PPDET = re.compile(r"Epoch:\s*\[\s*(\d+)\s*\]\s*\[\s*(\d+)\s*/\s*(\d+)\s*\]")
_PPOCR = re.compile(r"epoch:\s*\[\s*(\d+)\s*/\s*(\d+)\s*\],?\s*(?:global_step|iter):\s*(\d+)")
_MINDOCR_STEP = re.compile(r"epoch:\s*\[\s*(\d+)\s*/\s*(\d+)\s*\],?\s*step:\s*\[\s*(\d+)\s*/\s*(\d+)\s*\]")
_MINDOCR_EPOCH = re.compile(r"epoch:\s*\[?\s*(\d+)\s*(?:/\s*(\d+))?\s*\]?,\s*loss\b.*epoch time")
_STATIC = re.compile(r"\biter:\s*(\d+),\s*lr:")
_LOSS_MONITOR = re.compile(rf"epoch:\s*(\d+),?\s*step:\s*(\d+),\s*loss is\s*\[?({_NUMBER})", re.IGNORECASE)
_TIME_MONITOR = re.compile(r"epoch time:\s*([\d.]+)\s*(ms|s),\s*per step time:\s*([\d.]+)\s*(ms|s)")
_MINDYOLO = re.compile(r"Epoch (\d+)/(\d+), Step (\d+)/(\d+)")
_DBNET_TORCH = re.compile(r"\[(\d+)/(\d+)\], \[(\d+)/(\d+)\], global_step: (\d+), speed")
_MMDET = re.compile(r"Epoch(?:\(train\))?\s*\[(\d+)\]\[\s*(\d+)/(\d+)\]")


@dataclass
class Record:
    """A measurement that a log line holds; anything it does not say is None.

    Attributes:
        kind: "step" or "epoch".
        dialect: "PaddleDetection", "PaddleDetection (static graph)", "PaddleOCR", "MindOCR", "MindSpore",
            "MindYOLO", "DBNet.pytorch" or "MMDetection".
        line: 1-based line in the file.
        time: seconds since the log's first time stamp.
        batch_cost, data_cost: seconds a step, and of it waiting for data.
        ips: images a second as the log states it.
    """

    kind: str
    dialect: str
    line: int
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    rank: int | None = None
    time: float | None = None
    loss: float | None = None
    losses: dict[str, float] = field(default_factory=dict)
    lr: float | None = None
    batch_cost: float | None = None
    data_cost: float | None = None
    ips: float | None = None
    samples: float | None = None
    eta: int | None = None
    epoch_time: float | None = None
    memory: float | None = None


def seconds(days: str | None, hours: str, minutes: str, secs: str) -> int:
    """Seconds of `D days, H:MM:SS`."""
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(secs)


def parse_record(text: str, line: int) -> Record | None:
    """The record in a cleaned log line, or None."""
    if len(text) > 20_000:
        return None
    record = _identify(text, line)
    if record is None:
        return None
    values = {key.lower(): _value(value) for key, value in (*_GLUED_PAIR.findall(text), *_PAIR.findall(text))}
    _fill(record, values, text)
    return record


def _value(text: str) -> float:
    return float(text.strip())


def _identify(text: str, line: int) -> Record | None:
    match = _PPDET.search(text)
    if match:
        return Record("step", "PaddleDetection", line, int(match[1]), None, int(match[2]), int(match[3]))
    match = _MINDOCR_STEP.search(text)
    if match:
        epoch, epochs, step, steps = (int(g) for g in match.groups())
        return Record("step", "MindOCR", line, epoch, epochs, step, steps)
    match = _PPOCR.search(text)
    if match:
        return Record("step", "PaddleOCR", line, int(match[1]), int(match[2]), int(match[3]))
    match = _MINDOCR_EPOCH.search(text)
    if match:
        return Record("epoch", "MindOCR", line, int(match[1]), int(match[2]) if match[2] else None)
    match = _DBNET_TORCH.search(text)
    if match:
        return Record(
            "step", "DBNet.pytorch", line, int(match[1]), int(match[2]), int(match[3]), int(match[4])
        )
    match = _MINDYOLO.search(text)
    if match and ("loss:" in text or "step time:" in text):
        epoch, epochs, step, steps = (int(g) for g in match.groups())
        return Record("step", "MindYOLO", line, epoch, epochs, step, steps)
    match = _LOSS_MONITOR.search(text)
    if match:
        return Record("step", "MindSpore", line, int(match[1]), None, int(match[2]), loss=_value(match[3]))
    match = _TIME_MONITOR.search(text)
    if match:
        unit = 1000.0 if match[2] == "ms" else 1.0
        return Record("epoch", "MindSpore", line, epoch_time=float(match[1]) / unit)
    match = _MMDET.search(text)
    if match:
        return Record("step", "MMDetection", line, int(match[1]), None, int(match[2]), int(match[3]))
    match = _STATIC.search(text)
    if match:
        return Record("step", "PaddleDetection (static graph)", line, None, None, int(match[1]))
    return None


def _fill(record: Record, values: dict[str, float], text: str) -> None:
    record.losses = {
        k: v for k, v in values.items() if k.startswith(("loss", "lbox", "lobj", "lcls")) and k != "loss"
    }
    record.loss = values.get("loss", record.loss)
    for name in ("learning_rate", "lr", "lr_0", "cur_lr"):
        record.lr = values.get(name, record.lr)
    record.batch_cost = _duration(text, "avg_batch_cost|batch_cost|per step time|step time|(?<![a-z] )time")
    record.epoch_time = _duration(text, "epoch time") if record.epoch_time is None else record.epoch_time
    for name in ("data_cost", "reader_cost", "avg_reader_cost", "data_time"):
        record.data_cost = values.get(name, record.data_cost)
    record.samples = values.get("avg_samples")
    record.memory = values.get("max_mem_allocated", values.get("memory"))
    match = re.search(r"(?:ips|fps(?: per card)?|speed):\s*([\d.]+)", text)
    if match and math.isfinite(float(match[1].rstrip(".") or "nan")):
        record.ips = float(match[1].rstrip("."))
    match = _ETA.search(text)
    if match:
        record.eta = seconds(*match.groups())


def _duration(text: str, names: str) -> float | None:
    """Seconds of the first `name: value [ms|s|sec]` in a line; without a unit the value is seconds."""
    match = re.search(rf"(?:{names}):\s*'?(\d+\.?\d*)'?\s*(ms)?", text)
    return float(match[1]) * (0.001 if match[2] else 1.0) if match else None
