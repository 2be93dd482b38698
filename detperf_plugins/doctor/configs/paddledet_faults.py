"""What stops or spoils a PaddleDetection run: learning rate, schedules, layouts, collation, evaluation."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config, number
from detperf_plugins.doctor.configs.names import nearest
from detperf_plugins.doctor.rules import rule
from detperf_plugins.doctor.yaml.nodes import Node

__all__ = ["TWO_STAGE", "check", "has_masks"]

LEARNING_RATE = rule(
    "ppdet-lr-cards",
    "warning",
    "correctness",
    "the learning rate was written for more cards",
    why="The stock R-CNN schedules are for 8 cards; the same rate on one card is 8 times too high for the "
    "batch, and "
    "the loss turns NaN within an epoch.",
    fix="Scale LearningRate.base_lr with the total batch (cards x batch_size).",
    source="PaddlePaddle/PaddleDetection/issues/266",
    room="paddledet",
)
NHWC_PARTIAL = rule(
    "ppdet-nhwc-partial",
    "error",
    "correctness",
    "data_format differs between backbone, neck and heads",
    why="One part hands channels-last tensors to one that reads them as channels-first: shapes do not "
    "fit, or "
    "transposes between them eat the gain.",
    fix="Set data_format in every part, as the NHWC overlays of this project do (PerfResNet, PerfFPN, "
    "PerfRPNHead, "
    "PerfBBoxHead, PerfMaskHead); stock PaddleDetection has no data_format in them.",
    source="PaddlePaddle/PaddleDetection/pull/8640",
    room="paddledet",
)
COLLATE = rule(
    "ppdet-collate-batch",
    "error",
    "correctness",
    "collate_batch must be false for a two-stage detector",
    why="Pictures differ in their number of boxes and polygons, so the ground truth cannot be stacked "
    "into one "
    "tensor; the default of TrainReader is true.",
    fix="Set TrainReader.collate_batch: false.",
    source="PaddlePaddle/PaddleDetection/issues/3461",
    room="paddledet",
)
MILESTONES = rule(
    "ppdet-milestones",
    "warning",
    "correctness",
    "milestones of the learning rate lie beyond the training, or do not rise",
    why="milestones count epochs (old static-graph configs counted iterations): one that never comes "
    "leaves the "
    "learning rate high to the end.",
    fix="Give epochs, smaller than `epoch`, in rising order.",
    source="PaddlePaddle/PaddleDetection/issues/266",
    room="paddledet",
)
SCHEDULE_SHORT = rule(
    "ppdet-decay-short",
    "warning",
    "correctness",
    "the decay ends long before, or long after, the training",
    why="CosineDecay counts max_epochs: where it differs from `epoch`, the rate rises again or never "
    "comes down.",
    fix="Set CosineDecay.max_epochs to `epoch` (a few more are common).",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/optimizer/optimizer.py",
    room="paddledet",
)
WARMUP = rule(
    "ppdet-warmup-too-long",
    "warning",
    "correctness",
    "the warm-up is as long as the training, or longer",
    why="The learning rate is still rising when training ends.",
    fix="Shorten the warm-up's steps (iterations) or epochs.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/optimizer/optimizer.py",
    room="paddledet",
)
TYPE = rule(
    "ppdet-value-type",
    "error",
    "correctness",
    "a setting has the wrong type",
    why="PaddleDetection passes it on unchecked; the run stops with a TypeError later.",
    fix="Write a plain number or true/false.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/engine/trainer.py",
    room="paddledet",
)

TWO_STAGE = frozenset({"MaskRCNN", "FasterRCNN", "CascadeRCNN"})
_LAYOUT_PARTS = ("backbone", "neck", "rpn_head", "bbox_head", "mask_head")


def has_masks(config: Config) -> bool:
    """Whether the model that `architecture` names trains instance masks with a mask head."""
    name = config.get("architecture")
    if name == "MaskRCNN":
        return True
    return isinstance(name, str) and config.get(f"{name}.mask_head") not in (None, "", False)


def check(config: Config) -> None:
    """Report every fault named above."""
    _learning_rate(config)
    _layout(config)
    _collate(config)
    _schedule(config)
    _types(config)


def _learning_rate(config: Config) -> None:
    rate, batch = config.number("LearningRate.base_lr"), config.number("TrainReader.batch_size")
    name = config.get("architecture")
    if not rate or not batch or (name is not None and name not in TWO_STAGE):
        return
    optimizer = str(config.get("OptimizerBuilder.optimizer.type", "Momentum"))
    if optimizer not in ("Momentum", "PerfMomentum", "SGD"):
        return
    at = "LearningRate.base_lr"
    if config.cards is not None:
        total = config.cards * batch
        fitting = 0.01 * total / 8
        if rate > 2 * fitting:
            plural = "s" if config.cards > 1 else ""
            message = (
                f"base_lr {rate:g} on {config.cards} card{plural} x {batch:g} "
                f"image{'s' if batch > 1 else ''}; "
                f"the reference is 0.01 for 8 x 1"
            )
            config.report(LEARNING_RATE, at, message, f"Set base_lr to about {fitting:g}.")
        return
    own_rate, own_batch = config.chain.own.get("LearningRate"), config.chain.own.get("TrainReader")
    together = (
        own_rate is not None
        and own_rate.get("base_lr")
        and own_batch is not None
        and own_batch.get("batch_size")
    )
    if together and rate > 2 * 0.01 * batch / 8:
        message = (
            f"base_lr {rate:g} with batch_size {batch:g} fits 8 cards (reference 8 x 1 at 0.01), not one"
        )
        fix = f"On one card set base_lr to {0.01 * batch / 8:g}; tell the number with --cards."
        config.report(LEARNING_RATE, at, message, fix, severity="hint")


def _layout(config: Config) -> None:
    """Compare data_format of the parts that the model names (or, in a fragment, of those that are there)."""
    model = config.get("architecture") or next((n for n in TWO_STAGE if config.node(n)), None)
    parts: dict[str, str] = {}
    for slot in _LAYOUT_PARTS:
        name = config.get(f"{model}.{slot}") if model else None
        name = name.get("name") if isinstance(name, dict) else name
        if isinstance(name, str) and name:
            parts[slot] = name
    for name in ("FPN", "PerfFPN"):
        if "neck" not in parts and config.node(name) is not None:
            parts["neck"] = name
    formats = {name: str(config.get(f"{name}.data_format", "NCHW")).upper() for name in parts.values()}
    last = [name for name, layout in formats.items() if layout == "NHWC"]
    first = [
        name for name, layout in formats.items() if layout != "NHWC" and not _ours_by_default(config, name)
    ]
    if last and first:
        message = f"{', '.join(last)} is NHWC, {', '.join(first)} is NCHW"
        config.report(NHWC_PARTIAL, f"{last[0]}.data_format", message)
    elif last and not parts.get("neck") and len(parts) == 1:
        config.report(NHWC_PARTIAL, f"{last[0]}.data_format", f"only {last[0]} has data_format: NHWC")


def _ours_by_default(config: Config, name: str) -> bool:
    """This project's parts take the layout of the backbone unless they say otherwise."""
    return name.startswith("Perf") and config.node(f"{name}.data_format") is None


def _collate(config: Config) -> None:
    name = config.get("architecture")
    if name not in TWO_STAGE or config.node("TrainReader") is None:
        return
    value = config.get("TrainReader.collate_batch")
    if value is True:
        config.report(COLLATE, "TrainReader.collate_batch", f"TrainReader.collate_batch is true under {name}")
    elif value is None and config.whole and not config.get("TrainReader.inputs_def"):
        config.report(COLLATE, "TrainReader", f"TrainReader.collate_batch is missing (true) under {name}")


def _schedulers(config: Config) -> list[tuple[str, Node]]:
    node = config.node("LearningRate.schedulers")
    found = []
    for item in node.items if node is not None else []:
        name = item.tag.lstrip("!") or str(item.get("name").value if item.get("name") else "")  # type: ignore[union-attr]
        found.append((name, item))
    return found


def _value(node: Node, key: str) -> float | None:
    found = node.get(key)
    return number(found.value) if found is not None else None


def _schedule(config: Config) -> None:
    epochs = config.number("epoch")
    for name, node in _schedulers(config):
        if name == "PiecewiseDecay":
            listed = node.get("milestones")
            milestones = listed.python() if listed is not None else None
            if not isinstance(milestones, list) or not all(number(m) is not None for m in milestones):
                continue
            late = [m for m in milestones if epochs and m > epochs]
            if late and epochs and listed is not None:
                # One far milestone means "never"; no schedule has a thousand epochs.
                if max(late) >= max(10 * epochs, 1000) and len(milestones) > 1:
                    message = f"milestones {late} are far past epoch {epochs:g}: they look like iterations"
                    config.report(MILESTONES, listed, message)
                else:
                    message = (
                        f"milestones {late} lie past the last epoch, {epochs:g}: the rate never falls there"
                    )
                    config.report(MILESTONES, listed, message, severity="hint")
            if milestones != sorted(set(milestones)) and listed is not None:
                config.report(MILESTONES, listed, f"milestones {milestones} do not rise")
        elif name == "CosineDecay":
            longest = _value(node, "max_epochs")
            at = node.get("max_epochs")
            if epochs and longest and at is not None and not (0.99 * epochs <= longest <= 3 * epochs):
                config.report(
                    SCHEDULE_SHORT, at, f"CosineDecay.max_epochs {longest:g}, but epoch is {epochs:g}"
                )
        elif name in ("LinearWarmup", "ExpWarmup"):
            length = _value(node, "epochs")
            if epochs and length and length >= epochs:
                config.report(WARMUP, node, f"{name} lasts {length:g} of {epochs:g} epochs")


def _types(config: Config) -> None:
    for path in (
        "epoch",
        "num_classes",
        "worker_num",
        "log_iter",
        "LearningRate.base_lr",
        "TrainReader.batch_size",
    ):
        node = config.node(path)
        if node is not None and node.value is not None and config.number(path) is None:
            config.report(TYPE, path, f"{path}: {node.text or node.kind!r} is not a number")
    for path in (
        "use_gpu",
        "amp",
        "TrainReader.collate_batch",
        "TrainReader.shuffle",
        "TrainReader.drop_last",
    ):
        node = config.node(path)
        if node is not None and isinstance(node.value, str):
            near = nearest(node.value, ("true", "false"), 0.6)
            message = f"{path}: {node.value!r} is text, which counts as true"
            config.report(TYPE, path, message, f"Write {near}." if near else "")
