"""The way of a MindOCR sample: columns nothing makes, wrong order, shapes that are not static."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.paths import resolve
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

DYNAMIC_SHAPE = rule(
    "mindocr-dynamic-shape",
    "error",
    "correctness",
    "samples of one batch differ in shape",
    why="keep_ratio without padding gives each picture its own size: a batch cannot be stacked, and in "
    "graph or "
    "sink mode every new shape compiles the network again.",
    fix="Set keep_ratio: False, or padding: True, or batch_size: 1 without sink mode.",
    source="mindspore-lab/mindone/pull/605",
    room="mindocr",
)
NO_COLUMN = rule(
    "mindocr-column-not-made",
    "error",
    "correctness",
    "output_columns names a column that no transform makes",
    why="ValueError: 'Key does not exist in data' while the data set is built.",
    fix="Add the transform that makes it, before the end of transform_pipeline.",
    source="mindspore-lab/mindocr/blob/main/mindocr/data/det_dataset.py",
    room="mindocr",
)
STEP_MISSING = rule(
    "mindocr-step-missing",
    "error",
    "correctness",
    "transform_pipeline lacks a step that the network needs",
    why="Without ToCHWImage the network gets pictures with channels last; without NormalizeImage, values "
    "of 0 to "
    "255: shapes do not fit, or nothing is learnt.",
    fix="Add the step.",
    source="PaddlePaddle/PaddleDetection/issues/3461",
    room="mindocr",
)
ORDER = rule(
    "mindocr-step-order",
    "warning",
    "correctness",
    "BorderMap runs before ShrinkBinaryMap",
    why="ShrinkBinaryMap marks degenerate boxes as ignored; BorderMap before it fails on them with "
    "IndexError.",
    fix="Put ShrinkBinaryMap first.",
    source="PaddlePaddle/PaddleOCR/issues/5101",
    room="mindocr",
)
BATCH_OVER_DATA = rule(
    "mindocr-batch-over-data",
    "error",
    "correctness",
    "the batch is larger than the data set",
    why="With drop_remainder an epoch has no step at all: 'no valid data'.",
    fix="Lower train.loader.batch_size, or add pictures.",
    source="PaddlePaddle/PaddleOCR/issues/5657",
    room="mindocr",
)
LOG_INTERVAL = rule(
    "mindocr-log-interval",
    "hint",
    "measurement",
    "log_interval is longer than an epoch",
    why="No step line is ever printed, so the log shows neither the loss curve nor the speed within "
    "an epoch.",
    fix="Lower system.log_interval to a tenth of the steps of an epoch.",
    source="PaddlePaddle/PaddleOCR/issues/5657",
    room="mindocr",
)

_MAKERS = {
    "binary_map": {"ShrinkBinaryMap", "PerfDetTargets"},
    "thresh_map": {"BorderMap", "PerfDetTargets"},
    "thresh_mask": {"BorderMap", "PerfDetTargets"},
    "polys": {"DetLabelEncode"},
    "ignore_tags": {"DetLabelEncode"},
}


def check(config: Config) -> None:
    """Report every fault named above."""
    for section in ("train", "eval"):
        _shapes(config, section)
        _makers(config, section)
    _amount(config)


def _shapes(config: Config, section: str) -> None:
    batch = config.number(f"{section}.loader.batch_size") or 0
    for step in config.transforms(f"{section}.dataset.transform_pipeline"):
        if step.name not in ("DetResize", "ScalePadImage", "GridResize") or step.params is None:
            continue
        keep, padding = step.params.get("keep_ratio"), step.params.get("padding")
        if keep is None or keep.value is not True or (padding is not None and padding.value is True):
            continue
        if step.name == "DetResize" and batch > 1:
            message = (
                f"{section}: DetResize keeps the ratio without padding, so pictures differ in size, and "
                f"{section}.loader.batch_size is {batch:g}"
            )
            config.report(DYNAMIC_SHAPE, step.node, message)


def _makers(config: Config, section: str) -> None:
    if config.get(f"{section}.dataset.type", "DetDataset") != "DetDataset":
        return
    steps = [step.name for step in config.transforms(f"{section}.dataset.transform_pipeline")]
    for column in config.names(f"{section}.dataset.output_columns"):
        makers = _MAKERS.get(column)
        if makers and steps and not makers & set(steps):
            message = f"{section}: no transform makes `{column}`"
            at = f"{section}.dataset.output_columns"
            config.report(NO_COLUMN, at, message, f"Add {sorted(makers)[-1]}.")
    if "DecodeImage" in steps and "DetLabelEncode" in steps and not {"PerfNormalizeToCHW"} & set(steps):
        for name in ("NormalizeImage", "ToCHWImage"):
            if name not in steps and not config.get(f"{section}.dataset.use_minddata"):
                message = f"{section}.dataset.transform_pipeline has no {name}"
                config.report(STEP_MISSING, f"{section}.dataset.transform_pipeline", message)
    if (
        "BorderMap" in steps
        and "ShrinkBinaryMap" in steps
        and steps.index("BorderMap") < steps.index("ShrinkBinaryMap")
    ):
        config.report(
            ORDER,
            f"{section}.dataset.transform_pipeline",
            f"{section}: BorderMap stands before ShrinkBinaryMap",
        )


def _amount(config: Config) -> None:
    """Compare batch size and log interval with the number of label lines, where the label file is here."""
    root, label = config.get("train.dataset.dataset_root"), config.get("train.dataset.label_file")
    batch = config.number("train.loader.batch_size")
    if not isinstance(label, str) or not batch or not isinstance(root, (str, type(None))):
        return
    path, exists = resolve(config, root or "", label)
    if not exists or not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            samples = sum(1 for line in stream if line.strip())
    except OSError:
        return
    ratio = config.number("train.dataset.sample_ratio")
    samples = round(samples * (1.0 if ratio is None else ratio))
    devices = config.cards or 1
    if samples < batch * devices:
        message = (
            f"batch_size {batch:g} x {devices} device{'s' if devices > 1 else ''}, but {path} has "
            f"{samples} pictures"
        )
        config.report(BATCH_OVER_DATA, "train.loader.batch_size", message)
        return
    steps = samples // int(batch * devices)
    interval = config.number("system.log_interval") or 100
    if interval > steps and config.get("train.dataset_sink_mode") is not True:
        message = f"log_interval {interval:g}, but an epoch has {steps} steps ({samples} pictures)"
        config.report(LOG_INTERVAL, "system.log_interval", message)
