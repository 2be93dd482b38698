"""The rules of training logs."""

from __future__ import annotations

from detperf_plugins.doctor.rules import Rule, rule

__all__ = ["RULES"]


def _log(
    id: str, severity: str, kind: str, message: str, why: str, fix: str, source: str, weight: int = 0
) -> Rule:
    return rule(
        f"log-{id}", severity, kind, message, why=why, fix=fix, source=source, room="log", weight=weight
    )


RULES = {
    r.id.removeprefix("log-"): r
    for r in (
        _log(
            "loss-nan", "error", "correctness", "the loss is NaN or infinite",
            "Every later step trains on NaN weights; nothing after it can be used.",
            "Go back to the last checkpoint before it; lower the learning rate, lengthen the warm-up, clip "
            "gradients, or "
            "keep the DB head in float32 under AMP.",
            "PaddlePaddle/PaddleDetection/issues/266", weight=-1,
        ),
        _log(
            "scale-zero", "error", "correctness", "the loss scale reached 0",
            "Every gradient is multiplied by 0: weights stop changing while the printed loss stays finite.",
            "Use bf16, or keep the DB head and its loss in float32; start from a checkpoint before the "
            "collapse.",
            "PaddlePaddle/PaddleOCR/issues/10874", weight=-1,
        ),
        _log(
            "scale-low", "warning", "correctness", "the loss scale fell below 1",
            "Gradients are scaled down instead of up, and each overflow loses an update.",
            "Find what overflows in float16 (for DBNet the head's sigmoid); keep it in float32.",
            "PaddlePaddle/PaddleOCR/issues/6848",
        ),
        _log(
            "scale-halved", "hint", "correctness", "updates were skipped because of float16 overflow",
            "A few at the start are normal: the scale finds its place.",
            "Nothing, unless it goes on.",
            "PaddlePaddle/PaddleOCR/issues/6848",
        ),
        _log(
            "loss-spike", "hint", "correctness", "the loss jumps",
            "A loss that changes by a multiple between two lines points to single bad samples or a high "
            "learning rate.",
            "Average over more steps before judging; check the labels of the pictures around it.",
            "mindspore-lab/mindocr/issues/670",
        ),
        _log(
            "loss-explodes", "warning", "correctness", "the loss grew by orders of magnitude",
            "An overflow or a bad batch threw the weights far away; they rarely come back.",
            "Stop, lower the learning rate, and start from an earlier checkpoint.",
            "mindspore-lab/mindyolo/issues/441",
        ),
        _log(
            "loss-zero", "hint", "correctness", "a part of the loss is exactly 0",
            "That head saw no foreground in the step: normal now and then, wrong throughout (crowd-only "
            "data, empty masks).",
            "Run `detperf lint` on the annotations.",
            "PaddlePaddle/PaddleDetection/issues/3260",
        ),
        _log(
            "reader-bound", "warning", "performance", "the device waits for data",
            "The share of the step spent waiting for the loader is what a faster device cannot win back.",
            "More workers, smaller pictures, faster transforms (PackPolygons, PerfDetTargets), local disk.",
            "PaddlePaddle/PaddleOCR/issues/13159",
        ),
        _log(
            "artefact", "hint", "measurement", "speeds that cannot be true were left out",
            "A first step measured without its work gives thousands of images a second.",
            "Nothing.",
            "PaddlePaddle/PaddleDetection/issues/2035",
        ),
        _log(
            "one-epoch", "hint", "measurement", "the log holds one epoch",
            "It includes graph compilation: neither steady speed nor compile time can be told.",
            "Train three epochs or more.",
            "mindspore-lab/mindocr/issues/683",
        ),
        _log(
            "no-steps", "warning", "measurement", "the log has no step lines",
            "print_batch_step (log_iter, log_interval) is larger than the iterations of an epoch, or the "
            "data set is smaller "
            "than the batch.",
            "Lower the print interval; check the batch size against the number of pictures.",
            "PaddlePaddle/PaddleOCR/issues/5657",
        ),
        _log(
            "truncated", "hint", "measurement", "the log ends in the middle of a line",
            "The run was killed, or the file was copied while it was written.",
            "Look for the cause at the end of the other ranks' logs and in dmesg (out of memory).",
            "PaddlePaddle/Paddle/issues/48898",
        ),
        _log(
            "aborted", "error", "correctness", "a trainer was aborted",
            "The launcher ends all ranks when one dies; the cause is in that rank's own log.",
            "Read workerlog.N (or log.txt.rankN) of the rank named.",
            "PaddlePaddle/PaddleOCR/issues/1740",
        ),
        _log(
            "traceback", "error", "correctness", "the log ends in a Python traceback",
            "The run stopped there; its last checkpoint is what remains.",
            "Read the frames above that line; `detperf explain` on this file tells the causes it knows.",
            "https://docs.python.org/3/library/traceback.html", weight=-1,
        ),
        _log(
            "eval-empty", "error", "correctness", "evaluation found nothing",
            "Every evaluation since says empty: the model predicts no object, often since the loss became "
            "0 or NaN.",
            "Look where the loss turned 0 or NaN; check num_classes and the weights that were loaded.",
            "PaddlePaddle/PaddleDetection/issues/3671",
        ),
        _log(
            "workers-many", "warning", "performance", "MindSpore asks for fewer workers",
            "Too many worker processes exhaust the memory.",
            "Set num_workers to the number it names.",
            "mindspore-lab/mindocr/issues/542",
        ),
        _log(
            "framework-error", "error", "correctness", "the framework reported an error",
            "The run stops, or goes on with less data than meant.",
            "See `detperf explain` on this file.",
            "mindspore-lab/mindocr/issues/542",
        ),
        _log(
            "known-error", "error", "correctness", "an error whose cause is known",
            "The run stops there.",
            "See the remedy.",
            "PaddlePaddle/PaddleOCR/issues/9391",
        ),
        _log(
            "restart", "hint", "measurement", "training was started anew within the log",
            "Steps repeat; averages over the whole file mix two runs.",
            "Nothing: each run's start is left out of the steady speed.",
            "PaddlePaddle/PaddleDetection/issues/2712",
        ),
        _log(
            "foreign", "hint", "measurement", "the log is of another suite",
            "It was read as far as its lines say; rules for the hosts do not apply.",
            "Nothing.",
            "WenmuZhou/DBNet.pytorch/issues/59",
        ),
        _log(
            "config-no-workers", "hint", "performance", "the configuration printed in the log has "
                                                        "num_workers 0",
            "The training process itself loads the pictures while the device waits.",
            "Set num_workers to 4 or more.",
            "PaddlePaddle/Paddle/issues/60601",
        ),
        _log(
            "amp-off", "hint", "performance", "the banner says AMP level O0",
            "Everything ran in float32.",
            "On Ascend use O2 with `detperf train`.",
            "mindspore-lab/mindocr/issues/683",
        ),
    )
}  # fmt: skip
