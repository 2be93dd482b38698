"""What stops or spoils a MindOCR training run: columns, loaders, schedules, learning rate."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

_683 = "mindspore-lab/mindocr/issues/683"
_BUILDER = "mindspore-lab/mindocr/blob/main/mindocr/data/builder.py"

COLUMN_INDEX = rule(
    "mindocr-column-index",
    "error",
    "correctness",
    "an index points past the end of output_columns",
    why="Training dies with 'TupleGetItem index out of range' after minutes of graph building.",
    fix="Give output_columns every column the network and the loss need, as ['image', 'binary_map', 'mask', "
    "'thresh_map', 'thresh_mask'] for DBNet; leave ['image'] only for timing the loader alone.",
    source=_683,
    room="mindocr",
    weight=-1,
)
PRETRAINED = rule(
    "mindocr-pretrained-bool",
    "error",
    "correctness",
    "model.pretrained is a boolean",
    why="A model built from backbone, neck and head has no weights of its own to load: ValueError, for "
    "True and "
    "for False alike.",
    fix="Give the path or URL of a checkpoint, or leave the key out (null is fine).",
    source="mindspore-lab/mindocr/blob/main/mindocr/models/builder.py",
    room="mindocr",
)
WARMUP = rule(
    "mindocr-warmup-too-long",
    "warning",
    "correctness",
    "the warm-up is as long as the training, or longer",
    why="The learning rate is still rising when training ends: its peak is never reached and the decay "
    "never runs.",
    fix="Shorten scheduler.warmup_epochs, or train longer.",
    source=_683,
    room="mindocr",
)
DECAY = rule(
    "mindocr-decay-too-long",
    "hint",
    "correctness",
    "warm-up and decay together are longer than the training",
    why="The learning rate is cut off before it reaches min_lr.",
    fix="Set decay_epochs to num_epochs - warmup_epochs.",
    source="mindspore-lab/mindocr/blob/main/mindocr/scheduler/scheduler_factory.py",
    room="mindocr",
)
MILESTONES = rule(
    "mindocr-milestones",
    "error",
    "correctness",
    "milestones lie beyond the training, or do not rise",
    why="MindOCR counts milestones in epochs; one past num_epochs never comes, so the learning rate "
    "stays high.",
    fix="Divide milestones given in iterations by the steps of an epoch.",
    source="mindspore-lab/mindocr/blob/main/mindocr/scheduler/scheduler_factory.py",
    room="mindocr",
)
WORKERS_ZERO = rule(
    "mindocr-workers-zero",
    "error",
    "correctness",
    "num_workers is 0",
    why="MindSpore's loader wants at least one worker: ValueError. When the key is missing MindOCR takes "
    "cores - 2, "
    "which is 0 on a machine of two cores.",
    fix="Set loader.num_workers to 1 or more.",
    source=_BUILDER,
    room="mindocr",
)
SAMPLE_RATIO = rule(
    "mindocr-sample-ratio-int",
    "error",
    "correctness",
    "sample_ratio is an integer",
    why="DetDataset indexes it as a list unless it is a float: TypeError.",
    fix="Write 1.0 for 1.",
    source="mindspore-lab/mindocr/blob/main/mindocr/data/det_dataset.py",
    room="mindocr",
)
EVAL_BATCH = rule(
    "mindocr-eval-batch",
    "error",
    "correctness",
    "the evaluation batch size is not 1",
    why="Pictures differ in their number of text boxes, so polys and ignore_tags cannot be stacked.",
    fix="Set eval.loader.batch_size to 1.",
    source="mindspore-lab/mindocr/blob/main/configs/det/dbnet/db_r50_icdar15.yaml",
    room="mindocr",
)
LEARNING_RATE = rule(
    "mindocr-lr-batch",
    "warning",
    "correctness",
    "the learning rate does not fit the batch size",
    why="The stock DBNet schedules are for SGD at 0.007 and a batch of about 20; with a far smaller batch "
    "the same "
    "rate makes the loss jump or turn NaN.",
    fix="Scale the learning rate with batch_size x devices x gradient_accumulation_steps.",
    source="mindspore-lab/mindocr/blob/main/configs/det/dbnet/README.md",
    room="mindocr",
)


def check(config: Config) -> None:
    """Report every fault named above."""
    for section in ("train", "eval"):
        _columns(config, section)
        _loader(config, section)
    if isinstance(config.get("model.pretrained"), bool):
        value = config.get("model.pretrained")
        config.report(PRETRAINED, "model.pretrained", f"model.pretrained: {value} raises ValueError")
    _schedule(config)


def _columns(config: Config, section: str) -> None:
    node = config.node(f"{section}.dataset.output_columns")
    if node is None or node.kind != "list":
        return
    columns = config.names(f"{section}.dataset.output_columns")
    for key in ("net_input_column_index", "label_column_index", "meta_data_column_index"):
        indices = config.get(f"{section}.dataset.{key}")
        past = (
            [i for i in indices if isinstance(i, int) and i >= len(node.items)]
            if isinstance(indices, list)
            else []
        )
        if past:
            message = (
                f"{section}.dataset.{key} asks for column {', '.join(map(str, past))}, but output_columns "
                f"{columns} has only {len(node.items)}"
            )
            config.report(COLUMN_INDEX, f"{section}.dataset.output_columns", message)


def _loader(config: Config, section: str) -> None:
    workers = config.get(f"{section}.loader.num_workers")
    if workers == 0 and not isinstance(workers, bool):
        config.report(
            WORKERS_ZERO, f"{section}.loader.num_workers", f"{section}.loader.num_workers: 0 is a ValueError"
        )
    elif workers is None and config.whole and config.node(f"{section}.loader") is not None:
        message = f"{section}.loader.num_workers is missing: MindOCR takes (cores / devices) - 2"
        config.report(WORKERS_ZERO, f"{section}.loader", message, severity="hint")
    ratio = config.node(f"{section}.dataset.sample_ratio")
    if ratio is not None and isinstance(ratio.value, int) and not isinstance(ratio.value, bool):
        message = f"{section}.dataset.sample_ratio: {ratio.value} is an int"
        config.report(SAMPLE_RATIO, f"{section}.dataset.sample_ratio", message, f"Write {ratio.value}.0.")
    batch = config.number(f"{section}.loader.batch_size")
    columns = config.names("eval.dataset.output_columns")
    if section == "eval" and batch is not None and batch > 1 and {"polys", "ignore_tags"} & set(columns):
        config.report(
            EVAL_BATCH, "eval.loader.batch_size", f"eval.loader.batch_size is {batch:g}; it has to be 1"
        )


def _schedule(config: Config) -> None:
    epochs, warmup = config.number("scheduler.num_epochs"), config.number("scheduler.warmup_epochs")
    if epochs and warmup and warmup >= epochs:
        message = (
            f"warmup_epochs {warmup:g} of num_epochs {epochs:g}: the peak learning rate is never reached"
        )
        config.report(WARMUP, "scheduler.warmup_epochs", message)
    elif epochs and warmup is None and epochs <= 3 and config.whole:
        message = f"warmup_epochs is missing and counts as 3, but num_epochs is {epochs:g}"
        config.report(WARMUP, "scheduler.num_epochs", message, "Set scheduler.warmup_epochs to 0.")
    decay = config.number("scheduler.decay_epochs")
    if (
        epochs
        and decay
        and decay + (warmup or 0) > epochs
        and "cosine" in str(config.get("scheduler.scheduler"))
    ):
        message = f"warmup_epochs {warmup or 0:g} + decay_epochs {decay:g} > num_epochs {epochs:g}"
        config.report(DECAY, "scheduler.decay_epochs", message)
    milestones = config.get("scheduler.milestones")
    if isinstance(milestones, list) and all(isinstance(m, (int, float)) for m in milestones):
        late = [m for m in milestones if epochs and m >= epochs]
        if late:
            message = f"milestones {late} are not before num_epochs {epochs:g}: they look like iterations"
            config.report(MILESTONES, "scheduler.milestones", message, severity="warning")
        if milestones != sorted(set(milestones)):
            config.report(MILESTONES, "scheduler.milestones", f"milestones {milestones} do not rise")
    _learning_rate(config)


def _learning_rate(config: Config) -> None:
    rate, batch = config.number("scheduler.lr"), config.number("train.loader.batch_size")
    optimizer = str(config.get("optimizer.opt", "")).lower()
    head = str(config.get("model.head.name", ""))
    if not rate or not batch or not head.startswith("DBHead") or optimizer not in ("sgd", "momentum"):
        return
    devices = config.cards or (8 if config.get("system.distribute") is True else 1)
    steps = config.number("train.gradient_accumulation_steps") or 1
    total = batch * devices * steps
    fitting = 0.007 * total / 20
    if rate > 4 * fitting or rate < fitting / 40:
        far = rate >= 8 * fitting or rate < fitting / 40
        message = (
            f"lr {rate:g} with a batch of {batch:g} x {devices} device{'s' if devices > 1 else ''} x "
            f"{steps:g} "
            f"accumulation step{'s' if steps > 1 else ''} = {total:g}; the stock schedule has 0.007 for 20"
        )
        config.report(
            LEARNING_RATE,
            "scheduler.lr",
            message,
            f"Try about {fitting:.2g}.",
            severity="" if far else "hint",
        )
