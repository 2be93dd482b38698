"""Why a MindOCR run is slow, or why its speed cannot be told: performance and measurement hints."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

_683 = "mindspore-lab/mindocr/issues/683"

ONE_EPOCH = rule(
    "mindocr-one-epoch",
    "warning",
    "measurement",
    "the run has one epoch",
    why="The first epoch holds graph compilation (minutes on Ascend): its img/s says nothing of the speed.",
    fix="Train at least 3 epochs and read the speed from the second on.",
    source=_683,
    room="mindocr",
)
AMP_OFF = rule(
    "mindocr-amp-off",
    "hint",
    "performance",
    "amp_level is O0: everything runs in float32",
    why="An Ascend device computes convolutions in float16 several times as fast. Stock O2 and O3 fail "
    "in DBFPN "
    "(`must be real number, not NoneType`) and overflow in DBHead; this project's launcher mends "
    "both. On CPU "
    "there is nothing to gain.",
    fix="On Ascend set amp_level: O2 and train with `detperf train`.",
    source=_683,
    room="mindocr",
)
SINK_OFF = rule(
    "mindocr-sink-off",
    "hint",
    "performance",
    "dataset_sink_mode is off",
    why="Without sink every step waits for Python to hand over a batch. On Ascend the maintainers advise "
    "it on; on "
    "CPU MindSpore ignores it.",
    fix="On Ascend set train.dataset_sink_mode: True (step lines then vanish from the log; epoch lines "
    "remain).",
    source=_683,
    room="mindocr",
)
SMALL_BATCH = rule(
    "mindocr-small-batch",
    "hint",
    "performance",
    "the batch is tiny",
    why="Each step's fixed cost (launching, gradient update, loading) is paid for one or two pictures.",
    fix="Raise train.loader.batch_size (stock: 8 to 32) and the learning rate with it.",
    source=_683,
    room="mindocr",
)
ACCUMULATION = rule(
    "mindocr-accumulation",
    "hint",
    "performance",
    "gradients are accumulated over tiny batches",
    why="Accumulation saves memory, not time; as long as memory lasts a larger batch does the same "
    "work faster.",
    fix="Raise batch_size and lower gradient_accumulation_steps by the same factor.",
    source=_683,
    room="mindocr",
)
ONE_WORKER = rule(
    "mindocr-one-worker",
    "hint",
    "performance",
    "one worker prepares the pictures",
    why="A DBNet sample takes about 25 ms of Python (far more with many boxes): one worker gives 40 "
    "pictures a second "
    "at most.",
    fix="Raise train.loader.num_workers towards cores / devices; more than that is cut by MindOCR.",
    source=_683,
    room="mindocr",
)
WORKER_MEMORY = rule(
    "mindocr-worker-memory",
    "hint",
    "performance",
    "workers times queue is a lot of memory",
    why="Each worker holds a queue of prepared samples; when memory runs out the workers are killed or swap.",
    fix="Lower num_workers or prefetch_size.",
    source="mindspore-lab/mindocr/issues/542",
    room="mindocr",
)
MINDDATA = rule(
    "mindocr-minddata",
    "hint",
    "performance",
    "use_minddata moves three steps into a second map",
    why="Measured on CPU it was slower (29-32 against 33-37 img/s), and its decoder ignores EXIF rotation, "
    "so boxes "
    "of rotated photos no longer match. It can help where single cores are slow.",
    fix="Time both settings; prefer PerfNormalizeToCHW and PerfDetTargets.",
    source=_683,
    room="mindocr",
)
EVAL_OFTEN = rule(
    "mindocr-eval-every-epoch",
    "hint",
    "performance",
    "the model is evaluated after each of many epochs",
    why="Evaluation runs with batch size 1; over hundreds of epochs it can take longer than the training.",
    fix="Set system.val_interval (for example 10) or system.val_start_epoch.",
    source="mindspore-lab/mindocr/issues/670",
    room="mindocr",
)

_MEMORY_LIMIT = 16 * 2**30


def check(config: Config) -> None:
    """Report every hint named above."""
    epochs = config.number("scheduler.num_epochs")
    batch = config.number("train.loader.batch_size")
    workers = config.number("train.loader.num_workers")
    steps = config.number("train.gradient_accumulation_steps") or 1
    if epochs == 1:
        config.report(
            ONE_EPOCH, "scheduler.num_epochs", "num_epochs: 1, and the first epoch includes compilation"
        )
    if config.get("system.amp_level") == "O0":
        config.report(AMP_OFF, "system.amp_level", "amp_level: O0 leaves the device's float16 units idle")
    if config.get("train.dataset_sink_mode") is False:
        config.report(SINK_OFF, "train.dataset_sink_mode", "train.dataset_sink_mode: False")
    if batch is not None and 0 < batch <= 2:
        if steps > 1:
            message = f"batch_size {batch:g} x gradient_accumulation_steps {steps:g}"
            config.report(ACCUMULATION, "train.gradient_accumulation_steps", message)
        config.report(SMALL_BATCH, "train.loader.batch_size", f"train.loader.batch_size: {batch:g}")
    if workers == 1:
        config.report(ONE_WORKER, "train.loader.num_workers", "train.loader.num_workers: 1")
    if config.get("train.dataset.use_minddata") is True:
        config.report(MINDDATA, "train.dataset.use_minddata", "train.dataset.use_minddata: True")
    often = (config.number("system.val_interval") or 1) == 1 and (
        config.number("system.val_start_epoch") or 1
    ) <= 10
    if epochs and epochs >= 100 and config.get("system.val_while_train") is True and often:
        message = f"val_while_train evaluates {epochs:g} times"
        config.report(EVAL_OFTEN, "system.val_while_train", message)
    if workers:
        _memory(config, workers)


def _memory(config: Config, workers: float) -> None:
    side = [640.0, 640.0]
    for step in config.transforms("train.dataset.transform_pipeline"):
        size = step.params.get("crop_size") if step.params is not None else None
        values = size.python() if size is not None else None
        if isinstance(values, list) and len(values) == 2 and all(isinstance(v, (int, float)) for v in values):
            side = [float(v) for v in values]
    sample = side[0] * side[1] * (3 + 4) * 4  # a float32 picture and four maps
    ranks = config.cards or (8 if config.get("system.distribute") is True else 1)
    queue = config.number("train.loader.prefetch_size") or 16
    total = workers * ranks * queue * sample
    if total > _MEMORY_LIMIT:
        message = (
            f"{workers:g} workers x {ranks} device{'s' if ranks > 1 else ''} x {queue:g} queued samples of "
            f"{sample / 2**20:.0f} MiB are about {total / 2**30:.0f} GiB"
        )
        config.report(WORKER_MEMORY, "train.loader.num_workers", message)
