"""Why a PaddleDetection run is slow, or why its speed cannot be told: performance and measurement hints."""

from __future__ import annotations

from detperf_plugins.doctor.configs.config import Config
from detperf_plugins.doctor.configs.paddledet_faults import has_masks
from detperf_plugins.doctor.rules import rule

__all__ = ["check"]

AMP_OFF = rule(
    "ppdet-amp-off",
    "hint",
    "performance",
    "mixed precision is off",
    why="On a V100 with two images a batch AMP raised Mask R-CNN R50 from 1.26 to 3.35 images/s, and to "
    "4.10 with NHWC. On CPU AMP changes nothing. tools/train.py writes its flag --amp, where it is not "
    "given, over `amp: true`; the overlays put it back.",
    fix="On a GPU with tensor cores add the overlay mask_rcnn_r50_nhwc_amp (`detperf configs` prints its "
    "path), or start with --amp.",
    source="PaddlePaddle/Paddle/issues/55907",
    room="paddledet",
)
NHWC_NO_AMP = rule(
    "ppdet-nhwc-without-amp",
    "hint",
    "performance",
    "NHWC without AMP",
    why="Channels-last pays off with float16 on tensor cores; in float32 it is no faster, and 3 to 15% "
    "slower on CPU.",
    fix="Turn on amp, or leave the layout NCHW.",
    source="PaddlePaddle/Paddle/issues/55907",
    room="paddledet",
)
NO_WORKERS = rule(
    "ppdet-no-workers",
    "hint",
    "performance",
    "worker_num is 0: the training process itself loads the pictures",
    why="While it decodes and resizes, the device waits.",
    fix="Set worker_num to 2 or more.",
    source="PaddlePaddle/Paddle/issues/60601",
    room="paddledet",
)
SHARED_MEMORY = rule(
    "ppdet-shared-memory-off",
    "hint",
    "performance",
    "workers hand batches over through pipes",
    why="Without shared memory every batch is copied through a pipe between processes.",
    fix="Set TrainReader.use_shared_memory: true where /dev/shm is large enough.",
    source="PaddlePaddle/PaddleDetection/blob/develop/ppdet/data/reader.py",
    room="paddledet",
)
ONE_EPOCH = rule(
    "ppdet-one-epoch",
    "hint",
    "measurement",
    "the run has one epoch",
    why="The first steps hold start-up (cuDNN search, allocation, worker start); a short run's average is "
    "too low.",
    fix="Read the speed from `detperf log`, which leaves the first records out.",
    source="PaddlePaddle/Paddle/issues/55907",
    room="paddledet",
)


def check(config: Config) -> None:
    """Report every hint named above."""
    amp = config.get("amp")
    if config.whole and has_masks(config) and config.get("use_gpu") is True and amp is not True:
        config.report(
            AMP_OFF,
            "amp" if config.node("amp") else "architecture",
            "amp is not set: convolutions run in float32",
        )
    nhwc = ["data_format"] if config.get("data_format") == "NHWC" else []
    nhwc += [
        f"{n}.data_format"
        for n, e in config.sections()
        if e.node.kind == "map" and config.get(f"{n}.data_format") == "NHWC"
    ]
    if nhwc and amp is not True:
        config.report(NHWC_NO_AMP, nhwc[0], f"{nhwc[0]} is NHWC, amp is not on")
    if config.get("worker_num") == 0:
        config.report(NO_WORKERS, "worker_num", "worker_num: 0")
    if config.get("TrainReader.use_shared_memory") is False and config.get("worker_num") != 0:
        config.report(SHARED_MEMORY, "TrainReader.use_shared_memory", "TrainReader.use_shared_memory: false")
    if config.get("epoch") == 1:
        config.report(ONE_EPOCH, "epoch", "epoch: 1")
